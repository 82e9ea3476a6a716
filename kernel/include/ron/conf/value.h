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
enum ron_rc ron_conf_parse_size(const char *text, size_t len, int64_t *ret_bytes,
                                struct ron_err *err) RON_MUST_USE;
/* An optional minus and decimal digits, nothing else. */
enum ron_rc ron_conf_parse_int(const char *text, size_t len, int64_t *ret_number,
                               struct ron_err *err) RON_MUST_USE;
/* "true" or "false". */
enum ron_rc ron_conf_parse_bool(const char *text, size_t len, bool *ret_value,
                                struct ron_err *err) RON_MUST_USE;

/* Room for any number of 64 bits with its unit. */
enum { RON_CONF_NUMBER_SIZE = 32 };

/* The shortest exact form: 90000 ms is "90s", 5400000 ms "90m", 1048576 bytes "1MiB". The number
 * must not be negative. Return `out`. */
const char *ron_conf_format_duration(int64_t ms, char out[RON_CONF_NUMBER_SIZE]);
const char *ron_conf_format_size(int64_t bytes, char out[RON_CONF_NUMBER_SIZE]);
