/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/policy_read.c - the policy file as a policy: every key known, every rule of use.
 *
 * The whole file is read into a new policy before anybody sees it (P1). A mistake of the writer is
 * told with its place: a typing error in a tag, a limit that another one hides, an account that no
 * account can be. */
#include <stdio.h>
#include <string.h>

#include "ledger/guard/policy_priv.h"
#include "ron/base/nearest.h"
#include "ron/base/str.h"
#include "ron/conf/toml.h"
#include "ron/io/file.h"
#include "ron/merkle/hash.h"

/* All kinds that a caller can send. */
static uint32_t all_kinds(void)
{
    uint32_t kinds = 0;

#define X(name, byte, wire, to, ref, doc) kinds |= UINT32_C(1) << (byte);
    LED_KIND_TABLE(X)
#undef X
    return kinds;
}

struct reader {
    const char *name;
    const char *text;
    size_t len;
    struct led_policy *p;
    struct ron_err *err;
};

/* Puts the place before what is wrong. */
static enum ron_rc place(const struct reader *r, uint32_t offset)
{
    uint32_t line = 0;
    uint32_t column = 0;

    ron_toml_position(r->text, r->len, offset, &line, &column);
    if (r->err != NULL) {
        ron_err_prefix(r->err, "%.64s:%u:%u", r->name, line, column);
    }
    return RON_INVALID;
}

#define fail(r, offset, ...) (ron_err_set((r)->err, RON_INVALID, __VA_ARGS__), place((r), (offset)))

/* ---- values ---------------------------------------------------------------------------------- */

static struct ron_str toml_str(const struct ron_toml_value *v)
{
    return (struct ron_str){v->string.text, v->string.len};
}

static enum ron_rc want(const struct reader *r, const struct ron_toml_value *v,
                        enum ron_toml_type type)
{
    if (v->type != type) {
        return fail(r, v->offset, "'%.32s' is a %s, not a %s", v->key == NULL ? "element" : v->key,
                    ron_toml_type_name(type), ron_toml_type_name(v->type));
    }
    return RON_OK;
}

/* Not when the arena is as large as arena_size says. */
static enum ron_rc no_memory(const struct reader *r)
{
    return ron_err_set(r->err, RON_NOMEM, "no memory for the policy");
}

/* A string of the arena, so that it outlives the text. */
static enum ron_rc keep(struct reader *r, struct ron_str s, struct ron_str *ret_copy)
{
    char *copy = ron_arena_dup(&r->p->arena, s.ptr, s.len);

    if (copy == NULL) {
        return no_memory(r);
    }
    *ret_copy = (struct ron_str){copy, s.len};
    return RON_OK;
}

