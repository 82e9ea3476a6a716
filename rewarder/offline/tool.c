/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/tool.c - `ron reward compute` and `ron reward verify`.
 *
 * With somebody looking on, the work runs on a thread of its own and the caller's thread shows,
 * ten times a second, how far it is: a run has no place of its own to call back from. */
#include <inttypes.h>

#include "rewarder/offline/priv.h"
#include "rewarder/run/manifest.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"

enum {
    SHOW_EVERY_MS = 100,
    STACK_BYTES = 1 << 20, /* reading JSON and several manifests on the way down */
    RUNS_MODE = 0750,
};

/* ---- telling --------------------------------------------------------------------------------- */

static void tell_money(struct ron_buf *out, const char *name, struct ron_money money,
                       const char *more)
{
    char text[RON_MONEY_TEXT_SIZE];

    (void)ron_money_format(money, text);
    ron_buf_append_fmt(out, "%-11s %s%s\n", name, text, more);
}

static void tell_id(struct ron_buf *out, const char *name, const struct ron_b3 *id)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(id, text);
    ron_buf_append_fmt(out, "%-11s %s\n", name, text);
}

static void tell_hash(struct ron_buf *out, const char *name, const uint8_t bytes[32])
{
    char text[RWD__HEX_SIZE];

    ron_hex(bytes, 32, text);
    ron_buf_append_fmt(out, "%-11s %s\n", name, text);
}

static void tell_totals(const struct rwd_manifest *m, struct ron_buf *out)
{
    static const char *const rules[] = {[RWD_RESIDUAL_UNISSUED] = " (stays unissued)",
                                        [RWD_RESIDUAL_SINK] = " (to the sink)",
                                        [RWD_RESIDUAL_CARRY] = " (to be carried)"};
    const struct rwd_totals *t = &m->totals;

    tell_money(out, "offered", t->offered, "");
    if (m->carry_epoch.len > 0) {
        tell_money(out, "  carried in", m->carry_in, "");
    }
    tell_money(out, "cut", t->cut, "");
    tell_money(out, "pool", t->pool, "");
    tell_money(out, "paid", t->paid, "");
    tell_money(out, "residual", t->residual, rules[m->residual]);
    tell_money(out, "  dust", t->dust, "");
    tell_money(out, "  capped", t->capped, "");
    ron_buf_append_fmt(out, "%-11s %" PRIu64 "\n%-11s %" PRIu64 "\n", "payees", t->paid_accounts,
                       "idle", t->idle_accounts);
}

void rwd__tool_tell(const struct rwd_manifest *m, struct ron_buf *out)
{
    bool ok = m->status == RWD_STATUS_OK;

    ron_buf_append_fmt(out, "%-11s %.*s\n", "epoch", (int)m->epoch.len, m->epoch.ptr);
    ron_buf_append_fmt(out, "%-11s %s%s\n", "status",
                       ok ? "ok" : "quarantined: ", ok ? "" : rwd_breach_label(m->breach));
    tell_totals(m, out);
    tell_id(out, "inputs", &m->inputs_cid);
    tell_id(out, "policy", &m->policy_hash);
    tell_id(out, "run key", &m->run_key);
    if (ok) {
        tell_id(out, "payouts", &m->payouts.cid);
        tell_hash(out, "root", m->payouts.root.bytes);
    }
    tell_id(out, "commitment", &m->commitment);
    if (m->key_id[0] != '\0') {
        ron_buf_append_fmt(out, "%-11s %s\n", "attested by", m->key_id);
        tell_hash(out, "public key", m->public_key);
    }
}

/* ---- work that is watched -------------------------------------------------------------------- */

struct work {
    const struct rwd_tool_run *r;
    enum ron_rc (*run)(struct work *w);
    struct rwd_progress progress;
    struct ron_buf *out;
    struct ron_err *err;
    bool good;
    enum ron_rc rc;
    struct ron_thread *watcher;
    struct ron_au32 ended;
};

