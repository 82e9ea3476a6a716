/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/health.c - the task that turns pressure into readiness.
 *
 * Place: service; a loop task on a timer. Not ready: the commit queue is nine tenths full, or the
 * committer has not finished anything for LAG_MAX_MS although works wait. Degraded: a remote guard
 * whose breaker is open. Safe mode, disk and index set their needs themselves. */
#include <stdio.h>

#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    HEALTH_EVERY_MS = 250,
    LAG_MAX_MS = 2000, /* ten times the slowest sync of a healthy disk */
};

static void look(struct led_health_stage *st, uint64_t now_ms)
{
    struct ron_chan_stats commit;
    uint64_t capacity = ron_chan_capacity(st->pipes->commit);
    uint64_t durable = ron_au64_load(&st->news->durable_works);
    char cause[64];

    ron_chan_get_stats(st->pipes->commit, &commit);
    if (durable != st->durable_seen || commit.depth == 0) {
        st->durable_seen = durable;
        st->moved_ms = now_ms;
    }
    if (commit.depth * 10 >= capacity * 9) {
        (void)snprintf(cause, sizeof cause, "commit_queue_high: %u of %u", (unsigned)commit.depth,
                       (unsigned)capacity);
        ron_need_set(st->need_commit, RON_NEED_MISSING, cause, 1);
    } else if (now_ms - st->moved_ms > LAG_MAX_MS) {
        (void)snprintf(cause, sizeof cause, "committer_lag_ms: %u",
                       (unsigned)(now_ms - st->moved_ms));
        ron_need_set(st->need_commit, RON_NEED_MISSING, cause, 1);
    } else if (ron_need_state(st->need_commit) != RON_NEED_OK) {
        ron_need_set(st->need_commit, RON_NEED_OK, "", 0);
    }
}

static enum ron_rc health_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_health_stage *st = RON_OBJ(arg, struct led_health_stage, LED_HEALTH_STAGE_MAGIC);
    uint64_t now_ms = ron_task_now_ms(t);

    (void)items;
    (void)count;
    look(st, now_ms);
    led_gate_look(st->gate);
    ron_task_wake_at(t, now_ms + HEALTH_EVERY_MS);
    return RON_OK;
}

static enum ron_rc health_start(struct ron_task *t, void *arg)
{
    struct led_health_stage *st = RON_OBJ(arg, struct led_health_stage, LED_HEALTH_STAGE_MAGIC);

    st->moved_ms = ron_task_now_ms(t);
    ron_task_wake(t);
    return RON_OK;
}

enum ron_rc led_stage_health_add(struct led_health_stage *st, struct ron_err *err)
{
    st->magic = LED_HEALTH_STAGE_MAGIC;
    return ron_sup_add(ron_app_sup(st->core->app),
                       &(struct ron_task_def){.name = "health",
                                              .kind = "health",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 5,
                                              .start = health_start,
                                              .handle = health_handle,
                                              .arg = st},
                       NULL, err);
}
