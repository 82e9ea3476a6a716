/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/filter.c - tells of nearly every hash that a run lacks that it is not there.
 *
 * The hashes of a run are uniform and known in order, so the filter is no Bloom filter: the hash,
 * scaled to the number of groups (64 keys each on average), names a group, what is left of it a
 * part of the group (28 parts, 2.3 keys each), and what is then left gives 16 bits that are kept
 * for each key. A group's record is half a cache line: where its keys begin, and how many there are
 * up to each part.
 *
 *     hash = group . part . rest (16 bits) . (not kept)
 *
 * 20 bits a key, one wrong alarm in about 28,000 questions, two cache lines a question, and it is
 * filled in order, which costs some nanoseconds a key. A Bloom filter of 10 bits a key would be
 * half as large and wrong once in 100: with eleven runs and a thousand ids a batch, every batch
 * would have to go to the readers.
 *
 * A group of more than 254 keys (never, unless one hash comes often) says "maybe" to all. Equal
 * hashes count once.
 *
 * Nothing is zeroed: what was not filled is not asked for.
 * Threads: groups below the one that is filled next never change, and lookups ask for those alone
 * (struct led_slice, hi). */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* Large tables are asked at random places: in huge pages where there are. */
static void *table(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    void *block;

    if (bytes < 2 * huge) {
        return ron_alloc(bytes);
    }
    block = ron_alloc_aligned(huge, bytes);
    if (block != NULL) {
        ron_alloc_advise_huge(block, bytes);
    }
    return block;
}

enum ron_rc led__filter_init(struct led_filter *f, uint64_t keys_max)
{
    struct led_filter made = {.groups = keys_max / LED_GROUP_KEYS + 1, .keys_max = keys_max};

    made.group = table(made.groups * sizeof *made.group);
    /* Lookups load four at a time. */
    made.rests = table((keys_max + 4) * sizeof *made.rests);
    if (made.group == NULL || made.rests == NULL) {
        led__filter_done(&made);
        return RON_NOMEM;
    }
    *f = made;
    return RON_OK;
}

void led__filter_done(struct led_filter *f)
{
    ron_free(f->group);
    ron_free(f->rests);
    *f = (struct led_filter){0};
}

uint64_t led__filter_bytes(const struct led_filter *f)
{
    return f->groups * sizeof *f->group + f->keys_max * sizeof *f->rests;
}

uint64_t led__filter_group_of(const struct led_filter *f, uint64_t hash)
{
    uint64_t rest;

    return led__scale(hash, f->groups, &rest);
}

uint64_t led__filter_group_start(const struct led_filter *f, uint64_t group)
{
    return (uint64_t)((((ron_u128)group << 64) + f->groups - 1) / f->groups);
}

uint32_t led__filter_fill(struct led_filter *f, uint64_t group, uint64_t group_end, uint32_t used,
                          const struct led_ent *entries, size_t count)
{
    size_t i = 0;

    for (; group < group_end; group++) {
        struct led_group *g = &f->group[group];
        uint32_t here = 0;
        uint8_t counts[LED_GROUP_PARTS] = {0};
        bool full = false;

        g->base = used;
        for (; i < count; i++) {
            uint64_t rest;
            uint64_t part;

            if (led__scale(entries[i].hash, f->groups, &rest) != group) {
                break;
            }
            if (i > 0 && entries[i].hash == entries[i - 1].hash) {
                continue;
            }
            part = led__scale(rest, LED_GROUP_PARTS, &rest);
            f->rests[used++] = (uint16_t)(rest >> 48);
            full = full || ++here >= LED_GROUP_FULL;
            counts[part] = (uint8_t)here; /* means nothing once the group is full */
        }
        for (uint32_t part = 0, upto = 0; part < LED_GROUP_PARTS; part++) {
            upto = counts[part] > upto ? counts[part] : upto;
            g->upto[part] = full ? LED_GROUP_FULL : (uint8_t)upto;
        }
    }
    RON_ASSERT(i == count);
    return used;
}
