/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: files that would fail a client are refused before, with a message that names file, line and
 * remedy; a reload swaps everything or nothing, and connections go on.
 * Method: one good set of files, and one change at a time. */
#include "http/tls/lane.h"
#include "unit/http/tls_pair.h"

struct world {
    struct pki pki;
    struct pki_id ca;
    struct pki_id server;
    const struct ron_env *env;
    struct ron_tls_opts opts;
    char paths[3][PKI_PATH];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    pki_open(&w->pki);
    w->ca = pki_make(&(struct pki_want){.cn = "test authority", .is_ca = true});
    w->server = pki_make(&(struct pki_want){.cn = "first", .issuer = &w->ca});
    pki_save(&w->pki, "s.pem", "s.key", &w->server, &w->ca);
    pki_write_certs(&w->pki, "ca.pem", (const struct pki_id *[]){&w->ca}, 1);
    w->env = port_env();
    (void)snprintf(w->paths[0], PKI_PATH, "%s", pki_path(&w->pki, "s.pem"));
    (void)snprintf(w->paths[1], PKI_PATH, "%s", pki_path(&w->pki, "s.key"));
    (void)snprintf(w->paths[2], PKI_PATH, "%s", pki_path(&w->pki, "ca.pem"));
    w->opts = (struct ron_tls_opts){.env = w->env,
                                    .cert_file = w->paths[0],
                                    .key_file = w->paths[1],
                                    .client_ca_file = w->paths[2]};
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    pki_free(&w->ca);
    pki_free(&w->server);
    pki_close(&w->pki);
    free(w);
    return 0;
}

static struct ron_tls_ctx *made(const struct world *w)
{
    struct ron_tls_ctx *ctx = NULL;
    struct ron_err err = {0};

