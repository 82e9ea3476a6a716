/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the index of stored answers says what was in the table, and nothing that is not whole is
 * believed. Method: a table written and read back, every byte of it changed, every length
 * cut, origins that are gone or moved. */
#include <string.h>

#include "edge/stored/index.h"
#include "ron/io/linux_env.h"
#include "support/support.h"

static const struct edg_index_origin origins[] = {{"map", "https://map.example", 0},
                                                  {"", "http://app.example", 32}};

static struct edg_table *table_new(void)
{
    struct edg_table *t = NULL;

    assert_int_equal(edg_table_new(&(struct edg_table_opts){.env = ron_env_linux()}, &t, NULL),
                     RON_OK);
    return t;
}

static struct edg_index_opts opts_of(struct edg_table *t)
{
    return (struct edg_index_opts){
        .env = ron_env_linux(), .table = t, .origins = origins, .origin_count = 2};
}

static void put_one(struct edg_table *t, uint32_t origin, const char *target, const char *lang)
{
    struct ron_http_field fields[] = {{ron_str_of("ETag"), ron_str_of("\"x\"")},
                                      {ron_str_of("X-Empty"), ron_str_of("")}};
    struct edg_stored like = {.origin = origin,
                              .status = 203,
                              .target = ron_str_of(target),
                              .vary = ron_str_of(lang[0] != '\0' ? "accept-language" : ""),
                              .key = ron_str_of(lang),
                              .fields = {fields, 2},
                              .life = {.response_ms = UINT64_C(1700000000123),
                                       .initial_age_s = 1,
                                       .lifetime_s = EDG_SECONDS_MAX,
                                       .stale_while_revalidate_s = 3,
                                       .stale_if_error_s = 4,
                                       .max_stale_s = 5,
                                       .heuristic = true},
                              .size = UINT64_C(1) << 40};
    const struct edg_stored *made = NULL;

    memset(like.id.bytes, 7, sizeof like.id.bytes);
    assert_int_equal(edg_stored_new(&like, &made, NULL), RON_OK);
    assert_int_equal(edg_table_put(t, made), RON_OK);
}

static struct edg_table *filled(void)
{
    struct edg_table *t = table_new();

    put_one(t, 0, "/a", "");
    put_one(t, 32, "/a", "accept-language:de\n");
    put_one(t, 32, "/a", "accept-language:en\n");
    return t;
}

static void test_index__written_and_read__the_same_bytes(void **state)
{
    struct edg_table *a = filled();
    struct edg_table *b = table_new();
    struct edg_index_opts first = opts_of(a);
    struct edg_index_opts second = opts_of(b);
    const struct edg_stored *r = NULL;
    struct ron_http_field lang = {ron_str_of("Accept-Language"), ron_str_of("de")};
    struct ron_buf out;
    size_t records = 0;
    bool others;

    (void)state;
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(edg_index_write(&first, &out, &records), RON_OK);
    assert_int_equal(records, 3);
    assert_int_equal(edg_index_read(&second, ron_buf_data(&out), ron_buf_len(&out), &records, NULL),
                     RON_OK);
    assert_int_equal(records, 3);
    assert_int_equal(
        edg_table_find(b, 32, ron_str_of("/a"), (struct edg_fields){&lang, 1}, &r, &others),
        RON_OK);
    assert_int_equal(r->status, 203);
    assert_int_equal(r->size, UINT64_C(1) << 40);
    assert_int_equal(r->life.response_ms, UINT64_C(1700000000123));
    assert_int_equal(r->life.lifetime_s, EDG_SECONDS_MAX);
    assert_int_equal(r->life.max_stale_s, 5);
    assert_true(r->life.heuristic && !r->life.no_cache && !r->life.validator);
    assert_int_equal(r->fields.count, 2);
    assert_true(ron_str_is(r->fields.at[0].value, "\"x\""));
    edg_stored_unref(r);
    ron_buf_done(&out);
    edg_table_free(a);
    edg_table_free(b);
}

