/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/box.h - the mailbox: a durable queue with topics, leases and dead letters, and
 * what it is asked (operations). An interface: who asks does not see whether SQLite, a remote
 * mailbox or another database stands behind it.
 *
 * A message is sent to a topic, received under a lease (the visibility timeout), and acknowledged,
 * after which it is gone. A lease that ends without an acknowledgement brings the message back at
 * once, a nack after the delay that it names or one that doubles; after `deliveries_max` deliveries
 * it is a dead letter, which waits for a replay or a purge.
 *
 * Rules:
 *   M1. RON_OK of PUT, ACK, NACK, REPLAY and PURGE means durable. All operations of one group
 *       share one transaction and one sync (group commit); an operation has all of its effects or
 *       none.
 *   M2. At least once: a message that was put is delivered until it is acknowledged or dead. What
 *       was under way when the process died is delivered again; that delivery does not count.
 *   M3. A PUT with a key has its effects once while the key is remembered (seen.h): a second
 *       one answers RON_OK with `duplicate` and changes nothing. A PUT that failed leaves no key.
 *   M4. A receipt fences: acknowledging with one that was overtaken by a newer delivery is
 *       RON_CONFLICT and changes nothing. Acknowledging what is gone is fine (it was done).
 *   M5. Everything is bounded: a message, a topic, the number of topics, the whole. What would not
 *       fit is refused (RON_LIMIT for a message that can never fit, RON_FULL for now).
 *   M6. A message of a damaged row is never delivered: it becomes a dead letter that says so.
 *
 * Topics that begin with '.' are the journal of the service itself (outbox.h); a name from
 * outside cannot begin so (iop_topic_valid).
 *
 * Ownership: an operation belongs to the mailbox from a submit that returned RON_OK until its
 * `done` is called, which is called exactly once, from any thread, and must neither block nor take
 * long. What its slices point to must live as long. The caller never frees what the mailbox filled
 * in by hand: iop_op_done. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/list.h"
#include "ron/base/rc.h"
#include "ron/cas/b3.h"

enum {
    IOP_TOPIC_MAX = 64,
    IOP_HEAD_MAX = 4096,       /* attributes of a message, a JSON object */
    IOP_MESSAGE_MAX = 4 << 20, /* of a body: the highest that can be configured */
    IOP_REASON_MAX = 160,      /* why a message was given back or died */
    IOP_RECV_MAX = 1000,       /* messages in one answer */
    IOP_RECEIPTS_MAX = 1000,   /* in one ACK or NACK */
    IOP_PUT_MAX = 256,         /* messages in one PUT */
    IOP_LIST_MAX = 1000,       /* rows of one listing */
    IOP_RECEIPT_SIZE = 32,     /* text of a receipt with its NUL */
    IOP_VISIBILITY_MIN_MS = 250,
    IOP_VISIBILITY_MAX_MS = 12 * 60 * 60 * 1000,
    IOP_WAIT_MAX_MS = 30 * 1000, /* of a long poll */
    IOP_KEY_BYTES = 16,
};
#define IOP_DELAY_MAX_MS (UINT64_C(30) * 24 * 60 * 60 * 1000)

/* Journal topics, and names of targets, of bridges that keep their mailbox here: remote.h. */
#define IOP_REMOTE_JOURNAL ".remote."

/* What makes two deliveries the same one; see seen.h. */
struct iop_key {
    uint8_t bytes[IOP_KEY_BYTES];
};

/* Delivery number `delivery` of message `id`: who holds it may acknowledge. As text
 * "<id>-<delivery>". */
struct iop_receipt {
    uint64_t id;
    uint32_t delivery;
};
void iop_receipt_format(struct iop_receipt receipt, char ret_text[IOP_RECEIPT_SIZE]);
RON_MUST_USE bool iop_receipt_parse(struct ron_str text, struct iop_receipt *ret_receipt);

/* [a-z0-9] first, then also '.', '_', '-'; at most IOP_TOPIC_MAX. */
bool iop_topic_valid(struct ron_str name);
/* The same after one leading dot: a journal topic. */
bool iop_topic_internal(struct ron_str name);

/* A message on its way in. */
struct iop_msg {
    struct ron_str topic;
    struct ron_str head; /* attributes: a JSON object, checked by who sends; may be empty */
    struct ron_str body;
    uint64_t delay_ms; /* not delivered before; at most IOP_DELAY_MAX_MS */
};

/* A message on its way out. Slices live until iop_op_done. */
struct iop_got {
    struct iop_receipt receipt;
    uint64_t sent_ms;
    struct ron_str head;
    struct ron_str body;
    struct ron_str reason; /* of the last nack, or why it is dead */
};

struct iop_topic_stats {
    char name[IOP_TOPIC_MAX + 1];
    uint64_t ready;   /* could be received now */
    uint64_t delayed; /* wait for their time */
    uint64_t leased;  /* received, neither acknowledged nor timed out */
    uint64_t dead;
    uint64_t bytes;     /* of all of these */
    uint64_t oldest_ms; /* when the oldest that is not dead was sent; 0: none */
};

