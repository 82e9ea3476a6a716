/* SPDX-License-Identifier: Apache-2.0 */
/* bench_ledger.c - the load for `./dev bench ledger`: connections to a running ledger, each with
 * one request under way, over HTTP (JSON) or OAP/1 (binary), with one transfer or a batch in each.
 *
 *     bench_ledger fund|load http|oap|bare ADDR TOKEN ACCOUNTS CONNS BATCH SECONDS|0 COUNT IDS HOT
 *                  [RATE]
 *     bench_ledger prove ADDR TOKEN ENTRIES COUNT AIM_US
 *
 * `fund` mints 10^12 to each account. `load` sends transfers until SECONDS have passed or COUNT
 * entries are done, whichever is set. IDS is "time" (rising) or "random"; HOT 1 pays everything out
 * of account 0. With a RATE, requests are due at equal distances and their time counts from when
 * they were due; without, each connection sends as soon as it is answered. `bare` sends the request
 * that peer_bare/server.c understands, about as long as one for the ledger.
 * `prove` asks for inclusion proofs, see bench_proof.h.
 * Prints one JSON object. One thread: the server has the other core. Every answer is
 * checked; a refusal ends the program. */
#include <inttypes.h>

#include "bench/bench_load.h"
#include "bench/bench_proof.h"
#include "ledger/entry/entry.h"
#include "ledger/front/oap.h"
#include "ron/base/alloc.h"
#include "ron/wire/frame.h"
#include "support/hist.h"
#include "wire/frame.h"

enum {
    CONNS_MAX = 1024,
    IN_BYTES = 4096,
    NONCE_TEXT = 24,
    HEAD_TEXT = 256,  /* of a request, without the token: some 130 */
    ENTRY_TEXT = 384, /* of an entry: some 290 */
    WAIT_MAX_S = 30,  /* for an answer */
};

struct conn {
    int fd;
    struct ron_buf out;
    size_t sent;
    uint8_t in[IN_BYTES];
    size_t got;
    uint64_t started_ns;
    uint64_t entries; /* in the request under way */
};

struct load {
    bool fund;
    bool http;
    const char *token;
    size_t token_len;
    uint64_t accounts;
    uint64_t batch;
    uint64_t count_max;
    uint64_t end_ns;
    bool random_ids;
    bool hot;
    uint64_t made;  /* entries put into requests */
    uint64_t done;  /* entries answered */
    uint64_t state; /* of the generator */
    uint64_t salt;
    uint64_t corr;
    uint64_t wall_ms; /* of this round */
    struct load_shape shape;
    struct ron_hist latency;
    struct conn conns[CONNS_MAX];
    uint64_t open;
    bool bare;
    uint64_t gap_ns;                 /* between two requests; 0: no rate */
    uint64_t due_ns;                 /* of the next one */
    struct conn *waiting[CONNS_MAX]; /* for their time, a ring */
    uint64_t wait_head;
    uint64_t wait_count;
};

/* ---- entries --------------------------------------------------------------------------------- */

struct texts {
    char id[33];
    char account[24];
    char to[24];
};

static void account_name(char *to, uint64_t n)
{
    *load_hex(load_text(to, "acct:"), n, 10) = '\0';
}

static void make_entry(struct load *l, struct led_entry *e, struct texts *t)
{
    uint64_t n = l->made++;
    uint64_t from = l->fund ? n : l->hot ? 0 : load_random(&l->state) % l->accounts;
    uint64_t to = load_random(&l->state) % l->accounts;

    to = to == from ? (to + 1) % l->accounts : to;
    load_hex(t->id, l->random_ids ? load_random(&l->state) : l->wall_ms << 20 | (n & 0xfffff), 16);
    load_hex(t->id + 16, l->salt ^ n, 16);
    account_name(t->account, from);
    account_name(t->to, to);
    *e = (struct led_entry){.id = {t->id, 32},
                            .account = {t->account, 15},
                            .asset = {"roc", 3},
                            .kid = {"k1", 2},
                            .capability_ref = {"bench", 5},
                            .amount = {.v = l->fund ? 1000000000000u : 1 + n % 7},
                            .ts_ms = l->wall_ms,
                            .v = LED_VERSION,
                            .kind = l->fund ? LED_KIND_MINT : LED_KIND_TRANSFER};
    if (!l->fund) {
        e->to = (struct ron_str){t->to, 15};
    }
    memcpy(e->nonce, &n, sizeof n);
    memcpy(e->nonce + 8, &l->salt, sizeof l->salt);
}

