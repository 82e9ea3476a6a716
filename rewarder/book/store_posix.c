/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/store_posix.c - the tables and statements of the book, in the dialects of SQLite
 * and PostgreSQL, and the claim of its one connection. The layouts are in docs/formats/rewarder.md.
 *
 * The book is a store of ron/sql/sql.h, which says how rows are made durable and how checksums are
 * verified (B5, B6). In PostgreSQL a call begins when the database is there, and gives up after
 * WAIT_MS; to find out what became of a commit it waits as long again.
 *
 * Contract in book.h and priv.h. */
#include "rewarder/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    APPLICATION_ID = 0x52657762, /* "Rewb" */
    LAYOUT = 1,
    WAIT_MS = 5000,
};

/* Everything that a row says, and the kinds of these values; the checksum is over them. */
#define EPOCH_FACTS                                                                                \
    "epoch,run_key,inputs_cid,policy_id,policy_hash,ledger_root,ledger_seq,carry_epoch,state,"     \
    "breach,reason,commitment,paid,residual,carries,intents,created_ms,changed_ms"
#define EPOCH_KINDS "tbbtbbittttbttiiii"
#define BATCH_FACTS "epoch,no,first,entries,attempt,ts_ms,done,seq_first,seq_last,commit_ms"
#define BATCH_KINDS "tiiiiiiiii"
#define CARRY_FACTS "from_epoch,into_epoch"
#define CARRY_KINDS "tt"
#define POLICY_FACTS "hash,id,version,is_signed,document,kept_ms"
#define POLICY_KINDS "btiibi"

/* ---- tables ---------------------------------------------------------------------------------- */

static const char schema[] =
    "CREATE TABLE epochs("
    "epoch TEXT PRIMARY KEY NOT NULL,run_key BLOB NOT NULL,inputs_cid BLOB NOT NULL,"
    "policy_id TEXT NOT NULL,policy_hash BLOB NOT NULL,ledger_root BLOB,ledger_seq INTEGER,"
    "carry_epoch TEXT NOT NULL,state TEXT NOT NULL,breach TEXT NOT NULL,reason TEXT NOT NULL,"
    "commitment BLOB,paid TEXT NOT NULL,residual TEXT NOT NULL,carries INTEGER NOT NULL,"
    "intents INTEGER NOT NULL,created_ms INTEGER NOT NULL,changed_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX epochs_by_state ON epochs(state,epoch);"
    "CREATE TABLE carries("
    "from_epoch TEXT PRIMARY KEY NOT NULL,into_epoch TEXT NOT NULL,sum INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX carries_by_into ON carries(into_epoch);"
    "CREATE TABLE batches("
    "epoch TEXT NOT NULL REFERENCES epochs(epoch),no INTEGER NOT NULL,first INTEGER NOT NULL,"
    "entries INTEGER NOT NULL,attempt INTEGER NOT NULL,ts_ms INTEGER NOT NULL,"
    "done INTEGER NOT NULL,seq_first INTEGER NOT NULL,seq_last INTEGER NOT NULL,"
    "commit_ms INTEGER NOT NULL,sum INTEGER NOT NULL,PRIMARY KEY(epoch,no))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX batches_open ON batches(epoch,no) WHERE done=0;"
    "CREATE TABLE policies("
    "hash BLOB PRIMARY KEY NOT NULL,id TEXT NOT NULL,version INTEGER NOT NULL,"
    "is_signed INTEGER NOT NULL,document BLOB NOT NULL,kept_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL,UNIQUE(id,version)) STRICT, WITHOUT ROWID;";

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

static const struct ron_sql_table tables[] = {
    {"epochs", EPOCH_FACTS, EPOCH_KINDS, "epoch"},
    {"carries", CARRY_FACTS, CARRY_KINDS, "from_epoch"},
    {"batches", BATCH_FACTS, BATCH_KINDS, "epoch,no"},
    {"policies", POLICY_FACTS, POLICY_KINDS, "hash"},
};

