/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/log/frame.h - the bytes of the log: a segment's head, frames, the records inside, links.
 *
 * Place: ledger; pure. The committer builds frames, the log writes and finds them, recovery and
 * readers take them apart. Byte layout: docs/formats/ledger-log.md. All numbers are big-endian.
 *
 * A frame is what one sync made durable: the batches of one group commit.
 *
 *     head (LED_FRAME_HEAD) | records | zeros | tail (LED_FRAME_TAIL)      multiple of LED_SECTOR
 *
 * Invariants:
 *   F1. A frame has exactly one form: read(build(f)) = f, and every byte of it is covered by one of
 *       the two checksums (CRC-32C: head; records with zeros) or compared with its one value.
 *   F2. No sector of a written frame is all zero: the first holds the head, the last the tail, and
 *       between them an entry puts text into every few hundred bytes. Segments are zero-filled
 *       before use. So a frame that does not check was never wholly written, and is a torn tail,
 *       when a sector of it or its last four bytes are zero, when all of it checks and its tail
 *       ends in zeros, or when the head does not check and the rest of its sector is zero.
 *       Otherwise it was whole once and is damaged.
 *   F3. Entries of a frame have the seqs seq_first, seq_first + 1, ...; a record of kind CANCEL has
 *       none.
 *
 * Threads: any; nothing is kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/book/book.h"
#include "ron/base/buf.h"
#include "ron/merkle/hash.h"

enum {
    LED_SECTOR = 512,        /* what a disk writes whole or not at all */
    LED_SEGMENT_HEAD = 4096, /* the first frame of a segment begins here */
    LED_FRAME_HEAD = 136,
    LED_FRAME_TAIL = 8,
    LED_FRAME_MAX = 16 << 20, /* whole frame; far above what a group gathers */
    LED_RECORD_HEAD = 24,
    LED_UUID_SIZE = 16,
    LED_LINKS_BYTES_MAX = 1 + 2 * (10 + 19 + 19), /* flags; per side a u64 and two u128 */
};

struct led_segment_head {
    uint8_t uuid[LED_UUID_SIZE];    /* of the ledger: a segment of another one is refused */
    uint64_t number;                /* 1, 2, 3, ... without a gap */
    uint64_t seq_first;             /* of its first frame; its file is named by both */
    struct ron_tree_hash prev_root; /* of the tree before that */
    uint64_t created_ms;
    uint64_t segment_bytes; /* the size of the file */
};

struct led_frame {
    uint8_t uuid[LED_UUID_SIZE];
    uint64_t epoch;     /* grows with every opening of the log */
    uint64_t seq_first; /* of the next entry when there are none */
    uint32_t entries;
    uint32_t records;
    uint64_t time_ms; /* of the commit */
    struct ron_tree_hash prev_root;
    struct ron_tree_hash new_root;
    const uint8_t *payload; /* the records; a slice */
    size_t payload_len;
};

enum led_record_kind {
    LED_RECORD_BATCH = 1,
    LED_RECORD_CANCEL = 2, /* idem_id can never commit: a tombstone */
};

enum led_record_flag {
    LED_RECORD_IMPORT = 1, /* came by import: its times may be old */
    LED_RECORD_OWN = 2,    /* written by the ledger itself: an expiry */
};

struct led_record {
    uint8_t kind;
    uint16_t flags;
    uint32_t count;         /* entries */
    uint64_t now_ms;        /* time of the window: what the book was told */
    uint64_t seq_first;     /* not stored: counted by the reader */
    struct ron_str idem_id; /* empty = none */
    const uint8_t *entries; /* slice: entry, links, entry, links, ... */
    size_t entries_len;
};

struct led_stored {
    struct ron_str leaf; /* canonical bytes of the entry, slice */
    struct led_links links;
    uint64_t seq;
};

/* ---- building -------------------------------------------------------------------------------- */

/* Appends LED_FRAME_HEAD bytes of room; the head is filled in by led_frame_end. `out` is empty: it
 * holds one frame and nothing else. */
enum ron_rc led_frame_begin(struct ron_buf *out);
/* A record and its entries; begins at the present length of `out`. Of `record` the entries and
 * seq_first are not looked at. Errors of `out` stick as always. */
enum ron_rc led_frame_add_record(struct ron_buf *out, const struct led_record *record);
enum ron_rc led_frame_add_entry(struct ron_buf *out, struct ron_str leaf,
                                const struct led_links *links);
/* Fills in the length of the last record; before the next one and before the end. */
void led_frame_end_record(struct ron_buf *out, size_t record_at);
/* Pads, writes head and tail. `frame` gives uuid, epoch, seq_first, entries, records, time and
 * roots. RON_LIMIT when it would be longer than LED_FRAME_MAX. */
enum ron_rc led_frame_end(struct ron_buf *out, const struct led_frame *frame);

/* ---- reading --------------------------------------------------------------------------------- */

enum led_frame_state {
    LED_FRAME_GOOD,
    LED_FRAME_NONE, /* the first sector is all zero: nothing was ever written here */
    LED_FRAME_MORE, /* the head is good and the frame longer than `len` */
    LED_FRAME_TORN, /* it does not check, and was never wholly written (F2) */
    LED_FRAME_BAD,  /* it does not check, although all of it was written once */
};

/* Looks at the frame that begins at `bytes`; `len` is at least LED_SECTOR. *ret_size is the whole
 * size for GOOD and MORE. For TORN and BAD it is the size that a good head told, else LED_SECTOR.
 * `ret_frame` is written when GOOD; slices point into `bytes`. */
enum led_frame_state led_frame_read(const uint8_t *bytes, size_t len, struct led_frame *ret_frame,
                                    size_t *ret_size);

/* The head alone, which is enough to find a frame: false unless LED_FRAME_HEAD bytes check. Of
 * `ret_frame` all but the payload is written. */
RON_MUST_USE bool led_frame_peek(const uint8_t bytes[LED_FRAME_HEAD], struct led_frame *ret_frame,
                                 size_t *ret_size);

struct led_cursor {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t seq;  /* of the next entry */
    uint32_t left; /* records or entries */
};

/* Records of a GOOD frame, entries of a record. False at the end, and false with *ret_bad when the
 * bytes are no such thing, which in a GOOD frame only a faulty writer makes. */
void led_records(const struct led_frame *frame, struct led_cursor *ret_cursor);
bool led_records_next(struct led_cursor *cursor, struct led_record *ret_record, bool *ret_bad);
void led_entries(const struct led_record *record, struct led_cursor *ret_cursor);
bool led_entries_next(struct led_cursor *cursor, struct led_stored *ret_stored, bool *ret_bad);

/* ---- segments -------------------------------------------------------------------------------- */

void led_segment_head_write(const struct led_segment_head *head, uint8_t ret[LED_SEGMENT_HEAD]);
RON_MUST_USE bool led_segment_head_read(const uint8_t bytes[LED_SEGMENT_HEAD],
                                        struct led_segment_head *ret_head);
