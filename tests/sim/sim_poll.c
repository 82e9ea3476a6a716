/* SPDX-License-Identifier: Apache-2.0 */
/* sim_poll.c - the poller on virtual descriptors, with the semantics of epoll.
 *
 * Place: above core and network.
 *
 * Invariants:
 *   P1 level: an interest is reported by every wait while it holds. Edge: once after each change of
 *   the socket,
 *      and once after set, if it holds then; what did not fit into a wait is reported by the next.
 *   P2 a waiter is waiting for the next timer at the latest, and a timer made while it waits that
 *   is earlier
 *      marks it (sim__poke_before). So it cannot sleep through an event.
 *   P3 a wake before a wait ends that wait at once; many count as one.
 *
 * The order in which ready descriptors are reported is drawn anew each time. */
#include <string.h>

#include "ron/base/assert.h"
#include "sim_priv.h"

enum { SIM_POLLER_MAGIC = 0x73706f6c };

struct reg {
    int fd;
    uint32_t events;
    void *user;
    struct sim_sock *sock;
    bool fresh;    /* set since it was last reported */
    uint64_t seen; /* edge number last reported */
};

struct ron_poller {
    uint32_t magic;
    struct ron_list_node node;
    struct sim_env *env;
    struct reg *reg;
    size_t reg_count;
    size_t reg_cap;
    bool woken;
    bool marked;               /* to be poked by sim__leave */
    uint64_t waiting_until_ns; /* 0: not waiting */
    struct ron_mutex mutex;    /* fibers only: guards nothing but the sleep itself */
    struct ron_cond cond;
};

static enum ron_rc poller_open(const struct ron_env *env, struct ron_poller **ret_poller,
                               struct ron_err *err)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct ron_poller *p;

    if (se->dead) {
        return ron_err_set(err, RON_IO, "the machine is off");
    }
    p = sim__alloc(sizeof *p);
    p->magic = SIM_POLLER_MAGIC;
    p->env = se;
    if (sim->fibers) {
        ron_mutex_init(&p->mutex, RON_RANK_PLATFORM, "sim.poller");
        ron_cond_init(&p->cond);
    }
    ron_list_push_back(&sim->pollers, &p->node);
    *ret_poller = p;
    return RON_OK;
}

static void poller_close(struct ron_poller *p)
{
    RON_CHECK_MAGIC(p, SIM_POLLER_MAGIC);
    RON_ASSERT(p->waiting_until_ns == 0);
    p->magic = 0; /* the memory stays (S3) */
    p->reg_count = 0;
}

static void forget(struct ron_poller *p, size_t i)
{
    p->reg[i] = p->reg[--p->reg_count];
}

static enum ron_rc poller_set(struct ron_poller *p, int fd, uint32_t events, void *user)
{
    struct reg *reg = NULL;

    RON_CHECK_MAGIC(p, SIM_POLLER_MAGIC);
    RON_ASSERT((events & ~(uint32_t)(RON_IO_READ | RON_IO_WRITE | RON_IO_EDGE)) == 0);
    if (p->env->dead) {
        return RON_CLOSED;
    }
    for (size_t i = 0; i < p->reg_count && reg == NULL; i++) {
        if (p->reg[i].fd == fd) {
            if (events == 0) {
                forget(p, i);
                return RON_OK;
            }
            reg = &p->reg[i];
        }
    }
    if (events == 0) {
        return RON_OK;
    }
    if (reg == NULL) {
        if (p->reg_count == p->reg_cap) {
            p->reg_cap = RON_MAX((size_t)16, p->reg_cap * 2);
            p->reg = sim__grow(p->reg, p->reg_cap * sizeof *p->reg);
        }
        reg = &p->reg[p->reg_count++];
    }
    *reg = (struct reg){
        .fd = fd,
        .events = events,
        .user = user,
        .sock = sim__fd(p->env, fd, SIM_FD_SOCK)->sock,
        .fresh = true,
    };
    return RON_OK;
}

/* What of the socket's state this interest is told. */
static uint32_t report(const struct sim *sim, const struct reg *reg)
{
    uint32_t ready = sim__sock_ready(sim, reg->sock);
    uint32_t mask = RON_IO_ERR | (reg->events & (RON_IO_READ | RON_IO_WRITE));

    if ((reg->events & RON_IO_READ) != 0 || (ready & RON_IO_ERR) != 0) {
        mask |= RON_IO_HUP;
    }
    if ((reg->events & RON_IO_EDGE) != 0 && !reg->fresh && reg->seen == sim__sock_edge(reg->sock)) {
        return 0;
    }
    return ready & mask;
}

