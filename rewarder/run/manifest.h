/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/manifest.h - run.json: what was computed from what, under one commitment.
 *
 * Compact JSON, members in the order of docs/formats/rewarder.md:
 *
 *     {"version":1,"epoch_id","run_key","commitment","status","reason":null|"...","inputs_cid",
 *      "policy":{"id","version","hash","signed","funding_source"},
 *      "ledger":null|{"root","seq"},"carry":null|{"epoch_id","commitment","minor_units"},
 *      "totals":{"offered_minor_units","cut_minor_units","pool_minor_units","payout_minor_units",
 *                "residual_minor_units","dust_minor_units","capped_minor_units","accounts","idle"},
 *      "residual":{"rule","to"},"payouts":null|{"count","cid","root"},
 *      "invariants":{"conservation","overflow","negative","idempotent"},
 *      "proof":null|{"type","cid","scheme"},
 *      "attestation":null|{"key_id","sig_ed25519","public_key"}}
 *
 * Rules:
 *   M1. commitment = BLAKE3 of "ron-reward-run/1\n" and the manifest's bytes without the members
 *       commitment, proof and attestation. What happens at the ledger is no part of it: first run,
 *       repeat and dry run have the same bytes but for the attestation.
 *   M2. The attestation is an Ed25519 signature over "ron-reward-commitment/1\n", the key id, "\n"
 *       and the commitment as text. The key id is signed too, so nobody can put another one there.
 *   M3. What was read is exactly one manifest whose commitment is right; anything else is
 *       RON_INVALID (its form) or RON_CORRUPT (its commitment). A signature is checked by
 *       rew_manifest_attested.
 *   M4. One spelling: what was read and is written again gives the same bytes.
 *
 * Pure code. */
#pragma once

#include "rewarder/run/payouts.h"

enum {
    /* Every member at its longest is below 5 kB. */
    REW_MANIFEST_MAX = 8192,
    REW_PROOF_SLOT_MAX = 1024, /* "proof": type, content id and scheme */
};

enum rew_status { REW_STATUS_OK, REW_STATUS_QUARANTINED };

struct rew_manifest {
    struct ron_str epoch;
    struct ron_b3 run_key;
    struct ron_b3 commitment;
    enum rew_status status;
    enum rew_breach breach;
    struct ron_b3 inputs_cid;
    struct ron_str policy_id;
    uint64_t policy_version;
    struct ron_b3 policy_hash;
    bool policy_signed;
    enum rew_funding funding;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    struct ron_str carry_epoch; /* empty: nothing was carried in */
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
    struct rew_totals totals;
    enum rew_residual residual;
    struct ron_str sink;
    struct rew_payouts_sum payouts;
    struct ron_str proof;            /* JSON {"type","cid","scheme"}; empty: none */
    char key_id[REW_KEY_ID_MAX + 1]; /* "": not attested */
    uint8_t public_key[REW_SIGN_KEY_BYTES];
    uint8_t sig[REW_SIG_BYTES];
};

/* Fills in `commitment`. */
RON_MUST_USE enum ron_rc rew_manifest_commit(struct rew_manifest *m, struct ron_err *err);
/* Signs the commitment. RON_INVALID for a key id that is no name (rew_policy_id_ok, 64 bytes). */
RON_MUST_USE enum ron_rc rew_manifest_attest(struct rew_manifest *m, const char *key_id,
                                             const uint8_t seed[REW_SIGN_KEY_BYTES],
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc rew_manifest_write(const struct rew_manifest *m, struct ron_buf *out);
/* Slices of `m` point into `text`, which is changed. M3. */
RON_MUST_USE enum ron_rc rew_manifest_read(char *text, size_t len, struct rew_manifest *ret_m,
                                           struct ron_err *err);
/* Whether the attestation is there, good, and of this public key (NULL: of the one it names). */
bool rew_manifest_attested(const struct rew_manifest *m,
                           const uint8_t public_key[REW_SIGN_KEY_BYTES]);

/* A payee's proof, made by rew_payouts_prove, checked from its text alone. */
struct rew_proof_word {
    struct rew_manifest manifest;
    struct rew_payout payout;
    uint64_t index;
};
/* RON_INVALID: no proof by its form; RON_CORRUPT: it does not prove what it says; RON_DENIED: the
 * attestation is bad, or, with a public key, missing or of another key. Slices point into `text`,
 * which is changed. */
RON_MUST_USE enum ron_rc rew_proof_check(char *text, size_t len,
                                         const uint8_t public_key[REW_SIGN_KEY_BYTES],
                                         struct rew_proof_word *ret_word, struct ron_err *err);
