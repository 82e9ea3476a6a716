/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - asks: how they come in, wait, end and are told; the client's life and counters.
 *
 * Place: wire, above client_conn.c. Invariants K1-K4 are in client_priv.h.
 *
 * Hand-over: asks come on a stack; whoever finds it empty wakes the task. The task takes the whole
 * stack with one exchange. When the task ends it exchanges the stack for CLOSED, so an ask is
 * either taken by that last exchange or refused: none can be left behind. Every step is a
 * read-modify-write of the one atomic, so no order between two of them matters.
 *
 * Failure: the task itself never fails; what goes wrong ends asks. */
#include "ron/wire/client.h"

#include <stdio.h>
#include <string.h>

#include "client_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "wire/wire_testing.h"

static struct ron_oap_ask closed_mark; /* only its address is used */
#define OAP_CLOSED ((void *)&closed_mark)

static const char *const outcome_labels[] = {
#define X(name, label, doc) label,
    RON_OAP_OUTCOMES(X)
#undef X
};

const char *ron_oap_outcome_label(enum ron_oap_outcome outcome)
{
    RON_ASSERT((unsigned)outcome < RON_OAP_OUTCOME_COUNT);
    return outcome_labels[outcome];
}

/* ---- the end of an ask ----------------------------------------------------------------------- */

static void push(struct ron_oap_inbox *inbox, struct ron_oap_ask *ask)
{
    struct ron_task *task = inbox->task;
    void *seen = ron_aptr_load(&inbox->_stack);

    do {
        ask->next = seen;
    } while (!ron_aptr_cas(&inbox->_stack, &seen, ask));
    /* From here on ask and inbox may be gone; the task lives as long as its executor. */
    if (seen == NULL) {
        ron_task_wake(task);
    }
}

static struct ron_oap_ask *turn_over(struct ron_oap_ask *stack)
{
    struct ron_oap_ask *queue = NULL;

    while (stack != NULL) {
        struct ron_oap_ask *next = stack->next;
        stack->next = queue;
        queue = stack;
        stack = next;
    }
    return queue;
}

static struct ron_oap_ask *inbox_next(struct ron_oap_inbox *inbox)
{
    struct ron_oap_ask *ask = inbox->_taken;

    if (ask == NULL) {
        ask = turn_over(ron_aptr_xchg(&inbox->_stack, NULL));
    }
    inbox->_taken = ask != NULL ? ask->next : NULL;
    return ask;
}

struct ron_oap_ask *ron_oap_inbox_take(struct ron_oap_inbox *inbox, size_t max)
{
    struct ron_oap_ask *first = NULL;
    struct ron_oap_ask **end = &first;
    struct ron_oap_ask *ask = NULL;
    size_t n = 0;

    while (n < max && (ask = inbox_next(inbox)) != NULL) {
        *end = ask;
        end = &ask->next;
        n++;
    }
    *end = NULL;
    /* What lies on the stack now may have woken the task for this very turn. */
    if (n == max && (inbox->_taken != NULL || ron_aptr_load(&inbox->_stack) != NULL)) {
        ron_task_wake(inbox->task);
    }
    return first;
}

void ron__oap_ask_finish(struct ron_oap_client *c, struct ron_oap_ask *ask,
                         enum ron_oap_outcome outcome, enum ron_rc rc)
{
    RON_ASSERT(!ron_list_linked(&ask->_link));
    if (ron_timer_armed(&ask->_timer)) {
        ron_task_timer_cancel(c->task, &ask->_timer);
    }
    ask->outcome = outcome;
    ask->rc = rc;
    ask->_state = OAP_ASK_FREE;
    ron_stat_bump(&c->n_answered, outcome == RON_OAP_ANSWERED);
    ron_stat_bump(&c->n_refused, outcome == RON_OAP_REFUSED);
    ron_stat_bump(&c->n_not_sent, outcome == RON_OAP_NOT_SENT);
    ron_stat_bump(&c->n_unknown, outcome == RON_OAP_UNKNOWN);
    (void)ron_au32_add(&c->pending, UINT32_MAX); /* minus one */
    if (ask->inbox != NULL) {
        push(ask->inbox, ask);
    } else {
        ask->done(ask);
    }
}

