/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/metrics.h - the bridge's counters, under the names of the specification.
 *
 * Threads: any; counting never blocks. */
#pragma once

#include "interop/core/core.h"
#include "interop/mailbox/mail.h"

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define IOP_METRICS(X)                                                                             \
    X(VERIFY, COUNTER, ONE, "webhook_verify_total", "provider,result",                             \
      "Deliveries whose signature was looked at: ok or fail.")                                     \
    X(CHUNKS, COUNTER, ONE, "stream_chunks_total", "route",                                        \
      "Pieces of bodies that were streamed.")                                                      \
    X(DEDUP, COUNTER, ONE, "interop_dedup_rejects_total", "provider",                              \
      "Deliveries that were taken before and had no second effect.")                               \
    X(SEEN, GAUGE, ONE, "interop_dedup_keys", "", "Keys of deliveries that are remembered now.")   \
    X(SEEN_MAX, GAUGE, ONE, "interop_dedup_keys_max", "", "As many may be: dedup.max_keys.")       \
    X(SEEN_EVICTED, COUNTER, ONE, "interop_dedup_evicted_total", "",                               \
      "Keys that made room for newer ones before dedup.ttl was over.")                             \
    X(SEEN_REFUSED, COUNTER, ONE, "interop_dedup_refused_total", "",                               \
      "Times that a new key was refused because all that are remembered are too young to go.")     \
    X(RULES, COUNTER, ONE, "interop_rule_actions_total", "action",                                 \
      "Actions that rules asked for: mailbox, forward, wallet, or fault.")                         \
    X(ACTS, COUNTER, ONE, "interop_actions_total", "action,result",                                \
      "Attempts of actions, by what came of them: done, retry, dead, disabled.")                   \
    X(CAPS, COUNTER, ONE, "capabilities_issued_total", "scope",                                    \
      "Capabilities made for one action each.")                                                    \
    X(RPC, HISTOGRAM, NS, "upstream_rpc_seconds", "service,op,outcome",                            \
      "Calls to other services and to the mailbox: ok or fail.")                                   \
    X(AUDIT, COUNTER, ONE, "audit_emitted_total", "sink", "Records written to the audit's sink.")  \
    X(AUDIT_DROP, COUNTER, ONE, "audit_drop_total", "",                                            \
      "Records of the audit that were lost: the oldest when the queue was full, or not writable.") \
    X(BROWNOUT, GAUGE, ONE, "brownout_active", "component", "1 while bridges give way.")           \
    X(BOX_GROUPS, COUNTER, ONE, "mailbox_groups_total", "", "Transactions of the mailbox.")        \
    X(BOX_OPS, COUNTER, ONE, "mailbox_ops_total", "op", "Messages by what happened to them.")      \
    X(BOX_MESSAGES, GAUGE, ONE, "mailbox_messages", "state", "Messages now: all, and dead ones.")  \
    X(BOX_BYTES, GAUGE, ONE, "mailbox_bytes", "", "Bytes of all messages.")                        \
    X(BOX_TOPICS, GAUGE, ONE, "mailbox_topics", "", "Topics now; as many as mailbox.topics may be.")

enum iop_metric_id {
#define X(id, type, unit, name, labels, help) IOP_M_##id,
    IOP_METRICS(X)
#undef X
        IOP_M_COUNT
};

/* Sets c->metrics. A scrape reads `mail`, which outlives the metrics. */
RON_MUST_USE enum ron_rc iop_metrics_new(struct iop_core *c, const struct iop_mail *mail,
                                         struct ron_err *err);
void iop_metrics_free(struct iop_core *c);
void iop_count_of(struct iop_core *c, int metric, const char *label, uint64_t n);
void iop_count_action(struct iop_core *c, const struct iop_action *action);
void iop_count_act(struct iop_core *c, const char *action, const char *result);
void iop_observe_rpc(struct iop_core *c, const char *service, const char *op, bool good,
                     uint64_t took_ns);
void iop_set_brownout(struct iop_core *c, bool active);
/* Makes the series of its providers. */
void iop_policy_series(struct iop_core *c, struct iop_policy *policy);
