/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: Surrogate-Control counts instead of Cache-Control and Expires, for us and for all, never
 * for others. Method: a table of answers and the fields that they are judged by. */
#include "support/support.h"

#include "edge/rules/surrogate.h"
#include "unit/edge/edge_fields.h"

static void test_surrogate__answers__are_judged_by_it(void **state)
{
    static const struct {
        const char *lines;
        const char *control; /* NULL: as it is */
    } rows[] = {
        {"Cache-Control: max-age=1\nExpires: 0", NULL},
        {"Cache-Control: max-age=1\nExpires: 0\nSurrogate-Control: max-age=60", "max-age=60"},
        {"Surrogate-Control: no-store\nsurrogate-control: MaX-aGe=5", "no-store, MaX-aGe=5"},
        {"Surrogate-Control: max-age=60;us, max-age=1", "max-age=60"},
        {"Surrogate-Control: max-age=60, max-age=1;US", "max-age=1"},
        {"Surrogate-Control: max-age=60;other", ""},
        {"Surrogate-Control: max-age=60+30, content=\"ESI/1.0\"",
         "max-age=60, content=\"ESI/1.0\""},
    };
    struct ron_http_field out[8];
    char room[EDG_SURROGATE_MAX];
    struct edg_fields got;
    struct ron_str value;
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        set_lines(&f, rows[i].lines);
        assert_int_equal(edg_surrogate(view(&f), "us", out, RON_ARRAY_LEN(out), room, &got),
                         RON_OK);
        if (rows[i].control == NULL) {
            assert_ptr_equal(got.at, view(&f).at);
            continue;
        }
        assert_int_equal(edg_fields_get(got, "Cache-Control", &value), 1);
        assert_true(ron_str_is(value, rows[i].control));
        assert_false(edg_fields_has(got, "Expires"));
        assert_false(edg_fields_has(got, "Surrogate-Control"));
    }
}

static void test_surrogate__too_long__is_not_stored(void **state)
{
    struct ron_http_field field = {ron_str_of("Surrogate-Control"), {NULL, 0}};
    struct ron_http_field out[2];
    char room[EDG_SURROGATE_MAX];
    char text[EDG_SURROGATE_MAX + 64];
    struct edg_fields got;
    struct ron_str value;

    (void)state;
    memset(text, 'a', sizeof text);
    field.value = (struct ron_str){text, sizeof text};
    assert_int_equal(edg_surrogate((struct edg_fields){&field, 1}, "us", out, 2, room, &got),
                     RON_OK);
    assert_int_equal(edg_fields_get(got, "Cache-Control", &value), 1);
    assert_true(ron_str_is(value, "no-store"));
    assert_int_equal(edg_surrogate((struct edg_fields){&field, 1}, "us", out, 0, room, &got),
                     RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_surrogate__answers__are_judged_by_it),
        cmocka_unit_test(test_surrogate__too_long__is_not_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
