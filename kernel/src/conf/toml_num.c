/* SPDX-License-Identifier: Apache-2.0 */
/* toml_num.c - numbers, booleans and dates of TOML.
 *
 * Place: conf, under toml.c. A scalar is first cut out as the longest run of characters that any
 * scalar may hold; its shape then says what it is, and one strict reader per kind judges it whole.
 * So no reader has to know what may follow.
 *
 * Failure: messages name the rule and the place, never the characters (T3 of toml.h). */
#include "conf/toml_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/hex.h"
#include "ron/base/str.h"

struct token {
    const char *at;
    size_t len;
};

static bool token_is(const struct token *t, const char *word)
{
    return ron_str_is((struct ron_str){t->at, t->len}, word);
}

/* The character at i, or NUL behind the end. */
static char peek(const struct token *t, size_t i)
{
    return (char)(i < t->len ? t->at[i] : '\0');
}

static bool has_digits(const struct token *t, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++) {
        if (!toml_is_digit(peek(t, i))) {
            return false;
        }
    }
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int digit_value(char c)
{
    int digit = ron_hex_digit(c);

    return digit >= 0 ? digit : 99;
}

/* Skips digits of a base with single underscores between them. Returns where they end, or 0 when
 * there are none or an underscore does not stand between two digits. */
static size_t skip_digits(const struct token *t, size_t from, int base)
{
    size_t i = from;

    if (digit_value(peek(t, i)) >= base) {
        return 0;
    }
    while (digit_value(peek(t, i)) < base || peek(t, i) == '_') {
        if (peek(t, i) == '_' && digit_value(peek(t, i + 1)) >= base) {
            return 0;
        }
        i++;
    }
    return i;
}

/* Digits of a base, known to be well formed, as a number of 64 bits with a sign. */
static enum ron_rc read_integer(struct toml_parser *p, const struct token *t, size_t from, int base,
                                bool negative, struct ron_toml_value *v)
{
    int64_t number = 0;

    for (size_t i = from; i < t->len; i++) {
        int digit = digit_value(t->at[i]);

        if (t->at[i] == '_') {
            continue;
        }
        /* Down from zero, because there is one negative number more than positive ones. */
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_sub_overflow(number, digit, &number)) {
            return toml_fail(p, t->at, "the integer does not fit 64 bits");
        }
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, number, &number)) {
        return toml_fail(p, t->at, "the integer does not fit 64 bits");
    }
    v->type = RON_TOML_INTEGER;
    v->integer = number;
    return RON_OK;
}

/* A well-formed float. The program never calls setlocale, so strtod reads a point. */
static void read_float(struct toml_parser *p, const struct token *t, struct ron_toml_value *v)
{
    size_t len = 0;

    for (size_t i = 0; i < t->len; i++) {
        if (t->at[i] != '_') {
            p->scratch[len++] = t->at[i];
        }
    }
    p->scratch[len] = '\0';
    v->type = RON_TOML_FLOAT;
    v->real = strtod(p->scratch, NULL);
}

static enum ron_rc read_prefixed(struct toml_parser *p, const struct token *t,
                                 struct ron_toml_value *v)
{
    int base = t->at[1] == 'x' ? 16 : t->at[1] == 'o' ? 8 : 2;

    if (skip_digits(t, 2, base) != t->len) {
        return toml_fail(p, t->at, "malformed integer of base %d", base);
    }
    return read_integer(p, t, 2, base, false, v);
}

static bool has_base(char c)
{
    return c == 'x' || c == 'o' || c == 'b';
}

static enum ron_rc read_number(struct toml_parser *p, const struct token *t,
                               struct ron_toml_value *v)
{
    size_t sign = peek(t, 0) == '+' || peek(t, 0) == '-' ? 1 : 0;
    bool negative = peek(t, 0) == '-';
    struct token body = {.at = t->at + sign, .len = t->len - sign};

    if (token_is(&body, "inf") || token_is(&body, "nan")) {
        v->type = RON_TOML_FLOAT;
        v->real = body.at[0] == 'n' ? (double)NAN : (double)INFINITY;
        v->real = negative ? -v->real : v->real;
        return RON_OK;
    }
    if (sign == 0 && peek(t, 0) == '0' && has_base(peek(t, 1))) {
        return read_prefixed(p, t, v);
    }
    if (!toml_is_digit(peek(t, sign))) {
        return toml_fail(p, t->at, "no value of TOML begins like this; a text needs quotes");
    }
    size_t end = skip_digits(t, sign, 10);

    if (end == 0) {
        return toml_fail(p, t->at, "an underscore must stand between two digits");
    }
    if (peek(t, sign) == '0' && end > sign + 1) {
        return toml_fail(p, t->at, "a decimal number has no leading zeros");
    }
    if (end == t->len) {
        return read_integer(p, t, sign, 10, negative, v);
    }
    if (peek(t, end) == '.') {
        end = skip_digits(t, end + 1, 10);
    }
    if (end != 0 && (peek(t, end) | 0x20) == 'e') {
        end++;
        end += peek(t, end) == '+' || peek(t, end) == '-' ? 1 : 0;
        end = skip_digits(t, end, 10);
    }
    if (end != t->len) {
        return toml_fail(p, t->at, "malformed number; a text needs quotes");
    }
    read_float(p, t, v);
    return RON_OK;
}

/* ---- dates ----------------------------------------------------------------------------------- */

