/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/server.c - the listener tasks: their options, life and counters.
 *
 * Place: http, above listen.c and conn.c. Each worker has its own listeners, connections, buffers
 * and counters; only the numbers of connections, deferred requests, streams, memory and the rate
 * buckets are shared.
 *
 * Ownership: the server owns listeners and all memory from new to free; a task that fails and is
 * started again finds the listener open, so no connection is refused in between. */
#include <stdio.h>
#include <string.h>

#include "http/server/counters.h"
#include "http/server/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    CONNECTIONS_MAX = 1 << 20,
    INFLIGHT_MAX = 1 << 20,
    /* An answer is a write of some microseconds. Between two looks at the sockets lie few of them,
     * so that a request that is refused at once is refused soon. */
    ANSWERS_PER_TURN = 16,
};

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc worker_start(struct ron_task *t, void *arg)
{
    struct http_worker *w = arg;

    w->task = t;
    w->draining = false;
    ron_handback_open(&w->done);
    ron_intake_begin(w->server->intake, w->index, t);
    return RON_OK;
}

static enum ron_rc worker_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct http_worker *w = arg;

    (void)items;
    (void)count;
    ron__http_tick(w);
    ron_intake_look(w->server->intake, w->index);
    if (ron__http_replies_take(w, ANSWERS_PER_TURN)) {
        ron_task_wake(t);
    }
    ron__http_turns_run(w);
    return RON_OK;
}

/* Told to drain: what is idle goes now, the rest after its answer. */
static void worker_drain(struct ron_task *t, void *arg)
{
    struct http_worker *w = arg;

    ron__http_tick(w);
    w->draining = true;
    w->drain_ms = w->now_ms;
    RON_LIST_FOREACH_SAFE(node, &w->conns)
    {
        struct http_conn *c = RON_LIST_ENTRY(node, struct http_conn, link);

        if (c->state == HTTP_IDLE && !ron__http_sending(c)) {
            /* A request may have come that nobody has read yet: it gets its 503. */
            c->readable = true;
            if (!ron__http_fill(c)) {
                c->closing = true;
            }
            ron__http_conn_run(c);
        } else if (c->state == HTTP_STREAM && c->reply->pipe.quiet) {
            ron__http_pipe_cancel(c->reply); /* It would never end by itself. */
        }
    }
    ron_task_intake_stopped(t);
}

/* The last answers may still be on their way: they have a moment to be taken, counted from the
 * beginning of the drain. */
static bool worker_may_stop(struct ron_task *t, void *arg)
{
    struct http_worker *w = arg;

    ron__http_tick(w);
    /* Those that came with the end of the last stage. */
    (void)ron__http_replies_take(w, SIZE_MAX);
    if (w->now_ms < w->drain_ms + HTTP_LAST_SEND_MS) {
        RON_LIST_FOREACH(node, &w->conns)
        {
            const struct http_conn *c = RON_LIST_ENTRY(node, struct http_conn, link);

            if (ron__http_sending(c) && !c->dead) {
                ron_task_wake_at(t, w->now_ms + HTTP_LAST_LOOK_MS);
                return false;
            }
        }
    }
    return true;
}

static void worker_stop(struct ron_task *t, void *arg)
{
    struct http_worker *w = arg;

    (void)t;
    ron__http_tick(w);
    w->draining = true;
    ron_handback_close(&w->done);
    /* Answers that came with the end of the last stage. */
    (void)ron__http_replies_take(w, SIZE_MAX);
    ron_intake_end(w->server->intake, w->index);
    while (!ron_list_empty(&w->conns)) {
        ron__http_conn_finish(RON_LIST_ENTRY(ron_list_front(&w->conns), struct http_conn, link));
    }
}

static uint64_t worker_tick(void *arg)
{
    struct http_worker *w = arg;

    ron__http_tick(w);
    return w->now_ms;
}

static void worker_accepted(void *arg, size_t at, int take_fd, const struct ron_peer *peer)
{
    struct http_worker *w = arg;

    ron__http_conn_open(w, &w->server->listeners[at], take_fd, peer);
}

