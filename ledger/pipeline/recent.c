/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/recent.c - keys of the journal that the index may not have yet; the contract is
 * in recent.h. */
#include "ledger/pipeline/recent.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

#define OFFSET_MASK ((uint64_t)LED_RECENT_SPAN - 1)
#define TOMBSTONE ((uint64_t)LED_RECENT_SPAN)
#define TAG_MASK (~(TOMBSTONE | OFFSET_MASK))
/* An offset is never 0, so this is no key: a slot that was taken back. Probing goes on behind it.
 */
#define DEAD TOMBSTONE

_Static_assert(LED_RECENT_RESERVE_MAX <= LED_RECENT_KEYS, "a batch fits a fresh generation");
_Static_assert(LED_RECENT_SLOTS * sizeof(uint64_t) == 1 << 21, "a table is one huge page");

/* Where the i-th oldest generation lies in the ring. */
static uint32_t place(const struct led_recent *r, uint32_t i)
{
    return (r->first + i) % LED_RECENT_GENERATIONS;
}

static struct led_generation *newest(struct led_recent *r)
{
    return &r->ring[place(r, r->count - 1)];
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc start_generation(struct led_recent *r, uint64_t base)
{
    size_t bytes = LED_RECENT_SLOTS * sizeof(uint64_t);
    uint64_t *slots = RON_TAKE(r->spare_slots);

    if (slots == NULL) {
        slots = ron_alloc_aligned(bytes, bytes);
        if (slots == NULL) {
            return RON_NOMEM;
        }
        ron_alloc_advise_huge(slots, bytes);
    }
    memset(slots, 0, bytes);
    r->count++;
    *newest(r) = (struct led_generation){.slots = slots, .base = base, .seq_max = base};
    return RON_OK;
}

static void drop_oldest(struct led_recent *r)
{
    struct led_generation *g = &r->ring[r->first];

    r->floor = RON_MAX(r->floor, g->seq_max);
    if (r->spare_slots == NULL) {
        r->spare_slots = g->slots;
    } else {
        ron_free(g->slots);
    }
    *g = (struct led_generation){0};
    r->first = (r->first + 1) % LED_RECENT_GENERATIONS;
    r->count--;
}

enum ron_rc led_recent_init(struct led_recent *r, uint64_t floor, uint32_t keys_max)
{
    RON_ASSERT(keys_max <= LED_RECENT_KEYS);
    *r = (struct led_recent){.floor = floor,
                             .indexed = floor,
                             .keys_max = keys_max != 0 ? keys_max : (uint32_t)LED_RECENT_KEYS};
    return start_generation(r, floor);
}

void led_recent_done(struct led_recent *r)
{
    while (r->count > 0) {
        drop_oldest(r);
    }
    ron_free(r->spare_slots);
    r->spare_slots = NULL;
}

void led_recent_indexed(struct led_recent *r, uint64_t seq)
{
    r->indexed = RON_MAX(r->indexed, seq);
    /* The newest one stays: it takes the next keys. */
    while (r->count > LED_RECENT_SPARE + 1 &&
           r->ring[place(r, LED_RECENT_SPARE)].seq_max <= r->indexed) {
        drop_oldest(r);
    }
}

void led_recent_forget_oldest(struct led_recent *r)
{
    if (r->count > 1) {
        drop_oldest(r);
    }
}

enum ron_rc led_recent_reserve(struct led_recent *r, size_t count, uint64_t seq_last)
{
    struct led_generation *g = newest(r);

    RON_ASSERT(count <= LED_RECENT_RESERVE_MAX);
    if (g->used + count <= r->keys_max && seq_last - g->base < LED_RECENT_SPAN) {
        return RON_OK;
    }
    if (r->count == LED_RECENT_GENERATIONS) {
        if (r->ring[r->first].seq_max > r->indexed) {
            return RON_FULL;
        }
        drop_oldest(r);
    }
    /* At most `count` seqs end with seq_last; a base that lies lower does no harm. */
    return start_generation(r, seq_last - RON_MIN((uint64_t)count, seq_last));
}

/* ---- keys ------------------------------------------------------------------------------------ */

void led_recent_add(struct led_recent *r, uint64_t key, uint64_t seq, bool tombstone)
{
    struct led_generation *g = newest(r);
    uint64_t offset = seq - g->base;
    uint32_t at = (uint32_t)key & (LED_RECENT_SLOTS - 1);

    RON_ASSERT_MSG(seq > g->base && offset < LED_RECENT_SPAN, "N2: seqs never fall");
    RON_ASSERT(g->used < LED_RECENT_KEYS);
    while (g->slots[at] != 0) {
        at = (at + 1) & (LED_RECENT_SLOTS - 1);
    }
    g->slots[at] = (key & TAG_MASK) | (tombstone ? TOMBSTONE : 0) | offset;
    g->used++;
    g->seq_max = RON_MAX(g->seq_max, seq);
}

static bool comes_before(struct led_hit x, struct led_hit y)
{
    return y.seq == 0 || x.seq < y.seq || (x.seq == y.seq && x.tombstone);
}

static void look(const struct led_generation *g, uint64_t key, uint64_t above, bool tombstones,
                 struct led_hit *best)
{
    uint32_t at = (uint32_t)key & (LED_RECENT_SLOTS - 1);
    uint64_t slot;

