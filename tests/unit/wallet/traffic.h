/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - clients, a wallet and a bad network around any ledger, from one seed: jobs of a few
 * accounts run side by side, messages are lost, late, doubled and overtake each other, the wallet
 * loses its tables; and what must hold whatever happens is checked at every answer:
 *   T1 at most one commit per key and per (account, nonce);
 *   T2 the same request gets the same bytes, and they say where the ledger has it;
 *   T3 who is refused for good was not committed when the ledger gave its word;
 *   T4 in the end every reservation is settled, and every request gets a definite answer;
 *   T5 balances are what the committed requests, as their clients meant them, add up to.
 * Used with a model of a ledger (test_job_random.c) and with the real stages (tests/sim).
 * Header only. */
#pragma once

#include "unit/wallet/desk.h"

enum {
    TRAFFIC_ACCOUNTS = 5, /* a, b, ... */
    TRAFFIC_KEYS = 10,
    TRAFFIC_WISHES = 32,
    TRAFFIC_SLOTS = 8,
    TRAFFIC_MESSAGES = 64,
    TRAFFIC_NONCES = 256,
};

/* A request that some client wants: until the answer is definite, again and again. */
struct wish {
    enum wlt_op op;
    char body[640];
    char key[8];
    struct order probe; /* parsed, never run: its names */
    char *answer;       /* bytes of the first 200 */
    size_t answer_len;
    uint64_t committed; /* event, 0 = not */
    uint64_t seq_first;
    struct lc_done done; /* as the first 200 had it */
};

struct slot {
    bool busy;
    size_t wish;
    uint64_t attempt;
    uint64_t word; /* event of the last word that the ledger gave this job */
    struct order o;
};

struct message {
    bool used;
    bool back; /* an answer */
    int slot;  /* -1: nobody waits */
    uint64_t attempt;
    uint64_t word;
    uint16_t code;
    uint16_t status;
    size_t len;
    char *bytes;
};

struct traffic_odds {
    uint32_t lose, twice, crash, abort; /* of 1000 */
};

static struct {
    struct ron_rand rand;
    struct traffic_odds odds;
    struct wish wishes[TRAFFIC_WISHES];
    size_t wish_count;
    struct slot slots[TRAFFIC_SLOTS];
    struct message messages[TRAFFIC_MESSAGES];
    bool nonce_used[TRAFFIC_ACCOUNTS][TRAFFIC_NONCES];
    int64_t available[TRAFFIC_ACCOUNTS]; /* a fold of the requests that were committed */
    int64_t held[TRAFFIC_ACCOUNTS];
    uint64_t event;
    /* The ledger: false when it says nothing (it may have acted). */
    bool (*ledger)(uint16_t code, const char *payload, size_t len, struct ron_buf *answer,
                   uint16_t *ret_status);
    uint64_t (*last_nonce)(char account);
    void (*wrong)(const char *what, int line);
} traffic;

static struct {
    uint64_t answers, receipts, replays, refusals, unknown, crashes, lost, doubled;
} traffic_total;

#define TRAFFIC_CHECK(what)                                                                        \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            traffic.wrong(#what, __LINE__);                                                        \
        }                                                                                          \
    } while (0)

static inline uint64_t traffic_below(uint64_t n)
{
    return ron_rand_below(&traffic.rand, n);
}

