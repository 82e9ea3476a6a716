/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/pg_posix.c - the book in tables of PostgreSQL. The tables are in
 * docs/formats/rewarder.md.
 *
 * Place: rewarder, an engine of priv.h over ron/pg/pg_own.h, which says who owns the
 * tables and settles commits whose answer was lost. A writing call is one transaction: it takes the
 * number of its commit first, so that it meets any other writer at that row.
 *
 * Checksums (B6) are made and looked at here, never by the server: a SELECT brings the facts of a
 * row behind the columns that were asked for, and the checksum last.
 *
 * Waiting: a call begins when the database is there, and gives up after WAIT_MS; to find out what
 * became of a commit it waits as long again. */
#include "rewarder/book/priv.h"

#include <string.h>

enum {
    WAIT_MS = 5000,
    PAUSES = 25, /* between tries to connect, in that time */
    CHECK_ROWS = 1000,
};

static const char step_1[] =
    "CREATE TABLE rewarder_book(one int4 PRIMARY KEY CHECK(one=1),layout int4 NOT NULL,"
    "epoch int8 NOT NULL,commits int8 NOT NULL) WITH (fillfactor=10);"
    "CREATE TABLE rewarder_epochs("
    "epoch text COLLATE \"C\" PRIMARY KEY,run_key bytea NOT NULL,inputs_cid bytea NOT NULL,"
    "policy_id text COLLATE \"C\" NOT NULL,policy_hash bytea NOT NULL,ledger_root bytea,"
    "ledger_seq int8,carry_epoch text COLLATE \"C\" NOT NULL,state text COLLATE \"C\" NOT NULL,"
    "breach text COLLATE \"C\" NOT NULL,reason bytea NOT NULL,commitment bytea,"
    "paid text COLLATE \"C\" NOT NULL,residual text COLLATE \"C\" NOT NULL,carries int8 NOT NULL,"
    "intents int8 NOT NULL,created_ms int8 NOT NULL,changed_ms int8 NOT NULL,sum bytea NOT NULL);"
    "CREATE INDEX rewarder_epochs_by_state ON rewarder_epochs(state,epoch);"
    "CREATE TABLE rewarder_carries(from_epoch text COLLATE \"C\" PRIMARY KEY,"
    "into_epoch text COLLATE \"C\" NOT NULL UNIQUE,sum bytea NOT NULL);"
    "CREATE TABLE rewarder_batches("
    "epoch text COLLATE \"C\" NOT NULL REFERENCES rewarder_epochs(epoch),no int8 NOT NULL,"
    "first int8 NOT NULL,entries int8 NOT NULL,attempt int8 NOT NULL,ts_ms int8 NOT NULL,"
    "done int8 NOT NULL,seq_first int8 NOT NULL,seq_last int8 NOT NULL,commit_ms int8 NOT NULL,"
    "sum bytea NOT NULL,PRIMARY KEY(epoch,no));"
    "CREATE INDEX rewarder_batches_open ON rewarder_batches(epoch,no) WHERE done=0;"
    "CREATE TABLE rewarder_policies(hash bytea PRIMARY KEY,id text COLLATE \"C\" NOT NULL,"
    "version int8 NOT NULL,is_signed int8 NOT NULL,document bytea NOT NULL,kept_ms int8 NOT NULL,"
    "sum bytea NOT NULL,UNIQUE(id,version));"
    "INSERT INTO rewarder_book(one,layout,epoch,commits) VALUES(1,1,0,0)";
static const char *const steps[] = {step_1};

/* ---- dialect --------------------------------------------------------------------------------- */

/* Kinds of the facts of a table, in the order of RWD__..._FACTS. */
#define EPOCH_KINDS "tbbtbbittttbttiiii"
#define BATCH_KINDS "tiiiiiiiii"
#define CARRY_KINDS "tt"
#define POLICY_KINDS "btiibi"

