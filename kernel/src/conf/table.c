/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of keys: finding a key by its path, the nearest one, and the table's checks.
 *
 * Place: conf. Tables have at most RON_CONF_KEYS_MAX rows and are searched at load time only, so
 * every search walks the rows. */
#include "conf/conf_priv.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/nearest.h"

/* ---- names ----------------------------------------------------------------------------------- */

enum match { MATCH_NONE, MATCH_SECTION, MATCH_KEY };

/* How a path relates to the name of a row: the same, a section above it, or neither. */
static enum match match(const char *name, const char *path, struct conf_star *ret_star)
{
    const char *at = path;
    struct conf_star star = {0};

    for (; *name != '\0'; name++) {
        if (*name == '*') {
            star.at = (size_t)(at - path);
            star.len = strcspn(at, ".");
            at += star.len;
            if (star.len == 0) {
                return MATCH_NONE;
            }
        } else if (*name == *at) {
            at++;
        } else if (*name == '.' && *at == '\0' && at != path) {
            *ret_star = star;
            return MATCH_SECTION;
        } else {
            return MATCH_NONE;
        }
    }
    *ret_star = star;
    return *at == '\0' ? MATCH_KEY : MATCH_NONE;
}

size_t conf_group_len(const char *name)
{
    const char *star = strchr(name, '*');

    return star == NULL ? 0 : (size_t)(star - name) - 1;
}

size_t conf_section_len(const char *name)
{
    const char *point = strrchr(name, '.');

    return point == NULL ? 0 : (size_t)(point - name);
}

bool conf_row_has(const struct conf_row *row, const struct ron_conf_key *key)
{
    size_t len = conf_group_len(key->name);

    if (row->group == NULL) {
        return len == 0;
    }
    return strlen(row->group) == len && memcmp(row->group, key->name, len) == 0;
}

static int find_as(const struct ron_conf_table *table, const char *path, enum match wanted,
                   struct conf_star *ret_star)
{
    for (size_t i = 0; i < table->key_count; i++) {
        if (match(table->keys[i].name, path, ret_star) == wanted) {
            return (int)i;
        }
    }
    return -1;
}

int conf_table_find(const struct ron_conf_table *table, const char *path,
                    struct conf_star *ret_star)
{
    return find_as(table, path, MATCH_KEY, ret_star);
}

int conf_table_find_section(const struct ron_conf_table *table, const char *path,
                            struct conf_star *ret_star)
{
    return find_as(table, path, MATCH_SECTION, ret_star);
}

const struct ron_conf_alias *conf_alias_find(const struct ron_conf_table *table, const char *path)
{
    for (size_t i = 0; i < table->alias_count; i++) {
        if (strcmp(table->aliases[i].name, path) == 0) {
            return &table->aliases[i];
        }
    }
    return NULL;
}

bool conf_alias_section(const struct ron_conf_table *table, const char *path)
{
    struct conf_star star;

    for (size_t i = 0; i < table->alias_count; i++) {
        if (match(table->aliases[i].name, path, &star) == MATCH_SECTION) {
            return true;
        }
    }
    return false;
}

void conf_name_with(const char *name, const char *star, struct conf_path *ret_path)
{
    const char *at = strchr(name, '*');

    if (at == NULL || star == NULL) {
        (void)snprintf(ret_path->text, sizeof(ret_path->text), "%s", name);
    } else {
        (void)snprintf(ret_path->text, sizeof(ret_path->text), "%.*s%s%s", (int)(at - name), name,
                       star, at + 1);
    }
}

/* The part of a path that stands where the name has its star; empty when the path is shorter. */
static void part_at_star(const char *name, const char *path, char out[RON_CONF_PART_MAX + 1])
{
    for (const char *n = name; *n != '*' && *n != '\0' && *path != '\0'; n++) {
        if (*n == '.') {
            path += strcspn(path, ".");
            path += *path == '.' ? 1 : 0;
        }
    }
    (void)snprintf(out, RON_CONF_PART_MAX + 1, "%.*s", (int)strcspn(path, "."), path);
}

bool conf_table_nearest(const struct ron_conf_table *table, const char *path, bool section,
                        struct conf_path *ret_near)
{
    struct conf_path best = {""};

