/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - log lines: bytes, redaction, repeats, the queue.
 *
 * Goal: every line is one line of exactly the documented form, whatever the values; no secret is in
 *   it; a writer that is stuck holds up nobody and costs only counted lines.
 * Method: a writer that keeps the lines, a clock of the test's own; the strict scanner of base
 *   reads what comes out of random bytes, and Python in tests/system/60-obs.py.
 */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/ctx.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

enum { KEPT_MAX = 4096 };

static struct sink {
    struct ron_mutex mu;
    struct ron_cond changed;
    size_t count;
    char *lines[KEPT_MAX];
    bool stuck;
    bool waiting; /* a write is being held */
    enum ron_rc rc;
} sink;

static uint64_t clock_ns;

static uint64_t mono(void *ctx)
{
    (void)ctx;
    return clock_ns;
}

static uint64_t wall(void *ctx)
{
    (void)ctx;
    return UINT64_C(1709210096789); /* 2024-02-29, a leap day */
}

static uint64_t plain_rand(const struct ron_env *env)
{
    (void)env;
    return 42;
}

static const struct ron_env env = {.clock = {mono, wall, NULL}, .rand_u64 = plain_rand};

static enum ron_rc keep(void *arg, const char *line, size_t len)
{
    (void)arg;
    ron_mutex_lock(&sink.mu);
    while (sink.stuck) {
        sink.waiting = true;
        ron_cond_broadcast(&sink.changed);
        (void)ron_cond_wait_until(&sink.changed, &sink.mu, ron_deadline_never());
    }
    sink.waiting = false;
    if (sink.count < KEPT_MAX && sink.rc == RON_OK) {
        char *copy = malloc(len + 1);

        memcpy(copy, line, len);
        copy[len] = '\0';
        sink.lines[sink.count++] = copy;
    }
    ron_mutex_unlock(&sink.mu);
    return sink.rc;
}

static struct ron_registry *reg;

static struct ron_log *open_log(enum ron_log_format format, uint32_t capacity)
{
    struct ron_log *log = NULL;

    assert_int_equal(ron_registry_new(&reg, NULL), RON_OK);
    assert_int_equal(ron_log_new(&(struct ron_log_opts){.env = &env,
                                                        .registry = reg,
                                                        .service = "wallet",
                                                        .format = format,
                                                        .level = RON_LOG_INFO,
                                                        .write = keep,
                                                        .queue_capacity = capacity},
                                 &log, NULL),
                     RON_OK);
    return log;
}

static int setup(void **state)
{
    (void)state;
    memset(&sink, 0, sizeof sink);
    ron_mutex_init(&sink.mu, RON_RANK_LEAF, "sink");
    ron_cond_init(&sink.changed);
    clock_ns = 5 * RON_NS_PER_S;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sink.count; i++) {
        free(sink.lines[i]);
    }
    ron_cond_done(&sink.changed);
    ron_mutex_done(&sink.mu);
    return 0;
}

static void close_log(struct ron_log *log)
{
    ron_log_free(log);
    ron_registry_free(reg);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const struct ron_trace_ctx trace = {
    .trace_id = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e,
                 0x47, 0x36},
    .span_id = {0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7},
};

static void write_all_types(struct ron_log *log)
{
    struct ron_err err = {0};
    struct ron_secret token = {0};
    const char *task = ron_ctx_set_task("committer");

    (void)ron_err_set_at(&err, "f", RON_IO, 0, "disk \"gone\"");
    assert_int_equal(ron_secret_set(&token, "very secret", 11), RON_OK);
    RON_LOG(log, WARN, "all types", RON_LOG_STR("text", "a b\x1b\n\xc2\x9b"),
            RON_LOG_STR("none", NULL), RON_LOG_SLICE("slice", ((struct ron_str){"abcdef", 3})),
            RON_LOG_U64("u", UINT64_MAX), RON_LOG_I64("i", -5), RON_LOG_BOOL("b", true),
            RON_LOG_ERR(&err), RON_LOG_CORR(((struct ron_str){"01HX", 4})), RON_LOG_TRACE(&trace),
            RON_LOG_SECRET("key", &token), RON_LOG_SECRET_HASH("cap", &token));
    (void)ron_ctx_set_task(task);
    ron_secret_done(&token);
}

