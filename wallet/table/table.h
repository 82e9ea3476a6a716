/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/table.h - what the wallet's tables are made of: shards, zeroed memory on cache
 * lines, and records that are found by key and ordered by last use.
 *
 * Place: private to the tables (wlt_nonce, wlt_daily, wlt_idem, wlt_cache).
 *
 * Records are numbered from 1 on and linked by number, 0 being none: half the size of pointers, and
 * zeroed memory is an empty table, so that pages that nobody needs are never touched.
 *
 * Rules:
 *   T1. A record that was added is in exactly one chain, that of its key, until it is removed.
 *   T2. The list by last use is the owner's to fill: a record is in it at most once. Those that
 *       must not make room are kept out of it.
 *
 * Why not ron_map: a million records found and touched take 180 ns each here and 330 ns in the map,
 * with 68 and 104 bytes per record (bench_map); daily sums are looked up on every transfer.
 * Threads: the owner's lock guards a table with its records. */
#pragma once

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/table/key.h"

/* ---- shards and memory ----------------------------------------------------------------------- */

/* Keys are random under the secret, so their bits choose the shard (half of them here), the chain
 * or the set (the other half). */
static inline uint32_t wlt__pick(uint64_t bits, uint32_t count)
{
    return (uint32_t)(((bits >> 32) * count) >> 32);
}

static inline uint32_t wlt__shard_of(struct wlt_key key, uint32_t shards)
{
    return wlt__pick(key.a, shards);
}

/* For each of `shards` when there are to be `total` of them in all. */
static inline uint32_t wlt__per_shard(uint32_t total, uint32_t shards)
{
    return (uint32_t)(((uint64_t)total + shards - 1) / shards);
}

/* The smallest power of two that is not below n; n is at most 2^31. */
static inline uint32_t wlt__power_of_two(uint32_t n)
{
    return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* Zeroed memory, untouched until it is used, that begins with a cache line; *ret_raw is freed.
 * NULL: no memory. */
static inline void *wlt__lines(size_t count, size_t size, void **ret_raw)
{
    size_t bytes = 0;
    uint8_t *raw;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - RON_CACHELINE) {
        return NULL;
    }
    raw = ron_alloc_zero(bytes + RON_CACHELINE);
    if (raw == NULL) {
        return NULL;
    }
    *ret_raw = raw;
    return raw + (RON_CACHELINE - (uintptr_t)raw % RON_CACHELINE) % RON_CACHELINE;
}

/* ---- records --------------------------------------------------------------------------------- */

struct wlt__node {
    struct wlt_key key;
    uint32_t next; /* in its chain */
    uint32_t older;
    uint32_t newer;
};

struct wlt__table {
    uint8_t *first;   /* node of record 1 */
    size_t stride;    /* from record to record */
    uint32_t *chains; /* first record of each */
    uint32_t mask;    /* chains, a power of two, minus one */
    uint32_t oldest;  /* list by last use */
    uint32_t newest;
};

static inline struct wlt__node *wlt__node_at(const struct wlt__table *t, uint32_t number)
{
    RON_ASSERT_SLOW(number != 0);
    return (struct wlt__node *)(void *)(t->first + (size_t)(number - 1) * t->stride);
}

static inline uint32_t *wlt__chain_of(const struct wlt__table *t, struct wlt_key key)
{
    return &t->chains[key.b & t->mask];
}

/* 0: there is none. */
static inline uint32_t wlt__find(const struct wlt__table *t, struct wlt_key key)
{
    uint32_t at = *wlt__chain_of(t, key);

    while (at != 0 && !wlt_key_eq(wlt__node_at(t, at)->key, key)) {
        at = wlt__node_at(t, at)->next;
    }
    return at;
}

/* The key must not be there. */
static inline void wlt__add(struct wlt__table *t, uint32_t number, struct wlt_key key)
{
    uint32_t *chain = wlt__chain_of(t, key);

    *wlt__node_at(t, number) = (struct wlt__node){.key = key, .next = *chain};
    *chain = number;
}

static inline void wlt__remove(struct wlt__table *t, uint32_t number)
{
    struct wlt__node *node = wlt__node_at(t, number);
    uint32_t *link = wlt__chain_of(t, node->key);

    while (*link != number) {
        link = &wlt__node_at(t, *link)->next;
    }
    *link = node->next;
}

/* Puts a record that is not in the list at its end: it was used just now. */
static inline void wlt__list_push(struct wlt__table *t, uint32_t number)
{
    struct wlt__node *node = wlt__node_at(t, number);

    node->older = t->newest;
    node->newer = 0;
    *(t->newest != 0 ? &wlt__node_at(t, t->newest)->newer : &t->oldest) = number;
    t->newest = number;
}

static inline void wlt__list_remove(struct wlt__table *t, uint32_t number)
{
    struct wlt__node *node = wlt__node_at(t, number);

    *(node->older != 0 ? &wlt__node_at(t, node->older)->newer : &t->oldest) = node->newer;
    *(node->newer != 0 ? &wlt__node_at(t, node->newer)->older : &t->newest) = node->older;
}
