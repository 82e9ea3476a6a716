/* SPDX-License-Identifier: Apache-2.0 */
/* client_conn.c - the client's connection: connect, HELLO, frames both ways, time.
 *
 * Place: wire, on the client's task. States and invariants K1-K4 are in client_priv.h.
 *
 * A turn: read what is there and deliver answers, take what was submitted, write as many requests
 * as flow and socket allow with one system call, and set the one timer. What one turn reads and
 * writes is bounded; it wakes its task where it has left something that no event will tell of. */
#include <string.h>

#include "client_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/json.h"
#include "wire/frame.h"
#include "wire_priv.h"

/* A connection that ends sooner counts as a failed one: no hot loop with a server that hangs up. */
enum { LASTING_MS = 1000 };

static void tick(struct ron_oap_client *c)
{
    c->now_ms = ron_env_now_ns(c->env) / RON_NS_PER_MS;
}

/* The connection is of no use any more; it is closed at the end of the turn. */
void ron__oap_client_lose(struct ron_oap_client *c, enum ron_rc rc)
{
    if (!c->lost) {
        c->lost = true;
        c->lost_rc = rc;
    }
}

static bool talking(const struct ron_oap_client *c)
{
    return c->state == OAP_C_HELLO || c->state == OAP_C_READY || c->state == OAP_C_LEAVING;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* K4: the next corr_id whose slot is free. There are twice as many slots as requests. */
static struct oap_slot *slot_take(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    struct oap_slot *s;

    do {
        c->next_corr++;
        s = &c->slots[c->next_corr & c->slot_mask];
    } while (s->used);
    s->used = true;
    s->open = false;
    s->failed = false;
    s->corr_id = c->next_corr;
    s->ask = ask;
    s->app = ask == NULL ? 0 : ask->app;
    s->tenant = ask == NULL ? 0 : ask->tenant;
    if (c->slots_used++ == 0) {
        c->heard_ms = c->now_ms;
    }
    ron_stat_set(&c->n_in_flight, c->slots_used);
    return s;
}

void ron__oap_slot_free(struct ron_oap_client *c, struct oap_slot *s)
{
    if (s->part.cap > 0) {
        ron_buf_done(&s->part);
        ron_buf_init(&s->part, c->opts.answer_max);
    }
    s->used = false;
    s->ask = NULL;
    c->slots_used--;
    ron_stat_set(&c->n_in_flight, c->slots_used);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Writes `out` and `payload` behind it; keeps what the socket does not take. */
static void flush(struct ron_oap_client *c, const void *payload, size_t len)
{
    size_t front = ron_buf_len(&c->out);
    enum ron_rc rc = RON_OK;
    size_t done;

    if (ron_buf_error(&c->out) != RON_OK) {
        ron__oap_client_lose(c, ron_buf_error(&c->out));
    }
    if (c->lost || front + len == 0) {
        return;
    }
    done = ron__oap_write_two(c->env, c->io.fd, ron_buf_data(&c->out), front, payload, len,
                              &c->n_writes, &rc);
    c->written += done;
    if (done > 0) {
        c->out_progress_ms = c->now_ms;
    }
    if (rc != RON_OK && rc != RON_AGAIN) {
        ron__oap_client_lose(c, rc);
        return;
    }
    ron_buf_consume(&c->out, RON_MIN(done, front));
    done = done > front ? done - front : 0;
    if (len > done &&
        ron_buf_append(&c->out, (const uint8_t *)payload + done, len - done) != RON_OK) {
        ron__oap_client_lose(c, ron_buf_error(&c->out));
    }
}

static void put_frame(struct ron_oap_client *c, const struct ron_oap_head *head, const void *cap,
                      const uint8_t *payload, size_t len)
{
    size_t front = RON_OAP_HEADER_BYTES + (size_t)head->cap_len;
    size_t copied = len <= OAP_CLIENT_COPY_MAX ? len : 0;
    uint8_t *room = NULL;

    if (ron_buf_len(&c->out) == 0) {
        c->out_progress_ms = c->now_ms;
    }
    c->appended += front + len;
    if (ron_buf_reserve(&c->out, front + copied, &room) != RON_OK) {
        return; /* It sticks; the flush sees it. */
    }
    ron_oap_write_head(head, len, room);
    if (head->cap_len > 0) {
        memcpy(room + RON_OAP_HEADER_BYTES, cap, head->cap_len);
    }
    if (copied > 0) {
        memcpy(room + front, payload, copied);
    }
    ron_buf_commit(&c->out, front + copied);
    if (copied < len) {
        flush(c, payload, len);
    }
}

/* Right before the request: an event has no other place. */
static void put_trace(struct ron_oap_client *c, const struct ron_oap_ask *ask, uint64_t corr_id)
{
    struct ron_oap_head head = {.flags = RON_OAP_EVENT,
                                .code = RON_OAP_CTL_TRACE,
                                .corr_id = corr_id,
                                .tenant = ask->tenant};
    uint8_t bytes[RON_OAP_TRACE_BYTES];

    ron_oap_trace_write(&ask->trace, bytes);
    put_frame(c, &head, NULL, bytes, sizeof bytes);
}

static void put_ask(struct ron_oap_client *c, struct ron_oap_ask *ask)
{
    struct oap_slot *s = slot_take(c, ask);
    struct ron_oap_head head = {
        .code = ask->code, .app = ask->app, .corr_id = s->corr_id, .tenant = ask->tenant};
    unsigned kind = RON_OAP_REQ | (ask->e2e ? RON_OAP_APP_E2E : 0u);
    struct ron_oap_cut cut;
    uint16_t piece = 0;
    size_t at = 0;
    size_t n = 0;

    ask->_state = OAP_ASK_SENT;
    ask->_slot = (uint32_t)(s->corr_id & c->slot_mask);
    s->end = UINT64_MAX; /* K3: not whole before its last piece is in the stream */
    if (c->takes_traces && ron_trace_ctx_valid(&ask->trace)) {
        put_trace(c, ask, s->corr_id);
    }
    ron_oap_cut_init(&cut, ask->payload_len, ask->cap_len, c->frame_max);
    while (ron_oap_cut_next(&cut, &piece, &at, &n) && !c->lost) {
        head.flags = (uint16_t)(kind | piece);
        head.cap_len = at == 0 ? ask->cap_len : 0;
        put_frame(c, &head, ask->cap, (const uint8_t *)ask->payload + at, n);
    }
    if (!c->lost) {
        s->end = c->appended;
    }
}

/* A request of the client itself; its answer is only taken note of. */
uint64_t ron__oap_client_control(struct ron_oap_client *c, uint16_t code, struct ron_str cap,
                                 const void *payload, size_t len)
{
    struct oap_slot *s = slot_take(c, NULL);
    unsigned whole = cap.len > 0 ? RON_OAP_START | RON_OAP_END : 0u;
    struct ron_oap_head head = {.flags = (uint16_t)(RON_OAP_REQ | whole),
                                .code = code,
                                .cap_len = (uint16_t)cap.len,
                                .corr_id = s->corr_id};

    put_frame(c, &head, cap.ptr, payload, len);
    s->end = c->appended;
    return s->corr_id;
}

void ron__oap_slot_abandon(struct ron_oap_client *c, uint32_t slot)
{
    struct oap_slot *s = &c->slots[slot];
    struct ron_oap_head head = {.flags = RON_OAP_EVENT,
                                .code = RON_OAP_CTL_CANCEL,
                                .corr_id = s->corr_id,
                                .tenant = s->tenant};

    RON_ASSERT(s->used);
    s->ask = NULL;
    if (talking(c) && !c->lost) {
        put_frame(c, &head, NULL, NULL, 0);
    }
}

/* ---- the end of a connection ----------------------------------------------------------------- */

static void end_slot(struct ron_oap_client *c, struct oap_slot *s, enum ron_rc rc, bool requeue)
{
    struct ron_oap_ask *ask = s->ask;
    bool whole = s->end <= c->written; /* K3 */

    ron__oap_slot_free(c, s);
    if (ask == NULL) {
        return;
    }
    if (whole) {
        ron__oap_ask_finish(c, ask, RON_OAP_UNKNOWN, rc);
    } else if (requeue && !c->opts.fail_fast) {
        ron__oap_ask_requeue(c, ask);
    } else {
        ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, rc);
    }
}

void ron__oap_client_close(struct ron_oap_client *c, enum ron_rc rc, bool requeue)
{
    bool gap = c->state == OAP_C_READY || c->state == OAP_C_LEAVING;

    if (c->unread) { /* What the server has said is true, however the connection ends. */
        c->unread = false;
        c->lost = false;
        (void)ron__oap_client_read(c, OAP_CLIENT_FRAMES_LAST);
    }
    if (c->io.fd >= 0) {
        ron_io_forget(&c->io);
        c->env->net->close(c->env, c->io.fd);
        c->io.fd = -1;
    }
    c->state = OAP_C_IDLE;
    c->lost = false;
    ron_stat_set(&c->n_connected, 0);
    /* From the youngest back, so that what returns to the front of the queue keeps its order: it
     * was written last, so its corr_ids are among the last. */
    for (uint32_t i = 0; i <= c->slot_mask; i++) {
        struct oap_slot *s = &c->slots[(c->next_corr - i) & c->slot_mask];

        if (s->used) {
            end_slot(c, s, rc, requeue);
        }
    }
    ron_buf_done(&c->out);
    ron__oap_client_out_init(c);
    c->in_at = 0;
    c->in_len = 0;
    c->appended = 0;
    c->written = 0;
    c->readable = false;
    c->hup = false;
    if (gap && c->opts.on_gap != NULL) {
        for (size_t i = 0; i < c->opts.subscribe_count; i++) {
            c->opts.on_gap(c->opts.arg, c->opts.subscribe[i], UINT64_MAX);
        }
    }
}

/* A connection that came to nothing: wait before the next. */
static void back_off(struct ron_oap_client *c)
{
    uint64_t wait_ns = ron_retry_wait_ns(&c->backoff, c->failures, &c->rand);

    c->failures += c->failures < 32;
    c->state = OAP_C_WAIT;
    c->state_until_ms = c->now_ms + wait_ns / RON_NS_PER_MS + 1;
    ron_stat_bump(&c->n_retries, 1);
    while (c->opts.fail_fast && c->queue_len > 0) {
        ron__oap_ask_finish(c, ron__oap_ask_pop(c), RON_OAP_NOT_SENT, RON_CLOSED);
    }
}

/* ---- birth of a connection ------------------------------------------------------------------- */

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct ron_oap_client *c = RON_CONTAINER_OF(io, struct ron_oap_client, io);

    RON_CHECK_MAGIC(c, OAP_CLIENT_MAGIC);
    c->hup = c->hup || (events & RON_IO_HUP) != 0;
    c->readable = c->readable || (events & (RON_IO_READ | RON_IO_HUP | RON_IO_ERR)) != 0;
    ron__oap_client_run(c);
}

