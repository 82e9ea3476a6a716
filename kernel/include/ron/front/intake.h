/* SPDX-License-Identifier: Apache-2.0 */
/* intake.h - where a server takes connections in: its listener tasks, their sockets, accepting.
 *
 * A front (http, wire) has one listener task per executor worker ("NAME-0", "NAME-1", ...). Each
 * has a socket of its own on every TCP address, and the system spreads connections over them. A
 * Unix socket is one file: either one worker has it (they take turns in owning those), or, with
 * share_unix, all watch it and each takes one connection at a time.
 *
 * Life: ron_intake_new opens all sockets, ron_intake_attach adds the tasks to a supervisor. The
 * front calls ron_intake_begin in `start` and ron_intake_end in `stop`; the sockets stay open in
 * between, so a task that fails and is started again refuses nobody. ron_intake_free closes them,
 * after the executor is freed.
 *
 * An address may be moved while the server runs: ron_intake_move opens the new sockets, and each
 * worker, when it runs next, takes who waits at its old one, closes it and listens at the new one.
 * Connections that are open stay.
 *
 * Invariants:
 *   N1 a worker's lane is touched by its worker only, from begin to end.
 *   N2 a socket that cannot accept now (descriptors have run out) is left alone for
 *      RON_INTAKE_PAUSE_MS: the connection stays queued, and asking at once again would spin.
 *   N3 a worker takes at most RON_INTAKE_PER_TURN connections in a turn; the others wait in the
 *      system's queue.
 *
 * Failure: what cannot be opened fails ron_intake_new; a socket that cannot be watched is tried
 * again after the pause. */
#pragma once

#include "ron/base/env.h"
#include "ron/task/supervisor.h"

enum {
    RON_INTAKE_ADDRS_MAX = 8,   /* plain and TLS on IPv4 and IPv6, a Unix socket, metrics; spare */
    RON_INTAKE_NAME_MAX = 15,   /* of a server; a task's name has a number behind it */
    RON_INTAKE_PER_TURN = 64,   /* one turn of accepting takes some hundred microseconds */
    RON_INTAKE_PAUSE_MS = 100,  /* a descriptor comes free when some peer leaves: no hurry */
    RON_INTAKE_SPARE_CONNS = 64 /* above a front's limit: so many may still be told so */
};

struct ron_intake;

/* `worker` is the front's record of a worker. start, handle, drain and stop are those of its task
 * (ron/task/task.h). */
struct ron_intake_ops {
    enum ron_rc (*start)(struct ron_task *t, void *worker);
    enum ron_rc (*handle)(struct ron_task *t, void *worker, void **items, size_t count);
    void (*drain)(struct ron_task *t, void *worker);
    bool (*may_stop)(struct ron_task *t, void *worker); /* NULL: always */
    void (*stop)(struct ron_task *t, void *worker);
    /* A turn of accepting begins: reads the front's clock and returns it. */
    uint64_t (*tick)(void *worker);
    /* A connection to the address with the index `at`. */
    void (*accepted)(void *worker, size_t at, int take_fd, const struct ron_peer *peer);
};

struct ron_intake_opts {
    const struct ron_env *env;
    const struct ron_intake_ops *ops;        /* kept, not copied */
    const char *name;                        /* of the server; starts its messages too; copied */
    const char *addrs[RON_INTAKE_ADDRS_MAX]; /* copied */
    size_t addr_count;
    bool share_unix;
    void *workers; /* the front's records: worker_count of worker_bytes each; kept */
    size_t worker_bytes;
    uint32_t worker_count;
};

RON_MUST_USE enum ron_rc ron_intake_new(const struct ron_intake_opts *opts,
                                        struct ron_intake **ret_intake, struct ron_err *err);
/* NULL is fine. */
void ron_intake_free(struct ron_intake *in);
RON_MUST_USE enum ron_rc ron_intake_attach(struct ron_intake *in, struct ron_sup *sup,
                                           struct ron_err *err);
/* The address with the port that was got. The text lives until the move after the next. */
const char *ron_intake_addr(const struct ron_intake *in, size_t at);
bool ron_intake_is_unix(const struct ron_intake *in, size_t at);

/* Moves a TCP address to another. From any thread, one at a time. RON_UNSUPPORTED when either is a
 * Unix socket; RON_EXISTS (in use), RON_INVALID, RON_IO: all stays as it was. */
RON_MUST_USE enum ron_rc ron_intake_move(struct ron_intake *in, size_t at, const char *addr,
                                         struct ron_err *err);
/* In the task of worker `index`, whenever it runs: does its part of a move. Costs a load. */
void ron_intake_look(struct ron_intake *in, uint32_t index);

/* In the task of worker `index`: takes connections from here on, */
void ron_intake_begin(struct ron_intake *in, uint32_t index, struct ron_task *t);
/* and from here on no more; who waits already is still accepted. */
void ron_intake_end(struct ron_intake *in, uint32_t index);

/* ---- who may connect ------------------------------------------------------------------------- */

/* Users and groups that may connect to a Unix socket. What an empty list means is the front's to
 * say. */
struct ron_peer_list {
    const uint32_t *uids;
    size_t uid_count;
    const uint32_t *gids;
    size_t gid_count;
};

static inline bool ron_peer_list_empty(const struct ron_peer_list *list)
{
    return list->uid_count == 0 && list->gid_count == 0;
}

/* By what the system says of the peer, never by what it says itself: one without credentials is on
 * no list. */
bool ron_peer_listed(const struct ron_peer_list *list, const struct ron_peer *peer);
