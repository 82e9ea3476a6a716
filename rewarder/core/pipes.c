/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/pipes.c - the channels between the tasks, from build to the last message. */
#include "rewarder/core/pipes.h"

#include <string.h>

#include "ron/base/alloc.h"

/* ---- what is left in a queue at the very end ------------------------------------------------- */

static void drop_work_req(void *item, void *arg)
{
    struct rwd_work_req *w = item;
    struct rwd_fault fault;

    (void)arg;
    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(w->reply, &fault);
    ron_free(w);
}

static void drop_work(void *item, void *arg)
{
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_job_failed(arg, item, &fault);
}

static void drop_result(void *item, void *arg)
{
    rwd_outcome_drop(arg, item);
}

static void drop_intent(void *item, void *arg)
{
    (void)arg; /* the book knows it: it resumes with the next start */
    ron_free(item);
}

static void drop_read(void *item, void *arg)
{
    struct rwd_read *r = item;
    struct rwd_fault fault;

    (void)arg;
    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(r->reply, &fault);
    ron_free(r);
}

static void drop_upload(void *item, void *arg)
{
    struct rwd_upload *u = item;
    struct rwd_fault fault;

    (void)arg;
    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(u->reply, &fault);
    ron_free(u);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc rwd_pipes_open(struct rwd_pipes *p, struct rwd_core *core, struct rwd_store *store,
                           struct ron_err *err)
{
    const struct {
        const char *name;
        const char *producers;
        const char *consumers;
        const char *drop_text;
        int64_t capacity;
        enum ron_chan_policy policy;
        void (*drop)(void *item, void *arg);
        struct ron_chan **ret;
    } rows[] = {
        {"work_req", "http", "scheduler", "answered 429 busy; busy_rejections_total",
         ron_conf_int(core->conf, RWD_Q_WORK_REQ), RON_CHAN_REJECT, drop_work_req, &p->work_req},
        {"work", "scheduler, failing workers", "workers",
         "tried again once after 50-150 ms, then 503; queue_dropped_total",
         ron_conf_int(core->conf, RWD_Q_WORK), RON_CHAN_RETRY_ONCE, drop_work, &p->work},
        {"results", "workers", "writer", "workers wait; left at the end: dropped_results_total",
         ron_conf_int(core->conf, RWD_Q_RESULTS), RON_CHAN_WAIT, drop_result, &p->results},
        {"intents", "workers", "emitter", "workers wait; no room in time quarantines the epoch",
         ron_conf_int(core->conf, RWD_Q_INTENTS), RON_CHAN_WAIT, drop_intent, &p->intents},
        {"reads", "http", "readers", "answered 429 busy; busy_rejections_total", RWD_Q_READS,
         RON_CHAN_REJECT, drop_read, &p->reads},
        {"uploads", "http", "uploads", "answered 429 busy; busy_rejections_total", RWD_Q_UPLOADS,
         RON_CHAN_REJECT, drop_upload, &p->uploads},
    };

    p->core = core;
    p->store = store;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = ron_app_registry(core->app),
                                                     .env = core->env,
                                                     .name = rows[i].name,
                                                     .producers = rows[i].producers,
                                                     .consumers = rows[i].consumers,
                                                     .drop_text = rows[i].drop_text,
                                                     .capacity = (uint32_t)rows[i].capacity,
                                                     .policy = rows[i].policy,
                                                     .wake_batch = 1,
                                                     .drop = rows[i].drop,
                                                     .drop_arg = p},
                             rows[i].ret, err));
    }
    return RON_OK;
}

void rwd_pipes_close(struct rwd_pipes *p)
{
    struct ron_chan *const all[] = {p->work_req, p->work,  p->results,
                                    p->intents,  p->reads, p->uploads};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (all[i] != NULL) {
            ron_chan_free(all[i]);
        }
    }
}

void rwd_emitter_remind(struct rwd_pipes *p, const char *epoch)
{
    struct rwd_intent *reminder = ron_alloc_zero(sizeof *reminder);

    if (reminder != NULL) {
        memcpy(reminder->epoch, epoch, strlen(epoch) + 1);
        if (ron_chan_try_send(p->intents, reminder, NULL) == RON_OK) {
            return;
        }
    }
    /* A full queue has the emitter's attention already, and the health reporter reminds it. */
    ron_free(reminder);
    ron_au32_store(&p->overlooked, 1);
}
