/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the HTTP/1.1 front of a service, one listener task per executor worker.
 *
 * Life: ron_http_server_new opens the listeners, ron_http_server_attach adds the tasks ("NAME-0",
 * ...) to a supervisor, and after the supervisor, the executor and every channel that may hold a
 * reply have been freed, and before the registry is, ron_http_server_free ends it.
 *
 * A request is routed, passes the gates (draining, rate, inflight), then the size limit, is read
 * whole, and its handler is called on the worker that owns the connection. The handler must not
 * block. It answers at once (ron_http_answer, ron_http_fail, or begin/chunk/end), or takes a reply
 * with ron_http_defer, hands it to another task and returns. Slices of the request stay valid until
 * the handler has answered, or, when it deferred, until the reply is sent; the call itself is valid
 * only inside the handler.
 *
 * A body in the content coding gzip or zstd is decoded, under caps of its own besides body_max,
 * which counts it as sent and decoded. A route marked RON_HTTP_STREAM takes its body in pieces
 * (ron/http/stream.h).
 *
 * A reply (struct ron_http_reply) belongs to whoever holds it and must be sent exactly once, from
 * any thread; sending gives it back. Sending wakes the owning worker once for many replies. When
 * the client is gone or the deadline has passed, ron_http_reply_cancelled turns true: the holder
 * may stop early, and still has to send; the answer is then dropped.
 *
 * Every answer carries Date, Content-Length (or chunked) and X-Corr-ID. Errors carry the envelope
 * {"code","message","retryable","corr_id","reason"}, and Retry-After with 429 and 503.
 *
 * Drain: the listener task stops taking requests: idle connections are closed, new requests are
 * answered 503 draining, answers under way are finished, and each connection is closed after its
 * answer with FIN, never with reset. An answer that its client has not taken when everything else
 * has ended, and 800 ms after the drain began, is broken off. Routes marked RON_HTTP_ALWAYS
 * (health, metrics) go on. */
#pragma once

#include "ron/base/env.h"
#include "ron/chan/registry.h"
#include "ron/http/parse.h"
#include "ron/obs/trace.h"
#include "ron/task/supervisor.h"

struct ron_http_server;
struct ron_http_call;
struct ron_http_reply;
struct ron_tls_ctx;
struct ron_tls_peer;

typedef void ron_http_handler(struct ron_http_call *call, void *arg);

/* A body that is lent and not copied: memory, or a regular file that the system sends. `release` is
 * called exactly once, on a worker, when the bytes were sent or never will be; until then they
 * must not change. It must not block. */
struct ron_http_blob {
    const void *bytes; /* NULL: the file */
    int fd;
    uint64_t offset;            /* of the first byte, in the memory or the file */
    uint64_t length;            /* a file that turns out shorter breaks the connection */
    void (*release)(void *arg); /* may be NULL */
    void *arg;
};

enum {
    RON_HTTP_PARAMS_MAX = 8,
    RON_HTTP_ROUTES_MAX = 64,    /* the largest service has about thirty */
    RON_HTTP_LISTENERS_MAX = 8,  /* plain and TLS on IPv4 and IPv6, a Unix socket, metrics; spare */
    RON_HTTP_PARAM_BYTES = 1024, /* decoded path parameters of one request, all together */
    RON_HTTP_IN_BYTES = 16384,   /* of a connection's buffer; heads and small bodies live in it */
};

enum ron_http_route_flags {
    RON_HTTP_ALWAYS = 1u << 0, /* passes every gate, draining included: health and metrics */
    RON_HTTP_INLINE = 1u << 1, /* never defers, so a full inflight gate does not stop it */
    RON_HTTP_ADMIN = 1u << 2,  /* exists on admin listeners only */
    RON_HTTP_STREAM = 1u << 3, /* called when the head is there; the body passes in pieces */
    RON_HTTP_RAW = 1u << 4,    /* the body as sent, whatever its Content-Encoding */
};

/* Patterns: "/v1/tx/{id}", "/tile/{level:u64}/{rest*}". A parameter is one whole segment: {name} is
 * text, percent-decoded, not empty, without '/', controls, no "." or ".."; {name:u64} a number;
 * {name*}, last, everything up to the end as sent (it may hold '/'). Literal segments win over
 * parameters. HEAD is served by GET, OPTIONS by the router. */
