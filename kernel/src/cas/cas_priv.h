/* SPDX-License-Identifier: Apache-2.0 */
/* cas_priv.h - the store's parts among themselves (private to cas/).
 *
 * An entry of the index and what may happen to it (functions on the edges):
 *
 *      (none) --claim create--> BUSY --publish, adopt--> READY <--claim / unclaim--> READY BUSY
 *                                |                         |
 *                                +--drop--> (none) <--drop-+  evict and remove clear READY first
 *                                                          +--quarantine failed--> BAD
 *
 * Invariants:
 *   I1 whoever changes the file of an id has claimed it (BUSY): one at a time per id. Others wait
 *      on the shard's condition, except the evictor, which passes by. In memory nothing is ever
 *      BUSY: each change is one hold of the lock, so that threads that may not wait can make it.
 *   I2 `obj` of an entry is set only while it is READY, and its bytes were checked.
 *   I3 used == sum of the sizes of READY entries + bytes reserved by writers. (BAD is READY here.)
 *   I4 an object with refs == 0 of a disk store is on the idle list of its shard; with no entry and
 *      large, on the grave list, until a thread that may block frees it.
 *   I5 VERIFIED: the bytes were hashed in this life and matched. DURABLE: the name was synced in
 *      this life. Only with both is a second writer's copy discarded.
 * Everything in a shard and its entries is guarded by the shard's lock, except that the claimer
 * alone changes size and flags other than BUSY, WARM (under the lock, too); a failed read clears
 * VERIFIED at any time. */
#pragma once

#include "ron/base/list.h"
#include "ron/cas/cas.h"
#include "ron/io/file.h"
#include "ron/sync/sync.h"

enum {
    RON__CAS_MAGIC = 0x63617331,
    RON__CAS_OBJ_MAGIC = 0x6361736f,
    RON__CAS_WRITER_MAGIC = 0x63617377,
    RON__CAS_SHARDS_MAX = 16, /* some times the cores that serve, so that a lock is rarely shared */
    RON__CAS_SHARD_MIN = 1024,  /* objects; a smaller store has fewer shards */
    RON__CAS_PAGE = 256,        /* entries allocated at once: 16 KiB */
    RON__CAS_BLOCK = 64 * 1024, /* of objects in memory, and of reads while checking */
    /* "/quarantine/" or "/objects/ab/cd/", 64 digits, NUL, and room to spare. */
    RON__CAS_SUFFIX_SIZE = 96,
    RON__CAS_SLOTS_PER_LOCK = 4096, /* looked at; a hit waits for some tens of microseconds */
    RON__CAS_FULL_TRIES = 8,        /* other threads may take the slot that was freed */
    RON__CAS_TEMP_DIGITS = 16,
};

enum {
    RON__CAS_READY = 1u << 0,
    RON__CAS_BUSY = 1u << 1,
    RON__CAS_VERIFIED = 1u << 2,
    RON__CAS_DURABLE = 1u << 3,
    RON__CAS_BAD = 1u << 4,  /* damaged, and could not be moved away */
    RON__CAS_WARM = 1u << 5, /* used again after it was written or loaded */
};

struct ron__cas_entry {
    struct ron_b3 id;
    uint64_t size;
    struct ron_cas_obj *obj;
    uint32_t next;    /* in its chain or the free list: slot + 1, 0 at the end */
    uint32_t slot;    /* its own number, fixed */
    uint32_t stamp_s; /* last use or, after a start, last write: wall seconds */
    uint16_t pins;
    uint16_t flags;
};

_Static_assert(sizeof(struct ron__cas_entry) + 2 * sizeof(uint32_t) <= RON_CAS_INDEX_BYTES,
               "an entry and its share of a table that is at least half full");

struct ron__cas_counts {
#define X(name, metric, doc) struct ron_stat name;
    RON_CAS_COUNTERS(X)
#undef X
};

struct ron__cas_shard {
    struct ron_mutex mu;
    struct ron_cond freed; /* an entry is no longer BUSY */
    uint32_t waiters;
    uint32_t *buckets; /* slot + 1; a power of two of them */
    uint32_t bucket_mask;
    struct ron__cas_entry **pages; /* never move, freed at the end */
    uint32_t slots_max;
    uint32_t slots_used; /* slots [0, slots_used) were in use once */
    uint32_t free_slot;  /* slot + 1 of a chain through `next` */
    uint32_t objects;
    uint32_t hand;         /* where the evictor looks next */
    uint32_t scrub_hand;   /* where the scrub does */
    struct ron_list idle;  /* open objects that nobody holds, oldest first */
    struct ron_list grave; /* I4 */
    uint32_t held;         /* objects with refs > 0 */
    uint32_t open_files;   /* of attached objects */
    uint64_t cache_bytes;  /* of attached small objects */
    struct ron_stat hits;  /* bumped under the lock */
} RON_ALIGNED_CACHELINE;

