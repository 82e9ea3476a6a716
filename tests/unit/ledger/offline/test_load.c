/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the export of any ledger can be imported offline to the same root, and an import that did
 * not finish is never taken for a ledger.
 * Method: journals made by the stages without threads (core.h) are exported into memory and loaded
 * into a second directory, with a table of recent keys that is too small for them where that
 * matters; then that one is exported and loaded again. Files are cut and changed. */
#include "unit/ledger/core.h"

#include "ledger/offline/load.h"
#include "ledger/read/export.h"
#include "ledger/read/reader.h"

enum {
    KEYS = 16, /* of a generation of recent keys, where it is small: 512 in all */
    MANY = 60, /* windows of `fill`: more keys than that */
};

static char text[4 << 20];
static size_t text_len;
static char second_dir[FIXTURE_PATH_SIZE];

static struct ron_env env;
static struct ron_disk_ops disk;

static enum ron_rc no_sync(const struct ron_env *e, int fd, bool data_only, struct ron_err *err)
{
    (void)e;
    (void)fd;
    (void)data_only;
    return ron_err_set(err, RON_IO, "the disk is gone");
}

static int setup(void **state)
{
    if (core_setup(state) != 0) {
        return -1;
    }
    (void)snprintf(second_dir, sizeof second_dir, "%s", fixture_path(*state, "second"));
    return 0;
}

/* ---- the tools ------------------------------------------------------------------------------- */

static void export_from(struct led_recovered *r, uint64_t to)
{
    struct led_reader_opts ro = {.log = r->log, .hashes = led_hashes_store(r->hashes)};
    struct led_export_opts eo = {.to_seq = to};
    struct led_export *x = NULL;
    struct led_log_head head;
    size_t len = 1;

    assert_int_equal(led_reader_new(&ro, &eo.reader), RON_OK);
    led_log_head(r->log, &head);
    led_reader_set_head(eo.reader, head.last_seq, &head.root);
    assert_int_equal(led_export_new(&eo, &x, NULL), RON_OK);
    for (text_len = 0; len > 0; text_len += len) {
        assert_true(text_len < sizeof text);
        assert_int_equal(led_export_next(x, text + text_len, sizeof text - text_len, &len, NULL),
                         RON_OK);
    }
    led_export_free(x);
    led_reader_free(eo.reader);
}

static enum ron_rc open_second(struct led_recovered *r, uint32_t recent_keys, struct ron_err *err)
{
    struct led_recover_opts o = core.opts;

    o.dir = second_dir;
    o.book = (struct led_book_opts){0}; /* the tool does not know the horizon of then */
    o.seq = (struct led_seq_opts){.recent_keys = recent_keys};
    o.read_only = false;
    return led_recover(&o, r, err);
}

/* What `ron ledger import` does with the text; the ledger stays open when that is RON_OK. */
static enum ron_rc import_text(struct led_recovered *r, uint32_t recent_keys, struct ron_err *err)
{
    struct led_load *load = NULL;
    enum ron_rc rc = open_second(r, recent_keys, err);

    if (rc != RON_OK) {
        return rc;
    }
    rc = led_load_new(ron_env_linux(), second_dir, r, &load, err);
    if (rc == RON_OK) {
        rc = led_load_push(load, text, text_len, err);
        rc = rc == RON_OK ? led_load_end(load, err) : rc;
        led_load_free(load);
    }
    if (rc != RON_OK) {
        led_recovered_done(r);
    }
    return rc;
}

static void import_fine(struct led_recovered *r, uint32_t recent_keys)
{
    struct ron_err err = {0};
    enum ron_rc rc = import_text(r, recent_keys, &err);

    if (rc != RON_OK) {
        fail_msg("%s: %s", ron_rc_name(rc), err.msg);
    }
}

/* It is the ledger of core.h, also after it was opened anew. */
static void expect_same(struct led_recovered *r)
{
    struct core_state good;
    struct led_log_head head;
    uint8_t digest[32];

    core_state(&good);
    for (int life = 0; life < 2; life++) {
        led_log_head(r->log, &head);
        assert_int_equal(head.last_seq, good.last_seq);
        assert_memory_equal(&head.root, &good.root, sizeof head.root);
        led_book_digest(led_seq_book(r->seq), digest);
        assert_memory_equal(digest, good.digest, sizeof digest);
        led_recovered_done(r);
        if (life == 0) {
            assert_int_equal(open_second(r, 0, NULL), RON_OK);
            assert_int_equal(r->report.damage, LED_DAMAGE_NONE);
        }
    }
}