static void test_index__one_record__comes_back_whole_or_not_at_all(void **state)
{
    static const struct edg_index_origin moved = {"map", "https://other.example", 0};
    struct edg_table *t = filled();
    struct edg_index_opts one = {.origins = origins, .origin_count = 1};
    struct edg_index_opts other = {.origins = &moved, .origin_count = 1};
    struct edg_index_opts all = opts_of(t);
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    const struct edg_stored *r = NULL;
    struct edg_stored back;
    struct ron_buf out;
    uint8_t *bytes;
    size_t len;
    size_t records;
    bool others;

    (void)state;
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(edg_table_find(t, 0, ron_str_of("/a"), (struct edg_fields){0}, &r, &others),
                     RON_OK);
    assert_int_equal(edg_index_pack(&one, r, &out), RON_OK);
    len = ron_buf_len(&out);
    assert_int_equal(edg_index_unpack(&one, ron_buf_data(&out), len, &back, fields, NULL), RON_OK);
    assert_true(ron_str_is(back.target, "/a"));
    assert_int_equal(back.size, r->size);
    assert_true(ron_b3_equal(&back.id, &r->id));
    assert_int_equal(back.fields.count, 2);
    assert_int_equal(edg_index_unpack(&other, ron_buf_data(&out), len, &back, fields, NULL),
                     RON_CORRUPT);
    bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        memcpy(bytes, ron_buf_data(&out), len);
        assert_int_equal(edg_index_unpack(&one, bytes, i, &back, fields, NULL), RON_CORRUPT);
        bytes[i] ^= 1;
        assert_int_equal(edg_index_unpack(&one, bytes, len, &back, fields, NULL), RON_CORRUPT);
    }
    free(bytes);
    edg_stored_unref(r);
    ron_buf_clear(&out);
    assert_int_equal(edg_index_write(&all, &out, &records), RON_OK); /* many are not one */
    assert_int_equal(
        edg_index_unpack(&one, ron_buf_data(&out), ron_buf_len(&out), &back, fields, NULL),
        RON_CORRUPT);
    ron_buf_done(&out);
    edg_table_free(t);
}

static void test_index__any_byte_changed_or_cut__refused(void **state)
{
    struct edg_table *a = filled();
    struct edg_index_opts opts = opts_of(a);
    struct edg_table_stats stats;
    struct ron_buf out;
    uint8_t *bytes;
    size_t records = 0;

    (void)state;
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(edg_index_write(&opts, &out, &records), RON_OK);
    bytes = (uint8_t *)(uintptr_t)ron_buf_data(&out);
    opts.table = table_new();
    for (size_t i = 0; i < ron_buf_len(&out); i++) {
        bytes[i] ^= 1;
        assert_int_equal(edg_index_read(&opts, bytes, ron_buf_len(&out), &records, NULL),
                         RON_CORRUPT);
        bytes[i] ^= 1;
        assert_int_equal(edg_index_read(&opts, bytes, i, &records, NULL), RON_CORRUPT);
    }
    edg_table_get_stats(opts.table, &stats);
    assert_int_equal(stats.records, 0);
    edg_table_free(opts.table);
    edg_table_free(a);
    ron_buf_done(&out);
}

static void test_index__an_origin_that_moved__left_out(void **state)
{
    static const struct edg_index_origin moved[] = {{"map", "https://other.example", 0},
                                                    {"", "http://app.example", 5}};
    struct edg_table *a = filled();
    struct edg_index_opts opts = opts_of(a);
    struct edg_table_stats stats;
    struct ron_buf out;
    size_t records = 0;

    (void)state;
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(edg_index_write(&opts, &out, &records), RON_OK);
    opts.table = table_new();
    opts.origins = moved;
    assert_int_equal(edg_index_read(&opts, ron_buf_data(&out), ron_buf_len(&out), &records, NULL),
                     RON_OK);
    assert_int_equal(records, 2);
    edg_table_get_stats(opts.table, &stats);
    assert_int_equal(stats.records, 2);
    assert_int_equal(edg_table_drop(opts.table, 5, ron_str_of("/a")), 2);
    edg_table_free(opts.table);
    edg_table_free(a);
    ron_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index__written_and_read__the_same_bytes),
        cmocka_unit_test(test_index__one_record__comes_back_whole_or_not_at_all),
        cmocka_unit_test(test_index__any_byte_changed_or_cut__refused),
        cmocka_unit_test(test_index__an_origin_that_moved__left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
