/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: OpenZeppelin trees are the package's: roots, dumps, proofs; a dump that does not hold
 *   together is refused, whatever was changed in it.
 * Method: the tree of the package's own README and dumps it wrote; a second, recursive way to the
 *   root; every byte of a dump changed once. tests/system/105-public-trees.py compares with the
 *   package itself. */
#include "support/support.h"

#include "rewarder/tree/oz.h"
#include "ron/base/alloc.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static struct rwd_oz *new_tree(const char *const *types, size_t count)
{
    struct ron_str names[RWD_ABI_TYPES_MAX];
    struct rwd_oz *oz = NULL;

    for (size_t i = 0; i < count; i++) {
        names[i] = str(types[i]);
    }
    assert_int_equal(rwd_oz_new(names, count, &oz, NULL), RON_OK);
    return oz;
}

static struct rwd_oz *new_claims(void)
{
    static const char *const types[] = {"address", "uint256"};

    return new_tree(types, 2);
}

static void add(struct rwd_oz *oz, const char *a, const char *b)
{
    struct ron_str texts[] = {str(a), str(b)};

    assert_int_equal(rwd_oz_add(oz, texts, NULL), RON_OK);
}

/* `count` leaves that follow from `salt`. */
static struct rwd_oz *some_tree(size_t count, uint64_t salt)
{
    struct rwd_oz *oz = new_claims();

    for (size_t i = 0; i < count; i++) {
        struct rwd_keccak hash;
        uint64_t seed[2] = {salt, i};
        char address[RWD_ADDRESS_TEXT + 1] = {0};
        char amount[24];

        rwd_keccak256(seed, sizeof seed, &hash);
        rwd_hex_put(hash.bytes, RWD_ADDRESS_BYTES, address);
        (void)snprintf(amount, sizeof amount, "%zu", 1 + i * 1000003);
        add(oz, address, amount);
    }
    assert_int_equal(rwd_oz_build(oz, NULL), RON_OK);
    return oz;
}

static enum ron_rc gather(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    return ron_buf_append(arg, bytes, len);
}

static void dump(const struct rwd_oz *oz, struct ron_buf *out)
{
    struct rwd_sink sink = {gather, out};

    ron_buf_init(out, 1 << 24);
    assert_int_equal(rwd_oz_dump(oz, &sink, NULL), RON_OK);
}

static enum ron_rc read_text(const char *text, size_t len, struct rwd_oz **ret, struct ron_err *err)
{
    char *copy = ron_alloc(len + 1);
    enum ron_rc rc;

    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    rc = rwd_oz_read(copy, len, ret, err);
    ron_free(copy);
    return rc;
}

/* Two addresses of the README, as the package dumps them. */
static const char readme[] =
    "{\"format\":\"standard-v1\",\"leafEncoding\":[\"address\",\"uint256\"],\"tree\":["
    "\"0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77\","
    "\"0xeb02c421cfa48976e66dfb29120745909ea3a0f843456c263cf8f1253483e283\","
    "\"0xb92c48e9d7abe27fd8dfd6b5dfdbfb1c9a463f80c712b66f3a5180a090cccafc\"],\"values\":["
    "{\"value\":[\"0x1111111111111111111111111111111111111111\",\"5000000000000000000\"],"
    "\"treeIndex\":1},"
    "{\"value\":[\"0x2222222222222222222222222222222222222222\",\"2500000000000000000\"],"
    "\"treeIndex\":2}]}";

static struct rwd_oz *readme_tree(void)
{
    struct rwd_oz *oz = new_claims();

    add(oz, "0x1111111111111111111111111111111111111111", "5000000000000000000");
    add(oz, "0x2222222222222222222222222222222222222222", "2500000000000000000");
    assert_int_equal(rwd_oz_build(oz, NULL), RON_OK);
    return oz;
}

static void test_tree_oz__tree_of_the_readme__dump_of_the_package(void **state)
{
    struct rwd_oz *oz = readme_tree();
    struct ron_buf out;

    (void)state;
    dump(oz, &out);
    assert_string_equal(ron_buf_text(&out), readme);
    ron_buf_done(&out);
    rwd_oz_free(oz);
}

/* The leaf's hash by its definition. */
static void leaf_of(const struct rwd_oz *oz, size_t index, struct rwd_keccak *ret)
{
    struct ron_str row = rwd_oz_value(oz, index);
    uint8_t words[64] = {0};
    char amount[24] = {0};
    uint64_t units;

    assert_true(rwd_hex_get((struct ron_str){row.ptr + 2, RWD_ADDRESS_TEXT}, words + 12,
                            RWD_ADDRESS_BYTES));
    memcpy(amount, row.ptr + RWD_ADDRESS_TEXT + 5, row.len - RWD_ADDRESS_TEXT - 7);
    units = strtoull(amount, NULL, 10);
    for (size_t i = 0; i < 8; i++) {
        words[63 - i] = (uint8_t)(units >> (8 * i));
    }
    rwd_keccak256(words, sizeof words, ret);
    rwd_keccak256(ret->bytes, sizeof *ret, ret);
}

