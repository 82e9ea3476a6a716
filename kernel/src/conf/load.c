/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - the four sources of a configuration, in the order of their weight.
 *
 * Place: conf, the entrance. defaults (draft.c) < TOML file < environment < flags: each source
 * overwrites the slots it names, so the last one wins without any comparison.
 *
 * Failure: the first mistake ends the load, with its place: "file:line:column: ...",
 * "environment NAME: ..." or "flag --name: ...". */
#include "conf/conf_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/io/file.h"

/* ---- paths ----------------------------------------------------------------------------------- */

static bool is_path_part(const char *part, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = part[i];
        char lower = (char)(c | 0x20);

        if (!((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) {
            return false;
        }
    }
    return len > 0 && len <= RON_CONF_PART_MAX;
}

/* Appends a part to a path. False when no known key can look like that. */
static bool path_add(struct conf_path *path, const char *part, size_t len)
{
    size_t old = strlen(path->text);

    if (!is_path_part(part, len) || old + 1 + len > RON_CONF_NAME_MAX) {
        return false;
    }
    (void)snprintf(path->text + old, sizeof(path->text) - old, "%s%.*s", old == 0 ? "" : ".",
                   (int)len, part);
    return true;
}

/* The row that a path means by either name, or -1. */
static int find_key(const struct ron_conf_table *table, const char *path,
                    struct conf_star *ret_star)
{
    const struct ron_conf_alias *alias = conf_alias_find(table, path);

    return conf_table_find(table, alias != NULL ? alias->key : path, ret_star);
}

/* Why a path is refused, as a bare reason. */
static void explain_unknown(const struct ron_conf_table *table, const char *path, bool section,
                            struct ron_err *why)
{
    struct conf_star star;
    struct conf_path near;
    const char *what = section ? "section" : "key";

    if (!section && conf_table_find_section(table, path, &star) >= 0) {
        ron_err_set(why, RON_INVALID, "\"%s\" is a section, not a key", path);
    } else if (conf_table_nearest(table, path, section, &near)) {
        ron_err_set(why, RON_INVALID, "unknown %s \"%s\"; the nearest known is \"%s\"", what, path,
                    near.text);
    } else {
        ron_err_set(why, RON_INVALID, "unknown %s \"%s\"", what, path);
    }
}

/* ---- file ------------------------------------------------------------------------------------ */

struct walk {
    struct conf_draft *draft;
    struct conf_text src;
    struct ron_err *err;
};

static enum ron_rc fail_walk(const struct walk *w, uint32_t offset, const struct ron_err *why)
{
    if (why->rc != RON_INVALID) {
        return ron_err_set(w->err, why->rc, "%s: %s", w->src.name, why->msg);
    }
    return conf_fail_at(&w->src, w->src.bytes + offset, w->err, "%s", why->msg);
}

static enum ron_rc walk_table(const struct walk *w, const struct ron_toml_value *table,
                              const struct conf_path *above);

/* A table of the file: a section, or a mistake. */
static enum ron_rc walk_section(const struct walk *w, const struct ron_toml_value *v,
                                const struct conf_path *path)
{
    struct ron_conf_value *slot = NULL;
    struct ron_err why = {0};
    struct conf_star star = {0};
    int key = conf_table_find_section(w->draft->table, path->text, &star);

    if (key < 0 && conf_alias_section(w->draft->table, path->text)) {
        return walk_table(w, v, path);
    }
    if (key < 0) {
        explain_unknown(w->draft->table, path->text, true, &why);
        return fail_walk(w, v->key_offset, &why);
    }
    /* A named section counts even when it sets no key. */
    if (star.len > 0 && conf_draft_slot(w->draft, (size_t)key, path->text + star.at, star.len,
                                        &slot, &why) != RON_OK) {
        return fail_walk(w, v->key_offset, &why);
    }
    return walk_table(w, v, path);
}

/* The value of a key, or of its second name, whose unit makes a text of a number. */
static enum ron_rc read_value(const struct walk *w, const struct ron_toml_value *v, int key,
                              const struct ron_conf_alias *alias, struct ron_conf_value *slot,
                              struct ron_err *why)
{
    const struct ron_conf_key *row = &w->draft->table->keys[key];
    const char *text = NULL;
    char digits[24];

    if (alias == NULL || alias->unit[0] == '\0') {
        return conf_value_from_toml(row, v, &w->draft->arena, slot, why);
    }
    if (v->type != RON_TOML_INTEGER) {
        return ron_err_set(why, RON_INVALID, "must be a whole number (%s)", alias->unit);
    }
    (void)snprintf(digits, sizeof digits, "%" PRId64, v->integer);
    RON_TRY(conf_draft_number(w->draft, alias, digits, &text, why));
    return conf_value_from_text(row, text, &w->draft->arena, slot, why);
}

static enum ron_rc walk_key(const struct walk *w, const struct ron_toml_value *v,
                            const struct conf_path *path, int key, struct conf_star star)
{
    const struct ron_conf_alias *alias = conf_alias_find(w->draft->table, path->text);
    struct ron_conf_value *slot = NULL;
    struct ron_err why = {0};
    enum ron_rc rc =
        conf_draft_slot(w->draft, (size_t)key, path->text + star.at, star.len, &slot, &why);

    if (rc == RON_OK) {
        rc = conf_draft_claim(w->draft, (size_t)key, alias, slot, RON_CONF_FROM_FILE, &why);
    }
    if (rc != RON_OK) {
        return fail_walk(w, v->key_offset, &why);
    }
    rc = read_value(w, v, key, alias, slot, &why);
    if (rc != RON_OK) {
        ron_err_prefix(&why, "%s", path->text);
        return fail_walk(w, v->offset, &why);
    }
    slot->source = RON_CONF_FROM_FILE;
    return RON_OK;
}

/* Recursion is as deep as the tables of the file, which the TOML reader bounds. */
static enum ron_rc walk_table(const struct walk *w, const struct ron_toml_value *table,
                              const struct conf_path *above)
{
    for (const struct ron_toml_value *v = table->first; v != NULL; v = v->next) {
        struct conf_path path = *above;
        struct conf_star star = {0};
        struct ron_err why = {0};

        if (!path_add(&path, v->key, v->key_len)) {
            return conf_fail_at(&w->src, w->src.bytes + v->key_offset, w->err,
                                "unknown key: longer than any known one, or with characters that "
                                "none has");
        }
        int key = find_key(w->draft->table, path.text, &star);

        if (key >= 0) {
            RON_TRY(walk_key(w, v, &path, key, star));
        } else if (v->type == RON_TOML_TABLE) {
            RON_TRY(walk_section(w, v, &path));
        } else {
            explain_unknown(w->draft->table, path.text, false, &why);
            return fail_walk(w, v->key_offset, &why);
        }
    }
    return RON_OK;
}

static enum ron_rc load_file(struct conf_draft *draft, struct conf_inputs *inputs,
                             struct ron_err *err)
{
    const struct conf_path root = {""};
    struct walk w = {.draft = draft, .src = inputs->src, .err = err};

    RON_TRY(ron_toml_parse(w.src.name, w.src.bytes, w.src.len, &inputs->doc, err));
    return walk_table(&w, ron_toml_root(inputs->doc), &root);
}

/* ---- environment and flags ------------------------------------------------------------------- */

/* Sets one key from text; the reason of a refusal is in `why`, without the place. */
static enum ron_rc set_text(struct conf_draft *draft, const struct conf_path *path,
                            const char *text, enum ron_conf_source source, struct ron_err *why)
{
    const struct ron_conf_alias *alias = conf_alias_find(draft->table, path->text);
    struct ron_conf_value *slot = NULL;
    struct conf_star star = {0};
    int key = find_key(draft->table, path->text, &star);

    if (key < 0) {
        explain_unknown(draft->table, path->text, false, why);
        return RON_INVALID;
    }
    RON_TRY(conf_draft_slot(draft, (size_t)key, path->text + star.at, star.len, &slot, why));
    RON_TRY(conf_draft_claim(draft, (size_t)key, alias, slot, source, why));
    if (alias != NULL && alias->unit[0] != '\0') {
        RON_TRY(conf_draft_number(draft, alias, text, &text, why));
    }
    RON_TRY(conf_value_from_text(&draft->table->keys[key], text, &draft->arena, slot, why));
    slot->source = source;
    return RON_OK;
}

/* "LIMITS__MAX_BODY" becomes "limits.max_body". */
static bool path_from_env(const char *name, size_t len, struct conf_path *ret_path)
{
    char part[RON_CONF_NAME_MAX];
    size_t part_len = 0;

    ret_path->text[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (c == '_' && i + 1 < len && name[i + 1] == '_') {
            if (!path_add(ret_path, part, part_len)) {
                return false;
            }
            part_len = 0;
            i++;
        } else if (part_len == sizeof(part)) {
            return false;
        } else {
            part[part_len++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        }
    }
    return path_add(ret_path, part, part_len);
}

static enum ron_rc load_environment(const char *const *vars, struct conf_draft *draft,
                                    struct ron_err *err)
{
    struct conf_env prefix;

    conf_env_name(draft->table, "", &prefix);
    size_t prefix_len = strlen(prefix.text);

    for (; *vars != NULL; vars++) {
        const char *equals = strchr(*vars, '=');
        struct conf_path path;
        struct ron_err why = {0};

        if (equals == NULL || strncmp(*vars, prefix.text, prefix_len) != 0) {
            continue;
        }
        int name_len = (int)RON_MIN(equals - *vars, (ptrdiff_t)RON_CONF_NAME_MAX);
        const char *key = *vars + prefix_len;
        enum ron_rc rc = RON_INVALID;

        if (!path_from_env(key, (size_t)(equals - key), &path)) {
            ron_err_set(&why, RON_INVALID, "no key has such a name");
        } else {
            rc = set_text(draft, &path, equals + 1, RON_CONF_FROM_ENV, &why);
        }
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "environment %.*s: %s", name_len, *vars, why.msg);
        }
    }
    return RON_OK;
}

