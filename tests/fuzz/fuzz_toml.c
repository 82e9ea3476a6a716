/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_toml.c - any bytes through the TOML reader.
 *
 * Properties: a refusal has a code of the contract and, when the text is wrong, a place; what is
 * accepted is written back with inline tables only, and reading that gives the same tree. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conf/toml_priv.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/conf/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_string(const char *text, size_t len, struct ron_buf *out)
{
    ron_buf_append_byte(out, '"');
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];

        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
            ron_buf_append_fmt(out, "\\u%04x", c);
        } else {
            ron_buf_append_byte(out, c);
        }
    }
    ron_buf_append_byte(out, '"');
}

static void write_time(const struct ron_toml_value *v, struct ron_buf *out)
{
    const struct ron_toml_time *t = &v->time;
    int offset = t->offset_min < 0 ? -t->offset_min : t->offset_min;

    if (v->type != RON_TOML_LOCAL_TIME) {
        ron_buf_append_fmt(out, "%04d-%02d-%02d", t->year, t->month, t->day);
    }
    if (v->type == RON_TOML_LOCAL_DATE) {
        return;
    }
    ron_buf_append_fmt(out, "%s%02d:%02d:%02d.%09d", v->type == RON_TOML_LOCAL_TIME ? "" : "T",
                       t->hour, t->minute, t->second, (int)t->nanos);
    if (v->type == RON_TOML_DATETIME) {
        ron_buf_append_fmt(out, "%c%02d:%02d", t->offset_min < 0 ? '-' : '+', offset / 60,
                           offset % 60);
    }
}

static void write_real(double real, struct ron_buf *out)
{
    char text[64];

    if (isnan(real) || isinf(real)) {
        ron_buf_append_text(out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    (void)snprintf(text, sizeof(text), "%.17e", real); /* always with a point and an exponent */
    ron_buf_append_text(out, text);
}

static void write_value(const struct ron_toml_value *v, struct ron_buf *out)
{
    switch (v->type) {
    case RON_TOML_TABLE:
        ron_buf_append_byte(out, '{');
        for (const struct ron_toml_value *m = v->first; m != NULL; m = m->next) {
            write_string(m->key, m->key_len, out);
            ron_buf_append_byte(out, '=');
            write_value(m, out);
            ron_buf_append_text(out, m->next != NULL ? "," : "");
        }
        ron_buf_append_byte(out, '}');
        break;
    case RON_TOML_ARRAY:
        ron_buf_append_byte(out, '[');
        for (const struct ron_toml_value *e = v->first; e != NULL; e = e->next) {
            write_value(e, out);
            ron_buf_append_byte(out, ',');
        }
        ron_buf_append_byte(out, ']');
        break;
    case RON_TOML_STRING:
        write_string(v->string.text, v->string.len, out);
        break;
    case RON_TOML_INTEGER:
        ron_buf_append_fmt(out, "%lld", (long long)v->integer);
        break;
    case RON_TOML_FLOAT:
        write_real(v->real, out);
        break;
    case RON_TOML_BOOL:
        ron_buf_append_text(out, v->boolean ? "true" : "false");
        break;
    case RON_TOML_DATETIME:
    case RON_TOML_LOCAL_DATETIME:
    case RON_TOML_LOCAL_DATE:
    case RON_TOML_LOCAL_TIME:
        write_time(v, out);
        break;
    }
}

static void check_same(const struct ron_toml_value *a, const struct ron_toml_value *b)
{
    const struct ron_toml_value *y = b->first;

    RON_ASSERT(a->type == b->type);
    RON_ASSERT(a->count == b->count);
    RON_ASSERT(a->depth == b->depth);
    RON_ASSERT(a->key_len == b->key_len);
    RON_ASSERT(a->key_len == 0 || memcmp(a->key, b->key, a->key_len) == 0);
    if (a->type == RON_TOML_STRING) {
        RON_ASSERT(a->string.len == b->string.len);
        RON_ASSERT(memcmp(a->string.text, b->string.text, a->string.len) == 0);
        RON_ASSERT(ron_toml_utf8_prefix(a->string.text, a->string.len) == a->string.len);
    } else if (a->type == RON_TOML_INTEGER) {
        RON_ASSERT(a->integer == b->integer);
    } else if (a->type == RON_TOML_FLOAT) {
        RON_ASSERT(a->real == b->real || (isnan(a->real) && isnan(b->real)));
    } else if (a->type == RON_TOML_BOOL) {
        RON_ASSERT(a->boolean == b->boolean);
    } else if (a->type > RON_TOML_BOOL) {
        RON_ASSERT(a->time.year == b->time.year && a->time.month == b->time.month);
        RON_ASSERT(a->time.day == b->time.day && a->time.hour == b->time.hour);
        RON_ASSERT(a->time.minute == b->time.minute && a->time.second == b->time.second);
        RON_ASSERT(a->time.nanos == b->time.nanos && a->time.offset_min == b->time.offset_min);
    }
    for (const struct ron_toml_value *x = a->first; x != NULL; x = x->next, y = y->next) {
        RON_ASSERT(y != NULL);
        check_same(x, y);
    }
    RON_ASSERT(y == NULL);
}

static void round_trip(const struct ron_toml_value *root)
{
    struct ron_buf out;
    struct ron_toml *again = NULL;
    struct ron_err err = {0};

    ron_buf_init(&out, RON_TOML_BYTES_MAX);
    for (const struct ron_toml_value *m = root->first; m != NULL; m = m->next) {
        write_string(m->key, m->key_len, &out);
        ron_buf_append_text(&out, " = ");
        write_value(m, &out);
        ron_buf_append_byte(&out, '\n');
    }
    if (ron_buf_error(&out) == RON_OK) {
        enum ron_rc rc =
            ron_toml_parse("again", ron_buf_text(&out), ron_buf_len(&out), &again, &err);

        RON_ASSERT_MSG(rc == RON_OK, "%s", err.msg);
        check_same(root, ron_toml_root(again));
        ron_toml_free(again);
    }
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};
    const char *text = size == 0 ? "" : (const char *)data;
    enum ron_rc rc = ron_toml_parse("fuzz", text, size, &doc, &err);
    int line = 0;
    int column = 0;

    if (rc == RON_OK) {
        round_trip(ron_toml_root(doc));
        ron_toml_free(doc);
    } else if (rc == RON_INVALID) {
        RON_ASSERT(sscanf(err.msg, "fuzz:%d:%d: ", &line, &column) == 2);
        RON_ASSERT(line > 0);
        RON_ASSERT(column > 0);
    } else {
        RON_ASSERT(rc == RON_LIMIT);
    }
    return 0;
}