static void test_tree_oz__any_number_of_leaves__sorted_and_proven(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 140; n++) {
        struct rwd_oz *oz = some_tree(n, n);
        struct rwd_keccak before = {0};

        for (size_t at = 2 * n - 2, seen = 0; seen < n; seen++, at--) {
            struct rwd_tree_proof proof;
            struct rwd_keccak leaf;
            size_t i = 0;

            while (rwd_oz_tree_index(oz, i) != at) {
                i++;
                assert_true(i < n);
            }
            leaf_of(oz, i, &leaf);
            assert_true(rwd_keccak_cmp(&before, &leaf) < 0);
            before = leaf;
            rwd_oz_prove(oz, i, &proof);
            assert_true(rwd_tree_proves(&leaf, &proof, rwd_oz_root(oz)));
            leaf.bytes[7] ^= 1;
            assert_false(rwd_tree_proves(&leaf, &proof, rwd_oz_root(oz)));
        }
        rwd_oz_free(oz);
    }
}

static void test_tree_oz__dump_read_again__the_same_bytes(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 300; n += n < 10 ? 1 : 29) {
        struct rwd_oz *oz = some_tree(n, 7);
        struct rwd_oz *again = NULL;
        struct ron_buf first;
        struct ron_buf second;

        dump(oz, &first);
        assert_int_equal(read_text(ron_buf_text(&first), ron_buf_len(&first), &again, NULL),
                         RON_OK);
        dump(again, &second);
        assert_int_equal(ron_buf_len(&first), ron_buf_len(&second));
        assert_memory_equal(ron_buf_data(&first), ron_buf_data(&second), ron_buf_len(&first));
        ron_buf_done(&first);
        ron_buf_done(&second);
        rwd_oz_free(oz);
        rwd_oz_free(again);
    }
}

static void test_tree_oz__any_byte_of_a_dump_changed__refused_or_the_same_root(void **state)
{
    struct rwd_oz *oz = readme_tree();

    (void)state;
    for (size_t i = 0; i < sizeof readme - 1; i++) {
        for (unsigned bit = 0; bit < 3; bit++) {
            char copy[sizeof readme];
            struct rwd_oz *got = NULL;
            struct ron_err err = {0};
            enum ron_rc rc;

            memcpy(copy, readme, sizeof copy);
            copy[i] = (char)(copy[i] ^ 1 << (bit == 2 ? 5 : bit));
            rc = read_text(copy, sizeof copy - 1, &got, &err);
            assert_true(rc == RON_OK || rc == RON_INVALID || rc == RON_CONFLICT || rc == RON_LIMIT);
            if (rc == RON_OK) {
                /* A digit of an address may be of either case, and a name may gain nothing. */
                assert_int_equal(rwd_keccak_cmp(rwd_oz_root(got), rwd_oz_root(oz)), 0);
                rwd_oz_free(got);
            } else {
                assert_true(err.msg[0] != '\0');
            }
        }
    }
    rwd_oz_free(oz);
}

/* `what` in the README's dump becomes `by`; the reader answers `rc` and says `why`. */
static void check_refused(const char *what, const char *by, enum ron_rc rc, const char *why)
{
    const char *at = strstr(readme, what);
    char copy[2 * sizeof readme];
    struct ron_err err = {0};
    struct rwd_oz *got = NULL;

    assert_non_null(at);
    (void)snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - readme), readme, by,
                   at + strlen(what));
    assert_int_equal(read_text(copy, strlen(copy), &got, &err), rc);
    if (strstr(err.msg, why) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, why);
    }
}

