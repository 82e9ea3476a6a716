/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: proofs, tiles, receipts and pages of roots made from a journal hold, and a damaged stored
 * hash is never served.
 * Method: random journals (journal.h). Every proof is checked by the verifiers of ron_proof.c and
 * ledger/proof/receipt.c against roots that the journal's own tree had at that size; then stored
 * hashes are changed one by one. */
#include "unit/ledger/journal.h"

#include "ledger/proof/receipt.h"
#include "ledger/proof/tile.h"
#include "merkle/note_priv.h"

enum { ENTRIES = 800 };

#define ORIGIN "ledger.example/test"

static struct journal *j;
static struct led_reader *r;
static struct j_damage damage;
static struct ron_arena arena;
static struct ron_buf out;

static int setup(void **state)
{
    if (j_setup(state, ENTRIES, &j) != 0 || ron_arena_init(&arena, 1 << 20) != RON_OK) {
        return -1;
    }
    r = j_reader(j, true, 0, &damage);
    ron_buf_init(&out, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    led_reader_free(r);
    ron_buf_done(&out);
    ron_arena_done(&arena);
    return j_teardown(state, j);
}

struct answer {
    uint64_t seq, index, size, from, to;
    struct ron_str leaf_hash, root, from_root, to_root;
    struct ron_json_items proof;
    uint64_t present;
};

static const struct ron_json_field inclusion_fields[] = {
    RON_JSON_FIELD(struct answer, seq, U64, .required = true),
    RON_JSON_FIELD(struct answer, index, U64, .required = true),
    RON_JSON_FIELD(struct answer, size, U64, .required = true),
    RON_JSON_FIELD(struct answer, leaf_hash, STRING, .required = true),
    RON_JSON_FIELD(struct answer, root, STRING, .required = true),
    RON_JSON_FIELD(struct answer, proof, STRINGS, .required = true, .max = RON_PROOF_MAX),
};
static const struct ron_json_shape inclusion_shape =
    RON_JSON_SHAPE(struct answer, inclusion_fields, present);

static const struct ron_json_field consistency_fields[] = {
    RON_JSON_FIELD(struct answer, from, U64, .required = true),
    RON_JSON_FIELD(struct answer, to, U64, .required = true),
    RON_JSON_FIELD(struct answer, from_root, STRING, .required = true),
    RON_JSON_FIELD(struct answer, to_root, STRING, .required = true),
    RON_JSON_FIELD(struct answer, proof, STRINGS, .required = true, .max = RON_PROOF_MAX),
};
static const struct ron_json_shape consistency_shape =
    RON_JSON_SHAPE(struct answer, consistency_fields, present);

/* Computed from the leaves, without what is stored. */
static struct ron_tree_hash plain_root(uint64_t size)
{
    struct ron_tree tree;
    struct ron_tree_hash root;

    ron_tree_init(&tree);
    for (uint64_t seq = 1; seq <= size; seq++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        struct ron_tree_hash hash;

        RON_IGNORE(led_entry_encode(&j_at(j, seq)->e, leaf));
        ron_tree_hash_leaf(leaf, led_entry_size(&j_at(j, seq)->e), &hash);
        assert_int_equal(ron_tree_extend(&tree, &hash, 1, NULL), RON_OK);
    }
    ron_tree_root(&tree, &root);
    return root;
}

static size_t proof_of(const struct answer *got, struct ron_tree_hash *ret)
{
    const struct ron_str *hashes = got->proof.items;

    for (size_t i = 0; i < got->proof.count; i++) {
        ret[i] = j_hash(hashes[i]);
    }
    return got->proof.count;
}

static void test_led_read__inclusion__leads_from_entry_to_root(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint64_t size = i % 4 == 0 ? 0 : 1 + ron_rand_below(&rand, j->seq);
        uint64_t of = size == 0 ? j->seq : size;
        uint64_t seq = 1 + ron_rand_below(&rand, of);
        struct ron_tree_hash root = plain_root(of);
        struct ron_tree_hash proof[RON_PROOF_MAX];
        struct ron_tree_hash leaf;
        struct answer got = {0};
        size_t count;

        assert_int_equal(led_read_inclusion(r, seq, size, &out, NULL), RON_OK);
        j_scan(&out, &inclusion_shape, &arena, &got);
        count = proof_of(&got, proof);
        leaf = j_hash(got.leaf_hash);
        assert_int_equal(got.seq, seq);
        assert_int_equal(got.index, seq - 1);
        assert_int_equal(got.size, of);
        j_check_hash(got.root, &root);
        assert_true(ron_proof_includes(proof, count, seq - 1, of, &leaf, &root));
    }
    assert_int_equal(led_read_inclusion(r, 0, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_read_inclusion(r, 7, 6, &out, NULL), RON_INVALID);
    assert_int_equal(led_read_inclusion(r, 7, j->seq + 1, &out, NULL), RON_NOTFOUND);
}

static void test_led_read__consistency__joins_both_roots(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint64_t to = i % 4 == 0 ? 0 : 1 + ron_rand_below(&rand, j->seq);
        uint64_t of = to == 0 ? j->seq : to;
        uint64_t from = i % 5 == 0 ? 0 : ron_rand_below(&rand, of + 1);
        struct ron_tree_hash from_root = plain_root(from);
        struct ron_tree_hash to_root = plain_root(of);
        struct ron_tree_hash proof[RON_PROOF_MAX];
        struct answer got = {0};
        size_t count;

        assert_int_equal(led_read_consistency(r, from, to, &out, NULL), RON_OK);
        j_scan(&out, &consistency_shape, &arena, &got);
        count = proof_of(&got, proof);
        assert_int_equal(got.from, from);
        assert_int_equal(got.to, of);
        j_check_hash(got.from_root, &from_root);
        j_check_hash(got.to_root, &to_root);
        assert_true(ron_proof_joins(proof, count, from, of, &from_root, &to_root));
    }
    assert_int_equal(led_read_consistency(r, 8, 7, &out, NULL), RON_INVALID);
    assert_int_equal(led_read_consistency(r, 1, j->seq + 1, &out, NULL), RON_NOTFOUND);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static void check_bundle(uint64_t first, unsigned width)
{
    struct ron_str rest = {(const char *)ron_buf_data(&out), ron_buf_len(&out)};
    struct ron_str entry;

    for (unsigned i = 0; i < width; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        const struct led_entry *e = &j_at(j, first + i + 1)->e;

        RON_IGNORE(led_entry_encode(e, leaf));
        assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_OK);
        assert_int_equal(entry.len, led_entry_size(e));
        assert_memory_equal(entry.ptr, leaf, entry.len);
    }
    assert_int_equal(rest.len, 0);
}

