/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the helpers that judge other tests judge rightly: a death test notices survival and a wrong
 * report, a fault sweep notices a leak, an ignored fault and a bad code.
 * Method: cases that are broken on purpose, run through the functions that return a verdict. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static struct support_death death;

static void die_by_assertion(void *arg)
{
    (void)arg;
    RON_ASSERT_MSG(false, "as planned");
}

static void survive(void *arg)
{
    (void)arg;
}

static void exit_politely(void *arg)
{
    (void)arg;
    _exit(3);
}

static void die_by_signal(void *arg)
{
    (void)signal(*(int *)arg, SIG_DFL);
    (void)raise(*(int *)arg);
}

static void write_much(void *arg)
{
    char line[256];

    (void)arg;
    memset(line, 'y', sizeof(line));
    for (int i = 0; i < 4096; i++) { /* far more than a pipe or the text holds */
        ssize_t written = write(STDERR_FILENO, line, sizeof(line));

        (void)written;
    }
    RON_ASSERT(false);
}

static void test_support__death__is_told_from_other_ends(void **state)
{
    (void)state;
    int sig = SIGABRT;

    support_death_run(die_by_assertion, NULL, &death);
    assert_true(death.died);
    assert_non_null(strstr(death.text, "why: as planned"));
    support_death_run(die_by_signal, &sig, &death);
    assert_true(death.died);
    sig = SIGKILL;
    support_death_run(die_by_signal, &sig, &death);
    assert_false(death.died);
    support_death_run(survive, NULL, &death);
    assert_false(death.died);
    support_death_run(exit_politely, NULL, &death);
    assert_false(death.died);
    assert_int_equal(WEXITSTATUS(death.wait_status), 3);
}

static void test_support__death_with_much_text__is_cut(void **state)
{
    (void)state;
    support_death_run(write_much, NULL, &death);
    assert_true(death.died);
    assert_int_equal(strlen(death.text), SUPPORT_DEATH_TEXT_SIZE - 1);
}

static void test_support__seed__is_stable_within_a_run(void **state)
{
    (void)state;
    struct ron_rand a = support_rand();
    struct ron_rand b = support_rand();

    assert_true(support_seed() == support_seed());
    assert_memory_equal(&a, &b, sizeof(a));
}

/* The program that this test is, run again with a seed of its own. */
static int run_with_seed(const char *seed, char *ret_text, size_t size)
{
    char self[512];
    char command[1024];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    assert_true(len > 0);
    self[len] = '\0';
    (void)snprintf(command, sizeof(command), "RON_SEED='%s' '%s' print-seed 2>&1", seed, self);
    FILE *child = popen(command, "r");

    assert_non_null(child);
    size_t got = fread(ret_text, 1, size - 1, child);

    ret_text[got] = '\0';
    return pclose(child);
}

static void test_support__seed_variable__is_honoured_or_refused(void **state)
{
    (void)state;
    char text[4096];

    assert_int_equal(run_with_seed("12345", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "RON_SEED=12345 "));
    assert_int_equal(run_with_seed("0xff", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "RON_SEED=255 "));
    static const char *const bad[] = {"", "x", "12x", "-1", " 1", "18446744073709551616"};

    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        int status = run_with_seed(bad[i], text, sizeof(text));

        assert_int_equal(WEXITSTATUS(status), 2);
        assert_non_null(strstr(text, "is no number of 64 bits"));
    }
}

static int runs;
static void *kept; /* what the leaking case leaks, so that the test itself can give it back */

static enum ron_rc good_case(void *arg)
{
    void *first = ron_alloc(8);
    void *second = first != NULL ? ron_alloc(8) : NULL;
    bool failed = second == NULL || RON_FAULT(RON_FAULT_SYSCALL, "sync");

    (void)arg;
    runs++;
    ron_free(second);
    ron_free(first);
    return failed ? RON_NOMEM : RON_OK;
}

static enum ron_rc leaking_case(void *arg)
{
    void *first = ron_alloc(8);
    void *second = ron_alloc(8);

    (void)arg;
    if (first == NULL || second == NULL) {
        kept = first; /* the mistake: the first block is forgotten when the second fails */
        ron_free(second);
        return RON_NOMEM;
    }
    ron_free(second);
    ron_free(first);
    return RON_OK;
}

static enum ron_rc ignoring_case(void *arg)
{
    (void)arg;
    ron_free(ron_alloc(8));
    return RON_OK;
}

static enum ron_rc bad_code_case(void *arg)
{
    void *block = ron_alloc(8);
    enum ron_rc rc = block == NULL ? *(enum ron_rc *)arg : RON_OK;

    ron_free(block);
    return rc;
}

