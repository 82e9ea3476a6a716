/* SPDX-License-Identifier: Apache-2.0 */
/* test_daily.c - debits of the day.
 *
 * Goal: rules D1 to D4 of wallet/table/daily.h.
 * Method: each rule alone; random operations against a plain reference, with as many pairs as there
 *   is room for and with twice as many; threads against one ceiling.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "wallet/table/daily.h"

enum { ROOM = 6, DAY = 20000 };

static struct wlt_daily *table(void)
{
    struct wlt_daily *d = NULL;

    assert_int_equal(wlt_daily_new(1, ROOM, &d, NULL), RON_OK);
    return d;
}

static struct wlt_key pair(uint64_t i)
{
    return (struct wlt_key){i, i};
}

static enum wlt_daily_verdict reserve_on(struct wlt_daily *d, uint64_t who, uint32_t day,
                                         uint64_t amount, uint64_t ceiling, uint64_t *ret_left)
{
    struct ron_money left = ron_money_of(777);
    enum wlt_daily_verdict v =
        wlt_daily_reserve(d, pair(who), day, ron_money_of(amount), ron_money_of(ceiling), &left);

    if (v != WLT_DAILY_EXCEEDED) {
        support_assert_u128_equal(left.v, 777);
    }
    *ret_left = (uint64_t)left.v;
    return v;
}

static enum wlt_daily_verdict reserve(struct wlt_daily *d, uint64_t who, uint64_t amount,
                                      uint64_t ceiling)
{
    uint64_t left;

    return reserve_on(d, who, DAY, amount, ceiling, &left);
}

/* A ceiling of what is left plus one tells the sum without changing anything but the last use. */
static void expect_sum(struct wlt_daily *d, uint64_t who, uint64_t sum)
{
    uint64_t left;

    assert_int_equal(reserve_on(d, who, DAY, 1000000, sum + 5, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 5);
}

static void learn(struct wlt_daily *d, uint64_t who, uint64_t debited)
{
    wlt_daily_learn(d, pair(who), DAY, ron_money_of(debited));
}

static void settle(struct wlt_daily *d, uint64_t who, uint64_t amount, enum wlt_settle how)
{
    wlt_daily_settle(d, pair(who), DAY, ron_money_of(amount), how);
}

static void test_wlt_daily__first_touch__is_asked_for(void **state)
{
    struct wlt_daily *d = table();

    (void)state;
    assert_int_equal(reserve(d, 1, 10, 100), WLT_DAILY_ASK);
    learn(d, 1, 60);
    expect_sum(d, 1, 60);
    assert_int_equal(reserve(d, 2, 10, 100), WLT_DAILY_ASK);
    wlt_daily_free(d);
}

/* D1 at the edge. */
static void test_wlt_daily__ceiling__is_reached_and_not_passed(void **state)
{
    struct wlt_daily *d = table();
    uint64_t left;

    (void)state;
    learn(d, 1, 60);
    assert_int_equal(reserve_on(d, 1, DAY, 41, 100, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 40);
    assert_int_equal(reserve(d, 1, 40, 100), WLT_DAILY_OK);
    assert_int_equal(reserve_on(d, 1, DAY, 1, 100, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 0);
    assert_int_equal(reserve_on(d, 1, DAY, 1, 50, &left), WLT_DAILY_EXCEEDED); /* lowered */
    assert_int_equal(left, 0);
    settle(d, 1, 40, WLT_COMMITTED);
    expect_sum(d, 1, 100);
    wlt_daily_free(d);
}

static void test_wlt_daily__largest_amounts__do_not_wrap(void **state)
{
    struct wlt_daily *d = table();
    struct ron_money left = RON_MONEY_ZERO;
    struct ron_money most = {.v = RON_U128_MAX - 5};

    (void)state;
    wlt_daily_learn(d, pair(1), DAY, most);
    assert_int_equal(wlt_daily_reserve(d, pair(1), DAY, ron_money_of(6), RON_MONEY_MAX, &left),
                     WLT_DAILY_EXCEEDED);
    support_assert_u128_equal(left.v, 5);
    assert_int_equal(wlt_daily_reserve(d, pair(1), DAY, RON_MONEY_MAX, RON_MONEY_MAX, &left),
                     WLT_DAILY_EXCEEDED);
    assert_int_equal(wlt_daily_reserve(d, pair(1), DAY, ron_money_of(5), RON_MONEY_MAX, &left),
                     WLT_DAILY_OK);
    wlt_daily_free(d);
}

static void test_wlt_daily__settled__refused_is_given_back_and_nothing_else(void **state)
{
    struct wlt_daily *d = table();

    (void)state;
    learn(d, 1, 0);
    assert_int_equal(reserve(d, 1, 10, 100), WLT_DAILY_OK);
    assert_int_equal(reserve(d, 1, 20, 100), WLT_DAILY_OK);
    assert_int_equal(reserve(d, 1, 30, 100), WLT_DAILY_OK);
    settle(d, 1, 20, WLT_REFUSED);
    expect_sum(d, 1, 40);
    settle(d, 1, 10, WLT_COMMITTED);
    settle(d, 1, 30, WLT_UNKNOWN);
    assert_int_equal(reserve(d, 1, 60, 100), WLT_DAILY_OK); /* 40 are counted */
    settle(d, 1, 60, WLT_REFUSED);
    settle(d, 1, 60, WLT_REFUSED); /* was settled: nothing is in flight */
    assert_int_equal(reserve(d, 1, 60, 100), WLT_DAILY_OK);
    wlt_daily_free(d);
}

/* What ended unknown stays counted until it would refuse; then the ledger's word replaces it. */
static void test_wlt_daily__unknown_end__asks_again_before_it_refuses(void **state)
{
    struct wlt_daily *d = table();
    uint64_t left;

    (void)state;
    learn(d, 1, 0);
    assert_int_equal(reserve(d, 1, 90, 100), WLT_DAILY_OK);
    assert_int_equal(reserve(d, 1, 5, 100), WLT_DAILY_OK);
    settle(d, 1, 90, WLT_UNKNOWN);
    assert_int_equal(reserve(d, 1, 5, 100), WLT_DAILY_OK);
    /* Something is in flight: what the ledger said now would not tell whether it holds that. */
    assert_int_equal(reserve_on(d, 1, DAY, 1, 100, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 0);
    settle(d, 1, 5, WLT_COMMITTED);
    settle(d, 1, 5, WLT_COMMITTED);
    assert_int_equal(reserve(d, 1, 1, 100), WLT_DAILY_ASK);
    assert_int_equal(reserve(d, 1, 1, 100), WLT_DAILY_ASK); /* everybody waits for it */
    learn(d, 1, 10);
    learn(d, 1, 50);
    assert_int_equal(reserve_on(d, 1, DAY, 91, 100, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 90);
    assert_int_equal(reserve(d, 1, 90, 100), WLT_DAILY_OK);
    wlt_daily_free(d);
}

/* D2 */
static void test_wlt_daily__old_news__change_nothing(void **state)
{
    struct wlt_daily *d = table();

    (void)state;
    learn(d, 1, 10);
    learn(d, 1, 90);
    expect_sum(d, 1, 10);
    assert_int_equal(reserve(d, 1, 5, 100), WLT_DAILY_OK);
    learn(d, 1, 90);
    expect_sum(d, 1, 15);
    wlt_daily_learn(d, pair(1), DAY - 1, ron_money_of(90));
    expect_sum(d, 1, 15);
    wlt_daily_free(d);
}

static bool walk(struct wlt_daily *d, uint32_t day, uint64_t now_ms, uint64_t *ret_sum,
                 uint64_t *ret_page)
{
    struct ron_money sum = ron_money_of(777);
    bool ours = wlt_daily_walk(d, pair(1), day, now_ms, 1500, &sum, ret_page);

    *ret_sum = (uint64_t)sum.v;
    return ours;
}

static void test_wlt_daily__walk__one_at_a_time_and_on_from_there(void **state)
{
    const uint64_t late = UINT64_C(10) * 24 * 3600 * 1000 + 5; /* leases come round by then */
    struct wlt_daily *d = table();
    uint64_t sum;
    uint64_t page;

    (void)state;
    assert_true(walk(d, DAY, 1000, &sum, &page));
    assert_true(sum == 0 && page == 0);
    assert_false(walk(d, DAY, 2400, &sum, &page));
    wlt_daily_walked(d, pair(1), DAY, ron_money_of(30), 77, 2400, 1500);
    assert_false(walk(d, DAY, 3800, &sum, &page)); /* goes on, so it is its own for longer */
    assert_true(walk(d, DAY, 3920, &sum, &page));
    assert_true(sum == 30 && page == 77);
    wlt_daily_walked(d, pair(1), DAY, ron_money_of(20), 80, 3950, 1500); /* behind that */
    assert_true(walk(d, DAY, late, &sum, &page));
    assert_true(sum == 30 && page == 77);
    assert_int_equal(reserve(d, 1, 10, 100), WLT_DAILY_ASK); /* a part is not the sum */
    learn(d, 1, 50);
    expect_sum(d, 1, 50);
    wlt_daily_walked(d, pair(1), DAY, ron_money_of(1), 2, late, 1500); /* somebody was slower */
    expect_sum(d, 1, 50);
    assert_true(walk(d, DAY + 1, late, &sum, &page)); /* and nothing of it on the next day */
    assert_true(sum == 0 && page == 0);
    assert_false(walk(d, DAY + 1, late, &sum, &page));
    wlt_daily_free(d);
}

static void test_wlt_daily__forget_all__asked_for_again(void **state)
{
    struct wlt_daily *d = table();

    (void)state;
    learn(d, 1, 60);
    learn(d, 2, 70);
    assert_int_equal(reserve(d, 2, 10, 100), WLT_DAILY_OK);
    wlt_daily_forget_all(d);
    assert_int_equal(reserve(d, 1, 10, 100), WLT_DAILY_ASK);
    assert_int_equal(reserve(d, 2, 10, 100), WLT_DAILY_ASK);
    learn(d, 1, 5); /* less than before */
    learn(d, 2, 7);
    expect_sum(d, 1, 5);
    settle(d, 2, 10, WLT_REFUSED); /* of the time before */
    expect_sum(d, 2, 7);
    assert_int_equal(reserve(d, 2, 3, 100), WLT_DAILY_OK);
    settle(d, 2, 3, WLT_REFUSED);
    expect_sum(d, 2, 7);
    wlt_daily_free(d);
}

static void test_wlt_daily__next_day__begins_anew(void **state)
{
    struct wlt_daily *d = table();
    uint64_t left;

    (void)state;
    learn(d, 1, 60);
    assert_int_equal(reserve(d, 1, 40, 100), WLT_DAILY_OK);
    assert_int_equal(reserve_on(d, 1, DAY + 1, 1, 100, &left), WLT_DAILY_ASK);
    expect_sum(d, 1, 100); /* a question alone changes nothing */
    wlt_daily_learn(d, pair(1), DAY + 1, ron_money_of(7));
    settle(d, 1, 40, WLT_REFUSED); /* of the day before */
    assert_int_equal(reserve_on(d, 1, DAY + 1, 94, 100, &left), WLT_DAILY_EXCEEDED);
    assert_int_equal(left, 93);
    /* Nothing of today is in flight, so it may make room. */
    for (uint64_t i = 2; i < 2 + ROOM; i++) {
        learn(d, i, 0);
    }
    assert_int_equal(reserve_on(d, 1, DAY + 1, 1, 100, &left), WLT_DAILY_ASK);
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_OK);
    wlt_daily_free(d);
}

/* D4 */
static void test_wlt_daily__day_before__is_counted_on_the_new_one(void **state)
{
    struct wlt_daily *d = table();
    uint64_t left;

    (void)state;
    wlt_daily_learn(d, pair(1), DAY + 1, ron_money_of(60));
    assert_int_equal(reserve(d, 1, 41, 100), WLT_DAILY_EXCEEDED);
    assert_int_equal(reserve(d, 1, 40, 100), WLT_DAILY_OK);
    settle(d, 1, 40, WLT_REFUSED);
    assert_int_equal(reserve(d, 1, 1, 100), WLT_DAILY_EXCEEDED); /* cannot learn, so no question */
    assert_int_equal(wlt_daily_untracked_total(d), 0);
    assert_int_equal(reserve_on(d, 1, DAY + 1, 1, 100, &left), WLT_DAILY_ASK);
    assert_int_equal(reserve(d, 1, 1, 100), WLT_DAILY_UNTRACKED);
    assert_int_equal(wlt_daily_untracked_total(d), 1);
    wlt_daily_learn(d, pair(1), DAY + 1, ron_money_of(60));
    assert_int_equal(reserve(d, 1, 40, 100), WLT_DAILY_OK);
    wlt_daily_free(d);
}

/* D3 */
static void test_wlt_daily__no_room__longest_unused_goes_and_none_in_flight(void **state)
{
    struct wlt_daily *d = table();

    (void)state;
    for (uint64_t i = 0; i < ROOM; i++) {
        learn(d, i, i);
    }
    assert_int_equal(reserve(d, 0, 1, 100), WLT_DAILY_OK);
    expect_sum(d, 1, 1); /* used */
    learn(d, 100, 0);    /* instead of 2 */
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_ASK);
    for (uint64_t i = 0; i < ROOM; i++) {
        assert_int_equal(reserve(d, i == 2 ? 100 : i, 1, 100), WLT_DAILY_OK);
    }
    assert_int_equal(wlt_daily_untracked_total(d), 0);
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_UNTRACKED);
    learn(d, 2, 0);
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_UNTRACKED);
    assert_int_equal(wlt_daily_untracked_total(d), 2);
    settle(d, 0, 1, WLT_COMMITTED); /* one of two */
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_UNTRACKED);
    settle(d, 0, 1, WLT_COMMITTED);
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_ASK);
    learn(d, 2, 0);
    assert_int_equal(reserve(d, 2, 1, 100), WLT_DAILY_OK);
    wlt_daily_free(d);
}

