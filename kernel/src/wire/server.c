/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the listener tasks: their options, life and counters.
 *
 * Place: wire, above conn.c; sockets and accepting are those of ron/front/intake.h. The workers
 * share the connections of a Unix socket.
 *
 * Ownership: the server owns listeners and all memory from new to free. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wire/wire_testing.h"
#include "wire_priv.h"

enum {
    CONNECTIONS_MAX = 1 << 20,
    INFLIGHT_MAX = 1 << 20,
    MESSAGE_MAX = 256 << 20,
};

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc worker_start(struct ron_task *t, void *arg)
{
    struct oap_worker *w = arg;

    w->task = t;
    w->draining = false;
    w->confirmed = false;
    ron_handback_open(&w->done);
    ron__oap_tick(w);
    RON_TRY(ron_bus_subscribe(w->server->bus, &w->events_in, ron_task_waker(t), NULL));
    w->reading_events = true;
    ron__oap_events_take(w); /* From here on the bus wakes us. */
    /* Replies of an earlier life, which nobody was woken for: as long as one lies there, nobody
     * would be for those behind it either. */
    ron__oap_replies_take(w);
    ron_intake_begin(w->server->intake, w->index, t);
    return RON_OK;
}

static enum ron_rc worker_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct oap_worker *w = arg;
    struct ron_list again;

    (void)t;
    (void)items;
    (void)count;
    ron__oap_tick(w);
    ron__oap_replies_take(w);
    ron__oap_events_take(w);
    ron_list_init(&again);
    ron_list_splice_back(&again, &w->again);
    while (!ron_list_empty(&again)) {
        ron__oap_conn_run(RON_LIST_ENTRY(ron_list_pop_front(&again), struct oap_conn, again));
    }
    return RON_OK;
}

/* ---- draining -------------------------------------------------------------------------------- */

/* Peers that were told leave as soon as they have their answers. The supervisor hears that intake
 * has stopped when they have left, or after a moment: so that a request which was under way when
 * DRAINING was told still meets an open connection and gets its 503, and nobody is left in doubt.
 * */
static void confirm(struct oap_worker *w)
{
    if (w->draining && !w->confirmed) {
        w->confirmed = true;
        ron_task_timer_cancel(w->task, &w->drain_timer);
        ron_task_intake_stopped(w->task);
    }
}

static void on_drain_time_over(struct ron_timer *timer)
{
    confirm(RON_CONTAINER_OF(timer, struct oap_worker, drain_timer));
}

void ron__oap_drain_look(struct oap_worker *w)
{
    if (w->hello_count == 0) {
        confirm(w);
    }
}

static void worker_drain(struct ron_task *t, void *arg)
{
    struct oap_worker *w = arg;

    ron__oap_tick(w);
    w->draining = true;
    ron_task_timer_arm(t, &w->drain_timer, w->now_ms + w->server->opts.drain_grace_ms);
    RON_LIST_FOREACH_SAFE(node, &w->conns)
    {
        ron__oap_conn_drain(RON_LIST_ENTRY(node, struct oap_conn, link));
    }
    ron__oap_drain_look(w);
}

static void worker_stop(struct ron_task *t, void *arg)
{
    struct oap_worker *w = arg;

    (void)t;
    ron__oap_tick(w);
    w->draining = true;
    w->confirmed = true; /* It ends: nobody is told any more. */
    ron_handback_close(&w->done);
    ron__oap_replies_take(w); /* Answers that came with the end of the last stage. */
    ron__oap_events_take(w);
    if (w->reading_events) {
        ron_bus_unsubscribe(&w->events_in);
        w->reading_events = false;
    }
    ron_intake_end(w->server->intake, w->index);
    ron_task_timer_cancel(w->task, &w->drain_timer);
    while (!ron_list_empty(&w->conns)) {
        ron__oap_conn_finish(RON_LIST_ENTRY(ron_list_front(&w->conns), struct oap_conn, link));
    }
}

static uint64_t worker_tick(void *arg)
{
    struct oap_worker *w = arg;

    ron__oap_tick(w);
    return w->now_ms;
}

