/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - bounded bump allocator for things that die together, such as one request.
 *
 * Place: base. The arena takes its whole size once, at init; untouched pages cost no memory. After
 * that it never calls the heap, so it cannot fragment or grow past its maximum.
 *
 * Invariants:
 *   R1. used <= size, and size never changes after init.
 *   R2. Once an allocation failed, `overflow` stays set and every later allocation fails too, until
 *       a reset to a mark from before the failure. A caller may therefore build something out of
 *       many pieces and check once at the end.
 *   R3. Resetting to a mark makes every block allocated after it invalid. In checked builds those
 *       bytes are overwritten, and under AddressSanitizer touching them is reported.
 *
 * Threads: one at a time. Ownership: the arena owns all blocks; they are never freed one by one.
 *
 * Right: take a mark, build, use, reset to the mark.
 * Wrong: keep a pointer across the reset, or take marks and reset them in another order than
 * last-in first-out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

struct ron_arena {
    uint32_t magic;
    bool owns_memory;
    bool overflow;
    uint8_t *base;
    size_t size;
    size_t used;
    size_t used_peak; /* highest `used` so far, to learn what a good maximum is */
};

struct ron_arena_mark {
    size_t used;
    bool overflow;
};

/* An arena of at most size_max bytes. RON_INVALID for 0, RON_NOMEM. */
enum ron_rc ron_arena_init(struct ron_arena *arena, size_t size_max) RON_MUST_USE;

/* An arena over memory of the caller, who keeps owning it. size must not be 0. */
void ron_arena_init_over(struct ron_arena *arena, void *memory, size_t size);

/* Releases the memory. Also fine on a struct of zeros. */
void ron_arena_done(struct ron_arena *arena);

/* size bytes at a multiple of align (a power of two), content undefined; NULL when they do not fit
 * or R2 holds. A size of 0 gives a valid pointer. */
void *ron_arena_alloc(struct ron_arena *arena, size_t size, size_t align) RON_MUST_USE;

/* count elements of size bytes, zeroed; NULL also when the product overflows. */
void *ron_arena_alloc_array(struct ron_arena *arena, size_t count, size_t size,
                            size_t align) RON_MUST_USE;

/* A copy of len bytes with a NUL behind them; bytes may be NULL when len is 0. */
char *ron_arena_dup(struct ron_arena *arena, const void *bytes, size_t len) RON_MUST_USE;

struct ron_arena_mark ron_arena_mark(const struct ron_arena *arena);
void ron_arena_reset(struct ron_arena *arena, struct ron_arena_mark mark);

/* Resets to empty, overflow flag included. */
void ron_arena_clear(struct ron_arena *arena);

static inline bool ron_arena_overflowed(const struct ron_arena *arena)
{
    return arena->overflow;
}

/* One element of a type. */
#define RON_ARENA_NEW(arena, type) ((type *)ron_arena_alloc((arena), sizeof(type), _Alignof(type)))
