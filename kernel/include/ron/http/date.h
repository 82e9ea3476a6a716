/* SPDX-License-Identifier: Apache-2.0 */
/* date.h - HTTP dates (RFC 9110 5.6.7) as seconds since 1970-01-01 UTC.
 *
 * Written is the one form that may be written, "Sun, 06 Nov 1994 08:49:37 GMT". Read are the three
 * that must be: that one, RFC 850 ("Sunday, 06-Nov-94 08:49:37 GMT") and asctime ("Sun Nov  6
 * 08:49:37 1994"). Reading is strict: the letters' case, every blank, a day that the month has, and
 * the weekday of that very day. A second 60 is read at 23:59 only, as the second after it.
 *
 * Threads: pure; no locale, no time zone, no C library calendar. */
#pragma once

#include "ron/base/json.h"

enum { RON_HTTP_DATE_LEN = 29, RON_HTTP_DATE_SIZE = RON_HTTP_DATE_LEN + 1 };

/* Year 9999 ends here; later moments are written as this one. */
#define RON_HTTP_DATE_MAX_S UINT64_C(253402300799)

/* `now_s` decides the century of RFC 850's two digits: at most 50 years ahead of it, else the most
 * recent year with these digits. A date before 1970 is valid and gives 0. RON_INVALID. */
RON_MUST_USE enum ron_rc ron_http_date_parse(struct ron_str text, uint64_t now_s,
                                             uint64_t *ret_unix_s);

/* RON_HTTP_DATE_LEN characters and NUL. */
void ron_http_date_format(uint64_t unix_s, char ret_text[RON_HTTP_DATE_SIZE]);
