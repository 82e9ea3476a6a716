/* SPDX-License-Identifier: Apache-2.0 */
/* cas.h - content store: bytes in, content id out; later the same bytes by id, or an error.
 *
 * On disk (a directory of its own) or in memory only (`dir` NULL: amnesia, no disk port is ever
 * called and bytes are wiped before their memory is given back), behind one interface.
 *
 * Rules a caller may count on:
 *   S1. An object is visible whole or not at all. RON_OK of a commit means: hashed, durable (disk),
 *       and readable until it is evicted, removed or found damaged.
 *   S2. Bytes are checked against their id before they are handed out: small objects
 *       (RON_CAS_SMALL_MAX) whenever they are fetched from disk, and then served from that very
 *       memory; larger ones at their first open after a start or a change, then by the scrub.
 *   S3. A damaged object is never served: it is moved to quarantine/, counted, and the caller who
 *       met it gets RON_CORRUPT; from then on the id is RON_NOTFOUND until it is written again.
 *       RON_IO (unreadable) leaves the object in place; writing it again replaces it.
 *   S4. A failed write, sync or full disk fails the commit and leaves nothing behind.
 *   S5. Writers of the same content agree: one publishes, the others wait for it and discard their
 *       copy. They all get RON_OK and the same id.
 *   S6. Stored and half-written bytes together never exceed `bytes_max`; room is made by evicting
 *       what was not used for longest. Pinned objects, and those somebody holds, are not evicted;
 *       when only those are left the answer is RON_LIMIT.
 *   S7. A handle keeps its bytes: eviction, removal and quarantine do not pull them away.
 *
 * Threads: everything may be called from everywhere, but what says "blocking" only where blocking
 * is allowed. ron_cas_get, ron_cas_slice and ron_cas_release never block: a hit costs one short
 * lock of a shard. One lock at a time (rank cas), never over a disk call.
 * Ownership: handles and writers are counted by the store; all must be back before ron_cas_free. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/env.h"
#include "ron/base/rc.h"
#include "ron/cas/b3.h"
#include "ron/task/task.h"

enum {
    /* Up to here an open object is held in memory and served from it: a tile or a page fits, and
     * one gathered write with the headers is cheaper than sendfile. */
    RON_CAS_SMALL_MAX = 64 * 1024,
    /* What an object costs in memory while it is only indexed: entry and share of the table. */
    RON_CAS_INDEX_BYTES = 72,
    RON_CAS_OBJECTS_DEFAULT = 1 << 20, /* 72 MiB of index when all are there */
    RON_CAS_OBJECTS_MAX = 1 << 26,
    RON_CAS_OPEN_DEFAULT = 512,    /* files kept open; half of the usual limit of 1024 */
    RON_CAS_WRITERS_DEFAULT = 512, /* as many as requests are in flight by default */
    RON_CAS_QUARANTINE_MAX = 1024, /* files kept for the operator; later ones are deleted */
    RON_CAS_PINS_MAX = UINT16_MAX, /* of one object */
    RON_CAS_WAIT_MS = 30000,       /* for another operation on the same object: longer is a hang */
};

#define RON_CAS_BYTES_DEFAULT (UINT64_C(10) << 30)         /* disk */
#define RON_CAS_MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20) /* memory */
#define RON_CAS_OBJECT_BYTES_DEFAULT (UINT64_C(1) << 30)   /* limits.max_object_bytes */
#define RON_CAS_CACHE_BYTES_DEFAULT (UINT64_C(64) << 20)   /* small objects of a disk store */
#define RON_CAS_FLOOR_DEFAULT (UINT64_C(64) << 20)         /* left free for everybody else */
#define RON_CAS_NO_FLOOR UINT64_MAX

struct ron_cas;
struct ron_cas_obj;
struct ron_cas_writer;

