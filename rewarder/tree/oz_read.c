/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/oz_read.c - reading a dump of an OpenZeppelin tree, and checking it on the way.
 *
 * The kernel's scanner takes the outer shape apart; the values of a leaf, whose types differ, are
 * kept as text and read here. Nothing of the file is believed: leaves are hashed anew and all nodes
 * are computed and compared. */
#include <inttypes.h>
#include <string.h>

#include "rewarder/tree/oz_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

struct value {
    struct ron_str value;
    uint64_t treeIndex;
    uint64_t present;
};
static const struct ron_json_field value_fields[] = {
    RON_JSON_FIELD(struct value, value, RAW, .required = true),
    RON_JSON_FIELD(struct value, treeIndex, U64, .required = true),
};
static const struct ron_json_shape value_shape =
    RON_JSON_SHAPE(struct value, value_fields, present);

struct dump {
    struct ron_str format;
    struct ron_json_items leafEncoding;
    struct ron_json_items tree;
    struct ron_json_items values;
    uint64_t present;
};
static const struct ron_json_field dump_fields[] = {
    RON_JSON_FIELD(struct dump, format, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct dump, leafEncoding, STRINGS, .required = true, .max = RWD_ABI_TYPES_MAX),
    RON_JSON_FIELD(struct dump, tree, STRINGS, .required = true,
                   .max = (uint64_t)2 * RWD_TREE_LEAVES_MAX),
    RON_JSON_FIELD(struct dump, values, ARRAY, .required = true, .max = RWD_TREE_LEAVES_MAX,
                   .shape = &value_shape, .item_size = sizeof(struct value)),
};
static const struct ron_json_shape dump_shape = RON_JSON_SHAPE(struct dump, dump_fields, present);

/* A string alone, to have its escapes resolved by the scanner. */
struct lone {
    struct ron_str v;
    uint64_t present;
};
static const struct ron_json_field lone_fields[] = {
    RON_JSON_FIELD(struct lone, v, STRING, .required = true)};
static const struct ron_json_shape lone_shape = RON_JSON_SHAPE(struct lone, lone_fields, present);

/* ---- values ---------------------------------------------------------------------------------- */

/* The text of a JSON string. `scratch` has room: it does not move. */
static enum ron_rc string_text(struct ron_str item, struct ron_buf *scratch, struct ron_str *ret)
{
    size_t begin = ron_buf_len(scratch);
    struct lone lone = {0};

    if (memchr(item.ptr, '\\', item.len) == NULL) {
        *ret = (struct ron_str){item.ptr + 1, item.len - 2};
        return RON_OK;
    }
    RON_TRY(ron_buf_append_text(scratch, "{\"v\":"));
    RON_TRY(ron_buf_append(scratch, item.ptr, item.len));
    RON_TRY(ron_buf_append_byte(scratch, '}'));
    RON_TRY(ron_json_scan((char *)scratch->memory + scratch->head + begin,
                          ron_buf_len(scratch) - begin, &lone_shape, NULL, &lone, NULL));
    *ret = lone.v;
    return RON_OK;
}

static enum ron_rc item_text(const struct rwd_abi_type *type, struct ron_str item,
                             struct ron_buf *scratch, struct ron_str *ret)
{
    if (item.ptr[0] == '"') {
        return string_text(item, scratch, ret);
    }
    /* A number of more digits would have lost some on its way through JavaScript. */
    if (type->kind == RWD_ABI_BOOL || (type->kind == RWD_ABI_UINT && item.len <= 15)) {
        *ret = item;
        return RON_OK;
    }
    return RON_INVALID;
}

enum ron_rc rwd__oz_row_texts(const struct rwd_abi *abi, struct ron_str row,
                              struct ron_buf *scratch, struct ron_str texts[RWD_ABI_TYPES_MAX],
                              struct ron_err *err)
{
    struct ron_str item;
    uint8_t *room = NULL;
    size_t count = 0;
    size_t at = 1;

    ron_buf_clear(scratch);
    if (ron_buf_reserve(scratch, row.len + RWD_ABI_TYPES_MAX * sizeof "{'v':}", &room) != RON_OK) {
        return ron_err_set(err, ron_buf_error(scratch), "the values of a leaf are too long");
    }
    if (row.ptr[0] != '[') {
        return ron_err_set(err, RON_INVALID, "value is no array");
    }
    while (rwd_json_next(row, &at, NULL, &item)) {
        if (count == abi->count) {
            return ron_err_set(err, RON_INVALID, "more values than types");
        }
        if (item_text(&abi->types[count], item, scratch, &texts[count]) != RON_OK) {
            return ron_err_set(err, RON_INVALID, "value %zu is no %s", count + 1,
                               abi->types[count].name);
        }
        count++;
    }
    return count == abi->count ? RON_OK : ron_err_set(err, RON_INVALID, "fewer values than types");
}

/* The items of an array without the blanks between them. */
static void compact(struct ron_str row, struct ron_buf *out)
{
    struct ron_str item;
    size_t at = 1;

    ron_buf_clear(out);
    (void)ron_buf_append_byte(out, '['); /* A full buffer remembers its failure. */
    while (rwd_json_next(row, &at, NULL, &item)) {
        if (ron_buf_len(out) > 1) {
            (void)ron_buf_append_byte(out, ',');
        }
        (void)ron_buf_append(out, item.ptr, item.len);
    }
    (void)ron_buf_append_byte(out, ']');
}

