/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the content id depends on what a snapshot says and on nothing else: not on the order of
 *   rows and members, the form, the space between tokens, the spelling of names or the pieces.
 * Method: random snapshots. An independent writer below makes the canonical text, whose BLAKE3 is
 *   the expected id, and many other texts of the same content; each is read in random pieces. The
 *   first of each round comes a byte at a time. */
#include "support/support.h"

#include "rewarder/input/snapshot.h"
#include "ron/base/alloc.h"

enum { ROWS_MAX = 60, TEXT_MAX = 400000 };

struct plain {
    char account[RWD_ACCOUNT_MAX + 1];
    uint64_t numbers[3];
};

static struct ron_rand rnd;
static struct plain rows[ROWS_MAX];
static size_t row_count;
static uint64_t produced_at;
static char pool[RON_MONEY_TEXT_SIZE];
static struct ron_buf text;

static const char *const numbers[] = {"bytes_stored", "bytes_served", "uptime_seconds"};

static int by_account(const void *a, const void *b)
{
    return strcmp(((const struct plain *)a)->account, ((const struct plain *)b)->account);
}

static void draw_content(void)
{
    static const char alphabet[] = "aaab01-_.:/Z";

    row_count = ron_rand_below(&rnd, ROWS_MAX);
    produced_at = support_rand_edgy_u64(&rnd);
    (void)ron_money_format((struct ron_money){support_rand_edgy_u128(&rnd)}, pool);
    for (size_t i = 0; i < row_count; i++) {
        size_t len = 1 + ron_rand_below(&rnd, ron_rand_chance(&rnd, 1, 4) ? RWD_ACCOUNT_MAX : 12);

        for (size_t c = 0; c < len; c++) {
            rows[i].account[c] = alphabet[ron_rand_below(&rnd, sizeof alphabet - 1)];
        }
        rows[i].account[len] = '\0';
        for (size_t n = 0; n < 3; n++) {
            rows[i].numbers[n] = support_rand_edgy_u64(&rnd);
        }
    }
    qsort(rows, row_count, sizeof *rows, by_account);
    for (size_t i = 1; i < row_count; i++) {
        if (by_account(&rows[i - 1], &rows[i]) == 0) {
            row_count = i; /* what is before it has no doubles */
        }
    }
}

static void shuffle(void)
{
    for (size_t i = row_count; i > 1; i--) {
        size_t other = ron_rand_below(&rnd, i);
        struct plain kept = rows[i - 1];

        rows[i - 1] = rows[other];
        rows[other] = kept;
    }
}

/* ---- writing in many ways -------------------------------------------------------------------- */

/* 0: none. 1: a space behind commas and colons, as many programs write. 2: anything. */
static int spacing;
static bool no_newline;

static void put(const char *s)
{
    assert_int_equal(ron_buf_append_text(&text, s), RON_OK);
}

static void space(bool behind)
{
    if (spacing == 1 && behind) {
        put(" ");
    }
    while (spacing == 2 && ron_rand_chance(&rnd, 1, 3)) {
        static const char *const blanks[] = {" ", "\t", "\r", "\n"};

        put(blanks[ron_rand_below(&rnd, no_newline ? 3 : 4)]);
    }
}

static void token(const char *s)
{
    space(false);
    put(s);
    space(s[0] == ',' || s[0] == ':');
}

/* A name or account in quotes, sometimes escaped; an account sometimes with blanks around it. */
static void quoted(const char *s, bool is_account)
{
    bool odd = spacing == 2 && ron_rand_chance(&rnd, 1, 4);

    put(odd && is_account ? "\" \\t\\u000c" : "\"");
    for (; *s != '\0'; s++) {
        char c[8] = {*s};

        if (odd && ron_rand_chance(&rnd, 1, 3)) {
            (void)snprintf(c, sizeof c, "\\u%04x", (unsigned)(unsigned char)*s);
        }
        put(c);
    }
    put(odd && is_account ? "\\r\\n\"" : "\"");
}

static void member(const char *name)
{
    space(false);
    quoted(name, false);
    token(":");
}

static void put_row(const struct plain *row, size_t first)
{
    space(false);
    put("{");
    for (size_t i = 0; i < 4; i++) {
        size_t which = (first + i) % 4;
        char digits[24];

        if (i > 0) {
            token(",");
        }
        if (which == 0) {
            member("account");
            quoted(row->account, true);
        } else {
            member(numbers[which - 1]);
            (void)snprintf(digits, sizeof digits, "%llu",
                           (unsigned long long)row->numbers[which - 1]);
            token(digits);
        }
    }
    space(false);
    put("}");
}

