/* SPDX-License-Identifier: Apache-2.0 */
/* out.h - what a socket did not take: kept, counted, and given its time.
 *
 * A front gathers the answers of a turn in a scratch buffer of its worker and writes them, with a
 * large body behind them, in one system call (ron_gather). Only what the socket does not take is
 * copied into the connection's `struct ron_out`, and goes out first when the socket is writable
 * again.
 *
 * Invariants:
 *   O1 what all connections of a server keep is counted in its ron_out_memory; a connection that
 *      would exceed it cannot finish its answer and has to go.
 *   O2 a connection that keeps nothing holds no memory.
 *   O3 the peer's clock runs from ron_out_start: it must take something within each timeout, and on
 *      the whole at least the smallest rate.
 *
 * Threads: a ron_out belongs to the worker of its connection; the memory counter is shared. */
#pragma once

#include <sys/uio.h>

#include "ron/base/buf.h"
#include "ron/base/clock.h"
#include "ron/sync/sync.h"

struct ron_out_memory {
    struct ron_au64 used;
    uint64_t max;
};

struct ron_out {
    struct ron_buf kept;
    uint64_t charged; /* of the memory */
    uint64_t start_ms;
    uint64_t progress_ms;
    uint64_t sent; /* since start_ms */
};

/* Keeps at most `max` bytes. */
static inline void ron_out_init(struct ron_out *o, size_t max)
{
    *o = (struct ron_out){0};
    ron_buf_init(&o->kept, max);
}

static inline size_t ron_out_len(const struct ron_out *o)
{
    return ron_buf_len(&o->kept);
}

/* The peer's time to take what waits begins. */
static inline void ron_out_start(struct ron_out *o, uint64_t now_ms)
{
    o->start_ms = now_ms;
    o->progress_ms = now_ms;
    o->sent = 0;
}

/* The peer took `len` more bytes, of what is kept or of something behind it. */
static inline void ron_out_progress(struct ron_out *o, size_t len, uint64_t now_ms)
{
    o->progress_ms = now_ms;
    o->sent += len;
}

/* Keeps a copy; false when it would be too much (O1). */
RON_MUST_USE bool ron_out_keep(struct ron_out *o, struct ron_out_memory *memory, const void *bytes,
                               size_t len);
/* The socket took the first `len` bytes of what is kept. */
void ron_out_taken(struct ron_out *o, struct ron_out_memory *memory, size_t len, uint64_t now_ms);
/* Drops what is kept. */
void ron_out_release(struct ron_out *o, struct ron_out_memory *memory);

/* ---- time ------------------------------------------------------------------------------------ */

/* Until when the bytes moved so far have bought time, beyond the first `grace_ms`. */
static inline uint64_t ron_paced_ms(uint64_t start_ms, uint64_t grace_ms, uint64_t bytes,
                                    uint64_t bytes_per_s)
{
    return start_ms + grace_ms + bytes * RON_MS_PER_S / bytes_per_s;
}

/* When the peer must have taken more, while something waits (O3). */
static inline uint64_t ron_out_due_ms(const struct ron_out *o, uint64_t timeout_ms,
                                      uint64_t bytes_per_s)
{
    return RON_MIN(o->progress_ms + timeout_ms,
                   ron_paced_ms(o->start_ms, timeout_ms, o->sent, bytes_per_s));
}

/* ---- the gathered write ---------------------------------------------------------------------- */

/* What is left of a, then b, after the first `done` bytes of both; returns how many entries that
 * is. */
static inline int ron_gather(struct iovec iov[2], const void *a, size_t a_len, const void *b,
                             size_t b_len, size_t done)
{
    size_t b_done = done > a_len ? done - a_len : 0;
    int count = 0;

    if (done < a_len) {
        iov[count++] = (struct iovec){(char *)(uintptr_t)a + done, a_len - done};
    }
    if (b_done < b_len) {
        iov[count++] = (struct iovec){(char *)(uintptr_t)b + b_done, b_len - b_done};
    }
    return count;
}
