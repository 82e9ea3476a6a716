/* SPDX-License-Identifier: Apache-2.0 */
/* test_seeded.c - bugs put here on purpose, which the explorer must find.
 *
 * Goal: show that weave finds the classic mistakes of hand-written queues, and that the tape it
 * prints fails again in the same way. Method: each case exists twice, wrong and right. The wrong
 * one must be found within the default bound, its tape must survive printing, parsing and a replay
 * in a fresh process; the right one, which differs in a line or two, must pass every schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/weave/weave.h"
#include "model/weave/weave_test.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum { TAPE_TEXT_MAX = 4096, THREADS_MAX = 4 };

/* ---- one condition for both sides, and a signal where a broadcast is needed ------------------ */

/* A queue with one place. The signal may wake a thread of the side that cannot use it, and is then
 * lost. */
struct queue {
    bool right;
    struct ron_mutex mu;
    struct ron_cond changed;
    uint32_t count;
    uint32_t put;
    uint32_t got;
};

static void tell(struct queue *q)
{
    if (q->right) {
        ron_cond_broadcast(&q->changed);
    } else {
        ron_cond_signal(&q->changed); /* The bug. */
    }
}

static void put_one(void *arg)
{
    struct queue *q = arg;

    ron_mutex_lock(&q->mu);
    while (q->count == 1) {
        RON_IGNORE(ron_cond_wait_until(&q->changed, &q->mu, ron_deadline_never()));
    }
    q->count++;
    q->put++;
    tell(q);
    ron_mutex_unlock(&q->mu);
}

static void get_one(void *arg)
{
    struct queue *q = arg;

    ron_mutex_lock(&q->mu);
    while (q->count == 0) {
        RON_IGNORE(ron_cond_wait_until(&q->changed, &q->mu, ron_deadline_never()));
    }
    q->count--;
    q->got++;
    tell(q);
    ron_mutex_unlock(&q->mu);
}

static void shared_condition(void *arg)
{
    struct queue q = {.right = arg != NULL};
    struct ron_thread *threads[THREADS_MAX];

    ron_mutex_init(&q.mu, RON_RANK_LEAF, "queue");
    ron_cond_init(&q.changed);
    threads[0] = start("getter", get_one, &q);
    threads[1] = start("getter", get_one, &q);
    threads[2] = start("putter", put_one, &q);
    threads[3] = start("putter", put_one, &q);
    for (int i = 0; i < THREADS_MAX; i++) {
        ron_thread_join(threads[i]);
    }
    RON_ASSERT(q.put == 2);
    RON_ASSERT(q.got == 2);
    ron_cond_done(&q.changed);
    ron_mutex_done(&q.mu);
}

/* ---- the look outside of the lock ------------------------------------------------------------ */

/* The set and the signal may fall between the look and the sleep. */
struct gate {
    bool right;
    struct ron_mutex mu;
    struct ron_cond opened;
    struct ron_au32 open;
};

static void pass_gate(void *arg)
{
    struct gate *g = arg;
    bool must_wait = ron_au32_load(&g->open) == 0;

    ron_mutex_lock(&g->mu);
    while (must_wait) {
        if (g->right && ron_au32_load(&g->open) != 0) { /* What is missing in the wrong one. */
            break;
        }
        RON_IGNORE(ron_cond_wait_until(&g->opened, &g->mu, ron_deadline_never()));
        must_wait = ron_au32_load(&g->open) == 0;
    }
    ron_mutex_unlock(&g->mu);
}

static void open_gate(void *arg)
{
    struct gate *g = arg;

    ron_mutex_lock(&g->mu);
    ron_au32_store(&g->open, 1);
    ron_cond_signal(&g->opened);
    ron_mutex_unlock(&g->mu);
}

static void look_then_sleep(void *arg)
{
    struct gate g = {.right = arg != NULL};
    struct ron_thread *passer;
    struct ron_thread *opener;

    ron_mutex_init(&g.mu, RON_RANK_LEAF, "gate");
    ron_cond_init(&g.opened);
    passer = start("passer", pass_gate, &g);
    opener = start("opener", open_gate, &g);
    ron_thread_join(passer);
    ron_thread_join(opener);
    ron_cond_done(&g.opened);
    ron_mutex_done(&g.mu);
}

/* ---- a waiter that is gone when it is woken -------------------------------------------------- */

/* A waiter leaves its node in the lot and parks. The waker takes the node out under the lock and
 * then, without it, marks and wakes; meanwhile the waiter may have timed out, seen itself taken,
 * and freed the node. */
struct node {
    struct ron_thread *thread;
    struct ron_au32 woken;
};

struct lot {
    bool right;
    bool plain; /* the wrong one touches the node only by a plain read */
    struct ron_mutex mu;
    struct node *waiting; /* guarded by mu */
};

static void wait_in_lot(void *arg)
{
    struct lot *lot = arg;
    struct node *n = ron_alloc_zero(sizeof *n);

    RON_ASSERT(n != NULL);
    n->thread = ron_thread_self();
    ron_mutex_lock(&lot->mu);
    lot->waiting = n;
    ron_mutex_unlock(&lot->mu);
    RON_IGNORE(ron_park_until(ron_deadline_after_ms(ron_mono_ns(), 10), "lot"));
    ron_mutex_lock(&lot->mu);
    if (lot->waiting == n) {
        lot->waiting = NULL;
    }
    ron_mutex_unlock(&lot->mu);
    ron_free(n); /* Right only if nobody else can still have it. */
}

