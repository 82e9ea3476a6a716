/* SPDX-License-Identifier: Apache-2.0 */
/* http_load.c - see http_load.h. */
#include "http_load.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/json.h"

const char load_answer[] =
    "{\"service\":\"ron\",\"answer\":\"This text is padded so that the whole body is exac"
    "tly two hundred bytes long, which is what the benchmark of the HTTP front compares.."
    ".....................................\"}";
_Static_assert(sizeof load_answer == LOAD_ANSWER_BYTES + 1, "the benchmark compares 200 bytes");

enum { JSON_BYTES_MAX = 1024 }; /* four times the body that the benchmark sends */

struct transfer {
    struct ron_str idempotency_key;
    struct ron_str debit_account;
    struct ron_str credit_account;
    struct ron_money amount;
    struct ron_str currency;
    struct ron_str memo;
    uint64_t present;
};

static const struct ron_json_field transfer_fields[] = {
    RON_JSON_FIELD(struct transfer, idempotency_key, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct transfer, debit_account, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct transfer, credit_account, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct transfer, amount, MONEY, .required = true),
    RON_JSON_FIELD(struct transfer, currency, STRING, .required = true, .max = 8),
    RON_JSON_FIELD(struct transfer, memo, STRING, .max = 256),
};
static const struct ron_json_shape transfer_shape =
    RON_JSON_SHAPE(struct transfer, transfer_fields, present);

struct load_job {
    struct ron_http_reply *reply;
    uint64_t ms;
};

/* ---- handlers -------------------------------------------------------------------------------- */

/* Parses the body; answers and returns false when it is no transfer. */
static bool parse_transfer(struct ron_http_call *call)
{
    struct ron_str body = ron_http_body(call);
    struct ron_json_error why;
    struct transfer t = {0};
    char text[JSON_BYTES_MAX]; /* the scanner resolves escapes in place; the body is not ours */

    if (body.len > sizeof text) {
        ron_http_fail(call, RON_HTTP_BODY_LARGE);
        return false;
    }
    memcpy(text, body.ptr, body.len);
    if (ron_json_scan(text, body.len, &transfer_shape, NULL, &t, &why) == RON_OK) {
        return true;
    }
    ron_http_fail_with(
        call, &(struct ron_http_error){
                  .status = 400, .code = "INVALID", .message = why.reason, .reason = "invalid"});
    return false;
}

void load_on_json(struct ron_http_call *call, void *arg)
{
    (void)arg;
    if (parse_transfer(call)) {
        ron_http_answer(call, 200, "application/json", load_answer, LOAD_ANSWER_BYTES);
    }
}

static void hand_over(struct ron_http_call *call, struct ron_chan *queue, uint64_t ms)
{
    struct load_job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL || ron_http_defer(call, &job->reply) != RON_OK) {
        ron_free(job);
        ron_http_fail(call, RON_HTTP_BUSY);
        return;
    }
    job->ms = ms;
    if (ron_chan_try_send(queue, job, NULL) != RON_OK) {
        ron_http_undefer(call, job->reply);
        ron_free(job);
        ron_http_fail(call, RON_HTTP_BUSY);
    }
}

void load_on_json_late(struct ron_http_call *call, void *arg)
{
    struct load *l = arg;

    if (parse_transfer(call)) {
        hand_over(call, l->json, 0);
    }
}

void load_on_slow(struct ron_http_call *call, void *arg)
{
    struct load *l = arg;
    uint64_t ms = ron_http_param_u64(call, 0);

    if (ms > LOAD_SLOW_MAX_MS) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    hand_over(call, l->slow, ms);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void drop_job(void *item, void *arg)
{
    struct load_job *job = item;

    (void)arg;
    ron_http_reply_fail(job->reply, RON_HTTP_DRAINING);
    ron_free(job);
}

static void answer_job(struct load_job *job)
{
    struct ron_buf *body = ron_http_reply_body(job->reply);

    if (ron_buf_append(body, load_answer, LOAD_ANSWER_BYTES) != RON_OK) {
        ron_http_reply_fail(job->reply, RON_HTTP_MEMORY);
    } else {
        ron_http_reply_send(job->reply, 200, "application/json");
    }
    ron_free(job);
}

static enum ron_rc json_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        answer_job(items[i]);
    }
    return RON_OK;
}

static enum ron_rc slow_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct load *l = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct load_job *job = items[i];
        struct ron_deadline until = ron_deadline_after_ms(ron_mono_ns(), job->ms);
        uint64_t seen;
        uint64_t value = ron_watch_get(l->pause, &seen);

        if (ron_watch_wait(l->pause, seen, until, &value, &seen) == RON_CANCELLED) {
            drop_job(job, NULL);
        } else {
            answer_job(job);
        }
    }
    return RON_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc add_queue(struct ron_chan **ret_chan, struct ron_chan_opts opts,
                             const struct ron_env *env, struct ron_registry *registry,
                             struct ron_err *err)
{
    opts.env = env;
    opts.registry = registry;
    opts.producers = "http";
    opts.drop_text = "answered 503 draining";
    opts.policy = RON_CHAN_REJECT;
    opts.drop = drop_job;
    return ron_chan_new(&opts, ret_chan, err);
}

enum ron_rc load_build(struct load *l, const struct ron_env *env, struct ron_registry *registry,
                       struct ron_sup *sup, struct ron_err *err)
{
    RON_TRY(add_queue(
        &l->json,
        (struct ron_chan_opts){.name = "json", .consumers = "json", .capacity = LOAD_JSON_QUEUE},
        env, registry, err));
    RON_TRY(add_queue(
        &l->slow,
        (struct ron_chan_opts){.name = "slow", .consumers = "slow", .capacity = LOAD_SLOW_QUEUE},
        env, registry, err));
    RON_TRY(ron_watch_new(
        &(struct ron_watch_opts){
            .registry = registry, .name = "pause", .producers = "nobody", .consumers = "slow"},
        &l->pause, err));
    RON_TRY(ron_sup_add(sup,
                        &(struct ron_task_def){.name = "json",
                                               .kind = "worker",
                                               .worker = RON_WORKER_ANY,
                                               .input = l->json,
                                               .handle = json_handle,
                                               .arg = l},
                        NULL, err));
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = "slow",
                                              .kind = "worker",
                                              .mode = RON_TASK_BLOCKING,
                                              .input = l->slow,
                                              .batch_max = 1, /* the rest stays in the queue */
                                              .handle = slow_handle,
                                              .arg = l},
                       NULL, err);
}

void load_done(struct load *l)
{
    if (l->json != NULL) {
        ron_chan_free(l->json);
    }
    if (l->slow != NULL) {
        ron_chan_free(l->slow);
    }
    if (l->pause != NULL) {
        ron_watch_free(l->pause);
    }
}
