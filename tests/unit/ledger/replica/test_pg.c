/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a log in PostgreSQL keeps what ledger/replica/rows.h promises, whatever the server and the
 * way to it do. Method: a real server of the test's own; frames without entries, which chain like
 * all others; two ledgers on one log; a role with the granted rights alone; a standby that never
 * comes; a server that is ended and started anew between and during appends. */
#include "support/pg_server.h"

#include "ledger/replica/rows.h"
#include "ron/io/linux_env.h"
#include "ron/pg/pg.h"
#include "ron/sync/sync.h"

static struct pg_server server;
static bool there;

static const uint8_t uuid[LED_UUID_SIZE] = "0123456789abcde";

static struct led_pg_opts opts_of(const char *ledger)
{
    return (struct led_pg_opts){.env = ron_env_linux(),
                                .conninfo = server.conninfo,
                                .ledger = ledger,
                                .connect_ms = 2000,
                                .call_ms = 5000,
                                .append_ms = 20000};
}

static struct led_pg *open_pg(const char *ledger)
{
    struct led_pg_opts o = opts_of(ledger);
    struct led_pg *pg = NULL;

    assert_int_equal(led_pg_new(&o, &pg, NULL), RON_OK);
    return pg;
}

static struct led_pg *open_new(const char *ledger, struct led_pg_head *ret_head)
{
    struct led_pg *pg = open_pg(ledger);
    uint8_t found[LED_UUID_SIZE];
    struct ron_err err = {0};

    assert_int_equal(led_pg_genesis(pg, uuid, found, &err), RON_OK);
    assert_memory_equal(found, uuid, sizeof uuid);
    assert_int_equal(led_pg_head(pg, ret_head, NULL), RON_OK);
    return pg;
}

/* A frame behind `at`: without records, as an epoch begins. */
static struct led_frame make_frame(struct ron_buf *out, const struct led_pg_head *at,
                                   uint64_t epoch, uint64_t time_ms)
{
    struct led_frame f = {.epoch = epoch,
                          .seq_first = at->last_seq + 1,
                          .time_ms = time_ms,
                          .prev_root = at->root,
                          .new_root = at->root};

    memcpy(f.uuid, uuid, sizeof uuid);
    ron_buf_init(out, LED_FRAME_MAX);
    assert_int_equal(led_frame_begin(out), RON_OK);
    assert_int_equal(led_frame_end(out, &f), RON_OK);
    return f;
}

static enum ron_rc append(struct led_pg *pg, struct led_pg_head *at, uint64_t epoch,
                          uint64_t time_ms)
{
    struct ron_buf out;
    struct led_frame f = make_frame(&out, at, epoch, time_ms);
    enum ron_rc rc = led_pg_append(pg, at, &f, ron_buf_data(&out), ron_buf_len(&out), NULL);

    ron_buf_done(&out);
    return rc;
}

static struct ron_pg *admin(const char *conninfo)
{
    struct ron_pg *pg = NULL;

    assert_int_equal(ron_pg_new(&(struct ron_pg_opts){.env = ron_env_linux(),
                                                      .conninfo = conninfo,
                                                      .name = "test",
                                                      .connect_ms = 5000},
                                &pg, NULL),
                     RON_OK);
    return pg;
}

static struct ron_deadline in_s(uint64_t s)
{
    return ron_deadline_after_ms(ron_mono_ns(), s * 1000);
}

