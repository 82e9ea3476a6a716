/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - leaves out points that cannot matter.
 *
 * For each address that operations were seen on, the table keeps what all of them had in common:
 * the fiber, or locks held. As long as something is left in common, no two fibers can be at that
 * address at the same moment, so it makes no difference whether a switch happens just before such
 * an operation, or earlier, before the lock was taken, or later, before the next operation that
 * others can see. The point is then passed. (An operation on data under its lock commutes with
 * everything that other fibers can do meanwhile.)
 *
 * What is common is learned while exploring. When the last common thing is lost, schedules explored
 * so far have left out points that do matter: reduce_changed() says so and the exploration begins
 * anew, knowing more. The table only loses, so this ends. The pass that counts runs from its first
 * schedule to its last without a change, so the points it left out were redundant in all of it.
 *
 * Freeing memory counts as an operation on everything in it: an operation that comes too late must
 * be found.
 *
 * Operations while only one fiber exists are not noted: nobody is there to notice. */
#include <string.h>

#include "engine.h"
#include "ron/base/assert.h"

enum {
    TABLE_SIZE = 4096, /* addresses used by one scenario, tenfold; a power of two for the mask */
    COMMON_MAX = WEAVE_HELD_MAX + 1,
};

struct place {
    const void *addr;
    uint32_t common_count; /* 0: shared */
    const void *common[COMMON_MAX];
};

static struct place table[TABLE_SIZE];
static struct place *places[TABLE_SIZE]; /* the used ones, in the order in which they were met */
static uint32_t used;
static bool changed;

void reduce_start(void)
{
    memset(table, 0, sizeof table);
    used = 0;
    changed = false;
}

bool reduce_changed(void)
{
    bool was = changed;

    changed = false;
    return was;
}

static struct place *find(const void *addr)
{
    uint64_t h = ((uint64_t)(uintptr_t)addr >> 2) * UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t i = (uint32_t)(h >> 52);; i = (i + 1) % TABLE_SIZE) {
        if (table[i].addr == addr || table[i].addr == NULL) {
            return &table[i];
        }
    }
}

static bool has(const struct weave_fiber *f, const void *thing)
{
    if (thing == f) {
        return true;
    }
    for (uint32_t i = 0; i < f->held_count; i++) {
        if (f->held[i] == thing) {
            return true;
        }
    }
    return false;
}

static void note_first(struct place *p, const struct weave_fiber *f, const void *addr)
{
    RON_ASSERT_MSG(used < TABLE_SIZE / 2, "too many addresses for the table of points");
    places[used++] = p;
    p->addr = addr;
    p->common[0] = f;
    for (uint32_t i = 0; i < f->held_count; i++) {
        p->common[1 + i] = f->held[i];
    }
    p->common_count = 1 + f->held_count;
}

/* Keeps what f has in common with all before it; false when nothing is left. */
static bool keep_common(struct place *p, const struct weave_fiber *f)
{
    uint32_t kept = 0;

    if (p->common_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < p->common_count; i++) {
        if (has(f, p->common[i])) {
            p->common[kept++] = p->common[i];
        }
    }
    p->common_count = kept;
    changed = changed || kept == 0;
    return kept > 0;
}

bool reduce_matters(const struct weave_fiber *f, const void *addr)
{
    struct place *p = find(addr);

    if (p->addr == NULL) {
        note_first(p, f, addr);
        return false;
    }
    return !keep_common(p, f);
}

void reduce_freed(const struct weave_fiber *f, const void *start, size_t size)
{
    for (uint32_t i = 0; i < used; i++) {
        if ((uintptr_t)places[i]->addr - (uintptr_t)start < size) {
            (void)keep_common(places[i], f);
        }
    }
}
