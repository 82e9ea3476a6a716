/* SPDX-License-Identifier: Apache-2.0 */
/* interop/audit/verify.c - a whole audit file checked offline; contract in verify.h. */
#include <string.h>

#include "interop/audit/audit.h"
#include "interop/audit/verify.h"
#include "ron/base/alloc.h"

enum { PIECE = 64 * 1024 };

struct reader {
    struct iop_audit_chain chain;
    struct ron_interop_audit_report report;
    struct ron_buf rest; /* of a line that goes on in the next piece */
};

/* `,"dropped":N,` just before "prev": who wrote it put it there. */
static uint64_t dropped_of(struct ron_str line)
{
    static const char name[] = ",\"dropped\":";
    const char *p = memmem(line.ptr, line.len, name, sizeof name - 1);
    uint64_t value = 0;

    for (p = p != NULL ? p + sizeof name - 1 : NULL; p != NULL && *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return value;
}

static enum ron_rc take_line(struct reader *r, struct ron_str line)
{
    struct ron_err why = {0};

    if (iop_audit_check(&r->chain, line, r->report.records == 0, &why) != RON_OK) {
        r->report.bad_line = r->report.records + 1;
        memcpy(r->report.why, why.msg, RON_MIN(sizeof r->report.why, sizeof why.msg));
        r->report.why[sizeof r->report.why - 1] = '\0';
        return RON_CORRUPT;
    }
    r->report.first_seq = r->report.records == 0 ? r->chain.seq : r->report.first_seq;
    r->report.last_seq = r->chain.seq;
    r->report.records++;
    r->report.dropped += dropped_of(line);
    ron_b3_format(&r->chain.hash, r->report.last_hash);
    return RON_OK;
}

static enum ron_rc take_piece(struct reader *r, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *stop = memchr(bytes, '\n', len);
        size_t n = stop != NULL ? (size_t)(stop - bytes) : len;

        if (ron_buf_append(&r->rest, bytes, n) != RON_OK) {
            return take_line(r, (struct ron_str){bytes, 0}); /* too long: no record of ours */
        }
        if (stop == NULL) {
            return RON_OK;
        }
        RON_TRY(take_line(r, (struct ron_str){ron_buf_text(&r->rest), ron_buf_len(&r->rest)}));
        ron_buf_clear(&r->rest);
        bytes += n + 1;
        len -= n + 1;
    }
    return RON_OK;
}

static enum ron_rc read_file(const struct ron_env *env, int fd, struct reader *r,
                             struct ron_err *err)
{
    char *piece = ron_alloc(PIECE);
    enum ron_rc rc = piece != NULL ? RON_OK : RON_NOMEM;
    uint64_t off = 0;
    size_t len = 1;

    while (rc == RON_OK && len > 0) {
        rc = env->disk->pread(env, fd, piece, PIECE, off, &len);
        if (rc == RON_OK) {
            rc = take_piece(r, piece, len);
            off += len;
        }
    }
    if (rc != RON_OK && r->report.bad_line == 0) {
        rc = ron_err_set(err, rc == RON_CORRUPT ? RON_IO : rc, "cannot read the file");
    }
    r->report.torn = ron_buf_len(&r->rest) > 0 && r->report.bad_line == 0;
    ron_free(piece);
    return rc;
}

enum ron_rc ron_interop_audit_verify(const struct ron_env *env, const char *path,
                                     struct ron_interop_audit_report *ret_report,
                                     struct ron_err *err)
{
    struct reader r = {0};
    int fd = -1;
    enum ron_rc rc;

    RON_TRY(env->disk->open(env, path, RON_OPEN_READ, 0, &fd, err));
    ron_buf_init(&r.rest, IOP_AUDIT_LINE_MAX);
    rc = read_file(env, fd, &r, err);
    env->disk->close(env, fd);
    ron_buf_done(&r.rest);
    if (rc == RON_OK || r.report.bad_line > 0) {
        *ret_report = r.report;
    }
    if (r.report.bad_line > 0) {
        return ron_err_set(err, RON_CORRUPT, "line %llu: %s", (unsigned long long)r.report.bad_line,
                           r.report.why);
    }
    return rc;
}
