/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/body.c - the signature over the bytes as received, and then what the body says.
 *
 * Order: what is signed -> each live key against each signature -> only then id, event, time and
 * challenge out of the body (V6). */
#include <sodium.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

/* ---- what is signed -------------------------------------------------------------------------- */

enum { SHA256_HEX = 64 };

/* Twilio names the hash of a body that is no form in the signed URL. */
static enum ron_rc body_hash(const struct iop_message *m, char out[SHA256_HEX + 1],
                             struct ron_str *ret)
{
    struct ron_str path;
    struct ron_str query;

    if (!ron_http_split_target(m->target, &path, &query) || query.ptr == NULL) {
        return RON_NOTFOUND;
    }
    return ron_http_query_get(query, "bodySHA256", out, SHA256_HEX + 1, ret);
}

/* Fills the form, or checks that the URL vouches for the body instead. */
static enum iop_refusal read_form(const struct iop_message *m, const struct iop_delivery *d,
                                  struct iop_base_values *v)
{
    char text[SHA256_HEX + 1];
    struct ron_str hex = {NULL, 0};
    enum ron_rc rc = body_hash(m, text, &hex);

    if (rc == RON_NOTFOUND) {
        if (!d->form && m->len > 0) {
            return IOP_REFUSE_BODY_FORM; /* nothing would bind these bytes */
        }
        return iop__form_read(v->body, m->scratch, m->scratch_size, &v->form)
                   ? IOP_REFUSE_NONE
                   : IOP_REFUSE_BODY_FORM;
    }
    if (rc != RON_OK) {
        return IOP_REFUSE_BODY_FORM;
    }
    {
        uint8_t said[32];
        uint8_t is[32];

        if (!iop__decode_exact(IOP_HEX, hex, said, sizeof said)) {
            return IOP_REFUSE_BODY_FORM;
        }
        iop_sha256(m->body, m->len, is);
        return iop_same_bytes(said, is, sizeof is) ? IOP_REFUSE_NONE : IOP_REFUSE_SIG_WRONG;
    }
}

static enum iop_refusal collect(const struct iop_provider *p, const struct iop_message *m,
                                const struct iop_delivery *d, struct iop_base_values *ret)
{
    *ret = (struct iop_base_values){.timestamp = {d->ts, d->ts_len},
                                    .id = {d->id, d->id_len},
                                    .url = {p->public_url, m->target},
                                    .body = {m->len > 0 ? m->body : "", m->len}};
    return iop__base_has(p, IOP_BASE_FORM) ? read_form(m, d, ret) : IOP_REFUSE_NONE;
}

/* ---- the signature --------------------------------------------------------------------------- */

/* Against all signatures, without stopping at one (V4). */
static bool mac_matches(const struct iop_provider *p, const struct iop_live_key *key,
                        const struct iop_base_values *v, const struct iop_delivery *d)
{
    size_t len = iop_hash_bytes(key->mac.hash);
    uint8_t mac[IOP_MAC_BYTES_MAX];
    uint32_t hits = 0;

    iop__base_mac(p, v, &key->mac, mac);
    for (size_t i = 0; i < d->sig_count; i++) {
        hits |= (uint32_t)(d->sigs[i].alg == IOP_ALG_HMAC &&
                           iop_same_bytes(mac, d->sigs[i].bytes, len));
    }
    ron_wipe(mac, sizeof mac); /* the right signature of somebody's forgery */
    return hits != 0;
}

static bool ed25519_matches(const struct iop_live_key *key, struct ron_str flat,
                            const struct iop_delivery *d)
{
    for (size_t i = 0; i < d->sig_count; i++) {
        if (d->sigs[i].alg == IOP_ALG_ED25519 &&
            crypto_sign_ed25519_verify_detached(d->sigs[i].bytes, (const uint8_t *)flat.ptr,
                                                flat.len, key->public_key) == 0) {
            return true;
        }
    }
    return false;
}

static enum iop_refusal match(const struct iop_provider *p, const struct iop_message *m,
                              const struct iop_base_values *v, struct iop_delivery *d)
{
    struct ron_str flat = {NULL, 0};

    for (size_t i = 0; i < p->key_count; i++) {
        const struct iop_live_key *key = &p->keys[i];
        bool hit;

        if (key->alg == IOP_ALG_ED25519) {
            if (flat.ptr == NULL) {
                flat = iop__base_flat(p, v, m->scratch, m->scratch_size);
            }
            hit = ed25519_matches(key, flat, d);
        } else {
            hit = mac_matches(p, key, v, d);
        }
        if (hit) {
            d->key_index = (uint32_t)i;
            d->sig_alg = key->alg == IOP_ALG_ED25519 ? "ed25519" : iop_hash_label(key->mac.hash);
            return IOP_REFUSE_NONE;
        }
    }
    return IOP_REFUSE_SIG_WRONG;
}

static void add_b3(void *arg, const void *bytes, size_t len)
{
    ron_b3_update(arg, bytes, len);
}

/* Where more or less than the body's bytes is signed: a form in any order has one signature, so
 * de-duplication must not tell its orders apart. */
static void hash_canonical(const struct iop_provider *p, const struct iop_base_values *v,
                           struct iop_delivery *d)
{
    struct ron_b3_hasher h;

    if (!iop__base_has(p, IOP_BASE_FORM) && !iop__base_has(p, IOP_BASE_URL)) {
        return;
    }
    ron_b3_init(&h);
    iop__base_walk(p, v, add_b3, &h);
    ron_b3_final(&h, &d->canonical);
    d->has_canonical = true;
}

/* ---- what the body says ---------------------------------------------------------------------- */

