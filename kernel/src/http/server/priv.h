/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/priv.h - records of server, worker, connection and reply; shared by the
 * files of http/.
 *
 * States of a connection, and no other edge:
 *
 *     IDLE --first byte--> HEAD --head complete--> BODY --body complete--> handler
 *     handler --answered--> IDLE or HEAD (bytes of the next request are there)
 *     handler --deferred--> WAIT --reply, or deadline--> IDLE or HEAD
 *     HEAD --head complete, streamed route, deferred--> UPLOAD --body complete--> WAIT
 *     UPLOAD --early reply, or a limit--> closing
 *     WAIT, UPLOAD --answer begun--> STREAM --ended by its holder, all sent--> IDLE or HEAD
 *     any --last answer written (closing)--> LINGER --peer's FIN, or time--> gone
 *     any --peer reset, write timeout (dead)--> gone
 *
 * Invariants:
 *   C1 a connection, its timer and its buffers are touched by its worker only.
 *   C2 at the end of each turn the worker's scratch `out` is empty: what the socket did not take is
 *      in the connection's own `out` and `tail`, and while those are not empty no further request
 *      is begun.
 *   C3 an IDLE connection without bytes holds no buffer.
 *   C4 a deferred request's buffers live until its reply comes back: when the connection goes
 *      first, they move into the reply.
 *   C5 a reply is in exactly one place: free list, holder, or on its way back. */
#pragma once

#include "http/server/pipe.h"
#include "http/tls/lane.h"
#include "ron/base/arena.h"
#include "ron/base/pool.h"
#include "ron/base/rand.h"
#include "ron/base/ulid.h"
#include "ron/front/handback.h"
#include "ron/front/intake.h"
#include "ron/front/out.h"
#include "ron/guard/limiter.h"
#include "ron/http/server.h"
#include "ron/io/addr.h"

enum {
    HTTP_CONN_MAGIC = 0x68636f6e,
    HTTP_REPLY_MAGIC = 0x68726570,
    HTTP_SERVER_MAGIC = 0x68737276,
    HTTP_CHUNK_ROOM = 1024, /* left behind a full head, to read chunk lines into */
    HTTP_OUT_BYTES = 65536, /* of the scratch buffer; flushed when half full */
    HTTP_OUT_FLUSH = 32768,
    HTTP_TURN_BYTES = 1 << 18, /* moved in one go: some tens of microseconds of copying */
    HTTP_TURN_FILE = 1 << 20,  /* the same of a file, of which nothing is copied here */
    /* Files up to here are read and sent with their head: two copies cost less than
     * sendfile. */
    HTTP_SHORT_FILE = 16384,
    HTTP_TURN_REQUEST = 2048,      /* a request counts like so many: 128 small ones are a turn */
    HTTP_EXTRA_BYTES = 40960,      /* headers that a handler adds: all those of an origin */
    HTTP_REPLY_EXTRA_BYTES = 1024, /* of a reply, in its record; more is fetched */
    HTTP_REPLY_KEEP_BYTES = 16384, /* a reply keeps a body buffer up to this size */
    HTTP_SEGMENTS_MAX = 16,
    HTTP_LINGER_BYTES =
        1 << 20,             /* a peer that sends more after our FIN is not worth the courtesy */
    HTTP_LAST_SEND_MS = 800, /* below the shortest drain: a reader cannot make it a bad one */
    HTTP_LAST_LOOK_MS = 10,
    HTTP_KEY_BYTES = 17,
};

struct http_worker;

/* ---- router ---------------------------------------------------------------------------------- */

enum http_seg_kind { HTTP_SEG_LITERAL, HTTP_SEG_U64, HTTP_SEG_TEXT, HTTP_SEG_REST };

struct http_seg {
    enum http_seg_kind kind;
    struct ron_str text; /* of a literal */
};

/* Where a route is served, and what a listener serves. */
enum http_place { HTTP_PLACE_MAIN = 1u << 0, HTTP_PLACE_OPS = 1u << 1, HTTP_PLACE_ADMIN = 1u << 2 };

struct http_route {
    const struct ron_http_route *def;
    uint32_t places;
    char first; /* of the first segment when that is a literal, else 0: most routes end here */
    uint32_t seg_count;
    struct http_seg segs[HTTP_SEGMENTS_MAX];
};

