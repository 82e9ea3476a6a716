/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.c - the scanner of json.h.
 *
 * Place: base; used wherever JSON comes in. One pass, recursive only over nested values, bounded by
 * RON_JSON_DEPTH_MAX. `p` never moves past `end`; every read is guarded by it.
 *
 * Invariants:
 *   I1 a string slice lies inside the text, and resolving escapes writes only over bytes already
 *      read.
 *   I2 an output is written only when its value was accepted; on failure `out` may be partly
 *      filled, and the caller does not use it.
 * The common case is fast: members in the order of the table are found with one comparison, and
 * string bytes are looked at eight at a time until something special turns up. */
#include "ron/base/json.h"

#include <stdio.h>
#include <string.h>

#include "json_priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

struct scan {
    const char *start;
    const char *p;
    const char *end;
    char *
        writable; /* `start` again when escapes are resolved in place, NULL when the text is kept */
    struct ron_arena *arena;
    struct ron_json_error *err;
    uint32_t depth;
};

/* ---- errors ---------------------------------------------------------------------------------- */

__attribute__((cold)) static enum ron_rc fail(struct scan *s, const char *reason)
{
    if (s->err != NULL) {
        s->err->field[0] = '\0';
        s->err->at = (size_t)(s->p - s->start);
        (void)snprintf(s->err->reason, sizeof s->err->reason, "%s", reason);
    }
    return RON_INVALID;
}

/* Puts `part` in front of the path on the way out; a path that grows too long loses its tail. */
__attribute__((cold)) static void prefix_path(struct scan *s, const char *part, size_t len)
{
    char old[sizeof s->err->field];
    const char *dot;

    if (s->err == NULL) {
        return;
    }
    memcpy(old, s->err->field, sizeof old);
    dot = old[0] != '\0' && old[0] != '[' ? "." : "";
    (void)snprintf(s->err->field, sizeof s->err->field, "%.*s%s%.*s", (int)RON_MIN(len, (size_t)40),
                   part, dot, (int)sizeof old / 2, old);
}

__attribute__((cold)) static enum ron_rc fail_field(struct scan *s, const char *name, size_t len,
                                                    const char *reason)
{
    enum ron_rc rc = fail(s, reason);

    prefix_path(s, name, len);
    return rc;
}

/* ---- lexical --------------------------------------------------------------------------------- */

static inline void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')) {
        s->p++;
    }
}

static inline bool take(struct scan *s, char c)
{
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

size_t ron_utf8_len(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t left = (size_t)(end - p);

    if (left == 0) {
        return 0;
    }
    if (u[0] < 0x80) {
        return 1;
    }
    if (u[0] >= 0xc2 && u[0] <= 0xdf) {
        return left >= 2 && (u[1] & 0xc0) == 0x80 ? 2 : 0;
    }
    if (u[0] >= 0xe0 && u[0] <= 0xef) {
        /* No overlong form below U+0800, no surrogates. */
        bool second = left >= 3 && (u[1] & 0xc0) == 0x80 && !(u[0] == 0xe0 && u[1] < 0xa0) &&
                      !(u[0] == 0xed && u[1] > 0x9f);
        return second && (u[2] & 0xc0) == 0x80 ? 3 : 0;
    }
    if (u[0] >= 0xf0 && u[0] <= 0xf4) {
        bool second = left >= 4 && (u[1] & 0xc0) == 0x80 && !(u[0] == 0xf0 && u[1] < 0x90) &&
                      !(u[0] == 0xf4 && u[1] > 0x8f);
        return second && (u[2] & 0xc0) == 0x80 && (u[3] & 0xc0) == 0x80 ? 4 : 0;
    }
    return 0;
}

/* Four hex digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;

    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int d = ron_hex_digit(p[i]);
        if (d < 0) {
            return -1;
        }
        v = v << 4 | d;
    }
    return v;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* A \uXXXX at p (behind the u), perhaps with its second half. Returns the new p, NULL when
 * malformed. */
static const char *read_unicode(const char *p, const char *end, uint32_t *ret_char)
{
    int32_t high = hex4(p, end);
    int32_t low;

    if (high < 0 || (high >= 0xdc00 && high <= 0xdfff)) {
        return NULL;
    }
    p += 4;
    if (high < 0xd800 || high > 0xdbff) {
        *ret_char = (uint32_t)high;
        return p;
    }
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') {
        return NULL;
    }
    low = hex4(p + 2, end);
    if (low < 0xdc00 || low > 0xdfff) {
        return NULL;
    }
    *ret_char = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return p + 6;
}

