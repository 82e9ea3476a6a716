/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/feed.c - keys from the committer to the indexer; the contract is in feed.h. */
#include "ledger/core/feed.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/sync/sync.h"

struct led_feed {
    struct ron_mutex lock;
    struct led_feed_block *first;
    struct led_feed_block **last;
    size_t bytes;
    struct ron_registry *registry;
    struct ron_reg_entry entry;
    struct ron_stat depth; /* `bytes`, for the registry */
    struct ron_stat put;   /* blocks */
    struct ron_stat taken;
    struct ron_stat dropped;
};

/* No queue_depth: what does not fit costs the indexer a read of the log and nobody a refusal, so
 * a full feed is not worth the alarm that a full queue is. */
static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    const struct led_feed *f = RON_CONTAINER_OF(e, struct led_feed, entry);

    row->state = "open";
    row->depth = ron_stat_get(&f->depth);
    ron_reg_row_sample(row, "queue_sent_total", "queue", false, ron_stat_get(&f->put));
    ron_reg_row_sample(row, "queue_received_total", "queue", false, ron_stat_get(&f->taken));
    ron_reg_row_sample(row, "queue_dropped_total", "queue", false, ron_stat_get(&f->dropped));
}

enum ron_rc led_feed_new(struct ron_registry *registry, struct led_feed **ret_feed,
                         struct ron_err *err)
{
    struct led_feed *f = ron_alloc_zero(sizeof *f);
    enum ron_rc rc;

    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the indexer's feed");
    }
    ron_mutex_init(&f->lock, RON_RANK_LEAF, "ledger.feed");
    f->last = &f->first;
    f->registry = registry;
    rc = ron_registry_add(
        registry, &f->entry, RON_REG_QUEUE,
        &(struct ron_reg_desc){.name = "index_feed",
                               .policy = "drop_newest",
                               .producers = "committer",
                               .consumers = "indexer",
                               .drop = "capacity in bytes; the indexer reads the log",
                               .capacity = LED_FEED_BYTES_MAX},
        fill_row, err);
    if (rc != RON_OK) {
        ron_mutex_done(&f->lock);
        ron_free(f);
        return rc;
    }
    *ret_feed = f;
    return RON_OK;
}

void led_feed_drop(struct led_feed_block *blocks)
{
    while (blocks != NULL) {
        struct led_feed_block *next = blocks->next;

        ron_free(blocks);
        blocks = next;
    }
}

void led_feed_free(struct led_feed *f)
{
    if (f != NULL) {
        ron_registry_remove(f->registry, &f->entry);
        led_feed_drop(f->first);
        ron_mutex_done(&f->lock);
        ron_free(f);
    }
}

/* ---- putting --------------------------------------------------------------------------------- */

/* At most: an id for each entry, an idem_id for each work, and more skip points than are likely by
 * far: two in 256 entries. NULL: no memory. */
static struct led_feed_block *block_new(struct led_work *const *works, size_t count,
                                        size_t *ret_skips_max)
{
    struct led_feed_block *b;
    size_t entries = 0;
    size_t bytes;

    for (size_t i = 0; i < count; i++) {
        entries += works[i]->batch.count;
    }
    *ret_skips_max = entries / 8 + 8;
    bytes = sizeof *b + (entries + count + *ret_skips_max) * sizeof *b->id;
    b = ron_alloc(bytes);
    if (b != NULL) {
        memset(b, 0, sizeof *b);
        b->bytes = bytes;
        b->idem = b->id + entries;
        b->skip = b->idem + count;
    }
    return b;
}

static void add_skip(struct led_feed_block *b, size_t skips_max, struct led_key account,
                     uint64_t seq)
{
    if (led_follow_skips(account, seq)) {
        if (b->skips < skips_max) {
            b->skip[b->skips] = (struct led_index_key){account.a, seq};
        }
        b->skips++;
    }
}

static void add_work(struct led_feed_block *b, size_t skips_max, const struct led_work *w)
{
    if (w->batch.idem_id.len != 0) {
        b->idem[b->idems++] = (struct led_index_key){w->idem.a, w->seq_first};
        led_edges_add_text(&b->edges[LED_INDEX_IDEM], w->batch.idem_id);
    }
    for (size_t i = 0; i < w->batch.count; i++) {
        const struct led_entry *e = &w->batch.entries[i];
        const struct led_prep *p = &w->preps[i];
        uint64_t seq = w->seq_first + i;

        b->id[b->ids++] = (struct led_index_key){p->id.a, seq};
        led_edges_add_text(&b->edges[LED_INDEX_ID], e->id);
        add_skip(b, skips_max, p->account, seq);
        if (e->to.len > 0) {
            add_skip(b, skips_max, p->to, seq);
        }
    }
}

void led_feed_put(struct led_feed *f, struct led_work *const *works, size_t count,
                  uint64_t seq_first, uint64_t seq_last, const struct ron_tree_hash *root)
{
    size_t skips_max = 0;
    struct led_feed_block *b = block_new(works, count, &skips_max);
    bool ok = b != NULL;

    if (ok) {
        b->seq_first = seq_first;
        b->seq_last = seq_last;
        b->root = *root;
        for (size_t i = 0; i < count; i++) {
            add_work(b, skips_max, works[i]);
        }
        ok = b->skips <= skips_max; /* more than there is room for: this block is left out */
    }
    ron_mutex_lock(&f->lock);
    ok = ok && f->bytes + b->bytes <= LED_FEED_BYTES_MAX;
    if (ok) {
        *f->last = b;
        f->last = &b->next;
        f->bytes += b->bytes;
        ron_stat_set(&f->depth, f->bytes);
    }
    ron_stat_bump(ok ? &f->put : &f->dropped, 1);
    ron_mutex_unlock(&f->lock);
    if (!ok) {
        ron_free(b);
    }
}

/* ---- taking ---------------------------------------------------------------------------------- */

struct led_feed_block *led_feed_take(struct led_feed *f)
{
    struct led_feed_block *all;

    ron_mutex_lock(&f->lock);
    all = f->first;
    f->first = NULL;
    f->last = &f->first;
    f->bytes = 0;
    ron_stat_set(&f->depth, 0);
    ron_stat_set(&f->taken, ron_stat_get(&f->put));
    ron_mutex_unlock(&f->lock);
    return all;
}

enum ron_rc led_feed_index(const struct led_feed_block *b, struct led_index *ix,
                           struct ron_err *err)
{
    RON_TRY(led_index_add_many(ix, LED_INDEX_ID, b->id, b->ids, &b->edges[LED_INDEX_ID], err));
    RON_TRY(
        led_index_add_many(ix, LED_INDEX_IDEM, b->idem, b->idems, &b->edges[LED_INDEX_IDEM], err));
    for (size_t i = 0; i < b->skips; i++) {
        RON_TRY(led_index_add_skip(ix, (struct led_key){.a = b->skip[i].key}, b->skip[i].seq, err));
    }
    return RON_OK;
}
