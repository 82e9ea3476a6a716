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
    X(UNAUTH, "UNAUTH", 401, false, "the signature or capability is missing or not good")          \
    X(EXPIRED_TOKEN, "EXPIRED_TOKEN", 401, false, "the capability has expired")                    \
    X(SCOPE_MISMATCH, "SCOPE_MISMATCH", 403, false, "the capability does not cover this")          \
    X(BAD_ORIGIN, "BAD_ORIGIN", 400, false, "the request was not sent to, or from, a known place") \
    X(POLICY_BLOCKED, "POLICY_BLOCKED", 403, false, "the settings do not allow this")              \
    X(MALFORMED, "MALFORMED", 400, false, "the request breaks a rule")                             \
    X(CLOCK_SKEW, "CLOCK_SKEW", 401, false, "the signed time is too far from now")                 \
    X(BODY_LIMIT, "BODY_LIMIT", 413, false, "the body is larger than allowed")                     \
    X(DECOMP_LIMIT, "DECOMP_LIMIT", 413, false, "the body is larger than allowed once decoded")    \
    X(RATE_LIMIT, "RATE_LIMIT", 429, true, "too many requests")                                    \
    X(BUSY, "BACKPRESSURE", 429, true, "a bounded queue is full")                                  \
    X(BROWNOUT, "BACKPRESSURE", 503, true, "bridges are closed for a while; reads go on")          \
    X(DOWNSTREAM, "DOWNSTREAM_UNAVAILABLE", 503, true, "a service that is needed does not answer") \
    X(NOT_FOUND, "NOT_FOUND", 404, false, "there is no such thing")                                \
    X(RANGE, "MALFORMED", 416, false, "the range lies outside the object")                         \
    X(PRECONDITION, "MALFORMED", 412, false, "the object is not the one that the request names")   \
    X(TIMEOUT, "TIMEOUT", 503, true, "the deadline of the request passed")                         \
    X(DRAINING, "DRAINING", 503, true, "the service is shutting down")                             \
    X(INTERNAL, "INTERNAL", 500, false, "a fault of the service")

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
