/* SPDX-License-Identifier: Apache-2.0 */
/* http_load.h - the routes of `ron http` that stand for the work of a service.
 *
 *   POST /json         a transfer of six members is parsed and answered at once
 *   POST /json-late    the same parsing, answered by a task behind a bounded queue
 *   GET  /slow/{ms}    a blocking task takes that long for each, one after the other; its queue is
 *                      small, so that it can be filled
 *
 * Ownership: a reply belongs to the queue or to the task that holds it. load_build adds tasks to
 * the supervisor; call load_done after it and the executor have been freed. */
#pragma once

#include "ron/chan/watch.h"
#include "ron/http/server.h"

enum {
    LOAD_SLOW_MAX_MS = 2000, /* a drain waits for the one under way; its deadline is 3 s */
    LOAD_SLOW_QUEUE = 16,    /* so small that a test fills it with a few connections */
    LOAD_JSON_QUEUE = 512,   /* every request that the inflight gate lets through by default */
};

/* The answer of both JSON routes, and of /hello. */
extern const char load_answer[];
enum { LOAD_ANSWER_BYTES = 200 };

struct load {
    struct ron_chan *json;
    struct ron_chan *slow;
    struct ron_watch *pause; /* never moves: waiting for it takes time */
};

RON_MUST_USE enum ron_rc load_build(struct load *l, const struct ron_env *env,
                                    struct ron_registry *registry, struct ron_sup *sup,
                                    struct ron_err *err);
void load_done(struct load *l); /* also after a load_build that failed */

/* Handlers; their argument is the struct load. */
void load_on_json(struct ron_http_call *call, void *arg);
void load_on_json_late(struct ron_http_call *call, void *arg);
void load_on_slow(struct ron_http_call *call, void *arg);
