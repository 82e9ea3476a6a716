/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/policy/priv.h - what the files of the policy share: the document, and the steps of
 * reading one. Private to rwd_policy*.c. */
#pragma once

#include "rewarder/policy/policy.h"
#include "ron/base/buf.h"

enum { RWD_POLICY_V = 1 };
enum {
    RWD_ROUNDING_COUNT = RWD_ROUND_LARGEST_REMAINDER + 1,
    RWD_RESIDUAL_COUNT = RWD_RESIDUAL_CARRY + 1,
    RWD_EMISSION_COUNT = RWD_EMIT_HALVING + 1,
};

struct rwd_policy_doc {
    struct rwd_policy policy;
    char *text;           /* a copy; the slices of `policy` point into it */
    struct ron_buf bytes; /* canonical */
    uint8_t sig[RWD_SIG_BYTES];
};

/* Writes the canonical bytes and the hash of a policy whose other members are set. */
RON_MUST_USE enum ron_rc rwd__policy_seal(struct rwd_policy_doc *doc);
/* Looks for the signature's key and checks it; sets is_signed and key_id. */
RON_MUST_USE enum ron_rc rwd__policy_verify(struct rwd_policy_doc *doc, struct ron_str key_id,
                                            struct ron_str sig_hex,
                                            const struct rwd_policy_key *keys, size_t key_count,
                                            struct ron_err *err);
bool rwd__key_id_ok(struct ron_str id);
