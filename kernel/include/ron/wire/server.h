/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the OAP/1 front of a service over TCP or a Unix socket, one listener task per worker.
 *
 * Life: ron_oap_server_new opens the listeners, ron_oap_server_attach adds the tasks ("NAME-0",
 * ...) to a supervisor, and after the supervisor, the executor and every channel that may hold a
 * reply have been freed, and before the registry is, ron_oap_server_free ends it.
 *
 * A request goes to the handler of its app id, on the worker that owns the connection. The handler
 * must not block. It answers at once (ron_oap_answer, ron_oap_fail_with), or takes a reply with
 * ron_oap_defer, hands it to another task and returns. Slices of the request point into the receive
 * buffer and stay valid until the handler has answered or, when it deferred, until the reply is
 * sent. Answers leave in the order in which they come, not in that of the requests: corr_id and
 * tenant say what they answer. All answers of a turn leave with one system call.
 *
 * A reply belongs to whoever holds it and must be sent exactly once, from any thread; sending gives
 * it back and wakes the worker once for many. When the client is gone, has cancelled or the
 * deadline has passed, ron_oap_reply_cancelled turns true: the holder may stop early, and still has
 * to send.
 *
 * Flow: HELLO tells the peer how many requests it may have in flight on a connection (flow_max).
 * One too many is answered 429 `flow` at once and never reaches the handler. That, and not to stop
 * reading, because the peer was told the limit, an early "no" with a reason is what the
 * specifications ask for instead of hidden queues, it tells the caller for certain that nothing
 * happened, and CANCEL and the remaining pieces of other messages still get through.
 *
 * Events: ron_oap_publish hands an event to all connections that subscribed to its app. A
 * subscriber that does not read has at most subscriber_bytes kept for it; beyond that it loses
 * events, and is told how many with LAGGED, or is disconnected, as lag_policy says.
 *
 * Drain: peers that said HELLO are told DRAINING and have drain_grace_ms to leave by themselves;
 * new requests are answered 503 draining; answers under way are finished; peers without HELLO are
 * closed when idle. Each connection ends with FIN. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/chan/registry.h"
#include "ron/task/supervisor.h"
#include "ron/wire/frame.h"

struct ron_oap_server;
struct ron_oap_call;
struct ron_oap_reply;

typedef void ron_oap_handler(struct ron_oap_call *call, void *arg);

enum {
    RON_OAP_APPS_MAX = 16,
    RON_OAP_ALLOW_MAX = 16,
    RON_OAP_FLOW_DEFAULT = 64,
    RON_OAP_FLOW_MAX = 4096,
    RON_OAP_EVENT_BYTES_MAX = 4000, /* a message of the bus, less its head */
};

enum ron_oap_app_flags {
    RON_OAP_ALWAYS = 1u << 0, /* served while draining too */
    RON_OAP_INLINE = 1u << 1, /* never defers, so a full flow limit does not stop it */
};

struct ron_oap_app {
    uint16_t app; /* not 0 */
    uint32_t flags;
    ron_oap_handler *handle;
    void *arg;
    const char *(*span)(uint16_t code); /* constant name of a request's span; NULL: not traced */
    /* Whether who sent this SUBSCRIBE may hear the app's events: NONE, or a reason that is not
     * fatal. ron_oap_request and ron_oap_peer work on `call`; it must not be answered or deferred.
     * NULL: anybody who can connect may. */
    enum ron_oap_reason (*may_subscribe)(struct ron_oap_call *call, void *arg);
};

enum ron_oap_lag { RON_OAP_LAG_TELL, RON_OAP_LAG_DISCONNECT };

/* Zero means the default in brackets. */
struct ron_oap_opts {
    const char *name; /* of the tasks and in the registry: [a-z0-9_.-], at most 15 characters */
    const struct ron_env *env;
    struct ron_registry *registry;
    uint32_t workers; /* those of the executor */
    const char *addr;
    const struct ron_oap_app *apps; /* kept, not copied */
    size_t app_count;
    /* Unix sockets: who may connect, besides what the file's mode says. Both lists empty: anybody
     * who can open the file. Kept, not copied. Over TCP a list that is not empty denies everybody.
     * */
    const uint32_t *allow_uids;
    size_t allow_uid_count;
    const uint32_t *allow_gids;
    size_t allow_gid_count;
    uint32_t connections_max;    /* [2048] of the whole server */
    uint32_t inflight_max;       /* [4096] deferred requests of the whole server */
    uint32_t flow_max;           /* [64] deferred requests of a connection */
    uint32_t frame_max;          /* [1 MiB] at most that, at least RON_OAP_FRAME_MIN */
    uint64_t message_max;        /* [1 MiB] a request that comes in pieces */
    uint64_t answer_max;         /* [16 MiB] one answer; also what waits to be read */
    uint64_t in_memory_max;      /* [128 MiB] all receive buffers and assembled requests */
    uint64_t out_memory_max;     /* [64 MiB] all answers that wait to be read */
    uint32_t read_timeout_ms;    /* [5000] between two pieces of a frame or message */
    uint32_t write_timeout_ms;   /* [5000] between two pieces of an answer */
    uint32_t idle_timeout_ms;    /* [60000] */
    uint32_t request_timeout_ms; /* [10000] request to answer */
    uint32_t linger_ms;          /* [2000] for the peer's FIN after ours */
    uint32_t drain_grace_ms;     /* [100] for peers that were told DRAINING to leave first */
    uint32_t
        rate_min_bytes_per_s;  /* [1024] of a frame and of an answer, after the timeouts above */
    uint32_t event_bytes;      /* [1024] largest payload of an event */
    uint32_t event_ring;       /* [1024] events kept for a worker that lags */
    uint32_t subscriber_bytes; /* [256 KiB] kept for one subscriber that does not read */
    enum ron_oap_lag lag_policy;
    struct ron_tracer *tracer; /* [none] a server span for each request that reaches its handler */
};

