/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a snapshot has one content id, that of the specification, in whatever form, order and
 *   pieces it comes; and everything else is refused with its row and field.
 * Method: golden values; random snapshots written in many ways, all of which must give the bytes of
 *   an independent writer below; tables of texts with the sentence that refuses them. */
#include "support/support.h"

#include "rewarder/input/row_text.h"
#include "rewarder/input/snapshot.h"
#include "ron/base/alloc.h"

#define HEAD_TEXT "\"produced_at_millis\":1,\"pool_minor_units\":\"1000\""
#define ROW_A                                                                                      \
    "{\"account\":\"acct_a\",\"bytes_stored\":100,\"bytes_served\":50,\"uptime_seconds\":10}"
#define ROW_B                                                                                      \
    "{\"account\":\"acct_b\",\"bytes_stored\":200,\"bytes_served\":0,\"uptime_seconds\":20}"
#define GOLDEN "{" HEAD_TEXT ",\"contributions\":[" ROW_A "," ROW_B "]}"
#define GOLDEN_CID "b3:81d428e1df7c29a8443467db8ed59ee2628ac43acd47c692fbc3c23ee495606d"

static enum ron_rc append_piece(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    assert_in_range(len, 1, 65536);
    return ron_buf_append(arg, bytes, len);
}

/* Reads in pieces of `cut` bytes; 0: in one. */
static enum ron_rc read_cut(const char *text, size_t len, enum rwd_form form, size_t cut,
                            struct rwd_snapshot *ret_snapshot, struct ron_err *err)
{
    struct rwd_snapshot_reader *r = NULL;
    enum ron_rc rc = RON_OK;

    if (cut == 0) {
        return rwd_snapshot_read(text, len, form, NULL, ret_snapshot, err);
    }
    assert_int_equal(rwd_snapshot_reader_new(form, NULL, &r, NULL), RON_OK);
    for (size_t at = 0; at < len && rc == RON_OK; at += cut) {
        rc = rwd_snapshot_feed(r, text + at, RON_MIN(cut, len - at), NULL);
    }
    return rwd_snapshot_end(r, ret_snapshot, err);
}

static void check_cid(const struct rwd_snapshot *s, const char *expected)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(&s->cid, text);
    assert_string_equal(text, expected);
}

static void check_good(const char *text, enum rwd_form form, const char *cid)
{
    static const size_t cuts[] = {0, 1, 2, 7, 64, 1000};

    for (size_t i = 0; i < RON_ARRAY_LEN(cuts); i++) {
        struct rwd_snapshot s;
        struct ron_err err = {0};
        enum ron_rc rc = read_cut(text, strlen(text), form, cuts[i], &s, &err);

        if (rc != RON_OK) {
            fail_msg("%s: %s", text, err.msg);
        }
        check_cid(&s, cid);
        rwd_snapshot_done(&s);
    }
}

/* ---- golden ---------------------------------------------------------------------------------- */

static void test_snapshot__golden_vector__cid_and_bytes(void **state)
{
    struct rwd_snapshot s;
    struct ron_buf out;

    (void)state;
    assert_int_equal(sizeof GOLDEN - 1, 223);
    assert_int_equal(rwd_snapshot_read(GOLDEN, 223, RWD_FORM_JSON, NULL, &s, NULL), RON_OK);
    check_cid(&s, GOLDEN_CID);
    assert_int_equal(s.produced_at_ms, 1);
    assert_true(s.pool.v == 1000);
    assert_int_equal(rwd_rows_count(s.rows), 2);
    ron_buf_init(&out, 1000);
    assert_int_equal(rwd_snapshot_write(&s, append_piece, &out, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&out), GOLDEN);
    ron_buf_done(&out);
    rwd_snapshot_done(&s);
}

static void test_snapshot__empty_one__golden_cid(void **state)
{
    static const char cid[] = "b3:340491fd208f690a75ac9d41517d6ca7662f0d8eaa832480c8332901290e544c";

    (void)state;
    check_good("{\"produced_at_millis\":0,\"pool_minor_units\":\"0\",\"contributions\":[]}",
               RWD_FORM_ANY, cid);
    check_good("{\"contributions\":[ \n ],\"pool_minor_units\":\"0\",\"produced_at_millis\":0}",
               RWD_FORM_JSON, cid);
    check_good("{\"produced_at_millis\":0,\"pool_minor_units\":\"0\"}", RWD_FORM_ANY, cid);
    check_good("{\"produced_at_millis\":0,\"pool_minor_units\":\"0\"}\n", RWD_FORM_NDJSON, cid);
}

