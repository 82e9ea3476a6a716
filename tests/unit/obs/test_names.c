/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - the shared table of metric names against the five specifications.
 *
 * Goal: every metric that the specifications ask of all services exists with one set of labels that
 *   holds each label they use; what the kernel's registry produces is known to the table.
 * Method: the names as each specification spells them (the label "q" of one is "queue" everywhere:
 *   docs/decisions.md); a registry with an object of each kind, scraped without a dropped sample.
 */
#include "support/support.h"

#include "obs/metrics_priv.h"
#include "ron/base/json.h"
#include "ron/chan/bus.h"
#include "ron/chan/chan.h"
#include "ron/chan/watch.h"
#include "ron/io/linux_env.h"
#include "ron/obs/collect.h"

static const struct {
    const char *seed;
    const char *name;
    const char *labels;
    enum ron_metric_type type;
} asked[] = {
    {"ledger", "queue_depth", "queue", RON_METRIC_GAUGE},
    {"ledger", "busy_rejections_total", "queue", RON_METRIC_COUNTER},
    {"ledger", "tasks_leaked_total", "", RON_METRIC_COUNTER},
    {"ledger", "io_timeouts_total", "op", RON_METRIC_COUNTER},
    {"wallet", "queue_depth", "queue", RON_METRIC_GAUGE},
    {"wallet", "queue_dropped_total", "queue", RON_METRIC_COUNTER},
    {"wallet", "busy_rejections_total", "endpoint", RON_METRIC_COUNTER},
    {"wallet", "tasks_spawned_total", "kind", RON_METRIC_COUNTER},
    {"wallet", "tasks_aborted_total", "kind", RON_METRIC_COUNTER},
    {"wallet", "tasks_canceled_total", "kind", RON_METRIC_COUNTER},
    {"wallet", "io_timeouts_total", "op", RON_METRIC_COUNTER},
    {"wallet", "backoff_retries_total", "svc,op", RON_METRIC_COUNTER},
    {"wallet", "bus_lagged_total", "bus", RON_METRIC_COUNTER},
    {"wallet", "upstream_fail_total", "svc", RON_METRIC_COUNTER},
    {"wallet", "worker_inflight", "", RON_METRIC_GAUGE},
    {"rewarder", "queue_depth", "queue", RON_METRIC_GAUGE},
    {"rewarder", "queue_dropped_total", "queue", RON_METRIC_COUNTER},
    {"rewarder", "busy_rejections_total", "endpoint", RON_METRIC_COUNTER},
    {"rewarder", "service_restarts_total", "task", RON_METRIC_COUNTER},
    {"rewarder", "readyz_degraded", "cause", RON_METRIC_GAUGE},
    {"rewarder", "backoff_retries_total", "op", RON_METRIC_COUNTER},
    {"rewarder", "bus_lagged_total", "bus", RON_METRIC_COUNTER},
    {"edge", "queue_depth", "queue", RON_METRIC_GAUGE},
    {"edge", "tasks_spawned_total", "kind", RON_METRIC_COUNTER},
    {"edge", "io_timeouts_total", "op", RON_METRIC_COUNTER},
    {"edge", "backoff_retries_total", "op", RON_METRIC_COUNTER},
    {"interop", "queue_dropped_total", "queue", RON_METRIC_COUNTER},
    {"interop", "tasks_canceled_total", "kind", RON_METRIC_COUNTER},
    {"interop", "backoff_retries_total", "op,result", RON_METRIC_COUNTER},
    {"interop", "rejected_total", "reason", RON_METRIC_COUNTER},
    {"interop", "http_requests_total", "route,method,status", RON_METRIC_COUNTER},
    {"interop", "request_latency_seconds", "route,method", RON_METRIC_HISTOGRAM},
    {"interop", "inflight_requests", "route", RON_METRIC_GAUGE},
};

