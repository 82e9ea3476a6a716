/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the list of frozen accounts never grows beyond what the next start reads.
 * Method: a file with as many accounts as there may be, one more, one less, and read again. */
#include "unit/io/fixture.h"

#include "ledger/guard/frozen.h"
#include "ron/base/buf.h"
#include "ron/io/file.h"

static void write_full(struct fixture *fix)
{
    char path[FIXTURE_PATH_SIZE + 16];
    struct ron_buf text;

    ron_buf_init(&text, 32 << 20);
    for (int i = 0; i < LED_FROZEN_MAX; i++) {
        assert_int_equal(ron_buf_append_fmt(&text, "t:x/u:%d\n", i), RON_OK);
    }
    (void)snprintf(path, sizeof path, "%s/frozen", fix->dir);
    assert_int_equal(
        ron_file_replace(fix->env, path, ron_buf_data(&text), ron_buf_len(&text), 0600, NULL),
        RON_OK);
    ron_buf_done(&text);
}

static void test_frozen__list_full__refused_and_still_read(void **state)
{
    struct fixture *fix = *state;
    struct led_frozen *f = NULL;
    struct ron_str more = {"t:y", 3};
    struct ron_str listed = {"t:x/u:7", 7};

    write_full(fix);
    assert_int_equal(led_frozen_new(fix->env, fix->dir, &f, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, more, true, NULL), RON_LIMIT);
    assert_int_equal(led_frozen_set(f, listed, false, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, more, true, NULL), RON_OK);
    assert_int_equal(led_frozen_set(f, listed, true, NULL), RON_LIMIT);
    led_frozen_free(f);
    assert_int_equal(led_frozen_new(fix->env, fix->dir, &f, NULL), RON_OK);
    led_frozen_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frozen__list_full__refused_and_still_read,
                                        fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