static void test_log__each_type_as_json__exact_line(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);

    (void)state;
    write_all_types(log);
    assert_int_equal(sink.count, 1);
    assert_string_equal(
        sink.lines[0],
        "{\"ts\":\"2024-02-29T12:34:56.789Z\",\"level\":\"warn\",\"service\":\"wallet\","
        "\"task\":\"committer\",\"msg\":\"all types\",\"text\":\"a b\\u001b\\n\xc2\x9b\","
        "\"none\":null,\"slice\":\"abc\",\"u\":18446744073709551615,\"i\":-5,\"b\":true,"
        "\"rc\":\"RON_IO\",\"error\":\"disk \\\"gone\\\"\",\"where\":\"f\",\"corr_id\":\"01HX\","
        "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"span_id\":\"00f067aa0ba902b7\","
        "\"key\":\"[redacted]\",\"cap\":\"b3:825a9c9f\"}\n");
    close_log(log);
}

static void test_log__each_type_as_text__exact_line(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_TEXT, 0);

    (void)state;
    write_all_types(log);
    assert_int_equal(sink.count, 1);
    assert_string_equal(
        sink.lines[0],
        "2024-02-29T12:34:56.789Z WARN  wallet/committer: all types text=\"a "
        "b\\x1b\\n\\xc2\\x9b\" none=null slice=abc u=18446744073709551615 i=-5 b=true rc=RON_IO "
        "error=\"disk \\\"gone\\\"\" corr_id=01HX trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
        "span_id=00f067aa0ba902b7 key=[redacted] cap=b3:825a9c9f\n");
    close_log(log);
}

static void test_log__secret_in_a_text_field__redacted_all_the_same(void **state)
{
    static const char *const keys[] = {"password", "Authorization", "cap_token", "set-cookie",
                                       "webhook_secret"};
    static const char *const values[] = {
        "Basic hunter2", "Authorization: x hunter2", "https://example.org/?a=1&Token=hunter2",
        "see https://bob:hunter2@example.org/x", "sent bearer hunter2"};
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(values); i++) {
        clock_ns += 2 * RON_NS_PER_S;
        RON_LOG(log, WARN, "text", RON_LOG_STR("value", values[i]));
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(keys); i++) {
        clock_ns += 2 * RON_NS_PER_S;
        RON_LOG(log, WARN, "text", RON_LOG_STR(keys[i], "hunter2"));
    }
    RON_LOG(log, WARN, "header", RON_LOG_STR("value", "Bearer hunter2"));
    RON_LOG(log, WARN, "header", RON_LOG_SLICE("value", ((struct ron_str){"bEARER hunter2", 14})));
    assert_int_equal(sink.count, RON_ARRAY_LEN(values) + RON_ARRAY_LEN(keys) + 2);
    for (size_t i = 0; i < sink.count; i++) {
        assert_null(strstr(sink.lines[i], "hunter2"));
        assert_non_null(strstr(sink.lines[i], "[redacted]"));
    }
    clock_ns += 2 * RON_NS_PER_S;
    RON_LOG(log, WARN, "text", RON_LOG_STR("value", "the basic rate of https://example.org/a@b"));
    assert_non_null(strstr(sink.lines[sink.count - 1], "basic rate of https://example.org/a@b"));
    close_log(log);
}

static void test_log__random_bytes__always_one_line_and_json(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);
    struct ron_log *text_log = NULL;
    char bytes[3000];

    (void)state;
    ron_log_free(log);
    for (int i = 0; i < 600; i++) {
        size_t len = ron_rand_below(&rand, sizeof bytes);
        size_t half = len / 2;
        bool json = i % 2 == 0;

        ron_rand_bytes(&rand, bytes, len);
        assert_int_equal(
            ron_log_new(&(struct ron_log_opts){.env = &env,
                                               .registry = reg,
                                               .service = "wallet",
                                               .format = json ? RON_LOG_AS_JSON : RON_LOG_AS_TEXT,
                                               .level = RON_LOG_INFO,
                                               .write = keep},
                        &text_log, NULL),
            RON_OK);
        RON_LOG(text_log, INFO, "random", RON_LOG_SLICE("a", ((struct ron_str){bytes, half})),
                RON_LOG_SLICE("b", ((struct ron_str){bytes + half, len - half})),
                RON_LOG_U64("last", 7));
        ron_log_free(text_log);
        assert_int_equal(sink.count, i + 1);
        assert_true(strlen(sink.lines[i]) <= RON_LOG_LINE_MAX);
        assert_ptr_equal(strchr(sink.lines[i], '\n'), sink.lines[i] + strlen(sink.lines[i]) - 1);
        if (json) {
            struct ron_json_error error;

            assert_int_equal(ron_json_check(sink.lines[i], strlen(sink.lines[i]), &error), RON_OK);
            assert_true(strstr(sink.lines[i], ",\"last\":7}\n") != NULL ||
                        strstr(sink.lines[i], ",\"cut\":true}\n") != NULL);
        }
    }
    ron_registry_free(reg);
}