/* ---- journals -------------------------------------------------------------------------------- */

/* One batch that undoes the first entry of each of these. */
static void undo_all(struct led_work **what, size_t count)
{
    const struct led_entry **originals;
    struct led_entry entries[32];
    struct led_work *w;

    assert_true(count <= RON_ARRAY_LEN(entries));
    for (size_t i = 0; i < count; i++) {
        entries[i] = works_entry(LED_KIND_REVERSE, "", "", 1);
        entries[i].account = what[i]->batch.entries[0].account;
        entries[i].ref = what[i]->batch.entries[0].id;
    }
    w = works_batch(NULL, entries, count);
    originals = ron_arena_alloc_array(&w->arena, count, sizeof *originals, 8);
    for (size_t i = 0; i < count; i++) {
        originals[i] = &what[i]->batch.entries[0];
    }
    w->originals = originals;
    core_commit(w);
}

/* Batches of ten with keys of their own. */
static void fill(unsigned batches)
{
    struct led_entry entries[10];

    for (unsigned n = 0; n < batches; n++) {
        struct led_work *w;
        char *key;

        for (size_t i = 0; i < RON_ARRAY_LEN(entries); i++) {
            entries[i] = works_entry(LED_KIND_TRANSFER, "a", "b", 1);
        }
        w = works_batch(NULL, entries, RON_ARRAY_LEN(entries));
        key = ron_arena_alloc(&w->arena, 24, 1);
        (void)snprintf(key, 24, "key-%u", n);
        w->batch.idem_id = works_str(key);
        w->idem = led_idem_key(works.hash_key, w->batch.idem_id);
        core_commit(w);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_led_load__every_kind_and_many_windows__same_ledger(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_recovered r = {0};

    (void)state;
    core_random(&rand, 200);
    export_from(&core.r, 0);
    import_fine(&r, 0);
    expect_same(&r);
}

static void test_led_load__nonce_used_again_after_a_short_horizon__taken(void **state)
{
    struct led_recovered r = {0};
    struct led_entry e;
    struct led_work *first;

    (void)state;
    core_close();
    core.opts.book.horizon_ms = 60 * 1000;
    core_open();
    first = core_commit(works_mint("a", 1));
    works.now_ms += 2 * 60 * 1000;
    e = works_entry(LED_KIND_MINT, "a", "", 1);
    memcpy(e.nonce, first->batch.entries[0].nonce, sizeof e.nonce);
    core_commit(works_batch(NULL, &e, 1));
    export_from(&core.r, 0);
    import_fine(&r, 0);
    expect_same(&r);
}

static void test_led_load__many_reversals_in_a_batch__all_found(void **state)
{
    struct led_recovered r = {0};
    struct led_work *moves[20];
    char memo[LED_MEMO_MAX + 1];

    (void)state;
    memset(memo, 'm', sizeof memo);
    core_commit(works_mint("a", 1000));
    for (size_t i = 0; i < RON_ARRAY_LEN(moves); i++) {
        struct led_entry e = works_entry(LED_KIND_TRANSFER, "a", "b", 1);

        e.memo = (struct ron_str){memo, LED_MEMO_MAX}; /* longer than what undoes it */
        moves[i] = core_commit(works_batch(NULL, &e, 1));
    }
    undo_all(moves, RON_ARRAY_LEN(moves));
    export_from(&core.r, 0);
    import_fine(&r, 0);
    expect_same(&r);
}

static void test_led_load__imported_ledger_with_a_cancel__imported_again(void **state)
{
    struct led_recovered r = {0};

    core_commit(works_mint("a", 1000));
    core_run(works_cancel("never"));
    core_commit(works_transfer("a", "b", 1));
    export_from(&core.r, 0);
    import_fine(&r, 0);
    export_from(&r, 0);
    led_recovered_done(&r);
    (void)snprintf(second_dir, sizeof second_dir, "%s", fixture_path(*state, "third"));
    import_fine(&r, 0);
    expect_same(&r);
}

static void test_led_load__more_keys_than_are_remembered__same_ledger(void **state)
{
    struct led_recovered r = {0};
    struct led_work *old;

    (void)state;
    core_commit(works_mint("a", 100000));
    old = core_commit(works_transfer("a", "b", 5));
    fill(MANY);
    undo_all(&old, 1);
    export_from(&core.r, 0);
    import_fine(&r, KEYS);
    assert_true(r.index != NULL && led_index_applied(r.index) == led_seq_last(core.r.seq));
    expect_same(&r);
}

/* Replaces the last `from` of the text, which is as long. */
static void change_last(const char *from, const char *to)
{
    size_t len = strlen(from);

    for (size_t at = text_len - len; at > 0; at--) {
        if (memcmp(text + at, from, len) == 0) {
            memcpy(text + at, to, len);
            return;
        }
    }
    fail_msg("no %s", from);
}

static void test_led_load__key_from_long_ago__refused(void **state)
{
    static const char *const changes[][2] = {{"the-last-entry", "the-old-entry-"},
                                             {"key-59", "key-10"}};
    struct led_recovered r = {0};
    struct ron_err err = {0};

    core_commit(works_mint("a", 100000));
    core_commit(works_one("the-old-entry-", LED_KIND_TRANSFER, "a", "b", 1));
    fill(MANY);
    core_commit(works_one("the-last-entry", LED_KIND_TRANSFER, "a", "b", 1));
    for (size_t i = 0; i < RON_ARRAY_LEN(changes); i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "second-%zu", i);
        (void)snprintf(second_dir, sizeof second_dir, "%s", fixture_path(*state, name));
        export_from(&core.r, 0);
        change_last(changes[i][0], changes[i][1]);
        assert_int_equal(import_text(&r, KEYS, &err), RON_CONFLICT);
        assert_non_null(strstr(err.msg, "idem_mismatch"));
    }
}

static void test_led_load__not_finished__never_opened(void **state)
{
    struct led_recovered r = {0};
    struct ron_err err = {0};

    core_commit(works_mint("a", 100000));
    fill(2);
    export_from(&core.r, 0);
    change_last("\"amount\":\"1\"", "\"amount\":\"2\"");
    assert_int_equal(import_text(&r, 0, &err), RON_CORRUPT); /* the root */
    for (int way = 0; way < 2; way++) {
        assert_int_equal(way == 0 ? open_second(&r, 0, &err) : import_text(&r, 0, &err),
                         RON_CONFLICT);
        assert_non_null(strstr(err.msg, "remove the directory and import again"));
    }
    /* A file of which nothing was taken leaves an empty directory, which is fine. */
    (void)snprintf(second_dir, sizeof second_dir, "%s", fixture_path(*state, "third"));
    text_len = (size_t)snprintf(text, sizeof text, "hello\n");
    assert_int_equal(import_text(&r, 0, &err), RON_INVALID);
    export_from(&core.r, 0);
    import_fine(&r, 0);
    expect_same(&r);
}

static void test_led_load__disk_fails_under_a_full_group__said_and_nothing_leaks(void **state)
{
    struct led_recovered r = {0};
    struct led_load *load = NULL;
    struct ron_err err = {0};

    (void)state;
    core_commit(works_mint("a", 100000));
    fill(450); /* more entries than a group */
    export_from(&core.r, 0);
    env = *ron_env_linux();
    disk = *env.disk;
    env.disk = &disk;
    core.opts.env = &env;
    assert_int_equal(open_second(&r, 0, &err), RON_OK);
    assert_int_equal(led_load_new(&env, second_dir, &r, &load, &err), RON_OK);
    disk.sync = no_sync;
    assert_int_equal(led_load_push(load, text, text_len, &err), RON_IO);
    led_load_free(load);
    led_recovered_done(&r);
}

static void test_led_load__range_that_ends_inside_a_batch__is_imported(void **state)
{
    struct led_recovered r = {0};
    struct led_log_head head;

    (void)state;
    core_commit(works_mint("a", 100000));
    fill(2);
    export_from(&core.r, 8);
    assert_non_null(memmem(text, 200, "\"to\":11}", 8));
    import_fine(&r, 0);
    led_log_head(r.log, &head);
    assert_int_equal(head.last_seq, 11);
    led_recovered_done(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, core_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_load__every_kind_and_many_windows__same_ledger),
        CASE(test_led_load__nonce_used_again_after_a_short_horizon__taken),
        CASE(test_led_load__many_reversals_in_a_batch__all_found),
        CASE(test_led_load__imported_ledger_with_a_cancel__imported_again),
        CASE(test_led_load__more_keys_than_are_remembered__same_ledger),
        CASE(test_led_load__key_from_long_ago__refused),
        CASE(test_led_load__not_finished__never_opened),
        CASE(test_led_load__disk_fails_under_a_full_group__said_and_nothing_leaks),
        CASE(test_led_load__range_that_ends_inside_a_batch__is_imported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
