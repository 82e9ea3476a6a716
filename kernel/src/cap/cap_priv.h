/* SPDX-License-Identifier: Apache-2.0 */
/* cap_priv.h - what the files of this folder share: compiled caveats and the keys inside. */
#pragma once

#include "ron/cap/cap.h"
#include "ron/cap/caveat.h"
#include "ron/cap/grant.h"
#include "ron/cap/keys.h"
#include "ron/cap/token.h"
#include "ron/cap/verifier.h"

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

/* Splits an identifier; false when it does not have our form. */
bool ron_cap_id_split(struct ron_str identifier, struct ron_str *ret_key_id,
                      struct ron_str *ret_nonce);

/* [a-z][a-z0-9_-]*, parts joined by dots, at most RON_CAP_NAME_MAX bytes. */
bool ron_cap_scope_valid(struct ron_str scope);

/* Such names joined by commas, none twice. */
bool ron_cap_scopes_valid(struct ron_str list);

/* Whether one name of a valid list is `wanted` or stands above it. */
bool ron_cap_scopes_cover(struct ron_str list, struct ron_str wanted);

/* [A-Za-z0-9:/_.@-]{1,256}, and one '*' at the end. */
bool ron_cap_prefix_valid(struct ron_str prefix);

/* Whether the account is the prefix or lies below it, where ':' and '/' part the levels. A prefix
 * that ends in '*' covers every account that begins with what stands before. */
bool ron_cap_prefix_covers(struct ron_str prefix, struct ron_str account);

/* [a-z0-9_-]{1,32} */
bool ron_cap_key_id_valid(struct ron_str id);

struct ron_cap_keys *ron_cap_keys_ref(struct ron_cap_keys *keys);

/* The present keys with a reference for the caller, and their generation (may be NULL). */
struct ron_cap_keys *ron_cap_ring_get(struct ron_cap_ring *ring, uint64_t *ret_generation);

/* Swaps the keys; true when they differ from the old ones. Whoever asks afterwards gets them. */
bool ron_cap_ring_put(struct ron_cap_ring *ring, struct ron_cap_keys *take_keys);

/* Loads the file and puts its keys; on failure the old ones stay. */
RON_MUST_USE enum ron_rc ron_cap_ring_reload(struct ron_cap_ring *ring, const struct ron_env *env,
                                             const char *path, bool *ret_changed,
                                             struct ron_err *err);

/* A token without caveats under `root` (ron_cap_root). TOO_LARGE or OK; MALFORMED when the
 * identifier is empty. */
RON_MUST_USE enum ron_cap_why ron_cap_token_make(enum ron_cap_form form, struct ron_str location,
                                                 struct ron_str identifier,
                                                 const uint8_t root[RON_CAP_SIG_BYTES],
                                                 struct ron_cap_token *ret_token);

/* Adds any bytes as a first-party caveat and moves the signature on. TOO_LARGE, TOO_MANY or OK;
 * MALFORMED when empty. Unchanged on failure. Needs no key: that is how holders narrow a token. */
RON_MUST_USE enum ron_cap_why ron_cap_token_add(struct ron_cap_token *token, struct ron_str caveat);

/* Appends the token's text, without padding, in its form. RON_LIMIT when that form would be longer
 * than RON_CAP_TEXT_MAX. */
RON_MUST_USE enum ron_rc ron_cap_token_write(const struct ron_cap_token *token,
                                             struct ron_buf *out);

/* The key from which the chain starts. */
void ron_cap_root(const void *key, size_t len, uint8_t ret_root[RON_CAP_SIG_BYTES]);

/* Whether the chain from `root` ends in the token's signature; compared in constant time. */
bool ron_cap_token_signed_by(const struct ron_cap_token *token,
                             const uint8_t root[RON_CAP_SIG_BYTES]);

/* Wipes every entry of an older generation or that expired by `now_ms` (0: none did), set by set,
 * so that checks go on meanwhile. It looks at every entry: for a thread that may take its time.
 * Returns how many. */
size_t ron_cap_verifier_forget(struct ron_cap_verifier *v, uint64_t now_ms);
