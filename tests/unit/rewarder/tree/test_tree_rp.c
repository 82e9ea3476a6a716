/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: Rocket Pool trees are Rocket Pool's: two trees that it published have the same root and
 *   proofs here, and a file that does not hold together is refused.
 * Method: rewards, roots and a proof of its public devnet (rewards-trees, intervals 0 and 22), one
 *   of each kind of leaf; the second has seven nodes, so that its filling up shows; a plain second
 *   way to every root; files changed in one place. */
#include "support/support.h"

#include "rewarder/tree/claims.h"
#include "ron/base/alloc.h"

struct plain {
    const char *address;
    const char *collateral;
    const char *oracle;
};

static const struct plain devnet_0[] = {
    {"0x03600953f9184f6da395ac8d7aa94574117cbf3e", "1684375775630100000000", "0"},
    {"0x9d5e78c8c8c30793f142dcc68e759b69196f6886", "0", "220573018237275000000"},
    {"0xa3819ae703fe88a5e6a917d0af2c88a453bdfa44", "0", "220573018237275000000"},
    {"0xfcb7dc1baee1651137f9c0ea6f2e650359ade290", "0", "220573018237275000000"},
};
static const struct plain devnet_22[] = {
    {"0x03600953f9184f6da395ac8d7aa94574117cbf3e", "710012827176301807831", "0"},
    {"0x4d19de4a5a1b1b36ebab3d5c32c01061fbde328d", "2028608077646576593802", "0"},
    {"0x530ab082856a9d3eb3a73ecddd72d14f33c9c1bb", "446915248067347261692", "0"},
    {"0x7aada868f9c147f5aeb67e711ce58f709125373a", "202860807764657659380", "0"},
    {"0x9d5e78c8c8c30793f142dcc68e759b69196f6886", "0", "443718649609568054164"},
    {"0xa3819ae703fe88a5e6a917d0af2c88a453bdfa44", "0", "443718649609568054164"},
    {"0xfcb7dc1baee1651137f9c0ea6f2e650359ade290", "0", "443718649609568054164"},
};

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void add(struct rwd_rp *rp, const struct plain *p)
{
    struct rwd_rp_reward r = {0};

    assert_true(rwd_hex_get(str(p->address), r.address, RWD_ADDRESS_BYTES));
    assert_true(rwd_u256_get(str(p->collateral), r.collateral_rpl));
    assert_true(rwd_u256_get(str(p->oracle), r.oracle_rpl));
    assert_int_equal(rwd_rp_add(rp, &r, NULL), RON_OK);
}

/* Added from the last to the first: their order is no matter. */
static struct rwd_rp *tree_of(const struct plain *list, size_t count, bool voter)
{
    struct rwd_rp *rp = NULL;

    assert_int_equal(rwd_rp_new(voter, &rp, NULL), RON_OK);
    for (size_t i = count; i-- > 0;) {
        add(rp, &list[i]);
    }
    assert_int_equal(rwd_rp_build(rp, NULL), RON_OK);
    return rp;
}

static void check_hash(const struct rwd_keccak *hash, const char *want)
{
    char text[RWD_HASH_TEXT + 1] = {0};

    rwd_hex_put(hash->bytes, RWD_KECCAK_BYTES, text);
    assert_string_equal(text, want);
}

static void test_tree_rp__published_trees__their_roots_and_proofs(void **state)
{
    struct rwd_rp *first = tree_of(devnet_0, RON_ARRAY_LEN(devnet_0), false);
    struct rwd_rp *second = tree_of(devnet_22, RON_ARRAY_LEN(devnet_22), true);
    struct rwd_tree_proof proof;

    (void)state;
    check_hash(rwd_rp_root(first),
               "0xf184be5e223b4a614be59c8f4950c4393c8550d6986f1b2ad85d8720c39fa6fb");
    rwd_rp_prove(first, 2, &proof);
    assert_int_equal(proof.count, 2);
    check_hash(&proof.hashes[0],
               "0x13b64b05d44ddeb05814c9e24fefd4b6a7850e3c0d2c04dad46b6d710337edf8");
    check_hash(&proof.hashes[1],
               "0x88cbdec9989ed7dce536eafacbe63f774c28849be537d4cca2d85f789030b494");

    check_hash(rwd_rp_root(second),
               "0x0394aa7fd48939e1be559eaed6481eeb9fdf13738abf9fdfe8ce3c0805fc6f8e");
    rwd_rp_prove(second, 3, &proof);
    assert_int_equal(proof.count, 3);
    /* Beside the last of seven leaves stands a hash of zeros. */
    check_hash(&proof.hashes[0],
               "0x0000000000000000000000000000000000000000000000000000000000000000");
    check_hash(&proof.hashes[1],
               "0x75769287f11979142a6e83a4df8ccdb69b1f4ef67087ff5006970c185e36bf9c");
    rwd_rp_free(first);
    rwd_rp_free(second);
}

