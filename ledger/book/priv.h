/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/priv.h - records of the book, shared by led_book*.c and nobody else.
 *
 * Records lie in stores and are named by index; hash tables lead from names to indexes. What apply
 * overwrites goes to the ring of changes first:
 *
 *     ring:   | batch 7: change change END | batch 8: change END |  free ...
 *               ^ tail: oldest uncommitted                          ^ head
 *
 * A record's `pend` names its first and last change in the ring, and the changes of one record are
 * linked both ways. At most one change per record and batch is kept: the first, which holds the
 * value from before the batch.
 *
 * A link is the lower half of a position; a change without a neighbour is linked to itself. Nobody
 * returns to a record when its last change becomes final, because by then it has left the cache. So
 * a link may be stale, and is believed only while its position lies between tail and head and the
 * change there is of this record. That is exact, also when positions wrap: whoever adds a change
 * renews the links of its record.
 *   U1. a record with changes in the ring: `first` is its oldest, `last` its newest.
 *   U2. a record without: both are stale, whatever they say. */
#pragma once

#include "ledger/book/book.h"
#include "ledger/book/table.h"
#include "ron/base/wide.h"

struct led_pend {
    uint32_t first;
    uint32_t last;
};

enum {
    LED_ACCOUNT_FROZEN = 1,
    LED_BUCKETS = 8, /* of fingerprints: 4 cover the horizon, 2 are cut, 1 for skew, 1 spare */
    LED_NAME_CHUNK = 65536,
    LED_FREE_STEP = 64,        /* pages of a dropped bucket that one batch releases */
    LED_CHANGES_PER_ENTRY = 7, /* two accounts, two lines, asset, hold, reversal */
};

struct led_line {
    ron_u128 available;
    ron_u128 held;
    struct led_pend pend;
    uint32_t next;  /* index + 1 of the next line of the account */
    uint16_t asset; /* index + 1 */
    uint16_t flags; /* of the account, in its first line */
};

enum { LED_NAME_NEAR = 40 }; /* bytes of a name that fit into the record; most do */

/* Two lines of the cache, of which a transfer touches the first alone. Most accounts hold one
 * asset, so the first balance lies inside. An account is known by 96 bits of its key: `b`, and the
 * upper half of `a` in the slot that led here. That any two of 2^31 accounts are alike in them has
 * a probability of 2^-35. */
struct led_acct {
    struct led_line line; /* its pend covers nonce and last_seq too */
    uint64_t last_seq;
    uint64_t key_b;
    uint64_t key_a;
    uint64_t nonce;
    uint32_t hold_first; /* index + 1: chain of its holds */
    uint16_t name_len;
    union {
        char near[LED_NAME_NEAR];
        struct {
            uint32_t chunk;
            uint32_t offset;
        } far; /* a longer one */
    } name;
};
_Static_assert(sizeof(struct led_acct) == (size_t)2 * RON_CACHELINE, "an account fills two lines");
_Static_assert(offsetof(struct led_acct, key_a) == RON_CACHELINE, "what moves lies in the first");

struct led_asset {
    ron_u128 supply;
    ron_u128 credits; /* of the batch `stamp` */
    ron_u128 debits;
    uint64_t stamp;
    struct led_pend pend;
    uint32_t sum_next;  /* index + 1: next asset with sums in this batch */
    uint32_t sum_first; /* entry that touched the sums first */
    uint8_t len;
    char name[LED_ASSET_MAX];
};

struct led_hold {
    struct led_key key;
    ron_u128 remaining; /* 0: over, kept until its batch is committed */
    uint64_t expires_ms;
    uint64_t seq; /* of the Hold; settles which of two expires first */
    struct led_pend pend;
    uint32_t account;
    uint32_t heap_at; /* position + 1 in the heap, 0 = not there */
    union {
        uint32_t next_free; /* of a record that is free */
        uint32_t put_off_s; /* of an open one: its expiry was refused and is tried again then */
    };
    uint32_t next; /* index + 1: holds of the same account */
    uint32_t prev;
    uint16_t asset;
    uint8_t id_len;
    char id[LED_ID_MAX];
};