/* One escape at p (behind the backslash), written to *to. Returns the new p, NULL when
 * malformed. */
static const char *read_escape(const char *p, const char *end, char **to)
{
    static const char from[] = "\"\\/bfnrt";
    static const char into[] = "\"\\/\b\f\n\r\t";
    const char *at;
    uint32_t c;

    if (p == end || *p == '\0') {
        return NULL;
    }
    if (*p == 'u') {
        p = read_unicode(p + 1, end, &c);
        if (p != NULL) {
            *to = put_utf8(*to, c);
        }
        return p;
    }
    at = strchr(from, *p);
    if (at == NULL) {
        return NULL;
    }
    *(*to)++ = into[at - from];
    return p + 1;
}

/* From the first special byte on: resolves escapes in place (I1), checks UTF-8. Kept text is only
 * checked, and the slice is what stands between the quotes. */
static enum ron_rc scan_string_slow(struct scan *s, const char *begin, struct ron_str *ret)
{
    char scratch[4];
    char *to = s->writable != NULL ? s->writable + (s->p - s->start) : scratch;

    for (;;) {
        if (s->writable == NULL) {
            to = scratch;
        }
        if (s->p == s->end) {
            return fail(s, "the string has no end");
        }
        if (*s->p == '"') {
            const char *stop = s->writable != NULL ? to : s->p;
            *ret = (struct ron_str){begin, (size_t)(stop - begin)};
            s->p++;
            return RON_OK;
        }
        if (*s->p == '\\') {
            const char *next = read_escape(s->p + 1, s->end, &to);
            if (next == NULL) {
                return fail(s, "malformed escape");
            }
            s->p = next;
        } else if ((unsigned char)*s->p < 0x20) {
            return fail(s, "control character in a string");
        } else {
            size_t n = ron_utf8_len(s->p, s->end);
            if (n == 0) {
                return fail(s, "not UTF-8");
            }
            memmove(to, s->p, n);
            to += n;
            s->p += n;
        }
    }
}

/* At the opening quote. */
static inline enum ron_rc scan_string(struct scan *s, struct ron_str *ret)
{
    const char *begin;

    if (!take(s, '"')) {
        return fail(s, "a string is expected");
    }
    begin = s->p;
    s->p = ron__json_plain_end(s->p, s->end);
    if (s->p < s->end && *s->p == '"') {
        *ret = (struct ron_str){begin, (size_t)(s->p - begin)};
        s->p++;
        return RON_OK;
    }
    return scan_string_slow(s, begin, ret);
}

