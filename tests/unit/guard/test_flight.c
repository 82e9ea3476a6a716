/* SPDX-License-Identifier: Apache-2.0 */
/* test_flight.c - single flight: one works, all share.
 *
 * Goal: one leader per key at any time, every follower learns how the flight ended or that it leads
 *   now, values are disposed of once and only when nobody looks any more, and the table is bounded.
 * Method: the orders of join, end and leave by hand; random histories of one thread against a model
 *   of plain arrays. Schedules of several threads are in tests/scenario/scn_guard_flight.c.
 */
#include "unit/guard/fixture.h"

#include "guard/guard_testing.h"
#include "ron/base/alloc.h"
#include "ron/guard/flight.h"

static uint32_t dropped[4096]; /* how often each value was disposed of */

static void *value_of(size_t number)
{
    return &dropped[number];
}

static void drop_value(void *value)
{
    ++*(uint32_t *)value;
}

static struct ron_flights *flights_make(uint32_t flights, uint32_t followers, bool hand_over)
{
    static struct virtual_time v;
    struct ron_flights *f = NULL;

    virtual_init(&v);
    memset(dropped, 0, sizeof dropped);
    assert_int_equal(ron_flights_new(&(struct ron_flights_opts){.env = &v.env,
                                                                .flights_max = flights,
                                                                .followers_max = followers,
                                                                .hand_over = hand_over,
                                                                .drop_value = drop_value},
                                     &f, NULL),
                     RON_OK);
    return f;
}

static enum ron_flight_role join(struct ron_flights *f, const char *key,
                                 struct ron_flight_ticket *t)
{
    enum ron_flight_role role = RON_FLIGHT_FOLLOWER;

    assert_int_equal(ron_flight_join(f, key, strlen(key), t, &role), RON_OK);
    return role;
}

struct counting_waker {
    struct ron_waker waker;
    uint32_t woken;
};

static void count_wake(struct ron_waker *w)
{
    RON_CONTAINER_OF(w, struct counting_waker, waker)->woken++;
}

static void test_flight__same_key__one_leads_and_all_get_the_value(void **state)
{
    struct ron_flights *f = flights_make(4, 4, true);
    struct ron_flight_ticket t[3];
    struct counting_waker w = {{count_wake}, 0};
    struct ron_flight_news news = {0};
    struct ron_flights_stats stats;

    (void)state;
    assert_int_equal(join(f, "a", &t[0]), RON_FLIGHT_LEADER);
    assert_int_equal(join(f, "a", &t[1]), RON_FLIGHT_FOLLOWER);
    assert_int_equal(join(f, "a", &t[2]), RON_FLIGHT_FOLLOWER);
    assert_int_equal(ron_flight_poll(&t[1], &w.waker, &news), RON_AGAIN);
    assert_int_equal(ron_flight_wait(&t[2], (struct ron_deadline){1}, &news), RON_TIMEOUT);
    ron_flight_finish(&t[0], value_of(1));
    assert_int_equal(w.woken, 1);
    assert_int_equal(ron_flight_poll(&t[1], &w.waker, &news), RON_OK);
    assert_int_equal(news.event, RON_FLIGHT_DONE);
    assert_ptr_equal(news.value, value_of(1));
    ron_flight_leave(&t[0]);
    ron_flight_leave(&t[1]);
    assert_int_equal(dropped[1], 0); /* t[2] may still look */
    assert_int_equal(ron_flight_wait(&t[2], (struct ron_deadline){1}, &news), RON_OK);
    assert_ptr_equal(news.value, value_of(1));
    ron_flight_leave(&t[2]);
    assert_int_equal(dropped[1], 1);
    ron_flights_get_stats(f, &stats);
    assert_int_equal(stats.led, 1);
    assert_int_equal(stats.coalesced, 2);
    assert_int_equal(stats.finished, 1);
    assert_int_equal(stats.running, 0);
    ron_flights_free(f);
}

static void test_flight__after_the_end__the_next_leads_anew(void **state)
{
    struct ron_flights *f = flights_make(4, 4, true);
    struct ron_flight_ticket first;
    struct ron_flight_ticket second;
    struct ron_flight_ticket other;

    (void)state;
    assert_int_equal(join(f, "a", &first), RON_FLIGHT_LEADER);
    assert_int_equal(join(f, "ab", &other), RON_FLIGHT_LEADER); /* another key */
    ron_flight_finish(&first, value_of(1));
    assert_int_equal(join(f, "a", &second), RON_FLIGHT_LEADER); /* while first still looks */
    ron_flight_finish(&second, value_of(2));
    ron_flight_leave(&second);
    assert_int_equal(dropped[2], 1);
    assert_int_equal(dropped[1], 0);
    ron_flight_leave(&first);
    ron_flight_leave(&other);
    assert_int_equal(dropped[1], 1);
    ron_flights_free(f);
}

