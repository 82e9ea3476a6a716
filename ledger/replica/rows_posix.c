/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/rows_posix.c - PostgreSQL as the log of a ledger; the contract is in rows.h. */
#include "ledger/replica/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/pg/pg.h"
#include "ron/sync/sync.h"

enum {
    ROLE_MAX = 63, /* of PostgreSQL */
    SQL_MAX = 4096,
    FIND_STEPS_MAX = 64, /* halvings of a bigint */
    SAME_SEQ_MAX = 1000, /* rows without entries behind one another that are looked through */
    TRY_MS = 2000,       /* one try of an append; a slow disk is no failure */
    PAUSE_MS = 50,       /* between tries */
};

struct led_pg {
    struct led_pg_opts opts;
    char ledger[LED_PG_NAME_MAX + 1];
    struct ron_pg *conn;
    struct ron_mutex pause_lock; /* nobody signals it: a pause between tries */
    struct ron_cond pause;
};

/* A slot names a frame; ranges of slots are partitions, so that old ones can be frozen, moved or
 * put on other disks. The default one takes what nobody prepared for. */
static const char schema[] =
    "BEGIN;"
    "SET LOCAL client_min_messages=error;"
    "CREATE SCHEMA IF NOT EXISTS ron;"
    "CREATE TABLE IF NOT EXISTS ron.ledger_log("
    "ledger text NOT NULL,slot bigint NOT NULL,epoch bigint NOT NULL,seq_first bigint NOT NULL,"
    "entries bigint NOT NULL,prev_root bytea NOT NULL,root bytea NOT NULL,frame bytea NOT NULL,"
    "PRIMARY KEY(ledger,slot)) PARTITION BY RANGE(slot);"
    "ALTER TABLE ron.ledger_log ALTER COLUMN frame SET STORAGE EXTERNAL;"
    "CREATE TABLE IF NOT EXISTS ron.ledger_log_0 PARTITION OF ron.ledger_log "
    "FOR VALUES FROM (0) TO (10000000);"
    "CREATE TABLE IF NOT EXISTS ron.ledger_log_1 PARTITION OF ron.ledger_log "
    "FOR VALUES FROM (10000000) TO (20000000);"
    "CREATE TABLE IF NOT EXISTS ron.ledger_log_rest PARTITION OF ron.ledger_log DEFAULT;"
    "CREATE TABLE IF NOT EXISTS ron.ledger_leader(ledger text PRIMARY KEY,epoch bigint NOT NULL,"
    "url text NOT NULL,beat timestamptz NOT NULL);"
    "CREATE TABLE IF NOT EXISTS ron.ledger_frozen(ledger text NOT NULL,account text NOT NULL,"
    "frozen boolean NOT NULL,PRIMARY KEY(ledger,account));";

/* G3: a ledger may insert and read. It may change the hint of who leads, and who is frozen. */
static const char grants[] = "GRANT USAGE ON SCHEMA ron TO %s;"
                             "GRANT SELECT,INSERT ON ron.ledger_log TO %s;"
                             "GRANT SELECT,INSERT,UPDATE ON ron.ledger_leader TO %s;"
                             "GRANT SELECT,INSERT,UPDATE ON ron.ledger_frozen TO %s;";

