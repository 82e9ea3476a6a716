/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - reading and writing both binary forms; the contract is in ron/cap/token.h.
 *
 * Place: cap. This file meets bytes of strangers first.
 *
 * v1 is a sequence of packets: four lower-case hex digits (the length of all of it), a name, one
 * blank, the value, a line feed.
 *
 *     location VALUE  identifier VALUE  { cid VALUE [ vid VALUE  cl VALUE ] }  signature 32 BYTES
 *
 * v2 is the byte 2 and fields of type, length (both varints, shortest form) and value; type 0 ends
 * a section and has no length.
 *
 *     2  [location 1]  identifier 2  0  { [location 1]  identifier 2  [vid 4]  0 }  0  signature 6
 *
 * Invariants
 *   I1 `at` never passes raw_len: every take is preceded by a comparison with what is left.
 *   I2 everything up to the last byte belongs to the token, and nothing stands twice. */
#include <sodium.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

enum { FIELD_END = 0, FIELD_LOCATION = 1, FIELD_IDENTIFIER = 2, FIELD_VID = 4, FIELD_SIG = 6 };
enum { PACKET_HEAD = 4, PACKET_EXTRA = PACKET_HEAD + 2 }; /* length; and blank, line feed */

static struct ron_cap_slice slice(size_t at, size_t len)
{
    return (struct ron_cap_slice){.at = (uint16_t)at, .len = (uint16_t)len};
}

/* T2; the caveat's bytes stand in raw already. */
static enum ron_cap_why keep_caveat(struct ron_cap_token *t, struct ron_cap_slice value)
{
    if (value.len == 0) {
        return RON_CAP_MALFORMED;
    }
    if (t->caveat_count == RON_CAP_CAVEATS_MAX) {
        return RON_CAP_TOO_MANY;
    }
    t->caveats[t->caveat_count++] = value;
    return RON_CAP_OK;
}

/* ---- v1 -------------------------------------------------------------------------------------- */

/* The packet at *at: its name and value; moves *at behind it. */
static bool take_packet(const struct ron_cap_token *t, size_t *at, struct ron_str *ret_name,
                        struct ron_cap_slice *ret_value)
{
    const uint8_t *p = t->raw + *at;
    size_t left = t->raw_len - *at;
    size_t size = 0;
    const uint8_t *blank;

    if (left < PACKET_HEAD) {
        return false;
    }
    for (size_t i = 0; i < PACKET_HEAD; i++) {
        int digit = ron_hex_digit_in((char)p[i], RON_HEX_LOWER);

        if (digit < 0) {
            return false;
        }
        size = size * 16 + (size_t)digit;
    }
    if (size <= PACKET_EXTRA || size > left || p[size - 1] != '\n') { /* I1 */
        return false;
    }
    blank = memchr(p + PACKET_HEAD, ' ', size - PACKET_HEAD - 1);
    if (blank == NULL) {
        return false;
    }
    *ret_name = (struct ron_str){.ptr = (const char *)p + PACKET_HEAD,
                                 .len = (size_t)(blank - p) - PACKET_HEAD};
    *ret_value = slice(*at + (size_t)(blank - p) + 1, size - (size_t)(blank - p) - 2);
    *at += size;
    return true;
}

static bool take_named(const struct ron_cap_token *t, size_t *at, const char *name,
                       struct ron_cap_slice *ret_value)
{
    struct ron_str found;

    return take_packet(t, at, &found, ret_value) && ron_str_is(found, name);
}

static enum ron_cap_why read_v1(struct ron_cap_token *t)
{
    struct ron_str name;
    struct ron_cap_slice value;
    size_t at = 0;

