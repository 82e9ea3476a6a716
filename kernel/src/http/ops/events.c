/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/ops/events.c - server-sent events from a bus: the streams and the task that
 * serves them.
 *
 * A stream belongs to its handler until it is in the queue `joining`, then to the task alone. */
#include "ron/http/events.h"

#include <inttypes.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/chan/chan.h"
#include "ron/obs/log.h"

enum {
    TAKE = 32,       /* events formatted at once: they fit one piece of a stream */
    WARN_MS = 1000,  /* between two lines of the log: a reader that lags does so again and again */
    BEAT_MS = 15000, /* below the minute after which proxies close what is silent */
};

struct stream {
    struct ron_http_reply *reply;
    struct ron_bus_reader reader;
    bool begun;
    bool expired; /* the last event has been written */
    uint64_t beat_ms;
    uint64_t until_wall_ms;
    struct ron_buf pending; /* formatted and not yet taken by the connection */
    char topic[RON_HTTP_EVENTS_TOPIC_MAX + 1];
};

struct ron_http_events {
    struct ron_http_events_opts opts;
    struct ron_bus *bus;
    struct ron_chan *joining;
    struct ron_task *task;
    struct ron_au32 count;
    uint64_t missed;  /* by readers that lagged, not yet told to the log */
    uint64_t warn_ms; /* when that may be told next */
    uint8_t *taken;   /* room for TAKE messages */
    uint32_t stream_count;
    struct stream *streams[];
};

void ron_http_events_publish(struct ron_http_events *v, const void *message)
{
    RON_IGNORE(ron_bus_publish(v->bus, message)); /* closed at the very end only */
}

bool ron_http_events_watched(const struct ron_http_events *v)
{
    return ron_au32_load(&v->count) > 0;
}

/* ---- one stream ------------------------------------------------------------------------------ */

/* Fills `pending` from the bus when it is empty; false when there is nothing. */
static bool format(struct ron_http_events *v, struct stream *st)
{
    while (ron_buf_len(&st->pending) == 0) {
        uint64_t missed = 0;
        size_t count = 0;
        enum ron_rc rc = ron_bus_poll(&st->reader, v->taken, TAKE, &count, &missed);

        if (rc == RON_LAGGED) {
            v->missed += missed;
            RON_IGNORE(ron_buf_append_fmt(
                &st->pending, "event: lagged\ndata: {\"missed\":%" PRIu64 "}\n\n", missed));
            return true;
        }
        if (rc != RON_OK || count == 0) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            RON_IGNORE(
                v->opts.format(&st->pending, v->taken + i * v->opts.message_bytes, st->topic));
        }
    }
    return true;
}

/* Writes `pending`. RON_AGAIN: woken when there is room; the bus goes on without us. */
static enum ron_rc flush(struct stream *st, uint64_t now_ms)
{
    RON_TRY(ron_buf_error(&st->pending));
    RON_TRY(ron_http_reply_write(st->reply, ron_buf_data(&st->pending), ron_buf_len(&st->pending)));
    ron_buf_clear(&st->pending);
    st->beat_ms = now_ms + BEAT_MS;
    return RON_OK;
}

/* Sends what there is. False: it is over. */
static bool serve(struct ron_http_events *v, struct stream *st, uint64_t now_ms, uint64_t wall_ms)
{
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK && (ron_buf_len(&st->pending) > 0 || (!st->expired && format(v, st)))) {
        rc = flush(st, now_ms);
    }
    if (rc == RON_OK && !st->expired && wall_ms >= st->until_wall_ms) {
        st->expired = true;
        RON_IGNORE(ron_buf_append_text(&st->pending, "event: expired\ndata: {}\n\n"));
        rc = flush(st, now_ms);
    }
    if (rc == RON_OK && st->expired) {
        return false;
    }
    if (rc == RON_OK && now_ms >= st->beat_ms) {
        st->beat_ms = now_ms + BEAT_MS;
        rc = ron_http_reply_write(st->reply, ": beat\n\n", 8);
    } else if (rc == RON_OK) {
        rc = ron_http_reply_write(st->reply, "", 0); /* is the client still there? */
    }
    return rc == RON_OK || rc == RON_AGAIN;
}

