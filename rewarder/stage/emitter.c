/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/emitter.c - the intent emitter: settles sealed runs at the ledger, batch by batch.
 *
 * Place: service; one blocking task on `intents`. A message only says that there may be something
 * to do: what there is stands in the book, so nothing is lost with a message, and a start after a
 * crash goes on where the book says.
 *
 *     book: SEALED (auto_emit), EMITTING, WITHHELD (when its time has come)
 *       --> plan --> rwd_emit: up to io_inflight batches under way --> done, in groups
 *       --> EMITTED | WITHHELD | QUARANTINED
 *
 * How the ledger or the wallet is called is in emitter_call.c. */
#include <string.h>

#include "rewarder/stage/emitter_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

enum {
    ANSWER_MAX = 1 << 16,
    LOOK_MS = 200, /* how often a settlement looks whether it should stop */
    PAGE = 8,      /* epochs listed at once */
};

/* ---- steps ----------------------------------------------------------------------------------- */

/* What is done goes into the book together. */
static enum ron_rc note_done(struct rwd_emitter *m, struct settling *x,
                             struct rwd_emit_batch *const *slots, size_t count, struct ron_err *err)
{
    struct rwd_batch rows[RWD_EMIT_INFLIGHT_MAX];
    enum ron_rc rc;

    for (size_t i = 0; i < count; i++) {
        rows[i] = slots[i]->row;
    }
    rc = rwd_book_done(m->store->book, x->name, rows, count, ron_env_wall_ms(m->core->env),
                       &x->finished, err);
    for (size_t i = 0; i < count; i++) {
        if (rc == RON_OK) {
            rwd_emit_noted(&m->emit, slots[i]);
        } else {
            rwd__emitter_word(m, slots[i], RWD_WORD_LATER, &(struct lc_done){0}, err->msg);
        }
    }
    return rc;
}

static enum ron_rc take_steps(struct rwd_emitter *m, struct settling *x, struct ron_err *err)
{
    struct rwd_emit_batch *done[RWD_EMIT_INFLIGHT_MAX];
    struct rwd_emit_batch *slot;
    size_t done_count = 0;

    while ((slot = rwd_emit_next(&m->emit, ron_env_wall_ms(m->core->env))) != NULL) {
        if (slot->step == RWD_EMIT_STAMP) {
            uint64_t ts_ms = ron_env_wall_ms(m->core->env);
            uint32_t attempt = 0;

            RON_TRY(rwd_book_stamp(m->store->book, x->name, slot->row.no, ts_ms, &attempt, err));
            rwd_emit_stamped(&m->emit, slot, ts_ms, attempt);
        } else if (slot->step == RWD_EMIT_DONE) {
            done[done_count++] = slot;
        } else {
            rwd__emitter_send(m, x, slot);
        }
    }
    return done_count > 0 ? note_done(m, x, done, done_count, err) : RON_OK;
}

/* Takes planned batches from the book while there is room and no reason to stop. */
static enum ron_rc take_rows(struct rwd_emitter *m, struct settling *x, struct ron_err *err)
{
    struct rwd_batch rows[32];
    size_t free_slots = m->inflight_max - m->emit.slot_count;
    size_t count = 0;

    if (x->all_taken || free_slots == 0 || m->emit.withheld || m->emit.refused ||
        (x->alone && !rwd_emit_idle(&m->emit))) {
        return RON_OK;
    }
    x->alone = x->next == 0 && rwd__emitter_claims(m);
    free_slots = x->alone ? 1 : RON_MIN(free_slots, RON_ARRAY_LEN(rows));
    RON_TRY(rwd_book_batches(m->store->book, x->name, x->next, rows, free_slots, &count, err));
    for (size_t i = 0; i < count; i++) {
        bool taken = rwd_emit_add(&m->emit, &rows[i]);

        RON_ASSERT(taken);
        x->next = rows[i].no + 1;
    }
    x->all_taken = count < free_slots;
    return RON_OK;
}

static void wait_for_answers(struct rwd_emitter *m, struct settling *x)
{
    void *items[32];
    size_t count = 0;
    struct ron_deadline until = ron_deadline_after_ms(ron_env_now_ns(m->core->env), LOOK_MS);

    if (ron_chan_recv_many(m->answers, items, RON_ARRAY_LEN(items), until, &count) == RON_OK) {
        for (size_t i = 0; i < count; i++) {
            rwd__emitter_hear(m, x, items[i]);
        }
    }
}

