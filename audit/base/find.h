/* SPDX-License-Identifier: Apache-2.0 */
/* audit/base/find.h - what an audit found: which rule of the journal is broken, where, and how.
 *
 * Place: audit; known to every check. A finding is a value, never an error code: the audit goes on
 * after it where that makes sense. The first AUD_FINDINGS_MAX are kept, all are counted. Texts come
 * from the journal, so they are cut and made printable.
 *
 * Threads: one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"

/* X(NAME, name in reports, the rule). Names are stable: scripts look at them. */
#define AUD_RULE_TABLE(X)                                                                          \
    X(SEGMENT, "segment", "heads, names, sizes and order of the segment files")                    \
    X(FRAME, "frame", "a frame's form and checksums")                                              \
    X(TAIL, "tail", "nothing but zeros follows the last frame")                                    \
    X(UUID, "uuid", "all of the journal is of one ledger")                                         \
    X(EPOCH, "epoch", "the epoch never falls")                                                     \
    X(SEQ, "seq", "entries are numbered from 1 without a gap")                                     \
    X(PREV_ROOT, "prev_root", "a frame goes on from the root before it")                           \
    X(ROOT, "root", "the root of the RFC 6962 tree over all entries")                              \
    X(RECORD, "record", "a record's form; nothing but records in a frame")                         \
    X(ENTRY, "entry", "an entry has its canonical bytes and obeys the rules of its members")       \
    X(TIME, "time", "ts lies within the horizon and at most 5 s ahead")                            \
    X(ID, "id", "no id stands twice in the journal")                                               \
    X(IDEM_ID, "idem_id", "no idem_id stands twice in the journal")                                \
    X(NONCE, "nonce", "an account uses a nonce once within the horizon")                           \
    X(ACCOUNT_NONCE, "account_nonce", "account_nonce grows by exactly 1")                          \
    X(FUNDS, "funds", "no balance falls below zero")                                               \
    X(OVERFLOW, "overflow", "no balance, sum or supply passes 2^128 - 1")                          \
    X(SUMS, "sums", "credits and debits of an asset are equal within a batch")                     \
    X(HOLD, "hold", "Capture, Release and Expire take from an open hold, within what remains")     \
    X(HOLD_TIME, "hold_time", "after its time a hold can only expire, and not before")             \
    X(OWN, "own", "Expire and its names are the ledger's own")                                     \
    X(REVERSE, "reverse", "a Reverse undoes an earlier entry, within what is left of it")          \
    X(LINK_SEQ, "link_seq", "links name the entry that touched the account before")                \
    X(LINK_BALANCE, "link_balance", "links tell the balances after the entry")                     \
    X(SUPPLY, "supply", "supply = mint - burn = sum of all balances")                              \
    X(HELD, "held", "what is held is the sum of the open holds")                                   \
    X(CHECKPOINT, "checkpoint", "a published checkpoint is in the journal")                        \
    X(SIGNATURE, "signature", "a checkpoint is signed by the key that was given")                  \
    X(RECEIPT, "receipt", "a receipt's proof leads from the entry to the signed root")

enum aud_rule {
#define X(name, text, doc) AUD_RULE_##name,
    AUD_RULE_TABLE(X)
#undef X
        AUD_RULE_COUNT,
};

enum {
    AUD_FINDINGS_MAX = 100, /* more than anybody reads; the count goes on */
    AUD_FILE_SIZE = 64,     /* a segment is named by 20 digits */
    AUD_SAY_SIZE = 200,     /* an id, an amount and a few words */
};

/* Where in the journal. */
struct aud_place {
    const char *file;
    uint64_t offset;
    uint64_t seq; /* 0: no entry */
};

struct aud_finding {
    enum aud_rule rule;
    char file[AUD_FILE_SIZE];
    uint64_t offset;
    uint64_t seq;
    char expected[AUD_SAY_SIZE];
    char found[AUD_SAY_SIZE];
};

struct aud_findings {
    struct aud_finding items[AUD_FINDINGS_MAX];
    size_t kept;
    uint64_t total;
    uint64_t from_seq;          /* findings of earlier entries do not count */
    struct aud_finding _beyond; /* what is written beyond the maximum */
};

const char *aud_rule_name(enum aud_rule rule);
const char *aud_rule_doc(enum aud_rule rule);

/* Adds a finding; the caller fills in `expected` and `found` with aud_say. Never NULL. */
struct aud_finding *aud_find(struct aud_findings *all, enum aud_rule rule,
                             const struct aud_place *place);
/* A text of AUD_SAY_SIZE bytes: cut, and what is not printable ASCII becomes '?'. */
void aud_say(char *to, const char *fmt, ...) RON_PRINTF(2, 3);
/* Orders by seq, then by place: some findings are known late. */
void aud_findings_sort(struct aud_findings *all);
