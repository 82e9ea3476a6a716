/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/oz.c - building, proving and writing an OpenZeppelin tree. */
#include <string.h>

#include "rewarder/tree/oz_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { OUT_ROUND = 1 << 16, /* bytes handed to the sink at once */ CAP_FIRST = 1024 };

enum ron_rc rwd_oz_new(const struct ron_str *types, size_t type_count, struct rwd_oz **ret_oz,
                       struct ron_err *err)
{
    struct rwd_abi abi;
    struct rwd_oz *oz;

    RON_TRY(rwd_abi_init(&abi, types, type_count, err));
    oz = ron_alloc_zero(sizeof *oz);
    if (oz == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a tree");
    }
    oz->abi = abi;
    ron_buf_init(&oz->rows, RWD__OZ_ROWS_BYTES);
    ron_buf_init(&oz->stage, RWD_ABI_TYPES_MAX * (RWD_ABI_VALUE_MAX + 3 * RWD_ABI_WORD) +
                                 RWD__OZ_STAGE * RWD_ABI_TYPES_MAX * RWD_ABI_WORD);
    *ret_oz = oz;
    return RON_OK;
}

void rwd_oz_free(struct rwd_oz *oz)
{
    if (oz == NULL) {
        return;
    }
    ron_buf_done(&oz->rows);
    ron_buf_done(&oz->stage);
    ron_free(oz->ends);
    ron_free(oz->hashes);
    ron_free(oz->places);
    rwd_tree_done(&oz->tree);
    ron_free(oz);
}

static enum ron_rc grow(struct rwd_oz *oz, struct ron_err *err)
{
    size_t cap = oz->cap == 0 ? CAP_FIRST : 2 * oz->cap;
    uint64_t *ends;
    struct rwd_keccak *hashes;

    if (oz->count == RWD_TREE_LEAVES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tree has at most %d leaves", RWD_TREE_LEAVES_MAX);
    }
    ends = ron_realloc_array(oz->ends, cap, sizeof *ends);
    if (ends == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for %zu leaves", cap);
    }
    oz->ends = ends;
    hashes = ron_realloc_array(oz->hashes, cap, sizeof *hashes);
    if (hashes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for %zu leaves", cap);
    }
    oz->hashes = hashes;
    oz->cap = cap;
    return RON_OK;
}

void rwd__oz_flush(struct rwd_oz *oz)
{
    if (oz->staged > 0) {
        struct rwd_keccak *to = oz->hashes + (oz->count - oz->staged);
        size_t len = ron_buf_len(&oz->stage) / oz->staged;

        rwd_keccak256_many(ron_buf_data(&oz->stage), len, len, oz->staged, to);
        rwd_keccak256_many(to->bytes, sizeof *to, sizeof *to, oz->staged, to);
        ron_buf_clear(&oz->stage);
        oz->staged = 0;
    }
}

enum ron_rc rwd__oz_add(struct rwd_oz *oz, const struct ron_str *texts, struct ron_str row,
                        struct ron_err *err)
{
    if (oz->count == oz->cap) {
        RON_TRY(grow(oz, err));
    }
    RON_TRY(rwd_abi_encode(&oz->abi, texts, &oz->stage, err));
    if (ron_buf_append(&oz->rows, row.ptr, row.len) != RON_OK) {
        return ron_err_set(err, ron_buf_error(&oz->rows), "the values take too much memory");
    }
    oz->ends[oz->count++] = ron_buf_len(&oz->rows);
    oz->staged++;
    /* Side by side stand only leaves of equal length. */
    if (oz->abi.has_dynamic || oz->staged == RWD__OZ_STAGE) {
        rwd__oz_flush(oz);
    }
    return RON_OK;
}

enum ron_rc rwd_oz_add(struct rwd_oz *oz, const struct ron_str *texts, struct ron_err *err)
{
    char memory[1024]; /* fits all but long strings */
    struct ron_buf row;
    struct ron_json_writer w;
    enum ron_rc rc;

