/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - trace context, sampling, spans, the exporter and its JSON.
 *
 * Goal: traceparent is read strictly and written canonically; what is sampled is decided by the id
 *   alone; the exporter sends every span it was given exactly once or counts it, and never more
 *   than its bounds.
 * Method: the examples of the specification; a receiver in the test that keeps bodies and can
 *   refuse; exact comparison of one body. Python reads others in tests/system/60-obs.py.
 */
#include "support/support.h"

#include "obs/trace_priv.h"
#include "ron/base/build.h"
#include "ron/base/hex.h"
#include "unit/task/fixture.h"

static const char example[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* ---- context --------------------------------------------------------------------------------- */

static void test_trace__good_traceparent__read_and_written_back(void **state)
{
    struct ron_trace_ctx ctx = {0};
    char text[RON_TRACEPARENT_LEN + 1];

    (void)state;
    assert_int_equal(ron_traceparent_parse(str(example), &ctx), RON_OK);
    assert_true(ctx.sampled);
    ron_traceparent_format(&ctx, text);
    assert_string_equal(text, example);
    /* Unknown flags are ignored, a later version may be longer. */
    assert_int_equal(ron_traceparent_parse(
                         str("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe-what"), &ctx),
                     RON_OK);
    assert_false(ctx.sampled);
    ron_traceparent_format(&ctx, text);
    assert_string_equal(text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
}

static void test_trace__bad_traceparent__refused(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_trace_ctx ctx = {.sampled = true};

        if (ron_traceparent_parse(str(bad[i]), &ctx) != RON_INVALID) {
            fail_msg("taken: \"%s\"", bad[i]);
        }
        assert_true(ctx.sampled); /* untouched */
    }
}

/* ---- a receiver ------------------------------------------------------------------------------ */

static struct receiver {
    struct fx_gate calls;
    size_t spans; /* guarded by the gate's lock, as the rest */
    size_t largest;
    char last[65536];
    uint32_t refuse; /* this many calls */
    enum ron_rc refuse_with;
    bool bad_json;
} receiver;

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = strstr(text, what); p != NULL; p = strstr(p + 1, what)) {
        n++;
    }
    return n;
}

static enum ron_rc receive(void *arg, const char *type, const void *body, size_t len,
                           struct ron_deadline deadline)
{
    struct ron_json_error error;
    enum ron_rc rc = RON_OK;
    char *copy = malloc(len + 1);

    (void)arg;
    (void)deadline;
    memcpy(copy, body, len);
    copy[len] = '\0';
    ron_mutex_lock(&receiver.calls.mu);
    if (strcmp(type, "application/json") != 0 || ron_json_check(copy, len, &error) != RON_OK) {
        receiver.bad_json = true;
    }
    if (receiver.refuse > 0) {
        receiver.refuse--;
        rc = receiver.refuse_with;
    } else {
        receiver.spans += count_of(copy, "\"spanId\":");
        receiver.largest = RON_MAX(receiver.largest, len);
        (void)snprintf(receiver.last, sizeof receiver.last, "%.*s",
                       (int)RON_MIN(len, (size_t)65535), copy);
    }
    ron_mutex_unlock(&receiver.calls.mu);
    fx_gate_add(&receiver.calls, 1);
    free(copy);
    return rc;
}

static int setup(void **state)
{
    (void)state;
    memset(&receiver, 0, sizeof receiver);
    fx_gate_init(&receiver.calls);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_gate_done(&receiver.calls);
    assert_false(receiver.bad_json);
    return 0;
}

static struct ron_tracer *tracer_of(struct fx *fx, struct ron_tracer_opts o)
{
    struct ron_tracer *t = NULL;

    o.env = &fx->env;
    o.registry = fx->reg;
    o.service = "ledger";
    o.send = receive;
    assert_int_equal(ron_tracer_new(&o, &t, NULL), RON_OK);
    return t;
}

