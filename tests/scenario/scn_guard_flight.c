/* SPDX-License-Identifier: Apache-2.0 */
/* scn_guard_flight.c - single flight: joins, ends, deadlines and abandonment racing each other.
 *
 * Expected in every schedule: the work of a key never runs twice at once, nobody waits for ever, a
 * follower reads what its leader wrote, leadership that is handed over is taken or handed on, and
 * every value is disposed of once, after the last look. The plain fields are what the flight is to
 * order: two leaders at once, or a look without ordering, is a report of ThreadSanitizer. */
#include "guard/guard_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/guard/flight.h"
#include "scenario/scn.h"

enum { PARTIES = 3 };

struct result {
    uint32_t number; /* written by the leader before the end */
    bool dropped;
};

struct shared {
    struct ron_flights *flights;
    uint32_t rounds;
    bool abandons; /* leaders leave now and then without an end */
    bool fails;    /* leaders fail */
    bool timed;    /* followers have a deadline */
    bool working;  /* plain: by the leader of the only key */
    uint32_t done; /* plain: flights worked on so far */
    struct ron_stat timeouts, handovers, values, failures, cancels;
};

struct party {
    struct shared *s;
    uint32_t id;
};

static void drop_result(void *value)
{
    struct result *r = value;

    SCN_CHECK(!r->dropped);
    r->dropped = true;
    ron_free(r);
}

static uint64_t plain_rand(const struct ron_env *env)
{
    (void)env;
    return 42; /* The hash key only spreads; one key needs no spreading. */
}

/* What the leader does: alone, or the check fails. */
static void work(struct party *p, struct ron_flight_ticket *t, uint32_t round)
{
    struct shared *s = p->s;
    struct result *r;

    SCN_CHECK(!s->working);
    s->working = true;
    s->done++;
    if (s->abandons && (p->id + round) % 2 == 0) {
        s->working = false;
        return; /* leaves as it is */
    }
    if (s->fails) {
        s->working = false;
        ron_flight_fail(t, RON_IO);
        return;
    }
    r = ron_alloc_zero(sizeof *r);
    RON_ASSERT(r != NULL);
    r->number = s->done;
    s->working = false;
    ron_flight_finish(t, r);
}

static void follow(struct party *p, struct ron_flight_ticket *t, uint32_t round)
{
    struct shared *s = p->s;
    struct ron_deadline deadline = ron_deadline_never();
    struct ron_flight_news news;
    enum ron_rc rc;

    if (s->timed) {
        deadline = ron_deadline_after_ns(ron_mono_ns(), scn_scale(10000000, 2000));
    }
    rc = ron_flight_wait(t, deadline, &news);
    if (rc == RON_TIMEOUT) {
        SCN_CHECK(s->timed);
        ron_stat_add(&s->timeouts, 1);
        return;
    }
    SCN_CHECK(rc == RON_OK);
    if (news.event == RON_FLIGHT_LEAD) {
        ron_stat_add(&s->handovers, 1);
        work(p, t, round);
    } else if (news.event == RON_FLIGHT_DONE) {
        const struct result *r = news.value;

        SCN_CHECK(r->number > 0);
        SCN_CHECK(!r->dropped);
        ron_stat_add(&s->values, 1);
    } else {
        SCN_CHECK(news.failure == (s->fails ? RON_IO : RON_CANCELLED));
        ron_stat_add(news.failure == RON_IO ? &s->failures : &s->cancels, 1);
    }
}

static void take_part(void *arg)
{
    struct party *p = arg;

    for (uint32_t round = 0; round < p->s->rounds; round++) {
        struct ron_flight_ticket t;
        enum ron_flight_role role;
        enum ron_rc rc = ron_flight_join(p->s->flights, "key", 3, &t, &role);

        SCN_CHECK(rc == RON_OK);
        if (role == RON_FLIGHT_LEADER) {
            work(p, &t, round);
        } else {
            follow(p, &t, round);
        }
        ron_flight_leave(&t);
    }
}

static void shared_init(struct shared *s, bool hand_over)
{
    const struct ron_env env = {.rand_u64 = plain_rand};
    enum ron_rc rc = ron_flights_new(&(struct ron_flights_opts){.env = &env,
                                                                .flights_max = PARTIES,
                                                                .followers_max = PARTIES,
                                                                .hand_over = hand_over,
                                                                .drop_value = drop_result},
                                     &s->flights, NULL);

    RON_ASSERT(rc == RON_OK);
    s->rounds = scn_scale(1, 60000);
}

