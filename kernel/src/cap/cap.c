/* SPDX-License-Identifier: Apache-2.0 */
/* cap.c - mint, attenuate, verify; the contract is in ron/cap/cap.h.
 *
 * Place: cap. No state.
 *
 * Invariants
 *   I1 caveats are looked at only after the signature was found good: a stranger learns nothing
 *      from them.
 *   I2 no message contains a token, a signature or a key. Messages of mint and attenuate show the
 *      caveat that the caller wrote. */
#include <blake3.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "ron/base/assert.h"
#include "ron/base/ulid.h"

static const char id_head[] = "ron1.";
enum { ID_HEAD_LEN = sizeof id_head - 1 };

void ron_cap_log_id(const char *text, size_t len, char ret_id[RON_CAP_LOG_ID_SIZE])
{
    blake3_hasher h;
    uint8_t hash[(RON_CAP_LOG_ID_SIZE - 1) / 2];

    blake3_hasher_init(&h);
    blake3_hasher_update(&h, text, len);
    blake3_hasher_finalize(&h, hash, sizeof hash);
    (void)sodium_bin2hex(ret_id, RON_CAP_LOG_ID_SIZE, hash, sizeof hash);
}

bool ron_cap_id_split(struct ron_str identifier, struct ron_str *ret_key_id,
                      struct ron_str *ret_nonce)
{
    struct ron_str key_id = {.ptr = identifier.ptr + ID_HEAD_LEN};
    struct ron_str nonce;
    const char *dot;

    if (identifier.len <= ID_HEAD_LEN || memcmp(identifier.ptr, id_head, ID_HEAD_LEN) != 0) {
        return false;
    }
    dot = memchr(key_id.ptr, '.', identifier.len - ID_HEAD_LEN);
    if (dot == NULL) {
        return false;
    }
    key_id.len = (size_t)(dot - key_id.ptr);
    nonce = (struct ron_str){.ptr = dot + 1, .len = identifier.len - ID_HEAD_LEN - key_id.len - 1};
    if (!ron_cap_key_id_valid(key_id) || nonce.len == 0 || nonce.len > RON_CAP_NONCE_MAX) {
        return false;
    }
    for (size_t i = 0; i < nonce.len; i++) {
        char c = nonce.ptr[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-') {
            return false;
        }
    }
    *ret_key_id = key_id;
    *ret_nonce = nonce;
    return true;
}

/* ---- mint and attenuate ---------------------------------------------------------------------- */

static enum ron_rc rc_of(enum ron_cap_why why, struct ron_err *err)
{
    if (why == RON_CAP_OK) {
        return RON_OK;
    }
    return ron_err_set(
        err, why == RON_CAP_TOO_LARGE || why == RON_CAP_TOO_MANY ? RON_LIMIT : RON_INVALID, "%s",
        ron_cap_why_doc(why));
}

static enum ron_rc add_caveats(struct ron_cap_token *t, const struct ron_str *caveats, size_t count,
                               struct ron_err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct ron_cap_caveat c;
        int shown = (int)RON_MIN(caveats[i].len, (size_t)64);
        enum ron_cap_why why = ron_cap_caveat_parse(caveats[i].ptr, caveats[i].len, &c);

        if (why != RON_CAP_OK) {
            return ron_err_set(err, RON_INVALID, "caveat '%.*s': %s", shown, caveats[i].ptr,
                               why == RON_CAP_UNKNOWN_CAVEAT ? "there is no such kind"
                                                             : "the value is not well formed");
        }
        RON_TRY(rc_of(ron_cap_token_add(t, caveats[i]), err));
    }
    return RON_OK;
}

static enum ron_rc write_out(const struct ron_cap_token *t, struct ron_buf *out,
                             struct ron_err *err)
{
    enum ron_rc rc = ron_cap_token_write(t, out);

    return rc == RON_OK
               ? RON_OK
               : ron_err_set(err, rc, rc == RON_NOMEM ? "no memory" : "the token is too long");
}

