/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/frame.h - the bytes of the journal: heads of segments, frames, records, stored
 * entries.
 *
 * Place: audit; pure. Written from docs/formats/ledger-log.md; shares nothing with the ledger's
 * reader. What is read are slices of the caller's bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/base/bytes.h"
#include "audit/base/hash.h"

enum {
    AUD_SECTOR = 512,
    AUD_SEGMENT_HEAD = 4096,
    AUD_FRAME_HEAD = 136,
    AUD_FRAME_TAIL = 8,
    AUD_FRAME_MAX = 16 << 20,
    AUD_UUID_SIZE = 16,
};

struct aud_segment_head {
    uint8_t uuid[AUD_UUID_SIZE];
    uint64_t number;
    uint64_t seq_first;
    struct aud_hash prev_root;
    uint64_t created_ms;
    uint64_t segment_bytes;
};

struct aud_frame {
    const uint8_t *uuid;
    uint64_t epoch;
    uint64_t seq_first;
    uint32_t entries;
    uint32_t records;
    uint64_t time_ms;
    struct aud_hash prev_root;
    struct aud_hash new_root;
    const uint8_t *payload;
    size_t payload_len;
    size_t size; /* all of it, in the file */
};

enum aud_state {
    AUD_STATE_GOOD,
    AUD_STATE_NONE, /* the first sector is zero: nothing was written here */
    AUD_STATE_MORE, /* the head is good, and the frame longer than the bytes at hand */
    AUD_STATE_TORN, /* it does not check, and some of it was never written */
    AUD_STATE_BAD,  /* it does not check */
};

enum aud_record_kind { AUD_RECORD_BATCH = 1, AUD_RECORD_CANCEL = 2 };
enum aud_record_flag { AUD_RECORD_IMPORT = 1, AUD_RECORD_OWN = 2 };

struct aud_record {
    uint8_t kind;
    uint16_t flags;
    uint32_t count;
    uint64_t now_ms;
    struct ron_str idem_id; /* empty: none */
    struct aud_reader entries;
};

struct aud_side {
    uint64_t prev_seq;
    ron_u128 available;
    ron_u128 held;
};

struct aud_links {
    struct aud_side account;
    struct aud_side to;
    bool has_to;
};

/* NULL when it is the head of a segment; else what is wrong. */
const char *aud_segment_read(const uint8_t bytes[AUD_SEGMENT_HEAD],
                             struct aud_segment_head *ret_head);

/* Looks at the head of a frame alone: NULL when it is one, else what is wrong. */
const char *aud_frame_peek(const uint8_t *bytes, struct aud_frame *ret_frame);
/* Looks at the frame at `bytes`; len >= AUD_SECTOR. ret_frame is written for GOOD; ret_frame->size
 * for MORE and TORN too. *ret_fault says what does not check for TORN and BAD. */
enum aud_state aud_frame_read(const uint8_t *bytes, size_t len, struct aud_frame *ret_frame,
                              const char **ret_fault);

/* ---- all of a frame -------------------------------------------------------------------------- */

enum aud_step {
    AUD_STEP_RECORD, /* a record begins: `record` */
    AUD_STEP_ENTRY,  /* `leaf` and `links` */
    AUD_STEP_END,    /* the frame is at its end, and all was well */
    AUD_STEP_BAD,    /* `fault` says what no writer makes; nothing follows */
};

struct aud_iter {
    struct aud_reader payload;
    uint32_t records_left;
    uint32_t entries_left; /* of the record */
    uint64_t seq;          /* of the entry; before the first one that of the frame - 1 */
    uint64_t entries;      /* met so far */
    uint64_t entries_told; /* by the head */
    struct aud_record record;
    struct ron_str leaf;
    struct aud_links links;
    const char *fault;
};

void aud_iter_begin(struct aud_iter *it, const struct aud_frame *frame);
enum aud_step aud_iter_next(struct aud_iter *it);
