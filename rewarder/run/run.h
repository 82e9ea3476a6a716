/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/run.h - a whole run as plain steps, and the check of a published one. What the
 * service's workers and writer do, and what `ron reward compute` and `ron reward verify` do from
 * files.
 *
 *     snapshot + policy (+ carried sum) --calc, check--> result --write--> folder with
 *     run.json, commitment, payouts.ndjson, payouts.index, payouts.tree [, openzeppelin.json]
 *
 * The folder of an epoch (rwd_epoch_folder below the folder of all runs) appears whole (written
 * beside as <folder>.tmp, synced, renamed) or not at all, and never changes. A quarantined run has
 * no payouts: its manifest alone is <folder>.quarantined.json, which stays as evidence until the
 * next breach takes its place or the epoch is removed.
 *
 * Threads: blocking; one run belongs to one thread at a time. `progress` may be looked at from
 * any. */
#pragma once

#include "rewarder/input/snapshot.h"
#include "rewarder/run/manifest.h"

/* X(NAME, "name") what a run is at. */
#define RWD_PHASES(X)                                                                              \
    X(QUEUED, "queued")                                                                            \
    X(READING, "reading")                                                                          \
    X(COMPUTING, "computing")                                                                      \
    X(CHECKING, "checking")                                                                        \
    X(WRITING, "writing")                                                                          \
    X(SEALED, "sealed")
enum rwd_phase {
#define X(name, text) RWD_PHASE_##name,
    RWD_PHASES(X)
#undef X
        RWD_PHASE_COUNT
};
const char *rwd_phase_name(enum rwd_phase phase);

struct rwd_progress {
    struct ron_au32 phase;
    struct ron_au64 rows_done; /* of this phase */
    struct ron_au64 rows;      /* 0: not known yet */
    struct ron_au32 cancelled;
};

/* Everything that names the run but its payouts. Slices and the policy outlive the run. */
struct rwd_run_opts {
    struct ron_str epoch;
    struct ron_str salt; /* empty: RWD_SALT_DEFAULT */
    const struct rwd_policy *policy;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    struct ron_str carry_epoch; /* empty: nothing is carried in */
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
    uint32_t parts;
    struct rwd_progress *progress; /* may be NULL */
};

struct rwd_run {
    struct rwd_manifest manifest; /* without payouts and commitment until written */
    struct rwd_result *result;
    struct rwd_progress *progress;      /* of the options */
    char breach_text[RON_ERR_MSG_SIZE]; /* a sentence when the run is quarantined */
};

/* Calculates and checks. A breach is a run all the same: manifest.status tells. RON_CANCELLED,
 * RON_NOMEM, RON_INVALID (a bad epoch). The snapshot outlives the run. */
RON_MUST_USE enum ron_rc rwd_run_compute(const struct rwd_run_opts *opts,
                                         const struct rwd_snapshot *snapshot,
                                         struct rwd_run *ret_run, struct ron_err *err);
void rwd_run_done(struct rwd_run *run);

/* ---- writing --------------------------------------------------------------------------------- */

struct rwd_attester {
    char key_id[RWD_KEY_ID_MAX + 1];
    uint8_t seed[RWD_SIGN_KEY_BYTES];
};
struct rwd_write_opts {
    const struct ron_env *env;
    const char *dir;                     /* of all runs, there already; NULL: nothing is written */
    const struct rwd_attester *attester; /* NULL: no attestation */
    /* Adds files to the folder before it appears (public trees); may be NULL. */
    enum ron_rc (*more)(void *arg, const struct rwd_run *run, const char *dir, struct ron_err *err);
    void *more_arg;
};
/* Names the payouts, commits, attests and writes. When the run is there already it is kept as it
 * is, and the manifest takes over its attestation; another run of the epoch is RON_EXISTS. */
RON_MUST_USE enum ron_rc rwd_run_write(struct rwd_run *run, const struct rwd_write_opts *opts,
                                       struct ron_err *err);

/* The files of a folder; `ret_path` of RON_FILE_PATH_SIZE. */
#define RWD_FILE_MANIFEST "run.json"
#define RWD_FILE_COMMITMENT "commitment"
/* The folder of an epoch, or with `quarantined` the file that tells why it has none. */
RON_MUST_USE enum ron_rc rwd_run_path(const char *dir, struct ron_str epoch, bool quarantined,
                                      char *ret_path, struct ron_err *err);
/* Reads run.json of a folder into `text` (emptied before; its memory lives as long as the slices
 * of the manifest). RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rwd_run_load(const struct ron_env *env, const char *folder,
                                      struct ron_buf *text, struct rwd_manifest *ret_manifest,
                                      struct ron_err *err);
/* Removes the folder of an epoch and what is left of unfinished ones; none is RON_OK. */
RON_MUST_USE enum ron_rc rwd_run_remove(const struct ron_env *env, const char *dir,
                                        struct ron_str epoch, struct ron_err *err);

/* ---- verify ---------------------------------------------------------------------------------- */

struct rwd_verify_opts {
    const struct ron_env *env;
    const char *folder; /* of the epoch */
    const struct rwd_snapshot *snapshot;
    const struct rwd_policy *policy;
    struct ron_str salt;              /* empty: RWD_SALT_DEFAULT */
    const struct rwd_manifest *carry; /* the run carried in; NULL: as the manifest says */
    const uint8_t *public_key;        /* 32 bytes; NULL: whatever the manifest names, if it does */
    uint32_t parts;
    struct rwd_progress *progress; /* may be NULL */
};
/* Computes anew and compares every file byte by byte. RON_OK: the run is right. RON_CONFLICT with
 * a sentence that names the first difference; RON_INVALID, RON_CORRUPT for a run.json that is no
 * manifest; RON_NOTFOUND. Slices of the manifest point into `text`. */
RON_MUST_USE enum ron_rc rwd_verify(const struct rwd_verify_opts *opts, struct ron_buf *text,
                                    struct rwd_manifest *ret_manifest, struct ron_err *err);
