/* SPDX-License-Identifier: Apache-2.0 */
/* test_weave.c - the search: does it run every schedule, once, and again when asked to?
 *
 * Goal: a "no failure" of weave must mean something. Method: counts are compared with formulas, the
 * reduced search with the full one, tapes and seeds with their own repetition. What weave calls a
 * failure is in test_weave_faults.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/weave/weave.h"
#include "model/weave/weave_test.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum { THREADS_MAX = 4, OUTCOMES_MAX = 4096 };

static struct weave_result result;
static struct weave_result second;

/* ---- a body with a known number of schedules ------------------------------------------------- */

struct race {
    bool twins; /* all threads have one name */
    uint32_t threads;
    uint32_t ops; /* of each thread on one shared word */
    struct ron_au32 word;
    /* The order in which the threads came, as a number in base THREADS_MAX: which schedules were
     * seen. */
    uint32_t order;
    bool seen[OUTCOMES_MAX];
    uint32_t distinct;
};

struct racer {
    struct race *race;
    uint32_t id;
};

static void racer_main(void *arg)
{
    struct racer *r = arg;

    for (uint32_t i = 0; i < r->race->ops; i++) {
        ron_au32_add(&r->race->word, 1);
        r->race->order = r->race->order * THREADS_MAX + r->id;
    }
}

static void race_body(void *arg)
{
    static const char *const names[THREADS_MAX] = {"racer-0", "racer-1", "racer-2", "racer-3"};
    struct race *race = arg;
    struct racer racers[THREADS_MAX];
    struct ron_thread *threads[THREADS_MAX];

    race->word = (struct ron_au32){0};
    race->order = 0;
    for (uint32_t i = 0; i < race->threads; i++) {
        racers[i] = (struct racer){.race = race, .id = i};
        threads[i] = start(race->twins ? "racer" : names[i], racer_main, &racers[i]);
    }
    for (uint32_t i = 0; i < race->threads; i++) {
        ron_thread_join(threads[i]);
    }
    RON_ASSERT(race->order < OUTCOMES_MAX);
    race->distinct += !race->seen[race->order];
    race->seen[race->order] = true;
}

static void expect_race(uint32_t threads, uint32_t ops, uint32_t bound, uint64_t schedules)
{
    struct race race = {.threads = threads, .ops = ops};
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = bound};

    weave_explore(race_body, &race, &opts, &result);
    assert_false(result.failed);
    assert_true(result.exhaustive);
    assert_int_equal(result.schedules, schedules);
    assert_int_equal(race.distinct, schedules); /* No schedule was run twice. */
}

/* n threads of k operations have (nk)! / (k!)^n interleavings. */
static void test_weave__no_bound__every_interleaving_once(void **state)
{
    (void)state;
    expect_race(2, 2, 99, 6);
    expect_race(2, 3, 99, 20);
    expect_race(3, 2, 99, 90);
}

/* Two threads of k: 2 orders without preemption, 2(k-1) more with one, 2(k-1)^2 more with two. */
static void test_weave__preemption_bound__counts_match_the_formula(void **state)
{
    (void)state;
    expect_race(2, 3, 0, 2);
    expect_race(2, 3, 1, 2 + 4);
    expect_race(2, 3, 2, 2 + 4 + 8);
    expect_race(2, 3, 3, 2 + 4 + 8 + 4);
}

/* Interchangeable threads start in order: each interleaving stands for n! of them. */
static void test_weave__threads_of_one_name__are_not_tried_in_every_order(void **state)
{
    struct race race = {.twins = true, .threads = 3, .ops = 2};
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = 99};

    (void)state;
    weave_explore(race_body, &race, &opts, &result);
    assert_true(result.exhaustive);
    assert_int_equal(result.schedules, 90 / 6);
}

/* Between the calm parts only the middle operation is left to be ordered. */
static void calm_main(void *arg)
{
    struct racer *r = arg;

    ron_au32_add(&r->race->word, 1);
    weave_calm(false);
    ron_au32_add(&r->race->word, 1);
    r->race->order = r->race->order * THREADS_MAX + r->id;
    weave_calm(true);
    ron_au32_add(&r->race->word, 1);
}

static void calm_body(void *arg)
{
    struct race *race = arg;
    struct racer a = {.race = race, .id = 1};
    struct racer b = {.race = race, .id = 2};
    struct ron_thread *threads[2];

    weave_calm(true);
    race->order = 0;
    threads[0] = start("a", calm_main, &a);
    threads[1] = start("b", calm_main, &b);
    ron_thread_join(threads[0]);
    ron_thread_join(threads[1]);
    race->distinct += !race->seen[race->order];
    race->seen[race->order] = true;
}

static void test_weave__calm_parts__are_not_explored(void **state)
{
    struct race race = {0};
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = 99};

    (void)state;
    weave_explore(calm_body, &race, &opts, &result);
    assert_true(result.exhaustive);
    assert_int_equal(race.distinct, 2);
    assert_int_equal(result.schedules, 3); /* Of 20; calm is a state of the run, not of a thread. */
}

