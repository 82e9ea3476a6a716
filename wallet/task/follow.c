/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/follow.c - the cache invalidator: follows the ledger's bus, asks for its head now and
 * then, and knows how fresh the cache is and whether the ledger answers.
 *
 * Place: service. The client "ledger-bus" puts the accounts of each commit on the bus `ledger`; the
 * task "invalidator" takes them off and marks cached balances.
 *
 * How fresh: a head asked for at time t says that the ledger stood at seq h, at t or later. When
 * all changes up to h have been taken off the bus, everything in the cache that is not marked is
 * true as of t. After a gap (lag, lost connection) the changes up to the next head are not known:
 * everything older than that head is marked.
 *
 * Heads are asked for whatever the breaker says, and are its probes: while it is open writes are
 * refused at the door, so nobody else might ever find out that the ledger works again.
 *
 * Of several ledgers all are asked for their heads: the one that says that it leads is whom the
 * wallet asks from then on, and whose changes count (`from`). What others tell is not looked at:
 * a follower lags, and one that led before may not know yet that it does not. Which of two that
 * claim it is the newer one its epoch says; after REBORN_MS without a leader that is believed too
 * (a database that was put back has older epochs). Another leader is a gap.
 *
 * A head below an earlier one is of another journal: a ledger that keeps nothing was started anew,
 * or a backup was put back. What the wallet knows is of the old one and is forgotten. */
#include "wallet/task/follow.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/chan/bus.h"

#define FOLLOW_MAGIC 0x57464f4cu /* "WFOL" */
#define SOURCE_MAGIC 0x57535243u /* "WSRC" */

enum {
    BUS_CAPACITY = 1024, /* of the specification */
    KEYS_PER_MESSAGE = 30,
    TAKE = 32,
    BEAT_MIN_MS = 20,
    REBORN_MS = 10000,
};

struct message {
    uint64_t seq;
    uint32_t count;
    bool last;     /* of its commit */
    bool gap;      /* something before it is missing */
    uint8_t which; /* ledger that told it */
    struct wlt_key accounts[KEYS_PER_MESSAGE];
};

/* A ledger, and the question that it is asked. */
struct source {
    uint32_t magic;
    struct wlt_follow *f;
    uint32_t which;
    struct ron_oap_ask ask;
    struct ron_buf answer;
    bool asked;
    bool admitted;  /* the question under way has a ticket of the breaker */
    bool gap_asked; /* it was asked after the gap was known: the missing changes, all told before,
                       are then not above it */
    struct ron_breaker_ticket ticket;
    uint64_t asked_ms;           /* monotonic, of the question under way */
    enum ron_oap_reason refusal; /* of the subscription, as last logged; the client's task's */
};

struct wlt_follow {
    uint32_t magic;
    struct wlt_site *site;
    struct wlt_core *core;
    struct wlt_ledger *ledger;
    uint64_t stall_ms;
    struct source sources[LC_LEDGERS_MAX];
    uint32_t from;   /* whose changes and heads count */
    uint64_t epoch;  /* of its last head */
    bool leaderless; /* who answered last does not lead */
    struct ron_bus *bus;
    struct ron_bus_reader reader;
    bool subscribed;
    struct ron_task *task;
    struct ron_oap_inbox inbox;
    struct ron_buf target;
    uint64_t beat_ms;     /* between two questions to one ledger */
    uint64_t answered_ms; /* the last good answer, or commit told of after one */
    uint64_t seen_seq;    /* all changes up to it have been taken off the bus */
    bool gap;             /* changes are missing: trust the next head only, if gap_asked */
    uint64_t head_seq;    /* of the last answer, which was asked for at head_ms */
    uint64_t head_ms;
    struct ron_au32 up;
    const char *cause; /* why it is not */
};

/* ---- on the client's task -------------------------------------------------------------------- */

static void publish(struct wlt_follow *f, const struct message *m)
{
    RON_IGNORE(ron_bus_publish(f->bus, m)); /* closed at the very end only */
}

