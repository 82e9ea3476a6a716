/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the book has said survives: the death of the process at any moment, a full disk, a
 * changed byte; and it belongs to one process, and to one caller at a time.
 * Method: a script of calls with the text of the whole book after each. Children that run it are
 * killed before each step of SQLite, and inside of its writes by a limit on the size of files; in
 * PostgreSQL before and after statements. The book that is then opened has one of the two texts
 * around the last call. */
#include "unit/rewarder/book_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { TEXT_SIZE = 8192, THREADS = 4 };

static char dir[BOOK_PATH_SIZE];
static char path[BOOK_PATH_SIZE];

static int set_up(void **state)
{
    if (book_on_pg) {
        if (book_has_pg) {
            book_place(dir, path);
        }
        return book_ready(state);
    }
    book_folder(dir);
    book_path(dir, path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (!book_on_pg) {
        book_remove(dir);
    }
    return 0;
}

static struct rwd_book *open_file(void)
{
    struct rwd_book *b = NULL;

    ok(book_open(path, 0, &b));
    return b;
}

/* ---- the script ------------------------------------------------------------------------------ */

static enum ron_rc carry_into_b(struct rwd_book *b)
{
    struct rwd_request r = request_of("b", 1);
    struct rwd_epoch e;

    (void)snprintf(r.carry_epoch, sizeof r.carry_epoch, "a");
    return rwd_book_reserve(b, &r, 20, &e, &book_err);
}

static void ignore_epoch(void *arg, const char *epoch)
{
    (void)arg;
    (void)epoch;
}

enum { CALLS = 14 };

static enum ron_rc run_call(struct rwd_book *b, int call)
{
    struct rwd_request r = request_of("a", 1);
    struct rwd_manifest m = manifest_of("a", 1, 35);
    struct rwd_batch rows[4] = {{.no = 0, .seq_first = 1, .seq_last = 10, .commit_ms = 9},
                                {.no = 2, .seq_first = 11, .seq_last = 20, .commit_ms = 9},
                                {.no = 1, .seq_first = 21, .seq_last = 30, .commit_ms = 9},
                                {.no = 3}};
    struct rwd_epoch e;
    uint32_t attempt = 0;
    bool flag = false;

    switch (call) {
    case 0:
        return rwd_book_reserve(b, &r, 10, &e, &book_err);
    case 1:
        return rwd_book_move(b, str("a"), RWD_RESERVED, RWD_COMPUTING, NULL, 11, &book_err);
    case 2:
        return rwd_book_seal(b, &m, 12, &book_err);
    case 3:
        return rwd_book_emit(b, str("a"), 10, 13, &flag, &book_err);
    case 4:
        return rwd_book_done(b, str("a"), rows, 2, 14, &flag, &book_err);
    case 5:
        return rwd_book_stamp(b, str("a"), 1, 15, &attempt, &book_err);
    case 6:
        return rwd_book_move(b, str("a"), RWD_EMITTING, RWD_WITHHELD, "no answer", 16, &book_err);
    case 7:
        return rwd_book_quarantine(b, str("a"), RWD_BREACH_LEDGER_REFUSED, "why", 17, &book_err);
    case 8:
        return rwd_book_release(b, str("a"), 18, &flag, &book_err);
    case 9:
        return rwd_book_emit(b, str("a"), 10, 19, &flag, &book_err);
    case 10:
        return carry_into_b(b);
    case 11:
        return rwd_book_done(b, str("a"), rows + 2, 2, 21, &flag, &book_err);
    case 12:
        return rwd_book_retire(b, 22, ignore_epoch, NULL, &book_err);
    case 13:
        return rwd_book_forget(b, str("b"), &book_err);
    default:
        RON_UNREACHABLE();
    }
}

static void add_text(char *text, const char *fmt, ...) RON_PRINTF(2, 3);
static void add_text(char *text, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, fmt);
    RON_ASSERT((size_t)vsnprintf(text + len, TEXT_SIZE - len, fmt, args) < TEXT_SIZE - len);
    va_end(args);
}

/* Everything that the book says. */
static enum ron_rc describe(struct rwd_book *b, char text[TEXT_SIZE])
{
    struct rwd_epoch epochs[4];
    struct rwd_batch rows[8];
    struct rwd_settlement s;
    size_t epoch_count = 0;
    size_t row_count = 0;

