/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/work.h - a batch on its way through the pipeline: the one message that its stages
 * hand on.
 *
 *     ingress --ingress--> prevalidators --preval--> sequencer --commit--> committer --> answer
 *                               |                        |
 *                               +------ reads <----------+   duplicates, originals of a Reverse
 *
 * Ownership: a work belongs to the stage that holds it. Whoever ends it fills in the outcome and
 * calls led_work_done exactly once; that answers the caller and gives the work back. Texts and
 * canonical bytes may be slices of the request, which lives until then.
 *
 * Who writes what: ingress `in`, form, caller and times; a prevalidator everything down to
 * checked_seq; the sequencer now_ms, seqs, links, fate and found_seq; whoever ends it the outcome.
 * A reader that cleared a LED_FATE_LOOK_UP of suspicion sets checked_seq anew and sends the work
 * back. */
#pragma once

#include "ledger/book/book.h"
#include "ledger/entry/entry.h"
#include "ledger/work/caller.h"
#include "ron/base/arena.h"
#include "ron/merkle/hash.h"
#include "ron/obs/trace.h"

struct led_auth; /* guard/guard.h */

enum led_work_kind {
    LED_WORK_INGEST,
    LED_WORK_CANCEL, /* a tombstone for idem_id */
    LED_WORK_EXPIRE, /* the ledger's own: made by the sequencer */
};

enum led_form {
    LED_FORM_JSON,   /* led_batch_from_json; `in` is changed in place */
    LED_FORM_BINARY, /* led_batch_decode */
};

/* Where prevalidation stands; led_preval_step moves it on. */
enum led_step {
    LED_STEP_ADMIT,
    LED_STEP_KMS, /* the KMS is asked for the token's signature */
    LED_STEP_PARSE,
    LED_STEP_CHECK,
    LED_STEP_POLICY, /* the remote policy guard is asked */
    LED_STEP_WALLET, /* the remote double-spend guard is asked */
    LED_STEP_LOOK_UP,
    LED_STEP_DONE,
};

/* What readers look for before the sequencer decides; a sum. */
enum led_look_up {
    LED_LOOK_ID = 1,       /* an id may be in the journal */
    LED_LOOK_IDEM = 2,     /* the idem_id may be in the journal */
    LED_LOOK_ORIGINAL = 4, /* a Reverse: what its `ref` names */
};

/* What the sequencer decided; its task acts on it. */
enum led_fate {
    LED_FATE_NONE,
    LED_FATE_COMMIT,  /* has its seqs: to the committer, in this order */
    LED_FATE_DONE,    /* the outcome is filled in: answer it */
    LED_FATE_LOOK_UP, /* its idem_id or an id is, or may be, in the journal: to the readers */
    LED_FATE_KEPT,    /* the sequencer keeps it: behind one in flight that shares an id, or without
                       * room */
};

enum led_result {
    LED_RESULT_NONE,
    LED_RESULT_COMMITTED, /* durable; also the answer to a repetition, byte for byte the same */
    LED_RESULT_REFUSED,
    LED_RESULT_DRY_RUN,   /* would be accepted; nothing happened */
    LED_RESULT_CANCELLED, /* the tombstone is durable */
};

/* Seqs at which a key was seen lately: what the index, which runs behind, may not know yet. The
 * journal tells whether the key is there. */
struct led_candidates {
    const uint64_t *seqs;
    size_t count;
};
enum { LED_SEQ_CANDIDATES_MAX = 8 };

struct led_work {
    uint32_t magic;
    uint8_t kind;        /* enum led_work_kind */
    uint8_t fate;        /* enum led_fate */
    uint8_t result;      /* enum led_result */
    bool replayed;       /* a repetition: the outcome is an earlier one's */
    bool no_room;        /* refused for lack of room at the committer */
    bool lone;           /* no other was under way when it came */
    uint32_t generation; /* of the engine whose hash key and seqs it carries; 0: none yet */
    uint32_t reign;      /* in which it got its seq (replica/lead.h) */
    uint32_t flags;      /* enum led_apply_flag */

    uint8_t form;    /* enum led_form */
    uint8_t step;    /* enum led_step */
    uint8_t look_up; /* enum led_look_up */
    struct ron_str in;
    struct led_caller caller;
    struct led_auth *auth; /* NULL before the token was opened, and for the ledger's own */

    struct ron_arena arena; /* arrays below; texts of JSON requests */
    struct led_batch batch;
    struct ron_str *leaves;       /* canonical bytes, one per entry */
    struct ron_tree_hash *hashes; /* of the leaves */
    struct led_prep *preps;
    struct led_links *links;
    const struct led_candidates *refs;  /* of the `ref` of each entry; NULL: none are known */
    const struct led_entry **originals; /* NULL unless it reverses something */
    struct led_key idem;                /* hash of idem_id; zero without one */
    uint64_t body_print;                /* of all leaves: tells equal bodies while in flight */
    uint64_t checked_seq;               /* none of its ids is in the journal up to here */

    uint64_t now_ms;
    uint64_t seq_first; /* of a CANCEL: the seq of the entry that will follow it */
    /* LOOK_UP: the smallest seq above checked_seq where one of its keys was found. If the journal
     * has it not there (two ids of one hash), checked_seq = found_seq is true. Tombstones are found
     * at the seq of the entry that follows them. 0: checked_seq is too old; look the ids up in the
     * index again. */
    uint64_t found_seq;

    struct ron_tree_hash root; /* at the last entry; when refused: the head */
    uint64_t seq_last;         /* of a CANCEL: seq_first - 1 */
    uint64_t commit_ms;        /* when COMMITTED or CANCELLED: time of the frame */

    struct led_work *next; /* in a list of its holder */

    /* The caller. */
    void (*done)(struct led_work *w); /* answers and takes the work back */
    void *reply;                      /* of http or wire; NULL for the ledger's own */
    struct ron_trace_ctx trace;
    void *service;                /* that runs the pipeline */
    char corr_id[65];             /* as long as a front takes, and NUL */
    struct ron_deadline deadline; /* of the request */
    uint64_t received_ns;
    uint64_t preval_ns; /* when prevalidation began; 0: not yet, or it is over */
    uint64_t sequenced_ns;

    struct led_refusals refusals; /* when refused; last, because it is large (pool.c) */
};

#define LED_WORK_MAGIC UINT32_C(0x4b574c52)

/* Messages of a channel as works: checks each of them. */
struct led_work **led_works_of(void **items, size_t count);
/* Fills in one refusal (idx 0) and the result; the caller still hands the work to done. */
void led_work_refuse(struct led_work *w, enum led_reason reason, const char *member,
                     const char *detail);
/* The same with a refusal that names its entry. */
void led_work_refuse_with(struct led_work *w, const struct led_refusal *refusal);
/* Ends the work: answers the caller, who takes it back. The outcome must be filled in. */
void led_work_done(struct led_work *w);