    if (!take_named(t, &at, "location", &t->location) ||
        !take_named(t, &at, "identifier", &t->identifier) || t->identifier.len == 0) {
        return RON_CAP_MALFORMED;
    }
    for (;;) {
        enum ron_cap_why why;

        if (!take_packet(t, &at, &name, &value)) {
            return RON_CAP_MALFORMED;
        }
        if (!ron_str_is(name, "cid")) {
            break;
        }
        why = keep_caveat(t, value);
        if (why != RON_CAP_OK) {
            return why;
        }
    }
    if (ron_str_is(name, "vid") || ron_str_is(name, "cl")) {
        return t->caveat_count > 0 ? RON_CAP_THIRD_PARTY : RON_CAP_MALFORMED;
    }
    if (!ron_str_is(name, "signature") || value.len != RON_CAP_SIG_BYTES || at != t->raw_len) {
        return RON_CAP_MALFORMED; /* I2 */
    }
    memcpy(t->signature, t->raw + value.at, RON_CAP_SIG_BYTES);
    return RON_CAP_OK;
}

/* ---- v2 -------------------------------------------------------------------------------------- */

/* A number below 2^14 in its shortest form: no token has a longer field. */
static bool take_varint(const struct ron_cap_token *t, size_t *at, size_t *ret_number)
{
    const uint8_t *p = t->raw + *at;
    size_t left = t->raw_len - *at;

    if (left >= 1 && p[0] < 0x80) {
        *ret_number = p[0];
        *at += 1;
        return true;
    }
    if (left >= 2 && p[1] < 0x80 && p[1] != 0) {
        *ret_number = (size_t)(p[0] & 0x7f) | (size_t)p[1] << 7;
        *at += 2;
        return true;
    }
    return false;
}

static bool at_field(const struct ron_cap_token *t, size_t at, uint8_t type)
{
    return at < t->raw_len && t->raw[at] == type;
}

/* The field at *at if it has this type. */
static bool take_field(const struct ron_cap_token *t, size_t *at, uint8_t type,
                       struct ron_cap_slice *ret_value)
{
    size_t pos = *at + 1;
    size_t len = 0;

    if (!at_field(t, *at, type) || !take_varint(t, &pos, &len) || len > t->raw_len - pos) { /* I1 */
        return false;
    }
    *ret_value = slice(pos, len);
    *at = pos + len;
    return true;
}

static bool take_end(const struct ron_cap_token *t, size_t *at)
{
    if (!at_field(t, *at, FIELD_END)) {
        return false;
    }
    *at += 1;
    return true;
}

static enum ron_cap_why read_v2(struct ron_cap_token *t)
{
    struct ron_cap_slice value;
    size_t at = 1;

    if (at_field(t, at, FIELD_LOCATION) && !take_field(t, &at, FIELD_LOCATION, &t->location)) {
        return RON_CAP_MALFORMED;
    }
    if (!take_field(t, &at, FIELD_IDENTIFIER, &t->identifier) || t->identifier.len == 0 ||
        !take_end(t, &at)) {
        return RON_CAP_MALFORMED;
    }
    while (!take_end(t, &at)) {
        enum ron_cap_why why;

        if (at_field(t, at, FIELD_LOCATION)) {
            return RON_CAP_THIRD_PARTY; /* only they have one */
        }
        if (!take_field(t, &at, FIELD_IDENTIFIER, &value)) {
            return RON_CAP_MALFORMED;
        }
        if (at_field(t, at, FIELD_VID)) {
            return RON_CAP_THIRD_PARTY;
        }
        if (!take_end(t, &at)) {
            return RON_CAP_MALFORMED;
        }
        why = keep_caveat(t, value);
        if (why != RON_CAP_OK) {
            return why;
        }
    }
    if (!take_field(t, &at, FIELD_SIG, &value) || value.len != RON_CAP_SIG_BYTES ||
        at != t->raw_len) {
        return RON_CAP_MALFORMED; /* I2 */
    }
    memcpy(t->signature, t->raw + value.at, RON_CAP_SIG_BYTES);
    return RON_CAP_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Fields are set by the readers; raw needs no zeros. */
static void reset(struct ron_cap_token *t)
{
    memset(t, 0, offsetof(struct ron_cap_token, raw));
}

enum ron_cap_why ron_cap_token_read(const char *text, size_t len, struct ron_cap_token *ret_token)
{
    struct ron_cap_token *t = ret_token;
    int variant;
    size_t raw_len = 0;