    if (ron_tls_ctx_new(&w->opts, &ctx, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    return ctx;
}

/* Refused with this code, and a message that holds all the texts. */
static void refused(const struct world *w, enum ron_rc rc, const char *const *texts)
{
    struct ron_tls_ctx *ctx = NULL;
    struct ron_err err = {0};

    assert_int_equal(ron_tls_ctx_new(&w->opts, &ctx, &err), rc);
    assert_null(ctx);
    for (; *texts != NULL; texts++) {
        if (strstr(err.msg, *texts) == NULL) {
            fail_msg("'%s' is not in: %s", *texts, err.msg);
        }
    }
    assert_int_equal(ERR_peek_error(), 0);
}

#define REFUSED(w, rc, ...) refused((w), (rc), (const char *const[]){__VA_ARGS__, NULL})

static void serve_id(const struct world *w, const struct pki_want *want)
{
    struct pki_id id = pki_make(want);

    pki_save(&w->pki, "s.pem", "s.key", &id, NULL);
    pki_free(&id);
}

static void test_tls_files__all_good__described(void **state)
{
    struct world *w = *state;
    struct ron_tls_ctx *ctx = made(w);
    struct ron_tls_cert cert;
    uint8_t print[32];
    unsigned len = 0;

    ron_tls_ctx_cert(ctx, &cert);
    assert_string_equal(cert.subject, "first");
    assert_int_equal(cert.generation, 1);
    assert_int_equal(X509_digest(w->server.cert, EVP_sha256(), print, &len), 1);
    assert_memory_equal(cert.fingerprint, print, 32);
    assert_in_range(ron_tls_ctx_expiry_s(ctx), PKI_HOUR - 60, PKI_HOUR);
    port.skew_ms = UINT64_C(2) * PKI_HOUR * 1000;
    assert_true(ron_tls_ctx_expiry_s(ctx) < -PKI_HOUR + 60);
    ron_tls_ctx_free(ctx);
}

static void test_tls_files__subject_without_name__alternative_name_shown(void **state)
{
    struct world *w = *state;
    struct ron_tls_ctx *ctx;
    struct ron_tls_cert cert;

    serve_id(w, &(struct pki_want){.san = "DNS:only.example"});
    ctx = made(w);
    ron_tls_ctx_cert(ctx, &cert);
    assert_string_equal(cert.subject, "only.example");
    ron_tls_ctx_free(ctx);
}

static void test_tls_files__options__checked(void **state)
{
    struct world *w = *state;
    struct ron_tls_opts good = w->opts;

    w->opts.key_file = NULL;
    REFUSED(w, RON_INVALID, "key file");
    w->opts = good;
    w->opts.client_ca_file = NULL;
    w->opts.client = RON_TLS_CLIENT_REQUIRED;
    REFUSED(w, RON_INVALID, "client CA file");
    w->opts = good;
    w->opts.ticket_rotate_s = 5;
    REFUSED(w, RON_INVALID, "5 s", "60..86400");
    w->opts = good;
    w->opts.handshakes_max = 1 << 20;
    REFUSED(w, RON_INVALID, "handshakes");
}

static void test_tls_files__missing__named(void **state)
{
    struct world *w = *state;
    struct ron_tls_opts good = w->opts;

    w->opts.cert_file = "/nonexistent/a.pem";
    REFUSED(w, RON_NOTFOUND, "certificate", "/nonexistent/a.pem");
    w->opts = good;
    w->opts.key_file = "/nonexistent/a.key";
    REFUSED(w, RON_NOTFOUND, "key", "/nonexistent/a.key");
    w->opts = good;
    w->opts.client_ca_file = "/nonexistent/ca.pem";
    REFUSED(w, RON_NOTFOUND, "client authorities", "/nonexistent/ca.pem");
}

static void test_tls_files__key_open_to_others__refused_with_the_remedy(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666};
    struct world *w = *state;

    for (size_t i = 0; i < RON_ARRAY_LEN(modes); i++) {
        pki_write_key(&w->pki, "s.key", &w->server, modes[i], NULL);
        REFUSED(w, RON_DENIED, "s.key", "chmod 600");
    }
    pki_write_key(&w->pki, "s.key", &w->server, 0400, NULL);
    ron_tls_ctx_free(made(w));
}

static void test_tls_files__key_unusable__told_why(void **state)
{
    struct world *w = *state;
    struct pki_id other = pki_make(&(struct pki_want){.cn = "other"});

    pki_write_key(&w->pki, "s.key", &w->server, 0600, "secret");
    REFUSED(w, RON_INVALID, "s.key", "passphrase", "openssl pkey");
    pki_write(&w->pki, "s.key", "no PEM\n", 7, 0600);
    REFUSED(w, RON_INVALID, "s.key", "no private key");
    pki_write(&w->pki, "s.key", "", 0, 0600);
    REFUSED(w, RON_INVALID, "s.key", "no private key");
    pki_write_key(&w->pki, "s.key", &other, 0600, NULL);
    REFUSED(w, RON_INVALID, "s.key", "s.pem", "does not belong");
    pki_free(&other);
}

static void test_tls_files__certificate_file_damaged__line_named(void **state)
{
    static const char broken[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    struct world *w = *state;
    BIO *bio = BIO_new(BIO_s_mem());
    static char large[RON_TLS_FILE_MAX + 1];

    pki_write(&w->pki, "s.pem", "hello\n", 6, 0644);
    REFUSED(w, RON_INVALID, "s.pem", "no certificate", "BEGIN CERTIFICATE");
    assert_true(BIO_puts(bio, "# two lines of\n# comment\n\n") > 0);
    assert_true(BIO_puts(bio, broken) > 0);
    pki_write_bio(&w->pki, "s.pem", bio, 0644);
    REFUSED(w, RON_INVALID, "s.pem line 4", "damaged");
    memset(large, ' ', sizeof large);
    pki_write(&w->pki, "s.pem", large, sizeof large, 0644);
    REFUSED(w, RON_LIMIT, "s.pem", "1048577");
}

static void test_tls_files__chain_wrong__refused(void **state)
{
    struct world *w = *state;
    struct pki_id other = pki_make(&(struct pki_want){.cn = "other", .is_ca = true});
    const struct pki_id *swapped[] = {&w->server, &other};
    const struct pki_id *many[RON_TLS_CHAIN_MAX + 1];

    pki_write_certs(&w->pki, "s.pem", swapped, 2);
    REFUSED(w, RON_INVALID, "s.pem line", "certificate 2", "did not issue");
    for (size_t i = 0; i < RON_ARRAY_LEN(many); i++) {
        many[i] = &w->server;
    }
    pki_write_certs(&w->pki, "s.pem", many, RON_ARRAY_LEN(many));
    REFUSED(w, RON_LIMIT, "s.pem line", "more than 8");
    pki_free(&other);
}

static void test_tls_files__certificate_unfit__refused(void **state)
{
    struct world *w = *state;

    serve_id(w, &(struct pki_want){.cn = "a", .from_s = -7200, .until_s = -3600});
    REFUSED(w, RON_INVALID, "s.pem", "ended on 20", "renew");
    serve_id(w, &(struct pki_want){.cn = "a", .from_s = 3600, .until_s = 7200});
    REFUSED(w, RON_INVALID, "s.pem", "begins only on 20", "clock");
    serve_id(w, &(struct pki_want){.cn = "a", .purpose = "clientAuth"});
    REFUSED(w, RON_INVALID, "s.pem line 1", "not meant for servers");
    serve_id(w, &(struct pki_want){.cn = "a", .rsa_bits = 1024});
    REFUSED(w, RON_INVALID, "s.pem", "too small");
    serve_id(w, &(struct pki_want){.cn = "a", .rsa_bits = 2048});
    ron_tls_ctx_free(made(w));
}

static void test_tls_files__authority_that_is_none__line_named(void **state)
{
    struct world *w = *state;
    const struct pki_id *ids[] = {&w->ca, &w->server};

    pki_write_certs(&w->pki, "ca.pem", ids, 2);
    REFUSED(w, RON_INVALID, "ca.pem line", "certificate 2", "no authority");
}

/* ---- names ----------------------------------------------------------------------------------- */

static void test_tls_files__names_that_could_mislead__left_out(void **state)
{
    struct ron_tls_peer peer;
    struct pki_id id = pki_make(&(struct pki_want){.cn = "a", .two_names = true});
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();

    (void)state;
    for (int i = 0; i < RON_TLS_NAMES_MAX + 3; i++) {
        GENERAL_NAME *name = GENERAL_NAME_new();
        ASN1_IA5STRING *text = ASN1_IA5STRING_new();

        assert_int_equal(i == 0 ? ASN1_STRING_set(text, "a.example\0.evil.example", 23)
                                : ASN1_STRING_set(text, "b.example", 9),
                         1);
        GENERAL_NAME_set0_value(name, GEN_DNS, text);
        assert_true(sk_GENERAL_NAME_push(names, name) > 0);
    }
    assert_int_equal(X509_add1_ext_i2d(id.cert, NID_subject_alt_name, names, 0, 0), 1);
    ron__tls_names(id.cert, &peer);
    assert_string_equal(peer.common_name, ""); /* two of them */
    assert_int_equal(peer.name_count, RON_TLS_NAMES_MAX);
    assert_int_equal(peer.names_left_out, 3);
    assert_string_equal(peer.names[0].text, "b.example");
    GENERAL_NAMES_free(names);
    pki_free(&id);
}

/* ---- reload ---------------------------------------------------------------------------------- */

static void expect_served(SSL *client, const char *cn)
{
    char name[64] = "";
    X509 *cert = SSL_get0_peer_certificate(client);

    assert_non_null(cert);
    assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name,
                                          sizeof name) > 0);
    assert_string_equal(name, cn);
}

