/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the text of /metrics is read as console/prom.h and console/sample.h say, and two looks give
 * the rates, latencies and gauges between them.
 * Method: small texts, sound and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "console/sample.h"
#include "ron/base/macros.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void test_con_prom__lines__samples_and_nothing_else(void **state)
{
    static const char text[] = "# HELP a b\n"
                               "a 1\n"
                               "b{x=\"1\"} 2.5\n"
                               "\n"
                               "{x=\"1\"} 3\n"
                               "c{x=\"a\\\"}b\",y=\"2\"} 4\n"
                               "d{x=\"1\" 5\n"
                               "e NaN\n"
                               "f +Inf\n"
                               "g\n"
                               "h 1e3 1700000000\n"
                               "i x\n"
                               "j 7";
    static const struct {
        const char *name;
        const char *labels;
        double value;
    } want[] = {
        {"a", "", 1},   {"b", "x=\"1\"", 2.5}, {"c", "x=\"a\\\"}b\",y=\"2\"", 4},
        {"h", "", 1e3}, {"j", "", 7},
    };
    struct ron_str rest = str(text);
    struct con_prom_sample s;
    size_t count = 0;

    (void)state;
    while (con_prom_next(&rest, &s)) {
        assert_true(count < RON_ARRAY_LEN(want));
        assert_true(ron_str_is(s.name, want[count].name));
        assert_true(ron_str_is(s.labels, want[count].labels) ||
                    (s.labels.len == 0 && want[count].labels[0] == '\0'));
        assert_true(s.value == want[count].value);
        count++;
    }
    assert_int_equal(count, RON_ARRAY_LEN(want));
}

static void test_con_prom__labels__whole_names_and_escapes(void **state)
{
    static const struct {
        const char *labels;
        const char *value; /* of `n`; NULL: not there */
    } rows[] = {
        {"n=\"1\"", "1"}, {"a=\"2\",n=\"1\"", "1"},      {"an=\"2\"", NULL},          {"n=1", NULL},
        {"n=\"1", NULL},  {"a=\"n=\\\"\",n=\"3\"", "3"}, {"a=\"\\\\\",n=\"4\"", "4"}, {"", NULL},
        {"n=\"\"", ""},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str got = {0};
        bool there = con_prom_label(str(rows[i].labels), "n", &got);

        assert_int_equal(there, rows[i].value != NULL);
        assert_true(!there || ron_str_is(got, rows[i].value));
    }
}

