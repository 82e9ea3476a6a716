/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - trace context, sampling, and the life of a span up to the queue.
 *
 * Ids: a counter mixed with seeds of the environment (splitmix64, a bijection), so that ids of one
 * tracer never repeat, differ between processes, and repeat under the simulator. */
#include "obs/trace_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/hex.h"
#include "ron/base/rand.h"

enum {
    LOW_BITS = 56, /* of a trace id: the part that is random by the specification */
    PERCENT_MAX = 100,
    ID_BLOCK = 1024, /* numbers that a thread takes at once */
};

static const uint8_t zeros[RON_TRACE_ID_BYTES];
static struct ron_au64 tracers_made;

/* ---- context --------------------------------------------------------------------------------- */

bool ron_trace_ctx_valid(const struct ron_trace_ctx *ctx)
{
    return memcmp(ctx->trace_id, zeros, RON_TRACE_ID_BYTES) != 0 &&
           memcmp(ctx->span_id, zeros, RON_SPAN_ID_BYTES) != 0;
}

/* version(2) - trace id(32) - parent id(16) - flags(2) */
enum { AT_TRACE = 3, AT_SPAN = 36, AT_FLAGS = 53 };

enum ron_rc ron_traceparent_parse(struct ron_str text, struct ron_trace_ctx *ret_ctx)
{
    struct ron_trace_ctx ctx = {0};
    uint8_t version = 0;
    uint8_t flags = 0;
    const char *p = text.ptr;

    if (text.len < RON_TRACEPARENT_LEN ||
        !ron_unhex((struct ron_str){p, 2}, RON_HEX_LOWER, &version, 1) || version == 0xff) {
        return RON_INVALID;
    }
    if (text.len > RON_TRACEPARENT_LEN && (version == 0 || p[RON_TRACEPARENT_LEN] != '-')) {
        return RON_INVALID;
    }
    if (p[AT_TRACE - 1] != '-' || p[AT_SPAN - 1] != '-' || p[AT_FLAGS - 1] != '-') {
        return RON_INVALID;
    }
    if (!ron_unhex((struct ron_str){p + AT_TRACE, (size_t)2 * RON_TRACE_ID_BYTES}, RON_HEX_LOWER,
                   ctx.trace_id, RON_TRACE_ID_BYTES) ||
        !ron_unhex((struct ron_str){p + AT_SPAN, (size_t)2 * RON_SPAN_ID_BYTES}, RON_HEX_LOWER,
                   ctx.span_id, RON_SPAN_ID_BYTES) ||
        !ron_unhex((struct ron_str){p + AT_FLAGS, 2}, RON_HEX_LOWER, &flags, 1) ||
        !ron_trace_ctx_valid(&ctx)) {
        return RON_INVALID;
    }
    ctx.sampled = (flags & 1) != 0;
    *ret_ctx = ctx;
    return RON_OK;
}

void ron_traceparent_format(const struct ron_trace_ctx *ctx, char ret_text[RON_TRACEPARENT_LEN + 1])
{
    RON_ASSERT(ron_trace_ctx_valid(ctx));
    memcpy(ret_text, "00-", sizeof "00-");
    ron_hex(ctx->trace_id, RON_TRACE_ID_BYTES, ret_text + AT_TRACE);
    ret_text[AT_SPAN - 1] = '-';
    ron_hex(ctx->span_id, RON_SPAN_ID_BYTES, ret_text + AT_SPAN);
    memcpy(ret_text + AT_FLAGS - 1, ctx->sampled ? "-01" : "-00", sizeof "-00");
}

/* ---- ids and sampling ------------------------------------------------------------------------ */

static uint64_t low_bits(const uint8_t trace_id[RON_TRACE_ID_BYTES])
{
    return ron_get_be64(trace_id + RON_TRACE_ID_BYTES - 8) & ((UINT64_C(1) << LOW_BITS) - 1);
}

