/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/idem.c - shards of entries, each a chain of blocks of one size.
 *
 * Place: wallet. An entry is a head block (key, fingerprint, first bytes of the answer) and as many
 * further blocks as the answer needs. Blocks of one size neither fragment nor need the heap, and
 * count what is used exactly.
 *
 *     absent --begin--> PENDING --finish--> DONE --expired, or to make room--> absent
 *                       PENDING --abandon, or the answer is too large--> absent
 *
 * Invariants (per shard, guarded by its lock):
 *   I1. A block is free, or belongs to one entry. Blocks from `fresh` on were never used.
 *   I2. An entry is in the list by last use exactly when it is DONE. A PENDING one has one block.
 *   I3. used = blocks that belong to entries; free ones are blocks - used.
 *   I4. `last` of a head is the end of its chain, so that all of it is given back in one step,
 *       without a look at the blocks between.
 *   I5. `pending` of the store is the number of PENDING entries of all shards, at most
 *       pending_max. */
#include "wallet/table/idem.h"

#include <string.h>

#include "ron/sync/sync.h"
#include "wallet/table/table.h"

enum {
    /* A receipt of 600 bytes takes three blocks and wastes little. */
    BLOCK = 256,
    SHARD_BYTES_MIN = 4096,
    /* How many expired ones are removed at most when one is added: more than one, so that they do
     * not pile up; few, because somebody waits. */
    SWEEP = 2,
    FINGERPRINT = 32,
};

struct head {
    uint32_t more; /* next block of the entry, or next free block; 0: none */
    uint32_t len;  /* of the answer */
    struct wlt__node node;
    uint32_t is_done;
    uint32_t last; /* block of the entry; itself when there is no other */
    uint64_t expires_ms;
    uint8_t fingerprint[FINGERPRINT];
    uint8_t bytes[BLOCK - 88];
};

struct tail {
    uint32_t more;
    uint8_t bytes[BLOCK - 4];
};

union block {
    struct head head;
    struct tail tail;
};

_Static_assert(sizeof(union block) == BLOCK, "a block");

struct shard {
    struct ron_mutex mu;
    struct wlt__table table; /* by the number of the head */
    union block *blocks;
    uint32_t count;
    uint32_t fresh; /* blocks that were used so far */
    uint32_t free;  /* first of those that were given back */
    uint32_t used;
    uint32_t pending;
    struct ron_stat entries;
    struct ron_stat bytes;
    struct ron_stat evicted;
    struct ron_stat expired;
} RON_ALIGNED_CACHELINE;

struct wlt_idem {
    struct shard *shards;
    uint32_t shard_count;
    uint32_t pending_max;
    struct ron_au32 pending;
    struct ron_au64 ttl_ms;
    void *raw_shards;
    void *raw_blocks;
    uint32_t *chains;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void init_shards(struct wlt_idem *i, union block *blocks, uint32_t count, uint32_t chains)
{
    for (uint32_t k = 0; k < i->shard_count; k++) {
        struct shard *s = &i->shards[k];

        ron_mutex_init(&s->mu, RON_RANK_LEAF, "idempotency");
        s->blocks = blocks + (size_t)k * count;
        s->count = count;
        s->table = (struct wlt__table){.first = (uint8_t *)&s->blocks->head.node,
                                       .stride = sizeof *s->blocks,
                                       .chains = i->chains + (size_t)k * chains,
                                       .mask = chains - 1};
    }
}

enum ron_rc wlt_idem_new(const struct wlt_idem_opts *opts, struct wlt_idem **ret,
                         struct ron_err *err)
{
    uint64_t shards = opts->shards;
    union block *blocks;
    struct wlt_idem *i;
    uint32_t count;
    uint32_t chains;

