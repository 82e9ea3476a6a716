/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/pg_posix.c - the mailbox in tables of PostgreSQL; contract in file.h, tables in
 * docs/formats/interop-mailbox.md.
 *
 * Place: interop, over ron/pg/pg_own.h, which says who owns the tables and settles commits whose
 * answer was lost. A transaction is gathered here in arrays, one per column, and goes out as one
 * statement: one way there and back for a whole group, and no transaction of the database is open
 * while the group is being made.
 *
 * `stale` stands from the moment on at which the tables hold something that memory does not know,
 * until all of it was loaded again. Meanwhile everything is refused with RON_AGAIN. */
#include "interop/mailbox/file.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/secret.h"
#include "ron/pg/pg_array.h"
#include "ron/pg/pg_own.h"

enum {
    LOAD_ROWS = 10000,    /* of one page */
    KEEP_BYTES = 1 << 20, /* of memory that an array holds on to */
    LOOK_MS = 1000,       /* an idle mailbox asks for its database so often */
    SUM_BYTES = 8,
};

static const char step_1[] =
    "CREATE TABLE interop_box(one int4 PRIMARY KEY CHECK(one=1),layout int4 NOT NULL,"
    "epoch int8 NOT NULL,commits int8 NOT NULL,last_id int8 NOT NULL,secret bytea NOT NULL)"
    " WITH (fillfactor=10);"
    "CREATE TABLE interop_topics(id int8 PRIMARY KEY,name text COLLATE \"C\" NOT NULL UNIQUE);"
    "CREATE TABLE interop_messages(id int8 PRIMARY KEY,topic int8 NOT NULL,dead int8 NOT NULL,"
    "deliveries int8 NOT NULL,due_ms int8 NOT NULL,sent_ms int8 NOT NULL,sum bytea NOT NULL,"
    "reason bytea NOT NULL,head bytea NOT NULL,body bytea NOT NULL);"
    "ALTER TABLE interop_messages ALTER body SET STORAGE EXTERNAL;"
    "CREATE INDEX interop_dead ON interop_messages(topic,id) WHERE dead=1;"
    "CREATE TABLE interop_seen(id int8 PRIMARY KEY,at_ms int8 NOT NULL,key bytea NOT NULL);"
    "CREATE TABLE interop_targets(name bytea PRIMARY KEY,is_off int8 NOT NULL,"
    "off_ms int8 NOT NULL,reason bytea NOT NULL);"
    "INSERT INTO interop_box(one,layout,epoch,commits,last_id,secret) VALUES(1,1,0,0,0,'')";
static const char *const steps[] = {step_1};

/* X(NAME, kind): the columns of what a transaction adds, changes and drops. Their order is that of
 * the parameters after the fixed ones. */
#define COLUMNS(X)                                                                                 \
    X(TOPIC_ID, INT8)                                                                              \
    X(TOPIC_NAME, TEXT)                                                                            \
    X(ADD_ID, INT8)                                                                                \
    X(ADD_TOPIC, INT8)                                                                             \
    X(ADD_DUE, INT8)                                                                               \
    X(ADD_SENT, INT8)                                                                              \
    X(ADD_SUM, BYTEA)                                                                              \
    X(ADD_HEAD, BYTEA)                                                                             \
    X(ADD_BODY, BYTEA)                                                                             \
    X(DROP_ID, INT8)                                                                               \
    X(MOVE_ID, INT8)                                                                               \
    X(MOVE_DEAD, INT8)                                                                             \
    X(MOVE_COUNT, INT8)                                                                            \
    X(MOVE_DUE, INT8)                                                                              \
    X(MOVE_REASON, BYTEA)                                                                          \
    X(SEEN_ID, INT8)                                                                               \
    X(SEEN_AT, INT8)                                                                               \
    X(SEEN_KEY, BYTEA)                                                                             \
    X(TARGET_NAME, BYTEA)                                                                          \
    X(TARGET_IS_OFF, INT8)                                                                         \
    X(TARGET_AT, INT8)                                                                             \
    X(TARGET_REASON, BYTEA)                                                                        \
    X(TOPIC_GONE, INT8)