/* X(NAME, "name") */
#define IOP_OPS(X)                                                                                 \
    X(PUT, "put")                                                                                  \
    X(RECV, "recv")                                                                                \
    X(ACK, "ack")                                                                                  \
    X(NACK, "nack")                                                                                \
    X(DEAD, "dead")                                                                                \
    X(REPLAY, "replay")                                                                            \
    X(PURGE, "purge")                                                                              \
    X(STATS, "stats")                                                                              \
    X(TARGET, "target")
enum iop_op_kind {
#define X(name, text) IOP_OP_##name,
    IOP_OPS(X)
#undef X
        IOP_OP_COUNT
};
const char *iop_op_name(enum iop_op_kind kind);

/* Some messages, all or none. With a key: M3. */
struct iop_op_put {
    const struct iop_msg *msgs;
    uint32_t count;
    bool has_key;
    struct iop_key key;
    bool duplicate;    /* answer */
    uint64_t first_id; /* answer: the messages have first_id, first_id + 1, ... */
};

/* At most `max` messages and `max_bytes` of bodies and heads (one message is given even if
 * it is larger). None there: waits up to wait_ms, then RON_OK with count 0. */
struct iop_op_recv {
    struct ron_str topic;
    uint32_t max;
    uint32_t max_bytes;
    uint32_t visibility_ms;
    uint32_t wait_ms;
    uint32_t count;      /* answer */
    struct iop_got *got; /* answer */
};

/* ACK and NACK. ret_done counts those that had an effect; `rcs`, when not NULL, takes the
 * code of each (RON_OK, RON_NOTFOUND: gone or not of this topic, RON_CONFLICT: M4). */
struct iop_op_ack {
    struct ron_str topic;
    const struct iop_receipt *receipts;
    uint32_t count;
    enum ron_rc *rcs;
    uint32_t ret_done;     /* answer */
    uint64_t delay_ms;     /* NACK: before the next delivery; IOP_DELAY_AUTO: by the curve */
    bool dead;             /* NACK: no further delivery: a dead letter at once */
    struct ron_str reason; /* NACK */
};

/* Dead letters after an id, oldest first; REPLAY and PURGE: `id` alone, or all when 0. */
struct iop_op_dead {
    struct ron_str topic;
    uint64_t after_id; /* DEAD */
    uint64_t id;       /* REPLAY, PURGE */
    uint32_t max;
    uint32_t max_bytes;  /* DEAD */
    uint32_t count;      /* answer */
    struct iop_got *got; /* answer of DEAD; receipt.delivery: how often it was delivered */
};

/* One topic, or with an empty name all (at most IOP_LIST_MAX, by name after `after`). */
struct iop_op_stats {
    struct ron_str topic;
    struct ron_str after;
    uint32_t count;               /* answer */
    struct iop_topic_stats *rows; /* answer */
};

/* Whether a place to forward to is switched off, durably (410). */
struct iop_op_target {
    struct ron_str name; /* at most IOP_TARGET_MAX */
    bool set;            /* false: only ask */
    bool off;            /* to be; and the answer */
    struct ron_str reason;
};

#define IOP_OP_MAGIC 0x494f5052u /* "IOPR" */

struct iop_op {
    uint32_t magic; /* set by the mailbox while it has the operation */
    enum iop_op_kind kind;
    /* Called once, with rc set. The operation is the caller's again from then on. */
    void (*done)(struct iop_op *op);
    void *arg; /* the caller's */
    enum ron_rc rc;
    const char *why; /* of a failure: static text */
    union {
        struct iop_op_put put;
        struct iop_op_recv recv;
        struct iop_op_ack ack;
        struct iop_op_dead dead;
        struct iop_op_stats stats;
        struct iop_op_target target;
    };
    struct ron_buf room; /* what the answer's slices and arrays lie in; the mailbox's */
    /* The mailbox's own, between submit and done. */
    struct ron_list_node _node;
    uint64_t _until_ns;
    void *_first;
    bool _ended;
};
enum { IOP_TARGET_MAX = 128 };
#define IOP_DELAY_AUTO UINT64_MAX

/* Gives back what an answer holds; the operation may be used again. Fine on one never answered. */
void iop_op_done(struct iop_op *op);

/* ---- the interface --------------------------------------------------------------------------- */

struct iop_box;
struct iop_box_ops {
    const char *name; /* "local", "http" */
    /* Never blocks. RON_OK: `done` will be called. RON_FULL: too much is under way; RON_CLOSED:
     * draining; the operation stays with the caller then. */
    enum ron_rc (*submit)(struct iop_box *box, struct iop_op *op);
    void (*dispose)(struct iop_box *box);
};
struct iop_box {
    const struct iop_box_ops *ops;
};

static inline enum ron_rc iop_box_submit(struct iop_box *box, struct iop_op *op) RON_MUST_USE;
static inline enum ron_rc iop_box_submit(struct iop_box *box, struct iop_op *op)
{
    return box->ops->submit(box, op);
}
static inline void iop_box_free(struct iop_box *box)
{
    if (box != NULL) {
        box->ops->dispose(box);
    }
}
/* For threads that may block: submits and waits for the answer. Long polls end by themselves. */
RON_MUST_USE enum ron_rc iop_box_call(struct iop_box *box, struct iop_op *op);