    if (len == 0) {
        return RON_CAP_MISSING;
    }
    if (len > RON_CAP_TEXT_MAX) {
        return RON_CAP_TOO_LARGE;
    }
    if (text[0] == '{' || text[0] == '[') {
        return RON_CAP_VERSION;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] > 0x7f) {
            return RON_CAP_MALFORMED; /* libsodium 1.0.18 takes such bytes for digits */
        }
    }
    reset(t);
    variant = text[len - 1] == '=' ? sodium_base64_VARIANT_URLSAFE
                                   : sodium_base64_VARIANT_URLSAFE_NO_PADDING;
    /* Takes the alphabet alone, whole padding and zero bits at the end: one text for given bytes,
     * up to padding. */
    if (sodium_base642bin(t->raw, sizeof t->raw, text, len, NULL, &raw_len, NULL, variant) != 0 ||
        raw_len == 0) {
        return RON_CAP_MALFORMED;
    }
    t->raw_len = (uint16_t)raw_len;
    if (t->raw[0] == 2) {
        t->form = RON_CAP_V2;
        return read_v2(t);
    }
    if (ron_hex_digit_in((char)t->raw[0], RON_HEX_LOWER) >= 0) {
        t->form = RON_CAP_V1;
        return read_v1(t);
    }
    return t->raw[0] == '{' || t->raw[0] == '[' ? RON_CAP_VERSION : RON_CAP_MALFORMED;
}

/* Puts bytes behind those that are there. */
static bool store(struct ron_cap_token *t, struct ron_str bytes, struct ron_cap_slice *ret_slice)
{
    if (bytes.len > (size_t)RON_CAP_RAW_MAX - t->raw_len) {
        return false;
    }
    *ret_slice = slice(t->raw_len, bytes.len);
    if (bytes.len > 0) {
        memcpy(t->raw + t->raw_len, bytes.ptr, bytes.len);
    }
    t->raw_len = (uint16_t)(t->raw_len + bytes.len);
    return true;
}

static void hmac(const uint8_t key[RON_CAP_SIG_BYTES], const void *bytes, size_t len,
                 uint8_t ret_mac[RON_CAP_SIG_BYTES])
{
    /* Fails for no input. */
    (void)crypto_auth_hmacsha256(ret_mac, bytes, len, key);
}

enum ron_cap_why ron_cap_token_make(enum ron_cap_form form, struct ron_str location,
                                    struct ron_str identifier,
                                    const uint8_t root[RON_CAP_SIG_BYTES],
                                    struct ron_cap_token *ret_token)
{
    struct ron_cap_token *t = ret_token;

    if (identifier.len == 0) {
        return RON_CAP_MALFORMED;
    }
    reset(t);
    t->form = form;
    if (!store(t, location, &t->location) || !store(t, identifier, &t->identifier)) {
        return RON_CAP_TOO_LARGE;
    }
    hmac(root, identifier.ptr, identifier.len, t->signature);
    return RON_CAP_OK;
}

enum ron_cap_why ron_cap_token_add(struct ron_cap_token *token, struct ron_str caveat)
{
    struct ron_cap_slice kept;

