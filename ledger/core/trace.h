/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/trace.h - a span for each stage that a work passes. Threads: any. */
#pragma once

#include "ledger/work/work.h"

/* A stage has done its part on the work, since from_ns; `queue` is where the work came from. */
void led_trace_stage(struct ron_tracer *tracer, const struct led_work *w, const char *stage,
                     const char *queue, uint64_t from_ns);