static enum ron_rc broken_case(void *arg)
{
    (void)arg;
    return RON_IO;
}

static enum ron_rc empty_case(void *arg)
{
    (void)arg;
    return RON_OK;
}

static enum ron_rc hungry_case(void *arg)
{
    (void)arg;
    for (int i = 0; i < 6000; i++) {
        (void)RON_FAULT(RON_FAULT_SYSCALL, "many");
    }
    return RON_OK;
}

/* Only a persistent failure shows this mistake: one retry hides a single one. */
static enum ron_rc retrying_case(void *arg)
{
    void *block = ron_alloc(8);

    (void)arg;
    if (block == NULL) {
        block = ron_alloc(8);
    }
    ron_free(block);
    return block == NULL ? RON_INTERNAL : RON_OK;
}

static struct support_sweep_result sweep(support_sweep_fn *run, void *arg, bool may_succeed)
{
    return support_sweep_run(&(struct support_sweep){
        .name = "inner", .run = run, .arg = arg, .may_succeed = may_succeed});
}

static void test_support__sweep_of_a_sound_case__visits_every_point_twice(void **state)
{
    (void)state;
    runs = 0;
    struct support_sweep_result result = sweep(good_case, NULL, false);

    assert_int_equal(result.verdict, SUPPORT_SWEEP_OK);
    assert_int_equal(result.points[RON_FAULT_ALLOC], 2);
    assert_int_equal(result.points[RON_FAULT_SYSCALL], 1);
    assert_int_equal(result.runs, 1 + 2 * 2 + 2 * 1);
    assert_int_equal(runs, result.runs);
    assert_null(ron_fault_hook);
    assert_null(ron_alloc_watch);
}

static void test_support__sweep_of_a_leaking_case__names_the_point(void **state)
{
    (void)state;
    struct support_sweep_result result = sweep(leaking_case, NULL, false);

    assert_int_equal(result.verdict, SUPPORT_SWEEP_LEAK);
    assert_int_equal(result.kind, RON_FAULT_ALLOC);
    assert_int_equal(result.failed_point, 2);
    assert_int_equal(result.live_blocks, 1);
    assert_string_equal(result.site, "leaking_case");
    ron_free(kept);
}

static void test_support__sweep_of_broken_cases__says_how(void **state)
{
    (void)state;
    enum ron_rc contained_bug = RON_INTERNAL;
    enum ron_rc nonsense = (enum ron_rc)(-999);

    assert_int_equal(sweep(ignoring_case, NULL, false).verdict, SUPPORT_SWEEP_FAULT_IGNORED);
    assert_int_equal(sweep(ignoring_case, NULL, true).verdict, SUPPORT_SWEEP_OK);
    assert_int_equal(sweep(bad_code_case, &contained_bug, true).verdict, SUPPORT_SWEEP_BAD_CODE);
    assert_int_equal(sweep(bad_code_case, &nonsense, true).verdict, SUPPORT_SWEEP_BAD_CODE);
    assert_int_equal(sweep(broken_case, NULL, true).verdict, SUPPORT_SWEEP_BROKEN_CASE);
    assert_int_equal(sweep(empty_case, NULL, true).verdict, SUPPORT_SWEEP_NOTHING_TO_FAIL);
    assert_int_equal(sweep(hungry_case, NULL, true).verdict, SUPPORT_SWEEP_TOO_MANY_POINTS);
    struct support_sweep_result result = sweep(retrying_case, NULL, true);

    assert_int_equal(result.verdict, SUPPORT_SWEEP_BAD_CODE);
    assert_true(result.persistent);
}

SUPPORT_FAULT_SWEEP(test_support__marked_test__is_swept, good_case)
SUPPORT_FAULT_SWEEP_TOLERANT(test_support__marked_tolerant_test__is_swept, ignoring_case)

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "print-seed") == 0) {
        (void)support_seed();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_support__death__is_told_from_other_ends),
        cmocka_unit_test(test_support__death_with_much_text__is_cut),
        cmocka_unit_test(test_support__seed__is_stable_within_a_run),
        cmocka_unit_test(test_support__seed_variable__is_honoured_or_refused),
        cmocka_unit_test(test_support__sweep_of_a_sound_case__visits_every_point_twice),
        cmocka_unit_test(test_support__sweep_of_a_leaking_case__names_the_point),
        cmocka_unit_test(test_support__sweep_of_broken_cases__says_how),
        cmocka_unit_test(test_support__marked_test__is_swept),
        cmocka_unit_test(test_support__marked_tolerant_test__is_swept),
    };

    return cmocka_run_group_tests_name("base.support", tests, NULL, NULL);
}