static uint64_t next_batch(const struct load *l)
{
    uint64_t left = l->count_max == 0 ? UINT64_MAX : l->count_max - l->made;

    return RON_MIN(l->batch, left);
}

static void write_oap(struct load *l, struct conn *c)
{
    static struct led_entry entries[LED_BATCH_BIN_MAX];
    static struct texts texts[LED_BATCH_BIN_MAX];
    struct led_batch batch = {.entries = entries, .count = (size_t)c->entries};
    struct ron_oap_head head = {.flags = RON_OAP_REQ | RON_OAP_START | RON_OAP_END,
                                .code = LED_OAP_INGEST,
                                .app = LED_OAP_APP,
                                .cap_len = (uint16_t)l->token_len,
                                .corr_id = ++l->corr};
    uint8_t *room = NULL;
    size_t at;

    for (size_t i = 0; i < batch.count; i++) {
        make_entry(l, &entries[i], &texts[i]);
    }
    BENCH_OK(ron_buf_reserve(&c->out, RON_OAP_HEADER_BYTES, &room));
    ron_buf_commit(&c->out, RON_OAP_HEADER_BYTES);
    BENCH_OK(ron_buf_append(&c->out, l->token, head.cap_len));
    at = ron_buf_len(&c->out);
    BENCH_OK(led_batch_encode(&batch, &c->out));
    ron_oap_write_head(&head, ron_buf_len(&c->out) - at,
                       (uint8_t *)(uintptr_t)ron_buf_data(&c->out));
}

static void base64_16(const uint8_t in[16], char out[NONCE_TEXT])
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int i = 0, o = 0; i < 16; i += 3) {
        uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < 16 ? (uint32_t)in[i + 1] << 8 : 0) |
                     (i + 2 < 16 ? in[i + 2] : 0);

        out[o++] = set[v >> 18];
        out[o++] = set[v >> 12 & 63];
        out[o++] = i + 1 < 16 ? set[v >> 6 & 63] : '=';
        out[o++] = i + 2 < 16 ? set[v & 63] : '=';
    }
}

static char *write_entry(struct load *l, char *to)
{
    struct led_entry e;
    struct texts t;
    char nonce[NONCE_TEXT];

    make_entry(l, &e, &t);
    base64_16(e.nonce, nonce);
    to = load_bytes(load_text(to, "{\"id\":\""), t.id, 32);
    to = load_decimal(load_text(to, "\",\"ts\":"), e.ts_ms);
    to = load_text(to, l->fund ? ",\"kind\":\"Mint\"" : ",\"kind\":\"Transfer\",\"to\":\"");
    if (!l->fund) {
        to = load_text(load_bytes(to, t.to, 15), "\"");
    }
    to = load_bytes(load_text(to, ",\"account\":\""), t.account, 15);
    to = load_decimal(load_text(to, "\",\"amount\":\""), (uint64_t)e.amount.v);
    to = load_text(to, "\",\"asset\":\"roc\",\"nonce\":\"");
    to = load_bytes(to, nonce, sizeof nonce);
    return load_text(to, "\",\"v\":1,\"kid\":\"k1\",\"capability_ref\":\"bench\"}");
}

static char *write_batch(struct load *l, const struct conn *c, char *to)
{
    to = load_text(to, "{\"batch\":[");
    for (uint64_t i = 0; i < c->entries; i++) {
        to = write_entry(l, i == 0 ? to : load_text(to, ","));
    }
    return load_text(to, "]}");
}

static char *write_bare(struct load *l, char *to)
{
    struct led_entry e;
    struct texts t;

    make_entry(l, &e, &t);
    to = load_bytes(load_text(to, "{\"idempotency_key\":\""), t.id, 32);
    to = load_bytes(load_text(to, "\",\"debit_account\":\""), t.account, 15);
    to = load_bytes(load_text(to, "\",\"credit_account\":\""), t.to, 15);
    to = load_decimal(load_text(to, "\",\"amount\":\""), (uint64_t)e.amount.v);
    to = load_text(to, "\",\"currency\":\"ROC\",\"memo\":\"");
    memset(to, '0', 72);
    return load_text(to + 72, "\"}");
}

