/* SPDX-License-Identifier: Apache-2.0 */
/* interop/hook/record.c - what became of a delivery, told once: counters, audit, events, and the
 * ring of the last ones that GET /deliveries shows.
 *
 * Place: service; from any thread, never blocks. The ring is a view for people and the console,
 * lost with the process; the audit is the record. Nothing of a body or a signature is in either. */
#include <string.h>

#include "interop/hook/hook.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static const char *const verdicts[] = {
#define X(name, text) text,
    IOP_VERDICTS(X)
#undef X
};

/* A delivery of the ring. */
struct row {
    uint64_t ts_ms;
    uint64_t took_us;
    const char *sig_alg; /* constants */
    const char *label;
    const char *code;
    enum iop_verdict verdict;
    bool has_b3;
    struct ron_b3 b3;
    char provider[IOP_PROVIDER_NAME_MAX];
    char event[64];
    char delivery[64];
    char corr_id[RON_HTTP_CORR_ID_MAX + 1];
};

struct iop_ring {
    struct ron_mutex mu; /* guards all below */
    uint64_t count;      /* ever */
    struct row rows[IOP_RING];
};

static void cut(char *to, size_t size, const char *from, size_t len)
{
    len = RON_MIN(len, size - 1);
    memcpy(to, from, len);
    to[len] = '\0';
}

/* ---- telling --------------------------------------------------------------------------------- */

static void keep(struct iop_hooks *h, const struct iop_outcome *r, uint64_t took_us)
{
    const struct iop_delivery *d = r->delivery;
    struct iop_ring *ring = h->ring;
    struct row *row;

    ron_mutex_lock(&ring->mu);
    row = &ring->rows[ring->count++ % IOP_RING];
    row->ts_ms = ron_env_wall_ms(h->core->env);
    row->took_us = took_us;
    row->sig_alg = d != NULL ? d->sig_alg : NULL;
    row->label = r->label != NULL ? r->label : "";
    row->code = iop_error_code(r->error);
    row->verdict = r->verdict;
    row->has_b3 = r->b3 != NULL;
    if (row->has_b3) {
        row->b3 = *r->b3;
    }
    cut(row->provider, sizeof row->provider, r->provider != NULL ? r->provider->name : "",
        r->provider != NULL ? strlen(r->provider->name) : 0);
    cut(row->event, sizeof row->event, d != NULL ? d->event : "", d != NULL ? d->event_len : 0);
    cut(row->delivery, sizeof row->delivery, d != NULL ? d->id : "", d != NULL ? d->id_len : 0);
    cut(row->corr_id, sizeof row->corr_id, r->corr_id.ptr, r->corr_id.len);
    ron_mutex_unlock(&ring->mu);
}

static void count(const struct iop_outcome *r)
{
    const struct iop_entry *e;

    if (r->provider == NULL) {
        return;
    }
    e = iop_policy_entry(r->policy, r->provider);
    if (r->verdict == IOP_VERDICT_REFUSED) {
        ron_counter_add(e->failed,
                        r->error == IOP_ERROR_UNAUTH || r->error == IOP_ERROR_CLOCK_SKEW);
    } else {
        ron_counter_add(e->verified, 1);
        ron_counter_add(e->duplicates, r->verdict == IOP_VERDICT_DUPLICATE);
    }
}

static void publish(struct iop_hooks *h, const struct iop_outcome *r)
{
    struct iop_notice n = {.ts_ms = ron_env_wall_ms(h->core->env)};

    if ((r->verdict != IOP_VERDICT_ACCEPTED && r->verdict != IOP_VERDICT_DUPLICATE) ||
        !ron_http_events_watched(h->core->events)) {
        return;
    }
    RON_ASSERT(r->provider != NULL && r->b3 != NULL); /* it was accepted */
    n.kind = r->verdict == IOP_VERDICT_ACCEPTED ? IOP_NOTICE_WEBHOOK : IOP_NOTICE_DEDUP;
    cut(n.provider, sizeof n.provider, r->provider->name, strlen(r->provider->name));
    cut(n.corr_id, sizeof n.corr_id, r->corr_id.ptr, r->corr_id.len);
    ron_b3_format(r->b3, n.b3);
    iop_tell(h->core, &n);
}

void iop_record(struct iop_hooks *h, const struct iop_outcome *outcome)
{
    uint64_t took_us =
        outcome->began_ns != 0 ? (ron_env_now_ns(h->core->env) - outcome->began_ns) / 1000 : 0;

    RON_ASSERT(outcome->verdict < IOP_VERDICT_COUNT);
    RON_ASSERT_MSG((outcome->verdict == IOP_VERDICT_REFUSED) == (outcome->error != IOP_ERROR_NONE),
                   "a refusal names its error, and nothing else does");
    count(outcome);
    keep(h, outcome, took_us);
    publish(h, outcome);
    iop_trail_delivery(h->core, outcome, verdicts[outcome->verdict], took_us);
}

