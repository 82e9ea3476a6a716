/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/load.c - PEM files into an SSL_CTX, with every check that can be made before
 * a client comes.
 *
 * Place: http; blocking (files). Nothing of the served context is touched: what fails here leaves
 * it alone.
 *
 * Rules
 *   L1 an operator who reads the message knows the file, the line where there is one, and what to
 *      do. OpenSSL's own words are only added.
 *   L2 the bytes of a key file are wiped before their memory is given back.
 *   L3 OpenSSL's error queue of the thread is empty on every way out. */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "http/tls/lane.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

enum { VERIFY_DEPTH = 4, CLIENT_CHAIN_BYTES = 32768 };

/* Cheap and strong first; a client without AES instructions that asks for ChaCha gets it. */
static const char suites_13[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char suites_12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct chain {
    X509 *certs[RON_TLS_CLIENT_CA_MAX];
    size_t lines[RON_TLS_CLIENT_CA_MAX];
    size_t count;
};

const char *ron__tls_error_text(char *buf, size_t size)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    (void)snprintf(buf, size, "%s", reason == NULL ? "no reason given" : reason);
    ERR_clear_error();
    return buf;
}

/* ---- files ----------------------------------------------------------------------------------- */

static enum ron_rc read_file(const struct ron_env *env, const char *what, const char *path,
                             struct ron_buf *ret_bytes, struct ron_err *err)
{
    enum ron_rc rc;

    ron_buf_init(ret_bytes, RON_TLS_FILE_MAX);
    rc = ron_file_read_all(env, path, ret_bytes, err);
    if (rc != RON_OK && err != NULL) {
        ron_err_prefix(err, "tls: %s", what);
    }
    return rc;
}

/* The line of the next block that begins at or behind `at`. */
static size_t line_of(const struct ron_buf *text, size_t at)
{
    const char *begin = (const char *)ron_buf_data(text);
    const char *end = begin + ron_buf_len(text);
    const char *p = begin + at;
    const char *block = memmem(p, (size_t)(end - p), "-----BEGIN", 10);
    size_t line = 1;

    for (p = begin; p < (block == NULL ? begin + at : block); p++) {
        line += *p == '\n';
    }
    return line;
}

static void chain_done(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        X509_free(chain->certs[i]);
    }
    chain->count = 0;
}

/* OpenSSL asks at the terminal when there is no callback. */
static int no_passphrase(char *buf, int size, int rwflag, void *arg)
{
    bool *asked = arg;

    (void)buf;
    (void)size;
    (void)rwflag;
    if (asked != NULL) {
        *asked = true;
    }
    return -1;
}

/* All certificates of a PEM text, at most `max`; other blocks are skipped. */
static enum ron_rc parse_chain(const struct ron_buf *text, const char *path, size_t max,
                               struct chain *chain, struct ron_err *err)
{
    BIO *bio = BIO_new_mem_buf(ron_buf_data(text), (int)ron_buf_len(text));
    char why[96];
    enum ron_rc rc = bio == NULL ? ron_err_set(err, RON_NOMEM, "tls: no memory") : RON_OK;

    while (rc == RON_OK) {
        size_t line = line_of(text, ron_buf_len(text) - (size_t)BIO_pending(bio));
        X509 *cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);

        if (cert != NULL && chain->count == max) {
            X509_free(cert);
            rc = ron_err_set(err, RON_LIMIT, "tls: %s line %zu: more than %zu certificates", path,
                             line, max);
        } else if (cert != NULL) {
            chain->lines[chain->count] = line;
            chain->certs[chain->count++] = cert;
        } else if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
            break;
        } else {
            rc = ron_err_set(err, RON_INVALID, "tls: %s line %zu: damaged certificate (%s)", path,
                             line, ron__tls_error_text(why, sizeof why));
        }
    }
    if (rc == RON_OK && chain->count == 0) {
        rc =
            ron_err_set(err, RON_INVALID,
                        "tls: %s holds no certificate; PEM with BEGIN CERTIFICATE is needed", path);
    }
    BIO_free(bio);
    ERR_clear_error();
    return rc;
}

