/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of works and the list of frozen accounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/guard/frozen.h"
#include "ledger/work/pool.h"
#include "ron/io/linux_env.h"

/* ---- works ----------------------------------------------------------------------------------- */

static void test_works__handed_out_again__empty_and_zero(void **state)
{
    struct led_works *p = NULL;
    struct led_works_stats stats;
    struct led_work *w;
    struct led_work *again;

    (void)state;
    assert_int_equal(led_works_new(&p, NULL), RON_OK);
    w = led_works_get(p, 300);
    assert_non_null(w);
    assert_non_null(ron_arena_alloc(&w->arena, 1000, 8));
    w->result = LED_RESULT_REFUSED;
    w->refusals.count = 3;
    w->reply = p;
    led_works_put(p, w);
    again = led_works_get(p, 300);
    assert_ptr_equal(again, w);
    assert_int_equal(again->arena.used, 0);
    assert_int_equal(again->result, 0);
    assert_int_equal(again->refusals.count, 0);
    assert_null(again->reply);
    led_works_stats(p, &stats);
    assert_int_equal(stats.out, 1);
    led_works_put(p, again);
    led_works_stats(p, &stats);
    assert_int_equal(stats.out, 0);
    assert_int_equal(stats.out_bytes, 0);
    assert_int_equal(stats.idle, 1);
    led_works_free(p);
}

static uint64_t idle_of(struct led_works *p)
{
    struct led_works_stats stats;

    led_works_stats(p, &stats);
    return stats.idle;
}

static void test_works__trim__frees_what_nobody_needed_since_the_last(void **state)
{
    struct led_works *p = NULL;
    struct led_work *w[5];

    (void)state;
    assert_int_equal(led_works_new(&p, NULL), RON_OK);
    for (size_t i = 0; i < 5; i++) {
        w[i] = led_works_get(p, i == 0 ? 1 << 20 : 300);
        assert_non_null(w[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        led_works_put(p, w[i]);
    }
    led_works_trim(p);
    assert_int_equal(idle_of(p), 5); /* all were in use a moment ago */
    for (size_t i = 0; i < 3; i++) {
        w[i] = led_works_get(p, 300);
    }
    for (size_t i = 0; i < 3; i++) {
        led_works_put(p, w[i]);
    }
    led_works_trim(p);
    assert_int_equal(idle_of(p), 3); /* one small and the large one were not */
    led_works_trim(p);
    assert_int_equal(idle_of(p), 0);
    w[0] = led_works_get(p, 300);
    assert_non_null(w[0]);
    led_works_put(p, w[0]);
    assert_int_equal(idle_of(p), 1);
    led_works_free(p);
}

static void test_works__largest_body__fits_its_arena(void **state)
{
    struct led_works *p = NULL;
    struct led_work *w;

    (void)state;
    assert_int_equal(led_works_new(&p, NULL), RON_OK);
    w = led_works_get(p, 11 << 20);
    assert_non_null(w);
    assert_true(w->arena.size >= (size_t)11 << 20);
    led_works_put(p, w);
    assert_null(led_works_get(p, 64 << 20));
    led_works_free(p);
}

static void test_works__too_many__none_until_one_is_back(void **state)
{
    enum { LARGE = 64 };
    struct led_works *p = NULL;
    struct led_works_stats stats;
    struct led_work *all[LARGE];
    size_t count = 0;

    (void)state;
    assert_int_equal(led_works_new(&p, NULL), RON_OK);
    while (count < LARGE && (all[count] = led_works_get(p, 11 << 20)) != NULL) {
        count++;
    }
    assert_in_range(count, 30, LARGE - 1);
    led_works_stats(p, &stats);
    assert_int_equal(stats.refused, 1);
    led_works_put(p, all[--count]);
    all[count] = led_works_get(p, 11 << 20);
    assert_non_null(all[count]);
    count++;
    while (count > 0) {
        led_works_put(p, all[--count]);
    }
    led_works_stats(p, &stats);
    assert_true(stats.idle <= 2); /* the pages of large ones are given back */
    led_works_free(p);
}

/* ---- frozen accounts ------------------------------------------------------------------------- */

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static bool is_frozen(struct led_frozen *f, const char *account)
{
    struct led_book *book = NULL;
    struct led_account a = {0};

    assert_int_equal(led_book_new(&(struct led_book_opts){0}, &book), RON_OK);
    assert_int_equal(led_frozen_apply(f, book, NULL), RON_OK);
    (void)led_book_account(book, str(account), LED_PROJECTED, &a);
    led_book_free(book);
    return a.frozen;
}

static void test_frozen__set_and_opened_again__remembered(void **state)
{
    char dir[] = "/tmp/ron-frozen-XXXXXX";
    char path[64];
    struct led_frozen *f = NULL;
    const struct ron_env *env = ron_env_linux();

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(led_frozen_new(env, dir, &f, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, str("t:a/u:1"), true, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, str("t:a/u:2"), true, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, str("t:a/u:1"), true, NULL), RON_OK);
    led_frozen_free(f);
    assert_int_equal(led_frozen_new(env, dir, &f, NULL), RON_OK);
    assert_true(is_frozen(f, "t:a/u:1"));
    assert_true(is_frozen(f, "t:a/u:2"));
    assert_int_equal(led_frozen_set(f, str("t:a/u:1"), false, NULL), RON_OK);
    led_frozen_free(f);
    assert_int_equal(led_frozen_new(env, dir, &f, NULL), RON_OK);
    assert_false(is_frozen(f, "t:a/u:1"));
    assert_true(is_frozen(f, "t:a/u:2"));
    led_frozen_free(f);
    (void)snprintf(path, sizeof path, "%s/frozen", dir);
    (void)unlink(path);
    (void)rmdir(dir);
}

static void test_frozen__file_that_is_no_list__refused(void **state)
{
    static const char *const texts[] = {"t:a/u:1", "a b\n", "\n", "t:a\n\x01\n"};
    char dir[] = "/tmp/ron-frozen-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/frozen", dir);
    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        struct led_frozen *f = NULL;
        struct ron_err err = {0};
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(led_frozen_new(ron_env_linux(), dir, &f, &err), RON_CORRUPT);
        assert_non_null(strstr(err.msg, "frozen"));
    }
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_works__handed_out_again__empty_and_zero),
        cmocka_unit_test(test_works__trim__frees_what_nobody_needed_since_the_last),
        cmocka_unit_test(test_works__largest_body__fits_its_arena),
        cmocka_unit_test(test_works__too_many__none_until_one_is_back),
        cmocka_unit_test(test_frozen__set_and_opened_again__remembered),
        cmocka_unit_test(test_frozen__file_that_is_no_list__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
