/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an event of changed accounts is read whole or refused.
 * Method: one good event; every prefix of it, and every place where a number may lie. */
#include "support/support.h"

#include "client/client.h"

static const uint8_t good[] = {0, 0, 0, 0,   0,   0,   1, 4, 1,   0,
                               2, 0, 3, 't', ':', 'a', 0, 2, 'b', '/'};

static void test_lc_changes__good_event__tells_all_names(void **state)
{
    struct lc_changes c;
    struct ron_str name;

    (void)state;
    assert_int_equal(lc_changes_read(good, sizeof good, &c), RON_OK);
    assert_int_equal(c.seq, 260);
    assert_true(c.last);
    assert_int_equal(c.count, 2);
    assert_true(lc_changes_next(&c, &name));
    assert_true(ron_str_is(name, "t:a"));
    assert_true(lc_changes_next(&c, &name));
    assert_true(ron_str_is(name, "b/"));
    assert_false(lc_changes_next(&c, &name));
}

static void test_lc_changes__prefixes_and_more__are_corrupt(void **state)
{
    uint8_t longer[sizeof good + 1] = {0};
    struct lc_changes c;

    (void)state;
    for (size_t len = 0; len < sizeof good; len++) {
        assert_int_equal(lc_changes_read(good, len, &c), RON_CORRUPT);
    }
    memcpy(longer, good, sizeof good);
    assert_int_equal(lc_changes_read(longer, sizeof longer, &c), RON_CORRUPT);
}

static void bad_byte(size_t at, uint8_t value)
{
    uint8_t b[sizeof good];
    struct lc_changes c;

    memcpy(b, good, sizeof good);
    b[at] = value;
    assert_int_equal(lc_changes_read(b, sizeof b, &c), RON_CORRUPT);
}

static void test_lc_changes__lying_numbers__are_corrupt(void **state)
{
    uint8_t zero[sizeof good];
    struct lc_changes c;

    (void)state;
    bad_byte(8, 2);    /* a flag that is none */
    bad_byte(10, 1);   /* fewer names than there are */
    bad_byte(10, 3);   /* more */
    bad_byte(12, 0);   /* an empty name */
    bad_byte(12, 255); /* a name beyond the end */
    bad_byte(11, 1);   /* longer than any account */
    memcpy(zero, good, sizeof good);
    memset(zero, 0, 8); /* no entry has seq 0 */
    assert_int_equal(lc_changes_read(zero, sizeof zero, &c), RON_CORRUPT);
}

static void test_lc_changes__no_names__is_an_event(void **state)
{
    static const uint8_t empty[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0};
    struct lc_changes c;
    struct ron_str name;

    (void)state;
    assert_int_equal(lc_changes_read(empty, sizeof empty, &c), RON_OK);
    assert_false(lc_changes_next(&c, &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lc_changes__good_event__tells_all_names),
        cmocka_unit_test(test_lc_changes__prefixes_and_more__are_corrupt),
        cmocka_unit_test(test_lc_changes__lying_numbers__are_corrupt),
        cmocka_unit_test(test_lc_changes__no_names__is_an_event),
    };

    return cmocka_run_group_tests_name("client.lc_changes", tests, NULL, NULL);
}
