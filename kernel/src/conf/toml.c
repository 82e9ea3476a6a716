/* SPDX-License-Identifier: Apache-2.0 */
/* toml.c - the grammar of TOML 1.0 and the tree it fills. The contract T1 to T5 is in the header.
 *
 * Place: conf. Recursive descent, one character ahead. A value's node is made before the value is
 * read, so the limits of depth and count are checked in one place (add_node) and bound recursion.
 *
 * Who may add to a table is decided by how it came to be:
 *
 *     made by                 flag      [a] may define it   dotted keys may add   [a.b] may add
 *     super-table of [a.b]    -         yes                 yes, then DOTTED      yes
 *     [a] or [[a]]            DEFINED   no                  no                    yes
 *     dotted key a.b = 1      DOTTED    no                  yes                   yes
 *     a = { }                 FROZEN    no                  no                    no
 *
 * Only an array made by [[a]] (OPEN) takes further elements; [a.b] then means its last one.
 *
 * Memory: one block, sized from the text so that it always suffices:
 *     scratch (len + 1) | strings and keys (at most len, and a NUL each) | nodes */
#include "conf/toml_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { DEFINED = 1, DOTTED = 2, FROZEN = 4, OPEN = 8 };

struct ron_toml {
    struct ron_toml_value *root;
    void *memory;
    struct ron_arena arena;
};

/* ---- tree ------------------------------------------------------------------------------------ */

static struct ron_toml_value *find(const struct ron_toml_value *table, const char *key, size_t len)
{
    for (struct ron_toml_value *v = table->first; v != NULL; v = v->next) {
        if (v->key_len == len && memcmp(v->key, key, len) == 0) {
            return v;
        }
    }
    return NULL;
}

/* A new last child of `parent`; the key is NULL for elements. */
static enum ron_rc add_node(struct toml_parser *p, struct ron_toml_value *parent,
                            const struct toml_key *key, struct ron_toml_value **ret_node)
{
    if (p->values >= RON_TOML_VALUES_MAX) {
        return ron_err_set(p->err, RON_LIMIT, "%s: more than %d keys and elements", p->src.name,
                           RON_TOML_VALUES_MAX);
    }
    if (parent->depth >= RON_TOML_DEPTH_MAX) {
        return ron_err_set(p->err, RON_LIMIT, "%s: tables and arrays more than %d deep",
                           p->src.name, RON_TOML_DEPTH_MAX);
    }
    struct ron_toml_value *node = RON_ARENA_NEW(p->arena, struct ron_toml_value);

    if (node == NULL) {
        return toml_nomem(p);
    }
    memset(node, 0, sizeof(*node));
    node->depth = (uint8_t)(parent->depth + 1);
    node->offset = (uint32_t)(p->at - p->src.bytes);
    node->key_offset = node->offset;
    if (key != NULL) {
        node->key = key->text;
        node->key_len = key->len;
        node->key_offset = (uint32_t)(key->at - p->src.bytes);
    }
    if (parent->last == NULL) {
        parent->first = node;
    } else {
        parent->last->next = node;
    }
    parent->last = node;
    parent->count++;
    p->values++;
    *ret_node = node;
    return RON_OK;
}

static enum ron_rc add_table(struct toml_parser *p, struct ron_toml_value *parent,
                             const struct toml_key *key, uint8_t flags,
                             struct ron_toml_value **ret_table)
{
    RON_TRY(add_node(p, parent, key, ret_table));
    (*ret_table)->type = RON_TOML_TABLE;
    (*ret_table)->flags = flags;
    return RON_OK;
}

static uint32_t line_of(const struct toml_parser *p, const struct ron_toml_value *v)
{
    uint32_t line = 0;
    uint32_t column = 0;

    ron_toml_position(p->src.bytes, p->src.len, v->key_offset, &line, &column);
    return line;
}

static enum ron_rc fail_taken(struct toml_parser *p, const struct toml_key *key,
                              const struct ron_toml_value *old)
{
    return toml_fail(p, key->at, "\"%.64s\" is already defined in line %u", key->text,
                     line_of(p, old));
}

/* ---- keys and headers ------------------------------------------------------------------------ */

/* One part of a dotted key that is not the last. */
static enum ron_rc step_dotted(struct toml_parser *p, struct ron_toml_value **at,
                               const struct toml_key *key)
{
    struct ron_toml_value *child = find(*at, key->text, key->len);

    if (child == NULL) {
        return add_table(p, *at, key, DOTTED, at);
    }
    if (child->type != RON_TOML_TABLE) {
        return toml_fail(p, key->at, "\"%.64s\" is no table but a value of type %s, see line %u",
                         key->text, ron_toml_type_name(child->type), line_of(p, child));
    }
    if ((child->flags & (DEFINED | FROZEN)) != 0) {
        return toml_fail(p, key->at, "the table \"%.64s\" was finished in line %u", key->text,
                         line_of(p, child));
    }
    child->flags |= DOTTED;
    *at = child;
    return RON_OK;
}

