/* SPDX-License-Identifier: Apache-2.0 */
/* test_mutex.c - ranked mutexes and conditions.
 *
 * Goal: a lock out of rank order is caught before it can deadlock, the record of held locks stays
 *   right whatever the order of release, and nobody lets go of what another holds (K-26).
 * Method: the breach itself runs in a child that must die with a report that names both locks. In
 *   the release build the same code must go on and count (breach.h).
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "unit/sync/breach.h"
#include "unit/sync/parked.h"

/* Four locks of rising rank, and one that equals the second. */
struct locks {
    struct ron_mutex a, b, b2, c, d;
};

static void locks_init(struct locks *l)
{
    ron_mutex_init(&l->a, RON_RANK_SUPERVISOR, "lock.a");
    ron_mutex_init(&l->b, RON_RANK_CHAN, "lock.b");
    ron_mutex_init(&l->b2, RON_RANK_CHAN, "lock.b2");
    ron_mutex_init(&l->c, RON_RANK_RUNQ, "lock.c");
    ron_mutex_init(&l->d, RON_RANK_LEAF, "lock.d");
}

static void locks_done(struct locks *l)
{
    ron_mutex_done(&l->a);
    ron_mutex_done(&l->b);
    ron_mutex_done(&l->b2);
    ron_mutex_done(&l->c);
    ron_mutex_done(&l->d);
}

static void test_mutex__rising_ranks__pass(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    for (int round = 0; round < 3; round++) {
        ron_mutex_lock(&l.a);
        ron_mutex_lock(&l.b);
        ron_mutex_lock(&l.d);
        assert_true(ron_mutex_held(&l.a));
        assert_true(ron_mutex_held(&l.d));
        assert_false(ron_mutex_held(&l.c));
        ron_mutex_unlock(&l.d);
        ron_mutex_unlock(&l.b);
        ron_mutex_unlock(&l.a);
        assert_false(ron_mutex_held(&l.a));
    }
    ron_no_lock_point("all locks are back");
    for (int kind = 0; kind < RON_BREACH_COUNT; kind++) {
        assert_int_equal(ron_sync_violations((enum ron_sync_breach)kind), 0);
    }
    locks_done(&l);
}

static void take_inverse(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->b);
    ron_mutex_lock(&l->a);
    ron_mutex_unlock(&l->a);
    ron_mutex_unlock(&l->b);
}

static void test_mutex__leaf_under_shared__counted_as_a_nest(void **state)
{
    struct ron_mutex shared;
    struct ron_mutex chan;
    struct ron_mutex leaf;
    uint64_t before = ron_thread_nests();

    (void)state;
    ron_mutex_init(&shared, RON_RANK_SHARED, "shared");
    ron_mutex_init(&chan, RON_RANK_CHAN, "chan");
    ron_mutex_init(&leaf, RON_RANK_LEAF, "leaf");
    ron_mutex_lock(&shared);
    ron_mutex_lock(&chan);
    ron_mutex_unlock(&chan);
    ron_mutex_unlock(&shared);
    ron_mutex_lock(&chan);
    ron_mutex_lock(&leaf);
    ron_mutex_unlock(&leaf);
    ron_mutex_unlock(&chan);
    assert_int_equal(ron_thread_nests(), before);
    ron_mutex_lock(&shared);
    ron_mutex_lock(&leaf);
    ron_mutex_unlock(&leaf);
    ron_mutex_unlock(&shared);
    assert_int_equal(ron_thread_nests(), before + 1);
    ron_mutex_done(&shared);
    ron_mutex_done(&chan);
    ron_mutex_done(&leaf);
}

static void test_mutex__inverse_ranks__breach_names_both(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    EXPECT_BREACH(RANK, take_inverse, &l, "at 'lock.a'", "locks held: [lock.b(40)]");
    locks_done(&l);
}

static void take_equal(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->b);
    ron_mutex_lock(&l->b2);
    ron_mutex_unlock(&l->b2);
    ron_mutex_unlock(&l->b);
}

static void test_mutex__equal_ranks__breach(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    EXPECT_BREACH(RANK, take_equal, &l, "at 'lock.b2'", "locks held: [lock.b(40)]");
    locks_done(&l);
}

