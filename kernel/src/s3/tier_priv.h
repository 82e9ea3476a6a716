/* SPDX-License-Identifier: Apache-2.0 */
/* tier_priv.h - the second tier: its records; private to the module.
 *
 *     tier.c       settings, life, readiness, counters
 *     tier_read.c  from the bucket into the local store
 *     tier_write.c the queue: folder, uploaders, sweeper
 *
 * Who owns a waiting object: the file DIR/<64 digits>-<bytes>-<life>. Whoever removes it (one only
 * can) gives back its pin and its share of the figures; so an id that is queued twice, or uploaded
 * by two tasks at once, is counted once. `life` is the wall clock of the start, in ms: it tells the
 * files of earlier lives, which the first sweep pins and counts, from those of this one, which
 * are. */
#pragma once

#include "ron/guard/flight.h"
#include "ron/s3/tier.h"
#include "ron/sync/sync.h"

enum {
    RON__TIER_MAGIC = 0x54494552,
    RON__TIER_BAD_MAX = 256, /* mismatches remembered; the oldest is forgotten: it is found again */
    RON__TIER_PATH_SIZE = 1200,
};

enum ron__tier_read {
#define X(name, label) RON__TIER_READ_##name,
    RON_TIER_READS(X)
#undef X
        RON__TIER_READ_COUNT
};
enum ron__tier_wrote {
#define X(name, label) RON__TIER_WRITE_##name,
    RON_TIER_WRITES(X)
#undef X
        RON__TIER_WRITE_COUNT
};

struct ron_tier {
    uint32_t magic;
    struct ron_tier_opts opts;
    struct ron_s3 *s3;
    enum ron_tier_write write;
    uint32_t fetches;
    struct ron_need *need;
    struct ron_au32 need_outcome; /* the last one that says something of the server */
    struct ron_flights *flights;  /* reads under way, by id */

    /* The queue; `chan` NULL: there is none. */
    struct ron_chan *chan; /* of struct ron__tier_job */
    char *folder;
    uint64_t life;
    uint64_t backlog_max;
    uint64_t backlog_bytes_max;
    struct ron_au64 backlog; /* files in the folder */
    struct ron_au64 backlog_bytes;
    struct ron_au64 deferred; /* of them, not in `chan` */
    char names[RON_TIER_UPLOADS_MAX][24];

    struct ron_mutex bad_mu; /* guards what follows */
    struct ron_b3 bad[RON__TIER_BAD_MAX];
    uint32_t bad_next;
    uint32_t bad_count;

    struct ron_series *reads[RON__TIER_READ_COUNT];
    struct ron_series *writes[RON__TIER_WRITE_COUNT];
    struct ron_metric *gauge_objects;
    struct ron_metric *gauge_bytes;
};

struct ron__tier_job {
    struct ron_b3 id;
    uint64_t size;
    uint64_t life; /* of the process that made it wait */
};

/* Codes as callers of a store know them: RON_AGAIN when the server cannot be had, RON_IO when it
 * refuses us. */
enum ron_rc ron__tier_rc(enum ron_rc rc);

/* Objects of the bucket that did not match their id. */
void ron__tier_bad_add(struct ron_tier *t, const struct ron_b3 *id);
bool ron__tier_bad_has(struct ron_tier *t, const struct ron_b3 *id);
void ron__tier_bad_drop(struct ron_tier *t, const struct ron_b3 *id);

RON_MUST_USE enum ron_rc ron__tier_queue_new(struct ron_tier *t, uint32_t uploads,
                                             struct ron_err *err);
void ron__tier_queue_free(struct ron_tier *t);
/* The task that asks the server how it is, and takes up what waits in the folder. */
RON_MUST_USE enum ron_rc ron__tier_sweeper_add(struct ron_tier *t, struct ron_err *err);

/* The key of an object, behind the prefix. */
void ron_tier_key(const struct ron_b3 *id, char ret_key[RON_TIER_KEY_SIZE]);
