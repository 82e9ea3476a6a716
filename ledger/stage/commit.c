/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/commit.c - the committer as a task: groups of sequenced works, one sync for each.
 *
 * Place: service; a blocking task with a thread of its own, the only writer of log and tree.
 *
 * While it waits for the disk the sequencer fills the queue, and all that is there makes the next
 * group: the window adapts by itself and never delays a lone request.
 *
 * Order at the end of a group: the numbers for the sequencer, then head and root for readers and
 * subscribers, then the answers. So whoever was answered finds his write. */
#include "ledger/core/metrics.h"
#include "ledger/core/trace.h"
#include "ledger/stage/stage.h"
#include "ron/base/assert.h"

static void refuse_all(struct led_work **works, size_t count, enum led_reason reason,
                       const char *detail)
{
    for (size_t i = 0; i < count; i++) {
        led_work_refuse(works[i], reason, "", detail);
        led_work_done(works[i]);
    }
}

static void publish(struct led_commit_stage *st, const struct led_commit_done *done, size_t count)
{
    struct led_head head = {.seq = done->seq_last, .ts_ms = done->time_ms};

    head.root = done->root;
    (void)ron_au64_add(&st->news->durable_works, count);
    ron_au64_store(&st->pipes->sync_ns, done->sync_ns);
    if (done->entries > 0) {
        led_engine_publish(st->engine, st->publish, &head);
    }
    led_news_wake(st->news);
}

/* The failure of a group leaves open whether it is on disk, so its callers are told neither yes nor
 * no for good: with the same keys they learn it after the journal was verified. */
static enum led_reason fail(struct led_commit_stage *st, const struct ron_err *err, enum ron_rc rc)
{
    if (st->lead != NULL && (rc == RON_CONFLICT || rc == RON_TIMEOUT)) {
        led_lead_lost(st->lead, rc, err);
        return rc == RON_CONFLICT ? LED_REASON_NOT_LEADER : LED_REASON_TIMEOUT;
    }
    led_metrics_sync_failed(st->core->metrics);
    if (rc == RON_CORRUPT) {
        led_metrics_gap(st->core->metrics);
    }
    led_engine_enter_safe(st->engine, rc == RON_LIMIT ? "disk full" : "commit failed", err->msg);
    ron_au32_store(&st->news->abort_wanted, 1);
    led_news_wake(st->news);
    return LED_REASON_SAFE_MODE;
}

/* Writes were stopped while these works were in the queue. Those of the present engine are taken
 * back by the sequencer, unless it has done so when the reign ended. */
static void refuse_stopped(struct led_commit_stage *st, struct led_work **works, size_t count)
{
    if (led_engine_lease(st->engine)) {
        const struct led_work *last = works[count - 1];

        if (led_engine_has(st->engine, works[count - 1]) &&
            last->reign == ron_au32_load(&st->news->reign)) {
            ron_au32_store(&st->news->abort_wanted, 1);
            led_news_wake(st->news);
        }
        led_engine_unlease(st->engine);
    }
    refuse_all(works, count, led_engine_stopped_reason(st->engine), "writes are stopped");
}

/* Refuses those in front that an engine sequenced that is no more, or when we led before: the
 * sequencer took them back. How many. */
static size_t pass_over(struct led_commit_stage *st, struct led_work **works, size_t count)
{
    uint32_t reign = ron_au32_load(&st->news->reign);
    size_t engines = 0;
    size_t reigns;

    while (engines < count && !led_engine_has(st->engine, works[engines])) {
        engines++;
    }
    refuse_all(works, engines, LED_REASON_SAFE_MODE, "the journal was opened anew");
    reigns = engines;
    while (reigns < count && works[reigns]->reign != reign) {
        reigns++;
    }
    refuse_all(works + engines, reigns - engines, LED_REASON_NOT_LEADER,
               "another ledger led in between");
    return reigns;
}

static enum ron_rc commit_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_commit_stage *st = RON_OBJ(arg, struct led_commit_stage, LED_COMMIT_STAGE_MAGIC);
    struct led_work **works = led_works_of(items, count);
    uint64_t nests = ron_thread_nests();
    uint64_t awake_ns = count == 1 ? led_pipes_awake_ns(st->pipes, works[0]) : 0;
    size_t gone;

    (void)t;
    if (led_engine_mode(st->engine) != LED_RUNNING || !led_engine_lease(st->engine)) {
        refuse_stopped(st, works, count);
        return RON_OK;
    }
    gone = pass_over(st, works, count);
    works += gone;
    count -= gone;
    while (count > 0) {
        size_t n = led_commit_gather(st->engine->live.commit, works, count);
        struct led_commit_done done = {0};
        struct ron_err err = {0};
        uint64_t from_ns = ron_env_now_ns(st->engine->env);
        enum ron_rc rc = led_commit_group(st->engine->live.commit, works, n, &done, &err);

        if (rc != RON_OK) {
            refuse_all(works, count, fail(st, &err, rc),
                       "the commit failed; ask with the same key later");
            break;
        }
        led_feed_put(st->pipes->feed, works, n, done.seq_first, done.seq_last, &done.root);
        publish(st, &done, n);
        if (done.entries > 0 && st->publish->on_commit != NULL) {
            st->publish->on_commit(st->publish->arg, works, n, done.seq_last);
        }
        led_metrics_committed(st->core->metrics, &done, works, n);
        for (size_t i = 0; i < n; i++) {
            led_trace_stage(st->core->tracer, works[i], "committer", "commit", from_ns);
            led_work_done(works[i]);
        }
        works += n;
        count -= n;
    }
    led_engine_unlease(st->engine);
    RON_ASSERT_SLOW(ron_thread_nests() == nests); /* on this path never two locks at once */
    if (awake_ns != 0) {
        ron_chan_look(st->pipes->commit, ron_mono_ns() + awake_ns);
    }
    return RON_OK;
}

enum ron_rc led_stage_commit_add(struct led_commit_stage *st, struct ron_err *err)
{
    st->magic = LED_COMMIT_STAGE_MAGIC;
    return ron_sup_add(ron_app_sup(st->core->app),
                       &(struct ron_task_def){.name = "committer",
                                              .kind = "committer",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 4,
                                              .input = st->pipes->commit,
                                              .batch_max = LED_GROUP_MAX,
                                              .restart = {.essential = true},
                                              .handle = commit_handle,
                                              .arg = st},
                       NULL, err);
}