/* Zero means the default. */
struct ron_cas_opts {
    const struct ron_env *env; /* borrowed; outlives the store */
    const char *dir;           /* made when missing, mode 0700; NULL: memory only */
    uint64_t bytes_max;
    uint64_t object_bytes_max; /* never more than bytes_max */
    uint32_t objects_max;
    uint64_t cache_bytes_max;   /* memory for small objects that are open, disk store only */
    uint32_t open_max;          /* files of idle objects that stay open */
    uint32_t writers_max;       /* more are RON_FULL */
    uint64_t free_floor_bytes;  /* free space of the disk below which writes are refused */
    bool verify_always;         /* larger objects are checked at every open, too */
    uint64_t scrub_bytes_per_s; /* by the store's task; 0 = no scrub */
};

/* X(name, metric, meaning). The first block only grows, the second are gauges. */
#define RON_CAS_COUNTERS(X)                                                                        \
    X(hits, "cas_hits_total", "found without touching the disk")                                   \
    X(loads, "cas_loads_total", "found, fetched or opened from disk")                              \
    X(misses, "cas_misses_total", "not there")                                                     \
    X(commits, "cas_commits_total", "objects published")                                           \
    X(duplicates, "cas_duplicates_total", "commits of an object that was there already")           \
    X(write_failures, "cas_write_failures_total", "writers that failed or met a limit")            \
    X(mismatches, "cas_mismatches_total", "commits whose bytes were not those promised")           \
    X(evictions, "cas_evictions_total", "objects that made room for others")                       \
    X(evicted_bytes, "cas_evicted_bytes_total", "their bytes")                                     \
    X(removals, "cas_removals_total", "objects removed on demand")                                 \
    X(quarantined, "cas_quarantined_total", "objects found damaged")                               \
    X(read_errors, "cas_read_errors_total", "objects that could not be read")                      \
    X(scrubbed_bytes, "cas_scrubbed_bytes_total", "bytes checked by the scrub")                    \
    X(strays, "cas_strays_total", "files in the store's folders that are not objects")
#define RON_CAS_GAUGES(X)                                                                          \
    X(bytes, "cas_bytes", "stored and half-written bytes")                                         \
    X(objects, "cas_objects", "objects in the index")                                              \
    X(writers, "cas_writers", "writers under way")                                                 \
    X(held, "cas_held_objects", "objects that somebody holds")                                     \
    X(open_files, "cas_open_files", "files of objects that are open")                              \
    X(cache_bytes, "cas_cache_bytes", "memory of small objects that are open")                     \
    X(loaded, "cas_loaded", "1 when the index is complete")

struct ron_cas_stats {
#define X(name, metric, doc) uint64_t name;
    RON_CAS_COUNTERS(X)
    RON_CAS_GAUGES(X)
#undef X
};

/* Takes the folder for this process alone (RON_CONFLICT when another has it), makes the folders in
 * it and removes what writers of an earlier life left half-way. The index starts
 * empty: ron_cas_load or the store's task fills it. Meanwhile everything works, only slower:
 * ron_cas_open looks at the disk. Blocking for a disk store. */
RON_MUST_USE enum ron_rc ron_cas_new(const struct ron_cas_opts *opts, struct ron_cas **ret_store,
                                     struct ron_err *err);
/* All handles and writers must be back. Blocking for a disk store. */
void ron_cas_free(struct ron_cas *s);
void ron_cas_get_stats(struct ron_cas *s, struct ron_cas_stats *ret_stats);

/* ---- reading --------------------------------------------------------------------------------- */

/* Never blocks. RON_OK with a handle when the object is open; RON_AGAIN: ask ron_cas_open on a
 * thread that may block (it is there but not open, or the index is not complete); RON_NOTFOUND. */
RON_MUST_USE enum ron_rc ron_cas_get(struct ron_cas *s, const struct ron_b3 *id,
                                     struct ron_cas_obj **ret_obj);
/* The same, fetched from disk and checked if need be. RON_NOTFOUND; RON_CORRUPT (S3); RON_IO,
 * RON_LIMIT (descriptors), RON_NOMEM; RON_TIMEOUT after RON_CAS_WAIT_MS. Blocking. */
