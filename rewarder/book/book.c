/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/book.c - what the states of an epoch are called and how they follow each other.
 *
 * Place: rewarder; pure functions, any thread. The book itself is in rew_book_*_posix.c. */
#include "rewarder/book/book.h"

static const char *const state_names[] = {
#define X(name, text) [REW_##name] = (text),
    REW_STATES(X)
#undef X
};

const char *rew_state_name(enum rew_state state)
{
    return (unsigned)state < REW_STATE_COUNT ? state_names[state] : "?";
}

bool rew_state_of(struct ron_str name, enum rew_state *ret_state)
{
    for (unsigned s = 0; s < REW_STATE_COUNT; s++) {
        if (ron_str_eq(name, state_names[s])) {
            *ret_state = (enum rew_state)s;
            return true;
        }
    }
    return false;
}

#define BIT(name) (1U << REW_##name)

/* The edges of the drawing in book.h. Quarantine can be entered wherever the money is not all
 * out yet; its one way on is that of an epoch which was sealed before. */
static const uint8_t edges[REW_STATE_COUNT] = {
    [REW_RESERVED] = BIT(COMPUTING) | BIT(QUARANTINED),
    [REW_COMPUTING] = BIT(SEALED) | BIT(QUARANTINED),
    [REW_SEALED] = BIT(EMITTING) | BIT(EMITTED) | BIT(QUARANTINED),
    [REW_QUARANTINED] = BIT(WITHHELD),
    [REW_EMITTING] = BIT(EMITTED) | BIT(WITHHELD) | BIT(QUARANTINED),
    [REW_EMITTED] = BIT(RETIRED),
    [REW_WITHHELD] = BIT(EMITTING) | BIT(EMITTED) | BIT(QUARANTINED),
    [REW_RETIRED] = 0,
};

bool rew_state_may(enum rew_state from, enum rew_state to)
{
    return (unsigned)from < REW_STATE_COUNT && (unsigned)to < REW_STATE_COUNT &&
           (edges[from] >> to & 1) != 0;
}

uint64_t rew_intent_count(const struct rew_manifest *m)
{
    bool sink = m->residual == REW_RESIDUAL_SINK && !ron_money_is_zero(m->totals.residual);

    return m->payouts.count + (sink ? 1 : 0);
}
