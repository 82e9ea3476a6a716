/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/outbox_posix.c - the batches of settlements: planned, stamped, done.
 *
 * Place: rewarder; rule B3 of book.h. */
#include "rewarder/book/priv.h"

/* ---- planning -------------------------------------------------------------------------------- */

static enum ron_rc any_row(struct rwd_book *b, enum rwd__statement statement, struct ron_str epoch,
                           bool *ret_any, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, statement);
    enum ron_rc rc;

    ron_sql_put_text(&u, epoch);
    rc = rwd__row(&u, ret_any, err);
    ron_sql_done(&u);
    return rc;
}

static enum ron_rc plan(struct rwd_book *b, const struct rwd_epoch *e, uint32_t batch_max,
                        uint64_t now_ms, struct ron_err *err)
{
    uint64_t first = 0;

    for (uint64_t no = 0; first < e->intents; no++) {
        struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_ADD);
        uint64_t count = RON_MIN((uint64_t)batch_max, e->intents - first);

        ron_sql_put_text(&u, ron_str_of(e->request.epoch));
        ron_sql_put_u64(&u, no);
        ron_sql_put_u64(&u, first);
        ron_sql_put_u64(&u, count);
        ron_sql_put_u64(&u, 0); /* attempt */
        ron_sql_put_u64(&u, now_ms);
        for (int i = 0; i < 4; i++) { /* done, seq_first, seq_last, commit_ms */
            ron_sql_put_u64(&u, 0);
        }
        RON_TRY(rwd__run(&u, NULL, err));
        first += count;
    }
    return RON_OK;
}

static enum ron_rc emit(struct rwd_book *b, struct ron_str epoch, uint32_t batch_max,
                        uint64_t now_ms, bool *ret_all, struct ron_err *err)
{
    struct rwd_epoch e;
    bool any = false;
    bool open = false;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    if (e.state != RWD_SEALED && e.state != RWD_WITHHELD) {
        return rwd__epoch_refuse(&e, "it cannot be emitted", err);
    }
    if ((e.intents + batch_max - 1) / batch_max > UINT32_MAX) {
        return ron_err_set(err, RON_LIMIT, "too many batches");
    }
    RON_TRY(any_row(b, RWD__BATCH_ANY, epoch, &any, err));
    if (!any) {
        RON_TRY(plan(b, &e, batch_max, now_ms, err));
    }
    RON_TRY(any_row(b, RWD__BATCH_OPEN, epoch, &open, err));
    *ret_all = !open;
    return rwd__epoch_move(b, &e, open ? RWD_EMITTING : RWD_EMITTED, RWD_BREACH_NONE, NULL, now_ms,
                           err);
}

enum ron_rc rwd_book_emit(struct rwd_book *b, struct ron_str epoch, uint32_t batch_max,
                          uint64_t now_ms, bool *ret_all, struct ron_err *err)
{
    bool all = false;

    if (batch_max == 0) {
        return ron_err_set(err, RON_INVALID, "a batch has at least one entry");
    }
    RON_TRY(rwd__book_begin(b, true, err));
    RON_TRY(rwd__book_end(b, emit(b, epoch, batch_max, now_ms, &all, err), err));
    *ret_all = all;
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum ron_rc list(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                        struct rwd_batch *ret_batches, size_t max, size_t *ret_count,
                        struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_LIST);
    enum ron_rc rc = RON_OK;
    size_t count = 0;
    bool row = true;

    ron_sql_put_text(&u, epoch);
    ron_sql_put_u64(&u, no);
    ron_sql_put_u64(&u, max);
    while (rc == RON_OK && row && count < max) {
        rc = rwd__row(&u, &row, err);
        if (rc == RON_OK && row) {
            rc = ron_sql_get_whole(&u, err);
            ret_batches[count++] = (struct rwd_batch){.no = (uint32_t)ron_sql_get_u64(&u, 0),
                                                      .first = ron_sql_get_u64(&u, 1),
                                                      .count = (uint32_t)ron_sql_get_u64(&u, 2),
                                                      .attempt = (uint32_t)ron_sql_get_u64(&u, 3),
                                                      .ts_ms = ron_sql_get_u64(&u, 4),
                                                      .state = RWD_BATCH_PLANNED};
        }
    }
    ron_sql_done(&u);
    if (rc == RON_OK) {
        *ret_count = count;
    }
    return rc;
}

enum ron_rc rwd_book_batches(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                             struct rwd_batch *ret_batches, size_t max, size_t *ret_count,
                             struct ron_err *err)
{
    RON_TRY(rwd__book_begin(b, false, err));
    return rwd__book_end(b, list(b, epoch, no, ret_batches, max, ret_count, err), err);
}

/* Adds one row of SETTLEMENT. */
static enum ron_rc add_batch(const struct ron_sql_use *u, struct rwd_settlement *s,
                             uint64_t *intents, struct ron_err *err)
{
    uint64_t entries = ron_sql_get_u64(u, 0);
    uint64_t done = ron_sql_get_u64(u, 1);
    uint64_t seq_first = ron_sql_get_u64(u, 2);
    uint64_t seq_last = ron_sql_get_u64(u, 3);

    RON_TRY(ron_sql_get_whole(u, err));
    *intents += entries;
    s->batches++;
    s->batches_done += (uint32_t)done;
    s->intents_done += entries * done;
    s->seq_first =
        seq_first > 0 && (s->seq_first == 0 || seq_first < s->seq_first) ? seq_first : s->seq_first;
    s->seq_last = RON_MAX(s->seq_last, seq_last);
    return RON_OK;
}

