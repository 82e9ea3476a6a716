/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/idem.h - answers by idempotency key, for a while: a cache over the ledger's durable
 * keys.
 *
 * Place: wallet. Losing an entry costs a question to the ledger, never a second payment.
 *
 * Rules:
 *   I1. A key has at most one running job (PENDING); rivals are told so.
 *   I2. A finished key gives back exactly the bytes of its first answer, for `ttl_ms`, to the same
 *       fingerprint; another fingerprint is a conflict, also while it runs.
 *   I3. Only successes are kept. A refusal or an unknown end frees the key.
 *   I4. Bounded by bytes, which are taken at the start and touched when they are needed: the entry
 *       that was not used for longest makes room; PENDING ones never do. An answer that is too
 *       large for a shard is not kept.
 *   I5. Expired is expired at expires <= now, whether or not it has been cleaned up.
 * Threads: any; one short lock (rank leaf) per shard. Answers are copied out under it. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/rc.h"
#include "wallet/table/key.h"

struct wlt_idem;

struct wlt_idem_opts {
    uint32_t shards;
    uint64_t bytes_max;   /* all answers and records together; at least 4 KiB a shard */
    uint32_t pending_max; /* jobs at once; at least 1 */
    uint64_t ttl_ms;
};
/* RON_INVALID: a number is out of its range, shards being of 1..WLT_SHARDS_MAX. */
RON_MUST_USE enum ron_rc wlt_idem_new(const struct wlt_idem_opts *opts, struct wlt_idem **ret,
                                      struct ron_err *err);
/* Also fine on NULL. */
void wlt_idem_free(struct wlt_idem *i);

enum wlt_idem_verdict {
    WLT_IDEM_FIRST,    /* ours to run; must be ended by finish or abandon */
    WLT_IDEM_PENDING,  /* somebody runs it */
    WLT_IDEM_REPLAY,   /* the answer was appended; ron_buf_error(out) tells if it could not be */
    WLT_IDEM_CONFLICT, /* another fingerprint */
    WLT_IDEM_FULL,     /* pending_max, or a shard full of jobs */
};
RON_MUST_USE enum wlt_idem_verdict wlt_idem_begin(struct wlt_idem *i, struct wlt_key key,
                                                  const uint8_t fingerprint[32], uint64_t now_ms,
                                                  struct ron_buf *out);
/* finish and abandon: by who was told FIRST, once. */
void wlt_idem_finish(struct wlt_idem *i, struct wlt_key key, const void *answer, size_t len,
                     uint64_t now_ms);
void wlt_idem_abandon(struct wlt_idem *i, struct wlt_key key);
/* Forgets all answers; what runs goes on. */
void wlt_idem_forget_all(struct wlt_idem *i);
/* A reload: for the answers from now on; those that are kept keep their time. */
void wlt_idem_set_ttl(struct wlt_idem *i, uint64_t ttl_ms);

struct wlt_idem_stats {
    uint64_t entries; /* PENDING ones included */
    uint64_t bytes;
    uint64_t evicted_total;
    uint64_t expired_total;
};
struct wlt_idem_stats wlt_idem_stats(const struct wlt_idem *i);
