/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a peer is trusted by the target's authority and name or not at all, and a client shows its
 * certificate where it has one. Method: our own TLS server with an authority made for the test. */
#include "unit/http/client_fixture.h"
#include "unit/http/tls_certs.h"

#include "ron/http/server.h"
#include "ron/http/tls.h"

struct tls {
    struct pki pki;
    struct pki_id ca;
    struct pki_id other_ca;
    struct pki_id server;
    struct pki_id client;
    struct cl *cl;
    struct ron_tls_ctx *ctx;
    struct ron_http_server *http;
    char port[8];
    char url[128];
};

static void serve_hi(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_answer(call, 200, "text/plain", "hi", 2);
}

static void tls_open(struct tls *t, enum ron_tls_client client)
{
    static const struct ron_http_route route = {RON_HTTP_GET, "/hi", serve_hi, NULL, 0, 0};
    struct ron_http_listener listener = {.addr = "127.0.0.1:0"};
    const char *addr;

    pki_open(&t->pki);
    t->ca = pki_make(&(struct pki_want){.cn = "test authority", .is_ca = true});
    t->other_ca = pki_make(&(struct pki_want){.cn = "other authority", .is_ca = true});
    t->server =
        pki_make(&(struct pki_want){.cn = "localhost", .san = "DNS:localhost", .issuer = &t->ca});
    t->client =
        pki_make(&(struct pki_want){.cn = "wallet", .issuer = &t->ca, .purpose = "clientAuth"});
    pki_save(&t->pki, "s.pem", "s.key", &t->server, &t->ca);
    pki_save(&t->pki, "c.pem", "c.key", &t->client, &t->ca);
    pki_write_certs(&t->pki, "ca.pem", (const struct pki_id *[]){&t->ca}, 1);
    pki_write_certs(&t->pki, "other.pem", (const struct pki_id *[]){&t->other_ca}, 1);
    assert_int_equal(
        ron_tls_ctx_new(&(struct ron_tls_opts){.env = ron_env_linux(),
                                               .cert_file = pki_path(&t->pki, "s.pem"),
                                               .key_file = pki_path(&t->pki, "s.key"),
                                               .client_ca_file = pki_path(&t->pki, "ca.pem"),
                                               .client = client},
                        &t->ctx, NULL),
        RON_OK);
    listener.tls = t->ctx;
    t->cl = cl_open((struct ron_http_target_opts){.name = "trusting",
                                                  .flags = RON_HTTP_TARGET_LOOPBACK,
                                                  .ca_file = pki_path(&t->pki, "ca.pem")});
    assert_int_equal(ron_http_server_new(&(struct ron_http_opts){.name = "http",
                                                                 .env = &t->cl->fx->env,
                                                                 .registry = t->cl->fx->reg,
                                                                 .workers = 2,
                                                                 .listeners = &listener,
                                                                 .listener_count = 1,
                                                                 .routes = &route,
                                                                 .route_count = 1},
                                         &t->http, NULL),
                     RON_OK);
    assert_int_equal(ron_http_server_attach(t->http, t->cl->fx->sup, NULL), RON_OK);
    addr = ron_http_server_addr(t->http);
    (void)snprintf(t->port, sizeof t->port, "%s", strrchr(addr, ':') + 1);
}

static void tls_close(struct tls *t)
{
    struct cl *cl = t->cl;

    assert_int_equal(fx_stop(cl->fx), RON_EXIT_DRAINED);
    ron_sup_free(cl->fx->sup);
    assert_true(ron_exec_free(cl->fx->exec));
    assert_true(ron_http_server_free(t->http));
    assert_true(ron_http_client_free(cl->client));
    ron_tls_ctx_free(t->ctx);
    ron_registry_free(cl->fx->reg);
    peer_close(cl->peer);
    fx_gate_done(&cl->fx->ended);
    fx_gate_done(&cl->fx->logged);
    free(cl->fx);
    fx_gate_done(&cl->done);
    free(cl);
    pki_free(&t->ca);
    pki_free(&t->other_ca);
    pki_free(&t->server);
    pki_free(&t->client);
    pki_close(&t->pki);
}

static void expect(struct tls *t, struct ron_http_target *target, const char *host,
                   enum ron_http_fetch_reason reason)
{
    (void)snprintf(t->url, sizeof t->url, "https://%s:%s/hi", host, t->port);
    cl_expect(t->cl, target, (struct ron_http_fetch_opts){.url = t->url}, reason,
              reason == RON_HTTP_FETCH_ANSWERED ? 200 : 0);
}

static void test_tls__authority_and_name__both_must_fit(void **state)
{
    struct tls t = {0};
    struct ron_http_target *system;
    struct ron_http_target *other;

    (void)state;
    tls_open(&t, RON_TLS_CLIENT_OPTIONAL);
    system = cl_target(
        t.cl, (struct ron_http_target_opts){.name = "system", .flags = RON_HTTP_TARGET_LOOPBACK});
    other =
        cl_target(t.cl, (struct ron_http_target_opts){.name = "other",
                                                      .flags = RON_HTTP_TARGET_LOOPBACK,
                                                      .ca_file = pki_path(&t.pki, "other.pem")});
    cl_start(t.cl);
    expect(&t, t.cl->t, "localhost", RON_HTTP_FETCH_ANSWERED);
    /* The connection above lies idle; who does not trust its authority may not use it. */
    expect(&t, system, "localhost", RON_HTTP_FETCH_TLS);
    expect(&t, other, "localhost", RON_HTTP_FETCH_TLS);
    expect(&t, t.cl->t, "127.0.0.1", RON_HTTP_FETCH_TLS); /* the certificate has no such name */
    expect(&t, t.cl->t, "localhost", RON_HTTP_FETCH_ANSWERED);
    tls_close(&t);
}

static void test_tls__client_certificate__shown_or_refused(void **state)
{
    struct tls t = {0};
    struct ron_http_target *known;
    struct ron_http_fetch *f;

    (void)state;
    tls_open(&t, RON_TLS_CLIENT_REQUIRED);
    known = cl_target(t.cl, (struct ron_http_target_opts){.name = "known",
                                                          .flags = RON_HTTP_TARGET_LOOPBACK,
                                                          .ca_file = pki_path(&t.pki, "ca.pem"),
                                                          .cert_file = pki_path(&t.pki, "c.pem"),
                                                          .key_file = pki_path(&t.pki, "c.key")});
    cl_start(t.cl);
    expect(&t, known, "localhost", RON_HTTP_FETCH_ANSWERED);
    (void)snprintf(t.url, sizeof t.url, "https://localhost:%s/hi", t.port);
    f = cl_call(t.cl, t.cl->t, (struct ron_http_fetch_opts){.url = t.url});
    assert_int_equal(ron_http_fetch_result(f)->status, 0);
    /* TLS 1.3 refuses after the client's handshake is done, so the fault is seen when reading. */
    assert_true(ron_http_fetch_result(f)->reason == RON_HTTP_FETCH_BROKEN ||
                ron_http_fetch_result(f)->reason == RON_HTTP_FETCH_TLS);
    ron_http_fetch_release(f);
    tls_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls__authority_and_name__both_must_fit),
        cmocka_unit_test(test_tls__client_certificate__shown_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
