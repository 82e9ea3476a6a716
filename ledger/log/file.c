/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/file.c - the files of the log: names, making a segment, and the note about bytes whose
 * fate is unknown.
 *
 * A segment gets its name only when it is whole: zeros, head and size are synced before the rename,
 * and the rename before the first frame. So a segment file is never half made.
 *
 * Zeros and frames go past the system's cache where they can: a journal of gigabytes would fill it
 * with pages that hardly anybody reads, and finding fresh pages costs more than all else that a
 * write does. Readers have descriptors of their own, through the cache.
 *
 * The note: after a failed sync the kernel shows the written bytes, may never write them, and a
 * second sync succeeds without helping. Who opens the log again while the machine lives on would
 * take such a frame for durable. So the range is noted, and opening writes it again as it reads.
 * The note needs no sync: after a crash of the machine what reads is what is there. It stands in
 * the lock file, which is open and has its size from the start: neither a full disk nor a full
 * table of descriptors keeps it from being written. */
#include "ledger/log/priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

const char led__next_name[] = "next.tmp";
const char led__roll_name[] = "roll.tmp";
const char led__lock_name[] = "lock";

enum {
    NUMBER_DIGITS = 8,
    SEQ_DIGITS = 20,
    GENTLE_BYTES = 4 << 20, /* between two syncs: some milliseconds of any disk */
};

enum ron_rc led__path(const struct led_log *log, const char *name,
                      char ret_path[RON_FILE_PATH_SIZE], struct ron_err *err)
{
    int len = snprintf(ret_path, RON_FILE_PATH_SIZE, "%s/%s", log->dir, name);

    if (len < 0 || len >= RON_FILE_PATH_SIZE) {
        return ron_err_set(err, RON_LIMIT, "path of the log is too long");
    }
    return RON_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

void led__segment_name(const struct led__segment *seg, char ret_name[LED__NAME_SIZE])
{
    (void)snprintf(ret_name, LED__NAME_SIZE, "%08" PRIu64 "-%020" PRIu64 ".seg", seg->number,
                   seg->seq_first);
}

static bool digits(const char **at, size_t count, uint64_t *ret_value)
{
    uint64_t v = 0;

    for (size_t i = 0; i < count; i++) {
        char c = *(*at)++;

        if (c < '0' || c > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(c - '0'), &v)) {
            return false;
        }
    }
    *ret_value = v;
    return true;
}

bool led__segment_parse(const char *name, struct led__segment *ret_seg)
{
    struct led__segment seg = {0};

    if (!digits(&name, NUMBER_DIGITS, &seg.number) || *name++ != '-' ||
        !digits(&name, SEQ_DIGITS, &seg.seq_first) || strcmp(name, ".seg") != 0) {
        return false;
    }
    *ret_seg = seg;
    return true;
}

enum ron_rc led__segment_open(const struct led_log *log, const struct led__segment *seg,
                              uint32_t flags, int *ret_fd, struct ron_err *err)
{
    char name[LED__NAME_SIZE];
    char path[RON_FILE_PATH_SIZE];

    led__segment_name(seg, name);
    RON_TRY(led__path(log, name, path, err));
    return log->env->disk->open(log->env, path, flags, 0, ret_fd, err);
}

/* ---- making ---------------------------------------------------------------------------------- */

static enum ron_rc fill(const struct led_log *log, int fd, uint64_t bytes, bool gentle,
                        struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    size_t piece = (size_t)RON_MIN(bytes, (uint64_t)LED__ZERO_BYTES);
    uint8_t *zeros RON_AUTO_FREE = ron_alloc_aligned(RON_DIRECT_ALIGN, piece);

    if (zeros == NULL) {
        return ron_err_set(err, RON_NOMEM, "zeros for a segment");
    }
    memset(zeros, 0, piece);
    /* Where a single sector cannot go past the cache, frames cannot, and all goes through it. */
    RON_TRY(disk->pwrite(log->env, fd, zeros, LED_SECTOR, 0, err));
    for (uint64_t off = 0; off < bytes; off += piece) {
        RON_TRY(disk->pwrite(log->env, fd, zeros, (size_t)RON_MIN((uint64_t)piece, bytes - off),
                             off, err));
        if (gentle && off % GENTLE_BYTES == 0) {
            RON_TRY(disk->sync(log->env, fd, true, err));
        }
    }
    return disk->sync(log->env, fd, false, err);
}

