/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/pipes.c - the pool of writes, the queue `work`, the ticker; contract in pipes.h. */
#include "wallet/core/pipes.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/core/ledger.h"
#include "wallet/core/metrics.h"

enum { TICK_MS = 1000, ROOM_MIN = 2048, ROOM_KEPT = 16384 };

/* ---- the pool -------------------------------------------------------------------------------- */

static void write_done(struct wlt_write *w)
{
    w->magic = 0;
    wlt_job_done(&w->job);
    ron_buf_done(&w->answer);
    ron_free(w->room);
    ron_free(w);
}

static struct wlt_write *new_write(void)
{
    struct wlt_write *w = ron_alloc_zero(sizeof *w);

    if (w != NULL) {
        w->magic = WLT_WRITE_MAGIC;
        wlt_job_init(&w->job);
        ron_buf_init(&w->answer, WLT_ANSWER_MAX);
        ron_list_node_init(&w->link);
    }
    return w;
}

/* One of the pool, or a new one; NULL when there are too many, or no memory. */
static struct wlt_write *take_write(struct wlt_pipes *p)
{
    struct wlt_write *w = NULL;
    bool room;

    ron_mutex_lock(&p->lock);
    room = p->out < p->max;
    if (room) {
        p->out++;
        w = p->idle;
        if (w != NULL) {
            p->idle = w->next;
        }
    }
    ron_mutex_unlock(&p->lock);
    if (room && w == NULL) {
        w = new_write();
        if (w == NULL) {
            ron_mutex_lock(&p->lock);
            p->out--;
            ron_mutex_unlock(&p->lock);
        }
    }
    return w;
}

struct wlt_write *wlt_write_get(struct wlt_pipes *p, size_t room)
{
    struct wlt_write *w = take_write(p);

    if (w == NULL) {
        return NULL;
    }
    if (w->room_bytes < room) {
        ron_free(w->room);
        w->room_bytes = RON_MAX(room, (size_t)ROOM_MIN);
        w->room = ron_alloc(w->room_bytes);
        if (w->room == NULL) {
            w->room_bytes = 0;
            wlt_write_put(p, w);
            return NULL;
        }
    }
    w->reply = NULL;
    w->asked = w->waiting = w->answered = false;
    ron_arena_init_over(&w->arena, w->room, w->room_bytes);
    return w;
}

void wlt_write_put(struct wlt_pipes *p, struct wlt_write *w)
{
    RON_CHECK_MAGIC(w, WLT_WRITE_MAGIC);
    if (w->room_bytes > ROOM_KEPT) { /* a large batch does not stay in memory */
        ron_free(w->room);
        w->room = NULL;
        w->room_bytes = 0;
        wlt_job_done(&w->job);
        wlt_job_init(&w->job);
        ron_buf_done(&w->answer);
        ron_buf_init(&w->answer, WLT_ANSWER_MAX);
    }
    ron_mutex_lock(&p->lock);
    RON_ASSERT_MSG(p->out > 0, "P2: more writes come back than were taken");
    w->next = p->idle;
    p->idle = w;
    p->out--;
    ron_mutex_unlock(&p->lock);
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* Writes left in the queue when it is freed. */
static void drop_write(void *item, void *arg)
{
    struct wlt_pipes *p = RON_OBJ(arg, struct wlt_pipes, WLT_PIPES_MAGIC);
    struct wlt_write *w = RON_OBJ(item, struct wlt_write, WLT_WRITE_MAGIC);
    struct wlt_fault fault;

    wlt_fault_set(&fault, WLT_REASON_DRAINING, "", NULL);
    wlt_reply_fail(p->site, w->reply, &fault);
    wlt_write_put(p, w);
}

enum ron_rc wlt_pipes_new(struct wlt_pipes *p, struct wlt_site *s, struct ron_err *err)
{
    int64_t queued = ron_conf_int(s->conf, WLT_Q_WORK);

    p->magic = WLT_PIPES_MAGIC;
    p->site = s;
    p->max = (uint32_t)(ron_conf_int(s->conf, RON_APP_INFLIGHT) + queued);
    ron_mutex_init(&p->lock, RON_RANK_LEAF, "wallet.writes");
    RON_TRY(ron_needs_add(ron_app_needs(s->app), "work_queue", false, &p->need_queue, err));
    return ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                .env = s->env,
                                .name = "work",
                                .producers = "http",
                                .consumers = "workers",
                                .drop_text = "answered 429 busy; busy_rejections_total",
                                .capacity = (uint32_t)queued,
                                .policy = RON_CHAN_REJECT,
                                .drop = drop_write,
                                .drop_arg = p},
        &p->work, err);
}

void wlt_pipes_close(struct wlt_pipes *p)
{
    if (p->work != NULL) {
        ron_chan_free(p->work);
        p->work = NULL;
    }
}

void wlt_pipes_done(struct wlt_pipes *p)
{
    if (p->magic == 0) { /* was not made */
        return;
    }
    RON_CHECK_MAGIC(p, WLT_PIPES_MAGIC);
    RON_ASSERT_MSG(p->out == 0, "P1: %u writes are still outside the pool", p->out);
    while (p->idle != NULL) {
        struct wlt_write *w = p->idle;

        p->idle = w->next;
        write_done(w);
    }
    ron_mutex_done(&p->lock);
    p->magic = 0;
}

/* ---- the ticker ------------------------------------------------------------------------------ */

/* Samples each second, on time whatever a sample cost: the next tick is one second after the last
 * was due. */
static enum ron_rc tick(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct wlt_pipes *p = RON_OBJ(arg, struct wlt_pipes, WLT_PIPES_MAGIC);
    uint64_t now_ms = ron_task_now_ms(t);
    struct ron_chan_stats work;
    bool full;

    (void)items;
    (void)count;
    if (p->next_tick_ms == 0) {
        p->next_tick_ms = now_ms;
    }
    if (now_ms >= p->next_tick_ms) {
        ron_chan_get_stats(p->work, &work);
        full = work.depth >= ron_chan_capacity(p->work);
        ron_need_set(p->need_queue, full ? RON_NEED_MISSING : RON_NEED_OK,
                     full ? "work queue is full" : "", 1);
        wlt_metrics_tick(p->site, ron_au32_load(&p->inflight));
        p->next_tick_ms += TICK_MS * ((now_ms - p->next_tick_ms) / TICK_MS + 1);
    }
    ron_task_wake_at(t, p->next_tick_ms);
    return RON_OK;
}

enum ron_rc wlt_ticker_add(struct wlt_pipes *p, struct ron_err *err)
{
    return ron_sup_add(ron_app_sup(p->site->app),
                       &(struct ron_task_def){.name = "metrics_tick",
                                              .kind = "ticker",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 2,
                                              .handle = tick,
                                              .arg = p},
                       NULL, err);
}