static void work_main(void *arg)
{
    struct work *w = arg;

    w->rc = w->run(w);
    ron_au32_store(&w->ended, 1);
    ron_unpark(w->watcher);
}

static void show(struct work *w)
{
    const struct rwd_tool_watch *watch = w->r->watch;
    enum rwd_phase phase = (enum rwd_phase)ron_au32_load(&w->progress.phase);

    watch->show(watch->arg, rwd_phase_name(phase), ron_au64_load(&w->progress.rows_done),
                ron_au64_load(&w->progress.rows));
}

static enum ron_rc do_work(struct work *w)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_thread *thread = NULL;

    if (w->r->watch == NULL) {
        return w->run(w);
    }
    w->watcher = ron_thread_self();
    RON_TRY(ron_thread_start(&(struct ron_thread_opts){.name = "reward",
                                                       .may_block = true,
                                                       .stack_bytes = STACK_BYTES,
                                                       .main = work_main,
                                                       .arg = w},
                             &thread, w->err));
    while (ron_au32_load(&w->ended) == 0) {
        show(w);
        RON_IGNORE(ron_park_until(ron_deadline_after_ms(ron_env_now_ns(env), SHOW_EVERY_MS),
                                  "a run that is watched"));
    }
    ron_thread_join(thread);
    show(w);
    return w->rc;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

struct inputs {
    struct rwd_policy_doc *policy;
    struct rwd_snapshot snapshot;
    bool has_snapshot;
    struct rwd_manifest carry;
    struct ron_buf carry_text;
};

static void inputs_done(struct inputs *in)
{
    if (in->has_snapshot) {
        rwd_snapshot_done(&in->snapshot);
    }
    rwd_policy_free(in->policy);
    ron_buf_done(&in->carry_text);
}

static enum ron_rc inputs_read(struct work *w, struct inputs *in)
{
    const struct rwd_tool_run *r = w->r;

    ron_buf_init(&in->carry_text, RWD_MANIFEST_MAX);
    RON_TRY(rwd__tool_policy(&r->policy, r->policy_key, &in->policy, w->err));
    if (r->carry_run != NULL) {
        RON_TRY(rwd_run_load(ron_env_linux(), r->carry_run, &in->carry_text, &in->carry, w->err));
    }
    RON_TRY(rwd__tool_snapshot(&r->snapshot, &w->progress, &in->snapshot, w->err));
    in->has_snapshot = true;
    return RON_OK;
}

/* ---- compute --------------------------------------------------------------------------------- */

static enum ron_rc options(struct work *w, const struct inputs *in, struct rwd_run_opts *ret_opts)
{
    const struct rwd_tool_run *r = w->r;

    *ret_opts = (struct rwd_run_opts){.epoch = ron_str_of(r->epoch),
                                      .salt = ron_str_of(r->salt),
                                      .policy = rwd_policy_of(in->policy),
                                      .has_ledger = r->ledger_root != NULL,
                                      .ledger_seq = r->ledger_seq,
                                      .parts = r->parts,
                                      .progress = &w->progress};
    if (r->ledger_root != NULL) {
        RON_TRY(
            rwd__tool_hex(r->ledger_root, "--ledger-root", ret_opts->ledger_root.bytes, w->err));
    }
    if (r->carry_run == NULL) {
        return RON_OK;
    }
    if (in->carry.status != RWD_STATUS_OK || in->carry.residual != RWD_RESIDUAL_CARRY) {
        return ron_err_set(w->err, RON_INVALID, "%s: the residual of that run is not to be carried",
                           r->carry_run);
    }
    ret_opts->carry_epoch = in->carry.epoch;
    ret_opts->carry_commitment = in->carry.commitment;
    ret_opts->carry_in = in->carry.totals.residual;
    return RON_OK;
}

static enum ron_rc write_run(struct work *w, struct rwd_run *run)
{
    const struct rwd_tool_run *r = w->r;
    struct rwd_write_opts opts = {.env = ron_env_linux(), .dir = r->out_dir};
    struct rwd_attester attester;
    enum ron_rc rc = RON_OK;

