/* SPDX-License-Identifier: Apache-2.0 */
/* test_health.c - what the outside sees of a supervisor.
 *
 * Goal: the health snapshot answers whatever is locked; only the drawn state edges exist, and each
 * one shows in the event log and in the shutdown watch.
 * Method: every lock of the supervisor's way is held by another thread while a probe asks; illegal
 * edges are walked in a process of their own. */
#include "unit/task/fixture.h"

#include <semaphore.h>

#include "chan/chan_priv.h"

/* Ends when its stop watch says so. */
static enum ron_rc run_until_stop(struct ron_task *t, void *arg)
{
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(ron_task_stop_watch(t), &seen);

    (void)arg;
    while (value != RON_TASK_STOP) {
        RON_TRY(ron_watch_wait(ron_task_stop_watch(t), seen, ron_deadline_never(), &value, &seen));
    }
    return RON_OK;
}

static enum ron_rc fail_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_IO;
}

/* ---- looking without locks ------------------------------------------------------------------- */

struct locked {
    struct fx *fx;
    struct ron_chan *in;
    struct fx_gate held;
    struct fx_gate probed;
    sem_t release;
    struct ron_health health;
    const char *cause;
    size_t kinds;
    uint64_t shutdown;
};

static void hold_locks(void *arg)
{
    struct locked *l = arg;
    struct ron_exec *exec = l->fx->exec;

    ron_mutex_lock(&l->fx->sup->mu);
    ron_mutex_lock(&l->in->mu);
    ron_mutex_lock(&exec->workers[0].mu);
    fx_gate_add(&l->held, 1);
    (void)sem_wait(&l->release);
    ron_mutex_unlock(&exec->workers[0].mu);
    ron_mutex_unlock(&l->in->mu);
    ron_mutex_unlock(&l->fx->sup->mu);
}

static void probe(void *arg)
{
    struct locked *l = arg;
    struct ron_kind_stats rows[4];

    ron_sup_health(l->fx->sup, &l->health);
    (void)ron_sup_causes(l->fx->sup, &l->cause, 1);
    l->kinds = ron_sup_kinds(l->fx->sup, rows, RON_ARRAY_LEN(rows));
    l->shutdown = ron_watch_value(ron_sup_shutdown(l->fx->sup));
    (void)ron_sup_leaked(l->fx->sup);
    fx_gate_add(&l->probed, 1);
}

static struct ron_thread *start_thread(const char *name, void (*body)(void *), void *arg)
{
    struct ron_thread *t = NULL;

    assert_int_equal(
        ron_thread_start(
            &(struct ron_thread_opts){.name = name, .may_block = true, .main = body, .arg = arg},
            &t, NULL),
        RON_OK);
    return t;
}

static void test_health__all_locks_held_elsewhere__probe_answers(void **state)
{
    struct locked l = {.fx = fx_open(1)};
    struct ron_thread *holder;
    struct ron_thread *prober;

    (void)state;
    l.in = fx_chan(l.fx, "in", 4, RON_CHAN_REJECT);
    fx_gate_init(&l.held);
    fx_gate_init(&l.probed);
    assert_int_equal(sem_init(&l.release, 0, 0), 0);
    (void)fx_add(
        l.fx, &(struct ron_task_def){
                  .name = "down", .kind = "a", .mode = RON_TASK_BLOCKING, .run = run_until_stop});
    (void)fx_add(l.fx, &(struct ron_task_def){.name = "failing",
                                              .kind = "b",
                                              .input = l.in,
                                              .restart = {.when = RON_RESTART_NEVER},
                                              .handle = fail_handle});
    fx_start(l.fx);
    assert_true(fx_send(l.in, 1));
    fx_until(fx_health(l.fx).tasks_down == 1);
    holder = start_thread("holder", hold_locks, &l);
    assert_true(fx_gate_reached(&l.held, 1));
    prober = start_thread("prober", probe, &l);
    bool answered = fx_gate_reached(&l.probed, 1);
    (void)sem_post(&l.release);
    assert_true(answered);
    ron_thread_join(prober);
    ron_thread_join(holder);
    assert_int_equal(l.health.state, RON_SUP_RUNNING);
    assert_true(l.health.ready); /* a task that never restarts leaves the service degraded */
    assert_true(l.health.degraded);
    assert_true(l.health.healthy);
    assert_string_equal(l.cause, "failing");
    assert_int_equal(l.kinds, 2);
    assert_int_equal(l.shutdown, RON_SUP_RUNNING);
    assert_int_equal(fx_stop(l.fx), RON_EXIT_DRAINED);
    ron_chan_free(l.in);
    fx_gate_done(&l.held);
    fx_gate_done(&l.probed);
    (void)sem_destroy(&l.release);
    assert_true(fx_close(l.fx));
}

/* Between the request and the drain lies the supervisor's next look, held up here. Whoever is told
 * "not ready" then is told why. */
