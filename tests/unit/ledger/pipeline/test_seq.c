/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the sequencer orders windows, gives out seqs without a gap, applies nothing twice although
 * the index lags, keeps works in order when there is no room, and takes everything back on abort.
 * Method: works by hand against one sequencer without the other stages; the test says when the
 * committer and the index have done their part. */
#include "unit/ledger/works.h"

#include "ledger/pipeline/recent.h"

static struct led_seq *seq;
static struct led_work *out[2 * LED_WINDOW_MAX];
static size_t out_count;
static uint32_t room;

static void start(uint32_t kept_max, uint32_t undo_max)
{
    struct led_book_opts book_opts = {.batch_max = 64, .undo_max = undo_max};
    struct led_seq_opts opts = {.kept_max = kept_max, .own_work = works_new};

    works_begin();
    memcpy(book_opts.hash_key, works.hash_key, sizeof works.hash_key);
    memcpy(opts.hash_key, works.hash_key, sizeof works.hash_key);
    assert_int_equal(led_book_new(&book_opts, &opts.take_book), RON_OK);
    assert_int_equal(led_seq_new(&opts, &seq), RON_OK);
    room = 1000;
}

static int setup(void **state)
{
    (void)state;
    start(0, 4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    led_seq_free(seq);
    seq = NULL;
    works_drop();
    return 0;
}

static size_t window(struct led_work **list, size_t count)
{
    out_count = led_seq_window(seq, list, count, works.now_ms, room, out);
    return out_count;
}

static void one(struct led_work *w, enum led_fate fate)
{
    window(&w, 1);
    assert_int_equal(w->fate, fate);
}

/* Commits all that the last window gave out. */
static void commit(void)
{
    size_t count = 0;

    for (size_t i = 0; i < out_count; i++) {
        count += out[i]->fate == LED_FATE_COMMIT;
    }
    led_seq_committed(seq, count);
}

static struct led_work *commit_one(struct led_work *w)
{
    one(w, LED_FATE_COMMIT);
    commit();
    return w;
}

static uint64_t balance(const char *account, enum led_view view)
{
    struct led_balance b = {0};

    (void)led_book_balance(led_seq_book(seq), works_str(account), works_str("roc"), view, &b);
    return (uint64_t)b.available.v;
}

/* ---- order and seqs -------------------------------------------------------------------------- */

static void test_led_seq__works_of_a_window__sorted_by_time_then_id(void **state)
{
    struct led_work *list[5];
    static const char *const expected[] = {"a", "aaaaaaaab", "aaaaaaaac", "b", "z"};

    (void)state;
    list[0] = works_one("b", LED_KIND_MINT, "x", "", 1);
    list[1] = works_one("aaaaaaaac", LED_KIND_MINT, "x", "", 1);
    list[2] = works_one("aaaaaaaab", LED_KIND_MINT, "x", "", 1);
    list[3] = works_one("a", LED_KIND_MINT, "x", "", 1);
    works.now_ms++;
    list[4] = works_one("z", LED_KIND_MINT, "x", "", 1);
    {
        struct led_work *shuffled[] = {list[4], list[0], list[1], list[2], list[3]};

        assert_int_equal(window(shuffled, 5), 5);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(out[i]->fate, LED_FATE_COMMIT);
        assert_int_equal(out[i]->seq_first, i + 1);
        assert_int_equal(out[i]->now_ms, works.now_ms);
        assert_memory_equal(out[i]->batch.entries[0].id.ptr, expected[i], strlen(expected[i]));
    }
    assert_int_equal(led_seq_last(seq), 5);
    assert_int_equal(led_seq_durable(seq), 0);
}

static void test_led_seq__refused_between_accepted__no_gap_and_nothing_changed(void **state)
{
    struct led_entry pair[2] = {works_entry(LED_KIND_MINT, "a", "", 5),
                                works_entry(LED_KIND_TRANSFER, "a", "b", 99)};
    struct led_work *refused;

    (void)state;
    commit_one(works_mint("a", 10));
    refused = works_batch("k", pair, 2);
    one(refused, LED_FATE_DONE);
    assert_int_equal(refused->result, LED_RESULT_REFUSED);
    assert_int_equal(refused->refusals.count, 1);
    assert_int_equal(refused->refusals.items[0].reason, LED_REASON_INSUFFICIENT_FUNDS);
    assert_int_equal(refused->refusals.items[0].idx, 1);
    assert_int_equal(balance("a", LED_PROJECTED), 10);
    /* Its key was not used up. */
    pair[1].amount = ron_money_of(1);
    pair[0].nonce[15] = 1;
    pair[1].nonce[15] = 1;
    assert_int_equal(commit_one(works_batch("k", pair, 2))->seq_first, 2);
    assert_int_equal(led_seq_durable(seq), 3);
    assert_int_equal(balance("a", LED_COMMITTED), 14);
}

static void test_led_seq__dry_run__decided_without_seq_or_effect(void **state)
{
    struct led_work *w = works_mint("a", 10);

    (void)state;
    room = 0;
    w->flags |= LED_APPLY_DRY_RUN;
    one(w, LED_FATE_DONE);
    assert_int_equal(w->result, LED_RESULT_DRY_RUN);
    assert_int_equal(w->seq_first, 0);
    assert_int_equal(led_seq_last(seq), 0);
    room = 1;
    commit_one(works_again(w, NULL));
    assert_int_equal(balance("a", LED_COMMITTED), 10);
}

static void test_led_seq__clock_that_goes_back__time_of_windows_does_not(void **state)
{
    struct led_work *w = works_mint("a", 1);

    (void)state;
    one(works_mint("a", 1), LED_FATE_COMMIT);
    works.now_ms -= 1000;
    one(w, LED_FATE_COMMIT);
    assert_int_equal(w->now_ms, WORKS_NOW);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void test_led_seq__repetition_of_a_durable_batch__looked_up_at_its_seq(void **state)
{
    struct led_entry pair[2] = {works_entry(LED_KIND_MINT, "a", "", 5),
                                works_entry(LED_KIND_MINT, "a", "", 6)};
    struct led_work *first = works_batch("k", pair, 2);
    struct led_work *again;
    uint64_t found = 0;

    (void)state;
    commit_one(works_mint("x", 1));
    commit_one(first);
    again = works_again(first, "k");
    one(again, LED_FATE_LOOK_UP);
    assert_int_equal(again->found_seq, 2);
    /* By its second id alone, and by its idem_id alone. */
    again = works_batch(NULL, &first->batch.entries[1], 1);
    one(again, LED_FATE_LOOK_UP);
    assert_int_equal(again->found_seq, 3);
    pair[0] = works_entry(LED_KIND_MINT, "a", "", 5);
    again = works_batch("k", pair, 1);
    one(again, LED_FATE_LOOK_UP);
    assert_int_equal(again->found_seq, 2);
    assert_int_equal(led_seq_find(seq, first->idem, &found), LED_KNOWN_COMMITTED);
    assert_int_equal(found, 2);
    assert_int_equal(led_seq_candidates(seq, first->preps[1].id, &found, 1), 1);
    assert_int_equal(found, 3);
    /* A reader that finds another id there lets the work go on. */
    again->checked_seq = again->found_seq;
    one(again, LED_FATE_COMMIT);
}

static void test_led_seq__repetition_while_in_flight__waits_then_looked_up(void **state)
{
    struct led_work *first = works_mint("a", 5);
    struct led_work *again;
    struct led_work *other;
    uint64_t found = 77;

    (void)state;
    one(first, LED_FATE_COMMIT);
    assert_int_equal(led_seq_find(seq, first->preps[0].id, &found), LED_KNOWN_IN_FLIGHT);
    assert_int_equal(found, 77);
    again = works_again(first, NULL);
    one(again, LED_FATE_KEPT);
    assert_int_equal(out_count, 0);
    other = works_mint("b", 1);
    one(other, LED_FATE_COMMIT); /* others are not held up */
    assert_int_equal(led_seq_waiting(seq), 1);
    led_seq_committed(seq, 1);
    assert_int_equal(window(NULL, 0), 1);
    assert_ptr_equal(out[0], again);
    assert_int_equal(again->fate, LED_FATE_LOOK_UP);
    assert_int_equal(again->found_seq, 1);
    assert_int_equal(led_seq_waiting(seq), 0);
}

static void test_led_seq__idem_and_id_with_one_spelling__both_pass(void **state)
{
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 5);

    (void)state;
    e.id = works_str("same");
    commit_one(works_batch("same", &e, 1));
    assert_int_equal(balance("a", LED_COMMITTED), 5);
}

static void test_led_seq__checked_before_what_is_recent__looked_up_in_the_index(void **state)
{
    struct led_entry list[64];
    struct led_work *w;
    uint64_t n = 0;

    (void)state;
    /* More keys than the spare generations hold. */
    while (n < (LED_RECENT_SPARE + 2) * (uint64_t)LED_RECENT_KEYS) {
        for (size_t i = 0; i < 64; i++) {
            list[i] = works_entry(LED_KIND_MINT, "a", "", 1);
        }
        works.checked_seq = n;
        w = commit_one(works_batch(NULL, list, 64));
        n += 64;
        assert_int_equal(w->seq_last, n);
        if (works.count == WORKS_MAX) {
            works_drop();
        }
    }
    works.checked_seq = 0;
    w = works_mint("a", 1);
    one(w, LED_FATE_COMMIT); /* nothing is forgotten before the index has it */
    led_seq_indexed(seq, n);
    w = works_mint("a", 1);
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 0);
    w->checked_seq = n;
    one(w, LED_FATE_COMMIT);
    assert_int_equal(led_seq_last(seq), n + 2);
}

