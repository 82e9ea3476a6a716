/* SPDX-License-Identifier: Apache-2.0 */
/* breach.h - expects a breach of the rules of sync.h, in either kind of build.
 *
 * A checked build must die with a report that holds the given texts; the release build must go on
 * and count one more breach of the kind. The body is run in a child in the first case and in place
 * in the second, so it must come back to where it began.
 */
#pragma once

#include "support/support.h"

#include "ron/sync/sync.h"

/* KIND is RANK, HELD, LOOP or OWNER. */
#if RON_CHECKED
#define EXPECT_BREACH(KIND, fn, arg, ...)                                                          \
    support_death((fn), (arg), breach_text(RON_BREACH_##KIND), __VA_ARGS__)
#else
#define EXPECT_BREACH(KIND, fn, arg, ...)                                                          \
    do {                                                                                           \
        uint64_t breach_before_ = ron_sync_violations(RON_BREACH_##KIND);                          \
        (fn)(arg);                                                                                 \
        assert_true(ron_sync_violations(RON_BREACH_##KIND) > breach_before_);                      \
    } while (0)
#endif

static inline const char *breach_text(enum ron_sync_breach kind)
{
    static const char *const texts[RON_BREACH_COUNT] = {
#define X(name, label, doc) "sync breach " label " at ",
        RON_SYNC_BREACHES(X)
#undef X
    };
    return texts[kind];
}
