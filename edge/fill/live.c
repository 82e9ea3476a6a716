/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/live.c - content of origins: from a request to a stored answer or to a fill.
 *
 * Place: service, on the loop; nothing waits here. A stored answer is served as edg_fresh allows;
 * what must be asked for is joined to the fill of its target, or begins one (fills.c). */
#include <stdio.h>

#include "edge/answer/read.h"
#include "edge/fill/fills.h"
#include "edge/rules/fresh_update.h"
#include "ron/base/assert.h"

/* ---- stored answers -------------------------------------------------------------------------- */

bool edg_serve_stored(struct edg_fills *fills, struct edg_out *out,
                      const struct edg_stored *take_stored, const struct edg_status *status)
{
    const struct edg_origin_ops *ops = fills->ops[take_stored->origin];
    struct edg_extra extra = {
        .stored = take_stored,
        .age_s = edg_life_age_s(&take_stored->life, ron_env_wall_ms(fills->site->env)),
        .status = *status};
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_ASSERT_MSG(ops != NULL, "the origin of a stored answer has registered");
    RON_ASSERT_MSG((out->call != NULL) != (out->reply != NULL), "a request has one way back");
    if (ops->verbatim ? take_stored->size == 0 : take_stored->status != 200) {
        ops->serve(out, NULL, &extra);
        edg_stored_unref(take_stored);
        return true;
    }
    rc = out->call != NULL ? ron_cas_get(fills->store->cas, &take_stored->id, &obj)
                           : ron_cas_open(fills->store->cas, &take_stored->id, &obj, &err);
    if (rc == RON_OK && out->call != NULL && !edg_object_is_plain(obj)) {
        ron_cas_release(obj);
        rc = RON_AGAIN;
    }
    if (rc == RON_OK) {
        ops->serve(out, obj, &extra);
        edg_stored_unref(take_stored);
        return true;
    }
    /* On the loop: whether the disk or the bucket has it, a reader finds out. */
    if (rc == RON_AGAIN ||
        (rc == RON_NOTFOUND && out->call != NULL && fills->store->tier != NULL)) {
        edg_submit_stored(out, take_stored, status);
        return true;
    }
    /* Evicted, or damaged and set aside: the record is worth nothing. */
    (void)edg_table_drop_one(fills->store->table, take_stored);
    edg_stored_unref(take_stored);
    return false;
}

void edg_refill(struct edg_fills *fills, struct edg_out *out, const struct edg_stored *take_stored)
{
    uint32_t origin = take_stored->origin;

    RON_ASSERT(fills->ops[origin] != NULL);
    edg_count_of(out->site, EDG_M_MISSES, "cold", 1);
    fills->ops[origin]->refill(fills->ops_arg[origin], out, take_stored);
    edg_stored_unref(take_stored);
}

void edg_live_serve(struct edg_out *out, struct ron_cas_obj *take_obj,
                    const struct edg_extra *extra)
{
    if (take_obj == NULL) { /* remembered as absent */
        edg_fail(out, EDG_ERROR_NOT_FOUND);
    } else {
        edg_answer_object(out, take_obj, extra);
    }
}

void edg_live_refill(void *arg, struct edg_out *out, const struct edg_stored *stored)
{
    struct edg_want want = {
        .origin = stored->origin, .target = stored->target, .fwd = EDG_FWD_URI_MISS};

    edg_fill_wait(RON_OBJ(arg, struct edg_fills, EDG_FILLS_MAGIC), out, &want);
}

/* ---- a request ------------------------------------------------------------------------------- */

static const struct edg_stored *look_up(struct edg_fills *fills, uint32_t origin,
                                        struct ron_str target)
{
    const struct edg_stored *found = NULL;
    bool others;

    return edg_table_find(fills->store->table, origin, target, edg_origin_request(), &found,
                          &others) == RON_OK
               ? found
               : NULL;
}

static void answer(struct edg_fills *fills, struct edg_out *out, uint32_t origin,
                   struct ron_str target)
{
    const struct edg_stored *stored = look_up(fills, origin, target);
    struct edg_want want = {
        .origin = origin, .target = target, .stale = stored, .fwd = EDG_FWD_STALE};
    struct edg_ask ask;
    struct edg_use use;

    edg_ask_read(out->head->method, edg_fields_of(out->head), &ask);
    edg_use(stored != NULL ? &stored->life : NULL, &ask, ron_env_wall_ms(fills->site->env), &use);
    if (use.verdict == EDG_TIMEOUT_504) {
        edg_stored_unref(stored);
        edg_fail(out, EDG_ERROR_NOT_CACHED);
        return;
    }
    if (stored != NULL && (use.verdict == EDG_FRESH || use.verdict == EDG_STALE_OK)) {
        struct edg_status status = {.has_ttl = true, .ttl_s = use.ttl_s};

        if (use.refresh) {
            edg_fill_behind(fills, &want);
        }
        if (edg_serve_stored(fills, out, stored, &status)) {
            return;
        }
        stored = NULL;
    }
    edg_count_of(fills->site, EDG_M_MISSES, stored != NULL ? "stale" : "cold", 1);
    want.stale = stored;
    want.fwd = stored != NULL ? EDG_FWD_STALE : EDG_FWD_URI_MISS;
    want.shared = fills->store->tier != NULL && stored == NULL && !ask.no_cache &&
                  ask.max_age_s == EDG_SECONDS_NONE && ask.min_fresh_s == 0;
    edg_fill_wait(fills, out, &want);
    edg_stored_unref(stored);
}

void edg_live(struct edg_fills *fills, struct edg_out *out, struct ron_str origin,
              struct ron_str path)
{
    struct ron_str query = out->head->query;
    char target[EDG_LOCATION_MAX + 1];
    uint32_t index = 0;
    int len;

    if (!edg_path_stays(path)) {
        edg_fail(out, EDG_ERROR_BAD_PATH);
        return;
    }
    if (edg_origins_find(&fills->origins, origin, &index) == NULL) {
        edg_fail(out, EDG_ERROR_NOT_ALLOWED);
        return;
    }
    len =
        snprintf(target, sizeof target, "/%.*s%s%.*s", (int)path.len, path.ptr,
                 query.ptr != NULL ? "?" : "", (int)query.len, query.ptr != NULL ? query.ptr : "");
    if (len <= 0 || (size_t)len >= sizeof target) {
        edg_fail(out, EDG_ERROR_BAD_PATH);
        return;
    }
    if (!edg_origin_serves(&fills->origins.at[index], (struct ron_str){target, (size_t)len})) {
        edg_fail(out, EDG_ERROR_NOT_ALLOWED);
        return;
    }
    answer(fills, out, index, (struct ron_str){target, (size_t)len});
}
