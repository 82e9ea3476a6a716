/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the scanner takes exactly what its table and RFC 8259 allow, and says which field is wrong.
 * Method: tables of texts; the public JSONTestSuite where it lies beside the checkout; round trips
 * through the writer with random content. */
#include "ron/base/json.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ron/base/rand.h"
#include "support/support.h"

struct inner {
    uint64_t a;
    bool b;
    uint64_t present;
};

struct request {
    struct ron_str to;
    struct ron_money amount;
    uint64_t nonce;
    int64_t delta;
    bool dry_run;
    struct inner inner;
    struct ron_json_items entries;
    struct ron_json_items tags;
    struct ron_str raw;
    uint64_t present;
};

static const struct ron_json_field inner_fields[] = {
    RON_JSON_FIELD(struct inner, a, U64, .required = true),
    RON_JSON_FIELD(struct inner, b, BOOL, .nullable = true),
};
static const struct ron_json_shape inner_shape =
    RON_JSON_SHAPE(struct inner, inner_fields, present);

static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct request, to, STRING, .required = true, .max = 16),
    RON_JSON_FIELD(struct request, amount, MONEY, .required = true),
    RON_JSON_FIELD(struct request, nonce, U64, .max = 1000),
    RON_JSON_FIELD(struct request, delta, I64, .nullable = true),
    RON_JSON_FIELD(struct request, dry_run, BOOL, .required = false),
    RON_JSON_FIELD(struct request, inner, OBJECT, .shape = &inner_shape),
    RON_JSON_FIELD(struct request, entries, ARRAY, .shape = &inner_shape,
                   .item_size = sizeof(struct inner), .max = 3),
    RON_JSON_FIELD(struct request, tags, STRINGS, .max = 3),
    RON_JSON_FIELD(struct request, raw, RAW, .required = false),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct request, fields, present);

static _Alignas(16) unsigned char arena_memory[4096];
static char text_memory[8192];

static enum ron_rc scan(const char *text, size_t len, struct request *out,
                        struct ron_json_error *err)
{
    struct ron_arena arena;

    assert_true(len <= sizeof text_memory);
    memcpy(text_memory, text, len);
    memset(out, 0, sizeof *out);
    memset(err, 0, sizeof *err);
    ron_arena_init_over(&arena, arena_memory, sizeof arena_memory);
    return ron_json_scan(text_memory, len, &shape, &arena, out, err);
}

static void test_json__whole_request__fills_every_field(void **state)
{
    static const char text[] =
        " {\"to\":\"alice\\u00e9\\n\",\"amount\":\"340282366920938463463374607431768211455\","
        "\"nonce\": 7 ,\"delta\":-9223372036854775808,\"dry_run\":true,"
        "\"inner\":{\"a\":1,\"b\":null},\"entries\":[{\"a\":2,\"b\":true},{\"a\":3}],"
        "\"tags\":[\"x\",\"\"],\"raw\":{\"k\":[1,2.5e3,\"\\u0041\"]} } \n";
    struct request r;
    struct ron_json_error err;
    const struct inner *entries;
    const struct ron_str *tags;

    (void)state;
    assert_int_equal(scan(text, sizeof text - 1, &r, &err), RON_OK);
    assert_true(ron_str_is(r.to, "alice\xc3\xa9\n"));
    assert_true(r.amount.v == ~(ron_u128)0);
    assert_int_equal(r.nonce, 7);
    assert_true(r.delta == INT64_MIN);
    assert_true(r.dry_run);
    assert_int_equal(r.inner.a, 1);
    assert_int_equal(r.inner.present, 1);
    assert_int_equal(r.entries.count, 2);
    entries = r.entries.items;
    assert_int_equal(entries[0].a, 2);
    assert_true(entries[0].b);
    assert_int_equal(entries[1].a, 3);
    assert_int_equal(entries[1].present, 1);
    assert_int_equal(r.tags.count, 2);
    tags = r.tags.items;
    assert_true(ron_str_is(tags[0], "x"));
    assert_true(ron_str_is(tags[1], ""));
    assert_true(ron_str_is(r.raw, "{\"k\":[1,2.5e3,\"\\u0041\"]}"));
    assert_int_equal(r.present, 0x1ff);
}

