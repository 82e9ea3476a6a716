/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - the table and a snapshot as text: TOML, Markdown, man page.
 *
 * Place: conf. All three walk the same rows of the table, so documents cannot drift from the code.
 * Failure: the buffer remembers the first one; the functions return it at the end. */
#include "conf/conf_priv.h"

#include <string.h>

#include "ron/base/assert.h"

/* A failure beside the buffer sticks to it like one of its own. */
static void keep_failure(struct ron_buf *out, enum ron_rc rc)
{
    out->rc = out->rc == RON_OK ? rc : out->rc;
}

static void write_default(const struct ron_conf_key *key, struct ron_buf *out)
{
    char memory[sizeof(struct ron_conf_str) * RON_CONF_LIST_MAX + 64];
    struct ron_arena arena;
    struct ron_conf_value value;

    if (key->value == NULL) {
        ron_buf_append_text(out, "must be set");
        return;
    }
    if ((key->flags & RON_CONF_SECRET) != 0) {
        ron_buf_append_text(out, "unset by default"); /* table.c refuses any other */
        return;
    }
    ron_arena_init_over(&arena, memory, sizeof(memory));
    enum ron_rc rc = conf_value_from_text(key, key->value, &arena, &value, NULL);

    if (rc != RON_OK) {
        keep_failure(out, rc);
        return;
    }
    ron_buf_append_text(out, "default ");
    conf_value_write(key, &value, out);
}

/* "duration 1s..5s, default "3s", reloadable" */
static void write_facts(const struct ron_conf_key *key, struct ron_buf *out)
{
    ron_buf_append_text(out, conf_type_name(key->type));
    if (key->type != RON_CONF_BOOL) {
        ron_buf_append_byte(out, ' ');
        conf_range_write(key, out);
    }
    ron_buf_append_text(out, ", ");
    write_default(key, out);
    ron_buf_append_text(out,
                        (key->flags & RON_CONF_RELOAD) != 0 ? ", reloadable" : ", needs restart");
    ron_buf_append_text(out, (key->flags & RON_CONF_SECRET) != 0 ? ", secret" : "");
}

/* The same through an escape of the target format. */
static void write_facts_as(const struct ron_conf_key *key, struct ron_buf *out,
                           void (*escape)(struct ron_buf *out, const char *text, size_t len))
{
    char memory[1024]; /* a choice of dozens of words, or a default of a few lines */
    struct ron_buf facts;

    ron_buf_init_over(&facts, memory, sizeof(memory));
    write_facts(key, &facts);
    escape(out, (const char *)ron_buf_data(&facts), ron_buf_len(&facts));
    keep_failure(out, ron_buf_error(&facts));
}

/* The second names of a key, behind its meaning. */
static void write_aliases(const struct ron_conf_table *table, const char *key, const char *quote,
                          struct ron_buf *out)
{
    for (size_t i = 0; i < table->alias_count; i++) {
        const struct ron_conf_alias *a = &table->aliases[i];

        if (strcmp(a->key, key) == 0) {
            ron_buf_append_fmt(out, " Also %s%s%s%s%s.", quote, a->name, quote,
                               a->unit[0] != '\0' ? ", a number in " : "", a->unit);
        }
    }
}

/* ---- TOML ------------------------------------------------------------------------------------ */

static bool is_empty_secret(const struct ron_conf_key *key, const struct ron_conf_value *v)
{
    return key->type == RON_CONF_STRING ? v->string.len == 0 : v->list.count == 0;
}

static void print_key(const struct conf_row *row, const struct ron_conf_key *key, size_t index,
                      struct ron_buf *out)
{
    size_t section = conf_section_len(key->name);
    const char *name = key->name + section + (section > 0 ? 1 : 0);
    const struct ron_conf_value *v = &row->values[index];

    ron_buf_append_fmt(out, "# %s\n# ", key->doc);
    write_facts(key, out);
    ron_buf_append_byte(out, '\n');
    if ((key->flags & RON_CONF_SECRET) != 0) {
        ron_buf_append_fmt(out, "# %s is %s\n", name,
                           is_empty_secret(key, v) ? "not set" : "set, and not shown");
        return;
    }
    ron_buf_append_fmt(out, "%s = ", name);
    conf_value_write(key, v, out);
    ron_buf_append_byte(out, '\n');
}

/* A bare key of TOML needs no quotes; names of sections come from such keys. */
static void print_header(const struct conf_row *row, const struct ron_conf_key *key,
                         struct ron_buf *out)
{
    struct conf_path path;

