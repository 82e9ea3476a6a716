/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/store.c - groups of operations: what writes. Contract in store.h; what reads is
 * in reads.c, opening and time in open.c.
 *
 * Each kind of operation that writes has three functions: `prepare` checks it and writes its rows,
 * `finish` lets memory follow after the commit, `undo` takes its claims back. prepare answers with
 * a code that concerns this operation alone, or sets *ret_fatal: the transaction cannot go on. */
#include "interop/mailbox/store.h"

#include <string.h>

#include "interop/mailbox/priv.h"
#include "ron/base/assert.h"

/* ---- answering ------------------------------------------------------------------------------- */

void iop__answer(struct iop_op *op, enum ron_rc rc, const char *why)
{
    op->rc = rc;
    op->why = rc == RON_OK ? "" : why;
    op->magic = 0;
    op->done(op);
}

static enum ron_rc refuse(struct iop_op *op, enum ron_rc rc, const char *why)
{
    op->why = why;
    return rc;
}

static bool topic_ok(struct ron_str name)
{
    return iop_topic_valid(name) || iop_topic_internal(name);
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static enum ron_rc check_put(const struct iop_store *s, struct iop_op *op)
{
    if (op->put.count == 0 || op->put.count > IOP_PUT_MAX) {
        return refuse(op, RON_INVALID, "expected 1 to 256 messages");
    }
    for (uint32_t i = 0; i < op->put.count; i++) {
        const struct iop_msg *m = &op->put.msgs[i];

        if (!topic_ok(m->topic)) {
            return refuse(op, RON_INVALID, "invalid topic name");
        }
        if (m->head.len > IOP_HEAD_MAX || m->body.len > s->queue.limits.message_max_bytes) {
            return refuse(op, RON_LIMIT, "message too large");
        }
        if (m->delay_ms > IOP_DELAY_MAX_MS) {
            return refuse(op, RON_INVALID, "delay too long (limit 30 days)");
        }
    }
    return RON_OK;
}

/* Forgets the pending messages of a PUT, and topics that it would have made. */
static void drop_pending(struct iop_store *s, struct iop_op *op)
{
    struct iop_q_msg *m = op->_first;

    op->_first = NULL;
    while (m != NULL) {
        struct iop_q_msg *next = m->op_next;
        struct iop_q_topic *topic = m->topic;

        RON_ASSERT_MSG(m->state == IOP_MSG_PENDING, "only what is not committed is taken back");
        iop_queue_drop(&s->queue, m);
        topic->claim = topic->claim == op ? NULL : topic->claim;
        iop_queue_drop_topic(&s->queue, topic);
        m = next;
    }
}

/* Room for all messages in memory, as pending ones: Q1. */
static enum ron_rc make_pending(struct iop_store *s, struct iop_op *op)
{
    struct iop_q_msg **link = (struct iop_q_msg **)&op->_first;

    RON_ASSERT_MSG(op->_first == NULL, "a PUT is prepared once");
    op->put.first_id = s->last_id + 1;
    for (uint32_t i = 0; i < op->put.count; i++) {
        const struct iop_msg *in = &op->put.msgs[i];
        struct iop_q_topic *topic = NULL;
        struct iop_q_msg *m = NULL;
        enum ron_rc rc = iop_queue_make_topic(&s->queue, in->topic, &topic);

        if (rc == RON_OK) {
            rc = iop_queue_add(&s->queue, topic, s->last_id + 1 + i,
                               (uint32_t)(in->head.len + in->body.len), &m);
            if (rc != RON_OK) {
                iop_queue_drop_topic(&s->queue, topic);
            }
        }
        if (rc != RON_OK) {
            drop_pending(s, op);
            return refuse(op, rc, rc == RON_FULL ? "mailbox is full" : "out of memory");
        }
        *link = m;
        link = &m->op_next;
    }
    s->last_id += op->put.count; /* an id that is not used is lost, never given out twice */
    return RON_OK;
}

static enum ron_rc write_put(struct iop_store *s, struct iop_op *op, uint64_t wall_ms,
                             struct ron_err *err)
{
    struct iop_q_msg *m = op->_first;

    for (uint32_t i = 0; i < op->put.count; i++, m = m->op_next) {
        const struct iop_msg *in = &op->put.msgs[i];

        if (!m->topic->stored && m->topic->claim == NULL) {
            RON_TRY(iop_file_add_topic(s->file, m->topic->row, in->topic, err));
            m->topic->claim = op;
        }
        m->sent_ms = wall_ms;
        m->due_ms = in->delay_ms;
        RON_TRY(iop_file_add(s->file, m->id, m->topic->row,
                             in->delay_ms > 0 ? wall_ms + in->delay_ms : 0, wall_ms, in, err));
    }
    return op->put.has_key ? iop_file_add_seen(s->file, &op->put.key, wall_ms, err) : RON_OK;
}

static enum ron_rc prepare_put(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    enum ron_rc rc = check_put(s, op);

    op->put.duplicate = false;
    op->put.first_id = 0;
    if (rc == RON_OK && op->put.has_key) {
        rc = iop_seen_reserve(s->seen, &op->put.key, g->wall_ms);
        if (rc == RON_EXISTS || rc == RON_AGAIN) {
            /* Taken already, or by an operation of this very group: then its end decides. */
            op->put.duplicate = true;
            return RON_OK;
        }
        if (rc != RON_OK) {
            return refuse(op, rc, "deduplication table is full");
        }
    }
    if (rc == RON_OK) {
        rc = make_pending(s, op);
        if (rc != RON_OK && op->put.has_key) {
            iop_seen_release(s->seen, &op->put.key);
        }
    }
    RON_TRY(rc);
    g->bytes += op->put.count * UINT64_C(64);
    for (uint32_t i = 0; i < op->put.count; i++) {
        g->bytes += op->put.msgs[i].head.len + op->put.msgs[i].body.len;
    }
    g->fatal = write_put(s, op, g->wall_ms, &g->err);
    return RON_OK;
}

static void undo_put(struct iop_store *s, struct iop_op *op)
{
    drop_pending(s, op);
    if (op->put.has_key && !op->put.duplicate) {
        iop_seen_release(s->seen, &op->put.key);
    }
}

static void finish_put(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    struct iop_q_msg *m = op->_first;

    if (op->put.duplicate) {
        ron_stat_bump(&s->counts.duplicates, 1);
        return;
    }
    if (op->put.has_key) {
        iop_seen_commit(s->seen, &op->put.key);
        s->seen_low = RON_MIN(s->seen_low, g->wall_ms);
    }
    while (m != NULL) {
        struct iop_q_msg *next = m->op_next;

        RON_ASSERT_MSG(m->state == IOP_MSG_PENDING, "a message is committed once");
        m->topic->stored = true;
        m->topic->claim = NULL;
        m->op_next = NULL;
        iop_queue_move(&s->queue, m, m->due_ms > 0 ? IOP_MSG_DELAYED : IOP_MSG_READY,
                       g->now_ms + m->due_ms);
        m = next;
    }
    op->_first = NULL;
    ron_stat_bump(&s->counts.put, op->put.count);
}

/* ---- ACK and NACK ---------------------------------------------------------------------------- */

/* M4. After a restart leases are forgotten: the delivery that was under way has the next number. */
static bool may_ack(const struct iop_q_msg *m, uint32_t delivery)
{
    if (m->state == IOP_MSG_LEASED || m->state == IOP_MSG_EXPIRED) {
        return delivery == m->deliveries;
    }
    return delivery == m->deliveries || (m->state != IOP_MSG_DEAD && delivery == m->deliveries + 1);
}

static bool may_nack(const struct iop_q_msg *m, uint32_t delivery)
{
    return (m->state == IOP_MSG_LEASED || m->state == IOP_MSG_EXPIRED) && delivery == m->deliveries;
}

static uint32_t deliveries_max(const struct iop_store *s, const struct iop_q_topic *topic)
{
    /* The journal's worker decides itself when an action is given up. */
    return topic->name[0] == '.' ? UINT32_MAX : s->queue.limits.deliveries_max;
}

static uint64_t redeliver_ms(struct iop_store *s, uint32_t deliveries)
{
    RON_ASSERT_MSG(deliveries >= 1, "what comes again was delivered");
    uint64_t base = deliveries >= 8 ? IOP_REDELIVER_MAX_MS
                                    : (uint64_t)IOP_REDELIVER_FIRST_MS << (deliveries - 1);

    base = RON_MIN(base, (uint64_t)IOP_REDELIVER_MAX_MS);
    return RON_MIN(base + ron_rand_below(&s->rand, base + 1), (uint64_t)IOP_REDELIVER_MAX_MS);
}

static enum ron_rc change(struct iop_store *s, struct iop_op *op, struct iop_q_msg *m,
                          struct iop_group *g)
{
    uint64_t delay_ms = op->ack.delay_ms;
    bool dead;

    RON_ASSERT_MSG(m->claim == NULL, "Q3: a claimed message belongs to one operation");
    m->claim = op;
    if (op->kind == IOP_OP_ACK) {
        return iop_file_drop(s->file, m->id, &g->err);
    }
    dead = op->ack.dead || m->deliveries >= deliveries_max(s, m->topic);
    delay_ms = delay_ms == IOP_DELAY_AUTO ? redeliver_ms(s, m->deliveries)
                                          : RON_MIN(delay_ms, IOP_DELAY_MAX_MS);
    m->due_ms = dead ? UINT64_MAX : delay_ms;
    return iop_file_move(s->file, m->id, dead, m->deliveries, dead ? 0 : g->wall_ms + delay_ms,
                         op->ack.reason, &g->err);
}

static enum ron_rc prepare_ack(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    struct iop_q_topic *topic = iop_queue_topic(&s->queue, op->ack.topic);

    op->ack.ret_done = 0;
    if (op->ack.count > IOP_RECEIPTS_MAX) {
        return refuse(op, RON_LIMIT, "too many receipt handles in one request (limit 1000)");
    }
    for (uint32_t i = 0; i < op->ack.count && g->fatal == RON_OK; i++) {
        struct iop_receipt r = op->ack.receipts[i];
        struct iop_q_msg *m = iop_queue_find(&s->queue, r.id);
        enum ron_rc rc = RON_OK;

        if (m == NULL || m->topic != topic || m->state == IOP_MSG_PENDING) {
            rc = RON_NOTFOUND;
        } else if (m->claim != NULL ||
                   !(op->kind == IOP_OP_ACK ? may_ack(m, r.delivery) : may_nack(m, r.delivery))) {
            rc = RON_CONFLICT;
        } else {
            g->fatal = change(s, op, m, g);
            op->ack.ret_done++;
        }
        if (op->ack.rcs != NULL) {
            op->ack.rcs[i] = rc;
        }
    }
    return RON_OK;
}

static struct iop_q_msg *claimed(struct iop_store *s, const struct iop_op *op, uint32_t i)
{
    struct iop_q_msg *m = iop_queue_find(&s->queue, op->ack.receipts[i].id);

    return m != NULL && m->claim == op ? m : NULL;
}

static void undo_ack(struct iop_store *s, struct iop_op *op)
{
    for (uint32_t i = 0; i < op->ack.count; i++) {
        struct iop_q_msg *m = claimed(s, op, i);

        if (m != NULL) {
            m->claim = NULL;
        }
    }
    op->ack.ret_done = 0;
}

static void finish_ack(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    for (uint32_t i = 0; i < op->ack.count; i++) {
        struct iop_q_msg *m = claimed(s, op, i);

        if (m == NULL) {
            continue;
        }
        m->claim = NULL;
        if (op->kind == IOP_OP_ACK) {
            iop_queue_drop(&s->queue, m);
        } else if (m->due_ms == UINT64_MAX) {
            iop_queue_move(&s->queue, m, IOP_MSG_DEAD, 0);
            ron_stat_bump(&s->counts.died, 1);
        } else {
            iop_queue_move(&s->queue, m, m->due_ms > 0 ? IOP_MSG_DELAYED : IOP_MSG_READY,
                           g->now_ms + m->due_ms);
        }
    }
    ron_stat_bump(op->kind == IOP_OP_ACK ? &s->counts.acked : &s->counts.nacked, op->ack.ret_done);
}

/* ---- REPLAY and PURGE ------------------------------------------------------------------------ */

static enum ron_rc change_dead(struct iop_store *s, struct iop_op *op, struct iop_q_msg *m,
                               struct iop_group *g)
{
    struct iop_q_msg **link = (struct iop_q_msg **)&op->_first;

    RON_ASSERT_MSG(m->claim == NULL, "Q3: a claimed message belongs to one operation");
    m->claim = op;
    m->op_next = *link;
    *link = m;
    op->dead.count++;
    return op->kind == IOP_OP_PURGE
               ? iop_file_drop(s->file, m->id, &g->err)
               : iop_file_move(s->file, m->id, false, 0, 0, (struct ron_str){"", 0}, &g->err);
}

static enum ron_rc prepare_dead(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    struct iop_q_topic *topic = iop_queue_topic(&s->queue, op->dead.topic);
    uint32_t max = op->dead.max == 0 ? IOP_LIST_MAX : RON_MIN(op->dead.max, (uint32_t)IOP_LIST_MAX);
    struct iop_q_msg *one;

    op->dead.count = 0;
    if (topic == NULL) {
        return refuse(op, RON_NOTFOUND, "topic not found");
    }
    if (op->dead.id != 0) {
        one = iop_queue_find(&s->queue, op->dead.id);
        if (one == NULL || one->topic != topic || one->state != IOP_MSG_DEAD ||
            one->claim != NULL) {
            return refuse(op, RON_NOTFOUND, "dead letter not found");
        }
        g->fatal = change_dead(s, op, one, g);
        return RON_OK;
    }
    RON_LIST_FOREACH(node, &topic->lists[IOP_MSG_DEAD])
    {
        struct iop_q_msg *m = RON_LIST_ENTRY(node, struct iop_q_msg, node);

        if (op->dead.count >= max || g->fatal != RON_OK) {
            break;
        }
        if (m->claim == NULL) {
            g->fatal = change_dead(s, op, m, g);
        }
    }
    return RON_OK;
}

static void undo_dead(struct iop_store *s, struct iop_op *op)
{
    (void)s;
    for (struct iop_q_msg *m = op->_first, *next; m != NULL; m = next) {
        next = m->op_next;
        m->claim = NULL;
        m->op_next = NULL;
    }
    op->_first = NULL;
    op->dead.count = 0;
}

static void finish_dead(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    (void)g;
    for (struct iop_q_msg *m = op->_first, *next; m != NULL; m = next) {
        next = m->op_next;
        m->claim = NULL;
        m->op_next = NULL;
        if (op->kind == IOP_OP_PURGE) {
            iop_queue_drop(&s->queue, m);
        } else {
            m->deliveries = 0;
            iop_queue_move(&s->queue, m, IOP_MSG_READY, 0);
        }
    }
    op->_first = NULL;
}

/* ---- TARGET ---------------------------------------------------------------------------------- */

static enum ron_rc prepare_target(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    if (op->target.name.len == 0 || op->target.name.len > IOP_TARGET_MAX) {
        return refuse(op, RON_INVALID, "expected a target name of 1 to 128 bytes");
    }
    g->fatal = iop_file_target(s->file, op->target.name, op->target.off, g->wall_ms,
                               op->target.reason, &g->err);
    return RON_OK;
}

static void undo_nothing(struct iop_store *s, struct iop_op *op)
{
    (void)s;
    (void)op;
}

static void finish_nothing(struct iop_store *s, struct iop_op *op, struct iop_group *g)
{
    (void)s;
    (void)op;
    (void)g;
}

/* ---- groups ---------------------------------------------------------------------------------- */

struct writes {
    enum ron_rc (*prepare)(struct iop_store *s, struct iop_op *op, struct iop_group *g);
    void (*undo)(struct iop_store *s, struct iop_op *op);
    void (*finish)(struct iop_store *s, struct iop_op *op, struct iop_group *g);
};

static const struct writes *writes_of(const struct iop_op *op)
{
    static const struct writes table[IOP_OP_COUNT] = {
        [IOP_OP_PUT] = {prepare_put, undo_put, finish_put},
        [IOP_OP_ACK] = {prepare_ack, undo_ack, finish_ack},
        [IOP_OP_NACK] = {prepare_ack, undo_ack, finish_ack},
        [IOP_OP_REPLAY] = {prepare_dead, undo_dead, finish_dead},
        [IOP_OP_PURGE] = {prepare_dead, undo_dead, finish_dead},
        [IOP_OP_TARGET] = {prepare_target, undo_nothing, finish_nothing},
    };

    if (op->kind == IOP_OP_TARGET && !op->target.set) {
        return NULL;
    }
    return table[op->kind].prepare != NULL ? &table[op->kind] : NULL;
}

/* Writes operations until the group is full; how many it took. Those that were refused alone are
 * marked as ended, with their code. */
static size_t prepare_group(struct iop_store *s, struct iop_op **ops, size_t count,
                            struct iop_group *g)
{
    size_t taken = 0;

    while (taken < count && taken < IOP_GROUP_MAX && g->bytes < IOP_GROUP_BYTES &&
           g->fatal == RON_OK) {
        struct iop_op *op = ops[taken++];
        const struct writes *w = writes_of(op);

        op->_first = NULL;
        op->_ended = false;
        op->why = "";
        if (w == NULL) {
            continue;
        }
        if (!g->began) {
            g->fatal = iop_file_begin(s->file, &g->err);
            g->began = g->fatal == RON_OK;
            if (!g->began) {
                op->_ended = true; /* nothing to undo */
                op->rc = g->fatal;
                op->why = "mailbox is not writable";
                break;
            }
        }
        op->rc = w->prepare(s, op, g);
        op->_ended = op->rc != RON_OK;
    }
    return taken;
}

static void end_group(struct iop_store *s, struct iop_op **ops, size_t count, struct iop_group *g)
{
    uint64_t began_ns = ron_env_now_ns(s->env);

    if (g->fatal == RON_OK && g->began) {
        g->fatal = iop_file_commit(s->file, s->last_id, &g->err);
        ron_stat_set(&s->counts.commit_ns, ron_env_now_ns(s->env) - began_ns);
    } else if (g->began) {
        iop_file_rollback(s->file);
    }
    ron_stat_bump(&s->counts.groups, g->began);
    ron_stat_set(&s->counts.broken, g->fatal != RON_OK);
    ron_stat_bump(&s->counts.failures, g->fatal != RON_OK);
    s->away = s->away || g->fatal == RON_AGAIN || g->fatal == RON_TIMEOUT;
    for (size_t i = 0; i < count; i++) {
        const struct writes *w = writes_of(ops[i]);

        if (w == NULL || ops[i]->_ended) {
            continue;
        }
        if (g->fatal == RON_OK) {
            w->finish(s, ops[i], g);
        } else {
            w->undo(s, ops[i]);
            ops[i]->rc = g->fatal;
            ops[i]->why = "mailbox is not writable";
        }
    }
}

static void answer_group(struct iop_store *s, struct iop_op **ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct iop_op *op = ops[i];

        if (writes_of(op) != NULL) {
            op->magic = 0;
            op->done(op);
        } else {
            iop__read(s, op);
        }
    }
}

