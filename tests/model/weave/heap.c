/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - the C heap during an explored schedule: the same addresses every time, and no reuse.
 *
 * Why: reduce.c learns by address which objects are shared, so an object must have the same address
 * in every schedule; the system's heap hands out blocks in an order that depends on earlier frees.
 * And a heap that never reuses a block within a schedule shows mistakes for which one otherwise
 * needs a sanitizer: what is freed is overwritten at once, so that stale reads meet nonsense, and
 * is inspected at the end, so that stale writes are seen too.
 *
 * Place: replaces malloc and its family in programs that link weave. Outside of a schedule, and in
 * the simulator, where runs are too long for a heap without reuse, everything goes to the C
 * library.
 *
 * Invariants:
 *   I1 blocks of a schedule lie in `area` in the order of their allocation; nothing else lies
 *      there.
 *   I2 each block is followed by a fence; a freed block holds nothing but FREED bytes.
 *   I3 heap_begin forgets all blocks; what a body has not freed is reported as a leak by engine.c
 *      first.
 * Threads: one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"
#include "ron/base/assert.h"

enum {
    AREA_BYTES =
        64 * 1024 * 1024, /* a schedule allocates some kilobytes; pages are taken when touched */
    ALIGN = 16,
    FENCE_BYTES = 16,
    BYTE_FENCE = 0xfd,
    BYTE_FRESH = 0xa5,
    BYTE_FREED = 0xdd,
    MAGIC_LIVE = 0x4c495645,
    MAGIC_FREED = 0x46524545,
};

/* Sits just before its block. A multiple of ALIGN in size. */
struct block {
    struct block *before;
    uint32_t size;
    uint32_t magic;
};

static bool on;
static char *area;
static size_t used;
static struct block *last;

/* The C library's own, for everything that is not part of a schedule. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *ptr);

void heap_begin(void)
{
    if (area == NULL) {
        area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        RON_ASSERT(area != MAP_FAILED);
    }
    used = 0;
    last = NULL;
    on = true;
}

void heap_end(void)
{
    on = false;
}

static bool filled_with(const unsigned char *p, size_t size, int byte)
{
    return size == 0 || (p[0] == byte && memcmp(p, p + 1, size - 1) == 0);
}

const char *heap_complaint(void)
{
    for (const struct block *b = last; b != NULL; b = b->before) {
        const unsigned char *p = (const unsigned char *)(b + 1);

        if (b->magic == MAGIC_FREED && !filled_with(p, b->size, BYTE_FREED)) {
            return "memory was written after it was freed";
        }
        if (!filled_with(p + b->size, FENCE_BYTES, BYTE_FENCE)) {
            return "memory was written beyond the end of a block";
        }
    }
    return NULL;
}

static void *take(size_t align, size_t size)
{
    uintptr_t at = (uintptr_t)area + used + sizeof(struct block);
    struct block *b;

    at = (at + align - 1) & ~(uintptr_t)(align - 1);
    if (size > AREA_BYTES || at + size + FENCE_BYTES > (uintptr_t)area + AREA_BYTES) {
        weave_fail("heap", "one schedule allocated more than %d MiB", AREA_BYTES >> 20);
    }
    b = (struct block *)at - 1;
    *b = (struct block){.before = last, .size = (uint32_t)size, .magic = MAGIC_LIVE};
    memset(b + 1, BYTE_FRESH, size);
    memset((char *)(b + 1) + size, BYTE_FENCE, FENCE_BYTES);
    last = b;
    used = (at + size + FENCE_BYTES - (uintptr_t)area + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return b + 1;
}

static bool ours(const void *ptr)
{
    return area != NULL && (uintptr_t)ptr - (uintptr_t)area < AREA_BYTES;
}

void *malloc(size_t size)
{
    return on ? take(ALIGN, size) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes = 0;

    if (!on) {
        return __libc_calloc(count, size);
    }
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return memset(take(ALIGN, bytes), 0, bytes);
}

void free(void *ptr)
{
    struct block *b = (struct block *)ptr - 1;

    if (!ours(ptr)) {
        __libc_free(ptr);
        return;
    }
    if (!on) {
        return; /* Left over from a schedule that was given up. */
    }
    if (b->magic != MAGIC_LIVE) {
        weave_fail("heap", "%s",
                   b->magic == MAGIC_FREED ? "a block was freed twice" : "a wild free");
    }
    b->magic = MAGIC_FREED;
    if (weave_live() > 1) {
        reduce_freed(weave_self(), ptr, b->size);
    }
    memset(ptr, BYTE_FREED, b->size);
}

void *realloc(void *ptr, size_t size)
{
    void *moved;

    if (ptr == NULL) {
        return malloc(size);
    }
    if (!ours(ptr)) {
        return __libc_realloc(ptr, size);
    }
    moved = malloc(size);
    if (moved != NULL) {
        size_t old = ((struct block *)ptr - 1)->size;

        memcpy(moved, ptr, old < size ? old : size);
        free(ptr);
    }
    return moved;
}

void *aligned_alloc(size_t align, size_t size)
{
    return on ? take(align < ALIGN ? ALIGN : align, size) : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p = aligned_alloc(align, size);

    if (p == NULL) {
        return ENOMEM;
    }
    *ret = p;
    return 0;
}
