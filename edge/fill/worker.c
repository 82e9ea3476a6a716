/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/worker.c - fill workers: one exchange with an origin, then an answer for all who wait.
 *
 * Place: service. A worker takes a fill from `work`, asks the origin (with the validators of what
 * is stale), writes the bytes to the store, puts the record into the table, and answers the waiters
 * from it. Nothing is answered from bytes that are not stored and hashed. */
#include <stdio.h>
#include <string.h>

#include "edge/fill/tier.h"
#include "edge/rules/fresh_update.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { FILL_TRIES = 3 }; /* workers that may fail with one fill */

/* ---- records --------------------------------------------------------------------------------- */

/* The variants of an answer. One in a content coding depends on what the request accepts, whether
 * its origin says so or not. */
static void vary_of(struct edg_fields fields, struct edg_vary *ret_vary)
{
    struct ron_http_field more[EDG_STORED_FIELDS_MAX + 1];

    if (edg_fields_has(fields, "Content-Encoding") && fields.count <= EDG_STORED_FIELDS_MAX) {
        memcpy(more, fields.at, fields.count * sizeof more[0]);
        more[fields.count] =
            (struct ron_http_field){ron_str_of("Vary"), ron_str_of("Accept-Encoding")};
        fields = (struct edg_fields){more, fields.count + 1};
    }
    edg_vary_parse(fields, ret_vary);
}

const struct edg_stored *edg_record_make(struct edg_site *site, struct edg_stored like,
                                         struct edg_fields request, struct edg_fields fields,
                                         bool *ret_keep)
{
    const struct edg_stored *made = NULL;
    struct edg_vary vary;
    struct ron_buf key;
    struct ron_err err = {0};

    RON_ASSERT(like.target.len > 0);
    ron_buf_init(&key, EDG_VARY_KEY_MAX);
    vary_of(fields, &vary);
    like.fields = fields;
    *ret_keep =
        !vary.any && edg_vary_key((struct ron_str){vary.text, vary.len}, request, &key) == RON_OK;
    if (*ret_keep) {
        like.vary = (struct ron_str){vary.text, vary.len};
        like.key = (struct ron_str){(const char *)ron_buf_data(&key), ron_buf_len(&key)};
    }
    if (edg_stored_new(&like, &made, &err) != RON_OK) {
        RON_LOG(site->log, WARN, "response not cached", RON_LOG_ERR(&err));
        made = NULL;
        *ret_keep = false;
    }
    ron_buf_done(&key);
    return made;
}

/* What the exchange makes of the target: a record to answer from, or NULL. It is in the table if it
 * may be kept. */
static const struct edg_stored *record_of(struct edg_fills *fills, const struct edg_fill *f,
                                          struct edg_fetched *got, bool *ret_stored)
{
    const struct edg_origin *origin = &fills->origins.at[f->want.origin];
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    struct edg_exchange exchange = got->exchange;
    struct edg_stored like = {.origin = f->want.origin,
                              .status = got->outcome == EDG_OUTCOME_ABSENT ? got->status : 200,
                              .target = f->want.target,
                              .id = got->id,
                              .size = got->size};
    const struct edg_stored *made;
    size_t count = 0;
    enum ron_rc rc;

    if (got->outcome == EDG_OUTCOME_SAME) {
        RON_ASSERT(f->want.stale != NULL);   /* Only then a condition was sent. */
        like.status = f->want.stale->status; /* a 404 may have a tag, too */
        like.id = f->want.stale->id;
        like.size = f->want.stale->size;
        rc = edg_update_merge(f->want.stale->fields, exchange.response, fields,
                              EDG_STORED_FIELDS_MAX, &count);
        exchange.status = like.status;
    } else {
        rc = edg_update_keep(exchange.response, fields, EDG_STORED_FIELDS_MAX, &count);
    }
    if (rc != RON_OK) {
        return NULL;
    }
    if (got->outcome == EDG_OUTCOME_SAME) {
        exchange.response = (struct edg_fields){fields, count};
    }
    edg_life_read(&exchange, &origin->policy, &like.life);
    made = edg_record_make(fills->site, like, edg_origin_request(),
                           (struct edg_fields){fields, count}, ret_stored);
    *ret_stored = *ret_stored && edg_store_judge(&exchange, &origin->policy) == EDG_STORE_OK;
    *ret_stored = *ret_stored && !edg_fill_spoiled(fills, f);
    if (*ret_stored) {
        (void)edg_table_put(fills->store->table, edg_stored_ref(made));
    }
    if (!*ret_stored || edg_fill_spoiled(fills, f)) {
        (void)edg_table_drop(fills->store->table, f->want.origin, f->want.target);
    }
    return made;
}

