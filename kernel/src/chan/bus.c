/* SPDX-License-Identifier: Apache-2.0 */
/* bus.c - broadcast ring with a cursor per reader.
 *
 * Place: beside chan.c. Messages are numbered from 0; number n lives in slot n % capacity; `next`
 * is the number of the next message. Kept are the numbers [next - min(next, capacity), next).
 *
 * Invariants:
 *   I1 cursor <= next for every reader.
 *   I2 a reader whose cursor is below the oldest number kept is told how many it missed exactly
 *      once per gap, and its cursor moves to the oldest.
 *   I3 publishing copies one message under the lock and never waits for a reader.
 * Guards: everything below `mu` by mu, the readers' cursors too. */
#include "ron/chan/bus.h"

#include <string.h>

#include "chan/chan_testing.h"
#include "lot.h"
#include "ron/base/alloc.h"
#include "ron/base/ctx.h"

enum { BUS_MAGIC = 0x62757321 };

struct ron_bus {
    uint32_t magic;
    uint32_t capacity;
    uint32_t message_bytes;
    uint32_t readers_max;
    const char *name;
    struct ron_registry *registry;
    struct ron_reg_entry entry;
    unsigned char *ring;

    struct ron_mutex mu;
    struct ron_lot lot;
    uint64_t next;
    uint32_t readers;
    bool closed;
    struct ron_stat published, lagged, reader_count, closed_seen;
};

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    const struct ron_bus *b = RON_CONTAINER_OF(e, struct ron_bus, entry);
    uint64_t published = ron_stat_get(&b->published);

    row->state = ron_stat_get(&b->closed_seen) != 0 ? "closed" : "open";
    row->depth = RON_MIN(published, (uint64_t)b->capacity);
    ron_reg_row_sample(row, "bus_published_total", "bus", false, published);
    ron_reg_row_sample(row, "bus_lagged_total", "bus", false, ron_stat_get(&b->lagged));
    /* What a reader was too slow for is dropped, as the documents count queues. */
    ron_reg_row_sample(row, "queue_dropped_total", "queue", false, ron_stat_get(&b->lagged));
    ron_reg_row_sample(row, "bus_readers", "bus", true, ron_stat_get(&b->reader_count));
}

static enum ron_rc check_opts(const struct ron_bus_opts *o, struct ron_err *err)
{
    const char *name = o->name != NULL ? o->name : "(unnamed)";

    RON_ASSERT(o->registry != NULL);
    if (o->capacity == 0 || o->capacity > RON_BUS_CAPACITY_MAX) {
        return ron_err_set(err, RON_INVALID, "bus '%s': capacity %u is outside 1..%d", name,
                           o->capacity, (int)RON_BUS_CAPACITY_MAX);
    }
    if (o->message_bytes == 0 || o->message_bytes > RON_BUS_MESSAGE_MAX) {
        return ron_err_set(err, RON_INVALID, "bus '%s': message size %u is outside 1..%d", name,
                           o->message_bytes, (int)RON_BUS_MESSAGE_MAX);
    }
    if (o->readers_max == 0 || o->readers_max > RON_BUS_READERS_MAX) {
        return ron_err_set(err, RON_INVALID, "bus '%s': reader limit %u is outside 1..%d", name,
                           o->readers_max, (int)RON_BUS_READERS_MAX);
    }
    return RON_OK;
}

enum ron_rc ron_bus_new(const struct ron_bus_opts *opts, struct ron_bus **ret_bus,
                        struct ron_err *err)
{
    struct ron_bus *b;
    enum ron_rc rc;

    RON_TRY(check_opts(opts, err));
    b = ron_alloc_zero(sizeof *b);
    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "bus '%s': no memory", opts->name);
    }
    b->ring = ron_alloc_array(opts->capacity, opts->message_bytes);
    if (b->ring == NULL) {
        ron_free(b);
        return ron_err_set(err, RON_NOMEM, "bus '%s': no memory for %u messages", opts->name,
                           opts->capacity);
    }
    b->magic = BUS_MAGIC;
    b->capacity = opts->capacity;
    b->message_bytes = opts->message_bytes;
    b->readers_max = opts->readers_max;
    b->name = opts->name;
    b->registry = opts->registry;
    ron__lot_init(&b->lot);
    ron_mutex_init(&b->mu, RON_RANK_BUS, opts->name);
    rc = ron_registry_add(b->registry, &b->entry, RON_REG_BUS,
                          &(struct ron_reg_desc){.name = opts->name,
                                                 .policy = "drop_oldest",
                                                 .producers = opts->producers,
                                                 .consumers = opts->consumers,
                                                 .drop = "slow readers lag: bus_lagged_total",
                                                 .capacity = opts->capacity},
                          fill_row, err);
    if (rc != RON_OK) {
        ron_mutex_done(&b->mu);
        ron_free(b->ring);
        ron_free(b);
        return rc;
    }
    *ret_bus = b;
    return RON_OK;
}

void ron_bus_free(struct ron_bus *b)
{
    if (b == NULL) {
        return;
    }
    RON_ASSERT(b->magic == BUS_MAGIC);
    RON_ASSERT_MSG(b->readers == 0, "bus '%s' freed with %u readers", b->name, b->readers);
    ron_registry_remove(b->registry, &b->entry);
    ron_mutex_done(&b->mu);
    b->magic = 0;
    ron_free(b->ring);
    ron_free(b);
}

