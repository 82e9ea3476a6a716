/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/conf.h - the settings of `ron ledger`. docs/reference/ledger.md is generated from it.
 *
 * Place: ledger. Names are those of the specification. */
#pragma once

#include "ron/app/app.h"

/* How a remote guard is reached, besides its URL. */
#define LED_CONF_GUARD(X, id, name)                                                                \
    X(LED_##id##_SOCKET, name ".socket", STRING, "bytes", 0, 107, "", RON_CONF_FIXED,              \
      "Unix socket on which it is asked, in the place of the address in its URL.")                 \
    X(LED_##id##_TOKEN, name ".token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,          \
      "File (mode 0600) with the bearer token that is shown to it; read at the start.")            \
    X(LED_##id##_CA, name ".ca_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                \
      "PEM file with the authorities of its certificate; empty: the system's.")                    \
    X(LED_##id##_CERT, name ".cert_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,            \
      "PEM file with the certificate that is shown to it; needs the key.")                         \
    X(LED_##id##_KEY, name ".key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,              \
      "PEM file with the key of that certificate.")

#define LED_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:5082")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "10s")                                                                \
    X(LED_KMS_MS, "timeouts.kms_ms", INT, "ms", 1, 60000, "1000", RON_CONF_FIXED,                  \
      "Time for one call to a remote verifier of capabilities.")                                   \
    X(LED_POLICY_MS, "timeouts.policy_ms", INT, "ms", 1, 60000, "800", RON_CONF_FIXED,             \
      "Time for one call to a remote policy guard.")                                               \
    X(LED_WALLET_MS, "timeouts.wallet_ms", INT, "ms", 1, 60000, "1000", RON_CONF_FIXED,            \
      "Time for one call to a remote double-spend check.")                                         \
    RON_APP_KEYS_REST(X)                                                                           \
    X(LED_ENGINE_MODE, "engine.mode", ENUM, "persistent|amnesia", 0, 0, "persistent",              \
      RON_CONF_FIXED, "Where the journal lives: files in engine.data_dir, or memory alone.")       \
    X(LED_ENGINE_SINK, "engine.sink", ENUM, "file|postgres", 0, 0, "file", RON_CONF_FIXED,         \
      "Which log is the truth: the files here, or rows of a PostgreSQL table that several "        \
      "ledgers "                                                                                   \
      "share, of which these files are a copy.")                                                   \
    X(LED_DATA_DIR, "engine.data_dir", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,               \
      "Directory of the journal; made with mode 0700. Required when persistent.")                  \
    X(LED_SEGMENT_BYTES, "engine.segment_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(1),      \
      "64MiB", RON_CONF_FIXED, "Size of one segment file of the log, zero-filled when made.")      \
    X(LED_FREE_FLOOR, "engine.free_floor", SIZE, "", 0, RON_CONF_GIB(1024), "256MiB",              \
      RON_CONF_FIXED, "Space kept free: a segment that would leave less is not made.")             \
    X(LED_TORN_TAIL, "engine.torn_tail", ENUM, "cut|safe_mode", 0, 0, "cut", RON_CONF_FIXED,       \
      "What an incomplete, never acknowledged end of the log leads to after a crash.")             \
    X(LED_HORIZON, "engine.horizon", DURATION, "", RON_CONF_M(1), RON_CONF_H(24 * 30), "24h",      \
      RON_CONF_FIXED, "How old an entry's ts may be, and how long nonces are remembered.")         \
    X(LED_BATCH_MAX, "engine.batch_max_entries", INT, "entries", 1, 1024, "1024", RON_CONF_FIXED,  \
      "Entries of one batch over HTTP; over OAP as many as fit a frame.")                          \
    X(LED_MEMORY_MAX, "engine.memory_max", SIZE, "", RON_CONF_MIB(16), RON_CONF_GIB(1024), "1GiB", \
      RON_CONF_FIXED, "Memory that the journal may take in amnesia mode; beyond it is disk full.") \
    X(LED_IMAGE_EVERY, "engine.checkpoint_interval", INT, "entries", 1, 1000000000, "1000000",     \
      RON_CONF_FIXED, "Least entries between two images of the book, from which a start goes on.") \
    X(LED_PREVALIDATORS, "concurrency.prevalidators", INT, "tasks", 0, 64, "0", RON_CONF_FIXED,    \
      "Prevalidator tasks; 0 takes half of the processors, at least 2.")                           \
    X(LED_INGRESS_WORKERS, "concurrency.ingress_workers", INT, "workers", 0, 64, "0",              \
      RON_CONF_FIXED, "Workers that listen; 0 takes a quarter of the processors, at least 1.")     \
    X(LED_AWAKE_US, "concurrency.awake_us", INT, "microseconds", 0, 10000, "200", RON_CONF_FIXED,  \
      "How long beyond the time of a sync a worker looks for the answer of a lone request, and "   \
      "worker and committer for the next one, before they sleep; 0 sleeps at once.")               \
    X(LED_READERS, "concurrency.readers", INT, "threads", 1, 16, "2", RON_CONF_FIXED,              \
      "Threads that read the journal for histories, proofs and repetitions.")                      \
    X(LED_Q_INGRESS, "queues.ingress", INT, "requests", 1, 1000000, "2000", RON_CONF_FIXED,        \
      "Requests that wait for a prevalidator; one more is answered 429.")                          \
    X(LED_Q_PREVAL, "queues.prevalidator", INT, "requests", 1, 1000000, "2000", RON_CONF_FIXED,    \
      "Validated requests that wait for the sequencer; the oldest makes room and is answered "     \
      "429.")                                                                                      \
    X(LED_Q_COMMIT, "queues.commit", INT, "requests", 1, 1000000, "1000", RON_CONF_FIXED,          \
      "Sequenced requests that wait for the committer; without room none gets a seq.")             \
    X(LED_Q_READS, "queues.reads", INT, "requests", 1, 1000000, "1000", RON_CONF_FIXED,            \
      "Requests that wait for a reader; one more is answered 429.")                                \
    X(LED_RETRY_MAX, "retries.policy_guard.max_retries", INT, "tries", 0, 5, "1", RON_CONF_FIXED,  \
      "Further tries of a remote policy guard.")                                                   \
    X(LED_RETRY_BACKOFF, "retries.policy_guard.max_backoff", DURATION, "", 1, RON_CONF_S(5),       \
      "150ms", RON_CONF_FIXED, "Longest wait before one.")                                         \
    X(LED_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of capabilities (`ron cap key new`); a reload reads it anew. Required without "   \
      "kms.url.")                                                                                  \
    X(LED_AUTH_READS, "auth.reads", ENUM, "capability|open", 0, 0, "capability", RON_CONF_FIXED,   \
      "Who may read balances, entries and exports. Roots, proofs and tiles are public.")           \
    X(LED_PRIV_UIDS, "auth.privileged_uids", LIST, "users", 0, 64, "", RON_CONF_FIXED,             \
      "Binds mint, reverse, freeze, admin and import scopes to these users of the Unix socket.")   \
    X(LED_PRIV_NAMES, "auth.privileged_names", LIST, "names", 0, 64, "", RON_CONF_FIXED,           \
      "Binds them to client certificates with one of these names: cn:, dns:, email:, uri: or ip: " \
      "before the name, or sha256: before the certificate's fingerprint in hex.")                  \
    X(LED_REQUIRE_KID, "kms.require_kid", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                  \
      "Whether the kid of an entry must be that of the capability's key.")                         \
    X(LED_KMS_URL, "kms.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                        \
      "Remote verifier of capabilities, in the place of auth.key_file; needs auth.reads = open.")  \
    LED_CONF_GUARD(X, KMS, "kms")                                                                  \
    X(LED_POLICY_FILE, "policy.file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                \
      "Limits, freezes and residency. A reload reads it anew. Empty: no limits.")                  \
    X(LED_POLICY_URL, "policy.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "Remote policy guard that is asked too; empty for none.")                                    \
    LED_CONF_GUARD(X, POLICY, "policy")                                                            \
    X(LED_WALLET_URL, "wallet.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "Remote double-spend check that is asked too; empty for none.")                              \
    LED_CONF_GUARD(X, WALLET, "wallet")                                                            \
    X(LED_REVERSIBLE, "governance.reversible_bridges", ENUM, "disabled|require-cap|allow", 0, 0,   \
      "disabled", RON_CONF_RELOAD, "Whether entries may be reversed. A reload only tightens.")     \
    X(LED_SIGN_KEY, "signing.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,              \
      "Ed25519 key that signs checkpoints, made when absent; empty: signing.key in the data "      \
      "directory. In amnesia it must be there; empty: a key in memory.")                           \
    X(LED_SIGN_ORIGIN, "signing.origin", STRING, "bytes", 0, 200, "", RON_CONF_FIXED,              \
      "Name of this log in its checkpoints; empty: ron-ledger/ and the ledger's uuid.")            \
    X(LED_WITNESSES, "signing.witnesses", LIST, "keys", 0, 16, "", RON_CONF_FIXED,                 \
      "Verifier keys of witnesses whose cosignatures are attached to checkpoints.")                \
    X(LED_ROOT_EMIT, "audit.root_emit_interval", DURATION, "", 100, RON_CONF_H(1), "5s",           \
      RON_CONF_RELOAD, "How often the signed checkpoint on disk is renewed while roots change.")   \
    X(LED_PG_DSN, "postgres.dsn", STRING, "bytes", 0, 4095, "", RON_CONF_SECRET,                   \
      "Connection string of the database, as libpq reads it; several hosts are tried in turn.")    \
    X(LED_PG_LEDGER, "postgres.ledger", STRING, "bytes", 1, 64, "main", RON_CONF_FIXED,            \
      "Name of this ledger in the database: a-z, 0-9, _ and -.")                                   \
    X(LED_PG_URL, "postgres.advertise", STRING, "bytes", 0, 200, "", RON_CONF_FIXED,               \
      "URL of this ledger that writers are told while it leads.")                                  \
    X(LED_PG_OAP, "postgres.advertise_oap", STRING, "bytes", 0, 127, "", RON_CONF_FIXED,           \
      "OAP address of this ledger as writers know it; empty takes oap.addr.")                      \
    X(LED_PG_LEASE, "postgres.lease", DURATION, "", 200, RON_CONF_S(60), "3s", RON_CONF_FIXED,     \
      "How long a leader may be silent before another ledger tries to lead.")                      \
    X(LED_PG_APPEND, "postgres.append_deadline", DURATION, "", 100, RON_CONF_S(300), "10s",        \
      RON_CONF_FIXED, "Time to settle an append; then this ledger follows.")                       \
    X(LED_PG_MIGRATE, "postgres.migrate", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                 \
      "Makes schema and tables at the start; needs a role that may.")                              \
    X(LED_OAP_ADDR, "oap.addr", STRING, "bytes", 0, 127, "", RON_CONF_FIXED,                       \
      "Address of the binary front (OAP/1): host:port or unix:/path; empty for none.")             \
    X(LED_OAP_FLOW, "oap.flow", INT, "requests", 1, 4096, "256", RON_CONF_FIXED,                   \
      "Requests that one OAP connection may have in flight.")

enum { LED_CONF(RON_CONF_ID) LED_CONF_COUNT };

enum { LED_MODE_PERSISTENT, LED_MODE_AMNESIA };
enum { LED_SINK_FILE, LED_SINK_POSTGRES };
enum { LED_TORN_CUT, LED_TORN_SAFE_MODE };
enum { LED_READS_CAPABILITY, LED_READS_OPEN };
enum { LED_BRIDGE_DISABLED, LED_BRIDGE_REQUIRE_CAP, LED_BRIDGE_ALLOW };

extern const struct ron_conf_table led_conf_table;
