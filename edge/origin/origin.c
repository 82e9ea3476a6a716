/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/origin.c - origins of the settings, and one exchange with one of them.
 *
 * Place: edge. An answer is hashed while it streams into the store and is visible there only when
 * it is whole; nothing of it is served before. */
#include "edge/origin/origin.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/http/etag.h"

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc check_one(const struct ron_conf_snap *conf, uint32_t section,
                             struct ron_err *err)
{
    struct ron_conf_str url = ron_conf_str_in(conf, section, EDG_O_URL);
    char host[256];
    bool plain = false;

    RON_TRY(ron_http_url_host(url.text, host, sizeof host, &plain, err));
    if (plain && !ron_conf_bool_in(conf, section, EDG_O_PLAIN)) {
        return ron_err_set(err, RON_INVALID, "http:// needs allow_http = true");
    }
    if (strchr(url.text, '?') != NULL || strchr(url.text, '#') != NULL) {
        return ron_err_set(err, RON_INVALID, "a URL with a query or fragment");
    }
    return RON_OK;
}

enum ron_rc edg_origins_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "origins");

    if (count > EDG_ORIGINS_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d origins", (int)EDG_ORIGINS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "origins", i);

        if (check_one(conf, section, err) != RON_OK) {
            ron_err_prefix(err, "origins.%s.url", ron_conf_section_name(conf, section));
            return RON_INVALID;
        }
    }
    return RON_OK;
}

static uint64_t seconds(const struct ron_conf_snap *conf, uint32_t section, size_t key)
{
    return (uint64_t)ron_conf_ms_in(conf, section, key) / 1000;
}

enum ron_rc edg_origin_target(struct ron_http_client *client, const struct ron_conf_snap *conf,
                              uint32_t section, const struct ron_http_target_opts *like,
                              struct ron_http_target **ret_target, struct ron_err *err)
{
    const char *url = ron_conf_str_in(conf, section, EDG_O_URL).text;
    struct ron_conf_str ca = ron_conf_str_in(conf, section, EDG_O_CA);
    struct ron_http_target_opts opts = *like;
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;

    RON_TRY(ron_http_url_authority(url, host, sizeof host, &plain, err));
    opts.hosts = hosts;
    opts.host_count = 1;
    opts.flags = plain ? RON_HTTP_TARGET_PLAIN : 0;
    if (ron_conf_bool_in(conf, section, EDG_O_PRIVATE)) {
        opts.flags |= RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE;
    }
    opts.ca_file = ca.len > 0 ? ca.text : NULL;
    return ron_http_client_add(client, &opts, ret_target, err);
}

/* What is different about a ledger. Its tiles are told from each other by their path, so it needs
 * no entity tags; what is not there may be there a moment later. */
static enum ron_rc open_ledger(struct edg_origins *o, const struct ron_env *env,
                               const struct ron_conf_snap *conf, uint32_t section,
                               struct edg_origin *x, struct ron_err *err)
{
    struct ron_conf_str file = ron_conf_str_in(conf, section, EDG_O_TOKEN);

    ron_app_tokens_init(&o->tokens[o->count], env, "token_file");
    if (ron_conf_choice_in(conf, section, EDG_O_KIND) != 1) {
        return RON_OK;
    }
    x->ledger = true;
    x->require_etag = false;
    x->entries = ron_conf_bool_in(conf, section, EDG_O_ENTRIES);
    x->checkpoint_s = seconds(conf, section, EDG_O_CHECKPOINT);
    x->policy.negative_ttl_s = RON_MIN(x->policy.negative_ttl_s, (uint64_t)1);
    if (file.len > 0) {
        RON_TRY(ron_app_tokens_load(&o->tokens[o->count], file.text, err));
        x->token = ron_app_tokens_get(&o->tokens[o->count]);
    }
    return RON_OK;
}

bool edg_origin_serves(const struct edg_origin *origin, struct ron_str target)
{
    enum edg_ledger_kind kind = origin->ledger ? edg_ledger_kind(target) : EDG_LEDGER_TILE;

    return kind != EDG_LEDGER_OTHER && (kind != EDG_LEDGER_ENTRIES || origin->entries);
}

