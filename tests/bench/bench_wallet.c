/* SPDX-License-Identifier: Apache-2.0 */
/* bench_wallet.c - the load for `./dev bench wallet`: HTTP connections to a running wallet, or to
 * its peer, each with one request under way.
 *
 *     bench_wallet transfer|balance|batch|flood ADDR TOKEN ACCOUNTS CONNS SECONDS|0 COUNT|0 HOT
 *                  [PAUSE [RATE]]
 *
 * `transfer` sends POST /v1/transfer, `batch` POST /v1/batch with 50 transfers, `balance` GET
 * /v1/balance; accounts at random, or 0 pays everything when HOT is 1, or all in turn when COUNT is
 * set. `flood` is `transfer` where 429 is an answer like any other, counted apart; a connection
 * that got one waits PAUSE milliseconds before it sends anew.
 *
 * With a RATE, requests are due at equal distances: a free connection takes the next one and sends
 * it when it is due, or at once when that is past, and its time counts from when it was due. So a
 * stall shows in every request that it kept waiting, and all that are due within SECONDS are sent.
 * Without a RATE, each connection sends as soon as it is answered.
 *
 * Prints one JSON object. One thread, so of what came together all is read, and its time taken,
 * before the next requests are made. Every other answer ends the program. */
#include <inttypes.h>

#include "bench/bench_load.h"
#include "ron/base/alloc.h"
#include "ron/base/macros.h"
#include "support/hist.h"

enum {
    CONNS_MAX = 2048,
    OUT_BYTES = 16384,
    IN_BYTES = 65536,
    BATCH = 50,
    WAIT_MAX_S = 30,
    EVENTS_MAX = 256
};

struct conn {
    int fd;
    size_t out_len;
    size_t sent;
    size_t got;
    uint64_t started_ns;
    uint64_t due_ns; /* its next request, where that waits for a time */
    char out[OUT_BYTES];
    char *in; /* IN_BYTES */
};

struct load {
    enum { TRANSFER, BALANCE, BULK } what;
    bool flood;
    bool hot;
    const char *token;
    uint64_t accounts;
    uint64_t count_max;
    uint64_t run_ns;   /* how long; 0: until count_max */
    uint64_t begin_ns; /* when all connections stand */
    uint64_t end_ns;
    uint64_t pause_ns; /* after a 429 */
    uint64_t gap_ns;   /* between two requests; 0: no rate */
    uint64_t due_ns;   /* of the next request that no connection has taken */
    uint64_t sent;     /* requests */
    uint64_t done;     /* answered with 200 */
    uint64_t named;    /* keys made */
    uint64_t state;    /* of the generator */
    uint64_t salt;
    uint64_t open;
    struct load_shape shape;
    struct ron_hist taken;
    struct ron_hist refused;
    struct conn *waiting[CONNS_MAX]; /* for their time, a ring */
    uint64_t wait_head;
    uint64_t wait_count;
    struct conn conns[CONNS_MAX];
};

/* ---- requests -------------------------------------------------------------------------------- */

static char *account(char *to, uint64_t n)
{
    return load_hex(load_text(to, "acct:"), n, 10);
}

/* A UUID that nobody has sent before. */
static char *key(struct load *l, char *to)
{
    uint64_t n = l->named++;

    to = load_hex(to, l->salt >> 32, 8);
    *to++ = '-';
    to = load_hex(to, l->salt >> 16, 4);
    *to++ = '-';
    to = load_hex(to, l->salt, 4);
    *to++ = '-';
    to = load_hex(to, n >> 48, 4);
    *to++ = '-';
    return load_hex(to, n, 12);
}

static uint64_t payer(struct load *l)
{
    if (l->count_max != 0) {
        return l->sent % l->accounts;
    }
    return l->hot ? 0 : load_random(&l->state) % l->accounts;
}

static char *transfer(struct load *l, char *to)
{
    uint64_t from = payer(l);
    uint64_t payee = load_random(&l->state) % l->accounts;

    to = account(load_text(to, "\"from\":\""), from);
    to = load_text(to, "\",\"to\":\"");
    to = account(to, payee == from ? (payee + 1) % l->accounts : payee);
    to = load_text(to, "\",\"asset\":\"roc\",\"amount_minor\":\"");
    *to++ = (char)('1' + l->named % 7);
    return load_text(to, "\",\"memo\":\"invoice part payment\"");
}