RON_MUST_USE enum ron_rc ron_cas_open(struct ron_cas *s, const struct ron_b3 *id,
                                      struct ron_cas_obj **ret_obj, struct ron_err *err);
/* NULL does nothing. Never blocks. */
void ron_cas_release(struct ron_cas_obj *obj);

const struct ron_b3 *ron_cas_obj_id(const struct ron_cas_obj *obj);
uint64_t ron_cas_obj_size(const struct ron_cas_obj *obj);

/* A part of an object, lent until the handle is released. Either `bytes` is set, or it is NULL and
 * the part lies in `fd` at `off` (for sendfile; the descriptor's own position is nobody's). */
struct ron_cas_slice {
    const uint8_t *bytes;
    int fd;
    uint64_t off;
    uint64_t len;
};

/* The part [off, off + len) or a first part of it: in memory it ends where a block ends, so ask
 * again for the rest. `len` is 0 only at or beyond the end. Never blocks. */
struct ron_cas_slice ron_cas_slice(const struct ron_cas_obj *obj, uint64_t off, uint64_t len);
/* Copies; fewer bytes only at the end. RON_IO. Blocking for a file. */
RON_MUST_USE enum ron_rc ron_cas_read(const struct ron_cas_obj *obj, uint64_t off, void *buf,
                                      size_t len, size_t *ret_len);

/* Tells that a lent part could not be read (sendfile failed): from now on the object is opened
 * anew and checked, and writing it again replaces it. ron_cas_read does it by itself. Never
 * blocks. */
void ron_cas_suspect(const struct ron_cas_obj *obj);

/* ---- writing (blocking for a disk store) ----------------------------------------------------- */

struct ron_cas_write_opts {
    uint64_t size_hint;            /* 0 = not known; too large is refused at once */
    const struct ron_b3 *expected; /* NULL, or the id that the bytes must have; copied */
    bool pin;                      /* pinned once at commit */
};

/* `opts` NULL: all zero. RON_LIMIT (size, S6, free space), RON_FULL (writers), RON_NOMEM,
 * RON_IO. */
RON_MUST_USE enum ron_rc ron_cas_begin(struct ron_cas *s, const struct ron_cas_write_opts *opts,
                                       struct ron_cas_writer **ret_writer, struct ron_err *err);
/* Any number of pieces; 64 KiB is a good size. The first failure sticks: only abort or commit
 * (which returns it) follow. */
RON_MUST_USE enum ron_rc ron_cas_append(struct ron_cas_writer *w, const void *bytes, size_t len,
                                        struct ron_err *err);
/* Ends the writer in every case. RON_CONFLICT when the bytes are not those expected. */
RON_MUST_USE enum ron_rc ron_cas_commit(struct ron_cas_writer *take_writer, struct ron_b3 *ret_id,
                                        struct ron_err *err);
/* Ends the writer and forgets its bytes. NULL does nothing. */
void ron_cas_abort(struct ron_cas_writer *take_writer);

/* ---- care (blocking for a disk store) -------------------------------------------------------- */

/* Pins are counted and live as long as the process. RON_NOTFOUND; RON_FULL (RON_CAS_PINS_MAX). */
RON_MUST_USE enum ron_rc ron_cas_pin(struct ron_cas *s, const struct ron_b3 *id);
/* An object that is gone, or has no pin, is nobody's mistake: RON_NOTFOUND. */
enum ron_rc ron_cas_unpin(struct ron_cas *s, const struct ron_b3 *id);
/* Purge: RON_OK when it is gone for good, pinned or not; RON_NOTFOUND. */
RON_MUST_USE enum ron_rc ron_cas_remove(struct ron_cas *s, const struct ron_b3 *id,
                                        struct ron_err *err);

bool ron_cas_loaded(const struct ron_cas *s); /* never blocks */

/* A blocking task that loads the index, then tends and scrubs once a second until it is stopped.
 * The store outlives the task. */
struct ron_task_def ron_cas_task(struct ron_cas *s);
