/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an export holds the whole journal, and importing it gives the same ledger: root, balances,
 * keys, tombstones.
 * Method: random journals (journal.h) are exported in pieces of any size and imported through
 * sequencer and committer into a second log, whose own export must be the same but for what the
 * import cannot know. Then lines are left out, repeated, cut and changed: each is refused, with the
 * number of the line. */
#include "unit/ledger/journal.h"

#include <stdlib.h>

#include "ledger/offline/import.h"
#include "ledger/pipeline/commit.h"
#include "ledger/pipeline/seq.h"
#include "ledger/read/export.h"

enum { ENTRIES = 600, TEXT_MAX = 2 << 20 };

static struct fixture *f;
static struct journal *j;
static char *text;
static size_t text_len;

static size_t export_into(struct led_reader *r, struct led_export_opts opts, size_t piece, char *to)
{
    struct led_export *ex = NULL;
    size_t total = 0;
    size_t len = 0;

    opts.reader = r;
    assert_int_equal(led_export_new(&opts, &ex, NULL), RON_OK);
    do {
        assert_true(total + piece <= TEXT_MAX);
        assert_int_equal(led_export_next(ex, to + total, piece, &len, NULL), RON_OK);
        assert_true(len <= piece);
        total += len;
    } while (len > 0);
    assert_int_equal(led_export_next(ex, to + total, piece, &len, NULL), RON_OK);
    assert_int_equal(len, 0);
    led_export_free(ex);
    return total;
}

static int setup(void **state)
{
    struct led_reader *r;

    if (j_setup(state, ENTRIES, &j) != 0) {
        return -1;
    }
    f = *state;
    text = ron_alloc(TEXT_MAX);
    assert_non_null(text);
    r = j_reader(j, true, 0, NULL);
    text_len = export_into(r, (struct led_export_opts){0}, LED_EXPORT_PIECE, text);
    led_reader_free(r);
    return 0;
}

static int teardown(void **state)
{
    ron_free(text);
    return j_teardown(state, j);
}

/* ---- pulling --------------------------------------------------------------------------------- */

static void test_led_export__pieces_of_any_size__same_text(void **state)
{
    static const size_t pieces[] = {1, 7, 511, 4096, LED_EXPORT_PIECE, 3 * LED_EXPORT_PIECE};
    static const enum led_export_format formats[] = {LED_EXPORT_NDJSON, LED_EXPORT_HLEDGER,
                                                     LED_EXPORT_BEANCOUNT};
    struct led_reader *r = j_reader(j, true, 0, NULL);
    char *first = ron_alloc(TEXT_MAX);
    char *other = ron_alloc(TEXT_MAX);

    (void)state;
    assert_true(first != NULL && other != NULL);
    for (size_t i = 0; i < RON_ARRAY_LEN(formats); i++) {
        struct led_export_opts opts = {.format = formats[i]};
        size_t len = export_into(r, opts, LED_EXPORT_PIECE, first);

        for (size_t k = 0; k < RON_ARRAY_LEN(pieces); k++) {
            assert_int_equal(export_into(r, opts, pieces[k], other), len);
            assert_memory_equal(first, other, len);
        }
    }
    ron_free(first);
    ron_free(other);
    led_reader_free(r);
}

static size_t count_of(const char *bytes, size_t len, const char *word)
{
    size_t count = 0;
    const char *end = bytes + len;

    while ((bytes = memmem(bytes, (size_t)(end - bytes), word, strlen(word))) != NULL) {
        bytes++;
        count++;
    }
    return count;
}

static void test_led_export__ndjson__one_line_for_each_record(void **state)
{
    size_t cancels = 0;

    (void)state;
    for (size_t i = 0; i < j->record_count; i++) {
        cancels += j->records[i].count == 0;
    }
    assert_true(cancels > 0);
    assert_int_equal(count_of(text, text_len, "\n"), j->record_count + 2);
    assert_int_equal(count_of(text, text_len, "{\"type\":\"cancel\""), cancels);
    assert_int_equal(count_of(text, text_len, "{\"type\":\"batch\""), j->record_count - cancels);
    assert_int_equal(count_of(text, text_len, "\"kind\":\""), j->seq);
    assert_true(count_of(text, text_len, "\"kind\":\"Expire\"") > 0);
    assert_true(count_of(text, text_len, "\"own\":true") > 0);
}

