/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no allocation of ours or of OpenSSL, no file operation and no socket call whose failure
 * breaks more than the one context or connection that met it.
 * Method: OpenSSL's allocator asks the fault hook too. Making a context, reloading one, and a
 * connection from hello to close_notify are swept; the client's own calls never fail. */
#include "http/tls/lane.h"
#include "unit/http/tls_pair.h"

static struct pki pki;
static char paths[3][PKI_PATH];
static bool armed; /* the server is at work: OpenSSL's allocations may fail */
/* Making an SSL_CTX asks for some nine thousand blocks; one in this many may fail. */
static size_t stride = 1;

static bool ssl_fault(void)
{
    static size_t asked;

    return armed && ++asked % stride == 0 && RON_FAULT(RON_FAULT_ALLOC, "openssl");
}

static void *ssl_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return ssl_fault() ? NULL : malloc(size);
}

static void *ssl_realloc(void *ptr, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return ssl_fault() ? NULL : realloc(ptr, size);
}

static void ssl_free(void *ptr, const char *file, int line)
{
    (void)file;
    (void)line;
    free(ptr);
}

static enum ron_rc make(struct ron_tls_ctx **ret_ctx)
{
    struct ron_tls_opts o = {.env = ron_env_linux(),
                             .cert_file = paths[0],
                             .key_file = paths[1],
                             .client_ca_file = paths[2],
                             .client = RON_TLS_CLIENT_OPTIONAL};
    struct ron_err err = {0};
    enum ron_rc rc;

    armed = true;
    stride = 23;
    rc = ron_tls_ctx_new(&o, ret_ctx, &err);
    armed = false;
    RON_ASSERT(rc == RON_OK || (*ret_ctx == NULL && err.msg[0] != '\0'));
    RON_ASSERT(ERR_peek_error() == 0);
    return rc;
}

static enum ron_rc make_and_free(void *arg)
{
    struct ron_tls_ctx *ctx = NULL;
    enum ron_rc rc = make(&ctx);

    (void)arg;
    ron_tls_ctx_free(ctx);
    return rc;
}

/* OpenSSL does without some of what it asks for. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_tls__each_step_of_making_a_context_fails__nothing_left,
                             make_and_free)

static struct ron_tls_ctx *shared;

static enum ron_rc reload(void *arg)
{
    struct ron_tls_cert before;
    struct ron_tls_cert after;
    enum ron_rc rc;

    (void)arg;
    ron_tls_ctx_cert(shared, &before);
    armed = true;
    stride = 23;
    rc = ron_tls_ctx_reload(shared, NULL);
    armed = false;
    ron_tls_ctx_cert(shared, &after);
    RON_ASSERT(after.generation == before.generation + (rc == RON_OK ? 1 : 0));
    return rc;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_tls__each_step_of_a_reload_fails__old_kept, reload)

/* ---- a connection ---------------------------------------------------------------------------- */

static SSL_CTX *client;
static char big[40000];

static enum ron_rc server_step(struct pair *p, char *buf, size_t size, size_t *got)
{
    enum ron_rc rc;

    armed = true;
    rc = ron__tls_ready(p->t, RON_IO_READ | RON_IO_WRITE);
    if (rc == RON_OK) {
        rc = ron__tls_read(p->t, buf, size, got);
    }
    armed = false;
    return rc;
}

static enum ron_rc exchange(struct pair *p)
{
    char in[sizeof big];
    size_t got = 0;
    size_t sent = 0;
    enum ron_rc rc = RON_AGAIN;

    for (int i = 0; i < 20 && rc == RON_AGAIN; i++) {
        (void)SSL_do_handshake(p->client);
        if (SSL_is_init_finished(p->client) == 1) {
            (void)SSL_write(p->client, "request", 7);
        }
        rc = server_step(p, in, sizeof in, &got);
    }
    if (rc != RON_OK) {
        return rc == RON_AGAIN ? RON_INTERNAL : rc;
    }
    RON_ASSERT(got == 7 && memcmp(in, "request", 7) == 0);
    while (sent < sizeof big) {
        size_t n = 0;

        armed = true;
        rc = pair_write(p, big + sent, sizeof big - sent, NULL, 0, &n);
        armed = false;
        if (rc != RON_OK) {
            return rc;
        }
        sent += n;
    }
    RON_ASSERT(pair_client_read(p, in, sizeof in) == sizeof big);
    RON_ASSERT(memcmp(in, big, sizeof big) == 0);
    armed = true;
    ron__tls_bye(p->t);
    armed = false;
    return SSL_get_error(p->client, SSL_read(p->client, in, 1)) == SSL_ERROR_ZERO_RETURN
               ? RON_OK
               : RON_CLOSED;
}

static enum ron_rc one_connection(void *arg)
{
    struct tls_lane lane;
    struct pair p;
    enum ron_rc rc;

    (void)arg;
    stride = 1;
    RON_TRY(ron__tls_lane_init(&lane, ron_env_linux(), 4, NULL));
    pair_open(&p, &lane, shared, &(struct pair_opts){.ctx = client});
    rc = p.t == NULL ? RON_NOMEM : exchange(&p);
    pair_close(&p);
    RON_ASSERT(lane.shaking_count == 0);
    ron__tls_lane_done(&lane);
    return rc;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_tls__each_step_of_a_connection_fails__only_it_ends,
                             one_connection)

static int group_setup(void **state)
{
    struct pki_id ca;
    struct pki_id server;
    static const char *const names[] = {"s.pem", "s.key", "ca.pem"};

    (void)state;
    pki_open(&pki);
    ca = pki_make(&(struct pki_want){.cn = "ca", .is_ca = true});
    server = pki_make(&(struct pki_want){.cn = "localhost", .issuer = &ca});
    pki_save(&pki, "s.pem", "s.key", &server, &ca);
    pki_write_certs(&pki, "ca.pem", (const struct pki_id *[]){&ca}, 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s", pki_path(&pki, names[i]));
    }
    pki_free(&ca);
    pki_free(&server);
    memset(big, 'b', sizeof big);
    client = pair_client_ctx(TLS1_3_VERSION, TLS1_3_VERSION);
    return make(&shared) == RON_OK ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    ron_tls_ctx_free(shared);
    SSL_CTX_free(client);
    pki_close(&pki);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls__each_step_of_making_a_context_fails__nothing_left),
        cmocka_unit_test(test_tls__each_step_of_a_reload_fails__old_kept),
        cmocka_unit_test(test_tls__each_step_of_a_connection_fails__only_it_ends),
    };

    if (CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) != 1) {
        (void)fprintf(stderr, "OpenSSL has allocated before main\n");
        return 1;
    }
    return cmocka_run_group_tests_name("tls faults", tests, group_setup, group_teardown);
}
