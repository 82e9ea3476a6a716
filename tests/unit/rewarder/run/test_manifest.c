/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: run.json has one spelling, one commitment and an attestation that binds it; a payee's proof
 * is believed only as it was made.
 * Method: the golden run with its bytes written down; round trips; every bit flipped in turn. */
#include "unit/rewarder/art_fixture.h"

#define GOLDEN_COMMITMENT "b3:2ac5742bc2bceb7f5578e9a65730aa16af5ff02f69b088c8b81e8cf1edfc9710"

static void read_back(const struct rwd_manifest *m, enum ron_rc expected)
{
    char memory[RWD_MANIFEST_MAX + 1];
    char again_memory[RWD_MANIFEST_MAX + 1];
    struct rwd_manifest read;
    struct ron_buf text;
    struct ron_buf again;

    ron_buf_init_over(&text, memory, sizeof memory);
    ron_buf_init_over(&again, again_memory, sizeof again_memory);
    assert_int_equal(rwd_manifest_write(m, &text), RON_OK);
    assert_int_equal(rwd_manifest_read(memory, ron_buf_len(&text), &read, NULL), expected);
    if (expected == RON_OK) {
        assert_int_equal(rwd_manifest_write(&read, &again), RON_OK);
        assert_int_equal(ron_buf_len(&again), ron_buf_len(&text));
        assert_memory_equal(ron_buf_data(&again), ron_buf_data(&text), ron_buf_len(&text));
        assert_int_equal(read.has_ledger, m->has_ledger);
        assert_int_equal(read.status, m->status);
        assert_int_equal(read.breach, m->breach);
        assert_true(read.carry_in.v == m->carry_in.v);
        assert_true(read.totals.residual.v == m->totals.residual.v);
        assert_int_equal(read.payouts.count, m->payouts.count);
    }
}

