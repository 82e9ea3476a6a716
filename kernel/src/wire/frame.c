/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - the codec. Layout and rules F1-F3 are in the header.
 *
 * Failure: a refusal is a value; an invalid header given to the encoder is an assertion. */
#include "ron/wire/frame.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "wire/frame.h"

static bool one_kind(uint16_t flags)
{
    unsigned kind = flags & RON_OAP_KIND_MASK;

    return kind != 0 && (kind & (kind - 1)) == 0;
}

/* F1: field by field, each as soon as it is there. NONE when nothing is wrong so far. */
static enum ron_oap_reason judge(const uint8_t *p, size_t len, size_t frame_max)
{
    uint32_t total;
    uint16_t flags;
    uint16_t cap_len;

    if (len < 4) {
        return RON_OAP_NONE;
    }
    total = ron_get_be32(p);
    if (total > frame_max) {
        return RON_OAP_TOO_LARGE;
    }
    if (total < RON_OAP_HEADER_BYTES) {
        return RON_OAP_LENGTH;
    }
    if (len >= 6 && ron_get_be16(p + 4) != RON_OAP_VERSION) {
        return RON_OAP_BAD_VERSION;
    }
    if (len < 8) {
        return RON_OAP_NONE;
    }
    flags = ron_get_be16(p + 6);
    if ((flags & ~(unsigned)RON_OAP_FLAGS_KNOWN) != 0) {
        return RON_OAP_BAD_FLAGS;
    }
    if (!one_kind(flags)) {
        return RON_OAP_KIND;
    }
    if (len < 30) {
        return RON_OAP_NONE;
    }
    cap_len = ron_get_be16(p + 28);
    if (cap_len > 0 && (flags & RON_OAP_START) == 0) {
        return RON_OAP_CAP;
    }
    return total < (uint32_t)RON_OAP_HEADER_BYTES + cap_len ? RON_OAP_LENGTH : RON_OAP_NONE;
}

static void read_head(const uint8_t *p, struct ron_oap_head *head)
{
    *head = (struct ron_oap_head){.flags = ron_get_be16(p + 6),
                                  .code = ron_get_be16(p + 8),
                                  .app = ron_get_be16(p + 10),
                                  .cap_len = ron_get_be16(p + 28),
                                  .corr_id = ron_get_be64(p + 30),
                                  .tenant = ron_get_be128(p + 12)};
}

enum ron_oap_step ron_oap_decode(const void *bytes, size_t len, size_t frame_max,
                                 struct ron_oap_frame *ret_frame, size_t *ret_need,
                                 enum ron_oap_reason *ret_reason)
{
    const uint8_t *p = bytes;
    enum ron_oap_reason reason = judge(p, len, frame_max);
    size_t total;

    RON_ASSERT(frame_max <= RON_OAP_FRAME_MAX);
    if (reason != RON_OAP_NONE) {
        *ret_reason = reason;
        return RON_OAP_STEP_REFUSED;
    }
    total = len < 4 ? RON_OAP_HEADER_BYTES : ron_get_be32(p);
    if (len < total) {
        *ret_need = total;
        return RON_OAP_STEP_MORE;
    }
    read_head(p, &ret_frame->head);
    ret_frame->cap = p + RON_OAP_HEADER_BYTES;
    ret_frame->payload = ret_frame->cap + ret_frame->head.cap_len;
    ret_frame->payload_len = total - RON_OAP_HEADER_BYTES - ret_frame->head.cap_len;
    ret_frame->frame_len = total;
    return RON_OAP_STEP_FRAME;
}

void ron_oap_decode_head(const void *bytes, size_t len, struct ron_oap_head *ret_head)
{
    *ret_head = (struct ron_oap_head){0};
    if (len >= RON_OAP_HEADER_BYTES) {
        read_head(bytes, ret_head);
    }
}