/* count digits at from as a number; -1 when one is missing. */
static int digits_at(const struct token *t, size_t from, size_t count)
{
    int number = 0;

    if (!has_digits(t, from, count)) {
        return -1;
    }
    for (size_t i = from; i < from + count; i++) {
        number = number * 10 + (t->at[i] - '0');
    }
    return number;
}

static int days_of(int year, int month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* "yyyy-mm-dd" at the beginning. */
static bool read_date(const struct token *t, struct ron_toml_time *time)
{
    int year = digits_at(t, 0, 4);
    int month = digits_at(t, 5, 2);
    int day = digits_at(t, 8, 2);

    if (year < 0 || peek(t, 4) != '-' || peek(t, 7) != '-' || month < 1 || month > 12 || day < 1 ||
        day > days_of(year, month)) {
        return false;
    }
    time->year = (int16_t)year;
    time->month = (int8_t)month;
    time->day = (int8_t)day;
    return true;
}

/* "hh:mm:ss" and an optional fraction at `from`. Returns where it ends, or 0. */
static size_t read_clock(const struct token *t, size_t from, struct ron_toml_time *time)
{
    int hour = digits_at(t, from, 2);
    int minute = digits_at(t, from + 3, 2);
    int second = digits_at(t, from + 6, 2);
    size_t i = from + 8;

    if (peek(t, from + 2) != ':' || peek(t, from + 5) != ':' || hour < 0 || hour > 23 ||
        minute < 0 || minute > 59 || second < 0 || second > 60) {
        return 0;
    }
    time->hour = (int8_t)hour;
    time->minute = (int8_t)minute;
    time->second = (int8_t)second;
    if (peek(t, i) == '.') {
        int32_t scale = 100000000;

        if (!toml_is_digit(peek(t, ++i))) {
            return 0;
        }
        for (; toml_is_digit(peek(t, i)); i++, scale /= 10) {
            time->nanos += (t->at[i] - '0') * scale; /* scale is 0 beyond nanoseconds */
        }
    }
    return i;
}

/* "Z" or "+hh:mm" at `from`, up to the end. */
static bool read_offset(const struct token *t, size_t from, struct ron_toml_time *time)
{
    char sign = peek(t, from);
    int hour = digits_at(t, from + 1, 2);
    int minute = digits_at(t, from + 4, 2);

    if ((sign | 0x20) == 'z') {
        return t->len == from + 1;
    }
    if ((sign != '+' && sign != '-') || t->len != from + 6 || peek(t, from + 3) != ':' ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59) {
        return false;
    }
    time->offset_min = (int16_t)(hour * 60 + minute);
    time->offset_min = (int16_t)(sign == '-' ? -time->offset_min : time->offset_min);
    return true;
}

static bool read_time(const struct token *t, struct ron_toml_value *v)
{
    struct ron_toml_time time = {0};
    bool good = true;

    if (peek(t, 2) == ':') {
        v->type = RON_TOML_LOCAL_TIME;
        good = read_clock(t, 0, &time) == t->len;
    } else if (!read_date(t, &time)) {
        good = false;
    } else if (t->len == 10) {
        v->type = RON_TOML_LOCAL_DATE;
    } else {
        bool parted = (peek(t, 10) | 0x20) == 't' || peek(t, 10) == ' ';
        size_t end = read_clock(t, 11, &time);

        v->type = end == t->len ? RON_TOML_LOCAL_DATETIME : RON_TOML_DATETIME;
        good = parted && end != 0 && (end == t->len || read_offset(t, end, &time));
    }
    v->time = time;
    return good;
}

/* ---- the door -------------------------------------------------------------------------------- */

static bool is_scalar_char(char c)
{
    char lower = (char)(c | 0x20);

    return (lower >= 'a' && lower <= 'z') || toml_is_digit(c) ||
           (c != '\0' && strchr("+-_.:", c) != NULL);
}

static struct token cut(struct toml_parser *p)
{
    struct token t = {.at = p->at};

    while (p->at < p->end && is_scalar_char(*p->at)) {
        p->at++;
    }
    t.len = (size_t)(p->at - t.at);
    /* A date and a time may be parted by one blank instead of a T. */
    if (t.len == 10 && has_digits(&t, 0, 4) && t.at[4] == '-' && p->end - p->at > 1 &&
        p->at[0] == ' ' && toml_is_digit(p->at[1])) {
        p->at++;
        while (p->at < p->end && is_scalar_char(*p->at)) {
            p->at++;
        }
        t.len = (size_t)(p->at - t.at);
    }
    return t;
}

enum ron_rc toml_read_scalar(struct toml_parser *p, struct ron_toml_value *v)
{
    struct token t = cut(p);
    char shown[TOML_SHOWN_SIZE];

    if (t.len == 0) {
        return toml_fail(p, p->at, "%s where a value should stand", toml_shown(p, shown));
    }
    if (token_is(&t, "true") || token_is(&t, "false")) {
        v->type = RON_TOML_BOOL;
        v->boolean = t.at[0] == 't';
        return RON_OK;
    }
    if ((has_digits(&t, 0, 4) && peek(&t, 4) == '-') ||
        (has_digits(&t, 0, 2) && peek(&t, 2) == ':')) {
        return read_time(&t, v) ? RON_OK : toml_fail(p, t.at, "no such date or time");
    }
    return read_number(p, &t, v);
}