/* A short visible text at a pointer. NONE with *ret_len 0 when there is no such value. */
static enum iop_refusal read_text(const struct iop_doc *doc, const char *pointer, char *out,
                                  size_t size, enum iop_refusal malformed, size_t *ret_len)
{
    struct iop_value value;
    size_t len = 0;

    switch (iop_pointer_find(doc, pointer, &value)) {
    case IOP_MISSING:
        return IOP_REFUSE_NONE;
    case IOP_TWICE:
        return malformed;
    case IOP_FOUND:
        break;
    }
    if (value.kind == IOP_NULL) {
        return IOP_REFUSE_NONE;
    }
    if ((value.kind != IOP_STRING && value.kind != IOP_NUMBER) ||
        iop_value_text(&value, out, size, &len) != RON_OK ||
        !iop__is_visible((struct ron_str){out, len}, size)) {
        return malformed;
    }
    *ret_len = len;
    return IOP_REFUSE_NONE;
}

static enum iop_refusal read_time(const struct iop_provider *p, const struct iop_doc *doc,
                                  int64_t now_ms, struct iop_delivery *d)
{
    struct iop_value value;

    switch (iop_pointer_find(doc, p->scheme.ts_pointer, &value)) {
    case IOP_MISSING:
        return IOP_REFUSE_TIME_MISSING;
    case IOP_TWICE:
        return IOP_REFUSE_TIME_FORM;
    case IOP_FOUND:
        break;
    }
    return value.kind == IOP_NUMBER || value.kind == IOP_STRING
               ? iop__check_time(p, value.raw, now_ms, &d->ts_unix_ms)
               : IOP_REFUSE_TIME_FORM;
}

static enum iop_refusal read_body(const struct iop_provider *p, const struct iop_message *m,
                                  struct iop_delivery *d)
{
    const struct iop_scheme *s = &p->scheme;
    bool wants_id = s->id_pointer != NULL && d->id_len == 0;
    bool wants_event = s->event_pointer != NULL && d->event_len == 0;
    enum iop_refusal refusal = IOP_REFUSE_NONE;
    struct iop_doc doc;

    if (!wants_id && !wants_event && s->ts_pointer == NULL && s->challenge == IOP_CHALLENGE_NONE) {
        return IOP_REFUSE_NONE;
    }
    (void)iop_doc_init(&doc, m->body, m->len); /* no JSON: nothing is found in it */
    if (s->ts_pointer != NULL) {
        refusal = read_time(p, &doc, m->now_unix_ms, d);
    }
    if (refusal == IOP_REFUSE_NONE && wants_id) {
        refusal =
            read_text(&doc, s->id_pointer, d->id, sizeof d->id, IOP_REFUSE_ID_FORM, &d->id_len);
        d->id_signed = d->id_len > 0;
    }
    if (refusal == IOP_REFUSE_NONE && wants_event) {
        refusal = read_text(&doc, s->event_pointer, d->event, sizeof d->event,
                            IOP_REFUSE_EVENT_FORM, &d->event_len);
    }
    return refusal != IOP_REFUSE_NONE ? refusal
                                      : iop__challenge(p, &p->keys[d->key_index], &doc, &d->answer);
}

/* ---- the two entries ------------------------------------------------------------------------- */

enum iop_refusal iop_check_body(const struct iop_provider *p, const struct iop_message *m,
                                struct iop_delivery *d)
{
    struct iop_base_values v;
    enum iop_refusal refusal = collect(p, m, d, &v);

    RON_ASSERT_MSG(d->sig_count > 0, "V1: the head has brought a signature");
    RON_ASSERT(d->sig_count <= IOP_SIGS_MAX);
    RON_ASSERT_MSG(p->key_count > 0, "V2: a provider without a key takes no delivery");
    if (refusal == IOP_REFUSE_NONE) {
        refusal = match(p, m, &v, d);
    }
    if (refusal != IOP_REFUSE_NONE) {
        return refusal;
    }
    RON_ASSERT_MSG(d->sig_alg != NULL, "V6: the body is read after its signature was right");
    hash_canonical(p, &v, d);
    refusal = read_body(p, m, d);
    if (refusal != IOP_REFUSE_NONE) {
        d->sig_alg = NULL;
    }
    return refusal;
}

bool iop_provider_needs_scratch(const struct iop_provider *p)
{
    bool needs = iop__base_has(p, IOP_BASE_FORM);

    for (size_t i = 0; i < p->key_count; i++) {
        needs |= p->keys[i].alg == IOP_ALG_ED25519;
    }
    return needs;
}

/* ---- de-duplication -------------------------------------------------------------------------- */

static void key_of(const char *provider, char what, const void *bytes, size_t len,
                   struct ron_b3 *ret)
{
    static const char context[] = "ron interop delivery 1";
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    ron_b3_update(&h, context, sizeof context);
    ron_b3_update(&h, provider, strlen(provider) + 1);
    ron_b3_update(&h, &what, 1);
    ron_b3_update(&h, bytes, len);
    ron_b3_final(&h, ret);
}

size_t iop_delivery_keys(const struct iop_delivery *d, const char *provider,
                         const struct ron_b3 *body, struct ron_b3 ret_keys[2])
{
    if (d->id_len > 0 && d->id_signed) {
        key_of(provider, 'i', d->id, d->id_len, &ret_keys[0]);
        return 1;
    }
    key_of(provider, 'b', d->has_canonical ? d->canonical.bytes : body->bytes, RON_B3_BYTES,
           &ret_keys[0]);
    if (d->id_len == 0) {
        return 1;
    }
    key_of(provider, 'u', d->id, d->id_len, &ret_keys[1]);
    return 2;
}
