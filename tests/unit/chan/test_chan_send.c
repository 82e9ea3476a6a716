/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_send.c - the four policies of a full queue, many at once, and reservations.
 *
 * Goal: each policy does what chan.h says, to the counter; a send that fails leaves the message
 *   with its sender; room promised is kept, also past a close.
 * Method: single-threaded where the outcome is decided at once; where a sender must be asleep
 *   first, a helper thread is watched until it is (parked.h). The jitter of retry_once comes from a
 *   fixed environment.
 */
#include "base/rand_priv.h"
#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "unit/chan/fixture.h"

/* A send on a thread of its own. */
struct sender {
    struct ron_chan *chan;
    void *item;
    struct ron_deadline deadline;
    enum ron_rc rc;
};

static void run_sender(void *arg)
{
    struct sender *s = arg;

    s->rc = ron_chan_send(s->chan, s->item, s->deadline, NULL);
}

/* reject --------------------------------------------------------------------------------------- */

static void test_chan_send__reject_and_full__refused_at_once_and_counted(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 3);

    chan_put(c, 0, 3);
    assert_int_equal(ron_chan_try_send(c, msg(3), NULL), RON_FULL);
    assert_int_equal(ron_chan_send(c, msg(3), ron_deadline_never(), NULL), RON_FULL);
    assert_int_equal(chan_stats(c).rejected, 2);
    assert_int_equal(chan_stats(c).dropped, 0);
    assert_int_equal(chan_stats(c).sent, 3);
    assert_int_equal(chan_stats(c).depth, 3);
    assert_int_equal(chan_stats(c).depth_max, 3);
    chan_expect(c, 0, 1);
    assert_int_equal(ron_chan_try_send(c, msg(3), NULL), RON_OK);
    chan_expect(c, 1, 3);
    chan_expect_empty(c);
    ron_chan_free(c);
}

static void test_chan_send__many_at_once__prefix_that_fits_in_order(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 5);
    void *items[8];
    size_t sent = 99;

    for (size_t i = 0; i < RON_ARRAY_LEN(items); i++) {
        items[i] = msg(i);
    }
    assert_int_equal(ron_chan_try_send_many(c, items, 0, &sent), RON_OK);
    assert_int_equal(sent, 0);
    assert_int_equal(ron_chan_try_send_many(c, items, 3, &sent), RON_OK);
    assert_int_equal(sent, 3);
    assert_int_equal(ron_chan_try_send_many(c, items + 3, 5, &sent), RON_FULL);
    assert_int_equal(sent, 2);
    assert_int_equal(chan_stats(c).rejected, 3); /* one for each that did not fit */
    assert_int_equal(ron_chan_try_send_many(c, items, 1, &sent), RON_FULL);
    assert_int_equal(sent, 0);
    chan_expect(c, 0, 5);
    assert_true(ron_chan_close(c));
    assert_int_equal(ron_chan_try_send_many(c, items, 2, &sent), RON_CLOSED);
    assert_int_equal(sent, 0);
    ron_chan_free(c);
}

static void test_chan_send__many_to_a_wait_channel__what_did_not_fit_is_no_rejection(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    void *items[2] = {msg(0), msg(1)};
    size_t sent = 0;

    assert_int_equal(ron_chan_try_send_many(c, items, 2, &sent), RON_FULL);
    assert_int_equal(sent, 1);
    assert_int_equal(chan_stats(c).rejected, 0); /* The sender will wait with the rest. */
    chan_expect(c, 0, 1);
    ron_chan_free(c);
}

/* wait ----------------------------------------------------------------------------------------- */

static void test_chan_send__wait_in_vain__timeout_not_before_the_deadline(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct ron_deadline soon = deadline_in_ms(5);

    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send(c, msg(1), deadline_past(), NULL), RON_TIMEOUT);
    assert_int_equal(ron_chan_send(c, msg(1), soon, NULL), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_int_equal(chan_stats(c).timeouts, 2);
    assert_int_equal(chan_stats(c).rejected, 0);
    assert_int_equal(chan_stats(c).sent, 1);
    chan_expect(c, 0, 1);
    /* With room even a deadline that has passed sends. */
    assert_int_equal(ron_chan_send(c, msg(1), deadline_past(), NULL), RON_OK);
    chan_expect(c, 1, 1);
    ron_chan_free(c);
}

static void test_chan_send__wait_and_room_comes__sent(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct sender s = {.chan = c, .item = msg(1), .deadline = ron_deadline_never()};
    struct ron_thread *t;

    chan_put(c, 0, 1);
    t = thread_run(run_sender, &s);
    thread_wait_parked(t);
    chan_expect(c, 0, 1);
    ron_thread_join(t);
    assert_int_equal(s.rc, RON_OK);
    chan_expect(c, 1, 1);
    assert_int_equal(chan_stats(c).timeouts, 0);
    ron_chan_free(c);
}

