/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_count.c - one operation, many times, on one thread: for counting its instructions.
 *
 *   bench_kernel_count              times every operation, a line "name<TAB>text<TAB>ns" for each
 *   bench_kernel_count NAME COUNT   runs one operation COUNT times and prints nothing
 *   bench_kernel_count --list       the names
 *
 * The second form runs under callgrind with a count and with its double: the difference divided by
 * the count is the exact number of instructions of one operation, start and end of the program
 * excluded (kernel.sh). Nobody waits here and no lock is contended, so these are the costs of the
 * fast paths. The two hops include the executor's poll, once per 64 handler calls. */
#include "bench/bench_ring.h"
#include "chan/chan_testing.h"
#include "ron/base/money.h"
#include "ron/base/ulid.h"
#include "ron/chan/bus.h"
#include "ron/chan/oneshot.h"
#include "ron/chan/watch.h"

enum { BATCH = 64, BUS_BYTES = 64, COUNT_MAX = 100000000 };

static char message;

/* ---- channels -------------------------------------------------------------------------------- */

static void run_send_recv(uint64_t count)
{
    struct ron_registry *registry = NULL;
    struct ron_chan *chan;
    void *item = NULL;
    size_t got = 0;

    BENCH_OK(ron_registry_new(&registry, NULL));
    chan = bench_chan_new(registry, "bench", 1024, RON_CHAN_REJECT);
    for (uint64_t i = 0; i < count; i++) {
        BENCH_OK(ron_chan_try_send(chan, &message, NULL));
        BENCH_OK(ron_chan_try_recv_many(chan, &item, 1, &got));
    }
    ron_chan_free(chan);
    ron_registry_free(registry);
}

static void run_send_recv_wait(uint64_t count)
{
    struct ron_registry *registry = NULL;
    struct ron_chan *chan;
    void *item = NULL;

    BENCH_OK(ron_registry_new(&registry, NULL));
    chan = bench_chan_new(registry, "bench", 1024, RON_CHAN_WAIT);
    for (uint64_t i = 0; i < count; i++) {
        BENCH_OK(ron_chan_send(chan, &message, ron_deadline_never(), NULL));
        BENCH_OK(ron_chan_recv(chan, ron_deadline_never(), &item));
    }
    ron_chan_free(chan);
    ron_registry_free(registry);
}

static void run_send_recv_many(uint64_t count)
{
    struct ron_registry *registry = NULL;
    struct ron_chan *chan;
    void *items[BATCH];
    size_t done = 0;

    for (size_t i = 0; i < BATCH; i++) {
        items[i] = &message;
    }
    BENCH_OK(ron_registry_new(&registry, NULL));
    chan = bench_chan_new(registry, "bench", 1024, RON_CHAN_REJECT);
    for (uint64_t i = 0; i < count; i += BATCH) {
        BENCH_OK(ron_chan_try_send_many(chan, items, BATCH, &done));
        BENCH_OK(ron_chan_try_recv_many(chan, items, BATCH, &done));
    }
    ron_chan_free(chan);
    ron_registry_free(registry);
}

static void run_bus(uint64_t count)
{
    struct ron_registry *registry = NULL;
    struct ron_bus *bus = NULL;
    struct ron_bus_reader reader;
    char in[BUS_BYTES] = {1};
    char out[BUS_BYTES];
    uint64_t missed = 0;
    size_t got = 0;

    BENCH_OK(ron_registry_new(&registry, NULL));
    BENCH_OK(ron_bus_new(&(struct ron_bus_opts){.registry = registry,
                                                .name = "bench",
                                                .producers = "bench",
                                                .consumers = "bench",
                                                .capacity = 1024,
                                                .message_bytes = BUS_BYTES,
                                                .readers_max = 1},
                         &bus, NULL));
    BENCH_OK(ron_bus_subscribe(bus, &reader, NULL, NULL));
    for (uint64_t i = 0; i < count; i++) {
        BENCH_OK(ron_bus_publish(bus, in));
        BENCH_OK(ron_bus_poll(&reader, out, 1, &got, &missed));
    }
    ron_bus_unsubscribe(&reader);
    ron_bus_free(bus);
    ron_registry_free(registry);
}

