/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/error.c - the table of refusals, and faults. */
#include "rewarder/core/error.h"

#include <stdio.h>

static const struct ron_http_error rows[RWD_ERROR_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [RWD_ERROR_##name] = {.status = (status_),                                                     \
                          .code = code_,                                                           \
                          .message = doc_,                                                         \
                          .reason = label_,                                                        \
                          .retryable = (retry_),                                                   \
                          .retry_after_s = (retry_) ? 1 : 0},
    RWD_ERRORS(X)
#undef X
};

const char *rwd_error_label(enum rwd_error error)
{
    return rows[error].reason;
}

void rwd_fault_set(struct rwd_fault *ret, enum rwd_error error, const char *detail)
{
    ret->error = error;
    (void)snprintf(ret->detail, sizeof ret->detail, "%s",
                   detail != NULL && *detail != '\0' ? detail : rows[error].message);
    for (char *p = ret->detail; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '?';
        }
    }
}

void rwd_fault_of(struct rwd_fault *ret, enum ron_rc rc, enum rwd_error bad,
                  const struct ron_err *err)
{
    enum rwd_error error = rc == RON_INVALID || rc == RON_DENIED || rc == RON_EXISTS ? bad
                           : rc == RON_NOTFOUND                       ? RWD_ERROR_NOT_FOUND
                           : rc == RON_CONFLICT                       ? RWD_ERROR_CONFLICT
                           : rc == RON_LIMIT || rc == RON_IO          ? RWD_ERROR_STORAGE
                           : rc == RON_TIMEOUT || rc == RON_CANCELLED ? RWD_ERROR_TIMEOUT
                           : rc == RON_FULL || rc == RON_NOMEM        ? RWD_ERROR_BUSY
                           : rc == RON_CLOSED                         ? RWD_ERROR_DRAINING
                                                                      : RWD_ERROR_INTERNAL;

    rwd_fault_set(ret, error, err->msg);
}

struct ron_http_error rwd_http_error(const struct rwd_fault *fault)
{
    struct ron_http_error error = rows[fault->error];

    error.message = fault->detail;
    return error;
}