/* ---- waiters --------------------------------------------------------------------------------- */

static enum edg_error error_of(enum edg_outcome outcome)
{
    static const enum edg_error rows[] = {
        [EDG_OUTCOME_FILLED] = EDG_ERROR_STORAGE, /* the bytes are gone already */
        [EDG_OUTCOME_SAME] = EDG_ERROR_STORAGE,
        [EDG_OUTCOME_ABSENT] = EDG_ERROR_NOT_FOUND,
        [EDG_OUTCOME_FAILED] = EDG_ERROR_UPSTREAM,
        [EDG_OUTCOME_NOT_ALLOWED] = EDG_ERROR_NOT_ALLOWED,
        [EDG_OUTCOME_ETAG_INVALID] = EDG_ERROR_ETAG_INVALID,
        [EDG_OUTCOME_TOO_LARGE] = EDG_ERROR_BODY_CAP,
        [EDG_OUTCOME_TIMEOUT] = EDG_ERROR_TIMEOUT,
        [EDG_OUTCOME_STORE] = EDG_ERROR_STORAGE,
        [EDG_OUTCOME_MEMORY] = EDG_ERROR_BUSY,
    };

    RON_ASSERT((size_t)outcome < RON_ARRAY_LEN(rows));
    return rows[outcome];
}

static void answer_waiters(struct edg_fills *fills, struct edg_waiter *w,
                           const struct edg_stored *record, struct edg_status status,
                           enum edg_error error)
{
    for (bool first = true; w != NULL; first = false) {
        struct edg_out out = {.site = fills->site, .reply = w->reply, .head = w->head};
        struct edg_waiter *next = w->next;

        RON_ASSERT_MSG(w->reply != NULL, "L2: a waiter has one reply until it is answered");
        status.collapsed = !first;
        if (record == NULL || !edg_serve_stored(fills, &out, edg_stored_ref(record), &status)) {
            edg_fail(&out, error);
        }
        ron_free(w);
        w = next;
    }
}

