/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rwd_snapshot.c - what a row of a snapshot costs: read, sorted, written, hashed.
 *
 *   bench_rwd_snapshot [ROWS]         times every variant; a million rows unless told
 *   bench_rwd_snapshot VARIANT ROWS   reads one snapshot once and prints nothing; for callgrind,
 *                                     with a number of rows and its double
 *
 * Accounts have 16 bytes, counters 7 to 13 digits, pieces 64 KiB. Variants: canonical text (nothing
 * to sort), the same rows shuffled, shuffled as lines, shuffled with the members in another order
 * (every row then goes through the strict scanner). Baseline in the same repetition: BLAKE3 alone
 * over the canonical bytes. Nanoseconds of processor time a row, median (min..max). */
#include <inttypes.h>

#include "bench/bench.h"
#include "rewarder/input/snapshot.h"
#include "ron/base/alloc.h"

enum { ROWS = 1000000, ROWS_LIMIT = 20000000, PIECE = 65536, ROW_BYTES = 160 };

/* X(NAME, "name") */
#define VARIANTS(X)                                                                                \
    X(CANONICAL, "canonical")                                                                      \
    X(SHUFFLED, "shuffled")                                                                        \
    X(LINES, "lines")                                                                              \
    X(STRICT, "strict")
enum variant {
#define X(name, text) V_##name,
    VARIANTS(X)
#undef X
        V_COUNT
};
static const char *const variant_names[] = {
#define X(name, text) text,
    VARIANTS(X)
#undef X
};

struct text {
    char *bytes;
    size_t len;
};

static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void put_row(struct text *t, enum variant v, uint32_t number)
{
    uint64_t a = UINT64_C(1000000) + number * UINT64_C(7919) % 1000000007 * 1000;
    uint64_t b = UINT64_C(5000000) + number * UINT64_C(104729) % 1000000007;
    char *to = t->bytes + t->len;

    t->len +=
        (size_t)(v == V_STRICT ? snprintf(to, ROW_BYTES,
                                          "{\"bytes_stored\":%" PRIu64 ",\"bytes_served\":%" PRIu64
                                          ",\"uptime_seconds\":%u,\"account\":\"acct_%011u\"}",
                                          a, b, 86400 + number % 3600, number)
                               : snprintf(to, ROW_BYTES,
                                          "{\"account\":\"acct_%011u\",\"bytes_stored\":%" PRIu64
                                          ",\"bytes_served\":%" PRIu64 ",\"uptime_seconds\":%u}",
                                          number, a, b, 86400 + number % 3600));
}

static struct text make_text(enum variant v, uint32_t rows)
{
    struct text t = {ron_alloc(256 + (size_t)rows * ROW_BYTES), 0};
    uint32_t *order = ron_alloc_array(rows, sizeof *order);
    static const char head[] = "{\"produced_at_millis\":1,\"pool_minor_units\":\"1000\"";

    BENCH_TRUE(t.bytes != NULL && order != NULL);
    state = 88172645463325252u;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t other = v == V_CANONICAL ? i : (uint32_t)(next_random() % (i + 1));

        order[i] = order[other];
        order[other] = i;
    }
    t.len =
        (size_t)snprintf(t.bytes, 256, "%s%s", head, v == V_LINES ? "}\n" : ",\"contributions\":[");
    for (uint32_t i = 0; i < rows; i++) {
        put_row(&t, v, order[i]);
        t.bytes[t.len++] = v == V_LINES ? '\n' : ',';
    }
    if (v != V_LINES) {
        memcpy(t.bytes + t.len - 1, "]}", 2);
        t.len++;
    }
    ron_free(order);
    return t;
}

static void read_text(const struct text *t, struct rwd_snapshot *ret_snapshot, uint64_t *ret_parsed)
{
    struct rwd_snapshot_reader *r = NULL;

    BENCH_OK(rwd_snapshot_reader_new(RWD_FORM_ANY, NULL, &r, NULL));
    for (size_t at = 0; at < t->len; at += PIECE) {
        BENCH_OK(rwd_snapshot_feed(r, t->bytes + at, RON_MIN((size_t)PIECE, t->len - at), NULL));
    }
    *ret_parsed = bench_cpu_ns();
    BENCH_OK(rwd_snapshot_end(r, ret_snapshot, NULL));
}