static void test_snapshot__other_spellings__same_cid(void **state)
{
    static const char *const json[] = {
        GOLDEN,
        "{" HEAD_TEXT ",\"contributions\":[" ROW_B "," ROW_A "]}",
        "{\"contributions\":[" ROW_B "," ROW_A "]," HEAD_TEXT "}",
        "{\"pool_minor_units\":\"1000\",\"contributions\":[" ROW_A "," ROW_B
        "],\"produced_at_millis\":1}",
        " \r\n\t" GOLDEN " \r\n\t",
        "{ " HEAD_TEXT " , \"contributions\" : [ " ROW_A " , " ROW_B " ] } ",
        "{" HEAD_TEXT ",\"contribution\\u0073\":[" ROW_A "," ROW_B "]}",
        "{" HEAD_TEXT ",\"contributions\":[{\"uptime_seconds\":10,\"bytes_served\":50,"
        "\"bytes_stored\":100,\"account\":\"acct_a\"}," ROW_B "]}",
        "{" HEAD_TEXT ",\"contributions\":[{\"account\":\"\\u0061cct_a\",\"bytes_stored\":100,"
        "\"bytes_served\":50,\"uptime_seconds\":10}," ROW_B "]}",
        "{" HEAD_TEXT ",\"contributions\":[{\"account\":\" \\t\\u000bacct_a\\f\\r\\n \","
        "\"bytes_stored\":100,\"bytes_served\":50,\"uptime_seconds\":10}," ROW_B "]}",
        "{" HEAD_TEXT ",\"contributions\":[{\"account\": \"acct_a\", \"bytes_stored\": 100, "
        "\"bytes_served\": 50, \"uptime_seconds\": 10}, " ROW_B "]}",
        "{" HEAD_TEXT ",\"contributions\":[\n{\n\"account\"\n:\n\"acct_a\"\n,\n\"bytes_stored\":"
        "100\n,\"bytes_served\":50,\"uptime_seconds\":10\n}\n,\n" ROW_B "\n]\n}\n",
    };
    static const char *const lines[] = {
        "{" HEAD_TEXT "}\n" ROW_A "\n" ROW_B "\n",
        "{" HEAD_TEXT "}\n" ROW_B "\n" ROW_A,
        "\n\n {" HEAD_TEXT "}\r\n\r\n" ROW_B "\r\n \n\t" ROW_A " \n\n",
        "{ \"pool_minor_units\" : \"1000\" , \"produced_at_millis\" : 1 }\n" ROW_B "\n" ROW_A "\n",
        "{" HEAD_TEXT "}\n{\"uptime_seconds\":10,\"bytes_served\":50,\"bytes_stored\":100,"
        "\"account\":\"acct_a\"}\n" ROW_B "\n",
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(json); i++) {
        check_good(json[i], RWD_FORM_JSON, GOLDEN_CID);
        check_good(json[i], RWD_FORM_ANY, GOLDEN_CID);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(lines); i++) {
        check_good(lines[i], RWD_FORM_NDJSON, GOLDEN_CID);
        check_good(lines[i], RWD_FORM_ANY, GOLDEN_CID);
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

struct refusal {
    const char *text;
    const char *message; /* how it begins */
};

/* Whatever the pieces: the same code and sentence. */
static void check_refused(const char *text, size_t len, enum rwd_form form, enum ron_rc rc,
                          const char *message)
{
    static const size_t cuts[] = {0, 1, 3, 50, 700};

    for (size_t i = 0; i < RON_ARRAY_LEN(cuts); i++) {
        struct rwd_snapshot s = {.produced_at_ms = 77};
        struct ron_err err = {0};

        if (read_cut(text, len, form, cuts[i], &s, &err) != rc || err.rc != rc) {
            fail_msg("%s: pieces of %zu give %s", text, cuts[i], ron_rc_name(err.rc));
        }
        if (strncmp(err.msg, message, strlen(message)) != 0) {
            fail_msg("%s: pieces of %zu: %s", text, cuts[i], err.msg);
        }
        assert_int_equal(s.produced_at_ms, 77);
    }
}

static void check_table(const struct refusal *table, size_t count, enum rwd_form form)
{
    for (size_t i = 0; i < count; i++) {
        check_refused(table[i].text, strlen(table[i].text), form, RON_INVALID, table[i].message);
    }
}

static void test_snapshot__head_is_wrong__field_is_named(void **state)
{
    static const struct refusal table[] = {
        {"", "the text ends too early"},
        {" ", "the text ends too early"},
        {"[]", "an object is expected"},
        {"null", "an object is expected"},
        {"\xef\xbb\xbf{}", "an object is expected"},
        {"{", "the text ends too early"},
        {"{}", "produced_at_millis: the member is missing"},
        {"{]", "a string is expected"},
        {"{" HEAD_TEXT "}", "contributions: the member is missing"},
        {"{" HEAD_TEXT ",\"contributions\":null}", "contributions: an array is expected"},
        {"{" HEAD_TEXT ",\"contributions\":{}}", "contributions: an array is expected"},
        {"{" HEAD_TEXT ",\"contributions\":\"[]\"}", "contributions: an array is expected"},
        {"{" HEAD_TEXT ",\"contributions\":[]", "the text ends too early"},
        {"{" HEAD_TEXT ",\"contributions\":[", "the text ends too early"},
        {"{" HEAD_TEXT ",\"contributions\":[]]", "',' or '}' is expected"},
        {"{" HEAD_TEXT ",\"contributions\":[]}}", "there are bytes behind the end"},
        {"{" HEAD_TEXT ",\"contributions\":[]} x", "there are bytes behind the end"},
        {"{" HEAD_TEXT ",\"contributions\":[]}" ROW_A, "there are bytes behind the end"},
        {"{" HEAD_TEXT ",\"contributions\":[],\"contributions\":[]}",
         "contributions: the member stands twice"},
        {"{" HEAD_TEXT ",\"contributions\":[],\"x\":1}", "x: unknown member"},
        {"{" HEAD_TEXT ",\"x\":[{}],\"contributions\":[]}", "x: unknown member"},
        {"{\"x\":[", "x: unknown member"},
        {"{\"produced_at_millis\":[", "produced_at_millis: "},
        {"{[", "a string is expected"},
        {"{\"contributions\"[", "':' is expected"},
        {"{\"contributions\":[[", "row 1: an object is expected"},
        {"{\"pool_minor_units\":\"1\",\"contributions\":[]}",
         "produced_at_millis: the member is missing"},
        {"{\"produced_at_millis\":1,\"contributions\":[]}",
         "pool_minor_units: the member is missing"},
        {"{" HEAD_TEXT ",\"produced_at_millis\":1,\"contributions\":[]}",
         "produced_at_millis: the member stands twice"},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":1000,\"contributions\":[]}",
         "pool_minor_units: an amount is a decimal string, not a number"},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":\"007\",\"contributions\":[]}",
         "pool_minor_units: "},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":\"+7\",\"contributions\":[]}",
         "pool_minor_units: "},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":\"7 \",\"contributions\":[]}",
         "pool_minor_units: "},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":\"\",\"contributions\":[]}",
         "pool_minor_units: "},
        {"{\"produced_at_millis\":1,\"pool_minor_units\":"
         "\"340282366920938463463374607431768211456\",\"contributions\":[]}",
         "pool_minor_units: "},
        {"{\"produced_at_millis\":1.5,\"pool_minor_units\":\"1\",\"contributions\":[]}",
         "produced_at_millis: "},
        {"{\"produced_at_millis\":-1,\"pool_minor_units\":\"1\",\"contributions\":[]}",
         "produced_at_millis: "},
        {"{\"produced_at_millis\":\"1\",\"pool_minor_units\":\"1\",\"contributions\":[]}",
         "produced_at_millis: "},
        {"{\"produced_at_millis\":1 2,\"pool_minor_units\":\"1\",\"contributions\":[]}", "',' or"},
    };

    (void)state;
    check_table(table, RON_ARRAY_LEN(table), RWD_FORM_JSON);
}

