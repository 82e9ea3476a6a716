/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: TLS connections as the header promises: versions, records and sends, backpressure, ends,
 * the bound on handshakes.
 * Method: the connection against OpenSSL's client over a socket pair, with counted and throttled
 * ports and a clock that the test moves; certificates are made on the spot. */
#include "unit/http/tls_world.h"

/* ---- handshake ------------------------------------------------------------------------------- */

static void test_tls__handshake__is_13_with_alpn_and_one_send_a_flight(void **state)
{
    static const unsigned char offer[] = "\x02h2\x08http/1.1";
    struct world *w = *state;
    const unsigned char *chosen = NULL;
    unsigned chosen_len = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    assert_int_equal(SSL_CTX_set_alpn_protos(w->client, offer, sizeof offer - 1), 0);
    connected(w, &p, NULL);
    assert_int_equal(SSL_version(p.client), TLS1_3_VERSION);
    SSL_get0_alpn_selected(p.client, &chosen, &chosen_len);
    assert_int_equal(chosen_len, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    /* ServerHello to Finished, then the tickets. */
    assert_int_equal(port.writes, 2);
    assert_int_equal(counters(w).full, 1);
    assert_int_equal(counters(w).shaking, 0);
    pair_close(&p);
}

static void test_tls__client_of_12__refused_unless_allowed(void **state)
{
    struct world *w = *state;
    struct pair p;

    assert_int_equal(SSL_CTX_set_max_proto_version(w->client, TLS1_2_VERSION), 1);
    serve(w, (struct ron_tls_opts){0});
    refused(w, RON_TLS_FAIL_VERSION);
    ron_tls_ctx_free(w->ctx);
    serve(w, (struct ron_tls_opts){.allow_tls12 = true});
    connected(w, &p, NULL);
    assert_int_equal(SSL_version(p.client), TLS1_2_VERSION);
    /* No renegotiation: the connection ends instead. */
    assert_int_equal(SSL_renegotiate(p.client), 1);
    (void)SSL_do_handshake(p.client);
    (void)pair_server_turn(&p);
    (void)SSL_do_handshake(p.client);
    assert_true(ERR_GET_REASON(ERR_peek_error()) == SSL_R_NO_RENEGOTIATION ||
                ERR_GET_REASON(ERR_peek_error()) == SSL_AD_REASON_OFFSET + SSL_AD_NO_RENEGOTIATION);
    assert_int_equal(counters(w).full, 1);
    pair_close(&p);
}

static void test_tls__client_without_http11__refused(void **state)
{
    struct world *w = *state;

    serve(w, (struct ron_tls_opts){0});
    assert_int_equal(SSL_CTX_set_alpn_protos(w->client, (const unsigned char *)"\x02h2", 3), 0);
    refused(w, RON_TLS_FAIL_ALPN);
}

static void test_tls__client_without_our_groups__refused(void **state)
{
    struct world *w = *state;

    serve(w, (struct ron_tls_opts){0});
    assert_int_equal(SSL_CTX_set1_groups_list(w->client, "P-521"), 1);
    refused(w, RON_TLS_FAIL_PARAMETERS);
}

static void test_tls__client_that_does_not_trust_us__counted(void **state)
{
    struct world *w = *state;

    serve(w, (struct ron_tls_opts){0});
    SSL_CTX_set_verify(w->client, SSL_VERIFY_PEER, NULL);
    refused(w, RON_TLS_FAIL_PEER_ALERT);
}

static void test_tls__plain_http__refused_before_anything_is_made(void **state)
{
    struct world *w = *state;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    assert_int_equal(write(p.fds[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_int_equal(pair_server_turn(&p), RON_DENIED);
    assert_null(p.t->ssl);
    assert_int_equal(port.writes, 0);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_NOT_TLS], 1);
    pair_close(&p);
}

static void test_tls__garbage_in_a_handshake_record__refused(void **state)
{
    struct world *w = *state;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    assert_int_equal(write(p.fds[1], "\x16\x03\x01\x00\x04\x00\x00\x00\x00", 9), 9);
    assert_int_equal(pair_server_turn(&p), RON_DENIED);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_PROTOCOL], 1);
    pair_close(&p);
}

