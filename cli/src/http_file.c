/* SPDX-License-Identifier: Apache-2.0 */
/* http_file.c - see http_file.h. */
#include "http_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "ron/http/etag.h"
#include "ron/http/range.h"

enum part { WHOLE, PART, OUTSIDE };

enum ron_rc file_open(struct served_file *f, const struct ron_env *env, const char *path,
                      struct ron_err *err)
{
    struct ron_file_stat stat;

    *f = (struct served_file){.env = env, .fd = -1};
    if (path == NULL) {
        return RON_OK;
    }
    RON_TRY(env->disk->open(env, path, RON_OPEN_READ, 0, &f->fd, err));
    if (env->disk->stat(env, path, &stat) != RON_OK || stat.is_dir) {
        return ron_err_set(err, RON_INVALID, "%s is not a file", path);
    }
    f->size_bytes = stat.size_bytes;
    f->mtime_s = stat.mtime_ms / 1000;
    f->etag_len = (size_t)snprintf(f->etag, sizeof f->etag, "\"%" PRIx64 "-%" PRIx64 "\"",
                                   stat.mtime_ms, f->size_bytes);
    ron_http_date_format(f->mtime_s, f->date);
    return RON_OK;
}

void file_close(struct served_file *f)
{
    if (f->env != NULL && f->fd >= 0) {
        f->env->disk->close(f->env, f->fd);
        f->fd = -1;
    }
}

/* What the header Range asks for. A malformed one is ignored, as RFC 9110 14.2 allows; so are
 * several ranges, because nobody needs multipart here. */
static enum part wanted_part(const struct ron_http_head *head, uint64_t size_bytes,
                             struct ron_http_range *ret_range)
{
    struct ron_http_range ranges[RON_HTTP_RANGES_MAX];
    struct ron_str value;
    size_t count = 0;
    enum ron_rc rc = ron_http_field_get(head, "Range", &value);

    if (rc == RON_OK) {
        rc = ron_http_range_parse(value, size_bytes, ranges, RON_HTTP_RANGES_MAX, &count);
    }
    if (rc == RON_CONFLICT && count == 0) {
        return OUTSIDE;
    }
    if (rc != RON_OK || count != 1) {
        return WHOLE;
    }
    *ret_range = ranges[0];
    return PART;
}

static void add_text(struct ron_http_call *call, const char *name, const char *text, size_t len)
{
    /* A header that does not fit makes the answer 500 by itself. */
    RON_IGNORE(ron_http_add_header(call, name, (struct ron_str){text, len}));
}

static void add_validators(struct ron_http_call *call, const struct served_file *f)
{
    add_text(call, "ETag", f->etag, f->etag_len);
    add_text(call, "Last-Modified", f->date, RON_HTTP_DATE_LEN);
    add_text(call, "Accept-Ranges", "bytes", 5);
}

static void answer_part(struct ron_http_call *call, const struct served_file *f,
                        const struct ron_http_range *range)
{
    char text[RON_HTTP_CONTENT_RANGE_SIZE];

    add_text(call, "Content-Range", text, ron_http_content_range(range, f->size_bytes, text));
    ron_http_answer_blob(call, 206, "application/octet-stream",
                         &(struct ron_http_blob){.fd = f->fd,
                                                 .offset = range->first,
                                                 .length = range->last - range->first + 1});
}

static void answer_outside(struct ron_http_call *call, const struct served_file *f)
{
    char text[RON_HTTP_CONTENT_RANGE_SIZE];

    add_text(call, "Content-Range", text, ron_http_content_range(NULL, f->size_bytes, text));
    ron_http_fail_with(call, &(struct ron_http_error){.status = 416,
                                                      .code = "RANGE",
                                                      .message = "no range lies inside the file",
                                                      .reason = "range"});
}

void file_on_get(struct ron_http_call *call, void *arg)
{
    const struct served_file *f = arg;
    const struct ron_http_head *head = ron_http_head(call);
    struct ron_http_etag etag;
    struct ron_http_range range = {0};
    enum part part = WHOLE;
    uint64_t now_s;

    if (f->fd < 0) {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
        return;
    }
    etag = (struct ron_http_etag){.opaque = {f->etag + 1, f->etag_len - 2}};
    now_s = ron_env_wall_ms(f->env) / 1000;
    add_validators(call, f);
    switch (ron_http_precondition(head, &etag, f->mtime_s, now_s)) {
    case RON_HTTP_NOT_MODIFIED:
        ron_http_answer(call, 304, NULL, NULL, 0);
        return;
    case RON_HTTP_PRECONDITION_FAILED:
        ron_http_fail_with(call, &(struct ron_http_error){.status = 412,
                                                          .code = "PRECONDITION",
                                                          .message = "the file is another one",
                                                          .reason = "precondition"});
        return;
    case RON_HTTP_PROCEED:
        break;
    }
    if (ron_http_if_range(head, &etag, f->mtime_s, now_s)) {
        part = wanted_part(head, f->size_bytes, &range);
    }
    if (part == OUTSIDE) {
        answer_outside(call, f);
    } else if (part == PART) {
        answer_part(call, f, &range);
    } else {
        ron_http_answer_blob(call, 200, "application/octet-stream",
                             &(struct ron_http_blob){.fd = f->fd, .length = f->size_bytes});
    }
}