/* Numbers are taken from the tracer in blocks, so that a request costs no shared line. */
static _Thread_local struct {
    uint64_t tracer; /* its id; 0: none yet */
    uint64_t next;
    uint64_t end;
} own_numbers;

static uint64_t next_number(struct ron_tracer *t)
{
    if (own_numbers.tracer != t->id || own_numbers.next == own_numbers.end) {
        own_numbers.tracer = t->id;
        own_numbers.next = ron_au64_add(&t->id_count, ID_BLOCK);
        own_numbers.end = own_numbers.next + ID_BLOCK;
    }
    return own_numbers.next++;
}

/* Never zero (T1): splitmix64 is a bijection, so at most one number in a row gives zero. */
static uint64_t next_id(struct ron_tracer *t, int which)
{
    uint64_t id = 0;

    while (id == 0) {
        uint64_t state = t->id_seed[which] + next_number(t);
        id = ron_splitmix64(&state);
    }
    return id;
}

static bool samples(const struct ron_tracer *t, const struct ron_trace_ctx *ctx,
                    const struct ron_trace_ctx *parent)
{
    return low_bits(ctx->trace_id) < ron_au64_load(&t->threshold) || ron_au32_load(&t->all) != 0 ||
           (t->opts.follow_parent && parent != NULL && parent->sampled);
}

void ron_tracer_set_sample(struct ron_tracer *t, uint32_t percent)
{
    uint64_t whole = UINT64_C(1) << LOW_BITS;

    RON_ASSERT(percent <= PERCENT_MAX);
    ron_au64_store(&t->threshold, percent == PERCENT_MAX ? whole : whole / PERCENT_MAX * percent);
}

void ron_tracer_set_all(struct ron_tracer *t, bool all)
{
    ron_au32_store(&t->all, all);
}

/* ---- spans ----------------------------------------------------------------------------------- */

void ron_trace_enter(struct ron_tracer *t, const struct ron_trace_ctx *parent,
                     struct ron_trace_ctx *ret_ctx)
{
    struct ron_trace_ctx ctx = {0};
    bool child = parent != NULL && ron_trace_ctx_valid(parent);

    if (child) {
        memcpy(ctx.trace_id, parent->trace_id, RON_TRACE_ID_BYTES);
    } else {
        (void)ron_put_be64(ctx.trace_id, next_id(t, 0));
        (void)ron_put_be64(ctx.trace_id + 8, next_id(t, 1));
    }
    (void)ron_put_be64(ctx.span_id, next_id(t, 0));
    ctx.sampled = samples(t, &ctx, child ? parent : NULL);
    *ret_ctx = ctx;
}

bool ron_tracer_wants(const struct ron_tracer *t, const struct ron_trace_ctx *ctx, bool failed)
{
    return t->queue != NULL && (ctx->sampled || failed || ron_au32_load(&t->all) != 0);
}

void ron_span_resume(struct ron_tracer *t, struct ron_span *span, const char *name,
                     enum ron_span_kind kind, const struct ron_trace_ctx *ctx,
                     const uint8_t parent[RON_SPAN_ID_BYTES], uint64_t start_ns)
{
    span->_tracer = t;
    span->ctx = *ctx;
    memcpy(span->_parent, parent, sizeof span->_parent);
    span->_name = name;
    span->_kind = kind;
    span->_start_ns = start_ns;
    span->_failed = false;
    span->_status[0] = '\0';
    span->_dropped = 0;
    span->_attr_count = 0;
}

void ron_span_start(struct ron_tracer *t, struct ron_span *span, const char *name,
                    enum ron_span_kind kind, const struct ron_trace_ctx *parent)
{
    static const uint8_t none[RON_SPAN_ID_BYTES];
    struct ron_trace_ctx ctx;

