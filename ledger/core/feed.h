/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/feed.h - keys of committed groups, handed from the committer to the indexer.
 *
 * Place: ledger. The committer has every key in its hands, hashed; reading them back from the log
 * would cost the indexer a decode and four hashes an entry. A block is lost when too many wait:
 * then the indexer reads that part from the log, so nothing depends on the feed but speed.
 *
 * Threads: one that puts, one that takes; a short lock of rank leaf. Nobody is woken: the indexer
 * looks often enough. In the registry it is the queue `index_feed`, whose capacity is in bytes. */
#pragma once

#include "ledger/index/follow.h"
#include "ledger/work/work.h"
#include "ron/chan/registry.h"

struct led_feed;

enum { LED_FEED_BYTES_MAX = 16 << 20 }; /* waiting blocks: some 800,000 entries */

/* Of the texts only the smallest and the largest are handed over: the index keeps no more. */
struct led_feed_block {
    struct led_feed_block *next;
    uint64_t seq_first;
    uint64_t seq_last;
    struct ron_tree_hash root; /* at seq_last */
    size_t bytes;
    struct led_edges edges[2]; /* by enum led_index_kind */
    size_t ids;
    size_t idems;
    size_t skips;
    struct led_index_key *idem; /* behind those of the ids */
    struct led_index_key *skip; /* behind those; key of the account */
    struct led_index_key id[];
};

RON_MUST_USE enum ron_rc led_feed_new(struct ron_registry *registry, struct led_feed **ret_feed,
                                      struct ron_err *err);
void led_feed_free(struct led_feed *f); /* NULL is fine */

/* The keys of a durable group; entries seq_first to seq_last. Never waits; may leave it out. */
void led_feed_put(struct led_feed *f, struct led_work *const *works, size_t count,
                  uint64_t seq_first, uint64_t seq_last, const struct ron_tree_hash *root);
/* All blocks that wait, oldest first; the caller frees them with led_feed_drop. */
struct led_feed_block *led_feed_take(struct led_feed *f);
void led_feed_drop(struct led_feed_block *blocks);
/* Adds the keys of a block to the index. */
RON_MUST_USE enum ron_rc led_feed_index(const struct led_feed_block *block, struct led_index *ix,
                                        struct ron_err *err);