struct http_param {
    struct ron_str text;
    uint64_t number;
    bool is_number;
};

struct http_match {
    const struct http_route *route; /* NULL when `reason` is set */
    enum ron_http_reason reason;
    uint32_t allow; /* bit per method that the path takes */
    size_t count;
    struct http_param params[RON_HTTP_PARAMS_MAX];
};

enum ron_rc ron__http_routes_compile(const struct ron_http_route *defs, size_t count,
                                     struct http_route *routes, struct ron_err *err);
/* Routes of other places do not exist. Decoded parameters are written to `room` of
 * RON_HTTP_PARAM_BYTES. */
void ron__http_route_find(const struct http_route *routes, size_t count, uint32_t places,
                          const struct ron_http_head *head, char *room, struct http_match *ret);

/* ---- connection ------------------------------------------------------------------------------ */

enum http_state {
    HTTP_IDLE,
    HTTP_HEAD,
    HTTP_BODY,
    HTTP_UPLOAD,
    HTTP_WAIT,
    HTTP_STREAM,
    HTTP_LINGER,
};

/* Who is at the other end, small. */
struct http_peer {
    enum ron_addr_kind kind;
    uint16_t port;
    uint8_t ip[16];
    bool has_uid; /* a Unix peer, and the system said whose */
    uint32_t uid;
};

/* Input of a connection and what was parsed out of it. */
struct http_in {
    struct ron_http_parser parser;
    struct http_match match;
    struct ron_trace_ctx trace; /* of the request; not valid without a tracer */
    uint8_t trace_parent[RON_SPAN_ID_BYTES];
    char decoded[RON_HTTP_PARAM_BYTES];
    char bytes[RON_HTTP_IN_BYTES + HTTP_CHUNK_ROOM];
};

struct http_conn {
    uint32_t magic;
    enum http_state state;
    struct http_worker *w;
    const struct http_listener *listener;
    struct ron_io io;
    struct ron_timer timer;
    struct ron_list_node link;
    struct ron_limiter_ref *bucket; /* of the address, or of the instance */
    struct http_peer peer;
    struct tls_conn *tls; /* NULL: plain */
    uint64_t armed_ms;    /* when the timer fires, which may be before anything is due */

    bool readable; /* the socket may have bytes */
    bool hup;      /* the peer has closed its side: read until the end is seen */
    bool eof;
    bool closing; /* no further request; LINGER once all is written */
    bool dead;    /* torn down at the end of the turn */
    bool keep;    /* the present request leaves the connection open */
    bool spilled; /* the body goes to `spill` */
    bool counted; /* in the server's number of connections */

    struct http_in *in;
    uint32_t in_at;  /* the present request begins here */
    uint32_t in_len; /* bytes in the buffer */
    uint32_t used;   /* of it, from in_at, taken by the present request */

    enum ron_http_reason refusal; /* to be answered when the body is read */
    uint64_t start_ms;            /* first byte of the request */
    uint64_t progress_ms;         /* last byte of it */
    uint64_t deadline_ms;
    uint64_t body_start_ms;
    uint64_t body_bytes;
    uint64_t body_left; /* Content-Length: bytes still missing */
    uint64_t body_max;
    struct ron_http_chunked chunked;
    bool stalled; /* UPLOAD: the reader is behind, so the socket is not read */
    bool coded;   /* the body has the content coding below */
    enum ron_inflate_coding coding;
    struct ron_buf spill;
    uint64_t charged; /* of the server's body memory, for spill */

    struct ron_out out;
    struct ron_http_blob tail; /* behind out, while has_tail; offset and length move */
    bool has_tail;
    bool sealed;               /* STREAM: the peer has the whole answer */
    bool waits_turn;           /* in the worker's list */
    struct ron_list_node turn; /* in that list */
    uint64_t linger_bytes;
    struct ron_http_reply *reply; /* in WAIT */
};