static void test_chan_send__wait_and_close__every_waiter_gets_closed(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct sender s[3];
    struct ron_thread *t[RON_ARRAY_LEN(s)];

    chan_put(c, 0, 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(s); i++) {
        s[i] = (struct sender){.chan = c, .item = msg(i + 1), .deadline = ron_deadline_never()};
        t[i] = thread_run(run_sender, &s[i]);
        thread_wait_parked(t[i]);
    }
    assert_true(ron_chan_close(c));
    for (size_t i = 0; i < RON_ARRAY_LEN(s); i++) {
        ron_thread_join(t[i]);
        assert_int_equal(s[i].rc, RON_CLOSED);
    }
    assert_int_equal(chan_stats(c).refused, RON_ARRAY_LEN(s));
    chan_expect(c, 0, 1);
    chan_expect_empty(c);
    ron_chan_free(c);
}

static void test_chan_send__wait_and_unreserve__room_wakes_the_sender(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct sender s = {.chan = c, .item = msg(0), .deadline = ron_deadline_never()};
    struct ron_thread *t;

    assert_int_equal(ron_chan_reserve(c, 1), RON_OK);
    t = thread_run(run_sender, &s);
    thread_wait_parked(t);
    ron_chan_unreserve(c, 1);
    ron_thread_join(t);
    assert_int_equal(s.rc, RON_OK);
    chan_expect(c, 0, 1);
    ron_chan_free(c);
}

static void test_chan_send__poll_and_full__waker_called_when_there_is_room(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct poller p;

    poller_init(&p);
    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send_poll(c, msg(1), &p.node), RON_AGAIN);
    assert_int_equal(p.calls, 0);
    chan_expect(c, 0, 1);
    assert_int_equal(p.calls, 1);
    assert_int_equal(ron_chan_send_poll(c, msg(1), &p.node), RON_OK);
    chan_expect(c, 1, 1);
    assert_int_equal(p.calls, 1); /* It waits no more. */
    assert_int_equal(chan_stats(c).rejected, 0);
    assert_int_equal(chan_stats(c).timeouts, 0);

    chan_put(c, 2, 1);
    assert_int_equal(ron_chan_send_poll(c, msg(3), &p.node), RON_AGAIN);
    assert_true(ron_chan_close(c));
    assert_int_equal(p.calls, 2);
    assert_int_equal(ron_chan_send_poll(c, msg(3), &p.node), RON_CLOSED);
    ron_chan_free(c);
}

static void test_chan_send__woken_poller_gives_up__next_one_is_woken(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct poller a;
    struct poller b;

    poller_init(&a);
    poller_init(&b);
    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send_poll(c, msg(1), &a.node), RON_AGAIN);
    assert_int_equal(ron_chan_send_poll(c, msg(2), &b.node), RON_AGAIN);
    chan_expect(c, 0, 1);
    assert_int_equal(a.calls, 1); /* oldest first, */
    assert_int_equal(b.calls, 0); /* and one for one place */
    ron_chan_send_forget(c, &a.node);
    assert_int_equal(b.calls, 1);
    ron_chan_send_forget(c, &b.node);
    ron_chan_send_forget(c, &b.node); /* Harmless when it does not wait. */
    ron_chan_free(c);
}

/* drop_oldest ---------------------------------------------------------------------------------- */

static void test_chan_send__drop_oldest_and_full__oldest_handed_back(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_DROP_OLDEST, 3);
    void *evicted = msg(77);

    chan_put(c, 0, 3);
    for (size_t i = 3; i < 10; i++) {
        /* Alternate both ways in: neither waits under this policy. */
        enum ron_rc rc = i % 2 == 0 ? ron_chan_try_send(c, msg(i), &evicted)
                                    : ron_chan_send(c, msg(i), ron_deadline_never(), &evicted);

        assert_int_equal(rc, RON_OK);
        assert_int_equal(msg_number(evicted), i - 3);
        assert_int_equal(chan_stats(c).depth, 3);
    }
    assert_int_equal(chan_stats(c).dropped, 7);
    assert_int_equal(chan_stats(c).rejected, 0);
    assert_int_equal(chan_stats(c).sent, 10);
    chan_expect(c, 7, 1);
    assert_int_equal(ron_chan_try_send(c, msg(10), &evicted), RON_OK);
    assert_null(evicted); /* There was room. */
    chan_expect(c, 8, 3);
    assert_int_equal(chan_stats(c).received, 4);
    ron_chan_free(c);
}

