/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/pick.c - largest remainder: one unit each for the largest remainders of a group.
 *
 * Method: the value of the last remainder that still gets a unit is found digit by digit, 16 bits
 * at a time from the top, by counting how many remainders have which digit (those that agree with
 * the digits found so far). Nothing is moved or sorted, so the time is that of at most eight
 * passes, for any input, and the order of rows settles ties by itself.
 *
 * Why there are always enough: the remainders of a group add up to units * T and each is below T,
 * so more than `units` rows have one above 0. */
#include <string.h>

#include "rewarder/calc/priv.h"
#include "ron/base/assert.h"

enum { DIGIT_BITS = 16, DIGIT_MASK = RWD_PICK_CELLS - 1, TOP_SHIFT = 128 - DIGIT_BITS };

struct pick {
    const struct rwd_span *spans;
    size_t span_count;
    const ron_u128 *rests;
};

/* The highest place at which any remainder has a digit that is not 0. */
static uint32_t top_place(const struct pick *p)
{
    ron_u128 all = 0;
    uint32_t shift = TOP_SHIFT;

    for (size_t s = 0; s < p->span_count; s++) {
        for (uint64_t i = p->spans[s].first; i < p->spans[s].end; i++) {
            all |= p->rests[i];
        }
    }
    while (shift > 0 && all >> shift == 0) {
        shift -= DIGIT_BITS;
    }
    return shift;
}

/* Counts the digits at `shift` of the remainders whose higher digits are `above`. */
static void count_digits(const struct pick *p, uint32_t shift, ron_u128 above,
                         uint64_t cells[RWD_PICK_CELLS])
{
    memset(cells, 0, RWD_PICK_CELLS * sizeof cells[0]);
    for (size_t s = 0; s < p->span_count; s++) {
        for (uint64_t i = p->spans[s].first; i < p->spans[s].end; i++) {
            ron_u128 from_here = p->rests[i] >> shift;

            if (from_here >> DIGIT_BITS == above) {
                cells[(uint32_t)from_here & DIGIT_MASK]++;
            }
        }
    }
}

/* The smallest remainder that gets a unit, and how many with exactly it do. */
static ron_u128 find_least(const struct pick *p, uint64_t units, uint64_t cells[RWD_PICK_CELLS],
                           uint64_t *ret_equal)
{
    ron_u128 above = 0;
    uint64_t left = units;

    for (uint32_t shift = top_place(p);; shift -= DIGIT_BITS) {
        uint32_t digit = DIGIT_MASK;

        count_digits(p, shift, above, cells);
        while (left > cells[digit]) {
            left -= cells[digit];
            RON_ASSERT_MSG(digit > 0, "more units are left than rows have a remainder");
            digit--;
        }
        above = above << DIGIT_BITS | digit;
        if (shift == 0) {
            *ret_equal = left;
            return above;
        }
    }
}

void rwd__pick(const struct rwd_span *spans, size_t span_count, const ron_u128 *rests,
               ron_u128 *amounts, uint64_t units, uint64_t cells[RWD_PICK_CELLS],
               struct rwd_last_up *ret_last)
{
    const struct pick p = {spans, span_count, rests};
    struct rwd_last_up last = {.count = units};
    uint64_t equal;

    if (units == 0) {
        *ret_last = last;
        return;
    }
    last.rest = find_least(&p, units, cells, &equal);
    RON_ASSERT_MSG(last.rest > 0, "a row without a remainder would be rounded up");
    for (size_t s = 0; s < span_count; s++) {
        for (uint64_t i = spans[s].first; i < spans[s].end; i++) {
            if (rests[i] > last.rest) {
                amounts[i]++;
            } else if (rests[i] == last.rest && equal > 0) {
                amounts[i]++;
                equal--;
                last.row = i;
            }
        }
    }
    *ret_last = last;
}
