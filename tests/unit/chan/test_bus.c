/* SPDX-License-Identifier: Apache-2.0 */
/* test_bus.c - broadcast with a cursor per reader.
 *
 * Goal: every reader gets every message in order unless it falls behind by more than the capacity;
 *   then it is told exactly how many it missed, once per gap, and the counter rises by as many
 *   (K-45, K-52). Publishing never waits and wakes each waiting reader once.
 * Method: exact small histories, one long random history against a plain model, and threads.
 */
#include "chan/chan_testing.h"
#include "unit/chan/fixture.h"

static void publish(struct ron_bus *b, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(ron_bus_publish(b, &(uint64_t){first + i}), RON_OK);
    }
}

static void subscribe(struct ron_bus *b, struct ron_bus_reader *r, struct ron_waker *waker)
{
    assert_int_equal(ron_bus_subscribe(b, r, waker, NULL), RON_OK);
}

static void expect_messages(struct ron_bus_reader *r, uint64_t first, size_t count)
{
    uint64_t out[64];
    uint64_t missed = 0;
    size_t n = 0;

    assert_int_equal(ron_bus_poll(r, out, RON_ARRAY_LEN(out), &n, &missed), RON_OK);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i], first + i);
    }
}

static enum ron_rc poll_one(struct ron_bus_reader *r, uint64_t *ret_missed)
{
    uint64_t out = 0;
    size_t n = 0;

    return ron_bus_poll(r, &out, 1, &n, ret_missed);
}

static uint64_t sample(struct ron_registry *reg, const char *metric)
{
    struct ron_reg_row row;

    assert_int_equal(ron_registry_rows(reg, 0, &row, 1), 1);
    for (size_t i = 0; i < row.sample_count; i++) {
        if (strcmp(row.samples[i].metric, metric) == 0) {
            assert_string_equal(row.samples[i].label, "bus");
            return row.samples[i].value;
        }
    }
    fail_msg("no sample %s", metric);
    return 0;
}

/* Making --------------------------------------------------------------------------------------- */

static void test_bus__made_without_a_bound__refused_with_the_reason(void **state)
{
    static const struct {
        struct ron_bus_opts bad; /* what differs from the good options; 1 means "make it 0" */
        const char *text;
    } cases[] = {
        {{.capacity = 1}, "bus 'events': capacity 0 is outside 1..65536"},
        {{.capacity = RON_BUS_CAPACITY_MAX + 1}, "capacity 65537 is outside"},
        {{.message_bytes = 1}, "bus 'events': message size 0 is outside 1..4096"},
        {{.message_bytes = RON_BUS_MESSAGE_MAX + 1}, "message size 4097 is outside"},
        {{.readers_max = 1}, "bus 'events': reader limit 0 is outside 1..4096"},
        {{.readers_max = UINT32_MAX}, "reader limit 4294967295 is outside"},
        {{.name = "-"}, "bus: the name '' is not"},
        {{.producers = "-"}, "bus 'events': 'producers' must be stated"},
        {{.consumers = "-"}, "bus 'events': 'consumers' must be stated"},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        const struct ron_bus_opts *bad = &cases[i].bad;
        struct ron_bus_opts opts = {.registry = *state,
                                    .name = bad->name != NULL ? NULL : "events",
                                    .producers = bad->producers != NULL ? NULL : "test",
                                    .consumers = bad->consumers != NULL ? NULL : "test",
                                    .capacity = 4,
                                    .message_bytes = 8,
                                    .readers_max = 2};
        struct ron_bus *b = NULL;
        struct ron_err err = {0};

        opts.capacity = bad->capacity == 0 ? 4 : bad->capacity == 1 ? 0 : bad->capacity;
        opts.message_bytes = bad->message_bytes == 0   ? 8
                             : bad->message_bytes == 1 ? 0
                                                       : bad->message_bytes;
        opts.readers_max = bad->readers_max == 0 ? 2 : bad->readers_max == 1 ? 0 : bad->readers_max;
        assert_int_equal(ron_bus_new(&opts, &b, &err), RON_INVALID);
        if (strstr(err.msg, cases[i].text) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", err.msg, cases[i].text);
        }
        assert_null(b);
    }
}

