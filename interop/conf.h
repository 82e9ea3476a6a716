/* SPDX-License-Identifier: Apache-2.0 */
/* interop/conf.h - the settings of `ron interop`. docs/reference/interop.md is generated from it.
 *
 * Place: interop. Groups that belong to one part stand with that part and are only placed here. */
#pragma once

#include "interop/provider/load.h"
#include "interop/rule/rule.h"
#include "ron/app/app.h"
#include "ron/s3/tier.h"

#define IOP_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7500")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    X(IOP_OBJECT_MAX, "limits.max_object_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(64),     \
      "1GiB", RON_CONF_FIXED, "Maximum size of an object that /put accepts as a stream.")          \
    RON_APP_KEYS_TIMEOUTS(X, "2s")                                                                 \
    X(IOP_RPC_TIMEOUT, "timeouts.rpc", DURATION, "", 10, RON_CONF_S(30), "2s", RON_CONF_FIXED,     \
      "Timeout of one call to another service, including retries.")                                \
    X(IOP_STORAGE_TIMEOUT, "timeouts.storage", DURATION, "", 10, RON_CONF_M(10), "1m",             \
      RON_CONF_FIXED, "Timeout of one object transfer to or from storage.url, including retries.") \
    X(IOP_FORWARD_TIMEOUT, "timeouts.forward", DURATION, "", 10, RON_CONF_M(1), "15s",             \
      RON_CONF_FIXED, "Timeout of one forward attempt.")                                           \
    RON_APP_KEYS_REST(X)                                                                           \
    X(IOP_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "File with the root keys of client capabilities (`ron cap key new`). A reload re-reads it.") \
    X(IOP_READS, "auth.reads", ENUM, "capability|open", 0, 0, "capability", RON_CONF_FIXED,        \
      "Whether GET /o requires a capability. With open, knowing the address is enough.")           \
    X(IOP_CAP_TTL, "auth.capability_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_S(60), "60s",      \
      RON_CONF_FIXED, "Lifetime of the capability that an action carries.")                        \
    X(IOP_DIR, "interop.dir", STRING, "bytes", 1, 900, "ron-data/interop", RON_CONF_FIXED,         \
      "Directory of the mailbox and the objects. Not used in amnesia mode.")                       \
    X(IOP_SERVER_NAMES, "interop.server_names", LIST, "names", 0, 64, "", RON_CONF_FIXED,          \
      "Host names that webhooks may be sent to, compared with the Host header. Empty allows all.") \
    IOP_PROVIDER_KEYS(X)                                                                           \
    X(IOP_P_CIDRS, "providers.*.allow_cidrs", LIST, "blocks", 0, 32, "", RON_CONF_RELOAD,          \
      "Address blocks that the provider sends from, such as 192.0.2.0/24. Empty allows all.")      \
    IOP_RULE_KEYS(X)                                                                               \
    X(IOP_R_PLAIN, "rules.*.allow_http", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,                 \
      "forward: allow http:// in the URL.")                                                        \
    X(IOP_R_PRIVATE, "rules.*.allow_private", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,            \
      "forward: allow loopback and private addresses.")                                            \
    X(IOP_WALLET_URL, "wallet.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "Base URL of svc-wallet, for rules with the action wallet.")                                 \
    X(IOP_WALLET_TOKEN, "wallet.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,         \
      "File with this service's capability for the wallet; each action carries an attenuated "     \
      "copy.")                                                                                     \
    X(IOP_PASSPORT_URL, "passport.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,              \
      "Base URL of a passport service that issues these capabilities instead.")                    \
    X(IOP_MAILBOX_URL, "mailbox.url", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                 \
      "Base URL of another `ron interop` that keeps the mailbox. Empty keeps it here.")            \
    X(IOP_MAILBOX_TOKEN, "mailbox.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,       \
      "File with this service's capability for mailbox.url, scope mailbox.")                       \
    X(IOP_BOX_DSN, "mailbox.dsn", STRING, "bytes", 0, 4095, "", RON_CONF_SECRET,                   \
      "PostgreSQL connection string for the mailbox and the deduplication keys. "                  \
      "Empty uses a SQLite file in interop.dir.")                                                  \
    X(IOP_BOX_TOPIC, "mailbox.topic_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(1024),        \
      "1GiB", RON_CONF_FIXED,                                                                      \
      "Maximum size of one topic, including dead letters; further messages are answered 429.")     \
    X(IOP_BOX_TOTAL, "mailbox.total_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(1024),        \
      "4GiB", RON_CONF_FIXED, "Maximum size of all topics together.")                              \
    X(IOP_BOX_TOPICS, "mailbox.topics", INT, "topics", 16, 8192, "1024", RON_CONF_FIXED,           \
      "Maximum number of topics. Above three quarters of it, topics without messages and dead "    \
      "letters are removed.")                                                                      \
    X(IOP_BOX_DELIVERIES, "mailbox.max_deliveries", INT, "times", 1, 1000, "10", RON_CONF_FIXED,   \
      "Delivery attempts before a message becomes a dead letter.")                                 \
    X(IOP_DEDUP_TTL, "dedup.ttl", DURATION, "", RON_CONF_M(15), RON_CONF_H(720), "24h",            \
      RON_CONF_FIXED,                                                                              \
      "Time that a delivery is recognised as a duplicate, while dedup.max_keys has room.")         \
    X(IOP_DEDUP_KEYS, "dedup.max_keys", INT, "keys", 1000, 67108864, "4194304", RON_CONF_FIXED,    \
      "Deduplication keys kept in memory, 32 to 40 bytes each. When all are used, "                \
      "the oldest is evicted; if it is younger than twice the largest tolerance, "                 \
      "the new delivery is answered 429.")                                                         \
    X(IOP_STORAGE_URL, "storage.url", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                 \
      "Base URL of a service with /put and /o that stores the objects; the local store caches "    \
      "them. Empty stores objects locally.")                                                       \
    X(IOP_STORAGE_TOKEN, "storage.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,       \
      "File with this service's capability for storage.url, scopes interop.put and interop.read.") \
    X(IOP_B_RATE, "readiness.brownout_error_ppm", INT, "ppm", 1, 1000000, "10000", RON_CONF_FIXED, \
      "Failed calls to other services, per million, above which a brownout starts.")               \
    X(IOP_B_CALLS, "readiness.brownout_calls", INT, "calls", 1, 1000000, "100", RON_CONF_FIXED,    \
      "Minimum number of calls in the window for a decision.")                                     \
    X(IOP_B_WINDOW, "readiness.brownout_window", DURATION, "", RON_CONF_S(1), RON_CONF_H(1), "5m", \
      RON_CONF_FIXED, "Window over which calls are counted.")                                      \
    X(IOP_B_SLOW, "readiness.upstream_p95", DURATION, "", 100, RON_CONF_M(1), "500ms",             \
      RON_CONF_FIXED, "95th percentile of call time at which a brownout starts.")                  \
    X(IOP_B_QUEUE, "readiness.queue_pressure", DURATION, "", 100, RON_CONF_H(1), "1m",             \
      RON_CONF_FIXED, "Time that `work` may stay above 80 % before a brownout starts.")            \
    X(IOP_B_HOLD, "readiness.brownout_hold", DURATION, "", 100, RON_CONF_H(1), "30s",              \
      RON_CONF_FIXED, "Minimum duration of a brownout.")                                           \
    X(IOP_B_PROBE, "readiness.brownout_probe", DURATION, "", 10, RON_CONF_M(1), "1s",              \
      RON_CONF_FIXED, "Interval between probe requests during a brownout.")                        \
    X(IOP_AUDIT_SINK, "audit.sink", ENUM, "memory|stdout|file", 0, 0, "memory", RON_CONF_FIXED,    \
      "Sink of the audit trail in addition to the ring in memory. Amnesia mode allows no file.")   \
    X(IOP_AUDIT_PATH, "audit.file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "File for audit.sink = file, opened for appending. Empty uses audit.jsonl in interop.dir.")  \
    X(IOP_AUDIT_WORDS, "audit.redact", LIST, "words", 0, 15, "", RON_CONF_FIXED,                   \
      "Words; attributes whose name contains one are redacted. Empty uses token, "                 \
      "authorization, signature, secret, key, cookie, password.")                                  \
    X(IOP_STORE_BYTES, "objects.store_bytes", SIZE, "", RON_CONF_MIB(1), RON_CONF_GIB(65536),      \
      "10GiB", RON_CONF_FIXED,                                                                     \
      "Space for objects; the least recently used are evicted. In amnesia mode at most 256 MiB "   \
      "of memory.")                                                                                \
    RON_TIER_KEYS(X)                                                                               \
    X(IOP_WORKERS, "concurrency.workers", INT, "tasks", 0, 64, "0", RON_CONF_FIXED,                \
      "Tasks that verify deliveries; 0 means one per executor worker, at least 2.")                \
    X(IOP_UPLOADS, "concurrency.uploads", INT, "tasks", 1, 64, "8", RON_CONF_FIXED,                \
      "Concurrent uploads.")                                                                       \
    X(IOP_ACTORS, "concurrency.actors", INT, "tasks", 1, 16, "2", RON_CONF_FIXED,                  \
      "Tasks that carry out actions: this many for the wallet, and as many for forwards.")         \
    X(IOP_Q_WORK, "queues.work", INT, "jobs", 1, 100000, "512", RON_CONF_FIXED,                    \
      "Deliveries that wait for a worker; further ones are answered 429.")                         \
    X(IOP_Q_BROADCAST, "queues.broadcast", INT, "events", 1, 65536, "1024", RON_CONF_FIXED,        \
      "Events that a slow reader may lag behind before it misses the oldest.")

enum { IOP_CONF(RON_CONF_ID) IOP_CONF_COUNT };

/* Longest `timeouts.request` (the specification: 2 s, at most 5 s). */
enum { IOP_REQUEST_MAX_MS = 5000 };

extern const struct ron_conf_table iop_conf_table;
