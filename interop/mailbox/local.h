/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/local.h - the embedded mailbox: one writer, over a SQLite file or tables in
 * PostgreSQL.
 *
 *     many --ops (channel `mailbox`, reject)--> mailbox_writer (blocking task) --> file.h
 *                                                     |
 *                               done() of each operation after its group is synced
 *
 * The writer takes everything that waits into one transaction, commits it once, and answers all
 * (M1). Who can be received and when is in its memory (queue.h), so that a RECV writes
 * nothing; a start reads it from the file. Long polls wait in the writer and are answered by the
 * PUT that brings something.
 *
 * Amnesia: path NULL; nothing touches a disk. */
#pragma once

#include "interop/mailbox/box.h"
#include "interop/mailbox/seen.h"
#include "ron/base/env.h"
#include "ron/chan/chan.h"
#include "ron/sync/sync.h"
#include "ron/task/supervisor.h"

/* Messages find their topic by its row when a mailbox is opened: more would make that slow. */
enum { IOP_TOPICS_MAX = 8192 };

struct iop_box_limits {
    uint32_t message_max_bytes; /* of a body */
    uint64_t topic_max_bytes;   /* of one topic, dead letters included */
    uint32_t topic_max_messages;
    uint64_t total_max_bytes;
    uint32_t total_max_messages;
    uint32_t topics_max;     /* at most IOP_TOPICS_MAX */
    uint32_t deliveries_max; /* then a dead letter */
};
struct iop_box_limits iop_box_limits_default(void);

struct iop_box_local_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    const char *path; /* NULL: amnesia */
    const char *dsn;  /* not NULL: PostgreSQL instead of a file */
    struct iop_box_limits limits;
    uint32_t seen_max;     /* 0: 4194304 keys */
    uint64_t seen_ttl_ms;  /* 0: 24 h */
    uint64_t seen_keep_ms; /* 0: 10 min */
    uint32_t capacity;     /* of the channel; 0: 2048 */
};

struct iop_box_local;
RON_MUST_USE enum ron_rc iop_box_local_new(const struct iop_box_local_opts *opts,
                                           struct iop_box_local **ret_local, struct ron_err *err);
/* The writer, as a task of the given drain stage: after all who submit. */
RON_MUST_USE enum ron_rc iop_box_local_add(struct iop_box_local *b, struct ron_sup *sup,
                                           uint32_t stage, struct ron_err *err);
/* After the supervisor has ended; also before it began. */
void iop_box_local_free(struct iop_box_local *b);

struct iop_box *iop_box_local_box(struct iop_box_local *b);
struct iop_seen *iop_box_local_seen(struct iop_box_local *b);

/* What the writer has counted; for metrics and readiness. Any thread. */
struct iop_box_counts {
    struct ron_stat groups; /* transactions */
    struct ron_stat ops;    /* operations in them */
    struct ron_stat put;    /* messages */
    struct ron_stat delivered;
    struct ron_stat acked;
    struct ron_stat nacked;
    struct ron_stat expired; /* leases that ended unanswered */
    struct ron_stat died;    /* became dead letters */
    struct ron_stat duplicates;
    struct ron_stat failures;    /* groups that could not be written */
    struct ron_stat reloads;     /* memory was filled anew from the database */
    struct ron_stat topics_gone; /* idle ones that made room */
    struct ron_stat damaged;     /* rows that are not what was written: M6 */
    struct ron_stat messages;    /* gauges: now */
    struct ron_stat bytes;
    struct ron_stat dead;
    struct ron_stat topics;
    struct ron_stat waiting;   /* long polls */
    struct ron_stat commit_ns; /* of the last group, sync included */
    struct ron_stat broken;    /* 1: the last group could not be written */
};
const struct iop_box_counts *iop_box_local_counts(const struct iop_box_local *b);
