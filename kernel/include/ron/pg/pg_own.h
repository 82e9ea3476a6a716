/* SPDX-License-Identifier: Apache-2.0 */
/* pg_own.h - tables in PostgreSQL that belong to one process at a time, with numbered commits.
 *
 * Place: kernel, over ron/pg/pg.h; under the stores of services that can live in a database. The
 * service brings its tables (steps of a migration) and its statements. One of its tables has a
 * single row with the columns
 *
 *     one int4 (1), layout int4, epoch int8, commits int8
 *
 * Invariants:
 *   O1. Owner is who has written the highest `epoch` into the row. Every commit checks it in its
 *       own transaction, on the locked row: who was overtaken commits nothing more.
 *   O2. Every commit of an owner takes the number after the last one (`commits`), on the same
 *       locked row. So a commit whose answer was lost can be asked for, sent again, or made
 *       impossible, and never counts twice.
 *   O3. What was answered RON_OK was committed without a warning of the server. Unknown outcomes
 *       are settled before anything else is read or written.
 *   O4. Whether another owner lives is told by a lock of its session. That is a hint to refuse a
 *       second process, and takes no part in safety: a connection that was lost lets another in,
 *       and O1 keeps the old one out.
 *   O5. A database that is older than what it has acknowledged (a failover to a standby that had
 *       not got it) is RON_CORRUPT, until the process starts anew.
 *
 * Codes: RON_AGAIN: the database is away, or full, or its answer did not come; RON_CONFLICT:
 * another process owns the tables; RON_CORRUPT: O5, or the tables are not those; RON_DENIED: no
 * rights; RON_UNSUPPORTED: of a newer program; RON_FULL: its disk is full. A failed write has
 * changed nothing, except for RON_TIMEOUT: not known, and settled with the next ron_pg_own_ready.
 *
 * Threads: one at a time, which may block. */
#pragma once

#include "ron/pg/pg.h"

struct ron_pg_own_opts {
    const struct ron_env *env;
    const char *conninfo;     /* as of ron_pg_opts; copied */
    const char *name;         /* application_name; copied */
    const char *table;        /* with the row; a constant */
    const char *const *steps; /* step i, several statements, leads from layout i to i + 1 */
    uint32_t step_count;
    uint64_t connect_ms; /* one attempt; 0: 1 s */
    uint64_t call_ms;    /* one statement; 0: 5 s */
    uint64_t pause_ms;   /* after a failed connection nothing is tried for so long; 0: 200 ms */
    uint32_t open_tries; /* to connect and to see a predecessor go, 100 ms apart; 0: 30 */
};

struct ron_pg_own;

/* Connects, makes or migrates the tables, and becomes the owner. */
RON_MUST_USE enum ron_rc ron_pg_own_open(const struct ron_pg_own_opts *opts,
                                         struct ron_pg_own **ret_own, struct ron_err *err);
void ron_pg_own_close(struct ron_pg_own *o); /* NULL is fine */

/* RON_OK: connected, owner, nothing unsettled. Otherwise tries to become so. A process that was
 * overtaken becomes the owner again when the other one has gone. */
RON_MUST_USE enum ron_rc ron_pg_own_ready(struct ron_pg_own *o, struct ron_err *err);
/* Whether the tables may hold what the last answers did not say: a write that ended in RON_TIMEOUT
 * was committed, or another owner was there. Who keeps a copy in memory loads it anew. Asked once;
 * ron_pg_own_ready first. */
bool ron_pg_own_changed(struct ron_pg_own *o);
uint64_t ron_pg_own_epoch(const struct ron_pg_own *o);

/* A statement that reads, or one inside of a transaction. ron_pg_own_ready, or _begin, first. */
RON_MUST_USE enum ron_rc ron_pg_own_ask(struct ron_pg_own *o, const char *sql,
                                        const struct ron_pg_param *params, size_t count,
                                        struct ron_pg_result *ret_result, struct ron_err *err);

/* One statement that is a whole transaction. It has to begin with
 *     WITH own AS (UPDATE <table> SET commits=$2+1, ... WHERE epoch=$1 AND commits=$2 RETURNING 1)
 * do nothing where `own` is empty, and end with SELECT count(*) FROM own. params[0] and [1] are
 * filled in here. An answer that is lost is looked for by sending it again: O2. */
RON_MUST_USE enum ron_rc ron_pg_own_write(struct ron_pg_own *o, const char *sql,
                                          struct ron_pg_param *params, size_t count,
                                          struct ron_err *err);

/* A transaction of several statements. After a failed ron_pg_own_ask only the rollback is left. */
RON_MUST_USE enum ron_rc ron_pg_own_begin(struct ron_pg_own *o, struct ron_err *err);
/* An answer that is lost is looked for, `patience_ms` long. */
RON_MUST_USE enum ron_rc ron_pg_own_commit(struct ron_pg_own *o, uint64_t patience_ms,
                                           struct ron_err *err);
void ron_pg_own_rollback(struct ron_pg_own *o); /* fine without a transaction */
/* Waits a moment, for who wants to try again. */
void ron_pg_own_pause(struct ron_pg_own *o);