struct ron_http_reply {
    uint32_t magic;
    struct http_worker *w;
    struct http_conn *conn; /* worker only; NULL once the connection let go */
    struct ron_http_reply *next_free;
    struct ron_handback_node node; /* on the way back to the worker */
    struct ron_au32 cancelled;
    struct ron_deadline deadline;
    struct ron_aptr late; /* const struct ron_http_late *, or NULL */
    char corr_id[RON_HTTP_CORR_ID_MAX];
    uint32_t corr_len;
    struct ron_trace_ctx trace;
    uint32_t minor; /* of the request's version */
    struct http_pipe pipe;
    /* Written by the holder, read by the worker after the hand-over. */
    int status;
    const char *content_type;
    const char *reason;
    enum ron_http_reason reject;
    bool bad;
    bool dated; /* its own Date is in extra */
    struct ron_buf body;
    struct ron_http_blob blob; /* instead of body, when has_blob */
    bool has_blob;
    struct ron_buf extra;
    char extra_room[HTTP_REPLY_EXTRA_BYTES];
    /* C4. */
    struct http_in *in;
    struct ron_buf spill;
    uint64_t charged;
};

/* One call of a handler. */
struct ron_http_call {
    struct http_worker *w;
    struct http_conn *c;
    struct ron_str body;
    struct ron_str corr_id;
    struct ron_deadline deadline;
    struct ron_http_reply *reply;
    bool answered;
    bool streaming;
    bool bare; /* streaming to HTTP/1.0: no chunks, the end is the close */
    bool bad_header;
    bool dated; /* its own Date is in the worker's extra */
};

/* ---- worker and server ----------------------------------------------------------------------- */

/* One of the server's addresses. */
struct http_listener {
    struct ron_http_listener def;
    uint32_t places;
};

struct http_worker {
    struct ron_http_server *server;
    uint32_t index;
    const struct ron_env *env;
    struct ron_task *task;
    bool draining;
    uint64_t drain_ms; /* when that began */
    struct ron_list conns;
    struct ron_list turns; /* connections that go on after the others */
    struct tls_lane tls;   /* zeros when no listener speaks TLS */
    struct ron_pool conn_pool;
    struct ron_pool in_pool;
    struct ron_http_reply *replies;
    uint32_t reply_count;
    uint32_t replies_fresh;
    struct ron_http_reply *replies_free;
    struct ron_handback done;          /* replies sent from any thread */
    struct ron_handback_node *answers; /* taken from there, not yet delivered */
    struct ron_buf out;
    struct ron_inflate *inflate[2]; /* by coding, made when first needed; for whole bodies */
    struct ron_buf extra;
    char extra_room[HTTP_EXTRA_BYTES];
    char corr_room[RON_HTTP_CORR_ID_MAX];

    uint64_t now_ms; /* of this turn */
    uint64_t date_until_ms;
    uint64_t wall_ms; /* at date_read_ms */
    uint64_t date_read_ms;
    char date[64]; /* "Date: ...\r\n" */
    uint32_t date_len;
    struct ron_rand rand;
    struct ron_ulid_gen ulids;

#define X(field, metric, label, value, gauge) struct ron_stat field;
    RON_HTTP_COUNTERS(X)
#undef X
    struct ron_stat rejected[RON_HTTP_REASON_COUNT];
    struct ron_stat statuses[6];
    struct ron_stat *route_statuses; /* [route][6] */
};

