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
      "1GiB", RON_CONF_FIXED, "Bytes of an object that /put takes as a stream.")                   \
    RON_APP_KEYS_TIMEOUTS(X, "2s")                                                                 \
    X(IOP_RPC_TIMEOUT, "timeouts.rpc", DURATION, "", 10, RON_CONF_S(30), "2s", RON_CONF_FIXED,     \
      "Time for one call to another service, all its tries together.")                             \
    X(IOP_STORAGE_TIMEOUT, "timeouts.storage", DURATION, "", 10, RON_CONF_M(10), "1m",             \
      RON_CONF_FIXED, "Time for an object to or from storage.url, all tries together.")            \
    X(IOP_FORWARD_TIMEOUT, "timeouts.forward", DURATION, "", 10, RON_CONF_M(1), "15s",             \
      RON_CONF_FIXED, "Time for one attempt of a forward.")                                        \
    RON_APP_KEYS_REST(X)                                                                           \
    X(IOP_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of the clients' capabilities (`ron cap key new`); a reload reads it anew.")       \
    X(IOP_READS, "auth.reads", ENUM, "capability|open", 0, 0, "capability", RON_CONF_FIXED,        \
      "Whether GET /o needs a capability; open: who knows an address may read the object.")        \
    X(IOP_CAP_TTL, "auth.capability_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_S(60), "60s",      \
      RON_CONF_FIXED, "How long a capability is good that an action goes out with.")               \
    X(IOP_DIR, "interop.dir", STRING, "bytes", 1, 900, "ron-data/interop", RON_CONF_FIXED,         \
      "Folder of the mailbox and the objects; not used under amnesia.")                            \
    X(IOP_SERVER_NAMES, "interop.server_names", LIST, "names", 0, 64, "", RON_CONF_FIXED,          \
      "Names that webhooks may be sent to, compared with Host; empty allows all.")                 \
    IOP_PROVIDER_KEYS(X)                                                                           \
    X(IOP_P_CIDRS, "providers.*.allow_cidrs", LIST, "blocks", 0, 32, "", RON_CONF_RELOAD,          \
      "Blocks of addresses that it sends from, such as 192.0.2.0/24; empty: from anywhere.")       \
    IOP_RULE_KEYS(X)                                                                               \
    X(IOP_R_PLAIN, "rules.*.allow_http", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,                 \
      "forward: allow http:// in the URL.")                                                        \
    X(IOP_R_PRIVATE, "rules.*.allow_private", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,            \
      "forward: allow loopback and private addresses.")                                            \
    X(IOP_WALLET_URL, "wallet.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "Base URL of svc-wallet, for rules whose action is wallet.")                                 \
    X(IOP_WALLET_TOKEN, "wallet.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,         \
      "This service's own capability for the wallet; each action goes out with a narrowed one.")   \
    X(IOP_PASSPORT_URL, "passport.url", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,              \
      "Base URL of a passport service that issues the capabilities instead.")                      \
    X(IOP_MAILBOX_URL, "mailbox.url", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                 \
      "Base URL of another `ron interop` that keeps the mailbox; empty: it is kept here.")         \
    X(IOP_MAILBOX_TOKEN, "mailbox.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,       \
      "This service's capability for it, scope mailbox.")                                          \
    X(IOP_BOX_DSN, "mailbox.dsn", STRING, "bytes", 0, 4095, "", RON_CONF_SECRET,                   \
      "Connection string of a PostgreSQL that holds the mailbox and the keys of deliveries; "      \
      "empty: a SQLite file in interop.dir.")                                                      \
    X(IOP_BOX_TOPIC, "mailbox.topic_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(1024),        \
      "1GiB", RON_CONF_FIXED, "Bytes of one topic, dead letters included; more is refused 429.")   \
    X(IOP_BOX_TOTAL, "mailbox.total_bytes", SIZE, "", RON_CONF_KIB(64), RON_CONF_GIB(1024),        \
      "4GiB", RON_CONF_FIXED, "Bytes of all topics together.")                                     \
    X(IOP_BOX_TOPICS, "mailbox.topics", INT, "topics", 16, 8192, "1024", RON_CONF_FIXED,           \
      "Topics at the same time; from three quarters of them on, those without messages and dead "  \
      "letters make room.")                                                                        \
    X(IOP_BOX_DELIVERIES, "mailbox.max_deliveries", INT, "times", 1, 1000, "10", RON_CONF_FIXED,   \
      "How often a message is delivered before it is a dead letter.")                              \
    X(IOP_DEDUP_TTL, "dedup.ttl", DURATION, "", RON_CONF_M(15), RON_CONF_H(720), "24h",            \
      RON_CONF_FIXED, "How long a delivery is known again, while dedup.max_keys has room.")        \
    X(IOP_DEDUP_KEYS, "dedup.max_keys", INT, "keys", 1000, 67108864, "4194304", RON_CONF_FIXED,    \
      "Keys of deliveries that are remembered, 32 to 40 bytes of memory each; when all are used "  \
      "the oldest makes room, and one younger than twice the largest tolerance is kept and the "   \
      "new delivery refused 429.")                                                                 \
    X(IOP_STORAGE_URL, "storage.url", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                 \
      "Base URL of a service with /put and /o that keeps the objects; the own store is a cache "   \
      "then. Empty: they are kept here.")                                                          \
    X(IOP_STORAGE_TOKEN, "storage.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,       \
      "This service's capability for it, scope interop.put and interop.read.")                     \
    X(IOP_B_RATE, "readiness.brownout_error_ppm", INT, "ppm", 1, 1000000, "10000", RON_CONF_FIXED, \
      "Failed calls to other services, per million, above which bridges give way.")                \
    X(IOP_B_CALLS, "readiness.brownout_calls", INT, "calls", 1, 1000000, "100", RON_CONF_FIXED,    \
      "Calls of the window below which nothing is concluded.")                                     \
    X(IOP_B_WINDOW, "readiness.brownout_window", DURATION, "", RON_CONF_S(1), RON_CONF_H(1), "5m", \
      RON_CONF_FIXED, "The window.")                                                               \
    X(IOP_B_SLOW, "readiness.upstream_p95", DURATION, "", 100, RON_CONF_M(1), "500ms",             \
      RON_CONF_FIXED, "95th percentile of these calls from which bridges give way.")               \
    X(IOP_B_QUEUE, "readiness.queue_pressure", DURATION, "", 100, RON_CONF_H(1), "1m",             \
      RON_CONF_FIXED, "How long `work` may be fuller than 80 % before bridges give way.")          \
    X(IOP_B_HOLD, "readiness.brownout_hold", DURATION, "", 100, RON_CONF_H(1), "30s",              \
      RON_CONF_FIXED, "How long a brownout lasts at least.")                                       \
    X(IOP_B_PROBE, "readiness.brownout_probe", DURATION, "", 10, RON_CONF_M(1), "1s",              \
      RON_CONF_FIXED, "Meanwhile one request passes in this time.")                                \
    X(IOP_AUDIT_SINK, "audit.sink", ENUM, "memory|stdout|file", 0, 0, "memory", RON_CONF_FIXED,    \
      "Where the audit trail goes besides the ring in memory; amnesia allows no file.")            \
    X(IOP_AUDIT_PATH, "audit.file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                  \
      "The file of audit.sink = file, appended to; empty: audit.jsonl in interop.dir.")            \
    X(IOP_AUDIT_WORDS, "audit.redact", LIST, "words", 0, 15, "", RON_CONF_FIXED,                   \
      "Attributes whose name has one of these words are not written; empty: token, "               \
      "authorization, signature, secret, key, cookie, password.")                                  \
    X(IOP_STORE_BYTES, "objects.store_bytes", SIZE, "", RON_CONF_MIB(1), RON_CONF_GIB(65536),      \
      "10GiB", RON_CONF_FIXED,                                                                     \
      "Space of the objects; what was not used for longest makes room. Under amnesia 256 MiB of "  \
      "memory at most.")                                                                           \
    RON_TIER_KEYS(X)                                                                               \
    X(IOP_WORKERS, "concurrency.workers", INT, "tasks", 0, 64, "0", RON_CONF_FIXED,                \
      "Tasks that verify deliveries; 0 takes one per worker of the executor, at least 2.")         \
    X(IOP_UPLOADS, "concurrency.uploads", INT, "tasks", 1, 64, "8", RON_CONF_FIXED,                \
      "Objects that are stored at the same time.")                                                 \
    X(IOP_ACTORS, "concurrency.actors", INT, "tasks", 1, 16, "2", RON_CONF_FIXED,                  \
      "Tasks that carry out actions, for the wallet and for forwards each.")                       \
    X(IOP_Q_WORK, "queues.work", INT, "jobs", 1, 100000, "512", RON_CONF_FIXED,                    \
      "Jobs that wait for a worker; one more is answered 429.")                                    \
    X(IOP_Q_BROADCAST, "queues.broadcast", INT, "events", 1, 65536, "1024", RON_CONF_FIXED,        \
      "Events that a slow reader may fall behind before it misses the oldest.")

enum { IOP_CONF(RON_CONF_ID) IOP_CONF_COUNT };

/* Longest `timeouts.request` (the specification: 2 s, at most 5 s). */
enum { IOP_REQUEST_MAX_MS = 5000 };

extern const struct ron_conf_table iop_conf_table;
