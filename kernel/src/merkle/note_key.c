/* SPDX-License-Identifier: Apache-2.0 */
/* note_key.c - keys of notes as texts and files. */
#include "ron/merkle/note_key.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "merkle/note_priv.h"
#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"
#include "ron/merkle/hash.h"

enum {
    ID_DIGITS = 8,
    TYPED_KEY_BYTES = 1 + RON_NOTE_KEY_BYTES,
    /* "PRIVATE+KEY+", a name of 255, 8 digits, 44 of base64, two pluses and a newline: 322. */
    KEY_FILE_MAX = 512,
    KEY_MODE = 0600,
};

_Static_assert(RON_NOTE_SEED_BYTES == crypto_sign_SEEDBYTES, "an Ed25519 seed");
_Static_assert(RON_NOTE_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "an Ed25519 public key");

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

bool ron_note_name_valid(struct ron_str name)
{
    const char *end = name.ptr + name.len;

    if (name.len == 0 || name.len > RON_NOTE_NAME_MAX) {
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

static uint32_t key_id(const struct ron_note_key *key)
{
    const uint8_t middle[2] = {'\n', (uint8_t)key->type};
    const struct ron_tree_piece pieces[] = {
        {key->name, key->name_len}, {middle, sizeof middle}, {key->public_key, RON_NOTE_KEY_BYTES}};
    struct ron_tree_hash hash;

    ron_tree_hash_pieces(pieces, RON_ARRAY_LEN(pieces), &hash);
    return (uint32_t)hash.bytes[0] << 24 | (uint32_t)hash.bytes[1] << 16 |
           (uint32_t)hash.bytes[2] << 8 | hash.bytes[3];
}

static void set_name(struct ron_note_key *key, struct ron_str name)
{
    memcpy(key->name, name.ptr, name.len);
    key->name[name.len] = '\0';
    key->name_len = (uint8_t)name.len;
}

/* Exactly eight hexadecimal digits; upper case is taken too, as in other implementations. */
static bool read_id(struct ron_str s, uint32_t *ret_id)
{
    uint8_t bytes[4];

    if (!ron_unhex(s, RON_HEX_ANY, bytes, sizeof bytes)) {
        return false;
    }
    *ret_id = ron_get_be32(bytes);
    return true;
}

/* Padded base64 of key bytes by libsodium, whose codec takes constant time: seeds are secret. */
static bool read_key_bytes(struct ron_str s, uint8_t *ret_bytes, size_t room, size_t *ret_len)
{
    /* libsodium 1.0.18 takes every byte above 0x7f for a digit. */
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] > 0x7f) {
            return false;
        }
    }
    /* Without a pointer for the end the library insists on the whole text; it refuses white space,
     * missing padding and bits after the last byte. */
    return s.len > 0 && sodium_base642bin(ret_bytes, room, s.ptr, s.len, NULL, ret_len, NULL,
                                          sodium_base64_VARIANT_ORIGINAL) == 0;
}

static enum ron_rc write_key_bytes(struct ron_buf *out, const uint8_t *bytes, size_t len)
{
    size_t size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
    uint8_t *room;

    RON_TRY(ron_buf_reserve(out, size - 1, &room));
    /* The NUL is written to the byte that every buffer keeps for it. */
    (void)sodium_bin2base64((char *)room, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
    ron_buf_commit(out, size - 1);
    return RON_OK;
}

/* `name+id+base64(type || 32 bytes)`, the form of both kinds of key. */
static enum ron_rc read_parts(struct ron_str text, struct ron_note_key *key,
                              uint8_t ret_bytes[RON_NOTE_KEY_BYTES], struct ron_err *err)
{
    struct ron_str name;
    struct ron_str id;
    struct ron_str rest;
    uint8_t typed[TYPED_KEY_BYTES];
    size_t len = 0;

    if (!ron_str_cut(text, '+', &name, &rest) || !ron_str_cut(rest, '+', &id, &rest) ||
        !ron_note_name_valid(name) || !read_id(id, &key->id)) {
        return ron_err_set(err, RON_CORRUPT, "a key is NAME+ID+BASE64, the id of 8 hex digits");
    }
    if (!read_key_bytes(rest, typed, sizeof typed, &len)) {
        return ron_err_set(err, RON_CORRUPT,
                           "the last part of a key is base64 of at most 33 bytes");
    }
    if (typed[0] != RON_NOTE_ED25519 && typed[0] != RON_NOTE_COSIGNATURE) {
        ron_wipe(typed, sizeof typed);
        return ron_err_set(err, RON_UNSUPPORTED, "keys are of type 1 or 4");
    }
    if (len != TYPED_KEY_BYTES) {
        ron_wipe(typed, sizeof typed);
        return ron_err_set(err, RON_CORRUPT, "an Ed25519 key has 32 bytes");
    }
    set_name(key, name);
    key->type = (enum ron_note_type)typed[0];
    memcpy(ret_bytes, typed + 1, RON_NOTE_KEY_BYTES);
    ron_wipe(typed, sizeof typed);
    return RON_OK;
}

enum ron_rc ron_note_key_read(struct ron_str text, struct ron_note_key *ret_key,
                              struct ron_err *err)
{
    struct ron_note_key key = {0};

    RON_TRY(read_parts(text, &key, key.public_key, err));
    if (key.id != key_id(&key)) {
        return ron_err_set(err, RON_CORRUPT, "the id of the key is not that of its name and bytes");
    }
    *ret_key = key;
    return RON_OK;
}

static enum ron_rc write_parts(const struct ron_note_key *key, const uint8_t *bytes,
                               struct ron_buf *out)
{
    uint8_t typed[TYPED_KEY_BYTES];
    enum ron_rc rc;

