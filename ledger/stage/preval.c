/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/preval.c - the prevalidators as tasks, and the ways between the stages.
 *
 * Place: service; N loop tasks on the channel "ingress", which run where the request was read, so
 * that a lone one goes from front to sequencer without a wake-up. A large request is worth one: it
 * goes to the channel "batches" and there to a task of a worker that is idle, so that one batch is
 * prevalidated while the one before it is sequenced.
 *
 * The tasks never wait: a remote guard is asked and the work comes back through the same channel;
 * what needs the journal goes to the readers. */
#include <stdio.h>

#include "ledger/svc.h"

enum {
    LONE_SYNC_NS = 500 * 1000, /* of slower ones a wake-up is less than a tenth */
    /* Bytes of a large request: a hundred entries, whose prevalidation takes several times as long
     * as a wake-up. */
    LARGE = 16384,
};

static void refuse(struct led_work *w, enum led_reason reason, const char *detail)
{
    led_work_refuse(w, reason, "", detail);
    led_work_done(w);
}

/* ---- ways ------------------------------------------------------------------------------------ */

uint64_t led_svc_awake_ns(struct led_svc *s, const struct led_work *w)
{
    uint64_t sync_ns = ron_au64_load(&s->sync_ns);

    return w->lone && w->in.len < LARGE && sync_ns <= LONE_SYNC_NS ? s->awake_ns : 0;
}

static void await_answer(struct led_svc *s, const struct led_work *w)
{
    uint64_t awake_ns = led_svc_awake_ns(s, w);

    if (awake_ns != 0) {
        ron_worker_stay_awake(w->received_ns + ron_au64_load(&s->sync_ns) + awake_ns);
    }
}

static struct ron_chan *entrance(struct led_svc *s, const struct led_work *w)
{
    return w->in.len < LARGE ? s->ingress : s->batches;
}

enum ron_rc led_svc_submit(struct led_svc *s, struct led_work *w)
{
    await_answer(s, w);
    return ron_chan_try_send(entrance(s, w), w, NULL);
}

void led_svc_validated(struct led_svc *s, struct led_work *w)
{
    void *evicted = NULL;

    if (ron_chan_try_send(s->validated, w, &evicted) != RON_OK) {
        refuse(w, LED_REASON_DRAINING, "the ledger is shutting down");
        return;
    }
    if (evicted != NULL) {
        led_metrics_dropped(s);
        refuse(evicted, LED_REASON_BUSY, "newer requests took its place in the queue");
    }
}

/* Through the sequencer, which adds what it knows of recent entries. */
void led_svc_look_up(struct led_svc *s, struct led_work *w)
{
    struct led_query *q = led_query_get(s->queries);
    enum ron_rc rc;

    if (q == NULL) {
        refuse(w, LED_REASON_BUSY, "too many requests wait for the journal");
        return;
    }
    q->ask = LED_ASK_WORK;
    q->work = w;
    rc = ron_chan_try_send(s->asks, q, NULL);
    if (rc != RON_OK) {
        led_query_refuse(s->queries, q, rc == RON_CLOSED ? LED_REASON_DRAINING : LED_REASON_BUSY,
                         "too many requests wait for the journal");
    }
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static void go_on(struct led_svc *s, struct led_work *w, enum led_next next)
{
    switch (next) {
    case LED_NEXT_SEQUENCER:
        led_svc_validated(s, w);
        break;
    case LED_NEXT_READERS:
        led_svc_look_up(s, w);
        break;
    case LED_NEXT_REMOTE:
        led_svc_remote_ask(s, w);
        break;
    case LED_NEXT_ANSWER:
        led_work_done(w);
        break;
    }
}

static enum ron_rc preval_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_svc *s = arg;
    uint64_t now_ms = ron_env_wall_ms(s->env);

    bool leased = led_svc_mode(s) == LED_RUNNING && led_svc_lease(s);
    bool open = leased && s->preval.index != NULL;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct led_work *w = items[i];
        uint64_t from_ns = ron_env_now_ns(s->env);
        enum led_next next;

        if (!open) {
            refuse(w, led_svc_stopped_reason(s), "writes are stopped");
            continue;
        }
        if (!led_svc_of_engine(s, w)) {
            refuse(w, LED_REASON_SAFE_MODE, "the journal was opened anew");
            continue;
        }
        w->preval_ns = w->preval_ns != 0 ? w->preval_ns : from_ns;
        next = led_preval_step(&s->preval, w, now_ms);
        if (next != LED_NEXT_REMOTE) {
            led_metrics_prevalidated(s, w);
        }
        led_trace_stage(s, w, "prevalidator", ron_chan_name(entrance(s, w)), from_ns);
        go_on(s, w, next);
    }
    if (leased) {
        led_svc_unlease(s);
    }
    return RON_OK;
}

/* `worker`: where it runs, or RON_WORKER_ANY. */
static enum ron_rc add_task(struct led_svc *s, uint32_t place, const char *kind, uint32_t number,
                            struct ron_chan *input, int32_t worker, struct ron_err *err)
{
    char *full = s->task_names[place];

    (void)snprintf(full, sizeof s->task_names[place], "%s-%u", kind, number);
    return ron_sup_add(ron_app_sup(s->app),
                       &(struct ron_task_def){.name = full,
                                              .kind = kind,
                                              .mode = RON_TASK_LOOP,
                                              .worker = worker,
                                              .stage = 1,
                                              .input = input,
                                              .batch_max = worker == RON_WORKER_ANY ? 0 : 1,
                                              .handle = preval_handle,
                                              .arg = s},
                       NULL, err);
}

enum ron_rc led_stage_preval_add(struct led_svc *s, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(s->conf, LED_PREVALIDATORS);

    count = count != 0 ? count : RON_MAX(2U, s->cpus / 2);
    for (uint32_t i = 0; i < count; i++) {
        RON_TRY(add_task(s, i, "prevalidator", i, s->ingress, RON_WORKER_ANY, err));
    }
    for (uint32_t i = 0; i < s->cpus; i++) {
        RON_TRY(add_task(s, count + i, "batches", i, s->batches, (int32_t)i, err));
    }
    return RON_OK;
}
