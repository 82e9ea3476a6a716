/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: timers fire exactly when and in the order that the header promises, whatever callbacks do.
 * Method: a random driver with a naive model (an array searched for the smallest deadline). Each
 * callback asserts that it is the one the model expects next, then arms and cancels at random. */
#include "support/support.h"

#include "base/wheel_testing.h"
#include "ron/base/wheel.h"

#define TIMERS 40

struct entry {
    struct ron_timer timer;
    bool armed;
    bool late;         /* armed at or before the time that counted: fires in the next advance */
    uint64_t armed_in; /* number of the advance during or after which it was armed */
    uint64_t order;    /* of arming */
};

static struct {
    struct ron_wheel wheel;
    struct ron_rand rand;
    struct entry entries[TIMERS];
    uint64_t now_ms;
    uint64_t target_ms;
    bool advancing;
    uint64_t advance_count;
    uint64_t order;
    size_t fired;
    int callback_budget; /* operations that callbacks may still do in this advance */
} driver;

/* The entry that must fire next in the advance in progress, or NULL. */
static struct entry *model_next(void)
{
    struct entry *next = NULL;

    for (size_t i = 0; i < TIMERS; i++) {
        struct entry *e = &driver.entries[i];

        if (!e->armed || (e->late && e->armed_in == driver.advance_count) ||
            (!e->late && e->timer.at_ms > driver.target_ms)) {
            continue;
        }
        if (next == NULL || (e->late && !next->late)) {
            next = e;
        } else if (e->late == next->late) {
            bool earlier = e->timer.at_ms < next->timer.at_ms;
            bool equal = e->timer.at_ms == next->timer.at_ms;

            /* Late ones go by order of arming alone, the others by deadline first. */
            if (e->late ? e->order < next->order : earlier || (equal && e->order < next->order)) {
                next = e;
            }
        }
    }
    return next;
}

static uint64_t model_earliest(void)
{
    uint64_t earliest = UINT64_MAX;

    for (size_t i = 0; i < TIMERS; i++) {
        const struct entry *e = &driver.entries[i];

        if (e->armed && e->timer.at_ms < earliest) {
            earliest = e->timer.at_ms;
        }
    }
    return earliest;
}

static size_t model_armed(void)
{
    size_t count = 0;

    for (size_t i = 0; i < TIMERS; i++) {
        count += driver.entries[i].armed;
        assert_int_equal(driver.entries[i].armed, ron_timer_armed(&driver.entries[i].timer));
    }
    return count;
}

static void arm(struct entry *e, uint64_t at_ms)
{
    uint64_t limit_ms = driver.advancing ? driver.target_ms : driver.now_ms;

    ron_wheel_arm(&driver.wheel, &e->timer, at_ms);
    e->armed = true;
    e->late = at_ms <= limit_ms;
    e->armed_in = driver.advance_count;
    e->order = driver.order++;
}

static void cancel(struct entry *e)
{
    assert_int_equal(ron_wheel_cancel(&driver.wheel, &e->timer), e->armed);
    e->armed = false;
}

/* A time around now: mostly near, sometimes exactly now, sometimes far or long ago. */
static uint64_t random_time(void)
{
    uint64_t delta = support_rand_edgy_u64(&driver.rand) >> ron_rand_below(&driver.rand, 64);

    switch (ron_rand_below(&driver.rand, 8)) {
    case 0:
        return driver.now_ms - (delta < driver.now_ms ? delta : driver.now_ms);
    case 1:
        return driver.now_ms;
    case 2:
        return UINT64_MAX - ron_rand_below(&driver.rand, 3);
    case 3: /* collide with another timer */
        return driver.entries[ron_rand_below(&driver.rand, TIMERS)].timer.at_ms;
    default:
        return delta > UINT64_MAX - driver.now_ms ? UINT64_MAX : driver.now_ms + delta;
    }
}

static void random_operation(void)
{
    struct entry *e = &driver.entries[ron_rand_below(&driver.rand, TIMERS)];

    if (ron_rand_chance(&driver.rand, 1, 4)) {
        cancel(e);
    } else {
        arm(e, random_time());
    }
}

static void on_fire(struct ron_timer *timer)
{
    struct entry *e = RON_CONTAINER_OF(timer, struct entry, timer);

    assert_true(driver.advancing);
    assert_ptr_equal(e, model_next());
    assert_true(timer->at_ms <= driver.target_ms);
    assert_false(ron_timer_armed(timer));
    e->armed = false;
    driver.fired++;
    while (driver.callback_budget > 0 && ron_rand_chance(&driver.rand, 1, 2)) {
        driver.callback_budget--;
        random_operation();
    }
    ron_wheel_assert(&driver.wheel);
}