static bool should_stop(struct rwd_emitter *m)
{
    return ron_watch_value(ron_sup_shutdown(ron_app_sup(m->core->app))) >= RON_SUP_DRAINING;
}

/* The wallet stamps for itself, so a key of it never grows too old. */
static uint64_t horizon_ms(const struct rwd_emitter *m)
{
    return m->settle->wallet != NULL ? INT64_MAX
                                     : (uint64_t)ron_conf_ms(m->core->conf, RWD_HORIZON);
}

/* Until everything is settled, or it is withheld or refused, or we are told to stop. */
static enum ron_rc settle(struct rwd_emitter *m, struct settling *x, struct ron_err *err)
{
    enum ron_rc rc = RON_OK;

    rwd_emit_init(&m->emit, m->inflight_max, horizon_ms(m));
    while (rc == RON_OK && !x->finished) {
        if (!should_stop(m)) {
            rc = take_rows(m, x, err);
        } else if (m->out == 0) {
            break; /* EMITTING in the book: the next life goes on */
        }
        if (rc == RON_OK) {
            rc = take_steps(m, x, err);
        }
        if (rc == RON_OK && m->out == 0 &&
            ((rwd_emit_idle(&m->emit) && x->all_taken) || m->emit.withheld || m->emit.refused)) {
            break;
        }
        /* After the batch that was sent alone the others can go at once. */
        if (rc == RON_OK && !x->finished && !(x->alone && rwd_emit_idle(&m->emit))) {
            wait_for_answers(m, x);
        }
    }
    while (m->out > 0) { /* after a failure of the book: nobody may write to the slots later */
        wait_for_answers(m, x);
    }
    return rc;
}

/* ---- one epoch ------------------------------------------------------------------------------- */

static void tell(struct rwd_emitter *m, const struct settling *x, enum rwd_event_kind kind,
                 const char *reason)
{
    struct rwd_settlement sum = {0};
    struct ron_err err = {0};

    RON_IGNORE(rwd_book_settlement(m->store->book, x->name, &sum, &err));
    rwd_tell(m->core, kind, x->epoch.request.epoch, &x->epoch.request.run_key, false,
             sum.intents_done, sum.intents, reason);
}

static enum ron_rc open_run(struct rwd_emitter *m, struct settling *x, struct ron_err *err)
{
    struct ron_str id = {x->epoch.request.policy_id, strlen(x->epoch.request.policy_id)};
    char folder[RON_FILE_PATH_SIZE];

    RON_TRY(rwd_run_path(m->store->artifact_dir, x->name, false, folder, err));
    RON_TRY(rwd_run_load(m->store->disk_env, folder, &x->manifest_text, &x->manifest, err));
    if (!ron_b3_equal(&x->manifest.commitment, &x->epoch.commitment)) {
        return ron_err_set(err, RON_CORRUPT, "run.json is not the run that was sealed");
    }
    RON_TRY(rwd_policy_known(m->store, id, &x->epoch.request.policy_hash, &x->policy, err));
    return rwd_payouts_open(m->store->disk_env, folder, &x->payouts, err);
}

static void close_run(struct settling *x)
{
    rwd_payouts_close(x->payouts);
    rwd_policy_free(x->policy);
    ron_buf_done(&x->manifest_text);
}

static void withhold(struct rwd_emitter *m, struct settling *x, const char *reason)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(m->core->app));
    struct ron_err err = {0};

    m->withheld++;
    m->retry_ms = ron_env_now_ns(m->core->env) / RON_NS_PER_MS +
                  (uint64_t)ron_conf_ms(conf, RWD_RETRY_WITHHELD);
    ron_conf_unref(conf);
    if (rwd_book_move(m->store->book, x->name, RWD_EMITTING, RWD_WITHHELD, reason,
                      ron_env_wall_ms(m->core->env), &err) != RON_OK) {
        RON_LOG(m->core->log, ERROR, "a settlement could not be withheld", RON_LOG_ERR(&err));
    }
    RON_LOG(m->core->log, WARN, "a settlement is withheld and will be tried again",
            RON_LOG_STR("epoch", x->epoch.request.epoch), RON_LOG_STR("why", reason));
    tell(m, x, RWD_EVENT_WITHHELD, reason);
}

