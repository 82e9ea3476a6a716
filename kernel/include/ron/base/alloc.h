/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h - the only door to the heap.
 *
 * Why not malloc: every allocation can be made to fail by a test (fault.h), sizes are overflow
 * checked, and the leak count of the fault sweep sees every block. banned.h makes the raw functions
 * compile errors elsewhere.
 *
 * Rules:
 *   A1. Failure is NULL, never an abort. The caller turns it into RON_NOMEM.
 *   A2. A request of 0 bytes gives a unique block that must be freed: NULL always means failure.
 *   A3. Blocks are aligned for any basic type; ron_alloc_aligned gives more.
 *   A4. Every block, aligned or not, is released with ron_free. ron_free(NULL) does nothing.
 *
 * Threads: any thread, any time. Hot paths do not allocate; they use pools and arenas.
 */
#pragma once

#include <stddef.h>

#include "ron/base/macros.h"

/* Marks a function whose result is a fresh block to be released by `dealloc`. gcc then tracks leaks
 * and mismatched releases; clang 14 refuses the form with arguments. */
#if defined(__GNUC__) && !defined(__clang__)
#define RON_MALLOC_LIKE(dealloc)                                                                   \
    __attribute__((__malloc__, __malloc__(dealloc, 1), warn_unused_result))
#else
#define RON_MALLOC_LIKE(dealloc) __attribute__((__malloc__, warn_unused_result))
#endif

void ron_free(void *ptr);

/* Workers of the macros below; `site` names the calling function for fault and leak reports. */
void *ron_alloc_at(size_t size, const char *site) RON_MALLOC_LIKE(ron_free)
    __attribute__((alloc_size(1)));
void *ron_alloc_zero_at(size_t size, const char *site) RON_MALLOC_LIKE(ron_free)
    __attribute__((alloc_size(1)));
void *ron_alloc_array_at(size_t count, size_t size, const char *site) RON_MALLOC_LIKE(ron_free)
    __attribute__((alloc_size(1, 2)));
void *ron_alloc_aligned_at(size_t align, size_t size, const char *site) RON_MALLOC_LIKE(ron_free)
    __attribute__((alloc_size(2)));
void *ron_realloc_array_at(void *ptr, size_t count, size_t size, const char *site) RON_MUST_USE
    __attribute__((alloc_size(2, 3)));
char *ron_strdup_at(const char *text, const char *site) RON_MALLOC_LIKE(ron_free);

/* size bytes, content undefined. */
#define ron_alloc(size) ron_alloc_at((size), __func__)

/* size bytes of zero. */
#define ron_alloc_zero(size) ron_alloc_zero_at((size), __func__)

/* count elements of size bytes, zeroed. NULL when the product overflows. */
#define ron_alloc_array(count, size) ron_alloc_array_at((count), (size), __func__)

/* size bytes at a multiple of align, which is a power of two; content undefined. */
#define ron_alloc_aligned(align, size) ron_alloc_aligned_at((align), (size), __func__)

/* Grows or shrinks a block (or makes one, when ptr is NULL) to count elements of size bytes. New
 * bytes are undefined. On failure the old block stays valid and still belongs to the caller. Not
 * for blocks of ron_alloc_aligned: the alignment would be lost. */
#define ron_realloc_array(ptr, count, size) ron_realloc_array_at((ptr), (count), (size), __func__)

/* Advice that the block should lie in huge pages, for large tables that are read at random: fewer
 * lookups then wait for the page tables. Has an effect on the whole huge pages (2 MiB, aligned)
 * inside the block, where the system allows it; content and ownership stay as they are. */
void ron_alloc_advise_huge(void *block, size_t size);

/* Gives memory that was freed back to the system. Takes milliseconds with much of it, and whoever
 * allocates meanwhile may wait: for a lull. */
void ron_alloc_trim(void);

/* A copy of a text. */
#define ron_strdup(text) ron_strdup_at((text), __func__)

/* Frees the block that a pointer variable refers to; for RON_CLEANUP. */
void ron_free_slot(void *slot);
#define RON_AUTO_FREE RON_CLEANUP(ron_free_slot)

/* When not NULL, told about each block: delta is +1 for a new one and -1 for a released one. The
 * fault sweep counts leaks with it. Same rule for threads as ron_fault_hook. */
extern void (*ron_alloc_watch)(int delta, const char *site);