static void set_queued(struct ron_oap_client *c, uint32_t len)
{
    c->queue_len = len;
    ron_stat_set(&c->n_queued, len);
}

static void take_from_queue(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    ron_list_remove(&ask->_link);
    set_queued(c, c->queue_len - 1);
}

/* Early: before the answer, by time or on request. */
static void end_early(struct ron_oap_client *c, struct ron_oap_ask *ask, enum ron_rc rc)
{
    if (ask->_state == OAP_ASK_QUEUED) {
        take_from_queue(c, ask);
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, rc);
    } else {
        RON_ASSERT(ask->_state == OAP_ASK_SENT);
        ron__oap_slot_abandon(c, ask->_slot);
        ron__oap_ask_finish(c, ask, RON_OAP_UNKNOWN, rc);
    }
}

static void on_ask_timer(struct ron_timer *timer)
{
    struct ron_oap_ask *ask = RON_CONTAINER_OF(timer, struct ron_oap_ask, _timer);
    struct ron_oap_client *c = ask->_client;

    c->now_ms = ron_env_now_ns(c->env) / RON_NS_PER_MS;
    ron_stat_bump(&c->n_call_timeouts, 1);
    end_early(c, ask, RON_TIMEOUT);
    ron__oap_client_run(c);
}

/* ---- the queue ------------------------------------------------------------------------------- */

void ron__oap_ask_requeue(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    ask->_state = OAP_ASK_QUEUED;
    ron_list_push_front(&c->queue, &ask->_link);
    set_queued(c, c->queue_len + 1);
    ron_stat_bump(&c->n_resent, 1);
}

struct ron_oap_ask *ron__oap_ask_pop(struct ron_oap_client *c)
{
    struct ron_list_node *node = ron_list_front(&c->queue);
    struct ron_oap_ask *ask;

    if (node == NULL) {
        return NULL;
    }
    ask = RON_LIST_ENTRY(node, struct ron_oap_ask, _link);
    take_from_queue(c, ask);
    return ask;
}

static void take_one(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    uint64_t limit_ms = c->now_ms + c->opts.call_timeout_ms;
    uint64_t now_ns = c->now_ms * RON_NS_PER_MS;
    uint64_t at_ms;

    ron_list_node_init(&ask->_link);
    ron_timer_init(&ask->_timer, on_ask_timer);
    if (ask->deadline.at_ns == 0 || ron_deadline_is_never(ask->deadline)) {
        at_ms = limit_ms;
    } else {
        at_ms = RON_MIN(limit_ms, c->now_ms + ron_deadline_left_ms(ask->deadline, now_ns));
    }
    if (ron_au32_load(&ask->_cancel) != 0) {
        /* Perhaps after the last look for cancels, which did not find it in the queue. */
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_CANCELLED);
    } else if (at_ms <= c->now_ms) {
        ron_stat_bump(&c->n_call_timeouts, 1);
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_TIMEOUT);
    } else if (c->opts.fail_fast && c->failures > 0 && c->state != OAP_C_READY &&
               c->state != OAP_C_IDLE) { /* idle: this one is the next try */
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_CLOSED);
    } else {
        ron_task_timer_arm(c->task, &ask->_timer, at_ms);
        ask->_state = OAP_ASK_QUEUED;
        ron_list_push_back(&c->queue, &ask->_link);
        set_queued(c, c->queue_len + 1);
    }
}

static void look_for_cancels(struct ron_oap_client *c)
{
    RON_LIST_FOREACH_SAFE(node, &c->queue)
    {
        struct ron_oap_ask *ask = RON_LIST_ENTRY(node, struct ron_oap_ask, _link);

        if (ron_au32_load(&ask->_cancel) != 0) {
            end_early(c, ask, RON_CANCELLED);
        }
    }
    for (uint32_t i = 0; i <= c->slot_mask; i++) {
        struct ron_oap_ask *ask = c->slots[i].used ? c->slots[i].ask : NULL;

        if (ask != NULL && ron_au32_load(&ask->_cancel) != 0) {
            end_early(c, ask, RON_CANCELLED);
        }
    }
}