static const struct ron_intake_ops intake_ops = {.start = worker_start,
                                                 .handle = worker_handle,
                                                 .drain = worker_drain,
                                                 .may_stop = worker_may_stop,
                                                 .stop = worker_stop,
                                                 .tick = worker_tick,
                                                 .accepted = worker_accepted};

/* ---- counters -------------------------------------------------------------------------------- */

void ron_http_server_counters(const struct ron_http_server *s, struct ron_http_counters *ret)
{
    *ret = (struct ron_http_counters){0};
    for (uint32_t i = 0; i < s->worker_count; i++) {
        const struct http_worker *w = &s->workers[i];
#define X(field, metric, label, value, gauge) ret->field += ron_stat_get(&w->field);
        RON_HTTP_COUNTERS(X)
#undef X
        for (size_t r = 0; r < RON_HTTP_REASON_COUNT; r++) {
            ret->rejected[r] += ron_stat_get(&w->rejected[r]);
        }
        for (size_t k = 0; k < 6; k++) {
            ret->statuses[k] += ron_stat_get(&w->statuses[k]);
        }
    }
    ret->connections = ron_au32_load(&s->connections);
    ret->inflight = ron_au32_load(&s->inflight);
    ret->streams = ron_au32_load(&s->streams);
}

enum {
#define X(field, metric, label, value, gauge) +1
    COUNTER_COUNT = 0 RON_HTTP_COUNTERS(X)
#undef X
};
_Static_assert((int)COUNTER_COUNT <= (int)RON_REG_SAMPLES_MAX,
               "a row of the registry holds them all");

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    struct ron_http_server *s = RON_CONTAINER_OF(e, struct ron_http_server, entry);
    struct ron_http_counters c;

    ron_http_server_counters(s, &c);
    row->state = "open";
    row->depth = c.inflight;
#define X(field, metric, label, value, gauge)                                                      \
    ron_reg_row_sample(row, metric, (label) == NULL ? "server" : (label), gauge, c.field);         \
    row->samples[row->sample_count - 1].label_value = (value);
    RON_HTTP_COUNTERS(X)
#undef X
}

/* ---- options --------------------------------------------------------------------------------- */

#define DEFAULT(field, value) ((field) = (field) == 0 ? (value) : (field))

static void set_defaults(struct ron_http_opts *o)
{
    DEFAULT(o->connections_max, 2048);
    DEFAULT(o->inflight_max, 512);
    DEFAULT(o->streams_max, 1024);
    DEFAULT(o->burst, RON_MAX(o->rate_per_s / 2, 1u));
    DEFAULT(o->uri_max, RON_HTTP_URI_DEFAULT);
    DEFAULT(o->head_max, RON_HTTP_HEAD_DEFAULT);
    DEFAULT(o->headers_max, RON_HTTP_HEADERS_MAX);
    DEFAULT(o->body_max, 1 << 20);
    DEFAULT(o->body_memory_max, 64 << 20);
    DEFAULT(o->answer_max, 16 << 20);
    DEFAULT(o->answer_memory_max, 64 << 20);
    DEFAULT(o->read_timeout_ms, 5000);
    DEFAULT(o->write_timeout_ms, 5000);
    DEFAULT(o->idle_timeout_ms, 60000);
    DEFAULT(o->request_timeout_ms, 10000);
    DEFAULT(o->linger_ms, 2000);
    DEFAULT(o->rate_min_bytes_per_s, 1024);
}

