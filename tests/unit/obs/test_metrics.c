/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - registry of metrics: totals, bounds, text.
 *
 * Goal: nothing added is lost under threads and scrapes; bounds hold and are counted; the text is
 *   exactly what the format asks for.
 * Method: small registries; exact comparison of text; four threads adding while one scrapes (run
 *   under the thread sanitizer too).
 */
#include "support/support.h"

#include "obs/metrics_priv.h"
#include "ron/base/buf.h"
#include "ron/obs/collect.h"

static struct ron_metrics *fresh(uint32_t cells)
{
    struct ron_metrics *m = NULL;
    struct ron_metrics_opts opts = {.cells_max = cells};

    assert_int_equal(ron_metrics_new(&opts, &m, NULL), RON_OK);
    return m;
}

static struct ron_metric *declare(struct ron_metrics *m, struct ron_metric_def def)
{
    struct ron_metric *f = NULL;
    struct ron_err err = {0};

    assert_int_equal(ron_metrics_declare(m, &def, &f, &err), RON_OK);
    return f;
}

/* The lines about one metric, HELP and TYPE included. */
static void expect_text(struct ron_metrics *m, const char *name, const char *expected)
{
    static char found[65536];
    struct ron_buf out;
    size_t used = 0;

    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    for (const char *p = ron_buf_text(&out); *p != '\0';) {
        size_t len = strcspn(p, "\n") + 1;
        const char *key = strncmp(p, "# ", 2) == 0 ? p + 7 : p;

        if (strncmp(key, name, strlen(name)) == 0 && strchr(" {_", key[strlen(name)]) != NULL) {
            memcpy(found + used, p, len);
            used += len;
        }
        p += len;
    }
    found[used] = '\0';
    assert_string_equal(found, expected);
    ron_buf_done(&out);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void test_metrics__counter_and_gauge__text_is_exact(void **state)
{
    struct ron_metrics *m = fresh(0);
    struct ron_metric *c =
        declare(m, (struct ron_metric_def){
                       .name = "a_total", .help = "Back\\slash,\nnewline.", .labels = "x,y"});
    struct ron_metric *g =
        declare(m, (struct ron_metric_def){.name = "g", .help = "G.", .type = RON_METRIC_GAUGE});

    (void)state;
    ron_counter_add(ron_metric_series(c, "1", ""), 2);
    ron_counter_add(ron_metric_series(c, "quote\" back\\ line\n", "\x01\xff\xc3\xa9"), 3);
    ron_counter_add(ron_metric_series(c, "1", ""), 40);
    ron_gauge_set(ron_metric_only(g), 7);
    ron_gauge_add(ron_metric_only(g), -9);
    expect_text(m, "a_total",
                "# HELP a_total Back\\\\slash,\\nnewline.\n# TYPE a_total counter\n"
                "a_total{x=\"1\",y=\"\"} 42\n"
                "a_total{x=\"quote\\\" back\\\\ line\\n\",y=\"?\?\xc3\xa9\"} 3\n");
    expect_text(m, "g", "# HELP g G.\n# TYPE g gauge\ng -2\n");
    ron_metrics_free(m);
}

static void test_metrics__histogram__buckets_cumulated_and_in_seconds(void **state)
{
    static const uint64_t bounds[] = {1, 1500000, 2000000000};
    struct ron_metrics *m = fresh(0);
    struct ron_series *s =
        ron_metric_series(declare(m, (struct ron_metric_def){.name = "h_seconds",
                                                             .help = "H.",
                                                             .type = RON_METRIC_HISTOGRAM,
                                                             .unit = RON_METRIC_NS,
                                                             .labels = "op",
                                                             .bounds = bounds,
                                                             .bound_count = 3}),
                          "x");

    (void)state;
    ron_histogram_observe(s, 0);
    ron_histogram_observe(s, 1);
    ron_histogram_observe(s, 2);
    ron_histogram_observe(s, 1500000);
    ron_histogram_observe(s, 2000000001);
    expect_text(m, "h_seconds",
                "# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
                "h_seconds_bucket{op=\"x\",le=\"0.000000001\"} 2\n"
                "h_seconds_bucket{op=\"x\",le=\"0.0015\"} 4\n"
                "h_seconds_bucket{op=\"x\",le=\"2\"} 4\n"
                "h_seconds_bucket{op=\"x\",le=\"+Inf\"} 5\n"
                "h_seconds_sum{op=\"x\"} 2.001500004\n"
                "h_seconds_count{op=\"x\"} 5\n");
    ron_metrics_free(m);
}

static void twice(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);

    ron_scrape_add(sc, arg, 10, "b");
    ron_scrape_add(sc, arg, 5, "a");
    ron_scrape_add(sc, arg, 1, "b");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_REQUEST_LATENCY), 1, "no histogram here");
    ron_scrape_add(sc, ron_metrics_find(m, "unknown"), 1, "x");
}

