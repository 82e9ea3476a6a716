/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a fixed number of objects of one size, allocated once.
 *
 * Place: base; messages, connections and everything else that hot paths hand around. All memory is
 * taken at init, so that getting an object later costs a few instructions and the worst case is
 * known. Objects that were never handed out are never touched and cost no resident memory.
 *
 * Invariants:
 *   P1. live + free == count_max. An object is in exactly one of the two sets.
 *   P2. Objects are aligned as asked at init and never move.
 *   P3. In checked builds a double put, a pointer that is not an object of this pool, and a done
 *       with live objects are assertions; a returned object is overwritten, and touching it is
 *       reported under AddressSanitizer. A pointer outside the pool's memory is an assertion in
 *       every build.
 *
 * Threads: one at a time. A pool shared by threads needs its owner's lock, or one pool per thread.
 * Ownership: get gives an object to the caller, put takes it back.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

struct ron_pool {
    uint32_t magic;
    const char *name; /* static text, for reports */
    uint8_t *base;    /* count_max objects, stride bytes apart */
    size_t stride;
    size_t object_size;
    size_t count_max;
    size_t fresh;        /* objects [fresh, count_max) were never handed out */
    size_t returned;     /* entries in the stack below */
    void **returned_top; /* stack of objects that came back; last in, first out for warm caches */
    uint8_t *live_flags; /* checked builds only: one byte per object */
    size_t live;
    size_t live_peak;
    uint64_t refused_count; /* gets that found the pool empty */
};

/* align is a power of two. RON_INVALID when a size is 0 or the total overflows; RON_NOMEM. */
enum ron_rc ron_pool_init(struct ron_pool *pool, const char *name, size_t object_size, size_t align,
                          size_t count_max) RON_MUST_USE;

/* All objects must be back. Also fine on a struct of zeros. */
void ron_pool_done(struct ron_pool *pool);

/* An object with undefined content, or NULL when all are live. */
void *ron_pool_get(struct ron_pool *pool) RON_MUST_USE;

/* Takes an object back. NULL does nothing. */
void ron_pool_put(struct ron_pool *pool, void *object);

static inline size_t ron_pool_live(const struct ron_pool *pool)
{
    return pool->live;
}
