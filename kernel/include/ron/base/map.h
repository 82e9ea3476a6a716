/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - the hash map of the project: intrusive, bounded, with age order and expiry.
 *
 * Place: base. The node lives inside the owner's element, so the map never allocates elements and
 * never frees them. Use it unless a measured hot path needs another layout; such a table says in
 * its head why it is not a ron_map, with the figure.
 *
 *     struct entry { struct ron_map_node node; ...; char path[]; };
 *     struct ron_map_key key = ron_map_key(secret, path, strlen(path));
 *     struct ron_map_node *n = ron_map_find(&map, &key);
 *     if (n == NULL) { rc = ron_map_add(&map, &e->node, &key, now_ms); }
 *
 * Contract:
 *   M1. A node that was added is found by its key until it is removed. A key is in the map at most
 *       once; adding it twice is a programmer's mistake, which checked builds assert.
 *   M2. There are at most `entries_max` nodes, and their `bytes` sum up to at most `bytes_max`
 *       (0: not bounded). An addition past either bound returns RON_FULL and changes nothing; the
 *       owner removes the oldest and repeats.
 *   M3. Nodes have an age order: the order of their additions and touches, oldest first. An owner
 *       that touches on each hit gets least-recently-used order; one that never touches gets order
 *       of arrival. A pinned node has no age: it is neither oldest nor expired until unpinned.
 *   M4. A node is expired once now_ms - (time of its addition, last touch or unpin) >= ttl_ms.
 *       Expired nodes stay in the map until the owner removes them. A clock that goes back delays
 *       expiry and nothing else.
 *   M5. The work per call is bounded: the map grows by splitting one chain per addition, never by
 *       moving all of them. Chains for `reserve` nodes are allocated by ron_map_init, and with
 *       reserve >= entries_max no later call allocates. When memory for more chains is missing,
 *       chains become longer and the next addition tries again; ron_map_add never fails for that.
 *       The map does not shrink.
 *
 * Ownership: nodes are the owner's. Remove a node before its memory goes away. ron_map_done drops
 * the chains; nodes that are still in the map are simply no longer in one.
 * Threads: no lock inside. The lock or thread of the owner's shard guards map and nodes.
 *
 * Compared with the design note: the key is hashed once into a ron_map_key, because owners choose
 * a shard by the same hash; there is no `by_use` switch, because only the owner knows which lookup
 * is a use (it calls ron_map_touch); and nodes can be pinned, which three of the tables need. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/assert.h"
#include "ron/base/hash.h"
#include "ron/base/list.h"
#include "ron/base/rc.h"

enum {
    RON_MAP_CHAINS_MIN = 16,
    RON_MAP_STEPS = 28,               /* doublings: 16 * 2^27 chains */
    RON_MAP_ENTRIES_MAX = 0x7fffffff, /* chains never exceed 2^31 */
};

/* What a node is looked up by. `hash` chooses the chain by its low bits (an owner chooses a shard
 * by the high ones) and must be well mixed; `bytes` and `len` are for `equal` alone, so an owner
 * with a key in several parts may pass a struct of its own. */
struct ron_map_key {
    uint64_t hash;
    const void *bytes;
    size_t len;
};

struct ron_map_node {
    struct ron_map_node *_next;
    struct ron_list_node _age;
    uint64_t _hash;
    uint64_t _at_ms;
    uint32_t bytes; /* cost; set before the addition, changed by ron_map_resize */
    bool _pinned;
};

struct ron_map_opts {
    uint32_t entries_max; /* 1 to RON_MAP_ENTRIES_MAX */
    uint32_t reserve;     /* nodes for which chains are allocated at once */
    uint64_t bytes_max;   /* 0: not bounded */
    uint64_t ttl_ms;      /* 0: nodes do not expire */
    /* Whether the node has this key; called for equal hashes. NULL: equal hashes are equal keys. */
    bool (*equal)(const struct ron_map_node *node, const struct ron_map_key *key);
};

struct ron_map {
    struct ron_map_opts _opts;
    struct ron_list _age;    /* oldest first, without the pinned ones */
    struct ron_list _pinned; /* in no particular order */
    /* Chains in blocks: the first holds `_base` chains, each next as many as all before it. */
    struct ron_map_node **_blocks[RON_MAP_STEPS];
    uint32_t _base;   /* a power of two */
    uint32_t _level;  /* chains before the running round of splits; a power of two */
    uint32_t _chains; /* _level <= _chains < 2 * _level */
    uint32_t _count;
    uint64_t _bytes;
};