static uint64_t spans_by(struct ron_tracer *t, enum trace_result r)
{
    return ron_stat_get(&t->spans[r]);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static void test_trace__one_percent__about_that_and_alike_everywhere(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_tracer *a = NULL;
    struct ron_tracer *b = NULL;
    struct ron_tracer_opts o = {
        .env = &fx->env, .registry = fx->reg, .service = "x", .sample_percent = 1};
    struct ron_span span;
    struct ron_span child;
    uint32_t sampled = 0;

    (void)state;
    assert_int_equal(ron_tracer_new(&o, &a, NULL), RON_OK);
    assert_int_equal(ron_tracer_new(&o, &b, NULL), RON_OK);
    for (int i = 0; i < 100000; i++) {
        ron_span_start(a, &span, "root", RON_SPAN_SERVER, NULL);
        ron_span_start(b, &child, "child", RON_SPAN_SERVER, &span.ctx);
        assert_true(ron_trace_ctx_valid(&span.ctx));
        assert_int_equal(span.ctx.sampled, child.ctx.sampled);
        assert_memory_equal(span.ctx.trace_id, child.ctx.trace_id, RON_TRACE_ID_BYTES);
        sampled += span.ctx.sampled;
    }
    /* 1000 expected, standard deviation 31.5: beyond six of them is no accident. */
    assert_in_range(sampled, 810, 1190);
    ron_tracer_set_sample(a, 100);
    ron_span_start(a, &span, "root", RON_SPAN_SERVER, NULL);
    assert_true(span.ctx.sampled);
    ron_tracer_set_sample(a, 0);
    ron_span_start(a, &span, "root", RON_SPAN_SERVER, NULL);
    assert_false(span.ctx.sampled);
    ron_tracer_set_all(a, true);
    ron_span_start(a, &span, "root", RON_SPAN_SERVER, NULL);
    assert_true(span.ctx.sampled);
    ron_tracer_free(a);
    ron_tracer_free(b);
    assert_true(fx_close(fx));
}

static void test_trace__stranger_says_sampled__followed_only_where_trusted(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_tracer *strict = tracer_of(fx, (struct ron_tracer_opts){0});
    struct ron_trace_ctx parent = {0};
    struct ron_span span;

    (void)state;
    assert_int_equal(ron_traceparent_parse(str(example), &parent), RON_OK);
    ron_span_start(strict, &span, "root", RON_SPAN_SERVER, &parent);
    assert_false(span.ctx.sampled);
    ron_tracer_free(strict);
    strict = tracer_of(fx, (struct ron_tracer_opts){.follow_parent = true});
    ron_span_start(strict, &span, "root", RON_SPAN_SERVER, &parent);
    assert_true(span.ctx.sampled);
    ron_tracer_free(strict);
    /* Without a tracer the context goes through. */
    ron_span_start(NULL, &span, "root", RON_SPAN_SERVER, &parent);
    assert_memory_equal(&span.ctx, &parent, sizeof parent);
    ron_span_u64(&span, "n", 1);
    ron_span_fail(&span, "no");
    ron_span_end(&span);
    assert_true(fx_close(fx));
}

/* ---- export ---------------------------------------------------------------------------------- */

static void test_trace__one_span__exact_body(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_tracer *t = tracer_of(fx, (struct ron_tracer_opts){.sample_percent = 0});
    struct ron_trace_ctx parent = {0};
    struct ron_span span;
    struct ron_span *copy = &span;
    struct ron_buf out;
    char wanted[2048];
    char id[17];
    char long_text[200];

    (void)state;
    assert_int_equal(ron_traceparent_parse(str(example), &parent), RON_OK);
    ron_span_start(t, &span, "committer", RON_SPAN_CONSUMER, &parent);
    ron_span_text(&span, "corr_id", str("a\"b"));
    ron_span_u64(&span, "seq", UINT64_MAX);
    memset(long_text, 'x', sizeof long_text);
    ron_span_text(&span, "long", (struct ron_str){long_text, sizeof long_text});
    for (int i = 3; i < RON_SPAN_ATTRS_MAX + 2; i++) {
        ron_span_u64(&span, "n", 1);
    }
    ron_span_fail(&span, "sync failed");
    span._end_ns = span._start_ns + 1500;
    t->wall_offset_ns = 0;
    ron_buf_init(&out, RON_TRACE_BODY_MAX);
    assert_int_equal(ron__otlp_encode(t, &copy, 1, &out), 1);
    ron_hex(span.ctx.span_id, 8, id);
    (void)snprintf(
        wanted, sizeof wanted,
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"ledger\"}},{\"key\":\"service.version\",\"value\":{\"stringValue\":"
        "\"%s\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"ron\"},\"spans\":[{\"traceId\":"
        "\"4bf92f3577b34da6a3ce929d0e0e4736\",\"spanId\":\"%s\",\"parentSpanId\":"
        "\"00f067aa0ba902b7\",\"name\":\"committer\",\"kind\":5,\"startTimeUnixNano\":\"%llu\","
        "\"endTimeUnixNano\":\"%llu\",\"attributes\":[{\"key\":\"corr_id\",\"value\":"
        "{\"stringValue\":\"a\\\"b\"}},{\"key\":\"seq\",\"value\":{\"intValue\":"
        "\"9223372036854775807\"}},{\"key\":\"long\",\"value\":{\"stringValue\":\"%.96s\"}},",
        ron_version(), id, (unsigned long long)(span._start_ns + t->wall_offset_ns),
        (unsigned long long)(span._end_ns + t->wall_offset_ns), long_text);
    assert_memory_equal(ron_buf_text(&out), wanted, strlen(wanted));
    assert_non_null(strstr(ron_buf_text(&out),
                           "],\"droppedAttributesCount\":2,\"status\":{\"code\":2,\"message\":"
                           "\"sync failed\"}}]}]}]}"));
    assert_int_equal(count_of(ron_buf_text(&out), "\"key\":"), 2 + RON_SPAN_ATTRS_MAX);
    ron_buf_done(&out);
    ron_tracer_free(t);
    assert_true(fx_close(fx));
}

static void make_spans(struct ron_tracer *t, int count, bool failed)
{
    for (int i = 0; i < count; i++) {
        struct ron_span span;

        ron_span_start(t, &span, "stage", RON_SPAN_INTERNAL, NULL);
        ron_span_u64(&span, "batch_size", 7);
        if (failed) {
            ron_span_fail(&span, "failed");
        }
        ron_span_end(&span);
        ron_span_end(&span); /* once is enough */
    }
}

static void test_trace__exporter_runs__all_sent_in_batches_and_at_the_end(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_tracer *t =
        tracer_of(fx, (struct ron_tracer_opts){.sample_percent = 0, .flush_ms = 1});

    (void)state;
    assert_int_equal(ron_tracer_attach(t, fx->sup, 100, NULL), RON_OK);
    fx_start(fx);
    make_spans(t, 50, false); /* not sampled */
    make_spans(t, 600, true); /* errors always are */
    fx_until(spans_by(t, TRACE_EXPORTED) == 600);
    ron_tracer_set_all(t, true);
    make_spans(t, 20, false);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(spans_by(t, TRACE_EXPORTED), 620);
    assert_int_equal(receiver.spans, 620);
    assert_int_equal(spans_by(t, TRACE_DROPPED), 0);
    ron_tracer_free(t);
    assert_true(fx_close(fx));
}

static void test_trace__collector_refuses__tried_three_times_then_counted(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_tracer *t = tracer_of(
        fx, (struct ron_tracer_opts){.sample_percent = 100, .flush_ms = 1, .retry_ms = 1});

    (void)state;
    receiver.refuse = 2;
    receiver.refuse_with = RON_TIMEOUT;
    assert_int_equal(ron_tracer_attach(t, fx->sup, 100, NULL), RON_OK);
    fx_start(fx);
    make_spans(t, 1, false);
    fx_until(spans_by(t, TRACE_EXPORTED) == 1); /* the third try */
    ron_mutex_lock(&receiver.calls.mu);
    receiver.refuse = 3;
    ron_mutex_unlock(&receiver.calls.mu);
    make_spans(t, 1, false);
    fx_until(spans_by(t, TRACE_FAILED) == 1);
    ron_mutex_lock(&receiver.calls.mu);
    receiver.refuse = 1;
    receiver.refuse_with = RON_INVALID; /* it will not get better */
    ron_mutex_unlock(&receiver.calls.mu);
    make_spans(t, 1, false);
    fx_until(spans_by(t, TRACE_FAILED) == 2);
    assert_int_equal(fx_gate_count(&receiver.calls), 7);
    assert_int_equal(ron_stat_get(&t->sends_failed), 6);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_tracer_free(t);
    assert_true(fx_close(fx));
}

static void test_trace__nobody_exports__oldest_dropped_and_counted(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_tracer *t =
        tracer_of(fx, (struct ron_tracer_opts){.sample_percent = 100, .queue_capacity = 8});
    struct ron_metrics *m = NULL;
    struct ron_buf out;

    (void)state;
    make_spans(t, 20, false);
    assert_int_equal(spans_by(t, TRACE_DROPPED), 12);
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_collect_tracer(m, t, NULL), RON_OK);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\ntrace_spans_total{result=\"dropped\"} 12\n"));
    ron_buf_done(&out);
    ron_metrics_free(m);
    ron_tracer_free(t);
    assert_true(fx_close(fx));
}

