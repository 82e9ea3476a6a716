/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/set.c - what lookups see: sets of runs and tails, replaced while threads use them.
 *
 * A thread that looks up pins the present set and unpins it afterwards: two atomic operations on a
 * cache line that it shares with few others, no lock, no wait. The writer frees a set, its runs and
 * the stored pieces of those runs when nobody can use them any more.
 *
 * How: each slot is ONE word that says both which set is present and how many use it through this
 * slot.
 *   pin      compare-and-swap (set, n) -> (set, n + 1).
 *   unpin    if the word still names my set: (set, n) -> (set, n - 1); else the writer has moved my
 *            use to the set's own counter: subtract 1 there.
 *   publish  swap the word of every slot to (new set, 0) and add the n that was there to the old
 *            set's counter.
 *
 * Why it is safe, without a fence: choosing the set and counting oneself are one operation on one
 * word, so there is no moment between reading the pointer and announcing its use in which the
 * writer could look away (the store-buffer problem of hazard pointers does not arise). For a slot,
 * each pin comes before or after the swap in the order of changes of that word. Before: it is among
 * the n, or was undone, and what was undone on the word happens before the swap that reads it.
 * After: it has the new set. So once all slots are swapped, the old set's counter is the number of
 * its users, can only fall (modulo 2^64: unpins may come before the writer's addition), and the
 * last unpin, a read-modify-write on it, happens before the load that sees 0. No new user can come:
 * no slot names the set, and its place is given away again only after it was freed.
 *
 * A set needs a place (the number in the words). A retired set that is still used takes at least
 * one thread, so RON_THREADS_MAX + 2 places never run out.
 *
 * Tail: entries are added while lookups go on. An entry is written before the slot (keys) or the
 * count (skip points) that lets others see it, with release; both are read with acquire. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- tail ------------------------------------------------------------------------------------ */

enum ron_rc led__tail_new(uint32_t cap, bool with_slots, struct led_tail **ret_tail)
{
    struct led_tail *tail = ron_alloc_zero(sizeof *tail);
    uint32_t slots = 1;

    if (tail == NULL) {
        return RON_NOMEM;
    }
    while (slots < 2 * cap) {
        slots *= 2;
    }
    tail->cap = cap;
    tail->slot_mask = slots - 1;
    tail->entries = ron_alloc((size_t)cap * sizeof *tail->entries);
    tail->slots = with_slots ? ron_alloc_array(slots, sizeof *tail->slots) : NULL;
    if (tail->entries == NULL || (with_slots && tail->slots == NULL)) {
        led__tail_free(tail);
        return RON_NOMEM;
    }
    *ret_tail = tail;
    return RON_OK;
}

void led__tail_free(struct led_tail *tail)
{
    if (tail != NULL) {
        ron_free(tail->entries);
        ron_free(tail->slots);
        ron_free(tail);
    }
}

void led__tail_show(struct led_tail *tail, uint32_t count)
{
    uint32_t seen = (uint32_t)ron_au64_load(&tail->seen);

    RON_ASSERT(count <= tail->cap && seen <= count);
    for (uint32_t i = seen; tail->slots != NULL && i < count; i++) {
        uint64_t hash = tail->entries[i].hash;
        uint32_t at = (uint32_t)hash & tail->slot_mask;

        while (ron_au64_load(&tail->slots[at]) != 0) {
            at = (at + 1) & tail->slot_mask;
        }
        ron_au64_store(&tail->slots[at], (hash >> 32 << 32) | (i + 1));
    }
    ron_au64_store(&tail->seen, count);
}

bool led__tail_has(const struct led_tail *tail, uint64_t hash)
{
    /* At most half of the slots are used, so an empty one ends the search. */
    for (uint32_t at = (uint32_t)hash & tail->slot_mask;; at = (at + 1) & tail->slot_mask) {
        uint64_t slot = ron_au64_load(&tail->slots[at]);

        if (slot == 0) {
            return false;
        }
        if (slot >> 32 == hash >> 32 && tail->entries[(uint32_t)slot - 1].hash == hash) {
            return true;
        }
    }
}

/* ---- sets ------------------------------------------------------------------------------------ */

enum ron_rc led__set_new(const struct led_slices *slices[LED_TREES],
                         struct led_tail *tails[LED_TREES], struct led_set **ret_set)
{
    struct led_set *set = ron_alloc_zero(sizeof *set);

    if (set == NULL) {
        return RON_NOMEM;
    }
    for (uint32_t t = 0; t < LED_TREES; t++) {
        struct led_set_tree *tree = &set->trees[t];

        tree->slices = ron_alloc((slices[t]->count + 1) * sizeof *tree->slices);
        if (tree->slices == NULL) {
            led__set_free(set);
            return RON_NOMEM;
        }
        tree->tail = tails[t];
        tree->count = slices[t]->count;
        memcpy(tree->slices, slices[t]->at, tree->count * sizeof *tree->slices);
    }
    for (uint32_t i = 0; i < set->trees[LED_TREE_KEYS].count; i++) {
        for (uint32_t kind = 0; kind < LED_KINDS; kind++) {
            led__edges_join(&set->edges[kind],
                            &set->trees[LED_TREE_KEYS].slices[i].run->edges[kind]);
        }
    }
    *ret_set = set;
    return RON_OK;
}

void led__set_free(struct led_set *set)
{
    if (set != NULL) {
        for (uint32_t t = 0; t < LED_TREES; t++) {
            ron_free(set->trees[t].slices);
        }
        ron_free(set);
    }
}

static void hold(struct led_set *set)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        set->trees[t].tail->refs++;
        for (uint32_t i = 0; i < set->trees[t].count; i++) {
            set->trees[t].slices[i].run->refs++;
        }
    }
}

