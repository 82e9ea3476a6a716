/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - the configuration keys that every service has, as rows for its table.
 *
 * A service places these groups in its own list, in this order, and may put keys of its own behind
 * each group as long as they belong to the same section (conf.h wants sections in one piece):
 *
 *     #define WALLET_CONF(X)                                                                     \
 *         RON_APP_KEYS_TOP(X, "127.0.0.1:7100")                                                  \
 *         RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                           \
 *         X(WALLET_DAILY, "limits.daily", ...)                                                   \
 *         RON_APP_KEYS_TIMEOUTS(X, "5s")                                                         \
 *         RON_APP_KEYS_REST(X)                                                                   \
 *         X(WALLET_LEDGER, "ledger.addr", ...)
 *
 * The frame (ron/app/app.h) finds its keys by name, so their place in the list is free. */
#pragma once

#include "ron/conf/conf.h"

/* An address is at most RON_ADDR_MAX - 1 bytes. */
#define RON_APP_KEYS_TOP(X, addr)                                                                  \
    X(RON_APP_BIND_ADDR, "bind_addr", STRING, "bytes", 1, 127, addr, RON_CONF_RELOAD,              \
      "Address of the service: host:port, [v6]:port or unix:/path; port 0 takes a free one. A "    \
      "reload moves it from one host:port to another and keeps open connections.")                 \
    X(RON_APP_METRICS_ADDR, "metrics_addr", STRING, "bytes", 0, 127, "", RON_CONF_FIXED,           \
      "A second address that serves health, metrics, version and topology only; empty for none.")  \
    X(RON_APP_WORKERS, "workers", INT, "threads", 0, 64, "0", RON_CONF_FIXED,                      \
      "Threads of the executor; 0 takes one per processor.")                                       \
    X(RON_APP_DRAIN_DEADLINE, "drain_deadline", DURATION, "", RON_CONF_S(1), RON_CONF_S(5), "3s",  \
      RON_CONF_FIXED, "How long a shutdown may drain before stragglers are aborted.")

#define RON_APP_KEYS_LIMITS(X, rate, burst, body)                                                  \
    X(RON_APP_CONNECTIONS, "limits.connections", INT, "connections", 1, 1000000, "2048",           \
      RON_CONF_FIXED, "Connections at once; one more is answered 503 and closed.")                 \
    X(RON_APP_INFLIGHT, "limits.inflight", INT, "requests", 1, 1000000, "512", RON_CONF_FIXED,     \
      "Requests that may wait inside the service at once; one more is answered 429.")              \
    X(RON_APP_RATE, "limits.rate_per_second", INT, "requests/s", 0, 10000000, rate,                \
      RON_CONF_RELOAD,                                                                             \
      "Requests per second, refilled continuously; beyond it the answer is 429; 0 is no limit.")   \
    X(RON_APP_BURST, "limits.burst", INT, "requests", 0, 10000000, burst, RON_CONF_RELOAD,         \
      "Requests that may come at once above the rate; 0 takes half of the rate.")                  \
    X(RON_APP_SCOPE, "limits.scope", ENUM, "client|instance", 0, 0, "client", RON_CONF_FIXED,      \
      "Whether each client has the rate for itself, or all share it.")                             \
    X(RON_APP_MAX_BODY, "limits.max_body_bytes", SIZE, "", 1, RON_CONF_GIB(1), body,               \
      RON_CONF_FIXED, "Bytes of a request body, decided by its announced length before reading.")  \
    X(RON_APP_MAX_DECODED, "limits.max_decoded", SIZE, "", 1, RON_CONF_GIB(1), "10MiB",            \
      RON_CONF_FIXED, "Bytes that a compressed body may unpack to, whatever its ratio.")           \
    X(RON_APP_DECODE_RATIO, "limits.decompress_ratio_cap", INT, "times", 1, 1000, "10",            \
      RON_CONF_FIXED, "How many times its size as sent a compressed body may unpack to.")          \
    X(RON_APP_MAX_URI, "limits.max_uri", SIZE, "", 64, RON_CONF_KIB(16), "4KiB", RON_CONF_FIXED,   \
      "Bytes of a request target.")                                                                \
    X(RON_APP_MAX_HEAD, "limits.max_head", SIZE, "", 1024, RON_CONF_KIB(16), "16KiB",              \
      RON_CONF_FIXED, "Bytes of a request head.")

#define RON_APP_KEYS_TIMEOUTS(X, request)                                                          \
    X(RON_APP_READ_TIMEOUT, "timeouts.read", DURATION, "", 100, RON_CONF_M(10), "5s",              \
      RON_CONF_FIXED, "Time for a whole head, and between two pieces of a body.")                  \
    X(RON_APP_WRITE_TIMEOUT, "timeouts.write", DURATION, "", 100, RON_CONF_M(10), "5s",            \
      RON_CONF_FIXED, "Time between two pieces of an answer.")                                     \
    X(RON_APP_IDLE_TIMEOUT, "timeouts.idle", DURATION, "", 100, RON_CONF_H(1), "60s",              \
      RON_CONF_FIXED, "Time between two requests of a connection.")                                \
    X(RON_APP_REQUEST_TIMEOUT, "timeouts.request", DURATION, "", 100, RON_CONF_M(10), request,     \
      RON_CONF_FIXED, "Time from the first byte of a request to its answer.")

#define RON_APP_KEYS_REST(X)                                                                       \
    X(RON_APP_TLS_CERT, "tls.cert", STRING, "bytes", 0, 4095, "", RON_CONF_FIXED,                  \
      "PEM file with the certificate chain; empty serves plain HTTP. A reload reads it anew.")     \
    X(RON_APP_TLS_KEY, "tls.key", STRING, "bytes", 0, 4095, "", RON_CONF_FIXED,                    \
      "PEM file with the private key; nobody but its owner may read it.")                          \
    X(RON_APP_TLS_CLIENT_CA, "tls.client_ca", STRING, "bytes", 0, 4095, "", RON_CONF_FIXED,        \
      "PEM file with the authorities whose client certificates are accepted.")                     \
    X(RON_APP_TLS_CLIENT_AUTH, "tls.client_auth", ENUM, "none|optional|required", 0, 0, "none",    \
      RON_CONF_FIXED, "Whether a client shows a certificate.")                                     \
    X(RON_APP_UDS_PATH, "uds.path", STRING, "bytes", 0, 100, "", RON_CONF_FIXED,                   \
      "Unix socket that serves the same routes; its directory has mode 0700. Empty for none.")     \
    X(RON_APP_UDS_UIDS, "uds.allow_uids", LIST, "users", 0, 64, "", RON_CONF_FIXED,                \
      "User ids that may connect to it, besides root and the service's own.")                      \
    X(RON_APP_LOG_LEVEL, "log.level", ENUM, "error|warn|info|debug", 0, 0, "info",                 \
      RON_CONF_RELOAD, "The least important kind of message that is written.")                     \
    X(RON_APP_LOG_FORMAT, "log.format", ENUM, "text|json", 0, 0, "text", RON_CONF_FIXED,           \
      "One line of text or one JSON object per message, on standard error.")                       \
    X(RON_APP_TRACE_ENDPOINT, "trace.endpoint", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,      \
      "URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318; empty sends no traces.")      \
    X(RON_APP_TRACE_SAMPLE, "trace.sample_percent", INT, "%", 0, 100, "1", RON_CONF_RELOAD,        \
      "Share of requests that are traced; those that fail always are.")                            \
    X(RON_APP_AMNESIA, "amnesia.enabled", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                 \
      "Leave nothing on disk: keep all state in memory only.")
