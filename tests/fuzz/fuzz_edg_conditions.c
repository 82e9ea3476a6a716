/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the headers of a request against a representation. The first byte is the method and
 * what the representation has, the second its size, the rest are lines "Name: value".
 *
 * Properties of any input: the status is one of five, with the fields and lengths that belong to
 * it; ranges lie inside and apart from each other; a coding is one that exists, or identity; the
 * key under a Vary does not change when the lines of other headers do; what a hop lets through, it
 * lets through again; a reference resolves to a target that resolves to itself. */
#include "edg_lines.h"

#include "edge/rules/accept.h"
#include "edge/rules/fresh_update.h"
#include "edge/rules/hop.h"
#include "edge/rules/vary.h"
#include "ron/base/assert.h"
#include "ron/http/select.h"

#define NOW_S UINT64_C(1700000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const struct ron_http_selection *a, const struct ron_http_repr *repr)
{
    uint64_t sum = 0;

    RON_ASSERT(a->status == 200 || a->status == 206 || a->status == 304 || a->status == 412 ||
               a->status == 416);
    RON_ASSERT((a->status == 206) == (a->range_count > 0));
    RON_ASSERT((a->with & RON_HTTP_WITH_ETAG) == 0 || repr->etag != NULL);
    RON_ASSERT(a->status != 200 || a->length == repr->size);
    RON_ASSERT(a->status == 200 || a->status == 206 || a->length == 0);
    RON_ASSERT(((a->with & RON_HTTP_WITH_CONTENT_RANGE) != 0) ==
               (a->status == 416 || a->range_count == 1));
    for (size_t i = 0; i < a->range_count; i++) {
        const struct ron_http_range *r = &a->ranges[i];

        RON_ASSERT(r->first <= r->last && r->last < repr->size);
        sum += r->last - r->first + 1;
        for (size_t j = 0; j < i; j++) {
            RON_ASSERT(r->first > a->ranges[j].last + 1 || a->ranges[j].first > r->last + 1);
        }
    }
    RON_ASSERT(sum <= repr->size);
    RON_ASSERT(a->range_count != 1 || a->length == sum);
    RON_ASSERT(a->range_count < 2 || repr->multipart);
}

static void check_select(struct edg_fields fields, uint8_t flags, uint64_t size)
{
    static struct ron_http_head head;
    const struct ron_http_etag etag = {.opaque = {"t", 1}, .weak = (flags & 16) != 0};
    const struct ron_http_repr repr = {.size = size,
                                       .etag = (flags & 8) != 0 ? &etag : NULL,
                                       .mtime_s = (flags & 32) != 0 ? NOW_S - 9 : RON_HTTP_NO_MTIME,
                                       .multipart = (flags & 64) != 0};
    struct ron_http_selection a;

    memset(&head, 0, sizeof head);
    head.method = (enum ron_http_method)((flags & 7) % RON_HTTP_METHOD_COUNT);
    head.field_count = (uint32_t)fields.count;
    memcpy(head.fields, fields.at, fields.count * sizeof fields.at[0]);
    ron_http_select(&head, &repr, NOW_S, &a);
    check_answer(&a, &repr);
    RON_ASSERT(head.method == RON_HTTP_GET || a.range_count == 0);
}

static void check_vary(struct edg_fields fields)
{
    static char memory[2][EDG_VARY_KEY_MAX + 64];
    struct ron_http_field more[LINES_MAX + 1];
    struct ron_buf a;
    struct ron_buf b;
    struct edg_vary vary;

    edg_vary_parse(fields, &vary);
    if (vary.any) {
        return;
    }
    ron_buf_init_over(&a, memory[0], sizeof memory[0]);
    ron_buf_init_over(&b, memory[1], sizeof memory[1]);
    more[0] = (struct ron_http_field){ron_str_of("(no name)"), ron_str_of("x")};
    memcpy(more + 1, fields.at, fields.count * sizeof fields.at[0]);
    if (edg_vary_key((struct ron_str){vary.text, vary.len}, fields, &a) == RON_OK) {
        RON_ASSERT(edg_vary_key((struct ron_str){vary.text, vary.len},
                                (struct edg_fields){more, fields.count + 1}, &b) == RON_OK);
        RON_ASSERT(ron_buf_len(&a) == ron_buf_len(&b));
        RON_ASSERT(memcmp(ron_buf_data(&a), ron_buf_data(&b), ron_buf_len(&a)) == 0);
    }
}

static void check_hop(struct edg_fields fields)
{
    struct ron_http_field once[LINES_MAX];
    struct ron_http_field twice[LINES_MAX];
    size_t a = 0;
    size_t b = 0;

    for (int way = EDG_HOP_ANSWER; way <= EDG_HOP_FILL; way++) {
        RON_ASSERT(edg_hop_filter((enum edg_hop)way, fields, once, LINES_MAX, &a) == RON_OK);
        RON_ASSERT(edg_hop_filter((enum edg_hop)way, (struct edg_fields){once, a}, twice, LINES_MAX,
                                  &b) == RON_OK);
        RON_ASSERT(a == b && a <= fields.count);
    }
}

static void check_location(struct edg_fields fields)
{
    const struct edg_base base = {.host = ron_str_of("a.example"), .target = ron_str_of("/b/c?d")};
    char out[2][256];
    struct ron_str value;
    struct ron_str once;
    struct ron_str twice;

    if (edg_fields_get(fields, "Location", &value) > 0 &&
        edg_location(&base, value, out[0], sizeof out[0], &once) == RON_OK) {
        RON_ASSERT(once.len > 0 && once.ptr[0] == '/');
        if (once.len == 1 || once.ptr[1] != '/') { /* "//x" would be an authority */
            RON_ASSERT(edg_location(&base, once, out[1], sizeof out[1], &twice) == RON_OK);
            RON_ASSERT(once.len == twice.len && memcmp(once.ptr, twice.ptr, once.len) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines lines;
    uint32_t available;
    enum edg_accept picked;

    if (size < 2) {
        return 0;
    }
    RON_IGNORE(lines_read(&lines, (struct ron_str){(const char *)data + 2, size - 2}));
    check_select(lines_view(&lines), data[0], data[1]);
    available = data[1] & 15u;
    picked = edg_accept_pick(lines_view(&lines), available);
    RON_ASSERT(picked == EDG_ACCEPT_IDENTITY || (available & edg_accept_bit(picked)) != 0);
    check_vary(lines_view(&lines));
    check_hop(lines_view(&lines));
    check_location(lines_view(&lines));
    return 0;
}
