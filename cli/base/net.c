/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/net.c - calls that are waited for; the contract is in net.h. */
#include "cli/base/net.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/base/str.h"
#include "ron/chan/oneshot.h"
#include "ron/io/linux_env.h"
#include "ron/sync/sync.h"

enum { CALL_MS = 10000, URL_SIZE = 2048, BEARER_SIZE = CLI_TOKEN_SIZE + 8 };

#define NET_MAGIC 0x434e4554u     /* "CNET" */
#define PENDING_MAGIC 0x43504e44u /* "CPND" */

struct cli_net {
    uint32_t magic;
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_http_client *client;
    struct ron_http_target *target;
    struct ron_thread *thread; /* the supervisor's */
};

/* A call under way. The slot is answered with the pending itself. */
struct cli_pending {
    uint32_t magic;
    struct ron_oneshot *slot;
    struct ron_http_fetch *fetch;
    struct cli_call call;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void supervise(void *arg)
{
    struct cli_net *n = RON_OBJ(arg, struct cli_net, NET_MAGIC);

    (void)ron_sup_run(n->sup);
}

static enum ron_rc add_target(struct cli_net *n, const struct cli_system *sys, struct ron_err *err)
{
    char hosts[CLI_SERVICES_MAX][CLI_URL_SIZE];
    const char *list[CLI_SERVICES_MAX];
    uint32_t flags = 0;

    for (size_t i = 0; i < sys->count; i++) {
        bool plain = false;

        RON_TRY(ron_http_url_host(sys->services[i].url, hosts[i], sizeof hosts[i], &plain, err));
        flags |= plain ? (uint32_t)RON_HTTP_TARGET_PLAIN : 0;
        list[i] = hosts[i];
    }
    /* The operator named these hosts: wherever they are. */
    return ron_http_client_add(n->client,
                               &(struct ron_http_target_opts){
                                   .name = "services",
                                   .hosts = list,
                                   .host_count = sys->count,
                                   .flags = flags | RON_HTTP_TARGET_LOOPBACK |
                                            RON_HTTP_TARGET_PRIVATE | RON_HTTP_TARGET_LINK_LOCAL,
                                   .inflight_max = CLI_CALLS_MAX,
                                   .try_timeout_ms = 600000,
                                   .total_timeout_ms = 600000,
                                   .response_max = PTRDIFF_MAX / 4}, /* each call has its own */
                               &n->target, err);
}

static enum ron_rc net_open(struct cli_net *n, const struct cli_system *sys, struct ron_err *err)
{
    n->magic = NET_MAGIC;
    n->env = ron_env_linux();
    RON_TRY(ron_registry_new(&n->registry, err));
    RON_TRY(
        ron_exec_new(&(struct ron_exec_opts){.env = n->env, .registry = n->registry, .workers = 1},
                     &n->exec, err));
    RON_TRY(
        ron_sup_new(&(struct ron_sup_opts){.env = n->env, .registry = n->registry, .exec = n->exec},
                    &n->sup, err));
    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "client",
                                                               .env = n->env,
                                                               .registry = n->registry,
                                                               .worker = 0,
                                                               .inflight_max = CLI_CALLS_MAX,
                                                               .host_connections_max = 128},
                                &n->client, err));
    RON_TRY(add_target(n, sys, err));
    RON_TRY(ron_http_client_attach(n->client, n->sup, err));
    return ron_thread_start(
        &(struct ron_thread_opts){
            .name = "supervisor", .may_block = true, .main = supervise, .arg = n},
        &n->thread, err);
}

static void net_close(struct cli_net *n)
{
    if (n->thread != NULL) {
        ron_sup_request_stop(n->sup);
        ron_thread_join(n->thread);
    }
    if (n->sup != NULL) {
        ron_sup_free(n->sup);
    }
    if (n->exec != NULL) {
        (void)ron_exec_free(n->exec);
    }
    if (n->client != NULL) {
        (void)ron_http_client_free(n->client);
    }
    if (n->registry != NULL) {
        ron_registry_free(n->registry);
    }
    n->magic = 0;
    ron_free(n);
}

int cli_client_open(struct cli_client *c, const char *verb)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct ron_err err = {0};
    int code = cli_system_find(verb, c->data, &c->sys);

    c->verb = verb;
    if (code == CLI_OK) {
        code = cli_token_read(verb, &c->sys, c->token_file, c->token);
    }
    if (code != CLI_OK) {
        return code;
    }
    (void)sigaction(SIGPIPE, &ignore, NULL);
    c->net = ron_alloc_zero(sizeof *c->net);
    if (c->net == NULL || net_open(c->net, &c->sys, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, c->net == NULL ? "out of memory" : err.msg);
        return CLI_FAILED;
    }
    return CLI_OK;
}

