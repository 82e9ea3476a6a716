/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/storage.c - objects to and from another service; contract in storage.h.
 *
 * The HTTP client's task must not wait and the store may: two pieces of 64 KiB lie between them.
 * Whoever finds no room, or nothing, is told and goes on when the other has done its part. */
#include "interop/object/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    PIECES = 2,
    WHOLE_MAX = 1 << 20, /* up to here a body is handed over whole: the client repeats it itself */
    OP_PUT = 0,
    OP_GET = 1,
    OP_HEAD = 2,
    BEARER_SIZE = RON_CAP_TEXT_MAX + 16,
};

/* ---- pieces between the client's task and ours ----------------------------------------------- */

#define PIPE_MAGIC 0x49504950u /* "IPIP" */

struct pipe {
    uint32_t magic;
    struct ron_mutex mu; /* guards all below but the bytes of pieces, which have one holder */
    struct ron_cond cond;
    uint8_t *memory;
    size_t lens[PIECES];
    uint32_t first;
    uint32_t count; /* of those that are filled */
    size_t used;    /* of the first, by the source */
    bool waits;     /* the client is to be resumed */
    bool whole;     /* no more will be filled */
    bool ended;     /* the call */
};

/* Without pieces it only tells the end. */
static enum ron_rc pipe_init(struct pipe *p, bool pieces)
{
    *p = (struct pipe){.magic = PIPE_MAGIC};
    if (pieces) {
        p->memory = ron_alloc((size_t)PIECES * RON_HTTP_PIECE_MAX);
        if (p->memory == NULL) {
            return RON_NOMEM;
        }
    }
    ron_mutex_init(&p->mu, RON_RANK_LEAF, "interop.pieces");
    ron_cond_init(&p->cond);
    return RON_OK;
}

static void pipe_done(struct pipe *p)
{
    RON_CHECK_MAGIC(p, PIPE_MAGIC);
    p->magic = 0;
    ron_cond_done(&p->cond);
    ron_mutex_done(&p->mu);
    ron_free(p->memory);
}

static uint8_t *piece_at(const struct pipe *p, uint32_t number)
{
    return p->memory + (size_t)(number % PIECES) * RON_HTTP_PIECE_MAX;
}

/* On the client's task: bytes of an answer. */
static enum ron_rc sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct pipe *p = RON_OBJ(arg, struct pipe, PIPE_MAGIC);
    enum ron_rc rc = RON_OK;

    (void)f;
    RON_ASSERT(len <= RON_HTTP_PIECE_MAX);
    ron_mutex_lock(&p->mu);
    if (p->count == PIECES) {
        p->waits = true;
        rc = RON_AGAIN;
    } else {
        memcpy(piece_at(p, p->first + p->count), bytes, len);
        p->lens[(p->first + p->count) % PIECES] = len;
        p->count++;
        ron_cond_signal(&p->cond);
    }
    ron_mutex_unlock(&p->mu);
    return rc;
}

/* With the lock held: the first piece is empty again. */
static void give_back(struct pipe *p)
{
    RON_ASSERT_MSG(p->count > 0, "a piece that is given back was filled");
    p->first = (p->first + 1) % PIECES;
    p->count--;
    p->used = 0;
}

/* On the client's task: bytes of a request. */
static enum ron_rc source(struct ron_http_fetch *f, void *arg, void *buf, size_t size,
                          size_t *ret_len)
{
    struct pipe *p = RON_OBJ(arg, struct pipe, PIPE_MAGIC);
    enum ron_rc rc = RON_OK;

    (void)f;
    *ret_len = 0;
    ron_mutex_lock(&p->mu);
    if (p->count > 0) {
        size_t len = RON_MIN(size, p->lens[p->first] - p->used);

        RON_ASSERT(p->used <= p->lens[p->first]);
        memcpy(buf, piece_at(p, p->first) + p->used, len);
        *ret_len = len;
        p->used += len;
        if (p->used == p->lens[p->first]) {
            give_back(p);
            ron_cond_signal(&p->cond);
        }
    } else if (!p->whole) {
        p->waits = true;
        rc = RON_AGAIN;
    }
    ron_mutex_unlock(&p->mu);
    return rc;
}

