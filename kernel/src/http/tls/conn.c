/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/conn.c - one TLS connection over the network ports; states and invariants in
 * priv.h.
 *
 * Place: http, on the worker that owns the connection.
 *
 * Sending: a small answer is one record and one send, straight from OpenSSL's buffer. When more
 * records follow in the same call, small ones are gathered in the lane's scratch and leave in front
 * of the next large one with one gathered write: a head and a 16 KiB body are two records and one
 * system call. A flight of the handshake is gathered alike.
 *
 * Receiving: OpenSSL reads ahead into its own buffer, so a request costs one receive; a receive
 * that brought less than was asked for emptied the socket, and the next one is not made. */
#include <openssl/err.h>
#include <string.h>
#include <sys/uio.h>

#include "http/tls/lane.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { RECORD_HANDSHAKE = 0x16 };

/* OpenSSL's verdict looks at the thread's queue of errors, so it has to be empty before a call. It
 * nearly always is, and looking is cheaper than clearing. */
static void clear_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static bool keep(struct tls_conn *t, const void *bytes, size_t len)
{
    if (ron_buf_append(&t->pending, bytes, len) != RON_OK) {
        t->broken = true; /* Bytes are missing in the stream: it cannot be mended. */
    }
    return !t->broken;
}

/* Sends both parts; what the socket does not take is kept (T1). */
static bool send_both(struct tls_conn *t, const uint8_t *a, size_t a_len, const uint8_t *b,
                      size_t b_len)
{
    const struct ron_env *env = t->lane->env;
    size_t done = 0;

    while (done < a_len + b_len) {
        struct iovec iov[2];
        int count = 0;
        size_t n = 0;
        size_t b_done = done > a_len ? done - a_len : 0;
        enum ron_rc rc;

        if (done < a_len) {
            iov[count++] = (struct iovec){(uint8_t *)(uintptr_t)a + done, a_len - done};
        }
        if (b_done < b_len) {
            iov[count++] = (struct iovec){(uint8_t *)(uintptr_t)b + b_done, b_len - b_done};
        }
        rc = count == 1 ? env->net->write(env, t->fd, iov[0].iov_base, iov[0].iov_len, &n)
                        : env->net->writev(env, t->fd, iov, count, &n);
        if (rc == RON_AGAIN) {
            break;
        }
        if (rc != RON_OK) {
            t->broken = true;
            return false;
        }
        done += n;
    }
    if (done < a_len && !keep(t, a + done, a_len - done)) {
        return false;
    }
    done = done > a_len ? done - a_len : 0;
    return done == b_len || keep(t, b + done, b_len - done);
}

/* T3. */
static void flush_scratch(struct tls_conn *t)
{
    struct tls_lane *lane = t->lane;
    size_t len = lane->scratch_len;

    lane->scratch_len = 0;
    if (len > 0 && !t->broken) {
        (void)send_both(t, lane->scratch, len, NULL, 0); /* A failure is in `broken`. */
    }
}

/* True when nothing waits any more. */
static bool flush_pending(struct tls_conn *t)
{
    const struct ron_env *env = t->lane->env;
    enum ron_rc rc = RON_OK;
    size_t n = 0;

    while (rc == RON_OK && ron_buf_len(&t->pending) > 0 && !t->broken) {
        rc = env->net->write(env, t->fd, ron_buf_data(&t->pending), ron_buf_len(&t->pending), &n);
        if (rc == RON_OK) {
            ron_buf_consume(&t->pending, n);
        }
    }
    t->broken = t->broken || (rc != RON_OK && rc != RON_AGAIN);
    if (ron_buf_len(&t->pending) > 0 || t->broken) {
        return false;
    }
    ron_buf_done(&t->pending); /* An idle connection holds no buffer. */
    ron_buf_init(&t->pending, TLS_PENDING_BYTES);
    return true;
}

