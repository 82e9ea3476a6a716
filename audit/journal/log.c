/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/log.c - listing and walking segment files; the contract is in log.h. */
#include "audit/journal/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    WINDOW = 2 << 20, /* read at once: some frames, and still in the processor's cache */
    NUMBER_DIGITS = 8,
    SEQ_DIGITS = 20,
};

/* ---- the list -------------------------------------------------------------------------------- */

static bool digits(const char **at, size_t count, uint64_t *ret)
{
    uint64_t v = 0;

    for (size_t i = 0; i < count; i++) {
        char c = (*at)[i];

        if (c < '0' || c > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(c - '0'), &v)) {
            return false;
        }
    }
    *at += count;
    *ret = v;
    return true;
}

/* NNNNNNNN-SSSSSSSSSSSSSSSSSSSS.seg: number and first seq. */
static bool parse_name(const char *name, struct aud_segment *ret)
{
    const char *at = name;

    *ret = (struct aud_segment){0};
    (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    return digits(&at, NUMBER_DIGITS, &ret->number) && *at++ == '-' &&
           digits(&at, SEQ_DIGITS, &ret->seq_first) && strcmp(at, ".seg") == 0;
}

struct listing {
    struct aud_log *log;
    enum ron_rc rc;
};

static bool see_name(void *arg, const char *name, bool is_dir)
{
    struct listing *l = arg;
    struct aud_log *log = l->log;
    struct aud_segment segment;

    if (is_dir || !parse_name(name, &segment)) {
        return true; /* a lock, or a segment being prepared: no part of the journal */
    }
    if (log->segment_count == AUD_SEGMENTS_MAX) {
        l->rc = RON_LIMIT;
        return false;
    }
    if (log->segment_count == log->segment_cap) {
        size_t cap = log->segment_cap == 0 ? 16 : 2 * log->segment_cap;
        struct aud_segment *grown = ron_realloc_array(log->segments, cap, sizeof *grown);

        if (grown == NULL) {
            l->rc = RON_NOMEM;
            return false;
        }
        log->segments = grown;
        log->segment_cap = cap;
    }
    log->segments[log->segment_count++] = segment;
    return true;
}

static int by_name(const void *x, const void *y)
{
    const struct aud_segment *a = x;
    const struct aud_segment *b = y;

    return strcmp(a->name, b->name);
}

static enum ron_rc path_of(const struct aud_log *log, const char *name,
                           char ret[RON_FILE_PATH_SIZE], struct ron_err *err)
{
    int len = snprintf(ret, RON_FILE_PATH_SIZE, "%s/%s", log->dir, name);

    return len > 0 && len < RON_FILE_PATH_SIZE ? RON_OK
                                               : ron_err_set(err, RON_LIMIT, "path too long");
}

static enum ron_rc measure(struct aud_log *log, struct ron_err *err)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        char path[RON_FILE_PATH_SIZE];
        struct ron_file_stat st;
        enum ron_rc rc;

        RON_TRY(path_of(log, log->segments[i].name, path, err));
        rc = log->env->disk->stat(log->env, path, &st);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "%s cannot be looked at", log->segments[i].name);
        }
        log->segments[i].bytes = st.size_bytes;
        log->bytes += st.size_bytes;
    }
    return RON_OK;
}

enum ron_rc aud_log_open(const struct ron_env *env, const char *dir, struct aud_log *ret_log,
                         struct ron_err *err)
{
    struct aud_log log = {.env = env};
    struct listing l = {.log = &log};
    enum ron_rc rc;

    if (snprintf(log.dir, sizeof log.dir, "%s", dir) >= (int)sizeof log.dir) {
        return ron_err_set(err, RON_LIMIT, "path too long");
    }
    RON_GOTO(env->disk->list(env, dir, see_name, &l, err), failed);
    if (l.rc != RON_OK) {
        rc = ron_err_set(err, l.rc, "the segments of %s cannot be listed", dir);
        goto failed;
    }
    if (log.segment_count == 0) {
        rc = ron_err_set(err, RON_NOTFOUND, "%s holds no segment of a journal", dir);
        goto failed;
    }
    qsort(log.segments, log.segment_count, sizeof *log.segments, by_name);
    RON_GOTO(measure(&log, err), failed);
    *ret_log = log;
    return RON_OK;
failed:
    aud_log_done(&log);
    return rc;
}