static enum ron_rc read_chain(const struct ron_env *env, const char *what, const char *path,
                              size_t max, struct chain *chain, struct ron_err *err)
{
    struct ron_buf text;
    enum ron_rc rc = read_file(env, what, path, &text, err);

    if (rc == RON_OK) {
        rc = parse_chain(&text, path, max, chain, err);
    }
    ron_buf_done(&text);
    return rc;
}

/* ---- the key --------------------------------------------------------------------------------- */

static enum ron_rc check_private(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_file_stat st;
    enum ron_rc rc = env->disk->stat(env, path, &st);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "tls: key file %s: %s", path, ron_rc_doc(rc));
    }
    if ((st.mode & 066) != 0) {
        return ron_err_set(err, RON_DENIED,
                           "tls: key file %s is open to others (mode %04o); run: chmod 600 %s",
                           path, (unsigned)st.mode, path);
    }
    return RON_OK;
}

static enum ron_rc read_key(const struct ron_env *env, const char *path, EVP_PKEY **ret_key,
                            struct ron_err *err)
{
    struct ron_buf text;
    EVP_PKEY *key = NULL;
    BIO *bio = NULL;
    bool asked = false;
    char why[96];
    enum ron_rc rc;

    RON_TRY(check_private(env, path, err));
    rc = read_file(env, "key", path, &text, err);
    if (rc == RON_OK) {
        bio = BIO_new_mem_buf(ron_buf_data(&text), (int)ron_buf_len(&text));
        key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked);
        if (bio == NULL) {
            rc = ron_err_set(err, RON_NOMEM, "tls: no memory");
        } else if (asked) {
            rc = ron_err_set(err, RON_INVALID,
                             "tls: key file %s has a passphrase; take it off: openssl pkey -in %s",
                             path, path);
        } else if (key == NULL) {
            rc = ron_err_set(err, RON_INVALID, "tls: key file %s line %zu: no private key (%s)",
                             path, line_of(&text, 0), ron__tls_error_text(why, sizeof why));
        } else {
            *ret_key = key;
        }
    }
    BIO_free(bio);
    if (text.memory != NULL) {
        OPENSSL_cleanse(text.memory, text.cap); /* L2 */
    }
    ron_buf_done(&text);
    ERR_clear_error();
    return rc;
}

/* ---- certificate and key --------------------------------------------------------------------- */

static enum ron_rc check_time(const char *path, const X509 *cert, int64_t now_s,
                              struct ron_err *err)
{
    struct tm tm = {0};
    bool late = ron__tls_not_after_s(cert) < now_s;

    if (ASN1_TIME_to_tm(late ? X509_get0_notAfter(cert) : X509_get0_notBefore(cert), &tm) != 1) {
        return ron_err_set(err, RON_INVALID, "tls: %s: a date that cannot be read", path);
    }
    if (late || timegm(&tm) > now_s) {
        return ron_err_set(
            err, RON_INVALID, "tls: the certificate in %s %s on %04d-%02d-%02d %02d:%02d UTC; %s",
            path, late ? "ended" : "begins only", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
            tm.tm_hour, tm.tm_min, late ? "renew it" : "check the clock");
    }
    return RON_OK;
}

static enum ron_rc check_chain(const char *path, const struct chain *chain, int64_t now_s,
                               struct ron_err *err)
{
    RON_TRY(check_time(path, chain->certs[0], now_s, err));
    if (X509_check_purpose(chain->certs[0], X509_PURPOSE_SSL_SERVER, 0) != 1) {
        ERR_clear_error();
        return ron_err_set(err, RON_INVALID,
                           "tls: %s line %zu: the certificate is not meant for servers", path,
                           chain->lines[0]);
    }
    for (size_t i = 1; i < chain->count; i++) {
        if (X509_check_issued(chain->certs[i], chain->certs[i - 1]) != X509_V_OK) {
            ERR_clear_error();
            return ron_err_set(err, RON_INVALID,
                               "tls: %s line %zu: certificate %zu did not issue the one before it; "
                               "put the server's own first, then its issuer",
                               path, chain->lines[i], i + 1);
        }
    }
    return RON_OK;
}

