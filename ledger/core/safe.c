/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/safe.c - safe mode: how writes are stopped, and how an operator lets them go on.
 *
 * Place: service.
 *
 * Invariants:
 *   S1. RUNNING -> SAFE is one-way for everybody but led_svc_resume. The marker on disk says why
 *       and survives a restart.
 *   S2. The engine is replaced only while no lease is out; whoever uses it holds one. A work that
 *       began with one engine never reaches another: its keys and seqs are the old one's.
 *   S3. Resume replaces nothing before the whole journal was read and verified, and it ends in
 *       RUNNING only when the journal opened anew is not behind what was acknowledged. */
#include <inttypes.h>
#include <stdio.h>

#include "ledger/recover/mark.h"
#include "ledger/svc.h"
#include "ron/base/assert.h"

enum { SWAP_WAIT_MS = 5000 }; /* for leases: the longest is one answer of a reader */

/* ---- leases ---------------------------------------------------------------------------------- */

bool led_svc_lease(struct led_svc *s)
{
    bool ok;

    ron_mutex_lock(&s->eng_lock);
    ok = led_svc_mode(s) != LED_SWAPPING;
    s->eng_leases += ok;
    ron_mutex_unlock(&s->eng_lock);
    return ok;
}

void led_svc_unlease(struct led_svc *s)
{
    ron_mutex_lock(&s->eng_lock);
    RON_ASSERT(s->eng_leases > 0);
    if (--s->eng_leases == 0) {
        ron_cond_broadcast(&s->eng_free);
    }
    ron_mutex_unlock(&s->eng_lock);
}

/* ---- the book: two tasks may use it, one at a time ------------------------------------------- */

bool led_svc_take_book(struct led_svc *s)
{
    bool ok;

    ron_mutex_lock(&s->eng_lock);
    ok = led_svc_mode(s) != LED_SWAPPING && !s->book_followed;
    s->eng_leases += ok;
    s->book_read = ok;
    ron_mutex_unlock(&s->eng_lock);
    return ok;
}

void led_svc_give_book(struct led_svc *s)
{
    ron_mutex_lock(&s->eng_lock);
    RON_ASSERT(s->eng_leases > 0 && s->book_read);
    s->eng_leases--;
    s->book_read = false;
    if (s->eng_leases == 0 || s->lead != NULL) {
        ron_cond_broadcast(&s->eng_free);
    }
    ron_mutex_unlock(&s->eng_lock);
}

bool led_svc_follow_book(struct led_svc *s)
{
    bool ok;

    ron_mutex_lock(&s->eng_lock);
    while (s->book_read) { /* a round of the sequencer, which waits for nothing */
        (void)ron_cond_wait_until(&s->eng_free, &s->eng_lock, ron_deadline_never());
    }
    ok = led_svc_mode(s) != LED_SWAPPING;
    s->eng_leases += ok;
    s->book_followed = ok;
    ron_mutex_unlock(&s->eng_lock);
    return ok;
}

void led_svc_leave_book(struct led_svc *s)
{
    ron_mutex_lock(&s->eng_lock);
    RON_ASSERT(s->eng_leases > 0 && s->book_followed);
    s->eng_leases--;
    s->book_followed = false;
    ron_cond_broadcast(&s->eng_free);
    ron_mutex_unlock(&s->eng_lock);
    ron_task_wake(s->seq_task);
}

bool led_svc_set_leading(struct led_svc *s, bool leading)
{
    enum led_mode from = leading ? LED_FOLLOWING : LED_RUNNING;
    bool ok;

    ron_mutex_lock(&s->eng_lock);
    ok = led_svc_mode(s) == from;
    if (ok) {
        ron_au32_store(&s->mode, leading ? LED_RUNNING : LED_FOLLOWING);
    }
    ron_mutex_unlock(&s->eng_lock);
    return ok;
}

bool led_svc_of_engine(const struct led_svc *s, struct led_work *w)
{
    if (w->generation == 0) {
        w->generation = s->generation;
    }
    return w->generation == s->generation;
}

/* ---- entering -------------------------------------------------------------------------------- */

