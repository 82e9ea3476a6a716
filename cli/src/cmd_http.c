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

enum {
    BYTES_MAX = 8 << 20,
    PIECES_MAX = 100000,
    HELD_MAX = 1024,
    LOOK_MS = 20, /* between two looks at the held replies */
    WORKERS_MAX = 16,
};

struct job {
    struct ron_http_reply *reply;
    struct ron_str body; /* lives until the reply is sent */
    bool never;
    struct ron_span *span; /* NULL unless traces are kept */
};

struct http_check {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_chan *queue;
    struct ron_http_server *server;
    const struct tls_args *tls_args;
    struct ron_tls_ctx *tls; /* NULL: plain */
    struct ron_http_listener listener;
    struct load load;
    struct pipes pipes;
    struct served_file file;
    struct http_obs obs;
    char *bytes;
    /* Task `answers` only. */
    struct job *held[HELD_MAX];
    size_t held_count;
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

    if (n > BYTES_MAX) {
        ron_http_fail(call, RON_HTTP_PARAM);
        return;
    }
    ron_http_answer(call, 200, "application/octet-stream", k->bytes, (size_t)n);
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

static void drop_job(void *item, void *arg)
{
    struct job *job = item;

    (void)arg;
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
    job->never = never;
    if (k->obs.trace_fd >= 0 && (job->span = ron_alloc(sizeof *job->span)) != NULL) {
        http_obs_span(&k->obs, call, job->span, never ? "never" : "late");
        ron_span_u64(job->span, "body_bytes", job->body.len);
    }
    if (ron_chan_try_send(k->queue, job, NULL) != RON_OK) {
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

static void answer_job(struct job *job)
{
    if (ron_buf_append(ron_http_reply_body(job->reply), job->body.ptr, job->body.len) != RON_OK) {
        ron_http_reply_fail(job->reply, RON_HTTP_MEMORY);
    } else {
        ron_http_reply_send(job->reply, 200, "application/octet-stream");
    }
    free_job(job);
}

/* Gives back the held replies that nobody waits for any more; all of them when `force`. */
static void look_at_held(struct ron_task *t, struct http_check *k, bool force)
{
    size_t kept = 0;

    for (size_t i = 0; i < k->held_count; i++) {
        if (force || ron_http_reply_cancelled(k->held[i]->reply)) {
            drop_job(k->held[i], NULL);
        } else {
            k->held[kept++] = k->held[i];
        }
    }
    k->held_count = kept;
    ron_task_wake_at(t, kept > 0 && !force ? ron_task_now_ms(t) + LOOK_MS : UINT64_MAX);
}

static enum ron_rc answers_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct http_check *k = arg;

    for (size_t i = 0; i < count; i++) {
        struct job *job = items[i];

        if (!job->never) {
            answer_job(job);
        } else if (k->held_count < HELD_MAX) {
            k->held[k->held_count++] = job;
        } else {
            drop_job(job, NULL);
        }
    }
    look_at_held(t, k, false);
    return RON_OK;
}

static void answers_stop(struct ron_task *t, void *arg)
{
    look_at_held(t, arg, true);
}

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc build(struct http_check *k, struct ron_http_opts *o, struct ron_err *err)
{
    struct ron_task *task = NULL;

    k->env = ron_env_linux();
    k->bytes = ron_alloc(BYTES_MAX);
    if (k->bytes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory");
    }
    memset(k->bytes, 'x', BYTES_MAX);
    RON_TRY(ron_registry_new(&k->registry, err));
    RON_TRY(http_obs_begin(&k->obs, k->env, k->registry, err));
    RON_TRY(ron_exec_new(
        &(struct ron_exec_opts){.env = k->env, .registry = k->registry, .workers = o->workers},
        &k->exec, err));
    RON_TRY(ron_sup_new(
        &(struct ron_sup_opts){.env = k->env,
                               .registry = k->registry,
                               .exec = k->exec,
                               .on_event = k->obs.log == NULL ? NULL : ron_log_sup_event,
                               .on_event_arg = k->obs.log},
        &k->sup, err));
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = k->registry,
                                                 .env = k->env,
                                                 .name = "late",
                                                 .producers = "http",
                                                 .consumers = "answers",
                                                 .drop_text = "answered 503 draining",
                                                 .capacity = 512,
                                                 .policy = RON_CHAN_REJECT,
                                                 .drop = drop_job},
                         &k->queue, err));
    RON_TRY(ron_sup_add(k->sup,
                        &(struct ron_task_def){.name = "answers",
                                               .kind = "worker",
                                               .worker = RON_WORKER_ANY,
                                               .input = k->queue,
                                               .handle = answers_handle,
                                               .stop = answers_stop,
                                               .arg = k},
                        &task, err));
    RON_TRY(load_build(&k->load, k->env, k->registry, k->sup, err));
    RON_TRY(pipes_build(&k->pipes, k->env, k->registry, k->sup, err));
    o->name = "http";
    o->env = k->env;
    o->registry = k->registry;
    RON_TRY(http_obs_build(&k->obs, k->sup, o, err));
    RON_TRY(tls_build(k->tls_args, k->env, k->obs.ops.metrics, &k->tls, err));
    k->listener = (struct ron_http_listener){.addr = o->addr, .tls = k->tls};
    o->addr = NULL;
    o->listeners = &k->listener;
    o->listener_count = 1;
    RON_TRY(ron_http_server_new(o, &k->server, err));
    RON_TRY(ron_collect_http(k->obs.ops.metrics, k->server, err));
    return ron_http_server_attach(k->server, k->sup, err);
}

static void take_down(struct http_check *k)
{
    if (k->sup != NULL) {
        ron_sup_free(k->sup);
    }
    if (k->exec != NULL) {
        (void)ron_exec_free(k->exec);
    }
    if (k->queue != NULL) {
        ron_chan_free(k->queue);
    }
    load_done(&k->load);
    pipes_done(&k->pipes);
    file_close(&k->file);
    if (ron_http_server_free(k->server)) {
        ron_tls_ctx_free(k->tls);
    }
    http_obs_done(&k->obs);
    if (k->registry != NULL) {
        ron_registry_free(k->registry);
    }
    ron_free(k->bytes);
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
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code = CLI_FAILED;

    check.obs = *obs;
    check.tls_args = tls;
    memcpy(routes, own, sizeof own);
    ron_ops_routes(&check.obs.ops, routes + RON_ARRAY_LEN(own));
    o->routes = routes;
    o->route_count = RON_ARRAY_LEN(own) + RON_OPS_ROUTES;
    if (file_open(&check.file, ron_env_linux(), file_path, &err) != RON_OK ||
        build(&check, o, &err) != RON_OK ||
        ron_signals_start(check.sup, tls_on_hangup, check.tls, &signals, &err) != RON_OK) {
        fprintf(stderr, "ron http: %s\n", err.msg);
    } else {
        printf("listening on %s\n", ron_http_server_addr(check.server));
        (void)fflush(stdout);
        code = ron_sup_run(check.sup);
        ron_signals_stop(signals);
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
    uint64_t n[12] = {RON_MIN(ron_cpu_count(), (uint32_t)WORKERS_MAX)};
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
        CLI_NUMBER("workers", "N", "executor workers", &n[0], 1, WORKERS_MAX),
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
                     "Exit: 0 drained, 2 a task had to be aborted, 3 a listener kept failing.",
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
