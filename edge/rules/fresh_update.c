/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh_update.c - fields of stored answers, and what a write invalidates. */
#include "edge/rules/fresh_update.h"

#include "edge/rules/cc.h"
#include "edge/rules/hop.h"
#include "ron/base/assert.h"

static bool listed(struct ron_str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ron_str_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* Fields that speak of the bytes that are stored (U2). */
static bool of_bytes(struct ron_str name)
{
    static const char *const names[] = {
        "Content-Length", "Content-Encoding", "Content-Range", "Content-MD5",
        "Digest",         "Content-Digest",   "Repr-Digest",   "ETag"};

    return listed(name, names, RON_ARRAY_LEN(names));
}

/* Fields of the moment: those of the last answer count, or none. */
static bool of_moment(struct ron_str name)
{
    static const char *const names[] = {"Age", "Date"};

    return listed(name, names, RON_ARRAY_LEN(names));
}

static bool kept(struct edg_fields response, struct ron_str name)
{
    return edg_hop_keeps(EDG_HOP_ANSWER, response, name) && !edg_cc_withheld(response, name);
}

/* A row of fields that is being filled. */
struct row {
    struct ron_http_field *out;
    size_t max;
    size_t count;
};

static enum ron_rc add(struct row *row, const struct ron_http_field *field)
{
    if (row->count == row->max) {
        return RON_LIMIT;
    }
    row->out[row->count++] = *field;
    return RON_OK;
}

enum ron_rc edg_update_keep(struct edg_fields response, struct ron_http_field *out, size_t max,
                            size_t *ret_count)
{
    struct row row = {.out = out, .max = max};

    for (size_t i = 0; i < response.count; i++) {
        if (kept(response, response.at[i].name)) {
            RON_TRY(add(&row, &response.at[i]));
        }
    }
    *ret_count = row.count;
    return RON_OK;
}

static bool present(struct edg_fields fields, struct ron_str name)
{
    for (size_t i = 0; i < fields.count; i++) {
        if (ron_str_equal_nocase(fields.at[i].name, name)) {
            return true;
        }
    }
    return false;
}

enum ron_rc edg_update_merge(struct edg_fields stored, struct edg_fields fresh,
                             struct ron_http_field *out, size_t max, size_t *ret_count)
{
    struct row row = {.out = out, .max = max};

    for (size_t i = 0; i < stored.count; i++) {
        struct ron_str name = stored.at[i].name;
        bool replaced = present(fresh, name) && edg_hop_keeps(EDG_HOP_ANSWER, fresh, name);

        if (of_bytes(name) || (!replaced && !of_moment(name))) {
            RON_TRY(add(&row, &stored.at[i]));
        }
    }
    for (size_t i = 0; i < fresh.count; i++) {
        struct ron_str name = fresh.at[i].name;

        if (kept(fresh, name) && !of_bytes(name)) {
            RON_TRY(add(&row, &fresh.at[i]));
        }
    }
    *ret_count = row.count;
    return RON_OK;
}

bool edg_invalidates(enum ron_http_method method, int status)
{
    bool safe = method == RON_HTTP_GET || method == RON_HTTP_HEAD || method == RON_HTTP_OPTIONS;

    return !safe && status >= 200 && status < 400;
}

/* ---- references ------------------------------------------------------------------------------ */

/* Up to the first of `ends`, which stays in *text. */
static struct ron_str cut(struct ron_str *text, const char *ends)
{
    struct ron_str part = {text->ptr, 0};

    while (part.len < text->len) {
        const char *e = ends;

        while (*e != '\0' && *e != text->ptr[part.len]) {
            e++;
        }
        if (*e != '\0') {
            break;
        }
        part.len++;
    }
    text->ptr += part.len;
    text->len -= part.len;
    return part;
}

/* Without the port of http or https. Which of the two it is does not matter here: to invalidate the
 * other one as well does no harm. */
static struct ron_str portless(struct ron_str authority)
{
    static const char *const ports[] = {":80", ":443"};

    for (size_t i = 0; i < RON_ARRAY_LEN(ports); i++) {
        struct ron_str port = ron_str_of(ports[i]);

        if (authority.len > port.len &&
            ron_str_equal_nocase(
                (struct ron_str){authority.ptr + authority.len - port.len, port.len}, port)) {
            authority.len -= port.len;
            break;
        }
    }
    return authority;
}

static bool same_host(struct ron_str a, struct ron_str b)
{
    return b.len > 0 && ron_str_equal_nocase(portless(a), portless(b));
}

/* A path as it grows, without dot segments. */
struct path {
    char *out;
    size_t size;
    size_t len;
};

static enum ron_rc put(struct path *p, struct ron_str text)
{
    if (text.len > p->size - p->len) {
        return RON_LIMIT;
    }
    for (size_t i = 0; i < text.len; i++) {
        p->out[p->len++] = text.ptr[i];
    }
    return RON_OK;
}

/* One segment with the slash before it; `last` segments that are dots leave a slash. */
static enum ron_rc put_segment(struct path *p, struct ron_str segment, bool last)
{
    bool up = ron_str_is(segment, "..");

    while (up && p->len > 0 && p->out[--p->len] != '/') {
        continue;
    }
    if (up || ron_str_is(segment, ".")) {
        return last ? put(p, ron_str_of("/")) : RON_OK;
    }
    RON_TRY(put(p, ron_str_of("/")));
    return put(p, segment);
}

/* A path of segments that begins with a slash; `whole`: it ends here. */
static enum ron_rc put_path(struct path *p, struct ron_str path, bool whole)
{
    while (path.len > 0) {
        struct ron_str segment;

        path.ptr++; /* the slash */
        path.len--;
        segment = cut(&path, "/");
        RON_TRY(put_segment(p, segment, whole && path.len == 0));
    }
    return RON_OK;
}

/* The folder of a path: up to its last slash, without it. */
static struct ron_str folder(struct ron_str path)
{
    while (path.len > 0 && path.ptr[path.len - 1] != '/') {
        path.len--;
    }
    path.len -= path.len > 0;
    return path;
}

/* RFC 3986 5.2.2 for a reference without scheme and authority; `base` is the target's path. */
static enum ron_rc resolve(struct path *p, const struct edg_base *base, struct ron_str reference)
{
    struct ron_str base_query = base->target;
    struct ron_str base_path = cut(&base_query, "?#");
    struct ron_str path = cut(&reference, "?#");

    if (path.len == 0) {
        RON_TRY(put(p, base_path));
        return put(p, reference.len > 0 && reference.ptr[0] == '?' ? cut(&reference, "#")
                                                                   : cut(&base_query, "#"));
    }
    if (path.ptr[0] == '/') {
        RON_TRY(put_path(p, path, true));
    } else {
        struct ron_str first = cut(&path, "/");

        RON_TRY(put_path(p, folder(base_path), false));
        RON_TRY(put_segment(p, first, path.len == 0));
        RON_TRY(put_path(p, path, true));
    }
    return put(p, cut(&reference, "#"));
}

enum ron_rc edg_location(const struct edg_base *base, struct ron_str reference, char *out,
                         size_t size, struct ron_str *ret_target)
{
    struct path p = {.out = out, .size = size};
    struct ron_str rest = reference;
    struct ron_str scheme = cut(&rest, ":/?#");
    struct ron_str ignored;

    if (rest.len > 0 && rest.ptr[0] == ':') {
        if (!ron_str_is_nocase(scheme, "http") && !ron_str_is_nocase(scheme, "https")) {
            return RON_DENIED;
        }
        reference = (struct ron_str){rest.ptr + 1, rest.len - 1};
        if (reference.len < 2 || reference.ptr[0] != '/' || reference.ptr[1] != '/') {
            return RON_INVALID;
        }
    }
    if (reference.len >= 2 && reference.ptr[0] == '/' && reference.ptr[1] == '/') {
        struct ron_str authority;

        reference = (struct ron_str){reference.ptr + 2, reference.len - 2};
        authority = cut(&reference, "/?#");
        if (!same_host(authority, base->host) && !same_host(authority, base->origin)) {
            return RON_DENIED;
        }
        if (reference.len == 0 || reference.ptr[0] != '/') {
            RON_TRY(put(&p, ron_str_of("/")));
            RON_TRY(put(&p, cut(&reference, "#")));
            reference.len = 0;
        }
    }
    if (p.len == 0) {
        RON_TRY(resolve(&p, base, reference));
    }
    if (!ron_http_split_target((struct ron_str){out, p.len}, &ignored, &ignored)) {
        return RON_INVALID;
    }
    *ret_target = (struct ron_str){out, p.len};
    return RON_OK;
}