/* ---- tombstones ------------------------------------------------------------------------------ */

static void test_led_seq__cancelled_key__never_commits(void **state)
{
    struct led_work *cancel = works_cancel("k");
    struct led_work *w;
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 5);

    (void)state;
    commit_one(works_mint("x", 1));
    works.checked_seq = 1; /* the index knows of seq 1, but of no tombstone behind it */
    one(cancel, LED_FATE_COMMIT);
    assert_int_equal(cancel->seq_first, 2);
    assert_int_equal(cancel->seq_last, 1);
    w = works_batch("k", &e, 1);
    one(w, LED_FATE_KEPT);
    led_seq_committed(seq, 1);
    assert_int_equal(led_seq_durable(seq), 1);
    assert_int_equal(window(NULL, 0), 1);
    assert_ptr_equal(out[0], w);
    assert_int_equal(w->fate, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 2);
    /* Cancelling again finds the tombstone, cancelling a committed key finds the batch. */
    w = works_cancel("k");
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 2);
    e = works_entry(LED_KIND_MINT, "a", "", 5);
    assert_int_equal(commit_one(works_batch("other", &e, 1))->seq_first, 2);
    w = works_cancel("other");
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 2);
}

static void test_led_seq__id_of_a_cancelled_key__new_once(void **state)
{
    struct led_work *w;

    (void)state;
    commit_one(works_mint("x", 1));
    works.checked_seq = 1;
    commit_one(works_cancel("k"));
    /* It takes the very seq at which the tombstone is remembered. */
    w = works_one("k", LED_KIND_MINT, "x", "", 1);
    one(w, LED_FATE_COMMIT);
    assert_int_equal(w->seq_first, 2);
    commit();
    w = works_one("k", LED_KIND_MINT, "x", "", 1);
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 2);
    /* As an idem_id it is cancelled all the same, also while an entry of that id is in flight. */
    works.checked_seq = 2;
    commit_one(works_cancel("j"));
    one(works_one("j", LED_KIND_MINT, "x", "", 1), LED_FATE_COMMIT);
    w = works_cancel("j");
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 3);
}

