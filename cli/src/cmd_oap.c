/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_oap.c - `ron oap`: the OAP/1 front with an app that exercises it, for tests and benchmarks.
 *
 * App 100, by code:
 *   1 echo       the payload, answered at once
 *   2 late       the payload, answered by a task behind a bounded queue
 *   3 never      held by the task until the client is gone, has cancelled, or time is up
 *   4 bytes      as many bytes as the payload says in decimal
 *   5 fail       an error of a service
 *   6 publish    the payload becomes an event of app 100, code 6
 *   7 counters   JSON
 * App 101: echo, served while draining too.
 *
 * Ownership: a reply belongs to the queue or to the task that holds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/cpu.h"
#include "ron/io/linux_env.h"
#include "ron/task/signals.h"
#include "ron/wire/server.h"

enum {
    BYTES_MAX = 8 << 20,
    HELD_MAX = 1024,
    LOOK_MS = 20, /* between two looks at the held replies */
    WORKERS_MAX = 16,
    APP = 100,
    APP_ALWAYS = 101,
};

enum code { ECHO = 1, LATE, NEVER, BYTES, FAIL, PUBLISH, COUNTERS };

struct job {
    struct ron_oap_reply *reply;
    const void *payload; /* lives until the reply is sent */
    size_t len;
    bool never;
};

struct oap_check {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_chan *queue;
    struct ron_oap_server *server;
    char *bytes;
    /* Task `answers` only. */
    struct job *held[HELD_MAX];
    size_t held_count;
};

/* ---- answered at once ------------------------------------------------------------------------ */

static void on_bytes(struct ron_oap_call *call, struct oap_check *k)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    char text[24] = "";
    uint64_t n;

    memcpy(text, q->payload, RON_MIN(q->payload_len, sizeof text - 1));
    n = strtoull(text, NULL, 10);
    if (n > BYTES_MAX) {
        ron_oap_fail_with(call, &(struct ron_oap_error){.status = 400,
                                                        .code = "MALFORMED",
                                                        .message = "too many bytes",
                                                        .reason = "malformed"});
        return;
    }
    ron_oap_answer(call, 200, k->bytes, (size_t)n);
}

static void on_publish(struct ron_oap_call *call, struct oap_check *k)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    bool fits = ron_oap_publish(k->server, APP, PUBLISH, q->payload, q->payload_len) == RON_OK;

    ron_oap_answer(call, fits ? 200 : 413, NULL, 0);
}

