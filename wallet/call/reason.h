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
    X(BAD_REQUEST, "bad_request", "BAD_REQUEST", 400, false, "the request breaks a rule")          \
    X(CONTENT_TYPE, "content_type", "UNSUPPORTED_MEDIA_TYPE", 415, false,                          \
      "send the body as application/json")                                                         \
    X(UNAUTH, "unauth", "UNAUTHORIZED", 401, false, "no usable capability was shown")              \
    X(FORBIDDEN, "forbidden", "FORBIDDEN", 403, false, "the capability does not allow this")       \
    X(POLICY, "policy_denied", "POLICY_DENIED", 403, false, "a policy or a freeze forbids this")   \
    X(LIMITS, "limits_exceeded", "LIMITS_EXCEEDED", 403, false, "an amount is above its ceiling")  \
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "there is no such thing")                   \
    X(FUNDS, "insufficient_funds", "INSUFFICIENT_FUNDS", 409, false,                               \
      "the balance or the hold is too small")                                                      \
    X(NONCE, "nonce_conflict", "NONCE_CONFLICT", 409, false, "the nonce is not the next one")      \
    X(NONCE_PENDING, "nonce_pending", "NONCE_CONFLICT", 409, true,                                 \
      "the nonce before it is being committed")                                                    \
    X(CONFLICT, "conflict", "CONFLICT", 409, false, "the request contradicts the present state")   \
    X(IN_PROGRESS, "in_progress", "IN_PROGRESS", 409, true, "the same key is being committed")     \
    X(IDEM, "idempotency_conflict", "IDEMPOTENCY_CONFLICT", 422, false,                            \
      "the key was used with another request")                                                     \
    X(CANCELLED, "key_cancelled", "IDEMPOTENCY_CONFLICT", 422, false,                              \
      "the key was cancelled and can never commit")                                                \
    X(BUSY, "busy", "BUSY", 429, true, "a bounded queue is full")                                  \
    X(TIMEOUT, "timeout", "TIMEOUT", 503, true,                                                    \
      "no answer in time; ask for the outcome or send the same request again")                     \
    X(UPSTREAM, "upstream_unavailable", "UPSTREAM_UNAVAILABLE", 503, true,                         \
      "the ledger cannot be reached or takes no writes")                                           \
    X(DRAINING, "draining", "DRAINING", 503, true, "the wallet is shutting down")                  \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "a fault of the wallet")

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
