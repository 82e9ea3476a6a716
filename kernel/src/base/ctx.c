/* SPDX-License-Identifier: Apache-2.0 */
/* ctx.c - the context of the running thread or fiber.
 *
 * Place: base. ron_ctx_tls is a pointer because a fiber must be able to bring its own context; a
 * thread that never swapped uses default_ctx, which lives as long as the thread.
 * Failure: none; nothing is allocated.
 */
#include "ron/base/ctx.h"

#include <string.h>

static _Thread_local struct ron_ctx default_ctx;

_Thread_local struct ron_ctx *ron_ctx_tls;

/* Copies a thread name, cut to the array; the rest of the array becomes zero. */
static void set_name(struct ron_ctx *ctx, const char *thread)
{
    size_t len = strnlen(thread, sizeof(ctx->thread) - 1);

    memset(ctx->thread, 0, sizeof(ctx->thread));
    memcpy(ctx->thread, thread, len);
}

struct ron_ctx *ron_ctx_adopt_default(void)
{
    ron_ctx_tls = &default_ctx;
    return ron_ctx_tls;
}

void ron_ctx_init(struct ron_ctx *ctx, const char *thread, const char *task)
{
    memset(ctx, 0, sizeof(*ctx));
    set_name(ctx, thread);
    ctx->task = task;
}

struct ron_ctx *ron_ctx_swap(struct ron_ctx *ctx)
{
    struct ron_ctx *before = ron_ctx_current();

    ron_ctx_tls = ctx; /* NULL: the next look adopts the default */
    return before;
}

const char *ron_ctx_set_task(const char *task)
{
    struct ron_ctx *ctx = ron_ctx_current();
    const char *before = ctx->task;

    ctx->task = task;
    return before;
}
