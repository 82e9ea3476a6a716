/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the book keeps its rules: one run per epoch, states along the edges alone, plans made once,
 * residuals carried once; what it says survives.
 * Method: every call in every state against a table; then each rule by itself, on books in memory,
 * in files and in PostgreSQL. */
#include "unit/rewarder/book_fixture.h"

/* In memory, or in tables of its own. */
static struct rwd_book *open_book(void)
{
    struct rwd_book *b = NULL;

    ok(book_open(NULL, 0, &b));
    return b;
}

/* ---- states ---------------------------------------------------------------------------------- */

static void test_book__every_state__has_one_name(void **state)
{
    (void)state;
    for (unsigned s = 0; s < RWD_STATE_COUNT; s++) {
        enum rwd_state back = RWD_STATE_COUNT;

        assert_true(rwd_state_of(str(rwd_state_name((enum rwd_state)s)), &back));
        assert_int_equal(back, s);
    }
    assert_string_equal(rwd_state_name(RWD_STATE_COUNT), "?");
    assert_false(rwd_state_of(str("Sealed"), &(enum rwd_state){0}));
    assert_false(rwd_state_of(str(""), &(enum rwd_state){0}));
}

enum call {
    MOVE_COMPUTE,
    MOVE_WITHHOLD,
    SEAL,
    QUARANTINE,
    FORGET,
    RELEASE,
    EMIT,
    DONE,
    CALL_COUNT
};

static enum ron_rc make_call(struct rwd_book *b, enum call call, const char *epoch)
{
    struct rwd_manifest m = manifest_of(epoch, 1, 25);
    struct rwd_batch all[3] = {{.no = 0}, {.no = 1}, {.no = 2}};
    bool flag = false;

    switch (call) {
    case MOVE_COMPUTE:
        return rwd_book_move(b, str(epoch), RWD_RESERVED, RWD_COMPUTING, NULL, 200, &book_err);
    case MOVE_WITHHOLD:
        return rwd_book_move(b, str(epoch), RWD_EMITTING, RWD_WITHHELD, "later", 200, &book_err);
    case SEAL:
        return rwd_book_seal(b, &m, 200, &book_err);
    case QUARANTINE:
        return rwd_book_quarantine(b, str(epoch), RWD_BREACH_HANDOVER, "why", 200, &book_err);
    case FORGET:
        return rwd_book_forget(b, str(epoch), &book_err);
    case RELEASE:
        return rwd_book_release(b, str(epoch), 200, &flag, &book_err);
    case EMIT:
        return rwd_book_emit(b, str(epoch), 10, 200, &flag, &book_err);
    case DONE:
        return rwd_book_done(b, str(epoch), all, 3, 200, &flag, &book_err);
    case CALL_COUNT:
    default:
        RON_UNREACHABLE();
    }
}

/* What follows; -1: refused, GONE: the epoch is forgotten. A row is a state, in the order of
 * RWD_STATES; a column a call, in the order of enum call. */
enum { NO = -1, GONE = -2 };
static const int after_call[RWD_STATE_COUNT][CALL_COUNT] = {
    [RWD_RESERVED] = {RWD_COMPUTING, NO, NO, RWD_QUARANTINED, GONE, NO, NO, NO},
    [RWD_COMPUTING] = {NO, NO, RWD_SEALED, RWD_QUARANTINED, GONE, NO, NO, NO},
    [RWD_SEALED] = {NO, NO, NO, RWD_QUARANTINED, NO, NO, RWD_EMITTING, NO},
    [RWD_QUARANTINED] = {NO, NO, NO, NO, NO, GONE, NO, NO},
    [RWD_EMITTING] = {NO, RWD_WITHHELD, NO, RWD_QUARANTINED, NO, NO, NO, RWD_EMITTED},
    [RWD_EMITTED] = {NO, NO, NO, NO, NO, NO, NO, RWD_EMITTED},
    [RWD_WITHHELD] = {NO, NO, NO, RWD_QUARANTINED, NO, NO, RWD_EMITTING, RWD_EMITTED},
    [RWD_RETIRED] = {NO, NO, NO, NO, NO, NO, NO, NO},
};

