/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a request gets the record of its origin, target and variant, the newest one, or none; the
 * table keeps its bounds and gives every record back.
 *
 * Method: the rules one by one, then random histories against a plain list. Leaks are the
 * sanitizer's to find. */
#include "support/support.h"

#include "edge/stored/table.h"
#include "ron/base/rand.h"
#include "ron/io/linux_env.h"

#define STR(literal) ((struct ron_str){(literal), sizeof(literal) - 1})

static struct ron_str text(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

static struct edg_table *open_table(uint32_t records, uint64_t bytes)
{
    struct edg_table *t = NULL;
    struct ron_err err = {0};

    assert_int_equal(
        edg_table_new(&(struct edg_table_opts){ron_env_linux(), records, bytes}, &t, &err), RON_OK);
    return t;
}

/* A record whose size tells it apart; it varies on Accept-Encoding when `encoding` is given. */
static const struct edg_stored *record(uint32_t origin, const char *target, const char *encoding,
                                       uint64_t size)
{
    struct ron_http_field field = {.name = STR("Content-Type"), .value = STR("text/plain")};
    struct ron_http_field asked = {.name = STR("Accept-Encoding")};
    struct edg_stored like = {.origin = origin,
                              .status = 200,
                              .target = text(target),
                              .fields = {&field, 1},
                              .size = size};
    const struct edg_stored *made = NULL;
    struct ron_err err = {0};
    struct ron_buf key;

    ron_buf_init(&key, EDG_VARY_KEY_MAX);
    if (encoding != NULL) {
        asked.value = text(encoding);
        like.vary = STR("accept-encoding");
        assert_int_equal(edg_vary_key(like.vary, (struct edg_fields){&asked, 1}, &key), RON_OK);
        like.key = (struct ron_str){(const char *)ron_buf_data(&key), ron_buf_len(&key)};
    }
    assert_int_equal(edg_stored_new(&like, &made, &err), RON_OK);
    ron_buf_done(&key);
    return made;
}

static void put(struct edg_table *t, uint32_t origin, const char *target, const char *encoding,
                uint64_t size)
{
    assert_int_equal(edg_table_put(t, record(origin, target, encoding, size)), RON_OK);
}

/* The size of the record found; 0: none. */
static uint64_t find(struct edg_table *t, uint32_t origin, const char *target, const char *encoding,
                     bool *ret_others)
{
    struct ron_http_field asked = {.name = STR("accept-encoding"),
                                   .value = text(encoding != NULL ? encoding : "")};
    const struct edg_stored *found = NULL;
    uint64_t size = 0;

    if (edg_table_find(t, origin, text(target),
                       (struct edg_fields){&asked, encoding != NULL ? 1 : 0}, &found,
                       ret_others) == RON_OK) {
        assert_int_equal(found->origin, origin);
        assert_int_equal(found->target.len, strlen(target));
        assert_memory_equal(found->target.ptr, target, strlen(target));
        assert_int_equal(found->fields.count, 1);
        assert_memory_equal(found->fields.at[0].value.ptr, "text/plain", 10);
        size = found->size;
        edg_stored_unref(found);
    }
    return size;
}

static void test_table__origin_and_target__tell_records_apart(void **state)
{
    struct edg_table *t = open_table(0, 0);
    bool others = true;

    (void)state;
    put(t, 0, "/a", NULL, 1);
    put(t, 1, "/a", NULL, 2);
    put(t, 0, "/a?x", NULL, 3);
    assert_int_equal(find(t, 0, "/a", NULL, &others), 1);
    assert_int_equal(find(t, 1, "/a", NULL, &others), 2);
    assert_int_equal(find(t, 0, "/a?x", NULL, &others), 3);
    assert_int_equal(find(t, 2, "/a", NULL, &others), 0);
    assert_false(others);
    assert_int_equal(find(t, 0, "/A", NULL, &others), 0);
    edg_table_free(t);
}

static void test_table__variants__are_chosen_by_the_request(void **state)
{
    struct edg_table *t = open_table(0, 0);
    bool others = false;

    (void)state;
    put(t, 0, "/a", "gzip", 1);
    put(t, 0, "/a", "br", 2);
    assert_int_equal(find(t, 0, "/a", "gzip", &others), 1);
    assert_int_equal(find(t, 0, "/a", "br", &others), 2);
    assert_int_equal(find(t, 0, "/a", "zstd", &others), 0);
    assert_true(others);
    assert_int_equal(find(t, 0, "/a", NULL, &others), 0); /* none is not an empty one */
    put(t, 0, "/a", "gzip", 3);
    assert_int_equal(find(t, 0, "/a", "gzip", &others), 3);
    /* What does not vary fits every request, and is the newest now. */
    put(t, 0, "/a", NULL, 4);
    assert_int_equal(find(t, 0, "/a", "gzip", &others), 4);
    edg_table_free(t);
}

static void test_table__one_variant_too_many__pushes_out_the_oldest(void **state)
{
    struct edg_table *t = open_table(0, 0);
    struct edg_table_stats stats;
    bool others;
    char name[16];

    (void)state;
    for (unsigned i = 0; i <= EDG_VARIANTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "x%u", i);
        put(t, 0, "/a", name, i + 1);
    }
    edg_table_get_stats(t, &stats);
    assert_int_equal(stats.records, EDG_VARIANTS_MAX);
    assert_int_equal(find(t, 0, "/a", "x0", &others), 0);
    assert_int_equal(find(t, 0, "/a", "x1", &others), 2);
    edg_table_free(t);
}