void ron_oap_write_head(const struct ron_oap_head *head, size_t payload_len, uint8_t *ret_bytes)
{
    size_t total = RON_OAP_HEADER_BYTES + head->cap_len + payload_len;

    RON_ASSERT(payload_len <= RON_OAP_FRAME_MAX);
    RON_ASSERT(total <= RON_OAP_FRAME_MAX);
    RON_ASSERT((head->flags & ~(unsigned)RON_OAP_FLAGS_KNOWN) == 0);
    RON_ASSERT(one_kind(head->flags));
    RON_ASSERT(head->cap_len == 0 || (head->flags & RON_OAP_START) != 0);
    (void)ron_put_be32(ret_bytes, (uint32_t)total);
    (void)ron_put_be16(ret_bytes + 4, RON_OAP_VERSION);
    (void)ron_put_be16(ret_bytes + 6, head->flags);
    (void)ron_put_be16(ret_bytes + 8, head->code);
    (void)ron_put_be16(ret_bytes + 10, head->app);
    (void)ron_put_be128(ret_bytes + 12, head->tenant);
    (void)ron_put_be16(ret_bytes + 28, head->cap_len);
    (void)ron_put_be64(ret_bytes + 30, head->corr_id);
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* ---- the trace of a request ------------------------------------------------------------------ */

void ron_oap_trace_write(const struct ron_trace_ctx *ctx, uint8_t ret_bytes[RON_OAP_TRACE_BYTES])
{
    memcpy(ret_bytes, ctx->trace_id, RON_TRACE_ID_BYTES);
    memcpy(ret_bytes + RON_TRACE_ID_BYTES, ctx->span_id, RON_SPAN_ID_BYTES);
    ret_bytes[RON_TRACE_ID_BYTES + RON_SPAN_ID_BYTES] = ctx->sampled ? 1 : 0;
}

void ron_oap_trace_read(const void *payload, size_t len, struct ron_trace_ctx *ret_ctx)
{
    const uint8_t *bytes = payload;

    *ret_ctx = (struct ron_trace_ctx){0};
    if (len != RON_OAP_TRACE_BYTES) {
        return;
    }
    memcpy(ret_ctx->trace_id, bytes, RON_TRACE_ID_BYTES);
    memcpy(ret_ctx->span_id, bytes + RON_TRACE_ID_BYTES, RON_SPAN_ID_BYTES);
    ret_ctx->sampled = (bytes[RON_TRACE_ID_BYTES + RON_SPAN_ID_BYTES] & 1) != 0;
    if (!ron_trace_ctx_valid(ret_ctx)) {
        *ret_ctx = (struct ron_trace_ctx){0};
    }
}

void ron_oap_cut_init(struct ron_oap_cut *cut, size_t payload_len, size_t cap_len, size_t frame_max)
{
    size_t front = RON_OAP_HEADER_BYTES + cap_len;

    RON_ASSERT(frame_max > front);
    *cut = (struct ron_oap_cut){
        .total = payload_len,
        .cap = cap_len > 0,
        .whole = payload_len <= frame_max - front,
        .first_max = RON_MIN(frame_max - front, (size_t)RON_OAP_CHUNK_BYTES),
        .piece_max = RON_MIN(frame_max - RON_OAP_HEADER_BYTES, (size_t)RON_OAP_CHUNK_BYTES)};
}

bool ron_oap_cut_next(struct ron_oap_cut *cut, uint16_t *ret_piece_flags, size_t *ret_at,
                      size_t *ret_len)
{
    size_t most = cut->begun ? cut->piece_max : cut->first_max;
    size_t len = cut->whole ? cut->total : RON_MIN(cut->total - cut->at, most);
    unsigned flags = 0;

    if (cut->begun && cut->at == cut->total) {
        return false;
    }
    if (!cut->whole || cut->cap) {
        flags =
            (cut->begun ? 0u : RON_OAP_START) | (cut->at + len == cut->total ? RON_OAP_END : 0u);
    }
    *ret_piece_flags = (uint16_t)flags;
    *ret_at = cut->at;
    *ret_len = len;
    cut->at += len;
    cut->begun = true;
    return true;
}
