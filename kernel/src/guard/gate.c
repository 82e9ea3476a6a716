/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - the inflight gate: one atomic count and its limit.
 *
 * Place: guard. Invariant: `_inside` rises only by a compare-and-swap from a value below the limit
 * read just before, so it is never above the limit that its newest entrant saw (G1). */
#include "ron/guard/gate.h"

#include "ron/base/assert.h"

void ron_gate_init(struct ron_gate *g, uint32_t limit)
{
    *g = (struct ron_gate){0};
    ron_au32_store(&g->_limit, limit);
}

void ron_gate_done(struct ron_gate *g)
{
    RON_ASSERT_MSG(ron_au32_load(&g->_inside) == 0, "a gate is closed with somebody inside");
}

enum ron_rc ron_gate_enter(struct ron_gate *g)
{
    uint32_t limit = ron_au32_load(&g->_limit);
    uint32_t inside = ron_au32_load(&g->_inside);

    do {
        if (limit != 0 && inside >= limit) {
            ron_stat_add(&g->_refused, 1);
            return RON_FULL;
        }
        RON_ASSERT(inside < UINT32_MAX);
    } while (!ron_au32_cas(&g->_inside, &inside, inside + 1));
    ron_stat_add(&g->_admitted, 1);
    if (inside + 1 > ron_stat_get(&g->_peak)) {
        ron_stat_set(&g->_peak, inside + 1); /* For looking at only. */
    }
    return RON_OK;
}

void ron_gate_leave(struct ron_gate *g)
{
    uint32_t before = ron_au32_add(&g->_inside, UINT32_MAX); /* minus one */

    RON_ASSERT_MSG(before != 0, "G2: left more often than entered");
}

void ron_gate_get_stats(const struct ron_gate *g, struct ron_gate_stats *ret_stats)
{
    *ret_stats = (struct ron_gate_stats){.admitted = ron_stat_get(&g->_admitted),
                                         .busy_rejections_total = ron_stat_get(&g->_refused),
                                         .inflight = ron_au32_load(&g->_inside),
                                         .peak = ron_stat_get(&g->_peak)};
}
