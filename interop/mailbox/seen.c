/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/seen.c - the table of keys; contract in seen.h.
 *
 * Two arrays, sized at birth: a ring of entries in the order in which they were taken (so the
 * oldest is at its tail), and an open hash table of their places with linear probing and backward
 * shift on removal, so no tombstones gather. A released entry stays in the ring as a gap until the
 * tail has passed it.
 *
 * Invariants:
 *   I1 every entry of the ring that is not a gap is found through the hash table, and nothing else.
 *   I2 the table is at most half full, so a probe ends.
 *
 * Why not ron_map: a key takes 32 to 40 bytes here and 80 in the map, which for the default of
 * 4,194,304 keys is 160 MiB instead of 320 MiB. */
#include "interop/mailbox/seen.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/clock.h"
#include "ron/base/secret.h"
#include "ron/sync/sync.h"

enum state { GAP, RESERVED, COMMITTED };

struct entry {
    struct iop_key key;
    uint64_t at_ms : 62;
    uint64_t state : 2;
};

struct iop_seen {
    struct iop_seen_opts opts;
    struct ron_mutex lock;
    struct entry *ring;
    uint64_t tail;   /* oldest; numbers run on, the place is number % entries_max */
    uint64_t head;   /* where the next goes */
    uint32_t *slots; /* place in the ring plus 1; 0: free */
    uint32_t mask;
    struct iop_seen_stats stats;
};

enum ron_rc iop_seen_new(const struct iop_seen_opts *opts, struct iop_seen **ret_seen,
                         struct ron_err *err)
{
    struct iop_seen *s;
    uint32_t slots = 16;

    if (opts->entries_max == 0 || opts->entries_max > IOP_SEEN_MAX ||
        opts->keep_ms > opts->ttl_ms) {
        return ron_err_set(err, RON_INVALID,
                           "deduplication table: expected 1 to %d keys, kept no longer "
                           "than remembered",
                           (int)IOP_SEEN_MAX);
    }
    while (slots < 2 * opts->entries_max) {
        slots *= 2;
    }
    s = ron_alloc_zero(sizeof *s);
    if (s != NULL) {
        s->opts = *opts;
        s->mask = slots - 1;
        ron_mutex_init(&s->lock, RON_RANK_SHARED, "iop_seen");
        s->ring = ron_alloc_array(opts->entries_max, sizeof *s->ring);
        s->slots = ron_alloc_array(slots, sizeof *s->slots);
    }
    if (s == NULL || s->ring == NULL || s->slots == NULL) {
        iop_seen_free(s);
        return ron_err_set(err, RON_NOMEM, "out of memory for %u deduplication keys",
                           opts->entries_max);
    }
    *ret_seen = s;
    return RON_OK;
}

void iop_seen_free(struct iop_seen *s)
{
    if (s == NULL) {
        return;
    }
    ron_mutex_done(&s->lock);
    ron_free(s->ring);
    ron_free(s->slots);
    ron_wipe(s->opts.secret, sizeof s->opts.secret);
    ron_free(s);
}

void iop_seen_key(const struct iop_seen *s, struct ron_str provider, struct ron_str id,
                  const struct ron_b3 *body, struct iop_key *ret_key)
{
    struct ron_b3_hasher h;
    struct ron_b3 hash;
    /* Kind and length first: no two inputs give the same bytes. */
    uint8_t head[2] = {id.len > 0 ? 'i' : 'b', (uint8_t)provider.len};

    RON_ASSERT(provider.len <= UINT8_MAX);
    RON_ASSERT_MSG(id.len > 0 || body != NULL, "a delivery has an id or a body");
    ron_b3_init_keyed(&h, s->opts.secret);
    ron_b3_update(&h, head, sizeof head);
    ron_b3_update(&h, provider.ptr, provider.len);
    if (id.len > 0) {
        ron_b3_update(&h, id.ptr, id.len);
    } else {
        ron_b3_update(&h, body->bytes, sizeof body->bytes);
    }
    ron_b3_final(&h, &hash);
    memcpy(ret_key->bytes, hash.bytes, sizeof ret_key->bytes);
}

/* ---- the hash table -------------------------------------------------------------------------- */

