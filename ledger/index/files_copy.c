/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/files_copy.c - a copy of an index while its writer goes on.
 *
 * With the lock held, what is committed is written down: the files with their lengths, and a record
 * of tails and state. Then the files are copied up to those lengths, behind which alone the writer
 * adds; as long as a copy goes on, it removes none. The record becomes a journal with a number
 * above all others, so the copy is opened with exactly that state.
 *
 * Threads: any that may block; several at a time. Failure: half a copy is removed. */
#include "ledger/index/files.h"

#include "ron/base/alloc.h"

enum { COPY_BYTES = 1 << 20 };

struct part {
    enum led_file_kind kind;
    uint64_t number;
    uint64_t len;
};

struct copying {
    struct led_files *from;
    struct led_files to;  /* its path alone */
    struct ron_buf parts; /* struct part */
    struct ron_buf record;
    uint64_t journal;
    uint8_t *room;
};

/* The lock is held. */
static enum ron_rc write_down(struct copying *c)
{
    const struct led_files *s = c->from;

    for (const struct led_file *file = s->files; file != NULL; file = file->next) {
        struct part part = {.kind = file->kind, .number = file->number, .len = file->len};

        if (file->kind == LED_FILE_JOURNAL) {
            c->journal = RON_MAX(c->journal, file->number + 1);
        }
        if (!file->fresh) {
            RON_TRY(ron_buf_append(&c->parts, &part, sizeof part));
        }
    }
    return led__files_whole(s, c->journal, &c->record);
}

static enum ron_rc copy_bytes(struct copying *c, const struct part *part, int in, int out,
                              struct ron_err *err)
{
    const struct ron_env *env = c->from->env;

    for (uint64_t at = 0; at < part->len;) {
        size_t want = (size_t)RON_MIN(part->len - at, (uint64_t)COPY_BYTES);
        size_t got = 0;

        RON_TRY(env->disk->pread(env, in, c->room, want, at, &got));
        if (got < want) {
            return ron_err_set(err, RON_CORRUPT, "index: a file is shorter than it was");
        }
        RON_TRY(env->disk->pwrite(env, out, c->room, got, at, err));
        at += got;
    }
    return env->disk->sync(env, out, false, err);
}

static enum ron_rc copy_part(struct copying *c, const struct part *part, struct ron_err *err)
{
    const struct ron_env *env = c->from->env;
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc;
    int in;
    int out;

    led__files_name(c->from, part->kind, part->number, path);
    RON_TRY(env->disk->open(env, path, RON_OPEN_READ, 0, &in, err));
    led__files_name(&c->to, part->kind, part->number, path);
    rc = env->disk->open(env, path, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, 0600, &out,
                         err);
    if (rc == RON_OK) {
        rc = copy_bytes(c, part, in, out, err);
        env->disk->close(env, out);
    }
    env->disk->close(env, in);
    return rc;
}

static enum ron_rc copy_all(struct copying *c, struct ron_err *err)
{
    const struct ron_env *env = c->from->env;
    char path[RON_FILE_PATH_SIZE];

    for (size_t i = 0; i < ron_buf_len(&c->parts) / sizeof(struct part); i++) {
        struct part part;

        memcpy(&part, ron_buf_data(&c->parts) + i * sizeof part, sizeof part);
        RON_TRY(copy_part(c, &part, err));
    }
    led__files_name(&c->to, LED_FILE_JOURNAL, c->journal, path);
    return ron_file_replace(env, path, ron_buf_data(&c->record), ron_buf_len(&c->record), 0600,
                            err);
}

static enum ron_rc copy_into(struct copying *c, struct ron_err *err)
{
    struct led_files *s = c->from;
    enum ron_rc rc;

    ron_mutex_lock(&s->lock);
    s->copies++;
    rc = write_down(c);
    ron_mutex_unlock(&s->lock);
    if (rc == RON_OK) {
        rc = copy_all(c, err);
    }
    ron_mutex_lock(&s->lock);
    s->copies--;
    ron_mutex_unlock(&s->lock);
    return rc;
}

enum ron_rc led__files_copy(struct led_blobs *b, const char *path, struct ron_err *err)
{
    struct copying c = {.from = RON_CONTAINER_OF(b, struct led_files, base), .journal = 1};
    const struct ron_env *env = c.from->env;
    enum ron_rc rc;

    if ((size_t)snprintf(c.to.path, sizeof c.to.path, "%s", path) >= sizeof c.to.path) {
        return ron_err_set(err, RON_LIMIT, "index: the path is too long");
    }
    RON_TRY(env->disk->mkdir(env, path, 0700, err));
    ron_buf_init(&c.parts, LED_FILES_BUF);
    ron_buf_init(&c.record, LED_FILES_BUF);
    c.room = ron_alloc(COPY_BYTES);
    rc = c.room == NULL ? RON_NOMEM : copy_into(&c, err);
    if (rc != RON_OK) { /* half a copy; the failure is told */
        RON_IGNORE(led_index_remove(env, path, NULL));
        RON_IGNORE(env->disk->rmdir(env, path, NULL));
    }
    ron_free(c.room);
    ron_buf_done(&c.parts);
    ron_buf_done(&c.record);
    return rc;
}
