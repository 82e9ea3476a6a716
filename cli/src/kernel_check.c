/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check.c - the pipeline of kernel_check.h.
 *
 * Ownership: a message belongs to the channel or task that holds it and is freed by whoever ends
 * it; every end is counted once. Counters are relaxed and are added up only after the supervisor
 * has stopped. */
#include "kernel_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/chan/bus.h"

enum { TICK_MS = 10, REPORT_MS = 1000, WORKERS_MAX = 16, TASKS = WORKERS_MAX + 8 };

struct message {
    uint64_t number;
    uint64_t check;
};

struct event {
    uint64_t number;
    uint64_t check;
};

struct kernel_check {
    struct ron_app *app;
    const struct ron_env *env;
    struct ron_sup *sup;
    uint64_t rate_hz;
    uint64_t hang_after;
    uint64_t stop_after_ms;
    struct ron_chan *work;
    struct ron_chan *results;
    struct ron_chan *audit;
    struct ron_chan *backlog;
    struct ron_bus *events;
    char names[WORKERS_MAX][16];

    /* Listener only. */
    uint64_t next_number;
    uint64_t last_tick_ms;
    bool intake_open;
    struct ron_bus_reader observer; /* observer only */

    struct ron_stat offered, refused, backlogged, handled, failed_in_worker, left_over, observed,
        missed;
    struct ron_stat audit_offered, audited, audit_dropped;
    struct ron_au64 worker_seen;
    struct ron_au64 fail_every; /* a reload may change it */
};

static uint64_t checksum(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

static void drop_message(void *item, void *arg)
{
    struct kernel_check *k = arg;

    ron_stat_add(&k->left_over, 1);
    ron_free(item);
}

static void drop_audit(void *item, void *arg)
{
    struct kernel_check *k = arg;

    ron_stat_add(&k->audit_dropped, 1);
    ron_free(item);
}

/* ---- listener -------------------------------------------------------------------------------- */

static struct message *make_message(uint64_t number)
{
    struct message *m = ron_alloc(sizeof *m);

    if (m != NULL) {
        *m = (struct message){.number = number, .check = checksum(number)};
    }
    return m;
}

/* Every eighth message takes the slow door to the clerk, the others go to the workers. */
static void offer_one(struct kernel_check *k)
{
    struct message *m = make_message(k->next_number++);
    enum ron_rc rc;

    if (m == NULL) {
        return;
    }
    ron_stat_bump(&k->offered, 1);
    if (m->number % 8 == 7) {
        struct ron_chan_retry retry = {0};
        rc = ron_chan_send_retry(k->backlog, m, &retry);
        /* The listener never waits: it does not use the second try. */
    } else {
        rc = ron_chan_try_send(k->work, m, NULL);
    }
    if (rc != RON_OK) {
        ron_stat_bump(&k->refused, 1);
        ron_free(m);
    }
}

static enum ron_rc listener_start(struct ron_task *t, void *arg)
{
    struct kernel_check *k = arg;

    k->intake_open = true;
    k->last_tick_ms = ron_task_now_ms(t);
    return RON_OK;
}

static enum ron_rc listener_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct kernel_check *k = arg;
    uint64_t now_ms = ron_task_now_ms(t);
    uint64_t due = (now_ms - k->last_tick_ms) * k->rate_hz / 1000;

    (void)items;
    (void)count;
    if (k->intake_open && k->rate_hz > 0) {
        for (uint64_t i = 0; i < due; i++) {
            offer_one(k);
        }
        if (due > 0) {
            k->last_tick_ms = now_ms;
        }
        ron_task_wake_at(t, now_ms + TICK_MS);
    }
    return RON_OK;
}

static void listener_drain(struct ron_task *t, void *arg)
{
    struct kernel_check *k = arg;

    k->intake_open = false;
    ron_task_wake_at(t, UINT64_MAX);
    ron_task_intake_stopped(t);
}

/* ---- workers, sink, clerk, auditor ----------------------------------------------------------- */

static void audit_copy(struct kernel_check *k, uint64_t number)
{
    struct message *m = make_message(number);
    void *evicted = NULL;

    if (m == NULL) {
        return;
    }
    ron_stat_add(&k->audit_offered, 1);
    if (ron_chan_try_send(k->audit, m, &evicted) != RON_OK) {
        drop_audit(m, k);
    } else if (evicted != NULL) {
        drop_audit(evicted, k);
    }
}

/* The switch of `--hang-after`: a thread that waits for nothing and never looks up. */
static void hang(void)
{
    for (;;) {
        enum ron_rc rc = ron_park_until(ron_deadline_after_ms(ron_mono_ns(), 1000), "hang");
        (void)rc; /* Cancelling is ignored: that is what is being shown. */
    }
}