/* ---- statements ------------------------------------------------------------------------------ */

#define EPOCH_WHOLE "sum IS row_sum(" EPOCH_FACTS ")"
#define BATCH_WHOLE "sum IS row_sum(" BATCH_FACTS ")"
#define CARRY_WHOLE "sum IS row_sum(" CARRY_FACTS ")"
#define POLICY_WHOLE "sum IS row_sum(" POLICY_FACTS ")"
#define EPOCH_SELECT                                                                               \
    "SELECT " EPOCH_FACTS                                                                          \
    ",(SELECT into_epoch FROM carries WHERE from_epoch=epochs.epoch)," EPOCH_WHOLE " FROM epochs "
#define PG_EPOCH_SELECT                                                                            \
    "SELECT " EPOCH_FACTS                                                                          \
    ",(SELECT into_epoch FROM rewarder_carries WHERE from_epoch=e.epoch)," EPOCH_FACTS             \
    ",sum FROM rewarder_epochs e "

static const struct ron_sql_stmt stmts[RWD__STATEMENT_COUNT] = {
    [RWD__EPOCH_GET] = {.sqlite = EPOCH_SELECT "WHERE epoch=?1",
                        .pg = PG_EPOCH_SELECT "WHERE epoch=$1",
                        .visible = 19,
                        .kinds = EPOCH_KINDS},
    [RWD__EPOCH_LIST] = {.sqlite = EPOCH_SELECT "WHERE epoch>?1 ORDER BY epoch LIMIT ?2",
                         .pg = PG_EPOCH_SELECT "WHERE epoch>$1 ORDER BY epoch LIMIT $2",
                         .visible = 19,
                         .kinds = EPOCH_KINDS},
    [RWD__EPOCH_LIST_STATE] = {.sqlite = EPOCH_SELECT
                               "WHERE state=?3 AND epoch>?1 ORDER BY epoch LIMIT ?2",
                               .pg = PG_EPOCH_SELECT
                               "WHERE state=$3 AND epoch>$1 ORDER BY epoch LIMIT $2",
                               .visible = 19,
                               .kinds = EPOCH_KINDS},
    [RWD__EPOCH_ADD] =
        {.sqlite = "INSERT INTO epochs(" EPOCH_FACTS ",sum) VALUES"
                   "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"
                   "row_sum(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18))",
         .pg = "INSERT INTO rewarder_epochs(" EPOCH_FACTS ",sum) VALUES"
               "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)",
         .form = RON_SQL_ADD},
    [RWD__EPOCH_MOVE] =
        {.sqlite = "UPDATE epochs SET state=?2,breach=?3,reason=?4,changed_ms=?5 WHERE epoch=?1",
         .pg = "UPDATE rewarder_epochs SET state=$2,breach=$3,reason=$4,changed_ms=$5 "
               "WHERE epoch=$1"},
    [RWD__EPOCH_SEAL] =
        {.sqlite = "UPDATE epochs SET state='sealed',commitment=?2,paid=?3,residual=?4,carries=?5,"
                   "intents=?6,changed_ms=?7 WHERE epoch=?1",
         .pg = "UPDATE rewarder_epochs SET state='sealed',commitment=$2,paid=$3,"
               "residual=$4,carries=$5,intents=$6,changed_ms=$7 WHERE epoch=$1"},
    [RWD__EPOCH_DROP] = {.sqlite = "DELETE FROM epochs WHERE epoch=?1",
                         .pg = "DELETE FROM rewarder_epochs WHERE epoch=$1"},
    [RWD__EPOCH_SUM] = {.sqlite = "UPDATE epochs SET sum=row_sum(" EPOCH_FACTS ") WHERE epoch=?1",
                        .pg = "SELECT " EPOCH_FACTS " FROM rewarder_epochs WHERE epoch=$1",
                        .form = RON_SQL_SUM,
                        .kinds = EPOCH_KINDS,
                        .then = "UPDATE rewarder_epochs SET sum=$2 WHERE epoch=$1"},
    [RWD__EPOCH_OLD] =
        {.sqlite = "SELECT epoch FROM epochs WHERE state='emitted' AND epoch>?1 AND changed_ms<?2 "
                   "AND NOT (carries AND residual<>'0' AND NOT EXISTS"
                   "(SELECT 1 FROM carries WHERE from_epoch=epochs.epoch)) ORDER BY epoch LIMIT ?3",
         .pg = "SELECT epoch FROM rewarder_epochs e WHERE state='emitted' AND epoch>$1 "
               "AND changed_ms<$2 AND NOT (carries<>0 AND residual<>'0' AND NOT EXISTS"
               "(SELECT 1 FROM rewarder_carries WHERE from_epoch=e.epoch)) "
               "ORDER BY epoch LIMIT $3",
         .visible = 1},
    [RWD__CARRY_GET] = {.sqlite =
                            "SELECT into_epoch," CARRY_WHOLE " FROM carries WHERE from_epoch=?1",
                        .pg = "SELECT into_epoch," CARRY_FACTS
                              ",sum FROM rewarder_carries WHERE from_epoch=$1",
                        .visible = 1,
                        .kinds = CARRY_KINDS},
    [RWD__CARRY_ADD] = {.sqlite =
                            "INSERT INTO carries(" CARRY_FACTS ",sum) VALUES(?1,?2,row_sum(?1,?2))",
                        .pg = "INSERT INTO rewarder_carries(" CARRY_FACTS ",sum) VALUES($1,$2,$3)",
                        .form = RON_SQL_ADD},
    [RWD__CARRY_DROP] = {.sqlite = "DELETE FROM carries WHERE into_epoch=?1",
                         .pg = "DELETE FROM rewarder_carries WHERE into_epoch=$1"},
    [RWD__BATCH_ADD] =
        {.sqlite = "INSERT INTO batches(" BATCH_FACTS ",sum) VALUES"
                   "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,row_sum(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10))",
         .pg = "INSERT INTO rewarder_batches(" BATCH_FACTS ",sum) VALUES"
               "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
         .form = RON_SQL_ADD},
    [RWD__BATCH_ANY] = {.sqlite = "SELECT 1 FROM batches WHERE epoch=?1 LIMIT 1",
                        .pg = "SELECT 1 FROM rewarder_batches WHERE epoch=$1 LIMIT 1",
                        .visible = 1},
    [RWD__BATCH_OPEN] = {.sqlite = "SELECT 1 FROM batches WHERE epoch=?1 AND done=0 LIMIT 1",
                         .pg = "SELECT 1 FROM rewarder_batches WHERE epoch=$1 AND done=0 LIMIT 1",
                         .visible = 1},
    [RWD__BATCH_GET] = {.sqlite = "SELECT done,attempt," BATCH_WHOLE
                                  " FROM batches WHERE epoch=?1 AND no=?2",
                        .pg = "SELECT done,attempt," BATCH_FACTS
                              ",sum FROM rewarder_batches WHERE epoch=$1 AND no=$2",
                        .visible = 2,
                        .kinds = BATCH_KINDS},
    [RWD__BATCH_LIST] =
        {.sqlite = "SELECT no,first,entries,attempt,ts_ms," BATCH_WHOLE
                   " FROM batches WHERE epoch=?1 AND no>=?2 AND done=0 ORDER BY no LIMIT ?3",
         .pg = "SELECT no,first,entries,attempt,ts_ms," BATCH_FACTS
               ",sum FROM rewarder_batches WHERE epoch=$1 AND no>=$2 AND done=0 "
               "ORDER BY no LIMIT $3",
         .visible = 5,
         .kinds = BATCH_KINDS},
    [RWD__BATCH_DONE] =
        {.sqlite = "UPDATE batches SET done=1,seq_first=?3,seq_last=?4,commit_ms=?5 "
                   "WHERE epoch=?1 AND no=?2",
         .pg = "UPDATE rewarder_batches SET done=1,seq_first=$3,seq_last=$4,commit_ms=$5 "
               "WHERE epoch=$1 AND no=$2"},
    [RWD__BATCH_STAMP] =
        {.sqlite = "UPDATE batches SET attempt=attempt+1,ts_ms=?3 WHERE epoch=?1 AND no=?2",
         .pg = "UPDATE rewarder_batches SET attempt=attempt+1,ts_ms=$3 "
               "WHERE epoch=$1 AND no=$2"},
    [RWD__BATCH_SUM] = {.sqlite = "UPDATE batches SET sum=row_sum(" BATCH_FACTS
                                  ") WHERE epoch=?1 AND no=?2",
                        .pg =
                            "SELECT " BATCH_FACTS " FROM rewarder_batches WHERE epoch=$1 AND no=$2",
                        .form = RON_SQL_SUM,
                        .kinds = BATCH_KINDS,
                        .then = "UPDATE rewarder_batches SET sum=$3 WHERE epoch=$1 AND no=$2"},
    [RWD__BATCH_DROP] = {.sqlite = "DELETE FROM batches WHERE epoch=?1",
                         .pg = "DELETE FROM rewarder_batches WHERE epoch=$1"},
    [RWD__SETTLEMENT] = {.sqlite = "SELECT entries,done,seq_first,seq_last," BATCH_WHOLE
                                   " FROM batches WHERE epoch=?1",
                         .pg = "SELECT entries,done,seq_first,seq_last," BATCH_FACTS
                               ",sum FROM rewarder_batches WHERE epoch=$1",
                         .visible = 4,
                         .kinds = BATCH_KINDS},
    [RWD__POLICY_ADD] = {.sqlite = "INSERT INTO policies(" POLICY_FACTS ",sum) VALUES"
                                   "(?1,?2,?3,?4,?5,?6,row_sum(?1,?2,?3,?4,?5,?6))",
                         .pg = "INSERT INTO rewarder_policies(" POLICY_FACTS
                               ",sum) VALUES($1,$2,$3,$4,$5,$6,$7)",
                         .form = RON_SQL_ADD},
    [RWD__POLICY_DROP] = {.sqlite = "DELETE FROM policies WHERE hash=?1",
                          .pg = "DELETE FROM rewarder_policies WHERE hash=$1"},
    [RWD__POLICY_COUNT] = {.sqlite = "SELECT count(*) FROM policies",
                           .pg = "SELECT count(*) FROM rewarder_policies",
                           .visible = 1},
    [RWD__POLICY_VERSION] = {.sqlite =
                                 "SELECT hash,is_signed FROM policies WHERE id=?1 AND version=?2",
                             .pg = "SELECT hash,is_signed FROM rewarder_policies WHERE id=$1 AND "
                                   "version=$2",
                             .visible = 2},
    [RWD__POLICY_HASH] = {.sqlite = "SELECT document," POLICY_WHOLE
                                    " FROM policies WHERE id=?1 AND hash=?2",
                          .pg = "SELECT document," POLICY_FACTS
                                ",sum FROM rewarder_policies WHERE id=$1 AND hash=$2",
                          .visible = 1,
                          .kinds = POLICY_KINDS},
    [RWD__POLICY_NEWEST] =
        {.sqlite = "SELECT document," POLICY_WHOLE
                   " FROM policies WHERE id=?1 ORDER BY version DESC LIMIT 1",
         .pg = "SELECT document," POLICY_FACTS
               ",sum FROM rewarder_policies WHERE id=$1 ORDER BY version DESC LIMIT 1",
         .visible = 1,
         .kinds = POLICY_KINDS},
};

