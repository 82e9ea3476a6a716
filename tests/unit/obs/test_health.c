/* SPDX-License-Identifier: Apache-2.0 */
/* test_health.c - needs, their bodies, and their union with the supervisor's state.
 *
 * Goal: the bodies are exactly those of docs/formats/ops.md; a probe sees one whole state of a need
 *   while it is being set, and takes no lock.
 * Method: exact comparison; a writer thread that alternates two states while the reader checks that
 *   text, state and retry belong together (run under the thread sanitizer too).
 */
#include "support/support.h"

#include "ron/obs/health.h"
#include "unit/task/fixture.h"

static struct ron_need *add(struct ron_needs *c, const char *key, bool reads)
{
    struct ron_need *need = NULL;

    assert_int_equal(ron_needs_add(c, key, reads, &need, NULL), RON_OK);
    return need;
}

static void expect_ready(struct ron_needs *c, bool reads, bool ready, const char *body)
{
    struct ron_readiness r = {0};
    struct ron_buf out;

    ron_buf_init(&out, RON_READY_BODY_MAX);
    ron_needs_write_ready(c, reads, &out, &r);
    assert_string_equal(ron_buf_text(&out), body);
    assert_int_equal(r.ready, ready);
    ron_buf_done(&out);
}

static void test_health__needs_change__body_says_which_and_why(void **state)
{
    struct ron_needs *c = NULL;
    struct ron_need *ledger;
    struct ron_need *cache;

    (void)state;
    assert_int_equal(ron_needs_new(NULL, &c, NULL), RON_OK);
    ledger = add(c, "ledger_reachable", false);
    cache = add(c, "cache", true);
    expect_ready(c, false, true,
                 "{\"ready\":true,\"degraded\":false,\"missing\":[],\"retry_after\":0}");
    ron_need_set(cache, RON_NEED_DEGRADED, "cold \"start\"\n", 9);
    expect_ready(c, false, true,
                 "{\"ready\":true,\"degraded\":true,\"missing\":[],\"retry_after\":0,"
                 "\"causes\":{\"cache\":\"cold \\\"start\\\"\\n\"}}");
    ron_need_set(ledger, RON_NEED_MISSING, "breaker open", 5);
    expect_ready(c, false, false,
                 "{\"ready\":false,\"degraded\":true,\"missing\":[\"ledger_reachable\"],"
                 "\"retry_after\":5,\"causes\":{\"ledger_reachable\":\"breaker open\","
                 "\"cache\":\"cold \\\"start\\\"\\n\"}}");
    ron_need_set(cache, RON_NEED_OK, NULL, 0);
    expect_ready(c, true, true, /* reads do not need the ledger */
                 "{\"ready\":true,\"degraded\":false,\"missing\":[],\"retry_after\":0}");
    ron_need_set(ledger, RON_NEED_MISSING, NULL, 0);
    expect_ready(c, false, false,
                 "{\"ready\":false,\"degraded\":true,\"missing\":[\"ledger_reachable\"],"
                 "\"retry_after\":1,\"causes\":{\"ledger_reachable\":\"\"}}");
    ron_needs_free(c);
}

static void test_health__long_cause__cut_at_a_character(void **state)
{
    struct ron_needs *c = NULL;
    char cause[256];
    char body[512];

    (void)state;
    assert_int_equal(ron_needs_new(NULL, &c, NULL), RON_OK);
    memset(cause, 'x', 126);
    (void)snprintf(cause + 126, sizeof cause - 126, "\xc3\xa9 and more");
    ron_need_set(add(c, "k", true), RON_NEED_DEGRADED, cause, 0);
    (void)snprintf(body, sizeof body,
                   "{\"ready\":true,\"degraded\":true,\"missing\":[],\"retry_after\":0,"
                   "\"causes\":{\"k\":\"%.126s\"}}",
                   cause);
    expect_ready(c, false, true, body);
    ron_needs_free(c);
}

static void test_health__bad_need__refused(void **state)
{
    static char keys[RON_NEEDS_MAX][8];
    struct ron_need *need = NULL;
    struct ron_needs *c = NULL;

    (void)state;
    assert_int_equal(ron_needs_new(NULL, &c, NULL), RON_OK);
    assert_int_equal(ron_needs_add(c, "", true, &need, NULL), RON_INVALID);
    assert_int_equal(ron_needs_add(c, "a\"b", true, &need, NULL), RON_INVALID);
    for (int i = 0; i < RON_NEEDS_MAX; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
        (void)add(c, keys[i], true);
    }
    assert_int_equal(ron_needs_add(c, "k1", true, &need, NULL), RON_EXISTS);
    assert_int_equal(ron_needs_add(c, "more", true, &need, NULL), RON_LIMIT);
    assert_null(need);
    ron_needs_free(c);
}

/* ---- set while read -------------------------------------------------------------------------- */

enum { CHANGES = 20000 };

struct flip {
    struct ron_need *need;
    struct ron_au32 done;
};

static const char *const causes[2] = {
    "a first cause, long enough for several words of the text that is published",
    "another cause, also long enough, and of quite a different length than the first one is",
};

static void flip_main(void *arg)
{
    struct flip *f = arg;

    for (uint32_t i = 0; i < CHANGES; i++) {
        ron_need_set(f->need, RON_NEED_MISSING, causes[i % 2], 10 + i % 2);
    }
    ron_au32_store(&f->done, 1);
}