/* The key of a table is one of these. */
static enum ron_rc known_key(const struct reader *r, const struct ron_toml_value *v,
                             const char *const *keys, size_t count)
{
    const char *nearest;

    for (size_t i = 0; i < count; i++) {
        if (ron_str_is((struct ron_str){v->key, v->key_len}, keys[i])) {
            return RON_OK;
        }
    }
    nearest = ron_nearest(v->key, keys, count);
    return fail(r, v->key_offset, "unknown key%s%s%s", nearest != NULL ? "; did you mean '" : "",
                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static enum ron_rc known_keys(const struct reader *r, const struct ron_toml_value *table,
                              const char *const *keys, size_t count)
{
    for (const struct ron_toml_value *v = table->first; v != NULL; v = v->next) {
        RON_TRY(known_key(r, v, keys, count));
    }
    return RON_OK;
}

/* A text that must be there; NULL, and err set, when it is not. */
static const struct ron_toml_value *need(const struct reader *r, const struct ron_toml_value *table,
                                         const char *key)
{
    const struct ron_toml_value *v = ron_toml_find(table, key);

    if (v == NULL) {
        (void)fail(r, table->offset, "'%s' is missing", key);
        return NULL;
    }
    return want(r, v, RON_TOML_STRING) == RON_OK ? v : NULL;
}

/* A prefix of accounts, with what stands for a rule about it. NULL: every account. */
static enum ron_rc add_rule(struct reader *r, struct policy_tree *tree,
                            const struct ron_toml_value *account, struct policy_rule rule)
{
    struct ron_str s = {.ptr = "", .len = 0};

    if (account != NULL) {
        RON_TRY(want(r, account, RON_TOML_STRING));
        s = toml_str(account);
        rule.offset = account->offset;
        if (s.len > 0 && s.ptr[s.len - 1] == '*') {
            s.len--;
            rule.open = true;
        }
        if (!led_account_valid(s)) {
            return fail(r, account->offset,
                        "an account or the beginning of one: letters, digits, ':', '/', '-', '_', "
                        "and '*' at the end");
        }
        rule.open = rule.open || s.ptr[s.len - 1] == ':' || s.ptr[s.len - 1] == '/';
        RON_TRY(keep(r, s, &rule.prefix));
    } else {
        rule.open = true;
        rule.prefix = s;
    }
    rule.rank = (uint8_t)(rule.rank + (rule.open ? 8 : 0));
    tree->rules[tree->rule_count++] = rule;
    return RON_OK;
}

/* Room for `count` rules. */
static enum ron_rc make_tree(struct reader *r, struct policy_tree *tree, size_t count)
{
    tree->rules = ron_arena_alloc_array(&r->p->arena, count, sizeof *tree->rules,
                                        _Alignof(struct policy_rule));
    tree->nodes = ron_arena_alloc_array(&r->p->arena, count, sizeof *tree->nodes,
                                        _Alignof(struct policy_node));
    return tree->rules != NULL && tree->nodes != NULL ? RON_OK : no_memory(r);
}

/* An array of tables, or nothing. */
static enum ron_rc tables(const struct reader *r, const char *key,
                          const struct ron_toml_value *root, const struct ron_toml_value **ret)
{
    const struct ron_toml_value *v = ron_toml_find(root, key);

    if (v != NULL) {
        RON_TRY(want(r, v, RON_TOML_ARRAY));
        for (const struct ron_toml_value *e = v->first; e != NULL; e = e->next) {
            if (e->type != RON_TOML_TABLE) {
                return fail(r, e->offset, "'%s' holds tables: [[%s]]", key, key);
            }
        }
    }
    *ret = v;
    return RON_OK;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static enum ron_rc read_kinds(const struct reader *r, const struct ron_toml_value *v,
                              uint32_t *ret_kinds)
{
    uint32_t kinds = 0;

    RON_TRY(want(r, v, RON_TOML_ARRAY));
    for (const struct ron_toml_value *e = v->first; e != NULL; e = e->next) {
        uint8_t kind;

        RON_TRY(want(r, e, RON_TOML_STRING));
        kind = led_kind_parse(toml_str(e));
        if (kind == 0 || kind == LED_KIND_EXPIRE) {
            return fail(r, e->offset, "no kind of entry that a caller can send");
        }
        if ((kinds >> kind & 1) != 0) {
            return fail(r, e->offset, "a kind twice");
        }
        kinds |= UINT32_C(1) << kind;
    }
    if (kinds == 0) {
        return fail(r, v->offset, "at least one kind");
    }
    *ret_kinds = kinds;
    return RON_OK;
}

static enum ron_rc read_effect(const struct reader *r, const struct ron_toml_value *table,
                               struct policy_limit *limit)
{
    const struct ron_toml_value *max = ron_toml_find(table, "max_amount");
    const struct ron_toml_value *deny = ron_toml_find(table, "deny");

    if (deny != NULL) {
        RON_TRY(want(r, deny, RON_TOML_BOOL));
        limit->deny = deny->boolean;
        if (limit->deny && max != NULL) {
            return fail(r, max->key_offset, "a rule that denies needs no ceiling");
        }
    }
    if (max != NULL) {
        RON_TRY(want(r, max, RON_TOML_STRING));
        if (ron_money_parse(max->string.text, max->string.len, &limit->max, NULL) != RON_OK) {
            return fail(r, max->offset, "a decimal number in quotes, at most 2^128 - 1");
        }
        limit->has_max = true;
    }
    return RON_OK;
}

static enum ron_rc read_limit(struct reader *r, const struct ron_toml_value *table)
{
    static const char *const keys[] = {"account", "kinds", "asset", "max_amount", "deny"};
    const struct ron_toml_value *kinds = ron_toml_find(table, "kinds");
    const struct ron_toml_value *asset = ron_toml_find(table, "asset");
    struct policy_limit limit = {.kinds = all_kinds()};
    struct policy_rule rule = {.value = (uint32_t)r->p->limit_count, .offset = table->offset};

    RON_TRY(known_keys(r, table, keys, RON_ARRAY_LEN(keys)));
    if (kinds != NULL) {
        RON_TRY(read_kinds(r, kinds, &limit.kinds));
    }
    if (asset != NULL) {
        RON_TRY(want(r, asset, RON_TOML_STRING));
        if (!led_asset_valid(toml_str(asset))) {
            return fail(r, asset->offset, "no asset can have this name");
        }
        RON_TRY(keep(r, toml_str(asset), &limit.asset));
    }
    RON_TRY(read_effect(r, table, &limit));
    rule.rank = (uint8_t)((asset == NULL ? 2 : 0) + (kinds == NULL ? 1 : 0)); /* P3 */
    RON_TRY(add_rule(r, &r->p->limit_tree, ron_toml_find(table, "account"), rule));
    r->p->limits[r->p->limit_count++] = limit;
    return RON_OK;
}

/* Two limits that match one entry equally well. */
static enum ron_rc check_ambiguous(const struct reader *r)
{
    const struct policy_tree *t = &r->p->limit_tree;

    for (size_t i = 0; i < t->rule_count; i++) {
        const struct policy_limit *a = &r->p->limits[t->rules[i].value];

        for (size_t k = i + 1; k < t->rule_count && t->rules[k].rank == t->rules[i].rank &&
                               ron_str_equal(t->rules[k].prefix, t->rules[i].prefix);
             k++) {
            const struct policy_limit *b = &r->p->limits[t->rules[k].value];

            if ((a->kinds & b->kinds) != 0 && ron_str_equal(a->asset, b->asset)) {
                return fail(r, t->rules[k].offset,
                            "another limit has the same account, asset and kind");
            }
        }
    }
    return RON_OK;
}

static enum ron_rc read_limits(struct reader *r, const struct ron_toml_value *list)
{
    size_t count = list == NULL ? 0 : list->count;

    RON_TRY(make_tree(r, &r->p->limit_tree, count));
    r->p->limits = ron_arena_alloc_array(&r->p->arena, count, sizeof *r->p->limits,
                                         _Alignof(struct policy_limit));
    if (r->p->limits == NULL) {
        return no_memory(r);
    }
    for (const struct ron_toml_value *v = list == NULL ? NULL : list->first; v != NULL;
         v = v->next) {
        RON_TRY(read_limit(r, v));
    }
    led__policy_tree_build(&r->p->limit_tree);
    return check_ambiguous(r);
}

/* ---- freezes and residency ------------------------------------------------------------------- */

static enum ron_rc check_twice(const struct reader *r, const struct policy_tree *t)
{
    for (size_t i = 1; i < t->rule_count; i++) {
        if (ron_str_equal(t->rules[i].prefix, t->rules[i - 1].prefix) &&
            t->rules[i].open == t->rules[i - 1].open) {
            return fail(r, t->rules[i].offset, "this account is named twice");
        }
    }
    return RON_OK;
}

static enum ron_rc read_freeze(struct reader *r, const struct ron_toml_value *list)
{
    if (list != NULL) {
        RON_TRY(want(r, list, RON_TOML_ARRAY));
    }
    RON_TRY(make_tree(r, &r->p->frozen, list == NULL ? 0 : list->count));
    for (const struct ron_toml_value *v = list == NULL ? NULL : list->first; v != NULL;
         v = v->next) {
        RON_TRY(add_rule(r, &r->p->frozen, v, (struct policy_rule){0}));
    }
    led__policy_tree_build(&r->p->frozen);
    return check_twice(r, &r->p->frozen);
}

/* The number of a tag; tag_count when it is new. */
static size_t find_tag(const struct led_policy *p, struct ron_str name)
{
    size_t i = 0;

    while (i < p->tag_count && !ron_str_is(name, p->tags[i])) {
        i++;
    }
    return i;
}

static enum ron_rc read_residency(struct reader *r, const struct ron_toml_value *table)
{
    static const char *const keys[] = {"account", "tag"};
    const struct ron_toml_value *account;
    const struct ron_toml_value *tag;
    size_t number;

    RON_TRY(known_keys(r, table, keys, RON_ARRAY_LEN(keys)));
    account = need(r, table, "account");
    tag = account == NULL ? NULL : need(r, table, "tag");
    if (tag == NULL) {
        return RON_INVALID;
    }
    if (!led_asset_valid(toml_str(tag))) {
        return fail(r, tag->offset, "1-32 of a-z, 0-9, '.', '_', '-', beginning with a letter");
    }
    number = find_tag(r->p, toml_str(tag));
    if (number == POLICY_TAG_NONE) {
        return fail(r, tag->offset, "'none' is the tag of accounts without one");
    }
    if (number == r->p->tag_count) {
        if (number > LED_POLICY_TAGS_MAX) {
            return fail(r, tag->offset, "at most %d tags", (int)LED_POLICY_TAGS_MAX);
        }
        memcpy(r->p->tags[r->p->tag_count++], tag->string.text, tag->string.len); /* zeroed */
    }
    return add_rule(r, &r->p->residency, account, (struct policy_rule){.value = (uint32_t)number});
}

static enum ron_rc read_pass(struct reader *r, const struct ron_toml_value *table)
{
    static const char *const keys[] = {"from", "to"};
    size_t tags[2];

    RON_TRY(known_keys(r, table, keys, RON_ARRAY_LEN(keys)));
    for (size_t i = 0; i < RON_ARRAY_LEN(keys); i++) {
        const struct ron_toml_value *v = need(r, table, keys[i]);

        if (v == NULL) {
            return RON_INVALID;
        }
        tags[i] = find_tag(r->p, toml_str(v));
        if (tags[i] == r->p->tag_count) {
            return fail(r, v->offset, "no [[residency]] has this tag");
        }
    }
    if ((r->p->passes[tags[0]] >> tags[1] & 1) != 0) {
        return fail(r, table->offset, "allowed already");
    }
    r->p->passes[tags[0]] |= UINT64_C(1) << tags[1];
    r->p->pass_count++;
    return RON_OK;
}

static enum ron_rc read_residencies(struct reader *r, const struct ron_toml_value *list,
                                    const struct ron_toml_value *passes)
{
    RON_TRY(make_tree(r, &r->p->residency, list == NULL ? 0 : list->count));
    for (const struct ron_toml_value *v = list == NULL ? NULL : list->first; v != NULL;
         v = v->next) {
        RON_TRY(read_residency(r, v));
    }
    led__policy_tree_build(&r->p->residency);
    RON_TRY(check_twice(r, &r->p->residency));
    for (const struct ron_toml_value *v = passes == NULL ? NULL : passes->first; v != NULL;
         v = v->next) {
        RON_TRY(read_pass(r, v));
    }
    return RON_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum ron_rc read_switches(struct reader *r, const struct ron_toml_value *root)
{
    const struct ron_toml_value *v = ron_toml_find(root, "v");
    const struct ron_toml_value *fallback = ron_toml_find(root, "default");
    const struct ron_toml_value *bridges = ron_toml_find(root, "reversible_bridges");

    if (v == NULL || v->type != RON_TOML_INTEGER || v->integer != 1) {
        return fail(r, v == NULL ? 0 : v->offset, "'v = 1' says which format this is");
    }
    if (fallback != NULL) {
        RON_TRY(want(r, fallback, RON_TOML_STRING));
        if (!ron_str_is(toml_str(fallback), "allow") && !ron_str_is(toml_str(fallback), "deny")) {
            return fail(r, fallback->offset, "'allow' or 'deny'");
        }
        r->p->default_deny = ron_str_is(toml_str(fallback), "deny");
    }
    if (bridges != NULL) {
        RON_TRY(want(r, bridges, RON_TOML_STRING));
        r->p->bridges = led_bridges_parse(toml_str(bridges));
        if (r->p->bridges == LED_BRIDGES_COUNT) {
            return fail(r, bridges->offset, "'disabled', 'require-cap' or 'allow'");
        }
    }
    return RON_OK;
}

static enum ron_rc read_root(struct reader *r, const struct ron_toml_value *root)
{
    static const char *const keys[] = {"v",     "default",   "reversible_bridges", "freeze",
                                       "limit", "residency", "residency_pass"};
    const struct ron_toml_value *limits = NULL;
    const struct ron_toml_value *residency = NULL;
    const struct ron_toml_value *passes = NULL;

    RON_TRY(known_keys(r, root, keys, RON_ARRAY_LEN(keys)));
    RON_TRY(read_switches(r, root));
    RON_TRY(tables(r, "limit", root, &limits));
    RON_TRY(tables(r, "residency", root, &residency));
    RON_TRY(tables(r, "residency_pass", root, &passes));
    RON_TRY(read_limits(r, limits));
    RON_TRY(read_freeze(r, ron_toml_find(root, "freeze")));
    RON_TRY(read_residencies(r, residency, passes));
    r->p->idle = !r->p->default_deny && r->p->limit_count == 0 && r->p->frozen.rule_count == 0 &&
                 r->p->residency.rule_count == 0;
    return RON_OK;
}

/* Every rule stands in one element of one array, and every text is kept once. */
static size_t arena_size(const struct ron_toml_value *root, size_t len)
{
    static const char *const lists[] = {"limit", "freeze", "residency"};
    size_t per_rule =
        sizeof(struct policy_rule) + sizeof(struct policy_node) + sizeof(struct policy_limit);
    size_t rules = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(lists); i++) {
        const struct ron_toml_value *v = ron_toml_find(root, lists[i]);

        rules += v == NULL ? 0 : v->count;
    }
    /* A kept text has a NUL; alignment of seven arrays. */
    return len + rules * (per_rule + 2) + (size_t)8 * _Alignof(max_align_t);
}

enum ron_rc led_policy_parse(const char *name, const char *text, size_t len,
                             struct led_policy **ret_policy, struct ron_err *err)
{
    const struct ron_tree_piece piece = {text, len};
    struct reader r = {.name = name, .text = text, .len = len, .err = err};
    struct ron_toml *doc = NULL;
    struct ron_tree_hash hash;
    enum ron_rc rc;

    RON_TRY(ron_toml_parse(name, text, len, &doc, err));
    rc = led__policy_new(arena_size(ron_toml_root(doc), len), &r.p);
    if (rc != RON_OK) {
        ron_toml_free(doc);
        return ron_err_set(err, rc, "no memory for the policy");
    }
    rc = read_root(&r, ron_toml_root(doc));
    ron_toml_free(doc);
    if (rc != RON_OK) {
        led_policy_unref(r.p);
        return rc;
    }
    ron_tree_hash_pieces(&piece, 1, &hash);
    memcpy(&r.p->digest, hash.bytes, sizeof r.p->digest);
    *ret_policy = r.p;
    return RON_OK;
}

enum ron_rc led_policy_load(const struct ron_env *env, const char *path,
                            struct led_policy **ret_policy, struct ron_err *err)
{
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, LED_POLICY_BYTES_MAX);
    rc = ron_file_read_all(env, path, &text, err);
    if (rc == RON_OK) {
        rc = led_policy_parse(path, (const char *)ron_buf_data(&text), ron_buf_len(&text),
                              ret_policy, err);
    }
    ron_buf_done(&text);
    return rc;
}