static enum ron_rc open_one(struct edg_origins *o, const struct ron_env *env,
                            const struct ron_conf_snap *conf, uint32_t section, uint64_t object_max,
                            struct ron_err *err)
{
    static const char *const ops[] = {"fill"};
    static const char *const retry_ops[] = {"live_fill"};
    uint32_t total_ms = (uint32_t)ron_conf_ms(conf, EDG_FILL_TIMEOUT);
    struct edg_origin *x = &o->at[o->count];
    struct ron_retry_curve curve = {.tries_max = 1 + (uint32_t)ron_conf_int(conf, EDG_RETRY_MAX),
                                    .first_ms = (uint32_t)ron_conf_ms(conf, EDG_RETRY_BASE),
                                    .factor = 2,
                                    .base_max_ms = (uint32_t)ron_conf_ms(conf, EDG_RETRY_CAP),
                                    .jitter_ms = ron_conf_bool(conf, EDG_RETRY_JITTER)
                                                     ? (uint32_t)ron_conf_ms(conf, EDG_RETRY_BASE)
                                                     : 0};

    x->name = ron_conf_section_name(conf, section);
    x->url = ron_conf_str_in(conf, section, EDG_O_URL).text;
    x->require_etag = ron_conf_bool_in(conf, section, EDG_O_ETAG);
    x->policy = (struct edg_policy){.stale_while_revalidate_s = seconds(conf, section, EDG_O_SWR),
                                    .stale_if_error_s = seconds(conf, section, EDG_O_SIE),
                                    .heuristic_max_s = seconds(conf, section, EDG_O_HEURISTIC),
                                    .negative_ttl_s = seconds(conf, section, EDG_O_NEGATIVE)};
    RON_TRY(open_ledger(o, env, conf, section, x, err));
    RON_TRY(edg_origin_target(
        o->client, conf, section,
        &(struct ron_http_target_opts){.name = x->name,
                                       .ops = ops,
                                       .op_count = 1,
                                       .retry_ops = retry_ops,
                                       .retry = &curve,
                                       .breaker = ron_breaker_preset(RON_BREAKER_DEFAULT),
                                       .inflight_max = 64,
                                       /* So that three tries have room: 1.5 s of 5 s. */
                                       .try_timeout_ms = total_ms * 3 / 10,
                                       .total_timeout_ms = total_ms,
                                       .response_max = object_max,
                                       .redirects_max = 3},
        &x->target, err));
    o->count++;
    return RON_OK;
}

enum ron_rc edg_origins_open(struct edg_origins *o, struct ron_app *app,
                             const struct ron_conf_snap *conf, uint64_t object_max,
                             struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "origins");

    if (count == 0) {
        return RON_OK;
    }
    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "origins",
                                                               .env = ron_app_env(app),
                                                               .registry = ron_app_registry(app),
                                                               .stage = 3},
                                &o->client, err));
    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "origins", i);
        enum ron_rc rc = open_one(o, ron_app_env(app), conf, section, object_max, err);

        if (rc != RON_OK) {
            ron_err_prefix(err, "origins.%s", ron_conf_section_name(conf, section));
            return rc;
        }
    }
    RON_TRY(ron_collect_http_client(ron_app_metrics(app), o->client, err));
    return ron_http_client_attach(o->client, ron_app_sup(app), err);
}

void edg_origins_close(struct edg_origins *o)
{
    for (size_t i = 0; i < o->count; i++) {
        ron_app_tokens_done(&o->tokens[i]);
    }
    if (o->client != NULL) {
        (void)ron_http_client_free(o->client);
        o->client = NULL;
    }
}

const struct edg_origin *edg_origins_find(const struct edg_origins *o, struct ron_str name,
                                          uint32_t *ret_index)
{
    for (size_t i = 0; i < o->count; i++) {
        if (ron_str_eq(name, o->at[i].name)) {
            *ret_index = (uint32_t)i;
            return &o->at[i];
        }
    }
    return NULL;
}

struct edg_fields edg_origin_request(void)
{
    static const struct ron_http_field fields[] = {
        {{"Accept", 6}, {"*/*", 3}},
        {{"Accept-Encoding", 15}, {"identity", 8}},
    };

    return (struct edg_fields){fields, RON_ARRAY_LEN(fields)};
}

