/* SPDX-License-Identifier: Apache-2.0 */
/* console/error.c - the table of refusals. */
#include "console/error.h"

static const struct ron_http_error rows[CON_ERROR_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [CON_ERROR_##name] = {.status = (status_),                                                     \
                          .code = code_,                                                           \
                          .message = doc_,                                                         \
                          .reason = label_,                                                        \
                          .retryable = (retry_),                                                   \
                          .retry_after_s = (retry_) ? 1 : 0},
    CON_ERRORS(X)
#undef X
};

const char *con_error_label(enum con_error error)
{
    return rows[error].reason;
}

struct ron_http_error con_http_error(enum con_error error)
{
    return rows[error];
}