static void test_led_seq__remembered_tombstone_at_the_end__counts_as_durable(void **state)
{
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 5);
    struct led_work *w = works_batch("k", &e, 1);

    (void)state;
    assert_int_equal(led_seq_remember(seq, w->idem, 1, true), RON_OK);
    one(w, LED_FATE_LOOK_UP);
    assert_int_equal(w->found_seq, 1);
}

/* ---- candidates ------------------------------------------------------------------------------ */

enum { PAID = 20 };

static void test_led_seq__recent_refs__candidates_for_each_of_them(void **state)
{
    char ids[PAID][8];
    struct led_entry paid[PAID];
    struct led_entry undo[PAID];
    struct led_work *w;

    (void)state;
    for (size_t i = 0; i < PAID; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "p%zu", i);
        paid[i] = works_entry(LED_KIND_MINT, "a", "", 1);
        paid[i].id = works_str(ids[i]);
        undo[i] = works_entry(LED_KIND_REVERSE, "a", "", 1);
        undo[i].ref = works_str(ids[i]);
    }
    commit_one(works_batch("p7", paid, PAID)); /* one of the ids is its idem_id too */
    w = works_batch(NULL, undo, PAID);
    assert_int_equal(led_seq_find_refs(seq, w), RON_OK);
    for (size_t i = 0; i < PAID; i++) {
        assert_int_equal(w->refs[i].count, i == 7 ? 2 : 1);
        assert_int_equal(w->refs[i].seqs[w->refs[i].count - 1], i + 1);
    }
    w = works_mint("a", 1);
    assert_int_equal(led_seq_find_refs(seq, w), RON_OK);
    assert_int_equal(w->refs[0].count, 0);
}

