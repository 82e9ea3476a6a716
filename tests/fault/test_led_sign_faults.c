/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whatever fails while a signer is made, publishes, or takes a cosignature, and while a roots
 * publisher is made: a clean error, the key file whole or absent, what was published on the disk,
 * and nothing left behind.
 * Method: the fault sweep over memory and disk. Roots travel without a server here; the handlers
 * are under the faults of http in their own sweep. */
#include "unit/io/fixture.h"

#include <fcntl.h>

#include "ledger/publish/roots.h"
#include "merkle/note_priv.h"
#include "ron/base/assert.h"

#define ORIGIN "ledger.example/main"
#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static struct fixture *fix;
static char key_path[256];
static char note_path[256];
static struct ron_note_signer witness;
static char witness_text[512];

static struct led_signer_opts opts(const struct ron_str *witness_key)
{
    return (struct led_signer_opts){.env = fix->env,
                                    .key_path = key_path,
                                    .checkpoint_path = note_path,
                                    .origin = STR(ORIGIN),
                                    .witnesses = witness_key,
                                    .witness_count = 1};
}

/* Looks without faults. */
static enum ron_rc reopen(uint64_t *ret_size)
{
    bool (*hook)(enum ron_fault_kind kind, const char *site) = ron_fault_hook;
    struct ron_str key = STR(witness_text);
    struct led_signer_opts o = opts(&key);
    struct led_signer *s = NULL;
    struct ron_tree_hash root;
    enum ron_rc rc;

    ron_fault_hook = NULL;
    *ret_size = 0;
    rc = led_signer_new(&o, &s, NULL);
    if (rc == RON_OK) {
        (void)led_signer_loaded(s, ret_size, &root);
    }
    led_signer_free(s);
    ron_fault_hook = hook;
    return rc;
}

static enum ron_rc publish(struct led_signer *s, uint64_t size)
{
    struct ron_tree_hash root;

    ron_tree_hash_leaf(&size, sizeof size, &root);
    led_signer_set_head(s, size, &root);
    return led_signer_save(s, NULL);
}

static enum ron_rc cosign(struct led_signer *s)
{
    char memory[LED_SIGN_NOTE_SIZE];
    char line[1024];
    struct led_note note = {0};
    struct ron_buf out;
    struct ron_buf signature;
    size_t count = 0;

    ron_buf_init_over(&out, memory, sizeof memory);
    ron_buf_init_over(&signature, line, sizeof line);
    RON_TRY(led_signer_published(s, 0, &out, NULL));
    RON_TRY(led_note_read(STR(ron_buf_text(&out)), &note, NULL));
    RON_TRY(led_note_sign_line(note.text, &witness, 1, &signature, NULL));
    return led_signer_cosign(s, STR(ron_buf_text(&signature)), LED_SIGN_NEWEST, &count, NULL);
}

static enum ron_rc signer_life(void *arg)
{
    struct ron_str key = STR(witness_text);
    struct led_signer_opts o = opts(&key);
    struct led_signer *s = NULL;
    size_t fds = fixture_open_fds();
    uint64_t published = 0;
    uint64_t on_disk = 0;
    enum ron_rc rc;

    (void)arg;
    (void)unlink(key_path);
    (void)unlink(note_path);
    (void)unlink(fixture_path(fix, "checkpoint.cosigned"));
    RON_GOTO(led_signer_new(&o, &s, NULL), out);
    RON_GOTO(publish(s, 3), out);
    published = 3;
    RON_GOTO(cosign(s), out);
    RON_GOTO(publish(s, 8), out);
    published = 8;
out:
    led_signer_free(s);
    RON_ASSERT(fixture_open_fds() == fds);
    RON_ASSERT(reopen(&on_disk) == RON_OK);
    RON_ASSERT(on_disk >= published); /* G2 */
    return rc;
}

static enum ron_rc reopen_life(void *arg)
{
    struct ron_str key = STR(witness_text);
    struct led_signer_opts o = opts(&key);
    struct led_signer *s = NULL;
    enum ron_rc rc = led_signer_new(&o, &s, NULL);

    (void)arg;
    led_signer_free(s);
    return rc;
}

static void older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit)
{
    (void)arg;
    (void)call;
    (void)since;
    (void)limit;
}

static enum ron_rc roots_life(void *arg)
{
    struct ron_registry *registry = NULL;
    struct led_roots *roots = NULL;
    struct led_root_event event = {.seq = 1};
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&registry, NULL));
    rc = led_roots_new(
        &(struct led_roots_opts){.env = fix->env, .registry = registry, .older = older}, &roots,
        NULL);
    if (rc == RON_OK) {
        led_roots_publish(roots, &event);
    }
    led_roots_free(roots);
    ron_registry_free(registry);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_led_sign_faults__a_life__key_whole_and_published_on_disk, signer_life)
SUPPORT_FAULT_SWEEP(test_led_sign_faults__reopened__clean, reopen_life)
SUPPORT_FAULT_SWEEP(test_led_roots_faults__made_and_freed__clean, roots_life)

static int setup(void **state)
{
    uint8_t seed[RON_NOTE_SEED_BYTES] = {9};
    struct ron_buf text;

    if (fixture_setup(state) != 0) {
        return -1;
    }
    fix = *state;
    (void)snprintf(key_path, sizeof key_path, "%s", fixture_path(fix, "key"));
    (void)snprintf(note_path, sizeof note_path, "%s", fixture_path(fix, "checkpoint"));
    ron_buf_init_over(&text, witness_text, sizeof witness_text);
    if (ron_note_signer_make(STR("w.example"), RON_NOTE_COSIGNATURE, seed, &witness, NULL) !=
            RON_OK ||
        ron_note_key_write(&witness.key, &text) != RON_OK) {
        return -1;
    }
    (void)ron_buf_text(&text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_sign_faults__a_life__key_whole_and_published_on_disk),
        cmocka_unit_test(test_led_sign_faults__reopened__clean),
        cmocka_unit_test(test_led_roots_faults__made_and_freed__clean),
    };

    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
