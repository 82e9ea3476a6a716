/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the files of payouts say what was computed, are found again by place and by account, prove
 * each payee, and are refused when they do not fit together.
 * Method: runs of many sizes on a disk in memory; the golden line; damage by hand. */
#include "unit/rewarder/art_fixture.h"

#define LINE_A "{\"account\":\"acct_a\",\"amount_minor_units\":\"356\",\"score\":\"1220000\"}"

static const size_t sizes[] = {0, 1, 2, 3, 255, 256, 257, 1000};

static void test_payouts__a_line__has_one_spelling(void **state)
{
    static const char *const refused[] = {
        "",
        "{}",
        LINE_A "\n",
        " " LINE_A,
        "{\"account\":\"\",\"amount_minor_units\":\"356\",\"score\":\"1\"}",
        "{\"account\":\"a b\",\"amount_minor_units\":\"356\",\"score\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":\"0\",\"score\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":\"01\",\"score\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":\"-1\",\"score\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":1,\"score\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":\"1\",\"score\":\"\"}",
        "{\"account\":\"a\",\"score\":\"1\",\"amount_minor_units\":\"1\"}",
        "{\"account\":\"a\",\"amount_minor_units\":\"1\",\"score\":\"1\",\"x\":1}",
        "{\"account\":\"a\",\"amount_minor_units\":\"340282366920938463463374607431768211456\","
        "\"score\":\"1\"}",
    };
    char line[RWD_LINE_MAX];
    struct rwd_payout payout = {
        .account = art_str("acct_a"), .amount = {.v = 356}, .score = 1220000};
    struct rwd_payout again = {0};
    size_t len = rwd_payout_line(&payout, line);

    (void)state;
    assert_int_equal(len, strlen(LINE_A));
    assert_memory_equal(line, LINE_A, len);
    assert_int_equal(rwd_payout_line_read(art_str(LINE_A), &again, NULL), RON_OK);
    assert_true(ron_str_is(again.account, "acct_a"));
    assert_true(again.amount.v == 356 && again.score == 1220000);
    for (size_t i = 0; i < RON_ARRAY_LEN(refused); i++) {
        assert_int_equal(rwd_payout_line_read(art_str(refused[i]), &again, NULL), RON_CORRUPT);
    }
}

static void test_payouts__the_longest_line__fits(void **state)
{
    char account[RWD_ACCOUNT_MAX + 1];
    char line[RWD_LINE_MAX];
    struct rwd_payout payout = {.amount = RON_MONEY_MAX, .score = RON_U128_MAX};
    struct rwd_payout again = {0};
    struct ron_str text = {.ptr = line};

    (void)state;
    memset(account, 'x', sizeof account);
    payout.account = (struct ron_str){.ptr = account, .len = RWD_ACCOUNT_MAX};
    text.len = rwd_payout_line(&payout, line);
    assert_true(text.len < RWD_LINE_MAX);
    assert_int_equal(rwd_payout_line_read(text, &again, NULL), RON_OK);
    assert_true(again.score == RON_U128_MAX);
}

struct seen {
    const struct rwd_result *result;
    uint64_t next;
    uint64_t stop_at;
};

static bool see(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    struct seen *s = arg;
    struct rwd_payout expected;

    assert_int_equal(index, s->next);
    rwd_result_payout(s->result, index, &expected);
    assert_int_equal(payout->account.len, expected.account.len);
    assert_memory_equal(payout->account.ptr, expected.account.ptr, expected.account.len);
    assert_true(payout->amount.v == expected.amount.v && payout->score == expected.score);
    s->next++;
    return s->next < s->stop_at;
}