static void test_con_sample__two_looks__rates_between_them(void **state)
{
    static const char first[] =
        "http_requests_total{route=\"/v1/issue\",method=\"POST\",status=\"200\"} 10\n"
        "http_requests_total{route=\"/metrics\",method=\"GET\",status=\"200\"} 100\n"
        "request_latency_seconds_bucket{route=\"/v1/issue\",le=\"0.005\"} 10\n"
        "request_latency_seconds_bucket{route=\"/v1/issue\",le=\"0.1\"} 10\n"
        "request_latency_seconds_sum{route=\"/v1/issue\"} 0.01\n"
        "request_latency_seconds_count{route=\"/v1/issue\"} 10\n"
        "process_cpu_seconds_total 1\n";
    static const char second[] =
        "http_requests_total{route=\"/v1/issue\",method=\"POST\",status=\"200\"} 28\n"
        "http_requests_total{route=\"/v1/issue\",method=\"POST\",status=\"503\"} 2\n"
        "http_requests_total{route=\"/metrics\",method=\"GET\",status=\"200\"} 900\n"
        "request_latency_seconds_bucket{route=\"/v1/issue\",le=\"0.1\"} 30\n"
        "request_latency_seconds_bucket{route=\"/v1/issue\",le=\"0.005\"} 20\n"
        "request_latency_seconds_bucket{route=\"/metrics\",le=\"0.005\"} 9000\n"
        "request_latency_seconds_sum{route=\"/v1/issue\"} 0.05\n"
        "request_latency_seconds_count{route=\"/v1/issue\"} 30\n"
        "queue_depth{queue=\"work\"} 30\nqueue_capacity{queue=\"work\"} 40\n"
        "queue_depth{queue=\"log\"} 9\nqueue_capacity{queue=\"log\"} 10\n"
        "queue_capacity{queue=\"http.inflight\"} 100\ninflight_requests{route=\"\"} 5\n"
        "busy_rejections_total{endpoint=\"\",queue=\"work\"} 4\n"
        "busy_rejections_total{endpoint=\"/v1/issue\",queue=\"\"} 6\n"
        "queue_dropped_total{queue=\"work\"} 2\n"
        "breaker_state{svc=\"ledger\"} 1\n"
        "service_restarts_total{task=\"a\"} 1\nservice_restarts_total{task=\"b\"} 2\n"
        "wallet_requests_total{op=\"issue\"} 3\nwallet_requests_total{op=\"burn\"} 4\n"
        "process_cpu_seconds_total 1.5\nprocess_resident_memory_bytes 2048\n";
    static struct con_count a;
    static struct con_count b;
    struct con_point p;

    (void)state;
    con_count_read(CON_WALLET, str(first), &a);
    con_count_read(CON_WALLET, str(second), &b);
    p = con_point_of(&a, &b, 2000);
    assert_true(p.up);
    assert_int_equal(p.ops, 10000);    /* 20 in 2 s */
    assert_int_equal(p.errors, 1000);  /* 2 in 2 s */
    assert_int_equal(p.busy, 4000);    /* 6 answers and 2 dropped in 2 s */
    assert_int_equal(p.mean_us, 2000); /* 40 ms in 20 */
    assert_int_equal(p.p99_us, 100000);
    assert_int_equal(p.depth, 35);
    assert_int_equal(p.fill, 750);
    assert_string_equal(b.fullest, "work");
    assert_int_equal(p.cpu, 250);
    assert_int_equal(p.rss_kib, 2);
    assert_int_equal(b.breaker_count, 1);
    assert_string_equal(b.breakers[0].name, "ledger");
    assert_int_equal(b.breakers[0].state, 1);
    assert_true(b.restarts == 3);
    assert_string_equal(con_extra_key(CON_WALLET, 0), "requests");
    assert_true(b.extras[0] == 7);
}

static void test_con_sample__restart_and_absence__no_negative_rates(void **state)
{
    static struct con_count none;
    static struct con_count before;
    static struct con_count after;
    struct con_point p;

    (void)state;
    con_count_read(CON_LEDGER, str("ledger_entries_total 1000\n"), &before);
    con_count_read(CON_LEDGER, str("ledger_entries_total 5\n"), &after);
    p = con_point_of(&before, &after, 1000);
    assert_int_equal(p.ops, 5000);
    p = con_point_of(&none, &after, 1000);
    assert_true(p.up);
    assert_int_equal(p.ops, 0);
    p = con_point_of(&before, &none, 1000);
    assert_false(p.up);
    assert_int_equal(p.depth, 0);
}

static void test_con_sample__extras__every_service_fits(void **state)
{
    (void)state;
    for (int svc = 0; svc < CON_SERVICE_COUNT; svc++) {
        size_t count = con_extra_count((enum con_service)svc);

        assert_true(count < CON_EXTRAS_MAX); /* no row is cut off */
        for (size_t i = 0; i < count; i++) {
            assert_non_null(con_extra_key((enum con_service)svc, i));
        }
        assert_null(con_extra_key((enum con_service)svc, count));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_con_prom__lines__samples_and_nothing_else),
        cmocka_unit_test(test_con_prom__labels__whole_names_and_escapes),
        cmocka_unit_test(test_con_sample__two_looks__rates_between_them),
        cmocka_unit_test(test_con_sample__restart_and_absence__no_negative_rates),
        cmocka_unit_test(test_con_sample__extras__every_service_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