static void test_metrics__collector_and_cells_share_a_family__one_line_each(void **state)
{
    struct ron_metrics *m = fresh(0);
    struct ron_metric *f =
        declare(m, (struct ron_metric_def){.name = "c_total", .help = "C.", .labels = "l"});

    (void)state;
    assert_int_equal(ron_metrics_collector(m, twice, f, NULL), RON_OK);
    ron_counter_add(ron_metric_series(f, "b"), 100);
    expect_text(m, "c_total",
                "# HELP c_total C.\n# TYPE c_total counter\nc_total{l=\"a\"} 5\n"
                "c_total{l=\"b\"} 111\n");
    expect_text(m, "metrics_samples_dropped_total",
                "# HELP metrics_samples_dropped_total Samples left out of a scrape: unknown name, "
                "or too many.\n# TYPE metrics_samples_dropped_total counter\n"
                "metrics_samples_dropped_total 4\n");
    ron_metrics_free(m);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void test_metrics__more_label_values_than_allowed__counted_in_other(void **state)
{
    struct ron_metrics *m = fresh(0);
    struct ron_metric *f = declare(
        m,
        (struct ron_metric_def){.name = "o_total", .help = "O.", .labels = "l", .series_max = 2});
    char value[RON_METRIC_VALUE_MAX + 2];

    (void)state;
    for (char c = 'a'; c < 'f'; c++) {
        char text[2] = {c, '\0'};
        ron_counter_add(ron_metric_series(f, text), 1);
    }
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    ron_counter_add(ron_metric_series(f, value), 1);
    expect_text(m, "o_total",
                "# HELP o_total O.\n# TYPE o_total counter\no_total{l=\"a\"} 1\n"
                "o_total{l=\"b\"} 1\no_total{l=\"other\"} 4\n");
    ron_metrics_free(m);
}

static void overflow_count(struct ron_metrics *m, uint64_t expected)
{
    char line[256];

    (void)snprintf(line, sizeof line,
                   "# HELP metrics_series_overflow_total Values that went to the series \"other\" "
                   "because the family was full.\n# TYPE metrics_series_overflow_total counter\n"
                   "metrics_series_overflow_total{metric=\"o_total\"} %d\n",
                   (int)expected);
    expect_text(m, "metrics_series_overflow_total", line);
}

static void test_metrics__no_cell_left__nothing_breaks_and_it_is_counted(void **state)
{
    struct ron_metrics *m = fresh(METRIC_TRASH + 1);
    struct ron_metric *f =
        declare(m, (struct ron_metric_def){.name = "o_total", .help = "O.", .labels = "l"});

    (void)state;
    ron_counter_add(ron_metric_series(f, "a"), 1);
    ron_counter_add(ron_metric_series(f, "b"), 1); /* not even "other" has a cell */
    ron_histogram_observe(ron_metric_series(ron_metrics_name(m, RON_M_REQUEST_LATENCY), "r", "GET"),
                          1);
    expect_text(m, "o_total", "# HELP o_total O.\n# TYPE o_total counter\no_total{l=\"a\"} 1\n");
    assert_int_equal(ron_stat_get(&f->overflow), 1);
    ron_metrics_free(m);
    m = fresh(0);
    f = declare(m, (struct ron_metric_def){
                       .name = "o_total", .help = "O.", .labels = "l", .series_max = 1});
    ron_counter_add(ron_metric_series(f, "a"), 1);
    ron_counter_add(ron_metric_series(f, "b"), 1);
    ron_counter_add(ron_metric_series(f, "b"), 1);
    overflow_count(m, 2);
    ron_metrics_free(m);
}

static void test_metrics__bad_declaration__refused_and_named(void **state)
{
    static const uint64_t falling[] = {2, 1};
    const struct {
        struct ron_metric_def def;
        enum ron_rc rc;
        const char *says;
    } rows[] = {
        {{.name = "Bad", .help = "x"}, RON_INVALID, "Bad"},
        {{.name = "9x", .help = "x"}, RON_INVALID, "9x"},
        {{.name = "", .help = "x"}, RON_INVALID, "name"},
        {{.name = "a", .help = ""}, RON_INVALID, "help"},
        {{.name = "a", .help = "x", .labels = "le"}, RON_INVALID, "le"},
        {{.name = "a", .help = "x", .labels = "a,,b"}, RON_INVALID, "a,,b"},
        {{.name = "a", .help = "x", .labels = "a,b,c,d,e"}, RON_LIMIT, "labels"},
        {{.name = "queue_depth", .help = "x"}, RON_EXISTS, "already"},
        {{.name = "h",
          .help = "x",
          .type = RON_METRIC_HISTOGRAM,
          .bounds = falling,
          .bound_count = 2},
         RON_INVALID,
         "rise"},
    };
    struct ron_metrics *m = fresh(0);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_metric *f = NULL;
        struct ron_err err = {0};

        assert_int_equal(ron_metrics_declare(m, &rows[i].def, &f, &err), rows[i].rc);
        assert_non_null(strstr(err.msg, rows[i].says));
        assert_null(f);
    }
    ron_metrics_free(m);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ADDERS = 4, ADDS = 200000 };