    if (t == NULL) {
        span->_tracer = NULL;
        span->ctx = parent != NULL ? *parent : (struct ron_trace_ctx){0};
        return;
    }
    ron_trace_enter(t, parent, &ctx);
    ron_span_resume(t, span, name, kind, &ctx,
                    parent != NULL && ron_trace_ctx_valid(parent) ? parent->span_id : none,
                    ron_env_now_ns(t->opts.env));
}

/* Bytes that fit, not ending inside a character. */
static size_t cut(struct ron_str s, size_t max)
{
    size_t len = RON_MIN(s.len, max);

    while (len < s.len && len > 0 && ((unsigned char)s.ptr[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

static struct ron_span_attr *next_attr(struct ron_span *span, const char *key)
{
    struct ron_span_attr *a = NULL;

    if (span->_tracer == NULL) {
        return NULL;
    }
    if (span->_attr_count == RON_SPAN_ATTRS_MAX) {
        span->_dropped++;
        return NULL;
    }
    a = &span->_attrs[span->_attr_count++];
    a->key = key;
    return a;
}

void ron_span_text(struct ron_span *span, const char *key, struct ron_str value)
{
    struct ron_span_attr *a = next_attr(span, key);

    if (a != NULL) {
        a->is_text = true;
        a->len = (uint8_t)cut(value, RON_SPAN_TEXT_MAX);
        if (a->len > 0) {
            memcpy(a->text, value.ptr, a->len);
        }
    }
}

void ron_span_u64(struct ron_span *span, const char *key, uint64_t value)
{
    struct ron_span_attr *a = next_attr(span, key);

    if (a != NULL) {
        a->is_text = false;
        a->number = value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
}

void ron_span_fail(struct ron_span *span, const char *text)
{
    if (span->_tracer != NULL) {
        size_t len = cut((struct ron_str){text, strlen(text)}, RON_SPAN_TEXT_MAX);

        span->_failed = true;
        memcpy(span->_status, text, len);
        span->_status[len] = '\0';
    }
}

static void hand_over(struct ron_tracer *t, const struct ron_span *span)
{
    size_t size = offsetof(struct ron_span, _attrs) + span->_attr_count * sizeof span->_attrs[0];
    struct ron_span *copy = ron_alloc(size);
    void *evicted = NULL;

    if (copy == NULL) {
        ron_stat_add(&t->spans[TRACE_DROPPED], 1);
        return;
    }
    memcpy(copy, span, size);
    if (ron_chan_try_send(t->queue, copy, &evicted) != RON_OK) {
        evicted = copy; /* closed: nobody exports any more */
    }
    if (evicted != NULL) {
        ron_stat_add(&t->spans[TRACE_DROPPED], 1);
        ron_free(evicted);
    }
}

void ron_span_end(struct ron_span *span)
{
    struct ron_tracer *t = span->_tracer;

    span->_tracer = NULL;
    if (t != NULL && ron_tracer_wants(t, &span->ctx, span->_failed)) {
        span->_end_ns = ron_env_now_ns(t->opts.env);
        hand_over(t, span);
    }
}

void ron_trace_stage(struct ron_tracer *t, const struct ron_trace_from *from,
                     const struct ron_trace_stage *stage)
{
    struct ron_trace_ctx ctx;
    struct ron_span span;

    if (t == NULL || !ron_trace_ctx_valid(&from->ctx) ||
        !ron_tracer_wants(t, &from->ctx, stage->why != NULL)) {
        return;
    }
    ron_trace_enter(t, &from->ctx, &ctx);
    ron_span_resume(t, &span, stage->name, RON_SPAN_INTERNAL, &ctx, from->ctx.span_id,
                    stage->from_ns);
    ron_span_text(&span, "corr_id", (struct ron_str){from->corr_id, strlen(from->corr_id)});
    ron_span_text(&span, "queue", (struct ron_str){stage->queue, strlen(stage->queue)});
    if (stage->why != NULL) {
        ron_span_fail(&span, stage->why);
    }
    ron_span_end(&span);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void collect_tracer(struct ron_scrape *sc, void *arg)
{
    static const char *const results[] = {
#define X(name, label) label,
        TRACE_RESULTS(X)
#undef X
    };
    struct ron_metrics *m = ron_scrape_metrics(sc);
    const struct ron_tracer *t = arg;

    for (size_t i = 0; i < RON_ARRAY_LEN(results); i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_TRACE_SPANS), ron_stat_get(&t->spans[i]),
                       results[i]);
    }
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TRACE_EXPORTS), ron_stat_get(&t->sends_ok), "ok");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TRACE_EXPORTS), ron_stat_get(&t->sends_failed),
                   "failed");
}

