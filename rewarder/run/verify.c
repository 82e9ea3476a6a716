/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/verify.c - a published run computed anew and compared byte by byte.
 *
 * What the manifest says of its origins (epoch, ledger, carried sum) is taken from it, because no
 * input tells them; policy, snapshot and everything that follows from them is computed. */
#include <inttypes.h>
#include <string.h>

#include "rewarder/run/payouts_priv.h"
#include "rewarder/run/priv.h"

static enum ron_rc other_id(const char *what, const struct ron_b3 *is, const struct ron_b3 *said,
                            struct ron_err *err)
{
    char is_text[RON_B3_ID_SIZE];
    char said_text[RON_B3_ID_SIZE];

    ron_b3_format(is, is_text);
    ron_b3_format(said, said_text);
    return ron_err_set(err, RON_CONFLICT, "%s is %s, and the run says %s", what, is_text,
                       said_text);
}

static enum ron_rc same_inputs(const struct rwd_verify_opts *o, const struct rwd_manifest *m,
                               struct ron_err *err)
{
    const struct rwd_manifest *carry = o->carry;

    if (!ron_b3_equal(&o->snapshot->cid, &m->inputs_cid)) {
        return other_id("the snapshot", &o->snapshot->cid, &m->inputs_cid, err);
    }
    if (!ron_b3_equal(&o->policy->hash, &m->policy_hash)) {
        return other_id("the policy", &o->policy->hash, &m->policy_hash, err);
    }
    if (carry == NULL) {
        return RON_OK;
    }
    if (!ron_b3_equal(&carry->commitment, &m->carry_commitment)) {
        return other_id("the run carried in", &carry->commitment, &m->carry_commitment, err);
    }
    if (carry->residual != RWD_RESIDUAL_CARRY || carry->status != RWD_STATUS_OK ||
        ron_money_cmp(carry->totals.residual, m->carry_in) != 0) {
        return ron_err_set(err, RON_CONFLICT, "that sum is not left over by the run carried in");
    }
    return RON_OK;
}

static enum ron_rc same_attestation(const struct rwd_verify_opts *o, const struct rwd_manifest *m,
                                    struct ron_err *err)
{
    if (m->key_id[0] == '\0' && o->public_key == NULL) {
        return RON_OK;
    }
    if (m->key_id[0] == '\0') {
        return ron_err_set(err, RON_CONFLICT, "the run has no attestation");
    }
    return rwd_manifest_attested(m, o->public_key)
               ? RON_OK
               : ron_err_set(err, RON_CONFLICT, "the attestation of %s is not good%s", m->key_id,
                             o->public_key == NULL ? "" : ", or of another key");
}

/* ---- which member differs -------------------------------------------------------------------- */

static bool same_totals(const struct rwd_totals *a, const struct rwd_totals *b)
{
    return a->offered.v == b->offered.v && a->cut.v == b->cut.v && a->pool.v == b->pool.v &&
           a->paid.v == b->paid.v && a->residual.v == b->residual.v && a->dust.v == b->dust.v &&
           a->capped.v == b->capped.v && a->paid_accounts == b->paid_accounts &&
           a->idle_accounts == b->idle_accounts;
}

static const char *differing(const struct rwd_manifest *is, const struct rwd_manifest *said)
{
    return !ron_b3_equal(&is->run_key, &said->run_key)                ? "run_key (another salt?)"
           : is->status != said->status || is->breach != said->breach ? "status"
           : is->policy_signed != said->policy_signed                 ? "policy.signed"
           : !same_totals(&is->totals, &said->totals)                 ? "totals"
           : is->payouts.count != said->payouts.count                 ? "payouts.count"
           : !ron_b3_equal(&is->payouts.cid, &said->payouts.cid)      ? "payouts.cid"
           : !ron_tree_hash_equal(&is->payouts.root, &said->payouts.root) ? "payouts.root"
                                                                          : "policy or residual";
}