static void advance(uint64_t now_ms)
{
    size_t fired_before = driver.fired;

    driver.target_ms = now_ms > driver.now_ms ? now_ms : driver.now_ms;
    driver.advancing = true;
    driver.advance_count++;
    driver.callback_budget = 100;
    size_t fired = ron_wheel_advance(&driver.wheel, now_ms);

    assert_int_equal(fired, driver.fired - fired_before);
    assert_null(model_next());
    driver.advancing = false;
    driver.now_ms = driver.target_ms;
    assert_true(driver.wheel.now_ms == driver.now_ms);
    assert_int_equal(ron_wheel_armed(&driver.wheel), model_armed());
    ron_wheel_assert(&driver.wheel);
}

static void start(uint64_t now_ms)
{
    ron_wheel_init(&driver.wheel, now_ms);
    driver.now_ms = now_ms;
    driver.advance_count = 0;
    driver.order = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        driver.entries[i] = (struct entry){.armed = false};
        ron_timer_init(&driver.entries[i].timer, on_fire);
    }
}

static void cancel_all(void)
{
    for (size_t i = 0; i < TIMERS; i++) {
        cancel(&driver.entries[i]);
    }
    ron_wheel_done(&driver.wheel);
}

static void check_next(void)
{
    uint64_t next_ms = 0;
    bool some = ron_wheel_next_ms(&driver.wheel, &next_ms);
    uint64_t earliest_ms = model_earliest();

    assert_int_equal(some, model_armed() > 0);
    if (some) {
        assert_true(next_ms <= (earliest_ms > driver.now_ms ? earliest_ms : driver.now_ms));
        assert_true(next_ms >= driver.now_ms);
        if (earliest_ms > driver.now_ms) {
            assert_true(next_ms > driver.now_ms); /* nothing due: no reason to wake at once */
        }
    }
}

static void test_wheel__random_use__matches_the_naive_model(void **state)
{
    (void)state;
    driver.rand = support_rand();
    driver.fired = 0;
    for (int episode = 0; episode < 400; episode++) {
        start(episode % 4 == 0 ? 0 : support_rand_edgy_u64(&driver.rand));
        for (int step = 0; step < 100; step++) {
            if (ron_rand_chance(&driver.rand, 1, 5)) {
                advance(random_time());
            } else {
                random_operation();
            }
            check_next();
        }
        advance(UINT64_MAX);
        driver.callback_budget = 0;
        cancel_all();
    }
    assert_true(driver.fired > 1000);
}

static void test_wheel__every_tick__fires_in_the_exact_millisecond(void **state)
{
    (void)state;
    driver.rand = support_rand();
    for (int episode = 0; episode < 20; episode++) {
        uint64_t begin_ms = support_rand_edgy_u64(&driver.rand) >> 1;

        start(begin_ms);
        for (size_t i = 0; i < TIMERS; i++) {
            arm(&driver.entries[i], begin_ms + 1 + ron_rand_below(&driver.rand, 9000));
        }
        for (uint64_t t = 1; t <= 9000; t++) {
            size_t expected = 0;

            for (size_t i = 0; i < TIMERS; i++) {
                expected +=
                    driver.entries[i].armed && driver.entries[i].timer.at_ms == begin_ms + t;
            }
            size_t before = driver.fired;

            driver.target_ms = begin_ms + t;
            driver.advancing = true;
            driver.advance_count++;
            driver.callback_budget = 0;
            assert_int_equal(ron_wheel_advance(&driver.wheel, begin_ms + t), expected);
            driver.advancing = false;
            driver.now_ms = begin_ms + t;
            assert_int_equal(driver.fired - before, expected);
        }
        assert_int_equal(ron_wheel_armed(&driver.wheel), 0);
        ron_wheel_done(&driver.wheel);
    }
}

/* A loop that sleeps until next_ms must need few rounds per timer, however far it is. */
static void test_wheel__sleeping_until_next__makes_progress(void **state)
{
    (void)state;
    driver.rand = support_rand();
    for (int episode = 0; episode < 2000; episode++) {
        uint64_t next_ms = 0;
        size_t rounds = 0;

        start(support_rand_edgy_u64(&driver.rand));
        size_t count = 1 + (size_t)ron_rand_below(&driver.rand, TIMERS);

        for (size_t i = 0; i < count; i++) {
            arm(&driver.entries[i], random_time());
        }
        while (ron_wheel_next_ms(&driver.wheel, &next_ms)) {
            driver.target_ms = next_ms;
            driver.advancing = true;
            driver.advance_count++;
            driver.callback_budget = 0;
            (void)ron_wheel_advance(&driver.wheel, next_ms);
            driver.advancing = false;
            driver.now_ms = next_ms;
            rounds++;
            assert_true(rounds <= count * RON_WHEEL_LEVELS + 1);
        }
        assert_int_equal(model_armed(), 0);
        ron_wheel_done(&driver.wheel);
    }
}

static int plain_fires;

static void count_fire(struct ron_timer *timer)
{
    (void)timer;
    plain_fires++;
}