enum ron_rc led__segment_make(const struct led_log *log, const char *name, uint64_t bytes,
                              bool gentle, int *ret_fd, struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    char path[RON_FILE_PATH_SIZE];
    uint64_t free_bytes = 0;
    int fd = -1;
    enum ron_rc rc;

    RON_TRY(led__path(log, name, path, err));
    rc = disk->free_bytes(log->env, log->dir, &free_bytes);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "free space of %s is not known", log->dir);
    }
    if (free_bytes < bytes || free_bytes - bytes < log->opts.free_floor_bytes) {
        return ron_err_set(err, RON_LIMIT,
                           "%" PRIu64 " bytes are free; a segment of %" PRIu64
                           " would leave less than the floor of %" PRIu64,
                           free_bytes, bytes, log->opts.free_floor_bytes);
    }
    RON_TRY(disk->open(log->env, path,
                       RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC | RON_OPEN_DIRECT, 0600,
                       &fd, err));
    rc = fill(log, fd, bytes, gentle, err);
    if (rc != RON_OK) {
        disk->close(log->env, fd);
        RON_IGNORE(disk->remove(log->env, path, NULL)); /* opening clears it too */
        return rc;
    }
    *ret_fd = fd;
    return RON_OK;
}

enum ron_rc led__segment_begin(const struct led_log *log, const char *name, int fd,
                               const struct led_segment_head *head, struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    const struct led__segment seg = {.number = head->number, .seq_first = head->seq_first};
    _Alignas(RON_DIRECT_ALIGN) uint8_t bytes[LED_SEGMENT_HEAD];
    char seg_name[LED__NAME_SIZE];
    char from[RON_FILE_PATH_SIZE];
    char to[RON_FILE_PATH_SIZE];

    led__segment_name(&seg, seg_name);
    RON_TRY(led__path(log, name, from, err));
    RON_TRY(led__path(log, seg_name, to, err));
    led_segment_head_write(head, bytes);
    RON_TRY(disk->pwrite(log->env, fd, bytes, sizeof bytes, 0, err));
    RON_TRY(disk->sync(log->env, fd, true, err));
    RON_TRY(disk->rename(log->env, from, to, err));
    return disk->sync_dir(log->env, log->dir, err);
}

enum ron_rc led__segment_add(struct led_log *log, const struct led__segment *seg)
{
    struct led__segment *old = NULL;

    if (log->segment_count == LED__SEGMENTS_MAX) {
        return RON_LIMIT;
    }
    /* Only this thread changes the list, so it may look without the lock; memory is made and given
     * back outside of it. */
    if (log->segment_count == log->segment_cap) {
        size_t cap = log->segment_cap == 0 ? 16 : 2 * log->segment_cap;
        struct led__segment *grown = ron_alloc_array(cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        if (log->segment_count > 0) {
            memcpy(grown, log->segments, log->segment_count * sizeof *grown);
        }
        ron_mutex_lock(&log->lock);
        old = log->segments;
        log->segments = grown;
        log->segment_cap = cap;
        ron_mutex_unlock(&log->lock);
    }
    ron_mutex_lock(&log->lock);
    log->segments[log->segment_count++] = *seg;
    log->head_used = LED_SEGMENT_HEAD;
    log->head.bytes += seg->bytes;
    log->head.segments = log->segment_count;
    ron_mutex_unlock(&log->lock);
    ron_free(old);
    return RON_OK;
}

/* ---- the note -------------------------------------------------------------------------------- */

enum {
    NOTE_FIELDS = 3,                           /* number of the segment, offset, length */
    NOTE_LEN = NOTE_FIELDS * (SEQ_DIGITS + 1), /* 63 */
    NOTE_TRIES = 8, /* a note that fails is written again: nothing else depends on it */
};

static bool parse_note(const char *text, struct led__range *ret_range)
{
    uint64_t field[NOTE_FIELDS];

    for (size_t i = 0; i < NOTE_FIELDS; i++) {
        if (!digits(&text, SEQ_DIGITS, &field[i]) ||
            *text++ != (i + 1 < NOTE_FIELDS ? ' ' : '\n')) {
            return false;
        }
    }
    *ret_range = (struct led__range){.number = field[0], .off = field[1], .len = field[2]};
    return true;
}

/* Number 0 without a note. One that is no note counts as none: a crash of the machine cut it, and
 * after that it is not needed. */
static enum ron_rc read_note(const struct led_log *log, struct led__range *ret_range)
{
    char text[NOTE_LEN + 1] = {0};
    size_t len = 0;
    enum ron_rc rc = log->env->disk->pread(log->env, log->lock_fd, text, NOTE_LEN, 0, &len);

