/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/roots.h - the roots publisher: every committed root, to whoever wants to follow.
 *
 *     committer --publish--> bus "root_pub" --> ring of the last 1024 --> GET /roots   (page)
 *                                                     |            |--> GET /roots?wait= (poll)
 *                                                     |            +--> GET /roots/stream (SSE)
 *                                                     +--> on_root (OAP events), signer
 *
 * Invariants:
 *   O1. Events come in the order of their seq; each is in the ring as soon as somebody looks: who
 *       has seen the answer to a commit finds its root.
 *   O2. A page leaves nothing out: it holds every root with since < seq <= next. What the ring no
 *       longer knows is asked of `older` (the journal); a poll that is overtaken answers an empty
 *       page, and the next one goes there.
 *   O3. A stream sends every root after its start, or says with an event `lagged` between which
 *       seqs it left some out. It never waits for a client and keeps nothing for it but a place in
 *       the ring and what http holds of an answer.
 *   O4. A lone root goes out at once; under load the task rests for a few ms between two rounds, so
 *       that publishing costs the committer no wake-up and a thousand streams not the machine.
 *   O5. Streams and polls end with the task, after the last root of a drain: a poll with a page, a
 *       stream with its last root.
 *
 * Task "roots" (loop, kind "publisher", stage LED_ROOTS_STAGE); its input is the channel "subs".
 * Threads: publish and the handlers from any; the ring has one short lock of rank `shared`. */
#pragma once

#include "ledger/publish/sign.h"
#include "ron/chan/bus.h"
#include "ron/http/server.h"
#include "ron/merkle/hash.h"
#include "ron/obs/metrics.h"
#include "ron/task/supervisor.h"

/* What the committer says of a group. The size of the tree is `seq`. */
struct led_root_event {
    uint64_t seq;   /* of the group's last entry */
    uint64_t ts_ms; /* commit time */
    struct ron_tree_hash root;
};

enum {
    LED_ROOTS_RING = 1024,         /* "1024 per subscriber": each has its own place in one ring */
    LED_ROOTS_SUBS_MAX = 1024,     /* polls and streams; as many as http has places for streams */
    LED_ROOTS_PAGE_MAX = 1000,     /* of the specification */
    LED_ROOTS_WAIT_MAX_MS = 60000, /* what proxies let pass */
    LED_ROOTS_BEAT_MS = 15000,     /* half of the shortest idle limit of common proxies */
    LED_ROOTS_STAGE = 5,           /* behind the committer */
};

struct led_roots;

struct led_roots_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct led_signer *signer; /* told of each head; may be NULL */
    uint64_t head_seq;         /* recovered: roots up to here are in the journal */
    uint32_t subs_max;         /* 0: LED_ROOTS_SUBS_MAX */
    /* A page that the ring does not reach back to: answers the call, or defers it. Required. Called
     * inside a handler. */
    void (*older)(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit);
    /* Each root, in order, on the task; must not block. For ledger.commit over OAP. May be NULL. */
    void (*on_root)(void *arg, const struct led_root_event *event);
    void *arg;
};

RON_MUST_USE enum ron_rc led_roots_new(const struct led_roots_opts *opts,
                                       struct led_roots **ret_roots, struct ron_err *err);
/* Adds the task; before the committer publishes. */
RON_MUST_USE enum ron_rc led_roots_attach(struct led_roots *r, struct ron_sup *sup,
                                          struct ron_err *err);
/* After the supervisor and the executor were freed, before the HTTP server is. */
void led_roots_free(struct led_roots *r);

/* One for each group, by the committer, before it answers; never waits. */
void led_roots_publish(struct led_roots *r, const struct led_root_event *event);
/* For other readers inside the process: messages are struct led_root_event. */
struct ron_bus *led_roots_bus(struct led_roots *r);

/* Handlers of ron_http_route; `arg` is the struct led_roots. */
void led_roots_http_get(struct ron_http_call *call, void *arg);    /* GET /roots */
void led_roots_http_stream(struct ron_http_call *call, void *arg); /* GET /roots/stream */

/* {"seq":n,"root":"<64 hex>","ts":ms}: an item of a page, the data of a streamed event. */
void led_root_event_to_json(struct ron_buf *out, const struct led_root_event *event);
/* {"roots":[..],"next":n} */
void led_roots_page_write(struct ron_buf *out, const struct led_root_event *events, size_t count,
                          uint64_t next);

struct led_roots_stats {
    uint64_t published; /* roots_published_total */
    uint64_t lagged;    /* times that a stream was told so */
    uint64_t polls;     /* that waited */
    uint64_t streams;   /* begun */
    uint64_t subs;      /* polls and streams now */
    uint64_t refused;   /* subscribers that found no place */
};
void led_roots_get_stats(const struct led_roots *r, struct led_roots_stats *ret_stats);
/* Declares roots_published_total and adds its collector; r outlives the last scrape. */
RON_MUST_USE enum ron_rc led_roots_metrics(struct led_roots *r, struct ron_metrics *m,
                                           struct ron_err *err);
