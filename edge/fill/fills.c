/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/fills.c - fills that are queued or in progress, and their waiters.
 *
 * Between the loops that request fills and the workers that run them. Nothing waits here: a full
 * `work` is 429.
 *
 * Invariants:
 *   L1 of the fills that may be joined a target of an origin has at most one, and with a bucket one
 *      more, for those who want the origin's word.
 *   L2 a waiter belongs to its fill until the worker takes all of them, which it does under the
 *      same lock with which the fill leaves the list: a fill that has ended cannot be joined.
 *   L3 a spoiled fill stays spoiled. A purge or write first marks the fill, then drops the stored
 *      answer; a worker stores first, then checks the mark and drops again: nothing of it stays. */
#include <string.h>

#include "edge/fill/tier.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

/* With the lock held: one that may be joined. */
static struct edg_fill *find(struct edg_fills *f, const struct edg_want *want)
{
    RON_LIST_FOREACH(node, &f->list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (!x->want.alone && !x->spoiled && x->want.origin == want->origin &&
            (want->shared || !x->want.shared) && ron_str_equal(x->want.target, want->target)) {
            return x;
        }
    }
    return NULL;
}

static struct ron_str put_text(char **at, struct ron_str text)
{
    struct ron_str copy = {*at, text.len};

    memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return copy;
}

static struct edg_fill *fill_new(struct edg_fills *fills, const struct edg_want *want)
{
    size_t count = want->request.count;
    size_t len = want->target.len;
    struct edg_fill *f;
    char *at;

    for (size_t i = 0; i < count; i++) {
        len += want->request.at[i].name.len + want->request.at[i].value.len;
    }
    f = ron_alloc_zero(sizeof *f + count * sizeof f->fields[0] + len);
    if (f == NULL) {
        return NULL;
    }
    at = (char *)&f->fields[count];
    f->magic = EDG_FILL_MAGIC;
    f->want = *want;
    f->want.target = put_text(&at, want->target);
    for (size_t i = 0; i < count; i++) {
        f->fields[i].name = put_text(&at, want->request.at[i].name);
        f->fields[i].value = put_text(&at, want->request.at[i].value);
    }
    RON_ASSERT_MSG(at == (char *)&f->fields[count] + len, "the texts fill their room");
    f->want.request.at = f->fields;
    f->want.stale = want->stale != NULL ? edg_stored_ref(want->stale) : NULL;
    f->deadline = ron_deadline_after_ms(ron_env_now_ns(fills->site->env),
                                        (uint64_t)ron_conf_ms(fills->site->conf, EDG_FILL_TIMEOUT));
    return f;
}

void edg_fill_free(struct edg_fill *f)
{
    RON_CHECK_MAGIC(f, EDG_FILL_MAGIC);
    RON_ASSERT_MSG(f->waiters == NULL, "L2: waiters are answered before their fill is freed");
    f->magic = 0;
    edg_stored_unref(f->want.stale);
    ron_free(f);
}

/* On the loop, shortly before the request would time out: the fill goes on. */
static void on_late(struct ron_http_call *call, void *arg)
{
    struct edg_out out = {.site = RON_OBJ(arg, struct edg_site, EDG_SITE_MAGIC),
                          .call = call,
                          .head = ron_http_head(call)};

    edg_count(out.site, EDG_M_FILL_LATE, 1);
    edg_fail(&out, EDG_ERROR_FILLING);
}

/* Before the waiter joins: a request that ends before its fill is answered 202, where the origin
 * allows it; a request with more time gets the result. */
static void promise(struct edg_fills *fills, const struct edg_waiter *w, const struct edg_fill *f)
{
    uint64_t wait_ns = ron_http_reply_deadline(w->reply).at_ns;
    bool outlived = f->deadline.at_ns > ron_sat_add_u64(wait_ns, EDG_LATE_MS * RON_NS_PER_MS);

    ron_http_reply_set_late(w->reply,
                            outlived && fills->ops[f->want.origin]->late ? &fills->late : NULL);
}

