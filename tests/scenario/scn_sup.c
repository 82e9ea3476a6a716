/* SPDX-License-Identifier: Apache-2.0 */
/* scn_sup.c - the supervisor's stop racing the ends of its children.
 *
 * Expected in every schedule: every start has its stop; a child that fails is restarted only while
 * the supervisor runs; the stop always ends in Stopped with nothing aborted or leaked; stopping
 * twice is stopping once. */
#include "scenario/scn_task.h"
#include "sync/sync_testing.h"
#include "task/task_testing.h"

enum { RESTART_MS = 5 };

/* What the child does in its first life and in the later ones. */
enum act {
    ACT_WAIT, /* until it is asked to stop */
    ACT_END,
    ACT_FAIL,
    ACT_IGNORE, /* the request to stop; only a cancel ends it */
};

struct child {
    enum act first;
    enum act later;
    uint32_t starts;
    uint32_t stops;
    bool cancelled;
};

static enum ron_rc child_start(struct ron_task *t, void *arg)
{
    struct child *c = arg;

    (void)t;
    SCN_CHECK(c->starts == c->stops); /* The life before has ended. */
    c->starts++;
    return RON_OK;
}

static enum ron_rc child_run(struct ron_task *t, void *arg)
{
    struct child *c = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    enum act act = c->starts == 1 ? c->first : c->later;
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);

    if (act == ACT_FAIL) {
        return RON_IO;
    }
    while (act == ACT_IGNORE && !c->cancelled) {
        c->cancelled = ron_park_until(ron_deadline_never(), "a cancel") == RON_CANCELLED;
    }
    while (act == ACT_WAIT && value != RON_TASK_STOP) {
        enum ron_rc rc = ron_watch_wait(stop, seen, ron_deadline_never(), &value, &seen);

        SCN_CHECK(rc == RON_OK);
    }
    return c->cancelled ? RON_CANCELLED : RON_OK;
}

static void child_stop(struct ron_task *t, void *arg)
{
    struct child *c = arg;

    (void)t;
    c->stops++;
    SCN_CHECK(c->starts == c->stops);
}

struct stopper {
    struct ron_sup *sup;
    struct ron_task *child; /* NULL, or stopped alone first */
    uint32_t times;
    uint32_t delay_ms; /* 0, or the time of the first restart: then either may come first */
};

static void ask_stop(void *arg)
{
    struct stopper *s = arg;
    struct ron_deadline start = ron_deadline_after_ms(ron_mono_ns(), s->delay_ms);

    while (!ron_deadline_expired(start, ron_mono_ns())) {
        RON_IGNORE(ron_park_until(start, "the right moment")); /* Looked at again above. */
    }
    if (s->child != NULL) {
        ron_sup_request_stop_task(s->sup, s->child);
    }
    for (uint32_t i = 0; i < s->times; i++) {
        ron_sup_request_stop(s->sup);
    }
}

/* Runs the child and the stopper against each other, checks what always holds, and returns the
 * child. */
static struct child race(enum act first, enum act later, bool alone_first, uint32_t times,
                         int exit_code)
{
    struct scn_house h;
    struct child child = {.first = first, .later = later};
    struct stopper stopper = {.times = times, .delay_ms = first == ACT_FAIL ? RESTART_MS : 0};
    struct ron_task_def def = {.name = "child",
                               .mode = RON_TASK_BLOCKING,
                               .restart = {.base_ms = RESTART_MS},
                               .start = child_start,
                               .run = child_run,
                               .stop = child_stop,
                               .arg = &child};
    struct ron_task *t;

    scn_house_init(&h, 1);
    t = scn_house_add(&h, &def);
    stopper.sup = h.sup;
    stopper.child = alone_first ? t : NULL;
    scn_spawn("stopper", ask_stop, &stopper);
    scn_house_run(&h, exit_code);
    scn_join_all();
    scn_house_done(&h);
    SCN_CHECK(ron_threads_live() == 0);
    SCN_CHECK(child.starts == child.stops);
    SCN_CHECK(child.starts >= 1);
    SCN_CHECK(child.starts <= (first == ACT_FAIL ? 2 : 1));
    return child;
}

static void sup_stop_waiting_child(void)
{
    race(ACT_WAIT, ACT_WAIT, false, 1, RON_EXIT_DRAINED);
}

static void sup_stop_child_exit(void)
{
    race(ACT_END, ACT_END, false, 1, RON_EXIT_DRAINED);
}

static void sup_stop_child_failure(void)
{
    struct child child = race(ACT_FAIL, ACT_WAIT, false, 1, RON_EXIT_DRAINED);

    scn_saw_if(child.starts == 1, 0);
    scn_saw_if(child.starts == 2, 1);
}

static void sup_double_stop(void)
{
    race(ACT_WAIT, ACT_WAIT, false, 2, RON_EXIT_DRAINED);
}

static void sup_stop_one_then_all(void)
{
    struct child child = race(ACT_FAIL, ACT_WAIT, true, 1, RON_EXIT_DRAINED);

    scn_saw_if(child.starts == 1, 0);
    scn_saw_if(child.starts == 2, 1);
}

/* The child does not listen: the deadline passes, it is cancelled, counted and joined. */
static void sup_abort(void)
{
    struct child child = race(ACT_IGNORE, ACT_IGNORE, false, 1, RON_EXIT_ABORTED);

    SCN_CHECK(child.cancelled);
}

const struct scn scn_list[] = {
    {.name = "sup_stop_waiting_child", .body = sup_stop_waiting_child, .stress_rounds = 500},
    {.name = "sup_stop_child_exit", .body = sup_stop_child_exit, .stress_rounds = 500},
    {.name = "sup_stop_child_failure",
     .body = sup_stop_child_failure,
     .must_see = {"the stop before the restart", "the stop after the restart"},
     .stress_rounds = 500},
    {.name = "sup_double_stop",
     .body = sup_double_stop,
     .no_spurious = "explored in sup_stop_waiting_child",
     .stress_rounds = 500},
    {.name = "sup_stop_one_then_all",
     .body = sup_stop_one_then_all,
     .must_see = {"the stop before the restart", "the stop after the restart"},
     .stress_rounds = 500},
    {.name = "sup_abort",
     .body = sup_abort,
     .no_spurious = "explored in sup_stop_waiting_child",
     .stress_rounds = 2},
    {0},
};
