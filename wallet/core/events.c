/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/events.c - the audit stream: workers tell what they did, GET /v1/events shows it.
 *
 * Place: service, over ron/http/events.h. The bus `events` keeps the last 1024. It is a view for
 * people and dashboards: the durable audit is the ledger's journal. Accounts are told as hashes
 * that change with every start. */
#include "ron/base/assert.h"
#include "ron/base/clock.h"
#include "ron/base/hex.h"
#include "wallet/core/core.h"

enum { BUS_CAPACITY = 1024 }; /* of the specification */

static bool write_event(struct ron_buf *out, const void *message, const char *topic)
{
    const struct wlt_event *e = message;
    char hash[2 * sizeof e->account_hash + 1];
    struct ron_json_writer j;

    (void)topic;
    ron_hex(e->account_hash, sizeof e->account_hash, hash);
    RON_IGNORE(ron_buf_append_fmt(
        out, "event: %s\ndata: ", e->reason == WLT_REASON_NONE ? "accepted" : "rejected"));
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "op",
                  e->op == WLT_OP_COUNT ? "batch" : wlt_op_info((enum wlt_op)e->op)->name);
    ron_json_u64(&j, "ts", e->ts_ms);
    ron_json_text(&j, "account_hash", hash);
    ron_json_u64(&j, "count", e->count);
    if (e->reason == WLT_REASON_NONE) {
        ron_json_text(&j, "txid", e->txid);
        if (e->seq != 0) {
            ron_json_u64(&j, "ledger_seq_end", e->seq);
        } else { /* a receipt that was kept: it is in there */
            ron_json_null(&j, "ledger_seq_end");
        }
        ron_json_bool(&j, "replayed", e->replayed);
    } else {
        ron_json_text(&j, "reason", wlt_reason_label((enum wlt_reason)e->reason));
    }
    ron_json_close(&j, '}');
    RON_IGNORE(ron_buf_append_text(out, "\n\n"));
    return true;
}

void wlt_events_tell(struct wlt_site *s, const struct wlt_event *event)
{
    ron_http_events_publish(s->events, event);
}

bool wlt_events_watched(const struct wlt_site *s)
{
    return ron_http_events_watched(s->events);
}

/* When a token is good no more, the skew of clocks allowed for as everywhere. */
static uint64_t ends_ms(const struct ron_cap_grant *grant)
{
    uint64_t exp_s = ron_sat_add_u64(grant->exp_s, RON_CAP_SKEW_S);

    return exp_s < UINT64_MAX / RON_MS_PER_S ? exp_s * RON_MS_PER_S : UINT64_MAX;
}

void wlt_events_http(struct ron_http_call *call, void *arg)
{
    struct wlt_site *s = RON_OBJ(arg, struct wlt_site, WLT_SITE_MAGIC);
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct wlt_fault fault = {0};
    enum ron_rc rc;

    ron_arena_init_over(&arena, room, sizeof room);
    if (!wlt_auth_open(s, call, &arena, &grant, NULL, &fault) ||
        !wlt_auth_read(s, &grant, (struct ron_str){0}, (struct ron_str){0}, &fault)) {
        wlt_fail(s, call, &fault);
        return;
    }
    rc = ron_http_events_join(s->events, call, (struct ron_str){0}, ends_ms(&grant));
    if (rc != RON_OK) {
        wlt_fault_set(&fault, rc == RON_CLOSED ? WLT_REASON_DRAINING : WLT_REASON_BUSY, "",
                      "too many event streams");
        wlt_fail(s, call, &fault);
    }
}

enum ron_rc wlt_events_add(struct wlt_site *s, struct ron_err *err)
{
    return ron_http_events_new(
        &(struct ron_http_events_opts){.registry = ron_app_registry(s->app),
                                       .env = s->env,
                                       .sup = ron_app_sup(s->app),
                                       .log = ron_app_log(s->app),
                                       .bus_name = "events",
                                       .chan_name = "streams",
                                       .task_name = "audit",
                                       .producers = "workers",
                                       .capacity = BUS_CAPACITY,
                                       .message_bytes = sizeof(struct wlt_event),
                                       .streams_max = WLT_STREAMS_MAX,
                                       .stage = 2,
                                       .greeting = "wallet events",
                                       .format = write_event},
        &s->events, err);
}

void wlt_events_free(struct wlt_site *s)
{
    ron_http_events_free(s->events);
    s->events = NULL;
}
