/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: names are those of the format page, for everybody: golden keys, grammars, folders.
 * Method: keys against values computed with another BLAKE3; grammars character by character;
 * folders there and back, at random too. */
#include "support/support.h"

#include "rewarder/input/name.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static struct ron_b3 id_of(const char *text)
{
    struct ron_b3 id;

    assert_int_equal(ron_b3_parse(text, strlen(text), &id, NULL), RON_OK);
    return id;
}

static struct ron_b3 id_of_digit(char digit)
{
    char text[RON_B3_ID_SIZE] = "b3:";

    memset(text + 3, digit, RON_B3_HEX_LEN);
    text[RON_B3_ID_LEN] = '\0';
    return id_of(text);
}

static void check_run_key(const char *salt, const char *epoch, const struct ron_b3 *policy_hash,
                          const struct ron_b3 *inputs, const char *expected)
{
    struct ron_b3 key;
    char text[RON_B3_ID_SIZE];

    rwd_run_key(str(salt), str(epoch), policy_hash, inputs, &key);
    ron_b3_format(&key, text);
    assert_string_equal(text, expected);
}

static void test_name__golden_run_keys__same(void **state)
{
    struct ron_b3 a = id_of_digit('a');
    struct ron_b3 b = id_of_digit('b');
    struct ron_b3 snapshot =
        id_of("b3:81d428e1df7c29a8443467db8ed59ee2628ac43acd47c692fbc3c23ee495606d");

    (void)state;
    check_run_key("salt", "epoch-1", &b, &a,
                  "b3:ea6413000c26fab26fa1583b1063e47f673547673704b42fc67c05fc5a600a46");
    check_run_key(RWD_SALT_DEFAULT, "interop-epoch-1", &b, &snapshot,
                  "b3:ffd1e7465fb118c067fd14c30a36e2e12ba27f1e1fca34c4b7edcac919dd9bb9");
}

/* The keys as the format page spells them, hashed in one go. */
static void check_spelled(const char *spelled, const char *prefix, size_t len, const char *key)
{
    struct ron_b3 hash;
    char text[RON_B3_ID_SIZE];

    ron_b3_hash(spelled, strlen(spelled), &hash);
    ron_b3_format(&hash, text);
    assert_int_equal(strlen(key), len);
    assert_memory_equal(key, prefix, strlen(prefix));
    assert_memory_equal(key + strlen(prefix), text + 3, len - strlen(prefix));
}

static void test_name__intent_key__as_spelled(void **state)
{
    struct ron_b3 run = id_of_digit('c');
    char key[RWD_INTENT_KEY_SIZE];

    (void)state;
    rwd_intent_key(&run, str("acct_a"), ron_money_of(356), key);
    check_spelled("svc-rewarder|settlement-intent|v2|"
                  "b3:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc|acct_a|356",
                  "b3:", RWD_INTENT_KEY_LEN, key);
    rwd_intent_key(&run, str("acct_a"), RON_MONEY_MAX, key);
    check_spelled("svc-rewarder|settlement-intent|v2|"
                  "b3:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc|acct_a|"
                  "340282366920938463463374607431768211455",
                  "b3:", RWD_INTENT_KEY_LEN, key);
}

static void test_name__batch_key__as_spelled(void **state)
{
    struct ron_b3 run = id_of_digit('c');
    char key[RWD_BATCH_KEY_SIZE];

    (void)state;
    rwd_batch_key(&run, UINT64_MAX, 4096, 2, key);
    check_spelled("svc-rewarder|settlement-batch|v1|"
                  "b3:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc|"
                  "18446744073709551615|4096|2",
                  "rew:", RWD_BATCH_KEY_LEN, key);
}

static void test_name__claim_key__of_the_epoch_alone(void **state)
{
    char key[RWD_BATCH_KEY_SIZE];

    (void)state;
    rwd_claim_key(str("salt"), str("epoch-1"), 3, key);
    check_spelled("svc-rewarder|epoch-claim|v1|salt|epoch-1|3", "rew:", RWD_BATCH_KEY_LEN, key);
}

/* ---- grammars -------------------------------------------------------------------------------- */

static void test_name__each_byte__allowed_or_not(void **state)
{
    static const char common[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[3] = {'x', (char)c, 'y'};
        struct ron_str name = {text, sizeof text};
        bool is_common = c != 0 && strchr(common, c) != NULL;

        assert_int_equal(rwd_epoch_ok(name), is_common);
        assert_int_equal(rwd_policy_id_ok(name), is_common);
        assert_int_equal(rwd_account_ok(name), is_common || c == '/');
        assert_int_equal(rwd_account_char((char)c), is_common || c == '/');
    }
}

