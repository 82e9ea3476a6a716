/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/client.c - options, targets, registration and counters of the HTTP client.
 *
 * A client is made and given its targets on one thread, then attached; from then on its lists do
 * not change. */
#include <stdio.h>
#include <string.h>

#include "http/client/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

static const struct ron_retry_curve one_try = {.tries_max = 1, .factor = 1};

/* ---- targets --------------------------------------------------------------------------------- */

static void set_target_defaults(struct ron_http_target_opts *o)
{
    static const char *const call[] = {"call"};

#define OR(field, value) (o->field = o->field != 0 ? o->field : (value))
    OR(inflight_max, 64);
    OR(connect_timeout_ms, 1000);
    OR(try_timeout_ms, 5000);
    OR(total_timeout_ms, 10000);
    OR(response_max, 1 << 20);
    OR(header_max, 32 * 1024);
#undef OR
    if (o->op_count == 0) {
        o->ops = call;
        o->op_count = 1;
    }
    if (o->retry_ops == NULL) {
        o->retry_ops = o->ops;
    }
}

static enum ron_rc check_target(const struct ron_http_target_opts *o, struct ron_err *err)
{
    if (o->name == NULL || o->host_count == 0 || o->host_count > RON_HTTP_HOSTS_MAX ||
        o->op_count > RON_HTTP_OPS_MAX || o->redirects_max > RON_HTTP_REDIRECTS_MAX ||
        o->response_max > PTRDIFF_MAX / 4) {
        return ron_err_set(err, RON_INVALID, "target %s: name, hosts, ops or limits are wrong",
                           o->name != NULL ? o->name : "?");
    }
    if (o->retry != NULL && !ron_retry_curve_valid(o->retry)) {
        return ron_err_set(err, RON_INVALID, "target %s: the retry curve is not valid", o->name);
    }
    if (o->breaker != NULL && !ron_breaker_rules_valid(o->breaker)) {
        return ron_err_set(err, RON_INVALID, "target %s: the breaker's rules are not valid",
                           o->name);
    }
    if ((o->cert_file == NULL) != (o->key_file == NULL)) {
        return ron_err_set(err, RON_INVALID, "target %s: cert_file and key_file go together",
                           o->name);
    }
    return RON_OK;
}

static void target_free(struct ron_http_target *t)
{
    if (t->registered) {
        ron_registry_remove(t->client->opts.registry, &t->entry);
    }
    if (t->has_breaker) {
        ron_breaker_done(&t->breaker);
    }
    ron_gate_done(&t->gate);
    ron_free(t->hosts);
    ron_free(t->unix_path);
    ron_buf_done(&t->ca);
    ron_buf_done(&t->cert);
    ron_buf_done(&t->key);
    t->magic = 0;
    ron_free(t);
}

static enum ron_rc read_pem(const struct ron_http_target *t, const char *path, struct ron_buf *to,
                            struct ron_err *err)
{
    ron_buf_init(to, CLIENT_TLS_FILE_MAX);
    if (path == NULL) {
        return RON_OK;
    }
    RON_TRY(ron_file_read_all(t->client->opts.env, path, to, err));
    if (ron_buf_len(to) == 0) {
        return ron_err_set(err, RON_INVALID, "target %s: '%s' is empty", t->opts.name, path);
    }
    return RON_OK;
}

static enum ron_rc copy_hosts(struct ron_http_target *t, const char *const *hosts,
                              struct ron_err *err)
{
    t->hosts = ron_alloc_array(t->opts.host_count, sizeof *t->hosts);
    if (t->hosts == NULL) {
        return ron_err_set(err, RON_NOMEM, "target %s: no memory", t->opts.name);
    }
    for (size_t i = 0; i < t->opts.host_count; i++) {
        if (ron__http_host_parse(hosts[i], &t->hosts[i]) != RON_OK) {
            return ron_err_set(err, RON_INVALID, "target %s: '%s' is no host, address or *.name",
                               t->opts.name, hosts[i]);
        }
    }
    return RON_OK;
}

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    const struct ron_http_target *t = RON_CONTAINER_OF(e, struct ron_http_target, entry);
    struct ron_http_target_counters c;

    ron_http_target_counters(t, &c);
    row->state = t->has_breaker ? ron_breaker_state_label(c.breaker.state) : "closed";
    row->depth = c.inflight;
    ron_reg_row_sample(row, "queue_depth", "queue", true, c.inflight);
    ron_reg_row_sample(row, "busy_rejections_total", "queue", false, c.busy);
}

