/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/error.c - the table of refusals. */
#include "edge/answer/error.h"

#include "ron/base/assert.h"

#include <string.h>

static const struct ron_http_error rows[EDG_ERROR_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [EDG_ERROR_##name] = {.status = (status_),                                                     \
                          .code = code_,                                                           \
                          .message = doc_,                                                         \
                          .reason = label_,                                                        \
                          .retryable = (retry_),                                                   \
                          .retry_after_s = (retry_) ? 1 : 0},
    EDG_ERRORS(X)
#undef X
};

const char *edg_reject_label(const char *reason, int status)
{
    static const struct {
        const char *reason;
        const char *label;
    } names[] = {
#define X(reason_, label_) {reason_, label_},
        EDG_LISTENER_REASONS(X)
#undef X
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        if (strcmp(reason, names[i].reason) == 0) {
            return names[i].label;
        }
    }
    /* not_allowed is what is not on the list of origins; a method is something else. */
    return status == 405 ? "method" : reason;
}

const char *edg_error_label(enum edg_error error)
{
    RON_ASSERT(error > EDG_ERROR_NONE && error < EDG_ERROR_COUNT);
    return rows[error].reason;
}

struct ron_http_error edg_http_error(enum edg_error error)
{
    RON_ASSERT(error > EDG_ERROR_NONE && error < EDG_ERROR_COUNT);
    return rows[error];
}

enum edg_error edg_error_of(enum ron_rc rc)
{
    return rc == RON_NOTFOUND                                   ? EDG_ERROR_NOT_FOUND
           : rc == RON_DENIED || rc == RON_INVALID              ? EDG_ERROR_NOT_ALLOWED
           : rc == RON_CORRUPT                                  ? EDG_ERROR_CORRUPT
           : rc == RON_IO || rc == RON_LIMIT || rc == RON_AGAIN ? EDG_ERROR_STORAGE
           : rc == RON_FULL || rc == RON_NOMEM                  ? EDG_ERROR_BUSY
           : rc == RON_TIMEOUT || rc == RON_CANCELLED           ? EDG_ERROR_TIMEOUT
           : rc == RON_CLOSED                                   ? EDG_ERROR_DRAINING
                                                                : EDG_ERROR_INTERNAL;
}
