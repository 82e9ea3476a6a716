/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/roots_ring.c - the last events, numbered; rules in roots_priv.h. */
#include <string.h>

#include "ledger/publish/roots_priv.h"
#include "ron/base/assert.h"

enum { TAKE = 64 }; /* events of one turn at the bus: 3 KiB of stack */

void led__roots_ring_init(struct led_root_ring *ring, uint64_t head_seq)
{
    ron_mutex_init(&ring->mu, RON_RANK_SHARED, "led_roots");
    ring->floor_seq = head_seq;
}

void led__roots_ring_done(struct led_root_ring *ring)
{
    ron_bus_unsubscribe(&ring->reader);
    ron_mutex_done(&ring->mu);
}

static struct led_root_event *at(struct led_root_ring *ring, uint64_t number)
{
    return &ring->events[number % LED_ROOTS_RING];
}

/* With the lock held. */
static void push(struct led_root_ring *ring, const struct led_root_event *e)
{
    if (ring->next - ring->first == LED_ROOTS_RING) {
        ring->floor_seq = at(ring, ring->first)->seq;
        ring->first++;
    }
    *at(ring, ring->next) = *e;
    ring->next++;
}

/* With the lock held: `missed` events were never seen. What is known of them is that their seqs are
 * below that of the next event, so pages begin there. */
static void leave_out(struct led_root_ring *ring, uint64_t missed)
{
    ring->next += missed;
    ring->first = ring->next;
    ring->floor_seq = UINT64_MAX;
}

size_t led__roots_ring_catch_up(struct led_root_ring *ring)
{
    struct led_root_event events[TAKE];
    size_t total = 0;
    size_t count = TAKE;
    uint64_t missed = 0;
    enum ron_rc rc = RON_OK;

    ron_mutex_lock(&ring->mu);
    while (rc == RON_LAGGED || (rc == RON_OK && count == TAKE)) {
        rc = ron_bus_poll(&ring->reader, events, TAKE, &count, &missed);
        if (rc == RON_LAGGED) {
            leave_out(ring, missed);
        }
        if (rc != RON_OK) {
            continue;
        }
        if (ring->floor_seq == UINT64_MAX) {
            ring->floor_seq = events[0].seq;
        }
        for (size_t i = 0; i < count; i++) {
            push(ring, &events[i]);
        }
        total += count;
    }
    ron_mutex_unlock(&ring->mu);
    return total;
}

struct led_root_view led__roots_ring_view(struct led_root_ring *ring)
{
    struct led_root_view view;

    ron_mutex_lock(&ring->mu);
    view = (struct led_root_view){.first = ring->first,
                                  .next = ring->next,
                                  .floor_seq = ring->floor_seq,
                                  .head_seq = ring->floor_seq};
    if (ring->next > ring->first) {
        view.head_seq = at(ring, ring->next - 1)->seq;
    }
    ron_mutex_unlock(&ring->mu);
    return view;
}

size_t led__roots_ring_copy(struct led_root_ring *ring, uint64_t from,
                            struct led_root_event *events, size_t max)
{
    size_t count = 0;

    ron_mutex_lock(&ring->mu);
    if (from >= ring->first && from < ring->next) {
        count = (size_t)RON_MIN((uint64_t)max, ring->next - from);
    }
    for (size_t i = 0; i < count; i++) {
        events[i] = *at(ring, from + i);
    }
    ron_mutex_unlock(&ring->mu);
    return count;
}

enum ron_rc led__roots_ring_find(struct led_root_ring *ring, uint64_t since, uint64_t *ret_number)
{
    uint64_t low;
    uint64_t high;

    ron_mutex_lock(&ring->mu);
    if (since < ring->floor_seq) {
        ron_mutex_unlock(&ring->mu);
        return RON_LAGGED;
    }
    low = ring->first;
    high = ring->next;
    while (low < high) { /* events below low are not above since, those from high on are */
        uint64_t middle = low + (high - low) / 2;

        if (at(ring, middle)->seq > since) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    ron_mutex_unlock(&ring->mu);
    *ret_number = low;
    return RON_OK;
}
