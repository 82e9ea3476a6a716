/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: clients that come back and clients with certificates: tickets open as long as they should
 * and no longer, a certificate is verified, told, and verified anew when the authorities change.
 * Method: as in test_tls.c; the clock is moved over periods and ends of certificates. */
#include "unit/http/tls_world.h"

/* ---- tickets --------------------------------------------------------------------------------- */

/* A connection whose ticket is kept; the caller frees the session. */
static SSL_SESSION *ticket_of(struct world *w)
{
    SSL_SESSION *session;
    struct pair p;

    connected(w, &p, NULL);
    session = SSL_get1_session(p.client);
    pair_close(&p);
    return session;
}

static bool resumes(struct world *w, SSL_SESSION *session)
{
    struct pair p;
    bool reused;

    connected(w, &p, session);
    reused = SSL_session_reused(p.client) == 1;
    pair_close(&p);
    return reused;
}

static void test_tls__ticket__opens_for_two_periods_and_across_a_reload(void **state)
{
    struct world *w = *state;
    SSL_SESSION *session;

    serve(w, (struct ron_tls_opts){.ticket_rotate_s = 3600});
    session = ticket_of(w);
    assert_int_equal(SSL_SESSION_has_ticket(session), 1);
    assert_true(resumes(w, session));
    assert_int_equal(counters(w).resumed, 1);
    assert_int_equal(ron_tls_ctx_reload(w->ctx, NULL), RON_OK);
    assert_true(resumes(w, session));
    port.skew_ms += 3601 * 1000; /* sealed with the key before */
    assert_true(resumes(w, session));
    port.skew_ms += 3600 * 1000;
    assert_false(resumes(w, session));
    SSL_SESSION_free(session);
}

static void test_tls__no_tickets__never_resumes(void **state)
{
    struct world *w = *state;
    SSL_SESSION *session;

    serve(w, (struct ron_tls_opts){.no_tickets = true, .allow_tls12 = true});
    session = ticket_of(w);
    assert_int_equal(SSL_SESSION_has_ticket(session), 0);
    assert_false(resumes(w, session));
    SSL_SESSION_free(session);
    assert_int_equal(SSL_CTX_set_max_proto_version(w->client, TLS1_2_VERSION), 1);
    session = ticket_of(w);
    assert_false(resumes(w, session));
    SSL_SESSION_free(session);
}

/* ---- client certificates --------------------------------------------------------------------- */

static void test_tls__client_certificate__names_are_told(void **state)
{
    static const struct {
        enum ron_tls_name_kind kind;
        const char *text;
    } names[] = {
        {RON_TLS_NAME_DNS, "wallet.example"},  {RON_TLS_NAME_URI, "spiffe://a/wallet"},
        {RON_TLS_NAME_EMAIL, "w@example.org"}, {RON_TLS_NAME_IP, "10.0.0.7"},
        {RON_TLS_NAME_IP, "[2001:db8::7]"},
    };
    struct world *w = *state;
    uint8_t print[RON_TLS_FINGERPRINT_BYTES];
    unsigned print_len = 0;
    struct ron_tls_peer peer;
    struct pair p;

    serve_mutual(w, RON_TLS_CLIENT_DEFAULT);
    be(w, &w->friend);
    connected(w, &p, NULL);
    assert_true(ron__tls_peer(p.t, &peer));
    assert_string_equal(peer.common_name, "wallet");
    assert_int_equal(peer.name_count, RON_ARRAY_LEN(names));
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        assert_int_equal(peer.names[i].kind, names[i].kind);
        assert_string_equal(peer.names[i].text, names[i].text);
    }
    assert_int_equal(peer.names_left_out, 0);
    assert_int_equal(X509_digest(w->friend.cert, EVP_sha256(), print, &print_len), 1);
    assert_memory_equal(peer.fingerprint, print, sizeof print);
    pair_close(&p);
}