static void test_tls__peer_leaves__counted_only_when_it_had_begun(void **state)
{
    struct world *w = *state;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    assert_null(p.t->ssl);
    assert_int_equal(shutdown(p.fds[1], SHUT_WR), 0);
    assert_int_equal(pair_server_turn(&p), RON_CLOSED);
    pair_close(&p);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_DISCONNECT], 0);
    connect_pair(w, &p, NULL);
    (void)SSL_do_handshake(p.client);
    assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    assert_int_equal(counters(w).shaking, 1);
    assert_int_equal(shutdown(p.fds[1], SHUT_WR), 0);
    assert_int_equal(pair_server_turn(&p), RON_DENIED);
    pair_close(&p);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_DISCONNECT], 1);
    assert_int_equal(counters(w).shaking, 0);
}

static void test_tls__hello_in_single_bytes__works(void **state)
{
    struct world *w = *state;
    BIO *out = BIO_new(BIO_s_mem());
    char *bytes = NULL;
    long len;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    SSL_set0_wbio(p.client, out);
    (void)SSL_do_handshake(p.client);
    len = BIO_get_mem_data(out, &bytes);
    assert_true(len > 100);
    for (long i = 0; i < len; i++) {
        assert_int_equal(write(p.fds[1], bytes + i, 1), 1);
        assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    }
    SSL_set_fd(p.client, p.fds[1]);
    assert_true(pair_shake(&p));
    pair_close(&p);
}

static void test_tls__too_many_handshakes__oldest_gives_way(void **state)
{
    struct world *w = *state;
    struct pair p[3];

    serve(w, (struct ron_tls_opts){.handshakes_max = 2});
    for (int i = 0; i < 3; i++) {
        connect_pair(w, &p[i], NULL);
        (void)SSL_do_handshake(p[i].client);
        assert_int_equal(pair_server_turn(&p[i]), RON_AGAIN);
    }
    assert_null(p[0].t);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_CROWDED], 1);
    assert_int_equal(counters(w).shaking, 2);
    assert_true(pair_shake(&p[1]));
    assert_true(pair_shake(&p[2]));
    for (int i = 0; i < 3; i++) {
        pair_close(&p[i]);
    }
}

static void test_tls__handshake_too_slow__counted_once(void **state)
{
    struct world *w = *state;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    (void)SSL_do_handshake(p.client);
    assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    ron__tls_timed_out(p.t);
    ron__tls_timed_out(p.t);
    pair_close(&p);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_TIMEOUT], 1);
    assert_int_equal(counters(w).failures[RON_TLS_FAIL_DISCONNECT], 0);
}

/* ---- records and sends ----------------------------------------------------------------------- */

static void test_tls__small_answer__one_record_one_send(void **state)
{
    struct world *w = *state;
    char in[512];
    size_t sent = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    port.writes = 0;
    assert_int_equal(pair_write(&p, w->big, 300, NULL, 0, &sent), RON_OK);
    assert_int_equal(sent, 300);
    assert_int_equal(port.writes, 1);
    assert_int_equal(pair_client_read(&p, in, sizeof in), 300);
    assert_memory_equal(in, w->big, 300);
    assert_int_equal(p.records, 1);
    pair_close(&p);
}

static void test_tls__head_and_16k_body__two_records_one_gathered_send(void **state)
{
    struct world *w = *state;
    static char in[20000];
    size_t sent = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    port.writes = 0;
    assert_int_equal(pair_write(&p, "head", 4, w->big, 16384, &sent), RON_OK);
    assert_int_equal(sent, 16388);
    assert_int_equal(port.writes, 1);
    assert_int_equal(port.gathered, 1);
    assert_int_equal(pair_client_read(&p, in, sizeof in), 16388);
    assert_memory_equal(in, "head", 4);
    assert_memory_equal(in + 4, w->big, 16384);
    assert_int_equal(p.records, 2);
    pair_close(&p);
}

/* Offers what is left, from another place each time, until everything is taken; the client reads
 * only when the server is stuck. */
