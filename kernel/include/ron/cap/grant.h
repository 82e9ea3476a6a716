/* SPDX-License-Identifier: Apache-2.0 */
/* grant.h - the compiled caveats of one token, for a caller with many requests under it.
 *
 * Place: cap, between caveat.h and verifier.h. A batch of a thousand entries comes with one token:
 * its signature is checked once (ron_cap_verifier_open), and each entry is then judged by the grant
 * alone, without lock, lookup or allocation. It also lets a service look at some caveats before it
 * knows the request: who may not come at all is turned away before the body is read.
 *
 * Rules:
 *   G1. A grant says what its token says: judging all kinds is what ron_cap_verify does after the
 *       signature. Judging some of them answers for those alone; all must be judged in the end.
 *   G2. A grant of ron_cap_grant_read is a claim: nothing in it counts until somebody has checked
 *       the signature.
 *   G3. A grant is no secret: the signature is not in it.
 *
 * Ownership: slices lie in the arena (or the token) that it was made with. Threads: pure. */
#pragma once

#include "ron/base/arena.h"
#include "ron/cap/cap.h"

/* A value that has to be compared for each request; the other caveats fold into numbers. */
struct ron_cap_item {
    uint8_t kind;
    uint16_t at;
    uint16_t len;
};

struct ron_cap_grant {
    const char *bytes;
    const struct ron_cap_item *items; /* in the order of the token */
    uint32_t item_count;
    uint32_t kinds;       /* RON_CAP_KIND_BIT of those that stand in the token */
    uint64_t exp_s;       /* the earliest; UINT64_MAX without */
    struct ron_money max; /* the lowest; RON_MONEY_MAX without */
};

enum {
    RON_CAP_KINDS_ALL = (1 << RON_CAP_KIND_COUNT) - 1,
    /* What a grant takes of an arena at most, alignment included. */
    RON_CAP_GRANT_BYTES =
        RON_CAP_RAW_MAX + RON_CAP_CAVEATS_MAX * (int)sizeof(struct ron_cap_item) + 16,
};

/* Judges the caveats of these kinds (a sum of RON_CAP_KIND_BIT): expiry first, then the values in
 * the order of the token, then the numbers, then must_carry. */
RON_MUST_USE enum ron_cap_why ron_cap_grant_allows(const struct ron_cap_grant *grant,
                                                   uint32_t kinds,
                                                   const struct ron_cap_request *request);

/* The grant that a text claims, its signature unchecked (G2): for a service whose keys are held by
 * another. Why the text is no token, UNKNOWN_KEY when its identifier is not of our form,
 * UNKNOWN_CAVEAT, BAD_CAVEAT, or OK. The arena has RON_CAP_GRANT_BYTES left; TOO_LARGE when a grant
 * does not fit what it has. */
RON_MUST_USE enum ron_cap_why ron_cap_grant_read(struct ron_str token, struct ron_arena *arena,
                                                 struct ron_cap_grant *ret_grant,
                                                 struct ron_cap_info *ret_info);
