/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/surrogate.c - Surrogate-Control read as a Cache-Control of our own. */
#include "edge/rules/surrogate.h"

#include <string.h>

#include "ron/base/buf.h"

static struct ron_str up_to(struct ron_str text, char end, struct ron_str *ret_rest)
{
    const char *at = memchr(text.ptr, end, text.len);
    size_t len = at != NULL ? (size_t)(at - text.ptr) : text.len;

    *ret_rest = (struct ron_str){text.ptr + len, text.len - len};
    return ron_str_trim((struct ron_str){text.ptr, len});
}

/* Splits `directive[;device]`; the device has its semicolon still. */
static bool is_for(struct ron_str item, const char *device, struct ron_str *ret_directive)
{
    struct ron_str rest;
    struct ron_str plus;

    *ret_directive = up_to(up_to(item, ';', &rest), '+', &plus); /* O3 */
    if (rest.len == 0) {
        return device == NULL;
    }
    return device != NULL &&
           ron_str_is_nocase(ron_str_trim((struct ron_str){rest.ptr + 1, rest.len - 1}), device);
}

static bool same_name(struct ron_str a, struct ron_str b)
{
    struct ron_str rest;

    return ron_str_equal_nocase(up_to(a, '=', &rest), up_to(b, '=', &rest));
}

/* Whether a directive of this name also occurs with our name (O2). */
static bool overruled(struct edg_fields response, const char *device, struct ron_str directive)
{
    struct edg_list list = edg_list_of(response, EDG_SURROGATE);
    struct ron_str item;
    struct ron_str other;

    while (edg_list_next(&list, &item)) {
        if (is_for(item, device, &other) && same_name(other, directive)) {
            return true;
        }
    }
    return false;
}

static struct ron_str directives(struct edg_fields response, const char *device,
                                 char room[EDG_SURROGATE_MAX])
{
    struct edg_list list = edg_list_of(response, EDG_SURROGATE);
    struct ron_str item;
    struct ron_str directive;
    struct ron_buf text;

    ron_buf_init_over(&text, room, EDG_SURROGATE_MAX);
    while (edg_list_next(&list, &item)) {
        if (is_for(item, device, &directive) ||
            (is_for(item, NULL, &directive) && !overruled(response, device, directive))) {
            (void)ron_buf_append_text(&text, ron_buf_len(&text) > 0 ? ", " : "");
            (void)ron_buf_append(&text, directive.ptr, directive.len);
        }
    }
    return ron_buf_error(&text) == RON_OK
               ? (struct ron_str){(const char *)ron_buf_data(&text), ron_buf_len(&text)}
               : ron_str_of("no-store");
}

enum ron_rc edg_surrogate(struct edg_fields response, const char *device,
                          struct ron_http_field *out, size_t max, char room[EDG_SURROGATE_MAX],
                          struct edg_fields *ret_fields)
{
    size_t count = 0;

    if (!edg_fields_has(response, EDG_SURROGATE)) {
        *ret_fields = response;
        return RON_OK;
    }
    for (size_t i = 0; i < response.count; i++) {
        struct ron_str name = response.at[i].name;

        if (ron_str_is_nocase(name, "Cache-Control") || ron_str_is_nocase(name, "Expires") ||
            ron_str_is_nocase(name, EDG_SURROGATE)) {
            continue;
        }
        if (count == max) {
            return RON_LIMIT;
        }
        out[count++] = response.at[i];
    }
    if (count == max) {
        return RON_LIMIT;
    }
    out[count++] =
        (struct ron_http_field){ron_str_of("Cache-Control"), directives(response, device, room)};
    *ret_fields = (struct edg_fields){out, count};
    return RON_OK;
}