static void test_book__every_call_in_every_state__as_the_table_says(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_epoch e;

    (void)state;
    for (unsigned s = 0; s < RWD_STATE_COUNT; s++) {
        for (unsigned c = 0; c < CALL_COUNT; c++) {
            int expected = after_call[s][c];
            char epoch[32];
            enum ron_rc rc;

            (void)snprintf(epoch, sizeof epoch, "e-%u-%u", s, c);
            ok(book_bring(b, epoch, (enum rwd_state)s, 25, &book_err));
            rc = make_call(b, (enum call)c, epoch);
            if (expected == GONE) {
                gives(OK, rc);
                gives(NOTFOUND, rwd_book_get(b, str(epoch), &e, &book_err));
                continue;
            }
            if (expected == NO) {
                /* A done without a plan names batches that are not there. */
                assert_string_equal(ron_rc_name(rc), c == DONE ? "RON_NOTFOUND" : "RON_CONFLICT");
                assert_int_equal(state_of(b, epoch), s);
                continue;
            }
            gives(OK, rc);
            assert_int_equal(state_of(b, epoch), expected);
            assert_true((unsigned)expected == s ||
                        rwd_state_may((enum rwd_state)s, (enum rwd_state)expected));
        }
    }
    for (unsigned c = 0; c < CALL_COUNT; c++) {
        gives(NOTFOUND, make_call(b, (enum call)c, "nobody"));
    }
    rwd_book_close(b);
}

static void test_book__plain_moves__are_the_two_that_carry_nothing(void **state)
{
    struct rwd_book *b = open_book();

    (void)state;
    for (unsigned from = 0; from < RWD_STATE_COUNT; from++) {
        for (unsigned to = 0; to < RWD_STATE_COUNT; to++) {
            bool plain = (from == RWD_RESERVED && to == RWD_COMPUTING) ||
                         (from == RWD_EMITTING && to == RWD_WITHHELD);
            char epoch[32];
            enum ron_rc rc;

            (void)snprintf(epoch, sizeof epoch, "m-%u-%u", from, to);
            ok(book_bring(b, epoch, (enum rwd_state)from, 25, &book_err));
            rc = rwd_book_move(b, str(epoch), (enum rwd_state)from, (enum rwd_state)to, NULL, 200,
                               &book_err);
            assert_string_equal(ron_rc_name(rc), plain ? "RON_OK" : "RON_INVALID");
            assert_int_equal(state_of(b, epoch), plain ? to : from);
        }
    }
    rwd_book_close(b);
}

/* ---- reserving ------------------------------------------------------------------------------- */

static void test_book__reserved__says_what_was_asked(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_request r = request_of("2026-11", 1);
    struct rwd_epoch e;
    struct rwd_epoch again;

    (void)state;
    r.has_ledger = true;
    r.ledger_seq = UINT64_C(1) << 62;
    memset(r.ledger_root.bytes, 9, sizeof r.ledger_root.bytes);
    ok(rwd_book_reserve(b, &r, 1234, &e, &book_err));
    assert_memory_equal(&e.request, &r, sizeof r);
    assert_int_equal(e.state, RWD_RESERVED);
    assert_int_equal(e.created_ms, 1234);
    assert_int_equal(e.changed_ms, 1234);
    assert_false(e.sealed);
    gives(EXISTS, rwd_book_reserve(b, &r, 9999, &again, &book_err));
    assert_memory_equal(&e, &again, sizeof e);
    rwd_book_close(b);
}