/* ---- the BIO --------------------------------------------------------------------------------- */

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *ret_len)
{
    struct tls_conn *t = BIO_get_data(bio);
    struct tls_lane *lane = t->lane;
    size_t gather = t->state == TLS_SHAKING ? TLS_SCRATCH_BYTES : TLS_GATHER_BYTES;
    size_t before = lane->scratch_len;
    bool good;

    BIO_clear_retry_flags(bio);
    if (t->broken) {
        return 0;
    }
    if (ron_buf_len(&t->pending) > 0) {
        good = keep(t, bytes, len);
    } else if (t->more && len <= gather && before + len <= TLS_SCRATCH_BYTES) {
        memcpy(lane->scratch + before, bytes, len);
        lane->scratch_len += len;
        good = true;
    } else {
        lane->scratch_len = 0;
        good = send_both(t, lane->scratch, before, (const uint8_t *)bytes, len);
    }
    if (!good) {
        return 0;
    }
    *ret_len = len;
    return 1;
}

static int bio_read(BIO *bio, char *buf, size_t len, size_t *ret_len)
{
    struct tls_conn *t = BIO_get_data(bio);
    const struct ron_env *env = t->lane->env;
    size_t got = 0;
    enum ron_rc rc;

    BIO_clear_retry_flags(bio);
    if (t->first_len > 0) {
        got = RON_MIN(len, t->first_len);
        memcpy(buf, t->first, got);
        t->first += got;
        t->first_len -= got;
        *ret_len = got;
        return 1;
    }
    if (t->flooded) {
        return 0; /* no retry: read_failed ends it */
    }
    rc = t->readable ? env->net->read(env, t->fd, buf, len, &got) : RON_AGAIN;
    if (rc == RON_OK) {
        t->readable = got == len || t->hup;
        *ret_len = got;
        return 1;
    }
    t->readable = false;
    if (rc == RON_AGAIN) {
        BIO_set_retry_read(bio);
    } else {
        t->eof = rc == RON_CLOSED;
        t->broken = t->broken || rc != RON_CLOSED;
    }
    return 0;
}

/* BIO_CTRL_EOF answers 0 on purpose: OpenSSL would otherwise send an alert to a peer that has
 * closed its side; `eof` tells us enough. */
static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD *ron__tls_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "ron_env");

    if (m != NULL &&
        (BIO_meth_set_write_ex(m, bio_write) != 1 || BIO_meth_set_read_ex(m, bio_read) != 1 ||
         BIO_meth_set_ctrl(m, bio_ctrl) != 1)) {
        BIO_meth_free(m);
        m = NULL;
    }
    return m;
}

/* ---- handshake ------------------------------------------------------------------------------- */

/* Leaves the list of handshakes (T4). */
static void leave_list(struct tls_conn *t)
{
    if (t->state == TLS_SHAKING) {
        ron_list_remove(&t->link);
        t->lane->shaking_count--;
        ron_stat_add(&t->ctx->shaking_ended, 1);
    }
}

static enum ron_rc fail(struct tls_conn *t, enum ron_tls_failure why)
{
    ron_stat_add(&t->ctx->failures[why], 1);
    leave_list(t);
    t->state = TLS_OVER;
    return RON_DENIED;
}

static enum ron_tls_failure failure_of(const struct tls_conn *t)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (code == 0 || t->broken || t->eof) {
        return RON_TLS_FAIL_DISCONNECT;
    }
    if (reason == ERR_R_MALLOC_FAILURE) {
        return RON_TLS_FAIL_MEMORY;
    }
    if (ERR_GET_LIB(code) != ERR_LIB_SSL) {
        return RON_TLS_FAIL_PROTOCOL;
    }
    switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
        return RON_TLS_FAIL_NOT_TLS;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
        return RON_TLS_FAIL_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
        return RON_TLS_FAIL_PARAMETERS;
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return RON_TLS_FAIL_ALPN;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return RON_TLS_FAIL_NO_CERTIFICATE;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
        return RON_TLS_FAIL_CERTIFICATE;
    default:
        return reason >= SSL_AD_REASON_OFFSET ? RON_TLS_FAIL_PEER_ALERT : RON_TLS_FAIL_PROTOCOL;
    }
}