static struct ron_deadline soon(const struct led_pg_opts *o)
{
    return ron_deadline_after_ms(ron_env_now_ns(o->env), o->call_ms);
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool name_is_good(const char *name, size_t max)
{
    size_t len = strlen(name);

    return len > 0 && len <= max && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static enum ron_rc connect_new(const struct led_pg_opts *opts, const char *what,
                               struct ron_pg **ret_conn, struct ron_err *err)
{
    char name[LED_PG_NAME_MAX + 32];

    if (!name_is_good(opts->ledger, LED_PG_NAME_MAX)) {
        return ron_err_set(err, RON_INVALID,
                           "the name of a ledger in the database has 1 to %d of a-z, 0-9, _ and -",
                           LED_PG_NAME_MAX);
    }
    (void)snprintf(name, sizeof name, "ron-ledger %s %s", what, opts->ledger);
    return ron_pg_new(&(struct ron_pg_opts){.env = opts->env,
                                            .conninfo = opts->conninfo,
                                            .name = name,
                                            .connect_ms = opts->connect_ms},
                      ret_conn, err);
}

enum ron_rc led_pg_migrate(const struct led_pg_opts *opts, const char *role, struct ron_err *err)
{
    char sql[SQL_MAX];
    struct ron_pg *conn = NULL;
    size_t len = sizeof schema - 1;
    enum ron_rc rc;

    if (role != NULL && !name_is_good(role, ROLE_MAX)) {
        return ron_err_set(err, RON_INVALID, "a role has 1 to %d of a-z, 0-9, _ and -", ROLE_MAX);
    }
    RON_TRY(connect_new(opts, "migration", &conn, err));
    memcpy(sql, schema, len);
    if (role != NULL) {
        char quoted[ROLE_MAX + 3];

        (void)snprintf(quoted, sizeof quoted, "\"%s\"", role);
        len +=
            (size_t)snprintf(sql + len, sizeof sql - len, grants, quoted, quoted, quoted, quoted);
    }
    (void)snprintf(sql + len, sizeof sql - len, "COMMIT");
    rc = ron_pg_script(conn, sql, soon(opts), err);
    ron_pg_free(conn);
    return rc;
}

enum ron_rc led_pg_new(const struct led_pg_opts *opts, struct led_pg **ret_pg, struct ron_err *err)
{
    struct led_pg *pg = ron_alloc_zero(sizeof *pg);
    enum ron_rc rc;

    if (pg == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the database's log");
    }
    rc = connect_new(opts, "log", &pg->conn, err);
    if (rc != RON_OK) {
        ron_free(pg);
        return rc;
    }
    pg->opts = *opts;
    pg->opts.conninfo = NULL; /* The connection has its copy. */
    (void)snprintf(pg->ledger, sizeof pg->ledger, "%s", opts->ledger);
    pg->opts.ledger = pg->ledger;
    ron_mutex_init(&pg->pause_lock, RON_RANK_LEAF, "led.pg");
    ron_cond_init(&pg->pause);
    *ret_pg = pg;
    return RON_OK;
}

void led_pg_free(struct led_pg *pg)
{
    if (pg == NULL) {
        return;
    }
    ron_pg_free(pg->conn);
    ron_cond_done(&pg->pause);
    ron_mutex_done(&pg->pause_lock);
    ron_free(pg);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void put_ledger(const struct led_pg *pg, struct ron_pg_param *p)
{
    ron_pg_text(p, pg->ledger, strlen(pg->ledger));
}

static enum ron_rc ask(struct led_pg *pg, const char *sql, const struct ron_pg_param *params,
                       size_t count, struct ron_pg_result *ret, struct ron_err *err)
{
    enum ron_pg_fate fate;

    return ron_pg_exec(pg->conn, sql, params, count, soon(&pg->opts), &fate, ret, err);
}

static enum ron_rc take_hash(const struct ron_pg_result *r, size_t row, size_t column,
                             struct ron_tree_hash *ret, struct ron_err *err)
{
    const uint8_t *bytes;
    size_t len;

    ron_pg_value(r, row, column, &bytes, &len);
    if (len != sizeof ret->bytes) {
        return ron_err_set(err, RON_CORRUPT, "a root in the database has %zu bytes", len);
    }
    memcpy(ret->bytes, bytes, len);
    return RON_OK;
}

#define HEAD_COLUMNS "slot,epoch,seq_first+entries-1,root"

static enum ron_rc take_head(const struct ron_pg_result *r, size_t row, struct led_pg_head *ret,
                             struct ron_err *err)
{
    struct led_pg_head head = {0};

    RON_TRY(ron_pg_value_u64(r, row, 0, &head.slot, err));
    RON_TRY(ron_pg_value_u64(r, row, 1, &head.epoch, err));
    RON_TRY(ron_pg_value_u64(r, row, 2, &head.last_seq, err));
    RON_TRY(take_hash(r, row, 3, &head.root, err));
    *ret = head;
    return RON_OK;
}

/* The head that a statement selects; RON_NOTFOUND without a row. */
static enum ron_rc ask_head(struct led_pg *pg, const char *sql, const struct ron_pg_param *params,
                            size_t count, struct led_pg_head *ret_head, struct ron_err *err)
{
    struct ron_pg_result r = {0};
    enum ron_rc rc;

    RON_TRY(ask(pg, sql, params, count, &r, err));
    rc = ron_pg_rows(&r) == 0
             ? ron_err_set(err, RON_NOTFOUND, "the database holds no such row of ledger %s",
                           pg->ledger)
             : take_head(&r, 0, ret_head, err);
    ron_pg_result_done(&r);
    return rc;
}

enum ron_rc led_pg_head(struct led_pg *pg, struct led_pg_head *ret_head, struct ron_err *err)
{
    struct ron_pg_param p[1];

    put_ledger(pg, &p[0]);
    return ask_head(pg,
                    "SELECT " HEAD_COLUMNS
                    " FROM ron.ledger_log WHERE ledger=$1 ORDER BY slot DESC LIMIT 1",
                    p, 1, ret_head, err);
}

/* A server-side limit on a statement would cancel appends, of which nobody then knows whether they
 * were committed. RON_INVALID: there is one. */
static enum ron_rc check_limits(struct led_pg *pg, struct ron_err *err)
{
    struct ron_pg_result r = {0};
    enum ron_rc rc;

    RON_TRY(ask(pg, "SELECT 1 FROM pg_settings WHERE name='statement_timeout' AND setting<>'0'",
                NULL, 0, &r, err));
    rc = ron_pg_rows(&r) == 0
             ? RON_OK
             : ron_err_set(err, RON_INVALID,
                           "the role of the ledger has a statement_timeout; set it to 0");
    ron_pg_result_done(&r);
    return rc;
}

void led_pg_drop(struct led_pg *pg)
{
    ron_pg_drop(pg->conn);
}

enum ron_rc led_pg_genesis(struct led_pg *pg, const uint8_t fresh[LED_UUID_SIZE],
                           uint8_t ret_uuid[LED_UUID_SIZE], struct ron_err *err)
{
    struct ron_tree_hash empty;
    struct ron_pg_param p[3];
    struct ron_pg_result r = {0};
    const uint8_t *bytes;
    size_t len;
    enum ron_rc rc = RON_OK;

    RON_TRY(check_limits(pg, err));
    ron_tree_hash_empty(&empty);
    put_ledger(pg, &p[0]);
    ron_pg_bytes(&p[1], empty.bytes, sizeof empty.bytes);
    ron_pg_bytes(&p[2], fresh, fresh != NULL ? LED_UUID_SIZE : 0);
    if (fresh != NULL) {
        RON_TRY(ask(pg,
                    "INSERT INTO ron.ledger_log VALUES($1,0,0,1,0,$2,$2,$3) ON CONFLICT DO NOTHING",
                    p, 3, NULL, err));
    }
    RON_TRY(ask(pg, "SELECT frame FROM ron.ledger_log WHERE ledger=$1 AND slot=0", p, 1, &r, err));
    if (ron_pg_rows(&r) != 1 && fresh == NULL) {
        rc = ron_err_set(err, RON_NOTFOUND,
                         "the database has no log of ledger %s, of which there is a copy here",
                         pg->ledger);
    } else if (ron_pg_rows(&r) != 1) {
        rc = ron_err_set(err, RON_CORRUPT, "ledger %s has no genesis", pg->ledger);
    } else {
        ron_pg_value(&r, 0, 0, &bytes, &len);
        if (len == LED_UUID_SIZE) {
            memcpy(ret_uuid, bytes, len);
        } else {
            rc = ron_err_set(err, RON_CORRUPT, "the genesis of ledger %s has no uuid", pg->ledger);
        }
    }
    ron_pg_result_done(&r);
    return rc;
}

/* ---- where a local copy stands --------------------------------------------------------------- */

static enum ron_rc head_at(struct led_pg *pg, uint64_t slot, struct led_pg_head *ret_head,
                           struct ron_err *err)
{
    struct ron_pg_param p[2];

    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], slot);
    return ask_head(pg, "SELECT " HEAD_COLUMNS " FROM ron.ledger_log WHERE ledger=$1 AND slot=$2",
                    p, 2, ret_head, err);
}

enum ron_rc led_pg_holds(struct led_pg *pg, const struct led_pg_head *at, struct ron_err *err)
{
    struct led_pg_head found = {0};
    enum ron_rc rc = head_at(pg, at->slot, &found, err);

