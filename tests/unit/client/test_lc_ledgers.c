/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: of several ledgers the one that leads is asked, whatever order words come in.
 * Method: lists as settings have them; the words of client/ledgers.h, late ones and strange ones
 * too; heads and refusals as a ledger on a shared log writes them. */
#include "support/support.h"

#include "client/ledgers.h"
#include "ron/base/clock.h"
#include "ron/io/linux_env.h"

static struct lc_ledgers l;

static enum ron_rc open_list(const char *list)
{
    return lc_ledgers_init(&l, list, ron_breaker_preset(RON_BREAKER_LEDGER),
                           &ron_env_linux()->clock, NULL);
}

static void test_ledgers__lists__are_read_whole_or_refused(void **state)
{
    static const char *const bad[] = {"",     ",",     "a,",   ",a",
                                      "a,,b", "a,b,a", "a, a", "1,2,3,4,5,6,7,8,9"};
    char longest[2 * LC_ADDR_MAX + 8];

    (void)state;
    assert_int_equal(open_list("unix:/run/a"), RON_OK);
    assert_int_equal(l.count, 1);
    lc_ledgers_done(&l);
    assert_int_equal(open_list("unix:/run/a, b:7300 ,c:7300"), RON_OK);
    assert_int_equal(l.count, 3);
    assert_string_equal(l.of[0].addr, "unix:/run/a");
    assert_string_equal(l.of[1].addr, "b:7300");
    assert_string_equal(l.of[2].addr, "c:7300");
    lc_ledgers_done(&l);
    assert_int_equal(open_list("1,2,3,4,5,6,7,8"), RON_OK);
    lc_ledgers_done(&l);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(open_list(bad[i]), RON_INVALID);
        assert_int_equal(l.count, 0);
    }
    memset(longest, 'x', sizeof longest);
    longest[LC_ADDR_MAX] = '\0';
    assert_int_equal(open_list(longest), RON_OK);
    lc_ledgers_done(&l);
    longest[LC_ADDR_MAX] = 'x';
    longest[LC_ADDR_MAX + 1] = '\0';
    assert_int_equal(open_list(longest), RON_INVALID);
}

static void test_ledgers__words__move_the_choice(void **state)
{
    (void)state;
    assert_int_equal(open_list("a,b,c"), RON_OK);
    assert_int_equal(lc_ledgers_now(&l), 0);
    assert_true(lc_ledgers_refused(&l, 0, "c"));
    assert_int_equal(lc_ledgers_now(&l), 2);
    /* What was asked before the move says nothing about the new choice. */
    assert_false(lc_ledgers_refused(&l, 0, "b"));
    assert_false(lc_ledgers_silent(&l, 0));
    assert_int_equal(lc_ledgers_now(&l), 2);
    /* Strangers are not believed: our capability would go there. */
    assert_false(lc_ledgers_refused(&l, 2, "evil:1"));
    assert_false(lc_ledgers_refused(&l, 2, ""));
    assert_false(lc_ledgers_refused(&l, 2, "c"));
    assert_true(lc_ledgers_silent(&l, 2));
    assert_int_equal(lc_ledgers_now(&l), 0);
    assert_true(lc_ledgers_leads(&l, 1));
    assert_false(lc_ledgers_leads(&l, 1));
    assert_int_equal(lc_ledgers_now(&l), 1);
    assert_int_equal(lc_ledgers_moves(&l), 3);
    lc_ledgers_done(&l);
    assert_int_equal(open_list("a"), RON_OK);
    assert_false(lc_ledgers_silent(&l, 0));
    assert_false(lc_ledgers_refused(&l, 0, "a"));
    lc_ledgers_done(&l);
}

static void test_ledgers__breakers__are_each_their_own(void **state)
{
    struct ron_breaker_stats stats;
    struct ron_breaker_ticket ticket;

    (void)state;
    assert_int_equal(open_list("a,b"), RON_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ron_breaker_admit(&l.of[0].breaker, &ticket, NULL), RON_OK);
        ron_breaker_report(&l.of[0].breaker, ticket, RON_CALL_FAILURE);
    }
    assert_int_equal(ron_breaker_admit(&l.of[0].breaker, &ticket, NULL), RON_AGAIN);
    assert_int_equal(ron_breaker_admit(&l.of[1].breaker, &ticket, NULL), RON_OK);
    ron_breaker_report(&l.of[1].breaker, ticket, RON_CALL_SUCCESS);
    lc_ledgers_stats(&l, &stats);
    assert_int_equal(stats.state, RON_BREAKER_IS_OPEN); /* of the one that is asked */
    assert_int_equal(stats.admitted, 6);
    assert_int_equal(stats.upstream_fail_total, 5);
    assert_true(lc_ledgers_leads(&l, 1));
    lc_ledgers_stats(&l, &stats);
    assert_int_equal(stats.state, RON_BREAKER_IS_CLOSED);
    lc_ledgers_done(&l);
}

#define ROOT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void test_ledgers__heads_and_refusals__say_who_leads(void **state)
{
    char follows[] = "{\"seq\":9,\"root\":\"" ROOT "\",\"ts\":12,\"leads\":false,\"epoch\":4,"
                     "\"leader\":\"unix:/run/b\"}";
    char leads[] = "{\"seq\":9,\"root\":\"" ROOT "\",\"ts\":12,\"leads\":true,\"epoch\":5}";
    char alone[] = "{\"seq\":9,\"root\":\"" ROOT "\",\"ts\":12}";
    char odd[] = "{\"seq\":9,\"root\":\"" ROOT "\",\"ts\":12,\"leads\":1}";
    char refused[] = "{\"code\":\"NOT_LEADER\",\"message\":\"m\",\"retryable\":true,"
                     "\"reason\":\"not_leader\",\"leader\":\"b:1\"}";
    struct lc_head head;
    struct lc_refusal refusal;

    (void)state;
    assert_int_equal(lc_head_read(follows, sizeof follows - 1, &head), RON_OK);
    assert_true(!head.leads && head.epoch == 4);
    assert_string_equal(head.leader, "unix:/run/b");
    assert_int_equal(lc_head_read(leads, sizeof leads - 1, &head), RON_OK);
    assert_true(head.leads && head.epoch == 5);
    assert_string_equal(head.leader, "");
    assert_int_equal(lc_head_read(alone, sizeof alone - 1, &head), RON_OK);
    assert_true(head.leads && head.epoch == 0);
    assert_int_equal(lc_head_read(odd, sizeof odd - 1, &head), RON_CORRUPT);
    assert_int_equal(lc_refusal_read(refused, sizeof refused - 1, &refusal), RON_OK);
    assert_int_equal(refusal.reason, LC_REASON_NOT_LEADER);
    assert_string_equal(refusal.leader, "b:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledgers__lists__are_read_whole_or_refused),
        cmocka_unit_test(test_ledgers__words__move_the_choice),
        cmocka_unit_test(test_ledgers__breakers__are_each_their_own),
        cmocka_unit_test(test_ledgers__heads_and_refusals__say_who_leads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
