/* SPDX-License-Identifier: Apache-2.0 */
/* led_note_key.c - keys of notes as texts. */
#include "led_note.h"

#include <sodium.h>
#include <stdio.h>

#include "ron/base/assert.h"
#include "ron/base/secret.h"

enum { ID_DIGITS = 8, TYPED_KEY_BYTES = 1 + LED_NOTE_KEY_BYTES };

_Static_assert(LED_NOTE_SEED_BYTES == crypto_sign_SEEDBYTES, "an Ed25519 seed");
_Static_assert(LED_NOTE_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "an Ed25519 public key");

static uint32_t decode(const char *p, size_t len)
{
    const unsigned char *u = (const unsigned char *)p;

    switch (len) {
    case 1:
        return u[0];
    case 2:
        return (u[0] & 0x1fU) << 6 | (u[1] & 0x3fU);
    case 3:
        return (u[0] & 0x0fU) << 12 | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU);
    default:
        return 0x10000; /* no space lies beyond the first plane */
    }
}

/* The property White_Space of Unicode, as far as it is no control character below U+0020. */
static bool is_space(uint32_t c)
{
    return c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool led_note_name_valid(struct ron_str name)
{
    const char *end = name.ptr + name.len;

    if (name.len == 0 || name.len > LED_NOTE_NAME_MAX) {
        return false;
    }
    for (const char *p = name.ptr; p < end;) {
        size_t len = ron_utf8_len(p, end);
        uint32_t c = len == 0 ? 0 : decode(p, len);

        if (c < 0x20 || c == '+' || is_space(c)) {
            return false;
        }
        p += len;
    }
    return true;
}

static uint32_t key_id(const struct led_note_key *key)
{
    const uint8_t middle[2] = {'\n', (uint8_t)key->type};
    const struct led_piece pieces[] = {
        {key->name, key->name_len}, {middle, sizeof middle}, {key->public_key, LED_NOTE_KEY_BYTES}};
    struct led_hash hash;

    led_hash_pieces(pieces, RON_ARRAY_LEN(pieces), &hash);
    return (uint32_t)hash.bytes[0] << 24 | (uint32_t)hash.bytes[1] << 16 |
           (uint32_t)hash.bytes[2] << 8 | hash.bytes[3];
}

static void set_name(struct led_note_key *key, struct ron_str name)
{
    memcpy(key->name, name.ptr, name.len);
    key->name[name.len] = '\0';
    key->name_len = (uint8_t)name.len;
}

/* Exactly eight hexadecimal digits; upper case is taken too, as in other implementations. */
static bool read_id(struct ron_str s, uint32_t *ret_id)
{
    uint8_t bytes[4];
    size_t len;

    if (s.len != ID_DIGITS ||
        sodium_hex2bin(bytes, sizeof bytes, s.ptr, s.len, NULL, &len, NULL) != 0) {
        return false;
    }
    *ret_id =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return true;
}

/* `name+id+base64(type || 32 bytes)`, the form of both kinds of key. */
static enum ron_rc read_parts(struct ron_str text, struct led_note_key *key,
                              uint8_t ret_bytes[LED_NOTE_KEY_BYTES], struct ron_err *err)
{
    struct ron_str name;
    struct ron_str id;
    struct ron_str rest;
    uint8_t typed[TYPED_KEY_BYTES];
    size_t len = 0;

    if (!led_str_cut(text, '+', &name, &rest) || !led_str_cut(rest, '+', &id, &rest) ||
        !led_note_name_valid(name) || !read_id(id, &key->id)) {
        return ron_err_set(err, RON_CORRUPT, "a key is NAME+ID+BASE64, the id of 8 hex digits");
    }
    if (!led_base64_read(rest, typed, sizeof typed, &len)) {
        return ron_err_set(err, RON_CORRUPT,
                           "the last part of a key is base64 of at most 33 bytes");
    }
    if (typed[0] != LED_NOTE_ED25519 && typed[0] != LED_NOTE_COSIGNATURE) {
        ron_wipe(typed, sizeof typed);
        return ron_err_set(err, RON_UNSUPPORTED, "keys are of type 1 or 4");
    }
    if (len != TYPED_KEY_BYTES) {
        ron_wipe(typed, sizeof typed);
        return ron_err_set(err, RON_CORRUPT, "an Ed25519 key has 32 bytes");
    }
    set_name(key, name);
    key->type = (enum led_note_type)typed[0];
    memcpy(ret_bytes, typed + 1, LED_NOTE_KEY_BYTES);
    ron_wipe(typed, sizeof typed);
    return RON_OK;
}

enum ron_rc led_note_key_read(struct ron_str text, struct led_note_key *ret_key,
                              struct ron_err *err)
{
    struct led_note_key key = {0};

    RON_TRY(read_parts(text, &key, key.public_key, err));
    if (key.id != key_id(&key)) {
        return ron_err_set(err, RON_CORRUPT, "the id of the key is not that of its name and bytes");
    }
    *ret_key = key;
    return RON_OK;
}

static enum ron_rc write_parts(const struct led_note_key *key, const uint8_t *bytes,
                               struct ron_buf *out)
{
    uint8_t typed[TYPED_KEY_BYTES];
    enum ron_rc rc;

    typed[0] = (uint8_t)key->type;
    memcpy(typed + 1, bytes, LED_NOTE_KEY_BYTES);
    rc = ron_buf_append_fmt(out, "%s+%08x+", key->name, key->id);
    if (rc == RON_OK) {
        rc = led_base64_write(out, typed, sizeof typed);
    }
    ron_wipe(typed, sizeof typed);
    return rc;
}

enum ron_rc led_note_key_write(const struct led_note_key *key, struct ron_buf *out)
{
    return write_parts(key, key->public_key, out);
}

static void init_sodium(void)
{
    /* Picks the fastest code once; later calls return at once. Fails only without randomness. */
    RON_ASSERT(sodium_init() >= 0);
}

/* The key pair of the seed; name and type are set. */
static void expand(struct led_note_signer *signer, const uint8_t *seed)
{
    init_sodium();
    (void)crypto_sign_seed_keypair(signer->key.public_key, signer->secret_key, seed);
}

enum ron_rc led_note_signer_read(struct ron_str text, struct led_note_signer *ret_signer,
                                 struct ron_err *err)
{
    struct led_note_signer signer = {0};
    uint8_t seed[LED_NOTE_SEED_BYTES];

    if (!led_str_skip(&text, LED_STR("PRIVATE+KEY+"))) {
        return ron_err_set(err, RON_CORRUPT, "a secret key begins with PRIVATE+KEY+");
    }
    RON_TRY(read_parts(text, &signer.key, seed, err));
    expand(&signer, seed);
    ron_wipe(seed, sizeof seed);
    if (signer.key.id != key_id(&signer.key)) {
        led_note_signer_done(&signer);
        return ron_err_set(err, RON_CORRUPT, "the id of the key is not that of its name and bytes");
    }
    *ret_signer = signer;
    led_note_signer_done(&signer);
    return RON_OK;
}

enum ron_rc led_note_signer_write(const struct led_note_signer *signer, struct ron_buf *out)
{
    RON_TRY(ron_buf_append_text(out, "PRIVATE+KEY+"));
    /* libsodium keeps the seed in the first half of the secret key. */
    return write_parts(&signer->key, signer->secret_key, out);
}

enum ron_rc led_note_signer_make(struct ron_str name, enum led_note_type type,
                                 const uint8_t seed[LED_NOTE_SEED_BYTES],
                                 struct led_note_signer *ret_signer, struct ron_err *err)
{
    if (!led_note_name_valid(name)) {
        return ron_err_set(err, RON_INVALID,
                           "a key name has 1 to 255 bytes and no blank, control character or plus");
    }
    RON_ASSERT(type == LED_NOTE_ED25519 || type == LED_NOTE_COSIGNATURE);
    set_name(&ret_signer->key, name);
    ret_signer->key.type = type;
    expand(ret_signer, seed);
    ret_signer->key.id = key_id(&ret_signer->key);
    return RON_OK;
}

void led_note_signer_done(struct led_note_signer *signer)
{
    ron_wipe(signer->secret_key, sizeof signer->secret_key);
}
