/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/watch.c - the task `watch` of `ron up`: asks every service whether it is ready.
 *
 * Until all are, every 10 ms, because nothing else is waited for; then once a second. The first
 * time that all are ready it prints the table. It also asks the ledger who it is before anything
 * that takes writes starts (U2), and the console for a link. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/up/up.h"
#include "ron/base/assert.h"
#include "ron/base/build.h"
#include "ron/base/macros.h"

enum {
    SOON_MS = 10,
    CALM_MS = 1000,
    ANSWER_MAX = 64 << 10,
    SECOND_LOOK_MS = 30000, /* without all being ready: say who is not */
};

#define ORIGIN "ron-ledger/"

/* ---- run file -------------------------------------------------------------------------------- */

void up_watch_changed(struct up *up)
{
    struct ron_json_writer w;
    struct ron_buf text;

    ron_buf_init(&text, UP_RUN_FILE_MAX);
    ron_json_begin(&w, &text);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "version", 1);
    ron_json_u64(&w, "pid", (uint64_t)up->pid);
    ron_json_u64(&w, "started_ms", up->begin_ms);
    ron_json_text(&w, "build", ron_build_id());
    ron_json_text(&w, "ledger_uuid", up->uuid);
    ron_json_open(&w, "services", '[');
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        const struct up_service *s = &up->services[i];

        if (s->on) {
            ron_json_open(&w, NULL, '{');
            ron_json_text(&w, "name", s->row->name);
            ron_json_text(&w, "url", s->url);
            ron_json_u64(&w, "pid", (uint64_t)s->child.pid);
            ron_json_u64(&w, "starts", s->starts);
            ron_json_close(&w, '}');
        }
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    ron_buf_append_byte(&text, '\n');
    if (ron_buf_error(&text) == RON_OK) {
        up_log_file(up, "run.json", ron_buf_data(&text), ron_buf_len(&text));
    }
    ron_buf_done(&text);
}

void up_fail(struct up *up)
{
    up->failed = true;
    ron_sup_request_stop(up->sup);
}

static bool announced(const struct up *up)
{
    return ron_au32_load(&up->announced) != 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum ron_rc ask(struct up *up, const struct ron_http_fetch_opts *base, const char *root,
                       const char *path, struct ron_http_fetch **ret_fetch)
{
    struct ron_http_fetch_opts opts = *base;
    struct ron_err err = {0};
    char url[128];

    (void)snprintf(url, sizeof url, "%s%s", root, path);
    opts.url = url;
    opts.response_max = ANSWER_MAX;
    return ron_http_fetch_start(up->target, &opts, ret_fetch, &err);
}

/* The causes of an answer of /readyz, verbatim: {"a":"b"} is readable enough. */
static void take_cause(struct up_service *s, struct ron_str body)
{
    struct answer {
        struct ron_json_items missing;
        struct ron_str causes;
        uint64_t present;
    } a = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct answer, causes, RAW, .required = false),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct answer, fields, present);
    char text[1024];
    struct ron_json_error bad;
    size_t len = RON_MIN(body.len, sizeof text);

    memcpy(text, body.ptr, len);
    shape.allow_unknown = true;
    if (ron_json_scan(text, len, &shape, NULL, &a, &bad) == RON_OK && a.causes.len > 2) {
        (void)snprintf(s->cause, sizeof s->cause, "%.*s", (int)a.causes.len - 2, a.causes.ptr + 1);
    } else {
        (void)snprintf(s->cause, sizeof s->cause, "starting");
    }
}