static void on_event(void *arg, uint16_t app, uint16_t code, const void *payload, size_t len)
{
    struct source *from = RON_OBJ(arg, struct source, SOURCE_MAGIC);
    struct wlt_follow *f = from->f;
    struct lc_changes changes;
    struct ron_str account;
    struct message m = {.which = (uint8_t)from->which};

    if (app != LC_CHANGES_APP || code != LC_EVENT_CHANGES) {
        return;
    }
    from->refusal = RON_OAP_NONE;
    if (lc_changes_read(payload, len, &changes) != RON_OK) {
        m.gap = true; /* cannot be read: we do not know what changed */
        publish(f, &m);
        return;
    }
    m.seq = changes.seq;
    while (lc_changes_next(&changes, &account)) {
        if (m.count == KEYS_PER_MESSAGE) {
            publish(f, &m);
            m.count = 0;
        }
        m.accounts[m.count++] =
            wlt_key_of(&f->core->secret, WLT_KEY_ACCOUNT, account, (struct ron_str){0});
    }
    m.last = changes.last;
    publish(f, &m);
}

static void on_gap(void *arg, uint16_t app, uint64_t missed)
{
    const struct source *from = RON_OBJ(arg, const struct source, SOURCE_MAGIC);

    (void)app;
    (void)missed;
    publish(from->f, &(struct message){.gap = true, .which = (uint8_t)from->which});
}

/* Tokens of reloads are kept, so this one outlives the call. */
static struct ron_str subscribe_cap(void *arg, uint16_t app)
{
    const struct source *from = RON_OBJ(arg, const struct source, SOURCE_MAGIC);

    (void)app;
    return ron_app_tokens_get(&from->f->ledger->token)->text;
}

/* Without changes nothing in the cache stays fresh: slower, and never wrong. The client asks again,
 * with the token of the moment. A ledger that is busy may have to ask its KMS first. */
static void on_refused(void *arg, uint16_t app, enum ron_oap_reason reason)
{
    struct source *from = RON_OBJ(arg, struct source, SOURCE_MAGIC);

    (void)app;
    if (reason != from->refusal && reason != RON_OAP_BUSY) {
        RON_LOG(from->f->site->log, WARN, "ledger change subscription failed",
                RON_LOG_STR("reason", ron_oap_reason_label(reason)),
                RON_LOG_STR("addr", from->f->ledger->all.of[from->which].addr));
    }
    from->refusal = reason;
}

/* ---- the task -------------------------------------------------------------------------------- */

static void lose(struct wlt_follow *f)
{
    f->gap = true;
    for (uint32_t i = 0; i < f->ledger->all.count; i++) {
        f->sources[i].gap_asked = false;
    }
}

static void take_message(struct wlt_follow *f, const struct message *m)
{
    uint64_t true_ms = ron_au64_load(&f->core->fresh_ms);

    if (m->which != f->from) {
        return;
    }
    if (m->gap) {
        lose(f);
        return;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        wlt_cache_expect(f->core->cache, m->accounts[i]);
    }
    for (uint32_t i = 0; i < m->count; i++) {
        wlt_cache_changed(f->core->cache, m->accounts[i], m->seq, true_ms);
    }
    if (m->last) {
        f->seen_seq = RON_MAX(f->seen_seq, m->seq);
    }
}

static void take_bus(struct wlt_follow *f)
{
    struct message messages[TAKE];
    uint64_t missed = 0;

    for (;;) {
        size_t count = 0;
        enum ron_rc rc = ron_bus_poll(&f->reader, messages, TAKE, &count, &missed);

        if (rc == RON_LAGGED) {
            lose(f);
            RON_LOG(f->site->log, WARN, "ledger bus lagged", RON_LOG_U64("missed", missed));
            continue;
        }
        if (rc != RON_OK) {
            return;
        }
        for (size_t i = 0; i < count; i++) {
            take_message(f, &messages[i]);
        }
    }
}

/* Everything that is not marked is true as of the last head, if we have seen all up to it. */
static void refresh(struct wlt_follow *f)
{
    if (!f->gap && f->head_ms != 0 && f->seen_seq >= f->head_seq) {
        ron_au64_store(&f->core->fresh_ms, f->head_ms);
    }
}

