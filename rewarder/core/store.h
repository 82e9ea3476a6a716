/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/store.h - what the rewarder keeps: keys, book, sealed inputs, artifacts and the run
 * registry.
 *
 * In amnesia mode the book is in memory, and the artifacts are on a disk in memory.
 *
 * Threads: any that may block; the members do not change after the build. */
#pragma once

#include "rewarder/book/book.h"
#include "rewarder/core/core.h"
#include "ron/cas/cas.h"
#include "ron/io/memdisk.h"

enum {
    RWD_RUNS_MAX = 1024, /* in the registry: a manifest each, some 2 KiB */
    RWD_POLICY_KEYS_MAX = 64,
};

struct rwd_store {
    struct rwd_core *core;
    const struct ron_env
        *disk_env; /* of artifacts: that of the process, or of the disk in memory */
    struct ron_memdisk *memdisk;
    char artifact_dir[1024];
    struct rwd_policy_key policy_keys[RWD_POLICY_KEYS_MAX];
    uint32_t policy_key_count;
    struct rwd_attester attester;
    struct rwd_book *book;
    struct ron_cas *inputs;
    struct rwd_runs *runs;
    struct ron_need *need_quarantine;
};

/* Opens all of it and loads the policies. Blocking. After a failure rwd_store_close still has to be
 * called. */
RON_MUST_USE enum ron_rc rwd_store_open(struct rwd_store *st, struct rwd_core *core,
                                        struct ron_err *err);
void rwd_store_close(struct rwd_store *st);

/* A row of rewarder.policy_keys; the error names the setting. */
RON_MUST_USE enum ron_rc rwd_policy_key_parse(const struct ron_conf_str *text,
                                              struct rwd_policy_key *ret, struct ron_err *err);
/* Reads policies of rewarder.policy_dir into the book; mistakes are logged. Blocking. */
void rwd_policies_load(struct rwd_store *st);
/* A policy that is known, as a document; RON_NOTFOUND. Blocking. */
RON_MUST_USE enum ron_rc rwd_policy_known(struct rwd_store *st, struct ron_str id,
                                          const struct ron_b3 *hash,
                                          struct rwd_policy_doc **ret_doc, struct ron_err *err);
/* run.json of an epoch, or of a quarantined run without a result, as it was written, appended to
 * `out`. Blocking. */
RON_MUST_USE enum ron_rc rwd_manifest_text(const struct rwd_store *st, struct ron_str epoch,
                                           bool quarantined, struct ron_buf *out,
                                           struct ron_err *err);
/* Stores the canonical bytes of a snapshot under its id. Blocking. */
RON_MUST_USE enum ron_rc rwd_inputs_seal(struct rwd_store *st, const struct rwd_snapshot *snapshot,
                                         struct ron_err *err);
/* Updates the readiness cause `quarantine` from the book. Blocking. */
void rwd_look_at_quarantine(struct rwd_store *st);
