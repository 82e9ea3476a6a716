/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/run.h - a whole run as plain steps, and the check of a published one. What the
 * service's workers and writer do, and what `ron reward compute` and `ron reward verify` do from
 * files.
 *
 *     snapshot + policy (+ carried sum) --calc, check--> result --write--> folder with
 *     run.json, commitment, payouts.ndjson, payouts.index, payouts.tree [, openzeppelin.json]
 *
 * The folder of an epoch (rew_epoch_folder below the folder of all runs) appears whole (written
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
#define REW_PHASES(X)                                                                              \
    X(QUEUED, "queued")                                                                            \
    X(READING, "reading")                                                                          \
    X(COMPUTING, "computing")                                                                      \
    X(CHECKING, "checking")                                                                        \
    X(WRITING, "writing")                                                                          \
    X(SEALED, "sealed")
enum rew_phase {
#define X(name, text) REW_PHASE_##name,
    REW_PHASES(X)
#undef X
        REW_PHASE_COUNT
};
const char *rew_phase_name(enum rew_phase phase);

struct rew_progress {
    struct ron_au32 phase;
    struct ron_au64 rows_done; /* of this phase */
    struct ron_au64 rows;      /* 0: not known yet */
    struct ron_au32 cancelled;
};

/* Everything that names the run but its payouts. Slices and the policy outlive the run. */
struct rew_run_opts {
    struct ron_str epoch;
    struct ron_str salt; /* empty: REW_SALT_DEFAULT */
    const struct rew_policy *policy;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    struct ron_str carry_epoch; /* empty: nothing is carried in */
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
    uint32_t parts;
    struct rew_progress *progress; /* may be NULL */
};

struct rew_run {
    struct rew_manifest manifest; /* without payouts and commitment until written */
    struct rew_result *result;
    struct rew_progress *progress;      /* of the options */
    char breach_text[RON_ERR_MSG_SIZE]; /* a sentence when the run is quarantined */
};

/* Calculates and checks. A breach is a run all the same: manifest.status tells. RON_CANCELLED,
 * RON_NOMEM, RON_INVALID (a bad epoch). The snapshot outlives the run. */
RON_MUST_USE enum ron_rc rew_run_compute(const struct rew_run_opts *opts,
                                         const struct rew_snapshot *snapshot,
                                         struct rew_run *ret_run, struct ron_err *err);
void rew_run_done(struct rew_run *run);

/* ---- writing --------------------------------------------------------------------------------- */

struct rew_attester {
    char key_id[REW_KEY_ID_MAX + 1];
    uint8_t seed[REW_SIGN_KEY_BYTES];
};
struct rew_write_opts {
    const struct ron_env *env;
    const char *dir;                     /* of all runs, there already; NULL: nothing is written */
    const struct rew_attester *attester; /* NULL: no attestation */
    /* Adds files to the folder before it appears (public trees); may be NULL. */
    enum ron_rc (*more)(void *arg, const struct rew_run *run, const char *dir, struct ron_err *err);
    void *more_arg;
};
/* Names the payouts, commits, attests and writes. When the run is there already it is kept as it
 * is, and the manifest takes over its attestation; another run of the epoch is RON_EXISTS. */
RON_MUST_USE enum ron_rc rew_run_write(struct rew_run *run, const struct rew_write_opts *opts,
                                       struct ron_err *err);

/* The files of a folder; `ret_path` of RON_FILE_PATH_SIZE. */
#define REW_FILE_MANIFEST "run.json"
#define REW_FILE_COMMITMENT "commitment"
/* The folder of an epoch, or with `quarantined` the file that tells why it has none. */
RON_MUST_USE enum ron_rc rew_run_path(const char *dir, struct ron_str epoch, bool quarantined,
                                      char *ret_path, struct ron_err *err);
/* Reads run.json of a folder into `text` (emptied before; its memory lives as long as the slices
 * of the manifest). RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rew_run_load(const struct ron_env *env, const char *folder,
                                      struct ron_buf *text, struct rew_manifest *ret_manifest,
                                      struct ron_err *err);
/* Removes the folder of an epoch and what is left of unfinished ones; none is RON_OK. */
RON_MUST_USE enum ron_rc rew_run_remove(const struct ron_env *env, const char *dir,
                                        struct ron_str epoch, struct ron_err *err);

/* ---- verify ---------------------------------------------------------------------------------- */

struct rew_verify_opts {
    const struct ron_env *env;
    const char *folder; /* of the epoch */
    const struct rew_snapshot *snapshot;
    const struct rew_policy *policy;
    struct ron_str salt;              /* empty: REW_SALT_DEFAULT */
    const struct rew_manifest *carry; /* the run carried in; NULL: as the manifest says */
    const uint8_t *public_key;        /* 32 bytes; NULL: whatever the manifest names, if it does */
    uint32_t parts;
    struct rew_progress *progress; /* may be NULL */
};
/* Computes anew and compares every file byte by byte. RON_OK: the run is right. RON_CONFLICT with
 * a sentence that names the first difference; RON_INVALID, RON_CORRUPT for a run.json that is no
 * manifest; RON_NOTFOUND. Slices of the manifest point into `text`. */
RON_MUST_USE enum ron_rc rew_verify(const struct rew_verify_opts *opts, struct ron_buf *text,
                                    struct rew_manifest *ret_manifest, struct ron_err *err);