static void set_up(struct wlt_follow *f, bool up, const char *cause)
{
    struct ron_log *log = f->site->log;
    bool was_up = ron_au32_xchg(&f->up, up) != 0;

    if (was_up == up && f->cause == cause) {
        return;
    }
    f->cause = cause;
    if (up) {
        ron_need_set(f->ledger->need, RON_NEED_OK, "", 0);
        RON_LOG_TEXT(log, INFO, "ledger connected");
    } else {
        ron_need_set(f->ledger->need, RON_NEED_MISSING, cause, 1);
        RON_LOG(log, WARN, "ledger is not responding", RON_LOG_STR("cause", cause));
    }
}

static void forget_all(struct wlt_follow *f, uint64_t seq)
{
    struct wlt_core *core = f->core;

    ron_au64_store(&core->fresh_ms, 0);
    wlt_cache_clear(core->cache);
    wlt_nonce_forget_all(core->nonces);
    wlt_daily_forget_all(core->daily);
    wlt_idem_forget_all(core->idem);
    RON_LOG(f->site->log, ERROR, "ledger journal replaced; all caches dropped",
            RON_LOG_U64("from_seq", f->head_seq), RON_LOG_U64("to_seq", seq));
    f->seen_seq = 0;
    f->head_seq = seq;
    f->head_ms = 0;
    lose(f); /* what is on the bus may still be of the old one */
}

static void report(struct source *from, enum ron_call_result result)
{
    if (from->admitted) {
        from->admitted = false;
        ron_breaker_report(&from->f->ledger->all.of[from->which].breaker, from->ticket, result);
    }
}

static void follow_it(struct wlt_follow *f, uint32_t which)
{
    if (f->from != which) {
        RON_LOG(f->site->log, WARN, "ledger leader changed",
                RON_LOG_STR("addr", f->ledger->all.of[which].addr));
        f->from = which;
        lose(f);
    }
}

/* Whether what this ledger says about itself makes it the one to ask. */
static bool believed(const struct wlt_follow *f, const struct lc_head *head, uint64_t now_ms)
{
    return head->leads && (f->ledger->all.count == 1 || head->epoch >= f->epoch ||
                           f->answered_ms == 0 || now_ms > f->answered_ms + REBORN_MS);
}

/* Takes over what a head says; false: it was no answer. */
static bool take_head(struct wlt_follow *f, struct source *from, uint64_t now_ms)
{
    struct lc_head head;

    if (from->ask.outcome != RON_OAP_ANSWERED || from->ask.rc != RON_OK ||
        from->ask.status != 200 ||
        lc_head_read((char *)(uintptr_t)ron_buf_data(&from->answer), ron_buf_len(&from->answer),
                     &head) != RON_OK) {
        return false;
    }
    f->leaderless = !believed(f, &head, now_ms);
    if (f->leaderless) {
        return true;
    }
    f->epoch = head.epoch;
    RON_IGNORE(lc_ledgers_leads(&f->ledger->all, from->which));
    follow_it(f, from->which);
    if (head.seq < f->head_seq) {
        forget_all(f, head.seq);
    }
    if (f->gap && from->gap_asked) {
        /* Asked on the connection that now tells changes: what is above h will come. */
        wlt_cache_flush(f->core->cache, head.seq, ron_au64_load(&f->core->fresh_ms));
        f->seen_seq = RON_MAX(f->seen_seq, head.seq);
        f->gap = false;
    }
    f->head_seq = head.seq;
    f->head_ms = from->asked_ms;
    f->answered_ms = now_ms;
    return true;
}

static void ask_head(struct wlt_follow *f, struct source *from, uint64_t now_ms)
{
    const struct ron_app_token *token = ron_app_tokens_get(&f->ledger->token);

    ron_buf_clear(&from->answer);
    from->ask = (struct ron_oap_ask){
        .app = LC_APP,
        .code = LC_CODE_READ,
        .cap = token->text.ptr,
        .cap_len = (uint16_t)token->text.len,
        .payload = ron_buf_data(&f->target),
        .payload_len = ron_buf_len(&f->target),
        .deadline = ron_deadline_after_ms(ron_env_now_ns(f->site->env), f->core->rpc_ms),
        .inbox = &f->inbox,
        .answer_to = &from->answer,
        .user = from};
    from->asked_ms = now_ms;
    from->gap_asked = f->gap && from->which == f->from;
    from->admitted =
        ron_breaker_admit(&f->ledger->all.of[from->which].breaker, &from->ticket, NULL) == RON_OK;
    from->asked = ron_oap_ask_send(f->ledger->bus[from->which], &from->ask) == RON_OK;
    if (!from->asked) {
        report(from, RON_CALL_VOID);
    }
}