static void test_tls__peer_reads_slowly__bytes_come_whole_and_in_order(void **state)
{
    struct world *w = *state;
    char *in = malloc(BIG);
    char *offer = malloc(BIG);
    size_t sent = 0;
    size_t read = 0;
    size_t stuck = 0;
    struct pair p;

    assert_non_null(in);
    assert_non_null(offer);
    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    for (int turn = 0; sent < BIG; turn++) {
        size_t n = 0;
        size_t head = turn % 2 == 0 ? RON_MIN((size_t)100, BIG - sent) : 0;
        enum ron_rc rc;

        assert_true(turn < PAIR_TURNS_MAX);
        port.write_room = (size_t)turn * 777 % 40000;
        memcpy(offer, w->big + sent, BIG - sent);
        rc = head > 0 ? pair_write(&p, offer, head, offer + head, BIG - sent - head, &n)
                      : pair_write(&p, offer, BIG - sent, NULL, 0, &n);
        memset(offer, 0, BIG);
        assert_true(rc == RON_OK || rc == RON_AGAIN);
        assert_true(ron_buf_len(&p.t->pending) <= TLS_PENDING_BYTES);
        sent += rc == RON_OK ? n : 0;
        stuck += rc == RON_AGAIN;
        read += pair_client_read(&p, in + read, BIG - read);
    }
    assert_true(stuck > 0);
    assert_int_equal(ron_buf_len(&p.t->pending), 0); /* T2 */
    read += pair_client_read(&p, in + read, BIG - read);
    assert_int_equal(read, BIG);
    assert_memory_equal(in, w->big, BIG);
    free(in);
    free(offer);
    pair_close(&p);
}

static void test_tls__handshake_into_a_full_socket__goes_on_when_it_drains(void **state)
{
    struct world *w = *state;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connect_pair(w, &p, NULL);
    (void)SSL_do_handshake(p.client);
    port.write_room = 0;
    assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    assert_true(ron_buf_len(&p.t->pending) > 0);
    for (int i = 0; i < PAIR_TURNS_MAX && ron_buf_len(&p.t->pending) > 0; i++) {
        port.write_room = 7;
        assert_int_equal(pair_server_turn(&p), RON_AGAIN);
    }
    port.write_room = SIZE_MAX;
    assert_true(pair_shake(&p));
    pair_close(&p);
}

static void test_tls__requests_in_many_records__one_receive(void **state)
{
    struct world *w = *state;
    char in[64];
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(SSL_write(p.client, "request", 7), 7);
    }
    port.reads = 0;
    assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
    for (int i = 0; i < 5; i++) {
        assert_true(ron__tls_more(p.t));
        assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_OK);
        assert_int_equal(got, 7);
    }
    assert_false(ron__tls_more(p.t));
    assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_AGAIN);
    assert_int_equal(port.reads, 1);
    pair_close(&p);
}

static void test_tls__record_larger_than_the_room__read_in_pieces(void **state)
{
    struct world *w = *state;
    char in[1000];
    size_t total = 0;
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    assert_int_equal(SSL_write(p.client, w->big, 16384), 16384);
    assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
    while (ron__tls_more(p.t) && ron__tls_read(p.t, in, sizeof in, &got) == RON_OK) {
        assert_memory_equal(in, w->big + total, got);
        total += got;
    }
    assert_int_equal(total, 16384);
    pair_close(&p);
}

static void test_tls__key_update__bytes_go_on(void **state)
{
    struct world *w = *state;
    char in[64];
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    assert_int_equal(SSL_key_update(p.client, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_write(p.client, "after", 5), 5);
    assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
    assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_OK);
    assert_int_equal(got, 5);
    assert_int_equal(pair_write(&p, "answer", 6, NULL, 0, &got), RON_OK);
    assert_int_equal(pair_client_read(&p, in, sizeof in), 6);
    pair_close(&p);
}

/* A client can make such records beforehand and send them faster than they can be worked off: one
 * call would never come back, and the worker's other connections starve. */
static void test_tls__flood_of_key_updates__cut_off(void **state)
{
    enum { FLOOD = 20000 };
    struct world *w = *state;
    BIO *made = BIO_new(BIO_s_mem());
    uint8_t *bytes = NULL;
    char in[64];
    size_t got = 0;
    long len;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    assert_non_null(made);
    SSL_set0_wbio(p.client, made);
    for (int i = 0; i < FLOOD; i++) {
        assert_int_equal(SSL_key_update(p.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(p.client), 1);
    }
    len = BIO_get_mem_data(made, &bytes);
    assert_true(len > FLOOD * 20);
    port.feed = bytes;
    port.feed_len = (size_t)len;
    port.reads = 0;
    assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
    assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_IO);
    assert_int_equal(port.reads, 1);
    assert_int_equal(pair_write(&p, "x", 1, NULL, 0, &got), RON_CLOSED);
    port.feed_len = 0;
    pair_close(&p);
}

