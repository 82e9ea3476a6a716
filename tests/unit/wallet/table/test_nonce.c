/* SPDX-License-Identifier: Apache-2.0 */
/* test_nonce.c - the table of last nonces.
 *
 * Goal: rules N1 to N4 of wallet/table/nonce.h, and every arrow of its picture.
 * Method: each rule alone; random operations against a plain reference, with as many accounts as
 *   there are slots (exact) and with more (nothing reserved is lost, what was pushed out is asked
 *   for again); 64 threads against a ledger of one number.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "wallet/table/nonce.h"

enum { SET = 8 }; /* slots of one set: the smallest table */

static struct wlt_nonces *table(void)
{
    struct wlt_nonces *n = NULL;

    assert_int_equal(wlt_nonces_new(1, SET, &n, NULL), RON_OK);
    return n;
}

/* All in the only set. */
static struct wlt_key account(uint64_t i)
{
    return (struct wlt_key){i, i * 1000};
}

static struct wlt_nonce_ticket reserved(struct wlt_nonces *n, uint64_t who, uint64_t nonce)
{
    struct wlt_nonce_ticket t = {0};
    uint64_t expected = 0;

    assert_int_equal(wlt_nonce_reserve(n, account(who), nonce, &t, &expected), WLT_NONCE_RESERVED);
    assert_non_null(t.slot);
    return t;
}

/* The verdict without RESERVED; what is not to be written is not written. */
static enum wlt_nonce_verdict refused(struct wlt_nonces *n, uint64_t who, uint64_t nonce,
                                      uint64_t *ret_expected)
{
    struct wlt_nonce_ticket t = {.word = 77};
    enum wlt_nonce_verdict v;

    *ret_expected = 77;
    v = wlt_nonce_reserve(n, account(who), nonce, &t, ret_expected);
    assert_int_not_equal(v, WLT_NONCE_RESERVED);
    assert_int_equal(t.word, v == WLT_NONCE_UNTRACKED ? 0 : 77);
    assert_null(t.slot);
    if (v != WLT_NONCE_WRONG) {
        assert_int_equal(*ret_expected, 77);
    }
    return v;
}

static void expect_next(struct wlt_nonces *n, uint64_t who, uint64_t next)
{
    uint64_t expected;

    assert_int_equal(refused(n, who, next + 1, &expected), WLT_NONCE_WRONG);
    assert_int_equal(expected, next);
    assert_int_equal(refused(n, who, next - 1, &expected), WLT_NONCE_WRONG);
    assert_int_equal(expected, next);
}

static void expect_ask(struct wlt_nonces *n, uint64_t who)
{
    uint64_t expected;

    assert_int_equal(refused(n, who, 1, &expected), WLT_NONCE_ASK);
}