static enum ron_rc refuse(struct ron_err *err, const char *path, const char *what)
{
    char why[96];

    return ron_err_set(err, RON_INVALID, "tls: %s: %s (%s)", path, what,
                       ron__tls_error_text(why, sizeof why));
}

static enum ron_rc use_pair(const struct ron_tls_ctx *ctx, SSL_CTX *ssl, const struct chain *chain,
                            EVP_PKEY *key, struct ron_err *err)
{
    if (X509_check_private_key(chain->certs[0], key) != 1) {
        ERR_clear_error();
        return ron_err_set(err, RON_INVALID,
                           "tls: key %s does not belong to the first certificate of %s",
                           ctx->key_file, ctx->cert_file);
    }
    if (SSL_CTX_use_certificate(ssl, chain->certs[0]) != 1) {
        return refuse(err, ctx->cert_file, "the certificate is not accepted");
    }
    if (SSL_CTX_use_PrivateKey(ssl, key) != 1) {
        return refuse(err, ctx->key_file, "the key is not accepted");
    }
    for (size_t i = 1; i < chain->count; i++) {
        if (SSL_CTX_add1_chain_cert(ssl, chain->certs[i]) != 1) {
            return refuse(err, ctx->cert_file, "an issuer is not accepted");
        }
    }
    return RON_OK;
}

static enum ron_rc load_pair(const struct ron_tls_ctx *ctx, struct tls_loaded *loaded,
                             struct ron_err *err)
{
    const struct ron_env *env = ctx->opts.env;
    struct chain chain = {.count = 0};
    EVP_PKEY *key = NULL;
    enum ron_rc rc;

    RON_GOTO(read_chain(env, "certificate", ctx->cert_file, RON_TLS_CHAIN_MAX, &chain, err), out);
    RON_GOTO(
        check_chain(ctx->cert_file, &chain, (int64_t)(ron_env_wall_ms(env) / RON_MS_PER_S), err),
        out);
    RON_GOTO(read_key(env, ctx->key_file, &key, err), out);
    RON_GOTO(use_pair(ctx, loaded->ssl, &chain, key, err), out);
    loaded->cert.not_after_s = ron__tls_not_after_s(chain.certs[0]);
    ron__tls_fingerprint(chain.certs[0], loaded->cert.fingerprint);
    ron__tls_subject(chain.certs[0], loaded->cert.subject, sizeof loaded->cert.subject);
out:
    EVP_PKEY_free(key);
    chain_done(&chain);
    return rc;
}

/* ---- client authorities ---------------------------------------------------------------------- */

static enum ron_rc trust(const struct ron_tls_ctx *ctx, SSL_CTX *ssl, const struct chain *chain,
                         EVP_MD_CTX *id, struct ron_err *err)
{
    for (size_t i = 0; i < chain->count; i++) {
        uint8_t print[RON_TLS_FINGERPRINT_BYTES];

        if (X509_check_ca(chain->certs[i]) == 0) {
            ERR_clear_error();
            return ron_err_set(err, RON_INVALID,
                               "tls: %s line %zu: certificate %zu is no authority (CA:TRUE)",
                               ctx->client_ca_file, chain->lines[i], i + 1);
        }
        ron__tls_fingerprint(chain->certs[i], print);
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), chain->certs[i]) != 1 ||
            SSL_CTX_add_client_CA(ssl, chain->certs[i]) != 1 ||
            EVP_DigestUpdate(id, print, sizeof print) != 1) {
            return refuse(err, ctx->client_ca_file, "an authority is not accepted");
        }
    }
    return RON_OK;
}

/* A ticket is bound to the authorities that its client was verified against: other ones, or none
 * before, and it does not open. */
static enum ron_rc load_authorities(const struct ron_tls_ctx *ctx, SSL_CTX *ssl,
                                    struct ron_err *err)
{
    struct chain chain = {.count = 0};
    EVP_MD_CTX *id = EVP_MD_CTX_new();
    uint8_t id_bytes[EVP_MAX_MD_SIZE];
    unsigned id_len = 0;
    int mode = SSL_VERIFY_NONE;
    enum ron_rc rc = RON_OK;

