/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/metrics.c - what the bridge counts, under the names of the specification. */
#include "interop/svc.h"
#include "ron/base/alloc.h"

struct iop_metrics {
    struct ron_metric *of[IOP_M_COUNT];
};

static const struct ron_metric_def defs[IOP_M_COUNT] = {
#define X(id, type_, unit_, name_, labels_, help_)                                                 \
    [IOP_M_##id] = {.name = name_,                                                                 \
                    .help = help_,                                                                 \
                    .type = RON_METRIC_##type_,                                                    \
                    .unit = RON_METRIC_##unit_,                                                    \
                    .labels = labels_},
    IOP_METRICS(X)
#undef X
};

static void collect_box(struct ron_scrape *scrape, const struct iop_metrics *m,
                        const struct iop_box_counts *box)
{
    const struct {
        const char *op;
        const struct ron_stat *count;
    } rows[] = {{"put", &box->put},         {"delivered", &box->delivered}, {"acked", &box->acked},
                {"nacked", &box->nacked},   {"expired", &box->expired},     {"died", &box->died},
                {"damaged", &box->damaged}, {"duplicate", &box->duplicates}};

    ron_scrape_add(scrape, m->of[IOP_M_BOX_GROUPS], ron_stat_get(&box->groups), NULL);
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        ron_scrape_add(scrape, m->of[IOP_M_BOX_OPS], ron_stat_get(rows[i].count), rows[i].op);
    }
    ron_scrape_add(scrape, m->of[IOP_M_BOX_MESSAGES], ron_stat_get(&box->messages), "all");
    ron_scrape_add(scrape, m->of[IOP_M_BOX_MESSAGES], ron_stat_get(&box->dead), "dead");
    ron_scrape_add(scrape, m->of[IOP_M_BOX_BYTES], ron_stat_get(&box->bytes), NULL);
    ron_scrape_add(scrape, m->of[IOP_M_BOX_TOPICS], ron_stat_get(&box->topics), NULL);
}

static void collect_seen(struct ron_scrape *scrape, const struct iop_svc *s)
{
    struct iop_metrics *m = s->metrics;
    struct iop_seen_stats seen;

    iop_seen_get_stats(s->seen, &seen);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN], seen.committed + seen.reserved, NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_MAX], (uint64_t)ron_conf_int(s->conf, IOP_DEDUP_KEYS),
                   NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_EVICTED], seen.evicted, NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_REFUSED], seen.refused, NULL);
}

static void collect(struct ron_scrape *scrape, void *arg)
{
    struct iop_svc *s = arg;
    struct iop_metrics *m = s->metrics;
    const struct iop_audit_counts *audit = iop_audit_get_counts(s->audit);

    ron_scrape_add(
        scrape, m->of[IOP_M_AUDIT], ron_stat_get(&audit->emitted),
        iop_audit_sink_name((enum iop_audit_sink)ron_conf_choice(s->conf, IOP_AUDIT_SINK)));
    ron_scrape_add(scrape, m->of[IOP_M_AUDIT_DROP], ron_stat_get(&audit->dropped), NULL);
    if (s->local != NULL) {
        collect_box(scrape, m, iop_box_local_counts(s->local));
        collect_seen(scrape, s);
    }
}

/* A rate needs the zero before the first event, so series that are known are made at the start. */
static void make_series(struct iop_svc *s)
{
    struct ron_metrics *all = ron_app_metrics(s->app);

    for (size_t i = 1; i < IOP_ERROR_COUNT; i++) {
        (void)ron_metric_series(ron_metrics_name(all, RON_M_REJECTED),
                                iop_error_code((enum iop_error)i));
    }
    iop_count_of(s, IOP_M_CHUNKS, "/put", 0);
    iop_set_brownout(s, false);
}

enum ron_rc iop_metrics_new(struct iop_svc *s, struct ron_err *err)
{
    struct iop_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the metrics");
    }
    s->metrics = m;
    RON_TRY(ron_metrics_declare_all(ron_app_metrics(s->app), defs, IOP_M_COUNT, m->of, err));
    make_series(s);
    return ron_metrics_collector(ron_app_metrics(s->app), collect, s, err);
}

void iop_count_of(struct iop_svc *s, int metric, const char *label, uint64_t n)
{
    ron_counter_add(ron_metric_series(s->metrics->of[metric], label), n);
}

void iop_count_action(struct iop_svc *s, const struct iop_action *action)
{
    static const char *const names[] = {
        [IOP_ACT_MAILBOX] = "mailbox", [IOP_ACT_FORWARD] = "forward", [IOP_ACT_WALLET] = "wallet"};

    iop_count_of(s, IOP_M_RULES,
                 action->fault != IOP_FAULT_NONE ? "fault" : names[action->rule->action], 1);
}

void iop_count_act(struct iop_svc *s, const char *action, const char *result)
{
    ron_counter_add(ron_metric_series(s->metrics->of[IOP_M_ACTS], action, result), 1);
}

void iop_observe_rpc(struct iop_svc *s, const char *service, const char *op, bool good,
                     uint64_t took_ns)
{
    ron_histogram_observe(
        ron_metric_series(s->metrics->of[IOP_M_RPC], service, op, good ? "ok" : "fail"), took_ns);
}

void iop_set_brownout(struct iop_svc *s, bool active)
{
    ron_gauge_set(ron_metric_series(s->metrics->of[IOP_M_BROWNOUT], "bridge"), active);
}

void iop_policy_series(struct iop_svc *s, struct iop_policy *policy)
{
    struct iop_metrics *m = s->metrics;

    for (size_t i = 0; i < policy->providers->count; i++) {
        const char *name = policy->providers->at[i].name;
        struct iop_entry *e = &policy->at[i];

        e->verified = ron_metric_series(m->of[IOP_M_VERIFY], name, "ok");
        e->failed = ron_metric_series(m->of[IOP_M_VERIFY], name, "fail");
        e->duplicates = ron_metric_series(m->of[IOP_M_DEDUP], name);
    }
}

void iop_metrics_free(struct iop_svc *s)
{
    ron_free(s->metrics);
    s->metrics = NULL;
}