static void test_led_seq__no_room_for_candidates__told(void **state)
{
    struct led_entry undo = works_entry(LED_KIND_REVERSE, "a", "", 1);
    struct led_work *w;

    (void)state;
    undo.ref = works_str("x");
    commit_one(works_one("x", LED_KIND_MINT, "a", "", 1));
    w = works_batch(NULL, &undo, 1);
    while (ron_arena_alloc(&w->arena, 8, 8) != NULL) {
    }
    assert_int_equal(led_seq_find_refs(seq, w), RON_LIMIT);
    assert_null(w->refs);
}

static void test_led_seq__key_seen_before_and_in_flight__both_are_told(void **state)
{
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 5);
    struct led_work *w = works_one("k", LED_KIND_MINT, "a", "", 1);
    struct led_key key = w->preps[0].id;
    uint64_t seqs[LED_SEQ_CANDIDATES_MAX];

    (void)state;
    commit_one(w);
    assert_false(led_seq_key_in_flight(seq, key));
    works.checked_seq = 1; /* a reader has found that the entry is another's */
    one(works_batch("k", &e, 1), LED_FATE_COMMIT);
    assert_true(led_seq_key_in_flight(seq, key));
    assert_int_equal(led_seq_candidates(seq, key, seqs, LED_SEQ_CANDIDATES_MAX), 1);
    assert_int_equal(seqs[0], 1);
    commit();
    assert_false(led_seq_key_in_flight(seq, key));
    assert_int_equal(led_seq_candidates(seq, key, seqs, LED_SEQ_CANDIDATES_MAX), 2);
}

/* ---- room ------------------------------------------------------------------------------------ */

static void test_led_seq__no_room__kept_in_order_and_not_overtaken(void **state)
{
    struct led_work *list[4];
    struct led_work *late;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        list[i] = works_mint("a", 1);
        works.now_ms++;
    }
    room = 2;
    assert_int_equal(window(list, 4), 2);
    works.now_ms -= 4; /* sorts before the others, but comes later */
    late = works_mint("a", 1);
    room = 0;
    assert_int_equal(window(&late, 1), 0);
    assert_int_equal(led_seq_waiting(seq), 3);
    room = 2;
    assert_int_equal(window(NULL, 0), 2);
    assert_ptr_equal(out[0], list[2]);
    assert_ptr_equal(out[1], list[3]);
    assert_int_equal(window(NULL, 0), 1);
    assert_ptr_equal(out[0], late);
    assert_int_equal(late->seq_first, 5);
}

