/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/files_write.c - the store of an index in files: a transaction.
 *
 *     put ──► record in memory (whole runs, tails, state), or the end of a run's or image's file
 *     commit ──► files synced, their names too ──► record written and synced ──► it counts
 *
 * Invariants:
 *   F1. A record is written when all that its state names is durable, so a crash at any moment
 *       leaves the commit before, or this one.
 *   F2. After a failed commit the next one begins a new journal: nobody knows what of the record is
 *       on disk, and nothing is written behind it. Should it turn out to be whole after a crash,
 *       its state names bytes that are there, or marks that do not fit (priv.h), never others.
 *   F3. Files are removed after the commit that no longer names them, and when no copy goes on.
 *
 * Threads: the writer's; what a copy looks at changes with the lock held. */
#include "ledger/index/files.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static struct led_files *files_of(struct led_blobs *b)
{
    return RON_CONTAINER_OF(b, struct led_files, base);
}

static enum ron_rc begin(struct led_files *s)
{
    static const uint8_t head[LED_RECORD_HEAD];

    if (s->begun) {
        return RON_OK;
    }
    ron_buf_clear(&s->record);
    RON_TRY(ron_buf_append(&s->record, head, sizeof head));
    s->to = s->journal;
    if (s->to == NULL || s->to->len > s->journal_max) {
        s->to = ron_alloc_zero(sizeof *s->to);
        if (s->to == NULL) {
            return RON_NOMEM;
        }
        *s->to = (struct led_file){
            .kind = LED_FILE_JOURNAL, .number = s->journal_next++, .fd = -1, .fresh = true};
    }
    s->begun = true;
    return RON_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

enum ron_rc led__files_make_run(struct led_blobs *b, uint64_t id, bool whole,
                                const struct led_run_file **ret_file, struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct led_file_run *run;

    RON_TRY(begin(s));
    RON_ASSERT(led__files_run(s, id) == NULL);
    run = ron_alloc_zero(sizeof *run);
    if (run == NULL) {
        return RON_NOMEM;
    }
    run->id = id;
    run->fresh = true;
    run->file = s->to;
    if (!whole || ron_buf_len(&s->record) > LED_FILES_RECORD) {
        enum ron_rc rc =
            led__files_open(s, LED_FILE_RUN, id, RON_OPEN_CREATE | RON_OPEN_TRUNC, &run->file, err);

        if (rc != RON_OK) {
            ron_free(run);
            return rc;
        }
        run->file->fresh = true;
        run->read.fd = run->file->fd;
    }
    run->next = s->runs;
    s->runs = run;
    *ret_file = &run->read;
    return RON_OK;
}

enum ron_rc led__files_flush(struct led_files *s, struct ron_err *err)
{
    struct led_file *file = RON_TAKE(s->out.file);
    size_t len = s->out.len;

