/* SPDX-License-Identifier: Apache-2.0 */
/* json_write.c - the append writer of json.h.
 *
 * Numbers are formatted by hand: an answer has several, and printf costs more than the rest of it.
 * A string that holds bytes that are not UTF-8 is written with U+FFFD in their place, so that what
 * leaves is always JSON. */
#include "ron/base/json.h"

#include <string.h>

#include "ron/base/assert.h"

static void put(struct ron_json_writer *w, const char *bytes, size_t len)
{
    (void)ron_buf_append(w->out, bytes, len); /* A full buffer remembers its failure. */
}

void ron_json_begin(struct ron_json_writer *w, struct ron_buf *out)
{
    *w = (struct ron_json_writer){.out = out};
}

/* Comma and name: what goes before every value. */
static void lead(struct ron_json_writer *w, const char *name)
{
    if (w->comma) {
        put(w, ",", 1);
    }
    w->comma = true;
    if (name != NULL) {
        put(w, "\"", 1);
        put(w, name, strlen(name));
        put(w, "\":", 2);
    }
}

void ron_json_open(struct ron_json_writer *w, const char *name, char bracket)
{
    RON_ASSERT(bracket == '{' || bracket == '[');
    lead(w, name);
    put(w, &bracket, 1);
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

    lead(w, name);
    put(w, "\"", 1);
    while (p < end) {
        const char *plain = p;

        while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
               *p != '\\') {
            p++;
        }
        put(w, plain, (size_t)(p - plain));
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

    lead(w, name);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(w, digits + at, sizeof digits - at);
}

void ron_json_i64(struct ron_json_writer *w, const char *name, int64_t value)
{
    if (value >= 0) {
        ron_json_u64(w, name, (uint64_t)value);
        return;
    }
    lead(w, name);
    put(w, "-", 1);
    w->comma = false;
    ron_json_u64(w, NULL, 0 - (uint64_t)value);
}

void ron_json_bool(struct ron_json_writer *w, const char *name, bool value)
{
    lead(w, name);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void ron_json_null(struct ron_json_writer *w, const char *name)
{
    lead(w, name);
    put(w, "null", 4);
}

void ron_json_money(struct ron_json_writer *w, const char *name, struct ron_money value)
{
    char text[RON_MONEY_TEXT_SIZE];
    size_t len = ron_money_format(value, text);

    lead(w, name);
    put(w, "\"", 1);
    put(w, text, len);
    put(w, "\"", 1);
}

void ron_json_raw(struct ron_json_writer *w, const char *name, struct ron_str json)
{
    lead(w, name);
    put(w, json.ptr, json.len);
}