static void test_json__wrong_request__names_field_and_reason(void **state)
{
    static const struct {
        const char *text;
        const char *field;
        const char *reason;
    } rows[] = {
        {"", "", "an object is expected"},
        {"[]", "", "an object is expected"},
        {"{\"to\":\"a\"}", "amount", "missing"},
        {"{\"amount\":\"1\"}", "to", "missing"},
        {"{\"to\":1,\"amount\":\"1\"}", "to", "a string is expected"},
        {"{\"to\":\"a\",\"amount\":1}", "amount", "decimal string, not a number"},
        {"{\"to\":\"a\",\"amount\":\"01\"}", "amount", "leading zero"},
        {"{\"to\":\"a\",\"amount\":\"-1\"}", "amount", "leading zero"},
        {"{\"to\":\"a\",\"amount\":\"\"}", "amount", "leading zero"},
        {"{\"to\":\"a\",\"amount\":\"340282366920938463463374607431768211456\"}", "amount",
         "2^128"},
        {"{\"to\":\"a\",\"to\":\"b\",\"amount\":\"1\"}", "to", "twice"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"delta\":null,\"delta\":1}", "delta", "twice"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"delta\":1,\"delta\":null}", "delta", "twice"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"too\":1}", "too", "unknown member"},
        {"{\"to\":\"12345678901234567\",\"amount\":\"1\"}", "to", "too long"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":1001}", "nonce", "too large"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":-1}", "nonce", "not negative"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":1.0}", "nonce", "whole number"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":1e2}", "nonce", "whole number"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":\"1\"}", "nonce", "a value is expected"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"nonce\":null}", "nonce", "a value is expected"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"delta\":9223372036854775808}", "delta", "too large"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"delta\":-9223372036854775809}", "delta", "too large"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"dry_run\":1}", "dry_run", "true or false"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"inner\":{}}", "inner.a", "missing"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"inner\":{\"a\":1,\"c\":2}}", "inner.c", "unknown"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"entries\":[{\"a\":1},{\"a\":\"x\"}]}", "entries[1].a",
         "a value is expected"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"entries\":{}}", "entries", "an array"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"tags\":[\"a\" \"b\"]}", "tags", "',' or ']'"},
        {"{\"to\":\"a\",\"amount\":\"1\",\"tags\":[\"a\",]}", "tags[1]", "a string is expected"},
        {"{\"to\":\"a\",\"amount\":\"1\"}x", "", "follows the value"},
        {"{\"to\":\"a\",\"amount\":\"1\",}", "", "a string is expected"},
        {"{\"to\" \"a\"}", "", "':' is expected"},
        {"{\"to\":\"a\\u12\"}", "to", "malformed escape"},
        {"{\"to\":\"\\ud800\"}", "to", "malformed escape"},
        {"{\"to\":\"\\udc00\"}", "to", "malformed escape"},
        {"{\"to\":\"a\nb\"}", "to", "control character"},
        {"{\"to\":\"\xff\"}", "to", "not UTF-8"},
        {"{\"to\":\"\xc0\xaf\"}", "to", "not UTF-8"},
        {"{\"to\":\"\xed\xa0\x80\"}", "to", "not UTF-8"},
        {"{\"to\":\"abc", "to", "no end"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct request r;
        struct ron_json_error err;
        enum ron_rc rc = scan(rows[i].text, strlen(rows[i].text), &r, &err);

        if (rc != RON_INVALID || strcmp(err.field, rows[i].field) != 0 ||
            strstr(err.reason, rows[i].reason) == NULL || err.at > strlen(rows[i].text)) {
            fail_msg("%s: %d, field '%s', reason '%s' at %zu", rows[i].text, rc, err.field,
                     err.reason, err.at);
        }
    }
}

static void test_json__too_many_items__is_a_limit(void **state)
{
    static const char text[] = "{\"to\":\"a\",\"amount\":\"1\",\"tags\":[\"1\",\"2\",\"3\",\"4\"]}";
    struct request r;
    struct ron_json_error err;

    (void)state;
    assert_int_equal(scan(text, sizeof text - 1, &r, &err), RON_LIMIT);
    assert_string_equal(err.field, "tags");
}

static void test_json__every_cut_of_a_request__is_refused_inside_its_bytes(void **state)
{
    static const char text[] =
        "{\"to\":\"al\\u00e9\",\"amount\":\"12\",\"inner\":{\"a\":1},\"raw\":[1,\"x\"]}";

    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        /* A block of exactly that size: the address sanitizer sees one byte too many. */
        char *cut = malloc(len == 0 ? 1 : len);
        struct request r = {0};
        struct ron_json_error err;

        assert_non_null(cut);
        memcpy(cut, text, len);
        assert_int_equal(ron_json_scan(cut, len, &shape, NULL, &r, &err), RON_INVALID);
        free(cut);
    }
}

static void test_json__deep_nesting__is_refused_at_the_limit(void **state)
{
    char text[2 * RON_JSON_DEPTH_MAX + 4];

    (void)state;
    for (size_t depth = RON_JSON_DEPTH_MAX - 1; depth <= RON_JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(ron_json_check(text, 2 * depth, NULL),
                         depth <= RON_JSON_DEPTH_MAX ? RON_OK : RON_INVALID);
    }
}

static void test_json__unknown_members__are_skipped_where_allowed(void **state)
{
    struct ron_json_shape open = inner_shape;
    char text[] = "{\"x\":{\"y\":[null,\"\\u0041\"]},\"a\":5,\"z\":false}";
    struct inner v = {0};

    (void)state;
    open.allow_unknown = true;
    assert_int_equal(ron_json_scan(text, sizeof text - 1, &open, NULL, &v, NULL), RON_OK);
    assert_int_equal(v.a, 5);
}

/* ---- JSONTestSuite --------------------------------------------------------------------------- */

static size_t read_file(const char *folder, const char *name, char *buf, size_t size)
{
    char path[1024];
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(buf, 1, size, f);
    assert_true(n < size);
    (void)fclose(f);
    return n;
}