    RON_ASSERT(oz->tree.nodes == NULL);
    for (size_t i = 0; i < oz->abi.count; i++) {
        if (texts[i].len > 2 * RWD_ABI_VALUE_MAX + 2) {
            return ron_err_set(err, RON_LIMIT, "value %zu is longer than %d bytes", i + 1,
                               RWD_ABI_VALUE_MAX);
        }
    }
    ron_buf_init_over(&row, memory, sizeof memory);
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        ron_json_begin(&w, &row);
        ron_json_open(&w, NULL, '[');
        for (size_t i = 0; i < oz->abi.count; i++) {
            if (oz->abi.types[i].kind == RWD_ABI_BOOL) {
                ron_json_raw(&w, NULL, texts[i]);
            } else {
                ron_json_str(&w, NULL, texts[i]);
            }
        }
        ron_json_close(&w, ']');
        if (ron_buf_error(&row) == RON_OK) {
            break;
        }
        ron_buf_init(&row, (size_t)6 * RWD_ABI_TYPES_MAX * (2 * RWD_ABI_VALUE_MAX + 8));
    }
    rc = ron_buf_error(&row);
    if (rc == RON_OK) {
        rc = rwd__oz_add(
            oz, texts, (struct ron_str){(const char *)ron_buf_data(&row), ron_buf_len(&row)}, err);
    } else {
        rc = ron_err_set(err, rc, "the values of a leaf take too much memory");
    }
    ron_buf_done(&row);
    return rc;
}

enum ron_rc rwd_oz_build(struct rwd_oz *oz, struct ron_err *err)
{
    uint32_t *order = NULL;
    enum ron_rc rc;

    RON_ASSERT(oz->tree.nodes == NULL);
    if (oz->count == 0) {
        return ron_err_set(err, RON_INVALID, "a tree has at least one leaf");
    }
    rwd__oz_flush(oz);
    oz->places = ron_alloc_array(oz->count, sizeof *oz->places);
    if (oz->places == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for %zu leaves", oz->count);
    }
    RON_TRY(rwd_tree_order(oz->hashes, oz->count, &order, err));
    rc = rwd_tree_init(&oz->tree, oz->count, err);
    if (rc == RON_OK) {
        for (size_t i = 0; i < oz->count; i++) {
            size_t at = 2 * oz->count - 1 - i;

            oz->tree.nodes[at] = oz->hashes[order[i]];
            oz->places[order[i]] = (uint32_t)(at - 1);
        }
        rwd_tree_build(&oz->tree);
        ron_free(RON_TAKE(oz->hashes));
    }
    ron_free(order);
    return rc;
}

/* ---- looking --------------------------------------------------------------------------------- */

size_t rwd_oz_count(const struct rwd_oz *oz)
{
    return oz->count;
}

const struct rwd_keccak *rwd_oz_root(const struct rwd_oz *oz)
{
    return &oz->tree.nodes[1];
}

const struct rwd_abi *rwd_oz_types(const struct rwd_oz *oz)
{
    return &oz->abi;
}

struct ron_str rwd_oz_value(const struct rwd_oz *oz, size_t index)
{
    uint64_t from = index == 0 ? 0 : oz->ends[index - 1];

    RON_ASSERT(index < oz->count);
    return (struct ron_str){(const char *)ron_buf_data(&oz->rows) + from, oz->ends[index] - from};
}

size_t rwd_oz_tree_index(const struct rwd_oz *oz, size_t index)
{
    RON_ASSERT(index < oz->count);
    return oz->places[index];
}

void rwd_oz_prove(const struct rwd_oz *oz, size_t index, struct rwd_tree_proof *ret_proof)
{
    rwd_tree_prove(&oz->tree, rwd_oz_tree_index(oz, index) + 1, ret_proof);
}