static void test_bus__more_readers_than_stated__limit(void **state)
{
    struct ron_bus *b = NULL;
    struct ron_bus_reader r[3];
    struct ron_err err = {0};
    struct ron_bus_opts opts = {.registry = *state,
                                .name = "events",
                                .producers = "test",
                                .consumers = "test",
                                .capacity = 2,
                                .message_bytes = 8,
                                .readers_max = 2};

    assert_int_equal(ron_bus_new(&opts, &b, NULL), RON_OK);
    subscribe(b, &r[0], NULL);
    subscribe(b, &r[1], NULL);
    assert_int_equal(ron_bus_subscribe(b, &r[2], NULL, &err), RON_LIMIT);
    assert_string_equal(err.msg, "bus 'events' has no place for a reader");
    ron_bus_unsubscribe(&r[2]); /* Harmless: it never got in. */
    assert_int_equal(sample(*state, "bus_readers"), 2);
    ron_bus_unsubscribe(&r[0]);
    ron_bus_unsubscribe(&r[0]); /* Harmless: it has left. */
    subscribe(b, &r[2], NULL);
    assert_int_equal(sample(*state, "bus_readers"), 2);
    ron_bus_unsubscribe(&r[1]);
    ron_bus_unsubscribe(&r[2]);
    assert_int_equal(sample(*state, "bus_readers"), 0);
    ron_bus_free(b);
}

static void free_with_reader(void *arg)
{
    struct ron_bus_reader r;

    RON_ASSERT(ron_bus_subscribe(arg, &r, NULL, NULL) == RON_OK);
    ron_bus_free(arg);
}

static void test_bus__freed_with_a_reader__asserts(void **state)
{
    struct ron_bus *b = bus_make(*state, 2);

    support_death(free_with_reader, b, "bus 'events' freed with 1 readers");
    ron_bus_free(b);
    ron_bus_free(NULL);
}

/* Reading -------------------------------------------------------------------------------------- */

static void test_bus__several_readers__each_gets_all_from_its_subscription_on(void **state)
{
    struct ron_bus *b = bus_make(*state, 8);
    struct ron_bus_reader early;
    struct ron_bus_reader late;
    uint64_t missed = 77;

    publish(b, 0, 3);
    subscribe(b, &early, NULL);
    assert_int_equal(poll_one(&early, &missed), RON_AGAIN); /* What was before it is not its own. */
    publish(b, 3, 2);
    subscribe(b, &late, NULL);
    publish(b, 5, 4);
    expect_messages(&early, 3, 6);
    expect_messages(&late, 5, 4);
    assert_int_equal(poll_one(&early, &missed), RON_AGAIN);
    assert_int_equal(poll_one(&late, &missed), RON_AGAIN);
    assert_int_equal(missed, 77);
    assert_int_equal(early.lagged + late.lagged, 0);
    ron_bus_unsubscribe(&early);
    ron_bus_unsubscribe(&late);
    ron_bus_free(b);
}

static void test_bus__reader_falls_behind__told_exactly_how_many_once(void **state)
{
    struct ron_bus *b = bus_make(*state, 4);
    struct ron_bus_reader r;
    uint64_t missed = 0;

    subscribe(b, &r, NULL);
    publish(b, 0, 4); /* Exactly the capacity: nothing is missed. */
    expect_messages(&r, 0, 4);
    publish(b, 4, 5); /* One more: one is missed. */
    assert_int_equal(poll_one(&r, &missed), RON_LAGGED);
    assert_int_equal(missed, 1);
    assert_int_equal(r.lagged, 1);
    assert_int_equal(sample(*state, "bus_lagged_total"), 1);
    expect_messages(&r, 5, 4); /* told once, then on with the oldest kept */

    publish(b, 9, 104);
    assert_int_equal(poll_one(&r, &missed), RON_LAGGED);
    assert_int_equal(missed, 100);
    publish(b, 113, 2); /* Overtaken again before it read on: a second gap, of two. */
    assert_int_equal(poll_one(&r, &missed), RON_LAGGED);
    assert_int_equal(missed, 2);
    expect_messages(&r, 111, 4);
    assert_int_equal(r.lagged, 103);
    assert_int_equal(sample(*state, "bus_lagged_total"), 103);
    assert_int_equal(sample(*state, "bus_published_total"), 115);
    ron_bus_unsubscribe(&r);
    ron_bus_free(b);
}

