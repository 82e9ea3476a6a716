/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: several ranges as a multipart body. Two bytes are the size of the representation,
 * the rest is the value of Range.
 *
 * Properties of any input: the ranges that are sent cover exactly the bytes that were asked for,
 * each once; the pieces add up to the length; the text before each range ends with its
 * Content-Range. */
#include <stdint.h>
#include <string.h>

#include "edge/rules/multipart.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/http/select.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t asked[65536];
static uint8_t given[65536];

static void mark(uint8_t *bytes, const struct ron_http_range *ranges, size_t count, uint64_t size)
{
    memset(bytes, 0, size);
    for (size_t i = 0; i < count; i++) {
        memset(bytes + ranges[i].first, 1, ranges[i].last - ranges[i].first + 1);
    }
}

static void check_once(const struct ron_http_selection *a, uint64_t size)
{
    uint64_t sum = 0;
    uint64_t marked = 0;

    for (size_t i = 0; i < a->range_count; i++) {
        sum += a->ranges[i].last - a->ranges[i].first + 1;
    }
    for (uint64_t i = 0; i < size; i++) {
        marked += given[i];
    }
    RON_ASSERT(sum == marked);
}

static void check_plan(const struct ron_http_selection *a, uint64_t size)
{
    static const uint8_t random[EDG_BOUNDARY_BYTES] = {1, 2, 3};
    static struct edg_multipart plan;
    uint64_t sum = 0;

    RON_ASSERT(edg_multipart_plan(a->ranges, a->range_count, size, (struct ron_str){"image/png", 9},
                                  random, &plan) == RON_OK);
    RON_ASSERT(plan.piece_count == 2 * a->range_count + 1);
    for (size_t i = 0; i < plan.piece_count; i++) {
        const struct edg_piece *p = &plan.pieces[i];
        char value[RON_HTTP_CONTENT_RANGE_SIZE];
        size_t len;

        sum += p->length;
        if (p->text != NULL) {
            continue;
        }
        RON_ASSERT(p->range.first == a->ranges[i / 2].first && i % 2 == 1);
        len = ron_http_content_range(&p->range, size, value);
        RON_ASSERT(plan.pieces[i - 1].length > len + 4);
        RON_ASSERT(
            memcmp(plan.pieces[i - 1].text + plan.pieces[i - 1].length - len - 4, value, len) == 0);
    }
    RON_ASSERT(sum == plan.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ron_http_head head;
    struct ron_http_range ranges[RON_HTTP_RANGES_MAX];
    struct ron_http_repr repr = {.mtime_s = RON_HTTP_NO_MTIME, .multipart = true};
    struct ron_http_selection a;
    size_t count = 0;

    if (size < 2) {
        return 0;
    }
    repr.size = (uint64_t)data[0] << 8 | data[1];
    head.method = RON_HTTP_GET;
    head.field_count = 1;
    head.fields[0] = (struct ron_http_field){{"Range", 5}, {(const char *)data + 2, size - 2}};
    ron_http_select(&head, &repr, 0, &a);
    if (ron_http_range_parse(head.fields[0].value, repr.size, ranges, RON_HTTP_RANGES_MAX,
                             &count) != RON_OK) {
        RON_ASSERT(a.status == 200 || a.status == 416);
        return 0;
    }
    RON_ASSERT(a.status == 206 && a.range_count >= 1 && a.range_count <= count);
    mark(asked, ranges, count, repr.size);
    mark(given, a.ranges, a.range_count, repr.size);
    RON_ASSERT(memcmp(asked, given, repr.size) == 0);
    check_once(&a, repr.size);
    check_plan(&a, repr.size);
    return 0;
}
