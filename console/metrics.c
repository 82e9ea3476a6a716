/* SPDX-License-Identifier: Apache-2.0 */
/* console/metrics.c - what the console counts. */
#include "console/svc.h"
#include "ron/base/alloc.h"
#include "ron/obs/collect.h"

struct con_metrics {
    struct ron_metric *of[CON_M_COUNT];
};

static const struct ron_metric_def defs[CON_M_COUNT] = {
#define X(id, type_, unit_, name_, labels_, help_)                                                 \
    [CON_M_##id] = {.name = name_,                                                                 \
                    .help = help_,                                                                 \
                    .type = RON_METRIC_##type_,                                                    \
                    .unit = RON_METRIC_##unit_,                                                    \
                    .labels = labels_},
    CON_METRICS(X)
#undef X
};

static void collect(struct ron_scrape *scrape, void *arg)
{
    struct con_svc *s = arg;

    ron_scrape_add(scrape, s->metrics->of[CON_M_SESSIONS],
                   con_sess_count(&s->sess, ron_env_wall_ms(s->env)), NULL);
}

enum ron_rc con_metrics_new(struct con_svc *s, struct ron_err *err)
{
    struct con_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the metrics");
    }
    s->metrics = m;
    RON_TRY(ron_metrics_declare_all(ron_app_metrics(s->app), defs, CON_M_COUNT, m->of, err));
    for (size_t i = 0; i < CON_ERROR_COUNT; i++) { /* a rate needs the zero before the first */
        ron_counter_add(ron_metric_series(m->of[CON_M_REJECTS], con_error_label((enum con_error)i)),
                        0);
    }
    return ron_metrics_collector(ron_app_metrics(s->app), collect, s, err);
}

void con_metrics_free(struct con_svc *s)
{
    ron_free(s->metrics);
    s->metrics = NULL;
}

void con_count_of(struct con_svc *s, int metric, const char *label)
{
    ron_counter_add(ron_metric_series(s->metrics->of[metric], label), 1);
}

void con_count_two(struct con_svc *s, int metric, const char *first, const char *second)
{
    ron_counter_add(ron_metric_series(s->metrics->of[metric], first, second), 1);
}
