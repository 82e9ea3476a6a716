/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/open.c - what lies in the directory of the log: segments in their order, frames in
 * theirs, and where it ends.
 *
 * How the end is told apart from damage. The writer has at most one write under way, always at the
 * end, and everything before it was synced. So behind the last good frame there can be
 *     zeros                                the end;
 *     one frame of which sectors are       a torn tail: it was never acknowledged, because its sync
 *     missing, and zeros behind it         never ended;
 *     anything else                        damage: a whole frame that does not check, a good head
 *                                          behind the gap, bytes where nobody writes.
 * A torn frame may lack its first sector too, for a disk orders the sectors of one write as it
 * likes. Then its size is not known, and it may reach as far as the longest frame does. */
#include "ledger/log/priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

struct walk {
    struct led_log *log;
    struct led_log_report *report;
    struct ron_err *err;
    led_log_visit *visit;
    void *arg;
    uint64_t from_seq;

    struct led__segment *found; /* by number */
    size_t found_count;
    size_t found_cap;
    enum ron_rc list_rc;

    struct ron_buf room;
    struct led__window w;
    const struct led__segment *segment; /* the one that is read */
    bool last;
    bool chained; /* a frame or head came before, and the next has to follow */
    struct led_log_head at;
    uint64_t last_frame; /* offset; that of the first one when none came yet */
    uint64_t used;
};

/* Notes damage; the walk ends. */
RON_PRINTF(4, 5)
static void damaged(struct walk *k, enum led_damage damage, uint64_t off, const char *fmt, ...)
{
    struct led_log_report *r = k->report;
    char name[LED__NAME_SIZE];
    va_list args;

    r->damage = damage;
    led__segment_name(k->segment, name);
    (void)snprintf(r->where, sizeof r->where, "%s at %" PRIu64, name, off);
    va_start(args, fmt);
    (void)vsnprintf(r->what, sizeof r->what, fmt, args);
    va_end(args);
}

/* Reading failed as `said` tells: of the disk or the file it is damage, all else ends the
 * opening. */
static enum ron_rc unreadable(struct walk *k, const struct ron_err *said, uint64_t off)
{
    enum ron_rc rc = said->rc;

    if (rc != RON_IO && rc != RON_CORRUPT) {
        if (k->err != NULL) {
            *k->err = *said;
        }
        return rc;
    }
    damaged(k, rc == RON_IO ? LED_DAMAGE_READ : LED_DAMAGE_SEGMENT, off, "%s",
            rc == RON_IO ? "the disk cannot read this" : "the file is too short");
    return RON_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool see_name(void *arg, const char *name, bool is_dir)
{
    struct walk *k = arg;
    struct led__segment seg;

    if (is_dir || !led__segment_parse(name, &seg)) {
        return true;
    }
    if (k->found_count == LED__SEGMENTS_MAX) {
        k->list_rc = RON_LIMIT;
        return false;
    }
    if (k->found_count == k->found_cap) {
        size_t cap = k->found_cap == 0 ? 64 : 2 * k->found_cap;
        struct led__segment *grown = ron_realloc_array(k->found, cap, sizeof *grown);

        if (grown == NULL) {
            k->list_rc = RON_NOMEM;
            return false;
        }
        k->found = grown;
        k->found_cap = cap;
    }
    k->found[k->found_count++] = seg;
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct led__segment *x = a;
    const struct led__segment *y = b;

    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->seq_first > y->seq_first) - (x->seq_first < y->seq_first);
}

static enum ron_rc list_segments(struct walk *k)
{
    struct led_log *log = k->log;

    RON_TRY(log->env->disk->list(log->env, log->dir, see_name, k, k->err));
    if (k->list_rc != RON_OK) {
        return ron_err_set(k->err, k->list_rc, "the segments of %s cannot be listed", log->dir);
    }
    if (k->found_count > 1) {
        qsort(k->found, k->found_count, sizeof *k->found, by_number);
    }
    return RON_OK;
}

static uint64_t random_u64(const struct led_log *log)
{
    return log->env->rand_u64(log->env);
}

