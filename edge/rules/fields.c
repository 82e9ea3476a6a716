/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fields.c - names, lists and seconds of header fields. */
#include "edge/rules/fields.h"

#include <string.h>

/* Position of the first comma outside quotes, or the end; whether the quotes before it close. */
static size_t element_end(struct ron_str text, bool *ret_closed)
{
    bool quoted = false;
    size_t i = 0;

    for (; i < text.len && (quoted || text.ptr[i] != ','); i++) {
        if (text.ptr[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text.ptr[i] == '\\' && i + 1 < text.len) {
            i++;
        }
    }
    *ret_closed = !quoted;
    return i;
}

bool edg_str_closed(struct ron_str text)
{
    bool closed = true;

    while (closed && text.len > 0) {
        size_t end = element_end(text, &closed);

        end += end < text.len;
        text.ptr += end;
        text.len -= end;
    }
    return closed;
}

size_t edg_fields_get(struct edg_fields fields, const char *name, struct ron_str *ret_first)
{
    struct ron_str wanted = ron_str_of(name);
    size_t count = 0;

    for (size_t i = 0; i < fields.count; i++) {
        if (ron_str_equal_nocase(fields.at[i].name, wanted)) {
            if (count == 0 && ret_first != NULL) {
                *ret_first = fields.at[i].value;
            }
            count++;
        }
    }
    return count;
}

bool edg_fields_has(struct edg_fields fields, const char *name)
{
    return edg_fields_get(fields, name, NULL) > 0;
}

/* The next line of the list's name becomes its rest. */
static bool next_line(struct edg_list *list)
{
    struct ron_str wanted;

    if (list->name == NULL) {
        return false;
    }
    wanted = ron_str_of(list->name);
    while (list->next < list->fields.count) {
        const struct ron_http_field *f = &list->fields.at[list->next++];

        if (ron_str_equal_nocase(f->name, wanted)) {
            list->rest = f->value;
            return true;
        }
    }
    return false;
}

bool edg_list_next(struct edg_list *list, struct ron_str *ret_item)
{
    for (;;) {
        struct ron_str item = list->rest;
        bool closed;

        if (list->rest.len == 0) {
            if (!next_line(list)) {
                return false;
            }
            continue;
        }
        item.len = element_end(list->rest, &closed);
        list->rest.ptr += item.len;
        list->rest.len -= item.len;
        if (list->rest.len > 0) { /* behind the comma */
            list->rest.ptr++;
            list->rest.len--;
        }
        item = ron_str_trim(item);
        if (item.len > 0) {
            *ret_item = item;
            return true;
        }
    }
}

bool edg_list_has(struct edg_fields fields, const char *name, struct ron_str word)
{
    struct edg_list list = edg_list_of(fields, name);
    struct ron_str item;

    while (edg_list_next(&list, &item)) {
        if (ron_str_equal_nocase(item, word)) {
            return true;
        }
    }
    return false;
}

/* qvalue = "0" [ "." 0*3DIGIT ] / "1" [ "." 0*3"0" ] */
static bool read_weight(struct ron_str text, uint32_t *ret_weight)
{
    uint32_t weight;
    uint32_t unit = EDG_WEIGHT_MAX / 10;

    if (text.len == 0 || text.len > 5 || (text.ptr[0] != '0' && text.ptr[0] != '1') ||
        (text.len > 1 && text.ptr[1] != '.')) {
        return false;
    }
    weight = text.ptr[0] == '1' ? EDG_WEIGHT_MAX : 0;
    for (size_t i = 2; i < text.len; i++, unit /= 10) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        weight += (uint32_t)(text.ptr[i] - '0') * unit;
    }
    *ret_weight = weight;
    return weight <= EDG_WEIGHT_MAX;
}

enum ron_rc edg_weighted(struct ron_str item, struct ron_str *ret_name, uint32_t *ret_weight)
{
    const char *semicolon = item.len > 0 ? memchr(item.ptr, ';', item.len) : NULL;
    struct ron_str name = item;
    uint32_t weight = EDG_WEIGHT_MAX;

    if (semicolon != NULL) {
        struct ron_str q;

        name.len = (size_t)(semicolon - item.ptr);
        q = ron_str_trim((struct ron_str){semicolon + 1, item.len - name.len - 1});
        if (q.len < 2 || ron_lower(q.ptr[0]) != 'q' || q.ptr[1] != '=' ||
            !read_weight((struct ron_str){q.ptr + 2, q.len - 2}, &weight)) {
            return RON_INVALID;
        }
    }
    name = ron_str_trim(name);
    if (!ron_http_is_token(name)) {
        return RON_INVALID;
    }
    *ret_name = name;
    *ret_weight = weight;
    return RON_OK;
}

enum ron_rc edg_seconds(struct ron_str text, uint64_t *ret_s)
{
    uint64_t s = 0;

    if (text.len == 0) {
        return RON_INVALID;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return RON_INVALID;
        }
        s = RON_MIN(s * 10 + (uint64_t)(text.ptr[i] - '0'), EDG_SECONDS_MAX);
    }
    *ret_s = s;
    return RON_OK;
}
