/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/reads.c - questions that need the book or files: manifests of long ago,
 * settlements, payouts, proofs, policies, lists; and the two changes that an operator asks for.
 *
 * Place: service; two blocking tasks on `reads`. */
#include <stdio.h>
#include <string.h>

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/io/file.h"

struct rwd_readers {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    const struct rwd_settle *settle;
    char names[RWD_READERS][24];
};

static void fail_text(struct rwd_read *r, enum rwd_error error, const char *detail)
{
    struct rwd_fault fault;

    rwd_fault_set(&fault, error, detail);
    rwd_reply_fail(r->reply, &fault);
}

static void fail_rc(struct rwd_read *r, enum ron_rc rc, const struct ron_err *err)
{
    struct rwd_fault fault;

    rwd_fault_of(&fault, rc, RWD_ERROR_STATE, err);
    if (rc == RON_NOTFOUND) {
        rwd_fault_set(&fault, RWD_ERROR_NOT_FOUND, NULL);
    }
    rwd_reply_fail(r->reply, &fault);
}

static struct ron_str epoch_of(const struct rwd_read *r)
{
    return (struct ron_str){r->epoch, strlen(r->epoch)};
}

static bool is_sealed(enum rwd_state state)
{
    return state == RWD_SEALED || state == RWD_EMITTING || state == RWD_EMITTED ||
           state == RWD_WITHHELD;
}

/* The epoch in the book, which must be sealed, or in quarantine without a result when `also_bad`;
 * false: answered. */
static bool get_ended(struct rwd_readers *s, struct rwd_read *r, bool also_bad,
                      struct rwd_epoch *ret)
{
    struct ron_err err = {0};
    enum ron_rc rc = rwd_book_get(s->store->book, epoch_of(r), ret, &err);

    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
        return false;
    }
    if (ret->state == RWD_QUARANTINED && !ret->sealed && !also_bad) {
        fail_text(r, RWD_ERROR_QUARANTINED, ret->reason);
        return false;
    }
    if (ret->state == RWD_RETIRED) {
        fail_text(r, RWD_ERROR_RETIRED, NULL);
        return false;
    }
    if (!is_sealed(ret->state) && ret->state != RWD_QUARANTINED) {
        fail_text(r, RWD_ERROR_STATE, "the run is not sealed yet");
        return false;
    }
    return true;
}

static bool get_sealed(struct rwd_readers *s, struct rwd_read *r, struct rwd_epoch *ret)
{
    return get_ended(s, r, false, ret);
}

/* ---- one epoch ------------------------------------------------------------------------------- */

static void read_manifest(struct rwd_readers *s, struct rwd_read *r)
{
    struct rwd_epoch e;
    struct ron_err err = {0};
    enum ron_rc rc;
    bool bad;

    if (!get_ended(s, r, true, &e)) {
        return;
    }
    bad = e.state == RWD_QUARANTINED && !e.sealed;
    rc = rwd_manifest_text(s->store, epoch_of(r), bad, ron_http_reply_body(r->reply), &err);
    if (rc == RON_NOTFOUND && bad) {
        fail_text(r, RWD_ERROR_QUARANTINED, e.reason);
    } else if (rc != RON_OK) {
        fail_rc(r, rc, &err);
    } else {
        ron_http_reply_send(r->reply, 200, "application/json");
    }
}