enum column {
#define X(name, kind) COL_##name,
    COLUMNS(X)
#undef X
        COLUMN_COUNT
};
static const enum ron_pg_kind column_kinds[] = {
#define X(name, kind) [COL_##name] = RON_PG_##kind,
    COLUMNS(X)
#undef X
};

/* $1 epoch and $2 commits are of ron_pg_own_write, $3 the last id, $4 and $5 the old keys. */
enum { FIXED = 5, PARAMS = FIXED + COLUMN_COUNT };

/* Of two that switch one target in one group the later one counts. */
static const char write_sql[] =
    "WITH own AS (UPDATE interop_box SET commits=$2+1,last_id=greatest(last_id,$3) "
    "WHERE one=1 AND epoch=$1 AND commits=$2 RETURNING 1),"
    "a AS (INSERT INTO interop_topics(id,name) SELECT v.* FROM own,unnest($6::int8[],$7::text[])"
    " AS v(id,name)),"
    "b AS (INSERT INTO interop_messages(id,topic,dead,deliveries,due_ms,sent_ms,sum,reason,head,"
    "body) SELECT v.id,v.topic,0,0,v.due,v.sent,v.sum,'',v.head,v.body FROM own,"
    "unnest($8::int8[],$9::int8[],$10::int8[],$11::int8[],$12::bytea[],$13::bytea[],$14::bytea[])"
    " AS v(id,topic,due,sent,sum,head,body)),"
    "c AS (DELETE FROM interop_messages USING own WHERE id=ANY($15::int8[])),"
    "d AS (UPDATE interop_messages m SET dead=v.dead,deliveries=v.count,due_ms=v.due,"
    "reason=v.reason FROM own,unnest($16::int8[],$17::int8[],$18::int8[],$19::int8[],$20::bytea[])"
    " AS v(id,dead,count,due,reason) WHERE m.id=v.id),"
    "e AS (INSERT INTO interop_seen(id,at_ms,key) SELECT v.* FROM own,"
    "unnest($21::int8[],$22::int8[],$23::bytea[]) AS v(id,at_ms,key)),"
    "f AS (DELETE FROM interop_seen USING own WHERE id<=$4 AND at_ms<$5),"
    "g AS (INSERT INTO interop_targets(name,is_off,off_ms,reason) "
    "SELECT DISTINCT ON (v.name) v.name,v.is_off,v.off_ms,v.reason FROM own,"
    "unnest($24::bytea[],$25::int8[],$26::int8[],$27::bytea[]) WITH ORDINALITY"
    " AS v(name,is_off,off_ms,reason,n) ORDER BY v.name,v.n DESC "
    "ON CONFLICT(name) DO UPDATE SET is_off=excluded.is_off,off_ms=excluded.off_ms,"
    "reason=excluded.reason),"
    "h AS (DELETE FROM interop_topics USING own WHERE id=ANY($28::int8[])) "
    "SELECT count(*) FROM own";

struct pg_file {
    struct iop_file base;
    const struct ron_env *env;
    struct ron_pg_own *own;
    struct ron_pg_array columns[COLUMN_COUNT];
    uint64_t seen_id;  /* given out */
    uint64_t sweep_id; /* keys up to here ... */
    uint64_t sweep_ms; /* ... that are older leave with the transaction */
    uint64_t look_ns;  /* when an idle one is to ask next */
    bool stale;
    struct ron_pg_result rows; /* of the last fetch */
};

static struct pg_file *of(struct iop_file *file)
{
    return RON_CONTAINER_OF(file, struct pg_file, base);
}

/* Who was overtaken looks to its callers like one without a database. */
static enum ron_rc away(enum ron_rc rc, const struct ron_err *why, struct ron_err *err)
{
    return ron_err_set(err, rc == RON_CONFLICT || rc == RON_DENIED ? RON_AGAIN : rc, "mailbox: %s",
                       why->msg);
}

static void let_go(struct pg_file *f)
{
    ron_pg_result_done(&f->rows);
}

static enum ron_rc usable(struct pg_file *f, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = ron_pg_own_ready(f->own, &why);

    if (rc != RON_OK) {
        return away(rc, &why, err);
    }
    f->stale = ron_pg_own_changed(f->own) || f->stale;
    if (f->stale) {
        return ron_err_set(err, RON_AGAIN, "mailbox: being reloaded");
    }
    return RON_OK;
}