static enum ron_rc target_build(struct ron_http_target *t, const struct ron_http_target_opts *o,
                                struct ron_err *err)
{
    struct ron_http_client *c = t->client;

    RON_TRY(copy_hosts(t, o->hosts, err));
    RON_TRY(read_pem(t, o->ca_file, &t->ca, err));
    RON_TRY(read_pem(t, o->cert_file, &t->cert, err));
    RON_TRY(read_pem(t, o->key_file, &t->key, err));
    if (o->unix_path != NULL) {
        t->unix_path = ron_strdup(o->unix_path);
        if (t->unix_path == NULL) {
            return ron_err_set(err, RON_NOMEM, "target %s: no memory", o->name);
        }
    }
    (void)snprintf(t->entry_name, sizeof t->entry_name, "%s.%s", c->opts.name, o->name);
    RON_TRY(ron_registry_add(c->opts.registry, &t->entry, RON_REG_QUEUE,
                             &(struct ron_reg_desc){.name = t->entry_name,
                                                    .policy = "reject: full",
                                                    .producers = "callers of the target",
                                                    .consumers = c->opts.name,
                                                    .drop = "not taken; busy_rejections_total",
                                                    .capacity = t->opts.inflight_max},
                             fill_row, err));
    t->registered = true;
    return RON_OK;
}

enum ron_rc ron_http_client_add(struct ron_http_client *c, const struct ron_http_target_opts *opts,
                                struct ron_http_target **ret_target, struct ron_err *err)
{
    struct ron_http_target_opts o = *opts;
    struct ron_http_target *t;
    enum ron_rc rc;

    RON_CHECK_MAGIC(c, CLIENT_MAGIC);
    set_target_defaults(&o);
    RON_TRY(check_target(&o, err));
    if (c->target_count == RON_HTTP_TARGETS_MAX) {
        return ron_err_set(err, RON_LIMIT, "client %s: more than %d targets", c->opts.name,
                           RON_HTTP_TARGETS_MAX);
    }
    t = ron_alloc_zero(sizeof *t);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "target %s: no memory", o.name);
    }
    t->magic = TARGET_MAGIC;
    t->client = c;
    t->opts = o;
    t->retry = o.retry != NULL ? *o.retry : one_try;
    ron_gate_init(&t->gate, o.inflight_max);
    if (o.breaker != NULL) {
        ron_breaker_init(&t->breaker, o.breaker, &c->opts.env->clock);
        t->has_breaker = true;
    }
    rc = target_build(t, &o, err);
    if (rc != RON_OK) {
        target_free(t);
        return rc;
    }
    c->targets[c->target_count++] = t;
    *ret_target = t;
    return RON_OK;
}

/* ---- the client ------------------------------------------------------------------------------ */

enum ron_rc ron_http_client_new(const struct ron_http_client_opts *opts,
                                struct ron_http_client **ret_client, struct ron_err *err)
{
    struct ron_http_client *c;

    if (opts->name == NULL || opts->env == NULL || opts->registry == NULL) {
        return ron_err_set(err, RON_INVALID, "http client: name, env and registry are needed");
    }
    /* Safe from several threads in this version of libcurl; it is never undone. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return ron_err_set(err, RON_NOMEM, "http client: libcurl does not start");
    }
    c = ron_alloc_zero(sizeof *c);
    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "http client: no memory");
    }
    c->magic = CLIENT_MAGIC;
    c->opts = *opts;
#define OR(field, value) (c->opts.field = c->opts.field != 0 ? c->opts.field : (value))
    OR(inflight_max, 256);
    OR(connections_max, 128);
    OR(host_connections_max, 16);
#undef OR
    ron_gate_init(&c->gate, c->opts.inflight_max);
    ron_mutex_init(&c->mu, RON_RANK_LEAF, "http_client");
    ron_list_init(&c->inbox);
    ron_list_init(&c->active);
    *ret_client = c;
    return RON_OK;
}

enum ron_rc ron_http_client_attach(struct ron_http_client *c, struct ron_sup *sup,
                                   struct ron_err *err)
{
    struct ron_task *task = NULL;

    RON_CHECK_MAGIC(c, CLIENT_MAGIC);
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = c->opts.name,
                                              .kind = "http_client",
                                              .mode = RON_TASK_LOOP,
                                              .role = RON_ROLE_STAGE,
                                              .stage = c->opts.stage,
                                              .worker = (int32_t)c->opts.worker,
                                              .start = ron__http_client_start,
                                              .handle = ron__http_client_handle,
                                              .stop = ron__http_client_stop,
                                              .arg = c},
                       &task, err);
}

bool ron_http_client_free(struct ron_http_client *c)
{
    if (c == NULL) {
        return true;
    }
    RON_CHECK_MAGIC(c, CLIENT_MAGIC);
    c->closed = true; /* nobody else is left */
    ron__http_client_drop_all(c);
    for (size_t i = 0; i < c->target_count; i++) {
        ron_registry_remove(c->opts.registry, &c->targets[i]->entry);
        c->targets[i]->registered = false;
    }
    if (ron_au32_load(&c->fetches) != 0) {
        return false;
    }
    for (size_t i = 0; i < c->target_count; i++) {
        target_free(c->targets[i]);
    }
    ron_gate_done(&c->gate);
    ron_mutex_done(&c->mu);
    c->magic = 0;
    ron_free(c);
    return true;
}

