/* SPDX-License-Identifier: Apache-2.0 */
/* test_wlt_table_faults.c - every allocation of the wallet's tables fails once, in turn.
 *
 * Goal: whatever fails while a table is made, the caller gets RON_NOMEM with a message and nothing
 *   leaks; after that no table allocates.
 * Method: the sweep of tests/support; a case is a whole life with some work in it.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "wallet/table/cache.h"
#include "wallet/table/daily.h"
#include "wallet/table/idem.h"
#include "wallet/table/nonce.h"

/* What must be true after a _new: the code, and nothing but the code when it failed. */
static enum ron_rc made(enum ron_rc rc, const void *table, const struct ron_err *err)
{
    RON_ASSERT((table == NULL) == (rc != RON_OK));
    RON_ASSERT(rc == RON_OK || (rc == RON_NOMEM && err->rc == rc));
    return rc;
}

static enum ron_rc nonces_life(void *arg)
{
    struct wlt_nonces *n = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)arg;
    rc = wlt_nonces_new(2, 32, &n, &err);
    RON_TRY(made(rc, n, &err));
    for (uint64_t i = 0; i < 100; i++) {
        struct wlt_nonce_ticket t;
        uint64_t expected;

        wlt_nonce_learn(n, (struct wlt_key){i << 60, i}, i);
        if (wlt_nonce_reserve(n, (struct wlt_key){i << 60, i}, i + 1, &t, &expected) ==
            WLT_NONCE_RESERVED) {
            wlt_nonce_settle(n, t, WLT_COMMITTED);
        }
    }
    wlt_nonces_free(n);
    return RON_OK;
}

static enum ron_rc daily_life(void *arg)
{
    struct wlt_daily *d = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)arg;
    rc = wlt_daily_new(2, 32, &d, &err);
    RON_TRY(made(rc, d, &err));
    for (uint64_t i = 0; i < 100; i++) {
        struct ron_money left;

        wlt_daily_learn(d, (struct wlt_key){i << 60, i}, 1, ron_money_of(i));
        RON_IGNORE(wlt_daily_reserve(d, (struct wlt_key){i << 60, i}, 1, ron_money_of(1),
                                     ron_money_of(1000), &left)); /* any verdict is fine */
    }
    wlt_daily_free(d);
    return RON_OK;
}

static enum ron_rc idem_life(void *arg)
{
    static const uint8_t print[32];
    static const char answer[1000];
    struct wlt_idem *i = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;
    uint8_t room[2000];
    struct ron_buf out;

    (void)arg;
    rc = wlt_idem_new(&(struct wlt_idem_opts){2, 1 << 14, 8, 1000}, &i, &err);
    RON_TRY(made(rc, i, &err));
    ron_buf_init_over(&out, room, sizeof room);
    for (uint64_t k = 0; k < 100; k++) {
        struct wlt_key key = {k << 60, k};

        RON_ASSERT(wlt_idem_begin(i, key, print, k, &out) == WLT_IDEM_FIRST);
        wlt_idem_finish(i, key, answer, sizeof answer, k);
        RON_ASSERT(wlt_idem_begin(i, key, print, k, &out) == WLT_IDEM_REPLAY);
        ron_buf_clear(&out);
    }
    wlt_idem_free(i);
    return RON_OK;
}

static enum ron_rc cache_life(void *arg)
{
    struct wlt_cache *c = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;
    struct wlt_balance b = {0};

    (void)arg;
    rc = wlt_cache_new(2, 32, &c, &err);
    RON_TRY(made(rc, c, &err));
    for (uint64_t i = 0; i < 100; i++) {
        struct wlt_key key = {i << 60, i};

        wlt_cache_put(c, key, key, &b);
        RON_ASSERT(wlt_cache_get(c, key, key, &b));
        wlt_cache_changed(c, key, i, i);
    }
    wlt_cache_flush(c, 1000, 1000);
    wlt_cache_free(c);
    return RON_OK;
}

SUPPORT_FAULT_SWEEP(test_wlt_table_faults__nonces__clean_error_and_no_leak, nonces_life)
SUPPORT_FAULT_SWEEP(test_wlt_table_faults__daily__clean_error_and_no_leak, daily_life)
SUPPORT_FAULT_SWEEP(test_wlt_table_faults__idem__clean_error_and_no_leak, idem_life)
SUPPORT_FAULT_SWEEP(test_wlt_table_faults__cache__clean_error_and_no_leak, cache_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_table_faults__nonces__clean_error_and_no_leak),
        cmocka_unit_test(test_wlt_table_faults__daily__clean_error_and_no_leak),
        cmocka_unit_test(test_wlt_table_faults__idem__clean_error_and_no_leak),
        cmocka_unit_test(test_wlt_table_faults__cache__clean_error_and_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
