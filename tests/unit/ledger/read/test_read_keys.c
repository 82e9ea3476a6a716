/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a key that is in the journal leads to its batch or tombstone, and to nothing else: equal
 * batches get the original outcome, other bodies are refused, new keys go on.
 * Method: random journals (journal.h). Each of their batches is sent again, unchanged and changed,
 * found through the index and through the sequencer's hint. */
#include "unit/ledger/journal.h"

#include "ron/base/str.h"

enum { ENTRIES = 500, ARENA = 1 << 20 };

static struct journal *j;
static struct led_reader *r;
static const struct led_candidates none;

static int setup(void **state)
{
    if (j_setup(state, ENTRIES, &j) != 0) {
        return -1;
    }
    r = j_reader(j, true, 0, NULL);
    return 0;
}

static int teardown(void **state)
{
    led_reader_free(r);
    return j_teardown(state, j);
}

/* ---- works ----------------------------------------------------------------------------------- */

/* A work with the entries of a record. */
static struct led_work *work_of(const struct j_record *record)
{
    struct led_work *w = ron_alloc_zero(sizeof *w);
    size_t count = record->count;

    assert_non_null(w);
    assert_int_equal(ron_arena_init(&w->arena, ARENA), RON_OK);
    w->kind = count == 0 ? LED_WORK_CANCEL : LED_WORK_INGEST;
    w->batch.count = count;
    w->batch.idem_id = j_str(record->idem_id);
    w->batch.entries = ron_arena_alloc_array(&w->arena, count, sizeof *w->batch.entries, 16);
    w->leaves = ron_arena_alloc_array(&w->arena, count, sizeof *w->leaves, 16);
    for (size_t i = 0; i < count; i++) {
        w->batch.entries[i] = j_at(j, record->seq_first + i)->e;
    }
    return w;
}

static void encode(struct led_work *w)
{
    for (size_t i = 0; i < w->batch.count; i++) {
        size_t len = led_entry_size(&w->batch.entries[i]);
        uint8_t *leaf = ron_arena_alloc(&w->arena, len, 1);

        assert_non_null(leaf);
        RON_IGNORE(led_entry_encode(&w->batch.entries[i], leaf));
        w->leaves[i] = (struct ron_str){(const char *)leaf, len};
    }
}

static enum led_repeat ask(struct led_work *w)
{
    enum led_repeat repeat = LED_REPEAT_NEW;

    encode(w);
    assert_int_equal(led_read_repeat(r, w, &repeat, NULL), RON_OK);
    return repeat;
}

static void free_work(struct led_work *w)
{
    ron_arena_done(&w->arena);
    ron_free(w);
}

static struct ron_tree_hash root_at(uint64_t size)
{
    struct ron_tree_hash root;

    assert_int_equal(ron_tree_root_at(&j->store, size, &root, NULL), RON_OK);
    return root;
}

static void check_original(const struct led_work *w, const struct j_record *record)
{
    uint64_t last = record->seq_first + record->count - 1;
    struct ron_tree_hash root = root_at(last);
    struct led_found found;

    assert_int_equal(w->result, LED_RESULT_COMMITTED);
    assert_true(w->replayed);
    assert_int_equal(w->seq_first, record->seq_first);
    assert_int_equal(w->seq_last, last);
    assert_memory_equal(w->root.bytes, root.bytes, sizeof root.bytes);
    assert_int_equal(led_read_at(r, last, &found, NULL), RON_OK);
    assert_int_equal(w->commit_ms, found.frame.time_ms);
}

static void check_refused(const struct led_work *w, enum led_reason reason, uint32_t idx)
{
    struct ron_tree_hash head = j_root(j);

    assert_int_equal(w->result, LED_RESULT_REFUSED);
    assert_int_equal(w->refusals.count, 1);
    assert_int_equal(w->refusals.items[0].reason, reason);
    assert_int_equal(w->refusals.items[0].idx, idx);
    assert_memory_equal(w->root.bytes, head.bytes, sizeof head.bytes);
}