static void put_head_member(size_t which)
{
    char digits[24];

    member(which == 0 ? "produced_at_millis" : "pool_minor_units");
    if (which == 0) {
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)produced_at);
        put(digits);
    } else {
        quoted(pool, false);
    }
}

static void put_rows(const char *between)
{
    for (size_t i = 0; i < row_count; i++) {
        put_row(&rows[i], spacing == 2 ? ron_rand_below(&rnd, 4) : 0);
        if (between[0] == '\n' || i + 1 < row_count) {
            put(between);
        }
    }
}

static void write_json(size_t first)
{
    ron_buf_clear(&text);
    no_newline = false;
    space(false);
    put("{");
    for (size_t i = 0; i < 3; i++) {
        size_t which = (first + i) % 3;

        if (i > 0) {
            token(",");
        }
        if (which < 2) {
            put_head_member(which);
        } else {
            member("contributions");
            token("[");
            put_rows(spacing == 1 ? ", " : ",");
            token("]");
        }
    }
    space(false);
    put("}");
    space(false);
}

static void write_lines(size_t first)
{
    ron_buf_clear(&text);
    no_newline = true;
    put("{");
    put_head_member(first % 2);
    token(",");
    put_head_member((first + 1) % 2);
    put("}\n");
    put_rows(ron_rand_chance(&rnd, 1, 2) ? "\n" : "\r\n");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void check_rows(const struct rwd_snapshot *s)
{
    qsort(rows, row_count, sizeof *rows, by_account);
    assert_int_equal(rwd_rows_count(s->rows), row_count);
    for (size_t i = 0; i < row_count; i++) {
        struct ron_str account = rwd_rows_account(s->rows, i);
        const struct rwd_counters *c = rwd_rows_counters(s->rows, i);

        assert_int_equal(account.len, strlen(rows[i].account));
        assert_memory_equal(account.ptr, rows[i].account, account.len);
        assert_true(c->bytes_stored == rows[i].numbers[0]);
        assert_true(c->bytes_served == rows[i].numbers[1]);
        assert_true(c->uptime_seconds == rows[i].numbers[2]);
    }
}

/* Reads `text` in pieces of 1..max bytes. Each piece is a block of its own, so that a look beyond
 * it is a fault under the sanitizer. */
static void check_read(enum rwd_form form, size_t max, const struct ron_b3 *cid)
{
    struct rwd_snapshot_reader *r = NULL;
    struct rwd_snapshot s;
    struct ron_err err = {0};
    size_t len = ron_buf_len(&text);

    assert_int_equal(rwd_snapshot_reader_new(form, NULL, &r, NULL), RON_OK);
    for (size_t at = 0; at < len;) {
        size_t n = RON_MIN(1 + ron_rand_below(&rnd, max), len - at);
        char *piece = ron_alloc(n);

        assert_non_null(piece);
        memcpy(piece, ron_buf_data(&text) + at, n);
        RON_IGNORE(rwd_snapshot_feed(r, piece, n, NULL)); /* the first failure sticks */
        ron_free(piece);
        at += n;
    }
    if (rwd_snapshot_end(r, &s, &err) != RON_OK) {
        fail_msg("%s: %s", err.msg, ron_buf_text(&text));
    }
    assert_memory_equal(&s.cid, cid, sizeof *cid);
    check_rows(&s);
    rwd_snapshot_done(&s);
}

static void one_round(void)
{
    static const size_t cuts[] = {1, 3, 40, 1000, TEXT_MAX};
    struct ron_b3 cid;

    draw_content();
    spacing = 0;
    write_json(0);
    ron_b3_hash(ron_buf_data(&text), ron_buf_len(&text), &cid);
    for (size_t i = 0; i < RON_ARRAY_LEN(cuts); i++) {
        enum rwd_form any = ron_rand_chance(&rnd, 1, 2) ? RWD_FORM_ANY : RWD_FORM_JSON;

        check_read(any, cuts[i], &cid);
        shuffle();
        spacing = (int)ron_rand_below(&rnd, 3);
        write_lines(ron_rand_below(&rnd, 2));
        check_read(any == RWD_FORM_ANY ? RWD_FORM_ANY : RWD_FORM_NDJSON, cuts[i], &cid);
        shuffle();
        write_json(ron_rand_below(&rnd, 3));
    }
}

static void test_snapshot__any_order_form_space_and_pieces__same_id_and_rows(void **state)
{
    (void)state;
    rnd = support_rand();
    ron_buf_init(&text, TEXT_MAX);
    for (int round = 0; round < 60; round++) {
        one_round();
    }
    ron_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot__any_order_form_space_and_pieces__same_id_and_rows),
    };

    return cmocka_run_group_tests_name("rewarder.snapshot_random", tests, NULL, NULL);
}
