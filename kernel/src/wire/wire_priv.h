/* SPDX-License-Identifier: Apache-2.0 */
/* wire_priv.h - records of the OAP server: worker, connection, buffer, reply.
 *
 * A connection is OPEN until its last word is written, then in LINGER until the peer's FIN or time.
 *
 * Invariants:
 *   C1 a connection, its timer, buffers and calls are touched by its worker only.
 *   C2 at the end of each turn the worker's scratch `out` is empty: what the socket did not take is
 *      in the connection's own `out`, and while that is not empty no further request is begun and
 *      no reply is taken up: they wait where they are.
 *   C3 a connection without bytes to look at holds no buffer, but one that deferred requests keep
 *      alive: it goes on in that, so held requests occupy their own size and not a buffer each.
 *   C4 a buffer lives while somebody refers to it: the connection that reads into it, and each
 *      deferred request whose slices lie in it. Bytes that are referred to never move.
 *   C5 a reply is in exactly one place: free list, holder, on its way back, or the ready list of
 *      its connection.
 *   C6 c->calls holds the deferred requests in the order of arrival, so with one timeout for all
 *      the first has the earliest deadline.
 *   C7 room in the socket is watched for only while something waits for it. A Unix socket tells of
 *      room whenever its peer reads: an event, and maybe a wake-up, for every answer. */
#pragma once

#include "ron/base/pool.h"
#include "ron/chan/bus.h"
#include "ron/front/handback.h"
#include "ron/front/intake.h"
#include "ron/front/out.h"
#include "ron/wire/server.h"

enum {
    OAP_CONN_MAGIC = 0x6f636f6e,
    OAP_REPLY_MAGIC = 0x6f726570,
    OAP_SERVER_MAGIC = 0x6f737276,
    OAP_OUT_BYTES = 65536, /* of the scratch buffer; flushed when half full */
    OAP_OUT_FLUSH = 32768,
    OAP_COPY_MAX = 4096,          /* larger payloads are gathered, not copied */
    OAP_REPLY_KEEP_BYTES = 16384, /* a reply keeps a body buffer up to this size */
    OAP_FRAMES_PER_TURN = 1024,   /* then the others have their turn */
    OAP_LINGER_BYTES = 1 << 20, /* a peer that sends more after our FIN is not worth the courtesy */
    OAP_PARTS_MAX = 4,          /* messages in pieces at once on a connection */
    OAP_SUBS_MAX = 8,           /* apps that one connection may subscribe to */
    OAP_EVENTS_PER_TURN = 16,
    OAP_EVENT_TURNS = 64, /* then the others have their turn, however fast events are published */
    OAP_IN_CLASSES = 3,
    OAP_IN_ROOM_MIN = 4096, /* a used buffer with less room is not worth another read */
    OAP_IN_KEPT = 256,      /* unused small buffers that a worker keeps: one per busy connection */
};

struct oap_worker;

/* A receive buffer. Sizes by class: a peer gets a larger one only when it has filled the smaller,
 * so that a header alone cannot claim a mebibyte. */
struct oap_in {
    struct oap_in *next; /* in the free list of its class */
    uint32_t cls;
    uint32_t refs; /* C4 */
    uint32_t cap;
    uint8_t bytes[];
};

/* A message that comes in pieces. */
struct oap_part {
    struct ron_list_node link;
    struct ron_oap_request head; /* its slices are set when the message is whole */
    uint64_t start_ms;
    uint64_t charged;
    bool discard; /* refused; its pieces are taken and forgotten up to END */
    struct ron_buf bytes;
};

enum oap_state { OAP_OPEN, OAP_LINGER };

struct oap_conn {
    uint32_t magic;
    enum oap_state state;
    struct oap_worker *w;
    struct ron_io io;
    struct ron_timer timer;
    struct ron_list_node link;
    struct ron_list_node again; /* in w->again: it had more to do than one turn allows */
    struct ron_peer peer;
    uint64_t armed_ms; /* when the timer fires, which may be before anything is due */

    bool readable; /* the socket may have bytes */
    bool hup;      /* the peer has closed its side: read until the end is seen */
    bool eof;
    bool closing; /* no further request; LINGER once all is written */
    bool dead;    /* torn down at the end of the turn */
    bool begun;   /* a frame was seen: no HELLO any more */
    bool hello;
    bool watches_room; /* C7 */
    bool traced;       /* the last frame was TRACE, for the request with these: */
    struct ron_trace_ctx trace;
    uint64_t trace_corr;
    ron_u128 trace_tenant;

