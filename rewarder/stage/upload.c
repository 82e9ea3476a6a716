/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/upload.c - PUT /rewarder/inputs: a snapshot of any size, read as it comes, sealed
 * under its content id.
 *
 * Place: service; two blocking tasks. Nothing is stored of a snapshot that is refused. What a
 * client says of the length is not believed: pieces are counted as they come. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

struct rwd_uploads {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    char names[RWD_UPLOADERS][24];
};

/* All pieces of the body into the reader. RON_CLOSED of the stream is its good end. Whether the
 * client has its answer already: *ret_answered. */
static enum ron_rc feed_body(struct rwd_uploads *s, struct rwd_upload *u,
                             struct rwd_snapshot_reader *r, struct ron_err *err)
{
    struct ron_deadline never = ron_deadline_never();
    struct ron_str piece = {0};
    uint64_t bytes = 0;
    enum ron_rc rc;

    while ((rc = ron_http_reply_read_wait(u->reply, never, &piece)) == RON_OK) {
        bytes += piece.len;
        rc = bytes > (uint64_t)ron_conf_bytes(s->core->conf, RWD_INPUT_MAX)
                 ? ron_err_set(err, RON_LIMIT, "the snapshot is larger than limits.max_input_bytes")
                 : rwd_snapshot_feed(r, piece.ptr, piece.len, err);
        ron_http_reply_give_back(u->reply);
        if (rc != RON_OK) {
            return rc;
        }
    }
    if (rc == RON_CLOSED) {
        return RON_OK;
    }
    /* Too slow, too large, malformed, gone: the front has answered, and ours will not be seen. */
    return ron_err_set(err, rc, "the body did not come whole");
}

static void answer(struct ron_http_reply *take_reply, const struct rwd_snapshot *snapshot)
{
    struct ron_json_writer j;
    char cid[RON_B3_ID_SIZE];

    ron_b3_format(&snapshot->cid, cid);
    ron_json_begin(&j, ron_http_reply_body(take_reply));
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "inputs_cid", cid);
    ron_json_u64(&j, "rows", rwd_rows_count(snapshot->rows));
    ron_json_money(&j, "pool_minor_units", snapshot->pool);
    ron_json_u64(&j, "produced_at_millis", snapshot->produced_at_ms);
    ron_json_close(&j, '}');
    ron_http_reply_send(take_reply, 201, "application/json");
}

static void fail(struct rwd_upload *u, enum ron_rc rc, bool too_large, const struct ron_err *err)
{
    struct rwd_fault fault;

    if (too_large) {
        rwd_fault_set(&fault, RWD_ERROR_TOO_LARGE, err->msg);
    } else {
        rwd_fault_of(&fault, rc, RWD_ERROR_SCHEMA, err);
    }
    rwd_reply_fail(u->reply, &fault);
}

static void take_upload(struct rwd_uploads *s, struct rwd_upload *u)
{
    struct rwd_snapshot_reader *r = NULL;
    struct rwd_snapshot snapshot = {0};
    struct ron_err err = {0};
    enum ron_rc rc = rwd_snapshot_reader_new(
        u->form,
        &(struct rwd_rows_opts){.rows_max = (uint64_t)ron_conf_int(s->core->conf, RWD_ROWS_MAX)},
        &r, &err);

    if (rc == RON_OK) {
        rc = feed_body(s, u, r, &err);
        if (rc == RON_OK) {
            rc = rwd_snapshot_end(r, &snapshot, &err);
        } else {
            rwd_snapshot_reader_free(r);
        }
    }
    if (rc != RON_OK) {
        fail(u, rc, rc == RON_LIMIT, &err);
        return;
    }
    rc = rwd_inputs_seal(s->store, &snapshot, &err);
    if (rc == RON_OK) {
        answer(u->reply, &snapshot);
    } else {
        fail(u, rc, false, &err);
    }
    rwd_snapshot_done(&snapshot);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        take_upload(arg, items[i]);
        ron_free(items[i]);
    }
    return RON_OK;
}

enum ron_rc rwd_uploads_add(struct rwd_pipes *p, struct rwd_uploads **ret, struct ron_err *err)
{
    struct rwd_uploads *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the uploads");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    for (uint32_t i = 0; i < RWD_UPLOADERS; i++) {
        (void)snprintf(s->names[i], sizeof s->names[i], "upload-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->core->app),
                            &(struct ron_task_def){.name = s->names[i],
                                                   .kind = "upload",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = s->pipes->uploads,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}
