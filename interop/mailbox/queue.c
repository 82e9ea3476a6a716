/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/queue.c - messages and topics in memory; contract in queue.h.
 *
 * Messages come from slabs of 1024, so the hot path takes and gives without the heap. A map finds
 * them by id; it grows by one chain per message, so no sender waits for a rehash. */
#include "interop/mailbox/queue.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum { SLAB = 1024 };

/* ---- life ------------------------------------------------------------------------------------ */

struct iop_box_limits iop_box_limits_default(void)
{
    return (struct iop_box_limits){.message_max_bytes = 1 << 20,
                                   .topic_max_bytes = UINT64_C(1) << 30,
                                   .topic_max_messages = 1000000,
                                   .total_max_bytes = UINT64_C(4) << 30,
                                   .total_max_messages = 1000000,
                                   .topics_max = 1024,
                                   .deliveries_max = 10};
}

static struct iop_q_msg *msg_of(struct ron_map_node *node)
{
    return RON_CONTAINER_OF(node, struct iop_q_msg, by_id);
}

static bool msg_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct iop_q_msg *m =
        RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct iop_q_msg, by_id);

    return m->id == *(const uint64_t *)key->bytes;
}

/* Ids are ours, so the hash needs no secret; it spreads ids of several restarts, which may share
 * their low bits. `id` outlives the key. */
static struct ron_map_key key_of(const uint64_t *id)
{
    uint64_t mixed = *id * UINT64_C(0x9e3779b97f4a7c15);

    return (struct ron_map_key){mixed ^ mixed >> 32, id, sizeof *id};
}

enum ron_rc iop_queue_init(struct iop_queue *q, const struct iop_box_limits *limits,
                           uint64_t now_ms, struct ron_err *err)
{
    *q = (struct iop_queue){.limits = *limits, .row_next = 1};
    ron_list_init(&q->spare);
    ron_list_init(&q->expired);
    ron_wheel_init(&q->wheel, now_ms);
    /* A file may hold more topics than are allowed now. */
    q->topics =
        ron_alloc_array(RON_MAX(limits->topics_max, (uint32_t)IOP_TOPICS_MAX), sizeof(void *));
    q->slabs = ron_alloc_array(limits->total_max_messages / SLAB + 1, sizeof *q->slabs);
    if (q->topics == NULL || q->slabs == NULL ||
        ron_map_init(&q->by_id,
                     /* The limits of this file bound messages before the map does. */
                     &(struct ron_map_opts){
                         .entries_max = RON_MAP_ENTRIES_MAX, .reserve = SLAB, .equal = msg_equal},
                     err) != RON_OK) {
        iop_queue_done(q);
        return ron_err_set(err, RON_NOMEM, "out of memory for the mailbox");
    }
    return RON_OK;
}

void iop_queue_done(struct iop_queue *q)
{
    /* Timers must be out of the wheel before their memory goes. */
    RON_MAP_FOREACH_SAFE(node, &q->by_id)
    {
        (void)ron_wheel_cancel(&q->wheel, &msg_of(node)->timer);
    }
    ron_map_done(&q->by_id);
    for (uint32_t i = 0; q->topics != NULL && i < q->topic_count; i++) {
        RON_ASSERT(ron_list_empty(&q->topics[i]->waiters));
        ron_free(q->topics[i]);
    }
    for (uint32_t i = 0; q->slabs != NULL && i < q->slab_count; i++) {
        ron_free(q->slabs[i]);
    }
    ron_free(q->topics);
    ron_free(q->slabs);
    if (q->wheel.magic != 0) {
        ron_wheel_done(&q->wheel);
    }
    *q = (struct iop_queue){0};
}

/* ---- topics ---------------------------------------------------------------------------------- */

static int compare(const struct iop_q_topic *t, struct ron_str name)
{
    return ron_str_compare((struct ron_str){t->name, t->name_len}, name);
}

