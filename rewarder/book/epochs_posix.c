/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/epochs_posix.c - the epochs of the book and their states.
 *
 * Place: rewarder; rules B1, B2 and B4 of book.h. Each call is one transaction: it looks at the
 * row, decides, and writes row and checksum. */
#include "rewarder/book/priv.h"

#include "ron/base/assert.h"

/* Columns of RWD__EPOCH_SELECT. */
enum column {
    COL_EPOCH,
    COL_RUN_KEY,
    COL_INPUTS_CID,
    COL_POLICY_ID,
    COL_POLICY_HASH,
    COL_LEDGER_ROOT,
    COL_LEDGER_SEQ,
    COL_CARRY_EPOCH,
    COL_STATE,
    COL_BREACH,
    COL_REASON,
    COL_COMMITMENT,
    COL_PAID,
    COL_RESIDUAL,
    COL_CARRIES,
    COL_INTENTS,
    COL_CREATED,
    COL_CHANGED,
    COL_CARRIED_INTO,
    COL_WHOLE,
};

static const char *const breach_labels[] = {
#define X(name, label) [RWD_BREACH_##name] = (label),
    RWD_BREACHES(X)
#undef X
};

static enum ron_rc read_breach(struct ron_str label, enum rwd_breach *ret_breach,
                               struct ron_err *err)
{
    for (unsigned i = 0; i < RWD_BREACH_COUNT; i++) {
        if (ron_str_is(label, breach_labels[i])) {
            *ret_breach = (enum rwd_breach)i;
            return RON_OK;
        }
    }
    return ron_err_set(err, RON_CORRUPT, "book: no such breach");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static enum ron_rc read_request(const struct ron_sql_use *u, struct rwd_request *r,
                                struct ron_err *err)
{
    RON_TRY(ron_sql_get_text(u, COL_EPOCH, r->epoch, sizeof r->epoch, err));
    RON_TRY(ron_sql_get_bytes(u, COL_RUN_KEY, r->run_key.bytes, sizeof r->run_key.bytes, err));
    RON_TRY(
        ron_sql_get_bytes(u, COL_INPUTS_CID, r->inputs_cid.bytes, sizeof r->inputs_cid.bytes, err));
    RON_TRY(ron_sql_get_text(u, COL_POLICY_ID, r->policy_id, sizeof r->policy_id, err));
    RON_TRY(ron_sql_get_bytes(u, COL_POLICY_HASH, r->policy_hash.bytes, sizeof r->policy_hash.bytes,
                              err));
    RON_TRY(ron_sql_get_text(u, COL_CARRY_EPOCH, r->carry_epoch, sizeof r->carry_epoch, err));
    r->has_ledger = ron_sql_get_str(u, COL_LEDGER_ROOT).len != 0;
    if (r->has_ledger) {
        RON_TRY(ron_sql_get_bytes(u, COL_LEDGER_ROOT, r->ledger_root.bytes,
                                  sizeof r->ledger_root.bytes, err));
        r->ledger_seq = ron_sql_get_u64(u, COL_LEDGER_SEQ);
    }
    return RON_OK;
}

static enum ron_rc read_money(const struct ron_sql_use *u, uint32_t column,
                              struct ron_money *ret_money, struct ron_err *err)
{
    struct ron_str text = ron_sql_get_str(u, column);

    if (ron_money_parse(text.ptr, text.len, ret_money, NULL) != RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "book: an amount is none");
    }
    return RON_OK;
}

static enum ron_rc read_epoch(const struct ron_sql_use *u, struct rwd_epoch *e, struct ron_err *err)
{
    *e = (struct rwd_epoch){0};
    RON_TRY(ron_sql_get_whole(u, err));
    RON_TRY(read_request(u, &e->request, err));
    if (!rwd_state_of(ron_sql_get_str(u, COL_STATE), &e->state)) {
        return ron_err_set(err, RON_CORRUPT, "book: no such state");
    }
    RON_TRY(read_breach(ron_sql_get_str(u, COL_BREACH), &e->breach, err));
    RON_TRY(ron_sql_get_text(u, COL_REASON, e->reason, sizeof e->reason, err));
    e->sealed = ron_sql_get_str(u, COL_COMMITMENT).len != 0;
    if (e->sealed) {
        RON_TRY(ron_sql_get_bytes(u, COL_COMMITMENT, e->commitment.bytes,
                                  sizeof e->commitment.bytes, err));
    }
    RON_TRY(read_money(u, COL_PAID, &e->paid, err));
    RON_TRY(read_money(u, COL_RESIDUAL, &e->residual, err));
    e->residual_carries = ron_sql_get_u64(u, COL_CARRIES) != 0;
    e->intents = ron_sql_get_u64(u, COL_INTENTS);
    e->created_ms = ron_sql_get_u64(u, COL_CREATED);
    e->changed_ms = ron_sql_get_u64(u, COL_CHANGED);
    return ron_sql_get_text(u, COL_CARRIED_INTO, e->carried_into, sizeof e->carried_into, err);
}