static void write_settlement(struct ron_json_writer *j, const struct rwd_epoch *e,
                             const struct rwd_settlement *sum)
{
    char text[RON_B3_ID_SIZE];

    ron_json_text(j, "epoch_id", e->request.epoch);
    ron_b3_format(&e->request.run_key, text);
    ron_json_text(j, "run_key", text);
    ron_json_text(j, "state", rwd_state_name(e->state));
    ron_json_text(j, "reason", e->reason[0] != '\0' ? e->reason : NULL);
    ron_b3_format(&e->commitment, text);
    ron_json_text(j, "commitment", e->sealed ? text : NULL);
    ron_json_money(j, "payout_minor_units", e->paid);
    ron_json_money(j, "residual_minor_units", e->residual);
    ron_json_u64(j, "intents", e->intents);
    ron_json_u64(j, "intents_done", e->state == RWD_RETIRED ? e->intents : sum->intents_done);
    ron_json_u64(j, "batches", sum->batches);
    ron_json_u64(j, "batches_done", sum->batches_done);
    if (sum->seq_first != 0) {
        ron_json_u64(j, "ledger_seq_first", sum->seq_first);
        ron_json_u64(j, "ledger_seq_last", sum->seq_last);
    } else {
        ron_json_null(j, "ledger_seq_first");
        ron_json_null(j, "ledger_seq_last");
    }
    ron_json_text(j, "carried_into", e->carried_into[0] != '\0' ? e->carried_into : NULL);
    ron_json_u64(j, "created_millis", e->created_ms);
    ron_json_u64(j, "changed_millis", e->changed_ms);
}

static void answer_settlement(struct rwd_readers *s, struct rwd_read *r, int status)
{
    struct rwd_settlement sum = {0};
    struct ron_json_writer j;
    struct rwd_epoch e;
    struct ron_err err = {0};
    enum ron_rc rc = rwd_book_get(s->store->book, epoch_of(r), &e, &err);

    if (rc == RON_OK) {
        rc = rwd_book_settlement(s->store->book, epoch_of(r), &sum, &err);
    }
    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
        return;
    }
    ron_json_begin(&j, ron_http_reply_body(r->reply));
    ron_json_open(&j, NULL, '{');
    write_settlement(&j, &e, &sum);
    ron_json_close(&j, '}');
    ron_http_reply_send(r->reply, status, "application/json");
}

static void read_list(struct rwd_readers *s, struct rwd_read *r)
{
    struct rwd_epoch *found = ron_alloc((size_t)r->limit * sizeof *found);
    struct ron_json_writer j;
    struct ron_err err = {0};
    size_t count = 0;
    enum ron_rc rc = RON_NOMEM;

    if (found != NULL) {
        rc = rwd_book_list(s->store->book, epoch_of(r), r->state, found, r->limit, &count, &err);
    }
    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
        ron_free(found);
        return;
    }
    ron_json_begin(&j, ron_http_reply_body(r->reply));
    ron_json_open(&j, NULL, '{');
    ron_json_open(&j, "epochs", '[');
    for (size_t i = 0; i < count; i++) {
        const struct rwd_epoch *e = &found[i];

        ron_json_open(&j, NULL, '{');
        ron_json_text(&j, "epoch_id", e->request.epoch);
        ron_json_text(&j, "state", rwd_state_name(e->state));
        ron_json_money(&j, "payout_minor_units", e->paid);
        ron_json_u64(&j, "intents", e->intents);
        ron_json_u64(&j, "changed_millis", e->changed_ms);
        ron_json_close(&j, '}');
    }
    ron_json_close(&j, ']');
    ron_json_text(&j, "next", count == r->limit ? found[count - 1].request.epoch : NULL);
    ron_json_close(&j, '}');
    ron_free(found);
    ron_http_reply_send(r->reply, 200, "application/json");
}

/* ---- payouts --------------------------------------------------------------------------------- */

static enum ron_rc open_payouts(struct rwd_readers *s, struct rwd_read *r, struct rwd_payouts **ret,
                                struct ron_err *err)
{
    char folder[RON_FILE_PATH_SIZE];

    RON_TRY(rwd_run_path(s->store->artifact_dir, epoch_of(r), false, folder, err));
    return rwd_payouts_open(s->store->disk_env, folder, ret, err);
}

struct lines {
    struct ron_http_reply *reply;
    struct ron_buf piece;
    struct ron_deadline deadline;
    enum ron_rc rc;
};

