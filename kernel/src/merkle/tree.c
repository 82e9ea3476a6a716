/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - growing the tree, roots, and the state as bytes.
 *
 * A batch is taken level by level: the new nodes of one level stand side by side, so their hashes
 * are independent of each other. Node n of level L is new when its last leaf is, that is for
 *     size >> L  <=  n  <  (size + count) >> L
 * and its left child can be an old one only when it is the first pair, where it is edge[L - 1]. */
#include "ron/merkle/tree.h"

#include "merkle/hash_priv.h"
#include "ron/base/assert.h"

void ron_tree_init(struct ron_tree *tree)
{
    tree->size = 0;
}

/* One round: count <= RON_TREE_CHUNK, T3 was checked. */
static void extend_round(struct ron_tree *tree, const struct ron_tree_hash *leaves, size_t count,
                         struct ron_tree_hash *ret_stored)
{
    /* Slot 0 is for the old left child; the new nodes of the level begin at slot 1. */
    struct ron_tree_hash level_hashes[RON_TREE_CHUNK + 1];
    uint64_t base = ron_tree_stored_count(tree->size);
    uint64_t end = tree->size + count;
    size_t n = count;

    memcpy(level_hashes + 1, leaves, count * sizeof *leaves);
    for (unsigned level = 0; n > 0; level++) {
        uint64_t first = tree->size >> level;
        struct ron_tree_hash *pairs = level_hashes + 1;

        for (size_t i = 0; ret_stored != NULL && i < n; i++) {
            ret_stored[ron_tree_place(level, first + i) - base] = level_hashes[1 + i];
        }
        if ((first & 1) != 0) {
            level_hashes[0] = tree->edge[level];
            pairs = level_hashes;
            n++;
        }
        if ((n & 1) != 0) {
            tree->edge[level] = pairs[n - 1];
        }
        n /= 2;
        RON_ASSERT_SLOW(n == (end >> (level + 1)) - (tree->size >> (level + 1)));
        ron_tree_hash_nodes(pairs, n, level_hashes + 1);
    }
    tree->size = end;
}

enum ron_rc ron_tree_extend(struct ron_tree *tree, const struct ron_tree_hash *leaves, size_t count,
                            struct ron_tree_hash *ret_stored)
{
    uint64_t base = ron_tree_stored_count(tree->size);

    if (count > RON_TREE_SIZE_MAX - tree->size) {
        return RON_LIMIT;
    }
    for (size_t at = 0; at < count;) {
        size_t n = RON_MIN(count - at, (size_t)RON_TREE_CHUNK);
        uint64_t place = ron_tree_stored_count(tree->size);

        extend_round(tree, leaves + at, n, ret_stored == NULL ? NULL : ret_stored + (place - base));
        at += n;
    }
    return RON_OK;
}

enum ron_rc ron_tree_append(struct ron_tree *tree, const struct ron_tree_store *store,
                            const struct ron_tree_hash *leaves, size_t count, struct ron_err *err)
{
    struct ron_tree_hash stored[2 * RON_TREE_CHUNK + RON_TREE_LEVELS];
    struct ron_tree next = *tree;

    if (count > RON_TREE_SIZE_MAX - tree->size) {
        return ron_err_set(err, RON_LIMIT, "a tree has at most 2^63 - 1 leaves");
    }
    for (size_t at = 0; at < count;) {
        size_t n = RON_MIN(count - at, (size_t)RON_TREE_CHUNK);
        uint64_t place = ron_tree_stored_count(next.size);

        extend_round(&next, leaves + at, n, stored);
        RON_TRY(store->append(store->ctx, place, stored,
                              (size_t)(ron_tree_stored_count(next.size) - place), err));
        at += n;
    }
    *tree = next;
    return RON_OK;
}

void ron_tree_root(const struct ron_tree *tree, struct ron_tree_hash *ret_root)
{
    uint64_t rest = tree->size;
    struct ron_tree_hash hash;

    if (rest == 0) {
        ron_tree_hash_empty(ret_root);
        return;
    }
    /* From the smallest subtree, which lies to the right, up. */
    hash = tree->edge[__builtin_ctzll(rest)];
    for (rest &= rest - 1; rest != 0; rest &= rest - 1) {
        ron_tree_hash_node(&tree->edge[__builtin_ctzll(rest)], &hash, &hash);
    }
    *ret_root = hash;
}

enum ron_rc ron_tree_load(const struct ron_tree_store *store, uint64_t size,
                          struct ron_tree *ret_tree, struct ron_err *err)
{
    uint64_t places[RON_TREE_LEVELS];
    struct ron_tree_hash hashes[RON_TREE_LEVELS];
    size_t count = 0;

    if (size > RON_TREE_SIZE_MAX) {
        return ron_err_set(err, RON_INVALID, "a tree has at most 2^63 - 1 leaves");
    }
    for (uint64_t rest = size; rest != 0; rest &= rest - 1) {
        unsigned level = (unsigned)__builtin_ctzll(rest);

        /* The subtree ends where the smaller ones begin. */
        places[count++] = ron_tree_place(level, (rest >> level) - 1);
    }
    if (count > 0) {
        RON_TRY(store->read(store->ctx, places, count, hashes, err));
    }
    ret_tree->size = size;
    count = 0;
    for (uint64_t rest = size; rest != 0; rest &= rest - 1) {
        ret_tree->edge[__builtin_ctzll(rest)] = hashes[count++];
    }
    return RON_OK;
}

enum ron_rc ron_tree_root_at(const struct ron_tree_store *store, uint64_t size,
                             struct ron_tree_hash *ret_root, struct ron_err *err)
{
    struct ron_tree tree = {0};

    RON_TRY(ron_tree_load(store, size, &tree, err));
    ron_tree_root(&tree, ret_root);
    return RON_OK;
}