/* Where the sequencer would have seen a key of the record; 0 when the index is to be asked. */
static uint64_t hint(const struct j_record *record, bool hinted)
{
    return hinted ? record->seq_first : 0;
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static void test_led_read__same_batch_again__original_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * j->record_count; i++) {
        const struct j_record *record = &j->records[i / 2];
        struct led_work *w = work_of(record);

        w->found_seq = hint(record, i % 2 == 1);
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        if (record->count > 0) {
            check_original(w, record);
        } else {
            assert_int_equal(w->result, LED_RESULT_CANCELLED);
            assert_true(w->replayed);
        }
        free_work(w);
    }
}

static void test_led_read__same_keys_other_body__mismatch(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * j->record_count; i++) {
        const struct j_record *record = &j->records[i / 2];
        bool keyed = record->idem_id[0] != '\0';
        struct led_work *w;

        if (record->count == 0) {
            continue;
        }
        w = work_of(record);
        w->found_seq = hint(record, i % 2 == 1);
        w->batch.entries[record->count - 1].amount.v++;
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        check_refused(w, LED_REASON_IDEM_MISMATCH, 0);
        assert_string_equal(w->refusals.items[0].member, keyed ? "idem_id" : "id");
        free_work(w);
    }
}

static void test_led_read__fewer_or_more_entries__mismatch(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < j->record_count; i++) {
        const struct j_record *record = &j->records[i];
        struct led_work *w;

        if (record->count < 2) {
            continue;
        }
        w = work_of(record);
        w->batch.count--;
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        check_refused(w, LED_REASON_IDEM_MISMATCH, 0);
        free_work(w);
        /* The middle of a batch, without its first entry. */
        w = work_of(
            &(struct j_record){.seq_first = record->seq_first + 1, .count = record->count - 1});
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        check_refused(w, LED_REASON_IDEM_MISMATCH, 0);
        free_work(w);
    }
}

static void test_led_read__known_id_behind_new_ones__refused_at_its_index(void **state)
{
    struct j_record record = {.seq_first = 3, .count = 3};
    struct led_work *w = work_of(&record);

    (void)state;
    w->batch.entries[0].id = j_str("new-1");
    w->batch.entries[1].id = j_str("new-2");
    assert_int_equal(ask(w), LED_REPEAT_DONE);
    check_refused(w, LED_REASON_IDEM_MISMATCH, 2);
    free_work(w);
}

static void test_led_read__same_entries_other_idem_id__mismatch(void **state)
{
    (void)state;
    for (size_t i = 0; i < j->record_count; i++) {
        struct j_record record = j->records[i];
        struct led_work *w;

        if (record.count == 0) {
            continue;
        }
        (void)snprintf(record.idem_id, sizeof record.idem_id, "other-%zu", i);
        w = work_of(&record);
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        check_refused(w, LED_REASON_IDEM_MISMATCH, 0);
        assert_string_equal(w->refusals.items[0].member, "idem_id");
        free_work(w);
    }
}

static void test_led_read__new_keys__go_on(void **state)
{
    struct j_record record = {.seq_first = 3, .count = 3, .idem_id = "never-seen"};
    struct led_work *w = work_of(&record);

    (void)state;
    w->batch.entries[0].id = j_str("new-1");
    w->batch.entries[1].id = j_str("new-2");
    w->batch.entries[2].id = j_str("new-3");
    assert_int_equal(ask(w), LED_REPEAT_NEW);
    assert_int_equal(w->checked_seq, j->seq);
    assert_int_equal(w->result, LED_RESULT_NONE);
    /* A hint that the journal does not bear out, as of two ids with one hash. */
    w->checked_seq = 5;
    w->found_seq = 20;
    assert_int_equal(ask(w), LED_REPEAT_NEW);
    assert_int_equal(w->checked_seq, 20);
    free_work(w);
}

