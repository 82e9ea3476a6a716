/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/settle/machine.h - one settlement on its way: which batches to send now, and what
 * answers mean. Plain steps without I/O, so that every order of answers can be tested.
 *
 *     SEND ---- done ----------------------------------------------------> DONE
 *      | ^  \-- known with another body --> LOOKUP of each entry -- all --/
 *      | |                                    | the first is unknown
 *      | +-- committed --+                    v
 *      |                 |        (in doubt) OUTCOME -- cancelled --+
 *      +-- too old --> OUTCOME                                      v
 *             never seen |  \------ cancelled ------------------> STAMP --> SEND
 *                        v                                          ^
 *                     CANCEL -------------------------- cancelled --+
 *
 * A batch is a ledger batch (client/): idem_id rwd_batch_key, and an entry per intent: Mint to the
 * account, or Transfer from the policy's funding account; `id` is the intent key, `nonce` follows
 * from run key and account, `ts` that of the plan, memo "svc-rewarder:<epoch>".
 *
 * Rules:
 *   E1. A payout takes effect at most once: the ledger refuses an entry id it knows, whatever batch
 *       it comes in. A batch that is answered idem_mismatch or conflict is looked up entry by entry
 *       (by-id); when all are there it is DONE. When not even the first is there and the key is a
 *       tombstone, the batch is stamped anew; else the epoch is quarantined.
 *   E2. Nothing is called settled without the ledger's word on these very entries: 200 to their
 *       bytes, or each of them found. That a key is committed is not enough.
 *   E3. No answer, busy, timeout, draining, safe mode, internal fault, insufficient funds, breaker
 *       open: tried again after 100-250 ms, and after 3 tries WITHHELD, to be emitted later under
 *       the same key. Any other refusal: quarantine.
 *   E4. A batch stamped longer ago than half of the ledger's horizon is asked for first (outcome);
 *       never seen: the old key is cancelled, then it is stamped anew.
 *   E5. Once withheld or refused, nothing more is begun; answers that are owed are heard, and what
 *       they say is done is still noted in the book.
 *   E6. Where the book forgets (amnesia), the ledger remembers whose an epoch is: the key of the
 *       first batch is the epoch's (rwd_claim_key), so that of two runs one gets idem_mismatch and,
 *       as its entries are not there, is quarantined (E1). The caller adds the other batches only
 *       when the first is done.
 *
 * Ownership: none beyond its own memory; slots stay where they are. Threads: the emitter's
 * alone. */
#pragma once

#include "client/client.h"
#include "rewarder/book/book.h"

enum {
    RWD_EMIT_INFLIGHT_MAX = 256,
    RWD_EMIT_TRIES_MAX = 3,
    RWD_EMIT_PAUSE_MIN_MS = 100,
    RWD_EMIT_PAUSE_MAX_MS = 250,
    /* Entries of at most 700 bytes: such a batch fits the 1 MiB of a frame. */
    RWD_EMIT_BATCH_MAX = 1024,
    RWD_EMIT_BYTES_MAX = 1 << 20,
};

/* What to do next with a batch. X(NAME, "name") */
#define RWD_EMIT_STEPS(X)                                                                          \
    X(SEND, "send")       /* LC_CODE_INGEST with the batch */                                      \
    X(OUTCOME, "outcome") /* LC_CODE_READ of lc_target_outcome */                                  \
    X(CANCEL, "cancel")   /* LC_CODE_CANCEL of its key */                                          \
    X(LOOKUP, "lookup")   /* LC_CODE_READ of lc_target_by_id for entry `lookup` */                 \
    X(STAMP, "stamp")     /* rwd_book_stamp, then rwd_emit_stamped */                              \
    X(DONE, "done")       /* rwd_book_done, then rwd_emit_noted */
enum rwd_emit_step {
#define X(name, text) RWD_EMIT_##name,
    RWD_EMIT_STEPS(X)
#undef X
        RWD_EMIT_STEP_COUNT
};

/* How a step ended. X(NAME, "name") */
#define RWD_WORDS(X)                                                                               \
    X(DONE, "done")             /* 200 of an ingest, or an outcome that says committed */          \
    X(NEVER, "never")           /* outcome: never seen */                                          \
    X(CANCELLED, "cancelled")   /* the key is a tombstone */                                       \
    X(KNOWN, "known")           /* by-id: the entry is there, with this amount and account */      \
    X(UNKNOWN_ID, "unknown_id") /* by-id: it is not */                                             \
    X(OTHER_BODY, "other_body") /* key or id are known with another body; or of a cancel: the */   \
                                /* batch is committed */                                           \
    X(LATER, "later")           /* E3: no answer or a refusal that may pass; of STAMP and DONE: */ \
                                /* the book has failed */                                          \
    X(REFUSED, "refused")       /* E3: for good */