enum ron_rc ron_collect_tracer(struct ron_metrics *m, const struct ron_tracer *t,
                               struct ron_err *err)
{
    return ron_metrics_collector(m, collect_tracer, (void *)(uintptr_t)t, err);
}

/* ---- birth and death ------------------------------------------------------------------------- */

#define DEFAULT(field, value) ((field) = (field) == 0 ? (value) : (field))

static void drop_span(void *item, void *arg)
{
    struct ron_tracer *t = arg;

    ron_stat_add(&t->spans[TRACE_DROPPED], 1);
    ron_free(item);
}

static enum ron_rc make_queue(struct ron_tracer *t, struct ron_err *err)
{
    const struct ron_tracer_opts *o = &t->opts;

    return ron_chan_new(&(struct ron_chan_opts){.registry = o->registry,
                                                .env = o->env,
                                                .name = "spans",
                                                .producers = "all",
                                                .consumers = "trace",
                                                .drop_text = "the oldest span is lost and counted",
                                                .capacity = o->queue_capacity,
                                                .policy = RON_CHAN_DROP_OLDEST,
                                                .drop = drop_span,
                                                .drop_arg = t},
                        &t->queue, err);
}

enum ron_rc ron_tracer_new(const struct ron_tracer_opts *opts, struct ron_tracer **ret_tracer,
                           struct ron_err *err)
{
    struct ron_tracer *t;
    enum ron_rc rc = RON_OK;

    if (opts->env == NULL || opts->registry == NULL || opts->service == NULL ||
        opts->sample_percent > PERCENT_MAX) {
        return ron_err_set(err, RON_INVALID, "tracer: env, registry, service, 0 to 100 percent");
    }
    t = ron_alloc_zero(sizeof *t);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "tracer: no memory");
    }
    t->opts = *opts;
    DEFAULT(t->opts.queue_capacity, RON_SPAN_QUEUE_DEFAULT);
    DEFAULT(t->opts.flush_ms, 1000);
    DEFAULT(t->opts.send_ms, 5000);
    DEFAULT(t->opts.retry_ms, 1000);
    t->id = ron_au64_add(&tracers_made, 1) + 1;
    t->id_seed[0] = opts->env->rand_u64(opts->env);
    t->id_seed[1] = opts->env->rand_u64(opts->env);
    ron_tracer_set_sample(t, opts->sample_percent);
    ron_buf_init(&t->scratch, RON_TRACE_BODY_MAX / 2);
    if (opts->send != NULL) {
        rc = make_queue(t, err);
    }
    if (rc != RON_OK) {
        ron_free(t);
        return rc;
    }
    *ret_tracer = t;
    return RON_OK;
}

void ron_tracer_free(struct ron_tracer *t)
{
    if (t != NULL) {
        if (t->queue != NULL) {
            ron_chan_free(t->queue);
        }
        ron_buf_done(&t->scratch);
        ron_free(t);
    }
}

enum ron_rc ron_tracer_attach(struct ron_tracer *t, struct ron_sup *sup, uint32_t stage,
                              struct ron_err *err)
{
    struct ron_task *task = NULL;

    if (t->queue == NULL) {
        return RON_OK;
    }
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = "trace",
                                              .kind = "exporter",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = stage,
                                              .run = ron__trace_export,
                                              .arg = t},
                       &task, err);
}
