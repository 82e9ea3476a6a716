/* SPDX-License-Identifier: Apache-2.0 */
/* reason.h - every "no" of the OAP/1 wire: status, code, label, and what it says about the work.
 *
 * A refusal of the wire travels as a RESP frame of app 0 whose payload is the error envelope
 * {"code","message","retryable","corr_id","reason"}; the label is `reason` there and in the metric
 * oap_rejects_total{server,reason}. A handler's own errors carry its own app id and are none of
 * these.
 *
 * `done` is what a caller with money needs to know:
 *   NO      the handler never saw the request, and will not: it may be sent again;
 *   MAYBE   the handler saw it and its result is not known: ask before sending it again.
 * `fatal` refusals end the connection: nobody can know where the next frame or message begins, or
 * the peer has no business here.
 *
 * Threads: pure lookups. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"

/* X(NAME, status, "CODE", "label", rc for the caller, done, fatal, "message") */
#define RON_OAP_REASONS(X)                                                                         \
    X(NONE, 200, "OK", "none", RON_OK, NO, false, "not a refusal")                                 \
    X(LENGTH, 400, "BAD_LENGTH", "bad_length", RON_INVALID, NO, true,                              \
      "the frame is shorter than its header and capability")                                       \
    X(TOO_LARGE, 413, "FRAME_TOO_LARGE", "frame_oversize", RON_LIMIT, NO, true,                    \
      "the frame is longer than the limit")                                                        \
    X(BAD_VERSION, 400, "BAD_VERSION", "bad_version", RON_UNSUPPORTED, NO, true,                   \
      "only version 1 is spoken here")                                                             \
    X(BAD_FLAGS, 400, "UNKNOWN_FLAGS", "unknown_flags", RON_INVALID, NO, true,                     \
      "the frame has flags that do not exist")                                                     \
    X(KIND, 400, "BAD_KIND", "bad_kind", RON_INVALID, NO, true,                                    \
      "a frame is exactly one of request, response and event")                                     \
    X(CAP, 400, "BAD_CAPABILITY", "bad_capability", RON_INVALID, NO, true,                         \
      "a capability stands in a frame with START only")                                            \
    X(ORDER, 400, "BAD_ORDER", "bad_order", RON_INVALID, NO, true,                                 \
      "the pieces of a message are out of order")                                                  \
    X(PIECES, 429, "TOO_MANY_PIECES", "pieces", RON_FULL, NO, true,                                \
      "too many messages are being sent in pieces at once")                                        \
    X(HELLO, 400, "BAD_HELLO", "bad_hello", RON_INVALID, NO, true,                                 \
      "the HELLO is malformed, or not the first frame")                                            \
    X(CONTROL, 400, "BAD_CONTROL", "bad_control", RON_INVALID, NO, false,                          \
      "the control message is malformed")                                                          \
    X(UNSUPPORTED, 400, "UNSUPPORTED_FLAG", "unsupported", RON_UNSUPPORTED, NO, false,             \
      "compression and acknowledgements are not offered; HELLO says which flags are")              \
    X(FORBIDDEN, 403, "FORBIDDEN", "forbidden", RON_DENIED, NO, false,                             \
      "the capability of the frame does not allow this")                                           \
    X(NOT_FOUND, 404, "NOT_FOUND", "not_found", RON_NOTFOUND, NO, false,                           \
      "nobody here answers this app id or code")                                                   \
    X(MESSAGE, 413, "BODY_LIMIT", "body_limit", RON_LIMIT, NO, false,                              \
      "the message is longer than the limit")                                                      \
    X(FLOW, 429, "FLOW_LIMIT", "flow", RON_FULL, NO, false,                                        \
      "more requests in flight on this connection than HELLO allowed")                             \
    X(BUSY, 429, "BUSY", "busy", RON_FULL, NO, false, "too many requests in flight")               \
    X(MEMORY, 503, "NO_MEMORY", "memory", RON_NOMEM, NO, true,                                     \
      "no memory for a request of this size at this moment")                                       \
    X(DRAINING, 503, "DRAINING", "draining", RON_CLOSED, NO, false,                                \
      "the service is shutting down")                                                              \
    X(CONNECTIONS, 503, "TOO_MANY_CONNECTIONS", "connections", RON_FULL, NO, true,                 \
      "too many connections")                                                                      \
    X(DENIED, 403, "DENIED", "denied", RON_DENIED, NO, true, "this peer may not connect")          \
    X(READ_SLOW, 408, "READ_TIMEOUT", "read_timeout", RON_TIMEOUT, NO, true,                       \
      "the request was sent too slowly")                                                           \
    X(TIMEOUT, 503, "TIMEOUT", "timeout", RON_TIMEOUT, MAYBE, false,                               \
      "no answer within the deadline; the request may still take effect")                          \
    X(INTERNAL, 500, "INTERNAL", "internal", RON_INTERNAL, MAYBE, false,                           \
      "the answer could not be built")

enum ron_oap_reason {
#define X(name, ...) RON_OAP_##name,
    RON_OAP_REASONS(X)
#undef X
        RON_OAP_REASON_COUNT
};

enum ron_oap_done { RON_OAP_DONE_NO, RON_OAP_DONE_MAYBE };

struct ron_oap_error {
    uint16_t status;
    const char *code;
    const char *message;
    const char *reason;
};

const char *ron_oap_reason_label(enum ron_oap_reason reason);