/* A good row and the text as the second row. */
#define SECOND(text) "{" HEAD_TEXT ",\"contributions\":[" ROW_A "," text "]}"
#define WITH(account, stored, served, uptime)                                                      \
    SECOND("{\"account\":" account ",\"bytes_stored\":" stored ",\"bytes_served\":" served         \
           ",\"uptime_seconds\":" uptime "}")
#define NUMBER_CASES(name, V)                                                                      \
    {V("18446744073709551616"), "row 2: " name ": the number is too large"},                       \
        {V("99999999999999999999"), "row 2: " name ": the number is too large"},                   \
        {V("-1"), "row 2: " name ": "}, {V("1.0"), "row 2: " name ": "},                           \
        {V("1e3"), "row 2: " name ": "}, {V("01"), "row 2: " name ": "},                           \
        {V("+1"), "row 2: " name ": "}, {V("\"1\""), "row 2: " name ": "},                         \
        {V("null"), "row 2: " name ": "}, {V("[1]"), "row 2: " name ": "},                         \
        {V("{}"), "row 2: " name ": "}, {V(""), "row 2: " name ": "},                              \
    {                                                                                              \
        V("true"), "row 2: " name ": "                                                             \
    }
#define STORED(v) WITH("\"b\"", v, "1", "1")
#define SERVED(v) WITH("\"b\"", "1", v, "1")
#define UPTIME(v) WITH("\"b\"", "1", "1", v)

