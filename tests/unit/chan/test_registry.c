/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry.c - the list of everything that queues or runs.
 *
 * Goal: what exists is listed, completely and in the order of creation; nothing unnamed, doubled or
 *   undescribed gets in (K-65); the rows carry the metrics of the specification under their names,
 *   and the numbers are exact after each step (K-24, K-46, K-47, K-48).
 * Method: real channels for the numbers, bare entries for the rules of the list.
 */
#include "chan/chan_priv.h"
#include "unit/chan/fixture.h"

static struct ron_reg_row row_of(struct ron_registry *reg, const char *name)
{
    struct ron_reg_row row;

    for (size_t i = 0; ron_registry_rows(reg, i, &row, 1) == 1; i++) {
        if (strcmp(row.name, name) == 0) {
            return row;
        }
    }
    fail_msg("no row '%s'", name);
    return row;
}

static uint64_t sample(struct ron_registry *reg, const char *name, const char *metric, bool gauge)
{
    struct ron_reg_row row = row_of(reg, name);

    for (size_t i = 0; i < row.sample_count; i++) {
        if (strcmp(row.samples[i].metric, metric) == 0) {
            assert_string_equal(row.samples[i].label, "queue");
            assert_null(row.samples[i].label_value); /* the name of the row */
            assert_int_equal(row.samples[i].gauge, gauge);
            return row.samples[i].value;
        }
    }
    fail_msg("row '%s' has no sample %s", name, metric);
    return 0;
}

/* Metrics -------------------------------------------------------------------------------------- */

static void expect_samples(struct ron_registry *reg, uint64_t depth, uint64_t dropped,
                           uint64_t busy)
{
    assert_int_equal(sample(reg, "jobs", "queue_depth", true), depth);
    assert_int_equal(row_of(reg, "jobs").depth, depth);
    assert_int_equal(sample(reg, "jobs", "queue_dropped_total", false), dropped);
    assert_int_equal(sample(reg, "jobs", "busy_rejections_total", false), busy);
}

static void test_registry__reject_channel__depth_and_rejections_after_each_step(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);

    expect_samples(*state, 0, 0, 0);
    chan_put(c, 0, 1);
    expect_samples(*state, 1, 0, 0);
    chan_put(c, 1, 1);
    expect_samples(*state, 2, 0, 0);
    assert_int_equal(ron_chan_try_send(c, msg(2), NULL), RON_FULL);
    expect_samples(*state, 2, 0, 1);
    chan_expect(c, 0, 1);
    expect_samples(*state, 1, 0, 1);
    assert_true(ron_chan_close(c));
    assert_int_equal(ron_chan_try_send(c, msg(2), NULL), RON_CLOSED);
    expect_samples(*state, 1, 0, 1);
    assert_int_equal(sample(*state, "jobs", "queue_depth_max", true), 2);
    assert_int_equal(sample(*state, "jobs", "queue_sent_total", false), 2);
    assert_int_equal(sample(*state, "jobs", "queue_received_total", false), 1);
    assert_int_equal(sample(*state, "jobs", "queue_closed_sends_total", false), 1);
    ron_chan_free(c);
}

static void test_registry__lossy_channels__dropped_is_evicted_plus_refused_after_retry(void **state)
{
    struct ron_chan_opts opts = chan_opts(*state, RON_CHAN_DROP_OLDEST, 1);
    struct ron_chan_retry retry = {0};
    struct ron_chan *c = chan_with(&opts);
    struct fixed_env env;
    void *evicted = NULL;

    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_try_send(c, msg(1), &evicted), RON_OK);
    assert_int_equal(ron_chan_try_send(c, msg(2), &evicted), RON_OK);
    expect_samples(*state, 1, 2, 0);
    ron_chan_free(c);

    fixed_env_init(&env, 0);
    opts.policy = RON_CHAN_RETRY_ONCE;
    opts.env = &env.env;
    c = chan_with(&opts);
    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_AGAIN);
    expect_samples(*state, 1, 0, 0);
    assert_int_equal(sample(*state, "jobs", "queue_retries_total", false), 1);
    assert_int_equal(ron_chan_send_retry(c, msg(1), &retry), RON_FULL);
    expect_samples(*state, 1, 1, 1);
    ron_chan_free(c);
}

static void test_registry__wait_channel__timeouts_and_wakeups_counted(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 1);
    struct poller p;
    void *item = NULL;
    size_t n = 0;
    bool more = false;

    poller_init(&p);
    assert_int_equal(ron_chan_recv_poll(c, &p.node, &item, 1, &n, &more), RON_AGAIN);
    chan_put(c, 0, 1);
    assert_int_equal(sample(*state, "jobs", "queue_wakeups_total", false), 1);
    assert_int_equal(ron_chan_send(c, msg(1), deadline_past(), NULL), RON_TIMEOUT);
    assert_int_equal(sample(*state, "jobs", "queue_send_timeouts_total", false), 1);
    expect_samples(*state, 1, 0, 0);
    ron_chan_recv_forget(c, &p.node);
    ron_chan_free(c);
}

