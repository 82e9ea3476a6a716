/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_priv.h - records of the registry of metrics; shared by metrics.c and scrape.c.
 *
 * Invariants:
 *   P1 families, series, shards and collectors are only added. A reader walks them without a lock:
 *      each is complete before the store that publishes it (a release), and its links never change.
 *   P2 cells are given out once, in rising order; cells[0 .. TRASH) belong to no series and take
 *      what cannot be kept anywhere.
 *   P3 a shard is written by one thread: it belongs to a thread record of sync, which is given to a
 *      new thread only after the old one was joined. `common` is written by atomic adds alone. */
#pragma once

#include "ron/obs/metrics.h"

#include <string.h>

enum {
    METRIC_TABLE = 64,                        /* chains of a family; a power of two */
    METRIC_TRASH = RON_METRIC_BOUNDS_MAX + 2, /* as many as the largest series */
    METRIC_TEXT_MAX = 1400,                   /* four names and escaped values */
};

struct ron_metric {
    struct ron_metrics *metrics;
    struct ron_metric_def def;
    char label_text[64]; /* label names, NUL after each */
    const char *labels[RON_METRIC_LABELS_MAX];
    size_t label_count;
    uint32_t index;
    uint32_t cells;                      /* of one series */
    uint32_t series_count;               /* guarded by metrics->mu */
    struct ron_aptr table[METRIC_TABLE]; /* struct ron_series */
    struct ron_aptr newest;              /* struct ron_series; head of all */
    struct ron_aptr other;               /* struct ron_series, also in the two above */
    struct ron_stat overflow;
};

struct metric_shard {
    struct metric_shard *next;
    struct ron_thread *owner;
    struct ron_stat cells[];
};

struct metric_collector {
    ron_collect_fn *collect;
    void *arg;
};

struct ron_metrics {
    uint64_t id; /* never used twice in a process */
    uint32_t cells_max;
    struct ron_mutex mu;    /* rank leaf */
    uint32_t cells_used;    /* guarded by mu */
    struct ron_aptr shards; /* struct metric_shard */
    struct metric_shard *common;
    struct ron_series *trash; /* for values that have nowhere to go */
    struct ron_au32 family_count;
    struct ron_metric *families[RON_METRIC_FAMILIES_MAX];
    struct ron_au32 collector_count;
    struct metric_collector collectors[RON_METRIC_COLLECTORS_MAX];
    struct ron_stat dropped;
};

/* Sum of one cell over all shards. */
uint64_t ron__metric_sum(const struct ron_metrics *m, uint32_t cell);

/* Writes `name="value",...` into text (METRIC_TEXT_MAX bytes, with NUL). False when a value is
 * longer than RON_METRIC_VALUE_MAX. Values may be fewer than labels. */
bool ron__metric_labels(const struct ron_metric *family, const char *const *values, size_t count,
                        char *text, size_t *ret_len);

/* Position of a label in the family, or -1. */
int ron_metric_label_index(const struct ron_metric *family, const char *label);

/* The sum over all shards, for tests and decisions of an operator's tool. */
uint64_t ron_series_value(const struct ron_series *s);