static void test_book__another_request__conflicts(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_request base = request_of("e", 1);
    struct rwd_request others[6];
    struct rwd_epoch e;

    (void)state;
    ok(book_bring(b, "old", RWD_SEALED, 1, &book_err));
    base.has_ledger = true;
    ok(rwd_book_reserve(b, &base, 1, &e, &book_err));
    for (size_t i = 0; i < RON_ARRAY_LEN(others); i++) {
        others[i] = base;
    }
    others[0].run_key.bytes[31] ^= 1;
    others[1].inputs_cid.bytes[0] ^= 1;
    others[2].policy_id[0] ^= 1;
    others[3].policy_hash.bytes[5] ^= 1;
    others[4].ledger_seq = 1;
    (void)snprintf(others[5].carry_epoch, sizeof others[5].carry_epoch, "old");
    for (size_t i = 0; i < RON_ARRAY_LEN(others); i++) {
        gives(CONFLICT, rwd_book_reserve(b, &others[i], 2, &e, &book_err));
    }
    /* And nothing was taken on the way. */
    ok(rwd_book_get(b, str("old"), &e, &book_err));
    assert_string_equal(e.carried_into, "");
    rwd_book_close(b);
}

/* ---- residuals ------------------------------------------------------------------------------- */

static enum ron_rc reserve_carrying(struct rwd_book *b, const char *epoch, const char *from)
{
    struct rwd_request r = request_of(epoch, 1);
    struct rwd_epoch e;

    (void)snprintf(r.carry_epoch, sizeof r.carry_epoch, "%s", from);
    return rwd_book_reserve(b, &r, 1, &e, &book_err);
}

static void test_book__a_residual__is_carried_once(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_epoch e;
    bool again = false;

    (void)state;
    ok(book_bring(b, "a", RWD_SEALED, 1, &book_err));
    ok(reserve_carrying(b, "b", "a"));
    gives(EXISTS, reserve_carrying(b, "b", "a"));
    gives(CONFLICT, reserve_carrying(b, "c", "a"));
    gives(NOTFOUND, rwd_book_get(b, str("c"), &e, &book_err));
    ok(rwd_book_get(b, str("a"), &e, &book_err));
    assert_string_equal(e.carried_into, "b");

    /* Who gives the epoch back gives back what it took, also out of a quarantine. */
    ok(rwd_book_forget(b, str("b"), &book_err));
    ok(reserve_carrying(b, "c", "a"));
    ok(rwd_book_quarantine(b, str("c"), RWD_BREACH_OVERFLOW, "", 2, &book_err));
    gives(CONFLICT, reserve_carrying(b, "d", "a"));
    ok(rwd_book_release(b, str("c"), 3, &again, &book_err));
    assert_false(again);
    ok(reserve_carrying(b, "d", "a"));
    rwd_book_close(b);
}

static void test_book__nothing_to_carry__not_found(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_manifest m = manifest_of("sink", 1, 1);

    (void)state;
    ok(book_bring(b, "computing", RWD_COMPUTING, 1, &book_err));
    ok(book_bring(b, "bad", RWD_SEALED, 1, &book_err));
    ok(rwd_book_quarantine(b, str("bad"), RWD_BREACH_LEDGER_REFUSED, "", 2, &book_err));
    ok(book_bring(b, "sink", RWD_COMPUTING, 1, &book_err));
    m.residual = RWD_RESIDUAL_SINK;
    ok(rwd_book_seal(b, &m, 3, &book_err));
    gives(NOTFOUND, reserve_carrying(b, "x", "nobody"));
    gives(NOTFOUND, reserve_carrying(b, "x", "x"));
    gives(NOTFOUND, reserve_carrying(b, "x", "computing"));
    gives(NOTFOUND, reserve_carrying(b, "x", "bad"));
    gives(NOTFOUND, reserve_carrying(b, "x", "sink"));
    rwd_book_close(b);
}

/* ---- sealing, quarantine --------------------------------------------------------------------- */

