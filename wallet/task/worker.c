/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/worker.c - the committer workers: they take many writes at a time from `work`, drive
 * each through wlt_job, and pipeline what it sends to the ledger.
 *
 * Place: service; loop tasks. A worker's writes live in its list until the client has its answer
 * and the ledger owes none; that list outlives a restart of the task, so a worker that fails loses
 * nothing; one that keeps failing ends the service, as nobody else can take up its list. In a
 * drain a worker ends when its list is empty; at the deadline it answers for what is left, and the
 * outcome of those writes is open (the client asks, or sends the same again). */
#include "wallet/task/worker.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/core/metrics.h"

#define WORKER_MAGIC 0x57574f52u /* "WWOR" */

struct wlt_worker {
    uint32_t magic;
    struct wlt_workers *of;
    uint32_t connection; /* of those to each ledger */
    struct ron_oap_inbox inbox;
    struct ron_list writes;
    struct ron_rand rand;
    uint32_t waiting; /* writes that wait for a time */
};

/* Each is some three microseconds, and a worker shares its thread with the listener: a request that
 * only has to be refused waits for a turn to end. */
enum { WRITES_PER_TURN = 32, ANSWERS_PER_TURN = 32 };

/* ---- the end of a write ---------------------------------------------------------------------- */

/* Nobody may ask any more for what it is about; back to the pool. */
static void forget(struct wlt_worker *k, struct wlt_write *w)
{
    RON_ASSERT_MSG(w->answered, "P1: a write is answered before it goes back to the pool");
    if (w->waiting) {
        RON_ASSERT(k->waiting > 0);
        w->waiting = false;
        k->waiting--;
    }
    ron_list_remove(&w->link);
    (void)ron_au32_add(&k->of->pipes->inflight, UINT32_MAX); /* minus one */
    wlt_write_put(k->of->pipes, w);
}

static void tell(const struct wlt_workers *o, const struct wlt_write *w)
{
    const struct wlt_operation *first = &w->call.ops[0];
    struct wlt_key hash = wlt_key_of(&o->core->secret, WLT_KEY_ACCOUNT,
                                     wlt_operation_subject(first), (struct ron_str){0});
    struct wlt_event e = {.ts_ms = ron_env_wall_ms(o->site->env),
                          .op = (uint8_t)w->op,
                          .reason = (uint8_t)w->job.fault.reason,
                          .replayed = w->job.replayed,
                          .count = w->call.count};

    if (w->job.fault.reason == WLT_REASON_NONE) {
        e.seq = w->job.done.seq_last;
        memcpy(e.txid, first->txid, sizeof e.txid);
    }
    memcpy(e.account_hash, &hash.a, sizeof e.account_hash);
    wlt_events_tell(o->site, &e);
}