static void look_at_ledger(struct wlt_follow *f, uint64_t now_ms)
{
    struct ron_breaker_stats breaker;

    ron_breaker_get_stats(&f->ledger->all.of[f->from].breaker, &breaker);
    if (f->answered_ms == 0 || now_ms > f->answered_ms + f->stall_ms) {
        set_up(f, false,
               f->leaderless         ? "no ledger is leader"
               : f->answered_ms == 0 ? "no answer from the ledger yet"
                                     : "ledger is not responding");
    } else if (breaker.state == RON_BREAKER_IS_OPEN) {
        set_up(f, false, "calls to the ledger fail; circuit breaker is open");
    } else {
        set_up(f, true, "");
    }
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct wlt_follow *f = RON_OBJ(arg, struct wlt_follow, FOLLOW_MAGIC);
    uint64_t now_ms = ron_env_now_ns(f->site->env) / RON_NS_PER_MS;
    /* Before the bus: what was told before the answer is then known before it is looked at. */
    struct ron_oap_ask *answered = ron_oap_inbox_take(&f->inbox, LC_LEDGERS_MAX);
    uint64_t seen_seq = f->seen_seq;

    (void)items;
    (void)count;
    take_bus(f);
    if (f->seen_seq != seen_seq && f->answered_ms != 0) {
        f->answered_ms = now_ms; /* who commits is not silent, however late its next head is */
    }
    for (; answered != NULL; answered = answered->next) {
        struct source *from = RON_OBJ(answered->user, struct source, SOURCE_MAGIC);
        bool good = take_head(f, from, now_ms);
        bool busy = answered->refusal == RON_OAP_BUSY || answered->refusal == RON_OAP_FLOW;

        from->asked = false;
        report(from, good ? RON_CALL_SUCCESS : busy ? RON_CALL_VOID : RON_CALL_FAILURE);
    }
    follow_it(f, lc_ledgers_now(&f->ledger->all)); /* a refusal may have told it first */
    refresh(f);
    look_at_ledger(f, now_ms);
    for (uint32_t i = 0; i < f->ledger->all.count && !ron_task_stopping(t); i++) {
        if (!f->sources[i].asked && now_ms >= f->sources[i].asked_ms + f->beat_ms) {
            ask_head(f, &f->sources[i], now_ms);
        }
    }
    ron_task_wake_at(t, ron_task_now_ms(t) + f->beat_ms);
    return RON_OK;
}

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct wlt_follow *f = RON_OBJ(arg, struct wlt_follow, FOLLOW_MAGIC);
    struct ron_err err = {0};

    f->task = t;
    f->inbox.task = t;
    lose(f); /* nothing is known yet, or a failed task may have missed something */
    if (!f->subscribed) {
        RON_TRY(ron_bus_subscribe(f->bus, &f->reader, ron_task_waker(t), &err));
        f->subscribed = true;
    }
    ron_task_wake(t);
    return RON_OK;
}

