/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/hop.c - fields that end with a connection, and Via. */
#include "edge/rules/hop.h"

#include <string.h>

enum { ANSWER = 1u << EDG_HOP_ANSWER, PASS = 1u << EDG_HOP_PASS, FILL = 1u << EDG_HOP_FILL };
enum { REQUEST = PASS | FILL, EVERY = ANSWER | REQUEST };

/* A field, and the ways on which it is dropped. */
struct rule {
    const char *name;
    uint32_t ways;
};

static const struct rule rules[] = {
    {"Connection", EVERY},
    {"Content-Length", EVERY},
    {"Keep-Alive", EVERY},
    {"Proxy-Authenticate", EVERY},
    {"Proxy-Authentication-Info", EVERY},
    {"Proxy-Authorization", EVERY},
    {"Proxy-Connection", EVERY},
    {"TE", EVERY},
    {"Trailer", EVERY},
    {"Transfer-Encoding", EVERY},
    {"Upgrade", EVERY},
    {"X-Corr-ID", EVERY},
    {"Host", REQUEST},
    {"Expect", REQUEST},
    {"Traceparent", REQUEST},
    {"Request-Timeout", REQUEST},
    {"Deadline", REQUEST},
    {"Via", REQUEST},
    {"Cache-Control", FILL},
    {"If-Match", FILL},
    {"If-Modified-Since", FILL},
    {"If-None-Match", FILL},
    {"If-Range", FILL},
    {"If-Unmodified-Since", FILL},
    {"Pragma", FILL},
    {"Range", FILL},
};

bool edg_hop_keeps(enum edg_hop way, struct edg_fields fields, struct ron_str name)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(rules); i++) {
        if ((rules[i].ways & (1u << (uint32_t)way)) != 0 &&
            ron_str_is_nocase(name, rules[i].name)) {
            return false;
        }
    }
    return !edg_list_has(fields, "Connection", name);
}

enum ron_rc edg_hop_filter(enum edg_hop way, struct edg_fields fields, struct ron_http_field *out,
                           size_t max, size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < fields.count; i++) {
        if (!edg_hop_keeps(way, fields, fields.at[i].name)) {
            continue;
        }
        if (count == max) {
            return RON_LIMIT;
        }
        out[count++] = fields.at[i];
    }
    *ret_count = count;
    return RON_OK;
}

enum ron_rc edg_hop_via(struct edg_fields fields, uint32_t minor, const char *pseudonym,
                        struct ron_buf *out)
{
    struct edg_list list = edg_list_of(fields, "Via");
    struct ron_str item;

    while (edg_list_next(&list, &item)) {
        RON_TRY(ron_buf_append(out, item.ptr, item.len));
        RON_TRY(ron_buf_append_text(out, ", "));
    }
    return ron_buf_append_fmt(out, "1.%u %s", minor, pseudonym);
}

/* received-protocol RWS received-by [ RWS comment ] */
bool edg_hop_looped(struct edg_fields fields, const char *pseudonym)
{
    struct edg_list list = edg_list_of(fields, "Via");
    struct ron_str item;

    while (edg_list_next(&list, &item)) {
        const char *space = memchr(item.ptr, ' ', item.len);
        struct ron_str by;

        if (space == NULL) {
            continue;
        }
        by = ron_str_trim((struct ron_str){space, (size_t)(item.ptr + item.len - space)});
        space = memchr(by.ptr, ' ', by.len);
        by.len = space == NULL ? by.len : (size_t)(space - by.ptr);
        if (ron_str_is_nocase(by, pseudonym)) {
            return true;
        }
    }
    return false;
}