    if (shards < 1 || shards > WLT_SHARDS_MAX || opts->pending_max < 1 ||
        opts->bytes_max / shards < SHARD_BYTES_MIN ||
        opts->bytes_max / shards > (uint64_t)INT32_MAX * BLOCK) {
        return ron_err_set(err, RON_INVALID, "idempotency: %llu bytes in %u shards, %u jobs",
                           (unsigned long long)opts->bytes_max, (unsigned)opts->shards,
                           (unsigned)opts->pending_max);
    }
    /* A chain for every two blocks: most entries have more. */
    count = (uint32_t)(opts->bytes_max / shards / (BLOCK + sizeof *i->chains));
    chains = wlt__power_of_two(count / 2 + 1);
    i = ron_alloc_zero(sizeof *i);
    if (i == NULL) {
        return ron_err_set(err, RON_NOMEM, "idempotency: out of memory");
    }
    i->shards = wlt__lines(shards, sizeof *i->shards, &i->raw_shards);
    blocks = wlt__lines(shards * count, sizeof *blocks, &i->raw_blocks);
    i->chains = ron_alloc_array(shards * chains, sizeof *i->chains);
    if (i->shards == NULL || blocks == NULL || i->chains == NULL) {
        wlt_idem_free(i); /* has no shards yet */
        return ron_err_set(err, RON_NOMEM, "idempotency: out of memory for %llu bytes",
                           (unsigned long long)opts->bytes_max);
    }
    i->shard_count = opts->shards;
    i->pending_max = opts->pending_max;
    ron_au64_store(&i->ttl_ms, opts->ttl_ms);
    init_shards(i, blocks, count, chains);
    *ret = i;
    return RON_OK;
}

void wlt_idem_free(struct wlt_idem *i)
{
    if (i == NULL) {
        return;
    }
    for (uint32_t k = 0; k < i->shard_count; k++) {
        ron_mutex_done(&i->shards[k].mu);
    }
    ron_free(i->chains);
    ron_free(i->raw_blocks);
    ron_free(i->raw_shards);
    ron_free(i);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static union block *block_at(struct shard *s, uint32_t number)
{
    RON_ASSERT_SLOW(number != 0);
    return &s->blocks[number - 1];
}

/* Blocks beyond the head. */
static uint32_t tails_for(size_t len)
{
    size_t first = sizeof((struct head *)0)->bytes;
    size_t each = sizeof((struct tail *)0)->bytes;

    return len <= first ? 0 : (uint32_t)((len - first + each - 1) / each);
}

/* One must be there. */
static uint32_t take_block(struct shard *s)
{
    uint32_t number = s->free;

    if (number != 0) {
        s->free = block_at(s, number)->tail.more;
    } else {
        RON_ASSERT_MSG(s->fresh < s->count, "I3: no block is free");
        number = ++s->fresh;
    }
    s->used++;
    ron_stat_bump(&s->bytes, BLOCK);
    return number;
}

/* The entry leaves its chain, and its blocks are free. It is in no list any more. */
static void remove_entry(struct shard *s, uint32_t number)
{
    const struct head *h = &block_at(s, number)->head;
    uint32_t blocks = 1 + tails_for(h->len);

    wlt__remove(&s->table, number);
    block_at(s, h->last)->tail.more = s->free; /* I4 */
    s->free = number;
    s->used -= blocks;
    ron_stat_set(&s->bytes, ron_stat_get(&s->bytes) - (uint64_t)blocks * BLOCK);
    ron_stat_set(&s->entries, ron_stat_get(&s->entries) - 1);
}

/* Removes the one that was not used for longest; there must be one. */
static void remove_oldest(struct shard *s, uint64_t now_ms)
{
    uint32_t number = s->table.oldest;
    bool expired = block_at(s, number)->head.expires_ms <= now_ms;

    ron_stat_bump(expired ? &s->expired : &s->evicted, 1);
    wlt__list_remove(&s->table, number);
    remove_entry(s, number);
}

/* Whether `blocks` are free, after the oldest entries made room; nobody does when it is in vain. */
static bool make_room(struct shard *s, uint32_t blocks, uint64_t now_ms)
{
    if (blocks > s->count - s->pending) { /* I2: all others are free or can be freed */
        return false;
    }
    while (s->count - s->used < blocks) {
        remove_oldest(s, now_ms);
    }
    return true;
}

static void sweep(struct shard *s, uint64_t now_ms)
{
    for (int k = 0; k < SWEEP && s->table.oldest != 0; k++) {
        if (block_at(s, s->table.oldest)->head.expires_ms > now_ms) {
            return;
        }
        remove_oldest(s, now_ms);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The room of the blocks is there. */
static void store_answer(struct shard *s, struct head *h, const uint8_t *bytes, size_t len)
{
    size_t part = RON_MIN(len, sizeof h->bytes);
    uint32_t *link = &h->more;

    h->len = (uint32_t)len;
    memcpy(h->bytes, bytes, part);
    while ((len -= part) > 0) {
        uint32_t number = take_block(s);
        struct tail *t = &block_at(s, number)->tail;

        bytes += part;
        part = RON_MIN(len, sizeof t->bytes);
        memcpy(t->bytes, bytes, part);
        t->more = 0;
        *link = number;
        link = &t->more;
        h->last = number;
    }
}

/* Appends all of it, or leaves the failure in `out`. */
static void load_answer(struct shard *s, const struct head *h, struct ron_buf *out)
{
    size_t len = h->len;
    size_t part = RON_MIN(len, sizeof h->bytes);
    uint32_t number = h->more;
    uint8_t *room;

    if (len == 0 || ron_buf_reserve(out, len, &room) != RON_OK) {
        return;
    }
    memcpy(room, h->bytes, part);
    while ((len -= part) > 0) {
        const struct tail *t = &block_at(s, number)->tail;

        room += part;
        part = RON_MIN(len, sizeof t->bytes);
        memcpy(room, t->bytes, part);
        number = t->more;
    }
    ron_buf_commit(out, h->len);
}

/* ---- entries --------------------------------------------------------------------------------- */

static struct shard *lock_shard(struct wlt_idem *i, struct wlt_key key)
{
    struct shard *s = &i->shards[wlt__shard_of(key, i->shard_count)];

    ron_mutex_lock(&s->mu);
    return s;
}

/* One more job, unless there are too many (I5). */
static bool admit(struct wlt_idem *i)
{
    uint32_t pending = ron_au32_load(&i->pending);

    do {
        if (pending >= i->pending_max) {
            return false;
        }
    } while (!ron_au32_cas(&i->pending, &pending, pending + 1));
    return true;
}

static enum wlt_idem_verdict add(struct wlt_idem *i, struct shard *s, struct wlt_key key,
                                 const uint8_t fingerprint[FINGERPRINT], uint64_t now_ms)
{
    uint32_t number;
    struct head *h;

    sweep(s, now_ms);
    if (!admit(i)) {
        return WLT_IDEM_FULL;
    }
    if (!make_room(s, 1, now_ms)) {
        (void)ron_au32_add(&i->pending, UINT32_MAX);
        return WLT_IDEM_FULL;
    }
    number = take_block(s);
    h = &block_at(s, number)->head;
    h->more = 0;
    h->len = 0;
    h->is_done = 0;
    h->last = number;
    memcpy(h->fingerprint, fingerprint, FINGERPRINT);
    wlt__add(&s->table, number, key);
    s->pending++;
    ron_stat_bump(&s->entries, 1);
    return WLT_IDEM_FIRST;
}

static enum wlt_idem_verdict look(struct wlt_idem *i, struct shard *s, struct wlt_key key,
                                  const uint8_t fingerprint[FINGERPRINT], uint64_t now_ms,
                                  struct ron_buf *out)
{
    uint32_t number = wlt__find(&s->table, key);
    struct head *h = number != 0 ? &block_at(s, number)->head : NULL;

    if (h != NULL && h->is_done && h->expires_ms <= now_ms) {
        wlt__list_remove(&s->table, number);
        remove_entry(s, number);
        ron_stat_bump(&s->expired, 1);
        h = NULL;
    }
    if (h == NULL) {
        return add(i, s, key, fingerprint, now_ms);
    }
    if (memcmp(h->fingerprint, fingerprint, FINGERPRINT) != 0) {
        return WLT_IDEM_CONFLICT;
    }
    if (!h->is_done) {
        return WLT_IDEM_PENDING;
    }
    wlt__list_remove(&s->table, number);
    wlt__list_push(&s->table, number);
    load_answer(s, h, out);
    return WLT_IDEM_REPLAY;
}

enum wlt_idem_verdict wlt_idem_begin(struct wlt_idem *i, struct wlt_key key,
                                     const uint8_t fingerprint[32], uint64_t now_ms,
                                     struct ron_buf *out)
{
    struct shard *s = lock_shard(i, key);
    enum wlt_idem_verdict verdict = look(i, s, key, fingerprint, now_ms, out);

    ron_mutex_unlock(&s->mu);
    return verdict;
}

/* The entry of a job that ends, which is not PENDING from here on; the caller says what it is. */
static uint32_t end_pending(struct wlt_idem *i, struct shard *s, struct wlt_key key)
{
    uint32_t number = wlt__find(&s->table, key);

    RON_ASSERT_MSG(number != 0, "I1: the key has no job");
    RON_ASSERT_MSG(!block_at(s, number)->head.is_done, "I1: the job of the key has ended");
    s->pending--;
    (void)ron_au32_add(&i->pending, UINT32_MAX);
    return number;
}

void wlt_idem_finish(struct wlt_idem *i, struct wlt_key key, const void *answer, size_t len,
                     uint64_t now_ms)
{
    uint64_t ttl_ms = ron_au64_load(&i->ttl_ms);
    struct shard *s = lock_shard(i, key);
    uint32_t number = end_pending(i, s, key);
    struct head *h = &block_at(s, number)->head;

    /* Its own block is neither free nor can it be freed: as if it were still a job. */
    s->pending++;
    if (len / BLOCK < s->count && make_room(s, tails_for(len), now_ms)) {
        h->is_done = 1;
        h->expires_ms = ttl_ms < UINT64_MAX - now_ms ? now_ms + ttl_ms : UINT64_MAX;
        store_answer(s, h, answer, len);
        wlt__list_push(&s->table, number);
    } else {
        remove_entry(s, number);
    }
    s->pending--;
    ron_mutex_unlock(&s->mu);
}

void wlt_idem_abandon(struct wlt_idem *i, struct wlt_key key)
{
    struct shard *s = lock_shard(i, key);

    remove_entry(s, end_pending(i, s, key));
    ron_mutex_unlock(&s->mu);
}

void wlt_idem_forget_all(struct wlt_idem *i)
{
    for (uint32_t k = 0; k < i->shard_count; k++) {
        struct shard *s = &i->shards[k];

        ron_mutex_lock(&s->mu);
        while (s->table.oldest != 0) { /* I2: those that are done */
            remove_oldest(s, 0);
        }
        ron_mutex_unlock(&s->mu);
    }
}

void wlt_idem_set_ttl(struct wlt_idem *i, uint64_t ttl_ms)
{
    ron_au64_store(&i->ttl_ms, ttl_ms);
}

struct wlt_idem_stats wlt_idem_stats(const struct wlt_idem *i)
{
    struct wlt_idem_stats sum = {0};

    for (uint32_t k = 0; k < i->shard_count; k++) {
        const struct shard *s = &i->shards[k];

        sum.entries += ron_stat_get(&s->entries);
        sum.bytes += ron_stat_get(&s->bytes);
        sum.evicted_total += ron_stat_get(&s->evicted);
        sum.expired_total += ron_stat_get(&s->expired);
    }
    return sum;
}
