/* SPDX-License-Identifier: Apache-2.0 */
/* bus.h - broadcast of small messages; the publisher never waits.
 *
 * Picture an endless array of messages of which only the last `capacity` are kept. Publishing
 * writes at the end. Each reader has its own cursor. A reader that falls more than `capacity`
 * behind is told RON_LAGGED with the number it missed, and goes on with the oldest message kept.
 * Truth must therefore live elsewhere: a laggard asks for the state again.
 *
 * Messages are copied in and out (`message_bytes` each, at most RON_BUS_MESSAGE_MAX), so nobody
 * owns anything in the ring and no reader can be overwritten while it reads. A new reader starts
 * with the next message published. */
#pragma once

#include "ron/chan/registry.h"
#include "ron/chan/wait.h"

enum { RON_BUS_MESSAGE_MAX = 4096, RON_BUS_CAPACITY_MAX = 1 << 16, RON_BUS_READERS_MAX = 4096 };

struct ron_bus;

struct ron_bus_opts {
    struct ron_registry *registry;
    const char *name;
    const char *producers;
    const char *consumers;
    uint32_t capacity;
    uint32_t message_bytes;
    uint32_t readers_max;
};

/* Embedded in its owner; used by one task or thread at a time. */
struct ron_bus_reader {
    struct ron_bus *_bus;
    uint64_t _cursor; /* number of the next message to read */
    uint64_t lagged;  /* messages missed so far */
    struct ron_wait_node _node;
};

RON_MUST_USE enum ron_rc ron_bus_new(const struct ron_bus_opts *opts, struct ron_bus **ret_bus,
                                     struct ron_err *err);
/* All readers must have left. */
void ron_bus_free(struct ron_bus *b);

RON_MUST_USE enum ron_rc ron_bus_publish(struct ron_bus *b, const void *message);

/* `waker` NULL: the reader is a blocking thread. RON_LIMIT when there are readers_max already. */
RON_MUST_USE enum ron_rc ron_bus_subscribe(struct ron_bus *b, struct ron_bus_reader *r,
                                           struct ron_waker *waker, struct ron_err *err);
void ron_bus_unsubscribe(struct ron_bus_reader *r);

/* Copies up to `max` messages to `out`. RON_OK; RON_LAGGED with *ret_missed (call again to read
 * on); RON_CLOSED; RON_AGAIN: the waker will be called. */
RON_MUST_USE enum ron_rc ron_bus_poll(struct ron_bus_reader *r, void *out, size_t max,
                                      size_t *ret_count, uint64_t *ret_missed);