static struct entry *entry_at(const struct iop_seen *s, uint64_t number)
{
    return &s->ring[number % s->opts.entries_max];
}

/* The key is the output of a keyed hash: its first bytes are as good as any. */
static uint32_t home_of(const struct iop_seen *s, const struct iop_key *key)
{
    uint32_t h;

    memcpy(&h, key->bytes, sizeof h);
    return h & s->mask;
}

/* The slot of the key, or the free one where it would go. */
static uint32_t find(const struct iop_seen *s, const struct iop_key *key)
{
    uint32_t i = home_of(s, key);

    while (s->slots[i] != 0 &&
           memcmp(s->ring[s->slots[i] - 1].key.bytes, key->bytes, sizeof key->bytes) != 0) {
        i = (i + 1) & s->mask;
    }
    return i;
}

static void unlink_slot(struct iop_seen *s, uint32_t hole)
{
    uint32_t i = hole;

    RON_ASSERT(s->slots[hole] != 0);
    for (;;) {
        uint32_t home;

        s->slots[hole] = 0;
        do {
            i = (i + 1) & s->mask;
            if (s->slots[i] == 0) {
                return;
            }
            home = home_of(s, &s->ring[s->slots[i] - 1].key);
            /* It may move back to the hole only if its home is not between hole and itself. */
        } while (((i - home) & s->mask) < ((i - hole) & s->mask));
        s->slots[hole] = s->slots[i];
        hole = i;
    }
}

static void drop_entry(struct iop_seen *s, struct entry *e)
{
    RON_ASSERT_MSG(e->state != GAP, "a gap has no key");
    unlink_slot(s, find(s, &e->key));
    if (e->state == COMMITTED) {
        RON_ASSERT(s->stats.committed > 0);
        s->stats.committed--;
    } else {
        RON_ASSERT(s->stats.reserved > 0);
        s->stats.reserved--;
    }
    e->state = GAP;
}

static bool too_old(const struct iop_seen *s, const struct entry *e, uint64_t now_ms)
{
    return now_ms > e->at_ms && now_ms - e->at_ms > s->opts.ttl_ms;
}

/* Gaps and what is past its time, at the tail. A reservation is short and is waited for. */
static void trim(struct iop_seen *s, uint64_t now_ms)
{
    while (s->tail < s->head) {
        struct entry *e = entry_at(s, s->tail);

        if (e->state == RESERVED || (e->state == COMMITTED && !too_old(s, e, now_ms))) {
            return;
        }
        if (e->state == COMMITTED) {
            drop_entry(s, e);
        }
        s->tail++;
    }
}

/* D3. */
static bool make_room(struct iop_seen *s, uint64_t now_ms)
{
    struct entry *e;

    if (s->head - s->tail < s->opts.entries_max) {
        return true;
    }
    e = entry_at(s, s->tail);
    if (e->state != COMMITTED || now_ms < e->at_ms || now_ms - e->at_ms < s->opts.keep_ms) {
        s->stats.refused++;
        return false;
    }
    drop_entry(s, e);
    s->tail++;
    s->stats.evicted++;
    return true;
}

