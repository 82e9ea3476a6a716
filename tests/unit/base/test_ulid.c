/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: text and bytes follow the ULID specification, and a generator's values always increase.
 * Method: published values, a reader of its own, and a generator under hostile clocks and hostile
 * randomness. */
#include "support/support.h"

#include "ron/base/ulid.h"
#include "support/ulid.h"

/* The example of the specification and its parts. */
#define EXAMPLE "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define EXAMPLE_MS UINT64_C(1469922850259)
static const uint8_t example_random[] = {0xd6, 0x76, 0x4c, 0x61, 0xef,
                                         0xb9, 0x93, 0x02, 0xbd, 0x5b};

static void random_seeded(void *ctx, void *ret_bytes, size_t len)
{
    ron_rand_bytes(ctx, ret_bytes, len);
}

static void random_constant(void *ctx, void *ret_bytes, size_t len)
{
    memset(ret_bytes, *(const int *)ctx, len);
}

static void test_ulid__example_of_the_specification__is_reproduced(void **state)
{
    (void)state;
    struct ron_ulid made = ron_ulid_make(EXAMPLE_MS, example_random);
    struct ron_ulid parsed = {{0}};
    char text[RON_ULID_TEXT_SIZE];

    ron_ulid_format(&made, text);
    assert_string_equal(text, EXAMPLE);
    assert_int_equal(ron_ulid_parse(EXAMPLE, 26, &parsed), RON_OK);
    assert_int_equal(ron_ulid_cmp(&made, &parsed), 0);
    assert_int_equal(ron_ulid_time_ms(&parsed), EXAMPLE_MS);
    assert_memory_equal(parsed.bytes + 6, example_random, 10);
    /* The time of the specification's reference implementation: 1469918176385 is 01ARYZ6S41. */
    made = ron_ulid_make(UINT64_C(1469918176385), example_random);
    ron_ulid_format(&made, text);
    assert_memory_equal(text, "01ARYZ6S41", 10);
}

static void test_ulid__text__reads_back_in_either_case(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 20000; i++) {
        struct ron_ulid ulid;
        struct ron_ulid back = {{0}};
        char text[RON_ULID_TEXT_SIZE];

        ron_rand_bytes(&rand, ulid.bytes, sizeof(ulid.bytes));
        ron_ulid_format(&ulid, text);
        assert_int_equal(strlen(text), RON_ULID_TEXT_LEN);
        assert_int_equal(strspn(text, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), RON_ULID_TEXT_LEN);
        for (size_t j = 0; j < RON_ULID_TEXT_LEN; j++) {
            if (text[j] >= 'A' && ron_rand_chance(&rand, 1, 2)) {
                text[j] = (char)(text[j] - 'A' + 'a');
            }
        }
        assert_int_equal(ron_ulid_parse(text, RON_ULID_TEXT_LEN, &back), RON_OK);
        assert_memory_equal(back.bytes, ulid.bytes, sizeof(ulid.bytes));
    }
}

static void test_ulid__text_and_bytes__sort_alike(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 20000; i++) {
        struct ron_ulid a;
        struct ron_ulid b;
        char text_a[RON_ULID_TEXT_SIZE];
        char text_b[RON_ULID_TEXT_SIZE];

        ron_rand_bytes(&rand, a.bytes, sizeof(a.bytes));
        b = a;
        b.bytes[ron_rand_below(&rand, 16)] ^= (uint8_t)(1u << ron_rand_below(&rand, 8));
        ron_ulid_format(&a, text_a);
        ron_ulid_format(&b, text_b);
        assert_int_equal(ron_ulid_cmp(&a, &b), strcmp(text_a, text_b) < 0 ? -1 : 1);
        assert_int_equal(ron_ulid_cmp(&b, &a), -ron_ulid_cmp(&a, &b));
    }
}