#define EPOCH_SELECT                                                                               \
    "SELECT " RWD__EPOCH_FACTS                                                                     \
    ",(SELECT into_epoch FROM rewarder_carries WHERE from_epoch=e.epoch)," RWD__EPOCH_FACTS        \
    ",sum FROM rewarder_epochs e "

enum form {
    PLAIN,
    ADD,    /* the checksum of all parameters is one more */
    SUM,    /* rows are the facts; `then` writes their checksum behind the same parameters */
    TOTALS, /* rows are facts and checksum of batches, and are added up here */
};

struct dialect {
    enum form form;
    const char *sql;
    int visible;       /* columns that the call knows; then, when there are kinds, facts and sum */
    const char *kinds; /* NULL: no checksum comes with it */
    const char *then;
};

static const struct dialect dialects[RWD__STATEMENT_COUNT] = {
    [RWD__EPOCH_GET] = {PLAIN, EPOCH_SELECT "WHERE epoch=$1", 19, EPOCH_KINDS, NULL},
    [RWD__EPOCH_LIST] = {PLAIN, EPOCH_SELECT "WHERE epoch>$1 ORDER BY epoch LIMIT $2", 19,
                         EPOCH_KINDS, NULL},
    [RWD__EPOCH_LIST_STATE] = {PLAIN,
                               EPOCH_SELECT "WHERE state=$3 AND epoch>$1 ORDER BY epoch LIMIT $2",
                               19, EPOCH_KINDS, NULL},
    [RWD__EPOCH_ADD] = {ADD,
                        "INSERT INTO rewarder_epochs(" RWD__EPOCH_FACTS ",sum) VALUES"
                        "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)",
                        0, NULL, NULL},
    [RWD__EPOCH_MOVE] = {PLAIN,
                         "UPDATE rewarder_epochs SET state=$2,breach=$3,reason=$4,changed_ms=$5 "
                         "WHERE epoch=$1",
                         0, NULL, NULL},
    [RWD__EPOCH_SEAL] = {PLAIN,
                         "UPDATE rewarder_epochs SET state='sealed',commitment=$2,paid=$3,"
                         "residual=$4,carries=$5,intents=$6,changed_ms=$7 WHERE epoch=$1",
                         0, NULL, NULL},
    [RWD__EPOCH_DROP] = {PLAIN, "DELETE FROM rewarder_epochs WHERE epoch=$1", 0, NULL, NULL},
    [RWD__EPOCH_SUM] = {SUM, "SELECT " RWD__EPOCH_FACTS " FROM rewarder_epochs WHERE epoch=$1", 0,
                        EPOCH_KINDS, "UPDATE rewarder_epochs SET sum=$2 WHERE epoch=$1"},
    [RWD__EPOCH_OLD] = {PLAIN,
                        "SELECT epoch FROM rewarder_epochs e WHERE state='emitted' AND epoch>$1 "
                        "AND changed_ms<$2 AND NOT (carries<>0 AND residual<>'0' AND NOT EXISTS"
                        "(SELECT 1 FROM rewarder_carries WHERE from_epoch=e.epoch)) "
                        "ORDER BY epoch LIMIT $3",
                        1, NULL, NULL},
    [RWD__CARRY_GET] = {PLAIN,
                        "SELECT into_epoch," RWD__CARRY_FACTS
                        ",sum FROM rewarder_carries WHERE from_epoch=$1",
                        1, CARRY_KINDS, NULL},
    [RWD__CARRY_ADD] = {ADD,
                        "INSERT INTO rewarder_carries(" RWD__CARRY_FACTS ",sum) VALUES($1,$2,$3)",
                        0, NULL, NULL},
    [RWD__CARRY_DROP] = {PLAIN, "DELETE FROM rewarder_carries WHERE into_epoch=$1", 0, NULL, NULL},
    [RWD__BATCH_ADD] = {ADD,
                        "INSERT INTO rewarder_batches(" RWD__BATCH_FACTS ",sum) VALUES"
                        "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
                        0, NULL, NULL},
    [RWD__BATCH_ANY] = {PLAIN, "SELECT 1 FROM rewarder_batches WHERE epoch=$1 LIMIT 1", 1, NULL,
                        NULL},
    [RWD__BATCH_OPEN] = {PLAIN, "SELECT 1 FROM rewarder_batches WHERE epoch=$1 AND done=0 LIMIT 1",
                         1, NULL, NULL},
    [RWD__BATCH_GET] = {PLAIN,
                        "SELECT done,attempt," RWD__BATCH_FACTS
                        ",sum FROM rewarder_batches WHERE epoch=$1 AND no=$2",
                        2, BATCH_KINDS, NULL},
    [RWD__BATCH_LIST] = {PLAIN,
                         "SELECT no,first,entries,attempt,ts_ms," RWD__BATCH_FACTS
                         ",sum FROM rewarder_batches WHERE epoch=$1 AND no>=$2 AND done=0 "
                         "ORDER BY no LIMIT $3",
                         5, BATCH_KINDS, NULL},
    [RWD__BATCH_DONE] = {PLAIN,
                         "UPDATE rewarder_batches SET done=1,seq_first=$3,seq_last=$4,commit_ms=$5 "
                         "WHERE epoch=$1 AND no=$2",
                         0, NULL, NULL},
    [RWD__BATCH_STAMP] = {PLAIN,
                          "UPDATE rewarder_batches SET attempt=attempt+1,ts_ms=$3 "
                          "WHERE epoch=$1 AND no=$2",
                          0, NULL, NULL},
    [RWD__BATCH_SUM] = {SUM,
                        "SELECT " RWD__BATCH_FACTS
                        " FROM rewarder_batches WHERE epoch=$1 AND no=$2",
                        0, BATCH_KINDS,
                        "UPDATE rewarder_batches SET sum=$3 WHERE epoch=$1 AND no=$2"},
    [RWD__BATCH_DROP] = {PLAIN, "DELETE FROM rewarder_batches WHERE epoch=$1", 0, NULL, NULL},
    [RWD__SETTLEMENT] = {TOTALS,
                         "SELECT " RWD__BATCH_FACTS ",sum FROM rewarder_batches WHERE epoch=$1", 0,
                         BATCH_KINDS, NULL},
    [RWD__POLICY_ADD] = {ADD,
                         "INSERT INTO rewarder_policies(" RWD__POLICY_FACTS
                         ",sum) VALUES($1,$2,$3,$4,$5,$6,$7)",
                         0, NULL, NULL},
    [RWD__POLICY_DROP] = {PLAIN, "DELETE FROM rewarder_policies WHERE hash=$1", 0, NULL, NULL},
    [RWD__POLICY_COUNT] = {PLAIN, "SELECT count(*) FROM rewarder_policies", 1, NULL, NULL},
    [RWD__POLICY_VERSION] = {PLAIN,
                             "SELECT hash,is_signed FROM rewarder_policies WHERE id=$1 AND "
                             "version=$2",
                             2, NULL, NULL},
    [RWD__POLICY_HASH] = {PLAIN,
                          "SELECT document," RWD__POLICY_FACTS
                          ",sum FROM rewarder_policies WHERE id=$1 AND hash=$2",
                          1, POLICY_KINDS, NULL},
    [RWD__POLICY_NEWEST] = {PLAIN,
                            "SELECT document," RWD__POLICY_FACTS
                            ",sum FROM rewarder_policies WHERE id=$1 ORDER BY version DESC LIMIT 1",
                            1, POLICY_KINDS, NULL},
};