static void look_through(struct rwd_payouts *p, const struct rwd_run *run)
{
    uint64_t count = rwd_result_totals(run->result)->paid_accounts;
    struct seen all = {.result = run->result, .stop_at = UINT64_MAX};
    struct seen part = {.result = run->result, .next = count / 2, .stop_at = UINT64_MAX};
    struct seen few = {.result = run->result, .stop_at = 1};

    assert_int_equal(rwd_payouts_count(p), count);
    assert_int_equal(rwd_payouts_each(p, 0, UINT64_MAX, see, &all, NULL), RON_OK);
    assert_int_equal(all.next, count);
    assert_int_equal(rwd_payouts_each(p, count / 2, count, see, &part, NULL), RON_OK);
    assert_int_equal(part.next, count);
    assert_int_equal(rwd_payouts_each(p, 0, count, see, &few, NULL), RON_OK);
    assert_int_equal(few.next, count > 0);
    assert_int_equal(rwd_payouts_each(p, count + 5, 3, see, &few, NULL), RON_OK);
}

static void test_payouts__any_number__found_by_place_and_account(void **state)
{
    struct art *a = *state;

    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct rwd_snapshot snapshot = art_snapshot(sizes[i]);
        struct rwd_payouts *p = NULL;
        struct rwd_run run;
        uint64_t index = 0;
        char epoch[32];
        char dir[64];

        (void)snprintf(epoch, sizeof epoch, "e%zu", sizes[i]);
        (void)snprintf(dir, sizeof dir, "runs/%s", epoch);
        art_publish(a, &snapshot, epoch, NULL, &run);
        assert_int_equal(run.manifest.payouts.count, sizes[i]);
        assert_int_equal(rwd_payouts_open(a->env, dir, &p, NULL), RON_OK);
        look_through(p, &run);
        for (uint64_t k = 0; k < sizes[i]; k++) {
            struct rwd_payout payout;

            rwd_result_payout(run.result, k, &payout);
            assert_int_equal(rwd_payouts_find(p, payout.account, &index, NULL), RON_OK);
            assert_int_equal(index, k);
        }
        assert_int_equal(rwd_payouts_find(p, art_str("a"), &index, NULL), RON_NOTFOUND);
        assert_int_equal(rwd_payouts_find(p, art_str("u:50001/zz"), &index, NULL), RON_NOTFOUND);
        assert_int_equal(rwd_payouts_find(p, art_str("zz"), &index, NULL), RON_NOTFOUND);
        assert_int_equal(rwd_payouts_find(p, art_str("not an account"), &index, NULL),
                         RON_NOTFOUND);
        rwd_payouts_close(p);
        rwd_run_done(&run);
        rwd_snapshot_done(&snapshot);
    }
}

static void test_payouts__dry_run__has_the_same_names(void **state)
{
    struct art *a = *state;

    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct rwd_snapshot snapshot = art_snapshot(sizes[i]);
        struct rwd_run run = art_compute(a, &snapshot, "e");
        struct rwd_payouts_opts wet = {.env = a->env, .dir = "wet"};
        struct rwd_payouts_sum dry_sum;
        struct rwd_payouts_sum sum;
        struct ron_buf bytes;
        struct ron_b3 cid;

        assert_int_equal(a->env->disk->mkdir(a->env, "wet", 0755, NULL), RON_OK);
        assert_int_equal(rwd_payouts_write(&(struct rwd_payouts_opts){.env = a->env}, run.result,
                                           &dry_sum, NULL),
                         RON_OK);
        assert_int_equal(rwd_payouts_write(&wet, run.result, &sum, NULL), RON_OK);
        assert_int_equal(dry_sum.count, sum.count);
        assert_true(dry_sum.total.v == sum.total.v);
        assert_true(ron_b3_equal(&dry_sum.cid, &sum.cid));
        assert_true(ron_tree_hash_equal(&dry_sum.root, &sum.root));
        art_file(a, "wet/payouts.ndjson", &bytes);
        ron_b3_hash(ron_buf_data(&bytes), ron_buf_len(&bytes), &cid);
        assert_true(ron_b3_equal(&cid, &sum.cid));
        ron_buf_done(&bytes);
        assert_int_equal(rwd_payouts_compare(&wet, run.result, &sum, NULL), RON_OK);
        rwd_run_done(&run);
        rwd_snapshot_done(&snapshot);
        for (size_t k = 0; k < 3; k++) {
            static const char *const names[] = {"wet/payouts.ndjson", "wet/payouts.index",
                                                "wet/payouts.tree"};
            assert_int_equal(a->env->disk->remove(a->env, names[k], NULL), RON_OK);
        }
        assert_int_equal(a->env->disk->rmdir(a->env, "wet", NULL), RON_OK);
    }
}