/* The certificate that is served now, for one connection. */
static SSL *new_ssl(struct tls_conn *t)
{
    struct ron_tls_ctx *ctx = t->ctx;
    const struct ron_env *env = t->lane->env;
    SSL_CTX *served;
    SSL *ssl;
    BIO *bio;

    ron_mutex_lock(&ctx->mu);
    served = ctx->ssl;
    RON_ASSERT(SSL_CTX_up_ref(served) == 1);
    ron_mutex_unlock(&ctx->mu);
    ssl = SSL_new(served);
    SSL_CTX_free(served);
    bio = ssl == NULL ? NULL : BIO_new(ctx->bio);
    if (bio == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_accept_state(ssl);
    /* Client certificates are judged by the clock of the environment. */
    X509_VERIFY_PARAM_set_time(SSL_get0_param(ssl), (time_t)(ron_env_wall_ms(env) / RON_MS_PER_S));
    return ssl;
}

/* Looks at the first bytes before anything is spent on them. */
static enum ron_rc begin(struct tls_conn *t)
{
    struct tls_lane *lane = t->lane;
    size_t got = 0;
    enum ron_rc rc = RON_AGAIN;

    if (t->readable) {
        rc = lane->env->net->read(lane->env, t->fd, lane->first, TLS_FIRST_BYTES, &got);
        t->readable = rc == RON_OK && (got == TLS_FIRST_BYTES || t->hup);
    }
    if (rc != RON_OK) {
        t->eof = rc == RON_CLOSED;
        t->broken = rc != RON_CLOSED && rc != RON_AGAIN;
        return rc == RON_AGAIN ? RON_AGAIN : RON_CLOSED; /* Nothing was begun: no failure. */
    }
    if (lane->first[0] != RECORD_HANDSHAKE) {
        return fail(t, RON_TLS_FAIL_NOT_TLS);
    }
    if (lane->shaking_count >= t->ctx->opts.handshakes_max) {
        struct ron_list_node *front = ron_list_front(&lane->shaking);
        struct tls_conn *oldest;

        RON_ASSERT(front != NULL); /* handshakes_max is at least 1, so there is one */
        oldest = RON_LIST_ENTRY(front, struct tls_conn, link);
        (void)fail(oldest, RON_TLS_FAIL_CROWDED);
        SSL_free(oldest->ssl); /* The bound is on memory: now, not when its owner gets to it. */
        oldest->ssl = NULL;
        lane->evict(oldest->owner);
    }
    clear_errors();
    t->ssl = new_ssl(t);
    if (t->ssl == NULL) {
        return fail(t, RON_TLS_FAIL_MEMORY);
    }
    t->state = TLS_SHAKING;
    ron_list_push_back(&lane->shaking, &t->link);
    lane->shaking_count++;
    ron_stat_add(&t->ctx->shaking_begun, 1);
    t->first = lane->first;
    t->first_len = got;
    return RON_OK;
}

/* Told by OpenSSL about each message and record of an open connection. */
static void count_after(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
                        void *arg)
{
    struct tls_conn *t = arg;
    uint64_t now_ms;

    (void)version;
    (void)bytes;
    (void)len;
    (void)ssl;
    if (sent != 0 || type != SSL3_RT_HANDSHAKE) {
        return;
    }
    now_ms = ron_env_now_ns(t->lane->env) / RON_NS_PER_MS;
    if (t->after_count == 0 || now_ms - t->after_ms >= TLS_AFTER_MS) {
        t->after_ms = now_ms;
        t->after_count = 0;
    }
    t->after_count++;
    t->flooded = t->flooded || t->after_count > TLS_AFTER_MAX;
}

/* A ticket may be younger than the end of the certificate in it. */
static bool peer_still_valid(const struct tls_conn *t)
{
    X509 *cert = SSL_get0_peer_certificate(t->ssl);

    return cert == NULL ||
           ron__tls_not_after_s(cert) >= (int64_t)(ron_env_wall_ms(t->lane->env) / RON_MS_PER_S);
}

static enum ron_rc shake(struct tls_conn *t)
{
    int done;

    clear_errors();
    t->more = true;
    done = SSL_do_handshake(t->ssl);
    t->more = false;
    flush_scratch(t);
    if (done != 1) {
        if (SSL_get_error(t->ssl, done) == SSL_ERROR_WANT_READ && t->first_len == 0) {
            return RON_AGAIN;
        }
        return fail(t, failure_of(t));
    }
    if (t->broken) {
        return fail(t, RON_TLS_FAIL_DISCONNECT);
    }
    if (SSL_session_reused(t->ssl) == 1 && !peer_still_valid(t)) {
        return fail(t, RON_TLS_FAIL_CERTIFICATE);
    }
    leave_list(t);
    t->state = TLS_OPEN;
    SSL_set_msg_callback(t->ssl, count_after);
    (void)SSL_set_msg_callback_arg(t->ssl, t);
    ron_stat_add(SSL_session_reused(t->ssl) == 1 ? &t->ctx->resumed : &t->ctx->full, 1);
    return RON_OK;
}

void ron__tls_timed_out(struct tls_conn *t)
{
    if (ron__tls_shaking(t)) {
        (void)fail(t, RON_TLS_FAIL_TIMEOUT);
    }
}

/* ---- plain bytes ----------------------------------------------------------------------------- */

static enum ron_rc read_failed(struct tls_conn *t)
{
    if (t->flooded) {
        t->state = TLS_OVER;
        return RON_IO;
    }
    switch (SSL_get_error(t->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return RON_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        t->eof = true;
        return RON_CLOSED;
    default:
        break;
    }
    if (t->eof || t->broken) {
        /* Cut off, or the peer saves itself the close_notify: both happen, and a body knows its
         * length, so it is an end like any other; and it is counted. */
        ron_stat_add(&t->ctx->truncated, 1);
        return RON_CLOSED;
    }
    t->state = TLS_OVER;
    return RON_IO;
}

enum ron_rc ron__tls_read(struct tls_conn *t, void *buf, size_t len, size_t *ret_len)
{
    size_t got = 0;
    enum ron_rc rc = RON_OK;

    RON_CHECK_MAGIC(t, TLS_CONN_MAGIC);
    if (t->state == TLS_NEW) {
        RON_TRY(begin(t));
    }
    if (t->state == TLS_SHAKING) {
        RON_TRY(shake(t));
    }
    if (t->state == TLS_OVER || t->eof) {
        return RON_CLOSED;
    }
    if (!ron__tls_more(t)) {
        return RON_AGAIN;
    }
    clear_errors();
    if (SSL_read_ex(t->ssl, buf, len, &got) != 1) {
        rc = read_failed(t);
    }
    flush_scratch(t);
    if (rc == RON_OK) {
        *ret_len = got;
    }
    return rc;
}

bool ron__tls_more(const struct tls_conn *t)
{
    return t->readable || (t->state == TLS_OPEN && SSL_has_pending(t->ssl) == 1);
}

bool ron__tls_partial(const struct tls_conn *t)
{
    return t->state == TLS_OPEN && SSL_has_pending(t->ssl) == 1;
}

/* The first piece of the vector behind `skip` bytes, at most one record. */
static struct iovec piece_at(const struct iovec *iov, int iov_count, size_t skip)
{
    for (int i = 0; i < iov_count; i++) {
        if (skip < iov[i].iov_len) {
            return (struct iovec){(uint8_t *)iov[i].iov_base + skip,
                                  RON_MIN(iov[i].iov_len - skip, (size_t)TLS_RECORD_BYTES)};
        }
        skip -= iov[i].iov_len;
    }
    return (struct iovec){0};
}

enum ron_rc ron__tls_writev(struct tls_conn *t, const struct iovec *iov, int iov_count,
                            size_t *ret_len)
{
    size_t total = 0;
    size_t done;

    RON_CHECK_MAGIC(t, TLS_CONN_MAGIC);
    if (t->state != TLS_OPEN) {
        return RON_CLOSED;
    }
    if (ron_buf_len(&t->pending) > 0 && !flush_pending(t)) {
        return t->broken ? RON_CLOSED : RON_AGAIN;
    }
    for (int i = 0; i < iov_count; i++) {
        total += iov[i].iov_len;
    }
    RON_ASSERT(total >= t->owed);
    done = t->owed; /* T2 */
    t->owed = 0;
    while (done < total) {
        struct iovec piece = piece_at(iov, iov_count, done);
        size_t n = 0;

        t->more = done + piece.iov_len < total;
        clear_errors();
        if (SSL_write_ex(t->ssl, piece.iov_base, piece.iov_len, &n) != 1) {
            t->lane->scratch_len = 0;
            t->state = TLS_OVER;
            return RON_CLOSED;
        }
        if (ron_buf_len(&t->pending) > 0) {
            t->owed = (uint32_t)n;
            break;
        }
        done += n;
    }
    t->more = false;
    flush_scratch(t);
    if (t->broken) {
        return RON_CLOSED;
    }
    if (done == 0) {
        return RON_AGAIN;
    }
    *ret_len = done;
    return RON_OK;
}

void ron__tls_bye(struct tls_conn *t)
{
    RON_CHECK_MAGIC(t, TLS_CONN_MAGIC);
    if (t->state == TLS_OPEN && !t->broken && ron_buf_len(&t->pending) == 0) {
        clear_errors();
        (void)SSL_shutdown(t->ssl); /* FIN follows, whether this went out or not. */
        flush_scratch(t);
    }
    leave_list(t);
    t->state = TLS_OVER;
}

enum ron_rc ron__tls_ready(struct tls_conn *t, uint32_t events)
{
    RON_CHECK_MAGIC(t, TLS_CONN_MAGIC);
    t->hup = t->hup || (events & RON_IO_HUP) != 0;
    t->readable = t->readable || (events & (RON_IO_READ | RON_IO_HUP)) != 0;
    if (ron_buf_len(&t->pending) > 0) {
        (void)flush_pending(t); /* A failure is in `broken`. */
    }
    return t->broken ? RON_CLOSED : RON_OK;
}

bool ron__tls_peer(const struct tls_conn *t, struct ron_tls_peer *ret_peer)
{
    X509 *cert = t->ssl == NULL ? NULL : SSL_get0_peer_certificate(t->ssl);

    if (cert == NULL || t->state == TLS_SHAKING || SSL_get_verify_result(t->ssl) != X509_V_OK) {
        return false;
    }
    ron__tls_names(cert, ret_peer);
    return true;
}

/* ---- birth and death ------------------------------------------------------------------------- */

struct tls_conn *ron__tls_open(struct tls_lane *lane, struct ron_tls_ctx *ctx, int fd, void *owner)
{
    struct tls_conn *t = ron_pool_get(&lane->pool);

    RON_CHECK_MAGIC(ctx, TLS_CTX_MAGIC);
    if (t == NULL) {
        return NULL;
    }
    *t = (struct tls_conn){.magic = TLS_CONN_MAGIC,
                           .lane = lane,
                           .ctx = ctx,
                           .owner = owner,
                           .fd = fd,
                           .readable = true}; /* The ClientHello is often there already. */
    ron_buf_init(&t->pending, TLS_PENDING_BYTES);
    return t;
}

void ron__tls_close(struct tls_conn *t)
{
    RON_CHECK_MAGIC(t, TLS_CONN_MAGIC);
    if (t->state == TLS_SHAKING) {
        (void)fail(t, RON_TLS_FAIL_DISCONNECT);
    }
    SSL_free(t->ssl);
    ron_buf_done(&t->pending);
    t->magic = 0;
    ron_pool_put(&t->lane->pool, t);
}

enum ron_rc ron__tls_lane_init(struct tls_lane *lane, const struct ron_env *env, size_t conns_max,
                               void (*evict)(void *owner))
{
    *lane = (struct tls_lane){.env = env, .evict = evict};
    ron_list_init(&lane->shaking);
    lane->first = ron_alloc(TLS_FIRST_BYTES);
    lane->scratch = ron_alloc(TLS_SCRATCH_BYTES);
    if (lane->first == NULL || lane->scratch == NULL ||
        ron_pool_init(&lane->pool, "tls-conn", sizeof(struct tls_conn), RON_CACHELINE, conns_max) !=
            RON_OK) {
        ron__tls_lane_done(lane);
        return RON_NOMEM;
    }
    return RON_OK;
}

void ron__tls_lane_done(struct tls_lane *lane)
{
    ron_free(lane->first);
    ron_free(lane->scratch);
    ron_pool_done(&lane->pool);
    *lane = (struct tls_lane){0};
}
