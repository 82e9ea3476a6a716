/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/date.c - the proleptic Gregorian calendar and three fixed layouts.
 *
 * Days are counted from 0000-03-01, so that the leap day is the last of its year and 400 years have
 * the same number of days wherever they begin. */
#include "ron/http/date.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/clock.h"

enum {
    DAYS_400Y = 146097,
    DAYS_TO_1970 = 719468, /* from 0000-03-01 */
    DAY_S = 86400,
    FUTURE_YEARS = 50, /* RFC 9110: a two-digit year further ahead means the past */
};

static const char day_names[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

struct civil {
    int64_t year;
    uint32_t month; /* 1-12 */
    uint32_t day;
    uint32_t hour;
    uint32_t minute;
    uint32_t second;
    uint32_t weekday; /* 0 = Sunday */
};

static int64_t days_of(int64_t year, uint32_t month, uint32_t day)
{
    int64_t y = year - (month <= 2); /* years begin in March; year >= 0 makes y >= -1 */
    int64_t era = (y + 400) / 400 - 1;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)day - 1;

    return era * DAYS_400Y + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_TO_1970;
}

static void civil_of(uint64_t unix_s, struct civil *c)
{
    uint64_t days = unix_s / DAY_S + DAYS_TO_1970;
    uint64_t era = days / DAYS_400Y;
    uint64_t of_era = days % DAYS_400Y;
    uint64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    uint64_t m = (5 * of_year + 2) / 153;
    uint64_t of_day = unix_s % DAY_S;

    c->day = (uint32_t)(of_year - (153 * m + 2) / 5 + 1);
    c->month = (uint32_t)(m < 10 ? m + 3 : m - 9);
    c->year = (int64_t)(y + era * 400 + (c->month <= 2));
    c->hour = (uint32_t)(of_day / 3600);
    c->minute = (uint32_t)(of_day / 60 % 60);
    c->second = (uint32_t)(of_day % 60);
    c->weekday = (uint32_t)((unix_s / DAY_S + 4) % 7); /* 1970-01-01 was a Thursday */
}

static void put_digits(char *at, uint64_t value, size_t digits)
{
    for (size_t i = digits; i-- > 0; value /= 10) {
        at[i] = (char)('0' + value % 10);
    }
}

void ron_http_date_format(uint64_t unix_s, char ret_text[RON_HTTP_DATE_SIZE])
{
    struct civil c;

    civil_of(RON_MIN(unix_s, RON_HTTP_DATE_MAX_S), &c);
    memcpy(ret_text, "Www, dd Mmm yyyy hh:mm:ss GMT", RON_HTTP_DATE_SIZE);
    memcpy(ret_text, day_names[c.weekday], 3);
    put_digits(ret_text + 5, c.day, 2);
    memcpy(ret_text + 8, month_names + (size_t)(c.month - 1) * 3, 3);
    put_digits(ret_text + 12, (uint64_t)c.year, 4);
    put_digits(ret_text + 17, c.hour, 2);
    put_digits(ret_text + 20, c.minute, 2);
    put_digits(ret_text + 23, c.second, 2);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What is left of the text; `bad` stays once set, so that a layout reads as one sequence. */
struct scan {
    const char *at;
    const char *end;
    bool bad;
};

static void want(struct scan *s, const char *text)
{
    size_t len = strlen(text);

    if (s->bad || (size_t)(s->end - s->at) < len || memcmp(s->at, text, len) != 0) {
        s->bad = true;
        return;
    }
    s->at += len;
}

static uint32_t digits(struct scan *s, size_t count)
{
    uint32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        if (s->bad || s->at == s->end || *s->at < '0' || *s->at > '9') {
            s->bad = true;
            return 0;
        }
        value = value * 10 + (uint32_t)(*s->at++ - '0');
    }
    return value;
}

static uint32_t month(struct scan *s)
{
    for (uint32_t m = 0; !s->bad && s->end - s->at >= 3 && m < 12; m++) {
        if (memcmp(s->at, month_names + (size_t)m * 3, 3) == 0) {
            s->at += 3;
            return m + 1;
        }
    }
    s->bad = true;
    return 1;
}

