/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/file_posix.c - rows of the mailbox, in and out, over the statements of sql.c;
 * contract in file.h.
 *
 * In PostgreSQL `stale` is set from the moment at which the tables hold something that memory does
 * not, until all of it was loaded again. Meanwhile everything is refused with RON_AGAIN. */
#include "interop/mailbox/file.h"

#include <endian.h>
#include <string.h>

#include "interop/mailbox/sql.h"
#include "ron/base/alloc.h"
#include "ron/base/env.h"
#include "ron/base/secret.h"

enum {
    CHECK_BYTES = 8,
    LOAD_ROWS = 10000, /* of one page */
    LOOK_MS = 1000,    /* an idle mailbox asks for its database so often */
};

/* Columns of MSG_GET and MSG_FETCH. */
enum { COL_ID, COL_TOPIC, COL_SENT, COL_SUM, COL_REASON, COL_HEAD, COL_BODY };

struct iop_file {
    const struct ron_env *env;
    struct ron_sql *sql;
    uint8_t secret[RON_B3_BYTES];
    uint64_t last_id;
    uint64_t swept;          /* by the last drop_seen */
    uint64_t seen_id;        /* given out */
    uint64_t look_ns;        /* when an idle one is to ask next */
    struct ron_sql_use held; /* rows that a caller looks at; held.db NULL: none */
    bool stale;
};

/* ---- the store ------------------------------------------------------------------------------- */

/* A superseded process looks to its callers like one without a database. */
static enum ron_rc away(const struct iop_file *f, enum ron_rc rc, struct ron_err *err)
{
    if (ron_sql_is_far(f->sql) && (rc == RON_CONFLICT || rc == RON_DENIED)) {
        rc = RON_AGAIN;
        if (err != NULL) {
            err->rc = rc;
        }
    }
    return rc;
}

static void let_go(struct iop_file *f)
{
    if (f->held.db != NULL) {
        ron_sql_done(&f->held);
        f->held.db = NULL;
    }
}

static enum ron_rc usable(struct iop_file *f, bool ask, struct ron_err *err)
{
    bool changed = false;
    enum ron_rc rc = away(f, ron_sql_look(f->sql, ask, &changed, err), err);

    f->stale = changed || f->stale;
    if (rc == RON_OK && f->stale) {
        rc = ron_err_set(err, RON_AGAIN, "mailbox: being reloaded");
    }
    return rc;
}

static enum ron_rc run(struct iop_file *f, struct ron_sql_use *u, struct ron_err *err)
{
    return away(f, ron_sql_run(u, NULL, err), err);
}

enum ron_rc iop_file_look(struct iop_file *f, bool *ret_stale, struct ron_err *err)
{
    uint64_t now_ns = ron_env_now_ns(f->env);
    bool ask = now_ns >= f->look_ns && !f->stale; /* nothing was written for a while: still ours? */
    enum ron_rc rc = usable(f, ask, err);

    if (ask && rc == RON_OK) {
        f->look_ns = ron_deadline_after_ms(now_ns, LOOK_MS).at_ns;
    }
    *ret_stale = f->stale;
    return f->stale ? RON_OK : rc;
}

/* ---- transactions ---------------------------------------------------------------------------- */

enum ron_rc iop_file_begin(struct iop_file *f, struct ron_err *err)
{
    let_go(f);
    RON_TRY(usable(f, false, err));
    return away(f, ron_sql_begin(f->sql, RON_SQL_GROUP, err), err);
}

enum ron_rc iop_file_commit(struct iop_file *f, uint64_t last_id, struct ron_err *err)
{
    enum ron_rc rc = RON_OK;

    let_go(f);
    if (last_id > f->last_id) {
        struct ron_sql_use u = ron_sql_use(f->sql, IOP__META_ID);

        ron_sql_put_u64(&u, last_id);
        rc = run(f, &u, err);
    }
    rc = away(f, ron_sql_end(f->sql, rc, err), err);
    if (rc == RON_OK) {
        f->last_id = RON_MAX(f->last_id, last_id);
        f->look_ns = ron_deadline_after_ms(ron_env_now_ns(f->env), LOOK_MS).at_ns;
    }
    return rc;
}

