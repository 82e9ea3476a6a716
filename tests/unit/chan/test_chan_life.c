/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_life.c - how a channel is made, closed and freed.
 *
 * Goal: nothing unbounded or unnamed can be made, and the refusal says why (K-04, K-65); close is
 *   one-way (K-23); freeing never waits and hands over what is left, closed or not (K-13).
 * Method: one table of bad options per reason; allocations are counted by the watch of base.
 */
#include "unit/chan/fixture.h"

#include "chan/chan_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/ctx.h"

/* Making --------------------------------------------------------------------------------------- */

struct refusal {
    const char *why;
    void (*spoil)(struct ron_chan_opts *opts);
    const char *text; /* a part of the message */
};

static void no_name(struct ron_chan_opts *o)
{
    o->name = NULL;
}
static void empty_name(struct ron_chan_opts *o)
{
    o->name = "";
}
static void bad_name(struct ron_chan_opts *o)
{
    o->name = "Jobs Queue";
}
static void long_name(struct ron_chan_opts *o)
{
    o->name = "a-name-of-forty-eight-characters-is-one-too-long";
}
static void no_capacity(struct ron_chan_opts *o)
{
    o->capacity = 0;
}
static void absurd_capacity(struct ron_chan_opts *o)
{
    o->capacity = RON_CHAN_CAPACITY_MAX + 1;
}
static void most_absurd_capacity(struct ron_chan_opts *o)
{
    o->capacity = UINT32_MAX;
}
static void no_policy(struct ron_chan_opts *o)
{
    o->policy = RON_CHAN_POLICY_UNSET;
}
static void unknown_policy(struct ron_chan_opts *o)
{
    o->policy = RON_CHAN_POLICY_COUNT;
}
static void no_drop(struct ron_chan_opts *o)
{
    o->drop = NULL;
}
static void no_drop_text(struct ron_chan_opts *o)
{
    o->drop_text = NULL;
}
static void quoted_drop_text(struct ron_chan_opts *o)
{
    o->drop_text = "says \"no\"";
}
static void no_producers(struct ron_chan_opts *o)
{
    o->producers = NULL;
}
static void empty_consumers(struct ron_chan_opts *o)
{
    o->consumers = "";
}
static void retry_without_env(struct ron_chan_opts *o)
{
    o->policy = RON_CHAN_RETRY_ONCE;
}

static const struct refusal refusals[] = {
    {"no name", no_name, "queue: the name '' is not 1-47 characters"},
    {"empty name", empty_name, "queue: the name '' is not 1-47 characters"},
    {"bad name", bad_name, "the name 'Jobs Queue' is not 1-47 characters of [a-z0-9_.-]"},
    {"long name", long_name, "is-one-too-long' is not 1-47 characters"},
    {"no capacity", no_capacity, "channel 'jobs': capacity 0 is outside 1..1048576"},
    {"absurd capacity", absurd_capacity, "capacity 1048577 is outside 1..1048576"},
    {"most absurd capacity", most_absurd_capacity, "capacity 4294967295 is outside"},
    {"no policy", no_policy, "channel 'jobs': no policy for a full queue is given"},
    {"unknown policy", unknown_policy, "no policy for a full queue is given"},
    {"no drop", no_drop, "channel 'jobs': no way to dispose of messages is given"},
    {"no drop text", no_drop_text, "queue 'jobs': 'drop' must be stated"},
    {"quoted drop text", quoted_drop_text, "queue 'jobs': 'drop' must be stated"},
    {"no producers", no_producers, "queue 'jobs': 'producers' must be stated"},
    {"empty consumers", empty_consumers, "queue 'jobs': 'consumers' must be stated"},
    {"retry_once without env", retry_without_env, "retry_once needs an environment"},
};

static void test_chan__made_without_a_decision__refused_with_the_reason(void **state)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(refusals); i++) {
        struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_REJECT, 4);
        struct ron_chan *c = NULL;
        struct ron_err err = {0};

        refusals[i].spoil(&opts);
        print_message("%s\n", refusals[i].why);
        assert_int_equal(ron_chan_new(&opts, &c, &err), RON_INVALID);
        assert_int_equal(err.rc, RON_INVALID);
        if (strstr(err.msg, refusals[i].text) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", err.msg, refusals[i].text);
        }
        assert_null(c);
        assert_int_equal(ron_chan_new(&opts, &c, NULL), RON_INVALID);
        assert_int_equal(ron_registry_count(*state), 0);
    }
}

