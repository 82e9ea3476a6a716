/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_blocking.c - the blocking points of chan: never with a lock held, never on a loop
 * thread.
 *
 * Goal: every function of chan that may wait names the lock that is held when it is called (K-01),
 *   passes in split form (K-02), and is refused on a thread that may not block (K-09). That must
 *   not depend on luck: a call that would find its answer at once is a breach too, or the mistake
 *   would show up only under load.
 * Method: a table of functions, each called with something to wait for and with the answer ready.
 *   The functions that never wait are called in the same situations and must pass.
 */
#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "unit/chan/fixture.h"
#include "unit/sync/breach.h"

/* One of each thing that can be waited for. `ready` says whether the answer is there already. */
struct things {
    struct ron_registry *reg;
    bool ready;
    struct ron_chan *wait;  /* policy wait, capacity 1 */
    struct ron_chan *retry; /* policy retry_once, capacity 1 */
    struct ron_watch *watch;
    struct ron_bus *bus;
    struct ron_bus_reader reader;
    struct ron_oneshot *slot;
    struct fixed_env env;
};

static void no_drop(void *value)
{
    (void)value;
}

static void things_make(struct things *g, struct ron_registry *reg, bool ready)
{
    struct ron_chan_opts opts = chan_opts(reg, RON_CHAN_RETRY_ONCE, 1);

    *g = (struct things){.reg = reg, .ready = ready};
    fixed_env_init(&g->env, 0);
    g->wait = chan_make(reg, RON_CHAN_WAIT, 1);
    opts.name = "retry";
    opts.env = &g->env.env;
    g->retry = chan_with(&opts);
    g->watch = watch_make(reg, 0);
    g->bus = bus_make(reg, 2);
    assert_int_equal(ron_bus_subscribe(g->bus, &g->reader, NULL, NULL), RON_OK);
    assert_int_equal(ron_oneshot_new(no_drop, &g->slot), RON_OK);
    if (ready) {
        assert_int_equal(ron_bus_publish(g->bus, &(uint64_t){1}), RON_OK);
        ron_watch_set(g->watch, 1);
        assert_int_equal(ron_oneshot_answer(g->slot, msg(9)), RON_OK);
    }
}

static void things_free(struct things *g)
{
    if (!g->ready) {
        ron_oneshot_drop(g->slot);
    }
    ron_oneshot_leave(g->slot);
    ron_bus_unsubscribe(&g->reader);
    ron_bus_free(g->bus);
    ron_watch_free(g->watch);
    ron_chan_free(g->retry);
    ron_chan_free(g->wait);
}

static void fill(struct ron_chan *c, bool yes)
{
    if (yes) {
        RON_ASSERT(ron_chan_try_send(c, msg(0), NULL) == RON_OK);
    }
}

/* Each function, with a deadline that has passed: it comes back at once in the release build. */
static void do_send_wait(struct things *g)
{
    fill(g->wait, !g->ready);
    RON_IGNORE(ron_chan_send(g->wait, msg(1), deadline_past(), NULL));
}
static void do_send_retry(struct things *g)
{
    fill(g->retry, !g->ready);
    RON_IGNORE(ron_chan_send(g->retry, msg(1), deadline_past(), NULL));
}
static void do_recv(struct things *g)
{
    void *item;

    fill(g->wait, g->ready);
    RON_IGNORE(ron_chan_recv(g->wait, deadline_past(), &item));
}
static void do_recv_many(struct things *g)
{
    void *items[2];
    size_t n;

    fill(g->wait, g->ready);
    RON_IGNORE(ron_chan_recv_many(g->wait, items, 2, deadline_past(), &n));
}
static void do_recv_or_changed(struct things *g)
{
    void *items[2];
    size_t n;

    fill(g->wait, g->ready);
    RON_IGNORE(ron_chan_recv_or_changed(g->wait, g->watch, 1, true, items, 2, deadline_past(), &n));
}
static void do_look(struct things *g)
{
    fill(g->wait, g->ready);
    ron_chan_look(g->wait, 0);
}
static void do_watch_wait(struct things *g)
{
    uint64_t value;
    uint64_t version;

    RON_IGNORE(ron_watch_wait(g->watch, 1, deadline_past(), &value, &version));
}
static void do_bus_recv(struct things *g)
{
    uint64_t out[2];
    uint64_t missed;
    size_t n;

    RON_IGNORE(ron_bus_recv(&g->reader, out, 2, deadline_past(), &n, &missed));
}
static void do_oneshot_wait(struct things *g)
{
    void *value;

    RON_IGNORE(ron_oneshot_wait(g->slot, deadline_past(), &value));
}

static const struct point {
    const char *at;
    void (*reach)(struct things *);
} points[] = {
    {"at 'jobs'", do_send_wait},
    {"at 'retry'", do_send_retry},
    {"at 'jobs'", do_recv},
    {"at 'jobs'", do_recv_many},
    {"at 'jobs'", do_look},
    {"at 'jobs'", do_recv_or_changed},
    {"at 'shutdown'", do_watch_wait},
    {"at 'events'", do_bus_recv},
    {"at 'oneshot'", do_oneshot_wait},
};

struct reach_case {
    struct things things;
    const struct point *point;
    struct ron_mutex table;
};