static void ended(struct ron_http_fetch *f, void *arg)
{
    struct pipe *p = RON_OBJ(arg, struct pipe, PIPE_MAGIC);

    (void)f;
    ron_mutex_lock(&p->mu);
    RON_ASSERT_MSG(!p->ended, "a call ends once");
    p->ended = true;
    ron_cond_signal(&p->cond);
    ron_mutex_unlock(&p->mu);
}

/* The client goes on if it waits. The call may have ended meanwhile, which does no harm. */
static void resume(struct pipe *p, struct ron_http_fetch *f)
{
    bool waits;

    ron_mutex_lock(&p->mu);
    waits = p->waits && !p->ended;
    p->waits = false;
    ron_mutex_unlock(&p->mu);
    if (waits) {
        ron_http_fetch_resume(f);
    }
}

static void wait_end(struct pipe *p)
{
    ron_mutex_lock(&p->mu);
    while (!p->ended) { /* a call ends: H1 of ron/http/client.h */
        (void)ron_cond_wait_until(&p->cond, &p->mu, ron_deadline_never());
    }
    ron_mutex_unlock(&p->mu);
}

/* Between two calls: nobody signals. */
static void pause_for(struct iop_objects *o, struct pipe *p, uint64_t wait_ns)
{
    struct ron_deadline until = {ron_env_now_ns(o->core->env) + wait_ns};

    ron_mutex_lock(&p->mu);
    while (ron_cond_wait_until(&p->cond, &p->mu, until)) {
    }
    ron_mutex_unlock(&p->mu);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct ron_deadline deadline_of(const struct iop_objects *o)
{
    return ron_deadline_after_ms(ron_env_now_ns(o->core->env),
                                 (uint64_t)ron_conf_ms(o->core->conf, IOP_STORAGE_TIMEOUT));
}

static size_t write_headers(struct iop_objects *o, char bearer[BEARER_SIZE],
                            struct ron_http_fetch_header headers[2])
{
    const struct ron_app_token *token = ron_app_tokens_get(&o->token);
    size_t count = 0;

    headers[count++] =
        (struct ron_http_fetch_header){"Content-Type", {"application/octet-stream", 24}};
    if (token != NULL) {
        int len =
            snprintf(bearer, BEARER_SIZE, "Bearer %.*s", (int)token->text.len, token->text.ptr);

        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)len}};
    }
    return count;
}

static void write_url(const struct iop_objects *o, const struct ron_b3 *id, char url[IOP_URL_MAX])
{
    const char *base = ron_conf_str(o->core->conf, IOP_STORAGE_URL).text;
    char text[RON_B3_ID_SIZE];

    if (id == NULL) {
        (void)snprintf(url, IOP_URL_MAX, "%s/put", base);
        return;
    }
    ron_b3_format(id, text);
    (void)snprintf(url, IOP_URL_MAX, "%s/o/%s", base, text);
}

/* The end of a call, as evidence. Time is that of a mebibyte: a large object is not a slow one. */
static void note(struct iop_objects *o, const char *op, const struct ron_http_fetch_result *r,
                 uint64_t bytes)
{
    bool good = r->status != 0 && r->status < 500 && r->status != 401 && r->status != 403;

    iop_upstream(o->bridge, "storage", op, good,
                 r->took_ms * RON_NS_PER_MS / RON_MAX(bytes >> 20, UINT64_C(1)));
    ron_stat_set(&o->storage_broken, !good);
}

/* What a failed call means; who we are (401, 403) is a mistake of the settings. */
static enum ron_rc code_of(const char *op, const struct ron_http_fetch_result *r,
                           struct ron_err *err)
{
    if (r->status == 404) {
        return RON_NOTFOUND;
    }
    if (r->status == 0 && r->rc == RON_TIMEOUT) {
        return ron_err_set(err, RON_TIMEOUT, "storage %s: no answer within %llu ms", op,
                           (unsigned long long)r->took_ms);
    }
    if (r->status == 413) {
        return ron_err_set(err, RON_LIMIT, "object too large for the storage");
    }
    return ron_err_set(err,
                       r->status != 0       ? RON_IO
                       : r->rc == RON_NOMEM ? r->rc
                                            : RON_AGAIN,
                       "unexpected response from the storage: status %d", r->status);
}

