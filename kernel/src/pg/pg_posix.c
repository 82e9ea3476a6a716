/* SPDX-License-Identifier: Apache-2.0 */
/* pg_posix.c - one connection to PostgreSQL; the contract is in ron/pg/pg.h.
 *
 * libpq makes its own system calls, and waits are ours: the connection is non-blocking, and every
 * wait is a poll of its descriptor with what is left of the deadline. */
#include "ron/pg/pg.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pg/pg_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/fault.h"
#include "ron/sync/sync.h"

enum {
    BINARY = 1,
    TEXT_MAX = 120, /* of what the server says, in a message of ours */
    OID_BYTEA = 17, /* built-in types have fixed numbers */
    OID_INT8 = 20,
    OID_TEXT = 25,
    /* Ours are appended to those of the string. */
    KEYWORDS_MAX = 64,
};

struct ron_pg {
    const struct ron_env *env;
    char *conninfo;
    char *name;
    uint64_t connect_ms;
    size_t hosts;      /* that the string names, at least 1 */
    size_t first_host; /* tried before the others; one that was silent goes to the end */
    PGconn *conn;      /* NULL: none */
    bool warned;       /* P1: a warning came with the statement at hand */
    char warning[TEXT_MAX + 1];
    char state[RON_PG_STATE_SIZE];
};

/* ---- parameters and values ------------------------------------------------------------------- */

void ron_pg_u64(struct ron_pg_param *p, uint64_t value)
{
    RON_ASSERT(value <= INT64_MAX);
    ron_pg_i64(p, (int64_t)value);
}