static enum ron_rc worker_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct kernel_check *k = arg;

    for (size_t i = 0; i < count; i++) {
        struct message *m = items[i];
        uint64_t seen = ron_au64_add(&k->worker_seen, 1) + 1;
        uint64_t fail_every = ron_au64_load(&k->fail_every);
        enum ron_rc rc;

        if (k->hang_after != 0 && seen == k->hang_after) {
            hang();
        }
        audit_copy(k, m->number);
        if (fail_every != 0 && seen % fail_every == 0) {
            struct ron_err err = {0};
            for (; i < count; i++) { /* A failing task still disposes of what it was given. */
                ron_stat_add(&k->failed_in_worker, 1);
                ron_free(items[i]);
            }
            (void)ron_err_set(&err, RON_INTERNAL, "failing on purpose at message %" PRIu64, seen);
            ron_task_set_error(t, &err);
            return RON_INTERNAL;
        }
        rc = ron_chan_send(k->results, m, ron_deadline_after_ms(ron_mono_ns(), 1000), NULL);
        if (rc != RON_OK) {
            ron_task_job_failed(t, NULL);
            drop_message(m, k);
        }
    }
    return RON_OK;
}

static enum ron_rc finish_all(struct ron_task *t, struct kernel_check *k, void **items,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct message *m = items[i];
        struct event e = {.number = m->number, .check = m->check};

        if (m->check != checksum(m->number)) {
            struct ron_err err = {0};
            (void)ron_err_set(&err, RON_CORRUPT, "message %" PRIu64 " has changed on its way",
                              m->number);
            ron_task_job_failed(t, &err);
        }
        ron_stat_add(&k->handled, 1);
        ron_free(m);
        (void)!ron_bus_publish(k->events,
                               &e); /* Closed only at the very end; events may be lost. */
    }
    return RON_OK;
}

static enum ron_rc sink_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    return finish_all(t, arg, items, count);
}

static enum ron_rc auditor_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct kernel_check *k = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        ron_stat_bump(&k->audited, 1);
        ron_free(items[i]);
    }
    return RON_OK;
}

/* ---- observer: reads the bus; reporter: a line a second -------------------------------------- */

static enum ron_rc observer_start(struct ron_task *t, void *arg)
{
    struct kernel_check *k = arg;
    struct ron_err err = {0};
    enum ron_rc rc = ron_bus_subscribe(k->events, &k->observer, ron_task_waker(t), &err);

    if (rc != RON_OK) {
        ron_task_set_error(t, &err);
    }
    return rc;
}

static void observer_stop(struct ron_task *t, void *arg)
{
    struct kernel_check *k = arg;

    (void)t;
    ron_bus_unsubscribe(&k->observer);
}

static enum ron_rc observer_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct kernel_check *k = arg;
    enum ron_rc rc;

    (void)t;
    (void)items;
    (void)count;
    do {
        struct event events[64];
        uint64_t missed = 0;
        size_t got = 0;

        rc = ron_bus_poll(&k->observer, events, RON_ARRAY_LEN(events), &got, &missed);
        ron_stat_bump(&k->observed, got);
        ron_stat_bump(&k->missed, missed);
    } while (rc == RON_OK || rc == RON_LAGGED);
    return RON_OK;
}

/* Says how it goes, and asks for the end when the time is over. */
static enum ron_rc reporter_run(struct ron_task *t, void *arg)
{
    struct kernel_check *k = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t left_ms = k->stop_after_ms;
    uint64_t seen;
    uint64_t value = ron_watch_get(stop, &seen);