static void check_tile(struct led_tile tile)
{
    char path[LED_TILE_PATH_SIZE];

    led_tile_path(&tile, path);
    ron_buf_clear(&out);
    assert_int_equal(led_read_tile(r, j_str(path), &out, NULL), RON_OK);
    if (tile.entries) {
        check_bundle(tile.index * LED_TILE_WIDTH, tile.width);
        return;
    }
    assert_int_equal(ron_buf_len(&out), tile.width * sizeof(struct ron_tree_hash));
    for (unsigned i = 0; i < tile.width; i++) {
        uint64_t place =
            ron_tree_place(LED_TILE_HEIGHT * (unsigned)tile.level, tile.index * LED_TILE_WIDTH + i);

        assert_memory_equal(ron_buf_data(&out) + i * sizeof(struct ron_tree_hash),
                            j->stored[place].bytes, sizeof(struct ron_tree_hash));
    }
}

static void test_led_read__tiles__every_width_of_every_tile(void **state)
{
    (void)state;
    for (unsigned level = 0; level < 2; level++) {
        for (uint64_t index = 0; index < 5; index++) {
            unsigned width = led_tile_width_at(level, index, j->seq);

            for (unsigned w = 1; w <= width; w++) {
                struct led_tile tile = {
                    .level = (uint8_t)level, .width = (uint16_t)w, .index = index};

                check_tile(tile);
                if (level == 0 && (w % 50 == 0 || w == width)) {
                    tile.entries = true;
                    check_tile(tile);
                }
            }
        }
    }
    assert_int_equal(damage.told, 0);
}