static void test_table__more_than_fit__the_longest_unused_go(void **state)
{
    struct edg_table *t = open_table(160, 0); /* ten in each shard */
    struct edg_table_stats stats;
    char name[16];
    bool others;

    (void)state;
    put(t, 0, "/kept", NULL, 7);
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "/%u", i);
        put(t, 0, name, NULL, 1);
        assert_int_equal(find(t, 0, "/kept", NULL, &others), 7); /* used all the time */
    }
    edg_table_get_stats(t, &stats);
    assert_true(stats.records <= 160);
    assert_int_equal(stats.evictions + stats.records, 5001);
    edg_table_free(t);
    t = open_table(0, 160 * 1024);
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "/%u", i);
        put(t, 0, name, NULL, 1);
    }
    edg_table_get_stats(t, &stats);
    assert_true(stats.bytes <= 160 * 1024);
    assert_true(stats.records > 100);
    edg_table_free(t);
}

static void test_table__drops__take_what_they_name(void **state)
{
    struct edg_table *t = open_table(0, 0);
    const struct edg_stored *held = NULL;
    struct edg_table_stats stats;
    bool others;

    (void)state;
    put(t, 0, "/a/1", "gzip", 1);
    put(t, 0, "/a/1", "br", 2);
    put(t, 0, "/a/2", NULL, 3);
    put(t, 0, "/b", NULL, 4);
    put(t, 1, "/a/1", NULL, 5);
    assert_int_equal(edg_table_drop(t, 0, text("/a/1")), 2);
    assert_int_equal(edg_table_drop(t, 0, text("/a/1")), 0);
    assert_int_equal(find(t, 0, "/a/1", "br", &others), 0);
    assert_int_equal(find(t, 1, "/a/1", NULL, &others), 5);
    put(t, 0, "/a/1", "gzip", 6);
    put(t, 0, "/a/1", "br", 7);
    assert_int_equal(edg_table_drop_path(t, 0, text("/a/"), true), 3);
    assert_int_equal(find(t, 0, "/b", NULL, &others), 4);
    assert_int_equal(find(t, 1, "/a/1", NULL, &others), 5);
    /* Of every host, but no more than the path says. */
    put(t, 0, "h1/p", NULL, 1);
    put(t, 0, "h2:81/p", NULL, 2);
    put(t, 0, "h1/p/q", NULL, 3);
    put(t, 1, "h1/p", NULL, 4);
    assert_int_equal(edg_table_drop_path(t, 0, text("/p"), false), 2);
    assert_int_equal(edg_table_drop(t, 1, text("h1/p")), 1);
    assert_int_equal(edg_table_drop_path(t, 0, text("/p"), true), 1);
    /* One record, and only that one. */
    put(t, 0, "/c", "gzip", 8);
    put(t, 0, "/c", "br", 9);
    assert_int_equal(edg_table_find(t, 1, text("/a/1"), (struct edg_fields){0}, &held, &others),
                     RON_OK);
    assert_true(edg_table_drop_one(t, held));
    assert_false(edg_table_drop_one(t, held));
    assert_int_equal(held->size, 5); /* whoever holds it keeps it */
    edg_stored_unref(held);
    struct ron_http_field asked = {.name = STR("Accept-Encoding"), .value = STR("gzip")};

    assert_int_equal(
        edg_table_find(t, 0, text("/c"), (struct edg_fields){&asked, 1}, &held, &others), RON_OK);
    assert_true(edg_table_drop_one(t, held));
    edg_stored_unref(held);
    assert_int_equal(find(t, 0, "/c", "gzip", &others), 0);
    assert_int_equal(find(t, 0, "/c", "br", &others), 9);
    edg_table_get_stats(t, &stats);
    assert_int_equal(stats.records, 2);
    assert_int_equal(edg_table_drop_path(t, 0, text(""), true), 2);
    edg_table_get_stats(t, &stats);
    assert_int_equal(stats.records, 0);
    assert_int_equal(stats.bytes, 0);
    edg_table_free(t);
}

