/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/worker.c - fill workers: one exchange with an origin, then an answer for all who wait.
 *
 * Place: service. A worker takes a fill from `work`, asks the origin (with the validators of what
 * is stale), writes the bytes to the store, puts the record into the table, and answers the waiters
 * from it. Nothing is answered from bytes that are not stored and hashed. */
#include <stdio.h>
#include <string.h>

#include "edge/fill/tier.h"
#include "edge/gateway/gateway.h"
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
        more[fields.count] = (struct ron_http_field){edg_str("Vary"), edg_str("Accept-Encoding")};
        fields = (struct edg_fields){more, fields.count + 1};
    }
    edg_vary_parse(fields, ret_vary);
}

const struct edg_stored *edg_record_make(struct edg_svc *s, struct edg_stored like,
                                         struct edg_fields request, struct edg_fields fields,
                                         bool *ret_keep)
{
    const struct edg_stored *made = NULL;
    struct edg_vary vary;
    struct ron_buf key;
    struct ron_err err = {0};

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
        RON_LOG(s->log, WARN, "an answer was not kept", RON_LOG_ERR(&err));
        made = NULL;
        *ret_keep = false;
    }
    ron_buf_done(&key);
    return made;
}

/* What the exchange makes of the target: a record to answer from, or NULL. It is in the table if it
 * may be kept. */