static void worker_accepted(void *arg, size_t at, int take_fd, const struct ron_peer *peer)
{
    (void)at;
    ron__oap_conn_open(arg, take_fd, peer);
}

static const struct ron_intake_ops intake_ops = {.start = worker_start,
                                                 .handle = worker_handle,
                                                 .drain = worker_drain,
                                                 .stop = worker_stop,
                                                 .tick = worker_tick,
                                                 .accepted = worker_accepted};

/* ---- counters -------------------------------------------------------------------------------- */

void ron_oap_server_counters(const struct ron_oap_server *s, struct ron_oap_counters *ret)
{
    *ret = (struct ron_oap_counters){0};
    for (uint32_t i = 0; i < s->worker_count; i++) {
        const struct oap_worker *w = &s->workers[i];
#define X(field, metric, label, value, gauge) ret->field += ron_stat_get(&w->field);
        RON_OAP_COUNTERS(X)
#undef X
        ret->idle_timeouts += ron_stat_get(&w->idle_timeouts);
        ret->writes += ron_stat_get(&w->writes);
        ret->subscribers += ron_stat_get(&w->subscriber_count);
        for (size_t r = 0; r < RON_OAP_REASON_COUNT; r++) {
            ret->rejected[r] += ron_stat_get(&w->rejected[r]);
        }
    }
    ret->connections = ron_au32_load(&s->connections);
    ret->inflight = ron_au32_load(&s->inflight);
}

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    struct ron_oap_server *s = RON_CONTAINER_OF(e, struct ron_oap_server, entry);
    struct ron_oap_counters c;

    ron_oap_server_counters(s, &c);
    row->state = "open";
    row->depth = c.inflight;
#define X(field, metric, label, value, gauge)                                                      \
    ron_reg_row_sample(row, metric, (label) == NULL ? "server" : (label), gauge, c.field);         \
    row->samples[row->sample_count - 1].label_value = (value);
    RON_OAP_COUNTERS(X)
#undef X
}

/* ---- options --------------------------------------------------------------------------------- */

#define DEFAULT(field, value) ((field) = (field) == 0 ? (value) : (field))

static void set_defaults(struct ron_oap_opts *o)
{
    DEFAULT(o->connections_max, 2048);
    DEFAULT(o->inflight_max, 4096);
    DEFAULT(o->flow_max, RON_OAP_FLOW_DEFAULT);
    DEFAULT(o->frame_max, RON_OAP_FRAME_MAX);
    DEFAULT(o->message_max, RON_OAP_FRAME_MAX);
    DEFAULT(o->answer_max, 16 << 20);
    DEFAULT(o->in_memory_max, 128 << 20);
    DEFAULT(o->out_memory_max, 64 << 20);
    DEFAULT(o->read_timeout_ms, 5000);
    DEFAULT(o->write_timeout_ms, 5000);
    DEFAULT(o->idle_timeout_ms, 60000);
    DEFAULT(o->request_timeout_ms, 10000);
    DEFAULT(o->linger_ms, 2000);
    DEFAULT(o->drain_grace_ms, 100);
    DEFAULT(o->rate_min_bytes_per_s, 1024);
    DEFAULT(o->event_bytes, 1024);
    DEFAULT(o->event_ring, 1024);
    DEFAULT(o->subscriber_bytes, 256 << 10);
}

static enum ron_rc check_apps(const struct ron_oap_opts *o, struct ron_err *err)
{
    if (o->app_count == 0 || o->app_count > RON_OAP_APPS_MAX) {
        return ron_err_set(err, RON_INVALID, "oap: %zu apps is outside 1..%d", o->app_count,
                           (int)RON_OAP_APPS_MAX);
    }
    for (size_t i = 0; i < o->app_count; i++) {
        if (o->apps[i].app == 0 || o->apps[i].handle == NULL) {
            return ron_err_set(err, RON_INVALID,
                               "oap: app 0 is the wire's own, and an app needs "
                               "a handler");
        }
        for (size_t k = 0; k < i; k++) {
            if (o->apps[k].app == o->apps[i].app) {
                return ron_err_set(err, RON_EXISTS, "oap: app %u twice", o->apps[i].app);
            }
        }
    }
    return RON_OK;
}