static void insert(struct iop_seen *s, const struct iop_key *key, uint64_t at_ms, enum state state)
{
    uint32_t slot = find(s, key);
    struct entry *e = entry_at(s, s->head);

    RON_ASSERT_MSG(s->slots[slot] == 0, "D1: a key has one entry");
    RON_ASSERT_MSG(s->head - s->tail < s->opts.entries_max, "D3: room was made");
    *e = (struct entry){
        .key = *key, .at_ms = at_ms & (UINT64_MAX >> 2), .state = (unsigned)state & 3u};
    s->slots[slot] = (uint32_t)(s->head % s->opts.entries_max) + 1;
    s->head++;
    if (state == COMMITTED) {
        s->stats.committed++;
    } else {
        s->stats.reserved++;
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The entry, or NULL; one past its time is none. */
static struct entry *look(struct iop_seen *s, const struct iop_key *key, uint64_t now_ms)
{
    uint32_t slot = find(s, key);
    struct entry *e = s->slots[slot] != 0 ? &s->ring[s->slots[slot] - 1] : NULL;

    if (e != NULL && e->state == COMMITTED && too_old(s, e, now_ms)) {
        drop_entry(s, e);
        e = NULL;
    }
    return e;
}

bool iop_seen_has(struct iop_seen *s, const struct iop_key *key, uint64_t now_ms)
{
    struct entry *e;
    bool has;

    ron_mutex_lock(&s->lock);
    e = look(s, key, now_ms);
    has = e != NULL && e->state == COMMITTED;
    s->stats.duplicates += has;
    ron_mutex_unlock(&s->lock);
    return has;
}

enum ron_rc iop_seen_reserve(struct iop_seen *s, const struct iop_key *key, uint64_t now_ms)
{
    enum ron_rc rc = RON_OK;
    struct entry *e;

    ron_mutex_lock(&s->lock);
    trim(s, now_ms);
    e = look(s, key, now_ms);
    if (e != NULL) {
        rc = e->state == COMMITTED ? RON_EXISTS : RON_AGAIN;
        s->stats.duplicates += e->state == COMMITTED;
    } else if (!make_room(s, now_ms)) {
        rc = RON_FULL;
    } else {
        insert(s, key, now_ms, RESERVED);
    }
    ron_mutex_unlock(&s->lock);
    return rc;
}

static struct entry *reserved_of(struct iop_seen *s, const struct iop_key *key)
{
    uint32_t slot = find(s, key);

    RON_ASSERT_MSG(s->slots[slot] != 0, "a key that nobody reserved");
    RON_ASSERT_MSG(s->ring[s->slots[slot] - 1].state == RESERVED, "a key that is not reserved");
    return &s->ring[s->slots[slot] - 1];
}

void iop_seen_commit(struct iop_seen *s, const struct iop_key *key)
{
    ron_mutex_lock(&s->lock);
    reserved_of(s, key)->state = COMMITTED;
    RON_ASSERT(s->stats.reserved > 0);
    s->stats.reserved--;
    s->stats.committed++;
    ron_mutex_unlock(&s->lock);
}

void iop_seen_release(struct iop_seen *s, const struct iop_key *key)
{
    ron_mutex_lock(&s->lock);
    drop_entry(s, reserved_of(s, key));
    ron_mutex_unlock(&s->lock);
}

enum ron_rc iop_seen_load(struct iop_seen *s, const struct iop_key *key, uint64_t at_ms)
{
    enum ron_rc rc = RON_OK;

    ron_mutex_lock(&s->lock);
    if (look(s, key, 0) != NULL) {
        rc = RON_EXISTS;
    } else {
        if (s->head - s->tail >= s->opts.entries_max) {
            /* A smaller table than the last time: the newest stay. */
            struct entry *e = entry_at(s, s->tail++);

            if (e->state != GAP) {
                drop_entry(s, e);
                s->stats.evicted++;
            }
        }
        insert(s, key, at_ms, COMMITTED);
    }
    ron_mutex_unlock(&s->lock);
    return rc;
}

uint64_t iop_seen_expire(struct iop_seen *s, uint64_t now_ms)
{
    uint64_t before = now_ms > s->opts.ttl_ms ? now_ms - s->opts.ttl_ms : 0;

    ron_mutex_lock(&s->lock);
    trim(s, now_ms);
    RON_ASSERT(s->tail <= s->head);
    if (s->tail < s->head && s->head - s->tail == s->opts.entries_max) {
        /* Full: what was evicted is not needed any more either. */
        before = RON_MAX(before, (uint64_t)entry_at(s, s->tail)->at_ms);
    }
    ron_mutex_unlock(&s->lock);
    return before;
}

void iop_seen_set_keep(struct iop_seen *s, uint64_t keep_ms)
{
    ron_mutex_lock(&s->lock);
    s->opts.keep_ms = RON_MIN(keep_ms, s->opts.ttl_ms);
    ron_mutex_unlock(&s->lock);
}

void iop_seen_get_stats(struct iop_seen *s, struct iop_seen_stats *ret_stats)
{
    ron_mutex_lock(&s->lock);
    *ret_stats = s->stats;
    ron_mutex_unlock(&s->lock);
}
