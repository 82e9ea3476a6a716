/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/epochs_posix.c - the epochs of the book and their states.
 *
 * Place: rewarder; rules B1, B2 and B4 of book.h. Each call is one transaction: it looks at the
 * row, decides, and writes row and checksum. */
#include "rewarder/book/priv.h"

#include "ron/base/assert.h"

/* Columns of REW__EPOCH_SELECT. */
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
#define X(name, label) [REW_BREACH_##name] = (label),
    REW_BREACHES(X)
#undef X
};

static enum ron_rc read_breach(struct ron_str label, enum rew_breach *ret_breach,
                               struct ron_err *err)
{
    for (unsigned i = 0; i < REW_BREACH_COUNT; i++) {
        if (ron_str_eq(label, breach_labels[i])) {
            *ret_breach = (enum rew_breach)i;
            return RON_OK;
        }
    }
    return ron_err_set(err, RON_CORRUPT, "book: no such breach");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static enum ron_rc read_request(const struct rew__use *u, struct rew_request *r,
                                struct ron_err *err)
{
    RON_TRY(rew__get_text(u, COL_EPOCH, r->epoch, sizeof r->epoch, err));
    RON_TRY(rew__get_bytes(u, COL_RUN_KEY, r->run_key.bytes, sizeof r->run_key.bytes, err));
    RON_TRY(
        rew__get_bytes(u, COL_INPUTS_CID, r->inputs_cid.bytes, sizeof r->inputs_cid.bytes, err));
    RON_TRY(rew__get_text(u, COL_POLICY_ID, r->policy_id, sizeof r->policy_id, err));
    RON_TRY(
        rew__get_bytes(u, COL_POLICY_HASH, r->policy_hash.bytes, sizeof r->policy_hash.bytes, err));
    RON_TRY(rew__get_text(u, COL_CARRY_EPOCH, r->carry_epoch, sizeof r->carry_epoch, err));
    r->has_ledger = rew__get_str(u, COL_LEDGER_ROOT).len != 0;
    if (r->has_ledger) {
        RON_TRY(rew__get_bytes(u, COL_LEDGER_ROOT, r->ledger_root.bytes,
                               sizeof r->ledger_root.bytes, err));
        r->ledger_seq = rew__get_u64(u, COL_LEDGER_SEQ);
    }
    return RON_OK;
}

static enum ron_rc read_money(const struct rew__use *u, int column, struct ron_money *ret_money,
                              struct ron_err *err)
{
    struct ron_str text = rew__get_str(u, column);

    if (ron_money_parse(text.ptr, text.len, ret_money, NULL) != RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "book: an amount is none");
    }
    return RON_OK;
}

static enum ron_rc read_epoch(const struct rew__use *u, struct rew_epoch *e, struct ron_err *err)
{
    *e = (struct rew_epoch){0};
    RON_TRY(rew__get_whole(u, COL_WHOLE, err));
    RON_TRY(read_request(u, &e->request, err));
    if (!rew_state_of(rew__get_str(u, COL_STATE), &e->state)) {
        return ron_err_set(err, RON_CORRUPT, "book: no such state");
    }
    RON_TRY(read_breach(rew__get_str(u, COL_BREACH), &e->breach, err));
    RON_TRY(rew__get_text(u, COL_REASON, e->reason, sizeof e->reason, err));
    e->sealed = rew__get_str(u, COL_COMMITMENT).len != 0;
    if (e->sealed) {
        RON_TRY(rew__get_bytes(u, COL_COMMITMENT, e->commitment.bytes, sizeof e->commitment.bytes,
                               err));
    }
    RON_TRY(read_money(u, COL_PAID, &e->paid, err));
    RON_TRY(read_money(u, COL_RESIDUAL, &e->residual, err));
    e->residual_carries = rew__get_u64(u, COL_CARRIES) != 0;
    e->intents = rew__get_u64(u, COL_INTENTS);
    e->created_ms = rew__get_u64(u, COL_CREATED);
    e->changed_ms = rew__get_u64(u, COL_CHANGED);
    return rew__get_text(u, COL_CARRIED_INTO, e->carried_into, sizeof e->carried_into, err);
}