/* ---- push ------------------------------------------------------------------------------------ */

/* Whether it is there; any failure counts as no. */
static bool is_there(struct iop_objects *o, const struct ron_b3 *id, struct ron_deadline deadline)
{
    struct ron_http_fetch_header headers[2];
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};
    char bearer[BEARER_SIZE];
    char url[IOP_URL_MAX];
    struct pipe p;
    bool there = false;

    if (pipe_init(&p, false) != RON_OK) {
        return false;
    }
    write_url(o, id, url);
    if (ron_http_fetch_start(
            o->up->storage,
            &(struct ron_http_fetch_opts){.method = RON_HTTP_HEAD,
                                          .url = url,
                                          .op = OP_HEAD,
                                          .headers = headers,
                                          .header_count = write_headers(o, bearer, headers),
                                          .deadline = deadline,
                                          .done = ended,
                                          .arg = &p},
            &f, &err) == RON_OK) {
        wait_end(&p);
        note(o, "head", ron_http_fetch_result(f), 0);
        there = ron_http_fetch_result(f)->status == 200;
        ron_http_fetch_release(f);
    }
    pipe_done(&p);
    return there;
}

/* The bytes of the object into the pipe, until all are there or the call has ended. */
static enum ron_rc feed(struct pipe *p, struct ron_http_fetch *f, const struct ron_cas_obj *obj)
{
    uint64_t size = ron_cas_obj_size(obj);
    enum ron_rc rc = RON_OK;
    bool over = false;

    for (uint64_t at = 0; at < size && rc == RON_OK && !over;) {
        uint32_t place;
        size_t len = 0;

        ron_mutex_lock(&p->mu);
        while (p->count == PIECES && !p->ended) {
            (void)ron_cond_wait_until(&p->cond, &p->mu, ron_deadline_never());
        }
        place = p->first + p->count;
        over = p->ended;
        ron_mutex_unlock(&p->mu);
        if (over) {
            break;
        }
        rc = ron_cas_read(obj, at, piece_at(p, place), RON_HTTP_PIECE_MAX, &len);
        at += len;
        ron_mutex_lock(&p->mu);
        p->lens[place % PIECES] = len;
        p->count++;
        p->whole = at == size;
        ron_mutex_unlock(&p->mu);
        resume(p, f);
    }
    if (rc != RON_OK) {
        ron_http_fetch_cancel(f);
    }
    return rc;
}

/* Whether the other side named the address. */
static bool names(struct ron_str body, const struct ron_b3 *id)
{
    char want[RON_B3_ID_SIZE];
    char got[RON_B3_ID_SIZE + 1];
    struct iop_value value;
    struct iop_doc doc;
    size_t len = 0;

    ron_b3_format(id, want);
    return iop_doc_init(&doc, body.ptr, body.len) &&
           iop_pointer_find(&doc, "/address", &value) == IOP_FOUND &&
           iop_value_text(&value, got, RON_B3_ID_SIZE, &len) == RON_OK && len == RON_B3_ID_LEN &&
           memcmp(got, want, RON_B3_ID_LEN) == 0;
}

/* One call. A small object goes whole and is repeated by the client; a large one in pieces. */
static enum ron_rc push_once(struct iop_objects *o, const struct ron_cas_obj *obj, struct pipe *p,
                             struct ron_deadline deadline, struct ron_attempt *ret_attempt,
                             struct ron_err *err)
{
    uint64_t size = ron_cas_obj_size(obj);
    struct ron_http_fetch_header headers[2];
    const struct ron_http_fetch_result *r;
    struct ron_http_fetch *f = NULL;
    uint8_t *whole = NULL;
    char bearer[BEARER_SIZE];
    char url[IOP_URL_MAX];
    size_t len = 0;
    enum ron_rc rc = RON_OK;
    struct ron_http_fetch_opts opts = {.method = RON_HTTP_POST,
                                       .url = url,
                                       .op = OP_PUT,
                                       .headers = headers,
                                       .header_count = write_headers(o, bearer, headers),
                                       .idempotent = true,
                                       .patient = true,
                                       .deadline = deadline,
                                       .done = ended,
                                       .arg = p};

