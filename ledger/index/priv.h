/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/priv.h - the parts of the index, shared by the files of this folder alone.
 *
 *     tree (ids and idempotency keys; skip points)
 *       tail       entries of the last commits in memory; small pieces in the store for a restart
 *       runs       sorted by (hash, seq), cut into pieces; eight of a level become one of the next
 *     store        blobs under short keys, in transactions: files (files.c), or memory (mem.c)
 *     set          what lookups see of both trees: immutable, replaced whole (set.c)
 *
 * A merge goes on for many commits and has no state but that of the slices: the growing run answers
 * for the hashes up to `hi`, its inputs for those from `lo` = hi + 1 on. So every hash is asked for
 * in one of the two, the inputs give their space back piece by piece, and a commit does a bounded
 * share of the work.
 *
 * Writer's rule: whatever fails before the store has committed changes nothing that lookups see.
 * The writer works on `next`, a copy of the slices; runs know nothing that a failed commit would
 * have to take back. */
#pragma once

#include "ledger/index/index.h"
#include "ron/sync/sync.h"

enum {
    LED_TREE_KEYS,
    LED_TREE_SKIPS,
    LED_TREES,

    LED_FANOUT = 8,
    /* Levels: 65536 * 8^12 keys are more than seqs. */
    LED_LEVELS = 13,
    /* A level has at most the inputs of its merge, those that came meanwhile and a growing one:
     * merges take four keys a level for each one added, so they end before the next is due. */
    LED_SLICES_MAX = LED_LEVELS * 3 * LED_FANOUT,

    /* A page, which is read and checked whole on each lookup. */
    LED_PIECE_BYTES = 4096,
    LED_PIECE_KEYS = 2048,
    LED_PIECE_HEAD = 32,
    LED_PIECE_PAD = 8, /* so that the last number can be loaded as 8 bytes */
    /* Keys of a full piece at the greatest width. */
    LED_PIECE_KEYS_LEAST = (LED_PIECE_BYTES - LED_PIECE_HEAD - LED_PIECE_PAD) / 16,

    /* Filter: keys a group has on average, and its parts; 2.3 keys a part. */
    LED_GROUP_KEYS = 64,
    LED_GROUP_PARTS = 28,
    LED_GROUP_FULL = 255,

    LED_STEP_GROUPS = 256, /* a step of a merge: about 16384 keys */
    LED_MERGE_RATE = 4,    /* keys merged a level for each key flushed */
    /* Of the output of a merge, before it is synced: 8 MiB, which a restart merges again. */
    LED_SYNC_PIECES = 2048,

    LED_KINDS = 2,

    LED_PIN_SLOTS = 32, /* threads that look up at the same time seldom share one */
    /* A retired set that is still used needs a thread that uses it, so an index is always free. */
    LED_SETS_MAX = RON_THREADS_MAX + 2,
};

struct led_ent {
    uint64_t hash;
    uint64_t seq;
};

static inline bool led__ent_less(struct led_ent x, struct led_ent y)
{
    return x.hash != y.hash ? x.hash < y.hash : x.seq < y.seq;
}

static inline uint64_t led__load64(const void *from)
{
    uint64_t x;

    memcpy(&x, from, sizeof x);
    return x;
}

/* The upper half of x * y; *ret_rest is the lower. Order is kept, so sorted hashes give sorted
 * places. */
static inline uint64_t led__scale(uint64_t x, uint64_t y, uint64_t *ret_rest)
{
    ron_u128 product = (ron_u128)x * y;

    *ret_rest = (uint64_t)product;
    return (uint64_t)(product >> 64);
}

/* ---- edges ----------------------------------------------------------------------------------- */

struct led_edge led__edge_of(struct ron_str text);
bool led__edges_hold(const struct led_edges *edges, const struct led_edge *edge);
void led__edges_add(struct led_edges *edges, const struct led_edge *edge);
void led__edges_join(struct led_edges *edges, const struct led_edges *other);

/* ---- pieces (piece.c) -------------------------------------------------------------- */

