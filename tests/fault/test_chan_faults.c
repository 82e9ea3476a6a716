/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_faults.c - every allocation and system call of sync and chan fails once, in turn.
 *
 * Goal: whatever fails while a registry, channel, bus, watch, reply slot or thread is made, the
 *   caller gets a code of the table with a message, nothing leaks, nothing stays registered, and
 *   the object made before it still works.
 * Method: the sweep of tests/support; a case is a whole life. What must hold inside is asserted.
 */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/chan/bus.h"
#include "ron/chan/chan.h"
#include "ron/chan/oneshot.h"
#include "ron/chan/watch.h"
#include "sync/sync_testing.h"

static char cell; /* every message is its address */

static void no_drop(void *item, void *arg)
{
    (void)item;
    (void)arg;
}

static void no_drop_value(void *value)
{
    (void)value;
}

/* A failure must leave the output alone and fill the error with code and message. */
static void check_failed(enum ron_rc rc, const void *output, const struct ron_err *err)
{
    RON_ASSERT(output == NULL);
    if (err != NULL) {
        RON_ASSERT(err->rc == rc);
        RON_ASSERT(err->where != NULL);
        RON_ASSERT(err->msg[0] != '\0');
    }
}

static enum ron_rc make_registry(struct ron_registry **ret_reg)
{
    struct ron_err err = {0};
    enum ron_rc rc = ron_registry_new(ret_reg, &err);

    if (rc != RON_OK) {
        check_failed(rc, *ret_reg, &err);
    }
    return rc;
}

static enum ron_rc make_chan(struct ron_registry *reg, const char *name, struct ron_chan **ret_chan)
{
    size_t before = ron_registry_count(reg);
    struct ron_err err = {0};
    enum ron_rc rc = ron_chan_new(&(struct ron_chan_opts){.registry = reg,
                                                          .name = name,
                                                          .producers = "test",
                                                          .consumers = "test",
                                                          .drop_text = "forgotten",
                                                          .capacity = 4,
                                                          .policy = RON_CHAN_REJECT,
                                                          .drop = no_drop},
                                  ret_chan, &err);

    if (rc != RON_OK) {
        check_failed(rc, *ret_chan, &err);
        RON_ASSERT(ron_registry_count(reg) == before);
    }
    return rc;
}

/* Channel -------------------------------------------------------------------------------------- */

static enum ron_rc use_chan(struct ron_chan *c)
{
    void *item = NULL;
    size_t n = 0;

    for (int i = 0; i < 4; i++) {
        RON_TRY(ron_chan_try_send(c, &cell, NULL));
    }
    RON_ASSERT(ron_chan_try_send(c, &cell, NULL) == RON_FULL);
    return ron_chan_try_recv_many(c, &item, 1, &n);
}

static enum ron_rc life_of_channels(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_chan *first = NULL;
    struct ron_chan *second = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_GOTO(make_registry(&reg), out);
    RON_GOTO(make_chan(reg, "first", &first), out);
    rc = make_chan(reg, "second", &second);
    RON_ASSERT(use_chan(first) == RON_OK); /* whatever became of the second */
    if (rc == RON_OK) {
        rc = use_chan(second);
    }
out:
    ron_chan_free(second);
    ron_chan_free(first);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__channels__typed_error_no_leak, life_of_channels)

/* Bus, watch, reply slot ----------------------------------------------------------------------- */

static enum ron_rc life_of_a_bus(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_bus *b = NULL;
    struct ron_bus_reader r = {0};
    struct ron_err err = {0};
    uint64_t message = 7;
    uint64_t missed = 0;
    size_t n = 0;
    enum ron_rc rc;

    (void)arg;
    RON_GOTO(make_registry(&reg), out);
    rc = ron_bus_new(&(struct ron_bus_opts){.registry = reg,
                                            .name = "events",
                                            .producers = "test",
                                            .consumers = "test",
                                            .capacity = 4,
                                            .message_bytes = sizeof(message),
                                            .readers_max = 2},
                     &b, &err);
    if (rc != RON_OK) {
        check_failed(rc, b, &err);
        RON_ASSERT(ron_registry_count(reg) == 0);
        goto out;
    }
    RON_GOTO(ron_bus_subscribe(b, &r, NULL, &err), out);
    RON_GOTO(ron_bus_publish(b, &message), out);
    rc = ron_bus_poll(&r, &message, 1, &n, &missed);
out:
    ron_bus_unsubscribe(&r);
    ron_bus_free(b);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__bus__typed_error_no_leak, life_of_a_bus)

static enum ron_rc life_of_a_watch(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_watch *w = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)arg;
    RON_GOTO(make_registry(&reg), out);
    rc = ron_watch_new(
        &(struct ron_watch_opts){
            .registry = reg, .name = "ready", .producers = "test", .consumers = "test"},
        &w, &err);
    if (rc != RON_OK) {
        check_failed(rc, w, &err);
        RON_ASSERT(ron_registry_count(reg) == 0);
        goto out;
    }
    ron_watch_set(w, 1);
    RON_ASSERT(ron_watch_value(w) == 1);