static enum ron_rc ask(struct pg_file *f, const char *sql, const struct ron_pg_param *params,
                       size_t count, struct ron_pg_result *ret, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = ron_pg_own_ask(f->own, sql, params, count, ret, &why);

    return rc == RON_OK ? RON_OK : away(rc, &why, err);
}

static struct ron_str get_str(const struct ron_pg_result *r, size_t row, size_t column)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(r, row, column, &bytes, &len);
    return (struct ron_str){len > 0 ? (const char *)bytes : "", len};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void forget(struct pg_file *f)
{
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        ron_pg_array_clear(&f->columns[i], KEEP_BYTES);
    }
    f->sweep_id = 0;
    f->sweep_ms = 0;
}

static enum ron_rc pg_begin(struct iop_file *file, struct ron_err *err)
{
    struct pg_file *f = of(file);

    let_go(f);
    forget(f);
    return usable(f, err);
}

static void pg_rollback(struct iop_file *file)
{
    struct pg_file *f = of(file);

    let_go(f);
    forget(f); /* nothing of it was sent */
}

static enum ron_rc pg_commit(struct iop_file *file, uint64_t last_id, struct ron_err *err)
{
    struct pg_file *f = of(file);
    struct ron_pg_param params[PARAMS];
    struct ron_err why = {0};
    enum ron_rc rc = RON_OK;

    let_go(f);
    ron_pg_u64(&params[2], last_id);
    ron_pg_u64(&params[3], f->sweep_id);
    ron_pg_u64(&params[4], f->sweep_ms);
    for (unsigned i = 0; i < COLUMN_COUNT && rc == RON_OK; i++) {
        rc = ron_pg_array_param(&f->columns[i], &params[FIXED + i]);
    }
    if (rc != RON_OK) {
        forget(f);
        return ron_err_set(err, rc, "mailbox: out of memory for a transaction");
    }
    rc = ron_pg_own_write(f->own, write_sql, params, PARAMS, &why);
    forget(f);
    if (rc != RON_OK) {
        return away(rc, &why, err);
    }
    f->base.last_id = RON_MAX(f->base.last_id, last_id);
    f->look_ns = ron_deadline_after_ms(ron_env_now_ns(f->env), LOOK_MS).at_ns;
    return RON_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_u64(struct pg_file *f, enum column column, uint64_t value)
{
    ron_pg_array_u64(&f->columns[column], value);
}

static void put_bytes(struct pg_file *f, enum column column, const void *bytes, size_t len)
{
    ron_pg_array_bytes(&f->columns[column], bytes, len);
}

static enum ron_rc pg_add_topic(struct iop_file *file, uint32_t row, struct ron_str name,
                                struct ron_err *err)
{
    struct pg_file *f = of(file);

    (void)err; /* what does not fit is told by the commit */
    put_u64(f, COL_TOPIC_ID, row);
    put_bytes(f, COL_TOPIC_NAME, name.ptr, name.len);
    return RON_OK;
}

static enum ron_rc pg_drop_topic(struct iop_file *file, uint32_t row, struct ron_err *err)
{
    (void)err;
    put_u64(of(file), COL_TOPIC_GONE, row);
    return RON_OK;
}

static void put_sum(uint64_t sum, uint8_t ret[SUM_BYTES])
{
    for (int i = 0; i < SUM_BYTES; i++) {
        ret[i] = (uint8_t)(sum >> (56 - 8 * i));
    }
}

static enum ron_rc pg_add(struct iop_file *file, uint64_t id, uint32_t topic, uint64_t due_ms,
                          uint64_t sent_ms, const struct iop_msg *msg, struct ron_err *err)
{
    struct pg_file *f = of(file);
    uint8_t sum[SUM_BYTES];

    (void)err;
    put_sum(iop_row_sum(id, topic, sent_ms, msg->head, msg->body), sum);
    put_u64(f, COL_ADD_ID, id);
    put_u64(f, COL_ADD_TOPIC, topic);
    put_u64(f, COL_ADD_DUE, due_ms);
    put_u64(f, COL_ADD_SENT, sent_ms);
    put_bytes(f, COL_ADD_SUM, sum, sizeof sum);
    put_bytes(f, COL_ADD_HEAD, msg->head.ptr, msg->head.len);
    put_bytes(f, COL_ADD_BODY, msg->body.ptr, msg->body.len);
    return RON_OK;
}

static enum ron_rc pg_drop(struct iop_file *file, uint64_t id, struct ron_err *err)
{
    (void)err;
    put_u64(of(file), COL_DROP_ID, id);
    return RON_OK;
}

static enum ron_rc pg_move(struct iop_file *file, uint64_t id, bool dead, uint32_t deliveries,
                           uint64_t due_ms, struct ron_str reason, struct ron_err *err)
{
    struct pg_file *f = of(file);

    (void)err;
    put_u64(f, COL_MOVE_ID, id);
    put_u64(f, COL_MOVE_DEAD, dead);
    put_u64(f, COL_MOVE_COUNT, deliveries);
    put_u64(f, COL_MOVE_DUE, due_ms);
    put_bytes(f, COL_MOVE_REASON, reason.ptr, reason.len);
    return RON_OK;
}

static enum ron_rc pg_add_seen(struct iop_file *file, const struct iop_key *key, uint64_t at_ms,
                               struct ron_err *err)
{
    struct pg_file *f = of(file);