static const struct edg_stored *record_of(struct edg_svc *s, const struct edg_fill *f,
                                          struct edg_fetched *got, bool *ret_stored)
{
    const struct edg_origin *origin = &s->origins.at[f->want.origin];
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
    made = edg_record_make(s, like, edg_origin_request(), (struct edg_fields){fields, count},
                           ret_stored);
    *ret_stored = *ret_stored && edg_store_judge(&exchange, &origin->policy) == EDG_STORE_OK;
    *ret_stored = *ret_stored && !edg_fill_spoiled(s, f);
    if (*ret_stored) {
        (void)edg_table_put(s->stored, edg_stored_ref(made));
    }
    if (!*ret_stored || edg_fill_spoiled(s, f)) {
        (void)edg_table_drop(s->stored, f->want.origin, f->want.target);
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

    return rows[outcome];
}

static void answer_waiters(struct edg_svc *s, struct edg_waiter *w, const struct edg_stored *record,
                           struct edg_status status, enum edg_error error)
{
    for (bool first = true; w != NULL; first = false) {
        struct edg_out out = {.s = s, .reply = w->reply, .head = w->head};
        struct edg_waiter *next = w->next;

        status.collapsed = !first;
        if (record == NULL || !edg_serve_stored(&out, edg_stored_ref(record), &status)) {
            edg_fail(&out, error);
        }
        ron_free(w);
        w = next;
    }
}

void edg_fill_drop(struct edg_svc *s, struct edg_fill *take_fill, enum edg_error error)
{
    answer_waiters(s, edg_fill_end(s, take_fill), NULL, (struct edg_status){0}, error);
    edg_fill_free(take_fill);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* Whether the stale answer may stand in for an origin that fails; as for a client that says
 * nothing. */
static bool stale_may_serve(struct edg_svc *s, const struct edg_fill *f,
                            const struct edg_fetched *got)
{
    struct edg_ask ask;

    edg_ask_read(RON_HTTP_GET, (struct edg_fields){0}, &ask);
    return f->want.stale != NULL &&
           (got->outcome == EDG_OUTCOME_FAILED || got->outcome == EDG_OUTCOME_TIMEOUT) &&
           edg_use_on_error(&f->want.stale->life, &ask, got->status, ron_env_wall_ms(s->env));
}

/* Of a worker that has no memory: the fill, which is in the list still, is for another one, or has
 * failed. */
static void run_again(struct edg_svc *s, struct edg_fill *f)
{
    enum ron_rc rc = RON_LIMIT;

    RON_LOG(s->log, WARN, "a worker has no memory; its fill is begun again by another",
            RON_LOG_U64("tries", f->tries + 1U));
    if (++f->tries < FILL_TRIES) {
        rc = ron_chan_try_send(s->work, f, NULL); /* then it is somebody else's */
    }
    if (rc != RON_OK) {
        edg_fill_drop(s, f, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
    }
}

/* Keeps an object from eviction until those who wait are answered from it; NULL when it is gone. */
static struct ron_cas_obj *hold(struct edg_svc *s, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};

    return ron_cas_open(s->store, id, &obj, &err) == RON_OK ? obj : NULL;
}

/* What is stale is asked for with its validators only while its bytes are there: a 304 would
 * confirm what nobody has. */
static struct ron_cas_obj *hold_stale(struct edg_svc *s, struct edg_fill *f)
{
    const struct edg_stored *stale = f->want.stale;
    struct ron_cas_obj *obj = NULL;

    if (stale != NULL && stale->status == 200) {
        obj = hold(s, &stale->id);
        if (obj == NULL) {
            (void)edg_table_drop_one(s->stored, stale);
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
static bool run_shared(struct edg_svc *s, struct edg_fill *f)
{
    const struct edg_stored *record = f->want.shared ? edg_shared_find(s, f) : NULL;
    struct edg_status status = {.has_ttl = true, .detail = "bucket"};

    if (record == NULL) {
        return false;
    }
    if (edg_fill_spoiled(s, f)) {
        (void)edg_table_drop(s->stored, f->want.origin, f->want.target);
    }
    status.ttl_s = edg_life_ttl_s(&record->life, ron_env_wall_ms(s->env));
    answer_waiters(s, edg_fill_end(s, f), record, status, EDG_ERROR_STORAGE);
    edg_stored_unref(record);
    edg_fill_free(f);
    return true;
}

/* RON_NOMEM: it did not begin, and the fill is somebody else's or has ended. */
static enum ron_rc run(struct edg_filler *k, struct edg_fill *f)
{
    struct edg_svc *s = k->s;
    const struct edg_origin *origin = &s->origins.at[f->want.origin];
    struct edg_fetched *got = &k->fetched;
    uint64_t begun_ns = ron_env_now_ns(s->env);
    const struct edg_stored *record = NULL;
    struct edg_status status = {.fwd = f->want.fwd};
    struct ron_cas_obj *old = hold_stale(s, f);
    struct ron_cas_obj *filled = NULL;
    bool good;

    edg_count_of(s, EDG_M_FILL_ATTEMPTS, origin->name, 1);
    edg_exchange_run(&(struct edg_exchange_opts){.env = s->env,
                                                 .origin = origin,
                                                 .target = f->want.target,
                                                 .stale = f->want.stale,
                                                 .store = s->store,
                                                 .pin = ron_tier_pins(s->tier),
                                                 .pipe = &k->pipe,
                                                 .deadline = f->deadline},
                     got);
    if (got->outcome == EDG_OUTCOME_MEMORY) {
        edg_exchange_done(got);
        let_go(old);
        run_again(s, f);
        return RON_NOMEM;
    }
    filled = got->outcome == EDG_OUTCOME_FILLED ? hold(s, &got->id) : NULL;
    if (got->outcome == EDG_OUTCOME_FILLED) {
        edg_s3_stored(s, &got->id, f->deadline);
    }
    good = got->outcome == EDG_OUTCOME_FILLED || got->outcome == EDG_OUTCOME_SAME;
    edg_count_of(s, EDG_M_FILL_SUCCESS, origin->name, good);
    edg_observe(s, EDG_M_FILL_LATENCY, ron_env_now_ns(s->env) - begun_ns);
    edg_events_tell(s,
                    &(struct edg_event){.fill = true,
                                        .status = (uint32_t)got->status,
                                        .bytes = got->size,
                                        .what = got->outcome == EDG_OUTCOME_FILLED   ? "filled"
                                                : got->outcome == EDG_OUTCOME_SAME   ? "same"
                                                : got->outcome == EDG_OUTCOME_ABSENT ? "absent"
                                                                                     : "failed"},
                    origin->name);
    if (got->outcome == EDG_OUTCOME_FILLED || got->outcome == EDG_OUTCOME_STORE) {
        edg_count_of(s, EDG_M_CAS_WRITES, got->outcome == EDG_OUTCOME_FILLED ? "ok" : "error", 1);
    }
    status.fwd_status = got->status;
    if (good || got->outcome == EDG_OUTCOME_ABSENT) {
        record = record_of(s, f, got, &status.stored);
    } else if (stale_may_serve(s, f, got)) {
        record = edg_stored_ref(f->want.stale);
        status.detail = "stale-if-error";
    }
    if (!good && got->outcome != EDG_OUTCOME_ABSENT) {
        RON_LOG(s->log, WARN, "a fill failed", RON_LOG_STR("origin", origin->name),
                RON_LOG_ERR(&got->err));
    }
    ron_trace_stage(ron_app_tracer(s->app), &f->from,
                    &(struct ron_trace_stage){.name = "fill",
                                              .queue = "work",
                                              .from_ns = begun_ns,
                                              .why = good || got->outcome == EDG_OUTCOME_ABSENT
                                                         ? NULL
                                                         : "a fill failed"});
    answer_waiters(s, edg_fill_end(s, f), record, status, error_of(got->outcome));
    if (status.stored && good) {
        edg_shared_tell(s, record);
    }
    edg_stored_unref(record);
    let_go(filled);
    let_go(old);
    edg_exchange_done(got);
    edg_fill_free(f);
    return RON_OK;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct edg_filler *k = arg;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    edg_fills_calm(k->s);
    for (size_t i = 0; i < count; i++) {
        struct edg_fill *f = items[i];

        if (ron_deadline_expired(f->deadline, ron_env_now_ns(k->s->env))) {
            edg_fill_drop(k->s, f, EDG_ERROR_TIMEOUT);
        } else if (f->want.origin == EDG_GATEWAY) {
            struct ron_trace_from from = f->from;
            uint64_t from_ns = ron_env_now_ns(k->s->env);

            edg_gateway_run(k, f);
            ron_trace_stage(
                ron_app_tracer(k->s->app), &from,
                &(struct ron_trace_stage){.name = "gateway", .queue = "work", .from_ns = from_ns});
        } else if (!run_shared(k->s, f) && run(k, f) != RON_OK) {
            rc = ron_err_set(&err, RON_NOMEM, "no memory to fill with");
            ron_task_set_error(t, &err);
        }
    }
    return rc;
}

enum ron_rc edg_fills_add(struct edg_svc *s, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(s->conf, EDG_FILLERS);

    s->fillers = ron_alloc_array(count, sizeof *s->fillers);
    if (s->fillers == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the fill workers");
    }
    for (uint32_t i = 0; i < count; i++) {
        s->fillers[i].s = s;
        RON_TRY(edg_pipe_init(&s->fillers[i].pipe, err));
        (void)snprintf(s->filler_names[i], sizeof s->filler_names[i], "worker-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->app),
                            &(struct ron_task_def){.name = s->filler_names[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = s->work,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = &s->fillers[i]},
                            NULL, err));
    }
    return RON_OK;
}

void edg_fills_free(struct edg_svc *s)
{
    uint32_t count = (uint32_t)ron_conf_int(s->conf, EDG_FILLERS);

    for (uint32_t i = 0; s->fillers != NULL && i < count; i++) {
        edg_pipe_done(&s->fillers[i].pipe);
    }
    ron_free(s->fillers);
}