static void test_book__sealed__says_what_the_manifest_said(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_manifest m = manifest_of("e", 1, 25);
    struct rwd_epoch e;

    (void)state;
    ok(book_bring(b, "e", RWD_COMPUTING, 0, &book_err));
    m.run_key.bytes[0] ^= 1;
    gives(CONFLICT, rwd_book_seal(b, &m, 5, &book_err));
    m.run_key.bytes[0] ^= 1;
    m.status = RWD_STATUS_QUARANTINED;
    gives(INVALID, rwd_book_seal(b, &m, 5, &book_err));
    m.status = RWD_STATUS_OK;
    m.residual = RWD_RESIDUAL_SINK;
    ok(rwd_book_seal(b, &m, 5, &book_err));
    ok(rwd_book_get(b, str("e"), &e, &book_err));
    assert_true(e.sealed);
    assert_memory_equal(&e.commitment, &m.commitment, sizeof e.commitment);
    support_assert_u128_equal(e.paid.v, RON_U128_MAX);
    support_assert_u128_equal(e.residual.v, 5);
    assert_false(e.residual_carries);
    assert_int_equal(e.intents, 26); /* the sink is paid too */
    assert_int_equal(e.changed_ms, 5);
    m.totals.residual = RON_MONEY_ZERO;
    assert_int_equal(rwd_intent_count(&m), 25);
    m.residual = RWD_RESIDUAL_UNISSUED;
    m.totals.residual = ron_money_of(1);
    assert_int_equal(rwd_intent_count(&m), 25);
    rwd_book_close(b);
}

static void test_book__quarantine__keeps_breach_and_reason_until_released(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_epoch e;
    char lengthy[300];
    bool again = false;

    (void)state;
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    ok(book_bring(b, "e", RWD_EMITTING, 25, &book_err));
    gives(INVALID, rwd_book_quarantine(b, str("e"), RWD_BREACH_NONE, "", 7, &book_err));
    ok(rwd_book_quarantine(b, str("e"), RWD_BREACH_LEDGER_REFUSED, lengthy, 7, &book_err));
    gives(CONFLICT, rwd_book_quarantine(b, str("e"), RWD_BREACH_CAP, "", 8, &book_err));
    ok(rwd_book_get(b, str("e"), &e, &book_err));
    assert_int_equal(e.breach, RWD_BREACH_LEDGER_REFUSED);
    assert_int_equal(strlen(e.reason), sizeof e.reason - 1);
    assert_memory_equal(e.reason, lengthy, sizeof e.reason - 1);
    ok(rwd_book_release(b, str("e"), 9, &again, &book_err));
    assert_true(again);
    ok(rwd_book_get(b, str("e"), &e, &book_err));
    assert_int_equal(e.state, RWD_WITHHELD);
    assert_int_equal(e.breach, RWD_BREACH_NONE);
    assert_int_equal(e.changed_ms, 9);
    rwd_book_close(b);
}

/* ---- lists and retirement -------------------------------------------------------------------- */

static void test_book__list__pages_by_name_and_state(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct rwd_book *b = open_book();
    struct rwd_epoch page[8];
    size_t count = 99;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        ok(book_bring(b, names[RON_ARRAY_LEN(names) - 1 - i], i % 2 == 0 ? RWD_SEALED : RWD_EMITTED,
                      5, &book_err));
    }
    ok(rwd_book_list(b, str(""), RWD_STATE_COUNT, page, 2, &count, &book_err));
    assert_int_equal(count, 2);
    assert_string_equal(page[0].request.epoch, "a");
    ok(rwd_book_list(b, str("b"), RWD_STATE_COUNT, page, 8, &count, &book_err));
    assert_int_equal(count, 3);
    assert_string_equal(page[2].request.epoch, "e");
    ok(rwd_book_list(b, str("a"), RWD_SEALED, page, 8, &count, &book_err));
    assert_int_equal(count, 2);
    assert_string_equal(page[0].request.epoch, "c");
    assert_string_equal(page[1].request.epoch, "e");
    ok(rwd_book_list(b, str("e"), RWD_SEALED, page, 8, &count, &book_err));
    assert_int_equal(count, 0);
    rwd_book_close(b);
}

struct gone {
    struct rwd_book *book;
    char names[64];
};