static bool digit(const struct scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

/* Any JSON number; ret_whole tells that it has neither fraction nor exponent. */
static enum ron_rc scan_number(struct scan *s, struct ron_str *ret, bool *ret_whole)
{
    const char *begin = s->p;

    *ret_whole = true;
    (void)take(s, '-');
    if (!digit(s)) {
        return fail(s, "a value is expected");
    }
    if (*s->p == '0') {
        s->p++;
    } else {
        while (digit(s)) {
            s->p++;
        }
    }
    if (digit(s)) {
        return fail(s, "a number has no leading zero");
    }
    if (take(s, '.')) {
        *ret_whole = false;
        if (!digit(s)) {
            return fail(s, "a fraction needs digits");
        }
        while (digit(s)) {
            s->p++;
        }
    }
    if (take(s, 'e') || take(s, 'E')) {
        *ret_whole = false;
        if (!take(s, '+')) {
            (void)take(s, '-');
        }
        if (!digit(s)) {
            return fail(s, "an exponent needs digits");
        }
        while (digit(s)) {
            s->p++;
        }
    }
    *ret = (struct ron_str){begin, (size_t)(s->p - begin)};
    return RON_OK;
}

static bool take_word(struct scan *s, const char *word, size_t len)
{
    if ((size_t)(s->end - s->p) >= len && memcmp(s->p, word, len) == 0) {
        s->p += len;
        return true;
    }
    return false;
}

/* ---- any value ------------------------------------------------------------------------------- */

static enum ron_rc skip_value(struct scan *s);

static enum ron_rc skip_members(struct scan *s, char close, bool named)
{
    if (++s->depth > RON_JSON_DEPTH_MAX) {
        return fail(s, "nested too deep");
    }
    s->p++;
    skip_space(s);
    if (take(s, close)) {
        s->depth--;
        return RON_OK;
    }
    for (;;) {
        if (named) {
            struct ron_str name;
            RON_TRY(scan_string(s, &name));
            skip_space(s);
            if (!take(s, ':')) {
                return fail(s, "':' is expected");
            }
        }
        RON_TRY(skip_value(s));
        if (take(s, close)) {
            s->depth--;
            return RON_OK;
        }
        if (!take(s, ',')) {
            return fail(s, named ? "',' or '}' is expected" : "',' or ']' is expected");
        }
        skip_space(s);
    }
}

/* Leaves p behind the value and the space after it. */
static enum ron_rc skip_value(struct scan *s)
{
    struct ron_str ignored;
    bool whole;
    enum ron_rc rc;

    skip_space(s);
    if (s->p == s->end) {
        return fail(s, "the text ends too early");
    }
    switch (*s->p) {
    case '"':
        rc = scan_string(s, &ignored);
        break;
    case '{':
        rc = skip_members(s, '}', true);
        break;
    case '[':
        rc = skip_members(s, ']', false);
        break;
    case 't':
        rc = take_word(s, "true", 4) ? RON_OK : fail(s, "a value is expected");
        break;
    case 'f':
        rc = take_word(s, "false", 5) ? RON_OK : fail(s, "a value is expected");
        break;
    case 'n':
        rc = take_word(s, "null", 4) ? RON_OK : fail(s, "a value is expected");
        break;
    default:
        rc = scan_number(s, &ignored, &whole);
        break;
    }
    if (rc == RON_OK) {
        skip_space(s);
    }
    return rc;
}

/* ---- typed values ---------------------------------------------------------------------------- */

static enum ron_rc scan_object(struct scan *s, const struct ron_json_shape *shape, char *out);

static enum ron_rc scan_u64(struct scan *s, uint64_t *ret)
{
    struct ron_str text;
    bool whole;
    uint64_t v = 0;

    RON_TRY(scan_number(s, &text, &whole));
    if (!whole || text.ptr[0] == '-') {
        return fail(s, "a whole number, not negative, is expected");
    }
    for (size_t i = 0; i < text.len; i++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(text.ptr[i] - '0'), &v)) {
            return fail(s, "the number is too large");
        }
    }
    *ret = v;
    return RON_OK;
}

static enum ron_rc scan_i64(struct scan *s, int64_t *ret)
{
    bool negative = s->p < s->end && *s->p == '-';
    uint64_t v;

    s->p += negative;
    RON_TRY(scan_u64(s, &v));
    if (v > (uint64_t)INT64_MAX + negative) {
        return fail(s, "the number is too large");
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return RON_OK;
}

static enum ron_rc scan_money(struct scan *s, struct ron_money *ret)
{
    struct ron_str text;

    if (s->p < s->end && *s->p != '"') {
        return fail(s, "an amount is a decimal string, not a number");
    }
    RON_TRY(scan_string(s, &text));
    if (ron_money_parse(text.ptr, text.len, ret, NULL) != RON_OK) {
        return fail(s, "an amount is 0 or digits without leading zero, below 2^128");
    }
    return RON_OK;
}

static enum ron_rc scan_bool(struct scan *s, bool *ret)
{
    if (take_word(s, "true", 4)) {
        *ret = true;
    } else if (take_word(s, "false", 5)) {
        *ret = false;
    } else {
        return fail(s, "true or false is expected");
    }
    return RON_OK;
}

/* One item of an array of structs or strings. */
static enum ron_rc scan_item(struct scan *s, const struct ron_json_field *f, char *to)
{
    if (f->type == RON_JSON_STRINGS) {
        struct ron_str text = {0};
        RON_TRY(scan_string(s, &text));
        memcpy(to, &text, sizeof text);
        return RON_OK;
    }
    return scan_object(s, f->shape, to);
}

static enum ron_rc scan_array(struct scan *s, const struct ron_json_field *f,
                              struct ron_json_items *ret)
{
    size_t size = f->type == RON_JSON_STRINGS ? sizeof(struct ron_str) : f->item_size;
    char *items;
    size_t count = 0;