static void test_snapshot__row_is_wrong__row_and_field_are_named(void **state)
{
    static const struct refusal table[] = {
        NUMBER_CASES("bytes_stored", STORED),
        NUMBER_CASES("bytes_served", SERVED),
        NUMBER_CASES("uptime_seconds", UPTIME),
        {WITH("\"\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\" \\t\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"a b\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"a\\u0000\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"a@b\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"a\\\"}\"", "1", "1", "1"), "row 2: account: 1 to 160"},
        {WITH("\"a{[\\\\\"", "1", "1", "1"), "row 2: account: 1 to 160"},
        {WITH("\"\\u00e9\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"\xc3\xa9\"", "1", "1", "1"), "row 2: account: "},
        {WITH("\"\xc2\xa0"
              "a\"",
              "1", "1", "1"),
         "row 2: account: "},
        {WITH("\"\xff\"", "1", "1", "1"), "row 2: account: not UTF-8"},
        {WITH("\"\\ud800\"", "1", "1", "1"), "row 2: account: malformed escape"},
        {WITH("\"a\nb\"", "1", "1", "1"), "row 2: account: control character in a string"},
        {WITH("7", "1", "1", "1"), "row 2: account: a string is expected"},
        {WITH("null", "1", "1", "1"), "row 2: account: a string is expected"},
        {SECOND("{}"), "row 2: account: the member is missing"},
        {SECOND("{\"bytes_stored\":1,\"bytes_served\":1,\"uptime_seconds\":1}"),
         "row 2: account: the member is missing"},
        {SECOND("{\"account\":\"b\",\"bytes_served\":1,\"uptime_seconds\":1}"),
         "row 2: bytes_stored: the member is missing"},
        {SECOND("{\"account\":\"b\",\"bytes_stored\":1,\"uptime_seconds\":1}"),
         "row 2: bytes_served: the member is missing"},
        {SECOND("{\"account\":\"b\",\"bytes_stored\":1,\"bytes_served\":1}"),
         "row 2: uptime_seconds: the member is missing"},
        {WITH("\"b\",\"account\":\"b\"", "1", "1", "1"), "row 2: account: the member stands twice"},
        {WITH("\"b\"", "1,\"bytes_stored\":1", "1", "1"),
         "row 2: bytes_stored: the member stands twice"},
        {WITH("\"b\"", "1", "1,\"bytes_served\":1", "1"),
         "row 2: bytes_served: the member stands twice"},
        {WITH("\"b\"", "1", "1", "1,\"uptime_seconds\":1"),
         "row 2: uptime_seconds: the member stands twice"},
        {WITH("\"b\"", "1", "1", "1,\"views\":1"), "row 2: views: unknown member"},
        {WITH("\"b\"", "1", "1", "1,"), "row 2: a string is expected"},
        {WITH("\"b\"", "1 1", "1", "1"), "row 2: ',' or '}' is expected"},
        {SECOND("7"), "row 2: an object is expected"},
        {SECOND("null"), "row 2: an object is expected"},
        {SECOND("[]"), "row 2: an object is expected"},
        {SECOND(""), "row 2: an object is expected"},
        {SECOND("{]"), "row 2: a string is expected"},
        {SECOND(ROW_B ","), "row 3: an object is expected"},
        {SECOND("," ROW_B), "row 2: an object is expected"},
        {SECOND(ROW_B " " ROW_B), "row 3: ',' or ']' is expected before it"},
        {SECOND(ROW_B "}"), "row 3: ',' or ']' is expected before it"},
        {SECOND("{\"account\":\"acct_b"), "the text ends too early, after 1 rows"},
        {SECOND(ROW_A), "account acct_a stands twice"},
        {WITH("\" acct_a\"", "1", "1", "1"), "account acct_a stands twice"},
        {WITH("\"\\u0061cct_a \"", "1", "1", "1"), "account acct_a stands twice"},
    };

    (void)state;
    check_table(table, RON_ARRAY_LEN(table), RWD_FORM_JSON);
    check_table(table, RON_ARRAY_LEN(table), RWD_FORM_ANY);
}

