/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of chan share: a registry per case, messages, wakers, threads.
 *
 * Every case gets a fresh registry as its state. The teardown frees it, and freeing asserts that
 * all objects have left, so a case that forgets one fails.
 */
#pragma once

#include "support/support.h"

#include "chan/chan_priv.h"
#include "ron/base/env.h"
#include "ron/chan/bus.h"
#include "ron/chan/chan.h"
#include "ron/chan/oneshot.h"
#include "ron/chan/registry.h"
#include "ron/chan/watch.h"
#include "unit/sync/parked.h"

static inline int fixture_setup(void **state)
{
    struct ron_registry *reg = NULL;
    int rc = ron_registry_new(&reg, NULL) == RON_OK ? 0 : -1;

    *state = reg;
    return rc;
}

static inline int fixture_teardown(void **state)
{
    ron_registry_free(*state);
    return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* Messages ------------------------------------------------------------------------------------- */

/* A message is the address of a cell; the number of the cell tells which one it is. */
enum { MSGS_MAX = 4096 };

static inline void *msg(size_t number)
{
    static char cells[MSGS_MAX];

    RON_ASSERT(number < MSGS_MAX);
    return &cells[number];
}

static inline size_t msg_number(const void *item)
{
    return (size_t)((const char *)item - (const char *)msg(0));
}

/* What was handed to `drop`, in order. */
struct drop_log {
    size_t count;
    void *items[64];
};

static inline void drop_to_log(void *item, void *arg)
{
    struct drop_log *log = arg;

    if (log != NULL) {
        RON_ASSERT(log->count < RON_ARRAY_LEN(log->items));
        log->items[log->count++] = item;
    }
}

/* Channels ------------------------------------------------------------------------------------- */

static inline struct ron_chan_opts chan_opts(struct ron_registry *reg, enum ron_chan_policy policy,
                                             uint32_t capacity)
{
    return (struct ron_chan_opts){.registry = reg,
                                  .name = "jobs",
                                  .producers = "test",
                                  .consumers = "test",
                                  .drop_text = "given to the test",
                                  .capacity = capacity,
                                  .policy = policy,
                                  .drop = drop_to_log};
}

static inline struct ron_chan *chan_with(const struct ron_chan_opts *opts)
{
    struct ron_chan *c = NULL;
    struct ron_err err = {0};

    if (ron_chan_new(opts, &c, &err) != RON_OK) {
        fail_msg("ron_chan_new: %s", err.msg);
    }
    return c;
}

static inline struct ron_chan *chan_make(struct ron_registry *reg, enum ron_chan_policy policy,
                                         uint32_t capacity)
{
    struct ron_chan_opts opts = chan_opts(reg, policy, capacity);

    return chan_with(&opts);
}

/* Puts messages first .. first + count - 1 into a channel that has room for them. */
static inline void chan_put(struct ron_chan *c, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *evicted = NULL;

        assert_int_equal(ron_chan_try_send(c, msg(first + i), &evicted), RON_OK);
        assert_null(evicted);
    }
}

/* Takes `count` messages out, one by one, and checks that they are first .. first + count - 1. */
static inline void chan_expect(struct ron_chan *c, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *item = NULL;
        size_t n = 0;

        assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_OK);
        assert_int_equal(n, 1);
        assert_int_equal(msg_number(item), first + i);
    }
}

static inline void chan_expect_empty(struct ron_chan *c)
{
    void *item = NULL;
    size_t n = 0;

    assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n),
                     ron_chan_is_closed(c) ? RON_CLOSED : RON_AGAIN);
}

static inline struct ron_chan_stats chan_stats(const struct ron_chan *c)
{
    struct ron_chan_stats stats;

    ron_chan_get_stats(c, &stats);
    return stats;
}

static inline struct ron_watch *watch_make(struct ron_registry *reg, uint64_t value)
{
    struct ron_watch *w = NULL;
    struct ron_watch_opts opts = {.registry = reg,
                                  .name = "shutdown",
                                  .producers = "test",
                                  .consumers = "test",
                                  .value = value};

    assert_int_equal(ron_watch_new(&opts, &w, NULL), RON_OK);
    return w;
}

static inline struct ron_bus *bus_make(struct ron_registry *reg, uint32_t capacity)
{
    struct ron_bus *b = NULL;
    struct ron_bus_opts opts = {.registry = reg,
                                .name = "events",
                                .producers = "test",
                                .consumers = "test",
                                .capacity = capacity,
                                .message_bytes = sizeof(uint64_t),
                                .readers_max = 64};

    assert_int_equal(ron_bus_new(&opts, &b, NULL), RON_OK);
    return b;
}

/* Time, randomness, wakers --------------------------------------------------------------------- */

static inline struct ron_deadline deadline_past(void)
{
    return (struct ron_deadline){.at_ns = 0};
}

static inline struct ron_deadline deadline_in_ms(uint64_t ms)
{
    return ron_deadline_after_ms(ron_mono_ns(), ms);
}

/* An environment whose every random number is `number`. */
struct fixed_env {
    struct ron_env env;
    uint64_t number;
    uint64_t draws;
};

static inline uint64_t fixed_env_rand(const struct ron_env *env)
{
    struct fixed_env *fixed = env->host;

    fixed->draws++;
    return fixed->number;
}

static inline void fixed_env_init(struct fixed_env *fixed, uint64_t number)
{
    *fixed =
        (struct fixed_env){.env = {.rand_u64 = fixed_env_rand, .host = fixed}, .number = number};
}

/* A task's place in a lot, without a task: counts how often it was called. */
struct poller {
    struct ron_waker waker;
    struct ron_wait_node node;
    uint32_t calls;
};

static inline void poller_wake(struct ron_waker *w)
{
    RON_CONTAINER_OF(w, struct poller, waker)->calls++;
}

static inline void poller_init(struct poller *p)
{
    *p = (struct poller){.waker = {.wake = poller_wake}};
    ron_wait_node_init(&p->node, &p->waker);
}

/* Threads -------------------------------------------------------------------------------------- */

static inline struct ron_thread *thread_run(void (*body)(void *), void *arg)
{
    struct ron_thread *t = NULL;
    struct ron_err err = {0};

    if (ron_thread_start(
            &(struct ron_thread_opts){
                .name = "helper", .may_block = true, .main = body, .arg = arg},
            &t, &err) != RON_OK) {
        fail_msg("ron_thread_start: %s", err.msg);
    }
    return t;
}