void cli_client_done(struct cli_client *c)
{
    if (c->net != NULL) {
        net_close(c->net);
        c->net = NULL;
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void fetch_done(struct ron_http_fetch *f, void *arg)
{
    struct cli_pending *p = RON_OBJ(arg, struct cli_pending, PENDING_MAGIC);

    (void)f;
    /* The asker waits without an end, as the fetch has one: it is there. */
    RON_IGNORE(ron_oneshot_answer(p->slot, p));
}

static enum ron_rc fetch_sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct cli_pending *p = RON_OBJ(arg, struct cli_pending, PENDING_MAGIC);

    return p->call.sink(f, p->call.sink_arg, bytes, len);
}

static void drop_nothing(void *value)
{
    (void)value;
}

struct cli_pending *cli_call_start(struct cli_client *c, const struct cli_call *call)
{
    const char *root = cli_service_url(&c->sys, call->service);
    char bearer[BEARER_SIZE];
    char url[URL_SIZE];
    struct ron_http_fetch_header headers[4 + CLI_HEADERS_MAX];
    size_t count = 0;
    struct ron_err err = {0};
    struct cli_pending *p;

    if (root == NULL) {
        return NULL;
    }
    p = ron_alloc_zero(sizeof *p);
    if (p == NULL || ron_oneshot_new(drop_nothing, &p->slot) != RON_OK) {
        ron_free(p);
        return NULL;
    }
    p->magic = PENDING_MAGIC;
    p->call = *call;
    (void)snprintf(url, sizeof url, "%s%s", root, call->path);
    if (!call->no_token) {
        int n = snprintf(bearer, sizeof bearer, "Bearer %s", c->token);

        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)n}};
    }
    if (call->body.len > 0) {
        const char *type = call->content_type != NULL ? call->content_type : "application/json";

        headers[count++] = (struct ron_http_fetch_header){"Content-Type", {type, strlen(type)}};
    }
    if (call->idem != NULL) {
        headers[count++] =
            (struct ron_http_fetch_header){"Idempotency-Key", {call->idem, strlen(call->idem)}};
    }
    for (size_t i = 0; i < RON_MIN(call->more_count, (size_t)CLI_HEADERS_MAX); i++) {
        headers[count++] = call->more[i];
    }
    if (ron_http_fetch_start(
            c->net->target,
            &(struct ron_http_fetch_opts){
                .method = call->method,
                .url = url,
                .headers = headers,
                .header_count = count,
                .body = call->body,
                .sink = call->sink != NULL ? fetch_sink : NULL,
                /* What a sink takes is not kept here: a journal has any length. */
                .response_max = call->sink != NULL ? 0 : CLI_ANSWER_MAX,
                .deadline = ron_deadline_after_ms(
                    ron_env_now_ns(c->net->env), call->timeout_ms > 0 ? call->timeout_ms : CALL_MS),
                .done = fetch_done,
                .arg = p},
            &p->fetch, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", c->verb, err.msg);
        ron_oneshot_drop(p->slot);
        ron_oneshot_leave(p->slot);
        ron_free(p);
        return NULL;
    }
    return p;
}

static int exit_of(const struct cli_answer *a)
{
    if (a->status == 0) {
        return CLI_UNREACHABLE;
    }
    if (a->status < 400) {
        return CLI_OK;
    }
    if (a->status == 401 || a->status == 403) {
        return CLI_DENIED;
    }
    return a->status == 429 || a->status == 503 || a->status == 504 ? CLI_RETRY : CLI_FAILED;
}

int cli_call_wait(struct cli_client *c, struct cli_pending *take_pending,
                  struct cli_answer *ret_answer)
{
    struct cli_pending *p = RON_OBJ(take_pending, struct cli_pending, PENDING_MAGIC);
    const struct ron_http_fetch_result *r;
    void *value = NULL;

    (void)c;
    *ret_answer = (struct cli_answer){0};
    RON_IGNORE(ron_oneshot_wait(p->slot, ron_deadline_never(), &value)); /* it ends: client.h, H1 */
    ron_oneshot_leave(p->slot);
    r = ron_http_fetch_result(p->fetch);
    ret_answer->status = r->status;
    ret_answer->rc = r->rc;
    ret_answer->took_ms = r->took_ms;
    (void)snprintf(ret_answer->message, sizeof ret_answer->message, "%s", r->message);
    ron_buf_init(&ret_answer->body, CLI_ANSWER_MAX);
    ron_buf_append(&ret_answer->body, r->body.ptr, r->body.len);
    if (r->rc != RON_OK && r->status > 0 && r->status < 400) {
        ret_answer->status = 0; /* the answer broke off */
    }
    ron_http_fetch_release(p->fetch);
    p->magic = 0;
    ron_free(p);
    return exit_of(ret_answer);
}

