/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/pipe.c - two pieces between a client's task and a worker. */
#include "edge/origin/pipe.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum ron_rc edg_pipe_init(struct edg_pipe *p, struct ron_err *err)
{
    *p = (struct edg_pipe){.magic = EDG_PIPE_MAGIC,
                           .memory = ron_alloc((size_t)EDG_PIPE_PIECES * RON_HTTP_PIECE_MAX)};
    if (p->memory == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for fill buffers");
    }
    ron_mutex_init(&p->mu, RON_RANK_LEAF, "edge.pipe");
    ron_cond_init(&p->cond);
    return RON_OK;
}

void edg_pipe_done(struct edg_pipe *p)
{
    if (p->memory != NULL) {
        RON_CHECK_MAGIC(p, EDG_PIPE_MAGIC);
        ron_cond_done(&p->cond);
        ron_mutex_done(&p->mu);
        ron_free(p->memory);
        p->memory = NULL;
        p->magic = 0;
    }
}

void edg_pipe_reset(struct edg_pipe *p)
{
    ron_mutex_lock(&p->mu);
    p->first = 0;
    p->count = 0;
    p->lent = false;
    p->starving = false;
    p->ended = false;
    ron_mutex_unlock(&p->mu);
}

enum ron_rc edg_pipe_sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct edg_pipe *p = RON_OBJ(arg, struct edg_pipe, EDG_PIPE_MAGIC);
    enum ron_rc rc = RON_OK;

    (void)f;
    RON_ASSERT(len <= RON_HTTP_PIECE_MAX);
    ron_mutex_lock(&p->mu);
    RON_ASSERT_MSG(!p->ended, "no bytes follow the end of a fetch");
    RON_ASSERT(p->count <= EDG_PIPE_PIECES);
    if (p->count == EDG_PIPE_PIECES) {
        p->starving = true;
        rc = RON_AGAIN;
    } else {
        uint32_t at = (p->first + p->count) % EDG_PIPE_PIECES;

        memcpy(p->memory + (size_t)at * RON_HTTP_PIECE_MAX, bytes, len);
        p->lens[at] = len;
        p->count++;
        ron_cond_signal(&p->cond);
    }
    ron_mutex_unlock(&p->mu);
    return rc;
}

void edg_pipe_end(struct ron_http_fetch *f, void *arg)
{
    struct edg_pipe *p = RON_OBJ(arg, struct edg_pipe, EDG_PIPE_MAGIC);

    (void)f;
    ron_mutex_lock(&p->mu);
    RON_ASSERT_MSG(!p->ended, "a fetch ends once");
    p->ended = true;
    ron_cond_signal(&p->cond);
    ron_mutex_unlock(&p->mu);
}

/* With the lock held: true when the client is to be resumed after unlocking. */
static bool give_back(struct edg_pipe *p)
{
    bool resume = p->starving;

    RON_ASSERT_MSG(p->lent, "only a lent piece is given back");
    RON_ASSERT(p->count > 0);
    p->first = (p->first + 1) % EDG_PIPE_PIECES;
    p->count--;
    p->lent = false;
    p->starving = false;
    return resume;
}

enum ron_rc edg_pipe_next(struct edg_pipe *p, struct ron_http_fetch *f,
                          struct ron_deadline deadline, struct ron_str *ret_piece)
{
    bool resume = false;
    enum ron_rc rc;

    ron_mutex_lock(&p->mu);
    if (p->lent) {
        resume = give_back(p);
    }
    ron_mutex_unlock(&p->mu);
    if (resume && f != NULL) {
        ron_http_fetch_resume(f);
    }
    ron_mutex_lock(&p->mu);
    while (p->count == 0 && !p->ended && ron_cond_wait_until(&p->cond, &p->mu, deadline)) {
    }
    if (p->count > 0) {
        *ret_piece = (struct ron_str){
            (const char *)p->memory + (size_t)p->first * RON_HTTP_PIECE_MAX, p->lens[p->first]};
        p->lent = true;
        rc = RON_OK;
    } else {
        rc = p->ended ? RON_CLOSED : RON_TIMEOUT;
    }
    ron_mutex_unlock(&p->mu);
    return rc;
}