enum ron_rc ron_cap_mint(const struct ron_cap_keys *keys, const struct ron_env *env,
                         const struct ron_cap_mint_opts *opts, struct ron_buf *out,
                         struct ron_err *err)
{
    const struct cap_key *key;
    struct ron_str location = opts->location;
    struct ron_cap_token t;
    struct ron_ulid ulid;
    char nonce[RON_ULID_TEXT_SIZE];
    char id[RON_CAP_ID_MAX + 1];
    uint8_t random[RON_ULID_RANDOM_BYTES];
    int id_len;

    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    key = &keys->keys[keys->count - 1];
    if (location.len == 0) {
        location = (struct ron_str){.ptr = "ron", .len = 3};
    }
    if (location.len > RON_CAP_LOCATION_MAX) {
        return ron_err_set(err, RON_LIMIT, "the location is longer than %d bytes",
                           (int)RON_CAP_LOCATION_MAX);
    }
    ron__cap_random(env, random, sizeof random);
    ulid = ron_ulid_make(ron_env_wall_ms(env), random);
    ron_ulid_format(&ulid, nonce);
    id_len = snprintf(id, sizeof id, "%s%s.%s", id_head, key->info.id, nonce);
    RON_ASSERT(id_len > 0 && (size_t)id_len < sizeof id);
    RON_TRY(
        rc_of(ron_cap_token_make(opts->form == 0 ? RON_CAP_V1 : opts->form, location,
                                 (struct ron_str){.ptr = id, .len = (size_t)id_len}, key->root, &t),
              err));
    RON_TRY(add_caveats(&t, opts->caveats, opts->caveat_count, err));
    return write_out(&t, out, err);
}

enum ron_rc ron_cap_attenuate(struct ron_str token, enum ron_cap_form form,
                              const struct ron_str *caveats, size_t caveat_count,
                              struct ron_buf *out, struct ron_err *err)
{
    struct ron_cap_token t;

    RON_TRY(rc_of(ron_cap_token_read(token.ptr, token.len, &t), err));
    RON_TRY(add_caveats(&t, caveats, caveat_count, err));
    t.form = form == 0 ? t.form : form;
    return write_out(&t, out, err);
}

/* ---- verify ---------------------------------------------------------------------------------- */

enum ron_cap_why ron__cap_check_chain(const struct ron_cap_keys *keys,
                                      const struct ron_cap_token *token)
{
    struct ron_str key_id;
    struct ron_str nonce;
    const struct cap_key *key;

    if (!ron_cap_id_split(ron_cap_str(token, token->identifier), &key_id, &nonce)) {
        return RON_CAP_UNKNOWN_KEY;
    }
    key = ron__cap_keys_find(keys, key_id);
    if (key == NULL) {
        return RON_CAP_UNKNOWN_KEY;
    }
    return ron_cap_token_signed_by(token, key->root) ? RON_CAP_OK : RON_CAP_SIGNATURE;
}

static void copy_str(char *to, struct ron_str from)
{
    memcpy(to, from.ptr, from.len);
    to[from.len] = '\0';
}

void ron__cap_fill_info(const struct ron_cap_token *token, struct ron_str text,
                        struct ron_cap_info *ret_info)
{
    struct ron_str id = ron_cap_str(token, token->identifier);
    struct ron_str key_id = {0};
    struct ron_str nonce = {0};
    bool ours = ron_cap_id_split(id, &key_id, &nonce);

    RON_ASSERT(ours); /* the chain was found good, so the identifier is bounded */
    ron_cap_log_id(text.ptr, text.len, ret_info->log_id);
    copy_str(ret_info->id, id);
    copy_str(ret_info->key_id, key_id);
    ret_info->exp_s = UINT64_MAX;
}

enum ron_cap_why ron_cap_verify_signature(const struct ron_cap_keys *keys, struct ron_str token)
{
    struct ron_cap_token t;
    enum ron_cap_why why = ron_cap_token_read(token.ptr, token.len, &t);

    return why == RON_CAP_OK ? ron__cap_check_chain(keys, &t) : why;
}

enum ron_cap_why ron_cap_verify(const struct ron_cap_keys *keys, struct ron_str token,
                                const struct ron_cap_request *request,
                                struct ron_cap_info *ret_info)
{
    struct ron_cap_token t;
    struct ron_cap_item items[RON_CAP_CAVEATS_MAX];
    struct ron_cap_grant grant;
    enum ron_cap_why why = ron_cap_token_read(token.ptr, token.len, &t);