/* A list of hashes halved until one is left. */
static void slow_root(struct rwd_keccak *hashes, size_t count, struct rwd_keccak *ret)
{
    for (; count > 1; count /= 2) {
        for (size_t i = 0; i < count / 2; i++) {
            rwd_keccak256_node(&hashes[2 * i], &hashes[2 * i + 1], &hashes[i]);
        }
    }
    *ret = hashes[0];
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static void leaf_of(const struct rwd_rp_reward *r, struct rwd_keccak *ret)
{
    uint8_t bytes[116] = {0};

    memcpy(bytes, r->address, 20);
    bytes[51] = (uint8_t)r->network;
    assert_true(rwd_u256_add(r->collateral_rpl, r->oracle_rpl, bytes + 52));
    memcpy(bytes + 84, r->pool_eth, 32);
    rwd_keccak256(bytes, sizeof bytes, ret);
}

static void test_tree_rp__any_number_of_nodes__filled_up_and_proven(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 70; n++) {
        struct rwd_keccak hashes[128] = {0};
        struct rwd_keccak root;
        struct rwd_rp *rp = NULL;
        size_t full = 1;

        assert_int_equal(rwd_rp_new(false, &rp, NULL), RON_OK);
        for (size_t i = 0; i < n; i++) {
            struct rwd_rp_reward r = {.network = i % 3};

            rwd_keccak256(&i, sizeof i, &root);
            memcpy(r.address, root.bytes, RWD_ADDRESS_BYTES);
            r.collateral_rpl[31] = (uint8_t)i;
            r.oracle_rpl[30] = 7;
            r.pool_eth[31] = (uint8_t)(i * 3);
            leaf_of(&r, &hashes[i]);
            assert_int_equal(rwd_rp_add(rp, &r, NULL), RON_OK);
        }
        assert_int_equal(rwd_rp_build(rp, NULL), RON_OK);
        qsort(hashes, n, sizeof hashes[0], by_hash);
        while (full < n) {
            full *= 2;
        }
        slow_root(hashes, full, &root);
        assert_memory_equal(rwd_rp_root(rp), &root, sizeof root);
        for (size_t i = 0; i < n; i++) {
            struct rwd_tree_proof proof;
            struct rwd_keccak leaf;
            size_t found;

            assert_true(rwd_rp_find(rp, rwd_rp_reward(rp, i)->address, &found));
            assert_int_equal(found, i);
            leaf_of(rwd_rp_reward(rp, i), &leaf);
            rwd_rp_prove(rp, i, &proof);
            assert_true(rwd_tree_proves(&leaf, &proof, &root));
        }
        rwd_rp_free(rp);
    }
}

static enum ron_rc gather(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    return ron_buf_append(arg, bytes, len);
}

static void write_text(const struct rwd_rp *rp, struct ron_buf *out)
{
    struct rwd_sink sink = {gather, out};

    ron_buf_init(out, 1 << 22);
    assert_int_equal(rwd_rp_write(rp, &sink, NULL), RON_OK);
}

static enum ron_rc read_text(const char *text, struct rwd_rp **ret, struct ron_err *err)
{
    size_t len = strlen(text);
    char *copy = ron_strdup(text);
    enum ron_rc rc;

    assert_non_null(copy);
    rc = rwd_rp_read(copy, len, ret, err);
    ron_free(copy);
    return rc;
}

static void test_tree_rp__file_read_again__the_same_bytes(void **state)
{
    (void)state;
    for (unsigned voter = 0; voter < 2; voter++) {
        struct rwd_rp *rp = tree_of(devnet_22, RON_ARRAY_LEN(devnet_22), voter == 1);
        struct rwd_rp *again = NULL;
        struct ron_buf first;
        struct ron_buf second;

        write_text(rp, &first);
        assert_int_equal(read_text(ron_buf_text(&first), &again, NULL), RON_OK);
        write_text(again, &second);
        assert_string_equal(ron_buf_text(&first), ron_buf_text(&second));
        ron_buf_done(&first);
        ron_buf_done(&second);
        rwd_rp_free(rp);
        rwd_rp_free(again);
    }
}

/* `what` in the file of devnet_0 becomes `by`. */
static void check_read(const char *what, const char *by, enum ron_rc want, const char *why)
{
    struct rwd_rp *rp = tree_of(devnet_0, RON_ARRAY_LEN(devnet_0), false);
    struct rwd_rp *got = NULL;
    struct ron_err err = {0};
    struct ron_buf out;
    char copy[4096];
    const char *text;
    const char *at;
    enum ron_rc rc;

    write_text(rp, &out);
    text = ron_buf_text(&out);
    at = strstr(text, what);
    assert_non_null(at);
    (void)snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
    rc = read_text(copy, &got, &err);
    if (rc != want || strstr(err.msg, why) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", ron_rc_name(rc), err.msg, why);
    }
    rwd_rp_free(got);
    rwd_rp_free(rp);
    ron_buf_done(&out);
}