static void test_tree_oz__dump_that_does_not_hold_together__says_where(void **state)
{
    (void)state;
    check_refused("5000000000000000000", "5000000000000000001", RON_CONFLICT,
                  "tree[1] is not the hash of its value");
    check_refused("0xd4dee0", "0xd4dee1", RON_CONFLICT, "tree[0] is not the hash of its children");
    check_refused("\"treeIndex\":2", "\"treeIndex\":1", RON_CONFLICT, "two values");
    check_refused("\"treeIndex\":2", "\"treeIndex\":0", RON_CONFLICT, "no leaf");
    check_refused("\"treeIndex\":2", "\"treeIndex\":3", RON_CONFLICT, "no leaf");
    check_refused("\"standard-v1\"", "\"simple-v1\"", RON_INVALID, "standard-v1");
    check_refused("\"address\"", "\"int256\"", RON_INVALID, "int256");
    check_refused("\"uint256\"", "\"uint8\"", RON_INVALID, "values[0]: value 2 is no uint8");
    check_refused(",\"uint256\"", "", RON_INVALID, "more values than types");
    check_refused("\"uint256\"", "\"uint256\",\"bool\"", RON_INVALID, "fewer values than types");
    check_refused("\"format\"", "\"form\"", RON_INVALID, "form");
    check_refused("0xeb02c421", "0xEB02c421", RON_INVALID, "tree[1] is no hash");
    check_refused("{\"value\":[\"0x1111111111111111111111111111111111111111\","
                  "\"5000000000000000000\"],\"treeIndex\":1},",
                  "", RON_CONFLICT, "1 values have a tree of 1 hashes, not 3");
    check_refused("\"5000000000000000000\"", "5000000000000000000", RON_INVALID,
                  "value 2 is no uint256");
    check_refused("[\"0x1111111111111111111111111111111111111111\",\"5000000000000000000\"]",
                  "\"0x11\"", RON_INVALID, "no array");
}

static void test_tree_oz__leaves_not_sorted__a_good_dump_all_the_same(void **state)
{
    /* The package's option sortLeaves: false gives the two the other way round. */
    static const char other[] =
        "{\"format\":\"standard-v1\",\"leafEncoding\":[\"address\",\"uint256\"], \"tree\":["
        "\"0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77\","
        "\"0xb92c48e9d7abe27fd8dfd6b5dfdbfb1c9a463f80c712b66f3a5180a090cccafc\","
        "\"0xeb02c421cfa48976e66dfb29120745909ea3a0f843456c263cf8f1253483e283\"],\"values\":["
        "{\"value\":[ \"0x1111111111111111111111111111111111111111\" ,\"0x4563918244f40000\"],"
        "\"treeIndex\":2},"
        "{\"value\":[\"0x2222222222222222222222222222222222222222\",\"2500000000000000000\"],"
        "\"treeIndex\":1}]}";
    struct rwd_oz *oz = NULL;
    uint8_t address[RWD_ADDRESS_BYTES];
    size_t at = 0;

    (void)state;
    assert_int_equal(read_text(other, sizeof other - 1, &oz, NULL), RON_OK);
    memset(address, 0x22, sizeof address);
    assert_true(rwd_oz_find(oz, address, &at));
    assert_int_equal(at, 1);
    at = 2;
    assert_false(rwd_oz_find(oz, address, &at));
    memset(address, 0x33, sizeof address);
    at = 0;
    assert_false(rwd_oz_find(oz, address, &at));
    /* Blanks between values are not kept. */
    assert_memory_equal(rwd_oz_value(oz, 0).ptr,
                        "[\"0x1111111111111111111111111111111111111111\",\"0x", 49);
    rwd_oz_free(oz);
}

