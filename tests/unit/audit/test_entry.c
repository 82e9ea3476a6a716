/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the auditor's reader of entries, written from the page alone, accepts exactly what the
 * ledger's reader accepts, and reads the same out of it.
 * Method: entries of the page as bytes; random entries, whole, changed in a byte, cut and extended,
 * given to both readers. */
#include "support/support.h"

#include "audit/journal/entry.h"
#include "ledger/entry/entry.h"
#include "ron/base/rand.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static void same_text(struct ron_str a, struct ron_str b)
{
    assert_int_equal(a.len, b.len);
    if (a.len > 0) {
        assert_memory_equal(a.ptr, b.ptr, a.len);
    }
}

/* Both readers agree; true when they accept. */
static bool agree(const uint8_t *bytes, size_t len)
{
    struct led_refusal refusal;
    struct led_entry theirs;
    struct aud_entry ours;
    const char *fault = aud_entry_read(bytes, len, &ours);
    bool accepted = led_entry_decode(bytes, len, LED_ORIGIN_LEDGER, &theirs, &refusal);

    if ((fault == NULL) != accepted) {
        fail_msg("auditor: %s; ledger: %s", fault != NULL ? fault : "accepted",
                 accepted ? "accepted" : refusal.detail);
    }
    if (!accepted) {
        return false;
    }
    assert_int_equal(ours.kind, theirs.kind);
    assert_int_equal(ours.ts_ms, theirs.ts_ms);
    assert_int_equal(ours.account_nonce, theirs.account_nonce);
    assert_int_equal(ours.expires_ms, theirs.expires_ms);
    support_assert_u128_equal(ours.amount, theirs.amount.v);
    assert_memory_equal(ours.nonce, theirs.nonce, LED_NONCE_SIZE);
    same_text(ours.id, theirs.id);
    same_text(ours.account, theirs.account);
    same_text(ours.to, theirs.to);
    same_text(ours.asset, theirs.asset);
    same_text(ours.ref, theirs.ref);
    same_text(ours.kid, theirs.kid);
    same_text(ours.capability_ref, theirs.capability_ref);
    same_text(ours.memo, theirs.memo);
    return true;
}

static size_t random_entry(struct ron_rand *rand, uint8_t leaf[LED_ENTRY_BYTES_MAX])
{
    static const char text[] = "abc-0_:/zyxAZ9mnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklm"
                               "nopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t kind = (uint8_t)(1 + ron_rand_below(rand, 10));
    struct led_entry e = {
        .v = LED_VERSION,
        .kind = kind,
        .ts_ms = 1 + ron_rand_below(rand, LED_TIME_MAX_MS),
        .amount.v = support_rand_edgy_u128(rand),
        .account_nonce = ron_rand_chance(rand, 1, 2) ? support_rand_edgy_u64(rand) : 0,
        .id = {text, 1 + (size_t)ron_rand_below(rand, 100)},
        .account = {text, 1 + (size_t)ron_rand_below(rand, 100)},
        .asset = {"roc.x-1_", 1 + (size_t)ron_rand_below(rand, 8)},
        .kid = {text, 1 + (size_t)ron_rand_below(rand, 9)},
        .capability_ref = {text, 1 + (size_t)ron_rand_below(rand, 9)},
        .memo = str(ron_rand_chance(rand, 1, 2) ? "" : "gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac"),
    };

    if (led_kind_takes_to(kind)) {
        e.to = (struct ron_str){text + 1, 1 + (size_t)ron_rand_below(rand, 50)};
    }
    if (led_kind_takes_ref(kind)) {
        e.ref = (struct ron_str){text, 1 + (size_t)ron_rand_below(rand, 50)};
    }
    if (kind == LED_KIND_HOLD && ron_rand_chance(rand, 1, 2)) {
        e.expires_ms = e.ts_ms + 1;
    }
    ron_rand_bytes(rand, e.nonce, sizeof e.nonce);
    return (size_t)(led_entry_encode(&e, leaf) - leaf);
}

static void test_entry__random_bytes_around_entries__both_readers_agree(void **state)
{
    struct ron_rand rand = support_rand();
    size_t accepted = 0;
    size_t changed = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX + 8] = {0};
        size_t len = random_entry(&rand, leaf);

        accepted += agree(leaf, len);
        leaf[ron_rand_below(&rand, len)] = (uint8_t)ron_rand_below(&rand, 256);
        changed += agree(leaf, len);
        leaf[ron_rand_below(&rand, len)] ^= (uint8_t)(1u << ron_rand_below(&rand, 8));
        (void)agree(leaf, len);
        (void)agree(leaf, (size_t)ron_rand_below(&rand, len));
        (void)agree(leaf, len + 1 + (size_t)ron_rand_below(&rand, 4));
    }
    assert_true(accepted > 15000);
    assert_true(changed > 1000 && changed < 20000);
}

/* Every byte in every text, and every kind with every set of presence bits. */
static void test_entry__every_byte_and_bit__both_readers_agree(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 40; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        size_t len = random_entry(&rand, leaf);

        for (size_t at = 0; at < RON_MIN(len, (size_t)160); at++) {
            uint8_t byte = leaf[at];

            for (unsigned v = 0; v < 256; v++) {
                leaf[at] = (uint8_t)v;
                (void)agree(leaf, len);
            }
            leaf[at] = byte;
        }
        for (unsigned v = 0; v < 1u << 16; v++) {
            leaf[2] = (uint8_t)(v >> 8);
            leaf[3] = (uint8_t)v;
            (void)agree(leaf, len);
        }
    }
}

static void test_entry__example_of_the_page__is_read(void **state)
{
    static const uint8_t bytes[] = "\0\1\5\1\0\0\1\x8b\xcf\xe5\x68\0"
                                   "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5"
                                   "\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xf"
                                   "\4tx-1"
                                   "\0\x10t:demo/u:alice/w"
                                   "\0\xet:demo/u:bob/w"
                                   "\3roc\2k1\2c1";
    struct aud_entry e;

    (void)state;
    assert_null(aud_entry_read(bytes, sizeof bytes - 1, &e));
    assert_int_equal(e.kind, AUD_TRANSFER);
    assert_int_equal(e.ts_ms, 1700000000000);
    assert_true(e.amount == 5);
    same_text(e.id, str("tx-1"));
    same_text(e.to, str("t:demo/u:bob/w"));
    same_text(e.asset, str("roc"));
    assert_non_null(aud_entry_read(bytes, sizeof bytes - 2, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry__random_bytes_around_entries__both_readers_agree),
        cmocka_unit_test(test_entry__every_byte_and_bit__both_readers_agree),
        cmocka_unit_test(test_entry__example_of_the_page__is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