struct led_reversal {
    struct led_key key;
    ron_u128 reversed;
    uint8_t name[16]; /* BLAKE3 of the id: the same in every process */
    struct led_pend pend;
};

enum led_change_kind {
    LED_CHANGE_ACCOUNT,
    LED_CHANGE_LINE,
    LED_CHANGE_ASSET,
    LED_CHANGE_HOLD,
    LED_CHANGE_REVERSAL,
    LED_CHANGE_END,
};

/* 64 bytes, and aligned so: a line of the cache. */
struct led_change {
    ron_u128 a; /* available, supply, remaining, reversed */
    ron_u128 b; /* held */
    uint64_t c; /* ACCOUNT: nonce, if keeps_nonce; LINE: account; END: seq of the last entry */
    uint64_t d; /* last_seq; END: fingerprints */
    uint32_t index;
    uint32_t next; /* of the same record */
    uint32_t prev;
    uint16_t asset; /* ACCOUNT: of its first line */
    uint8_t kind;
    bool created : 1;
    bool keeps_nonce : 1; /* most batches change none */
};
_Static_assert(sizeof(struct led_change) == RON_CACHELINE, "a change fills a line of the cache");

struct led_bucket {
    struct led_table set; /* pages NULL = empty */
    uint64_t number;      /* ts / width */
};

/* ---- images: docs/formats/ledger-image.md ---------------------------------------------------- */

#define LED_IMAGE_MAGIC "ronimage"

enum {
    LED_IMAGE_VERSION = 2,
    LED_IMAGE_SUM = 16,  /* bytes of a checksum */
    LED_IMAGE_HEAD = 80, /* bytes of a chunk before its records; the last of them its checksum */
};

/* The first byte of a record. */
enum led_image_kind {
    LED_IMAGE_START = 1,
    LED_IMAGE_ASSET,
    LED_IMAGE_ACCOUNT,
    LED_IMAGE_BALANCE,
    LED_IMAGE_HOLD,
    LED_IMAGE_REVERSAL,
    LED_IMAGE_END,
    LED_IMAGE_KINDS,
};

struct led_image;
struct led_loading;

/* Used nonces by time slice: prints.c. */
struct led_slices {
    struct led_bucket buckets[LED_BUCKETS];
    uint8_t living[LED_BUCKETS]; /* indexes of those that are not empty */
    uint32_t living_count;
    uint32_t bucket_last; /* index: most entries are of the same slice */
    uint64_t bucket_ms;
    struct led_table dying; /* a dropped bucket on its way out */
    size_t dying_cursor;
    uint64_t now_ms; /* the latest time seen */
};

/* What uncommitted batches have overwritten: undo.c. */
struct led_ring {
    struct led_change *changes;
    uint64_t head;
    uint64_t tail;
    uint64_t mark;    /* where the changes of the batch that is being applied begin */
    uint64_t *prints; /* fingerprints of uncommitted batches, a ring beside `changes`; 0: one that
                         * was there before, and stays */
    uint64_t prints_head;
    uint64_t prints_tail;
    size_t pending; /* uncommitted batches */
};

struct led_book {
    struct led_book_opts opts;
    struct led_blocks blocks;
    struct led_pool pool;
    struct led_table accounts_by_key;
    struct led_table holds_by_key;
    struct led_table reversals_by_key;
    struct led_store accounts;
    struct led_store lines;
    struct led_store assets;
    struct led_store holds;
    struct led_store reversals;
    struct led_store heap; /* of uint32_t: holds that expire, the soonest first */
    struct led_store names;
    uint32_t name_chunk; /* where the next name goes */
    uint32_t name_at;
    uint32_t holds_free; /* index + 1 */
    uint32_t asset_last; /* index: most batches have one asset */