/* The number behind the first such word. */
static uint64_t number_behind(const char *bytes, size_t len, const char *word)
{
    const char *at = memmem(bytes, len, word, strlen(word));

    assert_non_null(at);
    return strtoull(at + strlen(word), NULL, 10);
}

static void test_led_export__range__whole_batches_that_begin_in_it(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct ron_rand rand = support_rand();
    char *part = ron_alloc(TEXT_MAX);
    struct led_export *ex = NULL;

    (void)state;
    assert_non_null(part);
    for (int i = 0; i < 40; i++) {
        struct led_export_opts opts = {.from_seq = 1 + ron_rand_below(&rand, j->seq)};
        size_t entries = 0;
        size_t len;

        opts.to_seq = opts.from_seq + ron_rand_below(&rand, j->seq - opts.from_seq + 1);
        len = export_into(r, opts, 1000, part);
        for (size_t k = 0; k < j->record_count; k++) {
            if (j->records[k].seq_first >= opts.from_seq &&
                j->records[k].seq_first <= opts.to_seq) {
                entries += j->records[k].count;
            }
        }
        assert_int_equal(count_of(part, len, "\"kind\":\""), entries);
        /* Its first line tells where it really ends. */
        assert_int_equal(number_behind(part, len, "\"to\":"),
                         number_behind(part, len, "\"type\":\"end\",\"seq\":"));
    }
    assert_int_equal(
        led_export_new(&(struct led_export_opts){.reader = r, .to_seq = j->seq + 1}, &ex, NULL),
        RON_NOTFOUND);
    assert_int_equal(
        led_export_new(&(struct led_export_opts){.reader = r, .from_seq = 9, .to_seq = 7}, &ex,
                       NULL),
        RON_INVALID);
    ron_free(part);
    led_reader_free(r);
}

static void test_led_export__later_commits__not_in_it(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_export *ex = NULL;
    char *other = ron_alloc(TEXT_MAX);
    size_t total = 0;
    size_t len;

    (void)state;
    assert_non_null(other);
    assert_int_equal(led_export_new(&(struct led_export_opts){.reader = r}, &ex, NULL), RON_OK);
    do {
        assert_int_equal(led_export_next(ex, other + total, 9000, &len, NULL), RON_OK);
        total += len;
        j_grow(j, j->seq + 1);
    } while (len > 0);
    /* Tombstones behind the last entry may have come in between: they belong to no entry. */
    assert_int_equal(count_of(other, total, "\"kind\":\""),
                     count_of(text, text_len, "\"kind\":\""));
    led_export_free(ex);
    led_reader_free(r);
    ron_free(other);
}

static void test_led_export__names__as_documented(void **state)
{
    static const struct {
        const char *account, *hledger, *beancount;
    } accounts[] = {
        {"a", "assets:a", "Assets:Aa"},
        {"t:demo/u:alice/w", "assets:t:demo/u:alice/w", "Assets:At:Cdemo:Su:Calice:Sw"},
        {"a::b", "assets:a:%3Ab", "Assets:Aa:C:Cb"},
        {":x:", "assets:%3Ax%3A", "Assets:A:Cx:C"},
        {"A-b_c/", "assets:A-b_c/", "Assets:AA--b-uc:S"},
    };
    static const struct {
        const char *asset, *hledger, *beancount;
    } assets[] = {
        {"roc", "\"roc\"", "ROC"},
        {"x", "\"x\"", "X'0"},
        {"usd.", "\"usd.\"", "USD.'0"},
        {"abcdefghijklmnopqrstuvwx", "\"abcdefghijklmnopqrstuvwx\"", "ABCDEFGHIJKLMNOPQRSTUVWX"},
        {"abcdefghijklmnopqrstuvwxy", "\"abcdefghijklmnopqrstuvwxy\"", "ABCDEFGHIJKLMNO'"},
    };
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, 1000);
    for (size_t i = 0; i < RON_ARRAY_LEN(accounts); i++) {
        RON_IGNORE(led_export_account(LED_EXPORT_HLEDGER, j_str(accounts[i].account), false, &out));
        assert_string_equal(ron_buf_text(&out), accounts[i].hledger);
        ron_buf_clear(&out);
        RON_IGNORE(
            led_export_account(LED_EXPORT_BEANCOUNT, j_str(accounts[i].account), false, &out));
        assert_string_equal(ron_buf_text(&out), accounts[i].beancount);
        ron_buf_clear(&out);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(assets); i++) {
        RON_IGNORE(led_export_commodity(LED_EXPORT_HLEDGER, j_str(assets[i].asset), &out));
        assert_string_equal(ron_buf_text(&out), assets[i].hledger);
        ron_buf_clear(&out);
        RON_IGNORE(led_export_commodity(LED_EXPORT_BEANCOUNT, j_str(assets[i].asset), &out));
        assert_memory_equal(ron_buf_text(&out), assets[i].beancount, strlen(assets[i].beancount));
        assert_true(ron_buf_len(&out) <= 24);
        ron_buf_clear(&out);
    }
    RON_IGNORE(led_export_account(LED_EXPORT_HLEDGER, j_str("a"), true, &out));
    RON_IGNORE(led_export_account(LED_EXPORT_BEANCOUNT, j_str("a"), true, &out));
    assert_string_equal(ron_buf_text(&out), "assets:a:%heldAssets:Aa:Held");
    ron_buf_done(&out);
}

