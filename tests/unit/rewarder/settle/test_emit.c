/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the machine of a settlement does with every answer what its rules say.
 * Method: a slot brought to each step, each word given to it, against a table; then the rules E3 to
 * E5 by themselves; then what refusals mean. */
#include "support/support.h"

#include "rewarder/settle/machine.h"
#include "ron/base/assert.h"

enum { HORIZON = 1000000, NOW = 5000000, ROWS = 2 };

static struct rwd_emit e;

static struct rwd_batch row_of(uint32_t no, uint64_t ts_ms)
{
    return (struct rwd_batch){.no = no, .first = 10 * no, .count = ROWS, .ts_ms = ts_ms};
}

static struct rwd_emit_batch *next_step(enum rwd_emit_step step)
{
    struct rwd_emit_batch *slot = rwd_emit_next(&e, e.until_ms > NOW ? e.until_ms : NOW);

    assert_non_null(slot);
    assert_int_equal(slot->step, step);
    return slot;
}

static void say(struct rwd_emit_batch *slot, enum rwd_emit_word word)
{
    static const struct lc_done done = {.seq_first = 11, .seq_last = 12, .commit_ms = 13};

    rwd_emit_word(&e, slot, word, &done, NULL, NOW, 0);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Where a slot can be: the steps, with what else decides. */
enum place {
    AT_SEND,
    AT_OUTCOME,
    AT_DOUBT,
    AT_CANCEL,
    AT_FIRST,
    AT_LAST,
    AT_STAMP,
    AT_DONE,
    PLACES
};

static struct rwd_emit_batch *bring(enum place place)
{
    struct rwd_batch row = row_of(0, place == AT_OUTCOME || place == AT_CANCEL ? 1 : NOW);

    rwd_emit_init(&e, 4, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    switch (place) {
    case AT_SEND:
        return next_step(RWD_EMIT_SEND);
    case AT_OUTCOME:
        return next_step(RWD_EMIT_OUTCOME);
    case AT_CANCEL:
        say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_NEVER);
        return next_step(RWD_EMIT_CANCEL);
    case AT_FIRST:
    case AT_LAST:
    case AT_DOUBT:
    case AT_STAMP:
        say(next_step(RWD_EMIT_SEND), RWD_WORD_OTHER_BODY);
        if (place == AT_FIRST) {
            return next_step(RWD_EMIT_LOOKUP);
        }
        if (place == AT_LAST) {
            say(next_step(RWD_EMIT_LOOKUP), RWD_WORD_KNOWN);
            return next_step(RWD_EMIT_LOOKUP);
        }
        say(next_step(RWD_EMIT_LOOKUP), RWD_WORD_UNKNOWN_ID);
        if (place == AT_DOUBT) {
            return next_step(RWD_EMIT_OUTCOME);
        }
        say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_CANCELLED);
        return next_step(RWD_EMIT_STAMP);
    case AT_DONE:
        say(next_step(RWD_EMIT_SEND), RWD_WORD_DONE);
        return next_step(RWD_EMIT_DONE);
    case PLACES:
    default:
        RON_UNREACHABLE();
    }
}

/* What comes then; AGAIN: the same step after a pause; BAD: refused. */
enum { AGAIN = -1, BAD = -2 };
#define S(step) RWD_EMIT_##step
static const int follows[PLACES][RWD_WORD_COUNT] = {
    /* DONE, NEVER, CANCELLED, KNOWN, UNKNOWN_ID, OTHER_BODY, LATER, REFUSED */
    [AT_SEND] = {S(DONE), BAD, BAD, BAD, BAD, S(LOOKUP), AGAIN, BAD},
    [AT_OUTCOME] = {S(SEND), S(CANCEL), S(STAMP), BAD, BAD, BAD, AGAIN, BAD},
    [AT_DOUBT] = {BAD, BAD, S(STAMP), BAD, BAD, BAD, AGAIN, BAD},
    [AT_CANCEL] = {BAD, BAD, S(STAMP), BAD, BAD, S(SEND), AGAIN, BAD},
    [AT_FIRST] = {BAD, BAD, BAD, S(LOOKUP), S(OUTCOME), BAD, AGAIN, BAD},
    [AT_LAST] = {BAD, BAD, BAD, S(DONE), BAD, BAD, AGAIN, BAD},
    [AT_STAMP] = {BAD, BAD, BAD, BAD, BAD, BAD, AGAIN, BAD},
    [AT_DONE] = {BAD, BAD, BAD, BAD, BAD, BAD, AGAIN, BAD},
};