static void test_wlt_daily__bad_sizes__are_refused(void **state)
{
    struct wlt_daily *d = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(wlt_daily_new(0, 8, &d, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "0 shards"));
    assert_int_equal(wlt_daily_new(WLT_SHARDS_MAX + 1, 8, &d, NULL), RON_INVALID);
    assert_int_equal(wlt_daily_new(1, 0, &d, NULL), RON_INVALID);
    assert_int_equal(wlt_daily_new(1, WLT_DAILY_PAIRS_MAX + 1, &d, NULL), RON_INVALID);
    assert_null(d);
    assert_int_equal(wlt_daily_new(WLT_SHARDS_MAX, 1, &d, NULL), RON_OK);
    wlt_daily_free(d);
    wlt_daily_free(NULL);
}

/* ---- against a reference --------------------------------------------------------------------- */

enum { PAIRS_MAX = 2 * ROOM, OPEN_MAX = 8, CEILING = 1000 };

struct ref {
    bool there, known, doubtful;
    uint32_t day;
    uint64_t sum;
    uint64_t used;
    struct {
        uint32_t day;
        uint64_t amount;
        bool heard; /* its end changes something */
    } open[OPEN_MAX];
    uint32_t open_count;
};

struct world {
    struct wlt_daily *d;
    struct ron_rand rand;
    struct ref refs[PAIRS_MAX];
    uint32_t pairs;
    uint64_t clock;
    uint32_t today;
    uint64_t verdicts[4];
};