struct ron_http_route {
    enum ron_http_method method;
    const char *pattern;
    ron_http_handler *handle;
    void *arg;
    uint32_t flags;
    uint64_t body_max; /* 0: that of the server */
};

enum ron_http_listener_flags {
    RON_HTTP_LISTEN_OPS = 1u << 0,   /* routes marked ALWAYS and no others: health and metrics */
    RON_HTTP_LISTEN_ADMIN = 1u << 1, /* routes marked ADMIN too, which are 404 elsewhere */
};

/* An address to listen on. All listeners of a server share its routes, limits and counters. */
struct ron_http_listener {
    const char *addr; /* "127.0.0.1:7200", "[::1]:0", "unix:/run/ron/x.sock" */
    uint32_t flags;
    struct ron_tls_ctx *tls; /* NULL: plain HTTP. Kept; freed after the server */
    /* Unix sockets (made 0600 in a directory that is made 0700): who may connect, by the system's
     * word. [root and the user that the server runs as] Others are answered 403. */
    const uint32_t *uids;
    size_t uid_count;
    const uint32_t *gids;
    size_t gid_count;
};

/* One answered request, told to opts.on_done on the worker's thread. */
struct ron_http_done {
    const struct ron_http_route *route; /* NULL: none matched, or refused before routing */
    enum ron_http_method method;
    int status;
    const char *reason; /* NULL unless it failed */
    uint64_t took_ms;   /* from the first byte of the request to its answer */
    struct ron_str corr_id;
};

/* Whose requests a token bucket counts. */
enum ron_http_scope {
    RON_HTTP_SCOPE_CLIENT,   /* each client has its own: by client_key, else by address */
    RON_HTTP_SCOPE_INSTANCE, /* one for all that client_key does not name */
};

/* Who sends this request, when the service can say it from the head (the id of a capability that it
 * has verified, or of its cache); empty: the address decides. Called on the worker for each request
 * while a rate is set, so it neither blocks nor believes: a name that anyone can invent would free
 * everyone from the limit. */
typedef struct ron_str ron_http_client_key(void *arg, const struct ron_http_head *head);

/* Called on the worker before the server itself refuses a request; adds headers of the service with
 * ron_http_add_header, and does nothing else. `head` is NULL where none could be read. */
typedef void ron_http_refusal(void *arg, struct ron_http_call *call,
                              const struct ron_http_head *head, const struct ron_http_error *error);

/* Zero means the default in brackets. */
struct ron_http_opts {
    const char *name; /* of the tasks and in the registry: [a-z0-9_.-], at most 15 characters */
    const struct ron_env *env;
    struct ron_registry *registry;
    uint32_t workers;                          /* those of the executor */
    const char *addr;                          /* one plain listener; or else: */
    const struct ron_http_listener *listeners; /* copied; what they point to is kept */
    size_t listener_count;
    const struct ron_http_route *routes; /* kept, not copied */
    size_t route_count;
    uint32_t connections_max; /* [2048] of the whole server */
    uint32_t inflight_max;    /* [512] deferred requests of the whole server */
    uint32_t streams_max;     /* [1024] answers under way in pieces, of the whole server */
    uint32_t rate_per_s;      /* [0 = no limit] by rate_scope */
    uint32_t burst;           /* [half of the rate, at least 1] */
    enum ron_http_scope rate_scope;
    ron_http_client_key *client_key; /* [none] */
    void *client_key_arg;
    uint32_t uri_max;           /* [4096] */
    uint32_t head_max;          /* [16384], at most that */
    uint32_t headers_max;       /* [100], at most that */
    uint64_t body_max;          /* [1 MiB] */
    uint64_t body_memory_max;   /* [64 MiB] all bodies that did not fit their connection's buffer */
    uint64_t decode_max;        /* [10 MiB] a body once decoded from gzip or zstd */
    uint32_t decode_ratio_max;  /* [10] how many times its size as sent */
    uint64_t answer_max;        /* [16 MiB] an answer that the client does not read */
    uint64_t answer_memory_max; /* [64 MiB] all answers that wait to be read */
    uint32_t read_timeout_ms;   /* [5000] whole head; and between two pieces of a body */
    uint32_t write_timeout_ms;  /* [5000] between two pieces of an answer */
    uint32_t idle_timeout_ms;   /* [60000] */
    uint32_t request_timeout_ms;   /* [10000] first byte to answer; a client may ask for less */
    uint32_t linger_ms;            /* [2000] for the peer's FIN after ours */
    uint32_t rate_min_bytes_per_s; /* [1024] of a body and of an answer, after the timeout above */
    void (*on_done)(void *arg, const struct ron_http_done *done);
    void *on_done_arg;
    ron_http_refusal *on_refusal; /* [none] */
    void *on_refusal_arg;
    struct ron_tracer *tracer; /* [none] a server span for each request that reaches its handler */
};

