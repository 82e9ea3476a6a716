/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_http.c - `ron http`: the HTTP front with routes that exercise it, for tests and benchmarks.
 *
 *   GET  /hello         200 bytes of JSON, answered at once
 *   GET  /bytes/{n}     n bytes, answered at once
 *   GET  /stream/{n}    n pieces of unknown total length (chunked)
 *   GET  /name/{text}   the decoded parameter
 *   POST /echo          the body, answered at once
 *   POST /late          the body, answered by a task behind a bounded queue
 *   GET  /never         held by the task until the client is gone or the deadline has passed
 *   GET  /fail          an error of a service
 *   POST /json, /json-late, GET /slow/{ms}   see http_load.h
 *   GET  /pieces/{n}, /events, POST /upload   see http_pipes.h
 *   GET  /file          the file of --file, see http_file.h
 *   GET  /peer          who the client is, by its certificate
 *   GET  /counters      the counters of the front; passes every gate
 *   and the routes of ron/http/ops.h
 *
 * Ownership: a reply belongs to the queue or to the task that holds it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "http_file.h"
#include "http_load.h"
#include "http_obs.h"
#include "http_pipes.h"
#include "http_tls.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/server.h"
#include "ron/io/cpu.h"
#include "ron/io/linux_env.h"
#include "ron/task/signals.h"
#include "stand.h"

enum { PIECES_MAX = 100000 };

struct job {
    struct stand_job head;
    struct ron_http_reply *reply;
    struct ron_str body;   /* lives until the reply is sent */
    struct ron_span *span; /* NULL unless traces are kept */
};

struct http_check {
    struct stand stand;
    struct ron_http_server *server;
    const struct tls_args *tls_args;
    struct ron_tls_ctx *tls; /* NULL: plain */
    struct ron_http_listener listener;
    struct load load;
    struct pipes pipes;
    struct served_file file;
    struct http_obs obs;
};

/* ---- answered at once ------------------------------------------------------------------------ */

static void on_hello(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_answer(call, 200, "application/json", load_answer, LOAD_ANSWER_BYTES);
}

static void on_bytes(struct ron_http_call *call, void *arg)
{
    struct http_check *k = arg;
    uint64_t n = ron_http_param_u64(call, 0);

    if (n > STAND_BYTES) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    ron_http_answer(call, 200, "application/octet-stream", k->stand.bytes, (size_t)n);
}

static void on_stream(struct ron_http_call *call, void *arg)
{
    uint64_t n = ron_http_param_u64(call, 0);

    (void)arg;
    if (n > PIECES_MAX) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    ron_http_begin(call, 200, "text/plain");
    for (uint64_t i = 0; i < n; i++) {
        char line[32];
        int len = snprintf(line, sizeof line, "line %" PRIu64 "\n", i);
        ron_http_chunk(call, line, (size_t)len);
    }
    ron_http_end(call);
}

static void on_name(struct ron_http_call *call, void *arg)
{
    struct ron_str text = ron_http_param(call, 0);

    (void)arg;
    ron_http_answer(call, 200, "text/plain", text.ptr, text.len);
}

static void on_echo(struct ron_http_call *call, void *arg)
{
    struct ron_str body = ron_http_body(call);

    (void)arg;
    ron_http_answer(call, 200, "application/octet-stream", body.ptr, body.len);
}

static void on_fail(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_fail_with(call, &(struct ron_http_error){.status = 409,
                                                      .code = "CONFLICT",
                                                      .message = "failing on purpose",
                                                      .reason = "conflict"});
}

