/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/remote.h - a mailbox that another `ron interop` keeps, over its HTTP API.
 *
 * The same interface as the embedded one (box.h), so nobody who asks sees the difference but by
 * the time it takes. Each operation is one call with the deadline, the retries and the breaker of
 * its target (core/upstream.h):
 *
 *     PUT with a key, ACK, looking     safe to repeat, tried again
 *     PUT without one, RECV, NACK, REPLAY, PURGE    one try; what was leased by an answer that got
 *                                      lost is delivered again when its lease ends
 *
 * Rules:
 *   R1. M1 to M6 of box.h hold as far as they hold there: OK means durable at the other side.
 *   R2. A failure that says nothing of the effect is never RON_OK, and a PUT with a key may be sent
 *       again after it: it has its effect once.
 *   R3. Several bridges may share one mailbox: their journals are one journal there (".remote.*"),
 *       whose actions whoever is free takes; keys of deliveries are the same for all of them.
 *
 * Threads: submit from any, never blocks; `done` is called on the client's task. */
#pragma once

#include "interop/mailbox/box.h"
#include "ron/app/auth.h"
#include "ron/base/env.h"
#include "ron/http/client.h"

/* Operations as labels of the target; the place is the kind. */
extern const char *const iop_box_http_ops[IOP_OP_COUNT];

struct iop_box_http_opts {
    struct ron_http_target *target;
    const char *url;                    /* without a / at its end; outlives the mailbox */
    const struct ron_app_tokens *token; /* of the other side; likewise */
    uint32_t wait_max_ms;               /* of a long poll: less than a call may take */
};

RON_MUST_USE enum ron_rc iop_box_http_new(const struct iop_box_http_opts *opts,
                                          struct iop_box **ret_box, struct ron_err *err);
/* Whether the last call failed. Any thread. */
bool iop_box_http_broken(struct iop_box *box);
/* Fills the answer of `op` from the text of a 200; pure, for `submit` and tests. RON_CORRUPT: it is
 * no answer to it; RON_NOMEM. */
RON_MUST_USE enum ron_rc iop_box_http_read(struct iop_op *op, struct ron_str body);
/* What identifies a delivery there: as iop_seen_key, without a secret of one process. */
void iop_box_http_key(struct ron_str name, struct ron_str id, const struct ron_b3 *body,
                      struct iop_key *ret_key);
