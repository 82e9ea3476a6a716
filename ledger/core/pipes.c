/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/pipes.c - channels between the stages; the contract is in pipes.h. */
#include "ledger/core/pipes.h"

#include "ledger/conf.h"
#include "ron/app/app.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    LONE_SYNC_NS = 500 * 1000, /* of slower ones a wake-up is less than a tenth */
    /* Bytes of a large request: a hundred entries, whose prevalidation takes several times as long
     * as a wake-up. */
    LARGE = 16384,
};

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led_pipes_init(struct led_pipes *p, struct ron_app *app, struct ron_err *err)
{
    p->magic = LED_PIPES_MAGIC;
    p->cpus = ron_exec_workers(ron_app_exec(app));
    p->awake_ns = (uint64_t)ron_conf_int(ron_app_conf(app), LED_AWAKE_US) * 1000;
    RON_TRY(led_works_new(&p->works, err));
    RON_TRY(led_queries_new(&p->queries, err));
    return led_feed_new(ron_app_registry(app), &p->feed, err);
}

void led_pipes_done(struct led_pipes *p)
{
    p->magic = 0;
    led_queries_free(p->queries);
    led_feed_free(p->feed);
    led_works_free(p->works);
}

static void drop_work(void *item, void *arg)
{
    struct led_work *w = RON_OBJ(item, struct led_work, LED_WORK_MAGIC);

    (void)arg;
    led_work_refuse(w, LED_REASON_DRAINING, "", "the ledger is shutting down");
    led_work_done(w);
}

static void drop_query(void *item, void *arg)
{
    struct led_pipes *p = RON_OBJ(arg, struct led_pipes, LED_PIPES_MAGIC);

    led_query_refuse(p->queries, RON_OBJ(item, struct led_query, LED_QUERY_MAGIC),
                     LED_REASON_DRAINING, NULL);
}

static void drop_chunk(void *item, void *arg)
{
    struct led_image_chunk *c = item;

    (void)arg;
    ron_free(c->take_bytes);
    ron_free(c);
}

