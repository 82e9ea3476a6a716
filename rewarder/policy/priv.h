/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/policy/priv.h - what the files of the policy share: the document, and the steps of
 * reading one. Private to rew_policy*.c. */
#pragma once

#include "rewarder/policy/policy.h"
#include "ron/base/buf.h"

enum { REW_POLICY_V = 1 };
enum {
    REW_ROUNDING_COUNT = REW_ROUND_LARGEST_REMAINDER + 1,
    REW_RESIDUAL_COUNT = REW_RESIDUAL_CARRY + 1,
    REW_EMISSION_COUNT = REW_EMIT_HALVING + 1,
};

struct rew_policy_doc {
    struct rew_policy policy;
    char *text;           /* a copy; the slices of `policy` point into it */
    struct ron_buf bytes; /* canonical */
    uint8_t sig[REW_SIG_BYTES];
};

/* Writes the canonical bytes and the hash of a policy whose other members are set. */
RON_MUST_USE enum ron_rc rew__policy_seal(struct rew_policy_doc *doc);
/* Looks for the signature's key and checks it; sets is_signed and key_id. */
RON_MUST_USE enum ron_rc rew__policy_verify(struct rew_policy_doc *doc, struct ron_str key_id,
                                            struct ron_str sig_hex,
                                            const struct rew_policy_key *keys, size_t key_count,
                                            struct ron_err *err);
bool rew__key_id_ok(struct ron_str id);