/* The first topic that is not before the name. */
static uint32_t place_of(const struct iop_queue *q, struct ron_str name)
{
    uint32_t low = 0;
    uint32_t high = q->topic_count;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (compare(q->topics[mid], name) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct iop_q_topic *iop_queue_topic(const struct iop_queue *q, struct ron_str name)
{
    uint32_t at = place_of(q, name);

    return at < q->topic_count && compare(q->topics[at], name) == 0 ? q->topics[at] : NULL;
}

static bool row_used(const struct iop_queue *q, uint32_t row)
{
    for (uint32_t i = 0; i < q->topic_count; i++) {
        if (q->topics[i]->row == row) {
            return true;
        }
    }
    return row == 0;
}

enum ron_rc iop_queue_make_topic(struct iop_queue *q, struct ron_str name,
                                 struct iop_q_topic **ret_topic)
{
    uint32_t at = place_of(q, name);
    struct iop_q_topic *t;

    RON_ASSERT(name.len <= IOP_TOPIC_MAX);
    if (at < q->topic_count && compare(q->topics[at], name) == 0) {
        *ret_topic = q->topics[at];
        return RON_OK;
    }
    if (q->topic_count >= q->limits.topics_max) {
        return RON_FULL;
    }
    t = ron_alloc_zero(sizeof *t);
    if (t == NULL) {
        return RON_NOMEM;
    }
    memcpy(t->name, name.ptr, name.len);
    t->name_len = (uint32_t)name.len;
    do {
        t->row = q->row_next++;
    } while (row_used(q, t->row));
    for (int i = 0; i < IOP_MSG_STATE_COUNT; i++) {
        ron_list_init(&t->lists[i]);
    }
    ron_list_init(&t->waiters);
    memmove(&q->topics[at + 1], &q->topics[at], (q->topic_count - at) * sizeof(void *));
    q->topics[at] = t;
    q->topic_count++;
    RON_ASSERT_SLOW(at == 0 || compare(q->topics[at - 1], name) < 0); /* in the order of names */
    *ret_topic = t;
    return RON_OK;
}

bool iop_queue_topic_idle(const struct iop_q_topic *topic)
{
    for (int i = 0; i < IOP_MSG_STATE_COUNT; i++) {
        if (topic->counts[i] > 0) {
            return false;
        }
    }
    return topic->claim == NULL && ron_list_empty(&topic->waiters);
}

void iop_queue_drop_topic(struct iop_queue *q, struct iop_q_topic *topic)
{
    uint32_t at = place_of(q, (struct ron_str){topic->name, topic->name_len});

    if (topic->stored || !iop_queue_topic_idle(topic)) {
        return;
    }
    RON_ASSERT(q->topics[at] == topic);
    q->topic_count--;
    memmove(&q->topics[at], &q->topics[at + 1], (q->topic_count - at) * sizeof(void *));
    ron_free(topic);
}

/* ---- messages by id -------------------------------------------------------------------------- */

struct iop_q_msg *iop_queue_find(const struct iop_queue *q, uint64_t id)
{
    struct ron_map_key key = key_of(&id);
    struct ron_map_node *node = ron_map_find(&q->by_id, &key);

    return node != NULL ? msg_of(node) : NULL;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void lease_over(struct ron_timer *timer)
{
    struct iop_q_msg *m = RON_CONTAINER_OF(timer, struct iop_q_msg, timer);

    RON_ASSERT_MSG(m->state == IOP_MSG_LEASED || m->state == IOP_MSG_DELAYED,
                   "only leases and delays end by time");
    iop_queue_move(timer->owner, m, m->state == IOP_MSG_LEASED ? IOP_MSG_EXPIRED : IOP_MSG_READY,
                   0);
}

static enum ron_rc more_spare(struct iop_queue *q)
{
    struct iop_q_msg *slab;

    if (!ron_list_empty(&q->spare)) {
        return RON_OK;
    }
    if (q->slab_count > q->limits.total_max_messages / SLAB) {
        return RON_FULL;
    }
    slab = ron_alloc_array(SLAB, sizeof *slab);
    if (slab == NULL) {
        return RON_NOMEM;
    }
    q->slabs[q->slab_count++] = slab;
    for (size_t i = 0; i < SLAB; i++) {
        ron_list_push_back(&q->spare, &slab[i].node);
    }
    return RON_OK;
}

enum ron_rc iop_queue_add(struct iop_queue *q, struct iop_q_topic *topic, uint64_t id,
                          uint32_t bytes, struct iop_q_msg **ret_msg)
{
    struct ron_map_key key = key_of(&id);
    uint64_t in_topic = 0;
    struct ron_list_node *spare;
    struct iop_q_msg *m;
    enum ron_rc rc;

    for (int i = 0; i < IOP_MSG_STATE_COUNT; i++) {
        in_topic += topic->counts[i];
    }
    if (q->messages >= q->limits.total_max_messages ||
        bytes > q->limits.total_max_bytes - RON_MIN(q->bytes, q->limits.total_max_bytes) ||
        in_topic >= q->limits.topic_max_messages ||
        bytes > q->limits.topic_max_bytes - RON_MIN(topic->bytes, q->limits.topic_max_bytes)) {
        return RON_FULL;
    }
    RON_TRY(more_spare(q));
    spare = ron_list_pop_front(&q->spare);
    RON_ASSERT(spare != NULL); /* more_spare has seen to it */
    m = RON_LIST_ENTRY(spare, struct iop_q_msg, node);
    *m = (struct iop_q_msg){.id = id, .topic = topic, .bytes = bytes, .state = IOP_MSG_PENDING};
    ron_timer_init(&m->timer, lease_over);
    m->timer.owner = q;
    rc = ron_map_add(&q->by_id, &m->by_id, &key, 0);
    RON_ASSERT(rc == RON_OK);
    q->messages++;
    q->bytes += bytes;
    topic->bytes += bytes;
    topic->counts[IOP_MSG_PENDING]++;
    ron_list_push_back(&topic->lists[IOP_MSG_PENDING], &m->node);
    *ret_msg = m;
    return RON_OK;
}

static void leave(struct iop_queue *q, struct iop_q_msg *m)
{
    RON_ASSERT(m->state < IOP_MSG_STATE_COUNT);
    RON_ASSERT(m->topic->counts[m->state] > 0);
    RON_ASSERT(m->state != IOP_MSG_DEAD || q->dead > 0);
    (void)ron_wheel_cancel(&q->wheel, &m->timer);
    ron_list_remove(&m->node);
    m->topic->counts[m->state]--;
    q->dead -= m->state == IOP_MSG_DEAD;
}

void iop_queue_move(struct iop_queue *q, struct iop_q_msg *m, enum iop_msg_state to,
                    uint64_t until_ms)
{
    RON_ASSERT_MSG(to > IOP_MSG_PENDING && to < IOP_MSG_STATE_COUNT,
                   "a message is pending once, before its commit");
    leave(q, m);
    m->state = to;
    m->topic->counts[to]++;
    q->dead += to == IOP_MSG_DEAD;
    ron_list_push_back(to == IOP_MSG_EXPIRED ? &q->expired : &m->topic->lists[to], &m->node);
    if (to == IOP_MSG_DELAYED || to == IOP_MSG_LEASED) {
        ron_wheel_arm(&q->wheel, &m->timer, until_ms);
    }
}

void iop_queue_drop(struct iop_queue *q, struct iop_q_msg *m)
{
    RON_ASSERT_MSG(q->bytes >= m->bytes, "Q1: a message counts until it is freed");
    RON_ASSERT_MSG(m->topic->bytes >= m->bytes, "Q1: a message counts until it is freed");
    leave(q, m);
    ron_map_remove(&q->by_id, &m->by_id);
    RON_ASSERT(q->messages > 0);
    q->messages--;
    q->bytes -= m->bytes;
    m->topic->bytes -= m->bytes;
    ron_list_push_front(&q->spare, &m->node);
}

struct iop_q_msg *iop_queue_first(struct iop_q_topic *topic)
{
    struct ron_list_node *node = ron_list_front(&topic->lists[IOP_MSG_READY]);

    return node != NULL ? RON_LIST_ENTRY(node, struct iop_q_msg, node) : NULL;
}

void iop_queue_advance(struct iop_queue *q, uint64_t now_ms)
{
    (void)ron_wheel_advance(&q->wheel, now_ms);
}

uint64_t iop_queue_next_ms(const struct iop_queue *q)
{
    uint64_t at_ms = UINT64_MAX;

    return ron_wheel_next_ms(&q->wheel, &at_ms) ? at_ms : UINT64_MAX;
}

static uint64_t oldest_of(const struct iop_q_topic *topic)
{
    static const enum iop_msg_state live[] = {IOP_MSG_READY, IOP_MSG_DELAYED, IOP_MSG_LEASED};
    uint64_t oldest = 0;

    /* The first of each list: what came back later is younger in the list, not in age, so this is
     * the oldest of those that never came back, and an estimate for the others. */
    for (size_t i = 0; i < RON_ARRAY_LEN(live); i++) {
        const struct ron_list_node *node = ron_list_front(&topic->lists[live[i]]);

        if (node != NULL) {
            const struct iop_q_msg *m =
                (const struct iop_q_msg *)(const void *)((const char *)node -
                                                         offsetof(struct iop_q_msg, node));

            oldest = oldest == 0 ? m->sent_ms : RON_MIN(oldest, m->sent_ms);
        }
    }
    return oldest;
}

void iop_queue_stats(const struct iop_q_topic *topic, struct iop_topic_stats *ret_stats)
{
    RON_ASSERT(topic->name_len <= IOP_TOPIC_MAX);
    *ret_stats = (struct iop_topic_stats){.ready = topic->counts[IOP_MSG_READY] +
                                                   topic->counts[IOP_MSG_EXPIRED],
                                          .delayed = topic->counts[IOP_MSG_DELAYED],
                                          .leased = topic->counts[IOP_MSG_LEASED],
                                          .dead = topic->counts[IOP_MSG_DEAD],
                                          .bytes = topic->bytes,
                                          .oldest_ms = oldest_of(topic)};
    memcpy(ret_stats->name, topic->name, topic->name_len + 1);
}
