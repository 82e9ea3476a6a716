/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/store.h - the mailbox without its task: a group of operations goes in, each is
 * answered. Private to the iop_box_*.c files and tests.
 *
 * A group goes through three steps:
 *   1. every operation that writes is checked and put into one transaction; what it changes is
 *      claimed or pending in memory;
 *   2. the transaction is committed, or all of it is taken back, in the file and in memory;
 *   3. memory follows, readers get what is there, all are answered.
 *
 * A topic stays when its messages have gone, until more than three quarters of topics_max are
 * there: then those without messages, dead letters and long polls leave, some at a time.
 *
 * An operation that is refused (M5, unknown topic) is refused alone. A disk that fails refuses the
 * whole group with one code, and nothing of it has happened; but for RON_TIMEOUT, F2 of
 * file.h, after which memory is filled anew before anything else is done.
 *
 * Threads: one; every call may wait for the disk. `done` of an operation is called from here. */
#pragma once

#include "interop/mailbox/file.h"
#include "ron/base/rand.h"

enum {
    IOP_GROUP_MAX = 1024,         /* operations in one transaction */
    IOP_GROUP_BYTES = 8 << 20,    /* of messages in one transaction */
    IOP_SEEN_SWEEP_MS = 100,      /* between two sweeps of old keys in the file */
    IOP_SEEN_SWEEP_MAX = 8192,    /* keys of one sweep: more than can come in that time */
    IOP_TOPIC_SWEEP_MAX = 256,    /* topics of one sweep */
    IOP_EXPIRE_MAX = 512,         /* leases that ended, in one transaction */
    IOP_REDELIVER_FIRST_MS = 800, /* doubling, plus up to as much at random ... */
    IOP_REDELIVER_MAX_MS = 60000, /* ... and no longer than this */
};

struct iop_store_opts {
    const struct ron_env *env;
    const char *path; /* NULL: amnesia */
    const char *dsn;  /* not NULL: PostgreSQL instead of a file */
    uint32_t tries;   /* to open it there; 0: 30 */
    struct iop_box_limits limits;
    uint32_t seen_max;
    uint64_t seen_ttl_ms;
    uint64_t seen_keep_ms;
};

#define IOP_STORE_MAGIC 0x4953544fu /* "ISTO" */

struct iop_store {
    uint32_t magic;
    const struct ron_env *env;
    struct iop_file *file;
    struct iop_queue queue;
    struct iop_seen *seen;
    struct ron_rand rand;
    uint64_t last_id;  /* given out */
    uint64_t seen_low; /* no key in the file is older; of the wall clock */
    uint64_t sweep_ms; /* when the next sweep is due; monotonic */
    uint64_t topic_sweep_ms;
    uint32_t waiting; /* long polls */
    bool away;        /* the database; what looks after it says when it is back */
    struct iop_box_counts counts;
};

RON_MUST_USE enum ron_rc iop_store_open(struct iop_store *s, const struct iop_store_opts *opts,
                                        struct ron_err *err);
/* No long poll may wait: iop_store_stop. Also fine on a struct of zeros. */
void iop_store_close(struct iop_store *s);

/* Any number of operations, in order; groups are made of them. Each is answered now or, a RECV that
 * waits, later. */
void iop_store_apply(struct iop_store *s, struct iop_op **ops, size_t count);
/* What time brings: delays, leases, long polls, old keys. */
void iop_store_tick(struct iop_store *s);
/* Monotonic; UINT64_MAX: nothing is due. */
uint64_t iop_store_next_ns(const struct iop_store *s);
/* Answers every long poll with nothing. */
void iop_store_stop(struct iop_store *s);
