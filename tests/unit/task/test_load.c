/* SPDX-License-Identifier: Apache-2.0 */
/* test_load.c - stopping a service that is flooded.
 *
 * Goal: clients offer more than fits until they are told to stop; when the service has drained,
 * each offer is accounted for: accepted and handled, shed inside and counted, refused as busy, or
 * refused because the service was going.
 * Method: client threads outside the supervisor, a pool of loop workers, a blocking last stage. */
#include "chan/chan_testing.h"
#include "unit/task/fixture.h"

enum { SENDERS = 2 };

struct load {
    struct fx *fx;
    struct ron_chan *in;
    struct ron_chan *out;
    struct ron_au32 accepting;
    struct ron_au64 offered, accepted, busy, closed; /* of the senders */
    struct ron_au64 forwarded, shed;                 /* of the first stage */
    struct fx_gate handled;
    struct fx_gate senders_done;
};

/* A client: offers until it is told that the service goes. */
static void sender(void *arg)
{
    struct load *l = arg;

    while (ron_au32_load(&l->accepting) != 0) {
        enum ron_rc rc = ron_chan_try_send(l->in, fx_item(1), NULL);

        (void)ron_au64_add(&l->offered, 1);
        (void)ron_au64_add(rc == RON_OK ? &l->accepted : rc == RON_FULL ? &l->busy : &l->closed, 1);
        if (rc == RON_FULL) {
            (void)sched_yield();
        }
    }
    fx_gate_add(&l->senders_done, 1);
}

static void load_drain(struct ron_task *t, void *arg)
{
    struct load *l = arg;

    ron_au32_store(&l->accepting, 0);
    ron_task_intake_stopped(t);
}

static enum ron_rc do_nothing(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static enum ron_rc load_forward(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct load *l = arg;
    size_t sent = 0;

    (void)t;
    (void)!ron_chan_try_send_many(l->out, items, count, &sent);
    (void)ron_au64_add(&l->forwarded, sent);
    (void)ron_au64_add(&l->shed, count - sent);
    return RON_OK;
}

static enum ron_rc load_count(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct load *l = arg;

    (void)t;
    (void)items;
    fx_gate_add(&l->handled, count);
    return RON_OK;
}

static void load_open(struct load *l)
{
    static const char *const names[] = {"first-a", "first-b"};

    *l = (struct load){.fx = fx_open(2), .accepting = {1}};
    fx_gate_init(&l->handled);
    fx_gate_init(&l->senders_done);
    l->in = fx_chan(l->fx, "in", 128, RON_CHAN_REJECT);
    l->out = fx_chan(l->fx, "out", 256, RON_CHAN_REJECT);
    (void)fx_add(l->fx, &(struct ron_task_def){.name = "intake",
                                               .kind = "listener",
                                               .role = RON_ROLE_INTAKE,
                                               .worker = RON_WORKER_ANY,
                                               .handle = do_nothing,
                                               .drain = load_drain,
                                               .arg = l});
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        (void)fx_add(l->fx, &(struct ron_task_def){.name = names[i],
                                                   .kind = "worker",
                                                   .stage = 1,
                                                   .worker = RON_WORKER_ANY,
                                                   .input = l->in,
                                                   .handle = load_forward,
                                                   .arg = l});
    }
    (void)fx_add(l->fx, &(struct ron_task_def){.name = "last",
                                               .kind = "writer",
                                               .mode = RON_TASK_BLOCKING,
                                               .stage = 2,
                                               .input = l->out,
                                               .handle = load_count,
                                               .arg = l});
}

static void test_load__stop_under_load__everything_accepted_is_handled(void **state)
{
    struct load l;
    struct ron_thread *senders[SENDERS];
    struct ron_chan_stats in;
    struct ron_chan_stats out;

    (void)state;
    load_open(&l);
    fx_start(l.fx);
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(ron_thread_start(
                             &(struct ron_thread_opts){
                                 .name = "sender", .may_block = true, .main = sender, .arg = &l},
                             &senders[i], NULL),
                         RON_OK);
    }
    assert_true(fx_gate_reached(&l.handled, 20000));
    assert_int_equal(fx_stop(l.fx), RON_EXIT_DRAINED);
    assert_true(fx_gate_reached(&l.senders_done, SENDERS));
    for (size_t i = 0; i < SENDERS; i++) {
        ron_thread_join(senders[i]);
    }
    ron_chan_get_stats(l.in, &in);
    ron_chan_get_stats(l.out, &out);
    /* Clients: offered = accepted + busy + closed. Service: accepted = handled + shed, none
     * left. */
    assert_int_equal(ron_au64_load(&l.offered), ron_au64_load(&l.accepted) +
                                                    ron_au64_load(&l.busy) +
                                                    ron_au64_load(&l.closed));
    assert_int_equal(in.sent, ron_au64_load(&l.accepted));
    assert_int_equal(in.received, in.sent);
    assert_int_equal(in.rejected, ron_au64_load(&l.busy));
    assert_int_equal(in.refused, ron_au64_load(&l.closed));
    assert_int_equal(in.depth + out.depth, 0);
    assert_int_equal(out.sent, ron_au64_load(&l.forwarded));
    assert_int_equal(fx_gate_count(&l.handled), ron_au64_load(&l.forwarded));
    assert_int_equal(fx_gate_count(&l.handled) + ron_au64_load(&l.shed),
                     ron_au64_load(&l.accepted));
    assert_int_equal(out.refused, 0); /* the next stage never closes under the one before it */
    assert_true(in.depth_max <= 128 && out.depth_max <= 256);
    ron_chan_free(l.in);
    ron_chan_free(l.out);
    fx_gate_done(&l.handled);
    fx_gate_done(&l.senders_done);
    assert_true(fx_close(l.fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__stop_under_load__everything_accepted_is_handled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
