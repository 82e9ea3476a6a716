/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_overload.c - far more is offered than can be served.
 *
 * Goal: memory stays flat, every offer is either served or refused, and the counters say so (K-05);
 *   an offer never waits (K-22). Nothing is lost or served twice when many threads send and
 *   receive.
 * Method: ten offers per message served, first step by step and then with threads; allocations are
 *   counted while it runs and must be none.
 */
#include "unit/chan/fixture.h"

#include "ron/base/alloc.h"

static struct ron_au64 allocations;

static void count_births(int delta, const char *where)
{
    (void)where;
    ron_au64_add(&allocations, delta > 0 ? 1 : 0);
}

static void watch_memory(bool on)
{
    if (on) {
        ron_au64_store(&allocations, 0);
    }
    ron_alloc_watch = on ? count_births : NULL;
}

static void test_chan_overload__ten_offers_per_service__flat_and_accounted_for(void **state)
{
    enum { STEPS = 5000, OFFERS = 10, CAPACITY = 64 };
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, CAPACITY);
    uint64_t accepted = 0;
    uint64_t refused = 0;
    uint64_t served = 0;

    watch_memory(true);
    /* On a thread that may not block: an offer that waited would be a breach. */
    (void)ron_thread_set_may_block(false);
    for (size_t step = 0; step < STEPS; step++) {
        void *item = NULL;
        size_t n = 0;

        for (size_t i = 0; i < OFFERS; i++) {
            enum ron_rc rc = ron_chan_try_send(c, msg(accepted % MSGS_MAX), NULL);

            accepted += rc == RON_OK;
            refused += rc == RON_FULL;
        }
        assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_OK);
        assert_int_equal(msg_number(item), served % MSGS_MAX);
        served++;
        assert_true(chan_stats(c).depth <= CAPACITY);
    }
    (void)ron_thread_set_may_block(true);
    watch_memory(false);
    assert_int_equal(ron_au64_load(&allocations), 0);
    assert_int_equal(ron_sync_violations(RON_BREACH_LOOP), 0);
    assert_int_equal(accepted + refused, STEPS * OFFERS);
    assert_int_equal(accepted, served + chan_stats(c).depth);
    assert_int_equal(chan_stats(c).sent, accepted);
    assert_int_equal(chan_stats(c).rejected, refused);
    assert_int_equal(chan_stats(c).received, served);
    assert_int_equal(chan_stats(c).depth_max, CAPACITY);
    assert_true(refused > STEPS * 8); /* It was an overload. */
    ron_chan_free(c);
}

static void test_chan_overload__drop_oldest__every_eviction_handed_back(void **state)
{
    enum { STEPS = 5000, OFFERS = 10, CAPACITY = 64 };
    struct ron_chan *c = chan_make(*state, RON_CHAN_DROP_OLDEST, CAPACITY);
    uint64_t offered = 0;
    uint64_t out = 0; /* next number to leave the queue, one way or the other */
    uint64_t evictions = 0;

    watch_memory(true);
    for (size_t step = 0; step < STEPS; step++) {
        void *item = NULL;
        size_t n = 0;

        for (size_t i = 0; i < OFFERS; i++) {
            void *evicted = NULL;

            assert_int_equal(ron_chan_try_send(c, msg(offered++ % MSGS_MAX), &evicted), RON_OK);
            if (evicted != NULL) {
                assert_int_equal(msg_number(evicted), out++ % MSGS_MAX);
                evictions++;
            }
        }
        assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_OK);
        assert_int_equal(msg_number(item), out++ % MSGS_MAX);
    }
    watch_memory(false);
    assert_int_equal(ron_au64_load(&allocations), 0);
    assert_int_equal(chan_stats(c).dropped, evictions);
    assert_int_equal(offered, STEPS + evictions + chan_stats(c).depth);
    ron_chan_free(c);
}

/* Threads -------------------------------------------------------------------------------------- */

enum { SENDERS = 3, RECEIVERS = 2, OFFERS_EACH = 20000 };

struct crowd {
    struct ron_chan *chan;
    struct ron_au64 served[SENDERS]; /* how many of each sender's messages came out */
    struct ron_au64 out_of_order;    /* one sender's messages overtook each other at one receiver */
};

/* A message that tells its sender and its number. */
struct job {
    uint32_t sender;
    uint32_t number;
};