enum rwd_emit_word {
#define X(name, text) RWD_WORD_##name,
    RWD_WORDS(X)
#undef X
        RWD_WORD_COUNT
};

struct rwd_emit_batch {
    struct rwd_batch row;
    enum rwd_emit_step step;
    bool used;
    bool busy;       /* the step was taken and its word has not come */
    bool committed;  /* the outcome said so: to be sent however old it is */
    bool doubted;    /* the outcome is asked for after a refusal, E1 */
    uint32_t lookup; /* entry within the batch */
    uint32_t tries;  /* of this step */
};

struct rwd_emit {
    struct rwd_emit_batch slots[RWD_EMIT_INFLIGHT_MAX];
    uint32_t slot_count; /* in use */
    uint32_t inflight_max;
    uint64_t horizon_ms;
    uint64_t until_ms; /* after RWD_WORD_LATER nothing is begun before */
    bool withheld;     /* the tries are used up */
    bool refused;      /* for good: quarantine; counts more than withheld */
    char reason[128];
};

void rwd_emit_init(struct rwd_emit *e, uint32_t inflight_max, uint64_t horizon_ms);
/* Takes a planned batch when there is a free slot and the settlement has not ended (E5). */
bool rwd_emit_add(struct rwd_emit *e, const struct rwd_batch *row);
/* The next slot that has something to do at `now_ms`, marked busy; NULL: nothing, look again after
 * a word or at until_ms. */
struct rwd_emit_batch *rwd_emit_next(struct rwd_emit *e, uint64_t now_ms);
/* The word on the step that the slot is busy with. `done` with RWD_WORD_DONE of a SEND. `message`
 * may be NULL. `jitter` is random. The slot may be free afterwards. */
void rwd_emit_word(struct rwd_emit *e, struct rwd_emit_batch *slot, enum rwd_emit_word word,
                   const struct lc_done *done, const char *message, uint64_t now_ms,
                   uint32_t jitter);
/* The book has it. */
void rwd_emit_stamped(struct rwd_emit *e, struct rwd_emit_batch *slot, uint64_t ts_ms,
                      uint32_t attempt);
void rwd_emit_noted(struct rwd_emit *e, struct rwd_emit_batch *slot);
/* Nothing under way: all slots are free. */
bool rwd_emit_idle(const struct rwd_emit *e);

/* What a refusal of the ledger means in answer to a step: E3. */
enum rwd_emit_word rwd_emit_refusal(enum rwd_emit_step step, const struct lc_refusal *refusal);

/* ---- bytes ----------------------------------------------------------------------------------- */

/* What the entries of a settlement are made of. */
struct rwd_emit_source {
    const struct rwd_manifest *manifest;
    struct rwd_payouts *payouts;
    struct ron_str asset;
    struct ron_str funding_account; /* empty: Mint */
    struct ron_str kid;             /* 1-128 printable ASCII, as is the next */
    struct ron_str capability_ref;
    struct ron_str claim_salt; /* of rwd_claim_key, E6; empty: the book knows whose the epoch is */
};

/* The payload of a step that asks the ledger (SEND, OUTCOME, CANCEL, LOOKUP), and its LC_CODE_*. */
RON_MUST_USE enum ron_rc rwd_emit_request(const struct rwd_emit_source *src,
                                          const struct rwd_emit_batch *slot, uint16_t *ret_code,
                                          struct ron_buf *out, struct ron_err *err);
/* What an answer to it means; what cannot be understood is RWD_WORD_LATER: nothing is guessed.
 * `bytes` are changed. ret_done is written with RWD_WORD_DONE, ret_message always. */
enum { RWD_EMIT_MESSAGE_SIZE = 128 };
enum rwd_emit_word rwd_emit_answer(const struct rwd_emit_source *src,
                                   const struct rwd_emit_batch *slot, uint32_t status, char *bytes,
                                   size_t len, struct lc_done *ret_done,
                                   char ret_message[RWD_EMIT_MESSAGE_SIZE]);

/* ---- the same for the wallet: one intent, POST /v1/issue or /v1/transfer --------------------- */

/* The body of a SEND, its path and its Idempotency-Key, which is the intent key: the wallet then
 * pays it once, whatever batch it comes in. */
struct rwd_issue {
    const char *path;
    char key[RWD_INTENT_KEY_SIZE];
};
RON_MUST_USE enum ron_rc rwd_emit_issue(const struct rwd_emit_source *src,
                                        const struct rwd_emit_batch *slot,
                                        struct rwd_issue *ret_issue, struct ron_buf *out,
                                        struct ron_err *err);
/* What the wallet's answer means; `status` 0: there was none. As rwd_emit_answer. */
enum rwd_emit_word rwd_emit_issued(int status, char *bytes, size_t len, bool replayed,
                                   struct lc_done *ret_done,
                                   char ret_message[RWD_EMIT_MESSAGE_SIZE]);
