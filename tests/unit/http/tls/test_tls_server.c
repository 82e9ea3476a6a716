/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the server over TLS: requests, large answers to slow readers, handshakes that never end,
 * drain, and reload while workers serve.
 * Method: the fixture's server with a TLS context, and OpenSSL's client on real sockets. */
#include "unit/http/fixture.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "http/tls/lane.h"
#include "unit/http/tls_certs.h"

struct world {
    struct pki pki;
    struct ron_tls_ctx *ctx;
    SSL_CTX *client;
};

static void save(const struct pki *pki, const char *cn)
{
    struct pki_id id = pki_make(&(struct pki_want){.cn = cn});

    pki_save(pki, "s.pem", "s.key", &id, NULL);
    pki_free(&id);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    pki_open(&w->pki);
    save(&w->pki, "localhost");
    w->client = SSL_CTX_new(TLS_client_method());
    assert_non_null(w->client);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    SSL_CTX_free(w->client);
    ron_tls_ctx_free(w->ctx);
    pki_close(&w->pki);
    free(w);
    return 0;
}

static struct web *serve(struct world *w, uint32_t workers, struct ron_http_opts o,
                         uint32_t handshakes_max)
{
    struct ron_err err = {0};

    if (ron_tls_ctx_new(&(struct ron_tls_opts){.env = ron_env_linux(),
                                               .cert_file = pki_path(&w->pki, "s.pem"),
                                               .key_file = pki_path(&w->pki, "s.key"),
                                               .handshakes_max = handshakes_max},
                        &w->ctx, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    o.listeners = &(struct ron_http_listener){.addr = "127.0.0.1:0", .tls = w->ctx};
    o.listener_count = 1;
    return web_open(workers, o);
}

static struct ron_tls_counters tls_counters(const struct world *w)
{
    struct ron_tls_counters c;

    ron_tls_ctx_counters(w->ctx, &c);
    return c;
}

/* Blocking, with the fixture's time limit. */
static SSL *tls_connect(struct world *w, struct cli *c, const struct web *web)
{
    SSL *ssl = SSL_new(w->client);

    assert_non_null(ssl);
    cli_open(c, web);
    assert_int_equal(SSL_set_fd(ssl, c->fd), 1);
    if (SSL_connect(ssl) != 1) {
        fail_msg("connect: %s", ERR_reason_error_string(ERR_peek_error()));
    }
    return ssl;
}

static void tls_say(SSL *ssl, const char *text)
{
    assert_int_equal(SSL_write(ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* Reads until the text has come. */
static void tls_expect(SSL *ssl, const char *part)
{
    char in[4096];
    size_t have = 0;

    do {
        int n = SSL_read(ssl, in + have, (int)(sizeof in - 1 - have));

        if (n <= 0) {
            fail_msg("'%s' did not come: '%.*s'", part, (int)have, in);
        }
        have += (size_t)n;
        in[have] = '\0';
    } while (strstr(in, part) == NULL && have < sizeof in - 1);
}

static void test_tls_server__requests__answered_on_one_connection(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 2, (struct ron_http_opts){0}, 0);
    struct cli c;
    SSL *ssl = tls_connect(w, &c, web);

    for (int i = 0; i < 3; i++) {
        tls_say(ssl, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        tls_expect(ssl, "\r\n\r\nhello");
    }
    tls_say(ssl, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\nGET /n/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    tls_expect(ssl, "n=7");
    tls_say(ssl, "POST /defer HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    web_send_reply(web_reply(web, 0), "late");
    tls_expect(ssl, "late");
    assert_int_equal(tls_counters(w).full, 1);
    SSL_free(ssl);
    cli_close(&c);
    web_close(web);
}

static void test_tls_server__large_answer_read_late__whole(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){0}, 0);
    static char in[65536];
    size_t total = 0;
    struct cli c;
    SSL *ssl = tls_connect(w, &c, web);
    int n;

    tls_say(ssl, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_true(fx_gate_reached(&web->answered, 1)); /* all that fits is on its way */
    while ((n = SSL_read(ssl, in, sizeof in)) > 0) {
        total += (size_t)n;
    }
    assert_int_equal(SSL_get_error(ssl, n), SSL_ERROR_ZERO_RETURN); /* close_notify, then FIN */
    assert_true(total > WEB_BIG && total < WEB_BIG + 1000);
    SSL_free(ssl);
    cli_close(&c);
    web_close(web);
}

/* ---- lent bodies ----------------------------------------------------------------------------- */

enum { LENT = 3 << 20, ROOM = 8192 };

static char *lent;
static int lent_fd = -1;

static void on_lent(struct ron_http_call *call, void *arg)
{
    struct ron_http_blob blob = {.bytes = arg == NULL ? lent : NULL, .fd = lent_fd, .length = LENT};

    ron_http_answer_blob(call, 200, "application/octet-stream", &blob);
}

/* A file cannot be given to the system unencrypted; it is read, and comes whole all the same. */
static void test_tls_server__lent_memory_and_file__whole(void **state)
{
    static const struct ron_http_route routes[] = {
        {RON_HTTP_GET, "/memory", on_lent, NULL, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/file", on_lent, &lent, RON_HTTP_INLINE, 0},
    };
    static const char *const paths[] = {"memory", "file"};
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){.routes = routes, .route_count = 2}, 0);
    char *in = malloc(LENT + ROOM);

    lent = malloc(LENT);
    assert_non_null(lent);
    assert_non_null(in);
    for (size_t i = 0; i < LENT; i++) {
        lent[i] = (char)(i * 7 + i / 4093);
    }
    pki_write(&w->pki, "lent", lent, LENT, 0600);
    lent_fd = open(pki_path(&w->pki, "lent"), O_RDONLY | O_CLOEXEC);
    assert_true(lent_fd >= 0);
    for (int i = 0; i < 2; i++) {
        char request[96];
        size_t total = 0;
        struct cli c;
        SSL *ssl = tls_connect(w, &c, web);
        int n;

        (void)snprintf(request, sizeof request,
                       "GET /%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", paths[i]);
        tls_say(ssl, request);
        while ((n = SSL_read(ssl, in + total, 5000)) > 0) {
            total += (size_t)n;
            assert_true(total + 5000 <= LENT + ROOM);
        }
        assert_int_equal(SSL_get_error(ssl, n), SSL_ERROR_ZERO_RETURN);
        assert_true(total > LENT);
        assert_memory_equal(in + total - LENT, lent, LENT);
        SSL_free(ssl);
        cli_close(&c);
    }
    web_close(web);
    (void)close(lent_fd);
    free(lent);
    free(in);
}

static void test_tls_server__handshake_never_ends__closed_in_time(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){.read_timeout_ms = 50}, 0);
    struct cli silent;
    struct cli begun;

    cli_open(&silent, web);
    cli_open(&begun, web);
    cli_send(&begun, "\x16\x03\x01\x01\x00", 5);
    cli_expect_end(&silent);
    cli_expect_end(&begun);
    assert_int_equal(tls_counters(w).failures[RON_TLS_FAIL_TIMEOUT], 2);
    assert_int_equal(web_counters(web).read_timeouts, 2);
    assert_int_equal(tls_counters(w).shaking, 0);
    cli_close(&silent);
    cli_close(&begun);
    web_close(web);
}

static void test_tls_server__half_open_handshakes__others_served(void **state)
{
    enum { HALF = 64 };
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){0}, 8);
    static struct cli half[HALF];
    struct cli c;
    SSL *ssl;

    for (int i = 0; i < HALF; i++) {
        cli_open(&half[i], web);
        cli_send(&half[i], "\x16\x03\x01\x01\x00", 5);
    }
    ssl = tls_connect(w, &c, web);
    tls_say(ssl, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    tls_expect(ssl, "hi");
    assert_true(tls_counters(w).failures[RON_TLS_FAIL_CROWDED] >= HALF - 8);
    assert_true(tls_counters(w).shaking <= 8);
    SSL_free(ssl);
    cli_close(&c);
    for (int i = 0; i < HALF; i++) {
        cli_close(&half[i]);
    }
    web_close(web);
}

static void test_tls_server__plain_http__closed_without_an_answer(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){0}, 0);
    struct cli c;

    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_expect_end(&c);
    assert_int_equal(tls_counters(w).failures[RON_TLS_FAIL_NOT_TLS], 1);
    cli_close(&c);
    web_close(web);
}

