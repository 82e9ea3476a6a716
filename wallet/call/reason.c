/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/reason.c - the table of refusals, and faults. */
#include <stdio.h>

#include "wallet/call/reason.h"

static const struct {
    const char *label;
    const char *code;
    const char *doc;
    int status;
    bool retryable;
} rows[WAL_REASON_COUNT] = {
#define X(name, label_, code_, status_, retry_, doc_)                                              \
    [WAL_REASON_##name] = {label_, code_, doc_, status_, retry_},
    WAL_REASONS(X)
#undef X
};

const char *wal_reason_label(enum wal_reason reason)
{
    return rows[reason].label;
}

const char *wal_reason_code(enum wal_reason reason)
{
    return rows[reason].code;
}

const char *wal_reason_doc(enum wal_reason reason)
{
    return rows[reason].doc;
}

int wal_reason_status(enum wal_reason reason)
{
    return rows[reason].status;
}

bool wal_reason_retryable(enum wal_reason reason)
{
    return rows[reason].retryable;
}

void wal_fault_set(struct wal_fault *ret, enum wal_reason reason, const char *member,
                   const char *detail)
{
    ret->reason = reason;
    (void)snprintf(ret->detail, sizeof ret->detail, "%s%s%s", member, *member != '\0' ? ": " : "",
                   detail != NULL ? detail : wal_reason_doc(reason));
    for (char *p = ret->detail; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '?';
        }
    }
}