/* Whether one of the values is the address; those of a tree need no unescaping to tell. */
static bool row_has(const struct rwd_abi *abi, struct ron_str row, const uint8_t *address)
{
    struct ron_str item;
    size_t at = 1;

    for (size_t i = 0; i < abi->count && rwd_json_next(row, &at, NULL, &item); i++) {
        uint8_t bytes[RWD_ADDRESS_BYTES];

        if (abi->types[i].kind == RWD_ABI_ADDRESS && item.len == RWD_ADDRESS_TEXT + 2 &&
            rwd_hex_get((struct ron_str){item.ptr + 1, item.len - 2}, bytes, sizeof bytes) &&
            memcmp(bytes, address, sizeof bytes) == 0) {
            return true;
        }
    }
    return false;
}

bool rwd_oz_find(const struct rwd_oz *oz, const uint8_t address[RWD_ADDRESS_BYTES], size_t *at)
{
    for (size_t i = *at; i < oz->count; i++) {
        if (row_has(&oz->abi, rwd_oz_value(oz, i), address)) {
            *at = i;
            return true;
        }
    }
    return false;
}

/* ---- dump ------------------------------------------------------------------------------------ */

/* Hands over what has gathered, when it is enough. */
static enum ron_rc pour(struct ron_buf *out, size_t enough, const struct rwd_sink *sink,
                        struct ron_err *err)
{
    if (ron_buf_error(out) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no memory to write a tree");
    }
    if (ron_buf_len(out) >= enough && ron_buf_len(out) > 0) {
        RON_TRY(sink->put(sink->arg, ron_buf_data(out), ron_buf_len(out), err));
        ron_buf_clear(out);
    }
    return RON_OK;
}

static enum ron_rc dump_tree(const struct rwd_oz *oz, struct ron_json_writer *w,
                             const struct rwd_sink *sink, struct ron_err *err)
{
    ron_json_open(w, "tree", '[');
    for (size_t i = 1; i < 2 * oz->count; i++) {
        char text[RWD_HASH_TEXT];

        rwd_hex_put(oz->tree.nodes[i].bytes, RWD_KECCAK_BYTES, text);
        ron_json_str(w, NULL, (struct ron_str){text, sizeof text});
        RON_TRY(pour(w->out, OUT_ROUND, sink, err));
    }
    ron_json_close(w, ']');
    return RON_OK;
}

static enum ron_rc dump_values(const struct rwd_oz *oz, struct ron_json_writer *w,
                               const struct rwd_sink *sink, struct ron_err *err)
{
    ron_json_open(w, "values", '[');
    for (size_t i = 0; i < oz->count; i++) {
        ron_json_open(w, NULL, '{');
        ron_json_raw(w, "value", rwd_oz_value(oz, i));
        ron_json_u64(w, "treeIndex", oz->places[i]);
        ron_json_close(w, '}');
        RON_TRY(pour(w->out, OUT_ROUND, sink, err));
    }
    ron_json_close(w, ']');
    return RON_OK;
}

enum ron_rc rwd_oz_dump(const struct rwd_oz *oz, const struct rwd_sink *sink, struct ron_err *err)
{
    struct ron_json_writer w;
    struct ron_buf out;
    enum ron_rc rc;

    RON_ASSERT(oz->tree.nodes != NULL);
    ron_buf_init(&out, 2 * (size_t)OUT_ROUND + 6 * (size_t)RWD__OZ_ROWS_BYTES);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "format", "standard-v1");
    ron_json_open(&w, "leafEncoding", '[');
    for (size_t i = 0; i < oz->abi.count; i++) {
        ron_json_text(&w, NULL, oz->abi.types[i].name);
    }
    ron_json_close(&w, ']');
    rc = dump_tree(oz, &w, sink, err);
    if (rc == RON_OK) {
        rc = dump_values(oz, &w, sink, err);
    }
    if (rc == RON_OK) {
        ron_json_close(&w, '}');
        rc = pour(&out, 1, sink, err);
    }
    ron_buf_done(&out);
    return rc;
}