/* More connections than allowed: the handshake is not even begun. */
static void test_tls_server__too_many_connections__closed(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){.connections_max = 1}, 0);
    struct cli first;
    struct cli second;
    SSL *ssl = tls_connect(w, &first, web);

    cli_open(&second, web);
    cli_expect_end(&second);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_CONNECTIONS], 1);
    tls_say(ssl, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    tls_expect(ssl, "hi");
    SSL_free(ssl);
    cli_close(&first);
    cli_close(&second);
    web_close(web);
}

static void test_tls_server__drain__idle_connection_gets_close_notify(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 1, (struct ron_http_opts){0}, 0);
    struct cli c;
    struct cli half;
    SSL *ssl = tls_connect(w, &c, web);
    char in[16];

    tls_say(ssl, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    tls_expect(ssl, "hi");
    cli_open(&half, web);
    cli_send(&half, "\x16\x03\x01\x01\x00", 5);
    assert_int_equal(fx_stop(web->fx), RON_EXIT_DRAINED);
    assert_int_equal(SSL_get_error(ssl, SSL_read(ssl, in, sizeof in)), SSL_ERROR_ZERO_RETURN);
    cli_expect_end(&half);
    SSL_free(ssl);
    cli_close(&c);
    cli_close(&half);
    assert_int_equal(web_counters(web).connections, 0);
    web_free(web);
}

