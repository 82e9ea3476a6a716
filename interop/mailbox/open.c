/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/open.c - the store from its opening to its end, and what time brings. Contract in
 * store.h. */
#include <string.h>

#include "interop/mailbox/priv.h"
#include "ron/base/assert.h"

/* ---- opening --------------------------------------------------------------------------------- */

static enum ron_rc load_topic(void *arg, uint32_t row, struct ron_str name)
{
    struct iop_store *s = RON_OBJ(arg, struct iop_store, IOP_STORE_MAGIC);
    struct iop_q_topic *topic = NULL;

    RON_TRY(iop_queue_make_topic(&s->queue, name, &topic));
    topic->row = row;
    topic->stored = true;
    s->queue.row_next = RON_MAX(s->queue.row_next, row + 1);
    return RON_OK;
}

static struct iop_q_topic *topic_of_row(const struct iop_queue *q, uint32_t row)
{
    for (uint32_t i = 0; i < q->topic_count; i++) {
        if (q->topics[i]->row == row) {
            return q->topics[i];
        }
    }
    return NULL;
}

static enum ron_rc load_message(void *arg, uint64_t id, uint32_t row, bool dead,
                                uint32_t deliveries, uint64_t due_ms, uint64_t sent_ms,
                                uint32_t bytes)
{
    struct iop_store *s = RON_OBJ(arg, struct iop_store, IOP_STORE_MAGIC);
    struct iop_q_topic *topic = topic_of_row(&s->queue, row);
    uint64_t wall_ms = ron_env_wall_ms(s->env);
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    uint64_t delay_ms = due_ms > wall_ms ? RON_MIN(due_ms - wall_ms, IOP_DELAY_MAX_MS) : 0;
    struct iop_q_msg *m = NULL;

    if (topic == NULL) {
        return RON_CORRUPT;
    }
    RON_TRY(iop_queue_add(&s->queue, topic, id, bytes, &m));
    m->sent_ms = sent_ms;
    m->deliveries = deliveries;
    iop_queue_move(&s->queue, m,
                   dead           ? IOP_MSG_DEAD
                   : delay_ms > 0 ? IOP_MSG_DELAYED
                                  : IOP_MSG_READY,
                   now_ms + delay_ms);
    s->last_id = RON_MAX(s->last_id, id);
    return RON_OK;
}

static enum ron_rc load_seen(void *arg, const struct iop_key *key, uint64_t at_ms)
{
    struct iop_store *s = RON_OBJ(arg, struct iop_store, IOP_STORE_MAGIC);
    enum ron_rc rc = iop_seen_load(s->seen, key, at_ms);

    s->seen_low = RON_MIN(s->seen_low, at_ms);
    return rc == RON_EXISTS ? RON_OK : rc; /* taken again after its time was up */
}

/* What is stored already is kept whatever the limits are now; they hold for what comes. */
static enum ron_rc load(struct iop_store *s, struct ron_err *err)
{
    struct iop_box_limits limits = s->queue.limits;
    enum ron_rc rc;

    s->queue.limits.topic_max_bytes = UINT64_MAX;
    s->queue.limits.total_max_bytes = UINT64_MAX;
    s->queue.limits.topic_max_messages = UINT32_MAX;
    s->queue.limits.topics_max = RON_MAX(limits.topics_max, (uint32_t)IOP_TOPICS_MAX);
    rc = iop_file_load(
        s->file,
        &(struct iop_file_load){
            .arg = s, .topic = load_topic, .message = load_message, .seen = load_seen},
        err);
    s->queue.limits = limits;
    return rc;
}

enum ron_rc iop_store_open(struct iop_store *s, const struct iop_store_opts *opts,
                           struct ron_err *err)
{
    struct iop_seen_opts seen = {
        .entries_max = opts->seen_max, .ttl_ms = opts->seen_ttl_ms, .keep_ms = opts->seen_keep_ms};
    enum ron_rc rc;