static void quarantine(struct rwd_emitter *m, struct settling *x, const char *reason)
{
    struct ron_err err = {0};

    if (rwd_book_quarantine(m->store->book, x->name, RWD_BREACH_LEDGER_REFUSED, reason,
                            ron_env_wall_ms(m->core->env), &err) != RON_OK) {
        RON_LOG(m->core->log, ERROR, "a quarantine could not be written down", RON_LOG_ERR(&err));
    }
    rwd_count(m->core, RWD_M_QUARANTINE, 1);
    rwd_count_of(m->core, RWD_M_INVARIANT, rwd_breach_label(RWD_BREACH_LEDGER_REFUSED), 1);
    RON_LOG(m->core->log, ERROR, "an epoch is quarantined: the ledger refuses its intents",
            RON_LOG_STR("epoch", x->epoch.request.epoch), RON_LOG_STR("why", reason));
    tell(m, x, RWD_EVENT_QUARANTINED, reason);
}

static void process(struct rwd_emitter *m, const struct rwd_epoch *epoch)
{
    struct settling x = {.epoch = *epoch};
    struct ron_err err = {0};
    struct ron_span span; /* a trace of its own: whoever asked for the run has long been answered */
    enum ron_rc rc;

    x.name = (struct ron_str){x.epoch.request.epoch, strlen(x.epoch.request.epoch)};
    ron_span_start(ron_app_tracer(m->core->app), &span, "intent_emitter", RON_SPAN_INTERNAL, NULL);
    ron_span_text(&span, "epoch", x.name);
    ron_span_text(&span, "queue", (struct ron_str){"intents", 7});
    m->trace = span.ctx;
    ron_buf_init(&x.manifest_text, RWD_MANIFEST_MAX + 1);
    rc = open_run(m, &x, &err);
    if (rc == RON_OK && epoch->state != RWD_EMITTING) {
        rc = rwd_book_emit(m->store->book, x.name, rwd_batch_max(m->settle),
                           ron_env_wall_ms(m->core->env), &x.finished, &err);
    }
    if (rc == RON_OK) {
        tell(m, &x, RWD_EVENT_EMITTING, "");
        rc = settle(m, &x, &err);
    }
    if (rc == RON_CORRUPT || rc == RON_INVALID) {
        quarantine(m, &x, err.msg);
    } else if (rc != RON_OK) {
        RON_LOG(m->core->log, ERROR, "a settlement is held up",
                RON_LOG_STR("epoch", epoch->request.epoch), RON_LOG_ERR(&err));
        withhold(m, &x, err.msg);
    } else if (x.finished) {
        RON_LOG(m->core->log, INFO, "an epoch is settled",
                RON_LOG_STR("epoch", epoch->request.epoch));
        tell(m, &x, RWD_EVENT_EMITTED, "");
    } else if (m->emit.refused) {
        quarantine(m, &x, m->emit.reason);
    } else if (m->emit.withheld) {
        withhold(m, &x, m->emit.reason);
    }
    if (rc != RON_OK || m->emit.refused || m->emit.withheld) {
        ron_span_fail(&span, rc != RON_OK ? err.msg : m->emit.reason);
    }
    ron_span_end(&span);
    close_run(&x);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* All epochs of a state, in pages by name. */
static void process_all(struct rwd_emitter *m, enum rwd_state state)
{
    struct rwd_epoch *found = ron_alloc(PAGE * sizeof *found);
    char after[RWD_EPOCH_MAX + 1] = "";
    struct ron_err err = {0};
    size_t count = PAGE;

    while (found != NULL && count == PAGE && !should_stop(m)) {
        if (rwd_book_list(m->store->book, (struct ron_str){after, strlen(after)}, state, found,
                          PAGE, &count, &err) != RON_OK) {
            RON_LOG(m->core->log, ERROR, "the book cannot be read", RON_LOG_ERR(&err));
            break;
        }
        for (size_t i = 0; i < count && !should_stop(m); i++) {
            memcpy(after, found[i].request.epoch, sizeof after);
            process(m, &found[i]);
        }
    }
    ron_free(found);
}

/* Whether anything may be settled now, and whether without being asked to. */
static bool may_settle(struct rwd_emitter *m, bool *ret_automatic)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(m->core->app));
    bool may = !ron_conf_bool(conf, RWD_QUARANTINE_ONLY);

    *ret_automatic = may && ron_conf_bool(conf, RWD_AUTO_EMIT);
    ron_conf_unref(conf);
    return may;
}

