/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/priv.h - between the files of the job: job.c (questions, tries, the end),
 * check.c (what is reserved and looked at before the batch leaves) and word.c (what
 * the ledger's answers mean). */
#pragma once

#include "wallet/job/job.h"

/* What a job waits for. */
enum wlt__state {
    WLT__OVER,
    WLT__NONCE,   /* account: last nonce of operation _at */
    WLT__TURN,    /* nothing: another job reads the day's debits of operation _at */
    WLT__DEBITS,  /* a page of the day's debits of operation _at */
    WLT__TOTAL,   /* account: what `to` of operation _at has */
    WLT__FUNDS,   /* account: what `from` of the operation has */
    WLT__BATCH,   /* the ledger's word on the batch */
    WLT__OUTCOME, /* what became of the key */
    WLT__PLACE,   /* where the first txid stands */
    WLT__EXPECT,  /* account: which nonce the ledger expects */
};

/* An answer, read. */
enum wlt__tone {
    WLT__GOOD,   /* 200; or 404 of a read, with `absent` */
    WLT__NO,     /* refused for good */
    WLT__LATER,  /* another try may end otherwise */
    WLT__SILENT, /* no answer */
};
struct wlt__word {
    enum wlt__tone tone;
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
void wlt__word_read(const struct wlt_job *job, const struct wlt_reply *reply,
                    struct wlt__word *ret);
/* The wallet's reason for a definite refusal of the batch. */
enum wlt_reason wlt__reason_of(enum lc_reason reason);

/* check.c */
enum wlt__go {
    WLT__GO_ON,
    WLT__GO_READ,   /* the question is in the payload, _state says which */
    WLT__GO_WAIT,   /* a little, then from operation _at on again */
    WLT__GO_REFUSE, /* `fault` says why, if the key was never committed */
    WLT__GO_ANSWER, /* `fault` says why */
};
/* Room for the reservations of the call, and the keys of what it names; false: no memory. */
bool wlt__checks_begin(struct wlt_core *core, struct wlt_job *job);
/* From operation _at on. */
enum wlt__go wlt__checks(struct wlt_core *core, struct wlt_job *job);
/* With the answer to the question that wlt__checks had. */
enum wlt__go wlt__checks_answered(struct wlt_core *core, struct wlt_job *job,
                                  const struct wlt__word *word);
void wlt__put_balance(struct wlt_core *core, const struct wlt_job *job, struct wlt_key account,
                      struct wlt_key pair, const struct lc_account *found);
/* What the call names will be looked for in the tables: lets the processor fetch their memory. */
void wlt__expect(const struct wlt_core *core, const struct wlt_job *job);
/* Settles all reservations but the key. */
void wlt__settle(struct wlt_core *core, struct wlt_job *job, enum wlt_settle nonces,
                 enum wlt_settle sums);
