/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - what the tables of the wallet cost when many accounts were touched.
 *
 * Goal: tables for 100,000 accounts, all of them touched, stay below 24 MiB together, of the 48 MiB
 *   that the whole service may take; most of the accounts are found again; tables that nobody has
 *   used cost next to nothing.
 * Method: resident memory of this process before and after. Sanitizers keep books of their own, so
 *   under them only what is found again is looked at.
 */
#include "support/support.h"

#include <unistd.h>

#include "ron/base/macros.h"
#include "wallet/table/cache.h"
#include "wallet/table/daily.h"
#include "wallet/table/nonce.h"

enum { SHARDS = 64, ACCOUNTS = 100000, KIB = 1024, TABLES_MAX_KIB = 24 * KIB };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %ld", &pages), 1);
    (void)fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / KIB);
}

struct tables {
    struct wlt_nonces *nonces;
    struct wlt_daily *daily;
    struct wlt_cache *cache;
};

static void open_tables(struct tables *t)
{
    assert_int_equal(wlt_nonces_new(SHARDS, ACCOUNTS, &t->nonces, NULL), RON_OK);
    assert_int_equal(wlt_daily_new(SHARDS, ACCOUNTS, &t->daily, NULL), RON_OK);
    assert_int_equal(wlt_cache_new(SHARDS, ACCOUNTS, &t->cache, NULL), RON_OK);
}

static void close_tables(struct tables *t)
{
    wlt_nonces_free(t->nonces);
    wlt_daily_free(t->daily);
    wlt_cache_free(t->cache);
}

static struct wlt_key key_of(uint32_t i, enum wlt_key_kind kind)
{
    static const struct wlt_secret secret = {.bytes = {4, 7, 1, 1}};
    char text[32];
    int len = snprintf(text, sizeof text, "acct_%u", (unsigned)i);

    return wlt_key_of(&secret, kind, (struct ron_str){text, (size_t)len},
                      (struct ron_str){"roc", 3});
}

static void touch(struct tables *t, uint32_t i)
{
    struct wlt_key account = key_of(i, WLT_KEY_ACCOUNT);
    struct wlt_key pair = key_of(i, WLT_KEY_ACCOUNT_ASSET);

    wlt_nonce_learn(t->nonces, account, i);
    wlt_daily_learn(t->daily, pair, 1, ron_money_of(i));
    wlt_cache_put(t->cache, account, pair, &(struct wlt_balance){.last_seq = i});
}

/* Of 100,000 how many each table still knows. */
static void count_known(struct tables *t, uint32_t ret_known[3])
{
    memset(ret_known, 0, 3 * sizeof *ret_known);
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        struct wlt_key account = key_of(i, WLT_KEY_ACCOUNT);
        struct wlt_key pair = key_of(i, WLT_KEY_ACCOUNT_ASSET);
        struct wlt_nonce_ticket ticket;
        struct wlt_balance balance;
        struct ron_money left;
        uint64_t expected = 0;

        if (wlt_nonce_reserve(t->nonces, account, 0, &ticket, &expected) == WLT_NONCE_WRONG) {
            assert_int_equal(expected, i + 1);
            ret_known[0]++;
        }
        if (wlt_daily_reserve(t->daily, pair, 1, RON_MONEY_MAX, ron_money_of(i), &left) ==
            WLT_DAILY_EXCEEDED) {
            support_assert_u128_equal(left.v, 0);
            ret_known[1]++;
        }
        if (wlt_cache_get(t->cache, account, pair, &balance)) {
            assert_int_equal(balance.last_seq, i);
            ret_known[2]++;
        }
    }
}

static void test_wlt_memory__100k_accounts__below_24_mib(void **state)
{
    struct tables t;
    uint32_t known[3];
    long before;
    long empty;
    long full;

    (void)state;
    before = resident_kib();
    open_tables(&t);
    empty = resident_kib() - before;
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        touch(&t, i);
    }
    full = resident_kib() - before;
    count_known(&t, known);
    print_message("tables: %ld KiB empty, %ld KiB with %d accounts; known again: nonces %u, daily "
                  "sums %u, balances %u\n",
                  empty, full, ACCOUNTS, known[0], known[1], known[2]);
    for (int i = 0; i < 3; i++) {
        assert_in_range(known[i], ACCOUNTS / 100 * 85, ACCOUNTS);
    }
    if (!SANITIZED) {
        assert_in_range(empty, 0, KIB);
        assert_in_range(full, 10L * KIB, TABLES_MAX_KIB);
    }
    close_tables(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_memory__100k_accounts__below_24_mib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