static enum ron_rc same_manifest(const struct rwd_manifest *is, const struct rwd_manifest *said,
                                 struct ron_err *err)
{
    /* Both commitments are right for their manifests: equal ones mean equal bytes, but for proof
     * and attestation, of which the first is a reference and the second was checked. */
    return ron_b3_equal(&is->commitment, &said->commitment)
               ? RON_OK
               : ron_err_set(err, RON_CONFLICT, RWD_FILE_MANIFEST ": %s differs",
                             differing(is, said));
}

static enum ron_rc same_commitment_file(const struct rwd_verify_opts *o,
                                        const struct rwd_manifest *m, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    char expected[RON_B3_ID_SIZE];
    char memory[2 * RON_B3_ID_SIZE];
    struct ron_buf text;
    enum ron_rc rc;

    RON_TRY(rwd__path(path, o->folder, RWD_FILE_COMMITMENT, err));
    ron_b3_format(&m->commitment, expected);
    expected[RON_B3_ID_LEN] = '\n';
    ron_buf_init_over(&text, memory, sizeof memory);
    rc = ron_file_read_all(o->env, path, &text, err);
    if (rc != RON_OK && rc != RON_LIMIT) {
        return rc;
    }
    return rc == RON_OK && ron_buf_len(&text) == sizeof expected &&
                   memcmp(ron_buf_data(&text), expected, sizeof expected) == 0
               ? RON_OK
               : ron_err_set(err, RON_CONFLICT, RWD_FILE_COMMITMENT " differs");
}

/* ---- the run --------------------------------------------------------------------------------- */

static enum ron_rc compare_run(const struct rwd_verify_opts *o, struct rwd_run *run,
                               const struct rwd_manifest *said, struct ron_err *err)
{
    struct rwd_progress *p = o->progress;
    struct rwd_payouts_sum sum;
    const struct rwd_payouts_opts opts = {.env = o->env,
                                          .dir = o->folder,
                                          .done_rows = p == NULL ? NULL : &p->rows_done,
                                          .cancelled = p == NULL ? NULL : &p->cancelled};

    if (run->manifest.status != RWD_STATUS_OK) {
        RON_TRY(rwd_manifest_commit(&run->manifest, err));
        return same_manifest(&run->manifest, said, err);
    }
    rwd__phase(p, RWD_PHASE_WRITING, run->manifest.totals.paid_accounts);
    RON_TRY(rwd_payouts_compare(&opts, run->result, &sum, err));
    RON_TRY(rwd__run_name(run, &sum, err));
    RON_TRY(same_manifest(&run->manifest, said, err));
    return same_commitment_file(o, said, err);
}

enum ron_rc rwd_verify(const struct rwd_verify_opts *opts, struct ron_buf *text,
                       struct rwd_manifest *ret_manifest, struct ron_err *err)
{
    struct rwd_manifest said;
    struct rwd_run run;
    enum ron_rc rc;

    RON_TRY(rwd_run_load(opts->env, opts->folder, text, &said, err));
    RON_TRY(same_inputs(opts, &said, err));
    RON_TRY(same_attestation(opts, &said, err));
    RON_TRY(rwd_run_compute(&(struct rwd_run_opts){.epoch = said.epoch,
                                                   .salt = opts->salt,
                                                   .policy = opts->policy,
                                                   .has_ledger = said.has_ledger,
                                                   .ledger_root = said.ledger_root,
                                                   .ledger_seq = said.ledger_seq,
                                                   .carry_epoch = said.carry_epoch,
                                                   .carry_commitment = said.carry_commitment,
                                                   .carry_in = said.carry_in,
                                                   .parts = opts->parts,
                                                   .progress = opts->progress},
                            opts->snapshot, &run, err));
    rc = compare_run(opts, &run, &said, err);
    rwd_run_done(&run);
    if (rc == RON_OK) {
        rwd__phase(opts->progress, RWD_PHASE_SEALED, said.payouts.count);
        *ret_manifest = said;
    }
    return rc;
}
