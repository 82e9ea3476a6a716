/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.h - a webhook for tests, from a text of header lines and a body, and its whole check. */
#pragma once

#include "support/support.h"

#include "interop/provider/provider.h"

enum { HOOK_SCRATCH = 1 << 16, HOOK_TEXT = 8192 };

struct hook {
    struct ron_http_head head;
    char text[HOOK_TEXT]; /* the lines, to which the head points */
    struct iop_provider provider;
    struct iop_delivery d;
    const char *target;
    int64_t now_ms;
};

static inline void hook_lines(struct hook *h, const char *lines)
{
    char *p = h->text;

    assert_true(strlen(lines) < sizeof h->text);
    memcpy(h->text, lines, strlen(lines) + 1);
    memset(&h->head, 0, sizeof h->head);
    while (*p != '\0') {
        char *end = p + strcspn(p, "\n");
        char *colon = memchr(p, ':', (size_t)(end - p));

        assert_non_null(colon);
        h->head.fields[h->head.field_count++] = (struct ron_http_field){
            {p, (size_t)(colon - p)}, {colon + 2, end > colon + 2 ? (size_t)(end - colon - 2) : 0}};
        p = *end == '\0' ? end : end + 1;
    }
}

static inline void hook_provider(struct hook *h, const struct iop_scheme *scheme,
                                 const char *secret)
{
    struct ron_err err = {0};

    memset(h, 0, sizeof *h);
    assert_int_equal(iop_provider_init(&h->provider, "here", scheme, &err), RON_OK);
    h->provider.enabled = true;
    h->target = "/webhooks/here";
    if (secret != NULL) {
        assert_int_equal(iop_provider_add_key(&h->provider, secret, strlen(secret), &err), RON_OK);
    }
}

/* Both halves, the body in a block of exactly its size. */
static inline enum iop_refusal hook_check_bytes(struct hook *h, const void *body, size_t len)
{
    static _Alignas(16) uint8_t scratch[HOOK_SCRATCH];
    enum iop_refusal refusal = iop_check_head(&h->provider, &h->head, h->now_ms, &h->d);
    uint8_t *copy = malloc(len + (len == 0));
    struct iop_message m = {.target = {h->target, strlen(h->target)},
                            .body = copy,
                            .len = len,
                            .now_unix_ms = h->now_ms,
                            .scratch = scratch,
                            .scratch_size = len + IOP_SCRATCH_EXTRA};

    assert_non_null(copy);
    assert_true(m.scratch_size <= sizeof scratch);
    memcpy(copy, body, len);
    if (refusal == IOP_REFUSE_NONE) {
        refusal = iop_check_body(&h->provider, &m, &h->d);
    }
    free(copy);
    assert_true((refusal == IOP_REFUSE_NONE) == (h->d.sig_alg != NULL));
    return refusal;
}

static inline enum iop_refusal hook_check(struct hook *h, const char *lines, const char *body)
{
    hook_lines(h, lines);
    return hook_check_bytes(h, body, strlen(body));
}

#define HOOK_IS(delivery_, member_, text_)                                                         \
    do {                                                                                           \
        assert_int_equal((delivery_).member_##_len, strlen(text_));                                \
        assert_memory_equal((delivery_).member_, (text_), strlen(text_));                          \
    } while (0)