/* The client's answer. */
static void answer(const struct wlt_workers *o, struct wlt_write *w)
{
    struct wlt_site *s = o->site;
    enum wlt_reason reason = w->job.fault.reason;
    struct ron_trace_from from;

    RON_ASSERT(!w->answered);
    w->answered = true;
    ron_http_reply_from(w->reply, &from);
    ron_trace_stage(ron_app_tracer(s->app), &from,
                    &(struct ron_trace_stage){.name = "worker",
                                              .queue = "work",
                                              .from_ns = w->received_ns,
                                              .why = reason != WLT_REASON_NONE &&
                                                             wlt_reason_status(reason) >= 500
                                                         ? wlt_reason_label(reason)
                                                         : NULL});
    wlt_metrics_write(s, w);
    if (!w->call.dry_run && wlt_events_watched(s)) {
        tell(o, w);
    }
    if (w->job.fault.reason != WLT_REASON_NONE) {
        wlt_reply_fail(s, w->reply, &w->job.fault);
        return;
    }
    if (w->job.replayed) {
        RON_IGNORE(ron_http_reply_add_header(w->reply, "Idempotent-Replayed",
                                             (struct ron_str){"true", 4}));
    }
    ron_http_reply_send(w->reply, 200, "application/json");
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum ron_rc send_it(struct wlt_worker *k, struct wlt_write *w)
{
    const struct ron_app_token *token = ron_app_tokens_get(&k->of->ledger->token);

    ron_buf_clear(&w->answer);
    w->ask = (struct ron_oap_ask){.app = LC_APP,
                                  .code = w->job.code,
                                  .cap = token->text.ptr,
                                  .cap_len = (uint16_t)token->text.len,
                                  .payload = ron_buf_data(&w->job.payload),
                                  .payload_len = ron_buf_len(&w->job.payload),
                                  .trace = *ron_http_reply_trace(w->reply),
                                  .deadline = {.at_ns = w->job.until_ns},
                                  .inbox = &k->inbox,
                                  .answer_to = &w->answer,
                                  .user = w};
    return ron_oap_ask_send(k->of->clients[w->job.which][k->connection], &w->ask);
}

/* Does what the steps say until the write waits for something, or is over. */
static void drive(struct wlt_worker *k, struct wlt_write *w, enum wlt_step step)
{
    struct wlt_workers *o = k->of;

    for (;;) {
        switch (step) {
        case WLT_STEP_SEND:
            if (send_it(k, w) == RON_OK) {
                w->asked = true;
                return;
            }
            step = wlt_job_answered(o->core, &w->job,
                                    &(struct wlt_reply){.kind = WLT_REPLY_NOT_SENT, .busy = true},
                                    ron_env_now_ns(o->site->env));
            break;
        case WLT_STEP_WAIT:
            RON_ASSERT(!w->waiting);
            w->waiting = true;
            k->waiting++;
            return;
        case WLT_STEP_ANSWER:
            answer(o, w);
            forget(k, w);
            return;
        }
    }
}

static struct wlt_reply reply_of(struct wlt_write *w)
{
    struct wlt_reply r = {.kind = WLT_REPLY_UNKNOWN};

    switch (w->ask.outcome) {
    case RON_OAP_ANSWERED:
        if (w->ask.rc == RON_OK) {
            r = (struct wlt_reply){.kind = WLT_REPLY_ANSWERED,
                                   .status = w->ask.status,
                                   .bytes = (char *)(uintptr_t)ron_buf_data(&w->answer),
                                   .len = ron_buf_len(&w->answer)};
        }
        break;
    case RON_OAP_REFUSED:
    case RON_OAP_NOT_SENT:
        r.kind = WLT_REPLY_NOT_SENT;
        r.busy = w->ask.refusal == RON_OAP_BUSY || w->ask.refusal == RON_OAP_FLOW;
        break;
    case RON_OAP_UNKNOWN:
    case RON_OAP_OUTCOME_COUNT:
        break;
    }
    return r;
}

static void take_answers(struct wlt_worker *k)
{
    struct wlt_workers *o = k->of;
    struct ron_oap_ask *ask = ron_oap_inbox_take(&k->inbox, ANSWERS_PER_TURN);

    while (ask != NULL) {
        struct ron_oap_ask *next = ask->next;
        struct wlt_write *w = RON_OBJ(ask->user, struct wlt_write, WLT_WRITE_MAGIC);
        struct wlt_reply reply = reply_of(w);
        uint64_t now_ns = ron_env_now_ns(o->site->env);

        RON_ASSERT_MSG(w->asked, "an answer that nobody asked for");
        w->asked = false;
        wlt_metrics_call(o->site, w->job.code == LC_CODE_INGEST, &reply);
        if (w->answered) { /* by an abort, without waiting for the ledger */
            forget(k, w);
        } else {
            drive(k, w, wlt_job_answered(o->core, &w->job, &reply, now_ns));
        }
        ask = next;
    }
}

/* Those whose time has come. The earliest of the others, in ns. */
static uint64_t take_waits(struct wlt_worker *k)
{
    struct wlt_workers *o = k->of;
    uint64_t now_ns = ron_env_now_ns(o->site->env);
    uint64_t next_ns = UINT64_MAX;

    if (k->waiting == 0) {
        return next_ns;
    }
    RON_LIST_FOREACH_SAFE(node, &k->writes)
    {
        struct wlt_write *w = RON_LIST_ENTRY(node, struct wlt_write, link);

        if (w->waiting && w->job.until_ns <= now_ns) {
            w->waiting = false;
            k->waiting--;
            drive(k, w, wlt_job_waited(o->core, &w->job, now_ns));
        }
    }
    RON_LIST_FOREACH(node, &k->writes)
    {
        const struct wlt_write *w = RON_LIST_ENTRY(node, struct wlt_write, link);

        if (w->waiting) {
            next_ns = RON_MIN(next_ns, w->job.until_ns);
        }
    }
    return next_ns;
}

static void begin(struct wlt_worker *k, struct wlt_write *w)
{
    struct wlt_workers *o = k->of;
    const struct ron_app_token *token = ron_app_tokens_get(&o->ledger->token);

    (void)ron_au32_add(&o->pipes->inflight, 1);
    ron_list_push_back(&k->writes, &w->link);
    w->job.call = &w->call;
    w->job.deadline_ns = ron_http_reply_deadline(w->reply).at_ns;
    w->job.kid = (struct ron_str){token->kid, strlen(token->kid)};
    w->job.capability_ref = (struct ron_str){w->capability_ref, strlen(w->capability_ref)};
    w->job.out = ron_http_reply_body(w->reply);
    w->job.rand = &k->rand;
    if (ron_http_reply_cancelled(w->reply)) { /* nobody waits any more, and nothing has happened */
        wlt_fault_set(&w->job.fault, WLT_REASON_TIMEOUT, "", NULL);
        w->job.replayed = false;
        answer(o, w);
        forget(k, w);
        return;
    }
    drive(k, w, wlt_job_begin(o->core, &w->job, ron_env_now_ns(o->site->env)));
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct wlt_worker *k = RON_OBJ(arg, struct wlt_worker, WORKER_MAGIC);

    k->inbox.task = t;
    ron_task_wake(t); /* what a worker that failed has left */
    return RON_OK;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct wlt_worker *k = RON_OBJ(arg, struct wlt_worker, WORKER_MAGIC);
    uint64_t next_ns;

    for (size_t i = 0; i < count; i++) {
        begin(k, RON_OBJ(items[i], struct wlt_write, WLT_WRITE_MAGIC));
    }
    take_answers(k);
    next_ns = take_waits(k);
    if (next_ns != UINT64_MAX) {
        ron_task_wake_at(t, next_ns / RON_NS_PER_MS + 1);
    }
    return RON_OK;
}

static bool may_stop(struct ron_task *t, void *arg)
{
    const struct wlt_worker *k = RON_OBJ(arg, const struct wlt_worker, WORKER_MAGIC);

    (void)t;
    return ron_list_empty(&k->writes);
}

/* Answers for what is left at the deadline; a worker that failed leaves its list to the next. */
static void stop(struct ron_task *t, void *arg)
{
    struct wlt_worker *k = RON_OBJ(arg, struct wlt_worker, WORKER_MAGIC);

    if (!ron_task_stopping(t)) {
        return;
    }
    RON_LIST_FOREACH_SAFE(node, &k->writes)
    {
        struct wlt_write *w = RON_LIST_ENTRY(node, struct wlt_write, link);

        if (!w->answered) {
            wlt_job_abort(k->of->core, &w->job, WLT_REASON_DRAINING);
            answer(k->of, w);
        }
        if (!w->asked) {
            forget(k, w);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Connection `i` to ledger `which`. Where there are several, a call to one that is not there ends
 * at once: another may be asked meanwhile. */
static enum ron_rc add_client(struct wlt_workers *o, uint32_t which, uint32_t i,
                              struct ron_err *err)
{
    char name[32];

    if (which == 0) {
        (void)snprintf(name, sizeof name, "ledger-%u", i);
    } else {
        (void)snprintf(name, sizeof name, "ledger-%u.%u", i, which);
    }
    RON_TRY(
        ron_oap_client_new(&(struct ron_oap_client_opts){.name = name,
                                                         .env = o->site->env,
                                                         .registry = ron_app_registry(o->site->app),
                                                         .addr = o->ledger->all.of[which].addr,
                                                         .worker = (i + which) % o->site->cpus,
                                                         .stage = 3,
                                                         .ua = "ron-wallet",
                                                         .inflight_max = 1024,
                                                         .queue_max = 4096,
                                                         .fail_fast = o->ledger->all.count > 1,
                                                         .call_timeout_ms = o->core->rpc_ms},
                           &o->clients[which][i], err));
    return ron_oap_client_attach(o->clients[which][i], ron_app_sup(o->site->app), err);
}

static enum ron_rc add_worker(struct wlt_workers *o, uint32_t i, struct ron_err *err)
{
    struct wlt_worker *k = &o->at[i];
    char *name = o->names[i];

    k->magic = WORKER_MAGIC;
    k->of = o;
    k->connection = i % o->client_count;
    ron_list_init(&k->writes);
    ron_rand_seed(&k->rand, o->site->env->rand_u64(o->site->env));
    o->count = i + 1;
    (void)snprintf(name, sizeof o->names[i], "worker-%u", i);
    return ron_sup_add(ron_app_sup(o->site->app),
                       &(struct ron_task_def){.name = name,
                                              .kind = "worker",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 1,
                                              .input = o->pipes->work,
                                              .batch_max = WRITES_PER_TURN,
                                              /* Nobody else can take up what it holds. */
                                              .restart = {.essential = true},
                                              .start = start,
                                              .handle = handle,
                                              .may_stop = may_stop,
                                              .stop = stop,
                                              .arg = k},
                       NULL, err);
}

enum ron_rc wlt_workers_add(struct wlt_workers *o, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(o->site->conf, WLT_WORKERS);
    uint32_t clients = (uint32_t)ron_conf_int(o->site->conf, WLT_LEDGER_CONNS);

    count = count != 0 ? count : RON_MIN(o->site->cpus, (uint32_t)WLT_TASKS_MAX);
    o->at = ron_alloc_zero(count * sizeof *o->at);
    if (o->at == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the workers");
    }
    o->client_count = clients;
    for (uint32_t i = 0; i < clients * o->ledger->all.count; i++) {
        RON_TRY(add_client(o, i / clients, i % clients, err));
    }
    for (uint32_t i = 0; i < count; i++) {
        RON_TRY(add_worker(o, i, err));
    }
    return RON_OK;
}

void wlt_workers_free(struct wlt_workers *o)
{
    for (uint32_t i = 0; i < o->client_count * o->ledger->all.count; i++) {
        /* Calls that it still had are done, into the inboxes. NULL: was not made. */
        ron_oap_client_free(o->clients[i / o->client_count][i % o->client_count]);
    }
    for (uint32_t i = 0; i < o->count; i++) {
        struct wlt_worker *k = &o->at[i];

        RON_LIST_FOREACH_SAFE(node, &k->writes)
        {
            struct wlt_write *w = RON_LIST_ENTRY(node, struct wlt_write, link);

            if (!w->answered) { /* of a worker that was down; the front has told the client */
                wlt_job_abort(o->core, &w->job, WLT_REASON_DRAINING);
                answer(o, w);
            }
            forget(k, w);
        }
    }
    ron_free(o->at);
    o->at = NULL;
}
