/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - OAP/1 client: one connection, pipelined requests from any task or thread.
 *
 * Life: ron_oap_client_new, ron_oap_client_attach adds its loop task to a supervisor (a stage: give
 * it a number above those of the tasks that use it), and after the supervisor and executor have
 * been freed ron_oap_client_free.
 *
 * A request is a `struct ron_oap_ask` that belongs to the caller, with all memory it points to,
 * from a successful send until it is done; nothing is allocated or copied for it but its bytes on
 * the way to the socket. It is done exactly once, and says how it ended:
 *
 *   ANSWERED   the app answered: status and answer.
 *   REFUSED    the server answered that the app never saw it and will not: `refusal`.
 *   NOT_SENT   it never left, or not whole: nothing can have happened.
 *   UNKNOWN    it left whole and no answer came (connection lost, deadline, cancel, or the server
 *              gave up waiting): it may have been acted on, or may still be.
 * REFUSED and NOT_SENT may be sent again whatever they are. UNKNOWN must first be looked into,
 * unless the operation is idempotent. A request whose bytes had not all left when the connection
 * broke is sent again on the next one by the client itself, until its deadline.
 *
 * How the caller hears of it, one of:
 *   done      called on the client's task; must not block. The answer's bytes are valid inside.
 *   inbox     the ask is put into the inbox and the inbox's task is woken, once for many. The
 *             answer's bytes are in *answer_to.
 *   ron_oap_ask_wait   on a thread that may block.
 *
 * Flow: never more than the server allows (HELLO) or inflight_max on the wire; the others wait in
 * order, at most queue_max of them (RON_FULL beyond), or not at all with `no_queue`.
 *
 * Connection: made when there is something to send or to subscribe, with backoff after a failure.
 * Idle connections are kept alive with PING. A server that drains is left when its answers are
 * there. A server that owes an answer and says nothing for stall_ms is given up. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/wheel.h"
#include "ron/chan/registry.h"
#include "ron/guard/retry.h"
#include "ron/task/supervisor.h"
#include "ron/wire/frame.h"

struct ron_oap_client;
struct ron_oap_ask;

/* X(NAME, "label", "meaning") */
#define RON_OAP_OUTCOMES(X)                                                                        \
    X(ANSWERED, "answered", "the app answered")                                                    \
    X(REFUSED, "refused", "the server said that the app never saw it")                             \
    X(NOT_SENT, "not_sent", "it did not leave whole")                                              \
    X(UNKNOWN, "unknown", "it left, and nobody knows")

enum ron_oap_outcome {
#define X(name, label, doc) RON_OAP_##name,
    RON_OAP_OUTCOMES(X)
#undef X
        RON_OAP_OUTCOME_COUNT
};
const char *ron_oap_outcome_label(enum ron_oap_outcome outcome);

/* Where finished asks wait for their task. Set `task` before the first use. */
struct ron_oap_inbox {
    struct ron_task *task;
    struct ron_aptr _stack;
    struct ron_oap_ask *_taken; /* from the stack, oldest first, and not yet given */
};
/* Up to `max` that have come, oldest first, linked by `next`; NULL when none. When more are left,
 * the task is woken for them, so that it can take them in a turn of their own. For the inbox's task
 * alone. */
struct ron_oap_ask *ron_oap_inbox_take(struct ron_oap_inbox *inbox, size_t max);

struct ron_oap_ask {
    /* Given by the caller. */
    uint16_t app; /* not 0 */
    uint16_t code;
    uint16_t cap_len;
    bool e2e; /* APP_E2E */
    ron_u128 tenant;
    const void *cap;
    const void *payload;
    size_t payload_len;
    struct ron_trace_ctx trace;   /* below which the server's spans belong; all zero: none */
    struct ron_deadline deadline; /* on the monotonic clock; 0 and never: the client's own limit */
    void (*done)(struct ron_oap_ask *ask);
    struct ron_oap_inbox *inbox;
    struct ron_buf *answer_to; /* the answer is appended here; required with an inbox or a wait */
    void *user;

    /* Set when it is done. */
    enum ron_oap_outcome outcome;
    enum ron_rc rc; /* RON_OK when ANSWERED and the answer is whole */
    enum ron_oap_reason refusal;
    uint16_t status;
    const uint8_t *answer; /* see above for how long */
    size_t answer_len;
    struct ron_oap_ask *next; /* in what ron_oap_inbox_take returns */

    /* The client's own. */
    struct ron_au32 _cancel;
    uint32_t _state;
    uint32_t _slot;
    uint64_t _end; /* its last byte's place in the stream */
    struct ron_list_node _link;
    struct ron_timer _timer;
    struct ron_oap_client *_client;
};