void led_svc_enter_safe(struct led_svc *s, const char *cause, const char *detail)
{
    struct ron_err err = {0};
    char text[RON_NEED_CAUSE_MAX + 1];
    bool first;

    ron_mutex_lock(&s->eng_lock);
    first = led_svc_mode(s) == LED_RUNNING || led_svc_mode(s) == LED_FOLLOWING;
    if (first) {
        ron_au32_store(&s->mode, LED_SAFE);
    }
    ron_mutex_unlock(&s->eng_lock);
    if (!first) {
        return;
    }
    (void)snprintf(text, sizeof text, "%.32s: %.80s", cause, detail);
    ron_need_set(s->need_safe, RON_NEED_MISSING, text, 30);
    ron_tracer_set_all(ron_app_tracer(s->app), true);
    RON_LOG(ron_app_log(s->app), ERROR, "safe mode: writes are stopped",
            RON_LOG_STR("cause", cause), RON_LOG_STR("detail", detail));
    if (s->dir[0] != '\0' && led_mark_write(s->env, s->dir, text, &err) != RON_OK) {
        RON_LOG(ron_app_log(s->app), ERROR, "the safe-mode marker could not be written",
                RON_LOG_ERR(&err));
    }
    if (s->seq_task != NULL) {
        ron_task_wake(s->seq_task);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Waits until nobody uses the engine and bars everybody; false when that takes too long. */
static bool bar_engine(struct led_svc *s)
{
    struct ron_deadline end = ron_deadline_after_ms(ron_mono_ns(), SWAP_WAIT_MS);
    bool ok = true;

    ron_mutex_lock(&s->eng_lock);
    ron_au32_store(&s->mode, LED_SWAPPING);
    while (s->eng_leases > 0 && ok) {
        ok = ron_cond_wait_until(&s->eng_free, &s->eng_lock, end) || s->eng_leases == 0;
    }
    if (!ok) {
        ron_au32_store(&s->mode, LED_SAFE);
    }
    ron_mutex_unlock(&s->eng_lock);
    return ok;
}

enum ron_rc led_svc_verify(struct led_svc *s, struct ron_buf *report, struct ron_err *err)
{
    struct led_recover_opts o = s->recover;
    struct led_recovered r = {0};
    enum ron_rc rc;

    o.read_only = true;
    o.verify_all = true;
    o.index_in_memory = true;
    RON_TRY(led_recover(&o, &r, err));
    rc = RON_OK;
    if (r.report.damage != LED_DAMAGE_NONE) {
        rc = ron_err_set(err, RON_CORRUPT, "%s: %s (%s)", r.report.where, r.report.what,
                         led_damage_name(r.report.damage));
    }
    (void)ron_buf_append_fmt(report, "\"verified\":%" PRIu64, r.replayed);
    led_recovered_done(&r);
    return rc;
}

/* Opens the journal anew beside the old engine, which goes on for readers if this fails. */
static enum ron_rc swap_engine(struct led_svc *s, struct ron_err *err)
{
    struct led_recovered fresh = {0};
    uint64_t acknowledged = ron_au64_load(&s->durable_seq);
    struct led_log_head head = {0};
    enum ron_rc rc;

    led_log_release(s->eng.log); /* the lock of the directory; it is read only from now on */
    led_index_close(s->eng.index);
    s->eng.index = NULL; /* Readers make do without it if this fails. */
    s->preval.index = NULL;
    rc = led_recover(&s->recover, &fresh, err);
    if (rc != RON_OK) {
        return rc;
    }
    led_log_head(fresh.log, &head);
    if (fresh.report.damage != LED_DAMAGE_NONE) {
        rc = ron_err_set(err, RON_CORRUPT, "%s: %s", fresh.report.where, fresh.report.what);
    } else if (head.last_seq < acknowledged) {
        rc = ron_err_set(err, RON_CORRUPT,
                         "the journal ends at %" PRIu64 ", and %" PRIu64 " was acknowledged",
                         head.last_seq, acknowledged);
    }
    if (rc != RON_OK) {
        led_recovered_done(&fresh);
        return rc;
    }
    led_recovered_done(&s->eng);
    s->eng = fresh;
    return led_svc_engine_made(s, err);
}

enum ron_rc led_svc_resume(struct led_svc *s, struct ron_buf *report, struct ron_err *err)
{
    enum ron_rc rc;

    if (led_svc_mode(s) != LED_SAFE) {
        return ron_err_set(err, RON_CONFLICT, "the ledger is not in safe mode");
    }
    RON_TRY(led_svc_verify(s, report, err));
    if (!bar_engine(s)) {
        return ron_err_set(err, RON_AGAIN, "readers did not finish in time; try again");
    }
    rc = swap_engine(s, err);
    if (rc == RON_OK && s->dir[0] != '\0') {
        rc = led_mark_remove(s->env, s->dir, err);
    }
    ron_mutex_lock(&s->eng_lock);
    ron_au32_store(&s->mode, rc != RON_OK      ? LED_SAFE
                             : s->lead != NULL ? LED_FOLLOWING
                                               : LED_RUNNING);
    ron_mutex_unlock(&s->eng_lock);
    if (rc != RON_OK) {
        return rc;
    }
    ron_need_set(s->need_safe, RON_NEED_OK, "", 0);
    ron_tracer_set_all(ron_app_tracer(s->app), false);
    RON_LOG_TEXT(ron_app_log(s->app), WARN, "safe mode left: the journal was verified");
    ron_task_wake(s->seq_task);
    return RON_OK;
}
