/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - counters, gauges and histograms, and their text for Prometheus.
 *
 * A family is declared once (struct ron_metric_def: name, help, type, one set of labels); a series
 * is a family with values for its labels. Take the series once, at start, and keep the pointer:
 * adding to it costs a load and a store in memory of the calling thread, no lock, no shared line.
 *
 *     struct ron_series *s = ron_metric_series(ron_metrics_name(m, RON_M_REJECTED), "busy");
 *     ron_counter_add(s, 1);
 *
 * Values that live elsewhere (queues, limiters, the process) are asked for when somebody scrapes:
 * a collector is a function that adds samples (collect.h has those of the kernel).
 *
 * Rules:
 *   M1. A total is exact: an add is never lost, whichever threads add while others scrape.
 *   M2. Counters only grow. A histogram's +Inf bucket equals its _count in every scrape.
 *   M3. Families, series per family and cells are bounded. A value beyond goes to the series whose
 *       labels are all "other", and metrics_series_overflow_total{metric} counts it.
 *   M4. Two samples of a family with the same labels are shown as one, their sum: a scrape that
 *       shows a series twice is refused by Prometheus as a whole.
 *   M5. Nothing here is a float: what is recorded are whole numbers (nanoseconds, bytes).
 *
 * Threads: any; declaring and looking up a series take a short lock only when something new is
 * made. A collector runs on the thread that scrapes, must not block, and may run twice at once.
 * Ownership: families, series and collectors live as long as their ron_metrics. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/obs/names.h"
#include "ron/sync/sync.h"

enum ron_metric_type { RON_METRIC_COUNTER, RON_METRIC_GAUGE, RON_METRIC_HISTOGRAM };
/* What a value counts; NS is shown as seconds. */
enum ron_metric_unit { RON_METRIC_ONE, RON_METRIC_NS };

enum {
    RON_METRIC_LABELS_MAX = 4,       /* the most that a name of the specification has is 3 */
    RON_METRIC_BOUNDS_MAX = 16,      /* buckets; the specification asks for 8 to 10 */
    RON_METRIC_VALUE_MAX = 120,      /* bytes of a label value: a route pattern, a task name */
    RON_METRIC_FAMILIES_MAX = 256,   /* about 70 of the kernel and 40 of the largest service */
    RON_METRIC_SERIES_DEFAULT = 64,  /* of one family */
    RON_METRIC_CELLS_DEFAULT = 8192, /* numbers of one shard, 64 KiB of address space a thread */
    RON_METRIC_SAMPLES_MAX = 16384,  /* of one scrape */
    RON_METRIC_COLLECTORS_MAX = 64,  /* a few per module and service */
    RON_METRIC_TEXT_MAX = 4 << 20,   /* of one scrape: 256 bytes for each sample */
};

struct ron_metric_def {
    const char *name; /* [a-z_][a-z0-9_]*; texts are kept, not copied */
    const char *help;
    enum ron_metric_type type;
    enum ron_metric_unit unit;
    const char *labels; /* "route,method"; NULL or "" for none */
    /* Histograms: upper bounds, rising, in the recorded unit. NULL: 5 ms to 5 s in ten steps. */
    const uint64_t *bounds;
    size_t bound_count;
    uint32_t series_max; /* 0 = RON_METRIC_SERIES_DEFAULT */
};

struct ron_metrics;
struct ron_metric;

struct ron_series {
    struct ron_metrics *_metrics;
    uint64_t _metrics_id;
    uint32_t _cell; /* first of its numbers in every shard */
    struct ron_metric *_family;
    struct ron_series *_chain; /* in the family's table */
    struct ron_series *_next;  /* of the family */
    struct ron_stat _set;      /* gauges: the value set last */
    char _labels[];            /* as they are shown, without braces */
};

struct ron_metrics_opts {
    uint32_t cells_max; /* 0 = RON_METRIC_CELLS_DEFAULT */
};

/* Declares all of names.h. RON_NOMEM. `opts` may be NULL. */
RON_MUST_USE enum ron_rc ron_metrics_new(const struct ron_metrics_opts *opts,
                                         struct ron_metrics **ret_metrics, struct ron_err *err);
/* Nobody may add to a series any more. */
void ron_metrics_free(struct ron_metrics *m);