    struct led_slices slices;
    struct led_ring ring;
    uint64_t committed_seq;      /* of the last entry that is committed */
    struct led_image *image;     /* NULL: none is being made */
    struct led_loading *loading; /* NULL: none is being loaded */

    uint64_t batch;      /* number of the batch being applied */
    uint32_t sum_assets; /* index + 1: chain of assets with sums */
    uint64_t *ids;       /* batch << 32 | entry, by id hash: ids of this batch */
    struct led_prep *preps;
};

static inline struct led_acct *led__acct(const struct led_book *b, uint32_t i)
{
    return led_store_at(&b->accounts, i);
}

static inline struct led_line *led__line(const struct led_book *b, uint32_t i)
{
    return led_store_at(&b->lines, i);
}

static inline struct led_asset *led__asset(const struct led_book *b, uint32_t i)
{
    return led_store_at(&b->assets, i);
}

static inline struct led_hold *led__hold(const struct led_book *b, uint32_t i)
{
    return led_store_at(&b->holds, i);
}

static inline struct led_reversal *led__reversal(const struct led_book *b, uint32_t i)
{
    return led_store_at(&b->reversals, i);
}

static inline uint32_t led__hash(struct led_key key)
{
    return (uint32_t)(key.a >> 32);
}

/* book.c */
uint32_t led__find_account(const struct led_book *b, struct led_key key);
uint32_t led__find_hold(const struct led_book *b, struct led_key key);
uint32_t led__find_reversal(const struct led_book *b, struct led_key key);
uint32_t led__find_asset(const struct led_book *b, struct ron_str name);
struct ron_str led__name(const struct led_book *b, const struct led_acct *acct);
RON_MUST_USE enum ron_rc led__new_account(struct led_book *b, struct led_key key,
                                          struct ron_str name, uint32_t *ret_index);
void led__pop_account(struct led_book *b);

/* undo.c */
void led__save_nonce(struct led_book *b, struct led_acct *acct);
uint64_t led__committed_nonce(const struct led_book *b, const struct led_acct *acct);
/* Whether the account itself goes when all that is uncommitted is taken back. */
bool led__is_uncommitted(const struct led_book *b, const struct led_acct *acct);
/* The oldest and the newest change of a record, NULL when it has none. */
const struct led_change *led__first_change(const struct led_book *b, const struct led_pend *pend);
struct led_change *led__last_change(const struct led_book *b, const struct led_pend *pend);
struct led_change *led__save(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                             uint32_t index);
void led__created(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                  uint32_t index);
void led__end_batch(struct led_book *b, uint64_t seq_last, uint64_t prints);
void led__roll_back(struct led_book *b, uint64_t undo_mark, uint64_t prints_mark);

/* holds.c */
RON_MUST_USE enum ron_rc led__heap_add(struct led_book *b, uint32_t hold);
void led__heap_remove(struct led_book *b, uint32_t hold);
RON_MUST_USE enum ron_rc led__new_hold(struct led_book *b, struct led_key key, uint32_t account,
                                       uint32_t *ret_index);
void led__free_hold(struct led_book *b, uint32_t index);

/* prints.c */
void led__advance(struct led_book *b, uint64_t now_ms);
void led__print_prefetch(const struct led_book *b, uint64_t print);
/* *ret_new: it was not there, in no slice. `again`: it is kept from this time on all the same. */
RON_MUST_USE enum ron_rc led__print_add(struct led_book *b, uint64_t ts_ms, uint64_t print,
                                        bool again, bool *ret_new);
void led__print_forget(struct led_book *b, uint64_t print);

/* image.c; the first two only while there is an image. `ask` fetches from memory what
 * `keep` of the same change will read. */
void led__image_ask(const struct led_book *b, const struct led_change *change);
void led__image_keep(struct led_book *b, const struct led_change *change);
void led__image_sum(const uint8_t *chunk, size_t len, uint8_t ret_sum[LED_IMAGE_SUM]);
struct led_key led__image_key(const struct led_book *b);
