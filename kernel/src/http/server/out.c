/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/out.c - what a connection still has to send: copied bytes, then a blob
 * that is not copied.
 *
 * Place: http, between answer.c, which makes the bytes, and transport.c. On the worker that owns
 * the connection.
 *
 * All answers of a turn are gathered in the worker's scratch buffer and leave with one system call;
 * a large body goes out from where it lies, behind the scratch. Only what the socket does not take
 * is copied into the connection's own `out` (ron/front/out.h). A blob (memory or file that somebody
 * lends us) is never copied: what is not sent stays as `tail`.
 *
 * Invariants (C2 is in priv.h):
 *   O1 the order on the wire is out, tail; nothing is put behind a tail before it is sent.
 *   O2 a tail is released exactly once: when it is sent, or when the connection goes.
 *   O3 one call sends at most HTTP_TURN_BYTES of a tail, or HTTP_TURN_FILE; the rest waits in the
 *      worker's list until the others had their turn, so a fast reader of something large does not
 *      hold the worker.
 *   O4 a head whose file follows leaves in one segment with its beginning: a small segment before
 *      each large answer keeps the peer's window from growing, and both sides wait for each other
 *      (docs/performance/interop.md, "GET /o of 1 MiB"). */
#include <string.h>
#include <sys/uio.h>

#include "http/server/priv.h"
#include "ron/base/assert.h"

/* ---- copied bytes ---------------------------------------------------------------------------- */

/* What the socket did not take. */
static void keep_rest(struct http_conn *c, const void *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    if (!ron__http_sending(c)) {
        ron_out_start(&c->out, c->w->now_ms);
    }
    if (!ron_out_keep(&c->out, &c->w->server->answer_memory, bytes, len)) {
        ron_stat_bump(&c->w->rejected[RON_HTTP_MEMORY], 1);
        ron_stat_bump(&c->w->answers_dropped, 1);
        c->dead = true; /* An answer that cannot be kept cannot be finished. */
    }
}

/* Writes both parts as far as the socket takes them; returns how much that was. */
static size_t write_both(struct http_conn *c, const void *a, size_t a_len, const void *b,
                         size_t b_len)
{
    size_t done = 0;

    while (done < a_len + b_len) {
        struct iovec iov[2];
        int count = ron_gather(iov, a, a_len, b, b_len, done);
        size_t n = ron__http_writev(c, iov, count);

        if (n == 0) {
            break;
        }
        done += n;
    }
    return done;
}

static void flush_out(struct http_conn *c)
{
    size_t len = ron_out_len(&c->out);

    if (len > 0 && !c->dead) {
        ron_out_taken(&c->out, &c->w->server->answer_memory,
                      write_both(c, ron_buf_data(&c->out.kept), len, NULL, 0), c->w->now_ms);
    }
}

/* Writes the scratch buffer and `body` behind it; returns how much of the body the socket took.
 * What it did not take of the scratch is kept. `more` (without a body): a file follows, O4. */
static size_t flush_with(struct http_conn *c, const void *body, size_t len, bool more)
{
    struct ron_buf *out = &c->w->out;
    size_t head = ron_buf_len(out);
    size_t done = 0;

    if (ron_buf_error(out) != RON_OK) {
        c->dead = true;
    }
    if (!c->dead && head + len > 0) {
        RON_ASSERT(!c->has_tail); /* O1 */
        if (ron_out_len(&c->out) == 0) {
            done = more ? ron__http_write_more(c, ron_buf_data(out), head)
                        : write_both(c, ron_buf_data(out), head, body, len);
        }
        if (!c->dead && done < head) {
            keep_rest(c, ron_buf_data(out) + done, head - done);
        }
    }
    ron_buf_clear(out);
    return done > head ? done - head : 0;
}

void ron__http_flush(struct http_conn *c, const void *body, size_t len)
{
    size_t done = flush_with(c, body, len, false);

    if (!c->dead && done < len) {
        keep_rest(c, (const char *)body + done, len - done);
    }
}

/* ---- the tail -------------------------------------------------------------------------------- */

