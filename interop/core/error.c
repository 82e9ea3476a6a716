/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/error.c - the table of refusals. */
#include "interop/core/error.h"

#include "ron/base/assert.h"

static const struct ron_http_error rows[IOP_ERROR_COUNT] = {
#define X(name, code_, status_, retry_, doc_)                                                      \
    [IOP_ERROR_##name] = {.status = (status_),                                                     \
                          .code = code_,                                                           \
                          .message = doc_,                                                         \
                          .reason = code_,                                                         \
                          .retryable = (retry_),                                                   \
                          .retry_after_s = (retry_) ? 1 : 0},
    IOP_ERRORS(X)
#undef X
};

const char *iop_error_code(enum iop_error error)
{
    RON_ASSERT(error < IOP_ERROR_COUNT);
    return rows[error].code;
}

const char *iop_error_doc(enum iop_error error)
{
    return rows[error].message;
}

int iop_error_status(enum iop_error error)
{
    RON_ASSERT(error < IOP_ERROR_COUNT);
    return rows[error].status;
}

struct ron_http_error iop_http_error(enum iop_error error, const char *detail)
{
    RON_ASSERT_MSG(error > IOP_ERROR_NONE && error < IOP_ERROR_COUNT, "a refusal has an error");
    struct ron_http_error e = rows[error];

    if (detail != NULL && *detail != '\0') {
        e.message = detail;
    }
    if (error == IOP_ERROR_BROWNOUT) {
        e.retry_after_s = 5;
    }
    return e;
}

enum iop_error iop_refusal_error(enum iop_refusal refusal)
{
    static const enum iop_error errors[] = {
#define X(name, error, label, message) [IOP_REFUSE_##name] = IOP_ERROR_##error,
        IOP_REFUSALS(X)
#undef X
    };

    RON_ASSERT(refusal < IOP_REFUSAL_COUNT);
    return errors[refusal];
}

enum iop_error iop_error_of(enum ron_rc rc)
{
    return rc == RON_NOTFOUND                                     ? IOP_ERROR_NOT_FOUND
           : rc == RON_INVALID                                    ? IOP_ERROR_MALFORMED
           : rc == RON_DENIED                                     ? IOP_ERROR_POLICY_BLOCKED
           : rc == RON_FULL || rc == RON_NOMEM                    ? IOP_ERROR_BUSY
           : rc == RON_TIMEOUT || rc == RON_CANCELLED             ? IOP_ERROR_TIMEOUT
           : rc == RON_CLOSED                                     ? IOP_ERROR_DRAINING
           : rc == RON_IO || rc == RON_CORRUPT || rc == RON_AGAIN ? IOP_ERROR_DOWNSTREAM
           : rc == RON_LIMIT                                      ? IOP_ERROR_BUSY
                                                                  : IOP_ERROR_INTERNAL;
}