    RON_ASSERT(s->arena != NULL && f->max > 0);
    if (!take(s, '[')) {
        return fail(s, "an array is expected");
    }
    skip_space(s);
    items = ron_arena_alloc_array(s->arena, 0, size, _Alignof(max_align_t));
    if (items == NULL) {
        (void)fail(s, "too many items");
        return RON_LIMIT;
    }
    for (bool first = true; !take(s, ']'); first = false) {
        char index[24];
        enum ron_rc rc;

        if (!first) {
            if (!take(s, ',')) {
                return fail(s, "',' or ']' is expected");
            }
            skip_space(s);
        }
        /* Items lie one after the other because nothing else is taken from the arena while they are
         * read: a shape inside an array may not itself hold an array. */
        if (count == f->max || ron_arena_alloc(s->arena, size, 1) == NULL) {
            (void)fail(s, "too many items");
            return RON_LIMIT;
        }
        memset(items + count * size, 0, size);
        rc = scan_item(s, f, items + count * size);
        if (rc != RON_OK) {
            int n = snprintf(index, sizeof index, "[%zu]", count);
            prefix_path(s, index, (size_t)n);
            return rc;
        }
        count++;
        skip_space(s);
    }
    *ret = (struct ron_json_items){items, count};
    return RON_OK;
}

/* Any value, kept as it stands: escapes inside are checked, not resolved. */
static enum ron_rc scan_raw(struct scan *s, struct ron_str *ret)
{
    const char *begin = s->p;
    char *writable = s->writable;
    const char *stop;
    enum ron_rc rc;

    s->writable = NULL;
    rc = skip_value(s);
    s->writable = writable;
    if (rc != RON_OK) {
        return rc;
    }
    stop = s->p;
    while (stop > begin &&
           (stop[-1] == ' ' || stop[-1] == '\n' || stop[-1] == '\r' || stop[-1] == '\t')) {
        stop--; /* skip_value has passed the space behind the value. */
    }
    *ret = (struct ron_str){begin, (size_t)(stop - begin)};
    return RON_OK;
}

static enum ron_rc scan_limited_string(struct scan *s, const struct ron_json_field *f,
                                       struct ron_str *ret)
{
    RON_TRY(scan_string(s, ret));
    return f->max != 0 && ret->len > f->max ? fail(s, "the text is too long") : RON_OK;
}

static enum ron_rc scan_limited_u64(struct scan *s, const struct ron_json_field *f, uint64_t *ret)
{
    RON_TRY(scan_u64(s, ret));
    return f->max != 0 && *ret > f->max ? fail(s, "the number is too large") : RON_OK;
}

/* Writes the value of one field into the struct at `out`. */
static enum ron_rc scan_field(struct scan *s, const struct ron_json_field *f, char *out)
{
    void *to = out + f->offset;

