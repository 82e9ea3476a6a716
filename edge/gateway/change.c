/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/change.c - what an answer that passed changes in the store: writes invalidate (RFC
 * 9111 4.4), the answer to a HEAD freshens or invalidates (4.3.5).
 *
 * Place: service, on the task of the gateway's client; nothing waits. */
#include "edge/gateway/priv.h"
#include "edge/rules/surrogate.h"
#include "ron/base/assert.h"

bool edg_gateway_judge(const struct edg_gateway *g, const struct edg_exchange *exchange,
                       struct edg_life *ret_life)
{
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX + 1];
    struct edg_exchange judged = *exchange;
    char room[EDG_SURROGATE_MAX];

    if (edg_surrogate(exchange->response, EDG_PSEUDONYM, fields, RON_ARRAY_LEN(fields), room,
                      &judged.response) != RON_OK) {
        return false;
    }
    edg_life_read(&judged, &g->origin->policy, ret_life);
    return edg_store_judge(&judged, &g->origin->policy) == EDG_STORE_OK;
}

static void drop(struct edg_gateway *g, const struct ron_http_head *head, struct ron_str target)
{
    char room[EDG_KEY_MAX];
    struct ron_str key;

    if (edg_gateway_key(g, head, target, room, &key) == RON_OK) { /* else nothing is stored */
        edg_fills_spoil(g->fills, EDG_GATEWAY, key);
        (void)edg_table_drop(g->store->table, EDG_GATEWAY, key);
    }
}

void edg_gateway_invalidate(struct edg_gateway *g, const struct ron_http_head *head, int status,
                            struct edg_fields response)
{
    static const char *const names[] = {"Location", "Content-Location"};
    struct edg_base base = {
        .host = head->host, .origin = ron_str_of(g->authority), .target = head->target};
    char room[EDG_LOCATION_MAX];
    struct ron_str value;
    struct ron_str target;

    if (!edg_invalidates(head->method, status)) {
        return;
    }
    drop(g, head, head->target);
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        if (edg_fields_get(response, names[i], &value) == 1 &&
            edg_location(&base, value, room, sizeof room, &target) == RON_OK) {
            drop(g, head, target);
        }
    }
}

/* Whether a field of a HEAD response equals the stored one; an absent field agrees. */
static bool agrees(struct edg_fields stored, struct edg_fields response, const char *name)
{
    struct ron_str now;
    struct ron_str then;

    return edg_fields_get(response, name, &now) == 0 ||
           (edg_fields_get(stored, name, &then) == 1 && now.len == then.len &&
            ron_str_equal_nocase(now, then));
}

static bool same_bytes(const struct edg_stored *stored, struct edg_fields response)
{
    struct ron_str text;
    uint64_t length;

    return agrees(stored->fields, response, "ETag") &&
           agrees(stored->fields, response, "Last-Modified") &&
           (edg_fields_get(response, "Content-Length", &text) != 1 ||
            (ron_http_parse_u64(text, &length) == RON_OK && length == stored->size));
}

void edg_gateway_head(struct edg_gateway *g, const struct ron_http_head *head,
                      const struct edg_stored *stored, int status, struct edg_fields response,
                      uint64_t begun_ms)
{
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    struct edg_exchange exchange = {.method = RON_HTTP_GET,
                                    .request = edg_fields_of(head),
                                    .status = stored->status,
                                    .request_ms = begun_ms,
                                    .response_ms = ron_env_wall_ms(g->site->env)};
    struct edg_stored like = *stored;
    const struct edg_stored *record;
    size_t count = 0;
    bool keep = false;

    RON_ASSERT(stored->origin == EDG_GATEWAY);
    if (status == 304 || status >= 500) {
        return; /* It speaks of the client's conditions, or of a failure. */
    }
    if (status != stored->status || !same_bytes(stored, response) ||
        edg_update_merge(stored->fields, response, fields, EDG_STORED_FIELDS_MAX, &count) !=
            RON_OK) {
        (void)edg_table_drop_one(g->store->table, stored);
        return;
    }
    exchange.response = (struct edg_fields){fields, count};
    if (!edg_gateway_judge(g, &exchange, &like.life)) {
        (void)edg_table_drop_one(g->store->table, stored);
        return;
    }
    record = edg_record_make(g->site, like, exchange.request, exchange.response, &keep);
    if (keep) {
        (void)edg_table_put(g->store->table, edg_stored_ref(record));
    }
    edg_stored_unref(record);
}
