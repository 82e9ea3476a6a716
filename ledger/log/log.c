/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/log.c - the log's life: opening, appending, rolling over, what readers are told. */
#include "ledger/log/log.h"

#include <inttypes.h>
#include <string.h>

#include "ledger/log/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

const char *led_damage_name(enum led_damage damage)
{
    static const char *const names[] = {
        [LED_DAMAGE_NONE] = "none",       [LED_DAMAGE_SEGMENT] = "segment",
        [LED_DAMAGE_FRAME] = "frame",     [LED_DAMAGE_CHAIN] = "chain",
        [LED_DAMAGE_CONTENT] = "content", [LED_DAMAGE_MISSING] = "missing",
        [LED_DAMAGE_READ] = "read",       [LED_DAMAGE_REPLAY] = "replay",
        [LED_DAMAGE_DERIVED] = "derived",
    };

    return (size_t)damage < RON_ARRAY_LEN(names) ? names[damage] : "?";
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc remove_stray(const struct led_log *log, const char *name, struct ron_err *err)
{
    struct ron_err said = {0};
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    RON_TRY(led__path(log, name, path, err));
    rc = log->env->disk->remove(log->env, path, &said);
    if (rc == RON_OK || rc == RON_NOTFOUND) {
        return RON_OK;
    }
    return ron_err_set(err, rc, "%s", said.msg);
}

/* The directory, the lock, and nothing left of segments that were being made. */
static enum ron_rc enter(struct led_log *log, struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    char path[RON_FILE_PATH_SIZE];

    RON_TRY(ron_mkdirs(log->env, log->dir, 0700, err));
    RON_TRY(led__path(log, led__lock_name, path, err));
    RON_TRY(disk->open(log->env, path, RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE, 0600,
                       &log->lock_fd, err));
    RON_TRY(disk->lock(log->env, log->lock_fd, err));
    RON_TRY(led__note_room(log, err));
    RON_TRY(remove_stray(log, led__next_name, err));
    return remove_stray(log, led__roll_name, err);
}

static enum ron_rc log_new(const struct led_log_opts *opts, struct led_log **ret_log,
                           struct ron_err *err)
{
    size_t dir_len = strlen(opts->dir);
    struct led_log *log;

    if (dir_len + 1 + LED__NAME_SIZE > RON_FILE_PATH_SIZE) {
        return ron_err_set(err, RON_LIMIT, "path of the log is too long");
    }
    log = ron_alloc_zero(sizeof *log);
    if (log == NULL) {
        return ron_err_set(err, RON_NOMEM, "log");
    }
    log->magic = LED__LOG_MAGIC;
    log->env = opts->env;
    memcpy(log->dir, opts->dir, dir_len + 1);
    log->opts = *opts;
    log->opts.dir = log->dir;
    if (log->opts.segment_bytes == 0) {
        log->opts.segment_bytes = LED__SEGMENT_DEFAULT;
    }
    log->lock_fd = log->fd = log->next_fd = -1;
    ron_mutex_init(&log->lock, RON_RANK_LEAF, "led.log");
    *ret_log = log;
    return RON_OK;
}

enum ron_rc led_log_open(const struct led_log_opts *opts, uint64_t from_seq, led_log_visit *visit,
                         void *arg, struct led_log **ret_log, struct led_log_report *ret_report,
                         struct ron_err *err)
{
    struct led_log_report report = {0};
    struct led_log *log = NULL;
    enum ron_rc rc = RON_OK;

    RON_ASSERT(opts->segment_bytes == 0 || opts->segment_bytes >= LED__SEGMENT_MIN);
    RON_ASSERT(opts->segment_bytes % LED_SEGMENT_HEAD == 0);
    RON_TRY(log_new(opts, &log, err));
    RON_ASSERT(log != NULL);
    if (!opts->read_only) {
        rc = enter(log, err);
    }
    if (rc == RON_OK) {
        rc = led__log_walk(log, from_seq, visit, arg, &report, err);
    }
    if (rc != RON_OK) {
        led_log_close(log);
        return rc;
    }
    *ret_log = log;
    *ret_report = report;
    return RON_OK;
}

void led_log_release(struct led_log *log)
{
    ron_au32_store(&log->broken, 1);
    if (log->lock_fd >= 0) {
        log->env->disk->close(log->env, log->lock_fd);
        log->lock_fd = -1;
    }
}

void led_log_close(struct led_log *log)
{
    if (log == NULL) {
        return;
    }
    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    RON_ASSERT(log->next != LED__NEXT_MAKING);
    if (log->next_fd >= 0) {
        log->env->disk->close(log->env, log->next_fd);
        RON_IGNORE(remove_stray(log, led__next_name, NULL)); /* opening clears it too */
    }
    if (log->fd >= 0) {
        log->env->disk->close(log->env, log->fd);
    }
    if (log->lock_fd >= 0) {
        log->env->disk->close(log->env, log->lock_fd);
    }
    ron_mutex_done(&log->lock);
    ron_free(log->segments);
    log->magic = 0;
    ron_free(log);
}

void led_log_head(const struct led_log *log, struct led_log_head *ret_head)
{
    struct led_log *l = (struct led_log *)(uintptr_t)log; /* the lock is no part of what is read */

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    ron_mutex_lock(&l->lock);
    *ret_head = l->head;
    ron_mutex_unlock(&l->lock);
}

void led_log_set_epoch(struct led_log *log, uint64_t epoch)
{
    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    ron_mutex_lock(&log->lock);
    RON_ASSERT(epoch >= log->head.last_epoch);
    log->head.epoch = epoch;
    ron_mutex_unlock(&log->lock);
}

/* ---- making segments ready ------------------------------------------------------------------- */

bool led_log_wants_segment(const struct led_log *log)
{
    struct led_log *l = (struct led_log *)(uintptr_t)log;
    bool wants;

    if (ron_au32_load(&l->broken) != 0) {
        return false;
    }
    /* A quarter used: early enough at full speed, and a small ledger does not take twice the
     * room. */
    ron_mutex_lock(&l->lock);
    wants = l->next == LED__NEXT_NONE && l->segment_count > 0 &&
            l->head_used > l->segments[l->segment_count - 1].bytes / 4;
    ron_mutex_unlock(&l->lock);
    return wants;
}

enum ron_rc led_log_prepare(struct led_log *log, struct ron_err *err)
{
    enum ron_rc rc;
    bool mine;
    int fd = -1;

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    ron_mutex_lock(&log->lock);
    mine = log->next == LED__NEXT_NONE;
    log->next = mine ? LED__NEXT_MAKING : log->next;
    ron_mutex_unlock(&log->lock);
    if (!mine) {
        return RON_OK;
    }
    rc = led__segment_make(log, led__next_name, log->opts.segment_bytes, true, &fd, err);
    ron_mutex_lock(&log->lock);
    log->next = rc == RON_OK ? LED__NEXT_READY : LED__NEXT_NONE;
    log->next_fd = fd;
    ron_mutex_unlock(&log->lock);
    return rc;
}

/* ---- appending ------------------------------------------------------------------------------- */

/* L4. The range is what the failed write or sync was about; none when it was no frame. */
static enum ron_rc broke(struct led_log *log, enum ron_rc rc, uint64_t off, uint64_t len,
                         struct ron_err *err)
{
    ron_au32_store(&log->broken, 1);
    if (len > 0) {
        led__note(log, log->segments[log->segment_count - 1].number, off, len);
    }
    /* A full disk that shows itself only now is no refusal: something may have been written. */
    if (rc == RON_LIMIT) {
        rc = RON_IO;
        if (err != NULL) {
            err->rc = rc;
        }
    }
    return rc;
}

struct next_file {
    const char *name;
    uint64_t bytes;
    int fd;
};

/* Takes the prepared file when it is large enough, else makes one. */
static enum ron_rc next_file(struct led_log *log, uint64_t needed, struct next_file *ret,
                             struct ron_err *err)
{
    *ret = (struct next_file){.name = led__next_name, .bytes = log->opts.segment_bytes, .fd = -1};
    ron_mutex_lock(&log->lock);
    if (log->next == LED__NEXT_READY && needed <= log->opts.segment_bytes) {
        ret->fd = log->next_fd;
        log->next_fd = -1;
        log->next = LED__NEXT_TAKEN;
    }
    ron_mutex_unlock(&log->lock);
    if (ret->fd >= 0) {
        return RON_OK;
    }
    ret->name = led__roll_name;
    ret->bytes = RON_MAX(RON_MIN(log->opts.segment_bytes, (uint64_t)LED__LATE_BYTES), needed);
    RON_TRY(led__segment_make(log, ret->name, ret->bytes, false, &ret->fd, err));
    ron_mutex_lock(&log->lock);
    log->head.late++;
    ron_mutex_unlock(&log->lock);
    return RON_OK;
}

/* Goes on to a new segment that has room for a frame of `len` bytes. */
static enum ron_rc roll(struct led_log *log, size_t len, struct ron_err *err)
{
    uint64_t needed = (LED_SEGMENT_HEAD + len + LED_SEGMENT_HEAD - 1) / LED_SEGMENT_HEAD *
                      (uint64_t)LED_SEGMENT_HEAD;
    struct led_segment_head head = {
        .number = log->segments[log->segment_count - 1].number + 1,
        .seq_first = log->head.last_seq + 1,
        .prev_root = log->head.root,
        .created_ms = ron_env_wall_ms(log->env),
    };
    struct led__segment seg = {.number = head.number, .seq_first = head.seq_first};
    struct next_file next;
    enum ron_rc rc;

    memcpy(head.uuid, log->head.uuid, LED_UUID_SIZE);
    rc = next_file(log, needed, &next, err);
    if (rc == RON_LIMIT) {
        return rc; /* L6 */
    }
    if (rc == RON_OK) {
        head.segment_bytes = next.bytes;
        seg.bytes = next.bytes;
        rc = led__segment_begin(log, next.name, next.fd, &head, err);
        rc = rc == RON_OK ? led__segment_add(log, &seg) : rc;
        if (rc != RON_OK) {
            log->env->disk->close(log->env, next.fd);
        }
    }
    if (rc != RON_OK) {
        return broke(log, rc, 0, 0, err);
    }
    ron_mutex_lock(&log->lock);
    log->next = log->next == LED__NEXT_TAKEN ? LED__NEXT_NONE : log->next;
    ron_mutex_unlock(&log->lock);
    log->env->disk->close(log->env, log->fd);
    log->fd = next.fd;
    log->used = LED_SEGMENT_HEAD;
    return RON_OK;
}

static enum ron_rc check_frame(const struct led_log *log, const struct led_frame *f, size_t len,
                               struct ron_err *err)
{
    const struct led_log_head *head = &log->head; /* changed by this thread alone */

    if (len % LED_SECTOR != 0 || len == 0 || len > LED_FRAME_MAX) {
        return ron_err_set(err, RON_INVALID, "%zu bytes are no frame", len);
    }
    if (f->seq_first != head->last_seq + 1 || !ron_tree_hash_equal(&f->prev_root, &head->root) ||
        f->epoch != head->epoch || memcmp(f->uuid, head->uuid, LED_UUID_SIZE) != 0) {
        return ron_err_set(err, RON_INVALID,
                           "the frame of seq %" PRIu64 " does not follow seq %" PRIu64,
                           f->seq_first, head->last_seq);
    }
    return RON_OK;
}

enum ron_rc led_log_append(struct led_log *log, const struct led_frame *frame, const uint8_t *bytes,
                           size_t len, struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    enum ron_rc rc;

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    if (ron_au32_load(&log->broken) != 0) {
        return ron_err_set(err, RON_CLOSED, "the log is closed for writing");
    }
    RON_TRY(check_frame(log, frame, len, err));
    if (len > log->segments[log->segment_count - 1].bytes - log->used) {
        RON_TRY(roll(log, len, err));
    }
    rc = disk->pwrite(log->env, log->fd, bytes, len, log->used, err);
    if (rc == RON_OK) {
        rc = disk->sync(log->env, log->fd, true, err);
    }
    if (rc != RON_OK) {
        return broke(log, rc, log->used, len, err);
    }
    log->used += len;
    ron_mutex_lock(&log->lock);
    log->head.last_seq += frame->entries;
    log->head.root = frame->new_root;
    log->head.time_ms = frame->time_ms;
    log->head.last_epoch = frame->epoch;
    log->head_used = log->used;
    ron_mutex_unlock(&log->lock);
    return RON_OK;
}
