/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/export.h - the journal as a stream of text: NDJSON, or a journal for hledger, ledger
 * and beancount. Formats: docs/formats/ledger-export.md.
 *
 * Place: ledger, over the reader; plain code that blocks, pulled piece by piece, so that a slow
 * receiver costs nothing but its own time.
 *
 * Invariants:
 *   P1. What was committed when the export began is exported, in the order of the journal; what is
 *       committed later is not.
 *   P2. NDJSON holds everything that import needs for the same root, tombstones included. Its last
 *       line is missing when the export was cut.
 *   P3. In the other formats every transaction balances, balances are those of the book, and every
 *       name can be turned back into ours.
 *   P4. Memory is bounded: a gathered piece of the log, and one entry beyond a piece of text.
 *
 * Failure: as reader.h says; an export that failed once gives the same answer for ever. */
#pragma once

#include "ledger/read/reader.h"

enum led_export_format {
    LED_EXPORT_NDJSON,
    LED_EXPORT_HLEDGER, /* also for ledger */
    LED_EXPORT_BEANCOUNT,
};

enum { LED_EXPORT_PIECE = 64 << 10 }; /* the chunk of a stream */

struct led_export;

struct led_export_opts {
    struct led_reader *reader; /* borrowed, for this export alone; its head says how far */
    enum led_export_format format;
    uint64_t from_seq; /* whole batches that begin in the range; 0: from the first entry on */
    uint64_t to_seq;   /* 0: to the head */
};

/* "ndjson", "hledger", "ledger", "beancount"; false for another name. */
bool led_export_format_parse(struct ron_str name, enum led_export_format *ret_format);
const char *led_export_content_type(enum led_export_format format);

/* RON_NOTFOUND: the range ends beyond the head. RON_INVALID: it ends before it begins. */
RON_MUST_USE enum ron_rc led_export_new(const struct led_export_opts *opts,
                                        struct led_export **ret_export, struct ron_err *err);
void led_export_free(struct led_export *ex); /* NULL is fine */

/* Fills up to `size` bytes; 0 at the end. */
RON_MUST_USE enum ron_rc led_export_next(struct led_export *ex, void *piece, size_t size,
                                         size_t *ret_len, struct ron_err *err);
/* The last entry that was taken from the log, and the one that will be. */
void led_export_at(const struct led_export *ex, uint64_t *ret_seq, uint64_t *ret_last_seq);

/* P3: our names as the others spell them. `held` names the account of what is held. */
enum ron_rc led_export_account(enum led_export_format format, struct ron_str account, bool held,
                               struct ron_buf *out);
enum ron_rc led_export_commodity(enum led_export_format format, struct ron_str asset,
                                 struct ron_buf *out);