void ron__oap_asks_take(struct ron_oap_client *c)
{
    struct ron_oap_ask *queue = turn_over(ron_aptr_xchg(&c->submitted, NULL));

    while (queue != NULL) {
        struct ron_oap_ask *ask = queue;

        queue = ask->next;
        take_one(c, ask);
    }
    /* Cleared before the look, so a flag set meanwhile is looked at the next time: its setter wakes
     * us after setting it. An ask that came since the exchange above is in neither place that is
     * looked at; take_one sees its flag, because this exchange has read what followed it. */
    if (ron_au32_load(&c->cancels) != 0 && ron_au32_xchg(&c->cancels, 0) != 0) {
        look_for_cancels(c);
    }
}

/* ---- from any thread ------------------------------------------------------------------------- */

enum ron_rc ron_oap_ask_send(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    uint32_t room = c->opts.inflight_max + (c->opts.no_queue ? 0 : c->opts.queue_max);
    void *seen;

    RON_CHECK_MAGIC(c, OAP_CLIENT_MAGIC);
    RON_ASSERT(ask->done != NULL || (ask->inbox != NULL && ask->answer_to != NULL));
    if (ask->app == 0) {
        return RON_INVALID;
    }
    if (ask->payload_len > c->opts.message_max) {
        return RON_LIMIT;
    }
    if (ron_au32_add(&c->pending, 1) >= room) {
        (void)ron_au32_add(&c->pending, UINT32_MAX); /* minus one */
        ron_stat_add(&c->n_busy, 1);
        return RON_FULL;
    }
    ask->_client = c;
    ask->_state = OAP_ASK_SUBMITTED;
    ask->refusal = RON_OAP_NONE;
    ask->status = 0;
    ask->answer = NULL;
    ask->answer_len = 0;
    ron_au32_store(&ask->_cancel, 0);
    seen = ron_aptr_load(&c->submitted);
    do {
        if (seen == OAP_CLOSED) {
            (void)ron_au32_add(&c->pending, UINT32_MAX); /* minus one */
            return RON_CLOSED;
        }
        ask->next = seen;
    } while (!ron_aptr_cas(&c->submitted, &seen, ask));
    if (seen == NULL && c->task != NULL) {
        ron_task_wake(c->task);
    }
    return RON_OK;
}

void ron_oap_ask_cancel(struct ron_oap_ask *ask)
{
    struct ron_oap_client *c = ask->_client;

    ron_au32_store(&ask->_cancel, 1);
    (void)ron_au32_xchg(&c->cancels, 1);
    ron_task_wake(c->task);
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc client_start(struct ron_task *t, void *arg)
{
    struct ron_oap_client *c = arg;
    void *seen = OAP_CLOSED;

    RON_ASSERT(c->task == t);                       /* set by attach, and read by whoever sends */
    (void)ron_aptr_cas(&c->submitted, &seen, NULL); /* of an earlier life */
    ron__oap_client_run(c);
    return RON_OK;
}

static enum ron_rc client_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)items;
    (void)count;
    ron__oap_client_run(arg);
    return RON_OK;
}

/* Everything that is left ends here. An ask that a callback sends now is refused. */
static void end_all(struct ron_oap_client *c)
{
    struct ron_oap_ask *late = ron_aptr_xchg(&c->submitted, OAP_CLOSED);
    struct ron_oap_ask *ask;

    late = late == OAP_CLOSED ? NULL : turn_over(late);
    while ((ask = ron__oap_ask_pop(c)) != NULL) {
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_CANCELLED);
    }
    while (late != NULL) {
        ask = late;
        late = ask->next;
        ron_list_node_init(&ask->_link);
        ron_timer_init(&ask->_timer, on_ask_timer);
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_CANCELLED);
    }
}