    (void)err;
    put_u64(f, COL_SEEN_ID, ++f->seen_id); /* one that is not used is lost, never given out twice */
    put_u64(f, COL_SEEN_AT, at_ms);
    put_bytes(f, COL_SEEN_KEY, key->bytes, sizeof key->bytes);
    return RON_OK;
}

/* Which ones is looked up now; they leave with the transaction. */
static enum ron_rc pg_drop_seen(struct iop_file *file, uint64_t before_ms, uint32_t max,
                                struct ron_err *err)
{
    static const char sql[] =
        "SELECT coalesce(max(id),0)::int8,count(*) FROM (SELECT id,at_ms FROM interop_seen "
        "ORDER BY id LIMIT $2) v WHERE at_ms<$1";
    struct pg_file *f = of(file);
    struct ron_pg_result r = {0};
    struct ron_pg_param p[2];
    enum ron_rc rc;

    ron_pg_u64(&p[0], before_ms);
    ron_pg_u64(&p[1], max);
    RON_TRY(ask(f, sql, p, 2, &r, err));
    rc = ron_pg_value_u64(&r, 0, 0, &f->sweep_id, err);
    rc = rc == RON_OK ? ron_pg_value_u64(&r, 0, 1, &f->base.swept, err) : rc;
    f->sweep_ms = before_ms;
    ron_pg_result_done(&r);
    return rc;
}

static enum ron_rc pg_target(struct iop_file *file, struct ron_str name, bool off, uint64_t at_ms,
                             struct ron_str reason, struct ron_err *err)
{
    struct pg_file *f = of(file);

    (void)err;
    put_bytes(f, COL_TARGET_NAME, name.ptr, name.len);
    put_u64(f, COL_TARGET_IS_OFF, off);
    put_u64(f, COL_TARGET_AT, at_ms);
    put_bytes(f, COL_TARGET_REASON, reason.ptr, off ? reason.len : 0);
    return RON_OK;
}

static enum ron_rc pg_target_off(struct iop_file *file, struct ron_str name, bool *ret_off,
                                 struct ron_buf *reason, struct ron_err *err)
{
    struct pg_file *f = of(file);
    struct ron_pg_result r = {0};
    struct ron_pg_param p;
    enum ron_rc rc = RON_OK;

    RON_TRY(usable(f, err));
    ron_pg_bytes(&p, name.ptr, name.len);
    RON_TRY(
        ask(f, "SELECT reason FROM interop_targets WHERE name=$1 AND is_off=1", &p, 1, &r, err));
    *ret_off = ron_pg_rows(&r) > 0;
    if (*ret_off && reason != NULL) {
        struct ron_str text = get_str(&r, 0, 0);

        rc = ron_buf_append(reason, text.ptr, text.len);
    }
    ron_pg_result_done(&r);
    return rc;
}

static enum ron_rc pg_dead(struct iop_file *file, uint32_t topic, uint64_t after_id,
                           uint64_t *ret_ids, uint32_t max, uint32_t *ret_count,
                           struct ron_err *err)
{
    struct pg_file *f = of(file);
    struct ron_pg_result r = {0};
    struct ron_pg_param p[3];
    enum ron_rc rc = RON_OK;
    uint32_t count = 0;

