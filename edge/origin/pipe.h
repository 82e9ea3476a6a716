/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/pipe.h - bytes of an origin on their way from the HTTP client's task, which must not
 * wait, to a fill worker, which writes them to the store and may.
 *
 * Place: edge, inside one fill. Two pieces lie between the two at most; when both are full the
 * client is told RON_AGAIN and stops reading the origin, and the worker lets it go on. A worker
 * that wants no more cancels the fetch and takes what is left until RON_CLOSED.
 *
 *     client's task: edg_pipe_sink (as ron_http_fetch_sink), edg_pipe_end (as its done)
 *     worker:        edg_pipe_next until RON_CLOSED; edg_pipe_reset before the next fetch
 *
 * Threads: one on each side. Ownership: the worker's; it lives longer than the fetch. */
#pragma once

#include "ron/http/client.h"
#include "ron/sync/sync.h"

enum { EDG_PIPE_PIECES = 2, EDG_PIPE_MAGIC = 0x65506970 }; /* "ePip" */

struct edg_pipe {
    uint32_t magic;
    struct ron_mutex mu;
    struct ron_cond cond;
    uint8_t *memory; /* of the pieces */
    size_t lens[EDG_PIPE_PIECES];
    uint32_t first; /* of those that are filled */
    uint32_t count;
    bool lent;     /* the worker has the first */
    bool starving; /* the client waits to be resumed */
    bool ended;
};

RON_MUST_USE enum ron_rc edg_pipe_init(struct edg_pipe *p, struct ron_err *err);
void edg_pipe_done(struct edg_pipe *p);
/* For the next fetch; the previous one must have ended. */
void edg_pipe_reset(struct edg_pipe *p);

/* `arg` of both is the pipe. */
enum ron_rc edg_pipe_sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len);
void edg_pipe_end(struct ron_http_fetch *f, void *arg);

/* The next piece, which is the worker's until the next call. RON_CLOSED: there are no more and the
 * fetch has ended. RON_TIMEOUT. `f` is resumed when it waits; NULL: it comes again by itself.
 * Blocking. */
RON_MUST_USE enum ron_rc edg_pipe_next(struct edg_pipe *p, struct ron_http_fetch *f,
                                       struct ron_deadline deadline, struct ron_str *ret_piece);
