/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/pass.c - requests that pass through the gateway, streamed both ways without a
 * thread.
 *
 * Place: service, on the task of the gateway's client: its source takes pieces of the request's
 * body from the reply, its sink gives pieces of the answer to it. Where the other side has no room
 * the call rests and is woken by it.
 *
 * Invariants:
 *   P1 a pass is never freed before the service: a waker may still call it.
 *   P2 `fetch` is set, under `mu`, from the first callback of a call to its end; a wake-up outside
 *      of that finds NULL, or rouses another call, which looks and rests again. */
#include <string.h>

#include "edge/gateway/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

enum { PASS_MAGIC = 0x65506173 }; /* "ePas" */

struct edg_pass {
    uint32_t magic;
    struct ron_waker waker;
    struct edg_gateway *gateway;
    struct ron_mutex mu;
    struct ron_http_fetch *fetch; /* P2 */
    struct edg_pass *next;        /* of the idle ones, or of all */
    struct edg_pass *next_made;
    struct edg_out out; /* of the request; its reply */
    enum edg_fwd fwd;
    const struct edg_stored *stored; /* a reference; NULL: none */
    uint64_t begun_ms;               /* wall clock */
    bool begun;                      /* the head of the answer is sent */
    struct ron_str piece;            /* of the request's body, held */
    size_t used;                     /* of it */
};

/* ---- records --------------------------------------------------------------------------------- */

static void on_wake(struct ron_waker *w)
{
    struct edg_pass *p = RON_CONTAINER_OF(w, struct edg_pass, waker);

    RON_ASSERT_MSG(p->magic == PASS_MAGIC, "P1: a pass outlives its wakers");
    ron_mutex_lock(&p->mu);
    if (p->fetch != NULL) {
        ron_http_fetch_resume(p->fetch);
    }
    ron_mutex_unlock(&p->mu);
}

static struct edg_pass *pass_make(struct edg_gateway *g)
{
    struct edg_pass *p = ron_alloc_zero(sizeof *p);

    if (p != NULL) {
        p->magic = PASS_MAGIC;
        p->waker.wake = on_wake;
        p->gateway = g;
        ron_mutex_init(&p->mu, RON_RANK_SHARED, "edge.pass");
    }
    ron_mutex_lock(&g->passes_mu);
    if (p != NULL) {
        p->next_made = g->passes_made;
        g->passes_made = p;
    } else {
        g->pass_count--;
    }
    ron_mutex_unlock(&g->passes_mu);
    return p;
}

/* NULL: there are too many, or no memory. */
static struct edg_pass *pass_get(struct edg_gateway *g)
{
    struct edg_pass *p;
    bool more = false;

    ron_mutex_lock(&g->passes_mu);
    RON_ASSERT(g->pass_count <= EDG_PASSES_MAX);
    p = g->passes_free;
    if (p != NULL) {
        g->passes_free = p->next;
    } else if (g->pass_count < EDG_PASSES_MAX) {
        g->pass_count++;
        more = true;
    }
    ron_mutex_unlock(&g->passes_mu);
    return more ? pass_make(g) : p;
}

static void pass_put(struct edg_gateway *g, struct edg_pass *p)
{
    RON_ASSERT_MSG(p->stored == NULL, "an idle pass holds no record");
    RON_ASSERT_MSG(p->piece.ptr == NULL, "an idle pass holds no piece");
    ron_mutex_lock(&g->passes_mu);
    p->next = g->passes_free;
    g->passes_free = p;
    ron_mutex_unlock(&g->passes_mu);
}

void edg_passes_free(struct edg_gateway *g)
{
    struct edg_pass *p = g->passes_made;

    while (p != NULL) {
        struct edg_pass *next = p->next_made;

        ron_mutex_done(&p->mu);
        p->magic = 0;
        ron_free(p);
        p = next;
    }
    g->passes_made = NULL;
}

static void note_fetch(struct edg_pass *p, struct ron_http_fetch *f)
{
    ron_mutex_lock(&p->mu);
    p->fetch = f;
    ron_mutex_unlock(&p->mu);
}

/* ---- the request's body ---------------------------------------------------------------------- */