static size_t collect(struct ron_poller *p, struct ron_ready *ready, size_t max)
{
    struct sim *sim = p->env->host->sim;
    size_t count = 0;
    size_t start;

    if (p->reg_count == 0 || p->env->dead) {
        return 0;
    }
    start = (size_t)ron_rand_below(&sim->rand_net, p->reg_count);
    for (size_t i = 0; i < p->reg_count && count < max; i++) {
        struct reg *reg = &p->reg[(start + i) % p->reg_count];
        uint32_t events = report(sim, reg);
        if (events != 0) {
            ready[count++] = (struct ron_ready){.user = reg->user, .events = events};
            reg->fresh = false;
            reg->seen = sim__sock_edge(reg->sock); /* keeps P1 */
        }
    }
    return count;
}

/* Sleeps until poked or the time comes. The mutex and the condition serve only to sleep on. */
static void doze(struct ron_poller *p, uint64_t until_ns)
{
    struct sim *sim = p->env->host->sim;
    bool may_block;

    if (!sim->fibers) {
        if (until_ns == UINT64_MAX) {
            sim_fail(sim, __FILE__, __LINE__, "a poller waits for ever and nothing is to come");
        }
        sim_advance(sim, until_ns - RON_MIN(until_ns, sim->clock_ns));
        return;
    }
    /* The loop's own poll is the one wait that a loop thread may make. */
    may_block = ron_thread_set_may_block(true);
    ron_mutex_lock(&p->mutex);
    if (p->waiting_until_ns != 0) {
        (void)ron_cond_wait_until(&p->cond, &p->mutex, (struct ron_deadline){.at_ns = until_ns});
    }
    ron_mutex_unlock(&p->mutex);
    (void)ron_thread_set_may_block(may_block);
}

static size_t poller_wait(struct ron_poller *p, struct ron_ready *ready, size_t max,
                          struct ron_deadline deadline)
{
    struct sim *sim = p->env->host->sim;
    size_t count = 0;
    bool idle;

    RON_CHECK_MAGIC(p, SIM_POLLER_MAGIC);
    RON_ASSERT(max > 0);
    if (sim->fibers) {
        ron_no_lock_point("poll");
    }
    sim__enter(sim);
    idle = sim__chance(&sim->rand_net, sim->opts.net_idle_wake_ppm);
    if (idle) {
        sim__event(sim, SIM_EV_IDLE_WAKE, p->env->host, 0, 0);
    }
    for (;;) {
        count = idle ? 0 : collect(p, ready, max);
        if (idle || count > 0 || p->woken || ron_deadline_expired(deadline, sim_now_ns(sim))) {
            break;
        }
        p->waiting_until_ns = RON_MIN(deadline.at_ns, sim__next_timer_ns(sim)); /* keeps P2 */
        sim__leave(sim);
        doze(p, p->waiting_until_ns);
        p->waiting_until_ns = 0;
        sim__pump(sim);
    }
    p->woken = p->woken && idle; /* an interrupted wait has not seen the wake */
    sim__leave(sim);
    return count;
}

static void poke(struct ron_poller *p)
{
    ron_mutex_lock(&p->mutex);
    p->waiting_until_ns = 0; /* a waiter that is not asleep yet will not fall asleep */
    ron_cond_signal(&p->cond);
    ron_mutex_unlock(&p->mutex);
}

static void poller_wake(struct ron_poller *p)
{
    RON_CHECK_MAGIC(p, SIM_POLLER_MAGIC);
    p->woken = true; /* keeps P3 */
    if (p->env->host->sim->fibers) {
        poke(p);
    }
}

const struct ron_poller_ops sim__poller_ops = {
    .open = poller_open,
    .close = poller_close,
    .set = poller_set,
    .wait = poller_wait,
    .wake = poller_wake,
};

void sim__poke_before(struct sim *sim, uint64_t at_ns)
{
    RON_LIST_FOREACH(node, &sim->pollers)
    {
        struct ron_poller *p = RON_LIST_ENTRY(node, struct ron_poller, node);
        if (p->waiting_until_ns > at_ns) {
            p->marked = true;
        }
    }
}

void sim__poke_marked(struct sim *sim)
{
    /* A poke may switch fibers, but the list only grows, and at its end. */
    RON_LIST_FOREACH(node, &sim->pollers)
    {
        struct ron_poller *p = RON_LIST_ENTRY(node, struct ron_poller, node);
        if (p->marked) {
            p->marked = false;
            poke(p);
        }
    }
}

void sim__pollers_forget(struct sim *sim, const struct sim_sock *sock)
{
    RON_LIST_FOREACH(node, &sim->pollers)
    {
        struct ron_poller *p = RON_LIST_ENTRY(node, struct ron_poller, node);
        for (size_t i = 0; i < p->reg_count; i++) {
            if (p->reg[i].sock == sock) {
                forget(p, i--);
            }
        }
    }
}

void sim__pollers_free(struct sim *sim)
{
    struct ron_list_node *node;

    while ((node = ron_list_pop_front(&sim->pollers)) != NULL) {
        struct ron_poller *p = RON_LIST_ENTRY(node, struct ron_poller, node);
        if (sim->fibers) {
            ron_cond_done(&p->cond);
            ron_mutex_done(&p->mutex);
        }
        sim__free(p->reg);
        sim__free(p);
    }
}
