/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/pool.h - works of the pipeline, made once and used again.
 *
 * Place: ledger. A work's arrays lie in its arena, whose size follows from the request: classes of
 * fixed sizes, so that a transfer does not hold the memory of a batch. Idle works are kept per
 * class, few of the large ones, because their pages stay in memory.
 *
 * Invariants:
 *   W1. At most LED_WORKS_MAX bytes of arenas are handed out at a time: one more get gives NULL,
 *       which is answered `busy`.
 *   W2. A work that is handed out has an empty arena and is zero but for its memory.
 *
 * Threads: any; one short lock of rank leaf. */
#pragma once

#include "ledger/work/work.h"

struct led_works;

/* Arenas handed out at a time, address space: 64 of the largest batches, or 32,000 transfers. Only
 * touched pages are memory. */
#define LED_WORKS_MAX ((uint64_t)512 << 20)

RON_MUST_USE enum ron_rc led_works_new(struct led_works **ret_works, struct ron_err *err);
/* All works must be back. */
void led_works_free(struct led_works *p);

/* A work whose arena has at least so many bytes (led_preval_arena_size), and some for what readers
 * add. NULL: W1, no memory, or more than a batch can need. */
struct led_work *led_works_get(struct led_works *p, size_t arena_bytes);
void led_works_put(struct led_works *p, struct led_work *w);

/* Frees the idle works that nobody needed since the last call: their pages are memory. */
void led_works_trim(struct led_works *p);

struct led_works_stats {
    uint64_t out;
    uint64_t out_bytes;
    uint64_t idle;
    uint64_t refused;
};
void led_works_stats(struct led_works *p, struct led_works_stats *ret_stats);
