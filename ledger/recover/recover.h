/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/recover.h - from what lies in the data directory to a ledger that can go on.
 *
 *     log/         the truth                         log/log.h
 *     index/       derived: ids, skip points, image  index/index.h
 *     tree         derived: stored hashes            index/hashes.h
 *     checkpoint   the last signed checkpoint that was published: the log must contain it
 *     safe-mode    marker: why writes are stopped; survives a restart
 *     import-unfinished   marker: what is here is a part of a ledger; nothing is opened
 *
 * Steps: open the index, load the image of the book, replay the log from there (each entry through
 * the book, each link compared, each root recomputed), bring the stored hashes and the index up to
 * its end, and look whether the published checkpoint is in it. Derived files that do not fit the
 * log are thrown away and made anew, which takes a replay from the first entry on.
 *
 * Invariants:
 *   R1. The result depends on the log alone: with the derived files, without them, or with old
 *       ones, book digest and root are the same.
 *   R2. Damage never passes: either everything from the image on was checked, or the report names
 *       the damage, and the state is that of the last good frame, good for reading.
 *   R3. Nothing of the truth is changed but the zeroing of a torn tail (log/log.h L5).
 *
 * Whoever makes images must sync the stored hashes (led_hashes_sync) before the commit that
 * completes an image: the replay begins there.
 *
 * Threads: blocks; one caller. Used at the start, by `ron ledger rebuild|verify`, and to leave safe
 * mode, where it makes a second state beside the present one. */
#pragma once

#include "ledger/index/hashes.h"
#include "ledger/index/index.h"
#include "ledger/pipeline/commit.h"
#include "ledger/pipeline/seq.h"
#include "ledger/recover/mark.h"

struct led_recover_opts {
    const struct ron_env *env;
    const char *dir;      /* data directory, made 0700 when absent; "" with a memory env */
    bool index_in_memory; /* amnesia: no index on disk */
    bool rebuild;         /* throw the derived files away first */
    bool verify_all;      /* replay from seq 1, whatever the image says */
    bool read_only; /* nothing on the disk changes, also no derived file; no committer comes out,
                     * the index is an empty one in memory, and all is replayed */
    bool parallel;  /* a second thread decodes and hashes ahead */
    uint64_t segment_bytes;
    uint64_t free_floor_bytes;
    bool torn_is_damage;
    const uint8_t *uuid;       /* of a log that is made now; NULL: a new one */
    struct led_book_opts book; /* hash_key is filled in from the index */
    struct led_seq_opts seq;   /* own_work, arg, kept_max, recent_keys */
    void (*progress)(void *arg, uint64_t seq, uint64_t last_seq_guess);
    void *progress_arg;
};

struct led_recovered {
    struct led_log *log;
    struct led_index *index;
    struct led_hashes *hashes; /* the store of the tree; NULL when read_only finds none */
    struct led_commit *commit; /* NULL when read_only */
    struct led_seq *seq;       /* owns the book */
    uint8_t hash_key[16];      /* of index and book */
    uint64_t indexed_seq;      /* what the index holds */
    uint64_t image_seq;        /* of the image that it began with, 0: none */
    struct led_log_report report;
    uint64_t replayed; /* entries that went through the book */
    uint64_t took_ms;
    bool rebuilt;         /* derived files were thrown away */
    struct led_mark mark; /* of safe mode, from before */
};

/* RON_OK also with damage (look at report.damage); a log that lacks the published checkpoint is
 * damaged too. RON_NOTFOUND: read_only, and there is no log. RON_AGAIN: another process has it.
 * RON_CONFLICT: an import did not finish. RON_LIMIT, RON_NOMEM, RON_IO, RON_DENIED as the ports
 * say. */
RON_MUST_USE enum ron_rc led_recover(const struct led_recover_opts *opts, struct led_recovered *ret,
                                     struct ron_err *err);
void led_recovered_done(struct led_recovered *r); /* frees all of it */
