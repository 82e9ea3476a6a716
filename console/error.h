/* SPDX-License-Identifier: Apache-2.0 */
/* console/error.h - the refusals of the console: one table for statuses, codes, reasons and
 * metrics.
 *
 * Place: console. What a service answers with 400 or more is passed on as it is; these are the
 * console's own. Refused capabilities (POST /api/links) carry the reasons of ron/cap/caveat.h. */
#pragma once

#include "ron/http/parse.h"

/* X(NAME, "reason", "CODE", status, retryable, "meaning") */
#define CON_ERRORS(X)                                                                              \
    X(NO_SESSION, "no_session", "UNAUTHENTICATED", 401, false,                                     \
      "no session, or it has ended; open a new link")                                              \
    X(LINK, "link", "GONE", 410, false, "this link was used, has expired or never was")            \
    X(READ_ONLY, "read_only", "FORBIDDEN", 403, false,                                             \
      "this session may look but not write; an operator's link may")                               \
    X(CROSS_SITE, "cross_site", "FORBIDDEN", 403, false,                                           \
      "a write must come from a page of this console")                                             \
    X(NO_TOKEN, "no_token", "FORBIDDEN", 403, false,                                               \
      "the console has no capability to write; services.wallet.write_token_file is not set")       \
    X(BAD_PATH, "bad_path", "BAD_REQUEST", 400, false, "the path is not one of a service")         \
    X(BAD_BODY, "bad_body", "BAD_REQUEST", 400, false, "the body is not what this route takes")    \
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "there is nothing at this path")            \
    X(ABSENT, "absent", "NOT_FOUND", 404, false, "this console has no such service")               \
    X(UNREACHABLE, "unreachable", "UPSTREAM", 502, true, "the service does not answer")            \
    X(TOO_LARGE, "too_large", "UPSTREAM", 502, false,                                              \
      "the answer is larger than the console takes; use the command line")                         \
    X(TOKEN, "token", "UPSTREAM", 502, false,                                                      \
      "the service does not accept the console's capability")                                      \
    X(TIMEOUT, "timeout", "TIMEOUT", 504, true, "the service did not answer in time")              \
    X(BUSY, "busy", "BACKPRESSURE", 429, true, "too many calls are under way")                     \
    X(DRAINING, "draining", "DRAINING", 503, true, "the console is shutting down")                 \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "a fault of the console")

enum con_error {
#define X(name, label, code, status, retry, doc) CON_ERROR_##name,
    CON_ERRORS(X)
#undef X
        CON_ERROR_COUNT,
};

const char *con_error_label(enum con_error error);
struct ron_http_error con_http_error(enum con_error error);
