/* SPDX-License-Identifier: Apache-2.0 */
/* verifier.h - verification for services: remembers the tokens whose signature was good.
 *
 * Place: cap. A token comes with every request of a client; its signature costs some microseconds,
 * its caveats some nanoseconds. So the signature is checked once, and what stays is the list of
 * caveats, which is judged anew for every request.
 *
 * Rules:
 *   V1. The answer is that of ron_cap_verify with the ring's keys of that moment.
 *   V2. An entry counts for one generation of the ring: after a rotation or retirement nothing that
 *       was remembered before is believed. An expired entry is dropped when its token is seen.
 *   V3. An entry is found by its whole text, by way of a hash under a random key of this verifier.
 *       Only texts with a good signature enter, so strangers cannot fill it. What is dropped,
 *       replaced or freed is wiped, and ron_cap_verifier_forget wipes what the present keys did not
 *       sign and what has expired; until then such texts stay in memory, unbelieved.
 *   V4. All memory is taken when it is made. A set that is full gives up the entry that was not
 *       used for longest. A token of more than 768 characters, or with more than 16 values to
 *       compare, is verified each time.
 *
 * Threads: any; one short lock per shard, of rank leaf. */
#pragma once

#include <stdint.h>

#include "ron/base/env.h"
#include "ron/cap/grant.h"

enum {
    RON_CAP_CACHE_DEFAULT = 4096, /* entries: clients at once of one service; 6.5 MiB */
    RON_CAP_CACHE_MAX = 1 << 20,
};

struct ron_cap_verifier;

struct ron_cap_verifier_opts {
    const struct ron_env *env;
    struct ron_cap_ring *ring; /* borrowed; outlives the verifier */
    uint32_t entries;          /* 0 = RON_CAP_CACHE_DEFAULT; rounded up to a power of two, >= 64 */
};

struct ron_cap_verifier_stats {
    uint64_t hits_total;
    uint64_t misses_total;   /* the text was read and, if it is a token, its signature checked */
    uint64_t evicted_total;  /* given up for another token */
    uint64_t dropped_total;  /* expired, or of an older generation */
    uint64_t bypassed_total; /* good, but too large to be remembered */
    uint64_t entries;
    uint64_t keys;          /* in the ring */
    uint64_t generation;    /* of the ring: 1, and one more with every change */
    uint64_t reloads_total; /* of the key file through this verifier */
    uint64_t reload_fails_total;
};

RON_MUST_USE enum ron_rc ron_cap_verifier_new(const struct ron_cap_verifier_opts *opts,
                                              struct ron_cap_verifier **ret_verifier,
                                              struct ron_err *err);
void ron_cap_verifier_free(struct ron_cap_verifier *v); /* NULL is fine */

/* Signature and expiry; the other caveats are the caller's to judge, with ron_cap_grant_allows. The
 * grant lies in the arena, which has RON_CAP_GRANT_BYTES left (TOO_LARGE when it does not fit what
 * is left). `ret_info` may be NULL; it is filled
 * when the signature is good. */
RON_MUST_USE enum ron_cap_why ron_cap_verifier_open(struct ron_cap_verifier *v,
                                                    struct ron_str token, uint64_t now_ms,
                                                    struct ron_arena *arena,
                                                    struct ron_cap_grant *ret_grant,
                                                    struct ron_cap_info *ret_info);

/* What a SIGHUP does: loads the key file into the ring and, when the keys changed, forgets what
 * they did not sign. On failure everything stays as it was. Blocks; one caller at a time. */
RON_MUST_USE enum ron_rc ron_cap_verifier_reload(struct ron_cap_verifier *v,
                                                 const struct ron_env *env, const char *path,
                                                 bool *ret_changed, struct ron_err *err);

struct ron_cap_verifier_stats ron_cap_verifier_stats(const struct ron_cap_verifier *v);
