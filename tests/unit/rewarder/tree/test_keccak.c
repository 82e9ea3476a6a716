/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: keccak-256 is Ethereum's, at every length, one by one and four at a time.
 * Method: known hashes; and a second implementation written from the definition, which makes its
 *   constants itself (shift register, walk of rho) and works on plain arrays, as the oracle. */
#include "support/support.h"

#include "rewarder/tree/keccak_priv.h"
#include "ron/base/alloc.h"

/* ---- the oracle ------------------------------------------------------------------------------ */

static uint64_t turn(uint64_t v, unsigned n)
{
    return n == 0 ? v : v << n | v >> (64 - n);
}

static void slow_round(uint64_t a[5][5], uint64_t constant)
{
    uint64_t c[5];
    uint64_t b[5][5];
    unsigned x = 1;
    unsigned y = 0;
    uint64_t lane;

    for (unsigned i = 0; i < 5; i++) {
        c[i] = a[i][0] ^ a[i][1] ^ a[i][2] ^ a[i][3] ^ a[i][4];
    }
    for (unsigned i = 0; i < 25; i++) {
        a[i % 5][i / 5] ^= c[(i % 5 + 4) % 5] ^ turn(c[(i % 5 + 1) % 5], 1);
    }
    /* rho and pi as a walk over 24 lanes: the t-th is turned by (t + 1)(t + 2) / 2. */
    lane = a[1][0];
    for (unsigned t = 0; t < 24; t++) {
        unsigned next = (2 * x + 3 * y) % 5;
        uint64_t kept;

        x = y;
        y = next;
        kept = a[x][y];
        a[x][y] = turn(lane, (t + 1) * (t + 2) / 2 % 64);
        lane = kept;
    }
    memcpy(b, a, sizeof b);
    for (unsigned i = 0; i < 25; i++) {
        a[i % 5][i / 5] =
            b[i % 5][i / 5] ^ (~b[(i % 5 + 1) % 5][i / 5] & b[(i % 5 + 2) % 5][i / 5]);
    }
    a[0][0] ^= constant;
}

static void slow_permute(uint8_t state[200])
{
    uint64_t a[5][5] = {{0}};
    unsigned reg = 1;

    for (unsigned i = 0; i < 200; i++) {
        a[i / 8 % 5][i / 40] |= (uint64_t)state[i] << (8 * (i % 8));
    }
    for (unsigned round = 0; round < 24; round++) {
        uint64_t constant = 0;

        /* The bits of a shift register with x^8 + x^6 + x^5 + x^4 + 1, at 2^j - 1. */
        for (unsigned j = 0; j < 7; j++) {
            constant |= (uint64_t)(reg & 1) << ((1u << j) - 1);
            reg = reg << 1 ^ ((reg >> 7) * 0x171);
        }
        slow_round(a, constant);
    }
    for (unsigned i = 0; i < 200; i++) {
        state[i] = (uint8_t)(a[i / 8 % 5][i / 40] >> (8 * (i % 8)));
    }
}

static void slow_keccak(const uint8_t *bytes, size_t len, uint8_t ret_hash[32])
{
    uint8_t state[200] = {0};
    size_t in = 0;

    for (size_t i = 0; i < len; i++) {
        state[in++] ^= bytes[i];
        if (in == 136) {
            slow_permute(state);
            in = 0;
        }
    }
    state[in] ^= 0x01;
    state[135] ^= 0x80;
    slow_permute(state);
    memcpy(ret_hash, state, 32);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void check_text(const char *text, const char *hex)
{
    struct rwd_keccak hash;
    char got[65];

    rwd_keccak256(text, strlen(text), &hash);
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(got + 2 * i, 3, "%02x", hash.bytes[i]);
    }
    assert_string_equal(got, hex);
}

static void test_keccak__known_inputs__known_hashes(void **state)
{
    (void)state;
    check_text("", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    check_text("abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
    check_text("testing", "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02");
    /* The topic of every token transfer. */
    check_text("Transfer(address,address,uint256)",
               "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
}

static void test_keccak__every_length_to_three_blocks__as_the_oracle(void **state)
{
    uint8_t bytes[420];
    struct ron_rand rand = support_rand();

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)ron_rand_u64(&rand);
    }
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct rwd_keccak hash;
        uint8_t want[32];

        rwd_keccak256(len == 0 ? NULL : bytes, len, &hash);
        slow_keccak(bytes, len, want);
        assert_memory_equal(hash.bytes, want, 32);
    }
}

