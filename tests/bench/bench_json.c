/* SPDX-License-Identifier: Apache-2.0 */
/* bench_json.c - what reading and writing a request costs, beside jansson.
 *
 *   bench_json              times every operation, a line "name<TAB>text<TAB>ns" for each
 *   bench_json NAME COUNT   runs one operation COUNT times and prints nothing; for callgrind, with
 *                           a count and its double, as bench_kernel_count
 *
 * The request is 250 bytes with six members, all strings but one, as a transfer has them. The
 * scanner changes the text in place, so each round begins with a copy, which is part of the
 * figure. jansson builds a tree; the same six members are then taken out of it. */
#include "bench/bench.h"

#include <jansson.h>

#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/money.h"

enum { REQUEST_BYTES = 250, COUNT_MAX = 100000000 };

static const char request[] =
    "{\"idempotency_key\":\"018f3c5e-7b1a-7c2d-9e4f-5a6b7c8d9e0f\","
    "\"debit_account\":\"acct_000000000123456789\",\"credit_account\":\"acct_000000000987654321\","
    "\"amount\":\"123456789\",\"nonce\":4711,"
    "\"memo\":\"twelve boxes of pears and one of plums, as agreed on in October\"}";
_Static_assert(sizeof request - 1 == REQUEST_BYTES, "the aim speaks of 250 bytes");

struct transfer {
    uint64_t present;
    struct ron_str idempotency_key;
    struct ron_str debit_account;
    struct ron_str credit_account;
    struct ron_money amount;
    uint64_t nonce;
    struct ron_str memo;
};

static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct transfer, idempotency_key, STRING, .max = 64, .required = true),
    RON_JSON_FIELD(struct transfer, debit_account, STRING, .max = 64, .required = true),
    RON_JSON_FIELD(struct transfer, credit_account, STRING, .max = 64, .required = true),
    RON_JSON_FIELD(struct transfer, amount, MONEY, .required = true),
    RON_JSON_FIELD(struct transfer, nonce, U64, .required = true),
    RON_JSON_FIELD(struct transfer, memo, STRING, .max = 256),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct transfer, fields, present);

static void run_scan(uint64_t count)
{
    char text[REQUEST_BYTES];
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct transfer t = {0};
        struct ron_json_error err;

        memcpy(text, request, REQUEST_BYTES);
        BENCH_OK(ron_json_scan(text, REQUEST_BYTES, &shape, NULL, &t, &err));
        sum += t.nonce + t.memo.len;
    }
    BENCH_TRUE(sum == count * (4711 + 63));
}

static void run_jansson(uint64_t count)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        json_t *root = json_loadb(request, REQUEST_BYTES, JSON_REJECT_DUPLICATES, NULL);
        const char *key;
        const char *debit;
        const char *credit;
        const char *amount;
        const char *memo;
        json_int_t nonce;

        BENCH_TRUE(json_unpack(root, "{s:s,s:s,s:s,s:s,s:I,s:s!}", "idempotency_key", &key,
                               "debit_account", &debit, "credit_account", &credit, "amount",
                               &amount, "nonce", &nonce, "memo", &memo) == 0);
        sum += (uint64_t)nonce + strlen(memo);
        json_decref(root);
    }
    BENCH_TRUE(sum == count * (4711 + 63));
}

static void run_write(uint64_t count)
{
    char memory[1024];
    struct ron_buf out;
    struct ron_json_writer w;

    ron_buf_init_over(&out, memory, sizeof memory);
    for (uint64_t i = 0; i < count; i++) {
        ron_buf_clear(&out);
        ron_json_begin(&w, &out);
        ron_json_open(&w, NULL, '{');
        ron_json_text(&w, "txid", "tx_018f3c5e7b1a7c2d9e4f5a6b7c8d9e0f");
        ron_json_text(&w, "status", "committed");
        ron_json_u64(&w, "seq", 123456789 + i % 2);
        ron_json_text(&w, "debit_account", "acct_000000000123456789");
        ron_json_text(&w, "credit_account", "acct_000000000987654321");
        ron_json_bool(&w, "replayed", false);
        ron_json_close(&w, '}');
    }
    BENCH_TRUE(ron_buf_error(&out) == RON_OK && ron_buf_len(&out) > 150);
}

static const struct {
    const char *name;
    const char *text;
    void (*run)(uint64_t count);
    uint64_t timed;
} operations[] = {
    {"scan", "read 250 bytes of six members", run_scan, 1000000},
    {"jansson", "the same with jansson", run_jansson, 100000},
    {"write", "write an answer of six members", run_write, 1000000},
};

static void time_all(void)
{
    struct bench_series took[RON_ARRAY_LEN(operations)] = {0};
    struct bench_noise before = bench_noise_now();
    size_t reps = bench_reps();

    /* All operations in each repetition; the first one only warms up. */
    for (size_t k = 0; k <= reps; k++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
            uint64_t start = bench_cpu_ns();

            operations[i].run(operations[i].timed);
            if (k > 0) {
                bench_add(&took[i], (double)(bench_cpu_ns() - start) / (double)operations[i].timed);
            }
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        printf("%s\t%s\t%s\n", operations[i].name, operations[i].text, bench_span(&took[i], 0).s);
    }
    printf("\njansson takes %.1f times the scanner.\n", bench_ratio(&took[1], &took[0]));
    bench_noise_print(before);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        time_all();
        return 0;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: bench_json [NAME COUNT]\n");
        return 2;
    }
    char *end = NULL;
    uint64_t count = strtoull(argv[2], &end, 10);

    BENCH_TRUE(*end == '\0' && count > 0 && count <= COUNT_MAX);
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        if (strcmp(operations[i].name, argv[1]) == 0) {
            operations[i].run(count);
        }
    }
    return 0;
}
