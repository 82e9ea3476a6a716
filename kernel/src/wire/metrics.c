/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - refusals of an OAP server as a metric. Its other counters are samples of its row in
 * the registry; the reasons are too many for one. */
#include "ron/obs/metrics.h"
#include "ron/obs/names.h"
#include "wire_priv.h"

static void collect_oap(struct ron_scrape *sc, void *arg)
{
    const struct ron_oap_server *s = arg; /* named as in its row */
    struct ron_metric *rejects = ron_metrics_name(ron_scrape_metrics(sc), RON_M_OAP_REJECTS);
    struct ron_oap_counters c;

    ron_oap_server_counters(s, &c);
    /* All reasons are there from the start: an alert can tell 0 from absent. */
    for (int r = RON_OAP_NONE + 1; r < RON_OAP_REASON_COUNT; r++) {
        ron_scrape_add(sc, rejects, c.rejected[r], s->entry_name,
                       ron_oap_reason_label((enum ron_oap_reason)r));
    }
}

enum ron_rc ron_collect_oap(struct ron_metrics *m, const struct ron_oap_server *s,
                            struct ron_err *err)
{
    return ron_metrics_collector(m, collect_oap, (void *)(uintptr_t)s, err);
}