    *ret_attempt = (struct ron_attempt){.rc = RON_AGAIN};
    write_url(o, NULL, url);
    p->first = p->count = 0;
    p->used = 0;
    p->waits = p->ended = false;
    p->whole = size == 0;
    if (size > 0 && size <= WHOLE_MAX) {
        whole = ron_alloc((size_t)size);
        rc = whole != NULL ? ron_cas_read(obj, 0, whole, (size_t)size, &len) : RON_NOMEM;
        opts.body = (struct ron_str){(const char *)whole, (size_t)size};
    } else {
        opts.source = source;
        opts.source_len = (int64_t)size;
    }
    if (rc == RON_OK) {
        rc = ron_http_fetch_start(o->up->storage, &opts, &f, err);
    }
    ron_free(whole);
    if (rc != RON_OK) {
        return rc;
    }
    rc = opts.source != NULL ? feed(p, f, obj) : RON_OK;
    wait_end(p);
    r = ron_http_fetch_result(f);
    note(o, "put", r, size);
    *ret_attempt = (struct ron_attempt){.rc = r->status != 0 ? RON_OK : r->rc, .status = r->status};
    if (rc == RON_OK && r->rc != RON_OK) {
        rc = code_of("put", r, err);
    } else if (rc == RON_OK && !names(r->body, ron_cas_obj_id(obj))) {
        rc = ron_err_set(err, RON_IO, "unexpected response from the storage: address mismatch");
    }
    ron_http_fetch_release(f);
    return rc;
}

enum ron_rc iop_storage_push(struct iop_objects *o, const struct ron_b3 *id, struct ron_err *err)
{
    struct ron_deadline deadline = deadline_of(o);
    struct ron_cas_obj *obj = NULL;
    struct ron_attempt attempt;
    struct ron_rand rand;
    struct pipe p;
    uint64_t wait_ns = 0;
    enum ron_rc rc;
    struct ron_retry retry = {.curve = ron_retry_curve(RON_RETRY_INTEROP),
                              .rand = &rand,
                              .deadline = deadline,
                              .idempotent = true};

    if (is_there(o, id, deadline)) {
        return RON_OK;
    }
    ron_rand_seed(&rand, o->core->env->rand_u64(o->core->env));
    RON_TRY(pipe_init(&p, true));
    rc = ron_cas_open(o->store, id, &obj, err);
    while (rc == RON_OK) {
        rc = push_once(o, obj, &p, deadline, &attempt, err);
        /* What was handed over whole was repeated by the client. */
        if (rc == RON_OK || ron_cas_obj_size(obj) <= WHOLE_MAX ||
            ron_retry_next(&retry, &attempt, ron_env_now_ns(o->core->env), &wait_ns) !=
                RON_VERDICT_AGAIN) {
            break;
        }
        pause_for(o, &p, wait_ns);
        rc = RON_OK;
    }
    ron_cas_release(obj);
    pipe_done(&p);
    return rc;
}

/* ---- pull ------------------------------------------------------------------------------------ */

/* Takes the bytes as they come. The end of the call is waited for in every case: it uses the
 * pipe. */
static enum ron_rc take_body(struct pipe *p, struct ron_http_fetch *f, struct ron_cas_writer *w,
                             uint64_t *ret_bytes, struct ron_err *err)
{
    enum ron_rc rc = RON_OK;
    bool more = true;

    *ret_bytes = 0;
    while (more) {
        size_t len = 0;

        ron_mutex_lock(&p->mu);
        while (p->count == 0 && !p->ended) {
            (void)ron_cond_wait_until(&p->cond, &p->mu, ron_deadline_never());
        }
        more = p->count > 0;
        len = more ? p->lens[p->first] : 0;
        ron_mutex_unlock(&p->mu);
        if (!more) {
            break;
        }
        if (rc == RON_OK) {
            rc = ron_cas_append(w, piece_at(p, p->first), len, err);
            *ret_bytes += len;
            if (rc != RON_OK) {
                ron_http_fetch_cancel(f);
            }
        }
        ron_mutex_lock(&p->mu);
        give_back(p);
        ron_mutex_unlock(&p->mu);
        resume(p, f);
    }
    return rc;
}