void ron_pg_i64(struct ron_pg_param *p, int64_t value)
{
    for (int i = 0; i < 8; i++) {
        p->number[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
    }
    p->data = p->number;
    p->len = sizeof p->number;
    p->type = OID_INT8;
}

void ron_pg_bytes(struct ron_pg_param *p, const void *data, size_t len)
{
    p->data = data != NULL ? data : "";
    p->len = len;
    p->type = OID_BYTEA;
}

void ron_pg_text(struct ron_pg_param *p, const char *data, size_t len)
{
    p->data = data != NULL ? data : "";
    p->len = len;
    p->type = OID_TEXT;
}

size_t ron_pg_rows(const struct ron_pg_result *r)
{
    return r->rows == NULL ? 0 : (size_t)PQntuples(r->rows);
}

bool ron_pg_is_null(const struct ron_pg_result *r, size_t row, size_t column)
{
    return PQgetisnull(r->rows, (int)row, (int)column) != 0;
}

void ron_pg_value(const struct ron_pg_result *r, size_t row, size_t column, const uint8_t **ret,
                  size_t *ret_len)
{
    *ret = (const uint8_t *)PQgetvalue(r->rows, (int)row, (int)column);
    *ret_len = (size_t)PQgetlength(r->rows, (int)row, (int)column);
}

enum ron_rc ron_pg_value_u64(const struct ron_pg_result *r, size_t row, size_t column,
                             uint64_t *ret, struct ron_err *err)
{
    const uint8_t *bytes;
    uint64_t value = 0;
    size_t len;

    ron_pg_value(r, row, column, &bytes, &len);
    if ((len != 8 && len != 4) || (bytes[0] & 0x80) != 0) {
        return ron_err_set(err, RON_CORRUPT, "column %zu of row %zu is no number that fits", column,
                           row);
    }
    for (size_t i = 0; i < len; i++) {
        value = value << 8 | bytes[i];
    }
    *ret = value;
    return RON_OK;
}

void ron_pg_result_done(struct ron_pg_result *r)
{
    PQclear(r->rows);
    *r = (struct ron_pg_result){0};
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool names_hosts(const char *keyword)
{
    return strcmp(keyword, "host") == 0 || strcmp(keyword, "hostaddr") == 0;
}

static size_t count_items(const char *list)
{
    size_t n = 1;

    while ((list = strchr(list, ',')) != NULL) {
        list++;
        n++;
    }
    return n;
}

static size_t count_hosts(const PQconninfoOption *options)
{
    size_t n = 1;

    for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (o->val != NULL && names_hosts(o->keyword)) {
            n = RON_MAX(n, count_items(o->val));
        }
    }
    return n;
}

enum ron_rc ron_pg_new(const struct ron_pg_opts *opts, struct ron_pg **ret_pg, struct ron_err *err)
{
    char *said = NULL;
    PQconninfoOption *options = PQconninfoParse(opts->conninfo, &said);
    struct ron_pg *pg;
    size_t hosts;

    PQfreemem(said); /* It may quote the string, and so a password. */
    if (options == NULL) {
        return ron_err_set(err, RON_INVALID,
                           "the connection string of the database cannot be read");
    }
    hosts = count_hosts(options);
    PQconninfoFree(options);
    pg = ron_alloc_zero(sizeof *pg);
    if (pg == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a database connection");
    }
    pg->env = opts->env;
    pg->connect_ms = opts->connect_ms;
    pg->hosts = hosts;
    pg->conninfo = ron_strdup(opts->conninfo);
    pg->name = ron_strdup(opts->name);
    if (pg->conninfo == NULL || pg->name == NULL) {
        ron_pg_free(pg);
        return ron_err_set(err, RON_NOMEM, "no memory for a database connection");
    }
    *ret_pg = pg;
    return RON_OK;
}

void ron_pg_free(struct ron_pg *pg)
{
    if (pg == NULL) {
        return;
    }
    ron_pg_drop(pg);
    if (pg->conninfo != NULL) {
        explicit_bzero(pg->conninfo, strlen(pg->conninfo));
    }
    ron_free(pg->conninfo);
    ron_free(pg->name);
    ron_free(pg);
}

void ron_pg_drop(struct ron_pg *pg)
{
    PQfinish(pg->conn);
    pg->conn = NULL;
}

bool ron_pg_connected(const struct ron_pg *pg)
{
    return pg->conn != NULL;
}

const char *ron_pg_state(const struct ron_pg *pg)
{
    return pg->state;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Until the descriptor is readable or writable as `events` says, or broken. */
static enum ron_rc wait_for(const struct ron_pg *pg, short events, struct ron_deadline deadline,
                            struct ron_err *err)
{
    struct pollfd fd = {.fd = PQsocket(pg->conn), .events = events};

    if (fd.fd < 0) {
        return ron_err_set(err, RON_CLOSED, "the connection is gone");
    }
    for (;;) {
        uint64_t now_ns = ron_env_now_ns(pg->env);
        int n;

        if (ron_deadline_expired(deadline, now_ns)) {
            return ron_err_set(err, RON_TIMEOUT, "no answer of the database in time");
        }
        ron_blocking_point("postgres");
        n = poll(&fd, 1, ron_deadline_poll_ms(deadline, now_ns));
        if (n > 0) {
            return RON_OK;
        }
        if (n < 0 && errno != EINTR) {
            return ron_err_set_sys(err, RON_IO, errno, "poll of the database connection");
        }
    }
}

/* The first line of what libpq or the server says; it never holds the connection string. */
static void first_line(const char *text, char out[TEXT_MAX + 1])
{
    size_t len = strcspn(text, "\n");

    (void)snprintf(out, TEXT_MAX + 1, "%.*s", (int)RON_MIN(len, (size_t)TEXT_MAX), text);
}

/* P1. Below WARNING are notices of no weight, for example of a table that is there already. */
static void take_notice(void *arg, const PGresult *notice)
{
    struct ron_pg *pg = arg;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

    if (severity != NULL && strcmp(severity, "WARNING") == 0) {
        pg->warned = true;
        first_line(text != NULL ? text : "a warning", pg->warning);
    }
}

/* The same items, beginning with that of number `first`, the ones before it at the end. One item
 * stands for all hosts. NULL: no memory. */
static char *turned_list(const char *list, size_t first)
{
    size_t len = strlen(list);
    char *turned = ron_alloc(len + 1);
    const char *from = list;
    size_t tail;

    if (turned == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < first && from != NULL; i++) {
        from = strchr(from, ',');
        from = from == NULL ? NULL : from + 1;
    }
    if (from == NULL || from == list) {
        memcpy(turned, list, len + 1);
        return turned;
    }
    tail = len - (size_t)(from - list);
    memcpy(turned, from, tail);
    turned[tail] = ',';
    memcpy(turned + tail + 1, list, len - tail - 1); /* without the comma before `from` */
    turned[len] = '\0';
    return turned;
}

/* Lets the hosts of the options begin with `first`; a value is libpq's to free, so it is replaced
 * in place, in which it fits. */
static enum ron_rc turn_hosts(PQconninfoOption *options, size_t first)
{
    for (PQconninfoOption *o = options; first > 0 && o->keyword != NULL; o++) {
        if (o->val != NULL && (names_hosts(o->keyword) || strcmp(o->keyword, "port") == 0)) {
            char *turned = turned_list(o->val, first);

            if (turned == NULL) {
                return RON_NOMEM;
            }
            memcpy(o->val, turned, strlen(turned) + 1);
            ron_free(turned);
        }
    }
    return RON_OK;
}

static enum ron_rc start_connect(struct ron_pg *pg, struct ron_err *err)
{
    /* The expanded string comes first, so that what it does not say is ours to say. A server-side
     * limit would cancel what must not be cancelled (P2). */
    PQconninfoOption *options = PQconninfoParse(pg->conninfo, NULL);
    const char *keys[KEYWORDS_MAX + 1] = {0};
    const char *values[KEYWORDS_MAX + 1] = {0};
    bool session = false;
    bool user_timeout = false;
    size_t n = 0;

    if (options == NULL || turn_hosts(options, pg->first_host) != RON_OK) {
        PQconninfoFree(options);
        return ron_err_set(err, RON_NOMEM, "no memory for the connection string");
    }
    for (PQconninfoOption *o = options; o->keyword != NULL && n < KEYWORDS_MAX - 4; o++) {
        if (o->val != NULL) {
            session = session || strcmp(o->keyword, "target_session_attrs") == 0;
            user_timeout = user_timeout || strcmp(o->keyword, "tcp_user_timeout") == 0;
            keys[n] = o->keyword;
            values[n++] = o->val;
        }
    }
    keys[n] = "application_name";
    values[n++] = pg->name;
    if (!session) {
        keys[n] = "target_session_attrs";
        values[n++] = "read-write";
    }
    if (!user_timeout) {
        keys[n] = "tcp_user_timeout";
        values[n++] = "5000"; /* a peer that vanished is noticed below any deadline of ours */
    }
    pg->conn = PQconnectStartParams(keys, values, 0);
    PQconninfoFree(options);
    if (pg->conn == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a database connection");
    }
    (void)PQsetNoticeReceiver(pg->conn, take_notice, pg);
    return RON_OK;
}

static enum ron_rc finish_connect(struct ron_pg *pg, struct ron_deadline deadline,
                                  struct ron_err *err)
{
    PostgresPollingStatusType step = PGRES_POLLING_WRITING;
    char said[TEXT_MAX + 1];

    while (PQstatus(pg->conn) != CONNECTION_BAD && step != PGRES_POLLING_OK &&
           step != PGRES_POLLING_FAILED) {
        RON_TRY(wait_for(pg, step == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline, err));
        step = PQconnectPoll(pg->conn);
    }
    if (step != PGRES_POLLING_OK) {
        first_line(PQerrorMessage(pg->conn), said);
        return ron_err_set(err, RON_AGAIN, "no connection to the database: %s", said);
    }
    if (PQsetnonblocking(pg->conn, 1) != 0) {
        return ron_err_set(err, RON_IO, "the database connection cannot be made non-blocking");
    }
    return RON_OK;
}

static enum ron_rc connect_once(struct ron_pg *pg, struct ron_deadline deadline,
                                struct ron_err *err)
{
    enum ron_rc rc = start_connect(pg, err);

    rc = rc == RON_OK ? finish_connect(pg, deadline, err) : rc;
    if (rc != RON_OK) {
        ron_pg_drop(pg);
    }
    return rc;
}

/* libpq goes on to the next host when one refuses, but with waits of our own it cannot know that
 * one is silent: a machine without power, a process that stands still. Then the next one comes
 * first, now and for later calls (P3). */
static enum ron_rc connect_now(struct ron_pg *pg, struct ron_deadline deadline, struct ron_err *err)
{
    enum ron_rc rc = RON_TIMEOUT;

    if (pg->conn != NULL && PQstatus(pg->conn) == CONNECTION_OK) {
        return RON_OK;
    }
    ron_pg_drop(pg);
    for (size_t i = 0; i < pg->hosts && rc == RON_TIMEOUT; i++) {
        uint64_t now_ns = ron_env_now_ns(pg->env);

        if (i > 0 && ron_deadline_expired(deadline, now_ns)) {
            break;
        }
        rc = connect_once(
            pg, ron_deadline_min(deadline, ron_deadline_after_ms(now_ns, pg->connect_ms)), err);
        if (rc == RON_TIMEOUT) {
            pg->first_host = (pg->first_host + 1) % pg->hosts;
        }
    }
    return rc;
}

/* ---- statements ------------------------------------------------------------------------------ */

static enum ron_rc flush(struct ron_pg *pg, struct ron_deadline deadline, struct ron_err *err)
{
    int left;

    while ((left = PQflush(pg->conn)) > 0) {
        /* The server may have to be heard before it reads on. */
        RON_TRY(wait_for(pg, POLLIN | POLLOUT, deadline, err));
        if (PQconsumeInput(pg->conn) == 0) {
            return ron_err_set(err, RON_CLOSED, "the database closed the connection");
        }
    }
    return left == 0 ? RON_OK : ron_err_set(err, RON_CLOSED, "the database closed the connection");
}

/* The last result; those before it are dropped, unless one of them is an error. */
static enum ron_rc collect(struct ron_pg *pg, struct ron_deadline deadline, PGresult **ret_result,
                           struct ron_err *err)
{
    PGresult *kept = NULL;

    for (;;) {
        PGresult *next;
        enum ron_rc rc = RON_OK;

        while (rc == RON_OK && PQisBusy(pg->conn) != 0) {
            rc = wait_for(pg, POLLIN, deadline, err);
            if (rc == RON_OK && PQconsumeInput(pg->conn) == 0) {
                rc = ron_err_set(err, RON_CLOSED, "the database closed the connection");
            }
        }
        if (rc != RON_OK) {
            PQclear(kept);
            return rc;
        }
        next = PQgetResult(pg->conn);
        if (next == NULL) {
            break;
        }
        if (kept != NULL && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
            PQclear(next);
        } else {
            PQclear(kept);
            kept = next;
        }
    }
    if (kept == NULL) {
        return ron_err_set(err, RON_CLOSED, "the database gave no result");
    }
    *ret_result = kept;
    return RON_OK;
}

static enum ron_rc code_of(const char *state)
{
    static const struct {
        const char *prefix;
        enum ron_rc rc;
    } rows[] = {
        {"23505", RON_EXISTS},   /* unique violation */
        {"42501", RON_DENIED},   /* insufficient privilege */
        {"28", RON_DENIED},      /* authorization */
        {"42P01", RON_NOTFOUND}, /* no such table */
        {"3F000", RON_NOTFOUND}, /* no such schema */
        {"40", RON_AGAIN},       /* serialization, deadlock */
        {"25006", RON_AGAIN},    /* read-only: a primary that became a standby */
        {"55P03", RON_AGAIN},    /* lock not available */
        {"53", RON_AGAIN},       /* out of resources */
        {"57", RON_AGAIN},       /* operator intervention */
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (strncmp(state, rows[i].prefix, strlen(rows[i].prefix)) == 0) {
            return rows[i].rc;
        }
    }
    return RON_INVALID;
}

/* The server ended the session while the statement ran: whether it was committed is not known. A
 * deadlock or a serialization failure on the other hand is a definite no. */
static bool left_open(const char *state)
{
    return strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0 || state[0] == '\0';
}

static enum ron_rc refused(struct ron_pg *pg, const PGresult *result, enum ron_pg_fate *ret_fate,
                           struct ron_err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char said[TEXT_MAX + 1];

    (void)snprintf(pg->state, sizeof pg->state, "%s", state != NULL ? state : "");
    first_line(text != NULL ? text : PQresultErrorMessage(result), said);
    if (left_open(pg->state)) {
        *ret_fate = RON_PG_UNKNOWN;
        return ron_err_set(err, RON_CLOSED, "the database ended the session: %s", said);
    }
    *ret_fate = RON_PG_REFUSED;
    return ron_err_set(err, code_of(pg->state), "the database says %s: %s", pg->state, said);
}

/* What the result says, when one has come. */
static enum ron_rc judge(struct ron_pg *pg, PGresult *result, enum ron_pg_fate *ret_fate,
                         struct ron_pg_result *ret_result, struct ron_err *err)
{
    ExecStatusType status = PQresultStatus(result);
    const char *affected = PQcmdTuples(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        return refused(pg, result, ret_fate, err);
    }
    if (pg->warned) {
        *ret_fate = RON_PG_UNKNOWN;
        return ron_err_set(err, RON_AGAIN, "the database warns: %s", pg->warning);
    }
    *ret_fate = RON_PG_DONE;
    if (ret_result != NULL) {
        *ret_result = (struct ron_pg_result){.rows = result};
        for (; *affected >= '0' && *affected <= '9'; affected++) {
            ret_result->affected = ret_result->affected * 10 + (uint64_t)(*affected - '0');
        }
    }
    return RON_OK;
}

/* Sends what was handed to libpq and takes the answer. */
static enum ron_rc carry_out(struct ron_pg *pg, bool handed, struct ron_deadline deadline,
                             enum ron_pg_fate *ret_fate, struct ron_pg_result *ret_result,
                             struct ron_err *err)
{
    PGresult *result = NULL;
    enum ron_rc rc;

    if (!handed) {
        *ret_fate = RON_PG_NOT_SENT;
        ron_pg_drop(pg);
        return ron_err_set(err, RON_AGAIN, "the statement cannot be sent");
    }
    *ret_fate = RON_PG_UNKNOWN;
    rc = flush(pg, deadline, err);
    rc = rc == RON_OK ? collect(pg, deadline, &result, err) : rc;
    if (rc == RON_OK && RON_FAULT(RON_FAULT_SYSCALL, "pg_answer")) {
        PQclear(result);
        rc = ron_err_set(err, RON_CLOSED, "the database closed the connection");
    }
    if (rc != RON_OK) {
        ron_pg_drop(pg); /* P2 */
        return rc;
    }
    rc = judge(pg, result, ret_fate, ret_result, err);
    if (rc != RON_OK || ret_result == NULL) {
        PQclear(result);
    }
    /* A primary that has become a standby says so here; the next statement looks for another. */
    if (*ret_fate == RON_PG_UNKNOWN || strcmp(pg->state, "25006") == 0) {
        ron_pg_drop(pg);
    }
    return rc;
}

static enum ron_rc begin(struct ron_pg *pg, struct ron_deadline deadline,
                         enum ron_pg_fate *ret_fate, struct ron_err *err)
{
    pg->state[0] = '\0';
    *ret_fate = RON_PG_NOT_SENT;
    RON_TRY(connect_now(pg, deadline, err));
    pg->warned = false; /* what was said while connecting is not of the statement */
    return RON_OK;
}

enum ron_rc ron_pg_exec(struct ron_pg *pg, const char *sql, const struct ron_pg_param *params,
                        size_t count, struct ron_deadline deadline, enum ron_pg_fate *ret_fate,
                        struct ron_pg_result *ret_result, struct ron_err *err)
{
    const char *values[RON_PG_PARAMS_MAX];
    Oid types[RON_PG_PARAMS_MAX];
    int lengths[RON_PG_PARAMS_MAX];
    int formats[RON_PG_PARAMS_MAX];

    RON_ASSERT(count <= RON_PG_PARAMS_MAX);
    RON_TRY(begin(pg, deadline, ret_fate, err));
    for (size_t i = 0; i < count; i++) {
        RON_ASSERT(params[i].len <= INT32_MAX);
        /* A parameter may have been copied since its number was set. */
        values[i] = params[i].type == OID_INT8 ? (const char *)params[i].number : params[i].data;
        lengths[i] = (int)params[i].len;
        formats[i] = BINARY;
        types[i] = params[i].type;
    }
    return carry_out(pg,
                     !RON_FAULT(RON_FAULT_SYSCALL, "pg_send") &&
                         PQsendQueryParams(pg->conn, sql, (int)count, types, values, lengths,
                                           formats, BINARY) == 1,
                     deadline, ret_fate, ret_result, err);
}

enum ron_rc ron_pg_script(struct ron_pg *pg, const char *sql, struct ron_deadline deadline,
                          struct ron_err *err)
{
    enum ron_pg_fate fate;

    RON_TRY(begin(pg, deadline, &fate, err));
    return carry_out(pg,
                     !RON_FAULT(RON_FAULT_SYSCALL, "pg_send") && PQsendQuery(pg->conn, sql) == 1,
                     deadline, &fate, NULL, err);
}