struct adders {
    struct ron_metrics *m;
    struct ron_series *counter;
    struct ron_series *gauge;
    struct ron_series *hist;
    struct ron_au32 done;
};

static void add_many(void *arg)
{
    struct adders *a = arg;

    for (uint32_t i = 0; i < ADDS; i++) {
        ron_counter_add(a->counter, 1);
        ron_gauge_add(a->gauge, i % 2 == 0 ? 3 : -2);
        ron_histogram_observe(a->hist, i);
    }
    (void)ron_au32_add(&a->done, 1);
}

/* One scrape: the counter never falls, and the count of the histogram is its last bucket. */
static uint64_t look(struct adders *a, uint64_t before)
{
    uint64_t bucket = 0;
    uint64_t count = 1;
    struct ron_buf out;
    const char *at;
    uint64_t now;

    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(a->m, &out), RON_OK);
    at = strstr(ron_buf_text(&out), "\nbusy_rejections_total{endpoint=\"e\",queue=\"\"} ");
    assert_non_null(at);
    now = strtoull(strchr(at, '}') + 2, NULL, 10);
    assert_true(now >= before);
    at = strstr(at, "le=\"+Inf\"} ");
    assert_non_null(at);
    bucket = strtoull(at + 11, NULL, 10);
    at = strstr(at, "request_latency_seconds_count{");
    assert_non_null(at);
    count = strtoull(strchr(at, '}') + 2, NULL, 10);
    assert_int_equal(bucket, count);
    ron_buf_done(&out);
    return now;
}

static void test_metrics__four_threads_add_while_scraped__totals_exact(void **state)
{
    struct adders a = {.m = fresh(0)};
    struct ron_thread *threads[ADDERS] = {NULL};
    uint64_t seen = 0;

    (void)state;
    a.counter = ron_metric_series(ron_metrics_name(a.m, RON_M_BUSY), "e", "");
    a.gauge = ron_metric_only(ron_metrics_name(a.m, RON_M_WORKER_INFLIGHT));
    a.hist = ron_metric_series(ron_metrics_name(a.m, RON_M_REQUEST_LATENCY), "r", "GET");
    for (int round = 0; round < 2; round++) { /* the second on recycled threads and shards */
        for (int i = 0; i < ADDERS; i++) {
            struct ron_thread_opts o = {
                .name = "adder", .may_block = true, .main = add_many, .arg = &a};
            assert_int_equal(ron_thread_start(&o, &threads[i], NULL), RON_OK);
        }
        while (ron_au32_load(&a.done) < (uint32_t)(ADDERS * (round + 1))) {
            seen = look(&a, seen);
        }
        for (int i = 0; i < ADDERS; i++) {
            ron_thread_join(threads[i]);
        }
    }
    assert_int_equal(ron_series_value(a.counter), 2 * ADDERS * ADDS);
    assert_int_equal(ron_series_value(a.gauge), 2 * ADDERS * ADDS / 2);
    assert_int_equal(ron__metric_sum(a.m, a.hist->_cell), 2 * ADDERS * ADDS); /* all below 5 ms */
    assert_int_equal(ron__metric_sum(a.m, a.hist->_cell + 11),
                     2ull * ADDERS * ((uint64_t)ADDS * (ADDS - 1) / 2));
    ron_metrics_free(a.m);
}