    s->out.len = 0;
    return file == NULL || len == 0 ? RON_OK
                                    : s->env->disk->pwrite(s->env, file->fd, s->out.bytes, len,
                                                           file->len_new - len, err);
}

static enum ron_rc put_piece(struct led_files *s, struct led_blob_key key, const void *bytes,
                             size_t len, struct ron_err *err)
{
    struct led_file_run *run = led__files_run(s, key.a);
    uint8_t *room;

    RON_ASSERT(run != NULL && key.b == run->pieces_new && len <= LED_PIECE_BYTES);
    if (run->file == s->to) {
        if (run->pieces_new == 0) {
            run->read.base = s->to->len + ron_buf_len(&s->record);
        }
        RON_TRY(ron_buf_reserve(&s->record, LED_PIECE_BYTES, &room));
        ron_buf_commit(&s->record, LED_PIECE_BYTES);
    } else {
        if (s->out.file != run->file || s->out.len == LED_FILES_WRITE) {
            RON_TRY(led__files_flush(s, err));
            s->out.file = run->file;
        }
        room = s->out.bytes + s->out.len;
        s->out.len += LED_PIECE_BYTES;
        run->file->len_new += LED_PIECE_BYTES;
    }
    memcpy(room, bytes, len);
    memset(room + len, 0, LED_PIECE_BYTES - len);
    run->pieces_new++;
    return RON_OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

static enum ron_rc put_chunk(struct led_files *s, struct led_blob_key key, const void *bytes,
                             size_t len, struct ron_err *err)
{
    struct led_file *file = led__files_find(s, LED_FILE_IMAGE, key.a);
    uint32_t size = (uint32_t)len;

    if (key.b == 0 && file != NULL) {
        /* Given up and begun again. No state names it, so nothing is lost when this fails. */
        file->len = file->len_new = file->synced = 0;
        file->records = file->records_new = 0;
        file->doomed = false;
        led__files_reset_reads(s);
    } else if (key.b == 0) {
        RON_TRY(led__files_open(s, LED_FILE_IMAGE, key.a, RON_OPEN_CREATE | RON_OPEN_TRUNC, &file,
                                err));
        file->fresh = true;
    }
    if (file == NULL || key.b != file->records_new) {
        return ron_err_set(err, RON_IO, "index: the image at seq %llu was lost on the way",
                           (unsigned long long)key.a);
    }
    RON_TRY(s->env->disk->pwrite(s->env, file->fd, &size, sizeof size, file->len_new, err));
    RON_TRY(s->env->disk->pwrite(s->env, file->fd, bytes, len, file->len_new + sizeof size, err));
    file->len_new += sizeof size + len;
    file->records_new++;
    return RON_OK;
}

/* ---- put and delete -------------------------------------------------------------------------- */

static enum ron_rc put_state(struct led_files *s, const void *bytes, size_t len)
{
    uint8_t *copy = ron_alloc(len);

    if (copy == NULL) {
        return RON_NOMEM;
    }
    memcpy(copy, bytes, len);
    ron_free(s->state_new);
    s->state_new = copy;
    s->state_new_len = len;
    return RON_OK;
}

enum ron_rc led__files_put(struct led_blobs *b, struct led_blob_key key, const void *bytes,
                           size_t len, const uint8_t **ret_kept, struct ron_err *err)
{
    struct led_files *s = files_of(b);

    *ret_kept = NULL;
    RON_TRY(begin(s));
    switch ((enum led_blob_kind)key.kind) {
    case LED_BLOB_STATE:
        return put_state(s, bytes, len);
    case LED_BLOB_TAIL:
        RON_ASSERT(key.a < LED_TREES);
        return led__tails_add(&s->tails_new[key.a], bytes, (uint32_t)len);
    case LED_BLOB_IMAGE:
        return put_chunk(s, key, bytes, len, err);
    case LED_BLOB_PIECE:
        return put_piece(s, key, bytes, len, err);
    }
    return RON_INVALID;
}

enum ron_rc led__files_del(struct led_blobs *b, struct led_blob_key key, struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct led_file_run *run;
    struct led_file *file;

    (void)err;
    RON_TRY(begin(s));
    switch ((enum led_blob_kind)key.kind) {
    case LED_BLOB_STATE:
        break;
    case LED_BLOB_TAIL:
        RON_ASSERT(key.a < LED_TREES);
        s->cleared[key.a] = true;
        led__tails_clear(&s->tails_new[key.a]);
        break;
    case LED_BLOB_IMAGE:
        file = led__files_find(s, LED_FILE_IMAGE, key.a);
        if (file != NULL) {
            file->doomed = true;
        }
        break;
    case LED_BLOB_PIECE: /* in order: with the last one the file can go */
        run = led__files_run(s, key.a);
        if (run != NULL && key.b + 1 == run->pieces) {
            run->doomed = true;
        }
        break;
    }
    return RON_OK;
}

/* ---- making durable -------------------------------------------------------------------------- */

/* After a failed sync the system may have forgotten what it could not write: it is given to it once
 * more. Should it be lost already, checksums tell. */
static enum ron_rc write_again(struct led_files *s, struct led_file *file, struct ron_err *err)
{
    for (uint64_t at = file->synced; at < file->len_new;) {
        size_t want = (size_t)RON_MIN(file->len_new - at, (uint64_t)LED_FILES_STREAM);
        size_t got = 0;

        led__files_reset_reads(s);
        RON_TRY(s->env->disk->pread(s->env, file->fd, s->in.bytes, want, at, &got));
        if (got == 0) {
            return ron_err_set(err, RON_IO, "index: bytes were lost by a failed sync");
        }
        RON_TRY(s->env->disk->pwrite(s->env, file->fd, s->in.bytes, got, at, err));
        at += got;
    }
    file->suspect = false;
    return RON_OK;
}

static enum ron_rc sync_file(struct led_files *s, struct led_file *file, struct ron_err *err)
{
    if (file->synced == file->len_new) {
        return RON_OK;
    }
    if (file->suspect) {
        RON_TRY(write_again(s, file, err));
    }
    file->suspect = true;
    RON_TRY(s->env->disk->sync(s->env, file->fd, true, err));
    file->suspect = false;
    file->synced = file->len_new;
    return RON_OK;
}

static enum ron_rc sync_names(struct led_files *s, struct ron_err *err)
{
    bool all = true;

    for (const struct led_file *file = s->files; file != NULL; file = file->next) {
        all = all && (file->named || file->synced == 0);
    }
    if (all) {
        return RON_OK;
    }
    RON_TRY(s->env->disk->sync_dir(s->env, s->path, err));
    for (struct led_file *file = s->files; file != NULL; file = file->next) {
        file->named = true;
    }
    return RON_OK;
}

/* Its name is synced with the commit. */
enum ron_rc led__files_sync_run(struct led_blobs *b, uint64_t id, struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct led_file_run *run = led__files_run(s, id);

    RON_ASSERT(run != NULL);
    if (run->file->kind == LED_FILE_JOURNAL) {
        return RON_OK;
    }
    if (s->out.file == run->file) {
        RON_TRY(led__files_flush(s, err));
    }
    return sync_file(s, run->file, err);
}

static enum ron_rc sync_images(struct led_files *s, struct ron_err *err)
{
    for (struct led_file *file = s->files; file != NULL; file = file->next) {
        if (file->kind == LED_FILE_IMAGE && !file->doomed) {
            RON_TRY(sync_file(s, file, err));
        }
    }
    return RON_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

static uint32_t add_tails(struct ron_buf *record, const struct led_file_tails *tails, uint32_t tree)
{
    uint32_t count = 0;

    for (const struct led_file_tail *tail = tails->first; tail != NULL; tail = tail->next) {
        uint8_t head[LED_TAIL_HEAD];

        led__record_tail_head(head, tree, tail->len);
        (void)ron_buf_append(record, head, sizeof head); /* looked at once, in end_record */
        (void)ron_buf_append(record, tail->bytes, tail->len);
        count++;
    }
    return count;
}

static enum ron_rc end_record(struct ron_buf *record, const uint8_t *state, size_t state_len,
                              struct led_record *r)
{
    uint8_t *room;

    r->state_len = (uint32_t)state_len;
    RON_TRY(ron_buf_reserve(record, state_len, &room));
    memcpy(room, state, state_len);
    ron_buf_commit(record, state_len);
    RON_TRY(ron_buf_error(record));
    r->len = ron_buf_len(record);
    led__record_seal((uint8_t *)(uintptr_t)ron_buf_data(record), r);
    return RON_OK;
}

enum ron_rc led__files_whole(const struct led_files *s, uint64_t journal, struct ron_buf *record)
{
    static const uint8_t head[LED_RECORD_HEAD];
    struct led_record r = {.journal = journal, .cleared = (1u << LED_TREES) - 1};

    RON_TRY(ron_buf_append(record, head, sizeof head));
    for (uint32_t t = 0; t < LED_TREES; t++) {
        r.tails += add_tails(record, &s->tails[t], t);
    }
    return end_record(record, s->state, s->state_len, &r);
}

static enum ron_rc make_record(struct led_files *s)
{
    struct led_record r = {.journal = s->to->number, .number = s->to->records};

    r.pieces = (uint32_t)((ron_buf_len(&s->record) - LED_RECORD_HEAD) / LED_PIECE_BYTES);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        if (s->to->fresh && !s->cleared[t]) {
            r.tails += add_tails(&s->record, &s->tails[t], t);
        }
        if (s->to->fresh || s->cleared[t]) {
            r.cleared |= 1u << t;
        }
        r.tails += add_tails(&s->record, &s->tails_new[t], t);
    }
    RON_ASSERT(s->state_new != NULL);
    return end_record(&s->record, s->state_new, s->state_new_len, &r);
}

static enum ron_rc write_record(struct led_files *s, struct ron_err *err)
{
    const struct ron_disk_ops *disk = s->env->disk;
    struct led_file *to = s->to;

    if (to->fresh) {
        char path[RON_FILE_PATH_SIZE];

        led__files_name(s, LED_FILE_JOURNAL, to->number, path);
        RON_TRY(disk->open(s->env, path,
                           RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC, 0600,
                           &to->fd, err));
    }
    RON_TRY(disk->pwrite(s->env, to->fd, ron_buf_data(&s->record), ron_buf_len(&s->record), to->len,
                         err));
    RON_TRY(disk->sync(s->env, to->fd, true, err));
    return to->fresh ? disk->sync_dir(s->env, s->path, err) : RON_OK;
}

/* ---- the end of a transaction ---------------------------------------------------------------- */

static void drop_file(struct led_files *s, struct led_file *file)
{
    char path[RON_FILE_PATH_SIZE];

    if (file->fd >= 0) {
        s->env->disk->close(s->env, file->fd);
        led__files_name(s, file->kind, file->number, path);
        RON_IGNORE(s->env->disk->remove(s->env, path, NULL)); /* the next opening tries again */
    }
    ron_free(file);
}

/* Takes the files out of the list that `away` picks. */
static struct led_file *take_files(struct led_files *s, bool (*away)(const struct led_files *s,
                                                                     const struct led_file *file))
{
    struct led_file **at = &s->files;
    struct led_file *taken = NULL;

    while (*at != NULL) {
        struct led_file *file = *at;

        if (away(s, file)) {
            *at = file->next;
            file->next = taken;
            taken = file;
        } else {
            at = &file->next;
        }
    }
    return taken;
}

static bool is_needless(const struct led_files *s, const struct led_file *file)
{
    return file->doomed ||
           (file->kind == LED_FILE_JOURNAL && file->runs == 0 && file != s->journal);
}

static bool is_fresh(const struct led_files *s, const struct led_file *file)
{
    (void)s;
    return file->fresh;
}

static void take_runs(struct led_files *s)
{
    struct led_file_run **at = &s->runs;

    while (*at != NULL) {
        struct led_file_run *run = *at;

        if (run->fresh) {
            run->file->runs++;
            run->read.fd = run->file->fd;
            run->fresh = false;
        }
        run->pieces = run->pieces_new;
        if (run->doomed) {
            run->file->runs--;
            run->file->doomed = run->file->kind == LED_FILE_RUN;
            *at = run->next;
            ron_free(run);
        } else {
            at = &run->next;
        }
    }
}

static void take_tails(struct led_files *s)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        struct led_file_tails *tails = &s->tails[t];

        if (s->cleared[t]) {
            led__tails_clear(tails);
        }
        if (tails->last != NULL) {
            tails->last->next = s->tails_new[t].first;
        } else {
            tails->first = s->tails_new[t].first;
        }
        tails->last = s->tails_new[t].last != NULL ? s->tails_new[t].last : tails->last;
        s->tails_new[t] = (struct led_file_tails){0};
        s->cleared[t] = false;
    }
}