static void test_led_seq__ring_of_the_book_full__kept_until_a_commit(void **state)
{
    struct led_entry list[60];
    struct led_work *w = NULL;
    struct led_work *small;
    size_t given = 0;

    (void)state;
    led_seq_free(seq);
    works_drop();
    start(0, 512);
    do {
        for (size_t i = 0; i < 60; i++) {
            list[i] = works_entry(LED_KIND_MINT, "a", "", 1);
        }
        w = works_batch(NULL, list, 60);
        window(&w, 1);
        given += out_count;
        assert_true(given < 100);
    } while (w->fate == LED_FATE_COMMIT);
    assert_int_equal(w->fate, LED_FATE_KEPT);
    assert_int_equal(window(NULL, 0), 0);
    small = works_mint("b", 1);
    one(small, LED_FATE_KEPT); /* it would fit, but does not overtake */
    led_seq_committed(seq, given);
    assert_int_equal(window(NULL, 0), 2);
    assert_ptr_equal(out[0], w);
    assert_int_equal(w->fate, LED_FATE_COMMIT);
    assert_ptr_equal(out[1], small);
}

static void test_led_seq__more_than_may_be_kept__refused_busy(void **state)
{
    struct led_work *list[3];

    (void)state;
    led_seq_free(seq);
    works_drop();
    start(2, 4096);
    for (size_t i = 0; i < 3; i++) {
        list[i] = works_mint("a", 1);
    }
    room = 0;
    assert_int_equal(window(list, 3), 1);
    assert_ptr_equal(out[0], list[2]);
    assert_int_equal(list[2]->fate, LED_FATE_DONE);
    assert_int_equal(list[2]->refusals.items[0].reason, LED_REASON_BUSY);
    led_seq_free(seq);
    seq = NULL;
    assert_int_equal(works.ended, 2); /* the kept ones */
    assert_int_equal(list[0]->refusals.items[0].reason, LED_REASON_DRAINING);
}

static void test_led_seq__batch_longer_than_the_book_takes__refused_too_large(void **state)
{
    struct led_entry list[65];
    struct led_work *w;

    (void)state;
    for (size_t i = 0; i < 65; i++) {
        list[i] = works_entry(LED_KIND_MINT, "a", "", 1);
    }
    w = works_batch(NULL, list, 65);
    one(w, LED_FATE_DONE);
    assert_int_equal(w->refusals.items[0].reason, LED_REASON_TOO_LARGE);
}

/* ---- expiry and abort ------------------------------------------------------------------------ */

static void test_led_seq__hold_whose_time_is_over__expires_before_the_window(void **state)
{
    struct led_entry hold;
    struct led_work *w;

    (void)state;
    commit_one(works_mint("a", 10));
    assert_int_equal(led_seq_next_expiry_ms(seq), UINT64_MAX);
    hold = works_entry(LED_KIND_HOLD, "a", "", 10);
    hold.expires_ms = works.now_ms + 50;
    commit_one(works_batch(NULL, &hold, 1));
    assert_int_equal(led_seq_next_expiry_ms(seq), hold.expires_ms);
    assert_int_equal(window(NULL, 0), 0);
    works.now_ms += 50;
    w = works_transfer("a", "b", 10); /* possible only after the expiry */
    room = 0;
    assert_int_equal(window(NULL, 0), 0);
    room = 2;
    assert_int_equal(window(&w, 1), 2);
    assert_int_equal(out[0]->kind, LED_WORK_EXPIRE);
    assert_int_equal(out[0]->fate, LED_FATE_COMMIT);
    assert_int_equal(out[0]->seq_first, 3);
    assert_int_equal(out[0]->batch.entries[0].kind, LED_KIND_EXPIRE);
    assert_int_equal(out[0]->links[0].account.available.v, 10);
    assert_ptr_equal(out[1], w);
    assert_int_equal(w->fate, LED_FATE_COMMIT);
    commit();
    assert_int_equal(balance("b", LED_COMMITTED), 10);
    assert_int_equal(led_seq_next_expiry_ms(seq), UINT64_MAX);
}

static void test_led_seq__arena_too_small_for_an_expiry__ends_it_and_goes_on(void **state)
{
    struct led_entry hold;
    struct led_work *w;

    (void)state;
    commit_one(works_mint("a", 10));
    hold = works_entry(LED_KIND_HOLD, "a", "", 10);
    hold.expires_ms = works.now_ms + 50;
    commit_one(works_batch(NULL, &hold, 1));
    works.now_ms += 50;
    w = works_mint("b", 1);
    works.arena_size = 64;
    assert_int_equal(window(&w, 1), 2);
    assert_int_equal(out[0]->fate, LED_FATE_DONE);
    assert_int_equal(out[0]->refusals.items[0].reason, LED_REASON_INTERNAL);
    assert_int_equal(w->fate, LED_FATE_COMMIT);
}

