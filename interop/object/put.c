/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/put.c - POST /put: bytes in, an address out.
 *
 * Place: service; blocking tasks. Two forms:
 *     application/octet-stream   the bytes themselves, up to limits.max_object_bytes, as they come:
 *                                a piece of 64 KiB is written while the next one arrives, and no
 *                                more than these two are held
 *     application/json           {"payload": base64, "meta": {...}}, up to 1 MiB
 * The address is that of the bytes behind every coding. Nothing is stored of what is refused or cut
 * short. What a client says of the length is not believed: the store counts. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "interop/core/metrics.h"
#include "interop/object/storage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/http/inflate.h"
#include "ron/http/stream.h"

enum { JSON_MAX = 1 << 20 };

#define PUT_MAGIC 0x49505554u /* "IPUT" */

struct iop_put {
    uint32_t magic;
    struct ron_http_reply *reply;
    uint64_t size_hint;
    bool json;
};

struct fault {
    enum iop_error error;
    char detail[200];
};

static void fault_set(struct fault *f, enum iop_error error, const char *detail)
{
    f->error = error;
    (void)snprintf(f->detail, sizeof f->detail, "%s", detail);
}

/* ---- the body -------------------------------------------------------------------------------- */

/* What the end of a body means that did not come whole. The front has answered most of these. */
static enum iop_error cut_short(enum ron_rc rc)
{
    return rc == RON_LIMIT     ? IOP_ERROR_BODY_LIMIT
           : rc == RON_INVALID ? IOP_ERROR_MALFORMED
           : rc == RON_NOMEM   ? IOP_ERROR_BUSY
                               : IOP_ERROR_TIMEOUT;
}

static enum ron_rc take_stream(struct iop_objects *o, struct iop_put *p, struct ron_cas_writer *w,
                               struct ron_err *err, struct fault *ret)
{
    struct ron_str piece = {0};
    uint64_t pieces = 0;
    enum ron_rc rc;

    while ((rc = ron_http_reply_read_wait(p->reply, ron_deadline_never(), &piece)) == RON_OK) {
        rc = ron_cas_append(w, piece.ptr, piece.len, err);
        ron_http_reply_give_back(p->reply);
        pieces++;
        if (rc != RON_OK) {
            iop_count_of(o->core, IOP_M_CHUNKS, "/put", pieces);
            fault_set(ret, rc == RON_LIMIT ? IOP_ERROR_BODY_LIMIT : iop_error_of(rc), err->msg);
            return rc;
        }
    }
    iop_count_of(o->core, IOP_M_CHUNKS, "/put", pieces);
    if (rc != RON_CLOSED) {
        fault_set(ret, cut_short(rc), "incomplete body");
        return rc;
    }
    return RON_OK;
}

/* ---- the JSON form --------------------------------------------------------------------------- */

struct put_meta {
    uint64_t present;
    struct ron_str type;
    struct ron_str content_encoding;
    struct ron_str provider;
};

struct put_json {
    uint64_t present;
    struct ron_str payload;
    struct ron_str idempotency_key;
    struct put_meta meta;
};

static const struct ron_json_field meta_fields[] = {
    RON_JSON_FIELD(struct put_meta, type, STRING, .max = 255),
    RON_JSON_FIELD(struct put_meta, content_encoding, STRING, .max = 16),
    RON_JSON_FIELD(struct put_meta, provider, STRING, .max = 63),
};
static const struct ron_json_shape meta_shape =
    RON_JSON_SHAPE(struct put_meta, meta_fields, present);

static const struct ron_json_field put_fields[] = {
    RON_JSON_FIELD(struct put_json, payload, STRING, .max = JSON_MAX, .required = true),
    RON_JSON_FIELD(struct put_json, idempotency_key, STRING, .max = 128),
    RON_JSON_FIELD(struct put_json, meta, OBJECT, .shape = &meta_shape),
};
static const struct ron_json_shape put_shape = RON_JSON_SHAPE(struct put_json, put_fields, present);

static enum ron_rc read_json(struct iop_put *p, struct ron_buf *body, struct fault *ret)
{
    struct ron_str piece = {0};
    enum ron_rc rc;

    while ((rc = ron_http_reply_read_wait(p->reply, ron_deadline_never(), &piece)) == RON_OK) {
        rc = ron_buf_append(body, piece.ptr, piece.len);
        ron_http_reply_give_back(p->reply);
        if (rc != RON_OK) {
            fault_set(ret, IOP_ERROR_BODY_LIMIT,
                      "JSON body too large (limit 1 MiB); send application/octet-stream");
            return rc;
        }
    }
    if (rc != RON_CLOSED) {
        fault_set(ret, cut_short(rc), "incomplete body");
        return rc;
    }
    return RON_OK;
}