    *s = (struct iop_store){.magic = IOP_STORE_MAGIC, .env = opts->env, .seen_low = UINT64_MAX};
    ron_rand_seed(&s->rand, opts->env->rand_u64(opts->env));
    RON_GOTO(
        iop_queue_init(&s->queue, &opts->limits, ron_env_now_ns(opts->env) / RON_NS_PER_MS, err),
        failed);
    RON_GOTO(iop_file_open(
                 &(struct iop_file_opts){.env = opts->env, .path = opts->path, .dsn = opts->dsn},
                 &s->file, err),
             failed);
    memcpy(seen.secret, iop_file_secret(s->file), sizeof seen.secret);
    RON_GOTO(iop_seen_new(&seen, &s->seen, err), failed);
    s->last_id = iop_file_last_id(s->file);
    RON_GOTO(load(s, err), failed);
    iop__publish(s);
    return RON_OK;
failed:
    iop_store_close(s);
    return rc;
}

void iop_store_close(struct iop_store *s)
{
    RON_ASSERT(s->waiting == 0);
    iop_queue_done(&s->queue);
    iop_seen_free(s->seen);
    iop_file_close(s->file);
    s->seen = NULL;
    s->file = NULL;
}

/* ---- loading again --------------------------------------------------------------------------- */

/* Long polls stay with their topics; leases are forgotten, as by a restart. */
static void empty(struct iop_store *s)
{
    for (uint32_t i = 0; i < s->queue.topic_count; i++) {
        struct iop_q_topic *topic = s->queue.topics[i];

        topic->stored = false;
        topic->row = 0;
        for (unsigned state = 0; state < IOP_MSG_STATE_COUNT; state++) {
            RON_LIST_FOREACH_SAFE(node, &topic->lists[state])
            {
                iop_queue_drop(&s->queue, RON_LIST_ENTRY(node, struct iop_q_msg, node));
            }
        }
    }
    RON_LIST_FOREACH_SAFE(node, &s->queue.expired)
    {
        iop_queue_drop(&s->queue, RON_LIST_ENTRY(node, struct iop_q_msg, node));
    }
}

/* The database holds what memory does not know. A failure leaves it so: it is tried again. */
static enum ron_rc reload(struct iop_store *s, struct ron_err *err)
{
    empty(s);
    RON_TRY(load(s, err));
    s->last_id = RON_MAX(s->last_id, iop_file_last_id(s->file));
    for (uint32_t i = 0; i < s->queue.topic_count; i++) {
        if (!s->queue.topics[i]->stored) {
            s->queue.topics[i]->row = s->queue.row_next++;
        }
    }
    for (uint32_t i = s->queue.topic_count; i-- > 0;) {
        iop_queue_drop_topic(&s->queue, s->queue.topics[i]);
    }
    ron_stat_bump(&s->counts.reloads, 1);
    return RON_OK;
}

static void look_after(struct iop_store *s)
{
    struct ron_err err = {0};
    bool stale = false;
    enum ron_rc rc = iop_file_look(s->file, &stale, &err);

    if (rc == RON_OK && stale) {
        rc = reload(s, &err);
    }
    if (rc != RON_OK) {
        ron_stat_set(&s->counts.broken, 1);
    } else if (s->away) {
        ron_stat_set(&s->counts.broken, 0);
    }
    s->away = rc != RON_OK;
}

/* ---- time ------------------------------------------------------------------------------------ */

void iop__group_init(struct iop_store *s, struct iop_group *ret_group)
{
    *ret_group = (struct iop_group){.wall_ms = ron_env_wall_ms(s->env),
                                    .now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS};
}