static void test_chan__smallest_and_largest_capacity__are_made(void **state)
{
    struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_REJECT, 1);
    struct ron_chan *small = chan_with(&opts);
    struct ron_chan *large;

    opts.name = "large";
    opts.capacity = RON_CHAN_CAPACITY_MAX;
    large = chan_with(&opts);
    assert_int_equal(ron_chan_capacity(small), 1);
    assert_int_equal(ron_chan_capacity(large), RON_CHAN_CAPACITY_MAX);
    assert_string_equal(ron_chan_name(small), "jobs");
    assert_string_equal(ron_chan_name(large), "large");
    ron_chan_free(large);
    ron_chan_free(small);
}

static void test_chan__name_taken__refused_until_the_first_is_gone(void **state)
{
    struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_WAIT, 2);
    struct ron_chan *first = chan_with(&opts);
    struct ron_chan *second = NULL;
    struct ron_err err = {0};

    assert_int_equal(ron_chan_new(&opts, &second, &err), RON_EXISTS);
    assert_string_equal(err.msg, "queue 'jobs' exists already");
    assert_null(second);
    ron_chan_free(first);
    assert_int_equal(ron_chan_new(&opts, &second, &err), RON_OK);
    ron_chan_free(second);
}

static void test_chan__policy_names__are_those_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(ron_chan_policy_name(RON_CHAN_REJECT), "reject");
    assert_string_equal(ron_chan_policy_name(RON_CHAN_RETRY_ONCE), "retry_once");
    assert_string_equal(ron_chan_policy_name(RON_CHAN_WAIT), "wait");
    assert_string_equal(ron_chan_policy_name(RON_CHAN_DROP_OLDEST), "drop_oldest");
    assert_string_equal(ron_chan_policy_name(RON_CHAN_POLICY_UNSET), "unset");
}

/* Closing -------------------------------------------------------------------------------------- */

static void test_chan__closed_twice__second_says_so_and_changes_nothing(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);

    chan_put(c, 0, 2);
    assert_false(ron_chan_is_closed(c));
    assert_true(ron_chan_close(c));
    assert_true(ron_chan_is_closed(c));
    assert_false(ron_chan_close(c));
    assert_true(ron_chan_is_closed(c));
    chan_expect(c, 0, 2);
    assert_false(ron_chan_close(c));
    ron_chan_free(c);
}

static void test_chan__send_on_closed__its_own_error_and_counter(void **state)
{
    static const enum ron_chan_policy policies[] = {RON_CHAN_REJECT, RON_CHAN_RETRY_ONCE,
                                                    RON_CHAN_WAIT, RON_CHAN_DROP_OLDEST};

    for (size_t i = 0; i < RON_ARRAY_LEN(policies); i++) {
        struct ron_chan_opts opts = chan_opts(*state, policies[i], 2);
        struct fixed_env env;
        struct ron_chan *c;
        void *evicted = NULL;

        fixed_env_init(&env, 0);
        opts.env = &env.env;
        c = chan_with(&opts);
        chan_put(c, 0, 2); /* Full and closed: closed is what counts. */
        assert_true(ron_chan_close(c));
        assert_int_equal(ron_chan_try_send(c, msg(2), &evicted), RON_CLOSED);
        assert_int_equal(ron_chan_send(c, msg(2), ron_deadline_never(), &evicted), RON_CLOSED);
        assert_int_equal(ron_chan_reserve(c, 1), RON_CLOSED);
        assert_null(evicted);
        assert_int_equal(chan_stats(c).refused, 3);
        assert_int_equal(chan_stats(c).rejected, 0);
        assert_int_equal(chan_stats(c).dropped, 0);
        assert_int_equal(chan_stats(c).depth, 2);
        chan_expect(c, 0, 2);
        assert_int_equal(ron_chan_try_send(c, msg(2), &evicted), RON_CLOSED); /* empty and closed */
        ron_chan_free(c);
    }
}

/* Freeing -------------------------------------------------------------------------------------- */

static struct ron_au64 blocks_born;
static struct ron_au64 blocks_dead;

static void count_blocks(int delta, const char *where)
{
    (void)where;
    ron_au64_add(delta > 0 ? &blocks_born : &blocks_dead, 1);
}

/* The newest event of this thread if it is `what`, else NULL. */
static const struct ron_ctx_event *last_event(const char *what)
{
    const struct ron_ctx *ctx = ron_ctx_current();
    const struct ron_ctx_event *newest = &ctx->events[(ctx->event_count - 1) % RON_CTX_EVENTS];

    return strcmp(newest->what, what) == 0 ? newest : NULL;
}