/* ---- counters -------------------------------------------------------------------------------- */

void ron_http_target_counters(const struct ron_http_target *t,
                              struct ron_http_target_counters *ret_counters)
{
    struct ron_gate_stats gate;

    ron_gate_get_stats(&t->gate, &gate);
    *ret_counters = (struct ron_http_target_counters){.inflight = gate.inflight,
                                                      .busy = gate.busy_rejections_total,
                                                      .denied = ron_stat_get(&t->denied),
                                                      .bytes_in = ron_stat_get(&t->bytes_in),
                                                      .connections = ron_stat_get(&t->connections)};
    if (t->has_breaker) {
        ron_breaker_get_stats(&t->breaker, &ret_counters->breaker);
    }
}

void ron_http_op_counters(const struct ron_http_target *t, uint32_t op,
                          struct ron_http_op_counters *ret_counters)
{
    const struct http_op *o = &t->ops[op];

    RON_ASSERT(op < t->opts.op_count);
    ret_counters->calls = ron_stat_get(&o->calls);
    ret_counters->tries = ron_stat_get(&o->tries);
    ret_counters->io_timeouts = ron_stat_get(&o->io_timeouts);
    for (size_t i = 0; i < RON_VERDICT_COUNT; i++) {
        ret_counters->backoff_retries[i] = ron_stat_get(&o->retry.backoff_retries_total[i]);
    }
    for (size_t i = 0; i < RON_HTTP_FETCH_REASON_COUNT; i++) {
        ret_counters->ended[i] = ron_stat_get(&o->ended[i]);
    }
}

enum ron_rc ron_http_url_host(const char *url, char *ret_host, size_t size, bool *ret_plain,
                              struct ron_err *err)
{
    bool plain = strncmp(url, "http://", 7) == 0;
    const char *at = url + (plain ? strlen("http://") : strlen("https://"));
    size_t len;

    if (!plain && strncmp(url, "https://", 8) != 0) {
        return ron_err_set(err, RON_INVALID, "a URL begins with http:// or https://: '%.64s'", url);
    }
    len = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/?#");
    if (len == 0 || len >= size) {
        return ron_err_set(err, RON_INVALID, "no URL of a service: '%.64s'", url);
    }
    memcpy(ret_host, at, len);
    ret_host[len] = '\0';
    *ret_plain = plain;
    return RON_OK;
}

enum ron_rc ron_http_url_authority(const char *url, char *ret_authority, size_t size,
                                   bool *ret_plain, struct ron_err *err)
{
    const char *behind;
    size_t host_len;
    size_t port_len;
    int len;

    RON_TRY(ron_http_url_host(url, ret_authority, size, ret_plain, err));
    host_len = strlen(ret_authority);
    behind = url + strlen(*ret_plain ? "http://" : "https://") + host_len;
    port_len = *behind == ':' ? strcspn(behind, "/?#") : 0;
    len = port_len > 0
              ? snprintf(ret_authority + host_len, size - host_len, "%.*s", (int)port_len, behind)
              : snprintf(ret_authority + host_len, size - host_len, ":%d", *ret_plain ? 80 : 443);
    return len > 0 && (size_t)len < size - host_len
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "no URL of a service: '%.64s'", url);
}