static void test_payouts__stopped__says_so(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(300);
    struct rwd_run run = art_compute(a, &snapshot, "e");
    struct ron_au32 stop = {0};
    struct ron_au64 done = {0};
    struct rwd_payouts_sum sum;
    struct rwd_payouts_opts opts = {.env = a->env, .cancelled = &stop, .done_rows = &done};

    assert_int_equal(rwd_payouts_write(&opts, run.result, &sum, NULL), RON_OK);
    assert_int_equal(ron_au64_load(&done), 300);
    ron_au32_store(&stop, 1);
    assert_int_equal(rwd_payouts_write(&opts, run.result, &sum, NULL), RON_CANCELLED);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void prove_all(struct art *a, size_t size)
{
    struct rwd_snapshot snapshot = art_snapshot(size);
    struct rwd_payouts *p = NULL;
    struct rwd_run run;
    struct ron_buf manifest;
    struct ron_buf proof;

    art_publish(a, &snapshot, "proven", NULL, &run);
    art_file(a, "runs/proven/run.json", &manifest);
    ron_buf_init(&proof, RWD_PROOF_TEXT_MAX);
    assert_int_equal(rwd_payouts_open(a->env, "runs/proven", &p, NULL), RON_OK);
    for (uint64_t k = 0; k < size; k++) {
        struct ron_str text = {.ptr = (const char *)ron_buf_data(&manifest),
                               .len = ron_buf_len(&manifest)};
        struct rwd_proof_word word;
        struct rwd_payout payout;

        ron_buf_clear(&proof);
        assert_int_equal(rwd_payouts_prove(p, k, text, &proof, NULL), RON_OK);
        assert_int_equal(rwd_proof_check((char *)(uintptr_t)ron_buf_data(&proof),
                                         ron_buf_len(&proof), NULL, &word, NULL),
                         RON_OK);
        rwd_result_payout(run.result, k, &payout);
        assert_int_equal(word.index, k);
        assert_true(word.payout.amount.v == payout.amount.v && word.payout.score == payout.score);
        assert_int_equal(word.payout.account.len, payout.account.len);
        assert_memory_equal(word.payout.account.ptr, payout.account.ptr, payout.account.len);
    }
    ron_buf_done(&proof);
    ron_buf_done(&manifest);
    rwd_payouts_close(p);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
    assert_int_equal(rwd_run_remove(a->env, "runs", art_str("proven"), NULL), RON_OK);
}

static void test_payouts__every_payee__is_proven(void **state)
{
    static const size_t more[] = {63, 64, 65, 127, 128, 129, 255, 256, 257, 299, 300};

    for (size_t size = 1; size <= 20; size++) {
        prove_all(*state, size);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(more); i++) {
        prove_all(*state, more[i]);
    }
}

/* Replaces a file of runs/e by `len` of its bytes and then `extra` of zeros, byte `at` changed. */
static void damage(struct art *a, const char *path, size_t len, size_t extra, size_t at)
{
    struct ron_buf bytes;

    art_file(a, path, &bytes);
    bytes.len = RON_MIN(bytes.len, len);
    for (size_t i = 0; i < extra; i++) {
        ron_buf_append_byte(&bytes, 0);
    }
    if (at < bytes.len) {
        bytes.memory[bytes.head + at] ^= 1;
    }
    assert_int_equal(
        ron_file_replace(a->env, path, ron_buf_data(&bytes), ron_buf_len(&bytes), 0600, NULL),
        RON_OK);
    ron_buf_done(&bytes);
}

static void test_payouts__sizes_that_do_not_fit__refused(void **state)
{
    static const char *const paths[] = {"runs/e/payouts.ndjson", "runs/e/payouts.index",
                                        "runs/e/payouts.tree"};
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(5);
    struct rwd_payouts *p = NULL;
    struct rwd_run run;

    assert_int_equal(rwd_payouts_open(a->env, "runs/e", &p, NULL), RON_NOTFOUND);
    for (size_t i = 0; i < RON_ARRAY_LEN(paths); i++) {
        static const size_t cuts[][2] = {{0, 0}, {1, 0}, {24, 0}, {SIZE_MAX, 1}, {SIZE_MAX, 8}};

        for (size_t k = 0; k < RON_ARRAY_LEN(cuts); k++) {
            art_publish(a, &snapshot, "e", NULL, &run);
            damage(a, paths[i], cuts[k][0], cuts[k][1], SIZE_MAX);
            assert_int_equal(rwd_payouts_open(a->env, "runs/e", &p, NULL), RON_CORRUPT);
            rwd_run_done(&run);
            assert_int_equal(rwd_run_remove(a->env, "runs", art_str("e"), NULL), RON_OK);
        }
    }
    rwd_snapshot_done(&snapshot);
}

static bool any(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    (void)arg;
    (void)index;
    (void)payout;
    return true;
}

static void test_payouts__damaged_bytes__no_bad_proof_is_handed_out(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(5);
    static const struct {
        const char *path;
        size_t at;
        enum ron_rc each;
    } cases[] = {
        {"runs/e/payouts.ndjson", 0, RON_CORRUPT}, /* a brace */
        {"runs/e/payouts.ndjson", 12, RON_OK},     /* another name */
        {"runs/e/payouts.index", 7, RON_CORRUPT},  /* where line 1 begins */
        {"runs/e/payouts.index", 0, RON_CORRUPT},  /* far behind the end */
        {"runs/e/payouts.tree", 32, RON_OK},       /* the hash beside line 1 */
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct rwd_payouts *p = NULL;
        struct rwd_run run;
        struct ron_buf manifest;
        struct ron_buf proof;
        struct ron_str text;

        art_publish(a, &snapshot, "e", NULL, &run);
        art_file(a, "runs/e/run.json", &manifest);
        text = (struct ron_str){.ptr = (const char *)ron_buf_data(&manifest),
                                .len = ron_buf_len(&manifest)};
        ron_buf_init(&proof, RWD_PROOF_TEXT_MAX);
        damage(a, cases[i].path, SIZE_MAX, 0, cases[i].at);
        assert_int_equal(rwd_payouts_open(a->env, "runs/e", &p, NULL), RON_OK);
        assert_int_equal(rwd_payouts_each(p, 0, 5, any, NULL, NULL), cases[i].each);
        assert_int_equal(rwd_payouts_prove(p, 0, text, &proof, NULL), RON_CORRUPT);
        assert_int_equal(rwd_payouts_prove(p, 5, text, &proof, NULL), RON_INVALID);
        assert_int_equal(ron_buf_len(&proof), 0);
        ron_buf_done(&proof);
        ron_buf_done(&manifest);
        rwd_payouts_close(p);
        rwd_run_done(&run);
        assert_int_equal(rwd_run_remove(a->env, "runs", art_str("e"), NULL), RON_OK);
    }
    rwd_snapshot_done(&snapshot);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, art_setup, art_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_payouts__a_line__has_one_spelling),
        CASE(test_payouts__the_longest_line__fits),
        CASE(test_payouts__any_number__found_by_place_and_account),
        CASE(test_payouts__dry_run__has_the_same_names),
        CASE(test_payouts__stopped__says_so),
        CASE(test_payouts__every_payee__is_proven),
        CASE(test_payouts__sizes_that_do_not_fit__refused),
        CASE(test_payouts__damaged_bytes__no_bad_proof_is_handed_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
