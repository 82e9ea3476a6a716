/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/guard/frozen.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/io/file.h"

/* The list is the text of its file: lines, in the order of freezing. It is short and changed by
 * people, so looking through it costs nothing that matters. */
struct led_frozen {
    const struct ron_env *env;
    char path[1100]; /* "" = memory only */
    struct ron_buf lines;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static bool next_line(struct ron_str *rest, struct ron_str *ret_line)
{
    const char *end = rest->len == 0 ? NULL : memchr(rest->ptr, '\n', rest->len);

    if (end == NULL) {
        return false;
    }
    *ret_line = (struct ron_str){rest->ptr, (size_t)(end - rest->ptr)};
    rest->len -= ret_line->len + 1;
    rest->ptr = end + 1;
    return true;
}

static struct ron_str text_of(const struct led_frozen *f)
{
    return (struct ron_str){(const char *)ron_buf_data(&f->lines), ron_buf_len(&f->lines)};
}

static bool is_listed(const struct led_frozen *f, struct ron_str account)
{
    struct ron_str rest = text_of(f);
    struct ron_str line;

    while (next_line(&rest, &line)) {
        if (line.len == account.len && memcmp(line.ptr, account.ptr, line.len) == 0) {
            return true;
        }
    }
    return false;
}

/* `path`: where the lines come from. */
static enum ron_rc check(struct ron_str rest, const char *path, struct ron_err *err)
{
    struct ron_str line;
    size_t count = 0;

    while (next_line(&rest, &line)) {
        if (!led_account_valid(line) || ++count > LED_FROZEN_MAX) {
            return ron_err_set(err, RON_CORRUPT, "%s: line %zu is not an account", path, count + 1);
        }
    }
    return rest.len == 0 ? RON_OK
                         : ron_err_set(err, RON_CORRUPT, "%s: the last line has no end", path);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led_frozen_new(const struct ron_env *env, const char *dir,
                           struct led_frozen **ret_frozen, struct ron_err *err)
{
    struct led_frozen *f = ron_alloc_zero(sizeof *f);
    enum ron_rc rc = RON_OK;

    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the list of frozen accounts");
    }
    f->env = env;
    ron_buf_init(&f->lines, LED_FROZEN_BYTES_MAX);
    if (dir != NULL) {
        (void)snprintf(f->path, sizeof f->path, "%s/frozen", dir);
        rc = ron_file_read_all(env, f->path, &f->lines, err);
        rc = rc == RON_NOTFOUND ? RON_OK : rc;
        rc = rc == RON_OK ? check(text_of(f), f->path, err) : rc;
    }
    if (rc != RON_OK) {
        led_frozen_free(f);
        return rc;
    }
    *ret_frozen = f;
    return RON_OK;
}

void led_frozen_free(struct led_frozen *f)
{
    if (f != NULL) {
        ron_buf_done(&f->lines);
        ron_free(f);
    }
}

enum ron_rc led_frozen_apply(struct led_frozen *f, struct led_book *book, struct ron_err *err)
{
    struct ron_str rest = text_of(f);
    struct ron_str line;

    while (next_line(&rest, &line)) {
        if (led_book_freeze(book, line, true) != RON_OK) {
            return ron_err_set(err, RON_NOMEM, "%.*s could not be frozen", (int)line.len, line.ptr);
        }
    }
    return RON_OK;
}

enum ron_rc led_frozen_each(const struct led_frozen *f, led_frozen_fn *each, void *arg,
                            struct ron_err *err)
{
    struct ron_str rest = text_of(f);
    struct ron_str line;

    while (next_line(&rest, &line)) {
        RON_TRY(each(arg, line, err));
    }
    return RON_OK;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* The list without the account, and with it at the end when it is frozen now. */
static enum ron_rc write_list(const struct led_frozen *f, struct ron_str account, bool frozen,
                              struct ron_buf *out)
{
    struct ron_str rest = text_of(f);
    struct ron_str line;
    size_t count = 0;

    while (next_line(&rest, &line)) {
        if (frozen && ++count == LED_FROZEN_MAX) {
            return RON_LIMIT; /* a longer list would not be read at the next start */
        }
        if (line.len != account.len || memcmp(line.ptr, account.ptr, line.len) != 0) {
            (void)ron_buf_append(out, line.ptr, line.len + 1); /* the first failure sticks */
        }
    }
    if (frozen) {
        (void)ron_buf_append(out, account.ptr, account.len);
        (void)ron_buf_append(out, "\n", 1);
    }
    return ron_buf_error(out);
}

static enum ron_rc save(const struct led_frozen *f, const struct ron_buf *lines,
                        struct ron_err *err)
{
    return f->path[0] == '\0' ? RON_OK
                              : ron_file_replace(f->env, f->path, ron_buf_data(lines),
                                                 ron_buf_len(lines), 0600, err);
}

enum ron_rc led_frozen_set(struct led_frozen *f, struct ron_str account, bool frozen,
                           struct ron_err *err)
{
    struct ron_buf fresh;
    enum ron_rc rc;

    if (is_listed(f, account) == frozen) {
        return RON_OK;
    }
    ron_buf_init(&fresh, LED_FROZEN_BYTES_MAX);
    rc = write_list(f, account, frozen, &fresh);
    rc = rc == RON_OK ? save(f, &fresh, err)
                      : ron_err_set(err, rc, "the list of frozen accounts is full");
    if (rc != RON_OK) {
        ron_buf_done(&fresh);
        return rc;
    }
    ron_buf_done(&f->lines);
    f->lines = fresh;
    return RON_OK;
}

enum ron_rc led_frozen_replace(struct led_frozen *f, struct ron_buf *lines, struct led_book *book,
                               struct ron_err *err)
{
    struct ron_str fresh = {(const char *)ron_buf_data(lines), ron_buf_len(lines)};
    struct ron_str rest = text_of(f);
    struct ron_str line;

    RON_TRY(check(fresh, "the shared list of frozen accounts", err));
    RON_TRY(save(f, lines, err));
    while (next_line(&rest, &line)) { /* those that stay are frozen again below */
        RON_IGNORE(led_book_freeze(book, line, false));
    }
    ron_buf_done(&f->lines);
    f->lines = *lines;
    ron_buf_init(lines, LED_FROZEN_BYTES_MAX);
    return led_frozen_apply(f, book, err);
}
