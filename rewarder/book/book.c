/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/book.c - what the states of an epoch are called and how they follow each other.
 *
 * Place: rewarder; pure functions, any thread. The book itself is in rwd_book_*_posix.c. */
#include "rewarder/book/book.h"

static const char *const state_names[] = {
#define X(name, text) [RWD_##name] = (text),
    RWD_STATES(X)
#undef X
};

const char *rwd_state_name(enum rwd_state state)
{
    return (unsigned)state < RWD_STATE_COUNT ? state_names[state] : "?";
}

bool rwd_state_of(struct ron_str name, enum rwd_state *ret_state)
{
    for (unsigned s = 0; s < RWD_STATE_COUNT; s++) {
        if (ron_str_is(name, state_names[s])) {
            *ret_state = (enum rwd_state)s;
            return true;
        }
    }
    return false;
}

#define BIT(name) (1U << RWD_##name)

/* The edges of the drawing in book.h. Quarantine can be entered wherever the money is not all
 * out yet; its one way on is that of an epoch which was sealed before. */
static const uint8_t edges[RWD_STATE_COUNT] = {
    [RWD_RESERVED] = BIT(COMPUTING) | BIT(QUARANTINED),
    [RWD_COMPUTING] = BIT(SEALED) | BIT(QUARANTINED),
    [RWD_SEALED] = BIT(EMITTING) | BIT(EMITTED) | BIT(QUARANTINED),
    [RWD_QUARANTINED] = BIT(WITHHELD),
    [RWD_EMITTING] = BIT(EMITTED) | BIT(WITHHELD) | BIT(QUARANTINED),
    [RWD_EMITTED] = BIT(RETIRED),
    [RWD_WITHHELD] = BIT(EMITTING) | BIT(EMITTED) | BIT(QUARANTINED),
    [RWD_RETIRED] = 0,
};

bool rwd_state_may(enum rwd_state from, enum rwd_state to)
{
    return (unsigned)from < RWD_STATE_COUNT && (unsigned)to < RWD_STATE_COUNT &&
           (edges[from] >> to & 1) != 0;
}

uint64_t rwd_intent_count(const struct rwd_manifest *m)
{
    bool sink = m->residual == RWD_RESIDUAL_SINK && !ron_money_is_zero(m->totals.residual);

    return m->payouts.count + (sink ? 1 : 0);
}
