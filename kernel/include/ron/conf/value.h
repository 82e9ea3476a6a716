/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - durations, sizes and numbers as people write them.
 *
 * Place: conf; pure text work, also for flags and request parameters.
 *
 * Grammar: digits, optionally a point and digits, at most one blank, a unit. The result must be a
 * whole number of the base unit, so "1.5s" is 1500 ms and "0.5ms" is refused.
 *     duration   ms s m h                (base unit: ms)
 *     size       B KiB MiB GiB KB MB     (base unit: byte; KB and MB are powers of ten)
 * A number without a unit is refused, because "5" does not say of what.
 *
 * Codes: RON_INVALID with a reason in `err` that does not quote the text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum ron_rc ron_conf_parse_duration(const char *text, size_t len, int64_t *ret_ms,
                                    struct ron_err *err) RON_MUST_USE;

/* Room for any number of 64 bits with its unit. */
enum { RON_CONF_NUMBER_SIZE = 32 };