/* The first segment of a new ledger, with a random (version 4) UUID. */
static enum ron_rc create(struct walk *k)
{
    struct led_log *log = k->log;
    struct led_segment_head head = {
        .number = 1,
        .seq_first = 1,
        .created_ms = ron_env_wall_ms(log->env),
        .segment_bytes = log->opts.segment_bytes,
    };
    const uint64_t random[2] = {random_u64(log), random_u64(log)};
    enum ron_rc rc;
    int fd;

    _Static_assert(sizeof random == LED_UUID_SIZE, "two words");
    memcpy(head.uuid, random, sizeof random);
    head.uuid[6] = (uint8_t)((head.uuid[6] & 0x0f) | 0x40);
    head.uuid[8] = (uint8_t)((head.uuid[8] & 0x3f) | 0x80);
    if (log->opts.uuid != NULL) {
        memcpy(head.uuid, log->opts.uuid, sizeof head.uuid);
    }
    ron_tree_hash_empty(&head.prev_root);
    RON_TRY(led__segment_make(log, led__roll_name, head.segment_bytes, false, &fd, k->err));
    rc = led__segment_begin(log, led__roll_name, fd, &head, k->err);
    log->env->disk->close(log->env, fd);
    RON_TRY(rc);
    (void)see_name(k, "00000001-00000000000000000001.seg", false);
    return k->list_rc;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Whether records and entries are such as a writer makes. */
static bool content_is_sound(const struct led_frame *frame)
{
    struct led_cursor records;
    struct led_record record;
    uint64_t entries = 0;
    bool bad = false;

    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        struct led_cursor cursor;
        struct led_stored stored;

        entries += record.count;
        led_entries(&record, &cursor);
        while (led_entries_next(&cursor, &stored, &bad)) {
        }
        if (bad) {
            return false;
        }
    }
    return !bad && entries == frame->entries;
}

/* L3. */
static const char *chain_break(const struct walk *k, const struct led_frame *f)
{
    return memcmp(f->uuid, k->at.uuid, LED_UUID_SIZE) != 0    ? "a frame of another ledger"
           : f->seq_first != k->at.last_seq + 1               ? "seq does not follow"
           : !ron_tree_hash_equal(&f->prev_root, &k->at.root) ? "prev_root is not the root before"
           : f->epoch < k->at.epoch                           ? "the epoch falls"
           : f->entries == 0 && !ron_tree_hash_equal(&f->prev_root, &f->new_root)
               ? "the root changes without an entry"
               : NULL;
}

/* A GOOD frame at `off`: checked, told to the visitor, and the new end of the log. */
static void take_frame(struct walk *k, const struct led_frame *f, uint64_t off, size_t size)
{
    const char *broken;
    char where[LED__NAME_SIZE + 32];
    char name[LED__NAME_SIZE];
    struct ron_err said = {0};

    if (!k->chained) { /* read from the middle: what came before is trusted */
        k->at.last_seq = f->seq_first - 1;
        k->at.root = f->prev_root;
        k->chained = true;
    }
    broken = chain_break(k, f);
    if (broken != NULL) {
        damaged(k, LED_DAMAGE_CHAIN, off, "%s", broken);
        return;
    }
    if (!content_is_sound(f)) {
        damaged(k, LED_DAMAGE_CONTENT, off, "no writer makes such a record or entry");
        return;
    }
    led__segment_name(k->segment, name);
    (void)snprintf(where, sizeof where, "%s at %" PRIu64, name, off);
    if (k->visit != NULL && led__frame_reaches(f, k->from_seq) &&
        k->visit(k->arg, f, where, &said) != RON_OK) {
        damaged(k, LED_DAMAGE_REPLAY, off, "%s", said.msg);
        return;
    }
    k->report->frames++;
    k->report->entries += f->entries;
    k->at.last_seq += f->entries;
    k->at.root = f->new_root;
    k->at.epoch = f->epoch;
    k->at.time_ms = f->time_ms;
    k->last_frame = off;
    k->used = off + size;
}

/* Looks for what is not zero in [from, end of the file): first such sector and the end of the last.
 * Both 0 when all is zero. *ret_head: a good head of a frame is among it. */