/* Outside of the book: it may be asked, and has the epoch still. */
static void note_gone(void *arg, const char *epoch)
{
    struct gone *g = arg;
    struct rwd_epoch e;

    ok(rwd_book_get(g->book, str(epoch), &e, &book_err));
    assert_int_equal(e.state, RWD_EMITTED);
    (void)snprintf(g->names + strlen(g->names), sizeof g->names - strlen(g->names), "%s;", epoch);
}

static void test_book__retire__takes_emitted_epochs_without_open_residual(void **state)
{
    struct rwd_book *b = open_book();
    struct gone gone = {.book = b};
    struct rwd_batch batches[4];
    struct rwd_epoch e;
    size_t count = 0;

    (void)state;
    ok(book_bring(b, "a", RWD_EMITTED, 25, &book_err)); /* changed at 106 */
    ok(book_bring(b, "b", RWD_EMITTED, 25, &book_err));
    ok(book_bring(b, "c", RWD_EMITTED, 25, &book_err));
    ok(book_bring(b, "w", RWD_WITHHELD, 25, &book_err));
    ok(reserve_carrying(b, "x", "a"));
    ok(reserve_carrying(b, "y", "c"));
    ok(rwd_book_retire(b, 106, note_gone, &gone, &book_err));
    assert_string_equal(gone.names, "");
    ok(rwd_book_retire(b, 107, note_gone, &gone, &book_err));
    assert_string_equal(gone.names, "a;c;"); /* the residual of b waits */
    assert_int_equal(state_of(b, "a"), RWD_RETIRED);
    ok(rwd_book_batches(b, str("a"), 0, batches, 4, &count, &book_err));
    assert_int_equal(count, 0);
    assert_int_equal(state_of(b, "w"), RWD_WITHHELD);

    /* It is remembered: never paid again, and its residual is still gone. */
    gives(EXISTS, book_bring(b, "a", RWD_SEALED, 25, &book_err));
    ok(rwd_book_get(b, str("a"), &e, &book_err));
    assert_string_equal(e.carried_into, "x");
    gives(CONFLICT, reserve_carrying(b, "z", "a"));
    gone.names[0] = '\0';
    ok(rwd_book_retire(b, INT64_MAX, note_gone, &gone, &book_err));
    assert_string_equal(gone.names, "");
    rwd_book_close(b);
}

/* ---- outbox ---------------------------------------------------------------------------------- */

static void test_book__emit__plans_once(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_batch rows[8];
    struct rwd_settlement s;
    size_t count = 0;
    bool all = true;

    (void)state;
    ok(book_bring(b, "e", RWD_SEALED, 25, &book_err));
    ok(rwd_book_settlement(b, str("e"), &s, &book_err));
    assert_int_equal(s.batches, 0);
    assert_int_equal(s.intents, 25);
    gives(INVALID, rwd_book_emit(b, str("e"), 0, 1000, &all, &book_err));
    ok(rwd_book_emit(b, str("e"), 10, 1000, &all, &book_err));
    assert_false(all);
    ok(rwd_book_move(b, str("e"), RWD_EMITTING, RWD_WITHHELD, "later", 2000, &book_err));
    ok(rwd_book_emit(b, str("e"), 7, 3000, &all, &book_err)); /* other size, other time */
    ok(rwd_book_batches(b, str("e"), 0, rows, 8, &count, &book_err));
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rows[i].no, i);
        assert_int_equal(rows[i].first, 10 * i);
        assert_int_equal(rows[i].count, i == 2 ? 5 : 10);
        assert_int_equal(rows[i].attempt, 0);
        assert_int_equal(rows[i].ts_ms, 1000);
        assert_int_equal(rows[i].state, RWD_BATCH_PLANNED);
    }
    ok(rwd_book_batches(b, str("e"), 1, rows, 1, &count, &book_err));
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].no, 1);
    rwd_book_close(b);
}