#if RON_CHECKED
static void take_twice(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->a);
    ron_mutex_lock(&l->a);
}
#endif

static void test_mutex__taken_twice__reported_before_it_deadlocks(void **state)
{
    (void)state;
#if RON_CHECKED
    struct locks l;

    locks_init(&l);
    support_death(take_twice, &l, "sync breach rank at 'lock.a'", "locks held: [lock.a(10)]");
    locks_done(&l);
#else
    skip(); /* Release counts and then waits for itself: there is no way back to look. */
#endif
}

/* Takes a, b, c, gives the first one back first, then asks for a rank below the highest left. */
static void release_lowest_first(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->a);
    ron_mutex_lock(&l->b);
    ron_mutex_lock(&l->c);
    ron_mutex_unlock(&l->a);
    ron_mutex_lock(&l->b2);
    ron_mutex_unlock(&l->b2);
    ron_mutex_unlock(&l->b);
    ron_mutex_unlock(&l->c);
}

static void release_middle_first(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->a);
    ron_mutex_lock(&l->b);
    ron_mutex_lock(&l->c);
    ron_mutex_unlock(&l->b);
    ron_mutex_lock(&l->b2);
    ron_mutex_unlock(&l->b2);
    ron_mutex_unlock(&l->c);
    ron_mutex_unlock(&l->a);
}

static void test_mutex__release_out_of_order__record_stays_right(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    EXPECT_BREACH(RANK, release_lowest_first, &l, "at 'lock.b2'",
                  "locks held: [lock.b(40) lock.c(60)]");
    EXPECT_BREACH(RANK, release_middle_first, &l, "at 'lock.b2'",
                  "locks held: [lock.a(10) lock.c(60)]");

    /* The highest given back first: a rank between the two left and it is free again. */
    ron_mutex_lock(&l.a);
    ron_mutex_lock(&l.b);
    ron_mutex_lock(&l.d);
    ron_mutex_unlock(&l.d);
    ron_mutex_lock(&l.c);
    assert_true(ron_mutex_held(&l.a) && ron_mutex_held(&l.b) && ron_mutex_held(&l.c));
    ron_mutex_unlock(&l.a);
    assert_false(ron_mutex_held(&l.a));
    assert_true(ron_mutex_held(&l.b) && ron_mutex_held(&l.c));
    ron_mutex_unlock(&l.c);
    ron_mutex_unlock(&l.b);
    ron_no_lock_point("all locks are back");
    locks_done(&l);
}

static const enum ron_lock_rank all_ranks[] = {
#define X(name, number, text, doc) RON_RANK_##name,
    RON_LOCK_RANKS(X)
#undef X
};

static void take_first(size_t count)
{
    struct ron_mutex m[RON_ARRAY_LEN(all_ranks)];

    for (size_t i = 0; i < count; i++) {
        ron_mutex_init(&m[i], all_ranks[i], "deep");
        ron_mutex_lock(&m[i]);
    }
    for (size_t i = 0; i < count; i++) {
        ron_mutex_unlock(&m[i]);
        ron_mutex_done(&m[i]);
    }
}

static void take_nine(void *arg)
{
    (void)arg;
    take_first(RON_THREAD_HELD_MAX + 1);
}

static void test_mutex__more_locks_than_the_record_holds__asserts(void **state)
{
    (void)state;
    assert_true(RON_ARRAY_LEN(all_ranks) > RON_THREAD_HELD_MAX);
    take_first(RON_THREAD_HELD_MAX);
    ron_no_lock_point("all locks are back");
    support_death(take_nine, NULL, "held_count < RON_THREAD_HELD_MAX");
}

/* Owner ---------------------------------------------------------------------------------------- */

static void unlock_free_lock(void *arg)
{
    struct locks *l = arg;

    ron_mutex_unlock(&l->b);
}

static void test_mutex__unlock_of_a_free_lock__breach(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    EXPECT_BREACH(OWNER, unlock_free_lock, &l, "at 'lock.b'");
    ron_mutex_lock(&l.b);
    ron_mutex_unlock(&l.b);
    locks_done(&l);
}

struct owner {
    struct ron_mutex m;
    struct ron_au32 taken;
    bool held_after;
};

