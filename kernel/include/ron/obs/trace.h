/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - spans with W3C trace context, exported as OTLP over HTTP.
 *
 *     ron_span_start(tracer, &span, "committer", RON_SPAN_INTERNAL, &request_ctx);
 *     ron_span_u64(&span, "batch_size", n);
 *     if (rc != RON_OK) { ron_span_fail(&span, "sync failed"); }
 *     ron_span_end(&span);
 *
 * A span lives in the caller's memory while it is open and costs no lock and no allocation. At its
 * end it is forgotten, or copied and handed over a bounded queue ("spans", drop-oldest, counted) to
 * the exporter task, which batches, encodes OTLP JSON and gives each batch to the transport.
 *
 * Which spans are exported: those of a trace whose id falls into the sampled share (a pure function
 * of the id, so all services of one trace decide alike), all of them while `all` is on (safe mode),
 * all that failed, and, with `follow_parent`, those whose caller says that it samples.
 *
 * Rules:
 *   T1. Trace and span ids are never zero. Ids come from the environment's randomness.
 *   T2. Attributes are bounded: RON_SPAN_ATTRS_MAX of them, texts of RON_SPAN_TEXT_MAX bytes; what
 *       is beyond is cut or counted in the span's dropped attributes.
 *   T3. The exporter never holds up the service: while the collector is slow or away the queue
 *       drops its oldest; a batch is tried three times and then counted as failed.
 *
 * Threads: a span belongs to one thread at a time; tracer functions may be called from any. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/chan/registry.h"
#include "ron/obs/metrics.h"
#include "ron/task/supervisor.h"

/* ---- trace context --------------------------------------------------------------------------- */

enum {
    RON_TRACE_ID_BYTES = 16,
    RON_SPAN_ID_BYTES = 8,
    RON_TRACEPARENT_LEN = 55, /* 00-<32 hex>-<16 hex>-<2 hex> */
};

struct ron_trace_ctx {
    uint8_t trace_id[RON_TRACE_ID_BYTES]; /* all zero: no context */
    uint8_t span_id[RON_SPAN_ID_BYTES];
    bool sampled;
};

bool ron_trace_ctx_valid(const struct ron_trace_ctx *ctx);
/* Strict (W3C Trace Context, level 1): lower case, no zero ids, version ff refused; a later version
 * may be longer and is read by its first four fields. RON_INVALID. */
RON_MUST_USE enum ron_rc ron_traceparent_parse(struct ron_str text, struct ron_trace_ctx *ret_ctx);
/* Version 00, with NUL. The context must be valid. */
void ron_traceparent_format(const struct ron_trace_ctx *ctx,
                            char ret_text[RON_TRACEPARENT_LEN + 1]);

/* ---- tracer ---------------------------------------------------------------------------------- */

enum {
    RON_SPAN_ATTRS_MAX = 10,  /* the ledger's seven and three more */
    RON_SPAN_TEXT_MAX = 96,   /* bytes of an attribute's text, or of a failure's */
    RON_SPAN_BATCH_MAX = 256, /* about 150 KiB of JSON */
    RON_SPAN_QUEUE_DEFAULT = 2048,
    RON_TRACE_BODY_MAX = 1 << 20,
};

/* Sends one batch: POST the body with this content type to the collector. RON_OK when it took it;
 * an error of class retry is tried again. Called on the exporter's thread, which may block, and
 * must return by the deadline. */
typedef enum ron_rc ron_trace_send_fn(void *arg, const char *content_type, const void *body,
                                      size_t len, struct ron_deadline deadline);

struct ron_tracer_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    const char *service;     /* resource attribute service.name */
    uint32_t sample_percent; /* 0..100 */
    bool follow_parent;      /* a stranger's flag is trusted only where strangers cannot come */
    ron_trace_send_fn *send; /* NULL: nothing is exported, ids still pass through */
    void *send_arg;
    uint32_t queue_capacity; /* 0 = RON_SPAN_QUEUE_DEFAULT */
    uint32_t flush_ms;       /* 0 = 1000: a span waits at most that long for company */
    uint32_t send_ms;        /* 0 = 5000: deadline of one try */
    uint32_t retry_ms;       /* 0 = 1000: before the second try; double before the third */
};

struct ron_tracer;

/* RON_INVALID, RON_NOMEM, RON_EXISTS. */
RON_MUST_USE enum ron_rc ron_tracer_new(const struct ron_tracer_opts *opts,
                                        struct ron_tracer **ret_tracer, struct ron_err *err);