static void answered(struct ron_http_fetch *f, void *arg)
{
    struct up_service *s = RON_OBJ(arg, struct up_service, UP_SERVICE_MAGIC);
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    bool was = s->state == UP_STATE_READY;

    s->asking = NULL;
    if (s->child.pid == 0 || s->state == UP_STATE_WAITING || s->told_to_stop) {
        ron_http_fetch_release(f);
        return;
    }
    if (r->status == 200) {
        if (!was && announced(s->up)) {
            up_say(s->up, UP_INFO, "%s is ready", s->row->name);
        }
        s->state = UP_STATE_READY;
        s->was_ready = true;
        s->cause[0] = '\0';
        up_tail_drop(s);
    } else if (was || r->status != 0) {
        if (r->status != 0) {
            take_cause(s, r->body);
        } else {
            (void)snprintf(s->cause, sizeof s->cause, "%s", r->message);
        }
        if (was) {
            up_say(s->up, UP_WARN, "%s is not ready: %s", s->row->name, s->cause);
        }
        s->state = UP_STATE_NOT_READY;
    }
    ron_http_fetch_release(f);
    ron_task_wake(s->up->watch);
}

static void ask_ready(struct up *up)
{
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        struct up_service *s = &up->services[i];

        if (s->on && s->child.pid > 0 && s->asking == NULL && !s->told_to_stop &&
            ask(up,
                &(struct ron_http_fetch_opts){.method = RON_HTTP_GET, .done = answered, .arg = s},
                s->url, "/readyz", &s->asking) != RON_OK) {
            s->asking = NULL; /* asked again at the next look */
        }
    }
}

/* ---- which ledger ---------------------------------------------------------------------------- */

static void keep_identity(struct up *up)
{
    struct ron_json_writer w;
    struct ron_buf text;

    ron_buf_init(&text, UP_RUN_FILE_MAX);
    ron_json_begin(&w, &text);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "version", 1);
    ron_json_text(&w, "ledger_uuid", up->uuid);
    ron_json_close(&w, '}');
    ron_buf_append_byte(&text, '\n');
    if (ron_buf_error(&text) == RON_OK) {
        up_log_file(up, "ron.json", ron_buf_data(&text), ron_buf_len(&text));
    }
    ron_buf_done(&text);
    up_watch_changed(up);
}

static void wrong_ledger(struct up *up, const char *found)
{
    fprintf(stderr,
            "ron up: the journal in %s/ledger belongs to ledger %s, but this directory belongs to "
            "ledger "
            "%s; nothing was written\n  restore the right journal, or, for a restored backup of "
            "another "
            "ledger, start with --adopt-ledger\n",
            up->data, found, up->uuid);
    up_fail(up);
}

static void checkpoint_came(struct ron_http_fetch *f, void *arg)
{
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    char uuid[sizeof up->uuid] = "";

    up->progress.checkpoint = NULL;
    if (r->status == 200) {
        const char *end = memchr(r->body.ptr, '\n', r->body.len);
        size_t skip =
            r->body.len > strlen(ORIGIN) && memcmp(r->body.ptr, ORIGIN, strlen(ORIGIN)) == 0
                ? strlen(ORIGIN)
                : 0; /* another signing.origin: then the name is what is compared */

        (void)snprintf(uuid, sizeof uuid, "%.*s",
                       end == NULL ? 0 : (int)(end - r->body.ptr - (ptrdiff_t)skip),
                       r->body.ptr + skip);
    }
    ron_http_fetch_release(f);
    if (uuid[0] == '\0' || up->failed) {
        return; /* asked again at the next look */
    }
    if (up->uuid[0] != '\0' && strcmp(up->uuid, uuid) != 0 && !up->opts.adopt) {
        wrong_ledger(up, uuid);
        return;
    }
    up->progress.ledger_known = true;
    if (strcmp(up->uuid, uuid) != 0) {
        (void)snprintf(up->uuid, sizeof up->uuid, "%s", uuid);
        keep_identity(up);
    }
    up_log_verifier(up);
    up_child_go(up);
}

