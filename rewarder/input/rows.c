/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/rows.c - the rows of rows.h: blocks of rows, blocks of names.
 *
 *     row blocks    |row row row ... 2048|row row ...|        row: three counters and a place
 *     name blocks   |alice|bob|t:1/svc:a|...  64 KiB|...|     place: block, offset, length
 *
 * Invariants:
 *   I1. Blocks never move and only the last one of each kind has room; rows lie in the order of
 *       their index, so an index is a block and a number in it.
 *   I2. `in_order` tells that every name is above the one before it: then there is nothing to sort
 *       and no name stands twice.
 *   I3. `memory` is the bytes of all blocks and tables, at most bytes_max.
 *   I4. All names begin with the first `shared` bytes of the first name: where sorting begins to
 *       look.
 *
 * Failure: a call that fails has changed nothing that can be seen, but may have kept an empty
 * block. */
#include "rewarder/input/rows.h"

#include <string.h>

#include "rewarder/input/rows_sort.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    /* 64 KiB each: small beside ten million rows and no burden for two. */
    ROWS_PER_BLOCK = 2048,
    NAME_BLOCK_BYTES = 65536,
    TABLE_FIRST = 16,
    /* How far ahead of a reader in sorted order names are fetched: far enough for memory, near
     * enough to stay in the first cache. */
    AHEAD = 8,
};
#define ROWS_MAX UINT32_MAX /* an index has 32 bits while sorting */

struct row {
    struct rwd_counters counters;
    uint64_t place; /* block << 24 | offset << 8 | length */
};
_Static_assert(RWD_ACCOUNT_MAX < 256, "a length has 8 bits");
_Static_assert(NAME_BLOCK_BYTES <= 65536, "an offset has 16 bits");

/* A growing list of blocks of one size. */
struct blocks {
    void **at;
    size_t count;
    size_t room;
};

struct rwd_rows {
    struct blocks rows;
    struct blocks names;
    size_t name_used; /* of the last name block */
    uint64_t count;
    uint64_t memory;
    uint64_t rows_max;
    uint64_t bytes_max;
    size_t shared;
    bool in_order;
    bool sealed;
};

static inline struct row *row_at(const struct rwd_rows *rows, uint64_t index)
{
    return (struct row *)rows->rows.at[index / ROWS_PER_BLOCK] + index % ROWS_PER_BLOCK;
}

static inline struct ron_str name_of(const struct rwd_rows *rows, const struct row *row)
{
    const char *block = rows->names.at[row->place >> 24];

    return (struct ron_str){block + (row->place >> 8 & 0xffff), row->place & 0xff};
}

/* ---- memory ---------------------------------------------------------------------------------- */

static enum ron_rc may_take(const struct rwd_rows *rows, uint64_t bytes, struct ron_err *err)
{
    if (bytes > rows->bytes_max - rows->memory) {
        return ron_err_set(err, RON_LIMIT, "the rows need more than %llu bytes of memory",
                           (unsigned long long)rows->bytes_max);
    }
    return RON_OK;
}

static enum ron_rc blocks_grow(struct rwd_rows *rows, struct blocks *b, struct ron_err *err)
{
    size_t room = b->room == 0 ? TABLE_FIRST : 2 * b->room;
    void **at;

    RON_TRY(may_take(rows, (room - b->room) * sizeof *at, err));
    at = ron_realloc_array(b->at, room, sizeof *at);
    if (at == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for rows");
    }
    rows->memory += (room - b->room) * sizeof *at;
    b->at = at;
    b->room = room;
    return RON_OK;
}

static enum ron_rc blocks_add(struct rwd_rows *rows, struct blocks *b, size_t bytes,
                              struct ron_err *err)
{
    void *block;

    if (b->count == b->room) {
        RON_TRY(blocks_grow(rows, b, err));
    }
    RON_TRY(may_take(rows, bytes, err));
    block = ron_alloc(bytes);
    if (block == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for rows");
    }
    rows->memory += bytes;
    b->at[b->count++] = block;
    return RON_OK;
}

static void blocks_free(struct blocks *b)
{
    for (size_t i = 0; i < b->count; i++) {
        ron_free(b->at[i]);
    }
    ron_free(b->at);
}

enum ron_rc rwd_rows_new(const struct rwd_rows_opts *opts, struct rwd_rows **ret_rows,
                         struct ron_err *err)
{
    struct rwd_rows *rows = ron_alloc_zero(sizeof *rows);

    if (rows == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for rows");
    }
    rows->rows_max = ROWS_MAX;
    rows->bytes_max = UINT64_MAX;
    if (opts != NULL && opts->rows_max != 0) {
        rows->rows_max = RON_MIN(opts->rows_max, (uint64_t)ROWS_MAX);
    }
    if (opts != NULL && opts->bytes_max != 0) {
        rows->bytes_max = opts->bytes_max;
    }
    rows->in_order = true;
    *ret_rows = rows;
    return RON_OK;
}

