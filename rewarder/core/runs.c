/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/runs.c - the run registry: a list, newest first. A thousand entries are looked
 * through in microseconds, and a run takes milliseconds. */
#include "rewarder/core/runs.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

struct rwd_runs {
    struct ron_mutex mu;
    struct rwd_live *newest;
    uint32_t count;
    uint32_t max;
};

enum ron_rc rwd_runs_new(uint32_t max, struct rwd_runs **ret_runs, struct ron_err *err)
{
    struct rwd_runs *r = ron_alloc_zero(sizeof *r);

    if (r == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the registry of runs");
    }
    ron_mutex_init(&r->mu, RON_RANK_SHARED, "rewarder.run_registry");
    r->max = max;
    *ret_runs = r;
    return RON_OK;
}

static void unref(struct rwd_live *live)
{
    if (ron_au32_add(&live->_refs, UINT32_MAX) == 1) { /* minus one */
        ron_free(live->_manifest);
        ron_free(live);
    }
}

void rwd_runs_free(struct rwd_runs *r)
{
    if (r == NULL) {
        return;
    }
    while (r->newest != NULL) {
        struct rwd_live *live = r->newest;

        r->newest = live->_next;
        RON_ASSERT(live->_waiter_count == 0); /* U4 */
        unref(live);
    }
    ron_mutex_done(&r->mu);
    ron_free(r);
}

/* ---- under the lock -------------------------------------------------------------------------- */

static bool is(const struct rwd_live *live, struct ron_str epoch, bool dry)
{
    return live->dry == dry && ron_str_is(epoch, live->epoch);
}

static struct rwd_live *find(struct rwd_runs *r, struct ron_str epoch, bool dry)
{
    for (struct rwd_live *live = r->newest; live != NULL; live = live->_next) {
        if (is(live, epoch, dry)) {
            return live;
        }
    }
    return NULL;
}

static void cut_out(struct rwd_runs *r, struct rwd_live *live)
{
    struct rwd_live **at = &r->newest;

    while (*at != live) {
        at = &(*at)->_next;
    }
    *at = live->_next;
    live->_next = NULL;
    r->count--;
}

/* The oldest that ended; NULL when all are under way. */
static struct rwd_live *oldest_ended(struct rwd_runs *r)
{
    struct rwd_live *found = NULL;

    for (struct rwd_live *live = r->newest; live != NULL; live = live->_next) {
        found = live->_ended ? live : found;
    }
    return found;
}

static void copy(const struct rwd_live *live, struct rwd_view *ret)
{
    memcpy(ret->epoch, live->epoch, sizeof ret->epoch);
    ret->run_key = live->run_key;
    ret->ended = live->_ended;
    ret->phase = (enum rwd_phase)ron_au32_load(&live->progress.phase);
    ret->rows_done = ron_au64_load(&live->progress.rows_done);
    ret->rows = ron_au64_load(&live->progress.rows);
    ret->began_ms = live->began_ms;
    ret->fault = live->_fault;
}

/* ---- life of a run --------------------------------------------------------------------------- */

static enum ron_rc enter(struct rwd_runs *r, struct rwd_live *live, struct rwd_live **ret_out)
{
    struct ron_str epoch = {live->epoch, strlen(live->epoch)};
    struct rwd_live *old = find(r, epoch, live->dry);

    if (old != NULL && !old->_ended) {
        return ron_b3_equal(&old->run_key, &live->run_key) ? RON_EXISTS : RON_CONFLICT;
    }
    if (old == NULL && r->count >= r->max) {
        old = oldest_ended(r);
        if (old == NULL) {
            return RON_FULL;
        }
    }
    if (old != NULL) {
        cut_out(r, old);
        *ret_out = old;
    }
    live->_next = r->newest;
    r->newest = live;
    r->count++;
    return RON_OK;
}

enum ron_rc rwd_runs_begin(struct rwd_runs *r, struct ron_str epoch, const struct ron_b3 *run_key,
                           bool dry, uint64_t now_ms, struct rwd_live **ret_live)
{
    struct rwd_live *live = ron_alloc_zero(sizeof *live);
    struct rwd_live *out = NULL;
    enum ron_rc rc;

    if (live == NULL) {
        return RON_NOMEM;
    }
    RON_ASSERT(epoch.len <= RWD_EPOCH_MAX);
    memcpy(live->epoch, epoch.ptr, epoch.len);
    live->run_key = *run_key;
    live->dry = dry;
    live->began_ms = now_ms;
    ron_au32_store(&live->_refs, 2); /* the registry's and the caller's */
    ron_mutex_lock(&r->mu);
    rc = enter(r, live, &out);
    ron_mutex_unlock(&r->mu);
    if (out != NULL) {
        unref(out);
    }
    if (rc != RON_OK) {
        ron_free(live);
        return rc;
    }
    *ret_live = live;
    return RON_OK;
}