static void test_names__what_the_specifications_ask__exists_with_its_labels(void **state)
{
    struct ron_metrics *m = NULL;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(asked); i++) {
        struct ron_metric *f = ron_metrics_find(m, asked[i].name);
        char labels[64];
        char *rest = labels;

        print_message("%s %s\n", asked[i].seed, asked[i].name);
        assert_non_null(f);
        assert_int_equal(f->def.type, asked[i].type);
        (void)snprintf(labels, sizeof labels, "%s", asked[i].labels);
        while (*rest != '\0') {
            const char *label = strsep(&rest, ",");
            assert_true(ron_metric_label_index(f, label) >= 0);
            rest = rest == NULL ? labels + strlen(asked[i].labels) : rest;
        }
    }
    ron_metrics_free(m);
}

static void test_names__each__keeps_the_rules_for_names(void **state)
{
    struct ron_metrics *m = NULL;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    for (int i = 0; i < RON_M_COUNT; i++) {
        const struct ron_metric_def *def = &ron_metrics_name(m, (enum ron_metric_name)i)->def;
        size_t len = strlen(def->name);
        bool total = len > 6 && strcmp(def->name + len - 6, "_total") == 0;
        bool seconds = strstr(def->name, "_seconds") != NULL;

        print_message("%s\n", def->name);
        assert_int_equal(total, def->type == RON_METRIC_COUNTER);
        assert_true(seconds || def->unit != RON_METRIC_NS);
        assert_int_equal(def->help[strlen(def->help) - 1], '.');
    }
    ron_metrics_free(m);
}

static void no_drop(void *item, void *arg)
{
    (void)item;
    (void)arg;
}

static void test_names__registry_with_each_kind__no_sample_unknown(void **state)
{
    struct ron_registry *reg = NULL;
    struct ron_metrics *m = NULL;
    struct ron_exec *exec = NULL;
    struct ron_chan *chan = NULL;
    struct ron_sup *sup = NULL;
    struct ron_buf out;
    const struct ron_env *env = ron_env_linux();

    (void)state;
    assert_int_equal(ron_registry_new(&reg, NULL), RON_OK);
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(
        ron_exec_new(&(struct ron_exec_opts){.env = env, .registry = reg, .workers = 1}, &exec,
                     NULL),
        RON_OK);
    assert_int_equal(
        ron_sup_new(&(struct ron_sup_opts){.env = env, .registry = reg, .exec = exec}, &sup, NULL),
        RON_OK);
    assert_int_equal(ron_chan_new(&(struct ron_chan_opts){.registry = reg,
                                                          .name = "work",
                                                          .producers = "p",
                                                          .consumers = "c",
                                                          .drop_text = "d",
                                                          .capacity = 7,
                                                          .policy = RON_CHAN_REJECT,
                                                          .drop = no_drop},
                                  &chan, NULL),
                     RON_OK);
    for (int i = 0; i < 9; i++) {
        RON_IGNORE(ron_chan_try_send(chan, &chan, NULL)); /* seven fit */
    }
    assert_int_equal(ron_collect_registry(m, reg, NULL), RON_OK);
    assert_int_equal(ron_collect_supervisor(m, sup, NULL), RON_OK);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\nqueue_depth{queue=\"work\"} 7\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\nqueue_capacity{queue=\"work\"} 7\n"));
    assert_non_null(
        strstr(ron_buf_text(&out), "\nbusy_rejections_total{endpoint=\"\",queue=\"work\"} 2\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\ntasks_leaked_total 0\n"));
    assert_non_null(strstr(ron_buf_text(&out), "\nworker_runs_total{worker="));
    assert_non_null(strstr(ron_buf_text(&out), "\nmetrics_samples_dropped_total 0\n"));
    ron_buf_done(&out);
    ron_sup_free(sup);
    assert_true(ron_exec_free(exec));
    ron_chan_free(chan);
    ron_registry_free(reg);
    ron_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__what_the_specifications_ask__exists_with_its_labels),
        cmocka_unit_test(test_names__each__keeps_the_rules_for_names),
        cmocka_unit_test(test_names__registry_with_each_kind__no_sample_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