static void ask_identity(struct up *up)
{
    if (up->progress.ledger_known || up->progress.checkpoint != NULL ||
        up->services[UP_LEDGER].state != UP_STATE_READY) {
        return;
    }
    if (ask(up,
            &(struct ron_http_fetch_opts){
                .method = RON_HTTP_GET, .done = checkpoint_came, .arg = up},
            up->services[UP_LEDGER].url, "/checkpoint", &up->progress.checkpoint) != RON_OK) {
        up->progress.checkpoint = NULL;
    }
}

/* ---- a link to the console ------------------------------------------------------------------- */

static void link_came(struct ron_http_fetch *f, void *arg)
{
    struct answer {
        struct ron_str url;
        uint64_t present;
    } a = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct answer, url, STRING, .required = true, .max = 250),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct answer, fields, present);
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    struct ron_json_error bad;
    char text[1024];

    shape.allow_unknown = true;
    up->progress.link = NULL;
    up->progress.linked = true;
    if (r->rc == RON_OK && r->body.len <= sizeof text) {
        memcpy(text, r->body.ptr, r->body.len);
        if (ron_json_scan(text, r->body.len, &shape, NULL, &a, &bad) == RON_OK) {
            (void)snprintf(up->progress.console_link, sizeof up->progress.console_link, "%.*s",
                           (int)a.url.len, a.url.ptr);
        }
    }
    ron_http_fetch_release(f);
    ron_task_wake(up->watch);
}

static void ask_link(struct up *up)
{
    char bearer[sizeof up->token + 8];
    int n = snprintf(bearer, sizeof bearer, "Bearer %s", up->token);
    const struct ron_http_fetch_header headers[] = {
        {"Authorization", {bearer, (size_t)n}},
        {"Content-Type", {"application/json", strlen("application/json")}},
    };

    if (!up->services[UP_CONSOLE].on) {
        up->progress.linked = true;
        return;
    }
    if (up->progress.link == NULL &&
        ask(up,
            &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                          .headers = headers,
                                          .header_count = RON_ARRAY_LEN(headers),
                                          .body = {"{\"role\":\"operate\"}", 18},
                                          .done = link_came,
                                          .arg = up},
            up->services[UP_CONSOLE].url, "/api/links", &up->progress.link) != RON_OK) {
        up->progress.link = NULL;
        up->progress.linked = true; /* the table goes without */
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void table_json(struct up *up, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "data", up->data);
    ron_json_u64(&w, "pid", (uint64_t)up->pid);
    ron_json_u64(&w, "ready_ms", (ron_env_now_ns(up->env) - up->begin_ns) / RON_NS_PER_MS);
    ron_json_text(&w, "console",
                  up->progress.console_link[0] != '\0' ? up->progress.console_link : NULL);
    ron_json_open(&w, "services", '[');
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        const struct up_service *s = &up->services[i];

        if (s->on) {
            ron_json_open(&w, NULL, '{');
            ron_json_text(&w, "name", s->row->name);
            ron_json_text(&w, "url", s->url);
            ron_json_text(&w, "state", up_state_name(s->state));
            ron_json_close(&w, '}');
        }
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    ron_buf_append_byte(out, '\n');
}

static void table_text(struct up *up, struct ron_buf *out)
{
    const char *green = up->colour ? "\033[32m" : "";
    const char *plain = up->colour ? "\033[0m" : "";
    uint64_t took_ms = (ron_env_now_ns(up->env) - up->begin_ns) / RON_NS_PER_MS;

    ron_buf_append_fmt(out, "\n  %-10s %-24s %s\n", "service", "url", "state");
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        const struct up_service *s = &up->services[i];

        if (s->on) {
            ron_buf_append_fmt(out, "  %-10s %-24s %s%s%s\n", s->row->name, s->url, green,
                               up_state_name(s->state), plain);
        }
    }
    ron_buf_append_fmt(out, "\n  ready after %" PRIu64 " ms, data in %s\n", took_ms, up->data);
    if (up->progress.console_link[0] != '\0') {
        ron_buf_append_fmt(out,
                           "  console: %s  (valid once; `ron console link` "
                           "creates another)\n",
                           up->progress.console_link);
    }
    if (up->services[UP_WALLET].on) {
        ron_buf_append_text(out, "\n  try, in another terminal:\n"
                                 "    ron issue alice 500\n"
                                 "    ron transfer alice bob 40\n"
                                 "    ron demo\n");
    }
    ron_buf_append_text(out, "\n  Ctrl-C stops everything.\n\n");
}

