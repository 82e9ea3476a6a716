/* SPDX-License-Identifier: Apache-2.0 */
/* tagged_json.h - compares a TOML tree with the JSON in which the toml-test corpus states it.
 *
 * In that JSON a scalar is {"type": "integer", "value": "42"}; tables and arrays are themselves.
 * The reader below takes only what the corpus holds and stops at the first difference. It shares no
 * code with the reader under test: numbers and dates are read with sscanf and strtod. */
#pragma once

#include "support/support.h"

#include <math.h>

#include "ron/conf/toml.h"

struct tagged {
    const char *at;
    const char *why; /* first difference, NULL while equal */
    char path[256];
};

static inline bool tagged_fail(struct tagged *t, const char *why)
{
    if (t->why == NULL) {
        t->why = why;
    }
    return false;
}

static inline char tagged_next(struct tagged *t)
{
    t->at += strspn(t->at, " \t\r\n");
    return *t->at;
}

static inline bool tagged_take(struct tagged *t, char c)
{
    if (tagged_next(t) != c) {
        return false;
    }
    t->at++;
    return true;
}

/* One character of a string, decoded to UTF-8. Returns its bytes. */
static inline size_t tagged_char(struct tagged *t, char *out)
{
    unsigned point = 0;
    unsigned low = 0;
    static const char names[] = "\"\\/bfnrt";
    static const char means[] = "\"\\/\b\f\n\r\t";

    if (*t->at != '\\') {
        out[0] = *t->at++;
        return 1;
    }
    t->at++;
    if (*t->at != 'u') {
        out[0] = means[strchr(names, *t->at++) - names];
        return 1;
    }
    assert_int_equal(sscanf(t->at, "u%4x", &point), 1);
    t->at += 5;
    if (point >= 0xd800 && point < 0xdc00) {
        assert_int_equal(sscanf(t->at, "\\u%4x", &low), 1);
        t->at += 6;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | (point >> 6));
        out[1] = (char)(0x80 | (point & 63));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | (point >> 12));
        out[1] = (char)(0x80 | ((point >> 6) & 63));
        out[2] = (char)(0x80 | (point & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | (point >> 18));
    out[1] = (char)(0x80 | ((point >> 12) & 63));
    out[2] = (char)(0x80 | ((point >> 6) & 63));
    out[3] = (char)(0x80 | (point & 63));
    return 4;
}

static inline size_t tagged_string(struct tagged *t, char *out, size_t size)
{
    size_t len = 0;

    assert_true(tagged_take(t, '"'));
    while (*t->at != '"') {
        assert_true(*t->at != '\0' && len + 5 < size);
        len += tagged_char(t, out + len);
    }
    t->at++;
    out[len] = '\0';
    return len;
}

static inline bool tagged_time(const struct ron_toml_value *v, const char *text)
{
    int part[6] = {0};
    int off[2] = {0};
    char fraction[10] = "000000000";
    size_t digits = 0;
    const char *rest = strchr(text, ':') != NULL ? strrchr(text, ':') + 3 : text;
    char sign = '\0';

    if (v->type == RON_TOML_LOCAL_TIME) {
        (void)sscanf(text, "%d:%d:%d", part + 3, part + 4, part + 5);
        rest = text + 8;
    } else {
        (void)sscanf(text, "%d-%d-%d%*c%d:%d:%d", part, part + 1, part + 2, part + 3, part + 4,
                     part + 5);
        rest = strlen(text) > 19 ? text + 19 : "";
    }
    if (*rest == '.') {
        digits = strspn(++rest, "0123456789");
        memcpy(fraction, rest, digits > 9 ? 9 : digits);
        rest += digits;
    }
    if (sscanf(rest, "%c%d:%d", &sign, off, off + 1) == 3) {
        off[0] = (sign == '-' ? -1 : 1) * (off[0] * 60 + off[1]);
    }
    return v->time.year == part[0] && v->time.month == part[1] && v->time.day == part[2] &&
           v->time.hour == part[3] && v->time.minute == part[4] && v->time.second == part[5] &&
           v->time.nanos == strtol(fraction, NULL, 10) && v->time.offset_min == off[0];
}

