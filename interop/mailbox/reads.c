/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/reads.c - operations that write nothing: receiving, looking. Contract in store.h.
 *
 * A RECV leases what it gives in memory alone (M2) and copies the rows into one block that the
 * operation owns: first the array of answers, then their bytes. */
#include <string.h>

#include "interop/mailbox/priv.h"
#include "ron/base/assert.h"

enum { BLOCK_ALIGN = 16 };

/* ---- the block of an answer ------------------------------------------------------------------ */

/* Room for `count` rows of `size` bytes and `bytes` more behind them. */
static void *make_room(struct iop_op *op, size_t count, size_t size, size_t bytes)
{
    uint8_t *room = NULL;
    size_t all = count * size + bytes;

    iop_op_done(op);
    ron_buf_init_aligned(&op->room, all + 1, BLOCK_ALIGN);
    if (ron_buf_reserve(&op->room, all + 1, &room) != RON_OK) {
        iop_op_done(op);
        return NULL;
    }
    memset(room, 0, count * size);
    return room;
}

static struct ron_str copy(char **at, struct ron_str from)
{
    struct ron_str to = {*at, from.len};

    if (from.len > 0) {
        memcpy(*at, from.ptr, from.len);
    }
    *at += from.len;
    return to;
}

/* ---- RECV ------------------------------------------------------------------------------------ */

/* Which messages fit into one answer. */
static uint32_t choose(struct iop_q_topic *topic, const struct iop_op *op, size_t *ret_bytes)
{
    uint32_t max = RON_MIN(RON_MAX(op->recv.max, 1u), (uint32_t)IOP_RECV_MAX);
    uint32_t count = 0;
    size_t bytes = 0;

    RON_LIST_FOREACH(node, &topic->lists[IOP_MSG_READY])
    {
        const struct iop_q_msg *m = RON_LIST_ENTRY(node, struct iop_q_msg, node);

        if (count == max || (count > 0 && bytes + m->bytes > op->recv.max_bytes)) {
            break;
        }
        bytes += m->bytes + IOP_REASON_MAX;
        count++;
    }
    RON_ASSERT(count <= IOP_RECV_MAX);
    *ret_bytes = bytes;
    return count;
}

/* M6. The file may be too damaged to be told; memory knows in any case. */
static void bury_damaged(struct iop_store *s, struct iop_q_msg *m)
{
    static const char why[] = "corrupt: message failed its checksum";
    struct ron_err err = {0};

    if (iop_file_begin(s->file, &err) == RON_OK) {
        if (iop_file_move(s->file, m->id, true, m->deliveries, 0,
                          (struct ron_str){why, sizeof why - 1}, &err) != RON_OK ||
            iop_file_commit(s->file, s->last_id, &err) != RON_OK) {
            iop_file_rollback(s->file);
        }
    }
    iop_queue_move(&s->queue, m, IOP_MSG_DEAD, 0);
    ron_stat_bump(&s->counts.damaged, 1);
    ron_stat_bump(&s->counts.died, 1);
}

/* One message into the answer: RON_CORRUPT when its row is damaged. */
static enum ron_rc fill(struct iop_store *s, struct iop_q_msg *m, struct iop_got *got, char **at)
{
    struct ron_err err = {0};
    struct iop_row row;

    RON_TRY(iop_file_get(s->file, m->id, m->topic->row, &row, &err));
    if (row.head.len + row.body.len > m->bytes || row.reason.len > IOP_REASON_MAX) {
        return RON_CORRUPT;
    }
    RON_ASSERT_MSG(m->state != IOP_MSG_PENDING, "only what is committed is handed out");
    *got = (struct iop_got){.receipt = {m->id, m->deliveries}, .sent_ms = row.sent_ms};
    got->head = copy(at, row.head);
    got->body = copy(at, row.body);
    got->reason = copy(at, row.reason);
    return RON_OK;
}

/* Tells the file which ones are to come. */
static enum ron_rc fetch_ready(struct iop_store *s, struct iop_q_topic *topic, uint32_t count)
{
    uint64_t ids[IOP_RECV_MAX];
    struct ron_err err = {0};
    uint32_t n = 0;

    RON_LIST_FOREACH(node, &topic->lists[IOP_MSG_READY])
    {
        if (n == count) {
            break;
        }
        ids[n++] = RON_LIST_ENTRY(node, struct iop_q_msg, node)->id;
    }
    return iop_file_fetch(s->file, ids, n, &err);
}