/* A run of which a message says that it was sealed; of one that is only announced the book does not
 * say so yet. */
static void process_named(struct rwd_emitter *m, const char *epoch)
{
    struct ron_err err = {0};
    struct rwd_epoch e;
    bool automatic = false;
    enum ron_rc rc;

    if (!may_settle(m, &automatic) || !automatic || should_stop(m)) {
        return;
    }
    rc = rwd_book_get(m->store->book, (struct ron_str){epoch, strlen(epoch)}, &e, &err);
    if (rc == RON_OK && e.state == RWD_SEALED) {
        process(m, &e);
    } else if (rc != RON_OK && rc != RON_NOTFOUND) {
        ron_au32_store(&m->pipes->overlooked, 1);
    }
}

/* What the book says is to be done. Sealed runs are settled as messages tell of them, so in the
 * order of the seals; all that are in the book, by name, when something may have been missed. */
static void look(struct rwd_emitter *m, bool sealed_too)
{
    bool automatic = false;

    if (may_settle(m, &automatic)) {
        process_all(m, RWD_EMITTING);
        if (automatic && sealed_too) {
            process_all(m, RWD_SEALED);
        }
        if (ron_env_now_ns(m->core->env) / RON_NS_PER_MS >= m->retry_ms) {
            m->withheld = 0;
            process_all(m, RWD_WITHHELD);
        }
    }
    rwd_look_at_quarantine(m->store);
    ron_au32_store(&m->pipes->withheld, m->withheld);
    rwd_set(m->core, RWD_M_WITHHELD, ron_money_of(m->withheld));
}

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct rwd_emitter *m = arg;

    (void)t;
    look(m, true); /* what an earlier life left */
    return RON_OK;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct rwd_emitter *m = arg;
    bool all = false;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct rwd_intent *intent = items[i];

        if (intent->epoch[0] != '\0') {
            process_named(m, intent->epoch);
        } else {
            all = true;
        }
        ron_free(intent);
    }
    all = ron_au32_xchg(&m->pipes->overlooked, 0) != 0 || all;
    look(m, all);
    return RON_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void drop_answer(void *item, void *arg)
{
    (void)item;
    (void)arg;
}

enum ron_rc rwd_emitter_add(struct rwd_pipes *p, struct rwd_settle *settle,
                            struct rwd_emitter **ret, struct ron_err *err)
{
    struct rwd_emitter *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the emitter");
    }
    *ret = m;
    m->core = p->core;
    m->store = p->store;
    m->pipes = p;
    m->settle = settle;
    m->inflight_max = (uint32_t)ron_conf_int(m->core->conf, RWD_IO_INFLIGHT);
    for (uint32_t i = 0; i < RWD_EMIT_INFLIGHT_MAX; i++) {
        m->calls[i].m = m;
        ron_buf_init(&m->calls[i].payload, RWD_EMIT_BYTES_MAX);
        ron_buf_init(&m->calls[i].answer, ANSWER_MAX);
    }
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = ron_app_registry(m->core->app),
                                                 .env = m->core->env,
                                                 .name = "answers",
                                                 .producers = "ledger",
                                                 .consumers = "emitter",
                                                 .drop_text = "room for all that are under way",
                                                 .capacity = RWD_EMIT_INFLIGHT_MAX,
                                                 .policy = RON_CHAN_REJECT,
                                                 .wake_batch = 1,
                                                 .drop = drop_answer},
                         &m->answers, err));
    RON_TRY(rwd_settle_connect(m->settle, m->inflight_max, err));
    return ron_sup_add(ron_app_sup(m->core->app),
                       &(struct ron_task_def){.name = "intent_emitter",
                                              .kind = "emitter",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 4,
                                              .input = m->pipes->intents,
                                              .batch_max = 64,
                                              .start = start,
                                              .handle = handle,
                                              .arg = m},
                       NULL, err);
}

void rwd_emitter_free(struct rwd_emitter *m)
{
    if (m == NULL) {
        return;
    }
    if (m->answers != NULL) {
        ron_chan_free(m->answers);
    }
    for (uint32_t i = 0; i < RWD_EMIT_INFLIGHT_MAX; i++) {
        ron_buf_done(&m->calls[i].payload);
        ron_buf_done(&m->calls[i].answer);
    }
    ron_free(m);
}