static uint32_t in_flight(const struct ref *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->open_count; i++) {
        n += r->open[i].heard;
    }
    return n;
}

/* The one that makes room when there is none; NULL: nobody can. *ret_free: there is room. */
static struct ref *victim(struct world *w, bool *ret_free)
{
    struct ref *oldest = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < w->pairs; i++) {
        struct ref *r = &w->refs[i];

        count += r->there;
        if (r->there && in_flight(r) == 0 && (oldest == NULL || r->used < oldest->used)) {
            oldest = r;
        }
    }
    *ret_free = count < ROOM;
    return oldest;
}

static enum wlt_daily_verdict ref_reserve(struct world *w, struct ref *r, uint32_t day,
                                          uint64_t amount)
{
    bool room;

    if (!r->there) {
        return victim(w, &room) != NULL || room ? WLT_DAILY_ASK : WLT_DAILY_UNTRACKED;
    }
    r->used = ++w->clock;
    if (day > r->day) {
        return WLT_DAILY_ASK;
    }
    if (!r->known) {
        return day < r->day ? WLT_DAILY_UNTRACKED : WLT_DAILY_ASK;
    }
    if (r->sum + amount > CEILING) {
        if (r->doubtful && in_flight(r) == 0 && day == r->day) {
            r->known = false;
            return WLT_DAILY_ASK;
        }
        return WLT_DAILY_EXCEEDED;
    }
    r->sum += amount;
    r->doubtful = r->doubtful || day < r->day;
    r->open[r->open_count].day = day;
    r->open[r->open_count].amount = amount;
    r->open[r->open_count].heard = day == r->day;
    r->open_count++;
    return WLT_DAILY_OK;
}

