/* SPDX-License-Identifier: Apache-2.0 */
/* snap.c - snapshots: one block that owns everything, counted references, and the box.
 *
 * Place: conf. Layout of the block, filled by an arena over it:
 *
 *     struct ron_conf_snap | rows | values of each row | list items, strings, names
 *
 * Invariants
 *   S1. Nothing in the block is written after conf_freeze returned, except `refs`. So readers need
 *       no lock, and C1 and C3 hold because the box hands out whole snapshots only.
 *   S2. `refs` counts the holders; the box is one of them. Under the box's lock the current
 *       snapshot has at least the box's reference, so taking one more there is safe.
 *   S3. Whoever takes the last reference away wipes the block (C4) and frees it.
 *
 * Locks: the box's own, rank LEAF, for a pointer and a count. Releasing happens outside it. */
#include "conf/conf_priv.h"

#include <string.h>

#include "conf/conf_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- freezing -------------------------------------------------------------------------------- */

/* What one piece may cost beyond its bytes: the gap for its alignment. */
enum { GAP = _Alignof(max_align_t) };

static size_t text_bytes(size_t len)
{
    return len + 1;
}

static size_t value_bytes(const struct ron_conf_key *key, const struct ron_conf_value *v)
{
    size_t bytes = 0;

    if (key->type == RON_CONF_STRING) {
        bytes = text_bytes(v->string.len);
    } else if (key->type == RON_CONF_LIST) {
        bytes = v->list.count * sizeof(struct ron_conf_str) + GAP;
        for (size_t i = 0; i < v->list.count; i++) {
            bytes += text_bytes(v->list.items[i].len);
        }
    }
    return bytes;
}

static size_t snap_bytes(const struct ron_conf_table *table, const struct conf_row *rows,
                         uint32_t row_count)
{
    size_t bytes =
        sizeof(struct ron_conf_snap) + row_count * sizeof(struct conf_row) + (size_t)2 * GAP;

    for (uint32_t r = 0; r < row_count; r++) {
        bytes += table->key_count * sizeof(struct ron_conf_value) + GAP;
        bytes += r == 0 ? 0 : text_bytes(strlen(rows[r].group)) + text_bytes(strlen(rows[r].name));
        for (size_t i = 0; i < table->key_count; i++) {
            if (conf_row_has(&rows[r], &table->keys[i])) {
                bytes += value_bytes(&table->keys[i], &rows[r].values[i]);
            }
        }
    }
    return bytes;
}

/* The arena remembers a failure (R2 of arena.h), so copies may go on and the caller asks once. */
static struct ron_conf_str copy_str(struct ron_arena *arena, struct ron_conf_str s)
{
    s.text = ron_arena_dup(arena, s.text, s.len);
    return s;
}

static struct ron_conf_value copy_value(struct ron_arena *arena, const struct ron_conf_key *key,
                                        const struct ron_conf_value *from)
{
    struct ron_conf_value to = *from;

    if (key->type == RON_CONF_STRING) {
        to.string = copy_str(arena, from->string);
    } else if (key->type == RON_CONF_LIST) {
        struct ron_conf_str *items = ron_arena_alloc_array(arena, from->list.count, sizeof(*items),
                                                           _Alignof(struct ron_conf_str));

        for (size_t i = 0; items != NULL && i < from->list.count; i++) {
            items[i] = copy_str(arena, from->list.items[i]);
        }
        to.list.items = items;
    }
    return to;
}

static void copy_row(struct ron_arena *arena, const struct ron_conf_table *table,
                     const struct conf_row *from, struct conf_row *to)
{
    to->values = ron_arena_alloc_array(arena, table->key_count, sizeof(*to->values),
                                       _Alignof(struct ron_conf_value));
    if (from->group != NULL) {
        to->group = ron_arena_dup(arena, from->group, strlen(from->group));
        to->name = ron_arena_dup(arena, from->name, strlen(from->name));
    }
    for (size_t i = 0; to->values != NULL && i < table->key_count; i++) {
        if (conf_row_has(from, &table->keys[i])) {
            to->values[i] = copy_value(arena, &table->keys[i], &from->values[i]);
        }
    }
}