static void test_tree_rp__file_that_does_not_hold_together__says_why(void **state)
{
    (void)state;
    check_read("1684375775630100000000", "1684375775630100000001", RON_CONFLICT,
               "merkleRoot is not the root of the rewards: 0x");
    check_read("0xf184be5e", "0xf184be5f", RON_CONFLICT, "merkleRoot is not the root");
    check_read("0x13b64b05", "0x13b64b06", RON_CONFLICT,
               "the proof of 0xa3819ae703fe88a5e6a917d0af2c88a453bdfa44");
    check_read("\"0x4d6adb667f36cf26d60586998f8d94fbffdf2bb291dc1f04664a787eab2a3954\",", "",
               RON_CONFLICT, "the proof of 0x03600953f9184f6da395ac8d7aa94574117cbf3e");
    check_read("0x03600953", "0xzz600953", RON_INVALID, "is no address");
    check_read("0x03600953f9184f6da395ac8d7aa94574117cbf3e",
               "0x9D5E78c8c8c30793f142dcc68e759b69196f6886", RON_INVALID, "stands twice");
    check_read("\"220573018237275000000\"", "\"-1\"", RON_INVALID, "no whole number");
    check_read("\"smoothingPoolEth\":\"0\"", "\"smoothingPoolEth\":\"0\",\"voterShareEth\":\"1\"",
               RON_INVALID, "voterShareEth");
    check_read("\"rewardNetwork\":0,", "", RON_INVALID, "rewardNetwork");
    check_read("\"merkleRoot\"", "\"root\"", RON_INVALID, "merkleRoot");
    check_read("\"nodeRewards\":{", "\"nodeRewards\":{},\"old\":{", RON_INVALID, "empty");
    check_read("\"nodeRewards\":{", "\"nodeRewards\":[],\"old\":{", RON_INVALID, "no object");
}

static void test_tree_rp__what_is_no_part_of_the_tree__is_skipped(void **state)
{
    (void)state;
    check_read("\"merkleRoot\"",
               "\"index\": 3, \"totalRewards\":{\"protocolDaoRpl\":\"1\"},\n\"merkleRoot\"", RON_OK,
               "");
    check_read("\"rewardNetwork\":0",
               "\"rewardNetwork\" : 0 , \"smoothingPoolEligibilityRate\":0.5", RON_OK, "");
    /* A node that is paid nothing has no leaf and no proof. */
    check_read("\"nodeRewards\":{",
               "\"nodeRewards\":{\"0x0000000000000000000000000000000000000001\":{\"rewardNetwork\":"
               "0,\"collateralRpl\":\"0\",\"oracleDaoRpl\":\"0\",\"smoothingPoolEth\":\"0\","
               "\"merkleProof\":null},",
               RON_OK, "");
}

static void test_tree_rp__sums_on_the_edge__taken_or_refused(void **state)
{
    struct rwd_rp_reward r = {0};
    struct rwd_rp *rp = NULL;

    (void)state;
    assert_false(rwd_rp_pays(&r));
    memset(r.collateral_rpl, 0xff, sizeof r.collateral_rpl);
    assert_int_equal(rwd_rp_new(false, &rp, NULL), RON_OK);
    assert_int_equal(rwd_rp_build(rp, NULL), RON_INVALID);
    assert_int_equal(rwd_rp_add(rp, &r, NULL), RON_OK);
    r.oracle_rpl[31] = 1;
    assert_int_equal(rwd_rp_add(rp, &r, NULL), RON_INVALID);
    rwd_rp_free(rp);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void test_tree_rp__numbers__text_and_back(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        uint8_t number[RWD_U256_BYTES] = {0};
        uint8_t again[RWD_U256_BYTES];
        char digits[RWD_U256_TEXT];
        size_t len = 1 + ron_rand_below(&rand, RWD_U256_BYTES);

        for (size_t i = RWD_U256_BYTES - len; i < RWD_U256_BYTES; i++) {
            number[i] = (uint8_t)ron_rand_u64(&rand);
        }
        len = rwd_u256_put(number, digits);
        assert_true(rwd_u256_get((struct ron_str){digits, len}, again));
        assert_memory_equal(number, again, sizeof number);
        if (len <= RON_MONEY_DIGITS_MAX - 1) {
            struct ron_money money;

            assert_int_equal(ron_money_parse(digits, len, &money, NULL), RON_OK);
            for (size_t i = 0; i < 16; i++) {
                assert_int_equal(number[31 - i], (uint8_t)(money.v >> (8 * i)));
            }
        }
    }
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void test_tree_rp__accounts__addresses_or_left_out(void **state)
{
    static const char address[] = "0xABcdef0123456789abcdef0123456789abcdef01";
    static const char *const good[] = {"0xABcdef0123456789abcdef0123456789abcdef01",
                                       "eth:0xABcdef0123456789abcdef0123456789abcdef01",
                                       "t:1/svc:x:0xABcdef0123456789abcdef0123456789abcdef01"};
    static const char *const bad[] = {"acct_a",
                                      "",
                                      "eth/0xABcdef0123456789abcdef0123456789abcdef01",
                                      "x0xABcdef0123456789abcdef0123456789abcdef01",
                                      "0xABcdef0123456789abcdef0123456789abcdef0",
                                      "0XABcdef0123456789abcdef0123456789abcdef01",
                                      "0xABcdef0123456789abcdef0123456789abcdef01/x"};
    uint8_t want[RWD_ADDRESS_BYTES];
    uint8_t got[RWD_ADDRESS_BYTES];

    (void)state;
    assert_true(rwd_hex_get(str(address), want, sizeof want));
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        assert_true(rwd_account_address(str(good[i]), got));
        assert_memory_equal(got, want, sizeof want);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(rwd_account_address(str(bad[i]), got));
    }
}