/* Decodes under the caps of every compressed body. */
static enum ron_rc inflate(struct iop_objects *o, enum ron_inflate_coding coding, const uint8_t *in,
                           size_t len, struct ron_cas_writer *w, struct ron_err *err)
{
    uint8_t out[16384];
    struct ron_inflate *z = NULL;
    size_t used = 0;
    size_t got = 0;
    enum ron_rc rc;
    struct ron_inflate_opts opts = {
        .out_max = (uint64_t)ron_conf_bytes(o->core->conf, RON_APP_MAX_DECODED),
        .ratio_max = (uint32_t)ron_conf_int(o->core->conf, RON_APP_DECODE_RATIO)};

    RON_TRY(ron_inflate_new(coding, &opts, &z, err));
    do {
        rc = ron_inflate_feed(z, in, len, &used, out, sizeof out, &got);
        if (rc == RON_OK && got > 0) {
            rc = ron_cas_append(w, out, got, err);
        }
        in += used;
        len -= used;
    } while (rc == RON_OK && (len > 0 || got == sizeof out));
    if (rc == RON_OK) {
        rc = ron_inflate_end(z);
    }
    ron_inflate_free(z);
    return rc;
}

static enum ron_rc store_payload(struct iop_objects *o, const struct put_json *j, uint8_t *bytes,
                                 struct ron_cas_writer *w, struct ron_err *err, struct fault *ret)
{
    enum ron_inflate_coding coding;
    size_t len = 0;
    enum ron_rc coded = ron_inflate_coding_parse(j->meta.content_encoding, &coding);
    enum ron_rc rc;

    if (coded == RON_UNSUPPORTED) {
        fault_set(ret, IOP_ERROR_MALFORMED,
                  "meta.content_encoding: expected identity, gzip or zstd");
        return RON_INVALID;
    }
    if (j->payload.len > 0 &&
        !ron_base64_read(j->payload, RON_BASE64_PADDED, bytes, j->payload.len, &len)) {
        fault_set(ret, IOP_ERROR_MALFORMED, "payload: invalid base64; expected padding");
        return RON_INVALID;
    }
    rc = coded == RON_OK ? inflate(o, coding, bytes, len, w, err)
                         : ron_cas_append(w, bytes, len, err);
    if (rc != RON_OK) {
        fault_set(ret,
                  rc == RON_LIMIT     ? IOP_ERROR_DECOMP_LIMIT
                  : rc == RON_INVALID ? IOP_ERROR_MALFORMED
                                      : iop_error_of(rc),
                  coded == RON_OK ? "payload cannot be decoded within the limits" : err->msg);
    }
    return rc;
}

static enum ron_rc take_json(struct iop_objects *o, struct iop_put *p, struct ron_cas_writer *w,
                             struct ron_err *err, struct fault *ret)
{
    struct put_json json = {0};
    struct ron_json_error why = {0};
    struct ron_buf body;
    uint8_t *bytes;
    enum ron_rc rc;

    ron_buf_init(&body, JSON_MAX);
    rc = read_json(p, &body, ret);
    if (rc == RON_OK) {
        char *text = (char *)(uintptr_t)ron_buf_text(&body);

        rc = ron_json_scan(text, ron_buf_len(&body), &put_shape, NULL, &json, &why);
        if (rc != RON_OK) {
            (void)snprintf(ret->detail, sizeof ret->detail, "%s: %s", why.field, why.reason);
            ret->error = IOP_ERROR_MALFORMED;
        }
    }
    if (rc == RON_OK) {
        bytes = ron_alloc(json.payload.len + 1);
        if (bytes == NULL) {
            fault_set(ret, IOP_ERROR_BUSY, "out of memory for the payload");
            rc = RON_NOMEM;
        } else {
            rc = store_payload(o, &json, bytes, w, err, ret);
            ron_free(bytes);
        }
    }
    ron_buf_done(&body);
    return rc;
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static void accepted(struct iop_objects *o, struct ron_http_reply *take_reply,
                     const struct ron_b3 *id)
{
    struct iop_notice n = {.kind = IOP_NOTICE_PUT, .ts_ms = ron_env_wall_ms(o->core->env)};
    struct ron_str corr = ron_http_reply_corr_id(take_reply);
    struct ron_json_writer j;

    iop_trail_put(o->core, take_reply, IOP_ERROR_NONE, id);
    ron_b3_format(id, n.b3);
    memcpy(n.corr_id, corr.ptr, RON_MIN(corr.len, sizeof n.corr_id - 1));
    iop_tell(o->core, &n);
    ron_json_begin(&j, ron_http_reply_body(take_reply));
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "address", n.b3);
    ron_json_str(&j, "corr_id", corr);
    ron_json_close(&j, '}');
    ron_http_reply_send(take_reply, 202, "application/json");
}