static void test_registry__every_queue__has_depth_drops_and_rejections(void **state)
{
    struct ron_chan *c[4];
    struct fixed_env env;
    size_t made = 0;
    static const char *const names[] = {"a", "b", "c", "d"};

    fixed_env_init(&env, 0);
    for (int policy = RON_CHAN_POLICY_UNSET + 1; policy < RON_CHAN_POLICY_COUNT; policy++) {
        struct ron_chan_opts opts = chan_opts(*state, (enum ron_chan_policy)policy, 3);

        opts.name = names[made];
        opts.env = &env.env;
        c[made++] = chan_with(&opts);
    }
    assert_int_equal(made, RON_ARRAY_LEN(c));
    for (size_t i = 0; i < made; i++) {
        (void)sample(*state, names[i], "queue_depth", true);
        (void)sample(*state, names[i], "queue_dropped_total", false);
        (void)sample(*state, names[i], "busy_rejections_total", false);
        ron_chan_free(c[i]);
    }
}

/* The list ------------------------------------------------------------------------------------- */

static void fill_nothing(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    (void)e;
    row->state = "running";
    row->depth = 3;
}

static struct ron_reg_desc desc(const char *name)
{
    return (struct ron_reg_desc){.name = name,
                                 .policy = "restart",
                                 .producers = "supervisor",
                                 .consumers = "worker",
                                 .drop = "drained",
                                 .capacity = 9};
}

static enum ron_rc add(struct ron_registry *reg, struct ron_reg_entry *e, enum ron_reg_kind kind,
                       const char *name, struct ron_err *err)
{
    struct ron_reg_desc d = desc(name);

    return ron_registry_add(reg, e, kind, &d, fill_nothing, err);
}

static void test_registry__objects_of_each_kind__listed_in_order_of_creation(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 5);
    struct ron_bus *b = bus_make(*state, 6);
    struct ron_watch *w = watch_make(*state, 0);
    struct ron_reg_entry task;
    struct ron_reg_row rows[8];

    assert_int_equal(add(*state, &task, RON_REG_TASK, "intake", NULL), RON_OK);
    assert_int_equal(ron_registry_count(*state), 4);
    assert_int_equal(ron_registry_rows(*state, 0, rows, 8), 4);
    assert_string_equal(rows[0].name, "jobs");
    assert_int_equal(rows[0].kind, RON_REG_QUEUE);
    assert_string_equal(rows[0].policy, "wait");
    assert_string_equal(rows[0].drop, "given to the test");
    assert_string_equal(rows[0].state, "open");
    assert_int_equal(rows[0].capacity, 5);
    assert_string_equal(rows[1].name, "events");
    assert_int_equal(rows[1].kind, RON_REG_BUS);
    assert_string_equal(rows[1].policy, "drop_oldest");
    assert_int_equal(rows[1].capacity, 6);
    assert_string_equal(rows[2].name, "shutdown");
    assert_int_equal(rows[2].kind, RON_REG_WATCH);
    assert_string_equal(rows[2].policy, "last_write_wins");
    assert_int_equal(rows[2].capacity, 1);
    assert_string_equal(rows[3].name, "intake");
    assert_int_equal(rows[3].kind, RON_REG_TASK);
    assert_string_equal(rows[3].state, "running");
    assert_string_equal(rows[3].producers, "supervisor");
    assert_int_equal(rows[3].depth, 3);
    /* In pages: each row once. */
    assert_int_equal(ron_registry_rows(*state, 0, rows, 3), 3);
    assert_int_equal(ron_registry_rows(*state, 3, rows, 3), 1);
    assert_string_equal(rows[0].name, "intake");
    assert_int_equal(ron_registry_rows(*state, 4, rows, 3), 0);
    /* One that leaves is listed no more, the others keep their order. */
    ron_bus_free(b);
    assert_int_equal(ron_registry_rows(*state, 0, rows, 8), 3);
    assert_string_equal(rows[1].name, "shutdown");
    assert_true(ron_chan_close(c));
    assert_string_equal(row_of(*state, "jobs").state, "closed");
    ron_registry_remove(*state, &task);
    ron_watch_free(w);
    ron_chan_free(c);
}

static void test_registry__name_doubled_within_a_kind__refused(void **state)
{
    struct ron_reg_entry a;
    struct ron_reg_entry b;
    struct ron_reg_entry other_kind;
    struct ron_err err = {0};

    assert_int_equal(add(*state, &a, RON_REG_TASK, "intake", NULL), RON_OK);
    assert_int_equal(add(*state, &b, RON_REG_TASK, "intake", &err), RON_EXISTS);
    assert_string_equal(err.msg, "task 'intake' exists already");
    assert_int_equal(add(*state, &other_kind, RON_REG_WORKER, "intake", NULL), RON_OK);
    ron_registry_remove(*state, &a);
    assert_int_equal(add(*state, &b, RON_REG_TASK, "intake", NULL), RON_OK);
    ron_registry_remove(*state, &b);
    ron_registry_remove(*state, &other_kind);
}