enum ron_rc rew__epoch_get(struct rew_book *b, struct ron_str epoch, struct rew_epoch *ret_epoch,
                           struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_GET);
    struct rew_epoch e;
    bool row = false;
    enum ron_rc rc;

    rew__put_text(&u, epoch);
    rc = rew__row(&u, &row, err);
    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_NOTFOUND, "no epoch %.*s", (int)epoch.len, epoch.ptr);
    }
    if (rc == RON_OK) {
        rc = read_epoch(&u, &e, err);
    }
    rew__end(&u);
    if (rc == RON_OK) {
        *ret_epoch = e;
    }
    return rc;
}

static enum ron_rc sum_epoch(struct rew_book *b, const char *epoch, struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_SUM);

    rew__put_text(&u, rew__str(epoch));
    return rew__run(&u, NULL, err);
}

enum ron_rc rew__epoch_move(struct rew_book *b, const struct rew_epoch *epoch, enum rew_state to,
                            enum rew_breach breach, const char *reason, uint64_t now_ms,
                            struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_MOVE);
    struct ron_str text = rew__str(reason != NULL ? reason : "");

    RON_ASSERT(rew_state_may(epoch->state, to));
    text.len = RON_MIN(text.len, sizeof epoch->reason - 1);
    rew__put_text(&u, rew__str(epoch->request.epoch));
    rew__put_text(&u, rew__str(rew_state_name(to)));
    rew__put_text(&u, rew__str(breach_labels[breach]));
    rew__put_text(&u, text);
    rew__put_u64(&u, now_ms);
    RON_TRY(rew__run(&u, NULL, err));
    return sum_epoch(b, epoch->request.epoch, err);
}

enum ron_rc rew__epoch_refuse(const struct rew_epoch *epoch, const char *what, struct ron_err *err)
{
    return ron_err_set(err, RON_CONFLICT, "epoch %s is %s: %s", epoch->request.epoch,
                       rew_state_name(epoch->state), what);
}

/* ---- reserving ------------------------------------------------------------------------------- */

static bool same_request(const struct rew_request *a, const struct rew_request *b)
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
static enum ron_rc take_carry(struct rew_book *b, const struct rew_request *r, struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__CARRY_ADD);
    struct rew_epoch from;

    RON_TRY(rew__epoch_get(b, rew__str(r->carry_epoch), &from, err));
    if (!from.sealed || from.state == REW_QUARANTINED || !from.residual_carries) {
        return ron_err_set(err, RON_NOTFOUND, "epoch %s is %s and has no residual to carry",
                           r->carry_epoch, rew_state_name(from.state));
    }
    if (from.carried_into[0] != '\0') {
        return ron_err_set(err, RON_CONFLICT, "the residual of %s went into %s", r->carry_epoch,
                           from.carried_into);
    }
    rew__put_text(&u, rew__str(r->carry_epoch));
    rew__put_text(&u, rew__str(r->epoch));
    return rew__run(&u, NULL, err);
}

static enum ron_rc add_epoch(struct rew_book *b, const struct rew_request *r, uint64_t now_ms,
                             struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_ADD);

    rew__put_text(&u, rew__str(r->epoch));
    rew__put_bytes(&u, r->run_key.bytes, sizeof r->run_key.bytes);
    rew__put_bytes(&u, r->inputs_cid.bytes, sizeof r->inputs_cid.bytes);
    rew__put_text(&u, rew__str(r->policy_id));
    rew__put_bytes(&u, r->policy_hash.bytes, sizeof r->policy_hash.bytes);
    if (r->has_ledger) {
        rew__put_bytes(&u, r->ledger_root.bytes, sizeof r->ledger_root.bytes);
        rew__put_u64(&u, r->ledger_seq);
    } else {
        rew__put_null(&u);
        rew__put_null(&u);
    }
    rew__put_text(&u, rew__str(r->carry_epoch));
    rew__put_text(&u, rew__str(rew_state_name(REW_RESERVED)));
    rew__put_text(&u, rew__str("")); /* breach, reason, commitment */
    rew__put_text(&u, rew__str(""));
    rew__put_null(&u);
    rew__put_text(&u, rew__str("0")); /* paid, residual, whether it carries, intents */
    rew__put_text(&u, rew__str("0"));
    rew__put_u64(&u, 0);
    rew__put_u64(&u, 0);
    rew__put_u64(&u, now_ms);
    rew__put_u64(&u, now_ms);
    return rew__run(&u, NULL, err);
}

