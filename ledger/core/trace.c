/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/trace.c - a span for each stage that a work passes, below the span of its request.
 *
 * Place: service. Spans are put together only for works whose trace is exported; for the others a
 * stage costs one look. The request's own span is made by its front. */
#include "ledger/core/trace.h"

#include <string.h>

void led_trace_stage(struct ron_tracer *tracer, const struct led_work *w, const char *stage,
                     const char *queue, uint64_t from_ns)
{
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