enum ron_rc rwd__epoch_get(struct rwd_book *b, struct ron_str epoch, struct rwd_epoch *ret_epoch,
                           struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_GET);
    struct rwd_epoch e;
    bool row = false;
    enum ron_rc rc;

    ron_sql_put_text(&u, epoch);
    rc = rwd__row(&u, &row, err);
    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_NOTFOUND, "no epoch %.*s", (int)epoch.len, epoch.ptr);
    }
    if (rc == RON_OK) {
        rc = read_epoch(&u, &e, err);
    }
    ron_sql_done(&u);
    if (rc == RON_OK) {
        *ret_epoch = e;
    }
    return rc;
}

static enum ron_rc sum_epoch(struct rwd_book *b, const char *epoch, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_SUM);

    ron_sql_put_text(&u, ron_str_of(epoch));
    return rwd__run(&u, NULL, err);
}

enum ron_rc rwd__epoch_move(struct rwd_book *b, const struct rwd_epoch *epoch, enum rwd_state to,
                            enum rwd_breach breach, const char *reason, uint64_t now_ms,
                            struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_MOVE);
    struct ron_str text = ron_str_of(reason != NULL ? reason : "");

    RON_ASSERT(rwd_state_may(epoch->state, to));
    text.len = RON_MIN(text.len, sizeof epoch->reason - 1);
    ron_sql_put_text(&u, ron_str_of(epoch->request.epoch));
    ron_sql_put_text(&u, ron_str_of(rwd_state_name(to)));
    ron_sql_put_text(&u, ron_str_of(breach_labels[breach]));
    ron_sql_put_text(&u, text);
    ron_sql_put_u64(&u, now_ms);
    RON_TRY(rwd__run(&u, NULL, err));
    return sum_epoch(b, epoch->request.epoch, err);
}

enum ron_rc rwd__epoch_refuse(const struct rwd_epoch *epoch, const char *what, struct ron_err *err)
{
    return ron_err_set(err, RON_CONFLICT, "epoch %s is %s: %s", epoch->request.epoch,
                       rwd_state_name(epoch->state), what);
}

/* ---- reserving ------------------------------------------------------------------------------- */

static bool same_request(const struct rwd_request *a, const struct rwd_request *b)
{
    return strcmp(a->epoch, b->epoch) == 0 && ron_b3_equal(&a->run_key, &b->run_key) &&
           ron_b3_equal(&a->inputs_cid, &b->inputs_cid) &&
           strcmp(a->policy_id, b->policy_id) == 0 &&
           ron_b3_equal(&a->policy_hash, &b->policy_hash) && a->has_ledger == b->has_ledger &&
           (!a->has_ledger ||
            (a->ledger_seq == b->ledger_seq && memcmp(a->ledger_root.bytes, b->ledger_root.bytes,
                                                      sizeof a->ledger_root.bytes) == 0)) &&
           strcmp(a->carry_epoch, b->carry_epoch) == 0;
}

/* B4: takes the residual of another epoch, which must lie there untaken. */
static enum ron_rc take_carry(struct rwd_book *b, const struct rwd_request *r, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__CARRY_ADD);
    struct rwd_epoch from;

    RON_TRY(rwd__epoch_get(b, ron_str_of(r->carry_epoch), &from, err));
    if (!from.sealed || from.state == RWD_QUARANTINED || !from.residual_carries) {
        return ron_err_set(err, RON_NOTFOUND, "epoch %s is %s and has no residual to carry",
                           r->carry_epoch, rwd_state_name(from.state));
    }
    if (from.carried_into[0] != '\0') {
        return ron_err_set(err, RON_CONFLICT, "the residual of %s went into %s", r->carry_epoch,
                           from.carried_into);
    }
    ron_sql_put_text(&u, ron_str_of(r->carry_epoch));
    ron_sql_put_text(&u, ron_str_of(r->epoch));
    return rwd__run(&u, NULL, err);
}

