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
      "Timeout of one call to the ledger.")                                                        \
    RON_APP_KEYS_REST(X)                                                                           \
    X(WLT_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "File with the root keys of client capabilities (`ron cap key new`). A reload re-reads it.") \
    X(WLT_LEDGER_ADDR, "upstreams.ledger_addr", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,      \
      "OAP address of the ledger (its oap.addr): unix:/path or host:port. For replicated "         \
      "ledgers, "                                                                                  \
      "up to 8 addresses separated by commas; the wallet finds the leader.")                       \
    X(WLT_LEDGER_TOKEN, "upstreams.ledger_token_file", STRING, "bytes", 0, 1023, "",               \
      RON_CONF_FIXED,                                                                              \
      "File with the wallet's own capability for the ledger, mode 0600. A reload re-reads it.")    \
    X(WLT_LEDGER_CONNS, "upstreams.ledger_connections", INT, "connections", 1, 64, "1",            \
      RON_CONF_FIXED, "Connections to each ledger, shared by the workers.")                        \
    X(WLT_LEDGER_STALL, "upstreams.ledger_stall", DURATION, "", 50, RON_CONF_S(10), "500ms",       \
      RON_CONF_FIXED,                                                                              \
      "Time without a ledger answer after which writes are refused and readyz is 503.")            \
    X(WLT_STALENESS, "wallet.staleness_window", DURATION, "", 10, RON_CONF_S(5), "250ms",          \
      RON_CONF_FIXED, "Maximum age of a balance answered from the cache.")                         \
    X(WLT_IDEM_TTL, "wallet.idempotency_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(72), "24h",  \
      RON_CONF_RELOAD,                                                                             \
      "Time that answers are kept by idempotency key; after it the ledger is queried.")            \
    X(WLT_IDEM_BYTES, "wallet.idempotency_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(64),    \
      "12MiB", RON_CONF_FIXED, "Memory for these answers; the least recently used are evicted.")   \
    X(WLT_SHARDS, "wallet.shards", INT, "shards", 1, 1024, "64", RON_CONF_FIXED,                   \
      "Shards of each table; more shards reduce lock contention.")                                 \
    X(WLT_ACCOUNTS, "wallet.accounts", INT, "accounts", 1024, 100000000, "131072", RON_CONF_FIXED, \
      "Accounts whose nonces, daily sums and balances are cached.")                                \
    X(WLT_WORKERS, "wallet.workers", INT, "tasks", 0, 64, "0", RON_CONF_FIXED,                     \
      "Committer workers; 0 means one per processor.")                                             \
    X(WLT_AMOUNT_MAX, "wallet.max_amount_per_op", STRING, "bytes", 1, 39, "100000000000000000000", \
      RON_CONF_FIXED, "Maximum amount of one operation, in minor units.")                          \
    X(WLT_DAILY_MAX, "wallet.daily_ceiling", STRING, "bytes", 1, 39, "10000000000000000000000",    \
      RON_CONF_FIXED,                                                                              \
      "Maximum debit per account, asset and UTC day, in minor units; 0 disables the limit.")       \
    X(WLT_TOTAL_MAX, "wallet.max_account_total", STRING, "bytes", 1, 39,                           \
      "340282366920938463463374607430768211455", RON_CONF_FIXED,                                   \
      "Maximum balance that a credit through this wallet may lead to.")                            \
    X(WLT_ASSETS, "wallet.assets", LIST, "assets", 0, 64, "", RON_CONF_FIXED,                      \
      "Allowed assets. Empty allows all.")                                                         \
    X(WLT_RETRY_TRIES, "retry.tries", INT, "tries", 1, 10, "3", RON_CONF_FIXED,                    \
      "Tries of one write at the ledger, including the first.")                                    \
    X(WLT_RETRY_BASE, "retry.base", DURATION, "", 1, RON_CONF_S(5), "50ms", RON_CONF_FIXED,        \
      "Delay before the second try; it grows with each further try.")                              \
    X(WLT_RETRY_MAX, "retry.max", DURATION, "", 1, RON_CONF_S(5), "1s", RON_CONF_FIXED,            \
      "Maximum delay between tries.")                                                              \
    X(WLT_RETRY_FACTOR, "retry.factor", INT, "times", 1, 10, "2", RON_CONF_FIXED,                  \
      "Factor by which the delay grows with each try.")                                            \
    X(WLT_RETRY_JITTER, "retry.jitter", DURATION, "", 0, RON_CONF_S(5), "20ms", RON_CONF_FIXED,    \
      "Maximum random jitter added to the delay.")                                                 \
    X(WLT_CB_FAILS, "circuit_breaker.failure_threshold", INT, "failures", 1, 1000000, "20",        \
      RON_CONF_FIXED, "Failed calls within 10 s that open the circuit breaker.")                   \
    X(WLT_CB_OPEN, "circuit_breaker.open_duration", DURATION, "", 10, RON_CONF_M(5), "5s",         \
      RON_CONF_FIXED, "Time that the circuit breaker stays open.")                                 \
    X(WLT_CB_HALF, "circuit_breaker.half_open_max", INT, "calls", 1, 1000, "10", RON_CONF_FIXED,   \
      "Probe calls that must succeed before the circuit breaker closes.")                          \
    X(WLT_INGRESS_WORKERS, "concurrency.ingress_workers", INT, "workers", 0, 64, "0",              \
      RON_CONF_FIXED, "Listening workers; 0 means a quarter of the processors, at least 1.")       \
    X(WLT_Q_WORK, "queues.work", INT, "requests", 1, 100000, "512", RON_CONF_FIXED,                \
      "Writes that wait for a worker; further writes are answered 429.")

enum { WLT_CONF(RON_CONF_ID) WLT_CONF_COUNT };

extern const struct ron_conf_table wlt_conf_table;
