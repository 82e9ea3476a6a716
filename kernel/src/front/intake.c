/* SPDX-License-Identifier: Apache-2.0 */
/* intake.c - listener tasks and their sockets; contract and invariants in ron/front/intake.h.
 *
 * Place: front, under http and wire. One lane per worker holds a watch per address and the one
 * timer of its pause. */
#include "ron/front/intake.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

struct watch {
    struct lane *lane;
    struct ron_io io; /* fd -1: another worker has the only socket */
    bool owned;       /* closed by this lane */
    bool watched;
};

struct lane {
    struct ron_intake *in;
    void *worker;
    struct ron_task *task; /* of the attach; constant */
    bool taking;           /* between begin and end */
    struct ron_timer pause;
    struct ron_au32 moved;                      /* look at `next` */
    struct ron_au32 next[RON_INTAKE_ADDRS_MAX]; /* 1 + the socket that is to be taken; 0: none */
    char name[RON_INTAKE_NAME_MAX + 12];        /* "-" and the number of the worker */
    struct watch watches[RON_INTAKE_ADDRS_MAX];
};

struct ron_intake {
    struct ron_intake_opts opts;
    char addrs[RON_INTAKE_ADDRS_MAX][2][RON_ADDR_MAX]; /* the present one, and that before */
    struct ron_au32 present[RON_INTAKE_ADDRS_MAX];
    int turns[RON_INTAKE_ADDRS_MAX]; /* connections that one worker takes in a turn */
    struct lane lanes[];
};

/* ---- accepting ------------------------------------------------------------------------------- */

static void pause_accepting(struct lane *l, uint64_t now_ms)
{
    ron_task_timer_arm(l->task, &l->pause, now_ms + RON_INTAKE_PAUSE_MS);
}

/* Watches what is not watched. */
static void watch_all(struct lane *l)
{
    uint64_t now_ms = l->in->opts.ops->tick(l->worker);

    for (size_t i = 0; i < l->in->opts.addr_count; i++) {
        struct watch *w = &l->watches[i];

        if (w->io.fd < 0 || w->watched) {
            continue;
        }
        w->watched = ron_io_watch(l->task, &w->io, RON_IO_READ) == RON_OK;
        if (!w->watched) {
            w->io._task = NULL;
            pause_accepting(l, now_ms);
        }
    }
}

static void on_pause_over(struct ron_timer *timer)
{
    watch_all(RON_CONTAINER_OF(timer, struct lane, pause));
}

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct watch *w = RON_CONTAINER_OF(io, struct watch, io);
    struct lane *l = w->lane;
    const struct ron_intake_opts *o = &l->in->opts;
    size_t at = (size_t)(w - l->watches);
    uint64_t now_ms = o->ops->tick(l->worker);

    (void)events;
    for (int i = 0; i < l->in->turns[at]; i++) {
        struct ron_peer peer = {0};
        int fd = -1;
        enum ron_rc rc = o->env->net->accept(o->env, io->fd, &fd, &peer);

        if (rc == RON_AGAIN) {
            return;
        }
        if (rc != RON_OK) {
            ron_io_forget(io); /* N2 */
            w->watched = false;
            pause_accepting(l, now_ms);
            return;
        }
        o->ops->accepted(l->worker, at, fd, &peer);
    }
}

void ron_intake_begin(struct ron_intake *in, uint32_t index, struct ron_task *t)
{
    struct lane *l = &in->lanes[index];

    RON_ASSERT(index < in->opts.worker_count && l->task == t);
    l->taking = true;
    watch_all(l);
}

