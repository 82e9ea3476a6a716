/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/metrics.c - what the edge counts, under the names of the specification. */
#include "edge/answer/site.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/obs/collect.h"

struct edg_metrics {
    struct ron_metric *of[EDG_M_COUNT];
    struct ron_series *hits[EDG_SOURCE_COUNT][2];
    struct ron_series *bytes[EDG_SOURCE_COUNT];
};

static const struct ron_metric_def defs[EDG_M_COUNT] = {
#define X(id, type_, unit_, name_, labels_, help_)                                                 \
    [EDG_M_##id] = {.name = name_,                                                                 \
                    .help = help_,                                                                 \
                    .type = RON_METRIC_##type_,                                                    \
                    .unit = RON_METRIC_##unit_,                                                    \
                    .labels = labels_},
    EDG_METRICS(X)
#undef X
};

static const char *const source_labels[EDG_SOURCE_COUNT] = {
#define X(name, label) label,
    EDG_SOURCES(X)
#undef X
};

/* Refusals of the listener and of the routes alike, once each, when they are answered. */
static void on_done(void *arg, const struct ron_http_done *done)
{
    if (done->reason != NULL) {
        edg_count_of(RON_OBJ(arg, struct edg_site, EDG_SITE_MAGIC), EDG_M_REJECTS,
                     edg_reject_label(done->reason, done->status), 1);
    }
}

/* A rate needs the zero before the first event, so series that are known are made at the start. */
static void make_series(struct edg_site *s)
{
    static const struct {
        int metric;
        const char *label;
    } known[] = {
        {EDG_M_MISSES, "cold"}, {EDG_M_MISSES, "absent"}, {EDG_M_RANGES, "206"},
        {EDG_M_RANGES, "416"},  {EDG_M_PACK_LOADS, "ok"}, {EDG_M_PACK_LOADS, "failed"},
    };
    struct edg_metrics *m = s->metrics;

    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        edg_count_of(s, known[i].metric, known[i].label, 0);
    }
    for (size_t i = 1; i < EDG_ERROR_COUNT; i++) {
        if (i == EDG_ERROR_FILLING) {
            continue; /* 202: it is not a refusal */
        }
        edg_count_of(s, EDG_M_REJECTS, edg_error_label((enum edg_error)i), 0);
    }
    for (size_t i = 0; i < EDG_SOURCE_COUNT; i++) {
        m->hits[i][0] = ron_metric_series(m->of[EDG_M_HITS], source_labels[i], "miss");
        m->hits[i][1] = ron_metric_series(m->of[EDG_M_HITS], source_labels[i], "hit");
        m->bytes[i] = ron_metric_series(m->of[EDG_M_BYTES_OUT], source_labels[i]);
    }
}

enum ron_rc edg_metrics_new(struct edg_site *s, struct ron_err *err)
{
    struct edg_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the metrics");
    }
    s->metrics = m;
    RON_TRY(ron_metrics_declare_all(ron_app_metrics(s->app), defs, EDG_M_COUNT, m->of, err));
    make_series(s);
    ron_app_set_on_done(s->app, on_done, s);
    return RON_OK;
}

void edg_metrics_free(struct edg_site *s)
{
    ron_free(s->metrics);
    s->metrics = NULL;
}

void edg_count_of(struct edg_site *s, int metric, const char *label, uint64_t n)
{
    RON_ASSERT(metric >= 0 && metric < EDG_M_COUNT);
    ron_counter_add(ron_metric_series(s->metrics->of[metric], label), n);
}

void edg_count_hit(struct edg_site *s, enum edg_source source, bool range, uint64_t bytes)
{
    RON_ASSERT((unsigned)source < EDG_SOURCE_COUNT);
    ron_counter_add(s->metrics->hits[source][range], 1);
    ron_counter_add(s->metrics->bytes[source], bytes);
}

void edg_set_of(struct edg_site *s, int metric, const char *label, uint64_t value)
{
    RON_ASSERT(metric >= 0 && metric < EDG_M_COUNT);
    ron_gauge_set(ron_metric_series(s->metrics->of[metric], label), (int64_t)value);
}

void edg_count(struct edg_site *s, int metric, uint64_t n)
{
    RON_ASSERT(metric >= 0 && metric < EDG_M_COUNT);
    ron_counter_add(ron_metric_only(s->metrics->of[metric]), n);
}

void edg_observe(struct edg_site *s, int metric, uint64_t ns)
{
    RON_ASSERT(metric >= 0 && metric < EDG_M_COUNT);
    ron_histogram_observe(ron_metric_only(s->metrics->of[metric]), ns);
}

void edg_scrape(struct edg_site *s, struct ron_scrape *scrape, int metric, uint64_t value)
{
    RON_ASSERT(metric >= 0 && metric < EDG_M_COUNT);
    ron_scrape_add(scrape, s->metrics->of[metric], value, NULL);
}
