/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/query.c - the pool of queries, and how they are answered. */
#include "ledger/work/query.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

struct led_queries {
    struct ron_mutex lock;
    struct led_query *idle;
    uint32_t out;
};

enum ron_rc led_queries_new(struct led_queries **ret_queries, struct ron_err *err)
{
    struct led_queries *p = ron_alloc_zero(sizeof *p);

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the pool of queries");
    }
    ron_mutex_init(&p->lock, RON_RANK_LEAF, "ledger.queries");
    *ret_queries = p;
    return RON_OK;
}

void led_queries_free(struct led_queries *p)
{
    if (p == NULL) {
        return;
    }
    RON_ASSERT(p->out == 0);
    while (p->idle != NULL) {
        struct led_query *q = p->idle;

        p->idle = q->next;
        ron_free(q);
    }
    ron_mutex_done(&p->lock);
    ron_free(p);
}

struct led_query *led_query_get(struct led_queries *p)
{
    struct led_query *q = NULL;
    bool fresh = false;

    ron_mutex_lock(&p->lock);
    if (p->out < LED_SVC_QUERIES_MAX) {
        p->out++;
        q = p->idle;
        fresh = q == NULL;
        if (q != NULL) {
            p->idle = q->next;
        }
    }
    ron_mutex_unlock(&p->lock);
    if (fresh) {
        q = ron_alloc(sizeof *q);
        if (q == NULL) {
            ron_mutex_lock(&p->lock);
            p->out--;
            ron_mutex_unlock(&p->lock);
        }
    }
    if (q != NULL) {
        memset(q, 0, sizeof *q);
        q->magic = LED_QUERY_MAGIC;
    }
    return q;
}

void led_query_fill(struct led_query *q, const struct led_query *want)
{
    RON_CHECK_MAGIC(q, LED_QUERY_MAGIC);
    *q = *want;
    q->magic = LED_QUERY_MAGIC;
}

void led_query_put(struct led_queries *p, struct led_query *q)
{
    RON_CHECK_MAGIC(q, LED_QUERY_MAGIC);
    q->magic = 0;
    ron_mutex_lock(&p->lock);
    q->next = p->idle;
    p->idle = q;
    p->out--;
    ron_mutex_unlock(&p->lock);
}

struct ron_buf *led_reply_body(const struct led_reply *r)
{
    return r->oap != NULL ? ron_oap_reply_body(r->oap) : ron_http_reply_body(r->http);
}

bool led_reply_cancelled(const struct led_reply *r)
{
    return r->oap != NULL ? ron_oap_reply_cancelled(r->oap) : ron_http_reply_cancelled(r->http);
}

/* X(reason, "CODE"): the code of the envelope for each reason. */
static const char *const codes[LED_REASON_COUNT] = {
    [LED_REASON_OK] = "OK",
    [LED_REASON_UNAUTH] = "UNAUTH",
    [LED_REASON_CAP_INVALID] = "FORBIDDEN",
    [LED_REASON_UNKNOWN_KIND] = "UNKNOWN_KIND",
    [LED_REASON_POLICY_DENIED] = "POLICY_DENIED",
    [LED_REASON_BUSY] = "BACKPRESSURE",
    [LED_REASON_TOO_LARGE] = "TOO_LARGE",
    [LED_REASON_TIMEOUT] = "TIMEOUT",
    [LED_REASON_INTERNAL] = "INTERNAL",
    [LED_REASON_INVALID] = "MALFORMED",
    [LED_REASON_CONFLICT] = "CONFLICT",
    [LED_REASON_INSUFFICIENT_FUNDS] = "INSUFFICIENT_FUNDS",
    [LED_REASON_NONCE_CONFLICT] = "NONCE_CONFLICT",
    [LED_REASON_IDEM_MISMATCH] = "IDEMPOTENCY_CONFLICT",
    [LED_REASON_NOT_FOUND] = "NOT_FOUND",
    [LED_REASON_SAFE_MODE] = "SAFE_MODE",
    [LED_REASON_DRAINING] = "DRAINING",
    [LED_REASON_NOT_LEADER] = "NOT_LEADER",
};

struct ron_http_error led_http_error(enum led_reason reason, const char *detail)
{
    return (struct ron_http_error){.status = led_reason_http_status(reason),
                                   .code = codes[reason],
                                   .message = detail != NULL ? detail : led_reason_doc(reason),
                                   .reason = led_reason_name(reason),
                                   .retryable = led_reason_retryable(reason),
                                   .retry_after_s = reason == LED_REASON_SAFE_MODE ? 30 : 0};
}

struct ron_oap_error led_oap_error(const struct ron_http_error *e)
{
    return (struct ron_oap_error){
        .status = (uint16_t)e->status, .code = e->code, .message = e->message, .reason = e->reason};
}

void led_query_refuse(struct led_queries *p, struct led_query *q, enum led_reason reason,
                      const char *detail)
{
    struct led_reply reply = q->reply;
    struct led_work *work = q->work;

    RON_ASSERT_MSG((reply.http != NULL) + (reply.oap != NULL) + (work != NULL) == 1,
                   "A2: a query has one reply or one work");
    led_query_put(p, q);
    if (work != NULL) {
        led_work_refuse(work, reason, "", detail == NULL ? led_reason_doc(reason) : detail);
        led_work_done(work);
    } else {
        struct ron_http_error error = led_http_error(reason, detail);

        if (reply.oap != NULL) {
            struct ron_oap_error oap = led_oap_error(&error);

            ron_oap_reply_fail_with(reply.oap, &oap);
        } else {
            ron_http_reply_fail_with(reply.http, &error);
        }
    }
}

void led_query_answer(struct led_queries *p, struct led_query *q, int status, const char *type)
{
    struct led_reply reply = q->reply;

    RON_ASSERT_MSG((reply.http != NULL) != (reply.oap != NULL), "A2: a query has one reply");
    led_query_put(p, q);
    if (reply.oap != NULL) {
        ron_oap_reply_send(reply.oap, (uint16_t)status);
    } else {
        ron_http_reply_send(reply.http, status, type);
    }
}

bool led_ask_is_public(const struct led_query *q)
{
    static const char bundle[] = "tile/entries/";

    switch ((int)q->ask) {
    case LED_ASK_INCLUSION:
    case LED_ASK_CONSISTENCY:
    case LED_ASK_ROOTS:
    case LED_ASK_HEAD:
    case LED_ASK_CHECKPOINT:
        return true;
    case LED_ASK_TILE: /* Bundles hold the entries themselves. */
        return q->text_len < sizeof bundle - 1 || memcmp(q->text, bundle, sizeof bundle - 1) != 0;
    default:
        return false;
    }
}