static void test_chan_send__drop_oldest_and_all_reserved__nothing_to_evict(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_DROP_OLDEST, 2);
    void *evicted = msg(77);

    assert_int_equal(ron_chan_reserve(c, 2), RON_OK);
    assert_int_equal(ron_chan_try_send(c, msg(0), &evicted), RON_FULL);
    assert_ptr_equal(evicted, msg(77)); /* untouched on failure */
    assert_int_equal(chan_stats(c).rejected, 1);
    ron_chan_send_reserved(c, msg(1));
    /* Reserved room is not taken away: the queued message makes room instead. */
    assert_int_equal(ron_chan_try_send(c, msg(2), &evicted), RON_OK);
    assert_int_equal(msg_number(evicted), 1);
    ron_chan_send_reserved(c, msg(3));
    chan_expect(c, 2, 2);
    ron_chan_free(c);
}

static void send_and_lose_the_evicted(void *arg)
{
    RON_IGNORE(ron_chan_try_send(arg, msg(0), NULL)); /* It does not come back. */
}

static void send_many_and_evict(void *arg)
{
    void *item = msg(0);
    size_t sent;

    RON_IGNORE(ron_chan_try_send_many(arg, &item, 1, &sent)); /* It does not come back. */
}

static void test_chan_send__drop_oldest_with_nowhere_to_hand_back__asserts(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_DROP_OLDEST, 2);

    support_death(send_and_lose_the_evicted, c, "ret_evicted != NULL");
    support_death(send_many_and_evict, c, "c->policy == RON_CHAN_REJECT");
    ron_chan_free(c);
}

/* retry_once ----------------------------------------------------------------------------------- */

static struct ron_chan *retry_chan(struct ron_registry *reg, struct fixed_env *env, uint64_t number)
{
    struct ron_chan_opts opts = chan_opts(reg, RON_CHAN_RETRY_ONCE, 1);

    fixed_env_init(env, number);
    opts.env = &env->env;
    return chan_with(&opts);
}

static void send_a_third_time(void *arg)
{
    struct ron_chan_retry retry = {.tries = 2};

    RON_IGNORE(ron_chan_send_retry(arg, msg(1), &retry)); /* It does not come back. */
}

static void test_chan_send__retry_once_and_full__exactly_two_tries(void **state)
{
    struct fixed_env env;
    struct ron_chan *c = retry_chan(*state, &env, 0);
    struct ron_chan_retry retry = {0};

    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_AGAIN);
    assert_int_equal(retry.tries, 1);
    assert_int_equal(chan_stats(c).retried, 1);
    assert_int_equal(chan_stats(c).rejected, 0); /* not refused yet */
    assert_int_equal(chan_stats(c).dropped, 0);
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_FULL);
    assert_int_equal(retry.tries, 2);
    assert_int_equal(chan_stats(c).retried, 1);
    assert_int_equal(chan_stats(c).rejected, 1);
    assert_int_equal(chan_stats(c).dropped, 1);
    assert_int_equal(env.draws, 1);
    support_death(send_a_third_time, c, "retry->tries < 2");

    retry = (struct ron_chan_retry){0};
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_AGAIN);
    chan_expect(c, 0, 1);
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_OK);
    assert_int_equal(chan_stats(c).dropped, 1);
    chan_expect(c, 1, 1);
    ron_chan_free(c);
}

static void test_chan_send__retry_delay__spreads_over_50_to_150_ms(void **state)
{
    struct fixed_env env;
    struct ron_chan *c = retry_chan(*state, &env, 0);
    struct ron_rand rand = support_rand();
    bool met[RON_CHAN_RETRY_MAX_MS + 1] = {false};

    chan_put(c, 0, 1);
    for (uint64_t i = 0; i < 20000; i++) {
        struct ron_chan_retry retry = {0};

        env.number = i < 2000 ? i : i == 2000 ? UINT64_MAX : ron_rand_u64(&rand);
        assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_AGAIN);
        assert_in_range(retry.delay_ms, RON_CHAN_RETRY_MIN_MS, RON_CHAN_RETRY_MAX_MS);
        met[retry.delay_ms] = true;
    }
    for (size_t ms = RON_CHAN_RETRY_MIN_MS; ms <= RON_CHAN_RETRY_MAX_MS; ms++) {
        assert_true(met[ms]);
    }
    chan_expect(c, 0, 1);
    ron_chan_free(c);
}

