/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/hashes.h - the stored hashes of the tree in a file: the engine under struct
 * ron_tree_store.
 *
 * Place: ledger, over the disk ports. Derived: written without a sync by the committer, made
 * durable now and then by the indexer task, rebuilt from the log when lost. 32 bytes a hash, place
 * after place (tree.h T2), in files of LED_HASHES_PER_FILE; no head, no checksum: whoever opens
 * it compares roots with the log.
 *
 *     tree/000000.hash    places 0 .. LED_HASHES_PER_FILE - 1
 *     tree/000001.hash    the next, and so on
 *
 * Threads: one appender; reads from any thread for places below what was appended; cut only while
 * nobody else is at it; sync from one thread, beside appends and reads. Readers open the files they
 * need, so nothing is shared and no number of files holds descriptors.
 *
 * Cost: a proof needs a hash of each level, most of them in pages of their own. The disk is told of
 * all of them before the first is read, so what is not in memory is waited for once.
 *
 * Failure: a failed append or cut leaves the count where it was; the same places may be appended
 * again. */
#pragma once

#include "ron/base/env.h"
#include "ron/merkle/tree.h"

struct led_hashes;

enum {
    LED_HASHES_PER_FILE = 1 << 21,  /* 64 MiB */
    LED_HASHES_FILES_MAX = 1000000, /* 6 digits: 2^40 entries */
};

/* `dir` is made with mode 0700 when absent. RON_NOTFOUND when read_only and it is absent. */
RON_MUST_USE enum ron_rc led_hashes_open(const struct ron_env *env, const char *dir, bool read_only,
                                         struct led_hashes **ret_hashes, struct ron_err *err);
void led_hashes_close(struct led_hashes *h); /* NULL is fine */
const struct ron_tree_store *led_hashes_store(struct led_hashes *h);
/* Hashes that the files hold, whatever they are. */
uint64_t led_hashes_count(const struct led_hashes *h);
/* Forgets those from `count` on. */
RON_MUST_USE enum ron_rc led_hashes_cut(struct led_hashes *h, uint64_t count, struct ron_err *err);
/* Makes durable what was appended before the call. */
RON_MUST_USE enum ron_rc led_hashes_sync(struct led_hashes *h, struct ron_err *err);
