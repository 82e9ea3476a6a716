/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the ledger reads what the client writes as exactly that, and would write the same bytes.
 * Method: random entries of every kind through lc_batch_* and the ledger's own reader, writer. */
#include "support/support.h"

#include "client/client.h"
#include "ledger/entry/entry.h"

static struct ron_arena arena;
static struct led_refusals refusals;

static int setup(void **state)
{
    (void)state;
    return ron_arena_init(&arena, (size_t)4 << 20) == RON_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ron_arena_done(&arena);
    return 0;
}

static void assert_same(struct ron_str a, struct ron_str b)
{
    assert_int_equal(a.len, b.len);
    if (a.len > 0) {
        assert_memory_equal(a.ptr, b.ptr, a.len);
    }
}

/* A slice of `from`, at least one byte long. */
static struct ron_str some(struct ron_rand *rand, const char *from, size_t max)
{
    size_t len = 1 + (size_t)ron_rand_below(rand, max);

    return (struct ron_str){from, len};
}

static bool coin(struct ron_rand *rand)
{
    return ron_rand_below(rand, 2) == 0;
}

static struct lc_entry random_entry(struct ron_rand *rand)
{
    static char id[LED_ID_MAX];
    static char account[LED_ACCOUNT_MAX];
    static char to[LED_ACCOUNT_MAX];
    static char asset[LED_ASSET_MAX];
    static char memo[LED_MEMO_MAX];
    struct lc_entry e = {.kind = (enum lc_kind)(1 + ron_rand_below(rand, 9))};

    memset(id, 'i', sizeof id);
    memset(account, 'a', sizeof account);
    memset(to, 'b', sizeof to);
    memset(asset, 'r', sizeof asset);
    memset(memo, 'm', sizeof memo);
    e.id = some(rand, id, sizeof id);
    e.account = some(rand, account, sizeof account);
    e.asset = some(rand, asset, sizeof asset);
    e.kid = some(rand, id, sizeof id);
    e.capability_ref = some(rand, id, sizeof id);
    e.ts_ms = 1 + ron_rand_below(rand, UINT32_MAX);
    e.amount.v = support_rand_edgy_u128(rand);
    e.amount.v += e.amount.v == 0;
    e.account_nonce = coin(rand) ? ron_rand_u64(rand) : 0;
    if (led_kind_takes_to((uint8_t)e.kind)) {
        e.to = some(rand, to, sizeof to);
    }
    if (led_kind_takes_ref((uint8_t)e.kind)) {
        e.ref = some(rand, id, sizeof id);
    }
    if (e.kind == LC_HOLD && coin(rand)) {
        e.expires_ms = e.ts_ms + 1 + ron_rand_below(rand, UINT32_MAX);
    }
    if (coin(rand)) {
        e.memo = some(rand, memo, sizeof memo);
    }
    for (size_t i = 0; i < sizeof e.nonce; i++) {
        e.nonce[i] = (uint8_t)ron_rand_u64(rand);
    }
    return e;
}

static void assert_entry(const struct led_entry *got, const struct lc_entry *want)
{
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->v, 1);
    assert_same(got->id, want->id);
    assert_same(got->account, want->account);
    assert_same(got->to, want->to);
    assert_same(got->asset, want->asset);
    assert_same(got->ref, want->ref);
    assert_same(got->kid, want->kid);
    assert_same(got->capability_ref, want->capability_ref);
    assert_same(got->memo, want->memo);
    support_assert_u128_equal(got->amount.v, want->amount.v);
    assert_int_equal(got->ts_ms, want->ts_ms);
    assert_int_equal(got->account_nonce, want->account_nonce);
    assert_int_equal(got->expires_ms, want->expires_ms);
    assert_memory_equal(got->nonce, want->nonce, sizeof want->nonce);
}

static void test_lc_batch__random_entries__are_read_and_written_alike_by_the_ledger(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct lc_entry e = random_entry(&rand);
        struct led_batch batch;
        struct ron_buf ours;
        struct ron_buf theirs;
        struct ron_str key = {"order-7", coin(&rand) ? 7 : 0};
        bool dry_run = coin(&rand);

        ron_buf_init(&ours, 1 << 16);
        ron_buf_init(&theirs, 1 << 16);
        lc_batch_head(&ours, key, dry_run, 1);
        lc_batch_entry(&ours, &e);
        assert_int_equal(ron_buf_error(&ours), RON_OK);
        ron_arena_clear(&arena);
        if (!led_batch_decode(ron_buf_data(&ours), ron_buf_len(&ours), LED_ORIGIN_CALLER, &arena,
                              &batch, NULL, &refusals)) {
            fail_msg("%s: %s", refusals.items[0].member, refusals.items[0].detail);
        }
        assert_int_equal(batch.count, 1);
        assert_int_equal(batch.dry_run, dry_run);
        assert_same(batch.idem_id, key);
        assert_entry(&batch.entries[0], &e);
        assert_int_equal(led_batch_encode(&batch, &theirs), RON_OK);
        assert_int_equal(ron_buf_len(&ours), ron_buf_len(&theirs));
        assert_memory_equal(ron_buf_data(&ours), ron_buf_data(&theirs), ron_buf_len(&ours));
        ron_buf_done(&ours);
        ron_buf_done(&theirs);
    }
}

static void test_lc_batch__many_entries__stand_one_after_the_other(void **state)
{
    struct lc_entry e = {.kind = LC_TRANSFER,
                         .id = {"tx-0", 4},
                         .account = {"t:a", 3},
                         .to = {"t:b", 3},
                         .asset = {"roc", 3},
                         .kid = {"k", 1},
                         .capability_ref = {"c", 1},
                         .amount = ron_money_of(1),
                         .ts_ms = 1};
    struct led_batch batch;
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, 1 << 16);
    lc_batch_head(&out, (struct ron_str){0}, false, 100);
    for (uint64_t i = 0; i < 100; i++) {
        e.account_nonce = i;
        lc_batch_entry(&out, &e);
    }
    ron_arena_clear(&arena);
    assert_true(led_batch_decode(ron_buf_data(&out), ron_buf_len(&out), LED_ORIGIN_CALLER, &arena,
                                 &batch, NULL, &refusals));
    assert_int_equal(batch.count, 100);
    assert_int_equal(batch.entries[99].account_nonce, 99);
    ron_buf_done(&out);
}

static void test_lc_batch__full_buffer__keeps_its_error(void **state)
{
    struct lc_entry e = {.kind = LC_MINT, .id = {"tx-0", 4}, .account = {"t:a", 3}};
    char room[32];
    struct ron_buf out;

    (void)state;
    ron_buf_init_over(&out, room, sizeof room);
    lc_batch_head(&out, (struct ron_str){0}, false, 1);
    lc_batch_entry(&out, &e);
    assert_int_equal(ron_buf_error(&out), RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lc_batch__random_entries__are_read_and_written_alike_by_the_ledger),
        cmocka_unit_test(test_lc_batch__many_entries__stand_one_after_the_other),
        cmocka_unit_test(test_lc_batch__full_buffer__keeps_its_error),
    };

    return cmocka_run_group_tests_name("client.lc_batch", tests, setup, teardown);
}
