/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/rows_sort.c - the radix sort of rows_sort.h.
 *
 * An entry is piece << index_bits | index, the first character of the piece on top, zeros behind
 * the end of the name. Equal pieces that end in a zero are equal names.
 *
 * Failure: none; equal names are a result. */
#include "rewarder/input/rows_sort.h"

enum {
    CHAR_BITS = 7,
    CHARS = 1 << CHAR_BITS,
    SMALL = 24, /* entries below which insertion is quicker than counting buckets */
};

/* ---- entries by their pieces ----------------------------------------------------------------- */

static void insertion_sort(uint64_t *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t x = a[i];
        size_t at = i;

        for (; at > 0 && a[at - 1] > x; at--) {
            a[at] = a[at - 1];
        }
        a[at] = x;
    }
}

/* Puts each entry into the bucket of its character at `shift`; ends[b] is where bucket b ends. */
static void distribute(uint64_t *a, size_t n, unsigned shift, uint32_t ends[CHARS])
{
    uint32_t next[CHARS];
    uint32_t sum = 0;

    for (size_t b = 0; b < CHARS; b++) {
        ends[b] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        ends[a[i] >> shift & (CHARS - 1)]++;
    }
    for (size_t b = 0; b < CHARS; b++) {
        next[b] = sum;
        sum += ends[b];
        ends[b] = sum;
    }
    for (size_t b = 0; b < CHARS; b++) {
        while (next[b] < ends[b]) {
            uint64_t x = a[next[b]];
            size_t to = x >> shift & (CHARS - 1);

            /* Each swap brings one entry home. */
            while (to != b) {
                uint64_t other = a[next[to]];

                a[next[to]++] = x;
                x = other;
                to = x >> shift & (CHARS - 1);
            }
            a[next[b]++] = x;
        }
    }
}

/* By the character at `shift` and those below it, down to the index. */
static void radix_sort(const struct rwd__sort *sort, /* NOLINT(misc-no-recursion): I2 */
                       uint64_t *a, size_t n, unsigned shift)
{
    uint32_t ends[CHARS];
    uint32_t from = 0;

    if (n <= SMALL) {
        insertion_sort(a, n);
        return;
    }
    distribute(a, n, shift, ends);
    if (shift == sort->index_bits) {
        return;
    }
    for (size_t b = 0; b < CHARS; b++) {
        if (ends[b] - from > 1) {
            radix_sort(sort, a + from, ends[b] - from, shift - CHAR_BITS);
        }
        from = ends[b];
    }
}

/* ---- names by their pieces ------------------------------------------------------------------- */

static uint64_t piece_of(struct ron_str name, size_t depth, unsigned piece)
{
    uint64_t v = 0;

    for (size_t i = depth; i < depth + piece; i++) {
        v = v << CHAR_BITS | (i < name.len ? (unsigned char)name.ptr[i] & (CHARS - 1) : 0);
    }
    return v;
}

/* The entries, all of names that agree before `depth`, get the piece that begins there. */
static void load_pieces(const struct rwd__sort *sort, uint64_t *a, size_t n, size_t depth)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t index = rwd__sort_index(sort, a[i]);
        uint64_t piece = piece_of(sort->name(sort->arg, index), depth, sort->piece);

        a[i] = piece << sort->index_bits | index;
    }
}

static bool sort_names(const struct rwd__sort *sort, /* NOLINT(misc-no-recursion): I2 */
                       uint64_t *a, size_t n, size_t depth, uint32_t *ret_twice)
{
    unsigned bits = sort->index_bits;
    size_t from = 0;

    load_pieces(sort, a, n, depth);
    radix_sort(sort, a, n, bits + (sort->piece - 1) * CHAR_BITS);
    for (size_t i = 1; i <= n; i++) {
        if (i < n && a[i] >> bits == a[from] >> bits) {
            continue;
        }
        if (i - from > 1) {
            if ((a[from] >> bits & (CHARS - 1)) == 0) {
                *ret_twice = rwd__sort_index(sort, a[from]);
                return false;
            }
            if (!sort_names(sort, a + from, i - from, depth + sort->piece, ret_twice)) {
                return false;
            }
        }
        from = i;
    }
    return true;
}

void rwd__sort_init(struct rwd__sort *sort, uint32_t count,
                    struct ron_str (*name)(const void *arg, uint32_t index), const void *arg)
{
    unsigned bits = 1;

    while (bits < 32 && (count - 1) >> bits != 0) {
        bits++;
    }
    *sort = (struct rwd__sort){
        .name = name, .arg = arg, .index_bits = bits, .piece = (64 - bits) / CHAR_BITS};
}

bool rwd__sort(const struct rwd__sort *sort, uint64_t *order, uint32_t count, size_t shared,
               uint32_t *ret_twice)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    return sort_names(sort, order, count, shared, ret_twice);
}