static void test_tree_rp__accounts_of_one_address__one_claim_of_their_sum(void **state)
{
    struct rwd_claims claims = {0};
    struct rwd_oz *oz = NULL;

    (void)state;
    assert_int_equal(rwd_claims_add(&claims, str("acct_a"), ron_money_of(5), NULL), RON_OK);
    assert_int_equal(rwd_claims_add(&claims, str("x:0x2222222222222222222222222222222222222222"),
                                    ron_money_of(7), NULL),
                     RON_OK);
    assert_int_equal(rwd_claims_add(&claims, str("y:0x2222222222222222222222222222222222222222"),
                                    ron_money_of(8), NULL),
                     RON_OK);
    assert_int_equal(rwd_claims_add(&claims, str("z:0x1111111111111111111111111111111111111111"),
                                    ron_money_of(9), NULL),
                     RON_OK);
    assert_int_equal(rwd_claims_seal(&claims, NULL), RON_OK);
    assert_int_equal(claims.count, 2);
    assert_int_equal(claims.left_out, 1);
    assert_int_equal(claims.merged, 1);
    assert_int_equal(rwd_claims_oz(&claims, &oz, NULL), RON_OK);
    assert_memory_equal(rwd_oz_value(oz, 0).ptr,
                        "[\"0x1111111111111111111111111111111111111111\",\"9\"]", 50);
    assert_memory_equal(rwd_oz_value(oz, 1).ptr,
                        "[\"0x2222222222222222222222222222222222222222\",\"15\"]", 51);
    rwd_oz_free(oz);
    rwd_claims_done(&claims);
}

static void test_tree_rp__claims_of_payouts__rpl_or_eth(void **state)
{
    struct rwd_claims claims = {0};
    struct ron_money amount = {.v = ron_u128_make(1, 2)};

    (void)state;
    assert_int_equal(
        rwd_claims_add(&claims, str("0x1111111111111111111111111111111111111111"), amount, NULL),
        RON_OK);
    assert_int_equal(rwd_claims_seal(&claims, NULL), RON_OK);
    for (unsigned eth = 0; eth < 2; eth++) {
        struct rwd_rp *rp = NULL;
        const uint8_t *number;

        assert_int_equal(rwd_claims_rp(&claims, 5, eth == 1, &rp, NULL), RON_OK);
        assert_int_equal(rwd_rp_reward(rp, 0)->network, 5);
        number = eth == 1 ? rwd_rp_reward(rp, 0)->pool_eth : rwd_rp_reward(rp, 0)->collateral_rpl;
        assert_int_equal(number[23], 1);
        assert_int_equal(number[31], 2);
        rwd_rp_free(rp);
    }
    rwd_claims_done(&claims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_rp__published_trees__their_roots_and_proofs),
        cmocka_unit_test(test_tree_rp__any_number_of_nodes__filled_up_and_proven),
        cmocka_unit_test(test_tree_rp__file_read_again__the_same_bytes),
        cmocka_unit_test(test_tree_rp__file_that_does_not_hold_together__says_why),
        cmocka_unit_test(test_tree_rp__what_is_no_part_of_the_tree__is_skipped),
        cmocka_unit_test(test_tree_rp__sums_on_the_edge__taken_or_refused),
        cmocka_unit_test(test_tree_rp__numbers__text_and_back),
        cmocka_unit_test(test_tree_rp__accounts__addresses_or_left_out),
        cmocka_unit_test(test_tree_rp__accounts_of_one_address__one_claim_of_their_sum),
        cmocka_unit_test(test_tree_rp__claims_of_payouts__rpl_or_eth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
