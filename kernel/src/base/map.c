/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - linear hashing over blocks of chains; contract in map.h.
 *
 * Chains are numbered from 0. During a round of splits that began with `_level` chains, the chains
 * below `_chains - _level` have been split: their nodes are spread over 2 * _level chains by one
 * more bit of the hash. Block 0 holds the first `_base` chains; block i > 0 holds as many as all
 * blocks before it, that is chains _base << (i - 1) to (_base << i) - 1. No chain ever moves.
 *
 * Invariants:
 *   I1. A node is in the chain that chain_of gives for its hash.
 *   I2. Every node is in exactly one of the lists `_age` and `_pinned`.
 *   I3. `_count` and `_bytes` are sums over all nodes. */
#include "ron/base/map.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static uint32_t power_of_two_at_least(uint32_t n)
{
    return n <= 1 ? 1 : 1u << (32 - (uint32_t)__builtin_clz(n - 1));
}

enum ron_rc ron_map_init(struct ron_map *m, const struct ron_map_opts *opts, struct ron_err *err)
{
    struct ron_map_node **first;
    uint32_t reserve;
    uint32_t base;

    *m = (struct ron_map){0};
    if (opts->entries_max < 1 || opts->entries_max > RON_MAP_ENTRIES_MAX) {
        return ron_err_set(err, RON_INVALID, "map of %u entries; 1 to %u are allowed",
                           (unsigned)opts->entries_max, (unsigned)RON_MAP_ENTRIES_MAX);
    }
    reserve = RON_MIN(opts->reserve, opts->entries_max);
    base = power_of_two_at_least(RON_MAX(reserve, (uint32_t)RON_MAP_CHAINS_MIN));
    first = ron_alloc_array(base, sizeof(struct ron_map_node *));
    if (first == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a map of %u entries", (unsigned)reserve);
    }
    *m = (struct ron_map){._opts = *opts, ._base = base, ._level = base, ._chains = base};
    m->_blocks[0] = first;
    ron_list_init(&m->_age);
    ron_list_init(&m->_pinned);
    return RON_OK;
}

void ron_map_done(struct ron_map *m)
{
    for (size_t i = 0; i < RON_MAP_STEPS; i++) {
        ron_free(m->_blocks[i]);
    }
    *m = (struct ron_map){0};
}

/* ---- chains ---------------------------------------------------------------------------------- */

static struct ron_map_node **chain_at(const struct ron_map *m, uint32_t number)
{
    uint32_t block;

    if (RON_LIKELY(number < m->_base)) {
        return &m->_blocks[0][number];
    }
    block = (uint32_t)(__builtin_clz(m->_base) - __builtin_clz(number)) + 1;
    return &m->_blocks[block][number - (m->_base << (block - 1))];
}

static struct ron_map_node **chain_of(const struct ron_map *m, uint64_t hash)
{
    uint32_t number = (uint32_t)hash & (m->_level - 1);

    if (number < m->_chains - m->_level) { /* already split in this round */
        number = (uint32_t)hash & (2 * m->_level - 1);
    }
    return chain_at(m, number);
}

/* Memory for chain `_chains`; false: there is none now (M5). */
static bool have_next_chain(struct ron_map *m)
{
    uint32_t block;

    if (m->_chains != m->_level) {
        return true; /* the block came with the first split of the round */
    }
    block = (uint32_t)(__builtin_clz(m->_base) - __builtin_clz(m->_chains)) + 1;
    if (block >= RON_MAP_STEPS) {
        return false;
    }
    if (m->_blocks[block] == NULL) {
        m->_blocks[block] = ron_alloc_array(m->_chains, sizeof(struct ron_map_node *));
    }
    return m->_blocks[block] != NULL;
}

/* Moves the nodes of the next chain in turn whose hash has the new bit to a new chain. */
static void split(struct ron_map *m)
{
    struct ron_map_node **from;
    struct ron_map_node **to;

    if (!have_next_chain(m)) {
        return;
    }
    from = chain_at(m, m->_chains - m->_level);
    to = chain_at(m, m->_chains);
    while (*from != NULL) {
        struct ron_map_node *node = *from;

        if ((node->_hash & m->_level) != 0) {
            *from = node->_next;
            node->_next = NULL;
            *to = node;
            to = &node->_next;
        } else {
            from = &node->_next;
        }
    }
    m->_chains++;
    if (m->_chains == 2 * m->_level) {
        m->_level = m->_chains;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct ron_map_node *ron_map_find(const struct ron_map *m, const struct ron_map_key *key)
{
    struct ron_map_node *node = *chain_of(m, key->hash);

    while (node != NULL &&
           (node->_hash != key->hash || (m->_opts.equal != NULL && !m->_opts.equal(node, key)))) {
        node = node->_next;
    }
    return node;
}

enum ron_rc ron_map_add(struct ron_map *m, struct ron_map_node *node, const struct ron_map_key *key,
                        uint64_t now_ms)
{
    struct ron_map_node **chain;

    RON_ASSERT_MSG(node->_age.next == NULL, "the node is in a map");
    RON_ASSERT_SLOW(ron_map_find(m, key) == NULL); /* M1 */
    if (m->_count >= m->_opts.entries_max ||
        (m->_opts.bytes_max != 0 &&
         (m->_bytes > m->_opts.bytes_max || node->bytes > m->_opts.bytes_max - m->_bytes))) {
        return RON_FULL;
    }
    if (m->_count >= m->_chains) {
        split(m);
    }
    chain = chain_of(m, key->hash);
    node->_hash = key->hash;
    node->_at_ms = now_ms;
    node->_pinned = false;
    node->_next = *chain;
    *chain = node;
    ron_list_push_back(&m->_age, &node->_age);
    m->_count++;
    m->_bytes += node->bytes;
    return RON_OK;
}

void ron_map_remove(struct ron_map *m, struct ron_map_node *node)
{
    struct ron_map_node **at = chain_of(m, node->_hash);

    while (*at != node) {
        RON_ASSERT_MSG(*at != NULL, "the node is not in this map"); /* I1 */
        at = &(*at)->_next;
    }
    *at = node->_next;
    node->_next = NULL;
    ron_list_remove(&node->_age);
    RON_ASSERT(m->_count > 0 && m->_bytes >= node->bytes); /* I3 */
    m->_count--;
    m->_bytes -= node->bytes;
}

/* ---- age ------------------------------------------------------------------------------------- */

void ron_map_touch(struct ron_map *m, struct ron_map_node *node, uint64_t now_ms)
{
    node->_at_ms = now_ms;
    if (!node->_pinned) {
        ron_list_remove(&node->_age);
        ron_list_push_back(&m->_age, &node->_age);
    }
}

void ron_map_pin(struct ron_map *m, struct ron_map_node *node)
{
    RON_ASSERT_MSG(!node->_pinned, "the node is pinned");
    node->_pinned = true;
    ron_list_remove(&node->_age);
    ron_list_push_back(&m->_pinned, &node->_age);
}

void ron_map_unpin(struct ron_map *m, struct ron_map_node *node, uint64_t now_ms)
{
    RON_ASSERT_MSG(node->_pinned, "the node is not pinned");
    node->_pinned = false;
    node->_at_ms = now_ms;
    ron_list_remove(&node->_age);
    ron_list_push_back(&m->_age, &node->_age);
}