/* ---- codes ----------------------------------------------------------------------------------- */

static enum ron_rc failed(enum ron_rc rc, const struct ron_err *why, struct ron_err *err)
{
    rc = rc == RON_FULL ? RON_LIMIT : rc == RON_CORRUPT || rc == RON_NOMEM ? rc : RON_IO;
    return ron_err_set(err, rc, "book: %s", why->msg);
}

static enum ron_rc ask_pg(struct rwd_book *b, const char *sql, const struct ron_pg_param *params,
                          size_t count, struct ron_pg_result *ret, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = ron_pg_own_ask(b->own, sql, params, count, ret, &why);

    return rc == RON_OK ? RON_OK : failed(rc, &why, err);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum rwd__kind kind_of(char letter)
{
    return letter == 'i' ? RWD__INT : letter == 't' ? RWD__TEXT : RWD__BYTES;
}

static uint64_t number_of(const uint8_t *bytes, size_t len)
{
    uint64_t number = 0;

    for (size_t i = 0; i < len && i < 8; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

/* Of the facts that begin with a column. */
static uint64_t sum_of(const struct ron_pg_result *r, size_t row, size_t column, const char *kinds)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        enum rwd__kind kind = kind_of(kinds[i]);
        const uint8_t *bytes = NULL;
        size_t len = 0;

        if (ron_pg_is_null(r, row, column + i)) {
            rwd__sum_add(&h, RWD__NULL, NULL, 0, 0);
            continue;
        }
        ron_pg_value(r, row, column + i, &bytes, &len);
        if (kind == RWD__INT) {
            rwd__sum_add(&h, kind, NULL, 0, number_of(bytes, len));
        } else {
            rwd__sum_add(&h, kind, bytes, len, 0);
        }
    }
    return rwd__sum_end(&h);
}

static bool whole(const struct ron_pg_result *r, size_t row, size_t column, const char *kinds)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(r, row, column + strlen(kinds), &bytes, &len);
    return len == RWD__SUM_BYTES && number_of(bytes, len) == sum_of(r, row, column, kinds);
}

