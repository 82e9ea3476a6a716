/* SPDX-License-Identifier: Apache-2.0 */
/* http_file.h - the route `GET /file` of `ron http`: one file, opened at start and sent by the
 * system, with a strong entity tag, conditions and a single range.
 *
 * Threads: immutable once open, so that every worker may send it. Its bytes must not change. */
#pragma once

#include "ron/http/date.h"
#include "ron/http/server.h"

struct served_file {
    const struct ron_env *env;
    int fd; /* -1: there is none, and the route answers 404 */
    uint64_t size_bytes;
    uint64_t mtime_s;
    char etag[48]; /* with its quotes */
    size_t etag_len;
    char date[RON_HTTP_DATE_SIZE];
};

/* `path` may be NULL. */
RON_MUST_USE enum ron_rc file_open(struct served_file *f, const struct ron_env *env,
                                   const char *path, struct ron_err *err);
void file_close(struct served_file *f);
void file_on_get(struct ron_http_call *call, void *arg); /* its argument is the file */
