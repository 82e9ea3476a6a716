/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - objects of one size, taken from the heap once. The rules P1 to P3 are in the header.
 *
 * Place: base. Free objects are of two sorts: returned ones, on a stack of pointers, and fresh
 * ones, the tail of the block that was never handed out. The stack lives outside of the objects, so
 * that a fresh object costs no resident page, and a stale write into a free one cannot break the
 * pool.
 */
#include "ron/base/pool.h"

#include <stdbool.h>
#include <string.h>

#include "poison.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/fault.h"

#define POOL_MAGIC 0x504f4f4cu /* "POOL" */

/* The finest grain in which AddressSanitizer can close memory. */
#define ALIGN_MIN 8

/* Computes the distance between objects; false when it or the whole block is not representable. */
static bool layout(size_t object_size, size_t align, size_t count, size_t *ret_stride,
                   size_t *ret_total)
{
    size_t padded = 0;

    if (__builtin_add_overflow(object_size, align - 1, &padded)) {
        return false;
    }
    *ret_stride = padded & ~(align - 1);
    return !__builtin_mul_overflow(*ret_stride, count, ret_total) && *ret_total <= PTRDIFF_MAX;
}

enum ron_rc ron_pool_init(struct ron_pool *pool, const char *name, size_t object_size, size_t align,
                          size_t count_max)
{
    RON_ASSERT(align != 0);
    RON_ASSERT((align & (align - 1)) == 0);

    struct ron_pool made = {
        .magic = POOL_MAGIC,
        .name = name,
        .object_size = object_size,
        .count_max = count_max,
    };
    size_t total = 0;

    align = RON_MAX(align, (size_t)ALIGN_MIN);
    if (object_size == 0 || count_max == 0 ||
        !layout(object_size, align, count_max, &made.stride, &total)) {
        return RON_INVALID;
    }
    made.base = ron_alloc_aligned(align, total);
    made.returned_top = ron_alloc_array(count_max, sizeof(void *));
    made.live_flags = RON_CHECKED ? ron_alloc_zero(count_max) : NULL;
    if (made.base == NULL || made.returned_top == NULL ||
        (RON_CHECKED && made.live_flags == NULL)) {
        ron_free(made.base);
        ron_free(made.returned_top);
        ron_free(made.live_flags);
        return RON_NOMEM;
    }
    ron_poison_close(made.base, total);
    *pool = made;
    return RON_OK;
}

void ron_pool_done(struct ron_pool *pool)
{
    if (pool->magic == 0) {
        return;
    }
    RON_CHECK_MAGIC(pool, POOL_MAGIC);
    RON_ASSERT_SLOW(pool->live == 0);
    ron_poison_open(pool->base, pool->stride * pool->count_max);
    ron_free(pool->base);
    ron_free(pool->returned_top);
    ron_free(pool->live_flags);
    memset(pool, 0, sizeof(*pool));
}

/* Position of an object; only checked builds pay for the division. */
static size_t index_of(const struct ron_pool *pool, const void *object)
{
    size_t offset = (size_t)((const uint8_t *)object - pool->base);

    RON_ASSERT_MSG(offset % pool->stride == 0, "P3: pointer into an object of pool %s", pool->name);
    return offset / pool->stride;
}

/* Checked builds: flips an object between live and free, asserting that it was the other (P1). */
static void set_live(struct ron_pool *pool, const void *object, bool live)
{
#if RON_CHECKED
    size_t index = index_of(pool, object);

    RON_ASSERT_MSG(pool->live_flags[index] != live, "P3: %s twice in pool %s", live ? "got" : "put",
                   pool->name);
    pool->live_flags[index] = live;
#else
    (void)pool;
    (void)object;
    (void)live;
    (void)index_of;
#endif
}

void *ron_pool_get(struct ron_pool *pool)
{
    RON_CHECK_MAGIC(pool, POOL_MAGIC);
    void *object = NULL;

    if (pool->live == pool->count_max || RON_FAULT(RON_FAULT_ALLOC, pool->name)) {
        pool->refused_count++;
        return NULL;
    }
    if (pool->returned > 0) {
        object = pool->returned_top[--pool->returned];
    } else {
        RON_ASSERT_MSG(pool->fresh < pool->count_max, "P1");
        object = pool->base + pool->fresh * pool->stride;
        pool->fresh++;
    }
    set_live(pool, object, true);
    ron_poison_open(object, pool->object_size);
    pool->live++;
    pool->live_peak = RON_MAX(pool->live_peak, pool->live);
    return object;
}

void ron_pool_put(struct ron_pool *pool, void *object)
{
    RON_CHECK_MAGIC(pool, POOL_MAGIC);
    if (object == NULL) {
        return;
    }
    uintptr_t offset = (uintptr_t)object - (uintptr_t)pool->base;

    RON_ASSERT_MSG(offset < pool->fresh * pool->stride, "P3: not an object of pool %s", pool->name);
    RON_ASSERT_MSG(pool->live > 0, "P1");
    set_live(pool, object, false);
    ron_poison_fill(object, pool->object_size);
    ron_poison_close(object, pool->object_size);
    pool->returned_top[pool->returned++] = object;
    pool->live--;
}
