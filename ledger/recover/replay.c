/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/replay.c - frames on their way through a replay, on one thread or two; the
 * contract is in replay.h.
 *
 *     caller   fill ──► filled ─┐                      ┌─► apply ──► free
 *     thread                    └─► prepare ► prepared ┘
 *
 * Jobs are a ring. Each belongs to the caller, but for those between `prepared` and `filled`, which
 * belong to the thread; the counters change under the lock alone. */
#include "ledger/recover/replay.h"

#include "ledger/recover/replay_job.h"
#include "ron/base/alloc.h"
#include "ron/sync/sync.h"

enum { JOBS = 4 }; /* one is filled, one prepared, one applied, one lies between */

struct led_replay {
    struct led_replay_opts opts;
    struct led__ahead ahead;
    struct led__behind behind;
    struct led__job jobs[JOBS];

    /* `parallel` only. */
    struct ron_mutex lock;
    struct ron_cond changed;
    struct ron_thread *thread;
    uint64_t filled; /* jobs handed to the thread; under the lock */
    uint64_t prepared;
    uint64_t applied; /* the caller's own */
    bool stop;
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void prepare_all(void *arg)
{
    struct led_replay *p = arg;
    bool failed = false;

    ron_mutex_lock(&p->lock);
    for (;;) {
        struct led__job *job;

        while (p->prepared == p->filled && !p->stop) {
            (void)ron_cond_wait_until(&p->changed, &p->lock, ron_deadline_never());
        }
        if (p->stop) {
            break;
        }
        job = &p->jobs[p->prepared % JOBS];
        ron_mutex_unlock(&p->lock);
        /* Behind a job that failed nothing makes sense; the caller stops there. */
        job->rc = failed ? RON_CLOSED : led__job_prepare(&p->ahead, job, &job->err);
        failed = job->rc != RON_OK;
        ron_mutex_lock(&p->lock);
        p->prepared++;
        ron_cond_broadcast(&p->changed);
    }
    ron_mutex_unlock(&p->lock);
}

static enum ron_rc start_thread(struct led_replay *p, struct ron_err *err)
{
    return ron_thread_start(
        &(struct ron_thread_opts){
            .name = "led-replay", .may_block = true, .main = prepare_all, .arg = p},
        &p->thread, err);
}

static void stop_thread(struct led_replay *p)
{
    if (p->thread == NULL) {
        return;
    }
    ron_mutex_lock(&p->lock);
    p->stop = true;
    ron_cond_broadcast(&p->changed);
    ron_mutex_unlock(&p->lock);
    ron_thread_join(p->thread);
    p->thread = NULL;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static enum ron_rc apply_oldest(struct led_replay *p, struct ron_err *err)
{
    struct led__job *job = &p->jobs[p->applied % JOBS];
    enum ron_rc rc = job->rc;

    if (rc != RON_OK) {
        if (err != NULL) {
            *err = job->err;
        }
        return rc;
    }
    rc = led__job_apply(&p->behind, job, err);
    led__job_clear(job);
    p->applied++;
    return rc;
}

/* Applies what is prepared; waits until at most `left` jobs are with the thread or prepared. */
static enum ron_rc apply_some(struct led_replay *p, uint64_t left, struct ron_err *err)
{
    for (;;) {
        bool ready;

        ron_mutex_lock(&p->lock);
        while (p->prepared == p->applied && p->filled - p->applied > left) {
            (void)ron_cond_wait_until(&p->changed, &p->lock, ron_deadline_never());
        }
        ready = p->prepared != p->applied;
        ron_mutex_unlock(&p->lock);
        if (!ready) {
            return RON_OK;
        }
        RON_TRY(apply_oldest(p, err));
    }
}

static void hand_over(struct led_replay *p)
{
    ron_mutex_lock(&p->lock);
    p->filled++;
    ron_cond_broadcast(&p->changed);
    ron_mutex_unlock(&p->lock);
}

static enum ron_rc replay_parallel(struct led_replay *p, const struct led_frame *frame,
                                   struct ron_err *err)
{
    struct led__job *job = &p->jobs[p->filled % JOBS];

    RON_TRY(led__job_add(job, frame, err));
    if (!led__job_full(job)) {
        return RON_OK;
    }
    hand_over(p);
    return apply_some(p, JOBS - 1, err);
}

static enum ron_rc replay_plain(struct led_replay *p, const struct led_frame *frame,
                                struct ron_err *err)
{
    struct led__job *job = &p->jobs[0];

    led__job_clear(job);
    RON_TRY(led__job_add(job, frame, err));
    RON_TRY(led__job_prepare(&p->ahead, job, err));
    return led__job_apply(&p->behind, job, err);
}

enum ron_rc led_replay_frame(void *arg, const struct led_frame *frame, const char *where,
                             struct ron_err *err)
{
    struct led_replay *p = arg;

    (void)where;
    return p->opts.parallel ? replay_parallel(p, frame, err) : replay_plain(p, frame, err);
}

enum ron_rc led_replay_end(struct led_replay *p, struct led_replay_result *ret, struct ron_err *err)
{
    if (p->opts.parallel) {
        if (p->jobs[p->filled % JOBS].frame_count > 0) {
            hand_over(p);
        }
        RON_TRY(apply_some(p, 0, err));
        stop_thread(p);
    }
    RON_TRY(led__behind_end(&p->behind, &p->ahead.tree, err));
    *ret = (struct led_replay_result){.tree = p->ahead.tree,
                                      .entries = p->behind.entries,
                                      .indexed_seq = p->behind.indexed_seq,
                                      .started = p->ahead.started};
    return RON_OK;
}

bool led_replay_derived_bad(struct led_replay *p)
{
    stop_thread(p); /* It may own what is asked for. */
    return p->ahead.derived_bad || p->behind.derived_bad;
}

bool led_replay_index_failed(struct led_replay *p)
{
    stop_thread(p);
    return p->behind.index_failed;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led_replay_new(const struct led_replay_opts *opts, struct led_replay **ret_replay,
                           struct ron_err *err)
{
    struct led_replay *p = ron_alloc_zero(sizeof *p);
    enum ron_rc rc;

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a replay");
    }
    p->opts = *opts;
    p->ahead.opts = &p->opts;
    ron_tree_init(&p->ahead.tree);
    ron_mutex_init(&p->lock, RON_RANK_LEAF, "led-replay");
    ron_cond_init(&p->changed);
    rc = led__behind_init(&p->behind, &p->opts, err);
    for (size_t i = 0; i < JOBS && rc == RON_OK; i++) {
        rc = led__job_init(&p->jobs[i]);
        if (rc != RON_OK) {
            (void)ron_err_set(err, rc, "no memory for a replay");
        }
    }
    if (rc == RON_OK && p->opts.parallel) {
        rc = start_thread(p, err);
    }
    if (rc != RON_OK) {
        led_replay_free(p);
        return rc;
    }
    *ret_replay = p;
    return RON_OK;
}

void led_replay_free(struct led_replay *p)
{
    if (p == NULL) {
        return;
    }
    stop_thread(p);
    for (size_t i = 0; i < JOBS; i++) {
        led__job_done(&p->jobs[i]);
    }
    led__behind_done(&p->behind);
    ron_cond_done(&p->changed);
    ron_mutex_done(&p->lock);
    ron_free(p);
}
