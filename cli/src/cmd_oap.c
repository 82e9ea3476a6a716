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
#include "ron/task/signals.h"
#include "ron/wire/server.h"
#include "stand.h"

enum { APP = 100, APP_ALWAYS = 101 };

enum code { ECHO = 1, LATE, NEVER, BYTES, FAIL, PUBLISH, COUNTERS };

struct job {
    struct stand_job head;
    struct ron_oap_reply *reply;
    const void *payload; /* lives until the reply is sent */
    size_t len;
};

struct oap_check {
    struct stand stand;
    struct ron_oap_server *server;
};

/* ---- answered at once ------------------------------------------------------------------------ */

static void on_bytes(struct ron_oap_call *call, struct oap_check *k)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    char text[24] = "";
    uint64_t n;

    memcpy(text, q->payload, RON_MIN(q->payload_len, sizeof text - 1));
    n = strtoull(text, NULL, 10);
    if (n > STAND_BYTES) {
        ron_oap_fail_with(call, &(struct ron_oap_error){.status = 400,
                                                        .code = "MALFORMED",
                                                        .message = "too many bytes",
                                                        .reason = "malformed"});
        return;
    }
    ron_oap_answer(call, 200, k->stand.bytes, (size_t)n);
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

static void drop_job(struct stand_job *take_job)
{
    struct job *job = RON_CONTAINER_OF(take_job, struct job, head);

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
    job->head.never = never;
    if (ron_chan_try_send(k->stand.queue, &job->head, NULL) != RON_OK) {
        ron_oap_undefer(call, job->reply);
        ron_free(job);
        ron_oap_refuse(call, RON_OAP_BUSY);
    }
}

static void answer_job(struct stand_job *take_job)
{
    struct job *job = RON_CONTAINER_OF(take_job, struct job, head);

    /* A failure sticks in the body and is answered 500. */
    (void)ron_buf_append(ron_oap_reply_body(job->reply), job->payload, job->len);
    ron_oap_reply_send(job->reply, 200);
    ron_free(job);
}

static bool job_cancelled(struct stand_job *job)
{
    return ron_oap_reply_cancelled(RON_CONTAINER_OF(job, struct job, head)->reply);
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
    struct stand *s = &k->stand;

    RON_TRY(stand_begin(s, err));
    RON_TRY(stand_build(s,
                        &(struct stand_opts){.verb = "oap",
                                             .workers = o->workers,
                                             .queue_capacity = 4096,
                                             .answer = answer_job,
                                             .drop = drop_job,
                                             .cancelled = job_cancelled},
                        err));
    o->name = "oap";
    o->env = s->env;
    o->registry = s->registry;
    RON_TRY(ron_oap_server_new(o, &k->server, err));
    return ron_oap_server_attach(k->server, s->sup, err);
}

static void take_down(struct oap_check *k)
{
    stand_end(&k->stand);
    (void)ron_oap_server_free(k->server);
    stand_done(&k->stand);
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
    struct ron_err err = {0};
    int code = CLI_FAILED;

    o->apps = apps;
    o->app_count = RON_ARRAY_LEN(apps);
    if (build(&check, o, &err) != RON_OK) {
        fprintf(stderr, "ron oap: %s\n", err.msg);
    } else {
        code = stand_run(&check.stand, ron_oap_server_addr(check.server), NULL, NULL);
    }
    take_down(&check);
    return code;
}

int cli_oap(int argc, char **argv)
{
    const char *addr = "127.0.0.1:7090";
    uint64_t n[10] = {RON_MIN(ron_cpu_count(), (uint32_t)STAND_WORKERS_MAX)};
    uint32_t allow_uid;
    bool done = false;
    int code;
    const struct cli_option options[] = {
        CLI_CHOICE("listen", "ADDR", "address and port, or unix:PATH", &addr, NULL),
        CLI_NUMBER("workers", "N", "executor workers", &n[0], 1, STAND_WORKERS_MAX),
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
                     "Exit: 0 drained, 2 a task had to be aborted, 3 a listener kept failing.\n\n"
                     "example:\n  ron oap --listen 127.0.0.1:9444",
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