static void free_and_check(struct ron_registry *reg, bool close_first)
{
    struct drop_log log = {.count = 0};
    struct ron_chan_opts opts = chan_opts(reg, RON_CHAN_REJECT, 4);
    const struct ron_ctx_event *event;
    struct ron_chan *c;
    bool may_block;

    ron_au64_store(&blocks_born, 0);
    ron_au64_store(&blocks_dead, 0);
    ron_alloc_watch = count_blocks;
    opts.drop_arg = &log;
    c = chan_with(&opts);
    chan_put(c, 0, 4);
    chan_expect(c, 0, 2);
    chan_put(c, 4, 1); /* The ring is wrapped: 2, 3 | 4. */
    if (close_first) {
        assert_true(ron_chan_close(c));
    }
    /* On a thread that may not block, so that a wait inside would be a breach. */
    may_block = ron_thread_set_may_block(false);
    ron_chan_free(c);
    (void)ron_thread_set_may_block(may_block);
    ron_alloc_watch = NULL;

    event = last_event(close_first ? "chan.free" : "chan.free.unclosed");
    assert_non_null(event);
    assert_int_equal(event->a, 3);
    assert_int_equal(log.count, 3);
    for (size_t i = 0; i < log.count; i++) {
        assert_int_equal(msg_number(log.items[i]), 2 + i);
    }
    assert_true(ron_au64_load(&blocks_born) > 0);
    assert_int_equal(ron_au64_load(&blocks_born), ron_au64_load(&blocks_dead));
    assert_int_equal(ron_registry_count(reg), 0);
}

static void test_chan__freed_without_close__no_wait_no_leak_all_dropped(void **state)
{
    free_and_check(*state, false);
    assert_int_equal(ron_sync_violations(RON_BREACH_LOOP), 0);
}

static void test_chan__freed_after_close__all_dropped(void **state)
{
    free_and_check(*state, true);
}

struct drop_count {
    const struct ron_chan *chan;
    uint64_t calls;
    uint64_t seen; /* the counter, as `drop` saw it last */
};

static void drop_and_look(void *item, void *arg)
{
    struct drop_count *d = arg;

    (void)item;
    d->calls++;
    d->seen = chan_stats(d->chan).dropped;
}

static void test_chan__messages_left_when_freed__counted_as_dropped(void **state)
{
    struct drop_count d = {.calls = 0};
    struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_REJECT, 4);
    struct ron_chan *c;

    opts.drop = drop_and_look;
    opts.drop_arg = &d;
    c = chan_with(&opts);
    d.chan = c;
    chan_put(c, 0, 3);
    ron_chan_free(c);
    assert_int_equal(d.calls, 3);
    assert_int_equal(d.seen, 3);
}

static void free_with_reservation(void *arg)
{
    struct ron_chan *c = arg;

    RON_ASSERT(ron_chan_reserve(c, 1) == RON_OK);
    ron_chan_free(c);
}

static void free_with_waiter(void *arg)
{
    struct ron_chan *c = arg;
    struct poller p;
    void *item;
    size_t n;
    bool more;

    poller_init(&p);
    RON_ASSERT(ron_chan_recv_poll(c, &p.node, &item, 1, &n, &more) == RON_AGAIN);
    ron_chan_free(c);
}

static void send_nothing(void *arg)
{
    RON_IGNORE(ron_chan_try_send(arg, NULL, NULL)); /* It does not come back. */
}

static void test_chan__misuse_of_its_life__asserts(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);

    support_death(free_with_reservation, c, "c->reserved == 0");
    support_death(free_with_waiter, c, "ron__lot_idle(&c->rx)");
    support_death(send_nothing, c, "item != NULL");
    ron_chan_free(c);
    ron_chan_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan__made_without_a_decision__refused_with_the_reason),
        CASE(test_chan__smallest_and_largest_capacity__are_made),
        CASE(test_chan__name_taken__refused_until_the_first_is_gone),
        CASE(test_chan__policy_names__are_those_of_the_table),
        CASE(test_chan__closed_twice__second_says_so_and_changes_nothing),
        CASE(test_chan__send_on_closed__its_own_error_and_counter),
        CASE(test_chan__freed_without_close__no_wait_no_leak_all_dropped),
        CASE(test_chan__freed_after_close__all_dropped),
        CASE(test_chan__messages_left_when_freed__counted_as_dropped),
        CASE(test_chan__misuse_of_its_life__asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