    if (caveat.len == 0) {
        return RON_CAP_MALFORMED;
    }
    if (token->caveat_count == RON_CAP_CAVEATS_MAX) {
        return RON_CAP_TOO_MANY;
    }
    if (!store(token, caveat, &kept)) {
        return RON_CAP_TOO_LARGE;
    }
    token->caveats[token->caveat_count++] = kept;
    hmac(token->signature, caveat.ptr, caveat.len, token->signature);
    return RON_CAP_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_packet(struct ron_buf *raw, const char *name, const void *value, size_t len)
{
    ron_buf_append_fmt(raw, "%04zx%s ", strlen(name) + len + PACKET_EXTRA, name);
    ron_buf_append(raw, value, len);
    ron_buf_append_byte(raw, '\n');
}

static void put_field(struct ron_buf *raw, uint8_t type, const void *value, size_t len)
{
    RON_ASSERT(len < (size_t)1 << 14); /* raw has fewer bytes */
    ron_buf_append_byte(raw, type);
    if (len >= 0x80) {
        ron_buf_append_byte(raw, (uint8_t)(0x80 | (len & 0x7f)));
        ron_buf_append_byte(raw, (uint8_t)(len >> 7));
    } else {
        ron_buf_append_byte(raw, (uint8_t)len);
    }
    ron_buf_append(raw, value, len);
}

static void write_v1(const struct ron_cap_token *t, struct ron_buf *raw)
{
    put_packet(raw, "location", t->raw + t->location.at, t->location.len);
    put_packet(raw, "identifier", t->raw + t->identifier.at, t->identifier.len);
    for (size_t i = 0; i < t->caveat_count; i++) {
        put_packet(raw, "cid", t->raw + t->caveats[i].at, t->caveats[i].len);
    }
    put_packet(raw, "signature", t->signature, RON_CAP_SIG_BYTES);
}

static void write_v2(const struct ron_cap_token *t, struct ron_buf *raw)
{
    ron_buf_append_byte(raw, 2);
    if (t->location.len > 0) {
        put_field(raw, FIELD_LOCATION, t->raw + t->location.at, t->location.len);
    }
    put_field(raw, FIELD_IDENTIFIER, t->raw + t->identifier.at, t->identifier.len);
    ron_buf_append_byte(raw, FIELD_END);
    for (size_t i = 0; i < t->caveat_count; i++) {
        put_field(raw, FIELD_IDENTIFIER, t->raw + t->caveats[i].at, t->caveats[i].len);
        ron_buf_append_byte(raw, FIELD_END);
    }
    ron_buf_append_byte(raw, FIELD_END);
    put_field(raw, FIELD_SIG, t->signature, RON_CAP_SIG_BYTES);
}

enum ron_rc ron_cap_token_write(const struct ron_cap_token *token, struct ron_buf *out)
{
    uint8_t memory[RON_CAP_RAW_MAX + 1];
    struct ron_buf raw;
    uint8_t *room = NULL;
    size_t size;
    char *text;

    ron_buf_init_over(&raw, memory, sizeof memory);
    if (token->form == RON_CAP_V2) {
        write_v2(token, &raw);
    } else {
        write_v1(token, &raw);
    }
    RON_TRY(ron_buf_error(&raw));
    size = sodium_base64_ENCODED_LEN(ron_buf_len(&raw), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    RON_TRY(ron_buf_reserve(out, size, &room));
    text = sodium_bin2base64((char *)room, size, ron_buf_data(&raw), ron_buf_len(&raw),
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    RON_ASSERT(text != NULL);
    ron_buf_commit(out, size - 1); /* without its NUL */
    return RON_OK;
}

/* ---- chain ----------------------------------------------------------------------------------- */

void ron_cap_root(const void *key, size_t len, uint8_t ret_root[RON_CAP_SIG_BYTES])
{
    static const uint8_t generator[RON_CAP_SIG_BYTES] = "macaroons-key-generator";

    hmac(generator, key, len, ret_root);
}

bool ron_cap_token_signed_by(const struct ron_cap_token *token,
                             const uint8_t root[RON_CAP_SIG_BYTES])
{
    uint8_t sig[RON_CAP_SIG_BYTES];
    bool same;

    hmac(root, token->raw + token->identifier.at, token->identifier.len, sig);
    for (size_t i = 0; i < token->caveat_count; i++) {
        hmac(sig, token->raw + token->caveats[i].at, token->caveats[i].len, sig);
    }
    same = sodium_memcmp(sig, token->signature, sizeof sig) == 0;
    sodium_memzero(sig, sizeof sig); /* the right signature for a token somebody forged */
    return same;
}