/* One part of a header that is not the last. */
static enum ron_rc step_header(struct toml_parser *p, struct ron_toml_value **at,
                               const struct toml_key *key)
{
    struct ron_toml_value *child = find(*at, key->text, key->len);

    if (child == NULL) {
        return add_table(p, *at, key, 0, at);
    }
    if (child->type == RON_TOML_ARRAY && (child->flags & OPEN) != 0) {
        child = child->last;
    }
    if (child->type != RON_TOML_TABLE || (child->flags & FROZEN) != 0) {
        return toml_fail(p, key->at, "\"%.64s\" cannot be extended, see line %u", key->text,
                         line_of(p, child));
    }
    *at = child;
    return RON_OK;
}

static enum ron_rc define_table(struct toml_parser *p, struct ron_toml_value *parent,
                                const struct toml_key *key, struct ron_toml_value **ret_table)
{
    struct ron_toml_value *old = find(parent, key->text, key->len);

    if (old == NULL) {
        return add_table(p, parent, key, DEFINED, ret_table);
    }
    if (old->type != RON_TOML_TABLE || old->flags != 0) {
        return fail_taken(p, key, old);
    }
    old->flags |= DEFINED;
    old->key_offset = (uint32_t)(key->at - p->src.bytes);
    *ret_table = old;
    return RON_OK;
}

static enum ron_rc append_table(struct toml_parser *p, struct ron_toml_value *parent,
                                const struct toml_key *key, struct ron_toml_value **ret_table)
{
    struct ron_toml_value *array = find(parent, key->text, key->len);

    if (array == NULL) {
        RON_TRY(add_node(p, parent, key, &array));
        RON_ASSERT(array != NULL);
        array->type = RON_TOML_ARRAY;
        array->flags = OPEN;
    } else if (array->type != RON_TOML_ARRAY || (array->flags & OPEN) == 0) {
        return fail_taken(p, key, array);
    }
    return add_table(p, array, NULL, DEFINED, ret_table);
}

/* [a.b] or [[a.b]]; the table that follows lines fill. */
static enum ron_rc read_header(struct toml_parser *p, struct ron_toml_value *root,
                               struct ron_toml_value **ret_table)
{
    struct ron_toml_value *at = root;
    struct toml_key key = {0};
    char shown[TOML_SHOWN_SIZE];

    p->at++;
    bool element = toml_take(p, '[');

    toml_skip_blank(p);
    RON_TRY(toml_read_key(p, &key));
    toml_skip_blank(p);
    while (toml_take(p, '.')) {
        RON_TRY(step_header(p, &at, &key));
        toml_skip_blank(p);
        RON_TRY(toml_read_key(p, &key));
        toml_skip_blank(p);
    }
    if (!toml_take(p, ']') || (element && !toml_take(p, ']'))) {
        return toml_fail(p, p->at, "%s where the header should end with %s", toml_shown(p, shown),
                         element ? "]]" : "]");
    }
    return element ? append_table(p, at, &key, ret_table) : define_table(p, at, &key, ret_table);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum ron_rc read_value(struct toml_parser *p, struct ron_toml_value *v);

/* key = value, into a table that is being filled. */
static enum ron_rc read_pair(struct toml_parser *p, struct ron_toml_value *table)
{
    struct ron_toml_value *at = table;
    struct ron_toml_value *v = NULL;
    struct toml_key key = {0};
    char shown[TOML_SHOWN_SIZE];

    RON_TRY(toml_read_key(p, &key));
    toml_skip_blank(p);
    while (toml_take(p, '.')) {
        RON_TRY(step_dotted(p, &at, &key));
        toml_skip_blank(p);
        RON_TRY(toml_read_key(p, &key));
        toml_skip_blank(p);
    }
    if (!toml_take(p, '=')) {
        return toml_fail(p, p->at, "%s where = should follow the key", toml_shown(p, shown));
    }
    toml_skip_blank(p);
    v = find(at, key.text, key.len);
    if (v != NULL) {
        return fail_taken(p, &key, v);
    }
    RON_TRY(add_node(p, at, &key, &v));
    RON_ASSERT(v != NULL);
    return read_value(p, v);
}

static enum ron_rc read_array(struct toml_parser *p, struct ron_toml_value *array)
{
    char shown[TOML_SHOWN_SIZE];

    array->type = RON_TOML_ARRAY;
    p->at++;
    for (;;) {
        struct ron_toml_value *element = NULL;

        RON_TRY(toml_skip_lines(p));
        if (toml_take(p, ']')) {
            return RON_OK;
        }
        RON_TRY(add_node(p, array, NULL, &element));
        RON_ASSERT(element != NULL);
        RON_TRY(read_value(p, element));
        RON_TRY(toml_skip_lines(p));
        if (!toml_take(p, ',') && !toml_at(p, ']')) {
            return toml_fail(p, p->at, "%s where the array should go on with , or end with ]",
                             toml_shown(p, shown));
        }
    }
}

static enum ron_rc read_inline(struct toml_parser *p, struct ron_toml_value *table)
{
    char shown[TOML_SHOWN_SIZE];
    bool more;

