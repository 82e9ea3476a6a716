/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/run.c - a run computed and checked. */
#include "rewarder/run/run.h"

#include <stdio.h>
#include <string.h>

#include "rewarder/run/priv.h"
#include "ron/base/assert.h"

const char *rwd_phase_name(enum rwd_phase phase)
{
    static const char *const names[] = {
#define X(name, text) text,
        RWD_PHASES(X)
#undef X
    };

    RON_ASSERT(phase < RWD_PHASE_COUNT);
    return names[phase];
}

void rwd__phase(struct rwd_progress *p, enum rwd_phase phase, uint64_t rows)
{
    if (p != NULL) {
        ron_au64_store(&p->rows_done, phase == RWD_PHASE_SEALED ? rows : 0);
        ron_au64_store(&p->rows, rows);
        ron_au32_store(&p->phase, (uint32_t)phase);
    }
}

void rwd__breach(struct rwd_run *run, enum rwd_breach breach, const char *text)
{
    run->manifest.status = RWD_STATUS_QUARANTINED;
    run->manifest.breach = breach;
    (void)snprintf(run->breach_text, sizeof run->breach_text, "%s", text);
}

static void name_run(const struct rwd_run_opts *o, const struct rwd_snapshot *snapshot,
                     struct rwd_manifest *m)
{
    const struct rwd_policy *policy = o->policy;
    struct ron_str salt = o->salt;

    if (salt.len == 0) {
        salt = (struct ron_str){.ptr = RWD_SALT_DEFAULT, .len = sizeof RWD_SALT_DEFAULT - 1};
    }
    *m = (struct rwd_manifest){
        .epoch = o->epoch,
        .inputs_cid = snapshot->cid,
        .policy_id = policy->id,
        .policy_version = policy->version,
        .policy_hash = policy->hash,
        .policy_signed = policy->is_signed,
        .funding = policy->funding,
        .has_ledger = o->has_ledger,
        .carry_epoch = o->carry_epoch,
        .residual = policy->residual,
        .sink = policy->residual == RWD_RESIDUAL_SINK ? policy->sink : (struct ron_str){0},
    };
    if (o->has_ledger) {
        m->ledger_root = o->ledger_root;
        m->ledger_seq = o->ledger_seq;
    }
    if (o->carry_epoch.len > 0) {
        m->carry_commitment = o->carry_commitment;
        m->carry_in = o->carry_in;
    }
    rwd_run_key(salt, o->epoch, &policy->hash, &snapshot->cid, &m->run_key);
}

/* The result, and what its check says. */
static enum ron_rc calculate(const struct rwd_run_opts *o, const struct rwd_snapshot *snapshot,
                             struct rwd_run *run, struct ron_err *err)
{
    uint64_t rows = rwd_rows_count(snapshot->rows);
    struct ron_err why = {0};
    enum rwd_breach breach;
    struct rwd_calc_input input = {
        .rows = snapshot->rows,
        .policy = o->policy,
        .pool = snapshot->pool,
        .carry_in = run->manifest.carry_in,
        .produced_at_ms = snapshot->produced_at_ms,
        .parts = o->parts,
        .cancelled = o->progress == NULL ? NULL : &o->progress->cancelled,
        .done_rows = o->progress == NULL ? NULL : &o->progress->rows_done,
    };

    rwd__phase(o->progress, RWD_PHASE_COMPUTING, rows);
    RON_TRY(rwd_calc(&input, &run->result, err));
    run->manifest.totals = *rwd_result_totals(run->result);
    breach = rwd_result_breach(run->result);
    if (breach != RWD_BREACH_NONE) {
        rwd__breach(run, breach, "a sum or product does not fit 128 bits");
        return RON_OK;
    }
    rwd__phase(o->progress, RWD_PHASE_CHECKING, rows);
    breach = rwd_calc_check(&input, run->result, &why);
    if (breach != RWD_BREACH_NONE) {
        rwd__breach(run, breach, why.msg);
    }
    return RON_OK;
}

enum ron_rc rwd_run_compute(const struct rwd_run_opts *opts, const struct rwd_snapshot *snapshot,
                            struct rwd_run *ret_run, struct ron_err *err)
{
    struct rwd_run run = {.progress = opts->progress};

    if (!rwd_epoch_ok(opts->epoch)) {
        return ron_err_set(err, RON_INVALID, "an epoch has 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_EPOCH_MAX);
    }
    name_run(opts, snapshot, &run.manifest);
    RON_TRY(calculate(opts, snapshot, &run, err));
    *ret_run = run;
    return RON_OK;
}

void rwd_run_done(struct rwd_run *run)
{
    rwd_result_free(run->result);
    run->result = NULL;
}
