/* SPDX-License-Identifier: Apache-2.0 */
/* test_secret.c - secrets are copied, compared and wiped.
 *
 * Goal: the memory of a secret holds none of it after it is replaced or done; comparison is exact.
 * Method: the block that the allocator gives back is looked at through the watch of alloc.h, at the
 *   moment of its release, while it is still ours to read.
 */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/secret.h"

static const uint8_t *watched;
static size_t watched_len;
static bool was_wiped;

static void look(int delta, const char *site)
{
    (void)site;
    if (delta < 0 && watched != NULL) {
        was_wiped = true;
        for (size_t i = 0; i < watched_len; i++) {
            was_wiped = was_wiped && watched[i] == 0;
        }
        watched = NULL;
    }
}

static void watch(const struct ron_secret *s)
{
    watched = ron_secret_reveal(s);
    watched_len = ron_secret_len(s);
    was_wiped = false;
}

static void test_secret__replaced_and_done__wiped_before_release(void **state)
{
    struct ron_secret s = {0};

    (void)state;
    ron_alloc_watch = look;
    assert_int_equal(ron_secret_set(&s, "first secret", 12), RON_OK);
    watch(&s);
    assert_int_equal(ron_secret_set(&s, "second", 6), RON_OK);
    assert_true(was_wiped);
    watch(&s);
    ron_secret_done(&s);
    ron_alloc_watch = NULL;
    assert_true(was_wiped);
    assert_int_equal(ron_secret_len(&s), 0);
    assert_null(ron_secret_reveal(&s));
    ron_secret_done(&s); /* an empty one may be done again */
}

static void test_secret__compared__equal_only_to_itself(void **state)
{
    struct ron_secret s = {0};

    (void)state;
    assert_true(ron_secret_equal(&s, "", 0));
    assert_int_equal(ron_secret_set(&s, "abc\0d", 5), RON_OK);
    assert_true(ron_secret_equal(&s, "abc\0d", 5));
    assert_false(ron_secret_equal(&s, "abc\0e", 5));
    assert_false(ron_secret_equal(&s, "xbc\0d", 5));
    assert_false(ron_secret_equal(&s, "abc", 3));
    assert_memory_equal(ron_secret_reveal(&s), "abc\0d", 5);
    ron_secret_done(&s);
}

static void test_secret__too_large__old_one_stays(void **state)
{
    static uint8_t large[RON_SECRET_MAX + 1];
    struct ron_secret s = {0};

    (void)state;
    assert_int_equal(ron_secret_set(&s, "old", 3), RON_OK);
    assert_int_equal(ron_secret_set(&s, large, sizeof large), RON_LIMIT);
    assert_true(ron_secret_equal(&s, "old", 3));
    ron_secret_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret__replaced_and_done__wiped_before_release),
        cmocka_unit_test(test_secret__compared__equal_only_to_itself),
        cmocka_unit_test(test_secret__too_large__old_one_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
