/* SPDX-License-Identifier: Apache-2.0 */
/* scn_wlt_work.c - writes of the wallet: listeners, the queue "work" of two, two workers with their
 * jobs over shared tables, and a shutdown at any point.
 *
 * A listener never waits: a full or closed queue means that its request is refused. A worker takes
 * requests until the closed queue is empty, and runs each through wlt_job; the ledger is a counter
 * under a lock. The listeners send the same requests (same key), or rivals for the same nonces. In
 * the model the queue is filled before the workers start: listeners that race with workers and
 * with the shutdown are explored by scn_work_shutdown.c, and both together are too many schedules.
 *
 * Expected in every schedule: no deadlock; every request is handled once or still with its
 * listener; no key and no nonce is applied twice; nothing stays reserved. */
#include "scenario/scn_chan.h"
#include "unit/wallet/desk.h"

enum { LISTENERS = 2, WORKERS = 2, CAPACITY = 2, PER_LISTENER = 1, ON_THREADS = 4000 };

enum { SAW_DRAINED, SAW_RUNNING, SAW_RIVALS };
#define MUST_SEE                                                                                   \
    {                                                                                              \
        "a request handled after the close", "all requests handled before the close",              \
            "two workers with one request or one nonce"                                            \
    }

struct shop {
    struct scn_queue q;
    bool same_key; /* else: the same nonces under keys of their own */
    struct ron_mutex mu;
    uint8_t *applied; /* per request or nonce; under mu, like last_nonce */
    uint64_t last_nonce;
    uint64_t commits;
    struct ron_au32 closed;
    struct ron_au32 after_close;
    struct ron_au32 rivals;
    struct ron_au64 handled;
    struct ron_thread *boss;
};

struct hand {
    struct shop *shop;
    struct scn_party party;
    uint64_t receipts;
};

/* ---- the ledger ------------------------------------------------------------------------------ */

/* A key that is known is only repeated, and told so: the wallet may have forgotten it. */
static bool apply(struct shop *s, const struct scn_msg *m, const struct wlt_operation *o,
                  bool *ret_repeated)
{
    uint32_t i = s->same_key ? m->seq : (uint32_t)o->nonce - 1;
    bool yes;

    ron_mutex_lock(&s->mu);
    yes = s->same_key || o->nonce == s->last_nonce + 1;
    *ret_repeated = s->same_key && s->applied[i] > 0;
    if (yes && !*ret_repeated) {
        s->applied[i]++;
        s->commits++;
        s->last_nonce += !s->same_key;
    }
    ron_mutex_unlock(&s->mu);
    return yes;
}

static uint64_t last_nonce(struct shop *s)
{
    uint64_t last;

    ron_mutex_lock(&s->mu);
    last = s->last_nonce;
    ron_mutex_unlock(&s->mu);
    return last;
}

static enum wlt_step ask(struct shop *s, const struct scn_msg *m, struct wlt_job *job)
{
    char text[512];
    struct wlt_reply reply = {.kind = WLT_REPLY_ANSWERED, .status = 200, .bytes = text};
    bool repeated = false;
    bool outcome =
        ron_buf_len(&job->payload) > 9 && memcmp(ron_buf_data(&job->payload), "/outcome/", 9) == 0;

