/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: verifiers that nobody here wrote accept what the ledger publishes.
 * Method: a tree of 70,000 leaves; its checkpoint, an older one, all tiles and some proofs are
 * written to a temporary folder, where verify.go checks them with Debian's golang.org/x/mod
 * (sumdb/note, sumdb/tlog). Then one byte of a tile is changed, and Go must refuse. Skipped where
 * go or that package is missing. */
#include "support/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "ledger/proof/checkpoint.h"
#include "ledger/proof/tile.h"
#include "merkle/note_priv.h"
#include "ron/base/alloc.h"
#include "ron/merkle/lines.h"

enum { LEAVES = 70000, OLD = 12345, SKIPPED = 77 };

/* The origin that Go's reader of checkpoints insists on. */
#define ORIGIN "go.sum database tree"
#define PACKAGE "/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog/tlog.go"

static char dir[] = "/tmp/ron-go-XXXXXX";
static struct ron_tree_hash *stored;

static enum ron_rc stored_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        ret_hashes[i] = stored[places[i]];
    }
    return RON_OK;
}

static const struct ron_tree_store store = {.read = stored_read};

/* Opens a file in the folder and makes the folders on its way. */
static FILE *create(const char *name)
{
    char path[256];
    FILE *file;

    assert_true(snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path);
    for (char *at = path + sizeof dir; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void put(const char *name, const void *bytes, size_t len)
{
    FILE *file = create(name);

    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void grow(void)
{
    struct ron_tree tree;
    char text[24];

    ron_tree_init(&tree);
    for (int i = 0; i < LEAVES; i++) {
        struct ron_tree_hash hash;
        int len = snprintf(text, sizeof text, "entry %d", i);

        ron_tree_hash_leaf(text, (size_t)len, &hash);
        assert_int_equal(
            ron_tree_extend(&tree, &hash, 1, stored + ron_tree_stored_count((uint64_t)i)), RON_OK);
    }
}

static void put_checkpoint(const char *name, uint64_t size, const struct ron_note_signer *signer)
{
    struct led_checkpoint c = {.origin = RON_STR_LIT(ORIGIN), .size = size};
    struct ron_buf out;

    ron_buf_init(&out, LED_NOTE_BYTES_MAX);
    assert_int_equal(ron_tree_root_at(&store, size, &c.root, NULL), RON_OK);
    assert_int_equal(led_checkpoint_sign(&c, signer, &out, NULL), RON_OK);
    put(name, ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

static void put_keys_and_checkpoints(void)
{
    static const uint8_t seed[RON_NOTE_SEED_BYTES] = {1, 2, 3, 4};
    struct ron_note_signer signer;
    struct ron_buf out;

    ron_buf_init(&out, 4096);
    assert_int_equal(
        ron_note_signer_make(RON_STR_LIT("ledger.example"), RON_NOTE_ED25519, seed, &signer, NULL),
        RON_OK);
    assert_int_equal(ron_note_key_write(&signer.key, &out), RON_OK);
    put("vkey", ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_clear(&out);
    assert_int_equal(ron_note_signer_write(&signer, &out), RON_OK);
    put("skey", ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
    put_checkpoint("checkpoint", LEAVES, &signer);
    put_checkpoint("checkpoint.old", OLD, &signer);
}

static void put_tiles(void)
{
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    char path[LED_TILE_PATH_SIZE];

    for (unsigned level = 0; level < 4; level++) {
        for (uint64_t index = 0;; index++) {
            unsigned width = led_tile_width_at(level, index, LEAVES);
            struct led_tile tile = {
                .level = (uint8_t)level, .index = index, .width = (uint16_t)width};

            if (width == 0) {
                break;
            }
            assert_int_equal(led_tile_read(&tile, &store, LEAVES, hashes, NULL), RON_OK);
            led_tile_path(&tile, path);
            put(path, hashes, width * sizeof *hashes);
        }
    }
}

static void put_proof(FILE *file, const char *kind, uint64_t number, const struct ron_proof *proof)
{
    char memory[RON_TREE_HASH_TEXT_LEN + 1];

    (void)fprintf(file, "%s %llu:", kind, (unsigned long long)number);
    for (size_t i = 0; i < proof->count; i++) {
        struct ron_buf text;

        ron_buf_init_over(&text, memory, sizeof memory);
        assert_int_equal(ron_tree_hash_write(&text, &proof->hashes[i]), RON_OK);
        (void)fprintf(file, " %s", ron_buf_text(&text));
    }
    (void)fprintf(file, "\n");
}

static void put_proofs(void)
{
    struct ron_rand rand = support_rand();
    FILE *file = create("proofs");
    struct ron_proof proof;

    for (int i = 0; i < 200; i++) {
        uint64_t n = i < 4 ? (uint64_t)i * (LEAVES - 1) / 3 : ron_rand_below(&rand, LEAVES);

        assert_int_equal(ron_proof_inclusion(&store, n, LEAVES, &proof, NULL), RON_OK);
        put_proof(file, "inclusion", n, &proof);
        assert_int_equal(ron_proof_consistency(&store, n + 1, LEAVES, &proof, NULL), RON_OK);
        put_proof(file, "consistency", n + 1, &proof);
    }
    assert_int_equal(fclose(file), 0);
}

static int run_go(void)
{
    const char *source = getenv("RON_SOURCE_DIR");
    char command[1024];

    assert_true(snprintf(command, sizeof command,
                         "cd '%s' && HOME='%s' GOCACHE='%s/cache' GO111MODULE=off GOFLAGS= "
                         "GOPATH=/usr/share/gocode go run '%s/tests/unit/ledger/verify.go' '%s'",
                         dir, dir, dir, source == NULL ? "." : source, dir) < (int)sizeof command);
    (void)fflush(stdout);
    return system(command); /* NOLINT(cert-env33-c): a fixed command of a test */
}

static void test_go__what_the_ledger_publishes__accepted_and_a_changed_tile_refused(void **state)
{
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    const struct led_tile tile = {.level = 1, .width = LED_TILE_WIDTH};

    (void)state;
    stored = ron_alloc_array((size_t)2 * LEAVES, sizeof *stored);
    assert_non_null(stored);
    grow();
    put_keys_and_checkpoints();
    put_tiles();
    put_proofs();
    assert_int_equal(run_go(), 0);
    assert_int_equal(led_tile_read(&tile, &store, LEAVES, hashes, NULL), RON_OK);
    hashes[100].bytes[5] ^= 1;
    put("tile/1/000", hashes, sizeof hashes);
    assert_int_not_equal(run_go(), 0);
    ron_free(stored);
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command); /* NOLINT(cert-env33-c) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_go__what_the_ledger_publishes__accepted_and_a_changed_tile_refused),
    };

    if (access(PACKAGE, R_OK) != 0 || system("command -v go >/dev/null") != 0) {
        (void)printf("skipped: golang-go and golang-golang-x-mod-dev are not installed\n");
        return SKIPPED;
    }
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
