/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the table of refusals is whole, and a fault is always a short printable text.
 * Method: every row against the rules that all rows share; faults at the edges of their room. */
#include "support/support.h"

#include "wallet/call/reason.h"

static bool spelled(const char *text, char low, char high)
{
    bool good = *text != '\0';

    for (; *text != '\0'; text++) {
        good = good && ((*text >= low && *text <= high) || *text == '_');
    }
    return good;
}

static void test_wlt_reason__table__every_row_obeys_the_rules(void **state)
{
    (void)state;
    assert_int_equal(wlt_reason_status(WLT_REASON_NONE), 200);
    for (unsigned i = WLT_REASON_NONE + 1; i < WLT_REASON_COUNT; i++) {
        enum wlt_reason reason = (enum wlt_reason)i;
        int status = wlt_reason_status(reason);

        assert_true(spelled(wlt_reason_label(reason), 'a', 'z'));
        assert_true(spelled(wlt_reason_code(reason), 'A', 'Z'));
        assert_true(wlt_reason_doc(reason)[0] != '\0');
        assert_in_range(status, 400, 599);
        /* What is busy or away may be tried again, and nothing else but a race. */
        if (status == 429 || status == 503) {
            assert_true(wlt_reason_retryable(reason));
        } else if (status != 409) {
            assert_false(wlt_reason_retryable(reason));
        }
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(wlt_reason_label(reason), wlt_reason_label((enum wlt_reason)k));
        }
    }
    assert_int_equal(wlt_reason_status(WLT_REASON_IDEM), 422);
    assert_string_equal(wlt_reason_code(WLT_REASON_NONCE_PENDING), "NONCE_CONFLICT");
    assert_true(wlt_reason_retryable(WLT_REASON_NONCE_PENDING));
    assert_false(wlt_reason_retryable(WLT_REASON_NONCE));
}

static void test_wlt_fault__member_and_detail__joined(void **state)
{
    struct wlt_fault f;

    (void)state;
    wlt_fault_set(&f, WLT_REASON_BAD_REQUEST, "amount_minor", "must be greater than 0");
    assert_int_equal(f.reason, WLT_REASON_BAD_REQUEST);
    assert_string_equal(f.detail, "amount_minor: must be greater than 0");
    wlt_fault_set(&f, WLT_REASON_BUSY, "", "queue `work`");
    assert_string_equal(f.detail, "queue `work`");
    wlt_fault_set(&f, WLT_REASON_BUSY, "", NULL);
    assert_string_equal(f.detail, wlt_reason_doc(WLT_REASON_BUSY));
}

static void test_wlt_fault__strange_and_long_text__printable_and_cut(void **state)
{
    struct wlt_fault f;
    char long_text[400];

    (void)state;
    wlt_fault_set(&f, WLT_REASON_BAD_REQUEST, "a\n\x7f\xc3\xbc\x01z", "x");
    assert_string_equal(f.detail, "a?????z: x");
    memset(long_text, 'y', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    wlt_fault_set(&f, WLT_REASON_BAD_REQUEST, "m", long_text);
    assert_int_equal(strlen(f.detail), sizeof f.detail - 1);
    assert_memory_equal(f.detail, "m: yyy", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_reason__table__every_row_obeys_the_rules),
        cmocka_unit_test(test_wlt_fault__member_and_detail__joined),
        cmocka_unit_test(test_wlt_fault__strange_and_long_text__printable_and_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
