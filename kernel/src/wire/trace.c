/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - a server span for each request that reaches its handler.
 *
 * Place: wire, between the call and ron/obs/trace.h, on the worker that owns the connection. The
 * ids are made before the handler runs, so that what it does can hang below them; the span itself
 * is put together when the answer is there, and only when it is exported. Answers of 500 and above
 * are failures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire_priv.h"

void ron__oap_span_begin(const struct oap_worker *w, const struct ron_oap_app *app,
                         const struct ron_oap_request *q, struct oap_span *ret_span)
{
    struct ron_tracer *t = w->server->opts.tracer;

    if (t == NULL || app->span == NULL) {
        return;
    }
    memcpy(ret_span->parent, q->trace.span_id, sizeof ret_span->parent);
    ret_span->name = app->span(q->code);
    ret_span->start_ms = w->now_ms;
    ron_trace_enter(t, &q->trace, &ret_span->ctx);
}

void ron__oap_span_end(const struct oap_worker *w, struct oap_span *span, uint64_t corr_id,
                       uint16_t status)
{
    struct ron_tracer *t = w->server->opts.tracer;
    bool failed = status >= 500;

    if (!ron_trace_ctx_valid(&span->ctx)) {
        return;
    }
    if (ron_tracer_wants(t, &span->ctx, failed)) {
        char corr[17];
        struct ron_span s;

        (void)snprintf(corr, sizeof corr, "%016" PRIx64, corr_id);
        ron_span_resume(t, &s, span->name, RON_SPAN_SERVER, &span->ctx, span->parent,
                        span->start_ms * RON_NS_PER_MS);
        ron_span_text(&s, "corr_id", (struct ron_str){corr, sizeof corr - 1});
        ron_span_u64(&s, "status", status);
        if (failed) {
            ron_span_fail(&s, "");
        }
        ron_span_end(&s);
    }
    span->ctx = (struct ron_trace_ctx){0};
}