struct member {
    struct crowd *crowd;
    uint32_t index;
    struct job *jobs; /* OFFERS_EACH of them, the sender's own */
    uint64_t accepted;
    uint64_t refused;
    enum ron_rc rc;
};

static void offer_all(void *arg)
{
    struct member *m = arg;

    for (uint32_t i = 0; i < OFFERS_EACH; i++) {
        m->jobs[i] = (struct job){.sender = m->index, .number = i};
        m->rc = ron_chan_send(m->crowd->chan, &m->jobs[i], ron_deadline_never(), NULL);
        m->accepted += m->rc == RON_OK;
        m->refused += m->rc == RON_FULL;
    }
}

static void serve_all(void *arg)
{
    struct member *m = arg;
    int64_t last[SENDERS];

    for (size_t i = 0; i < SENDERS; i++) {
        last[i] = -1;
    }
    for (;;) {
        void *items[32];
        size_t n = 0;

        m->rc = ron_chan_recv_many(m->crowd->chan, items, RON_ARRAY_LEN(items),
                                   ron_deadline_never(), &n);
        if (m->rc != RON_OK) {
            break;
        }
        for (size_t i = 0; i < n; i++) {
            const struct job *job = items[i];

            ron_au64_add(&m->crowd->served[job->sender], 1);
            if ((int64_t)job->number <= last[job->sender]) {
                ron_au64_add(&m->crowd->out_of_order, 1);
            }
            last[job->sender] = job->number;
        }
    }
}

static void run_crowd(struct ron_registry *reg, enum ron_chan_policy policy, uint32_t capacity,
                      uint32_t wake_batch)
{
    static struct job jobs[SENDERS][OFFERS_EACH];
    struct ron_chan_opts opts = chan_opts(reg, policy, capacity);
    struct crowd crowd = {0};
    struct member s[SENDERS];
    struct member r[RECEIVERS];
    struct ron_thread *t[SENDERS + RECEIVERS];
    struct ron_chan_stats stats;
    uint64_t accepted = 0;
    uint64_t refused = 0;

    opts.wake_batch = wake_batch;
    crowd.chan = chan_with(&opts);
    watch_memory(true);
    for (uint32_t i = 0; i < RECEIVERS; i++) {
        r[i] = (struct member){.crowd = &crowd, .index = i};
        t[SENDERS + i] = thread_run(serve_all, &r[i]);
    }
    for (uint32_t i = 0; i < SENDERS; i++) {
        s[i] = (struct member){.crowd = &crowd, .index = i, .jobs = jobs[i]};
        t[i] = thread_run(offer_all, &s[i]);
    }
    for (size_t i = 0; i < SENDERS; i++) {
        ron_thread_join(t[i]);
        accepted += s[i].accepted;
        refused += s[i].refused;
    }
    assert_true(ron_chan_close(crowd.chan));
    for (size_t i = 0; i < RECEIVERS; i++) {
        ron_thread_join(t[SENDERS + i]);
        assert_int_equal(r[i].rc, RON_CLOSED);
    }
    watch_memory(false);
    stats = chan_stats(crowd.chan);
    assert_int_equal(ron_au64_load(&allocations), 0);
    assert_int_equal(accepted + refused, SENDERS * OFFERS_EACH);
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(ron_au64_load(&crowd.served[i]), s[i].accepted);
    }
    assert_int_equal(ron_au64_load(&crowd.out_of_order), 0);
    assert_int_equal(stats.sent, accepted);
    assert_int_equal(stats.received, accepted);
    assert_int_equal(stats.rejected, refused);
    assert_int_equal(stats.depth, 0);
    assert_true(stats.depth_max <= capacity);
    assert_int_equal(stats.refused, 0);
    if (policy == RON_CHAN_WAIT) {
        assert_int_equal(refused, 0);
    }
    ron_chan_free(crowd.chan);
}

static void test_chan_overload__threads_and_reject__offered_is_served_plus_refused(void **state)
{
    run_crowd(*state, RON_CHAN_REJECT, 8, 0);
}

static void test_chan_overload__threads_and_wait__everything_served(void **state)
{
    run_crowd(*state, RON_CHAN_WAIT, 64, 0);
    run_crowd(*state, RON_CHAN_WAIT, 3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_overload__ten_offers_per_service__flat_and_accounted_for),
        CASE(test_chan_overload__drop_oldest__every_eviction_handed_back),
        CASE(test_chan_overload__threads_and_reject__offered_is_served_plus_refused),
        CASE(test_chan_overload__threads_and_wait__everything_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
