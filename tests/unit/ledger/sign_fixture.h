/* SPDX-License-Identifier: Apache-2.0 */
/* sign_fixture.h - a signer with files of its own, a clock of the test's and witnesses made by
 * led_note.
 *
 * Place: tests of led_sign only. */
#pragma once

#include "unit/io/fixture.h"

#include "ledger/publish/sign.h"
#include "merkle/note_priv.h"

#define ORIGIN "ledger.example/main"
#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

enum { WITNESSES = 3, NOTE = LED_SIGN_NOTE_SIZE };

static struct ron_env env; /* of the fixture, with the clock below */
static uint64_t now_ns = UINT64_C(1) << 50;
static char key_path[256];
static char note_path[256];
static struct ron_note_signer witnesses[WITNESSES];
static char witness_texts[WITNESSES][512];
static struct ron_str witness_keys[WITNESSES];

static inline uint64_t test_clock(void *ctx)
{
    (void)ctx;
    return now_ns;
}

static inline struct ron_note_signer witness_make(const char *name, uint8_t seed_byte)
{
    uint8_t seed[RON_NOTE_SEED_BYTES] = {seed_byte};
    struct ron_note_signer w = {0};

    assert_int_equal(ron_note_signer_make(STR(name), RON_NOTE_COSIGNATURE, seed, &w, NULL), RON_OK);
    return w;
}

static inline int group_setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < WITNESSES; i++) {
        char name[32];
        struct ron_buf text;

        (void)snprintf(name, sizeof name, "witness.example/w%zu", i);
        witnesses[i] = witness_make(name, (uint8_t)(10 + i));
        ron_buf_init_over(&text, witness_texts[i], sizeof witness_texts[i]);
        assert_int_equal(ron_note_key_write(&witnesses[i].key, &text), RON_OK);
        witness_keys[i] = STR(ron_buf_text(&text));
    }
    return 0;
}

static inline int setup(void **state)
{
    int rc = fixture_setup(state);
    const struct fixture *fix = *state;

    env = *fix->env;
    env.clock.mono_ns = test_clock;
    (void)snprintf(key_path, sizeof key_path, "%s", fixture_path(fix, "key"));
    (void)snprintf(note_path, sizeof note_path, "%s", fixture_path(fix, "checkpoint"));
    return rc;
}

static inline struct led_signer_opts on_disk(void)
{
    return (struct led_signer_opts){.env = &env,
                                    .key_path = key_path,
                                    .checkpoint_path = note_path,
                                    .origin = STR(ORIGIN),
                                    .witnesses = witness_keys,
                                    .witness_count = WITNESSES};
}

static inline struct led_signer *open_signer(const struct led_signer_opts *o)
{
    struct led_signer *s = NULL;
    struct ron_err err = {0};

    if (led_signer_new(o, &s, &err) != RON_OK) {
        fail_msg("signer: %s", err.msg);
    }
    return s;
}

static inline struct ron_tree_hash root_of(uint64_t n)
{
    struct ron_tree_hash h;

    ron_tree_hash_leaf(&n, sizeof n, &h);
    return h;
}

static inline struct ron_str checkpoint(struct led_signer *s, uint64_t size, char *memory)
{
    struct ron_tree_hash root = root_of(size);
    struct ron_buf out;

    ron_buf_init_over(&out, memory, NOTE);
    assert_int_equal(led_signer_checkpoint(s, size, &root, &out, NULL), RON_OK);
    return STR(ron_buf_text(&out));
}

static inline struct ron_str published(struct led_signer *s, size_t needed, char *memory)
{
    struct ron_buf out;

    ron_buf_init_over(&out, memory, NOTE);
    assert_int_equal(led_signer_published(s, needed, &out, NULL), RON_OK);
    return STR(ron_buf_text(&out));
}

static inline void publish(struct led_signer *s, uint64_t size)
{
    struct ron_tree_hash root = root_of(size);

    led_signer_set_head(s, size, &root);
    assert_int_equal(led_signer_save(s, NULL), RON_OK);
}

/* The signature line of a witness over the text of a note. */
static inline struct ron_str line_of(const struct ron_note_signer *w, struct ron_str note_bytes,
                                     char *memory)
{
    struct led_note note = {0};
    struct ron_buf out;

    assert_int_equal(led_note_read(note_bytes, &note, NULL), RON_OK);
    ron_buf_init_over(&out, memory, NOTE);
    assert_int_equal(led_note_sign_line(note.text, w, 1700000000, &out, NULL), RON_OK);
    return STR(ron_buf_text(&out));
}

static inline enum ron_rc cosign(struct led_signer *s, struct ron_str body, uint64_t size)
{
    size_t count = 0;
    enum ron_rc rc = led_signer_cosign(s, body, size, &count, NULL);

    assert_true((count > 0) == (rc == RON_OK));
    return rc;
}

static inline struct led_signer_stats stats_of(const struct led_signer *s)
{
    struct led_signer_stats st;

    led_signer_get_stats(s, &st);
    return st;
}

/* Good by our key and by so many witnesses. */
static inline void expect_good(struct led_signer *s, struct ron_str note, uint64_t size,
                               size_t needed)
{
    struct ron_note_key keys[WITNESSES];
    struct led_checkpoint c = {0};
    struct ron_err err = {0};
    struct ron_tree_hash root = root_of(size);

    for (size_t i = 0; i < WITNESSES; i++) {
        keys[i] = witnesses[i].key;
    }
    if (led_checkpoint_open(note,
                            &(struct led_trust){.origin = STR(ORIGIN),
                                                .log_keys = led_signer_key(s),
                                                .log_key_count = 1,
                                                .witness_keys = keys,
                                                .witness_key_count = WITNESSES,
                                                .witnesses_needed = needed},
                            &c, &err) != RON_OK) {
        fail_msg("%s: %.*s", err.msg, (int)note.len, note.ptr);
    }
    assert_int_equal(c.size, size);
    assert_true(ron_tree_hash_equal(&c.root, &root));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