static void client_stop(struct ron_task *t, void *arg)
{
    struct ron_oap_client *c = arg;

    (void)t;
    c->now_ms = ron_env_now_ns(c->env) / RON_NS_PER_MS;
    ron__oap_client_close(c, RON_CANCELLED, false);
    end_all(c);
    ron_task_timer_cancel(c->task, &c->timer);
    c->state = OAP_C_IDLE;
}

/* ---- counters -------------------------------------------------------------------------------- */

void ron_oap_client_counters(const struct ron_oap_client *c, struct ron_oap_client_counters *ret)
{
    *ret = (struct ron_oap_client_counters){
#define X(field, metric, label, value, gauge) .field = ron_stat_get(&c->n_##field),
        RON_OAP_CLIENT_COUNTERS(X)
#undef X
            .queued = ron_stat_get(&c->n_queued),
        .events = ron_stat_get(&c->n_events), .resent = ron_stat_get(&c->n_resent),
        .strays = ron_stat_get(&c->n_strays), .writes = ron_stat_get(&c->n_writes)};
}

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    struct ron_oap_client *c = RON_CONTAINER_OF(e, struct ron_oap_client, entry);
    struct ron_oap_client_counters n;

    ron_oap_client_counters(c, &n);
    row->state = n.connected != 0 ? "open" : "closed";
    row->depth = n.queued;
#define X(field, metric, label, value, gauge)                                                      \
    ron_reg_row_sample(row, metric, (label) == NULL ? "client" : (label), gauge, n.field);         \
    row->samples[row->sample_count - 1].label_value = (value);                                     \
    row->samples[row->sample_count - 1].name_label = (label) == NULL ? NULL : "client";
    RON_OAP_CLIENT_COUNTERS(X)
#undef X
}

/* ---- birth and death ------------------------------------------------------------------------- */

#define DEFAULT(field, value) ((field) = (field) == 0 ? (value) : (field))

static const struct ron_retry_curve backoff_default = {
    .tries_max = 1, .first_ms = 50, .factor = 2, .base_max_ms = 2000, .jitter_pct = 50};

static enum ron_rc check_opts(struct ron_oap_client_opts *o, struct ron_err *err)
{
    if (o->name == NULL || strlen(o->name) > OAP_CLIENT_NAME_MAX || o->env == NULL ||
        o->registry == NULL || o->addr == NULL || strlen(o->addr) >= RON_ADDR_MAX) {
        return ron_err_set(err, RON_INVALID, "oap client: name, env, registry and addr are needed");
    }
    if (o->inflight_max > 4096 || o->queue_max > 1 << 20 ||
        o->subscribe_count > OAP_CLIENT_SUBS_MAX || o->message_max > 256 << 20 ||
        o->answer_max > 256 << 20 || (o->ua != NULL && strlen(o->ua) > 64)) {
        return ron_err_set(err, RON_INVALID,
                           "oap client: inflight, queue, message, answer, ua or subscriptions");
    }
    if (o->backoff != NULL && !ron_retry_curve_valid(o->backoff)) {
        return ron_err_set(err, RON_INVALID, "oap client: backoff curve");
    }
    DEFAULT(o->inflight_max, 64);
    DEFAULT(o->queue_max, 1024);
    DEFAULT(o->message_max, 16 << 20);
    DEFAULT(o->answer_max, 16 << 20);
    DEFAULT(o->call_timeout_ms, 10000);
    DEFAULT(o->connect_timeout_ms, 2000);
    DEFAULT(o->write_timeout_ms, 5000);
    DEFAULT(o->stall_ms, 15000);
    DEFAULT(o->keepalive_ms, 20000);
    DEFAULT(o->resubscribe_ms, 1000);
    return RON_OK;
}

static enum ron_rc client_init(struct ron_oap_client *c, struct ron_err *err)
{
    uint32_t slots = 16; /* subscriptions and a PING beside the calls */

