/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/index.h - what can be lost: ids, idempotency keys, skip points of histories, images
 * of the book, and up to which seq all that holds. A folder of files, or memory.
 *
 * Place: ledger. The indexer task follows the log behind the committer and is the only writer;
 * prevalidators and readers look up.
 *
 * Keys are 64-bit hashes under `hash_key`, which is drawn when the index is made and kept in it, so
 * what is found is a candidate: the reader compares it with the journal. Ids come a million a
 * second, which no B-tree takes one by one. So they are gathered and written as sorted runs,
 * merged like the levels of a log-structured tree; a filter per run in memory, and the
 * smallest and largest id of a run (ids are mostly ordered by time), tell for nearly all new ids
 * without reading that they are new.
 *
 * Invariants:
 *   X1. After led_index_commit(seq): every key added up to then is found, now and after a crash,
 *       and applied_seq is `seq`. A crash before it leaves the state of the commit before.
 *   X2. Lookups never miss a committed key; they may find too much, never too little.
 *   X3. Everything here can be made again from the log. An index that is damaged, of another ledger
 *       or ahead of the log is thrown away and rebuilt.
 *
 * Threads: one writer; led_index_maybe from any thread, without lock or system call on the way to
 * "no"; led_index_find from threads that may block. */
#pragma once

#include "ledger/book/book.h"
#include "ron/base/env.h"
#include "ron/merkle/hash.h"

struct led_index;

struct led_index_opts {
    const struct ron_env *env;
    const char *path;     /* of the folder, mode 0700; NULL: memory. Open once. */
    uint32_t run_entries; /* keys gathered before a run is written, 16 to 2^20; 0: 65536 */
    uint8_t uuid[16];     /* of the ledger */
};

struct led_index_state {
    uint64_t applied_seq;
    struct ron_tree_hash applied_root;
    uint8_t hash_key[16];
    uint64_t image_seq; /* of the newest complete image; 0: none */
    bool fresh;         /* it was made now: lost, damaged or of another ledger */
};

/* RON_OK with what the folder holds, or a new one (X3). The LMDB file of earlier versions beside it
 * (`path`.mdb) is removed. RON_IO, RON_NOMEM, RON_LIMIT (disk full), RON_INVALID (not a folder). */
RON_MUST_USE enum ron_rc led_index_open(const struct led_index_opts *opts,
                                        struct led_index **ret_index,
                                        struct led_index_state *ret_state, struct ron_err *err);
void led_index_close(struct led_index *ix);
/* Removes the files of an index that nobody has open. */
RON_MUST_USE enum ron_rc led_index_remove(const struct ron_env *env, const char *path,
                                          struct ron_err *err);

/* ---- the writer ------------------------------------------------------------------------------ */

/* When one of these fails with another code than RON_INVALID or RON_EXISTS, all that was added
 * since the last commit is forgotten: the index is as after that commit, and the writer begins
 * again behind led_index_applied. RON_LIMIT: disk full. */

enum led_index_kind { LED_INDEX_ID, LED_INDEX_IDEM };
/* Of a text are looked at; what follows does not matter. A ULID, a UUID but for its end, most
 * counters. */
enum { LED_INDEX_TEXT_BYTES = 32 };

/* The smallest and the largest of many texts; a struct of zeros has none. */
enum { LED_EDGE_WORDS = LED_INDEX_TEXT_BYTES / 8 };
struct led_edge {
    uint64_t words[LED_EDGE_WORDS]; /* big-endian, so that they compare like the bytes */
};
struct led_edges {
    bool any;
    struct led_edge min;
    struct led_edge max;
};
void led_edges_add_text(struct led_edges *edges, struct ron_str text);

/* `text` is the id itself, for the smallest and largest of a run. */
RON_MUST_USE enum ron_rc led_index_add(struct led_index *ix, enum led_index_kind kind,
                                       struct led_key key, struct ron_str text, uint64_t seq,
                                       struct ron_err *err);