static void hold_until_unparked(void *arg)
{
    struct owner *o = arg;

    ron_mutex_lock(&o->m);
    ron_au32_store(&o->taken, 1);
    while (ron_au32_load(&o->taken) != 2) {
        (void)sched_yield();
    }
    o->held_after = ron_mutex_held(&o->m);
    ron_mutex_unlock(&o->m);
}

/* Another thread's lock is let go of: in release the owner must keep it all the same. */
static void unlock_from_elsewhere(void *arg)
{
    struct owner *o = arg;
    struct ron_thread *t = NULL;

    RON_ASSERT(ron_thread_start(
                   &(struct ron_thread_opts){
                       .name = "owner", .may_block = true, .main = hold_until_unparked, .arg = o},
                   &t, NULL) == RON_OK);
    while (ron_au32_load(&o->taken) != 1) {
        (void)sched_yield();
    }
    ron_mutex_unlock(&o->m);
    ron_au32_store(&o->taken, 2);
    ron_thread_join(t);
    RON_ASSERT(o->held_after);
}

static void test_mutex__unlock_by_another_thread__breach_and_owner_keeps_it(void **state)
{
    struct owner o = {0};

    (void)state;
    ron_mutex_init(&o.m, RON_RANK_SHARED, "lock.owned");
    EXPECT_BREACH(OWNER, unlock_from_elsewhere, &o, "at 'lock.owned'");
    ron_mutex_done(&o.m); /* Asserts unless lock and unlock came in pairs. */
}

static void done_while_held(void *arg)
{
    struct locks *l = arg;

    ron_mutex_lock(&l->a);
    ron_mutex_done(&l->a);
}

static void done_twice(void *arg)
{
    struct locks *l = arg;

    ron_mutex_done(&l->a);
    ron_mutex_done(&l->a);
}

static void lock_after_done(void *arg)
{
    struct locks *l = arg;

    ron_mutex_done(&l->a);
    ron_mutex_lock(&l->a);
}

static void test_mutex__misuse_of_its_life__asserts(void **state)
{
    struct locks l;

    (void)state;
    locks_init(&l);
    support_death(done_while_held, &l, "destroy"); /* ThreadSanitizer may be first to say it. */
    support_death(done_twice, &l, "RON_MUTEX_MAGIC");
    support_death(lock_after_done, &l, "RON_MUTEX_MAGIC");
    locks_done(&l);
}

enum { ADDERS = 4, ADDS_EACH = 5000 };

struct sum {
    struct ron_mutex m;
    uint64_t value; /* guarded by m; a plain number, so that a broken lock loses additions */
};

static void add_many(void *arg)
{
    struct sum *s = arg;

    for (int i = 0; i < ADDS_EACH; i++) {
        ron_mutex_lock(&s->m);
        s->value++;
        ron_mutex_unlock(&s->m);
    }
}

static void test_mutex__many_threads_add__no_addition_is_lost(void **state)
{
    struct sum s = {.value = 0};
    struct ron_thread *t[ADDERS];

    (void)state;
    ron_mutex_init(&s.m, RON_RANK_LEAF, "sum");
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
    assert_int_equal(s.value, ADDERS * ADDS_EACH);
    ron_mutex_done(&s.m);
}

/* Conditions ----------------------------------------------------------------------------------- */

struct gate {
    struct ron_mutex m;
    struct ron_cond c;
    uint32_t open;   /* guarded by m: how many may pass */
    uint32_t passed; /* guarded by m */
};

static void gate_init(struct gate *g)
{
    *g = (struct gate){.open = 0};
    ron_mutex_init(&g->m, RON_RANK_SHARED, "gate");
    ron_cond_init(&g->c);
}

static void gate_done(struct gate *g)
{
    ron_cond_done(&g->c);
    ron_mutex_done(&g->m);
}

static void pass_gate(void *arg)
{
    struct gate *g = arg;

    ron_mutex_lock(&g->m);
    while (g->open == 0) {
        (void)ron_cond_wait_until(&g->c, &g->m, ron_deadline_never());
    }
    g->open--;
    g->passed++;
    ron_mutex_unlock(&g->m);
}