static enum ron_rc look_behind(struct walk *k, uint64_t from, uint64_t *ret_first,
                               uint64_t *ret_end, bool *ret_head, struct ron_err *err)
{
    *ret_first = *ret_end = 0;
    *ret_head = false;
    while (from < k->w.end) {
        size_t len = (size_t)RON_MIN(k->w.end - from, (uint64_t)LED__WINDOW_SCAN);
        const uint8_t *bytes = NULL;

        RON_TRY(led__window_get(&k->w, from, len, &bytes, err));
        for (size_t i = 0; i < len && !led__all_zero(bytes + i, len - i); i += LED_SECTOR) {
            struct led_frame frame;
            size_t size;

            if (led__all_zero(bytes + i, LED_SECTOR)) {
                continue;
            }
            *ret_first = *ret_first == 0 ? from + i : *ret_first;
            *ret_end = from + i + LED_SECTOR;
            *ret_head = *ret_head || led_frame_peek(bytes + i, &frame, &size);
        }
        from += len;
    }
    return RON_OK;
}

/* The last good frame ended at k->used, and at that place `state` was found. */
static enum ron_rc end_of_frames(struct walk *k, enum led_frame_state state, size_t size)
{
    uint64_t off = k->used;
    bool torn = state == LED_FRAME_TORN;
    uint64_t first;
    uint64_t end;
    bool head;
    struct ron_err said = {0};

    if (state == LED_FRAME_BAD || state == LED_FRAME_MORE) {
        damaged(k, LED_DAMAGE_FRAME, off, "the frame does not check");
        return RON_OK;
    }
    if (look_behind(k, torn ? off + size : off, &first, &end, &head, &said) != RON_OK) {
        return unreadable(k, &said, off);
    }
    if (first != 0 && (torn || !k->last || head || end - off > LED_FRAME_MAX)) {
        damaged(k, LED_DAMAGE_MISSING, first, "bytes behind the end of the frames");
        return RON_OK;
    }
    if (torn && !k->last) {
        damaged(k, LED_DAMAGE_FRAME, off, "a frame with missing sectors before the last segment");
        return RON_OK;
    }
    if (first == 0 && !torn) {
        return RON_OK;
    }
    k->report->torn_bytes = torn ? size : end - off;
    if (k->log->opts.torn_is_damage) {
        damaged(k, LED_DAMAGE_FRAME, off, "a torn tail of %" PRIu64 " bytes",
                k->report->torn_bytes);
    }
    return RON_OK;
}

static enum ron_rc walk_frames(struct walk *k, uint64_t off)
{
    uint64_t looked_twice_at = 0;

    k->used = k->last_frame = off;
    while (k->used < k->w.end) {
        enum led_frame_state state;
        struct led_frame frame;
        struct ron_err said = {0};
        uint64_t at = k->used;
        size_t size;

        if (led__window_frame(&k->w, at, &frame, &state, &size, &said) != RON_OK) {
            return unreadable(k, &said, at);
        }
        if (state == LED_FRAME_GOOD) {
            take_frame(k, &frame, at, size);
            if (k->report->damage != LED_DAMAGE_NONE) {
                return RON_OK;
            }
            continue;
        }
        RON_TRY(end_of_frames(k, state, size));
        if (!k->log->opts.read_only || looked_twice_at == at ||
            (k->report->damage == LED_DAMAGE_NONE && k->report->torn_bytes == 0)) {
            return RON_OK;
        }
        /* Somebody may be writing just this: look twice. */
        looked_twice_at = at;
        k->report->damage = LED_DAMAGE_NONE;
        k->report->torn_bytes = 0;
        k->report->where[0] = k->report->what[0] = '\0';
        ron_buf_clear(&k->room);
    }
    return RON_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Name, size and head agree, and with what came before. */
static void check_head(struct walk *k, const struct led_segment_head *h, bool walked_before)
{
    const struct led__segment *seg = k->segment;
    bool first = k->log->segment_count == 0;

    if (h->number != seg->number || h->seq_first != seg->seq_first ||
        h->segment_bytes != seg->bytes) {
        damaged(k, LED_DAMAGE_SEGMENT, 0, "name, size and head do not agree");
    } else if (!first && memcmp(h->uuid, k->at.uuid, LED_UUID_SIZE) != 0) {
        damaged(k, LED_DAMAGE_SEGMENT, 0, "a segment of another ledger");
    } else if (walked_before && (h->seq_first != k->at.last_seq + 1 ||
                                 !ron_tree_hash_equal(&h->prev_root, &k->at.root))) {
        damaged(k, LED_DAMAGE_CHAIN, 0, "the segment does not follow the one before");
    }
}

/* Opens the segment and reads its head; `damage` may be noted. */
static enum ron_rc open_segment(struct walk *k, struct led__segment *seg, size_t ahead,
                                struct led_segment_head *ret_head, int *ret_fd)
{
    struct led_log *log = k->log;
    struct ron_err said = {0};
    const uint8_t *bytes = NULL;
    enum ron_rc rc;

