/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/receipt.h - a receipt that proves offline that an entry is in the ledger (C2SP
 * tlog-proof).
 *
 *     c2sp.org/tlog-proof@v1
 *     extra BASE64                    optional; not authenticated by itself
 *     index N
 *     base64 of a hash                one line for each hash of the inclusion proof
 *     (an empty line)
 *     the signed checkpoint
 *
 * The ledger puts the entry's bytes into `extra`, so that the receipt stands for itself: a verifier
 * hashes them, and the proof shows that exactly those bytes are the leaf.
 *
 * R1. A receipt that verifies shows: these leaf bytes are entry N of the log with that origin, at a
 *     size that the log (and as many witnesses as were asked for) signed.
 * R2. The number of hashes is the one that index and size demand; more or fewer fail.
 *
 * Pure; what is read points into the input. RON_CORRUPT: no receipt. RON_LIMIT: above a maximum.
 * RON_DENIED: well formed, and not to be believed. */
#pragma once

#include "ledger/proof/checkpoint.h"
#include "ron/merkle/tree.h"

enum {
    LED_RECEIPT_EXTRA_MAX = 65535,
    /* Note, extra in base64, 64 hashes, and the lines around them. */
    LED_RECEIPT_BYTES_MAX = 524288,
};

struct led_receipt {
    struct ron_str extra; /* base64 as it stands, or empty */
    uint64_t index;
    struct ron_proof proof;
    struct ron_str checkpoint; /* the signed note */
};

/* Writes a receipt. `extra` may be empty. The checkpoint is a signed note; RON_INVALID when it is
 * none. */
RON_MUST_USE enum ron_rc led_receipt_write(struct ron_str extra, uint64_t index,
                                           const struct ron_proof *proof, struct ron_str checkpoint,
                                           struct ron_buf *out, struct ron_err *err);

/* Reads the form, that of the checkpoint included. Nothing is verified. */
RON_MUST_USE enum ron_rc led_receipt_read(struct ron_str bytes, struct led_receipt *ret_receipt,
                                          struct ron_err *err);

/* Appends the decoded extra bytes. RON_NOTFOUND when there are none. */
RON_MUST_USE enum ron_rc led_receipt_extra(const struct led_receipt *receipt, struct ron_buf *out,
                                           struct ron_err *err);

/* Checks all of R1 for the given leaf bytes; ret_checkpoint, unless NULL, receives what was
 * signed. */
RON_MUST_USE enum ron_rc led_receipt_verify(const struct led_receipt *receipt, struct ron_str leaf,
                                            const struct led_trust *trust,
                                            struct led_checkpoint *ret_checkpoint,
                                            struct ron_err *err);