static void announce(struct up *up)
{
    struct ron_buf out;

    ron_au32_store(&up->announced, 1);
    ron_buf_init(&out, UP_RUN_FILE_MAX);
    if (up->opts.json) {
        table_json(up, &out);
    } else {
        table_text(up, &out);
    }
    up_print(up, &out);
}

/* ---- the task -------------------------------------------------------------------------------- */

static bool all_ready(const struct up *up)
{
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        if (up->services[i].on && up->services[i].state != UP_STATE_READY) {
            return false;
        }
    }
    return true;
}

static void tell_late(struct up *up)
{
    if (up->progress.told_late || announced(up) ||
        ron_env_now_ns(up->env) - up->begin_ns < (uint64_t)SECOND_LOOK_MS * RON_NS_PER_MS) {
        return;
    }
    up->progress.told_late = true;
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        const struct up_service *s = &up->services[i];

        if (s->on && s->state != UP_STATE_READY) {
            up_say(up, UP_WARN, "%s is still %s%s%s", s->row->name, up_state_name(s->state),
                   s->cause[0] != '\0' ? ": " : "", s->cause);
        }
    }
}

static enum ron_rc watch_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);
    uint64_t now_ms = ron_task_now_ms(t);

    (void)items;
    (void)count;
    if (ron_task_stopping(t)) {
        return RON_OK;
    }
    if (!announced(up) && all_ready(up)) {
        if (!up->progress.linked) {
            ask_link(up);
        }
        if (up->progress.linked) {
            announce(up);
        }
    }
    ask_identity(up);
    if (!up->progress.verifier_told && ron_au32_load(&up->verifier_known) != 0) {
        up->progress.verifier_told = true;
        if (up->vkey[0] != '\0') {
            up_table_verifier(up, up->vkey);
        }
        up_child_go(up);
    }
    if (now_ms >= up->progress.look_at_ms) {
        ask_ready(up);
        tell_late(up);
        up->progress.look_at_ms = now_ms + (announced(up) ? CALM_MS : SOON_MS);
    }
    ron_task_wake_at(t, up->progress.look_at_ms);
    return RON_OK;
}

static enum ron_rc watch_start(struct ron_task *t, void *arg)
{
    struct up *up = RON_OBJ(arg, struct up, UP_MAGIC);

    up->watch = t;
    ron_task_wake(t);
    return RON_OK;
}

enum ron_rc up_watch_add(struct up *up, struct ron_err *err)
{
    static const char *const hosts[] = {"127.0.0.1"};

    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "client",
                                                               .env = up->env,
                                                               .registry = up->registry,
                                                               .worker = 0,
                                                               .stage = UP_STAGE_CLIENT},
                                &up->client, err));
    RON_TRY(ron_http_client_add(
        up->client,
        &(struct ron_http_target_opts){.name = "services",
                                       .hosts = hosts,
                                       .host_count = RON_ARRAY_LEN(hosts),
                                       .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PLAIN,
                                       .try_timeout_ms = 2000,
                                       .total_timeout_ms = 2000},
        &up->target, err));
    RON_TRY(ron_http_client_attach(up->client, up->sup, err));
    return ron_sup_add(up->sup,
                       &(struct ron_task_def){.name = "watch",
                                              .kind = "watch",
                                              .mode = RON_TASK_LOOP,
                                              .worker = 0,
                                              .stage = UP_STAGE_WATCH,
                                              .start = watch_start,
                                              .handle = watch_handle,
                                              .arg = up},
                       &up->watch, err);
}
