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
 *       rwd_manifest_attested.
 *   M4. One spelling: what was read and is written again gives the same bytes.
 *
 * Pure code. */
#pragma once

#include "rewarder/run/payouts.h"

enum {
    /* Every member at its longest is below 5 kB. */
    RWD_MANIFEST_MAX = 8192,
    RWD_PROOF_SLOT_MAX = 1024, /* "proof": type, content id and scheme */
    /* Hashes or keys, and signatures, as lowercase digits with a NUL. */
    RWD__HEX_SIZE = 2 * RON_TREE_HASH_BYTES + 1,
    RWD__SIG_HEX_SIZE = 2 * RWD_SIG_BYTES + 1,
};

enum rwd_status { RWD_STATUS_OK, RWD_STATUS_QUARANTINED };

struct rwd_manifest {
    struct ron_str epoch;
    struct ron_b3 run_key;
    struct ron_b3 commitment;
    enum rwd_status status;
    enum rwd_breach breach;
    struct ron_b3 inputs_cid;
    struct ron_str policy_id;
    uint64_t policy_version;
    struct ron_b3 policy_hash;
    bool policy_signed;
    enum rwd_funding funding;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    struct ron_str carry_epoch; /* empty: nothing was carried in */
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
    struct rwd_totals totals;
    enum rwd_residual residual;
    struct ron_str sink;
    struct rwd_payouts_sum payouts;
    struct ron_str proof;            /* JSON {"type","cid","scheme"}; empty: none */
    char key_id[RWD_KEY_ID_MAX + 1]; /* "": not attested */
    uint8_t public_key[RWD_SIGN_KEY_BYTES];
    uint8_t sig[RWD_SIG_BYTES];
};

/* Fills in `commitment`. */
RON_MUST_USE enum ron_rc rwd_manifest_commit(struct rwd_manifest *m, struct ron_err *err);
/* Signs the commitment. RON_INVALID for a key id that is no name (rwd_policy_id_ok, 64 bytes). */
RON_MUST_USE enum ron_rc rwd_manifest_attest(struct rwd_manifest *m, const char *key_id,
                                             const uint8_t seed[RWD_SIGN_KEY_BYTES],
                                             struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_manifest_write(const struct rwd_manifest *m, struct ron_buf *out);
/* Slices of `m` point into `text`, which is changed. M3. */
RON_MUST_USE enum ron_rc rwd_manifest_read(char *text, size_t len, struct rwd_manifest *ret_m,
                                           struct ron_err *err);
/* Whether the attestation is there, good, and of this public key (NULL: of the one it names). */
bool rwd_manifest_attested(const struct rwd_manifest *m,
                           const uint8_t public_key[RWD_SIGN_KEY_BYTES]);

/* A payee's proof, made by rwd_payouts_prove, checked from its text alone. */
struct rwd_proof_word {
    struct rwd_manifest manifest;
    struct rwd_payout payout;
    uint64_t index;
};
/* RON_INVALID: no proof by its form; RON_CORRUPT: it does not prove what it says; RON_DENIED: the
 * attestation is bad, or, with a public key, missing or of another key. Slices point into `text`,
 * which is changed. */
RON_MUST_USE enum ron_rc rwd_proof_check(char *text, size_t len,
                                         const uint8_t public_key[RWD_SIGN_KEY_BYTES],
                                         struct rwd_proof_word *ret_word, struct ron_err *err);
