/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/range.c - Range and Content-Range.
 *
 * Range = bytes-unit "=" 1#( first "-" [ last ] / "-" suffix ), with blanks around commas and empty
 * elements as RFC 9110 5.6.1 makes recipients accept. No blank anywhere else. */
#include "ron/http/range.h"

#include <stdio.h>
#include <string.h>

#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/http/parse.h"

/* Splits at the first `c`; false without one. */
static bool cut(struct ron_str s, char c, struct ron_str *ret_before, struct ron_str *ret_after)
{
    const char *at = s.len > 0 ? memchr(s.ptr, c, s.len) : NULL;

    if (at == NULL) {
        return false;
    }
    *ret_before = (struct ron_str){s.ptr, (size_t)(at - s.ptr)};
    *ret_after = (struct ron_str){at + 1, s.len - ret_before->len - 1};
    return true;
}

/* Digits; what does not fit is the largest number there is. */
static bool number(struct ron_str s, uint64_t *ret)
{
    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
    }
    if (ron_http_parse_u64(s, ret) != RON_OK) {
        *ret = UINT64_MAX;
    }
    return true;
}

/* RON_CONFLICT: well formed and outside. */
static enum ron_rc one_range(struct ron_str spec, uint64_t size, struct ron_http_range *ret)
{
    struct ron_str a;
    struct ron_str b;
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;

    if (!cut(spec, '-', &a, &b)) {
        return RON_INVALID;
    }
    if (a.len == 0) {
        uint64_t suffix;

        if (!number(b, &suffix)) {
            return RON_INVALID;
        }
        if (suffix == 0 || size == 0) {
            return RON_CONFLICT;
        }
        *ret = (struct ron_http_range){size - RON_MIN(suffix, size), size - 1};
        return RON_OK;
    }
    if (!number(a, &first) || (b.len > 0 && !number(b, &last)) || first > last) {
        return RON_INVALID;
    }
    if (first >= size) {
        return RON_CONFLICT;
    }
    *ret = (struct ron_http_range){first, RON_MIN(last, size - 1)};
    return RON_OK;
}

enum ron_rc ron_http_range_parse(struct ron_str value, uint64_t size, struct ron_http_range *ranges,
                                 size_t max, size_t *ret_count)
{
    struct ron_http_range found[RON_HTTP_RANGES_MAX];
    size_t limit = RON_MIN(max, (size_t)RON_HTTP_RANGES_MAX);
    struct ron_str unit;
    struct ron_str rest;
    size_t elements = 0;
    size_t specs = 0;
    size_t count = 0;
    bool more = true;

    if (!cut(value, '=', &unit, &rest) || !ron_http_is_token(unit)) {
        return RON_INVALID;
    }
    if (!ron_str_is_nocase(unit, "bytes")) {
        return RON_NOTFOUND;
    }
    while (more) {
        struct ron_str spec = rest;
        enum ron_rc rc;

        more = cut(rest, ',', &spec, &rest);
        if (++elements > limit) {
            return RON_LIMIT;
        }
        spec = ron_str_trim(spec);
        if (spec.len == 0) {
            continue;
        }
        rc = one_range(spec, size, &found[count]);
        if (rc == RON_INVALID) {
            return rc;
        }
        specs++;
        count += rc == RON_OK;
    }
    if (specs == 0) {
        return RON_INVALID;
    }
    if (count == 0) {
        return RON_CONFLICT;
    }
    memcpy(ranges, found, count * sizeof *ranges);
    *ret_count = count;
    return RON_OK;
}

size_t ron_http_content_range(const struct ron_http_range *range, uint64_t size,
                              char ret_text[RON_HTTP_CONTENT_RANGE_SIZE])
{
    int len = range == NULL ? snprintf(ret_text, RON_HTTP_CONTENT_RANGE_SIZE, "bytes */%llu",
                                       (unsigned long long)size)
                            : snprintf(ret_text, RON_HTTP_CONTENT_RANGE_SIZE,
                                       "bytes %llu-%llu/%llu", (unsigned long long)range->first,
                                       (unsigned long long)range->last, (unsigned long long)size);

    RON_ASSERT(len > 0 && len < RON_HTTP_CONTENT_RANGE_SIZE);
    return (size_t)len;
}
