/* SPDX-License-Identifier: Apache-2.0 */
/* pg.h - one connection to PostgreSQL, with deadlines of our own and honest outcomes.
 *
 * Place: kernel, over libpq. Knows no schema: a service brings its statements.
 *
 * Invariants:
 *   P1. A statement ends in one of four ways (enum ron_pg_fate). DONE means that the server said so
 *       without a warning: a commit whose wait for a standby was cancelled comes with one, and is
 *       UNKNOWN. What was sent and not answered is UNKNOWN too, whatever happens to the connection.
 *   P2. Nothing waits beyond its deadline, which is kept here and never by the server: a server
 *       that gives up a statement may have committed it all the same. A statement is never
 *       cancelled. After a deadline the connection is dropped; the server may still finish.
 *   P3. The next statement after a failure connects anew, to any host of the connection string that
 *       accepts writes (target_session_attrs=read-write unless the string says otherwise). A host
 *       that says nothing within connect_ms is passed over, and asked last from then on.
 *   P4. Values travel in binary, both ways.
 *
 * Faults for tests: `pg_send` before a statement is sent, `pg_answer` after the server answered,
 * which is then lost.
 *
 * Threads: a connection belongs to one thread at a time, which may block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/clock.h"
#include "ron/base/env.h"
#include "ron/base/rc.h"

struct ron_pg;

enum {
    RON_PG_PARAMS_MAX = 32,
    RON_PG_STATE_SIZE = 6, /* an SQLSTATE, "23505" */
};

enum ron_pg_fate {
    RON_PG_DONE,     /* committed, rows are there */
    RON_PG_NOT_SENT, /* no connection: the server has never seen it */
    RON_PG_REFUSED,  /* the server said no, and nothing of it happened; `state` says why */
    RON_PG_UNKNOWN,  /* sent; nobody can say */
};

struct ron_pg_opts {
    const struct ron_env *env;
    const char *conninfo; /* keywords or URI, several hosts allowed; copied */
    const char *name;     /* application_name; copied */
    uint64_t connect_ms;  /* for hosts that refuse and the first that is silent */
};

/* A parameter. Integers are those of int8 and int4. */
struct ron_pg_param {
    const void *data; /* NULL: SQL's null */
    size_t len;
    uint8_t number[8];
    uint32_t type; /* 0: the server infers it */
};
void ron_pg_u64(struct ron_pg_param *p, uint64_t value); /* at most INT64_MAX */
void ron_pg_i64(struct ron_pg_param *p, int64_t value);
void ron_pg_bytes(struct ron_pg_param *p, const void *data, size_t len);
void ron_pg_text(struct ron_pg_param *p, const char *data, size_t len);

struct ron_pg_result {
    void *rows; /* of libpq; NULL: none */
    uint64_t affected;
};

/* No connection is made yet. RON_INVALID: the string is none; its text may hold a password and is
 * never told. */
RON_MUST_USE enum ron_rc ron_pg_new(const struct ron_pg_opts *opts, struct ron_pg **ret_pg,
                                    struct ron_err *err);
void ron_pg_free(struct ron_pg *pg); /* NULL is fine */

/* One statement, which is its own transaction; rows of the answer when ret_result is not NULL, to
 * be freed with ron_pg_result_done. RON_OK exactly when *ret_fate is DONE. Otherwise NOT_SENT:
 * RON_AGAIN or RON_TIMEOUT; REFUSED: RON_EXISTS for a unique violation, RON_DENIED without the
 * right, RON_NOTFOUND for a missing table, RON_AGAIN for what may work later (serialization,
 * read-only, shutting down), else RON_INVALID; UNKNOWN: RON_TIMEOUT, RON_CLOSED or RON_AGAIN (the
 * warning of P1). */
RON_MUST_USE enum ron_rc ron_pg_exec(struct ron_pg *pg, const char *sql,
                                     const struct ron_pg_param *params, size_t count,
                                     struct ron_deadline deadline, enum ron_pg_fate *ret_fate,
                                     struct ron_pg_result *ret_result, struct ron_err *err);
/* Several statements in one text without parameters, in one transaction: for migrations. */
RON_MUST_USE enum ron_rc ron_pg_script(struct ron_pg *pg, const char *sql,
                                       struct ron_deadline deadline, struct ron_err *err);
void ron_pg_drop(struct ron_pg *pg); /* the connection; the next statement makes a new one */

size_t ron_pg_rows(const struct ron_pg_result *r);
bool ron_pg_is_null(const struct ron_pg_result *r, size_t row, size_t column);
/* The bytes of a column; they live as long as the result. */
void ron_pg_value(const struct ron_pg_result *r, size_t row, size_t column, const uint8_t **ret,
                  size_t *ret_len);
/* An int8 or int4; RON_CORRUPT for anything else, and for negative ones. */
RON_MUST_USE enum ron_rc ron_pg_value_u64(const struct ron_pg_result *r, size_t row, size_t column,
                                          uint64_t *ret, struct ron_err *err);
void ron_pg_result_done(struct ron_pg_result *r);
