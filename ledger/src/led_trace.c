/* SPDX-License-Identifier: Apache-2.0 */
/* led_trace.c - a span for each stage that a work passes, below the span of its request.
 *
 * Place: service. Spans are put together only for works whose trace is exported; for the others a
 * stage costs one look. The span of a request over HTTP is made by the HTTP server, that of one
 * over OAP here. */
#include <string.h>

#include "led_svc.h"

void led_trace_begin(struct led_svc *s, struct led_work *w, const struct ron_trace_ctx *caller)
{
    memcpy(w->trace_parent, caller->span_id, sizeof w->trace_parent);
    ron_trace_enter(ron_app_tracer(s->app), caller, &w->trace);
}

void led_trace_request(struct led_svc *s, const struct led_work *w, uint16_t status)
{
    struct ron_tracer *tracer = ron_app_tracer(s->app);
    bool failed = status >= 500;
    struct ron_span span;

    if (!ron_trace_ctx_valid(&w->trace) || !ron_tracer_wants(tracer, &w->trace, failed)) {
        return;
    }
    ron_span_resume(tracer, &span, w->kind == LED_WORK_INGEST ? "oap.ingest" : "oap.cancel",
                    RON_SPAN_SERVER, &w->trace, w->trace_parent, w->received_ns);
    ron_span_text(&span, "corr_id", (struct ron_str){w->corr_id, strlen(w->corr_id)});
    ron_span_u64(&span, "status", status);
    if (failed) {
        ron_span_fail(&span,
                      w->refusals.count > 0 ? led_reason_name(w->refusals.items[0].reason) : "");
    }
    ron_span_end(&span);
}

void led_trace_stage(struct led_svc *s, const struct led_work *w, const char *stage,
                     const char *queue, uint64_t from_ns)
{
    struct ron_tracer *tracer = ron_app_tracer(s->app);
    bool failed = w->result == LED_RESULT_REFUSED;
    struct ron_trace_ctx ctx;
    struct ron_span span;

    if (tracer == NULL || !ron_trace_ctx_valid(&w->trace) ||
        !ron_tracer_wants(tracer, &w->trace, failed)) {
        return;
    }
    ron_trace_enter(tracer, &w->trace, &ctx);
    ron_span_resume(tracer, &span, stage, RON_SPAN_INTERNAL, &ctx, w->trace.span_id, from_ns);
    ron_span_text(&span, "corr_id", (struct ron_str){w->corr_id, strlen(w->corr_id)});
    ron_span_text(&span, "queue", (struct ron_str){queue, strlen(queue)});
    if (w->batch.count > 0) {
        ron_span_u64(&span, "batch_size", w->batch.count);
    }
    if (w->seq_first != 0) {
        ron_span_u64(&span, "seq", w->seq_first);
    }
    if (w->batch.count > 0 && w->batch.entries != NULL) {
        const struct led_entry *e = &w->batch.entries[0];

        ron_span_text(&span, "entry_id", e->id);
        ron_span_text(&span, "kid", e->kid);
        ron_span_text(&span, "capability_ref", e->capability_ref);
    }
    if (failed && w->refusals.count > 0) {
        ron_span_fail(&span, led_reason_name(w->refusals.items[0].reason));
    }
    ron_span_end(&span);
}
