/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/fill.c - a call of the gateway that many may share, on a worker that may block.
 *
 * Place: service. When the head of the answer is there it is judged: what may be kept goes to the
 * store and then to all who wait; what may not is streamed to the one who asked first, and the
 * others go on their own (G3). */
#include "edge/fill/tier.h"
#include "edge/gateway/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

/* One call as the worker sees it. */
struct run {
    struct edg_gateway *g;
    struct edg_filler *k;
    struct edg_fill *f;
    struct edg_fetched *got;
    struct ron_str piece; /* the first of the body, if `open` */
    bool open;            /* more may come */
    struct edg_status text;
};

/* ---- the call -------------------------------------------------------------------------------- */

/* On the client's task: the status must be noted here, where it cannot change. */
static enum ron_rc sink(struct ron_http_fetch *fetch, void *arg, const void *bytes, size_t len)
{
    struct edg_filler *k = RON_OBJ(arg, struct edg_filler, EDG_FILLER_MAGIC);

    if (k->status == 0) {
        k->status = ron_http_fetch_status(fetch);
    }
    return edg_pipe_sink(fetch, &k->pipe, bytes, len);
}

static void ended(struct ron_http_fetch *fetch, void *arg)
{
    struct edg_filler *k = RON_OBJ(arg, struct edg_filler, EDG_FILLER_MAGIC);

    edg_pipe_end(fetch, &k->pipe);
}

static enum ron_rc add_conditions(const struct edg_stored *stale, struct edg_call *call)
{
    struct edg_conditions c = {0};

    if (stale != NULL) {
        edg_conditions(stale->fields, &c);
    }
    if (c.if_none_match.len > 0) {
        RON_TRY(edg_call_add(call, "If-None-Match", c.if_none_match));
    }
    return c.if_modified_since.len > 0
               ? edg_call_add(call, "If-Modified-Since", c.if_modified_since)
               : RON_OK;
}

static enum ron_rc start(struct run *r)
{
    const struct edg_want *want = &r->f->want;
    struct edg_call *call = ron_alloc(sizeof *call);
    enum ron_rc rc = RON_NOMEM;

    if (call == NULL) {
        return ron_err_set(&r->got->err, RON_NOMEM, "no memory for a call");
    }
    RON_GOTO(edg_call_make(r->g, want->alone ? EDG_HOP_PASS : EDG_HOP_FILL,
                           edg_target_path(want->target), want->request, call),
             out);
    RON_GOTO(add_conditions(want->stale, call), out);
    r->k->status = 0;
    edg_pipe_reset(&r->k->pipe);
    rc = ron_http_fetch_start(r->g->target,
                              &(struct ron_http_fetch_opts){.method = RON_HTTP_GET,
                                                            .url = call->url,
                                                            .relay = true,
                                                            .patient = true,
                                                            .fields = call->fields,
                                                            .field_count = call->count,
                                                            .trace = r->f->from.ctx,
                                                            .sink = sink,
                                                            .done = ended,
                                                            .arg = r->k},
                              &r->got->fetch, &r->got->err);
out:
    ron_free(call);
    return rc;
}

static bool next_piece(struct run *r, struct ron_str *ret_piece)
{
    return edg_pipe_next(&r->k->pipe, r->got->fetch, ron_deadline_never(), ret_piece) == RON_OK;
}

/* Once nothing more comes: whether the answer was whole. */
static bool is_whole(const struct run *r)
{
    enum ron_http_fetch_reason why = ron_http_fetch_result(r->got->fetch)->reason;

    return why == RON_HTTP_FETCH_ANSWERED || why == RON_HTTP_FETCH_STATUS;
}

/* Discards the rest. */
static void cut(struct run *r)
{
    struct ron_str piece;

    if (r->open) {
        ron_http_fetch_cancel(r->got->fetch);
        while (next_piece(r, &piece)) {
        }
        r->open = false;
    }
}