/* ---- the reduced search against the full one ------------------------------------------------- */

/* Shared data under a lock, private data, nested locks and an unlocked flag: some points matter,
 * some do not. The outcome says what each thread saw. */
struct mix {
    struct ron_mutex outer;
    struct ron_mutex inner;
    struct ron_au32 guarded; /* by inner */
    struct ron_au32 flag;
    bool seen[OUTCOMES_MAX];
};

struct mixer {
    struct mix *mix;
    uint32_t saw; /* three values of two bits */
};

static void mix_main(void *arg)
{
    struct mixer *mixer = arg;
    struct mix *m = mixer->mix;
    struct ron_au32 own = {0};
    uint32_t saw;

    ron_au32_add(&own, 1);
    ron_mutex_lock(&m->outer);
    ron_mutex_lock(&m->inner);
    saw = ron_au32_add(&m->guarded, 1);
    ron_mutex_unlock(&m->inner);
    saw = saw * 4 + ron_au32_add(&m->flag, 1);
    ron_mutex_unlock(&m->outer);
    saw = saw * 4 + ron_au32_load(&m->flag);
    ron_au32_add(&own, 1);
    mixer->saw = saw;
}

static void mix_body(void *arg)
{
    struct mix *m = arg;
    struct mixer mixers[2] = {{.mix = m}, {.mix = m}};
    struct ron_thread *a;
    struct ron_thread *b;
    uint32_t flag;

    ron_mutex_init(&m->outer, RON_RANK_SHARED, "outer");
    ron_mutex_init(&m->inner, RON_RANK_LEAF, "inner");
    m->guarded = (struct ron_au32){0};
    m->flag = (struct ron_au32){0};
    a = start("a", mix_main, &mixers[0]);
    b = start("b", mix_main, &mixers[1]);
    flag = ron_au32_load(&m->flag);
    ron_thread_join(a);
    ron_thread_join(b);
    ron_mutex_done(&m->inner);
    ron_mutex_done(&m->outer);
    /* Each thread's first look takes one bit, since two come by; 5 + 5 + 2 bits. */
    m->seen[((mixers[0].saw % 32) * 32 + mixers[1].saw % 32) * 4 + flag] = true;
}

static void test_weave__reduction__sees_every_outcome_of_the_full_search(void **state)
{
    static struct mix reduced;
    static struct mix full;
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = 99};
    uint32_t outcomes = 0;

    (void)state;
    weave_explore(mix_body, &reduced, &opts, &result);
    assert_true(result.exhaustive);
    opts.all_points = true;
    weave_explore(mix_body, &full, &opts, &second);
    assert_true(second.exhaustive);
    assert_memory_equal(reduced.seen, full.seen, sizeof full.seen);
    for (uint32_t i = 0; i < OUTCOMES_MAX; i++) {
        outcomes += full.seen[i];
    }
    assert_true(outcomes > 4);
    assert_true(result.schedules * 4 <
                second.schedules); /* Else the reduction is not worth its code. */
}

/* ---- tapes and seeds ------------------------------------------------------------------------- */

static void test_weave__tape_text__reads_back_and_refuses_nonsense(void **state)
{
    static const char *const bad[] = {"1",   "1:",    ":1",      "1:0",    "1:1,",
                                      "g:1", "1:100", "2:1,1:1", "10000:1"};
    static struct weave_tape tape;
    char text[64];

    (void)state;
    assert_true(weave_tape_parse("0:1,1f:2,ff:ff", &tape));
    assert_int_equal(tape.len, 0x100);
    assert_int_equal(tape.pick[0x1f], 2);
    assert_true(weave_tape_format(&tape, text, sizeof text));
    assert_string_equal(text, "0:1,1f:2,ff:ff");
    assert_false(weave_tape_format(&tape, text, 8));
    assert_true(weave_tape_parse("", &tape));
    assert_int_equal(tape.len, 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(weave_tape_parse(bad[i], &tape));
    }
}

/* The classic lost update: found by search, by chance and by priorities. */
struct lost {
    struct ron_au32 word;
};

static void lost_main(void *arg)
{
    struct lost *lost = arg;
    uint32_t x = ron_au32_load(&lost->word);

    ron_au32_store(&lost->word, x + 1);
}

static void lost_body(void *arg)
{
    struct lost *lost = arg;
    struct ron_thread *a;
    struct ron_thread *b;

    lost->word = (struct ron_au32){0};
    a = start("a", lost_main, lost);
    b = start("b", lost_main, lost);
    ron_thread_join(a);
    ron_thread_join(b);
    if (ron_au32_load(&lost->word) != 2) {
        weave_fail("check", "an update was lost");
    }
}