/* ---- import ---------------------------------------------------------------------------------- */

/* A second ledger: sequencer, committer and a log of its own. */
struct second {
    struct led_log *log;
    struct ron_tree_hash *stored;
    struct ron_tree_store hashes;
    struct led_commit *commit;
    struct led_seq *seq;
    struct led_reader *reader;
};

static enum ron_rc second_append(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                                 size_t count, struct ron_err *err)
{
    struct second *s = ctx;

    (void)err;
    memcpy(s->stored + first, hashes, count * sizeof *hashes);
    return RON_OK;
}

static enum ron_rc second_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct second *s = ctx;

    (void)err;
    for (size_t i = 0; i < count; i++) {
        ret_hashes[i] = s->stored[places[i]];
    }
    return RON_OK;
}

static void second_open(struct second *s, const char *dir)
{
    struct led_book *book = NULL;
    struct led_log_report report;
    struct ron_tree tree;
    struct led_reader_opts reader = {0};

    s->stored = ron_alloc_array((size_t)2 * J_MAX, sizeof *s->stored);
    assert_non_null(s->stored);
    s->hashes = (struct ron_tree_store){.ctx = s, .append = second_append, .read = second_read};
    ron_tree_init(&tree);
    assert_int_equal(led_log_open(&(struct led_log_opts){.env = j->env, .dir = dir}, 0, NULL, NULL,
                                  &s->log, &report, NULL),
                     RON_OK);
    assert_int_equal(led_commit_new(
                         &(struct led_commit_opts){
                             .env = j->env, .log = s->log, .hashes = &s->hashes, .tree = &tree},
                         &s->commit, NULL),
                     RON_OK);
    assert_int_equal(led_book_new(&(struct led_book_opts){0}, &book), RON_OK);
    assert_int_equal(led_seq_new(&(struct led_seq_opts){.take_book = book}, &s->seq), RON_OK);
    reader.log = s->log;
    reader.hashes = &s->hashes;
    assert_int_equal(led_reader_new(&reader, &s->reader), RON_OK);
}

static void second_close(struct second *s)
{
    led_reader_free(s->reader);
    led_seq_free(s->seq);
    led_commit_free(s->commit);
    led_log_close(s->log);
    ron_free(s->stored);
}

static void second_head(struct second *s)
{
    struct led_log_head head;

    led_log_head(s->log, &head);
    led_reader_set_head(s->reader, head.last_seq, &head.root);
}