static void on_counters(struct ron_oap_call *call, struct oap_check *k)
{
    struct ron_oap_counters c;
    struct ron_json_writer w;
    struct ron_buf out;

    ron_oap_server_counters(k->server, &c);
    ron_buf_init(&out, 8192);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
#define X(field, metric, label, value, gauge) ron_json_u64(&w, #field, c.field);
    RON_OAP_COUNTERS(X)
#undef X
    ron_json_u64(&w, "inflight", c.inflight);
    ron_json_u64(&w, "writes", c.writes);
    ron_json_u64(&w, "idle_timeouts", c.idle_timeouts);
    ron_json_open(&w, "rejected", '{');
    for (int r = 1; r < RON_OAP_REASON_COUNT; r++) {
        ron_json_u64(&w, ron_oap_reason_label((enum ron_oap_reason)r), c.rejected[r]);
    }
    ron_json_close(&w, '}');
    ron_json_close(&w, '}');
    ron_oap_answer(call, 200, ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

/* ---- answered by a task ---------------------------------------------------------------------- */

static void drop_job(void *item, void *arg)
{
    struct job *job = item;

    (void)arg;
    ron_oap_reply_refuse(job->reply, RON_OAP_DRAINING);
    ron_free(job);
}

static void hand_over(struct ron_oap_call *call, struct oap_check *k, bool never)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    struct job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL || ron_oap_defer(call, &job->reply) != RON_OK) {
        ron_free(job);
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    job->payload = q->payload;
    job->len = q->payload_len;
    job->never = never;
    if (ron_chan_try_send(k->queue, job, NULL) != RON_OK) {
        ron_oap_undefer(call, job->reply);
        ron_free(job);
        ron_oap_refuse(call, RON_OAP_BUSY);
    }
}

static void answer_job(struct job *job)
{
    /* A failure sticks in the body and is answered 500. */
    (void)ron_buf_append(ron_oap_reply_body(job->reply), job->payload, job->len);
    ron_oap_reply_send(job->reply, 200);
    ron_free(job);
}

/* Gives back the held replies that nobody waits for any more; all of them when `force`. */
static void look_at_held(struct ron_task *t, struct oap_check *k, bool force)
{
    size_t kept = 0;

    for (size_t i = 0; i < k->held_count; i++) {
        if (force || ron_oap_reply_cancelled(k->held[i]->reply)) {
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
    struct oap_check *k = arg;

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
    if (k->held_count > 0) {
        look_at_held(t, k, false);
    }
    return RON_OK;
}

static void answers_stop(struct ron_task *t, void *arg)
{
    look_at_held(t, arg, true);
}

static void on_request(struct ron_oap_call *call, void *arg)
{
    struct oap_check *k = arg;
    const struct ron_oap_request *q = ron_oap_request(call);

    switch (q->code) {
    case ECHO:
        ron_oap_answer(call, 200, q->payload, q->payload_len);
        break;
    case LATE:
    case NEVER:
        hand_over(call, k, q->code == NEVER);
        break;
    case BYTES:
        on_bytes(call, k);
        break;
    case FAIL:
        ron_oap_fail_with(call, &(struct ron_oap_error){.status = 409,
                                                        .code = "CONFLICT",
                                                        .message = "failing on purpose",
                                                        .reason = "conflict"});
        break;
    case PUBLISH:
        on_publish(call, k);
        break;
    case COUNTERS:
        on_counters(call, k);
        break;
    default:
        ron_oap_refuse(call, RON_OAP_NOT_FOUND);
        break;
    }
}

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc build(struct oap_check *k, struct ron_oap_opts *o, struct ron_err *err)
{
    struct ron_task *task = NULL;

    k->env = ron_env_linux();
    k->bytes = ron_alloc(BYTES_MAX);
    if (k->bytes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory");
    }
    memset(k->bytes, 'x', BYTES_MAX);
    RON_TRY(ron_registry_new(&k->registry, err));
    RON_TRY(ron_exec_new(
        &(struct ron_exec_opts){.env = k->env, .registry = k->registry, .workers = o->workers},
        &k->exec, err));
    RON_TRY(
        ron_sup_new(&(struct ron_sup_opts){.env = k->env, .registry = k->registry, .exec = k->exec},
                    &k->sup, err));
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = k->registry,
                                                 .env = k->env,
                                                 .name = "late",
                                                 .producers = "oap",
                                                 .consumers = "answers",
                                                 .drop_text = "answered 503 draining",
                                                 .capacity = 4096,
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
    o->name = "oap";
    o->env = k->env;
    o->registry = k->registry;
    RON_TRY(ron_oap_server_new(o, &k->server, err));
    return ron_oap_server_attach(k->server, k->sup, err);
}

static void take_down(struct oap_check *k)
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
    (void)ron_oap_server_free(k->server);
    if (k->registry != NULL) {
        ron_registry_free(k->registry);
    }
    ron_free(k->bytes);
}

static int serve(struct ron_oap_opts *o)
{
    static struct oap_check check; /* the apps below point to it */
    static const struct ron_oap_app apps[] = {
        {.app = APP, .handle = on_request, .arg = &check},
        {.app = APP_ALWAYS,
         .handle = on_request,
         .arg = &check,
         .flags = RON_OAP_ALWAYS | RON_OAP_INLINE},
    };
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code = CLI_FAILED;

    o->apps = apps;
    o->app_count = RON_ARRAY_LEN(apps);
    if (build(&check, o, &err) != RON_OK ||
        ron_signals_start(check.sup, NULL, NULL, &signals, &err) != RON_OK) {
        fprintf(stderr, "ron oap: %s\n", err.msg);
    } else {
        printf("listening on %s\n", ron_oap_server_addr(check.server));
        (void)fflush(stdout);
        code = ron_sup_run(check.sup);
        ron_signals_stop(signals);
    }
    take_down(&check);
    return code;
}

int cli_oap(int argc, char **argv)
{
    const char *addr = "127.0.0.1:7090";
    uint64_t n[10] = {RON_MIN(ron_cpu_count(), (uint32_t)WORKERS_MAX)};
    uint32_t allow_uid;
    bool done = false;
    int code;
    const struct cli_option options[] = {
        CLI_CHOICE("listen", "ADDR", "address and port, or unix:PATH", &addr, NULL),
        CLI_NUMBER("workers", "N", "executor workers", &n[0], 1, WORKERS_MAX),
        CLI_NUMBER("connections", "N", "connections at once (2048)", &n[1], 0, 1 << 20),
        CLI_NUMBER("inflight", "N", "deferred requests at once (4096)", &n[2], 0, 1 << 20),
        CLI_NUMBER("flow", "N", "of them on one connection (64)", &n[3], 0, RON_OAP_FLOW_MAX),
        CLI_NUMBER("frame-max", "BYTES", "bytes of a frame (1 MiB)", &n[4], 0, RON_OAP_FRAME_MAX),
        CLI_NUMBER("read-timeout", "MS", "between pieces of a frame (5000)", &n[5], 0, 3600000),
        CLI_NUMBER("idle-timeout", "MS", "nothing said (60000)", &n[6], 0, 3600000),
        CLI_NUMBER("request-timeout", "MS", "request to answer (10000)", &n[7], 0, 3600000),
        CLI_NUMBER("allow-uid", "UID", "only this user may connect to a Unix socket, 0 = any",
                   &n[8], 0, UINT32_MAX),
    };
    struct ron_oap_opts o;

    code = cli_parse("oap",
                     "Serves an app that exercises the OAP/1 front until a signal, then drains.\n"
                     "Exit: 0 drained, 2 a task had to be aborted, 3 a listener kept failing.",
                     options, RON_ARRAY_LEN(options), argc, argv, &done);
    if (code != CLI_OK || done) {
        return code;
    }
    allow_uid = (uint32_t)n[8];
    o = (struct ron_oap_opts){.addr = addr,
                              .workers = (uint32_t)n[0],
                              .connections_max = (uint32_t)n[1],
                              .inflight_max = (uint32_t)n[2],
                              .flow_max = (uint32_t)n[3],
                              .frame_max = (uint32_t)n[4],
                              .read_timeout_ms = (uint32_t)n[5],
                              .idle_timeout_ms = (uint32_t)n[6],
                              .request_timeout_ms = (uint32_t)n[7],
                              .allow_uids = &allow_uid,
                              .allow_uid_count = allow_uid != 0 ? 1 : 0};
    ron_signals_block();
    return serve(&o);
}