static void put_sum(struct rwd__use *u, uint64_t sum)
{
    for (int i = 0; i < RWD__SUM_BYTES; i++) {
        u->sum[i] = (uint8_t)(sum >> (56 - 8 * i));
    }
    ron_pg_bytes(&u->params[u->next - 1], u->sum, sizeof u->sum);
    u->next++;
}

static void pg_ask(struct rwd__use *u)
{
    u->row = 0;
}

static void pg_put(struct rwd__use *u, enum rwd__kind kind, const void *bytes, size_t len,
                   uint64_t number)
{
    struct ron_pg_param *p = &u->params[u->next - 1];

    *p = (struct ron_pg_param){0};
    switch (kind) {
    case RWD__INT:
        ron_pg_i64(p, (int64_t)number);
        break;
    case RWD__TEXT: /* the column says whether it is text; a sentence need not be */
        p->data = len > 0 ? bytes : "";
        p->len = len;
        break;
    case RWD__BYTES:
        ron_pg_bytes(p, bytes, len);
        break;
    case RWD__NULL:
        break;
    }
    u->kinds[u->next - 1] = kind;
    u->next++;
}

static void sum_params(struct rwd__use *u)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (int i = 0; i < u->next - 1; i++) {
        const struct ron_pg_param *p = &u->params[i];

        if (u->kinds[i] == RWD__INT) {
            rwd__sum_add(&h, RWD__INT, NULL, 0, number_of(p->number, sizeof p->number));
        } else {
            rwd__sum_add(&h, u->kinds[i], p->data, p->len, 0);
        }
    }
    put_sum(u, rwd__sum_end(&h));
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The new checksum of the row that was read. */
static enum ron_rc write_sum(struct rwd__use *u, const struct dialect *d, struct ron_err *err)
{
    if (ron_pg_rows(&u->rows) != 1) {
        return ron_err_set(err, RON_CORRUPT, "book: a row is missing");
    }
    put_sum(u, sum_of(&u->rows, 0, 0, d->kinds));
    ron_pg_result_done(&u->rows);
    return ask_pg(u->book, d->then, u->params, (size_t)u->next - 1, &u->rows, err);
}