/* The way that ledger/offline/import.h describes. */
static void second_take(struct second *s, struct led_work *w)
{
    struct led_work *out[2 * LED_WINDOW_MAX];
    uint64_t seqs[J_BATCH + 2];
    struct led_candidates candidates = {seqs, 0};
    struct led_commit_done done;

    second_head(s);
    for (size_t i = 0; i < w->batch.count; i++) {
        if (w->batch.entries[i].kind == LED_KIND_REVERSE) {
            assert_int_equal(led_seq_find(s->seq, w->preps[i].ref, &seqs[candidates.count++]),
                             LED_KNOWN_COMMITTED);
        }
    }
    assert_int_equal(led_read_originals(s->reader, w, candidates, NULL), RON_OK);
    assert_int_equal(led_seq_window(s->seq, &w, 1, w->now_ms, 1, out), 1);
    if (out[0]->fate != LED_FATE_COMMIT) {
        fail_msg("%s: %s", out[0]->refusals.items[0].member, out[0]->refusals.items[0].detail);
    }
    assert_int_equal(led_commit_group(s->commit, out, 1, &done, NULL), RON_OK);
    led_seq_committed(s->seq, 1);
}

static void never_done(struct led_work *w)
{
    (void)w;
}

/* Imports the text in pieces. */
static void import_all(struct second *s, size_t piece)
{
    static const uint8_t key[16];
    struct led_import *imp = NULL;
    struct led_import_end end;
    struct led_log_head head;
    enum led_import_step step = LED_IMPORT_MORE;
    size_t at = 0;

    assert_int_equal(led_import_new(key, &imp), RON_OK);
    while (step != LED_IMPORT_END) {
        struct led_work w = {.done = never_done};
        struct ron_err err = {0};
        size_t need = led_import_arena_size(imp);

        if (need == 0) {
            size_t len = RON_MIN(piece, text_len - at);

            assert_true(len > 0);
            assert_int_equal(led_import_push(imp, text + at, len, NULL), RON_OK);
            at += len;
            continue;
        }
        assert_int_equal(ron_arena_init(&w.arena, need), RON_OK);
        if (led_import_next(imp, &w, &step, &err) != RON_OK) {
            fail_msg("%s", err.msg);
        }
        if (step == LED_IMPORT_WORK) {
            second_take(s, &w);
        }
        ron_arena_done(&w.arena);
    }
    assert_int_equal(at, text_len);
    assert_int_equal(led_import_end(imp, &end, NULL), RON_OK);
    led_log_head(s->log, &head);
    assert_int_equal(end.seq_last, head.last_seq);
    assert_memory_equal(end.root.bytes, head.root.bytes, sizeof head.root.bytes);
    led_import_free(imp);
}

/* Removes what an import cannot keep: when it was committed, that it was imported, whose it is. */
static size_t strip(char *bytes, size_t len)
{
    size_t out = 0;

    for (size_t i = 0; i < len;) {
        static const char *const words[] = {",\"commit_ts\":", ",\"imported\":", "\"uuid\":"};
        size_t skip = 0;

        for (size_t k = 0; k < RON_ARRAY_LEN(words); k++) {
            size_t n = strlen(words[k]);

            if (len - i > n && memcmp(bytes + i, words[k], n) == 0) {
                skip = n + strcspn(bytes + i + n, ",}");
            }
        }
        if (skip > 0) {
            i += skip;
        } else {
            bytes[out++] = bytes[i++];
        }
    }
    return out;
}

static void test_led_export__imported__same_root_and_same_export(void **state)
{
    static const size_t pieces[] = {97, LED_EXPORT_PIECE, TEXT_MAX};
    char *again = ron_alloc(TEXT_MAX);
    char *before = ron_alloc(TEXT_MAX);
    uint8_t digest[32];
    uint8_t ours[32];
    size_t before_len;

    (void)state;
    assert_true(again != NULL && before != NULL);
    memcpy(before, text, text_len);
    before[text_len] = '\0';
    before_len = strip(before, text_len);
    for (size_t i = 0; i < RON_ARRAY_LEN(pieces); i++) {
        struct second s = {0};
        char name[16];
        size_t len;

        (void)snprintf(name, sizeof name, "log-%zu", i);
        second_open(&s, fixture_path(f, name));
        import_all(&s, pieces[i]);
        second_head(&s);
        len = export_into(s.reader, (struct led_export_opts){0}, LED_EXPORT_PIECE, again);
        assert_true(count_of(again, len, ",\"imported\":true") > 0);
        again[len] = '\0';
        len = strip(again, len);
        assert_int_equal(len, before_len);
        assert_memory_equal(again, before, len);
        led_book_digest(led_seq_book(s.seq), digest);
        led_book_digest(j->book, ours);
        assert_memory_equal(digest, ours, sizeof digest);
        second_close(&s);
    }
    ron_free(again);
    ron_free(before);
}