static void test_snapshot__lines_are_wrong__refused(void **state)
{
    static const struct refusal table[] = {
        {"{" HEAD_TEXT "}" ROW_A, "row 1: a row begins on a new line"},
        {"{" HEAD_TEXT "}\n" ROW_A ROW_B, "row 2: a row begins on a new line"},
        {"{" HEAD_TEXT "}\n" ROW_A " " ROW_B, "row 2: a row begins on a new line"},
        {"{" HEAD_TEXT "}\n" ROW_A ",\n" ROW_B, "row 2: a row begins on a new line"},
        {"{" HEAD_TEXT "}\n[]", "row 1: an object is expected"},
        {"{" HEAD_TEXT "}\n{" HEAD_TEXT "}", "row 1: produced_at_millis: unknown member"},
        {"{\"produced_at_millis\":1,\n\"pool_minor_units\":\"1\"}\n",
         "the first object stands on one line"},
        {"{" HEAD_TEXT "}\n{\"account\":\"a\",\"bytes_stored\":1,\n\"bytes_served\":1,"
         "\"uptime_seconds\":1}",
         "row 1: a row stands on one line"},
        {"{" HEAD_TEXT "}\n{\"account\":\"a\"", "the text ends too early, after 0 rows"},
        {ROW_A "\n" ROW_B, "account: unknown member"},
    };

    (void)state;
    check_table(table, RON_ARRAY_LEN(table), RWD_FORM_NDJSON);
    check_table(table, RON_ARRAY_LEN(table), RWD_FORM_ANY);
    check_refused(GOLDEN, 223, RWD_FORM_NDJSON, RON_INVALID, "contributions: unknown member");
}

static void test_snapshot__zero_bytes__refused(void **state)
{
    static const char in_head[] = "{" HEAD_TEXT "\0,\"contributions\":[]}";
    static const char in_row[] = SECOND("{\"account\":\"b\0\"}");
    static const char behind[] = GOLDEN;

    (void)state;
    check_refused(in_head, sizeof in_head - 1, RWD_FORM_JSON, RON_INVALID, "");
    check_refused(in_row, sizeof in_row - 1, RWD_FORM_JSON, RON_INVALID, "row 2: account: ");
    check_refused(behind, sizeof behind, RWD_FORM_JSON, RON_INVALID, "there are bytes behind");
}