enum ron_rc led_pipes_open(struct led_pipes *p, struct ron_app *app, struct ron_err *err)
{
    const struct {
        struct ron_chan **chan;
        int key; /* of its capacity, or -1 */
        struct ron_chan_opts opts;
    } rows[] = {
        {&p->ingress,
         LED_Q_INGRESS,
         {.name = "ingress",
          .producers = "http, oap",
          .consumers = "prevalidators",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&p->batches,
         LED_Q_INGRESS,
         {.name = "batches",
          .producers = "http, oap",
          .consumers = "batches-0..n",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .wake_batch = 1,
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&p->validated,
         LED_Q_PREVAL,
         {.name = "preval",
          .producers = "prevalidators, readers",
          .consumers = "sequencer",
          .drop_text = "the oldest is answered 429 busy; drops_total",
          .policy = RON_CHAN_DROP_OLDEST,
          .drop = drop_work}},
        {&p->commit,
         LED_Q_COMMIT,
         {.name = "commit",
          .producers = "sequencer",
          .consumers = "committer",
          .drop_text = "room is reserved before a seq is given; without it 503 busy",
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&p->reads,
         LED_Q_READS,
         {.name = "reads",
          .producers = "sequencer",
          .consumers = "readers",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .wake_batch = 1,
          .policy = RON_CHAN_REJECT,
          .drop = drop_query}},
        {&p->asks,
         LED_Q_READS,
         {.name = "asks",
          .producers = "http, prevalidators",
          .consumers = "sequencer",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .policy = RON_CHAN_REJECT,
          .drop = drop_query}},
        {&p->images,
         -1,
         {.name = "images",
          .producers = "sequencer",
          .consumers = "indexer",
          .drop_text = "room is reserved before a chunk is made",
          .capacity = 16, /* 1 MiB of chunks */
          .policy = RON_CHAN_REJECT,
          .drop = drop_chunk}},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_chan_opts o = rows[i].opts;

        o.registry = ron_app_registry(app);
        o.env = ron_app_env(app);
        o.drop_arg = p;
        if (rows[i].key >= 0) {
            o.capacity = (uint32_t)ron_conf_int(ron_app_conf(app), (size_t)rows[i].key);
        }
        RON_TRY(ron_chan_new(&o, rows[i].chan, err));
    }
    return RON_OK;
}

void led_pipes_close(struct led_pipes *p)
{
    struct ron_chan **all[] = {&p->ingress, &p->batches, &p->validated, &p->commit,
                               &p->asks,    &p->reads,   &p->images};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (*all[i] != NULL) {
            ron_chan_free(*all[i]);
        }
    }
}

/* ---- ways ------------------------------------------------------------------------------------ */

static void refuse(struct led_work *w, enum led_reason reason, const char *detail)
{
    led_work_refuse(w, reason, "", detail);
    led_work_done(w);
}

uint64_t led_pipes_awake_ns(struct led_pipes *p, const struct led_work *w)
{
    uint64_t sync_ns = ron_au64_load(&p->sync_ns);

    return w->lone && w->in.len < LARGE && sync_ns <= LONE_SYNC_NS ? p->awake_ns : 0;
}

static void await_answer(struct led_pipes *p, const struct led_work *w)
{
    uint64_t awake_ns = led_pipes_awake_ns(p, w);

    if (awake_ns != 0) {
        ron_worker_stay_awake(w->received_ns + ron_au64_load(&p->sync_ns) + awake_ns);
    }
}

struct ron_chan *led_pipes_entrance(struct led_pipes *p, const struct led_work *w)
{
    return w->in.len < LARGE ? p->ingress : p->batches;
}

enum ron_rc led_pipes_submit(struct led_pipes *p, struct led_work *w)
{
    await_answer(p, w);
    return ron_chan_try_send(led_pipes_entrance(p, w), w, NULL);
}

void led_pipes_validated(struct led_pipes *p, struct led_work *w)
{
    void *evicted = NULL;

    if (ron_chan_try_send(p->validated, w, &evicted) != RON_OK) {
        refuse(w, LED_REASON_DRAINING, "the ledger is shutting down");
        return;
    }
    if (evicted != NULL) {
        led_metrics_dropped(p->metrics);
        refuse(RON_OBJ(evicted, struct led_work, LED_WORK_MAGIC), LED_REASON_BUSY,
               "newer requests took its place in the queue");
    }
}

/* Through the sequencer, which adds what it knows of recent entries. */
void led_pipes_look_up(struct led_pipes *p, struct led_work *w)
{
    struct led_query *q = led_query_get(p->queries);
    enum ron_rc rc;

    if (q == NULL) {
        refuse(w, LED_REASON_BUSY, "too many requests wait for the journal");
        return;
    }
    q->ask = LED_ASK_WORK;
    q->work = w;
    rc = ron_chan_try_send(p->asks, q, NULL);
    if (rc != RON_OK) {
        led_query_refuse(p->queries, q, rc == RON_CLOSED ? LED_REASON_DRAINING : LED_REASON_BUSY,
                         "too many requests wait for the journal");
    }
}

void led_pipes_cancel(struct led_pipes *p, struct led_engine *e, struct led_work *w,
                      struct ron_str idem_id)
{
    w->kind = LED_WORK_CANCEL;
    w->batch.idem_id.ptr = ron_arena_dup(&w->arena, idem_id.ptr, idem_id.len);
    w->batch.idem_id.len = idem_id.len;
    if (!led_engine_lease(e)) {
        led_work_refuse(w, LED_REASON_SAFE_MODE, "", "the journal is being opened anew");
        led_work_done(w);
        return;
    }
    if (e->live.index == NULL || !led_engine_has(e, w)) {
        led_engine_unlease(e);
        led_work_refuse(w, LED_REASON_SAFE_MODE, "", "writes are stopped");
        led_work_done(w);
        return;
    }
    w->idem = led_idem_key(e->hash_key, idem_id);
    led_preval_look_up(e->live.index, w);
    led_engine_unlease(e);
    if (w->look_up != 0) {
        led_pipes_look_up(p, w);
    } else {
        led_pipes_validated(p, w);
    }
}