    RON_TRY(led__segment_open(
        log, seg, RON_OPEN_READ | (k->last && !log->opts.read_only ? RON_OPEN_WRITE : 0), ret_fd,
        k->err));
    rc = log->env->disk->size(log->env, *ret_fd, &seg->bytes);
    if (rc != RON_OK) {
        return ron_err_set(k->err, rc, "size of a segment");
    }
    if (seg->bytes < LED_SEGMENT_HEAD || seg->bytes % LED_SECTOR != 0) {
        damaged(k, LED_DAMAGE_SEGMENT, 0, "a file of %" PRIu64 " bytes is no segment", seg->bytes);
        return RON_OK;
    }
    ron_buf_clear(&k->room);
    k->w = (struct led__window){
        .env = log->env, .fd = *ret_fd, .end = seg->bytes, .ahead = ahead, .buf = &k->room};
    if (led__window_get(&k->w, 0, LED_SEGMENT_HEAD, &bytes, &said) != RON_OK) {
        return unreadable(k, &said, 0);
    }
    if (!led_segment_head_read(bytes, ret_head)) {
        damaged(k, LED_DAMAGE_SEGMENT, 0, "the head does not check");
    }
    return RON_OK;
}

/* Where the frames that are asked for begin in the first segment that is walked. */
static uint64_t first_wanted(struct walk *k, const struct led_segment_head *head)
{
    uint64_t off = 0;

    /* Not found or not sound: from the beginning, which tells what is wrong. */
    if (k->from_seq <= head->seq_first ||
        led__window_find(&k->w, k->at.uuid, k->from_seq, &off, NULL) != RON_OK || off == k->w.end) {
        return LED_SEGMENT_HEAD;
    }
    return off;
}

/* The segment at `i`: its head and, from `start` on, its frames. */
static enum ron_rc walk_segment(struct walk *k, size_t i, size_t start, int *ret_fd)
{
    struct led__segment *seg = &k->found[i];
    struct led_segment_head head = {0};
    uint64_t off = LED_SEGMENT_HEAD;
    enum ron_rc rc;

    k->segment = seg;
    k->last = i + 1 == k->found_count;
    if (i > 0 && seg->number != k->found[i - 1].number + 1) {
        damaged(k, LED_DAMAGE_MISSING, 0, "the segment before it is missing");
        return RON_OK;
    }
    if (i > 0 && seg->seq_first < k->found[i - 1].seq_first) {
        damaged(k, LED_DAMAGE_CHAIN, 0, "the segment begins before the one before it");
        return RON_OK;
    }
    RON_TRY(open_segment(k, seg, i < start ? LED_SEGMENT_HEAD : LED__WINDOW_SCAN, &head, ret_fd));
    if (k->report->damage == LED_DAMAGE_NONE) {
        check_head(k, &head, i > start);
    }
    if (k->report->damage != LED_DAMAGE_NONE) {
        return RON_OK;
    }
    if (i == 0) {
        memcpy(k->at.uuid, head.uuid, LED_UUID_SIZE);
        k->at.first_seq = head.seq_first;
    }
    if (i <= start) {
        k->at.last_seq = head.seq_first - 1;
        k->at.root = head.prev_root;
    }
    k->used = LED_SEGMENT_HEAD;
    rc = led__segment_add(k->log, seg);
    if (rc != RON_OK) {
        return ron_err_set(k->err, rc, "list of segments");
    }
    if (i < start) {
        return RON_OK;
    }
    if (i == start) {
        off = first_wanted(k, &head);
    }
    k->chained = off == LED_SEGMENT_HEAD;
    return walk_frames(k, off);
}

/* Zeros [off, end) of the last segment, the first sector last: as long as it stands, what is left
 * of the rest is still seen to be a torn frame. */
static enum ron_rc zero_tail(struct walk *k, int fd, uint64_t off, uint64_t len)
{
    const struct ron_env *env = k->log->env;
    uint8_t *zeros RON_AUTO_FREE = ron_alloc_zero((size_t)len);

