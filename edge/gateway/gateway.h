/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/gateway.h - the edge in front of an application: a shared cache (RFC 9111) for one
 * origin.
 *
 * It shares table, store and workers with live fills.
 *
 *     GET, HEAD --loop--> stored answer ------------------------------> answered here
 *                    |      (stale: refreshed in the background, or revalidated)
 *                    +--GET--> a fill that many share --work--> worker: origin, store, answers
 *                    |            \ may not be kept: streamed to the first waiter,
 *                    |              the others pass
 *     the rest, and what is known not to be kept --> pass: streamed both ways on the client's task
 *
 * Rules:
 *   G1. What a client gets of a stored answer is as RFC 9111 allows and the origin said, its own
 *       entity tag, date and status included. Bytes are hashed and whole before the first is sent.
 *   G2. Fields of a client reach the origin but for those of the connection (rules/hop.h); a shared
 *       call leaves out conditions and ranges of the one client.
 *   G3. An answer goes to further clients only if it may be stored and their requests choose the
 *       same variant.
 *   G4. After a successful write no answer from before it is served: stored ones are dropped before
 *       the write is answered, and fills in progress are neither kept nor joined.
 *   G5. Where the origin is told the client's host, stored answers are of that host alone: the host
 *       precedes the target in their key, spelled exactly as it is sent.
 *   G6. A call is tried once: only the client knows whether its request may be repeated.
 *
 * Threads: requests on loops, fills on workers, passes on the task of the gateway's client. */
#pragma once

#include "edge/fill/fills.h"
#include "edge/rules/fresh_update.h"
#include "edge/rules/hop.h"

#define EDG_PSEUDONYM "ron-edge"

/* Its place among the origins of stored answers: after all of them. */
enum { EDG_GATEWAY = EDG_ORIGINS_MAX };

struct edg_gateway;

enum {
    EDG_HOST_MAX = 261, /* a DNS name, a colon and a port */
    EDG_KEY_MAX = EDG_HOST_MAX + EDG_URL_MAX,
};

/* RON_INVALID names the setting. */
RON_MUST_USE enum ron_rc edg_gateway_check(const struct ron_conf_snap *conf, struct ron_err *err);
/* Nothing to do without gateway.origin. After the origins. */
RON_MUST_USE enum ron_rc edg_gateway_open(struct edg_fills *fills, struct edg_gateway **ret_gateway,
                                          struct ron_err *err);
void edg_gateway_close(struct edg_gateway *g); /* NULL does nothing */
const char *edg_gateway_url(const struct edg_gateway *g);
/* Appends its routes; how many there are then. NULL has none. */
size_t edg_gateway_routes(struct edg_gateway *g, struct ron_http_route *rows, size_t count);

/* ---- requests -------------------------------------------------------------------------------- */

/* GET or HEAD, from the loop or, with a reply, from anywhere. */
void edg_gateway_read(struct edg_gateway *g, struct edg_out *out);
/* The work of a fill, on a worker; takes it. `arg` is the gateway. */
enum ron_rc edg_gateway_run(void *arg, struct edg_filler *k, struct edg_fill *take_fill);
/* Streams the request to the origin and the answer back. `stored`, if not NULL, is what a HEAD may
 * freshen; a reference is taken. */
void edg_pass(struct edg_gateway *g, struct edg_out *out, enum edg_fwd fwd,
              const struct edg_stored *stored);
void edg_passes_free(struct edg_gateway *g);

/* The call to the origin for this request: URL, and fields with ours added. RON_LIMIT. */
struct edg_call {
    char url[EDG_URL_MAX];
    char host[EDG_HOST_MAX];
    char via[512];
    struct ron_http_field fields[RON_HTTP_HEADERS_MAX];
    size_t count;
};
RON_MUST_USE enum ron_rc edg_call_make(struct edg_gateway *g, enum edg_hop way,
                                       struct ron_str target, struct edg_fields request,
                                       struct edg_call *ret_call);
RON_MUST_USE enum ron_rc edg_call_add(struct edg_call *call, const char *name,
                                      struct ron_str value);

/* ---- answers --------------------------------------------------------------------------------- */

/* With its bytes, or without where it has none; takes the object. */
void edg_gateway_answer(struct edg_out *out, struct ron_cas_obj *take_obj,
                        const struct edg_extra *extra);
/* The head of an answer that passes through, then its body is written by the caller. RON_FULL. */
RON_MUST_USE enum ron_rc edg_gateway_begin(struct edg_out *out, int status,
                                           struct edg_fields response,
                                           const struct edg_status *status_text,
                                           struct ron_waker *waker);
/* What a failed call is answered with. */
enum edg_error edg_gateway_error(enum ron_http_fetch_reason reason);

/* Whether an answer may be stored, and its life. Surrogate-Control counts first. */
bool edg_gateway_judge(const struct edg_gateway *g, const struct edg_exchange *exchange,
                       struct edg_life *ret_life);

/* ---- what changes ---------------------------------------------------------------------------- */

/* After an answer to an unsafe method (G4). Never blocks. */
void edg_gateway_invalidate(struct edg_gateway *g, const struct ron_http_head *head, int status,
                            struct edg_fields response);
/* After an answer to a HEAD of which `stored` is stale. Never blocks. */
void edg_gateway_head(struct edg_gateway *g, const struct ron_http_head *head,
                      const struct edg_stored *stored, int status, struct edg_fields response,
                      uint64_t begun_ms);
/* Marks a target as uncacheable: for a while requests for it do not wait for each other. */
void edg_gateway_mark(struct edg_gateway *g, struct ron_str target);
/* Under what an answer to `target` is stored (G5), in `room` or as it is. RON_LIMIT: too long. */
RON_MUST_USE enum ron_rc edg_gateway_key(const struct edg_gateway *g,
                                         const struct ron_http_head *head, struct ron_str target,
                                         char room[EDG_KEY_MAX], struct ron_str *ret_key);
