/* SPDX-License-Identifier: Apache-2.0 */
/* rc.h - result codes and the error context that travels with them.
 *
 * Place: base; every fallible function of the program returns `enum ron_rc`.
 *
 * There are three kinds of "no" and they are never mixed:
 *   a domain outcome (insufficient funds) is a value in a `ret_` parameter with RON_OK;
 *   an operational failure is a code of this table plus an optional `struct ron_err`;
 *   a programmer's mistake is an assertion (assert.h).
 *
 * Rules a caller may count on:
 *   R1. RON_OK is 0 and every failure is negative, so `rc < 0` is "failed".
 *   R2. On failure `ret_` outputs are untouched.
 *   R3. On success the `struct ron_err` is untouched. NULL is always accepted for it.
 *   R4. `where` points to static text (a function name); `msg` always ends in NUL.
 *
 * Ownership and threads: the caller owns the `struct ron_err`, usually on its stack, set to {0}.
 * Nothing here allocates. Code and class lookups are pure and may be called from any thread.
 *
 * Use:
 *     enum ron_rc x_open(const char *path, struct x *ret_x, struct ron_err *err)
 *     {
 *         if (path[0] == '\0') {
 *             return ron_err_set(err, RON_INVALID, "path is empty");
 *         }
 *         RON_TRY(y_open(path, err));
 *         ...
 *     }
 */
#pragma once

#include <stdarg.h>

#include "ron/base/macros.h"

/* X(name, value, class, http status, meaning). Values are stable: they reach logs and metrics. */
#define RON_RC_TABLE(X)                                                                            \
    X(OK, 0, OK, 200, "the operation did what was asked")                                          \
    X(AGAIN, -1, RETRY, 503, "not possible at this moment; trying again may work")                 \
    X(FULL, -2, RETRY, 429, "a bounded queue or table has no room")                                \
    X(CLOSED, -3, RETRY, 503, "the other side is closed or draining")                              \
    X(TIMEOUT, -4, RETRY, 503, "the deadline passed first")                                        \
    X(CANCELLED, -5, RETRY, 503, "the caller or a shutdown cancelled the operation")               \
    X(LAGGED, -6, RETRY, 503, "a slow reader was overtaken and must resynchronise")                \
    X(NOMEM, -7, RETRY, 503, "memory could not be obtained")                                       \
    X(IO, -8, PERMANENT, 500, "a system call failed; sys_errno says how")                          \
    X(CORRUPT, -9, PERMANENT, 500, "stored or received bytes break their own format")              \
    X(NOTFOUND, -10, CALLER, 404, "no such thing")                                                 \
    X(EXISTS, -11, CALLER, 409, "the thing is already there")                                      \
    X(CONFLICT, -12, CALLER, 409, "the request contradicts the present state")                     \
    X(INVALID, -13, CALLER, 400, "an argument or input is malformed")                              \
    X(DENIED, -14, CALLER, 403, "the caller may not do this")                                      \
    X(LIMIT, -15, CALLER, 413, "a stated maximum would be exceeded")                               \
    X(UNSUPPORTED, -16, CALLER, 501, "this build or version cannot do that")                       \
    X(INTERNAL, -17, PERMANENT, 500, "a bug was contained; the message says where")

enum ron_rc {
#define X(name, value, class, http, doc) RON_##name = (value),
    RON_RC_TABLE(X)
#undef X
};

/* X(name, text, meaning). */
#define RON_RC_CLASS_TABLE(X)                                                                      \
    X(OK, "ok", "not a failure")                                                                   \
    X(RETRY, "retry", "the same request may succeed later")                                        \
    X(CALLER, "caller", "the caller must change the request")                                      \
    X(PERMANENT, "permanent", "nobody should retry; an operator should look")

enum ron_rc_class {
#define X(name, text, doc) RON_RC_CLASS_##name,
    RON_RC_CLASS_TABLE(X)
#undef X
};

/* "RON_FULL"; "RON_?" for a number that is not in the table. Never NULL. */
const char *ron_rc_name(enum ron_rc rc);

/* The meaning column; never NULL. */
const char *ron_rc_doc(enum ron_rc rc);

/* An unknown number counts as PERMANENT. */
enum ron_rc_class ron_rc_class(enum ron_rc rc);

/* Long enough for one clause per layer, short enough to live on any stack. */
#define RON_ERR_MSG_SIZE 192

struct ron_err {
    enum ron_rc rc;
    int sys_errno;     /* 0 when no system call was involved */
    const char *where; /* function that set the error; NULL while untouched */
    char msg[RON_ERR_MSG_SIZE];
};

/* Workers of the macros below; call the macros. They return rc. */
enum ron_rc ron_err_set_at(struct ron_err *err, const char *where, enum ron_rc rc, int sys_errno,
                           const char *fmt, ...) RON_PRINTF(5, 6);
enum ron_rc ron_err_vset_at(struct ron_err *err, const char *where, enum ron_rc rc, int sys_errno,
                            const char *fmt, va_list args) RON_PRINTF(5, 0);

/* Records a failure at its origin and returns rc, so that it can stand in a return statement.
 * A longer message is cut. rc must not be RON_OK. */
#define ron_err_set(err, rc, ...) ron_err_set_at((err), __func__, (rc), 0, __VA_ARGS__)

/* The same for a failed system call; the text of errno is appended to the message. */
#define ron_err_set_sys(err, rc, sys_errno, ...)                                                   \
    ron_err_set_at((err), __func__, (rc), (sys_errno), __VA_ARGS__)

/* Puts one clause and ": " before the message, cutting its end if need be. Keeps rc and where. */
void ron_err_prefix(struct ron_err *err, const char *fmt, ...) RON_PRINTF(2, 3);

/* Returns from the enclosing function when expr fails. */
#define RON_TRY(expr)                                                                              \
    do {                                                                                           \
        enum ron_rc ron_try_rc_ = (expr);                                                          \
        if (RON_UNLIKELY(ron_try_rc_ != RON_OK)) {                                                 \
            return ron_try_rc_;                                                                    \
        }                                                                                          \
    } while (0)

/* Jumps forward to a cleanup label when expr fails. The function must have `enum ron_rc rc`. */
#define RON_GOTO(expr, label)                                                                      \
    do {                                                                                           \
        rc = (expr);                                                                               \
        if (RON_UNLIKELY(rc != RON_OK)) {                                                          \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)