/* ---- calls ----------------------------------------------------------------------------------- */

/* The codes of book.h for those of a store. */
static enum ron_rc told(enum ron_rc rc, struct ron_err *err)
{
    if (rc == RON_OK || rc == RON_NOMEM || rc == RON_CORRUPT) {
        return rc;
    }
    rc = rc == RON_FULL ? RON_LIMIT : RON_IO;
    if (err != NULL) {
        err->rc = rc;
    }
    return rc;
}

enum ron_rc rwd__row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err)
{
    return told(ron_sql_row(u, ret_row, err), err);
}

enum ron_rc rwd__run(struct ron_sql_use *u, uint64_t *ret_changes, struct ron_err *err)
{
    return told(ron_sql_run(u, ret_changes, err), err);
}

static void claim(struct rwd_book *b)
{
    ron_blocking_point("rwd_book");
    ron_mutex_lock(&b->lock);
    while (b->taken) {
        /* Each call is a short transaction and always gives the connection back. */
        (void)ron_cond_wait_until(&b->free, &b->lock, ron_deadline_never());
    }
    b->taken = true;
    ron_mutex_unlock(&b->lock);
}

static void unclaim(struct rwd_book *b)
{
    ron_mutex_lock(&b->lock);
    b->taken = false;
    ron_cond_signal(&b->free);
    ron_mutex_unlock(&b->lock);
}