    for (size_t i = 0; i < table->key_count; i++) {
        const char *name = table->keys[i].name;
        char star[RON_CONF_PART_MAX + 1];
        struct conf_path candidate;

        part_at_star(name, path, star);
        conf_name_with(name, star[0] == '\0' ? NULL : star, &candidate);
        if (section) {
            candidate.text[conf_section_len(candidate.text)] = '\0';
        }
        /* Best first: it keeps its place when the candidate is no nearer. */
        const char *words[] = {best.text, candidate.text};
        const char *near = ron_nearest(path, words, RON_ARRAY_LEN(words));

        if (near == candidate.text) {
            best = candidate;
        }
    }
    if (best.text[0] == '\0') {
        return false;
    }
    *ret_near = best;
    return true;
}

void conf_env_name(const struct ron_conf_table *table, const char *name, struct conf_env *ret_env)
{
    char *out = ret_env->text;
    size_t len = (size_t)snprintf(out, sizeof(ret_env->text), "ron_%s__", table->service);

    for (const char *c = name; *c != '\0' && len + 3 < sizeof(ret_env->text); c++) {
        if (*c == '.') {
            out[len++] = '_';
            out[len++] = '_';
        } else {
            out[len++] = *c;
        }
    }
    out[len] = '\0';
    for (char *c = out; *c != '\0'; c++) {
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
}

const char *conf_type_name(enum ron_conf_type type)
{
    switch (type) {
#define X(name, text, example)                                                                     \
    case RON_CONF_##name:                                                                          \
        return text;
        RON_CONF_TYPES(X)
#undef X
    }
    return "?";
}

const char *conf_type_example(enum ron_conf_type type)
{
    switch (type) {
#define X(name, text, example)                                                                     \
    case RON_CONF_##name:                                                                          \
        return example;
        RON_CONF_TYPES(X)
#undef X
    }
    return "?";
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* A part must survive the way through an environment variable, where "__" is the point. */
static bool is_part(const char *part, size_t len)
{
    if (len == 0 || len > RON_CONF_PART_MAX || part[0] < 'a' || part[0] > 'z' ||
        part[len - 1] == '_') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = part[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';

        if (!good || (c == '_' && part[i + 1] == '_')) {
            return false;
        }
    }
    return true;
}

/* Parts joined by points; at most one is "*", neither the first nor the last. */
static bool is_name(const char *name)
{
    size_t stars = 0;
    const char *at = name;

    for (;;) {
        size_t len = strcspn(at, ".");
        bool star = len == 1 && *at == '*';

        stars += star;
        if (star ? (at == name || at[1] == '\0') : !is_part(at, len)) {
            return false;
        }
        if (at[len] == '\0') {
            return stars <= 1 && strlen(name) <= RON_CONF_NAME_MAX;
        }
        at += len + 1;
    }
}

static enum ron_rc check_row(const struct ron_conf_key *key, struct ron_arena *arena,
                             struct ron_err *err)
{
    struct ron_conf_value value;
    bool text = key->type == RON_CONF_STRING || key->type == RON_CONF_LIST;

    if (!is_name(key->name)) {
        return ron_err_set(err, RON_INVALID, "malformed name");
    }
    if (key->doc == NULL || key->doc[0] == '\0' || strchr(key->doc, '\n') != NULL) {
        return ron_err_set(err, RON_INVALID, "needs a doc line");
    }
    if (key->min > key->max || (key->min < 0 && key->type != RON_CONF_INT)) {
        return ron_err_set(err, RON_INVALID, "has no range");
    }
    if ((key->flags & RON_CONF_SECRET) != 0 && !text) {
        return ron_err_set(err, RON_INVALID, "only strings and lists may be secret");
    }
    if ((key->flags & RON_CONF_SECRET) != 0 && key->value != NULL && key->value[0] != '\0') {
        return ron_err_set(err, RON_INVALID, "a secret has no default");
    }
    if (key->type == RON_CONF_ENUM && conf_choice_word(key, 1).len == 0) {
        return ron_err_set(err, RON_INVALID, "a choice needs two words or more");
    }
    if ((key->type == RON_CONF_STRING && key->max > RON_CONF_STRING_MAX) ||
        (key->type == RON_CONF_LIST && key->max > RON_CONF_LIST_MAX)) {
        return ron_err_set(err, RON_INVALID, "the maximum is beyond what a value may hold");
    }
    return key->value == NULL ? RON_OK : conf_value_from_text(key, key->value, arena, &value, err);
}

/* The first `len` characters of both names are the same section or group. */
static bool same_prefix(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* Row i does not contradict an earlier one j. */
static enum ron_rc check_pair(const struct ron_conf_key *keys, size_t i, size_t j,
                              struct ron_err *err)
{
    const char *name = keys[i].name;
    const char *other = keys[j].name;
    const char *last = keys[i - 1].name;
    size_t section = conf_section_len(name);
    size_t group = conf_group_len(name);
    struct conf_star star;

    if (match(other, name, &star) != MATCH_NONE || match(name, other, &star) != MATCH_NONE) {
        return ron_err_set(err, RON_INVALID, "clashes with %s", other);
    }
    if ((same_prefix(name, section, other, conf_section_len(other)) &&
         !same_prefix(name, section, last, conf_section_len(last))) ||
        (group > 0 && same_prefix(name, group, other, conf_group_len(other)) &&
         !same_prefix(name, group, last, conf_group_len(last)))) {
        return ron_err_set(err, RON_INVALID, "stands apart from its section");
    }
    if (section == 0 && conf_section_len(other) != 0) {
        return ron_err_set(err, RON_INVALID, "keys without a section come first");
    }
    if (group > 0 && same_prefix(name, group, other, conf_group_len(other)) &&
        ((keys[i].flags ^ keys[j].flags) & RON_CONF_RELOAD) != 0) {
        return ron_err_set(err, RON_INVALID, "all keys of a group are reloadable or none is");
    }
    return RON_OK;
}

static enum ron_rc check_rows(const struct ron_conf_table *table, struct ron_arena *arena,
                              struct ron_err *err)
{
    for (size_t i = 0; i < table->key_count; i++) {
        enum ron_rc rc = check_row(&table->keys[i], arena, err);

        ron_arena_clear(arena);
        for (size_t j = 0; j < i && rc == RON_OK; j++) {
            rc = check_pair(table->keys, i, j, err);
        }
        if (rc != RON_OK) {
            ron_err_prefix(err, "table %s: %s", table->service, table->keys[i].name);
            return rc;
        }
    }
    return RON_OK;
}

static enum ron_rc check_aliases(const struct ron_conf_table *table, struct ron_err *err)
{
    for (size_t i = 0; i < table->alias_count; i++) {
        const struct ron_conf_alias *a = &table->aliases[i];
        struct conf_star star;

        if (!is_name(a->name) || strchr(a->name, '*') != NULL || strchr(a->key, '*') != NULL ||
            ron_conf_find_key(table, a->key) == SIZE_MAX || conf_alias_find(table, a->name) != a ||
            conf_table_find(table, a->name, &star) >= 0 ||
            conf_table_find_section(table, a->name, &star) >= 0 ||
            conf_alias_section(table, a->name)) {
            return ron_err_set(err, RON_INVALID, "table %s: %s is no second name of %s",
                               table->service, a->name, a->key);
        }
    }
    return RON_OK;
}

enum ron_rc ron_conf_table_check(const struct ron_conf_table *table, struct ron_err *err)
{
    struct ron_arena arena = {0};

    if (table->service == NULL || !is_part(table->service, strlen(table->service))) {
        return ron_err_set(err, RON_INVALID, "a table needs the name of its service");
    }
    if (table->key_count == 0 || table->key_count > RON_CONF_KEYS_MAX) {
        return ron_err_set(err, RON_INVALID, "table %s: %zu keys, 1 to %d allowed", table->service,
                           table->key_count, RON_CONF_KEYS_MAX);
    }
    /* One list of the utmost length at a time. */
    if (ron_arena_init(&arena, (RON_CONF_LIST_MAX + 1) * sizeof(struct ron_conf_str)) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory to check the table");
    }
    enum ron_rc rc = check_rows(table, &arena, err);

    ron_arena_done(&arena);
    if (rc == RON_OK) {
        rc = check_aliases(table, err);
    }
    return rc;
}

size_t ron_conf_find_key(const struct ron_conf_table *table, const char *name)
{
    for (size_t i = 0; i < table->key_count; i++) {
        if (strcmp(table->keys[i].name, name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}