static enum ron_rc add_epoch(struct rwd_book *b, const struct rwd_request *r, uint64_t now_ms,
                             struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_ADD);

    ron_sql_put_text(&u, ron_str_of(r->epoch));
    ron_sql_put_bytes(&u, r->run_key.bytes, sizeof r->run_key.bytes);
    ron_sql_put_bytes(&u, r->inputs_cid.bytes, sizeof r->inputs_cid.bytes);
    ron_sql_put_text(&u, ron_str_of(r->policy_id));
    ron_sql_put_bytes(&u, r->policy_hash.bytes, sizeof r->policy_hash.bytes);
    if (r->has_ledger) {
        ron_sql_put_bytes(&u, r->ledger_root.bytes, sizeof r->ledger_root.bytes);
        ron_sql_put_u64(&u, r->ledger_seq);
    } else {
        ron_sql_put_null(&u);
        ron_sql_put_null(&u);
    }
    ron_sql_put_text(&u, ron_str_of(r->carry_epoch));
    ron_sql_put_text(&u, ron_str_of(rwd_state_name(RWD_RESERVED)));
    ron_sql_put_text(&u, ron_str_of("")); /* breach, reason, commitment */
    ron_sql_put_text(&u, ron_str_of(""));
    ron_sql_put_null(&u);
    ron_sql_put_text(&u, ron_str_of("0")); /* paid, residual, whether it carries, intents */
    ron_sql_put_text(&u, ron_str_of("0"));
    ron_sql_put_u64(&u, 0);
    ron_sql_put_u64(&u, 0);
    ron_sql_put_u64(&u, now_ms);
    ron_sql_put_u64(&u, now_ms);
    return rwd__run(&u, NULL, err);
}

static enum ron_rc reserve(struct rwd_book *b, const struct rwd_request *request, uint64_t now_ms,
                           struct rwd_epoch *e, struct ron_err *err)
{
    struct ron_err none = {0};
    enum ron_rc rc;

    RON_ASSERT(request != NULL);
    rc = rwd__epoch_get(b, (struct ron_str){request->epoch, strlen(request->epoch)}, e, &none);

    if (rc == RON_OK) {
        if (same_request(&e->request, request)) {
            return ron_err_set(err, RON_EXISTS, "epoch %s is %s", request->epoch,
                               rwd_state_name(e->state));
        }
        return rwd__epoch_refuse(e, "it belongs to another run", err);
    }
    if (rc != RON_NOTFOUND) {
        return ron_err_set(err, rc, "%s", none.msg);
    }
    if (request->carry_epoch[0] != '\0') {
        RON_TRY(take_carry(b, request, err));
    }
    RON_TRY(add_epoch(b, request, now_ms, err));
    return rwd__epoch_get(b, ron_str_of(request->epoch), e, err);
}

enum ron_rc rwd_book_reserve(struct rwd_book *b, const struct rwd_request *request, uint64_t now_ms,
                             struct rwd_epoch *ret_epoch, struct ron_err *err)
{
    struct rwd_epoch e;
    enum ron_rc rc;

