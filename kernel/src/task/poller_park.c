/* SPDX-License-Identifier: Apache-2.0 */
/* poller_park.c - a poller without descriptors: waiting is parking.
 *
 * Used by the model, where a worker must sleep on something the explorer understands, and by
 * programs that have no sockets. The worker may not block elsewhere; its poll is the one place
 * where it may. */
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/task/executor.h"

struct ron_poller {
    struct ron_aptr waiter; /* thread inside wait, or NULL */
    struct ron_au32 pending;
};

static enum ron_rc park_open(const struct ron_env *env, struct ron_poller **ret_poller,
                             struct ron_err *err)
{
    struct ron_poller *p = ron_alloc_zero(sizeof *p);

    (void)env;
    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "poller: no memory");
    }
    *ret_poller = p;
    return RON_OK;
}

static void park_close(struct ron_poller *p)
{
    ron_free(p);
}

static enum ron_rc park_set(struct ron_poller *p, int fd, uint32_t events, void *user)
{
    (void)p;
    (void)fd;
    (void)events;
    (void)user;
    return RON_UNSUPPORTED;
}

static size_t park_wait(struct ron_poller *p, struct ron_ready *ready, size_t max,
                        struct ron_deadline deadline)
{
    bool may_block = ron_thread_set_may_block(true);

    (void)ready;
    (void)max;
    ron_aptr_store(&p->waiter, ron_thread_self());
    /* The waiter is known before the last look at `pending`: a wake either sees it or is seen. */
    if (ron_au32_xchg(&p->pending, 0) == 0 && deadline.at_ns != 0) {
        (void)ron_park_until(deadline,
                             "poll"); /* Why it returned does not matter: the worker looks. */
        (void)ron_au32_xchg(&p->pending, 0);
    }
    ron_aptr_store(&p->waiter, NULL);
    (void)ron_thread_set_may_block(may_block);
    return 0;
}

static void park_wake(struct ron_poller *p)
{
    if (ron_au32_xchg(&p->pending, 1) == 0) {
        struct ron_thread *t = ron_aptr_load(&p->waiter);
        if (t != NULL) {
            ron_unpark(t);
        }
    }
}

const struct ron_poller_ops ron_poller_park = {
    .open = park_open,
    .close = park_close,
    .set = park_set,
    .wait = park_wait,
    .wake = park_wake,
};