static void flush(struct lines *l)
{
    l->rc = ron_http_reply_write_wait(l->reply, ron_buf_data(&l->piece), ron_buf_len(&l->piece),
                                      l->deadline);
    ron_buf_clear(&l->piece);
}

static bool each_line(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    struct lines *l = arg;
    char line[RWD_LINE_MAX];
    size_t len = rwd_payout_line(payout, line);

    (void)index;
    line[len++] = '\n';
    RON_IGNORE(ron_buf_append(&l->piece, line, len));
    if (ron_buf_len(&l->piece) > RON_HTTP_PIECE_BYTES - 1024) {
        flush(l);
    }
    return l->rc == RON_OK;
}

/* The whole list as NDJSON, in pieces. */
static void read_payouts(struct rwd_readers *s, struct rwd_read *r)
{
    struct lines l = {.reply = r->reply, .deadline = ron_deadline_never()};
    struct rwd_payouts *p = NULL;
    struct rwd_epoch e;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (!get_sealed(s, r, &e)) {
        return;
    }
    rc = open_payouts(s, r, &p, &err);
    if (rc == RON_OK) {
        rc = ron_http_reply_begin(
            r->reply, &(struct ron_http_stream_opts){.status = 200,
                                                     .content_type = "application/x-ndjson",
                                                     .length = RON_HTTP_UNKNOWN});
    }
    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
        rwd_payouts_close(p);
        return;
    }
    ron_buf_init(&l.piece, RON_HTTP_PIECE_BYTES);
    rc = rwd_payouts_each(p, 0, rwd_payouts_count(p), each_line, &l, &err);
    if (rc == RON_OK && l.rc == RON_OK && ron_buf_len(&l.piece) > 0) {
        flush(&l);
    }
    if (rc == RON_OK && l.rc == RON_OK) {
        ron_http_reply_end(r->reply);
    } else {
        ron_http_reply_abort(r->reply);
    }
    ron_buf_done(&l.piece);
    rwd_payouts_close(p);
}

static enum ron_rc prove(struct rwd_readers *s, struct rwd_read *r, struct ron_err *err)
{
    struct ron_buf manifest;
    struct rwd_payouts *p = NULL;
    uint64_t index = 0;
    enum ron_rc rc = open_payouts(s, r, &p, err);

    if (rc != RON_OK) {
        return rc;
    }
    ron_buf_init(&manifest, RWD_MANIFEST_MAX + 1);
    rc = rwd_payouts_find(p, (struct ron_str){r->account, strlen(r->account)}, &index, err);
    if (rc == RON_OK) {
        rc = rwd_manifest_text(s->store, epoch_of(r), false, &manifest, err);
    }
    if (rc == RON_OK) {
        rc = rwd_payouts_prove(p, index,
                               (struct ron_str){ron_buf_text(&manifest), ron_buf_len(&manifest)},
                               ron_http_reply_body(r->reply), err);
    }
    ron_buf_done(&manifest);
    rwd_payouts_close(p);
    return rc;
}

static void read_proof(struct rwd_readers *s, struct rwd_read *r)
{
    struct rwd_epoch e;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (!get_sealed(s, r, &e)) {
        return;
    }
    rc = prove(s, r, &err);
    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
    } else {
        ron_http_reply_send(r->reply, 200, "application/json");
    }
}

