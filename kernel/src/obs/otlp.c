/* SPDX-License-Identifier: Apache-2.0 */
/* otlp.c - spans as OTLP/HTTP JSON (ExportTraceServiceRequest, proto3 JSON with hex ids).
 *
 * Rules of that encoding: traceId and spanId are lower-case hex, 64-bit integers are strings, enums
 * are numbers. A span is built in a scratch buffer first, so a body that is full ends between two
 * spans. */
#include "obs/trace_priv.h"
#include "ron/base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/build.h"

static const char tail[] = "]}]}]}";

enum { STATUS_ERROR = 2 };

/* A step of the wall clock beyond this is followed; below it, spans of a trace must not shift
 * against each other because a reading has a millisecond's precision only. */
static const uint64_t step_ns = 50 * RON_NS_PER_MS;

static void anchor_wall(struct ron_tracer *t)
{
    uint64_t now = ron_env_wall_ms(t->opts.env) * RON_NS_PER_MS - ron_env_now_ns(t->opts.env);
    uint64_t off = now - t->wall_offset_ns;

    if (off + step_ns > 2 * step_ns) {
        t->wall_offset_ns = now;
    }
}

static void put_number(struct ron_json_writer *w, const char *name, uint64_t n)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, n);
    ron_json_text(w, name, text);
}

static void put_attr(struct ron_json_writer *w, const char *key, struct ron_str text)
{
    ron_json_open(w, NULL, '{');
    ron_json_text(w, "key", key);
    ron_json_open(w, "value", '{');
    ron_json_str(w, "stringValue", text);
    ron_json_close(w, '}');
    ron_json_close(w, '}');
}

static void put_span_attr(struct ron_json_writer *w, const struct ron_span_attr *a)
{
    char number[24];

    if (a->is_text) {
        put_attr(w, a->key, (struct ron_str){a->text, a->len});
        return;
    }
    (void)snprintf(number, sizeof number, "%" PRId64, a->number);
    ron_json_open(w, NULL, '{');
    ron_json_text(w, "key", a->key);
    ron_json_open(w, "value", '{');
    ron_json_text(w, "intValue", number);
    ron_json_close(w, '}');
    ron_json_close(w, '}');
}

static void put_ids(struct ron_json_writer *w, const struct ron_span *s)
{
    static const uint8_t none[RON_SPAN_ID_BYTES];
    char hex[2 * RON_TRACE_ID_BYTES + 1];

    ron_hex(s->ctx.trace_id, RON_TRACE_ID_BYTES, hex);
    ron_json_text(w, "traceId", hex);
    ron_hex(s->ctx.span_id, RON_SPAN_ID_BYTES, hex);
    ron_json_text(w, "spanId", hex);
    if (memcmp(s->_parent, none, sizeof none) != 0) {
        ron_hex(s->_parent, RON_SPAN_ID_BYTES, hex);
        ron_json_text(w, "parentSpanId", hex);
    }
}

static void put_span(struct ron_tracer *t, const struct ron_span *s, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    put_ids(&w, s);
    ron_json_text(&w, "name", s->_name);
    ron_json_u64(&w, "kind", (uint64_t)s->_kind);
    put_number(&w, "startTimeUnixNano", s->_start_ns + t->wall_offset_ns);
    put_number(&w, "endTimeUnixNano", s->_end_ns + t->wall_offset_ns);
    ron_json_open(&w, "attributes", '[');
    for (uint32_t i = 0; i < s->_attr_count; i++) {
        put_span_attr(&w, &s->_attrs[i]);
    }
    ron_json_close(&w, ']');
    if (s->_dropped > 0) {
        ron_json_u64(&w, "droppedAttributesCount", s->_dropped);
    }
    ron_json_open(&w, "status", '{');
    if (s->_failed) {
        ron_json_u64(&w, "code", STATUS_ERROR);
        ron_json_text(&w, "message", s->_status);
    }
    ron_json_close(&w, '}');
    ron_json_close(&w, '}');
}

/* Up to and with the bracket that opens the spans. */
static void put_head(const struct ron_tracer *t, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "resourceSpans", '[');
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "resource", '{');
    ron_json_open(&w, "attributes", '[');
    put_attr(&w, "service.name", (struct ron_str){t->opts.service, strlen(t->opts.service)});
    put_attr(&w, "service.version", (struct ron_str){ron_version(), strlen(ron_version())});
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    ron_json_open(&w, "scopeSpans", '[');
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "scope", '{');
    ron_json_text(&w, "name", "ron");
    ron_json_close(&w, '}');
    ron_json_open(&w, "spans", '[');
}

size_t ron__otlp_encode(struct ron_tracer *t, struct ron_span *const *spans, size_t count,
                        struct ron_buf *out)
{
    size_t done = 0;

    anchor_wall(t);
    put_head(t, out);
    for (; done < count; done++) {
        ron_buf_clear(&t->scratch);
        put_span(t, spans[done], &t->scratch);
        if (ron_buf_error(&t->scratch) != RON_OK ||
            ron_buf_len(out) + ron_buf_len(&t->scratch) + sizeof tail + 1 > out->max) {
            break;
        }
        if (done > 0) {
            (void)ron_buf_append_byte(out, ','); /* a failure sticks and is looked at below */
        }
        (void)ron_buf_append(out, ron_buf_data(&t->scratch), ron_buf_len(&t->scratch));
    }
    (void)ron_buf_append_text(out, tail);
    return ron_buf_error(out) == RON_OK ? done : 0;
}
