/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the plan of a multipart/byteranges body is what RFC 9110 14.6 shows, its length exact.
 * Method: the plan is written out and compared byte for byte; limits at their edges. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/multipart.h"

static const uint8_t zeros[EDG_BOUNDARY_BYTES] = {0};
static const uint8_t digits[EDG_BOUNDARY_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                                   0x00, 0xff, 0x10, 0xf0, 0x0f, 0xaa, 0x55, 0x99};
static const char data[] = "0123456789abcdefghij";

/* The body as a sender would make it. */
static size_t write_out(const struct edg_multipart *plan, char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < plan->piece_count; i++) {
        const struct edg_piece *p = &plan->pieces[i];

        assert_true(len + p->length < size);
        assert_true((p->text != NULL) == (i % 2 == 0));
        memcpy(out + len, p->text != NULL ? p->text : data + p->range.first, p->length);
        len += p->length;
    }
    out[len] = '\0';
    return len;
}

static void test_multipart__two_ranges__byte_for_byte(void **state)
{
    static const struct ron_http_range ranges[] = {{0, 4}, {15, 19}};
    struct edg_multipart plan;
    char body[1024];

    (void)state;
    assert_int_equal(
        edg_multipart_plan(ranges, 2, sizeof data - 1, ron_str_of("text/plain"), digits, &plan),
        RON_OK);
    assert_int_equal(write_out(&plan, body, sizeof body), plan.length);
    assert_string_equal(body, "--0123456789abcdef00ff10f00faa5599\r\n"
                              "Content-Type: text/plain\r\n"
                              "Content-Range: bytes 0-4/20\r\n\r\n"
                              "01234"
                              "\r\n--0123456789abcdef00ff10f00faa5599\r\n"
                              "Content-Type: text/plain\r\n"
                              "Content-Range: bytes 15-19/20\r\n\r\n"
                              "fghij"
                              "\r\n--0123456789abcdef00ff10f00faa5599--\r\n");
    assert_string_equal(plan.content_type,
                        "multipart/byteranges; boundary=0123456789abcdef00ff10f00faa5599");
}

static void test_multipart__without_a_type__line_left_out(void **state)
{
    static const struct ron_http_range range = {3, 3};
    struct edg_multipart plan;
    char body[256];

    (void)state;
    assert_int_equal(
        edg_multipart_plan(&range, 1, sizeof data - 1, (struct ron_str){NULL, 0}, zeros, &plan),
        RON_OK);
    assert_int_equal(write_out(&plan, body, sizeof body), plan.length);
    assert_string_equal(body, "--00000000000000000000000000000000\r\n"
                              "Content-Range: bytes 3-3/20\r\n\r\n"
                              "3\r\n--00000000000000000000000000000000--\r\n");
}

static void test_multipart__largest_of_everything__fits(void **state)
{
    struct ron_http_range ranges[RON_HTTP_RANGES_MAX];
    char type[EDG_CONTENT_TYPE_MAX + 2];
    struct edg_multipart plan;
    uint64_t sum = 0;

    (void)state;
    memset(type, 'x', sizeof type);
    for (size_t i = 0; i < RON_HTTP_RANGES_MAX; i++) {
        ranges[i] = (struct ron_http_range){UINT64_MAX - 100 + 2 * i, UINT64_MAX - 100 + 2 * i};
    }
    assert_int_equal(edg_multipart_plan(ranges, RON_HTTP_RANGES_MAX, UINT64_MAX,
                                        (struct ron_str){type, EDG_CONTENT_TYPE_MAX}, digits,
                                        &plan),
                     RON_OK);
    assert_int_equal(plan.piece_count, EDG_PIECES_MAX);
    for (size_t i = 0; i < plan.piece_count; i++) {
        sum += plan.pieces[i].length;
    }
    assert_int_equal(sum, plan.length);
    plan.piece_count = 7;
    assert_int_equal(edg_multipart_plan(ranges, 1, UINT64_MAX,
                                        (struct ron_str){type, EDG_CONTENT_TYPE_MAX + 1}, digits,
                                        &plan),
                     RON_LIMIT);
    assert_int_equal(
        edg_multipart_plan(ranges, 1, UINT64_MAX, ron_str_of("text/plain\r\nX: y"), digits, &plan),
        RON_INVALID);
    assert_int_equal(plan.piece_count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multipart__two_ranges__byte_for_byte),
        cmocka_unit_test(test_multipart__without_a_type__line_left_out),
        cmocka_unit_test(test_multipart__largest_of_everything__fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
