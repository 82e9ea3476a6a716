/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/conf.h - the settings of `ron rewarder`. docs/reference/rewarder.md is generated from
 * it.
 *
 * Place: rewarder. Names are those of the specification. */
#pragma once

#include "ron/app/app.h"

#define RWD_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7300")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    X(RWD_INPUT_MAX, "limits.max_input_bytes", SIZE, "", 1024, RON_CONF_GIB(64), "2GiB",           \
      RON_CONF_FIXED, "Bytes of a snapshot that is sent by PUT /rewarder/inputs, unpacked.")       \
    X(RWD_ROWS_MAX, "limits.max_rows", INT, "rows", 1, 1000000000, "20000000", RON_CONF_FIXED,     \
      "Rows of a snapshot.")                                                                       \
    RON_APP_KEYS_TIMEOUTS(X, "30s")                                                                \
    X(RWD_RPC, "timeouts.rpc", DURATION, "", 0, RON_CONF_M(1), "0ms", RON_CONF_FIXED,              \
      "Time for one call to the ledger or wallet, when it is less than timeouts.read; 0 takes "    \
      "that.")                                                                                     \
    RON_APP_KEYS_REST(X)                                                                           \
    X(RWD_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of the clients' capabilities (`ron cap key new`); a reload reads it anew.")       \
    X(RWD_LEDGER_ADDR, "upstreams.ledger_addr", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,      \
      "The ledger's OAP address (its oap.addr): unix:/path or host:port. Of several ledgers on "   \
      "one log, up to 8 with commas between them: the one that leads is found.")                   \
    X(RWD_LEDGER_TOKEN, "upstreams.ledger_token_file", STRING, "bytes", 0, 1023, "",               \
      RON_CONF_FIXED,                                                                              \
      "File with this service's own capability for the ledger, mode 0600; a reload reads it.")     \
    X(RWD_WALLET_URL, "upstreams.wallet_url", STRING, "bytes", 0, 255, "", RON_CONF_FIXED,         \
      "The wallet's base URL, for settlement.target = \"wallet\": http://127.0.0.1:7100.")         \
    X(RWD_WALLET_TOKEN, "upstreams.wallet_token_file", STRING, "bytes", 0, 1023, "",               \
      RON_CONF_FIXED,                                                                              \
      "File with this service's own capability for the wallet, mode 0600; a reload reads it.")     \
    X(RWD_DIR, "rewarder.dir", STRING, "bytes", 0, 900, "ron-data/rewarder", RON_CONF_FIXED,       \
      "Folder of the book of epochs and of sealed inputs; not used under amnesia.")                \
    X(RWD_ARTIFACT_DIR, "rewarder.artifact_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,      \
      "Folder of published runs; empty takes `artifacts` inside rewarder.dir.")                    \
    X(RWD_INPUT_BYTES, "rewarder.input_store_bytes", SIZE, "", RON_CONF_MIB(1),                    \
      RON_CONF_GIB(1024), "16GiB", RON_CONF_FIXED,                                                 \
      "Space of sealed inputs; what no epoch needs any more makes room.")                          \
    X(RWD_EPOCH_DURATION, "rewarder.epoch_duration", DURATION, "", RON_CONF_S(1), RON_CONF_H(744), \
      "1h", RON_CONF_RELOAD, "Length of an epoch; a run has half of it at most.")                  \
    X(RWD_SALT, "rewarder.idempotency_salt", STRING, "bytes", 1, 64, "svc-rewarder|v1",            \
      RON_CONF_FIXED, "First part of every run key; another one makes all runs new.")              \
    X(RWD_RETAIN, "rewarder.retain_runs", DURATION, "", RON_CONF_S(1), RON_CONF_H(87600), "24h",   \
      RON_CONF_RELOAD,                                                                             \
      "How long the files of an emitted run stay; that its epoch was paid is never forgotten.")    \
    X(RWD_AUTO_EMIT, "rewarder.auto_emit", BOOL, "", 0, 0, "true", RON_CONF_RELOAD,                \
      "Settle sealed runs at once; otherwise POST .../emit does.")                                 \
    X(RWD_QUARANTINE_ONLY, "rewarder.quarantine_only", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,   \
      "Compute and publish, but send nothing to the ledger until this is off again.")              \
    X(RWD_PUBLIC_TREE, "rewarder.openzeppelin_tree", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,     \
      "Add openzeppelin.json to a run: payouts to 0x addresses as a tree to claim on chain.")      \
    X(RWD_POLICY_DIR, "rewarder.policy_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,          \
      "Folder of policy documents (*.json), read at the start and by a reload.")                   \
    X(RWD_POLICY_KEYS, "rewarder.policy_keys", LIST, "keys", 0, 64, "", RON_CONF_FIXED,            \
      "Who may sign policies: ID=HEX, key id and public key as `ron reward key show` tells them.") \
    X(RWD_ATTEST_KEY, "rewarder.attest_key_file", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,     \
      "Ed25519 key that attests runs (`ron reward key new`), mode 0600; empty: none.")             \
    X(RWD_BOOK_DSN, "book.dsn", STRING, "bytes", 0, 4095, "", RON_CONF_SECRET,                     \
      "Connection string of a PostgreSQL that holds the book of epochs and its outbox; empty: "    \
      "a SQLite file in rewarder.dir.")                                                            \
    X(RWD_TARGET, "settlement.target", ENUM, "ledger|wallet", 0, 0, "ledger", RON_CONF_FIXED,      \
      "Who is asked to pay: the ledger in batches, or the wallet, a request for each payout.")     \
    X(RWD_BATCH, "settlement.batch", INT, "intents", 1, 1024, "1000", RON_CONF_FIXED,              \
      "Intents sent to the ledger in one batch.")                                                  \
    X(RWD_RETRY_WITHHELD, "settlement.retry", DURATION, "", 100, RON_CONF_H(1), "5s",              \
      RON_CONF_RELOAD, "Wait before a withheld settlement is tried again.")                        \
    X(RWD_HORIZON, "settlement.ledger_horizon", DURATION, "", RON_CONF_M(1), RON_CONF_H(744),      \
      "24h", RON_CONF_FIXED, "The ledger's horizon; older batches are stamped anew.")              \
    X(RWD_WORKERS, "concurrency.compute_workers", INT, "tasks", 1, 64, "4", RON_CONF_FIXED,        \
      "Runs that are computed at once.")                                                           \
    X(RWD_IO_INFLIGHT, "concurrency.io_inflight", INT, "batches", 1, 256, "64", RON_CONF_FIXED,    \
      "Batches of a settlement under way at once.")                                                \
    X(RWD_SHARDS, "shard.shards", INT, "parts", 1, 4096, "1", RON_CONF_RELOAD,                     \
      "Parts that the rows of a run are taken in; results do not depend on it.")                   \
    X(RWD_Q_WORK_REQ, "queues.work_req", INT, "requests", 1, 100000, "512", RON_CONF_FIXED,        \
      "Requests that wait for the scheduler; one more is answered 429.")                           \
    X(RWD_Q_WORK, "queues.work", INT, "runs", 1, 100000, "512", RON_CONF_FIXED,                    \
      "Runs that wait for a worker; one more is tried again once, then refused.")                  \
    X(RWD_Q_RESULTS, "queues.results", INT, "runs", 1, 100000, "512", RON_CONF_FIXED,              \
      "Results that wait for the artifact writer; workers wait for room.")                         \
    X(RWD_Q_INTENTS, "queues.intents", INT, "runs", 1, 100000, "512", RON_CONF_FIXED,              \
      "Settlements that wait for the emitter; workers wait for room.")

enum { RWD_CONF(RON_CONF_ID) RWD_CONF_COUNT };

extern const struct ron_conf_table rwd_conf_table;
