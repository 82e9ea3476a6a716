/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/name.h - what things are called: epochs, accounts, run keys, intent keys.
 *
 * Place: rewarder, its lowest part. Layouts: docs/formats/rewarder.md.
 *
 * Rules:
 *   N1. A name follows from its inputs alone: the same epoch, policy and inputs have the same run
 *       key, the same payout the same intent key, on every machine and after every restart.
 *   N2. One spelling: content ids are "b3:" and 64 lowercase digits.
 *
 * Pure functions; any thread; nothing allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/json.h"
#include "ron/base/money.h"
#include "ron/cas/b3.h"

enum {
    RWD_EPOCH_MAX = 128,      /* [A-Za-z0-9_.:-] */
    RWD_FOLDER_MAX = 224,     /* of an epoch: a file name has 255, and a suffix may follow */
    RWD_ACCOUNT_MAX = 160,    /* [A-Za-z0-9_.:/-]: what accounting exports */
    RWD_POLICY_ID_MAX = 128,  /* like an epoch */
    RWD_INTENT_KEY_LEN = 63,  /* "b3:" and 60 digits: the wallet's keys have 64 bytes at most */
    RWD_INTENT_KEY_SIZE = 64, /* with its NUL */
    RWD_SALT_MAX = 64,
};
#define RWD_SALT_DEFAULT "svc-rewarder|v1"

/* 1..RWD_EPOCH_MAX characters whose folder name has RWD_FOLDER_MAX at most: of 128 characters, 48
 * may be '.' or ':'. */
bool rwd_epoch_ok(struct ron_str epoch);
bool rwd_account_ok(struct ron_str account);
/* One character of an account; accounts are read by the million. */
static inline bool rwd_account_char(char c)
{
    /* '-' '.' '/' '0'..'9' ':', and 'A'..'Z' '_' 'a'..'z': a bit for each of the 128 codes. */
    static const uint64_t allowed[2] = {UINT64_C(0x07ffe00000000000), UINT64_C(0x07fffffe87fffffe)};
    unsigned char u = (unsigned char)c;

    return u < 128 && (allowed[u >> 6] >> (u & 63) & 1) != 0;
}
bool rwd_policy_id_ok(struct ron_str id);

/* BLAKE3(salt '|' epoch '|' policy_hash '|' inputs_cid), the two ids as text. */
void rwd_run_key(struct ron_str salt, struct ron_str epoch, const struct ron_b3 *policy_hash,
                 const struct ron_b3 *inputs_cid, struct ron_b3 *ret_key);

/* BLAKE3("svc-rewarder|settlement-intent|v2" '|' run_key '|' account '|' amount), cut. Not of the
 * commitment: a run has one key per payee whatever else is said of it. */
void rwd_intent_key(const struct ron_b3 *run_key, struct ron_str account, struct ron_money amount,
                    char ret_key[RWD_INTENT_KEY_SIZE]);

/* A batch of a settlement: "rew:" and the first 56 digits of
 * BLAKE3("svc-rewarder|settlement-batch|v1" '|' run_key '|' first '|' count '|' attempt). */
enum { RWD_BATCH_KEY_LEN = 60, RWD_BATCH_KEY_SIZE = 64 };
void rwd_batch_key(const struct ron_b3 *run_key, uint64_t first, uint32_t count, uint32_t attempt,
                   char ret_key[RWD_BATCH_KEY_SIZE]);
/* The first batch of an epoch, whatever its run: "rew:" and the first 56 digits of
 * BLAKE3("svc-rewarder|epoch-claim|v1" '|' salt '|' epoch '|' attempt). */
void rwd_claim_key(struct ron_str salt, struct ron_str epoch, uint32_t attempt,
                   char ret_key[RWD_BATCH_KEY_SIZE]);

/* An epoch (rwd_epoch_ok) as the name of a folder: all but [A-Za-z0-9_-] percent-encoded, so that
 * no two epochs share one and none is "." or "..". */
enum { RWD_FOLDER_SIZE = RWD_FOLDER_MAX + 1 };
void rwd_epoch_folder(struct ron_str epoch, char ret_name[RWD_FOLDER_SIZE]);
/* Back; false for what rwd_epoch_folder does not write. */
bool rwd_folder_epoch(const char *name, char ret_epoch[RWD_EPOCH_MAX + 1]);