/* The same for many at once. `key` is led_key.a; `edges` hold the texts of all. */
struct led_index_key {
    uint64_t key;
    uint64_t seq;
};
RON_MUST_USE enum ron_rc led_index_add_many(struct led_index *ix, enum led_index_kind kind,
                                            const struct led_index_key *keys, size_t count,
                                            const struct led_edges *edges, struct ron_err *err);
/* A skip point: `seq` touched the account. The indexer adds one in about 256. */
RON_MUST_USE enum ron_rc led_index_add_skip(struct led_index *ix, struct led_key account,
                                            uint64_t seq, struct ron_err *err);
/* Makes all that was added visible and durable (X1), merges runs as needed; bounded work. */
RON_MUST_USE enum ron_rc led_index_commit(struct led_index *ix, uint64_t applied_seq,
                                          const struct ron_tree_hash *root, struct ron_err *err);

/* An image of the book at `seq`, in chunks from 0 on; complete when `last` is committed with
 * led_index_commit. The older image is dropped then. Commits may come in between. RON_EXISTS: the
 * newest image is of that seq already. */
enum { LED_INDEX_CHUNK_MAX = 1 << 20 }; /* bytes: a chunk is held in memory whole */
RON_MUST_USE enum ron_rc led_index_put_image(struct led_index *ix, uint64_t seq, uint32_t chunk,
                                             const void *bytes, size_t len, bool last,
                                             struct ron_err *err);
/* Chunks of the newest complete image, in order; the writer's. RON_NOTFOUND: none. */
typedef enum ron_rc led_index_see_chunk(void *arg, const void *bytes, size_t len,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led_index_load_image(struct led_index *ix, led_index_see_chunk *see,
                                              void *arg, struct ron_err *err);

/* ---- lookups --------------------------------------------------------------------------------- */

/* The seq up to which lookups answer for all keys. Read it before led_index_maybe. */
uint64_t led_index_applied(const struct led_index *ix);
/* False: not there. True: ask led_index_find. */
bool led_index_maybe(const struct led_index *ix, enum led_index_kind kind, struct led_key key,
                     struct ron_str text);
/* The same for the ids of a batch: whether any of them may be there. Cheaper than one by one: their
 * memory is asked for ahead. */
bool led_index_maybe_ids(const struct led_index *ix, const struct led_entry *entries,
                         const struct led_prep *preps, size_t count);
/* Seqs of entries that may have this key, smallest first; how many (0: not there). RON_CORRUPT: a
 * file was damaged under us; opening the index again makes a new one (X3). */
enum { LED_INDEX_FOUND_MAX = 8 };
RON_MUST_USE enum ron_rc led_index_find(struct led_index *ix, enum led_index_kind kind,
                                        struct led_key key, uint64_t ret_seqs[LED_INDEX_FOUND_MAX],
                                        size_t *ret_count, struct ron_err *err);
/* The smallest skip point of the account that is at least `seq`: where a walk back to `seq` may
 * begin. RON_NOTFOUND: none; begin at the account's last entry. */
RON_MUST_USE enum ron_rc led_index_skip(struct led_index *ix, struct led_key account, uint64_t seq,
                                        uint64_t *ret_seq, struct ron_err *err);

/* A consistent copy, for a snapshot, while the writer goes on: any thread that may block.
 * RON_EXISTS: the path is taken.
 * RON_INVALID for one in memory. */
RON_MUST_USE enum ron_rc led_index_copy(struct led_index *ix, const char *path,
                                        struct ron_err *err);

struct led_index_stats {
    uint64_t keys;
    uint64_t runs;
    uint64_t filter_bytes;
    uint64_t file_bytes;   /* of all files */
    uint64_t false_alarms; /* led_index_find that found nothing */
};
void led_index_stats(const struct led_index *ix, struct led_index_stats *ret_stats);