static uint64_t number(struct ron_pg *pg, const char *sql)
{
    struct ron_pg_result r = {0};
    enum ron_pg_fate fate;
    struct ron_err err = {0};
    uint64_t value = 0;
    enum ron_rc rc = ron_pg_exec(pg, sql, NULL, 0, in_s(10), &fate, &r, &err);

    if (rc != RON_OK) {
        fail_msg("%s: %s", sql, err.msg);
    }
    assert_int_equal(ron_pg_rows(&r), 1);
    assert_int_equal(ron_pg_value_u64(&r, 0, 0, &value, NULL), RON_OK);
    ron_pg_result_done(&r);
    return value;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void test_led_pg__appends__chain_and_are_read_back(void **state)
{
    struct led_pg_head at;
    struct led_pg_head found;
    struct led_pg *pg = open_new("chain", &at);

    (void)state;
    assert_int_equal(at.slot, 0);
    for (uint64_t i = 1; i <= 40; i++) {
        assert_int_equal(append(pg, &at, i / 10, 1000 + i), RON_OK);
        assert_int_equal(at.slot, i);
    }
    assert_int_equal(led_pg_head(pg, &found, NULL), RON_OK);
    assert_int_equal(found.slot, 40);
    assert_int_equal(found.epoch, 4);
    assert_int_equal(led_pg_find(pg, 0, &at.root, 2, 1023, &found, NULL), RON_OK);
    assert_int_equal(found.slot, 23);
    /* Another root, another group: what is known here is not in this log. */
    assert_int_equal(led_pg_find(pg, 0, &at.root, 2, 999, &found, NULL), RON_NOTFOUND);
    assert_int_equal(led_pg_find(pg, 5, &at.root, 2, 1023, &found, NULL), RON_NOTFOUND);
    at.root.bytes[0] ^= 1;
    assert_int_equal(led_pg_find(pg, 0, &at.root, 2, 1023, &found, NULL), RON_NOTFOUND);
    led_pg_free(pg);
}

static enum ron_rc count_row(void *arg, uint64_t slot, const uint8_t *bytes, size_t len,
                             struct ron_err *err)
{
    uint64_t *last = arg;
    struct led_frame f;
    size_t size;

    (void)err;
    assert_int_equal(slot, *last + 1);
    assert_int_equal(led_frame_read(bytes, len, &f, &size), LED_FRAME_GOOD);
    assert_int_equal(size, len);
    *last = slot;
    return RON_OK;
}

static void test_led_pg__read__in_order_and_in_portions(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("portions", &at);
    uint64_t slot = 0;
    uint64_t last = 0;
    size_t rows = 0;

    (void)state;
    for (uint64_t i = 1; i <= LED_PG_READ_ROWS + 3; i++) {
        assert_int_equal(append(pg, &at, 1, i), RON_OK);
    }
    assert_int_equal(led_pg_read(pg, &slot, count_row, &last, &rows, NULL), RON_OK);
    assert_int_equal(rows, LED_PG_READ_ROWS);
    assert_int_equal(led_pg_read(pg, &slot, count_row, &last, &rows, NULL), RON_OK);
    assert_int_equal(rows, 3);
    assert_int_equal(slot, LED_PG_READ_ROWS + 3);
    assert_int_equal(led_pg_read(pg, &slot, count_row, &last, &rows, NULL), RON_OK);
    assert_int_equal(rows, 0);
    led_pg_free(pg);
}

static void test_led_pg__two_leaders__the_slot_has_one(void **state)
{
    struct led_pg_head a;
    struct led_pg_head b;
    struct led_pg *one = open_new("fence", &a);
    struct led_pg *two = open_new("fence", &b);

    (void)state;
    assert_int_equal(append(one, &a, 1, 10), RON_OK);
    b = a;
    assert_int_equal(append(two, &b, 2, 11), RON_OK); /* claims */
    assert_int_equal(append(one, &a, 1, 12), RON_CONFLICT);
    /* It learns where the log stands, and still may not: its epoch is over. */
    a = b;
    assert_int_equal(append(one, &a, 1, 13), RON_CORRUPT);
    assert_int_equal(append(two, &b, 2, 14), RON_OK);
    led_pg_free(one);
    led_pg_free(two);
}

static void test_led_pg__same_frame_again__is_in_once(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("again", &at);
    struct led_pg_head before = at;
    struct ron_pg *db = admin(server.conninfo);

    (void)state;
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    assert_int_equal(append(pg, &before, 1, 10), RON_OK); /* as after a lost answer */
    assert_int_equal(before.slot, at.slot);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log WHERE ledger='again'"), 2);
    ron_pg_free(db);
    led_pg_free(pg);
}

static void test_led_pg__another_root_before__refused_as_forked(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("fork", &at);

    (void)state;
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    at.root.bytes[3] ^= 1;
    assert_int_equal(append(pg, &at, 1, 11), RON_CORRUPT);
    led_pg_free(pg);
}

static void test_led_pg__another_ledger_by_that_name__its_uuid_is_told(void **state)
{
    static const uint8_t other[LED_UUID_SIZE] = "another ledger!";
    struct led_pg_head at;
    struct led_pg *pg = open_new("uuid", &at);
    uint8_t found[LED_UUID_SIZE];

    (void)state;
    assert_int_equal(led_pg_genesis(pg, other, found, NULL), RON_OK);
    assert_memory_equal(found, uuid, sizeof uuid);
    led_pg_free(pg);
}

/* Who has a copy does not begin another ledger in a database that was emptied. */
static void test_led_pg__genesis_for_a_copy__none_is_made(void **state)
{
    struct led_pg_opts o = opts_of("copied");
    struct led_pg *pg = NULL;
    uint8_t found[LED_UUID_SIZE];

    (void)state;
    assert_int_equal(led_pg_migrate(&o, NULL, NULL), RON_OK);
    assert_int_equal(led_pg_new(&o, &pg, NULL), RON_OK);
    assert_int_equal(led_pg_genesis(pg, NULL, found, NULL), RON_NOTFOUND);
    assert_int_equal(led_pg_genesis(pg, uuid, found, NULL), RON_OK);
    assert_int_equal(led_pg_genesis(pg, NULL, found, NULL), RON_OK);
    assert_memory_equal(found, uuid, sizeof uuid);
    led_pg_free(pg);
}

static void test_led_pg__row_that_is_gone_or_another__told(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("holds", &at);
    struct led_pg_head other;

    (void)state;
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    assert_int_equal(led_pg_holds(pg, &at, NULL), RON_OK);
    led_pg_drop(pg);
    assert_int_equal(led_pg_holds(pg, &at, NULL), RON_OK);
    other = at;
    other.root.bytes[0] ^= 1;
    assert_int_equal(led_pg_holds(pg, &other, NULL), RON_CORRUPT);
    other = at;
    other.slot++;
    assert_int_equal(led_pg_holds(pg, &other, NULL), RON_CORRUPT);
    led_pg_free(pg);
}

static void test_led_pg__role_of_a_ledger__may_insert_and_read_alone(void **state)
{
    struct led_pg_opts o = opts_of("rights");
    struct ron_pg *db = admin(server.conninfo);
    char as_role[160];
    struct ron_pg *limited;
    struct led_pg_head at;
    struct led_pg *pg;
    uint8_t found[LED_UUID_SIZE];
    enum ron_pg_fate fate;

    (void)state;
    assert_int_equal(ron_pg_script(db, "CREATE ROLE ledger LOGIN", in_s(10), NULL), RON_OK);
    assert_int_equal(led_pg_migrate(&o, "ledger", NULL), RON_OK);
    assert_int_equal(led_pg_migrate(&o, "ledger", NULL), RON_OK); /* changes nothing */
    (void)snprintf(as_role, sizeof as_role, "host=%s user=ledger dbname=postgres", server.dir);
    o.conninfo = as_role;
    assert_int_equal(led_pg_new(&o, &pg, NULL), RON_OK);
    assert_int_equal(led_pg_genesis(pg, uuid, found, NULL), RON_OK);
    assert_int_equal(led_pg_head(pg, &at, NULL), RON_OK);
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    assert_int_equal(led_pg_beat(pg, 1, &(struct led_pg_place){"http://127.0.0.1:1", ""}, NULL),
                     RON_OK);
    assert_int_equal(led_pg_freeze(pg, 1, (struct ron_str){"t:x", 3}, true, NULL), RON_OK);
    assert_int_equal(led_pg_freeze(pg, 1, (struct ron_str){"t:x", 3}, false, NULL), RON_OK);
    limited = admin(as_role);
    assert_int_equal(ron_pg_exec(limited, "UPDATE ron.ledger_log SET epoch=9", NULL, 0, in_s(10),
                                 &fate, NULL, NULL),
                     RON_DENIED);
    assert_int_equal(fate, RON_PG_REFUSED);
    assert_int_equal(
        ron_pg_exec(limited, "DELETE FROM ron.ledger_log", NULL, 0, in_s(10), &fate, NULL, NULL),
        RON_DENIED);
    assert_int_equal(
        ron_pg_exec(limited, "TRUNCATE ron.ledger_log", NULL, 0, in_s(10), &fate, NULL, NULL),
        RON_DENIED);
    ron_pg_free(limited);
    ron_pg_free(db);
    led_pg_free(pg);
}

static void test_led_pg__lease__the_newer_epoch_stays(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("lease", &at);
    static const struct led_pg_place two = {"http://two", ""};
    static const struct led_pg_place three = {"http://three", "unix:/run/three"};
    struct led_pg_lease lease;

    (void)state;
    assert_int_equal(led_pg_lease(pg, &lease, NULL), RON_NOTFOUND);
    assert_int_equal(led_pg_beat(pg, 3, &three, NULL), RON_OK);
    assert_int_equal(led_pg_beat(pg, 2, &two, NULL), RON_CONFLICT); /* was overtaken */
    assert_int_equal(led_pg_lease(pg, &lease, NULL), RON_OK);
    assert_int_equal(lease.epoch, 3);
    assert_string_equal(lease.place.url, "http://three");
    assert_string_equal(lease.place.oap, "unix:/run/three");
    assert_int_equal(led_pg_beat(pg, 4, &two, NULL), RON_OK); /* without a binary front */
    assert_int_equal(led_pg_lease(pg, &lease, NULL), RON_OK);
    assert_string_equal(lease.place.url, "http://two");
    assert_string_equal(lease.place.oap, "");
    assert_int_equal(led_pg_resign(pg, 3, NULL), RON_OK); /* who does not lead gives nothing up */
    assert_int_equal(led_pg_lease(pg, &lease, NULL), RON_OK);
    assert_true(lease.age_ms < 60000);
    assert_int_equal(led_pg_resign(pg, 4, NULL), RON_OK);
    assert_int_equal(led_pg_lease(pg, &lease, NULL), RON_OK);
    assert_true(lease.age_ms > 60000);
    led_pg_free(pg);
}

static void expect_frozen(struct led_pg *pg, const char *want, bool want_known)
{
    struct ron_buf lines;
    bool known = !want_known;

    ron_buf_init(&lines, 4096);
    assert_int_equal(led_pg_frozen(pg, &lines, &known, NULL), RON_OK);
    assert_int_equal(known, want_known);
    assert_string_equal(ron_buf_text(&lines), want);
    ron_buf_done(&lines);
}

static void test_led_pg__frozen_accounts__noted_by_who_leads_alone(void **state)
{
    static const struct led_pg_place nowhere = {"", ""};
    const struct ron_str a = {"t:x/u:a", 7};
    const struct ron_str b = {"t:x/u:B", 7};
    struct led_pg_head at;
    struct led_pg *pg = open_new("frozen", &at);
    struct led_pg *other = open_new("thawed", &at);

    (void)state;
    expect_frozen(pg, "", false);
    assert_int_equal(led_pg_freeze(pg, 1, a, true, NULL), RON_CONFLICT); /* nobody leads */
    assert_int_equal(led_pg_beat(pg, 1, &nowhere, NULL), RON_OK);
    assert_int_equal(led_pg_freeze(pg, 1, a, true, NULL), RON_OK);
    assert_int_equal(led_pg_freeze(pg, 1, a, true, NULL), RON_OK); /* again */
    assert_int_equal(led_pg_freeze(pg, 1, b, true, NULL), RON_OK);
    expect_frozen(pg, "t:x/u:B\nt:x/u:a\n", true);
    assert_int_equal(led_pg_beat(pg, 2, &nowhere, NULL), RON_OK); /* another one leads */
    assert_int_equal(led_pg_freeze(pg, 1, a, false, NULL), RON_CONFLICT);
    assert_int_equal(led_pg_freeze(pg, 2, b, false, NULL), RON_OK);
    expect_frozen(pg, "t:x/u:a\n", true);
    assert_int_equal(led_pg_freeze(pg, 2, a, false, NULL), RON_OK);
    expect_frozen(pg, "", true); /* known to be free, which is not the same as unknown */
    expect_frozen(other, "", false);
    led_pg_free(pg);
    led_pg_free(other);
}

static void test_led_pg__server_restarts_between__appends_go_on(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("restart", &at);

    (void)state;
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    assert_int_equal(pg_server_ctl(&server, "-m immediate restart"), 0);
    assert_int_equal(append(pg, &at, 1, 11), RON_OK);
    assert_int_equal(at.slot, 2);
    led_pg_free(pg);
}

static void test_led_pg__no_server__timeout_and_nothing_is_claimed(void **state)
{
    struct led_pg_opts o = opts_of("nobody");
    struct led_pg_head at = {0};
    struct led_pg *pg;

    (void)state;
    o.conninfo = "host=/nonexistent user=postgres";
    o.append_ms = 150;
    assert_int_equal(led_pg_new(&o, &pg, NULL), RON_OK);
    assert_int_equal(append(pg, &at, 1, 10), RON_TIMEOUT);
    assert_int_equal(at.slot, 0);
    led_pg_free(pg);
    o.conninfo = "what is this";
    assert_int_equal(led_pg_new(&o, &pg, NULL), RON_INVALID);
}

/* ---- what operators set ---------------------------------------------------------------------- */

static void script(struct ron_pg *db, const char *sql)
{
    struct ron_err err = {0};

    if (ron_pg_script(db, sql, in_s(20), &err) != RON_OK) {
        fail_msg("%s: %s", sql, err.msg);
    }
}

static void test_led_pg__limit_on_statements__refused_at_the_start(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("limit", &at);
    struct ron_pg *db = admin(server.conninfo);
    uint8_t found[LED_UUID_SIZE];

    (void)state;
    script(db, "ALTER ROLE postgres SET statement_timeout='5s'");
    led_pg_free(pg);
    pg = open_pg("limit"); /* a new session */
    assert_int_equal(led_pg_genesis(pg, uuid, found, NULL), RON_INVALID);
    led_pg_free(pg);
    script(db, "ALTER ROLE postgres RESET statement_timeout");
    pg = open_new("limit", &at);
    assert_int_equal(append(pg, &at, 1, 10), RON_OK);
    ron_pg_free(db);
    led_pg_free(pg);
}

/* As under transaction pooling: nothing is left in a session that the next statement needs. */
static void test_led_pg__a_session_for_each_statement__appends_go_on(void **state)
{
    struct led_pg_head at;
    struct led_pg *pg = open_new("pooled", &at);
    struct ron_pg *db = admin(server.conninfo);

    (void)state;
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(append(pg, &at, 1, i), RON_OK);
        assert_int_equal(number(db, "SELECT count(pg_terminate_backend(pid,5000)) FROM "
                                    "pg_stat_activity WHERE application_name LIKE '%pooled'"),
                         1);
    }
    assert_int_equal(at.slot, 5);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log WHERE ledger='pooled'"), 6);
    ron_pg_free(db);
    led_pg_free(pg);
}