void iop_file_rollback(struct iop_file *f)
{
    let_go(f);
    if (ron_sql_within(f->sql)) {
        RON_IGNORE(ron_sql_end(f->sql, RON_CANCELLED, NULL));
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

enum ron_rc iop_file_add_topic(struct iop_file *f, uint32_t row, struct ron_str name,
                               struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__TOPIC_ADD);

    ron_sql_put_u64(&u, row);
    ron_sql_put_text(&u, name);
    return run(f, &u, err);
}

enum ron_rc iop_file_drop_topic(struct iop_file *f, uint32_t row, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__TOPIC_DROP);

    ron_sql_put_u64(&u, row);
    return run(f, &u, err);
}

/* F3: over what never changes. */
static uint64_t row_sum(uint64_t id, uint32_t topic, uint64_t sent_ms, struct ron_str head,
                        struct ron_str body)
{
    uint64_t facts[4] = {htole64(id), htole64(topic), htole64(sent_ms), htole64(head.len)};
    struct ron_b3_hasher h;
    uint64_t sum;

    ron_b3_init(&h);
    ron_b3_update(&h, facts, sizeof facts);
    ron_b3_update(&h, head.ptr, head.len);
    ron_b3_update(&h, body.ptr, body.len);
    ron_b3_final_long(&h, &sum, CHECK_BYTES);
    return le64toh(sum);
}

enum ron_rc iop_file_add(struct iop_file *f, uint64_t id, uint32_t topic, uint64_t due_ms,
                         uint64_t sent_ms, const struct iop_msg *msg, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__MSG_ADD);

    ron_sql_put_u64(&u, id);
    ron_sql_put_u64(&u, topic);
    ron_sql_put_u64(&u, due_ms);
    ron_sql_put_u64(&u, sent_ms);
    ron_sql_put_u64(&u, row_sum(id, topic, sent_ms, msg->head, msg->body));
    ron_sql_put_bytes(&u, msg->head.ptr, msg->head.len);
    ron_sql_put_bytes(&u, msg->body.ptr, msg->body.len);
    return run(f, &u, err);
}

enum ron_rc iop_file_drop(struct iop_file *f, uint64_t id, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__MSG_DROP);

    ron_sql_put_u64(&u, id);
    return run(f, &u, err);
}

enum ron_rc iop_file_move(struct iop_file *f, uint64_t id, bool dead, uint32_t deliveries,
                          uint64_t due_ms, struct ron_str reason, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__MSG_MOVE);

    ron_sql_put_u64(&u, id);
    ron_sql_put_u64(&u, dead);
    ron_sql_put_u64(&u, deliveries);
    ron_sql_put_u64(&u, due_ms);
    ron_sql_put_bytes(&u, reason.ptr, RON_MIN(reason.len, (size_t)IOP_REASON_MAX));
    return run(f, &u, err);
}

enum ron_rc iop_file_add_seen(struct iop_file *f, const struct iop_key *key, uint64_t at_ms,
                              struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__SEEN_ADD);

    ron_sql_put_u64(&u, ++f->seen_id); /* one that is not used is lost, never given out twice */
    ron_sql_put_u64(&u, at_ms);
    ron_sql_put_bytes(&u, key->bytes, sizeof key->bytes);
    return run(f, &u, err);
}

/* The keys are looked up now, and leave with the transaction. */
enum ron_rc iop_file_drop_seen(struct iop_file *f, uint64_t before_ms, uint32_t max,
                               struct ron_err *err)
{
    struct ron_sql_use old = ron_sql_use(f->sql, IOP__SEEN_OLD);
    struct ron_sql_use drop = ron_sql_use(f->sql, IOP__SEEN_DROP);
    uint64_t last = 0;
    bool row = false;
    enum ron_rc rc;

    ron_sql_put_u64(&old, before_ms);
    ron_sql_put_u64(&old, max);
    rc = away(f, ron_sql_row(&old, &row, err), err);
    if (rc == RON_OK && row) {
        last = ron_sql_get_u64(&old, 0);
        f->swept = ron_sql_get_u64(&old, 1);
    }
    ron_sql_done(&old);
    RON_TRY(rc);
    ron_sql_put_u64(&drop, last);
    ron_sql_put_u64(&drop, before_ms);
    return run(f, &drop, err);
}

uint64_t iop_file_swept(const struct iop_file *f)
{
    return f->swept;
}