static void test_manifest__the_golden_run__has_these_bytes(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_read(ART_GOLDEN, strlen(ART_GOLDEN));
    struct rwd_run run;
    struct ron_buf text;
    char id[RON_B3_ID_SIZE];

    art_publish(a, &snapshot, "interop-epoch-1", NULL, &run);
    ron_b3_format(&run.manifest.inputs_cid, id);
    assert_string_equal(id, "b3:81d428e1df7c29a8443467db8ed59ee2628ac43acd47c692fbc3c23ee495606d");
    assert_true(run.manifest.totals.paid.v == 999 && run.manifest.totals.residual.v == 1);
    art_file(a, "runs/interop-epoch-1/payouts.ndjson", &text);
    assert_string_equal(ron_buf_text(&text),
                        "{\"account\":\"acct_a\",\"amount_minor_units\":\"356\",\"score\":"
                        "\"1220000\"}\n"
                        "{\"account\":\"acct_b\",\"amount_minor_units\":\"643\",\"score\":"
                        "\"2200000\"}\n");
    ron_buf_done(&text);
    art_file(a, "runs/interop-epoch-1/commitment", &text);
    assert_string_equal(ron_buf_text(&text), GOLDEN_COMMITMENT "\n");
    ron_buf_done(&text);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

/* A manifest with every optional member. */
static struct rwd_manifest full(void)
{
    struct rwd_manifest m = {
        .epoch = art_str("2026:w46.a"),
        .run_key = {{1}},
        .inputs_cid = {{2}},
        .policy_id = art_str("policy:v1"),
        .policy_version = UINT64_MAX,
        .policy_hash = {{3}},
        .policy_signed = true,
        .funding = RWD_FUND_GOVERNANCE_BUDGET,
        .has_ledger = true,
        .ledger_root = {{4}},
        .ledger_seq = 77,
        .carry_epoch = art_str("2026:w45.a"),
        .carry_commitment = {{5}},
        .carry_in = {.v = 12},
        .totals = {.pool = RON_MONEY_MAX, .offered = RON_MONEY_MAX, .residual = {.v = 5}},
        .residual = RWD_RESIDUAL_SINK,
        .sink = art_str("treasury/x"),
        .payouts = {.count = 3, .cid = {{6}}, .root = {{7}}},
        .proof = art_str("{\"type\":\"zk\",\"cid\":\"b3:"
                         "0000000000000000000000000000000000000000000000000000000000000000\","
                         "\"scheme\":\"plonk\"}"),
    };
    struct rwd_attester attester = art_attester();

    assert_int_equal(rwd_manifest_commit(&m, NULL), RON_OK);
    assert_int_equal(rwd_manifest_attest(&m, attester.key_id, attester.seed, NULL), RON_OK);
    return m;
}

static void test_manifest__written_and_read__the_same(void **state)
{
    struct rwd_manifest m = full();

    (void)state;
    read_back(&m, RON_OK);
    m.key_id[0] = '\0';
    m.proof = (struct ron_str){0};
    read_back(&m, RON_OK);
    m.has_ledger = false;
    m.carry_epoch = (struct ron_str){0};
    m.carry_in = RON_MONEY_ZERO;
    m.sink = (struct ron_str){0};
    m.residual = RWD_RESIDUAL_CARRY;
    assert_int_equal(rwd_manifest_commit(&m, NULL), RON_OK);
    read_back(&m, RON_OK);
}

static void test_manifest__every_breach__named_and_without_payouts(void **state)
{
    (void)state;
    for (unsigned i = RWD_BREACH_NONE + 1; i < RWD_BREACH_COUNT; i++) {
        struct rwd_manifest m = full();

        m.status = RWD_STATUS_QUARANTINED;
        m.breach = (enum rwd_breach)i;
        m.payouts = (struct rwd_payouts_sum){0};
        m.key_id[0] = '\0';
        assert_int_equal(rwd_manifest_commit(&m, NULL), RON_OK);
        read_back(&m, RON_OK);
    }
}

static void test_manifest__another_commitment__corrupt(void **state)
{
    struct rwd_manifest m = full();

    (void)state;
    m.totals.paid.v++;
    read_back(&m, RON_CORRUPT);
}

static void test_manifest__proof_and_attestation__no_part_of_the_commitment(void **state)
{
    struct rwd_manifest m = full();
    struct ron_b3 before = m.commitment;

    (void)state;
    m.proof = (struct ron_str){0};
    m.key_id[0] = '\0';
    assert_int_equal(rwd_manifest_commit(&m, NULL), RON_OK);
    assert_true(ron_b3_equal(&before, &m.commitment));
}

static void test_manifest__attestation__binds_key_and_commitment(void **state)
{
    struct rwd_manifest m = full();
    uint8_t other[RWD_SIGN_KEY_BYTES] = {9};
    struct rwd_manifest x = m;

    (void)state;
    assert_true(rwd_manifest_attested(&m, NULL));
    assert_true(rwd_manifest_attested(&m, m.public_key));
    assert_false(rwd_manifest_attested(&m, other));
    x.key_id[0] = 'R';
    assert_false(rwd_manifest_attested(&x, NULL));
    x = m;
    x.commitment.bytes[31] ^= 1;
    assert_false(rwd_manifest_attested(&x, NULL));
    x = m;
    x.sig[0] ^= 1;
    assert_false(rwd_manifest_attested(&x, NULL));
    x.key_id[0] = '\0';
    assert_false(rwd_manifest_attested(&x, NULL));
    assert_int_equal(rwd_manifest_attest(&x, "", other, NULL), RON_INVALID);
    assert_int_equal(rwd_manifest_attest(&x, "a b", other, NULL), RON_INVALID);
    assert_int_equal(
        rwd_manifest_attest(&x, "0123456789012345678901234567890123456789012345678901234567890123x",
                            other, NULL),
        RON_INVALID);
}

static void test_manifest__every_bit_flipped__refused(void **state)
{
    struct rwd_manifest m = full();
    char good[RWD_MANIFEST_MAX + 1];
    struct ron_buf text;

    (void)state;
    m.proof = (struct ron_str){0}; /* the slot is no part of what is bound */
    ron_buf_init_over(&text, good, sizeof good);
    assert_int_equal(rwd_manifest_write(&m, &text), RON_OK);
    for (size_t bit = 0; bit < 8 * ron_buf_len(&text); bit++) {
        char bad[RWD_MANIFEST_MAX + 1];
        struct rwd_manifest read;

        memcpy(bad, good, ron_buf_len(&text));
        bad[bit / 8] = (char)(bad[bit / 8] ^ 1 << bit % 8);
        if (rwd_manifest_read(bad, ron_buf_len(&text), &read, NULL) == RON_OK &&
            rwd_manifest_attested(&read, NULL)) {
            fail_msg("bit %zu is not bound: %.40s", bit, good + (bit / 8 < 20 ? 0 : bit / 8 - 20));
        }
    }
}

static void test_manifest__other_spellings__refused(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } cases[] = {
        {"{\"version\":1,", "{ \"version\":1,"},
        {"\"version\":1", "\"version\":2"},
        {"\"version\":1,", ""},
        {"\"version\":1,\"epoch_id\":\"2026:w46.a\",",
         "\"epoch_id\":\"2026:w46.a\",\"version\":1,"},
        {"\"status\":\"ok\",\"reason\":null", "\"status\":\"ok\",\"reason\":\"cap\""},
        {"\"status\":\"ok\",\"reason\":null", "\"status\":\"ok\""},
        {"\"status\":\"ok\",\"reason\":null", "\"status\":\"fail\",\"reason\":null"},
        {"2026:w46.a", "2026/w46"},
        {"\"idempotent\":true", "\"idempotent\":false"},
        {"policy:v1", "policy\\u003av1"},
        {"\"seq\":77", "\"seq\":\"77\""},
        {"}}", "}}\n"},
        {"}}", "},\"more\":1}"},
    };
    struct rwd_manifest m = full();
    char good[RWD_MANIFEST_MAX + 1];
    struct ron_buf text;

    (void)state;
    m.key_id[0] = '\0';
    m.proof = (struct ron_str){0};
    ron_buf_init_over(&text, good, sizeof good);
    assert_int_equal(rwd_manifest_write(&m, &text), RON_OK);
    (void)ron_buf_text(&text);
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char bad[2 * RWD_MANIFEST_MAX];
        struct rwd_manifest read;
        char *at = strstr(good, cases[i].from);
        int len;

        if (strcmp(cases[i].from, "}}") == 0) {
            at = good + ron_buf_len(&text) - 1; /* the end */
            len = snprintf(bad, sizeof bad, "%.*s%s", (int)(at - good), good, cases[i].to + 1);
        } else {
            assert_non_null(at);
            len = snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - good), good, cases[i].to,
                           at + strlen(cases[i].from));
        }
        assert_int_equal(rwd_manifest_read(bad, (size_t)len, &read, NULL), RON_INVALID);
    }
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static size_t make_proof(struct art *a, char text[RWD_PROOF_TEXT_MAX + 1])
{
    struct rwd_snapshot snapshot = art_snapshot(5);
    struct rwd_attester attester = art_attester();
    struct rwd_payouts *p = NULL;
    struct rwd_run run;
    struct ron_buf manifest;
    struct ron_buf proof;

    art_publish(a, &snapshot, "e", &attester, &run);
    art_file(a, "runs/e/run.json", &manifest);
    assert_int_equal(rwd_payouts_open(a->env, "runs/e", &p, NULL), RON_OK);
    ron_buf_init_over(&proof, text, RWD_PROOF_TEXT_MAX + 1);
    assert_int_equal(
        rwd_payouts_prove(p, 3,
                          (struct ron_str){.ptr = (const char *)ron_buf_data(&manifest),
                                           .len = ron_buf_len(&manifest)},
                          &proof, NULL),
        RON_OK);
    ron_buf_done(&manifest);
    rwd_payouts_close(p);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
    return ron_buf_len(&proof);
}

