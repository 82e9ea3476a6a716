/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each thread and each fiber has its own context, and the ring keeps the newest events.
 * Method: swaps on one thread, a second thread beside it. */
#include <pthread.h>

#include "support/support.h"

#include "ron/base/build.h"
#include "ron/base/ctx.h"

static void test_ctx__ring__keeps_the_newest_events(void **state)
{
    (void)state;
    struct ron_ctx ctx;

    ron_ctx_init(&ctx, "t", NULL);
    struct ron_ctx *before = ron_ctx_swap(&ctx);

    for (uint64_t i = 0; i < 100; i++) {
        ron_event("tick", i, i * i);
    }
    (void)ron_ctx_swap(before);
    assert_int_equal(ctx.event_count, 100);
    for (uint64_t i = 100 - RON_CTX_EVENTS; i < 100; i++) {
        assert_int_equal(ctx.events[i % RON_CTX_EVENTS].a, i);
        assert_int_equal(ctx.events[i % RON_CTX_EVENTS].b, i * i);
        assert_string_equal(ctx.events[i % RON_CTX_EVENTS].what, "tick");
    }
}

static void test_ctx__swap__moves_everything_to_the_new_context(void **state)
{
    (void)state;
    struct ron_ctx fiber;
    struct ron_ctx *mine = ron_ctx_current();
    uint64_t count_before = mine->event_count;

    ron_ctx_init(&fiber, "fiber", "consumer");
    assert_ptr_equal(ron_ctx_swap(&fiber), mine);
    assert_ptr_equal(ron_ctx_current(), &fiber);
    ron_event("in the fiber", 1, 2);
    assert_string_equal(ron_ctx_set_task("other"), "consumer");
    assert_ptr_equal(ron_ctx_swap(NULL), &fiber);

    assert_ptr_equal(ron_ctx_current(), mine);
    assert_int_equal(mine->event_count, count_before);
    assert_int_equal(fiber.event_count, 1);
    assert_string_equal(fiber.task, "other");
    assert_string_equal(fiber.thread, "fiber");
}

static void test_ctx__long_thread_name__is_cut(void **state)
{
    (void)state;
    struct ron_ctx ctx;

    ron_ctx_init(&ctx, "0123456789abcdef0123", NULL);
    assert_string_equal(ctx.thread, "0123456789abcde");
    ron_ctx_init(&ctx, "short", NULL);
    assert_string_equal(ctx.thread, "short");
    for (size_t i = 5; i < sizeof(ctx.thread); i++) {
        assert_int_equal(ctx.thread[i], 0); /* nothing of the old name is left */
    }
}

static void *other_thread(void *arg)
{
    struct ron_ctx **ret_ctx = arg;

    (void)ron_ctx_set_task("its task");
    ron_event("over there", 1, 1);
    *ret_ctx = ron_ctx_current();
    assert_true(ron_ctx_current()->event_count == 1);
    return NULL;
}

static void test_ctx__threads__have_separate_contexts(void **state)
{
    (void)state;
    pthread_t thread;
    struct ron_ctx *other = NULL;
    uint64_t count_before = ron_ctx_current()->event_count;

    (void)ron_ctx_set_task(NULL);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_not_equal(other, ron_ctx_current());
    assert_null(ron_ctx_current()->task);
    assert_int_equal(ron_ctx_current()->event_count, count_before);
}

static void test_ctx__build__names_itself(void **state)
{
    (void)state;
    assert_true(strlen(ron_build_id()) > 0);
    assert_true(ron_version()[0] >= '0' && ron_version()[0] <= '9');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ctx__ring__keeps_the_newest_events),
        cmocka_unit_test(test_ctx__swap__moves_everything_to_the_new_context),
        cmocka_unit_test(test_ctx__long_thread_name__is_cut),
        cmocka_unit_test(test_ctx__threads__have_separate_contexts),
        cmocka_unit_test(test_ctx__build__names_itself),
    };

    return cmocka_run_group_tests_name("base.ctx", tests, NULL, NULL);
}
