/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: tables in PostgreSQL have one owner, and a commit counts once whatever happens to its
 * answer.
 * Method: two owners on one server; answers that are lost (the faults of ron/pg), sessions that the
 * server ends, a row that is locked by somebody else, a standby that never answers, a database that
 * has forgotten, a first host that takes connections and says nothing. */
#include "support/pg_server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "ron/io/linux_env.h"
#include "ron/pg/pg_array.h"
#include "ron/pg/pg_own.h"
#include "ron/sync/sync.h"

static struct pg_server server;
static bool there;
static char dsn[192];
static struct ron_err err;

static const char step_1[] = "CREATE TABLE box(one int4 PRIMARY KEY,layout int4 NOT NULL,"
                             "epoch int8 NOT NULL,commits int8 NOT NULL);"
                             "CREATE TABLE item(n int8 PRIMARY KEY);"
                             "INSERT INTO box VALUES(1,1,0,0)";
static const char step_2[] = "ALTER TABLE item ADD COLUMN text bytea;UPDATE box SET layout=2";
static const char *const steps[] = {step_1, step_2};

static const char write_sql[] =
    "WITH own AS (UPDATE box SET commits=$2+1 WHERE one=1 AND epoch=$1 AND commits=$2 RETURNING 1),"
    "i AS (INSERT INTO item(n) SELECT $3 FROM own) SELECT count(*) FROM own";