/* Ends a fill that will not run: its waiters are answered with the error. */
static void drop(struct edg_fills *fills, struct edg_fill *take_fill, enum edg_error error)
{
    answer_waiters(fills, edg_fill_end(fills, take_fill), NULL, (struct edg_status){0}, error);
    edg_fill_free(take_fill);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* Whether the stale answer may be served while the origin fails, to a client without directives. */
static bool stale_may_serve(struct edg_fills *fills, const struct edg_fill *f,
                            const struct edg_fetched *got)
{
    struct edg_ask ask;

    edg_ask_read(RON_HTTP_GET, (struct edg_fields){0}, &ask);
    return f->want.stale != NULL &&
           (got->outcome == EDG_OUTCOME_FAILED || got->outcome == EDG_OUTCOME_TIMEOUT) &&
           edg_use_on_error(&f->want.stale->life, &ask, got->status,
                            ron_env_wall_ms(fills->site->env));
}

/* Of a worker that has no memory: the fill, which is in the list still, is for another one, or has
 * failed. */
static void run_again(struct edg_fills *fills, struct edg_fill *f)
{
    enum ron_rc rc = RON_LIMIT;

    RON_ASSERT_MSG(f->tries < FILL_TRIES, "a fill is tried FILL_TRIES times");
    RON_LOG(fills->site->log, WARN, "worker out of memory; fill requeued",
            RON_LOG_U64("tries", f->tries + 1U));
    if (++f->tries < FILL_TRIES) {
        rc = ron_chan_try_send(fills->work, f, NULL); /* then it belongs to the queue */
    }
    if (rc != RON_OK) {
        drop(fills, f, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
    }
}

/* Keeps an object from eviction until those who wait are answered from it; NULL when it is gone. */
static struct ron_cas_obj *hold(struct edg_fills *fills, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};

    return ron_cas_open(fills->store->cas, id, &obj, &err) == RON_OK ? obj : NULL;
}

/* A stale answer is revalidated only while its bytes are in the store: a 304 would confirm bytes
 * that are gone. */
static struct ron_cas_obj *hold_stale(struct edg_fills *fills, struct edg_fill *f)
{
    const struct edg_stored *stale = f->want.stale;
    struct ron_cas_obj *obj = NULL;

    if (stale != NULL && stale->status == 200) {
        obj = hold(fills, &stale->id);
        if (obj == NULL) {
            (void)edg_table_drop_one(fills->store->table, stale);
            edg_stored_unref(stale);
            f->want.stale = NULL;
        }
    }
    return obj;
}

static void let_go(struct ron_cas_obj *obj)
{
    if (obj != NULL) {
        ron_cas_release(obj);
    }
}

/* Whether another edge has filled it: then the waiters are answered. */
static bool run_shared(struct edg_fills *fills, struct edg_fill *f)
{
    const struct edg_stored *record = f->want.shared ? edg_shared_find(fills, f) : NULL;
    struct edg_status status = {.has_ttl = true, .detail = "bucket"};

    if (record == NULL) {
        return false;
    }
    if (edg_fill_spoiled(fills, f)) {
        (void)edg_table_drop(fills->store->table, f->want.origin, f->want.target);
    }
    status.ttl_s = edg_life_ttl_s(&record->life, ron_env_wall_ms(fills->site->env));
    answer_waiters(fills, edg_fill_end(fills, f), record, status, EDG_ERROR_STORAGE);
    edg_stored_unref(record);
    edg_fill_free(f);
    return true;
}

/* Counts the exchange and tells operators about it. */
static void report(struct edg_fills *fills, const struct edg_origin *origin,
                   const struct edg_fetched *got, bool good, uint64_t begun_ns)
{
    edg_count_of(fills->site, EDG_M_FILL_SUCCESS, origin->name, good);
    edg_observe(fills->site, EDG_M_FILL_LATENCY, ron_env_now_ns(fills->site->env) - begun_ns);
    edg_events_tell(fills->site,
                    &(struct edg_event){.fill = true,
                                        .status = (uint32_t)got->status,
                                        .bytes = got->size,
                                        .what = got->outcome == EDG_OUTCOME_FILLED   ? "filled"
                                                : got->outcome == EDG_OUTCOME_SAME   ? "same"
                                                : got->outcome == EDG_OUTCOME_ABSENT ? "absent"
                                                                                     : "failed"},
                    origin->name);
    if (got->outcome == EDG_OUTCOME_FILLED || got->outcome == EDG_OUTCOME_STORE) {
        edg_count_of(fills->site, EDG_M_CAS_WRITES,
                     got->outcome == EDG_OUTCOME_FILLED ? "ok" : "error", 1);
    }
}

/* RON_NOMEM: it did not begin, and the fill was requeued or has ended. */
static enum ron_rc run_origin(struct edg_filler *k, struct edg_fill *f)
{
    struct edg_fills *fills = k->fills;
    const struct edg_origin *origin = &fills->origins.at[f->want.origin];
    struct edg_fetched *got = &k->fetched;
    uint64_t begun_ns = ron_env_now_ns(fills->site->env);
    const struct edg_stored *record = NULL;
    struct edg_status status = {.fwd = f->want.fwd};
    struct ron_cas_obj *old = hold_stale(fills, f);
    struct ron_cas_obj *filled = NULL;
    bool good;

    edg_count_of(fills->site, EDG_M_FILL_ATTEMPTS, origin->name, 1);
    edg_exchange_run(&(struct edg_exchange_opts){.env = fills->site->env,
                                                 .origin = origin,
                                                 .target = f->want.target,
                                                 .stale = f->want.stale,
                                                 .store = fills->store->cas,
                                                 .pin = ron_tier_pins(fills->store->tier),
                                                 .pipe = &k->pipe,
                                                 .deadline = f->deadline},
                     got);
    if (got->outcome == EDG_OUTCOME_MEMORY) {
        edg_exchange_done(got);
        let_go(old);
        run_again(fills, f);
        return RON_NOMEM;
    }
    filled = got->outcome == EDG_OUTCOME_FILLED ? hold(fills, &got->id) : NULL;
    if (got->outcome == EDG_OUTCOME_FILLED) {
        edg_s3_stored(fills->site, fills->store, &got->id, f->deadline);
    }
    good = got->outcome == EDG_OUTCOME_FILLED || got->outcome == EDG_OUTCOME_SAME;
    report(fills, origin, got, good, begun_ns);
    status.fwd_status = got->status;
    if (good || got->outcome == EDG_OUTCOME_ABSENT) {
        record = record_of(fills, f, got, &status.stored);
    } else if (stale_may_serve(fills, f, got)) {
        record = edg_stored_ref(f->want.stale);
        status.detail = "stale-if-error";
    }
    if (!good && got->outcome != EDG_OUTCOME_ABSENT) {
        RON_LOG(fills->site->log, WARN, "fill failed", RON_LOG_STR("origin", origin->name),
                RON_LOG_ERR(&got->err));
    }
    ron_trace_stage(ron_app_tracer(fills->site->app), &f->from,
                    &(struct ron_trace_stage){
                        .name = "fill",
                        .queue = "work",
                        .from_ns = begun_ns,
                        .why = good || got->outcome == EDG_OUTCOME_ABSENT ? NULL : "fill failed"});
    answer_waiters(fills, edg_fill_end(fills, f), record, status, error_of(got->outcome));
    if (status.stored && good) {
        edg_shared_tell(fills, record);
    }
    edg_stored_unref(record);
    let_go(filled);
    let_go(old);
    edg_exchange_done(got);
    edg_fill_free(f);
    return RON_OK;
}

static enum ron_rc run_live(void *arg, struct edg_filler *k, struct edg_fill *take_fill)
{
    struct edg_fills *fills = RON_OBJ(arg, struct edg_fills, EDG_FILLS_MAGIC);

    RON_ASSERT_MSG(take_fill->want.origin < fills->origins.count, "live fills are of [origins]");
    return run_shared(fills, take_fill) ? RON_OK : run_origin(k, take_fill);
}

static const struct edg_origin_ops live_ops = {
    .run = run_live, .serve = edg_live_serve, .refill = edg_live_refill, .late = true};

static enum ron_rc run(struct edg_filler *k, struct edg_fill *take_fill)
{
    uint32_t origin = take_fill->want.origin;

    RON_ASSERT(origin < EDG_OPS_MAX);
    return k->fills->ops[origin]->run(k->fills->ops_arg[origin], k, take_fill);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct edg_filler *k = RON_OBJ(arg, struct edg_filler, EDG_FILLER_MAGIC);
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    edg_fills_calm(k->fills);
    for (size_t i = 0; i < count; i++) {
        struct edg_fill *f = RON_OBJ(items[i], struct edg_fill, EDG_FILL_MAGIC);

        if (ron_deadline_expired(f->deadline, ron_env_now_ns(k->fills->site->env))) {
            drop(k->fills, f, EDG_ERROR_TIMEOUT);
        } else if (run(k, f) != RON_OK) {
            rc = ron_err_set(&err, RON_NOMEM, "no memory for a fill");
            ron_task_set_error(t, &err);
        }
    }
    return rc;
}

static void drop_fill(void *item, void *arg)
{
    drop(RON_OBJ(arg, struct edg_fills, EDG_FILLS_MAGIC),
         RON_OBJ(item, struct edg_fill, EDG_FILL_MAGIC), EDG_ERROR_DRAINING);
}

static enum ron_rc make_queue(struct edg_fills *fills, struct ron_err *err)
{
    const struct edg_site *site = fills->site;

    return ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(site->app),
                                .env = site->env,
                                .name = "work",
                                .producers = "http",
                                .consumers = "workers",
                                .drop_text = "answered 429 rate_limit; busy_rejections_total",
                                .capacity = (uint32_t)ron_conf_int(site->conf, EDG_Q_WORK),
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_fill,
                                .drop_arg = fills},
        &fills->work, err);
}