static inline struct ron_map_key ron_map_key(struct ron_hash_key secret, const void *bytes,
                                             size_t len)
{
    return (struct ron_map_key){ron_hash(secret, bytes, len), bytes, len};
}

/* RON_NOMEM, or RON_INVALID for options out of range. After a failure the map is zeroed, and
 * ron_map_done does nothing. */
enum ron_rc ron_map_init(struct ron_map *m, const struct ron_map_opts *opts, struct ron_err *err);

/* Also fine on a struct of zeros. */
void ron_map_done(struct ron_map *m);

/* NULL: not in the map. */
struct ron_map_node *ron_map_find(const struct ron_map *m, const struct ron_map_key *key);

/* The node must be in no map, its `bytes` set. It becomes the newest. */
enum ron_rc ron_map_add(struct ron_map *m, struct ron_map_node *node, const struct ron_map_key *key,
                        uint64_t now_ms) RON_MUST_USE;

void ron_map_remove(struct ron_map *m, struct ron_map_node *node);

/* The node becomes the newest, and its time begins again. A pinned node stays pinned. */
void ron_map_touch(struct ron_map *m, struct ron_map_node *node, uint64_t now_ms);

/* Takes the node out of the age order, and puts it back as the newest. */
void ron_map_pin(struct ron_map *m, struct ron_map_node *node);
void ron_map_unpin(struct ron_map *m, struct ron_map_node *node, uint64_t now_ms);

/* Changes the cost of a node. The sum may exceed bytes_max afterwards: the owner removes nodes. */
static inline void ron_map_resize(struct ron_map *m, struct ron_map_node *node, uint32_t bytes)
{
    RON_ASSERT(m->_bytes >= node->bytes); /* the sum of all nodes */
    m->_bytes = m->_bytes - node->bytes + bytes;
    node->bytes = bytes;
}

static inline uint32_t ron_map_count(const struct ron_map *m)
{
    return m->_count;
}

static inline uint64_t ron_map_bytes(const struct ron_map *m)
{
    return m->_bytes;
}

/* NULL: there is none (or all are pinned). */
static inline struct ron_map_node *ron_map_oldest(const struct ron_map *m)
{
    struct ron_list_node *first = ron_list_front(&m->_age);

    return first != NULL ? RON_LIST_ENTRY(first, struct ron_map_node, _age) : NULL;
}

/* The next younger one; NULL: `node` is the newest. For a node that is not pinned. */
static inline struct ron_map_node *ron_map_younger(const struct ron_map *m,
                                                   const struct ron_map_node *node)
{
    struct ron_list_node *next = node->_age.next;

    return next != &m->_age.head ? RON_LIST_ENTRY(next, struct ron_map_node, _age) : NULL;
}

/* The oldest node if it is expired, else NULL. */
static inline struct ron_map_node *ron_map_expired(const struct ron_map *m, uint64_t now_ms)
{
    struct ron_map_node *oldest = ron_map_oldest(m);

    return oldest != NULL && m->_opts.ttl_ms != 0 && now_ms >= oldest->_at_ms &&
                   now_ms - oldest->_at_ms >= m->_opts.ttl_ms
               ? oldest
               : NULL;
}

/* Any node, pinned ones too; NULL: the map is empty. For owners that empty their map. */
static inline struct ron_map_node *ron_map_any(const struct ron_map *m)
{
    struct ron_list_node *first = ron_list_front(&m->_pinned);

    return first != NULL ? RON_LIST_ENTRY(first, struct ron_map_node, _age) : ron_map_oldest(m);
}

/* Visits nodes that are not pinned, oldest first; the body may remove `node`, but no other one. */
#define RON_MAP_FOREACH_SAFE(node, map)                                                            \
    for (struct ron_map_node *node = ron_map_oldest(map),                                          \
                             *node##_next_ = node != NULL ? ron_map_younger((map), node) : NULL;   \
         node != NULL;                                                                             \
         node = node##_next_, node##_next_ = node != NULL ? ron_map_younger((map), node) : NULL)
