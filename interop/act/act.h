/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/act.h - actors: they take actions from the journal, carry them out, and strike them
 * off.
 *
 *     journal (.wallet, .forward) --lease--> actor --HTTP--> wallet, or a place outside
 *                  ^------- done, again at a time, or dead -------'
 *
 * Rules:
 *   A1. An action is struck off only after its answer. A crash in between means another attempt,
 *       and the idempotency key (wallet) or the message id (forward) makes it the same one.
 *   A2. An action goes out with a capability for it alone: its operation, account, asset and
 *       amount, for at most a minute; or, to the outside, with a signature and nothing else.
 *   A3. What an attempt leads to is decided by mailbox/outbox.h, not here.
 *
 * Place: service; blocking tasks, stage 2. */
#pragma once

#include "interop/core/evidence.h"
#include "interop/core/upstream.h"
#include "interop/mailbox/mail.h"
#include "interop/mailbox/outbox.h"

#define IOP_ACTS_MAGIC 0x49414354u  /* "IACT" */
#define IOP_ACTOR_MAGIC 0x49414f52u /* "IAOR" */

struct iop_actor;

/* All actors and what they use. */
struct iop_acts {
    uint32_t magic;
    struct iop_core *core;
    struct iop_bridge *bridge;
    struct iop_mail *mail;
    struct iop_policy_box *policy;
    const struct iop_upstreams *up;
    struct ron_app_tokens wallet_token;
    struct ron_need *need_passport;
    struct iop_actor *actors;
    uint32_t actor_count;
};

/* `core` to `wallet_token` are set. */
RON_MUST_USE enum ron_rc iop_actors_add(struct iop_acts *o, struct ron_err *err);
void iop_actors_free(struct iop_acts *o);
void iop_forward_enable_http(struct ron_http_call *call, void *arg); /* the acts */

/* One action under way. Slices of `got` live until the batch is settled. */
struct iop_act {
    const struct iop_got *got;
    struct iop_doc head;          /* its attributes */
    const char *op;               /* label of metrics: "issue", "transfer", "forward" */
    struct ron_http_fetch *fetch; /* NULL: it did not go out */
    struct iop_attempt attempt;   /* how it ended */
    const char *refused;          /* why it must not go out, for good; NULL: it may */
    struct ron_buf token;         /* of the wallet; wiped */
};

struct iop_actor {
    uint32_t magic;
    struct iop_acts *of;
    enum iop_schedule schedule;
    const char *topic;
    struct ron_chan *ends; /* of calls: the fetches themselves */
    struct ron_rand rand;
    struct iop_act acts[IOP_BATCH_MAX];
    char name[24];
    char chan_name[32];
};

/* A member of the attributes as text with NUL; false when it is not there or too long. */
bool iop_act_text(const struct iop_doc *doc, const char *pointer, char *out, size_t size);

/* Each decides `refused`, or starts `fetch`, or leaves a failed attempt. Before the first start,
 * prepare has been called for every action of the batch, alone on the line of ends. */
void iop_wallet_prepare(struct iop_actor *a, struct iop_act *act);
void iop_wallet_start(struct iop_actor *a, struct iop_act *act);
void iop_forward_start(struct iop_actor *a, struct iop_act *act);
/* What the answer of the wallet means for the journal. */
void iop_wallet_judge(struct iop_act *act);
/* The target of a rule is gone (410): no further forwards to it until it is switched on again. */
void iop_forward_disable(struct iop_actor *a, struct iop_act *act);