/* Random histories over a few names, against a list that knows the newest of each variant. */
static void test_table__random_histories__match_a_plain_list(void **state)
{
    enum { TARGETS = 6, VARIANTS = 4, STEPS = 20000 };
    static const char *const targets[TARGETS] = {"/a", "/b", "/a/c", "/d?x=1", "/", "/e"};
    static const char *const encodings[VARIANTS] = {"gzip", "br", "zstd", "identity"};
    uint64_t known[TARGETS][VARIANTS] = {0};
    struct edg_table *t = open_table(0, 0);
    struct ron_rand rand;

    (void)state;
    ron_rand_seed(&rand, support_seed());
    for (uint64_t step = 1; step <= STEPS; step++) {
        size_t x = (size_t)ron_rand_below(&rand, TARGETS);
        size_t v = (size_t)ron_rand_below(&rand, VARIANTS);
        bool others;

        switch (ron_rand_below(&rand, 8)) {
        case 0:
            for (size_t i = 0, had = 0; i <= VARIANTS; i++) {
                had += i < VARIANTS && known[x][i] != 0;
                if (i == VARIANTS) {
                    assert_int_equal(edg_table_drop(t, 0, text(targets[x])), had);
                }
            }
            memset(known[x], 0, sizeof known[x]);
            break;
        case 1:
        case 2:
        case 3:
            put(t, 0, targets[x], encodings[v], step);
            known[x][v] = step;
            break;
        default:
            assert_int_equal(find(t, 0, targets[x], encodings[v], &others), known[x][v]);
            break;
        }
    }
    edg_table_free(t);
}

static void test_stored__too_many_fields__is_refused(void **state)
{
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX + 1] = {0};
    struct edg_stored like = {.fields = {fields, EDG_STORED_FIELDS_MAX + 1}};
    const struct edg_stored *made = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(edg_stored_new(&like, &made, &err), RON_LIMIT);
    assert_null(made);
    like.fields.count = EDG_STORED_FIELDS_MAX;
    assert_int_equal(edg_stored_new(&like, &made, &err), RON_OK);
    edg_stored_unref(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table__origin_and_target__tell_records_apart),
        cmocka_unit_test(test_table__variants__are_chosen_by_the_request),
        cmocka_unit_test(test_table__one_variant_too_many__pushes_out_the_oldest),
        cmocka_unit_test(test_table__more_than_fit__the_longest_unused_go),
        cmocka_unit_test(test_table__drops__take_what_they_name),
        cmocka_unit_test(test_table__random_histories__match_a_plain_list),
        cmocka_unit_test(test_stored__too_many_fields__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
