/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - values on their way from the sources to a snapshot.
 *
 * Place: conf, between load.c and snap.c. Texts are borrowed: from the table (defaults), the TOML
 * document, the environment and the flags, all of which outlive the draft.
 *
 * Invariants
 *   D1. Row 0 exists from the start and holds the defaults of all keys without a star.
 *   D2. A named section gets a row, with its defaults, the first time anything mentions it.
 *   D3. A value is not `set` only when its key has no default and no source gave it. */
#include "conf/conf_priv.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static enum ron_rc add_row(struct conf_draft *draft, const char *group, const char *name,
                           struct ron_err *err)
{
    const struct ron_conf_table *table = draft->table;
    struct conf_row row = {.group = group, .name = name};

    if (draft->row_count == RON_ARRAY_LEN(draft->rows)) {
        return ron_err_set(err, RON_LIMIT, "more than %d named sections", RON_CONF_SECTIONS_MAX);
    }
    row.values = ron_arena_alloc_array(&draft->arena, table->key_count, sizeof(*row.values),
                                       _Alignof(struct ron_conf_value));
    if (row.values == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the configuration");
    }
    for (size_t i = 0; i < table->key_count; i++) {
        const struct ron_conf_key *key = &table->keys[i];

        if (key->value != NULL && conf_row_has(&row, key)) {
            RON_TRY(conf_value_from_text(key, key->value, &draft->arena, &row.values[i], err));
        }
    }
    draft->rows[draft->row_count++] = row;
    return RON_OK;
}

/* The utmost that sources of that length can need. A named section takes a byte at least, and so
 * does an item of a list; a section costs its row, its two names and the lists of its defaults. For
 * 1 MiB of sources that is 26 MiB, of which only touched pages cost anything. */
static size_t memory_for(const struct ron_conf_table *table, size_t source_bytes)
{
    size_t item = sizeof(struct ron_conf_str) + _Alignof(struct ron_conf_str);
    size_t row = (size_t)2 * (RON_CONF_NAME_MAX + 1) + _Alignof(struct ron_conf_value) +
                 table->key_count * sizeof(struct ron_conf_value);
    size_t rows = RON_MIN(source_bytes, (size_t)RON_CONF_SECTIONS_MAX) + 1;

    for (size_t i = 0; i < table->key_count; i++) {
        const struct ron_conf_key *key = &table->keys[i];

        if (key->type == RON_CONF_LIST && key->value != NULL) {
            row += (strlen(key->value) + 1) * item;
        }
    }
    return rows * row + (source_bytes + 1) * item;
}

enum ron_rc conf_draft_new(const struct ron_conf_table *table, size_t source_bytes,
                           struct conf_draft **ret_draft, struct ron_err *err)
{
    size_t bytes = memory_for(table, source_bytes);
    struct conf_draft *draft = ron_alloc_zero(sizeof(*draft));
    void *memory = ron_alloc(bytes);

    if (draft == NULL || memory == NULL) {
        ron_free(draft);
        ron_free(memory);
        return ron_err_set(err, RON_NOMEM, "no memory for the configuration");
    }
    draft->table = table;
    draft->memory = memory;
    ron_arena_init_over(&draft->arena, memory, bytes);
    enum ron_rc rc = add_row(draft, NULL, NULL, err); /* D1 */

    if (rc != RON_OK) {
        conf_draft_free(draft);
        return rc;
    }
    *ret_draft = draft;
    return RON_OK;
}

void conf_draft_free(struct conf_draft *draft)
{
    if (draft != NULL) {
        ron_free(draft->memory);
        ron_free(draft);
    }
}

enum ron_rc conf_draft_slot(struct conf_draft *draft, size_t key, const char *star, size_t star_len,
                            struct ron_conf_value **ret_slot, struct ron_err *err)
{
    const char *name = draft->table->keys[key].name;
    size_t group_len = conf_group_len(name);
    uint32_t row = 0;

    if (group_len > 0) {
        row = conf_find_row(draft->rows, draft->row_count, name, group_len, star, star_len);
        if (row == 0) {
            const char *group_copy = ron_arena_dup(&draft->arena, name, group_len);
            const char *name_copy = ron_arena_dup(&draft->arena, star, star_len);

            if (group_copy == NULL || name_copy == NULL) {
                return ron_err_set(err, RON_NOMEM, "no memory for the configuration");
            }
            row = draft->row_count;
            RON_TRY(add_row(draft, group_copy, name_copy, err)); /* D2 */
        }
    }
    *ret_slot = &draft->rows[row].values[key];
    return RON_OK;
}

enum ron_rc conf_draft_claim(struct conf_draft *draft, size_t key,
                             const struct ron_conf_alias *alias, const struct ron_conf_value *slot,
                             enum ron_conf_source source, struct ron_err *err)
{
    uint8_t *by_alias = &draft->aliased[key];
    uint8_t mark = (uint8_t)(source + 1);

    if ((alias != NULL && slot->source == source && *by_alias != mark) ||
        (alias == NULL && *by_alias == mark)) {
        return ron_err_set(err, RON_INVALID, "\"%s\" is given under both of its names",
                           draft->table->keys[key].name);
    }
    *by_alias = alias != NULL ? mark : *by_alias;
    return RON_OK;
}

enum ron_rc conf_draft_number(struct conf_draft *draft, const struct ron_conf_alias *alias,
                              const char *digits, const char **ret_text, struct ron_err *err)
{
    size_t len = strlen(digits);
    size_t unit = strlen(alias->unit);
    char *text;

    if (len == 0 || strspn(digits, "0123456789") != len) {
        return ron_err_set(err, RON_INVALID, "must be a whole number (%s)", alias->unit);
    }
    text = ron_arena_alloc(&draft->arena, len + unit + 1, 1);
    if (text == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the configuration");
    }
    (void)snprintf(text, len + unit + 1, "%s%s", digits, alias->unit);
    *ret_text = text;
    return RON_OK;
}

enum ron_rc conf_draft_complete(const struct conf_draft *draft, struct ron_err *err)
{
    for (uint32_t r = 0; r < draft->row_count; r++) {
        const struct conf_row *row = &draft->rows[r];

        for (size_t i = 0; i < draft->table->key_count; i++) {
            const struct ron_conf_key *key = &draft->table->keys[i];

            if (conf_row_has(row, key) && !row->values[i].set) {
                struct conf_path path;
                struct conf_env env;

                conf_name_with(key->name, row->name, &path);
                conf_env_name(draft->table, path.text, &env);
                return ron_err_set(err, RON_INVALID, "\"%s\" must be set (or %s)", path.text,
                                   env.text);
            }
        }
    }
    return RON_OK;
}