/* Waits for the head. False: there is no answer that could be passed on. */
static bool take_head(struct run *r, uint64_t begun_ms)
{
    struct edg_fetched *got = r->got;
    size_t count = 0;

    r->open = next_piece(r, &r->piece);
    got->status = r->k->status;
    if (!r->open) {
        got->status = is_whole(r) ? ron_http_fetch_result(got->fetch)->status : 0;
        r->piece.len = 0;
    }
    if (got->status < 200 || got->status > 599 ||
        ron_http_fetch_fields(got->fetch, got->fields, EDG_STORED_FIELDS_MAX, &count) != RON_OK) {
        got->status = 0;
        return false;
    }
    got->exchange = (struct edg_exchange){.method = RON_HTTP_GET,
                                          .request = r->f->want.request,
                                          .status = got->status,
                                          .response = {got->fields, count},
                                          .request_ms = begun_ms,
                                          .response_ms = ron_env_wall_ms(r->g->site->env)};
    r->text.fwd_status = got->status;
    return true;
}

/* ---- those who wait -------------------------------------------------------------------------- */

static struct edg_out out_of(struct edg_gateway *g, struct edg_waiter *take_waiter,
                             struct edg_waiter **ret_next)
{
    struct edg_out out = {.site = g->site, .reply = take_waiter->reply, .head = take_waiter->head};

    RON_ASSERT_MSG(take_waiter->reply != NULL, "L2: a waiter has one reply until it is answered");
    *ret_next = take_waiter->next;
    ron_free(take_waiter);
    return out;
}

/* Each on its own. */
static void pass_all(struct run *r, struct edg_waiter *take_waiters)
{
    while (take_waiters != NULL) {
        struct edg_out out = out_of(r->g, take_waiters, &take_waiters);

        edg_pass(r->g, &out, r->f->want.fwd, NULL);
    }
}

static bool stale_for(const struct run *r, struct edg_fields request)
{
    struct edg_ask ask;

    edg_ask_read(RON_HTTP_GET, request, &ask);
    return r->f->want.stale != NULL &&
           edg_use_on_error(&r->f->want.stale->life, &ask, r->got->status,
                            ron_env_wall_ms(r->g->site->env));
}

/* The origin failed: the stale answer for those who may have it. */
static void answer_failure(struct run *r, enum edg_error error)
{
    struct edg_waiter *w = edg_fill_end(r->g->fills, r->f);
    struct edg_status text = {
        .fwd = r->text.fwd, .fwd_status = r->got->status, .detail = "stale-if-error"};

    for (; w != NULL; text.collapsed = true) {
        struct edg_out out = out_of(r->g, w, &w);

        if (!stale_for(r, edg_fields_of(out.head)) ||
            !edg_serve_stored(r->g->fills, &out, edg_stored_ref(r->f->want.stale), &text)) {
            edg_fail(&out, error);
        }
    }
}

/* Whether the record is for this request, too. */
static bool fits(const struct edg_stored *record, struct edg_fields request)
{
    struct ron_buf key;
    bool good;

    ron_buf_init(&key, EDG_VARY_KEY_MAX);
    good =
        edg_vary_key(record->vary, request, &key) == RON_OK &&
        ron_buf_len(&key) == record->key.len &&
        (record->key.len == 0 || memcmp(ron_buf_data(&key), record->key.ptr, record->key.len) == 0);
    ron_buf_done(&key);
    return good;
}

/* From a record that is, or could be, in the table. */
static void answer_record(struct run *r, const struct edg_stored *record, bool shared)
{
    struct edg_waiter *w = edg_fill_end(r->g->fills, r->f);
    struct ron_cas_obj *hold = NULL; /* so that nothing evicts it before all have it */
    struct ron_err err = {0};
    bool first = true;

    if (record->size > 0 && ron_cas_open(r->g->store->cas, &record->id, &hold, &err) != RON_OK) {
        hold = NULL;
    }
    for (; w != NULL; first = false) {
        struct edg_out out = out_of(r->g, w, &w);

        r->text.collapsed = !first;
        if (!first && !(shared && fits(record, edg_fields_of(out.head)))) {
            edg_gateway_read(r->g, &out);
        } else if (!edg_serve_stored(r->g->fills, &out, edg_stored_ref(record), &r->text)) {
            edg_pass(r->g, &out, r->f->want.fwd, NULL);
        }
    }
    ron_cas_release(hold);
}

/* ---- an answer that is kept ------------------------------------------------------------------ */

/* Puts the record into the table, unless the target was written or purged meanwhile (L3 of
 * fill/fills.c). */