static bool may_stop(struct ron_task *t, void *arg)
{
    const struct wlt_follow *f = RON_OBJ(arg, const struct wlt_follow, FOLLOW_MAGIC);

    (void)t;
    for (uint32_t i = 0; i < f->ledger->all.count; i++) {
        if (f->sources[i].asked) {
            return false;
        }
    }
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

uint64_t wlt_follow_fresh_ms(const struct wlt_follow *f)
{
    return ron_au64_load(&f->core->fresh_ms);
}

bool wlt_follow_up(const struct wlt_follow *f)
{
    return ron_au32_load(&f->up) != 0;
}

static enum ron_rc add_client(struct wlt_follow *f, struct source *from, struct ron_err *err)
{
    static const uint16_t apps[] = {LC_CHANGES_APP};
    uint32_t which = from->which;
    char name[24] = "ledger-bus";

    if (which > 0) {
        (void)snprintf(name, sizeof name, "ledger-bus.%u", which);
    }
    RON_TRY(
        ron_oap_client_new(&(struct ron_oap_client_opts){.name = name,
                                                         .env = f->site->env,
                                                         .registry = ron_app_registry(f->site->app),
                                                         .addr = f->ledger->all.of[which].addr,
                                                         .worker = which % f->site->cpus,
                                                         .stage = 3,
                                                         .ua = "ron-wallet",
                                                         .inflight_max = 1024,
                                                         .queue_max = 4096,
                                                         .fail_fast = f->ledger->all.count > 1,
                                                         .call_timeout_ms = f->core->rpc_ms,
                                                         .subscribe = apps,
                                                         .subscribe_count = RON_ARRAY_LEN(apps),
                                                         .on_event = on_event,
                                                         .on_gap = on_gap,
                                                         .subscribe_cap = subscribe_cap,
                                                         .on_refused = on_refused,
                                                         .arg = from},
                           &f->ledger->bus[which], err));
    return ron_oap_client_attach(f->ledger->bus[which], ron_app_sup(f->site->app), err);
}

enum ron_rc wlt_follow_add(struct wlt_site *s, struct wlt_core *core, struct wlt_ledger *ledger,
                           struct wlt_follow **ret, struct ron_err *err)
{
    uint64_t staleness_ms = (uint64_t)ron_conf_ms(s->conf, WLT_STALENESS);
    struct wlt_follow *f = ron_alloc_zero(sizeof *f);

    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the invalidator");
    }
    *ret = f;
    f->magic = FOLLOW_MAGIC;
    f->site = s;
    f->core = core;
    f->ledger = ledger;
    f->stall_ms = (uint64_t)ron_conf_ms(s->conf, WLT_LEDGER_STALL);
    f->beat_ms = RON_MAX(staleness_ms * 2 / 5, (uint64_t)BEAT_MIN_MS);
    f->beat_ms = RON_MIN(f->beat_ms, RON_MAX(f->stall_ms / 3, (uint64_t)BEAT_MIN_MS));
    ron_buf_init(&f->target, LC_TARGET_MAX);
    lc_target_head(&f->target);
    RON_TRY(ron_bus_new(
        &(struct ron_bus_opts){.registry = ron_app_registry(f->site->app),
                               .name =
                                   "ledger", /* label of bus_lagged_total in the specification */
                               .producers = "ledger-bus",
                               .consumers = "invalidator",
                               .capacity = BUS_CAPACITY,
                               .message_bytes = sizeof(struct message),
                               .readers_max = 2},
        &f->bus, err));
    for (uint32_t i = 0; i < f->ledger->all.count; i++) {
        struct source *from = &f->sources[i];

        from->magic = SOURCE_MAGIC;
        from->f = f;
        from->which = i;
        ron_buf_init(&from->answer, 4096);
        RON_TRY(add_client(f, from, err));
    }
    return ron_sup_add(ron_app_sup(f->site->app),
                       &(struct ron_task_def){.name = "invalidator",
                                              .kind = "invalidator",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 2,
                                              .start = start,
                                              .handle = handle,
                                              .may_stop = may_stop,
                                              .arg = f},
                       NULL, err);
}

void wlt_follow_free(struct wlt_follow *f)
{
    if (f == NULL) {
        return;
    }
    RON_CHECK_MAGIC(f, FOLLOW_MAGIC);
    for (uint32_t i = 0; i < f->ledger->all.count; i++) {
        ron_oap_client_free(f->ledger->bus[i]); /* NULL: was not made */
        f->ledger->bus[i] = NULL;
    }
    if (f->subscribed) {
        ron_bus_unsubscribe(&f->reader);
    }
    if (f->bus != NULL) {
        ron_bus_free(f->bus);
    }
    ron_buf_done(&f->target);
    for (uint32_t i = 0; i < f->ledger->all.count; i++) {
        ron_buf_done(&f->sources[i].answer);
    }
    f->magic = 0;
    ron_free(f);
}