static void refuse(struct iop_objects *o, struct ron_http_reply *take_reply, enum iop_error error,
                   const char *detail)
{
    iop_trail_put(o->core, take_reply, error, NULL);
    iop_reply_fail(take_reply, error, detail);
}

static void take_put(struct iop_objects *o, struct iop_put *p)
{
    struct fault fault = {0};
    struct ron_cas_writer *w = NULL;
    struct ron_err err = {0};
    struct ron_b3 id;
    enum ron_rc rc = ron_tier_admit(o->tier, &err);

    if (rc == RON_OK) {
        rc = ron_cas_begin(o->store,
                           &(struct ron_cas_write_opts){.size_hint = p->json ? 0 : p->size_hint,
                                                        .pin = ron_tier_pins(o->tier)},
                           &w, &err);
    }
    if (rc != RON_OK) {
        refuse(o, p->reply, iop_error_of(rc), err.msg);
        return;
    }
    rc = p->json ? take_json(o, p, w, &err, &fault) : take_stream(o, p, w, &err, &fault);
    if (rc != RON_OK) {
        ron_cas_abort(w);
        refuse(o, p->reply, fault.error, fault.detail);
        return;
    }
    rc = ron_cas_commit(w, &id, &err);
    if (rc == RON_OK && o->up->storage != NULL) {
        rc = iop_storage_push(o, &id, &err);
    }
    if (rc == RON_OK) {
        rc = ron_tier_stored(o->tier, &id, ron_http_reply_deadline(p->reply), &err);
    }
    if (rc == RON_OK) {
        accepted(o, p->reply, &id);
    } else {
        RON_LOG(o->core->log, ERROR, "object write failed", RON_LOG_ERR(&err));
        refuse(o, p->reply, iop_error_of(rc), err.msg);
    }
}

void iop_put_drop(struct iop_put *take_put, enum iop_error error)
{
    RON_CHECK_MAGIC(take_put, PUT_MAGIC);
    iop_reply_fail(take_put->reply, error, NULL);
    ron_free(take_put);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct iop_objects *o = RON_OBJ(arg, struct iop_objects, IOP_OBJECTS_MAGIC);

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct iop_put *p = RON_OBJ(items[i], struct iop_put, PUT_MAGIC);

        take_put(o, p);
        p->magic = 0;
        ron_free(p);
    }
    return RON_OK;
}

/* ---- the route ------------------------------------------------------------------------------- */

static bool is_octets(const struct ron_http_head *head)
{
    static const char name[] = "application/octet-stream";
    struct ron_str type;

    return ron_http_field_get(head, "content-type", &type) == RON_OK &&
           type.len >= sizeof name - 1 && strncasecmp(type.ptr, name, sizeof name - 1) == 0 &&
           (type.len == sizeof name - 1 || strchr("; \t", type.ptr[sizeof name - 1]) != NULL);
}

void iop_put_http(struct ron_http_call *call, void *arg)
{
    struct iop_objects *o = RON_OBJ(arg, struct iop_objects, IOP_OBJECTS_MAGIC);
    const struct ron_http_head *head = ron_http_head(call);
    bool json = ron_http_is_json(head);
    struct iop_put *p;
    enum ron_rc rc;

    if (!iop_bridge_open(o->bridge, call) || !iop_allowed(o->core, call, "interop.put", NULL)) {
        return;
    }
    if (!json && !is_octets(head)) {
        iop_fail(call, IOP_ERROR_MALFORMED,
                 "unsupported media type; expected application/octet-stream or application/json");
        return;
    }
    if (json && head->has_length && head->content_length > JSON_MAX) {
        iop_fail(call, IOP_ERROR_BODY_LIMIT,
                 "JSON body too large (limit 1 MiB); send application/octet-stream");
        return;
    }
    p = ron_alloc_zero(sizeof *p);
    rc = p != NULL ? ron_http_defer(call, &p->reply) : RON_NOMEM;
    if (rc == RON_OK) {
        p->magic = PUT_MAGIC;
        p->json = json;
        p->size_hint = head->has_length ? head->content_length : 0;
        rc = ron_chan_try_send(o->uploads, p, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(call, p->reply);
    }
    ron_free(p);
    iop_fail(call, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, NULL);
}

enum ron_rc iop_uploads_add(struct iop_objects *o, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(o->core->conf, IOP_UPLOADS);

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(o->upload_names[i], sizeof o->upload_names[i], "upload-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(o->core->app),
                            &(struct ron_task_def){.name = o->upload_names[i],
                                                   .kind = "upload",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = o->uploads,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = o},
                            NULL, err));
    }
    return RON_OK;
}