/* ---- bad files ------------------------------------------------------------------------------- */

/* Reads a whole text; the code and message of the first failure. */
static enum ron_rc read_all(const char *bytes, size_t len, struct ron_err *err)
{
    static const uint8_t key[16];
    struct led_import *imp = NULL;
    struct led_import_end end;
    enum ron_rc rc;

    assert_int_equal(led_import_new(key, &imp), RON_OK);
    rc = led_import_push(imp, bytes, len, err);
    while (rc == RON_OK && led_import_arena_size(imp) > 0) {
        enum led_import_step step;
        struct led_work w = {0};

        assert_int_equal(ron_arena_init(&w.arena, led_import_arena_size(imp)), RON_OK);
        rc = led_import_next(imp, &w, &step, err);
        ron_arena_done(&w.arena);
    }
    if (rc == RON_OK) {
        rc = led_import_end(imp, &end, err);
    } else {
        enum led_import_step step;
        struct led_work w = {0};

        assert_int_equal(led_import_next(imp, &w, &step, NULL), RON_INVALID);
        assert_int_equal(led_import_end(imp, &end, NULL), RON_NOTFOUND);
    }
    led_import_free(imp);
    return rc;
}

#define HEAD "{\"type\":\"ledger\",\"version\":1,\"uuid\":\"00\",\"from\":1,\"to\":1}\n"
#define ENTRY                                                                                      \
    "{\"id\":\"i\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"a\",\"amount\":\"1\",\"nonce\":"       \
    "\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"kid\":\"k\",\"capability_ref\":\"c\"}"
#define EXPIRE                                                                                     \
    "{\"id\":\"i\",\"ts\":1,\"kind\":\"Expire\",\"account\":\"a\",\"amount\":\"1\",\"nonce\":"     \
    "\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"ref\":\"h\",\"kid\":\"k\",\"capability_ref\":\"c\"}"
#define BATCH(seq, more, entry)                                                                    \
    "{\"type\":\"batch\",\"seq\":" #seq ",\"ts\":5,\"commit_ts\":6," more "\"batch\":[" entry "]}" \
    "\n"
#define CANCEL "{\"type\":\"cancel\",\"seq\":2,\"ts\":5,\"commit_ts\":6,\"idem_id\":\"x\"}\n"
#define ROOT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define END(seq, batches, entries, cancels)                                                        \
    "{\"type\":\"end\",\"seq\":" #seq ",\"root\":\"" ROOT "\",\"batches\":" #batches               \
    ",\"entries\":" #entries ",\"cancels\":" #cancels "}\n"

static void test_led_import__whole_files__read(void **state)
{
    static const char *const good[] = {
        HEAD BATCH(1, "", ENTRY) END(1, 1, 1, 0),
        HEAD BATCH(1, "\"idem_id\":\"q\",\"imported\":true,", ENTRY) CANCEL END(1, 1, 1, 1),
        HEAD BATCH(1, "\"own\":true,", EXPIRE) END(1, 1, 1, 0),
        /* Members in another order and with spaces, as another program might write them. */
        HEAD "{\"batch\" : [ " ENTRY " ] , \"idem_id\":\"q\",\"ts\":5,\"seq\":1,"
             "\"commit_ts\":6,\"type\":\"batch\"}\n" END(1, 1, 1, 0),
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        struct ron_err err = {0};

        if (read_all(good[i], strlen(good[i]), &err) != RON_OK) {
            fail_msg("%zu: %s", i, err.msg);
        }
    }
}