struct ron_http_server {
    uint32_t magic;
    struct ron_http_opts opts; /* defaults filled in */
    struct ron_http_limits limits;
    struct ron_reg_entry entry;
    char entry_name[32];
    bool registered;
    struct http_listener listeners[RON_HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct ron_intake *intake;
    struct http_route *routes; /* sorted: literal before parameter */
    struct ron_limiter *limiter;
    struct ron_au32 rate_on; /* no token is asked for while the rate is 0 */
    struct ron_au32 connections;
    struct ron_au32 inflight;
    struct ron_au32 streams;
    struct ron_inflate_opts inflate_opts;
    struct ron_au64 body_memory;
    struct ron_out_memory answer_memory;
    uint32_t worker_count;
    struct http_worker *workers;
};

/* ---- listen.c: sockets to listen on ---------------------------------------------------------- */

/* Before the workers are made. */
void ron__http_listen_init(struct ron_http_server *s);
enum ron_rc ron__http_listen_open(struct ron_http_server *s, const struct ron_intake_ops *ops,
                                  struct ron_err *err);
bool ron__http_peer_allowed(const struct ron_http_listener *def, const struct ron_peer *peer);

/* ---- transport.c: the socket, and what may lie between it and HTTP --------------------------- */

struct iovec;

/* Puts TLS between the socket and HTTP; false when that cannot be had. */
bool ron__http_secure(struct http_conn *c, struct ron_tls_ctx *ctx);
/* The poller says so; first thing in a turn. */
void ron__http_ready(struct http_conn *c, uint32_t events);
/* The handshake is not done: nothing of HTTP has been said. */
static inline bool ron__http_shaking(const struct http_conn *c)
{
    return c->tls != NULL && ron__tls_shaking(c->tls);
}
/* Reads at least one byte; false when there is nothing now, with eof or dead set when that is so
 * for good. */
bool ron__http_read(struct http_conn *c, void *room, size_t len, size_t *ret_len);
/* Writes some; 0 when nothing is taken now, or the connection has become dead. The vector is not
 * empty. */
size_t ron__http_writev(struct http_conn *c, const struct iovec *iov, int count);
/* What is sent next follows at once. */
size_t ron__http_write_more(struct http_conn *c, const void *bytes, size_t len);
/* The same from a file; at least one byte is asked for. */
size_t ron__http_sendfile(struct http_conn *c, int file_fd, uint64_t off, size_t len);
/* After the FIN: reads what nobody wants; false when there is nothing now, or (eof) for good. */
bool ron__http_discard(struct http_conn *c, void *room, size_t len, size_t *ret_len);
/* Tells the peer that nothing more comes; false when it is gone. */
bool ron__http_fin(struct http_conn *c);
void ron__http_hang_up(struct http_conn *c);

/* ---- conn.c: one turn of a connection -------------------------------------------------------- */

/* Reads the clock and refreshes what hangs on it. First thing in every callback. */
void ron__http_tick(struct http_worker *w);
void ron__http_conn_open(struct http_worker *w, const struct http_listener *l, int take_fd,
                         const struct ron_peer *peer);
/* Goes on as far as bytes and socket allow; may free the connection. */
void ron__http_conn_run(struct http_conn *c);
/* The same, when what waits to be sent may go on first. */
void ron__http_conn_go_on(struct http_conn *c);
/* Reads into c->in; false when there is nothing to read now. */
bool ron__http_fill(struct http_conn *c);
void ron__http_conn_destroy(struct http_conn *c);
/* For a lane: this connection's handshake gave way to another. It goes in a turn of its own: the
 * caller may be going through the list of connections. */
void ron__http_conn_evict(void *conn);
/* The last word before the task ends. */
void ron__http_conn_finish(struct http_conn *c);

/* ---- request.c: from head to handler --------------------------------------------------------- */

bool ron__http_request_begin(struct http_conn *c);
bool ron__http_request_body(struct http_conn *c);
/* The request is answered: make ready for the next one. */
void ron__http_request_done(struct http_conn *c);
/* Counts what the spill has grown to; RON_HTTP_MEMORY when that is too much. */
enum ron_http_reason ron__http_spill_charge(struct http_conn *c);
void ron__http_spill_release(struct http_worker *w, struct ron_buf *spill, uint64_t *charged);

/* ---- decode.c: content codings --------------------------------------------------------------- */

/* What a failure of the decoder is answered with. */
enum ron_http_reason ron__http_inflate_reason(enum ron_rc rc);
/* The decoded body takes the place of the one that was sent: it is in the spill. */
enum ron_http_reason ron__http_decode(struct http_conn *c, struct ron_str raw);

/* ---- answer.c: what goes out ----------------------------------------------------------------- */

struct http_answer {
    int status;
    const char *content_type;
    const struct ron_buf *extra; /* header lines, or NULL */
    struct ron_str corr_id;
    uint64_t length;
    bool chunked;
    bool head_only; /* the body comes in pieces */
    bool dated;     /* Date is in extra */
    const char *reason;
};

void ron__http_call_init(struct ron_http_call *call, struct http_conn *c);
/* Head, body unless the method is HEAD, and all counting. */
void ron__http_answer_write(struct http_conn *c, const struct http_answer *a, const void *body);
/* The same with a body that is not copied; released when it is sent or cannot be. */
void ron__http_answer_blob(struct http_conn *c, const struct http_answer *a,
                           const struct ron_http_blob *take_blob);
/* The envelope, for the request that c has or had no time to finish. */
void ron__http_fail_conn(struct http_conn *c, enum ron_http_reason reason, uint32_t retry_after_s);
/* In WAIT: the answer of a request whose reply does not come in time. */
void ron__http_late(struct http_conn *c, const struct ron_http_late *late);
void ron__http_envelope(struct ron_buf *out, const struct ron_http_error *e,
                        struct ron_str corr_id);
enum ron_rc ron__http_add_header(struct ron_buf *extra, const char *name, struct ron_str value);
bool ron__http_is_date(const char *name);
void ron__http_add_error_fields(struct ron_buf *extra, const struct ron_http_error *e);

/* ---- out.c: what is still to be sent --------------------------------------------------------- */

static inline bool ron__http_sending(const struct http_conn *c)
{
    return ron_out_len(&c->out) > 0 || c->has_tail;
}

static inline void ron__http_blob_release(const struct ron_http_blob *b)
{
    if (b->release != NULL) {
        b->release(b->arg);
    }
}

/* Writes the scratch buffer and `body` behind it. */
void ron__http_flush(struct http_conn *c, const void *body, size_t len);
/* Sends the scratch buffer and then the blob, which is not empty, as far as the socket takes it
 * now. */
void ron__http_tail_set(struct http_conn *c, const struct ron_http_blob *blob);
void ron__http_tail_drop(struct http_conn *c);
/* Goes on with what waits. */
void ron__http_push(struct http_conn *c);
/* Goes on after the others had their turn. */
void ron__http_wait_turn(struct http_conn *c);
/* Connections that gave way to others go on. */
void ron__http_turns_run(struct http_worker *w);

/* ---- trace.c: a span for each request -------------------------------------------------------- */

/* Before the handler: joins the caller's trace or begins one. */
void ron__http_trace_begin(struct http_conn *c);
/* With the answer. */
void ron__http_trace_end(struct http_conn *c, const struct ron_http_done *done);

/* ---- reply.c: deferred answers --------------------------------------------------------------- */

/* Delivers up to `max` replies that were sent since the last time, in their order; true when there
 * may be more. */
bool ron__http_replies_take(struct http_worker *w, size_t max);
void ron__http_hand_over(struct ron_http_reply *r);
void ron__http_reply_put(struct ron_http_reply *r);
/* The connection lets go of its reply (C4). */
void ron__http_reply_detach(struct http_conn *c);

/* ---- stream.c: answers in pieces ------------------------------------------------------------- */

/* With the lock of the pipe: who is to be woken; whether the caller must hand the reply over. */
struct http_wake ron__http_pipe_wake(struct http_pipe *p);
bool ron__http_pipe_tell(struct http_pipe *p);
/* Without it. */
void ron__http_wake(struct http_wake wake);
void ron__http_pipe_over(struct ron_http_reply *take_r, enum http_over over);
/* Tells the holder that nobody listens any more; the stream may still be ended well. */
void ron__http_pipe_cancel(struct ron_http_reply *r);
/* The connection is gone. True when the reply is the caller's to put back. */
bool ron__http_pipe_leave(struct ron_http_reply *r);
void ron__http_pipe_reset(struct ron_http_reply *r);
void ron__http_stream_start(struct http_conn *c, struct ron_http_reply *r);
/* Sends the next piece; false when there is none. Nothing waits to be sent. */
bool ron__http_stream_pump(struct http_conn *c);

/* ---- upload.c: request bodies in pieces ------------------------------------------------------ */

/* For a reply that is being taken. RON_FULL, RON_NOMEM. */
enum ron_rc ron__http_upload_prepare(struct ron_http_reply *r, struct http_conn *c);
void ron__http_upload_reset(struct ron_http_reply *r);
/* No more will come, and why. */
void ron__http_upload_cut(struct ron_http_reply *r, enum ron_rc end);
/* Answers that the body cannot be taken; the connection closes. */
bool ron__http_upload_fail(struct http_conn *c, enum ron_http_reason reason);
bool ron__http_upload_run(struct http_conn *c);
