/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/safe.c - safe mode: how writes are stopped, and how an operator lets them go on.
 *
 * Place: service.
 The invariants S1 to S3 are in
 * engine.h. */
#include <inttypes.h>
#include <stdio.h>

#include "ledger/core/engine.h"
#include "ledger/recover/mark.h"
#include "ron/base/assert.h"

enum { SWAP_WAIT_MS = 5000 }; /* for leases: the longest is one answer of a reader */

/* ---- entering -------------------------------------------------------------------------------- */

void led_engine_enter_safe(struct led_engine *e, const char *cause, const char *detail)
{
    struct ron_err err = {0};
    char text[RON_NEED_CAUSE_MAX + 1];
    bool first;

    ron_mutex_lock(&e->lock);
    first = led_engine_mode(e) == LED_RUNNING || led_engine_mode(e) == LED_FOLLOWING;
    if (first) {
        ron_au32_store(&e->mode, LED_SAFE);
    }
    ron_mutex_unlock(&e->lock);
    if (!first) {
        return;
    }
    (void)snprintf(text, sizeof text, "%.32s: %.80s", cause, detail);
    ron_need_set(e->need_safe, RON_NEED_MISSING, text, 30);
    ron_tracer_set_all(e->tracer, true);
    RON_LOG(e->log, ERROR, "safe mode: writes are stopped", RON_LOG_STR("cause", cause),
            RON_LOG_STR("detail", detail));
    if (e->dir[0] != '\0' && led_mark_write(e->env, e->dir, text, &err) != RON_OK) {
        RON_LOG(e->log, ERROR, "the safe-mode marker could not be written", RON_LOG_ERR(&err));
    }
    led_news_wake(e->news);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Waits until nobody uses the engine and bars everybody; false when that takes too long. */
static bool bar_engine(struct led_engine *e)
{
    struct ron_deadline end = ron_deadline_after_ms(ron_mono_ns(), SWAP_WAIT_MS);
    bool ok = true;

    ron_mutex_lock(&e->lock);
    RON_ASSERT_MSG(led_engine_mode(e) == LED_SAFE, "S1: only safe mode is left by a swap");
    ron_au32_store(&e->mode, LED_SWAPPING);
    while (e->leases > 0 && ok) {
        ok = ron_cond_wait_until(&e->idle, &e->lock, end) || e->leases == 0;
    }
    if (!ok) {
        ron_au32_store(&e->mode, LED_SAFE);
    }
    ron_mutex_unlock(&e->lock);
    return ok;
}

enum ron_rc led_engine_verify(struct led_engine *e, struct ron_buf *report, struct ron_err *err)
{
    struct led_recover_opts o = e->recover;
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
static enum ron_rc swap_engine(struct led_engine *e, struct ron_err *err)
{
    struct led_recovered fresh = {0};
    uint64_t acknowledged = ron_au64_load(&e->durable_seq);
    struct led_log_head head = {0};
    enum ron_rc rc;

    led_log_release(e->live.log); /* the lock of the directory; it is read only from now on */
    led_index_close(e->live.index);
    e->live.index = NULL; /* Readers make do without it if this fails. */
    e->preval.index = NULL;
    rc = led_recover(&e->recover, &fresh, err);
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
    led_recovered_done(&e->live);
    e->live = fresh;
    return led_engine_made(e, err);
}

enum ron_rc led_engine_resume(struct led_engine *e, struct ron_buf *report, struct ron_err *err)
{
    enum ron_rc rc;

    if (led_engine_mode(e) != LED_SAFE) {
        return ron_err_set(err, RON_CONFLICT, "the ledger is not in safe mode");
    }
    RON_TRY(led_engine_verify(e, report, err));
    if (!bar_engine(e)) {
        return ron_err_set(err, RON_AGAIN, "readers did not finish in time; try again");
    }
    rc = swap_engine(e, err);
    if (rc == RON_OK && e->dir[0] != '\0') {
        rc = led_mark_remove(e->env, e->dir, err);
    }
    ron_mutex_lock(&e->lock);
    RON_ASSERT_MSG(led_engine_mode(e) == LED_SWAPPING, "S1: a swap ends once");
    ron_au32_store(&e->mode, rc != RON_OK ? LED_SAFE : e->shared ? LED_FOLLOWING : LED_RUNNING);
    ron_mutex_unlock(&e->lock);
    if (rc != RON_OK) {
        return rc;
    }
    ron_need_set(e->need_safe, RON_NEED_OK, "", 0);
    ron_tracer_set_all(e->tracer, false);
    RON_LOG_TEXT(e->log, WARN, "safe mode left: the journal was verified");
    led_news_wake(e->news);
    return RON_OK;
}