static void wake_lot(void *arg)
{
    struct lot *lot = arg;
    struct ron_thread *thread = NULL;
    struct node *n;

    ron_mutex_lock(&lot->mu);
    n = lot->waiting;
    lot->waiting = NULL;
    if (n != NULL && lot->right) {
        ron_au32_store(&n->woken, 1);
        thread = n->thread; /* Thread records are never freed, so this may be used later. */
    }
    ron_mutex_unlock(&lot->mu);
    if (n != NULL && !lot->right) {
        if (!lot->plain) {
            ron_au32_store(&n->woken, 1); /* The bug: the node may be gone. */
        }
        thread = n->thread; /* The same. */
    }
    if (thread != NULL) {
        ron_unpark(thread);
    }
}

static void run_lot(bool right, bool plain)
{
    struct lot lot = {.right = right, .plain = plain};
    struct ron_thread *waiter;
    struct ron_thread *waker;

    ron_mutex_init(&lot.mu, RON_RANK_LEAF, "lot");
    waiter = start("waiter", wait_in_lot, &lot);
    waker = start("waker", wake_lot, &lot);
    ron_thread_join(waiter);
    ron_thread_join(waker);
    ron_mutex_done(&lot.mu);
}

static void waiter_gone(void *arg)
{
    run_lot(arg != NULL, false);
}

static void waiter_gone_plain(void *arg)
{
    run_lot(arg != NULL, true);
}

/* ---- finding, printing, replaying ------------------------------------------------------------ */

static struct weave_result found;
static struct weave_result again;
static struct weave_tape tape;

static const struct weave_opts defaults = {
    .mode = WEAVE_DFS, .preemptions_max = 2, .spurious_max = 1, .timeouts_max = 1};
static const struct weave_opts with_unlocks = {.mode = WEAVE_DFS,
                                               .preemptions_max = 2,
                                               .spurious_max = 1,
                                               .timeouts_max = 1,
                                               .unlock_points = true};

/* `kinds` are the ways in which the bug may show. */
static void expect_found(weave_body *body, const struct weave_opts *opts, const char *name,
                         const char *const *kinds)
{
    struct weave_opts replay = *opts;
    char text[TAPE_TEXT_MAX];
    bool expected = false;

    weave_explore_isolated(body, NULL, opts, true, &found);
    assert_true(found.failed);
    for (; *kinds != NULL; kinds++) {
        expected = expected || strcmp(found.kind, *kinds) == 0;
    }
    assert_true(expected);
    RON_IGNORE(weave_shrink(body, NULL, opts, 300, &found)); /* 0 when the dull schedule fails. */
    assert_true(weave_tape_format(&found.tape, text, sizeof text));
    print_message("%s: found on schedule %llu: %s: %s\n%s: tape %s\n", name,
                  (unsigned long long)found.schedules, found.kind, found.message, name, text);

    assert_true(weave_tape_parse(text, &tape));
    replay.mode = WEAVE_REPLAY;
    replay.tape = &tape;
    replay.trace = true; /* Shown with --output-on-failure; also exercises the trace. */
    weave_explore_isolated(body, NULL, &replay, false, &again);
    assert_true(again.failed);
    assert_string_equal(again.kind, found.kind);
    assert_string_equal(again.message, found.message);
}

static void expect_right(weave_body *body, const struct weave_opts *opts)
{
    static int right;

    weave_explore_isolated(body, &right, opts, false, &found);
    assert_false(found.failed);
    assert_true(found.exhaustive);
}

static void test_seeded__signal_on_shared_condition__is_found_and_replayed(void **state)
{
    (void)state;
    expect_found(shared_condition, &defaults, "shared condition",
                 (const char *const[]){"deadlock", NULL});
    expect_right(shared_condition, &defaults);
}

static void test_seeded__look_outside_the_lock__is_found_and_replayed(void **state)
{
    (void)state;
    expect_found(look_then_sleep, &defaults, "look, then sleep",
                 (const char *const[]){"deadlock", NULL});
    expect_right(look_then_sleep, &defaults);
}

/* The stale write is seen by the heap, or the stale pointer crashes: which one depends on the
 * schedule. */
static void test_seeded__waiter_freed_before_the_wake__is_found_and_replayed(void **state)
{
    (void)state;
    expect_found(waiter_gone, &defaults, "waiter gone",
                 (const char *const[]){"heap", "crash", NULL});
    expect_right(waiter_gone, &defaults);
}

/* Nothing announces a plain read, so this one needs a point after the unlock. */
static void test_seeded__plain_use_after_the_unlock__is_found_and_replayed(void **state)
{
    (void)state;
    expect_found(waiter_gone_plain, &with_unlocks, "plain use after unlock",
                 (const char *const[]){"heap", "crash", NULL});
    expect_right(waiter_gone_plain, &with_unlocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeded__signal_on_shared_condition__is_found_and_replayed),
        cmocka_unit_test(test_seeded__look_outside_the_lock__is_found_and_replayed),
        cmocka_unit_test(test_seeded__plain_use_after_the_unlock__is_found_and_replayed),
        cmocka_unit_test(test_seeded__waiter_freed_before_the_wake__is_found_and_replayed),
    };

    return cmocka_run_group_tests_name("seeded", tests, NULL, NULL);
}