    struct oap_in *in;
    uint32_t in_class; /* of the last buffer that was filled */
    uint32_t in_at;    /* the present frame begins here */
    uint32_t in_len;   /* bytes in the buffer */
    uint32_t in_need;  /* length of the present frame, as far as known */
    uint32_t peer_frame_max;
    uint64_t frame_start_ms;
    uint64_t progress_ms; /* last byte that came */

    struct ron_list calls; /* C6: struct ron_oap_reply.link */
    uint32_t in_flight;
    struct ron_list ready; /* struct ron_oap_reply.ready: answered, not yet written */
    struct ron_list parts;
    uint32_t part_count;

    struct ron_list_node sub_link; /* in w->subscribers while sub_count > 0 */
    uint16_t subs[OAP_SUBS_MAX];
    uint32_t sub_count;
    uint64_t missed; /* events lost since the last LAGGED, and of which subscription */
    uint64_t missed_of[OAP_SUBS_MAX];

    struct ron_out out;
    uint64_t linger_bytes;
};

/* The span of a request, until it is answered. */
struct oap_span {
    struct ron_trace_ctx ctx; /* all zero: none, or it has ended */
    uint8_t parent[RON_SPAN_ID_BYTES];
    const char *name;
    uint64_t start_ms;
};

struct ron_oap_reply {
    uint32_t magic;
    struct oap_worker *w;
    struct ron_oap_reply *next_free;
    struct ron_handback_node node; /* on the way back to the worker */
    struct ron_au32 cancelled;
    /* Worker only. */
    struct oap_conn *conn; /* NULL once the connection let go */
    struct ron_list_node link;
    struct ron_list_node ready;
    struct ron_oap_head head;
    uint64_t deadline_ms;  /* set before the holder has it, who reads it too */
    struct oap_in *in;     /* C4 */
    struct oap_part *part; /* or this, for a message that came in pieces */
    struct oap_span span;
    /* Written by the holder, read by the worker after the hand-over. */
    uint16_t status;
    enum ron_oap_reason refusal; /* NONE: an answer of the app */
    struct ron_buf body;
};

/* One call of a handler. */
struct ron_oap_call {
    struct oap_conn *c;
    const struct ron_oap_request *request;
    struct oap_part *part;
    struct ron_oap_reply *reply;
    bool answered;
    uint16_t status; /* of the answer */
    struct oap_span span;
};

/* What travels on the bus. */
struct oap_event {
    uint16_t app;
    uint16_t code;
    uint32_t len;
    uint8_t payload[];
};

struct oap_worker {
    struct ron_oap_server *server;
    uint32_t index;
    const struct ron_env *env;
    struct ron_task *task;
    bool draining;
    bool confirmed; /* the supervisor knows that no new work is taken */
    struct ron_timer drain_timer;
    uint32_t hello_count; /* connections whose peers know what DRAINING means */
    uint64_t now_ms;      /* of this turn */
    struct ron_list conns;
    struct ron_list again;
    struct ron_list subscribers;
    struct ron_pool conn_pool;
    struct oap_in *in_free[OAP_IN_CLASSES];
    uint32_t in_free_count[OAP_IN_CLASSES];
    struct ron_oap_reply *replies;
    uint32_t replies_fresh;
    struct ron_oap_reply *replies_free;
    struct ron_handback done; /* replies sent from any thread */
    struct ron_buf out;
    struct ron_bus_reader events_in;
    bool reading_events;
    uint8_t *event_room; /* OAP_EVENTS_PER_TURN messages of the bus */

#define X(field, metric, label, value, gauge) struct ron_stat field;
    RON_OAP_COUNTERS(X)
#undef X
    struct ron_stat idle_timeouts, writes, subscriber_count;
    struct ron_stat rejected[RON_OAP_REASON_COUNT];
};

struct ron_oap_server {
    uint32_t magic;
    struct ron_oap_opts opts; /* defaults filled in */
    struct ron_reg_entry entry;
    char entry_name[32];
    char bus_name[32];
    bool registered;
    struct ron_intake *intake;
    struct ron_bus *bus;
    uint32_t event_stride;                             /* bytes of a message on the bus */
    struct ron_au32 app_subscribers[RON_OAP_APPS_MAX]; /* connections, of all workers */
    struct ron_au32 connections;
    struct ron_au32 inflight;
    struct ron_au64 in_memory;
    struct ron_out_memory out_memory;
    uint32_t worker_count;
    struct oap_worker *workers;
};

/* ---- conn.c: one turn of a connection -------------------------------------------------------- */

