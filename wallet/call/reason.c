/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/reason.c - the table of refusals, and faults. */
#include <stdio.h>

#include "ron/base/assert.h"
#include "wallet/call/reason.h"

static const struct {
    const char *label;
    const char *code;
    const char *doc;
    int status;
    bool retryable;
} rows[WLT_REASON_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [WLT_REASON_##name] = {label_, code_, doc_, status_, retry_},
    WLT_REASONS(X)
#undef X
};

const char *wlt_reason_label(enum wlt_reason reason)
{
    RON_ASSERT(reason < WLT_REASON_COUNT);
    return rows[reason].label;
}

const char *wlt_reason_code(enum wlt_reason reason)
{
    RON_ASSERT(reason < WLT_REASON_COUNT);
    return rows[reason].code;
}

const char *wlt_reason_doc(enum wlt_reason reason)
{
    RON_ASSERT(reason < WLT_REASON_COUNT);
    return rows[reason].doc;
}

int wlt_reason_status(enum wlt_reason reason)
{
    RON_ASSERT(reason < WLT_REASON_COUNT);
    return rows[reason].status;
}

bool wlt_reason_retryable(enum wlt_reason reason)
{
    RON_ASSERT(reason < WLT_REASON_COUNT);
    return rows[reason].retryable;
}

void wlt_fault_set(struct wlt_fault *ret, enum wlt_reason reason, const char *member,
                   const char *detail)
{
    ret->reason = reason;
    (void)snprintf(ret->detail, sizeof ret->detail, "%s%s%s", member, *member != '\0' ? ": " : "",
                   detail != NULL ? detail : wlt_reason_doc(reason));
    for (char *p = ret->detail; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '?';
        }
    }
}