static enum ron_rc load_flag(const char *flag, struct conf_draft *draft, struct ron_err *err)
{
    const char *name = strncmp(flag, "--", 2) == 0 ? flag + 2 : flag;
    const char *equals = strchr(name, '=');
    size_t len = strcspn(name, "=");
    int shown = (int)RON_MIN(len, (size_t)RON_CONF_NAME_MAX);
    struct conf_path path = {""};
    struct ron_err why = {0};
    enum ron_rc rc = RON_INVALID;
    bool good = true;

    for (size_t at = 0; at <= len && good;) {
        size_t part = 0;

        while (at + part < len && name[at + part] != '.') {
            part++;
        }
        good = path_add(&path, name + at, part);
        at += part + 1;
    }
    if (!good) {
        ron_err_set(&why, RON_INVALID, "no key has such a name");
    } else if (equals == NULL) {
        ron_err_set(&why, RON_INVALID, "needs a value: --%.*s=VALUE", shown, name);
    } else {
        rc = set_text(draft, &path, equals + 1, RON_CONF_FROM_FLAG, &why);
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "flag --%.*s: %s", shown, name, why.msg);
    }
    return RON_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum ron_rc conf_inputs_open(const struct ron_env *env, const struct ron_conf_table *table,
                             const struct ron_conf_sources *sources, struct conf_inputs *inputs,
                             struct ron_err *err)
{
    struct conf_env prefix;

