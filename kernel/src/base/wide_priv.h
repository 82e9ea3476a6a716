/* SPDX-License-Identifier: Apache-2.0 */
/* wide_priv.h - the long division under ron_muldiv. */
#pragma once

#include "ron/base/wide.h"

/* n = quotient * d + remainder with remainder < d. The quotient always fits; DIV_ZERO is the only
 * refusal. */
enum ron_wide_result ron_u256_div(struct ron_u256 n, ron_u128 d, struct ron_u256 *ret_quotient,
                                  ron_u128 *ret_remainder) RON_MUST_USE;