    if (rc == RON_NOTFOUND || (rc == RON_OK && (found.last_seq != at->last_seq ||
                                                !ron_tree_hash_equal(&found.root, &at->root)))) {
        return ron_err_set(err, RON_CORRUPT,
                           "slot %" PRIu64 " of the database is gone or another than we know",
                           at->slot);
    }
    return rc;
}

/* The first slot whose row ends at `last_seq` or behind: seqs never fall, so by halving. */
static enum ron_rc first_slot(struct led_pg *pg, uint64_t last_seq, struct led_pg_head *ret_head,
                              struct ron_err *err)
{
    struct led_pg_head head = {0};
    uint64_t low = 0;
    uint64_t high;

    RON_TRY(led_pg_head(pg, &head, err));
    if (head.last_seq < last_seq) {
        return ron_err_set(err, RON_NOTFOUND,
                           "the database ends at entry %" PRIu64 ", and %" PRIu64 " is known here",
                           head.last_seq, last_seq);
    }
    high = head.slot;
    for (int i = 0; i < FIND_STEPS_MAX && low < high; i++) {
        uint64_t middle = low + (high - low) / 2;

        RON_TRY(head_at(pg, middle, &head, err));
        if (head.last_seq < last_seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return head_at(pg, low, ret_head, err);
}

struct looking {
    uint64_t epoch;
    uint64_t time_ms;
    uint64_t last_seq;
    uint64_t found; /* slot; 0: none */
    bool over;      /* rows behind are of other entries */
};

static enum ron_rc look(void *arg, uint64_t slot, const uint8_t *bytes, size_t len,
                        struct ron_err *err)
{
    struct looking *k = arg;
    struct led_frame frame;
    size_t size;

    if (led_frame_read(bytes, len, &frame, &size) != LED_FRAME_GOOD || size != len) {
        return ron_err_set(err, RON_CORRUPT, "slot %" PRIu64 " of the database is no frame", slot);
    }
    k->over = k->over || frame.seq_first + frame.entries - 1 != k->last_seq;
    if (!k->over && frame.epoch == k->epoch && frame.time_ms == k->time_ms) {
        k->found = slot;
    }
    return RON_OK;
}

enum ron_rc led_pg_find(struct led_pg *pg, uint64_t last_seq, const struct ron_tree_hash *root,
                        uint64_t epoch, uint64_t time_ms, struct led_pg_head *ret_head,
                        struct ron_err *err)
{
    struct looking k = {.epoch = epoch, .time_ms = time_ms, .last_seq = last_seq};
    struct led_pg_head head = {0};
    uint64_t slot;
    size_t rows = 1;

    RON_TRY(first_slot(pg, last_seq, &head, err));
    if (head.last_seq != last_seq || !ron_tree_hash_equal(&head.root, root)) {
        return ron_err_set(err, RON_NOTFOUND,
                           "the database has another root than we know at entry %" PRIu64,
                           last_seq);
    }
    if (head.slot == 0 && epoch == 0) { /* nothing but the genesis was ever here */
        *ret_head = head;
        return RON_OK;
    }
    slot = head.slot == 0 ? 0 : head.slot - 1;
    while (rows > 0 && !k.over && slot < head.slot + SAME_SEQ_MAX) {
        RON_TRY(led_pg_read(pg, &slot, look, &k, &rows, err));
    }
    if (k.found == 0) {
        return ron_err_set(err, RON_NOTFOUND,
                           "the database lacks the group that is last here, of entry %" PRIu64,
                           last_seq);
    }
    return head_at(pg, k.found, ret_head, err);
}

enum ron_rc led_pg_read(struct led_pg *pg, uint64_t *slot, led_pg_see *see, void *arg,
                        size_t *ret_rows, struct ron_err *err)
{
    struct ron_pg_param p[3];
    struct ron_pg_result r = {0};
    enum ron_rc rc = RON_OK;
    size_t rows;

    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], *slot);
    ron_pg_u64(&p[2], LED_PG_READ_ROWS);
    RON_TRY(ask(pg,
                "SELECT slot,frame FROM ron.ledger_log WHERE ledger=$1 AND slot>$2 "
                "ORDER BY slot LIMIT $3",
                p, 3, &r, err));
    rows = ron_pg_rows(&r);
    for (size_t i = 0; i < rows && rc == RON_OK; i++) {
        const uint8_t *bytes;
        uint64_t at = 0;
        size_t len;

        rc = ron_pg_value_u64(&r, i, 0, &at, err);
        if (rc == RON_OK && at != *slot + 1) {
            rc = ron_err_set(err, RON_CORRUPT, "slot %" PRIu64 " is missing in the database",
                             *slot + 1);
        }
        if (rc == RON_OK) {
            ron_pg_value(&r, i, 1, &bytes, &len);
            rc = see(arg, at, bytes, len, err);
        }
        if (rc == RON_OK) {
            *slot = at;
        }
    }
    ron_pg_result_done(&r);
    if (rc == RON_OK) {
        *ret_rows = rows;
    }
    return rc;
}

/* ---- appending ------------------------------------------------------------------------------- */

static const char append_sql[] = "INSERT INTO ron.ledger_log "
                                 "SELECT $1,$2+1,$3,$4,$5,$6,$7,$8 FROM ron.ledger_log "
                                 "WHERE ledger=$1 AND slot=$2 AND root=$6 AND epoch<=$3";

static void pause_between(struct led_pg *pg, struct ron_deadline end)
{
    struct ron_deadline until =
        ron_deadline_min(end, ron_deadline_after_ms(ron_env_now_ns(pg->opts.env), PAUSE_MS));

    ron_mutex_lock(&pg->pause_lock);
    while (ron_cond_wait_until(&pg->pause, &pg->pause_lock, until)) {
    }
    ron_mutex_unlock(&pg->pause_lock);
}

/* The slot is taken: by the very frame, or by another's. */
static enum ron_rc whose(struct led_pg *pg, uint64_t slot, const uint8_t *bytes, size_t len,
                         bool *ret_ours, struct ron_err *err)
{
    struct ron_pg_param p[3];
    struct ron_pg_result r = {0};

    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], slot);
    ron_pg_bytes(&p[2], bytes, len);
    RON_TRY(ask(pg, "SELECT 1 FROM ron.ledger_log WHERE ledger=$1 AND slot=$2 AND frame=$3", p, 3,
                &r, err));
    *ret_ours = ron_pg_rows(&r) == 1;
    ron_pg_result_done(&r);
    return RON_OK;
}

