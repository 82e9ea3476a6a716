/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: HMAC with prepared keys is HMAC, for every hash, key length and cut of the message.
 * Method: the cases of RFC 4231 and RFC 2202; random keys and messages against OpenSSL's HMAC. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "support/support.h"

#include "interop/provider/mac.h"
#include "ron/base/hex.h"
#include "ron/base/rand.h"
#include "ron/obs/trace.h"

static void mac_hex(enum iop_hash hash, const char *key, size_t key_len, const char *text,
                    char ret_hex[129])
{
    struct iop_mac_key k;
    struct iop_mac m;
    uint8_t bytes[IOP_MAC_BYTES_MAX];
    size_t len;

    iop_mac_key_set(&k, hash, key, key_len);
    iop_mac_begin(&m, &k);
    iop_mac_add(&m, text, strlen(text));
    len = iop_mac_end(&m, bytes);
    ron_hex(bytes, len, ret_hex);
}

static void test_mac__published_cases__their_results(void **state)
{
    char hex[129];

    (void)state;
    mac_hex(IOP_SHA256, "Jefe", 4, "what do ya want for nothing?", hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    mac_hex(IOP_SHA384, "Jefe", 4, "what do ya want for nothing?", hex);
    assert_string_equal(hex, "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e"
                             "8e2240ca5e69e2c78b3239ecfab21649");
    mac_hex(IOP_SHA512, "Jefe", 4, "what do ya want for nothing?", hex);
    assert_string_equal(hex, "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                             "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
    mac_hex(IOP_SHA1, "Jefe", 4, "what do ya want for nothing?", hex);
    assert_string_equal(hex, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    /* A key longer than a block is hashed first. */
    {
        char key[131];

        memset(key, 0xaa, sizeof key);
        mac_hex(IOP_SHA256, key, sizeof key,
                "Test Using Larger Than Block-Size Key - Hash Key First", hex);
    }
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_mac__random_keys_and_pieces__as_openssl(void **state)
{
    static const enum iop_hash hashes[] = {IOP_SHA1, IOP_SHA256, IOP_SHA384, IOP_SHA512};
    struct ron_rand rand;
    uint8_t key[300];
    uint8_t text[2000];

    (void)state;
    ron_rand_seed(&rand, support_seed());
    for (size_t round = 0; round < 2000; round++) {
        const EVP_MD *mds[] = {EVP_sha1(), EVP_sha256(), EVP_sha384(), EVP_sha512()};
        size_t which = (size_t)ron_rand_below(&rand, 4);
        size_t key_len = 1 + (size_t)ron_rand_below(&rand, sizeof key);
        size_t len = (size_t)ron_rand_below(&rand, sizeof text);
        struct iop_mac_key k;
        struct iop_mac m;
        uint8_t want[EVP_MAX_MD_SIZE];
        uint8_t got[IOP_MAC_BYTES_MAX];
        unsigned want_len = 0;

        for (size_t i = 0; i < sizeof text; i++) {
            text[i] = (uint8_t)ron_rand_u64(&rand);
            key[i % sizeof key] = (uint8_t)ron_rand_u64(&rand);
        }
        assert_non_null(HMAC(mds[which], key, (int)key_len, text, len, want, &want_len));
        iop_mac_key_set(&k, hashes[which], key, key_len);
        iop_mac_begin(&m, &k);
        for (size_t at = 0; at < len;) {
            size_t piece = 1 + (size_t)ron_rand_below(&rand, len - at);

            iop_mac_add(&m, text + at, piece);
            at += piece;
        }
        assert_int_equal(iop_mac_end(&m, got), want_len);
        assert_int_equal(want_len, iop_hash_bytes(hashes[which]));
        assert_true(iop_same_bytes(got, want, want_len));
        got[ron_rand_below(&rand, want_len)] ^= (uint8_t)(1u << ron_rand_below(&rand, 8));
        assert_false(iop_same_bytes(got, want, want_len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mac__published_cases__their_results),
        cmocka_unit_test(test_mac__random_keys_and_pieces__as_openssl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