struct led_piece_view {
    const uint8_t *entries;
    uint32_t count;
    uint32_t hash_bytes;
    uint32_t width;
    uint64_t base_hash;
    uint64_t base_seq;
    uint64_t hash_mask;
    uint64_t seq_mask;
};

/* What the checksum of a piece of a run begins with, so that a piece of another run or from another
 * place does not pass for it. Pieces of a tail begin with 0. */
uint32_t led__piece_seed(uint64_t mark, uint64_t run, uint32_t piece);
/* Encodes as many of the sorted entries as fit; returns how many and the length. */
uint32_t led__piece_encode(const struct led_ent *entries, size_t count, uint32_t seed,
                           uint8_t bytes[LED_PIECE_BYTES], size_t *ret_len);
/* RON_CORRUPT when the bytes do not begin with a piece. `check` also computes the checksum. */
RON_MUST_USE enum ron_rc led__piece_open(const uint8_t *bytes, size_t len, bool check,
                                         uint32_t seed, struct led_piece_view *ret_view,
                                         struct ron_err *err);
static inline struct led_ent led__piece_at(const struct led_piece_view *v, uint32_t i)
{
    const uint8_t *at = v->entries + (size_t)i * v->width;

    return (struct led_ent){.hash = v->base_hash + (led__load64(at) & v->hash_mask),
                            .seq = v->base_seq + (led__load64(at + v->hash_bytes) & v->seq_mask)};
}
/* The first entry that is not less; `count` when all are. */
uint32_t led__piece_lower(const struct led_piece_view *view, struct led_ent want);

/* Sorts by (hash, seq); `spare` has room for as many. The result is in `entries`. */
void led__ents_sort(struct led_ent *entries, struct led_ent *spare, size_t count);

/* ---- filters (filter.c) ------------------------------------------------------------ */

struct led_group {
    uint32_t base; /* of the group in `rests` */
    uint8_t upto[LED_GROUP_PARTS];
};

struct led_filter {
    uint64_t groups;
    uint64_t keys_max;
    struct led_group *group;
    uint16_t *rests;
};

RON_MUST_USE enum ron_rc led__filter_init(struct led_filter *f, uint64_t keys_max);
void led__filter_done(struct led_filter *f);
uint64_t led__filter_bytes(const struct led_filter *f);
uint64_t led__filter_group_of(const struct led_filter *f, uint64_t hash);
/* The smallest hash of a group that is not the first behind the last. */
uint64_t led__filter_group_start(const struct led_filter *f, uint64_t group);
/* Fills the groups from `group` up to (not including) `group_end` with the sorted entries, which
 * all belong there. `used` rests were used before; returns how many are then. */
uint32_t led__filter_fill(struct led_filter *f, uint64_t group, uint64_t group_end, uint32_t used,
                          const struct led_ent *entries, size_t count);

/* ---- runs and slices (run.c) ------------------------------------------------------- */

struct led_piece_at {
    struct led_ent first;
    const uint8_t *kept; /* its bytes, where the store is memory; else NULL */
    size_t kept_len;
};

struct led_run_file;

struct led_run {
    uint64_t id;
    uint64_t mark; /* random: tells its pieces from those of a run that had the same id */
    const struct led_run_file *file; /* NULL: the store is memory */
    uint64_t keys;                   /* at most; the filter is made for as many */
    uint32_t level;
    uint32_t refs; /* sets that hold it; the writer's */
    struct led_edges edges[LED_KINDS];
    struct led_filter filter;
    uint32_t pieces_max;
    struct led_piece_at *pieces;
};

/* The part of a run that counts. */
struct led_cut {
    uint64_t lo;     /* first hash that it answers for */
    uint64_t hi;     /* last one */
    uint64_t keys;   /* entries written */
    uint32_t piece;  /* first one that still counts */
    uint32_t pieces; /* written */
};

/* What a set or the writer knows of a run. The output of a merge is synced now and then, not with
 * each commit: until then the state names the part before (`durable`) of it and of its inputs, and
 * a restart merges the rest once more. */