#define ok(call)                                                                                   \
    do {                                                                                           \
        enum ron_rc ok_rc_ = (call);                                                               \
        if (ok_rc_ != RON_OK) {                                                                    \
            fail_msg("%s: %s: %s", #call, ron_rc_name(ok_rc_), err.msg);                           \
        }                                                                                          \
    } while (0)
#define gives(expected, call) assert_string_equal(ron_rc_name(call), ron_rc_name(RON_##expected))

static struct ron_pg *connect_as(const char *conninfo)
{
    struct ron_pg *pg = NULL;

    ok(ron_pg_new(
        &(struct ron_pg_opts){
            .env = ron_env_linux(), .conninfo = conninfo, .name = "test", .connect_ms = 5000},
        &pg, &err));
    return pg;
}

static void sql(const char *text)
{
    struct ron_pg *pg = connect_as(dsn);

    ok(ron_pg_script(pg, text, ron_deadline_after_ms(ron_mono_ns(), 20000), &err));
    ron_pg_free(pg);
}

static uint64_t number(const char *text)
{
    struct ron_pg *pg = connect_as(dsn);
    struct ron_pg_result r = {0};
    enum ron_pg_fate fate;
    uint64_t n = 0;

    ok(ron_pg_exec(pg, text, NULL, 0, ron_deadline_after_ms(ron_mono_ns(), 20000), &fate, &r,
                   &err));
    ok(ron_pg_value_u64(&r, 0, 0, &n, &err));
    ron_pg_result_done(&r);
    ron_pg_free(pg);
    return n;
}

static enum ron_rc open_steps(uint32_t count, uint32_t tries, struct ron_pg_own **ret)
{
    return ron_pg_own_open(&(struct ron_pg_own_opts){.env = ron_env_linux(),
                                                     .conninfo = dsn,
                                                     .name = "owner",
                                                     .table = "box",
                                                     .steps = steps,
                                                     .step_count = count,
                                                     .call_ms = 700,
                                                     .pause_ms = 1,
                                                     .open_tries = tries},
                           ret, &err);
}

static struct ron_pg_own *open_own(void)
{
    struct ron_pg_own *o = NULL;

    ok(open_steps(2, 50, &o));
    return o;
}

static enum ron_rc put(struct ron_pg_own *o, uint64_t n)
{
    struct ron_pg_param p[3];

    RON_TRY(ron_pg_own_ready(o, &err));
    ron_pg_u64(&p[2], n);
    return ron_pg_own_write(o, write_sql, p, 3, &err);
}

/* The same with a transaction of several statements. */
static enum ron_rc put_slowly(struct ron_pg_own *o, uint64_t n, uint64_t patience_ms)
{
    struct ron_pg_param p;
    enum ron_rc rc;

    RON_TRY(ron_pg_own_begin(o, &err));
    ron_pg_u64(&p, n);
    rc = ron_pg_own_ask(o, "INSERT INTO item(n) VALUES($1)", &p, 1, NULL, &err);
    if (rc != RON_OK) {
        ron_pg_own_rollback(o);
        return rc;
    }
    return ron_pg_own_commit(o, patience_ms, &err);
}

static uint64_t items(void)
{
    return number("SELECT count(*) FROM item");
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *fault_site;
static int fault_skip; /* questions before the first fault */
static int fault_count;

static bool fault_hook(enum ron_fault_kind kind, const char *site)
{
    if (kind != RON_FAULT_SYSCALL || fault_site == NULL || strcmp(site, fault_site) != 0) {
        return false;
    }
    if (fault_skip > 0) {
        fault_skip--;
        return false;
    }
    return fault_count > 0 && fault_count-- > 0;
}

static void fail_at(const char *site, int skip_first, int count)
{
    fault_site = site;
    fault_skip = skip_first;
    fault_count = count;
    ron_fault_hook = site != NULL ? fault_hook : NULL;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void test_own__opened__migrates_step_by_step(void **state)
{
    struct ron_pg_own *o = NULL;

    (void)state;
    ok(open_steps(1, 50, &o));
    assert_int_equal(number("SELECT layout::int8 FROM box"), 1);
    ron_pg_own_close(o);
    o = open_own();
    assert_int_equal(number("SELECT layout::int8 FROM box"), 2);
    assert_int_equal(ron_pg_own_epoch(o), 2);
    ok(put(o, 1));
    ron_pg_own_close(o);
    gives(UNSUPPORTED, open_steps(1, 50, &o));
}

static void test_own__no_rights_to_make_tables__denied(void **state)
{
    struct ron_pg_own *o = NULL;
    char saved[sizeof dsn];

    (void)state;
    sql("CREATE ROLE guest LOGIN");
    memcpy(saved, dsn, sizeof dsn);
    (void)snprintf(dsn, sizeof dsn, "host=%s user=guest dbname=postgres", server.dir);
    gives(DENIED, open_steps(2, 1, &o));
    memcpy(dsn, saved, sizeof dsn);
}

static void test_own__second_process__is_refused_while_the_first_lives(void **state)
{
    struct ron_pg_own *first = open_own();
    struct ron_pg_own *second = NULL;

    (void)state;
    gives(CONFLICT, open_steps(2, 2, &second));
    ok(put(first, 1));
    ron_pg_own_close(first);
    second = open_own();
    ok(put(second, 2));
    ron_pg_own_close(second);
    assert_int_equal(items(), 2);
}

/* Ends the session of whoever has that name, and waits until it is gone. */
static void end_sessions(void)
{
    sql("SELECT pg_terminate_backend(pid,5000) FROM pg_stat_activity "
        "WHERE application_name='owner'");
}

static void test_own__overtaken__writes_nothing_and_returns_when_alone(void **state)
{
    struct ron_pg_own *first = open_own();
    struct ron_pg_own *second;

    (void)state;
    ok(put(first, 1));
    end_sessions();
    second = open_own();
    ok(put(second, 2));
    gives(CONFLICT, put(first, 3));
    gives(CONFLICT, put_slowly(first, 3, 100));
    assert_int_equal(items(), 2);
    ron_pg_own_close(second);
    while (put(first, 4) != RON_OK) {
        ron_pg_own_pause(first);
    }
    assert_true(ron_pg_own_changed(first)); /* the second one's is there */
    assert_false(ron_pg_own_changed(first));
    assert_int_equal(items(), 3);
    ron_pg_own_close(first);
}

/* In the middle of a transaction, and of a write that is ready to go. */
static void test_own__overtaken_in_a_transaction__it_is_lost(void **state)
{
    struct ron_pg_own *first = open_own();
    struct ron_pg_own *second;
    struct ron_pg_param p[3];

    (void)state;
    ok(ron_pg_own_begin(first, &err));
    ron_pg_u64(&p[2], 1);
    ok(ron_pg_own_ask(first, "INSERT INTO item(n) VALUES($1)", &p[2], 1, NULL, &err));
    end_sessions();
    second = open_own();
    gives(AGAIN, ron_pg_own_ask(first, "SELECT 1::int8", NULL, 0, NULL, &err));
    gives(AGAIN, ron_pg_own_commit(first, 100, &err));
    gives(CONFLICT, ron_pg_own_ready(first, &err));
    assert_int_equal(items(), 0);
    end_sessions();
    while (ron_pg_own_ready(first, &err) != RON_OK) {
        ron_pg_own_pause(first);
    }
    ok(ron_pg_own_ready(first, &err));
    ron_pg_u64(&p[2], 5);
    gives(CONFLICT, put(second, 4));
    ok(ron_pg_own_write(first, write_sql, p, 3, &err));
    assert_int_equal(items(), 1);
    ron_pg_own_close(second);
    ron_pg_own_close(first);
}

/* ---- lost answers ---------------------------------------------------------------------------- */

static void test_own__answer_lost__is_found_again_and_counts_once(void **state)
{
    struct ron_pg_own *o = open_own();

    (void)state;
    fail_at("pg_answer", 0, 1);
    ok(put(o, 1));
    fail_at("pg_answer", 3, 1); /* BEGIN, the number, the INSERT; then COMMIT */
    ok(put_slowly(o, 2, 5000));
    fail_at(NULL, 0, 0);
    assert_int_equal(items(), 2);
    assert_false(ron_pg_own_changed(o));
    ok(put(o, 3));
    assert_int_equal(number("SELECT commits FROM box"), 3);
    ron_pg_own_close(o);
}

static void test_own__answer_lost_and_server_away__settled_later(void **state)
{
    struct ron_pg_own *o = open_own();

    (void)state;
    fail_at("pg_answer", 0, 1000);
    gives(TIMEOUT, put(o, 1));
    gives(AGAIN, put(o, 2)); /* nothing goes before it is known */
    fail_at("pg_answer", 3, 1000);
    assert_int_equal(items(), 1);
    fail_at(NULL, 0, 0);
    ok(ron_pg_own_ready(o, &err));
    assert_true(ron_pg_own_changed(o));
    ok(put(o, 2));
    assert_false(ron_pg_own_changed(o));
    fail_at("pg_answer", 3, 1000);
    gives(TIMEOUT, put_slowly(o, 3, 50));
    fail_at(NULL, 0, 0);
    ok(ron_pg_own_ready(o, &err));
    assert_true(ron_pg_own_changed(o));
    assert_int_equal(items(), 3);
    ron_pg_own_close(o);
}

static void test_own__not_sent__nothing_happened(void **state)
{
    struct ron_pg_own *o = open_own();

    (void)state;
    fail_at("pg_send", 0, 1);
    gives(AGAIN, put(o, 1));
    fail_at("pg_send", 2, 1);
    gives(AGAIN, put_slowly(o, 1, 1000));
    fail_at(NULL, 0, 0);
    assert_int_equal(items(), 0);
    ok(put(o, 1));
    assert_false(ron_pg_own_changed(o));
    ron_pg_own_close(o);
}

/* The statement waits in the server when its time is up, and is ended there afterwards. */
static void test_own__ended_in_the_server__made_impossible(void **state)
{
    struct ron_pg_own *o = open_own();
    struct ron_pg *other = connect_as(dsn);
    struct ron_deadline until = ron_deadline_after_ms(ron_mono_ns(), 30000);
    enum ron_pg_fate fate;

    (void)state;
    ok(ron_pg_exec(other, "BEGIN", NULL, 0, until, &fate, NULL, &err));
    ok(ron_pg_exec(other, "SELECT 1 FROM box FOR UPDATE", NULL, 0, until, &fate, NULL, &err));
    gives(TIMEOUT, put(o, 1));
    end_sessions();
    ok(ron_pg_exec(other, "COMMIT", NULL, 0, until, &fate, NULL, &err));
    ok(ron_pg_own_ready(o, &err));
    assert_false(ron_pg_own_changed(o));
    assert_int_equal(items(), 0);
    ok(put(o, 1));
    ron_pg_free(other);
    ron_pg_own_close(o);
}

/* The same, but the server goes on with it. */
static void test_own__late_in_the_server__counts_once(void **state)
{
    struct ron_pg_own *o = open_own();
    struct ron_pg *other = connect_as(dsn);
    struct ron_deadline until = ron_deadline_after_ms(ron_mono_ns(), 30000);
    enum ron_pg_fate fate;

    (void)state;
    ok(ron_pg_exec(other, "BEGIN", NULL, 0, until, &fate, NULL, &err));
    ok(ron_pg_exec(other, "SELECT 1 FROM box FOR UPDATE", NULL, 0, until, &fate, NULL, &err));
    gives(TIMEOUT, put(o, 1));
    ok(ron_pg_exec(other, "COMMIT", NULL, 0, until, &fate, NULL, &err));
    while (ron_pg_own_ready(o, &err) != RON_OK) {
        ron_pg_own_pause(o);
    }
    assert_int_equal(items(), ron_pg_own_changed(o) ? 1 : 0);
    ron_pg_free(other);
    ron_pg_own_close(o);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* A child that ends waits for a standby, as an impatient operator would. */
static pid_t cancel_waits(void)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 40; i++) {
            struct ron_pg *pg = connect_as(dsn);
            enum ron_pg_fate fate;

            RON_IGNORE(ron_pg_exec(pg,
                                   "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                                   "WHERE wait_event='SyncRep'",
                                   NULL, 0, ron_deadline_after_ms(ron_mono_ns(), 1000), &fate, NULL,
                                   &err));
            ron_pg_free(pg);
            (void)usleep(50000);
        }
        _exit(0);
    }
    return child;
}

/* The server takes a moment to follow its settings: until a commit of anybody waits. */
static void until_commits_wait(void)
{
    struct ron_pg *pg = connect_as(dsn);
    enum ron_pg_fate fate;

    while (ron_pg_exec(pg, "INSERT INTO probe VALUES(1)", NULL, 0,
                       ron_deadline_after_ms(ron_mono_ns(), 500), &fate, NULL, NULL) == RON_OK) {
    }
    ron_pg_free(pg);
}

static void test_own__committed_locally__is_not_acknowledged(void **state)
{
    struct ron_pg_own *o = open_own();
    pid_t child;
    int status;

    (void)state;
    sql("CREATE TABLE probe(n int)");
    sql("ALTER SYSTEM SET synchronous_standby_names='nobody'");
    sql("SELECT pg_reload_conf()");
    until_commits_wait();
    child = cancel_waits();
    gives(TIMEOUT, put(o, 1));
    assert_true(ron_pg_own_ready(o, &err) != RON_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    sql("ALTER SYSTEM RESET synchronous_standby_names");
    sql("SELECT pg_reload_conf()");
    while (ron_pg_own_ready(o, &err) != RON_OK) {
        ron_pg_own_pause(o);
    }
    assert_true(ron_pg_own_changed(o));
    assert_int_equal(items(), 1);
    ron_pg_own_close(o);
}

static void test_own__restarted__goes_on(void **state)
{
    struct ron_pg_own *o = open_own();

    (void)state;
    ok(put(o, 1));
    assert_int_equal(pg_server_ctl(&server, "-m immediate stop"), 0);
    assert_true(put(o, 2) != RON_OK);
    gives(AGAIN, ron_pg_own_ready(o, &err));
    gives(AGAIN, ron_pg_own_begin(o, &err));
    assert_int_equal(pg_server_ctl(&server, "start"), 0);
    while (ron_pg_own_ready(o, &err) != RON_OK) {
        ron_pg_own_pause(o);
    }
    ok(put(o, 3));
    assert_int_equal(items(), 2);
    ron_pg_own_close(o);
}

static void test_own__a_database_that_forgot__stops_us(void **state)
{
    struct ron_pg_own *o = open_own();

    (void)state;
    ok(put(o, 1));
    ok(put(o, 2));
    end_sessions();
    sql("UPDATE box SET commits=1;DELETE FROM item WHERE n=2");
    assert_true(put(o, 3) != RON_OK); /* the session was ended */
    gives(CORRUPT, ron_pg_own_ready(o, &err));
    gives(CORRUPT, put(o, 3));
    ron_pg_own_close(o);
    o = open_own();
    ok(put(o, 4));
    ron_pg_own_close(o);
}

/* What a role may have been given must not weaken a commit, nor end it. */
static void test_own__defaults_of_the_role__do_not_count(void **state)
{
    struct ron_pg_own *o;
    struct ron_pg_result r = {0};
    const uint8_t *text;
    size_t len;

    (void)state;
    sql("ALTER ROLE postgres SET synchronous_commit=off;"
        "ALTER ROLE postgres SET default_transaction_isolation=serializable;"
        "ALTER ROLE postgres SET statement_timeout=1234");
    o = open_own();
    ok(ron_pg_own_ask(o,
                      "SELECT concat(current_setting('synchronous_commit'),' ',"
                      "current_setting('statement_timeout'),' ',"
                      "current_setting('transaction_isolation'))",
                      NULL, 0, &r, &err));
    ron_pg_value(&r, 0, 0, &text, &len);
    assert_int_equal(len, strlen("on 0 read committed"));
    assert_memory_equal(text, "on 0 read committed", len);
    ron_pg_result_done(&r);
    ron_pg_own_close(o);
    sql("ALTER ROLE postgres RESET ALL");
}

static void test_array__round__as_the_server_reads_it(void **state)
{
    struct ron_pg *pg = connect_as(dsn);
    struct ron_pg_array ints;
    struct ron_pg_array bytes;
    struct ron_pg_param p[2];
    struct ron_pg_result r = {0};
    enum ron_pg_fate fate;

    (void)state;
    ron_pg_array_init(&ints, RON_PG_INT8);
    ron_pg_array_init(&bytes, RON_PG_BYTEA);
    for (int round = 0; round < 3; round++) {
        uint64_t sum = 0;
        uint64_t count = 0;
        uint64_t lengths = 0;
        uint64_t expected = 0;

        for (uint64_t i = 0; i < (uint64_t)round * 1000; i++) {
            ron_pg_array_u64(&ints, i);
            ron_pg_array_bytes(&bytes, "0123456789", i % 11);
            expected += i % 11;
        }
        ok(ron_pg_array_param(&ints, &p[0]));
        ok(ron_pg_array_param(&bytes, &p[1]));
        ok(ron_pg_exec(pg,
                       "SELECT count(*),coalesce(sum(a),0)::int8,coalesce(sum(length(b)),0)::int8 "
                       "FROM unnest($1::int8[],$2::bytea[]) AS v(a,b)",
                       p, 2, ron_deadline_after_ms(ron_mono_ns(), 5000), &fate, &r, &err));
        ok(ron_pg_value_u64(&r, 0, 0, &count, &err));
        ok(ron_pg_value_u64(&r, 0, 1, &sum, &err));
        ok(ron_pg_value_u64(&r, 0, 2, &lengths, &err));
        assert_int_equal(count, round * 1000);
        assert_int_equal(sum, count * (count - (count > 0)) / 2);
        assert_int_equal(lengths, expected);
        ron_pg_result_done(&r);
        ron_pg_array_clear(&ints, 100);
        ron_pg_array_clear(&bytes, 1 << 20);
    }
    ron_pg_array_done(&ints);
    ron_pg_array_done(&bytes);
    ron_pg_free(pg);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* A server that stands still: the system takes connections for it, and nobody answers. */
struct silent {
    char dir[32];
    struct sockaddr_un addr;
    int fd;
};

static void silent_start(struct silent *s)
{
    *s = (struct silent){.dir = "/tmp/ron-still-XXXXXX", .addr = {.sun_family = AF_UNIX}};
    assert_non_null(mkdtemp(s->dir));
    (void)snprintf(s->addr.sun_path, sizeof s->addr.sun_path, "%s/.s.PGSQL.5432", s->dir);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (const struct sockaddr *)&s->addr, sizeof s->addr), 0);
    assert_int_equal(listen(s->fd, 8), 0);
}

/* Connections since the last call. */
static int silent_asked(const struct silent *s)
{
    int n = 0;

    for (int fd; (fd = accept(s->fd, NULL, NULL)) >= 0; n++) {
        (void)close(fd);
    }
    return n;
}

static void silent_stop(struct silent *s)
{
    (void)close(s->fd);
    (void)unlink(s->addr.sun_path);
    (void)rmdir(s->dir);
}

static enum ron_rc ask_one(struct ron_pg *pg, uint64_t ms)
{
    struct ron_pg_result r = {0};
    enum ron_pg_fate fate;
    enum ron_rc rc = ron_pg_exec(pg, "SELECT 1::int8", NULL, 0,
                                 ron_deadline_after_ms(ron_mono_ns(), ms), &fate, &r, &err);

    ron_pg_result_done(&r);
    return rc;
}

static void test_hosts__first_is_silent__the_next_is_asked_from_then_on(void **state)
{
    struct silent still;
    struct ron_pg *pg = NULL;

    (void)state;
    silent_start(&still);
    (void)snprintf(dsn, sizeof dsn, "host=%s,%s,%s port=5432 user=postgres dbname=postgres",
                   still.dir, still.dir, server.dir);
    ok(ron_pg_new(
        &(struct ron_pg_opts){
            .env = ron_env_linux(), .conninfo = dsn, .name = "test", .connect_ms = 100},
        &pg, &err));
    ok(ask_one(pg, 20000));
    assert_int_equal(silent_asked(&still), 2);
    ron_pg_drop(pg);
    ok(ask_one(pg, 20000));
    assert_int_equal(silent_asked(&still), 0);
    ron_pg_free(pg);
    silent_stop(&still);
}

static void test_hosts__deadline_ends_at_the_silent_one__the_next_call_goes_on(void **state)
{
    struct silent still;
    struct ron_pg *pg = NULL;

    (void)state;
    silent_start(&still);
    (void)snprintf(dsn, sizeof dsn, "host=%s,%s user=postgres dbname=postgres", still.dir,
                   server.dir);
    pg = connect_as(dsn);
    gives(TIMEOUT, ask_one(pg, 50));
    assert_int_equal(silent_asked(&still), 1);
    ok(ask_one(pg, 20000));
    assert_int_equal(silent_asked(&still), 0);
    ron_pg_free(pg);
    silent_stop(&still);
}

static void test_hosts__all_silent__ends_in_time(void **state)
{
    struct silent still;
    struct ron_pg *pg = NULL;

    (void)state;
    silent_start(&still);
    (void)snprintf(dsn, sizeof dsn, "host=%s,%s user=postgres dbname=postgres", still.dir,
                   still.dir);
    ok(ron_pg_new(
        &(struct ron_pg_opts){
            .env = ron_env_linux(), .conninfo = dsn, .name = "test", .connect_ms = 30},
        &pg, &err));
    gives(TIMEOUT, ask_one(pg, 20000));
    assert_int_equal(silent_asked(&still), 2); /* each once, not until the deadline */
    ron_pg_free(pg);
    silent_stop(&still);
}

/* ---- set up ---------------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    there = pg_server_start(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (there) {
        pg_server_stop(&server);
    }
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    if (!there) {
        skip();
    }
    (void)snprintf(dsn, sizeof dsn, "%s", server.conninfo);
    sql("DROP SCHEMA IF EXISTS t CASCADE;CREATE SCHEMA t");
    (void)snprintf(dsn, sizeof dsn, "%s options=-csearch_path=t", server.conninfo);
    return 0;
}

#define CASE(fn) cmocka_unit_test_setup(fn, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_own__opened__migrates_step_by_step),
        CASE(test_own__no_rights_to_make_tables__denied),
        CASE(test_own__second_process__is_refused_while_the_first_lives),
        CASE(test_own__overtaken__writes_nothing_and_returns_when_alone),
        CASE(test_own__overtaken_in_a_transaction__it_is_lost),
        CASE(test_own__answer_lost__is_found_again_and_counts_once),
        CASE(test_own__answer_lost_and_server_away__settled_later),
        CASE(test_own__not_sent__nothing_happened),
        CASE(test_own__ended_in_the_server__made_impossible),
        CASE(test_own__late_in_the_server__counts_once),
        CASE(test_own__committed_locally__is_not_acknowledged),
        CASE(test_own__restarted__goes_on),
        CASE(test_own__a_database_that_forgot__stops_us),
        CASE(test_own__defaults_of_the_role__do_not_count),
        CASE(test_array__round__as_the_server_reads_it),
        CASE(test_hosts__first_is_silent__the_next_is_asked_from_then_on),
        CASE(test_hosts__deadline_ends_at_the_silent_one__the_next_call_goes_on),
        CASE(test_hosts__all_silent__ends_in_time),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