static void test_name__lengths__bounded(void **state)
{
    char text[200];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_false(rwd_epoch_ok((struct ron_str){text, 0}));
    assert_false(rwd_account_ok((struct ron_str){text, 0}));
    assert_false(rwd_policy_id_ok((struct ron_str){text, 0}));
    assert_true(rwd_epoch_ok((struct ron_str){text, RWD_EPOCH_MAX}));
    assert_false(rwd_epoch_ok((struct ron_str){text, RWD_EPOCH_MAX + 1}));
    assert_true(rwd_account_ok((struct ron_str){text, RWD_ACCOUNT_MAX}));
    assert_false(rwd_account_ok((struct ron_str){text, RWD_ACCOUNT_MAX + 1}));
    assert_true(rwd_policy_id_ok((struct ron_str){text, RWD_POLICY_ID_MAX}));
    assert_false(rwd_policy_id_ok((struct ron_str){text, RWD_POLICY_ID_MAX + 1}));
}

static void test_name__folder_too_long_for_a_file_name__refused(void **state)
{
    char text[RWD_EPOCH_MAX];
    char folder[RWD_FOLDER_SIZE];

    (void)state;
    memset(text, 'x', sizeof text);
    memset(text, ':', 48);
    assert_true(rwd_epoch_ok((struct ron_str){text, sizeof text}));
    rwd_epoch_folder((struct ron_str){text, sizeof text}, folder);
    assert_int_equal(strlen(folder), RWD_FOLDER_MAX);
    text[48] = '.';
    assert_false(rwd_epoch_ok((struct ron_str){text, sizeof text}));
}

/* ---- folders --------------------------------------------------------------------------------- */

static void test_name__folders__there_and_back(void **state)
{
    static const struct {
        const char *epoch;
        const char *folder;
    } rows[] = {
        {"interop-epoch-1", "interop-epoch-1"},
        {".", "%2E"},
        {"..", "%2E%2E"},
        {"a.b", "a%2Eb"},
        {"a:b", "a%3Ab"},
        {"2026-11-16T14:00:00Z", "2026-11-16T14%3A00%3A00Z"},
        {"-_", "-_"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char folder[RWD_FOLDER_SIZE];
        char epoch[RWD_EPOCH_MAX + 1];

        rwd_epoch_folder(str(rows[i].epoch), folder);
        assert_string_equal(folder, rows[i].folder);
        assert_true(rwd_folder_epoch(folder, epoch));
        assert_string_equal(epoch, rows[i].epoch);
    }
}

static void test_name__folders_of_others__refused(void **state)
{
    static const char *const bad[] = {"",     ".",     "..",    "a.b",  "a:b",   "%",      "%2",
                                      "%2e",  "%3a",   "%41",   "%2F",  "%00",   "a/b",    "a b",
                                      "%2E.", "%%2E2", "%252E", "a%2",  ".tmp",  "x.tmp",  "x~",
                                      "%3",   "%E2",   "\xc3",  "a\nb", "%2E%2", "%3A%3a", "%%"};
    char long_name[RWD_EPOCH_MAX + 2];
    char epoch[RWD_EPOCH_MAX + 1] = "untouched";

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(rwd_folder_epoch(bad[i], epoch));
    }
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_false(rwd_folder_epoch(long_name, epoch));
    assert_string_equal(epoch, "untouched");
}

static void test_name__random_folder_names__only_what_is_written(void **state)
{
    static const char alphabet[] = "aZ0_-.:%23EAe";
    struct ron_rand rand = support_rand();
    size_t good = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char name[12];
        char epoch[RWD_EPOCH_MAX + 1];
        char folder[RWD_FOLDER_SIZE];
        size_t len = ron_rand_below(&rand, sizeof name);

        for (size_t i = 0; i < len; i++) {
            name[i] = alphabet[ron_rand_below(&rand, sizeof alphabet - 1)];
        }
        name[len] = '\0';
        if (rwd_folder_epoch(name, epoch)) {
            good++;
            rwd_epoch_folder(str(epoch), folder);
            assert_string_equal(folder, name);
        }
    }
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name__golden_run_keys__same),
        cmocka_unit_test(test_name__intent_key__as_spelled),
        cmocka_unit_test(test_name__batch_key__as_spelled),
        cmocka_unit_test(test_name__claim_key__of_the_epoch_alone),
        cmocka_unit_test(test_name__each_byte__allowed_or_not),
        cmocka_unit_test(test_name__lengths__bounded),
        cmocka_unit_test(test_name__folder_too_long_for_a_file_name__refused),
        cmocka_unit_test(test_name__folders__there_and_back),
        cmocka_unit_test(test_name__folders_of_others__refused),
        cmocka_unit_test(test_name__random_folder_names__only_what_is_written),
    };

    return cmocka_run_group_tests_name("rewarder.name", tests, NULL, NULL);
}
