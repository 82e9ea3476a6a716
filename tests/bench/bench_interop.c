/* SPDX-License-Identifier: Apache-2.0 */
/* bench_interop.c - the load for `./dev bench interop`: deliveries of GitHub to a running bridge,
 * or to a peer, over HTTP connections with one request under way each.
 *
 *     bench_interop good|bad|same ADDR PATH SECRET BYTES CONNS SECONDS STATUS
 *
 * `good` are deliveries of BYTES that differ, each signed; `bad` the same with a signature that is
 * wrong in its last digit; `same` one delivery again and again. Each must be answered with STATUS.
 * Only the end of a body differs, so a signature costs the generator three blocks, not the whole.
 *
 * Prints one JSON object. One thread. Every other answer ends the program. */
#include <inttypes.h>
#include <sodium.h>

#include "bench/bench_load.h"
#include "ron/base/alloc.h"
#include "support/hist.h"

enum { CONNS_MAX = 1024, BODY_MAX = 65536, HEAD_MAX = 2048, IN_BYTES = 16384, NUMBER = 16 };

struct conn {
    int fd;
    size_t sent;
    size_t got;
    uint64_t started_ns;
    size_t out_len;
    char in[IN_BYTES];
    char out[HEAD_MAX + BODY_MAX];
};

struct load {
    enum { GOOD, BAD, SAME } what;
    const char *addr;
    const char *path;
    size_t bytes;
    char status[16];
    char body[BODY_MAX];
    crypto_auth_hmacsha256_state common; /* after all but the number */
    uint64_t named;
    uint64_t done;
    uint64_t salt;
    struct load_shape shape;
    struct ron_hist taken;
    uint64_t begin_ns;
    uint64_t end_ns;
    struct conn *conns;
};

/* A JSON object that ends in a number of sixteen digits. */
static void make_body(struct load *l, const char *secret)
{
    char *p = load_text(l->body, "{\"ref\":\"refs/heads/main\",\"commits\":\"");
    char *end = l->body + l->bytes - NUMBER - 10;

    for (; p < end; p++) {
        *p = (char)('a' + (p - l->body) % 26);
    }
    (void)load_text(end, "\",\"n\":\""); /* seven, then the number, then three */
    memcpy(l->body + l->bytes - NUMBER - 3, "0000000000000000\"}\n", NUMBER + 3);
    crypto_auth_hmacsha256_init(&l->common, (const unsigned char *)secret, strlen(secret));
    crypto_auth_hmacsha256_update(&l->common, (const unsigned char *)l->body,
                                  l->bytes - NUMBER - 3);
}

static void write_request(struct load *l, struct conn *c)
{
    uint64_t n = l->what == SAME ? l->salt : l->salt + l->named++;
    crypto_auth_hmacsha256_state state = l->common;
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    char tail[NUMBER + 3];
    char *p = c->out;

    (void)load_bytes(load_hex(tail, n, NUMBER), "\"}\n", 3);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)tail, sizeof tail);
    crypto_auth_hmacsha256_final(&state, mac);
    mac[sizeof mac - 1] ^= l->what == BAD;
    p = load_text(p, "POST ");
    p = load_text(p, l->path);
    p = load_text(p, " HTTP/1.1\r\nHost: ");
    p = load_text(p, l->addr);
    p = load_text(p, "\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"
                     "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-");
    p = load_hex(p, n, 12);
    p = load_text(p, "\r\nX-Hub-Signature-256: sha256=");
    for (size_t i = 0; i < sizeof mac; i++) {
        p = load_hex(p, mac[i], 2);
    }
    p = load_text(p, "\r\nContent-Length: ");
    p = load_decimal(p, l->bytes);
    p = load_text(p, "\r\n\r\n");
    p = load_bytes(p, l->body, l->bytes - sizeof tail);
    p = load_bytes(p, tail, sizeof tail);
    c->out_len = (size_t)(p - c->out);
    c->sent = 0;
    c->got = 0;
}