static bool begin(struct ron_http_events *v, struct stream *st, uint64_t now_ms)
{
    struct ron_err err = {0};

    RON_IGNORE(ron_http_reply_add_header(st->reply, "Cache-Control", RON_STR_LIT("no-store")));
    RON_IGNORE(ron_http_reply_add_header(st->reply, "X-Accel-Buffering", RON_STR_LIT("no")));
    if (ron_bus_subscribe(v->bus, &st->reader, ron_task_waker(v->task), &err) != RON_OK) {
        ron_http_reply_fail(st->reply, RON_HTTP_BUSY);
        return false;
    }
    if (ron_http_reply_begin(st->reply, &(struct ron_http_stream_opts){
                                            .status = 200,
                                            .content_type = "text/event-stream",
                                            .length = RON_HTTP_UNKNOWN,
                                            .quiet = true,
                                            .waker = ron_task_waker(v->task)}) != RON_OK) {
        ron_bus_unsubscribe(&st->reader);
        ron_http_reply_fail(st->reply, RON_HTTP_BUSY);
        return false;
    }
    st->begun = true;
    st->beat_ms = now_ms + BEAT_MS;
    RON_IGNORE(ron_buf_append_fmt(&st->pending, ": %s\nretry: 1000\n\n", v->opts.greeting));
    return true;
}

static void end(struct ron_http_events *v, struct stream *st)
{
    if (st->begun) {
        ron_bus_unsubscribe(&st->reader);
        ron_http_reply_end(st->reply);
    }
    ron_buf_done(&st->pending);
    ron_free(st);
    (void)ron_au32_add(&v->count, UINT32_MAX); /* minus one */
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct ron_http_events *v = arg;

    v->task = t;
    return RON_OK;
}

/* When the stream wants to be looked at even if nothing happens. */
static uint64_t look_again_ms(const struct stream *st, uint64_t now_ms, uint64_t wall_ms)
{
    uint64_t left = st->until_wall_ms > wall_ms ? st->until_wall_ms - wall_ms : 0;

    return RON_MIN(st->beat_ms, left < BEAT_MS ? now_ms + left : UINT64_MAX);
}

/* When it is to be looked at again; UINT64_MAX: all is told. */
static uint64_t tell_missed(struct ron_http_events *v, uint64_t now_ms)
{
    if (v->missed == 0 || v->opts.log == NULL) {
        return UINT64_MAX;
    }
    if (now_ms < v->warn_ms) {
        return v->warn_ms;
    }
    RON_LOG(v->opts.log, WARN, "a reader of events lags and misses the oldest",
            RON_LOG_STR("bus", v->opts.bus_name), RON_LOG_U64("missed", v->missed));
    v->missed = 0;
    v->warn_ms = now_ms + WARN_MS;
    return UINT64_MAX;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct ron_http_events *v = arg;
    uint64_t now_ms = ron_task_now_ms(t);
    uint64_t wall_ms = ron_env_wall_ms(v->opts.env);
    uint64_t next_ms = UINT64_MAX;
    uint32_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct stream *st = items[i];

        if (begin(v, st, now_ms)) {
            v->streams[v->stream_count++] = st;
        } else {
            end(v, st);
        }
    }
    for (uint32_t i = 0; i < v->stream_count; i++) {
        struct stream *st = v->streams[i];

        if (serve(v, st, now_ms, wall_ms)) {
            next_ms = RON_MIN(next_ms, look_again_ms(st, now_ms, wall_ms));
            v->streams[kept++] = st;
        } else {
            end(v, st);
        }
    }
    v->stream_count = kept;
    next_ms = RON_MIN(next_ms, tell_missed(v, now_ms));
    ron_task_wake_at(t, next_ms);
    return RON_OK;
}