static void test_led_read__tiles_that_are_none__typed_error(void **state)
{
    (void)state;
    ron_buf_clear(&out);
    assert_int_equal(led_read_tile(r, j_str("tile/0/0"), &out, NULL), RON_INVALID);
    assert_int_equal(led_read_tile(r, j_str("tile/0/900"), &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_tile(r, j_str("tile/2/000"), &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_tile(r, j_str("tile/entries/900"), &out, NULL), RON_NOTFOUND);
    assert_int_equal(ron_buf_len(&out), 0);
}

/* ---- receipts -------------------------------------------------------------------------------- */

static struct ron_note_signer signer;

static void sign(uint64_t size, const struct ron_tree_hash *root, struct ron_buf *ret)
{
    static const uint8_t seed[RON_NOTE_SEED_BYTES] = {1, 2, 3};
    struct led_checkpoint checkpoint = {.origin = j_str(ORIGIN), .size = size, .root = *root};

    assert_int_equal(ron_note_signer_make(j_str(ORIGIN), RON_NOTE_ED25519, seed, &signer, NULL),
                     RON_OK);
    ron_buf_clear(ret);
    assert_int_equal(led_checkpoint_sign(&checkpoint, &signer, ret, NULL), RON_OK);
}

static void test_led_read__receipt__verifies_offline(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_buf note;

    (void)state;
    ron_buf_init(&note, 4096);
    for (int i = 0; i < 50; i++) {
        uint64_t size = 1 + ron_rand_below(&rand, j->seq);
        uint64_t seq = 1 + ron_rand_below(&rand, size);
        struct ron_tree_hash root = plain_root(size);
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        struct led_receipt receipt;
        struct led_trust trust = {
            .origin = j_str(ORIGIN), .log_keys = &signer.key, .log_key_count = 1};

        sign(size, &root, &note);
        ron_buf_clear(&out);
        assert_int_equal(led_read_receipt(r, seq, j_str(ron_buf_text(&note)), &out, NULL), RON_OK);
        assert_int_equal(
            led_receipt_read((struct ron_str){(const char *)ron_buf_data(&out), ron_buf_len(&out)},
                             &receipt, NULL),
            RON_OK);
        RON_IGNORE(led_entry_encode(&j_at(j, seq)->e, leaf));
        assert_int_equal(led_receipt_verify(
                             &receipt,
                             (struct ron_str){(const char *)leaf, led_entry_size(&j_at(j, seq)->e)},
                             &trust, NULL, NULL),
                         RON_OK);
    }
    ron_buf_done(&note);
}

static void test_led_read__receipt_without_fitting_checkpoint__typed_error(void **state)
{
    struct ron_tree_hash root = plain_root(10);
    struct ron_buf note;
    size_t told = damage.told;

    (void)state;
    ron_buf_init(&note, 4096);
    sign(10, &root, &note);
    ron_buf_clear(&out);
    assert_int_equal(led_read_receipt(r, 11, j_str(ron_buf_text(&note)), &out, NULL), RON_AGAIN);
    assert_int_equal(led_read_receipt(r, j->seq + 1, j_str(ron_buf_text(&note)), &out, NULL),
                     RON_NOTFOUND);
    assert_int_equal(led_read_receipt(r, 3, j_str("no note\n"), &out, NULL), RON_INVALID);
    assert_int_equal(damage.told, told);
    /* We have signed something that the journal does not bear out. */
    root.bytes[3] ^= 1;
    sign(10, &root, &note);
    assert_int_equal(led_read_receipt(r, 3, j_str(ron_buf_text(&note)), &out, NULL), RON_CORRUPT);
    assert_int_equal(damage.told, told + 1);
    assert_int_equal(ron_buf_len(&out), 0);
    ron_buf_done(&note);
}

/* ---- roots ----------------------------------------------------------------------------------- */

struct root {
    uint64_t seq, ts;
    struct ron_str root;
    uint64_t present;
};

static const struct ron_json_field root_fields[] = {
    RON_JSON_FIELD(struct root, seq, U64, .required = true),
    RON_JSON_FIELD(struct root, root, STRING, .required = true),
    RON_JSON_FIELD(struct root, ts, U64, .required = true),
};
static const struct ron_json_shape root_shape = RON_JSON_SHAPE(struct root, root_fields, present);

struct roots {
    struct ron_json_items roots;
    uint64_t next;
    uint64_t present;
};

static const struct ron_json_field roots_fields[] = {
    RON_JSON_FIELD(struct roots, roots, ARRAY, .required = true, .item_size = sizeof(struct root),
                   .max = LED_PAGE_MAX, .shape = &root_shape),
    RON_JSON_FIELD(struct roots, next, U64, .required = true),
};
static const struct ron_json_shape roots_shape =
    RON_JSON_SHAPE(struct roots, roots_fields, present);

static void check_roots(uint64_t since, uint32_t limit)
{
    struct roots got = {0};
    const struct root *list;
    size_t at = 0;
    size_t count;

    while (at < j->root_count && j->root_seqs[at] <= since) {
        at++;
    }
    count = RON_MIN((size_t)limit, j->root_count - at);
    ron_buf_clear(&out);
    assert_int_equal(led_read_roots(r, since, limit, &out, NULL), RON_OK);
    j_scan(&out, &roots_shape, &arena, &got);
    list = got.roots.items;
    assert_int_equal(got.roots.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i].seq, j->root_seqs[at + i]);
        assert_int_equal(list[i].ts, j->root_times[at + i]);
        j_check_hash(list[i].root, &j->roots[at + i]);
    }
    assert_int_equal(got.next, count == 0 ? since : j->root_seqs[at + count - 1]);
}