static uint64_t fact(const struct ron_pg_result *r, size_t row, size_t column)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(r, row, column, &bytes, &len);
    return number_of(bytes, len);
}

/* As the statement of SQLite does: batches, done, entries, entries done, first and last seq, and
 * whether all rows are whole. */
static void add_up(struct rwd__use *u, const char *kinds)
{
    enum { ENTRIES = 3, DONE = 6, SEQ_FIRST = 7, SEQ_LAST = 8 };
    uint64_t *t = u->totals;

    memset(t, 0, sizeof u->totals);
    t[0] = ron_pg_rows(&u->rows);
    t[6] = 1;
    for (size_t i = 0; i < t[0]; i++) {
        uint64_t entries = fact(&u->rows, i, ENTRIES);
        uint64_t done = fact(&u->rows, i, DONE);
        uint64_t first = fact(&u->rows, i, SEQ_FIRST);
        uint64_t last = fact(&u->rows, i, SEQ_LAST);

        t[1] += done;
        t[2] += entries;
        t[3] += entries * done;
        t[4] = first > 0 && (t[4] == 0 || first < t[4]) ? first : t[4];
        t[5] = RON_MAX(t[5], last);
        t[6] = t[6] != 0 && whole(&u->rows, i, 0, kinds);
    }
}

static enum ron_rc run_once(struct rwd__use *u, const struct dialect *d, struct ron_err *err)
{
    if (d->form == ADD) {
        sum_params(u);
    }
    RON_TRY(ask_pg(u->book, d->sql, u->params, (size_t)u->next - 1, &u->rows, err));
    if (d->form == SUM) {
        return write_sum(u, d, err);
    }
    if (d->form == TOTALS) {
        add_up(u, d->kinds);
    }
    return RON_OK;
}

static enum ron_rc pg_row(struct rwd__use *u, bool *ret_row, struct ron_err *err)
{
    const struct dialect *d = &dialects[u->statement];

    if (u->row == 0) {
        RON_TRY(run_once(u, d, err));
    }
    u->row++;
    *ret_row = d->form == TOTALS ? u->row == 1 : u->row <= ron_pg_rows(&u->rows);
    return RON_OK;
}

static void pg_end(struct rwd__use *u)
{
    ron_pg_result_done(&u->rows);
    u->row = 0;
    u->next = 1;
}

static uint64_t pg_changes(const struct rwd__use *u)
{
    return u->rows.affected;
}

static uint64_t pg_get_u64(const struct rwd__use *u, int column)
{
    const struct dialect *d = &dialects[u->statement];

    if (d->form == TOTALS) {
        return u->totals[column];
    }
    if (d->kinds != NULL && column == d->visible) {
        return whole(&u->rows, u->row - 1, (size_t)column, d->kinds);
    }
    return fact(&u->rows, u->row - 1, (size_t)column);
}

static struct ron_str pg_get_str(const struct rwd__use *u, int column)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(&u->rows, u->row - 1, (size_t)column, &bytes, &len);
    return (struct ron_str){(const char *)bytes, len};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static enum ron_rc pg_begin(struct rwd_book *b, bool writes, struct ron_err *err)
{
    struct ron_deadline until = ron_deadline_after_ms(ron_env_now_ns(b->env), b->wait_ms);
    struct ron_err why = {0};
    enum ron_rc rc;

    for (;;) {
        rc = writes ? ron_pg_own_begin(b->own, &why) : ron_pg_own_ready(b->own, &why);
        if (rc == RON_OK) {
            /* What was found later is in the tables; the book keeps nothing in memory. */
            (void)ron_pg_own_changed(b->own);
            return RON_OK;
        }
        if (rc != RON_AGAIN || ron_deadline_expired(until, ron_env_now_ns(b->env))) {
            /* Damaged rows are told by their calls; here nothing was read yet. */
            return failed(rc == RON_CORRUPT ? RON_IO : rc, &why, err);
        }
        ron_pg_own_pause(b->own);
    }
}