static void test_bus__two_readers_lag__counter_is_the_sum(void **state)
{
    struct ron_bus *b = bus_make(*state, 2);
    struct ron_bus_reader r[2];
    uint64_t missed = 0;

    subscribe(b, &r[0], NULL);
    publish(b, 0, 1);
    subscribe(b, &r[1], NULL);
    publish(b, 1, 9);
    assert_int_equal(poll_one(&r[0], &missed), RON_LAGGED);
    assert_int_equal(missed, 8);
    assert_int_equal(poll_one(&r[1], &missed), RON_LAGGED);
    assert_int_equal(missed, 7);
    assert_int_equal(sample(*state, "bus_lagged_total"), 15);
    ron_bus_unsubscribe(&r[0]);
    ron_bus_unsubscribe(&r[1]);
    ron_bus_free(b);
}

static void test_bus__random_history__equals_a_plain_model(void **state)
{
    enum { READERS = 3, STEPS = 20000 };
    struct ron_rand rand = support_rand();
    uint32_t capacity = (uint32_t)ron_rand_range(&rand, 1, 9);
    struct ron_bus *b = bus_make(*state, capacity);
    struct ron_bus_reader r[READERS];
    uint64_t cursor[READERS] = {0}; /* of the model */
    uint64_t next = 0;
    uint64_t lagged = 0;

    for (size_t i = 0; i < READERS; i++) {
        subscribe(b, &r[i], NULL);
    }
    for (int step = 0; step < STEPS; step++) {
        size_t who = (size_t)ron_rand_below(&rand, READERS + 1);
        uint64_t oldest = next - RON_MIN(next, (uint64_t)capacity);
        size_t max = (size_t)ron_rand_range(&rand, 1, 6);
        uint64_t out[8];
        uint64_t missed = 0;
        size_t n = 0;
        enum ron_rc rc;

        if (who == READERS) {
            publish(b, next, max);
            next += max;
            continue;
        }
        rc = ron_bus_poll(&r[who], out, max, &n, &missed);
        if (cursor[who] < oldest) {
            assert_int_equal(rc, RON_LAGGED);
            assert_int_equal(missed, oldest - cursor[who]);
            lagged += missed;
            cursor[who] = oldest;
        } else if (cursor[who] == next) {
            assert_int_equal(rc, RON_AGAIN);
        } else {
            assert_int_equal(rc, RON_OK);
            assert_int_equal(n, RON_MIN((uint64_t)max, next - cursor[who]));
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(out[i], cursor[who]++);
            }
        }
        assert_int_equal(sample(*state, "bus_lagged_total"), lagged);
    }
    for (size_t i = 0; i < READERS; i++) {
        ron_bus_unsubscribe(&r[i]);
    }
    ron_bus_free(b);
}