    conf_name_with(key->name, row->name, &path);
    path.text[conf_section_len(path.text)] = '\0';
    ron_buf_append_fmt(out, "\n[%s]\n", path.text);
}

/* The keys from `first` on as long as they belong to the row. Returns behind the last. */
static size_t print_run(const struct ron_conf_snap *snap, const struct conf_row *row, size_t first,
                        struct ron_buf *out)
{
    const struct ron_conf_key *keys = snap->table->keys;
    size_t section = SIZE_MAX;
    const char *shown = "";
    size_t i = first;

    for (; i < snap->table->key_count && conf_row_has(row, &keys[i]); i++) {
        size_t len = conf_section_len(keys[i].name);

        if (len != section || memcmp(shown, keys[i].name, len) != 0) {
            section = len;
            shown = keys[i].name;
            if (len > 0) {
                print_header(row, &keys[i], out);
            }
        }
        print_key(row, &keys[i], i, out);
    }
    return i;
}

enum ron_rc ron_conf_print(const struct ron_conf_snap *snap, struct ron_buf *out)
{
    const struct ron_conf_table *table = snap->table;
    size_t i = 0;

    RON_CHECK_MAGIC(snap, CONF_SNAP_MAGIC);
    ron_buf_append_fmt(out, "# Configuration of %s.\n", table->service);
    while (i < table->key_count) {
        size_t start = i;
        size_t group = conf_group_len(table->keys[i].name);

        if (group == 0) {
            i = print_run(snap, &snap->rows[0], i, out);
            continue;
        }
        for (uint32_t r = 1; r < snap->row_count; r++) {
            if (conf_row_has(&snap->rows[r], &table->keys[start])) {
                i = print_run(snap, &snap->rows[r], start, out);
            }
        }
        /* Without a section of that group nothing was printed; step over its keys. */
        while (i < table->key_count && conf_group_len(table->keys[i].name) == group &&
               memcmp(table->keys[i].name, table->keys[start].name, group) == 0) {
            i++;
        }
    }
    return ron_buf_error(out);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

/* | would end the cell. */
static void write_cell(struct ron_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ron_buf_append_text(out, text[i] == '|' ? "\\" : "");
        ron_buf_append_byte(out, (uint8_t)text[i]);
    }
}

enum ron_rc ron_conf_write_markdown(const struct ron_conf_table *table, struct ron_buf *out)
{
    ron_buf_append_text(out, "| key | environment | type, range, default | meaning |\n"
                             "|---|---|---|---|\n");
    for (size_t i = 0; i < table->key_count; i++) {
        const struct ron_conf_key *key = &table->keys[i];
        struct conf_env env;

        conf_env_name(table, key->name, &env);
        ron_buf_append_fmt(out, "| `%s` | `%s` | ", key->name, env.text);
        write_facts_as(key, out, write_cell);
        ron_buf_append_text(out, " | ");
        write_cell(out, key->doc, strlen(key->doc));
        write_aliases(table, key->name, "`", out);
        ron_buf_append_text(out, " |\n");
    }
    return ron_buf_error(out);
}

/* ---- man page -------------------------------------------------------------------------------- */

/* Text for roff: backslashes, hyphens that must stay ASCII, and no line that begins a request. */
static void write_roff(struct ron_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\'')) {
            ron_buf_append_text(out, "\\&");
        }
        if (text[i] == '\\') {
            ron_buf_append_text(out, "\\e");
        } else if (text[i] == '-') {
            ron_buf_append_text(out, "\\-");
        } else {
            ron_buf_append_byte(out, (uint8_t)text[i]);
        }
    }
}

enum ron_rc ron_conf_write_man(const struct ron_conf_table *table, struct ron_buf *out)
{
    ron_buf_append_text(out, ".SH CONFIGURATION\n"
                             "Flags win over the environment, the environment over the file, the "
                             "file over the default.\n");
    for (size_t i = 0; i < table->key_count; i++) {
        const struct ron_conf_key *key = &table->keys[i];
        struct conf_env env;

        conf_env_name(table, key->name, &env);
        ron_buf_append_fmt(out, ".TP\n.B %s\n", key->name);
        write_roff(out, key->doc, strlen(key->doc));
        write_aliases(table, key->name, "", out);
        ron_buf_append_text(out, "\n.br\n");
        write_facts_as(key, out, write_roff);
        ron_buf_append_text(out, "\n.br\n");
        ron_buf_append_fmt(out, "%s\n", env.text);
    }
    return ron_buf_error(out);
}
