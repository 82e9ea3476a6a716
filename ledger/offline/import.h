/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/offline/import.h - an NDJSON export, line by line, turned back into works.
 *
 * Place: ledger; pure: who drives it (service, command line) gives the works to the sequencer. For
 * the same root that driver
 *   - starts with an empty ledger,
 *   - gives each work to the sequencer in a window of its own with now_ms = w->now_ms, because a
 *     window is sorted and time decides about expiries,
 *   - has no `own_work`: expiries are in the file,
 *   - gives a work that reverses something to led_read_originals first,
 *   - ends with LED_IMPORT_END and compares the ledger's root with led_import_end.
 *
 * Invariants:
 *   I1. The lines are those of one whole export: a head from seq 1 on, batches and tombstones with
 *       seqs that follow each other, an end whose numbers agree. Anything else is RON_INVALID with
 *       the number of the line, and the import is over.
 *   I2. A work owns what it needs: its texts lie in its arena.
 *   I3. A line has at most LED_IMPORT_LINE_MAX bytes.
 *
 * Threads: one at a time. */
#pragma once

#include "ledger/work/work.h"

enum {
    /* A batch fits a request of 1 MiB; as JSON it is up to four times longer, and twice that when
     * every byte of its texts needs an escape. */
    LED_IMPORT_LINE_MAX = 16 << 20,
};

enum led_import_step {
    LED_IMPORT_MORE, /* the head, which makes no work; or no whole line was there */
    LED_IMPORT_WORK, /* *w is filled in */
    LED_IMPORT_END,  /* the last line was read */
};

struct led_import;

struct led_import_end {
    uint64_t seq_last;
    struct ron_tree_hash root;
    uint64_t batches;
    uint64_t entries;
    uint64_t cancels;
};

RON_MUST_USE enum ron_rc led_import_new(const uint8_t hash_key[16], struct led_import **ret_import);
void led_import_free(struct led_import *imp); /* NULL is fine */

/* Bytes of the file, in any pieces. RON_LIMIT: I3. */
RON_MUST_USE enum ron_rc led_import_push(struct led_import *imp, const void *bytes, size_t len,
                                         struct ron_err *err);

/* Bytes of arena that the work of the next line needs; 0 when no whole line is there: push more, or
 * the file was cut. */
size_t led_import_arena_size(const struct led_import *imp);
/* The next line. `w` is zero but for its arena, which has led_import_arena_size of room; kind,
 * flags, batch, leaves, hashes, preps, links, idem and now_ms are filled in. */
RON_MUST_USE enum ron_rc led_import_next(struct led_import *imp, struct led_work *w,
                                         enum led_import_step *ret_step, struct ron_err *err);

/* What the file said at its end. RON_NOTFOUND before LED_IMPORT_END. */
RON_MUST_USE enum ron_rc led_import_end(const struct led_import *imp, struct led_import_end *ret,
                                        struct ron_err *err);