void iop_store_apply(struct iop_store *s, struct iop_op **ops, size_t count)
{
    while (count > 0) {
        struct iop_group g;
        size_t taken;

        iop__group_init(s, &g);
        taken = prepare_group(s, ops, count, &g);
        end_group(s, ops, taken, &g);
        ron_stat_bump(&s->counts.ops, taken);
        answer_group(s, ops, taken);
        ops += taken;
        count -= taken;
        iop__serve_waiters(s);
    }
    iop__publish(s);
}

/* ---- leases that ended ----------------------------------------------------------------------- */

static enum ron_rc write_expired(struct iop_store *s, struct iop_group *g)
{
    uint32_t count = 0;

    RON_TRY(iop_file_begin(s->file, &g->err));
    RON_LIST_FOREACH(node, &s->queue.expired)
    {
        struct iop_q_msg *m = RON_LIST_ENTRY(node, struct iop_q_msg, node);
        bool dead = m->deliveries >= deliveries_max(s, m->topic);

        if (count++ >= IOP_EXPIRE_MAX) {
            break;
        }
        g->fatal = iop_file_move(s->file, m->id, dead, m->deliveries, 0,
                                 dead ? (struct ron_str){"visibility timeout expired", 24}
                                      : (struct ron_str){"", 0},
                                 &g->err);
        if (g->fatal != RON_OK) {
            iop_file_rollback(s->file);
            return g->fatal;
        }
    }
    return iop_file_commit(s->file, s->last_id, &g->err);
}

void iop__settle_expired(struct iop_store *s)
{
    while (!ron_list_empty(&s->queue.expired)) {
        struct iop_group g;
        enum ron_rc rc;

        iop__group_init(s, &g);
        rc = write_expired(s, &g);
        ron_stat_set(&s->counts.broken, rc != RON_OK);
        ron_stat_bump(&s->counts.failures, rc != RON_OK);
        for (uint32_t i = 0; i < IOP_EXPIRE_MAX && !ron_list_empty(&s->queue.expired); i++) {
            struct iop_q_msg *m =
                RON_LIST_ENTRY(ron_list_front(&s->queue.expired), struct iop_q_msg, node);
            /* What could not be written down is delivered again all the same; only its count would
             * be lost by a crash. It does not die, because the file does not know. */
            bool dead = rc == RON_OK && m->deliveries >= deliveries_max(s, m->topic);

            iop_queue_move(&s->queue, m, dead ? IOP_MSG_DEAD : IOP_MSG_READY, 0);
            ron_stat_bump(&s->counts.expired, 1);
            ron_stat_bump(&s->counts.died, dead);
        }
    }
}