struct led_slice {
    struct led_run *run;
    struct led_cut cut;
    struct led_cut durable;
    uint32_t rests; /* of the filter, used */
    bool merging;   /* input of a merge */
    bool growing;   /* output of a merge that goes on */
    bool synced;    /* all of it; a growing one never is */
};

struct led_slices {
    uint32_t count;
    struct led_slice at[LED_SLICES_MAX];
};

/* ---- the store ------------------------------------------------------------------------------- */

enum led_blob_kind { LED_BLOB_STATE = 1, LED_BLOB_TAIL, LED_BLOB_IMAGE, LED_BLOB_PIECE };

struct led_blob_key {
    uint8_t kind;
    uint64_t a; /* run, tree of a tail, seq of an image */
    uint64_t b; /* piece, number of the tail blob, chunk */
};

/* Where a store keeps a run: a file of its own (0, 0), or from a byte of a journal on. */
struct led_place {
    uint64_t journal;
    uint64_t base;
};

/* What a lookup needs to read the pieces of a run. */
struct led_run_file {
    int fd;
    uint64_t base;
};

struct led_blobs;

struct led_blobs_ops {
    /* Of the writer: one transaction, which begins by itself. Pieces and chunks are put in order.
     * *ret_kept: where the bytes stay until they are deleted, NULL when they do not. */
    enum ron_rc (*put)(struct led_blobs *s, struct led_blob_key key, const void *bytes, size_t len,
                       const uint8_t **ret_kept, struct ron_err *err);
    /* All pieces of a run are deleted in order, all blobs of a tail at once, all chunks of an image
     * at once. */
    enum ron_rc (*del)(struct led_blobs *s, struct led_blob_key key, struct ron_err *err);
    /* Valid until the next put, del, get, commit or abort. RON_NOTFOUND. */
    enum ron_rc (*get)(struct led_blobs *s, struct led_blob_key key, const uint8_t **ret_bytes,
                       size_t *ret_len, struct ron_err *err);
    enum ron_rc (*commit)(struct led_blobs *s, struct ron_err *err);
    void (*abort)(struct led_blobs *s);
    /* Before the first piece of a run is put. `whole`: all of it comes in this transaction. */
    enum ron_rc (*make_run)(struct led_blobs *s, uint64_t run, bool whole,
                            const struct led_run_file **ret_file, struct ron_err *err);
    struct led_place (*place)(struct led_blobs *s, uint64_t run);
    /* Makes the pieces of a run durable. Those of a run that was made whole are with the commit. */
    enum ron_rc (*sync_run)(struct led_blobs *s, uint64_t run, struct ron_err *err);
    /* Reading back: a run that the state names. RON_CORRUPT: there are fewer pieces. */
    enum ron_rc (*open_run)(struct led_blobs *s, uint64_t run, struct led_place place,
                            uint32_t pieces, const struct led_run_file **ret_file,
                            struct ron_err *err);
    /* Removes what is left over from a crash: all but the opened runs and this image. */
    enum ron_rc (*tidy)(struct led_blobs *s, uint64_t image, struct ron_err *err);
    /* Any thread: a piece, from a store that keeps none in memory. */
    enum ron_rc (*read)(const struct led_blobs *s, const struct led_run_file *file, uint32_t piece,
                        uint8_t bytes[LED_PIECE_BYTES], struct ron_err *err);
    /* Any thread that may block. */
    enum ron_rc (*copy)(struct led_blobs *s, const char *path, struct ron_err *err);
    uint64_t (*bytes)(const struct led_blobs *s);
    void (*close)(struct led_blobs *s);
};

struct led_blobs {
    const struct led_blobs_ops *ops;
};

RON_MUST_USE enum ron_rc led__blobs_open_memory(struct led_blobs **ret_store);
/* What the folder holds, or nothing yet. RON_INVALID: there is something else under that name. */
RON_MUST_USE enum ron_rc led__blobs_open_files(const struct led_index_opts *opts,
                                               struct led_blobs **ret_store, struct ron_err *err);

/* ---- the journal of the files (journal.c) ---------------------------------------------------- */

enum { LED_RECORD_HEAD = 48 };