/* ---- reload under load ----------------------------------------------------------------------- */

struct crowd {
    struct world *w;
    struct web *web;
    struct ron_au32 stop;
    struct ron_au32 served;
    struct ron_au32 failed;
};

static bool visit(struct crowd *k, SSL *ssl)
{
    char in[1024];
    static const char request[] = "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n";

    (void)k;
    return SSL_write(ssl, request, sizeof request - 1) > 0 && SSL_read(ssl, in, sizeof in) > 0;
}

/* New connections all the time, and one that stays. */
static void crowd_main(void *arg)
{
    struct crowd *k = arg;
    SSL *kept = NULL;
    struct cli kept_cli = {.fd = -1};

    while (ron_au32_load(&k->stop) == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        SSL *ssl = SSL_new(k->w->client);
        bool good = connect(fd, (const struct sockaddr *)&k->web->addr, sizeof k->web->addr) == 0 &&
                    SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1 && visit(k, ssl) &&
                    (kept == NULL || visit(k, kept));

        (void)ron_au32_add(good ? &k->served : &k->failed, 1);
        if (kept == NULL && good) {
            kept = ssl;
            kept_cli.fd = fd;
        } else {
            SSL_free(ssl);
            (void)close(fd);
        }
    }
    SSL_free(kept);
    if (kept_cli.fd >= 0) {
        (void)close(kept_cli.fd);
    }
}

static void test_tls_server__reload_under_load__nobody_fails(void **state)
{
    struct world *w = *state;
    struct web *web = serve(w, 2, (struct ron_http_opts){0}, 0);
    struct crowd crowd = {.w = w, .web = web};
    struct ron_thread *threads[2];
    int reloads = 0;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "crowd",
                                                                    .may_block = true,
                                                                    .main = crowd_main,
                                                                    .arg = &crowd},
                                          &threads[i], NULL),
                         RON_OK);
    }
    while (ron_au32_load(&crowd.served) < 100 && ron_au32_load(&crowd.failed) == 0) {
        struct ron_err err = {0};

        save(&w->pki, reloads % 2 == 0 ? "even" : "odd");
        if (ron_tls_ctx_reload(w->ctx, &err) != RON_OK) {
            fail_msg("%s", err.msg);
        }
        reloads++;
    }
    ron_au32_store(&crowd.stop, 1);
    ron_thread_join(threads[0]);
    ron_thread_join(threads[1]);
    assert_int_equal(ron_au32_load(&crowd.failed), 0);
    assert_int_equal(tls_counters(w).reloads, reloads);
    web_close(web);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_tls_server__requests__answered_on_one_connection),
        CASE(test_tls_server__large_answer_read_late__whole),
        CASE(test_tls_server__lent_memory_and_file__whole),
        CASE(test_tls_server__handshake_never_ends__closed_in_time),
        CASE(test_tls_server__half_open_handshakes__others_served),
        CASE(test_tls_server__plain_http__closed_without_an_answer),
        CASE(test_tls_server__too_many_connections__closed),
        CASE(test_tls_server__drain__idle_connection_gets_close_notify),
        CASE(test_tls_server__reload_under_load__nobody_fails),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("http.tls_server", tests, NULL, NULL);
}
