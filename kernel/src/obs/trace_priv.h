/* SPDX-License-Identifier: Apache-2.0 */
/* trace_priv.h - the tracer, and what its files ask of each other. */
#pragma once

#include "ron/chan/chan.h"
#include "ron/obs/trace.h"

/* X(NAME, "label"): what became of a span that was to be exported. */
#define TRACE_RESULTS(X)                                                                           \
    X(EXPORTED, "exported")                                                                        \
    X(FAILED, "failed")                                                                            \
    X(DROPPED, "dropped")

enum trace_result {
#define X(name, label) TRACE_##name,
    TRACE_RESULTS(X)
#undef X
        TRACE_RESULT_COUNT
};

struct ron_tracer {
    struct ron_tracer_opts opts;
    struct ron_au64 id_count; /* ids given out; mixed with the seeds */
    uint64_t id;              /* unlike any other of the process */
    uint64_t id_seed[2];
    struct ron_au64 threshold; /* of the low 56 bits of a trace id; 2^56 samples all */
    struct ron_au32 all;
    struct ron_chan *queue; /* NULL without a transport */
    struct ron_stat spans[TRACE_RESULT_COUNT];
    struct ron_stat sends_ok;
    struct ron_stat sends_failed;
    /* Exporter task only. */
    uint64_t wall_offset_ns; /* wall = monotonic + this, modulo 2^64 */
    struct ron_buf scratch;
};

/* Appends {"resourceSpans":...} with the first spans that fit `out`; returns how many that were, 0
 * when there is no memory. */
size_t ron__otlp_encode(struct ron_tracer *t, struct ron_span *const *spans, size_t count,
                        struct ron_buf *out);

enum ron_rc ron__trace_export(struct ron_task *task, void *arg);