    if (r->key_file != NULL) {
        RON_TRY(rwd__tool_attester(r->key_file, &attester, w->err));
        opts.attester = &attester;
    }
    if (r->out_dir != NULL) {
        rc = ron_mkdirs(opts.env, r->out_dir, RUNS_MODE, w->err);
    }
    if (rc == RON_OK) {
        rc = rwd_run_write(run, &opts, w->err);
    }
    ron_wipe(&attester, sizeof attester);
    return rc;
}

static enum ron_rc tell_run(struct work *w, const struct rwd_run *run)
{
    const struct rwd_manifest *m = &run->manifest;
    char path[RON_FILE_PATH_SIZE];

    w->good = m->status == RWD_STATUS_OK;
    rwd__tool_tell(m, w->out);
    if (!w->good) {
        ron_buf_append_fmt(w->out, "%-11s %s\n", "because", run->breach_text);
    }
    if (w->r->out_dir != NULL) {
        RON_TRY(rwd_run_path(w->r->out_dir, m->epoch, !w->good, path, w->err));
        ron_buf_append_fmt(w->out, "%-11s %s\n", w->good ? "folder" : "file", path);
    }
    return ron_buf_error(w->out);
}

static enum ron_rc compute(struct work *w)
{
    struct inputs in = {0};
    struct rwd_run_opts opts;
    struct rwd_run run = {0};
    enum ron_rc rc = inputs_read(w, &in);

    if (rc == RON_OK) {
        rc = options(w, &in, &opts);
    }
    if (rc == RON_OK) {
        rc = rwd_run_compute(&opts, &in.snapshot, &run, w->err);
    }
    if (rc == RON_OK) {
        rc = write_run(w, &run);
        if (rc == RON_OK) {
            rc = tell_run(w, &run);
        }
        rwd_run_done(&run);
    }
    inputs_done(&in);
    return rc;
}

enum ron_rc rwd_tool_compute(const struct rwd_tool_run *r, struct ron_buf *out, bool *ret_good,
                             struct ron_err *err)
{
    struct work w = {.r = r, .run = compute, .out = out, .err = err};

    RON_TRY(do_work(&w));
    *ret_good = w.good;
    return RON_OK;
}

/* ---- verify ---------------------------------------------------------------------------------- */

static enum ron_rc verify(struct work *w)
{
    const struct rwd_tool_run *r = w->r;
    uint8_t public_key[RWD_SIGN_KEY_BYTES];
    struct inputs in = {0};
    struct rwd_manifest m;
    struct ron_buf text;
    enum ron_rc rc;

    if (r->public_key != NULL) {
        RON_TRY(rwd__tool_hex(r->public_key, "--public-key", public_key, w->err));
    }
    ron_buf_init(&text, RWD_MANIFEST_MAX);
    rc = inputs_read(w, &in);
    if (rc == RON_OK) {
        const struct rwd_verify_opts opts = {
            .env = ron_env_linux(),
            .folder = r->run_dir,
            .snapshot = &in.snapshot,
            .policy = rwd_policy_of(in.policy),
            .salt = ron_str_of(r->salt),
            .carry = r->carry_run == NULL ? NULL : &in.carry,
            .public_key = r->public_key == NULL ? NULL : public_key,
            .parts = r->parts,
            .progress = &w->progress,
        };

        rc = rwd_verify(&opts, &text, &m, w->err);
    }
    if (rc == RON_OK) {
        rwd__tool_tell(&m, w->out);
        rc = ron_buf_error(w->out);
    }
    inputs_done(&in);
    ron_buf_done(&text);
    return rc;
}

enum ron_rc rwd_tool_verify(const struct rwd_tool_run *r, struct ron_buf *out, struct ron_err *err)
{
    struct work w = {.r = r, .run = verify, .out = out, .err = err};

    return do_work(&w);
}
