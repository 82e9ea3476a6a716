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
      "Signature verifications of deliveries, by result.")                                         \
    X(CHUNKS, COUNTER, ONE, "stream_chunks_total", "route", "Body pieces streamed.")               \
    X(DEDUP, COUNTER, ONE, "interop_dedup_rejects_total", "provider",                              \
      "Duplicate deliveries, which had no second effect.")                                         \
    X(SEEN, GAUGE, ONE, "interop_dedup_keys", "", "Deduplication keys in memory.")                 \
    X(SEEN_MAX, GAUGE, ONE, "interop_dedup_keys_max", "",                                          \
      "Maximum number of deduplication keys (dedup.max_keys).")                                    \
    X(SEEN_EVICTED, COUNTER, ONE, "interop_dedup_evicted_total", "",                               \
      "Deduplication keys evicted before dedup.ttl.")                                              \
    X(SEEN_REFUSED, COUNTER, ONE, "interop_dedup_refused_total", "",                               \
      "New deduplication keys refused because no key was old enough to evict.")                    \
    X(RULES, COUNTER, ONE, "interop_rule_actions_total", "action",                                 \
      "Actions requested by rules, by kind.")                                                      \
    X(ACTS, COUNTER, ONE, "interop_actions_total", "action,result", "Action attempts, by result.") \
    X(CAPS, COUNTER, ONE, "capabilities_issued_total", "scope",                                    \
      "Capabilities issued, one per action.")                                                      \
    X(RPC, HISTOGRAM, NS, "upstream_rpc_seconds", "service,op,outcome",                            \
      "Time of calls to other services and to the mailbox, by outcome.")                           \
    X(AUDIT, COUNTER, ONE, "audit_emitted_total", "sink", "Audit records written to the sink.")    \
    X(AUDIT_DROP, COUNTER, ONE, "audit_drop_total", "",                                            \
      "Audit records lost because the queue was full or the sink not writable.")                   \
    X(BROWNOUT, GAUGE, ONE, "brownout_active", "component", "1 during a brownout.")                \
    X(BOX_GROUPS, COUNTER, ONE, "mailbox_groups_total", "", "Mailbox transactions.")               \
    X(BOX_OPS, COUNTER, ONE, "mailbox_ops_total", "op", "Message operations, by kind.")            \
    X(BOX_MESSAGES, GAUGE, ONE, "mailbox_messages", "state",                                       \
      "Messages in the mailbox: all, and dead letters.")                                           \
    X(BOX_BYTES, GAUGE, ONE, "mailbox_bytes", "", "Bytes of all messages in the mailbox.")         \
    X(BOX_TOPICS, GAUGE, ONE, "mailbox_topics", "",                                                \
      "Topics in the mailbox; at most mailbox.topics.")

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
