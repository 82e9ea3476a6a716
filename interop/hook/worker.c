/* SPDX-License-Identifier: Apache-2.0 */
/* interop/hook/worker.c - the workers: they take many deliveries at a time from `work`, verify each
 * over its raw bytes, and hand it to the mailbox with all that follows from it.
 *
 * Place: service; loop tasks, so a delivery costs no wake-up of another thread until it is stored.
 *
 *     verify -> BLAKE3 of the body -> seen before? -> rules -> one PUT: key and messages, all or
 *     none, durable -> 202
 *
 * A worker that finds no memory gives its delivery to the others and fails; the supervisor starts
 * it again. More than five times a minute is fatal: better an end that an outer supervisor sees
 * than a service that flaps.
 *
 * The mailbox answers in `stored`, on its own thread, after the group that holds the delivery is on
 * disk; only then is the sender told. Request memory lives with the reply, so nothing is copied. */
#include <stdio.h>
#include <string.h>

#include "interop/core/metrics.h"
#include "interop/hook/hook.h"
#include "interop/mailbox/outbox.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/task/executor.h"

/* A worker shares its thread with the listener: a turn must be short. A delivery of 4 KiB is some
 * fifteen microseconds. */
enum {
    JOBS_PER_TURN = 32,
    SCRATCH_KEEP_MAX = 64 << 10, /* more is given back at once */
};

#define WORKER_MAGIC 0x49574f52u /* "IWOR" */

