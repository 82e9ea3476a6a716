/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c - collectors over the registry and the supervisor, and the build's own series.
 *
 * Rows are copied out in one call: paging through a registry that changes would show a row twice,
 * and equal samples are added up (M4), so a gauge would double. */
#include "ron/obs/collect.h"

#include "obs/metrics_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/build.h"

static void add_row_sample(struct ron_scrape *sc, const struct ron_reg_row *row,
                           const struct ron_sample *sample)
{
    struct ron_metric *family = ron_metrics_find(ron_scrape_metrics(sc), sample->metric);
    const char *values[RON_METRIC_LABELS_MAX] = {NULL};

    if (family != NULL) {
        int index = ron_metric_label_index(family, sample->label);

        if (index < 0) {
            return; /* its owner has a collector with the right labels */
        }
        values[index] = sample->label_value != NULL ? sample->label_value : row->name;
        index =
            sample->name_label != NULL ? ron_metric_label_index(family, sample->name_label) : -1;
        if (index >= 0) {
            values[index] = row->name;
        }
    }
    ron_scrape_sample(sc, family, sample->value, values, RON_ARRAY_LEN(values));
}

static void collect_registry(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_registry *registry = arg;
    size_t max = ron_registry_count(registry) + 8; /* some may come meanwhile */
    RON_AUTO_FREE struct ron_reg_row *rows = ron_alloc_array(max, sizeof *rows);
    size_t count = rows == NULL ? 0 : ron_registry_rows(registry, 0, rows, max);

    if (rows == NULL) {
        ron_scrape_sample(sc, NULL, 0, NULL, 0); /* counted: this scrape is not whole */
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < rows[i].sample_count; k++) {
            add_row_sample(sc, &rows[i], &rows[i].samples[k]);
        }
        if (rows[i].kind == RON_REG_QUEUE) {
            ron_scrape_add(sc, ron_metrics_name(m, RON_M_QUEUE_CAPACITY), rows[i].capacity,
                           rows[i].name);
        }
    }
}

enum ron_rc ron_collect_registry(struct ron_metrics *m, struct ron_registry *registry,
                                 struct ron_err *err)
{
    return ron_metrics_collector(m, collect_registry, registry, err);
}

static void collect_supervisor(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_kind_stats kinds[RON_SUP_KINDS_MAX];
    size_t count = ron_sup_kinds(arg, kinds, RON_ARRAY_LEN(kinds));

    for (size_t i = 0; i < count; i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_TASKS_SPAWNED), kinds[i].spawned,
                       kinds[i].kind);
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_TASKS_ABORTED), kinds[i].aborted,
                       kinds[i].kind);
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_TASKS_CANCELED), kinds[i].canceled,
                       kinds[i].kind);
    }
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_TASKS_LEAKED), ron_sup_leaked(arg), NULL, 0);
    for (int b = 0; b < RON_BREACH_COUNT; b++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_SYNC_VIOLATIONS),
                       ron_sync_violations((enum ron_sync_breach)b),
                       ron_sync_breach_label((enum ron_sync_breach)b));
    }
}

enum ron_rc ron_collect_supervisor(struct ron_metrics *m, const struct ron_sup *sup,
                                   struct ron_err *err)
{
    return ron_metrics_collector(m, collect_supervisor, (void *)(uintptr_t)sup, err);
}

void ron_collect_build(struct ron_metrics *m, const char *service)
{
    ron_gauge_set(ron_metric_series(ron_metrics_name(m, RON_M_BUILD_INFO), service, ron_version(),
                                    ron_build_id()),
                  1);
}