    while ((slot = g->slots[at]) != 0) {
        if (((slot ^ key) & TAG_MASK) == 0 && slot != DEAD) {
            struct led_hit hit = {.seq = g->base + (slot & OFFSET_MASK),
                                  .tombstone = (slot & TOMBSTONE) != 0};

            if (hit.seq > above && (tombstones || !hit.tombstone) && comes_before(hit, *best)) {
                *best = hit;
            }
        }
        at = (at + 1) & (LED_RECENT_SLOTS - 1);
    }
}

static struct led_hit find(const struct led_recent *r, uint64_t key, uint64_t above,
                           bool tombstones)
{
    struct led_hit hit = {0};

    for (uint32_t i = r->count; i-- > 0;) {
        const struct led_generation *g = &r->ring[place(r, i)];

        if (g->seq_max <= above) {
            break;
        }
        look(g, key, above, tombstones, &hit);
    }
    return hit;
}

struct led_hit led_recent_find(const struct led_recent *r, uint64_t key, uint64_t above)
{
    return find(r, key, above, true);
}

struct led_hit led_recent_find_id(const struct led_recent *r, uint64_t key, uint64_t above)
{
    return find(r, key, above, false);
}

void led_recent_prefetch(const struct led_recent *r, uint64_t key, uint64_t above)
{
    for (uint32_t i = r->count; i-- > 0;) {
        const struct led_generation *g = &r->ring[place(r, i)];

        if (g->seq_max <= above) {
            break;
        }
        __builtin_prefetch(&g->slots[(uint32_t)key & (LED_RECENT_SLOTS - 1)]);
    }
}

/* ---- taking back ----------------------------------------------------------------------------- */

void led_recent_cut(struct led_recent *r, uint64_t seq)
{
    for (uint32_t i = r->count; i-- > 0;) {
        struct led_generation *g = &r->ring[place(r, i)];

        if (g->seq_max <= seq) {
            break;
        }
        for (size_t at = 0; at < LED_RECENT_SLOTS; at++) {
            uint64_t slot = g->slots[at];
            uint64_t its_seq = g->base + (slot & OFFSET_MASK);
            bool stays = its_seq <= seq || (its_seq == seq + 1 && (slot & TOMBSTONE) != 0);

            if (slot != 0 && !stays) {
                g->slots[at] = DEAD;
            }
        }
        g->seq_max = RON_MIN(g->seq_max, seq + 1);
    }
    /* Generations that began above are empty now; their base would let seqs fall (N2). */
    while (r->count > 1 && newest(r)->base > seq) {
        ron_free(newest(r)->slots);
        *newest(r) = (struct led_generation){0};
        r->count--;
    }
}

void led_recent_forget_tombstone(struct led_recent *r, uint64_t key, uint64_t seq)
{
    for (uint32_t i = r->count; i-- > 0;) {
        struct led_generation *g = &r->ring[place(r, i)];

        if (g->base >= seq || g->seq_max < seq) {
            continue;
        }
        for (uint32_t at = (uint32_t)key & (LED_RECENT_SLOTS - 1); g->slots[at] != 0;
             at = (at + 1) & (LED_RECENT_SLOTS - 1)) {
            if (g->slots[at] == ((key & TAG_MASK) | TOMBSTONE | (seq - g->base))) {
                g->slots[at] = DEAD;
                return;
            }
        }
    }
}

size_t led_recent_memory(const struct led_recent *r)
{
    size_t tables = r->count + (r->spare_slots != NULL ? 1 : 0);

    return sizeof *r + tables * LED_RECENT_SLOTS * sizeof(uint64_t);
}