static inline bool traffic_chance(uint32_t of_1000)
{
    return ron_rand_chance(&traffic.rand, of_1000, 1000);
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static inline char traffic_account(void)
{
    return (char)('a' + traffic_below(TRAFFIC_ACCOUNTS));
}

/* Members of an operation on `from`; *next_nonce is 0 for none. */
static inline int traffic_members(char *to, size_t size, enum wlt_op op, char from, uint64_t nonce)
{
    char peer = (char)('a' + ((uint64_t)(from - 'a') + 1 + traffic_below(TRAFFIC_ACCOUNTS - 1)) %
                                 TRAFFIC_ACCOUNTS);
    unsigned long long amount = 1 + traffic_below(op == WLT_ISSUE ? 200 : 60);
    const char *hold = NULL;
    int n;

    for (size_t i = 0; i < 8 && traffic.wish_count > 0; i++) {
        const struct wish *w = &traffic.wishes[traffic_below(traffic.wish_count)];

        if (w->op == WLT_HOLD && w->probe.call.ops[0].from.ptr[0] == from) {
            hold = w->probe.call.ops[0].txid;
        }
    }
    n = snprintf(to, size, "\"amount_minor\":\"%llu\"", amount);
    if (wlt_op_info(op)->subject_is_to) {
        return n + snprintf(to + n, size - (size_t)n, ",\"to\":\"%c\"", from);
    }
    n += snprintf(to + n, size - (size_t)n, ",\"from\":\"%c\"", from);
    if (wlt_op_info(op)->takes_to) {
        n += snprintf(to + n, size - (size_t)n, ",\"to\":\"%c\"", peer);
    }
    if (wlt_op_info(op)->takes_hold) {
        n += snprintf(to + n, size - (size_t)n, ",\"hold\":\"%s\"", hold != NULL ? hold : "tx_no");
    }
    if (nonce != 0) {
        n += snprintf(to + n, size - (size_t)n, ",\"nonce\":%llu", (unsigned long long)nonce);
    }
    return n;
}

static inline uint64_t traffic_nonce(char account)
{
    switch (traffic_below(8)) {
    case 0:
        return 1 + traffic_below(6);
    case 1:
    case 2:
        return 0;
    default:
        return traffic.last_nonce(account) + 1;
    }
}

static inline void traffic_wish(void)
{
    static const enum wlt_op kinds[] = {WLT_ISSUE,    WLT_ISSUE,    WLT_TRANSFER,
                                        WLT_TRANSFER, WLT_TRANSFER, WLT_BURN,
                                        WLT_HOLD,     WLT_CAPTURE,  WLT_RELEASE};
    struct wish *w = &traffic.wishes[traffic.wish_count];
    bool batch = traffic_below(6) == 0;
    size_t ops = batch ? 1 + traffic_below(3) : 1;
    char from = traffic_account();
    uint64_t nonce = traffic_nonce(from);
    int n = 0;

    *w = (struct wish){0};
    (void)snprintf(w->key, sizeof w->key, "k%llu", (unsigned long long)traffic_below(TRAFFIC_KEYS));
    n = snprintf(w->body, sizeof w->body, "%s", batch ? "{\"operations\":[" : "");
    for (size_t i = 0; i < ops; i++) {
        w->op = kinds[traffic_below(RON_ARRAY_LEN(kinds))];
        n += snprintf(w->body + n, sizeof w->body - (size_t)n, "%s{", i > 0 ? "," : "");
        if (batch) {
            n += snprintf(w->body + n, sizeof w->body - (size_t)n, "\"op\":\"%s\",",
                          wlt_op_info(w->op)->name);
        }
        n += traffic_members(w->body + n, sizeof w->body - (size_t)n, w->op, from, nonce);
        n += snprintf(w->body + n, sizeof w->body - (size_t)n, "}");
        nonce += nonce != 0 && wlt_op_info(w->op)->takes_nonce; /* a run */
    }
    (void)snprintf(w->body + n, sizeof w->body - (size_t)n, "%s", batch ? "]}" : "");
    w->op = batch ? WLT_OP_COUNT : w->op;
    order_init(&w->probe, w->op, w->body, w->key);
    for (size_t i = 0; i < traffic.wish_count; i++) {
        const struct wlt_call *other = &traffic.wishes[i].probe.call;

        if (strcmp(other->ops[0].txid, w->probe.call.ops[0].txid) == 0) {
            order_done(&w->probe); /* the same request: one wish is enough */
            return;
        }
    }
    traffic.wish_count++;
}

/* ---- what the ledger tells ------------------------------------------------------------------- */

/* T5: what the client wanted. */
static inline void traffic_fold(const struct wlt_operation *op)
{
    int64_t n = (int64_t)op->amount.v;
    size_t from = op->from.len > 0 ? (size_t)(op->from.ptr[0] - 'a') : 0;
    size_t to = op->to.len > 0 ? (size_t)(op->to.ptr[0] - 'a') : 0;

    switch (op->op) {
    case WLT_ISSUE:
        traffic.available[to] += n;
        break;
    case WLT_TRANSFER:
        traffic.available[from] -= n;
        traffic.available[to] += n;
        break;
    case WLT_BURN:
        traffic.available[from] -= n;
        break;
    case WLT_HOLD:
        traffic.available[from] -= n;
        traffic.held[from] += n;
        break;
    case WLT_CAPTURE:
        traffic.held[from] -= n;
        traffic.available[to] += n;
        break;
    case WLT_RELEASE:
        traffic.held[from] -= n;
        traffic.available[from] += n;
        break;
    case WLT_OP_COUNT:
        break;
    }
}

static inline void traffic_check_balance(size_t account, int64_t available, int64_t held)
{
    TRAFFIC_CHECK(available >= 0 && held >= 0);
    TRAFFIC_CHECK(traffic.available[account] == available && traffic.held[account] == held);
}

/* The batch whose first entry has that id became durable. */
static inline void traffic_committed(struct ron_str first_id, uint64_t seq_first)
{
    struct wish *w = NULL;

    for (size_t i = 0; i < traffic.wish_count; i++) {
        struct wish *x = &traffic.wishes[i];

        if (x->probe.call.ops[0].txid[0] != '\0' &&
            ron_str_is(first_id, x->probe.call.ops[0].txid)) {
            w = x;
        }
    }
    TRAFFIC_CHECK(w != NULL);
    TRAFFIC_CHECK(w->committed == 0);
    for (size_t i = 0; i < traffic.wish_count; i++) { /* T1: nobody else under that key */
        const struct wish *x = &traffic.wishes[i];

        TRAFFIC_CHECK(x->committed == 0 ||
                      strcmp(x->probe.call.idem_id, w->probe.call.idem_id) != 0);
    }
    w->committed = traffic.event;
    w->seq_first = seq_first;
    for (uint32_t i = 0; i < w->probe.call.count; i++) {
        const struct wlt_operation *op = &w->probe.call.ops[i];

        traffic_fold(op);
        if (op->nonce != 0) {
            bool *used = &traffic.nonce_used[op->from.ptr[0] - 'a'][op->nonce % TRAFFIC_NONCES];

            TRAFFIC_CHECK(!*used); /* T1 */
            *used = true;
        }
    }
}

/* ---- the network ----------------------------------------------------------------------------- */

static inline struct message *traffic_free_message(void)
{
    for (size_t i = 0; i < TRAFFIC_MESSAGES; i++) {
        if (!traffic.messages[i].used) {
            return &traffic.messages[i];
        }
    }
    return NULL;
}

static inline void traffic_drop(struct message *m)
{
    ron_free(m->bytes);
    *m = (struct message){0};
}

static inline void traffic_post(struct message m, const void *bytes, size_t len)
{
    struct message *to = traffic_free_message();

    if (to == NULL) {
        traffic_total.lost++; /* the network is full */
        return;
    }
    *to = m;
    to->used = true;
    to->len = len;
    to->bytes = ron_alloc(len + 1);
    RON_ASSERT(to->bytes != NULL);
    memcpy(to->bytes, bytes, len);
}

static inline struct slot *traffic_waiter(const struct message *m)
{
    struct slot *s = m->slot >= 0 ? &traffic.slots[m->slot] : NULL;

    return s != NULL && s->busy && s->o.step == WLT_STEP_SEND && s->attempt == m->attempt ? s
                                                                                          : NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static inline void traffic_good_answer(struct slot *s, struct wish *w)
{
    const char *bytes = (const char *)ron_buf_data(&s->o.out);
    size_t len = ron_buf_len(&s->o.out);

    traffic_total.receipts++;
    traffic_total.replays += s->o.job.replayed;
    TRAFFIC_CHECK(w->committed != 0);
    TRAFFIC_CHECK(s->o.job.done.seq_first == 0 || s->o.job.done.seq_first == w->seq_first);
    if (w->answer == NULL) {
        w->done = s->o.job.done;
        w->answer = ron_alloc(len + 1);
        RON_ASSERT(w->answer != NULL);
        memcpy(w->answer, bytes, len);
        w->answer_len = len;
    }
    TRAFFIC_CHECK(w->answer_len == len && memcmp(w->answer, bytes, len) == 0); /* T2 */
}

static inline void traffic_answer(struct slot *s)
{
    struct wish *w = &traffic.wishes[s->wish];
    enum wlt_reason reason = s->o.job.fault.reason;

    s->busy = false;
    traffic_total.answers++;
    if (reason == WLT_REASON_NONE) {
        traffic_good_answer(s, w);
    } else if (wlt_reason_retryable(reason)) {
        traffic_total.unknown++;
    } else {
        traffic_total.refusals++;
        TRAFFIC_CHECK(reason != WLT_REASON_INTERNAL && reason != WLT_REASON_BAD_REQUEST);
        TRAFFIC_CHECK(w->committed == 0 || w->committed > s->word); /* T3 */
    }
    order_done(&s->o);
}

static inline void traffic_follow(struct slot *s)
{
    if (s->o.step == WLT_STEP_ANSWER) {
        traffic_answer(s);
    } else if (s->o.step == WLT_STEP_SEND) {
        s->attempt++;
        traffic_post((struct message){.slot = (int)(s - traffic.slots),
                                      .attempt = s->attempt,
                                      .code = s->o.job.code},
                     ron_buf_data(&s->o.job.payload), ron_buf_len(&s->o.job.payload));
    }
}

static inline void traffic_begin(struct slot *s, size_t wish)
{
    struct wish *w = &traffic.wishes[wish];

    s->busy = true;
    s->wish = wish;
    s->word = traffic.event;
    order_init(&s->o, w->op, w->body, w->key);
    (void)order_begin(&s->o, 200 + traffic_below(5000));
    traffic_follow(s);
}

static inline void traffic_at_ledger(struct message *m)
{
    struct message back = {.slot = m->slot, .attempt = m->attempt, .back = true};
    struct ron_buf answer;
    bool answered;

    ron_buf_init(&answer, DESK_OUT_MAX);
    traffic.event++;
    answered = traffic.ledger(m->code, m->bytes, m->len, &answer, &back.status);
    back.word = traffic.event;
    if (!traffic_chance(traffic.odds.twice)) {
        traffic_drop(m);
    } else {
        m->slot = -1;
        traffic_total.doubled++;
    }
    if (answered && back.slot >= 0) {
        traffic_post(back, ron_buf_data(&answer), ron_buf_len(&answer));
    }
    ron_buf_done(&answer);
}

static inline void traffic_move(struct message *m)
{
    struct slot *s = traffic_waiter(m);

    if (traffic_chance(traffic.odds.lose)) {
        traffic_total.lost++;
        traffic_drop(m);
    } else if (!m->back) {
        traffic_at_ledger(m);
    } else {
        if (s != NULL) {
            s->word = m->word;
            (void)order_reply(&s->o, WLT_REPLY_ANSWERED, m->status, m->bytes, m->len);
        }
        traffic_drop(m);
        if (s != NULL) {
            traffic_follow(s);
        }
    }
}

static inline bool traffic_still_here(const struct slot *s, bool take)
{
    for (size_t i = 0; i < TRAFFIC_MESSAGES; i++) {
        struct message *m = &traffic.messages[i];

        if (m->used && !m->back && traffic_waiter(m) == s) {
            if (take) {
                traffic_drop(m);
            }
            return true;
        }
    }
    return false;
}

/* The clock jumps to where the next job wants to be woken; whose time is up hears of it. */
static inline void traffic_time(void)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < TRAFFIC_SLOTS; i++) {
        if (traffic.slots[i].busy) {
            next = RON_MIN(next, traffic.slots[i].o.job.until_ns);
        }
    }
    if (next == UINT64_MAX) {
        return;
    }
    next = RON_MAX(next, desk.now_ns);
    desk.wall_ms += (next - desk.now_ns + RON_NS_PER_MS - 1) / RON_NS_PER_MS;
    desk.now_ns = next;
    for (size_t i = 0; i < TRAFFIC_SLOTS; i++) {
        struct slot *s = &traffic.slots[i];

        if (!s->busy || s->o.job.until_ns > desk.now_ns) {
            continue;
        }
        if (s->o.step == WLT_STEP_WAIT) {
            s->o.step = wlt_job_waited(&desk.core, &s->o.job, desk.now_ns);
        } else if (traffic_still_here(s, false) && traffic_chance(500)) {
            (void)traffic_still_here(s, true);
            (void)order_reply(&s->o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
        } else {
            (void)order_reply(&s->o, WLT_REPLY_UNKNOWN, 0, NULL, 0);
        }
        traffic_follow(s);
    }
}

/* Ends a job as a drain would. Its client sends again. */
static inline void traffic_end_job(struct slot *s)
{
    if (s->busy) {
        wlt_job_abort(&desk.core, &s->o.job, WLT_REASON_DRAINING);
        s->busy = false;
        order_done(&s->o);
    }
}

static inline void traffic_crash(void)
{
    traffic_total.crashes++;
    for (size_t i = 0; i < TRAFFIC_SLOTS; i++) {
        traffic_end_job(&traffic.slots[i]);
    }
    desk_close_tables();
    desk_open_tables();
}

static inline void traffic_step(void)
{
    struct slot *s = &traffic.slots[traffic_below(TRAFFIC_SLOTS)];
    struct message *m = &traffic.messages[traffic_below(TRAFFIC_MESSAGES)];

    traffic.event++;
    if (traffic_chance(traffic.odds.crash)) {
        traffic_crash();
        return;
    }
    if (s->busy && traffic_chance(traffic.odds.abort)) {
        traffic_end_job(s);
        return;
    }
    switch (traffic_below(8)) {
    case 0:
        if (traffic.wish_count < TRAFFIC_WISHES && traffic_below(2) == 0) {
            traffic_wish();
        }
        if (!s->busy && traffic.wish_count > 0) {
            traffic_begin(s, traffic_below(traffic.wish_count));
        }
        break;
    case 1:
        if (traffic_below(6) == 0) {
            traffic_time();
        } else {
            desk_pass_ms(traffic_below(3));
        }
        break;
    default:
        for (size_t i = 0; i < TRAFFIC_MESSAGES && !m->used; i++) {
            m = &traffic.messages[(size_t)(m - traffic.messages + 1) % TRAFFIC_MESSAGES];
        }
        if (m->used) {
            traffic_move(m);
        } else if (traffic_below(4) == 0) {
            traffic_time();
        }
        break;
    }
}

/* ---- a world --------------------------------------------------------------------------------- */

static inline void traffic_open(uint64_t seed)
{
    memset(&traffic, 0, sizeof traffic);
    ron_rand_seed(&traffic.rand, seed);
    desk_open(seed);
    traffic.odds = (struct traffic_odds){.lose = (uint32_t)traffic_below(120),
                                         .twice = (uint32_t)traffic_below(100),
                                         .crash = (uint32_t)traffic_below(6),
                                         .abort = (uint32_t)traffic_below(6)};
}

/* T4: without accidents everybody gets a definite answer, twice the same. */
static inline void traffic_settle(void)
{
    traffic.odds = (struct traffic_odds){0};
    for (size_t i = 0; i < TRAFFIC_SLOTS; i++) {
        traffic_end_job(&traffic.slots[i]);
    }
    for (size_t i = 0; i < TRAFFIC_MESSAGES; i++) {
        if (traffic.messages[i].used && !traffic.messages[i].back) {
            traffic_at_ledger(&traffic.messages[i]);
        }
    }
    for (size_t i = 0; i < TRAFFIC_MESSAGES; i++) {
        if (traffic.messages[i].used) {
            traffic_drop(&traffic.messages[i]);
        }
    }
    desk_pass_ms(30000); /* the breaker has closed */
    for (size_t i = 0; i < 2 * traffic.wish_count; i++) {
        struct slot *s = &traffic.slots[0];
        uint64_t definite = traffic_total.receipts + traffic_total.refusals;

        traffic.event++;
        traffic_begin(s, i / 2);
        for (int n = 0; s->busy && n < 100; n++) {
            for (size_t k = 0; k < TRAFFIC_MESSAGES && s->busy; k++) {
                if (traffic.messages[k].used) {
                    traffic_move(&traffic.messages[k]);
                }
            }
            if (s->busy && s->o.step == WLT_STEP_WAIT) {
                traffic_time();
            }
        }
        TRAFFIC_CHECK(!s->busy);
        TRAFFIC_CHECK(traffic_total.receipts + traffic_total.refusals == definite + 1);
    }
}

/* T4: nobody holds anything. */
static inline void traffic_check_tables(void)
{
    struct ron_buf out;

    ron_buf_init(&out, DESK_OUT_MAX);
    for (char a = 'a'; a < 'a' + TRAFFIC_ACCOUNTS; a++) {
        struct wlt_nonce_ticket ticket;
        uint64_t expected = 0;
        char name[2] = {a, '\0'};
        enum wlt_nonce_verdict v = wlt_nonce_reserve(desk.core.nonces, desk_account(name),
                                                     traffic.last_nonce(a) + 1, &ticket, &expected);

        TRAFFIC_CHECK(v == WLT_NONCE_RESERVED || v == WLT_NONCE_ASK);
        if (v == WLT_NONCE_RESERVED) {
            wlt_nonce_settle(desk.core.nonces, ticket, WLT_REFUSED);
        }
    }
    for (size_t i = 0; i < traffic.wish_count; i++) {
        const struct wlt_call *call = &traffic.wishes[i].probe.call;
        struct wlt_key key =
            wlt_key_of(&desk.core.secret, WLT_KEY_IDEM, desk_str(call->idem_id), desk_str(""));
        enum wlt_idem_verdict v = wlt_idem_begin(desk.core.idem, key, call->fingerprint,
                                                 desk.now_ns / RON_NS_PER_MS, &out);

        TRAFFIC_CHECK(v != WLT_IDEM_PENDING && v != WLT_IDEM_FULL);
        if (v == WLT_IDEM_FIRST) {
            wlt_idem_abandon(desk.core.idem, key);
        }
        ron_buf_clear(&out);
    }
    ron_buf_done(&out);
}

static inline void traffic_close(void)
{
    for (size_t i = 0; i < TRAFFIC_SLOTS; i++) {
        traffic_end_job(&traffic.slots[i]);
    }
    for (size_t i = 0; i < TRAFFIC_MESSAGES; i++) {
        if (traffic.messages[i].used) {
            traffic_drop(&traffic.messages[i]);
        }
    }
    for (size_t i = 0; i < traffic.wish_count; i++) {
        order_done(&traffic.wishes[i].probe);
        ron_free(traffic.wishes[i].answer);
    }
    desk_close();
}
