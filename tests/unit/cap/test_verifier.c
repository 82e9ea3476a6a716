/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a verifier answers as verification without memory does, however full, old or rotated, and
 * checks a signature once.
 * Method: counters after each step; random tokens, requests, rotations and a moving clock against
 * ron_cap_verify. */
#include "ron/cap/verifier.h"

#include "cap/cap_priv.h"
#include "unit/io/fixture.h"

#include "cap/cap_testing.h"
#include "unit/cap/fixture.h"

struct bench {
    struct ron_cap_ring ring;
    struct ron_cap_verifier *v;
};

static void bench_init(struct bench *b, uint32_t entries)
{
    ron_cap_ring_init(&b->ring, cap_keys());
    assert_int_equal(ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = ron_env_linux(),
                                                                          .ring = &b->ring,
                                                                          .entries = entries},
                                          &b->v, NULL),
                     RON_OK);
}

static void bench_done(struct bench *b)
{
    ron_cap_verifier_free(b->v);
    ron_cap_ring_done(&b->ring);
}

static struct cap_text bench_mint(struct bench *b, const char *const *caveats, size_t count)
{
    struct ron_cap_keys *keys = ron_cap_ring_get(&b->ring, NULL);
    struct cap_text text = cap_minted(keys, caveats, count);

    ron_cap_keys_unref(keys);
    return text;
}

static void expect_stats(const struct bench *b, uint64_t hits, uint64_t misses, uint64_t dropped,
                         uint64_t entries)
{
    struct ron_cap_verifier_stats st = ron_cap_verifier_stats(b->v);

    assert_int_equal(st.hits_total, hits);
    assert_int_equal(st.misses_total, misses);
    assert_int_equal(st.dropped_total, dropped);
    assert_int_equal(st.entries, entries);
}

static struct ron_cap_request request(void)
{
    return (struct ron_cap_request){.audience = STR("wallet"),
                                    .scope = STR("wallet.read"),
                                    .amount = ron_money_of(10),
                                    .now_ms = (uint64_t)CAP_NOW_S * 1000};
}

static void test_verifier__same_token_again__is_a_hit_and_judged_anew(void **state)
{
    static const char *const caveats[] = {"aud = wallet", "max = 10", "exp = 1800000001"};
    struct ron_cap_request q = request();
    struct ron_cap_info first = {0};
    struct ron_cap_info second = {0};
    struct bench b;
    struct cap_text token;

    (void)state;
    bench_init(&b, 0);
    token = bench_mint(&b, caveats, 3);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, &first), RON_CAP_OK);
    expect_stats(&b, 0, 1, 0, 1);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, &second), RON_CAP_OK);
    expect_stats(&b, 1, 1, 0, 1);
    assert_memory_equal(first.log_id, second.log_id, sizeof first.log_id);
    assert_string_equal(first.id, second.id);
    assert_int_equal(second.exp_s, 1800000001);
    q.amount = ron_money_of(11);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_AMOUNT);
    q.audience = STR("ledger");
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_AUDIENCE);
    expect_stats(&b, 3, 1, 0, 1);
    bench_done(&b);
}

static void test_verifier__bad_tokens__are_never_remembered(void **state)
{
    struct ron_cap_request q = request();
    struct bench b;
    struct cap_text token;
    size_t len;

    (void)state;
    bench_init(&b, 0);
    token = bench_mint(&b, NULL, 0);
    len = strlen(token.s);
    token.s[len - 10] = token.s[len - 10] == 'A' ? 'B' : 'A';
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_SIGNATURE);
        assert_int_equal(ron_cap_verifier_check(b.v, STR("Z"), &q, NULL), RON_CAP_MALFORMED);
        assert_int_equal(ron_cap_verifier_check(b.v, STR(""), &q, NULL), RON_CAP_MISSING);
    }
    expect_stats(&b, 0, 6, 0, 0);
    bench_done(&b);
}

