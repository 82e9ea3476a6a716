/* SPDX-License-Identifier: Apache-2.0 */
/* ctx.h - who is running here, and the last things it did.
 *
 * Place: base. The assertion report and the watchdog read it; everything else only writes.
 *
 * Each thread has a context from birth (a default one in thread-local storage). Whoever runs
 * several flows on one thread, such as the fibers of the schedule explorer, gives each flow a
 * context of its own and swaps it in.
 *
 * Rules:
 *   C1. ron_ctx_current() is never NULL.
 *   C2. `task` and every event's `what` are static text: they are read after everything else broke.
 *   C3. An event costs a few stores: no clock, no lock, no branch on its content.
 *
 * Threads: a context belongs to the thread that has it swapped in. Reading another thread's context
 * is a race unless that thread has stopped.
 */
#pragma once

#include <stdint.h>

#include "ron/base/macros.h"

/* Long enough to see the way into a failure, short enough for a report of one page. A power of two:
 * the ring index is a mask. */
#define RON_CTX_EVENTS 32

/* The limit of Linux for a thread name, with its NUL. */
#define RON_CTX_THREAD_SIZE 16

struct ron_ctx_event {
    const char *what;
    uint64_t a;
    uint64_t b;
};

struct ron_ctx {
    const char *task; /* NULL outside of any task */
    char thread[RON_CTX_THREAD_SIZE];
    uint64_t event_count; /* events ever recorded; the newest is at (event_count - 1) % 32 */
    struct ron_ctx_event events[RON_CTX_EVENTS];
};

/* NULL stands for the default context until someone asks. Use ron_ctx_current(). */
extern _Thread_local struct ron_ctx *ron_ctx_tls;

/* Makes this thread's default context current. Out of line because it happens once. */
struct ron_ctx *ron_ctx_adopt_default(void);

static inline struct ron_ctx *ron_ctx_current(void)
{
    struct ron_ctx *ctx = ron_ctx_tls;

    return RON_LIKELY(ctx != NULL) ? ctx : ron_ctx_adopt_default();
}

/* Empties the context and names it; a longer thread name is cut. task may be NULL. */
void ron_ctx_init(struct ron_ctx *ctx, const char *thread, const char *task);

/* Makes ctx current on this thread (NULL: the thread's default) and returns the one before. The
 * caller keeps ownership of both; ctx must stay valid while it is current. */
struct ron_ctx *ron_ctx_swap(struct ron_ctx *ctx);

/* Sets the task of the current context (static text or NULL) and returns the one before, so that
 * the caller can restore it. */
const char *ron_ctx_set_task(const char *task);

/* Remembers that `what` happened. a and b mean what the text says they mean. */
static inline void ron_event(const char *what, uint64_t a, uint64_t b)
{
    struct ron_ctx *ctx = ron_ctx_current();
    struct ron_ctx_event *event = &ctx->events[ctx->event_count++ % RON_CTX_EVENTS];

    event->what = what;
    event->a = a;
    event->b = b;
}