struct ron_cas {
    uint32_t magic;
    const struct ron_env *env;
    bool on_disk;
    char dir[RON_FILE_PATH_SIZE];
    int lock_fd;              /* of the file that keeps other processes out; -1 in memory */
    struct ron_cas_opts opts; /* with defaults filled in */
    uint32_t shard_count;     /* a power of two */
    uint32_t open_max;        /* per shard */
    uint64_t cache_bytes_max; /* per shard */
    uint64_t hash_key[2];     /* secret, so that nobody can fill one chain */
    struct ron_au64 used;     /* I3 */
    struct ron_au32 writers;
    struct ron_au32 loaded;
    struct ron_au32 graves; /* objects on the grave lists */
    struct ron_au32 quarantine_files;
    struct ron_au32 evict_turn;
    struct ron_au32 scrub_turn;
    struct ron_au64 temp_number;
    struct ron_stat now_s;               /* coarse wall clock for hits */
    struct ron_au32 top_known[256 / 32]; /* bitmaps of durable folders, see dirs.c */
    struct ron_au32 leaf_known[65536 / 32];
    struct ron__cas_counts counts;
    struct ron__cas_shard shards[RON__CAS_SHARDS_MAX];
};

struct ron_cas_obj {
    uint32_t magic;
    struct ron_cas *store;
    struct ron__cas_shard *shard;
    struct ron__cas_entry *entry; /* NULL once detached; shard's lock */
    uint32_t refs;                /* shard's lock */
    struct ron_list_node link;    /* idle or grave; shard's lock */
    /* Fixed after it was made. */
    struct ron_b3 id;
    uint64_t size;
    int fd;           /* -1 when in memory */
    uint8_t **blocks; /* NULL with a file; each RON__CAS_BLOCK bytes, the last exactly the rest */
    uint8_t *one[1];  /* `blocks` of an object of at most one block */
};

struct ron__cas_claim {
    struct ron__cas_shard *shard;
    struct ron__cas_entry *entry;
    bool fresh;     /* the entry was made by this claim */
    uint16_t flags; /* as they were when it began */
};

/* What an operation found out about its object. */
struct ron__cas_news {
    uint64_t size;
    uint32_t stamp_s;
    uint16_t flags; /* to be set beside READY */
    uint16_t clear; /* to be cleared before that */
    bool pin;
    bool replaced; /* the file is another one: an object that is open keeps the old */
};

/* ---- index.c --------------------------------------------------------------------------------- */

enum ron_rc ron__cas_index_init(struct ron_cas *s);
void ron__cas_index_done(struct ron_cas *s);
struct ron__cas_shard *ron__cas_shard_of(struct ron_cas *s, const struct ron_b3 *id);
/* Under the lock. */
struct ron__cas_entry *ron__cas_find(struct ron_cas *s, struct ron__cas_shard *sh,
                                     const struct ron_b3 *id);
struct ron__cas_entry *ron__cas_at(const struct ron__cas_shard *sh, uint32_t slot);
/* RON_NOTFOUND without `create`; RON_FULL when the shard has no slot; RON_NOMEM; RON_TIMEOUT. */
enum ron_rc ron__cas_claim(struct ron_cas *s, const struct ron_b3 *id, bool create,
                           struct ron__cas_claim *ret_claim, struct ron_err *err);
/* Ends the claim, with flags changed; one that is no longer READY is closed. */
void ron__cas_unclaim(struct ron__cas_claim *c, uint16_t set, uint16_t clear);
/* Ends the claim and the entry; gives its bytes back (I3) when `counted`. */
void ron__cas_drop(struct ron_cas *s, struct ron__cas_claim *c, bool counted);
/* The same under the shard's lock, which is released. */
void ron__cas_drop_unlock(struct ron_cas *s, struct ron__cas_claim *c, bool counted);
/* In memory: the object is READY and held by nobody. RON_EXISTS when it is there already; RON_FULL,
 * RON_NOMEM. Only with RON_OK the object is taken. */
enum ron_rc ron__cas_memory_add(struct ron_cas *s, struct ron_cas_obj *take_obj,
                                const struct ron__cas_news *news);
/* Ends the claim: the object is READY, and open with one handle unless take_obj is NULL. */
void ron__cas_settle(struct ron_cas *s, struct ron__cas_claim *c, struct ron_cas_obj *take_obj,
                     const struct ron__cas_news *news);
