/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/health.c - the health reporter: a task that looks every second at queues, ledger
 * and runs under way, and the events that people may watch.
 *
 * Place: service; a loop task, and a blocking one (keeper) that removes old runs and, in a drain,
 * stops those under way in time. */
#include <string.h>

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

enum {
    TICK_MS = 1000,
    RETIRE_MS = 60000,
    SPARE_MS = 300, /* of a drain, for runs that are told to stop; it has 1000 at least */
};

/* ---- events ---------------------------------------------------------------------------------- */

struct rwd_health {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    struct rwd_settle *settle;
    struct ron_need *need_ledger;
    struct ron_need *need_queue;
    uint64_t next_tick_ms;
};

/* ---- needs ----------------------------------------------------------------------------------- */

static void look_at_queues(struct rwd_health *s)
{
    struct ron_chan *const queues[] = {s->pipes->work_req, s->pipes->work, s->pipes->results,
                                       s->pipes->intents};
    bool full = false;

    for (size_t i = 0; i < RON_ARRAY_LEN(queues); i++) {
        struct ron_chan_stats stats;

        ron_chan_get_stats(queues[i], &stats);
        full = full || stats.depth >= ron_chan_capacity(queues[i]);
    }
    ron_need_set(s->need_queue, full ? RON_NEED_MISSING : RON_NEED_OK,
                 full ? "a queue is full" : "", 1);
}

static void look_at_ledger(struct rwd_health *s)
{
    struct ron_breaker_stats stats;
    bool withheld = ron_au32_load(&s->pipes->withheld) > 0;
    bool open;

    lc_ledgers_stats(&s->settle->payers, &stats);
    open = stats.state == RON_BREAKER_IS_OPEN;
    if (open || withheld) {
        ron_need_set(s->need_ledger, RON_NEED_MISSING,
                     open ? "the ledger does not answer" : "settlements wait for the ledger", 5);
    } else {
        ron_need_set(s->need_ledger, RON_NEED_OK, "", 0);
    }
}

/* ---- the reporter ---------------------------------------------------------------------------- */

static enum ron_rc tick(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct rwd_health *s = arg;
    uint64_t now_ms = ron_task_now_ms(t);

    (void)items;
    (void)count;
    if (s->next_tick_ms == 0) {
        s->next_tick_ms = now_ms;
    }
    if (now_ms >= s->next_tick_ms) {
        look_at_queues(s);
        look_at_ledger(s);
        rwd_tell_progress(s->core, s->store->runs);
        if (ron_au32_load(&s->pipes->withheld) > 0 || ron_au32_load(&s->pipes->overlooked) != 0) {
            rwd_emitter_remind(s->pipes, "");
        }
        rwd_count(s->core, RWD_M_TICKS, 1);
        s->next_tick_ms += TICK_MS * ((now_ms - s->next_tick_ms) / TICK_MS + 1);
    }
    ron_task_wake_at(t, s->next_tick_ms);
    return RON_OK;
}

/* ---- retention ------------------------------------------------------------------------------- */

static void remove_files(void *arg, const char *epoch)
{
    struct rwd_health *s = arg;
    struct ron_err err = {0};
    struct ron_str name = {epoch, strlen(epoch)};

    if (rwd_run_remove(s->store->disk_env, s->store->artifact_dir, name, &err) != RON_OK) {
        RON_LOG(s->core->log, WARN, "an old run could not be removed", RON_LOG_STR("epoch", epoch),
                RON_LOG_ERR(&err));
    }
    rwd_runs_forget(s->store->runs, name);
}

static void retire(struct rwd_health *s)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(s->core->app));
    uint64_t keep_ms = (uint64_t)ron_conf_ms(conf, RWD_RETAIN);
    uint64_t now_ms = ron_env_wall_ms(s->core->env);
    struct ron_err err = {0};

    ron_conf_unref(conf);
    if (now_ms > keep_ms &&
        rwd_book_retire(s->store->book, now_ms - keep_ms, remove_files, s, &err) != RON_OK) {
        RON_LOG(s->core->log, WARN, "old runs could not be removed", RON_LOG_ERR(&err));
    }
}

/* How long old runs may stay unnoticed. */
static uint64_t look_ms(struct rwd_health *s)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(s->core->app));
    uint64_t keep_ms = (uint64_t)ron_conf_ms(conf, RWD_RETAIN);

    ron_conf_unref(conf);
    return RON_MIN(keep_ms, (uint64_t)RETIRE_MS);
}

/* A run of many rows does not wait for anything, so nobody could abort it: shortly before the
 * drain's deadline it is told to stop, and the next life takes it up again. */
static void stop_runs(struct rwd_health *s, struct ron_task *t)
{
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t wait_ms = (uint64_t)ron_conf_ms(s->core->conf, RON_APP_DRAIN_DEADLINE) - SPARE_MS;
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);

    if (value == RON_TASK_GO &&
        ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_env_now_ns(s->core->env), wait_ms),
                       &value, &seen) == RON_TIMEOUT) {
        rwd_runs_cancel(s->store->runs);
        RON_IGNORE(ron_watch_wait(stop, seen, ron_deadline_never(), &value, &seen));
    }
}

static enum ron_rc keep(struct ron_task *t, void *arg)
{
    struct rwd_health *s = arg;
    struct ron_watch *shutdown = ron_sup_shutdown(ron_app_sup(s->core->app));
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(shutdown, &seen);
    uint64_t retired_ns = 0;

    while (value < RON_SUP_DRAINING) {
        uint64_t now_ns = ron_env_now_ns(s->core->env);

        if (retired_ns == 0 || now_ns - retired_ns >= look_ms(s) * RON_NS_PER_MS) {
            retired_ns = now_ns;
            retire(s);
        }
        if (ron_au32_load(&s->pipes->left) != 0) {
            rwd_resume(s->pipes);
        }
        RON_IGNORE(ron_watch_wait(shutdown, seen,
                                  ron_deadline_after_ms(ron_env_now_ns(s->core->env),
                                                        RON_MIN(look_ms(s), (uint64_t)TICK_MS)),
                                  &value, &seen));
    }
    stop_runs(s, t);
    return RON_OK;
}

enum ron_rc rwd_health_add(struct rwd_pipes *p, struct rwd_settle *settle, struct rwd_health **ret,
                           struct ron_err *err)
{
    struct rwd_health *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the health reporter");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    s->settle = settle;
    RON_TRY(ron_needs_add(ron_app_needs(p->core->app), "ledger_ok", false, &s->need_ledger, err));
    RON_TRY(ron_needs_add(ron_app_needs(p->core->app), "queue_ok", false, &s->need_queue, err));
    RON_TRY(ron_sup_add(ron_app_sup(s->core->app),
                        &(struct ron_task_def){.name = "keeper",
                                               .kind = "keeper",
                                               .mode = RON_TASK_BLOCKING,
                                               .stage = 6,
                                               .run = keep,
                                               .arg = s},
                        NULL, err));
    return ron_sup_add(ron_app_sup(s->core->app),
                       &(struct ron_task_def){.name = "health_reporter",
                                              .kind = "reporter",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 6,
                                              .handle = tick,
                                              .arg = s},
                       NULL, err);
}
