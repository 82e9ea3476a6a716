/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/tls.c - the TLS context of a listener: options, reload, counters; contract in
 * ron/http/tls.h.
 *
 * Place: http. What is served (SSL_CTX and its description) is replaced as a whole under `mu`; a
 * connection takes its own reference under the same lock, so the old one lives until its last
 * connection ends. Files are read outside the lock. */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>

#include "http/tls/lane.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/obs/metrics.h"

enum {
    ROTATE_DEFAULT_S = 3600,
    ROTATE_MIN_S = 60,
    ROTATE_MAX_S = 86400,
    HANDSHAKES_DEFAULT = 256,
    HANDSHAKES_MAX = 65536,
};

static enum ron_rc check_opts(const struct ron_tls_opts *o, struct ron_err *err)
{
    if (o->env == NULL || o->cert_file == NULL || o->key_file == NULL) {
        return ron_err_set(err, RON_INVALID, "tls: env, certificate file and key file are needed");
    }
    if (o->client_ca_file == NULL && o->client != RON_TLS_CLIENT_DEFAULT) {
        return ron_err_set(err, RON_INVALID, "tls: client certificates need a client CA file");
    }
    if (o->ticket_rotate_s < ROTATE_MIN_S || o->ticket_rotate_s > ROTATE_MAX_S) {
        return ron_err_set(err, RON_INVALID, "tls: ticket keys live %u s, which is outside %d..%d",
                           o->ticket_rotate_s, ROTATE_MIN_S, ROTATE_MAX_S);
    }
    if (o->handshakes_max > HANDSHAKES_MAX) {
        return ron_err_set(err, RON_INVALID, "tls: %u handshakes at once, at most %d",
                           o->handshakes_max, HANDSHAKES_MAX);
    }
    return RON_OK;
}

static enum ron_rc init(struct ron_tls_ctx *ctx, struct ron_err *err)
{
    const struct ron_tls_opts *o = &ctx->opts;
    struct tls_loaded loaded = {0};

    ctx->cert_file = ron_strdup(o->cert_file);
    ctx->key_file = ron_strdup(o->key_file);
    ctx->client_ca_file = o->client_ca_file == NULL ? NULL : ron_strdup(o->client_ca_file);
    ctx->bio = ron__tls_bio_method();
    if (ctx->cert_file == NULL || ctx->key_file == NULL || ctx->bio == NULL ||
        (o->client_ca_file != NULL && ctx->client_ca_file == NULL) ||
        ron__tls_tickets_init(ctx) != RON_OK) {
        ERR_clear_error();
        return ron_err_set(err, RON_NOMEM, "tls: no memory");
    }
    RON_TRY(ron__tls_load(ctx, &loaded, err));
    ctx->ssl = loaded.ssl;
    ctx->cert = loaded.cert;
    ctx->cert.generation = 1;
    return RON_OK;
}

enum ron_rc ron_tls_ctx_new(const struct ron_tls_opts *opts, struct ron_tls_ctx **ret_ctx,
                            struct ron_err *err)
{
    struct ron_tls_opts o = *opts;
    struct ron_tls_ctx *ctx;
    enum ron_rc rc;

    o.ticket_rotate_s = o.ticket_rotate_s == 0 ? ROTATE_DEFAULT_S : o.ticket_rotate_s;
    o.handshakes_max = o.handshakes_max == 0 ? HANDSHAKES_DEFAULT : o.handshakes_max;
    RON_TRY(check_opts(&o, err));
    ctx = ron_alloc_zero(sizeof *ctx);
    if (ctx == NULL) {
        return ron_err_set(err, RON_NOMEM, "tls: no memory");
    }
    ctx->magic = TLS_CTX_MAGIC;
    ctx->opts = o;
    ron_mutex_init(&ctx->mu, RON_RANK_LEAF, "tls");
    rc = init(ctx, err);
    if (rc != RON_OK) {
        ron_tls_ctx_free(ctx);
        return rc;
    }
    *ret_ctx = ctx;
    return RON_OK;
}

void ron_tls_ctx_free(struct ron_tls_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    RON_CHECK_MAGIC(ctx, TLS_CTX_MAGIC);
    SSL_CTX_free(ctx->ssl);
    BIO_meth_free(ctx->bio);
    ron_free(ctx->cert_file);
    ron_free(ctx->key_file);
    ron_free(ctx->client_ca_file);
    OPENSSL_cleanse(ctx->tickets, sizeof ctx->tickets);
    ron_mutex_done(&ctx->mu);
    ctx->magic = 0;
    ron_free(ctx);
}

