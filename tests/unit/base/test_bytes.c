/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: integers of every width go to bytes and back in the stated order at any address, and a
 * reader never passes its end. Method: random values against shifts; every prefix of a record. */
#include "support/support.h"

#include "ron/base/bytes.h"

enum { ROUNDS = 5000 };

/* Oracle: byte i of the big-endian form. */
static uint8_t byte_of(ron_u128 value, unsigned bits, unsigned i)
{
    return (uint8_t)(value >> (bits - 8 * (i + 1)));
}

static void check_be(const uint8_t *at, ron_u128 value, unsigned bits)
{
    for (unsigned i = 0; i < bits / 8; i++) {
        assert_int_equal(at[i], byte_of(value, bits, i));
    }
}

static void check_le(const uint8_t *at, ron_u128 value, unsigned bits)
{
    for (unsigned i = 0; i < bits / 8; i++) {
        assert_int_equal(at[i], byte_of(value, bits, bits / 8 - 1 - i));
    }
}

#define CHECK(order, bits, value)                                                                  \
    do {                                                                                           \
        assert_ptr_equal(ron_put_##order##bits(at, (value)), at + (bits) / 8);                     \
        check_##order(at, (value), (bits));                                                        \
        assert_true(ron_get_##order##bits(at) == (value));                                         \
        struct ron_reader r_ = ron_reader_of(at, (bits) / 8);                                      \
        assert_true(ron_read_##order##bits(&r_) == (value) && !r_.failed);                         \
        assert_int_equal(ron_reader_left(&r_), 0);                                                 \
        r_ = ron_reader_of(at, (bits) / 8 - 1);                                                    \
        assert_true(ron_read_##order##bits(&r_) == 0 && r_.failed);                                \
        assert_int_equal(ron_reader_left(&r_), (bits) / 8 - 1);                                    \
        assert_int_equal(at[(bits) / 8], 0x5a);                                                    \
    } while (0)

static void test_bytes__random_values__round_trip_at_any_address(void **state)
{
    struct ron_rand rand = support_rand();
    uint8_t room[48];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        ron_u128 wide = support_rand_edgy_u128(&rand);
        uint8_t *at = room + ron_rand_below(&rand, 16);

        memset(room, 0x5a, sizeof room);
        CHECK(be, 16, (uint16_t)wide);
        CHECK(le, 16, (uint16_t)wide);
        CHECK(be, 32, (uint32_t)wide);
        CHECK(le, 32, (uint32_t)wide);
        CHECK(be, 64, (uint64_t)wide);
        CHECK(le, 64, (uint64_t)wide);
        CHECK(be, 128, wide);
        CHECK(le, 128, wide);
    }
}

static void read_record(struct ron_reader *r, struct ron_str texts[2], uint64_t *ret_last)
{
    (void)ron_read_u8(r);
    (void)ron_read_be16(r);
    texts[0] = ron_read_text8(r);
    texts[1] = ron_read_text16(r);
    *ret_last = ron_read_le64(r);
}

static void test_bytes__every_prefix__fails_once_and_reads_zero(void **state)
{
    uint8_t record[64];
    uint8_t *end = record;
    struct ron_str texts[2];
    uint64_t last = 0;
    struct ron_reader r;
    size_t len;

    (void)state;
    *end++ = 9;
    end = ron_put_be16(end, 0x0102);
    end = ron_put_text8(end, RON_STR_LIT("short"));
    end = ron_put_text16(end, (struct ron_str){NULL, 0});
    end = ron_put_le64(end, 77);
    len = (size_t)(end - record);
    assert_int_equal(len, 1 + 2 + 6 + 2 + 8);
    r = ron_reader_of(record, len);
    read_record(&r, texts, &last);
    assert_false(r.failed);
    assert_true(ron_str_is(texts[0], "short") && texts[1].len == 0 && last == 77);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *copy =
            malloc(cut > 0 ? cut : 1); /* so that a sanitizer sees a step past the end */

        assert_non_null(copy);
        memcpy(copy, record, cut);
        r = ron_reader_of(copy, cut);
        read_record(&r, texts, &last);
        assert_true(r.failed);
        assert_int_equal(last, 0);
        assert_non_null(texts[0].ptr);
        assert_null(ron_read_bytes(&r, 0)); /* B3: also what would fit */
        free(copy);
    }
}

static void test_bytes__empty_reader__gives_empty_texts(void **state)
{
    struct ron_reader r = ron_reader_of(NULL, 0);

    (void)state;
    assert_int_equal(ron_read_text(&r, 0).len, 0);
    assert_false(r.failed);
    assert_int_equal(ron_read_text16(&r).len, 0);
    assert_true(r.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes__random_values__round_trip_at_any_address),
        cmocka_unit_test(test_bytes__every_prefix__fails_once_and_reads_zero),
        cmocka_unit_test(test_bytes__empty_reader__gives_empty_texts),
    };

    return cmocka_run_group_tests_name("unit.base.bytes", tests, NULL, NULL);
}