    switch (f->type) {
    case RON_JSON_STRING:
        return scan_limited_string(s, f, to);
    case RON_JSON_MONEY:
        return scan_money(s, to);
    case RON_JSON_U64:
        return scan_limited_u64(s, f, to);
    case RON_JSON_I64:
        return scan_i64(s, to);
    case RON_JSON_BOOL:
        return scan_bool(s, to);
    case RON_JSON_OBJECT:
        return scan_object(s, f->shape, to);
    case RON_JSON_ARRAY:
    case RON_JSON_STRINGS:
        return scan_array(s, f, to);
    case RON_JSON_RAW:
        return scan_raw(s, to);
    }
    RON_UNREACHABLE();
}

/* The field of that name, looked for from `hint` on: members mostly come in the order of the
 * table. */
static const struct ron_json_field *find_field(const struct ron_json_shape *shape,
                                               struct ron_str name, size_t hint)
{
    for (size_t i = 0; i < shape->count; i++) {
        size_t at = hint + i < shape->count ? hint + i : hint + i - shape->count;
        const struct ron_json_field *f = &shape->fields[at];

        if (f->name_len == name.len && memcmp(f->name, name.ptr, name.len) == 0) {
            return f;
        }
    }
    return NULL;
}

/* One member behind its name and colon. */
static enum ron_rc scan_member(struct scan *s, const struct ron_json_shape *shape,
                               struct ron_str name, char *out, size_t *hint, uint64_t *seen,
                               uint64_t *present)
{
    const struct ron_json_field *f = find_field(shape, name, *hint);
    uint64_t bit;
    enum ron_rc rc;

    skip_space(s);
    if (f == NULL) {
        return shape->allow_unknown ? skip_value(s)
                                    : fail_field(s, name.ptr, name.len, "unknown member");
    }
    *hint = (size_t)(f - shape->fields) + 1;
    bit = UINT64_C(1) << (f - shape->fields);
    if ((*seen & bit) != 0) {
        return fail_field(s, f->name, f->name_len, "the member stands twice");
    }
    *seen |= bit;
    if (f->nullable && take_word(s, "null", 4)) {
        return RON_OK;
    }
    *present |= bit;
    rc = scan_field(s, f, out);
    if (rc != RON_OK) {
        prefix_path(s, f->name, f->name_len);
    }
    return rc;
}

static enum ron_rc check_required(struct scan *s, const struct ron_json_shape *shape,
                                  uint64_t present)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct ron_json_field *f = &shape->fields[i];
        if (f->required && (present >> i & 1) == 0) {
            return fail_field(s, f->name, f->name_len, "the member is missing");
        }
    }
    return RON_OK;
}

static enum ron_rc scan_members(struct scan *s, const struct ron_json_shape *shape, char *out,
                                uint64_t *present)
{
    size_t hint = 0;
    uint64_t seen = 0; /* Also those that were null, which do not count as present. */

    for (bool first = true; !take(s, '}'); first = false) {
        struct ron_str name = {"", 0}; /* the analyser loses sight of it in scan_string */

        if (!first) {
            if (!take(s, ',')) {
                return fail(s, "',' or '}' is expected");
            }
            skip_space(s);
        }
        RON_TRY(scan_string(s, &name));
        skip_space(s);
        if (!take(s, ':')) {
            return fail(s, "':' is expected");
        }
        RON_TRY(scan_member(s, shape, name, out, &hint, &seen, present));
        skip_space(s);
    }
    return RON_OK;
}

static enum ron_rc scan_object(struct scan *s, const struct ron_json_shape *shape, char *out)
{
    uint64_t present = 0;

    RON_ASSERT(shape->count <= RON_JSON_FIELDS_MAX);
    if (++s->depth > RON_JSON_DEPTH_MAX) {
        return fail(s, "nested too deep");
    }
    if (!take(s, '{')) {
        return fail(s, "an object is expected");
    }
    skip_space(s);
    RON_TRY(scan_members(s, shape, out, &present));
    s->depth--;
    memcpy(out + shape->present_offset, &present, sizeof present);
    return check_required(s, shape, present);
}

/* ---- the two entries ------------------------------------------------------------------------- */

static enum ron_rc expect_end(struct scan *s)
{
    skip_space(s);
    return s->p == s->end ? RON_OK : fail(s, "something follows the value");
}

enum ron_rc ron_json_scan(char *text, size_t len, const struct ron_json_shape *shape,
                          struct ron_arena *arena, void *out, struct ron_json_error *err)
{
    struct scan s = {
        .start = text, .p = text, .end = text + len, .writable = text, .arena = arena, .err = err};

    skip_space(&s);
    RON_TRY(scan_object(&s, shape, out));
    return expect_end(&s);
}

enum ron_rc ron_json_check(const char *text, size_t len, struct ron_json_error *err)
{
    struct scan s = {.start = text, .p = text, .end = text + len, .err = err};

    RON_TRY(skip_value(&s));
    return expect_end(&s);
}