void aud_log_done(struct aud_log *log)
{
    ron_free(log->segments);
    log->segments = NULL;
    log->segment_count = log->segment_cap = 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A piece of the present segment in memory. */
struct window {
    const struct aud_log *log;
    const struct aud_segment *segment;
    int fd;
    uint8_t *bytes;
    size_t cap;
    uint64_t at;
    size_t len;
};

static enum ron_rc window_get(struct window *w, uint64_t off, size_t len, bool anew,
                              const uint8_t **ret, struct ron_err *err)
{
    const struct ron_env *env = w->log->env;
    size_t want =
        (size_t)RON_MIN(RON_MAX((uint64_t)len, (uint64_t)WINDOW), w->segment->bytes - off);
    size_t got = 0;
    enum ron_rc rc;

    RON_ASSERT(off + len <= w->segment->bytes);
    if (!anew && off >= w->at && off + len <= w->at + w->len) {
        *ret = w->bytes + (off - w->at);
        return RON_OK;
    }
    if (want > w->cap) {
        uint8_t *grown = ron_realloc_array(w->bytes, want, 1);

        if (grown == NULL) {
            (void)ron_err_set(err, RON_NOMEM, "no memory to read a frame");
            return RON_NOMEM;
        }
        w->bytes = grown;
        w->cap = want;
    }
    w->len = 0;
    rc = env->disk->pread(env, w->fd, w->bytes, want, off, &got);
    if (rc != RON_OK || got < len) {
        rc = rc != RON_OK ? rc : RON_IO;
        (void)ron_err_set(err, rc, "%s cannot be read at %" PRIu64, w->segment->name, off);
        return rc;
    }
    w->at = off;
    w->len = got;
    *ret = w->bytes;
    return RON_OK;
}

/* ---- walking --------------------------------------------------------------------------------- */

static enum ron_rc damage(struct aud_walk *walk, enum aud_rule rule, const struct aud_place *place,
                          const char *expected, const char *found)
{
    struct aud_finding *f;

    walk->damaged = true;
    if (walk->findings != NULL) {
        f = aud_find(walk->findings, rule, place);
        aud_say(f->expected, "%s", expected);
        aud_say(f->found, "%s", found);
    }
    return RON_CANCELLED;
}

/* Looks at the frame at `off`, whole. *ret_frame points into the window. */
static enum ron_rc look(struct window *w, uint64_t off, bool anew, enum aud_state *ret_state,
                        struct aud_frame *ret_frame, const char **ret_fault, struct ron_err *err)
{
    const uint8_t *bytes;

    RON_TRY(window_get(w, off, AUD_SECTOR, anew, &bytes, err));
    *ret_state = aud_frame_read(bytes, (size_t)(w->at + w->len - off), ret_frame, ret_fault);
    if (*ret_state == AUD_STATE_MORE) {
        if (ret_frame->size > w->segment->bytes - off) {
            *ret_fault = "the frame is longer than its segment";
            *ret_state = AUD_STATE_BAD;
            return RON_OK;
        }
        RON_TRY(window_get(w, off, ret_frame->size, anew, &bytes, err));
        *ret_state = aud_frame_read(bytes, ret_frame->size, ret_frame, ret_fault);
        if (*ret_state == AUD_STATE_MORE) {
            *ret_fault = "the frame changes while it is read";
            *ret_state = AUD_STATE_BAD;
        }
    }
    return RON_OK;
}

/* What is not zero from `off` on: the first such sector, the end of the last, and whether the head
 * of a frame is among it. Both 0 when all is zero. */
static enum ron_rc look_behind(struct window *w, uint64_t off, uint64_t *ret_first,
                               uint64_t *ret_end, bool *ret_head, struct ron_err *err)
{
    *ret_first = *ret_end = 0;
    *ret_head = false;
    while (off < w->segment->bytes) {
        size_t len = (size_t)RON_MIN((uint64_t)WINDOW, w->segment->bytes - off);
        const uint8_t *bytes;

        RON_TRY(window_get(w, off, len, false, &bytes, err));
        for (size_t i = 0; i < len; i += AUD_SECTOR) {
            struct aud_frame frame;

            if (!aud_all_zero(bytes + i, AUD_SECTOR)) {
                *ret_first = *ret_first == 0 ? off + i : *ret_first;
                *ret_end = off + i + AUD_SECTOR;
                *ret_head = *ret_head || aud_frame_peek(bytes + i, &frame) == NULL;
            }
        }
        off += len;
    }
    return RON_OK;
}

/* The frames of the segment end at `off`: by right, torn, or by damage. */
static enum ron_rc end_of_frames(struct window *w, struct aud_walk *walk, uint64_t off, bool last,
                                 enum aud_state state, size_t size, const char *fault,
                                 struct ron_err *err)
{
    struct aud_place place = {.file = w->segment->name, .offset = off};
    bool torn = state == AUD_STATE_TORN;
    uint64_t first;
    uint64_t end;
    bool head;

    if (state == AUD_STATE_BAD) {
        return damage(walk, AUD_RULE_FRAME, &place, "a frame that checks, or zeros", fault);
    }
    RON_TRY(look_behind(w, torn ? off + size : off, &first, &end, &head, err));
    if (torn && !last) {
        return damage(walk, AUD_RULE_FRAME, &place, "a whole frame before the last segment",
                      "sectors of it are missing");
    }
    if (first != 0 && (torn || !last || head || end - off > AUD_FRAME_MAX)) {
        place.offset = first;
        return damage(walk, AUD_RULE_TAIL, &place, "zeros behind the last frame",
                      head ? "a frame behind a gap" : "other bytes");
    }
    walk->torn_bytes = torn ? size : first != 0 ? end - off : 0;
    return RON_OK;
}

static enum ron_rc walk_frames(struct window *w, struct aud_walk *walk, bool last,
                               struct ron_err *err)
{
    uint64_t off = AUD_SEGMENT_HEAD;
    bool again = false;

    while (off < w->segment->bytes) {
        struct aud_place place = {.file = w->segment->name, .offset = off};
        enum aud_state state;
        struct aud_frame frame = {0};
        const char *fault;

        RON_TRY(look(w, off, again, &state, &frame, &fault, err));
        if (state == AUD_STATE_GOOD) {
            walk->frames++;
            walk->read_bytes += frame.size;
            place.seq = frame.entries > 0 ? frame.seq_first : 0;
            if (walk->on_frame != NULL) {
                RON_TRY(walk->on_frame(walk->arg, &frame, &place));
            }
            off += frame.size;
            walk->end.offset = off;
            again = false;
        } else if (last && state != AUD_STATE_NONE && !again) {
            again = true; /* A ledger may be writing just this: look twice. */
        } else {
            return end_of_frames(w, walk, off, last, state, frame.size, fault, err);
        }
    }
    return RON_OK;
}

static enum ron_rc check_head(struct aud_walk *walk, const struct aud_segment *segment,
                              const uint8_t *bytes, struct aud_segment_head *ret_head)
{
    struct aud_place place = {.file = segment->name};
    const char *fault = aud_segment_read(bytes, ret_head);

    if (fault != NULL) {
        return damage(walk, AUD_RULE_SEGMENT, &place, "the head of a segment", fault);
    }
    if (ret_head->number != segment->number || ret_head->seq_first != segment->seq_first ||
        ret_head->segment_bytes != segment->bytes) {
        return damage(walk, AUD_RULE_SEGMENT, &place, "name, size and head that agree",
                      "they do not");
    }
    return RON_OK;
}

static enum ron_rc walk_segment(struct window *w, struct aud_walk *walk, bool last,
                                struct ron_err *err)
{
    struct aud_place place = {.file = w->segment->name};
    struct aud_segment_head head;
    const uint8_t *bytes;

    if (w->segment->bytes < AUD_SEGMENT_HEAD || w->segment->bytes % AUD_SECTOR != 0) {
        return damage(walk, AUD_RULE_SEGMENT, &place, "a size in sectors, at least 4096 bytes",
                      "another one");
    }
    RON_TRY(window_get(w, 0, AUD_SEGMENT_HEAD, true, &bytes, err));
    RON_TRY(check_head(walk, w->segment, bytes, &head));
    walk->read_bytes += AUD_SEGMENT_HEAD;
    walk->end = (struct aud_place){.file = w->segment->name, .offset = AUD_SEGMENT_HEAD};
    if (walk->on_segment != NULL) {
        RON_TRY(walk->on_segment(walk->arg, &head, &place));
    }
    return walk_frames(w, walk, last, err);
}

enum ron_rc aud_log_walk(const struct aud_log *log, struct aud_walk *walk, struct ron_err *err)
{
    struct window w = {.log = log};
    enum ron_rc rc = RON_OK;

    walk->frames = walk->read_bytes = walk->torn_bytes = 0;
    walk->damaged = false;
    walk->end = (struct aud_place){.file = log->segments[0].name};
    for (size_t i = 0; i < log->segment_count && rc == RON_OK; i++) {
        char path[RON_FILE_PATH_SIZE];

        w.segment = &log->segments[i];
        if (w.segment->number != (i == 0 ? 1 : log->segments[i - 1].number + 1)) {
            struct aud_place place = {.file = w.segment->name};

            rc = damage(walk, AUD_RULE_SEGMENT, &place,
                        i == 0 ? "segment 1: balances follow from the first entry on"
                               : "segments numbered without a gap",
                        "the one before is missing");
            break;
        }
        RON_GOTO(path_of(log, w.segment->name, path, err), done);
        RON_GOTO(log->env->disk->open(log->env, path, RON_OPEN_READ, 0, &w.fd, err), done);
        rc = walk_segment(&w, walk, i + 1 == log->segment_count, err);
        log->env->disk->close(log->env, w.fd);
        w.len = 0;
    }
done:
    ron_free(w.bytes);
    return rc == RON_CANCELLED ? RON_OK : rc;
}