enum ron_rc iop_file_target(struct iop_file *f, struct ron_str name, bool off, uint64_t at_ms,
                            struct ron_str reason, struct ron_err *err)
{
    struct ron_sql_use clear = ron_sql_use(f->sql, IOP__TARGET_CLEAR);
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__TARGET);

    ron_sql_put_text(&clear, name);
    RON_TRY(run(f, &clear, err));
    ron_sql_put_text(&u, name);
    ron_sql_put_u64(&u, off);
    ron_sql_put_u64(&u, at_ms);
    ron_sql_put_bytes(&u, reason.ptr, off ? RON_MIN(reason.len, (size_t)IOP_REASON_MAX) : 0);
    return run(f, &u, err);
}

/* ---- questions ------------------------------------------------------------------------------- */

enum ron_rc iop_file_target_off(struct iop_file *f, struct ron_str name, bool *ret_off,
                                struct ron_buf *reason, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__TARGET_GET);
    bool row = false;
    enum ron_rc rc;

    RON_TRY(usable(f, false, err));
    ron_sql_put_text(&u, name);
    rc = away(f, ron_sql_row(&u, &row, err), err);
    if (rc == RON_OK && row && reason != NULL) {
        struct ron_str text = ron_sql_get_str(&u, 0);

        rc = ron_buf_append(reason, text.ptr, text.len);
    }
    ron_sql_done(&u);
    if (rc == RON_OK) {
        *ret_off = row;
    }
    return rc;
}

enum ron_rc iop_file_dead(struct iop_file *f, uint32_t topic, uint64_t after_id, uint64_t *ret_ids,
                          uint32_t max, uint32_t *ret_count, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__MSG_DEAD);
    uint32_t count = 0;
    bool row = true;
    enum ron_rc rc;

    *ret_count = 0;
    RON_TRY(usable(f, false, err));
    rc = RON_OK;
    ron_sql_put_u64(&u, topic);
    ron_sql_put_u64(&u, RON_MIN(after_id, (uint64_t)INT64_MAX));
    ron_sql_put_u64(&u, max);
    while (rc == RON_OK && row && count < max) {
        rc = away(f, ron_sql_row(&u, &row, err), err);
        if (rc == RON_OK && row) {
            ret_ids[count++] = ron_sql_get_u64(&u, 0);
        }
    }
    ron_sql_done(&u);
    *ret_count = rc == RON_OK ? count : 0;
    return rc;
}

/* Nothing to do for a file: a row is a read of memory away. */
enum ron_rc iop_file_fetch(struct iop_file *f, const uint64_t *ids, uint32_t count,
                           struct ron_err *err)
{
    bool row = false;
    enum ron_rc rc;

    if (!ron_sql_is_far(f->sql)) {
        return RON_OK;
    }
    let_go(f);
    RON_TRY(usable(f, false, err));
    f->held = ron_sql_use(f->sql, IOP__MSG_FETCH);
    ron_sql_put_u64(&f->held, ron_sql_epoch(f->sql));
    rc = ron_sql_put_ids(&f->held, ids, count);
    rc = rc == RON_OK ? away(f, ron_sql_row(&f->held, &row, err), err)
                      : ron_err_set(err, rc, "mailbox: out of memory");
    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_AGAIN, "mailbox: in use by another process");
    }
    if (rc != RON_OK) {
        let_go(f);
    }
    return rc;
}

/* Among the rows of the last fetch. */
static bool find(struct iop_file *f, uint64_t id)
{
    for (size_t i = 0; f->held.db != NULL && i < ron_sql_rows(&f->held); i++) {
        ron_sql_seek(&f->held, i);
        if (ron_sql_get_u64(&f->held, COL_ID) == id) {
            return true;
        }
    }
    return false;
}

static enum ron_rc get_far(struct iop_file *f, uint64_t id, bool *ret_row, struct ron_err *err)
{
    *ret_row = find(f, id);
    if (!*ret_row) {
        RON_TRY(iop_file_fetch(f, &id, 1, err));
        *ret_row = find(f, id);
    }
    return RON_OK;
}

static enum ron_rc get_near(struct iop_file *f, uint64_t id, bool *ret_row, struct ron_err *err)
{
    let_go(f);
    f->held = ron_sql_use(f->sql, IOP__MSG_GET);
    ron_sql_put_u64(&f->held, id);
    return ron_sql_row(&f->held, ret_row, err);
}