/* The token stands in the head for both servers, so that both read as many bytes. */
static void write_http(struct load *l, struct conn *c)
{
    static char body[1 << 20];
    size_t len;
    uint8_t *room = NULL;
    char *to;

    BENCH_TRUE(c->entries * ENTRY_TEXT + HEAD_TEXT <= sizeof body);
    len = (size_t)((l->bare ? write_bare(l, body) : write_batch(l, c, body)) - body);
    BENCH_OK(ron_buf_reserve(&c->out, HEAD_TEXT + l->token_len + len, &room));
    to = load_text((char *)room, l->bare ? "POST /t" : "POST /ingest");
    to = load_text(to, " HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
                       "Authorization: Bearer ");
    to = load_bytes(to, l->token, l->token_len);
    to = load_decimal(load_text(to, "\r\nContent-Length: "), len);
    to = load_bytes(load_text(to, "\r\n\r\n"), body, len);
    ron_buf_commit(&c->out, (size_t)(to - (char *)room));
}

/* ---- connections ----------------------------------------------------------------------------- */

static void push(int ep, struct conn *c)
{
    load_push(ep, c->fd, c, ron_buf_data(&c->out), ron_buf_len(&c->out), &c->sent);
}

static void start(struct load *l, int ep, struct conn *c, uint64_t now_ns)
{
    if (l->gap_ns != 0 && l->due_ns > now_ns && now_ns < l->end_ns) {
        l->waiting[(l->wait_head + l->wait_count++) % CONNS_MAX] = c;
        return;
    }
    c->entries = next_batch(l);
    if (c->entries == 0 || (l->end_ns != 0 && now_ns >= l->end_ns)) {
        close(c->fd);
        l->open--;
        return;
    }
    ron_buf_clear(&c->out);
    c->sent = 0;
    c->got = 0;
    if (l->http) {
        write_http(l, c);
    } else {
        write_oap(l, c);
    }
    c->started_ns = l->gap_ns != 0 ? l->due_ns : now_ns;
    l->due_ns += l->gap_ns;
    push(ep, c);
}

/* Starts those whose time has come; ns until the next one's. */
static uint64_t start_due(struct load *l, int ep)
{
    uint64_t now_ns = bench_now_ns();

    while (l->wait_count > 0 && (l->due_ns <= now_ns || now_ns >= l->end_ns)) {
        struct conn *c = l->waiting[l->wait_head++ % CONNS_MAX];

        l->wait_count--;
        start(l, ep, c, now_ns);
        now_ns = bench_now_ns();
    }
    return l->wait_count > 0 ? l->due_ns - now_ns : WAIT_MAX_S * UINT64_C(1000000000);
}

/* Length of the whole answer that lies in `in`, or 0. */
static size_t answer_length(struct load *l, const struct conn *c)
{
    uint32_t len;

    if (l->http) {
        return load_answer_length(&l->shape, (const char *)c->in, c->got);
    }
    len = (uint32_t)c->in[0] << 24 | (uint32_t)c->in[1] << 16 | (uint32_t)c->in[2] << 8 | c->in[3];
    return c->got >= 4 && c->got >= len ? len : 0;
}

static void check_answer(const struct load *l, const struct conn *c)
{
    bool ok = l->http ? memcmp(c->in, "HTTP/1.1 200", 12) == 0
                      : c->in[8] == 0 && c->in[9] == 200 &&
                            c->in[RON_OAP_HEADER_BYTES] == LED_OAP_COMMITTED;

    if (!ok) {
        (void)fprintf(stderr, "refused: %.*s\n", (int)RON_MIN(c->got, (size_t)700),
                      (const char *)c->in + (l->http ? 0 : RON_OAP_HEADER_BYTES));
        exit(1);
    }
}

static void take(struct load *l, int ep, struct conn *c)
{
    uint64_t now_ns;

    c->got += load_take(c->fd, c->in + c->got, IN_BYTES - c->got);
    if (answer_length(l, c) == 0) {
        return;
    }
    check_answer(l, c);
    now_ns = bench_now_ns();
    ron_hist_record(&l->latency, now_ns - c->started_ns);
    l->done += c->entries;
    start(l, ep, c, now_ns);
}

