/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/sign.c - the headers that make a request a provider's. */
#include "interop/provider/sign.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

/* ---- keys ------------------------------------------------------------------------------------ */

static void set_seed(struct iop_signer *s, const uint8_t seed[32])
{
    uint8_t public_key[32];

    s->alg = IOP_ALG_ED25519;
    (void)crypto_sign_ed25519_seed_keypair(public_key, s->secret_key, seed);
}

/* "whsk_" and base64 of a seed, or of a seed and its public key. */
static bool standard_seed(struct iop_signer *s, struct ron_str text)
{
    uint8_t bytes[64];
    size_t len = 0;
    bool good = iop__base64_read(text, bytes, sizeof bytes, &len) && (len == 32 || len == 64);

    if (good) {
        set_seed(s, bytes);
        good = len == 32 || iop_same_bytes(s->secret_key, bytes, len);
    }
    ron_wipe(bytes, sizeof bytes);
    return good;
}

static bool hex_seed(struct iop_signer *s, struct ron_str text)
{
    uint8_t seed[32];
    bool good = iop__decode_exact(IOP_HEX, text, seed, sizeof seed);

    if (good) {
        set_seed(s, seed);
    }
    ron_wipe(seed, sizeof seed);
    return good;
}

enum ron_rc iop_signer_init(struct iop_signer *s, const struct iop_scheme *scheme,
                            const void *secret, size_t len, struct ron_err *err)
{
    struct ron_str text = {secret, len};

    memset(s, 0, sizeof *s);
    RON_TRY(iop_provider_init(&s->provider, "signer", scheme, err));
    if (scheme->secret == IOP_SECRET_PUBLIC) {
        return hex_seed(s, text)
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID,
                                 "invalid secret key; expected 64 lowercase hex digits");
    }
    if (scheme->secret == IOP_SECRET_WHSEC && len > 5 && memcmp(secret, "whsk_", 5) == 0) {
        return standard_seed(s, (struct ron_str){text.ptr + 5, len - 5})
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID,
                                 "invalid secret; expected whsk_ followed by the base64 of a key");
    }
    RON_TRY(iop_provider_add_key(&s->provider, secret, len, err));
    if (s->provider.keys[0].alg != IOP_ALG_HMAC) {
        iop_signer_done(s);
        return ron_err_set(err, RON_INVALID, "a public key cannot sign");
    }
    s->alg = IOP_ALG_HMAC;
    s->mac = s->provider.keys[0].mac;
    return RON_OK;
}

void iop_signer_done(struct iop_signer *s)
{
    iop_provider_done(&s->provider);
    ron_wipe(&s->mac, sizeof s->mac);
    ron_wipe(s->secret_key, sizeof s->secret_key);
}

/* ---- headers --------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void put(struct iop_signed *out, const char *name,
                                                      const char *fmt, ...)
{
    struct iop_signed_field *f = &out->fields[out->count];
    va_list args;
    int len;

    RON_ASSERT(out->count < IOP_SIGNED_FIELDS);
    len = snprintf(f->name, sizeof f->name, "%s", name);
    RON_ASSERT(len > 0 && (size_t)len < sizeof f->name);
    va_start(args, fmt);
    len = vsnprintf(f->value, sizeof f->value, fmt, args);
    va_end(args);
    RON_ASSERT(len >= 0 && (size_t)len < sizeof f->value);
    out->count++;
}

static enum ron_rc put_id_and_event(const struct iop_scheme *s, const struct iop_to_sign *w,
                                    struct iop_signed *out, struct ron_err *err)
{
    if (s->id_header != NULL) {
        if (!iop__is_visible(w->id, IOP_ID_MAX) || memchr(w->id.ptr, '.', w->id.len) != NULL) {
            return ron_err_set(err, RON_INVALID,
                               "invalid id; it must be set, short enough and without a dot");
        }
        put(out, s->id_header, "%.*s", (int)w->id.len, w->id.ptr);
    }
    if (s->event_header != NULL && w->event.len > 0) {
        if (!iop__is_visible(w->event, IOP_EVENT_MAX)) {
            return ron_err_set(err, RON_INVALID,
                               "invalid event name; it is too long or not printable");
        }
        put(out, s->event_header, "%.*s", (int)w->event.len, w->event.ptr);
    }
    return RON_OK;
}

/* Ed25519 wants its message in one piece. */
static size_t make_sig(const struct iop_signer *s, const struct iop_to_sign *w,
                       const struct iop_base_values *v, uint8_t sig[IOP_SIG_BYTES_MAX])
{
    struct ron_str flat;

    if (s->alg == IOP_ALG_HMAC) {
        iop__base_mac(&s->provider, v, &s->mac, sig);
        return iop_hash_bytes(s->mac.hash);
    }
    flat = iop__base_flat(&s->provider, v, w->scratch, w->scratch_size);
    (void)crypto_sign_ed25519_detached(sig, NULL, (const uint8_t *)flat.ptr, flat.len,
                                       s->secret_key);
    return 64;
}

static void put_sig(const struct iop_signer *s, const char *ts, const uint8_t *sig, size_t len,
                    struct iop_signed *out)
{
    const struct iop_scheme *scheme = &s->provider.scheme;
    char text[2 * IOP_SIG_BYTES_MAX + 1];

    (void)iop__encode(scheme->encoding, sig, len, text, sizeof text);
    switch (scheme->form) {
    case IOP_FORM_ONE:
        put(out, scheme->sig_header, "%s%s", scheme->prefix == NULL ? "" : scheme->prefix, text);
        return;
    case IOP_FORM_PAIRS:
        if (scheme->ts_name != NULL) {
            put(out, scheme->sig_header, "%s=%s,%s=%s", scheme->ts_name, ts, scheme->prefix, text);
        } else {
            put(out, scheme->sig_header, "%s=%s", scheme->prefix, text);
        }
        return;
    case IOP_FORM_WORDS:
        put(out, scheme->sig_header, "%s,%s", s->alg == IOP_ALG_HMAC ? "v1" : "v1a", text);
        return;
    }
}

enum ron_rc iop_sign(const struct iop_signer *s, const struct iop_to_sign *what,
                     struct iop_signed *ret_signed, struct ron_err *err)
{
    const struct iop_scheme *scheme = &s->provider.scheme;
    struct iop_base_values v = {.id = what->id,
                                .url = {what->url, {"", 0}},
                                .body = {what->len > 0 ? what->body : "", what->len}};
    uint8_t sig[IOP_SIG_BYTES_MAX];
    size_t sig_len;
    char ts[24];
    int len = snprintf(ts, sizeof ts, "%lld",
                       (long long)(scheme->ts_ms ? what->now_unix_ms : what->now_unix_ms / 1000));

    RON_ASSERT(len > 0 && (size_t)len < sizeof ts);
    ret_signed->count = 0;
    v.timestamp = (struct ron_str){ts, (size_t)len};
    RON_TRY(put_id_and_event(scheme, what, ret_signed, err));
    if (scheme->ts_header != NULL) {
        put(ret_signed, scheme->ts_header, "%s", ts);
    }
    if (iop__base_has(&s->provider, IOP_BASE_FORM) && what->form &&
        !iop__form_read(v.body, what->scratch, what->scratch_size, &v.form)) {
        return ron_err_set(err, RON_INVALID, "body is not a form");
    }
    sig_len = make_sig(s, what, &v, sig);
    put_sig(s, ts, sig, sig_len, ret_signed);
    ron_wipe(sig, sizeof sig);
    return RON_OK;
}