/* RON_INVALID names what is wrong, RON_EXISTS (a name has one declaration), RON_LIMIT, RON_NOMEM.
 * The definition is copied, its texts and bounds are kept. */
RON_MUST_USE enum ron_rc ron_metrics_declare(struct ron_metrics *m,
                                             const struct ron_metric_def *def,
                                             struct ron_metric **ret_metric, struct ron_err *err);
/* A table of them; ret_metrics[i] is that of defs[i]. */
RON_MUST_USE enum ron_rc ron_metrics_declare_all(struct ron_metrics *m,
                                                 const struct ron_metric_def *defs, size_t count,
                                                 struct ron_metric **ret_metrics,
                                                 struct ron_err *err);
/* A family of names.h. */
struct ron_metric *ron_metrics_name(struct ron_metrics *m, enum ron_metric_name name);
/* Any declared family, or NULL. */
struct ron_metric *ron_metrics_find(struct ron_metrics *m, const char *name);

/* The series with these label values, in the order of the declaration; made when it is new. Never
 * NULL: when it cannot be made (M3, or no memory) it is the series "other". */
struct ron_series *ron_metric_series_of(struct ron_metric *family, const char *const *values,
                                        size_t count);
#define ron_metric_series(family, ...)                                                             \
    ron_metric_series_of((family), (const char *const[]){__VA_ARGS__},                             \
                         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
/* The one series of a family without labels. */
struct ron_series *ron_metric_only(struct ron_metric *family);

/* ---- recording ------------------------------------------------------------------------------- */

/* This thread's shard of the ron_metrics it used last. */
struct ron_metrics_tls {
    uint64_t id; /* 0: none */
    struct ron_stat *cells;
};
extern _Thread_local struct ron_metrics_tls ron_metrics_tls;
/* First use on this thread, or a change of registry; counts by an atomic add when no shard can be
 * had. */
void ron_series_add_slow(struct ron_series *s, uint32_t offset, uint64_t n);

static inline void ron_series_add_at(struct ron_series *s, uint32_t offset, uint64_t n)
{
    struct ron_metrics_tls *tls = &ron_metrics_tls;

    if (RON_LIKELY(tls->id == s->_metrics_id)) {
        ron_stat_bump(&tls->cells[s->_cell + offset], n);
    } else {
        ron_series_add_slow(s, offset, n);
    }
}

static inline void ron_counter_add(struct ron_series *s, uint64_t n)
{
    ron_series_add_at(s, 0, n);
}

/* A gauge is either set or added to; the sum of both is shown. */
static inline void ron_gauge_set(struct ron_series *s, int64_t value)
{
    ron_stat_set(&s->_set, (uint64_t)value);
}

static inline void ron_gauge_add(struct ron_series *s, int64_t delta)
{
    ron_series_add_at(s, 0, (uint64_t)delta);
}

/* One value, in the recorded unit of the family. */
void ron_histogram_observe(struct ron_series *s, uint64_t value);

/* ---- scraping -------------------------------------------------------------------------------- */

struct ron_scrape;
typedef void ron_collect_fn(struct ron_scrape *scrape, void *arg);

/* RON_LIMIT when there are too many. */
RON_MUST_USE enum ron_rc ron_metrics_collector(struct ron_metrics *m, ron_collect_fn *collect,
                                               void *arg, struct ron_err *err);

/* From a collector: one sample. Missing values are empty; a family that is a histogram or NULL is
 * counted as dropped. */
void ron_scrape_sample(struct ron_scrape *scrape, struct ron_metric *family, uint64_t value,
                       const char *const *values, size_t count);
#define ron_scrape_add(scrape, family, value, ...)                                                 \
    ron_scrape_sample((scrape), (family), (value), (const char *const[]){__VA_ARGS__},             \
                      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
struct ron_metrics *ron_scrape_metrics(struct ron_scrape *scrape);

/* Appends everything as Prometheus text 0.0.4: families in the order of declaration, series in the
 * order of their labels, families without a sample left out. RON_NOMEM, RON_LIMIT (out is full). */
RON_MUST_USE enum ron_rc ron_metrics_write(struct ron_metrics *m, struct ron_buf *out);
#define RON_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