    if (zeros == NULL) {
        return ron_err_set(k->err, RON_NOMEM, "zeros for a torn tail");
    }
    if (len > LED_SECTOR) {
        RON_TRY(
            env->disk->pwrite(env, fd, zeros, (size_t)len - LED_SECTOR, off + LED_SECTOR, k->err));
        RON_TRY(env->disk->sync(env, fd, true, k->err));
    }
    RON_TRY(env->disk->pwrite(env, fd, zeros, LED_SECTOR, off, k->err));
    return env->disk->sync(env, fd, true, k->err);
}

static enum ron_rc settle_steps(struct walk *k, int fd)
{
    struct led_log *log = k->log;
    const struct ron_disk_ops *disk = log->env->disk;

    RON_TRY(disk->sync(log->env, fd, true, k->err)); /* of who was killed before its sync */
    RON_TRY(disk->sync_dir(log->env, log->dir, k->err));
    if (k->report->torn_bytes > 0) {
        RON_TRY(zero_tail(k, fd, k->used, k->report->torn_bytes));
    }
    return led__note_mend(log, k->segment, fd, k->err);
}

/* Before anything is built upon the end of the log it is made sure: the last frame may have been
 * written by somebody who did not live to sync it. */
static enum ron_rc settle(struct walk *k, int fd)
{
    enum ron_rc rc = settle_steps(k, fd);

    if (rc != RON_OK) {
        led__note(k->log, k->segment->number, k->last_frame,
                  k->used + k->report->torn_bytes - k->last_frame);
    }
    return rc;
}

static enum ron_rc walk_all(struct walk *k)
{
    struct led_log *log = k->log;
    const struct ron_disk_ops *disk = log->env->disk;
    size_t start = 0;
    int fd = -1;
    enum ron_rc rc = RON_OK;

    while (start + 1 < k->found_count && k->found[start + 1].seq_first < k->from_seq) {
        start++;
    }
    for (size_t i = 0; i < k->found_count; i++) {
        if (fd >= 0) {
            disk->close(log->env, fd);
            fd = -1;
        }
        rc = walk_segment(k, i, start, &fd);
        if (rc != RON_OK || k->report->damage != LED_DAMAGE_NONE) {
            break;
        }
    }
    if (rc == RON_OK && k->report->damage == LED_DAMAGE_NONE && !log->opts.read_only) {
        rc = settle(k, fd);
        if (rc == RON_OK) {
            rc = led__segment_open(log, k->segment, RON_OPEN_WRITE | RON_OPEN_DIRECT, &log->fd,
                                   k->err);
        }
    }
    if (fd >= 0) {
        disk->close(log->env, fd);
    }
    return rc;
}

enum ron_rc led__log_walk(struct led_log *log, uint64_t from_seq, led_log_visit *visit, void *arg,
                          struct led_log_report *report, struct ron_err *err)
{
    struct walk k = {.log = log,
                     .report = report,
                     .err = err,
                     .visit = visit,
                     .arg = arg,
                     .from_seq = RON_MAX(from_seq, (uint64_t)1)};
    enum ron_rc rc;

    ron_buf_init(&k.room, LED_FRAME_MAX);
    ron_tree_hash_empty(&k.at.root);
    rc = list_segments(&k);
    if (rc == RON_OK && k.found_count == 0) {
        rc = log->opts.read_only ? ron_err_set(err, RON_NOTFOUND, "%s holds no log", log->dir)
                                 : create(&k);
    }
    if (rc == RON_OK) {
        rc = walk_all(&k);
    }
    if (rc == RON_OK) {
        k.at.last_epoch = k.at.epoch;
        k.at.epoch += log->opts.read_only ? 0 : 1;
        k.at.bytes = log->head.bytes;
        k.at.segments = log->head.segments;
        log->head = k.at;
        log->head_used = log->used = k.used;
        ron_au32_store(&log->broken, log->fd < 0);
    }
    ron_buf_done(&k.room);
    ron_free(k.found);
    return rc;
}
