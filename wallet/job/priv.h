/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/priv.h - between the files of the job: job.c (questions, tries, the end),
 * check.c (what is reserved and looked at before the batch leaves) and word.c (what
 * the ledger's answers mean). */
#pragma once

#include "wallet/job/job.h"

/* What a job waits for. */
enum wal__state {
    WAL__OVER,
    WAL__NONCE,   /* account: last nonce of operation _at */
    WAL__TURN,    /* nothing: another job reads the day's debits of operation _at */
    WAL__DEBITS,  /* a page of the day's debits of operation _at */
    WAL__TOTAL,   /* account: what `to` of operation _at has */
    WAL__FUNDS,   /* account: what `from` of the operation has */
    WAL__BATCH,   /* the ledger's word on the batch */
    WAL__OUTCOME, /* what became of the key */
    WAL__PLACE,   /* where the first txid stands */
    WAL__EXPECT,  /* account: which nonce the ledger expects */
};

/* An answer, read. */
enum wal__tone {
    WAL__GOOD,   /* 200; or 404 of a read, with `absent` */
    WAL__NO,     /* refused for good */
    WAL__LATER,  /* another try may end otherwise */
    WAL__SILENT, /* no answer */
};
struct wal__word {
    enum wal__tone tone;
    bool absent;
    bool lost;      /* the batch may have had an effect all the same */
    bool busy;      /* says nothing about the ledger's health */
    bool elsewhere; /* another ledger leads */
    struct lc_refusal refusal;
    union {
        struct lc_done done;
        struct lc_account account;
        struct lc_debits debits;
        struct lc_outcome_of_key outcome;
        struct lc_place place;
    };
};

/* word.c */
void wal__word_read(const struct wal_job *job, const struct wal_reply *reply,
                    struct wal__word *ret);
/* The wallet's reason for a definite refusal of the batch. */
enum wal_reason wal__reason_of(enum lc_reason reason);

/* check.c */
enum wal__go {
    WAL__GO_ON,
    WAL__GO_READ,   /* the question is in the payload, _state says which */
    WAL__GO_WAIT,   /* a little, then from operation _at on again */
    WAL__GO_REFUSE, /* `fault` says why, if the key was never committed */
    WAL__GO_ANSWER, /* `fault` says why */
};
/* Room for the reservations of the call, and the keys of what it names; false: no memory. */
bool wal__checks_begin(struct wal_core *core, struct wal_job *job);
/* From operation _at on. */
enum wal__go wal__checks(struct wal_core *core, struct wal_job *job);
/* With the answer to the question that wal__checks had. */
enum wal__go wal__checks_answered(struct wal_core *core, struct wal_job *job,
                                  const struct wal__word *word);
void wal__put_balance(struct wal_core *core, const struct wal_job *job, struct wal_key account,
                      struct wal_key pair, const struct lc_account *found);
/* What the call names will be looked for in the tables: lets the processor fetch their memory. */
void wal__expect(const struct wal_core *core, const struct wal_job *job);
/* Settles all reservations but the key. */
void wal__settle(struct wal_core *core, struct wal_job *job, enum wal_settle nonces,
                 enum wal_settle sums);
