/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/provider.c - a provider: its row made ready, and its keys. */
#include "interop/provider/provider.h"

#include <stdio.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

/* ---- the template of the base string --------------------------------------------------------- */

static const struct {
    const char *word;
    enum iop_base_kind kind;
} words[] = {{"{body}", IOP_BASE_BODY},
             {"{timestamp}", IOP_BASE_TIMESTAMP},
             {"{id}", IOP_BASE_ID},
             {"{url}", IOP_BASE_URL},
             {"{form}", IOP_BASE_FORM}};

/* The piece that begins at p, a word or text up to the next brace. */
static bool read_piece(const char *p, struct iop_base_piece *ret, size_t *ret_len)
{
    if (*p != '{') {
        *ret_len = strcspn(p, "{");
        *ret = (struct iop_base_piece){.kind = IOP_BASE_TEXT, .text = {p, *ret_len}};
        return true;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i].word);

        if (strncmp(p, words[i].word, len) == 0) {
            *ret = (struct iop_base_piece){.kind = words[i].kind};
            *ret_len = len;
            return true;
        }
    }
    return false;
}

static enum ron_rc read_base(struct iop_provider *p, struct ron_err *err)
{
    const char *at = p->scheme.base;

    while (*at != '\0') {
        size_t len = 0;

        if (p->base_count == IOP_BASE_PIECES) {
            return ron_err_set(err, RON_INVALID, "base: too many pieces (limit %d)",
                               (int)IOP_BASE_PIECES);
        }
        if (!read_piece(at, &p->base[p->base_count], &len)) {
            return ron_err_set(
                err, RON_INVALID,
                "base: unknown placeholder; expected {body}, {timestamp}, {id}, {url} or {form}");
        }
        p->base_count++;
        at += len;
    }
    return RON_OK;
}

/* What must be there for the base string to bind the delivery. */
static enum ron_rc check_base(const struct iop_provider *p, struct ron_err *err)
{
    const struct iop_scheme *s = &p->scheme;

    if (!iop__base_has(p, IOP_BASE_BODY) && !iop__base_has(p, IOP_BASE_FORM)) {
        return ron_err_set(err, RON_INVALID, "base: {body} or {form} must be signed");
    }
    if (iop__base_has(p, IOP_BASE_FORM) && !iop__base_has(p, IOP_BASE_URL)) {
        return ron_err_set(err, RON_INVALID,
                           "base: {form} requires {url}, which tells bodies apart");
    }
    if (iop__base_has(p, IOP_BASE_TIMESTAMP) != (s->ts_header != NULL || s->ts_name != NULL)) {
        return ron_err_set(err, RON_INVALID,
                           "base: {timestamp} and the time header require each other");
    }
    if (iop__base_has(p, IOP_BASE_ID) && s->id_header == NULL) {
        return ron_err_set(err, RON_INVALID, "base: {id} requires the id header");
    }
    if (s->form == IOP_FORM_PAIRS && (s->prefix == NULL || s->prefix[0] == '\0')) {
        return ron_err_set(err, RON_INVALID, "pairs require the name of the signature");
    }
    return RON_OK;
}

static enum ron_rc check_names(const struct iop_scheme *s, struct ron_err *err)
{
    const char *headers[] = {s->sig_header, s->sig_alias,    s->ts_header,  s->ts_alias,
                             s->id_header,  s->event_header, s->event_alias};
    const char *pointers[] = {s->ts_pointer, s->id_pointer, s->event_pointer};