static inline bool tagged_real(const struct ron_toml_value *v, const char *text)
{
    double wanted = strtod(text, NULL);

    return isnan(wanted) ? isnan(v->real) : v->real == wanted;
}

static inline bool tagged_scalar(const struct ron_toml_value *v, const char *type, const char *text,
                                 size_t len)
{
    static const char *const types[] = {
        [RON_TOML_STRING] = "string",         [RON_TOML_INTEGER] = "integer",
        [RON_TOML_FLOAT] = "float",           [RON_TOML_BOOL] = "bool",
        [RON_TOML_DATETIME] = "datetime",     [RON_TOML_LOCAL_DATETIME] = "datetime-local",
        [RON_TOML_LOCAL_DATE] = "date-local", [RON_TOML_LOCAL_TIME] = "time-local",
    };

    if (v->type == RON_TOML_TABLE || v->type == RON_TOML_ARRAY ||
        strcmp(types[v->type], type) != 0) {
        return false;
    }
    if (v->type == RON_TOML_STRING) {
        return v->string.len == len && memcmp(v->string.text, text, len) == 0;
    }
    if (v->type == RON_TOML_INTEGER) {
        return v->integer == strtoll(text, NULL, 10);
    }
    if (v->type == RON_TOML_FLOAT) {
        return tagged_real(v, text);
    }
    if (v->type == RON_TOML_BOOL) {
        return v->boolean == (strcmp(text, "true") == 0);
    }
    return tagged_time(v, text);
}

static inline bool tagged_equal(struct tagged *t, const struct ron_toml_value *v);

static inline bool tagged_array(struct tagged *t, const struct ron_toml_value *v)
{
    const struct ron_toml_value *e = v->first;
    size_t count = 0;

    assert_true(tagged_take(t, '['));
    if (v->type != RON_TOML_ARRAY) {
        return tagged_fail(t, "an array was expected");
    }
    for (; !tagged_take(t, ']'); e = e->next, count++) {
        if (e == NULL) {
            return tagged_fail(t, "elements are missing");
        }
        if (!tagged_equal(t, e)) {
            return false;
        }
        (void)tagged_take(t, ',');
    }
    return count == v->count ? true : tagged_fail(t, "too many elements");
}

static inline const struct ron_toml_value *tagged_member(const struct ron_toml_value *v,
                                                         const char *key, size_t len)
{
    for (const struct ron_toml_value *m = v->first; m != NULL; m = m->next) {
        if (m->key_len == len && memcmp(m->key, key, len) == 0) {
            return m;
        }
    }
    return NULL;
}

static inline bool tagged_table(struct tagged *t, const struct ron_toml_value *v)
{
    char key[256];
    char type[4096] = "";
    char text[4096] = "";
    size_t text_len = 0;
    size_t count = 0;

    assert_true(tagged_take(t, '{'));
    while (!tagged_take(t, '}')) {
        size_t len = tagged_string(t, key, sizeof(key));

        assert_true(tagged_take(t, ':'));
        /* "type" with a string behind it marks a scalar; a table's own key has an object there. */
        if (tagged_next(t) == '"') {
            if (strcmp(key, "type") == 0) {
                (void)tagged_string(t, type, sizeof(type));
            } else {
                text_len = tagged_string(t, text, sizeof(text));
            }
        } else {
            const struct ron_toml_value *m =
                v->type == RON_TOML_TABLE ? tagged_member(v, key, len) : NULL;

            (void)snprintf(t->path, sizeof(t->path), "%s", key);
            if (m == NULL || !tagged_equal(t, m)) {
                return tagged_fail(t, "a member is missing");
            }
            count++;
        }
        (void)tagged_take(t, ',');
    }
    if (type[0] != '\0') {
        return tagged_scalar(v, type, text, text_len) ? true
                                                      : tagged_fail(t, "type or value differs");
    }
    return v->type == RON_TOML_TABLE && v->count == count ? true
                                                          : tagged_fail(t, "too many members");
}

static inline bool tagged_equal(struct tagged *t, const struct ron_toml_value *v)
{
    return tagged_next(t) == '[' ? tagged_array(t, v) : tagged_table(t, v);
}