static void reach_with_lock(void *arg)
{
    struct reach_case *k = arg;

    ron_mutex_lock(&k->table);
    k->point->reach(&k->things);
    ron_mutex_unlock(&k->table);
}

static void reach_split(void *arg)
{
    struct reach_case *k = arg;

    ron_mutex_lock(&k->table);
    ron_mutex_unlock(&k->table);
    k->point->reach(&k->things);
}

static void reach_on_loop_thread(void *arg)
{
    struct reach_case *k = arg;
    bool before = ron_thread_set_may_block(false);

    k->point->reach(&k->things);
    (void)ron_thread_set_may_block(before);
}

static void reach_case_make(struct reach_case *k, struct ron_registry *reg, size_t point,
                            bool ready)
{
    things_make(&k->things, reg, ready);
    k->point = &points[point];
    ron_mutex_init(&k->table, RON_RANK_SHARED, "wallet.table");
}

static void reach_case_free(struct reach_case *k)
{
    ron_mutex_done(&k->table);
    things_free(&k->things);
}

static void test_chan_blocking__lock_held__report_names_point_and_lock(void **state)
{
    for (size_t i = 0; i < 2 * RON_ARRAY_LEN(points); i++) {
        struct reach_case k;

        reach_case_make(&k, *state, i / 2, i % 2 == 1);
        print_message("point %zu %s, ready %d\n", i / 2, k.point->at, k.things.ready);
        EXPECT_BREACH(HELD, reach_with_lock, &k, k.point->at, "[wallet.table(20)]");
        reach_case_free(&k);
    }
}

static void test_chan_blocking__split_form__passes(void **state)
{
    for (size_t i = 0; i < 2 * RON_ARRAY_LEN(points); i++) {
        uint64_t before = ron_sync_violations(RON_BREACH_HELD);
        struct reach_case k;

        reach_case_make(&k, *state, i / 2, i % 2 == 1);
        reach_split(&k);
        assert_int_equal(ron_sync_violations(RON_BREACH_HELD), before);
        reach_case_free(&k);
    }
}

static void test_chan_blocking__loop_thread__breach(void **state)
{
    for (size_t i = 0; i < 2 * RON_ARRAY_LEN(points); i++) {
        struct reach_case k;

        reach_case_make(&k, *state, i / 2, i % 2 == 1);
        print_message("point %zu %s, ready %d\n", i / 2, k.point->at, k.things.ready);
        EXPECT_BREACH(LOOP, reach_on_loop_thread, &k, k.point->at, "locks held: []");
        reach_case_free(&k);
    }
}

/* Everything a worker's task may call, on a loop thread and with a lock of low rank held. */
static void test_chan_blocking__functions_that_never_wait__pass_anywhere(void **state)
{
    uint64_t held = ron_sync_violations(RON_BREACH_HELD);
    uint64_t loop = ron_sync_violations(RON_BREACH_LOOP);
    struct reach_case k;
    struct poller p;
    struct poller q;
    struct ron_chan_retry retry = {0};
    void *item = NULL;
    uint64_t number = 0;
    uint64_t missed = 0;
    size_t n = 0;
    bool more = false;

    reach_case_make(&k, *state, 0, true);
    poller_init(&p);
    poller_init(&q);
    (void)ron_thread_set_may_block(false);
    ron_mutex_lock(&k.table);
    assert_int_equal(ron_chan_try_send(k.things.wait, msg(0), NULL), RON_OK);
    assert_int_equal(ron_chan_try_send(k.things.wait, msg(1), NULL), RON_FULL);
    assert_int_equal(ron_chan_send_poll(k.things.wait, msg(1), &p.node), RON_AGAIN);
    assert_int_equal(ron_chan_try_recv_many(k.things.wait, &item, 1, &n), RON_OK);
    ron_chan_send_forget(k.things.wait, &p.node);
    assert_int_equal(ron_chan_recv_poll(k.things.wait, &q.node, &item, 1, &n, &more), RON_AGAIN);
    ron_chan_recv_forget(k.things.wait, &q.node);
    assert_int_equal(ron_chan_reserve(k.things.wait, 1), RON_OK);
    ron_chan_send_reserved(k.things.wait, msg(2));
    assert_int_equal(ron_chan_send_retry(k.things.retry, msg(3), &retry), RON_OK);
    ron_watch_set(k.things.watch, 4);
    assert_int_equal(ron_watch_value(k.things.watch), 4);
    assert_int_equal(ron_bus_publish(k.things.bus, &(uint64_t){5}), RON_OK);
    assert_int_equal(ron_bus_poll(&k.things.reader, &number, 1, &n, &missed), RON_OK);
    assert_true(ron_chan_close(k.things.wait));
    ron_mutex_unlock(&k.table);
    (void)ron_thread_set_may_block(true);
    assert_int_equal(ron_sync_violations(RON_BREACH_HELD), held);
    assert_int_equal(ron_sync_violations(RON_BREACH_LOOP), loop);
    reach_case_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_blocking__lock_held__report_names_point_and_lock),
        CASE(test_chan_blocking__split_form__passes),
        CASE(test_chan_blocking__loop_thread__breach),
        CASE(test_chan_blocking__functions_that_never_wait__pass_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