/* A record: what one commit appends. Pieces of whole runs, blobs of tails, the state. */
struct led_record {
    uint64_t len; /* in the journal */
    uint64_t journal;
    uint64_t number; /* in its journal, from 0 on */
    uint32_t pieces;
    uint32_t tails;
    uint32_t cleared; /* bit of a tree: its tail begins with this record */
    uint32_t state_len;
    const uint8_t *tail; /* the blobs, one behind the other */
    const uint8_t *state;
};

/* Fills the head of a record whose other bytes are there. */
void led__record_seal(uint8_t *bytes, const struct led_record *record);
/* False: these bytes do not begin with record `number` of the journal. */
bool led__record_open(const uint8_t *bytes, size_t len, uint64_t journal, uint64_t number,
                      struct led_record *ret_record);
enum { LED_TAIL_HEAD = 8 };
void led__record_tail_head(uint8_t head[LED_TAIL_HEAD], uint32_t tree, uint32_t len);
/* The next blob of a tail; false: a blob that no writer makes. */
bool led__record_tail(const struct led_record *record, const uint8_t **at, uint32_t *ret_tree,
                      uint32_t *ret_len);

/* ---- the tail -------------------------------------------------------------------------------- */

/* Entries since the last flush, in the order of adding. Those below `seen` are committed. Lookups
 * find keys by `slots` (upper half of the hash, number + 1), skip points by scanning. */
struct led_tail {
    uint32_t cap;
    uint32_t slot_mask;
    uint32_t refs; /* sets that hold it; the writer's */
    struct ron_au64 seen;
    struct led_ent *entries;
    struct ron_au64 *slots; /* NULL: skip points */
};

RON_MUST_USE enum ron_rc led__tail_new(uint32_t cap, bool with_slots, struct led_tail **ret_tail);
void led__tail_free(struct led_tail *tail); /* NULL is fine */
/* Makes the entries below `count` visible. */
void led__tail_show(struct led_tail *tail, uint32_t count);
bool led__tail_has(const struct led_tail *tail, uint64_t hash);
/* Inlined by force: book/table.h says why. */
__attribute__((always_inline)) static inline void led__tail_prefetch(const struct led_tail *tail,
                                                                     uint64_t hash)
{
    __builtin_prefetch(&tail->slots[(uint32_t)hash & tail->slot_mask]);
}

/* ---- sets (set.c) ------------------------------------------------------------------ */

struct led_set_tree {
    struct led_tail *tail;
    uint32_t count;
    struct led_slice *slices;
};

struct led_set {
    struct led_set_tree trees[LED_TREES];
    struct led_edges edges[LED_KINDS]; /* of all runs of the keys */
    uint64_t version;
};

/* A slot: number of the present set in the upper half, how many use it through this slot below. */
struct led_pin_slot {
    RON_ALIGNED_CACHELINE struct ron_au64 word;
};

/* Users that a set has beyond those its slots still count; exact once it is retired. */
struct led_set_place {
    struct led_set *set;
    struct ron_au64 users;
};

struct led_sets {
    struct led_pin_slot slots[LED_PIN_SLOTS];
    struct led_set_place places[LED_SETS_MAX];
    uint32_t now; /* the writer's: place of the present set */
};

struct led_pin {
    const struct led_set *set;
    uint32_t place;
    uint32_t slot;
};

RON_MUST_USE enum ron_rc led__set_new(const struct led_slices *slices[LED_TREES],
                                      struct led_tail *tails[LED_TREES], struct led_set **ret_set);
/* Of one that was not published. */
void led__set_free(struct led_set *set);
/* Takes the set; the one before is retired. */
void led__sets_publish(struct led_sets *sets, struct led_set *take_set);
/* Frees retired sets that nobody uses; returns the smallest version that is still there. */
uint64_t led__sets_reclaim(struct led_sets *sets);
struct led_pin led__sets_pin(struct led_sets *sets);
void led__sets_unpin(struct led_sets *sets, struct led_pin pin);

/* ---- the index ------------------------------------------------------------------------------- */

