/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a turn of the client, and of a task with an inbox, is bounded, and what it leaves behind is
 * never forgotten.
 * Method: a server played by hand brings more at once than a turn takes, and then nothing at all:
 * only the wake-up that the turn owes itself can bring the rest. */
#include "unit/wire/asks.h"

#include <sched.h>
#include <sys/ioctl.h>

#include "support/oap.h"
#include "wire/client_priv.h"
#include "wire/wire_testing.h"

enum { MANY = 3 * OAP_CLIENT_FRAMES_PER_TURN };

struct crowd {
    struct stage stage;
    struct wire *wire;
    struct peer peer;
    struct probe probes[MANY];
    struct ron_oap_head heads[MANY]; /* of the requests, as the server got them */
};

/* All asks are submitted before the server says HELLO: one turn finds all of them. */
static struct crowd *crowd_open(const void *payload, size_t len, struct ron_oap_inbox *inbox)
{
    struct crowd *c = calloc(1, sizeof *c);

    assert_non_null(c);
    for (size_t i = 0; i < MANY; i++) {
        probe_init(&c->probes[i], WIRE_ECHO, payload, len);
        if (inbox != NULL) {
            c->probes[i].ask.done = NULL;
            c->probes[i].ask.inbox = inbox;
        }
    }
    stage_open(&c->stage);
    c->wire = wire_build(1, (struct ron_oap_opts){0});
    /* No time that runs out comes to help before the test gives up. */
    (void)wire_client(c->wire, (struct ron_oap_client_opts){.addr = c->stage.addr,
                                                            .inflight_max = MANY + 1,
                                                            .call_timeout_ms = 4 * FX_WAIT_MS,
                                                            .stall_ms = 4 * FX_WAIT_MS});
    return c;
}

static void crowd_ask(struct crowd *c)
{
    fx_start(c->wire->fx);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(ron_oap_ask_send(c->wire->client, &c->probes[i].ask), RON_OK);
    }
    stage_accept(&c->stage, &c->peer);
    stage_hello(&c->peer, MANY + 1);
    for (size_t i = 0; i < MANY; i++) {
        c->heads[i] = stage_request(&c->peer);
    }
}

/* All answers with one write. */
static void crowd_answer(struct crowd *c)
{
    struct ron_buf out;

    ron_buf_init(&out, RON_OAP_FRAME_MAX);
    for (size_t i = 0; i < MANY; i++) {
        struct ron_oap_head head = {.flags = RON_OAP_RESP,
                                    .app = WIRE_APP,
                                    .code = 200,
                                    .corr_id = c->heads[i].corr_id,
                                    .tenant = c->heads[i].tenant};

        assert_int_equal(ron_oap_encode(&out, &head, "", "yes", 3, RON_OAP_FRAME_MAX), RON_OK);
    }
    peer_send(&c->peer, ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

static void crowd_close(struct crowd *c)
{
    for (size_t i = 0; i < MANY; i++) {
        probe_answered(&c->probes[i], "yes");
        probe_free(&c->probes[i]);
    }
    wire_close(c->wire);
    peer_close(&c->peer);
    stage_close(&c->stage);
    free(c);
}

/* The buffer of the client holds a third of them. */
static void test_client_turns__more_than_a_buffer_of_requests__all_leave_unanswered(void **state)
{
    enum { BYTES = 3 * OAP_CLIENT_OUT_BYTES / MANY };
    static uint8_t payload[BYTES];
    struct crowd *c = crowd_open(payload, sizeof payload, NULL);

    (void)state;
    _Static_assert((int)BYTES < (int)OAP_CLIENT_COPY_MAX, "they wait in the buffer");
    crowd_ask(c); /* has read all of them */
    crowd_answer(c);
    crowd_close(c);
}

static void test_client_turns__more_answers_than_a_turn_takes__all_are_delivered(void **state)
{
    struct crowd *c = crowd_open("x", 1, NULL);

    (void)state;
    crowd_ask(c);
    crowd_answer(c);
    crowd_close(c);
}

/* ---- the inbox ------------------------------------------------------------------------------- */

enum { PORTION = 5 };

struct reader {
    struct ron_oap_inbox inbox;
    struct ron_au32 too_many;
    size_t next; /* of the probes */
    struct ron_au32 out_of_order;
    struct crowd *crowd;
};

static enum ron_rc reader_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct reader *r = arg;
    struct ron_oap_ask *next = ron_oap_inbox_take(&r->inbox, PORTION);

    (void)t;
    (void)items;
    (void)count;
    for (size_t n = 1; next != NULL; n++) {
        struct ron_oap_ask *ask = next;

        next = ask->next;
        if (n > PORTION) {
            ron_au32_store(&r->too_many, 1);
        }
        if (ask != &r->crowd->probes[r->next++].ask) {
            ron_au32_store(&r->out_of_order, 1);
        }
        probe_done(ask);
    }
    return RON_OK;
}

/* Client and reader share a worker, so a turn of the client fills the inbox before the reader has
 * one. */
static void test_client_turns__inbox_in_portions__all_are_given_in_order(void **state)
{
    struct reader r = {0};

    (void)state;
    r.crowd = crowd_open("x", 1, &r.inbox);
    r.inbox.task = fx_add(
        r.crowd->wire->fx,
        &(struct ron_task_def){
            .name = "reader", .kind = "worker", .worker = 0, .handle = reader_handle, .arg = &r});
    crowd_ask(r.crowd);
    crowd_answer(r.crowd);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(fx_gate_reached(&r.crowd->probes[i].done, 1));
    }
    assert_int_equal(ron_au32_load(&r.too_many), 0);
    assert_int_equal(ron_au32_load(&r.out_of_order), 0);
    crowd_close(r.crowd);
}