    text[0] = '\0';
    RON_TRY(rwd_book_list(b, str(""), RWD_STATE_COUNT, epochs, 4, &epoch_count, &book_err));
    for (size_t i = 0; i < epoch_count; i++) {
        const struct rwd_epoch *e = &epochs[i];

        add_text(text, "%s %02x %02x %s %02x <%s> %s %u '%s' %d %02x %d %llu>%s %llu %llu\n",
                 e->request.epoch, e->request.run_key.bytes[0], e->request.inputs_cid.bytes[0],
                 e->request.policy_id, e->request.policy_hash.bytes[0], e->request.carry_epoch,
                 rwd_state_name(e->state), (unsigned)e->breach, e->reason, e->sealed,
                 e->commitment.bytes[5], e->residual_carries, (unsigned long long)e->intents,
                 e->carried_into, (unsigned long long)e->created_ms,
                 (unsigned long long)e->changed_ms);
        RON_TRY(rwd_book_settlement(b, str(e->request.epoch), &s, &book_err));
        add_text(text, "  %u/%u %llu/%llu %llu-%llu\n", s.batches_done, s.batches,
                 (unsigned long long)s.intents_done, (unsigned long long)s.intents,
                 (unsigned long long)s.seq_first, (unsigned long long)s.seq_last);
        RON_TRY(rwd_book_batches(b, str(e->request.epoch), 0, rows, 8, &row_count, &book_err));
        for (size_t k = 0; k < row_count; k++) {
            add_text(text, "  %u %llu+%u #%u %llu\n", rows[k].no, (unsigned long long)rows[k].first,
                     rows[k].count, rows[k].attempt, (unsigned long long)rows[k].ts_ms);
        }
    }
    return RON_OK;
}

/* texts[n]: after n calls. */
static char texts[CALLS + 1][TEXT_SIZE];

static void write_texts(void)
{
    struct rwd_book *b = NULL;

    ok(book_open(NULL, 0, &b));
    ok(describe(b, texts[0]));
    for (int call = 0; call < CALLS; call++) {
        ok(run_call(b, call));
        ok(describe(b, texts[call + 1]));
        assert_string_not_equal(texts[call], texts[call + 1]);
    }
    rwd_book_close(b);
}

/* ---- death ----------------------------------------------------------------------------------- */

static uint64_t steps_left;

static bool die_at_step(enum ron_fault_kind kind, const char *site)
{
    if (kind == RON_FAULT_SYSCALL &&
        (strncmp(site, "sqlite3", 7) == 0 || strncmp(site, "pg_", 3) == 0) && steps_left-- == 0) {
        (void)kill(getpid(), SIGKILL);
    }
    return false;
}

struct death {
    uint64_t steps;   /* before the kill; UINT64_MAX: none */
    rlim_t file_size; /* RLIM_INFINITY: none */
    bool survives;    /* a write beyond the limit fails instead of killing */
};

/* In a child: the whole script, with a byte into the pipe after each call. Ends 0 when all calls
 * went well, 1 when one failed. */
static void run_script(const struct death *death, int out)
{
    struct rlimit limit = {death->file_size, death->file_size};
    struct rwd_book *b = NULL;
    int code = 0;

    steps_left = death->steps;
    ron_fault_hook = die_at_step;
    (void)signal(SIGXFSZ, death->survives ? SIG_IGN : SIG_DFL);
    RON_ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    if (book_open(path, 0, &b) != RON_OK) {
        _exit(1);
    }
    for (int call = 0; call < CALLS && code == 0; call++) {
        code = run_call(b, call) == RON_OK ? 0 : 1;
        if (code == 0) {
            RON_ASSERT(write(out, "x", 1) == 1);
        }
    }
    rwd_book_close(b);
    _exit(code);
}

