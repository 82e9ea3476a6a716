/* SPDX-License-Identifier: Apache-2.0 */
/* http_pipes.h - the routes of `ron http` whose bodies pass in pieces.
 *
 *   GET  /pieces/{n}   n KiB, chunked, written by a task as fast as the client takes them
 *   POST /upload       a body of up to 4 GiB, read by the task; answers its length and BLAKE3 hash
 *   GET  /events       server-sent events, one each 50 ms; ?n= ends after so many
 *
 * Ownership: a reply belongs to the queue or to the task that holds it. pipes_build adds a task to
 * the supervisor; call pipes_done after it and the executor have been freed. */
#pragma once

#include "ron/http/stream.h"

enum {
    PIPES_QUEUE = 512, /* every request that the inflight gate lets through by default */
    PIPES_MAX = 1024,  /* streams_max by default */
    PIPES_KIB_MAX = 4 << 20,
};
#define PIPES_UPLOAD_MAX (UINT64_C(4) << 30)

struct pipe_job;

struct pipes {
    struct ron_chan *queue;
    struct ron_task *task;
    char *piece; /* RON_HTTP_PIECE_BYTES of text */
    /* The task's. */
    struct pipe_job *jobs[PIPES_MAX];
    size_t count;
};

RON_MUST_USE enum ron_rc pipes_build(struct pipes *p, const struct ron_env *env,
                                     struct ron_registry *registry, struct ron_sup *sup,
                                     struct ron_err *err);
void pipes_done(struct pipes *p); /* also after a pipes_build that failed */

/* Handlers; their argument is the struct pipes. */
void pipes_on_pieces(struct ron_http_call *call, void *arg);
void pipes_on_upload(struct ron_http_call *call, void *arg);
void pipes_on_events(struct ron_http_call *call, void *arg);
