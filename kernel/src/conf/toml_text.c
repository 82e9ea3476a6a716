/* SPDX-License-Identifier: Apache-2.0 */
/* toml_text.c - characters, comments, keys and strings of TOML, and places in the text.
 *
 * Place: conf, under toml.c. The whole text is known to be UTF-8 before anything here runs, so only
 * control characters are looked for. A decoded string is built in p->scratch and then copied to the
 * arena with its exact length.
 *
 * Invariant S1: decoding never makes longer: every escape is at least as long as what it stands
 * for, so scratch (as long as the text) is always enough. */
#include "conf/toml_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/json.h"

/* ---- places ---------------------------------------------------------------------------------- */

/* Longer names keep their end, which tells more, and leave room for the reason. */
enum { NAME_SHOWN_MAX = 72 };

void ron_toml_position(const char *text, size_t len, size_t offset, uint32_t *ret_line,
                       uint32_t *ret_column)
{
    uint32_t line = 1;
    uint32_t column = 1;

    for (size_t i = 0; i < offset && i < len; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if (((uint8_t)text[i] & 0xc0) != 0x80) { /* not the second byte of a character */
            column++;
        }
    }
    *ret_line = line;
    *ret_column = column;
}

enum ron_rc conf_fail_at(const struct conf_text *src, const char *at, struct ron_err *err,
                         const char *fmt, ...)
{
    size_t name_len = strlen(src->name);
    bool cut = name_len > NAME_SHOWN_MAX;
    uint32_t line = 0;
    uint32_t column = 0;
    va_list args;

    va_start(args, fmt);
    enum ron_rc rc = ron_err_vset_at(err, "ron_toml_parse", RON_INVALID, 0, fmt, args);
    va_end(args);
    RON_ASSERT(at >= src->bytes);
    ron_toml_position(src->bytes, src->len, (size_t)(at - src->bytes), &line, &column);
    ron_err_prefix(err, "%s%s:%u:%u", cut ? "..." : "",
                   cut ? src->name + name_len - NAME_SHOWN_MAX : src->name, line, column);
    return rc;
}

enum ron_rc toml_nomem(struct toml_parser *p)
{
    return ron_err_set(p->err, RON_NOMEM, "%s: no memory for the document", p->src.name);
}

/* ---- characters ------------------------------------------------------------------------------ */

size_t ron_toml_utf8_prefix(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t n = ron_utf8_len(text + at, text + len);

        if (n == 0) {
            break;
        }
        at += n;
    }
    return at;
}

static uint32_t decode(const char *at, size_t len)
{
    const uint8_t *b = (const uint8_t *)at;
    size_t n = ron_utf8_len(at, at + len);
    uint32_t point = n < 2 ? b[0] : b[0] & (0x7fU >> n);

    for (size_t i = 1; i < n; i++) {
        point = (point << 6) | (b[i] & 0x3fU);
    }
    return point;
}

const char *toml_shown(const struct toml_parser *p, char out[TOML_SHOWN_SIZE])
{
    if (p->at == p->end) {
        return "end of file";
    }
    if (*p->at == '\n' || (*p->at == '\r' && p->end - p->at > 1 && p->at[1] == '\n')) {
        return "end of line";
    }
    if (*p->at > ' ' && *p->at < 0x7f) {
        (void)snprintf(out, TOML_SHOWN_SIZE, "'%c'", *p->at);
    } else {
        (void)snprintf(out, TOML_SHOWN_SIZE, "U+%04X", decode(p->at, (size_t)(p->end - p->at)));
    }
    return out;
}

static bool is_control(char c)
{
    return ((uint8_t)c < 0x20 && c != '\t') || c == 0x7f;
}

static enum ron_rc fail_control(struct toml_parser *p, const char *in)
{
    char shown[TOML_SHOWN_SIZE];

    return toml_fail(p, p->at, "the control character %s may not stand in %s", toml_shown(p, shown),
                     in);
}

void toml_skip_blank(struct toml_parser *p)
{
    while (toml_at(p, ' ') || toml_at(p, '\t')) {
        p->at++;
    }
}

/* Takes LF or CRLF. */
static bool take_newline(struct toml_parser *p)
{
    if (toml_at(p, '\r') && p->end - p->at > 1 && p->at[1] == '\n') {
        p->at++;
    }
    return toml_take(p, '\n');
}

static enum ron_rc skip_comment(struct toml_parser *p)
{
    if (!toml_at(p, '#')) {
        return RON_OK;
    }
    while (p->at < p->end && *p->at != '\n') {
        if (*p->at == '\r' && p->end - p->at > 1 && p->at[1] == '\n') {
            break;
        }
        if (is_control(*p->at)) {
            return fail_control(p, "a comment");
        }
        p->at++;
    }
    return RON_OK;
}

enum ron_rc toml_skip_lines(struct toml_parser *p)
{
    do {
        toml_skip_blank(p);
        RON_TRY(skip_comment(p));
    } while (take_newline(p));
    return RON_OK;
}

enum ron_rc toml_end_line(struct toml_parser *p)
{
    char shown[TOML_SHOWN_SIZE];

    toml_skip_blank(p);
    RON_TRY(skip_comment(p));
    if (p->at == p->end || take_newline(p)) {
        return RON_OK;
    }
    return toml_fail(p, p->at, "%s after the end of the entry; each has a line of its own",
                     toml_shown(p, shown));
}

/* ---- strings --------------------------------------------------------------------------------- */

static size_t encode(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)((0xf00U >> n) | point);
    return n;
}

/* The part of an escape behind \u or \U. */
static enum ron_rc read_point(struct toml_parser *p, const char *start, int digits, size_t *out_len)
{
    uint32_t point = 0;

