/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - whole-file operations; contract in ron/io/file.h.
 *
 * Place: io. Only ports are called, never the system.
 *
 * Invariants:
 *   I1 a path given to ron_file_replace never names a partial file: bytes reach it by rename only,
 *      after a sync that succeeded.
 *   I2 a directory that ron_mkdirs reports as made is durable; one whose parent could not be synced
 *      is taken back, so that a later call does not mistake it for a durable one.
 *
 * Failure: nothing is retried. A failed sync says nothing about what is on disk, so the temporary
 * goes. */
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/io/file.h"

/* "a/b" -> "a", "/b" -> "/", "b" -> ".". */
static enum ron_rc parent_of(const char *path, char *buf, size_t size, struct ron_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = 1;
    const char *parent = ".";

    if (slash != NULL) {
        parent = path;
        len = slash == path ? 1 : (size_t)(slash - path);
    }
    if (len >= size) {
        return ron_err_set(err, RON_LIMIT, "path of %zu bytes is too long", strlen(path));
    }
    memcpy(buf, parent, len);
    buf[len] = '\0';
    return RON_OK;
}

enum ron_rc ron_file_read_all(const struct ron_env *env, const char *path, struct ron_buf *buf,
                              struct ron_err *err)
{
    int fd = -1;
    uint64_t size = 0;
    uint8_t *room = NULL;
    size_t got = 0;
    enum ron_rc rc = RON_OK;

    RON_TRY(env->disk->open(env, path, RON_OPEN_READ, 0, &fd, err));
    rc = env->disk->size(env, fd, &size);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "cannot learn the size of %s", path);
        goto out;
    }
    if (size > buf->max - buf->len) {
        rc = ron_err_set(err, RON_LIMIT, "%s has %llu bytes, at most %zu are allowed", path,
                         (unsigned long long)size, buf->max - buf->len);
        goto out;
    }
    if (size == 0) {
        goto out;
    }
    rc = ron_buf_reserve(buf, (size_t)size, &room);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "no room for %s", path);
        goto out;
    }
    rc = env->disk->pread(env, fd, room, (size_t)size, 0, &got);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "cannot read %s", path);
        goto out;
    }
    ron_buf_commit(buf, got);
out:
    env->disk->close(env, fd);
    return rc;
}

/* ---- secrets --------------------------------------------------------------------------------- */

static enum ron_rc check_private(const struct ron_file_stat *st, const char *path, size_t size,
                                 struct ron_err *err)
{
    if (st->is_dir) {
        return ron_err_set(err, RON_INVALID, "%s is a directory", path);
    }
    if (!st->is_file) {
        return ron_err_set(err, RON_INVALID, "%s is not a regular file", path);
    }
    if (!st->owned) {
        return ron_err_set(err, RON_DENIED, "%s belongs to another user", path);
    }
    if ((st->mode & 077) != 0) {
        return ron_err_set(err, RON_DENIED, "%s has mode %04o: others may use it; chmod 600", path,
                           (unsigned)st->mode);
    }
    if (st->size_bytes > size) {
        return ron_err_set(err, RON_LIMIT, "%s is larger than a key file can be", path);
    }
    return RON_OK;
}

enum ron_rc ron_file_read_private(const struct ron_env *env, const char *path, void *memory,
                                  size_t size, size_t *ret_len, struct ron_err *err)
{
    struct ron_file_stat st;
    size_t len = 0;
    int fd = -1;
    enum ron_rc rc;

    /* Before it is opened too: a pipe would keep us waiting for somebody to write. */
    rc = env->disk->stat(env, path, &st);
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        return ron_err_set(err, rc, "cannot look at %s", path);
    }
    if (rc == RON_OK && !st.is_file) {
        return check_private(&st, path, size, err);
    }
    RON_TRY(env->disk->open(env, path, RON_OPEN_READ, 0, &fd, err));
    rc = env->disk->stat_fd(env, fd, &st);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "cannot look at %s", path);
        goto out;
    }
    RON_GOTO(check_private(&st, path, size, err), out);
    rc = env->disk->pread(env, fd, memory, size, 0, &len);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "cannot read %s", path);
        goto out;
    }
    *ret_len = len;
