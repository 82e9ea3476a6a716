/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h - the deadline of one request: the client's wish and the server's limit.
 *
 * A client may send `Request-Timeout: <seconds>` and `Deadline: <unix ms>`. The smallest of these
 * and the server's own counts; a client can shorten the time it is given, never lengthen it. The
 * arithmetic is base/clock.h's.
 *
 * Grammar, to the byte (values come without surrounding blanks, as the HTTP parser leaves them):
 *   Request-Timeout = integer [ "." 1*9DIGIT ]      seconds
 *   Deadline        = integer                       milliseconds since 1970-01-01 UTC
 *   integer         = "0" / ( %x31-39 *DIGIT )
 * At most RON_TIMEOUT_TEXT_MAX bytes. No sign, exponent, blank, leading zero or unit: RON_INVALID,
 * which is a 400. A number too large to hold is a time that never comes and is valid; 0 and a
 * moment in the past are valid too, and have passed.
 *
 * Threads: pure. */
#pragma once

#include <stddef.h>

#include "ron/base/clock.h"
#include "ron/base/rc.h"

enum {
    RON_TIMEOUT_TEXT_MAX = 32,    /* 20 digits of 64 bits, a point and 9 more */
    RON_TIMEOUT_FORMAT_SIZE = 24, /* "18446744073.709" and its end, with room */
};

RON_MUST_USE enum ron_rc ron_request_timeout_parse(const char *text, size_t len, uint64_t *ret_ns,
                                                   struct ron_err *err);
RON_MUST_USE enum ron_rc ron_request_deadline_parse(const char *text, size_t len,
                                                    uint64_t *ret_unix_ms, struct ron_err *err);

/* A header that may be absent: text NULL. */
struct ron_header_value {
    const char *text;
    size_t len;
};

/* The deadline of a request that arrived now. server_ms 0 = the server has none. Reads the wall
 * clock only when `Deadline` is present. */
RON_MUST_USE enum ron_rc ron_request_deadline(const struct ron_clock *clock, uint64_t server_ms,
                                              struct ron_header_value request_timeout,
                                              struct ron_header_value deadline,
                                              struct ron_deadline *ret_deadline,
                                              struct ron_err *err);

/* The deadline of one call inside a request: its own limit, but never beyond the request's. call_ms
 * 0 = no limit of its own. */
struct ron_deadline ron_call_deadline(struct ron_deadline request, uint64_t now_ns,
                                      uint64_t call_ms);

/* What is left, as a Request-Timeout value for the next hop: seconds with three decimals, rounded
 * down so that the callee never believes to have longer. Returns the length; 0, and an empty text,
 * for never (send no header). */
size_t ron_request_timeout_format(struct ron_deadline deadline, uint64_t now_ns,
                                  char ret_text[RON_TIMEOUT_FORMAT_SIZE]);
