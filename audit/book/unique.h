/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/unique.h - what may stand in the journal only once: ids, idem_ids, nonces of an
 * account.
 *
 * Place: audit. The first reading keeps fingerprints alone. Equal texts have equal fingerprints, so
 * a text that stands twice always raises a suspicion; different texts rarely do. Only when there
 * are suspicions is the journal read again, and then the texts behind them are compared (aud_seen).
 * So nothing is missed and nobody is accused by a hash.
 *
 * An account may use a nonce again when the horizon is over. Nonces are therefore kept in two
 * generations, each as long as the horizon and what clocks may differ, and the older one is dropped
 * whole.
 *
 * Threads: one. Failure: RON_NOMEM; RON_LIMIT at AUD_SUSPECTS_MAX. */
#pragma once

#include "audit/base/find.h"
#include "audit/book/table.h"
#include "audit/journal/entry.h"

enum aud_what { AUD_WHAT_ID, AUD_WHAT_IDEM, AUD_WHAT_NONCE, AUD_WHAT_COUNT };

enum {
    AUD_SUSPECTS_MAX = 1 << 20, /* some 300 MB in the second reading; a journal has none or few */
    AUD_FUTURE_MS = 5000,       /* how far `ts` may lie ahead */
};

struct aud_unique {
    const struct aud_seed *seed;
    uint64_t horizon_ms;
    struct aud_set ids;
    struct aud_set idems;
    struct aud_set nonces[2]; /* the present generation, and the one before */
    uint64_t generation_ms;   /* when the present one began */
    struct aud_set suspects[AUD_WHAT_COUNT];
    uint64_t suspect_count;
};

void aud_unique_init(struct aud_unique *u, const struct aud_seed *seed, uint64_t horizon_ms);
void aud_unique_done(struct aud_unique *u);

static inline uint64_t aud_nonce_print(const struct aud_seed *seed, const struct aud_entry *e)
{
    return aud_print_two(seed, e->account, e->nonce, AUD_NONCE_SIZE);
}

RON_MUST_USE enum ron_rc aud_unique_idem(struct aud_unique *u, struct ron_str idem_id);
/* `now_ms` never falls. */
RON_MUST_USE enum ron_rc aud_unique_entry(struct aud_unique *u, uint64_t id_print,
                                          uint64_t nonce_print, uint64_t now_ms);
uint64_t aud_unique_bytes(const struct aud_unique *u);

/* ---- the second reading ---------------------------------------------------------------------- */

struct aud_seen {
    const struct aud_unique *unique;
    struct aud_findings *findings;
    struct aud_store store;
    struct aud_map texts[AUD_WHAT_COUNT];
};

void aud_seen_init(struct aud_seen *seen, const struct aud_unique *u,
                   struct aud_findings *findings);
void aud_seen_done(struct aud_seen *seen);
RON_MUST_USE enum ron_rc aud_seen_idem(struct aud_seen *seen, struct ron_str idem_id,
                                       const struct aud_place *place);
RON_MUST_USE enum ron_rc aud_seen_entry(struct aud_seen *seen, const struct aud_entry *e,
                                        uint64_t now_ms, const struct aud_place *place);
