/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/mark.h - markers in the data directory: of safe mode, and of an import that is not
 * finished.
 *
 * That of safe mode is a small file that says since when and why writes are stopped. It survives a
 * restart; only the operator's resume removes it.
 *
 *     ron-ledger safe mode
 *     since 1700000000000
 *     why append failed: the disk is gone
 *
 * A marker that cannot be read or has another form still marks: whoever finds the file stays in
 * safe mode. Written beside and renamed, so it is there whole or not at all.
 *
 * Threads: blocks; one caller at a time per directory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/env.h"

enum { LED_MARK_WHY_MAX = 240 };

struct led_mark {
    bool set;
    uint64_t since_ms; /* 0: not known */
    char why[LED_MARK_WHY_MAX];
};

/* `why` is cut to its room; what is not printable ASCII turns into '?'. */
RON_MUST_USE enum ron_rc led_mark_write(const struct ron_env *env, const char *dir, const char *why,
                                        struct ron_err *err);
/* `set` is false without a file. RON_NOMEM. */
RON_MUST_USE enum ron_rc led_mark_read(const struct ron_env *env, const char *dir,
                                       struct led_mark *ret_mark, struct ron_err *err);
/* Also fine without a file; durable when RON_OK. */
RON_MUST_USE enum ron_rc led_mark_remove(const struct ron_env *env, const char *dir,
                                         struct ron_err *err);

/* ---- imports --------------------------------------------------------------------------------- */

/* The file `import-unfinished`: what lies beside it is a part of a ledger, good for nothing. */
RON_MUST_USE enum ron_rc led_mark_import(const struct ron_env *env, const char *dir,
                                         struct ron_err *err);
/* RON_CONFLICT, with what to do, when the file is there. */
RON_MUST_USE enum ron_rc led_check_import(const struct ron_env *env, const char *dir,
                                          struct ron_err *err);
/* Also fine without a file; durable when RON_OK. */
RON_MUST_USE enum ron_rc led_unmark_import(const struct ron_env *env, const char *dir,
                                           struct ron_err *err);

/* dir/name, or name alone when dir is "". RON_LIMIT when it does not fit. */
RON_MUST_USE enum ron_rc led_path(const char *dir, const char *name, char *ret_path, size_t size,
                                  struct ron_err *err);
