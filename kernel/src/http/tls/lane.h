/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/tls/lane.h - private: the TLS context, a worker's lane of TLS connections, one
 * connection.
 *
 * Layers: the HTTP side calls ron__tls_read and ron__tls_writev with plain bytes; OpenSSL calls the
 * BIO below, which calls the network ports of the environment. Nothing here waits.
 *
 *     NEW      accepted, no byte seen, no OpenSSL object (a connection that sends nothing costs
 *       |      this record alone)
 *       v  first bytes (ron__tls_read)
 *     SHAKING  in the lane's list of handshakes, oldest first
 *       v
 *     OPEN     bytes flow
 *       v  close_notify sent (ron__tls_bye), or a failure
 *     OVER     nothing more is read or written
 *
 * Invariants
 *   T1 the BIO takes every byte that OpenSSL writes: what the socket does not take is in `pending`.
 *      So OpenSSL never has to be called again with the same bytes.
 *   T2 while `pending` holds an application record, `owed` is the plain size of that record, which
 *      the caller has not been told about: it keeps the bytes and offers them again, and they are
 *      reported as written, not encrypted again, when `pending` has gone out. So a caller that has
 *      nothing left to write knows that the socket has everything.
 *   T3 the lane's scratch is empty whenever no function of this file runs.
 *   T4 a record is in the lane's list exactly while it is SHAKING.
 *
 * Threads: a lane and its connections belong to one worker; the context is shared. */
#pragma once

#include <openssl/ssl.h>

#include "ron/base/buf.h"
#include "ron/base/list.h"
#include "ron/base/pool.h"
#include "ron/http/tls.h"
#include "ron/sync/sync.h"

struct iovec;

enum {
    TLS_CTX_MAGIC = 0x74637478,
    TLS_CONN_MAGIC = 0x74636f6e,
    TLS_RECORD_BYTES = 16384,   /* plain bytes of a record, by RFC 8446 */
    TLS_FIRST_BYTES = 16384,    /* read before there is an OpenSSL object: a whole ClientHello */
    TLS_SCRATCH_BYTES = 32768,  /* a flight with the longest chain we send, and small records */
    TLS_GATHER_BYTES = 4096,    /* smaller records wait for the next; larger go from their place */
    TLS_PENDING_BYTES = 65536,  /* scratch and one record, with room for alerts behind them */
    TLS_TICKET_NAME_BYTES = 16, /* OpenSSL's */
    TLS_KEY_BYTES = 32,
    TLS_ID_BYTES = 32, /* OpenSSL's SSL_MAX_SID_CTX_LENGTH */
    /* Messages of the handshake after it: clients change keys after gigabytes or hours. Each costs
     * us microseconds and a client that made them beforehand nothing, and OpenSSL works them off
     * without coming back. */
    TLS_AFTER_MAX = 32,
    TLS_AFTER_MS = 60000, /* in that time */
};

/* ---- context --------------------------------------------------------------------------------- */

struct tls_ticket_key {
    uint8_t name[TLS_TICKET_NAME_BYTES];
    uint8_t cipher[TLS_KEY_BYTES];
    uint8_t mac[TLS_KEY_BYTES];
    uint64_t until_ms; /* monotonic; it opens tickets before that */
};

struct ron_tls_ctx {
    uint32_t magic;
    struct ron_tls_opts opts; /* defaults filled in; texts are ours */
    char *cert_file;
    char *key_file;
    char *client_ca_file;
    BIO_METHOD *bio;

    struct ron_mutex mu; /* guards ssl, cert and tickets */
    SSL_CTX *ssl;
    struct ron_tls_cert cert;
    struct tls_ticket_key tickets[2]; /* present, before */
    struct ron_au64 rotate_at_ms;     /* written under mu */

    struct ron_stat full;
    struct ron_stat resumed;
    struct ron_stat failures[RON_TLS_FAIL_COUNT];
    struct ron_stat truncated;
    struct ron_stat reloads;
    struct ron_stat reload_failures;
    struct ron_stat shaking_begun;
    struct ron_stat shaking_ended;
};

/* load.c: an SSL_CTX with certificate, key and authorities, all checked. */
struct tls_loaded {
    SSL_CTX *ssl;
    struct ron_tls_cert cert; /* generation 0 */
};
enum ron_rc ron__tls_load(const struct ron_tls_ctx *ctx, struct tls_loaded *ret_loaded,
                          struct ron_err *err);
/* The first error of OpenSSL's queue of this thread as a text; empties the queue. */
const char *ron__tls_error_text(char *buf, size_t size);

/* ticket.c */
enum ron_rc ron__tls_tickets_init(struct ron_tls_ctx *ctx);
int ron__tls_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                        EVP_MAC_CTX *mac, int seal);

