/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/queue.c - messages and topics in memory; contract in queue.h.
 *
 * Messages come from slabs of 1024, so the hot path takes and gives without the heap. They are
 * found by id through an open hash table with linear probing and backward shift. */
#include "interop/mailbox/queue.h"

#include <string.h>

#include "ron/base/alloc.h"

enum { SLAB = 1024, SLOTS_MIN = 1024 };

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

enum ron_rc iop_queue_init(struct iop_queue *q, const struct iop_box_limits *limits,
                           uint64_t now_ms, struct ron_err *err)
{
    *q = (struct iop_queue){.limits = *limits, .row_next = 1, .slot_mask = SLOTS_MIN - 1};
    ron_list_init(&q->spare);
    ron_list_init(&q->expired);
    ron_wheel_init(&q->wheel, now_ms);
    /* A file may hold more topics than are allowed now. */
    q->topics =
        ron_alloc_array(RON_MAX(limits->topics_max, (uint32_t)IOP_TOPICS_MAX), sizeof(void *));
    q->slots = ron_alloc_array(SLOTS_MIN, sizeof(void *));
    q->slabs = ron_alloc_array(limits->total_max_messages / SLAB + 1, sizeof *q->slabs);
    if (q->topics == NULL || q->slots == NULL || q->slabs == NULL) {
        iop_queue_done(q);
        return ron_err_set(err, RON_NOMEM, "out of memory for the mailbox");
    }
    return RON_OK;
}

void iop_queue_done(struct iop_queue *q)
{
    if (q->slots != NULL) {
        /* Timers must be out of the wheel before their memory goes. */
        for (uint64_t i = 0; i <= q->slot_mask; i++) {
            if (q->slots[i] != NULL) {
                (void)ron_wheel_cancel(&q->wheel, &q->slots[i]->timer);
            }
        }
    }
    for (uint32_t i = 0; q->topics != NULL && i < q->topic_count; i++) {
        RON_ASSERT(ron_list_empty(&q->topics[i]->waiters));
        ron_free(q->topics[i]);
    }
    for (uint32_t i = 0; q->slabs != NULL && i < q->slab_count; i++) {
        ron_free(q->slabs[i]);
    }
    ron_free(q->topics);
    ron_free(q->slots);
    ron_free(q->slabs);
    if (q->wheel.magic != 0) {
        ron_wheel_done(&q->wheel);
    }
    *q = (struct iop_queue){0};
}

/* ---- topics ---------------------------------------------------------------------------------- */

static int compare(const struct iop_q_topic *t, struct ron_str name)
{
    size_t len = RON_MIN((size_t)t->name_len, name.len);
    int order = memcmp(t->name, name.ptr, len);

    if (order != 0) {
        return order;
    }
    return t->name_len < name.len ? -1 : t->name_len > name.len;
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

static uint64_t home_of(const struct iop_queue *q, uint64_t id)
{
    /* Spread anyway: ids of several restarts may share their low bits. */
    return (id * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & q->slot_mask;
}

static uint64_t slot_of(const struct iop_queue *q, uint64_t id)
{
    uint64_t i = home_of(q, id);

    while (q->slots[i] != NULL && q->slots[i]->id != id) {
        i = (i + 1) & q->slot_mask;
    }
    return i;
}

struct iop_q_msg *iop_queue_find(const struct iop_queue *q, uint64_t id)
{
    return q->slots[slot_of(q, id)];
}

static enum ron_rc grow(struct iop_queue *q)
{
    struct iop_q_msg **old = q->slots;
    uint64_t old_mask = q->slot_mask;
    struct iop_q_msg **fresh = ron_alloc_array((old_mask + 1) * 2, sizeof(void *));

    if (fresh == NULL) {
        return RON_NOMEM;
    }
    q->slots = fresh;
    q->slot_mask = old_mask * 2 + 1;
    for (uint64_t i = 0; i <= old_mask; i++) {
        if (old[i] != NULL) {
            q->slots[slot_of(q, old[i]->id)] = old[i];
        }
    }
    ron_free(old);
    return RON_OK;
}

static void unhash(struct iop_queue *q, uint64_t id)
{
    uint64_t hole = slot_of(q, id);
    uint64_t i = hole;

    RON_ASSERT(q->slots[hole] != NULL);
    q->slots_used--;
    for (;;) {
        uint64_t home;

        q->slots[hole] = NULL;
        do {
            i = (i + 1) & q->slot_mask;
            if (q->slots[i] == NULL) {
                return;
            }
            home = home_of(q, q->slots[i]->id);
        } while (((i - home) & q->slot_mask) < ((i - hole) & q->slot_mask));
        q->slots[hole] = q->slots[i];
        hole = i;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void lease_over(struct ron_timer *timer)
{
    struct iop_q_msg *m = RON_CONTAINER_OF(timer, struct iop_q_msg, timer);

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
    uint64_t in_topic = 0;
    struct ron_list_node *spare;
    struct iop_q_msg *m;

    for (int i = 0; i < IOP_MSG_STATE_COUNT; i++) {
        in_topic += topic->counts[i];
    }
    if (q->messages >= q->limits.total_max_messages ||
        bytes > q->limits.total_max_bytes - RON_MIN(q->bytes, q->limits.total_max_bytes) ||
        in_topic >= q->limits.topic_max_messages ||
        bytes > q->limits.topic_max_bytes - RON_MIN(topic->bytes, q->limits.topic_max_bytes)) {
        return RON_FULL;
    }
    if ((q->slots_used + 1) * 2 > q->slot_mask + 1) {
        RON_TRY(grow(q));
    }
    RON_TRY(more_spare(q));
    spare = ron_list_pop_front(&q->spare);
    RON_ASSERT(spare != NULL); /* more_spare has seen to it */
    m = RON_LIST_ENTRY(spare, struct iop_q_msg, node);
    *m = (struct iop_q_msg){.id = id, .topic = topic, .bytes = bytes, .state = IOP_MSG_PENDING};
    ron_timer_init(&m->timer, lease_over);
    m->timer.owner = q;
    RON_ASSERT(q->slots[slot_of(q, id)] == NULL);
    q->slots[slot_of(q, id)] = m;
    q->slots_used++;
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
    (void)ron_wheel_cancel(&q->wheel, &m->timer);
    ron_list_remove(&m->node);
    m->topic->counts[m->state]--;
    q->dead -= m->state == IOP_MSG_DEAD;
}

void iop_queue_move(struct iop_queue *q, struct iop_q_msg *m, enum iop_msg_state to,
                    uint64_t until_ms)
{
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
    leave(q, m);
    unhash(q, m->id);
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
    *ret_stats = (struct iop_topic_stats){.ready = topic->counts[IOP_MSG_READY] +
                                                   topic->counts[IOP_MSG_EXPIRED],
                                          .delayed = topic->counts[IOP_MSG_DELAYED],
                                          .leased = topic->counts[IOP_MSG_LEASED],
                                          .dead = topic->counts[IOP_MSG_DEAD],
                                          .bytes = topic->bytes,
                                          .oldest_ms = oldest_of(topic)};
    memcpy(ret_stats->name, topic->name, topic->name_len + 1);
}