/* G2: a row that is ours may be of a try whose outcome was not told, and not yet be replicated. The
 * next commit that is confirmed without a warning lies behind it in the server's log, so then it
 * is. Its content does not matter. */
static enum ron_rc settle(struct led_pg *pg, struct ron_err *err)
{
    struct ron_pg_param p[1];

    put_ledger(pg, &p[0]);
    return ask(pg,
               "INSERT INTO ron.ledger_leader VALUES($1,0,'',now()) "
               "ON CONFLICT(ledger) DO UPDATE SET epoch=ron.ledger_leader.epoch",
               p, 1, NULL, err);
}

enum verdict { IN, TRY_AGAIN, ENDED };

/* One try. ENDED: with *ret_rc. */
static enum verdict try_append(struct led_pg *pg, const struct led_pg_head *at,
                               const struct ron_pg_param *params, const uint8_t *bytes, size_t len,
                               struct ron_deadline end, enum ron_rc *ret_rc, struct ron_err *err)
{
    struct ron_deadline deadline =
        ron_deadline_min(end, ron_deadline_after_ms(ron_env_now_ns(pg->opts.env), TRY_MS));
    struct ron_pg_result r = {0};
    enum ron_pg_fate fate;
    uint64_t affected;
    bool ours = false;

    *ret_rc = ron_pg_exec(pg->conn, append_sql, params, 8, deadline, &fate, &r, err);
    if (*ret_rc == RON_OK) {
        affected = r.affected;
        ron_pg_result_done(&r);
        if (affected == 1) {
            return IN;
        }
        *ret_rc = ron_err_set(err, RON_CORRUPT,
                              "slot %" PRIu64 " of the database is not what was expected: this "
                              "ledger has forked or lags behind",
                              at->slot);
        return ENDED;
    }
    if (fate != RON_PG_REFUSED || *ret_rc == RON_AGAIN) {
        return TRY_AGAIN;
    }
    if (*ret_rc != RON_EXISTS) {
        return ENDED;
    }
    if (whose(pg, at->slot + 1, bytes, len, &ours, err) != RON_OK) {
        return TRY_AGAIN;
    }
    if (!ours) {
        *ret_rc = ron_err_set(err, RON_CONFLICT, "slot %" PRIu64 " was taken by another leader",
                              at->slot + 1);
        return ENDED;
    }
    return settle(pg, err) == RON_OK ? IN : TRY_AGAIN;
}

