/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the tree is RFC 6962's: roots, proofs and stored hashes for every size and every batching.
 * Method: the published roots of the eight well-known leaves and the proofs that the RFC spells
 * out; a recursive model written from the RFC's definitions with another SHA-256 (libsodium's), for
 * all sizes to 300 and random ones to thousands; sizes up to 2^63 on a tree of equal leaves, whose
 * perfect subtrees depend on their level alone. Proofs bent in any way must fail. */
#include "support/support.h"

#include <sodium.h>

#include "ron/merkle/tree.h"

enum { SMALL = 300, LARGE = 5000 };

static struct ron_tree_hash leaves[LARGE];

/* ---- The model: RFC 6962 section 2.1, word for word ------------------------------------------ */

static struct ron_tree_hash model_node(struct ron_tree_hash a, struct ron_tree_hash b)
{
    uint8_t m[65] = {1};
    struct ron_tree_hash h;

    memcpy(m + 1, a.bytes, 32);
    memcpy(m + 33, b.bytes, 32);
    (void)crypto_hash_sha256(h.bytes, m, sizeof m);
    return h;
}

static size_t model_k(size_t n)
{
    size_t k = 1;

    while (2 * k < n) {
        k *= 2;
    }
    return k;
}

static struct ron_tree_hash model_root(const struct ron_tree_hash *d, size_t n)
{
    struct ron_tree_hash h;

    if (n == 0) {
        (void)crypto_hash_sha256(h.bytes, (const uint8_t *)"", 0);
        return h;
    }
    if (n == 1) {
        return d[0];
    }
    return model_node(model_root(d, model_k(n)), model_root(d + model_k(n), n - model_k(n)));
}

static void model_path(size_t m, const struct ron_tree_hash *d, size_t n, struct ron_proof *proof)
{
    size_t k;

    if (n == 1) {
        return;
    }
    k = model_k(n);
    if (m < k) {
        model_path(m, d, k, proof);
        proof->hashes[proof->count++] = model_root(d + k, n - k);
    } else {
        model_path(m - k, d + k, n - k, proof);
        proof->hashes[proof->count++] = model_root(d, k);
    }
}

static void model_subproof(size_t m, const struct ron_tree_hash *d, size_t n, bool known,
                           struct ron_proof *proof)
{
    size_t k;

    if (m == n) {
        if (!known) {
            proof->hashes[proof->count++] = model_root(d, n);
        }
        return;
    }
    k = model_k(n);
    if (m <= k) {
        model_subproof(m, d, k, known, proof);
        proof->hashes[proof->count++] = model_root(d + k, n - k);
    } else {
        model_subproof(m - k, d + k, n - k, false, proof);
        proof->hashes[proof->count++] = model_root(d, k);
    }
}

/* ---- Stores ---------------------------------------------------------------------------------- */

struct memory {
    struct ron_tree_hash hashes[2 * LARGE];
    uint64_t count;
    bool failing;
};

static struct memory memory;

static enum ron_rc memory_append(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                                 size_t count, struct ron_err *err)
{
    struct memory *m = ctx;

    if (m->failing) {
        m->failing = false;
        return ron_err_set(err, RON_IO, "told to fail");
    }
    assert_true(first <= m->count);
    assert_true(first + count <= RON_ARRAY_LEN(m->hashes));
    memcpy(m->hashes + first, hashes, count * sizeof *hashes);
    m->count = first + count;
    return RON_OK;
}

static enum ron_rc memory_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct memory *m = ctx;

    assert_true(count <= RON_TREE_READ_MAX);
    for (size_t i = 0; i < count; i++) {
        if (places[i] >= m->count) {
            return ron_err_set(err, RON_NOTFOUND, "beyond the end");
        }
        ret_hashes[i] = m->hashes[places[i]];
    }
    return RON_OK;
}

static const struct ron_tree_store store = {&memory, memory_append, memory_read};

/* Perfect subtrees of equal leaves, by level. */
static struct ron_tree_hash uniform[RON_TREE_LEVELS];

