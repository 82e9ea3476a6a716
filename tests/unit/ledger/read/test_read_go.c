/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: Go's verifiers accept what the reader serves from a journal: tiles, bundles of entries and
 * both kinds of proofs.
 * Method: a random journal (journal.h); everything that a static server would serve is written to a
 * folder, where verify.go checks it with Debian's golang.org/x/mod: leaves are hashed out of the
 * bundles, proofs are made from the tiles and compared with ours. Then one byte of a bundle is
 * changed, and Go must refuse. Skipped where go or that package is missing. */
#include "unit/ledger/journal.h"

#include "ledger/proof/checkpoint.h"
#include "ledger/proof/tile.h"
#include "merkle/note_priv.h"
#include "ron/merkle/lines.h"

enum { ENTRIES = 1000, OLD = 345, SKIPPED = 77 };

/* The origin that Go's reader of checkpoints insists on. */
#define ORIGIN "go.sum database tree"
#define PACKAGE "/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog/tlog.go"

static struct fixture *f;
static struct journal *j;
static struct led_reader *r;
static struct ron_buf out;

static int setup(void **state)
{
    if (j_setup(state, ENTRIES, &j) != 0) {
        return -1;
    }
    f = *state;
    r = j_reader(j, true, 0, NULL);
    ron_buf_init(&out, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    led_reader_free(r);
    ron_buf_done(&out);
    return j_teardown(state, j);
}

/* Writes what is in the buffer, makes the folders on the way, and empties it. */
static void put(const char *name)
{
    char path[FIXTURE_PATH_SIZE];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", f->dir, name);
    for (char *at = path + strlen(f->dir) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(ron_buf_data(&out), 1, ron_buf_len(&out), file), ron_buf_len(&out));
    assert_int_equal(fclose(file), 0);
    ron_buf_clear(&out);
}

static void put_checkpoint(const char *name, uint64_t size, const struct ron_note_signer *signer)
{
    struct led_checkpoint checkpoint = {.origin = j_str(ORIGIN), .size = size};

    assert_int_equal(led_read_root(r, size, &checkpoint.root, NULL), RON_OK);
    assert_int_equal(led_checkpoint_sign(&checkpoint, signer, &out, NULL), RON_OK);
    put(name);
}

static void put_keys_and_checkpoints(void)
{
    static const uint8_t seed[RON_NOTE_SEED_BYTES] = {5, 6, 7};
    struct ron_note_signer signer;

    assert_int_equal(
        ron_note_signer_make(j_str("ledger.example"), RON_NOTE_ED25519, seed, &signer, NULL),
        RON_OK);
    assert_int_equal(ron_note_key_write(&signer.key, &out), RON_OK);
    put("vkey");
    assert_int_equal(ron_note_signer_write(&signer, &out), RON_OK);
    put("skey");
    put_checkpoint("checkpoint", j->seq, &signer);
    put_checkpoint("checkpoint.old", OLD, &signer);
}

static void put_tiles(void)
{
    char path[LED_TILE_PATH_SIZE];

    for (unsigned level = 0; level < 2; level++) {
        for (uint64_t index = 0; led_tile_width_at(level, index, j->seq) > 0; index++) {
            struct led_tile tile = {.level = (uint8_t)level,
                                    .index = index,
                                    .width = (uint16_t)led_tile_width_at(level, index, j->seq)};

            led_tile_path(&tile, path);
            assert_int_equal(led_read_tile(r, j_str(path), &out, NULL), RON_OK);
            put(path);
            if (level == 0) {
                tile.entries = true;
                led_tile_path(&tile, path);
                assert_int_equal(led_read_tile(r, j_str(path), &out, NULL), RON_OK);
                put(path);
            }
        }
    }
}

/* ---- proofs ---------------------------------------------------------------------------------- */

struct answer {
    struct ron_json_items proof;
    uint64_t present;
};

static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct answer, proof, STRINGS, .required = true, .max = RON_PROOF_MAX),
};
static const struct ron_json_shape shape = {.fields = fields,
                                            .count = 1,
                                            .present_offset = offsetof(struct answer, present),
                                            .allow_unknown = true};

/* The proof of the answer in the buffer as a line for Go. */
static void add_line(struct ron_buf *lines, struct ron_arena *arena, const char *kind, uint64_t n)
{
    struct answer got = {0};
    const struct ron_str *hashes;

    j_scan(&out, &shape, arena, &got);
    hashes = got.proof.items;
    RON_IGNORE(ron_buf_append_fmt(lines, "%s %llu:", kind, (unsigned long long)n));
    for (size_t i = 0; i < got.proof.count; i++) {
        struct ron_tree_hash hash = j_hash(hashes[i]);

        RON_IGNORE(ron_buf_append_byte(lines, ' '));
        RON_IGNORE(ron_tree_hash_write(lines, &hash));
    }
    RON_IGNORE(ron_buf_append_byte(lines, '\n'));
}

static void put_proofs(void)
{
    struct ron_rand rand = support_rand();
    struct ron_arena arena;
    struct ron_buf lines;

    assert_int_equal(ron_arena_init(&arena, 1 << 16), RON_OK);
    ron_buf_init(&lines, 1 << 20);
    for (int i = 0; i < 100; i++) {
        uint64_t n = i == 0 ? LED_TILE_WIDTH : ron_rand_below(&rand, j->seq);

        assert_int_equal(led_read_inclusion(r, n + 1, 0, &out, NULL), RON_OK);
        add_line(&lines, &arena, "inclusion", n);
        assert_int_equal(led_read_consistency(r, n + 1, 0, &out, NULL), RON_OK);
        add_line(&lines, &arena, "consistency", n + 1);
    }
    assert_int_equal(ron_buf_append(&out, ron_buf_data(&lines), ron_buf_len(&lines)), RON_OK);
    put("proofs");
    ron_buf_done(&lines);
    ron_arena_done(&arena);
}

static int run_go(void)
{
    const char *source = getenv("RON_SOURCE_DIR");
    char command[1024];

    assert_true(snprintf(command, sizeof command,
                         "cd '%s' && HOME='%s' GOCACHE='%s/cache' GO111MODULE=off GOFLAGS= "
                         "GOPATH=/usr/share/gocode go run '%s/tests/unit/ledger/verify.go' '%s'",
                         f->dir, f->dir, f->dir, source == NULL ? "." : source,
                         f->dir) < (int)sizeof command);
    (void)fflush(stdout);
    return system(command); /* NOLINT(cert-env33-c): a fixed command of a test */
}

static void test_led_read__served_to_go__accepted_and_a_changed_bundle_refused(void **state)
{
    (void)state;
    put_keys_and_checkpoints();
    put_tiles();
    put_proofs();
    assert_int_equal(run_go(), 0);
    assert_int_equal(led_read_tile(r, j_str("tile/entries/001"), &out, NULL), RON_OK);
    out.memory[out.head + 2 + LED_ENTRY_BYTES_MIN - 1] ^= 1; /* of entry 256 */
    put("tile/entries/001");
    assert_int_not_equal(run_go(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_read__served_to_go__accepted_and_a_changed_bundle_refused),
    };

    if (access(PACKAGE, R_OK) != 0 || system("command -v go >/dev/null") != 0) {
        (void)printf("skipped: golang-go and golang-golang-x-mod-dev are not installed\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