enum ron_rc led_pg_append(struct led_pg *pg, struct led_pg_head *at, const struct led_frame *frame,
                          const uint8_t *bytes, size_t len, struct ron_err *err)
{
    struct ron_deadline end =
        ron_deadline_after_ms(ron_env_now_ns(pg->opts.env), pg->opts.append_ms);
    struct ron_pg_param p[8];

    RON_ASSERT(frame->seq_first == at->last_seq + 1);
    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], at->slot);
    ron_pg_u64(&p[2], frame->epoch);
    ron_pg_u64(&p[3], frame->seq_first);
    ron_pg_u64(&p[4], frame->entries);
    ron_pg_bytes(&p[5], frame->prev_root.bytes, sizeof frame->prev_root.bytes);
    ron_pg_bytes(&p[6], frame->new_root.bytes, sizeof frame->new_root.bytes);
    ron_pg_bytes(&p[7], bytes, len);
    for (;;) {
        struct ron_err said = {0};
        enum ron_rc rc = RON_OK;
        enum verdict verdict = try_append(pg, at, p, bytes, len, end, &rc, &said);

        if (verdict == IN) {
            at->slot++;
            at->epoch = frame->epoch;
            at->last_seq += frame->entries;
            at->root = frame->new_root;
            return RON_OK;
        }
        if (verdict == ENDED) {
            return ron_err_set(err, rc, "%s", said.msg);
        }
        if (ron_deadline_expired(end, ron_env_now_ns(pg->opts.env))) {
            return ron_err_set(err, RON_TIMEOUT, "the append is not settled: %s", said.msg);
        }
        pause_between(pg, end);
    }
}