bool ron_bus_close(struct ron_bus *b)
{
    bool first;

    ron_mutex_lock(&b->mu);
    first = !b->closed;
    b->closed = true;
    ron_stat_set(&b->closed_seen, 1);
    ron__lot_wake_all(&b->lot, &b->mu);
    ron_mutex_unlock(&b->mu);
    return first;
}

enum ron_rc ron_bus_publish(struct ron_bus *b, const void *message)
{
    enum ron_rc rc = RON_CLOSED;

    ron_mutex_lock(&b->mu);
    if (!b->closed) {
        memcpy(b->ring + (size_t)(b->next % b->capacity) * b->message_bytes, message,
               b->message_bytes);
        b->next++;
        ron_stat_bump(&b->published, 1);
        ron__lot_wake_all(&b->lot, &b->mu);
        rc = RON_OK;
    }
    ron_mutex_unlock(&b->mu);
    return rc;
}

enum ron_rc ron_bus_subscribe(struct ron_bus *b, struct ron_bus_reader *r, struct ron_waker *waker,
                              struct ron_err *err)
{
    enum ron_rc rc = RON_OK;

    *r = (struct ron_bus_reader){._bus = b};
    ron_wait_node_init(&r->_node, waker);
    ron_mutex_lock(&b->mu);
    if (b->closed) {
        rc = RON_CLOSED;
    } else if (b->readers == b->readers_max) {
        rc = RON_LIMIT;
    } else {
        b->readers++;
        ron_stat_set(&b->reader_count, b->readers);
        r->_cursor = b->next;
    }
    ron_mutex_unlock(&b->mu);
    if (rc != RON_OK) {
        r->_bus = NULL;
        return ron_err_set(
            err, rc, rc == RON_CLOSED ? "bus '%s' is closed" : "bus '%s' has no place for a reader",
            b->name);
    }
    return RON_OK;
}

void ron_bus_unsubscribe(struct ron_bus_reader *r)
{
    struct ron_bus *b = r->_bus;

    if (b == NULL) {
        return;
    }
    ron_mutex_lock(&b->mu);
    ron__lot_leave(&b->lot, &r->_node);
    RON_ASSERT(b->readers > 0);
    b->readers--;
    ron_stat_set(&b->reader_count, b->readers);
    ron_mutex_unlock(&b->mu);
    r->_bus = NULL;
}

/* With the lock held: RON_OK, RON_LAGGED, RON_CLOSED or RON_AGAIN. */
static enum ron_rc read_on(struct ron_bus *b, struct ron_bus_reader *r, void *out, size_t max,
                           size_t *ret_count, uint64_t *ret_missed)
{
    uint64_t oldest = b->next - RON_MIN(b->next, (uint64_t)b->capacity);
    uint64_t count;

    RON_ASSERT(r->_cursor <= b->next); /* I1 */
    if (r->_cursor < oldest) {
        *ret_missed = oldest - r->_cursor;
        r->lagged += *ret_missed;
        ron_stat_bump(&b->lagged, *ret_missed);
        r->_cursor = oldest; /* I2 */
        ron_event("bus.lagged", *ret_missed, oldest);
        return RON_LAGGED;
    }
    count = RON_MIN(b->next - r->_cursor, (uint64_t)max);
    for (uint64_t i = 0; i < count; i++) {
        memcpy((unsigned char *)out + (size_t)i * b->message_bytes,
               b->ring + (size_t)((r->_cursor + i) % b->capacity) * b->message_bytes,
               b->message_bytes);
    }
    if (count > 0) {
        r->_cursor += count;
        *ret_count = (size_t)count;
        return RON_OK;
    }
    return b->closed ? RON_CLOSED : RON_AGAIN;
}

enum ron_rc ron_bus_poll(struct ron_bus_reader *r, void *out, size_t max, size_t *ret_count,
                         uint64_t *ret_missed)
{
    struct ron_bus *b = r->_bus;
    enum ron_rc rc;

    RON_ASSERT(b != NULL && b->magic == BUS_MAGIC);
    RON_ASSERT(max > 0);
    ron_mutex_lock(&b->mu);
    ron__lot_leave(&b->lot, &r->_node);
    if (r->_node._waker == NULL) {
        r->_node._thread = ron_thread_self(); /* A reader may have been handed to another thread. */
    }
    rc = read_on(b, r, out, max, ret_count, ret_missed);
    if (rc == RON_AGAIN) {
        ron__lot_enter(&b->lot, &r->_node);
    }
    ron_mutex_unlock(&b->mu);
    return rc;
}

enum ron_rc ron_bus_recv(struct ron_bus_reader *r, void *out, size_t max,
                         struct ron_deadline deadline, size_t *ret_count, uint64_t *ret_missed)
{
    struct ron_bus *b = r->_bus;
    enum ron_rc waited = RON_OK;
    enum ron_rc rc;

    ron_blocking_point(b->name);
    for (;;) {
        rc = ron_bus_poll(r, out, max, ret_count, ret_missed);
        if (rc != RON_AGAIN || waited != RON_OK) {
            break;
        }
        waited = ron_park_until(deadline, b->name);
    }
    if (rc == RON_AGAIN) {
        ron_mutex_lock(&b->mu);
        ron__lot_leave(&b->lot, &r->_node);
        ron_mutex_unlock(&b->mu);
        rc = waited;
    }
    return rc;
}
