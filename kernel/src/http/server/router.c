/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/router.c - patterns with typed parameters, and which route a request
 * takes.
 *
 * Place: http; pure code. Routes are few and their literals tell them apart in the first bytes, so
 * they are tried one after the other, sorted so that a literal stands before a parameter. */
#include <string.h>

#include "http/server/priv.h"
#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"

/* ---- compiling ------------------------------------------------------------------------------- */

static enum ron_rc compile_param(const struct ron_http_route *def, struct ron_str inner, bool last,
                                 struct http_seg *seg, struct ron_err *err)
{
    struct ron_str name = inner;

    seg->kind = HTTP_SEG_TEXT;
    if (name.len > 4 && memcmp(name.ptr + name.len - 4, ":u64", 4) == 0) {
        name.len -= 4;
        seg->kind = HTTP_SEG_U64;
    } else if (name.len > 1 && name.ptr[name.len - 1] == '*') {
        name.len -= 1;
        seg->kind = HTTP_SEG_REST;
    }
    if (!ron_http_is_corr_id(name)) {
        return ron_err_set(err, RON_INVALID, "route %s: '{%.*s}' is no {name}, {name:u64}, {name*}",
                           def->pattern, (int)inner.len, inner.ptr);
    }
    if (seg->kind == HTTP_SEG_REST && !last) {
        return ron_err_set(err, RON_INVALID, "route %s: {name*} must be last", def->pattern);
    }
    return RON_OK;
}

static enum ron_rc compile_segment(struct http_route *r, struct ron_str text, bool last,
                                   uint32_t *params, struct ron_err *err)
{
    struct http_seg *seg = &r->segs[r->seg_count];

    if (r->seg_count == HTTP_SEGMENTS_MAX) {
        return ron_err_set(err, RON_INVALID, "route %s: more than %d segments", r->def->pattern,
                           HTTP_SEGMENTS_MAX);
    }
    r->seg_count++;
    if (text.len >= 2 && text.ptr[0] == '{' && text.ptr[text.len - 1] == '}') {
        if (++*params > RON_HTTP_PARAMS_MAX) {
            return ron_err_set(err, RON_INVALID, "route %s: more than %d parameters",
                               r->def->pattern, RON_HTTP_PARAMS_MAX);
        }
        return compile_param(r->def, (struct ron_str){text.ptr + 1, text.len - 2}, last, seg, err);
    }
    for (size_t i = 0; i < text.len; i++) {
        if ((ron__http_char[(uint8_t)text.ptr[i]] & CH_URI) == 0 || text.ptr[i] == '%' ||
            text.ptr[i] == '?') {
            return ron_err_set(err, RON_INVALID, "route %s: '%c' cannot stand in a path",
                               r->def->pattern, text.ptr[i]);
        }
    }
    *seg = (struct http_seg){HTTP_SEG_LITERAL, text};
    return RON_OK;
}

static enum ron_rc compile_one(const struct ron_http_route *def, struct http_route *r,
                               struct ron_err *err)
{
    const char *p = def->pattern;
    uint32_t params = 0;

    *r = (struct http_route){.def = def, .places = HTTP_PLACE_MAIN};
    if ((def->flags & RON_HTTP_ADMIN) != 0) {
        r->places = HTTP_PLACE_ADMIN;
    } else if ((def->flags & RON_HTTP_ALWAYS) != 0) {
        r->places |= HTTP_PLACE_OPS;
    }
    if (p == NULL || p[0] != '/' || def->handle == NULL ||
        (size_t)def->method >= RON_HTTP_METHOD_COUNT) {
        return ron_err_set(err, RON_INVALID, "route %s: needs a pattern with '/', method, handler",
                           p == NULL ? "?" : p);
    }
    while (p != NULL) {
        const char *slash = strchr(p + 1, '/');
        size_t len = slash == NULL ? strlen(p + 1) : (size_t)(slash - p - 1);

        RON_TRY(compile_segment(r, (struct ron_str){p + 1, len}, slash == NULL, &params, err));
        p = slash;
    }
    if (r->segs[0].kind == HTTP_SEG_LITERAL && r->segs[0].text.len > 0) {
        r->first = r->segs[0].text.ptr[0];
    }
    return RON_OK;
}

/* Order of trying: by segment, literal first; then by text, so that equal patterns meet. */
static int compare_routes(const struct http_route *a, const struct http_route *b)
{
    for (uint32_t i = 0; i < a->seg_count && i < b->seg_count; i++) {
        const struct http_seg *x = &a->segs[i];
        const struct http_seg *y = &b->segs[i];

        if (x->kind != y->kind) {
            return x->kind < y->kind ? -1 : 1;
        }
        if (x->kind == HTTP_SEG_LITERAL) {
            size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
            int diff = memcmp(x->text.ptr, y->text.ptr, n);

            if (diff != 0 || x->text.len != y->text.len) {
                return diff != 0 ? diff : (x->text.len < y->text.len ? -1 : 1);
            }
        }
    }
    if (a->seg_count != b->seg_count) {
        return a->seg_count < b->seg_count ? -1 : 1;
    }
    return (int)a->def->method - (int)b->def->method;
}

