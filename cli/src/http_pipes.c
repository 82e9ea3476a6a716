/* SPDX-License-Identifier: Apache-2.0 */
/* http_pipes.c - see http_pipes.h.
 *
 * One loop task holds all replies and goes on with each until it would have to wait; the server
 * wakes it when there is room, a piece, or a client that went. */
#include "http_pipes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/cas/b3.h"

enum {
    EVENT_MS = 50,
    PIECES_PER_TURN = 16, /* of one reply, so that the others have theirs */
};
enum kind { PIECES, UPLOAD, EVENTS };

struct pipe_job {
    struct ron_http_reply *reply;
    enum kind kind;
    bool begun;
    uint64_t left;  /* bytes or events */
    uint64_t moved; /* bytes or events */
    uint64_t next_ms;
    struct ron_b3_hasher hash;
};

/* ---- handlers -------------------------------------------------------------------------------- */

static void drop_job(void *item, void *arg)
{
    struct pipe_job *job = item;

    (void)arg;
    ron_http_reply_fail(job->reply, RON_HTTP_DRAINING);
    ron_free(job);
}

static void hand_over(struct ron_http_call *call, struct pipes *p, enum kind kind, uint64_t left)
{
    struct pipe_job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL || ron_http_defer(call, &job->reply) != RON_OK) {
        ron_free(job);
        ron_http_fail(call, RON_HTTP_BUSY);
        return;
    }
    job->kind = kind;
    job->left = left;
    ron_b3_init(&job->hash);
    if (ron_chan_try_send(p->queue, job, NULL) != RON_OK) {
        ron_http_undefer(call, job->reply);
        ron_free(job);
        ron_http_fail(call, RON_HTTP_BUSY);
    }
}

void pipes_on_pieces(struct ron_http_call *call, void *arg)
{
    uint64_t kib = ron_http_param_u64(call, 0);

    if (kib > PIPES_KIB_MAX) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    hand_over(call, arg, PIECES, kib << 10);
}

void pipes_on_upload(struct ron_http_call *call, void *arg)
{
    hand_over(call, arg, UPLOAD, 0);
}

