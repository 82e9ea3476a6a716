/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/roots_priv.h - what led_roots*.c share: the ring of events and a subscriber.
 *
 * Events are numbered in the order in which they were published, those that nobody could keep
 * included. The ring holds the numbers [first, next), at most LED_ROOTS_RING; each lies in
 * events[number % LED_ROOTS_RING]. Every root with a seq above floor_seq is in the ring, so a page
 * from there on is complete (O2).
 *
 * The bus is read by whoever looks first, under the lock of the ring: the task, or the handler of a
 * page (O1). No wake-up is lost by that: an event that a handler took was published either while
 * the reader waited, and then the task was woken, or while the task rested, and then its timer
 * runs. */
#pragma once

#include "ledger/publish/roots.h"

struct led_root_ring {
    struct ron_mutex mu;          /* guards everything here */
    struct ron_bus_reader reader; /* its waker is the task's */
    uint64_t first;
    uint64_t next;
    uint64_t floor_seq;
    struct led_root_event events[LED_ROOTS_RING];
};

/* What a subscriber has to know of the ring. */
struct led_root_view {
    uint64_t first;
    uint64_t next;
    uint64_t floor_seq;
    uint64_t head_seq; /* of the last event; the floor when there is none */
};

void led__roots_ring_init(struct led_root_ring *ring, uint64_t head_seq);
void led__roots_ring_done(struct led_root_ring *ring);
/* Takes what is on the bus; returns how many. 0: the reader's waker will be called. */
size_t led__roots_ring_catch_up(struct led_root_ring *ring);
struct led_root_view led__roots_ring_view(struct led_root_ring *ring);
/* Copies up to `max` events from number `from` on; none when the first is gone or not there. */
size_t led__roots_ring_copy(struct led_root_ring *ring, uint64_t from,
                            struct led_root_event *events, size_t max);
/* The number of the first event with a seq above `since`; RON_LAGGED below the floor. */
enum ron_rc led__roots_ring_find(struct led_root_ring *ring, uint64_t since, uint64_t *ret_number);

/* One poll or stream. Made by a handler, owned by the task. */
struct led_root_sub {
    struct ron_http_reply *reply;
    bool stream;
    bool from_start; /* stream: since was given */
    bool behind;     /* stream: what it asked for is not in the ring */
    uint64_t since;  /* the last seq that was delivered, or asked for */
    uint64_t cursor; /* stream: number of the next event */
    uint64_t due_ms; /* poll: answered by then; stream: the next beat */
    uint32_t wait_ms;
    uint32_t limit; /* poll */
};

enum {
    /* Of a piece that is written at once: 256 events of at most 200 bytes fit RON_HTTP_PIECE_BYTES.
     * A poll that waited delivers no more either. */
    LED_ROOTS_BLOCK = 256,
};

struct led_roots {
    uint32_t magic;
    struct led_roots_opts opts;
    struct ron_bus *bus;
    struct ron_chan *subs_in; /* "subs" */
    struct ron_task *task;
    struct led_root_ring ring;
    struct ron_au32 sub_count; /* polls and streams that exist, also those in the channel */

    /* Of the task. */
    struct led_root_sub **subs;
    uint32_t subs_len;
    uint64_t told;       /* number of the next event for on_root */
    uint64_t rest_until; /* O4; 0: the reader waits */
    uint64_t block_from; /* events that `block` holds as server-sent events */
    size_t block_count;
    uint64_t block_last_seq;
    struct ron_buf block;

    struct ron_stat published;
    struct ron_stat lagged;
    struct ron_stat polls;
    struct ron_stat streams;
    struct ron_stat refused;
};

enum { LED_ROOTS_MAGIC = 0x6c726f74 };

/* The place of a subscriber is free again. */
void led__roots_sub_free(struct led_roots *r, struct led_root_sub *sub);