static void test_verifier__expiry__drops_the_entry(void **state)
{
    static const char *const caveats[] = {"exp = 1800000000"};
    struct ron_cap_request q = request();
    struct bench b;
    struct cap_text token;

    (void)state;
    bench_init(&b, 0);
    token = bench_mint(&b, caveats, 1);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    q.now_ms += 5000;
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_EXPIRED);
    expect_stats(&b, 1, 1, 1, 0);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_EXPIRED);
    expect_stats(&b, 1, 2, 1, 0);
    bench_done(&b);
}

static void test_verifier__other_keys__forget_what_was_believed(void **state)
{
    struct ron_cap_request q = request();
    struct ron_cap_keys *same;
    struct bench b;
    struct cap_text token;

    (void)state;
    bench_init(&b, 0);
    token = bench_mint(&b, NULL, 0);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    same = ron_cap_ring_get(&b.ring, NULL);
    assert_false(ron_cap_ring_put(&b.ring, same)); /* the same keys: nothing is forgotten */
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    expect_stats(&b, 1, 1, 0, 1);
    assert_true(ron_cap_ring_put(&b.ring, cap_keys()));
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_SIGNATURE);
    expect_stats(&b, 1, 2, 0, 1);
    bench_done(&b);
}

/* Whether the verifier's memory holds the end of a token, which is its signature. */
static bool kept(const struct bench *b, const char *token)
{
    size_t size = 0;
    const void *memory = ron__cap_verifier_memory(b->v, &size);

    return memmem(memory, size, token + strlen(token) - 40, 40) != NULL;
}

static void test_verifier__forget__wipes_what_other_keys_signed_and_what_expired(void **state)
{
    static const char *const caveats[] = {"exp = 1800000000"};
    enum { TOKENS = 40 };
    struct ron_cap_request q = request();
    struct cap_text tokens[TOKENS];
    struct cap_text fresh;
    struct cap_text brief;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = bench_mint(&b, NULL, 0);
        assert_int_equal(ron_cap_verifier_check(b.v, STR(tokens[i].s), &q, NULL), RON_CAP_OK);
        assert_true(kept(&b, tokens[i].s));
    }
    assert_int_equal(ron_cap_verifier_forget(b.v, q.now_ms), 0);
    assert_true(ron_cap_ring_put(&b.ring, cap_keys()));
    fresh = bench_mint(&b, NULL, 0);
    brief = bench_mint(&b, caveats, 1);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(fresh.s), &q, NULL), RON_CAP_OK);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(brief.s), &q, NULL), RON_CAP_OK);
    (void)ron_cap_verifier_forget(b.v, 0);
    for (int i = 0; i < TOKENS; i++) {
        assert_false(kept(&b, tokens[i].s));
    }
    assert_true(kept(&b, fresh.s));
    assert_true(kept(&b, brief.s));
    expect_stats(&b, 0, TOKENS + 2, TOKENS, 2);
    assert_int_equal(ron_cap_verifier_forget(b.v, q.now_ms + 4999), 0);
    assert_int_equal(ron_cap_verifier_forget(b.v, q.now_ms + 5000), 1);
    assert_false(kept(&b, brief.s));
    assert_int_equal(ron_cap_verifier_check(b.v, STR(fresh.s), &q, NULL), RON_CAP_OK);
    expect_stats(&b, 1, TOKENS + 2, TOKENS + 1, 1);
    bench_done(&b);
}