/* Leases some of what is ready into a block of the operation; how many. Damaged ones are buried. */
static enum ron_rc lease(struct iop_store *s, struct iop_op *op, struct iop_q_topic *topic,
                         uint32_t *ret_given)
{
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    size_t bytes = 0;
    uint32_t count = choose(topic, op, &bytes);
    struct iop_got *got = make_room(op, count, sizeof *got, bytes);
    char *at;
    uint32_t given = 0;
    enum ron_rc rc = RON_OK;

    *ret_given = 0;
    if (got == NULL) {
        return RON_NOMEM;
    }
    at = (char *)(got + count);
    rc = fetch_ready(s, topic, count);
    for (uint32_t i = 0; i < count && rc == RON_OK; i++) {
        struct iop_q_msg *m = iop_queue_first(topic);

        m->deliveries++;
        rc = fill(s, m, &got[given], &at);
        if (rc == RON_OK) {
            iop_queue_move(&s->queue, m, IOP_MSG_LEASED, now_ms + op->recv.visibility_ms);
            given++;
        } else {
            m->deliveries--;
            if (rc == RON_CORRUPT) {
                bury_damaged(s, m);
                rc = RON_OK;
            }
        }
    }
    op->recv.got = got;
    *ret_given = given;
    return rc;
}

static void give(struct iop_store *s, struct iop_op *op, struct iop_q_topic *topic)
{
    uint32_t given = 0;
    enum ron_rc rc;

    do {
        rc = lease(s, op, topic, &given);
    } while (rc == RON_OK && given == 0 && iop_queue_first(topic) != NULL);
    if (rc != RON_OK && given == 0) {
        iop__answer(op, rc, rc == RON_NOMEM ? "out of memory" : "mailbox is not readable");
        return;
    }
    op->recv.count = given;
    ron_stat_bump(&s->counts.delivered, given);
    iop__answer(op, RON_OK, "");
}

static void answer_none(struct iop_op *op)
{
    op->recv.got = NULL;
    op->recv.count = 0;
    iop__answer(op, RON_OK, "");
}

static void recv_op(struct iop_store *s, struct iop_op *op)
{
    struct iop_q_topic *topic = iop_queue_topic(&s->queue, op->recv.topic);

    op->recv.got = NULL;
    op->recv.count = 0;
    if (!iop_topic_valid(op->recv.topic) && !iop_topic_internal(op->recv.topic)) {
        iop__answer(op, RON_INVALID, "invalid topic name");
    } else if (op->recv.visibility_ms < IOP_VISIBILITY_MIN_MS ||
               op->recv.visibility_ms > IOP_VISIBILITY_MAX_MS ||
               op->recv.wait_ms > IOP_WAIT_MAX_MS) {
        iop__answer(op, RON_INVALID, "visibility or wait time out of range");
    } else if (topic != NULL && ron_list_empty(&topic->waiters) && iop_queue_first(topic) != NULL) {
        give(s, op, topic);
    } else if (op->recv.wait_ms == 0 ||
               (topic == NULL &&
                iop_queue_make_topic(&s->queue, op->recv.topic, &topic) != RON_OK)) {
        answer_none(op);
    } else {
        op->_until_ns = ron_deadline_after_ms(ron_env_now_ns(s->env), op->recv.wait_ms).at_ns;
        ron_list_node_init(&op->_node);
        ron_list_push_back(&topic->waiters, &op->_node);
        s->waiting++;
    }
}

static struct iop_op *take_waiter(struct iop_store *s, struct ron_list_node *node)
{
    RON_ASSERT(node != NULL);
    ron_list_remove(node);
    s->waiting--;
    return RON_LIST_ENTRY(node, struct iop_op, _node);
}

void iop__serve_waiters(struct iop_store *s)
{
    for (uint32_t i = 0; s->waiting > 0 && i < s->queue.topic_count; i++) {
        struct iop_q_topic *topic = s->queue.topics[i];

        while (!ron_list_empty(&topic->waiters) && iop_queue_first(topic) != NULL) {
            give(s, take_waiter(s, ron_list_front(&topic->waiters)), topic);
        }
    }
}

void iop__end_waiters(struct iop_store *s, uint64_t now_ns, bool all)
{
    for (uint32_t i = s->queue.topic_count; s->waiting > 0 && i-- > 0;) {
        struct iop_q_topic *topic = s->queue.topics[i];

        RON_LIST_FOREACH_SAFE(node, &topic->waiters)
        {
            if (all || RON_LIST_ENTRY(node, struct iop_op, _node)->_until_ns <= now_ns) {
                answer_none(take_waiter(s, node));
            }
        }
        iop_queue_drop_topic(&s->queue, topic);
    }
}

uint64_t iop__next_waiter_ns(const struct iop_store *s)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; s->waiting > 0 && i < s->queue.topic_count; i++) {
        RON_LIST_FOREACH(node, &s->queue.topics[i]->waiters)
        {
            next = RON_MIN(next, RON_LIST_ENTRY(node, struct iop_op, _node)->_until_ns);
        }
    }
    return next;
}

/* ---- DEAD ------------------------------------------------------------------------------------ */