static void run_watch(uint64_t count, bool locked)
{
    struct ron_registry *registry = NULL;
    struct ron_watch *watch = NULL;
    uint64_t version = 0;

    BENCH_OK(ron_registry_new(&registry, NULL));
    BENCH_OK(ron_watch_new(
        &(struct ron_watch_opts){
            .registry = registry, .name = "bench", .producers = "bench", .consumers = "bench"},
        &watch, NULL));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = locked ? ron_watch_get(watch, &version) : ron_watch_value(watch);

        BENCH_KEEP(value);
    }
    ron_watch_free(watch);
    ron_registry_free(registry);
}

static void run_watch_get(uint64_t count)
{
    run_watch(count, true);
}

static void run_watch_value(uint64_t count)
{
    run_watch(count, false);
}

static void no_drop(void *value)
{
    (void)value;
}

static void run_oneshot(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct ron_oneshot *slot = NULL;
        void *value = NULL;

        BENCH_OK(ron_oneshot_new(no_drop, &slot));
        BENCH_OK(ron_oneshot_answer(slot, &message));
        BENCH_OK(ron_oneshot_wait(slot, ron_deadline_never(), &value));
        ron_oneshot_leave(slot);
    }
}

/* ---- executor and sync ----------------------------------------------------------------------- */

static void run_ring(uint64_t count, size_t messages)
{
    static struct bench_ring ring;

    bench_ring_open(&ring);
    bench_ring_go(&ring, messages, count / messages * messages, false);
    bench_ring_close(&ring);
}

static void run_hop(uint64_t count)
{
    run_ring(count, 1);
}

static void run_hop_many(uint64_t count)
{
    run_ring(count, BATCH);
}

static void run_mutex(uint64_t count)
{
    struct ron_mutex mutex;

    ron_mutex_init(&mutex, RON_RANK_LEAF, "bench");
    for (uint64_t i = 0; i < count; i++) {
        ron_mutex_lock(&mutex);
        ron_mutex_unlock(&mutex);
    }
    ron_mutex_done(&mutex);
}