static enum ron_rc settlement(struct rwd_book *b, struct ron_str epoch, struct rwd_settlement *s,
                              struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__SETTLEMENT);
    struct rwd_epoch e;
    uint64_t intents = 0;
    enum ron_rc rc = RON_OK;
    bool row = true;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    *s = (struct rwd_settlement){.intents = e.intents};
    ron_sql_put_text(&u, epoch);
    while (rc == RON_OK && row) {
        rc = rwd__row(&u, &row, err);
        if (rc == RON_OK && row) {
            rc = add_batch(&u, s, &intents, err);
        }
    }
    ron_sql_done(&u);
    if (rc == RON_OK && s->batches != 0 && intents != e.intents) {
        rc = ron_err_set(err, RON_CORRUPT, "book: the plan of %s is not whole", e.request.epoch);
    }
    return rc;
}

enum ron_rc rwd_book_settlement(struct rwd_book *b, struct ron_str epoch,
                                struct rwd_settlement *ret_settlement, struct ron_err *err)
{
    struct rwd_settlement s;

    RON_TRY(rwd__book_begin(b, false, err));
    RON_TRY(rwd__book_end(b, settlement(b, epoch, &s, err), err));
    *ret_settlement = s;
    return RON_OK;
}

/* ---- marking --------------------------------------------------------------------------------- */

struct mark {
    bool done;
    uint32_t attempt;
};

static enum ron_rc get_batch(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                             struct mark *ret_mark, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_GET);
    bool row = false;
    enum ron_rc rc;

    ron_sql_put_text(&u, epoch);
    ron_sql_put_u64(&u, no);
    rc = rwd__row(&u, &row, err);
    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_NOTFOUND, "no batch %u of epoch %.*s", (unsigned)no,
                         (int)epoch.len, epoch.ptr);
    }
    if (rc == RON_OK) {
        *ret_mark = (struct mark){.done = ron_sql_get_u64(&u, 0) != 0,
                                  .attempt = (uint32_t)ron_sql_get_u64(&u, 1)};
        rc = ron_sql_get_whole(&u, err);
    }
    ron_sql_done(&u);
    return rc;
}

static enum ron_rc sum_batch(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                             struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_SUM);

    ron_sql_put_text(&u, epoch);
    ron_sql_put_u64(&u, no);
    return rwd__run(&u, NULL, err);
}

static enum ron_rc mark_done(struct rwd_book *b, struct ron_str epoch, const struct rwd_batch *row,
                             struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_DONE);
    struct mark mark;

    RON_TRY(get_batch(b, epoch, row->no, &mark, err));
    if (mark.done) {
        return RON_OK; /* the first word stays */
    }
    ron_sql_put_text(&u, epoch);
    ron_sql_put_u64(&u, row->no);
    ron_sql_put_u64(&u, row->seq_first);
    ron_sql_put_u64(&u, row->seq_last);
    ron_sql_put_u64(&u, row->commit_ms);
    RON_TRY(rwd__run(&u, NULL, err));
    return sum_batch(b, epoch, row->no, err);
}

static enum ron_rc done(struct rwd_book *b, struct ron_str epoch, const struct rwd_batch *batches,
                        size_t count, uint64_t now_ms, bool *ret_all, struct ron_err *err)
{
    struct rwd_epoch e;
    bool open = false;

    RON_TRY(rwd__epoch_get(b, epoch, &e, err));
    for (size_t i = 0; i < count; i++) {
        RON_TRY(mark_done(b, epoch, &batches[i], err));
    }
    RON_TRY(any_row(b, RWD__BATCH_OPEN, epoch, &open, err));
    if (!open && (e.state == RWD_EMITTING || e.state == RWD_WITHHELD)) {
        RON_TRY(rwd__epoch_move(b, &e, RWD_EMITTED, RWD_BREACH_NONE, NULL, now_ms, err));
        e.state = RWD_EMITTED;
    }
    *ret_all = e.state == RWD_EMITTED;
    return RON_OK;
}

enum ron_rc rwd_book_done(struct rwd_book *b, struct ron_str epoch, const struct rwd_batch *batches,
                          size_t count, uint64_t now_ms, bool *ret_all, struct ron_err *err)
{
    bool all = false;

    RON_TRY(rwd__book_begin(b, true, err));
    RON_TRY(rwd__book_end(b, done(b, epoch, batches, count, now_ms, &all, err), err));
    *ret_all = all;
    return RON_OK;
}

static enum ron_rc stamp(struct rwd_book *b, struct ron_str epoch, uint32_t no, uint64_t ts_ms,
                         uint32_t *ret_attempt, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__BATCH_STAMP);
    struct mark mark;

    RON_TRY(get_batch(b, epoch, no, &mark, err));
    if (mark.done) {
        return ron_err_set(err, RON_CONFLICT, "batch %u is done", (unsigned)no);
    }
    *ret_attempt = mark.attempt + 1;
    ron_sql_put_text(&u, epoch);
    ron_sql_put_u64(&u, no);
    ron_sql_put_u64(&u, ts_ms);
    RON_TRY(rwd__run(&u, NULL, err));
    return sum_batch(b, epoch, no, err);
}

enum ron_rc rwd_book_stamp(struct rwd_book *b, struct ron_str epoch, uint32_t no, uint64_t ts_ms,
                           uint32_t *ret_attempt, struct ron_err *err)
{
    uint32_t attempt = 0;

    RON_TRY(rwd__book_begin(b, true, err));
    RON_TRY(rwd__book_end(b, stamp(b, epoch, no, ts_ms, &attempt, err), err));
    *ret_attempt = attempt;
    return RON_OK;
}