static void test_log__more_than_a_line_holds__cut_and_marked(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);
    char large[2000];

    (void)state;
    memset(large, 1, sizeof large); /* six bytes each when escaped */
    RON_LOG(log, INFO, "large", RON_LOG_SLICE("a", ((struct ron_str){large, sizeof large})),
            RON_LOG_SLICE("b", ((struct ron_str){large, sizeof large})), RON_LOG_U64("c", 1));
    assert_non_null(strstr(sink.lines[0], "\"a\":\""));
    assert_null(strstr(sink.lines[0], "\"b\":"));
    assert_string_equal(sink.lines[0] + strlen(sink.lines[0]) - 14, "\",\"cut\":true}\n");
    close_log(log);
}

/* ---- levels and repeats ---------------------------------------------------------------------- */

static void test_log__level_changed_at_run_time__obeyed(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_TEXT, 0);

    (void)state;
    RON_LOG_TEXT(log, DEBUG, "one");
    ron_log_set_level(log, RON_LOG_DEBUG);
    RON_LOG_TEXT(log, DEBUG, "two");
    ron_log_set_level(log, RON_LOG_ERROR);
    RON_LOG_TEXT(log, WARN, "three");
    RON_LOG_TEXT(log, ERROR, "four");
    RON_LOG_TEXT(NULL, ERROR, "nobody listens");
    assert_int_equal(sink.count, 2);
    assert_non_null(strstr(sink.lines[0], "two"));
    assert_non_null(strstr(sink.lines[1], "four"));
    close_log(log);
}

static void storm(struct ron_log *log, int n)
{
    for (int i = 0; i < n; i++) {
        RON_LOG(log, WARN, "storm", RON_LOG_I64("i", i));
    }
}

static void test_log__message_repeats__burst_passes_and_the_rest_is_told(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);

    (void)state;
    storm(log, 1000);
    RON_LOG_TEXT(log, WARN, "another message is not held up");
    assert_int_equal(sink.count, RON_LOG_BURST + 1);
    clock_ns += RON_NS_PER_S;
    storm(log, 2);
    assert_int_equal(sink.count, RON_LOG_BURST + 3);
    assert_non_null(strstr(sink.lines[RON_LOG_BURST + 1], "\"msg\":\"storm\",\"repeated\":990,"));
    assert_null(strstr(sink.lines[RON_LOG_BURST + 2], "repeated"));
    close_log(log);
}

static void test_log__storm_ends__thread_tells_what_was_left_out(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_TEXT, 0);
    struct ron_metrics *m = NULL;
    struct ron_buf out;

    (void)state;
    assert_int_equal(ron_log_start(log, NULL), RON_OK);
    storm(log, 50);
    ron_log_stop(log); /* at the latest then */
    assert_int_equal(sink.count, RON_LOG_BURST + 1);
    assert_non_null(strstr(sink.lines[RON_LOG_BURST], ": storm (repeated 40 times)\n"));
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_collect_log(m, log, NULL), RON_OK);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\nlog_lines_total{level=\"warn\"} 11\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\nlog_suppressed_total 40\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\nlog_write_errors_total 0\n"));
    ron_buf_done(&out);
    ron_metrics_free(m);
    close_log(log);
}