enum ron_rc ron_tls_ctx_reload(struct ron_tls_ctx *ctx, struct ron_err *err)
{
    struct tls_loaded loaded = {0};
    SSL_CTX *old;
    enum ron_rc rc;

    RON_CHECK_MAGIC(ctx, TLS_CTX_MAGIC);
    rc = ron__tls_load(ctx, &loaded, err);
    if (rc != RON_OK) {
        ron_stat_add(&ctx->reload_failures, 1);
        return rc;
    }
    ron_mutex_lock(&ctx->mu);
    old = ctx->ssl;
    loaded.cert.generation = ctx->cert.generation + 1;
    ctx->ssl = loaded.ssl;
    ctx->cert = loaded.cert;
    ron_mutex_unlock(&ctx->mu);
    SSL_CTX_free(old);
    ron_stat_add(&ctx->reloads, 1);
    return RON_OK;
}

void ron_tls_ctx_cert(struct ron_tls_ctx *ctx, struct ron_tls_cert *ret_cert)
{
    RON_CHECK_MAGIC(ctx, TLS_CTX_MAGIC);
    ron_mutex_lock(&ctx->mu);
    *ret_cert = ctx->cert;
    ron_mutex_unlock(&ctx->mu);
}

int64_t ron_tls_ctx_expiry_s(struct ron_tls_ctx *ctx)
{
    struct ron_tls_cert cert;

    ron_tls_ctx_cert(ctx, &cert);
    return cert.not_after_s - (int64_t)(ron_env_wall_ms(ctx->opts.env) / RON_MS_PER_S);
}

const char *ron_tls_failure_label(enum ron_tls_failure failure)
{
    static const char *const labels[] = {
#define X(name, label, doc) label,
        RON_TLS_FAILURES(X)
#undef X
    };

    RON_ASSERT((size_t)failure < RON_ARRAY_LEN(labels));
    return labels[failure];
}

void ron_tls_ctx_counters(const struct ron_tls_ctx *ctx, struct ron_tls_counters *ret_counters)
{
    uint64_t ended = ron_stat_get(&ctx->shaking_ended); /* before `begun`: never below zero */
    struct ron_tls_counters c = {
        .full = ron_stat_get(&ctx->full),
        .resumed = ron_stat_get(&ctx->resumed),
        .truncated = ron_stat_get(&ctx->truncated),
        .reloads = ron_stat_get(&ctx->reloads),
        .reload_failures = ron_stat_get(&ctx->reload_failures),
    };
    uint64_t begun = ron_stat_get(&ctx->shaking_begun);

    c.shaking = begun > ended ? begun - ended : 0;
    for (size_t i = 0; i < RON_TLS_FAIL_COUNT; i++) {
        c.failures[i] = ron_stat_get(&ctx->failures[i]);
    }
    *ret_counters = c;
}

static void collect(struct ron_scrape *sc, void *arg)
{
    struct ron_tls_ctx *ctx = arg;
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_tls_counters c;
    struct ron_tls_cert cert;

    ron_tls_ctx_counters(ctx, &c);
    ron_tls_ctx_cert(ctx, &cert);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_HANDSHAKES), c.full, "full");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_HANDSHAKES), c.resumed, "resumed");
    for (int i = 0; i < RON_TLS_FAIL_COUNT; i++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_FAILURES), c.failures[i],
                       ron_tls_failure_label((enum ron_tls_failure)i));
    }
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_TLS_OPEN), c.shaking, NULL, 0);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_TLS_TRUNCATED), c.truncated, NULL, 0);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_RELOADS), c.reloads, "ok");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_RELOADS), c.reload_failures, "failed");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_TLS_EXPIRY), (uint64_t)ron_tls_ctx_expiry_s(ctx),
                   cert.subject);
}

enum ron_rc ron_tls_ctx_collect(struct ron_tls_ctx *ctx, struct ron_metrics *metrics,
                                struct ron_err *err)
{
    RON_CHECK_MAGIC(ctx, TLS_CTX_MAGIC);
    return ron_metrics_collector(metrics, collect, ctx, err);
}
