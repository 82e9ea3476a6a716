/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation or read of the disk fails while the journal is read, exported or
 * imported, the caller gets a code, nothing leaks, and nothing wrong is answered.
 * Method: the fault sweep over whole lives: open a small journal that was written before, ask for
 * everything, close. What is answered is compared with the answers of a run without faults. */
#include "unit/ledger/journal.h"

#include "ledger/offline/import.h"
#include "ledger/read/export.h"
#include "ron/base/assert.h"

enum { ENTRIES = 25, ANSWERS = 12, ANSWER_MAX = 64 << 10 };

static struct journal *j;
static struct ron_tree_hash root;

/* Answers of the first run, which has no fault. */
static struct {
    char *bytes;
    size_t len;
} answers[ANSWERS];

static int setup(void **state)
{
    if (j_setup(state, ENTRIES, &j) != 0) {
        return -1;
    }
    root = j_root(j);
    led_log_close(j->log);
    j->log = NULL;
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < ANSWERS; i++) {
        free(answers[i].bytes);
    }
    return j_teardown(state, j);
}

/* The first answer to a question is kept; later ones must be the same. */
static void compare(size_t question, const void *bytes, size_t len)
{
    RON_ASSERT(question < ANSWERS && len > 0);
    if (answers[question].bytes == NULL) {
        answers[question].bytes = malloc(len);
        RON_ASSERT(answers[question].bytes != NULL);
        memcpy(answers[question].bytes, bytes, len);
        answers[question].len = len;
    }
    RON_ASSERT(answers[question].len == len);
    RON_ASSERT(memcmp(answers[question].bytes, bytes, len) == 0);
}

static enum ron_rc answered(size_t question, enum ron_rc rc, struct ron_buf *out)
{
    if (rc == RON_OK) {
        compare(question, ron_buf_data(out), ron_buf_len(out));
    } else {
        RON_ASSERT(ron_buf_len(out) == 0);
    }
    ron_buf_clear(out);
    return rc;
}

static enum ron_rc ask(struct led_reader *r, struct ron_buf *out)
{
    const struct led_candidates none = {0};
    struct led_account_query q = {.limit = 5, .at_seq = 20};
    const struct j_entry *last = j_at(j, j->seq);

    q.account = j_str(j_accounts[last->account]);
    q.last_seq = j->seq;
    RON_TRY(answered(0, led_read_entry(r, 7, out, NULL), out));
    RON_TRY(answered(1, led_read_entry_by_id(r, j_at(j, 9)->e.id, none, out, NULL), out));
    RON_TRY(answered(2, led_read_history(r, &q, out, NULL), out));
    RON_TRY(answered(3, led_read_balances(r, &q, out, NULL), out));
    RON_TRY(answered(4, led_read_roots(r, 0, 100, out, NULL), out));
    RON_TRY(answered(5, led_read_inclusion(r, 3, 11, out, NULL), out));
    RON_TRY(answered(6, led_read_tile(r, j_str("tile/entries/000.p/20"), out, NULL), out));
    return RON_OK;
}

static enum ron_rc with_reader(enum ron_rc (*act)(struct led_reader *r, struct ron_buf *out))
{
    struct led_reader_opts opts = {.index = j->index, .hashes = &j->store};
    struct led_log_report report;
    struct led_log *log = NULL;
    struct led_reader *r = NULL;
    struct ron_buf out;
    enum ron_rc rc;

    memcpy(opts.hash_key, j->index_state.hash_key, sizeof opts.hash_key);
    ron_buf_init(&out, ANSWER_MAX);
    rc = led_log_open(&(struct led_log_opts){.env = j->env, .dir = j->dir, .read_only = true}, 0,
                      NULL, NULL, &log, &report, NULL);
    if (rc == RON_OK && report.damage != LED_DAMAGE_NONE) {
        rc = RON_CORRUPT; /* the log could not be read to its end */
    }
    if (rc == RON_OK) {
        opts.log = log;
        rc = led_reader_new(&opts, &r);
    }
    if (rc == RON_OK) {
        led_reader_set_head(r, j->seq, &root);
        rc = act(r, &out);
    }
    led_reader_free(r);
    led_log_close(log);
    ron_buf_done(&out);
    return rc;
}

static enum ron_rc read_life(void *arg)
{
    (void)arg;
    return with_reader(ask);
}

static enum ron_rc export_one(struct led_reader *r, enum led_export_format format, size_t question)
{
    static char text[ANSWER_MAX];
    struct led_export_opts opts = {.reader = r, .format = format};
    struct led_export *ex = NULL;
    size_t total = 0;
    size_t len = 1;
    enum ron_rc rc = led_export_new(&opts, &ex, NULL);

    while (rc == RON_OK && len > 0) {
        rc = led_export_next(ex, text + total, 5000, &len, NULL);
        if (rc == RON_OK) {
            total += len;
        } else {
            RON_ASSERT(led_export_next(ex, text + total, 5000, &len, NULL) == rc);
        }
        RON_ASSERT(total + 5000 <= sizeof text);
    }
    if (rc == RON_OK) {
        compare(question, text, total);
    }
    led_export_free(ex);
    return rc;
}

static enum ron_rc export_all(struct led_reader *r, struct ron_buf *out)
{
    (void)out;
    RON_TRY(export_one(r, LED_EXPORT_NDJSON, 7));
    RON_TRY(export_one(r, LED_EXPORT_HLEDGER, 8));
    return export_one(r, LED_EXPORT_BEANCOUNT, 9);
}

static enum ron_rc export_life(void *arg)
{
    (void)arg;
    return with_reader(export_all);
}

/* Needs the answer of export_life. */
static enum ron_rc import_life(void *arg)
{
    static const uint8_t key[16];
    struct led_import *imp = NULL;
    struct led_import_end end;
    enum led_import_step step = LED_IMPORT_MORE;
    enum ron_rc rc = led_import_new(key, &imp);

    (void)arg;
    for (size_t at = 0; rc == RON_OK && at < answers[7].len; at += 3000) {
        rc = led_import_push(imp, answers[7].bytes + at, RON_MIN((size_t)3000, answers[7].len - at),
                             NULL);
        while (rc == RON_OK && led_import_arena_size(imp) > 0) {
            struct led_work w = {0};

            rc = ron_arena_init(&w.arena, led_import_arena_size(imp));
            if (rc == RON_OK) {
                rc = led_import_next(imp, &w, &step, NULL);
                ron_arena_done(&w.arena);
            }
        }
    }
    if (rc == RON_OK) {
        rc = led_import_end(imp, &end, NULL);
        RON_ASSERT(rc == RON_OK && end.seq_last == j->seq && ron_tree_hash_equal(&end.root, &root));
    }
    led_import_free(imp);
    return rc;
}

/* The log reads ahead and can do without: what cannot be read once is read again alone. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_led_read__any_fault__clean_and_nothing_wrong_answered, read_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_led_export__any_fault__clean_and_nothing_wrong_written,
                             export_life)
SUPPORT_FAULT_SWEEP(test_led_import__any_fault__clean, import_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_read__any_fault__clean_and_nothing_wrong_answered),
        cmocka_unit_test(test_led_export__any_fault__clean_and_nothing_wrong_written),
        cmocka_unit_test(test_led_import__any_fault__clean),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
