/* SPDX-License-Identifier: Apache-2.0 */
/* chan_testing.h - what tests and benches ask of channels; the product calls none of it. */
#pragma once

#include "ron/chan/bus.h"
#include "ron/chan/chan.h"
#include "ron/chan/oneshot.h"

/* After it publishing answers RON_CLOSED and readers get what is kept, then RON_CLOSED. */
bool ron_bus_close(struct ron_bus *b);

/* As ron_bus_poll, but waits: RON_TIMEOUT, RON_CANCELLED. Blocking point. */
RON_MUST_USE enum ron_rc ron_bus_recv(struct ron_bus_reader *r, void *out, size_t max,
                                      struct ron_deadline deadline, size_t *ret_count,
                                      uint64_t *ret_missed);

/* As many of `items` as fit now, in order, under one lock; for reject and wait channels. RON_OK
 * when all were taken, else RON_FULL or RON_CLOSED; ret_sent is set in every case. */
RON_MUST_USE enum ron_rc ron_chan_try_send_many(struct ron_chan *c, void *const *items,
                                                size_t count, size_t *ret_sent);

/* `wait` for a task on a worker. RON_OK, RON_CLOSED, or RON_AGAIN: the node's waker is called when
 * there may be room; then call again. */
RON_MUST_USE enum ron_rc ron_chan_send_poll(struct ron_chan *c, void *item,
                                            struct ron_wait_node *node);

/* Whether the asker has left. */
bool ron_oneshot_abandoned(const struct ron_oneshot *s);

/* As ron_oneshot_wait, but RON_AGAIN at once: the waker will be called. */
RON_MUST_USE enum ron_rc ron_oneshot_poll(struct ron_oneshot *s, struct ron_waker *waker,
                                          void **ret_value);
