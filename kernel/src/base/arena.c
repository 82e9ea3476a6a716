/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - bounded bump allocator. The rules R1 to R3 are in the header.
 *
 * Place: base. One pointer moves up on alloc and back down on reset; the memory is one block taken
 * at init.
 *
 *     base            used                          size
 *      | live blocks ... | never or no longer used    |
 *
 * Memory of the arena's own is closed to AddressSanitizer beyond `used`. Memory of a caller is not,
 * because the caller may drop it without telling us.
 */
#include "ron/base/arena.h"

#include <string.h>

#include "poison.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/fault.h"

#define ARENA_MAGIC 0x41524e41u /* "ARNA" */

static void start(struct ron_arena *arena, void *memory, size_t size, bool owns_memory)
{
    *arena = (struct ron_arena){
        .magic = ARENA_MAGIC,
        .owns_memory = owns_memory,
        .base = memory,
        .size = size,
    };
    if (owns_memory) {
        ron_poison_close(memory, size);
    }
}

enum ron_rc ron_arena_init(struct ron_arena *arena, size_t size_max)
{
    if (size_max == 0) {
        return RON_INVALID;
    }
    void *memory = ron_alloc(size_max);

    if (memory == NULL) {
        return RON_NOMEM;
    }
    start(arena, memory, size_max, true);
    return RON_OK;
}

void ron_arena_init_over(struct ron_arena *arena, void *memory, size_t size)
{
    RON_ASSERT(memory != NULL);
    RON_ASSERT(size > 0);
    start(arena, memory, size, false);
}

void ron_arena_done(struct ron_arena *arena)
{
    if (arena->magic == 0) {
        return;
    }
    RON_CHECK_MAGIC(arena, ARENA_MAGIC);
    if (arena->owns_memory) {
        ron_poison_open(arena->base, arena->size);
        ron_free(arena->base);
    }
    memset(arena, 0, sizeof(*arena));
}

void *ron_arena_alloc(struct ron_arena *arena, size_t size, size_t align)
{
    RON_CHECK_MAGIC(arena, ARENA_MAGIC);
    RON_ASSERT(align != 0);
    RON_ASSERT((align & (align - 1)) == 0);
    RON_ASSERT_MSG(arena->used <= arena->size, "R1");

    /* The gap is computed on the address: the block itself need not be aligned as asked here. */
    size_t gap = (size_t)(-(uintptr_t)(arena->base + arena->used)) & (align - 1);
    size_t room = arena->size - arena->used;

    if (arena->overflow || gap > room || size > room - gap ||
        RON_FAULT(RON_FAULT_ALLOC, "ron_arena_alloc")) {
        arena->overflow = true; /* R2 */
        return NULL;
    }
    uint8_t *block = arena->base + arena->used + gap;

    arena->used += gap + size;
    arena->used_peak = RON_MAX(arena->used_peak, arena->used);
    if (arena->owns_memory) {
        ron_poison_open(block, size);
    }
    return block;
}

void *ron_arena_alloc_array(struct ron_arena *arena, size_t count, size_t size, size_t align)
{
    size_t total = 0;

    if (__builtin_mul_overflow(count, size, &total)) {
        arena->overflow = true; /* R2 */
        return NULL;
    }
    void *block = ron_arena_alloc(arena, total, align);

    if (block != NULL) {
        memset(block, 0, total);
    }
    return block;
}

char *ron_arena_dup(struct ron_arena *arena, const void *bytes, size_t len)
{
    size_t total = 0;

    if (__builtin_add_overflow(len, 1, &total)) {
        arena->overflow = true; /* R2 */
        return NULL;
    }
    char *copy = ron_arena_alloc(arena, total, 1);

    if (copy != NULL) {
        if (len > 0) {
            memcpy(copy, bytes, len);
        }
        copy[len] = '\0';
    }
    return copy;
}

struct ron_arena_mark ron_arena_mark(const struct ron_arena *arena)
{
    RON_CHECK_MAGIC(arena, ARENA_MAGIC);
    return (struct ron_arena_mark){.used = arena->used, .overflow = arena->overflow};
}

void ron_arena_reset(struct ron_arena *arena, struct ron_arena_mark mark)
{
    RON_CHECK_MAGIC(arena, ARENA_MAGIC);
    RON_ASSERT_MSG(mark.used <= arena->used, "marks are reset last-in first-out");

    uint8_t *dead = arena->base + mark.used;
    size_t dead_len = arena->used - mark.used;

    if (arena->owns_memory) {
        ron_poison_open(dead, dead_len); /* gaps between blocks were never opened */
    }
    ron_poison_fill(dead, dead_len);
    if (arena->owns_memory) {
        ron_poison_close(dead, dead_len);
    }
    arena->used = mark.used;
    arena->overflow = mark.overflow;
}

void ron_arena_clear(struct ron_arena *arena)
{
    ron_arena_reset(arena, (struct ron_arena_mark){.used = 0, .overflow = false});
}