static void test_bus__odd_message_size__bytes_come_out_as_they_went_in(void **state)
{
    struct ron_bus *b = NULL;
    struct ron_bus_reader r;
    char out[3][7];
    uint64_t missed = 0;
    size_t n = 0;
    struct ron_bus_opts opts = {.registry = *state,
                                .name = "events",
                                .producers = "test",
                                .consumers = "test",
                                .capacity = 3,
                                .message_bytes = 7,
                                .readers_max = 1};

    assert_int_equal(ron_bus_new(&opts, &b, NULL), RON_OK);
    subscribe(b, &r, NULL);
    assert_int_equal(ron_bus_publish(b, "first.."), RON_OK);
    assert_int_equal(ron_bus_poll(&r, out, 3, &n, &missed), RON_OK);
    assert_int_equal(ron_bus_publish(b, "second."), RON_OK);
    assert_int_equal(ron_bus_publish(b, "third.."), RON_OK);
    assert_int_equal(ron_bus_publish(b, "fourth."), RON_OK); /* across the end of the ring */
    assert_int_equal(ron_bus_poll(&r, out, 3, &n, &missed), RON_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(out, "second.third..fourth.", sizeof(out));
    ron_bus_unsubscribe(&r);
    ron_bus_free(b);
}

/* Closing and waiting -------------------------------------------------------------------------- */

static void test_bus__closed__readers_get_what_is_kept_then_closed(void **state)
{
    struct ron_bus *b = bus_make(*state, 2);
    struct ron_bus_reader r;
    struct ron_bus_reader late;
    struct ron_reg_row row;
    struct ron_err err = {0};
    uint64_t out = 0;
    uint64_t missed = 0;
    size_t n = 0;

    subscribe(b, &r, NULL);
    publish(b, 0, 3);
    assert_int_equal(ron_registry_rows(*state, 0, &row, 1), 1);
    assert_string_equal(row.state, "open");
    assert_true(ron_bus_close(b));
    assert_false(ron_bus_close(b));
    assert_int_equal(ron_registry_rows(*state, 0, &row, 1), 1);
    assert_string_equal(row.state, "closed");
    assert_int_equal(ron_bus_publish(b, &out), RON_CLOSED);
    assert_int_equal(ron_bus_subscribe(b, &late, NULL, &err), RON_CLOSED);
    assert_string_equal(err.msg, "bus 'events' is closed");
    assert_int_equal(ron_bus_recv(&r, &out, 1, ron_deadline_never(), &n, &missed), RON_LAGGED);
    assert_int_equal(missed, 1);
    expect_messages(&r, 1, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ron_bus_recv(&r, &out, 1, ron_deadline_never(), &n, &missed), RON_CLOSED);
        assert_int_equal(poll_one(&r, &missed), RON_CLOSED);
    }
    assert_int_equal(sample(*state, "bus_published_total"), 3);
    ron_bus_unsubscribe(&r);
    ron_bus_free(b);
}

static void test_bus__nothing_there__timeout_not_before_the_deadline(void **state)
{
    struct ron_bus *b = bus_make(*state, 2);
    struct ron_deadline soon = deadline_in_ms(5);
    struct ron_bus_reader r;
    uint64_t out = 0;
    uint64_t missed = 0;
    size_t n = 0;

    subscribe(b, &r, NULL);
    assert_int_equal(ron_bus_recv(&r, &out, 1, soon, &n, &missed), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    publish(b, 9, 1); /* The reader has left the lot: nothing to wake, nothing is lost. */
    assert_int_equal(ron_bus_recv(&r, &out, 1, deadline_past(), &n, &missed), RON_OK);
    assert_int_equal(out, 9);
    ron_bus_unsubscribe(&r);
    ron_bus_free(b);
}

struct bus_listener {
    struct ron_bus_reader reader;
    enum ron_rc rc;
    uint64_t got;
};

static void listen_once(void *arg)
{
    struct bus_listener *l = arg;
    uint64_t missed;
    size_t n;

    l->rc = ron_bus_recv(&l->reader, &l->got, 1, ron_deadline_never(), &n, &missed);
}

static void test_bus__subscribed_here_and_read_on_another_thread__that_thread_is_woken(void **state)
{
    for (int close = 0; close <= 1; close++) {
        struct ron_bus *b = bus_make(*state, 4);
        struct bus_listener l[3];
        struct ron_thread *t[RON_ARRAY_LEN(l)];

        for (size_t i = 0; i < RON_ARRAY_LEN(l); i++) {
            l[i] = (struct bus_listener){.rc = RON_INTERNAL};
            subscribe(b, &l[i].reader, NULL); /* handed over: used by one thread at a time */
            t[i] = thread_run(listen_once, &l[i]);
            assert_true(thread_wait_parked(t[i]));
        }
        if (close != 0) {
            assert_true(ron_bus_close(b));
        } else {
            publish(b, 42, 1);
        }
        for (size_t i = 0; i < RON_ARRAY_LEN(l); i++) {
            assert_false(thread_is_parked(t[i])); /* or the join below would hang */
            ron_thread_join(t[i]);
            assert_int_equal(l[i].rc, close != 0 ? RON_CLOSED : RON_OK);
            assert_int_equal(l[i].got, close != 0 ? 0 : 42);
            ron_bus_unsubscribe(&l[i].reader);
        }
        ron_bus_free(b);
    }
}

/* A waker that reads at once and waits again, as a very fast reader would. */
struct eager {
    struct poller poller;
    struct ron_bus_reader reader;
    uint64_t sum;
};

static void eager_wake(struct ron_waker *w)
{
    struct poller *p = RON_CONTAINER_OF(w, struct poller, waker);
    struct eager *e = RON_CONTAINER_OF(p, struct eager, poller);
    uint64_t out;
    uint64_t missed;
    size_t n;

    p->calls++;
    while (p->calls < 100 && ron_bus_poll(&e->reader, &out, 1, &n, &missed) == RON_OK) {
        e->sum += out;
    }
}

static void test_bus__reader_waits_again_during_a_publish__woken_once_per_message(void **state)
{
    struct ron_bus *b = bus_make(*state, 4);
    struct eager e[3] = {0};
    uint64_t missed = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(e); i++) {
        poller_init(&e[i].poller);
        e[i].poller.waker.wake = eager_wake;
        subscribe(b, &e[i].reader, &e[i].poller.waker);
        assert_int_equal(poll_one(&e[i].reader, &missed), RON_AGAIN);
    }
    publish(b, 1, 10);
    for (size_t i = 0; i < RON_ARRAY_LEN(e); i++) {
        assert_int_equal(e[i].poller.calls, 10);
        assert_int_equal(e[i].sum, 55);
        ron_bus_unsubscribe(&e[i].reader);
    }
    publish(b, 11, 1);
    assert_int_equal(e[0].poller.calls, 10);
    ron_bus_free(b);
}