static void test_tls__no_client_certificate__refused_or_anonymous(void **state)
{
    struct world *w = *state;
    struct ron_tls_peer peer;
    struct pair p;

    serve_mutual(w, RON_TLS_CLIENT_REQUIRED);
    refused(w, RON_TLS_FAIL_NO_CERTIFICATE);
    ron_tls_ctx_free(w->ctx);
    serve_mutual(w, RON_TLS_CLIENT_OPTIONAL);
    connected(w, &p, NULL);
    assert_false(ron__tls_peer(p.t, &peer));
    pair_close(&p);
}

static void test_tls__client_certificate_of_others__refused_even_if_optional(void **state)
{
    struct world *w = *state;

    be(w, &w->stranger);
    serve_mutual(w, RON_TLS_CLIENT_REQUIRED);
    refused(w, RON_TLS_FAIL_CERTIFICATE);
    ron_tls_ctx_free(w->ctx);
    serve_mutual(w, RON_TLS_CLIENT_OPTIONAL);
    refused(w, RON_TLS_FAIL_CERTIFICATE);
}

static void test_tls__client_certificate_of_a_server__refused(void **state)
{
    struct world *w = *state;
    struct pki_id server =
        pki_make(&(struct pki_want){.cn = "x", .issuer = &w->ca, .purpose = "serverAuth"});

    be(w, &server);
    serve_mutual(w, RON_TLS_CLIENT_REQUIRED);
    refused(w, RON_TLS_FAIL_CERTIFICATE);
    pki_free(&server);
}

static void test_tls__client_certificate_ended__refused_by_our_clock(void **state)
{
    struct world *w = *state;

    be(w, &w->friend);
    serve_mutual(w, RON_TLS_CLIENT_REQUIRED);
    port.skew_ms = UINT64_C(11) * PKI_HOUR * 1000;
    refused(w, RON_TLS_FAIL_CERTIFICATE);
}

static void test_tls__resumed_client__keeps_its_name_until_the_certificate_ends(void **state)
{
    struct world *w = *state;
    struct ron_tls_peer peer;
    SSL_SESSION *session;
    struct pair p;

    be(w, &w->friend);
    serve(w, (struct ron_tls_opts){.client_ca_file = pki_path(&w->pki, "ca.pem"),
                                   .ticket_rotate_s = 86400});
    session = ticket_of(w);
    connected(w, &p, session);
    assert_int_equal(SSL_session_reused(p.client), 1);
    assert_true(ron__tls_peer(p.t, &peer));
    assert_string_equal(peer.common_name, "wallet");
    pair_close(&p);
    port.skew_ms = UINT64_C(11) * PKI_HOUR * 1000;
    connect_pair(w, &p, session);
    assert_false(pair_shake(&p));
    pair_close(&p);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_CERTIFICATE], 1);
    SSL_SESSION_free(session);
}

static void test_tls__authorities_changed__old_tickets_do_not_open(void **state)
{
    struct world *w = *state;
    struct pki_id other = pki_make(&(struct pki_want){.cn = "other authority", .is_ca = true});
    SSL_SESSION *session;
    struct pair p;

    be(w, &w->friend);
    serve_mutual(w, RON_TLS_CLIENT_REQUIRED);
    session = ticket_of(w);
    assert_true(resumes(w, session));
    pki_write_certs(&w->pki, "ca.pem", (const struct pki_id *[]){&other}, 1);
    assert_int_equal(ron_tls_ctx_reload(w->ctx, NULL), RON_OK);
    connect_pair(w, &p, session);
    assert_false(pair_shake(&p));
    pair_close(&p);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_CERTIFICATE], 1);
    SSL_SESSION_free(session);
    pki_free(&other);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_tls__ticket__opens_for_two_periods_and_across_a_reload),
        CASE(test_tls__no_tickets__never_resumes),
        CASE(test_tls__client_certificate__names_are_told),
        CASE(test_tls__no_client_certificate__refused_or_anonymous),
        CASE(test_tls__client_certificate_of_others__refused_even_if_optional),
        CASE(test_tls__client_certificate_of_a_server__refused),
        CASE(test_tls__client_certificate_ended__refused_by_our_clock),
        CASE(test_tls__resumed_client__keeps_its_name_until_the_certificate_ends),
        CASE(test_tls__authorities_changed__old_tickets_do_not_open),
    };

    return cmocka_run_group_tests_name("http.tls_peers", tests, NULL, NULL);
}
