/* SPDX-License-Identifier: Apache-2.0 */
/* scn_watch.c - the latest value: late subscribers, and a set between the look and the sleep.
 *
 * Expected in every schedule: values may be skipped, the last one is never missed, a value and its
 * version belong together, versions only rise. */
#include "ron/base/assert.h"
#include "ron/chan/watch.h"
#include "scenario/scn.h"

struct board {
    struct ron_registry *registry;
    struct ron_watch *watch;
    uint64_t last; /* the value after which nothing is set */
};

static void board_init(struct board *b, uint64_t first, uint64_t last)
{
    struct ron_watch_opts opts = {
        .name = "board", .producers = "scenario", .consumers = "scenario", .value = first};
    enum ron_rc rc = ron_registry_new(&b->registry, NULL);

    RON_ASSERT(rc == RON_OK);
    opts.registry = b->registry;
    rc = ron_watch_new(&opts, &b->watch, NULL);
    RON_ASSERT(rc == RON_OK);
    b->last = last;
}

static void board_done(struct board *b)
{
    ron_watch_free(b->watch);
    ron_registry_free(b->registry);
}

/* Values are their versions minus one, so that a wrong pair shows. */
static void set_all(void *arg)
{
    struct board *b = arg;

    for (uint64_t v = 1; v <= b->last; v++) {
        ron_watch_set(b->watch, v);
    }
}

static void follow(void *arg)
{
    struct board *b = arg;
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(b->watch, &seen);

    SCN_CHECK(value + 1 == seen);
    scn_saw_if(value == b->last, 0);
    while (value != b->last) {
        uint64_t before = seen;
        enum ron_rc rc = ron_watch_wait(b->watch, seen, ron_deadline_never(), &value, &seen);

        SCN_CHECK(rc == RON_OK);
        SCN_CHECK(seen > before);
        scn_saw_if(seen == before + 2, 1);
        scn_saw_if(before == b->last, 2);
        SCN_CHECK(value + 1 == seen);
    }
}

/* The watch is already true when the subscriber comes: it must not wait at all. */
static void subscribe_late(void *arg)
{
    struct board *b = arg;
    uint64_t seen = 0;
    uint64_t value = 0;
    enum ron_rc rc = ron_watch_wait(b->watch, seen, ron_deadline_never(), &value, &seen);

    SCN_CHECK(rc == RON_OK);
    SCN_CHECK(value == 1);
    SCN_CHECK(seen == 1);
    SCN_CHECK(ron_watch_value(b->watch) == 1);
}

static void watch_late_subscriber(void)
{
    struct board b;

    board_init(&b, 1, 1);
    scn_spawn("subscriber", subscribe_late, &b);
    scn_spawn("subscriber", subscribe_late, &b);
    scn_join_all();
    board_done(&b);
}

/* The sets fall before, between and after the followers' looks and sleeps. */
static void watch_set_race(void)
{
    struct board b;

    board_init(&b, 0, scn_scale(2, 1000000));
    scn_spawn("follower", follow, &b);
    scn_spawn("follower", follow, &b);
    scn_spawn("setter", set_all, &b);
    scn_join_all();
    scn_count(b.last);
    board_done(&b);
}

/* A wait that gives up leaves nothing behind, and the value is still there to be read. */
static void follow_timed(void *arg)
{
    struct board *b = arg;
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(b->watch, &seen);

    while (value != b->last) {
        struct ron_deadline soon = ron_deadline_after_ns(ron_mono_ns(), scn_scale(10000000, 20000));
        enum ron_rc rc = ron_watch_wait(b->watch, seen, soon, &value, &seen);

        SCN_CHECK(rc == RON_OK || rc == RON_TIMEOUT);
        scn_saw_if(rc == RON_TIMEOUT, 0);
        scn_saw_if(rc == RON_OK, 1);
        SCN_CHECK(value + 1 == seen);
    }
}

static void watch_timed(void)
{
    struct board b;

    board_init(&b, 0, scn_scale(2, 1000000));
    scn_spawn("follower", follow_timed, &b);
    scn_spawn("setter", set_all, &b);
    scn_join_all();
    scn_count(b.last);
    board_done(&b);
}

const struct scn scn_list[] = {
    {.name = "watch_late_subscriber", .body = watch_late_subscriber, .stress_rounds = 3000},
    {.name = "watch_set_race",
     .body = watch_set_race,
     .must_see = {"a follower that came after the last set", "a skipped value", "every value seen"},
     .stress_messages = 1000000},
    {.name = "watch_timed",
     .body = watch_timed,
     .timeouts_max = 1,
     .must_see = {"a wait that timed out", "a wait that saw the set"},
     .stress_messages = 1000000},
    {0},
};
