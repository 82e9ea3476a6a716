/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a witness that nobody here wrote accepts our published checkpoint, we accept its
 * cosignature, and what we then publish verifies under both keys.
 * Method: witness.go, made of crypto/ed25519 and Debian's golang.org/x/mod (sumdb/note), and the
 * signer talk through files in a temporary folder. Then one byte is changed, and Go must refuse.
 * Skipped where go or that package is missing. */
#include "support/support.h"

#include <unistd.h>

#include "ledger/publish/sign.h"
#include "ron/io/linux_env.h"

enum { SIZE = 70000, SKIPPED = 77 };

#define PACKAGE "/usr/share/gocode/src/golang.org/x/mod/sumdb/note/note.go"
#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static char dir[] = "/tmp/ron-go-XXXXXX";

static void put(const char *name, struct ron_str bytes)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.ptr, 1, bytes.len, file), bytes.len);
    assert_int_equal(fclose(file), 0);
}

static struct ron_str take(const char *name, char *memory, size_t size)
{
    char path[256];
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    len = fread(memory, 1, size, file);
    assert_int_equal(fclose(file), 0);
    assert_true(len > 0 && len < size);
    return (struct ron_str){.ptr = memory, .len = len};
}

static int run(const char *command)
{
    (void)fflush(stdout);
    return system(command); /* NOLINT(cert-env33-c): a fixed command of a test */
}

static void build_witness(void)
{
    const char *source = getenv("RON_SOURCE_DIR");
    char command[1024];

    assert_true(snprintf(command, sizeof command,
                         "cd '%s' && HOME='%s' GOCACHE='%s/cache' GO111MODULE=off GOFLAGS= "
                         "GOPATH=/usr/share/gocode go build -o '%s/witness' "
                         "'%s/tests/unit/ledger/witness.go'",
                         dir, dir, dir, dir, source == NULL ? "." : source) < (int)sizeof command);
    assert_int_equal(run(command), 0);
}

static int witness(const char *what)
{
    char command[256];

    (void)snprintf(command, sizeof command, "'%s/witness' '%s' %s", dir, dir, what);
    return run(command);
}

static void test_go_witness__checkpoint_published__cosigned_taken_and_verified(void **state)
{
    char key_text[512];
    char memory[LED_SIGN_NOTE_SIZE];
    char cosigned[LED_SIGN_NOTE_SIZE];
    struct led_signer *s = NULL;
    struct ron_tree_hash root;
    struct ron_str witness_key;
    struct ron_buf out;
    size_t count = 0;

    (void)state;
    build_witness();
    assert_int_equal(witness("key"), 0);
    witness_key = take("wkey", key_text, sizeof key_text);
    assert_int_equal(led_signer_new(&(struct led_signer_opts){.env = ron_env_linux(),
                                                              .origin = STR("ledger.example/main"),
                                                              .witnesses = &witness_key,
                                                              .witness_count = 1},
                                    &s, NULL),
                     RON_OK);
    ron_buf_init_over(&out, memory, sizeof memory);
    assert_int_equal(ron_note_key_write(led_signer_key(s), &out), RON_OK);
    put("vkey", STR(ron_buf_text(&out)));
    ron_tree_hash_leaf("root", 4, &root);
    led_signer_set_head(s, SIZE, &root);
    assert_int_equal(led_signer_save(s, NULL), RON_OK);
    ron_buf_clear(&out);
    assert_int_equal(led_signer_published(s, 0, &out, NULL), RON_OK);
    put("checkpoint", STR(ron_buf_text(&out)));
    assert_int_equal(witness("cosign"), 0);
    assert_int_equal(led_signer_cosign(s, take("cosigned", cosigned, sizeof cosigned),
                                       LED_SIGN_NEWEST, &count, NULL),
                     RON_OK);
    assert_int_equal(count, 1);
    ron_buf_clear(&out);
    assert_int_equal(led_signer_published(s, 1, &out, NULL), RON_OK);
    put("published", STR(ron_buf_text(&out)));
    assert_int_equal(witness("verify"), 0);
    memory[ron_buf_len(&out) - 10] ^= 1; /* in the cosignature */
    put("published", (struct ron_str){.ptr = memory, .len = ron_buf_len(&out)});
    assert_int_not_equal(witness("verify"), 0);
    led_signer_free(s);
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return run(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_go_witness__checkpoint_published__cosigned_taken_and_verified),
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