static void test_led_read__roots__pages_since_any_seq(void **state)
{
    (void)state;
    for (uint64_t since = 0; since < j->seq + 3; since++) {
        check_roots(since, 1 + (uint32_t)since % 9);
    }
    check_roots(0, LED_PAGE_MAX);
    check_roots(UINT64_MAX, 5);
    assert_int_equal(led_read_roots(r, 0, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_read_roots(r, 0, LED_PAGE_MAX + 1, &out, NULL), RON_INVALID);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Whatever is answered while a stored hash is wrong must be as right as without that. */
static void ask_all(uint64_t seq, size_t *refused)
{
    struct led_tile tiles[] = {{.level = 0, .width = LED_TILE_WIDTH, .index = 1},
                               {.level = 1, .width = 3},
                               {.level = 0, .width = 77, .index = 2}};
    struct ron_tree_hash proof[RON_PROOF_MAX];
    char path[LED_TILE_PATH_SIZE];

    for (uint64_t size = seq; size <= j->seq; size += 191) {
        struct answer got = {0};
        enum ron_rc rc = led_read_inclusion(r, seq, size, &out, NULL);

        if (rc == RON_OK) {
            struct ron_tree_hash root = plain_root(size);
            struct ron_tree_hash leaf;

            j_scan(&out, &inclusion_shape, &arena, &got);
            leaf = j_hash(got.leaf_hash);
            j_check_hash(got.root, &root);
            assert_true(
                ron_proof_includes(proof, proof_of(&got, proof), seq - 1, size, &leaf, &root));
        } else {
            assert_int_equal(rc, RON_CORRUPT);
            ++*refused;
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(tiles); i++) {
        enum ron_rc rc;

        led_tile_path(&tiles[i], path);
        ron_buf_clear(&out);
        rc = led_read_tile(r, j_str(path), &out, NULL);
        for (unsigned h = 0; rc == RON_OK && h < tiles[i].width; h++) {
            static struct ron_tree_hash all[1 << LED_TILE_HEIGHT];
            unsigned level = LED_TILE_HEIGHT * (unsigned)tiles[i].level;
            uint64_t first = (tiles[i].index * LED_TILE_WIDTH + h) << level;

            for (size_t k = 0; k < (size_t)1 << level; k++) {
                uint8_t leaf[LED_ENTRY_BYTES_MAX];
                const struct led_entry *e = &j_at(j, first + k + 1)->e;

                RON_IGNORE(led_entry_encode(e, leaf));
                ron_tree_hash_leaf(leaf, led_entry_size(e), &all[k]);
            }
            for (size_t left = ((size_t)1 << level) / 2; left > 0; left /= 2) {
                ron_tree_hash_nodes(all, left, all);
            }
            assert_memory_equal(ron_buf_data(&out) + h * sizeof *all, all[0].bytes, sizeof *all);
        }
        assert_true(rc == RON_OK || rc == RON_CORRUPT);
        *refused += rc != RON_OK;
        ron_buf_clear(&out);
    }
}

/* Stored hashes that end before the journal does, as after a write of them that failed. */
static enum ron_rc read_until_lost(void *ctx, const uint64_t *places, size_t count,
                                   struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (places[i] >= ron_tree_stored_count(j->seq - 1)) {
            return ron_err_set(err, RON_NOTFOUND, "not stored");
        }
    }
    return j->store.read(ctx, places, count, ret_hashes, err);
}

static void test_led_read__stored_hashes_end_early__ask_again_and_never_not_found(void **state)
{
    struct ron_tree_store store = j->store;
    struct led_reader_opts opts = {.log = j->log, .index = j->index, .hashes = &store};
    struct led_reader *lost = NULL;
    struct ron_tree_hash root = j_root(j);
    struct ron_tree_hash got;

    (void)state;
    store.read = read_until_lost;
    memcpy(opts.hash_key, j->index_state.hash_key, sizeof opts.hash_key);
    assert_int_equal(led_reader_new(&opts, &lost), RON_OK);
    led_reader_set_head(lost, j->seq, &root);
    assert_int_equal(led_read_root(lost, j->seq - 1, &got, NULL), RON_AGAIN);
    assert_int_equal(led_read_root(lost, j->seq, &got, NULL), RON_OK);
    assert_int_equal(led_read_root(lost, j->seq + 1, &got, NULL), RON_NOTFOUND);
    led_reader_free(lost);
}

static void test_led_read__damaged_stored_hash__never_served_and_told(void **state)
{
    struct ron_rand rand = support_rand();
    size_t refused = 0;
    size_t told = damage.told;

    (void)state;
    for (int i = 0; i < 60; i++) {
        uint64_t place = ron_rand_below(&rand, ron_tree_stored_count(j->seq));

        j->stored[place].bytes[ron_rand_below(&rand, 32)] ^= 0x80;
        ask_all(1 + ron_rand_below(&rand, j->seq), &refused);
        ask_all(1 + place / 2, &refused);
        /* Made anew: the journal is intact. */
        ron_tree_init(&j->tree);
        for (uint64_t seq = 1; seq <= j->seq; seq++) {
            uint8_t leaf[LED_ENTRY_BYTES_MAX];
            struct ron_tree_hash hash;

            RON_IGNORE(led_entry_encode(&j_at(j, seq)->e, leaf));
            ron_tree_hash_leaf(leaf, led_entry_size(&j_at(j, seq)->e), &hash);
            assert_int_equal(ron_tree_append(&j->tree, &j->store, &hash, 1, NULL), RON_OK);
        }
    }
    assert_true(refused > 10);
    assert_int_equal(damage.told, told + refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_read__inclusion__leads_from_entry_to_root),
        cmocka_unit_test(test_led_read__consistency__joins_both_roots),
        cmocka_unit_test(test_led_read__tiles__every_width_of_every_tile),
        cmocka_unit_test(test_led_read__tiles_that_are_none__typed_error),
        cmocka_unit_test(test_led_read__receipt__verifies_offline),
        cmocka_unit_test(test_led_read__receipt_without_fitting_checkpoint__typed_error),
        cmocka_unit_test(test_led_read__roots__pages_since_any_seq),
        cmocka_unit_test(test_led_read__stored_hashes_end_early__ask_again_and_never_not_found),
        cmocka_unit_test(test_led_read__damaged_stored_hash__never_served_and_told),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
