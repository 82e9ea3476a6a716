/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the hook of fault injection; NULL, so that production never fails on purpose. */
#include "ron/base/fault.h"

#include <stddef.h>

bool (*ron_fault_hook)(enum ron_fault_kind kind, const char *site) = NULL;

const char *ron_fault_kind_name(enum ron_fault_kind kind)
{
    switch (kind) {
#define X(name, text, doc)                                                                         \
    case RON_FAULT_##name:                                                                         \
        return text;
        RON_FAULT_KIND_TABLE(X)
#undef X
    }
    return "?";
}