static void begin(struct load *l, int ep, struct conn *c, uint64_t now_ns)
{
    write_request(l, c);
    c->started_ns = now_ns;
    load_push(ep, c->fd, c, c->out, c->out_len, &c->sent);
}

/* True when the connection has its answer. */
static bool take(struct load *l, struct conn *c)
{
    c->got += load_take(c->fd, c->in + c->got, IN_BYTES - c->got);
    if (c->got < 16 || load_answer_length(&l->shape, c->in, c->got) == 0) {
        return false;
    }
    if (memcmp(c->in + 9, l->status, 3) != 0) {
        fprintf(stderr, "bench_interop: %.*s\n", (int)c->got, c->in);
        exit(1);
    }
    return true;
}

static void run(struct load *l, size_t conns, uint64_t run_ns)
{
    struct epoll_event events[256];
    int ep = epoll_create1(0);
    size_t open = conns;

    load_begin();
    for (size_t i = 0; i < conns; i++) {
        l->conns[i].fd = load_connect(l->addr);
        load_watch(ep, EPOLL_CTL_ADD, l->conns[i].fd, EPOLLIN, &l->conns[i]);
    }
    l->begin_ns = bench_now_ns();
    l->end_ns = l->begin_ns + run_ns;
    for (size_t i = 0; i < conns; i++) {
        begin(l, ep, &l->conns[i], l->begin_ns);
    }
    while (open > 0) {
        int n = load_wait(ep, events, 256, UINT64_C(10000000000));
        uint64_t now_ns = bench_now_ns();

        BENCH_TRUE(n > 0);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;

            if (c->sent < c->out_len) {
                load_push(ep, c->fd, c, c->out, c->out_len, &c->sent);
                if (c->sent == c->out_len) {
                    load_watch(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
                }
            }
            if ((events[i].events & EPOLLIN) == 0 || !take(l, c)) {
                continue;
            }
            ron_hist_record(&l->taken, now_ns - c->started_ns);
            l->done++;
            if (now_ns < l->end_ns) {
                begin(l, ep, c, now_ns);
            } else {
                open--;
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct load *l = ron_alloc_zero(sizeof *l);
    size_t conns;
    uint64_t cpu_ns;
    double seconds;

    if (argc != 9) {
        printf("usage: bench_interop good|bad|same ADDR PATH SECRET BYTES CONNS SECONDS STATUS\n");
        return argc == 1 ? 0 : 2;
    }
    BENCH_TRUE(l != NULL && sodium_init() >= 0);
    l->what = strcmp(argv[1], "bad") == 0 ? BAD : strcmp(argv[1], "same") == 0 ? SAME : GOOD;
    l->addr = argv[2];
    l->path = argv[3];
    l->bytes = strtoull(argv[5], NULL, 10);
    conns = strtoull(argv[6], NULL, 10);
    BENCH_TRUE(l->bytes >= 128 && l->bytes <= BODY_MAX && conns >= 1 && conns <= CONNS_MAX);
    BENCH_TRUE(strlen(l->path) < 512 && strlen(argv[8]) == 3);
    memcpy(l->status, argv[8], 4);
    l->conns = ron_alloc_zero(conns * sizeof *l->conns);
    BENCH_TRUE(l->conns != NULL);
    l->salt = bench_clock_ns(CLOCK_REALTIME);
    ron_hist_init(&l->taken);
    make_body(l, argv[4]);
    cpu_ns = bench_cpu_ns();
    run(l, conns, strtoull(argv[7], NULL, 10) * UINT64_C(1000000000));
    seconds = (double)(bench_now_ns() - l->begin_ns) / 1e9;
    printf("{\"done\":%" PRIu64 ",\"per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
           "\"client_cpu_us\":%.3f}\n",
           l->done, (double)l->done / seconds, (double)ron_hist_quantile(&l->taken, 50, 100) / 1000,
           (double)ron_hist_quantile(&l->taken, 99, 100) / 1000, (double)l->taken.max / 1000,
           (double)(bench_cpu_ns() - cpu_ns) / 1000 / (double)l->done);
    return 0;
}
