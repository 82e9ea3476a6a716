/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/conf.h - the settings of `ron wallet`. docs/reference/wallet.md is generated from it.
 *
 * Place: wallet. Names are those of the specification. */
#pragma once

#include "ron/app/app.h"

#define WLT_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7100")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "5s")                                                                 \
    X(WLT_RPC, "timeouts.rpc", DURATION, "", 10, RON_CONF_S(5), "1s", RON_CONF_FIXED,              \
      "Time for one call to the ledger.")                                                          \
    RON_APP_KEYS_REST(X)                                                                           \
    X(WLT_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of the clients' capabilities (`ron cap key new`); a reload reads it anew.")       \
    X(WLT_LEDGER_ADDR, "upstreams.ledger_addr", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,      \
      "The ledger's OAP address (its oap.addr): unix:/path or host:port. Of several ledgers on "   \
      "one log, up to 8 with commas between them: the one that leads is found.")                   \
    X(WLT_LEDGER_TOKEN, "upstreams.ledger_token_file", STRING, "bytes", 0, 1023, "",               \
      RON_CONF_FIXED,                                                                              \
      "File with the wallet's own capability for the ledger, mode 0600; a reload reads it anew.")  \
    X(WLT_LEDGER_CONNS, "upstreams.ledger_connections", INT, "connections", 1, 64, "1",            \
      RON_CONF_FIXED, "Connections to the ledger that the workers share.")                         \
    X(WLT_LEDGER_STALL, "upstreams.ledger_stall", DURATION, "", 50, RON_CONF_S(10), "500ms",       \
      RON_CONF_FIXED, "Silence of the ledger after which writes are refused and readyz is 503.")   \
    X(WLT_STALENESS, "wallet.staleness_window", DURATION, "", 10, RON_CONF_S(5), "250ms",          \
      RON_CONF_FIXED, "How old a balance may be that is answered from the cache.")                 \
    X(WLT_IDEM_TTL, "wallet.idempotency_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(72), "24h",  \
      RON_CONF_RELOAD, "How long answers are kept for repeated keys; later the ledger is asked.")  \
    X(WLT_IDEM_BYTES, "wallet.idempotency_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(64),    \
      "12MiB", RON_CONF_FIXED, "Memory for these answers; the oldest make room.")                  \
    X(WLT_SHARDS, "wallet.shards", INT, "shards", 1, 1024, "64", RON_CONF_FIXED,                   \
      "Parts of each table, so that threads do not meet.")                                         \
    X(WLT_ACCOUNTS, "wallet.accounts", INT, "accounts", 1024, 100000000, "131072", RON_CONF_FIXED, \
      "Accounts whose nonces, daily sums and balances are remembered.")                            \
    X(WLT_WORKERS, "wallet.workers", INT, "tasks", 0, 64, "0", RON_CONF_FIXED,                     \
      "Committer workers; 0 takes one per processor.")                                             \
    X(WLT_AMOUNT_MAX, "wallet.max_amount_per_op", STRING, "bytes", 1, 39, "100000000000000000000", \
      RON_CONF_FIXED, "Largest amount of one operation, in minor units.")                          \
    X(WLT_DAILY_MAX, "wallet.daily_ceiling", STRING, "bytes", 1, 39, "10000000000000000000000",    \
      RON_CONF_FIXED,                                                                              \
      "Most that may be debited from one account and asset on one UTC day; 0 is no limit.")        \
    X(WLT_TOTAL_MAX, "wallet.max_account_total", STRING, "bytes", 1, 39,                           \
      "340282366920938463463374607430768211455", RON_CONF_FIXED,                                   \
      "Largest balance of an account that a wallet's credit may lead to.")                         \
    X(WLT_ASSETS, "wallet.assets", LIST, "assets", 0, 64, "", RON_CONF_FIXED,                      \
      "Assets that may be used; empty allows all.")                                                \
    X(WLT_RETRY_TRIES, "retry.tries", INT, "tries", 1, 10, "3", RON_CONF_FIXED,                    \
      "Tries of one write at the ledger, the first one counted.")                                  \
    X(WLT_RETRY_BASE, "retry.base", DURATION, "", 1, RON_CONF_S(5), "50ms", RON_CONF_FIXED,        \
      "Wait before the second try; it doubles with each further one.")                             \
    X(WLT_RETRY_MAX, "retry.max", DURATION, "", 1, RON_CONF_S(5), "1s", RON_CONF_FIXED,            \
      "Longest such wait.")                                                                        \
    X(WLT_RETRY_FACTOR, "retry.factor", INT, "times", 1, 10, "2", RON_CONF_FIXED,                  \
      "By how much the wait grows with each try.")                                                 \
    X(WLT_RETRY_JITTER, "retry.jitter", DURATION, "", 0, RON_CONF_S(5), "20ms", RON_CONF_FIXED,    \
      "Up to so much is added at random.")                                                         \
    X(WLT_CB_FAILS, "circuit_breaker.failure_threshold", INT, "failures", 1, 1000000, "20",        \
      RON_CONF_FIXED, "Failed calls within 10 s after which the ledger is not called.")            \
    X(WLT_CB_OPEN, "circuit_breaker.open_duration", DURATION, "", 10, RON_CONF_M(5), "5s",         \
      RON_CONF_FIXED, "For how long.")                                                             \
    X(WLT_CB_HALF, "circuit_breaker.half_open_max", INT, "calls", 1, 1000, "10", RON_CONF_FIXED,   \
      "Calls that must then succeed.")                                                             \
    X(WLT_INGRESS_WORKERS, "concurrency.ingress_workers", INT, "workers", 0, 64, "0",              \
      RON_CONF_FIXED, "Workers that listen; 0 takes a quarter of the processors, at least 1.")     \
    X(WLT_Q_WORK, "queues.work", INT, "requests", 1, 100000, "512", RON_CONF_FIXED,                \
      "Writes that wait for a worker; one more is answered 429.")

enum { WLT_CONF(RON_CONF_ID) WLT_CONF_COUNT };

extern const struct ron_conf_table wlt_conf_table;
