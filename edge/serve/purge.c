/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/purge.c - POST /edge/purge: forget what is stored, by path, by prefix or by content
 * id.
 *
 * Place: service. The request is judged on the loop, the work is a reader's: it walks tables and
 * removes files.
 *
 *     {"path":"/edge/assets/o/map/a.png?v=1"}   all variants of one path, of an origin or gateway
 *     {"prefix":"/edge/assets/o/map/2024/"}     all paths that begin so; /edge/assets/ledger/ is
 *                                               short for /edge/assets/o/ledger/, as in requests
 *     {"id":"b3:..."}                           the bytes themselves
 *
 * The capability `edge.purge` is required; without a key file the route does not exist.
 * Fills that are under way are not kept (L3 of fill/fills.c). The next request asks the origin. */
#include <string.h>

#include "edge/fill/tier.h"
#include "edge/serve/serve.h"
#include "ron/base/assert.h"

enum { BODY_MAX = 8192 };

struct wish {
    struct ron_str path;
    struct ron_str prefix;
    struct ron_str id;
    uint64_t present;
};

/* ---- the loop -------------------------------------------------------------------------------- */

static bool parse(char *text, size_t len, struct wish *ret_wish)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct wish, path, STRING, .max = EDG_LOCATION_MAX),
        RON_JSON_FIELD(struct wish, prefix, STRING, .max = EDG_LOCATION_MAX),
        RON_JSON_FIELD(struct wish, id, STRING, .max = 128),
    };
    static const struct ron_json_shape shape = RON_JSON_SHAPE(struct wish, fields, present);
    struct ron_json_error err;

    *ret_wish = (struct wish){0};
    return ron_json_scan(text, len, &shape, NULL, ret_wish, &err) == RON_OK &&
           (ret_wish->path.len > 0) + (ret_wish->prefix.len > 0) + (ret_wish->id.len > 0) == 1;
}

static void on_purge(struct ron_http_call *call, void *arg)
{
    struct edg_serve *s = RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC);
    struct edg_out out = {.site = s->site, .call = call, .head = ron_http_head(call)};
    struct ron_str body = ron_http_body(call);
    char text[BODY_MAX + 1];
    char path[EDG_LOCATION_MAX + 1] = "";
    struct edg_read *r;
    struct wish wish;
    struct ron_b3 id = {0};
    struct ron_str named;
    enum ron_cap_why why =
        ron_app_auth_check(s->auth, call, "edge.purge", (struct ron_str){0}, NULL, NULL);

    if (why != RON_CAP_OK) {
        edg_fail(&out, ron_cap_why_http(why) == 401 ? EDG_ERROR_UNAUTH : EDG_ERROR_FORBIDDEN);
        return;
    }
    memcpy(text, body.ptr, RON_MIN(body.len, (size_t)BODY_MAX));
    if (body.len > BODY_MAX || !parse(text, body.len, &wish)) {
        edg_fail(&out, EDG_ERROR_BAD_PURGE);
        return;
    }
    named = wish.path.len > 0 ? wish.path : wish.prefix;
    if (named.len > EDG_LOCATION_MAX || (named.len > 0 && named.ptr[0] != '/') ||
        (wish.id.len > 0 && ron_b3_parse(wish.id.ptr, wish.id.len, &id, NULL) != RON_OK)) {
        edg_fail(&out, EDG_ERROR_BAD_PURGE);
        return;
    }
    memcpy(path, named.ptr != NULL ? named.ptr : "", named.len);
    path[named.len] = '\0';
    r = edg_read_new(EDG_READ_PURGE, path);
    if (r != NULL) {
        r->id = id;
        r->prefix = wish.prefix.len > 0;
    }
    edg_read_submit(&out, r);
}

size_t edg_purge_routes(struct edg_serve *s, struct ron_http_route *rows, size_t count)
{
    if (s->auth != NULL) {
        rows[count++] =
            (struct ron_http_route){RON_HTTP_POST, "/edge/purge", on_purge, s, 0, BODY_MAX};
    }
    return count;
}

/* ---- the reader ------------------------------------------------------------------------------ */

/* Which stored answers a path means. False: it names no origin. */
static bool find_target(struct edg_serve *s, const char *path, uint32_t *ret_origin,
                        struct ron_str *ret_target)
{
    static const char live[] = "/edge/assets/o/";
    static const char ledger[] = "/edge/assets/ledger/";
    const char *name = NULL;
    const char *slash;

    *ret_origin = EDG_GATEWAY;
    *ret_target = ron_str_of(path);
    if (strncmp(path, live, sizeof live - 1) == 0) {
        name = path + sizeof live - 1;
    } else if (strncmp(path, ledger, sizeof ledger - 1) == 0) {
        name = path + strlen("/edge/assets/"); /* the short path of the origin `ledger` */
    } else {
        return s->gateway != NULL;
    }
    slash = strchr(name, '/');
    *ret_target = ron_str_of(slash != NULL ? slash : "");
    return slash != NULL &&
           edg_origins_find(&s->fills->origins, (struct ron_str){name, (size_t)(slash - name)},
                            ret_origin) != NULL;
}

static size_t purge_path(struct edg_serve *s, const struct edg_read *r)
{
    struct ron_str target;
    uint32_t origin = 0;

    if (!find_target(s, r->path, &origin, &target)) {
        return 0;
    }
    edg_shared_purge(s->fills, origin, target, r->prefix);
    edg_fills_spoil_path(s->fills, origin, target, r->prefix);
    return r->prefix || origin == EDG_GATEWAY /* of every host */
               ? edg_table_drop_path(s->store->table, origin, target, r->prefix)
               : edg_table_drop(s->store->table, origin, target);
}

void edg_purge(struct edg_serve *s, const struct edg_read *r, struct edg_out *out)
{
    bool by_path = r->path[0] != '\0';
    struct ron_buf *body = ron_http_reply_body(out->reply);
    struct ron_json_writer w;
    struct ron_err err = {0};
    enum ron_rc rc = RON_NOTFOUND;
    size_t records = 0;

    RON_ASSERT(r->kind == EDG_READ_PURGE);
    RON_ASSERT_MSG(RON_IMPLIES(r->prefix, by_path), "a prefix is a path");
    if (s->store->table != NULL && by_path) {
        records = purge_path(s, r);
    } else if (s->store->cas != NULL && !by_path) {
        rc = s->store->tier != NULL ? ron_tier_remove(s->store->tier, &r->id, &err)
                                    : ron_cas_remove(s->store->cas, &r->id, &err);
    }
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        RON_LOG(s->site->log, ERROR, "object removal failed", RON_LOG_ERR(&err));
        edg_fail(out, EDG_ERROR_STORAGE);
        return;
    }
    edg_count_of(s->site, EDG_M_PURGES, by_path ? (r->prefix ? "prefix" : "path") : "id", 1);
    RON_LOG(s->site->log, INFO, "purged", RON_LOG_STR("path", by_path ? r->path : "(content id)"),
            RON_LOG_U64("records", records), RON_LOG_U64("objects", rc == RON_OK));
    ron_json_begin(&w, body);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "records", records);
    ron_json_u64(&w, "objects", rc == RON_OK);
    ron_json_close(&w, '}');
    ron_http_reply_send(out->reply, 200, "application/json");
}