static void open_all(struct load *l, int ep, const char *addr, uint64_t conns)
{
    for (uint64_t i = 0; i < conns; i++) {
        struct conn *c = &l->conns[i];

        c->fd = load_connect(addr);
        ron_buf_init(&c->out, 2 << 20);
        load_watch(ep, EPOLL_CTL_ADD, c->fd, EPOLLIN, c);
        l->open++;
    }
}

static void run(struct load *l, const char *addr, uint64_t conns)
{
    struct epoll_event events[256];
    int ep = epoll_create1(0);

    load_begin();
    open_all(l, ep, addr, conns);
    l->wall_ms = bench_clock_ns(CLOCK_REALTIME) / 1000000;
    for (uint64_t i = 0; i < conns; i++) {
        start(l, ep, &l->conns[i], bench_now_ns());
    }
    while (l->open > 0) {
        uint64_t wait_ns = start_due(l, ep);
        int n = l->open > 0 ? load_wait(ep, events, 256, wait_ns) : 0;

        BENCH_TRUE(n > 0 || l->wait_count > 0 || l->open == 0);
        l->wall_ms = bench_clock_ns(CLOCK_REALTIME) / 1000000;
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;

            if ((events[i].events & EPOLLOUT) != 0) {
                load_watch(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
                push(ep, c);
            }
            take(l, ep, c);
        }
    }
    close(ep);
}

int main(int argc, char **argv)
{
    struct load *l = ron_alloc_zero(sizeof *l);
    uint64_t start_ns;
    uint64_t cpu_ns;
    double seconds;

    if (argc == 7 && strcmp(argv[1], "prove") == 0) {
        ron_free(l);
        return proof_main(argv + 2);
    }
    if (argc != 12 && argc != 13) {
        printf(
            "usage: bench_ledger fund|load http|oap|bare ADDR TOKEN ACCOUNTS CONNS BATCH SECONDS "
            "COUNT time|random HOT [RATE]\n"
            "       bench_ledger prove ADDR TOKEN ENTRIES COUNT AIM_US\n");
        return argc == 1 ? 0 : 2;
    }
    BENCH_TRUE(l != NULL);
    l->fund = strcmp(argv[1], "fund") == 0;
    l->bare = strcmp(argv[2], "bare") == 0;
    l->http = l->bare || strcmp(argv[2], "http") == 0;
    l->token = argv[4];
    l->token_len = strlen(l->token);
    l->accounts = strtoull(argv[5], NULL, 10);
    l->batch = strtoull(argv[7], NULL, 10);
    l->count_max = l->fund ? l->accounts : strtoull(argv[9], NULL, 10);
    l->random_ids = strcmp(argv[10], "random") == 0;
    l->hot = strcmp(argv[11], "1") == 0;
    l->salt = bench_clock_ns(CLOCK_REALTIME);
    l->state = l->salt;
    ron_hist_init(&l->latency);
    start_ns = bench_now_ns();
    cpu_ns = bench_cpu_ns();
    if (strtoull(argv[8], NULL, 10) > 0 && !l->fund) {
        l->end_ns = start_ns + strtoull(argv[8], NULL, 10) * 1000000000u;
    }
    if (argc == 13 && strtoull(argv[12], NULL, 10) > 0) {
        BENCH_TRUE(l->end_ns != 0); /* a rate is kept for a time */
        l->gap_ns = 1000000000u / strtoull(argv[12], NULL, 10);
        l->due_ns = start_ns;
    }
    BENCH_TRUE(strtoull(argv[6], NULL, 10) <= CONNS_MAX && l->batch <= LED_BATCH_BIN_MAX);
    run(l, argv[3], strtoull(argv[6], NULL, 10));
    seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    printf("{\"entries\":%" PRIu64
           ",\"seconds\":%.3f,\"per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
           "\"client_cpu_us\":%.3f}\n",
           l->done, seconds, (double)l->done / seconds,
           (double)ron_hist_quantile(&l->latency, 50, 100) / 1000,
           (double)ron_hist_quantile(&l->latency, 99, 100) / 1000, (double)l->latency.max / 1000,
           (double)(bench_cpu_ns() - cpu_ns) / 1000 / (double)l->done);
    return 0;
}