static bool keep(struct run *r, const struct edg_stored *record)
{
    bool good = !edg_fill_spoiled(r->g->fills, r->f) &&
                edg_table_put(r->g->store->table, edg_stored_ref(record)) == RON_OK;

    RON_ASSERT(record->origin == EDG_GATEWAY);
    if (good && edg_fill_spoiled(r->g->fills, r->f)) {
        (void)edg_table_drop(r->g->store->table, EDG_GATEWAY, r->f->want.target);
        good = false;
    }
    return good;
}

static const struct edg_stored *record_of(struct run *r, struct edg_fields fields, int status,
                                          bool *ret_keep)
{
    struct edg_stored like = {.origin = EDG_GATEWAY,
                              .status = status,
                              .target = r->f->want.target,
                              .id = r->got->id,
                              .size = r->got->size};
    struct edg_exchange exchange = r->got->exchange;
    const struct edg_stored *record;
    bool good;

    exchange.response = fields;
    exchange.status = status;
    good = edg_gateway_judge(r->g, &exchange, &like.life);
    record = edg_record_make(r->g->site, like, r->f->want.request, fields, ret_keep);
    *ret_keep = *ret_keep && good;
    return record;
}

/* 304: what is stored is right. */
static void take_same(struct run *r)
{
    const struct edg_stored *stale = r->f->want.stale;
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    const struct edg_stored *record = NULL;
    bool findable = false;
    size_t count = 0;

    RON_ASSERT_MSG(stale != NULL, "a 304 answers our condition");
    cut(r);
    r->got->id = stale->id;
    r->got->size = stale->size;
    if (edg_update_merge(stale->fields, r->got->exchange.response, fields, EDG_STORED_FIELDS_MAX,
                         &count) == RON_OK) {
        record = record_of(r, (struct edg_fields){fields, count}, stale->status, &findable);
    }
    if (record == NULL) {
        answer_record(r, stale, true);
        return;
    }
    if (findable) {
        r->text.stored = keep(r, record);
    } else {
        (void)edg_table_drop_one(r->g->store->table, stale);
    }
    answer_record(r, record, r->text.stored);
    edg_stored_unref(record);
}

/* The body into the store. RON_CLOSED: the origin broke off; anything else: the store. */
static enum ron_rc store_body(struct run *r)
{
    struct edg_fetched *got = r->got;
    struct ron_cas_writer *w = NULL;
    const struct ron_cas_write_opts opts = {.pin = ron_tier_pins(r->g->store->tier)};
    enum ron_rc rc = ron_cas_begin(r->g->store->cas, &opts, &w, &got->err);

    while (rc == RON_OK && r->open) {
        rc = ron_cas_append(w, r->piece.ptr, r->piece.len, &got->err);
        got->size += r->piece.len;
        if (rc == RON_OK && got->size > r->g->object_max) {
            rc = RON_LIMIT;
        }
        if (rc == RON_OK) {
            r->open = next_piece(r, &r->piece);
        }
    }
    cut(r);
    RON_ASSERT_MSG(!r->open, "the fetch has ended before its result is read");
    if (rc == RON_OK && !is_whole(r)) {
        rc = RON_CLOSED;
    }
    if (rc != RON_OK) {
        ron_cas_abort(w);
        return rc;
    }
    RON_TRY(ron_cas_commit(w, &got->id, &got->err));
    edg_s3_stored(r->g->site, r->g->store, &got->id, r->f->deadline);
    return RON_OK;
}

static void take_kept(struct run *r)
{
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    const struct edg_stored *record = NULL;
    bool findable = false;
    size_t count = 0;
    enum ron_rc rc = RON_OK;

    if (r->open) {
        rc = store_body(r);
        edg_count_of(r->g->site, EDG_M_CAS_WRITES, rc == RON_OK ? "ok" : "error", rc != RON_CLOSED);
    }
    if (rc == RON_CLOSED) {
        r->got->status = 0;
        answer_failure(r, EDG_ERROR_UPSTREAM);
        return;
    }
    if (rc == RON_OK && edg_update_keep(r->got->exchange.response, fields, EDG_STORED_FIELDS_MAX,
                                        &count) == RON_OK) {
        record = record_of(r, (struct edg_fields){fields, count}, r->got->status, &findable);
    }
    if (record == NULL) { /* No room for it: each goes through. */
        edg_gateway_mark(r->g, r->f->want.target);
        pass_all(r, edg_fill_end(r->g->fills, r->f));
        return;
    }
    r->text.stored = findable && keep(r, record);
    answer_record(r, record, findable);
    edg_stored_unref(record);
}