/* Keys past their time leave the file, some at a time. A failure is told by the next group. */
static void sweep_seen(struct iop_store *s, uint64_t now_ms)
{
    struct ron_err err = {0};
    uint64_t before_ms;

    if (now_ms < s->sweep_ms) {
        return;
    }
    s->sweep_ms = now_ms + IOP_SEEN_SWEEP_MS;
    before_ms = iop_seen_expire(s->seen, ron_env_wall_ms(s->env));
    if (s->seen_low >= before_ms || iop_file_begin(s->file, &err) != RON_OK) {
        return;
    }
    if (iop_file_drop_seen(s->file, before_ms, IOP_SEEN_SWEEP_MAX, &err) != RON_OK ||
        iop_file_commit(s->file, s->last_id, &err) != RON_OK) {
        iop_file_rollback(s->file);
        return;
    }
    if (iop_file_swept(s->file) < IOP_SEEN_SWEEP_MAX) {
        s->seen_low = before_ms;
    }
}

/* Writes that idle topics are gone, and says which: at most IOP_TOPIC_SWEEP_MAX. */
static enum ron_rc write_gone(struct iop_store *s, struct iop_q_topic **ret_gone,
                              uint32_t *ret_count, struct ron_err *err)
{
    enum ron_rc rc = RON_OK;

    *ret_count = 0;
    for (uint32_t i = 0; i < s->queue.topic_count && *ret_count < IOP_TOPIC_SWEEP_MAX; i++) {
        if (s->queue.topics[i]->stored && iop_queue_topic_idle(s->queue.topics[i])) {
            ret_gone[(*ret_count)++] = s->queue.topics[i];
        }
    }
    if (*ret_count == 0) {
        return RON_OK;
    }
    RON_TRY(iop_file_begin(s->file, err));
    for (uint32_t i = 0; i < *ret_count && rc == RON_OK; i++) {
        rc = iop_file_drop_topic(s->file, ret_gone[i]->row, err);
    }
    if (rc != RON_OK) {
        iop_file_rollback(s->file);
        return rc;
    }
    return iop_file_commit(s->file, s->last_id, err);
}

/* Room for new topics. A failure is told by the next group. */
static void sweep_topics(struct iop_store *s, uint64_t now_ms)
{
    struct iop_q_topic *gone[IOP_TOPIC_SWEEP_MAX];
    struct ron_err err = {0};
    uint32_t count = 0;

    if (now_ms < s->topic_sweep_ms || s->queue.topic_count * 4 <= s->queue.limits.topics_max * 3) {
        return;
    }
    s->topic_sweep_ms = now_ms + IOP_SEEN_SWEEP_MS;
    if (write_gone(s, gone, &count, &err) != RON_OK) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        gone[i]->stored = false;
        iop_queue_drop_topic(&s->queue, gone[i]);
    }
    ron_stat_bump(&s->counts.topics_gone, count);
}

void iop_store_tick(struct iop_store *s)
{
    uint64_t now_ns = ron_env_now_ns(s->env);

    look_after(s);
    iop_queue_advance(&s->queue, now_ns / RON_NS_PER_MS);
    iop__settle_expired(s);
    iop__serve_waiters(s);
    iop__end_waiters(s, now_ns, false);
    sweep_seen(s, now_ns / RON_NS_PER_MS);
    sweep_topics(s, now_ns / RON_NS_PER_MS);
    iop__publish(s);
}

uint64_t iop_store_next_ns(const struct iop_store *s)
{
    uint64_t at_ms = iop_queue_next_ms(&s->queue);
    uint64_t next = at_ms == UINT64_MAX ? UINT64_MAX : ron_sat_mul_u64(at_ms, RON_NS_PER_MS);

    return RON_MIN(next, iop__next_waiter_ns(s));
}

void iop_store_stop(struct iop_store *s)
{
    iop__end_waiters(s, 0, true);
    iop__publish(s);
}

void iop__publish(struct iop_store *s)
{
    ron_stat_set(&s->counts.messages, s->queue.messages);
    ron_stat_set(&s->counts.bytes, s->queue.bytes);
    ron_stat_set(&s->counts.dead, s->queue.dead);
    ron_stat_set(&s->counts.topics, s->queue.topic_count);
    ron_stat_set(&s->counts.waiting, s->waiting);
}