/* A handle of the claimed object if it is open, or NULL. */
struct ron_cas_obj *ron__cas_hold_open(const struct ron__cas_claim *c);
void ron__cas_bury(struct ron_cas *s);
uint32_t ron__cas_now_s(struct ron_cas *s);

/* ---- object.c -------------------------------------------------------------------------------- */

struct ron_cas_obj *ron__cas_obj_new(struct ron_cas *s, const struct ron_b3 *id, uint64_t size);
void ron__cas_obj_free(struct ron_cas_obj *obj);
void ron__cas_wipe_free(const struct ron_cas *s, void *bytes, size_t len);
/* Reads the claimed object from disk. `ret_obj` NULL: only checks it. */
enum ron_rc ron__cas_fetch(struct ron_cas *s, const struct ron__cas_claim *c, bool check,
                           struct ron_cas_obj **ret_obj, struct ron_err *err);
/* Ends the claim of a damaged object. */
void ron__cas_quarantine(struct ron_cas *s, struct ron__cas_claim *c);

/* ---- evict.c --------------------------------------------------------------------------------- */

/* Adds to `used`, evicting as needed. RON_LIMIT when nothing more can go. */
enum ron_rc ron__cas_reserve(struct ron_cas *s, uint64_t bytes, struct ron_err *err);
void ron__cas_unreserve(struct ron_cas *s, uint64_t bytes);
/* Evicts at least so many bytes, or as many as can go. */
void ron__cas_evict_bytes(struct ron_cas *s, uint64_t bytes);
/* Refuses when less than the floor would be left free. */
enum ron_rc ron__cas_check_floor(struct ron_cas *s, uint64_t bytes, struct ron_err *err);
/* Frees an entry in the shard of an id. RON_LIMIT when none may go. */
enum ron_rc ron__cas_evict_for(struct ron_cas *s, const struct ron_b3 *id);
/* A claim that makes the entry, evicting when the shard is full. */
enum ron_rc ron__cas_claim_make(struct ron_cas *s, const struct ron_b3 *id,
                                struct ron__cas_claim *ret_claim, struct ron_err *err);

/* ---- dirs.c ---------------------------------------------------------------------------------- */

struct ron__cas_path {
    char s[RON_FILE_PATH_SIZE];
};

enum { RON__CAS_TOP, RON__CAS_LEAF, RON__CAS_FILE };

/* "objects/ab", "objects/ab/cd" or the object itself. */
struct ron__cas_path ron__cas_path_of(const struct ron_cas *s, const struct ron_b3 *id, int depth);
struct ron__cas_path ron__cas_path_quarantine(const struct ron_cas *s, const struct ron_b3 *id);
struct ron__cas_path ron__cas_path_temp(const struct ron_cas *s, uint64_t number);
struct ron__cas_path ron__cas_path_sub(const struct ron_cas *s, const char *name);
/* Keeps others out, makes the folders, clears temporaries, counts the quarantine. */
enum ron_rc ron__cas_dirs_open(struct ron_cas *s, struct ron_err *err);
/* Counts the files in the quarantine anew: the operator may have taken some away. */
enum ron_rc ron__cas_quarantine_count(struct ron_cas *s, struct ron_err *err);
/* Whether the file of the claimed object is still there, with the size that it had. */
bool ron__cas_is_there(const struct ron_cas *s, const struct ron__cas_claim *c);
/* The folder of an object, durably. */
enum ron_rc ron__cas_dirs_make(struct ron_cas *s, const struct ron_b3 *id, struct ron_err *err);
/* Remembers that the leaf folder is durable. */
void ron__cas_leaf_known(struct ron_cas *s, unsigned top, unsigned leaf);
/* Whether a name in the folder top/leaf is an object that belongs there. */
bool ron__cas_name_parse(const char *name, unsigned top, unsigned leaf, struct ron_b3 *ret_id);
/* Looks for the file of a claimed, fresh entry. */
enum ron_rc ron__cas_adopt(struct ron_cas *s, struct ron__cas_claim *c);

/* Fills the index from the folders. `stop` (may be NULL) is asked now and then; true ends the work
 * with RON_CANCELLED, and a later call starts again. */
RON_MUST_USE enum ron_rc ron_cas_load(struct ron_cas *s, bool (*stop)(void *arg), void *arg,
                                      struct ron_err *err);

/* Checks the next objects against their ids, about `budget_bytes` of them (at least one), round and
 * round. Returns how many bytes were checked; 0 when there is nothing to check. */
uint64_t ron_cas_scrub(struct ron_cas *s, uint64_t budget_bytes);

/* Gives back what was released on threads that may not block, and evicts down to the cap (after a
 * start with a smaller one). */
void ron_cas_tend(struct ron_cas *s);
