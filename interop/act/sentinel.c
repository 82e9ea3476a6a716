/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/sentinel.c - the brownout sentinel and readiness; contract in sentinel.h.
 *
 * A loop task. It judges the evidence once a second and sets the watch `bridge`, which every bridge
 * request reads. Without any call a brownout ends on trial, so it cannot prolong itself (W5 of
 * core/brownout.h). */
#include "interop/act/sentinel.h"

#include "interop/core/metrics.h"
#include "interop/object/storage.h"
#include "ron/base/assert.h"

enum { TICK_MS = 1000 };

/* ---- the sentinel ---------------------------------------------------------------------------- */

static void toggled(struct iop_sentinel *s, const struct iop_brownout_view *view)
{
    const char *cause = iop_brownout_cause_name(view->cause);
    struct iop_notice n = {.kind = IOP_NOTICE_BROWNOUT,
                           .active = view->active,
                           .ts_ms = ron_env_wall_ms(s->core->env)};

    for (size_t i = 0; cause[i] != '\0' && i < sizeof n.reason - 1; i++) {
        n.reason[i] = cause[i];
    }
    ron_watch_set(s->bridge->gate, view->active);
    ron_need_set(s->need_brownout, view->active ? RON_NEED_MISSING : RON_NEED_OK,
                 view->active ? cause : "", 5);
    iop_set_brownout(s->core, view->active);
    iop_tell(s->core, &n);
    iop_trail_brownout(s->core, view->active, cause);
    if (view->active) {
        RON_LOG(s->core->log, WARN, "brownout started; shedding bridge requests",
                RON_LOG_STR("cause", cause), RON_LOG_U64("calls", view->calls),
                RON_LOG_U64("failed", view->failed), RON_LOG_U64("slow", view->slow));
    } else {
        /* On trial: nobody called, and the next calls decide. */
        RON_LOG(s->core->log, INFO, "brownout ended", RON_LOG_BOOL("trial", view->trial));
    }
}

static void look_at_queues(struct iop_sentinel *s)
{
    struct ron_chan *const queues[] = {s->hooks->work, s->objects->reads, s->objects->uploads};
    bool full = false;

    for (size_t i = 0; i < RON_ARRAY_LEN(queues); i++) {
        struct ron_chan_stats stats;

        ron_chan_get_stats(queues[i], &stats);
        full = full || stats.depth >= ron_chan_capacity(queues[i]);
    }
    ron_need_set(s->need_queues, full ? RON_NEED_MISSING : RON_NEED_OK, full ? "queue is full" : "",
                 1);
}

static void box_probed(struct iop_op *op)
{
    struct iop_mail *m = RON_OBJ(op->arg, struct iop_mail, IOP_MAIL_MAGIC);

    iop_op_done(op);
    ron_stat_set(&m->probing, 0);
}

/* A mailbox elsewhere that failed is asked until it answers: without requests, which a service that
 * is not ready does not get, nobody would notice that it is back. */
static void probe_mailbox(struct iop_mail *m)
{
    if (ron_stat_get(&m->probing) != 0) {
        return;
    }
    m->probe = (struct iop_op){.kind = IOP_OP_STATS, .done = box_probed, .arg = m};
    ron_stat_set(&m->probing, 1);
    if (iop_box_submit(m->box, &m->probe) != RON_OK) {
        ron_stat_set(&m->probing, 0);
    }
}

static void look_at_mailbox(struct iop_sentinel *s)
{
    struct iop_mail *m = s->mail;
    bool broken = m->local != NULL ? ron_stat_get(&iop_box_local_counts(m->local)->broken) != 0
                                   : iop_box_http_broken(m->box);

    if (broken && m->local == NULL) {
        probe_mailbox(m);
    }
    ron_need_set(s->mail->need, broken ? RON_NEED_MISSING : RON_NEED_OK,
                 broken ? "mailbox is not writable" : "", 5);
}