static enum ron_rc uniform_read(void *ctx, const uint64_t *places, size_t count,
                                struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    assert_true(count <= RON_TREE_READ_MAX);
    for (size_t i = 0; i < count; i++) {
        uint64_t low = 0;
        uint64_t high = RON_TREE_SIZE_MAX;

        /* The last leaf that was stored at or before the place. */
        while (low < high) {
            uint64_t middle = high - (high - low) / 2;

            if (ron_tree_stored_count(middle) <= places[i]) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        ret_hashes[i] = uniform[places[i] - ron_tree_stored_count(low)];
    }
    return RON_OK;
}

static struct ron_tree_hash uniform_root(uint64_t n)
{
    unsigned k;

    assert_true(n > 0);
    k = 63U - (unsigned)__builtin_clzll(n);
    if (n == UINT64_C(1) << k) {
        return uniform[k];
    }
    return model_node(uniform[k], uniform_root(n - (UINT64_C(1) << k)));
}

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < LARGE; i++) {
        uint8_t m[9] = {0};

        memcpy(m + 1, &i, sizeof i);
        (void)crypto_hash_sha256(leaves[i].bytes, m, sizeof m);
    }
    uniform[0] = leaves[7];
    for (size_t i = 1; i < RON_TREE_LEVELS; i++) {
        uniform[i] = model_node(uniform[i - 1], uniform[i - 1]);
    }
    return 0;
}

static void build(struct ron_tree *tree, size_t size)
{
    memory.count = 0;
    memory.failing = false;
    ron_tree_init(tree);
    assert_int_equal(ron_tree_append(tree, &store, leaves, size, NULL), RON_OK);
    assert_int_equal(memory.count, ron_tree_stored_count(size));
}

static void expect_hash(const struct ron_tree_hash *hash, const struct ron_tree_hash *expected)
{
    assert_memory_equal(hash->bytes, expected->bytes, RON_TREE_HASH_BYTES);
}