/* Pieces that no set from `version` on uses. */
struct led_garbage {
    uint64_t version;
    uint64_t run;
    uint32_t piece;
    uint32_t piece_end;
};

/* What the writer is making of a tree. */
struct led_next {
    struct led_slices slices;
    struct led_tail *tail;
    uint32_t count;                    /* entries of the tail, seen and not yet seen */
    uint32_t stored;                   /* of those, in the store */
    uint64_t tail_blobs;               /* in the store */
    struct led_edges edges[LED_KINDS]; /* of the tail */
};

struct led_state {
    uint64_t applied_seq;
    struct ron_tree_hash applied_root;
    uint64_t image_seq;
    uint64_t image_chunks;
    uint64_t image_open; /* seq of the image that is being put; 0: none. Not stored. */
    uint64_t image_open_chunks;
    uint64_t run_next;
};

struct led_index {
    uint32_t magic;
    const struct ron_env *env;
    struct led_blobs *store;
    uint8_t uuid[16];
    uint8_t hash_key[16];
    struct led_sets *sets; /* also used by lookups */
    struct ron_au64 *applied;
    struct ron_stat *false_alarms;

    /* The writer's. */
    struct led_state state;
    struct led_state state_next;
    struct led_next now[LED_TREES]; /* as published */
    struct led_next next[LED_TREES];
    uint32_t run_entries;
    uint64_t version;
    struct led_run **fresh; /* made since the last commit */
    size_t fresh_count;
    size_t fresh_cap;
    struct led_garbage *garbage; /* oldest first */
    size_t garbage_count;
    size_t garbage_cap;
    size_t garbage_new; /* the last ones: added since the last commit */
    struct led_ent *ents[2];
    size_t ents_cap;

    struct ron_stat keys;
    struct ron_stat runs;
    struct ron_stat filter_bytes;
};

#define LED_INDEX_MAGIC 0x4c444958u

/* run.c */
uint32_t led__tail_cap(const struct led_index *ix, uint32_t tree);
/* Room for `count` entries in both buffers. */
RON_MUST_USE enum ron_rc led__ents_reserve(struct led_index *ix, size_t count);
RON_MUST_USE enum ron_rc led__run_new(uint64_t id, uint32_t level, uint64_t keys,
                                      struct led_run **ret_run);
void led__run_free(struct led_run *run); /* NULL is fine */
/* Before a commit: makes durable what the state is about to name. */
RON_MUST_USE enum ron_rc led__runs_settle(struct led_index *ix, struct ron_err *err);
/* Writes the tail with all its entries as a run, begins a new tail, and does the share of these
 * entries in the merges. */
RON_MUST_USE enum ron_rc led__tree_flush(struct led_index *ix, uint32_t tree, struct ron_err *err);
/* The piece in which (hash, seq) is or would be. */
uint32_t led__slice_piece(const struct led_slice *slice, struct led_ent want);

/* state.c: the blob that says what counts. */
RON_MUST_USE enum ron_rc led__state_put(struct led_index *ix, struct ron_err *err);
RON_MUST_USE enum ron_rc led__state_load(struct led_index *ix, struct ron_err *err);
RON_MUST_USE enum ron_rc led__tail_put(struct led_index *ix, uint32_t tree, struct ron_err *err);
/* A chunk of an image; its checksum knows where it belongs. RON_CORRUPT. */
RON_MUST_USE enum ron_rc led__chunk_get(struct led_index *ix, uint64_t seq, uint64_t chunk,
                                        const uint8_t **ret_bytes, size_t *ret_len,
                                        struct ron_err *err);
uint32_t led__chunk_sum(uint64_t seq, uint64_t chunk, const void *bytes, size_t len);

static inline uint64_t led__index_hash(enum led_index_kind kind, struct led_key key)
{
    /* One tree holds both kinds: equal texts of different kinds must not meet. 0 is no hash of
     * theirs only because an entry without hash is easier to see in a dump. */
    uint64_t hash = kind == LED_INDEX_ID ? key.a : key.a ^ UINT64_C(0xa5a5c3c36996f00f);

    return hash == 0 ? 1 : hash;
}
