/* SPDX-License-Identifier: Apache-2.0 */
/* pg_own_posix.c - tables with one owner and numbered commits; the contract is in ron/pg/pg_own.h.
 *
 * A commit number n + 1 of which no answer came is `open`. The row then says n (it was not
 * committed yet, and may still be running), n + 1 (it was) or n + 2 (we have made it impossible: a
 * commit wants to find n). Both writers meet at the locked row, so one of them wins for good. */
#include "ron/pg/pg_own.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pg/pg_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum {
    CONNECT_MS = 1000,
    CALL_MS = 5000,
    PAUSE_MS = 200,
    OPEN_TRIES = 30,
    CLOSE_MS = 500,
    STEP_MS = 100,
    SQL_SIZE = 800,
    WRITE_TRIES = 2, /* one, and one more when the answer was lost */
};

enum settled { SETTLED_NOTHING, SETTLED_COMMITTED, SETTLED_VOID };

struct ron_pg_own {
    const struct ron_env *env;
    struct ron_pg *pg;
    const char *table;
    const char *const *steps;
    uint32_t step_count;
    uint64_t call_ms;
    uint64_t pause_ns;
    uint64_t retry_ns; /* nothing is tried before */
    uint64_t epoch;
    uint64_t commits; /* the last that is known */
    bool session;     /* this connection was greeted */
    bool open;        /* commits + 1 was sent */
    bool fenced;      /* O1 */
    bool lost;        /* O5 */
    bool changed;
    bool within; /* a transaction */
    bool failed; /* it cannot be committed */
};

/* Where the row stands. */
struct row {
    uint64_t layout;
    uint64_t epoch;
    uint64_t commits;
    bool alone; /* the lock of the session is ours */
};

static struct ron_deadline call_deadline(const struct ron_pg_own *o)
{
    return ron_deadline_after_ms(ron_env_now_ns(o->env), o->call_ms);
}

void ron_pg_own_pause(struct ron_pg_own *o)
{
    (void)o;
    ron_blocking_point("pg_own_pause");
    (void)poll(NULL, 0, STEP_MS);
}

bool ron_pg_own_changed(struct ron_pg_own *o)
{
    bool changed = o->changed;

    o->changed = false;
    return changed;
}

