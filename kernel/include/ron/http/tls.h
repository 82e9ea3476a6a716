/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - what a listener needs to speak TLS: certificate, key, client authorities, tickets.
 *
 * Place: http. A context is made from PEM files, given to listeners of a server
 * (ron/http/server.h), and freed after the server. TLS 1.3; TLS 1.2 (forward secret AEAD suites
 * only) by option. No renegotiation, no compression, no early data. ALPN: "http/1.1", or none; a
 * client that offers only others is refused.
 *
 * Client certificates: with a client CA file each client is asked for one.
 * `RON_TLS_CLIENT_REQUIRED` (the default then) refuses those that have none; with
 * `RON_TLS_CLIENT_OPTIONAL` a call may be anonymous. One that does not verify is refused in both. A
 * handler asks with ron_http_tls_peer.
 *
 * Reload: ron_tls_ctx_reload reads the same paths again and checks them like the first time. Only
 * when everything holds are they swapped in, at once and as a whole: connections that exist go on
 * with what they began with, new ones get the new certificate. Otherwise the old stay and the error
 * says why. Tickets live on across a reload, unless the client authorities changed: then every
 * client is verified anew.
 *
 * Checks of files: the key file is not readable for group or others (RON_DENIED); the certificate
 * file holds 1..RON_TLS_CHAIN_MAX certificates, the server's own first, each issued by the next;
 * the first belongs to the key, is meant for servers and is valid now. A message names the file,
 * the line, and what to do.
 *
 * Bounds: handshakes at once per worker (the oldest gives way: a flood of half-open ones then
 * cannot lock others out), time of a handshake (the server's read timeout), ciphertext that a peer
 * does not read (one record), messages after the handshake (32 a minute: who floods us with changes
 * of keys is cut off), memory of an idle connection (OpenSSL's buffers are given back).
 *
 * Tickets: stateless session tickets under keys that exist only in memory and are replaced every
 * ticket_rotate_s; the key before still opens, so each ticket works for one whole period. Traffic
 * recorded earlier cannot be opened with a key that is gone. Resumption keeps the verified client
 * certificate, whose end is checked again.
 *
 * Secrets: key bytes read from disk and ticket keys are wiped; no message holds any.
 *
 * Threads: new, reload and free block (files): not on a worker. Everything else from any thread. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/rc.h"

enum {
    RON_TLS_CHAIN_MAX = 8,       /* leaf and intermediates; public chains have two to four */
    RON_TLS_CLIENT_CA_MAX = 128, /* authorities; their names are sent in every handshake */
    RON_TLS_FILE_MAX = 1 << 20,  /* bytes of a PEM file: room for the 128, ten times over */
    RON_TLS_NAMES_MAX = 16,      /* alternative names that a peer's record keeps */
    RON_TLS_TEXT_MAX = 255,      /* bytes of a name; a DNS name has at most 253 */
    RON_TLS_FINGERPRINT_BYTES = 32,
};

enum ron_tls_client {
    RON_TLS_CLIENT_DEFAULT, /* required when a client CA file is given, else not asked for */
    RON_TLS_CLIENT_OPTIONAL,
    RON_TLS_CLIENT_REQUIRED,
};

struct ron_tls_ctx;
struct ron_metrics;

/* Zero means the default in brackets. Texts are copied. */
struct ron_tls_opts {
    const struct ron_env *env;
    const char *cert_file;
    const char *key_file;
    const char *client_ca_file; /* [none] */
    enum ron_tls_client client;
    bool allow_tls12;
    bool no_tickets;
    uint32_t ticket_rotate_s; /* [3600], 60..86400 */
    uint32_t handshakes_max;  /* [256] of one worker, at about 45 KiB each */
};

/* RON_INVALID for an option or a bad file, RON_DENIED for a key that others can read, RON_NOTFOUND,
 * RON_LIMIT, RON_IO, RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_tls_ctx_new(const struct ron_tls_opts *opts,
                                         struct ron_tls_ctx **ret_ctx, struct ron_err *err);
/* No connection may be left. NULL is fine. */
void ron_tls_ctx_free(struct ron_tls_ctx *ctx);
/* On failure everything stays as it was. */
RON_MUST_USE enum ron_rc ron_tls_ctx_reload(struct ron_tls_ctx *ctx, struct ron_err *err);

/* ---- what is served -------------------------------------------------------------------------- */

struct ron_tls_cert {
    char subject[RON_TLS_TEXT_MAX + 1];             /* common name, or the first alternative name */
    uint8_t fingerprint[RON_TLS_FINGERPRINT_BYTES]; /* SHA-256 of the certificate */
    int64_t not_after_s;                            /* Unix time */
    uint64_t generation;                            /* 1, and one more with every reload */
};

/* ---- the peer -------------------------------------------------------------------------------- */

enum ron_tls_name_kind { RON_TLS_NAME_DNS, RON_TLS_NAME_EMAIL, RON_TLS_NAME_URI, RON_TLS_NAME_IP };

/* A client certificate that verified. Names with controls or a NUL in them, or longer than the
 * room, are left out and counted: nobody must take a part of a name for the whole. */
struct ron_tls_peer {
    char common_name[RON_TLS_TEXT_MAX + 1]; /* empty when the subject has none, or more than one */
    size_t name_count;
    struct {
        enum ron_tls_name_kind kind;
        char text[RON_TLS_TEXT_MAX + 1]; /* an address is written as in ron/io/addr.h, no port */
    } names[RON_TLS_NAMES_MAX];
    size_t names_left_out;
    uint8_t fingerprint[RON_TLS_FINGERPRINT_BYTES]; /* SHA-256 of the certificate */
};

/* ---- counters -------------------------------------------------------------------------------- */

/* Why a handshake failed. X(NAME, "label", "meaning") */
#define RON_TLS_FAILURES(X)                                                                        \
    X(NOT_TLS, "not_tls", "the first bytes are no TLS: plain HTTP sent to the TLS port, a scan")   \
    X(VERSION, "version", "the client speaks no version that is allowed here")                     \
    X(PARAMETERS, "parameters", "no cipher suite, group or signature scheme in common")            \
    X(ALPN, "alpn", "the client speaks no HTTP/1.1")                                               \
    X(NO_CERTIFICATE, "no_certificate", "a client certificate is required and none came")          \
    X(CERTIFICATE, "certificate", "the client certificate does not verify")                        \
    X(PEER_ALERT, "peer_alert", "the client broke off with an alert: often it does not trust us")  \
    X(DISCONNECT, "disconnect", "the client went away")                                            \
    X(TIMEOUT, "timeout", "the handshake took longer than the read timeout")                       \
    X(CROWDED, "crowded", "too many handshakes at once; the oldest gave way")                      \
    X(MEMORY, "memory", "no memory")                                                               \
    X(PROTOCOL, "protocol", "malformed or out of order")

enum ron_tls_failure {
#define X(name, label, doc) RON_TLS_FAIL_##name,
    RON_TLS_FAILURES(X)
#undef X
        RON_TLS_FAIL_COUNT
};

struct ron_tls_counters {
    uint64_t full;                         /* tls_handshakes_total{result="full"} */
    uint64_t resumed;                      /* tls_handshakes_total{result="resumed"} */
    uint64_t failures[RON_TLS_FAIL_COUNT]; /* tls_handshake_failures_total{reason} */
    uint64_t truncated;                    /* tls_truncated_total: ends without close_notify */
    uint64_t reloads;                      /* tls_reloads_total{result="ok"} */
    uint64_t reload_failures;              /* tls_reloads_total{result="failed"} */
    uint64_t shaking;                      /* tls_handshakes_open, gauge */
};
/* Adds all of these to every scrape: the context outlives the last one. RON_LIMIT, RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_tls_ctx_collect(struct ron_tls_ctx *ctx, struct ron_metrics *metrics,
                                             struct ron_err *err);