/* One set of four entries for each shard: long tokens are given up for short ones. */
static void test_verifier__replaced_by_a_shorter_token__leaves_nothing_of_the_longer(void **state)
{
    static const char *const caveats[] = {
        "account = "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    enum { LONG = 64, SHORT = 1000 };
    struct ron_cap_request q = request();
    struct cap_text tokens[LONG];
    struct bench b;

    (void)state;
    bench_init(&b, 64);
    for (int i = 0; i < LONG; i++) {
        tokens[i] = bench_mint(&b, caveats, 1);
        assert_int_equal(ron_cap_verifier_check(b.v, STR(tokens[i].s), &q, NULL), RON_CAP_ACCOUNT);
    }
    for (int i = 0; i < SHORT; i++) {
        struct cap_text brief = bench_mint(&b, NULL, 0);

        assert_int_equal(ron_cap_verifier_check(b.v, STR(brief.s), &q, NULL), RON_CAP_OK);
    }
    for (int i = 0; i < LONG; i++) {
        assert_false(kept(&b, tokens[i].s));
    }
    bench_done(&b);
}

static void test_verifier__reload__takes_the_new_keys_and_wipes_the_old_tokens(void **state)
{
    struct ron_cap_request q = request();
    struct ron_cap_verifier_stats st;
    struct ron_cap_key_info info;
    struct fixture *f;
    void *slot = NULL;
    struct ron_cap_keys *keys = NULL;
    struct cap_text token;
    struct bench b;
    bool changed = true;

    (void)state;
    assert_int_equal(fixture_setup(&slot), 0);
    f = slot;
    assert_int_equal(ron_cap_keyfile_add(f->env, fixture_path(f, "keys"), STR("one"), &info, NULL),
                     RON_OK);
    bench_init(&b, 64);
    assert_int_equal(ron_cap_verifier_reload(b.v, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_OK);
    assert_true(changed);
    token = bench_mint(&b, NULL, 0);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    assert_int_equal(ron_cap_verifier_reload(b.v, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_OK);
    assert_false(changed);
    assert_true(kept(&b, token.s));
    assert_int_equal(ron_cap_keyfile_add(f->env, fixture_path(f, "keys"), STR("two"), &info, NULL),
                     RON_OK);
    assert_int_equal(ron_cap_keyfile_retire(f->env, fixture_path(f, "keys"), STR("one"), NULL),
                     RON_OK);
    assert_int_equal(ron_cap_verifier_reload(b.v, f->env, fixture_path(f, "keys"), NULL, NULL),
                     RON_OK);
    assert_false(kept(&b, token.s));
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_UNKNOWN_KEY);
    assert_int_equal(truncate(fixture_path(f, "keys"), 20), 0);
    assert_int_equal(ron_cap_verifier_reload(b.v, f->env, fixture_path(f, "keys"), NULL, NULL),
                     RON_CORRUPT);
    keys = ron_cap_ring_get(&b.ring, NULL);
    assert_string_equal(ron_cap_keys_info(keys, 0).id, "two");
    ron_cap_keys_unref(keys);
    st = ron_cap_verifier_stats(b.v);
    assert_int_equal(st.keys, 1);
    assert_int_equal(st.generation, 3);
    assert_int_equal(st.reloads_total, 3);
    assert_int_equal(st.reload_fails_total, 1);
    bench_done(&b);
    assert_int_equal(fixture_teardown(&slot), 0);
}

static void test_verifier__more_tokens_than_entries__evicts_and_stays_bounded(void **state)
{
    enum { ENTRIES = 64, TOKENS = 1000 };
    struct ron_cap_request q = request();
    struct ron_cap_verifier_stats st;
    struct bench b;

    (void)state;
    bench_init(&b, ENTRIES);
    for (int i = 0; i < TOKENS; i++) {
        struct cap_text token = bench_mint(&b, NULL, 0);

        assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
        assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    }
    st = ron_cap_verifier_stats(b.v);
    assert_int_equal(st.hits_total, TOKENS);
    assert_int_equal(st.misses_total, TOKENS);
    assert_int_equal(st.entries, ENTRIES);
    assert_int_equal(st.evicted_total, TOKENS - ENTRIES);
    bench_done(&b);
}

static void test_verifier__token_too_large_for_an_entry__is_verified_each_time(void **state)
{
    const char *caveats[20];
    char account[10 + RON_CAP_ACCOUNT_MAX + 1];
    struct ron_cap_request q = request();
    struct bench b;
    struct cap_text token;

    (void)state;
    bench_init(&b, 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(caveats); i++) {
        caveats[i] = "aud = wallet";
    }
    token = bench_mint(&b, caveats, 17);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    expect_stats(&b, 0, 2, 0, 0);
    assert_int_equal(ron_cap_verifier_stats(b.v).bypassed_total, 2);
    token = bench_mint(&b, caveats, 16);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    expect_stats(&b, 1, 3, 0, 1);
    memset(account, 'a', sizeof account);
    memcpy(account, "account = ", 10);
    account[266] = '\0';
    caveats[0] = account;
    token = bench_mint(&b, caveats, 16);
    assert_true(strlen(token.s) > 768);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_ACCOUNT);
    expect_stats(&b, 1, 4, 0, 1);
    bench_done(&b);
}

static void test_verifier__same_end_and_another_beginning__is_not_believed(void **state)
{
    struct ron_cap_request q = request();
    struct bench b;
    struct cap_text token;

    (void)state;
    bench_init(&b, 0);
    token = bench_mint(&b, NULL, 0);
    assert_int_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    token.s[60] = token.s[60] == 'A' ? 'B' : 'A'; /* within the identifier */
    assert_int_not_equal(ron_cap_verifier_check(b.v, STR(token.s), &q, NULL), RON_CAP_OK);
    expect_stats(&b, 0, 2, 0, 1);
    bench_done(&b);
}

static void test_verifier__too_many_entries_asked__is_a_limit(void **state)
{
    struct ron_cap_verifier *v = NULL;
    struct ron_cap_ring ring;

    (void)state;
    ron_cap_ring_init(&ring, cap_keys());
    assert_int_equal(ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = ron_env_linux(),
                                                                          .ring = &ring,
                                                                          .entries = UINT32_MAX},
                                          &v, NULL),
                     RON_LIMIT);
    assert_null(v);
    ron_cap_ring_done(&ring);
}

