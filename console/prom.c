/* SPDX-License-Identifier: Apache-2.0 */
/* console/prom.c - one line at a time. */
#include "console/prom.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 40 }; /* characters of a value; the longest double has 24 */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
}

/* The index behind a closing brace; 0 when there is none. Braces and quotes inside a value do not
 * count. */
static size_t labels_end(const char *line, size_t len)
{
    bool quoted = false;

    for (size_t i = 1; i < len; i++) {
        if (quoted && line[i] == '\\') {
            i++;
        } else if (line[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && line[i] == '}') {
            return i + 1;
        }
    }
    return 0;
}

static bool read_value(const char *text, size_t len, double *ret_value)
{
    char number[NUMBER_MAX + 1];
    char *end = NULL;

    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    if (len == 0 || len > NUMBER_MAX) {
        return false;
    }
    memcpy(number, text, len);
    number[len] = '\0';
    *ret_value = strtod(number, &end);
    return end != number && (*end == '\0' || *end == ' ') && isfinite(*ret_value);
}

static bool read_line(const char *line, size_t len, struct con_prom_sample *ret)
{
    size_t at = 0;

    while (at < len && name_char(line[at])) {
        at++;
    }
    if (at == 0 || at == len) {
        return false;
    }
    ret->name = (struct ron_str){line, at};
    ret->labels = (struct ron_str){0};
    if (line[at] == '{') {
        size_t used = labels_end(line + at, len - at);

        if (used == 0) {
            return false;
        }
        ret->labels = (struct ron_str){line + at + 1, used - 2};
        at += used;
    }
    return read_value(line + at, len - at, &ret->value);
}

bool con_prom_next(struct ron_str *rest, struct con_prom_sample *ret_sample)
{
    while (rest->len > 0) {
        const char *line = rest->ptr;
        const char *end = memchr(line, '\n', rest->len);
        size_t len = end != NULL ? (size_t)(end - line) : rest->len;
        size_t used = end != NULL ? len + 1 : len;

        rest->ptr += used;
        rest->len -= used;
        if (len > 0 && line[0] != '#' && read_line(line, len, ret_sample)) {
            return true;
        }
    }
    return false;
}

bool con_prom_label(struct ron_str labels, const char *name, struct ron_str *ret_value)
{
    size_t want = strlen(name);
    size_t at = 0;

    while (at < labels.len) {
        size_t start = at;
        size_t stop;

        while (at < labels.len && name_char(labels.ptr[at])) {
            at++;
        }
        if (at + 1 >= labels.len || labels.ptr[at] != '=' || labels.ptr[at + 1] != '"') {
            return false;
        }
        stop = at + 2;
        while (stop < labels.len && labels.ptr[stop] != '"') {
            stop += labels.ptr[stop] == '\\' ? 2 : 1;
        }
        if (stop >= labels.len) {
            return false;
        }
        if (at - start == want && memcmp(labels.ptr + start, name, want) == 0) {
            *ret_value = (struct ron_str){labels.ptr + at + 2, stop - at - 2};
            return true;
        }
        at = stop + 1;
        if (at < labels.len && labels.ptr[at] == ',') {
            at++;
        }
    }
    return false;
}