static void test_weave__failing_tape__replays_and_shrinks_to_one_preemption(void **state)
{
    struct lost lost;
    struct weave_opts opts = {.mode = WEAVE_RANDOM, .seed = 7, .schedules_max = 1000};
    struct weave_opts replay = {.mode = WEAVE_REPLAY, .tape = &result.tape};
    char text[256];

    (void)state;
    weave_explore(lost_body, &lost, &opts, &result);
    assert_true(result.failed);
    assert_int_equal(weave_shrink(lost_body, &lost, &opts, 100, &result), 1);
    assert_true(weave_tape_format(&result.tape, text, sizeof text));
    assert_true(weave_tape_parse(text, &result.tape));
    weave_explore(lost_body, &lost, &replay, &second);
    assert_true(second.failed);
    assert_string_equal(second.kind, "check");
    assert_string_equal(second.message, "an update was lost");
}

static void test_weave__each_strategy__finds_the_lost_update(void **state)
{
    static const enum weave_mode modes[] = {WEAVE_DFS, WEAVE_RANDOM, WEAVE_PCT};
    struct lost lost;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(modes); i++) {
        struct weave_opts opts = {.mode = modes[i],
                                  .preemptions_max = 1,
                                  .seed = 11,
                                  .schedules_max = 1000,
                                  .pct_depth = 2};

        weave_explore(lost_body, &lost, &opts, &result);
        assert_true(result.failed);
        assert_string_equal(result.kind, "check");
    }
}

/* What a run did, folded into one number. */
struct story {
    struct ron_au32 word;
    uint64_t hash;
};

static void story_main(void *arg)
{
    struct story *story = arg;

    for (int i = 0; i < 200; i++) {
        uint32_t x = ron_au32_add(&story->word, 1);

        story->hash = (story->hash ^ x ^ (uintptr_t)ron_thread_self()) * UINT64_C(0x100000001b3);
        if (i == 100) {
            RON_IGNORE(ron_park_until(ron_deadline_after_ms(ron_mono_ns(), x % 2 + 1), "a nap"));
        }
    }
}

static void story_body(void *arg)
{
    struct story *story = arg;
    struct ron_thread *threads[THREADS_MAX];

    *story = (struct story){0};
    for (int i = 0; i < THREADS_MAX; i++) {
        threads[i] = start("teller", story_main, story);
    }
    for (int i = 0; i < THREADS_MAX; i++) {
        ron_thread_join(threads[i]);
    }
}

static void test_weave__simulation__a_seed_is_a_run(void **state)
{
    static uint64_t hashes[8];
    struct story story;
    uint32_t same = 0;

    (void)state;
    for (uint64_t seed = 0; seed < RON_ARRAY_LEN(hashes); seed++) {
        weave_run_seeded(story_body, &story, seed, NULL, &result);
        assert_false(result.failed);
        assert_true(result.clock_end_ns > weave_now_ns());
        hashes[seed] = story.hash;
    }
    for (uint64_t seed = 0; seed < RON_ARRAY_LEN(hashes); seed++) {
        weave_run_seeded(story_body, &story, seed, NULL, &result);
        assert_int_equal(story.hash, hashes[seed]);
        same += seed > 0 && hashes[seed] == hashes[0];
    }
    assert_int_equal(same, 0);
}

static void lonely_main(void *arg)
{
    RON_IGNORE(ron_park_until(ron_deadline_never(), "a call that never comes"));
    (void)arg;
}

static void deadlock_body(void *arg)
{
    (void)arg;
    ron_thread_join(start("lonely", lonely_main, NULL));
}

static void test_weave__simulation_that_fails__returns_the_failure(void **state)
{
    (void)state;
    weave_run_seeded(deadlock_body, NULL, 1, NULL, &result);
    assert_true(result.failed);
    assert_string_equal(result.kind, "deadlock");
    /* The next run starts clean. */
    weave_run_seeded(story_body, &(struct story){0}, 1, NULL, &result);
    assert_false(result.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weave__no_bound__every_interleaving_once),
        cmocka_unit_test(test_weave__preemption_bound__counts_match_the_formula),
        cmocka_unit_test(test_weave__threads_of_one_name__are_not_tried_in_every_order),
        cmocka_unit_test(test_weave__calm_parts__are_not_explored),
        cmocka_unit_test(test_weave__reduction__sees_every_outcome_of_the_full_search),
        cmocka_unit_test(test_weave__tape_text__reads_back_and_refuses_nonsense),
        cmocka_unit_test(test_weave__failing_tape__replays_and_shrinks_to_one_preemption),
        cmocka_unit_test(test_weave__each_strategy__finds_the_lost_update),
        cmocka_unit_test(test_weave__simulation__a_seed_is_a_run),
        cmocka_unit_test(test_weave__simulation_that_fails__returns_the_failure),
    };

    return cmocka_run_group_tests_name("weave", tests, NULL, NULL);
}