    if (why == RON_CAP_OK) {
        why = ron__cap_check_chain(keys, &t); /* I1 */
    }
    if (why != RON_CAP_OK) {
        return why;
    }
    if (ret_info != NULL) {
        ron__cap_fill_info(&t, token, ret_info);
    }
    why = ron__cap_compile(&t, items, &grant);
    if (why != RON_CAP_OK) {
        return why;
    }
    if (ret_info != NULL) {
        ret_info->exp_s = grant.exp_s;
    }
    return ron__cap_allows(&grant, request);
}

enum ron_cap_why ron_cap_grant_read(struct ron_str token, struct ron_arena *arena,
                                    struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info)
{
    struct ron_cap_token t;
    struct ron_cap_item items[RON_CAP_CAVEATS_MAX];
    struct ron_cap_grant grant;
    struct ron_str key_id;
    struct ron_str nonce;
    enum ron_cap_why why = ron_cap_token_read(token.ptr, token.len, &t);

    if (why != RON_CAP_OK) {
        return why;
    }
    if (!ron_cap_id_split(ron_cap_str(&t, t.identifier), &key_id, &nonce)) {
        return RON_CAP_UNKNOWN_KEY;
    }
    why = ron__cap_compile(&t, items, &grant);
    if (why != RON_CAP_OK) {
        return why;
    }
    ron__cap_fill_info(&t, token, ret_info);
    ret_info->exp_s = grant.exp_s;
    return ron__cap_grant_copy(&grant, arena, ret_grant);
}

/* ---- header ---------------------------------------------------------------------------------- */

/* A-Z, a-z, 0-9, '-' and '_': every request brings some hundred of them, so each costs one look. */
static const bool token_char[256] = {
    ['A'] = true, ['B'] = true, ['C'] = true, ['D'] = true, ['E'] = true, ['F'] = true,
    ['G'] = true, ['H'] = true, ['I'] = true, ['J'] = true, ['K'] = true, ['L'] = true,
    ['M'] = true, ['N'] = true, ['O'] = true, ['P'] = true, ['Q'] = true, ['R'] = true,
    ['S'] = true, ['T'] = true, ['U'] = true, ['V'] = true, ['W'] = true, ['X'] = true,
    ['Y'] = true, ['Z'] = true, ['a'] = true, ['b'] = true, ['c'] = true, ['d'] = true,
    ['e'] = true, ['f'] = true, ['g'] = true, ['h'] = true, ['i'] = true, ['j'] = true,
    ['k'] = true, ['l'] = true, ['m'] = true, ['n'] = true, ['o'] = true, ['p'] = true,
    ['q'] = true, ['r'] = true, ['s'] = true, ['t'] = true, ['u'] = true, ['v'] = true,
    ['w'] = true, ['x'] = true, ['y'] = true, ['z'] = true, ['0'] = true, ['1'] = true,
    ['2'] = true, ['3'] = true, ['4'] = true, ['5'] = true, ['6'] = true, ['7'] = true,
    ['8'] = true, ['9'] = true, ['-'] = true, ['_'] = true,
};

enum ron_cap_why ron_cap_bearer(struct ron_str value, struct ron_str *ret_token)
{
    static const char scheme[] = "bearer ";
    enum { SCHEME_LEN = sizeof scheme - 1 };
    struct ron_str token;
    bool good = true;
    size_t plain;
    size_t i = 0;

    if (value.len == 0) {
        return RON_CAP_MISSING;
    }
    for (i = 0; i < SCHEME_LEN; i++) {
        if (i == value.len || (value.ptr[i] | 0x20) != scheme[i]) {
            return RON_CAP_SCHEME;
        }
    }
    if (value.ptr[SCHEME_LEN - 1] != ' ') {
        return RON_CAP_SCHEME; /* NUL | 0x20 is a blank too */
    }
    token = (struct ron_str){.ptr = value.ptr + SCHEME_LEN, .len = value.len - SCHEME_LEN};
    if (token.len == 0) {
        return RON_CAP_MISSING;
    }
    if (token.len > RON_CAP_TEXT_MAX) {
        return RON_CAP_TOO_LARGE;
    }
    for (plain = token.len; plain > 0 && token.ptr[plain - 1] == '=';) {
        plain--;
    }
    for (i = 0; i < plain; i++) {
        good &= token_char[(uint8_t)token.ptr[i]];
    }
    if (!good) {
        return RON_CAP_MALFORMED;
    }
    *ret_token = token;
    return RON_CAP_OK;
}