enum ron_rc conf_freeze(const struct ron_conf_table *table, const struct conf_row *rows,
                        uint32_t row_count, struct ron_conf_snap **ret_snap, struct ron_err *err)
{
    size_t bytes = snap_bytes(table, rows, row_count);
    struct ron_conf_snap *snap = ron_alloc_zero(bytes);
    struct ron_arena arena;
    enum ron_rc rc = RON_OK;

    if (snap == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the configuration");
    }
    snap->magic = CONF_SNAP_MAGIC;
    snap->table = table;
    snap->bytes = bytes;
    snap->row_count = row_count;
    ron_au32_store(&snap->refs, 1);
    ron_arena_init_over(&arena, snap + 1, bytes - sizeof(*snap));
    snap->rows =
        ron_arena_alloc_array(&arena, row_count, sizeof(*snap->rows), _Alignof(struct conf_row));
    for (uint32_t r = 0; snap->rows != NULL && r < row_count; r++) {
        copy_row(&arena, table, &rows[r], &snap->rows[r]);
    }
    if (ron_arena_overflowed(&arena)) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for the configuration");
    } else if (table->check != NULL) {
        rc = table->check(snap, err);
    }
    if (rc != RON_OK) {
        ron_conf_unref(snap);
        return rc;
    }
    *ret_snap = snap;
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct ron_conf_value *ron_conf_get(const struct ron_conf_snap *snap, uint32_t section,
                                          size_t key)
{
    RON_CHECK_MAGIC(snap, CONF_SNAP_MAGIC);
    RON_ASSERT(section < snap->row_count);
    RON_ASSERT(key < snap->table->key_count);
    RON_ASSERT_SLOW(conf_row_has(&snap->rows[section], &snap->table->keys[key]));
    return &snap->rows[section].values[key];
}

static const struct ron_conf_value *get_typed(const struct ron_conf_snap *snap, uint32_t section,
                                              size_t key, enum ron_conf_type type, bool secret)
{
    const struct ron_conf_value *v = ron_conf_get(snap, section, key);
    const struct ron_conf_key *row = &snap->table->keys[key];

    RON_ASSERT_MSG(row->type == type, "%s is a %s, read as a %s", row->name,
                   conf_type_name(row->type), conf_type_name(type));
    RON_ASSERT_MSG(RON_IMPLIES((row->flags & RON_CONF_SECRET) != 0, secret),
                   "C4: %s is secret; read it with ron_conf_secret", row->name);
    return v;
}

bool ron_conf_bool_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return get_typed(snap, section, key, RON_CONF_BOOL, false)->boolean;
}

int64_t ron_conf_int_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return get_typed(snap, section, key, RON_CONF_INT, false)->number;
}

int64_t ron_conf_ms_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return get_typed(snap, section, key, RON_CONF_DURATION, false)->number;
}

int64_t ron_conf_bytes_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return get_typed(snap, section, key, RON_CONF_SIZE, false)->number;
}

size_t ron_conf_choice_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return (size_t)get_typed(snap, section, key, RON_CONF_ENUM, false)->number;
}

struct ron_conf_str ron_conf_str_in(const struct ron_conf_snap *snap, uint32_t section, size_t key)
{
    return get_typed(snap, section, key, RON_CONF_STRING, false)->string;
}

struct ron_conf_str ron_conf_secret_in(const struct ron_conf_snap *snap, uint32_t section,
                                       size_t key)
{
    return get_typed(snap, section, key, RON_CONF_STRING, true)->string;
}

struct ron_conf_list ron_conf_list_in(const struct ron_conf_snap *snap, uint32_t section,
                                      size_t key)
{
    /* Secret lists (several keys during a rotation) have no second getter; asking for a list by its
     * key is deliberate enough. */
    return get_typed(snap, section, key, RON_CONF_LIST, true)->list;
}

uint32_t conf_find_row(const struct conf_row *rows, uint32_t row_count, const char *group,
                       size_t group_len, const char *name, size_t name_len)
{
    for (uint32_t r = 1; r < row_count; r++) {
        if (strlen(rows[r].group) == group_len && memcmp(rows[r].group, group, group_len) == 0 &&
            strlen(rows[r].name) == name_len && memcmp(rows[r].name, name, name_len) == 0) {
            return r;
        }
    }
    return 0;
}