struct figures {
    struct bench_series read;
    struct bench_series end;
    struct bench_series all;
};

static void measure(const struct text *t, uint32_t rows, const struct ron_b3 *cid,
                    struct figures *f, bool counts)
{
    struct rwd_snapshot s;
    uint64_t start = bench_cpu_ns();
    uint64_t parsed;
    uint64_t end;

    read_text(t, &s, &parsed);
    end = bench_cpu_ns();
    BENCH_TRUE(rwd_rows_count(s.rows) == rows && ron_b3_equal(&s.cid, cid));
    rwd_snapshot_done(&s);
    if (counts) {
        bench_add(&f->read, (double)(parsed - start) / rows);
        bench_add(&f->end, (double)(end - parsed) / rows);
        bench_add(&f->all, (double)(end - start) / rows);
    }
}

static int count_one(const char *name, uint32_t rows)
{
    for (size_t v = 0; v < V_COUNT; v++) {
        if (strcmp(variant_names[v], name) == 0) {
            struct text t = make_text((enum variant)v, rows);
            struct rwd_snapshot s;
            uint64_t parsed;

            read_text(&t, &s, &parsed);
            rwd_snapshot_done(&s);
            ron_free(t.bytes);
            return 0;
        }
    }
    (void)fprintf(stderr, "there is no variant '%s'\n", name);
    return 2;
}

static uint32_t rows_of(const char *text)
{
    char *end = NULL;
    unsigned long rows = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || rows < 1 || rows > ROWS_LIMIT) {
        (void)fprintf(stderr, "ROWS is a number from 1 to %d, not '%s'\n", (int)ROWS_LIMIT, text);
        exit(2);
    }
    return (uint32_t)rows;
}

static void print_figures(const struct figures *figures, const struct bench_series *hash)
{
    printf("| text | read | sort, write, hash | all | aim of 600 |\n|---|---|---|---|---|\n");
    for (size_t v = 0; v < V_COUNT; v++) {
        printf("| %s | %s | %s | %s | %s |\n", variant_names[v], bench_span(&figures[v].read, 0).s,
               bench_span(&figures[v].end, 0).s, bench_span(&figures[v].all, 0).s,
               bench_verdict(bench_median(&figures[v].all) <= 600));
    }
    printf("| BLAKE3 alone | | %s | | |\n\n", bench_span(hash, 0).s);
}

int main(int argc, char **argv)
{
    static struct figures figures[V_COUNT];
    static struct bench_series hash;
    uint32_t rows = argc == 2 ? rows_of(argv[1]) : ROWS;
    struct bench_noise noise = bench_noise_now();
    size_t reps = bench_reps();
    struct text texts[V_COUNT];

    if (argc == 3) {
        return count_one(argv[1], rows_of(argv[2]));
    }
    for (size_t v = 0; v < V_COUNT; v++) {
        texts[v] = make_text((enum variant)v, rows);
    }
    for (size_t rep = 0; rep <= reps; rep++) {
        uint64_t start = bench_cpu_ns();
        struct ron_b3 cid;

        ron_b3_hash(texts[V_CANONICAL].bytes, texts[V_CANONICAL].len, &cid);
        if (rep > 0) {
            bench_add(&hash, (double)(bench_cpu_ns() - start) / rows);
        }
        for (size_t v = 0; v < V_COUNT; v++) {
            measure(&texts[v], rows, &cid, &figures[v], rep > 0);
        }
    }
    printf("Snapshot of %" PRIu32 " rows, %zu bytes a row, processor ns a row\n\n", rows,
           texts[V_CANONICAL].len / rows);
    print_figures(figures, &hash);
    bench_noise_print(noise);
    for (size_t v = 0; v < V_COUNT; v++) {
        ron_free(texts[v].bytes);
    }
    return 0;
}