/* ---- a connection that breaks within --------------------------------------------------------- */

static struct ron_net_ops breaking;
static struct ron_au32 broken; /* the client cannot write any more */
static struct ron_au32 whole;  /* bytes that its next read waits for */

static enum ron_rc whole_read(const struct ron_env *env, int fd, void *buf, size_t len,
                              size_t *ret_len)
{
    uint32_t wanted = ron_au32_xchg(&whole, 0);
    int there = 0;

    do {
        RON_ASSERT(ioctl(fd, FIONREAD, &there) == 0);
    } while ((uint32_t)there < wanted && sched_yield() == 0);
    return ron_env_linux()->net->read(env, fd, buf, len, ret_len);
}

static enum ron_rc break_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                                int count, size_t *ret_len)
{
    return ron_au32_load(&broken) != 0 ? RON_IO
                                       : ron_env_linux()->net->writev(env, fd, iov, count, ret_len);
}

static enum ron_rc break_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                               size_t *ret_len)
{
    return ron_au32_load(&broken) != 0 ? RON_IO
                                       : ron_env_linux()->net->write(env, fd, buf, len, ret_len);
}

static struct crowd *breaks;
static struct probe late;

/* The first answer: one more ask, whose write fails in the turn that has left answers unread. */
static void ask_once_more(struct ron_oap_ask *ask)
{
    ron_au32_store(&broken, 1);
    RON_ASSERT(ron_oap_ask_send(breaks->wire->client, &late.ask) == RON_OK);
    probe_done(ask);
}

static void test_client_turns__write_fails_before_all_is_read__answers_are_kept(void **state)
{
    (void)state;
    breaking = *ron_env_linux()->net;
    breaking.read = whole_read;
    breaking.write = break_write;
    breaking.writev = break_writev;
    breaks = crowd_open("x", 1, NULL);
    breaks->wire->fx->env.net = &breaking;
    breaks->probes[0].ask.done = ask_once_more;
    probe_init(&late, WIRE_ECHO, "x", 1);
    late.ask.deadline = ron_deadline_after_ms(ron_mono_ns(), FX_WAIT_MS);
    crowd_ask(breaks);
    ron_au32_store(&whole, MANY * (RON_OAP_HEADER_BYTES + 3)); /* "yes" */
    crowd_answer(breaks);
    for (size_t i = 0; i < MANY; i++) {
        probe_answered(&breaks->probes[i], "yes");
    }
    ron_oap_ask_cancel(&late.ask); /* it did not leave */
    probe_expect(&late, RON_OAP_NOT_SENT, RON_CANCELLED);
    probe_free(&late);
    crowd_close(breaks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_turns__more_than_a_buffer_of_requests__all_leave_unanswered),
        cmocka_unit_test(test_client_turns__more_answers_than_a_turn_takes__all_are_delivered),
        cmocka_unit_test(test_client_turns__inbox_in_portions__all_are_given_in_order),
        cmocka_unit_test(test_client_turns__write_fails_before_all_is_read__answers_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