static void test_wlt_nonce__unknown_account__is_asked_for(void **state)
{
    struct wlt_nonces *n = table();

    (void)state;
    expect_ask(n, 1);
    wlt_nonce_learn(n, account(1), 41);
    expect_next(n, 1, 42);
    expect_ask(n, 2);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__new_account__begins_at_one(void **state)
{
    struct wlt_nonces *n = table();

    (void)state;
    wlt_nonce_learn(n, account(1), 0);
    expect_next(n, 1, 1);
    wlt_nonce_settle(n, reserved(n, 1, 1), WLT_COMMITTED);
    expect_next(n, 1, 2);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__settled__goes_where_the_picture_says(void **state)
{
    struct wlt_nonces *n = table();

    (void)state;
    wlt_nonce_learn(n, account(1), 4);
    wlt_nonce_settle(n, reserved(n, 1, 5), WLT_REFUSED);
    expect_next(n, 1, 5);
    wlt_nonce_settle(n, reserved(n, 1, 5), WLT_COMMITTED);
    expect_next(n, 1, 6);
    wlt_nonce_settle(n, reserved(n, 1, 6), WLT_UNKNOWN);
    expect_ask(n, 1);
    wlt_nonce_learn(n, account(1), 6); /* it was committed after all */
    expect_next(n, 1, 7);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__in_flight__everybody_else_is_told_so(void **state)
{
    struct wlt_nonces *n = table();
    struct wlt_nonce_ticket t;
    uint64_t expected;

    (void)state;
    wlt_nonce_learn(n, account(1), 4);
    t = reserved(n, 1, 5);
    for (uint64_t nonce = 3; nonce < 8; nonce++) {
        assert_int_equal(refused(n, 1, nonce, &expected), WLT_NONCE_PENDING);
    }
    wlt_nonce_settle(n, t, WLT_COMMITTED);
    expect_next(n, 1, 6);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__old_news__change_nothing(void **state)
{
    struct wlt_nonces *n = table();
    struct wlt_nonce_ticket t;
    uint64_t expected;

    (void)state;
    wlt_nonce_learn(n, account(1), 4);
    wlt_nonce_learn(n, account(1), 3);
    wlt_nonce_learn(n, account(1), 9);
    expect_next(n, 1, 5);
    t = reserved(n, 1, 5);
    wlt_nonce_learn(n, account(1), 9);
    assert_int_equal(refused(n, 1, 10, &expected), WLT_NONCE_PENDING);
    wlt_nonce_settle(n, t, WLT_COMMITTED);
    wlt_nonce_learn(n, account(1), 4);
    expect_next(n, 1, 6);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__forget__only_what_is_not_reserved(void **state)
{
    struct wlt_nonces *n = table();
    struct wlt_nonce_ticket t;
    uint64_t expected;

    (void)state;
    wlt_nonce_forget(n, account(1)); /* nothing there */
    wlt_nonce_learn(n, account(1), 4);
    wlt_nonce_learn(n, account(2), 7);
    wlt_nonce_forget(n, account(1));
    expect_ask(n, 1);
    expect_next(n, 2, 8);
    wlt_nonce_learn(n, account(1), 4);
    t = reserved(n, 1, 5);
    wlt_nonce_forget(n, account(1));
    assert_int_equal(refused(n, 1, 5, &expected), WLT_NONCE_PENDING);
    wlt_nonce_settle(n, t, WLT_COMMITTED);
    expect_next(n, 1, 6);
    wlt_nonces_free(n);
}

/* N4: whatever happened to the slot since the first settlement, the second one changes nothing. */
static void test_wlt_nonce__forget_all__only_what_is_not_reserved(void **state)
{
    struct wlt_nonces *n = table();
    struct wlt_nonce_ticket t;

    (void)state;
    for (uint64_t i = 1; i <= SET; i++) {
        wlt_nonce_learn(n, account(i), 10 * i);
    }
    t = reserved(n, 3, 31);
    wlt_nonce_forget_all(n);
    for (uint64_t i = 1; i <= SET; i++) {
        uint64_t expected;

        assert_int_equal(refused(n, i, 1, &expected), i == 3 ? WLT_NONCE_PENDING : WLT_NONCE_ASK);
    }
    wlt_nonce_settle(n, t, WLT_COMMITTED);
    expect_next(n, 3, 32);
    wlt_nonce_learn(n, account(1), 4); /* less than before */
    expect_next(n, 1, 5);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__settled_twice__second_one_changes_nothing(void **state)
{
    const enum wlt_settle how[] = {WLT_COMMITTED, WLT_REFUSED, WLT_UNKNOWN};

    (void)state;
    for (int i = 0; i < 9; i++) {
        struct wlt_nonces *n = table();
        struct wlt_nonce_ticket first;
        struct wlt_nonce_ticket second;
        uint64_t next = i / 3 == 0 ? 6 : 5;
        uint64_t expected;

        wlt_nonce_learn(n, account(1), 4);
        first = reserved(n, 1, 5);
        wlt_nonce_settle(n, first, how[i / 3]);
        wlt_nonce_settle(n, first, how[i % 3]); /* idle or unknown */
        wlt_nonce_learn(n, account(1), 4);
        expect_next(n, 1, next);
        second = reserved(n, 1, next);
        wlt_nonce_settle(n, first, how[i % 3]); /* reserved by another one */
        assert_int_equal(refused(n, 1, next, &expected), WLT_NONCE_PENDING);
        wlt_nonce_settle(n, second, WLT_COMMITTED);
        expect_next(n, 1, next + 1);

        /* The slot is another account's: idle, then reserved with the same number. */
        wlt_nonce_forget(n, account(1));
        wlt_nonce_learn(n, account(2), 4);
        wlt_nonce_settle(n, first, how[i % 3]);
        expect_next(n, 2, 5);
        second = reserved(n, 2, 5);
        assert_ptr_equal(second.slot, first.slot);
        wlt_nonce_settle(n, first, how[i % 3]);
        assert_int_equal(refused(n, 2, 5, &expected), WLT_NONCE_PENDING);
        wlt_nonces_free(n);
    }
}

/* N3 */
static void test_wlt_nonce__all_slots_reserved__newcomers_are_untracked(void **state)
{
    struct wlt_nonces *n = table();
    struct wlt_nonce_ticket t[SET];
    uint64_t expected;

    (void)state;
    for (uint64_t i = 0; i < SET; i++) {
        wlt_nonce_learn(n, account(i), 10 * i);
        t[i] = reserved(n, i, 10 * i + 1);
    }
    assert_int_equal(refused(n, 99, 1, &expected), WLT_NONCE_UNTRACKED);
    wlt_nonce_learn(n, account(99), 5);
    assert_int_equal(refused(n, 99, 1, &expected), WLT_NONCE_UNTRACKED);
    wlt_nonce_settle(n, (struct wlt_nonce_ticket){0}, WLT_COMMITTED);
    wlt_nonce_settle(n, t[3], WLT_COMMITTED);
    expect_ask(n, 99);
    wlt_nonce_learn(n, account(99), 5); /* takes the slot of 3, which is idle */
    expect_next(n, 99, 6);
    for (uint64_t i = 0; i < SET; i++) {
        assert_int_equal(refused(n, i, 10 * i + 1, &expected),
                         i == 3 ? WLT_NONCE_ASK : WLT_NONCE_PENDING);
        wlt_nonce_settle(n, t[i], WLT_COMMITTED);
    }
    expect_next(n, 99, 6);
    wlt_nonces_free(n);
}

/* A vacant slot is taken before anybody is pushed out, and those pushed out take turns. */
static void test_wlt_nonce__newcomers__push_out_in_turn(void **state)
{
    struct wlt_nonces *n = table();
    uint64_t expected;
    bool asked[SET] = {false};

    (void)state;
    for (uint64_t i = 0; i < SET; i++) {
        wlt_nonce_learn(n, account(i), 10);
    }
    for (uint64_t i = 0; i < SET; i++) {
        expect_next(n, i, 11);
    }
    wlt_nonce_forget(n, account(5));
    wlt_nonce_learn(n, account(50), 20);
    for (uint64_t i = 0; i < SET; i++) {
        assert_int_equal(refused(n, i, 1, &expected), i == 5 ? WLT_NONCE_ASK : WLT_NONCE_WRONG);
    }
    for (uint64_t k = 0; k < SET; k++) {
        int out = 0;

        wlt_nonce_learn(n, account(100 + k), 20);
        expect_next(n, 100 + k, 21);
        for (uint64_t i = 0; i < SET; i++) {
            uint64_t who = i == 5 ? 50 : i;
            bool now = refused(n, who, 1, &expected) == WLT_NONCE_ASK;

            assert_true(now || !asked[i]);
            out += now && !asked[i];
            asked[i] = now;
        }
        assert_int_equal(out, 1);
    }
    wlt_nonces_free(n);
}

static void test_wlt_nonce__largest_numbers__are_tracked_or_let_through(void **state)
{
    const uint64_t max = WLT_NONCE_TRACKED_MAX;
    struct wlt_nonces *n = table();
    uint64_t expected;

    (void)state;
    wlt_nonce_learn(n, account(1), max - 1);
    wlt_nonce_settle(n, reserved(n, 1, max), WLT_COMMITTED);
    assert_int_equal(refused(n, 1, max, &expected), WLT_NONCE_WRONG);
    assert_int_equal(expected, max + 1);
    assert_int_equal(refused(n, 1, max + 1, &expected), WLT_NONCE_UNTRACKED);
    assert_int_equal(refused(n, 2, UINT64_MAX, &expected), WLT_NONCE_UNTRACKED);
    wlt_nonce_learn(n, account(3), max + 1);
    assert_int_equal(refused(n, 3, 1, &expected), WLT_NONCE_WRONG);
    assert_int_equal(refused(n, 3, UINT64_MAX, &expected), WLT_NONCE_UNTRACKED);
    wlt_nonces_free(n);
}

static void test_wlt_nonce__bad_sizes__are_refused(void **state)
{
    struct wlt_nonces *n = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(wlt_nonces_new(0, 8, &n, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "0 shards"));
    assert_int_equal(wlt_nonces_new(WLT_SHARDS_MAX + 1, 8, &n, NULL), RON_INVALID);
    assert_int_equal(wlt_nonces_new(1, WLT_NONCE_SLOTS_MAX + 1, &n, NULL), RON_INVALID);
    assert_null(n);
    assert_int_equal(wlt_nonces_new(WLT_SHARDS_MAX, 1, &n, NULL), RON_OK);
    wlt_nonces_free(n);
    wlt_nonces_free(NULL);
}

/* ---- against a reference --------------------------------------------------------------------- */

struct ref {
    bool known; /* false: it may have been pushed out as well */
    bool reserved;
    uint64_t last;
    struct wlt_nonce_ticket ticket;
};

struct world {
    struct wlt_nonces *n;
    struct ron_rand rand;
    struct ref refs[24];
    uint32_t accounts;
    uint32_t reserved;
    bool exact; /* nobody is ever pushed out */
    bool busy;  /* for now nobody settles or forgets */
    uint32_t wins, asks, wrongs, pendings, untracked;
};

static void try_reserve(struct world *w, struct ref *r, struct wlt_key key)
{
    uint64_t nonce = r->last + ron_rand_below(&w->rand, 3);
    uint64_t expected = 0;
    struct wlt_nonce_ticket t;

    switch (wlt_nonce_reserve(w->n, key, nonce, &t, &expected)) {
    case WLT_NONCE_RESERVED:
        assert_true(r->known && !r->reserved);
        assert_int_equal(nonce, r->last + 1);
        r->reserved = true;
        r->ticket = t;
        w->reserved++;
        w->wins++;
        break;
    case WLT_NONCE_WRONG:
        assert_true(r->known && !r->reserved);
        assert_int_not_equal(nonce, r->last + 1);
        assert_int_equal(expected, r->last + 1);
        w->wrongs++;
        break;
    case WLT_NONCE_PENDING:
        assert_true(r->reserved);
        w->pendings++;
        break;
    case WLT_NONCE_ASK:
        assert_false(r->reserved);
        assert_true(!w->exact || !r->known);
        assert_in_range(w->reserved, 0, SET - 1);
        r->known = false;
        w->asks++;
        break;
    case WLT_NONCE_UNTRACKED:
        assert_false(r->reserved);
        assert_int_equal(w->reserved, SET);
        w->untracked++;
        break;
    }
}

static void settle_some(struct world *w, struct ref *r)
{
    uint64_t how = ron_rand_below(&w->rand, 3);

    if (!r->reserved) {
        return;
    }
    wlt_nonce_settle(w->n, r->ticket, (enum wlt_settle)how);
    r->known = how != WLT_UNKNOWN;
    r->last += how == WLT_COMMITTED;
    r->reserved = false;
    w->reserved--;
}

static void step(struct world *w)
{
    uint64_t i = ron_rand_below(&w->rand, w->accounts);
    struct ref *r = &w->refs[i];
    struct wlt_key key = account(i);

    switch (w->busy ? ron_rand_range(&w->rand, 4, 7) : ron_rand_below(&w->rand, 8)) {
    case 0:
        wlt_nonce_forget(w->n, key);
        r->known = r->reserved;
        break;
    case 1:
    case 2:
        if (ron_rand_chance(&w->rand, 1, 2)) {
            settle_some(w, r);
        }
        break;
    case 3:
        wlt_nonce_settle(w->n, r->ticket, r->reserved ? WLT_UNKNOWN : WLT_COMMITTED);
        w->reserved -= r->reserved;
        r->known = r->known && !r->reserved;
        r->reserved = false;
        break;
    case 4:
        if (!r->known) {
            r->last += ron_rand_below(&w->rand, 2);
        }
        wlt_nonce_learn(w->n, key, r->known ? r->last + 7 : r->last);
        /* One that was pushed out, but is taken for known, has learned a wrong number. */
        if (r->known && !w->exact && !r->reserved) {
            wlt_nonce_forget(w->n, key);
            r->known = false;
        } else {
            r->known = r->known || w->reserved < SET;
        }
        break;
    default:
        try_reserve(w, r, key);
        break;
    }
}

static void run_model(uint32_t accounts, struct world *w)
{
    *w = (struct world){
        .n = table(), .rand = support_rand(), .accounts = accounts, .exact = accounts <= SET};
    for (int i = 0; i < 200000; i++) {
        w->busy = i / 100 % 2 != 0;
        step(w);
    }
    assert_in_range(w->wins, 1000, UINT32_MAX);
    assert_in_range(w->wrongs, 1000, UINT32_MAX);
    assert_in_range(w->pendings, 1000, UINT32_MAX);
    assert_in_range(w->asks, 1000, UINT32_MAX);
    wlt_nonces_free(w->n);
}

static void test_wlt_nonce__random_steps_few_accounts__as_the_reference(void **state)
{
    struct world w;

    (void)state;
    run_model(SET, &w);
    assert_int_equal(w.untracked, 0);
}

static void test_wlt_nonce__random_steps_many_accounts__nothing_reserved_is_lost(void **state)
{
    struct world w;

    (void)state;
    run_model(24, &w);
    assert_in_range(w.untracked, 100, UINT32_MAX);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 64, NONCES = 150 };

struct contest {
    struct wlt_nonces *n;
    struct ron_au64 ledger; /* the last nonce that was committed */
    struct ron_au32 inside; /* with a reservation */
    struct ron_au32 winners[NONCES + 1];
    bool rough; /* settlements as unknown, and forgetting */
};

struct runner {
    struct contest *c;
    struct ron_rand rand;
};

static void commit(struct runner *r, struct wlt_nonce_ticket t, uint64_t nonce)
{
    struct contest *c = r->c;
    uint64_t last = nonce - 1;
    uint64_t dice = c->rough ? ron_rand_below(&r->rand, 8) : 7;
    enum wlt_settle how = WLT_REFUSED;

    if (dice != 0 && ron_au64_cas(&c->ledger, &last, nonce)) {
        ron_au32_add(&c->winners[nonce], 1);
        how = WLT_COMMITTED;
    }
    (void)ron_au32_add(&c->inside, UINT32_MAX);
    wlt_nonce_settle(c->n, t, dice == 1 ? WLT_UNKNOWN : how);
    if (how == WLT_REFUSED) {
        wlt_nonce_forget(c->n, account(1)); /* as a job does when the ledger says so */
    }
}

static void contend(void *arg)
{
    struct runner *r = arg;
    struct contest *c = r->c;
    uint64_t nonce = 1;

    while (nonce <= NONCES) {
        struct wlt_nonce_ticket t;
        uint64_t expected = 0;
        enum wlt_nonce_verdict v = wlt_nonce_reserve(c->n, account(1), nonce, &t, &expected);

        if (v == WLT_NONCE_RESERVED) {
            RON_ASSERT_MSG(ron_au32_add(&c->inside, 1) == 0, "N1");
            commit(r, t, nonce);
        } else if (v == WLT_NONCE_ASK) {
            wlt_nonce_learn(c->n, account(1), ron_au64_load(&c->ledger));
        } else if (v == WLT_NONCE_WRONG) {
            nonce = RON_MAX(nonce, expected);
        }
        if (ron_au64_load(&c->ledger) >= nonce) {
            nonce++;
        }
    }
}

static void run_contest(bool rough)
{
    struct contest c = {.n = table(), .rough = rough};
    struct ron_rand rand = support_rand();
    struct ron_thread *threads[THREADS];
    struct runner runners[THREADS];

    wlt_nonce_learn(c.n, account(1), 0);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){&c, ron_rand_fork(&rand)};
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "rival",
                                                                    .may_block = true,
                                                                    .main = contend,
                                                                    .arg = &runners[i]},
                                          &threads[i], NULL),
                         RON_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        ron_thread_join(threads[i]);
    }
    for (uint64_t nonce = 1; nonce <= NONCES; nonce++) {
        assert_int_equal(ron_au32_load(&c.winners[nonce]), 1);
    }
    wlt_nonces_free(c.n);
}

static void test_wlt_nonce__64_threads__each_nonce_has_one_winner(void **state)
{
    (void)state;
    run_contest(false);
}

static void test_wlt_nonce__64_threads_and_lost_answers__each_nonce_has_one_winner(void **state)
{
    (void)state;
    run_contest(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_nonce__unknown_account__is_asked_for),
        cmocka_unit_test(test_wlt_nonce__new_account__begins_at_one),
        cmocka_unit_test(test_wlt_nonce__settled__goes_where_the_picture_says),
        cmocka_unit_test(test_wlt_nonce__in_flight__everybody_else_is_told_so),
        cmocka_unit_test(test_wlt_nonce__old_news__change_nothing),
        cmocka_unit_test(test_wlt_nonce__forget__only_what_is_not_reserved),
        cmocka_unit_test(test_wlt_nonce__forget_all__only_what_is_not_reserved),
        cmocka_unit_test(test_wlt_nonce__settled_twice__second_one_changes_nothing),
        cmocka_unit_test(test_wlt_nonce__all_slots_reserved__newcomers_are_untracked),
        cmocka_unit_test(test_wlt_nonce__newcomers__push_out_in_turn),
        cmocka_unit_test(test_wlt_nonce__largest_numbers__are_tracked_or_let_through),
        cmocka_unit_test(test_wlt_nonce__bad_sizes__are_refused),
        cmocka_unit_test(test_wlt_nonce__random_steps_few_accounts__as_the_reference),
        cmocka_unit_test(test_wlt_nonce__random_steps_many_accounts__nothing_reserved_is_lost),
        cmocka_unit_test(test_wlt_nonce__64_threads__each_nonce_has_one_winner),
        cmocka_unit_test(test_wlt_nonce__64_threads_and_lost_answers__each_nonce_has_one_winner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
