/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a link opens once and in time, a session has the role and end that console/sess.h says,
 * tables are bounded, and cookies are found.
 * Method: a clock that is given, random numbers that count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "console/sess.h"
#include "ron/base/macros.h"

enum { LINK_MS = 1000, SESSION_MS = 10000, NOW = 1000000 };

static uint64_t next_number;

static uint64_t counted(const struct ron_env *env)
{
    (void)env;
    return ++next_number * UINT64_C(0x9E3779B97F4A7C15);
}

static const struct ron_env env = {.rand_u64 = counted};

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void test_con_sess__link__opens_once(void **state)
{
    char link[CON_SECRET_SIZE];
    char session[CON_SECRET_SIZE];
    char other[CON_SECRET_SIZE];
    enum con_role role = CON_ROLE_READ;
    uint64_t until = 0;
    struct con_sess s;

    (void)state;
    con_sess_init(&s, &env, LINK_MS, SESSION_MS);
    con_link_new(&s, CON_ROLE_OPERATE, UINT64_MAX, NOW, link);
    assert_int_equal(con_link_use(&s, str("0000"), NOW, session, &until), RON_NOTFOUND);
    assert_int_equal(con_link_use(&s, str(link), NOW, session, &until), RON_OK);
    assert_int_equal(until, NOW + SESSION_MS);
    assert_int_equal(con_link_use(&s, str(link), NOW, other, &until), RON_NOTFOUND);
    assert_int_equal(con_sess_find(&s, str(session), NOW, &role, &until), RON_OK);
    assert_int_equal(role, CON_ROLE_OPERATE);
    assert_int_equal(con_sess_find(&s, str(link), NOW, &role, &until), RON_NOTFOUND);
    assert_int_equal(con_sess_count(&s, NOW), 1);
    con_sess_end(&s, str(session));
    assert_int_equal(con_sess_find(&s, str(session), NOW, &role, &until), RON_NOTFOUND);
    assert_int_equal(con_sess_count(&s, NOW), 0);
    con_sess_done(&s);
}

static void test_con_sess__time__ends_links_and_sessions(void **state)
{
    char link[CON_SECRET_SIZE];
    char session[CON_SECRET_SIZE];
    enum con_role role;
    uint64_t until = 0;
    struct con_sess s;

    (void)state;
    con_sess_init(&s, &env, LINK_MS, SESSION_MS);
    con_link_new(&s, CON_ROLE_READ, UINT64_MAX, NOW, link);
    assert_int_equal(con_link_use(&s, str(link), NOW + LINK_MS, session, &until), RON_NOTFOUND);
    con_link_new(&s, CON_ROLE_READ, UINT64_MAX, NOW, link);
    assert_int_equal(con_link_use(&s, str(link), NOW + LINK_MS - 1, session, &until), RON_OK);
    assert_int_equal(con_sess_find(&s, str(session), until - 1, &role, &until), RON_OK);
    assert_int_equal(role, CON_ROLE_READ);
    assert_int_equal(con_sess_find(&s, str(session), until, &role, &until), RON_NOTFOUND);
    con_sess_done(&s);
}

static void test_con_sess__capability__session_does_not_outlive_it(void **state)
{
    char link[CON_SECRET_SIZE];
    char session[CON_SECRET_SIZE];
    uint64_t until = 0;
    struct con_sess s;

    (void)state;
    con_sess_init(&s, &env, LINK_MS, SESSION_MS);
    con_link_new(&s, CON_ROLE_READ, NOW + 500, NOW, link);
    assert_int_equal(con_link_use(&s, str(link), NOW + 500, session, &until), RON_NOTFOUND);
    con_link_new(&s, CON_ROLE_READ, NOW + 500, NOW, link);
    assert_int_equal(con_link_use(&s, str(link), NOW + 1, session, &until), RON_OK);
    assert_int_equal(until, NOW + 500);
    con_sess_done(&s);
}

static void test_con_sess__tables__the_oldest_gives_way(void **state)
{
    char first[CON_SECRET_SIZE];
    char link[CON_SECRET_SIZE];
    char session[CON_SECRET_SIZE];
    uint64_t until = 0;
    struct con_sess s;

    (void)state;
    con_sess_init(&s, &env, LINK_MS, SESSION_MS);
    con_link_new(&s, CON_ROLE_READ, UINT64_MAX, NOW, first);
    for (int i = 1; i <= CON_LINKS_MAX; i++) {
        con_link_new(&s, CON_ROLE_READ, UINT64_MAX, NOW + (uint64_t)i, link);
    }
    assert_int_equal(con_link_use(&s, str(first), NOW + 40, session, &until), RON_NOTFOUND);
    assert_int_equal(con_link_use(&s, str(link), NOW + 40, session, &until), RON_OK);
    for (int i = 0; i < 2 * CON_SESSIONS_MAX; i++) {
        con_link_new(&s, CON_ROLE_READ, UINT64_MAX, NOW + 50 + (uint64_t)i, link);
        assert_int_equal(con_link_use(&s, str(link), NOW + 50 + (uint64_t)i, first, &until),
                         RON_OK);
    }
    assert_int_equal(con_sess_count(&s, NOW + 400), CON_SESSIONS_MAX);
    con_sess_done(&s);
}

static void test_con_sess__cookies__the_one_of_that_name(void **state)
{
    static const struct {
        const char *header;
        const char *value;
    } rows[] = {
        {"", ""},
        {"n=1", "1"},
        {"a=b; n=1", "1"},
        {"a=b;n=1", "1"},
        {"n=1; a=b", "1"},
        {"xn=1", ""},
        {"n2=1", ""},
        {"n=", ""},
        {"n=1; n=2", ""},
        {"n", ""},
        {";;; n=1;", "1"},
        {"a=n=1", ""},
        {"n=x=y; b", "x=y"},
        {"na=1; n=22", "22"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str got = con_cookie(str(rows[i].header), str("n"));

        assert_int_equal(got.len, strlen(rows[i].value));
        assert_true(got.len == 0 || memcmp(got.ptr, rows[i].value, got.len) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_con_sess__link__opens_once),
        cmocka_unit_test(test_con_sess__time__ends_links_and_sessions),
        cmocka_unit_test(test_con_sess__capability__session_does_not_outlive_it),
        cmocka_unit_test(test_con_sess__tables__the_oldest_gives_way),
        cmocka_unit_test(test_con_sess__cookies__the_one_of_that_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