/* peer.c */
void ron__tls_fingerprint(const X509 *cert, uint8_t ret[RON_TLS_FINGERPRINT_BYTES]);
void ron__tls_subject(X509 *cert, char *buf, size_t size);
void ron__tls_names(X509 *cert, struct ron_tls_peer *ret_peer);
int64_t ron__tls_not_after_s(const X509 *cert);

/* ---- lane: the TLS side of one worker -------------------------------------------------------- */

struct tls_conn;

struct tls_lane {
    const struct ron_env *env;
    struct ron_pool pool;
    struct ron_list shaking; /* oldest first */
    uint32_t shaking_count;
    /* The handshake of `owner` gave way to a newer one: it has to end the connection, now or
     * soon. */
    void (*evict)(void *owner);
    uint8_t *first;   /* TLS_FIRST_BYTES; between calls also room for a piece of a file */
    uint8_t *scratch; /* TLS_SCRATCH_BYTES */
    size_t scratch_len;
};

RON_MUST_USE enum ron_rc ron__tls_lane_init(struct tls_lane *lane, const struct ron_env *env,
                                            size_t conns_max, void (*evict)(void *owner));
/* Also fine on a struct of zeros. */
void ron__tls_lane_done(struct tls_lane *lane);

/* ---- connection ------------------------------------------------------------------------------ */

enum tls_state { TLS_NEW, TLS_SHAKING, TLS_OPEN, TLS_OVER };

struct tls_conn {
    uint32_t magic;
    enum tls_state state;
    struct tls_lane *lane;
    struct ron_tls_ctx *ctx;
    void *owner;
    SSL *ssl; /* from SHAKING on */
    struct ron_list_node link;
    int fd;
    bool readable; /* the socket may have bytes; told by ron__tls_ready */
    bool hup;      /* the peer closed its side: an empty socket must be asked, not guessed */
    bool eof;
    bool more;            /* another record follows in this call: small ones wait for it */
    bool broken;          /* the socket failed */
    bool flooded;         /* too many messages after the handshake: no more is read */
    uint32_t after_count; /* of them since after_ms */
    uint64_t after_ms;
    uint32_t owed;        /* T2 */
    const uint8_t *first; /* bytes read before there was an SSL */
    size_t first_len;
    struct ron_buf pending;
};

/* The BIO through which OpenSSL reaches the network ports; NULL without memory. */
BIO_METHOD *ron__tls_bio_method(void);
/* NULL when the lane is full. */
struct tls_conn *ron__tls_open(struct tls_lane *lane, struct ron_tls_ctx *ctx, int fd, void *owner);
/* Forgets everything; the descriptor stays with the caller. */
void ron__tls_close(struct tls_conn *t);
/* Told by the poller (RON_IO_READ, RON_IO_WRITE, RON_IO_HUP). RON_CLOSED when the socket failed. */
enum ron_rc ron__tls_ready(struct tls_conn *t, uint32_t events);
/* Plain bytes, after a handshake if need be. RON_OK; RON_AGAIN; RON_CLOSED at the end, be it
 * announced or not; RON_DENIED when the handshake failed (counted); RON_IO for a broken stream. */
RON_MUST_USE enum ron_rc ron__tls_read(struct tls_conn *t, void *buf, size_t len, size_t *ret_len);
/* Whether another read may bring something without an event. */
bool ron__tls_more(const struct tls_conn *t);
/* Whether a part of a record is here and waits for the rest. */
bool ron__tls_partial(const struct tls_conn *t);
/* RON_OK with how much was taken; RON_AGAIN when nothing: then the poller tells, and the next call
 * must begin with the same bytes (T2), which may have moved. RON_CLOSED when it can never work. */
RON_MUST_USE enum ron_rc ron__tls_writev(struct tls_conn *t, const struct iovec *iov, int iov_count,
                                         size_t *ret_len);
/* close_notify, as far as the socket takes it: FIN follows in any case. */
void ron__tls_bye(struct tls_conn *t);
static inline bool ron__tls_shaking(const struct tls_conn *t)
{
    return t->state == TLS_NEW || t->state == TLS_SHAKING;
}
/* The handshake took too long: counts it, once. */
void ron__tls_timed_out(struct tls_conn *t);
/* False: no client certificate. */
bool ron__tls_peer(const struct tls_conn *t, struct ron_tls_peer *ret_peer);

void ron_tls_ctx_cert(struct ron_tls_ctx *ctx, struct ron_tls_cert *ret_cert);

/* Until the certificate ends; negative after it: the gauge tls_certificate_expiry_seconds. */
int64_t ron_tls_ctx_expiry_s(struct ron_tls_ctx *ctx);

const char *ron_tls_failure_label(enum ron_tls_failure failure);

void ron_tls_ctx_counters(const struct ron_tls_ctx *ctx, struct ron_tls_counters *ret_counters);
