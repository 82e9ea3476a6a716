/* SPDX-License-Identifier: Apache-2.0 */
/* edge_fields.h - headers for tests of the edge's rules, from a text of lines "Name: value".
 *
 * "{-3000}" in a value stands for the HTTP date so many seconds from T0_S (or from base_s, when
 * that is not 0), "{rfc850 -3000}" for the same in the old form. */
#pragma once

#include <stdlib.h>

#include "support/support.h"

#include "edge/rules/fields.h"
#include "ron/http/date.h"

#define T0_S UINT64_C(1700000000) /* Tue, 14 Nov 2023 22:13:20 GMT */
#define T0_MS (T0_S * 1000)

enum { FIELDS_MAX = 48, FIELDS_TEXT = 8192 };

struct fields {
    struct ron_http_field at[FIELDS_MAX];
    size_t count;
    char text[FIELDS_TEXT];
    size_t len;
    uint64_t base_s;
};

static inline struct edg_fields view(const struct fields *f)
{
    return (struct edg_fields){.at = f->at, .count = f->count};
}

/* Monday, 02-Jan-06 15:04:05 GMT */
static inline size_t rfc850(uint64_t unix_s, char *out, size_t size)
{
    static const char *const days[] = {"Thursday", "Friday",  "Saturday", "Sunday",
                                       "Monday",   "Tuesday", "Wednesday"};
    char date[RON_HTTP_DATE_SIZE];
    int n;

    ron_http_date_format(unix_s, date);
    n = snprintf(out, size, "%s, %.2s-%.3s-%.2s %.12s", days[unix_s / 86400 % 7], date + 5,
                 date + 8, date + 14, date + 17);
    assert_true(n > 0 && (size_t)n < size);
    return (size_t)n;
}

/* Copies a value behind f->text, its dates written out. */
static inline struct ron_str expand(struct fields *f, const char *value, size_t len)
{
    struct ron_str out = {f->text + f->len, 0};

    for (size_t i = 0; i < len; i++) {
        char *at = f->text + f->len;
        bool old = value[i] == '{' && strncmp(value + i, "{rfc850 ", 8) == 0;

        assert_true(f->len + 64 < sizeof f->text);
        if (value[i] == '{') {
            uint64_t base_s = f->base_s == 0 ? T0_S : f->base_s;
            uint64_t when = base_s + (uint64_t)strtoll(value + i + (old ? 8 : 1), NULL, 10);

            if (old) {
                f->len += rfc850(when, at, 64);
            } else {
                ron_http_date_format(when, at);
                f->len += RON_HTTP_DATE_LEN;
            }
            while (value[i] != '}') {
                i++;
            }
        } else {
            f->text[f->len++] = value[i];
        }
    }
    out.len = (size_t)(f->text + f->len - out.ptr);
    return out;
}

/* Adds "Name: value"; blanks around the value are not part of it. */
static inline void add_line(struct fields *f, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    struct ron_http_field *field = &f->at[f->count];
    struct ron_str value;

    assert_non_null(colon);
    assert_true(f->count < FIELDS_MAX);
    value = ron_str_trim((struct ron_str){colon + 1, (size_t)(line + len - colon - 1)});
    field->name = expand(f, line, (size_t)(colon - line));
    field->value = expand(f, value.ptr, value.len);
    f->count++;
}

static inline void set_lines(struct fields *f, const char *lines)
{
    f->count = 0;
    f->len = 0;
    f->base_s = 0;
    while (lines != NULL && *lines != '\0') {
        size_t len = strcspn(lines, "\n");

        add_line(f, lines, len);
        lines += len + (lines[len] == '\n');
    }
}

/* A request head of these lines. */
static inline struct ron_http_head *head_of(struct ron_http_head *head, enum ron_http_method method,
                                            const struct fields *f)
{
    memset(head, 0, sizeof *head);
    head->method = method;
    head->field_count = (uint32_t)f->count;
    memcpy(head->fields, f->at, f->count * sizeof f->at[0]);
    return head;
}