struct racer {
    struct led_pg *pg;
    struct led_pg_head at;
    uint64_t epoch;
    uint64_t in;
    struct ron_au32 bad;
};

/* Claims whenever it is fenced, until it has had its turns. */
static void race_main(void *arg)
{
    struct racer *r = arg;

    for (uint64_t i = 0; i < 40; i++) {
        enum ron_rc rc = append(r->pg, &r->at, r->at.epoch + 1, 1000 * r->epoch + i);

        if (rc == RON_OK) {
            r->in++;
        } else if (rc != RON_CONFLICT && rc != RON_CORRUPT) {
            ron_au32_store(&r->bad, 1);
        } else if (led_pg_head(r->pg, &r->at, NULL) != RON_OK) {
            ron_au32_store(&r->bad, 2);
        }
    }
}

static void test_led_pg__serializable_by_default__two_leaders_still_take_turns(void **state)
{
    struct ron_pg *db = admin(server.conninfo);
    struct racer racers[2] = {{0}, {0}};
    struct ron_thread *threads[2] = {NULL, NULL};

    (void)state;
    script(db, "ALTER ROLE postgres SET default_transaction_isolation='serializable'");
    for (size_t i = 0; i < 2; i++) {
        racers[i].pg = open_new("serializable", &racers[i].at);
        racers[i].epoch = i + 1;
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "race",
                                                                    .may_block = true,
                                                                    .main = race_main,
                                                                    .arg = &racers[i]},
                                          &threads[i], NULL),
                         RON_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        ron_thread_join(threads[i]);
        assert_int_equal(ron_au32_load(&racers[i].bad), 0);
        led_pg_free(racers[i].pg);
    }
    script(db, "ALTER ROLE postgres RESET default_transaction_isolation");
    assert_true(racers[0].in + racers[1].in > 0);
    /* Each slot was given once, and nothing else is there; nobody took part in a lock. */
    assert_int_equal(
        number(db, "SELECT count(*)-1 FROM ron.ledger_log WHERE ledger='serializable'"),
        racers[0].in + racers[1].in);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log a JOIN ron.ledger_log b ON "
                                "b.ledger=a.ledger AND b.slot=a.slot+1 WHERE "
                                "a.ledger='serializable' AND b.epoch<a.epoch"),
                     0);
    assert_int_equal(number(db, "SELECT count(*) FROM pg_locks WHERE locktype='advisory'"), 0);
    ron_pg_free(db);
}