static void say_hello(struct ron_oap_client *c)
{
    char room[256];
    struct ron_buf body;
    struct ron_json_writer w;

    ron_buf_init_over(&body, room, sizeof room);
    ron_json_begin(&w, &body);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "ua", c->opts.ua == NULL ? "ron" : c->opts.ua);
    ron_json_u64(&w, "max_frame", RON_OAP_FRAME_MAX);
    ron_json_close(&w, '}');
    RON_ASSERT(ron_buf_error(&body) == RON_OK);
    c->frame_max = RON_OAP_FRAME_MAX;
    c->state = OAP_C_HELLO;
    c->hello_corr = ron__oap_client_control(c, RON_OAP_CTL_HELLO, (struct ron_str){0},
                                            ron_buf_data(&body), ron_buf_len(&body));
}

static void look_connected(struct ron_oap_client *c)
{
    enum ron_rc rc = c->env->net->connect_result(c->env, c->io.fd);

    if (rc == RON_OK) {
        c->readable = true;
        say_hello(c);
    } else if (rc != RON_AGAIN) {
        ron__oap_client_lose(c, rc);
    }
}

static void begin_connect(struct ron_oap_client *c)
{
    int fd = -1;

    ron_stat_bump(&c->n_connects, 1);
    if (c->env->net->connect(c->env, c->addr, &fd, NULL) != RON_OK) {
        back_off(c);
        return;
    }
    c->io = (struct ron_io){.fd = fd, .ready = on_ready};
    c->state = OAP_C_CONNECTING;
    c->state_until_ms = c->now_ms + c->opts.connect_timeout_ms;
    c->watches_room = true; /* how a socket tells that it is connected */
    if (ron_io_watch(c->task, &c->io, RON_IO_READ | RON_IO_WRITE | RON_IO_EDGE) != RON_OK) {
        c->io._task = NULL;
        ron__oap_client_lose(c, RON_IO);
        return;
    }
    look_connected(c); /* A Unix socket is connected at once. */
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t due_ms(const struct ron_oap_client *c)
{
    uint64_t at = UINT64_MAX;

    switch (c->state) {
    case OAP_C_IDLE:
        return UINT64_MAX;
    case OAP_C_WAIT:
    case OAP_C_CONNECTING:
    case OAP_C_HELLO:
        return c->state_until_ms;
    case OAP_C_READY:
    case OAP_C_LEAVING:
        break;
    }
    if (ron_buf_len(&c->out) > 0) {
        at = c->out_progress_ms + c->opts.write_timeout_ms;
    }
    if (c->slots_used > 0 || c->in_len > c->in_at) {
        return RON_MIN(at, c->heard_ms + c->opts.stall_ms);
    }
    /* The server ends who says nothing, also while it tells us events. */
    return RON_MIN(at, RON_MIN(c->heard_ms, c->out_progress_ms) + c->opts.keepalive_ms);
}

static void look_at_clock(struct ron_oap_client *c)
{
    if (c->now_ms < due_ms(c)) {
        return;
    }
    if (c->state == OAP_C_WAIT) {
        c->state = OAP_C_IDLE;
    } else if (c->state == OAP_C_CONNECTING || c->state == OAP_C_HELLO) {
        ron_stat_bump(&c->n_connect_timeouts, 1);
        ron__oap_client_lose(c, RON_TIMEOUT);
    } else if (c->slots_used > 0 || ron_buf_len(&c->out) > 0 || c->in_len > c->in_at) {
        ron_stat_bump(&c->n_stalls, 1);
        ron__oap_client_lose(c, RON_TIMEOUT);
    } else {
        (void)ron__oap_client_control(c, RON_OAP_CTL_PING, (struct ron_str){0}, NULL, 0);
    }
}

static void arm(struct ron_oap_client *c)
{
    uint64_t at = due_ms(c);

    if (c->state == OAP_C_READY && c->resubscribe_ms != 0) {
        at = RON_MIN(at, c->resubscribe_ms);
    }
    if (at != UINT64_MAX && (!ron_timer_armed(&c->timer) || at < c->armed_ms)) {
        c->armed_ms = at;
        ron_task_timer_arm(c->task, &c->timer, at);
    }
}

void ron__oap_client_on_timer(struct ron_timer *timer)
{
    ron__oap_client_run(RON_CONTAINER_OF(timer, struct ron_oap_client, timer));
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static void write_all(struct ron_oap_client *c)
{
    while (c->state == OAP_C_READY && !c->lost && c->slots_used < c->flow &&
           ron_buf_len(&c->out) < OAP_CLIENT_OUT_BYTES && c->queue_len > 0) {
        struct ron_oap_ask *ask = ron__oap_ask_pop(c);

        if (RON_OAP_HEADER_BYTES + (size_t)ask->cap_len >= c->frame_max) {
            ron__oap_ask_finish(c, ask, RON_OAP_NOT_SENT, RON_LIMIT);
        } else {
            put_ask(c, ask);
        }
    }
    if (talking(c)) {
        flush(c, NULL, 0);
    }
    if (c->state == OAP_C_READY && !c->lost && c->slots_used < c->flow &&
        ron_buf_len(&c->out) == 0 && c->queue_len > 0) {
        ron_task_wake(c->task); /* A full buffer ended the loop, and the socket took all of it. */
    }
}

/* K5. Changing the interest looks at the socket anew, so room that came meanwhile is told. */
static void watch_room(struct ron_oap_client *c)
{
    bool waits = ron_buf_len(&c->out) > 0;
    uint32_t room = waits ? (uint32_t)RON_IO_WRITE : 0;

    if (!talking(c) || c->lost || waits == c->watches_room) {
        return;
    }
    c->watches_room = waits;
    if (ron_io_watch(c->task, &c->io, RON_IO_READ | RON_IO_EDGE | room) != RON_OK) {
        ron__oap_client_lose(c, RON_IO);
    }
}

static void settle(struct ron_oap_client *c)
{
    if (c->state == OAP_C_LEAVING && c->slots_used == 0 && !c->lost) {
        ron__oap_client_lose(c, RON_CLOSED);
    }
    if (c->lost) {
        bool lasted = c->state == OAP_C_READY && c->now_ms >= c->ready_ms + LASTING_MS;

        ron__oap_client_close(c, c->lost_rc, true);
        if (!lasted) {
            back_off(c); /* Also after a drain: the next server needs a moment. */
        }
    }
    if (c->state == OAP_C_IDLE && (c->queue_len > 0 || c->opts.subscribe_count > 0)) {
        begin_connect(c);
    }
}

void ron__oap_client_run(struct ron_oap_client *c)
{
    if (c->in_turn) {
        return; /* A callback's cancel or a timer inside a turn: the turn goes on anyway. */
    }
    c->in_turn = true;
    tick(c);
    if (c->state == OAP_C_CONNECTING) {
        look_connected(c);
    }
    c->unread = talking(c) && ron__oap_client_read(c, OAP_CLIENT_FRAMES_PER_TURN);
    if (c->unread) {
        ron_task_wake(c->task);
    }
    ron__oap_asks_take(c);
    look_at_clock(c);
    ron__oap_client_resubscribe(c);
    settle(c);
    write_all(c);
    watch_room(c);
    settle(c);
    c->in_turn = false;
    arm(c);
}