static enum ron_rc check_opts(const struct ron_oap_opts *o, struct ron_err *err)
{
    if (o->name == NULL || strlen(o->name) > RON_INTAKE_NAME_MAX || o->env == NULL ||
        o->registry == NULL || o->addr == NULL) {
        return ron_err_set(err, RON_INVALID, "oap: name, env, registry and addr are needed");
    }
    if (o->workers == 0 || o->workers > RON_WORKERS_MAX) {
        return ron_err_set(err, RON_INVALID, "oap: %u workers is outside 1..%d", o->workers,
                           (int)RON_WORKERS_MAX);
    }
    if (o->frame_max < RON_OAP_FRAME_MIN || o->frame_max > RON_OAP_FRAME_MAX) {
        return ron_err_set(err, RON_INVALID, "oap: a frame limit of %u is outside %d..%d",
                           o->frame_max, (int)RON_OAP_FRAME_MIN, (int)RON_OAP_FRAME_MAX);
    }
    if (o->flow_max > RON_OAP_FLOW_MAX || o->connections_max > CONNECTIONS_MAX ||
        o->inflight_max > INFLIGHT_MAX || o->message_max > MESSAGE_MAX ||
        o->answer_max > MESSAGE_MAX || o->event_bytes > RON_OAP_EVENT_BYTES_MAX) {
        return ron_err_set(err, RON_INVALID,
                           "oap: flow, connections, inflight, message, answer or event limit");
    }
    if (o->allow_uid_count > RON_OAP_ALLOW_MAX || o->allow_gid_count > RON_OAP_ALLOW_MAX ||
        (unsigned)o->lag_policy > RON_OAP_LAG_DISCONNECT) {
        return ron_err_set(err, RON_INVALID, "oap: allow-list or lag policy");
    }
    return check_apps(o, err);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static enum ron_rc worker_init(struct ron_oap_server *s, uint32_t index)
{
    struct oap_worker *w = &s->workers[index];
    const struct ron_oap_opts *o = &s->opts;
    uint8_t *room = NULL;

    w->server = s;
    w->index = index;
    w->env = o->env;
    ron_timer_init(&w->drain_timer, on_drain_time_over);
    ron_list_init(&w->conns);
    ron_list_init(&w->again);
    ron_list_init(&w->subscribers);
    ron_buf_init(&w->out, OAP_OUT_BYTES);
    RON_TRY(ron_buf_reserve(&w->out, OAP_OUT_BYTES, &room));
    RON_TRY(ron_pool_init(&w->conn_pool, "oap-conn", sizeof(struct oap_conn), RON_CACHELINE,
                          (size_t)o->connections_max + RON_INTAKE_SPARE_CONNS));
    w->replies = ron_alloc_array(o->inflight_max, sizeof *w->replies);
    w->event_room = ron_alloc_array(OAP_EVENTS_PER_TURN, s->event_stride);
    return w->replies == NULL || w->event_room == NULL ? RON_NOMEM : RON_OK;
}

static void worker_done(struct oap_worker *w)
{
    if (w->server == NULL) {
        return; /* never begun */
    }
    for (uint32_t i = 0; i < w->replies_fresh; i++) {
        ron_buf_done(&w->replies[i].body);
    }
    ron_free(w->replies);
    ron_free(w->event_room);
    ron_buf_done(&w->out);
    ron__oap_in_done(w);
    ron_pool_done(&w->conn_pool);
}

static enum ron_rc open_bus(struct ron_oap_server *s, struct ron_err *err)
{
    const struct ron_oap_opts *o = &s->opts;