/* Joins or begins the fill; `waiter` is NULL for a fill without waiters. RON_FULL, RON_CLOSED or
 * RON_NOMEM: the waiter still belongs to the caller. */
static enum ron_rc join(struct edg_fills *fills, const struct edg_want *want,
                        struct edg_waiter *waiter)
{
    struct edg_fill *fresh = fill_new(fills, want); /* not under the lock */
    struct edg_fill *x;
    enum ron_rc rc = RON_OK;

    RON_ASSERT(want->origin < EDG_OPS_MAX);
    RON_ASSERT_MSG(fills->ops[want->origin] != NULL, "an origin registers before its first fill");
    RON_ASSERT_MSG(fills->work != NULL, "fills begin after the workers");
    if (fresh == NULL) {
        return RON_NOMEM;
    }
    if (waiter != NULL) {
        ron_http_reply_from(waiter->reply, &fresh->from);
    }
    ron_mutex_lock(&fills->mu);
    x = want->alone ? NULL : find(fills, want);
    if (waiter != NULL) {
        promise(fills, waiter, x != NULL ? x : fresh);
    }
    if (x != NULL && x->waiter_count >= EDG_WAITERS_MAX) {
        rc = RON_FULL;
    } else if (x != NULL && waiter != NULL) {
        RON_ASSERT_MSG(!x->spoiled, "L3: a spoiled fill is not joined");
        RON_ASSERT_MSG(waiter->next == NULL, "L2: a waiter has one fill");
        waiter->next = x->waiters;
        x->waiters = waiter;
        x->waiter_count++;
    } else if (x == NULL) {
        rc = ron_chan_try_send(fills->work, fresh, NULL);
        if (rc == RON_OK) {
            x = fresh;
            x->waiters = waiter;
            x->waiter_count = waiter != NULL;
            ron_list_push_back(&fills->list, &x->link);
            fresh = NULL;
        }
    }
    ron_mutex_unlock(&fills->mu);
    if (fresh != NULL) {
        edg_fill_free(fresh);
    }
    if (rc == RON_OK && fresh != NULL && waiter != NULL) {
        edg_count(fills->site, EDG_M_COLLAPSED, 1);
    }
    return rc;
}

void edg_fills_calm(struct edg_fills *fills)
{
    struct ron_chan_stats stats;

    if (ron_need_state(fills->need) != RON_NEED_OK) {
        ron_chan_get_stats(fills->work, &stats);
        if (stats.depth <= (uint64_t)ron_conf_int(fills->site->conf, EDG_Q_WORK) / 2) {
            ron_need_set(fills->need, RON_NEED_OK, NULL, 0);
        }
    }
}