    if (job->code == LC_CODE_INGEST && apply(s, m, &job->call->ops[0], &repeated)) {
        desk_done_bytes(m->seq + 1, m->seq + 1, DESK_WALL_MS, repeated, false, (uint8_t *)text);
        reply.len = LC_DONE_BYTES;
    } else if (job->code == LC_CODE_INGEST) {
        reply.len = (size_t)desk_refusal_text(text, sizeof text, "nonce_conflict", "no", 0);
        reply.status = 409;
    } else if (outcome) {
        reply.len =
            (size_t)snprintf(text, sizeof text, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    } else {
        reply.len = (size_t)snprintf(text, sizeof text,
                                     "{\"balances\":[{\"asset\":\"roc\",\"available\":\"9\","
                                     "\"held\":\"0\"}],\"account_nonce\":%llu,\"frozen\":false,"
                                     "\"last_seq\":1,\"seq\":1}",
                                     (unsigned long long)last_nonce(s));
    }
    return wlt_job_answered(&desk.core, job, &reply, desk.now_ns);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void parse(const struct shop *s, const struct scn_msg *m, struct order *o)
{
    char body[128];
    char key[32];

    (void)snprintf(key, sizeof key, "k%u-%u", s->same_key ? 0 : m->producer, m->seq);
    if (s->same_key) {
        (void)snprintf(body, sizeof body, "{\"from\":\"a\",\"amount_minor\":\"1\"}");
    } else {
        (void)snprintf(body, sizeof body, "{\"from\":\"a\",\"amount_minor\":\"1\",\"nonce\":%u}",
                       m->seq + 1);
    }
    order_init(o, WLT_BURN, body, key);
}

static void handle(struct hand *h, struct scn_msg *m)
{
    struct shop *s = h->shop;
    struct order o;
    enum wlt_reason reason;

    scn_receive(&h->party.order, m);
    if (ron_au32_load(&s->closed) != 0) {
        ron_au32_store(&s->after_close, 1);
    }
    parse(s, m, &o);
    for (o.step = order_begin(&o, 5000); o.step != WLT_STEP_ANSWER;) {
        o.step = ask(s, m, &o.job); /* never a wait: the ledger always answers */
    }
    reason = o.job.fault.reason;
    h->receipts += reason == WLT_REASON_NONE && !o.job.replayed;
    SCN_CHECK(reason == WLT_REASON_NONE ||
              reason == (s->same_key ? WLT_REASON_IN_PROGRESS : WLT_REASON_NONCE) ||
              (!s->same_key && reason == WLT_REASON_NONCE_PENDING));
    SCN_CHECK(reason != WLT_REASON_NONE || ron_buf_len(&o.out) > 0);
    if (reason == WLT_REASON_IN_PROGRESS || reason == WLT_REASON_NONCE_PENDING) {
        ron_au32_store(&s->rivals, 1);
    }
    order_done(&o);
    if (!scn_is_model() && ron_au64_add(&s->handled, 1) + 1 == ON_THREADS) {
        ron_unpark(s->boss);
    }
}

static void work_main(void *arg)
{
    struct hand *h = arg;
    void *item = NULL;

    while (ron_chan_recv(h->shop->q.chan, ron_deadline_never(), &item) == RON_OK) {
        handle(h, item);
    }
}

static void listen_main(void *arg)
{
    struct hand *h = arg;

    for (uint32_t i = 0; i < h->shop->q.per_producer; i++) {
        struct scn_msg *m = scn_message(&h->party, i);

        do {
            scn_move(m, SCN_SENDER, SCN_FLIGHT);
            h->party.last = ron_chan_try_send(h->shop->q.chan, m, NULL);
            if (h->party.last != RON_OK) {
                scn_move(m, SCN_FLIGHT, SCN_SENDER);
            }
        } while (h->party.last == RON_FULL && scn_try_again());
        if (h->party.last == RON_CLOSED) {
            return;
        }
    }
}

static void shutdown_main(void *arg)
{
    struct shop *s = arg;

    while (!scn_is_model() && ron_au64_load(&s->handled) < ON_THREADS) {
        RON_IGNORE(ron_park_until(ron_deadline_never(), "the quota")); /* Checked again above. */
    }
    RON_IGNORE(ron_chan_close(s->q.chan));
    ron_au32_store(&s->closed, 1);
}

/* ---- the scenario ---------------------------------------------------------------------------- */

static void check(struct shop *s, const struct hand *hands)
{
    struct wlt_nonce_ticket ticket;
    uint64_t expected = 0;
    uint64_t receipts = hands[0].receipts + hands[1].receipts;

    SCN_CHECK(receipts <= s->commits); /* each commit is one first answer, or a repeated one */
    for (uint32_t i = 0; i < s->q.per_producer; i++) {
        SCN_CHECK(s->applied[i] <= 1);
    }
    if (!s->same_key) { /* nothing is reserved */
        enum wlt_nonce_verdict v = wlt_nonce_reserve(desk.core.nonces, desk_account("a"),
                                                     s->last_nonce + 1, &ticket, &expected);

        SCN_CHECK(v == WLT_NONCE_RESERVED || v == WLT_NONCE_ASK);
    }
}

static void shop_run(bool same_key)
{
    struct shop s = {.same_key = same_key};
    struct hand workers[WORKERS] = {{.shop = &s}, {.shop = &s}};
    struct hand listeners[LISTENERS] = {{.shop = &s, .party = {.q = &s.q, .id = 0}},
                                        {.shop = &s, .party = {.q = &s.q, .id = 1}}};

    scn_calm(true);
    desk_open(1);
    ron_mutex_init(&s.mu, RON_RANK_SHARED, "ledger");
    scn_queue_init_exact(&s.q, CAPACITY, RON_CHAN_REJECT, LISTENERS,
                         scn_scale(PER_LISTENER, ON_THREADS));
    s.applied = ron_alloc_zero(s.q.per_producer + 1);
    for (int i = 0; i < LISTENERS && scn_is_model(); i++) {
        listen_main(&listeners[i]);
    }
    scn_calm(false);
    s.boss = scn_spawn("shutdown", shutdown_main, &s);
    for (int i = 0; i < WORKERS; i++) {
        scn_spawn("worker", work_main, &workers[i]);
    }
    for (int i = 0; i < LISTENERS && !scn_is_model(); i++) {
        scn_spawn("listener", listen_main, &listeners[i]);
    }
    scn_join_all();
    scn_calm(true);
    scn_saw_if(ron_au32_load(&s.after_close) != 0, SAW_DRAINED);
    scn_saw_if(ron_au32_load(&s.after_close) == 0, SAW_RUNNING);
    scn_saw_if(ron_au32_load(&s.rivals) != 0, SAW_RIVALS);
    check(&s, workers);
    ron_free(s.applied);
    scn_queue_done(&s.q);
    ron_mutex_done(&s.mu);
    desk_close();
    scn_calm(false);
}

static void wlt_work_same_key(void)
{
    shop_run(true);
}

static void wlt_work_same_nonce(void)
{
    shop_run(false);
}

const struct scn scn_list[] = {
    {.name = "wlt_work_same_key",
     .body = wlt_work_same_key,
     .must_see = MUST_SEE,
     .stress_rounds = 10,
     .stress_messages = 20000},
    {.name = "wlt_work_same_nonce",
     .body = wlt_work_same_nonce,
     .must_see = MUST_SEE,
     .stress_rounds = 10,
     .stress_messages = 20000},
    {0},
};