static void test_led_read__hint_beyond_head__try_again(void **state)
{
    struct j_record record = {.seq_first = 3, .count = 1};
    struct led_work *w = work_of(&record);
    enum led_repeat repeat = LED_REPEAT_NEW;

    (void)state;
    encode(w);
    w->found_seq = j->seq + 1;
    assert_int_equal(led_read_repeat(r, w, &repeat, NULL), RON_AGAIN);
    w->found_seq = j->seq + 100;
    assert_int_equal(led_read_repeat(r, w, &repeat, NULL), RON_AGAIN);
    assert_int_equal(w->checked_seq, 0);
    free_work(w);
}

static void test_led_read__cancelled_and_committed_keys__conflict(void **state)
{
    size_t cancelled = 0;

    (void)state;
    for (size_t i = 0; i < 2 * j->record_count; i++) {
        const struct j_record *record = &j->records[i / 2];
        struct j_record other = {.seq_first = 3, .count = 1};
        struct led_work *w;

        if (record->idem_id[0] == '\0') {
            continue;
        }
        memcpy(other.idem_id, record->idem_id, sizeof other.idem_id);
        other.count = record->count == 0 ? 1 : 0;
        w = work_of(&other);
        w->found_seq = hint(record, i % 2 == 1);
        if (other.count > 0) {
            w->batch.entries[0].id = j_str("a new one");
        }
        assert_int_equal(ask(w), LED_REPEAT_DONE);
        check_refused(w, LED_REASON_CONFLICT, 0);
        assert_string_equal(w->refusals.items[0].member, "idem_id");
        free_work(w);
        cancelled += record->count == 0;
    }
    assert_true(cancelled > 0);
}

/* ---- originals, outcomes --------------------------------------------------------------------- */

static void test_led_read__reversals__originals_in_the_arena(void **state)
{
    size_t reversals = 0;

    (void)state;
    for (size_t i = 0; i < j->record_count; i++) {
        const struct j_record *record = &j->records[i];
        struct led_work *w = work_of(record);
        bool any = false;

        assert_int_equal(led_read_originals(r, w, none, NULL), RON_OK);
        for (size_t k = 0; k < record->count; k++) {
            const struct j_entry *n = j_at(j, record->seq_first + k);
            const struct led_entry *original = w->originals != NULL ? w->originals[k] : NULL;

            if (n->e.kind != LED_KIND_REVERSE) {
                assert_null(original);
                continue;
            }
            any = true;
            assert_non_null(original);
            j_check_str(original->id, n->ref);
            assert_int_equal(original->kind, n->undone_kind);
            support_assert_u128_equal(original->amount.v, j_original(j, n)->e.amount.v);
            reversals++;
        }
        assert_true(any == (w->originals != NULL));
        free_work(w);
    }
    assert_true(reversals > 3);
}

/* Without an index: what is found is found by the candidates of the work. */
static void test_led_read__reversals_of_recent_entries__each_by_its_candidates(void **state)
{
    enum { COUNT = 40 };
    struct j_record record = {.seq_first = 1, .count = COUNT};
    struct led_work *w = work_of(&record);
    struct led_candidates refs[COUNT] = {0};
    uint64_t seqs[COUNT][2];
    struct led_reader *blind = j_reader(j, false, 0, NULL);

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        w->batch.entries[i].kind = LED_KIND_REVERSE;
        w->batch.entries[i].ref = j_at(j, 1 + i)->e.id;
        seqs[i][0] = COUNT + 1; /* another key of the same hash */
        seqs[i][1] = 1 + i;
        refs[i] = (struct led_candidates){seqs[i], 2};
    }
    refs[COUNT - 1].count = 1;
    w->refs = refs;
    assert_int_equal(led_read_originals(blind, w, none, NULL), RON_OK);
    for (size_t i = 0; i + 1 < COUNT; i++) {
        assert_non_null(w->originals[i]);
        assert_true(ron_str_equal(w->originals[i]->id, w->batch.entries[i].ref));
    }
    assert_null(w->originals[COUNT - 1]);
    free_work(w);
    led_reader_free(blind);
}

