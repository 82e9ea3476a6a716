/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Range and lists of entity tags. The first two bytes are the size of
 * the representation, the rest is the value.
 *
 * Properties of any input: ranges lie inside and are counted; written as a header again they read
 * back the same; a suffix of a list that parses never changes the verdict of its parts; a tag that
 * parses is found in a list of it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/http/etag.h"
#include "ron/http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranges(struct ron_str value, uint64_t size)
{
    struct ron_http_range r[RON_HTTP_RANGES_MAX];
    struct ron_http_range again[RON_HTTP_RANGES_MAX];
    char text[1024] = "bytes=";
    size_t len = strlen(text);
    size_t count = 0;
    size_t count_again = 0;

    if (ron_http_range_parse(value, size, r, RON_HTTP_RANGES_MAX, &count) != RON_OK) {
        RON_ASSERT(count == 0);
        return;
    }
    RON_ASSERT(count >= 1 && count <= RON_HTTP_RANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        char one[RON_HTTP_CONTENT_RANGE_SIZE];
        char expected[RON_HTTP_CONTENT_RANGE_SIZE];
        size_t n;

        RON_ASSERT(r[i].first <= r[i].last);
        RON_ASSERT(r[i].last < size);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%llu-%llu", i > 0 ? "," : "",
                                (unsigned long long)r[i].first, (unsigned long long)r[i].last);
        n = ron_http_content_range(&r[i], size, one);
        (void)snprintf(expected, sizeof expected, "bytes %llu-%llu/%llu",
                       (unsigned long long)r[i].first, (unsigned long long)r[i].last,
                       (unsigned long long)size);
        RON_ASSERT(n == strlen(expected) && strcmp(one, expected) == 0);
    }
    RON_ASSERT(ron_http_range_parse((struct ron_str){text, len}, size, again, RON_HTTP_RANGES_MAX,
                                    &count_again) == RON_OK);
    RON_ASSERT(count_again == count);
    RON_ASSERT(memcmp(r, again, count * sizeof r[0]) == 0);
}

static void check_tags(struct ron_str value)
{
    struct ron_http_etag tag;
    bool in = false;

    if (ron_http_etag_parse(value, &tag) == RON_OK) {
        RON_ASSERT(tag.opaque.len + (tag.weak ? 4 : 2) == value.len);
        RON_ASSERT(ron_http_etag_in(value, &tag, false, &in) == RON_OK);
        RON_ASSERT(in);
        RON_ASSERT(ron_http_etag_in(value, &tag, true, &in) == RON_OK);
        RON_ASSERT(in == !tag.weak);
    }
    tag = (struct ron_http_etag){.opaque = {"x", 1}};
    if (ron_http_etag_in(value, &tag, true, &in) == RON_OK && in) {
        RON_ASSERT(ron_http_etag_in(value, &tag, false, &in) == RON_OK);
        RON_ASSERT(in); /* a strong match is a weak one */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str value;

    if (size < 2) {
        return 0;
    }
    value = (struct ron_str){(const char *)data + 2, size - 2};
    check_ranges(value, (uint64_t)data[0] << 8 | data[1]);
    check_tags(value);
    return 0;
}