/* V1 over everything at once: few tokens, a small table, moving time, rotations. */
/* The same answer by way of a grant, all kinds at once and one kind after the other. */
static void expect_grant(struct bench *b, struct ron_str token, const struct ron_cap_request *q,
                         enum ron_cap_why want)
{
    static uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant g;
    struct ron_cap_grant claimed;
    enum ron_cap_why why;
    bool all = true;

    ron_arena_init_over(&arena, room, sizeof room);
    why = ron_cap_verifier_open(b->v, token, q->now_ms, &arena, &g, NULL);
    if (why != RON_CAP_OK) {
        assert_int_equal(why, want);
        assert_int_equal(ron_cap_why_http(why), 401);
        return;
    }
    assert_int_equal(ron_cap_grant_allows(&g, RON_CAP_KINDS_ALL, q), want);
    for (int kind = 0; kind < RON_CAP_KIND_COUNT; kind++) {
        all = all && ron_cap_grant_allows(&g, RON_CAP_KIND_BIT(kind), q) == RON_CAP_OK;
    }
    assert_int_equal(all, want == RON_CAP_OK);
    ron_arena_clear(&arena);
    assert_int_equal(ron_cap_grant_read(token, &arena, &claimed, &(struct ron_cap_info){0}),
                     RON_CAP_OK);
    assert_int_equal(ron_cap_grant_allows(&claimed, RON_CAP_KINDS_ALL, q), want);
}

static void test_verifier__grant_of_a_large_token__fits_its_room(void **state)
{
    static uint8_t room[RON_CAP_GRANT_BYTES];
    static char caveats[RON_CAP_CAVEATS_MAX][RON_CAP_NAME_MAX + 32];
    const char *list[RON_CAP_CAVEATS_MAX];
    struct ron_arena arena;
    struct ron_cap_grant g;
    struct cap_text token;
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    for (int i = 0; i < RON_CAP_CAVEATS_MAX; i++) {
        (void)snprintf(caveats[i], sizeof caveats[i], "account = t:%050d*", i);
        list[i] = caveats[i];
    }
    token = bench_mint(&b, list, RON_CAP_CAVEATS_MAX);
    ron_arena_init_over(&arena, room, sizeof room);
    assert_int_equal(
        ron_cap_verifier_open(b.v, STR(token.s), (uint64_t)CAP_NOW_S * 1000, &arena, &g, NULL),
        RON_CAP_OK);
    assert_int_equal(g.item_count, RON_CAP_CAVEATS_MAX);
    for (uint32_t i = 0; i < g.item_count; i++) {
        assert_int_equal(g.items[i].len, strlen(list[i]) - strlen("account = "));
        assert_memory_equal(g.bytes + g.items[i].at, list[i] + strlen("account = "),
                            g.items[i].len);
    }
    bench_done(&b);
}