    for (int i = 0; i < digits; i++, p->at++) {
        int digit = p->at < p->end ? ron_hex_digit(*p->at) : -1;

        if (digit < 0) {
            return toml_fail(p, start, "\\%c needs %d hexadecimal digits", digits == 4 ? 'u' : 'U',
                             digits);
        }
        point = (point << 4) | (uint32_t)digit;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
        return toml_fail(p, start, "U+%04X is no Unicode scalar value", point);
    }
    *out_len += encode(point, p->scratch + *out_len);
    return RON_OK;
}

/* A backslash at the end of a line: everything blank up to the next text goes. False when more than
 * blanks follow on the line. */
static bool skip_continuation(struct toml_parser *p)
{
    const char *start = p->at;

    toml_skip_blank(p);
    if (!take_newline(p)) {
        p->at = start;
        return false;
    }
    do {
        toml_skip_blank(p);
    } while (take_newline(p));
    return true;
}

static enum ron_rc read_escape(struct toml_parser *p, bool multi, size_t *out_len)
{
    static const char names[] = "btnfr\"\\";
    static const char means[] = "\b\t\n\f\r\"\\";
    const char *start = p->at++;

    if (multi && skip_continuation(p)) {
        return RON_OK;
    }
    char c = (char)(p->at < p->end ? *p->at : '\0');
    const char *known = c == '\0' ? NULL : strchr(names, c);

    if (known != NULL) {
        p->scratch[(*out_len)++] = means[known - names];
        p->at++;
        return RON_OK;
    }
    if (c == 'u' || c == 'U') {
        p->at++;
        return read_point(p, start, c == 'u' ? 4 : 8, out_len);
    }
    return toml_fail(p, start,
                     "unknown escape; known are \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX "
                     "\\UXXXXXXXX");
}

/* Takes the quotes at p->at inside a string of several lines. Three end it, and up to two more
 * right before those belong to the content. Returns whether it ended. */
static bool take_quotes(struct toml_parser *p, char quote, size_t *out_len)
{
    size_t run = 0;

    while (run < 5 && toml_take(p, quote)) {
        run++;
    }
    bool ends = run >= 3;

    for (size_t i = ends ? 3 : 0; i < run; i++) {
        p->scratch[(*out_len)++] = quote;
    }
    return ends;
}

/* The content up to and with the closing mark. */
static enum ron_rc read_content(struct toml_parser *p, const char *start, char quote, bool multi,
                                size_t *out_len)
{
    for (;;) {
        if (p->at == p->end) {
            return toml_fail(p, start, "the string has no end");
        }
        char c = *p->at;

        if (c == quote) {
            if (!multi) {
                p->at++;
                return RON_OK;
            }
            if (take_quotes(p, quote, out_len)) {
                return RON_OK;
            }
        } else if (c == '\\' && quote == '"') {
            RON_TRY(read_escape(p, multi, out_len));
        } else if (multi && take_newline(p)) {
            p->scratch[(*out_len)++] = '\n';
        } else if (c == '\n') {
            return toml_fail(p, start, "the string has no end on its line");
        } else if (is_control(c)) {
            return fail_control(p, "a string; write it as an escape");
        } else {
            p->scratch[(*out_len)++] = c;
            p->at++;
        }
    }
}

static bool take_triple(struct toml_parser *p, char quote)
{
    if (p->end - p->at < 3 || p->at[0] != quote || p->at[1] != quote || p->at[2] != quote) {
        return false;
    }
    p->at += 3;
    return true;
}

/* A string in either quotes; `multi_ok` where several lines are allowed, which keys are not. */
static enum ron_rc read_quoted(struct toml_parser *p, bool multi_ok, const char **ret_text,
                               size_t *ret_len)
{
    const char *start = p->at;
    char quote = *start;
    bool multi = multi_ok && take_triple(p, quote);
    size_t len = 0;

    if (multi) {
        (void)take_newline(p); /* right behind the opening mark it is no content */
    } else {
        p->at++;
    }
    RON_TRY(read_content(p, start, quote, multi, &len));
    const char *text = ron_arena_dup(p->arena, p->scratch, len);

    if (text == NULL) {
        return toml_nomem(p);
    }
    *ret_text = text;
    *ret_len = len;
    return RON_OK;
}

enum ron_rc toml_read_string(struct toml_parser *p, struct ron_toml_value *v)
{
    const char *text = NULL;
    size_t len = 0;

    RON_TRY(read_quoted(p, true, &text, &len));
    v->type = RON_TOML_STRING;
    v->string.text = text;
    v->string.len = len;
    return RON_OK;
}

static bool is_bare(char c)
{
    char lower = (char)(c | 0x20);

    return (lower >= 'a' && lower <= 'z') || toml_is_digit(c) || c == '_' || c == '-';
}

enum ron_rc toml_read_key(struct toml_parser *p, struct toml_key *ret_key)
{
    struct toml_key key = {.at = p->at};
    char shown[TOML_SHOWN_SIZE];

    if (toml_at(p, '"') || toml_at(p, '\'')) {
        RON_TRY(read_quoted(p, false, &key.text, &key.len));
    } else {
        while (p->at < p->end && is_bare(*p->at)) {
            p->at++;
        }
        key.len = (size_t)(p->at - key.at);
        if (key.len == 0) {
            return toml_fail(p, p->at, "%s where a key should stand", toml_shown(p, shown));
        }
        key.text = ron_arena_dup(p->arena, key.at, key.len);
        if (key.text == NULL) {
            return toml_nomem(p);
        }
    }
    *ret_key = key;
    return RON_OK;
}