static void test_flight__leader_fails__followers_get_its_code(void **state)
{
    struct ron_flights *f = flights_make(4, 4, true);
    struct ron_flight_ticket t[2];
    struct ron_flight_news news = {0};

    (void)state;
    join(f, "a", &t[0]);
    join(f, "a", &t[1]);
    ron_flight_fail(&t[0], RON_IO);
    ron_flight_leave(&t[0]);
    assert_int_equal(ron_flight_wait(&t[1], ron_deadline_never(), &news), RON_OK);
    assert_int_equal(news.event, RON_FLIGHT_FAILED);
    assert_int_equal(news.failure, RON_IO);
    ron_flight_leave(&t[1]);
    ron_flights_free(f);
}

static void test_flight__leader_leaves__the_oldest_follower_leads(void **state)
{
    struct ron_flights *f = flights_make(4, 4, true);
    struct ron_flight_ticket t[4];
    struct counting_waker w[4] = {
        {{count_wake}, 0}, {{count_wake}, 0}, {{count_wake}, 0}, {{count_wake}, 0}};
    struct ron_flight_news news = {0};
    struct ron_flights_stats stats;

    (void)state;
    for (int i = 0; i < 4; i++) {
        join(f, "a", &t[i]);
    }
    for (int i = 1; i < 4; i++) {
        assert_int_equal(ron_flight_poll(&t[i], &w[i].waker, &news), RON_AGAIN);
    }
    ron_flight_leave(&t[0]);
    assert_int_equal(w[1].woken, 1);
    assert_int_equal(w[2].woken, 0);
    ron_flight_leave(&t[1]); /* gives up without having noticed that it leads (F3) */
    assert_int_equal(w[2].woken, 1);
    assert_int_equal(ron_flight_poll(&t[2], &w[2].waker, &news), RON_OK);
    assert_int_equal(news.event, RON_FLIGHT_LEAD);
    assert_int_equal(ron_flight_poll(&t[3], &w[3].waker, &news), RON_AGAIN);
    ron_flight_finish(&t[2], value_of(3));
    assert_int_equal(w[3].woken, 1);
    ron_flight_leave(&t[2]);
    ron_flight_leave(&t[3]);
    ron_flights_get_stats(f, &stats);
    assert_int_equal(stats.handovers, 2);
    assert_int_equal(stats.abandoned, 0);
    assert_int_equal(dropped[3], 1);
    ron_flights_free(f);
}

static void test_flight__leader_leaves_without_hand_over__followers_are_cancelled(void **state)
{
    struct ron_flights *f = flights_make(4, 4, false);
    struct ron_flight_ticket t[2];
    struct ron_flight_ticket next;
    struct ron_flight_news news = {0};
    struct ron_flights_stats stats;

    (void)state;
    join(f, "a", &t[0]);
    join(f, "a", &t[1]);
    ron_flight_leave(&t[0]);
    assert_int_equal(join(f, "a", &next), RON_FLIGHT_LEADER); /* the key is free */
    assert_int_equal(ron_flight_wait(&t[1], ron_deadline_never(), &news), RON_OK);
    assert_int_equal(news.event, RON_FLIGHT_FAILED);
    assert_int_equal(news.failure, RON_CANCELLED);
    ron_flight_leave(&t[1]);
    ron_flight_leave(&next);
    ron_flights_get_stats(f, &stats);
    assert_int_equal(stats.abandoned, 2);
    ron_flights_free(f);
}

static void test_flight__too_many_or_too_long__is_refused(void **state)
{
    struct ron_flights *f = flights_make(2, 1, true);
    struct ron_flight_ticket t[4];
    enum ron_flight_role role;
    char key[RON_FLIGHT_KEY_MAX + 1] = {0};
    struct ron_flights_stats stats;

    (void)state;
    assert_int_equal(ron_flight_join(f, key, 0, &t[0], &role), RON_INVALID);
    assert_int_equal(ron_flight_join(f, key, sizeof key, &t[0], &role), RON_LIMIT);
    assert_int_equal(ron_flight_join(f, key, RON_FLIGHT_KEY_MAX, &t[0], &role), RON_OK);
    join(f, "b", &t[1]);
    join(f, "b", &t[2]);
    assert_int_equal(ron_flight_join(f, "b", 1, &t[3], &role), RON_FULL); /* followers */
    assert_int_equal(ron_flight_join(f, "c", 1, &t[3], &role), RON_FULL); /* flights */
    ron_flight_finish(&t[0], value_of(0));
    assert_int_equal(ron_flight_join(f, "c", 1, &t[3], &role), RON_FULL); /* still looked at */
    ron_flight_leave(&t[0]);
    join(f, "c", &t[3]);
    ron_flights_get_stats(f, &stats);
    assert_int_equal(stats.busy_rejections_total, 3);
    assert_int_equal(stats.running, 2);
    for (int i = 1; i < 4; i++) {
        ron_flight_leave(&t[i]);
    }
    ron_flights_free(f);
}

