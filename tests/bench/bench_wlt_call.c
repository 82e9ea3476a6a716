/* SPDX-License-Identifier: Apache-2.0 */
/* bench_wlt_call.c - what a write costs the wallet itself: read and name, encode, answer.
 *
 *   bench_wlt_call              times every step, a line "name<TAB>text<TAB>ns" for each
 *   bench_wlt_call NAME COUNT   runs one step COUNT times and prints nothing; for callgrind
 *
 * The request is a transfer as a client would write it; the batch has 50 of them, and its figures
 * are for one operation. The scanner changes the text in place, so each round begins with a copy,
 * which is part of the figure. No step allocates: arena and buffers stand on memory of its own. */
#include "bench/bench.h"

#include "wallet/call/call.h"

enum { OPERATIONS = 50, COUNT_MAX = 100000000 };

static const char transfer[] =
    "{\"from\":\"t:demo/u:000000000123456789/w\",\"to\":\"t:demo/u:000000000987654321/w\","
    "\"asset\":\"roc\",\"amount_minor\":\"123456789\",\"nonce\":4711,"
    "\"memo\":\"twelve boxes of pears and one of plums\"}";
static char batch[32768];
static const struct ron_str key = {"018f3c5e-7b1a-7c2d-9e4f-5a6b7c8d9e0f", 36};
static const struct wlt_call_rules rules = {.amount_max = {.v = RON_U128_MAX}};
static const struct wlt_seal seal = {
    .ts_ms = 1700000000000, .kid = {"wallet-1", 8}, .capability_ref = {"0a1b2c3d", 8}};
static const struct lc_done done = {
    .seq_first = 123456789, .seq_last = 123456789, .commit_ms = 1700000000001};

static char text[sizeof batch];
static char memory[32768];
static char out_memory[65536];

static void make_batch(void)
{
    size_t len = (size_t)snprintf(batch, sizeof batch, "{\"operations\":[");

    for (int i = 0; i < OPERATIONS; i++) {
        len += (size_t)snprintf(batch + len, sizeof batch - len, "%s{\"op\":\"transfer\",%s",
                                i > 0 ? "," : "", transfer + 1);
    }
    len += (size_t)snprintf(batch + len, sizeof batch - len, "]}");
    BENCH_TRUE(len < sizeof batch);
}

static void read_call(enum wlt_op op, struct wlt_call *ret)
{
    const char *body = op == WLT_OP_COUNT ? batch : transfer;
    size_t len = op == WLT_OP_COUNT ? strlen(batch) : sizeof transfer - 1;
    struct ron_arena arena;
    struct wlt_fault fault;

    memcpy(text, body, len);
    ron_arena_init_over(&arena, memory, sizeof memory);
    BENCH_TRUE(wlt_call_parse(text, len, op, key, &rules, &arena, ret, &fault));
}

static void run_parse(enum wlt_op op, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct wlt_call call;

        read_call(op, &call);
        BENCH_KEEP(call.fingerprint[0]);
    }
}

static void run_encode(enum wlt_op op, uint64_t count)
{
    struct wlt_call call;
    struct ron_buf out;

    read_call(op, &call);
    ron_buf_init_over(&out, out_memory, sizeof out_memory);
    for (uint64_t i = 0; i < count; i++) {
        ron_buf_clear(&out);
        wlt_call_encode(&call, &seal, &out);
    }
    BENCH_OK(ron_buf_error(&out));
}

static void run_answer(enum wlt_op op, uint64_t count)
{
    struct wlt_call call;
    struct ron_buf out;

    read_call(op, &call);
    ron_buf_init_over(&out, out_memory, sizeof out_memory);
    for (uint64_t i = 0; i < count; i++) {
        ron_buf_clear(&out);
        wlt_call_answer(&call, &done, &out);
    }
    BENCH_OK(ron_buf_error(&out));
}

static const struct {
    const char *name;
    const char *text;
    void (*run)(enum wlt_op op, uint64_t count);
    enum wlt_op op;
    uint64_t timed;
    double each; /* operations in one run */
} steps[] = {
    {"parse", "read, check and name a transfer", run_parse, WLT_TRANSFER, 200000, 1},
    {"encode", "the ledger's batch of it", run_encode, WLT_TRANSFER, 200000, 1},
    {"answer", "its receipt", run_answer, WLT_TRANSFER, 200000, 1},
    {"batch_parse", "of a batch of 50, for one operation", run_parse, WLT_OP_COUNT, 4000,
     OPERATIONS},
    {"batch_encode", "the same", run_encode, WLT_OP_COUNT, 4000, OPERATIONS},
    {"batch_answer", "the same", run_answer, WLT_OP_COUNT, 4000, OPERATIONS},
};

static void time_all(void)
{
    struct bench_series took[RON_ARRAY_LEN(steps)] = {0};
    struct bench_series whole = {0};
    struct bench_noise before = bench_noise_now();
    size_t reps = bench_reps();

    /* All steps in each repetition; the first one only warms up. */
    for (size_t k = 0; k <= reps; k++) {
        double sum = 0;

        for (size_t i = 0; i < RON_ARRAY_LEN(steps); i++) {
            uint64_t start = bench_cpu_ns();
            double ns;

            steps[i].run(steps[i].op, steps[i].timed);
            ns = (double)(bench_cpu_ns() - start) / (double)steps[i].timed / steps[i].each;
            sum += steps[i].op == WLT_TRANSFER ? ns : 0;
            if (k > 0) {
                bench_add(&took[i], ns);
            }
        }
        if (k > 0) {
            bench_add(&whole, sum);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(steps); i++) {
        printf("%s\t%s\t%s\n", steps[i].name, steps[i].text, bench_span(&took[i], 0).s);
    }
    printf("\nA transfer takes %s ns altogether; the aim, below 3000, is %s.\n",
           bench_span(&whole, 0).s, bench_verdict(bench_median(&whole) < 3000));
    bench_noise_print(before);
}

int main(int argc, char **argv)
{
    make_batch();
    if (argc == 1) {
        time_all();
        return 0;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: bench_wlt_call [NAME COUNT]\n");
        return 2;
    }
    char *end = NULL;
    uint64_t count = strtoull(argv[2], &end, 10);

    BENCH_TRUE(*end == '\0' && count > 0 && count <= COUNT_MAX);
    for (size_t i = 0; i < RON_ARRAY_LEN(steps); i++) {
        if (strcmp(steps[i].name, argv[1]) == 0) {
            steps[i].run(steps[i].op, count);
        }
    }
    return 0;
}