/* RON_INVALID names what is wrong with a route or option; RON_EXISTS for a route twice or an
 * address in use; RON_NOMEM, RON_IO. */
RON_MUST_USE enum ron_rc ron_http_server_new(const struct ron_http_opts *opts,
                                             struct ron_http_server **ret_server,
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc ron_http_server_attach(struct ron_http_server *s, struct ron_sup *sup,
                                                struct ron_err *err);
/* False when replies are still held by somebody: then their memory is left behind. */
bool ron_http_server_free(struct ron_http_server *s);
/* For a reload, from any thread; burst 0 is half of the rate. RON_INVALID leaves it as it was. */
RON_MUST_USE enum ron_rc ron_http_server_set_rate(struct ron_http_server *s, uint32_t rate_per_s,
                                                  uint32_t burst, struct ron_err *err);
/* Moves a listener to another TCP address; open connections stay. From any thread, one at a time.
 * As ron_intake_move (ron/front/intake.h). */
RON_MUST_USE enum ron_rc ron_http_server_move(struct ron_http_server *s, size_t listener,
                                              const char *addr, struct ron_err *err);
/* With the port that was given for 0; of the first listener, and of any. */
const char *ron_http_server_addr(const struct ron_http_server *s);
const char *ron_http_server_listener_addr(const struct ron_http_server *s, size_t index);

/* ---- inside a handler ------------------------------------------------------------------------ */

const struct ron_http_head *ron_http_head(const struct ron_http_call *call);
struct ron_str ron_http_body(const struct ron_http_call *call);
/* By place in the pattern, from 0. Asserts that the pattern has it. */
struct ron_str ron_http_param(const struct ron_http_call *call, size_t index);
struct ron_str ron_http_corr_id(const struct ron_http_call *call);
/* The request's own span, for spans below it and calls to others; not valid without a tracer. */
const struct ron_trace_ctx *ron_http_trace(const struct ron_http_call *call);
struct ron_deadline ron_http_deadline(const struct ron_http_call *call);
/* Address of the client; RON_ADDR_MAX bytes are enough. */
void ron_http_peer(const struct ron_http_call *call, char *buf, size_t size);
/* The user of a Unix peer, by the system's word; false for others. */
RON_MUST_USE bool ron_http_peer_uid(const struct ron_http_call *call, uint32_t *ret_uid);
/* The verified certificate of the client (ron/http/tls.h); false when there is none. */
RON_MUST_USE bool ron_http_tls_peer(const struct ron_http_call *call,
                                    struct ron_tls_peer *ret_peer);

/* Adds a header to the answer. The name is a token, the value holds no controls: else RON_INVALID,
 * and the answer becomes 500 (a header cut in two must not reach the wire). RON_LIMIT alike. A Date
 * stands instead of the server's own: a cache passes on that of its origin. */
enum ron_rc ron_http_add_header(struct ron_http_call *call, const char *name, struct ron_str value);
/* The whole answer. `body` may be reused when it returns. content_type NULL: no body expected. */
void ron_http_answer(struct ron_http_call *call, int status, const char *content_type,
                     const void *body, size_t len);
void ron_http_answer_blob(struct ron_http_call *call, int status, const char *content_type,
                          const struct ron_http_blob *take_blob);
void ron_http_fail(struct ron_http_call *call, enum ron_http_reason reason);
void ron_http_fail_with(struct ron_http_call *call, const struct ron_http_error *error);

/* Takes a reply. RON_FULL: the inflight gate is closed; answer RON_HTTP_BUSY. */
RON_MUST_USE enum ron_rc ron_http_defer(struct ron_http_call *call,
                                        struct ron_http_reply **ret_reply);
/* Gives the reply back unsent, inside the same handler, to answer at once after all: the next stage
 * was full. */
void ron_http_undefer(struct ron_http_call *call, struct ron_http_reply *reply);

/* What is said instead of 503 when the deadline comes while the reply is out. Called on the worker
 * with a call that must be answered at once; `early_ms` before the deadline, so that a client that
 * waits no longer than it said still hears it. The holder goes on and sends, and that answer is
 * dropped. */
struct ron_http_late {
    ron_http_handler *handle;
    void *arg;
    uint32_t early_ms;
};
/* By the holder, before it sends; NULL for the 503. Kept, not copied. Set outside the handler that
 * deferred, it counts from the deadline and not earlier. */
void ron_http_reply_set_late(struct ron_http_reply *r, const struct ron_http_late *late);

/* ---- a reply, from any thread ---------------------------------------------------------------- */

bool ron_http_reply_cancelled(const struct ron_http_reply *r);
struct ron_deadline ron_http_reply_deadline(const struct ron_http_reply *r);
struct ron_str ron_http_reply_corr_id(const struct ron_http_reply *r);
const struct ron_trace_ctx *ron_http_reply_trace(const struct ron_http_reply *r);
/* For spans of the stages that it passes: a copy, which outlives the reply. */
void ron_http_reply_from(const struct ron_http_reply *r, struct ron_trace_from *ret_from);
/* Append the body here; at most opts.answer_max bytes. */
struct ron_buf *ron_http_reply_body(struct ron_http_reply *r);
enum ron_rc ron_http_reply_add_header(struct ron_http_reply *r, const char *name,
                                      struct ron_str value);
/* Each of these gives the reply away. content_type is a constant. A body that overflowed its buffer
 * is answered 500. */
void ron_http_reply_send(struct ron_http_reply *take_r, int status, const char *content_type);
void ron_http_reply_send_blob(struct ron_http_reply *take_r, int status, const char *content_type,
                              const struct ron_http_blob *take_blob);
void ron_http_reply_fail(struct ron_http_reply *take_r, enum ron_http_reason reason);
void ron_http_reply_fail_with(struct ron_http_reply *take_r, const struct ron_http_error *error);

/* ---- counters -------------------------------------------------------------------------------- */

/* X(field, "metric", label name or NULL, label value, gauge) */
#define RON_HTTP_COUNTERS(X)                                                                       \
    X(connections, "http_connections", NULL, NULL, true)                                           \
    X(accepted, "http_connections_total", NULL, NULL, false)                                       \
    X(requests, "http_requests_total", NULL, NULL, false)                                          \
    X(inflight, "inflight_requests", NULL, NULL, true)                                             \
    X(streams, "http_streams", NULL, NULL, true)                                                   \
    X(busy, "busy_rejections_total", NULL, NULL, false)                                            \
    X(bytes_in, "http_bytes_in_total", NULL, NULL, false)                                          \
    X(bytes_out, "http_bytes_out_total", NULL, NULL, false)                                        \
    X(read_timeouts, "io_timeouts_total", "op", "read", false)                                     \
    X(write_timeouts, "io_timeouts_total", "op", "write", false)                                   \
    X(idle_timeouts, "io_timeouts_total", "op", "idle", false)                                     \
    X(disconnects, "http_disconnects_total", NULL, NULL, false)                                    \
    X(late_replies, "http_late_replies_total", NULL, NULL, false)                                  \
    X(answers_dropped, "http_answers_dropped_total", NULL, NULL, false)

struct ron_http_counters {
#define X(field, metric, label, value, gauge) uint64_t field;
    RON_HTTP_COUNTERS(X)
#undef X
    uint64_t rejected[RON_HTTP_REASON_COUNT]; /* rejected_total{reason} */
    uint64_t statuses[6];                     /* answers by status / 100 */
};