enum ron_rc ron__http_routes_compile(const struct ron_http_route *defs, size_t count,
                                     struct http_route *routes, struct ron_err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct http_route r;
        size_t at = i;

        RON_TRY(compile_one(&defs[i], &r, err));
        while (at > 0 && compare_routes(&r, &routes[at - 1]) < 0) {
            routes[at] = routes[at - 1];
            at--;
        }
        if (at > 0 && compare_routes(&r, &routes[at - 1]) == 0) {
            return ron_err_set(err, RON_EXISTS, "route %s %s stands twice",
                               ron_http_method_name(defs[i].method), defs[i].pattern);
        }
        routes[at] = r;
    }
    return RON_OK;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* "." and "..", also written with %2e: no path of ours means them, and behind us they may. */
static bool is_dots(struct ron_str s)
{
    size_t dots = 0;

    for (size_t i = 0; i < s.len; dots++) {
        if (s.ptr[i] == '.') {
            i += 1;
        } else if (s.len - i >= 3 && s.ptr[i] == '%' && s.ptr[i + 1] == '2' &&
                   (s.ptr[i + 2] | 0x20) == 'e') {
            i += 3;
        } else {
            return false;
        }
    }
    return dots == 1 || dots == 2;
}

static bool rest_is_good(struct ron_str rest)
{
    const char *p = rest.ptr;
    const char *end = rest.ptr + rest.len;

    while (p <= end) {
        const char *slash = p < end ? memchr(p, '/', (size_t)(end - p)) : NULL;
        const char *stop = slash == NULL ? end : slash;

        if (is_dots((struct ron_str){p, (size_t)(stop - p)})) {
            return false;
        }
        p = stop + 1;
    }
    return rest.len > 0;
}

enum fit { FIT_NO, FIT_YES, FIT_BAD_PARAM };

/* Compares by shape and collects parameters as sent. */
static enum fit fits(const struct http_route *r, struct ron_str path, struct http_match *m)
{
    size_t at = 1;
    enum fit fit = FIT_YES;

    m->count = 0;
    for (uint32_t i = 0; i < r->seg_count; i++) {
        const struct http_seg *seg = &r->segs[i];
        const char *from = path.ptr + at;
        const char *slash;
        struct ron_str part;

        if (at > path.len) {
            return FIT_NO;
        }
        slash = at == path.len ? NULL : memchr(from, '/', path.len - at);
        part = (struct ron_str){from, slash == NULL || seg->kind == HTTP_SEG_REST
                                          ? path.len - at
                                          : (size_t)(slash - from)};
        at += part.len + 1;
        if (seg->kind == HTTP_SEG_LITERAL) {
            if (part.len != seg->text.len || memcmp(part.ptr, seg->text.ptr, part.len) != 0) {
                return FIT_NO;
            }
            continue;
        }
        struct http_param *param = &m->params[m->count++];
        *param = (struct http_param){.text = part, .is_number = seg->kind == HTTP_SEG_U64};
        if ((seg->kind == HTTP_SEG_U64 && ron_http_parse_u64(part, &param->number) != RON_OK) ||
            (seg->kind == HTTP_SEG_REST && !rest_is_good(part)) || part.len == 0 || is_dots(part)) {
            fit = FIT_BAD_PARAM;
        }
    }
    return at == path.len + 1 ? fit : FIT_NO;
}

/* Text parameters, decoded into `room`. */
static bool decode_params(const struct http_route *r, struct http_match *m, char *room)
{
    size_t used = 0;
    size_t p = 0;

    for (uint32_t i = 0; i < r->seg_count; i++) {
        size_t len = 0;
        struct ron_str *text = &m->params[p].text;

        if (r->segs[i].kind == HTTP_SEG_LITERAL) {
            continue;
        }
        p++;
        if (r->segs[i].kind != HTTP_SEG_TEXT || memchr(text->ptr, '%', text->len) == NULL) {
            continue;
        }
        if (ron_http_percent_decode(*text, false, room + used, RON_HTTP_PARAM_BYTES - used, &len) !=
                RON_OK ||
            memchr(room + used, '/', len) != NULL) {
            return false;
        }
        *text = (struct ron_str){room + used, len};
        used += len;
    }
    return true;
}

void ron__http_route_find(const struct http_route *routes, size_t count, uint32_t places,
                          const struct ron_http_head *head, char *room, struct http_match *ret)
{
    enum ron_http_method method = head->method == RON_HTTP_HEAD ? RON_HTTP_GET : head->method;
    char first = '\0';
    bool bad_param = false;

    if (head->path.len > 1) {
        first = head->path.ptr[1];
    }
    ret->route = NULL;
    ret->allow = 0;
    ret->count = 0;
    ret->reason = RON_HTTP_NOT_FOUND;
    if (head->path.ptr[0] != '/') {
        return; /* "*" of OPTIONS */
    }
    for (size_t i = 0; i < count; i++) {
        const struct http_route *r = &routes[i];
        enum fit fit;

        if ((r->first != 0 && r->first != first) || (r->places & places) == 0) {
            continue;
        }
        fit = fits(r, head->path, ret);
        if (fit == FIT_NO) {
            continue;
        }
        ret->allow |= 1u << r->def->method;
        if (r->def->method != method) {
            continue;
        }
        if (fit == FIT_YES && decode_params(r, ret, room)) {
            ret->route = r;
            ret->reason = RON_HTTP_NONE;
            return;
        }
        bad_param = true;
    }
    ret->reason =
        bad_param ? RON_HTTP_PARAM : (ret->allow != 0 ? RON_HTTP_NOT_ALLOWED : RON_HTTP_NOT_FOUND);
}
