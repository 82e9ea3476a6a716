/* SPDX-License-Identifier: Apache-2.0 */
/* cap_priv.h - what the files of this folder share: compiled caveats and the keys inside. */
#pragma once

#include "ron/cap/grant.h"

/* Compiles the caveats of a token into `items`, which has room for RON_CAP_CAVEATS_MAX. The grant
 * borrows from both. OK, UNKNOWN_CAVEAT or BAD_CAVEAT: the first bad one tells. */
enum ron_cap_why ron__cap_compile(const struct ron_cap_token *token, struct ron_cap_item *items,
                                  struct ron_cap_grant *ret_grant);

/* All kinds. */
static inline enum ron_cap_why ron__cap_allows(const struct ron_cap_grant *grant,
                                               const struct ron_cap_request *request)
{
    return ron_cap_grant_allows(grant, RON_CAP_KINDS_ALL, request);
}

/* A copy whose slices lie in the arena; OK, or TOO_LARGE when they do not fit. */
enum ron_cap_why ron__cap_grant_copy(const struct ron_cap_grant *from, struct ron_arena *arena,
                                     struct ron_cap_grant *ret_grant);

/* Whether a token that is void from `exp_s` is good at this time, the skew allowed for. */
bool ron__cap_unexpired(uint64_t exp_s, uint64_t now_ms);

/* Finds the key that the identifier names and checks the chain. OK, UNKNOWN_KEY or SIGNATURE. */
enum ron_cap_why ron__cap_check_chain(const struct ron_cap_keys *keys,
                                      const struct ron_cap_token *token);

/* `exp_s` is not known yet. */
void ron__cap_fill_info(const struct ron_cap_token *token, struct ron_str text,
                        struct ron_cap_info *ret_info);

/* All that a verifier remembers, for a test that looks what is left of a token (V3). Nobody may be
 * at the verifier meanwhile. */
struct ron_cap_verifier;
const void *ron__cap_verifier_memory(const struct ron_cap_verifier *v, size_t *ret_size);

/* ---- keys.c ---------------------------------------------------------------------------------- */

enum { CAP_KEYS_MAGIC = 0x6361706b };

struct cap_key {
    struct ron_cap_key_info info;
    uint8_t root[RON_CAP_SIG_BYTES]; /* what the chain starts from; the key itself is not kept */
};

struct ron_cap_keys {
    uint32_t magic;
    struct ron_au32 refs;
    uint32_t count;
    struct cap_key keys[RON_CAP_KEYS_MAX];
};

/* Zeros with one reference; NULL without memory, and err says so. */
struct ron_cap_keys *ron__cap_keys_new(struct ron_err *err);
/* NULL when there is none. */
const struct cap_key *ron__cap_keys_find(const struct ron_cap_keys *keys, struct ron_str id);

/* `len` bytes from the environment's randomness. */
void ron__cap_random(const struct ron_env *env, void *ret_bytes, size_t len);
