/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/pointer.c - walks over checked JSON, and exact decimals. The contract is in
 * pointer.h.
 *
 * Walks lean on P1 for their shape; each still looks at `end` before it reads. */
#include "interop/provider/pointer.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/hex.h"

bool iop_doc_init(struct iop_doc *doc, const void *bytes, size_t len)
{
    bool good = len > 0 && ron_json_check(bytes, len, NULL) == RON_OK;

    doc->text = good ? (struct ron_str){bytes, len} : (struct ron_str){"", 0};
    return good;
}

enum ron_rc iop_pointer_check(const char *text, struct ron_err *err)
{
    size_t len = strlen(text);
    size_t steps = 0;

    if (len >= IOP_POINTER_MAX) {
        return ron_err_set(err, RON_INVALID, "JSON pointer too long (limit %d bytes)",
                           (int)IOP_POINTER_MAX);
    }
    if (len > 0 && text[0] != '/') {
        return ron_err_set(err, RON_INVALID, "JSON pointer must start with '/'");
    }
    for (size_t i = 0; i < len; i++) {
        steps += text[i] == '/';
        if (text[i] == '~' && text[i + 1] != '0' && text[i + 1] != '1') {
            return ron_err_set(err, RON_INVALID, "'~' in a JSON pointer must be written ~0 or ~1");
        }
    }
    if (steps > IOP_POINTER_DEPTH) {
        return ron_err_set(err, RON_INVALID, "too many steps in the JSON pointer (limit %d)",
                           (int)IOP_POINTER_DEPTH);
    }
    return RON_OK;
}

/* ---- strings, escapes resolved byte by byte -------------------------------------------------- */

struct reader {
    const char *p;
    const char *end;
    uint8_t waiting[4]; /* bytes of a resolved escape that are still to be given */
    uint32_t at;
    uint32_t count;
};

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++) {
        v = v << 4 | (uint32_t)ron_hex_digit(p[i]); /* the scanner has checked it */
    }
    return v;
}