static void stop(struct ron_task *t, void *arg)
{
    struct ron_http_events *v = arg;

    (void)t;
    for (uint32_t i = 0; i < v->stream_count; i++) {
        end(v, v->streams[i]);
    }
    v->stream_count = 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static enum ron_rc new_stream(struct ron_http_events *v, struct ron_str topic,
                              struct stream **ret_stream)
{
    struct stream *st;

    if (topic.len > RON_HTTP_EVENTS_TOPIC_MAX) {
        return RON_LIMIT;
    }
    if (ron_au32_add(&v->count, 1) >= v->opts.streams_max) {
        (void)ron_au32_add(&v->count, UINT32_MAX); /* minus one */
        return RON_FULL;
    }
    st = ron_alloc_zero(sizeof *st);
    if (st == NULL) {
        (void)ron_au32_add(&v->count, UINT32_MAX); /* minus one */
        return RON_NOMEM;
    }
    if (topic.len > 0) {
        memcpy(st->topic, topic.ptr, topic.len);
    }
    ron_buf_init(&st->pending, (size_t)TAKE * RON_HTTP_EVENT_BYTES_MAX);
    *ret_stream = st;
    return RON_OK;
}

enum ron_rc ron_http_events_join(struct ron_http_events *v, struct ron_http_call *call,
                                 struct ron_str topic, uint64_t until_wall_ms)
{
    struct stream *st = NULL;
    enum ron_rc rc;

    RON_TRY(new_stream(v, topic, &st));
    st->until_wall_ms = until_wall_ms;
    rc = ron_http_defer(call, &st->reply);
    if (rc == RON_OK) {
        rc = ron_chan_try_send(v->joining, st, NULL);
        if (rc != RON_OK) {
            ron_http_undefer(call, st->reply);
        }
    }
    if (rc != RON_OK) {
        end(v, st);
    }
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void drop_stream(void *item, void *arg)
{
    struct stream *st = item;

    ron_http_reply_fail(st->reply, RON_HTTP_DRAINING);
    end(arg, st);
}

static enum ron_rc build(struct ron_http_events *v, struct ron_err *err)
{
    const struct ron_http_events_opts *o = &v->opts;

    RON_TRY(ron_bus_new(&(struct ron_bus_opts){.registry = o->registry,
                                               .name = o->bus_name,
                                               .producers = o->producers,
                                               .consumers = o->task_name,
                                               .capacity = o->capacity,
                                               .message_bytes = o->message_bytes,
                                               .readers_max = o->streams_max},
                        &v->bus, err));
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = o->registry,
                                                 .env = o->env,
                                                 .name = o->chan_name,
                                                 .producers = "http",
                                                 .consumers = o->task_name,
                                                 .drop_text = "a stream without a place is 429",
                                                 .capacity = o->streams_max,
                                                 .policy = RON_CHAN_REJECT,
                                                 .wake_batch = 1,
                                                 .drop = drop_stream,
                                                 .drop_arg = v},
                         &v->joining, err));
    return ron_sup_add(o->sup,
                       &(struct ron_task_def){.name = o->task_name,
                                              .kind = o->task_name,
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = o->stage,
                                              .input = v->joining,
                                              .start = start,
                                              .handle = handle,
                                              .stop = stop,
                                              .arg = v},
                       NULL, err);
}

enum ron_rc ron_http_events_new(const struct ron_http_events_opts *opts,
                                struct ron_http_events **ret_events, struct ron_err *err)
{
    struct ron_http_events *v =
        ron_alloc_zero(sizeof *v + opts->streams_max * sizeof(struct stream *));
    enum ron_rc rc = RON_OK;

    if (v != NULL) {
        v->taken = ron_alloc((size_t)TAKE * opts->message_bytes);
    }
    if (v == NULL || v->taken == NULL) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for the event streams");
    } else {
        v->opts = *opts;
        rc = build(v, err);
    }
    if (rc != RON_OK) {
        ron_http_events_free(v);
        return rc;
    }
    *ret_events = v;
    return RON_OK;
}

void ron_http_events_free(struct ron_http_events *v)
{
    if (v == NULL) {
        return;
    }
    if (v->joining != NULL) {
        ron_chan_free(v->joining);
    }
    RON_ASSERT(v->stream_count == 0);
    if (v->bus != NULL) {
        ron_bus_free(v->bus);
    }
    ron_free(v->taken);
    ron_free(v);
}