size_t rwd_runs_end(struct rwd_runs *r, struct rwd_live *take_live, const struct rwd_fault *fault,
                    struct ron_str manifest, struct ron_http_reply *ret_waiters[RWD_WAITERS_MAX])
{
    char *text = manifest.len > 0 ? ron_alloc(manifest.len) : NULL;
    size_t count;

    if (text != NULL) { /* without memory the manifest is read from its file */
        memcpy(text, manifest.ptr, manifest.len);
    }
    ron_mutex_lock(&r->mu);
    RON_ASSERT(!take_live->_ended);
    take_live->_ended = true;
    take_live->_fault = *fault;
    take_live->_manifest = text;
    take_live->_manifest_len = text != NULL ? manifest.len : 0;
    ron_au32_store(&take_live->progress.phase, RWD_PHASE_SEALED);
    count = take_live->_waiter_count;
    for (size_t i = 0; i < count; i++) {
        ret_waiters[i] = take_live->_waiters[i];
    }
    take_live->_waiter_count = 0;
    ron_mutex_unlock(&r->mu);
    unref(take_live);
    return count;
}

void rwd_runs_undo(struct rwd_runs *r, struct rwd_live *take_live)
{
    ron_mutex_lock(&r->mu);
    RON_ASSERT(take_live->_waiter_count == 0);
    cut_out(r, take_live);
    ron_mutex_unlock(&r->mu);
    unref(take_live); /* the registry's */
    unref(take_live);
}

/* ---- looking --------------------------------------------------------------------------------- */

enum ron_rc rwd_runs_get(struct rwd_runs *r, struct ron_str epoch, bool dry,
                         struct rwd_view *ret_view, struct ron_buf *manifest)
{
    struct rwd_live *live;
    enum ron_rc rc = RON_NOTFOUND;

    ron_mutex_lock(&r->mu);
    live = find(r, epoch, dry);
    if (live != NULL) {
        copy(live, ret_view);
        rc = RON_OK;
        if (manifest != NULL && live->_manifest != NULL) {
            rc = ron_buf_append(manifest, live->_manifest, live->_manifest_len);
        }
    }
    ron_mutex_unlock(&r->mu);
    return rc;
}

enum ron_rc rwd_runs_wait(struct rwd_runs *r, struct ron_str epoch, const struct ron_b3 *run_key,
                          bool dry, struct ron_http_reply *reply)
{
    struct rwd_live *live;
    enum ron_rc rc = RON_NOTFOUND;

    ron_mutex_lock(&r->mu);
    live = find(r, epoch, dry);
    if (live != NULL && !live->_ended && ron_b3_equal(&live->run_key, run_key)) {
        rc = live->_waiter_count < RWD_WAITERS_MAX ? RON_OK : RON_FULL;
        if (rc == RON_OK) {
            live->_waiters[live->_waiter_count++] = reply;
        }
    }
    ron_mutex_unlock(&r->mu);
    return rc;
}

void rwd_runs_forget(struct rwd_runs *r, struct ron_str epoch)
{
    for (int dry = 0; dry < 2; dry++) {
        struct rwd_live *live;

        ron_mutex_lock(&r->mu);
        live = find(r, epoch, dry != 0);
        if (live != NULL && live->_ended) {
            cut_out(r, live);
        } else {
            live = NULL;
        }
        ron_mutex_unlock(&r->mu);
        if (live != NULL) {
            unref(live);
        }
    }
}

size_t rwd_runs_under_way(struct rwd_runs *r, struct rwd_view *ret_views, size_t max)
{
    size_t count = 0;

    ron_mutex_lock(&r->mu);
    for (const struct rwd_live *live = r->newest; live != NULL && count < max; live = live->_next) {
        if (!live->_ended) {
            copy(live, &ret_views[count++]);
        }
    }
    ron_mutex_unlock(&r->mu);
    return count;
}

void rwd_runs_cancel(struct rwd_runs *r)
{
    ron_mutex_lock(&r->mu);
    for (struct rwd_live *live = r->newest; live != NULL; live = live->_next) {
        ron_au32_store(&live->progress.cancelled, 1);
    }
    ron_mutex_unlock(&r->mu);
}