static void shared_done(struct shared *s)
{
    struct ron_flights_stats stats;

    ron_flights_get_stats(s->flights, &stats);
    SCN_CHECK(stats.running == 0);
    SCN_CHECK(stats.led + stats.coalesced == (uint64_t)PARTIES * s->rounds);
    SCN_CHECK(stats.busy_rejections_total == 0);
    scn_count(stats.led + stats.coalesced);
    ron_flights_free(s->flights); /* asserts that everybody has left */
}

static void run(struct shared *s, bool hand_over)
{
    /* Names of their own: they behave differently, so the explorer must try every order. */
    static const char *const names[PARTIES] = {"party-0", "party-1", "party-2"};
    struct party parties[PARTIES];

    shared_init(s, hand_over);
    for (uint32_t i = 0; i < PARTIES; i++) {
        parties[i] = (struct party){s, i};
        scn_spawn(names[i], take_part, &parties[i]);
    }
    scn_join_all();
    SCN_CHECK(!s->working);
}

static void flight_once(void)
{
    struct shared s = {0};

    run(&s, true);
    scn_saw_if(s.done == 1, 0);
    scn_saw_if(s.done == PARTIES, 1);
    scn_saw_if(ron_stat_get(&s.values) == 1, 2);
    shared_done(&s);
}

static void flight_timed(void)
{
    struct shared s = {.timed = true};

    run(&s, true);
    scn_saw_if(ron_stat_get(&s.timeouts) > 0, 0);
    scn_saw_if(ron_stat_get(&s.values) > 0, 1);
    shared_done(&s);
}

static void flight_hand_over(void)
{
    struct shared s = {.abandons = true, .timed = true};
    struct ron_flights_stats stats;

    run(&s, true);
    ron_flights_get_stats(s.flights, &stats);
    scn_saw_if(ron_stat_get(&s.handovers) > 0, 0);
    /* Made leader, but its deadline came first and it left without knowing. */
    scn_saw_if(stats.handovers > ron_stat_get(&s.handovers), 1);
    scn_saw_if(ron_stat_get(&s.handovers) == 2, 2);
    scn_saw_if(ron_stat_get(&s.values) > 0, 3);
    shared_done(&s);
}

/* Without deadlines: an heir that is not woken waits for ever. */
static void flight_heir_woken(void)
{
    struct shared s = {.abandons = true};

    run(&s, true);
    scn_saw_if(ron_stat_get(&s.handovers) == 2, 0);
    scn_saw_if(ron_stat_get(&s.values) > 0, 1);
    shared_done(&s);
}

static void flight_cancel(void)
{
    struct shared s = {.abandons = true};

    run(&s, false);
    scn_saw_if(ron_stat_get(&s.cancels) > 0, 0);
    scn_saw_if(ron_stat_get(&s.values) > 0, 1);
    shared_done(&s);
}

static void flight_fail(void)
{
    struct shared s = {.fails = true};

    run(&s, true);
    scn_saw_if(ron_stat_get(&s.failures) == 2, 0);
    scn_saw_if(ron_stat_get(&s.failures) == 0, 1);
    shared_done(&s);
}

const struct scn scn_list[] = {
    {.name = "flight_once",
     .body = flight_once,
     .must_see = {"all three share one flight", "three flights one after the other",
                  "a follower of one of two flights"}},
    {.name = "flight_timed",
     .body = flight_timed,
     .timeouts_max = 1,
     .must_see = {"a follower whose deadline passed", "a follower with a value"}},
    {.name = "flight_hand_over",
     .body = flight_hand_over,
     .timeouts_max = 1,
     .must_see = {"leadership handed over", "leadership handed on unnoticed",
                  "leadership handed over twice", "a value from an heir"}},
    {.name = "flight_heir_woken",
     .body = flight_heir_woken,
     .must_see = {"leadership handed over twice", "a value from an heir"}},
    {.name = "flight_cancel",
     .body = flight_cancel,
     .must_see = {"followers of an abandoned flight", "followers of a finished one"}},
    {.name = "flight_fail",
     .body = flight_fail,
     .must_see = {"two followers of a failure", "no follower at all"}},
    {0},
};
