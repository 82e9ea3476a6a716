/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/recall.h - which nonces were used before an image of the book was made, read from
 * the log.
 *
 * Place: ledger, under led_recover. An image holds balances, whose number is that of the accounts;
 * used nonces are as many as entries came within the horizon. Copying them into each image would
 * cost every entry again and again; the log has them once, and a start reads it from the horizon up
 * to the image.
 *
 * Invariant:
 *   O1. Afterwards the book knows every pair (account, nonce) of the entries up to the image whose
 *       `ts` lies within the horizon of the image, as if it had applied them.
 *
 * Threads: one that may block; `parallel` starts one of its own, which reads the first half. */
#pragma once

#include "ledger/book/book.h"
#include "ledger/log/log.h"

struct led_recall_opts {
    struct led_log *log;
    struct led_book *book; /* just loaded from an image */
    uint8_t hash_key[16];
    bool parallel;
    uint64_t last_seq_guess;                                            /* for progress */
    void (*progress)(void *arg, uint64_t seq, uint64_t last_seq_guess); /* or NULL */
    void *progress_arg;
};

/* RON_CORRUPT: the log is damaged or does not fit the image; RON_NOMEM, RON_IO, whatever the log
 * says. */
RON_MUST_USE enum ron_rc led_recall(const struct led_recall_opts *opts, struct ron_err *err);