static void test_trace__body_full__ends_between_two_spans(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_tracer *t = tracer_of(fx, (struct ron_tracer_opts){.sample_percent = 100});
    struct ron_span span;
    struct ron_span *spans[64];
    struct ron_buf out;
    struct ron_json_error error;
    size_t n;

    (void)state;
    ron_span_start(t, &span, "stage", RON_SPAN_INTERNAL, NULL);
    span._end_ns = span._start_ns;
    for (size_t i = 0; i < RON_ARRAY_LEN(spans); i++) {
        spans[i] = &span;
    }
    ron_buf_init(&out, 4096);
    n = ron__otlp_encode(t, spans, RON_ARRAY_LEN(spans), &out);
    assert_in_range(n, 5, 40);
    assert_int_equal(count_of(ron_buf_text(&out), "\"spanId\":"), n);
    assert_int_equal(ron_json_check((const char *)ron_buf_data(&out), ron_buf_len(&out), &error),
                     RON_OK);
    ron_buf_done(&out);
    ron_tracer_free(t);
    assert_true(fx_close(fx));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_trace__good_traceparent__read_and_written_back),
        CASE(test_trace__bad_traceparent__refused),
        CASE(test_trace__one_percent__about_that_and_alike_everywhere),
        CASE(test_trace__stranger_says_sampled__followed_only_where_trusted),
        CASE(test_trace__one_span__exact_body),
        CASE(test_trace__exporter_runs__all_sent_in_batches_and_at_the_end),
        CASE(test_trace__collector_refuses__tried_three_times_then_counted),
        CASE(test_trace__nobody_exports__oldest_dropped_and_counted),
        CASE(test_trace__body_full__ends_between_two_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