    table->type = RON_TOML_TABLE;
    p->at++;
    toml_skip_blank(p);
    more = !toml_at(p, '}');
    while (more) {
        RON_TRY(read_pair(p, table));
        toml_skip_blank(p);
        more = toml_take(p, ',');
        toml_skip_blank(p);
        if (more && toml_at(p, '}')) {
            return toml_fail(p, p->at, "no comma may stand before the end of an inline table");
        }
    }
    if (!toml_take(p, '}')) {
        return toml_fail(p, p->at, "%s where the inline table should go on with , or end with }",
                         toml_shown(p, shown));
    }
    table->flags = FROZEN;
    return RON_OK;
}

static enum ron_rc read_value(struct toml_parser *p, struct ron_toml_value *v)
{
    if (toml_at(p, '"') || toml_at(p, '\'')) {
        return toml_read_string(p, v);
    }
    if (toml_at(p, '[')) {
        return read_array(p, v);
    }
    if (toml_at(p, '{')) {
        return read_inline(p, v);
    }
    return toml_read_scalar(p, v);
}

/* ---- document -------------------------------------------------------------------------------- */

static enum ron_rc read_document(struct toml_parser *p, struct ron_toml_value *root)
{
    struct ron_toml_value *table = root;
    size_t valid = ron_toml_utf8_prefix(p->at, (size_t)(p->end - p->at));

    if (p->at + valid != p->end) {
        return toml_fail(p, p->at + valid, "the byte 0x%02x is not valid UTF-8 here",
                         (unsigned)(uint8_t)p->at[valid]);
    }
    if (p->end - p->at >= 3 && memcmp(p->at, "\xef\xbb\xbf", 3) == 0) {
        p->at += 3; /* byte order mark */
    }
    for (;;) {
        RON_TRY(toml_skip_lines(p));
        if (p->at == p->end) {
            return RON_OK;
        }
        if (toml_at(p, '[')) {
            RON_TRY(read_header(p, root, &table));
        } else {
            RON_TRY(read_pair(p, table));
        }
        RON_TRY(toml_end_line(p));
    }
}

/* Enough for every document of that length; see the drawing at the top. */
static size_t memory_for(size_t len)
{
    size_t values = RON_MIN(len, (size_t)RON_TOML_VALUES_MAX) + 1;
    size_t node = sizeof(struct ron_toml_value) + _Alignof(struct ron_toml_value);

    /* A key is read before its node, so one key more than nodes may exist; parts of dotted keys
     * that lead to existing tables leave no node, but take a byte and a point of text each. */
    return (len + 1) + 2 * (len + 1) + values * node;
}

enum ron_rc ron_toml_parse(const char *name, const char *text, size_t len,
                           struct ron_toml **ret_doc, struct ron_err *err)
{
    if (len > RON_TOML_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "%s: %zu bytes, %d at most", name, len,
                           RON_TOML_BYTES_MAX);
    }
    struct ron_toml *doc = ron_alloc_zero(sizeof(*doc));
    void *memory = ron_alloc(memory_for(len));

    if (doc == NULL || memory == NULL) {
        ron_free(doc);
        ron_free(memory);
        return ron_err_set(err, RON_NOMEM, "%s: no memory for the document", name);
    }
    doc->memory = memory;
    ron_arena_init_over(&doc->arena, memory, memory_for(len));
    struct toml_parser p = {.src = {.name = name, .bytes = text, .len = len},
                            .at = text,
                            .end = text + len,
                            .arena = &doc->arena,
                            .err = err};

    p.scratch = ron_arena_alloc(&doc->arena, len + 1, 1);
    doc->root =
        ron_arena_alloc_array(&doc->arena, 1, sizeof(*doc->root), _Alignof(struct ron_toml_value));
    enum ron_rc rc =
        p.scratch == NULL || doc->root == NULL ? toml_nomem(&p) : read_document(&p, doc->root);

    if (rc != RON_OK) {
        ron_toml_free(doc);
        return rc;
    }
    *ret_doc = doc;
    return RON_OK;
}

void ron_toml_free(struct ron_toml *doc)
{
    if (doc == NULL) {
        return;
    }
    /* The file may hold secrets; they must not linger in freed memory. */
    explicit_bzero(doc->memory, doc->arena.used_peak);
    ron_free(doc->memory);
    ron_free(doc);
}

const struct ron_toml_value *ron_toml_root(const struct ron_toml *doc)
{
    return doc->root;
}

const struct ron_toml_value *ron_toml_find(const struct ron_toml_value *table, const char *key)
{
    return find(table, key, strlen(key));
}

const char *ron_toml_type_name(enum ron_toml_type type)
{
    switch (type) {
#define X(name, text)                                                                              \
    case RON_TOML_##name:                                                                          \
        return text;
        RON_TOML_TYPES(X)
#undef X
    }
    return "?";
}
