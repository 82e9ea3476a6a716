/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: CRC-32C gives the published values, the same by instruction and by table, in any pieces.
 * Method: the vectors of RFC 3720 appendix B.4 and the usual check value; random bytes, lengths
 * around the strips, and cuts. */
#include "support/support.h"

#include "base/crc32c_priv.h"
#include "ron/base/crc32c.h"

static void check(const void *bytes, size_t len, uint32_t expected)
{
    assert_int_equal(ron_crc32c(0, bytes, len), expected);
    assert_int_equal(ron_crc32c_table(0, bytes, len), expected);
}

static void test_crc32c__vectors_of_the_rfc__match(void **state)
{
    static const uint8_t scsi_read[48] = {
        0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
        0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0,
    };
    uint8_t bytes[32];

    (void)state;
    check(NULL, 0, 0);
    check("123456789", 9, 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    check(bytes, sizeof bytes, 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    check(bytes, sizeof bytes, 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = i;
    }
    check(bytes, sizeof bytes, 0x46dd794e);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    check(bytes, sizeof bytes, 0x113fdb5c);
    check(scsi_read, sizeof scsi_read, 0xd9963a56);
}

static void test_crc32c__any_length_and_cut__same_by_table_and_in_pieces(void **state)
{
    enum { SIZE = 5 * 12288 };
    static const size_t near[] = {0, 1, 7, 8, 9, 12287, 12288, 12289, 24576, 36863, SIZE - 9};
    struct ron_rand rand = support_rand();
    uint8_t *bytes = malloc(SIZE);

    (void)state;
    ron_rand_bytes(&rand, bytes, SIZE);
    for (size_t i = 0; i < 300; i++) {
        size_t len = i < RON_ARRAY_LEN(near) ? near[i] : (size_t)ron_rand_below(&rand, SIZE - 8);
        const uint8_t *from = bytes + ron_rand_below(&rand, 9); /* any alignment */
        size_t cut = (size_t)ron_rand_below(&rand, len + 1);
        uint32_t whole = ron_crc32c_table(0, from, len);

        assert_int_equal(ron_crc32c(0, from, len), whole);
        assert_int_equal(ron_crc32c(ron_crc32c(0, from, cut), from + cut, len - cut), whole);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c__vectors_of_the_rfc__match),
        cmocka_unit_test(test_crc32c__any_length_and_cut__same_by_table_and_in_pieces),
    };

    return cmocka_run_group_tests_name("base.crc32c", tests, NULL, NULL);
}
