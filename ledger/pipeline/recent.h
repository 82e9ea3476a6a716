/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/recent.h - which keys (hashes of ids and idem_ids) came into the journal lately,
 * and at which seq: what the index, which runs behind, does not answer for yet.
 *
 * Place: ledger, under the sequencer. Keys lie in generations, each a hash table of fixed size with
 * linear probing. A generation takes keys until it is full, then the next one begins; it is dropped
 * whole when the index has all of it, so that nothing is ever removed key by key.
 *
 *     slot (64 bits, 0 = empty):  tag 38 | tombstone 1 | seq - base 25
 *
 * The lower bits of a key choose the slot, the upper 38 are the tag. So a key that was never added
 * is found by mistake about once in 10^11 lookups; whoever asks checks what is found against the
 * journal.
 *
 * Invariants:
 *   N1. Every key added at a seq above led_recent_floor is found.
 *   N2. Seqs are added in an order that never falls, so generations follow each other in it.
 *   N3. At most LED_RECENT_GENERATIONS of LED_RECENT_KEYS keys; full is RON_FULL, until the index
 *       has caught up.
 *
 * Some generations that the index already has are kept as spares: a work that was checked against
 * the index a moment ago is still answered here. They cost memory only, because a lookup passes
 * over generations that lie below what the work was checked for.
 *
 * Threads: one at a time. After led_recent_reserve adding allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    LED_RECENT_KEYS = 1 << 17,        /* of a generation: 0.1 s at a million a second */
    LED_RECENT_SLOTS = 1 << 18,       /* half full at most: 2 MiB */
    LED_RECENT_GENERATIONS = 32,      /* 4 million keys, 64 MiB: seconds of an index that lags */
    LED_RECENT_SPARE = 1,             /* indexed generations that are kept: 0.1 s */
    LED_RECENT_SPAN = 1 << 25,        /* seqs that a generation can tell apart */
    LED_RECENT_RESERVE_MAX = 1 << 16, /* keys of one reservation: a batch and its idem_id */
};

struct led_generation {
    uint64_t *slots;
    uint64_t base; /* its seqs lie in (base, seq_max] */
    uint64_t seq_max;
    uint32_t used;
};

struct led_recent {
    struct led_generation ring[LED_RECENT_GENERATIONS];
    uint32_t first; /* oldest */
    uint32_t count; /* at least 1 after init */
    uint64_t floor; /* N1 */
    uint64_t indexed;
    uint32_t keys_max;     /* of a generation */
    uint64_t *spare_slots; /* a table at rest, so that a drop and a start need no heap */
};

struct led_hit {
    uint64_t seq; /* 0: not found */
    bool tombstone;
};

/* `keys_max` of a generation: at most LED_RECENT_KEYS, 0: as many. Tests have less. */
RON_MUST_USE enum ron_rc led_recent_init(struct led_recent *r, uint64_t floor, uint32_t keys_max);
void led_recent_done(struct led_recent *r); /* also fine on a struct of zeros */

/* Makes sure that `count` keys with seqs up to `seq_last` can be added. RON_FULL (N3), RON_NOMEM:
 * nothing changed. */
RON_MUST_USE enum ron_rc led_recent_reserve(struct led_recent *r, size_t count, uint64_t seq_last);
/* Within what was reserved. */
void led_recent_add(struct led_recent *r, uint64_t key, uint64_t seq, bool tombstone);

/* The smallest seq above `above` at which the key was added; of a tombstone and an entry at the
 * same seq the tombstone, which stands before it. */
struct led_hit led_recent_find(const struct led_recent *r, uint64_t key, uint64_t above);
/* The same for the id of an entry, which a tombstone does not concern: those are of idem_ids. */
struct led_hit led_recent_find_id(const struct led_recent *r, uint64_t key, uint64_t above);
/* Asks for the memory that led_recent_find will look at. */
void led_recent_prefetch(const struct led_recent *r, uint64_t key, uint64_t above);

/* The index has everything up to `seq`. */
void led_recent_indexed(struct led_recent *r, uint64_t seq);

/* Makes room where nobody will write: the oldest generation goes, though the index may lack it. */
void led_recent_forget_oldest(struct led_recent *r);

/* Forgets what was added above `seq`, but for tombstones at seq + 1: those stand behind the entry
 * `seq`, and the caller knows which of them to forget. Looks at everything. */
void led_recent_cut(struct led_recent *r, uint64_t seq);
/* Forgets the tombstone of the key at `seq`. */
void led_recent_forget_tombstone(struct led_recent *r, uint64_t key, uint64_t seq);

static inline uint64_t led_recent_floor(const struct led_recent *r)
{
    return r->floor;
}
size_t led_recent_memory(const struct led_recent *r);
