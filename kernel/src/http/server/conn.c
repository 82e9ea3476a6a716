/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/conn.c - one turn of a connection: read, go on, write, decide when to look
 * again.
 *
 * Place: http, on the worker that owns the connection. States and invariants C1-C5 are in
 * priv.h.
 *
 * Time: a connection has one timer. It is armed when something may become due before it fires, and
 * otherwise left alone: when it fires early it is armed anew. So a request that comes whole and is
 * answered at once costs no timer operation.
 *
 * Slowness: a head must be there within read_timeout of its first byte. A body must bring a byte
 * each read_timeout, and on average rate_min bytes a second beyond the first read_timeout; an
 * answer must be taken at that same rate. So the time that a slow peer can hold anything is bounded
 * by the size of what it holds. */
#include <stdio.h>
#include <string.h>

#include "http/server/priv.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/http/date.h"

/* ---- time ------------------------------------------------------------------------------------ */

static void write_date(struct http_worker *w)
{
    char text[RON_HTTP_DATE_SIZE];
    int len;

    ron_http_date_format(w->wall_ms / RON_MS_PER_S, text);
    len = snprintf(w->date, sizeof w->date, "Date: %s\r\n", text);
    RON_ASSERT(len > 0);
    RON_ASSERT((size_t)len < sizeof w->date);
    w->date_len = (uint32_t)len;
}

void ron__http_tick(struct http_worker *w)
{
    /* The executor's time of the round may be from before it slept. */
    w->now_ms = ron_env_now_ns(w->env) / RON_NS_PER_MS;
    if (w->now_ms >= w->date_until_ms) {
        w->wall_ms = ron_env_wall_ms(w->env);
        w->date_read_ms = w->now_ms;
        w->date_until_ms = w->now_ms + RON_MS_PER_S - w->wall_ms % RON_MS_PER_S;
        write_date(w);
    }
}

/* When the peer must have taken more of what waits; never when nothing does. */
static uint64_t write_due_ms(const struct http_conn *c)
{
    const struct ron_http_opts *o = &c->w->server->opts;

    return ron__http_sending(c)
               ? ron_out_due_ms(&c->out, o->write_timeout_ms, o->rate_min_bytes_per_s)
               : UINT64_MAX;
}

/* When the present request, which waits for its reply, is answered without it. */
static uint64_t wait_due_ms(const struct http_conn *c)
{
    const struct ron_http_late *late = ron_aptr_load(&c->reply->late);

    return late == NULL || c->deadline_ms <= late->early_ms ? c->deadline_ms
                                                            : c->deadline_ms - late->early_ms;
}

/* When something has to happen to this connection if nothing else does. While an answer waits to be
 * taken we do not read, so slow reading is not the peer's fault then. */
static uint64_t due_ms(const struct http_conn *c)
{
    const struct ron_http_opts *o = &c->w->server->opts;
    uint64_t at = write_due_ms(c);

    switch (c->state) {
    case HTTP_LINGER:
        return c->progress_ms + o->linger_ms;
    case HTTP_WAIT:
        return RON_MIN(at, wait_due_ms(c));
    case HTTP_STREAM:
        return at != UINT64_MAX || c->reply->pipe.quiet ? at
                                                        : c->progress_ms + o->request_timeout_ms;
    case HTTP_IDLE:
        if (ron__http_shaking(c)) {
            return c->start_ms + o->read_timeout_ms;
        }
        return at != UINT64_MAX ? at : c->progress_ms + o->idle_timeout_ms;
    case HTTP_HEAD:
        return at != UINT64_MAX ? at : c->start_ms + o->read_timeout_ms;
    case HTTP_BODY:
    case HTTP_UPLOAD:
        if (c->stalled) {
            return RON_MIN(c->deadline_ms, c->progress_ms + o->request_timeout_ms);
        }
        if (at == UINT64_MAX) {
            at = RON_MIN(c->deadline_ms, c->progress_ms + o->read_timeout_ms);
            at = RON_MIN(at, ron_paced_ms(c->body_start_ms, o->read_timeout_ms, c->body_bytes,
                                          o->rate_min_bytes_per_s));
        }
        return at;
    }
    RON_UNREACHABLE();
}

static void arm(struct http_conn *c)
{
    uint64_t at = due_ms(c);

    if (at != UINT64_MAX && (!ron_timer_armed(&c->timer) || at < c->armed_ms)) {
        c->armed_ms = at;
        ron_task_timer_arm(c->w->task, &c->timer, at);
    }
}

/* ---- end of a connection --------------------------------------------------------------------- */

