/* SPDX-License-Identifier: Apache-2.0 */
/* client/ledgers.c - which of several ledgers is asked; the contract is in ledgers.h. */
#include "client/ledgers.h"

#include <string.h>

#include "ron/base/assert.h"

static bool known(const struct lc_ledgers *l, const char *addr, size_t len, uint32_t *ret_which)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (strlen(l->of[i].addr) == len && memcmp(l->of[i].addr, addr, len) == 0) {
            *ret_which = i;
            return true;
        }
    }
    return false;
}

/* One address of the list; blanks around it are not of it. */
static enum ron_rc add(struct lc_ledgers *l, const char *addr, size_t len, struct ron_err *err)
{
    uint32_t twin;

    while (len > 0 && addr[0] == ' ') {
        addr++;
        len--;
    }
    while (len > 0 && addr[len - 1] == ' ') {
        len--;
    }
    if (len == 0 || len > LC_ADDR_MAX) {
        return ron_err_set(err, RON_INVALID, "an address of a ledger has 1 to %d bytes",
                           LC_ADDR_MAX);
    }
    if (l->count == LC_LEDGERS_MAX) {
        return ron_err_set(err, RON_INVALID, "at most %d ledgers", LC_LEDGERS_MAX);
    }
    if (known(l, addr, len, &twin)) {
        return ron_err_set(err, RON_INVALID, "%.*s is named twice", (int)len, addr);
    }
    memcpy(l->of[l->count].addr, addr, len);
    l->of[l->count].addr[len] = '\0';
    l->count++;
    return RON_OK;
}

enum ron_rc lc_ledgers_init(struct lc_ledgers *l, const char *list,
                            const struct ron_breaker_rules *rules, const struct ron_clock *clock,
                            struct ron_err *err)
{
    const char *at = list;

    *l = (struct lc_ledgers){0};
    for (;;) {
        size_t len = strcspn(at, ",");
        enum ron_rc rc = add(l, at, len, err);

        if (rc != RON_OK) {
            l->count = 0;
            return rc;
        }
        if (at[len] == '\0') {
            break;
        }
        at += len + 1;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        ron_breaker_init(&l->of[i].breaker, rules, clock);
    }
    return RON_OK;
}

void lc_ledgers_done(struct lc_ledgers *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        ron_breaker_done(&l->of[i].breaker);
    }
    l->count = 0;
}

uint32_t lc_ledgers_now(const struct lc_ledgers *l)
{
    return ron_au32_load(&l->_now);
}

uint64_t lc_ledgers_moves(const struct lc_ledgers *l)
{
    return ron_au64_load(&l->_moves);
}

static bool move(struct lc_ledgers *l, uint32_t from, uint32_t to)
{
    uint32_t expected = from;

    if (from == to || !ron_au32_cas(&l->_now, &expected, to)) {
        return false;
    }
    (void)ron_au64_add(&l->_moves, 1);
    return true;
}

bool lc_ledgers_leads(struct lc_ledgers *l, uint32_t which)
{
    RON_ASSERT(which < l->count);
    return move(l, lc_ledgers_now(l), which);
}

bool lc_ledgers_refused(struct lc_ledgers *l, uint32_t which, const char *leader)
{
    uint32_t to;

    RON_ASSERT(which < l->count);
    return leader[0] != '\0' && known(l, leader, strlen(leader), &to) && move(l, which, to);
}

bool lc_ledgers_silent(struct lc_ledgers *l, uint32_t which)
{
    RON_ASSERT(which < l->count);
    return move(l, which, (which + 1) % l->count);
}

void lc_ledgers_stats(const struct lc_ledgers *l, struct ron_breaker_stats *ret)
{
    uint32_t now = lc_ledgers_now(l);

    *ret = (struct ron_breaker_stats){0};
    for (uint32_t i = 0; i < l->count; i++) {
        struct ron_breaker_stats one;

        ron_breaker_get_stats(&l->of[i].breaker, &one);
        ret->admitted += one.admitted;
        ret->refused += one.refused;
        ret->upstream_fail_total += one.upstream_fail_total;
        for (size_t k = 0; k < RON_BREAKER_STATE_COUNT; k++) {
            ret->entered[k] += one.entered[k];
        }
        ret->state = i == now ? one.state : ret->state;
    }
}