size_t ron_conf_section_count(const struct ron_conf_snap *snap, const char *group)
{
    size_t count = 0;

    for (uint32_t r = 1; r < snap->row_count; r++) {
        count += strcmp(snap->rows[r].group, group) == 0;
    }
    return count;
}

uint32_t ron_conf_section(const struct ron_conf_snap *snap, const char *group, size_t index)
{
    for (uint32_t r = 1; r < snap->row_count; r++) {
        if (strcmp(snap->rows[r].group, group) == 0 && index-- == 0) {
            return r;
        }
    }
    RON_ASSERT_MSG(false, "group %s has no section at this index", group);
    return 0;
}

uint32_t ron_conf_section_find(const struct ron_conf_snap *snap, const char *group,
                               const char *name)
{
    return conf_find_row(snap->rows, snap->row_count, group, strlen(group), name, strlen(name));
}

const char *ron_conf_section_name(const struct ron_conf_snap *snap, uint32_t section)
{
    RON_ASSERT(section > 0);
    RON_ASSERT(section < snap->row_count);
    return snap->rows[section].name;
}

const struct ron_conf_table *ron_conf_table_of(const struct ron_conf_snap *snap)
{
    return snap->table;
}

/* ---- sharing --------------------------------------------------------------------------------- */

struct ron_conf_snap *ron_conf_ref(struct ron_conf_snap *snap)
{
    RON_CHECK_MAGIC(snap, CONF_SNAP_MAGIC);
    uint32_t before = ron_au32_add(&snap->refs, 1);

    RON_ASSERT_MSG(before > 0, "S2: a reference to a released snapshot");
    return snap;
}

void ron_conf_unref(struct ron_conf_snap *snap)
{
    if (snap == NULL) {
        return;
    }
    RON_CHECK_MAGIC(snap, CONF_SNAP_MAGIC);
    uint32_t before = ron_au32_add(&snap->refs, UINT32_MAX); /* minus one */

    RON_ASSERT_MSG(before > 0, "S2: released more often than taken");
    if (before == 1) {
        explicit_bzero(snap, snap->bytes); /* S3 */
        ron_free(snap);
    }
}

void ron_conf_box_init(struct ron_conf_box *box, struct ron_conf_snap *take_snap)
{
    RON_CHECK_MAGIC(take_snap, CONF_SNAP_MAGIC);
    ron_mutex_init(&box->lock, RON_RANK_LEAF, "conf");
    box->current = take_snap;
    ron_au64_store(&box->version, 1);
}

void ron_conf_box_done(struct ron_conf_box *box)
{
    ron_conf_unref(box->current);
    box->current = NULL;
    ron_mutex_done(&box->lock);
}

static struct ron_conf_snap *get_with_version(struct ron_conf_box *box, uint64_t *ret_version)
{
    ron_mutex_lock(&box->lock);
    struct ron_conf_snap *snap = ron_conf_ref(box->current);

    *ret_version = ron_au64_load(&box->version);
    ron_mutex_unlock(&box->lock);
    return snap;
}

struct ron_conf_snap *ron_conf_box_get(struct ron_conf_box *box)
{
    uint64_t version = 0;

    return get_with_version(box, &version);
}

void ron_conf_box_put(struct ron_conf_box *box, struct ron_conf_snap *take_snap)
{
    RON_CHECK_MAGIC(take_snap, CONF_SNAP_MAGIC);
    ron_mutex_lock(&box->lock);
    struct ron_conf_snap *old = box->current;

    box->current = take_snap;
    (void)ron_au64_add(&box->version, 1);
    ron_mutex_unlock(&box->lock);
    ron_conf_unref(old);
}

bool ron_conf_box_refresh(struct ron_conf_box *box, struct ron_conf_snap **snap, uint64_t *seen)
{
    if (ron_au64_load(&box->version) == *seen) {
        return false;
    }
    struct ron_conf_snap *old = *snap;

    *snap = get_with_version(box, seen);
    ron_conf_unref(old);
    return true;
}