static void test_book__nothing_to_pay__is_emitted_at_once(void **state)
{
    struct rwd_book *b = open_book();
    bool all = false;

    (void)state;
    ok(book_bring(b, "e", RWD_SEALED, 0, &book_err));
    ok(rwd_book_emit(b, str("e"), 10, 1000, &all, &book_err));
    assert_true(all);
    assert_int_equal(state_of(b, "e"), RWD_EMITTED);
    rwd_book_close(b);
}

static void test_book__done_in_any_order__emits_with_the_last(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_batch rows[8];
    struct rwd_settlement s;
    size_t count = 0;
    bool all = true;

    (void)state;
    ok(book_bring(b, "e", RWD_EMITTING, 25, &book_err));
    ok(rwd_book_batches(b, str("e"), 0, rows, 8, &count, &book_err));
    rows[2].seq_first = 101;
    rows[2].seq_last = 105;
    rows[2].commit_ms = 77;
    ok(rwd_book_done(b, str("e"), &rows[2], 1, 200, &all, &book_err));
    assert_false(all);
    rows[2].seq_first = 999; /* the first word stays */
    ok(rwd_book_done(b, str("e"), &rows[2], 1, 200, &all, &book_err));
    ok(rwd_book_settlement(b, str("e"), &s, &book_err));
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.batches_done, 1);
    assert_int_equal(s.intents_done, 5);
    assert_int_equal(s.seq_first, 101);
    assert_int_equal(s.seq_last, 105);
    ok(rwd_book_batches(b, str("e"), 0, rows, 8, &count, &book_err));
    assert_int_equal(count, 2);
    rows[0].no = 9; /* not there: then nothing is marked */
    gives(NOTFOUND, rwd_book_done(b, str("e"), (struct rwd_batch[]){rows[1], rows[0]}, 2, 200, &all,
                                  &book_err));
    rows[0].no = 0;
    rows[0].seq_first = 20;
    rows[0].seq_last = 29;
    ok(rwd_book_done(b, str("e"), (struct rwd_batch[]){rows[1], rows[0]}, 2, 201, &all, &book_err));
    assert_true(all);
    assert_int_equal(state_of(b, "e"), RWD_EMITTED);
    ok(rwd_book_settlement(b, str("e"), &s, &book_err));
    assert_int_equal(s.intents_done, 25);
    assert_int_equal(s.seq_first, 20); /* of batch 1 none is known: settled earlier */
    rwd_book_close(b);
}

static void test_book__done_in_quarantine__is_kept_for_the_release(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_batch rows[8];
    size_t count = 0;
    bool flag = true;

    (void)state;
    ok(book_bring(b, "e", RWD_EMITTING, 25, &book_err));
    ok(rwd_book_batches(b, str("e"), 0, rows, 8, &count, &book_err));
    ok(rwd_book_quarantine(b, str("e"), RWD_BREACH_LEDGER_REFUSED, "", 150, &book_err));
    ok(rwd_book_done(b, str("e"), rows, 3, 200, &flag, &book_err));
    assert_false(flag);
    assert_int_equal(state_of(b, "e"), RWD_QUARANTINED);
    ok(rwd_book_release(b, str("e"), 300, &flag, &book_err));
    ok(rwd_book_emit(b, str("e"), 10, 400, &flag, &book_err));
    assert_true(flag);
    assert_int_equal(state_of(b, "e"), RWD_EMITTED);
    rwd_book_close(b);
}

static void test_book__stamp__gives_time_and_attempt_to_what_is_not_done(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_batch rows[8];
    uint32_t attempt = 0;
    size_t count = 0;
    bool all = false;

    (void)state;
    ok(book_bring(b, "e", RWD_EMITTING, 25, &book_err));
    ok(rwd_book_stamp(b, str("e"), 1, 5000, &attempt, &book_err));
    assert_int_equal(attempt, 1);
    ok(rwd_book_stamp(b, str("e"), 1, 6000, &attempt, &book_err));
    assert_int_equal(attempt, 2);
    ok(rwd_book_batches(b, str("e"), 0, rows, 8, &count, &book_err));
    assert_int_equal(rows[1].attempt, 2);
    assert_int_equal(rows[1].ts_ms, 6000);
    assert_int_equal(rows[0].attempt, 0);
    assert_int_equal(rows[0].ts_ms, 104);
    ok(rwd_book_done(b, str("e"), &rows[1], 1, 7000, &all, &book_err));
    gives(CONFLICT, rwd_book_stamp(b, str("e"), 1, 8000, &attempt, &book_err));
    gives(NOTFOUND, rwd_book_stamp(b, str("e"), 3, 8000, &attempt, &book_err));
    assert_int_equal(attempt, 2);
    rwd_book_close(b);
}