/* Rows far behind one another: into their partition, and old ones can be frozen meanwhile. */
static void test_led_pg__ranges_of_slots__have_partitions(void **state)
{
    static const uint64_t edges[] = {9999999, 19999999};
    struct ron_pg *db = admin(server.conninfo);
    struct led_pg_head at;
    struct led_pg *pg = open_new("ranges", &at);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(edges); i++) {
        char sql[256];

        (void)snprintf(sql, sizeof sql,
                       "INSERT INTO ron.ledger_log SELECT ledger,%llu,epoch,seq_first,entries,"
                       "prev_root,root,frame FROM ron.ledger_log WHERE ledger='ranges' AND slot=0",
                       (unsigned long long)edges[i]);
        script(db, sql);
        assert_int_equal(led_pg_head(pg, &at, NULL), RON_OK);
        assert_int_equal(at.slot, edges[i]);
        script(db, "VACUUM (FREEZE) ron.ledger_log_0");
        assert_int_equal(append(pg, &at, 1, 10 + i), RON_OK);
    }
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log_0 WHERE ledger='ranges'"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log_1 WHERE ledger='ranges'"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log_rest WHERE ledger='ranges'"),
                     1);
    /* Frames are not compressed by the server, and the slot is ours, not a sequence's. */
    assert_int_equal(number(db, "SELECT count(*) FROM pg_attribute WHERE attname='frame' AND "
                                "attstorage<>'e' AND attrelid::regclass::text LIKE "
                                "'ron.ledger_log%'"),
                     0);
    assert_int_equal(number(db, "SELECT count(*) FROM pg_sequences WHERE schemaname='ron'"), 0);
    ron_pg_free(db);
    led_pg_free(pg);
}