static void test_led_read__original_that_is_not_there__left_to_the_book(void **state)
{
    struct j_record record = {.seq_first = 3, .count = 2};
    struct led_work *w = work_of(&record);

    (void)state;
    w->batch.entries[1].kind = LED_KIND_REVERSE;
    w->batch.entries[1].ref = j_str("nobody");
    assert_int_equal(led_read_originals(r, w, none, NULL), RON_OK);
    assert_non_null(w->originals);
    assert_null(w->originals[1]);
    free_work(w);
}

static void test_led_read__outcomes__committed_cancelled_unknown(void **state)
{
    struct led_key_outcome outcome;
    struct ron_buf out;

    (void)state;
    for (size_t i = 0; i < 2 * j->record_count; i++) {
        const struct j_record *record = &j->records[i / 2];
        uint64_t seq = record->seq_first;
        struct led_reader *blind = j_reader(j, false, 0, NULL);
        struct led_candidates hinted = {&seq, 1};
        bool by_index = i % 2 == 0;

        if (record->idem_id[0] != '\0') {
            struct ron_tree_hash root =
                record->count > 0 ? root_at(seq + record->count - 1) : (struct ron_tree_hash){0};

            assert_int_equal(led_read_outcome(by_index ? r : blind, j_str(record->idem_id),
                                              by_index ? none : hinted, &outcome, NULL),
                             RON_OK);
            assert_int_equal(outcome.state,
                             record->count > 0 ? LED_KEY_COMMITTED : LED_KEY_CANCELLED);
            assert_int_equal(outcome.seq_first, record->count > 0 ? seq : 0);
            assert_int_equal(outcome.seq_last, record->count > 0 ? seq + record->count - 1 : 0);
            assert_memory_equal(outcome.root.bytes, root.bytes, sizeof root.bytes);
            assert_true(outcome.time_ms > record->now_ms);
        }
        led_reader_free(blind);
    }
    assert_int_equal(led_read_outcome(r, j_str("never-seen"), none, &outcome, NULL), RON_OK);
    assert_int_equal(outcome.state, LED_KEY_UNKNOWN);
    assert_int_equal(led_read_outcome(r, j_str(""), none, &outcome, NULL), RON_INVALID);
    ron_buf_init(&out, 1000);
    led_key_outcome_to_json(&out, j_str("x\""), &outcome);
    assert_string_equal(ron_buf_text(&out), "{\"idem_id\":\"x\\\"\",\"outcome\":\"unknown\"}");
    ron_buf_clear(&out);
    outcome = (struct led_key_outcome){LED_KEY_COMMITTED, 3, 4, 5, {{0xab}}};
    led_key_outcome_to_json(&out, j_str("x"), &outcome);
    assert_string_equal(
        ron_buf_text(&out),
        "{\"idem_id\":\"x\",\"outcome\":\"committed\",\"seq_start\":3,\"seq_end\":4,\"new_root\":"
        "\"ab00000000000000000000000000000000000000000000000000000000000000\",\"ts\":5}");
    ron_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_read__same_batch_again__original_outcome),
        cmocka_unit_test(test_led_read__same_keys_other_body__mismatch),
        cmocka_unit_test(test_led_read__fewer_or_more_entries__mismatch),
        cmocka_unit_test(test_led_read__known_id_behind_new_ones__refused_at_its_index),
        cmocka_unit_test(test_led_read__same_entries_other_idem_id__mismatch),
        cmocka_unit_test(test_led_read__new_keys__go_on),
        cmocka_unit_test(test_led_read__hint_beyond_head__try_again),
        cmocka_unit_test(test_led_read__cancelled_and_committed_keys__conflict),
        cmocka_unit_test(test_led_read__reversals__originals_in_the_arena),
        cmocka_unit_test(test_led_read__reversals_of_recent_entries__each_by_its_candidates),
        cmocka_unit_test(test_led_read__original_that_is_not_there__left_to_the_book),
        cmocka_unit_test(test_led_read__outcomes__committed_cancelled_unknown),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