static enum ron_rc check_opts(const struct ron_http_opts *o, struct ron_err *err)
{
    if (o->name == NULL || strlen(o->name) > RON_INTAKE_NAME_MAX || o->env == NULL ||
        o->registry == NULL) {
        return ron_err_set(err, RON_INVALID, "http: name, env and registry are needed");
    }
    if ((o->addr == NULL) == (o->listener_count == 0) ||
        o->listener_count > RON_HTTP_LISTENERS_MAX) {
        return ron_err_set(err, RON_INVALID, "http: needs addr or 1..%d listeners",
                           RON_HTTP_LISTENERS_MAX);
    }
    for (size_t i = 0; i < o->listener_count; i++) {
        if (o->listeners[i].addr == NULL) {
            return ron_err_set(err, RON_INVALID, "http: listener %zu needs an address", i);
        }
    }
    if (o->workers == 0 || o->workers > RON_WORKERS_MAX) {
        return ron_err_set(err, RON_INVALID, "http: %u workers is outside 1..%d", o->workers,
                           RON_WORKERS_MAX);
    }
    if (o->route_count == 0 || o->route_count > RON_HTTP_ROUTES_MAX) {
        return ron_err_set(err, RON_INVALID, "http: %zu routes is outside 1..%d", o->route_count,
                           RON_HTTP_ROUTES_MAX);
    }
    if (o->headers_max > RON_HTTP_HEADERS_MAX || o->head_max > RON_HTTP_IN_BYTES ||
        o->uri_max > o->head_max) {
        return ron_err_set(err, RON_INVALID, "http: head limits are %d headers and %d bytes",
                           RON_HTTP_HEADERS_MAX, RON_HTTP_IN_BYTES);
    }
    if (o->connections_max > CONNECTIONS_MAX || o->inflight_max > INFLIGHT_MAX ||
        o->streams_max > INFLIGHT_MAX ||
        !ron_rate_valid((struct ron_rate){o->rate_per_s, o->burst}) ||
        o->answer_max < HTTP_OUT_BYTES) {
        return ron_err_set(err, RON_INVALID, "http: connections, inflight, rate or answer limit");
    }
    return RON_OK;
}

/* ---- birth and death ------------------------------------------------------------------------- */

static void ulid_random(void *ctx, void *ret_bytes, size_t len)
{
    ron_rand_bytes(ctx, ret_bytes, len);
}

static bool has_tls(const struct ron_http_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        if (s->listeners[i].def.tls != NULL) {
            return true;
        }
    }
    return false;
}

static enum ron_rc worker_init(struct ron_http_server *s, uint32_t index)
{
    struct http_worker *w = &s->workers[index];
    const struct ron_http_opts *o = &s->opts;
    size_t conns = (size_t)o->connections_max + RON_INTAKE_SPARE_CONNS;
    uint8_t *room = NULL;

    w->server = s;
    w->index = index;
    w->env = o->env;
    ron_list_init(&w->conns);
    ron_list_init(&w->turns);
    ron_buf_init(&w->out, o->answer_max + HTTP_OUT_BYTES);
    ron_buf_init_over(&w->extra, w->extra_room, sizeof w->extra_room);
    ron_rand_seed(&w->rand, o->env->rand_u64(o->env));
    ron_ulid_gen_init(&w->ulids, ulid_random, &w->rand);
    RON_TRY(ron_buf_reserve(&w->out, HTTP_OUT_BYTES, &room));
    RON_TRY(
        ron_pool_init(&w->conn_pool, "http-conn", sizeof(struct http_conn), RON_CACHELINE, conns));
    if (has_tls(s)) {
        RON_TRY(ron__tls_lane_init(&w->tls, o->env, conns, ron__http_conn_evict));
    }
    RON_TRY(ron_pool_init(&w->in_pool, "http-in", sizeof(struct http_in), RON_CACHELINE,
                          conns + o->inflight_max + o->streams_max));
    w->reply_count = o->inflight_max + o->streams_max;
    w->replies = ron_alloc_array(w->reply_count, sizeof *w->replies);
    w->route_statuses = ron_alloc_array(o->route_count * 6, sizeof *w->route_statuses);
    return w->replies == NULL || w->route_statuses == NULL ? RON_NOMEM : RON_OK;
}

static void worker_done(struct http_worker *w)
{
    if (w->server == NULL) {
        return; /* never begun */
    }
    for (uint32_t i = 0; i < w->replies_fresh; i++) {
        ron_buf_done(&w->replies[i].body);
        ron_mutex_done(&w->replies[i].pipe.mu);
    }
    ron_inflate_free(w->inflate[0]);
    ron_inflate_free(w->inflate[1]);
    ron_free(w->replies);
    ron_free(w->route_statuses);
    ron_buf_done(&w->out);
    ron_pool_done(&w->in_pool);
    ron_pool_done(&w->conn_pool);
    ron__tls_lane_done(&w->tls);
}

