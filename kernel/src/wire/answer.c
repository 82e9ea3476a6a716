/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - what goes out: frames into the worker's scratch buffer, gathered writes, the rest
 * kept.
 *
 * Place: wire, on the worker that owns the connection; invariant C2 is in wire_priv.h.
 * Failure: an answer that cannot be kept cannot be finished: the connection dies, and is counted.
 * */
#include <string.h>
#include <sys/uio.h>

#include "ron/base/assert.h"
#include "wire/frame.h"
#include "wire_priv.h"

static void keep_rest(struct oap_conn *c, const void *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    if (ron_out_len(&c->out) == 0) {
        ron_out_start(&c->out, c->w->now_ms);
    }
    if (!ron_out_keep(&c->out, &c->w->server->out_memory, bytes, len)) {
        ron_stat_bump(&c->w->rejected[RON_OAP_MEMORY], 1);
        c->dead = true;
    }
}

size_t ron__oap_write_two(const struct ron_env *env, int fd, const void *a, size_t a_len,
                          const void *b, size_t b_len, struct ron_stat *calls, enum ron_rc *ret_rc)
{
    size_t done = 0;
    enum ron_rc rc = RON_OK;

    while (done < a_len + b_len && rc == RON_OK) {
        struct iovec iov[2];
        int count = ron_gather(iov, a, a_len, b, b_len, done);
        size_t n = 0;

        rc = count == 1 ? env->net->write(env, fd, iov[0].iov_base, iov[0].iov_len, &n)
                        : env->net->writev(env, fd, iov, count, &n);
        ron_stat_bump(calls, 1);
        done += rc == RON_OK ? n : 0;
    }
    *ret_rc = rc;
    return done;
}

static size_t write_both(struct oap_conn *c, const void *a, size_t a_len, const void *b,
                         size_t b_len)
{
    enum ron_rc rc = RON_OK;
    size_t done = ron__oap_write_two(c->w->env, c->io.fd, a, a_len, b, b_len, &c->w->writes, &rc);

    c->dead = c->dead || (rc != RON_OK && rc != RON_AGAIN);
    ron_stat_bump(&c->w->bytes_out, done);
    return done;
}

void ron__oap_flush_out(struct oap_conn *c)
{
    size_t len = ron_out_len(&c->out);

    if (len > 0 && !c->dead) {
        ron_out_taken(&c->out, &c->w->server->out_memory,
                      write_both(c, ron_buf_data(&c->out.kept), len, NULL, 0), c->w->now_ms);
    }
}

void ron__oap_flush(struct oap_conn *c, const void *payload, size_t len)
{
    struct ron_buf *out = &c->w->out;
    size_t front = ron_buf_len(out);
    size_t done = 0;

    if (ron_buf_error(out) != RON_OK) {
        c->dead = true; /* A frame is missing from the stream. */
    }
    if (!c->dead && front + len > 0) {
        if (ron_out_len(&c->out) == 0) {
            done = write_both(c, ron_buf_data(out), front, payload, len);
        }
        if (!c->dead && done < front + len) {
            if (done < front) {
                keep_rest(c, ron_buf_data(out) + done, front - done);
            }
            done = done > front ? done - front : 0;
            if (done < len) {
                keep_rest(c, (const char *)payload + done, len - done);
            }
        }
    }
    ron_buf_clear(out);
}

static void write_frame(struct oap_conn *c, const struct ron_oap_head *head, const uint8_t *payload,
                        size_t len)
{
    struct ron_buf *out = &c->w->out;
    size_t copied = len <= OAP_COPY_MAX ? len : 0;
    uint8_t *room = NULL;

    if (ron_buf_reserve(out, RON_OAP_HEADER_BYTES + copied, &room) != RON_OK) {
        return; /* It sticks; the flush sees it. */
    }
    ron_oap_write_head(head, len, room);
    if (copied > 0) {
        memcpy(room + RON_OAP_HEADER_BYTES, payload, copied);
    }
    ron_buf_commit(out, RON_OAP_HEADER_BYTES + copied);
    if (copied < len) {
        ron__oap_flush(c, payload, len);
    } else if (ron_buf_len(out) >= OAP_OUT_FLUSH) {
        ron__oap_flush(c, NULL, 0);
    }
}

void ron__oap_write(struct oap_conn *c, const struct ron_oap_head *head, const void *payload,
                    size_t len)
{
    struct ron_oap_head h = *head;
    struct ron_oap_cut cut;
    uint16_t piece = 0;
    size_t at = 0;
    size_t n = 0;

    RON_ASSERT(head->cap_len == 0);
    if (len + RON_OAP_HEADER_BYTES <= c->peer_frame_max) {
        write_frame(c, &h, payload, len);
        return;
    }
    ron_oap_cut_init(&cut, len, 0, c->peer_frame_max);
    while (ron_oap_cut_next(&cut, &piece, &at, &n) && !c->dead) {
        h.flags = (uint16_t)(head->flags | piece);
        write_frame(c, &h, (const uint8_t *)payload + at, n);
    }
}

void ron__oap_refuse(struct oap_conn *c, const struct ron_oap_head *head,
                     enum ron_oap_reason reason)
{
    struct ron_oap_error e = ron_oap_error_of(reason);
    struct ron_oap_head h = {
        .flags = RON_OAP_RESP, .code = e.status, .corr_id = head->corr_id, .tenant = head->tenant};
    char room[512];
    struct ron_buf body;

    ron_buf_init_over(&body, room, sizeof room);
    ron_oap_envelope(&body, &e, head->corr_id);
    RON_ASSERT(ron_buf_error(&body) == RON_OK); /* texts of ours: it fits */
    ron_stat_bump(&c->w->rejected[reason], 1);
    ron_stat_bump(&c->w->busy, e.status == 429);
    ron__oap_write(c, &h, ron_buf_data(&body), ron_buf_len(&body));
    c->closing = c->closing || ron_oap_reason_fatal(reason);
}
