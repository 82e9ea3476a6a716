/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/resume.c - runs that the book knows and nobody computes: taken up again, or given
 * back.
 *
 * Place: service; called by the scheduler at the start, for what an earlier life left, and by the
 * keeper whenever `left` says that a run ended and the book could not be told (disk full, database
 * away): so each run that was accepted completes or is given back, without anybody asking.
 *
 * Order: the run registry first, then the book once more. Who is in the registry is alone with the
 * epoch, so what the book then says holds. */
#include <string.h>

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

enum { LOOK_MS = 20 }; /* for room among the runs and for the workers */

/* Whether trying again is in vain. */
static bool is_lost(enum ron_rc rc)
{
    return rc != RON_IO && rc != RON_LIMIT && rc != RON_NOMEM && rc != RON_FULL;
}

static bool goes_on(struct rwd_pipes *p)
{
    return ron_watch_value(ron_sup_shutdown(ron_app_sup(p->core->app))) < RON_SUP_DRAINING;
}

/* Waits for room in the registry: what was accepted is never given up for lack of it. */
static enum ron_rc begin(struct rwd_pipes *p, const struct rwd_epoch *e, struct rwd_live **ret_live)
{
    struct ron_str epoch = {e->request.epoch, strlen(e->request.epoch)};
    enum ron_rc rc = RON_FULL;

    while (rc == RON_FULL && goes_on(p)) {
        rc = rwd_runs_begin(p->store->runs, epoch, &e->request.run_key, false, e->created_ms,
                            ret_live);
        if (rc == RON_FULL) {
            rwd_pause(p->core, LOOK_MS);
        }
    }
    return rc;
}

/* What the book says now. RON_NOTFOUND: there is nothing left to take up. */
static enum ron_rc look_again(struct rwd_pipes *p, struct rwd_epoch *e, struct ron_err *err)
{
    struct ron_b3 run_key = e->request.run_key;
    struct ron_str epoch = {e->request.epoch, strlen(e->request.epoch)};
    struct rwd_epoch now = {0};

    RON_TRY(rwd_book_get(p->store->book, epoch, &now, err));
    if ((now.state != RWD_RESERVED && now.state != RWD_COMPUTING) ||
        !ron_b3_equal(&now.request.run_key, &run_key)) {
        return ron_err_set(err, RON_NOTFOUND, "the epoch went on without us");
    }
    *e = now;
    return RON_OK;
}

/* A job for what the book says was begun; NULL with `err`. */
static struct rwd_job *job_again(struct rwd_pipes *p, const struct rwd_epoch *e,
                                 struct ron_err *err)
{
    struct ron_str id = {e->request.policy_id, strlen(e->request.policy_id)};
    struct rwd_policy_doc *policy = NULL;
    struct ron_cas_obj *inputs = NULL;
    struct rwd_job *job;

    if (rwd_policy_known(p->store, id, &e->request.policy_hash, &policy, err) != RON_OK) {
        return NULL;
    }
    if (ron_cas_open(p->store->inputs, &e->request.inputs_cid, &inputs, err) != RON_OK) {
        rwd_policy_free(policy);
        return NULL;
    }
    job = rwd_job_new(policy, inputs, &e->request);
    if (job == NULL) {
        RON_IGNORE(ron_err_set(err, RON_NOMEM, "no memory for the run"));
    } else if (rwd_job_find_carry(p->store, job, err) != RON_OK) {
        rwd_job_free(job);
        job = NULL;
    }
    return job;
}

/* Waits until the workers have room. The book keeps what a shutdown leaves here. */
static void hand_over(struct rwd_pipes *p, struct rwd_job *take_job)
{
    struct rwd_live *live = take_job->live;
    enum ron_rc rc = RON_FULL;

    while (rc == RON_FULL && goes_on(p)) {
        rc = ron_chan_try_send(p->work, take_job, NULL);
        if (rc == RON_FULL) {
            rwd_pause(p->core, LOOK_MS);
        }
    }
    if (rc != RON_OK) {
        rwd_runs_undo(p->store->runs, live);
        rwd_job_free(take_job);
    }
}

static void not_taken_up(struct rwd_pipes *p, const struct rwd_epoch *e, const struct ron_err *err)
{
    bool lost = is_lost(err->rc);

    RON_LOG(p->core->log, ERROR, "a run cannot be taken up again",
            RON_LOG_STR("epoch", e->request.epoch), RON_LOG_BOOL("epoch_is_free", lost),
            RON_LOG_ERR(err));
    if (lost) {
        RON_IGNORE(
            rwd_epoch_give_back(p, (struct ron_str){e->request.epoch, strlen(e->request.epoch)}));
    } else {
        ron_au32_store(&p->left, 1);
    }
}

static void resume(struct rwd_pipes *p, struct rwd_epoch *e)
{
    struct rwd_live *live = NULL;
    struct rwd_job *job = NULL;
    struct ron_err err = {0};
    struct ron_conf_snap *conf;
    enum ron_rc rc = begin(p, e, &live);

    if (rc != RON_OK) { /* it is under way, or we end */
        if (rc == RON_NOMEM) {
            ron_au32_store(&p->left, 1);
        }
        return;
    }
    rc = look_again(p, e, &err);
    job = rc == RON_OK ? job_again(p, e, &err) : NULL;
    if (job == NULL) {
        if (rc != RON_NOTFOUND) {
            not_taken_up(p, e, &err);
        }
        rwd_runs_undo(p->store->runs, live);
        return;
    }
    conf = ron_conf_box_get(ron_app_conf_box(p->core->app));
    job->live = live;
    job->deadline = ron_deadline_after_ms(ron_env_now_ns(p->core->env),
                                          (uint64_t)ron_conf_ms(conf, RWD_EPOCH_DURATION) / 2);
    ron_conf_unref(conf);
    rwd_tell(p->core, RWD_EVENT_STARTED, e->request.epoch, &e->request.run_key, false, 0, 0, "");
    RON_LOG(p->core->log, INFO, "a run is taken up again", RON_LOG_STR("epoch", e->request.epoch));
    hand_over(p, job);
}

static void resume_all(struct rwd_pipes *p, enum rwd_state state)
{
    enum { PAGE = 16 };
    struct rwd_epoch *found = ron_alloc(PAGE * sizeof *found);
    char after[RWD_EPOCH_MAX + 1] = "";
    struct ron_err err = {0};
    size_t count = PAGE;

    if (found == NULL) {
        ron_au32_store(&p->left, 1);
    }
    while (found != NULL && count == PAGE && goes_on(p)) {
        if (rwd_book_list(p->store->book, (struct ron_str){after, strlen(after)}, state, found,
                          PAGE, &count, &err) != RON_OK) {
            RON_LOG(p->core->log, ERROR, "the book cannot be read", RON_LOG_ERR(&err));
            ron_au32_store(&p->left, 1);
            break;
        }
        for (size_t i = 0; i < count; i++) {
            memcpy(after, found[i].request.epoch, sizeof after);
            resume(p, &found[i]);
        }
    }
    ron_free(found);
}

void rwd_resume(struct rwd_pipes *p)
{
    ron_au32_store(&p->left, 0);
    resume_all(p, RWD_COMPUTING); /* first: workers soon move reserved ones there */
    resume_all(p, RWD_RESERVED);
}