/* The times of a ledger's answers are those of its paths, not what it says to its own clients. */
static void add_control(const struct edg_exchange_opts *o, struct edg_fetched *f, size_t *count)
{
    struct ron_str value =
        edg_ledger_control(edg_ledger_kind(o->target), o->origin->checkpoint_s, f->control);
    size_t kept = 0;

    if (!o->origin->ledger || f->status != 200) {
        return;
    }
    for (size_t i = 0; i < *count; i++) {
        if (!edg_is(f->fields[i].name, "Cache-Control") && !edg_is(f->fields[i].name, "Expires")) {
            f->fields[kept++] = f->fields[i];
        }
    }
    if (kept < EDG_STORED_FIELDS_MAX) {
        f->fields[kept++] = (struct ron_http_field){{"Cache-Control", 13}, value};
    }
    *count = kept;
}

/* ---- one exchange ---------------------------------------------------------------------------- */

static void fail(struct edg_fetched *f, enum edg_outcome outcome, const char *why)
{
    f->outcome = outcome;
    if (f->err.msg[0] == '\0') {
        (void)ron_err_set(&f->err, RON_IO, "%s", why);
    }
}

static enum ron_rc start(const struct edg_exchange_opts *o, struct edg_fetched *f)
{
    struct edg_fields asked = edg_origin_request();
    struct ron_http_fetch_header headers[5];
    struct edg_conditions conditions = {0};
    char bearer[RON_CAP_TEXT_MAX + 8];
    size_t count = 0;
    char *url = ron_alloc(EDG_URL_MAX);
    enum ron_rc rc = RON_NOMEM;
    int len;

    if (url == NULL) {
        return ron_err_set(&f->err, RON_NOMEM, "no memory for a URL");
    }
    for (size_t i = 0; i < asked.count; i++) {
        if (!edg_is(asked.at[i].name, "Accept-Encoding")) { /* The client asks for identity. */
            headers[count++] =
                (struct ron_http_fetch_header){asked.at[i].name.ptr, asked.at[i].value};
        }
    }
    if (o->stale != NULL) {
        edg_conditions(o->stale->fields, &conditions);
    }
    if (conditions.if_none_match.len > 0) {
        headers[count++] =
            (struct ron_http_fetch_header){"If-None-Match", conditions.if_none_match};
    }
    if (conditions.if_modified_since.len > 0) {
        headers[count++] =
            (struct ron_http_fetch_header){"If-Modified-Since", conditions.if_modified_since};
    }
    if (o->origin->token != NULL && edg_ledger_kind(o->target) == EDG_LEDGER_ENTRIES) {
        struct ron_str token = o->origin->token->text;

        len = snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)token.len, token.ptr);
        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)len}};
    }
    len = snprintf(url, EDG_URL_MAX, "%s%.*s", o->origin->url, (int)o->target.len, o->target.ptr);
    if (len <= 0 || len >= EDG_URL_MAX) {
        rc = ron_err_set(&f->err, RON_LIMIT, "the URL is too long");
    } else {
        edg_pipe_reset(o->pipe);
        rc = ron_http_fetch_start(o->origin->target,
                                  &(struct ron_http_fetch_opts){.method = RON_HTTP_GET,
                                                                .url = url,
                                                                .headers = headers,
                                                                .header_count = count,
                                                                .sink = edg_pipe_sink,
                                                                .patient = true,
                                                                .deadline = o->deadline,
                                                                .done = edg_pipe_end,
                                                                .arg = o->pipe},
                                  &f->fetch, &f->err);
    }
    ron_free(url);
    return rc;
}

/* Takes the bytes as they come. The first failure of the store ends the fetch; its end is waited
 * for in every case, because it uses the pipe. */
static enum ron_rc take_body(const struct edg_exchange_opts *o, struct edg_fetched *f,
                             struct ron_cas_writer **ret_writer)
{
    const struct ron_cas_write_opts opts = {.pin = o->pin};
    struct ron_cas_writer *w = NULL;
    struct ron_str piece;
    enum ron_rc rc = RON_OK;

    while (edg_pipe_next(o->pipe, f->fetch, ron_deadline_never(), &piece) == RON_OK) {
        if (rc == RON_OK && w == NULL) {
            rc = ron_cas_begin(o->store, &opts, &w, &f->err);
        }
        if (rc == RON_OK) {
            rc = ron_cas_append(w, piece.ptr, piece.len, &f->err);
            f->size += piece.len;
        }
        if (rc != RON_OK) {
            ron_http_fetch_cancel(f->fetch);
        }
    }
    if (rc == RON_OK && w == NULL && ron_http_fetch_result(f->fetch)->status == 200) {
        rc = ron_cas_begin(o->store, &opts, &w, &f->err); /* an empty body is one, too */
    }
    *ret_writer = w;
    return rc;
}

