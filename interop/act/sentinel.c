/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/sentinel.c - the brownout sentinel, readiness, and what calls to others cost.
 *
 * Place: service. Everything that calls an upstream tells the outcome here; the sentinel, a loop
 * task, looks once a second and sets the watch `bridge`, which every bridge request reads. Requests
 * that were shed are no calls, so a brownout cannot feed itself; and without any call it ends on
 * trial, so it cannot keep itself either (W5 of core/brownout.h). */
#include "interop/mailbox/remote.h"
#include "interop/object/storage.h"

enum { TICK_MS = 1000 };

/* ---- calls ----------------------------------------------------------------------------------- */

void iop_upstream(struct iop_svc *s, const char *service, const char *op, bool good,
                  uint64_t took_ns)
{
    iop_observe_rpc(s, service, op, good, took_ns);
    ron_mutex_lock(&s->brownout_mu);
    iop_brownout_call(&s->brownout, ron_env_now_ns(s->env) / RON_NS_PER_MS, !good,
                      took_ns / RON_NS_PER_MS);
    ron_mutex_unlock(&s->brownout_mu);
}

/* ---- the gate -------------------------------------------------------------------------------- */

bool iop_bridge_open(struct iop_svc *s, struct ron_http_call *call)
{
    bool open = ron_watch_value(s->bridge) == 0;
    bool probe = false;

    if (!open) {
        ron_mutex_lock(&s->brownout_mu);
        open = iop_brownout_admit(&s->brownout, ron_env_now_ns(s->env) / RON_NS_PER_MS, &probe);
        ron_mutex_unlock(&s->brownout_mu);
    }
    if (!open) {
        iop_fail(call, IOP_ERROR_BROWNOUT, NULL);
    }
    return open;
}

/* ---- the sentinel ---------------------------------------------------------------------------- */

static void toggled(struct iop_svc *s, const struct iop_brownout_view *view)
{
    const char *cause = iop_brownout_cause_name(view->cause);
    struct iop_notice n = {
        .kind = IOP_NOTICE_BROWNOUT, .active = view->active, .ts_ms = ron_env_wall_ms(s->env)};

    for (size_t i = 0; cause[i] != '\0' && i < sizeof n.reason - 1; i++) {
        n.reason[i] = cause[i];
    }
    ron_watch_set(s->bridge, view->active);
    ron_need_set(s->need_brownout, view->active ? RON_NEED_MISSING : RON_NEED_OK,
                 view->active ? cause : "", 5);
    iop_set_brownout(s, view->active);
    iop_tell(s, &n);
    iop_trail_brownout(s, view->active, cause);
    if (view->active) {
        RON_LOG(s->log, WARN, "brownout: bridges give way", RON_LOG_STR("cause", cause),
                RON_LOG_U64("calls", view->calls), RON_LOG_U64("failed", view->failed),
                RON_LOG_U64("slow", view->slow));
    } else {
        /* On trial: nobody called, and the next calls decide. */
        RON_LOG(s->log, INFO, "the brownout is over", RON_LOG_BOOL("trial", view->trial));
    }
}

static void look_at_queues(struct iop_svc *s)
{
    struct ron_chan *const queues[] = {s->work, s->reads, s->uploads};
    bool full = false;

    for (size_t i = 0; i < RON_ARRAY_LEN(queues); i++) {
        struct ron_chan_stats stats;

        ron_chan_get_stats(queues[i], &stats);
        full = full || stats.depth >= ron_chan_capacity(queues[i]);
    }
    ron_need_set(s->need_queues, full ? RON_NEED_MISSING : RON_NEED_OK,
                 full ? "a queue is full" : "", 1);
}

static void box_probed(struct iop_op *op)
{
    struct iop_svc *s = op->arg;

    iop_op_done(op);
    ron_stat_set(&s->box_probing, 0);
}

/* A mailbox elsewhere that failed is asked until it answers: without requests, which a service that
 * is not ready does not get, nobody would notice that it is back. */
static void probe_mailbox(struct iop_svc *s)
{
    if (ron_stat_get(&s->box_probing) != 0) {
        return;
    }
    s->box_probe = (struct iop_op){.kind = IOP_OP_STATS, .done = box_probed, .arg = s};
    ron_stat_set(&s->box_probing, 1);
    if (iop_box_submit(s->box, &s->box_probe) != RON_OK) {
        ron_stat_set(&s->box_probing, 0);
    }
}