static void test_health__set_while_read__one_whole_state(void **state)
{
    struct ron_needs *c = NULL;
    struct ron_thread *t = NULL;
    struct flip f = {0};
    uint64_t whole = 0;
    char wanted[2][256];

    (void)state;
    assert_int_equal(ron_needs_new(NULL, &c, NULL), RON_OK);
    f.need = add(c, "k", true);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(wanted[i], sizeof wanted[i], "\"retry_after\":%d,\"causes\":{\"k\":\"%s\"}}",
                       10 + i, causes[i]);
    }
    ron_need_set(f.need, RON_NEED_MISSING, causes[1], 11);
    assert_int_equal(ron_thread_start(
                         &(struct ron_thread_opts){
                             .name = "flip", .may_block = true, .main = flip_main, .arg = &f},
                         &t, NULL),
                     RON_OK);
    do {
        struct ron_readiness r;
        struct ron_buf out;
        const char *text;
        bool found;

        ron_buf_init(&out, RON_READY_BODY_MAX);
        ron_needs_write_ready(c, false, &out, &r);
        text = ron_buf_text(&out);
        found = strstr(text, wanted[0]) != NULL || strstr(text, wanted[1]) != NULL;
        assert_true(found || strstr(text, "\"k\":\"changing\"") != NULL);
        whole += found;
        ron_buf_done(&out);
    } while (ron_au32_load(&f.done) == 0);
    assert_true(whole > 0);
    ron_thread_join(t);
    ron_needs_free(c);
}

/* ---- with a supervisor ----------------------------------------------------------------------- */

struct seen {
    struct ron_needs *needs;
    struct ron_au32 draining_refused; /* probes in the drain that said not ready */
};

static void probe(struct fx *fx, const struct ron_sup_event *event)
{
    struct seen *seen = fx->arg;
    struct ron_readiness r;
    struct ron_buf out;

    if (event->kind != RON_SUP_EVENT_STATE || event->state != RON_SUP_DRAINING) {
        return;
    }
    ron_buf_init(&out, RON_READY_BODY_MAX);
    ron_needs_write_ready(seen->needs, true, &out, &r);
    if (!r.ready && strstr(ron_buf_text(&out), "\"missing\":[\"draining\"]") != NULL) {
        (void)ron_au32_add(&seen->draining_refused, 1);
    }
    ron_buf_done(&out);
}

static enum ron_rc idle_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static bool is_ready(struct fx *fx)
{
    struct ron_health health;

    ron_sup_health(fx->sup, &health);
    return health.ready;
}

static void test_health__drain_begins__not_ready_at_once(void **state)
{
    struct fx *fx = fx_open(1);
    struct seen seen = {0};

    (void)state;
    fx->hook = probe;
    fx->arg = &seen;
    assert_int_equal(ron_needs_new(fx->sup, &seen.needs, NULL), RON_OK);
    expect_ready(seen.needs, false, false,
                 "{\"ready\":false,\"degraded\":true,\"missing\":[\"starting\"],\"retry_after\":1,"
                 "\"causes\":{\"starting\":\"new\"}}");
    (void)fx_add(
        fx, &(struct ron_task_def){
                .name = "idle", .kind = "worker", .worker = RON_WORKER_ANY, .handle = idle_handle});
    fx_start(fx);
    fx_until(is_ready(fx));
    expect_ready(seen.needs, false, true,
                 "{\"ready\":true,\"degraded\":false,\"missing\":[],\"retry_after\":0}");
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(ron_au32_load(&seen.draining_refused), 1);
    ron_needs_free(seen.needs);
    assert_true(fx_close(fx));
}

static enum ron_rc failing_start(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return RON_IO;
}

static void test_health__essential_task_gives_up__unhealthy_with_its_name(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_metrics *m = NULL;
    struct ron_needs *needs = NULL;
    struct ron_buf out;

    (void)state;
    assert_int_equal(ron_needs_new(fx->sup, &needs, NULL), RON_OK);
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_collect_needs(m, needs, NULL), RON_OK);
    (void)fx_add(fx,
                 &(struct ron_task_def){.name = "committer",
                                        .kind = "worker",
                                        .worker = RON_WORKER_ANY,
                                        .restart = {.when = RON_RESTART_NEVER, .essential = true},
                                        .start = failing_start,
                                        .handle = idle_handle});
    fx_start(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_FATAL);
    ron_buf_init(&out, RON_READY_BODY_MAX);
    assert_false(ron_needs_write_health(needs, &out));
    assert_string_equal(ron_buf_text(&out),
                        "{\"ok\":false,\"state\":\"stopped\",\"causes\":{\"draining\":"
                        "\"stopped\",\"committer\":\"the task is down\"}}");
    ron_buf_clear(&out);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\nhealth_ready 0\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\nreadyz_degraded{cause=\"committer\"} 1\n"));
    ron_buf_done(&out);
    ron_metrics_free(m);
    ron_needs_free(needs);
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health__needs_change__body_says_which_and_why),
        cmocka_unit_test(test_health__long_cause__cut_at_a_character),
        cmocka_unit_test(test_health__bad_need__refused),
        cmocka_unit_test(test_health__set_while_read__one_whole_state),
        cmocka_unit_test(test_health__drain_begins__not_ready_at_once),
        cmocka_unit_test(test_health__essential_task_gives_up__unhealthy_with_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
