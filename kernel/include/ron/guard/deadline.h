/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h - the Request-Timeout header: how long a client is willing to wait.
 *
 * A client may send `Request-Timeout: <seconds>`; ron/http/parse.h reads it and its sibling
 * `Deadline: <unix ms>`, and the server takes the smallest of these and its own limit. The
 * arithmetic is base/clock.h's.
 *
 * Grammar, to the byte (values come without surrounding blanks, as the HTTP parser leaves them):
 *   Request-Timeout = integer [ "." 1*9DIGIT ]      seconds
 *   integer         = "0" / ( %x31-39 *DIGIT )
 * At most RON_TIMEOUT_TEXT_MAX bytes. No sign, exponent, blank, leading zero or unit: RON_INVALID,
 * which is a 400. A number too large to hold is a time that never comes and is valid; 0 is valid
 * too, and has passed.
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

/* What is left, as a Request-Timeout value for the next hop: seconds with three decimals, rounded
 * down so that the callee never believes to have longer. Returns the length; 0, and an empty text,
 * for never (send no header). */
size_t ron_request_timeout_format(struct ron_deadline deadline, uint64_t now_ns,
                                  char ret_text[RON_TIMEOUT_FORMAT_SIZE]);