static void test_cond__signal_and_broadcast__let_through_as_many(void **state)
{
    struct gate g;
    struct ron_thread *t[ADDERS];

    (void)state;
    gate_init(&g);
    for (size_t i = 0; i < ADDERS; i++) {
        assert_int_equal(ron_thread_start(
                             &(struct ron_thread_opts){
                                 .name = "passer", .may_block = true, .main = pass_gate, .arg = &g},
                             &t[i], NULL),
                         RON_OK);
    }
    ron_mutex_lock(&g.m);
    g.open = 1;
    ron_cond_signal(&g.c);
    ron_mutex_unlock(&g.m);
    ron_mutex_lock(&g.m);
    g.open += ADDERS - 1;
    ron_cond_broadcast(&g.c);
    ron_mutex_unlock(&g.m);
    for (size_t i = 0; i < ADDERS; i++) {
        ron_thread_join(t[i]);
    }
    assert_int_equal(g.passed, ADDERS);
    assert_int_equal(g.open, 0);
    gate_done(&g);
}

static void test_cond__deadline__returns_false_with_the_lock_held(void **state)
{
    struct gate g;
    struct ron_deadline soon = ron_deadline_after_ms(ron_mono_ns(), 5);

    (void)state;
    gate_init(&g);
    ron_mutex_lock(&g.m);
    assert_false(ron_cond_wait_until(&g.c, &g.m, (struct ron_deadline){.at_ns = 0}));
    while (ron_cond_wait_until(&g.c, &g.m, soon)) {
        /* Woken for no reason: allowed. */
    }
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_true(ron_mutex_held(&g.m));
    ron_mutex_unlock(&g.m);
    gate_done(&g);
}

struct cond_case {
    struct gate g;
    struct ron_mutex other;
};

static void wait_with_another_lock(void *arg)
{
    struct cond_case *k = arg;

    ron_mutex_lock(&k->other);
    ron_mutex_lock(&k->g.m);
    (void)ron_cond_wait_until(&k->g.c, &k->g.m, (struct ron_deadline){.at_ns = 0});
    ron_mutex_unlock(&k->g.m);
    ron_mutex_unlock(&k->other);
}

static void wait_on_a_loop_thread(void *arg)
{
    struct cond_case *k = arg;
    bool before = ron_thread_set_may_block(false);

    ron_mutex_lock(&k->g.m);
    (void)ron_cond_wait_until(&k->g.c, &k->g.m, (struct ron_deadline){.at_ns = 0});
    ron_mutex_unlock(&k->g.m);
    (void)ron_thread_set_may_block(before);
}

static void test_cond__wait_where_none_is_allowed__breach(void **state)
{
    struct cond_case k;

    (void)state;
    gate_init(&k.g);
    ron_mutex_init(&k.other, RON_RANK_SUPERVISOR, "lock.other");
    EXPECT_BREACH(HELD, wait_with_another_lock, &k, "at 'gate'",
                  "locks held: [lock.other(10) gate(20)]");
    EXPECT_BREACH(LOOP, wait_on_a_loop_thread, &k, "at 'gate'");
    ron_mutex_done(&k.other);
    gate_done(&k.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutex__rising_ranks__pass),
        cmocka_unit_test(test_mutex__leaf_under_shared__counted_as_a_nest),
        cmocka_unit_test(test_mutex__inverse_ranks__breach_names_both),
        cmocka_unit_test(test_mutex__equal_ranks__breach),
        cmocka_unit_test(test_mutex__taken_twice__reported_before_it_deadlocks),
        cmocka_unit_test(test_mutex__release_out_of_order__record_stays_right),
        cmocka_unit_test(test_mutex__more_locks_than_the_record_holds__asserts),
        cmocka_unit_test(test_mutex__unlock_of_a_free_lock__breach),
        cmocka_unit_test(test_mutex__unlock_by_another_thread__breach_and_owner_keeps_it),
        cmocka_unit_test(test_mutex__misuse_of_its_life__asserts),
        cmocka_unit_test(test_mutex__many_threads_add__no_addition_is_lost),
        cmocka_unit_test(test_cond__signal_and_broadcast__let_through_as_many),
        cmocka_unit_test(test_cond__deadline__returns_false_with_the_lock_held),
        cmocka_unit_test(test_cond__wait_where_none_is_allowed__breach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