    typed[0] = (uint8_t)key->type;
    memcpy(typed + 1, bytes, RON_NOTE_KEY_BYTES);
    rc = ron_buf_append_fmt(out, "%s+%08x+", key->name, key->id);
    if (rc == RON_OK) {
        rc = write_key_bytes(out, typed, sizeof typed);
    }
    ron_wipe(typed, sizeof typed);
    return rc;
}

enum ron_rc ron_note_key_write(const struct ron_note_key *key, struct ron_buf *out)
{
    return write_parts(key, key->public_key, out);
}

static void init_sodium(void)
{
    /* Picks the fastest code once; later calls return at once. Fails only without randomness. */
    RON_ASSERT(sodium_init() >= 0);
}

/* The key pair of the seed; name and type are set. */
static void expand(struct ron_note_signer *signer, const uint8_t *seed)
{
    init_sodium();
    (void)crypto_sign_seed_keypair(signer->key.public_key, signer->secret_key, seed);
}

enum ron_rc ron_note_signer_read(struct ron_str text, struct ron_note_signer *ret_signer,
                                 struct ron_err *err)
{
    struct ron_note_signer signer = {0};
    uint8_t seed[RON_NOTE_SEED_BYTES];

    if (!ron_str_skip(&text, RON_STR_LIT("PRIVATE+KEY+"))) {
        return ron_err_set(err, RON_CORRUPT, "a secret key begins with PRIVATE+KEY+");
    }
    RON_TRY(read_parts(text, &signer.key, seed, err));
    expand(&signer, seed);
    ron_wipe(seed, sizeof seed);
    if (signer.key.id != key_id(&signer.key)) {
        ron_note_signer_done(&signer);
        return ron_err_set(err, RON_CORRUPT, "the id of the key is not that of its name and bytes");
    }
    *ret_signer = signer;
    ron_note_signer_done(&signer);
    return RON_OK;
}

enum ron_rc ron_note_signer_write(const struct ron_note_signer *signer, struct ron_buf *out)
{
    RON_TRY(ron_buf_append_text(out, "PRIVATE+KEY+"));
    /* libsodium keeps the seed in the first half of the secret key. */
    return write_parts(&signer->key, signer->secret_key, out);
}

enum ron_rc ron_note_signer_make(struct ron_str name, enum ron_note_type type,
                                 const uint8_t seed[RON_NOTE_SEED_BYTES],
                                 struct ron_note_signer *ret_signer, struct ron_err *err)
{
    if (!ron_note_name_valid(name)) {
        return ron_err_set(err, RON_INVALID,
                           "a key name has 1 to 255 bytes and no blank, control character or plus");
    }
    RON_ASSERT(type == RON_NOTE_ED25519 || type == RON_NOTE_COSIGNATURE);
    set_name(&ret_signer->key, name);
    ret_signer->key.type = type;
    expand(ret_signer, seed);
    ret_signer->key.id = key_id(&ret_signer->key);
    return RON_OK;
}

void ron_note_signer_done(struct ron_note_signer *signer)
{
    ron_wipe(signer->secret_key, sizeof signer->secret_key);
}

enum ron_rc ron_note_signer_new(const struct ron_env *env, struct ron_str name,
                                struct ron_note_signer *ret_signer, struct ron_err *err)
{
    uint8_t seed[RON_NOTE_SEED_BYTES];
    enum ron_rc rc;

    for (size_t i = 0; i < sizeof seed; i += sizeof(uint64_t)) {
        uint64_t word = env->rand_u64(env);

        memcpy(seed + i, &word, sizeof word);
    }
    rc = ron_note_signer_make(name, RON_NOTE_ED25519, seed, ret_signer, err);
    ron_wipe(seed, sizeof seed);
    return rc;
}

enum ron_rc ron_note_signer_save(const struct ron_env *env, const char *path,
                                 const struct ron_note_signer *signer, struct ron_err *err)
{
    char memory[KEY_FILE_MAX];
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init_over(&text, memory, sizeof memory);
    RON_IGNORE(ron_note_signer_write(signer, &text));
    RON_IGNORE(ron_buf_append_byte(&text, '\n'));
    RON_ASSERT(ron_buf_error(&text) == RON_OK); /* KEY_FILE_MAX */
    rc = ron_file_replace(env, path, ron_buf_data(&text), ron_buf_len(&text), KEY_MODE, err);
    ron_wipe(memory, sizeof memory); /* K2 */
    return rc;
}

enum ron_rc ron_note_signer_load(const struct ron_env *env, const char *path,
                                 struct ron_note_signer *ret_signer, struct ron_err *err)
{
    char text[KEY_FILE_MAX];
    struct ron_note_signer signer = {0};
    size_t len = 0;
    enum ron_rc rc = ron_file_read_private(env, path, text, sizeof text, &len, err);

    if (rc == RON_OK) {
        len -= len > 0 && text[len - 1] == '\n';
        rc = ron_note_signer_read((struct ron_str){.ptr = text, .len = len}, &signer, err);
        if (rc != RON_OK && err != NULL) {
            ron_err_prefix(err, "%s", path);
        }
    }
    ron_wipe(text, sizeof text); /* K2 */
    RON_TRY(rc);
    if (signer.key.type != RON_NOTE_ED25519) {
        ron_note_signer_done(&signer);
        return ron_err_set(err, RON_UNSUPPORTED, "%s: not a key of type 1", path);
    }
    *ret_signer = signer;
    ron_note_signer_done(&signer);
    return RON_OK;
}