    *ret_count = 0;
    RON_TRY(usable(f, err));
    ron_pg_u64(&p[0], topic);
    ron_pg_u64(&p[1], RON_MIN(after_id, (uint64_t)INT64_MAX));
    ron_pg_u64(&p[2], max);
    RON_TRY(ask(f,
                "SELECT id FROM interop_messages WHERE dead=1 AND topic=$1 AND id>$2 ORDER BY id "
                "LIMIT $3",
                p, 3, &r, err));
    for (; rc == RON_OK && count < ron_pg_rows(&r); count++) {
        rc = ron_pg_value_u64(&r, count, 0, &ret_ids[count], err);
    }
    ron_pg_result_done(&r);
    *ret_count = rc == RON_OK ? count : 0;
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The row of the box comes with them, and only for its owner: who was overtaken hands nothing out.
 */
static const char fetch_sql[] =
    "SELECT m.id,m.topic,m.sent_ms,m.sum,m.reason,m.head,m.body FROM interop_box b "
    "LEFT JOIN interop_messages m ON m.id=ANY($2::int8[]) WHERE b.one=1 AND b.epoch=$1";

static enum ron_rc pg_fetch(struct iop_file *file, const uint64_t *ids, uint32_t count,
                            struct ron_err *err)
{
    struct pg_file *f = of(file);
    struct ron_pg_array array;
    struct ron_pg_param p[2];
    enum ron_rc rc;

    let_go(f);
    RON_TRY(usable(f, err));
    ron_pg_array_init(&array, RON_PG_INT8);
    for (uint32_t i = 0; i < count; i++) {
        ron_pg_array_u64(&array, ids[i]);
    }
    ron_pg_u64(&p[0], ron_pg_own_epoch(f->own));
    rc = ron_pg_array_param(&array, &p[1]);
    if (rc == RON_OK) {
        rc = ask(f, fetch_sql, p, 2, &f->rows, err);
    } else {
        rc = ron_err_set(err, rc, "mailbox: out of memory");
    }
    ron_pg_array_done(&array);
    if (rc == RON_OK && ron_pg_rows(&f->rows) == 0) {
        let_go(f);
        rc = ron_err_set(err, RON_AGAIN, "mailbox: in use by another process");
    }
    return rc;
}

static bool find(const struct pg_file *f, uint64_t id, size_t *ret_row)
{
    for (size_t i = 0; i < ron_pg_rows(&f->rows); i++) {
        uint64_t found = 0;

        if (!ron_pg_is_null(&f->rows, i, 0) &&
            ron_pg_value_u64(&f->rows, i, 0, &found, NULL) == RON_OK && found == id) {
            *ret_row = i;
            return true;
        }
    }
    return false;
}

static enum ron_rc pg_get(struct iop_file *file, uint64_t id, uint32_t topic,
                          struct iop_row *ret_row, struct ron_err *err)
{
    struct pg_file *f = of(file);
    uint8_t sum[SUM_BYTES];
    struct iop_row r = {0};
    struct ron_str kept;
    uint64_t kept_topic = 0;
    size_t row = 0;