    *inputs = (struct conf_inputs){.doc = NULL};
    ron_buf_init(&inputs->file, RON_CONF_FILE_MAX);
    inputs->src.name = sources->path != NULL ? sources->path : "configuration";
    if (sources->text != NULL) {
        inputs->src.bytes = sources->text;
        inputs->src.len = strlen(sources->text);
    } else if (sources->path != NULL) {
        RON_ASSERT(env != NULL);
        RON_TRY(ron_file_read_all(env, sources->path, &inputs->file, err));
        inputs->src.bytes = ron_buf_text(&inputs->file);
        inputs->src.len = ron_buf_len(&inputs->file);
    }
    inputs->source_bytes = inputs->src.len;
    conf_env_name(table, "", &prefix);
    for (const char *const *v = sources->environ; v != NULL && *v != NULL; v++) {
        inputs->source_bytes += strncmp(*v, prefix.text, strlen(prefix.text)) == 0 ? strlen(*v) : 0;
    }
    for (size_t i = 0; i < sources->flag_count; i++) {
        inputs->source_bytes += strlen(sources->flags[i]);
    }
    return RON_OK;
}

enum ron_rc conf_collect(const struct ron_conf_sources *sources, struct conf_inputs *inputs,
                         struct conf_draft *draft, struct ron_err *err)
{
    if (inputs->src.bytes != NULL) {
        RON_TRY(load_file(draft, inputs, err));
    }
    if (sources->environ != NULL) {
        RON_TRY(load_environment(sources->environ, draft, err));
    }
    for (size_t i = 0; i < sources->flag_count; i++) {
        RON_TRY(load_flag(sources->flags[i], draft, err));
    }
    return conf_draft_complete(draft, err);
}

void conf_inputs_done(struct conf_inputs *inputs)
{
    ron_toml_free(inputs->doc);
    if (inputs->file.memory != NULL) {
        explicit_bzero(inputs->file.memory, inputs->file.cap); /* C4 */
    }
    ron_buf_done(&inputs->file);
}

enum ron_rc ron_conf_load(const struct ron_env *env, const struct ron_conf_table *table,
                          const struct ron_conf_sources *sources, struct ron_conf_snap **ret_snap,
                          struct ron_err *err)
{
    struct conf_inputs inputs;
    struct conf_draft *draft = NULL;
    struct ron_err why = {0};
    enum ron_rc rc = ron_conf_table_check(table, &why);

    RON_ASSERT_MSG(rc != RON_INVALID, "%s", why.msg);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "%s", why.msg);
    }
    RON_GOTO(conf_inputs_open(env, table, sources, &inputs, err), out);
    RON_GOTO(conf_draft_new(table, inputs.source_bytes, &draft, err), out);
    RON_GOTO(conf_collect(sources, &inputs, draft, err), out);
    RON_GOTO(conf_freeze(table, draft->rows, draft->row_count, ret_snap, err), out);
out:
    conf_draft_free(draft);
    conf_inputs_done(&inputs);
    return rc;
}
