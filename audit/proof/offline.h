/* SPDX-License-Identifier: Apache-2.0 */
/* audit/proof/offline.h - a receipt checked without a journal: that an entry is in a ledger whose
 * checkpoint was signed (docs/formats/ledger-proofs.md).
 *
 * Place: audit. What must hold, else a finding of rule `receipt` or `signature`:
 *   the receipt has its form; the entry is one, and the same as in the receipt if that has it; the
 *   key that was given signed the checkpoint and its name is the origin; every witness that was
 *   given did; the proof leads from the entry at its index to the signed root.
 *
 * The entry is given as its canonical bytes or as the JSON that the ledger gives, alone or as the
 * member `entry`; members that are no part of an entry are left aside.
 *
 * Threads: one; blocks. Failure: RON_INVALID for JSON that is no entry, what reading gives. */
#pragma once

#include "audit/base/find.h"
#include "audit/journal/entry.h"
#include "audit/proof/note.h"
#include "ron/base/buf.h"

struct aud_offline_options {
    const struct ron_env *env;
    const char *receipt;
    const char *entry;          /* NULL: the one in the receipt */
    const struct aud_vkey *key; /* NULL: a finding, unless the next is set */
    bool unsigned_;             /* the arithmetic alone is wanted: no signature is checked */
    const struct aud_vkey *witnesses;
    size_t witness_count;
};

struct aud_offline {
    struct ron_buf receipt_bytes;
    struct ron_buf leaf; /* canonical bytes */
    uint64_t seq;
    uint64_t size; /* of the tree of the checkpoint */
    char origin[AUD_VKEY_NAME_MAX + 1];
    struct aud_hash root;
    bool has_entry;
    struct aud_entry entry;                 /* slices of `leaf` */
    bool signed_;                           /* by the key that was given */
    uint64_t cosigned_s[AUD_WITNESSES_MAX]; /* 0: not */
    struct aud_findings findings;
};

/* As with aud_run: `o` zeroed by the caller, and always given to aud_offline_done. */
RON_MUST_USE enum ron_rc aud_offline_check(const struct aud_offline_options *opts,
                                           struct aud_offline *o, struct ron_err *err);
void aud_offline_done(struct aud_offline *o);

/* Appends the canonical bytes of an entry in JSON; `text` is changed in place. */
RON_MUST_USE enum ron_rc aud_entry_from_json(char *text, size_t len, struct ron_buf *out,
                                             struct ron_err *err);