void rwd_rows_free(struct rwd_rows *rows)
{
    if (rows != NULL) {
        blocks_free(&rows->rows);
        blocks_free(&rows->names);
        ron_free(rows);
    }
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* Room for one more row and a name of `len` bytes: I1. */
static enum ron_rc make_room(struct rwd_rows *rows, size_t len, struct ron_err *err)
{
    if (rows->count >= rows->rows_max) {
        return ron_err_set(err, RON_LIMIT, "there are more than %llu rows",
                           (unsigned long long)rows->rows_max);
    }
    if (rows->count == rows->rows.count * ROWS_PER_BLOCK) {
        RON_TRY(blocks_add(rows, &rows->rows, ROWS_PER_BLOCK * sizeof(struct row), err));
    }
    if (rows->names.count == 0 || rows->name_used + len > NAME_BLOCK_BYTES) {
        RON_TRY(blocks_add(rows, &rows->names, NAME_BLOCK_BYTES, err));
        rows->name_used = 0;
    }
    return RON_OK;
}

static int name_cmp(struct ron_str a, struct ron_str b)
{
    int order = memcmp(a.ptr, b.ptr, RON_MIN(a.len, b.len));

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Keeps I2 and I4 with the name of a row that is about to become the last one. */
static void look_at_order(struct rwd_rows *rows, struct ron_str name)
{
    struct ron_str first;

    if (rows->count == 0) {
        rows->shared = name.len;
        return;
    }
    rows->in_order =
        rows->in_order && name_cmp(name_of(rows, row_at(rows, rows->count - 1)), name) < 0;
    first = name_of(rows, row_at(rows, 0));
    rows->shared = RON_MIN(rows->shared, name.len);
    while (memcmp(first.ptr, name.ptr, rows->shared) != 0) {
        rows->shared--;
    }
}

enum ron_rc rwd_rows_add(struct rwd_rows *rows, struct ron_str account,
                         const struct rwd_counters *counters, struct ron_err *err)
{
    struct row *row;
    char *block;

    RON_ASSERT(!rows->sealed);
    RON_ASSERT(account.len > 0 && account.len <= RWD_ACCOUNT_MAX);
    RON_TRY(make_room(rows, account.len, err));
    look_at_order(rows, account);
    block = rows->names.at[rows->names.count - 1];
    memcpy(block + rows->name_used, account.ptr, account.len);
    row = row_at(rows, rows->count);
    row->counters = *counters;
    row->place = (uint64_t)(rows->names.count - 1) << 24 | rows->name_used << 8 | account.len;
    rows->name_used += account.len;
    rows->count++;
    return RON_OK;
}

/* ---- sealing --------------------------------------------------------------------------------- */

static struct ron_str name_by_index(const void *arg, uint32_t index)
{
    const struct rwd_rows *rows = arg;

    return name_of(rows, row_at(rows, index));
}

/* Moves every row to its place: order[i] is the index of the row that belongs to i. Along the
 * cycles of the order, so that one row of room is enough. */
static void put_in_order(struct rwd_rows *rows, const struct rwd__sort *sort, uint64_t *order)
{
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t at = i;
        uint64_t from = rwd__sort_index(sort, order[at]);
        struct row kept;

        if (from == i) {
            continue;
        }
        kept = *row_at(rows, i);
        for (; from != i; from = rwd__sort_index(sort, order[at])) {
            *row_at(rows, at) = *row_at(rows, from);
            order[at] = at;
            at = from;
        }
        *row_at(rows, at) = kept;
        order[at] = at;
    }
}

static enum ron_rc sort_rows(struct rwd_rows *rows, struct ron_err *err)
{
    struct rwd__sort sort;
    uint64_t bytes = rows->count * sizeof(uint64_t);
    RON_AUTO_FREE uint64_t *order = NULL;
    uint32_t twice;

    RON_TRY(may_take(rows, bytes, err));
    order = ron_alloc(bytes);
    if (order == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to sort rows");
    }
    ron_alloc_advise_huge(order, bytes);
    rwd__sort_init(&sort, (uint32_t)rows->count, name_by_index, rows);
    if (!rwd__sort(&sort, order, (uint32_t)rows->count, rows->shared, &twice)) {
        struct ron_str name = name_by_index(rows, twice);

        return ron_err_set(err, RON_EXISTS, "account %.*s stands twice", (int)name.len, name.ptr);
    }
    put_in_order(rows, &sort, order);
    return RON_OK;
}

enum ron_rc rwd_rows_seal(struct rwd_rows *rows, struct ron_err *err)
{
    RON_ASSERT(!rows->sealed);
    if (!rows->in_order) {
        RON_TRY(sort_rows(rows, err));
        rows->in_order = true;
    }
    rows->sealed = true;
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

uint64_t rwd_rows_count(const struct rwd_rows *rows)
{
    return rows->count;
}

uint64_t rwd_rows_memory(const struct rwd_rows *rows)
{
    return rows->memory;
}

struct ron_str rwd_rows_account(const struct rwd_rows *rows, uint64_t index)
{
    RON_ASSERT(index < rows->count);
    if (index + AHEAD < rows->count) {
        /* Rows are in order but their names lie where they came. */
        __builtin_prefetch(name_of(rows, row_at(rows, index + AHEAD)).ptr);
    }
    return name_of(rows, row_at(rows, index));
}

const struct rwd_counters *rwd_rows_counters(const struct rwd_rows *rows, uint64_t index)
{
    RON_ASSERT(index < rows->count);
    return &row_at(rows, index)->counters;
}
