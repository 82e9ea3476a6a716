/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h - a bucket behind a content store: the local store stays the first tier, S3 is the second.
 *
 *     write   commit in the local store ──► the bucket, now (sync) or from a queue (queue)
 *     read    local store ── not there ──► the bucket ──► checked against its id ──► local store
 *
 * An object has one name everywhere, its content id, so the key is PREFIX "o/" HH "/" and 64
 * digits, and many services may share one bucket: whoever writes first writes for all
 * (If-None-Match: *).
 *
 * Rules a caller may count on:
 *   R1. Local reads never wait for S3 and never fail because of it.
 *   R2. Nothing out of the bucket is seen before its BLAKE3 was checked. What does not match is
 *       neither served nor stored: RON_CORRUPT, counted; the next write of that object replaces it.
 *   R3. write = sync: RON_OK of ron_tier_stored means that the bucket has the object.
 *   R4. write = queue: the object stays in the local store (pinned) until the bucket has it, over a
 *       restart, too: an empty file named by the id lies in a folder until then. An upload that
 *       fails is counted and done again. With `keep` the file is durable before ron_tier_stored
 *       returns, and ron_tier_admit refuses new objects while too many wait; without (a cache,
 *       whose objects can be had elsewhere) further objects are not queued, and counted as dropped.
 *   R5. Bounded: objects that wait (count, and half of the store's bytes), requests, parts, time.
 *   R6. Amnesia: only write = off. What is to leave no trace must not go to a bucket.
 *
 * A need `s3` is degraded while the server is away or refuses us; the service stays ready.
 *
 * Functions take a NULL tier and then do nothing, with RON_OK or RON_NOTFOUND: without [s3] a
 * service is what it was.
 *
 * Threads: any; what says "blocking" only where that is allowed. Drain: uploaders stop at a part's
 * edge; what waits stays on disk for the next start. */
#pragma once

#include "ron/cas/cas.h"
#include "ron/conf/conf.h"
#include "ron/obs/health.h"
#include "ron/s3/s3.h"

enum {
    RON_TIER_UPLOADS_MAX = 16,
    RON_TIER_QUEUE = 4096,  /* ids in memory, 64 bytes each; those beyond wait in the folder */
    RON_TIER_KEY_SIZE = 72, /* "o/", two digits, a slash, 64 digits, NUL */
};

/* The settings, a section of a service's table (ron/app/keys.h tells how). */
#define RON_TIER_KEYS(X)                                                                           \
    X(RON_TIER_ENDPOINT, "s3.endpoint", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,              \
      "URL of an S3 server, such as https://s3.example.org; empty: objects stay on this machine.") \
    X(RON_TIER_BUCKET, "s3.bucket", STRING, "bytes", 0, 63, "", RON_CONF_FIXED,                    \
      "Its bucket, addressed by path; many services may share one.")                               \
    X(RON_TIER_REGION, "s3.region", STRING, "bytes", 1, 63, "us-east-1", RON_CONF_FIXED,           \
      "Region of the signatures; Ceph calls it default.")                                          \
    X(RON_TIER_PREFIX, "s3.prefix", STRING, "bytes", 0, 200, "", RON_CONF_FIXED,                   \
      "First part of every key, such as ron/.")                                                    \
    X(RON_TIER_ACCESS, "s3.access_key", STRING, "bytes", 0, 128, "", RON_CONF_FIXED,               \
      "Access key.")                                                                               \
    X(RON_TIER_SECRET_FILE, "s3.secret_key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,    \
      "File with the secret key; nobody but its owner may read it.")                               \
    X(RON_TIER_SECRET_ENV, "s3.secret_key_env", STRING, "bytes", 0, 127, "", RON_CONF_FIXED,       \
      "Name of an environment variable with it, instead of a file.")                               \
    X(RON_TIER_CA, "s3.ca_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                     \
      "PEM file with the authorities that its certificate is judged by; empty: the system's.")     \
    X(RON_TIER_PLAIN, "s3.allow_http", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                    \
      "Allow http:// in the endpoint: requests are signed, but who listens can read objects.")     \
    X(RON_TIER_WRITE, "s3.write", ENUM, "queue|sync|off", 0, 0, "queue", RON_CONF_FIXED,           \
      "queue: the local disk has an object first, the bucket soon after; sync: only the bucket "   \
      "counts; off: the bucket is read only, the one choice under amnesia.")                       \
    X(RON_TIER_BACKLOG, "s3.backlog", INT, "objects", 1, 10000000, "100000", RON_CONF_FIXED,       \
      "Objects that may wait for the bucket, and stay in the local store until it has them.")      \
    X(RON_TIER_UPLOADS, "s3.uploads", INT, "tasks", 1, 16, "2", RON_CONF_FIXED,                    \
      "Objects of the queue that are uploaded at the same time.")                                  \
    X(RON_TIER_FETCHES, "s3.fetches", INT, "tasks", 1, 64, "4", RON_CONF_FIXED,                    \
      "Objects that are fetched from the bucket at the same time.")                                \
    X(RON_TIER_PART, "s3.part_bytes", SIZE, "", RON_CONF_MIB(5), RON_CONF_MIB(64), "8MiB",         \
      RON_CONF_FIXED,                                                                              \
      "Larger objects go and come in parts of this; one upload or fetch holds two in memory.")     \
    X(RON_TIER_TIMEOUT, "s3.timeout", DURATION, "", 100, RON_CONF_M(10), "30s", RON_CONF_FIXED,    \
      "Time for one request to the server, all its tries together.")

enum ron_tier_write { RON_TIER_WRITE_QUEUE, RON_TIER_WRITE_SYNC, RON_TIER_WRITE_OFF };

/* X(NAME, "label"): what became of objects that the local store did not have; of objects for the
 * bucket. */
#define RON_TIER_READS(X)                                                                          \
    X(FOUND, "found")                                                                              \
    X(ABSENT, "absent")                                                                            \
    X(MISMATCH, "mismatch")                                                                        \
    X(FAILED, "failed")
#define RON_TIER_WRITES(X)                                                                         \
    X(STORED, "stored")                                                                            \
    X(PRESENT, "present") /* it was there already */                                               \
    X(RETRIED, "retried") /* it failed, and is done again */                                       \
    X(FAILED, "failed")   /* sync: the writer was told */                                          \
    X(DROPPED, "dropped") /* too many wait (R4) */                                                 \
    X(LOST, "lost")       /* gone from the local store before the bucket had it */

struct ron_tier;

/* What a service lends; outlives the tier. */
struct ron_tier_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_sup *sup;
    struct ron_metrics *metrics;
    struct ron_needs *needs;
    struct ron_log *log;
    const struct ron_conf_snap *conf;
    const char *const *environ;
    struct ron_cas *store;
    uint64_t store_bytes;
    const char *dir; /* where the folder of waiting objects is made; NULL under amnesia */
    bool keep;       /* R4 */
    uint32_t stage;  /* of the uploaders; the client's is the next one */
};