static void test_health__stop_just_asked_for__says_draining(void **state)
{
    struct locked l = {.fx = fx_open(1)};
    struct ron_thread *holder;

    (void)state;
    l.in = fx_chan(l.fx, "in", 4, RON_CHAN_REJECT);
    fx_gate_init(&l.held);
    assert_int_equal(sem_init(&l.release, 0, 0), 0);
    (void)fx_add(
        l.fx, &(struct ron_task_def){
                  .name = "idle", .kind = "a", .mode = RON_TASK_BLOCKING, .run = run_until_stop});
    fx_start(l.fx);
    fx_until(fx_health(l.fx).ready);
    holder = start_thread("holder", hold_locks, &l);
    assert_true(fx_gate_reached(&l.held, 1));
    ron_sup_request_stop(l.fx->sup);
    ron_sup_health(l.fx->sup, &l.health);
    (void)sem_post(&l.release);
    ron_thread_join(holder);
    assert_false(l.health.ready);
    assert_int_equal(l.health.state, RON_SUP_DRAINING);
    assert_int_equal(fx_stop(l.fx), RON_EXIT_DRAINED);
    ron_chan_free(l.in);
    fx_gate_done(&l.held);
    (void)sem_destroy(&l.release);
    assert_true(fx_close(l.fx));
}

/* ---- states ---------------------------------------------------------------------------------- */

struct edge {
    enum ron_sup_state from;
    enum ron_sup_state to;
};

static bool edge_exists(enum ron_sup_state from, enum ron_sup_state to)
{
    static const struct edge edges[] = {{RON_SUP_NEW, RON_SUP_RUNNING},
                                        {RON_SUP_RUNNING, RON_SUP_DRAINING},
                                        {RON_SUP_DRAINING, RON_SUP_ABORTING},
                                        {RON_SUP_DRAINING, RON_SUP_STOPPED},
                                        {RON_SUP_ABORTING, RON_SUP_STOPPED}};

    for (size_t i = 0; i < RON_ARRAY_LEN(edges); i++) {
        if (edges[i].from == from && edges[i].to == to) {
            return true;
        }
    }
    return false;
}

static void walk_edge(void *arg)
{
    struct edge *e = arg;
    struct fx *fx = fx_open(1);

    ron_au32_store(&fx->sup->state, e->from);
    ron__sup_enter_state(fx->sup, e->to);
}

static void walk_edge_and_look(void *ret, void *arg)
{
    struct edge *e = arg;
    struct fx *fx = fx_open(1);

    ron_au32_store(&fx->sup->state, e->from);
    ron__sup_enter_state(fx->sup, e->to);
    *(uint64_t *)ret = ron_watch_value(ron_sup_shutdown(fx->sup));
}

static void test_health__state_edges__only_the_drawn_ones(void **state)
{
    (void)state;
    for (int from = RON_SUP_NEW; from <= RON_SUP_STOPPED; from++) {
        for (int to = RON_SUP_NEW; to <= RON_SUP_STOPPED; to++) {
            struct edge e = {(enum ron_sup_state)from, (enum ron_sup_state)to};
            char text[64];
            uint64_t seen = UINT64_MAX;

            (void)snprintf(text, sizeof text, "no edge from %s to %s", ron_sup_state_name(e.from),
                           ron_sup_state_name(e.to));
            if (edge_exists(e.from, e.to)) {
                fx_child(walk_edge_and_look, &e, &seen, sizeof seen);
                assert_int_equal(seen, to);
            } else {
                support_death(walk_edge, &e, text);
            }
        }
    }
}

static void test_health__whole_life__states_recorded_and_shown(void **state)
{
    static const enum ron_sup_state wanted[] = {RON_SUP_RUNNING, RON_SUP_DRAINING, RON_SUP_STOPPED};
    struct fx *fx = fx_open(1);
    size_t n = 0;

    (void)state;
    assert_int_equal(fx_health(fx).state, RON_SUP_NEW);
    assert_false(fx_health(fx).ready);
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_STATE, "", 1);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < fx->count; i++) {
        if (fx->log[i].kind == RON_SUP_EVENT_STATE) {
            assert_true(n < RON_ARRAY_LEN(wanted));
            assert_int_equal(fx->log[i].state, wanted[n]);
            assert_int_equal(fx->log[i].health.ready, wanted[n] == RON_SUP_RUNNING);
            n++;
        }
    }
    assert_int_equal(n, RON_ARRAY_LEN(wanted));
    assert_int_equal(ron_watch_value(ron_sup_shutdown(fx->sup)), RON_SUP_STOPPED);
    ron_sup_request_stop(fx->sup); /* too late, and harmless */
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health__all_locks_held_elsewhere__probe_answers),
        cmocka_unit_test(test_health__stop_just_asked_for__says_draining),
        cmocka_unit_test(test_health__state_edges__only_the_drawn_ones),
        cmocka_unit_test(test_health__whole_life__states_recorded_and_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
