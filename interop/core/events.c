/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/events.c - the bus `events`, and GET /v1/events, which shows it.
 *
 * Place: service, over ron/http/events.h. A view for people and dashboards: who lags misses the
 * oldest and is told so; truth is in the mailbox, the store and the audit. */
#include <string.h>

#include "interop/core/core.h"
#include "ron/base/assert.h"

static const char *const topics[] = {
#define X(name, topic) topic,
    IOP_NOTICES(X)
#undef X
};

static void text(struct ron_json_writer *j, const char *name, const char *value)
{
    if (*value != '\0') {
        ron_json_text(j, name, value);
    }
}

/* `topic` of a stream: one provider's events alone. */
static bool format(struct ron_buf *out, const void *message, const char *topic)
{
    const struct iop_notice *e = message;
    struct ron_json_writer j;

    if (topic[0] != '\0' && strcmp(topic, e->provider) != 0) {
        return false;
    }
    RON_IGNORE(ron_buf_append_fmt(out, "event: %s\ndata: ", topics[e->kind]));
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_u64(&j, "ts", e->ts_ms);
    text(&j, "provider", e->provider);
    text(&j, e->kind == IOP_NOTICE_PUT ? "address" : "b3_hash", e->b3);
    text(&j, "corr_id", e->corr_id);
    if (e->kind == IOP_NOTICE_BROWNOUT) {
        ron_json_bool(&j, "active", e->active);
    }
    text(&j, "reason", e->reason);
    ron_json_close(&j, '}');
    RON_IGNORE(ron_buf_append_text(out, "\n\n"));
    return true;
}

void iop_tell(struct iop_core *c, const struct iop_notice *event)
{
    RON_ASSERT(event->kind < IOP_NOTICE_COUNT);
    ron_http_events_publish(c->events, event);
}

void iop_events_http(struct ron_http_call *call, void *arg)
{
    struct iop_core *c = RON_OBJ(arg, struct iop_core, IOP_CORE_MAGIC);
    struct ron_str provider = {0};
    char name[64];
    uint64_t until_ms = 0;
    enum ron_rc rc;

    if (!iop_allowed(c, call, "interop.inspect", &until_ms)) {
        return;
    }
    rc = ron_http_query_get(ron_http_head(call)->query, "provider", name, sizeof name, &provider);
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        iop_fail(call, IOP_ERROR_MALFORMED, "provider: invalid or duplicate name");
        return;
    }
    rc = ron_http_events_join(c->events, call, provider, until_ms);
    if (rc != RON_OK) {
        iop_fail(call, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY,
                 "too many event streams");
    }
}

enum ron_rc iop_events_add(struct iop_core *c, struct ron_err *err)
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
                                       .capacity = (uint32_t)ron_conf_int(c->conf, IOP_Q_BROADCAST),
                                       .message_bytes = sizeof(struct iop_notice),
                                       .streams_max = IOP_STREAMS_MAX,
                                       .stage = 5,
                                       .greeting = "interop events",
                                       .format = format},
        &c->events, err);
}