/* The commit is durable. Nothing here can fail. */
static struct led_file *take_transaction(struct led_files *s)
{
    struct led_file *to = RON_TAKE(s->to);
    uint64_t bytes = 0;
    struct led_file *needless;

    to->len_new = to->len + ron_buf_len(&s->record);
    to->synced = to->len_new;
    to->records_new = to->records + 1;
    if (to->fresh) {
        to->named = true;
        to->next = s->files;
        s->files = to;
        s->journal = to;
    }
    ron_free(s->state);
    s->state = RON_TAKE(s->state_new);
    s->state_len = s->state_new_len;
    take_tails(s);
    take_runs(s);
    for (struct led_file *file = s->files; file != NULL; file = file->next) {
        file->fresh = false;
        file->len = file->len_new;
        file->records = file->records_new;
    }
    needless = take_files(s, is_needless);
    for (const struct led_file *file = s->files; file != NULL; file = file->next) {
        bytes += file->len;
    }
    ron_stat_set(&s->bytes, bytes);
    return needless;
}

static void remove_needless(struct led_files *s, struct led_file *needless)
{
    bool copies;

    while (needless != NULL) {
        struct led_file *next = needless->next;

        needless->next = s->gone;
        s->gone = needless;
        needless = next;
    }
    ron_mutex_lock(&s->lock);
    copies = s->copies > 0;
    ron_mutex_unlock(&s->lock);
    while (!copies && s->gone != NULL) {
        struct led_file *next = s->gone->next;

        drop_file(s, s->gone);
        s->gone = next;
    }
}

