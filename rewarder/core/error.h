/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/error.h - why the rewarder refuses: one table for codes, statuses, metric labels
 * and docs.
 *
 * Place: rewarder; pure. A fault is a value: a row of the table and one clause for a person. */
#pragma once

#include "ron/base/macros.h"
#include "ron/base/rc.h"
#include "ron/http/reason.h"

/* X(NAME, "label", "CODE", status, retryable, "meaning"). Names are stable. */
#define RWD_ERRORS(X)                                                                              \
    X(NONE, "", "", 200, false, "not refused")                                                     \
    X(SCHEMA, "schema", "BAD_REQUEST", 400, false, "the request breaks a rule")                    \
    X(CID, "cid_mismatch", "BAD_REQUEST", 400, false, "the snapshot is not the one named")         \
    X(POLICY, "policy_invalid", "BAD_REQUEST", 400, false, "the policy cannot be used")            \
    X(CONTENT_TYPE, "content_type", "UNSUPPORTED_MEDIA_TYPE", 415, false,                          \
      "send JSON, or NDJSON where it is taken")                                                    \
    X(UNAUTH, "unauth", "UNAUTHENTICATED", 401, false, "no usable capability was shown")           \
    X(FORBIDDEN, "scope", "UNAUTHORIZED", 403, false, "the capability does not allow this")        \
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "there is no such thing")                   \
    X(NO_INPUTS, "inputs_missing", "NOT_FOUND", 404, false,                                        \
      "no snapshot is inline and none of that id is stored")                                       \
    X(NO_POLICY, "policy_missing", "NOT_FOUND", 404, false,                                        \
      "no policy is inline and none of that id and hash is known")                                 \
    X(CONFLICT, "conflict", "CONFLICT", 409, false, "the epoch belongs to another run")            \
    X(QUARANTINED, "invariant", "QUARANTINED", 409, false, "the epoch is in quarantine")           \
    X(DRY, "dry_run", "CONFLICT", 409, false, "only a dry run was made of this epoch")             \
    X(STATE, "state", "CONFLICT", 409, false, "the epoch is not in a state for this")              \
    X(RETIRED, "retired", "GONE", 410, false,                                                      \
      "the epoch was settled long ago; its files are not kept any more")                           \
    X(TOO_LARGE, "oversize", "BODY_LIMIT", 413, false, "the input is larger than allowed")         \
    X(BUSY, "busy", "TOO_MANY_REQUESTS", 429, true, "a bounded queue is full")                     \
    X(TIMEOUT, "timeout", "TIMEOUT", 503, true, "no answer in time")                               \
    X(BACKPRESSURE, "backpressure", "DEPENDENCY_UNAVAILABLE", 503, true,                           \
      "the queue of runs stayed full")                                                             \
    X(STORAGE, "storage", "DEPENDENCY_UNAVAILABLE", 503, true, "the disk takes no more")           \
    X(DRAINING, "draining", "DRAINING", 503, true, "the rewarder is shutting down")                \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "a fault of the rewarder")

enum rwd_error {
#define X(name, label, code, status, retry, doc) RWD_ERROR_##name,
    RWD_ERRORS(X)
#undef X
        RWD_ERROR_COUNT,
};

struct rwd_fault {
    enum rwd_error error;
    char detail[192]; /* printable ASCII */
};

const char *rwd_error_label(enum rwd_error error);
/* `detail` NULL: the row's own meaning. Cut to its room; what is not printable turns into '?'. */
void rwd_fault_set(struct rwd_fault *ret, enum rwd_error error, const char *detail);
/* What a failure below means: RON_LIMIT and RON_IO of a disk are STORAGE, RON_INVALID is `bad`. */
void rwd_fault_of(struct rwd_fault *ret, enum ron_rc rc, enum rwd_error bad,
                  const struct ron_err *err);
struct ron_http_error rwd_http_error(const struct rwd_fault *fault);
