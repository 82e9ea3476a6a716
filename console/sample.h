/* SPDX-License-Identifier: Apache-2.0 */
/* console/sample.h - what the console keeps of one look at a service: from /metrics to a few
 * numbers.
 *
 * Place: console; pure. A *count* is what a text says: totals since the start of the service. A
 * *point* is what happened between two counts: rates, latency, and the gauges of the later one.
 * A service that was restarted in between has smaller totals; then its rates are counted from 0.
 *
 * Latency is that of the requests (request_latency_seconds), of the ledger that of its commits. The
 * 99th percentile is the upper bound of its bucket: "not above". Requests to health, metrics and
 * topology do not count as work.
 *
 * Threads: pure. */
#pragma once

#include "console/conf.h"
#include "console/prom.h"

/* Columns of a point. X(field, "name", "unit"). Rates are per second in thousandths. */
#define CON_COLUMNS(X)                                                                             \
    X(ops, "ops", "1/1000 per s")                                                                  \
    X(errors, "errors", "1/1000 per s")                                                            \
    X(busy, "busy", "1/1000 per s")                                                                \
    X(mean_us, "mean_us", "us")                                                                    \
    X(p99_us, "p99_us", "us")                                                                      \
    X(depth, "depth", "messages in all queues")                                                    \
    X(fill, "fill", "of the fullest queue, in thousandths")                                        \
    X(cpu, "cpu", "thousandths of a core")                                                         \
    X(rss_kib, "rss_kib", "KiB")

struct con_point {
    uint64_t t_ms; /* wall clock; 0: none */
    bool up;       /* false: the service did not answer, and everything below is 0 */
#define X(field, name, unit) uint32_t field;
    CON_COLUMNS(X)
#undef X
};

/* Numbers that one service alone has. X(SERVICE, "key", "metric", "label", "value"); without a
 * label all series of the metric are added. */
#define CON_EXTRAS(X)                                                                              \
    X(LEDGER, "head_seq", "ledger_head_seq", NULL, NULL)                                           \
    X(LEDGER, "entries", "ledger_entries_total", NULL, NULL)                                       \
    X(LEDGER, "commits", "ledger_commits_total", NULL, NULL)                                       \
    X(LEDGER, "safe_mode", "ledger_safe_mode", NULL, NULL)                                         \
    X(LEDGER, "log_bytes", "ledger_log_bytes", NULL, NULL)                                         \
    X(WALLET, "requests", "wallet_requests_total", NULL, NULL)                                     \
    X(WALLET, "rejects", "wallet_rejects_total", NULL, NULL)                                       \
    X(WALLET, "replays", "idempotent_replays_total", NULL, NULL)                                   \
    X(WALLET, "idem_kept", "wallet_idempotency_entries", NULL, NULL)                               \
    X(REWARDER, "runs_ok", "reward_runs_total", "status", "ok")                                    \
    X(REWARDER, "withheld", "reward_withheld_epochs", NULL, NULL)                                  \
    X(REWARDER, "intents", "ledger_intents_total", NULL, NULL)                                     \
    X(REWARDER, "quarantines", "quarantine_total", NULL, NULL)                                     \
    X(EDGE, "hits", "edge_cache_hits_total", NULL, NULL)                                           \
    X(EDGE, "misses", "edge_cache_misses_total", NULL, NULL)                                       \
    X(EDGE, "fills", "edge_live_fill_attempts_total", NULL, NULL)                                  \
    X(EDGE, "fills_ok", "edge_live_fill_success_total", NULL, NULL)                                \
    X(EDGE, "collapsed", "edge_fill_collapsed_total", NULL, NULL)                                  \
    X(EDGE, "bytes_out", "edge_bytes_out_total", NULL, NULL)                                       \
    X(EDGE, "packs", "edge_packs", "state", "served")                                              \
    X(EDGE, "packs_failed", "edge_packs", "state", "failed")                                       \
    X(INTEROP, "brownout", "brownout_active", NULL, NULL)                                          \
    X(INTEROP, "verified", "webhook_verify_total", "result", "ok")                                 \
    X(INTEROP, "checked", "webhook_verify_total", NULL, NULL)                                      \
    X(INTEROP, "duplicates", "interop_dedup_rejects_total", NULL, NULL)                            \
    X(INTEROP, "actions", "interop_actions_total", NULL, NULL)                                     \
    X(INTEROP, "mailbox", "mailbox_messages", "state", "all")                                      \
    X(INTEROP, "dead", "mailbox_messages", "state", "dead")                                        \
    X(INTEROP, "mailbox_bytes", "mailbox_bytes", NULL, NULL)

enum {
    CON_EXTRAS_MAX = 12,  /* of one service */
    CON_BUCKETS_MAX = 32, /* bounds of a histogram */
    CON_BREAKERS_MAX = 8, /* of one service */
    CON_QUEUES_MAX = 64,  /* of one service */
    CON_NAME_MAX = 31,    /* of a queue or breaker that is told; longer ones are cut */
};

struct con_breaker {
    char name[CON_NAME_MAX + 1];
    uint32_t state; /* 0 closed, 1 open, 2 half open */
};

struct con_queue {
    struct ron_str name; /* in the text; not valid behind con_count_read */
    double depth;
    double capacity;
};

struct con_count {
    bool there;
    double ops;
    double errors;
    double busy; /* refused or dropped for want of room */
    double depth;
    double fill; /* 0 to 1 */
    double cpu_s;
    double rss_bytes;
    double restarts;
    double latency_sum_s;
    double latency_count;
    uint32_t bucket_count;
    double bounds[CON_BUCKETS_MAX]; /* rising; +Inf is not among them */
    double buckets[CON_BUCKETS_MAX];
    double extras[CON_EXTRAS_MAX];
    char fullest[CON_NAME_MAX + 1]; /* the queue of `fill`; empty when all are */
    uint32_t breaker_count;
    struct con_breaker breakers[CON_BREAKERS_MAX];
};

void con_count_read(enum con_service svc, struct ron_str text, struct con_count *ret_count);
/* `before` may be one that is not there: then rates are 0. `ms` lies between the two. */
struct con_point con_point_of(const struct con_count *before, const struct con_count *now,
                              uint64_t ms);

/* How many extras a service has, and their keys. */
size_t con_extra_count(enum con_service svc);
const char *con_extra_key(enum con_service svc, size_t index);
