/* SPDX-License-Identifier: Apache-2.0 */
/* client_priv.h - the client's record, shared by client.c (asks) and client_conn.c (connection).
 *
 * States of the connection, and no other edge:
 *
 *     IDLE --something to send, or subscriptions--> CONNECTING --connected--> HELLO --answer-->
 *     READY READY --DRAINING of the server--> LEAVING --all answers there--> IDLE
 *     any --failure, end, time--> IDLE or WAIT;  WAIT --backoff over--> CONNECTING
 *
 * Life of an ask: submitted (stack) -> queued -> sent (a slot) -> done. Invariants:
 *   K1 an ask is in exactly one place: the stack, the queue, a slot; then it is the caller's again.
 *   K2 a slot is in use from the moment its request is written into `out` until its answer is whole
 *      or the connection is gone, also when the caller does not wait any more (ask NULL): so the
 *      number of slots in use never exceeds what the server counts.
 *   K3 `end` of a slot is the place in the stream behind its request; bytes up to `written` have
 *      been taken by the socket. So when the connection goes, end > written means that the server
 *      cannot have the whole request: nothing happened.
 *   K4 a corr_id is used once per connection; its slot is corr_id & slot_mask.
 *   K5 room in the socket is watched for only while something waits for it, or to be connected. A
 *      Unix socket tells of room whenever its peer reads: an event for every request.
 *
 * Threads: all of it belongs to the client's task, except the atomics: the stack of submitted asks
 * (CLOSED once the task has ended), the number of asks not yet done, and the cancel flag. */
#pragma once

#include "ron/base/rand.h"
#include "ron/wire/client.h"

enum {
    OAP_CLIENT_MAGIC = 0x6f636c69,
    OAP_CLIENT_OUT_BYTES = 65536, /* begin no further request while so much waits for the socket */
    OAP_CLIENT_IN_BYTES = 65536,
    OAP_CLIENT_COPY_MAX = 4096, /* larger payloads are gathered, not copied */
    /* Beside one request and the headers of its pieces: what waited before it, its capability, and
     * a CANCEL for each slot. */
    OAP_CLIENT_OUT_SPARE = 8 * OAP_CLIENT_OUT_BYTES,
    /* A frame is a microsecond or so, more where a callback takes it: a turn does not keep other
     * tasks of the worker, and its sockets, waiting for long. */
    OAP_CLIENT_FRAMES_PER_TURN = 64,
    OAP_CLIENT_FRAMES_LAST = 4096, /* of a connection that ends: as many as it can owe answers */
    OAP_CLIENT_SUBS_MAX = 8,
    OAP_CLIENT_NAME_MAX = 24,
};

enum oap_ask_state { OAP_ASK_FREE, OAP_ASK_SUBMITTED, OAP_ASK_QUEUED, OAP_ASK_SENT };
enum oap_cstate {
    OAP_C_IDLE,
    OAP_C_WAIT,
    OAP_C_CONNECTING,
    OAP_C_HELLO,
    OAP_C_READY,
    OAP_C_LEAVING
};

struct oap_slot {
    bool used;
    bool open;       /* its answer comes in pieces */
    bool failed;     /* of which some could not be kept */
    uint16_t app;    /* that may answer, besides 0 */
    uint16_t of_app; /* while open: what the first piece said */
    uint16_t of_code;
    uint64_t corr_id;
    uint64_t end; /* K3 */
    ron_u128 tenant;
    struct ron_oap_ask *ask; /* NULL: nobody waits, or a request of our own */
    struct ron_buf part;
};

/* A subscription on this connection. */
struct oap_csub {
    uint64_t corr_id; /* of the SUBSCRIBE under way; 0: none is */
    bool refused;     /* the last answer was no */
};

struct ron_oap_client {
    uint32_t magic;
    struct ron_oap_client_opts opts;
    struct ron_retry_curve backoff;
    char name[OAP_CLIENT_NAME_MAX + 1];
    char entry_name[OAP_CLIENT_NAME_MAX + 8];
    char addr[RON_ADDR_MAX];
    struct ron_reg_entry entry;
    bool registered;
    const struct ron_env *env;
    struct ron_task *task;
    struct ron_rand rand;
    uint64_t now_ms;

