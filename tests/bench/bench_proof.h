/* SPDX-License-Identifier: Apache-2.0 */
/* bench_proof.h - how long an inclusion proof takes: one connection over HTTP, one request under
 * way, entries at random.
 *
 * Place: included by bench_ledger.c, whose verb `prove` it is. After each proof the same connection
 * asks for /healthz, which needs nothing of the journal: what the machine and the way there take of
 * their own is seen in those times, under the same moments. Prints one JSON object. Every answer is
 * checked; a refusal ends the program. */
#pragma once

#include <inttypes.h>
#include <poll.h>

#include "bench/bench_load.h"
#include "support/hist.h"

enum {
    PROOF_IN_BYTES = 16384,
    PROOF_REQUEST_TEXT = 256,  /* without the token: some 80 */
    PROOF_WAIT_MAX_MS = 30000, /* for an answer */
};

struct proof_side {
    struct load_shape shape;
    struct ron_hist took;
    uint64_t above; /* the aim */
};

struct proof_asker {
    int fd;
    const char *token;
    uint64_t aim_ns;
    char *request;
    char in[PROOF_IN_BYTES];
};

static void proof_ask(struct proof_asker *a, struct proof_side *s, size_t len)
{
    struct pollfd wait = {.fd = a->fd, .events = POLLIN};
    uint64_t start_ns = bench_now_ns();
    uint64_t took_ns;
    size_t got = 0;

    BENCH_TRUE(send(a->fd, a->request, len, MSG_NOSIGNAL) == (ssize_t)len);
    do {
        BENCH_TRUE(poll(&wait, 1, PROOF_WAIT_MAX_MS) == 1);
        got += load_take(a->fd, a->in + got, sizeof a->in - got);
    } while (load_answer_length(&s->shape, a->in, got) == 0);
    took_ns = bench_now_ns() - start_ns;
    if (memcmp(a->in, "HTTP/1.1 200", 12) != 0) {
        (void)fprintf(stderr, "refused: %.*s\n", (int)got, a->in);
        exit(1);
    }
    ron_hist_record(&s->took, took_ns);
    s->above += took_ns > a->aim_ns;
}

static void proof_ask_proof(struct proof_asker *a, struct proof_side *s, uint64_t seq)
{
    char *to = load_decimal(load_text(a->request, "GET /proof/inclusion?seq="), seq);

    to = load_text(to, " HTTP/1.1\r\nHost: l\r\nAuthorization: Bearer ");
    to = load_text(load_text(to, a->token), "\r\n\r\n");
    proof_ask(a, s, (size_t)(to - a->request));
}

static void proof_ask_health(struct proof_asker *a, struct proof_side *s)
{
    proof_ask(
        a, s,
        (size_t)(load_text(a->request, "GET /healthz HTTP/1.1\r\nHost: l\r\n\r\n") - a->request));
}

static void proof_print(const char *name, const struct proof_side *s, const char *end)
{
    printf("\"%s\":{\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"above\":"
           "%" PRIu64 "}%s",
           name, (double)ron_hist_quantile(&s->took, 50, 100) / 1000,
           (double)ron_hist_quantile(&s->took, 99, 100) / 1000,
           (double)ron_hist_quantile(&s->took, 999, 1000) / 1000, (double)s->took.max / 1000,
           s->above, end);
}

/* argv: ADDR TOKEN ENTRIES COUNT AIM_US */
static int proof_main(char **argv)
{
    static struct proof_asker a;
    static struct proof_side proof;
    static struct proof_side health;
    uint64_t state = bench_clock_ns(CLOCK_REALTIME);
    uint64_t entries = strtoull(argv[2], NULL, 10);
    uint64_t count = strtoull(argv[3], NULL, 10);

    a.fd = load_connect(argv[0]);
    a.token = argv[1];
    a.aim_ns = strtoull(argv[4], NULL, 10) * 1000;
    a.request = malloc(strlen(a.token) + PROOF_REQUEST_TEXT);
    BENCH_TRUE(a.request != NULL && entries > 0);
    ron_hist_init(&proof.took);
    ron_hist_init(&health.took);
    for (uint64_t i = 0; i < count; i++) {
        proof_ask_proof(&a, &proof, 1 + load_random(&state) % entries);
        proof_ask_health(&a, &health);
    }
    printf("{\"count\":%" PRIu64 ",", count);
    proof_print("proof", &proof, ",");
    proof_print("health", &health, "}\n");
    free(a.request);
    close(a.fd);
    return 0;
}
