/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - one turn of a connection: read, go on, write, decide when to look again.
 *
 * Place: wire, on the worker that owns the connection. Invariants C1-C6 are in wire_priv.h.
 *
 * Time: a connection has one timer. It is armed when something may become due before it fires, and
 * otherwise left alone: when it fires early it is armed anew. So a request that comes whole and is
 * answered at once costs no timer operation.
 *
 * Slowness: a frame must bring a byte each read_timeout and, on average, rate_min bytes a second
 * beyond the first read_timeout; a message in pieces must be whole within request_timeout; what we
 * write must be taken at rate_min too. So the time that a slow peer can hold anything is bounded by
 * the size of what it holds. */
#include <string.h>

#include "ron/base/assert.h"
#include "wire/frame.h"
#include "wire_priv.h"

void ron__oap_tick(struct oap_worker *w)
{
    /* The executor's time of the round may be from before it slept. */
    w->now_ms = ron_env_now_ns(w->env) / RON_NS_PER_MS;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t write_due_ms(const struct oap_conn *c)
{
    const struct ron_oap_opts *o = &c->w->server->opts;

    return ron_out_len(&c->out) == 0
               ? UINT64_MAX
               : ron_out_due_ms(&c->out, o->write_timeout_ms, o->rate_min_bytes_per_s);
}

/* While what we wrote waits to be taken we do not read, so slow reading is not the peer's fault
 * then. Nor do we when the connection closes and only waits for answers that it owes. */
static uint64_t read_due_ms(const struct oap_conn *c)
{
    const struct ron_oap_opts *o = &c->w->server->opts;
    uint64_t at = UINT64_MAX;

    if (ron_out_len(&c->out) > 0 || c->closing || c->eof) {
        return at;
    }
    if (c->in_len > c->in_at) {
        at = RON_MIN(c->progress_ms + o->read_timeout_ms,
                     ron_paced_ms(c->frame_start_ms, o->read_timeout_ms, c->in_len - c->in_at,
                                  o->rate_min_bytes_per_s));
    }
    if (!ron_list_empty(&c->parts)) {
        const struct oap_part *p = RON_LIST_ENTRY(ron_list_front(&c->parts), struct oap_part, link);

        at = RON_MIN(at, c->progress_ms + o->read_timeout_ms);
        at = RON_MIN(at, p->start_ms + o->request_timeout_ms);
    }
    return at;
}

/* The first deferred call, unless its answer is there and waits for the socket. */
static uint64_t call_due_ms(const struct oap_conn *c)
{
    const struct ron_oap_reply *r;

    if (ron_list_empty(&c->calls)) {
        return UINT64_MAX;
    }
    r = RON_LIST_ENTRY(ron_list_front(&c->calls), struct ron_oap_reply, link);
    return ron_list_linked(&r->ready) ? UINT64_MAX : r->deadline_ms;
}

static uint64_t due_ms(const struct oap_conn *c)
{
    const struct ron_oap_opts *o = &c->w->server->opts;
    uint64_t at;

    if (c->state == OAP_LINGER) {
        return c->progress_ms + o->linger_ms;
    }
    at = RON_MIN(write_due_ms(c), RON_MIN(read_due_ms(c), call_due_ms(c)));
    return at != UINT64_MAX || !ron_list_empty(&c->calls) ? at
                                                          : c->progress_ms + o->idle_timeout_ms;
}

static void arm(struct oap_conn *c)
{
    uint64_t at = due_ms(c);

    if (at != UINT64_MAX && (!ron_timer_armed(&c->timer) || at < c->armed_ms)) {
        c->armed_ms = at;
        ron_task_timer_arm(c->w->task, &c->timer, at);
    }
}

/* ---- end of a connection --------------------------------------------------------------------- */

static void drop_parts(struct oap_conn *c)
{
    while (!ron_list_empty(&c->parts)) {
        ron__oap_part_free(c->w,
                           RON_LIST_ENTRY(ron_list_pop_front(&c->parts), struct oap_part, link));
    }
    c->part_count = 0;
}

static void destroy(struct oap_conn *c)
{
    struct oap_worker *w = c->w;

    RON_CHECK_MAGIC(c, OAP_CONN_MAGIC);
    ron_stat_bump(&w->disconnects, c->in_flight > 0 || c->part_count > 0);
    ron__oap_replies_detach(c);
    ron__oap_unsubscribe_all(c);
    drop_parts(c);
    ron_io_forget(&c->io);
    w->env->net->close(w->env, c->io.fd);
    ron_task_timer_cancel(w->task, &c->timer);
    ron_list_remove(&c->link);
    if (ron_list_linked(&c->again)) {
        ron_list_remove(&c->again);
    }
    ron__oap_in_release(c);
    ron_out_release(&c->out, &c->w->server->out_memory);
    (void)ron_au32_add(&w->server->connections, UINT32_MAX); /* minus one */
    w->hello_count -= c->hello ? 1 : 0;
    c->magic = 0;
    ron_pool_put(&w->conn_pool, c);
    ron__oap_drain_look(w);
}

/* Takes and forgets what the peer still sends; false when the connection is over. */
static bool discard(struct oap_conn *c)
{
    struct oap_worker *w = c->w;
    char room[4096];
    size_t got = 0;
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK && c->linger_bytes < OAP_LINGER_BYTES) {
        rc = w->env->net->read(w->env, c->io.fd, room, sizeof room, &got);
        c->linger_bytes += rc == RON_OK ? got : 0;
    }
    return rc == RON_AGAIN;
}