    struct ron_aptr submitted; /* stack; OAP_CLOSED when the task has ended */
    struct ron_au32 pending;   /* asks taken and not yet done */
    struct ron_au32 cancels;   /* some ask has its _cancel set */

    struct ron_list queue;
    uint32_t queue_len;

    enum oap_cstate state;
    struct ron_io io;
    struct ron_timer timer;
    uint64_t armed_ms;
    uint64_t state_until_ms; /* WAIT, CONNECTING, HELLO: when that is over */
    uint64_t ready_ms;       /* since when READY */
    uint32_t failures;       /* connects in a row that did not get to READY */
    bool readable;
    bool hup;
    bool unread;       /* the turn has left frames for the next one */
    bool watches_room; /* K5 */
    bool lost;         /* to be closed at the end of the turn, as lost_rc */
    bool in_turn;
    enum ron_rc lost_rc;

    uint32_t flow;
    uint32_t frame_max;
    bool takes_traces; /* the server knows what TRACE is */
    struct oap_slot *slots;
    uint32_t slot_mask;
    uint32_t slots_used;
    uint64_t next_corr;
    uint64_t hello_corr;
    struct oap_csub subs[OAP_CLIENT_SUBS_MAX]; /* as opts.subscribe */
    uint64_t resubscribe_ms;                   /* when the refused are tried again; 0: none is */

    uint8_t *in;
    size_t in_cap;
    size_t in_at;
    size_t in_len;
    uint64_t heard_ms; /* last byte from the server, or when it began to owe us one */

    struct ron_buf out;
    uint64_t appended; /* bytes ever put into the stream */
    uint64_t written;  /* of them, taken by the socket */
    uint64_t out_progress_ms;

#define X(field, metric, label, value, gauge) struct ron_stat n_##field;
    RON_OAP_CLIENT_COUNTERS(X)
#undef X
    struct ron_stat n_events, n_resent, n_strays, n_writes, n_queued;
};

/* ---- client.c -------------------------------------------------------------------------------- */

/* An empty buffer for what leaves, with room for any request. */
void ron__oap_client_out_init(struct ron_oap_client *c);
/* Ends an ask that is in no place any more. It may be gone when this returns. */
void ron__oap_ask_finish(struct ron_oap_client *c, struct ron_oap_ask *ask,
                         enum ron_oap_outcome outcome, enum ron_rc rc);
/* Back to the front of the queue: its bytes did not all leave. */
void ron__oap_ask_requeue(struct ron_oap_client *c, struct ron_oap_ask *ask);
/* The next that waits, or NULL. */
struct ron_oap_ask *ron__oap_ask_pop(struct ron_oap_client *c);
/* Moves what was submitted to the queue. */
void ron__oap_asks_take(struct ron_oap_client *c);

/* ---- client_conn.c --------------------------------------------------------------------------- */

/* One turn: answers in, requests out, look at the clock. */
void ron__oap_client_run(struct ron_oap_client *c);
void ron__oap_client_on_timer(struct ron_timer *timer);
/* Nobody waits for this slot any more; the server is told. */
void ron__oap_slot_abandon(struct ron_oap_client *c, uint32_t slot);
/* Closes the connection, if there is one, and ends or requeues what it owed. */
void ron__oap_client_close(struct ron_oap_client *c, enum ron_rc rc, bool requeue);
/* The connection is of no use any more; it is closed at the end of the turn. */
void ron__oap_client_lose(struct ron_oap_client *c, enum ron_rc rc);
void ron__oap_slot_free(struct ron_oap_client *c, struct oap_slot *s);
/* A request of the client itself, whose answer is only taken note of; returns its corr_id. */
uint64_t ron__oap_client_control(struct ron_oap_client *c, uint16_t code, struct ron_str cap,
                                 const void *payload, size_t len);

/* ---- client_in.c ----------------------------------------------------------------------------- */

/* Tries the subscriptions again that the server refused, when it is time. */
void ron__oap_client_resubscribe(struct ron_oap_client *c);
/* Reads and delivers up to `max` frames; true when there may be more. */
bool ron__oap_client_read(struct ron_oap_client *c, size_t max);