int cli_call_quiet(struct cli_client *c, const struct cli_call *call, struct cli_answer *ret_answer)
{
    struct cli_pending *p = cli_call_start(c, call);

    *ret_answer = (struct cli_answer){0};
    if (p == NULL) {
        (void)snprintf(ret_answer->message, sizeof ret_answer->message, "%s is not running",
                       call->service);
        return CLI_UNREACHABLE;
    }
    return cli_call_wait(c, p, ret_answer);
}

int cli_call(struct cli_client *c, const struct cli_call *call, struct cli_answer *ret_answer)
{
    int code = cli_call_quiet(c, call, ret_answer);

    return code == CLI_OK ? code : cli_tell_refusal(c, call, ret_answer);
}

void cli_answer_done(struct cli_answer *a)
{
    ron_buf_done(&a->body);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

/* Whether a reason says more than its code, which many repeat in lower case. */
static bool tells_more(struct ron_str code, struct ron_str reason)
{
    return reason.len > 0 && !ron_str_equal_nocase(code, reason);
}

int cli_tell_refusal(const struct cli_client *c, const struct cli_call *call, struct cli_answer *a)
{
    struct envelope {
        struct ron_str code;
        struct ron_str message;
        struct ron_str reason;
        struct ron_str corr_id;
        bool retryable;
        uint64_t present;
    } e = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct envelope, code, STRING, .required = true),
        RON_JSON_FIELD(struct envelope, message, STRING, .required = true),
        RON_JSON_FIELD(struct envelope, reason, STRING, .required = false, .nullable = true),
        RON_JSON_FIELD(struct envelope, corr_id, STRING, .required = false, .nullable = true),
        RON_JSON_FIELD(struct envelope, retryable, BOOL, .required = false),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct envelope, fields, present);
    struct ron_json_error bad;
    struct ron_buf copy;
    int code = exit_of(a);

    shape.allow_unknown = true;
    if (c->json && a->status != 0 && ron_buf_len(&a->body) > 0) {
        fprintf(stderr, "%s\n", ron_buf_text(&a->body)); /* the envelope, for scripts */
        return code;
    }
    if (a->status == 0) {
        fprintf(stderr, "ron %s: %s does not answer: %s; check with `ron status`\n", c->verb,
                call->service, a->message[0] != '\0' ? a->message : ron_rc_doc(a->rc));
        return code;
    }
    ron_buf_init(&copy, CLI_ANSWER_MAX);
    ron_buf_append(&copy, ron_buf_data(&a->body), ron_buf_len(&a->body));
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&copy), ron_buf_len(&copy), &shape, NULL, &e,
                      &bad) == RON_OK) {
        bool again = e.retryable && call->idem != NULL;

        fprintf(stderr, "ron %s: %.*s (%.*s%s%.*s)%s\n", c->verb, (int)e.message.len, e.message.ptr,
                (int)e.code.len, e.code.ptr, tells_more(e.code, e.reason) ? ", " : "",
                tells_more(e.code, e.reason) ? (int)e.reason.len : 0, e.reason.ptr,
                again ? "; retry with the same key" : "");
    } else {
        fprintf(stderr, "ron %s: unexpected response from %s: status %d\n", c->verb, call->service,
                a->status);
    }
    ron_buf_done(&copy);
    return code;
}

int cli_print_body(const struct cli_client *c, struct cli_answer *a)
{
    size_t len = ron_buf_len(&a->body);
    bool line = len > 0 && ron_buf_data(&a->body)[len - 1] == '\n';

    if (fwrite(ron_buf_data(&a->body), 1, len, stdout) != len || (!line && putchar('\n') == EOF) ||
        fflush(stdout) != 0) {
        fprintf(stderr, "ron %s: cannot write to standard output\n", c->verb);
        return CLI_FAILED;
    }
    return CLI_OK;
}

bool cli_url_escape(const char *text, char *out, size_t size)
{
    size_t len = 0;

    for (const char *c = text; *c != '\0'; c++) {
        bool plain = isalnum((unsigned char)*c) || strchr("-._~", *c) != NULL;

        if (len + 4 > size) {
            return false;
        }
        if (plain) {
            out[len++] = *c;
        } else {
            (void)snprintf(out + len, 4, "%%%02X", (unsigned)(unsigned char)*c);
            len += 3;
        }
    }
    out[len] = '\0';
    return size > 0;
}