static void test_snapshot__largest_numbers__kept(void **state)
{
    static const char text[] =
        "{\"produced_at_millis\":18446744073709551615,\"pool_minor_units\":"
        "\"340282366920938463463374607431768211455\",\"contributions\":[{\"account\":\"a\","
        "\"bytes_stored\":18446744073709551615,\"bytes_served\":9999999999999999999,"
        "\"uptime_seconds\":10000000000000000000}]}";
    struct rwd_snapshot s;
    struct ron_buf out;

    (void)state;
    assert_int_equal(rwd_snapshot_read(text, sizeof text - 1, RWD_FORM_ANY, NULL, &s, NULL),
                     RON_OK);
    assert_true(s.pool.v == RON_U128_MAX);
    assert_true(rwd_rows_counters(s.rows, 0)->bytes_stored == UINT64_MAX);
    ron_buf_init(&out, 1000);
    assert_int_equal(rwd_snapshot_write(&s, append_piece, &out, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&out), text);
    ron_buf_done(&out);
    rwd_snapshot_done(&s);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* `before`, `n` times `fill`, `after`. */
static char *stretch(const char *before, char fill, size_t n, const char *after)
{
    size_t size = strlen(before) + n + strlen(after) + 1;
    char *text = ron_alloc(size);

    assert_non_null(text);
    (void)snprintf(text, size, "%s", before);
    memset(text + strlen(before), fill, n);
    (void)snprintf(text + strlen(before) + n, size - strlen(before) - n, "%s", after);
    return text;
}

static void check_stretched(const char *before, char fill, size_t n, const char *after,
                            enum ron_rc rc, const char *message)
{
    char *text = stretch(before, fill, n, after);

    if (rc == RON_OK) {
        check_good(text, RWD_FORM_JSON, message);
    } else {
        check_refused(text, strlen(text), RWD_FORM_JSON, rc, message);
    }
    ron_free(text);
}

static void test_snapshot__too_much_text__limit_with_its_place(void **state)
{
    static const char before[] = "{" HEAD_TEXT ",\"contributions\":[" ROW_A ",{\"account\":\"";
    static const char after[] = "acct_b\",\"bytes_stored\":200,\"bytes_served\":0,"
                                "\"uptime_seconds\":20}]}";
    size_t used = strlen("{\"account\":\"") + strlen(after) - 2; /* of the row, without blanks */

    (void)state;
    /* Blanks around an account belong to the row's text. */
    check_stretched(before, ' ', RWD_ROW_TEXT_MAX - used - 1, after, RON_OK, GOLDEN_CID);
    check_stretched(before, ' ', RWD_ROW_TEXT_MAX - used + 1, after, RON_LIMIT,
                    "row 2: there are more than 4096 bytes");
    check_stretched(before, 'x', RWD_ACCOUNT_MAX, after, RON_INVALID, "row 2: account: 1 to 160");
    check_stretched("{" HEAD_TEXT ",\"x\":\"", 'x', RWD_ROW_TEXT_MAX, "\"}", RON_LIMIT,
                    "there are more than 4096 bytes beside the rows");
    check_stretched("{" HEAD_TEXT ",\"contributions\":[]", ',', RWD_ROW_TEXT_MAX, "}", RON_LIMIT,
                    "there are more than 4096 bytes beside the rows");
}

static void test_snapshot__deep_nesting__refused(void **state)
{
    (void)state;
    check_stretched("{" HEAD_TEXT ",\"contributions\":", '[', 100000, "", RON_INVALID, "row 1: an");
    check_stretched("{\"x\":{\"x\":", '[', 100, "", RON_INVALID, "the text ends too early");
    check_stretched("{\"x\":{\"x\":", '[', 100000, "", RON_LIMIT, "there are more than 4096");
    check_stretched("{" HEAD_TEXT ",\"contributions\":[{\"account\":", '[', 100000, "", RON_LIMIT,
                    "row 1: there are more than 4096 bytes");
    check_stretched("", '{', 100000, "", RON_LIMIT, "there are more than 4096 bytes");
}

static void test_snapshot__space_without_end__fine(void **state)
{
    enum { MUCH = 300000 };

    (void)state;
    check_stretched("", ' ', MUCH, GOLDEN, RON_OK, GOLDEN_CID);
    check_stretched(GOLDEN, '\n', MUCH, "", RON_OK, GOLDEN_CID);
    check_stretched("{" HEAD_TEXT, '\t', MUCH, ",\"contributions\":[" ROW_A "," ROW_B "]}", RON_OK,
                    GOLDEN_CID);
    check_stretched("{" HEAD_TEXT ",\"contributions\":[", ' ', MUCH, ROW_A "," ROW_B "]}", RON_OK,
                    GOLDEN_CID);
    check_stretched("{" HEAD_TEXT ",\"contributions\":[" ROW_A "," ROW_B, '\r', MUCH, "]}", RON_OK,
                    GOLDEN_CID);
    check_stretched("{" HEAD_TEXT ",\"contributions\":[" ROW_A ",{\"account\":", ' ', MUCH,
                    "\"acct_b\",\"bytes_stored\":200,\"bytes_served\":0,\"uptime_seconds\":20}]}",
                    RON_OK, GOLDEN_CID);
}

static void test_snapshot__limits_of_rows__told_with_the_row(void **state)
{
    struct rwd_rows_opts opts = {.rows_max = 1};
    struct rwd_snapshot s;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(rwd_snapshot_read(GOLDEN, 223, RWD_FORM_ANY, &opts, &s, &err), RON_LIMIT);
    assert_string_equal(err.msg, "row 2: there are more than 1 rows");
    opts = (struct rwd_rows_opts){.bytes_max = 100};
    assert_int_equal(rwd_snapshot_read(GOLDEN, 223, RWD_FORM_ANY, &opts, &s, &err), RON_LIMIT);
}

static void test_snapshot__failed__sticks(void **state)
{
    struct rwd_snapshot_reader *r = NULL;
    struct rwd_snapshot s;
    struct ron_err first = {0};
    struct ron_err again = {0};

    (void)state;
    assert_int_equal(rwd_snapshot_reader_new(RWD_FORM_ANY, NULL, &r, NULL), RON_OK);
    assert_int_equal(rwd_snapshot_feed(r, NULL, 0, NULL), RON_OK);
    assert_int_equal(rwd_snapshot_feed(r, "x", 1, &first), RON_INVALID);
    assert_int_equal(rwd_snapshot_feed(r, GOLDEN, 223, &again), RON_INVALID);
    assert_string_equal(first.msg, again.msg);
    assert_int_equal(rwd_snapshot_end(r, &s, NULL), RON_INVALID);
    rwd_snapshot_reader_free(NULL);
}

static void test_snapshot__half_read__progress_and_freed(void **state)
{
    static const char text[] = "{" HEAD_TEXT "}\n" ROW_A "\n" ROW_B;
    struct rwd_snapshot_reader *r = NULL;

    (void)state;
    assert_int_equal(rwd_snapshot_reader_new(RWD_FORM_NDJSON, NULL, &r, NULL), RON_OK);
    assert_int_equal(rwd_snapshot_rows_read(r), 0);
    assert_int_equal(rwd_snapshot_feed(r, text, sizeof text - 2, NULL), RON_OK);
    assert_int_equal(rwd_snapshot_rows_read(r), 1);
    rwd_snapshot_reader_free(r);
}

static enum ron_rc refuse_second(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    int *calls = arg;

    (void)bytes;
    assert_int_equal(len, 65536);
    return ++*calls == 2 ? ron_err_set(err, RON_IO, "full") : RON_OK;
}

static void test_snapshot__write_fails__stops_with_its_code(void **state)
{
    struct rwd_snapshot s = {0};
    struct ron_err err = {0};
    int calls = 0;

    (void)state;
    assert_int_equal(rwd_rows_new(NULL, &s.rows, NULL), RON_OK);
    for (uint64_t i = 0; i < 5000; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "acct_%06llu", (unsigned long long)i);

        assert_int_equal(rwd_rows_add(s.rows, (struct ron_str){name, (size_t)len},
                                      &(struct rwd_counters){i, i, i}, NULL),
                         RON_OK);
    }
    assert_int_equal(rwd_rows_seal(s.rows, NULL), RON_OK);
    assert_int_equal(rwd_snapshot_write(&s, refuse_second, &calls, &err), RON_IO);
    assert_int_equal(calls, 2);
    rwd_snapshot_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot__golden_vector__cid_and_bytes),
        cmocka_unit_test(test_snapshot__empty_one__golden_cid),
        cmocka_unit_test(test_snapshot__other_spellings__same_cid),
        cmocka_unit_test(test_snapshot__head_is_wrong__field_is_named),
        cmocka_unit_test(test_snapshot__row_is_wrong__row_and_field_are_named),
        cmocka_unit_test(test_snapshot__lines_are_wrong__refused),
        cmocka_unit_test(test_snapshot__zero_bytes__refused),
        cmocka_unit_test(test_snapshot__largest_numbers__kept),
        cmocka_unit_test(test_snapshot__too_much_text__limit_with_its_place),
        cmocka_unit_test(test_snapshot__deep_nesting__refused),
        cmocka_unit_test(test_snapshot__space_without_end__fine),
        cmocka_unit_test(test_snapshot__limits_of_rows__told_with_the_row),
        cmocka_unit_test(test_snapshot__failed__sticks),
        cmocka_unit_test(test_snapshot__half_read__progress_and_freed),
        cmocka_unit_test(test_snapshot__write_fails__stops_with_its_code),
    };

    return cmocka_run_group_tests_name("rewarder.snapshot", tests, NULL, NULL);
}