struct iop_worker {
    uint32_t magic;
    struct iop_hooks *of;
    uint8_t *scratch; /* of the few schemes that need some; made when first needed */
    size_t scratch_size;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void record(struct iop_job *j, enum iop_verdict verdict, enum iop_error error,
                   const char *label)
{
    struct ron_trace_from from;

    iop_record(j->of, &(struct iop_outcome){.verdict = verdict,
                                            .policy = j->policy,
                                            .provider = j->provider,
                                            .delivery = &j->delivery,
                                            .b3 = j->has_b3 ? &j->b3 : NULL,
                                            .error = error,
                                            .label = label,
                                            .corr_id = ron_http_reply_corr_id(j->reply),
                                            .addr = j->peer,
                                            .began_ns = j->began_ns});
    ron_http_reply_from(j->reply, &from);
    ron_trace_stage(
        ron_app_tracer(j->of->core->app), &from,
        &(struct ron_trace_stage){.name = "worker",
                                  .queue = "work",
                                  .from_ns = j->began_ns,
                                  .why = error != IOP_ERROR_NONE && iop_error_status(error) >= 500
                                             ? iop_error_code(error)
                                             : NULL});
}

static void refuse(struct iop_job *take_job, enum iop_error error, const char *label,
                   const char *message)
{
    RON_ASSERT_MSG(take_job->reply != NULL, "W2: a job has one reply until it ends");
    record(take_job, IOP_VERDICT_REFUSED, error, label);
    iop_reply_fail(take_job->reply, error, message);
    iop_job_put(take_job);
}

static void accept_job(struct iop_job *take_job, bool duplicate)
{
    struct iop_job *j = take_job;

    RON_ASSERT_MSG(j->has_b3, "an accepted delivery was verified and hashed");
    struct ron_json_writer w;
    char b3[RON_B3_ID_SIZE];

    record(j, duplicate ? IOP_VERDICT_DUPLICATE : IOP_VERDICT_ACCEPTED, IOP_ERROR_NONE, "");
    ron_b3_format(&j->b3, b3);
    ron_json_begin(&w, ron_http_reply_body(j->reply));
    ron_json_open(&w, NULL, '{');
    ron_json_bool(&w, "accepted", true);
    if (duplicate) {
        ron_json_bool(&w, "duplicate", true);
    }
    ron_json_str(&w, "corr_id", ron_http_reply_corr_id(j->reply));
    ron_json_text(&w, "b3", b3);
    ron_json_close(&w, '}');
    ron_http_reply_send(j->reply, 202, "application/json");
    iop_job_put(j);
}

static void answer_challenge(struct iop_job *take_job)
{
    const struct iop_answer *a = &take_job->delivery.answer;

    record(take_job, IOP_VERDICT_CHALLENGE, IOP_ERROR_NONE, "");
    RON_IGNORE(ron_buf_append(ron_http_reply_body(take_job->reply), a->body, a->len));
    ron_http_reply_send(take_job->reply, a->status, a->content_type);
    iop_job_put(take_job);
}

/* The mailbox has it, or says why not. On the mailbox's thread. */
static void stored(struct iop_op *op)
{
    struct iop_job *j = RON_OBJ(op->arg, struct iop_job, IOP_JOB_MAGIC);
    bool duplicate = op->put.duplicate;
    enum ron_rc rc = op->rc;
    uint64_t took_ns = ron_env_now_ns(j->of->core->env) - j->sent_ns;
    char detail[80];

    iop_upstream(j->of->bridge, "mailbox", "put", rc == RON_OK || rc == RON_FULL || rc == RON_LIMIT,
                 took_ns);
    iop_op_done(op);
    if (rc == RON_OK) {
        accept_job(j, duplicate);
    } else if (rc == RON_TIMEOUT) {
        (void)snprintf(detail, sizeof detail, "mailbox put: no answer within %llu ms",
                       (unsigned long long)(took_ns / RON_NS_PER_MS));
        refuse(j, IOP_ERROR_TIMEOUT, "mailbox_timeout", detail);
    } else {
        refuse(j, rc == RON_LIMIT ? IOP_ERROR_BODY_LIMIT : iop_error_of(rc), "mailbox", op->why);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The envelope of a message: what was verified, and nothing of how it was signed but its kind. */
static void write_head(struct iop_job *j, const char *b3, const struct iop_action *a)
{
    const struct iop_delivery *d = &j->delivery;
    struct ron_json_writer w;
    struct ron_str type;

    ron_json_begin(&w, &j->text);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "provider", j->provider->name);
    if (d->event_len > 0) {
        ron_json_str(&w, "event", (struct ron_str){d->event, d->event_len});
    }
    if (d->id_len > 0) {
        ron_json_str(&w, "delivery", (struct ron_str){d->id, d->id_len});
    }
    ron_json_text(&w, "b3", b3);
    ron_json_str(&w, "corr_id", ron_http_reply_corr_id(j->reply));
    ron_json_u64(&w, "received_ms", ron_env_wall_ms(j->of->core->env));
    ron_json_bool(&w, "verified", true);
    ron_json_text(&w, "sig_alg", d->sig_alg);
    if (a != NULL) {
        ron_json_text(&w, "rule", a->rule->name);
        ron_json_text(&w, "key", a->idem_key);
    }
    if (a != NULL && a->rule->action == IOP_ACT_WALLET) {
        ron_json_text(&w, "op", a->rule->op == IOP_OP_ISSUE ? "issue" : "transfer");
    }
    if (a != NULL && a->rule->action == IOP_ACT_FORWARD &&
        ron_http_field_get(j->head, "content-type", &type) == RON_OK) {
        ron_json_str(&w, "content_type", type);
    }
    if (a != NULL && a->fault != IOP_FAULT_NONE) {
        ron_json_text(&w, "fault", iop_fault_label(a->fault));
    }
    ron_json_close(&w, '}');
}

/* The request to the wallet as it will be sent, each time the same. */
static void write_wallet(struct iop_job *j, const struct iop_action *a)
{
    struct ron_json_writer w;

    ron_json_begin(&w, &j->text);
    ron_json_open(&w, NULL, '{');
    if (a->from[0] != '\0') {
        ron_json_text(&w, "from", a->from);
    }
    ron_json_text(&w, "to", a->to);
    ron_json_text(&w, "asset", a->asset);
    ron_json_money(&w, "amount_minor", a->amount);
    ron_json_close(&w, '}');
}

/* Where the texts of a message lie in the job's buffer, which may move while it grows. */
struct place {
    size_t head;
    size_t body; /* SIZE_MAX: the delivery's own */
    size_t end;
    struct ron_str topic;
};

static struct ron_str topic_of(const struct iop_job *j, const struct iop_action *a)
{
    if (a == NULL) {
        const char *own = iop_policy_entry(j->policy, j->provider)->topic;

        return (struct ron_str){own, strlen(own)};
    }
    if (a->fault != IOP_FAULT_NONE) {
        return (struct ron_str){IOP_TOPIC_FAULTS, sizeof IOP_TOPIC_FAULTS - 1};
    }
    switch (a->rule->action) {
    case IOP_ACT_FORWARD:
        return (struct ron_str){IOP_TOPIC_FORWARD, sizeof IOP_TOPIC_FORWARD - 1};
    case IOP_ACT_WALLET:
        return (struct ron_str){IOP_TOPIC_WALLET, sizeof IOP_TOPIC_WALLET - 1};
    case IOP_ACT_MAILBOX:
        break;
    }
    return (struct ron_str){a->rule->topic.text, a->rule->topic.len};
}

static struct place write_message(struct iop_job *j, const char *b3, const struct iop_action *a)
{
    bool wallet = a != NULL && a->fault == IOP_FAULT_NONE && a->rule->action == IOP_ACT_WALLET;
    struct place p = {.head = ron_buf_len(&j->text), .topic = topic_of(j, a)};

    write_head(j, b3, a);
    p.body = wallet ? ron_buf_len(&j->text) : SIZE_MAX;
    if (wallet) {
        write_wallet(j, a);
    }
    p.end = ron_buf_len(&j->text);
    return p;
}

/* What follows from the delivery, as messages of one PUT. False: it does not fit. */
static bool write_messages(struct iop_job *j, const struct ron_b3 *key)
{
    struct iop_action actions[IOP_ACTIONS_MAX];
    struct place places[IOP_ACTIONS_MAX + 1];
    struct iop_doc doc = {0};
    char b3[RON_B3_ID_SIZE];
    bool more = false;
    size_t count = 0;

    ron_b3_format(&j->b3, b3);
    if (j->policy->rules->count > 0) {
        struct iop_rule_input input = {
            .provider = j->provider->name,
            .event = {j->delivery.event, j->delivery.event_len},
            .key = *key,
            .doc = &doc,
        };

        (void)iop_doc_init(&doc, j->body.ptr, j->body.len);
        count = iop_rules_apply(j->policy->rules, &input, actions, &more);
    }
    if (more) {
        RON_LOG(j->of->core->log, WARN, "too many matching rules; extra rules ignored",
                RON_LOG_STR("provider", j->provider->name));
    }
    for (size_t i = 0; i < count; i++) {
        places[i] = write_message(j, b3, &actions[i]);
        iop_count_action(j->of->core, &actions[i]);
    }
    if (count == 0) {
        places[count++] = write_message(j, b3, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = (const char *)ron_buf_data(&j->text);
        size_t head_end = places[i].body == SIZE_MAX ? places[i].end : places[i].body;

        j->msgs[i] = (struct iop_msg){
            .topic = places[i].topic,
            .head = {text + places[i].head, head_end - places[i].head},
            .body = places[i].body == SIZE_MAX
                        ? j->body
                        : (struct ron_str){text + places[i].body, places[i].end - places[i].body}};
    }
    RON_ASSERT(count >= 1);
    RON_ASSERT(count <= RON_ARRAY_LEN(j->msgs));
    j->op.put.count = (uint32_t)count;
    return ron_buf_error(&j->text) == RON_OK;
}

/* ---- one delivery ---------------------------------------------------------------------------- */

static bool has_scratch(struct iop_worker *k, const struct iop_job *j)
{
    size_t wanted = j->body.len + IOP_SCRATCH_EXTRA;

    if (iop_provider_needs_scratch(j->provider) && wanted > k->scratch_size) {
        uint8_t *room = ron_alloc(wanted);

        if (room == NULL) {
            return false;
        }
        ron_free(k->scratch);
        k->scratch = room;
        k->scratch_size = wanted;
    }
    return true;
}

static void submit(struct iop_job *take_job)
{
    struct iop_job *j = take_job;
    struct iop_hooks *h = j->of;
    struct ron_b3 keys[2];
    enum ron_rc rc;

    ron_b3_hash(j->body.ptr, j->body.len, &j->b3);
    j->has_b3 = true;
    (void)iop_delivery_keys(&j->delivery, j->provider->name, &j->b3, keys);
    memset(&j->op, 0, sizeof j->op);
    j->op.kind = IOP_OP_PUT;
    j->op.done = stored;
    j->op.arg = j;
    j->op.put.has_key = true;
    iop_key_make(h->mail, (struct ron_str){j->provider->name, strlen(j->provider->name)},
                 (struct ron_str){"", 0}, &keys[0], &j->op.put.key);
    if (h->mail->seen != NULL &&
        iop_seen_has(h->mail->seen, &j->op.put.key, ron_env_wall_ms(h->core->env))) {
        accept_job(j, true);
        return;
    }
    j->op.put.msgs = j->msgs;
    if (!write_messages(j, &keys[0])) {
        refuse(j, IOP_ERROR_BUSY, "memory", NULL);
        return;
    }
    j->sent_ns = ron_env_now_ns(h->core->env);
    rc = iop_box_submit(h->mail->box, &j->op);
    if (rc != RON_OK) {
        refuse(j, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, "mailbox_full", NULL);
    }
}

static void drop_scratch(struct iop_worker *k)
{
    if (k->scratch != NULL) {
        ron_wipe(k->scratch, k->scratch_size);
        ron_free(k->scratch);
    }
    k->scratch = NULL;
    k->scratch_size = 0;
}

/* To another worker, or this one's next life. */
static void hand_back(struct iop_worker *k, struct iop_job *j)
{
    RON_ASSERT_MSG(j->reply != NULL, "W2: a job has one reply until it ends");
    RON_ASSERT_MSG(j->tries < IOP_JOB_TRIES, "W3: a job is tried %u times", j->tries);
    RON_ASSERT_MSG(!j->has_b3, "W4: it was verified already");
    j->tries++;
    if (j->tries == IOP_JOB_TRIES || ron_chan_try_send(k->of->work, j, NULL) != RON_OK) {
        refuse(j, IOP_ERROR_BUSY, "memory", NULL);
    }
}

/* RON_NOMEM: the worker cannot go on, and the delivery is somebody else's. */
static enum ron_rc take_job(struct iop_worker *k, struct iop_job *j)
{
    enum iop_refusal refusal;

    j->has_b3 = false;
    if (ron_http_reply_cancelled(j->reply)) {
        refuse(j, IOP_ERROR_TIMEOUT, "late", NULL);
        return RON_OK;
    }
    if (!has_scratch(k, j)) {
        hand_back(k, j);
        return RON_NOMEM;
    }
    refusal = (iop_check_body(
        j->provider,
        &(struct iop_message){.target = j->head->target,
                              .body = j->body.ptr,
                              .len = j->body.len,
                              .now_unix_ms = (int64_t)ron_env_wall_ms(k->of->core->env),
                              .scratch = k->scratch,
                              .scratch_size = k->scratch_size},
        &j->delivery));
    if (refusal != IOP_REFUSE_NONE) {
        const struct iop_refusal_row *row = iop_refusal_row(refusal);

        refuse(j, iop_refusal_error(refusal), row->label, row->message);
    } else if (j->delivery.answer.status != 0) {
        answer_challenge(j);
    } else {
        submit(j);
    }
    if (k->scratch_size > SCRATCH_KEEP_MAX) {
        drop_scratch(k);
    }
    return RON_OK;
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct iop_worker *k = RON_OBJ(arg, struct iop_worker, WORKER_MAGIC);
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; i < count; i++) {
        if (take_job(k, RON_OBJ(items[i], struct iop_job, IOP_JOB_MAGIC)) != RON_OK) {
            rc = ron_err_set(&err, RON_NOMEM, "out of memory for verification");
        }
    }
    if (rc != RON_OK) {
        ron_task_set_error(t, &err);
    }
    return rc;
}

static void stop(struct ron_task *t, void *arg)
{
    (void)t;
    drop_scratch(RON_OBJ(arg, struct iop_worker, WORKER_MAGIC));
}

enum ron_rc iop_workers_add(struct iop_hooks *h, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(h->core->conf, IOP_WORKERS);

    if (count == 0) {
        count = RON_MAX(ron_exec_workers(ron_app_exec(h->core->app)), 2U);
    }
    h->workers = ron_alloc_zero(count * sizeof *h->workers);
    if (h->workers == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the workers");
    }
    for (uint32_t i = 0; i < count; i++) {
        h->workers[i].magic = WORKER_MAGIC;
        h->workers[i].of = h;
        (void)snprintf(h->worker_names[i], sizeof h->worker_names[i], "worker-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(h->core->app),
                            &(struct ron_task_def){.name = h->worker_names[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_LOOP,
                                                   .worker = RON_WORKER_ANY,
                                                   .stage = 1,
                                                   .input = h->work,
                                                   .batch_max = JOBS_PER_TURN,
                                                   .restart = {.essential = true},
                                                   .handle = handle,
                                                   .stop = stop,
                                                   .arg = &h->workers[i]},
                            NULL, err));
    }
    return RON_OK;
}
