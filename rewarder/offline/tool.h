/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/tool.h - what `ron reward` does from files, without a service: compute a run,
 * verify a published one, make and check proofs, sign and show policies.
 *
 * Place: rewarder, for the program. Inputs come through a function, so that a pipe is as good as a
 * file; gzip and zstd are known by their first bytes and unpacked. Everything blocks. Results are
 * texts for people, appended to `out`; documents are written as they are kept.
 *
 * Failure: `err` has a sentence that names the file, and the row and field where there is one.
 * RON_CONFLICT: different (verify). RON_INVALID: an option or a file is not well formed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"

/* Up to `size` bytes, 0 at the end. */
typedef enum ron_rc rwd_tool_read_fn(void *arg, void *bytes, size_t size, size_t *ret_len,
                                     struct ron_err *err);
struct rwd_tool_in {
    const char *name; /* for messages */
    rwd_tool_read_fn *read;
    void *arg;
};
typedef enum ron_rc rwd_tool_write_fn(void *arg, const void *bytes, size_t len,
                                      struct ron_err *err);

/* Told now and then by the calling thread how far the work is. `rows` 0: not known yet. */
struct rwd_tool_watch {
    void (*show)(void *arg, const char *phase, uint64_t done, uint64_t rows);
    void *arg;
};

struct rwd_tool_run {
    struct rwd_tool_in snapshot;
    struct rwd_tool_in policy;
    const char *policy_key; /* "ID=HEX": the public key a signed policy must be of; or NULL */
    const char *salt;       /* NULL: the usual one */
    const char *carry_run;  /* folder of the run whose residual is carried in; or NULL */
    uint32_t parts;
    const struct rwd_tool_watch *watch; /* NULL: nobody looks on */
    /* compute */
    const char *epoch;
    const char *out_dir;     /* of all runs; made when missing. NULL: a dry run */
    const char *ledger_root; /* 64 digits, or NULL */
    uint64_t ledger_seq;
    const char *key_file; /* signs the commitment; or NULL */
    /* verify */
    const char *run_dir;    /* folder of the run */
    const char *public_key; /* 64 digits, or NULL */
};

/* `ret_good` false: the run is in quarantine, and `out` says why. */
RON_MUST_USE enum ron_rc rwd_tool_compute(const struct rwd_tool_run *r, struct ron_buf *out,
                                          bool *ret_good, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_tool_verify(const struct rwd_tool_run *r, struct ron_buf *out,
                                         struct ron_err *err);

/* The proof of a payee as JSON. RON_NOTFOUND: not paid in this run. */
RON_MUST_USE enum ron_rc rwd_tool_prove(const char *run_dir, const char *account,
                                        struct ron_buf *out, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_tool_check_proof(const struct rwd_tool_in *in, const char *public_key,
                                              struct ron_buf *out, struct ron_err *err);

/* A new key file; `out` is its public key. RON_EXISTS: a file is never replaced. */
RON_MUST_USE enum ron_rc rwd_tool_key_new(const char *path, const char *key_id, struct ron_buf *out,
                                          struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_tool_key_show(const char *path, struct ron_buf *out,
                                           struct ron_err *err);
/* The signed document. `key_id` NULL: the name in the key file. */
RON_MUST_USE enum ron_rc rwd_tool_policy_sign(const struct rwd_tool_in *in, const char *key_file,
                                              const char *key_id, struct ron_buf *out,
                                              struct ron_err *err);
/* Hash and members, also of a document that is signed by a key that nobody gave. */
RON_MUST_USE enum ron_rc rwd_tool_policy_show(const struct rwd_tool_in *in, const char *policy_key,
                                              struct ron_buf *out, struct ron_err *err);
/* The canonical form to `write`; `out` is the content id. */
RON_MUST_USE enum ron_rc rwd_tool_snapshot(const struct rwd_tool_in *in, rwd_tool_write_fn *write,
                                           void *arg, struct ron_buf *out, struct ron_err *err);