/* ---- a standby that never comes -------------------------------------------------------------- */

struct appending {
    struct led_pg *pg;
    struct led_pg_head at;
    enum ron_rc rc;
    struct ron_au32 over;
};

static void append_main(void *arg)
{
    struct appending *a = arg;

    a->rc = append(a->pg, &a->at, 1, 10);
    ron_au32_store(&a->over, 1);
}

/* The rows of ledger `standby`; asked until there are that many. */
static void await_rows(struct ron_pg *db, uint64_t rows)
{
    struct ron_deadline end = in_s(30);

    while (number(db, "SELECT count(*) FROM ron.ledger_log WHERE ledger='standby'") != rows) {
        assert_false(ron_deadline_expired(end, ron_mono_ns()));
    }
}

/* Sessions that wait for a standby; asked until there is one. */
static void cancel_one_that_waits(struct ron_pg *db)
{
    struct ron_deadline end = in_s(30);

    while (number(db, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                      "WHERE wait_event='SyncRep'") == 0) {
        assert_false(ron_deadline_expired(end, ron_mono_ns()));
    }
}

static void test_led_pg__commit_not_replicated__told_only_when_it_is(void **state)
{
    struct ron_pg *db = admin(server.conninfo);
    struct appending a = {0};
    struct ron_thread *thread = NULL;

    (void)state;
    a.pg = open_new("standby", &a.at);
    assert_int_equal(
        ron_pg_script(db, "ALTER SYSTEM SET synchronous_standby_names='nobody'", in_s(10), NULL),
        RON_OK);
    assert_int_equal(number(db, "SELECT pg_reload_conf()::int"), 1);
    while (number(db, "SELECT count(*) FROM pg_settings WHERE name='synchronous_standby_names' "
                      "AND setting='nobody'") == 0) {
    }
    /* Commits wait once the server's checkpointer has read the setting, too, which it does before
     * it obeys this. */
    assert_int_equal(ron_pg_script(db, "CHECKPOINT", in_s(30), NULL), RON_OK);
    assert_int_equal(ron_thread_start(
                         &(struct ron_thread_opts){
                             .name = "append", .may_block = true, .main = append_main, .arg = &a},
                         &thread, NULL),
                     RON_OK);
    /* The wait is cancelled from outside: the server says COMMIT, with a warning. Then again, where
     * the second try finds its own row and settles. */
    cancel_one_that_waits(db);
    await_rows(db, 2); /* Only now has the cancelled session seen it. */
    cancel_one_that_waits(db);
    assert_int_equal(ron_au32_load(&a.over), 0);
    assert_int_equal(
        ron_pg_script(db, "ALTER SYSTEM RESET synchronous_standby_names", in_s(10), NULL), RON_OK);
    assert_int_equal(number(db, "SELECT pg_reload_conf()::int"), 1);
    ron_thread_join(thread);
    assert_int_equal(a.rc, RON_OK);
    assert_int_equal(a.at.slot, 1);
    assert_int_equal(number(db, "SELECT count(*) FROM ron.ledger_log WHERE ledger='standby'"), 2);
    ron_pg_free(db);
    led_pg_free(a.pg);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int set_up(void **state)
{
    struct led_pg_opts o;

    (void)state;
    there = pg_server_start(&server);
    if (!there) {
        return 0;
    }
    o = opts_of("first");
    return led_pg_migrate(&o, NULL, NULL) == RON_OK ? 0 : -1;
}

static int take_down(void **state)
{
    (void)state;
    if (there) {
        pg_server_stop(&server);
    }
    return 0;
}

static int needs_server(void **state)
{
    (void)state;
    if (!there) {
        skip();
    }
    return 0;
}

#define CASE(fn) cmocka_unit_test_setup(fn, needs_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_pg__appends__chain_and_are_read_back),
        CASE(test_led_pg__read__in_order_and_in_portions),
        CASE(test_led_pg__two_leaders__the_slot_has_one),
        CASE(test_led_pg__same_frame_again__is_in_once),
        CASE(test_led_pg__another_root_before__refused_as_forked),
        CASE(test_led_pg__another_ledger_by_that_name__its_uuid_is_told),
        CASE(test_led_pg__genesis_for_a_copy__none_is_made),
        CASE(test_led_pg__row_that_is_gone_or_another__told),
        CASE(test_led_pg__role_of_a_ledger__may_insert_and_read_alone),
        CASE(test_led_pg__lease__the_newer_epoch_stays),
        CASE(test_led_pg__frozen_accounts__noted_by_who_leads_alone),
        CASE(test_led_pg__server_restarts_between__appends_go_on),
        CASE(test_led_pg__no_server__timeout_and_nothing_is_claimed),
        CASE(test_led_pg__limit_on_statements__refused_at_the_start),
        CASE(test_led_pg__a_session_for_each_statement__appends_go_on),
        CASE(test_led_pg__serializable_by_default__two_leaders_still_take_turns),
        CASE(test_led_pg__ranges_of_slots__have_partitions),
        CASE(test_led_pg__commit_not_replicated__told_only_when_it_is),
    };

    return cmocka_run_group_tests(tests, set_up, take_down);
}