static void ref_learn(struct world *w, struct ref *r, uint32_t day, uint64_t debited)
{
    bool room;

    if (!r->there) {
        struct ref *out = victim(w, &room);

        if (!room && out == NULL) {
            return;
        }
        if (!room) {
            out->there = false;
        }
        r->there = true;
        r->known = false;
        r->day = day;
    }
    r->used = ++w->clock;
    if (day > r->day || (day == r->day && !r->known)) {
        for (uint32_t i = 0; i < r->open_count; i++) {
            r->open[i].heard = false;
        }
        r->day = day;
        r->known = true;
        r->doubtful = false;
        r->sum = debited;
    }
}

static void settle_some(struct world *w, uint32_t i)
{
    struct ref *r = &w->refs[i];
    enum wlt_settle how = (enum wlt_settle)ron_rand_below(&w->rand, 3);
    uint32_t k;

    if (r->open_count == 0) {
        return;
    }
    k = (uint32_t)ron_rand_below(&w->rand, r->open_count);
    /* An end that is not heard is not told while others of its day would be taken for it. */
    if (!r->open[k].heard && r->there && r->open[k].day == r->day && in_flight(r) != 0) {
        return;
    }
    wlt_daily_settle(w->d, pair(i), r->open[k].day, ron_money_of(r->open[k].amount), how);
    if (r->there) {
        r->used = ++w->clock;
    }
    if (r->open[k].heard) {
        r->sum -= how == WLT_REFUSED ? r->open[k].amount : 0;
        r->doubtful = r->doubtful || how == WLT_UNKNOWN;
    }
    r->open[k] = r->open[--r->open_count];
}