static enum ron_rc server_init(struct ron_http_server *s, struct ron_err *err)
{
    const struct ron_http_opts *o = &s->opts;

    ron__http_listen_init(s);
    s->inflate_opts =
        (struct ron_inflate_opts){.out_max = o->decode_max, .ratio_max = o->decode_ratio_max};
    s->answer_memory.max = o->answer_memory_max;
    s->limits = (struct ron_http_limits){
        .uri_max = o->uri_max, .head_max = o->head_max, .headers_max = o->headers_max};
    s->routes = ron_alloc_array(o->route_count, sizeof *s->routes);
    s->workers = ron_alloc_array(o->workers, sizeof *s->workers);
    if (s->routes == NULL || s->workers == NULL) {
        return ron_err_set(err, RON_NOMEM, "http: no memory");
    }
    RON_TRY(ron__http_routes_compile(o->routes, o->route_count, s->routes, err));
    /* Twice the connections, so that a shard has room even when clients spread unevenly. */
    RON_TRY(ron_limiter_new(
        &(struct ron_limiter_opts){
            .env = o->env,
            .rate = {o->rate_per_s, o->burst},
            .clients_max = RON_MAX(2 * o->connections_max, (uint32_t)RON_LIMITER_CLIENTS_DEFAULT)},
        &s->limiter, err));
    ron_au32_store(&s->rate_on, o->rate_per_s != 0);
    s->worker_count = o->workers;
    for (uint32_t i = 0; i < o->workers; i++) {
        if (worker_init(s, i) != RON_OK) {
            return ron_err_set(err, RON_NOMEM, "http: no memory for worker %u", i);
        }
    }
    RON_TRY(ron__http_listen_open(s, &intake_ops, err));
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

enum ron_rc ron_http_server_new(const struct ron_http_opts *opts,
                                struct ron_http_server **ret_server, struct ron_err *err)
{
    struct ron_http_server *s;
    struct ron_http_opts o = *opts;
    enum ron_rc rc;

    set_defaults(&o);
    RON_TRY(check_opts(&o, err));
    s = ron_alloc_zero(sizeof *s);
    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "http: no memory");
    }
    s->magic = HTTP_SERVER_MAGIC;
    s->opts = o;
    rc = server_init(s, err);
    if (rc != RON_OK) {
        RON_IGNORE(ron_http_server_free(s)); /* nobody holds a reply yet */
        return rc;
    }
    *ret_server = s;
    return RON_OK;
}

enum ron_rc ron_http_server_attach(struct ron_http_server *s, struct ron_sup *sup,
                                   struct ron_err *err)
{
    return ron_intake_attach(s->intake, sup, err);
}

bool ron_http_server_free(struct ron_http_server *s)
{
    if (s == NULL) {
        return true;
    }
    RON_CHECK_MAGIC(s, HTTP_SERVER_MAGIC);
    for (uint32_t i = 0; i < s->worker_count; i++) {
        if (s->workers[i].server != NULL) {
            (void)ron__http_replies_take(&s->workers[i], SIZE_MAX);
        }
    }
    if (s->registered) {
        ron_registry_remove(s->opts.registry, &s->entry);
        s->registered = false;
    }
    if (ron_au32_load(&s->inflight) != 0 || ron_au32_load(&s->streams) != 0) {
        return false; /* Somebody will still write into a reply. */
    }
    for (uint32_t i = 0; i < s->worker_count; i++) {
        worker_done(&s->workers[i]);
    }
    ron_intake_free(s->intake);
    ron_limiter_free(s->limiter);
    ron_free(s->routes);
    ron_free(s->workers);
    s->magic = 0;
    ron_free(s);
    return true;
}

enum ron_rc ron_http_server_set_rate(struct ron_http_server *s, uint32_t rate_per_s, uint32_t burst,
                                     struct ron_err *err)
{
    struct ron_rate rate = {rate_per_s, burst == 0 ? RON_MAX(rate_per_s / 2, 1u) : burst};

    RON_TRY(ron_limiter_set_rate(s->limiter, rate, err));
    ron_au32_store(&s->rate_on, rate_per_s != 0);
    return RON_OK;
}