static void test_metrics__two_registries_on_one_thread__kept_apart(void **state)
{
    struct ron_metrics *a = fresh(0);
    struct ron_metrics *b = fresh(0);
    struct ron_series *x = ron_metric_only(ron_metrics_name(a, RON_M_TASKS_LEAKED));
    struct ron_series *y = ron_metric_only(ron_metrics_name(b, RON_M_TASKS_LEAKED));

    (void)state;
    for (int i = 0; i < 10; i++) {
        ron_counter_add(x, 1);
        ron_counter_add(y, 2);
    }
    assert_int_equal(ron_series_value(x), 10);
    assert_int_equal(ron_series_value(y), 20);
    ron_metrics_free(a);
    a = fresh(0); /* perhaps at the same address */
    x = ron_metric_only(ron_metrics_name(a, RON_M_TASKS_LEAKED));
    ron_counter_add(x, 1);
    assert_int_equal(ron_series_value(x), 1);
    ron_metrics_free(a);
    ron_metrics_free(b);
}

static bool fail_shards(enum ron_fault_kind kind, const char *site)
{
    return kind == RON_FAULT_ALLOC && strcmp(site, "make_shard") == 0;
}

static void test_metrics__no_memory_for_a_shard__nothing_lost(void **state)
{
    struct ron_metrics *m = fresh(0);
    struct ron_series *s = ron_metric_only(ron_metrics_name(m, RON_M_TASKS_LEAKED));

    (void)state;
    ron_fault_hook = fail_shards;
    ron_counter_add(s, 5);
    ron_fault_hook = NULL;
    ron_counter_add(s, 6);
    assert_int_equal(ron_series_value(s), 11);
    ron_metrics_free(m);
}

/* ---- collectors of the kernel ---------------------------------------------------------------- */

static void test_metrics__process_and_build__plausible(void **state)
{
    struct ron_metrics *m = fresh(0);
    struct ron_buf out;
    const char *text;

    (void)state;
    assert_int_equal(ron_collect_process(m, NULL), RON_OK);
    ron_collect_build(m, "test");
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    text = ron_buf_text(&out);
    assert_non_null(strstr(text, "\nbuild_info{service=\"test\",version=\""));
    assert_true(strtoull(strstr(text, "\nprocess_resident_memory_bytes ") + 31, NULL, 10) >
                1 << 20);
    assert_true(strtoull(strstr(text, "\nprocess_open_fds ") + 18, NULL, 10) >= 3);
    assert_true(strtoull(strstr(text, "\nprocess_threads ") + 17, NULL, 10) >= 1);
    assert_non_null(strstr(text, "\nprocess_cpu_seconds_total "));
    assert_true(strtoull(strstr(text, "\nprocess_start_time_seconds ") + 28, NULL, 10) >
                1600000000);
    ron_buf_done(&out);
    ron_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics__counter_and_gauge__text_is_exact),
        cmocka_unit_test(test_metrics__histogram__buckets_cumulated_and_in_seconds),
        cmocka_unit_test(test_metrics__collector_and_cells_share_a_family__one_line_each),
        cmocka_unit_test(test_metrics__more_label_values_than_allowed__counted_in_other),
        cmocka_unit_test(test_metrics__no_cell_left__nothing_breaks_and_it_is_counted),
        cmocka_unit_test(test_metrics__bad_declaration__refused_and_named),
        cmocka_unit_test(test_metrics__four_threads_add_while_scraped__totals_exact),
        cmocka_unit_test(test_metrics__two_registries_on_one_thread__kept_apart),
        cmocka_unit_test(test_metrics__no_memory_for_a_shard__nothing_lost),
        cmocka_unit_test(test_metrics__process_and_build__plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
