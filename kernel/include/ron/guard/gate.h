/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - at most so many inside at once, exactly.
 *
 * For requests in flight per instance (512 by default) or calls to one upstream. Nobody waits here:
 * who does not fit is refused at once, which keeps the latency of those inside bounded.
 *
 * Rules:
 *   G1. Never more than `limit` inside, not for an instant: one compare-and-swap decides.
 *   G2. Every RON_OK of ron_gate_enter is followed by one ron_gate_leave; one too many asserts.
 *   G3. offered = admitted + busy_rejections_total.
 *
 * Threads: any; no lock. */
#pragma once

#include "ron/base/rc.h"
#include "ron/sync/sync.h"

enum { RON_GATE_LIMIT_DEFAULT = 512 };

struct ron_gate {
    struct ron_au32 _limit;
    struct ron_au32 _inside;
    struct ron_stat _admitted;
    struct ron_stat _refused;
    struct ron_stat _peak;
};

struct ron_gate_stats {
    uint64_t admitted;
    uint64_t busy_rejections_total;
    uint64_t inflight; /* inside now */
    uint64_t peak;     /* about the most at once: a passing higher value may be missed */
};

/* limit 0 = off: everybody is admitted and still counted. */
void ron_gate_init(struct ron_gate *g, uint32_t limit);
/* Everybody must have left. */
void ron_gate_done(struct ron_gate *g);
/* RON_OK, or RON_FULL. */
RON_MUST_USE enum ron_rc ron_gate_enter(struct ron_gate *g);
void ron_gate_leave(struct ron_gate *g);
void ron_gate_get_stats(const struct ron_gate *g, struct ron_gate_stats *ret_stats);