/* ---- queue ----------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 2000 };

static void write_many(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        ron_log_write(arg, RON_LOG_INFO, i % 2 == 0 ? "even" : "odd", &RON_LOG_I64("i", i), 1);
    }
}

static void test_log__four_threads__every_line_written_or_counted(void **state)
{
    struct ron_thread *threads[THREADS] = {NULL};
    struct ron_log *log = open_log(RON_LOG_AS_JSON, 0);
    uint64_t told = 0;

    (void)state;
    assert_int_equal(ron_log_start(log, NULL), RON_OK);
    for (int i = 0; i < THREADS; i++) {
        struct ron_thread_opts o = {
            .name = "w", .may_block = false, .main = write_many, .arg = log};
        assert_int_equal(ron_thread_start(&o, &threads[i], NULL), RON_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        ron_thread_join(threads[i]);
    }
    ron_log_stop(log);
    for (size_t i = 0; i < sink.count; i++) {
        const char *at = strstr(sink.lines[i], "\"repeated\":");

        told += at != NULL ? strtoull(at + 11, NULL, 10) : 0;
        told += strstr(sink.lines[i], "\"i\":") != NULL; /* not the mere summary */
    }
    assert_int_equal(told, THREADS * EACH);
    close_log(log);
}

static void release(void)
{
    ron_mutex_lock(&sink.mu);
    sink.stuck = false;
    ron_cond_broadcast(&sink.changed);
    ron_mutex_unlock(&sink.mu);
}

static void test_log__writer_stuck__oldest_lines_lost_and_counted(void **state)
{
    static const char *const messages[] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"};
    struct ron_log *log = open_log(RON_LOG_AS_TEXT, 4);
    struct ron_reg_row row;

    (void)state;
    sink.stuck = true;
    assert_int_equal(ron_log_start(log, NULL), RON_OK);
    ron_log_write(log, RON_LOG_INFO, messages[0], NULL, 0);
    ron_mutex_lock(&sink.mu);
    while (!sink.waiting) {
        (void)ron_cond_wait_until(&sink.changed, &sink.mu, ron_deadline_never());
    }
    ron_mutex_unlock(&sink.mu);
    for (int i = 1; i <= 8; i++) { /* returns at once, although nothing can be written */
        ron_log_write(log, RON_LOG_INFO, messages[i], NULL, 0);
    }
    assert_int_equal(ron_registry_rows(reg, 0, &row, 1), 1);
    assert_string_equal(row.samples[4].metric, "queue_dropped_total");
    assert_int_equal(row.samples[4].value, 4);
    release();
    ron_log_stop(log);
    assert_int_equal(sink.count, 5);
    assert_non_null(strstr(sink.lines[0], ": m0\n"));
    assert_non_null(strstr(sink.lines[1], ": m5\n"));
    assert_non_null(strstr(sink.lines[4], ": m8\n"));
    RON_LOG_TEXT(log, INFO, "after the end, written directly");
    assert_int_equal(sink.count, 6);
    close_log(log);
}

static void test_log__supervisor_events__told_with_level_and_task(void **state)
{
    struct ron_log *log = open_log(RON_LOG_AS_TEXT, 0);

    (void)state;
    ron_log_sup_event(
        log, &(struct ron_sup_event){.kind = RON_SUP_EVENT_STATE, .state = RON_SUP_DRAINING});
    ron_log_sup_event(log, &(struct ron_sup_event){.kind = RON_SUP_EVENT_RESTARTING,
                                                   .task = "worker-1",
                                                   .task_kind = "worker",
                                                   .rc = RON_IO,
                                                   .delay_ms = 120,
                                                   .message = "no disk"});
    assert_int_equal(sink.count, 2);
    assert_non_null(strstr(sink.lines[0], "INFO  wallet: the supervisor entered a state "
                                          "state=draining\n"));
    assert_non_null(strstr(sink.lines[1], " WARN  wallet: a failed task will be started again"));
    assert_non_null(strstr(sink.lines[1], "name=worker-1 kind=worker rc=RON_IO delay_ms=120 "
                                          "error=\"no disk\"\n"));
    close_log(log);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_log__each_type_as_json__exact_line),
        CASE(test_log__each_type_as_text__exact_line),
        CASE(test_log__secret_in_a_text_field__redacted_all_the_same),
        CASE(test_log__random_bytes__always_one_line_and_json),
        CASE(test_log__more_than_a_line_holds__cut_and_marked),
        CASE(test_log__level_changed_at_run_time__obeyed),
        CASE(test_log__message_repeats__burst_passes_and_the_rest_is_told),
        CASE(test_log__storm_ends__thread_tells_what_was_left_out),
        CASE(test_log__four_threads__every_line_written_or_counted),
        CASE(test_log__writer_stuck__oldest_lines_lost_and_counted),
        CASE(test_log__supervisor_events__told_with_level_and_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