static bool pg_within(struct rwd_book *b)
{
    return ron_pg_own_within(b->own);
}

static enum ron_rc pg_commit(struct rwd_book *b, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = ron_pg_own_commit(b->own, b->wait_ms, &why);

    return rc == RON_OK ? RON_OK : failed(rc, &why, err);
}

static void pg_rollback(struct rwd_book *b)
{
    ron_pg_own_rollback(b->own);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* B6, page by page. */
static enum ron_rc check_table(struct rwd_book *b, const char *sql, const char *kinds,
                               struct ron_err *err)
{
    size_t rows = CHECK_ROWS;
    uint64_t seen = 0;

    while (rows == CHECK_ROWS) {
        struct ron_pg_result r = {0};
        struct ron_pg_param p[2];
        uint64_t bad = 0;

        ron_pg_u64(&p[0], CHECK_ROWS);
        ron_pg_u64(&p[1], seen);
        RON_TRY(ask_pg(b, sql, p, 2, &r, err));
        rows = ron_pg_rows(&r);
        seen += rows;
        for (size_t i = 0; i < rows; i++) {
            bad += !whole(&r, i, 0, kinds);
        }
        ron_pg_result_done(&r);
        if (bad != 0) {
            return ron_err_set(err, RON_CORRUPT, "book: %llu rows are not what was written",
                               (unsigned long long)bad);
        }
    }
    return RON_OK;
}

static enum ron_rc check_rows(struct rwd_book *b, struct ron_err *err)
{
    static const struct {
        const char *sql;
        const char *kinds;
    } tables[] = {
        {"SELECT " RWD__EPOCH_FACTS ",sum FROM rewarder_epochs ORDER BY epoch LIMIT $1 OFFSET $2",
         EPOCH_KINDS},
        {"SELECT " RWD__CARRY_FACTS
         ",sum FROM rewarder_carries ORDER BY from_epoch LIMIT $1 OFFSET $2",
         CARRY_KINDS},
        {"SELECT " RWD__BATCH_FACTS
         ",sum FROM rewarder_batches ORDER BY epoch,no LIMIT $1 OFFSET $2",
         BATCH_KINDS},
        {"SELECT " RWD__POLICY_FACTS ",sum FROM rewarder_policies ORDER BY hash LIMIT $1 OFFSET $2",
         POLICY_KINDS}};

    for (size_t i = 0; i < RON_ARRAY_LEN(tables); i++) {
        RON_TRY(check_table(b, tables[i].sql, tables[i].kinds, err));
    }
    return RON_OK;
}

static void pg_close(struct rwd_book *b)
{
    ron_pg_own_close(b->own);
}

static const struct rwd__engine engine = {.close = pg_close,
                                          .begin = pg_begin,
                                          .within = pg_within,
                                          .commit = pg_commit,
                                          .rollback = pg_rollback,
                                          .ask = pg_ask,
                                          .put = pg_put,
                                          .row = pg_row,
                                          .end = pg_end,
                                          .changes = pg_changes,
                                          .get_u64 = pg_get_u64,
                                          .get_str = pg_get_str};

enum ron_rc rwd__open_pg(struct rwd_book *b, const struct rwd_book_opts *opts, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc;

    b->engine = &engine;
    b->env = opts->env;
    b->wait_ms = opts->wait_ms != 0 ? opts->wait_ms : WAIT_MS;
    rc = ron_pg_own_open(&(struct ron_pg_own_opts){.env = opts->env,
                                                   .conninfo = opts->dsn,
                                                   .name = "ron rewarder",
                                                   .table = "rewarder_book",
                                                   .steps = steps,
                                                   .step_count = RON_ARRAY_LEN(steps),
                                                   .pause_ms = b->wait_ms / PAUSES,
                                                   .open_tries = opts->tries},
                         &b->own, &why);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "book: %s", why.msg);
    }
    return check_rows(b, err);
}
