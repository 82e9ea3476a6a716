/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/fills.c - fills that are wanted or under way, and who waits for them.
 *
 * Place: service, between the loops that want and the workers that do. Nothing waits here: a full
 * `work` is 429.
 *
 * Invariants:
 *   L1 of the fills that may be joined a target of an origin has at most one, and with a bucket one
 *      more, for those who want the origin's word.
 *   L2 a waiter belongs to its fill until the worker takes all of them, which it does under the
 *      same lock with which the fill leaves the list: nobody joins a fill that has ended.
 *   L3 a fill that was spoiled stays so. Who spoils marks first and drops what is stored then; who
 *      stores looks afterwards, and drops it again: nothing of it stays. */
#include <string.h>

#include "edge/gateway/gateway.h"
#include "ron/base/alloc.h"

static bool same(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* With the lock held: one that may be joined. */
static struct edg_fill *find(struct edg_fills *f, const struct edg_want *want)
{
    RON_LIST_FOREACH(node, &f->list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (!x->want.alone && !x->spoiled && x->want.origin == want->origin &&
            (want->shared || !x->want.shared) && same(x->want.target, want->target)) {
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

static struct edg_fill *fill_new(struct edg_svc *s, const struct edg_want *want)
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
    f->want = *want;
    f->want.target = put_text(&at, want->target);
    for (size_t i = 0; i < count; i++) {
        f->fields[i].name = put_text(&at, want->request.at[i].name);
        f->fields[i].value = put_text(&at, want->request.at[i].value);
    }
    f->want.request.at = f->fields;
    f->want.stale = want->stale != NULL ? edg_stored_ref(want->stale) : NULL;
    f->deadline = ron_deadline_after_ms(ron_env_now_ns(s->env),
                                        (uint64_t)ron_conf_ms(s->conf, EDG_FILL_TIMEOUT));
    return f;
}

void edg_fill_free(struct edg_fill *f)
{
    edg_stored_unref(f->want.stale);
    ron_free(f);
}

/* On the loop, shortly before the request would time out: the fill goes on. */
void edg_fill_late(struct ron_http_call *call, void *arg)
{
    struct edg_out out = {.s = arg, .call = call, .head = ron_http_head(call)};

    edg_count(out.s, EDG_M_FILL_LATE, 1);
    edg_fail(&out, EDG_ERROR_FILLING);
}

/* Before the waiter joins. Who has less time than the fill has is told 202 when it is over; who has
 * more hears how it ended. A gateway's client asks its application, which makes no such promise. */
static void promise(struct edg_svc *s, const struct edg_waiter *w, const struct edg_fill *f)
{
    uint64_t wait_ns = ron_http_reply_deadline(w->reply).at_ns;
    bool outlived = f->deadline.at_ns > ron_sat_add_u64(wait_ns, EDG_LATE_MS * RON_NS_PER_MS);

    ron_http_reply_set_late(w->reply,
                            outlived && f->want.origin != EDG_GATEWAY ? &s->late_fill : NULL);
}

/* Joins or begins the fill; `waiter` is NULL for one that nobody waits for. RON_FULL, RON_CLOSED or
 * RON_NOMEM: the waiter is the caller's still. */
static enum ron_rc join(struct edg_svc *s, const struct edg_want *want, struct edg_waiter *waiter)
{
    struct edg_fill *fresh = fill_new(s, want); /* not under the lock */
    struct edg_fill *x;
    enum ron_rc rc = RON_OK;

    if (fresh == NULL) {
        return RON_NOMEM;
    }
    if (waiter != NULL) {
        ron_http_reply_from(waiter->reply, &fresh->from);
    }
    ron_mutex_lock(&s->fills.mu);
    x = want->alone ? NULL : find(&s->fills, want);
    if (waiter != NULL) {
        promise(s, waiter, x != NULL ? x : fresh);
    }
    if (x != NULL && x->waiter_count >= EDG_WAITERS_MAX) {
        rc = RON_FULL;
    } else if (x != NULL && waiter != NULL) {
        waiter->next = x->waiters;
        x->waiters = waiter;
        x->waiter_count++;
    } else if (x == NULL) {
        rc = ron_chan_try_send(s->work, fresh, NULL);
        if (rc == RON_OK) {
            x = fresh;
            x->waiters = waiter;
            x->waiter_count = waiter != NULL;
            ron_list_push_back(&s->fills.list, &x->link);
            fresh = NULL;
        }
    }
    ron_mutex_unlock(&s->fills.mu);
    if (fresh != NULL) {
        edg_fill_free(fresh);
    }
    if (rc == RON_OK && fresh != NULL && waiter != NULL) {
        edg_count(s, EDG_M_COLLAPSED, 1);
    }
    return rc;
}

void edg_fills_calm(struct edg_svc *s)
{
    struct ron_chan_stats stats;

    if (ron_need_state(s->need_fill) != RON_NEED_OK) {
        ron_chan_get_stats(s->work, &stats);
        if (stats.depth <= (uint64_t)ron_conf_int(s->conf, EDG_Q_WORK) / 2) {
            ron_need_set(s->need_fill, RON_NEED_OK, NULL, 0);
        }
    }
}

void edg_fill_wait(struct edg_out *out, const struct edg_want *want)
{
    struct edg_svc *s = out->s;
    struct edg_waiter *w = ron_alloc_zero(sizeof *w);
    enum ron_rc rc = RON_NOMEM;

    if (w != NULL) {
        w->head = out->head;
        w->reply = out->reply;
        rc = out->call != NULL ? ron_http_defer(out->call, &w->reply) : RON_OK;
    }
    if (rc == RON_OK) {
        rc = join(s, want, w);
        if (rc == RON_OK) {
            return;
        }
        if (out->call != NULL) {
            ron_http_undefer(out->call, w->reply);
        }
    }
    ron_free(w);
    if (rc == RON_FULL && ron_need_state(s->need_fill) == RON_NEED_OK) {
        ron_need_set(s->need_fill, RON_NEED_DEGRADED, "the queue of fills is full: misses are 429",
                     0);
        edg_fills_calm(s); /* The workers may have looked last before it was told. */
    }
    edg_fail(out, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
}

void edg_fill_behind(struct edg_svc *s, const struct edg_want *want)
{
    (void)join(s, want, NULL);
}

void edg_fills_spoil(struct edg_svc *s, uint32_t origin, struct ron_str target)
{
    ron_mutex_lock(&s->fills.mu);
    RON_LIST_FOREACH(node, &s->fills.list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (x->want.origin == origin && same(x->want.target, target)) {
            x->spoiled = true;
        }
    }
    ron_mutex_unlock(&s->fills.mu);
}

void edg_fills_spoil_path(struct edg_svc *s, uint32_t origin, struct ron_str path, bool prefix)
{
    ron_mutex_lock(&s->fills.mu);
    RON_LIST_FOREACH(node, &s->fills.list)
    {
        struct edg_fill *x = RON_LIST_ENTRY(node, struct edg_fill, link);

        if (x->want.origin == origin && edg_target_is(x->want.target, path, prefix)) {
            x->spoiled = true;
        }
    }
    ron_mutex_unlock(&s->fills.mu);
}

bool edg_fill_spoiled(struct edg_svc *s, const struct edg_fill *f)
{
    bool spoiled;

    ron_mutex_lock(&s->fills.mu);
    spoiled = f->spoiled;
    ron_mutex_unlock(&s->fills.mu);
    return spoiled;
}

struct edg_waiter *edg_fill_end(struct edg_svc *s, struct edg_fill *f)
{
    struct edg_waiter *turned = NULL;
    struct edg_waiter *w;

    ron_mutex_lock(&s->fills.mu);
    ron_list_remove(&f->link);
    w = f->waiters;
    f->waiters = NULL;
    ron_mutex_unlock(&s->fills.mu);
    while (w != NULL) { /* Those who came first are answered first. */
        struct edg_waiter *next = w->next;

        w->next = turned;
        turned = w;
        w = next;
    }
    return turned;
}