static enum ron_rc reserve(struct rew_book *b, const struct rew_request *request, uint64_t now_ms,
                           struct rew_epoch *e, struct ron_err *err)
{
    struct ron_err none = {0};
    enum ron_rc rc = rew__epoch_get(b, rew__str(request->epoch), e, &none);

    if (rc == RON_OK) {
        if (same_request(&e->request, request)) {
            return ron_err_set(err, RON_EXISTS, "epoch %s is %s", request->epoch,
                               rew_state_name(e->state));
        }
        return rew__epoch_refuse(e, "it belongs to another run", err);
    }
    if (rc != RON_NOTFOUND) {
        return ron_err_set(err, rc, "%s", none.msg);
    }
    if (request->carry_epoch[0] != '\0') {
        RON_TRY(take_carry(b, request, err));
    }
    RON_TRY(add_epoch(b, request, now_ms, err));
    return rew__epoch_get(b, rew__str(request->epoch), e, err);
}

enum ron_rc rew_book_reserve(struct rew_book *b, const struct rew_request *request, uint64_t now_ms,
                             struct rew_epoch *ret_epoch, struct ron_err *err)
{
    struct rew_epoch e;
    enum ron_rc rc;

    RON_TRY(rew__book_begin(b, true, err));
    rc = rew__book_end(b, reserve(b, request, now_ms, &e, err), err);
    if (rc == RON_OK || rc == RON_EXISTS) {
        *ret_epoch = e;
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum ron_rc rew_book_get(struct rew_book *b, struct ron_str epoch, struct rew_epoch *ret_epoch,
                         struct ron_err *err)
{
    RON_TRY(rew__book_begin(b, false, err));
    return rew__book_end(b, rew__epoch_get(b, epoch, ret_epoch, err), err);
}

static enum ron_rc list(struct rew_book *b, struct ron_str after, enum rew_state state,
                        struct rew_epoch *ret_epochs, size_t max, size_t *ret_count,
                        struct ron_err *err)
{
    bool all = state == REW_STATE_COUNT;
    struct rew__use u = rew__ask(b, all ? REW__EPOCH_LIST : REW__EPOCH_LIST_STATE);
    enum ron_rc rc = RON_OK;
    size_t count = 0;
    bool row = true;

    rew__put_text(&u, after);
    rew__put_u64(&u, max);
    if (!all) {
        rew__put_text(&u, rew__str(rew_state_name(state)));
    }
    while (rc == RON_OK && row && count < max) {
        rc = rew__row(&u, &row, err);
        if (rc == RON_OK && row) {
            rc = read_epoch(&u, &ret_epochs[count], err);
            count++;
        }
    }
    rew__end(&u);
    if (rc == RON_OK) {
        *ret_count = count;
    }
    return rc;
}

enum ron_rc rew_book_list(struct rew_book *b, struct ron_str after, enum rew_state state,
                          struct rew_epoch *ret_epochs, size_t max, size_t *ret_count,
                          struct ron_err *err)
{
    RON_TRY(rew__book_begin(b, false, err));
    return rew__book_end(b, list(b, after, state, ret_epochs, max, ret_count, err), err);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static enum ron_rc move(struct rew_book *b, struct ron_str epoch, enum rew_state from,
                        enum rew_state to, const char *reason, uint64_t now_ms, struct ron_err *err)
{
    struct rew_epoch e;

    RON_TRY(rew__epoch_get(b, epoch, &e, err));
    if (e.state != from) {
        return rew__epoch_refuse(&e, "another state was expected", err);
    }
    return rew__epoch_move(b, &e, to, REW_BREACH_NONE, reason, now_ms, err);
}

enum ron_rc rew_book_move(struct rew_book *b, struct ron_str epoch, enum rew_state from,
                          enum rew_state to, const char *reason, uint64_t now_ms,
                          struct ron_err *err)
{
    if (!(from == REW_RESERVED && to == REW_COMPUTING) &&
        !(from == REW_EMITTING && to == REW_WITHHELD)) {
        return ron_err_set(err, RON_INVALID, "no plain way from %s to %s", rew_state_name(from),
                           rew_state_name(to));
    }
    RON_TRY(rew__book_begin(b, true, err));
    return rew__book_end(b, move(b, epoch, from, to, reason, now_ms, err), err);
}

static enum ron_rc seal(struct rew_book *b, const struct rew_manifest *m, uint64_t now_ms,
                        struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_SEAL);
    char paid[RON_MONEY_TEXT_SIZE];
    char residual[RON_MONEY_TEXT_SIZE];
    struct rew_epoch e;

    RON_TRY(rew__epoch_get(b, m->epoch, &e, err));
    if (e.state != REW_COMPUTING) {
        return rew__epoch_refuse(&e, "only what is computing can be sealed", err);
    }
    if (!ron_b3_equal(&e.request.run_key, &m->run_key)) {
        return rew__epoch_refuse(&e, "it belongs to another run", err);
    }
    (void)ron_money_format(m->totals.paid, paid);
    (void)ron_money_format(m->totals.residual, residual);
    rew__put_text(&u, m->epoch);
    rew__put_bytes(&u, m->commitment.bytes, sizeof m->commitment.bytes);
    rew__put_text(&u, rew__str(paid));
    rew__put_text(&u, rew__str(residual));
    rew__put_u64(&u, m->residual == REW_RESIDUAL_CARRY);
    rew__put_u64(&u, rew_intent_count(m));
    rew__put_u64(&u, now_ms);
    RON_TRY(rew__run(&u, NULL, err));
    return sum_epoch(b, e.request.epoch, err);
}

enum ron_rc rew_book_seal(struct rew_book *b, const struct rew_manifest *m, uint64_t now_ms,
                          struct ron_err *err)
{
    if (m->status != REW_STATUS_OK) {
        return ron_err_set(err, RON_INVALID, "a run that broke a rule is not sealed");
    }
    RON_TRY(rew__book_begin(b, true, err));
    return rew__book_end(b, seal(b, m, now_ms, err), err);
}

static enum ron_rc quarantine(struct rew_book *b, struct ron_str epoch, enum rew_breach breach,
                              const char *reason, uint64_t now_ms, struct ron_err *err)
{
    struct rew_epoch e;

    RON_TRY(rew__epoch_get(b, epoch, &e, err));
    if (!rew_state_may(e.state, REW_QUARANTINED)) {
        return rew__epoch_refuse(&e, "it cannot be quarantined", err);
    }
    return rew__epoch_move(b, &e, REW_QUARANTINED, breach, reason, now_ms, err);
}

enum ron_rc rew_book_quarantine(struct rew_book *b, struct ron_str epoch, enum rew_breach breach,
                                const char *reason, uint64_t now_ms, struct ron_err *err)
{
    if (breach == REW_BREACH_NONE || (unsigned)breach >= REW_BREACH_COUNT) {
        return ron_err_set(err, RON_INVALID, "a quarantine has a breach");
    }
    RON_TRY(rew__book_begin(b, true, err));
    return rew__book_end(b, quarantine(b, epoch, breach, reason, now_ms, err), err);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Removes an epoch that was never sealed; what it was to carry in is free again. */
static enum ron_rc drop_unsealed(struct rew_book *b, const struct rew_epoch *e, struct ron_err *err)
{
    struct rew__use carry = rew__ask(b, REW__CARRY_DROP);
    struct rew__use row = rew__ask(b, REW__EPOCH_DROP);

    RON_ASSERT(!e->sealed);
    rew__put_text(&carry, rew__str(e->request.epoch));
    RON_TRY(rew__run(&carry, NULL, err));
    rew__put_text(&row, rew__str(e->request.epoch));
    return rew__run(&row, NULL, err);
}

static enum ron_rc forget(struct rew_book *b, struct ron_str epoch, struct ron_err *err)
{
    struct rew_epoch e;

    RON_TRY(rew__epoch_get(b, epoch, &e, err));
    if (e.state != REW_RESERVED && e.state != REW_COMPUTING) {
        return rew__epoch_refuse(&e, "it has a verdict", err);
    }
    return drop_unsealed(b, &e, err);
}

enum ron_rc rew_book_forget(struct rew_book *b, struct ron_str epoch, struct ron_err *err)
{
    RON_TRY(rew__book_begin(b, true, err));
    return rew__book_end(b, forget(b, epoch, err), err);
}

static enum ron_rc release(struct rew_book *b, struct ron_str epoch, uint64_t now_ms,
                           bool *ret_again, struct ron_err *err)
{
    struct rew_epoch e;

    RON_TRY(rew__epoch_get(b, epoch, &e, err));
    if (e.state != REW_QUARANTINED) {
        return rew__epoch_refuse(&e, "it is not in quarantine", err);
    }
    *ret_again = e.sealed;
    if (!e.sealed) {
        return drop_unsealed(b, &e, err);
    }
    return rew__epoch_move(b, &e, REW_WITHHELD, REW_BREACH_NONE, "released from quarantine", now_ms,
                           err);
}

enum ron_rc rew_book_release(struct rew_book *b, struct ron_str epoch, uint64_t now_ms,
                             bool *ret_again, struct ron_err *err)
{
    bool again = false;

    RON_TRY(rew__book_begin(b, true, err));
    RON_TRY(rew__book_end(b, release(b, epoch, now_ms, &again, err), err));
    *ret_again = again;
    return RON_OK;
}

/* The first epoch after `after` that may go; *ret_found false: there is none. */
static enum ron_rc find_old(struct rew_book *b, const char *after, uint64_t before_ms,
                            char ret_epoch[REW_EPOCH_MAX + 1], bool *ret_found, struct ron_err *err)
{
    struct rew__use u = rew__ask(b, REW__EPOCH_OLD);
    enum ron_rc rc;

    rew__put_text(&u, rew__str(after));
    rew__put_u64(&u, before_ms);
    rew__put_u64(&u, 1);
    rc = rew__row(&u, ret_found, err);
    if (rc == RON_OK && *ret_found) {
        rc = rew__get_text(&u, 0, ret_epoch, REW_EPOCH_MAX + 1, err);
    }
    rew__end(&u);
    return rc;
}

static enum ron_rc retire_one(struct rew_book *b, const char *name, struct ron_err *err)
{
    struct rew__use batches = rew__ask(b, REW__BATCH_DROP);
    struct rew_epoch epoch;

    rew__put_text(&batches, rew__str(name));
    RON_TRY(rew__run(&batches, NULL, err));
    RON_TRY(rew__epoch_get(b, rew__str(name), &epoch, err));
    return rew__epoch_move(b, &epoch, REW_RETIRED, REW_BREACH_NONE, NULL, epoch.changed_ms, err);
}

enum ron_rc rew_book_retire(struct rew_book *b, uint64_t before_ms,
                            void (*each)(void *arg, const char *epoch), void *arg,
                            struct ron_err *err)
{
    char epoch[REW_EPOCH_MAX + 1] = "";
    char after[REW_EPOCH_MAX + 1] = "";
    bool found = true;

    /* Nobody else leads out of EMITTED, so what was found is still so when it is retired. */
    for (;;) {
        RON_TRY(rew__book_begin(b, false, err));
        RON_TRY(rew__book_end(b, find_old(b, after, before_ms, epoch, &found, err), err));
        if (!found) {
            return RON_OK;
        }
        each(arg, epoch);
        RON_TRY(rew__book_begin(b, true, err));
        RON_TRY(rew__book_end(b, retire_one(b, epoch, err), err));
        memcpy(after, epoch, sizeof after);
    }
}
