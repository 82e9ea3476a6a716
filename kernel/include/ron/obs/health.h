/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - whether the service is ready, and if not, why.
 *
 * A need is a named thing without which the service is not whole ("ledger_reachable", "safe_mode").
 * Its owner sets it from any thread; the probes read all of them together with the supervisor's
 * state:
 *
 *     ready     = running, no task escalated, no need is MISSING
 *     degraded  = something is not as it should be: a need DEGRADED or MISSING, a task down
 *     healthy   = false only when an essential task kept failing (the supervisor then drains)
 *
 * Draining makes it not ready at once, before the listener stops.
 *
 * Bodies (docs/formats/ops.md): {"ready":true,"degraded":false,"missing":[],"retry_after":0}, and
 * when anything is wrong a member "causes" with a text for each key.
 *
 * Rules:
 *   H1. Reading takes no lock and never waits, also while a need is being set: a probe must
 *       work when everything else is stuck.
 *   H2. A cause is a text of at most RON_NEED_CAUSE_MAX bytes; longer ones are cut at a character.
 *   H3. Needs are made at start and live as long as their table.
 *
 * Threads: any. A set takes a short lock (rank leaf) against other sets. */
#pragma once

#include "ron/base/buf.h"
#include "ron/obs/metrics.h"
#include "ron/task/supervisor.h"

enum ron_need_state { RON_NEED_OK, RON_NEED_DEGRADED, RON_NEED_MISSING };

enum {
    RON_NEEDS_MAX = 64, /* the largest service has about a dozen, and a few per pack */
    RON_NEED_KEY_MAX = 47,
    RON_NEED_CAUSE_MAX = 127, /* one clause for an operator */
    RON_READY_BODY_MAX = 65536,
};

struct ron_needs;
struct ron_need;

/* `sup` may be NULL: then only needs count. RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_needs_new(const struct ron_sup *sup, struct ron_needs **ret_needs,
                                       struct ron_err *err);
void ron_needs_free(struct ron_needs *c);

/* Key: [a-z0-9_.-], kept, not copied. `reads`: the need also concerns requests that only read
 * (/readyz?class=read). RON_INVALID, RON_EXISTS, RON_LIMIT. It starts OK. */
RON_MUST_USE enum ron_rc ron_needs_add(struct ron_needs *c, const char *key, bool reads,
                                       struct ron_need **ret_need, struct ron_err *err);
/* retry_after_s: when a client may ask again; 0 with MISSING means 1. */
void ron_need_set(struct ron_need *need, enum ron_need_state state, const char *cause,
                  uint32_t retry_after_s);
enum ron_need_state ron_need_state(const struct ron_need *need);

struct ron_readiness {
    bool ready;
    bool degraded;
    uint32_t retry_after_s; /* 0 when ready */
};
/* Writes the body of /readyz. */
void ron_needs_write_ready(const struct ron_needs *c, bool reads_only, struct ron_buf *out,
                           struct ron_readiness *ret_readiness);
/* Writes the body of /healthz; true when healthy. */
bool ron_needs_write_health(const struct ron_needs *c, struct ron_buf *out);

/* health_ready and readyz_degraded{cause}: 0 or 1 for each need, 1 for each task down. */
RON_MUST_USE enum ron_rc ron_collect_needs(struct ron_metrics *m, const struct ron_needs *c,
                                           struct ron_err *err);
