/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/group.h - a second look at a group of works before it is written, without the
 * book.
 *
 * Place: ledger, under the committer. It knows entries and links alone and has nothing in common
 * with led_book_apply, so that a mistake there does not reach the log.
 *
 * What is checked:
 *   G1. Seqs follow each other from the last one of the log on, through all works; only a tombstone
 *       has no entries.
 *   G2. Every balance in the links follows from the one before by the rule of the entry's kind: no
 *       underflow, no overflow, and equal to what an earlier entry of the group left when that one
 *       touched the same account and asset last.
 *   G3. Per work and asset, credits equal debits (reversals of them included). All other kinds move
 *       or make or destroy units by themselves (G2).
 *
 * Threads: one at a time with one struct led_group. After warm-up nothing is allocated. */
#pragma once

#include "ledger/work/work.h"

struct led_group_sum {
    struct ron_str asset;
    struct ron_money credits;
    struct ron_money debits;
};

/* What an entry left on an account. */
struct led_group_side {
    uint64_t account; /* led_key.a */
    ron_u128 available;
    ron_u128 held;
};

/* What is remembered of an entry of the group, by seq: a later one may build on it. */
struct led_group_place {
    struct led_group_side account;
    struct led_group_side to;
    struct ron_str asset;
    uint64_t asset_head; /* its first 8 bytes: mostly all of it, and at hand */
    bool has_to;
    bool any_to; /* of a Reverse: the account is named by its original alone */
};

struct led_group {
    struct led_group_place *places;
    size_t places_room;
    struct led_group_sum *sums;
    size_t sums_room;
    size_t sums_count;
    uint64_t seq_first;
    size_t entries; /* of the works that were looked at so far */
};

/* A struct of zeros is ready for use. */
void led_group_done(struct led_group *g);

/* A group of as many entries begins, at seq_first. RON_NOMEM. */
RON_MUST_USE enum ron_rc led_group_begin(struct led_group *g, size_t entries, uint64_t seq_first,
                                         struct ron_err *err);
/* Its works one after another. RON_OK; RON_CORRUPT with seq and rule in `err`; RON_NOMEM. */
RON_MUST_USE enum ron_rc led_group_check(struct led_group *g, const struct led_work *work,
                                         struct ron_err *err);