static void finish_as_follower(void *arg)
{
    struct ron_flight_ticket t[2];

    join(arg, "x", &t[0]);
    join(arg, "x", &t[1]);
    ron_flight_finish(&t[1], value_of(0));
}

static void finish_twice(void *arg)
{
    struct ron_flight_ticket t;

    join(arg, "x", &t);
    ron_flight_finish(&t, value_of(0));
    ron_flight_finish(&t, value_of(0));
}

static void leave_twice(void *arg)
{
    struct ron_flight_ticket t;

    join(arg, "x", &t);
    ron_flight_leave(&t);
    ron_flight_leave(&t);
}

static void free_in_use(void *arg)
{
    struct ron_flight_ticket t;

    join(arg, "x", &t);
    ron_flights_free(arg);
}

static void test_flight__wrong_use__dies(void **state)
{
    struct ron_flights *f = flights_make(2, 2, true);

    (void)state;
    support_death(finish_as_follower, f, "only the leader");
    support_death(finish_twice, f, "ends once");
    support_death(leave_twice, f, "leaves once");
    support_death(free_in_use, f, "has not left");
    ron_flights_free(f);
}

static void test_flights__bad_options__are_refused(void **state)
{
    struct virtual_time v;
    struct ron_flights *f = NULL;
    struct ron_err err = {0};

    (void)state;
    virtual_init(&v);
    assert_int_equal(ron_flights_new(&(struct ron_flights_opts){.env = &v.env,
                                                                .flights_max = RON_FLIGHTS_MAX + 1,
                                                                .drop_value = drop_value},
                                     &f, &err),
                     RON_LIMIT);
    ron_flights_free(NULL);
}

/* ---- random histories ----------------------------------------------------------------------- */

enum { PEOPLE = 24, KEYS = 5, STEPS = 20000, FOLLOWERS = 4, FLIGHTS = 8 };

/* The model: who is in which flight. A flight is a number that is never used again. */
struct person {
    bool present;
    uint32_t flight;
    uint32_t since; /* order of joining */
};

struct model_flight {
    bool running;
    uint32_t leader;
    size_t value;
    enum ron_rc failure;
};

struct crowd {
    struct ron_flights *f;
    struct ron_flight_ticket tickets[PEOPLE];
    struct person people[PEOPLE];
    struct model_flight flights[STEPS];
    uint32_t of_key[KEYS]; /* running flight of a key, or 0 */
    uint32_t flight_count;
    uint32_t values;
    bool hand_over;
};

static uint32_t present_in(const struct crowd *c, uint32_t flight)
{
    uint32_t n = 0;

    for (size_t i = 0; i < PEOPLE; i++) {
        n += c->people[i].present && c->people[i].flight == flight;
    }
    return n;
}

static uint32_t flights_present(const struct crowd *c)
{
    uint32_t n = 0;

    for (uint32_t i = 1; i <= c->flight_count; i++) {
        n += present_in(c, i) > 0;
    }
    return n;
}

static void crowd_join(struct crowd *c, uint32_t who, uint32_t key, uint32_t step)
{
    enum ron_flight_role role = RON_FLIGHT_FOLLOWER;
    uint32_t flight = c->of_key[key];
    bool fits = flight != 0 ? present_in(c, flight) <= FOLLOWERS : flights_present(c) < FLIGHTS;
    enum ron_rc rc = ron_flight_join(c->f, &key, sizeof key, &c->tickets[who], &role);

    assert_int_equal(rc, fits ? RON_OK : RON_FULL);
    if (!fits) {
        return;
    }
    assert_int_equal(role, flight == 0 ? RON_FLIGHT_LEADER : RON_FLIGHT_FOLLOWER);
    if (flight == 0) {
        flight = ++c->flight_count;
        c->of_key[key] = flight;
        c->flights[flight] = (struct model_flight){.running = true, .leader = who};
    }
    c->people[who] = (struct person){true, flight, step};
}

static void model_end(struct crowd *c, uint32_t flight)
{
    c->flights[flight].running = false;
    for (size_t k = 0; k < KEYS; k++) {
        c->of_key[k] = c->of_key[k] == flight ? 0 : c->of_key[k];
    }
}