/* How many calls came back, and whether the child ended by itself with 0. */
static int survive(const struct death *death, bool *ret_whole)
{
    char bytes[CALLS + 1];
    int fds[2];
    int status = 0;
    ssize_t calls = 0;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fds[0]);
        run_script(death, fds[1]);
    }
    (void)close(fds[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    calls = read(fds[0], bytes, sizeof bytes);
    (void)close(fds[0]);
    assert_in_range(calls, 0, CALLS);
    *ret_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return (int)calls;
}

/* B5: as after the calls that came back, or one further when that one was under way; `exactly`: it
 * was not, it had failed. */
static void check_after(int calls, bool exactly)
{
    static char text[TEXT_SIZE];
    struct rwd_book *b = open_file();

    ok(describe(b, text));
    rwd_book_close(b);
    if (exactly || strcmp(text, texts[calls]) == 0) {
        assert_string_equal(text, texts[calls]);
    } else {
        assert_true(calls < CALLS);
        assert_string_equal(text, texts[calls + 1]);
    }
}

static void start_anew(void)
{
    if (book_on_pg) {
        book_schema(dir);
        return;
    }
    book_remove(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void test_book_file__killed_before_every_step__is_as_before_or_after(void **state)
{
    struct death death = {.file_size = RLIM_INFINITY};
    bool whole = false;

    (void)state;
    write_texts();
    for (death.steps = 0; !whole; death.steps++) {
        check_after(survive(&death, &whole), false);
        start_anew();
    }
    assert_true(death.steps > 60);
}

/* The limit on files ends the child in the middle of a write, wherever that is. */
static void test_book_file__killed_inside_a_write__is_as_before_or_after(void **state)
{
    struct death death = {.steps = UINT64_MAX};
    bool whole = false;
    int cut = 0;

    (void)state;
    write_texts();
    for (death.file_size = 0; !whole; death.file_size += 1499) {
        check_after(survive(&death, &whole), false);
        cut += !whole;
        start_anew();
    }
    assert_true(cut > 40);
}

static void test_book_file__a_write_that_fails__changes_nothing(void **state)
{
    struct death death = {.steps = UINT64_MAX, .survives = true};
    bool whole = false;
    int cut = 0;

    (void)state;
    write_texts();
    for (death.file_size = 0; !whole; death.file_size += 4999) {
        check_after(survive(&death, &whole), true);
        cut += !whole;
        start_anew();
    }
    assert_true(cut > 10);
}

/* ---- full ------------------------------------------------------------------------------------ */

static void test_book_file__full__refuses_and_stays_whole(void **state)
{
    static char before[TEXT_SIZE];
    static char after[TEXT_SIZE];
    struct rwd_manifest m = manifest_of("big", 1, 5000);
    struct rwd_book *b = open_file();
    bool all = false;

    (void)state;
    for (int call = 0; call < 3; call++) {
        ok(run_call(b, call));
    }
    ok(book_bring(b, "big", RWD_COMPUTING, 0, &book_err));
    ok(rwd_book_seal(b, &m, 1, &book_err));
    ok(describe(b, before));
    /* No less than it has: any page more is too much. */
    assert_int_equal(sqlite3_exec(b->sql->sqlite, "PRAGMA max_page_count=1", NULL, NULL, NULL),
                     SQLITE_OK);
    gives(LIMIT, rwd_book_emit(b, str("big"), 1, 13, &all, &book_err));
    ok(describe(b, after));
    assert_string_equal(before, after);
    ok(rwd_book_get(b, str("a"), &(struct rwd_epoch){0}, &book_err));
    assert_int_equal(sqlite3_exec(b->sql->sqlite, "PRAGMA max_page_count=100000", NULL, NULL, NULL),
                     SQLITE_OK);
    ok(rwd_book_emit(b, str("big"), 1, 13, &all, &book_err));
    rwd_book_close(b);
    b = open_file();
    assert_int_equal(state_of(b, "big"), RWD_EMITTING);
    rwd_book_close(b);
}

/* ---- whose file it is ------------------------------------------------------------------------ */

static void test_book_file__made__is_its_owners_alone(void **state)
{
    static const char *const ends[] = {"", "-wal"};
    struct rwd_book *b = open_file();

    (void)state;
    ok(run_call(b, 0));
    for (size_t i = 0; i < RON_ARRAY_LEN(ends); i++) {
        char name[BOOK_PATH_SIZE + 8];
        struct stat st;

        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    rwd_book_close(b);
}

static void test_book_file__open_already__is_refused(void **state)
{
    struct rwd_book *b = open_file();
    struct rwd_book *second = NULL;
    int status = 0;
    pid_t child;

    (void)state;
    gives(CONFLICT, book_open(path, 2, &second));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(book_open(path, 2, &second) == RON_CONFLICT ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ok(run_call(b, 0)); /* and the first one goes on */
    rwd_book_close(b);
    b = open_file();
    assert_int_equal(state_of(b, "a"), RWD_RESERVED);
    rwd_book_close(b);
}

static void change(const char *sql)
{
    sqlite3 *db = NULL;

    if (book_on_pg) {
        book_sql(dir, sql);
        return;
    }
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_book_file__no_book__is_corrupt(void **state)
{
    struct rwd_book *b = NULL;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(write(fd, "this is no data base, but quite long a text.....", 48), 48);
    }
    (void)close(fd);
    gives(CORRUPT, rwd_book_open(ron_env_linux(), path, &b, &book_err));
    assert_int_equal(unlink(path), 0);
    change("CREATE TABLE somebody(elses INTEGER)");
    gives(CORRUPT, rwd_book_open(ron_env_linux(), path, &b, &book_err));
    assert_int_equal(unlink(path), 0);
    rwd_book_close(open_file());
    change("PRAGMA user_version=2");
    gives(UNSUPPORTED, rwd_book_open(ron_env_linux(), path, &b, &book_err));
    change("PRAGMA user_version=1; DROP TABLE carries");
    gives(CORRUPT, rwd_book_open(ron_env_linux(), path, &b, &book_err));
    assert_null(b);
}

static void test_book_pg__no_book__is_corrupt(void **state)
{
    struct rwd_book *b = NULL;

    (void)state;
    change("CREATE TABLE rewarder_book(somebody int)");
    gives(CORRUPT, book_open(path, 1, &b));
    change("DROP TABLE rewarder_book");
    rwd_book_close(open_file());
    change("UPDATE rewarder_book SET layout=2");
    gives(UNSUPPORTED, book_open(path, 1, &b));
    change("UPDATE rewarder_book SET layout=1; DROP TABLE rewarder_carries");
    gives(CORRUPT, book_open(path, 1, &b));
    change("DELETE FROM rewarder_book");
    gives(CORRUPT, book_open(path, 1, &b));
    assert_null(b);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Where it says %s the names of the tables in PostgreSQL have more. */
static void change_tables(const char *sql)
{
    char text[512] = "";
    size_t len = 0;

    for (; *sql != '\0'; sql++) {
        if (strncmp(sql, "%s", 2) == 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%s",
                                    book_on_pg ? "rewarder_" : "");
            sql++;
        } else {
            text[len++] = *sql;
        }
        RON_ASSERT(len < sizeof text);
        text[len] = '\0';
    }
    change(text);
}

static void test_book_file__a_value_changed_by_hand__is_corrupt(void **state)
{
    static const char *const changes[] = {
        "UPDATE %sepochs SET paid='1'",           "UPDATE %sepochs SET state='sealed'",
        "UPDATE %sepochs SET run_key=inputs_cid", "UPDATE %sepochs SET intents=intents+1",
        "UPDATE %sbatches SET done=0 WHERE no=2", "UPDATE %sbatches SET ts_ms=ts_ms+1",
        "UPDATE %scarries SET into_epoch='c'",
    };
    /* `x` keeps what was there. */
    static const char keep[] = "CREATE TABLE IF NOT EXISTS x1 AS SELECT * FROM %sepochs;"
                               "CREATE TABLE IF NOT EXISTS x2 AS SELECT * FROM %sbatches;"
                               "CREATE TABLE IF NOT EXISTS x3 AS SELECT * FROM %scarries";
    static const char restore[] =
        "DELETE FROM %sbatches; DELETE FROM %sepochs; DELETE FROM %scarries;"
        "INSERT INTO %sepochs SELECT * FROM x1; INSERT INTO %sbatches SELECT * FROM x2;"
        "INSERT INTO %scarries SELECT * FROM x3";
    struct rwd_book *b = open_file();

    (void)state;
    for (int call = 0; call < 12; call++) {
        ok(run_call(b, call));
    }
    rwd_book_close(b);
    for (size_t i = 0; i < RON_ARRAY_LEN(changes); i++) {
        change_tables(keep);
        change_tables(changes[i]);
        gives(CORRUPT, book_open(path, 1, &b));
        change_tables(restore);
        rwd_book_close(open_file());
    }
}

static size_t read_whole(const char *name, uint8_t *bytes, size_t size)
{
    int fd = open(name, O_RDONLY);
    ssize_t len = read(fd, bytes, size);

    (void)close(fd);
    assert_true(len > 0 && (size_t)len < size);
    return (size_t)len;
}

static void write_whole(const char *name, const uint8_t *bytes, size_t len)
{
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    assert_int_equal(write(fd, bytes, len), len);
    (void)close(fd);
}

static void test_book_file__a_flipped_byte__is_seen_or_means_nothing(void **state)
{
    static uint8_t bytes[1 << 18];
    static char before[TEXT_SIZE];
    static char after[TEXT_SIZE];
    struct rwd_book *b = open_file();
    char copy[BOOK_PATH_SIZE];
    size_t seen = 0;
    size_t len;

    (void)state;
    for (int call = 0; call < 12; call++) {
        ok(run_call(b, call));
    }
    ok(describe(b, before));
    rwd_book_close(b);
    len = read_whole(path, bytes, sizeof bytes);
    (void)snprintf(copy, sizeof copy, "%.200s/copy.db", dir);
    /* All of the file's head; then places that meet every part of every page. */
    for (size_t at = 0; at < len; at += at < 100 ? 1 : 61) {
        enum ron_rc rc;

        bytes[at] ^= (uint8_t)(1U << at % 8);
        write_whole(copy, bytes, len);
        bytes[at] ^= (uint8_t)(1U << at % 8);
        b = NULL;
        rc = rwd_book_open(ron_env_linux(), copy, &b, &book_err);
        if (rc == RON_OK) {
            ok(describe(b, after));
            assert_string_equal(before, after);
            rwd_book_close(b);
        } else {
            if (rc != RON_CORRUPT && rc != RON_UNSUPPORTED) {
                fail_msg("byte %zu: %s: %s", at, ron_rc_name(rc), book_err.msg);
            }
            seen++;
        }
        (void)unlink(copy);
    }
    assert_true(seen > 20);
}

/* ---- callers at once ------------------------------------------------------------------------- */

struct racer {
    struct rwd_book *book;
    uint8_t run;
    int reserved;
    int moved;
    enum ron_rc rc;
};

static void race(void *arg)
{
    struct racer *r = arg;

    for (int i = 0; i < 50; i++) {
        char epoch[16];
        struct rwd_request request;
        struct rwd_epoch e;

        (void)snprintf(epoch, sizeof epoch, "r-%d", i);
        request = request_of(epoch, r->run);
        r->rc = rwd_book_reserve(r->book, &request, 1, &e, NULL);
        r->reserved += r->rc == RON_OK;
        if (r->rc != RON_OK && r->rc != RON_CONFLICT) {
            return;
        }
        r->rc = rwd_book_move(r->book, str(epoch), RWD_RESERVED, RWD_COMPUTING, NULL, 2, NULL);
        r->moved += r->rc == RON_OK;
        if (r->rc != RON_OK && r->rc != RON_CONFLICT) {
            return;
        }
    }
    r->rc = RON_OK;
}

static void test_book_file__callers_at_once__one_reserves_and_one_moves(void **state)
{
    struct ron_thread *threads[THREADS];
    struct racer racers[THREADS];
    struct rwd_book *b = NULL;
    int reserved = 0;
    int moved = 0;

    (void)state;
    ok(book_open(NULL, 0, &b));
    for (int i = 0; i < THREADS; i++) {
        struct ron_thread_opts opts = {
            .name = "racer", .may_block = true, .main = race, .arg = &racers[i]};

        racers[i] = (struct racer){.book = b, .run = (uint8_t)(i + 1), .rc = RON_INTERNAL};
        ok(ron_thread_start(&opts, &threads[i], &book_err));
    }
    for (int i = 0; i < THREADS; i++) {
        ron_thread_join(threads[i]);
        gives(OK, racers[i].rc);
        reserved += racers[i].reserved;
        moved += racers[i].moved;
    }
    assert_int_equal(reserved, 50);
    assert_int_equal(moved, 50);
    rwd_book_close(b);
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_book_file__killed_before_every_step__is_as_before_or_after),
        FILE_TEST(test_book_file__killed_inside_a_write__is_as_before_or_after),
        FILE_TEST(test_book_file__a_write_that_fails__changes_nothing),
        FILE_TEST(test_book_file__full__refuses_and_stays_whole),
        FILE_TEST(test_book_file__made__is_its_owners_alone),
        FILE_TEST(test_book_file__open_already__is_refused),
        FILE_TEST(test_book_file__no_book__is_corrupt),
        FILE_TEST(test_book_file__a_value_changed_by_hand__is_corrupt),
        FILE_TEST(test_book_file__a_flipped_byte__is_seen_or_means_nothing),
        FILE_TEST(test_book_file__callers_at_once__one_reserves_and_one_moves),
    };

    const struct CMUnitTest on_pg[] = {
        FILE_TEST(test_book_file__killed_before_every_step__is_as_before_or_after),
        FILE_TEST(test_book_file__open_already__is_refused),
        FILE_TEST(test_book_pg__no_book__is_corrupt),
        FILE_TEST(test_book_file__a_value_changed_by_hand__is_corrupt),
        FILE_TEST(test_book_file__callers_at_once__one_reserves_and_one_moves),
    };

    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL) +
           cmocka_run_group_tests_name("postgres", on_pg, book_pg_up, book_pg_down);
}
