/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - calls to other services over HTTP/1.1: libcurl on a worker's poller.
 *
 * A client is one loop task. A target is an upstream with its own hosts, limits, retry curve and
 * breaker; targets are added before the client is attached. A fetch is one call: started from any
 * thread, tried one or more times on the client's task, and ended exactly once.
 *
 * Rules a caller may count on:
 *   H1. A started fetch ends: with an answer, or at its deadline, by cancel, or when the client's
 *       task ends (RON_CANCELLED). `done` is called once, on the client's task, or, with done_chan,
 *       the fetch is sent there, into room that was reserved when it started.
 *   H2. No address outside what the target allows is ever connected or reused: the URL's host must
 *       be on the list, and the address itself is judged when a socket is opened and again before
 *       each request. The same holds for each redirect. URLs with user information, odd spellings
 *       of addresses, or characters outside RFC 3986 are refused.
 *   H3. Only a call that is safe to repeat is repeated, by nobody: not by us, nor by libcurl on a
 *       connection that was reused.
 *   H4. Whatever the other side can send is bounded: header, body, number of redirects, time.
 *   H5. Proxies, netrc and other settings of the environment are ignored.
 *
 * Threads: ron_http_fetch_start, _cancel, _resume and _release from any thread; results are read by
 * whoever was told that the fetch has ended. Ownership: start gives the caller one reference, to be
 * released once, before or after the end. Names are looked up by libcurl on a thread of its own,
 * which holds nothing of ours and is left alone when its call has ended.
 *
 * The times of libcurl are the system's; a simulated environment cannot run this module. */
#pragma once

#include "ron/base/env.h"
#include "ron/chan/chan.h"
#include "ron/guard/breaker.h"
#include "ron/guard/retry.h"
#include "ron/http/parse.h"
#include "ron/obs/metrics.h"
#include "ron/obs/trace.h"
#include "ron/task/supervisor.h"

struct ron_http_client;
struct ron_http_target;
struct ron_http_fetch;

enum {
    RON_HTTP_TARGETS_MAX = 64,       /* two for each place of the largest configuration */
    RON_HTTP_HOSTS_MAX = 64,         /* of one target */
    RON_HTTP_OPS_MAX = 16,           /* operations of one target: label values are bounded */
    RON_HTTP_FETCH_HEADERS_MAX = 32, /* that a caller adds; of a relay RON_HTTP_HEADERS_MAX */
    RON_HTTP_REDIRECTS_MAX = 10,     /* libcurl's and browsers' limits are near 20 */
    RON_HTTP_PIECE_MAX = 65536,      /* of a body, given to a sink or asked from a source */
};

/* Why a fetch ended. X(NAME, "label", rc, "meaning"); STATUS has the code of its status. */
#define RON_HTTP_FETCH_REASONS(X)                                                                  \
    X(ANSWERED, "none", RON_OK, "an answer below 400")                                             \
    X(STATUS, "http_status", RON_IO, "an answer of 400 or more")                                   \
    X(DNS, "dns", RON_AGAIN, "the host's name could not be resolved")                              \
    X(CONNECT, "connect", RON_CLOSED, "no connection")                                             \
    X(TLS, "tls", RON_DENIED, "the TLS handshake or the certificate failed")                       \
    X(TIMEOUT_CONNECT, "timeout_connect", RON_TIMEOUT, "no connection in time")                    \
    X(TIMEOUT_TOTAL, "timeout_total", RON_TIMEOUT, "no whole answer in time")                      \
    X(BROKEN, "broken", RON_CLOSED, "the connection ended inside the exchange")                    \
    X(PROTOCOL, "protocol", RON_CORRUPT, "the answer is not HTTP/1.1")                             \
    X(TOO_LARGE, "too_large", RON_LIMIT, "header or body of the answer beyond its limit")          \
    X(DENIED_HOST, "denied_host", RON_DENIED, "a host, scheme or URL that is not allowed")         \
    X(DENIED_ADDRESS, "denied_address", RON_DENIED, "an address that is not allowed")              \
    X(REDIRECTS, "redirects", RON_LIMIT, "too many redirects")                                     \
    X(BREAKER_OPEN, "breaker_open", RON_AGAIN, "the target is known not to work")                  \
    X(FULL, "full", RON_FULL, "too many calls are under way")                                      \
    X(CANCELLED, "cancelled", RON_CANCELLED, "by the caller, or the client's task has ended")      \
    X(SINK, "sink", RON_CANCELLED, "the caller's sink or source gave up")                          \
    X(MEMORY, "memory", RON_NOMEM, "memory could not be obtained")                                 \
    X(INTERNAL, "internal", RON_INTERNAL, "libcurl failed in a way that should not happen")

enum ron_http_fetch_reason {
#define X(name, label, rc, doc) RON_HTTP_FETCH_##name,
    RON_HTTP_FETCH_REASONS(X)
#undef X
        RON_HTTP_FETCH_REASON_COUNT
};
const char *ron_http_fetch_reason_label(enum ron_http_fetch_reason reason);

