/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/act.c - the loop of an actor: receive, carry out side by side, settle. */
#include "interop/act/act.h"

#include <stdio.h>
#include <string.h>

#include "interop/core/metrics.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    WAIT_MS = 500,         /* of one look at the journal; a stop is noticed as soon */
    LEASE_MS = 120 * 1000, /* longer than all of a batch can take */
    PAUSE_MS = 500,        /* when the journal cannot be read */
    BATCH_BYTES = 8 << 20,
};

bool iop_act_text(const struct iop_doc *doc, const char *pointer, char *out, size_t size)
{
    struct iop_value value;
    size_t len = 0;

    if (iop_pointer_find(doc, pointer, &value) != IOP_FOUND ||
        iop_value_text(&value, out, size - 1, &len) != RON_OK) {
        return false;
    }
    out[len] = '\0';
    return true;
}

/* ---- settling -------------------------------------------------------------------------------- */

/* What the other side said, or why it said nothing. */
static void why(const struct iop_act *act, char *out, size_t size)
{
    const struct ron_http_fetch_result *r =
        act->fetch != NULL ? ron_http_fetch_result(act->fetch) : NULL;
    struct iop_doc doc;

    if (r != NULL && (!iop_doc_init(&doc, r->body.ptr, r->body.len) ||
                      !iop_act_text(&doc, "/message", out, size))) {
        (void)snprintf(out, size, "%s", ron_http_fetch_reason_label(r->reason));
    }
}

static void tell(struct iop_actor *a, const struct iop_act *act, const struct iop_next *next)
{
    static const char *const results[] = {"done", "retry", "dead", "disabled"};
    char rule[64] = "";
    char corr[RON_HTTP_CORR_ID_MAX + 1] = "";
    char provider[IOP_PROVIDER_NAME_MAX] = "";
    char said[128] = "";

    why(act, said, sizeof said);
    iop_count_act(a->of->core, act->op, results[next->kind]);
    (void)iop_act_text(&act->head, "/rule", rule, sizeof rule);
    (void)iop_act_text(&act->head, "/corr_id", corr, sizeof corr);
    (void)iop_act_text(&act->head, "/provider", provider, sizeof provider);
    iop_trail_action(a->of->core, act->op, results[next->kind], rule, corr, provider,
                     act->got->receipt.delivery, act->attempt.status);
    if (next->kind == IOP_NEXT_RETRY) {
        RON_LOG(a->of->core->log, WARN, "action failed; retrying", RON_LOG_STR("action", act->op),
                RON_LOG_STR("rule", rule), RON_LOG_U64("status", (uint64_t)act->attempt.status),
                RON_LOG_STR("why", said), RON_LOG_U64("after_ms", next->delay_ms));
        return;
    }
    if (next->kind != IOP_NEXT_DONE) {
        RON_LOG(a->of->core->log, WARN, "action abandoned", RON_LOG_STR("action", act->op),
                RON_LOG_STR("rule", rule), RON_LOG_STR("why", next->reason),
                RON_LOG_STR("said", said), RON_LOG_U64("status", (uint64_t)act->attempt.status));
    }
}

static void settle(struct iop_actor *a, struct iop_act *act)
{
    struct iop_next next = {.kind = IOP_NEXT_DEAD, .reason = act->refused};
    struct iop_op op = {0};
    enum ron_rc rc;

    RON_ASSERT_MSG(act->refused == NULL || act->fetch == NULL,
                   "A1: what is refused did not go out");
    if (act->refused == NULL) {
        if (a->schedule == IOP_SCHEDULE_WALLET) {
            iop_wallet_judge(act);
        }
        next = iop_outbox_next(a->schedule, act->got->receipt.delivery, &act->attempt, &a->rand);
    }
    if (next.kind == IOP_NEXT_DISABLE) {
        iop_forward_disable(a, act);
    }
    iop_outbox_answer(&op, (struct ron_str){a->topic, strlen(a->topic)}, &act->got->receipt, &next);
    rc = iop_box_call(a->of->mail->box, &op);
    iop_op_done(&op);
    if (rc != RON_OK) { /* the lease ends, and it is attempted again (A1) */
        RON_LOG(a->of->core->log, WARN, "outbox acknowledgement failed",
                RON_LOG_STR("action", act->op));
    }
    tell(a, act, &next);
}

/* ---- a batch --------------------------------------------------------------------------------- */

static void begin(struct iop_actor *a, size_t count)
{
    for (size_t i = 0; a->schedule == IOP_SCHEDULE_WALLET && i < count; i++) {
        iop_wallet_prepare(a, &a->acts[i]);
    }
    for (size_t i = 0; i < count; i++) {
        struct iop_act *act = &a->acts[i];

        if (act->refused != NULL || act->attempt.rc != RON_OK) {
            continue;
        }
        act->attempt.rc = RON_AGAIN;
        if (a->schedule == IOP_SCHEDULE_WALLET) {
            iop_wallet_start(a, act);
        } else {
            iop_forward_start(a, act);
        }
    }
}

