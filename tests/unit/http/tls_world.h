/* SPDX-License-Identifier: Apache-2.0 */
/* tls_world.h - one authority, a server, two clients and a lane: what each TLS test begins with.
 *
 * Place: tests of http's TLS. */
#pragma once

#include "http/tls/lane.h"
#include "unit/http/tls_pair.h"

enum { BIG = 400000 };

struct world {
    struct pki pki;
    struct pki_id ca;
    struct pki_id server;
    struct pki_id friend; /* a client of `ca` */
    struct pki_id stranger;
    const struct ron_env *env;
    struct tls_lane lane;
    struct ron_tls_ctx *ctx;
    SSL_CTX *client;
    char *big;
};

static inline void on_evict(void *owner)
{
    struct pair *p = owner;

    ron__tls_close(p->t);
    p->t = NULL;
}

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    pki_open(&w->pki);
    w->ca = pki_make(&(struct pki_want){.cn = "test authority", .is_ca = true});
    w->server = pki_make(&(struct pki_want){
        .cn = "localhost", .san = "DNS:localhost", .issuer = &w->ca, .until_s = 100L * PKI_HOUR});
    w->friend = pki_make(&(struct pki_want){.cn = "wallet",
                                            .san = "DNS:wallet.example,URI:spiffe://a/wallet,"
                                                   "email:w@example.org,IP:10.0.0.7,IP:2001:db8::7",
                                            .issuer = &w->ca,
                                            .purpose = "clientAuth",
                                            .until_s = 10L * PKI_HOUR});
    w->stranger = pki_make(&(struct pki_want){.cn = "wallet"});
    pki_save(&w->pki, "s.pem", "s.key", &w->server, &w->ca);
    pki_write_certs(&w->pki, "ca.pem", (const struct pki_id *[]){&w->ca}, 1);
    w->env = port_env();
    assert_int_equal(ron__tls_lane_init(&w->lane, w->env, 16, on_evict), RON_OK);
    w->client = pair_client_ctx(TLS1_2_VERSION, TLS1_3_VERSION);
    w->big = malloc(BIG);
    assert_non_null(w->big);
    for (size_t i = 0; i < BIG; i++) {
        w->big[i] = (char)(i * 31 + i / 251);
    }
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;

    SSL_CTX_free(w->client);
    assert_int_equal(w->lane.scratch_len, 0);
    assert_int_equal(w->lane.shaking_count, 0);
    ron__tls_lane_done(&w->lane);
    ron_tls_ctx_free(w->ctx);
    pki_free(&w->ca);
    pki_free(&w->server);
    pki_free(&w->friend);
    pki_free(&w->stranger);
    pki_close(&w->pki);
    free(w->big);
    free(w);
    return 0;
}

/* Serves with these options; the files are those of the world. */
static inline void serve(struct world *w, struct ron_tls_opts o)
{
    struct ron_err err = {0};

    o.env = w->env;
    o.cert_file = pki_path(&w->pki, "s.pem");
    o.key_file = pki_path(&w->pki, "s.key");
    if (ron_tls_ctx_new(&o, &w->ctx, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
}

static inline void serve_mutual(struct world *w, enum ron_tls_client client)
{
    serve(w,
          (struct ron_tls_opts){.client_ca_file = pki_path(&w->pki, "ca.pem"), .client = client});
}

static inline struct ron_tls_counters counters(const struct world *w)
{
    struct ron_tls_counters c;

    ron_tls_ctx_counters(w->ctx, &c);
    return c;
}

static inline void be(struct world *w, const struct pki_id *who)
{
    assert_int_equal(SSL_CTX_use_certificate(w->client, who->cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(w->client, who->key), 1);
}

static inline void connect_pair(struct world *w, struct pair *p, SSL_SESSION *session)
{
    pair_open(p, &w->lane, w->ctx, &(struct pair_opts){.ctx = w->client, .session = session});
    assert_non_null(p->t);
}

/* Connected, or the test fails. */
static inline void connected(struct world *w, struct pair *p, SSL_SESSION *session)
{
    connect_pair(w, p, session);
    if (!pair_shake(p)) {
        fail_msg("no handshake: %s", ron_rc_name(p->rc));
    }
    p->records = 0;
}

static inline void refused(struct world *w, enum ron_tls_failure why)
{
    struct pair p;

    connect_pair(w, &p, NULL);
    assert_false(pair_shake(&p));
    assert_int_equal(p.rc, RON_DENIED);
    pair_close(&p);
    for (int i = 0; i < RON_TLS_FAIL_COUNT; i++) {
        if (counters(w).failures[i] != (i == (int)why ? 1 : 0)) {
            fail_msg("%s: %d", ron_tls_failure_label((enum ron_tls_failure)i),
                     (int)counters(w).failures[i]);
        }
    }
}