static enum ron_rc source(struct ron_http_fetch *f, void *arg, void *buf, size_t size,
                          size_t *ret_len)
{
    struct edg_pass *p = RON_OBJ(arg, struct edg_pass, PASS_MAGIC);
    size_t len;

    if (p->piece.ptr == NULL) {
        enum ron_rc rc;

        note_fetch(p, f);
        rc = ron_http_reply_read(p->out.reply, &p->waker, &p->piece);
        if (rc != RON_OK) {
            *ret_len = 0;
            p->piece.ptr = NULL;
            return rc == RON_CLOSED ? RON_OK : rc;
        }
        p->used = 0;
    }
    RON_ASSERT(p->used <= p->piece.len);
    len = RON_MIN(size, p->piece.len - p->used);
    memcpy(buf, p->piece.ptr + p->used, len);
    p->used += len;
    *ret_len = len;
    if (p->used == p->piece.len) {
        p->piece.ptr = NULL;
        ron_http_reply_give_back(p->out.reply);
    }
    return RON_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The head is there: what it changes first, then it goes on. */
static enum ron_rc begin(struct edg_pass *p, struct ron_http_fetch *f, int status)
{
    struct edg_gateway *g = p->gateway;
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    struct edg_status text = {.fwd = p->fwd, .fwd_status = status};
    struct edg_fields response = {fields, 0};
    enum ron_rc rc;

    rc = ron_http_fetch_fields(f, fields, EDG_STORED_FIELDS_MAX, &response.count);
    if (rc != RON_OK) {
        return rc;
    }
    RON_ASSERT_MSG(!p->begun, "the head of an answer is sent once");
    edg_gateway_invalidate(g, p->out.head, status, response);
    if (p->stored != NULL) {
        edg_gateway_head(g, p->out.head, p->stored, status, response, p->begun_ms);
    }
    rc = edg_gateway_begin(&p->out, status, response, &text, &p->waker);
    p->begun = rc == RON_OK;
    return rc;
}

static enum ron_rc sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct edg_pass *p = RON_OBJ(arg, struct edg_pass, PASS_MAGIC);

    if (!p->begun) {
        note_fetch(p, f);
        RON_TRY(begin(p, f, ron_http_fetch_status(f)));
    }
    return ron_http_reply_write(p->out.reply, bytes, len);
}

static void done(struct ron_http_fetch *f, void *arg)
{
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    struct edg_pass *p = RON_OBJ(arg, struct edg_pass, PASS_MAGIC);
    struct edg_gateway *g = p->gateway;
    bool whole = r->reason == RON_HTTP_FETCH_ANSWERED || r->reason == RON_HTTP_FETCH_STATUS;
    bool good = r->status >= 200 && r->status <= 599;
    enum ron_rc rc = RON_OK;

    note_fetch(p, NULL);
    if (p->piece.ptr != NULL) {
        p->piece.ptr = NULL;
        ron_http_reply_give_back(p->out.reply);
    }
    if (whole && good && !p->begun) {
        rc = begin(p, f, r->status);
    }
    if (!p->begun) {
        edg_fail(&p->out, rc == RON_FULL ? EDG_ERROR_BUSY
                          : whole        ? EDG_ERROR_UPSTREAM
                                         : edg_gateway_error(r->reason));
    } else if (whole) {
        ron_http_reply_end(p->out.reply);
    } else {
        ron_http_reply_abort(p->out.reply);
    }
    edg_stored_unref(p->stored);
    p->stored = NULL;
    ron_http_fetch_release(f); /* the reference that start gave */
    pass_put(g, p);
}

/* ---- start ----------------------------------------------------------------------------------- */

static enum ron_rc start(struct edg_gateway *g, struct edg_pass *p, struct edg_call *call)
{
    const struct ron_http_head *head = p->out.head;
    bool body = head->method != RON_HTTP_GET && head->method != RON_HTTP_HEAD &&
                (head->chunked || head->content_length > 0);
    struct ron_http_fetch *ignored = NULL; /* done releases it, maybe before we are back */
    struct ron_err err = {0};

    RON_TRY(edg_call_make(g, EDG_HOP_PASS, head->target, edg_fields_of(head), call));
    return ron_http_fetch_start(
        g->target,
        &(struct ron_http_fetch_opts){.method = head->method,
                                      .url = call->url,
                                      .relay = true,
                                      .patient = true,
                                      .fields = call->fields,
                                      .field_count = call->count,
                                      .source = body ? source : NULL,
                                      .source_len =
                                          head->chunked ? -1 : (int64_t)head->content_length,
                                      .sink = sink,
                                      .done = done,
                                      .arg = p},
        &ignored, &err);
}

void edg_pass(struct edg_gateway *g, struct edg_out *out, enum edg_fwd fwd,
              const struct edg_stored *stored)
{
    struct edg_pass *p = pass_get(g);
    struct edg_call *call = ron_alloc(sizeof *call);
    enum ron_rc rc = p != NULL && call != NULL ? RON_OK : RON_NOMEM;
    bool deferred = false;

    if (rc == RON_OK) {
        RON_ASSERT_MSG(p->gateway == g, "a pass serves one gateway");
        p->out = *out;
        p->out.call = NULL;
        p->fwd = fwd;
        p->begun = false;
        p->piece.ptr = NULL;
        p->stored = stored != NULL ? edg_stored_ref(stored) : NULL;
        p->begun_ms = ron_env_wall_ms(g->site->env);
        if (out->call != NULL) {
            rc = ron_http_defer(out->call, &p->out.reply);
            deferred = rc == RON_OK;
        }
    }
    if (rc == RON_OK) {
        rc = start(g, p, call);
    }
    ron_free(call);
    if (rc == RON_OK) {
        return; /* The pass is not ours any more. */
    }
    if (deferred) {
        ron_http_undefer(out->call, p->out.reply);
    }
    if (p != NULL) {
        edg_stored_unref(p->stored);
        p->stored = NULL;
        pass_put(g, p);
    }
    edg_fail(out, rc == RON_CLOSED                        ? EDG_ERROR_DRAINING
                  : rc == RON_DENIED || rc == RON_INVALID ? EDG_ERROR_NOT_ALLOWED
                                                          : EDG_ERROR_BUSY);
}