static void reserve_some(struct world *w, uint32_t i, uint32_t day)
{
    struct ref *r = &w->refs[i];
    uint64_t amount = 1 + ron_rand_below(&w->rand, 400);
    uint64_t left = 0;
    enum wlt_daily_verdict expected;
    enum wlt_daily_verdict v;

    if (r->open_count == OPEN_MAX) {
        return;
    }
    expected = ref_reserve(w, r, day, amount);
    v = reserve_on(w->d, i, day, amount, CEILING, &left);
    assert_int_equal(v, expected);
    if (v == WLT_DAILY_EXCEEDED) {
        assert_int_equal(left, r->sum < CEILING ? CEILING - r->sum : 0);
    }
    w->verdicts[v]++;
    if (v == WLT_DAILY_ASK && ron_rand_chance(&w->rand, 3, 4)) {
        uint64_t debited = ron_rand_below(&w->rand, 600);

        ref_learn(w, r, day, debited);
        wlt_daily_learn(w->d, pair(i), day, ron_money_of(debited));
    }
}

static void run_model(uint32_t pairs, struct world *w)
{
    *w = (struct world){.d = table(), .rand = support_rand(), .pairs = pairs, .today = DAY};
    for (int step = 0; step < 100000; step++) {
        uint32_t i = (uint32_t)ron_rand_below(&w->rand, pairs);
        uint32_t day = w->today - (ron_rand_chance(&w->rand, 1, 20) ? 1 : 0);
        bool busy = step / 100 % 2 != 0; /* for now fewer ends than beginnings */

        w->today += ron_rand_chance(&w->rand, 1, 300);
        if (ron_rand_chance(&w->rand, busy ? 1 : 6, 10)) {
            settle_some(w, i);
        } else if (ron_rand_chance(&w->rand, 1, 10)) {
            ref_learn(w, &w->refs[i], day, 5);
            wlt_daily_learn(w->d, pair(i), day, ron_money_of(5));
        } else {
            reserve_some(w, i, day);
        }
    }
    assert_int_equal(wlt_daily_untracked_total(w->d), w->verdicts[WLT_DAILY_UNTRACKED]);
    assert_in_range(w->verdicts[WLT_DAILY_OK], 1000, UINT64_MAX);
    assert_in_range(w->verdicts[WLT_DAILY_ASK], 1000, UINT64_MAX);
    assert_in_range(w->verdicts[WLT_DAILY_EXCEEDED], 1000, UINT64_MAX);
    wlt_daily_free(w->d);
}

