/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/events.c - server-sent events for operators: GET /edge/events.
 *
 * Built on ron/http/events.h. The bus `events` keeps the last 1024; a slow reader
 * loses the oldest and is told how many (bus_lagged_total). A view for operators, so the route is
 * on the Unix socket only (uds.path): names of origins and packs are not for strangers.
 *
 *     event: pack    {"ts":..,"pack":"world","state":"served"|"kept"|"refused"}
 *     event: fill    {"ts":..,"origin":"map","outcome":"filled","status":200,"bytes":1234} */
#include <stdio.h>

#include "edge/answer/site.h"
#include "ron/base/assert.h"
#include "ron/base/json.h"
#include "ron/http/events.h"

enum { BUS_CAPACITY = 1024, STREAMS_MAX = 64 }; /* the first is of the specification */

static bool write_event(struct ron_buf *out, const void *message, const char *topic)
{
    const struct edg_event *e = RON_OBJ(message, const struct edg_event, EDG_EVENT_MAGIC);
    struct ron_json_writer j;

    (void)topic;
    RON_IGNORE(ron_buf_append_fmt(out, "event: %s\ndata: ", e->fill ? "fill" : "pack"));
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_u64(&j, "ts", e->ts_ms);
    ron_json_text(&j, e->fill ? "origin" : "pack", e->name);
    ron_json_text(&j, e->fill ? "outcome" : "state", e->what);
    if (e->fill) {
        ron_json_u64(&j, "status", e->status);
        ron_json_u64(&j, "bytes", e->bytes);
    }
    ron_json_close(&j, '}');
    RON_IGNORE(ron_buf_append_text(out, "\n\n"));
    return true;
}

void edg_events_tell(struct edg_site *s, const struct edg_event *event, const char *name)
{
    struct edg_event copy = *event;

    if (s->events == NULL) {
        return;
    }
    RON_ASSERT(event->what != NULL);
    copy.magic = EDG_EVENT_MAGIC;
    copy.ts_ms = ron_env_wall_ms(s->env);
    (void)snprintf(copy.name, sizeof copy.name, "%s", name);
    ron_http_events_publish(s->events, &copy);
}

void edg_events_http(struct ron_http_call *call, void *arg)
{
    struct edg_site *s = RON_OBJ(arg, struct edg_site, EDG_SITE_MAGIC);
    struct edg_out out = {.site = s, .call = call, .head = ron_http_head(call)};
    enum ron_rc rc = ron_http_events_join(s->events, call, (struct ron_str){0}, UINT64_MAX);

    if (rc != RON_OK) {
        edg_fail(&out, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
    }
}

enum ron_rc edg_events_add(struct edg_site *s, struct ron_err *err)
{
    if (!ron_conf_bool(s->conf, EDG_EVENTS)) {
        return RON_OK;
    }
    return ron_http_events_new(
        &(struct ron_http_events_opts){.registry = ron_app_registry(s->app),
                                       .env = s->env,
                                       .sup = ron_app_sup(s->app),
                                       .log = ron_app_log(s->app),
                                       .bus_name = "events",
                                       .chan_name = "streams",
                                       .task_name = "teller",
                                       .producers = "workers, verifier",
                                       .capacity = BUS_CAPACITY,
                                       .message_bytes = sizeof(struct edg_event),
                                       .streams_max = STREAMS_MAX,
                                       .stage = 2,
                                       .greeting = "edge events",
                                       .format = write_event},
        &s->events, err);
}

void edg_events_free(struct edg_site *s)
{
    ron_http_events_free(s->events);
    s->events = NULL;
}
