/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/multipart.c - part heads, boundaries, and the sum of it all. */
#include "edge/rules/multipart.h"

#include <stdio.h>

#include "ron/base/assert.h"
#include "ron/http/parse.h"

static void add(struct edg_multipart *plan, const struct edg_piece *piece)
{
    RON_ASSERT(plan->piece_count < EDG_PIECES_MAX);
    RON_ASSERT_MSG((piece->text != NULL) == (plan->piece_count % 2 == 0), "M3: text comes first");
    plan->pieces[plan->piece_count++] = *piece;
    plan->length += piece->length;
}

/* Text that was written behind text_len becomes a piece. */
static void add_text(struct edg_multipart *plan, int written)
{
    RON_ASSERT(written > 0 && (size_t)written < sizeof plan->text - plan->text_len);
    add(plan,
        &(struct edg_piece){.text = plan->text + plan->text_len, .length = (uint64_t)written});
    plan->text_len += (size_t)written;
}

static void add_part(struct edg_multipart *plan, const char *boundary,
                     const struct ron_http_range *range, uint64_t size, struct ron_str type)
{
    char value[RON_HTTP_CONTENT_RANGE_SIZE];
    size_t len = ron_http_content_range(range, size, value);

    /* The line break before a boundary belongs to the boundary; the first one needs none. */
    add_text(plan, snprintf(plan->text + plan->text_len, sizeof plan->text - plan->text_len,
                            "%s--%s\r\n%s%.*s%sContent-Range: %.*s\r\n\r\n",
                            plan->piece_count == 0 ? "" : "\r\n", boundary,
                            type.len > 0 ? "Content-Type: " : "", (int)type.len, type.ptr,
                            type.len > 0 ? "\r\n" : "", (int)len, value));
    add(plan, &(struct edg_piece){.range = *range, .length = range->last - range->first + 1});
}

enum ron_rc edg_multipart_plan(const struct ron_http_range *ranges, size_t count, uint64_t size,
                               struct ron_str content_type,
                               const uint8_t random[EDG_BOUNDARY_BYTES],
                               struct edg_multipart *ret_plan)
{
    char boundary[EDG_BOUNDARY_LEN + 1];

    RON_ASSERT(count >= 1 && count <= RON_HTTP_RANGES_MAX);
    if (content_type.len > EDG_CONTENT_TYPE_MAX) {
        return RON_LIMIT;
    }
    if (content_type.len == 0) {
        content_type.ptr = "";
    } else if (!ron_http_is_value(content_type)) {
        return RON_INVALID;
    }
    for (size_t i = 0; i < EDG_BOUNDARY_BYTES; i++) {
        boundary[2 * i] = "0123456789abcdef"[random[i] >> 4];
        boundary[2 * i + 1] = "0123456789abcdef"[random[i] & 15];
    }
    boundary[EDG_BOUNDARY_LEN] = '\0';
    ret_plan->length = 0;
    ret_plan->piece_count = 0;
    ret_plan->text_len = 0;
    for (size_t i = 0; i < count; i++) {
        RON_ASSERT(ranges[i].first <= ranges[i].last && ranges[i].last < size);
        add_part(ret_plan, boundary, &ranges[i], size, content_type);
    }
    add_text(ret_plan,
             snprintf(ret_plan->text + ret_plan->text_len,
                      sizeof ret_plan->text - ret_plan->text_len, "\r\n--%s--\r\n", boundary));
    RON_ASSERT_MSG(ret_plan->piece_count == 2 * count + 1, "M3: text and ranges alternate");
    RON_IGNORE(snprintf(ret_plan->content_type, sizeof ret_plan->content_type,
                        "multipart/byteranges; boundary=%s", boundary));
    return RON_OK;
}