static void test_wlt_daily__random_steps_with_room__as_the_reference(void **state)
{
    struct world w;

    (void)state;
    run_model(ROOM, &w);
}

static void test_wlt_daily__random_steps_without_room__as_the_reference(void **state)
{
    struct world w;

    (void)state;
    run_model(PAIRS_MAX, &w);
    assert_in_range(w.verdicts[WLT_DAILY_UNTRACKED], 100, UINT64_MAX);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 8, TRIES = 20000 };

struct shop {
    struct wlt_daily *d;
    struct ron_stat kept; /* committed */
};

static void spend(void *arg)
{
    struct shop *shop = arg;

    for (uint32_t i = 0; i < TRIES; i++) {
        struct ron_money left;

        if (wlt_daily_reserve(shop->d, pair(i % 3), DAY, ron_money_of(1), ron_money_of(10000),
                              &left) == WLT_DAILY_OK) {
            wlt_daily_settle(shop->d, pair(i % 3), DAY, ron_money_of(1),
                             i % 2 != 0 ? WLT_COMMITTED : WLT_REFUSED);
            ron_stat_add(&shop->kept, i % 2);
        }
    }
}

static void test_wlt_daily__many_threads__exactly_the_ceiling_is_spent(void **state)
{
    struct shop shop = {.d = table()};
    struct ron_thread *threads[THREADS];

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        learn(shop.d, i, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(ron_thread_start(
                             &(struct ron_thread_opts){
                                 .name = "shopper", .may_block = true, .main = spend, .arg = &shop},
                             &threads[i], NULL),
                         RON_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        ron_thread_join(threads[i]);
    }
    assert_int_equal(ron_stat_get(&shop.kept), 30000);
    wlt_daily_free(shop.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_daily__first_touch__is_asked_for),
        cmocka_unit_test(test_wlt_daily__ceiling__is_reached_and_not_passed),
        cmocka_unit_test(test_wlt_daily__largest_amounts__do_not_wrap),
        cmocka_unit_test(test_wlt_daily__settled__refused_is_given_back_and_nothing_else),
        cmocka_unit_test(test_wlt_daily__unknown_end__asks_again_before_it_refuses),
        cmocka_unit_test(test_wlt_daily__old_news__change_nothing),
        cmocka_unit_test(test_wlt_daily__walk__one_at_a_time_and_on_from_there),
        cmocka_unit_test(test_wlt_daily__forget_all__asked_for_again),
        cmocka_unit_test(test_wlt_daily__next_day__begins_anew),
        cmocka_unit_test(test_wlt_daily__day_before__is_counted_on_the_new_one),
        cmocka_unit_test(test_wlt_daily__no_room__longest_unused_goes_and_none_in_flight),
        cmocka_unit_test(test_wlt_daily__bad_sizes__are_refused),
        cmocka_unit_test(test_wlt_daily__random_steps_with_room__as_the_reference),
        cmocka_unit_test(test_wlt_daily__random_steps_without_room__as_the_reference),
        cmocka_unit_test(test_wlt_daily__many_threads__exactly_the_ceiling_is_spent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