static void test_json__public_suite__y_accepted_and_n_refused(void **state)
{
    static char buf[1 << 20];
    char folder[512];
    struct dirent *entry;
    size_t seen = 0;
    DIR *dir;

    (void)state;
    support_corpus("json-test-suite/test_parsing", folder, sizeof folder);
    dir = opendir(folder);
    if (dir == NULL) {
        print_message("skipped: %s is absent\n", folder);
        skip();
    }
    while ((entry = readdir(dir)) != NULL) {
        size_t len;
        enum ron_rc rc;

        if (strstr(entry->d_name, ".json") == NULL) {
            continue;
        }
        len = read_file(folder, entry->d_name, buf, sizeof buf);
        rc = ron_json_check(buf, len, NULL);
        if ((entry->d_name[0] == 'y' && rc != RON_OK) ||
            (entry->d_name[0] == 'n' && rc == RON_OK)) {
            fail_msg("%s: %d", entry->d_name, rc);
        }
        seen++;
    }
    (void)closedir(dir);
    assert_true(seen > 300);
}

/* ---- writer ---------------------------------------------------------------------------------- */

static void test_json__written_values__have_the_exact_bytes(void **state)
{
    char memory[512];
    struct ron_buf out;
    struct ron_json_writer w;

    (void)state;
    ron_buf_init_over(&out, memory, sizeof memory);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "t", "a\"b\\\n\x01");
    ron_json_text(&w, "none", NULL);
    ron_json_str(&w, "bad", (struct ron_str){"x\xff", 2});
    ron_json_u64(&w, "u", UINT64_MAX);
    ron_json_i64(&w, "i", INT64_MIN);
    ron_json_bool(&w, "b", false);
    ron_json_open(&w, "list", '[');
    ron_json_u64(&w, NULL, 0);
    ron_json_i64(&w, NULL, -5);
    ron_json_open(&w, NULL, '{');
    ron_json_close(&w, '}');
    ron_json_close(&w, ']');
    ron_json_money(&w, "m", ron_money_of(12));
    ron_json_raw(&w, "r", (struct ron_str){"[]", 2});
    ron_json_close(&w, '}');
    assert_int_equal(ron_buf_error(&out), RON_OK);
    assert_string_equal(ron_buf_text(&out),
                        "{\"t\":\"a\\\"b\\\\\\n\\u0001\",\"none\":null,\"bad\":\"x\xef\xbf\xbd\","
                        "\"u\":18446744073709551615,\"i\":-9223372036854775808,\"b\":false,"
                        "\"list\":[0,-5,{}],\"m\":\"12\",\"r\":[]}");
}

static void test_json__random_text__survives_a_round_trip(void **state)
{
    struct ron_rand rand;

    (void)state;
    ron_rand_seed(&rand, support_seed());
    for (int round = 0; round < 20000; round++) {
        char memory[512];
        char value[17];
        size_t len = 0;
        size_t want = ron_rand_below(&rand, 13);
        struct ron_buf out;
        struct ron_json_writer w;
        struct request r;
        struct ron_json_error err;

        while (len <
               want) { /* Random code points, so that every class of UTF-8 and escape turns up. */
            static const uint32_t tops[] = {0x20, 0x80, 0x800, 0xd800, 0x110000};
            uint32_t c = (uint32_t)ron_rand_below(&rand, tops[ron_rand_below(&rand, 5)]);
            if (c >= 0xd800 && c < 0xe000) {
                continue;
            }
            len += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
            char *p = value + len;
            if (c < 0x80) {
                p[-1] = (char)c;
            } else {
                size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
                for (size_t i = 0; i + 1 < n; i++) {
                    *--p = (char)(0x80 | (c & 0x3f));
                    c >>= 6;
                }
                *--p = (char)((0xf00 >> n) | c);
            }
        }
        ron_buf_init_over(&out, memory, sizeof memory);
        ron_json_begin(&w, &out);
        ron_json_open(&w, NULL, '{');
        ron_json_str(&w, "to", (struct ron_str){value, len});
        ron_json_money(&w, "amount", ron_money_of(ron_rand_u64(&rand)));
        ron_json_close(&w, '}');
        assert_int_equal(ron_buf_error(&out), RON_OK);
        if (len > 16) {
            continue;
        }
        assert_int_equal(scan((const char *)ron_buf_data(&out), ron_buf_len(&out), &r, &err),
                         RON_OK);
        assert_int_equal(r.to.len, len);
        assert_memory_equal(r.to.ptr, value, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__whole_request__fills_every_field),
        cmocka_unit_test(test_json__wrong_request__names_field_and_reason),
        cmocka_unit_test(test_json__too_many_items__is_a_limit),
        cmocka_unit_test(test_json__every_cut_of_a_request__is_refused_inside_its_bytes),
        cmocka_unit_test(test_json__deep_nesting__is_refused_at_the_limit),
        cmocka_unit_test(test_json__unknown_members__are_skipped_where_allowed),
        cmocka_unit_test(test_json__public_suite__y_accepted_and_n_refused),
        cmocka_unit_test(test_json__written_values__have_the_exact_bytes),
        cmocka_unit_test(test_json__random_text__survives_a_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