static void test_verifier__random_life__answers_as_without_memory(void **state)
{
    enum { TOKENS = 200, STEPS = 40000 };
    struct ron_rand r = support_rand();
    struct cap_text *tokens = calloc(TOKENS, sizeof *tokens);
    struct ron_cap_verifier_stats st;
    uint64_t allowed = 0;
    struct bench b;

    (void)state;
    assert_non_null(tokens);
    bench_init(&b, 64);
    for (int step = 0; step < STEPS; step++) {
        size_t which =
            (size_t)ron_rand_below(&r, RON_MIN((uint64_t)TOKENS, (uint64_t)step / 8 + 1));
        struct ron_str account;
        struct ron_cap_request q = cap_random_request(&r, &account);
        struct ron_cap_keys *keys;
        enum ron_cap_why want;

        if (ron_rand_chance(&r, 1, 5000)) {
            (void)ron_cap_ring_put(&b.ring, cap_keys());
        }
        if (tokens[which].s[0] == '\0' || ron_rand_chance(&r, 1, 100)) {
            tokens[which] = bench_mint(&b, NULL, 0);
            for (uint64_t n = ron_rand_below(&r, 4); n > 0; n--) {
                struct cap_caveat_text c = cap_random_caveat(&r);

                tokens[which] = cap_narrowed(tokens[which].s, c.s);
            }
        }
        q.now_ms += (uint64_t)step;
        keys = ron_cap_ring_get(&b.ring, NULL);
        want = ron_cap_verify(keys, STR(tokens[which].s), &q, NULL);
        ron_cap_keys_unref(keys);
        assert_int_equal(ron_cap_verifier_check(b.v, STR(tokens[which].s), &q, NULL), want);
        expect_grant(&b, STR(tokens[which].s), &q, want);
        allowed += want == RON_CAP_OK;
    }
    st = ron_cap_verifier_stats(b.v);
    assert_true(st.hits_total > STEPS / 20);
    assert_true(st.evicted_total > 100);
    assert_true(allowed > 1000);
    bench_done(&b);
    free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verifier__same_token_again__is_a_hit_and_judged_anew),
        cmocka_unit_test(test_verifier__bad_tokens__are_never_remembered),
        cmocka_unit_test(test_verifier__expiry__drops_the_entry),
        cmocka_unit_test(test_verifier__other_keys__forget_what_was_believed),
        cmocka_unit_test(test_verifier__forget__wipes_what_other_keys_signed_and_what_expired),
        cmocka_unit_test(test_verifier__replaced_by_a_shorter_token__leaves_nothing_of_the_longer),
        cmocka_unit_test(test_verifier__reload__takes_the_new_keys_and_wipes_the_old_tokens),
        cmocka_unit_test(test_verifier__more_tokens_than_entries__evicts_and_stays_bounded),
        cmocka_unit_test(test_verifier__token_too_large_for_an_entry__is_verified_each_time),
        cmocka_unit_test(test_verifier__same_end_and_another_beginning__is_not_believed),
        cmocka_unit_test(test_verifier__too_many_entries_asked__is_a_limit),
        cmocka_unit_test(test_verifier__grant_of_a_large_token__fits_its_room),
        cmocka_unit_test(test_verifier__random_life__answers_as_without_memory),
    };

    return cmocka_run_group_tests_name("cap.verifier", tests, NULL, NULL);
}