/* ---- policies -------------------------------------------------------------------------------- */

#define POLICY(id, version, min)                                                                   \
    "{\"v\":1,\"id\":\"" id "\",\"version\":" version ",\"funding_source\":\"creator_pool\","      \
    "\"asset\":\"roc\",\"max_payout_minor_units\":\"1000\",\"min_payout_minor_units\":\"" min      \
    "\",\"weight_bps\":10000,\"rounding\":\"floor\",\"residual\":\"unissued\","                    \
    "\"weights\":{\"bytes_stored\":\"1\",\"bytes_served\":\"1/4\",\"uptime_seconds\":\"1\"}}"

static struct rwd_policy_doc *policy_of(const char *text)
{
    struct rwd_policy_doc *doc = NULL;

    ok(rwd_policy_read(text, strlen(text), NULL, 0, &doc, &book_err));
    return doc;
}

/* The document that the book gives, as a text of its own. */
static char *kept_text(struct rwd_book *b, const char *id, const struct ron_b3 *hash)
{
    struct ron_buf out;
    char *text;

    ron_buf_init(&out, RWD_POLICY_TEXT_MAX);
    ok(rwd_book_policy_get(b, str(id), hash, &out, &book_err));
    text = strdup(ron_buf_text(&out));
    ron_buf_done(&out);
    return text;
}

static void test_book__policies__are_found_by_hash_and_newest_version(void **state)
{
    struct rwd_book *b = open_book();
    struct rwd_policy_doc *p9 = policy_of(POLICY("p", "9", "1"));
    struct rwd_policy_doc *p10 = policy_of(POLICY("p", "10", "1"));
    struct rwd_policy_doc *other = policy_of(POLICY("p", "9", "2"));
    struct rwd_policy_doc *q = policy_of(POLICY("q", "11", "1"));
    struct ron_buf out;
    char *text;

    (void)state;
    ron_buf_init(&out, RWD_POLICY_TEXT_MAX);
    ok(rwd_book_policy_put(b, p10, 1, &book_err));
    ok(rwd_book_policy_put(b, p9, 2, &book_err));
    ok(rwd_book_policy_put(b, q, 3, &book_err));
    ok(rwd_book_policy_put(b, p9, 4, &book_err)); /* again */
    gives(CONFLICT, rwd_book_policy_put(b, other, 5, &book_err));
    text = kept_text(b, "p", NULL);
    assert_non_null(strstr(text, "\"version\":10"));
    free(text);
    text = kept_text(b, "p", &rwd_policy_of(p9)->hash);
    assert_non_null(strstr(text, "\"version\":9"));
    free(text);
    gives(NOTFOUND, rwd_book_policy_get(b, str("r"), NULL, &out, &book_err));
    gives(NOTFOUND, rwd_book_policy_get(b, str("q"), &rwd_policy_of(p9)->hash, &out, &book_err));
    gives(NOTFOUND, rwd_book_policy_get(b, str("p"), &rwd_policy_of(other)->hash, &out, &book_err));
    ron_buf_done(&out);
    rwd_policy_free(p9);
    rwd_policy_free(p10);
    rwd_policy_free(other);
    rwd_policy_free(q);
    rwd_book_close(b);
}