/* After the supervisor and everybody who ends spans. What is still queued is dropped. */
void ron_tracer_free(struct ron_tracer *t);
/* Adds the exporter task "trace"; it drains after the stages below `stage`. Without a transport
 * nothing is added. */
RON_MUST_USE enum ron_rc ron_tracer_attach(struct ron_tracer *t, struct ron_sup *sup,
                                           uint32_t stage, struct ron_err *err);
/* For a reload; and for safe mode, in which everything is traced. */
void ron_tracer_set_sample(struct ron_tracer *t, uint32_t percent);
void ron_tracer_set_all(struct ron_tracer *t, bool all);
/* trace_spans_total{result}, trace_exports_total{result}. */
RON_MUST_USE enum ron_rc ron_collect_tracer(struct ron_metrics *m, const struct ron_tracer *t,
                                            struct ron_err *err);

/* ---- a span in two steps, for what is timed by somebody else --------------------------------- */

/* The ids of a new span below `parent` (not valid: a new trace), and whether it is sampled. */
void ron_trace_enter(struct ron_tracer *t, const struct ron_trace_ctx *parent,
                     struct ron_trace_ctx *ret_ctx);
/* Whether a span with these ids would be exported: saves putting together one that is not. */
bool ron_tracer_wants(const struct ron_tracer *t, const struct ron_trace_ctx *ctx, bool failed);

/* ---- a stage of a request -------------------------------------------------------------------- */

enum { RON_TRACE_CORR_MAX = 63 };

/* Whose stage it is; outlives the request. All zero: nobody's, or nobody traces. */
struct ron_trace_from {
    struct ron_trace_ctx ctx;             /* of the request's own span */
    char corr_id[RON_TRACE_CORR_MAX + 1]; /* cut */
};
struct ron_trace_stage {
    const char *name;  /* constant, of the task */
    const char *queue; /* constant, that it took the request from */
    uint64_t from_ns;  /* monotonic: when it was taken */
    const char *why;   /* it failed; NULL: it did not */
};
/* A span of what is over, below the request's; when it is not exported, one look. `t` may be NULL.
 */
void ron_trace_stage(struct ron_tracer *t, const struct ron_trace_from *from,
                     const struct ron_trace_stage *stage);

/* ---- spans ----------------------------------------------------------------------------------- */

/* Numbers of OTLP. */
enum ron_span_kind {
    RON_SPAN_INTERNAL = 1,
    RON_SPAN_SERVER = 2,
    RON_SPAN_CLIENT = 3,
    RON_SPAN_PRODUCER = 4,
    RON_SPAN_CONSUMER = 5,
};

struct ron_span_attr {
    const char *key; /* constant */
    bool is_text;
    uint8_t len;
    int64_t number;
    char text[RON_SPAN_TEXT_MAX];
};

struct ron_span {
    struct ron_tracer *_tracer; /* NULL: not open */
    struct ron_trace_ctx ctx;   /* give this to children and, as traceparent, to callees */
    uint8_t _parent[RON_SPAN_ID_BYTES];
    const char *_name;
    enum ron_span_kind _kind;
    uint64_t _start_ns; /* monotonic */
    uint64_t _end_ns;
    bool _failed;
    char _status[RON_SPAN_TEXT_MAX + 1];
    uint32_t _dropped;
    uint32_t _attr_count;
    struct ron_span_attr _attrs[RON_SPAN_ATTRS_MAX];
};

/* Begins a trace (parent NULL or not valid) or continues one. `name` is a constant. `tracer` NULL:
 * the span does nothing. */
void ron_span_start(struct ron_tracer *tracer, struct ron_span *span, const char *name,
                    enum ron_span_kind kind, const struct ron_trace_ctx *parent);
/* Opens a span that ron_trace_enter named; `parent` is all zero for none. */
void ron_span_resume(struct ron_tracer *t, struct ron_span *span, const char *name,
                     enum ron_span_kind kind, const struct ron_trace_ctx *ctx,
                     const uint8_t parent[RON_SPAN_ID_BYTES], uint64_t start_ns);
void ron_span_text(struct ron_span *span, const char *key, struct ron_str value);
void ron_span_u64(struct ron_span *span, const char *key, uint64_t value); /* cut at INT64_MAX */
/* Makes it an error, with a text; it will be exported. */
void ron_span_fail(struct ron_span *span, const char *text);
/* A second end does nothing. */
void ron_span_end(struct ron_span *span);
