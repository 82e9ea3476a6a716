/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the registry keeps its rules U1-U4: one run of an epoch, copies, a bound, every waiting
 * reply handed out once.
 * Method: the calls one by one. Replies are addresses that nobody looks at. */
#include "support/support.h"

#include "rewarder/core/runs.h"

static struct rwd_runs *runs;
static char replies[RWD_WAITERS_MAX + 1];

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static struct ron_b3 key(uint8_t n)
{
    struct ron_b3 k = {{0}};

    k.bytes[0] = n;
    return k;
}

static struct ron_http_reply *reply(size_t n)
{
    return (struct ron_http_reply *)(void *)&replies[n];
}

static struct rwd_live *begin(const char *epoch, uint8_t n, bool dry)
{
    struct ron_b3 k = key(n);
    struct rwd_live *live = NULL;

    assert_int_equal(rwd_runs_begin(runs, str(epoch), &k, dry, 7, &live), RON_OK);
    return live;
}

static enum ron_rc begin_fails(const char *epoch, uint8_t n, bool dry)
{
    struct ron_b3 k = key(n);
    struct rwd_live *live = NULL;
    enum ron_rc rc = rwd_runs_begin(runs, str(epoch), &k, dry, 7, &live);

    assert_null(live);
    return rc;
}

static size_t end(struct rwd_live *live, const char *manifest,
                  struct ron_http_reply *waiters[RWD_WAITERS_MAX])
{
    return rwd_runs_end(runs, live, &(struct rwd_fault){0}, str(manifest), waiters);
}

static int set_up(void **state)
{
    (void)state;
    return rwd_runs_new(3, &runs, NULL) == RON_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rwd_runs_free(runs);
    return 0;
}

static void test_runs__second_of_an_epoch__exists_or_conflicts(void **state)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_live *live = begin("e", 1, false);

    (void)state;
    assert_int_equal(begin_fails("e", 1, false), RON_EXISTS);
    assert_int_equal(begin_fails("e", 2, false), RON_CONFLICT);
    struct rwd_live *dry = begin("e", 2, true); /* beside it */

    assert_int_equal(begin_fails("e", 1, true), RON_CONFLICT);
    assert_int_equal(end(live, "{}", waiters), 0);
    assert_int_equal(end(dry, "{}", waiters), 0);
    live = begin("e", 2, false); /* the book decides whether it may */
    rwd_runs_undo(runs, live);
}

static void test_runs__all_under_way__full(void **state)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_live *a = begin("a", 1, false);
    struct rwd_live *b = begin("b", 1, false);
    struct rwd_live *c = begin("c", 1, false);
    struct rwd_view view;

    (void)state;
    assert_int_equal(begin_fails("d", 1, false), RON_FULL);
    (void)end(b, "B", waiters);
    (void)end(a, "A", waiters);
    struct rwd_live *d = begin("d", 1, false); /* the oldest that ended makes room */

    assert_int_equal(rwd_runs_get(runs, str("a"), false, &view, NULL), RON_NOTFOUND);
    assert_int_equal(rwd_runs_get(runs, str("b"), false, &view, NULL), RON_OK);
    assert_true(view.ended);
    assert_int_equal(rwd_runs_under_way(runs, &view, 1), 1);
    (void)end(c, "C", waiters);
    (void)end(d, "D", waiters);
    assert_int_equal(rwd_runs_under_way(runs, &view, 1), 0);
}

static void test_runs__replies_that_wait__handed_out_once(void **state)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_live *live = begin("e", 1, false);
    struct ron_b3 mine = key(1);
    struct ron_b3 other = key(2);

    (void)state;
    assert_int_equal(rwd_runs_wait(runs, str("e"), &other, false, reply(0)), RON_NOTFOUND);
    assert_int_equal(rwd_runs_wait(runs, str("e"), &mine, true, reply(0)), RON_NOTFOUND);
    for (size_t i = 0; i < RWD_WAITERS_MAX; i++) {
        assert_int_equal(rwd_runs_wait(runs, str("e"), &mine, false, reply(i)), RON_OK);
    }
    assert_int_equal(rwd_runs_wait(runs, str("e"), &mine, false, reply(RWD_WAITERS_MAX)), RON_FULL);
    assert_int_equal(end(live, "{}", waiters), RWD_WAITERS_MAX);
    for (size_t i = 0; i < RWD_WAITERS_MAX; i++) {
        assert_ptr_equal(waiters[i], reply(i));
    }
    assert_int_equal(rwd_runs_wait(runs, str("e"), &mine, false, reply(0)), RON_NOTFOUND);
}

static void test_runs__view__a_copy_with_the_manifest(void **state)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_live *live = begin("e", 1, false);
    char manifest[] = "manifest";
    struct rwd_view before;
    struct rwd_view after;
    struct ron_buf text;

    (void)state;
    ron_buf_init(&text, 64);
    ron_au64_store(&live->progress.rows_done, 5);
    assert_int_equal(rwd_runs_get(runs, str("e"), false, &before, &text), RON_OK);
    assert_int_equal(ron_buf_len(&text), 0);
    (void)end(live, manifest, waiters);
    manifest[0] = '?'; /* it has its own */
    assert_int_equal(rwd_runs_get(runs, str("e"), false, &after, &text), RON_OK);
    assert_string_equal(before.epoch, "e");
    assert_false(before.ended);
    assert_int_equal(before.rows_done, 5);
    assert_int_equal(before.began_ms, 7);
    assert_true(after.ended);
    assert_int_equal(ron_buf_len(&text), 8);
    assert_memory_equal(ron_buf_data(&text), "manifest", 8);
    ron_buf_done(&text);
}

static void test_runs__cancel_and_forget__only_what_they_name(void **state)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_live *a = begin("a", 1, false);
    struct rwd_live *b = begin("b", 1, false);
    struct rwd_view view;

    (void)state;
    rwd_runs_forget(runs, str("a")); /* under way: it stays */
    assert_int_equal(rwd_runs_get(runs, str("a"), false, &view, NULL), RON_OK);
    rwd_runs_cancel(runs);
    assert_int_equal(ron_au32_load(&a->progress.cancelled), 1);
    assert_int_equal(ron_au32_load(&b->progress.cancelled), 1);
    (void)end(a, "", waiters);
    (void)end(b, "", waiters);
    rwd_runs_forget(runs, str("a"));
    assert_int_equal(rwd_runs_get(runs, str("a"), false, &view, NULL), RON_NOTFOUND);
    assert_int_equal(rwd_runs_get(runs, str("b"), false, &view, NULL), RON_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs__second_of_an_epoch__exists_or_conflicts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_runs__all_under_way__full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_runs__replies_that_wait__handed_out_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_runs__view__a_copy_with_the_manifest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_runs__cancel_and_forget__only_what_they_name, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("rewarder.runs", tests, NULL, NULL);
}
