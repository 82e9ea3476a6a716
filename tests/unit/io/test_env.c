/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: clocks and randomness of the Linux binding are what env.h says. */
#include "fixture.h"

#include <time.h>

#include "ron/sync/sync.h"

static void test_env__clocks__are_monotonic_and_the_date(void **state)
{
    const struct ron_env *env = ron_env_linux();
    uint64_t last = ron_env_now_ns(env);

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t now = ron_env_now_ns(env);
        assert_true(now >= last);
        last = now;
    }
    assert_true(ron_mono_ns() >= last);
    assert_true(ron_env_wall_ms(env) / 1000 - (uint64_t)time(NULL) + 5 <= 10);
}

enum { DRAWS = 4096 };

static int compare_u64(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static void draw_main(void *arg)
{
    uint64_t *draws = arg;

    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = ron_env_linux()->rand_u64(ron_env_linux());
    }
}

static void test_env__random_numbers__differ_over_refills_and_threads(void **state)
{
    static uint64_t draws[2 * DRAWS];
    const struct ron_thread_opts opts = {
        .name = "draw", .may_block = true, .main = draw_main, .arg = draws};
    struct ron_thread *thread = NULL;
    uint64_t ones = 0;

    (void)state;
    assert_int_equal(ron_thread_start(&opts, &thread, NULL), RON_OK);
    draw_main(draws + DRAWS);
    ron_thread_join(thread);
    qsort(draws, RON_ARRAY_LEN(draws), sizeof draws[0], compare_u64);
    for (size_t i = 0; i < RON_ARRAY_LEN(draws); i++) {
        assert_true(i == 0 || draws[i] != draws[i - 1]);
        ones += (uint64_t)__builtin_popcountll(draws[i]);
    }
    /* 524288 fair bits: 2500 away from the half is 7 standard deviations. */
    assert_in_range(ones, 32 * 2 * DRAWS - 2500, 32 * 2 * DRAWS + 2500);
}

static bool getrandom_fails(enum ron_fault_kind kind, const char *site)
{
    return kind == RON_FAULT_SYSCALL && strcmp(site, "getrandom") == 0;
}

static void draw_without_entropy(void *arg)
{
    (void)arg;
    ron_fault_hook = getrandom_fails;
    for (size_t i = 0; i < DRAWS; i++) {
        (void)ron_env_linux()->rand_u64(ron_env_linux());
    }
}

static void test_env__no_entropy__ends_the_program(void **state)
{
    (void)state;
    support_death(draw_without_entropy, NULL, "no secure identifiers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_env__clocks__are_monotonic_and_the_date),
        cmocka_unit_test(test_env__random_numbers__differ_over_refills_and_threads),
        cmocka_unit_test(test_env__no_entropy__ends_the_program),
    };

    return cmocka_run_group_tests_name("io.env", tests, NULL, NULL);
}
