/* SPDX-License-Identifier: Apache-2.0 */
/* rc.c - names of result codes, and the text of an error.
 *
 * Place: base, under everything. Never allocates.
 * Invariants: I1 every lookup answers for every number, also for one that is not in the table.
 *   I2 msg ends in NUL and is never longer than its array; what does not fit is cut at the end.
 * Failure: none. Formatting that fails leaves an empty text rather than a wrong code.
 */
#include "ron/base/rc.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"

struct row {
    const char *name;
    enum ron_rc_class rc_class;
    int http_status;
    const char *doc;
};

/* Indexed by the negated code. */
static const struct row rows[] = {
#define X(name, value, class, http, doc)                                                           \
    [-(value)] = {"RON_" #name, RON_RC_CLASS_##class, (http), (doc)},
    RON_RC_TABLE(X)
#undef X
};

static const struct row no_row = {"RON_?", RON_RC_CLASS_PERMANENT, 500, "not a result code"};

/* I1: the row of a code, or no_row. */
static const struct row *row_of(enum ron_rc rc)
{
    int number = (int)rc;

    if (number > 0 || number <= -(int)RON_ARRAY_LEN(rows)) {
        return &no_row;
    }
    return rows[-number].name != NULL ? &rows[-number] : &no_row;
}

const char *ron_rc_name(enum ron_rc rc)
{
    return row_of(rc)->name;
}

const char *ron_rc_doc(enum ron_rc rc)
{
    return row_of(rc)->doc;
}

enum ron_rc_class ron_rc_class(enum ron_rc rc)
{
    return row_of(rc)->rc_class;
}

/* Appends ": " and text to msg, cutting what does not fit (I2). */
static void append_clause(char msg[RON_ERR_MSG_SIZE], const char *text)
{
    const char *parts[] = {": ", text};
    size_t used = strlen(msg);

    for (size_t i = 0; i < RON_ARRAY_LEN(parts); i++) {
        size_t len = strnlen(parts[i], RON_ERR_MSG_SIZE - 1 - used);

        memcpy(msg + used, parts[i], len);
        used += len;
    }
    msg[used] = '\0';
}

enum ron_rc ron_err_vset_at(struct ron_err *err, const char *where, enum ron_rc rc, int sys_errno,
                            const char *fmt, va_list args)
{
    RON_ASSERT_MSG(rc < RON_OK, "an error needs a failing code");
    if (err == NULL) {
        return rc;
    }
    err->rc = rc;
    err->sys_errno = sys_errno;
    err->where = where;
    err->msg[0] = '\0';
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, args);
    if (sys_errno != 0) {
        /* Static text, unlike strerror's, so that threads do not disturb each other. */
        const char *text = strerrordesc_np(sys_errno);

        append_clause(err->msg, text != NULL ? text : "unknown errno");
    }
    return rc;
}

enum ron_rc ron_err_set_at(struct ron_err *err, const char *where, enum ron_rc rc, int sys_errno,
                           const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum ron_rc result = ron_err_vset_at(err, where, rc, sys_errno, fmt, args);
    va_end(args);
    return result;
}

void ron_err_prefix(struct ron_err *err, const char *fmt, ...)
{
    char prefixed[RON_ERR_MSG_SIZE] = "";
    va_list args;

    if (err == NULL) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(prefixed, sizeof(prefixed), fmt, args);
    va_end(args);
    append_clause(prefixed, err->msg);
    memcpy(err->msg, prefixed, sizeof(err->msg));
}
