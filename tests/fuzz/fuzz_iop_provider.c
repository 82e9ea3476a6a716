/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the head and body of a delivery of each provider. The first byte chooses the kind;
 * then lines "Name: value", an empty line, and the body.
 *
 * Properties of any input: without a key nothing is verified; with one, a delivery is verified only
 * when the signature under that key, made anew from what was read, is one of those that were sent;
 * a verified time lies in the window; what is kept of id and event is visible text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "interop/provider/provider.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 4096 };
#define NOW_MS INT64_C(1700000000000)

static struct ron_http_head head;
static _Alignas(16) uint8_t scratch[BODY_MAX + IOP_SCRATCH_EXTRA];

/* The lines up to the empty one, as the HTTP parser would hand them over. */
static const char *read_lines(const char *p, const char *end)
{
    memset(&head, 0, sizeof head);
    while (p < end && *p != '\n' && head.field_count < RON_HTTP_HEADERS_MAX) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *stop = eol == NULL ? end : eol;
        const char *colon = memchr(p, ':', (size_t)(stop - p));

        if (colon != NULL && ron_http_is_token((struct ron_str){p, (size_t)(colon - p)})) {
            const char *value = colon + 1 + (colon + 1 < stop && colon[1] == ' ');

            head.fields[head.field_count++] =
                (struct ron_http_field){{p, (size_t)(colon - p)}, {value, (size_t)(stop - value)}};
        }
        p = eol == NULL ? end : eol + 1;
    }
    return p < end ? p + 1 : end;
}

static const char *secret_of(enum iop_kind kind)
{
    return kind == IOP_KIND_STANDARD  ? "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
           : kind == IOP_KIND_DISCORD ? "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f7"
                                        "07511a"
                                      : "It's a Secret to Everybody";
}

/* A MAC of exactly these pieces was among the signatures. */
static void check_mac(const struct iop_provider *p, const struct iop_delivery *d,
                      const struct iop_message *m)
{
    struct iop_base_values v = {.timestamp = {d->ts, d->ts_len},
                                .id = {d->id, d->id_len},
                                .url = {p->public_url, m->target},
                                .body = {m->body, m->len}};
    uint8_t mac[IOP_MAC_BYTES_MAX];
    bool hit = false;

    if (p->keys[0].alg != IOP_ALG_HMAC || iop__base_has(p, IOP_BASE_FORM)) {
        return;
    }
    iop__base_mac(p, &v, &p->keys[0].mac, mac);
    for (size_t i = 0; i < d->sig_count; i++) {
        hit |= memcmp(mac, d->sigs[i].bytes, iop_hash_bytes(p->keys[0].mac.hash)) == 0;
    }
    RON_ASSERT(hit);
}

static void check_verified(const struct iop_provider *p, const struct iop_delivery *d,
                           const struct iop_message *m)
{
    RON_ASSERT(d->sig_alg != NULL && d->sig_count > 0 && d->sig_count <= IOP_SIGS_MAX);
    RON_ASSERT(d->id_len == 0 || iop__is_visible((struct ron_str){d->id, d->id_len}, IOP_ID_MAX));
    RON_ASSERT(d->event_len == 0 ||
               iop__is_visible((struct ron_str){d->event, d->event_len}, IOP_EVENT_MAX));
    RON_ASSERT(d->answer.len < IOP_ANSWER_MAX);
    if (p->scheme.ts_header != NULL || p->scheme.ts_name != NULL || p->scheme.ts_pointer != NULL) {
        RON_ASSERT(llabs(d->ts_unix_ms - NOW_MS) <= p->window_ms);
    }
    check_mac(p, d, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iop_provider p;
    struct iop_delivery d;
    enum iop_kind kind;
    const char *body;
    const char *end = (const char *)data + size;
    struct iop_message m;
    enum iop_refusal refusal;

    if (size == 0) {
        return 0;
    }
    kind = (enum iop_kind)(data[0] % IOP_KIND_GENERIC);
    body = read_lines((const char *)data + 1, end);
    if (end - body > BODY_MAX) {
        return 0;
    }
    m = (struct iop_message){.target = {"/webhooks/x?a=1", 15},
                             .body = body,
                             .len = (size_t)(end - body),
                             .now_unix_ms = NOW_MS,
                             .scratch = scratch,
                             .scratch_size = sizeof scratch};
    RON_ASSERT(iop_provider_init(&p, "x", iop_scheme_of(kind), NULL) == RON_OK);
    p.enabled = true;
    p.public_url = (struct ron_str){"https://h", 9};
    RON_ASSERT(iop_check_head(&p, &head, NOW_MS, &d) == IOP_REFUSE_NO_SECRET);
    RON_ASSERT(iop_provider_add_key(&p, secret_of(kind), strlen(secret_of(kind)), NULL) == RON_OK);
    refusal = iop_check_head(&p, &head, NOW_MS, &d);
    if (refusal == IOP_REFUSE_NONE) {
        refusal = iop_check_body(&p, &m, &d);
    }
    if (refusal == IOP_REFUSE_NONE) {
        check_verified(&p, &d, &m);
    } else {
        RON_ASSERT(d.sig_alg == NULL);
    }
    iop_provider_done(&p);
    return 0;
}
