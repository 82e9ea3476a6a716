/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/priv.h - the inside of the log, shared by led_log*.c alone.
 *
 *     log.c        life, appending, the published state
 *     file.c   segment files: names, making, heads
 *     open.c   opening: walking segments and frames, torn tails, damage
 *     read.c   finding and reading frames
 *
 * Who owns what: `fd`, `used`, `epoch` and the chain belong to the writing thread; what stands
 * under `lock` is changed by that thread and by led_log_prepare, with the lock held for some
 * assignments and never across a disk port. */
#pragma once

#include "ledger/log/log.h"
#include "ron/io/file.h"
#include "ron/sync/sync.h"

enum {
    LED__NAME_SIZE = 48,
    LED__SEGMENT_DEFAULT = 64 << 20,
    LED__SEGMENT_MIN = 64 << 10,
    LED__SEGMENTS_MAX = 1 << 20,  /* 64 TiB of default segments; bounds the list in memory */
    LED__ZERO_BYTES = 1 << 20,    /* one write of zero-filling */
    LED__LATE_BYTES = 4 << 20,    /* of a segment that append makes itself: everybody waits */
    LED__WINDOW_SCAN = 1 << 20,   /* read at once when frames are read one after another */
    LED__WINDOW_SEEK = 32 << 10,  /* read at once when a frame is looked for */
    LED__LINEAR_BYTES = 64 << 10, /* halving ends here: two reads are cheaper than more halving */
};

#define LED__LOG_MAGIC UINT32_C(0x6c6f6731)

struct led__segment {
    uint64_t number;
    uint64_t seq_first;
    uint64_t bytes; /* of the file */
};

struct led__range {
    uint64_t number; /* of the segment */
    uint64_t off;
    uint64_t len;
};

/* The segment that is made ahead. Its temporary name belongs to whoever is at it. */
enum led__next {
    LED__NEXT_NONE,   /* -> MAKING: led_log_prepare */
    LED__NEXT_MAKING, /* -> READY, or NONE when that failed */
    LED__NEXT_READY,  /* -> TAKEN: append */
    LED__NEXT_TAKEN,  /* -> NONE once it has its name */
};

struct led_log {
    uint32_t magic;
    const struct ron_env *env;
    struct led_log_opts opts; /* dir is ours */
    char dir[RON_FILE_PATH_SIZE];
    int lock_fd;

    /* The writer's. */
    int fd; /* last segment, past the cache; -1 when nothing may be written */
    uint64_t used;
    struct ron_au32 broken; /* L4; read by others */

    struct ron_mutex lock; /* leaf; all below */
    struct led_log_head head;
    uint64_t head_used; /* frames of the last segment end here */
    struct led__segment *segments;
    size_t segment_count;
    size_t segment_cap;
    enum led__next next;
    int next_fd; /* READY: a file of zeros of opts.segment_bytes under led__next_name */
};

/* ---- file.c -------------------------------------------------------------------------- */

extern const char led__next_name[]; /* made ahead by led_log_prepare */
extern const char led__roll_name[]; /* made by append itself */
extern const char led__lock_name[];

RON_MUST_USE enum ron_rc led__path(const struct led_log *log, const char *name,
                                   char ret_path[RON_FILE_PATH_SIZE], struct ron_err *err);
void led__segment_name(const struct led__segment *seg, char ret_name[LED__NAME_SIZE]);
/* False for a name that is none of a segment. */
bool led__segment_parse(const char *name, struct led__segment *ret_seg);
RON_MUST_USE enum ron_rc led__segment_open(const struct led_log *log,
                                           const struct led__segment *seg, uint32_t flags,
                                           int *ret_fd, struct ron_err *err);
/* A file of zeros, synced, under a temporary name. `gentle` syncs piece by piece, so that nobody
 * who syncs meanwhile waits for all of it. On failure nothing is left. */
RON_MUST_USE enum ron_rc led__segment_make(const struct led_log *log, const char *name,
                                           uint64_t bytes, bool gentle, int *ret_fd,
                                           struct ron_err *err);
/* Turns that file into the segment: head, sync, rename, sync of the directory. */
RON_MUST_USE enum ron_rc led__segment_begin(const struct led_log *log, const char *name, int fd,
                                            const struct led_segment_head *head,
                                            struct ron_err *err);
/* Adds to the list; before it is published to readers. */
RON_MUST_USE enum ron_rc led__segment_add(struct led_log *log, const struct led__segment *seg);
/* The note in the lock file: a range of the last segment that a failed write or sync left unknown.
 * It is written again as it reads when the log is opened. */
RON_MUST_USE enum ron_rc led__note_room(const struct led_log *log, struct ron_err *err);
void led__note(const struct led_log *log, uint64_t number, uint64_t off, uint64_t len);
RON_MUST_USE enum ron_rc led__note_mend(const struct led_log *log, const struct led__segment *last,
                                        int fd, struct ron_err *err);

/* ---- read.c -------------------------------------------------------------------------- */

/* A piece of a segment file in memory. */
struct led__window {
    const struct ron_env *env;
    int fd;
    uint64_t end; /* nothing is read beyond */
    size_t ahead; /* least that is read at once, where the file has it */
    uint64_t at;  /* offset of the first byte in `buf` */
    struct ron_buf *buf;
};

/* Points to the `len` bytes from `off` on, which end at `end` at the latest. RON_CORRUPT when the
 * file is shorter. The pointer is valid until the next call. */
RON_MUST_USE enum ron_rc led__window_get(struct led__window *w, uint64_t off, size_t len,
                                         const uint8_t **ret_bytes, struct ron_err *err);
/* Looks at the frame at `off`, whole. */
RON_MUST_USE enum ron_rc led__window_frame(struct led__window *w, uint64_t off,
                                           struct led_frame *ret_frame,
                                           enum led_frame_state *ret_state, size_t *ret_size,
                                           struct ron_err *err);
/* Offset of the first frame that holds `seq` or stands behind it, w->end when there is none.
 * RON_CORRUPT when the frames on the way do not check. */
RON_MUST_USE enum ron_rc led__window_find(struct led__window *w, const uint8_t *uuid, uint64_t seq,
                                          uint64_t *ret_off, struct ron_err *err);
bool led__all_zero(const uint8_t *bytes, size_t len);

/* Whether a frame is wanted by who reads from `seq` on: it holds it, or what follows. A frame
 * without entries stands where its next entry would. */
static inline bool led__frame_reaches(const struct led_frame *f, uint64_t seq)
{
    return f->seq_first + RON_MAX(f->entries, (uint32_t)1) > seq;
}

/* ---- open.c -------------------------------------------------------------------------- */

/* Fills in the log: list of segments, head, used, fd. */
RON_MUST_USE enum ron_rc led__log_walk(struct led_log *log, uint64_t from_seq, led_log_visit *visit,
                                       void *arg, struct led_log_report *report,
                                       struct ron_err *err);