static void test_led_seq__expiry_that_is_refused__others_go_on_and_it_comes_again(void **state)
{
    struct led_entry hold;
    struct led_work *w;
    uint64_t first_ms;

    (void)state;
    commit_one(works_mint("a", 10));
    for (unsigned i = 0; i < 2; i++) {
        hold = works_entry(LED_KIND_HOLD, "a", "", 4);
        hold.expires_ms = works.now_ms + 1000 + i;
        commit_one(works_batch(NULL, &hold, 1));
    }
    w = works_mint("a", 1); /* as an import could once: with the nonce of the first expiry */
    memcpy(w->batch.entries[0].nonce, LED_OWN_NONCE, sizeof LED_OWN_NONCE);
    memcpy(w->batch.entries[0].nonce + sizeof LED_OWN_NONCE, "\0\0\0\0\0\0\0\2", 8);
    w->preps[0] = (struct led_prep){0};
    led_book_prepare(works.hash_key, &w->batch.entries[0], &w->preps[0]);
    commit_one(w);
    works.now_ms += 2000;
    first_ms = works.now_ms;
    assert_int_equal(window(NULL, 0), 2);
    assert_int_equal(out[0]->fate, LED_FATE_DONE);
    assert_int_equal(out[0]->refusals.items[0].reason, LED_REASON_IDEM_MISMATCH);
    assert_int_equal(out[1]->fate, LED_FATE_COMMIT);
    commit();
    assert_int_equal(balance("a", LED_COMMITTED), 7);
    assert_int_equal(led_seq_next_expiry_ms(seq), (first_ms + LED_EXPIRE_AGAIN_MS) / 1000 * 1000);
    assert_int_equal(window(NULL, 0), 0); /* it is not tried all the time */
    works.now_ms += LED_EXPIRE_AGAIN_MS;
    assert_int_equal(window(NULL, 0), 1);
    assert_int_equal(out[0]->fate, LED_FATE_DONE);
    works.now_ms += UINT64_C(3) * 24 * 3600 * 1000; /* the nonce is forgotten */
    assert_int_equal(window(NULL, 0), 1);
    assert_int_equal(out[0]->fate, LED_FATE_COMMIT);
    commit();
    assert_int_equal(balance("a", LED_COMMITTED), 11);
}

static void test_led_seq__abort__back_to_what_is_durable(void **state)
{
    struct led_work *lost;
    struct led_work *follower;
    struct led_work *cancel;
    struct led_work *old = works_cancel("old");
    struct led_entry e;
    uint64_t found;

    (void)state;
    commit_one(works_mint("a", 10));
    commit_one(old); /* durable, at seq 2 like the next one */
    cancel = works_cancel("k");
    one(cancel, LED_FATE_COMMIT);
    lost = works_transfer("a", "b", 4);
    one(lost, LED_FATE_COMMIT);
    follower = works_again(lost, NULL);
    one(follower, LED_FATE_KEPT);
    led_seq_abort(seq);
    assert_int_equal(follower->refusals.items[0].reason, LED_REASON_SAFE_MODE);
    assert_null(follower->reply);
    assert_non_null(lost->reply);
    assert_int_equal(led_seq_last(seq), 1);
    assert_int_equal(balance("a", LED_PROJECTED), 10);
    assert_int_equal(led_seq_find(seq, lost->preps[0].id, &found), LED_KNOWN_NOT);
    assert_int_equal(led_seq_find(seq, cancel->idem, &found), LED_KNOWN_NOT);
    assert_int_equal(led_seq_find(seq, old->idem, &found), LED_KNOWN_COMMITTED);
    assert_int_equal(found, 2);
    /* What was taken back may come again. */
    assert_int_equal(commit_one(works_again(lost, NULL))->seq_first, 2);
    e = works_entry(LED_KIND_MINT, "a", "", 5);
    assert_int_equal(commit_one(works_batch("k", &e, 1))->seq_first, 3);
    e = works_entry(LED_KIND_MINT, "a", "", 5);
    one(works_batch("old", &e, 1), LED_FATE_LOOK_UP);
}

