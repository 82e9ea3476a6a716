/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the hook of fault injection; NULL, so that production never fails on purpose. */
#include "ron/base/fault.h"

#include <stddef.h>

bool (*ron_fault_hook)(enum ron_fault_kind kind, const char *site) = NULL;