static void clock_time(struct scan *s, struct civil *c)
{
    c->hour = digits(s, 2);
    want(s, ":");
    c->minute = digits(s, 2);
    want(s, ":");
    c->second = digits(s, 2);
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static void read_imf(struct scan *s, struct civil *c)
{
    want(s, ", ");
    c->day = digits(s, 2);
    want(s, " ");
    c->month = month(s);
    want(s, " ");
    c->year = digits(s, 4);
    want(s, " ");
    clock_time(s, c);
    want(s, " GMT");
}

/* Sunday, 06-Nov-94 08:49:37 GMT */
static void read_rfc850(struct scan *s, struct civil *c)
{
    want(s, ", ");
    c->day = digits(s, 2);
    want(s, "-");
    c->month = month(s);
    want(s, "-");
    c->year = digits(s, 2);
    want(s, " ");
    clock_time(s, c);
    want(s, " GMT");
}

/* Sun Nov  6 08:49:37 1994; the grammar has "06" too, which asctime never writes */
static void read_asctime(struct scan *s, struct civil *c)
{
    want(s, " ");
    c->month = month(s);
    want(s, " ");
    if (!s->bad && s->at < s->end && *s->at == ' ') {
        want(s, " ");
        c->day = digits(s, 1);
    } else {
        c->day = digits(s, 2);
    }
    want(s, " ");
    clock_time(s, c);
    want(s, " ");
    c->year = digits(s, 4);
}

/* The weekday's name in front, long or short; then the layout that goes with it. */
static bool read_any(struct ron_str text, struct civil *c, bool *ret_two_digits)
{
    for (uint32_t d = 0; d < 7; d++) {
        size_t full = strlen(day_names[d]);
        struct scan s = {.at = text.ptr, .end = text.ptr + text.len};

        c->weekday = d;
        if (text.len > full && memcmp(text.ptr, day_names[d], full) == 0) {
            s.at += full;
            read_rfc850(&s, c);
            *ret_two_digits = true;
            return !s.bad && s.at == s.end;
        }
        if (text.len > 3 && memcmp(text.ptr, day_names[d], 3) == 0) {
            s.at += 3;
            (text.ptr[3] == ',' ? read_imf : read_asctime)(&s, c);
            *ret_two_digits = false;
            return !s.bad && s.at == s.end;
        }
    }
    return false;
}

static int64_t seconds_of(const struct civil *c)
{
    return days_of(c->year, c->month, c->day) * DAY_S +
           (int64_t)(c->hour * 3600 + c->minute * 60 + c->second);
}

/* The latest year with these digits that is not too far ahead. */
static void set_century(struct civil *c, uint64_t now_s)
{
    struct civil limit;

    civil_of(RON_MIN(now_s, RON_HTTP_DATE_MAX_S), &limit);
    c->year += (limit.year + FUTURE_YEARS) / 100 * 100;
    limit.year += FUTURE_YEARS;
    if (seconds_of(c) > seconds_of(&limit)) {
        c->year -= 100;
    }
}

static uint32_t days_in(int64_t year, uint32_t m)
{
    return (uint32_t)(m == 12 ? 31 : days_of(year, m + 1, 1) - days_of(year, m, 1));
}

enum ron_rc ron_http_date_parse(struct ron_str text, uint64_t now_s, uint64_t *ret_unix_s)
{
    struct civil c = {0};
    bool two_digits = false;
    int64_t at_s;

    if (!read_any(text, &c, &two_digits)) {
        return RON_INVALID;
    }
    if (c.day < 1 || c.day > 31 || c.hour > 23 || c.minute > 59 ||
        c.second > (c.hour == 23 && c.minute == 59 ? 60u : 59u)) {
        return RON_INVALID;
    }
    if (two_digits) {
        set_century(&c, now_s);
    }
    if (c.day > days_in(c.year, c.month)) {
        return RON_INVALID;
    }
    /* 1970-01-01 was a Thursday; a multiple of 7 keeps the sum positive for every year. */
    if ((uint64_t)(days_of(c.year, c.month, c.day) + 4 + 7 * (int64_t)DAYS_TO_1970) % 7 !=
        c.weekday) {
        return RON_INVALID;
    }
    at_s = seconds_of(&c);
    *ret_unix_s = at_s < 0 ? 0 : (uint64_t)at_s;
    return RON_OK;
}
