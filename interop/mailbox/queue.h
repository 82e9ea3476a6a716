/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/queue.h - what the writer of the mailbox knows in memory: which messages there
 * are, and who may have them when. Pure: time is a parameter; private to the iop_box_*.c files and
 * tests.
 *
 *                     commit                      take
 *     pending ----------------------> ready <==> leased --time--> expired
 *        |  \--delay--> delayed --time--^  ^                         |
 *      failed                              +---- settled: again -----+
 *        v                                        settled: dead --> dead --replay--> ready
 *     (freed)                     acknowledged: freed
 *
 * Rules:
 *   Q1. A message counts against the limits from the moment it is pending until it is freed, dead
 *       ones too.
 *   Q2. Ready messages are handed out oldest first; one that comes back goes to the end.
 *   Q3. Between a change that waits for its commit and the commit, a message is claimed; nobody
 *       else may change it or take it.
 *
 * Threads: one. Times are milliseconds of the monotonic clock, except sent_ms (wall). */
#pragma once

#include "interop/mailbox/local.h"
#include "ron/base/map.h"
#include "ron/base/wheel.h"

enum iop_msg_state {
    IOP_MSG_PENDING, /* its transaction is not committed */
    IOP_MSG_READY,
    IOP_MSG_DELAYED,
    IOP_MSG_LEASED,
    IOP_MSG_EXPIRED, /* its lease ended; the writer has to note the delivery */
    IOP_MSG_DEAD,
    IOP_MSG_STATE_COUNT
};

struct iop_q_topic;

struct iop_q_msg {
    struct ron_map_node by_id;
    uint64_t id;
    struct iop_q_topic *topic;
    struct ron_list_node node; /* of the list of its state, or of the slab */
    struct ron_timer timer;
    struct iop_op *claim;      /* Q3; NULL: nobody's */
    struct iop_q_msg *op_next; /* messages of one PUT */
    uint64_t sent_ms;
    uint64_t due_ms; /* PENDING: when it may be delivered, 0: at once */
    uint32_t bytes;  /* head and body */
    uint32_t deliveries;
    enum iop_msg_state state;
};

struct iop_q_topic {
    char name[IOP_TOPIC_MAX + 1];
    uint32_t name_len;
    uint32_t row;         /* of the table of topics */
    bool stored;          /* its row is committed */
    struct iop_op *claim; /* the PUT that adds its row in this group */
    struct ron_list lists[IOP_MSG_STATE_COUNT];
    uint64_t counts[IOP_MSG_STATE_COUNT];
    uint64_t bytes;
    struct ron_list waiters; /* RECV operations, first come first served */
};

struct iop_queue {
    struct iop_box_limits limits;
    struct ron_wheel wheel;
    struct iop_q_topic **topics; /* by name */
    uint32_t topic_count;
    uint32_t row_next; /* rows are used again after four thousand million topics */
    struct ron_map by_id;
    struct ron_list spare; /* of the slabs */
    void **slabs;
    uint32_t slab_count;
    struct ron_list expired; /* all that are EXPIRED, of every topic */
    uint64_t messages;
    uint64_t bytes;
    uint64_t dead;
};

RON_MUST_USE enum ron_rc iop_queue_init(struct iop_queue *q, const struct iop_box_limits *limits,
                                        uint64_t now_ms, struct ron_err *err);
/* Waiters must be gone. Also fine on a struct of zeros. */
void iop_queue_done(struct iop_queue *q);

/* NULL: there is none. */
struct iop_q_topic *iop_queue_topic(const struct iop_queue *q, struct ron_str name);
/* Makes it when missing: RON_FULL (too many topics), RON_NOMEM. */
RON_MUST_USE enum ron_rc iop_queue_make_topic(struct iop_queue *q, struct ron_str name,
                                              struct iop_q_topic **ret_topic);
/* Without messages and waiters, and no operation is about to change that. */
bool iop_queue_topic_idle(const struct iop_q_topic *topic);
/* A topic that is not stored, without messages and waiters, is forgotten. */
void iop_queue_drop_topic(struct iop_queue *q, struct iop_q_topic *topic);

/* A pending message. RON_FULL: Q1; RON_NOMEM. */
RON_MUST_USE enum ron_rc iop_queue_add(struct iop_queue *q, struct iop_q_topic *topic, uint64_t id,
                                       uint32_t bytes, struct iop_q_msg **ret_msg);
struct iop_q_msg *iop_queue_find(const struct iop_queue *q, uint64_t id);
/* Moves a message to another state; DELAYED and LEASED with the time at which that ends. */
void iop_queue_move(struct iop_queue *q, struct iop_q_msg *m, enum iop_msg_state to,
                    uint64_t until_ms);
/* Forgets it, whatever its state. */
void iop_queue_drop(struct iop_queue *q, struct iop_q_msg *m);
/* The next ready message, or NULL; it stays ready. */
struct iop_q_msg *iop_queue_first(struct iop_q_topic *topic);
/* Delays and leases whose time has come: delayed ones become ready, leased ones expired. */
void iop_queue_advance(struct iop_queue *q, uint64_t now_ms);
/* When to advance next, UINT64_MAX: never. */
uint64_t iop_queue_next_ms(const struct iop_queue *q);
void iop_queue_stats(const struct iop_q_topic *topic, struct iop_topic_stats *ret_stats);