uint64_t ron_pg_own_epoch(const struct ron_pg_own *o)
{
    return o->epoch;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* Of a statement that ended without DONE and has certainly changed nothing. */
static enum ron_rc code_of(const struct ron_pg_own *o, enum ron_pg_fate fate, enum ron_rc rc)
{
    if (fate != RON_PG_REFUSED) {
        return RON_AGAIN;
    }
    if (strncmp(ron_pg_state(o->pg), "53100", 5) == 0) {
        return RON_FULL;
    }
    /* No such table or column, a constraint that is broken: not what we have made. */
    return rc == RON_AGAIN || rc == RON_DENIED ? rc : RON_CORRUPT;
}

static enum ron_rc fenced_code(struct ron_err *err)
{
    return ron_err_set(err, RON_CONFLICT, "another process owns the tables");
}

/* ---- the row --------------------------------------------------------------------------------- */

/* One statement whose outcome matters only when it is DONE. */
static enum ron_rc ask(struct ron_pg_own *o, const char *sql, const struct ron_pg_param *params,
                       size_t count, struct ron_pg_result *ret_result, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_pg_fate fate;
    enum ron_rc rc =
        ron_pg_exec(o->pg, sql, params, count, call_deadline(o), &fate, ret_result, &why);

    if (rc == RON_OK) {
        return RON_OK;
    }
    return ron_err_set(err, code_of(o, fate, rc), "%s", why.msg);
}

/* The row, and with it the hint of O4. A server that has not heard of a vanished owner for a while
 * gives it up: the defaults of an operating system are hours. */
static enum ron_rc read_row(struct ron_pg_own *o, struct row *ret, struct ron_err *err)
{
    struct ron_pg_result r = {0};
    const uint8_t *alone;
    char sql[SQL_SIZE];
    size_t len = 0;
    enum ron_rc rc = RON_OK;

    (void)snprintf(sql, sizeof sql,
                   "SELECT layout,epoch,commits,"
                   "pg_try_advisory_lock(1919905280::int8<<32|tableoid::int8),"
                   "set_config('tcp_keepalives_idle','5',false),"
                   "set_config('tcp_keepalives_interval','2',false),"
                   "set_config('tcp_keepalives_count','3',false),"
                   "set_config('statement_timeout','0',false),"
                   "set_config('idle_in_transaction_session_timeout','0',false),"
                   "set_config('default_transaction_isolation','read committed',false),"
                   /* What is acknowledged must be on a disk, whatever the role's default is. */
                   "CASE current_setting('synchronous_commit') WHEN 'off' "
                   "THEN set_config('synchronous_commit','on',false) END "
                   "FROM %s WHERE one=1",
                   o->table);
    RON_TRY(ask(o, sql, NULL, 0, &r, err));
    if (ron_pg_rows(&r) != 1) {
        rc = ron_err_set(err, RON_CORRUPT, "%s has no row", o->table);
    }
    rc = rc == RON_OK ? ron_pg_value_u64(&r, 0, 0, &ret->layout, err) : rc;
    rc = rc == RON_OK ? ron_pg_value_u64(&r, 0, 1, &ret->epoch, err) : rc;
    rc = rc == RON_OK ? ron_pg_value_u64(&r, 0, 2, &ret->commits, err) : rc;
    if (rc == RON_OK) {
        ron_pg_value(&r, 0, 3, &alone, &len);
        ret->alone = len == 1 && alone[0] == 1;
    }
    ron_pg_result_done(&r);
    return rc;
}

/* Changes the row from what it was; whether it was so. */
static enum ron_rc change_row(struct ron_pg_own *o, uint64_t epoch, uint64_t commits,
                              uint64_t new_epoch, uint64_t new_commits, bool *ret_was,
                              struct ron_err *err)
{
    struct ron_pg_result r = {0};
    struct ron_pg_param p[4];
    char sql[SQL_SIZE];

    (void)snprintf(sql, sizeof sql,
                   "UPDATE %s SET epoch=$3,commits=$4 WHERE one=1 AND epoch=$1 AND commits=$2",
                   o->table);
    ron_pg_u64(&p[0], epoch);
    ron_pg_u64(&p[1], commits);
    ron_pg_u64(&p[2], new_epoch);
    ron_pg_u64(&p[3], new_commits);
    RON_TRY(ask(o, sql, p, 4, &r, err));
    *ret_was = r.affected == 1;
    ron_pg_result_done(&r);
    return RON_OK;
}

/* ---- becoming ready -------------------------------------------------------------------------- */

/* Takes the tables from who had them, if nobody is heard of. */
static enum ron_rc claim(struct ron_pg_own *o, const struct row *row, struct ron_err *err)
{
    bool was = false;

    if (!row->alone) {
        return fenced_code(err);
    }
    RON_TRY(change_row(o, row->epoch, row->commits, row->epoch + 1, row->commits, &was, err));
    if (!was) { /* its last commit, or another one who claims: look again */
        return ron_err_set(err, RON_AGAIN, "another process wrote to the tables");
    }
    o->epoch = row->epoch + 1;
    o->commits = row->commits;
    o->changed = true;
    o->fenced = false;
    o->open = false;
    o->session = true;
    return RON_OK;
}

/* O3: a commit that was found by reading may wait for its standby still, or have been let go
 * without one. One more, which was answered without a warning, vouches for all before it. */
static enum ron_rc confirm(struct ron_pg_own *o, struct ron_err *err)
{
    struct ron_pg_param p;
    char sql[SQL_SIZE];

    (void)snprintf(sql, sizeof sql, "UPDATE %s SET layout=layout WHERE one=1 AND epoch=$1",
                   o->table);
    ron_pg_u64(&p, o->epoch);
    return ask(o, sql, &p, 1, NULL, err);
}

/* O2: what became of commits + 1. */
static enum ron_rc settle(struct ron_pg_own *o, const struct row *row, enum settled *ret,
                          struct ron_err *err)
{
    bool was = false;

    if (row->commits == o->commits) {
        RON_TRY(change_row(o, o->epoch, o->commits, o->epoch, o->commits + 2, &was, err));
        if (!was) {
            return ron_err_set(err, RON_AGAIN, "a commit is being settled");
        }
    }
    if (was || row->commits == o->commits + 2) {
        o->commits += 2;
        *ret = SETTLED_VOID;
    } else {
        RON_TRY(confirm(o, err));
        o->commits += 1;
        *ret = SETTLED_COMMITTED;
    }
    o->open = false;
    return RON_OK;
}

static enum ron_rc check_row(struct ron_pg_own *o, const struct row *row, struct ron_err *err)
{
    if (row->epoch > o->epoch) {
        o->fenced = true;
        return claim(o, row, err);
    }
    if (row->epoch < o->epoch || row->commits < o->commits ||
        row->commits > o->commits + (o->open ? 2 : 0)) {
        o->lost = true;
        return ron_err_set(err, RON_CORRUPT,
                           "the database lacks what it acknowledged: it stands at commit %llu of "
                           "%llu",
                           (unsigned long long)row->commits, (unsigned long long)o->commits);
    }
    return RON_OK;
}

static enum ron_rc greet(struct ron_pg_own *o, enum settled *ret, struct ron_err *err)
{
    struct row row;

    RON_TRY(read_row(o, &row, err));
    if (row.layout > o->step_count) {
        return ron_err_set(err, RON_UNSUPPORTED, "%s has layout %llu; this program knows %u",
                           o->table, (unsigned long long)row.layout, (unsigned)o->step_count);
    }
    RON_TRY(check_row(o, &row, err));
    o->session = true;
    if (o->open) {
        return settle(o, &row, ret, err);
    }
    return RON_OK;
}

static enum ron_rc make_ready(struct ron_pg_own *o, enum settled *ret, struct ron_err *err)
{
    uint64_t now_ns = ron_env_now_ns(o->env);
    enum ron_rc rc;

    *ret = SETTLED_NOTHING;
    if (o->lost) {
        return ron_err_set(err, RON_CORRUPT, "the database lacks what it acknowledged");
    }
    o->session = o->session && ron_pg_connected(o->pg);
    if (o->session && !o->open && !o->fenced) {
        return RON_OK;
    }
    if (now_ns < o->retry_ns) {
        return o->fenced ? fenced_code(err) : ron_err_set(err, RON_AGAIN, "the database is away");
    }
    rc = greet(o, ret, err);
    if (rc != RON_OK) {
        o->retry_ns = ron_env_now_ns(o->env) + o->pause_ns;
    }
    return rc;
}

enum ron_rc ron_pg_own_ready(struct ron_pg_own *o, struct ron_err *err)
{
    enum settled settled;

    RON_ASSERT(!o->within);
    RON_TRY(make_ready(o, &settled, err));
    o->changed = o->changed || settled == SETTLED_COMMITTED;
    return RON_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

enum ron_rc ron_pg_own_ask(struct ron_pg_own *o, const char *sql, const struct ron_pg_param *params,
                           size_t count, struct ron_pg_result *ret_result, struct ron_err *err)
{
    enum ron_rc rc;

    /* A new connection knows nothing of the transaction. */
    if (o->within && (o->failed || !ron_pg_connected(o->pg))) {
        o->failed = true;
        return ron_err_set(err, RON_AGAIN, "the transaction is lost");
    }
    rc = ask(o, sql, params, count, ret_result, err);
    o->failed = o->failed || (o->within && rc != RON_OK);
    return rc;
}

static enum ron_rc count_of(struct ron_pg_result *r, uint64_t *ret, struct ron_err *err)
{
    enum ron_rc rc = ron_pg_rows(r) == 1 ? ron_pg_value_u64(r, 0, 0, ret, err)
                                         : ron_err_set(err, RON_CORRUPT, "no count came back");

    ron_pg_result_done(r);
    return rc;
}

/* The row was not as expected: somebody else's, or our own earlier try was faster. */
static enum ron_rc not_written(struct ron_pg_own *o, struct ron_err *err)
{
    struct row row;
    bool open = o->open;

    RON_TRY(read_row(o, &row, err));
    if (open && row.epoch == o->epoch && row.commits == o->commits + 1) {
        if (confirm(o, err) != RON_OK) {
            o->session = false;
            return ron_err_set(err, RON_TIMEOUT, "a commit could not be confirmed");
        }
        o->commits++;
        o->open = false;
        o->session = true;
        return RON_OK;
    }
    o->session = false; /* to be looked at by the next ready */
    if (row.epoch > o->epoch) {
        o->fenced = true;
        o->open = false;
        o->changed = true;
        return fenced_code(err);
    }
    return ron_err_set(err, open ? RON_TIMEOUT : RON_AGAIN, "the commit did not find its place");
}

enum ron_rc ron_pg_own_write(struct ron_pg_own *o, const char *sql, struct ron_pg_param *params,
                             size_t count, struct ron_err *err)
{
    enum ron_rc rc = RON_AGAIN;

    RON_ASSERT(!o->within && !o->open && count >= 2);
    ron_pg_u64(&params[0], o->epoch);
    ron_pg_u64(&params[1], o->commits);
    for (int i = 0; i < WRITE_TRIES; i++) {
        struct ron_pg_result r = {0};
        struct ron_err why = {0};
        enum ron_pg_fate fate;
        uint64_t written = 0;
        struct row row;

        if (o->open) { /* a new connection; perhaps it is there already */
            if (read_row(o, &row, &why) != RON_OK) {
                break;
            }
            if (row.epoch != o->epoch || row.commits != o->commits) {
                return not_written(o, err);
            }
            o->session = true;
        }
        rc = ron_pg_exec(o->pg, sql, params, count, call_deadline(o), &fate, &r, &why);
        if (rc == RON_OK) {
            RON_TRY(count_of(&r, &written, err));
            if (written != 1) {
                return not_written(o, err);
            }
            o->commits++;
            o->open = false;
            return RON_OK;
        }
        if (fate == RON_PG_UNKNOWN) {
            o->open = true;
            o->session = false;
        }
        rc = o->open ? RON_TIMEOUT : code_of(o, fate, rc);
        (void)ron_err_set(err, rc, "%s", why.msg);
        if (fate != RON_PG_UNKNOWN) {
            break;
        }
    }
    return rc;
}

/* ---- transactions ---------------------------------------------------------------------------- */

enum ron_rc ron_pg_own_begin(struct ron_pg_own *o, struct ron_err *err)
{
    bool was = false;
    enum ron_rc rc;

    RON_TRY(ron_pg_own_ready(o, err));
    RON_TRY(ask(o, "BEGIN", NULL, 0, NULL, err));
    o->within = true;
    o->failed = !ron_pg_connected(o->pg);
    rc = o->failed ? ron_err_set(err, RON_AGAIN, "the transaction is lost")
                   : change_row(o, o->epoch, o->commits, o->epoch, o->commits + 1, &was, err);
    if (rc == RON_OK && was) {
        return RON_OK;
    }
    ron_pg_own_rollback(o);
    o->session = false;
    return rc == RON_OK ? not_written(o, err) : rc;
}

void ron_pg_own_rollback(struct ron_pg_own *o)
{
    enum ron_pg_fate fate;

    /* What was not committed is gone with the connection too. */
    if (o->within && ron_pg_connected(o->pg) &&
        ron_pg_exec(o->pg, "ROLLBACK", NULL, 0, call_deadline(o), &fate, NULL, NULL) != RON_OK) {
        ron_pg_drop(o->pg);
    }
    o->within = false;
    o->failed = false;
}

enum ron_rc ron_pg_own_commit(struct ron_pg_own *o, uint64_t patience_ms, struct ron_err *err)
{
    struct ron_deadline until = ron_deadline_after_ms(ron_env_now_ns(o->env), patience_ms);
    enum settled settled = SETTLED_NOTHING;
    struct ron_err why = {0};
    enum ron_pg_fate fate;
    enum ron_rc rc;

    RON_ASSERT(o->within);
    if (o->failed || !ron_pg_connected(o->pg)) {
        ron_pg_own_rollback(o);
        return ron_err_set(err, RON_AGAIN, "the transaction is lost");
    }
    o->within = false;
    rc = ron_pg_exec(o->pg, "COMMIT", NULL, 0, call_deadline(o), &fate, NULL, &why);
    if (rc == RON_OK) {
        o->commits++;
        return RON_OK;
    }
    if (fate != RON_PG_UNKNOWN) {
        return ron_err_set(err, code_of(o, fate, rc), "%s", why.msg);
    }
    o->open = true;
    o->session = false;
    do {
        rc = make_ready(o, &settled, err);
        if (settled == SETTLED_COMMITTED) {
            return RON_OK;
        }
        if (settled == SETTLED_VOID) {
            return ron_err_set(err, RON_AGAIN, "%s", why.msg);
        }
        if (rc == RON_OK || rc == RON_CONFLICT || rc == RON_CORRUPT) {
            /* Another owner: whether ours was in before is not to be seen any more. */
            return ron_err_set(err, rc == RON_OK ? RON_TIMEOUT : rc, "%s", why.msg);
        }
        ron_pg_own_pause(o);
    } while (!ron_deadline_expired(until, ron_env_now_ns(o->env)));
    return ron_err_set(err, RON_TIMEOUT, "%s", why.msg);
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum ron_rc find_layout(struct ron_pg_own *o, uint64_t *ret, struct ron_err *err)
{
    struct ron_pg_result r = {0};
    struct ron_pg_param p;
    char sql[SQL_SIZE];
    enum ron_rc rc = RON_OK;
    bool there;

    ron_pg_text(&p, o->table, strlen(o->table));
    RON_TRY(ask(o, "SELECT to_regclass($1)::oid::int8", &p, 1, &r, err));
    there = ron_pg_rows(&r) == 1 && !ron_pg_is_null(&r, 0, 0);
    ron_pg_result_done(&r);
    *ret = 0;
    if (!there) {
        return RON_OK;
    }
    (void)snprintf(sql, sizeof sql, "SELECT layout::int8 FROM %s WHERE one=1", o->table);
    RON_TRY(ask(o, sql, NULL, 0, &r, err));
    rc = ron_pg_rows(&r) == 1 ? ron_pg_value_u64(&r, 0, 0, ret, err)
                              : ron_err_set(err, RON_CORRUPT, "%s has no row", o->table);
    ron_pg_result_done(&r);
    return rc;
}

/* A step is one transaction; of two who migrate at once one fails, and finds it done. */
static enum ron_rc migrate(struct ron_pg_own *o, struct ron_err *err)
{
    uint64_t layout = 0;

    RON_TRY(find_layout(o, &layout, err));
    while (layout < o->step_count) {
        struct ron_err why = {0};
        uint64_t now = 0;
        enum ron_rc rc = ron_pg_script(o->pg, o->steps[layout], call_deadline(o), &why);

        RON_TRY(find_layout(o, &now, err));
        if (now <= layout) {
            rc = rc == RON_TIMEOUT || rc == RON_CLOSED ? RON_AGAIN
                 : rc == RON_AGAIN || rc == RON_DENIED ? rc
                                                       : RON_CORRUPT;
            return ron_err_set(err, rc, "migration of %s: %s", o->table, why.msg);
        }
        layout = now;
    }
    return RON_OK;
}

static enum ron_rc take(struct ron_pg_own *o, struct ron_err *err)
{
    struct row row;

    RON_TRY(migrate(o, err));
    RON_TRY(read_row(o, &row, err));
    if (row.layout > o->step_count) {
        return ron_err_set(err, RON_UNSUPPORTED, "%s has layout %llu; this program knows %u",
                           o->table, (unsigned long long)row.layout, (unsigned)o->step_count);
    }
    return claim(o, &row, err);
}

static enum ron_rc open_now(struct ron_pg_own *o, uint32_t tries, struct ron_err *err)
{
    enum ron_rc rc = take(o, err);

    while (tries-- > 1 && (rc == RON_AGAIN || rc == RON_CONFLICT)) {
        ron_pg_own_pause(o);
        rc = take(o, err);
    }
    o->changed = false;
    return rc;
}

enum ron_rc ron_pg_own_open(const struct ron_pg_own_opts *opts, struct ron_pg_own **ret_own,
                            struct ron_err *err)
{
    struct ron_pg_own *o = ron_alloc_zero(sizeof *o);
    enum ron_rc rc;

    if (o == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a database");
    }
    o->env = opts->env;
    o->table = opts->table;
    o->steps = opts->steps;
    o->step_count = opts->step_count;
    o->call_ms = opts->call_ms != 0 ? opts->call_ms : CALL_MS;
    o->pause_ns = (opts->pause_ms != 0 ? opts->pause_ms : PAUSE_MS) * RON_NS_PER_MS;
    rc = ron_pg_new(
        &(struct ron_pg_opts){.env = opts->env,
                              .conninfo = opts->conninfo,
                              .name = opts->name,
                              .connect_ms = opts->connect_ms != 0 ? opts->connect_ms : CONNECT_MS},
        &o->pg, err);
    if (rc == RON_OK) {
        rc = open_now(o, opts->open_tries != 0 ? opts->open_tries : OPEN_TRIES, err);
    }
    if (rc != RON_OK) {
        ron_pg_own_close(o);
        return rc;
    }
    *ret_own = o;
    return RON_OK;
}

void ron_pg_own_close(struct ron_pg_own *o)
{
    enum ron_pg_fate fate;

    if (o == NULL) {
        return;
    }
    /* The session ends, and its lock with it: at once when it is said so. */
    if (o->pg != NULL && ron_pg_connected(o->pg)) {
        RON_IGNORE(ron_pg_exec(o->pg, "SELECT pg_advisory_unlock_all()", NULL, 0,
                               ron_deadline_after_ms(ron_env_now_ns(o->env), CLOSE_MS), &fate, NULL,
                               NULL));
    }
    ron_pg_free(o->pg);
    ron_free(o);
}
