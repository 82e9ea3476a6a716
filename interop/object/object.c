/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/object.c - GET /o/{addr}: an object by its address, whole or in part.
 *
 * Place: service. An object that is open is answered on the loop; one that must be fetched from the
 * disk first goes to a reader. The store checks bytes against their id before they are lent (S2 of
 * ron/cas/cas.h), so no byte that is not the address's leaves here. */
#include <stdio.h>
#include <string.h>

#include "interop/object/storage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/select.h"
#include "ron/http/stream.h"

/* Where an answer goes: to the call of a handler or to a reply. */
struct out {
    struct iop_objects *objects;
    struct ron_http_call *call;   /* one of the two */
    struct ron_http_reply *reply; /* given away by the answer */
    const struct ron_http_head *head;
};

static void add(struct out *out, const char *name, struct ron_str value)
{
    if (out->call != NULL) {
        (void)ron_http_add_header(out->call, name, value);
    } else {
        (void)ron_http_reply_add_header(out->reply, name, value);
    }
}

static void add_text(struct out *out, const char *name, const char *value)
{
    add(out, name, (struct ron_str){value, strlen(value)});
}

static void fail(struct out *out, enum iop_error error)
{
    if (out->call != NULL) {
        iop_fail(out->call, error, NULL);
    } else {
        iop_reply_fail(out->reply, error, NULL);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void release_object(void *arg)
{
    ron_cas_release(arg);
}

static bool is_plain(const struct ron_cas_obj *obj)
{
    uint64_t size = ron_cas_obj_size(obj);

    return ron_cas_slice(obj, 0, size).len == size;
}

/* Headers of every answer about the object. Nothing that somebody stored is run by a browser. */
static void add_fields(struct out *out, const struct ron_http_selection *a, const char *tag)
{
    char quoted[RON_B3_ID_SIZE + 2];

    if ((a->with & RON_HTTP_WITH_ETAG) != 0) {
        int len = snprintf(quoted, sizeof quoted, "\"%s\"", tag);

        add(out, "ETag", (struct ron_str){quoted, (size_t)len});
        /* The name of an object is its content: it can never change. */
        add_text(out, "Cache-Control", "private, max-age=31536000, immutable");
        add_text(out, "X-Content-Type-Options", "nosniff");
    }
    if ((a->with & RON_HTTP_WITH_ACCEPT_RANGES) != 0) {
        add_text(out, "Accept-Ranges", "bytes");
    }
    if ((a->with & RON_HTTP_WITH_CONTENT_RANGE) != 0) {
        add(out, "Content-Range", (struct ron_str){a->content_range, a->content_range_len});
    }
}

/* Conditions and ranges; false: it is answered. */
static bool select_part(struct out *out, const struct ron_cas_obj *obj,
                        struct ron_http_selection *ret)
{
    char tag[RON_B3_ID_SIZE];
    struct ron_http_etag etag = {.opaque = {tag, RON_B3_ID_LEN}};
    struct ron_http_repr repr = {
        .size = ron_cas_obj_size(obj), .etag = &etag, .mtime_s = RON_HTTP_NO_MTIME};

    ron_b3_format(ron_cas_obj_id(obj), tag);
    ron_http_select(out->head, &repr, ron_env_wall_ms(out->objects->core->env) / 1000, ret);
    add_fields(out, ret, tag);
    switch (ret->status) {
    case 412:
        fail(out, IOP_ERROR_PRECONDITION);
        return false;
    case 416:
        fail(out, IOP_ERROR_RANGE);
        return false;
    case 304:
        if (out->call != NULL) {
            ron_http_answer(out->call, 304, NULL, NULL, 0);
        } else {
            ron_http_reply_send(out->reply, 304, NULL);
        }
        return false;
    default:
        return true;
    }
}

/* Bytes that do not lie in one piece (a memory store), one after the other. */
static void stream(struct out *out, struct ron_cas_obj *obj, const struct ron_http_selection *a)
{
    struct ron_deadline deadline = ron_http_reply_deadline(out->reply);
    uint64_t at = a->status == 206 ? a->ranges[0].first : 0;
    uint64_t left = a->length;
    enum ron_rc rc = ron_http_reply_begin(
        out->reply, &(struct ron_http_stream_opts){.status = a->status,
                                                   .content_type = "application/octet-stream",
                                                   .length = a->length});

    if (rc != RON_OK) {
        fail(out, IOP_ERROR_BUSY);
        return;
    }
    left = out->head->method == RON_HTTP_HEAD ? 0 : left;
    while (left > 0 && rc == RON_OK) {
        struct ron_cas_slice slice =
            ron_cas_slice(obj, at, RON_MIN(left, (uint64_t)RON_HTTP_PIECE_BYTES));

        rc = ron_http_reply_write_wait(out->reply, slice.bytes, (size_t)slice.len, deadline);
        at += slice.len;
        left -= slice.len;
    }
    if (rc == RON_OK) {
        ron_http_reply_end(out->reply);
    } else {
        ron_http_reply_abort(out->reply);
    }
}

/* Takes the object. Without a reply its bytes lie in one piece. */
static void answer(struct out *out, struct ron_cas_obj *take_obj)
{
    struct ron_http_selection a;
    struct ron_cas_slice all = ron_cas_slice(take_obj, 0, ron_cas_obj_size(take_obj));
    struct ron_http_blob blob = {.bytes = all.bytes,
                                 .fd = all.fd,
                                 .offset = all.bytes != NULL ? 0 : all.off,
                                 .release = release_object,
                                 .arg = take_obj};

    if (!select_part(out, take_obj, &a)) {
        ron_cas_release(take_obj);
        return;
    }
    if (!is_plain(take_obj)) {
        stream(out, take_obj, &a);
        ron_cas_release(take_obj);
        return;
    }
    blob.offset += a.status == 206 ? a.ranges[0].first : 0;
    blob.length = a.length;
    if (out->call != NULL) {
        ron_http_answer_blob(out->call, a.status, "application/octet-stream", &blob);
    } else {
        ron_http_reply_send_blob(out->reply, a.status, "application/octet-stream", &blob);
    }
}

/* ---- the route ------------------------------------------------------------------------------- */

/* `deep`: the local store has not got it, the bucket may. */
static void submit(struct out *out, const struct iop_read *wanted, bool deep)
{
    struct iop_objects *o = out->objects;
    struct iop_read *r = ron_alloc_zero(sizeof *r);
    enum ron_rc rc = RON_NOMEM;

    if (r != NULL) {
        *r = *wanted;
        r->magic = IOP_READ_MAGIC;
        r->head = out->head;
        r->deep = deep;
        rc = ron_http_defer(out->call, &r->reply);
    }
    if (rc == RON_OK) {
        rc = ron_chan_try_send(deep ? o->s3_reads : o->reads, r, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(out->call, r->reply);
    }
    ron_free(r);
    fail(out, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY);
}

void iop_object_http(struct ron_http_call *call, void *arg)
{
    struct iop_objects *o = RON_OBJ(arg, struct iop_objects, IOP_OBJECTS_MAGIC);
    struct out out = {.objects = o, .call = call, .head = ron_http_head(call)};
    struct ron_str text = ron_http_param(call, 0);
    struct iop_read wanted = {0};
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (!o->reads_open && !iop_allowed(o->core, call, "interop.read", NULL)) {
        return;
    }
    if (ron_b3_parse(text.ptr, text.len, &wanted.id, &err) != RON_OK) {
        iop_fail(call, IOP_ERROR_MALFORMED,
                 "invalid address; expected b3: and 64 lowercase hex digits");
        return;
    }
    rc = iop_proof_query(out.head->query, &wanted.proof_start, &wanted.proof_len);
    wanted.proof = rc == RON_OK;
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        iop_fail(call, IOP_ERROR_MALFORMED,
                 "invalid proof; expected nothing, or start and length such as 0,1024");
        return;
    }
    rc = ron_cas_get(o->store, &wanted.id, &obj);
    if (rc == RON_OK && is_plain(obj) && !wanted.proof) {
        answer(&out, obj);
        return;
    }
    if (rc == RON_OK) {
        ron_cas_release(obj);
    }
    if (rc == RON_NOTFOUND && o->up->storage == NULL && o->tier == NULL) {
        fail(&out, IOP_ERROR_NOT_FOUND);
    } else {
        submit(&out, &wanted, rc == RON_NOTFOUND && o->tier != NULL);
    }
}

/* ---- readers --------------------------------------------------------------------------------- */

void iop_read_drop(struct iop_read *take_read, enum iop_error error)
{
    RON_CHECK_MAGIC(take_read, IOP_READ_MAGIC);
    iop_reply_fail(take_read->reply, error, NULL);
    ron_free(take_read);
}

/* To a reader of the bucket: those for the disk do not wait for the network. */
static void pass_on(struct iop_objects *o, const struct iop_read *r)
{
    struct iop_read *deep = ron_alloc(sizeof *deep);
    enum ron_rc rc = RON_NOMEM;

    if (deep != NULL) {
        *deep = *r;
        deep->deep = true;
        rc = ron_chan_try_send(o->s3_reads, deep, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_free(deep);
    }
    iop_reply_fail(r->reply, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, NULL);
}

static void take_read(struct iop_objects *o, struct iop_read *r)
{
    struct out out = {.objects = o, .reply = r->reply, .head = r->head};
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (ron_http_reply_cancelled(r->reply)) {
        fail(&out, IOP_ERROR_TIMEOUT);
        return;
    }
    rc = r->deep ? ron_tier_fetch(o->tier, &r->id, ron_deadline_never(), &err) : RON_OK;
    if (rc == RON_OK) {
        rc = ron_cas_open(o->store, &r->id, &obj, &err);
    }
    if ((rc == RON_NOTFOUND || rc == RON_CORRUPT) && o->up->storage != NULL) {
        rc = iop_storage_pull(o, &r->id, &obj, &err);
    }
    if (rc == RON_OK && r->proof) {
        iop_proof_answer(o, r, obj);
        return;
    }
    if (rc == RON_OK) {
        answer(&out, obj);
        return;
    }
    if ((rc == RON_NOTFOUND || rc == RON_CORRUPT) && o->tier != NULL && !r->deep) {
        pass_on(o, r);
        return;
    }
    if (rc != RON_NOTFOUND) {
        RON_LOG(o->core->log, ERROR, "object read failed", RON_LOG_ERR(&err));
    }
    iop_reply_fail(r->reply, iop_error_of(rc), rc == RON_TIMEOUT ? err.msg : NULL);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct iop_objects *o = RON_OBJ(arg, struct iop_objects, IOP_OBJECTS_MAGIC);

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct iop_read *r = RON_OBJ(items[i], struct iop_read, IOP_READ_MAGIC);

        take_read(o, r);
        r->magic = 0;
        ron_free(r);
    }
    return RON_OK;
}

static enum ron_rc add_reader(struct iop_objects *o, const char *name, struct ron_chan *input,
                              struct ron_err *err)
{
    return ron_sup_add(ron_app_sup(o->core->app),
                       &(struct ron_task_def){.name = name,
                                              .kind = "reader",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 1,
                                              .input = input,
                                              .batch_max = 1,
                                              .handle = handle,
                                              .arg = o},
                       NULL, err);
}

enum ron_rc iop_readers_add(struct iop_objects *o, struct ron_err *err)
{
    uint32_t count =
        ron_conf_str(o->core->conf, IOP_STORAGE_URL).len > 0 ? IOP_READERS_REMOTE : IOP_READERS;

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(o->reader_names[i], sizeof o->reader_names[i], "reader-%u", i);
        RON_TRY(add_reader(o, o->reader_names[i], o->reads, err));
    }
    for (uint32_t i = 0; i < ron_tier_fetches(o->tier); i++) {
        (void)snprintf(o->s3_reader_names[i], sizeof o->s3_reader_names[i], "s3-reader-%u", i);
        RON_TRY(add_reader(o, o->s3_reader_names[i], o->s3_reads, err));
    }
    return RON_OK;
}
