/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/read.c - finding frames by seq and reading them, beside a writer.
 *
 * A reader takes the end of the log and the one segment it needs from the published state, then
 * works on a descriptor of its own. Bytes before the published end never change (L1), so nothing
 * else is shared. Segments are opened for each read: a few microseconds, and no number of segments
 * holds descriptors. */
#include "ledger/log/priv.h"

#include <inttypes.h>
#include <string.h>

#include "ron/base/assert.h"

bool led__all_zero(const uint8_t *bytes, size_t len)
{
    RON_ASSERT(bytes != NULL);
    return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum ron_rc led__window_get(struct led__window *w, uint64_t off, size_t len,
                            const uint8_t **ret_bytes, struct ron_err *err)
{
    size_t want;
    size_t got = 0;
    uint8_t *room;
    enum ron_rc rc;

    RON_ASSERT(off + len <= w->end);
    if (off >= w->at && off + len <= w->at + ron_buf_len(w->buf)) {
        *ret_bytes = ron_buf_data(w->buf) + (off - w->at);
        return RON_OK;
    }
    want = (size_t)RON_MIN(w->end - off, (uint64_t)RON_MAX(len, w->ahead));
    ron_buf_clear(w->buf);
    rc = ron_buf_reserve(w->buf, want, &room);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "no room to read %zu bytes of the log", want);
    }
    rc = w->env->disk->pread(w->env, w->fd, room, want, off, &got);
    if (rc == RON_OK && got < len) {
        return ron_err_set(err, RON_CORRUPT, "the file ends before %" PRIu64, off + len);
    }
    if (rc != RON_OK && want > len) { /* what was read ahead may be what cannot be read */
        want = len;
        rc = w->env->disk->pread(w->env, w->fd, room, want, off, &got);
    }
    if (rc != RON_OK || got < len) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_CORRUPT,
                           "%zu bytes at %" PRIu64 " cannot be read", len, off);
    }
    ron_buf_commit(w->buf, got);
    w->at = off;
    *ret_bytes = ron_buf_data(w->buf);
    return RON_OK;
}

enum ron_rc led__window_frame(struct led__window *w, uint64_t off, struct led_frame *ret_frame,
                              enum led_frame_state *ret_state, size_t *ret_size,
                              struct ron_err *err)
{
    size_t size = LED_SECTOR;
    size_t have;
    const uint8_t *bytes = NULL;
    enum led_frame_state state;