    for (size_t i = 0; i < RON_ARRAY_LEN(headers); i++) {
        if (headers[i] != NULL &&
            !ron_http_is_token((struct ron_str){headers[i], strlen(headers[i])})) {
            return ron_err_set(err, RON_INVALID, "invalid header name");
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(pointers); i++) {
        if (pointers[i] != NULL) {
            RON_TRY(iop_pointer_check(pointers[i], err));
        }
    }
    return s->sig_header != NULL ? RON_OK
                                 : ron_err_set(err, RON_INVALID, "signature header is not set");
}

enum ron_rc iop_provider_init(struct iop_provider *p, const char *name,
                              const struct iop_scheme *scheme, struct ron_err *err)
{
    int len;

    memset(p, 0, sizeof *p);
    p->scheme = *scheme;
    p->window_ms = 300000;
    len = snprintf(p->name, sizeof p->name, "%s", name);
    if (len < 0 || (size_t)len >= sizeof p->name) {
        return ron_err_set(err, RON_INVALID, "name too long");
    }
    RON_TRY(check_names(scheme, err));
    RON_TRY(read_base(p, err));
    return check_base(p, err);
}

void iop_provider_done(struct iop_provider *p)
{
    ron_secret_done(&p->verify_token);
    ron_wipe(p->keys, sizeof p->keys);
    p->key_count = 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool take_prefix(struct ron_str *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len < len || memcmp(text->ptr, prefix, len) != 0) {
        return false;
    }
    *text = (struct ron_str){text->ptr + len, text->len - len};
    return true;
}

static enum ron_rc standard_key(struct iop_live_key *key, struct ron_str text, struct ron_err *err)
{
    uint8_t bytes[256];
    size_t len = 0;
    bool public_key = take_prefix(&text, "whpk_");
    bool good;

    if (!public_key) {
        (void)take_prefix(&text, "whsec_");
    }
    good = iop__base64_read(text, bytes, sizeof bytes, &len) &&
           (public_key ? len == sizeof key->public_key : len > 0);
    if (good && public_key) {
        key->alg = IOP_ALG_ED25519;
        memcpy(key->public_key, bytes, len);
    } else if (good) {
        key->alg = IOP_ALG_HMAC;
        iop_mac_key_set(&key->mac, IOP_SHA256, bytes, len);
    }
    ron_wipe(bytes, sizeof bytes);
    return good ? RON_OK
                : ron_err_set(err, RON_INVALID,
                              "invalid secret; expected whsec_ or whpk_ followed by base64");
}

static enum ron_rc make_key(const struct iop_scheme *s, struct iop_live_key *key,
                            struct ron_str text, struct ron_err *err)
{
    switch (s->secret) {
    case IOP_SECRET_TEXT:
        key->alg = IOP_ALG_HMAC;
        iop_mac_key_set(&key->mac, s->hash, text.ptr, text.len);
        return RON_OK;
    case IOP_SECRET_WHSEC:
        return standard_key(key, text, err);
    case IOP_SECRET_PUBLIC:
        key->alg = IOP_ALG_ED25519;
        return iop__decode_exact(IOP_HEX, text, key->public_key, sizeof key->public_key)
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID,
                                 "invalid public key; expected 64 lowercase hexadecimal digits");
    }
    RON_UNREACHABLE();
}

static bool same_key(const struct iop_live_key *a, const struct iop_live_key *b)
{
    if (a->alg != b->alg) {
        return false;
    }
    return a->alg == IOP_ALG_ED25519
               ? iop_same_bytes(a->public_key, b->public_key, sizeof a->public_key)
               : a->mac.hash == b->mac.hash &&
                     iop_same_bytes((const uint8_t *)a->mac._inner, (const uint8_t *)b->mac._inner,
                                    sizeof a->mac._inner);
}

enum ron_rc iop_provider_add_key(struct iop_provider *p, const void *secret, size_t len,
                                 struct ron_err *err)
{
    struct iop_live_key *key = &p->keys[p->key_count];

    if (p->key_count == IOP_KEYS_MAX) {
        return ron_err_set(err, RON_FULL, "too many live secrets (limit %d)", (int)IOP_KEYS_MAX);
    }
    if (len == 0) {
        return ron_err_set(err, RON_INVALID, "empty secret");
    }
    memset(key, 0, sizeof *key);
    RON_TRY(make_key(&p->scheme, key, (struct ron_str){secret, len}, err));
    for (size_t i = 0; i < p->key_count; i++) {
        if (same_key(&p->keys[i], key)) {
            ron_wipe(key, sizeof *key);
            return ron_err_set(err, RON_EXISTS, "both secrets are equal");
        }
    }
    p->key_count++;
    return RON_OK;
}

bool iop_provider_shares_key(const struct iop_provider *a, const struct iop_provider *b)
{
    for (size_t i = 0; i < a->key_count; i++) {
        for (size_t j = 0; j < b->key_count; j++) {
            if (same_key(&a->keys[i], &b->keys[j])) {
                return true;
            }
        }
    }
    return false;
}
