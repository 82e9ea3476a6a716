/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/frozen.h - accounts that were frozen at run time: a list that survives a restart.
 *
 * Place: service. Freezing is policy and no part of the journal; the book enforces it. The file
 * `frozen` in the data directory holds one account a line and is replaced whole. On a shared log
 * the database has the list (replica/rows.h), and the file is the copy of who leads or led last.
 *
 * Threads: one at a time; the callers see to that. Saving blocks. */
#pragma once

#include "ledger/book/book.h"
#include "ron/base/env.h"

struct led_frozen;

enum {
    LED_FROZEN_MAX = 100000, /* accounts; a list written by operators */
    LED_FROZEN_BYTES_MAX = 32 << 20,
};

/* Reads the file of `dir`; NULL: memory only. RON_CORRUPT for a file that is no list. */
RON_MUST_USE enum ron_rc led_frozen_new(const struct ron_env *env, const char *dir,
                                        struct led_frozen **ret_frozen, struct ron_err *err);
void led_frozen_free(struct led_frozen *f);
/* Freezes them all in a book in which nothing is uncommitted. */
RON_MUST_USE enum ron_rc led_frozen_apply(struct led_frozen *f, struct led_book *book,
                                          struct ron_err *err);
/* The list in whose place another one comes, which is that of all ledgers on a shared log: takes
 * `lines`, an account each, saves them and lets the book follow, in which nothing is uncommitted.
 * On failure the list is as it was, and `lines` still the caller's. */
RON_MUST_USE enum ron_rc led_frozen_replace(struct led_frozen *f, struct ron_buf *lines,
                                            struct led_book *book, struct ron_err *err);
/* Calls for each, in the order of the list. */
typedef enum ron_rc led_frozen_fn(void *arg, struct ron_str account, struct ron_err *err);
RON_MUST_USE enum ron_rc led_frozen_each(const struct led_frozen *f, led_frozen_fn *each, void *arg,
                                         struct ron_err *err);
/* Notes a change and saves the list. On failure the list is as it was. */
RON_MUST_USE enum ron_rc led_frozen_set(struct led_frozen *f, struct ron_str account, bool frozen,
                                        struct ron_err *err);