static void test_registry__bad_text__refused_and_named(void **state)
{
    static const char *const bad_names[] = {"",
                                            "A",
                                            "a b",
                                            "a/b",
                                            "\xc3\xa4",
                                            "a\"b",
                                            "a-name-of-forty-eight-characters-is-one-too-long"};
    static const char *const bad_texts[] = {"", "a|b", "a\"b", "a\\b", "a\nb", "\xc3\xa4", "\x7f"};
    static const char *const fields[] = {"policy", "producers", "consumers", "drop"};
    char long_text[RON_REG_TEXT_MAX + 2];
    struct ron_reg_entry e;

    for (size_t i = 0; i < RON_ARRAY_LEN(bad_names); i++) {
        assert_int_equal(add(*state, &e, RON_REG_TASK, bad_names[i], NULL), RON_INVALID);
    }
    (void)memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    for (size_t field = 0; field < RON_ARRAY_LEN(fields); field++) {
        for (size_t i = 0; i <= RON_ARRAY_LEN(bad_texts) + 1; i++) {
            struct ron_reg_desc d = desc("intake");
            const char **slots[] = {&d.policy, &d.producers, &d.consumers, &d.drop};
            struct ron_err err = {0};
            char expected[64];

            *slots[field] = i < RON_ARRAY_LEN(bad_texts)    ? bad_texts[i]
                            : i == RON_ARRAY_LEN(bad_texts) ? long_text
                                                            : NULL;
            assert_int_equal(ron_registry_add(*state, &e, RON_REG_TASK, &d, fill_nothing, &err),
                             RON_INVALID);
            (void)snprintf(expected, sizeof(expected), "task 'intake': '%s' must be",
                           fields[field]);
            assert_non_null(strstr(err.msg, expected));
        }
    }
    assert_int_equal(ron_registry_count(*state), 0);

    /* The longest that is good. */
    long_text[RON_REG_TEXT_MAX] = '\0';
    struct ron_reg_desc d = desc("a-name-of-forty-seven-characters-is-just-enough");
    d.drop = long_text;
    assert_int_equal(ron_registry_add(*state, &e, RON_REG_TASK, &d, fill_nothing, NULL), RON_OK);
    assert_string_equal(row_of(*state, d.name).drop, long_text);
    ron_registry_remove(*state, &e);
}

static void test_registry__full__limit(void **state)
{
    static struct ron_reg_entry e[RON_REG_ENTRIES_MAX + 1];
    static char names[RON_REG_ENTRIES_MAX + 1][8];
    struct ron_err err = {0};

    for (size_t i = 0; i <= RON_REG_ENTRIES_MAX; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%zu", i);
    }
    for (size_t i = 0; i < RON_REG_ENTRIES_MAX; i++) {
        assert_int_equal(add(*state, &e[i], RON_REG_TASK, names[i], NULL), RON_OK);
    }
    assert_int_equal(
        add(*state, &e[RON_REG_ENTRIES_MAX], RON_REG_TASK, names[RON_REG_ENTRIES_MAX], &err),
        RON_LIMIT);
    assert_string_equal(err.msg, "task 't1024': the registry is full");
    for (size_t i = 0; i < RON_REG_ENTRIES_MAX; i++) {
        ron_registry_remove(*state, &e[i]);
    }
}

static void free_with_an_entry(void *arg)
{
    struct ron_reg_entry e;

    RON_ASSERT(add(arg, &e, RON_REG_TASK, "forgotten", NULL) == RON_OK);
    ron_registry_free(arg);
}

static void test_registry__freed_with_an_entry__asserts(void **state)
{
    support_death(free_with_an_entry, *state, "registry freed with 1 entries");
}

static void test_registry__kinds__have_names(void **state)
{
    static const char *const names[RON_REG_KIND_COUNT] = {"queue", "bus", "watch", "task",
                                                          "worker"};

    (void)state;
    for (int i = 0; i < RON_REG_KIND_COUNT; i++) {
        assert_string_equal(ron_reg_kind_name((enum ron_reg_kind)i), names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_registry__reject_channel__depth_and_rejections_after_each_step),
        CASE(test_registry__lossy_channels__dropped_is_evicted_plus_refused_after_retry),
        CASE(test_registry__wait_channel__timeouts_and_wakeups_counted),
        CASE(test_registry__every_queue__has_depth_drops_and_rejections),
        CASE(test_registry__objects_of_each_kind__listed_in_order_of_creation),
        CASE(test_registry__name_doubled_within_a_kind__refused),
        CASE(test_registry__bad_text__refused_and_named),
        CASE(test_registry__full__limit),
        CASE(test_registry__freed_with_an_entry__asserts),
        CASE(test_registry__kinds__have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
