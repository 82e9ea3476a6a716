/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/policy/policy.h - how a pool is shared: a signed document.
 *
 * Example (all members of the first group are required; docs/formats/rewarder.md has the rules):
 *
 *     {"v":1,"id":"policy:v1","version":3,"funding_source":"protocol_pool","asset":"roc",
 *      "max_payout_minor_units":"1000000","min_payout_minor_units":"1","weight_bps":10000,
 *      "rounding":"floor","residual":"unissued",
 *      "weights":{"bytes_stored":"1","bytes_served":"1/4","uptime_seconds":"1"},
 *      "funding_account":"pool","remainder_sink":"treasury","actor_cap_minor_units":"500",
 *      "categories":[{"prefix":"t:1/","cap_minor_units":"300"}],
 *      "emission":{"kind":"halving","base_minor_units":"5000","start_millis":0,
 *                  "epoch_millis":3600000,"period_epochs":1000}}
 *
 * A signed document is {"policy":{...},"key_id":"...","sig_ed25519":"<128 hex digits>"}.
 *
 * Rules:
 *   P1. The canonical bytes are the members in the order of docs/formats/rewarder.md, compact,
 *       absent members left out. The hash is the BLAKE3 of them; the signature is over
 *       "ron-reward-policy/1\n" and the hash as text. Nothing else names a policy.
 *   P2. A policy that was read keeps every rule of the document: weights are fractions in lowest
 *       terms with denominator 1..2^32, numerator 0..2^32, not all 0; weight_bps 1..100000;
 *       max >= min; residual "sink" needs remainder_sink; at most RWD_CATEGORIES_MAX categories,
 *       sorted by prefix, no prefix of which begins with another.
 *   P3. A policy of protocol_pool or governance_budget is read with a good signature alone; only
 *       rwd_policy_draft, which is for who is about to sign it, takes it without.
 *
 * Pure code; slices point into the document's own memory. Threads: a document that nobody signs any
 * more may be read from any. */
#pragma once

#include "rewarder/input/name.h"

enum {
    RWD_CATEGORIES_MAX = 64,
    RWD_POLICY_TEXT_MAX = 65536,
    RWD_SIGN_KEY_BYTES = 32, /* seed, and public key */
    RWD_SIG_BYTES = 64,
    RWD_KEY_ID_MAX = 64,
};

enum rwd_funding {
    RWD_FUND_PROTOCOL_POOL,
    RWD_FUND_ADVERTISER_BUDGET,
    RWD_FUND_CREATOR_POOL,
    RWD_FUND_SPONSOR_BUDGET,
    RWD_FUND_GOVERNANCE_BUDGET,
    RWD_FUND_COUNT
};
const char *rwd_funding_name(enum rwd_funding funding);
enum rwd_rounding { RWD_ROUND_FLOOR, RWD_ROUND_LARGEST_REMAINDER };
enum rwd_residual { RWD_RESIDUAL_UNISSUED, RWD_RESIDUAL_SINK, RWD_RESIDUAL_CARRY };
enum rwd_emission { RWD_EMIT_NONE, RWD_EMIT_CONSTANT, RWD_EMIT_HALVING };
const char *rwd_rounding_name(enum rwd_rounding rounding);
const char *rwd_residual_name(enum rwd_residual residual);
const char *rwd_emission_name(enum rwd_emission emission);

struct rwd_fraction {
    uint64_t num;
    uint64_t den;
};
struct rwd_category {
    struct ron_str prefix;
    struct ron_money cap;
};

struct rwd_policy {
    struct ron_str id;
    uint64_t version;
    enum rwd_funding funding;
    struct ron_str asset;
    struct ron_money max;
    struct ron_money min;
    uint32_t weight_bps;
    enum rwd_rounding rounding;
    enum rwd_residual residual;
    struct rwd_fraction stored;
    struct rwd_fraction served;
    struct rwd_fraction uptime;
    struct ron_str funding_account; /* empty: payouts are minted */
    struct ron_str sink;
    bool has_actor_cap;
    struct ron_money actor_cap;
    struct rwd_category categories[RWD_CATEGORIES_MAX];
    uint32_t category_count;
    enum rwd_emission emission;
    struct ron_money emission_base;
    uint64_t emission_start_ms;
    uint64_t emission_epoch_ms;
    uint64_t emission_period; /* epochs between two halvings */
    struct ron_b3 hash;
    bool is_signed; /* with a signature that was found good */
    char key_id[RWD_KEY_ID_MAX + 1];
};

/* A public key that may sign policies. */
struct rwd_policy_key {
    char id[RWD_KEY_ID_MAX + 1];
    uint8_t public_key[RWD_SIGN_KEY_BYTES];
};

/* "ID=HEX", the two that `ron reward key` prints. RON_INVALID. */
RON_MUST_USE enum ron_rc rwd_policy_key_read(struct ron_str text, struct rwd_policy_key *ret_key,
                                             struct ron_err *err);

/* A policy with the memory behind its slices. */
struct rwd_policy_doc;
/* Reads a bare or a signed document; copies it. RON_INVALID names the field; RON_LIMIT: a text
 * above RWD_POLICY_TEXT_MAX or too many categories; RON_DENIED: a signature that is bad or of no
 * key in the list, or none where P3 asks for one; RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_policy_read(const void *text, size_t len,
                                         const struct rwd_policy_key *keys, size_t key_count,
                                         struct rwd_policy_doc **ret_doc, struct ron_err *err);
/* Reads a bare document that is to be signed, whatever its funding source. */
RON_MUST_USE enum ron_rc rwd_policy_draft(const void *text, size_t len,
                                          struct rwd_policy_doc **ret_doc, struct ron_err *err);
void rwd_policy_free(struct rwd_policy_doc *doc);
const struct rwd_policy *rwd_policy_of(const struct rwd_policy_doc *doc);
/* Canonical bytes, and the document as it is kept and served (with its signature). */
struct ron_str rwd_policy_bytes(const struct rwd_policy_doc *doc);
RON_MUST_USE enum ron_rc rwd_policy_write(const struct rwd_policy_doc *doc, struct ron_buf *out);
/* Signs a bare document; `seed` is the private key. RON_INVALID: a bad key id; RON_EXISTS: it is
 * signed. */
RON_MUST_USE enum ron_rc rwd_policy_sign(struct rwd_policy_doc *doc, const char *key_id,
                                         const uint8_t seed[RWD_SIGN_KEY_BYTES],
                                         struct ron_err *err);

/* The most that may be paid for an epoch whose snapshot was made at `produced_at_ms`: the curve
 * (RON_MONEY_MAX without one; 0 before its start), then `max`. */
struct ron_money rwd_policy_pool_max(const struct rwd_policy *policy, uint64_t produced_at_ms);
/* For tests and golden values: the policy of the specification (protocol pool, no limits, weights
 * 1, 1/4, 1, floor; its hash is 32 bytes of 0xbb). */
void rwd_policy_default(struct rwd_policy *ret_policy);