    RON_TRY(rwd__book_begin(b, true, err));
    rc = rwd__book_end(b, reserve(b, request, now_ms, &e, err), err);
    if (rc == RON_OK || rc == RON_EXISTS) {
        *ret_epoch = e;
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum ron_rc rwd_book_get(struct rwd_book *b, struct ron_str epoch, struct rwd_epoch *ret_epoch,
                         struct ron_err *err)
{
    RON_TRY(rwd__book_begin(b, false, err));
    return rwd__book_end(b, rwd__epoch_get(b, epoch, ret_epoch, err), err);
}

static enum ron_rc list(struct rwd_book *b, struct ron_str after, enum rwd_state state,
                        struct rwd_epoch *ret_epochs, size_t max, size_t *ret_count,
                        struct ron_err *err)
{
    bool all = state == RWD_STATE_COUNT;
    struct ron_sql_use u = ron_sql_use(b->sql, all ? RWD__EPOCH_LIST : RWD__EPOCH_LIST_STATE);
    enum ron_rc rc = RON_OK;
    size_t count = 0;
    bool row = true;

    ron_sql_put_text(&u, after);
    ron_sql_put_u64(&u, max);
    if (!all) {
        ron_sql_put_text(&u, ron_str_of(rwd_state_name(state)));
    }
    while (rc == RON_OK && row && count < max) {
        rc = rwd__row(&u, &row, err);
        if (rc == RON_OK && row) {
            rc = read_epoch(&u, &ret_epochs[count], err);
            count++;
        }
    }
    ron_sql_done(&u);
    if (rc == RON_OK) {
        *ret_count = count;
    }
    return rc;
}

enum ron_rc rwd_book_list(struct rwd_book *b, struct ron_str after, enum rwd_state state,
                          struct rwd_epoch *ret_epochs, size_t max, size_t *ret_count,
                          struct ron_err *err)
{
    RON_TRY(rwd__book_begin(b, false, err));
    return rwd__book_end(b, list(b, after, state, ret_epochs, max, ret_count, err), err);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static enum ron_rc move(struct rwd_book *b, struct ron_str epoch, enum rwd_state from,
                        enum rwd_state to, const char *reason, uint64_t now_ms, struct ron_err *err)
{
    struct rwd_epoch e;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    if (e.state != from) {
        return rwd__epoch_refuse(&e, "another state was expected", err);
    }
    return rwd__epoch_move(b, &e, to, RWD_BREACH_NONE, reason, now_ms, err);
}

enum ron_rc rwd_book_move(struct rwd_book *b, struct ron_str epoch, enum rwd_state from,
                          enum rwd_state to, const char *reason, uint64_t now_ms,
                          struct ron_err *err)
{
    if (!(from == RWD_RESERVED && to == RWD_COMPUTING) &&
        !(from == RWD_EMITTING && to == RWD_WITHHELD)) {
        return ron_err_set(err, RON_INVALID, "no plain way from %s to %s", rwd_state_name(from),
                           rwd_state_name(to));
    }
    RON_TRY(rwd__book_begin(b, true, err));
    return rwd__book_end(b, move(b, epoch, from, to, reason, now_ms, err), err);
}

static enum ron_rc seal(struct rwd_book *b, const struct rwd_manifest *m, uint64_t now_ms,
                        struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_SEAL);
    char paid[RON_MONEY_TEXT_SIZE];
    char residual[RON_MONEY_TEXT_SIZE];
    struct rwd_epoch e;

    RON_TRY(rwd__epoch_get(b, m->epoch, &e, err));
    if (e.state != RWD_COMPUTING) {
        return rwd__epoch_refuse(&e, "only what is computing can be sealed", err);
    }
    if (!ron_b3_equal(&e.request.run_key, &m->run_key)) {
        return rwd__epoch_refuse(&e, "it belongs to another run", err);
    }
    (void)ron_money_format(m->totals.paid, paid);
    (void)ron_money_format(m->totals.residual, residual);
    ron_sql_put_text(&u, m->epoch);
    ron_sql_put_bytes(&u, m->commitment.bytes, sizeof m->commitment.bytes);
    ron_sql_put_text(&u, ron_str_of(paid));
    ron_sql_put_text(&u, ron_str_of(residual));
    ron_sql_put_u64(&u, m->residual == RWD_RESIDUAL_CARRY);
    ron_sql_put_u64(&u, rwd_intent_count(m));
    ron_sql_put_u64(&u, now_ms);
    RON_TRY(rwd__run(&u, NULL, err));
    return sum_epoch(b, e.request.epoch, err);
}

enum ron_rc rwd_book_seal(struct rwd_book *b, const struct rwd_manifest *m, uint64_t now_ms,
                          struct ron_err *err)
{
    if (m->status != RWD_STATUS_OK) {
        return ron_err_set(err, RON_INVALID, "a run that broke a rule is not sealed");
    }
    RON_TRY(rwd__book_begin(b, true, err));
    return rwd__book_end(b, seal(b, m, now_ms, err), err);
}

static enum ron_rc quarantine(struct rwd_book *b, struct ron_str epoch, enum rwd_breach breach,
                              const char *reason, uint64_t now_ms, struct ron_err *err)
{
    struct rwd_epoch e;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    if (!rwd_state_may(e.state, RWD_QUARANTINED)) {
        return rwd__epoch_refuse(&e, "it cannot be quarantined", err);
    }
    return rwd__epoch_move(b, &e, RWD_QUARANTINED, breach, reason, now_ms, err);
}

enum ron_rc rwd_book_quarantine(struct rwd_book *b, struct ron_str epoch, enum rwd_breach breach,
                                const char *reason, uint64_t now_ms, struct ron_err *err)
{
    if (breach == RWD_BREACH_NONE || (unsigned)breach >= RWD_BREACH_COUNT) {
        return ron_err_set(err, RON_INVALID, "a quarantine has a breach");
    }
    RON_TRY(rwd__book_begin(b, true, err));
    return rwd__book_end(b, quarantine(b, epoch, breach, reason, now_ms, err), err);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Removes an epoch that was never sealed; what it was to carry in is free again. */
static enum ron_rc drop_unsealed(struct rwd_book *b, const struct rwd_epoch *e, struct ron_err *err)
{
    struct ron_sql_use carry = ron_sql_use(b->sql, RWD__CARRY_DROP);
    struct ron_sql_use row = ron_sql_use(b->sql, RWD__EPOCH_DROP);

    RON_ASSERT(!e->sealed);
    ron_sql_put_text(&carry, ron_str_of(e->request.epoch));
    RON_TRY(rwd__run(&carry, NULL, err));
    ron_sql_put_text(&row, ron_str_of(e->request.epoch));
    return rwd__run(&row, NULL, err);
}

static enum ron_rc forget(struct rwd_book *b, struct ron_str epoch, struct ron_err *err)
{
    struct rwd_epoch e;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    if (e.state != RWD_RESERVED && e.state != RWD_COMPUTING) {
        return rwd__epoch_refuse(&e, "it has a verdict", err);
    }
    return drop_unsealed(b, &e, err);
}

enum ron_rc rwd_book_forget(struct rwd_book *b, struct ron_str epoch, struct ron_err *err)
{
    RON_TRY(rwd__book_begin(b, true, err));
    return rwd__book_end(b, forget(b, epoch, err), err);
}

static enum ron_rc release(struct rwd_book *b, struct ron_str epoch, uint64_t now_ms,
                           bool *ret_again, struct ron_err *err)
{
    struct rwd_epoch e;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    if (e.state != RWD_QUARANTINED) {
        return rwd__epoch_refuse(&e, "it is not in quarantine", err);
    }
    *ret_again = e.sealed;
    if (!e.sealed) {
        return drop_unsealed(b, &e, err);
    }
    return rwd__epoch_move(b, &e, RWD_WITHHELD, RWD_BREACH_NONE, "released from quarantine", now_ms,
                           err);
}

enum ron_rc rwd_book_release(struct rwd_book *b, struct ron_str epoch, uint64_t now_ms,
                             bool *ret_again, struct ron_err *err)
{
    bool again = false;

    RON_TRY(rwd__book_begin(b, true, err));
    RON_TRY(rwd__book_end(b, release(b, epoch, now_ms, &again, err), err));
    *ret_again = again;
    return RON_OK;
}

/* The first epoch after `after` that may go; *ret_found false: there is none. */
static enum ron_rc find_old(struct rwd_book *b, const char *after, uint64_t before_ms,
                            char ret_epoch[RWD_EPOCH_MAX + 1], bool *ret_found, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__EPOCH_OLD);
    enum ron_rc rc;

    ron_sql_put_text(&u, ron_str_of(after));
    ron_sql_put_u64(&u, before_ms);
    ron_sql_put_u64(&u, 1);
    rc = rwd__row(&u, ret_found, err);
    if (rc == RON_OK && *ret_found) {
        rc = ron_sql_get_text(&u, 0, ret_epoch, RWD_EPOCH_MAX + 1, err);
    }
    ron_sql_done(&u);
    return rc;
}

static enum ron_rc retire_one(struct rwd_book *b, const char *name, struct ron_err *err)
{
    struct ron_sql_use batches = ron_sql_use(b->sql, RWD__BATCH_DROP);
    struct rwd_epoch epoch;

    ron_sql_put_text(&batches, ron_str_of(name));
    RON_TRY(rwd__run(&batches, NULL, err));
    RON_TRY(rwd__epoch_get(b, ron_str_of(name), &epoch, err));
    return rwd__epoch_move(b, &epoch, RWD_RETIRED, RWD_BREACH_NONE, NULL, epoch.changed_ms, err);
}

enum ron_rc rwd_book_retire(struct rwd_book *b, uint64_t before_ms,
                            void (*each)(void *arg, const char *epoch), void *arg,
                            struct ron_err *err)
{
    char epoch[RWD_EPOCH_MAX + 1] = "";
    char after[RWD_EPOCH_MAX + 1] = "";
    bool found = true;

    /* Nobody else leads out of EMITTED, so what was found is still so when it is retired. */
    for (;;) {
        RON_TRY(rwd__book_begin(b, false, err));
        RON_TRY(rwd__book_end(b, find_old(b, after, before_ms, epoch, &found, err), err));
        if (!found) {
            return RON_OK;
        }
        each(arg, epoch);
        RON_TRY(rwd__book_begin(b, true, err));
        RON_TRY(rwd__book_end(b, retire_one(b, epoch, err), err));
        memcpy(after, epoch, sizeof after);
    }
}
