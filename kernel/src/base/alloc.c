/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c - the heap behind one door.
 *
 * Place: base. The only file that may call the raw functions.
 * Invariants: I1 every new block passes fresh(), every released one ron_free(), so that the watch
 *   hook sees each block exactly once at birth and once at death. I2 no request above PTRDIFF_MAX
 *   reaches the heap: differences of pointers into a block must be representable.
 * Threads: as safe as the C library; the hooks are set before threads start.
 * Failure: NULL, nothing changed.
 */
#include "ron/base/alloc.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ron/base/assert.h"
#include "ron/base/fault.h"

/* The build puts banned.h before every file; this one is the exception it names. */
#define RON_ALLOW_RAW_ALLOC
#include "ron/base/banned.h"

void (*ron_alloc_watch)(int delta, const char *site) = NULL;

/* Whether a request must be refused before it reaches the heap. */
static bool refuse(size_t size, const char *site)
{
    return size > PTRDIFF_MAX || RON_FAULT(RON_FAULT_ALLOC, site);
}

/* Tells the watcher about a block, if it is one. */
static void *fresh(void *block, const char *site)
{
    if (block != NULL && ron_alloc_watch != NULL) {
        ron_alloc_watch(1, site);
    }
    return block;
}

void ron_free(void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    if (ron_alloc_watch != NULL) {
        ron_alloc_watch(-1, "ron_free");
    }
    free(ptr);
}

void ron_free_slot(void *slot)
{
    void *ptr;

    /* The slot is a pointer of any type; copying its bytes avoids reading it as another type. */
    memcpy(&ptr, slot, sizeof(ptr));
    ron_free(ptr);
}

void *ron_alloc_at(size_t size, const char *site)
{
    if (refuse(size, site)) {
        return NULL;
    }
    return fresh(malloc(size != 0 ? size : 1), site);
}

void *ron_alloc_zero_at(size_t size, const char *site)
{
    if (refuse(size, site)) {
        return NULL;
    }
    return fresh(calloc(1, size != 0 ? size : 1), site);
}

void *ron_alloc_array_at(size_t count, size_t size, const char *site)
{
    size_t total = 0;

    if (__builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    return ron_alloc_zero_at(total, site);
}

void *ron_alloc_aligned_at(size_t align, size_t size, const char *site)
{
    RON_ASSERT(align != 0);
    RON_ASSERT_MSG((align & (align - 1)) == 0, "alignment %zu is not a power of two", align);
    if (align > PTRDIFF_MAX || refuse(size, site)) {
        return NULL;
    }
    /* aligned_alloc wants a whole number of alignments; no overflow, both are at most 2^63 - 1. */
    size_t rounded = (RON_MAX(size, (size_t)1) + align - 1) & ~(align - 1);

    return fresh(aligned_alloc(align, rounded), site);
}

void ron_alloc_advise_huge(void *block, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)block + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(page - 1);

    if (end > first) {
        /* Refused where the system has no huge pages; then the block is as good as before. */
        RON_IGNORE(
            madvise((uint8_t *)block + (first - (uintptr_t)block), end - first, MADV_HUGEPAGE));
    }
}

void ron_alloc_trim(void)
{
    (void)malloc_trim(0);
}

void *ron_realloc_array_at(void *ptr, size_t count, size_t size, const char *site)
{
    size_t total = 0;

    if (__builtin_mul_overflow(count, size, &total) || refuse(total, site)) {
        return NULL;
    }
    bool is_new = ptr == NULL;
    void *block = realloc(ptr, total != 0 ? total : 1);

    return is_new ? fresh(block, site) : block;
}

char *ron_strdup_at(const char *text, const char *site)
{
    size_t size = strlen(text) + 1;
    char *copy = ron_alloc_at(size, site);

    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}