static enum ron_rc pull_into(struct iop_objects *o, const struct ron_b3 *id, struct pipe *p,
                             struct ron_cas_writer *w, struct ron_err *err)
{
    struct ron_http_fetch_header headers[2];
    const struct ron_http_fetch_result *r;
    struct ron_http_fetch *f = NULL;
    char bearer[BEARER_SIZE];
    char url[IOP_URL_MAX];
    uint64_t bytes = 0;
    enum ron_rc rc;

    write_url(o, id, url);
    RON_TRY(ron_http_fetch_start(
        o->up->storage,
        &(struct ron_http_fetch_opts){.method = RON_HTTP_GET,
                                      .url = url,
                                      .op = OP_GET,
                                      .headers = headers,
                                      .header_count = write_headers(o, bearer, headers),
                                      .sink = sink,
                                      .patient = true,
                                      .deadline = deadline_of(o),
                                      .done = ended,
                                      .arg = p},
        &f, err));
    rc = take_body(p, f, w, &bytes, err);
    r = ron_http_fetch_result(f);
    note(o, "get", r, bytes);
    if (rc == RON_OK && (r->rc != RON_OK || r->status != 200)) {
        rc = code_of("get", r, err);
    }
    ron_http_fetch_release(f);
    return rc;
}

enum ron_rc iop_storage_pull(struct iop_objects *o, const struct ron_b3 *id,
                             struct ron_cas_obj **ret_obj, struct ron_err *err)
{
    struct ron_cas_writer *w = NULL;
    struct ron_b3 got;
    struct pipe p;
    enum ron_rc rc;

    RON_TRY(pipe_init(&p, true));
    rc = ron_cas_begin(o->store, &(struct ron_cas_write_opts){.expected = id}, &w, err);
    if (rc == RON_OK) {
        rc = pull_into(o, id, &p, w, err);
        if (rc == RON_OK) {
            rc = ron_cas_commit(w, &got, err);
            rc = rc == RON_CONFLICT
                     ? ron_err_set(err, RON_CORRUPT, "storage content does not match the address")
                     : rc;
        } else {
            ron_cas_abort(w);
        }
    }
    pipe_done(&p);
    return rc == RON_OK ? ron_cas_open(o->store, id, ret_obj, err) : rc;
}

/* ---- probes ---------------------------------------------------------------------------------- */

static void probed(struct ron_http_fetch *f, void *arg)
{
    struct iop_objects *o = RON_OBJ(arg, struct iop_objects, IOP_OBJECTS_MAGIC);

    note(o, "head", ron_http_fetch_result(f), 0);
    ron_stat_set(&o->storage_probing, 0);
    ron_http_fetch_release(f);
}

void iop_storage_probe(struct iop_objects *o)
{
    static const struct ron_b3 nothing;
    struct ron_http_fetch_header headers[2];
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};
    char bearer[BEARER_SIZE];
    char url[IOP_URL_MAX];

    if (ron_stat_get(&o->storage_broken) == 0 || ron_stat_get(&o->storage_probing) != 0) {
        return;
    }
    write_url(o, &nothing, url); /* 404 is an answer */
    ron_stat_set(&o->storage_probing, 1);
    if (ron_http_fetch_start(
            o->up->storage,
            &(struct ron_http_fetch_opts){.method = RON_HTTP_HEAD,
                                          .url = url,
                                          .op = OP_HEAD,
                                          .headers = headers,
                                          .header_count = write_headers(o, bearer, headers),
                                          .done = probed,
                                          .arg = o},
            &f, &err) != RON_OK) {
        ron_stat_set(&o->storage_probing, 0);
    }
}