enum ron_rc iop_file_get(struct iop_file *f, uint64_t id, uint32_t topic, struct iop_row *ret_row,
                         struct ron_err *err)
{
    bool far = ron_sql_is_far(f->sql);
    const struct ron_sql_use *u = &f->held;
    struct iop_row r;
    bool row = false;
    enum ron_rc rc = far ? get_far(f, id, &row, err) : get_near(f, id, &row, err);

    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_CORRUPT, "mailbox: message row is missing");
    }
    if (rc == RON_OK) {
        r = (struct iop_row){.sent_ms = ron_sql_get_u64(u, COL_SENT),
                             .reason = ron_sql_get_str(u, COL_REASON),
                             .head = ron_sql_get_str(u, COL_HEAD),
                             .body = ron_sql_get_str(u, COL_BODY)};
        if (ron_sql_get_u64(u, COL_TOPIC) == topic &&
            (!far || ron_sql_get_str(u, COL_SUM).len == CHECK_BYTES) &&
            ron_sql_get_u64(u, COL_SUM) == row_sum(id, topic, r.sent_ms, r.head, r.body)) {
            *ret_row = r;
            return RON_OK;
        }
        rc = ron_err_set(err, RON_CORRUPT, "mailbox: message row is corrupt");
    }
    if (!far) {
        let_go(f);
    }
    return rc;
}

/* ---- loading --------------------------------------------------------------------------------- */

static enum ron_rc load_topic(const struct ron_sql_use *u, const struct iop_file_load *load)
{
    uint64_t row = ron_sql_get_u64(u, 0);
    struct ron_str name = ron_sql_get_str(u, 1);

    if ((!iop_topic_valid(name) && !iop_topic_internal(name)) || row == 0 || row >= UINT32_MAX) {
        return RON_CORRUPT;
    }
    return load->topic(load->arg, (uint32_t)row, name);
}

static enum ron_rc load_message(const struct ron_sql_use *u, const struct iop_file_load *load)
{
    uint64_t id = ron_sql_get_u64(u, 0);
    uint64_t topic = ron_sql_get_u64(u, 1);
    uint64_t deliveries = ron_sql_get_u64(u, 3);
    uint64_t bytes = ron_sql_get_u64(u, 6);

    if (id == 0 || id > INT64_MAX || topic > UINT32_MAX || deliveries > UINT32_MAX ||
        bytes > UINT32_MAX) {
        return RON_CORRUPT;
    }
    return load->message(load->arg, id, (uint32_t)topic, ron_sql_get_u64(u, 2) != 0,
                         (uint32_t)deliveries, ron_sql_get_u64(u, 4), ron_sql_get_u64(u, 5),
                         (uint32_t)bytes);
}

static enum ron_rc load_seen(const struct ron_sql_use *u, const struct iop_file_load *load)
{
    struct ron_str bytes = ron_sql_get_str(u, 2);
    struct iop_key key;

    if (bytes.len != sizeof key.bytes) {
        return RON_CORRUPT;
    }
    memcpy(key.bytes, bytes.ptr, sizeof key.bytes);
    return load->seen(load->arg, &key, ron_sql_get_u64(u, 1));
}

struct table {
    enum iop__stmt stmt;
    enum ron_rc (*each)(const struct ron_sql_use *u, const struct iop_file_load *load);
    const char *what;
};

/* One page of rows after the id *last, which is moved on. */
static enum ron_rc load_page(struct iop_file *f, const struct table *t,
                             const struct iop_file_load *load, uint64_t *last, uint32_t *ret_rows,
                             struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, t->stmt);
    bool row = true;
    enum ron_rc rc = RON_OK;

    *ret_rows = 0;
    ron_sql_put_u64(&u, *last);
    ron_sql_put_u64(&u, LOAD_ROWS);
    while (rc == RON_OK && row) {
        rc = away(f, ron_sql_row(&u, &row, err), err);
        if (rc == RON_OK && row) {
            rc = t->each(&u, load);
            *last = ron_sql_get_u64(&u, 0);
            (*ret_rows)++;
            if (rc != RON_OK) {
                rc = ron_err_set(err, rc, "mailbox: cannot load the stored %s", t->what);
            }
        }
    }
    ron_sql_done(&u);
    return rc;
}

