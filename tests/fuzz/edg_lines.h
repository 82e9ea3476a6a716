/* SPDX-License-Identifier: Apache-2.0 */
/* edg_lines.h - header fields from the bytes of a fuzz input: lines "Name: value". */
#pragma once

#include <string.h>

#include "edge/rules/fields.h"

enum { LINES_MAX = 40 };

struct lines {
    struct ron_http_field at[LINES_MAX];
    size_t count;
};

static inline struct edg_fields lines_view(const struct lines *l)
{
    return (struct edg_fields){.at = l->at, .count = l->count};
}

/* Reads lines up to an empty one or the end, and returns what is behind it. A line without a colon
 * is passed over. */
static inline struct ron_str lines_read(struct lines *l, struct ron_str text)
{
    l->count = 0;
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        const char *colon = len == 0 ? NULL : memchr(text.ptr, ':', len);
        size_t used = len + (end != NULL);

        if (colon != NULL && l->count < LINES_MAX) {
            l->at[l->count].name = (struct ron_str){text.ptr, (size_t)(colon - text.ptr)};
            l->at[l->count].value =
                ron_str_trim((struct ron_str){colon + 1, (size_t)(text.ptr + len - colon - 1)});
            l->count++;
        }
        text = (struct ron_str){text.ptr + used, text.len - used};
        if (len == 0) {
            break;
        }
    }
    return text;
}