static void crowd_leave(struct crowd *c, uint32_t who)
{
    uint32_t flight = c->people[who].flight;
    struct model_flight *m = &c->flights[flight];
    uint32_t heir = PEOPLE;

    ron_flight_leave(&c->tickets[who]);
    c->people[who].present = false;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        if (c->people[i].present && c->people[i].flight == flight &&
            (heir == PEOPLE || c->people[i].since < c->people[heir].since)) {
            heir = i;
        }
    }
    if (m->running && m->leader == who) {
        if (c->hand_over && heir != PEOPLE) {
            m->leader = heir;
        } else {
            m->failure = RON_CANCELLED;
            model_end(c, flight);
        }
    }
    if (m->value != 0) {
        assert_int_equal(dropped[m->value], present_in(c, flight) == 0);
    }
}

static void crowd_end(struct crowd *c, uint32_t who, bool fails)
{
    struct model_flight *m = &c->flights[c->people[who].flight];

    if (fails || c->values + 1 >= RON_ARRAY_LEN(dropped)) {
        m->failure = RON_TIMEOUT;
        ron_flight_fail(&c->tickets[who], RON_TIMEOUT);
    } else {
        m->value = ++c->values;
        ron_flight_finish(&c->tickets[who], value_of(m->value));
    }
    model_end(c, c->people[who].flight);
}

static void crowd_look(struct crowd *c, uint32_t who)
{
    const struct model_flight *m = &c->flights[c->people[who].flight];
    struct ron_flight_news news = {0};
    enum ron_rc rc = ron_flight_wait(&c->tickets[who], (struct ron_deadline){1}, &news);

    assert_int_equal(rc, m->running && m->leader != who ? RON_TIMEOUT : RON_OK);
    if (rc != RON_OK) {
        return;
    }
    if (m->running) {
        assert_int_equal(news.event, RON_FLIGHT_LEAD);
    } else if (m->value != 0) {
        assert_int_equal(news.event, RON_FLIGHT_DONE);
        assert_ptr_equal(news.value, value_of(m->value));
        assert_int_equal(dropped[m->value], 0);
    } else {
        assert_int_equal(news.event, RON_FLIGHT_FAILED);
        assert_int_equal(news.failure, m->failure);
    }
}

static void crowd_run(struct crowd *c, struct ron_rand *rand)
{
    for (uint32_t step = 0; step < STEPS / 10; step++) {
        uint32_t who = (uint32_t)ron_rand_below(rand, PEOPLE);
        const struct model_flight *m = &c->flights[c->people[who].flight];
        uint64_t dice = ron_rand_below(rand, 10);

        if (!c->people[who].present) {
            crowd_join(c, who, (uint32_t)ron_rand_below(rand, KEYS), step);
        } else if (dice < 3) {
            crowd_leave(c, who);
        } else if (dice < 6 && m->running && m->leader == who) {
            crowd_end(c, who, dice == 3);
        } else {
            crowd_look(c, who);
        }
    }
    for (uint32_t who = 0; who < PEOPLE; who++) {
        if (c->people[who].present) {
            crowd_leave(c, who);
        }
    }
}

static void test_flight__random_histories__as_the_model(void **state)
{
    static struct crowd c;
    struct ron_rand rand = support_rand();
    uint64_t handovers = 0;
    uint64_t finished = 0;
    uint64_t refused = 0;

    (void)state;
    for (int run = 0; run < 20; run++) {
        struct ron_flights_stats stats;

        memset(&c, 0, sizeof c);
        c.hand_over = run % 2 == 0;
        c.f = flights_make(FLIGHTS, FOLLOWERS, c.hand_over);
        crowd_run(&c, &rand);
        ron_flights_get_stats(c.f, &stats);
        assert_int_equal(stats.running, 0);
        assert_int_equal(stats.led, c.flight_count);
        assert_int_equal(stats.finished, c.values);
        handovers += stats.handovers;
        finished += stats.finished;
        refused += stats.busy_rejections_total;
        for (uint32_t i = 1; i <= c.values; i++) {
            assert_int_equal(dropped[i], 1);
        }
        ron_flights_free(c.f);
    }
    assert_true(handovers > 100);
    assert_true(finished > 100);
    assert_true(refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flight__same_key__one_leads_and_all_get_the_value),
        cmocka_unit_test(test_flight__after_the_end__the_next_leads_anew),
        cmocka_unit_test(test_flight__leader_fails__followers_get_its_code),
        cmocka_unit_test(test_flight__leader_leaves__the_oldest_follower_leads),
        cmocka_unit_test(test_flight__leader_leaves_without_hand_over__followers_are_cancelled),
        cmocka_unit_test(test_flight__too_many_or_too_long__is_refused),
        cmocka_unit_test(test_flight__wrong_use__dies),
        cmocka_unit_test(test_flights__bad_options__are_refused),
        cmocka_unit_test(test_flight__random_histories__as_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