/* ---- GET /deliveries ------------------------------------------------------------------------- */

static void write_row(struct ron_json_writer *j, const struct row *r)
{
    char b3[RON_B3_ID_SIZE];

    ron_json_open(j, NULL, '{');
    ron_json_u64(j, "ts", r->ts_ms);
    ron_json_text(j, "provider", r->provider);
    ron_json_text(j, "verdict", verdicts[r->verdict]);
    ron_json_text(j, "code", r->code);
    ron_json_text(j, "reason", r->label);
    ron_json_text(j, "event", r->event);
    ron_json_text(j, "delivery", r->delivery);
    ron_json_text(j, "corr_id", r->corr_id);
    if (r->has_b3) {
        ron_b3_format(&r->b3, b3);
        ron_json_text(j, "b3", b3);
    }
    if (r->sig_alg != NULL) {
        ron_json_text(j, "sig_alg", r->sig_alg);
    }
    ron_json_u64(j, "took_us", r->took_us);
    ron_json_close(j, '}');
}

/* Newest first. */
static void write_rows(struct iop_hooks *h, struct ron_str provider, uint64_t limit,
                       struct ron_buf *out)
{
    struct iop_ring *ring = h->ring;
    struct ron_json_writer j;
    struct row row;

    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_open(&j, "deliveries", '[');
    for (uint64_t back = 0, shown = 0; shown < limit; back++) {
        bool there;

        ron_mutex_lock(&ring->mu); /* for one row: formatting is done without it */
        there = back < RON_MIN(ring->count, (uint64_t)IOP_RING);
        if (there) {
            row = ring->rows[(ring->count - 1 - back) % IOP_RING];
        }
        ron_mutex_unlock(&ring->mu);
        if (!there) {
            break;
        }
        if (provider.len == 0 || ron_str_is(provider, row.provider)) {
            write_row(&j, &row);
            shown++;
        }
    }
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
}

/* A number of the query within 1..max; `preset` without it. */
static bool query_limit(const struct ron_http_call *call, uint64_t preset, uint64_t max,
                        uint64_t *ret)
{
    char text[24];
    struct ron_str value;
    enum ron_rc rc =
        ron_http_query_get(ron_http_head(call)->query, "limit", text, sizeof text, &value);

    *ret = preset;
    return rc == RON_NOTFOUND ||
           (rc == RON_OK && ron_http_parse_u64(value, ret) == RON_OK && *ret >= 1 && *ret <= max);
}

void iop_deliveries_http(struct ron_http_call *call, void *arg)
{
    struct iop_hooks *h = RON_OBJ(arg, struct iop_hooks, IOP_HOOKS_MAGIC);
    char name[IOP_PROVIDER_NAME_MAX];
    struct ron_str provider = {0};
    struct ron_buf body;
    uint64_t limit;
    enum ron_rc rc;

    if (!iop_allowed(h->core, call, "interop.inspect", NULL)) {
        return;
    }
    rc = ron_http_query_get(ron_http_head(call)->query, "provider", name, sizeof name, &provider);
    if ((rc != RON_OK && rc != RON_NOTFOUND) || !query_limit(call, 100, IOP_RING, &limit)) {
        iop_fail(call, IOP_ERROR_MALFORMED,
                 "expected a name for provider and a number from 1 to 512 for limit");
        return;
    }
    ron_buf_init(&body, 1 << 20);
    write_rows(h, provider, limit, &body);
    if (ron_buf_error(&body) == RON_OK) {
        ron_http_answer(call, 200, "application/json", ron_buf_data(&body), ron_buf_len(&body));
    } else {
        iop_fail(call, IOP_ERROR_BUSY, "out of memory for the answer");
    }
    ron_buf_done(&body);
}

enum ron_rc iop_ring_new(struct iop_hooks *h, struct ron_err *err)
{
    h->ring = ron_alloc_zero(sizeof *h->ring);
    if (h->ring == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the delivery ring");
    }
    ron_mutex_init(&h->ring->mu, RON_RANK_LEAF, "interop.counters");
    return RON_OK;
}

void iop_ring_free(struct iop_hooks *h)
{
    if (h->ring != NULL) {
        ron_mutex_done(&h->ring->mu);
        ron_wipe(h->ring, sizeof *h->ring);
        ron_free(h->ring);
        h->ring = NULL;
    }
}
