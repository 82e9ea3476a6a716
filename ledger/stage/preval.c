/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/preval.c - the prevalidators as tasks.
 *
 * Place: service; N loop tasks on the channel "ingress", which run where the request was read, so
 * that a lone one goes from front to sequencer without a wake-up. A large request is worth one: it
 * goes to the channel "batches" and there to a task of a worker that is idle, so that one batch is
 * prevalidated while the one before it is sequenced.
 *
 * The tasks never wait: a remote guard is asked and the work comes back through the same channel;
 * what needs the journal goes to the readers. */
#include <stdio.h>

#include "ledger/core/metrics.h"
#include "ledger/core/trace.h"
#include "ledger/stage/stage.h"
#include "ron/base/assert.h"

static void refuse(struct led_work *w, enum led_reason reason, const char *detail)
{
    led_work_refuse(w, reason, "", detail);
    led_work_done(w);
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static void go_on(struct led_preval_stage *st, struct led_work *w, enum led_next next)
{
    switch (next) {
    case LED_NEXT_SEQUENCER:
        led_pipes_validated(st->pipes, w);
        break;
    case LED_NEXT_READERS:
        led_pipes_look_up(st->pipes, w);
        break;
    case LED_NEXT_REMOTE:
        led_stage_remote_ask(st, w);
        break;
    case LED_NEXT_ANSWER:
        led_work_done(w);
        break;
    }
}

static enum ron_rc preval_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_preval_stage *st = RON_OBJ(arg, struct led_preval_stage, LED_PREVAL_STAGE_MAGIC);
    uint64_t now_ms = ron_env_wall_ms(st->engine->env);

    bool leased = led_engine_mode(st->engine) == LED_RUNNING && led_engine_lease(st->engine);
    bool open = leased && st->engine->preval.index != NULL;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct led_work *w = RON_OBJ(items[i], struct led_work, LED_WORK_MAGIC);
        uint64_t from_ns = ron_env_now_ns(st->engine->env);
        enum led_next next;

        if (!open) {
            refuse(w, led_engine_stopped_reason(st->engine), "writes are stopped");
            continue;
        }
        if (!led_engine_has(st->engine, w)) {
            refuse(w, LED_REASON_SAFE_MODE, "the journal was opened anew");
            continue;
        }
        w->preval_ns = w->preval_ns != 0 ? w->preval_ns : from_ns;
        next = led_preval_step(&st->engine->preval, w, now_ms);
        if (next != LED_NEXT_REMOTE) {
            led_metrics_prevalidated(st->core->metrics, w);
        }
        led_trace_stage(st->core->tracer, w, "prevalidator",
                        ron_chan_name(led_pipes_entrance(st->pipes, w)), from_ns);
        go_on(st, w, next);
    }
    if (leased) {
        led_engine_unlease(st->engine);
    }
    return RON_OK;
}

/* `worker`: where it runs, or RON_WORKER_ANY. */
static enum ron_rc add_task(struct led_preval_stage *st, uint32_t place, const char *kind,
                            uint32_t number, struct ron_chan *input, int32_t worker,
                            struct ron_err *err)
{
    char *full = st->names[place];

    (void)snprintf(full, sizeof st->names[place], "%s-%u", kind, number);
    return ron_sup_add(ron_app_sup(st->core->app),
                       &(struct ron_task_def){.name = full,
                                              .kind = kind,
                                              .mode = RON_TASK_LOOP,
                                              .worker = worker,
                                              .stage = 1,
                                              .input = input,
                                              .batch_max = worker == RON_WORKER_ANY ? 0 : 1,
                                              .handle = preval_handle,
                                              .arg = st},
                       NULL, err);
}

enum ron_rc led_stage_preval_add(struct led_preval_stage *st, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(st->core->conf, LED_PREVALIDATORS);

    st->magic = LED_PREVAL_STAGE_MAGIC;
    count = count != 0 ? count : RON_MAX(2U, st->pipes->cpus / 2);
    for (uint32_t i = 0; i < count; i++) {
        RON_TRY(add_task(st, i, "prevalidator", i, st->pipes->ingress, RON_WORKER_ANY, err));
    }
    for (uint32_t i = 0; i < st->pipes->cpus; i++) {
        RON_TRY(add_task(st, count + i, "batches", i, st->pipes->batches, (int32_t)i, err));
    }
    return RON_OK;
}