/* FIN, and the socket is kept until the peer has seen everything: closing it with unread bytes
 * would reset the connection and destroy the answers on their way. */
static void start_linger(struct oap_conn *c)
{
    enum ron_rc rc = c->w->env->net->shutdown_write(c->w->env, c->io.fd);

    ron__oap_in_release(c);
    ron__oap_unsubscribe_all(c);
    drop_parts(c);
    c->state = OAP_LINGER;
    c->progress_ms = c->w->now_ms;
    c->linger_bytes = 0;
    if (rc != RON_OK || !discard(c)) {
        c->dead = true;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* False when there is nothing to read now. */
static bool fill(struct oap_conn *c)
{
    struct oap_worker *w = c->w;
    size_t room;
    size_t got = 0;
    enum ron_rc rc;

    if (!c->readable) {
        return false;
    }
    if (!ron__oap_in_room(c)) {
        ron__oap_refuse(c, &(struct ron_oap_head){0}, RON_OAP_MEMORY);
        return false;
    }
    room = c->in->cap - c->in_len;
    RON_ASSERT(room > 0);
    rc = w->env->net->read(w->env, c->io.fd, c->in->bytes + c->in_len, room, &got);
    if (rc != RON_OK) {
        c->readable = false;
        c->eof = rc == RON_CLOSED;
        c->dead = rc != RON_CLOSED && rc != RON_AGAIN;
        return false;
    }
    /* Fewer bytes than asked for means that the socket is empty: one system call less. Not when the
     * peer has closed, because then the end is still to be read. */
    c->readable = got == room || c->hup;
    if (c->in_len == c->in_at) {
        c->frame_start_ms = w->now_ms;
    }
    c->in_len += (uint32_t)got;
    c->progress_ms = w->now_ms;
    ron_stat_bump(&w->bytes_in, got);
    return true;
}

/* One frame, or more bytes; false when neither is to be had. */
static bool step(struct oap_conn *c)
{
    const uint8_t *at = c->in == NULL ? NULL : c->in->bytes + c->in_at;
    size_t have = c->in_len - c->in_at;
    struct ron_oap_frame f;
    struct ron_oap_head head;
    size_t need = RON_OAP_HEADER_BYTES;
    enum ron_oap_reason reason = RON_OAP_NONE;

    if (have == 0) {
        c->in_need = RON_OAP_HEADER_BYTES;
        return fill(c);
    }
    switch (ron_oap_decode(at, have, c->w->server->opts.frame_max, &f, &need, &reason)) {
    case RON_OAP_STEP_MORE:
        c->in_need = (uint32_t)need;
        return fill(c);
    case RON_OAP_STEP_FRAME:
        ron__oap_frame(c, &f);
        c->in_at += (uint32_t)f.frame_len;
        c->frame_start_ms = c->w->now_ms;
        return true;
    case RON_OAP_STEP_REFUSED:
        ron_oap_decode_head(at, have, &head);
        ron__oap_refuse(c, &head, reason);
        return false;
    }
    RON_UNREACHABLE();
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static bool at_rest(const struct oap_conn *c)
{
    return ron_list_empty(&c->calls) && c->part_count == 0 && c->in_len == c->in_at;
}

/* C7. Changing the interest looks at the socket anew, so room that came meanwhile is told. */
static void watch_room(struct oap_conn *c)
{
    bool waits = ron_out_len(&c->out) > 0;
    uint32_t room = waits ? (uint32_t)RON_IO_WRITE : 0;

    if (c->dead || waits == c->watches_room) {
        return;
    }
    c->watches_room = waits;
    c->dead = ron_io_watch(c->w->task, &c->io, RON_IO_READ | RON_IO_EDGE | room) != RON_OK;
}

/* Makes C2, C3 and C7 true again, and looks at what is left of the connection. */
static void settle(struct oap_conn *c)
{
    if (ron_buf_len(&c->w->out) > 0 || ron_buf_error(&c->w->out) != RON_OK) {
        ron__oap_flush(c, NULL, 0);
    }
    watch_room(c);
    if (!c->dead && ron_out_len(&c->out) == 0 && c->state == OAP_OPEN) {
        if (c->eof && ron_list_empty(&c->calls)) {
            ron_stat_bump(&c->w->disconnects, !at_rest(c));
            c->closing = true;
        }
        if (c->w->draining && !c->hello && !c->readable && at_rest(c)) {
            c->closing = true;
        }
        if (c->closing && ron_list_empty(&c->calls)) {
            start_linger(c);
        }
    }
    if (c->dead || (c->state == OAP_LINGER && c->eof)) {
        destroy(c);
        return;
    }
    if (c->in != NULL && c->in_len == c->in_at) {
        ron__oap_in_rest(c); /* C3 */
    }
    arm(c);
}

void ron__oap_conn_run(struct oap_conn *c)
{
    uint32_t frames = 0;
    bool more = c->state == OAP_OPEN;

    if (more) {
        ron__oap_replies_write(c);
        if (ron_out_len(&c->out) == 0) {
            ron__oap_event_lag(c);
        }
    }
    while (more && !c->dead && !c->closing && ron_out_len(&c->out) == 0) {
        if (++frames > OAP_FRAMES_PER_TURN) {
            if (!ron_list_linked(&c->again)) {
                ron_list_push_back(&c->w->again, &c->again);
            }
            ron_task_wake(c->w->task);
            break;
        }
        more = step(c);
    }
    settle(c);
}

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct oap_conn *c = RON_CONTAINER_OF(io, struct oap_conn, io);

    RON_CHECK_MAGIC(c, OAP_CONN_MAGIC);
    ron__oap_tick(c->w);
    c->hup = c->hup || (events & RON_IO_HUP) != 0;
    c->readable = c->readable || (events & (RON_IO_READ | RON_IO_HUP)) != 0;
    c->dead = (events & RON_IO_ERR) != 0;
    if (c->hup) {
        ron__oap_replies_cancel(c);
    }
    if (c->state == OAP_LINGER) {
        c->dead = c->dead || !discard(c);
    } else if (ron_out_len(&c->out) > 0) {
        ron__oap_flush_out(c);
        if (ron_out_len(&c->out) == 0) {
            c->frame_start_ms = c->w->now_ms; /* We read again: the peer's time begins anew. */
            c->progress_ms = c->w->now_ms;
        }
    }
    if (ron_list_linked(&c->again)) {
        ron_list_remove(&c->again);
    }
    ron__oap_conn_run(c);
}

/* ---- timeouts -------------------------------------------------------------------------------- */

static void too_late(struct oap_conn *c)
{
    struct oap_worker *w = c->w;

    if (c->state == OAP_LINGER) {
        c->dead = true;
    } else if (w->now_ms >= write_due_ms(c)) {
        ron_stat_bump(&w->write_timeouts, 1);
        c->dead = true; /* It does not read: there is nothing to tell it. */
    } else if (w->now_ms >= read_due_ms(c)) {
        ron_stat_bump(&w->read_timeouts, 1);
        ron__oap_refuse(c, &(struct ron_oap_head){0}, RON_OAP_READ_SLOW);
    } else if (ron_list_empty(&c->calls)) {
        ron_stat_bump(&w->idle_timeouts, 1);
        c->closing = true;
    } else {
        ron__oap_replies_expire(c, w->now_ms);
    }
}

static void on_timer(struct ron_timer *timer)
{
    struct oap_conn *c = RON_CONTAINER_OF(timer, struct oap_conn, timer);

    RON_CHECK_MAGIC(c, OAP_CONN_MAGIC);
    ron__oap_tick(c->w);
    if (c->w->now_ms >= due_ms(c)) {
        too_late(c);
    }
    settle(c);
}

/* ---- birth, drain, finish -------------------------------------------------------------------- */

static bool allowed(const struct ron_oap_opts *o, const struct ron_peer *peer)
{
    struct ron_peer_list list = {o->allow_uids, o->allow_uid_count, o->allow_gids,
                                 o->allow_gid_count};

    return ron_peer_list_empty(&list) || ron_peer_listed(&list, peer);
}

void ron__oap_conn_open(struct oap_worker *w, int take_fd, const struct ron_peer *peer)
{
    struct ron_oap_server *s = w->server;
    struct oap_conn *c = ron_pool_get(&w->conn_pool);
    uint32_t others;

    if (c == NULL) {
        ron_stat_bump(&w->rejected[RON_OAP_CONNECTIONS], 1);
        w->env->net->close(w->env, take_fd);
        return;
    }
    *c = (struct oap_conn){.magic = OAP_CONN_MAGIC,
                           .w = w,
                           .io = {.fd = take_fd, .ready = on_ready},
                           .peer = *peer,
                           .peer_frame_max = s->opts.frame_max,
                           .readable = true, /* The request is often there already. */
                           .progress_ms = w->now_ms};
    ron_timer_init(&c->timer, on_timer);
    ron_list_init(&c->calls);
    ron_list_init(&c->ready);
    ron_list_init(&c->parts);
    /* An answer, the echo of a PING, events, and refusals beside them. */
    ron_out_init(&c->out,
                 s->opts.answer_max + s->opts.frame_max + s->opts.subscriber_bytes + OAP_OUT_BYTES);
    ron_list_push_back(&w->conns, &c->link);
    others = ron_au32_add(&s->connections, 1);
    ron_stat_bump(&w->accepted, 1);
    if (ron_io_watch(w->task, &c->io, RON_IO_READ | RON_IO_EDGE) != RON_OK) {
        c->io._task = NULL;
        destroy(c);
        return;
    }
    if (!allowed(&s->opts, peer)) {
        ron__oap_refuse(c, &(struct ron_oap_head){0}, RON_OAP_DENIED);
    } else if (others >= s->opts.connections_max) {
        ron__oap_refuse(c, &(struct ron_oap_head){0}, RON_OAP_CONNECTIONS);
    }
    ron__oap_conn_run(c);
}

void ron__oap_conn_drain(struct oap_conn *c)
{
    if (c->state != OAP_OPEN || c->closing) {
        return;
    }
    if (c->hello) {
        ron__oap_write(
            c, &(struct ron_oap_head){.flags = RON_OAP_EVENT, .code = RON_OAP_CTL_DRAINING}, "", 0);
    }
    c->readable = true; /* Requests may have come that nobody has read yet: they get their 503. */
    ron__oap_conn_run(c);
}

void ron__oap_conn_finish(struct oap_conn *c)
{
    c->readable = true;
    if (c->state == OAP_OPEN && !c->closing) {
        for (int i = 0; i < OAP_FRAMES_PER_TURN && !c->dead && !c->closing && step(c); i++) {
        }
        ron__oap_replies_write(c);
        /* Calls that somebody still holds: nobody knows how they end. */
        ron__oap_replies_expire(c, UINT64_MAX);
    }
    ron__oap_flush(c, NULL, 0);
    ron__oap_flush_out(c);
    if (c->state == OAP_OPEN && !c->dead) {
        start_linger(c);
    }
    destroy(c);
}