static char *body_of(struct load *l, char *to)
{
    if (l->what == TRANSFER) {
        return load_text(transfer(l, load_text(to, "{")), "}");
    }
    to = load_text(to, "{\"operations\":[");
    for (int i = 0; i < BATCH; i++) {
        to = load_text(to, i == 0 ? "{\"op\":\"transfer\"," : ",{\"op\":\"transfer\",");
        to = load_text(transfer(l, to), "}");
    }
    return load_text(to, "]}");
}

static void make_request(struct load *l, struct conn *c)
{
    static char body[OUT_BYTES];
    char *to = c->out;

    if (l->what == BALANCE) {
        to = account(load_text(to, "GET /v1/balance?asset=roc&account="), payer(l));
        to = load_text(load_text(to, " HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer "), l->token);
        to = load_text(to, "\r\n\r\n");
    } else {
        size_t len = (size_t)(body_of(l, body) - body);

        to = load_text(to, l->what == BULK ? "POST /v1/batch" : "POST /v1/transfer");
        to = load_text(load_text(to, " HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer "), l->token);
        to = key(l, load_text(to, "\r\nContent-Type: application/json\r\nIdempotency-Key: "));
        to = load_decimal(load_text(to, "\r\nContent-Length: "), len);
        to = load_bytes(load_text(to, "\r\n\r\n"), body, len);
    }
    c->out_len = (size_t)(to - c->out);
    c->sent = 0;
    c->got = 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void push(int ep, struct conn *c)
{
    load_push(ep, c->fd, c, c->out, c->out_len, &c->sent);
}

/* Sends a request whose time counts from `from_ns`, or hangs up when there are no more. */
static void start(struct load *l, int ep, struct conn *c, uint64_t from_ns)
{
    if ((l->end_ns != 0 && from_ns >= l->end_ns) ||
        (l->count_max != 0 && l->sent >= l->count_max)) {
        close(c->fd);
        l->open--;
        return;
    }
    make_request(l, c);
    l->sent++;
    c->started_ns = from_ns;
    push(ep, c);
}

static void wait_until(struct load *l, struct conn *c, uint64_t due_ns)
{
    c->due_ns = due_ns;
    l->waiting[(l->wait_head + l->wait_count++) % CONNS_MAX] = c;
}

/* What a connection does that has nothing under way. */
static void go_on(struct load *l, int ep, struct conn *c, uint64_t now_ns)
{
    uint64_t due_ns = l->due_ns;

    if (l->gap_ns == 0) {
        start(l, ep, c, now_ns);
        return;
    }
    l->due_ns += l->gap_ns;
    if (due_ns > now_ns && due_ns < l->end_ns) {
        wait_until(l, c, due_ns);
    } else {
        start(l, ep, c, due_ns);
    }
}

/* Starts those whose time has come; ns until the next one's. After a 429 a millisecond more, so
 * that many start together. */
static uint64_t start_due(struct load *l, int ep)
{
    while (l->wait_count > 0) {
        struct conn *c = l->waiting[l->wait_head % CONNS_MAX];
        uint64_t now_ns = bench_now_ns();

        if (c->due_ns > now_ns) {
            return c->due_ns - now_ns + (l->gap_ns == 0 ? 1000000u : 0);
        }
        l->wait_head++;
        l->wait_count--;
        start(l, ep, c, l->gap_ns == 0 ? now_ns : c->due_ns);
    }
    return WAIT_MAX_S * UINT64_C(1000000000);
}

/* Whether the connection has its answer, and nothing under way. */
static bool take(struct load *l, struct conn *c)
{
    uint64_t now_ns;
    uint64_t took_ns;

    c->got += load_take(c->fd, c->in + c->got, IN_BYTES - c->got);
    if (load_answer_length(&l->shape, c->in, c->got) == 0) {
        return false;
    }
    now_ns = bench_now_ns();
    took_ns = now_ns - c->started_ns;
    if (memcmp(c->in, "HTTP/1.1 200", 12) == 0) {
        ron_hist_record(&l->taken, took_ns);
        l->done++;
    } else if (l->flood && memcmp(c->in, "HTTP/1.1 429", 12) == 0) {
        ron_hist_record(&l->refused, took_ns);
        wait_until(l, c, now_ns + l->pause_ns);
        return false;
    } else {
        (void)fprintf(stderr, "refused: %.*s\n", (int)RON_MIN(c->got, (size_t)700), c->in);
        exit(1);
    }
    return true;
}

static void run(struct load *l, const char *addr, uint64_t conns)
{
    struct epoll_event events[EVENTS_MAX];
    struct conn *answered[EVENTS_MAX];
    int ep = epoll_create1(0);

    load_begin();
    for (uint64_t i = 0; i < conns; i++) {
        struct conn *c = &l->conns[i];

        c->fd = load_connect(addr);
        c->in = ron_alloc(IN_BYTES);
        BENCH_TRUE(c->in != NULL);
        load_watch(ep, EPOLL_CTL_ADD, c->fd, EPOLLIN, c);
        l->open++;
    }
    l->begin_ns = l->due_ns = bench_now_ns();
    l->end_ns = l->run_ns != 0 ? l->begin_ns + l->run_ns : 0;
    for (uint64_t i = 0; i < conns; i++) {
        go_on(l, ep, &l->conns[i], bench_now_ns());
    }
    while (l->open > 0) {
        uint64_t wait_ns = start_due(l, ep);
        int n = l->open > 0 ? load_wait(ep, events, EVENTS_MAX, wait_ns) : 0;
        int count = 0;

        BENCH_TRUE(n > 0 || l->wait_count > 0 || l->open == 0);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;

            if ((events[i].events & EPOLLOUT) != 0) {
                load_watch(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
                push(ep, c);
            }
            if (take(l, c)) {
                answered[count++] = c;
            }
        }
        for (int i = 0; i < count; i++) {
            go_on(l, ep, answered[i], bench_now_ns());
        }
    }
    close(ep);
}

static double us(const struct ron_hist *h, uint32_t percent)
{
    return (double)ron_hist_quantile(h, percent, 100) / 1000;
}

int main(int argc, char **argv)
{
    struct load *l = ron_alloc_zero(sizeof *l);
    uint64_t each;
    uint64_t conns;
    uint64_t cpu_ns;
    double seconds;

    if (argc < 9 || argc > 11) {
        printf("usage: bench_wallet transfer|balance|batch|flood ADDR TOKEN ACCOUNTS CONNS SECONDS "
               "COUNT HOT [PAUSE [RATE]]\n");
        return argc == 1 ? 0 : 2;
    }
    BENCH_TRUE(l != NULL);
    l->flood = strcmp(argv[1], "flood") == 0;
    l->what = strcmp(argv[1], "balance") == 0 ? BALANCE
              : strcmp(argv[1], "batch") == 0 ? BULK
                                              : TRANSFER;
    l->token = argv[3];
    l->accounts = strtoull(argv[4], NULL, 10);
    conns = strtoull(argv[5], NULL, 10);
    l->count_max = strtoull(argv[7], NULL, 10);
    l->hot = strcmp(argv[8], "1") == 0;
    l->salt = l->state = bench_clock_ns(CLOCK_REALTIME);
    BENCH_TRUE(conns <= CONNS_MAX && strlen(l->token) < OUT_BYTES / 4);
    ron_hist_init(&l->taken);
    ron_hist_init(&l->refused);
    cpu_ns = bench_cpu_ns();
    l->run_ns = strtoull(argv[6], NULL, 10) * 1000000000u;
    l->pause_ns = argc > 9 ? strtoull(argv[9], NULL, 10) * 1000000u : 0;
    if (argc > 10 && strtoull(argv[10], NULL, 10) > 0) {
        BENCH_TRUE(l->run_ns != 0 && !l->flood); /* a rate is kept for a time, and by all */
        l->gap_ns = 1000000000u / strtoull(argv[10], NULL, 10);
    }
    run(l, argv[2], conns);
    seconds = (double)(bench_now_ns() - l->begin_ns) / 1e9;
    each = l->what == BULK ? BATCH : 1;
    printf("{\"done\":%" PRIu64 ",\"per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
           "\"refused\":%" PRIu64 ",\"offered_per_s\":%.0f,\"refused_p50_us\":%.1f,"
           "\"refused_p99_us\":%.1f,\"client_cpu_us\":%.3f}\n",
           l->done * each, (double)(l->done * each) / seconds, us(&l->taken, 50), us(&l->taken, 99),
           (double)l->taken.max / 1000, l->sent - l->done, (double)l->sent / seconds,
           us(&l->refused, 50), us(&l->refused, 99),
           (double)(bench_cpu_ns() - cpu_ns) / 1000 / (double)l->sent);
    return 0;
}