static void test_tls_files__reload__old_connections_go_on_new_ones_get_the_new(void **state)
{
    struct world *w = *state;
    struct ron_tls_ctx *ctx;
    struct tls_lane lane;
    SSL_CTX *client = pair_client_ctx(TLS1_3_VERSION, TLS1_3_VERSION);
    const struct pair_opts po = {.ctx = client};
    struct ron_tls_counters c;
    struct ron_tls_cert cert;
    struct pair old;
    struct pair begun;
    struct pair fresh;
    char in[8];
    size_t n = 0;

    w->opts.client_ca_file = NULL;
    ctx = made(w);
    assert_int_equal(ron__tls_lane_init(&lane, w->env, 8, NULL), RON_OK);
    pair_open(&old, &lane, ctx, &po);
    assert_true(pair_shake(&old));
    pair_open(&begun, &lane, ctx, &po);
    (void)SSL_do_handshake(begun.client);
    assert_int_equal(pair_server_turn(&begun), RON_AGAIN);
    serve_id(w, &(struct pki_want){.cn = "second"});
    assert_int_equal(ron_tls_ctx_reload(ctx, NULL), RON_OK);
    ron_tls_ctx_cert(ctx, &cert);
    assert_string_equal(cert.subject, "second");
    assert_int_equal(cert.generation, 2);
    assert_true(pair_shake(&begun));
    expect_served(begun.client, "first");
    pair_open(&fresh, &lane, ctx, &po);
    assert_true(pair_shake(&fresh));
    expect_served(fresh.client, "second");
    assert_int_equal(pair_write(&old, "alive", 5, NULL, 0, &n), RON_OK);
    assert_int_equal(pair_client_read(&old, in, sizeof in), 5);
    ron_tls_ctx_counters(ctx, &c);
    assert_int_equal(c.reloads, 1);
    assert_int_equal(c.full, 3);
    pair_close(&old);
    pair_close(&begun);
    pair_close(&fresh);
    ron__tls_lane_done(&lane);
    ron_tls_ctx_free(ctx);
    SSL_CTX_free(client);
}

