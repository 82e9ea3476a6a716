/* SPDX-License-Identifier: Apache-2.0 */
/* test_deadline.c - deadline headers and whose time counts.
 *
 * Goal: exactly the grammar is read, the smallest wish counts and never more than the server gives,
 *   nothing overflows, and what is passed on to the next hop is never longer than what is left.
 * Method: tables of good and bad texts; random numbers through text and back.
 */
#include "unit/guard/fixture.h"

#include "ron/guard/deadline.h"

#define VALUE(text) ((struct ron_header_value){(text), strlen(text)})
static const struct ron_header_value absent;

static void test_timeout__good_texts__are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0", 0},
        {"1", RON_NS_PER_S},
        {"0.5", RON_NS_PER_S / 2},
        {"0.000000001", 1},
        {"2.25", 2250 * RON_NS_PER_MS},
        {"30.000", 30 * RON_NS_PER_S},
        {"18446744073.709551615", UINT64_MAX},
        {"18446744073.709551616", UINT64_MAX},
        {"99999999999999999999999999999999", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        uint64_t ns = 77;

        assert_int_equal(ron_request_timeout_parse(good[i].text, strlen(good[i].text), &ns, NULL),
                         RON_OK);
        assert_int_equal(ns, good[i].ns);
    }
}

static void test_headers__bad_texts__are_refused_and_write_nothing(void **state)
{
    static const char *const bad[] = {
        "",    " ",    "1 ",  " 1",           "+1",   "-1",   "00",
        "01",  "0x10", "1e3", "1s",           "1ms",  "1,5",  "1..5",
        ".5",  "1.",   ".",   "1.2.3",        "1.5s", "NaN",  "inf",
        "1\t", "1;",   "''",  "1.0123456789", "00.5", "1. 5", "9999999999999999999999999999999999",
    };
    struct ron_err err = {0};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        uint64_t out = 77;

        assert_int_equal(ron_request_timeout_parse(bad[i], strlen(bad[i]), &out, &err),
                         RON_INVALID);
        assert_int_equal(ron_request_deadline_parse(bad[i], strlen(bad[i]), &out, &err),
                         RON_INVALID);
        assert_int_equal(out, 77);
    }
    assert_int_equal(ron_request_timeout_parse("1\0", 2, &(uint64_t){0}, NULL), RON_INVALID);
    assert_int_equal(ron_request_deadline_parse("1.5", 3, &(uint64_t){0}, NULL), RON_INVALID);
}

static void test_deadline__good_texts__are_read(void **state)
{
    uint64_t ms = 0;

    (void)state;
    assert_int_equal(ron_request_deadline_parse("1700000000123", 13, &ms, NULL), RON_OK);
    assert_int_equal(ms, UINT64_C(1700000000123));
    assert_int_equal(ron_request_deadline_parse("0", 1, &ms, NULL), RON_OK);
    assert_int_equal(ms, 0);
    assert_int_equal(ron_request_deadline_parse("18446744073709551616", 20, &ms, NULL), RON_OK);
    assert_true(ms == UINT64_MAX);
}

static struct ron_deadline deadline_of(const struct virtual_time *v, uint64_t server_ms,
                                       struct ron_header_value timeout,
                                       struct ron_header_value deadline)
{
    struct ron_deadline d = {0};

    assert_int_equal(ron_request_deadline(&v->env.clock, server_ms, timeout, deadline, &d, NULL),
                     RON_OK);
    return d;
}