static void test_keccak__a_million_bytes__as_the_oracle(void **state)
{
    enum { SIZE = 1000000 };
    uint8_t *bytes = ron_alloc(SIZE);
    struct rwd_keccak hash;
    uint8_t want[32];

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'a', SIZE);
    rwd_keccak256(bytes, SIZE, &hash);
    slow_keccak(bytes, SIZE, want);
    assert_memory_equal(hash.bytes, want, 32);
    ron_free(bytes);
}

static void test_keccak__many_side_by_side__as_one_by_one(void **state)
{
    enum { COUNT = 11, STRIDE = 300 };
    static const size_t lens[] = {0, 1, 31, 32, 64, 116, 135, 136, 137, 148, 271, 272, 273, 300};
    uint8_t bytes[COUNT * STRIDE];
    struct ron_rand rand = support_rand();

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)ron_rand_u64(&rand);
    }
    for (size_t k = 0; k < RON_ARRAY_LEN(lens); k++) {
        for (size_t count = 0; count <= COUNT; count++) {
            struct rwd_keccak got[COUNT] = {0};

            rwd_keccak256_many(bytes, STRIDE, lens[k], count, got);
            for (size_t i = 0; i < COUNT; i++) {
                struct rwd_keccak want = {0};

                if (i < count) {
                    rwd_keccak256(bytes + i * STRIDE, lens[k], &want);
                }
                assert_memory_equal(&got[i], &want, sizeof want);
            }
        }
    }
}

static void test_keccak__four_at_once__each_its_own(void **state)
{
    uint8_t bytes[4][200];
    const uint8_t *const inputs[4] = {bytes[0], bytes[1], bytes[2], bytes[3]};
    struct rwd_keccak got[4];

    (void)state;
    if (!rwd__keccak_has_quad()) {
        skip();
    }
    for (size_t k = 0; k < 4; k++) {
        memset(bytes[k], (int)('a' + k), sizeof bytes[k]);
    }
    for (size_t len = 0; len <= 200; len++) {
        rwd__keccak_quad(inputs, len, got);
        for (size_t k = 0; k < 4; k++) {
            uint8_t want[32];

            slow_keccak(bytes[k], len, want);
            assert_memory_equal(got[k].bytes, want, 32);
        }
    }
}

static void test_keccak__over_its_own_inputs__second_hash(void **state)
{
    struct rwd_keccak hashes[9];
    struct rwd_keccak want[9];

    (void)state;
    for (size_t i = 0; i < 9; i++) {
        rwd_keccak256(&i, sizeof i, &hashes[i]);
        rwd_keccak256(hashes[i].bytes, 32, &want[i]);
    }
    rwd_keccak256_many(hashes[0].bytes, 32, 32, 9, hashes);
    assert_memory_equal(hashes, want, sizeof want);
}

static void test_keccak__nodes__of_the_sorted_pair(void **state)
{
    enum { COUNT = 150 }; /* more than two rounds */
    struct rwd_keccak *children = ron_alloc_array((size_t)2 * COUNT, sizeof *children);
    struct rwd_keccak *got = ron_alloc_array(COUNT, sizeof *got);

    (void)state;
    assert_non_null(children);
    assert_non_null(got);
    for (size_t i = 0; i < (size_t)2 * COUNT; i++) {
        rwd_keccak256(&i, sizeof i, &children[i]);
    }
    rwd_keccak256_nodes(children, COUNT, got);
    for (size_t i = 0; i < COUNT; i++) {
        const struct rwd_keccak *a = &children[2 * i];
        const struct rwd_keccak *b = &children[2 * i + 1];
        bool swap = memcmp(a, b, 32) > 0;
        uint8_t pair[64];
        struct rwd_keccak want;
        struct rwd_keccak other;

        memcpy(pair, swap ? b : a, 32);
        memcpy(pair + 32, swap ? a : b, 32);
        slow_keccak(pair, 64, want.bytes);
        assert_memory_equal(&got[i], &want, 32);
        rwd_keccak256_node(b, a, &other);
        assert_memory_equal(&other, &want, 32);
    }
    ron_free(children);
    ron_free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keccak__known_inputs__known_hashes),
        cmocka_unit_test(test_keccak__every_length_to_three_blocks__as_the_oracle),
        cmocka_unit_test(test_keccak__a_million_bytes__as_the_oracle),
        cmocka_unit_test(test_keccak__many_side_by_side__as_one_by_one),
        cmocka_unit_test(test_keccak__four_at_once__each_its_own),
        cmocka_unit_test(test_keccak__over_its_own_inputs__second_hash),
        cmocka_unit_test(test_keccak__nodes__of_the_sorted_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