static void run_pthread(uint64_t count)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    for (uint64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

/* ---- base ------------------------------------------------------------------------------------ */

static void fake_random(void *ctx, void *ret_bytes, size_t len)
{
    (void)ctx;
    memset(ret_bytes, 0x5a, len);
}

static void run_ulid_next(uint64_t count)
{
    struct ron_ulid_gen gen;

    ron_ulid_gen_init(&gen, fake_random, NULL);
    for (uint64_t i = 0; i < count; i++) {
        struct ron_ulid ulid = ron_ulid_gen_next(&gen, 1700000000000 + i / 16);

        BENCH_KEEP(ulid);
    }
}

static void run_ulid_format(uint64_t count)
{
    const uint8_t random[RON_ULID_RANDOM_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct ron_ulid ulid = ron_ulid_make(1700000000000, random);
    char text[RON_ULID_TEXT_SIZE];

    for (uint64_t i = 0; i < count; i++) {
        BENCH_KEEP(ulid);
        ron_ulid_format(&ulid, text);
        BENCH_KEEP(text);
    }
}

static void run_money_add(uint64_t count)
{
    struct ron_money sum = RON_MONEY_ZERO;

    for (uint64_t i = 0; i < count; i++) {
        BENCH_TRUE(ron_money_add(sum, ron_money_of(i), &sum) == RON_MONEY_OK);
    }
    BENCH_KEEP(sum);
}

/* 123456789012, an amount of 12 digits. */
static void run_money_format(uint64_t count)
{
    struct ron_money money = ron_money_of(123456789012);
    char text[RON_MONEY_TEXT_SIZE];

    for (uint64_t i = 0; i < count; i++) {
        BENCH_KEEP(money);
        BENCH_TRUE(ron_money_format(money, text) == 12);
        BENCH_KEEP(text);
    }
}

static void run_money_parse(uint64_t count)
{
    char text[] = "123456789012";
    struct ron_money money = RON_MONEY_ZERO;

    for (uint64_t i = 0; i < count; i++) {
        BENCH_KEEP(text);
        BENCH_OK(ron_money_parse(text, sizeof text - 1, &money, NULL));
        BENCH_KEEP(money);
    }
}

static void muldiv(uint64_t count, ron_u128 a, ron_u128 b, ron_u128 d)
{
    ron_u128 quotient = 0;
    ron_u128 rest = 0;

    for (uint64_t i = 0; i < count; i++) {
        BENCH_KEEP(a);
        BENCH_TRUE(ron_muldiv(a, b, d, RON_ROUND_FLOOR, &quotient, &rest) == RON_WIDE_OK);
        BENCH_KEEP(quotient);
    }
}

static void run_muldiv_small(uint64_t count)
{
    muldiv(count, 123456789012, 250, 10000);
}

static void run_muldiv_wide(uint64_t count)
{
    muldiv(count, RON_U128_MAX / 3, RON_U128_MAX / 5, RON_U128_MAX / 7 * 6);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static const struct operation {
    const char *name;
    const char *text;
    void (*run)(uint64_t count);
} operations[] = {
    {"send_recv", "channel: try_send and try_recv_many(1)", run_send_recv},
    {"send_recv_wait", "channel: send and recv with deadline", run_send_recv_wait},
    {"send_recv_many", "channel: a message of 64 sent and received together", run_send_recv_many},
    {"hop", "stage hop, 1 message in flight", run_hop},
    {"hop_many", "stage hop, a message of 64 together", run_hop_many},
    {"bus", "bus: publish and poll, 64 bytes", run_bus},
    {"watch_get", "watch: value with version", run_watch_get},
    {"watch_value", "watch: value alone", run_watch_value},
    {"oneshot", "oneshot: new, answer, wait, leave", run_oneshot},
    {"mutex", "ron_mutex: lock and unlock", run_mutex},
    {"pthread", "the same on a bare pthread_mutex_t", run_pthread},
    {"ulid_next", "ULID: next", run_ulid_next},
    {"ulid_format", "ULID: to text", run_ulid_format},
    {"money_add", "money: checked add", run_money_add},
    {"money_format", "money: 12 digits to text", run_money_format},
    {"money_parse", "money: 12 digits from text", run_money_parse},
    {"muldiv_small", "muldiv: 64-bit operands", run_muldiv_small},
    {"muldiv_wide", "muldiv: 128-bit operands, 256-bit product", run_muldiv_wide},
};

/* Short runs, the median of them; set-up is part of a run and vanishes in its length. */
static void time_all(void)
{
    static struct bench_series series[RON_ARRAY_LEN(operations)];
    const uint64_t count = 64 * 1024;
    size_t reps = bench_reps();

    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
            uint64_t begin_ns = bench_cpu_ns();

            operations[i].run(count);
            if (rep > 0) {
                bench_add(&series[i], (double)(bench_cpu_ns() - begin_ns) / (double)count);
            }
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        printf("%s\t%s\t%s\n", operations[i].name, operations[i].text, bench_span(&series[i], 1).s);
    }
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long count = argc == 3 ? strtoul(argv[2], &end, 10) : 0;

    if (argc == 1) {
        time_all();
        return 0;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
            printf("%s\n", operations[i].name);
        } else if (argc == 3 && strcmp(argv[1], operations[i].name) == 0 && *end == '\0' &&
                   count >= BATCH && count <= COUNT_MAX) {
            operations[i].run(count);
            return 0;
        }
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return 0;
    }
    (void)fprintf(stderr, "usage: %s [--list | NAME COUNT], COUNT from %d to %d\n", argv[0],
                  (int)BATCH, (int)COUNT_MAX);
    return 2;
}