/* ---- who leads ------------------------------------------------------------------------------- */

/* Both addresses are one text with a blank between them: neither can hold one. */
enum ron_rc led_pg_beat(struct led_pg *pg, uint64_t epoch, const struct led_pg_place *place,
                        struct ron_err *err)
{
    char text[sizeof place->url + sizeof place->oap];
    struct ron_pg_param p[3];
    struct ron_pg_result r = {0};
    uint64_t affected;
    int len = snprintf(text, sizeof text, "%s%s%s", place->url, place->oap[0] != '\0' ? " " : "",
                       place->oap);

    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], epoch);
    ron_pg_text(&p[2], text, (size_t)len);
    RON_TRY(ask(pg,
                "INSERT INTO ron.ledger_leader AS l VALUES($1,$2,$3,clock_timestamp()) "
                "ON CONFLICT(ledger) DO UPDATE SET epoch=$2,url=$3,beat=clock_timestamp() "
                "WHERE l.epoch<=$2",
                p, 3, &r, err));
    affected = r.affected;
    ron_pg_result_done(&r);
    return affected == 1 ? RON_OK
                         : ron_err_set(err, RON_CONFLICT, "another ledger was heard of since");
}

enum ron_rc led_pg_resign(struct led_pg *pg, uint64_t epoch, struct ron_err *err)
{
    struct ron_pg_param p[2];

    put_ledger(pg, &p[0]);
    ron_pg_u64(&p[1], epoch);
    return ask(pg,
               "UPDATE ron.ledger_leader SET beat=to_timestamp(0),url='' "
               "WHERE ledger=$1 AND epoch=$2",
               p, 2, NULL, err);
}

static void take_place(const char *text, size_t len, struct led_pg_place *ret)
{
    const char *blank = memchr(text, ' ', len);
    size_t url = blank != NULL ? (size_t)(blank - text) : len;
    size_t oap = blank != NULL ? len - url - 1 : 0;

    if (url <= LED_PG_URL_MAX && oap <= LED_PG_OAP_MAX) { /* else: somebody else's row */
        memcpy(ret->url, text, url);
        memcpy(ret->oap, text + len - oap, oap);
    }
}