    RON_TRY(led__window_get(w, off, LED_SECTOR, &bytes, err));
    have = ron_buf_len(w->buf) - (size_t)(off - w->at);
    state = led_frame_read(bytes, have, ret_frame, &size);
    if (state == LED_FRAME_MORE && size <= w->end - off) {
        RON_TRY(led__window_get(w, off, size, &bytes, err));
        state = led_frame_read(bytes, size, ret_frame, &size);
    }
    *ret_state = state;
    *ret_size = size;
    return RON_OK;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The first head of a frame at or behind `from`, before `to`; *ret_off = to when there is none. */
static enum ron_rc next_head(struct led__window *w, const uint8_t *uuid, uint64_t from, uint64_t to,
                             uint64_t *ret_off, struct led_frame *ret_frame, size_t *ret_size,
                             struct ron_err *err)
{
    for (uint64_t off = from; off < to; off += LED_SECTOR) {
        const uint8_t *bytes = NULL;

        RON_TRY(led__window_get(w, off, LED_SECTOR, &bytes, err));
        if (led_frame_peek(bytes, ret_frame, ret_size) &&
            memcmp(ret_frame->uuid, uuid, LED_UUID_SIZE) == 0) {
            *ret_off = off;
            return RON_OK;
        }
    }
    *ret_off = to;
    return RON_OK;
}

enum ron_rc led__window_find(struct led__window *w, const uint8_t *uuid, uint64_t seq,
                             uint64_t *ret_off, struct ron_err *err)
{
    uint64_t low = LED_SEGMENT_HEAD; /* a frame begins here; those before are not wanted */
    uint64_t high = w->end;          /* the first wanted one begins before here, or there is none */
    struct led_frame frame = {0};
    size_t size = 0;
    uint64_t at = 0;

    /* A frame that is not wanted may reach beyond `high`: then it is the last such. */
    while (low < high && high - low > LED__LINEAR_BYTES) {
        uint64_t middle = low + (high - low) / 2 / LED_SECTOR * LED_SECTOR;

        RON_TRY(next_head(w, uuid, middle, high, &at, &frame, &size, err));
        if (at < high && !led__frame_reaches(&frame, seq)) {
            if (size > w->end - at) {
                return ron_err_set(err, RON_CORRUPT, "the frame at %" PRIu64 " is too long", at);
            }
            low = at + size;
        } else {
            high = middle;
        }
    }
    for (at = low; at < w->end; at += size) {
        const uint8_t *bytes = NULL;

        RON_TRY(led__window_get(w, at, LED_SECTOR, &bytes, err));
        if (led__all_zero(bytes, LED_SECTOR)) {
            break;
        }
        if (!led_frame_peek(bytes, &frame, &size) || size > w->end - at) {
            return ron_err_set(err, RON_CORRUPT, "no frame begins at %" PRIu64, at);
        }
        if (led__frame_reaches(&frame, seq)) {
            *ret_off = at;
            return RON_OK;
        }
    }
    *ret_off = w->end;
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What a reader needs of the published state. */
struct view {
    struct led_log_head head;
    struct led__segment segment;
    uint64_t end;  /* of its frames, or of the file */
    size_t index;  /* of the segment */
    size_t count;  /* of all */
    uint64_t used; /* end of the frames of the last one */
};

/* The last segment that begins before `seq` or, when `at` is allowed, with it; else the first. */
static void look_up(struct led_log *log, uint64_t seq, bool at, struct view *ret)
{
    size_t low = 0;
    size_t high;

    ron_mutex_lock(&log->lock);
    high = log->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        uint64_t first = log->segments[middle].seq_first;

        if (first < seq || (at && first == seq)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *ret = (struct view){
        .head = log->head, .index = low, .count = log->segment_count, .used = log->head_used};
    if (ret->count > 0) {
        ret->segment = log->segments[low];
        ret->end = low + 1 == ret->count ? log->head_used : ret->segment.bytes;
    }
    ron_mutex_unlock(&log->lock);
}

static enum ron_rc read_found(struct led__window *w, uint64_t off, uint64_t seq,
                              struct led_frame *ret_frame, struct ron_err *err)
{
    struct led_frame frame;
    enum led_frame_state state;
    size_t size;

    for (; off < w->end; off += size) {
        RON_TRY(led__window_frame(w, off, &frame, &state, &size, err));
        if (state != LED_FRAME_GOOD) {
            break;
        }
        if (frame.entries > 0) { /* those without stand before */
            if (frame.seq_first > seq || seq - frame.seq_first >= frame.entries) {
                break;
            }
            *ret_frame = frame;
            return RON_OK;
        }
    }
    return ron_err_set(err, RON_CORRUPT, "seq %" PRIu64 " is not where it should be", seq);
}

enum ron_rc led_log_read(struct led_log *log, uint64_t seq, struct ron_buf *room,
                         struct led_frame *ret_frame, struct ron_err *err)
{
    struct view view;
    struct led__window w;
    uint64_t off = 0;
    int fd;
    enum ron_rc rc;

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    look_up(log, seq, true, &view);
    if (seq == 0 || seq < view.head.first_seq || seq > view.head.last_seq) {
        return ron_err_set(err, RON_NOTFOUND, "seq %" PRIu64 " is not in the log", seq);
    }
    RON_TRY(led__segment_open(log, &view.segment, RON_OPEN_READ, &fd, err));
    ron_buf_clear(room);
    w = (struct led__window){
        .env = log->env, .fd = fd, .end = view.end, .ahead = LED__WINDOW_SEEK, .buf = room};
    rc = led__window_find(&w, view.head.uuid, seq, &off, err);
    if (rc == RON_OK) {
        rc = read_found(&w, off, seq, ret_frame, err);
    }
    log->env->disk->close(log->env, fd);
    return rc;
}

/* ---- one after another ----------------------------------------------------------------------- */

struct scan {
    struct led__window w;
    struct led__segment segment;
    uint64_t from_seq;
    uint64_t to_seq;
    uint64_t next_seq; /* 0 before the first */
    led_log_visit *visit;
    void *arg;
};

/* Visits the frames of one segment from `off` on. *ret_more: the range may go on behind it. */
static enum ron_rc scan_segment(struct scan *s, uint64_t off, bool *ret_more, struct ron_err *err)
{
    char name[LED__NAME_SIZE];
    char where[LED__NAME_SIZE + 32];
    struct led_frame frame;
    enum led_frame_state state;
    size_t size;

    led__segment_name(&s->segment, name);
    for (; off < s->w.end; off += size) {
        RON_TRY(led__window_frame(&s->w, off, &frame, &state, &size, err));
        if (state == LED_FRAME_NONE) {
            break; /* the rest of a sealed segment */
        }
        (void)snprintf(where, sizeof where, "%s at %" PRIu64, name, off);
        if (state != LED_FRAME_GOOD || (s->next_seq != 0 && frame.seq_first != s->next_seq)) {
            return ron_err_set(err, RON_CORRUPT, "%s: the frame does not check", where);
        }
        s->next_seq = frame.seq_first + frame.entries;
        if (frame.seq_first > s->to_seq) {
            *ret_more = false;
            return RON_OK;
        }
        if (led__frame_reaches(&frame, s->from_seq)) {
            RON_TRY(s->visit(s->arg, &frame, where, err));
        }
    }
    *ret_more = true;
    return RON_OK;
}

/* The segment at `index`, and where its frames end by now. */
static bool nth(struct led_log *log, size_t index, struct led__segment *ret_segment,
                uint64_t *ret_end)
{
    bool there;

    ron_mutex_lock(&log->lock);
    there = index < log->segment_count;
    if (there) {
        *ret_segment = log->segments[index];
        *ret_end = index + 1 == log->segment_count ? log->head_used : ret_segment->bytes;
    }
    ron_mutex_unlock(&log->lock);
    return there;
}

enum ron_rc led_log_scan(struct led_log *log, uint64_t from_seq, uint64_t to_seq,
                         led_log_visit *visit, void *arg, struct ron_err *err)
{
    struct scan s = {.from_seq = from_seq, .to_seq = to_seq, .visit = visit, .arg = arg};
    struct ron_buf room;
    struct view view;
    enum ron_rc rc = RON_OK;
    bool more = true;

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    look_up(log, from_seq, false, &view);
    ron_buf_init(&room, LED_FRAME_MAX);
    /* Up to the end that was published at the call: what comes later is not waited for. */
    for (size_t i = view.index; rc == RON_OK && more && i < view.count; i++) {
        uint64_t off = LED_SEGMENT_HEAD;
        uint64_t end = 0;
        int fd;

        (void)nth(log, i, &s.segment, &end);
        end = i + 1 == view.count ? view.used : s.segment.bytes;
        rc = led__segment_open(log, &s.segment, RON_OPEN_READ, &fd, err);
        if (rc != RON_OK) {
            break;
        }
        ron_buf_clear(&room);
        s.w = (struct led__window){
            .env = log->env, .fd = fd, .end = end, .ahead = LED__WINDOW_SCAN, .buf = &room};
        if (i == view.index && from_seq > s.segment.seq_first) {
            rc = led__window_find(&s.w, view.head.uuid, from_seq, &off, err);
        }
        if (rc == RON_OK) {
            rc = scan_segment(&s, off, &more, err);
        }
        log->env->disk->close(log->env, fd);
    }
    ron_buf_done(&room);
    return rc;
}

enum ron_rc led_log_each_segment(struct led_log *log, led_log_see_segment *see, void *arg)
{
    struct led__segment segment;
    struct led__segment next;
    uint64_t end;
    uint64_t next_end;
    char name[LED__NAME_SIZE];

    RON_CHECK_MAGIC(log, LED__LOG_MAGIC);
    for (size_t i = 0; nth(log, i, &segment, &end); i++) {
        bool sealed = nth(log, i + 1, &next, &next_end);

        led__segment_name(&segment, name);
        RON_TRY(see(arg, name, sealed, sealed ? segment.bytes : end));
    }
    return RON_OK;
}