    while (value != RON_TASK_STOP) {
        uint64_t wait_ms = left_ms == 0 ? REPORT_MS : RON_MIN(left_ms, (uint64_t)REPORT_MS);
        enum ron_rc rc = ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_mono_ns(), wait_ms),
                                        &value, &seen);
        if (rc == RON_CANCELLED) {
            return rc;
        }
        if (rc == RON_TIMEOUT) {
            RON_LOG(ron_app_log(k->app), INFO, "progress",
                    RON_LOG_U64("offered", ron_stat_get(&k->offered)),
                    RON_LOG_U64("refused", ron_stat_get(&k->refused)),
                    RON_LOG_U64("handled", ron_stat_get(&k->handled)),
                    RON_LOG_U64("observed", ron_stat_get(&k->observed)));
            if (left_ms != 0 && (left_ms -= wait_ms) == 0) {
                ron_sup_request_stop(k->sup);
            }
        }
    }
    return RON_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc make_channels(struct kernel_check *k, struct ron_err *err)
{
    const struct {
        struct ron_chan **chan;
        struct ron_chan_opts opts;
    } rows[] = {
        {&k->work,
         {.name = "work",
          .producers = "listener",
          .consumers = "workers",
          .drop_text = "not queued; busy_rejections_total",
          .capacity = 512,
          .policy = RON_CHAN_REJECT,
          .drop = drop_message}},
        {&k->backlog,
         {.name = "backlog",
          .producers = "listener",
          .consumers = "clerk",
          .drop_text = "refused after one retry; queue_dropped_total",
          .capacity = 512,
          .policy = RON_CHAN_RETRY_ONCE,
          .drop = drop_message}},
        {&k->results,
         {.name = "results",
          .producers = "workers",
          .consumers = "sink",
          .drop_text = "sender waits; left over at the drain deadline is dropped and counted",
          .capacity = 512,
          .policy = RON_CHAN_WAIT,
          .drop = drop_message}},
        {&k->audit,
         {.name = "audit",
          .producers = "workers",
          .consumers = "auditor",
          .drop_text = "oldest handed back to the sender; queue_dropped_total",
          .capacity = 512,
          .policy = RON_CHAN_DROP_OLDEST,
          .drop = drop_audit}},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_chan_opts o = rows[i].opts;
        o.registry = ron_app_registry(k->app);
        o.env = k->env;
        o.drop_arg = k;
        RON_TRY(ron_chan_new(&o, rows[i].chan, err));
    }
    return ron_bus_new(&(struct ron_bus_opts){.registry = ron_app_registry(k->app),
                                              .name = "events",
                                              .producers = "sink, clerk",
                                              .consumers = "observer",
                                              .capacity = 1024,
                                              .message_bytes = sizeof(struct event),
                                              .readers_max = 8},
                       &k->events, err);
}

static enum ron_rc add_workers(struct kernel_check *k, struct ron_err *err)
{
    uint64_t count = (uint64_t)ron_conf_int(ron_app_conf(k->app), KERNEL_PIPELINE);

    for (uint64_t i = 0; i < count && i < WORKERS_MAX; i++) {
        (void)snprintf(k->names[i], sizeof k->names[i], "worker-%u", (unsigned)i % WORKERS_MAX);
        RON_TRY(ron_sup_add(k->sup,
                            &(struct ron_task_def){.name = k->names[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = k->work,
                                                   .batch_max = 32,
                                                   .handle = worker_handle,
                                                   .arg = k},
                            NULL, err));
    }
    return RON_OK;
}

static enum ron_rc add_tasks(struct kernel_check *k, struct ron_err *err)
{
    const struct ron_task_def defs[] = {
        {.name = "listener",
         .kind = "listener",
         .mode = RON_TASK_LOOP,
         .role = RON_ROLE_INTAKE,
         .worker = 0,
         .restart = {.essential = true},
         .start = listener_start,
         .handle = listener_handle,
         .drain = listener_drain},
        {.name = "clerk",
         .kind = "worker",
         .mode = RON_TASK_LOOP,
         .worker = RON_WORKER_ANY,
         .stage = 1,
         .input = k->backlog,
         .handle = sink_handle},
        {.name = "sink",
         .kind = "sink",
         .mode = RON_TASK_BLOCKING,
         .stage = 2,
         .input = k->results,
         .restart = {.essential = true},
         .handle = sink_handle},
        {.name = "auditor",
         .kind = "auditor",
         .mode = RON_TASK_LOOP,
         .worker = RON_WORKER_ANY,
         .stage = 2,
         .input = k->audit,
         .handle = auditor_handle},
        {.name = "observer",
         .kind = "observer",
         .mode = RON_TASK_LOOP,
         .worker = RON_WORKER_ANY,
         .stage = 3,
         .start = observer_start,
         .handle = observer_handle,
         .stop = observer_stop},
        {.name = "reporter",
         .kind = "reporter",
         .mode = RON_TASK_BLOCKING,
         .stage = 4,
         .run = reporter_run},
    };

    RON_TRY(add_workers(k, err));
    for (size_t i = 0; i < RON_ARRAY_LEN(defs); i++) {
        struct ron_task_def d = defs[i];
        d.arg = k;
        RON_TRY(ron_sup_add(k->sup, &d, NULL, err));
    }
    return RON_OK;
}

static void read_reloadable(struct kernel_check *k)
{
    struct ron_conf_snap *snap = ron_conf_box_get(ron_app_conf_box(k->app));

    ron_au64_store(&k->fail_every, (uint64_t)ron_conf_int(snap, KERNEL_FAIL_EVERY));
    ron_conf_unref(snap);
}

static enum ron_rc kernel_build(struct ron_app *app, struct ron_err *err)
{
    const struct ron_conf_snap *conf = ron_app_conf(app);
    struct kernel_check *k = ron_alloc_zero(sizeof *k);

