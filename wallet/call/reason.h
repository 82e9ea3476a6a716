/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/reason.h - why the wallet refuses: one table for codes, statuses, metric labels and
 * docs.
 *
 * Place: wallet; pure. A fault is a value: reason, member at fault, one clause for a person. */
#pragma once

#include "ron/base/json.h"
#include "ron/base/rc.h"

/* X(NAME, "label", "CODE", status, retryable, "meaning"). Names are stable. */
#define WLT_REASONS(X)                                                                             \
    X(NONE, "", "", 200, false, "not refused")                                                     \
    X(BAD_REQUEST, "bad_request", "BAD_REQUEST", 400, false, "invalid request")                    \
    X(CONTENT_TYPE, "content_type", "UNSUPPORTED_MEDIA_TYPE", 415, false,                          \
      "unsupported media type; expected application/json")                                         \
    X(UNAUTH, "unauth", "UNAUTHORIZED", 401, false, "missing or invalid capability")               \
    X(FORBIDDEN, "forbidden", "FORBIDDEN", 403, false, "capability does not allow this operation") \
    X(POLICY, "policy_denied", "POLICY_DENIED", 403, false,                                        \
      "denied by a policy or a frozen account")                                                    \
    X(LIMITS, "limits_exceeded", "LIMITS_EXCEEDED", 403, false, "amount exceeds a limit")          \
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "not found")                                \
    X(FUNDS, "insufficient_funds", "INSUFFICIENT_FUNDS", 409, false, "insufficient funds")         \
    X(NONCE, "nonce_conflict", "NONCE_CONFLICT", 409, false, "nonce is not the next one")          \
    X(NONCE_PENDING, "nonce_pending", "NONCE_CONFLICT", 409, true,                                 \
      "the previous nonce is still being committed")                                               \
    X(CONFLICT, "conflict", "CONFLICT", 409, false, "request conflicts with the current state")    \
    X(IN_PROGRESS, "in_progress", "IN_PROGRESS", 409, true,                                        \
      "a request with the same idempotency key is in progress")                                    \
    X(IDEM, "idempotency_conflict", "IDEMPOTENCY_CONFLICT", 422, false,                            \
      "idempotency key was used with a different request")                                         \
    X(CANCELLED, "key_cancelled", "IDEMPOTENCY_CONFLICT", 422, false,                              \
      "idempotency key was cancelled and cannot commit")                                           \
    X(BUSY, "busy", "BUSY", 429, true, "busy: queue is full")                                      \
    X(TIMEOUT, "timeout", "TIMEOUT", 503, true,                                                    \
      "no answer in time; query the outcome or retry with the same key")                           \
    X(UPSTREAM, "upstream_unavailable", "UPSTREAM_UNAVAILABLE", 503, true,                         \
      "ledger is unreachable or does not accept writes")                                           \
    X(DRAINING, "draining", "DRAINING", 503, true, "wallet is shutting down")                      \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "internal error")

enum wlt_reason {
#define X(name, label, code, status, retry, doc) WLT_REASON_##name,
    WLT_REASONS(X)
#undef X
        WLT_REASON_COUNT,
};

const char *wlt_reason_label(enum wlt_reason reason);
const char *wlt_reason_code(enum wlt_reason reason);
const char *wlt_reason_doc(enum wlt_reason reason);
int wlt_reason_status(enum wlt_reason reason);
bool wlt_reason_retryable(enum wlt_reason reason);

struct wlt_fault {
    enum wlt_reason reason;
    char detail[160]; /* printable ASCII: member, what is wrong with it */
};
/* The one way to fill a fault: "member: detail", or the detail alone when `member` is "". Cut to
 * its room; what is not printable ASCII turns into '?'. */
void wlt_fault_set(struct wlt_fault *ret, enum wlt_reason reason, const char *member,
                   const char *detail);
