/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/table.h - which stored answer a request gets: origin and target, then the variant
 * (RFC 9111 2 and 4.1). The bytes are in the content store; here are status, fields, freshness and
 * content id.
 *
 * Place: edge, between the routes and the fills. Knows nothing of time: whether a record may be
 * used is edg_fresh's to say.
 *
 * Rules:
 *   T1. A record never changes after it was made: a 304 makes a new one. The holder of a
 *       reference may read it without a lock.
 *   T2. A target has at most EDG_VARIANTS_MAX variants; the newest comes first, and one more pushes
 *       out the oldest. Two records of the same variant are never in the table together.
 *   T3. Bounded by records and by their bytes; the longest unused target goes first.
 *
 * Threads: any; one short lock of a shard, under which nothing is allocated or freed.
 * Ownership: find gives a reference that is given back with edg_stored_unref. */
#pragma once

#include "edge/rules/fresh.h"
#include "edge/rules/vary.h"
#include "ron/base/env.h"
#include "ron/cas/b3.h"

enum {
    EDG_VARIANTS_MAX = 16,       /* encodings times languages of a page; more is abuse */
    EDG_STORED_FIELDS_MAX = 100, /* as many as a head may have */
};

struct edg_stored {
    uint32_t origin; /* its place in the configuration */
    int status;
    struct ron_str target; /* path and query, as asked; a gateway's may have its host before it */
    struct ron_str vary;   /* canonical; empty: it does not vary */
    struct ron_str key;    /* of the request that chose it, under `vary` */
    struct edg_fields fields;
    struct edg_life life;
    struct ron_b3 id; /* of the bytes */
    uint64_t size;    /* of the bytes */
};

/* A copy in one block, with one reference. `vary.any` is a programmer's mistake: such an answer is
 * never found again. RON_LIMIT: too many fields; RON_NOMEM. */
RON_MUST_USE enum ron_rc edg_stored_new(const struct edg_stored *like,
                                        const struct edg_stored **ret_stored, struct ron_err *err);
const struct edg_stored *edg_stored_ref(const struct edg_stored *stored);
void edg_stored_unref(const struct edg_stored *stored); /* NULL does nothing */
/* Bytes of memory that it takes. */
size_t edg_stored_bytes(const struct edg_stored *stored);

struct edg_table;

struct edg_table_opts {
    const struct ron_env *env; /* borrowed while the table is made: a key for the hash */
    uint32_t records_max;      /* 0 = 65536 */
    uint64_t bytes_max;        /* 0 = 64 MiB */
};

struct edg_table_stats {
    uint64_t records;
    uint64_t bytes;
    uint64_t evictions; /* records that made room */
};

RON_MUST_USE enum ron_rc edg_table_new(const struct edg_table_opts *opts,
                                       struct edg_table **ret_table, struct ron_err *err);
void edg_table_free(struct edg_table *t);
void edg_table_get_stats(struct edg_table *t, struct edg_table_stats *ret_stats);

/* The variant for these request fields, with a reference. RON_NOTFOUND; *ret_others tells then
 * whether the target has other variants. */
RON_MUST_USE enum ron_rc edg_table_find(struct edg_table *t, uint32_t origin, struct ron_str target,
                                        struct edg_fields request,
                                        const struct edg_stored **ret_stored, bool *ret_others);
/* All records: the longest unused target of a shard first, the oldest variant of a target first.
 * Put in this order they make the same table. The lock of a shard is held: `see` is short. */
void edg_table_each(struct edg_table *t, void (*see)(void *arg, const struct edg_stored *stored),
                    void *arg);
/* Puts it in, instead of an older record of its variant. Takes the reference. RON_NOMEM leaves the
 * table as it was, and the record is given back all the same. */
enum ron_rc edg_table_put(struct edg_table *t, const struct edg_stored *take_stored);
/* All variants of a target; how many there were. */
size_t edg_table_drop(struct edg_table *t, uint32_t origin, struct ron_str target);
/* This very record, if it is still there: its bytes are gone or damaged. */
bool edg_table_drop_one(struct edg_table *t, const struct edg_stored *stored);
/* All targets of an origin with this path and query, whatever their host, or with `prefix` all that
 * begin so; how many records there were. Walks the whole table, a shard at a time. */
size_t edg_table_drop_path(struct edg_table *t, uint32_t origin, struct ron_str path, bool prefix);
/* A target without the host before it, and whether it is this one, or begins so. */
struct ron_str edg_target_path(struct ron_str target);
bool edg_target_is(struct ron_str target, struct ron_str path, bool prefix);