static void release_in(struct http_conn *c)
{
    if (c->in != NULL) {
        ron_pool_put(&c->w->in_pool, c->in);
        c->in = NULL;
    }
    c->in_at = 0;
    c->in_len = 0;
    c->used = 0;
}

void ron__http_conn_destroy(struct http_conn *c)
{
    struct http_worker *w = c->w;

    RON_CHECK_MAGIC(c, HTTP_CONN_MAGIC);
    if (c->reply != NULL) {
        ron_stat_bump(&w->disconnects, 1);
        ron__http_reply_detach(c);
    }
    ron__http_hang_up(c);
    ron__http_tail_drop(c);
    if (c->waits_turn) {
        ron_list_remove(&c->turn);
    }
    ron_task_timer_cancel(w->task, &c->timer);
    ron_list_remove(&c->link);
    release_in(c);
    ron__http_spill_release(w, &c->spill, &c->charged);
    ron_out_release(&c->out, &c->w->server->answer_memory);
    ron_limiter_unref(w->server->limiter, c->bucket);
    (void)ron_au32_add(&w->server->connections, UINT32_MAX); /* minus one */
    c->magic = 0;
    ron_pool_put(&w->conn_pool, c);
}

/* Takes and forgets what the peer still sends; false when the connection is over. */
static bool discard(struct http_conn *c)
{
    char room[4096];
    size_t got = 0;

    while (c->linger_bytes < HTTP_LINGER_BYTES) {
        if (!ron__http_discard(c, room, sizeof room, &got)) {
            return !c->eof;
        }
        c->linger_bytes += got;
    }
    return false;
}

/* FIN, and the socket is kept until the peer has seen everything: closing it with unread bytes
 * would reset the connection and destroy the answer on its way. */
static void start_linger(struct http_conn *c)
{
    bool told = ron__http_fin(c);

    release_in(c);
    ron__http_spill_release(c->w, &c->spill, &c->charged);
    c->state = HTTP_LINGER;
    c->progress_ms = c->w->now_ms;
    c->linger_bytes = 0;
    if (!told || !discard(c)) {
        c->dead = true;
    }
}