static void put_utf8(struct reader *r, uint32_t c)
{
    r->at = 0;
    if (c < 0x80) {
        r->waiting[0] = (uint8_t)c;
        r->count = 1;
    } else if (c < 0x800) {
        r->waiting[0] = (uint8_t)(0xc0 | c >> 6);
        r->waiting[1] = (uint8_t)(0x80 | (c & 0x3f));
        r->count = 2;
    } else if (c < 0x10000) {
        r->waiting[0] = (uint8_t)(0xe0 | c >> 12);
        r->waiting[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        r->waiting[2] = (uint8_t)(0x80 | (c & 0x3f));
        r->count = 3;
    } else {
        r->waiting[0] = (uint8_t)(0xf0 | c >> 18);
        r->waiting[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        r->waiting[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        r->waiting[3] = (uint8_t)(0x80 | (c & 0x3f));
        r->count = 4;
    }
}

/* p stands behind a backslash; there is at least one byte. */
static void resolve(struct reader *r)
{
    char c = *r->p++;
    uint32_t code;

    switch (c) {
    case 'b':
        put_utf8(r, '\b');
        return;
    case 'f':
        put_utf8(r, '\f');
        return;
    case 'n':
        put_utf8(r, '\n');
        return;
    case 'r':
        put_utf8(r, '\r');
        return;
    case 't':
        put_utf8(r, '\t');
        return;
    case 'u':
        if (r->end - r->p < 4) {
            r->p = r->end;
            return;
        }
        code = hex4(r->p);
        r->p += 4;
        if (code >= 0xd800 && code < 0xdc00 && r->end - r->p >= 6) {
            code = 0x10000 + ((code - 0xd800) << 10) + (hex4(r->p + 2) - 0xdc00);
            r->p += 6;
        }
        put_utf8(r, code);
        return;
    default: /* quote, backslash, slash */
        put_utf8(r, (uint8_t)c);
        return;
    }
}

/* The next byte, or -1 at the end. */
static int next_byte(struct reader *r)
{
    RON_ASSERT(r->count <= sizeof r->waiting);
    if (r->at < r->count) {
        return r->waiting[r->at++];
    }
    if (r->p >= r->end) {
        return -1;
    }
    if (*r->p == '\\' && r->end - r->p >= 2) {
        r->p++;
        resolve(r);
        return r->at < r->count ? r->waiting[r->at++] : -1;
    }
    return (uint8_t)*r->p++;
}

static struct reader reader_of(struct ron_str raw)
{
    return (struct reader){.p = raw.ptr, .end = raw.ptr + raw.len};
}

/* ---- the walk -------------------------------------------------------------------------------- */

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    return p;
}

/* p stands on the opening quote; the result behind the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    p++;
    while (p < end && *p != '"') {
        p += *p == '\\' ? 2 : 1;
    }
    return p < end ? p + 1 : end;
}

static bool ends_word(char c)
{
    return c == ',' || c == ':' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' ||
           c == '\t';
}

/* Behind the value that begins at p. */
static const char *skip_value(const char *p, const char *end)
{
    size_t depth = 0;

    do {
        if (p >= end) {
            return end;
        }
        switch (*p) {
        case '"':
            p = skip_string(p, end);
            break;
        case '{':
        case '[':
            depth++;
            p++;
            break;
        case '}':
        case ']':
            depth--;
            p++;
            break;
        case ',':
        case ':':
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            p++;
            break;
        default: /* a number or a word */
            do {
                p++;
            } while (p < end && !ends_word(*p));
            break;
        }
    } while (depth > 0);
    return p;
}

/* Whether a member's name is the step at `step`, whose '~' are still written as such. */
static bool name_is(struct ron_str name, const char *step, size_t len)
{
    struct reader r = reader_of(name);

    for (size_t i = 0; i < len; i++) {
        char c = step[i];

        if (c == '~') {
            c = step[++i] == '0' ? '~' : '/';
        }
        if (next_byte(&r) != (uint8_t)c) {
            return false;
        }
    }
    return next_byte(&r) < 0;
}

/* p stands on '{'. `ret_at` is the beginning of the member's value. */
static enum iop_found find_member(const char *p, const char *end, const char *step, size_t len,
                                  const char **ret_at)
{
    enum iop_found found = IOP_MISSING;

    p = skip_space(p + 1, end);
    while (p < end && *p == '"') {
        const char *name = p + 1;
        const char *value;

        p = skip_string(p, end);
        value = skip_space(skip_space(p, end) + 1, end);
        if (value > end) {
            break;
        }
        if (name_is((struct ron_str){name, (size_t)(p - 1 - name)}, step, len)) {
            if (found == IOP_FOUND) {
                return IOP_TWICE;
            }
            found = IOP_FOUND;
            *ret_at = value;
        }
        p = skip_space(skip_value(value, end), end);
        if (p < end && *p == ',') {
            p = skip_space(p + 1, end);
        }
    }
    return found;
}

/* An index is "0" or digits without leading zero. */
static bool read_index(const char *step, size_t len, size_t *ret_index)
{
    size_t v = 0;

    if (len == 0 || len > 9 || (step[0] == '0' && len > 1)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (step[i] < '0' || step[i] > '9') {
            return false;
        }
        v = v * 10 + (size_t)(step[i] - '0');
    }
    *ret_index = v;
    return true;
}

/* p stands on '['. */
static enum iop_found find_item(const char *p, const char *end, const char *step, size_t len,
                                const char **ret_at)
{
    size_t index;

    if (!read_index(step, len, &index)) {
        return IOP_MISSING;
    }
    p = skip_space(p + 1, end);
    while (p < end && *p != ']') {
        if (index-- == 0) {
            *ret_at = p;
            return IOP_FOUND;
        }
        p = skip_space(skip_value(p, end), end);
        if (p < end && *p == ',') {
            p = skip_space(p + 1, end);
        }
    }
    return IOP_MISSING;
}

static struct iop_value value_at(const char *p, const char *end)
{
    const char *stop = skip_value(p, end);
    struct iop_value v = {.raw = {p, (size_t)(stop - p)}};

    switch (*p) {
    case '"':
        v.kind = IOP_STRING;
        v.raw = (struct ron_str){p + 1, (size_t)(stop - p) - 2};
        break;
    case '{':
        v.kind = IOP_OBJECT;
        break;
    case '[':
        v.kind = IOP_ARRAY;
        break;
    case 't':
    case 'f':
        v.kind = IOP_BOOL;
        break;
    case 'n':
        v.kind = IOP_NULL;
        break;
    default:
        v.kind = IOP_NUMBER;
        break;
    }
    return v;
}

enum iop_found iop_pointer_find(const struct iop_doc *doc, const char *pointer,
                                struct iop_value *ret_value)
{
    const char *end = doc->text.ptr + doc->text.len;
    const char *p = skip_space(doc->text.ptr, end);

    if (p == end) {
        return IOP_MISSING;
    }
    while (*pointer == '/') {
        const char *step = pointer + 1;
        size_t len = strcspn(step, "/");
        enum iop_found found = IOP_MISSING;

        if (*p == '{') {
            found = find_member(p, end, step, len, &p);
        } else if (*p == '[') {
            found = find_item(p, end, step, len, &p);
        }
        if (found != IOP_FOUND) {
            return found;
        }
        RON_ASSERT(p < end); /* P1 */
        pointer = step + len;
    }
    *ret_value = value_at(p, end);
    return IOP_FOUND;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static bool is_scalar(const struct iop_value *value)
{
    return value->kind != IOP_OBJECT && value->kind != IOP_ARRAY;
}

/* Of a string the bytes behind its escapes, of others the text as it stands (it has no escapes). */
enum ron_rc iop_value_text(const struct iop_value *value, char *out, size_t size, size_t *ret_len)
{
    struct reader r = reader_of(value->raw);
    size_t len = 0;
    int c;

    if (!is_scalar(value)) {
        return RON_INVALID;
    }
    while ((c = next_byte(&r)) >= 0) {
        if (len == size) {
            return RON_LIMIT;
        }
        out[len++] = (char)c;
    }
    RON_ASSERT(len <= size);
    *ret_len = len;
    return RON_OK;
}

static bool begins(const struct iop_value *value, struct ron_str text, bool whole)
{
    struct reader r = reader_of(value->raw);

    if (!is_scalar(value)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (next_byte(&r) != (uint8_t)text.ptr[i]) {
            return false;
        }
    }
    return !whole || next_byte(&r) < 0;
}

bool iop_value_is(const struct iop_value *value, struct ron_str text)
{
    return begins(value, text, true);
}

bool iop_value_begins(const struct iop_value *value, struct ron_str text)
{
    return begins(value, text, false);
}

/* ---- decimals -------------------------------------------------------------------------------- */

static size_t digits(const char *p, const char *end)
{
    const char *begin = p;

    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    return (size_t)(p - begin);
}

bool iop_decimal_parse(struct ron_str text, struct iop_decimal *ret_decimal)
{
    const char *p = text.len > 0 ? text.ptr : "";
    const char *end = p + text.len;
    struct iop_decimal d = {.whole = {p, 0}, .part = {p, 0}};
    size_t len;

    if (p < end && *p == '-') {
        d.negative = true;
        p++;
    }
    len = digits(p, end);
    if (len == 0 || (*p == '0' && len > 1)) {
        return false;
    }
    d.whole = (struct ron_str){p, *p == '0' ? 0 : len};
    p += len;
    if (p < end && *p == '.') {
        p++;
        len = digits(p, end);
        if (len == 0) {
            return false;
        }
        d.part = (struct ron_str){p, len};
        p += len;
        while (d.part.len > 0 && d.part.ptr[d.part.len - 1] == '0') {
            d.part.len--;
        }
    }
    if (p != end) {
        return false;
    }
    d.negative = d.negative && d.whole.len + d.part.len > 0;
    *ret_decimal = d;
    return true;
}

static int compare_sizes(const struct iop_decimal *a, const struct iop_decimal *b)
{
    size_t common = RON_MIN(a->part.len, b->part.len);
    int c;

    if (a->whole.len != b->whole.len) {
        return a->whole.len < b->whole.len ? -1 : 1;
    }
    c = memcmp(a->whole.ptr, b->whole.ptr, a->whole.len);
    if (c == 0) {
        c = memcmp(a->part.ptr, b->part.ptr, common);
    }
    if (c == 0 && a->part.len != b->part.len) {
        return a->part.len < b->part.len ? -1 : 1; /* no zeros at the end: the longer is more */
    }
    return c < 0 ? -1 : c > 0;
}

int iop_decimal_compare(const struct iop_decimal *a, const struct iop_decimal *b)
{
    if (a->negative != b->negative) {
        return a->negative ? -1 : 1;
    }
    return a->negative ? -compare_sizes(a, b) : compare_sizes(a, b);
}

static enum ron_rc push_digit(struct ron_money *sum, char c)
{
    if (ron_money_mul_u64(*sum, 10, sum) != RON_MONEY_OK ||
        ron_money_add(*sum, ron_money_of((uint64_t)(c - '0')), sum) != RON_MONEY_OK) {
        return RON_LIMIT;
    }
    return RON_OK;
}

enum ron_rc iop_decimal_money(const struct iop_decimal *d, uint32_t scale,
                              struct ron_money *ret_money)
{
    struct ron_money sum = RON_MONEY_ZERO;

    if (d->negative || d->part.len > scale) {
        return RON_INVALID;
    }
    for (size_t i = 0; i < d->whole.len; i++) {
        RON_TRY(push_digit(&sum, d->whole.ptr[i]));
    }
    for (size_t i = 0; i < scale; i++) {
        RON_TRY(push_digit(&sum, i < d->part.len ? d->part.ptr[i] : '0'));
    }
    *ret_money = sum;
    return RON_OK;
}
