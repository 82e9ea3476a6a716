/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c - proofs made from stored hashes, and their verification.
 *
 * Both proofs walk from the root down to a subtree; at each step one half is entered and the hash
 * of the other half is a part of the proof. A half that ends at the tree's right edge need not be
 * perfect, and its hash is folded from stored ones. That happens at most once in a proof: right
 * halves at the edge are the other half only when the walk turns left, and to the left everything
 * is perfect. So a proof reads at most 64 + 63 hashes, all at once. */
#include "ron/merkle/tree.h"

#include "merkle/hash_priv.h"
#include "ron/base/assert.h"

enum { PLAN_MAX = 2 * RON_TREE_LEVELS };

_Static_assert((int)PLAN_MAX <= (int)RON_TREE_READ_MAX, "a proof is read at once");

/* Which stored hashes make the proof, from the root's side down. Part i is made of the `folds[i]`
 * places that follow those of the parts before it. */
struct plan {
    size_t part_count;
    size_t place_count;
    uint8_t folds[RON_PROOF_MAX];
    uint64_t places[PLAN_MAX];
};

/* The largest power of two below n, as an exponent; n >= 2. */
static unsigned split_level(uint64_t n)
{
    return 63U - (unsigned)__builtin_clzll(n - 1);
}

/* Adds the subtree of leaves [first, end), one of those that RFC 6962's recursion makes. */
static void plan_add(struct plan *plan, uint64_t first, uint64_t end)
{
    uint8_t folds = 0;

    while (first < end) {
        unsigned level = 63U - (unsigned)__builtin_clzll(end - first);

        RON_ASSERT(plan->place_count < PLAN_MAX);
        RON_ASSERT_SLOW((first & ((UINT64_C(1) << level) - 1)) == 0);
        plan->places[plan->place_count++] = ron_tree_place(level, first >> level);
        first += UINT64_C(1) << level;
        folds++;
    }
    RON_ASSERT(plan->part_count < RON_PROOF_MAX);
    plan->folds[plan->part_count++] = folds;
}

static enum ron_rc plan_read(const struct plan *plan, const struct ron_tree_store *store,
                             struct ron_proof *ret_proof, struct ron_err *err)
{
    struct ron_tree_hash hashes[PLAN_MAX];
    size_t at = 0;

    if (plan->place_count > 0) {
        RON_TRY(store->read(store->ctx, plan->places, plan->place_count, hashes, err));
    }
    ret_proof->count = plan->part_count;
    for (size_t part = 0; part < plan->part_count; part++) {
        size_t last = at + plan->folds[part] - 1U;
        struct ron_tree_hash hash = hashes[last];

        for (size_t i = last; i-- > at;) {
            ron_tree_hash_node(&hashes[i], &hash, &hash);
        }
        at = last + 1;
        ret_proof->hashes[plan->part_count - 1 - part] = hash;
    }
    return RON_OK;
}

enum ron_rc ron_proof_inclusion(const struct ron_tree_store *store, uint64_t index, uint64_t size,
                                struct ron_proof *ret_proof, struct ron_err *err)
{
    struct plan plan = {0};
    uint64_t first = 0;
    uint64_t end = size;

    if (index >= size || size > RON_TREE_SIZE_MAX) {
        return ron_err_set(err, RON_INVALID,
                           "there is no leaf of that index in a tree of that size");
    }
    while (end - first > 1) {
        uint64_t middle = first + (UINT64_C(1) << split_level(end - first));

        if (index < middle) {
            plan_add(&plan, middle, end);
            end = middle;
        } else {
            plan_add(&plan, first, middle);
            first = middle;
        }
    }
    return plan_read(&plan, store, ret_proof, err);
}

enum ron_rc ron_proof_consistency(const struct ron_tree_store *store, uint64_t old_size,
                                  uint64_t size, struct ron_proof *ret_proof, struct ron_err *err)
{
    struct plan plan = {0};
    uint64_t first = 0;
    uint64_t end = size;

    if (old_size > size || size > RON_TREE_SIZE_MAX) {
        return ron_err_set(err, RON_INVALID, "the older tree is not the smaller one");
    }
    while (old_size > 0 && end > old_size) {
        uint64_t middle = first + (UINT64_C(1) << split_level(end - first));

        if (old_size <= middle) {
            plan_add(&plan, middle, end);
            end = middle;
        } else {
            plan_add(&plan, first, middle);
            first = middle;
        }
    }
    /* The old tree itself is known to the verifier; a smaller last part of it is not. */
    if (old_size > 0 && first > 0) {
        plan_add(&plan, first, end);
    }
    return plan_read(&plan, store, ret_proof, err);
}

bool ron_proof_includes(const struct ron_tree_hash *hashes, size_t count, uint64_t index,
                        uint64_t size, const struct ron_tree_hash *leaf,
                        const struct ron_tree_hash *root)
{
    struct ron_tree_hash hash = *leaf;
    uint64_t last;

    if (index >= size) {
        return false;
    }
    last = size - 1;
    for (size_t i = 0; i < count; i++) {
        if (last == 0) {
            return false;
        }
        if ((index & 1) != 0 || index == last) {
            ron_tree_hash_node(&hashes[i], &hash, &hash);
            /* A node without a right neighbour stands for itself on the levels above. */
            while ((index & 1) == 0 && index != 0) {
                index >>= 1;
                last >>= 1;
            }
        } else {
            ron_tree_hash_node(&hash, &hashes[i], &hash);
        }
        index >>= 1;
        last >>= 1;
    }
    return last == 0 && ron_tree_hash_equal(&hash, root);
}

/* 0 < old_size < size, count > 0. */
static bool joins(const struct ron_tree_hash *hashes, size_t count, uint64_t old_size,
                  uint64_t size, const struct ron_tree_hash *old_root,
                  const struct ron_tree_hash *root)
{
    uint64_t index = old_size - 1;
    uint64_t last = size - 1;
    bool whole = (old_size & (old_size - 1)) == 0; /* the old tree is one perfect subtree */
    struct ron_tree_hash old_hash = whole ? *old_root : hashes[0];
    struct ron_tree_hash hash = old_hash;

    while ((index & 1) != 0) {
        index >>= 1;
        last >>= 1;
    }
    for (size_t i = whole ? 0 : 1; i < count; i++) {
        if (last == 0) {
            return false;
        }
        if ((index & 1) != 0 || index == last) {
            ron_tree_hash_node(&hashes[i], &old_hash, &old_hash);
            ron_tree_hash_node(&hashes[i], &hash, &hash);
            while ((index & 1) == 0 && index != 0) {
                index >>= 1;
                last >>= 1;
            }
        } else {
            ron_tree_hash_node(&hash, &hashes[i], &hash);
        }
        index >>= 1;
        last >>= 1;
    }
    return last == 0 && ron_tree_hash_equal(&old_hash, old_root) &&
           ron_tree_hash_equal(&hash, root);
}

bool ron_proof_joins(const struct ron_tree_hash *hashes, size_t count, uint64_t old_size,
                     uint64_t size, const struct ron_tree_hash *old_root,
                     const struct ron_tree_hash *root)
{
    struct ron_tree_hash empty;

    if (old_size > size) {
        return false;
    }
    if (old_size == size) {
        return count == 0 && ron_tree_hash_equal(old_root, root);
    }
    if (old_size == 0) {
        ron_tree_hash_empty(&empty);
        return count == 0 && ron_tree_hash_equal(old_root, &empty);
    }
    return count > 0 && joins(hashes, count, old_size, size, old_root, root);
}