void edg_fill_wait(struct edg_fills *fills, struct edg_out *out, const struct edg_want *want)
{
    struct edg_waiter *w = ron_alloc_zero(sizeof *w);
    enum ron_rc rc = RON_NOMEM;

    RON_ASSERT_MSG((out->call != NULL) != (out->reply != NULL), "a request has one way back");
    if (w != NULL) {
        w->head = out->head;
        w->reply = out->reply;
        rc = out->call != NULL ? ron_http_defer(out->call, &w->reply) : RON_OK;
    }
    if (rc == RON_OK) {
        rc = join(fills, want, w);
        if (rc == RON_OK) {
            return;
        }
        if (out->call != NULL) {
            ron_http_undefer(out->call, w->reply);
        }
    }
    ron_free(w);
    if (rc == RON_FULL && ron_need_state(fills->need) == RON_NEED_OK) {
        ron_need_set(fills->need, RON_NEED_DEGRADED, "queue full; cache misses are answered 429",
                     0);
        edg_fills_calm(fills); /* The workers may have looked last before it was told. */
    }
    edg_fail(out, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
}

void edg_fill_behind(struct edg_fills *fills, const struct edg_want *want)
{
    (void)join(fills, want, NULL);
}

void edg_fills_spoil(struct edg_fills *fills, uint32_t origin, struct ron_str target)
{
    ron_mutex_lock(&fills->mu);
    RON_LIST_FOREACH(node, &fills->list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (x->want.origin == origin && ron_str_equal(x->want.target, target)) {
            x->spoiled = true;
        }
    }
    ron_mutex_unlock(&fills->mu);
}

void edg_fills_spoil_path(struct edg_fills *fills, uint32_t origin, struct ron_str path,
                          bool prefix)
{
    ron_mutex_lock(&fills->mu);
    RON_LIST_FOREACH(node, &fills->list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (x->want.origin == origin && edg_target_is(x->want.target, path, prefix)) {
            x->spoiled = true;
        }
    }
    ron_mutex_unlock(&fills->mu);
}

bool edg_fill_spoiled(struct edg_fills *fills, const struct edg_fill *f)
{
    bool spoiled;

    ron_mutex_lock(&fills->mu);
    spoiled = f->spoiled;
    ron_mutex_unlock(&fills->mu);
    return spoiled;
}

struct edg_waiter *edg_fill_end(struct edg_fills *fills, struct edg_fill *f)
{
    struct edg_waiter *turned = NULL;
    struct edg_waiter *w;

    ron_mutex_lock(&fills->mu);
    RON_ASSERT_MSG(ron_list_linked(&f->link), "L2: a fill ends once");
    ron_list_remove(&f->link);
    w = f->waiters;
    RON_ASSERT((w != NULL) == (f->waiter_count > 0));
    f->waiters = NULL;
    ron_mutex_unlock(&fills->mu);
    while (w != NULL) { /* Those who came first are answered first. */
        struct edg_waiter *next = w->next;

        w->next = turned;
        turned = w;
        w = next;
    }
    return turned;
}

/* ---- build and take down --------------------------------------------------------------------- */

void edg_fills_init(struct edg_fills *fills, struct edg_site *site, struct edg_store *store)
{
    *fills = (struct edg_fills){
        .magic = EDG_FILLS_MAGIC,
        .site = site,
        .store = store,
        .late = {.handle = on_late, .arg = site, .early_ms = EDG_LATE_MS},
    };
    ron_mutex_init(&fills->mu, RON_RANK_SHARED, "edge.fills");
    ron_list_init(&fills->list);
}

void edg_fills_register(struct edg_fills *fills, uint32_t origin, const struct edg_origin_ops *ops,
                        void *arg)
{
    RON_ASSERT(origin < EDG_OPS_MAX);
    RON_ASSERT_MSG(fills->ops[origin] == NULL, "an origin registers once");
    RON_ASSERT_MSG(fills->work == NULL, "origins register before the workers begin");
    RON_ASSERT(ops->run != NULL && ops->serve != NULL && ops->refill != NULL);
    fills->ops[origin] = ops;
    fills->ops_arg[origin] = arg;
}

enum ron_rc edg_fills_open(struct edg_fills *fills, struct ron_err *err)
{
    const struct edg_site *site = fills->site;

    RON_TRY(ron_needs_add(ron_app_needs(site->app), "fill_queue", false, &fills->need, err));
    if (fills->store->tier != NULL) {
        RON_TRY(edg_shared_new(fills, err));
    }
    return edg_origins_open(&fills->origins, site->app, site->conf,
                            (uint64_t)ron_conf_bytes(site->conf, EDG_OBJECT_BYTES), err);
}

void edg_fills_free(struct edg_fills *fills)
{
    RON_CHECK_MAGIC(fills, EDG_FILLS_MAGIC);
    edg_origins_close(&fills->origins);
    edg_shared_free(fills);
    ron_mutex_done(&fills->mu);
    fills->magic = 0;
}
