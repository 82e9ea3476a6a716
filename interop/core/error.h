/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/error.h - the refusals of svc-interop: one table for statuses, codes and metrics.
 *
 * Place: interop; pure. The codes are those of the specification, and the reason of an answer,
 * which is the label of rejected_total{reason}, is its code. What the HTTP front
 * refuses by itself (rate, size, draining, malformed requests) has the front's reasons
 * (ron/http/reason.h). */
#pragma once

#include "interop/provider/provider.h"
#include "ron/http/parse.h"

/* X(NAME, "CODE", status, retryable, "meaning") */
#define IOP_ERRORS(X)                                                                              \
    X(NONE, "", 0, false, "")                                                                      \
    X(UNAUTH, "UNAUTH", 401, false, "missing or invalid signature or capability")                  \
    X(EXPIRED_TOKEN, "EXPIRED_TOKEN", 401, false, "capability has expired")                        \
    X(SCOPE_MISMATCH, "SCOPE_MISMATCH", 403, false, "capability does not cover this request")      \
    X(BAD_ORIGIN, "BAD_ORIGIN", 400, false, "unknown host or source address")                      \
    X(POLICY_BLOCKED, "POLICY_BLOCKED", 403, false, "not allowed by the settings")                 \
    X(MALFORMED, "MALFORMED", 400, false, "invalid request")                                       \
    X(CLOCK_SKEW, "CLOCK_SKEW", 401, false, "signed time is outside the tolerance")                \
    X(BODY_LIMIT, "BODY_LIMIT", 413, false, "body too large")                                      \
    X(DECOMP_LIMIT, "DECOMP_LIMIT", 413, false, "decoded body too large")                          \
    X(RATE_LIMIT, "RATE_LIMIT", 429, true, "too many requests")                                    \
    X(BUSY, "BACKPRESSURE", 429, true, "busy: queue is full")                                      \
    X(BROWNOUT, "BACKPRESSURE", 503, true, "brownout: bridges shed load; reads continue")          \
    X(DOWNSTREAM, "DOWNSTREAM_UNAVAILABLE", 503, true, "a required service is not responding")     \
    X(NOT_FOUND, "NOT_FOUND", 404, false, "not found")                                             \
    X(RANGE, "MALFORMED", 416, false, "range not satisfiable")                                     \
    X(PRECONDITION, "MALFORMED", 412, false, "precondition failed")                                \
    X(TIMEOUT, "TIMEOUT", 503, true, "request deadline exceeded")                                  \
    X(DRAINING, "DRAINING", 503, true, "service is shutting down")                                 \
    X(INTERNAL, "INTERNAL", 500, false, "internal error")

enum iop_error {
#define X(name, code, status, retry, doc) IOP_ERROR_##name,
    IOP_ERRORS(X)
#undef X
        IOP_ERROR_COUNT
};

/* The code, which is also the reason. */
const char *iop_error_code(enum iop_error error);
const char *iop_error_doc(enum iop_error error);
int iop_error_status(enum iop_error error);

/* What is told: the meaning, or `detail` instead of it (NULL or "": none), which must live until
 * the call that takes it returns. */
struct ron_http_error iop_http_error(enum iop_error error, const char *detail);
/* The error of a delivery that its provider's scheme refuses; NONE for IOP_REFUSE_NONE. */
enum iop_error iop_refusal_error(enum iop_refusal refusal);
/* What a failure of a store or a call means for a request. */
enum iop_error iop_error_of(enum ron_rc rc);