    if (k == NULL) {
        return ron_err_set(err, RON_NOMEM, "kernel check: no memory");
    }
    ron_app_set_state(app, k);
    k->app = app;
    k->env = ron_app_env(app);
    k->sup = ron_app_sup(app);
    k->rate_hz = (uint64_t)ron_conf_int(conf, KERNEL_RATE);
    k->hang_after = (uint64_t)ron_conf_int(conf, KERNEL_HANG_AFTER);
    k->stop_after_ms = (uint64_t)ron_conf_ms(conf, KERNEL_STOP_AFTER);
    read_reloadable(k);
    RON_TRY(make_channels(k, err));
    return add_tasks(k, err);
}

static void kernel_reloaded(struct ron_app *app)
{
    read_reloadable(ron_app_state(app));
}

static void kernel_take_down(struct ron_app *app)
{
    struct kernel_check *k = ron_app_state(app);

    if (k == NULL) {
        return;
    }
    ron_chan_free(k->work);
    ron_chan_free(k->backlog);
    ron_chan_free(k->results);
    ron_chan_free(k->audit);
    ron_bus_free(k->events);
    ron_free(k);
}

/* ---- the check ------------------------------------------------------------------------------- */

static uint64_t depth(const struct ron_chan *c)
{
    struct ron_chan_stats s;

    ron_chan_get_stats(c, &s);
    return s.depth;
}

/* One line of counts; false when they do not add up. */
static bool report(struct kernel_check *k)
{
    struct ron_kind_stats kinds[RON_SUP_KINDS_MAX];
    size_t n = ron_sup_kinds(k->sup, kinds, RON_ARRAY_LEN(kinds));
    uint64_t offered = ron_stat_get(&k->offered);
    uint64_t refused = ron_stat_get(&k->refused);
    uint64_t handled = ron_stat_get(&k->handled);
    uint64_t failed = ron_stat_get(&k->failed_in_worker);
    uint64_t left =
        ron_stat_get(&k->left_over) + depth(k->work) + depth(k->backlog) + depth(k->results);
    uint64_t audit_lost = ron_stat_get(&k->audit_offered) - ron_stat_get(&k->audited) -
                          ron_stat_get(&k->audit_dropped) - depth(k->audit);
    uint64_t aborted = 0;
    uint64_t spawned = 0;
    bool whole = ron_sup_leaked(k->sup) != 0 ||
                 (offered == refused + handled + failed + left && audit_lost == 0);

    for (size_t i = 0; i < n && i < RON_ARRAY_LEN(kinds); i++) {
        aborted += kinds[i].aborted;
        spawned += kinds[i].spawned;
    }
    printf("offered %" PRIu64 " = refused %" PRIu64 " + handled %" PRIu64 " + failed %" PRIu64
           " + left %" PRIu64 "; observed %" PRIu64 ", missed %" PRIu64 "; tasks spawned %" PRIu64
           ", aborted %" PRIu64 ", leaked %" PRIu64 "; %s\n",
           offered, refused, handled, failed, left, ron_stat_get(&k->observed),
           ron_stat_get(&k->missed), spawned, aborted, ron_sup_leaked(k->sup),
           !whole                        ? "LOST MESSAGES"
           : ron_sup_leaked(k->sup) != 0 ? "not checked: a task hangs"
           : left != 0                   ? "all accounted for, some left over"
                                         : "nothing lost");
    return whole;
}

static int kernel_finish(struct ron_app *app, int code)
{
    if (!report(ron_app_state(app))) {
        code = 1;
    }
    (void)fflush(stdout);
    return code;
}

/* ---- the service ----------------------------------------------------------------------------- */

static const struct ron_conf_key keys[] = {KERNEL_CONF(RON_CONF_ROW)};
static const struct ron_conf_table table = {
    .service = "kernel", .keys = keys, .key_count = KERNEL_CONF_COUNT};

const struct ron_app_def kernel_app = {
    .conf = &table,
    .summary =
        "Runs the kernel with a self-check pipeline until a signal, then drains and checks that\n"
        "no message was lost. Serves health, metrics, version and topology meanwhile.\n"
        "Exit: 0 drained, 1 messages lost or no start, 2 used wrongly or a task had to be "
        "aborted,\n"
        "3 an essential task kept failing.",
    .build = kernel_build,
    .reloaded = kernel_reloaded,
    .finish = kernel_finish,
    .take_down = kernel_take_down,
};