static void test_book__a_signature__replaces_none_and_stays(void **state)
{
    static const uint8_t seed[RWD_SIGN_KEY_BYTES] = {1, 2, 3};
    struct rwd_book *b = open_book();
    struct rwd_policy_doc *bare = policy_of(POLICY("p", "1", "1"));
    struct rwd_policy_doc *with = policy_of(POLICY("p", "1", "1"));
    char *text;

    (void)state;
    ok(rwd_policy_sign(with, "key-1", seed, &book_err));
    ok(rwd_book_policy_put(b, bare, 1, &book_err));
    text = kept_text(b, "p", NULL);
    assert_null(strstr(text, "sig_ed25519"));
    free(text);
    for (int i = 0; i < 2; i++) {
        ok(rwd_book_policy_put(b, i == 0 ? with : bare, 2, &book_err));
        text = kept_text(b, "p", &rwd_policy_of(bare)->hash);
        assert_non_null(strstr(text, "sig_ed25519"));
        free(text);
    }
    rwd_policy_free(bare);
    rwd_policy_free(with);
    rwd_book_close(b);
}

static void change(struct rwd_book *b, const char *dir, const char *sql)
{
    if (book_on_pg) {
        book_sql(dir, sql);
    } else {
        assert_int_equal(sqlite3_exec(b->sql->sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
    }
}

static void test_book__policies__are_bounded(void **state)
{
    struct rwd_policy_doc *p = policy_of(POLICY("p", "1", "1"));
    char dir[BOOK_PATH_SIZE];
    char path[BOOK_PATH_SIZE];
    struct rwd_book *b = NULL;
    char sql[512];

    (void)state;
    if (book_on_pg) {
        book_place(dir, path);
    }
    ok(book_open(book_on_pg ? path : NULL, 0, &b));
    (void)snprintf(sql, sizeof sql,
                   book_on_pg
                       ? "INSERT INTO rewarder_policies SELECT int8send(i),'x',i,0,'',0,'' "
                         "FROM generate_series(1,%d) AS n(i)"
                       : "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE "
                         "i<%d) INSERT INTO policies SELECT CAST(i AS BLOB),'x',i,0,x'00',0,0 "
                         "FROM n",
                   RWD_BOOK_POLICIES_MAX);
    change(b, dir, sql);
    gives(LIMIT, rwd_book_policy_put(b, p, 1, &book_err));
    change(b, dir,
           book_on_pg ? "DELETE FROM rewarder_policies WHERE version=1"
                      : "DELETE FROM policies WHERE version=1");
    ok(rwd_book_policy_put(b, p, 1, &book_err));
    rwd_policy_free(p);
    rwd_book_close(b);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup(fn, book_ready)
    const struct CMUnitTest tests[] = {
        CASE(test_book__every_state__has_one_name),
        CASE(test_book__every_call_in_every_state__as_the_table_says),
        CASE(test_book__plain_moves__are_the_two_that_carry_nothing),
        CASE(test_book__reserved__says_what_was_asked),
        CASE(test_book__another_request__conflicts),
        CASE(test_book__a_residual__is_carried_once),
        CASE(test_book__nothing_to_carry__not_found),
        CASE(test_book__sealed__says_what_the_manifest_said),
        CASE(test_book__quarantine__keeps_breach_and_reason_until_released),
        CASE(test_book__list__pages_by_name_and_state),
        CASE(test_book__retire__takes_emitted_epochs_without_open_residual),
        CASE(test_book__emit__plans_once),
        CASE(test_book__nothing_to_pay__is_emitted_at_once),
        CASE(test_book__done_in_any_order__emits_with_the_last),
        CASE(test_book__done_in_quarantine__is_kept_for_the_release),
        CASE(test_book__stamp__gives_time_and_attempt_to_what_is_not_done),
        CASE(test_book__policies__are_found_by_hash_and_newest_version),
        CASE(test_book__a_signature__replaces_none_and_stays),
        CASE(test_book__policies__are_bounded),
    };

    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL) +
           cmocka_run_group_tests_name("postgres", tests, book_pg_up, book_pg_down);
}