/* Waits until all calls have ended: each does, by its deadline. */
static void wait_ends(struct iop_actor *a, size_t count)
{
    size_t out = 0;
    void *item = NULL;

    for (size_t i = 0; i < count; i++) {
        out += a->acts[i].fetch != NULL;
    }
    while (out > 0 && ron_chan_recv(a->ends, ron_deadline_never(), &item) == RON_OK) {
        out--;
    }
    for (size_t i = 0; i < count; i++) {
        struct iop_act *act = &a->acts[i];

        if (act->fetch != NULL) {
            const struct ron_http_fetch_result *r = ron_http_fetch_result(act->fetch);

            act->attempt = (struct iop_attempt){.rc = r->status != 0 ? RON_OK : r->rc,
                                                .status = r->status,
                                                .retry_after_ms = iop_retry_after_ms(
                                                    act->fetch, ron_env_wall_ms(a->of->core->env))};
            if (a->schedule == IOP_SCHEDULE_WALLET) {
                iop_upstream(a->of->bridge, "wallet", act->op, r->status != 0 && r->status < 500,
                             r->took_ms * RON_NS_PER_MS);
            }
        }
    }
}

static void carry_out(struct iop_actor *a, const struct iop_op *op)
{
    size_t count = op->recv.count;

    RON_ASSERT(count <= IOP_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        struct iop_act *act = &a->acts[i];

        *act = (struct iop_act){.got = &op->recv.got[i],
                                .op = a->schedule == IOP_SCHEDULE_WALLET ? "wallet" : "forward"};
        ron_buf_init(&act->token, RON_CAP_TEXT_MAX + 64);
        (void)iop_doc_init(&act->head, act->got->head.ptr, act->got->head.len);
    }
    begin(a, count);
    wait_ends(a, count);
    for (size_t i = 0; i < count; i++) {
        struct iop_act *act = &a->acts[i];

        settle(a, act);
        if (act->fetch != NULL) {
            ron_http_fetch_release(act->fetch);
        }
        if (ron_buf_len(&act->token) > 0) {
            ron_wipe((void *)(uintptr_t)ron_buf_data(&act->token), ron_buf_len(&act->token));
        }
        ron_buf_done(&act->token);
    }
}

static enum ron_rc run(struct ron_task *t, void *arg)
{
    struct iop_actor *a = RON_OBJ(arg, struct iop_actor, IOP_ACTOR_MAGIC);
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);

    while (value == RON_TASK_GO) {
        struct iop_op op = {.kind = IOP_OP_RECV,
                            .recv = {.topic = {a->topic, strlen(a->topic)},
                                     .max = IOP_BATCH_MAX,
                                     .max_bytes = BATCH_BYTES,
                                     .visibility_ms = LEASE_MS,
                                     .wait_ms = WAIT_MS}};
        enum ron_rc rc = iop_box_call(a->of->mail->box, &op);

        if (rc == RON_OK) {
            carry_out(a, &op);
        } else {
            RON_IGNORE(ron_watch_wait(
                stop, seen, ron_deadline_after_ms(ron_env_now_ns(a->of->core->env), PAUSE_MS),
                &value, &seen));
        }
        iop_op_done(&op);
        value = ron_watch_get(stop, &seen);
    }
    return RON_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void drop_end(void *item, void *arg)
{
    (void)item; /* the actor holds the reference */
    (void)arg;
}

static enum ron_rc add_actor(struct iop_acts *o, struct iop_actor *a, enum iop_schedule schedule,
                             uint32_t number, struct ron_err *err)
{
    const char *kind = schedule == IOP_SCHEDULE_WALLET ? "wallet" : "forward";

    a->magic = IOP_ACTOR_MAGIC;
    a->of = o;
    a->schedule = schedule;
    a->topic = schedule == IOP_SCHEDULE_WALLET ? IOP_TOPIC_WALLET : IOP_TOPIC_FORWARD;
    ron_rand_seed(&a->rand, o->core->env->rand_u64(o->core->env));
    (void)snprintf(a->name, sizeof a->name, "%s-%u", kind, number);
    (void)snprintf(a->chan_name, sizeof a->chan_name, "%s.ends", a->name);
    RON_TRY(ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(o->core->app),
                                .env = o->core->env,
                                .name = a->chan_name,
                                .producers = "upstreams",
                                .consumers = a->name,
                                .drop_text = "never full: one slot per call in progress",
                                .capacity = IOP_BATCH_MAX,
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_end},
        &a->ends, err));
    return ron_sup_add(ron_app_sup(o->core->app),
                       &(struct ron_task_def){.name = a->name,
                                              .kind = "actor",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 2,
                                              .run = run,
                                              .arg = a},
                       NULL, err);
}

enum ron_rc iop_actors_add(struct iop_acts *o, struct ron_err *err)
{
    uint32_t each = (uint32_t)ron_conf_int(o->core->conf, IOP_ACTORS);
    uint32_t count = 0;

    o->actors = ron_alloc_zero(2 * (size_t)each * sizeof *o->actors);
    if (o->actors == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the actors");
    }
    for (uint32_t i = 0; i < each; i++) {
        if (o->up->wallet != NULL) {
            o->actor_count = count + 1;
            RON_TRY(add_actor(o, &o->actors[count++], IOP_SCHEDULE_WALLET, i, err));
        }
        if (o->up->place_count > 0) {
            o->actor_count = count + 1;
            RON_TRY(add_actor(o, &o->actors[count++], IOP_SCHEDULE_FORWARD, i, err));
        }
    }
    return RON_OK;
}

void iop_actors_free(struct iop_acts *o)
{
    for (uint32_t i = 0; i < o->actor_count; i++) {
        if (o->actors[i].ends != NULL) {
            ron_chan_free(o->actors[i].ends);
        }
    }
    ron_free(o->actors);
    o->actors = NULL;
    o->actor_count = 0;
}