static void test_wheel__time_going_backwards__is_ignored_and_counted(void **state)
{
    (void)state;
    struct ron_wheel *wheel = &driver.wheel;
    struct ron_timer timer;

    plain_fires = 0;
    ron_wheel_init(wheel, 1000);
    ron_timer_init(&timer, count_fire);
    ron_wheel_arm(wheel, &timer, 1005);
    assert_int_equal(ron_wheel_advance(wheel, 10), 0);
    assert_int_equal(wheel->now_ms, 1000);
    assert_int_equal(wheel->backwards_count, 1);
    assert_int_equal(ron_wheel_advance(wheel, 1004), 0);
    assert_int_equal(ron_wheel_advance(wheel, 1005), 1);
    ron_wheel_arm(wheel, &timer, 3); /* long past: due at once, also when time stands still */
    assert_int_equal(ron_wheel_advance(wheel, 4), 1);
    assert_int_equal(wheel->backwards_count, 2);
    assert_int_equal(plain_fires, 2);
    ron_wheel_done(wheel);
}

static void test_wheel__end_of_time__fires(void **state)
{
    (void)state;
    struct ron_wheel *wheel = &driver.wheel;
    struct ron_timer last;
    struct ron_timer before_last;
    uint64_t next_ms = 0;

    plain_fires = 0;
    ron_wheel_init(wheel, 0);
    ron_timer_init(&last, count_fire);
    ron_timer_init(&before_last, count_fire);
    ron_wheel_arm(wheel, &last, UINT64_MAX);
    ron_wheel_arm(wheel, &before_last, UINT64_MAX - 1);
    assert_int_equal(ron_wheel_advance(wheel, UINT64_MAX - 2), 0);
    assert_true(ron_wheel_next_ms(wheel, &next_ms));
    assert_true(next_ms == UINT64_MAX - 1);
    assert_int_equal(ron_wheel_advance(wheel, UINT64_MAX - 1), 1);
    assert_int_equal(ron_wheel_advance(wheel, UINT64_MAX), 1);
    assert_false(ron_wheel_next_ms(wheel, &next_ms));
    ron_wheel_done(wheel);
}

static void rearm_now(struct ron_timer *timer)
{
    plain_fires++;
    ron_wheel_arm(&driver.wheel, timer, driver.wheel.now_ms);
}

static void test_wheel__rearm_for_now_in_callback__fires_once_an_advance(void **state)
{
    (void)state;
    struct ron_wheel *wheel = &driver.wheel;
    struct ron_timer timer;
    uint64_t next_ms = 0;

    plain_fires = 0;
    ron_wheel_init(wheel, 50);
    ron_timer_init(&timer, rearm_now);
    ron_wheel_arm(wheel, &timer, 60);
    assert_int_equal(ron_wheel_advance(wheel, 100), 1);
    assert_true(ron_wheel_next_ms(wheel, &next_ms));
    assert_int_equal(next_ms, 100);
    assert_int_equal(ron_wheel_advance(wheel, 100), 1);
    assert_int_equal(plain_fires, 2);
    assert_true(ron_wheel_cancel(wheel, &timer));
    assert_false(ron_wheel_cancel(wheel, &timer));
    ron_wheel_done(wheel);
}

static void advance_again(struct ron_timer *timer)
{
    (void)timer;
    (void)ron_wheel_advance(&driver.wheel, 9);
}

static void advance_in_callback(void *arg)
{
    struct ron_timer timer;

    (void)arg;
    ron_wheel_init(&driver.wheel, 0);
    ron_timer_init(&timer, advance_again);
    ron_wheel_arm(&driver.wheel, &timer, 1);
    (void)ron_wheel_advance(&driver.wheel, 5);
}

static void done_with_armed(void *arg)
{
    struct ron_timer timer;

    (void)arg;
    ron_wheel_init(&driver.wheel, 0);
    ron_timer_init(&timer, count_fire);
    ron_wheel_arm(&driver.wheel, &timer, 1);
    ron_wheel_done(&driver.wheel);
}

static void no_callback(void *arg)
{
    struct ron_timer timer;

    (void)arg;
    ron_timer_init(&timer, NULL);
}

static void test_wheel__wrong_use__is_caught(void **state)
{
    (void)state;
    support_death(advance_in_callback, NULL, "advance from a callback");
    support_death(done_with_armed, NULL, "1 timers are still armed");
    support_death(no_callback, NULL, "fire != NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel__random_use__matches_the_naive_model),
        cmocka_unit_test(test_wheel__every_tick__fires_in_the_exact_millisecond),
        cmocka_unit_test(test_wheel__sleeping_until_next__makes_progress),
        cmocka_unit_test(test_wheel__time_going_backwards__is_ignored_and_counted),
        cmocka_unit_test(test_wheel__end_of_time__fires),
        cmocka_unit_test(test_wheel__rearm_for_now_in_callback__fires_once_an_advance),
        cmocka_unit_test(test_wheel__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.wheel", tests, NULL, NULL);
}