static enum edg_outcome outcome_of(const struct ron_http_fetch_result *r, bool asked)
{
    enum ron_http_fetch_reason why = r->reason;

    if (why == RON_HTTP_FETCH_ANSWERED && r->status == 200) {
        return EDG_OUTCOME_FILLED;
    }
    if (why == RON_HTTP_FETCH_ANSWERED && r->status == 304 && asked) {
        return EDG_OUTCOME_SAME;
    }
    if (why == RON_HTTP_FETCH_ANSWERED || why == RON_HTTP_FETCH_STATUS) {
        return r->status >= 500 || r->status == 429 || r->status == 408 ? EDG_OUTCOME_FAILED
                                                                        : EDG_OUTCOME_ABSENT;
    }
    return why == RON_HTTP_FETCH_DENIED_HOST || why == RON_HTTP_FETCH_DENIED_ADDRESS ||
                   why == RON_HTTP_FETCH_REDIRECTS
               ? EDG_OUTCOME_NOT_ALLOWED
           : why == RON_HTTP_FETCH_TOO_LARGE ? EDG_OUTCOME_TOO_LARGE
           : why == RON_HTTP_FETCH_TIMEOUT_CONNECT || why == RON_HTTP_FETCH_TIMEOUT_TOTAL
               ? EDG_OUTCOME_TIMEOUT
               : EDG_OUTCOME_FAILED;
}

/* Whether the answer has one strong entity tag. */
static bool has_strong_tag(const struct ron_http_fetch *f)
{
    struct ron_http_etag etag;
    struct ron_str value;

    return ron_http_fetch_header_get(f, "ETag", &value) == RON_OK &&
           ron_http_etag_parse(value, &etag) == RON_OK && !etag.weak;
}

static void judge(const struct edg_exchange_opts *o, struct edg_fetched *f,
                  struct ron_cas_writer *take_writer)
{
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f->fetch);
    size_t count = 0;

    f->status = r->status;
    f->outcome = outcome_of(r, o->stale != NULL);
    if (ron_http_fetch_fields(f->fetch, f->fields, EDG_STORED_FIELDS_MAX, &count) != RON_OK) {
        fail(f, EDG_OUTCOME_FAILED, "the answer has too many fields");
    }
    add_control(o, f, &count);
    f->exchange = (struct edg_exchange){.method = RON_HTTP_GET,
                                        .request = edg_origin_request(),
                                        .status = r->status,
                                        .response = {f->fields, count},
                                        .request_ms = ron_env_wall_ms(o->env) - r->took_ms,
                                        .response_ms = ron_env_wall_ms(o->env)};
    if (f->outcome == EDG_OUTCOME_FILLED && o->origin->require_etag && !has_strong_tag(f->fetch)) {
        fail(f, EDG_OUTCOME_ETAG_INVALID, "the origin gives no strong entity tag");
    }
    if (f->outcome == EDG_OUTCOME_FILLED) {
        if (ron_cas_commit(take_writer, &f->id, &f->err) != RON_OK) {
            fail(f, EDG_OUTCOME_STORE, "the store could not take it");
        }
    } else {
        ron_cas_abort(take_writer);
        fail(f, f->outcome, r->message);
    }
}

void edg_exchange_run(const struct edg_exchange_opts *o, struct edg_fetched *ret)
{
    struct ron_cas_writer *w = NULL;
    enum ron_rc rc;

    *ret = (struct edg_fetched){.outcome = EDG_OUTCOME_FAILED};
    rc = start(o, ret);
    if (rc != RON_OK) {
        ret->fetch = NULL;
        ret->outcome = rc == RON_DENIED || rc == RON_INVALID ? EDG_OUTCOME_NOT_ALLOWED
                       : rc == RON_NOMEM                     ? EDG_OUTCOME_MEMORY
                                                             : EDG_OUTCOME_FAILED;
        return;
    }
    rc = take_body(o, ret, &w);
    if (rc != RON_OK) {
        ron_cas_abort(w);
        fail(ret, EDG_OUTCOME_STORE, ""); /* What is too large was refused by the client before. */
        return;
    }
    judge(o, ret, w);
}

void edg_exchange_done(struct edg_fetched *f)
{
    if (f->fetch != NULL) {
        ron_http_fetch_release(f->fetch);
        f->fetch = NULL;
    }
}