static void test_tls_files__reload_of_bad_files__old_kept(void **state)
{
    struct world *w = *state;
    struct ron_tls_ctx *ctx = made(w);
    struct pki_id other = pki_make(&(struct pki_want){.cn = "other"});
    struct ron_tls_counters c;
    struct ron_tls_cert cert;
    struct ron_err err = {0};

    pki_write_certs(&w->pki, "s.pem", (const struct pki_id *[]){&other}, 1); /* half done */
    assert_int_equal(ron_tls_ctx_reload(ctx, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "does not belong"));
    serve_id(w, &(struct pki_want){.cn = "late", .from_s = -7200, .until_s = -3600});
    assert_int_equal(ron_tls_ctx_reload(ctx, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "ended on"));
    (void)unlink(w->paths[2]);
    serve_id(w, &(struct pki_want){.cn = "fine"});
    assert_int_equal(ron_tls_ctx_reload(ctx, &err), RON_NOTFOUND);
    ron_tls_ctx_cert(ctx, &cert);
    assert_string_equal(cert.subject, "first");
    assert_int_equal(cert.generation, 1);
    ron_tls_ctx_counters(ctx, &c);
    assert_int_equal(c.reloads, 0);
    assert_int_equal(c.reload_failures, 3);
    ron_tls_ctx_free(ctx);
    pki_free(&other);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_tls_files__all_good__described),
        CASE(test_tls_files__subject_without_name__alternative_name_shown),
        CASE(test_tls_files__options__checked),
        CASE(test_tls_files__missing__named),
        CASE(test_tls_files__key_open_to_others__refused_with_the_remedy),
        CASE(test_tls_files__key_unusable__told_why),
        CASE(test_tls_files__certificate_file_damaged__line_named),
        CASE(test_tls_files__chain_wrong__refused),
        CASE(test_tls_files__certificate_unfit__refused),
        CASE(test_tls_files__authority_that_is_none__line_named),
        CASE(test_tls_files__names_that_could_mislead__left_out),
        CASE(test_tls_files__reload__old_connections_go_on_new_ones_get_the_new),
        CASE(test_tls_files__reload_of_bad_files__old_kept),
    };

    return cmocka_run_group_tests_name("http.tls_files", tests, NULL, NULL);
}