enum ron_rc led__files_commit(struct led_blobs *b, struct ron_err *err)
{
    struct led_files *s = files_of(b);
    struct led_file *needless;
    enum ron_rc rc;

    RON_TRY(begin(s));
    RON_TRY(led__files_flush(s, err));
    RON_TRY(sync_images(s, err));
    RON_TRY(sync_names(s, err));
    RON_TRY(make_record(s));
    rc = write_record(s, err);
    ron_mutex_lock(&s->lock);
    if (rc != RON_OK) {
        s->journal = NULL; /* F2 */
    }
    needless = rc == RON_OK ? take_transaction(s) : NULL;
    ron_mutex_unlock(&s->lock);
    if (rc != RON_OK) {
        return rc;
    }
    ron_buf_clear(&s->record);
    led__files_reset_reads(s);
    s->begun = false;
    remove_needless(s, needless);
    return RON_OK;
}

void led__files_abort(struct led_blobs *b)
{
    struct led_files *s = files_of(b);
    struct led_file *made;

    for (struct led_file_run **at = &s->runs; *at != NULL;) {
        struct led_file_run *run = *at;

        run->pieces_new = run->pieces;
        run->doomed = false;
        if (run->fresh) {
            *at = run->next;
            ron_free(run);
        } else {
            at = &run->next;
        }
    }
    ron_mutex_lock(&s->lock);
    made = take_files(s, is_fresh);
    for (struct led_file *file = s->files; file != NULL; file = file->next) {
        file->len_new = file->len;
        file->records_new = file->records;
        file->synced = RON_MIN(file->synced, file->len);
        file->doomed = false;
    }
    ron_mutex_unlock(&s->lock);
    while (made != NULL) {
        struct led_file *next = made->next;

        drop_file(s, made);
        made = next;
    }
    if (s->to != NULL && s->to->fresh) {
        drop_file(s, s->to);
    }
    for (uint32_t t = 0; t < LED_TREES; t++) {
        led__tails_clear(&s->tails_new[t]);
        s->cleared[t] = false;
    }
    s->to = NULL;
    s->begun = false;
    s->out.file = NULL;
    s->out.len = 0;
    ron_buf_clear(&s->record);
    led__files_reset_reads(s);
    ron_free(s->state_new);
    s->state_new = NULL;
}