static void on_counters(struct ron_http_call *call, void *arg)
{
    struct http_check *k = arg;
    struct ron_http_counters c;
    struct ron_json_writer w;
    struct ron_buf out;

    ron_http_server_counters(k->server, &c);
    ron_buf_init(&out, 8192);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
#define X(field, metric, label, value, gauge) ron_json_u64(&w, #field, c.field);
    RON_HTTP_COUNTERS(X)
#undef X
    ron_json_open(&w, "rejected", '{');
    for (int r = 1; r < RON_HTTP_REASON_COUNT; r++) {
        ron_json_u64(&w, ron_http_reason_label((enum ron_http_reason)r), c.rejected[r]);
    }
    ron_json_close(&w, '}');
    if (k->tls != NULL) {
        tls_write_counters(&w, k->tls);
    }
    ron_json_close(&w, '}');
    ron_http_answer(call, 200, "application/json", ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

/* ---- answered by a task ---------------------------------------------------------------------- */

static void free_job(struct job *job)
{
    if (job->span != NULL) {
        ron_span_end(job->span);
        ron_free(job->span);
    }
    ron_free(job);
}

static void drop_job(struct stand_job *take_job)
{
    struct job *job = RON_CONTAINER_OF(take_job, struct job, head);

    if (job->span != NULL) {
        ron_span_fail(job->span, "dropped");
    }
    ron_http_reply_fail(job->reply, RON_HTTP_DRAINING);
    free_job(job);
}

static void hand_over(struct ron_http_call *call, struct http_check *k, bool never)
{
    struct job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL || ron_http_defer(call, &job->reply) != RON_OK) {
        ron_free(job);
        ron_http_fail(call, RON_HTTP_BUSY);
        return;
    }
    job->body = ron_http_body(call);
    job->head.never = never;
    if (k->obs.trace_fd >= 0 && (job->span = ron_alloc(sizeof *job->span)) != NULL) {
        http_obs_span(&k->obs, call, job->span, never ? "never" : "late");
        ron_span_u64(job->span, "body_bytes", job->body.len);
    }
    if (ron_chan_try_send(k->stand.queue, &job->head, NULL) != RON_OK) {
        ron_http_undefer(call, job->reply);
        free_job(job);
        ron_http_fail(call, RON_HTTP_BUSY);
    }
}

static void on_late(struct ron_http_call *call, void *arg)
{
    hand_over(call, arg, false);
}

static void on_never(struct ron_http_call *call, void *arg)
{
    hand_over(call, arg, true);
}

static void answer_job(struct stand_job *take_job)
{
    struct job *job = RON_CONTAINER_OF(take_job, struct job, head);

    if (ron_buf_append(ron_http_reply_body(job->reply), job->body.ptr, job->body.len) != RON_OK) {
        ron_http_reply_fail(job->reply, RON_HTTP_MEMORY);
    } else {
        ron_http_reply_send(job->reply, 200, "application/octet-stream");
    }
    free_job(job);
}

static bool job_cancelled(struct stand_job *job)
{
    return ron_http_reply_cancelled(RON_CONTAINER_OF(job, struct job, head)->reply);
}

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc build(struct http_check *k, struct ron_http_opts *o, struct ron_err *err)
{
    struct stand *s = &k->stand;

    RON_TRY(stand_begin(s, err));
    RON_TRY(http_obs_begin(&k->obs, s->env, s->registry, err));
    RON_TRY(
        stand_build(s,
                    &(struct stand_opts){.verb = "http",
                                         .workers = o->workers,
                                         .queue_capacity = 512,
                                         .on_event = k->obs.log == NULL ? NULL : ron_log_sup_event,
                                         .on_event_arg = k->obs.log,
                                         .answer = answer_job,
                                         .drop = drop_job,
                                         .cancelled = job_cancelled},
                    err));
    RON_TRY(load_build(&k->load, s->env, s->registry, s->sup, err));
    RON_TRY(pipes_build(&k->pipes, s->env, s->registry, s->sup, err));
    o->name = "http";
    o->env = s->env;
    o->registry = s->registry;
    RON_TRY(http_obs_build(&k->obs, s->sup, o, err));
    RON_TRY(tls_build(k->tls_args, s->env, k->obs.ops.metrics, &k->tls, err));
    k->listener = (struct ron_http_listener){.addr = o->addr, .tls = k->tls};
    o->addr = NULL;
    o->listeners = &k->listener;
    o->listener_count = 1;
    RON_TRY(ron_http_server_new(o, &k->server, err));
    RON_TRY(ron_collect_http(k->obs.ops.metrics, k->server, err));
    return ron_http_server_attach(k->server, s->sup, err);
}

static void take_down(struct http_check *k)
{
    stand_end(&k->stand);
    load_done(&k->load);
    pipes_done(&k->pipes);
    file_close(&k->file);
    if (ron_http_server_free(k->server)) {
        ron_tls_ctx_free(k->tls);
    }
    http_obs_done(&k->obs);
    stand_done(&k->stand);
}

static int serve(struct ron_http_opts *o, const struct tls_args *tls, const struct http_obs *obs,
                 const char *file_path)
{
    static struct http_check check; /* the routes below point to it */
    static struct ron_http_route routes[RON_HTTP_ROUTES_MAX];
    static const struct ron_http_route own[] = {
        {RON_HTTP_GET, "/hello", on_hello, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/bytes/{n:u64}", on_bytes, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/stream/{n:u64}", on_stream, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/name/{text}", on_name, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/echo", on_echo, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/late", on_late, &check, 0, 0},
        {RON_HTTP_GET, "/never", on_never, &check, 0, 0},
        {RON_HTTP_GET, "/fail", on_fail, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/json", load_on_json, &check.load, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/json-late", load_on_json_late, &check.load, 0, 0},
        {RON_HTTP_GET, "/slow/{ms:u64}", load_on_slow, &check.load, 0, 0},
        {RON_HTTP_GET, "/pieces/{kib:u64}", pipes_on_pieces, &check.pipes, 0, 0},
        {RON_HTTP_POST, "/upload", pipes_on_upload, &check.pipes, RON_HTTP_STREAM,
         PIPES_UPLOAD_MAX},
        {RON_HTTP_GET, "/events", pipes_on_events, &check.pipes, 0, 0},
        {RON_HTTP_GET, "/file", file_on_get, &check.file, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/peer", tls_on_peer, &check, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/counters", on_counters, &check, RON_HTTP_ALWAYS, 0},
    };
    struct ron_err err = {0};
    int code = CLI_FAILED;

    check.obs = *obs;
    check.tls_args = tls;
    memcpy(routes, own, sizeof own);
    ron_ops_routes(&check.obs.ops, routes + RON_ARRAY_LEN(own));
    o->routes = routes;
    o->route_count = RON_ARRAY_LEN(own) + RON_OPS_ROUTES;
    if (file_open(&check.file, ron_env_linux(), file_path, &err) != RON_OK ||
        build(&check, o, &err) != RON_OK) {
        fprintf(stderr, "ron http: %s\n", err.msg);
    } else {
        code =
            stand_run(&check.stand, ron_http_server_addr(check.server), tls_on_hangup, check.tls);
    }
    take_down(&check);
    return code;
}

int cli_http(int argc, char **argv)
{
    const char *addr = "127.0.0.1:7080";
    const char *file_path = NULL;
    static const char *const formats[] = {"off", "text", "json", NULL};
    struct http_obs obs = {.log_format = "off", .trace_path = "", .trace_fd = -1};
    uint64_t n[12] = {RON_MIN(ron_cpu_count(), (uint32_t)STAND_WORKERS_MAX)};
    struct tls_args tls = {0};
    static const char *const client_modes[] = {"required", "optional", NULL};
    bool done = false;
    int code;
    const struct cli_option options[] = {
        CLI_CHOICE("listen", "ADDR", "address and port, port 0 for a free one", &addr, NULL),
        CLI_CHOICE("file", "PATH", "what /file serves", &file_path, NULL),
        CLI_CHOICE("log", "FORMAT", "off, text or json, on standard error", &obs.log_format,
                   formats),
        CLI_CHOICE("trace", "FILE", "spans of /late and /never, as OTLP JSON", &obs.trace_path,
                   NULL),
        CLI_NUMBER("workers", "N", "executor workers", &n[0], 1, STAND_WORKERS_MAX),
        CLI_NUMBER("connections", "N", "connections at once (2048)", &n[1], 0, 1 << 20),
        CLI_NUMBER("inflight", "N", "deferred requests at once (512)", &n[2], 0, 1 << 20),
        CLI_NUMBER("rate", "N", "requests per second and client, 0 = any", &n[3], 0, 1000000000),
        CLI_NUMBER("burst", "N", "requests at once and client (half of the rate)", &n[4], 0,
                   1 << 30),
        CLI_NUMBER("body-max", "BYTES", "bytes of a body (1 MiB)", &n[5], 0, 1 << 30),
        CLI_NUMBER("body-memory", "BYTES", "bytes of all bodies (64 MiB)", &n[6], 0,
                   UINT64_C(1) << 40),
        CLI_NUMBER("read-timeout", "MS", "for a head, and between pieces (5000)", &n[7], 0,
                   3600000),
        CLI_NUMBER("write-timeout", "MS", "between pieces of an answer (5000)", &n[8], 0, 3600000),
        CLI_NUMBER("idle-timeout", "MS", "between requests (60000)", &n[9], 0, 3600000),
        CLI_NUMBER("request-timeout", "MS", "first byte to answer (10000)", &n[10], 0, 3600000),
        CLI_CHOICE("tls-cert", "FILE", "certificate chain (PEM): speak TLS", &tls.cert, NULL),
        CLI_CHOICE("tls-key", "FILE", "its key (PEM), readable for the owner alone", &tls.key,
                   NULL),
        CLI_CHOICE("tls-client-ca", "FILE", "ask clients for certificates of these", &tls.client_ca,
                   NULL),
        CLI_CHOICE("tls-client", "MODE", "required (default) or optional", &tls.client,
                   client_modes),
        CLI_FLAG("tls12", "allow TLS 1.2 beside 1.3", &tls.allow_tls12),
        CLI_NUMBER("drain-hold", "MS", "hold a drain open that long (0)", &n[11], 0, 60000),
    };
    struct ron_http_opts o;

    code = cli_parse("http",
                     "Serves routes that exercise the HTTP front until a signal, then drains.\n"
                     "SIGHUP reads the certificate anew.\n"
                     "Exit: 0 drained, 2 a task had to be aborted, 3 a listener kept failing.\n\n"
                     "example:\n  ron http --listen 127.0.0.1:8080 --log text",
                     options, RON_ARRAY_LEN(options), argc, argv, &done);
    if (code != CLI_OK || done) {
        return code;
    }
    o = (struct ron_http_opts){.addr = addr,
                               .workers = (uint32_t)n[0],
                               .connections_max = (uint32_t)n[1],
                               .inflight_max = (uint32_t)n[2],
                               .rate_per_s = (uint32_t)n[3],
                               .burst = (uint32_t)n[4],
                               .body_max = n[5],
                               .body_memory_max = n[6],
                               .read_timeout_ms = (uint32_t)n[7],
                               .write_timeout_ms = (uint32_t)n[8],
                               .idle_timeout_ms = (uint32_t)n[9],
                               .request_timeout_ms = (uint32_t)n[10]};
    ron_signals_block();
    obs.hold_ms = n[11];
    return serve(&o, &tls, &obs, file_path);
}