static void expect_proof(const struct ron_proof *proof, const struct ron_proof *expected)
{
    assert_int_equal(proof->count, expected->count);
    for (size_t i = 0; i < proof->count; i++) {
        expect_hash(&proof->hashes[i], &expected->hashes[i]);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void expect_hex(const struct ron_tree_hash *hash, const char *hex)
{
    char text[2 * RON_TREE_HASH_BYTES + 1];

    (void)sodium_bin2hex(text, sizeof text, hash->bytes, RON_TREE_HASH_BYTES);
    assert_string_equal(text, hex);
}

static void test_tree__the_well_known_leaves__published_roots(void **state)
{
    static const struct {
        const char *leaf;
        size_t len;
        const char *root;
    } known[] = {
        {"", 0, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
        {"\x00", 1, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
        {"\x10", 1, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
        {"\x20\x21", 2, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"},
        {"\x30\x31", 2, "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"},
        {"@ABC", 4, "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"},
        {"PQRSTUVW", 8, "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"},
        {"`abcdefghijklmno", 16,
         "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"},
    };
    struct ron_tree tree;
    struct ron_tree_hash hash;

    (void)state;
    ron_tree_init(&tree);
    ron_tree_root(&tree, &hash);
    expect_hex(&hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        ron_tree_hash_leaf(known[i].leaf, known[i].len, &hash);
        assert_int_equal(ron_tree_extend(&tree, &hash, 1, NULL), RON_OK);
        ron_tree_root(&tree, &hash);
        expect_hex(&hash, known[i].root);
    }
}

static void test_tree__leaf_of_any_length__sha256_with_prefix(void **state)
{
    static uint8_t m[2000];
    struct ron_rand rand = support_rand();

    (void)state;
    ron_rand_bytes(&rand, m, sizeof m);
    m[0] = 0;
    for (size_t len = 0; len < sizeof m; len++) {
        struct ron_tree_hash hash;
        struct ron_tree_hash expected;

        (void)crypto_hash_sha256(expected.bytes, m, len + 1);
        ron_tree_hash_leaf(m + 1, len, &hash);
        expect_hash(&hash, &expected);
    }
    ron_tree_hash_leaf(NULL, 0, (struct ron_tree_hash *)m);
    expect_hex((struct ron_tree_hash *)m,
               "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
}

/* RFC 6962 section 2.1.3, RFC 9162 section 2.1.5: the tree of seven leaves with named nodes. */
/* Pairs of equal length, of unequal length, an odd one at the end, longer than is padded here. */
static void test_tree__many_leaves_at_once__as_one_by_one(void **state)
{
    struct ron_rand r = support_rand();
    static uint8_t data[64][1024];
    struct ron_str list[64];
    struct ron_tree_hash many[64];
    struct ron_tree_hash alone;

    (void)state;
    for (int round = 0; round < 500; round++) {
        size_t count = (size_t)ron_rand_below(&r, 65);
        size_t near = (size_t)ron_rand_below(&r, 300);

        for (size_t i = 0; i < count; i++) {
            size_t len = ron_rand_chance(&r, 1, 8) ? (size_t)ron_rand_below(&r, 1024)
                                                   : near + (size_t)ron_rand_below(&r, 4);

            for (size_t k = 0; k < len; k++) {
                data[i][k] = (uint8_t)ron_rand_below(&r, 256);
            }
            list[i] = (struct ron_str){(const char *)data[i], len};
        }
        ron_tree_hash_leaves(list, count, many);
        for (size_t i = 0; i < count; i++) {
            uint8_t m[1025] = {0};

            memcpy(m + 1, list[i].ptr, list[i].len);
            (void)crypto_hash_sha256(alone.bytes, m, 1 + list[i].len);
            assert_memory_equal(many[i].bytes, alone.bytes, RON_TREE_HASH_BYTES);
        }
    }
}

/* In place, as levels of a tree are made: into the pairs themselves, and one place further. */
static void test_tree__nodes_in_place__as_one_by_one(void **state)
{
    (void)state;
    for (size_t count = 0; count < 40; count++) {
        for (size_t shift = 0; shift < 2; shift++) {
            struct ron_tree_hash pairs[81];
            struct ron_tree_hash want[40];

            for (size_t i = 0; i < RON_ARRAY_LEN(pairs); i++) {
                memset(pairs[i].bytes, (int)(i + count), RON_TREE_HASH_BYTES);
            }
            for (size_t i = 0; i < count; i++) {
                want[i] = model_node(pairs[2 * i], pairs[2 * i + 1]);
            }
            ron_tree_hash_nodes(pairs, count, pairs + shift);
            assert_memory_equal(pairs + shift, want, count * sizeof *want);
        }
    }
}

static void test_proof__the_example_of_the_rfc__its_hashes(void **state)
{
    struct ron_tree tree;
    struct ron_tree_hash g = model_node(leaves[0], leaves[1]);
    struct ron_tree_hash h = model_node(leaves[2], leaves[3]);
    struct ron_tree_hash i = model_node(leaves[4], leaves[5]);
    struct ron_tree_hash k = model_node(g, h);
    struct ron_tree_hash l = model_node(i, leaves[6]);
    struct ron_proof proof;

    (void)state;
    build(&tree, 7);
    assert_int_equal(ron_proof_inclusion(&store, 0, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){3, {leaves[1], h, l}});
    assert_int_equal(ron_proof_inclusion(&store, 3, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){3, {leaves[2], g, l}});
    assert_int_equal(ron_proof_inclusion(&store, 4, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){3, {leaves[5], leaves[6], k}});
    assert_int_equal(ron_proof_inclusion(&store, 6, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){2, {i, k}});
    assert_int_equal(ron_proof_consistency(&store, 3, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){4, {leaves[2], leaves[3], g, l}});
    assert_int_equal(ron_proof_consistency(&store, 4, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){1, {l}});
    assert_int_equal(ron_proof_consistency(&store, 6, 7, &proof, NULL), RON_OK);
    expect_proof(&proof, &(struct ron_proof){3, {i, leaves[6], k}});
}

static void test_tree__all_small_sizes__root_of_the_model(void **state)
{
    struct ron_tree tree;
    struct ron_tree_hash root;
    struct ron_tree_hash expected;

    (void)state;
    build(&tree, SMALL);
    for (size_t size = 0; size <= SMALL; size++) {
        expected = model_root(leaves, size);
        assert_int_equal(ron_tree_root_at(&store, size, &root, NULL), RON_OK);
        expect_hash(&root, &expected);
        build(&tree, size);
        ron_tree_root(&tree, &root);
        expect_hash(&root, &expected);
        build(&tree, SMALL);
    }
}

static void test_proof__all_small_sizes__proofs_of_the_model(void **state)
{
    struct ron_tree tree;
    struct ron_proof proof;

    (void)state;
    build(&tree, SMALL);
    for (size_t size = 1; size <= SMALL; size++) {
        struct ron_tree_hash root = model_root(leaves, size);

        /* Every index and old size up to 70, then some: the model is slow. */
        for (size_t m = 0; m <= size; m += size <= 70 ? 1 : 1 + size / 13) {
            struct ron_proof expected = {0};
            struct ron_tree_hash old_root = model_root(leaves, m);

            if (m < size) {
                model_path(m, leaves, size, &expected);
                assert_int_equal(ron_proof_inclusion(&store, m, size, &proof, NULL), RON_OK);
                expect_proof(&proof, &expected);
                assert_true(
                    ron_proof_includes(proof.hashes, proof.count, m, size, &leaves[m], &root));
            }
            expected.count = 0;
            if (m > 0) {
                model_subproof(m, leaves, size, true, &expected);
            }
            assert_int_equal(ron_proof_consistency(&store, m, size, &proof, NULL), RON_OK);
            expect_proof(&proof, &expected);
            assert_true(ron_proof_joins(proof.hashes, proof.count, m, size, &old_root, &root));
        }
    }
}

/* The same size and the same edge, at the levels that the size has. */
static void expect_tree(const struct ron_tree *tree, const struct ron_tree *expected)
{
    assert_int_equal(tree->size, expected->size);
    for (unsigned level = 0; level < RON_TREE_LEVELS; level++) {
        if ((tree->size >> level & 1) != 0) {
            expect_hash(&tree->edge[level], &expected->edge[level]);
        }
    }
}

static void test_tree__any_batches__same_stored_hashes_and_edge(void **state)
{
    static struct ron_tree_hash whole[2 * LARGE];
    static struct ron_tree_hash pieces[2 * LARGE];
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 60; round++) {
        size_t size = (size_t)ron_rand_range(&rand, 1, LARGE);
        struct ron_tree tree;
        struct ron_tree piecemeal;

        ron_tree_init(&tree);
        ron_tree_init(&piecemeal);
        assert_int_equal(ron_tree_extend(&tree, leaves, size, whole), RON_OK);
        while (piecemeal.size < size) {
            size_t n = (size_t)ron_rand_below(&rand, 1U << ron_rand_below(&rand, 12));

            n = RON_MIN(n, size - (size_t)piecemeal.size);
            assert_int_equal(ron_tree_extend(&piecemeal, leaves + piecemeal.size, n,
                                             pieces + ron_tree_stored_count(piecemeal.size)),
                             RON_OK);
        }
        assert_memory_equal(whole, pieces, (size_t)ron_tree_stored_count(size) * sizeof whole[0]);
        expect_tree(&piecemeal, &tree);
        /* Through the store, and back from it. */
        build(&tree, size);
        assert_memory_equal(memory.hashes, whole,
                            (size_t)ron_tree_stored_count(size) * sizeof whole[0]);
        assert_int_equal(ron_tree_load(&store, size, &piecemeal, NULL), RON_OK);
        expect_tree(&piecemeal, &tree);
    }
}

static void test_tree__places__dense_and_in_order(void **state)
{
    uint64_t next = 0;

    (void)state;
    for (uint64_t leaf = 0; leaf < 5000; leaf++) {
        assert_int_equal(ron_tree_stored_count(leaf), next);
        for (unsigned level = 0; ((leaf + 1) & ((UINT64_C(1) << level) - 1)) == 0 && level < 63;
             level++) {
            assert_int_equal(ron_tree_place(level, (leaf >> level)), next);
            next++;
        }
    }
}

static void test_tree__store_fails__tree_as_before_and_append_repeats(void **state)
{
    struct ron_tree tree;
    struct ron_tree_hash before;
    struct ron_tree_hash root;
    struct ron_tree_hash expected = model_root(leaves, 1000);
    struct ron_err err = {0};

    (void)state;
    build(&tree, 100);
    ron_tree_root(&tree, &before);
    memory.failing = true;
    assert_int_equal(ron_tree_append(&tree, &store, leaves + 100, 900, &err), RON_IO);
    assert_int_equal(tree.size, 100);
    ron_tree_root(&tree, &root);
    expect_hash(&root, &before);
    assert_int_equal(ron_tree_append(&tree, &store, leaves + 100, 900, &err), RON_OK);
    ron_tree_root(&tree, &root);
    expect_hash(&root, &expected);
    /* Reading what was never stored is the store's answer. */
    assert_int_equal(ron_tree_root_at(&store, 1001, &root, NULL), RON_NOTFOUND);
}

static void test_tree__limit_of_size__refused_unchanged(void **state)
{
    struct ron_tree tree = {.size = RON_TREE_SIZE_MAX - 1};

    (void)state;
    assert_int_equal(ron_tree_extend(&tree, leaves, 2, NULL), RON_LIMIT);
    assert_int_equal(ron_tree_append(&tree, &store, leaves, 2, NULL), RON_LIMIT);
    assert_int_equal(tree.size, RON_TREE_SIZE_MAX - 1);
    assert_int_equal(ron_tree_extend(&tree, leaves, 1, NULL), RON_OK);
    assert_int_equal(tree.size, RON_TREE_SIZE_MAX);
}

static void test_proof__huge_sizes__verified(void **state)
{
    const struct ron_tree_store huge = {NULL, NULL, uniform_read};
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 500; round++) {
        uint64_t size = (support_rand_edgy_u64(&rand) & RON_TREE_SIZE_MAX) | 1;
        uint64_t index = ron_rand_chance(&rand, 1, 2) ? support_rand_edgy_u64(&rand) % size
                                                      : ron_rand_below(&rand, size);
        uint64_t old_size = index + 1;
        struct ron_tree_hash root = uniform_root(size);
        struct ron_tree_hash old_root = uniform_root(old_size);
        struct ron_tree_hash hash;
        struct ron_proof proof;

        assert_int_equal(ron_tree_root_at(&huge, size, &hash, NULL), RON_OK);
        expect_hash(&hash, &root);
        assert_int_equal(ron_proof_inclusion(&huge, index, size, &proof, NULL), RON_OK);
        assert_true(ron_proof_includes(proof.hashes, proof.count, index, size, &uniform[0], &root));
        assert_int_equal(ron_proof_consistency(&huge, old_size, size, &proof, NULL), RON_OK);
        assert_true(ron_proof_joins(proof.hashes, proof.count, old_size, size, &old_root, &root));
    }
}

static void test_proof__asked_for_the_impossible__invalid(void **state)
{
    struct ron_proof proof;

    (void)state;
    assert_int_equal(ron_proof_inclusion(&store, 0, 0, &proof, NULL), RON_INVALID);
    assert_int_equal(ron_proof_inclusion(&store, 7, 7, &proof, NULL), RON_INVALID);
    assert_int_equal(ron_proof_inclusion(&store, 0, UINT64_MAX, &proof, NULL), RON_INVALID);
    assert_int_equal(ron_proof_consistency(&store, 8, 7, &proof, NULL), RON_INVALID);
    assert_int_equal(ron_proof_consistency(&store, 1, UINT64_MAX, &proof, NULL), RON_INVALID);
}

/* Each way of bending a good proof. */
static void test_proof__bent__refused(void **state)
{
    struct ron_tree tree;
    struct ron_rand rand = support_rand();

    (void)state;
    build(&tree, LARGE);
    for (int round = 0; round < 300; round++) {
        uint64_t size = ron_rand_range(&rand, 2, LARGE);
        uint64_t m = ron_rand_range(&rand, 1, size - 1);
        struct ron_proof in;
        struct ron_proof con;
        struct ron_tree_hash root;
        struct ron_tree_hash old_root;
        size_t at;

        assert_int_equal(ron_tree_root_at(&store, size, &root, NULL), RON_OK);
        assert_int_equal(ron_tree_root_at(&store, m, &old_root, NULL), RON_OK);
        assert_int_equal(ron_proof_inclusion(&store, m, size, &in, NULL), RON_OK);
        assert_int_equal(ron_proof_consistency(&store, m, size, &con, NULL), RON_OK);
        assert_true(ron_proof_includes(in.hashes, in.count, m, size, &leaves[m], &root));
        assert_true(ron_proof_joins(con.hashes, con.count, m, size, &old_root, &root));

        assert_false(ron_proof_includes(in.hashes, in.count, m - 1, size, &leaves[m], &root));
        assert_false(ron_proof_includes(in.hashes, in.count, m, size, &leaves[m - 1], &root));
        assert_false(ron_proof_includes(in.hashes, in.count - 1, m, size, &leaves[m], &root));
        assert_false(ron_proof_includes(in.hashes, in.count, size, size, &leaves[m], &root));
        assert_false(ron_proof_includes(in.hashes, in.count, m, size, &leaves[m], &old_root));
        assert_false(ron_proof_joins(con.hashes, con.count - 1, m, size, &old_root, &root));
        assert_false(ron_proof_joins(con.hashes, con.count, size, m, &old_root, &root));
        assert_false(ron_proof_joins(con.hashes, con.count, m, size, &root, &root));
        assert_false(ron_proof_joins(con.hashes, con.count, m, size, &old_root, &old_root));
        assert_false(ron_proof_joins(con.hashes, 1, 0, size, &old_root, &root));
        assert_false(ron_proof_joins(con.hashes, con.count, m, m, &old_root, &old_root));
        in.hashes[in.count] = root;
        con.hashes[con.count] = root;
        assert_false(ron_proof_includes(in.hashes, in.count + 1, m, size, &leaves[m], &root));
        assert_false(ron_proof_joins(con.hashes, con.count + 1, m, size, &old_root, &root));
        at = (size_t)ron_rand_below(&rand, in.count);
        in.hashes[at].bytes[ron_rand_below(&rand, 32)] ^= 1;
        assert_false(ron_proof_includes(in.hashes, in.count, m, size, &leaves[m], &root));
        at = (size_t)ron_rand_below(&rand, con.count);
        con.hashes[at].bytes[ron_rand_below(&rand, 32)] ^= 1;
        assert_false(ron_proof_joins(con.hashes, con.count, m, size, &old_root, &root));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree__the_well_known_leaves__published_roots),
        cmocka_unit_test(test_tree__leaf_of_any_length__sha256_with_prefix),
        cmocka_unit_test(test_tree__many_leaves_at_once__as_one_by_one),
        cmocka_unit_test(test_tree__nodes_in_place__as_one_by_one),
        cmocka_unit_test(test_proof__the_example_of_the_rfc__its_hashes),
        cmocka_unit_test(test_tree__all_small_sizes__root_of_the_model),
        cmocka_unit_test(test_proof__all_small_sizes__proofs_of_the_model),
        cmocka_unit_test(test_tree__any_batches__same_stored_hashes_and_edge),
        cmocka_unit_test(test_tree__places__dense_and_in_order),
        cmocka_unit_test(test_tree__store_fails__tree_as_before_and_append_repeats),
        cmocka_unit_test(test_tree__limit_of_size__refused_unchanged),
        cmocka_unit_test(test_proof__huge_sizes__verified),
        cmocka_unit_test(test_proof__asked_for_the_impossible__invalid),
        cmocka_unit_test(test_proof__bent__refused),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
