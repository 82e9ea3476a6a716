/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/priv.h - what led_read*.c and led_export*.c share, and nobody else.
 *
 * A reader keeps one frame and a map of it: the offsets of its records and entries. Walks through
 * an account's links often stay in a frame for many steps, and a frame may hold thousands of
 * entries. */
#pragma once

#include "ledger/read/reader.h"

struct led_read_record {
    uint32_t at;    /* offset in the payload */
    uint32_t first; /* its first entry, counted from the frame's first */
};

struct led_reader {
    struct led_reader_opts opts;
    uint64_t last_seq; /* of the head */
    struct ron_tree_hash root;
    struct ron_buf room; /* bytes of `frame` */
    struct led_frame frame;
    bool has_frame;
    uint32_t *entries; /* offsets in the payload, one per entry of the frame */
    size_t entries_cap;
    struct led_read_record *records;
    size_t records_cap;
    char assets[LED_READ_ASSETS_MAX][LED_ASSET_MAX]; /* seen by a walk */
    uint8_t asset_lens[LED_READ_ASSETS_MAX];
    struct ron_err spare; /* for callers that do not want to know */
};

/* `err`, or the reader's own: damage is told with a text in any case. */
struct ron_err *led__read_err(struct led_reader *r, struct ron_err *err);
/* Hands the result of log or tree on, and tells the owner when it is damage. */
enum ron_rc led__read_checked(struct led_reader *r, enum ron_rc rc, struct ron_err *err);
/* Says that what was read cannot be. Always RON_CORRUPT. */
enum ron_rc led__read_damage(struct led_reader *r, struct ron_err *err, const char *fmt, ...)
    RON_PRINTF(3, 4);

/* The same as led_read_at, for walks that begin above the head: the book may be a commit ahead of
 * it. `ret` may be NULL. */
RON_MUST_USE enum ron_rc led__read_stored(struct led_reader *r, uint64_t seq, struct led_found *ret,
                                          struct ron_err *err);

struct led_key led__read_key(const struct led_reader *r, struct ron_str text);
/* Seqs that the index and the caller name for a key. */
RON_MUST_USE enum ron_rc led__read_indexed(struct led_reader *r, enum led_index_kind kind,
                                           struct ron_str text,
                                           uint64_t ret_seqs[LED_INDEX_FOUND_MAX],
                                           size_t *ret_count, struct ron_err *err);

/* D5: forgets what was appended since `mark`, unless rc is RON_OK; the buffer's own failure comes
 * first. */
enum ron_rc led__read_finish(struct led_reader *r, struct ron_buf *out, size_t mark, enum ron_rc rc,
                             struct ron_err *err);
/* 64 hexadecimal digits. */
void led__read_json_hash(struct ron_json_writer *w, const char *name,
                         const struct ron_tree_hash *hash);