    (void)snprintf(s->bus_name, sizeof s->bus_name, "%s.events", o->name);
    s->event_stride = (uint32_t)(sizeof(struct oap_event) + o->event_bytes + 7) & ~7u;
    return ron_bus_new(&(struct ron_bus_opts){.registry = o->registry,
                                              .name = s->bus_name,
                                              .producers = "whoever publishes",
                                              .consumers = o->name,
                                              .capacity = o->event_ring,
                                              .message_bytes = s->event_stride,
                                              .readers_max = o->workers},
                       &s->bus, err);
}

static enum ron_rc server_init(struct ron_oap_server *s, struct ron_err *err)
{
    const struct ron_oap_opts *o = &s->opts;

    RON_TRY(open_bus(s, err));
    s->workers = ron_alloc_array(o->workers, sizeof *s->workers);
    if (s->workers == NULL) {
        return ron_err_set(err, RON_NOMEM, "oap: no memory");
    }
    s->worker_count = o->workers;
    s->out_memory.max = o->out_memory_max;
    for (uint32_t i = 0; i < o->workers; i++) {
        if (worker_init(s, i) != RON_OK) {
            return ron_err_set(err, RON_NOMEM, "oap: no memory for worker %u", i);
        }
    }
    RON_TRY(ron_intake_new(&(struct ron_intake_opts){.env = o->env,
                                                     .ops = &intake_ops,
                                                     .name = o->name,
                                                     .addrs = {o->addr},
                                                     .addr_count = 1,
                                                     .share_unix = true,
                                                     .workers = s->workers,
                                                     .worker_bytes = sizeof s->workers[0],
                                                     .worker_count = s->worker_count},
                           &s->intake, err));
    (void)snprintf(s->entry_name, sizeof s->entry_name, "%s.inflight", o->name);
    RON_TRY(ron_registry_add(o->registry, &s->entry, RON_REG_QUEUE,
                             &(struct ron_reg_desc){.name = s->entry_name,
                                                    .policy = "reject: 429 busy",
                                                    .producers = o->name,
                                                    .consumers = "holders of replies",
                                                    .drop = "not taken; busy_rejections_total",
                                                    .capacity = o->inflight_max},
                             fill_row, err));
    s->registered = true;
    return RON_OK;
}

enum ron_rc ron_oap_server_new(const struct ron_oap_opts *opts, struct ron_oap_server **ret_server,
                               struct ron_err *err)
{
    struct ron_oap_server *s;
    struct ron_oap_opts o = *opts;
    enum ron_rc rc;

    set_defaults(&o);
    RON_TRY(check_opts(&o, err));
    s = ron_alloc_zero(sizeof *s);
    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "oap: no memory");
    }
    s->magic = OAP_SERVER_MAGIC;
    s->opts = o;
    rc = server_init(s, err);
    if (rc != RON_OK) {
        RON_IGNORE(ron_oap_server_free(s)); /* nobody holds a reply yet */
        return rc;
    }
    *ret_server = s;
    return RON_OK;
}

enum ron_rc ron_oap_server_attach(struct ron_oap_server *s, struct ron_sup *sup,
                                  struct ron_err *err)
{
    return ron_intake_attach(s->intake, sup, err);
}

bool ron_oap_server_free(struct ron_oap_server *s)
{
    if (s == NULL) {
        return true;
    }
    RON_CHECK_MAGIC(s, OAP_SERVER_MAGIC);
    for (uint32_t i = 0; i < s->worker_count; i++) {
        if (s->workers[i].server != NULL) {
            ron__oap_replies_take(&s->workers[i]);
        }
    }
    if (s->registered) {
        ron_registry_remove(s->opts.registry, &s->entry);
        s->registered = false;
    }
    if (s->bus != NULL) {
        ron_bus_free(s->bus);
        s->bus = NULL;
    }
    if (ron_au32_load(&s->inflight) != 0) {
        return false; /* Somebody will still write into a reply. */
    }
    for (uint32_t i = 0; i < s->worker_count; i++) {
        worker_done(&s->workers[i]);
    }
    ron_intake_free(s->intake);
    ron_free(s->workers);
    s->magic = 0;
    ron_free(s);
    return true;
}

const char *ron_oap_server_addr(const struct ron_oap_server *s)
{
    return ron_intake_addr(s->intake, 0);
}