/* Zero means the default in brackets. */
struct ron_http_client_opts {
    const char *name; /* of the task: [a-z0-9_.-] */
    const struct ron_env *env;
    struct ron_registry *registry;
    uint32_t worker;               /* of the executor, from 0 */
    uint32_t stage;                /* drain order: behind those who call */
    uint32_t inflight_max;         /* [256] fetches of all targets */
    uint32_t connections_max;      /* [128] of all hosts, open at once */
    uint32_t host_connections_max; /* [16] of one host; further calls wait inside their deadline */
};

/* What a target may reach beyond public addresses. */
enum ron_http_target_flags {
    RON_HTTP_TARGET_LOOPBACK = 1u << 0,
    RON_HTTP_TARGET_PRIVATE = 1u << 1,
    RON_HTTP_TARGET_LINK_LOCAL = 1u << 2,    /* metadata services live there */
    RON_HTTP_TARGET_PLAIN = 1u << 3,         /* http:// as well as https:// */
    RON_HTTP_TARGET_SEND_DEADLINE = 1u << 4, /* Request-Timeout: what is left of the deadline */
};

struct ron_http_target_opts {
    const char *name;         /* label `svc` and `peer`; [a-z0-9_.-] */
    const char *const *hosts; /* "api.example.org", "*.example.org" (below it), "192.0.2.7",
                                 "[2001:db8::7]"; with ":443" behind it that port only; copied */
    size_t host_count;
    const char *const *ops;       /* label `op` of its calls; string constants */
    size_t op_count;              /* [1: "call"] */
    const char *const *retry_ops; /* [ops] their label in backoff_retries_total; constants */
    uint32_t flags;
    const char *unix_path;                   /* [none] all calls through this Unix socket */
    const struct ron_retry_curve *retry;     /* [one try]; copied */
    const struct ron_breaker_rules *breaker; /* [none]; copied */
    uint32_t inflight_max;                   /* [64] */
    uint32_t connect_timeout_ms;             /* [1000] name, connection and TLS */
    uint32_t try_timeout_ms;                 /* [5000] of one try */
    uint32_t total_timeout_ms;               /* [10000] of all tries, waits included */
    uint64_t response_max;                   /* [1 MiB] */
    uint32_t header_max;                     /* [32 KiB] */
    uint32_t redirects_max;                  /* [0: none] for GET and HEAD */
    const char *ca_file; /* [the system's] PEM; read now, and then nothing else is trusted */
    const char *cert_file;
    const char *key_file;
};

/* RON_INVALID names what is wrong; RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_http_client_new(const struct ron_http_client_opts *opts,
                                             struct ron_http_client **ret_client,
                                             struct ron_err *err);
/* Before attach, from a thread that may block (it reads the files). The target lives as long as the
 * client. */