void ron_intake_end(struct ron_intake *in, uint32_t index)
{
    struct lane *l = &in->lanes[index];

    RON_ASSERT(index < in->opts.worker_count);
    for (size_t i = 0; i < in->opts.addr_count; i++) {
        struct watch *w = &l->watches[i];

        if (w->watched) {
            on_ready(&w->io, RON_IO_READ); /* Who came last is told too. */
        }
        if (w->watched) {
            ron_io_forget(&w->io);
            w->watched = false;
        }
    }
    l->taking = false;
    ron_task_timer_cancel(l->task, &l->pause);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Listeners of several workers share their port, and the system would let a second process of the
 * same user join them unseen and take a part of the clients. A listener that shares nothing tells
 * whether somebody is there. Two processes that start in the same moment may still both pass. */
static enum ron_rc probe(const struct ron_intake *in, const char *addr, struct ron_err *err)
{
    const struct ron_env *env = in->opts.env;
    int fd = -1;

    RON_TRY(env->net->listen(env, addr, &(struct ron_listen_opts){.reuse_port = false}, &fd, err));
    env->net->close(env, fd);
    return RON_OK;
}

static void take_next(struct lane *l, size_t at)
{
    struct watch *w = &l->watches[at];
    uint32_t next = ron_au32_xchg(&l->next[at], 0);

    if (next == 0) {
        return;
    }
    if (w->watched) {
        on_ready(&w->io, RON_IO_READ); /* Who waits already came to us. */
    }
    if (w->watched) {
        ron_io_forget(&w->io);
        w->watched = false;
    }
    l->in->opts.env->net->close(l->in->opts.env, w->io.fd);
    w->io.fd = (int)(next - 1);
}

void ron_intake_look(struct ron_intake *in, uint32_t index)
{
    struct lane *l = &in->lanes[index];

    if (RON_LIKELY(ron_au32_load(&l->moved) == 0) || ron_au32_xchg(&l->moved, 0) == 0) {
        return;
    }
    for (size_t i = 0; i < in->opts.addr_count; i++) {
        take_next(l, i);
    }
    if (l->taking) {
        watch_all(l);
    }
}

/* Sockets of all workers at the new address, or none. */
static enum ron_rc open_moved(struct ron_intake *in, char addr[RON_ADDR_MAX], int *ret_fds,
                              struct ron_err *err)
{
    const struct ron_env *env = in->opts.env;
    struct ron_listen_opts lo = {.reuse_port = in->opts.worker_count > 1};
    uint32_t opened = 0;
    enum ron_rc rc = lo.reuse_port ? probe(in, addr, err) : RON_OK;

    for (; rc == RON_OK && opened < in->opts.worker_count; opened++) {
        rc = env->net->listen(env, addr, &lo, &ret_fds[opened], err);
        if (rc != RON_OK) {
            break;
        }
        if (opened == 0) {
            rc = env->net->local_addr(env, ret_fds[0], addr, RON_ADDR_MAX);
        }
    }
    while (rc != RON_OK && opened > 0) {
        env->net->close(env, ret_fds[--opened]);
    }
    return rc;
}

enum ron_rc ron_intake_move(struct ron_intake *in, size_t at, const char *addr, struct ron_err *err)
{
    uint32_t other = 1 - ron_au32_load(&in->present[at]);
    char *text = in->addrs[at][other];
    int fds[RON_WORKERS_MAX] = {0};

    RON_ASSERT(at < in->opts.addr_count);
    if (ron_intake_is_unix(in, at) || strncmp(addr, "unix:", 5) == 0) {
        return ron_err_set(err, RON_UNSUPPORTED, "%s: a Unix socket is not moved; restart",
                           in->opts.name);
    }
    if (snprintf(text, RON_ADDR_MAX, "%s", addr) >= RON_ADDR_MAX) {
        return ron_err_set(err, RON_INVALID, "%s: the address %s is too long", in->opts.name, addr);
    }
    RON_TRY(open_moved(in, text, fds, err));
    ron_au32_store(&in->present[at], other);
    for (uint32_t i = 0; i < in->opts.worker_count; i++) {
        struct lane *l = &in->lanes[i];
        uint32_t unused = ron_au32_xchg(&l->next[at], (uint32_t)fds[i] + 1);

        if (unused != 0) { /* of a move that the worker has not seen */
            in->opts.env->net->close(in->opts.env, (int)(unused - 1));
        }
        ron_au32_store(&l->moved, 1);
        ron_task_wake(l->task);
    }
    return RON_OK;
}

/* ---- who may connect ------------------------------------------------------------------------- */

static bool has(const uint32_t *ids, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

bool ron_peer_listed(const struct ron_peer_list *list, const struct ron_peer *peer)
{
    return peer->has_cred && (has(list->uids, list->uid_count, peer->uid) ||
                              has(list->gids, list->gid_count, peer->gid));
}

bool ron_intake_is_unix(const struct ron_intake *in, size_t at)
{
    RON_ASSERT(at < in->opts.addr_count);
    return strncmp(ron_intake_addr(in, at), "unix:", 5) == 0;
}

/* ---- birth and death ------------------------------------------------------------------------- */

static enum ron_rc copy_addr(struct ron_intake *in, size_t at, struct ron_err *err)
{
    const struct ron_intake_opts *o = &in->opts;

    if (snprintf(in->addrs[at][0], RON_ADDR_MAX, "%s", o->addrs[at]) >= RON_ADDR_MAX) {
        return ron_err_set(err, RON_INVALID, "%s: the address %s is too long", o->name,
                           o->addrs[at]);
    }
    return RON_OK;
}

/* The first worker may ask for any port; the others take the one it got. */
static enum ron_rc open_addr(struct ron_intake *in, size_t at, struct ron_err *err)
{
    const struct ron_intake_opts *o = &in->opts;
    bool is_unix = ron_intake_is_unix(in, at);
    bool one_file = is_unix && o->worker_count > 1;
    struct ron_listen_opts lo = {.reuse_port = !is_unix && o->worker_count > 1};
    uint32_t first = is_unix ? (uint32_t)(at % o->worker_count) : 0;
    uint32_t end = is_unix ? first + 1 : o->worker_count;
    char *addr = in->addrs[at][0];

    if (lo.reuse_port) {
        RON_TRY(probe(in, addr, err));
    }
    in->turns[at] = one_file && o->share_unix ? 1 : RON_INTAKE_PER_TURN; /* N3 */
    for (uint32_t i = first; i < end; i++) {
        struct watch *w = &in->lanes[i].watches[at];
        enum ron_rc rc;

        RON_TRY(o->env->net->listen(o->env, addr, &lo, &w->io.fd, err));
        w->owned = true;
        if (i > 0 || is_unix) {
            continue;
        }
        rc = o->env->net->local_addr(o->env, w->io.fd, addr, RON_ADDR_MAX);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "%s: address of the listener", o->name);
        }
    }
    for (uint32_t i = 0; one_file && o->share_unix && i < o->worker_count; i++) {
        in->lanes[i].watches[at].io.fd = in->lanes[first].watches[at].io.fd;
    }
    return RON_OK;
}

