/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - frames as bytes: what server and client of this module share. */
#pragma once

#include "ron/wire/frame.h"
#include "ron/wire/reason.h"

/* One frame at the start of `bytes`. frame_max is at most RON_OAP_FRAME_MAX. Outputs that do not go
 * with the verdict are untouched. */
enum ron_oap_step ron_oap_decode(const void *bytes, size_t len, size_t frame_max,
                                 struct ron_oap_frame *ret_frame, size_t *ret_need,
                                 enum ron_oap_reason *ret_reason);

/* Header fields of a refused frame, as far as they are there; zeros otherwise. For the answer. */
void ron_oap_decode_head(const void *bytes, size_t len, struct ron_oap_head *ret_head);

/* Writes the 38 bytes. Asserts F1's rules: an invalid header is a mistake of the caller. */
void ron_oap_write_head(const struct ron_oap_head *head, size_t payload_len, uint8_t *ret_bytes);

/* The payload of TRACE, as traceparent of W3C has it, in bytes. */
void ron_oap_trace_write(const struct ron_trace_ctx *ctx, uint8_t ret_bytes[RON_OAP_TRACE_BYTES]);

/* All zero for what is no context. */
void ron_oap_trace_read(const void *payload, size_t len, struct ron_trace_ctx *ret_ctx);

/* How a message of so many bytes is cut: as one frame when it fits frame_max with its capability,
 * else in pieces of RON_OAP_CHUNK_BYTES or what frame_max leaves. One frame has neither flag, or
 * both when there is a capability, which belongs to the piece with START. False when nothing is
 * left. */
struct ron_oap_cut {
    size_t at;
    size_t total;
    size_t first_max; /* beside the capability, which may leave it little */
    size_t piece_max;
    bool whole;
    bool cap;
    bool begun;
};
void ron_oap_cut_init(struct ron_oap_cut *cut, size_t payload_len, size_t cap_len,
                      size_t frame_max);
bool ron_oap_cut_next(struct ron_oap_cut *cut, uint16_t *ret_piece_flags, size_t *ret_at,
                      size_t *ret_len);

struct ron_oap_error ron_oap_error_of(enum ron_oap_reason reason);
bool ron_oap_reason_fatal(enum ron_oap_reason reason);
enum ron_oap_done ron_oap_reason_done(enum ron_oap_reason reason);
enum ron_rc ron_oap_reason_rc(enum ron_oap_reason reason);

/* Appends the envelope. A failure sticks in the buffer. */
void ron_oap_envelope(struct ron_buf *out, const struct ron_oap_error *error, uint64_t corr_id);

/* The reason named by an envelope; INTERNAL, the careful reading, for anything that is none. */
enum ron_oap_reason ron_oap_envelope_reason(const void *json, size_t len);