void ron__http_tail_drop(struct http_conn *c)
{
    if (!c->has_tail) {
        return;
    }
    c->has_tail = false; /* O2 */
    if (c->tail.release != NULL) {
        c->tail.release(c->tail.arg);
    }
}

static void tail_sent(struct http_conn *c, size_t len)
{
    c->tail.offset += len;
    c->tail.length -= len;
    if (len > 0) {
        ron_out_progress(&c->out, len, c->w->now_ms);
    }
    if (c->tail.length == 0) {
        ron__http_tail_drop(c);
    }
}

void ron__http_wait_turn(struct http_conn *c)
{
    if (!c->waits_turn) {
        c->waits_turn = true;
        ron_list_push_back(&c->w->turns, &c->turn);
        ron_task_wake(c->w->task);
    }
}

static void push_tail(struct http_conn *c)
{
    bool is_file = c->tail.bytes == NULL && c->tls == NULL;
    size_t turn = is_file ? HTTP_TURN_FILE : HTTP_TURN_BYTES;

    while (c->has_tail && turn > 0 && !c->dead) {
        size_t want = c->tail.length < turn ? (size_t)c->tail.length : turn;
        size_t n;

        if (c->tail.bytes != NULL) {
            struct iovec iov = {(char *)(uintptr_t)c->tail.bytes + c->tail.offset, want};

            n = ron__http_writev(c, &iov, 1);
        } else {
            n = ron__http_sendfile(c, c->tail.fd, c->tail.offset, want);
        }
        if (n == 0) {
            return;
        }
        turn -= n;
        tail_sent(c, n);
    }
    if (c->has_tail && !c->dead) {
        ron__http_wait_turn(c); /* O3 */
    }
}

/* The bytes of a short file in the free room behind the scratch: there they leave together with
 * their head. NULL when it is not worth it or cannot be done; sendfile then goes its own way, and
 * meets whatever is wrong with the file. The worker may wait for the disk, as it does there. */
static const void *short_file(struct http_conn *c, const struct ron_http_blob *blob)
{
    const struct ron_env *env = c->w->env;
    size_t len = (size_t)blob->length;
    uint8_t *room = NULL;
    size_t got = 0;
    bool may_block;
    enum ron_rc rc;

    if (blob->length > HTTP_SHORT_FILE || ron_out_len(&c->out) > 0 ||
        ron_buf_reserve(&c->w->out, len, &room) != RON_OK) {
        return NULL;
    }
    may_block = ron_thread_set_may_block(true);
    rc = env->disk->pread(env, blob->fd, room, len, blob->offset, &got);
    (void)ron_thread_set_may_block(may_block);
    return rc == RON_OK && got == len ? room : NULL;
}

void ron__http_tail_set(struct http_conn *c, const struct ron_http_blob *blob)
{
    size_t first = blob->length < HTTP_TURN_BYTES ? (size_t)blob->length : HTTP_TURN_BYTES;
    const void *body =
        blob->bytes != NULL ? (const char *)blob->bytes + blob->offset : short_file(c, blob);
    size_t done = flush_with(c, body, body != NULL ? first : 0, body == NULL);

    RON_ASSERT(blob->length > 0);
    if (!ron__http_sending(c)) {
        ron_out_start(&c->out, c->w->now_ms);
    }
    c->tail = *blob;
    c->has_tail = true;
    tail_sent(c, done);
    if (c->has_tail && ron_out_len(&c->out) == 0 && (done == first || body == NULL)) {
        push_tail(c);
    }
}

void ron__http_push(struct http_conn *c)
{
    flush_out(c);
    if (c->has_tail && ron_out_len(&c->out) == 0) {
        push_tail(c);
    }
}

void ron__http_turns_run(struct http_worker *w)
{
    struct ron_list now;

    ron_list_init(&now);
    ron_list_splice_back(&now, &w->turns);
    for (;;) {
        struct ron_list_node *node = ron_list_pop_front(&now);
        struct http_conn *c;

        if (node == NULL) {
            return;
        }
        c = RON_LIST_ENTRY(node, struct http_conn, turn);
        c->waits_turn = false;
        ron__http_conn_go_on(c);
    }
}