/* ---- an answer that is not kept -------------------------------------------------------------- */

static void stream_to(struct run *r, struct edg_out *out)
{
    enum ron_rc rc =
        edg_gateway_begin(out, r->got->status, r->got->exchange.response, &r->text, NULL);
    bool whole;

    if (rc != RON_OK) {
        cut(r);
        edg_fail(out, EDG_ERROR_BUSY);
        return;
    }
    while (rc == RON_OK && r->open) {
        rc =
            ron_http_reply_write_wait(out->reply, r->piece.ptr, r->piece.len, ron_deadline_never());
        if (rc == RON_OK) {
            r->open = next_piece(r, &r->piece);
        }
    }
    whole = rc == RON_OK && is_whole(r);
    cut(r);
    if (whole) {
        ron_http_reply_end(out->reply);
    } else {
        ron_http_reply_abort(out->reply);
    }
}

static void take_passing(struct run *r)
{
    int status = r->got->status;
    struct edg_waiter *w;

    if (r->f->want.stale != NULL && status < 500) {
        (void)edg_table_drop_one(r->g->store->table, r->f->want.stale);
    }
    w = edg_fill_end(r->g->fills, r->f);
    if (w == NULL) {
        cut(r);
        return;
    }
    struct edg_out first = out_of(r->g, w, &w);

    if (w != NULL) {
        edg_gateway_mark(r->g, r->f->want.target);
        pass_all(r, w);
    }
    stream_to(r, &first);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool may_keep(const struct run *r)
{
    const struct edg_exchange *x = &r->got->exchange;
    struct edg_life life;
    struct ron_str text;
    uint64_t length = 0;

    return edg_gateway_judge(r->g, x, &life) &&
           (edg_fields_get(x->response, "Content-Length", &text) != 1 ||
            (ron_http_parse_u64(text, &length) == RON_OK && length <= r->g->object_max));
}

static void take_answer(struct run *r)
{
    int status = r->got->status;

    if (status == 304 && r->f->want.stale != NULL) {
        take_same(r);
    } else if (status >= 500 && stale_for(r, r->f->want.request)) {
        cut(r);
        answer_failure(r, EDG_ERROR_UPSTREAM);
    } else if (may_keep(r)) {
        take_kept(r);
    } else {
        take_passing(r);
    }
}

static void run(struct edg_gateway *g, struct edg_filler *k, struct edg_fill *take_fill)
{
    struct run r = {
        .g = g, .k = k, .f = take_fill, .got = &k->fetched, .text = {.fwd = take_fill->want.fwd}};
    const char *name = r.g->origin->name;
    uint64_t begun_ns = ron_env_now_ns(r.g->site->env);
    bool answered;

    *r.got = (struct edg_fetched){0};
    edg_count_of(r.g->site, EDG_M_FILL_ATTEMPTS, name, 1);
    if (start(&r) != RON_OK) {
        r.got->fetch = NULL;
        answer_failure(&r, EDG_ERROR_UPSTREAM);
    } else {
        answered = take_head(&r, ron_env_wall_ms(r.g->site->env));
        edg_count_of(r.g->site, EDG_M_FILL_SUCCESS, name, answered);
        if (answered) {
            take_answer(&r);
        } else {
            cut(&r);
            answer_failure(&r, edg_gateway_error(ron_http_fetch_result(r.got->fetch)->reason));
        }
        edg_observe(r.g->site, EDG_M_FILL_LATENCY, ron_env_now_ns(r.g->site->env) - begun_ns);
    }
    edg_exchange_done(r.got);
    edg_fill_free(take_fill);
}

enum ron_rc edg_gateway_run(void *arg, struct edg_filler *k, struct edg_fill *take_fill)
{
    struct edg_gateway *g = RON_OBJ(arg, struct edg_gateway, EDG_GATEWAY_MAGIC);
    struct ron_trace_from from = take_fill->from;
    uint64_t from_ns = ron_env_now_ns(g->site->env);

    RON_ASSERT(take_fill->want.origin == EDG_GATEWAY);
    run(g, k, take_fill);
    ron_trace_stage(
        ron_app_tracer(g->site->app), &from,
        &(struct ron_trace_stage){.name = "gateway", .queue = "work", .from_ns = from_ns});
    return RON_OK;
}
