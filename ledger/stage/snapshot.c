/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/stage/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "ledger/core/engine.h"
#include "ledger/work/query.h"
#include "ron/base/alloc.h"
#include "ron/io/file.h"

enum { COPY_BYTES = 1 << 20 };

struct making {
    struct led_engine *engine;
    struct led_signer *signer;
    const struct ron_env *env;
    const char *dir;
    struct led_head head; /* durable before the segments were taken: they hold it */
    struct led_snapshot_done done;
    struct ron_err *err;
};

/* ---- the request ----------------------------------------------------------------------------- */

enum ron_rc led_snapshot_read_dir(struct ron_str body, char *ret_dir, size_t size,
                                  struct ron_err *err)
{
    struct request {
        struct ron_str dir;
        uint64_t present;
    } request = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct request, dir, STRING, .required = true, .max = 400),
    };
    static const struct ron_json_shape shape = RON_JSON_SHAPE(struct request, fields, present);
    char text[LED_ASK_TEXT_MAX];
    struct ron_json_error bad = {0};

    if (body.len >= sizeof text) {
        return ron_err_set(err, RON_INVALID, "the body is too long");
    }
    memcpy(text, body.ptr, body.len);
    if (ron_json_scan(text, body.len, &shape, NULL, &request, &bad) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "send {\"dir\":\"/path\"}");
    }
    if (request.dir.len >= size || request.dir.len == 0 || request.dir.ptr[0] != '/') {
        return ron_err_set(err, RON_INVALID, "dir is an absolute path");
    }
    memcpy(ret_dir, request.dir.ptr, request.dir.len);
    ret_dir[request.dir.len] = '\0';
    return RON_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The used part of the segment that is still written; behind it the copy has a hole of zeros up to
 * the same size. */
static enum ron_rc copy_file(struct making *m, const char *from, const char *to, uint64_t used,
                             uint64_t size)
{
    const struct ron_disk_ops *disk = m->env->disk;
    uint8_t *room = ron_alloc(COPY_BYTES);
    uint64_t at = 0;
    int in = -1;
    int out = -1;
    enum ron_rc rc;

    if (room == NULL) {
        return ron_err_set(m->err, RON_NOMEM, "no memory to copy a segment");
    }
    rc = disk->open(m->env, from, RON_OPEN_READ, 0, &in, m->err);
    if (rc == RON_OK) {
        rc = disk->open(m->env, to, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, 0600, &out,
                        m->err);
    }
    while (rc == RON_OK && at < used) {
        size_t want = (size_t)RON_MIN(used - at, (uint64_t)COPY_BYTES);
        size_t got = 0;

        rc = disk->pread(m->env, in, room, want, at, &got);
        if (rc == RON_OK && got < want) {
            rc = ron_err_set(m->err, RON_IO, "%s is shorter than it was", from);
        }
        if (rc == RON_OK) {
            rc = disk->pwrite(m->env, out, room, got, at, m->err);
        }
        at += got;
    }
    if (rc == RON_OK) {
        rc = disk->truncate(m->env, out, size, m->err);
    }
    if (rc == RON_OK) {
        rc = disk->sync(m->env, out, false, m->err);
    }
    if (in >= 0) {
        disk->close(m->env, in);
    }
    if (out >= 0) {
        disk->close(m->env, out);
    }
    ron_free(room);
    return rc;
}

static enum ron_rc take_segment(void *arg, const char *name, bool sealed, uint64_t used_bytes)
{
    struct making *m = arg;
    char from[1200];
    char to[1200];
    struct ron_file_stat st;

    (void)snprintf(from, sizeof from, "%s/log/%s", m->engine->dir, name);
    (void)snprintf(to, sizeof to, "%s/log/%s", m->dir, name);
    m->done.segments++;
    if (sealed) {
        return m->env->disk->link(m->env, from, to, m->err);
    }
    RON_TRY(m->env->disk->stat(m->env, from, &st));
    return copy_file(m, from, to, used_bytes, st.size_bytes);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum ron_rc make_dirs(struct making *m)
{
    char path[1200];

    RON_TRY(m->env->disk->mkdir(m->env, m->dir, 0700, m->err));
    (void)snprintf(path, sizeof path, "%s/log", m->dir);
    return m->env->disk->mkdir(m->env, path, 0700, m->err);
}

/* Files that are only ever replaced whole, so a link stays as it is. Absent ones were never made:
 * no account frozen, a key kept elsewhere, writes not stopped. */
static enum ron_rc link_rest(struct making *m)
{
    static const char *const names[] = {"signing.key", "frozen", "safe-mode"};
    char from[1200];
    char to[1200];

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        struct ron_file_stat st;
        enum ron_rc rc;

        (void)snprintf(from, sizeof from, "%s/%s", m->engine->dir, names[i]);
        (void)snprintf(to, sizeof to, "%s/%s", m->dir, names[i]);
        rc = m->env->disk->stat(m->env, from, &st);
        if (rc == RON_OK) {
            rc = m->env->disk->link(m->env, from, to, m->err);
        }
        if (rc != RON_OK && rc != RON_NOTFOUND) {
            return rc;
        }
    }
    return RON_OK;
}

static enum ron_rc put_note(struct making *m, const char *name, const struct ron_buf *note)
{
    char path[1200];

    (void)snprintf(path, sizeof path, "%s/%s", m->dir, name);
    return ron_file_replace(m->env, path, ron_buf_data(note), ron_buf_len(note), 0600, m->err);
}

/* What witnesses have signed, if it is of this part of the log. */
static enum ron_rc put_cosigned(struct making *m)
{
    struct ron_buf note;
    enum ron_rc rc;

    ron_buf_init(&note, LED_NOTE_BYTES_MAX);
    rc = led_signer_covering(m->signer, 1, 0, m->head.seq, &note, m->err);
    if (rc == RON_OK) {
        rc = put_note(m, "checkpoint.cosigned", &note);
    } else if (rc == RON_NOTFOUND) {
        rc = RON_OK;
    }
    ron_buf_done(&note);
    return rc;
}

/* The checkpoint comes last: what has it is whole. */
static enum ron_rc sign(struct making *m)
{
    struct ron_buf note;
    enum ron_rc rc;

    ron_buf_init(&note, LED_NOTE_BYTES_MAX);
    rc = led_signer_checkpoint(m->signer, m->head.seq, &m->head.root, &note, m->err);
    if (rc == RON_OK) {
        rc = put_note(m, "checkpoint", &note);
    }
    ron_buf_done(&note);
    return rc;
}

enum ron_rc led_snapshot(struct led_engine *engine, struct led_signer *signer, const char *dir,
                         struct led_snapshot_done *ret_done, struct ron_err *err)
{
    struct making m = {
        .engine = engine, .signer = signer, .env = engine->env, .dir = dir, .err = err};
    char path[1200];

    led_engine_head(engine, &m.head);
    m.done.seq = m.head.seq;
    RON_TRY(make_dirs(&m));
    RON_TRY(led_log_each_segment(engine->live.log, take_segment, &m));
    (void)snprintf(path, sizeof path, "%s/log", dir);
    RON_TRY(engine->env->disk->sync_dir(engine->env, path, err));
    if (engine->live.index != NULL) {
        (void)snprintf(path, sizeof path, "%s/index", dir);
        RON_TRY(led_index_copy(engine->live.index, path, err));
    }
    RON_TRY(link_rest(&m));
    RON_TRY(put_cosigned(&m));
    RON_TRY(sign(&m));
    *ret_done = m.done;
    return RON_OK;
}