/* Q5, and that windows of any size and room never give out more than allowed. */
static uint64_t run_random(uint64_t salt, uint64_t *ret_seqs)
{
    struct ron_rand rand = support_rand();
    uint64_t print = salt;
    uint64_t in_flight = 0;
    struct led_work *list[8];
    static const char *const names[] = {"a", "b", "c", "d"};

    room = 0;
    for (int round = 0; round < 400; round++) {
        size_t count = ron_rand_below(&rand, 9);

        for (size_t i = 0; i < count; i++) {
            uint64_t from = ron_rand_below(&rand, 4);

            works.now_ms = WORKS_NOW + ron_rand_below(&rand, 100);
            list[i] =
                ron_rand_below(&rand, 3) == 0
                    ? works_mint(names[from], 1 + ron_rand_below(&rand, 9))
                    : works_transfer(names[from], names[from ^ 1], 1 + ron_rand_below(&rand, 9));
        }
        works.now_ms = WORKS_NOW + 100;
        room = (uint32_t)ron_rand_below(&rand, 6);
        window(list, count);
        for (size_t i = 0, given = 0; i < out_count; i++) {
            if (out[i]->fate == LED_FATE_COMMIT) {
                assert_true(++given <= room);
                in_flight++;
                print = print * 31 + out[i]->seq_first * 7 + out[i]->links[0].account.prev_seq;
            }
        }
        if (ron_rand_below(&rand, 2) == 0) {
            led_seq_committed(seq, in_flight);
            in_flight = 0;
        }
    }
    *ret_seqs = led_seq_last(seq);
    return print;
}

static void test_led_seq__same_works_and_windows__same_seqs_and_links(void **state)
{
    uint64_t prints[2];
    uint64_t seqs[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        led_seq_free(seq);
        works_drop();
        start(0, 4096);
        prints[i] = run_random(1, &seqs[i]);
    }
    assert_int_equal(prints[0], prints[1]);
    assert_int_equal(seqs[0], seqs[1]);
    assert_true(seqs[0] > 100);
    assert_null(led_book_audit(led_seq_book(seq)));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_seq__works_of_a_window__sorted_by_time_then_id),
        CASE(test_led_seq__refused_between_accepted__no_gap_and_nothing_changed),
        CASE(test_led_seq__dry_run__decided_without_seq_or_effect),
        CASE(test_led_seq__clock_that_goes_back__time_of_windows_does_not),
        CASE(test_led_seq__repetition_of_a_durable_batch__looked_up_at_its_seq),
        CASE(test_led_seq__repetition_while_in_flight__waits_then_looked_up),
        CASE(test_led_seq__idem_and_id_with_one_spelling__both_pass),
        CASE(test_led_seq__checked_before_what_is_recent__looked_up_in_the_index),
        CASE(test_led_seq__cancelled_key__never_commits),
        CASE(test_led_seq__id_of_a_cancelled_key__new_once),
        CASE(test_led_seq__remembered_tombstone_at_the_end__counts_as_durable),
        CASE(test_led_seq__recent_refs__candidates_for_each_of_them),
        CASE(test_led_seq__no_room_for_candidates__told),
        CASE(test_led_seq__key_seen_before_and_in_flight__both_are_told),
        CASE(test_led_seq__no_room__kept_in_order_and_not_overtaken),
        CASE(test_led_seq__ring_of_the_book_full__kept_until_a_commit),
        CASE(test_led_seq__more_than_may_be_kept__refused_busy),
        CASE(test_led_seq__batch_longer_than_the_book_takes__refused_too_large),
        CASE(test_led_seq__hold_whose_time_is_over__expires_before_the_window),
        CASE(test_led_seq__arena_too_small_for_an_expiry__ends_it_and_goes_on),
        CASE(test_led_seq__expiry_that_is_refused__others_go_on_and_it_comes_again),
        CASE(test_led_seq__abort__back_to_what_is_durable),
        CASE(test_led_seq__same_works_and_windows__same_seqs_and_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