static void test_chan_send__retry_once_blocking__waits_the_delay_then_gives_up(void **state)
{
    struct fixed_env env;
    struct ron_chan *c = retry_chan(*state, &env, 3); /* a delay of 53 ms */
    struct ron_deadline delay = deadline_in_ms(RON_CHAN_RETRY_MIN_MS + 3);

    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send(c, msg(1), ron_deadline_never(), NULL), RON_FULL);
    assert_true(ron_deadline_expired(delay, ron_mono_ns()));
    assert_int_equal(env.draws, 1);
    assert_int_equal(chan_stats(c).retried, 1);
    assert_int_equal(chan_stats(c).rejected, 1);
    assert_int_equal(chan_stats(c).dropped, 1);

    /* The caller's deadline cuts the delay, never the second try. */
    assert_int_equal(ron_chan_send(c, msg(1), deadline_past(), NULL), RON_FULL);
    assert_int_equal(chan_stats(c).retried, 2);
    assert_int_equal(chan_stats(c).dropped, 2);
    chan_expect(c, 0, 1);
    assert_int_equal(ron_chan_send(c, msg(2), deadline_past(), NULL), RON_OK);
    chan_expect(c, 2, 1);
    ron_chan_free(c);
}

/* Runs a sender into its retry delay, calls `act` during it, and checks with `judge`. The delay is
 * real time, so a machine that stalls may miss it; such a round proves nothing and is repeated.
 * With `ends_it` the sender must be back before its delay is over. */
static void act_in_the_delay(struct ron_registry *reg, uint64_t jitter_ms, bool ends_it,
                             void (*act)(struct ron_chan *),
                             void (*judge)(struct ron_chan *, const struct sender *))
{
    enum { ROUNDS_MAX = 20 };
    bool in_time = false;

    for (int round = 0; round < ROUNDS_MAX && !in_time; round++) {
        struct fixed_env env;
        struct ron_chan *c = retry_chan(reg, &env, jitter_ms);
        struct sender s = {.chan = c, .item = msg(1), .deadline = ron_deadline_never()};
        struct ron_deadline delay = deadline_in_ms(RON_CHAN_RETRY_MIN_MS + jitter_ms);
        struct ron_thread *t;

        chan_put(c, 0, 1);
        t = thread_run(run_sender, &s);
        if (thread_wait_parked(t)) {
            act(c);
            in_time = !ron_deadline_expired(delay, ron_mono_ns());
        }
        ron_thread_join(t);
        in_time = in_time && !(ends_it && ron_deadline_expired(delay, ron_mono_ns()));
        if (in_time) {
            judge(c, &s);
        }
        ron_chan_free(c);
    }
    assert_true(in_time);
}

static void make_room(struct ron_chan *c)
{
    chan_expect(c, 0, 1);
}

static void judge_sent(struct ron_chan *c, const struct sender *s)
{
    assert_int_equal(s->rc, RON_OK);
    assert_int_equal(chan_stats(c).dropped, 0);
    assert_int_equal(chan_stats(c).retried, 1);
    chan_expect(c, 1, 1);
}

static void test_chan_send__retry_once_and_room_in_the_delay__sent_after_it(void **state)
{
    struct ron_deadline delay = deadline_in_ms(RON_CHAN_RETRY_MIN_MS);

    act_in_the_delay(*state, 0, false, make_room, judge_sent);
    assert_true(
        ron_deadline_expired(delay, ron_mono_ns())); /* Jitter is waited out, room or not. */
}

static void close_it(struct ron_chan *c)
{
    assert_true(ron_chan_close(c));
}

static void judge_closed(struct ron_chan *c, const struct sender *s)
{
    assert_int_equal(s->rc, RON_CLOSED);
    assert_int_equal(chan_stats(c).refused, 1);
    assert_int_equal(chan_stats(c).dropped, 0);
    assert_int_equal(chan_stats(c).rejected, 0);
    chan_expect(c, 0, 1);
}

static void test_chan_send__retry_once_and_close_in_the_delay__ends_it_at_once(void **state)
{
    act_in_the_delay(*state, RON_CHAN_RETRY_MAX_MS - RON_CHAN_RETRY_MIN_MS, true, close_it,
                     judge_closed);
}

/* Reservations --------------------------------------------------------------------------------- */

