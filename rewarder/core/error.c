/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/error.c - the table of refusals, and faults. */
#include "rewarder/core/error.h"

#include <stdio.h>

static const struct ron_http_error rows[REW_ERROR_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [REW_ERROR_##name] = {.status = (status_),                                                     \
                          .code = code_,                                                           \
                          .message = doc_,                                                         \
                          .reason = label_,                                                        \
                          .retryable = (retry_),                                                   \
                          .retry_after_s = (retry_) ? 1 : 0},
    REW_ERRORS(X)
#undef X
};

const char *rew_error_label(enum rew_error error)
{
    return rows[error].reason;
}

void rew_fault_set(struct rew_fault *ret, enum rew_error error, const char *detail)
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

void rew_fault_of(struct rew_fault *ret, enum ron_rc rc, enum rew_error bad,
                  const struct ron_err *err)
{
    enum rew_error error = rc == RON_INVALID || rc == RON_DENIED || rc == RON_EXISTS ? bad
                           : rc == RON_NOTFOUND                       ? REW_ERROR_NOT_FOUND
                           : rc == RON_CONFLICT                       ? REW_ERROR_CONFLICT
                           : rc == RON_LIMIT || rc == RON_IO          ? REW_ERROR_STORAGE
                           : rc == RON_TIMEOUT || rc == RON_CANCELLED ? REW_ERROR_TIMEOUT
                           : rc == RON_FULL || rc == RON_NOMEM        ? REW_ERROR_BUSY
                           : rc == RON_CLOSED                         ? REW_ERROR_DRAINING
                                                                      : REW_ERROR_INTERNAL;

    rew_fault_set(ret, error, err->msg);
}

struct ron_http_error rew_http_error(const struct rew_fault *fault)
{
    struct ron_http_error error = rows[fault->error];

    error.message = fault->detail;
    return error;
}