enum ron_rc edg_fills_add(struct edg_fills *fills, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(fills->site->conf, EDG_FILLERS);

    RON_ASSERT(count <= EDG_FILLERS_MAX);
    for (uint32_t i = 0; i < fills->origins.count; i++) {
        edg_fills_register(fills, i, &live_ops, fills);
    }
    RON_TRY(make_queue(fills, err));
    fills->fillers = ron_alloc_array(count, sizeof *fills->fillers);
    if (fills->fillers == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the fill workers");
    }
    for (uint32_t i = 0; i < count; i++) {
        fills->fillers[i].magic = EDG_FILLER_MAGIC;
        fills->fillers[i].fills = fills;
        RON_TRY(edg_pipe_init(&fills->fillers[i].pipe, err));
        (void)snprintf(fills->filler_names[i], sizeof fills->filler_names[i], "worker-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(fills->site->app),
                            &(struct ron_task_def){.name = fills->filler_names[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = fills->work,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = &fills->fillers[i]},
                            NULL, err));
    }
    return RON_OK;
}

void edg_fills_stop(struct edg_fills *fills)
{
    uint32_t count = (uint32_t)ron_conf_int(fills->site->conf, EDG_FILLERS);

    if (fills->work != NULL) {
        ron_chan_free(fills->work); /* answers what is left in it */
    }
    for (uint32_t i = 0; fills->fillers != NULL && i < count; i++) {
        edg_pipe_done(&fills->fillers[i].pipe);
        fills->fillers[i].magic = 0;
    }
    ron_free(fills->fillers);
}