RON_MUST_USE enum ron_rc ron_http_client_add(struct ron_http_client *c,
                                             const struct ron_http_target_opts *opts,
                                             struct ron_http_target **ret_target,
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc ron_http_client_attach(struct ron_http_client *c, struct ron_sup *sup,
                                                struct ron_err *err);
/* After the supervisor and the channels that may hold fetches, before the registry. False when
 * fetches are still held: then they and the client are left behind. */
bool ron_http_client_free(struct ron_http_client *c);

/* The host of an absolute URL, as a target's list of hosts has it, and whether it is http://, not
 * https://. `ret_host` has `size` bytes. RON_INVALID for anything else. */
RON_MUST_USE enum ron_rc ron_http_url_host(const char *url, char *ret_host, size_t size,
                                           bool *ret_plain, struct ron_err *err);
/* The same with its port, that of the scheme when the URL has none: a list of this one entry keeps
 * redirects on the very server. */
RON_MUST_USE enum ron_rc ron_http_url_authority(const char *url, char *ret_authority, size_t size,
                                                bool *ret_plain, struct ron_err *err);

/* ---- one call -------------------------------------------------------------------------------- */

struct ron_http_fetch_header {
    const char *name;
    struct ron_str value;
};

/* Takes a piece of the body of an answer below 300, of a relay of any final answer, on the client's
 * task. RON_OK; RON_AGAIN: not now, the same bytes are given again after ron_http_fetch_resume;
 * anything else ends the fetch. */
typedef enum ron_rc ron_http_fetch_sink(struct ron_http_fetch *f, void *arg, const void *bytes,
                                        size_t len);
/* Fills up to `size` bytes of the request's body; *ret_len 0 is its end. RON_OK; RON_AGAIN as
 * above; anything else ends the fetch. */
typedef enum ron_rc ron_http_fetch_source(struct ron_http_fetch *f, void *arg, void *buf,
                                          size_t size, size_t *ret_len);

/* Copied by start, what it points to included. */
struct ron_http_fetch_opts {
    enum ron_http_method method;
    const char *url; /* absolute */
    uint32_t op;     /* index into the target's ops */
    const struct ron_http_fetch_header *headers;
    size_t header_count;
    struct ron_str corr_id;     /* X-Corr-ID, if not empty */
    struct ron_trace_ctx trace; /* traceparent; all zero: none */
    struct ron_str body;
    ron_http_fetch_source *source; /* instead of body; such a call has one try */
    int64_t source_len;            /* -1: unknown, chunked */
    ron_http_fetch_sink *sink;     /* [kept in the result]; no retry once it has taken a byte */
    struct ron_deadline deadline;  /* 0 or never: only the target's */
    bool idempotent;               /* POST or PATCH that is safe to repeat (it carries a key) */
    bool patient; /* the time of a try counts from the last piece of a body that moved */
    /* A gateway's call: the sink takes the body of every answer, and the lines sent are `fields`,
     * behind `headers`: Host, User-Agent, Accept and Accept-Encoding are the caller's, and are left
     * out where it has none (Host: that of the URL). */
    bool relay;
    const struct ron_http_field *fields;
    size_t field_count;
    uint64_t response_max; /* [the target's]; at most that */
    void (*done)(struct ron_http_fetch *f, void *arg);
    struct ron_chan *done_chan; /* instead of done: gets the fetch itself */
    void *arg;
};

/* RON_FULL: too many under way, or no room in done_chan. RON_DENIED: host, scheme or URL not
 * allowed. RON_INVALID: a malformed URL, header or option. RON_CLOSED: the client has ended.
 * RON_NOMEM. In these cases nothing was started and done is not called. */
RON_MUST_USE enum ron_rc ron_http_fetch_start(struct ron_http_target *t,
                                              const struct ron_http_fetch_opts *opts,
                                              struct ron_http_fetch **ret_fetch,
                                              struct ron_err *err);
/* Ends it soon, unless it has ended. */
void ron_http_fetch_cancel(struct ron_http_fetch *f);
/* After a RON_AGAIN of sink or source. */
void ron_http_fetch_resume(struct ron_http_fetch *f);
void ron_http_fetch_release(struct ron_http_fetch *f);

struct ron_http_fetch_result {
    enum ron_rc rc; /* RON_OK with a status below 400 only */
    enum ron_http_fetch_reason reason;
    int status;                     /* 0: there was no answer */
    uint32_t tries;                 /* begun */
    enum ron_retry_verdict retry;   /* why there was no further one */
    uint64_t took_ms;               /* from start to end */
    struct ron_str body;            /* of the last answer; what the sink took is not here */
    char message[RON_ERR_MSG_SIZE]; /* for the log; empty when all went well */
};

/* Valid from the end of the fetch until its release. */
const struct ron_http_fetch_result *ron_http_fetch_result(const struct ron_http_fetch *f);
/* A header of the last answer; in a sink, of this one. RON_NOTFOUND; RON_CONFLICT when it stands
 * more than once. */
RON_MUST_USE enum ron_rc ron_http_fetch_header_get(const struct ron_http_fetch *f, const char *name,
                                                   struct ron_str *ret_value);
/* All of them, in their order; slices as above. RON_LIMIT: more than `max`. */
RON_MUST_USE enum ron_rc ron_http_fetch_fields(const struct ron_http_fetch *f,
                                               struct ron_http_field *out, size_t max,
                                               size_t *ret_count);
int ron_http_fetch_status(const struct ron_http_fetch *f);

/* ---- counters -------------------------------------------------------------------------------- */

struct ron_http_op_counters {
    uint64_t calls;                              /* started */
    uint64_t tries;                              /* of them, begun */
    uint64_t io_timeouts;                        /* io_timeouts_total{op,peer} */
    uint64_t backoff_retries[RON_VERDICT_COUNT]; /* backoff_retries_total{svc,op,result} */
    uint64_t ended[RON_HTTP_FETCH_REASON_COUNT]; /* by reason */
};
struct ron_http_target_counters {
    uint64_t inflight;
    uint64_t busy;                    /* busy_rejections_total: refused as full */
    uint64_t denied;                  /* refused at start: host, scheme or URL */
    uint64_t bytes_in;                /* bodies */
    uint64_t connections;             /* opened */
    struct ron_breaker_stats breaker; /* zeros without one */
};
void ron_http_target_counters(const struct ron_http_target *t,
                              struct ron_http_target_counters *ret_counters);
void ron_http_op_counters(const struct ron_http_target *t, uint32_t op,
                          struct ron_http_op_counters *ret_counters);
/* Of all targets: io_timeouts_total{op,peer}, backoff_retries_total{svc,op,result} and the metrics
 * of breakers {svc}. After the last target was added; the client outlives the last scrape. Places
 * taken and refusals come with the registry. RON_LIMIT. */
RON_MUST_USE enum ron_rc ron_collect_http_client(struct ron_metrics *m, struct ron_http_client *c,
                                                 struct ron_err *err);