/* RON_INVALID names what is wrong; RON_EXISTS for an app twice or an address in use; RON_NOMEM,
 * RON_IO. */
RON_MUST_USE enum ron_rc ron_oap_server_new(const struct ron_oap_opts *opts,
                                            struct ron_oap_server **ret_server,
                                            struct ron_err *err);
RON_MUST_USE enum ron_rc ron_oap_server_attach(struct ron_oap_server *s, struct ron_sup *sup,
                                               struct ron_err *err);
/* False when replies are still held by somebody: then their memory is left behind. */
bool ron_oap_server_free(struct ron_oap_server *s);

/* Publishes an event to the subscribers of `app`; from any thread, never waits. RON_LIMIT for more
 * than event_bytes, RON_CLOSED after the end. */
RON_MUST_USE enum ron_rc ron_oap_publish(struct ron_oap_server *s, uint16_t app, uint16_t code,
                                         const void *payload, size_t len);

/* Whether anybody has subscribed to `app`: events that cost something are made only then. From any
 * thread; who was told that he is subscribed is seen. */
bool ron_oap_has_subscribers(const struct ron_oap_server *s, uint16_t app);

/* ---- inside a handler ------------------------------------------------------------------------ */

struct ron_oap_request {
    uint16_t app;
    uint16_t code;
    uint16_t flags;
    uint64_t corr_id;
    ron_u128 tenant;
    const uint8_t *cap;
    size_t cap_len;
    const uint8_t *payload;
    size_t payload_len;
    struct ron_trace_ctx trace; /* of the caller; all zero: it told none */
};

const struct ron_oap_request *ron_oap_request(const struct ron_oap_call *call);
struct ron_deadline ron_oap_deadline(const struct ron_oap_call *call);
/* Of the request's own span, for spans below it; all zero: it has none. */
const struct ron_trace_ctx *ron_oap_trace(const struct ron_oap_call *call);
/* has_cred tells a Unix peer; `addr` is empty for it. */
const struct ron_peer *ron_oap_peer(const struct ron_oap_call *call);

/* The whole answer: a status of the code table or of the app's own. `payload` may be reused when it
 * returns. */
void ron_oap_answer(struct ron_oap_call *call, uint16_t status, const void *payload, size_t len);
/* An error of the app, with the envelope. */
void ron_oap_fail_with(struct ron_oap_call *call, const struct ron_oap_error *error);
/* A refusal of the wire (app 0): the request was not and will not be acted on. For BUSY when the
 * next stage is full, and DRAINING. */
void ron_oap_refuse(struct ron_oap_call *call, enum ron_oap_reason reason);

/* Takes a reply. RON_FULL: too many in the server; refuse with BUSY. */
RON_MUST_USE enum ron_rc ron_oap_defer(struct ron_oap_call *call, struct ron_oap_reply **ret_reply);
/* Gives the reply back unsent, inside the same handler, to answer at once after all. */
void ron_oap_undefer(struct ron_oap_call *call, struct ron_oap_reply *reply);

/* ---- a reply, from any thread ---------------------------------------------------------------- */

bool ron_oap_reply_cancelled(const struct ron_oap_reply *r);
/* Append the payload here; at most opts.answer_max bytes. */
struct ron_buf *ron_oap_reply_body(struct ron_oap_reply *r);
/* Each of these gives the reply away. A body that overflowed its buffer is answered 500. */
void ron_oap_reply_send(struct ron_oap_reply *take_r, uint16_t status);
void ron_oap_reply_fail_with(struct ron_oap_reply *take_r, const struct ron_oap_error *error);

/* ---- counters -------------------------------------------------------------------------------- */

/* X(field, "metric", label name or NULL, label value, gauge) */
#define RON_OAP_COUNTERS(X)                                                                        \
    X(connections, "oap_connections", NULL, NULL, true)                                            \
    X(accepted, "oap_connections_total", NULL, NULL, false)                                        \
    X(requests, "oap_frames_total", "kind", "req", false)                                          \
    X(events, "oap_frames_total", "kind", "event", false)                                          \
    X(busy, "busy_rejections_total", "queue", NULL, false)                                         \
    X(bytes_in, "oap_bytes_in_total", NULL, NULL, false)                                           \
    X(bytes_out, "oap_bytes_out_total", NULL, NULL, false)                                         \
    X(read_timeouts, "io_timeouts_total", "op", "read", false)                                     \
    X(write_timeouts, "io_timeouts_total", "op", "write", false)                                   \
    X(disconnects, "oap_disconnects_total", NULL, NULL, false)                                     \
    X(late_replies, "oap_late_replies_total", NULL, NULL, false)                                   \
    X(lagged, "bus_lagged_total", "bus", "oap_subscriber", false)

struct ron_oap_counters {
#define X(field, metric, label, value, gauge) uint64_t field;
    RON_OAP_COUNTERS(X)
#undef X
    uint64_t inflight;
    uint64_t subscribers;
    uint64_t idle_timeouts;
    uint64_t writes;                         /* system calls that wrote */
    uint64_t rejected[RON_OAP_REASON_COUNT]; /* oap_rejects_total{server,reason} */
};

struct ron_metrics;
/* oap_rejects_total of this server, which outlives the metrics' last scrape; the other counters are
 * in its row of the registry. RON_LIMIT. */
RON_MUST_USE enum ron_rc ron_collect_oap(struct ron_metrics *m, const struct ron_oap_server *s,
                                         struct ron_err *err);