void pipes_on_events(struct ron_http_call *call, void *arg)
{
    struct ron_str text = {0};
    uint64_t n = UINT64_MAX;
    char room[32];

    if (ron_http_query_get(ron_http_head(call)->query, "n", room, sizeof room, &text) == RON_OK &&
        ron_http_parse_u64(text, &n) != RON_OK) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    hand_over(call, arg, EVENTS, n);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* Each of these returns true when the reply was given back. */

static bool begin(struct pipes *p, struct pipe_job *job)
{
    struct ron_http_stream_opts o = {.status = 200,
                                     .content_type =
                                         job->kind == EVENTS ? "text/event-stream" : "text/plain",
                                     .length = RON_HTTP_UNKNOWN,
                                     .quiet = job->kind == EVENTS,
                                     .waker = ron_task_waker(p->task)};

    job->begun = true;
    if (ron_http_reply_begin(job->reply, &o) != RON_OK) {
        ron_http_reply_fail(job->reply, RON_HTTP_BUSY);
        return true;
    }
    return false;
}

static bool go_on_pieces(struct pipes *p, struct pipe_job *job)
{
    enum ron_rc rc = RON_OK;

    for (int i = 0; rc == RON_OK && job->left > 0; i++) {
        size_t n = job->left < RON_HTTP_PIECE_BYTES ? (size_t)job->left : RON_HTTP_PIECE_BYTES;

        if (i == PIECES_PER_TURN) {
            ron_task_wake(p->task);
            return false;
        }
        rc = ron_http_reply_write(job->reply, p->piece, n);
        job->left -= rc == RON_OK ? n : 0;
    }
    if (rc == RON_AGAIN) {
        return false;
    }
    if (rc == RON_NOMEM) {
        ron_http_reply_abort(job->reply);
    } else {
        ron_http_reply_end(job->reply);
    }
    return true;
}

static bool go_on_upload(struct pipes *p, struct pipe_job *job)
{
    struct ron_b3 hash;
    struct ron_str piece = {0};
    enum ron_rc rc = RON_OK;

    for (int i = 0; rc == RON_OK; i++) {
        if (i == PIECES_PER_TURN) {
            ron_task_wake(p->task);
            return false;
        }
        rc = ron_http_reply_read(job->reply, ron_task_waker(p->task), &piece);
        if (rc != RON_OK) {
            break;
        }
        ron_b3_update(&job->hash, piece.ptr, piece.len);
        job->moved += piece.len;
        ron_http_reply_give_back(job->reply);
    }
    if (rc == RON_AGAIN) {
        return false;
    }
    if (rc != RON_CLOSED) {
        ron_http_reply_fail(job->reply, RON_HTTP_INTERNAL); /* nobody will see it */
        return true;
    }
    ron_b3_final(&job->hash, &hash);
    /* Short: it cannot overflow the body; if memory fails the answer is 500 by itself. */
    (void)ron_buf_append_fmt(ron_http_reply_body(job->reply),
                             "{\"bytes\":%" PRIu64 ",\"blake3\":\"", job->moved);
    for (size_t i = 0; i < RON_B3_BYTES; i++) {
        (void)ron_buf_append_fmt(ron_http_reply_body(job->reply), "%02x", hash.bytes[i]);
    }
    (void)ron_buf_append_text(ron_http_reply_body(job->reply), "\"}");
    ron_http_reply_send(job->reply, 200, "application/json");
    return true;
}

static bool go_on_events(struct pipes *p, struct pipe_job *job, uint64_t now_ms)
{
    char text[64];
    enum ron_rc rc = RON_OK;

    (void)p;
    if (ron_http_reply_cancelled(job->reply)) {
        ron_http_reply_end(job->reply);
        return true;
    }
    if (now_ms >= job->next_ms && job->left > 0) {
        int n = snprintf(text, sizeof text, "id: %" PRIu64 "\ndata: tick\n\n", job->moved);

        rc = ron_http_reply_write(job->reply, text, (size_t)n);
        if (rc == RON_OK) {
            job->moved++;
            job->left--;
            job->next_ms = now_ms + EVENT_MS;
        }
    }
    if (job->left == 0 || (rc != RON_OK && rc != RON_AGAIN)) {
        ron_http_reply_end(job->reply);
        return true;
    }
    return false;
}

static bool go_on(struct pipes *p, struct pipe_job *job, uint64_t now_ms)
{
    if (job->kind != UPLOAD && !job->begun && begin(p, job)) {
        return true;
    }
    switch (job->kind) {
    case PIECES:
        return go_on_pieces(p, job);
    case UPLOAD:
        return go_on_upload(p, job);
    case EVENTS:
        break;
    }
    return go_on_events(p, job, now_ms);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct pipes *p = arg;
    uint64_t now_ms = ron_task_now_ms(t);
    uint64_t next_ms = UINT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (p->count == PIPES_MAX) {
            drop_job(items[i], NULL);
        } else {
            p->jobs[p->count++] = items[i];
        }
    }
    for (size_t i = 0; i < p->count; i++) {
        struct pipe_job *job = p->jobs[i];

        if (go_on(p, job, now_ms)) {
            ron_free(job);
            continue;
        }
        if (job->kind == EVENTS) {
            next_ms = RON_MIN(next_ms, job->next_ms);
        }
        p->jobs[kept++] = job;
    }
    p->count = kept;
    ron_task_wake_at(t, next_ms);
    return RON_OK;
}

/* The drain has come: what is under way cannot be finished here. */
static void stop(struct ron_task *t, void *arg)
{
    struct pipes *p = arg;

    (void)t;
    for (size_t i = 0; i < p->count; i++) {
        struct pipe_job *job = p->jobs[i];

        if (!job->begun) {
            ron_http_reply_fail(job->reply, RON_HTTP_DRAINING);
        } else if (job->kind == EVENTS) {
            ron_http_reply_end(job->reply);
        } else {
            ron_http_reply_abort(job->reply);
        }
        ron_free(job);
    }
    p->count = 0;
}

enum ron_rc pipes_build(struct pipes *p, const struct ron_env *env, struct ron_registry *registry,
                        struct ron_sup *sup, struct ron_err *err)
{
    p->piece = ron_alloc(RON_HTTP_PIECE_BYTES);
    if (p->piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory");
    }
    for (size_t i = 0; i < RON_HTTP_PIECE_BYTES; i++) {
        p->piece[i] = i % 64 == 63 ? '\n' : 'p';
    }
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = registry,
                                                 .env = env,
                                                 .name = "pipes",
                                                 .producers = "http",
                                                 .consumers = "pipes",
                                                 .drop_text = "answered 503 draining",
                                                 .capacity = PIPES_QUEUE,
                                                 .policy = RON_CHAN_REJECT,
                                                 .drop = drop_job},
                         &p->queue, err));
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = "pipes",
                                              .kind = "worker",
                                              .worker = RON_WORKER_ANY,
                                              .input = p->queue,
                                              .handle = handle,
                                              .stop = stop,
                                              .arg = p},
                       &p->task, err);
}

void pipes_done(struct pipes *p)
{
    if (p->queue != NULL) {
        ron_chan_free(p->queue);
    }
    ron_free(p->piece);
}