    if (id == NULL || EVP_DigestInit_ex(id, EVP_sha256(), NULL) != 1) {
        rc = ron_err_set(err, RON_NOMEM, "tls: no memory");
        goto out;
    }
    if (ctx->client_ca_file != NULL) {
        RON_GOTO(read_chain(ctx->opts.env, "client authorities", ctx->client_ca_file,
                            RON_TLS_CLIENT_CA_MAX, &chain, err),
                 out);
        RON_GOTO(trust(ctx, ssl, &chain, id, err), out);
        mode = SSL_VERIFY_PEER;
        mode |= ctx->opts.client == RON_TLS_CLIENT_OPTIONAL ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_CTX_set_verify(ssl, mode, NULL);
    SSL_CTX_set_verify_depth(ssl, VERIFY_DEPTH);
    SSL_CTX_set_max_cert_list(ssl, CLIENT_CHAIN_BYTES);
    if (EVP_DigestUpdate(id, &mode, sizeof mode) != 1 ||
        EVP_DigestFinal_ex(id, id_bytes, &id_len) != 1 ||
        SSL_CTX_set_session_id_context(ssl, id_bytes, RON_MIN(id_len, (unsigned)TLS_ID_BYTES)) !=
            1) {
        rc = ron_err_set(err, RON_NOMEM, "tls: no memory");
    }
out:
    EVP_MD_CTX_free(id);
    chain_done(&chain);
    ERR_clear_error();
    return rc;
}

/* ---- protocol -------------------------------------------------------------------------------- */

static int choose_alpn(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
                       const unsigned char *offered, unsigned offered_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *name = NULL;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&name, ret_len, ours, sizeof ours - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *ret_name = name;
    return SSL_TLSEXT_ERR_OK;
}

static enum ron_rc set_protocol(const struct ron_tls_ctx *ctx, SSL_CTX *ssl, struct ron_err *err)
{
    const struct ron_tls_opts *o = &ctx->opts;
    char groups[] = "X25519:P-256:P-384"; /* OpenSSL's macro casts a const away */
    int lowest = o->allow_tls12 ? TLS1_2_VERSION : TLS1_3_VERSION;

    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                       (o->no_tickets ? SSL_OP_NO_TICKET : 0));
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_read_ahead(ssl, 1);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_timeout(ssl, o->ticket_rotate_s);
    SSL_CTX_set_alpn_select_cb(ssl, choose_alpn, NULL);
    if (SSL_CTX_set_min_proto_version(ssl, lowest) != 1 ||
        SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ssl, suites_13) != 1 ||
        SSL_CTX_set_cipher_list(ssl, suites_12) != 1 ||
        SSL_CTX_set1_groups_list(ssl, groups) != 1 ||
        (o->no_tickets ? SSL_CTX_set_num_tickets(ssl, 0)
                       : SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, ron__tls_ticket_key)) != 1) {
        return refuse(err, "protocol", "OpenSSL does not take our settings");
    }
    return RON_OK;
}

enum ron_rc ron__tls_load(const struct ron_tls_ctx *ctx, struct tls_loaded *ret_loaded,
                          struct ron_err *err)
{
    struct tls_loaded loaded = {.ssl = SSL_CTX_new(TLS_server_method())};
    enum ron_rc rc = RON_OK;

    if (loaded.ssl == NULL) {
        ERR_clear_error();
        return ron_err_set(err, RON_NOMEM, "tls: no memory");
    }
    (void)SSL_CTX_set_app_data(loaded.ssl, (void *)(uintptr_t)ctx);
    RON_GOTO(set_protocol(ctx, loaded.ssl, err), out);
    RON_GOTO(load_pair(ctx, &loaded, err), out);
    RON_GOTO(load_authorities(ctx, loaded.ssl, err), out);
    *ret_loaded = loaded;
    return RON_OK;
out:
    SSL_CTX_free(loaded.ssl);
    return rc;
}