enum ron_rc led_pg_lease(struct led_pg *pg, struct led_pg_lease *ret_lease, struct ron_err *err)
{
    struct led_pg_lease lease = {0};
    struct ron_pg_param p[1];
    struct ron_pg_result r = {0};
    const uint8_t *url;
    size_t len;
    enum ron_rc rc;

    put_ledger(pg, &p[0]);
    RON_TRY(ask(pg,
                "SELECT epoch,greatest(0,extract(epoch FROM clock_timestamp()-beat)*1000)::bigint,"
                "url FROM ron.ledger_leader WHERE ledger=$1",
                p, 1, &r, err));
    if (ron_pg_rows(&r) == 0) {
        ron_pg_result_done(&r);
        return ron_err_set(err, RON_NOTFOUND, "nobody has led ledger %s", pg->ledger);
    }
    rc = ron_pg_value_u64(&r, 0, 0, &lease.epoch, err);
    rc = rc == RON_OK ? ron_pg_value_u64(&r, 0, 1, &lease.age_ms, err) : rc;
    ron_pg_value(&r, 0, 2, &url, &len);
    take_place((const char *)url, len, &lease.place);
    ron_pg_result_done(&r);
    if (rc == RON_OK) {
        *ret_lease = lease;
    }
    return rc;
}

/* ---- frozen accounts ------------------------------------------------------------------------- */

enum ron_rc led_pg_freeze(struct led_pg *pg, uint64_t epoch, struct ron_str account, bool frozen,
                          struct ron_err *err)
{
    struct ron_pg_param p[4];
    struct ron_pg_result r = {0};
    uint64_t affected;

    put_ledger(pg, &p[0]);
    ron_pg_text(&p[1], account.ptr, account.len);
    ron_pg_u64(&p[2], frozen ? 1 : 0);
    ron_pg_u64(&p[3], epoch);
    RON_TRY(ask(pg,
                "INSERT INTO ron.ledger_frozen AS f "
                "SELECT l.ledger,$2,$3::bigint<>0 FROM ron.ledger_leader l "
                "WHERE l.ledger=$1 AND l.epoch=$4 FOR SHARE "
                "ON CONFLICT(ledger,account) DO UPDATE SET frozen=EXCLUDED.frozen",
                p, 4, &r, err));
    affected = r.affected;
    ron_pg_result_done(&r);
    return affected == 1 ? RON_OK : ron_err_set(err, RON_CONFLICT, "another ledger leads");
}

static enum ron_rc add_lines(const struct ron_pg_result *r, struct ron_buf *lines,
                             struct ron_err *err)
{
    for (size_t row = 0; row < ron_pg_rows(r); row++) {
        const uint8_t *account;
        uint64_t frozen = 0;
        size_t len;

        RON_TRY(ron_pg_value_u64(r, row, 1, &frozen, err));
        if (frozen != 0) {
            ron_pg_value(r, row, 0, &account, &len);
            (void)ron_buf_append(lines, account, len); /* the first failure sticks */
            (void)ron_buf_append(lines, "\n", 1);
        }
    }
    return ron_buf_error(lines) == RON_OK
               ? RON_OK
               : ron_err_set(err, ron_buf_error(lines), "too many accounts are frozen");
}

enum ron_rc led_pg_frozen(struct led_pg *pg, struct ron_buf *lines, bool *ret_known,
                          struct ron_err *err)
{
    struct ron_pg_param p[1];
    struct ron_pg_result r = {0};
    enum ron_rc rc;

    put_ledger(pg, &p[0]);
    rc = ask(pg,
             "SELECT account,frozen::int::bigint FROM ron.ledger_frozen WHERE ledger=$1 "
             "ORDER BY account COLLATE \"C\"",
             p, 1, &r, err);
    if (rc == RON_NOTFOUND) { /* made by an earlier version */
        return ron_err_set(err, RON_INVALID,
                           "the database has no table ron.ledger_frozen; start a ledger once with "
                           "postgres.migrate and the owner's role");
    }
    RON_TRY(rc);
    *ret_known = ron_pg_rows(&r) > 0;
    rc = add_lines(&r, lines, err);
    ron_pg_result_done(&r);
    return rc;
}
