/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c - a new configuration beside an old one: what changed, and what of it may be taken.
 *
 * Place: conf. The fresh values are collected like at the start and compared with the old snapshot;
 * then every row and key that is not reloadable is replaced in the draft by the old one, and the
 * result is frozen. So nothing is merged value by value, and a mistake leaves the old snapshot
 * alone (C2). */
#include "conf/conf_priv.h"

#include <string.h>

#include "ron/base/assert.h"

struct compare {
    const struct ron_conf_table *table;
    struct ron_conf_changes changes;
    struct ron_buf *diff;
};

/* Ends a line of the diff and counts it. */
static void count_change(struct compare *c, bool reloadable)
{
    ron_buf_append_text(c->diff, reloadable ? "\n" : " (needs restart, kept)\n");
    if (reloadable) {
        c->changes.changed++;
    } else {
        c->changes.needs_restart++;
    }
}

static void compare_row(struct compare *c, const struct conf_row *old, const struct conf_row *new)
{
    for (size_t i = 0; i < c->table->key_count; i++) {
        const struct ron_conf_key *key = &c->table->keys[i];
        struct conf_path path;

        if (!conf_row_has(old, key) || conf_value_equal(key, &old->values[i], &new->values[i])) {
            continue;
        }
        conf_name_with(key->name, old->name, &path);
        ron_buf_append_fmt(c->diff, "%s: ", path.text);
        if ((key->flags & RON_CONF_SECRET) != 0) {
            ron_buf_append_text(c->diff, "<redacted>, changed"); /* C4: not even the length */
        } else {
            conf_value_write(key, &old->values[i], c->diff);
            ron_buf_append_text(c->diff, " -> ");
            conf_value_write(key, &new->values[i], c->diff);
        }
        count_change(c, (key->flags & RON_CONF_RELOAD) != 0);
    }
}

static bool row_reloadable(const struct ron_conf_table *table, const struct conf_row *row)
{
    for (size_t i = 0; i < table->key_count; i++) {
        if (conf_row_has(row, &table->keys[i])) {
            return (table->keys[i].flags & RON_CONF_RELOAD) != 0; /* the same for the whole group */
        }
    }
    RON_UNREACHABLE();
}

static uint32_t find_like(const struct conf_row *rows, uint32_t row_count,
                          const struct conf_row *row)
{
    return conf_find_row(rows, row_count, row->group, strlen(row->group), row->name,
                         strlen(row->name));
}

static void compare_sections(struct compare *c, const struct ron_conf_snap *old,
                             const struct conf_draft *fresh)
{
    for (uint32_t r = 1; r < old->row_count; r++) {
        const struct conf_row *row = &old->rows[r];
        uint32_t now = find_like(fresh->rows, fresh->row_count, row);

        if (now != 0) {
            compare_row(c, row, &fresh->rows[now]);
        } else {
            ron_buf_append_fmt(c->diff, "%s.%s: removed", row->group, row->name);
            count_change(c, row_reloadable(c->table, row));
        }
    }
    for (uint32_t r = 1; r < fresh->row_count; r++) {
        const struct conf_row *row = &fresh->rows[r];

        if (find_like(old->rows, old->row_count, row) == 0) {
            ron_buf_append_fmt(c->diff, "%s.%s: added", row->group, row->name);
            count_change(c, row_reloadable(c->table, row));
        }
    }
}

/* Puts everything that is not reloadable back to what it was. */
static enum ron_rc keep_fixed(struct conf_draft *fresh, const struct ron_conf_snap *old,
                              struct ron_err *err)
{
    const struct ron_conf_table *table = fresh->table;
    uint32_t kept = 1;

    for (size_t i = 0; i < table->key_count; i++) {
        if ((table->keys[i].flags & RON_CONF_RELOAD) == 0) {
            fresh->rows[0].values[i] = old->rows[0].values[i];
        }
    }
    for (uint32_t r = 1; r < fresh->row_count; r++) {
        if (row_reloadable(table, &fresh->rows[r])) {
            fresh->rows[kept++] = fresh->rows[r];
        }
    }
    for (uint32_t r = 1; r < old->row_count; r++) {
        if (row_reloadable(table, &old->rows[r])) {
            continue;
        }
        if (kept == RON_ARRAY_LEN(fresh->rows)) {
            return ron_err_set(err, RON_LIMIT, "more than %d named sections",
                               RON_CONF_SECTIONS_MAX);
        }
        fresh->rows[kept++] = old->rows[r];
    }
    fresh->row_count = kept;
    return RON_OK;
}

enum ron_rc ron_conf_reload(const struct ron_env *env, const struct ron_conf_sources *sources,
                            const struct ron_conf_snap *old, struct ron_conf_snap **ret_snap,
                            struct ron_conf_changes *ret_changes, struct ron_buf *diff,
                            struct ron_err *err)
{
    struct conf_inputs inputs;
    struct conf_draft *fresh = NULL;
    struct ron_conf_snap *snap = NULL;
    struct compare c = {.table = old->table, .diff = diff};
    enum ron_rc rc;

    ron_buf_clear(diff);
    RON_GOTO(conf_inputs_open(env, old->table, sources, &inputs, err), out);
    RON_GOTO(conf_draft_new(old->table, inputs.source_bytes, &fresh, err), out);
    RON_GOTO(conf_collect(sources, &inputs, fresh, err), out);
    compare_row(&c, &old->rows[0], &fresh->rows[0]);
    compare_sections(&c, old, fresh);
    if (ron_buf_error(diff) == RON_NOMEM) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for the list of changes");
        goto out;
    }
    RON_GOTO(keep_fixed(fresh, old, err), out);
    RON_GOTO(conf_freeze(old->table, fresh->rows, fresh->row_count, &snap, err), out);
    *ret_snap = snap;
    *ret_changes = c.changes;
out:
    if (rc != RON_OK) {
        ron_buf_clear(diff); /* C2: nothing changed */
    }
    conf_draft_free(fresh);
    conf_inputs_done(&inputs);
    return rc;
}
