/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - the exporter task: gathers spans, encodes batches, sends them, retries.
 *
 *     empty --span--> gathering --full, or flush_ms after the first--> sending --> empty
 *     any --stop asked--> sends what is queued, each batch tried once --> end
 *
 * While it sends or waits for another try the queue takes new spans and drops its oldest (T3). */
#include "obs/trace_priv.h"

#include "ron/base/alloc.h"

enum {
    TRIES = 3,
    LAST_SEND_MS = 1000, /* of a try while the service drains, which has 3 s for everything */
};

struct exporter {
    struct ron_tracer *tracer;
    struct ron_watch *stop;
    uint64_t seen; /* version of the watch that said GO */
    bool stopping;
    size_t count;
    void *spans[RON_SPAN_BATCH_MAX];
};

static struct ron_deadline after_ms(uint64_t ms)
{
    return ron_deadline_after_ms(ron_mono_ns(), ms);
}

/* Waits before try `n` (1, 2); false when the exporter is to end. */
static bool wait_again(struct exporter *x, uint32_t n)
{
    uint64_t value = 0;
    uint64_t version = 0;

    if (x->stopping) {
        return false;
    }
    if (ron_watch_wait(x->stop, x->seen, after_ms((uint64_t)x->tracer->opts.retry_ms << (n - 1)),
                       &value, &version) != RON_TIMEOUT) {
        x->stopping = true;
        return false;
    }
    return true;
}

static bool send_body(struct exporter *x, const struct ron_buf *body)
{
    const struct ron_tracer_opts *o = &x->tracer->opts;
    enum ron_rc rc = RON_OK;

    for (uint32_t n = 1; n <= TRIES; n++) {
        rc = o->send(
            o->send_arg, "application/json", ron_buf_data(body), ron_buf_len(body),
            after_ms(x->stopping ? RON_MIN(o->send_ms, (uint32_t)LAST_SEND_MS) : o->send_ms));
        if (rc == RON_OK) {
            ron_stat_bump(&x->tracer->sends_ok, 1);
            return true;
        }
        ron_stat_bump(&x->tracer->sends_failed, 1);
        if (ron_rc_class(rc) != RON_RC_CLASS_RETRY || n == TRIES || !wait_again(x, n)) {
            break;
        }
    }
    return false;
}

static void send_all(struct exporter *x)
{
    struct ron_tracer *t = x->tracer;
    size_t sent = 0;

    while (sent < x->count) {
        struct ron_buf body;
        size_t n;

        ron_buf_init(&body, RON_TRACE_BODY_MAX);
        n = ron__otlp_encode(t, (struct ron_span *const *)(void *)(x->spans + sent),
                             x->count - sent, &body);
        if (n == 0) { /* no memory: these are lost */
            n = x->count - sent;
            ron_stat_add(&t->spans[TRACE_FAILED], n);
        } else {
            ron_stat_add(&t->spans[send_body(x, &body) ? TRACE_EXPORTED : TRACE_FAILED], n);
        }
        ron_buf_done(&body);
        sent += n;
    }
    for (size_t i = 0; i < x->count; i++) {
        ron_free(x->spans[i]);
    }
    x->count = 0;
}

/* Fills the batch until it is full, old enough, or the stop is asked. */
static void gather(struct exporter *x)
{
    struct ron_deadline until = ron_deadline_never();
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK && !x->stopping && x->count < RON_SPAN_BATCH_MAX) {
        size_t n = 0;

        rc =
            ron_chan_recv_or_changed(x->tracer->queue, x->stop, x->seen, false, x->spans + x->count,
                                     RON_SPAN_BATCH_MAX - x->count, until, &n);
        if (rc == RON_OK && n == 0) {
            x->stopping = true;
        }
        if (rc == RON_OK && x->count == 0) {
            until = after_ms(x->tracer->opts.flush_ms);
        }
        x->count += rc == RON_OK ? n : 0;
    }
    x->stopping = x->stopping || (rc != RON_OK && rc != RON_TIMEOUT);
}

enum ron_rc ron__trace_export(struct ron_task *task, void *arg)
{
    struct exporter *x = ron_alloc_zero(sizeof *x);
    size_t n = 0;

    if (x == NULL) {
        return RON_NOMEM; /* the supervisor tries again */
    }
    x->tracer = arg;
    x->stop = ron_task_stop_watch(task);
    x->stopping = ron_watch_get(x->stop, &x->seen) == RON_TASK_STOP;
    while (!x->stopping) {
        gather(x);
        send_all(x);
    }
    while (ron_chan_try_recv_many(x->tracer->queue, x->spans, RON_SPAN_BATCH_MAX, &n) == RON_OK) {
        x->count = n;
        send_all(x);
    }
    ron_free(x);
    return RON_OK;
}
