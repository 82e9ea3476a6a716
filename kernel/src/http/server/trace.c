/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/trace.c - a server span for each request that reaches its handler.
 *
 * Place: http, between the connection and ron/obs/trace.h. The ids are made before the handler
 * runs, so that its own spans and its calls to others hang below the request; the span itself is
 * put together when the answer is known. Between the two only the ids are kept, beside the request.
 *
 * A traceparent that is malformed or stands twice begins a new trace, as W3C asks. Answers of 500
 * and above are failures and always exported; what a client did wrong is not. */
#include "http/server/priv.h"

#include <string.h>

void ron__http_trace_begin(struct http_conn *c)
{
    struct ron_tracer *t = c->w->server->opts.tracer;
    struct http_in *in = c->in;
    struct ron_trace_ctx parent = {0};

    if (t == NULL) {
        in->trace = (struct ron_trace_ctx){0};
        return;
    }
    if (ron_traceparent_parse(in->parser.head.traceparent, &parent) != RON_OK) {
        parent = (struct ron_trace_ctx){0};
    }
    memcpy(in->trace_parent, parent.span_id, sizeof in->trace_parent);
    ron_trace_enter(t, &parent, &in->trace);
}

void ron__http_trace_end(struct http_conn *c, const struct ron_http_done *done)
{
    struct ron_tracer *t = c->w->server->opts.tracer;
    struct http_in *in = c->in;
    bool failed = done->status >= 500;
    struct ron_span span;

    if (!ron_trace_ctx_valid(&in->trace)) {
        return; /* refused before its handler */
    }
    if (ron_tracer_wants(t, &in->trace, failed)) {
        const char *method = ron_http_method_name(done->method);

        ron_span_resume(t, &span, done->route->pattern, RON_SPAN_SERVER, &in->trace,
                        in->trace_parent, c->start_ms * RON_NS_PER_MS);
        ron_span_text(&span, "http.request.method", (struct ron_str){method, strlen(method)});
        ron_span_text(&span, "http.route",
                      (struct ron_str){done->route->pattern, strlen(done->route->pattern)});
        ron_span_u64(&span, "http.response.status_code", (uint64_t)done->status);
        ron_span_text(&span, "corr_id", done->corr_id);
        if (failed) {
            ron_span_fail(&span, done->reason != NULL ? done->reason : "");
        }
        ron_span_end(&span);
    }
    in->trace = (struct ron_trace_ctx){0};
}

const struct ron_trace_ctx *ron_http_trace(const struct ron_http_call *call)
{
    return &call->c->in->trace;
}

const struct ron_trace_ctx *ron_http_reply_trace(const struct ron_http_reply *r)
{
    return &r->trace;
}

void ron_http_reply_from(const struct ron_http_reply *r, struct ron_trace_from *ret_from)
{
    struct ron_str corr_id = ron_http_reply_corr_id(r);
    size_t len = RON_MIN(corr_id.len, (size_t)RON_TRACE_CORR_MAX);

    ret_from->ctx = r->trace;
    if (!ron_trace_ctx_valid(&r->trace)) {
        len = 0;
    }
    memcpy(ret_from->corr_id, corr_id.ptr != NULL ? corr_id.ptr : "", len);
    ret_from->corr_id[len] = '\0';
}