    if (!find(f, id, &row)) {
        RON_TRY(pg_fetch(file, &id, 1, err));
        if (!find(f, id, &row)) {
            return ron_err_set(err, RON_CORRUPT, "mailbox: message row is missing");
        }
    }
    RON_TRY(ron_pg_value_u64(&f->rows, row, 1, &kept_topic, err));
    RON_TRY(ron_pg_value_u64(&f->rows, row, 2, &r.sent_ms, err));
    kept = get_str(&f->rows, row, 3);
    r.reason = get_str(&f->rows, row, 4);
    r.head = get_str(&f->rows, row, 5);
    r.body = get_str(&f->rows, row, 6);
    put_sum(iop_row_sum(id, topic, r.sent_ms, r.head, r.body), sum);
    if (kept_topic != topic || kept.len != sizeof sum || memcmp(kept.ptr, sum, sizeof sum) != 0) {
        return ron_err_set(err, RON_CORRUPT, "mailbox: message row is corrupt");
    }
    *ret_row = r;
    return RON_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static enum ron_rc load_topic(const struct ron_pg_result *r, size_t row,
                              const struct iop_file_load *load)
{
    uint64_t id = 0;

    RON_TRY(ron_pg_value_u64(r, row, 0, &id, NULL));
    return iop_load_topic(load, id, get_str(r, row, 1));
}

static enum ron_rc load_message(const struct ron_pg_result *r, size_t row,
                                const struct iop_file_load *load)
{
    uint64_t facts[IOP_LOAD_FACTS];

    for (size_t i = 0; i < IOP_LOAD_FACTS; i++) {
        RON_TRY(ron_pg_value_u64(r, row, i, &facts[i], NULL));
    }
    return iop_load_message(load, facts);
}

static enum ron_rc load_seen(const struct ron_pg_result *r, size_t row,
                             const struct iop_file_load *load)
{
    uint64_t at_ms = 0;

    RON_TRY(ron_pg_value_u64(r, row, 1, &at_ms, NULL));
    return iop_load_seen(load, at_ms, get_str(r, row, 2));
}

struct table {
    const char *sql;
    enum ron_rc (*each)(const struct ron_pg_result *r, size_t row,
                        const struct iop_file_load *load);
    const char *what;
};

/* In pages by id, so that memory is needed for one of them. */
static enum ron_rc load_table(struct pg_file *f, const struct table *t,
                              const struct iop_file_load *load, uint64_t *ret_last,
                              struct ron_err *err)
{
    size_t rows = LOAD_ROWS;
    uint64_t last = 0;

    while (rows == LOAD_ROWS) {
        struct ron_pg_result r = {0};
        struct ron_pg_param p[2];
        enum ron_rc rc = RON_OK;

        ron_pg_u64(&p[0], last);
        ron_pg_u64(&p[1], LOAD_ROWS);
        RON_TRY(ask(f, t->sql, p, 2, &r, err));
        rows = ron_pg_rows(&r);
        for (size_t i = 0; i < rows && rc == RON_OK; i++) {
            rc = t->each(&r, i, load);
            rc = rc == RON_OK ? ron_pg_value_u64(&r, i, 0, &last, NULL) : rc;
        }
        ron_pg_result_done(&r);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "mailbox: too many %s in the database", t->what);
        }
    }
    *ret_last = last;
    return RON_OK;
}

static enum ron_rc read_meta(struct pg_file *f, struct ron_err *err)
{
    struct ron_pg_result r = {0};
    struct ron_str secret = {"", 0};
    enum ron_rc rc;

    RON_TRY(ask(f, "SELECT last_id,secret FROM interop_box WHERE one=1", NULL, 0, &r, err));
    rc = ron_pg_rows(&r) == 1 ? ron_pg_value_u64(&r, 0, 0, &f->base.last_id, err)
                              : ron_err_set(err, RON_CORRUPT, "mailbox: owner row is missing");
    if (rc == RON_OK) {
        secret = get_str(&r, 0, 1);
        rc = secret.len == sizeof f->base.secret
                 ? RON_OK
                 : ron_err_set(err, RON_CORRUPT, "mailbox: deduplication secret is missing");
    }
    if (rc == RON_OK) {
        memcpy(f->base.secret, secret.ptr, sizeof f->base.secret);
    }
    ron_pg_result_done(&r);
    return rc;
}

static enum ron_rc pg_load(struct iop_file *file, const struct iop_file_load *load,
                           struct ron_err *err)
{
    static const struct table tables[] = {
        {"SELECT id,name FROM interop_topics WHERE id>$1 ORDER BY id LIMIT $2", load_topic,
         "topics"},
        {"SELECT id,topic,dead,deliveries,due_ms,sent_ms,(length(head)+length(body))::int8 "
         "FROM interop_messages WHERE id>$1 ORDER BY id LIMIT $2",
         load_message, "messages"},
        {"SELECT id,at_ms,key FROM interop_seen WHERE id>$1 ORDER BY id LIMIT $2", load_seen,
         "keys"}};
    struct pg_file *f = of(file);
    uint64_t last = 0;