static void test_proof__every_bit_flipped__refused(void **state)
{
    char good[RWD_PROOF_TEXT_MAX + 1];
    char bad[RWD_PROOF_TEXT_MAX + 1];
    size_t len = make_proof(*state, good);
    struct rwd_proof_word word;

    memcpy(bad, good, len);
    assert_int_equal(rwd_proof_check(bad, len, NULL, &word, NULL), RON_OK);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        memcpy(bad, good, len);
        bad[bit / 8] = (char)(bad[bit / 8] ^ 1 << bit % 8);
        if (rwd_proof_check(bad, len, NULL, &word, NULL) == RON_OK) {
            fail_msg("bit %zu is not bound", bit);
        }
    }
}

static void test_proof__a_public_key__must_have_signed(void **state)
{
    char text[RWD_PROOF_TEXT_MAX + 1];
    char copy[RWD_PROOF_TEXT_MAX + 1];
    size_t len = make_proof(*state, text);
    uint8_t other[RWD_SIGN_KEY_BYTES] = {9};
    struct rwd_proof_word word;

    memcpy(copy, text, len);
    assert_int_equal(rwd_proof_check(copy, len, NULL, &word, NULL), RON_OK);
    memcpy(copy, text, len);
    assert_int_equal(rwd_proof_check(copy, len, other, &word, NULL), RON_DENIED);
    memcpy(other, word.manifest.public_key, sizeof other);
    memcpy(copy, text, len);
    assert_int_equal(rwd_proof_check(copy, len, other, &word, NULL), RON_OK);
    assert_int_equal(rwd_proof_check(copy, len - 1, other, &word, NULL), RON_INVALID);
    assert_int_equal(rwd_proof_check(copy, 0, other, &word, NULL), RON_INVALID);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, art_setup, art_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_manifest__the_golden_run__has_these_bytes),
        CASE(test_manifest__written_and_read__the_same),
        CASE(test_manifest__every_breach__named_and_without_payouts),
        CASE(test_manifest__another_commitment__corrupt),
        CASE(test_manifest__proof_and_attestation__no_part_of_the_commitment),
        CASE(test_manifest__attestation__binds_key_and_commitment),
        CASE(test_manifest__every_bit_flipped__refused),
        CASE(test_manifest__other_spellings__refused),
        CASE(test_proof__every_bit_flipped__refused),
        CASE(test_proof__a_public_key__must_have_signed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
