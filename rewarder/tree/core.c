/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/core.c - nodes, order and proofs of the public trees. */
#include "rewarder/tree/core.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum ron_rc rwd_tree_init(struct rwd_tree *tree, size_t leaves, struct ron_err *err)
{
    struct rwd_keccak *nodes;

    RON_ASSERT(leaves > 0);
    if (leaves > RWD_TREE_LEAVES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tree has at most %d leaves", RWD_TREE_LEAVES_MAX);
    }
    nodes = ron_alloc_array(2 * leaves, sizeof *nodes);
    if (nodes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a tree of %zu leaves", leaves);
    }
    *tree = (struct rwd_tree){.nodes = nodes, .leaves = leaves};
    return RON_OK;
}

void rwd_tree_done(struct rwd_tree *tree)
{
    ron_free(tree->nodes);
    *tree = (struct rwd_tree){0};
}

void rwd_tree_build(struct rwd_tree *tree)
{
    /* Nodes [low, high) at once: their children begin at 2 * low >= high, so they are there. */
    for (size_t high = tree->leaves; high > 1;) {
        size_t low = (high + 1) / 2;

        rwd_keccak256_nodes(&tree->nodes[2 * low], high - low, &tree->nodes[low]);
        high = low;
    }
}

void rwd_tree_prove(const struct rwd_tree *tree, size_t at, struct rwd_tree_proof *ret_proof)
{
    size_t count = 0;

    RON_ASSERT(at >= tree->leaves && at < 2 * tree->leaves);
    for (; at > 1; at /= 2) {
        RON_ASSERT(count < RWD_TREE_PROOF_MAX);
        ret_proof->hashes[count++] = tree->nodes[at ^ 1];
    }
    ret_proof->count = count;
}

bool rwd_tree_proves(const struct rwd_keccak *leaf, const struct rwd_tree_proof *proof,
                     const struct rwd_keccak *root)
{
    struct rwd_keccak at = *leaf;

    for (size_t i = 0; i < proof->count; i++) {
        rwd_keccak256_node(&at, &proof->hashes[i], &at);
    }
    return rwd_keccak_cmp(&at, root) == 0;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* What is compared first stands beside the index: hashes agree in 8 bytes only when they are equal
 * or somebody worked for it. */
struct entry {
    uint64_t head;
    uint32_t index;
};

static bool comes_after(const struct rwd_keccak *hashes, const struct entry *a,
                        const struct entry *b)
{
    return a->head != b->head ? a->head > b->head
                              : rwd_keccak_cmp(&hashes[a->index], &hashes[b->index]) > 0;
}

/* Merges from[low..middle) and from[middle..high) into `to`; equal ones stay in their order. */
static void merge(const struct rwd_keccak *hashes, const struct entry *from, struct entry *to,
                  size_t low, size_t middle, size_t high)
{
    size_t a = low;
    size_t b = middle;

    for (size_t i = low; i < high; i++) {
        bool second = a == middle || (b < high && comes_after(hashes, &from[a], &from[b]));

        to[i] = second ? from[b++] : from[a++];
    }
}

/* A merge sort: stable, and n log n whatever the hashes are. */
enum ron_rc rwd_tree_order(const struct rwd_keccak *hashes, size_t count, uint32_t **ret_order,
                           struct ron_err *err)
{
    struct entry *from = ron_alloc_array(count, sizeof *from);
    struct entry *to = ron_alloc_array(count, sizeof *to);
    uint32_t *order = ron_alloc_array(count, sizeof *order);

    RON_ASSERT(count <= RWD_TREE_LEAVES_MAX);
    if (from == NULL || to == NULL || order == NULL) {
        ron_free(from);
        ron_free(to);
        ron_free(order);
        return ron_err_set(err, RON_NOMEM, "no memory to sort %zu leaves", count);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t head = 0;

        for (size_t k = 0; k < sizeof head; k++) {
            head = head << 8 | hashes[i].bytes[k];
        }
        from[i] = (struct entry){.head = head, .index = (uint32_t)i};
    }
    for (size_t width = 1; width < count; width *= 2) {
        struct entry *swap = from;

        for (size_t low = 0; low < count; low += 2 * width) {
            merge(hashes, from, to, low, RON_MIN(low + width, count),
                  RON_MIN(low + 2 * width, count));
        }
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = from[i].index;
    }
    ron_free(from);
    ron_free(to);
    *ret_order = order;
    return RON_OK;
}