enum { STREAM = 20000 };

static void read_stream(void *arg)
{
    struct bus_listener *l = arg;
    uint64_t expected = 0;

    for (;;) {
        uint64_t out[16];
        uint64_t missed = 0;
        size_t n = 0;

        l->rc =
            ron_bus_recv(&l->reader, out, RON_ARRAY_LEN(out), ron_deadline_never(), &n, &missed);
        if (l->rc == RON_LAGGED) {
            expected += missed;
            continue;
        }
        if (l->rc != RON_OK) {
            break;
        }
        for (size_t i = 0; i < n; i++) {
            if (out[i] != expected++) {
                l->rc = RON_CORRUPT;
                return;
            }
        }
        l->got += n;
    }
}

static void test_bus__readers_on_threads__got_and_missed_add_up(void **state)
{
    struct ron_bus *b = bus_make(*state, 16);
    struct bus_listener l[3];
    struct ron_thread *t[RON_ARRAY_LEN(l)];
    uint64_t lagged = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(l); i++) {
        l[i] = (struct bus_listener){.got = 0};
        subscribe(b, &l[i].reader, NULL);
        t[i] = thread_run(read_stream, &l[i]);
    }
    publish(b, 0, STREAM);
    assert_true(ron_bus_close(b));
    for (size_t i = 0; i < RON_ARRAY_LEN(l); i++) {
        ron_thread_join(t[i]);
        assert_int_equal(l[i].rc, RON_CLOSED);
        assert_int_equal(l[i].got + l[i].reader.lagged, STREAM);
        lagged += l[i].reader.lagged;
        ron_bus_unsubscribe(&l[i].reader);
    }
    assert_int_equal(sample(*state, "bus_lagged_total"), lagged);
    ron_bus_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_bus__made_without_a_bound__refused_with_the_reason),
        CASE(test_bus__more_readers_than_stated__limit),
        CASE(test_bus__freed_with_a_reader__asserts),
        CASE(test_bus__several_readers__each_gets_all_from_its_subscription_on),
        CASE(test_bus__reader_falls_behind__told_exactly_how_many_once),
        CASE(test_bus__two_readers_lag__counter_is_the_sum),
        CASE(test_bus__random_history__equals_a_plain_model),
        CASE(test_bus__odd_message_size__bytes_come_out_as_they_went_in),
        CASE(test_bus__closed__readers_get_what_is_kept_then_closed),
        CASE(test_bus__nothing_there__timeout_not_before_the_deadline),
        CASE(test_bus__subscribed_here_and_read_on_another_thread__that_thread_is_woken),
        CASE(test_bus__reader_waits_again_during_a_publish__woken_once_per_message),
        CASE(test_bus__readers_on_threads__got_and_missed_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