    if (rc == RON_IO) { /* a spoiled sector of a file without content: no segment has that number */
        *ret_range = (struct led__range){.number = UINT64_MAX};
        return RON_OK;
    }
    RON_TRY(rc);
    if (len != NOTE_LEN || !parse_note(text, ret_range)) {
        *ret_range = (struct led__range){0};
    }
    return RON_OK;
}

enum ron_rc led__note_room(const struct led_log *log, struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    uint64_t size = 0;
    char blank[NOTE_LEN];
    enum ron_rc rc = disk->size(log->env, log->lock_fd, &size);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "size of the lock file");
    }
    if (size >= NOTE_LEN) {
        return RON_OK;
    }
    memset(blank, ' ', sizeof blank);
    RON_TRY(disk->pwrite(log->env, log->lock_fd, blank, sizeof blank, 0, err));
    return disk->sync(log->env, log->lock_fd, false, err);
}

void led__note(const struct led_log *log, uint64_t number, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;
    struct led__range old;
    char text[NOTE_LEN + 1];

    if (read_note(log, &old) == RON_OK && old.number == number) {
        end = RON_MAX(end, old.off + old.len); /* what was unknown before still is */
        off = RON_MIN(off, old.off);
    }
    (void)snprintf(text, sizeof text, "%020" PRIu64 " %020" PRIu64 " %020" PRIu64 "\n", number, off,
                   end - off);
    for (int i = 0; i < NOTE_TRIES; i++) {
        if (log->env->disk->pwrite(log->env, log->lock_fd, text, NOTE_LEN, 0, NULL) == RON_OK) {
            return;
        }
    }
    /* Nothing more can be done: the disk is failing, and writing has ended. */
}

static enum ron_rc write_again(const struct led_log *log, int fd, uint64_t off, uint64_t end,
                               struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    uint8_t *bytes RON_AUTO_FREE = ron_alloc(LED__ZERO_BYTES);

    if (bytes == NULL) {
        return ron_err_set(err, RON_NOMEM, "a piece of a segment");
    }
    while (off < end) {
        size_t len = (size_t)RON_MIN(end - off, (uint64_t)LED__ZERO_BYTES);
        size_t got = 0;
        enum ron_rc rc = disk->pread(log->env, fd, bytes, len, off, &got);

        if (rc != RON_OK || got != len) {
            return ron_err_set(err, rc != RON_OK ? rc : RON_CORRUPT,
                               "the noted range cannot be read at %" PRIu64, off);
        }
        RON_TRY(disk->pwrite(log->env, fd, bytes, len, off, err));
        off += len;
    }
    return disk->sync(log->env, fd, true, err);
}

enum ron_rc led__note_mend(const struct led_log *log, const struct led__segment *last, int fd,
                           struct ron_err *err)
{
    const struct ron_disk_ops *disk = log->env->disk;
    struct led__range range;
    char blank[NOTE_LEN];
    enum ron_rc rc = read_note(log, &range);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "the lock file cannot be read");
    }
    if (range.number == 0) {
        return RON_OK;
    }
    if (range.number == last->number && range.off >= LED_SEGMENT_HEAD && range.off < last->bytes) {
        RON_TRY(write_again(log, fd, range.off,
                            range.off + RON_MIN(range.len, last->bytes - range.off), err));
    }
    memset(blank, ' ', sizeof blank);
    RON_TRY(disk->pwrite(log->env, log->lock_fd, blank, sizeof blank, 0, err));
    return disk->sync(log->env, log->lock_fd, true, err);
}