static void read_policy(struct rwd_readers *s, struct rwd_read *r)
{
    struct ron_err err = {0};
    enum ron_rc rc = rwd_book_policy_get(s->store->book, epoch_of(r), r->has_hash ? &r->hash : NULL,
                                         ron_http_reply_body(r->reply), &err);

    if (rc != RON_OK) {
        fail_rc(r, rc, &err);
    } else {
        ron_http_reply_send(r->reply, 200, "application/json");
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A settlement now: of a sealed run that waits for it, or of a withheld one before its time. */
static void emit(struct rwd_readers *s, struct rwd_read *r)
{
    struct rwd_epoch e;
    struct ron_err err = {0};
    bool all = false;
    enum ron_rc rc;

    if (!get_sealed(s, r, &e)) {
        return;
    }
    if (e.state == RWD_QUARANTINED) {
        fail_text(r, RWD_ERROR_QUARANTINED, e.reason);
        return;
    }
    if (e.state == RWD_SEALED || e.state == RWD_WITHHELD) {
        rc = rwd_book_emit(s->store->book, epoch_of(r), rwd_batch_max(s->settle),
                           ron_env_wall_ms(s->core->env), &all, &err);
        if (rc != RON_OK && rc != RON_CONFLICT) { /* the emitter was faster */
            fail_rc(r, rc, &err);
            return;
        }
        RON_LOG(s->core->log, INFO, "a settlement was asked for", RON_LOG_STR("epoch", r->epoch),
                RON_LOG_STR("by", r->who));
    }
    rwd_emitter_remind(s->pipes, "");
    answer_settlement(s, r, e.state == RWD_EMITTED ? 200 : 202);
}

static void release(struct rwd_readers *s, struct rwd_read *r)
{
    struct ron_err err = {0};
    bool again = false;
    struct ron_json_writer j;
    struct rwd_epoch e;
    enum ron_rc rc = rwd_book_get(s->store->book, epoch_of(r), &e, &err);

    if (rc == RON_OK) {
        rc = rwd_book_release(s->store->book, epoch_of(r), ron_env_wall_ms(s->core->env), &again,
                              &err);
    }
    if (rc != RON_OK) {
        if (rc == RON_CONFLICT) {
            fail_text(r, RWD_ERROR_STATE, "the epoch is not in quarantine");
        } else {
            fail_rc(r, rc, &err);
        }
        return;
    }
    RON_LOG(s->core->log, WARN, "a quarantine was ended by an operator",
            RON_LOG_STR("epoch", r->epoch), RON_LOG_STR("by", r->who),
            RON_LOG_BOOL("settles_again", again));
    rwd_runs_forget(s->store->runs, epoch_of(r));
    rwd_tell(s->core, RWD_EVENT_RELEASED, r->epoch, &e.request.run_key, false, 0, 0, "");
    ron_json_begin(&j, ron_http_reply_body(r->reply));
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "epoch_id", r->epoch);
    ron_json_text(&j, "state", again ? rwd_state_name(RWD_WITHHELD) : NULL);
    ron_json_bool(&j, "settles_again", again);
    ron_json_close(&j, '}');
    ron_http_reply_send(r->reply, 200, "application/json");
    rwd_emitter_remind(s->pipes, "");
}

/* ---- the task -------------------------------------------------------------------------------- */

static void take_read(struct rwd_readers *s, struct rwd_read *r)
{
    switch (r->kind) {
    case RWD_READ_MANIFEST:
        read_manifest(s, r);
        break;
    case RWD_READ_SETTLEMENT:
        answer_settlement(s, r, 200);
        break;
    case RWD_READ_PAYOUTS:
        read_payouts(s, r);
        break;
    case RWD_READ_PROOF:
        read_proof(s, r);
        break;
    case RWD_READ_POLICY:
        read_policy(s, r);
        break;
    case RWD_READ_LIST:
        read_list(s, r);
        break;
    case RWD_READ_EMIT:
        emit(s, r);
        break;
    case RWD_READ_RELEASE:
        release(s, r);
        break;
    }
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        take_read(arg, items[i]);
        ron_free(items[i]);
    }
    return RON_OK;
}

enum ron_rc rwd_readers_add(struct rwd_pipes *p, const struct rwd_settle *settle,
                            struct rwd_readers **ret, struct ron_err *err)
{
    struct rwd_readers *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the readers");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    s->settle = settle;
    for (uint32_t i = 0; i < RWD_READERS; i++) {
        (void)snprintf(s->names[i], sizeof s->names[i], "reader-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->core->app),
                            &(struct ron_task_def){.name = s->names[i],
                                                   .kind = "reader",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 5,
                                                   .input = s->pipes->reads,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}