out:
    ron_watch_free(w);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__watch__typed_error_no_leak, life_of_a_watch)

static enum ron_rc life_of_a_reply(void *arg)
{
    struct ron_oneshot *s = NULL;
    void *value = NULL;
    enum ron_rc rc = ron_oneshot_new(no_drop_value, &s);

    (void)arg;
    if (rc != RON_OK) {
        check_failed(rc, s, NULL);
        return rc;
    }
    rc = ron_oneshot_answer(s, &cell);
    RON_ASSERT(rc == RON_OK);
    rc = ron_oneshot_wait(s, ron_deadline_never(), &value);
    ron_oneshot_leave(s);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__oneshot__typed_error_no_leak, life_of_a_reply)

/* Writers -------------------------------------------------------------------------------------- */

static enum ron_rc write_topology(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_chan *c = NULL;
    struct ron_buf json;
    struct ron_buf md;
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&json, 1 << 16);
    ron_buf_init(&md, 1 << 16);
    RON_GOTO(make_registry(&reg), out);
    RON_GOTO(make_chan(reg, "jobs", &c), out);
    RON_GOTO(ron_registry_write_json(reg, &json), out);
    rc = ron_registry_write_md(reg, &md);
out:
    ron_chan_free(c);
    ron_registry_free(reg);
    ron_buf_done(&json);
    ron_buf_done(&md);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__topology__typed_error_no_leak, write_topology)

/* Threads -------------------------------------------------------------------------------------- */

static void take_and_answer(void *arg)
{
    struct ron_chan *c = arg;
    void *item = NULL;

    while (ron_chan_recv(c, ron_deadline_never(), &item) == RON_OK) {
        RON_ASSERT(item == &cell);
    }
}

/* Two workers on one channel; the second may fail to start, and the first must still be joined. */
static enum ron_rc life_of_workers(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_chan *c = NULL;
    struct ron_thread *t[2] = {NULL, NULL};
    enum ron_rc rc;

    (void)arg;
    RON_GOTO(make_registry(&reg), out);
    RON_GOTO(make_chan(reg, "jobs", &c), out);
    for (size_t i = 0; i < RON_ARRAY_LEN(t) && rc == RON_OK; i++) {
        struct ron_err err = {0};

        rc = ron_thread_start(
            &(struct ron_thread_opts){
                .name = "worker", .may_block = true, .main = take_and_answer, .arg = c},
            &t[i], &err);
        if (rc != RON_OK) {
            check_failed(rc, t[i], &err);
            RON_ASSERT(rc == RON_LIMIT);
            RON_ASSERT(err.sys_errno != 0);
        }
    }
    if (rc == RON_OK) {
        rc = ron_chan_try_send(c, &cell, NULL);
    }
    RON_ASSERT(ron_chan_close(c));
    for (size_t i = 0; i < RON_ARRAY_LEN(t); i++) {
        if (t[i] != NULL) {
            ron_thread_join(t[i]);
        }
    }
    RON_ASSERT(ron_threads_live() == 0);
out:
    ron_chan_free(c);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_chan_faults__workers__typed_error_no_thread_left, life_of_workers)

static bool fail_syscalls(enum ron_fault_kind kind, const char *where)
{
    (void)where;
    return kind == RON_FAULT_SYSCALL;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void test_chan_faults__thread_start_fails_often__records_are_given_back(void **state)
{
    struct ron_thread_opts opts = {.name = "worker", .may_block = true, .main = nothing};
    struct ron_thread *t = NULL;

    (void)state;
    ron_fault_hook = fail_syscalls;
    for (int i = 0; i < 2 * RON_THREADS_MAX; i++) {
        struct ron_err err = {0};
        enum ron_rc rc = ron_thread_start(&opts, &t, &err);

        if (rc != RON_LIMIT || strstr(err.msg, "thread 'worker' could not be started") == NULL) {
            ron_fault_hook = NULL;
            fail_msg("round %d: %s, %s", i, ron_rc_name(rc), err.msg);
        }
    }
    ron_fault_hook = NULL;
    assert_null(t);
    assert_int_equal(ron_thread_start(&opts, &t, NULL), RON_OK);
    ron_thread_join(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chan_faults__channels__typed_error_no_leak),
        cmocka_unit_test(test_chan_faults__bus__typed_error_no_leak),
        cmocka_unit_test(test_chan_faults__watch__typed_error_no_leak),
        cmocka_unit_test(test_chan_faults__oneshot__typed_error_no_leak),
        cmocka_unit_test(test_chan_faults__topology__typed_error_no_leak),
        cmocka_unit_test(test_chan_faults__workers__typed_error_no_thread_left),
        cmocka_unit_test(test_chan_faults__thread_start_fails_often__records_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
