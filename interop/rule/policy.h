/* SPDX-License-Identifier: Apache-2.0 */
/* interop/rule/policy.h - what is in force: providers with their secrets, rules, and from where
 * each provider may call; as one snapshot.
 *
 * Place: service. A snapshot never changes; a reload makes another and swaps it in, and deliveries
 * under way keep the one that they began with. A mistake leaves the old one in force.
 *
 * Threads: get and unref from anywhere (a short lock of rank shared, "policy_meta"); new and put
 * where blocking is allowed. */
#pragma once

#include "interop/provider/load.h"
#include "interop/rule/rule.h"
#include "ron/obs/metrics.h"
#include "ron/sync/sync.h"

enum {
    IOP_NETS_MAX = 32, /* of one provider: GitHub publishes six */
    /* What clients of the mailbox send under a key is known so long (the mailbox's T_replay), and
     * what bridges with their usual tolerance deliver into it. */
    IOP_KEEP_MIN_MS = 600000,
};

/* A block of addresses; IPv4 as ::ffff:a.b.c.d. */
struct iop_net {
    uint8_t ip[16];
    uint8_t bits;
};
/* "192.0.2.0/24", "2001:db8::/32", or one address. RON_INVALID. */
RON_MUST_USE enum ron_rc iop_net_parse(const char *text, struct iop_net *ret_net,
                                       struct ron_err *err);
/* Whether an address as ron_http_peer writes it lies in the block; a Unix socket lies in none. */
bool iop_net_has(const struct iop_net *net, const char *peer);

/* What the service knows of a provider besides its scheme; by its place among the providers. */
struct iop_entry {
    size_t net_count; /* 0: from anywhere */
    struct iop_net nets[IOP_NETS_MAX];
    struct ron_series *verified;
    struct ron_series *failed;
    struct ron_series *duplicates;
    char topic[72]; /* where deliveries go that no rule takes */
};

struct iop_policy {
    struct ron_au32 refs;
    struct iop_providers *providers;
    struct iop_rules *rules;
    struct iop_entry at[IOP_PROVIDERS_MAX];
};

struct iop_policy_box {
    struct ron_mutex mu; /* guards `now` and the last step of refs */
    struct iop_policy *now;
};

void iop_policy_box_init(struct iop_policy_box *box);
void iop_policy_box_done(struct iop_policy_box *box);
/* With a reference for the caller. Never NULL once one was put. */
struct iop_policy *iop_policy_get(struct iop_policy_box *box);
void iop_policy_unref(struct iop_policy *p);
void iop_policy_put(struct iop_policy_box *box, struct iop_policy *take_policy);

/* From settings; secrets from files and the environment. Blocking. */
RON_MUST_USE enum ron_rc iop_policy_new(const struct ron_env *env, struct ron_conf_snap *snap,
                                        const char *const *variables,
                                        struct iop_policy **ret_policy, struct ron_err *err);

/* How long the key of a delivery is kept whatever comes: twice the largest window of the providers
 * that are on, for a signed time may lie on both sides of now. */
uint64_t iop_policy_keep_ms(const struct ron_conf_snap *conf);
/* Whether a key that is remembered for ttl_ms (dedup.ttl) leaves so much time. RON_INVALID. */
RON_MUST_USE enum ron_rc iop_policy_check(const struct ron_conf_snap *conf, uint64_t ttl_ms,
                                          struct ron_err *err);

static inline struct iop_entry *iop_policy_entry(struct iop_policy *p,
                                                 const struct iop_provider *provider)
{
    return &p->at[provider - p->providers->at];
}