void ron__http_conn_finish(struct http_conn *c)
{
    ron__http_push(c);
    if (c->state == HTTP_STREAM) {
        c->dead = true; /* In the middle of an answer there is nothing to say. */
    } else if (!c->has_tail &&
               (c->state == HTTP_HEAD || c->state == HTTP_BODY || c->reply != NULL)) {
        c->keep = false;
        ron__http_fail_conn(c, RON_HTTP_DRAINING, 0);
        ron__http_reply_detach(c);
        ron__http_flush(c, NULL, 0);
    }
    if (c->state != HTTP_LINGER && !c->dead) {
        start_linger(c);
    }
    ron__http_conn_destroy(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Room behind the bytes; a request that is only begun may be moved to the front. */
static size_t make_room(struct http_conn *c)
{
    struct http_in *in = c->in;

    if (c->in_len == sizeof in->bytes && c->in_at > 0 && c->state == HTTP_HEAD) {
        c->in_len -= c->in_at;
        memmove(in->bytes, in->bytes + c->in_at, c->in_len);
        c->in_at = 0;
        ron_http_parser_init(&in->parser, &c->w->server->limits);
    }
    return sizeof in->bytes - c->in_len;
}

bool ron__http_fill(struct http_conn *c)
{
    struct http_worker *w = c->w;
    size_t room;
    size_t got = 0;

    if (!c->readable) {
        return false;
    }
    if (c->in == NULL) {
        c->in = ron_pool_get(&w->in_pool);
        if (c->in == NULL) {
            c->dead = true; /* There is one per connection and per reply: only a test gets here. */
            return false;
        }
        ron_http_parser_init(&c->in->parser, &w->server->limits);
        c->in->trace = (struct ron_trace_ctx){0};
    }
    room = make_room(c);
    RON_ASSERT(room > 0);
    if (!ron__http_read(c, c->in->bytes + c->in_len, room, &got)) {
        return false;
    }
    c->in_len += (uint32_t)got;
    if (c->state == HTTP_IDLE) {
        c->state = HTTP_HEAD;
        c->start_ms = w->now_ms;
    }
    return true;
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static bool run_head(struct http_conn *c)
{
    if (c->in_len == c->in_at && !ron__http_fill(c)) {
        return false;
    }
    switch (ron_http_parse(&c->in->parser, c->in->bytes + c->in_at, c->in_len - c->in_at)) {
    case RON_HTTP_MORE:
        return ron__http_fill(c);
    case RON_HTTP_DONE:
        return ron__http_request_begin(c);
    case RON_HTTP_REFUSED:
        c->keep = false;
        c->closing = true;
        ron__http_fail_conn(c, c->in->parser.reason, 0);
        return false;
    }
    RON_UNREACHABLE();
}

/* Whether somebody holds the reply of the present request. */
static bool is_held(const struct http_conn *c)
{
    return c->state == HTTP_WAIT || c->state == HTTP_STREAM;
}

/* Makes C2 and C3 true again, and looks at what is left of the connection. */
static void settle(struct http_conn *c)
{
    if (ron_buf_len(&c->w->out) > 0) {
        ron__http_flush(c, NULL, 0);
    }
    if (!c->dead && !ron__http_sending(c) && c->state != HTTP_LINGER) {
        if (c->eof && !is_held(c)) {
            ron_stat_bump(&c->w->disconnects, c->state != HTTP_IDLE);
            c->closing = true;
        }
        if (c->closing && !is_held(c)) {
            start_linger(c);
        }
    }
    if (c->dead || (c->state == HTTP_LINGER && c->eof)) {
        ron__http_conn_destroy(c);
        return;
    }
    if (c->state == HTTP_IDLE && c->in != NULL) {
        release_in(c); /* C3 */
    }
    arm(c);
}

/* What the worker has moved so far: a turn is a stretch of it. */
static uint64_t moved(const struct http_worker *w)
{
    return ron_stat_get(&w->bytes_in) + ron_stat_get(&w->bytes_out) +
           ron_stat_get(&w->requests) * HTTP_TURN_REQUEST;
}

void ron__http_conn_run(struct http_conn *c)
{
    uint64_t start = moved(c->w);
    bool more = true;

    while (more && !c->dead && !c->closing && !ron__http_sending(c)) {
        if (moved(c->w) - start >= HTTP_TURN_BYTES) {
            ron__http_wait_turn(c); /* A peer that never pauses must not hold the worker. */
            break;
        }
        switch (c->state) {
        case HTTP_IDLE:
        case HTTP_HEAD:
            more = run_head(c);
            break;
        case HTTP_BODY:
            more = ron__http_request_body(c);
            break;
        case HTTP_UPLOAD:
            more = ron__http_upload_run(c);
            break;
        case HTTP_STREAM:
            more = ron__http_stream_pump(c);
            break;
        case HTTP_WAIT:
        case HTTP_LINGER:
            more = false;
            break;
        }
    }
    settle(c);
}

/* Writes what waits. Once all is taken we read again, and the peer's time begins anew. */
static void flush_waiting(struct http_conn *c)
{
    if (!ron__http_sending(c)) {
        return;
    }
    ron__http_push(c);
    if (!ron__http_sending(c) && c->state != HTTP_WAIT) {
        c->start_ms = c->w->now_ms;
        c->progress_ms = c->w->now_ms;
        c->body_start_ms = c->w->now_ms;
    }
}

void ron__http_conn_go_on(struct http_conn *c)
{
    flush_waiting(c);
    ron__http_conn_run(c);
}

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct http_conn *c = RON_CONTAINER_OF(io, struct http_conn, io);

    RON_CHECK_MAGIC(c, HTTP_CONN_MAGIC);
    ron__http_tick(c->w);
    ron__http_ready(c, events);
    if (c->state == HTTP_LINGER) {
        c->dead = c->dead || !discard(c);
    } else {
        if (c->hup && is_held(c) && !ron_http_reply_cancelled(c->reply)) {
            ron__http_pipe_cancel(c->reply);
            c->dead = c->dead || (c->state == HTTP_STREAM && c->reply->pipe.quiet);
        }
        flush_waiting(c);
    }
    ron__http_conn_run(c);
}

/* ---- timeouts -------------------------------------------------------------------------------- */

static void too_late(struct http_conn *c)
{
    struct http_worker *w = c->w;

    if (c->state == HTTP_LINGER) {
        c->dead = true;
    } else if (w->now_ms >= write_due_ms(c)) {
        ron_stat_bump(&w->write_timeouts, 1);
        c->dead = true; /* It does not read: there is nothing to tell it. */
    } else if (ron__http_shaking(c)) {
        ron_stat_bump(&w->read_timeouts, 1);
        ron__tls_timed_out(c->tls);
        c->closing = true;
    } else if (c->state == HTTP_IDLE) {
        ron_stat_bump(&w->idle_timeouts, 1);
        c->closing = true;
    } else if (c->state == HTTP_UPLOAD) {
        bool ours = c->stalled || w->now_ms >= c->deadline_ms;

        ron_stat_bump(&w->read_timeouts, !ours);
        (void)ron__http_upload_fail(c, ours ? RON_HTTP_DEADLINE : RON_HTTP_READ_SLOW);
    } else if (c->state == HTTP_STREAM) {
        ron_stat_bump(&w->rejected[RON_HTTP_DEADLINE], 1);
        c->dead = true; /* Its holder brings nothing. */
    } else if (c->state == HTTP_WAIT) {
        c->keep = false;
        ron__http_late(c, ron_aptr_load(&c->reply->late));
        ron__http_reply_detach(c);
        ron__http_request_done(c);
    } else {
        ron_stat_bump(&w->read_timeouts, 1);
        c->keep = false;
        c->closing = true;
        ron__http_fail_conn(c, RON_HTTP_READ_SLOW, 0);
    }
}

static void on_timer(struct ron_timer *timer)
{
    struct http_conn *c = RON_CONTAINER_OF(timer, struct http_conn, timer);

    RON_CHECK_MAGIC(c, HTTP_CONN_MAGIC);
    ron__http_tick(c->w);
    if (!c->dead && c->w->now_ms >= due_ms(c)) {
        too_late(c);
    }
    settle(c);
}

void ron__http_conn_evict(void *conn)
{
    struct http_conn *c = conn;

    RON_CHECK_MAGIC(c, HTTP_CONN_MAGIC);
    c->dead = true;
    c->armed_ms = c->w->now_ms;
    ron_task_timer_arm(c->w->task, &c->timer, c->armed_ms);
}

/* ---- birth ----------------------------------------------------------------------------------- */

/* An IPv6 client is its /64, which is what one subscriber is given. */
static void set_peer(struct http_conn *c, const struct ron_peer *peer,
                     uint8_t ret_key[HTTP_KEY_BYTES])
{
    struct ron_addr addr = {.kind = RON_ADDR_UNIX};

    memset(ret_key, 0, HTTP_KEY_BYTES);
    if (!peer->has_cred && ron_addr_parse(peer->addr, &addr, NULL) != RON_OK) {
        addr = (struct ron_addr){.kind = RON_ADDR_UNIX}; /* no text of ours fails */
    }
    c->peer = (struct http_peer){
        .kind = addr.kind, .port = addr.port, .has_uid = peer->has_cred, .uid = peer->uid};
    memcpy(c->peer.ip, addr.ip, sizeof c->peer.ip);
    ret_key[0] = (uint8_t)addr.kind;
    if (addr.kind == RON_ADDR_UNIX) {
        memcpy(ret_key + 1, &peer->uid, sizeof peer->uid);
    } else {
        memcpy(ret_key + 1, addr.ip, addr.kind == RON_ADDR_IPV6 ? 8 : 4);
    }
}

void ron__http_conn_open(struct http_worker *w, const struct http_listener *l, int take_fd,
                         const struct ron_peer *peer)
{
    struct ron_http_server *s = w->server;
    struct http_conn *c = ron_pool_get(&w->conn_pool);
    uint8_t key[HTTP_KEY_BYTES];
    uint32_t others;

    if (c == NULL) {
        ron_stat_bump(&w->rejected[RON_HTTP_CONNECTIONS], 1);
        w->env->net->close(w->env, take_fd);
        return;
    }
    *c = (struct http_conn){.magic = HTTP_CONN_MAGIC,
                            .state = HTTP_IDLE,
                            .w = w,
                            .listener = l,
                            .io = {.fd = take_fd, .ready = on_ready},
                            .readable = true, /* The request is often there already. */
                            .start_ms = w->now_ms,
                            .progress_ms = w->now_ms};
    ron_timer_init(&c->timer, on_timer);
    ron_out_init(&c->out, s->opts.answer_max);
    ron_list_push_back(&w->conns, &c->link);
    others = ron_au32_add(&s->connections, 1);
    ron_stat_bump(&w->accepted, 1);
    set_peer(c, peer, key);
    if (ron_io_watch(w->task, &c->io, RON_IO_READ | RON_IO_WRITE | RON_IO_EDGE) != RON_OK) {
        c->io._task = NULL;
        ron__http_conn_destroy(c);
        return;
    }
    if (l->def.tls != NULL && !ron__http_secure(c, l->def.tls)) {
        ron__http_conn_destroy(c);
        return;
    }
    if (others >= s->opts.connections_max) {
        c->closing = true;
        ron__http_fail_conn(c, RON_HTTP_CONNECTIONS, 0);
    } else if (!ron__http_peer_allowed(&l->def, peer)) {
        c->closing = true;
        ron__http_fail_conn(c, RON_HTTP_PEER, 0);
    } else {
        c->bucket = ron_limiter_ref(s->limiter, key,
                                    s->opts.rate_scope == RON_HTTP_SCOPE_CLIENT ? sizeof key : 0);
    }
    ron__http_conn_run(c);
}