static void test_tls__key_updates_now_and_then__for_ever(void **state)
{
    struct world *w = *state;
    char in[64];
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(SSL_key_update(p.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_write(p.client, "after", 5), 5);
        assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
        assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_OK);
        assert_int_equal(got, 5);
        port.skew_ms += 10000;
    }
    pair_close(&p);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_tls__bye__peer_sees_close_notify(void **state)
{
    struct world *w = *state;
    char in[8];
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    ron__tls_bye(p.t);
    assert_int_equal(shutdown(p.fds[0], SHUT_WR), 0);
    assert_int_equal(SSL_get_error(p.client, SSL_read(p.client, in, sizeof in)),
                     SSL_ERROR_ZERO_RETURN);
    assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_CLOSED);
    assert_int_equal(pair_write(&p, "x", 1, NULL, 0, &got), RON_CLOSED);
    pair_close(&p);
}

/* A client may close its side and still wait for the answer. */
static void test_tls__peer_ends__announced_or_not(void **state)
{
    struct world *w = *state;

    serve(w, (struct ron_tls_opts){0});
    for (int announced = 0; announced < 2; announced++) {
        char in[8];
        size_t got = 0;
        struct pair p;

        connected(w, &p, NULL);
        assert_int_equal(SSL_write(p.client, "last", 4), 4);
        if (announced == 1) {
            assert_true(SSL_shutdown(p.client) >= 0);
        }
        assert_int_equal(shutdown(p.fds[1], SHUT_WR), 0);
        assert_int_equal(ron__tls_ready(p.t, RON_IO_READ | RON_IO_HUP), RON_OK);
        assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_OK);
        assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_CLOSED);
        assert_int_equal(pair_write(&p, "answer", 6, NULL, 0, &got), RON_OK);
        assert_int_equal(counters(w).truncated, 1); /* the one that was not */
        pair_close(&p);
    }
}

static void test_tls__damaged_record__connection_is_over(void **state)
{
    struct world *w = *state;
    char in[8];
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    assert_int_equal(write(p.fds[1],
                           "\x17\x03\x03\x00\x14"
                           "01234567890123456789",
                           25),
                     25);
    assert_int_equal(ron__tls_ready(p.t, RON_IO_READ), RON_OK);
    assert_int_equal(ron__tls_read(p.t, in, sizeof in, &got), RON_IO);
    assert_int_equal(pair_write(&p, "x", 1, NULL, 0, &got), RON_CLOSED);
    pair_close(&p);
}

static void test_tls__socket_fails__closed(void **state)
{
    struct world *w = *state;
    size_t got = 0;
    struct pair p;

    serve(w, (struct ron_tls_opts){0});
    connected(w, &p, NULL);
    port.write_room = 10;
    assert_int_equal(pair_write(&p, w->big, 100, NULL, 0, &got), RON_AGAIN);
    port.write_rc = RON_IO;
    assert_int_equal(ron__tls_ready(p.t, RON_IO_WRITE), RON_CLOSED);
    assert_int_equal(pair_write(&p, w->big, 100, NULL, 0, &got), RON_CLOSED);
    ron__tls_bye(p.t);
    pair_close(&p);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_tls__handshake__is_13_with_alpn_and_one_send_a_flight),
        CASE(test_tls__client_of_12__refused_unless_allowed),
        CASE(test_tls__client_without_http11__refused),
        CASE(test_tls__client_without_our_groups__refused),
        CASE(test_tls__client_that_does_not_trust_us__counted),
        CASE(test_tls__plain_http__refused_before_anything_is_made),
        CASE(test_tls__garbage_in_a_handshake_record__refused),
        CASE(test_tls__peer_leaves__counted_only_when_it_had_begun),
        CASE(test_tls__hello_in_single_bytes__works),
        CASE(test_tls__too_many_handshakes__oldest_gives_way),
        CASE(test_tls__handshake_too_slow__counted_once),
        CASE(test_tls__small_answer__one_record_one_send),
        CASE(test_tls__head_and_16k_body__two_records_one_gathered_send),
        CASE(test_tls__peer_reads_slowly__bytes_come_whole_and_in_order),
        CASE(test_tls__handshake_into_a_full_socket__goes_on_when_it_drains),
        CASE(test_tls__requests_in_many_records__one_receive),
        CASE(test_tls__record_larger_than_the_room__read_in_pieces),
        CASE(test_tls__key_update__bytes_go_on),
        CASE(test_tls__flood_of_key_updates__cut_off),
        CASE(test_tls__key_updates_now_and_then__for_ever),
        CASE(test_tls__bye__peer_sees_close_notify),
        CASE(test_tls__peer_ends__announced_or_not),
        CASE(test_tls__damaged_record__connection_is_over),
        CASE(test_tls__socket_fails__closed),
    };

    return cmocka_run_group_tests_name("http.tls", tests, NULL, NULL);
}
