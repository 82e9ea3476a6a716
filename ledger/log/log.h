/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/log.h - the truth of the ledger: segment files of frames, appended and synced by one
 * writer.
 *
 * Place: ledger, over the disk ports of struct ron_env; frame.h says what the bytes are.
 *
 *     log/00000001-00000000000000000001.seg   number and the seq of its first entry; of fixed
 *     log/00000002-00000000000000524289.seg   size; frames without a gap, then zeros
 *     log/next.tmp, log/roll.tmp              segments being made: no part of the log
 *     log/lock                                held by the process that writes; after a failed sync
 *                                             it names what may not be durable (L4)
 *
 * A segment has a number because frames without entries can fill one: then the next begins with the
 * same seq.
 *
 * Invariants:
 *   L1. Append-only: a byte of a frame that was synced is never written again.
 *   L2. led_log_append returns RON_OK only after the frame was synced. One sync per call.
 *   L3. Frames chain: seq_first follows the last entry, prev_root is the last new_root, uuid is the
 *       same, epoch never falls. What breaks the chain is damage.
 *   L4. After a failed write or sync nothing is known about the tail: the log is broken for
 *       writing for good (RON_CLOSED from then on) until it is opened anew. Never retried. As the
 *       kernel may show what it will never write, the range is noted, and whoever opens the log
 *       next for writing writes it again as it reads.
 *   L5. A torn tail (frame.h F2) at the very end of the log is zeroed and counted when the log
 *       is opened for writing. Any other damage stops the opening at that frame: what lies before
 *       is readable, nothing is repaired, and the owner goes to safe mode.
 *   L6. Free space is asked before a segment is made: below the floor RON_LIMIT, with the log as it
 *       was and still good.
 *
 * Threads: append, roll and prepare belong to one thread, except that led_log_prepare may run on
 * another one beside appends. Reading is for any thread, up to the last appended frame; readers and
 * writer share a leaf lock for some assignments, never across a disk port. */
#pragma once

#include "ledger/log/frame.h"
#include "ron/base/env.h"

struct led_log;

struct led_log_opts {
    const struct ron_env *env;
    const char *dir;           /* made with mode 0700 when absent; its parent exists */
    uint64_t segment_bytes;    /* 0: 64 MiB; a multiple of 4096, at least 64 KiB. A frame that is
                                * larger gets a segment of its own size; one that append makes
                                * because none was ready has 4 MiB at most */
    uint64_t free_floor_bytes; /* kept free on the disk (L6) */
    bool read_only;            /* nothing is created, cut or locked */
    bool torn_is_damage;       /* engine.torn_tail = "safe_mode": L5 without zeroing */
    const uint8_t *uuid;       /* of a log that is made now; NULL: a new one. Read by the opening */
};

/* Where the log stands. */
struct led_log_head {
    uint8_t uuid[LED_UUID_SIZE];
    uint64_t epoch;      /* of this opening: frames to come carry it */
    uint64_t last_epoch; /* of the last frame, 0 = none */
    uint64_t last_seq;   /* 0: empty */
    uint64_t first_seq;  /* of the oldest segment kept */
    struct ron_tree_hash root;
    uint64_t time_ms; /* of the last frame, 0 = none */
    uint64_t bytes;   /* of all segments */
    uint64_t segments;
    uint64_t late; /* segments that append made itself since the opening */
};

enum led_damage {
    LED_DAMAGE_NONE,
    LED_DAMAGE_SEGMENT, /* head of a segment, its size or its name */
    LED_DAMAGE_FRAME,   /* a checksum */
    LED_DAMAGE_CHAIN,   /* seq, root, uuid or epoch does not follow: seq_gap_detected_total */
    LED_DAMAGE_CONTENT, /* a record or entry that no writer makes */
    LED_DAMAGE_MISSING, /* a segment between two others, or bytes behind the end: counted too */
    LED_DAMAGE_READ,    /* the disk could not read */
    LED_DAMAGE_REPLAY,  /* said by the visitor: root or book disagree */
    LED_DAMAGE_DERIVED, /* said by led_recover: the log is good, a file made from it is not */
};
const char *led_damage_name(enum led_damage damage);

struct led_log_report {
    uint64_t frames;
    uint64_t entries;
    uint64_t torn_bytes; /* zeroed tail */
    enum led_damage damage;
    char where[160]; /* file and offset, for a person */
    char what[120];
};

/* Called for each frame from `from_seq` on, in order; anything but RON_OK ends the scan as
 * LED_DAMAGE_REPLAY with the text of `err`. `where` names file and offset. */
typedef enum ron_rc led_log_visit(void *arg, const struct led_frame *frame, const char *where,
                                  struct ron_err *err);

/* Opens or creates. Frames before the one that holds `from_seq` are trusted but for the heads of
 * their segments; from there on everything is read and checked; 0 or 1 checks all. RON_OK also with
 * damage: then led_log_append answers RON_CLOSED. RON_AGAIN: another process writes this log.
 * RON_NOTFOUND when read_only and there is none. */
RON_MUST_USE enum ron_rc led_log_open(const struct led_log_opts *opts, uint64_t from_seq,
                                      led_log_visit *visit, void *arg, struct led_log **ret_log,
                                      struct led_log_report *ret_report, struct ron_err *err);
void led_log_close(struct led_log *log); /* NULL is fine */

/* Gives the directory up to another opening: no more appends, reading goes on. */
void led_log_release(struct led_log *log);

void led_log_head(const struct led_log *log, struct led_log_head *ret_head);

/* One frame, whole as led_frame_end left it (`frame` is the one given to it): write, sync. */
RON_MUST_USE enum ron_rc led_log_append(struct led_log *log, const struct led_frame *frame,
                                        const uint8_t *bytes, size_t len, struct ron_err *err);

/* A log that copies a shared one: frames to come carry this epoch, which is not below last_epoch.
 * Belongs to the thread that appends. */
void led_log_set_epoch(struct led_log *log, uint64_t epoch);

/* Whether the next segment should be made ready now, and making it: zero-filling takes long, so a
 * maintenance task does it ahead. append makes a small one itself when none is ready: the large
 * one would be a pause for everybody, and is there soon. */
bool led_log_wants_segment(const struct led_log *log);
RON_MUST_USE enum ron_rc led_log_prepare(struct led_log *log, struct ron_err *err);

/* Reads the frame that holds `seq` into `room`, which grows as needed; finds it by halving, since
 * frames begin on sectors and know themselves. RON_NOTFOUND beyond the ends, RON_CORRUPT for
 * damage. */
RON_MUST_USE enum ron_rc led_log_read(struct led_log *log, uint64_t seq, struct ron_buf *room,
                                      struct led_frame *ret_frame, struct ron_err *err);
/* Frames one after another, for export, indexing and rebuilding. */
RON_MUST_USE enum ron_rc led_log_scan(struct led_log *log, uint64_t from_seq, uint64_t to_seq,
                                      led_log_visit *visit, void *arg, struct ron_err *err);

/* Calls for each segment file name, oldest first: for a snapshot by hard links. Sealed ones never
 * change; the last one is copied: frames fill its first used_bytes, the rest is zeros. */
typedef enum ron_rc led_log_see_segment(void *arg, const char *name, bool sealed,
                                        uint64_t used_bytes);
RON_MUST_USE enum ron_rc led_log_each_segment(struct led_log *log, led_log_see_segment *see,
                                              void *arg);
