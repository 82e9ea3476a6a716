/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/metrics.c - what the bridge counts, under the names of the specification. */
#include "interop/core/metrics.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

#define METRICS_MAGIC 0x494d4554u /* "IMET" */

struct iop_metrics {
    uint32_t magic;
    const struct iop_core *core;
    const struct iop_mail *mail; /* read by a scrape */
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

static void collect_seen(struct ron_scrape *scrape, const struct iop_metrics *m)
{
    struct iop_seen_stats seen;

    iop_seen_get_stats(m->mail->seen, &seen);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN], seen.committed + seen.reserved, NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_MAX],
                   (uint64_t)ron_conf_int(m->core->conf, IOP_DEDUP_KEYS), NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_EVICTED], seen.evicted, NULL);
    ron_scrape_add(scrape, m->of[IOP_M_SEEN_REFUSED], seen.refused, NULL);
}

static void collect(struct ron_scrape *scrape, void *arg)
{
    const struct iop_metrics *m = RON_OBJ(arg, const struct iop_metrics, METRICS_MAGIC);
    const struct iop_audit_counts *audit = iop_audit_get_counts(m->core->audit);

    ron_scrape_add(
        scrape, m->of[IOP_M_AUDIT], ron_stat_get(&audit->emitted),
        iop_audit_sink_name((enum iop_audit_sink)ron_conf_choice(m->core->conf, IOP_AUDIT_SINK)));
    ron_scrape_add(scrape, m->of[IOP_M_AUDIT_DROP], ron_stat_get(&audit->dropped), NULL);
    if (m->mail->local != NULL) {
        collect_box(scrape, m, iop_box_local_counts(m->mail->local));
        collect_seen(scrape, m);
    }
}

/* A rate needs the zero before the first event, so series that are known are made at the start. */
static void make_series(struct iop_core *c)
{
    struct ron_metrics *all = ron_app_metrics(c->app);

    for (size_t i = 1; i < IOP_ERROR_COUNT; i++) {
        (void)ron_metric_series(ron_metrics_name(all, RON_M_REJECTED),
                                iop_error_code((enum iop_error)i));
    }
    iop_count_of(c, IOP_M_CHUNKS, "/put", 0);
    iop_set_brownout(c, false);
}

enum ron_rc iop_metrics_new(struct iop_core *c, const struct iop_mail *mail, struct ron_err *err)
{
    struct iop_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the metrics");
    }
    m->magic = METRICS_MAGIC;
    m->core = c;
    m->mail = mail;
    c->metrics = m;
    RON_TRY(ron_metrics_declare_all(ron_app_metrics(c->app), defs, IOP_M_COUNT, m->of, err));
    make_series(c);
    return ron_metrics_collector(ron_app_metrics(c->app), collect, m, err);
}

void iop_count_of(struct iop_core *c, int metric, const char *label, uint64_t n)
{
    RON_ASSERT(metric >= 0 && metric < IOP_M_COUNT);
    ron_counter_add(ron_metric_series(c->metrics->of[metric], label), n);
}

void iop_count_action(struct iop_core *c, const struct iop_action *action)
{
    static const char *const names[] = {
        [IOP_ACT_MAILBOX] = "mailbox", [IOP_ACT_FORWARD] = "forward", [IOP_ACT_WALLET] = "wallet"};

    iop_count_of(c, IOP_M_RULES,
                 action->fault != IOP_FAULT_NONE ? "fault" : names[action->rule->action], 1);
}

void iop_count_act(struct iop_core *c, const char *action, const char *result)
{
    ron_counter_add(ron_metric_series(c->metrics->of[IOP_M_ACTS], action, result), 1);
}

void iop_observe_rpc(struct iop_core *c, const char *service, const char *op, bool good,
                     uint64_t took_ns)
{
    ron_histogram_observe(
        ron_metric_series(c->metrics->of[IOP_M_RPC], service, op, good ? "ok" : "fail"), took_ns);
}

void iop_set_brownout(struct iop_core *c, bool active)
{
    ron_gauge_set(ron_metric_series(c->metrics->of[IOP_M_BROWNOUT], "bridge"), active);
}

void iop_policy_series(struct iop_core *c, struct iop_policy *policy)
{
    struct iop_metrics *m = c->metrics;

    for (size_t i = 0; i < policy->providers->count; i++) {
        const char *name = policy->providers->at[i].name;
        struct iop_entry *e = &policy->at[i];

        e->verified = ron_metric_series(m->of[IOP_M_VERIFY], name, "ok");
        e->failed = ron_metric_series(m->of[IOP_M_VERIFY], name, "fail");
        e->duplicates = ron_metric_series(m->of[IOP_M_DEDUP], name);
    }
}

void iop_metrics_free(struct iop_core *c)
{
    ron_free(c->metrics);
    c->metrics = NULL;
}