static void look_at_mailbox(struct iop_svc *s)
{
    bool broken = s->local != NULL ? ron_stat_get(&iop_box_local_counts(s->local)->broken) != 0
                                   : iop_box_http_broken(s->box);

    if (broken && s->local == NULL) {
        probe_mailbox(s);
    }
    ron_need_set(s->need_mailbox, broken ? RON_NEED_MISSING : RON_NEED_OK,
                 broken ? "the mailbox cannot be written" : "", 5);
}

/* What is in the own store is served in any case. */
static void look_at_storage(struct iop_svc *s)
{
    bool broken = ron_stat_get(&s->storage_broken) != 0;

    if (s->up.storage == NULL) {
        return;
    }
    iop_storage_probe(s);
    ron_need_set(s->need_store, broken ? RON_NEED_DEGRADED : RON_NEED_OK,
                 broken ? "the storage does not answer" : "", 5);
}

static void look(struct iop_svc *s, uint64_t now_ms)
{
    struct iop_brownout_view view;
    struct ron_chan_stats stats;
    bool changed;

    ron_chan_get_stats(s->work, &stats);
    ron_mutex_lock(&s->brownout_mu);
    changed = iop_brownout_tick(&s->brownout, now_ms, stats.depth, ron_chan_capacity(s->work));
    iop_brownout_look(&s->brownout, now_ms, &view);
    ron_mutex_unlock(&s->brownout_mu);
    if (changed) {
        toggled(s, &view);
    }
    look_at_queues(s);
    look_at_mailbox(s);
    look_at_storage(s);
}

static enum ron_rc tick(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct iop_svc *s = arg;
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;

    (void)items;
    (void)count;
    if (now_ms >= s->next_tick_ms) {
        look(s, now_ms);
        s->next_tick_ms = now_ms + s->tick_ms;
    }
    ron_task_wake_at(t, s->next_tick_ms);
    return RON_OK;
}

enum ron_rc iop_bridge_add(struct iop_svc *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->app);
    struct iop_brownout_opts opts = iop_brownout_defaults();

    opts.window_ms = (uint64_t)ron_conf_ms(s->conf, IOP_B_WINDOW);
    opts.rate_ppm = (uint32_t)ron_conf_int(s->conf, IOP_B_RATE);
    opts.calls_min = (uint32_t)ron_conf_int(s->conf, IOP_B_CALLS);
    opts.slow_ms = (uint32_t)ron_conf_ms(s->conf, IOP_B_SLOW);
    opts.hold_ms = (uint64_t)ron_conf_ms(s->conf, IOP_B_HOLD);
    opts.queue_ms = (uint64_t)ron_conf_ms(s->conf, IOP_B_QUEUE);
    opts.probe_ms = (uint32_t)ron_conf_ms(s->conf, IOP_B_PROBE);
    iop_brownout_init(&s->brownout, &opts);
    s->tick_ms = RON_MIN(opts.hold_ms / 4 + 1, (uint64_t)TICK_MS);
    RON_TRY(ron_needs_add(needs, "policy_loaded", false, &s->need_policy, err));
    RON_TRY(ron_needs_add(needs, "queues_within_limits", false, &s->need_queues, err));
    RON_TRY(ron_needs_add(needs, "storage_reachable", true, &s->need_store, err));
    RON_TRY(ron_needs_add(needs, "mailbox_reachable", false, &s->need_mailbox, err));
    RON_TRY(ron_needs_add(needs, "passport_reachable", false, &s->need_passport, err));
    RON_TRY(ron_needs_add(needs, "brownout_bridge", false, &s->need_brownout, err));
    RON_TRY(ron_watch_new(&(struct ron_watch_opts){.registry = ron_app_registry(s->app),
                                                   .name = "bridge",
                                                   .producers = "brownout_sentinel",
                                                   .consumers = "http"},
                          &s->bridge, err));
    return ron_sup_add(ron_app_sup(s->app),
                       &(struct ron_task_def){.name = "brownout_sentinel",
                                              .kind = "sentinel",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 5,
                                              .handle = tick,
                                              .arg = s},
                       NULL, err);
}
