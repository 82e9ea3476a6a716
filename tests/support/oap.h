/* SPDX-License-Identifier: Apache-2.0 */
/* oap.h - a whole frame as bytes. RON_LIMIT when it would be longer than frame_max; RON_NOMEM. */
#pragma once

#include <string.h>

#include "wire/frame.h"

static inline enum ron_rc ron_oap_encode(struct ron_buf *out, const struct ron_oap_head *head,
                                         const void *cap, const void *payload, size_t payload_len,
                                         size_t frame_max)
{
    uint8_t *room = NULL;
    size_t front = RON_OAP_HEADER_BYTES + (size_t)head->cap_len;

    if (frame_max < front || payload_len > frame_max - front) {
        return RON_LIMIT;
    }
    RON_TRY(ron_buf_reserve(out, front + payload_len, &room));
    ron_oap_write_head(head, payload_len, room);
    if (head->cap_len > 0 && cap != NULL) {
        memcpy(room + RON_OAP_HEADER_BYTES, cap, head->cap_len);
    }
    if (payload_len > 0) {
        memcpy(room + front, payload, payload_len);
    }
    ron_buf_commit(out, front + payload_len);
    return RON_OK;
}