static void dead_op(struct iop_store *s, struct iop_op *op)
{
    struct iop_q_topic *topic = iop_queue_topic(&s->queue, op->dead.topic);
    uint32_t max = RON_MIN(RON_MAX(op->dead.max, 1u), (uint32_t)IOP_LIST_MAX);
    uint64_t ids[IOP_LIST_MAX];
    struct iop_got *got;
    struct ron_err err = {0};
    uint32_t count = 0;
    size_t bytes = 0;
    char *at;

    op->dead.count = 0;
    op->dead.got = NULL;
    if (topic == NULL) {
        iop__answer(op, RON_NOTFOUND, "topic not found");
        return;
    }
    if (iop_file_dead(s->file, topic->row, op->dead.after_id, ids, max, &count, &err) != RON_OK) {
        iop__answer(op, err.rc, "mailbox is not readable");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct iop_q_msg *m = iop_queue_find(&s->queue, ids[i]);

        if (m == NULL || (i > 0 && bytes + m->bytes > op->dead.max_bytes)) {
            count = i;
            break;
        }
        bytes += m->bytes + IOP_REASON_MAX;
    }
    got = make_room(op, count, sizeof *got, bytes);
    if (got == NULL) {
        iop__answer(op, RON_NOMEM, "out of memory");
        return;
    }
    at = (char *)(got + count);
    if (iop_file_fetch(s->file, ids, count, &err) != RON_OK) {
        iop__answer(op, err.rc, "mailbox is not readable");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct iop_q_msg *m = iop_queue_find(&s->queue, ids[i]);

        if (fill(s, m, &got[i], &at) != RON_OK) {
            /* It is shown, without bytes that nobody vouches for. */
            got[i] = (struct iop_got){.receipt = {m->id, m->deliveries},
                                      .sent_ms = m->sent_ms,
                                      .head = {"", 0},
                                      .body = {"", 0},
                                      .reason = {"damaged", 7}};
        }
    }
    op->dead.got = got;
    op->dead.count = count;
    iop__answer(op, RON_OK, "");
}

/* ---- STATS, TARGET --------------------------------------------------------------------------- */

static bool listed(const struct iop_q_topic *topic, const struct iop_op *op)
{
    struct ron_str name = {topic->name, topic->name_len};
    size_t len = RON_MIN(name.len, op->stats.after.len);
    int order = len > 0 ? memcmp(name.ptr, op->stats.after.ptr, len) : 0;

    return topic->stored && (order > 0 || (order == 0 && name.len > op->stats.after.len));
}

static void stats_op(struct iop_store *s, struct iop_op *op)
{
    struct iop_q_topic *one = NULL;
    uint32_t max = RON_MIN(s->queue.topic_count, (uint32_t)IOP_LIST_MAX);
    struct iop_topic_stats *rows;
    uint32_t count = 0;

    op->stats.count = 0;
    op->stats.rows = NULL;
    if (op->stats.topic.len > 0) {
        one = iop_queue_topic(&s->queue, op->stats.topic);
        if (one == NULL || !one->stored) {
            iop__answer(op, RON_NOTFOUND, "topic not found");
            return;
        }
        max = 1;
    }
    rows = make_room(op, max, sizeof *rows, 0);
    if (rows == NULL) {
        iop__answer(op, RON_NOMEM, "out of memory");
        return;
    }
    if (one != NULL) {
        iop_queue_stats(one, &rows[count++]);
    }
    for (uint32_t i = 0; one == NULL && i < s->queue.topic_count && count < max; i++) {
        if (listed(s->queue.topics[i], op)) {
            iop_queue_stats(s->queue.topics[i], &rows[count++]);
        }
    }
    op->stats.rows = rows;
    op->stats.count = count;
    iop__answer(op, RON_OK, "");
}

static void target_op(struct iop_store *s, struct iop_op *op)
{
    struct ron_err err = {0};
    bool off = false;
    enum ron_rc rc;

    iop_op_done(op);
    ron_buf_init(&op->room, IOP_REASON_MAX + 1);
    rc = iop_file_target_off(s->file, op->target.name, &off, &op->room, &err);
    if (rc == RON_OK) {
        op->target.off = off;
        op->target.reason = (struct ron_str){
            ron_buf_len(&op->room) > 0 ? ron_buf_text(&op->room) : "", ron_buf_len(&op->room)};
    }
    iop__answer(op, rc, "mailbox is not readable");
}

void iop__read(struct iop_store *s, struct iop_op *op)
{
    switch (op->kind) {
    case IOP_OP_RECV:
        recv_op(s, op);
        break;
    case IOP_OP_DEAD:
        dead_op(s, op);
        break;
    case IOP_OP_STATS:
        stats_op(s, op);
        break;
    case IOP_OP_TARGET:
        target_op(s, op);
        break;
    case IOP_OP_PUT:
    case IOP_OP_ACK:
    case IOP_OP_NACK:
    case IOP_OP_REPLAY:
    case IOP_OP_PURGE:
    case IOP_OP_COUNT:
        RON_UNREACHABLE();
    }
}