static enum ron_rc read_meta(struct iop_file *f, bool *ret_fresh, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__META_GET);
    struct ron_str secret = {"", 0};
    bool row = false;
    enum ron_rc rc = away(f, ron_sql_row(&u, &row, err), err);

    *ret_fresh = false;
    if (rc == RON_OK && row) {
        f->last_id = ron_sql_get_u64(&u, 0);
        secret = ron_sql_get_str(&u, 1);
        *ret_fresh = secret.len == 0;
    }
    if (rc == RON_OK && secret.len == sizeof f->secret) {
        memcpy(f->secret, secret.ptr, sizeof f->secret);
    } else if (rc == RON_OK && !*ret_fresh) {
        rc = ron_err_set(err, RON_CORRUPT, "mailbox: deduplication secret is missing");
    }
    ron_sql_done(&u);
    return rc;
}

enum ron_rc iop_file_load(struct iop_file *f, const struct iop_file_load *load, struct ron_err *err)
{
    static const struct table tables[] = {{IOP__TOPIC_LIST, load_topic, "topics"},
                                          {IOP__MSG_LIST, load_message, "messages"},
                                          {IOP__SEEN_LIST, load_seen, "keys"}};
    uint64_t last = 0;
    bool fresh = false;

    let_go(f);
    RON_TRY(read_meta(f, &fresh, err));
    for (size_t i = 0; i < RON_ARRAY_LEN(tables); i++) {
        uint32_t rows = LOAD_ROWS;

        last = 0;
        while (rows == LOAD_ROWS) { /* memory is needed for one page of them */
            RON_TRY(load_page(f, &tables[i], load, &last, &rows, err));
        }
    }
    f->seen_id = RON_MAX(f->seen_id, last);
    f->stale = false;
    return RON_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum ron_rc make_secret(struct iop_file *f, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(f->sql, IOP__META_SECRET);
    uint8_t secret[RON_B3_BYTES];
    enum ron_rc rc;

    for (size_t i = 0; i < sizeof secret; i += sizeof(uint64_t)) {
        uint64_t word = f->env->rand_u64(f->env);

        memcpy(secret + i, &word, sizeof word);
    }
    rc = ron_sql_begin(f->sql, RON_SQL_WRITE, err);
    if (rc == RON_OK) {
        ron_sql_put_bytes(&u, secret, sizeof secret);
        rc = ron_sql_run(&u, NULL, err);
        rc = ron_sql_end(f->sql, rc, err);
    }
    ron_wipe(secret, sizeof secret);
    return away(f, rc, err);
}

static enum ron_rc open_meta(struct iop_file *f, struct ron_err *err)
{
    bool fresh = false;

    RON_TRY(read_meta(f, &fresh, err));
    if (fresh) {
        RON_TRY(make_secret(f, err));
        RON_TRY(read_meta(f, &fresh, err));
    }
    return fresh ? ron_err_set(err, RON_CORRUPT, "mailbox: deduplication secret is missing")
                 : RON_OK;
}

enum ron_rc iop_file_open(const struct iop_file_opts *opts, struct iop_file **ret_file,
                          struct ron_err *err)
{
    struct iop_file *f = ron_alloc_zero(sizeof *f);
    struct ron_sql_opts sql = iop__sql_opts;
    enum ron_rc rc;

    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "mailbox: out of memory");
    }
    sql.env = opts->env;
    sql.path = opts->path;
    sql.dsn = opts->dsn;
    sql.open_tries = opts->tries;
    f->env = opts->env;
    rc = ron_sql_open(&sql, &f->sql, err);
    rc = rc == RON_OK ? open_meta(f, err) : rc;
    if (rc != RON_OK) {
        iop_file_close(f);
        return rc;
    }
    *ret_file = f;
    return RON_OK;
}

void iop_file_close(struct iop_file *f)
{
    if (f == NULL) {
        return;
    }
    let_go(f);
    ron_sql_close(f->sql);
    ron_wipe(f->secret, sizeof f->secret);
    ron_free(f);
}

const uint8_t *iop_file_secret(const struct iop_file *f)
{
    return f->secret;
}

uint64_t iop_file_last_id(const struct iop_file *f)
{
    return f->last_id;
}