/* Reads the clock. First thing in every callback. */
void ron__oap_tick(struct oap_worker *w);
void ron__oap_conn_open(struct oap_worker *w, int take_fd, const struct ron_peer *peer);
/* Goes on as far as bytes and socket allow; may free the connection. */
void ron__oap_conn_run(struct oap_conn *c);
/* Told to drain. */
void ron__oap_conn_drain(struct oap_conn *c);
/* Draining, and nobody is left who could still leave by himself: tells the supervisor. */
void ron__oap_drain_look(struct oap_worker *w);
/* The last word before the task ends. */
void ron__oap_conn_finish(struct oap_conn *c);

/* ---- in.c: receive buffers ------------------------------------------------------------------- */

/* Makes room behind the bytes for more of the present frame. False when there is no memory. */
bool ron__oap_in_room(struct oap_conn *c);
void ron__oap_in_release(struct oap_conn *c);
/* All bytes have been looked at: C3. */
void ron__oap_in_rest(struct oap_conn *c);
void ron__oap_in_unref(struct oap_worker *w, struct oap_in *in);
void ron__oap_in_done(struct oap_worker *w);
struct oap_part *ron__oap_part_new(struct oap_conn *c, const struct ron_oap_frame *f);
/* False when it would be too long, or memory is short. */
bool ron__oap_part_add(struct oap_conn *c, struct oap_part *p, const void *bytes, size_t len);
void ron__oap_part_free(struct oap_worker *w, struct oap_part *p);

/* ---- call.c: from frame to handler ----------------------------------------------------------- */

void ron__oap_frame(struct oap_conn *c, const struct ron_oap_frame *f);

/* ---- trace.c: spans of requests -------------------------------------------------------------- */

void ron__oap_span_begin(const struct oap_worker *w, const struct ron_oap_app *app,
                         const struct ron_oap_request *q, struct oap_span *ret_span);
/* The request is answered, or nobody waits for it any more. */
void ron__oap_span_end(const struct oap_worker *w, struct oap_span *span, uint64_t corr_id,
                       uint16_t status);

/* ---- answer.c: what goes out ----------------------------------------------------------------- */

/* A RESP or EVENT, in pieces when it must be. `head` has the kind as its flags. */
void ron__oap_write(struct oap_conn *c, const struct ron_oap_head *head, const void *payload,
                    size_t len);
/* A refusal of the wire, counted; fatal ones close. */
void ron__oap_refuse(struct oap_conn *c, const struct ron_oap_head *head,
                     enum ron_oap_reason reason);
/* Writes the scratch buffer and `payload` behind it. */
void ron__oap_flush(struct oap_conn *c, const void *payload, size_t len);
/* Writes what is left in c->out. */
void ron__oap_flush_out(struct oap_conn *c);

/* Writes a, then b, as far as the socket takes them; returns how many bytes that was and adds the
 * system calls to *calls. *ret_rc: RON_OK, RON_AGAIN, or how the socket failed. Also the client's.
 * */
size_t ron__oap_write_two(const struct ron_env *env, int fd, const void *a, size_t a_len,
                          const void *b, size_t b_len, struct ron_stat *calls, enum ron_rc *ret_rc);

/* ---- reply.c: deferred answers --------------------------------------------------------------- */

/* Takes up all replies that were sent since the last time. */
void ron__oap_replies_take(struct oap_worker *w);
/* Writes the answers that are ready, as far as C2 allows. */
void ron__oap_replies_write(struct oap_conn *c);
/* The connection goes: nobody waits for its calls any more. */
void ron__oap_replies_detach(struct oap_conn *c);
/* Answers the calls whose deadline has passed at now_ms. */
void ron__oap_replies_expire(struct oap_conn *c, uint64_t now_ms);
/* Tells the holders that the peer has left, or the one holder that it does not want it any more. */
void ron__oap_replies_cancel(struct oap_conn *c);
void ron__oap_reply_cancel(struct oap_conn *c, uint64_t corr_id, ron_u128 tenant);

/* ---- event.c --------------------------------------------------------------------------------- */

void ron__oap_events_take(struct oap_worker *w);
/* Tells a subscriber what it missed, once it reads again. */
void ron__oap_event_lag(struct oap_conn *c);
enum ron_oap_reason ron__oap_subscribe(struct oap_conn *c, uint64_t app, bool on);
void ron__oap_unsubscribe_all(struct oap_conn *c);

void ron_oap_server_counters(const struct ron_oap_server *s, struct ron_oap_counters *ret);
