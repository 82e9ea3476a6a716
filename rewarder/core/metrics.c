/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/metrics.c - what the rewarder counts, under the names of the specification. */
#include "rewarder/core/core.h"
#include "ron/base/alloc.h"

struct rwd_metrics {
    struct ron_metric *of[RWD_M_COUNT];
};

static const struct ron_metric_def defs[RWD_M_COUNT] = {
#define X(id, type_, unit_, name_, labels_, help_)                                                 \
    [RWD_M_##id] = {.name = name_,                                                                 \
                    .help = help_,                                                                 \
                    .type = RON_METRIC_##type_,                                                    \
                    .unit = RON_METRIC_##unit_,                                                    \
                    .labels = labels_},
    RWD_METRICS(X)
#undef X
};

/* A rate needs the zero before the first event, so series that are known are made at the start. */
static void make_series(struct rwd_core *c)
{
    static const struct {
        int metric;
        const char *label;
    } known[] = {
        {RWD_M_RUNS, "ok"},          {RWD_M_RUNS, "quarantined"}, {RWD_M_RUNS, "fail"},
        {RWD_M_INTENTS, "accepted"}, {RWD_M_INTENTS, "dup"},      {RWD_M_INTENTS, "error"},
    };
    struct ron_metrics *all = ron_app_metrics(c->app);

    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        rwd_count_of(c, known[i].metric, known[i].label, 0);
    }
    for (size_t i = 1; i < RWD_BREACH_COUNT; i++) {
        rwd_count_of(c, RWD_M_INVARIANT, rwd_breach_label((enum rwd_breach)i), 0);
    }
    for (size_t i = 1; i < RWD_ERROR_COUNT; i++) {
        (void)ron_metric_series(ron_metrics_name(all, RON_M_REJECTED),
                                rwd_error_label((enum rwd_error)i));
    }
    for (size_t i = 0; i < RWD_M_COUNT; i++) {
        if (*defs[i].labels == '\0') {
            (void)ron_metric_only(c->metrics->of[i]);
        }
    }
}

enum ron_rc rwd_metrics_new(struct rwd_core *c, struct ron_err *err)
{
    struct rwd_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the metrics");
    }
    c->metrics = m;
    RON_TRY(ron_metrics_declare_all(ron_app_metrics(c->app), defs, RWD_M_COUNT, m->of, err));
    make_series(c);
    return RON_OK;
}

void rwd_metrics_free(struct rwd_core *c)
{
    ron_free(c->metrics);
    c->metrics = NULL;
}

void rwd_count(struct rwd_core *c, int metric, uint64_t n)
{
    ron_counter_add(ron_metric_only(c->metrics->of[metric]), n);
}

void rwd_count_of(struct rwd_core *c, int metric, const char *label, uint64_t n)
{
    ron_counter_add(ron_metric_series(c->metrics->of[metric], label), n);
}

void rwd_observe(struct rwd_core *c, int metric, uint64_t ns)
{
    ron_histogram_observe(ron_metric_only(c->metrics->of[metric]), ns);
}

void rwd_set(struct rwd_core *c, int metric, struct ron_money value)
{
    int64_t shown = value.v > INT64_MAX ? INT64_MAX : (int64_t)value.v;

    ron_gauge_set(ron_metric_only(c->metrics->of[metric]), shown);
}

void rwd_timed_out(struct rwd_core *c, const char *op, const char *peer)
{
    ron_counter_add(
        ron_metric_series(ron_metrics_name(ron_app_metrics(c->app), RON_M_IO_TIMEOUTS), op, peer),
        1);
}