static void test_led_import__bad_files__refused_with_their_line(void **state)
{
    static const struct {
        const char *file, *message;
    } bad[] = {
        {BATCH(1, "", ENTRY), "line 1: no head"},
        {"junk\n", "line 1: an object is expected"},
        {"\n", "line 1: an object is expected"},
        {"[]\n", "line 1: an object is expected"},
        {HEAD HEAD, "line 2: type"},
        {"{\"type\":\"ledger\",\"version\":2,\"uuid\":\"00\",\"from\":1,\"to\":1}\n",
         "line 1: version"},
        {"{\"type\":\"ledger\",\"version\":1,\"uuid\":\"00\",\"from\":2,\"to\":1}\n",
         "line 1: from"},
        {"{\"type\":\"ledger\",\"version\":1,\"from\":1,\"to\":1}\n", "line 1: no head"},
        {HEAD BATCH(2, "", ENTRY), "line 2: seq"},
        {HEAD BATCH(1, "", ENTRY) BATCH(1, "", ENTRY), "line 3: seq"},
        {HEAD BATCH(1, "\"root\":\"x\",", ENTRY), "line 2: a member"},
        {HEAD BATCH(1, "\"idem_id\":\"\",", ENTRY), "line 2: idem_id"},
        {HEAD BATCH(1, "\"color\":1,", ENTRY), "line 2: color"},
        {HEAD BATCH(1, "", EXPIRE), "line 2: entry 0: kind"},
        {HEAD BATCH(1, "", ENTRY ",{}"), "line 2: entry 1: "},
        {HEAD BATCH(1, "", ""), "line 2: entry 0: batch"},
        {HEAD "{\"type\":\"batch\",\"seq\":1,\"ts\":5,\"commit_ts\":6,\"batch\":7}\n",
         "line 2: entry 0: batch"},
        {HEAD "{\"type\":\"cancel\",\"seq\":1,\"ts\":5,\"commit_ts\":6}\n", "line 2: a member"},
        {HEAD BATCH(1, "", ENTRY) END(1, 1, 2, 0), "line 3: the end"},
        {HEAD BATCH(1, "", ENTRY) END(1, 1, 1, 1), "line 3: the end"},
        {HEAD BATCH(1, "", ENTRY) END(2, 1, 1, 0), "line 3: the end"},
        {HEAD END(0, 0, 0, 0), "line 2: the end"},
        {HEAD BATCH(1, "", ENTRY) END(1, 1, 1, 0) CANCEL, "line 4: something follows"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_err err = {0};

        assert_int_equal(read_all(bad[i].file, strlen(bad[i].file), &err), RON_INVALID);
        if (strncmp(err.msg, bad[i].message, strlen(bad[i].message)) != 0) {
            fail_msg("%zu: %s, not %s", i, err.msg, bad[i].message);
        }
    }
}

static void test_led_import__cut_anywhere__never_whole(void **state)
{
    static const char file[] = HEAD BATCH(1, "", ENTRY) CANCEL END(1, 1, 1, 1);

    (void)state;
    for (size_t len = 0; len + 1 < sizeof file; len++) {
        assert_int_equal(read_all(file, len, NULL), RON_NOTFOUND);
    }
    assert_int_equal(read_all(file, sizeof file - 1, NULL), RON_OK);
}

static void test_led_import__line_too_long__limit(void **state)
{
    static const uint8_t key[16];
    struct led_import *imp = NULL;
    enum ron_rc rc = RON_OK;
    size_t pushed = 0;

    (void)state;
    assert_int_equal(led_import_new(key, &imp), RON_OK);
    memset(text, ' ', 1 << 20);
    while (rc == RON_OK) {
        rc = led_import_push(imp, text, 1 << 20, NULL);
        pushed++;
    }
    assert_int_equal(rc, RON_LIMIT);
    assert_int_equal(pushed, 18);
    led_import_free(imp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_export__pieces_of_any_size__same_text),
        cmocka_unit_test(test_led_export__ndjson__one_line_for_each_record),
        cmocka_unit_test(test_led_export__range__whole_batches_that_begin_in_it),
        cmocka_unit_test(test_led_export__imported__same_root_and_same_export),
        cmocka_unit_test(test_led_export__later_commits__not_in_it),
        cmocka_unit_test(test_led_export__names__as_documented),
        cmocka_unit_test(test_led_import__whole_files__read),
        cmocka_unit_test(test_led_import__bad_files__refused_with_their_line),
        cmocka_unit_test(test_led_import__cut_anywhere__never_whole),
        cmocka_unit_test(test_led_import__line_too_long__limit),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