static enum ron_rc add_values(struct rwd_oz *oz, const struct dump *dump, struct ron_err *err)
{
    const struct value *values = dump->values.items;
    struct ron_buf scratch;
    struct ron_buf row;
    enum ron_rc rc = RON_OK;

    ron_buf_init(&scratch, (size_t)2 * RWD__OZ_ROW_MAX);
    ron_buf_init(&row, RWD__OZ_ROW_MAX);
    for (size_t i = 0; rc == RON_OK && i < dump->values.count; i++) {
        struct ron_str texts[RWD_ABI_TYPES_MAX];

        rc = rwd__oz_row_texts(&oz->abi, values[i].value, &scratch, texts, err);
        if (rc == RON_OK) {
            compact(values[i].value, &row);
            rc = ron_buf_error(&row) != RON_OK
                     ? ron_err_set(err, ron_buf_error(&row), "the values are too long")
                     : rwd__oz_add(
                           oz, texts,
                           (struct ron_str){(const char *)ron_buf_data(&row), ron_buf_len(&row)},
                           err);
        }
        if (rc != RON_OK) {
            ron_err_prefix(err, "values[%zu]", i);
        }
    }
    ron_buf_done(&scratch);
    ron_buf_done(&row);
    return rc;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Puts every leaf where its value says it is. */
static enum ron_rc place_leaves(struct rwd_oz *oz, const struct dump *dump, struct ron_err *err)
{
    const struct value *values = dump->values.items;
    size_t n = oz->count;
    RON_AUTO_FREE bool *taken = ron_alloc_array(n, sizeof *taken);

    oz->places = ron_alloc_array(n, sizeof *oz->places);
    if (oz->places == NULL || taken == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for %zu leaves", n);
    }
    RON_TRY(rwd_tree_init(&oz->tree, n, err));
    for (size_t i = 0; i < n; i++) {
        uint64_t place = values[i].treeIndex;

        if (place < n - 1 || place > 2 * n - 2) {
            return ron_err_set(err, RON_CONFLICT, "values[%zu]: treeIndex %" PRIu64 " is no leaf",
                               i, place);
        }
        if (taken[place - (n - 1)]) {
            return ron_err_set(err, RON_CONFLICT,
                               "values[%zu]: treeIndex %" PRIu64 " belongs to two values", i,
                               place);
        }
        taken[place - (n - 1)] = true;
        oz->places[i] = (uint32_t)place;
        oz->tree.nodes[place + 1] = oz->hashes[i];
    }
    ron_free(RON_TAKE(oz->hashes));
    return RON_OK;
}

/* Computes the nodes and compares all with what the file says; leaves first, so that a changed
 * value is not called a wrong root. */
static enum ron_rc compare_nodes(struct rwd_oz *oz, const struct dump *dump, struct ron_err *err)
{
    const struct ron_str *said = dump->tree.items;

    rwd_tree_build(&oz->tree);
    for (size_t i = dump->tree.count; i-- > 0;) {
        struct rwd_keccak hash;

        if (!rwd_hash_get(said[i], &hash)) {
            return ron_err_set(err, RON_INVALID, "tree[%zu] is no hash", i);
        }
        if (rwd_keccak_cmp(&hash, &oz->tree.nodes[i + 1]) != 0) {
            return ron_err_set(err, RON_CONFLICT,
                               i + 1 >= oz->count ? "tree[%zu] is not the hash of its value"
                                                  : "tree[%zu] is not the hash of its children",
                               i);
        }
    }
    return RON_OK;
}

static enum ron_rc read_dump(const struct dump *dump, struct rwd_oz *oz, struct ron_err *err)
{
    size_t n = dump->values.count;

    RON_ASSERT(oz != NULL);
    RON_TRY(add_values(oz, dump, err));
    rwd__oz_flush(oz);
    if (n == 0) {
        return ron_err_set(err, RON_INVALID, "a tree has at least one leaf");
    }
    if (dump->tree.count != 2 * n - 1) {
        return ron_err_set(err, RON_CONFLICT, "%zu values have a tree of %zu hashes, not %zu", n,
                           2 * n - 1, dump->tree.count);
    }
    RON_TRY(place_leaves(oz, dump, err));
    return compare_nodes(oz, dump, err);
}

enum ron_rc rwd_oz_read(char *text, size_t len, struct rwd_oz **ret_oz, struct ron_err *err)
{
    struct ron_json_error json = {0};
    struct ron_arena arena = {0};
    struct dump dump = {0};
    struct rwd_oz *oz = NULL;
    enum ron_rc rc;

    /* A hash takes 16 bytes here and 68 there, a value 32 here and 26 or more there. */
    if (ron_arena_init(&arena, 2 * len + 4096) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for a dump of %zu bytes", len);
    }
    rc = ron_json_scan(text, len, &dump_shape, &arena, &dump, &json);
    if (rc != RON_OK) {
        ron_err_set(err, rc, "%s%s%s at byte %zu", json.field, json.field[0] != '\0' ? ": " : "",
                    json.reason, json.at);
    } else if (!ron_str_is(dump.format, "standard-v1")) {
        rc = ron_err_set(err, RON_INVALID, "format '%.*s' is not standard-v1", (int)dump.format.len,
                         dump.format.ptr);
    } else {
        rc = rwd_oz_new(dump.leafEncoding.items, dump.leafEncoding.count, &oz, err);
    }
    if (rc == RON_OK) {
        rc = read_dump(&dump, oz, err);
    }
    ron_arena_done(&arena);
    if (rc != RON_OK) {
        rwd_oz_free(oz);
        return rc;
    }
    *ret_oz = oz;
    return RON_OK;
}