/* What is in the own store is served in any case. */
static void look_at_storage(struct iop_sentinel *s)
{
    bool broken = ron_stat_get(&s->objects->storage_broken) != 0;

    if (s->objects->up->storage == NULL) {
        return;
    }
    iop_storage_probe(s->objects);
    ron_need_set(s->objects->need, broken ? RON_NEED_DEGRADED : RON_NEED_OK,
                 broken ? "storage is not responding" : "", 5);
}

static void look(struct iop_sentinel *s, uint64_t now_ms)
{
    struct iop_brownout_view view;
    struct ron_chan_stats stats;
    bool changed;

    ron_chan_get_stats(s->hooks->work, &stats);
    ron_mutex_lock(&s->bridge->mu);
    changed = iop_brownout_tick(&s->bridge->brownout, now_ms, stats.depth,
                                ron_chan_capacity(s->hooks->work));
    iop_brownout_look(&s->bridge->brownout, now_ms, &view);
    ron_mutex_unlock(&s->bridge->mu);
    if (changed) {
        toggled(s, &view);
    }
    look_at_queues(s);
    look_at_mailbox(s);
    look_at_storage(s);
}

static enum ron_rc tick(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct iop_sentinel *s = RON_OBJ(arg, struct iop_sentinel, IOP_SENTINEL_MAGIC);
    uint64_t now_ms = ron_env_now_ns(s->core->env) / RON_NS_PER_MS;

    (void)items;
    (void)count;
    if (now_ms >= s->next_tick_ms) {
        look(s, now_ms);
        s->next_tick_ms = now_ms + s->tick_ms;
    }
    ron_task_wake_at(t, s->next_tick_ms);
    return RON_OK;
}

enum ron_rc iop_sentinel_add(struct iop_sentinel *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->core->app);
    struct iop_brownout_opts opts = iop_brownout_defaults();

    opts.window_ms = (uint64_t)ron_conf_ms(s->core->conf, IOP_B_WINDOW);
    opts.rate_ppm = (uint32_t)ron_conf_int(s->core->conf, IOP_B_RATE);
    opts.calls_min = (uint32_t)ron_conf_int(s->core->conf, IOP_B_CALLS);
    opts.slow_ms = (uint32_t)ron_conf_ms(s->core->conf, IOP_B_SLOW);
    opts.hold_ms = (uint64_t)ron_conf_ms(s->core->conf, IOP_B_HOLD);
    opts.queue_ms = (uint64_t)ron_conf_ms(s->core->conf, IOP_B_QUEUE);
    opts.probe_ms = (uint32_t)ron_conf_ms(s->core->conf, IOP_B_PROBE);
    iop_brownout_init(&s->bridge->brownout, &opts);
    s->tick_ms = RON_MIN(opts.hold_ms / 4 + 1, (uint64_t)TICK_MS);
    RON_TRY(ron_needs_add(needs, "policy_loaded", false, &s->hooks->need_policy, err));
    RON_TRY(ron_needs_add(needs, "queues_within_limits", false, &s->need_queues, err));
    RON_TRY(ron_needs_add(needs, "storage_reachable", true, &s->objects->need, err));
    RON_TRY(ron_needs_add(needs, "mailbox_reachable", false, &s->mail->need, err));
    RON_TRY(ron_needs_add(needs, "passport_reachable", false, &s->acts->need_passport, err));
    RON_TRY(ron_needs_add(needs, "brownout_bridge", false, &s->need_brownout, err));
    RON_TRY(ron_watch_new(&(struct ron_watch_opts){.registry = ron_app_registry(s->core->app),
                                                   .name = "bridge",
                                                   .producers = "brownout_sentinel",
                                                   .consumers = "http"},
                          &s->bridge->gate, err));
    return ron_sup_add(ron_app_sup(s->core->app),
                       &(struct ron_task_def){.name = "brownout_sentinel",
                                              .kind = "sentinel",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 5,
                                              .handle = tick,
                                              .arg = s},
                       NULL, err);
}