enum ron_rc rwd__book_begin(struct rwd_book *b, bool writes, struct ron_err *err)
{
    enum ron_rc rc;

    claim(b);
    rc = ron_sql_begin(b->sql, writes ? RON_SQL_WRITE : RON_SQL_READ, err);
    if (rc == RON_CORRUPT && ron_sql_is_far(b->sql)) {
        rc = RON_AGAIN; /* corrupt rows are reported by their calls; nothing was read yet */
    }
    if (rc != RON_OK) {
        unclaim(b);
    }
    return told(rc, err);
}

enum ron_rc rwd__book_end(struct rwd_book *b, enum ron_rc rc, struct ron_err *err)
{
    enum ron_rc ended = ron_sql_end(b->sql, rc, err);

    unclaim(b);
    return rc != RON_OK ? rc : told(ended, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

enum ron_rc rwd_book_open_with(const struct rwd_book_opts *opts, struct rwd_book **ret_book,
                               struct ron_err *err)
{
    struct rwd_book *b = ron_alloc_zero(sizeof *b);
    enum ron_rc rc;

    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "book: out of memory");
    }
    ron_mutex_init(&b->lock, RON_RANK_SHARED, "rwd_book");
    ron_cond_init(&b->free);
    rc = ron_sql_open(
        &(struct ron_sql_opts){.env = opts->env,
                               .name = "book",
                               .path = opts->path,
                               .dsn = opts->dsn,
                               .stmts = stmts,
                               .stmt_count = RWD__STATEMENT_COUNT,
                               .tables = tables,
                               .table_count = RON_ARRAY_LEN(tables),
                               .application_id = APPLICATION_ID,
                               .layout = LAYOUT,
                               .pragmas =
                                   "PRAGMA foreign_keys=ON;PRAGMA journal_size_limit=4194304",
                               .schema = schema,
                               .client = "ron rewarder",
                               .pg_table = "rewarder_book",
                               .pg_prefix = "rewarder_",
                               .pg_steps = steps,
                               .pg_step_count = RON_ARRAY_LEN(steps),
                               .wait_ms = opts->wait_ms != 0 ? opts->wait_ms : WAIT_MS,
                               .open_tries = opts->tries},
        &b->sql, err);
    if (rc != RON_OK) {
        rwd_book_close(b);
        return rc == RON_FULL ? told(rc, err) : rc;
    }
    *ret_book = b;
    return RON_OK;
}

enum ron_rc rwd_book_open(const struct ron_env *env, const char *path, struct rwd_book **ret_book,
                          struct ron_err *err)
{
    return rwd_book_open_with(&(struct rwd_book_opts){.env = env, .path = path}, ret_book, err);
}

void rwd_book_close(struct rwd_book *b)
{
    if (b == NULL) {
        return;
    }
    RON_ASSERT(!b->taken);
    ron_sql_close(b->sql);
    ron_cond_done(&b->free);
    ron_mutex_done(&b->lock);
    ron_free(b);
}
