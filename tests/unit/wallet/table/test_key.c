/* SPDX-License-Identifier: Apache-2.0 */
/* test_key.c - names as 128 bits.
 *
 * Goal: a key depends on the secret, the kind and every byte of every part, and on nothing else.
 * Method: variations of one name; random names of all lengths; counts over many keys.
 */
#include "support/support.h"

#include "ron/base/macros.h"
#include "wallet/table/key.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void test_wlt_key__same_names__same_key(void **state)
{
    const struct wlt_secret secret = {.bytes = {1, 2, 3}};
    const char other_place[] = "acct_a";

    (void)state;
    assert_true(
        wlt_key_eq(wlt_key_of(&secret, WLT_KEY_ACCOUNT_ASSET, str("acct_a"), str("roc")),
                   wlt_key_of(&secret, WLT_KEY_ACCOUNT_ASSET, str(other_place), str("roc"))));
    assert_true(wlt_key_eq(wlt_key_of(&secret, WLT_KEY_ACCOUNT, str("acct_a"), str("")),
                           wlt_key_of(&secret, WLT_KEY_ACCOUNT, str("acct_a"), str("roc"))));
    assert_true(wlt_key_eq(
        wlt_key_pair(wlt_key_of(&secret, WLT_KEY_ACCOUNT, str("acct_a"), str("")), str("roc")),
        wlt_key_of(&secret, WLT_KEY_ACCOUNT_ASSET, str("acct_a"), str("roc"))));
}

static void test_wlt_key__anything_differs__keys_differ(void **state)
{
    const struct wlt_secret one = {.bytes = {1}};
    const struct wlt_secret two = {.bytes = {1, 2}};
    const struct wlt_secret end = {.bytes = {[0] = 1, [15] = 1}};
    const struct wlt_key keys[] = {
        wlt_key_of(&one, WLT_KEY_ACCOUNT, str("ab"), str("")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT, str("a"), str("")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT, str(""), str("")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT_ASSET, str("ab"), str("")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT_ASSET, str("a"), str("b")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT_ASSET, str(""), str("ab")),
        wlt_key_of(&one, WLT_KEY_ACCOUNT_ASSET, str("b"), str("a")),
        wlt_key_of(&one, WLT_KEY_IDEM, str("a"), str("b")),
        wlt_key_of(&one, WLT_KEY_IDEM, str("ab"), str("")),
        wlt_key_of(&two, WLT_KEY_ACCOUNT, str("ab"), str("")),
        wlt_key_of(&end, WLT_KEY_ACCOUNT, str("ab"), str("")),
        wlt_key_of(&two, WLT_KEY_ACCOUNT_ASSET, str("a"), str("b")),
        wlt_key_of(&end, WLT_KEY_ACCOUNT_ASSET, str("a"), str("b")),
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(keys); i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(keys[i].a, keys[k].a);
            assert_int_not_equal(keys[i].b, keys[k].b);
        }
    }
}

static void test_wlt_key__half_of_a_key__is_not_the_key(void **state)
{
    const struct wlt_key key = {7, 9};

    (void)state;
    assert_true(wlt_key_eq(key, (struct wlt_key){7, 9}));
    assert_false(wlt_key_eq(key, (struct wlt_key){7, 8}));
    assert_false(wlt_key_eq(key, (struct wlt_key){6, 9}));
}

/* Every byte of names that are longer than any grammar allows counts. */
static void test_wlt_key__long_names__every_byte_counts(void **state)
{
    struct ron_rand rand = support_rand();
    struct wlt_secret secret;
    char text[3000];

    (void)state;
    ron_rand_bytes(&rand, secret.bytes, sizeof secret.bytes);
    ron_rand_bytes(&rand, text, sizeof text);
    for (int round = 0; round < 2000; round++) {
        size_t cut = ron_rand_below(&rand, sizeof text + 1);
        size_t at = ron_rand_below(&rand, sizeof text);
        struct ron_str a = {text, cut};
        struct ron_str b = {text + cut, sizeof text - cut};
        struct wlt_key before = wlt_key_of(&secret, WLT_KEY_IDEM, a, b);
        struct wlt_key after;

        text[at] = (char)(text[at] ^ 1);
        after = wlt_key_of(&secret, WLT_KEY_IDEM, a, b);
        assert_int_not_equal(before.a, after.a);
        assert_int_not_equal(before.b, after.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_key__same_names__same_key),
        cmocka_unit_test(test_wlt_key__anything_differs__keys_differ),
        cmocka_unit_test(test_wlt_key__half_of_a_key__is_not_the_key),
        cmocka_unit_test(test_wlt_key__long_names__every_byte_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