static void let_go(struct led_set *set)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        struct led_set_tree *tree = &set->trees[t];

        if (--tree->tail->refs == 0) {
            led__tail_free(tree->tail);
        }
        for (uint32_t i = 0; i < tree->count; i++) {
            if (--tree->slices[i].run->refs == 0) {
                led__run_free(tree->slices[i].run);
            }
        }
    }
    led__set_free(set);
}

void led__sets_publish(struct led_sets *sets, struct led_set *take_set)
{
    uint32_t place = 0;

    while (place < LED_SETS_MAX && sets->places[place].set != NULL) {
        place++;
    }
    RON_ASSERT(place < LED_SETS_MAX);
    hold(take_set);
    sets->places[place].set = take_set;
    for (size_t i = 0; i < LED_PIN_SLOTS; i++) {
        uint64_t old = ron_au64_xchg(&sets->slots[i].word, (uint64_t)place << 32);

        (void)ron_au64_add(&sets->places[old >> 32].users, (uint32_t)old);
    }
    sets->now = place;
}

uint64_t led__sets_reclaim(struct led_sets *sets)
{
    uint64_t oldest = UINT64_MAX;

    for (uint32_t i = 0; i < LED_SETS_MAX; i++) {
        struct led_set_place *place = &sets->places[i];

        if (place->set == NULL) {
            continue;
        }
        if (i != sets->now && ron_au64_load(&place->users) == 0) {
            let_go(place->set);
            place->set = NULL;
            continue;
        }
        oldest = RON_MIN(oldest, place->set->version);
    }
    return oldest;
}

struct led_pin led__sets_pin(struct led_sets *sets)
{
    /* Records of threads are neighbours in an array of some hundred bytes each. */
    uint32_t slot =
        (uint32_t)(((uintptr_t)ron_thread_self() * UINT64_C(0x9e3779b97f4a7c15)) >> 32) %
        LED_PIN_SLOTS;
    struct ron_au64 *word = &sets->slots[slot].word;
    uint64_t old = ron_au64_load(word);

    while (!ron_au64_cas(word, &old, old + 1)) {
    }
    return (struct led_pin){
        .set = sets->places[old >> 32].set, .place = (uint32_t)(old >> 32), .slot = slot};
}

void led__sets_unpin(struct led_sets *sets, struct led_pin pin)
{
    struct ron_au64 *word = &sets->slots[pin.slot].word;
    uint64_t old = ron_au64_load(word);

    while (old >> 32 == pin.place) {
        if (ron_au64_cas(word, &old, old - 1)) {
            return;
        }
    }
    (void)ron_au64_add(&sets->places[pin.place].users, UINT64_MAX);
}