static void test_request__all_wishes__the_smallest_counts(void **state)
{
    struct virtual_time v;
    uint64_t t0;

    (void)state;
    virtual_init(&v);
    t0 = v.now_ns;
    assert_true(ron_deadline_is_never(deadline_of(&v, 0, absent, absent)));
    assert_int_equal(deadline_of(&v, 5000, absent, absent).at_ns, t0 + 5 * RON_NS_PER_S);
    assert_int_equal(deadline_of(&v, 5000, VALUE("1.5"), absent).at_ns, t0 + 1500 * RON_NS_PER_MS);
    assert_int_equal(deadline_of(&v, 5000, VALUE("60"), absent).at_ns, t0 + 5 * RON_NS_PER_S);
    assert_int_equal(deadline_of(&v, 5000, absent, VALUE("1700000000250")).at_ns,
                     t0 + 250 * RON_NS_PER_MS);
    assert_int_equal(deadline_of(&v, 5000, absent, VALUE("1800000000000")).at_ns,
                     t0 + 5 * RON_NS_PER_S);
    assert_int_equal(deadline_of(&v, 5000, VALUE("0.1"), VALUE("1700000000250")).at_ns,
                     t0 + 100 * RON_NS_PER_MS);
    assert_int_equal(deadline_of(&v, 0, VALUE("3"), VALUE("1700000000250")).at_ns,
                     t0 + 250 * RON_NS_PER_MS);
    /* Already over: valid, and expired. */
    assert_true(ron_deadline_expired(deadline_of(&v, 5000, VALUE("0"), absent), t0));
    assert_true(ron_deadline_expired(deadline_of(&v, 5000, absent, VALUE("1")), t0));
    assert_true(ron_deadline_is_never(deadline_of(&v, 0, absent, VALUE("99999999999999999999"))));
}

static void test_request__malformed_header__is_invalid(void **state)
{
    struct virtual_time v;
    struct ron_deadline d = {42};
    struct ron_err err = {0};

    (void)state;
    virtual_init(&v);
    assert_int_equal(ron_request_deadline(&v.env.clock, 5000, VALUE("1s"), absent, &d, &err),
                     RON_INVALID);
    assert_non_null(strstr(err.msg, "Request-Timeout"));
    assert_int_equal(ron_request_deadline(&v.env.clock, 5000, VALUE("1"), VALUE("x"), &d, &err),
                     RON_INVALID);
    assert_non_null(strstr(err.msg, "Deadline"));
    assert_int_equal(d.at_ns, 42);
}

static void test_call__inside_a_request__never_beyond_it(void **state)
{
    struct ron_deadline request = {5000};

    (void)state;
    assert_int_equal(ron_call_deadline(request, 1000, 0).at_ns, 5000);
    assert_int_equal(ron_call_deadline(request, 1000, 1).at_ns, 5000);
    assert_int_equal(ron_call_deadline(ron_deadline_never(), 1000, 1).at_ns, 1000 + RON_NS_PER_MS);
    assert_true(ron_deadline_is_never(ron_call_deadline(ron_deadline_never(), 1, 0)));
}

static void test_timeout__random_time_left__written_and_read_never_longer(void **state)
{
    struct ron_rand rand = support_rand();
    char text[RON_TIMEOUT_FORMAT_SIZE];

    (void)state;
    assert_int_equal(ron_request_timeout_format(ron_deadline_never(), 5, text), 0);
    assert_string_equal(text, "");
    assert_int_equal(ron_request_timeout_format((struct ron_deadline){5}, 9, text), 5);
    assert_string_equal(text, "0.000");
    for (int i = 0; i < 20000; i++) {
        uint64_t now_ns = support_rand_edgy_u64(&rand) >> 1;
        uint64_t left_ns = support_rand_edgy_u64(&rand) >> 1;
        struct ron_deadline d = ron_deadline_after_ns(now_ns, left_ns);
        uint64_t back_ns = 0;
        size_t len = ron_request_timeout_format(d, now_ns, text);

        if (ron_deadline_is_never(d)) {
            continue;
        }
        assert_int_equal(len, strlen(text));
        assert_int_equal(ron_request_timeout_parse(text, len, &back_ns, NULL), RON_OK);
        assert_true(back_ns <= left_ns);
        assert_true(left_ns - back_ns < RON_NS_PER_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout__good_texts__are_read),
        cmocka_unit_test(test_headers__bad_texts__are_refused_and_write_nothing),
        cmocka_unit_test(test_deadline__good_texts__are_read),
        cmocka_unit_test(test_request__all_wishes__the_smallest_counts),
        cmocka_unit_test(test_request__malformed_header__is_invalid),
        cmocka_unit_test(test_call__inside_a_request__never_beyond_it),
        cmocka_unit_test(test_timeout__random_time_left__written_and_read_never_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