static void test_emit__every_word_at_every_step__as_the_table_says(void **state)
{
    (void)state;
    for (unsigned p = 0; p < PLACES; p++) {
        for (unsigned w = 0; w < RWD_WORD_COUNT; w++) {
            struct rwd_emit_batch *slot = bring((enum place)p);
            enum rwd_emit_step before = slot->step;

            say(slot, (enum rwd_emit_word)w);
            if (follows[p][w] == BAD) {
                assert_true(e.refused);
                assert_true(rwd_emit_idle(&e));
                assert_null(rwd_emit_next(&e, NOW));
                continue;
            }
            assert_false(e.refused || e.withheld);
            if (follows[p][w] == AGAIN) {
                assert_null(rwd_emit_next(&e, NOW));
                assert_ptr_equal(next_step(before), slot);
                continue;
            }
            assert_ptr_equal(next_step((enum rwd_emit_step)follows[p][w]), slot);
        }
    }
}

/* ---- words that say more --------------------------------------------------------------------- */

static void test_emit__done__has_the_ledgers_word(void **state)
{
    struct rwd_emit_batch *slot = bring(AT_DONE);

    (void)state;
    assert_int_equal(slot->row.state, RWD_BATCH_DONE);
    assert_int_equal(slot->row.seq_first, 11);
    assert_int_equal(slot->row.seq_last, 12);
    assert_int_equal(slot->row.commit_ms, 13);
    rwd_emit_noted(&e, slot);
    assert_true(rwd_emit_idle(&e));

    /* Found entry by entry: settled earlier, under what batches is not told. */
    slot = bring(AT_LAST);
    say(slot, RWD_WORD_KNOWN);
    slot = next_step(RWD_EMIT_DONE);
    assert_int_equal(slot->row.state, RWD_BATCH_DONE);
    assert_int_equal(slot->row.seq_first, 0);
}

static void test_emit__lookups__visit_each_entry_once(void **state)
{
    struct rwd_batch row = row_of(0, NOW);

    (void)state;
    row.count = 5;
    rwd_emit_init(&e, 1, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    say(next_step(RWD_EMIT_SEND), RWD_WORD_OTHER_BODY);
    for (uint32_t i = 0; i < 5; i++) {
        struct rwd_emit_batch *slot = next_step(RWD_EMIT_LOOKUP);

        assert_int_equal(slot->lookup, i);
        say(slot, RWD_WORD_LATER); /* the same one again */
        slot = next_step(RWD_EMIT_LOOKUP);
        assert_int_equal(slot->lookup, i);
        say(slot, RWD_WORD_KNOWN);
    }
    (void)next_step(RWD_EMIT_DONE);
}

static void test_emit__stamped__is_sent_under_another_attempt(void **state)
{
    struct rwd_emit_batch *slot = bring(AT_STAMP);

    (void)state;
    rwd_emit_stamped(&e, slot, NOW, 3);
    slot = next_step(RWD_EMIT_SEND);
    assert_int_equal(slot->row.attempt, 3);
    assert_int_equal(slot->row.ts_ms, NOW);
    /* The doubt is over with it: what is refused now is looked at anew. */
    say(slot, RWD_WORD_OTHER_BODY);
    say(next_step(RWD_EMIT_LOOKUP), RWD_WORD_UNKNOWN_ID);
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_CANCELLED);
    rwd_emit_stamped(&e, next_step(RWD_EMIT_STAMP), 1, 4); /* and grows old like any other */
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_NEVER);
    (void)next_step(RWD_EMIT_CANCEL);

    /* So is what was said of the earlier key. */
    say(bring(AT_OUTCOME), RWD_WORD_DONE);
    say(next_step(RWD_EMIT_SEND), RWD_WORD_OTHER_BODY);
    say(next_step(RWD_EMIT_LOOKUP), RWD_WORD_UNKNOWN_ID);
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_CANCELLED);
    rwd_emit_stamped(&e, next_step(RWD_EMIT_STAMP), 1, 5);
    (void)next_step(RWD_EMIT_OUTCOME);
}

