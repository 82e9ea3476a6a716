/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/follow.h - what the index takes from the journal: which keys, at which seqs, which
 * skip points. One rule for the indexer task, which follows the log, and for recovery.
 *
 * An id stands at the seq of its entry, an idem_id at that of the first entry of its batch, a
 * tombstone at that of the entry which follows it. About one in LED_SKIP_EVERY entries of an
 * account gives a skip point; which ones depends on account and seq alone.
 *
 * Threads: the writer of the index. Visible and durable with led_index_commit. */
#pragma once

#include "ledger/index/index.h"
#include "ledger/log/frame.h"

enum { LED_SKIP_EVERY = 256 };

/* Whether the entry at `seq` gives a skip point for an account that it touches. */
bool led_follow_skips(struct led_key account, uint64_t seq);
RON_MUST_USE enum ron_rc led_follow_entry(struct led_index *ix, const struct led_entry *entry,
                                          const struct led_prep *prep, uint64_t seq,
                                          struct ron_err *err);
/* The idem_id of a record (a batch or a tombstone); nothing when it has none. */
RON_MUST_USE enum ron_rc led_follow_idem(struct led_index *ix, struct led_key key,
                                         struct ron_str idem_id, uint64_t seq_first,
                                         struct ron_err *err);
/* All of a frame but the entries up to `after_seq`. RON_CORRUPT for bytes that are no entry. */
RON_MUST_USE enum ron_rc led_follow_frame(struct led_index *ix, const uint8_t hash_key[16],
                                          const struct led_frame *frame, uint64_t after_seq,
                                          struct ron_err *err);