static void test_ulid__hostile_clock__never_breaks_the_order(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    struct ron_rand noise = ron_rand_fork(&rand);
    struct ron_ulid_gen gen;
    struct ron_ulid last = {{0}};
    uint64_t clock_ms = EXAMPLE_MS;
    uint64_t highest_ms = 0;

    ron_ulid_gen_init(&gen, random_seeded, &noise);
    for (int i = 0; i < 50000; i++) {
        switch (ron_rand_below(&rand, 4)) {
        case 0:
            clock_ms += ron_rand_below(&rand, 3);
            break;
        case 1: /* backwards, sometimes to the beginning of time */
            clock_ms = ron_rand_below(&rand, 100) == 0 ? 0 : clock_ms - clock_ms % 97;
            break;
        case 2:
            clock_ms = highest_ms + ron_rand_below(&rand, 2);
            break;
        default: /* standstill */
            break;
        }
        highest_ms = clock_ms > highest_ms ? clock_ms : highest_ms;
        struct ron_ulid next = ron_ulid_gen_next(&gen, clock_ms);

        assert_true(i == 0 || ron_ulid_cmp(&last, &next) < 0);
        assert_int_equal(ron_ulid_time_ms(&next), highest_ms);
        last = next;
    }
    assert_int_equal(gen.ahead_count, 0);
}

static void test_ulid__random_part_overflow__moves_one_millisecond_ahead(void **state)
{
    (void)state;
    struct ron_ulid_gen gen;
    int byte = 0xff;

    ron_ulid_gen_init(&gen, random_constant, &byte);
    struct ron_ulid first = ron_ulid_gen_next(&gen, 1000);

    byte = 0;
    struct ron_ulid second = ron_ulid_gen_next(&gen, 1000);
    struct ron_ulid third = ron_ulid_gen_next(&gen, 1000);
    struct ron_ulid fourth = ron_ulid_gen_next(&gen, 1001);
    struct ron_ulid fifth = ron_ulid_gen_next(&gen, 1002);

    assert_int_equal(ron_ulid_time_ms(&first), 1000);
    assert_int_equal(ron_ulid_time_ms(&second), 1001);
    assert_int_equal(second.bytes[15], 0);
    assert_int_equal(third.bytes[15], 1);
    assert_int_equal(fourth.bytes[15], 2); /* the clock has only caught up */
    assert_int_equal(ron_ulid_time_ms(&fourth), 1001);
    assert_int_equal(ron_ulid_time_ms(&fifth), 1002);
    assert_int_equal(gen.ahead_count, 1);
    assert_true(ron_ulid_cmp(&first, &second) < 0 && ron_ulid_cmp(&second, &third) < 0);
    assert_true(ron_ulid_cmp(&third, &fourth) < 0 && ron_ulid_cmp(&fourth, &fifth) < 0);
}

static void test_ulid__increment__carries(void **state)
{
    (void)state;
    struct ron_ulid_gen gen;
    int byte = 0;

    ron_ulid_gen_init(&gen, random_constant, &byte);
    (void)ron_ulid_gen_next(&gen, 5);
    memcpy(gen.last_random, "\x12\x34\x56\x78\x9a\xbc\xde\xff\xff\xff", 10);
    struct ron_ulid next = ron_ulid_gen_next(&gen, 5);

    assert_memory_equal(next.bytes + 6, "\x12\x34\x56\x78\x9a\xbc\xdf\x00\x00\x00", 10);
}

static void test_ulid__end_of_time__still_increases(void **state)
{
    (void)state;
    struct ron_ulid_gen gen;
    struct ron_ulid last = {{0}};
    int byte = 0xff;

    ron_ulid_gen_init(&gen, random_constant, &byte);
    for (int i = 0; i < 1000; i++) {
        struct ron_ulid next = ron_ulid_gen_next(&gen, UINT64_MAX);

        assert_int_equal(ron_ulid_time_ms(&next), RON_ULID_TIME_MAX_MS);
        assert_true(i == 0 || ron_ulid_cmp(&last, &next) < 0);
        last = next;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ulid__example_of_the_specification__is_reproduced),
        cmocka_unit_test(test_ulid__text__reads_back_in_either_case),
        cmocka_unit_test(test_ulid__text_and_bytes__sort_alike),
        cmocka_unit_test(test_ulid__hostile_clock__never_breaks_the_order),
        cmocka_unit_test(test_ulid__random_part_overflow__moves_one_millisecond_ahead),
        cmocka_unit_test(test_ulid__increment__carries),
        cmocka_unit_test(test_ulid__end_of_time__still_increases),
    };

    return cmocka_run_group_tests_name("base.ulid", tests, NULL, NULL);
}
