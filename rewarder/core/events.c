/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/events.c - run events for GET /rewarder/events.
 *
 * Threads: any; a slow reader loses events, it never delays a task. */
#include <string.h>

#include "rewarder/core/core.h"
#include "ron/base/hex.h"

enum { PROGRESS_MAX = 16 }; /* runs reported in one tick */

static const char *const kinds[] = {"started",  "progress", "sealed",   "failed",  "quarantined",
                                    "emitting", "emitted",  "withheld", "released"};

static bool format(struct ron_buf *out, const void *message, const char *topic)
{
    const struct rwd_event *e = message;
    struct ron_json_writer j;

    if (topic[0] != '\0' && strcmp(topic, e->epoch) != 0) {
        return false;
    }
    RON_IGNORE(ron_buf_append_fmt(out, "event: %s\ndata: ", kinds[e->kind]));
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_u64(&j, "ts", e->ts_ms);
    ron_json_text(&j, "epoch_id", e->epoch);
    ron_json_text(&j, "run_key", e->run_key);
    ron_json_bool(&j, "dry_run", e->dry);
    if (e->kind == RWD_EVENT_PROGRESS) {
        ron_json_text(&j, "phase", rwd_phase_name((enum rwd_phase)e->phase));
    }
    if (e->all > 0) {
        ron_json_u64(&j, "done", e->done);
        ron_json_u64(&j, "all", e->all);
    }
    if (e->reason[0] != '\0') {
        ron_json_text(&j, "reason", e->reason);
    }
    ron_json_close(&j, '}');
    RON_IGNORE(ron_buf_append_text(out, "\n\n"));
    return true;
}

static void fill(const struct rwd_core *c, struct rwd_event *e, const char *epoch,
                 const struct ron_b3 *run_key)
{
    e->ts_ms = ron_env_wall_ms(c->env);
    memcpy(e->epoch, epoch, strlen(epoch) + 1);
    ron_hex(run_key->bytes, 8, e->run_key);
}

void rwd_tell(struct rwd_core *c, enum rwd_event_kind kind, const char *epoch,
              const struct ron_b3 *run_key, bool dry, uint64_t done, uint64_t all,
              const char *reason)
{
    struct rwd_event e = {.kind = (uint8_t)kind, .dry = dry, .done = done, .all = all};
    size_t len = strlen(reason);

    fill(c, &e, epoch, run_key);
    memcpy(e.reason, reason, RON_MIN(len, sizeof e.reason - 1));
    ron_http_events_publish(c->events, &e);
}

void rwd_tell_progress(struct rwd_core *c, struct rwd_runs *runs)
{
    struct rwd_view views[PROGRESS_MAX];
    size_t count;

    if (!ron_http_events_watched(c->events)) {
        return;
    }
    count = rwd_runs_under_way(runs, views, PROGRESS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct rwd_event e = {.kind = RWD_EVENT_PROGRESS,
                              .phase = (uint8_t)views[i].phase,
                              .done = views[i].rows_done,
                              .all = views[i].rows};

        fill(c, &e, views[i].epoch, &views[i].run_key);
        ron_http_events_publish(c->events, &e);
    }
}

enum ron_rc rwd_events_new(struct rwd_core *c, struct ron_err *err)
{
    return ron_http_events_new(
        &(struct ron_http_events_opts){.registry = ron_app_registry(c->app),
                                       .env = c->env,
                                       .sup = ron_app_sup(c->app),
                                       .log = ron_app_log(c->app),
                                       .bus_name = "events",
                                       .chan_name = "streams",
                                       .task_name = "event_streams",
                                       .producers = "all tasks",
                                       .capacity = RWD_EVENTS_CAPACITY,
                                       .message_bytes = sizeof(struct rwd_event),
                                       .streams_max = RWD_STREAMS_MAX,
                                       .stage = 5,
                                       .greeting = "rewarder events",
                                       .format = format},
        &c->events, err);
}
