/* SPDX-License-Identifier: Apache-2.0 */
/* json_write.c - the append writer of json.h.
 *
 * Numbers are formatted by hand: an answer has several, and printf costs more than the rest of it.
 * A string that holds bytes that are not UTF-8 is written with U+FFFD in their place, so that what
 * leaves is always JSON. */
#include "ron/base/json.h"

#include <string.h>

#include "json_priv.h"
#include "ron/base/assert.h"

static void put(struct ron_json_writer *w, const char *bytes, size_t len)
{
    (void)ron_buf_append(w->out, bytes, len); /* A full buffer remembers its failure. */
}

void ron_json_begin(struct ron_json_writer *w, struct ron_buf *out)
{
    *w = (struct ron_json_writer){.out = out};
}

/* Comma and name, and room for a value of `len` bytes that the caller fills. An answer is mostly
 * values whose length is known, so all of one takes room once. NULL when the buffer is full, or
 * when there is nothing to write. */
static char *take_room(struct ron_json_writer *w, const char *name, size_t len)
{
    struct ron_str plain = {name, name != NULL ? strlen(name) : 0};
    size_t all = (w->comma ? 1 : 0) + (name != NULL ? plain.len + 3 : 0) + len;
    uint8_t *to = NULL;

    if (all == 0 || ron_buf_reserve(w->out, all, &to) != RON_OK) {
        return NULL; /* A full buffer remembers its failure. */
    }
    ron_buf_commit(w->out, all);
    if (w->comma) {
        *to++ = ',';
    }
    w->comma = true;
    if (name != NULL) {
        *to++ = '"';
        memcpy(to, plain.ptr, plain.len);
        to += plain.len;
        *to++ = '"';
        *to++ = ':';
    }
    return (char *)to;
}

/* A value that is written as it stands. */
static void put_value(struct ron_json_writer *w, const char *name, const char *value, size_t len)
{
    char *to = take_room(w, name, len);

    if (to != NULL && len > 0) {
        memcpy(to, value, len);
    }
}

/* The same between quotes. */
static void put_quoted(struct ron_json_writer *w, const char *name, const char *value, size_t len)
{
    char *to = take_room(w, name, len + 2);

    if (to != NULL) {
        to[0] = '"';
        memcpy(to + 1, value, len);
        to[len + 1] = '"';
    }
}

void ron_json_open(struct ron_json_writer *w, const char *name, char bracket)
{
    RON_ASSERT(bracket == '{' || bracket == '[');
    put_value(w, name, &bracket, 1);
    w->comma = false;
}

void ron_json_close(struct ron_json_writer *w, char bracket)
{
    RON_ASSERT(bracket == '}' || bracket == ']');
    put(w, &bracket, 1);
    w->comma = true;
}

/* What a byte that cannot stand in a string is written as; returns how many bytes of input it
 * covers. */
static size_t put_special(struct ron_json_writer *w, const char *p, const char *end)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char into[] = "\"\\bfnrt";
    unsigned char c = (unsigned char)*p;
    size_t n = ron_utf8_len(p, end);
    const char *at = c != 0 ? strchr(from, (char)c) : NULL;

    if (at != NULL) {
        char escape[2] = {'\\', into[at - from]};
        put(w, escape, sizeof escape);
    } else if (c < 0x20) {
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        put(w, escape, sizeof escape);
    } else if (n == 0) {
        put(w, "\xef\xbf\xbd", 3);
    } else {
        put(w, p, n);
    }
    return n == 0 ? 1 : n;
}

void ron_json_str(struct ron_json_writer *w, const char *name, struct ron_str value)
{
    const char *p = value.len != 0 ? value.ptr : "";
    const char *end = p + value.len;
    const char *stop = ron__json_plain_end(p, end);

    if (stop == end) {
        put_quoted(w, name, p, value.len);
        return;
    }
    put_value(w, name, "\"", 1);
    for (; p < end; stop = ron__json_plain_end(p, end)) {
        put(w, p, (size_t)(stop - p));
        p = stop;
        if (p < end) {
            p += put_special(w, p, end);
        }
    }
    put(w, "\"", 1);
}

void ron_json_text(struct ron_json_writer *w, const char *name, const char *value)
{
    if (value == NULL) {
        ron_json_null(w, name);
    } else {
        ron_json_str(w, name, (struct ron_str){value, strlen(value)});
    }
}

void ron_json_u64(struct ron_json_writer *w, const char *name, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put_value(w, name, digits + at, sizeof digits - at);
}

void ron_json_i64(struct ron_json_writer *w, const char *name, int64_t value)
{
    if (value >= 0) {
        ron_json_u64(w, name, (uint64_t)value);
        return;
    }
    put_value(w, name, "-", 1);
    w->comma = false;
    ron_json_u64(w, NULL, 0 - (uint64_t)value);
}

void ron_json_bool(struct ron_json_writer *w, const char *name, bool value)
{
    put_value(w, name, value ? "true" : "false", value ? 4 : 5);
}

void ron_json_null(struct ron_json_writer *w, const char *name)
{
    put_value(w, name, "null", 4);
}

void ron_json_money(struct ron_json_writer *w, const char *name, struct ron_money value)
{
    char text[RON_MONEY_TEXT_SIZE];

    put_quoted(w, name, text, ron_money_format(value, text));
}

void ron_json_raw(struct ron_json_writer *w, const char *name, struct ron_str json)
{
    put_value(w, name, json.ptr, json.len);
}