/* Zero means the default in brackets. */
struct ron_oap_client_opts {
    const char *name; /* of the task and in the registry: [a-z0-9_.-], at most 24 characters */
    const struct ron_env *env;
    struct ron_registry *registry;
    const char *addr; /* copied */
    uint32_t worker;  /* the executor's worker that it runs on */
    uint32_t stage;
    const char *ua;                        /* ["ron"] plain ASCII, told in HELLO */
    uint32_t inflight_max;                 /* [64] on the wire; the server may allow less */
    uint32_t queue_max;                    /* [1024] more that wait their turn */
    bool no_queue;                         /* RON_FULL instead of waiting for a turn */
    bool fail_fast;                        /* without a connection: NOT_SENT at once */
    uint64_t message_max;                  /* [16 MiB] of a request */
    uint64_t answer_max;                   /* [16 MiB] of an answer in pieces */
    uint32_t call_timeout_ms;              /* [10000] the most that a call may take */
    uint32_t connect_timeout_ms;           /* [2000] connection and HELLO together */
    uint32_t write_timeout_ms;             /* [5000] between two pieces that the socket takes */
    uint32_t stall_ms;                     /* [15000] */
    uint32_t keepalive_ms;                 /* [20000] below the server's idle timeout */
    const struct ron_retry_curve *backoff; /* [50 ms doubling to 2 s, half jittered] tries unused */
    const uint16_t *subscribe;             /* apps whose events are wanted; kept, not copied */
    size_t subscribe_count;                /* at most 8 */
    /* On the client's task. `missed` events were lost; UINT64_MAX: a connection was, so any number.
     * Either may be NULL. */
    void (*on_event)(void *arg, uint16_t app, uint16_t code, const void *payload, size_t len);
    void (*on_gap)(void *arg, uint16_t app, uint64_t missed);
    /* The capability for a SUBSCRIBE, asked for whenever one is sent, on the client's task; it must
     * be valid until the callback is next called. Empty or NULL: none. */
    struct ron_str (*subscribe_cap)(void *arg, uint16_t app);
    /* The server said no to a subscription. It is asked again every resubscribe_ms; when it says
     * yes at last on_gap tells of what was missed. May be NULL. */
    void (*on_refused)(void *arg, uint16_t app, enum ron_oap_reason reason);
    uint32_t resubscribe_ms; /* [1000] */
    void *arg;
};

RON_MUST_USE enum ron_rc ron_oap_client_new(const struct ron_oap_client_opts *opts,
                                            struct ron_oap_client **ret_client,
                                            struct ron_err *err);
RON_MUST_USE enum ron_rc ron_oap_client_attach(struct ron_oap_client *c, struct ron_sup *sup,
                                               struct ron_err *err);
/* Asks that never had a chance are done now, NOT_SENT. */
void ron_oap_client_free(struct ron_oap_client *c);

/* From any thread; never waits. RON_OK: it will be done. RON_FULL, RON_CLOSED (the client has
 * ended), RON_LIMIT (longer than message_max), RON_INVALID: it was not taken and never will be
 * done. */
RON_MUST_USE enum ron_rc ron_oap_ask_send(struct ron_oap_client *c, struct ron_oap_ask *ask);

/* X(field, "metric", label name or NULL, label value, gauge) */
#define RON_OAP_CLIENT_COUNTERS(X)                                                                 \
    X(connected, "oap_client_connected", NULL, NULL, true)                                         \
    X(in_flight, "oap_client_inflight", NULL, NULL, true)                                          \
    X(connects, "oap_client_connects_total", NULL, NULL, false)                                    \
    X(retries, "backoff_retries_total", "op", "connect", false)                                    \
    X(busy, "busy_rejections_total", "queue", NULL, false)                                         \
    X(answered, "oap_client_calls_total", "outcome", "answered", false)                            \
    X(refused, "oap_client_calls_total", "outcome", "refused", false)                              \
    X(not_sent, "oap_client_calls_total", "outcome", "not_sent", false)                            \
    X(unknown, "oap_client_calls_total", "outcome", "unknown", false)                              \
    X(call_timeouts, "io_timeouts_total", "op", "rpc", false)                                      \
    X(connect_timeouts, "io_timeouts_total", "op", "connect", false)                               \
    X(stalls, "io_timeouts_total", "op", "read", false)

struct ron_oap_client_counters {
#define X(field, metric, label, value, gauge) uint64_t field;
    RON_OAP_CLIENT_COUNTERS(X)
#undef X
    uint64_t queued;
    uint64_t events;
    uint64_t resent; /* asks that a broken connection had not taken whole */
    uint64_t strays; /* answers to nothing */
    uint64_t writes; /* system calls that wrote */
};
void ron_oap_client_counters(const struct ron_oap_client *c, struct ron_oap_client_counters *ret);