/* E6: the key of an epoch that another run has. */
static void test_emit__key_is_committed_without_these_entries__refused_and_says_why(void **state)
{
    (void)state;
    say(bring(AT_DOUBT), RWD_WORD_DONE);
    assert_true(e.refused);
    assert_true(rwd_emit_idle(&e));
    assert_non_null(strstr(e.reason, "another run of the epoch"));
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void test_emit__old_batches__are_asked_for_first(void **state)
{
    struct rwd_batch row = row_of(0, NOW - HORIZON / 2);

    (void)state;
    rwd_emit_init(&e, 1, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    (void)next_step(RWD_EMIT_SEND); /* just not */
    row.ts_ms--;
    rwd_emit_init(&e, 1, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_DONE);
    say(next_step(RWD_EMIT_SEND), RWD_WORD_LATER); /* committed: however old */
    say(next_step(RWD_EMIT_SEND), RWD_WORD_DONE);
    (void)next_step(RWD_EMIT_DONE);

    row.ts_ms = NOW + 10; /* a clock that went back */
    rwd_emit_init(&e, 1, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    (void)next_step(RWD_EMIT_SEND);

    /* It may also grow old while it waits for its turn. */
    row.ts_ms = NOW;
    rwd_emit_init(&e, 1, HORIZON);
    assert_true(rwd_emit_add(&e, &row));
    assert_int_equal(rwd_emit_next(&e, NOW + HORIZON)->step, RWD_EMIT_OUTCOME);
}

static void test_emit__later__pauses_and_withholds_after_three_tries(void **state)
{
    (void)state;
    for (uint32_t jitter = 0; jitter < 1000; jitter += 7) {
        struct rwd_emit_batch *slot = bring(AT_SEND);

        rwd_emit_word(&e, slot, RWD_WORD_LATER, NULL, "busy", NOW, jitter);
        assert_in_range(e.until_ms, NOW + RWD_EMIT_PAUSE_MIN_MS, NOW + RWD_EMIT_PAUSE_MAX_MS);
        assert_null(rwd_emit_next(&e, e.until_ms - 1));
        assert_ptr_equal(rwd_emit_next(&e, e.until_ms), slot);
        rwd_emit_word(&e, slot, RWD_WORD_LATER, NULL, "busy", e.until_ms, jitter);
        assert_false(e.withheld);
        slot = next_step(RWD_EMIT_SEND);
        rwd_emit_word(&e, slot, RWD_WORD_LATER, NULL, "still busy", e.until_ms, jitter);
        assert_true(e.withheld);
        assert_string_equal(e.reason, "still busy");
        assert_true(rwd_emit_idle(&e));
        assert_false(rwd_emit_add(&e, &(struct rwd_batch){.count = 1}));
    }
}

static void test_emit__tries__are_counted_for_each_step(void **state)
{
    struct rwd_emit_batch *slot = bring(AT_OUTCOME);

    (void)state;
    say(slot, RWD_WORD_LATER);
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_LATER);
    say(next_step(RWD_EMIT_OUTCOME), RWD_WORD_NEVER);
    say(next_step(RWD_EMIT_CANCEL), RWD_WORD_LATER);
    say(next_step(RWD_EMIT_CANCEL), RWD_WORD_LATER);
    say(next_step(RWD_EMIT_CANCEL), RWD_WORD_CANCELLED);
    assert_false(e.withheld);
}

static void fill(uint32_t count)
{
    rwd_emit_init(&e, 4, HORIZON);
    for (uint32_t i = 0; i < count; i++) {
        struct rwd_batch row = row_of(i, NOW);

        assert_int_equal(rwd_emit_add(&e, &row), i < 4);
    }
}

static void test_emit__slots__are_bounded_and_used_again(void **state)
{
    struct rwd_emit_batch *slots[4];

    (void)state;
    fill(6);
    for (uint32_t i = 0; i < 4; i++) {
        slots[i] = next_step(RWD_EMIT_SEND);
        assert_int_equal(slots[i]->row.no, i);
    }
    assert_null(rwd_emit_next(&e, NOW));
    say(slots[2], RWD_WORD_DONE);
    assert_ptr_equal(next_step(RWD_EMIT_DONE), slots[2]);
    assert_false(rwd_emit_add(&e, &slots[0]->row));
    rwd_emit_noted(&e, slots[2]);
    assert_true(rwd_emit_add(&e, &(struct rwd_batch){.no = 9, .count = 1, .ts_ms = NOW}));
    assert_int_equal(next_step(RWD_EMIT_SEND)->row.no, 9);
    assert_false(rwd_emit_idle(&e));
}

/* E5, for both ends. */
static void test_emit__ended__hears_what_is_owed_and_begins_nothing(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct rwd_emit_batch *a;
        struct rwd_emit_batch *b;
        struct rwd_emit_batch *c;
        struct rwd_emit_batch *d;

        fill(4);
        a = next_step(RWD_EMIT_SEND);
        b = next_step(RWD_EMIT_SEND);
        c = next_step(RWD_EMIT_SEND);
        d = next_step(RWD_EMIT_SEND);
        say(d, RWD_WORD_DONE); /* to be noted, and not yet begun */
        if (refused) {
            rwd_emit_word(&e, a, RWD_WORD_REFUSED, NULL, "denied", NOW, 0);
            assert_true(e.refused);
        } else {
            a->tries = RWD_EMIT_TRIES_MAX - 1;
            rwd_emit_word(&e, a, RWD_WORD_LATER, NULL, "busy", NOW, 0);
            assert_true(e.withheld);
        }
        assert_ptr_equal(next_step(RWD_EMIT_DONE), d);
        rwd_emit_noted(&e, d);
        assert_null(rwd_emit_next(&e, UINT64_MAX));
        assert_int_equal(e.slot_count, 2);
        say(b, RWD_WORD_DONE);
        say(c, RWD_WORD_OTHER_BODY); /* would go on to look */
        assert_ptr_equal(next_step(RWD_EMIT_DONE), b);
        assert_null(rwd_emit_next(&e, UINT64_MAX));
        assert_false(rwd_emit_idle(&e));
        rwd_emit_noted(&e, b);
        assert_true(rwd_emit_idle(&e));
        assert_string_equal(e.reason, refused ? "denied" : "busy");
    }
}

static void test_emit__refused_after_withheld__has_its_own_reason(void **state)
{
    struct rwd_emit_batch *a;
    struct rwd_emit_batch *b;

    (void)state;
    fill(2);
    a = next_step(RWD_EMIT_SEND);
    b = next_step(RWD_EMIT_SEND);
    a->tries = RWD_EMIT_TRIES_MAX - 1;
    rwd_emit_word(&e, a, RWD_WORD_LATER, NULL, "busy", NOW, 0);
    rwd_emit_word(&e, b, RWD_WORD_REFUSED, NULL, "denied", NOW, 0);
    assert_true(e.withheld && e.refused);
    assert_string_equal(e.reason, "denied");
    assert_true(rwd_emit_idle(&e));
}

static void test_emit__stamp_owed_at_the_end__frees_the_slot(void **state)
{
    struct rwd_emit_batch *slot = bring(AT_STAMP);
    struct rwd_batch row = row_of(1, NOW);

    (void)state;
    assert_true(rwd_emit_add(&e, &row));
    say(next_step(RWD_EMIT_SEND), RWD_WORD_REFUSED);
    assert_false(rwd_emit_idle(&e));
    rwd_emit_stamped(&e, slot, NOW, 1);
    assert_true(rwd_emit_idle(&e));
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_emit__refusals__mean_what_E3_says(void **state)
{
    static const enum rwd_emit_word words[LC_REASON_COUNT] = {
        [LC_REASON_OTHER] = RWD_WORD_REFUSED,
        [LC_REASON_UNAUTH] = RWD_WORD_REFUSED,
        [LC_REASON_CAP_INVALID] = RWD_WORD_REFUSED,
        [LC_REASON_UNKNOWN_KIND] = RWD_WORD_REFUSED,
        [LC_REASON_POLICY_DENIED] = RWD_WORD_REFUSED,
        [LC_REASON_BUSY] = RWD_WORD_LATER,
        [LC_REASON_TOO_LARGE] = RWD_WORD_REFUSED,
        [LC_REASON_TIMEOUT] = RWD_WORD_LATER,
        [LC_REASON_INTERNAL] = RWD_WORD_LATER,
        [LC_REASON_INVALID] = RWD_WORD_REFUSED,
        [LC_REASON_CONFLICT] = RWD_WORD_OTHER_BODY,
        [LC_REASON_INSUFFICIENT_FUNDS] = RWD_WORD_LATER,
        [LC_REASON_NONCE_CONFLICT] = RWD_WORD_REFUSED,
        [LC_REASON_IDEM_MISMATCH] = RWD_WORD_OTHER_BODY,
        [LC_REASON_NOT_FOUND] = RWD_WORD_REFUSED,
        [LC_REASON_SAFE_MODE] = RWD_WORD_LATER,
        [LC_REASON_DRAINING] = RWD_WORD_LATER,
        [LC_REASON_NOT_LEADER] = RWD_WORD_LATER,
    };

    (void)state;
    for (unsigned r = 0; r < LC_REASON_COUNT; r++) {
        struct lc_refusal refusal = {.reason = (enum lc_reason)r};

        assert_int_equal(rwd_emit_refusal(RWD_EMIT_SEND, &refusal), words[r]);
    }
    assert_int_equal(
        rwd_emit_refusal(RWD_EMIT_LOOKUP, &(struct lc_refusal){.reason = LC_REASON_NOT_FOUND}),
        RWD_WORD_UNKNOWN_ID);
    /* Of a ledger that knows more reasons than we do. */
    assert_int_equal(rwd_emit_refusal(RWD_EMIT_SEND, &(struct lc_refusal){.reason = LC_REASON_OTHER,
                                                                          .retryable = true}),
                     RWD_WORD_LATER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emit__every_word_at_every_step__as_the_table_says),
        cmocka_unit_test(test_emit__done__has_the_ledgers_word),
        cmocka_unit_test(test_emit__lookups__visit_each_entry_once),
        cmocka_unit_test(test_emit__stamped__is_sent_under_another_attempt),
        cmocka_unit_test(test_emit__key_is_committed_without_these_entries__refused_and_says_why),
        cmocka_unit_test(test_emit__old_batches__are_asked_for_first),
        cmocka_unit_test(test_emit__later__pauses_and_withholds_after_three_tries),
        cmocka_unit_test(test_emit__tries__are_counted_for_each_step),
        cmocka_unit_test(test_emit__slots__are_bounded_and_used_again),
        cmocka_unit_test(test_emit__ended__hears_what_is_owed_and_begins_nothing),
        cmocka_unit_test(test_emit__refused_after_withheld__has_its_own_reason),
        cmocka_unit_test(test_emit__stamp_owed_at_the_end__frees_the_slot),
        cmocka_unit_test(test_emit__refusals__mean_what_E3_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