/* One leaf of all types; the hash is the package's. */
static void test_tree_oz__all_types__root_of_the_package(void **state)
{
    static const char *const types[] = {"string",  "bool",    "bytes32", "uint8", "bytes",
                                        "address", "uint128", "bytes4",  "bool"};
    struct ron_str texts[] = {
        str("caf\xc3\xa9 \"quoted\"\n"),
        str("true"),
        str("0x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        str("255"),
        str("0xdeadbeef00112233445566778899aabbccddeeff00112233445566778899aabbcc"),
        str("0xABCDEFabcdef0123456789ABCDEFabcdef012345"),
        str("340282366920938463463374607431768211455"),
        str("0x01020304"),
        str("false"),
    };
    struct rwd_oz *oz = new_tree(types, RON_ARRAY_LEN(types));
    struct rwd_oz *again = NULL;
    struct ron_buf first;
    struct ron_buf second;
    char root[RWD_HASH_TEXT + 1] = {0};

    (void)state;
    assert_int_equal(rwd_oz_add(oz, texts, NULL), RON_OK);
    assert_int_equal(rwd_oz_build(oz, NULL), RON_OK);
    rwd_hex_put(rwd_oz_root(oz)->bytes, RWD_KECCAK_BYTES, root);
    assert_string_equal(root, "0xef4a6a545518e043ca6a6c2b845dc517fd7c055f96a791f9157f5be72f6b45c4");
    dump(oz, &first);
    assert_int_equal(read_text(ron_buf_text(&first), ron_buf_len(&first), &again, NULL), RON_OK);
    dump(again, &second);
    assert_string_equal(ron_buf_text(&second), ron_buf_text(&first));
    ron_buf_done(&first);
    ron_buf_done(&second);
    rwd_oz_free(oz);
    rwd_oz_free(again);
}

static void check_value(const char *type, const char *text, bool good)
{
    const char *const types[] = {type};
    struct rwd_oz *oz = new_tree(types, 1);
    struct ron_str value = str(text);
    struct ron_err err = {0};

    assert_int_equal(rwd_oz_add(oz, &value, &err), good ? RON_OK : RON_INVALID);
    assert_int_equal(err.msg[0] == '\0', good);
    rwd_oz_free(oz);
}

static void test_tree_oz__values_on_the_edge__taken_or_named(void **state)
{
    static const char max[] =
        "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    static const char over[] =
        "115792089237316195423570985008687907853269984665640564039457584007913129639936";

    (void)state;
    check_value("uint256", max, true);
    check_value("uint256", over, false);
    check_value("uint256", "0", true);
    check_value("uint256", "00", false);
    check_value("uint256", "-1", false);
    check_value("uint256", "1e3", false);
    check_value("uint256", "", false);
    check_value("uint256", "0x", false);
    check_value("uint256", "0xfF", true);
    check_value("uint8", "255", true);
    check_value("uint8", "256", false);
    check_value("uint8", "0x100", false);
    check_value("uint248", "0x00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                true);
    check_value("uint248", "0x01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                false);
    check_value("address", "0x111111111111111111111111111111111111111", false);
    check_value("address", "0x11111111111111111111111111111111111111111", false);
    check_value("address", "1111111111111111111111111111111111111111", false);
    check_value("address", "0x111111111111111111111111111111111111111g", false);
    check_value("bool", "yes", false);
    check_value("bytes4", "0x010203", false);
    check_value("bytes", "0x", true);
    check_value("bytes", "0x0", false);
    check_value("bytes", "", false);
    check_value("string", "", true);
    check_value("string", "\xff", false);
}

static void test_tree_oz__types_that_are_not_known__refused(void **state)
{
    static const char *const bad[] = {"uint",      "uint0", "uint7",   "uint264",
                                      "uint08",    "int8",  "bytes33", "bytes0",
                                      "address[]", "",      "Address", "tuple"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_str name = str(bad[i]);
        struct rwd_oz *oz = NULL;
        struct ron_err err = {0};

        assert_int_equal(rwd_oz_new(&name, 1, &oz, &err), RON_INVALID);
        assert_null(oz);
        assert_non_null(strstr(err.msg, "address, uint8"));
    }
}

static void test_tree_oz__equal_leaves__each_has_its_own_place(void **state)
{
    struct rwd_oz *oz = new_claims();

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        add(oz, "0x1111111111111111111111111111111111111111", "1");
    }
    assert_int_equal(rwd_oz_build(oz, NULL), RON_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rwd_oz_tree_index(oz, i), 8 - i);
    }
    rwd_oz_free(oz);
}

static void test_tree_oz__no_leaves__refused(void **state)
{
    struct rwd_oz *oz = new_claims();

    (void)state;
    assert_int_equal(rwd_oz_build(oz, NULL), RON_INVALID);
    rwd_oz_free(oz);
}

static enum ron_rc refuse(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)arg;
    (void)bytes;
    (void)len;
    return ron_err_set(err, RON_IO, "no room");
}

static void test_tree_oz__sink_that_fails__tells(void **state)
{
    struct rwd_oz *oz = some_tree(3000, 1); /* more than is gathered at once */
    struct rwd_sink sink = {refuse, NULL};

    (void)state;
    assert_int_equal(rwd_oz_dump(oz, &sink, NULL), RON_IO);
    rwd_oz_free(oz);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_oz__tree_of_the_readme__dump_of_the_package),
        cmocka_unit_test(test_tree_oz__any_number_of_leaves__sorted_and_proven),
        cmocka_unit_test(test_tree_oz__dump_read_again__the_same_bytes),
        cmocka_unit_test(test_tree_oz__any_byte_of_a_dump_changed__refused_or_the_same_root),
        cmocka_unit_test(test_tree_oz__dump_that_does_not_hold_together__says_where),
        cmocka_unit_test(test_tree_oz__leaves_not_sorted__a_good_dump_all_the_same),
        cmocka_unit_test(test_tree_oz__all_types__root_of_the_package),
        cmocka_unit_test(test_tree_oz__values_on_the_edge__taken_or_named),
        cmocka_unit_test(test_tree_oz__types_that_are_not_known__refused),
        cmocka_unit_test(test_tree_oz__equal_leaves__each_has_its_own_place),
        cmocka_unit_test(test_tree_oz__no_leaves__refused),
        cmocka_unit_test(test_tree_oz__sink_that_fails__tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