static void test_chan_send__reserved_room__kept_from_other_senders(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);

    assert_int_equal(ron_chan_reserve(c, 3), RON_OK);
    assert_int_equal(ron_chan_reserve(c, 0), RON_OK);
    assert_int_equal(ron_chan_try_send(c, msg(0), NULL), RON_OK);
    assert_int_equal(ron_chan_try_send(c, msg(9), NULL), RON_FULL);
    assert_int_equal(ron_chan_reserve(c, 1), RON_FULL);
    assert_int_equal(ron_chan_reserve(c, UINT32_MAX), RON_FULL);
    assert_int_equal(chan_stats(c).rejected, 3);
    assert_int_equal(chan_stats(c).depth, 1); /* A promise is no message. */
    ron_chan_send_reserved(c, msg(1));
    ron_chan_send_reserved(c, msg(2));
    ron_chan_unreserve(c, 1);
    assert_int_equal(ron_chan_try_send(c, msg(3), NULL), RON_OK);
    chan_expect(c, 0, 4);
    ron_chan_free(c);
}

static void test_chan_send__reserve_some__what_is_free_and_the_lack_is_counted(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);

    assert_int_equal(ron_chan_try_send(c, msg(0), NULL), RON_OK);
    assert_int_equal(ron_chan_reserve_some(c, 2, 2), 2);
    assert_int_equal(ron_chan_reserve_some(c, 5, 1), 1); /* four were only wished for */
    assert_int_equal(chan_stats(c).rejected, 0);
    assert_int_equal(ron_chan_reserve_some(c, 5, 3), 0);
    assert_int_equal(chan_stats(c).rejected, 3);
    ron_chan_unreserve(c, 3);
    assert_int_equal(ron_chan_reserve_some(c, 5, 5), 3);
    assert_int_equal(chan_stats(c).rejected, 5);
    ron_chan_unreserve(c, 3);
    assert_true(ron_chan_close(c));
    assert_int_equal(ron_chan_reserve_some(c, 2, 1), 0);
    assert_int_equal(chan_stats(c).refused, 1);
    chan_expect(c, 0, 1);
    ron_chan_free(c);
}

static void test_chan_send__reserved_before_close__honoured_after_it(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);
    void *item = NULL;
    size_t n = 0;

    assert_int_equal(ron_chan_reserve(c, 2), RON_OK);
    assert_true(ron_chan_close(c));
    assert_int_equal(ron_chan_reserve(c, 1), RON_CLOSED);
    /* Not the end yet: two messages are promised. */
    assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_AGAIN);
    assert_int_equal(ron_chan_recv(c, deadline_past(), &item), RON_TIMEOUT);
    ron_chan_send_reserved(c, msg(0));
    chan_expect(c, 0, 1);
    assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_AGAIN);
    ron_chan_unreserve(c, 1);
    assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_CLOSED);
    ron_chan_free(c);
}

static void send_unreserved(void *arg)
{
    ron_chan_send_reserved(arg, msg(0));
}

static void unreserve_too_much(void *arg)
{
    RON_ASSERT(ron_chan_reserve(arg, 1) == RON_OK);
    ron_chan_unreserve(arg, 2);
}

static void test_chan_send__more_than_was_reserved__asserts(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);

    support_death(send_unreserved, c, "c->reserved > 0");
    support_death(unreserve_too_much, c, "c->reserved >= count");
    ron_chan_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_send__reject_and_full__refused_at_once_and_counted),
        CASE(test_chan_send__many_at_once__prefix_that_fits_in_order),
        CASE(test_chan_send__many_to_a_wait_channel__what_did_not_fit_is_no_rejection),
        CASE(test_chan_send__wait_in_vain__timeout_not_before_the_deadline),
        CASE(test_chan_send__wait_and_room_comes__sent),
        CASE(test_chan_send__wait_and_close__every_waiter_gets_closed),
        CASE(test_chan_send__wait_and_unreserve__room_wakes_the_sender),
        CASE(test_chan_send__poll_and_full__waker_called_when_there_is_room),
        CASE(test_chan_send__woken_poller_gives_up__next_one_is_woken),
        CASE(test_chan_send__drop_oldest_and_full__oldest_handed_back),
        CASE(test_chan_send__drop_oldest_and_all_reserved__nothing_to_evict),
        CASE(test_chan_send__drop_oldest_with_nowhere_to_hand_back__asserts),
        CASE(test_chan_send__retry_once_and_full__exactly_two_tries),
        CASE(test_chan_send__retry_delay__spreads_over_50_to_150_ms),
        CASE(test_chan_send__retry_once_blocking__waits_the_delay_then_gives_up),
        CASE(test_chan_send__retry_once_and_room_in_the_delay__sent_after_it),
        CASE(test_chan_send__retry_once_and_close_in_the_delay__ends_it_at_once),
        CASE(test_chan_send__reserved_room__kept_from_other_senders),
        CASE(test_chan_send__reserve_some__what_is_free_and_the_lack_is_counted),
        CASE(test_chan_send__reserved_before_close__honoured_after_it),
        CASE(test_chan_send__more_than_was_reserved__asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
