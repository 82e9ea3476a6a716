/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what a socket did not take is kept within the limits of connection and server, given back
 * when it is taken, and timed; the gathered write leaves out what is done.
 * Method: calls in order, all at every split. */
#include "support/support.h"

#include "ron/front/out.h"

static void test_out__kept_and_taken__memory_given_back(void **state)
{
    struct ron_out_memory memory = {.max = 1 << 20};
    struct ron_out o;

    (void)state;
    ron_out_init(&o, 4096);
    assert_int_equal(ron_out_len(&o), 0);
    ron_out_start(&o, 1000);
    assert_true(ron_out_keep(&o, &memory, "abc", 3));
    assert_true(ron_out_keep(&o, &memory, "defg", 4));
    assert_int_equal(ron_out_len(&o), 7);
    assert_true(ron_au64_load(&memory.used) >= 7);
    ron_out_taken(&o, &memory, 0, 1500);
    assert_int_equal(o.progress_ms, 1000); /* nothing is no progress */
    ron_out_taken(&o, &memory, 5, 2000);
    assert_memory_equal(ron_buf_data(&o.kept), "fg", 2);
    assert_int_equal(o.progress_ms, 2000);
    assert_int_equal(o.sent, 5);
    assert_true(ron_au64_load(&memory.used) > 0);
    ron_out_taken(&o, &memory, 2, 2000);
    assert_int_equal(ron_au64_load(&memory.used), 0);
    assert_int_equal(o.kept.cap, 0);
    assert_int_equal(o.kept.max, 4096); /* as before */
}

static void test_out__too_much__refused(void **state)
{
    struct ron_out_memory memory = {.max = 600};
    struct ron_out a;
    struct ron_out b;
    char bytes[500] = "";

    (void)state;
    ron_out_init(&a, 1000);
    ron_out_init(&b, 1000);
    assert_true(ron_out_keep(&a, &memory, bytes, sizeof bytes));
    assert_false(ron_out_keep(&b, &memory, bytes, sizeof bytes)); /* all together */
    ron_out_release(&b, &memory);
    memory.max = 1 << 20;
    assert_false(ron_out_keep(&a, &memory, bytes, 501)); /* one connection */
    ron_out_release(&a, &memory);
    assert_int_equal(ron_au64_load(&memory.used), 0);
}

static void test_out__time__the_timeout_or_the_rate(void **state)
{
    struct ron_out o;

    (void)state;
    ron_out_init(&o, 1);
    ron_out_start(&o, 10000);
    assert_int_equal(ron_out_due_ms(&o, 5000, 1024), 15000);
    ron_out_progress(&o, 1024, 14000);
    assert_int_equal(ron_out_due_ms(&o, 5000, 1024), 16000); /* one second bought, not four */
    ron_out_progress(&o, 100 << 10, 14500);
    assert_int_equal(ron_out_due_ms(&o, 5000, 1024), 19500);
    ron_out_start(&o, 20000);
    assert_int_equal(ron_out_due_ms(&o, 5000, 1024), 25000);
}

static void test_out__gather__the_rest_of_both(void **state)
{
    static const char text[] = "headbody";

    (void)state;
    for (size_t split = 0; split < sizeof text; split++) {
        for (size_t done = 0; done < sizeof text - 1; done++) {
            struct iovec iov[2];
            int count = ron_gather(iov, text, split, text + split, 8 - split, done);
            char got[9] = "";
            size_t len = 0;

            assert_int_equal(count, done < split && split < 8 ? 2 : 1);
            for (int i = 0; i < count; i++) {
                memcpy(got + len, iov[i].iov_base, iov[i].iov_len);
                len += iov[i].iov_len;
            }
            assert_string_equal(got, text + done);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out__kept_and_taken__memory_given_back),
        cmocka_unit_test(test_out__too_much__refused),
        cmocka_unit_test(test_out__time__the_timeout_or_the_rate),
        cmocka_unit_test(test_out__gather__the_rest_of_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
