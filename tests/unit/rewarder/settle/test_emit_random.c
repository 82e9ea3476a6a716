/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whatever is lost, late, doubled or refused for a while, and whenever the emitter dies, with
 * its book or without: each payout takes effect once, nothing is called done that is not, and in
 * the end all is settled.
 * Method: random histories against a plain model of the ledger (keys, ids, tombstones, horizon),
 * with the real machine and the real book. The faults of a history are used up at some point; then
 * it must end. */
#include "unit/rewarder/book_fixture.h"

#include "base/rand_priv.h"
#include "rewarder/settle/machine.h"

enum {
    HORIZON = 100000,
    PAYOUTS = 17,
    BATCH = 5,
    BATCHES = (PAYOUTS + BATCH - 1) / BATCH,
    ATTEMPTS_MAX = 64,
    STRAYS_MAX = 8,
    HISTORIES = 300,
};

/* ---- the ledger ------------------------------------------------------------------------------ */

enum key_state { NEVER, COMMITTED, CANCELLED };

static struct {
    enum key_state keys[BATCHES][ATTEMPTS_MAX];
    uint64_t ts[BATCHES][ATTEMPTS_MAX]; /* of what was committed */
    uint64_t seq[BATCHES][ATTEMPTS_MAX];
    int credits[PAYOUTS];
    uint64_t last_seq;
    bool poor;
} ledger;

static uint64_t now_ms;
static struct ron_rand rng;
static int faults_left;

static bool happens(uint32_t in_hundred)
{
    if (faults_left > 0 && ron_rand_chance(&rng, in_hundred, 100)) {
        faults_left--;
        return true;
    }
    return false;
}

static enum rwd_emit_word ingest(const struct rwd_batch *row, struct lc_done *done)
{
    enum key_state *key = &ledger.keys[row->no][row->attempt];

    if (*key == CANCELLED ||
        (*key == COMMITTED && ledger.ts[row->no][row->attempt] != row->ts_ms)) {
        return RWD_WORD_OTHER_BODY;
    }
    if (*key == NEVER) {
        for (uint32_t i = 0; i < row->count; i++) {
            if (ledger.credits[row->first + i] > 0) {
                return RWD_WORD_OTHER_BODY;
            }
        }
        if (row->ts_ms + HORIZON < now_ms) {
            return RWD_WORD_REFUSED;
        }
        if (ledger.poor) {
            return RWD_WORD_LATER;
        }
        for (uint32_t i = 0; i < row->count; i++) {
            ledger.credits[row->first + i]++;
        }
        *key = COMMITTED;
        ledger.ts[row->no][row->attempt] = row->ts_ms;
        ledger.seq[row->no][row->attempt] = ledger.last_seq + 1;
        ledger.last_seq += row->count;
    }
    *done = (struct lc_done){.seq_first = ledger.seq[row->no][row->attempt],
                             .seq_last = ledger.seq[row->no][row->attempt] + row->count - 1,
                             .commit_ms = now_ms};
    return RWD_WORD_DONE;
}

static enum rwd_emit_word ask(const struct rwd_emit_batch *slot, struct lc_done *done)
{
    const struct rwd_batch *row = &slot->row;
    enum key_state *key = &ledger.keys[row->no][row->attempt];

    switch (slot->step) {
    case RWD_EMIT_SEND:
        return ingest(row, done);
    case RWD_EMIT_OUTCOME:
        return *key == COMMITTED ? RWD_WORD_DONE
                                 : (*key == CANCELLED ? RWD_WORD_CANCELLED : RWD_WORD_NEVER);
    case RWD_EMIT_CANCEL:
        if (*key == COMMITTED) {
            return RWD_WORD_OTHER_BODY;
        }
        *key = CANCELLED;
        return RWD_WORD_CANCELLED;
    case RWD_EMIT_LOOKUP:
        return ledger.credits[row->first + slot->lookup] > 0 ? RWD_WORD_KNOWN : RWD_WORD_UNKNOWN_ID;
    case RWD_EMIT_STAMP:
    case RWD_EMIT_DONE:
    case RWD_EMIT_STEP_COUNT:
    default:
        RON_UNREACHABLE();
    }
}

/* ---- the network ----------------------------------------------------------------------------- */

static struct rwd_emit_batch strays[STRAYS_MAX];
static size_t stray_count;

/* A request that nobody waits for any more arrives, or never does. */
static void let_one_arrive(void)
{
    struct lc_done done;
    size_t at;

    if (stray_count > 0 && ron_rand_chance(&rng, 1, 4)) {
        at = ron_rand_below(&rng, stray_count);
        if (ron_rand_chance(&rng, 3, 4)) {
            (void)ask(&strays[at], &done);
        }
        strays[at] = strays[--stray_count];
    }
}

static enum rwd_emit_word call(const struct rwd_emit_batch *slot, struct lc_done *done)
{
    enum rwd_emit_word word;

    if (happens(10)) {
        return RWD_WORD_LATER; /* lost on the way there, or busy */
    }
    if (stray_count < STRAYS_MAX && happens(20)) {
        strays[stray_count++] = *slot; /* late */
        return RWD_WORD_LATER;
    }
    word = ask(slot, done);
    if (stray_count < STRAYS_MAX && happens(5)) {
        strays[stray_count++] = *slot; /* doubled */
    }
    return happens(15) ? RWD_WORD_LATER : word; /* lost on the way back */
}

/* ---- the emitter ----------------------------------------------------------------------------- */