/* Whether [s3] names an endpoint. */
bool ron_tier_configured(const struct ron_conf_snap *conf);
/* For the check of a service's settings; RON_INVALID names the key. */
RON_MUST_USE enum ron_rc ron_tier_check(const struct ron_conf_snap *conf, struct ron_err *err);
/* NULL in *ret_tier when nothing is configured. Reads the secret; adds tasks, metrics and the need
 * `s3`. Whether the server answers is found out later. *ret_tier is also written after a failure
 * half way: tasks may know it, so it is freed like any other. */
RON_MUST_USE enum ron_rc ron_tier_new(const struct ron_tier_opts *opts, struct ron_tier **ret_tier,
                                      struct ron_err *err);
/* After the supervisor, before the store. */
void ron_tier_free(struct ron_tier *t);
uint32_t ron_tier_fetches(const struct ron_tier *t); /* tasks that the service makes for reads */
/* For other things that a service keeps in the bucket. */
struct ron_s3 *ron_tier_s3(struct ron_tier *t);
bool ron_tier_writes(const struct ron_tier *t);

/* ---- writing --------------------------------------------------------------------------------- */

/* Before an object is taken from a client: RON_FULL while too many wait for the bucket (`keep`). */
RON_MUST_USE enum ron_rc ron_tier_admit(struct ron_tier *t, struct ron_err *err);
/* For ron_cas_write_opts.pin of every writer whose commit is followed by ron_tier_stored. */
bool ron_tier_pins(const struct ron_tier *t);
/* After a commit with that pin, which is taken over. RON_OK as R3 and R4 say. Blocking. */
RON_MUST_USE enum ron_rc ron_tier_stored(struct ron_tier *t, const struct ron_b3 *id,
                                         struct ron_deadline deadline, struct ron_err *err);
/* Out of the local store, out of the queue, and out of the bucket unless that is never written.
 * RON_OK and RON_NOTFOUND are the local store's; RON_IO: it may be in the bucket still. Not for
 * NULL. Other services keep what they have. Blocking. */
RON_MUST_USE enum ron_rc ron_tier_remove(struct ron_tier *t, const struct ron_b3 *id,
                                         struct ron_err *err);

/* ---- reading --------------------------------------------------------------------------------- */

/* Brings an object into the local store. Who asks for the same one meanwhile shares the work.
 * RON_OK: open it there; RON_NOTFOUND; RON_CORRUPT (R2); RON_LIMIT: larger than the store takes;
 * RON_AGAIN, RON_TIMEOUT, RON_IO: the bucket could not be read. Blocking. */
RON_MUST_USE enum ron_rc ron_tier_fetch(struct ron_tier *t, const struct ron_b3 *id,
                                        struct ron_deadline deadline, struct ron_err *err);