static void lane_init(struct ron_intake *in, uint32_t index)
{
    const struct ron_intake_opts *o = &in->opts;
    struct lane *l = &in->lanes[index];

    l->in = in;
    l->worker = (char *)o->workers + index * o->worker_bytes;
    (void)snprintf(l->name, sizeof l->name, "%s-%u", o->name, index);
    ron_timer_init(&l->pause, on_pause_over);
    for (size_t i = 0; i < RON_INTAKE_ADDRS_MAX; i++) {
        l->watches[i] = (struct watch){.lane = l, .io = {.fd = -1, .ready = on_ready}};
    }
}

enum ron_rc ron_intake_new(const struct ron_intake_opts *opts, struct ron_intake **ret_intake,
                           struct ron_err *err)
{
    struct ron_intake *in;

    RON_ASSERT(opts->addr_count > 0 && opts->addr_count <= RON_INTAKE_ADDRS_MAX);
    RON_ASSERT(opts->worker_count > 0 && opts->worker_count <= RON_WORKERS_MAX);
    RON_ASSERT(strlen(opts->name) <= RON_INTAKE_NAME_MAX);
    in = ron_alloc_zero(sizeof *in + opts->worker_count * sizeof in->lanes[0]);
    if (in == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: no memory for listeners", opts->name);
    }
    in->opts = *opts;
    for (uint32_t i = 0; i < opts->worker_count; i++) {
        lane_init(in, i);
    }
    for (size_t i = 0; i < opts->addr_count; i++) {
        enum ron_rc rc = copy_addr(in, i, err);

        if (rc == RON_OK) {
            rc = open_addr(in, i, err);
        }
        if (rc != RON_OK) {
            ron_intake_free(in);
            return rc;
        }
    }
    *ret_intake = in;
    return RON_OK;
}

void ron_intake_free(struct ron_intake *in)
{
    if (in == NULL) {
        return;
    }
    for (uint32_t i = 0; i < in->opts.worker_count; i++) {
        for (size_t k = 0; k < in->opts.addr_count; k++) {
            const struct watch *w = &in->lanes[i].watches[k];

            if (w->owned) {
                in->opts.env->net->close(in->opts.env, w->io.fd);
            }
            uint32_t next = ron_au32_load(&in->lanes[i].next[k]);

            if (next != 0) {
                in->opts.env->net->close(in->opts.env, (int)(next - 1));
            }
        }
    }
    ron_free(in);
}

enum ron_rc ron_intake_attach(struct ron_intake *in, struct ron_sup *sup, struct ron_err *err)
{
    const struct ron_intake_ops *ops = in->opts.ops;

    for (uint32_t i = 0; i < in->opts.worker_count; i++) {
        struct lane *l = &in->lanes[i];

        RON_TRY(ron_sup_add(sup,
                            &(struct ron_task_def){.name = l->name,
                                                   .kind = "listener",
                                                   .mode = RON_TASK_LOOP,
                                                   .role = RON_ROLE_INTAKE,
                                                   .worker = (int32_t)i,
                                                   .restart = {.essential = true},
                                                   .start = ops->start,
                                                   .handle = ops->handle,
                                                   .drain = ops->drain,
                                                   .may_stop = ops->may_stop,
                                                   .stop = ops->stop,
                                                   .arg = l->worker},
                            &l->task, err));
    }
    return RON_OK;
}

const char *ron_intake_addr(const struct ron_intake *in, size_t at)
{
    RON_ASSERT(at < in->opts.addr_count);
    return in->addrs[at][ron_au32_load(&in->present[at])];
}