    let_go(f);
    RON_TRY(read_meta(f, err));
    for (size_t i = 0; i < RON_ARRAY_LEN(tables); i++) {
        RON_TRY(load_table(f, &tables[i], load, &last, err));
    }
    f->seen_id = RON_MAX(f->seen_id, last);
    f->stale = false;
    return RON_OK;
}

static enum ron_rc pg_look(struct iop_file *file, bool *ret_stale, struct ron_err *err)
{
    struct pg_file *f = of(file);
    uint64_t now_ns = ron_env_now_ns(f->env);
    struct ron_pg_result r = {0};
    struct ron_pg_param p;
    enum ron_rc rc = usable(f, err);

    *ret_stale = f->stale;
    if (rc != RON_OK || now_ns < f->look_ns) {
        return f->stale ? RON_OK : rc;
    }
    /* Nothing was written for a while: is it still there, and ours? */
    f->look_ns = ron_deadline_after_ms(now_ns, LOOK_MS).at_ns;
    ron_pg_u64(&p, ron_pg_own_epoch(f->own));
    RON_TRY(ask(f, "SELECT 1 FROM interop_box WHERE one=1 AND epoch=$1", &p, 1, &r, err));
    rc = ron_pg_rows(&r) == 1 ? RON_OK
                              : ron_err_set(err, RON_AGAIN, "mailbox: in use by another process");
    ron_pg_result_done(&r);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void pg_close(struct iop_file *file)
{
    struct pg_file *f = of(file);

    let_go(f);
    ron_pg_own_close(f->own);
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        ron_pg_array_done(&f->columns[i]);
    }
    ron_wipe(f->base.secret, sizeof f->base.secret);
    ron_free(f);
}

static const struct iop_file_ops ops = {.name = "postgres",
                                        .close = pg_close,
                                        .look = pg_look,
                                        .load = pg_load,
                                        .begin = pg_begin,
                                        .commit = pg_commit,
                                        .rollback = pg_rollback,
                                        .add_topic = pg_add_topic,
                                        .drop_topic = pg_drop_topic,
                                        .add = pg_add,
                                        .drop = pg_drop,
                                        .move = pg_move,
                                        .add_seen = pg_add_seen,
                                        .drop_seen = pg_drop_seen,
                                        .target = pg_target,
                                        .dead = pg_dead,
                                        .target_off = pg_target_off,
                                        .fetch = pg_fetch,
                                        .get = pg_get};

/* The first owner draws the secret; who finds one keeps it. */
static enum ron_rc make_secret(struct pg_file *f, struct ron_err *err)
{
    uint8_t secret[RON_B3_BYTES];
    struct ron_pg_param p[2];
    enum ron_rc rc;

    iop_file_new_secret(f->env, secret);
    ron_pg_u64(&p[0], ron_pg_own_epoch(f->own));
    ron_pg_bytes(&p[1], secret, sizeof secret);
    rc = ask(f, "UPDATE interop_box SET secret=$2 WHERE one=1 AND epoch=$1 AND secret=''", p, 2,
             NULL, err);
    ron_wipe(secret, sizeof secret);
    return rc;
}

enum ron_rc iop_file_open_pg(const struct iop_file_opts *opts, struct iop_file **ret_file,
                             struct ron_err *err)
{
    struct pg_file *f = ron_alloc_zero(sizeof *f);
    struct ron_err why = {0};
    enum ron_rc rc;

    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "mailbox: out of memory");
    }
    f->base.ops = &ops;
    f->env = opts->env;
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        ron_pg_array_init(&f->columns[i], column_kinds[i]);
    }
    rc = ron_pg_own_open(&(struct ron_pg_own_opts){.env = opts->env,
                                                   .conninfo = opts->dsn,
                                                   .open_tries = opts->tries,
                                                   .name = "ron interop",
                                                   .table = "interop_box",
                                                   .steps = steps,
                                                   .step_count = RON_ARRAY_LEN(steps)},
                         &f->own, &why);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "mailbox: %s", why.msg);
    } else {
        rc = make_secret(f, err);
    }
    rc = rc == RON_OK ? read_meta(f, err) : rc;
    if (rc != RON_OK) {
        pg_close(&f->base);
        return rc;
    }
    *ret_file = &f->base;
    return RON_OK;
}