static struct rwd_book *book;
static struct rwd_emit machine;
static int refusals;

static void open_book(void)
{
    struct rwd_manifest m = manifest_of("e", 1, PAYOUTS);
    bool all = false;

    ok(rwd_book_open(NULL, NULL, &book, &book_err));
    ok(book_bring(book, "e", RWD_COMPUTING, 0, &book_err));
    ok(rwd_book_seal(book, &m, now_ms, &book_err));
    ok(rwd_book_emit(book, str("e"), BATCH, now_ms, &all, &book_err));
}

static void note_done(struct rwd_emit_batch *slot)
{
    bool all = false;

    /* E2. */
    for (uint32_t i = 0; i < slot->row.count; i++) {
        assert_int_equal(ledger.credits[slot->row.first + i], 1);
    }
    ok(rwd_book_done(book, str("e"), &slot->row, 1, now_ms, &all, &book_err));
    rwd_emit_noted(&machine, slot);
}

static void take(struct rwd_emit_batch *slot)
{
    struct lc_done done = {0};
    uint32_t attempt = 0;
    enum rwd_emit_word word;

    if (slot->step == RWD_EMIT_DONE || slot->step == RWD_EMIT_STAMP) {
        if (happens(5)) { /* the disk */
            rwd_emit_word(&machine, slot, RWD_WORD_LATER, NULL, "disk", now_ms, 0);
        } else if (slot->step == RWD_EMIT_DONE) {
            note_done(slot);
        } else {
            ok(rwd_book_stamp(book, str("e"), slot->row.no, now_ms, &attempt, &book_err));
            assert_true(attempt < ATTEMPTS_MAX);
            rwd_emit_stamped(&machine, slot, now_ms, attempt);
        }
        return;
    }
    word = call(slot, &done);
    rwd_emit_word(&machine, slot, word, &done, NULL, now_ms, (uint32_t)ron_rand_u64(&rng));
}

/* A machine out of what the book has. False: all is done. */
static bool start_machine(void)
{
    struct rwd_batch rows[BATCHES];
    size_t count = 0;
    bool all = false;

    if (state_of(book, "e") == RWD_WITHHELD) {
        ok(rwd_book_emit(book, str("e"), BATCH + 1, now_ms, &all, &book_err));
    }
    ok(rwd_book_batches(book, str("e"), 0, rows, BATCHES, &count, &book_err));
    rwd_emit_init(&machine, BATCHES, HORIZON);
    for (size_t i = 0; i < count; i++) {
        assert_true(rwd_emit_add(&machine, &rows[i]));
    }
    return count > 0;
}

static void pass_time(void)
{
    if (happens(4)) {
        now_ms += HORIZON * 3 / 4; /* a long brownout: E4 */
    } else if (happens(2)) {
        now_ms += HORIZON * 2;
    }
    now_ms += ron_rand_below(&rng, 300);
    ledger.poor = happens(5);
    let_one_arrive();
}

/* The machine until it has ended or the process dies. */
static void run_machine(void)
{
    while (!rwd_emit_idle(&machine) && !happens(2)) {
        struct rwd_emit_batch *slot = rwd_emit_next(&machine, now_ms);

        if (slot != NULL) {
            take(slot);
        }
        pass_time();
    }
    if (rwd_emit_idle(&machine) && machine.refused) {
        refusals++;
    }
    if (rwd_emit_idle(&machine) && machine.withheld && state_of(book, "e") == RWD_EMITTING) {
        ok(rwd_book_move(book, str("e"), RWD_EMITTING, RWD_WITHHELD, machine.reason, now_ms,
                         &book_err));
    }
}

static void play(uint64_t seed)
{
    int rounds = 0;

    ron_rand_seed(&rng, seed);
    memset(&ledger, 0, sizeof ledger);
    stray_count = 0;
    refusals = 0;
    now_ms = 10 * HORIZON;
    faults_left = (int)ron_rand_below(&rng, 60);
    open_book();
    while (start_machine()) {
        run_machine();
        assert_int_equal(refusals, 0);
        assert_true(rounds++ < 2000);
        if (happens(10)) { /* amnesia: the book goes too */
            rwd_book_close(book);
            open_book();
        }
    }
    assert_int_equal(state_of(book, "e"), RWD_EMITTED);
    while (stray_count > 0) {
        let_one_arrive();
    }
    for (int i = 0; i < PAYOUTS; i++) {
        assert_int_equal(ledger.credits[i], 1);
    }
    rwd_book_close(book);
}

static void test_emit_random__faults_of_all_kinds__settled_once_in_the_end(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < HISTORIES; i++) {
        play(ron_rand_u64(&rand));
    }
}

/* Somebody else has used an id: E1 ends in quarantine, whichever entry it is. */
static void test_emit_random__a_foreign_entry__refuses_the_settlement(void **state)
{
    (void)state;
    for (int payout = 0; payout < PAYOUTS; payout++) {
        memset(&ledger, 0, sizeof ledger);
        ledger.credits[payout] = 1;
        faults_left = 0;
        stray_count = 0;
        refusals = 0;
        now_ms = 10 * HORIZON;
        open_book();
        assert_true(start_machine());
        run_machine();
        assert_int_equal(refusals, 1);
        rwd_book_close(book);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emit_random__faults_of_all_kinds__settled_once_in_the_end),
        cmocka_unit_test(test_emit_random__a_foreign_entry__refuses_the_settlement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
