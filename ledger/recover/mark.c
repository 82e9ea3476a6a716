/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/mark.c - the markers of safe mode and of imports; the contract is in mark.h. */
#include "ledger/recover/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/str.h"
#include "ron/io/file.h"

enum { MARK_BYTES_MAX = 1024 };

static const char file_name[] = "safe-mode";
static const char import_name[] = "import-unfinished";
static const char first_line[] = "ron-ledger safe mode";

enum ron_rc led_path(const char *dir, const char *name, char *ret_path, size_t size,
                     struct ron_err *err)
{
    const char *slash = dir[0] == '\0' ? "" : "/";
    int len = snprintf(ret_path, size, "%s%s%s", dir, slash, name);

    if (len < 0 || (size_t)len >= size) {
        return ron_err_set(err, RON_LIMIT, "the path of %s is too long", name);
    }
    return RON_OK;
}

/* Copies what fits, printable. */
static void copy_why(const char *why, size_t len, char *ret)
{
    size_t at;

    for (at = 0; at < len && at < LED_MARK_WHY_MAX - 1; at++) {
        bool printable = why[at] >= ' ' && why[at] <= '~';

        ret[at] = '?';
        if (printable) {
            ret[at] = why[at];
        }
    }
    ret[at] = '\0';
}

enum ron_rc led_mark_write(const struct ron_env *env, const char *dir, const char *why,
                           struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    char text[MARK_BYTES_MAX];
    char clean[LED_MARK_WHY_MAX];
    int len;

    copy_why(why, strlen(why), clean);
    len = snprintf(text, sizeof text, "%s\nsince %" PRIu64 "\nwhy %s\n", first_line,
                   ron_env_wall_ms(env), clean);
    if (len < 0 || (size_t)len >= sizeof text) {
        return ron_err_set(err, RON_LIMIT, "the marker is too long");
    }
    RON_TRY(led_path(dir, file_name, path, sizeof path, err));
    return ron_file_replace(env, path, text, (size_t)len, 0600, err);
}

static void parse_mark(struct ron_str text, struct led_mark *mark)
{
    struct ron_str line;
    uint64_t since;

    copy_why("the marker cannot be read", 25, mark->why);
    if (!ron_str_line(&text, &line) || !ron_str_is(line, first_line) ||
        !ron_str_line(&text, &line) || !ron_str_skip(&line, RON_STR_LIT("since ")) ||
        !ron_str_u64(line, UINT64_MAX, &since) || !ron_str_line(&text, &line) ||
        !ron_str_skip(&line, RON_STR_LIT("why ")) || text.len != 0) {
        return;
    }
    mark->since_ms = since;
    copy_why(line.ptr, line.len, mark->why);
}

enum ron_rc led_mark_read(const struct ron_env *env, const char *dir, struct led_mark *ret_mark,
                          struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    char memory[MARK_BYTES_MAX + 1];
    struct ron_buf text;
    struct led_mark mark = {.set = true};
    enum ron_rc rc;

    RON_TRY(led_path(dir, file_name, path, sizeof path, err));
    ron_buf_init_over(&text, memory, sizeof memory);
    rc = ron_file_read_all(env, path, &text, NULL);
    if (rc == RON_NOMEM) {
        return ron_err_set(err, rc, "no memory to read %s", path);
    }
    if (rc == RON_NOTFOUND) {
        mark.set = false;
    } else if (rc != RON_OK) {
        ron_buf_clear(&text);
    }
    if (mark.set) {
        parse_mark((struct ron_str){(const char *)ron_buf_data(&text), ron_buf_len(&text)}, &mark);
    }
    *ret_mark = mark;
    return RON_OK;
}

static enum ron_rc remove_file(const struct ron_env *env, const char *dir, const char *name,
                               struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    RON_TRY(led_path(dir, name, path, sizeof path, err));
    rc = env->disk->remove(env, path, err);
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        return rc;
    }
    return env->disk->sync_dir(env, dir[0] == '\0' ? "." : dir, err);
}

enum ron_rc led_mark_remove(const struct ron_env *env, const char *dir, struct ron_err *err)
{
    return remove_file(env, dir, file_name, err);
}

/* ---- imports --------------------------------------------------------------------------------- */

enum ron_rc led_mark_import(const struct ron_env *env, const char *dir, struct ron_err *err)
{
    static const char text[] = "An import into this directory did not finish: what is here is a "
                               "part of a ledger.\nRemove the directory and import again.\n";
    char path[RON_FILE_PATH_SIZE];

    RON_TRY(led_path(dir, import_name, path, sizeof path, err));
    return ron_file_replace(env, path, text, sizeof text - 1, 0600, err);
}

enum ron_rc led_check_import(const struct ron_env *env, const char *dir, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    enum ron_rc rc;

    RON_TRY(led_path(dir, import_name, path, sizeof path, err));
    rc = env->disk->stat(env, path, &st);
    if (rc == RON_IO) {
        return ron_err_set(err, rc, "%s cannot be looked at", path);
    }
    if (rc != RON_OK) {
        return RON_OK; /* not there, or there is no way to it, as the opening will say */
    }
    return ron_err_set(err, RON_CONFLICT,
                       "an import did not finish: remove the directory and import again: %s", dir);
}

enum ron_rc led_unmark_import(const struct ron_env *env, const char *dir, struct ron_err *err)
{
    return remove_file(env, dir, import_name, err);
}