    while (slots < 2 * (c->opts.inflight_max + OAP_CLIENT_SUBS_MAX)) {
        slots *= 2;
    }
    c->slot_mask = slots - 1;
    c->slots = ron_alloc_array(slots, sizeof *c->slots);
    c->in = ron_alloc(OAP_CLIENT_IN_BYTES);
    c->in_cap = OAP_CLIENT_IN_BYTES;
    if (c->slots == NULL || c->in == NULL) {
        return ron_err_set(err, RON_NOMEM, "oap client: no memory");
    }
    for (uint32_t i = 0; i < slots; i++) {
        ron_buf_init(&c->slots[i].part, c->opts.answer_max);
    }
    RON_TRY(ron_registry_add(c->opts.registry, &c->entry, RON_REG_QUEUE,
                             &(struct ron_reg_desc){.name = c->entry_name,
                                                    .policy = c->opts.no_queue
                                                                  ? "reject: RON_FULL"
                                                                  : "wait in order, then RON_FULL",
                                                    .producers = "whoever asks",
                                                    .consumers = c->name,
                                                    .drop = "not taken; busy_rejections_total",
                                                    .capacity = c->opts.queue_max},
                             fill_row, err));
    c->registered = true;
    return RON_OK;
}

/* A piece but the first has at least RON_OAP_FRAME_MIN less its header of payload, so headers are
 * below a 64th. */
void ron__oap_client_out_init(struct ron_oap_client *c)
{
    ron_buf_init(&c->out, c->opts.message_max + c->opts.message_max / 64 + OAP_CLIENT_OUT_SPARE);
}

enum ron_rc ron_oap_client_new(const struct ron_oap_client_opts *opts,
                               struct ron_oap_client **ret_client, struct ron_err *err)
{
    struct ron_oap_client_opts o = *opts;
    struct ron_oap_client *c;
    enum ron_rc rc;

    RON_TRY(check_opts(&o, err));
    c = ron_alloc_zero(sizeof *c);
    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "oap client: no memory");
    }
    c->magic = OAP_CLIENT_MAGIC;
    c->opts = o;
    c->env = o.env;
    c->backoff = o.backoff != NULL ? *o.backoff : backoff_default;
    c->io.fd = -1;
    (void)snprintf(c->name, sizeof c->name, "%s", o.name);
    (void)snprintf(c->entry_name, sizeof c->entry_name, "%s.calls", o.name);
    (void)snprintf(c->addr, sizeof c->addr, "%s", o.addr);
    ron_list_init(&c->queue);
    ron_timer_init(&c->timer, ron__oap_client_on_timer);
    ron__oap_client_out_init(c);
    ron_rand_seed(&c->rand, o.env->rand_u64(o.env));
    c->next_corr = ron_env_wall_ms(o.env) << 20; /* monotone, and another one after a restart */
    rc = client_init(c, err);
    if (rc != RON_OK) {
        ron_oap_client_free(c);
        return rc;
    }
    *ret_client = c;
    return RON_OK;
}

enum ron_rc ron_oap_client_attach(struct ron_oap_client *c, struct ron_sup *sup,
                                  struct ron_err *err)
{
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = c->name,
                                              .kind = "client",
                                              .mode = RON_TASK_LOOP,
                                              .role = RON_ROLE_STAGE,
                                              .stage = c->opts.stage,
                                              .worker = (int32_t)c->opts.worker,
                                              .start = client_start,
                                              .handle = client_handle,
                                              .stop = client_stop,
                                              .arg = c},
                       &c->task, err);
}

void ron_oap_client_free(struct ron_oap_client *c)
{
    if (c == NULL) {
        return;
    }
    RON_CHECK_MAGIC(c, OAP_CLIENT_MAGIC);
    RON_ASSERT(c->io.fd < 0); /* The task has ended, or never ran. */
    end_all(c);
    if (c->registered) {
        ron_registry_remove(c->opts.registry, &c->entry);
    }
    for (uint32_t i = 0; c->slots != NULL && i <= c->slot_mask; i++) {
        ron_buf_done(&c->slots[i].part);
    }
    ron_free(c->slots);
    ron_free(c->in);
    ron_buf_done(&c->out);
    c->magic = 0;
    ron_free(c);
}
