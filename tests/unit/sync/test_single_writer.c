/* SPDX-License-Identifier: Apache-2.0 */
/* test_single_writer.c - one writing task per mutable thing, and the atomics that others read.
 *
 * Goal: the first writer owns; a second one trips the check whether it is another thread or another
 *   task on the same thread (K-03); a hand-over is possible and explicit. Atomics do what sync.h
 *   says, and concurrent additions are exact.
 * Method: identities are set as the executor sets them; breaches as in breach.h.
 */
#include "ron/base/assert.h"
#include "unit/sync/breach.h"

struct ledger {
    struct ron_single_writer writer;
    uint64_t value;
};

static void write_ledger(void *arg)
{
    struct ledger *l = arg;

    ron_single_writer_check(&l->writer, "ledger.value");
    l->value++;
}

static void write_on_another_thread(void *arg)
{
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "second", .may_block = true, .main = write_ledger, .arg = arg},
        &t, NULL);

    RON_ASSERT(rc == RON_OK);
    ron_thread_join(t);
}

static void test_single_writer__first_writer__may_write_again(void **state)
{
    struct ledger l = {.value = 0};

    (void)state;
    write_ledger(&l);
    write_ledger(&l);
    assert_int_equal(l.value, 2);
    assert_int_equal(ron_sync_violations(RON_BREACH_OWNER), 0);
}

static void test_single_writer__second_thread__breach(void **state)
{
    struct ledger l = {.value = 0};

    (void)state;
    write_ledger(&l);
    EXPECT_BREACH(OWNER, write_on_another_thread, &l, "at 'ledger.value'", "thread second");
}

static void test_single_writer__released__next_writer_owns(void **state)
{
    struct ledger l = {.value = 0};

    (void)state;
    write_ledger(&l);
    ron_single_writer_release(&l.writer);
    write_on_another_thread(&l);
    assert_int_equal(l.value, 2);
    EXPECT_BREACH(OWNER, write_ledger, &l, "at 'ledger.value'");
}

struct task_write {
    struct ledger ledger;
    void *task;
};

static void write_as_task(void *arg)
{
    struct task_write *w = arg;
    void *before = ron_identity_swap(w->task);

    write_ledger(&w->ledger);
    RON_ASSERT(ron_identity_swap(before) == w->task);
}

static void write_as_task_elsewhere(void *arg)
{
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "worker", .may_block = false, .main = write_as_task, .arg = arg},
        &t, NULL);

    RON_ASSERT(rc == RON_OK);
    ron_thread_join(t);
}

static void test_single_writer__same_task_on_another_worker__passes(void **state)
{
    int task = 0;
    struct task_write w = {.task = &task};

    (void)state;
    write_as_task(&w);
    write_as_task_elsewhere(&w);
    write_as_task(&w);
    assert_int_equal(w.ledger.value, 3);
}

static void test_single_writer__another_task_on_the_same_thread__breach(void **state)
{
    int one = 0;
    int two = 0;
    struct task_write w = {.task = &one};

    (void)state;
    write_as_task(&w);
    w.task = &two;
    EXPECT_BREACH(OWNER, write_as_task, &w, "at 'ledger.value'");
    /* The thread itself, outside of its task, is another one too. */
    EXPECT_BREACH(OWNER, write_ledger, &w.ledger, "at 'ledger.value'");
}

static void test_breach__labels__are_those_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(ron_sync_breach_label(RON_BREACH_RANK), "rank");
    assert_string_equal(ron_sync_breach_label(RON_BREACH_HELD), "held");
    assert_string_equal(ron_sync_breach_label(RON_BREACH_LOOP), "loop");
    assert_string_equal(ron_sync_breach_label(RON_BREACH_OWNER), "owner");
}

/* Atomics -------------------------------------------------------------------------------------- */

static void test_atomics__each_operation__returns_what_was_there(void **state)
{
    struct ron_au32 a = {0};
    struct ron_au64 b = {0};
    struct ron_aptr p = {NULL};
    uint32_t expected32 = 7;
    uint64_t expected64 = UINT64_MAX;
    void *expected_ptr = NULL;

    (void)state;
    ron_au32_store(&a, UINT32_MAX);
    assert_int_equal(ron_au32_add(&a, 1), UINT32_MAX);
    assert_int_equal(ron_au32_load(&a), 0);
    assert_int_equal(ron_au32_xchg(&a, 5), 0);
    assert_false(ron_au32_cas(&a, &expected32, 9));
    assert_int_equal(expected32, 5); /* refreshed */
    assert_true(ron_au32_cas(&a, &expected32, 9));
    assert_int_equal(ron_au32_load(&a), 9);

    ron_au64_store(&b, UINT64_MAX);
    assert_true(ron_au64_cas(&b, &expected64, 3));
    assert_int_equal(ron_au64_add(&b, UINT64_MAX), 3); /* minus one */
    assert_int_equal(ron_au64_xchg(&b, 0), 2);

    assert_true(ron_aptr_cas(&p, &expected_ptr, &a));
    assert_false(ron_aptr_cas(&p, &expected_ptr, &b));
    assert_ptr_equal(expected_ptr, &a);
    assert_ptr_equal(ron_aptr_xchg(&p, NULL), &a);
    assert_null(ron_aptr_load(&p));
}

enum { ADDERS = 4, ADDS_EACH = 20000 };

struct sums {
    struct ron_au64 atomic;
    struct ron_stat stat;
};

static void add_many(void *arg)
{
    struct sums *s = arg;

    for (int i = 0; i < ADDS_EACH; i++) {
        ron_au64_add(&s->atomic, 1);
        ron_stat_add(&s->stat, 2);
    }
}

static void test_atomics__many_threads_add__exact(void **state)
{
    struct sums s = {0};
    struct ron_thread *t[ADDERS];

    (void)state;
    for (size_t i = 0; i < ADDERS; i++) {
        assert_int_equal(ron_thread_start(
                             &(struct ron_thread_opts){
                                 .name = "adder", .may_block = true, .main = add_many, .arg = &s},
                             &t[i], NULL),
                         RON_OK);
    }
    for (size_t i = 0; i < ADDERS; i++) {
        ron_thread_join(t[i]);
    }
    assert_int_equal(ron_au64_load(&s.atomic), ADDERS * ADDS_EACH);
    assert_int_equal(ron_stat_get(&s.stat), 2 * ADDERS * ADDS_EACH);
    ron_stat_bump(&s.stat, 5);
    assert_int_equal(ron_stat_get(&s.stat), 2 * ADDERS * ADDS_EACH + 5);
    ron_stat_set(&s.stat, 1);
    assert_int_equal(ron_stat_get(&s.stat), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_writer__first_writer__may_write_again),
        cmocka_unit_test(test_single_writer__second_thread__breach),
        cmocka_unit_test(test_single_writer__released__next_writer_owns),
        cmocka_unit_test(test_single_writer__same_task_on_another_worker__passes),
        cmocka_unit_test(test_single_writer__another_task_on_the_same_thread__breach),
        cmocka_unit_test(test_breach__labels__are_those_of_the_table),
        cmocka_unit_test(test_atomics__each_operation__returns_what_was_there),
        cmocka_unit_test(test_atomics__many_threads_add__exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