out:
    env->disk->close(env, fd);
    return rc;
}

/* ---- replacing ------------------------------------------------------------------------------- */

/* Fills and syncs the temporary. On failure it may be left behind. */
static enum ron_rc write_temp(const struct ron_env *env, const char *temp, const void *bytes,
                              size_t len, uint32_t mode, struct ron_err *err)
{
    int fd = -1;
    enum ron_rc rc = env->disk->remove(env, temp, NULL);

    /* A left-over would keep its mode, owner or the place that it links to. */
    if (rc == RON_OK || rc == RON_NOTFOUND) {
        rc = env->disk->open(env, temp, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, mode, &fd,
                             err);
    } else {
        rc = ron_err_set(err, rc, "%s: a left-over temporary cannot be removed", temp);
    }

    if (rc != RON_OK) {
        return rc;
    }
    rc = len == 0 ? RON_OK : env->disk->pwrite(env, fd, bytes, len, 0, err);
    if (rc == RON_OK) {
        rc = env->disk->sync(env, fd, false, err);
    }
    env->disk->close(env, fd);
    return rc;
}

enum ron_rc ron_file_replace(const struct ron_env *env, const char *path, const void *bytes,
                             size_t len, uint32_t mode, struct ron_err *err)
{
    char temp[RON_FILE_PATH_SIZE];
    char parent[RON_FILE_PATH_SIZE];
    int written = snprintf(temp, sizeof temp, "%s.tmp", path);
    enum ron_rc rc = RON_OK;

    if (written < 0 || (size_t)written >= sizeof temp) {
        return ron_err_set(err, RON_LIMIT, "path of %zu bytes is too long", strlen(path));
    }
    RON_TRY(parent_of(path, parent, sizeof parent, err));
    rc = write_temp(env, temp, bytes, len, mode, err);
    if (rc == RON_OK) {
        rc = env->disk->rename(env, temp, path, err); /* keeps I1 */
    }
    if (rc != RON_OK) {
        /* The first failure is the one to report; a temporary that stays is cleared by the next
         * call. */
        (void)env->disk->remove(env, temp, NULL);
        return rc;
    }
    return env->disk->sync_dir(env, parent, err);
}

/* Makes one directory whose parent exists. */
static enum ron_rc make_one(const struct ron_env *env, const char *path, uint32_t mode,
                            struct ron_err *err)
{
    char parent[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    enum ron_rc rc = env->disk->stat(env, path, &st);

    if (rc == RON_OK) {
        return st.is_dir ? RON_OK
                         : ron_err_set(err, RON_EXISTS, "%s is there and is not a directory", path);
    }
    if (rc != RON_NOTFOUND) {
        return ron_err_set(err, rc, "cannot look at %s", path);
    }
    RON_TRY(parent_of(path, parent, sizeof parent, err));
    rc = env->disk->mkdir(env, path, mode, err);
    if (rc == RON_EXISTS) {
        /* Another process was faster; its directory is as good once the parent is synced. */
        return env->disk->sync_dir(env, parent, err);
    }
    RON_TRY(rc);
    rc = env->disk->sync_dir(env, parent, err);
    if (rc != RON_OK) {
        (void)env->disk->rmdir(env, path, NULL); /* keeps I2; the sync is the failure to report */
    }
    return rc;
}

enum ron_rc ron_mkdirs(const struct ron_env *env, const char *path, uint32_t mode,
                       struct ron_err *err)
{
    char prefix[RON_FILE_PATH_SIZE];
    size_t len = strlen(path);

    if (len == 0) {
        return ron_err_set(err, RON_INVALID, "the directory has no name");
    }
    if (len >= sizeof prefix) {
        return ron_err_set(err, RON_LIMIT, "path of %zu bytes is too long", len);
    }
    memcpy(prefix, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        /* A prefix ends where a component ends; repeated and closing slashes end nothing. */
        if ((prefix[i] == '/' || prefix[i] == '\0') && prefix[i - 1] != '/') {
            char end = prefix[i];
            prefix[i] = '\0';
            RON_TRY(make_one(env, prefix, mode, err));
            prefix[i] = end;
        }
    }
    return RON_OK;
}
