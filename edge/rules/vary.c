/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/vary.c - canonical Vary, and the key of a request under it. */
#include "edge/rules/vary.h"

#include "ron/base/assert.h"

#include <string.h>

/* Letters in any case are equal; a prefix sorts first. */
static int compare(struct ron_str a, struct ron_str b)
{
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        int diff = (unsigned char)ron_lower(a.ptr[i]) - (unsigned char)ron_lower(b.ptr[i]);

        if (diff != 0) {
            return diff;
        }
    }
    return (a.len > b.len) - (a.len < b.len);
}

static void append_lower(struct ron_buf *out, struct ron_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        RON_IGNORE(ron_buf_append_byte(out, (uint8_t)ron_lower(text.ptr[i])));
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

struct names {
    struct ron_str at[EDG_VARY_NAMES_MAX]; /* sorted, each once */
    size_t count;
};

/* False when there is no room. */
static bool insert_name(struct names *names, struct ron_str name)
{
    size_t i = names->count;

    while (i > 0 && compare(names->at[i - 1], name) > 0) {
        i--;
    }
    if (i > 0 && compare(names->at[i - 1], name) == 0) {
        return true;
    }
    if (names->count == EDG_VARY_NAMES_MAX) {
        return false;
    }
    RON_ASSERT_MSG(i == names->count || compare(names->at[i], name) > 0, "names stay sorted");
    memmove(&names->at[i + 1], &names->at[i], (names->count - i) * sizeof names->at[0]);
    names->at[i] = name;
    names->count++;
    return true;
}

void edg_vary_parse(struct edg_fields response, struct edg_vary *ret_vary)
{
    struct edg_list list = edg_list_of(response, "Vary");
    struct names names = {.count = 0};
    struct ron_str name;
    struct ron_buf out;

    ret_vary->any = false;
    ret_vary->len = 0;
    ret_vary->text[0] = '\0';
    while (edg_list_next(&list, &name)) {
        /* "*" is a token by its letters, and none by its meaning. */
        if (ron_str_is(name, "*") || !ron_http_is_token(name) || !insert_name(&names, name)) {
            ret_vary->any = true;
            return;
        }
    }
    ron_buf_init_over(&out, ret_vary->text, sizeof ret_vary->text);
    for (size_t i = 0; i < names.count; i++) {
        if (i > 0) {
            RON_IGNORE(ron_buf_append_byte(&out, ','));
        }
        append_lower(&out, names.at[i]);
    }
    ret_vary->any = ron_buf_error(&out) != RON_OK;
    ret_vary->len = ron_buf_len(&out);
    RON_IGNORE(ron_buf_text(&out));
}

/* ---- values ---------------------------------------------------------------------------------- */

enum kind {
    AS_SENT,  /* elements in their order */
    ACCEPT,   /* in any order */
    WEIGHTED, /* in any order and case, weights in one spelling */
};

static enum kind kind_of(struct ron_str name)
{
    if (ron_str_is_nocase(name, "accept")) {
        return ACCEPT;
    }
    return ron_str_is_nocase(name, "accept-charset") ||
                   ron_str_is_nocase(name, "accept-encoding") ||
                   ron_str_is_nocase(name, "accept-language")
               ? WEIGHTED
               : AS_SENT;
}

/* An element up to its parameters. */
static struct ron_str stem(struct ron_str item)
{
    const char *semicolon = memchr(item.ptr, ';', item.len);

    return semicolon == NULL
               ? item
               : ron_str_trim((struct ron_str){item.ptr, (size_t)(semicolon - item.ptr)});
}

static int compare_items(struct ron_str a, struct ron_str b)
{
    int by_stem = compare(stem(a), stem(b));

    if (by_stem != 0) {
        return by_stem;
    }
    by_stem = compare(a, b);
    if (by_stem != 0 || a.len == 0) {
        return by_stem;
    }
    return memcmp(a.ptr, b.ptr, a.len); /* the same letters but for their case */
}

static void append_item(struct ron_buf *out, struct ron_str item, enum kind kind)
{
    struct ron_str name;
    uint32_t weight;

    if (kind != WEIGHTED) {
        RON_IGNORE(ron_buf_append(out, item.ptr, item.len));
        return;
    }
    if (edg_weighted(item, &name, &weight) != RON_OK) {
        append_lower(out, item);
        return;
    }
    append_lower(out, name);
    if (weight < EDG_WEIGHT_MAX) {
        RON_IGNORE(ron_buf_append_fmt(out, ";q=%u", weight));
    }
}

/* Counts the elements, and keeps the first EDG_VARY_ITEMS_MAX sorted. */
static size_t sort_items(struct edg_list list, struct ron_str items[EDG_VARY_ITEMS_MAX])
{
    struct ron_str item;
    size_t count = 0;

    for (; edg_list_next(&list, &item); count++) {
        size_t i = count;

        if (count >= EDG_VARY_ITEMS_MAX) {
            continue;
        }
        while (i > 0 && compare_items(items[i - 1], item) > 0) {
            items[i] = items[i - 1];
            i--;
        }
        items[i] = item;
    }
    return count;
}

static void append_value(struct ron_buf *out, struct ron_str name, struct edg_list list)
{
    enum kind kind = kind_of(name);
    struct ron_str items[EDG_VARY_ITEMS_MAX];
    size_t count = kind == AS_SENT ? 0 : sort_items(list, items);
    bool sorted = kind != AS_SENT && count <= EDG_VARY_ITEMS_MAX;
    struct ron_str item;
    size_t i = 0;

    while (sorted ? i < count : edg_list_next(&list, &item)) {
        if (i > 0) {
            RON_IGNORE(ron_buf_append_byte(out, ','));
        }
        append_item(out, sorted ? items[i] : item, kind);
        i++;
    }
}

enum ron_rc edg_vary_key(struct ron_str text, struct edg_fields request, struct ron_buf *out)
{
    size_t before = ron_buf_len(out);
    struct edg_list names = edg_list_in(text);
    struct ron_str name;

    while (edg_list_next(&names, &name)) {
        char z[EDG_VARY_TEXT_MAX + 1];

        if (name.len > EDG_VARY_TEXT_MAX) {
            return RON_LIMIT;
        }
        memcpy(z, name.ptr, name.len);
        z[name.len] = '\0';
        RON_IGNORE(ron_buf_append(out, name.ptr, name.len));
        if (edg_fields_has(request, z)) {
            RON_IGNORE(ron_buf_append_byte(out, ':'));
            append_value(out, name, edg_list_of(request, z));
        }
        RON_TRY(ron_buf_append_byte(out, '\n'));
    }
    return ron_buf_len(out) - before > EDG_VARY_KEY_MAX ? RON_LIMIT : ron_buf_error(out);
}
