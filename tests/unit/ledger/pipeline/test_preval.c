/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: bytes of a request become a work that has everything later stages need, the same from both
 * forms, in the arena that was asked for; what is malformed has a typed answer.
 * Method: random batches through both forms; the longest and the shortest entries that fit; a list
 * of bad bodies. */
#include "unit/ledger/guard_fixture.h"

#include "ledger/index/index.h"
#include "ron/base/buf.h"

static struct led_entry random_entry(struct ron_rand *r, struct ron_arena *arena)
{
    static const char *const assets[] = {"roc", "usd", "x.y_z-1"};
    struct led_entry e = {.asset = STR(CAP_PICK(r, assets)),
                          .account = STR("t:demo/u:alice"),
                          .kid = STR("k"),
                          .capability_ref = STR("c"),
                          .amount = ron_money_of(1 + ron_rand_below(r, 1000)),
                          .ts_ms = GF_NOW_MS,
                          .kind = (uint8_t)(1 + ron_rand_below(r, LED_KIND_REVERSE)),
                          .v = 1};
    char *id = ron_arena_alloc(arena, 32, 1);

    assert_non_null(id);
    (void)snprintf(id, 32, "tx-%llu", (unsigned long long)ron_rand_below(r, UINT64_MAX));
    e.id = STR(id);
    for (size_t i = 0; i < LED_NONCE_SIZE; i++) {
        e.nonce[i] = (uint8_t)ron_rand_below(r, 256);
    }
    if (led_kind_takes_to(e.kind)) {
        e.to = STR("t:demo/u:bob");
    }
    if (led_kind_takes_ref(e.kind)) {
        e.ref = STR("h-1");
    }
    if (ron_rand_chance(r, 1, 3)) {
        e.memo = STR("caf\xc3\xa9 \"quoted\" \\ back");
    }
    if (ron_rand_chance(r, 1, 3)) {
        e.account_nonce = 1 + ron_rand_below(r, 9);
    }
    if (e.kind == LED_KIND_HOLD && ron_rand_chance(r, 1, 2)) {
        e.expires_ms = e.ts_ms + 1;
    }
    return e;
}

static void to_json(const struct led_batch *b, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "batch", '[');
    for (size_t i = 0; i < b->count; i++) {
        led_entry_to_json(&w, NULL, &b->entries[i], 0);
    }
    ron_json_close(&w, ']');
    if (b->idem_id.len != 0) {
        ron_json_str(&w, "idem_id", b->idem_id);
    }
    ron_json_close(&w, '}');
    assert_int_equal(ron_buf_error(out), RON_OK);
}

/* V2 for a work that was parsed. */
static void expect_whole(const struct led_work *w, const struct led_batch *b)
{
    assert_int_equal(w->batch.count, b->count);
    for (size_t i = 0; i < b->count; i++) {
        const struct led_entry *e = &w->batch.entries[i];
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        size_t len = (size_t)(led_entry_encode(&b->entries[i], leaf) - leaf);
        struct led_prep prep = {0};
        struct ron_tree_hash hash;

        assert_int_equal(w->leaves[i].len, len);
        assert_memory_equal(w->leaves[i].ptr, leaf, len);
        ron_tree_hash_leaf(leaf, len, &hash);
        assert_true(ron_tree_hash_equal(&w->hashes[i], &hash));
        led_book_prepare(gf_hash_key, e, &prep);
        assert_memory_equal(&w->preps[i].id, &prep.id, sizeof prep.id);
        assert_memory_equal(&w->preps[i].account, &prep.account, sizeof prep.account);
        assert_int_equal(w->preps[i].fingerprint, prep.fingerprint);
        w->links[i] = (struct led_links){0}; /* there is room for them */
    }
    if (b->idem_id.len != 0) {
        struct led_key idem = led_idem_key(gf_hash_key, b->idem_id);

        assert_memory_equal(&w->idem, &idem, sizeof idem);
        assert_memory_equal(w->batch.idem_id.ptr, b->idem_id.ptr, b->idem_id.len);
    } else {
        assert_true(w->idem.a == 0 && w->idem.b == 0);
    }
}

static void test_preval__random_batches__the_same_from_both_forms(void **state)
{
    struct ron_rand r = support_rand();
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct ron_arena arena;
    struct ron_buf out;

    (void)state;
    assert_int_equal(ron_arena_init(&arena, 1 << 20), RON_OK);
    ron_buf_init(&out, 1 << 20);
    for (int round = 0; round < 300; round++) {
        struct led_entry entries[40];
        struct led_batch b = {.entries = entries, .count = 1 + ron_rand_below(&r, 40)};
        uint64_t print;
        bool reverses = false;

        ron_arena_clear(&arena);
        for (size_t i = 0; i < b.count; i++) {
            entries[i] = random_entry(&r, &arena);
            reverses = reverses || entries[i].kind == LED_KIND_REVERSE;
        }
        if (ron_rand_chance(&r, 1, 2)) {
            b.idem_id = STR("idem-1");
        }
        b.dry_run = ron_rand_chance(&r, 1, 4);
        ron_buf_clear(&out);
        assert_int_equal(led_batch_encode(&b, &out), RON_OK);
        (void)gf_work(f, LED_FORM_BINARY, ron_buf_data(&out), ron_buf_len(&out));
        assert_true(led_preval_parse(gf_hash_key, &f->w));
        expect_whole(&f->w, &b);
        assert_int_equal((f->w.flags & LED_APPLY_DRY_RUN) != 0, b.dry_run);
        assert_int_equal(f->w.originals != NULL, reverses);
        print = f->w.body_print;
        ron_buf_clear(&out);
        to_json(&b, &out);
        (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
        assert_true(led_preval_parse(gf_hash_key, &f->w));
        expect_whole(&f->w, &b);
        assert_int_equal(f->w.body_print, print);
        if (b.count > 1) { /* order counts */
            struct led_entry first = entries[0];

            entries[0] = entries[1];
            entries[1] = first;
            ron_buf_clear(&out);
            assert_int_equal(led_batch_encode(&b, &out), RON_OK);
            (void)gf_work(f, LED_FORM_BINARY, ron_buf_data(&out), ron_buf_len(&out));
            assert_true(led_preval_parse(gf_hash_key, &f->w));
            assert_int_not_equal(f->w.body_print, print);
        }
    }
    ron_buf_done(&out);
    ron_arena_done(&arena);
    gf_close(f);
}

static void test_preval__most_entries__fit_the_arena(void **state)
{
    struct led_entry e = {.id = STR("i"),
                          .account = STR("a"),
                          .asset = STR("r"),
                          .kid = STR("k"),
                          .capability_ref = STR("c"),
                          .ref = STR("r"),
                          .amount = ron_money_of(1),
                          .ts_ms = 1,
                          .kind = LED_KIND_REVERSE,
                          .v = 1};
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_ALLOW}, false);
    struct led_batch b = {.count = LED_BATCH_BIN_MAX};
    struct ron_buf out;

    (void)state;
    b.entries = calloc(b.count, sizeof *b.entries);
    assert_non_null(b.entries);
    for (size_t i = 0; i < b.count; i++) {
        b.entries[i] = e;
    }
    ron_buf_init(&out, 1 << 21);
    GF_TOKEN(f, "aud = ledger"); /* the token's part of the arena is used too */
    assert_int_equal(led_batch_encode(&b, &out), RON_OK);
    (void)gf_work(f, LED_FORM_BINARY, ron_buf_data(&out), ron_buf_len(&out));
    gf_expect_ok(f);
    b.count = LED_BATCH_JSON_MAX;
    ron_buf_clear(&out);
    to_json(&b, &out);
    (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
    gf_expect_ok(f);
    b.count++;
    ron_buf_clear(&out);
    to_json(&b, &out);
    (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
    gf_expect(f, LED_REASON_TOO_LARGE, 0, "batch");
    ron_buf_done(&out);
    free(b.entries);
    gf_close(f);
}

/* The longest members, without an asset, so that JSON grows the least over the canonical form. */
static void test_preval__longest_entries__fit_the_arena(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct led_batch b = {.count = 300};
    char text[LED_ACCOUNT_MAX + 1];
    struct ron_buf out;

    (void)state;
    memset(text, 'x', sizeof text);
    b.entries = calloc(b.count, sizeof *b.entries);
    assert_non_null(b.entries);
    for (size_t i = 0; i < b.count; i++) {
        b.entries[i] = (struct led_entry){.id = {text, LED_ID_MAX},
                                          .account = {text, LED_ACCOUNT_MAX},
                                          .to = {text, LED_ACCOUNT_MAX - 1},
                                          .asset = {text, LED_ASSET_MAX},
                                          .ref = {text, LED_ID_MAX},
                                          .kid = {text, LED_ID_MAX},
                                          .capability_ref = {text, LED_ID_MAX},
                                          .memo = {text, LED_MEMO_MAX},
                                          .amount = RON_MONEY_MAX,
                                          .ts_ms = 1,
                                          .account_nonce = UINT64_MAX,
                                          .kind = LED_KIND_CAPTURE,
                                          .v = 1};
    }
    ron_buf_init(&out, 1 << 20);
    to_json(&b, &out);
    (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
    assert_true(led_preval_parse(gf_hash_key, &f->w));
    assert_int_equal(f->w.batch.count, b.count);
    ron_buf_done(&out);
    free(b.entries);
    gf_close(f);
}

static void test_preval__bad_bodies__have_a_typed_answer(void **state)
{
#define ENTRY(members)                                                                             \
    "{\"batch\":[{" members                                                                        \
    ",\"nonce\":\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"kid\":\"k\",\"capability_ref\":\"c\"}]}"
#define HEAD "\"id\":\"i\",\"ts\":1,\"account\":\"a\","
    static const struct {
        const char *json;
        enum led_reason reason;
        const char *member;
    } rows[] = {
        {"", LED_REASON_INVALID, ""},
        {"[]", LED_REASON_INVALID, ""},
        {"{\"batch\":[]}", LED_REASON_INVALID, "batch"},
        {"{\"batch\":[{}]}", LED_REASON_INVALID, "id"},
        {"{\"batch\":[],\"more\":1}", LED_REASON_INVALID, "more"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"1\",\"x\":1"), LED_REASON_INVALID, "x"},
        {ENTRY(HEAD "\"kind\":\"Steal\",\"amount\":\"1\""), LED_REASON_UNKNOWN_KIND, "kind"},
        {ENTRY(HEAD "\"kind\":\"Expire\",\"ref\":\"h\",\"amount\":\"1\""), LED_REASON_UNKNOWN_KIND,
         "kind"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"01\""), LED_REASON_INVALID, "amount"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":1"), LED_REASON_INVALID, "amount"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"0\""), LED_REASON_INVALID, "amount"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"-1\""), LED_REASON_INVALID, "amount"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"340282366920938463463374607431768211456\""),
         LED_REASON_INVALID, "amount"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"1\",\"asset\":\"ROC\""), LED_REASON_INVALID,
         "asset"},
        {ENTRY(HEAD "\"kind\":\"Transfer\",\"amount\":\"1\",\"to\":\"a\""), LED_REASON_INVALID,
         "to"},
        {ENTRY(HEAD "\"kind\":\"Capture\",\"amount\":\"1\",\"to\":\"b\""), LED_REASON_INVALID,
         "ref"},
        {ENTRY(HEAD "\"kind\":\"Release\",\"amount\":\"1\""), LED_REASON_INVALID, "ref"},
        {ENTRY(HEAD "\"kind\":\"Mint\",\"amount\":\"1\",\"amount\":\"1\""), LED_REASON_INVALID,
         "amount"},
    };
    struct gf *f = gf_open((struct led_guard_opts){0}, false);

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        (void)gf_json(f, rows[i].json);
        gf_expect(f, rows[i].reason, 0, rows[i].member);
    }
    (void)gf_work(f, LED_FORM_BINARY, "\0\1\0\0\0\0\0\1", 8);
    gf_expect(f, LED_REASON_INVALID, 0, ""); /* ends too early */
    (void)gf_work(f, LED_FORM_BINARY, "\0\1\0\0\0\0\377\377", 8);
    gf_expect(f, LED_REASON_TOO_LARGE, 0, "batch");
    (void)gf_work(f, LED_FORM_BINARY, "", 0);
    gf_expect(f, LED_REASON_INVALID, 0, "");
    gf_close(f);
}

static void test_preval__arena_too_small__refused_and_whole(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    static char json[64 * 1024];
    size_t len = 0;

    (void)state;
    len += (size_t)snprintf(json, sizeof json, "{\"batch\":[");
    for (int i = 0; i < 100; i++) {
        len += (size_t)snprintf(json + len, sizeof json - len, "%s%s", i == 0 ? "" : ",",
                                gf_entry("Mint", "a", "1", ""));
    }
    len += (size_t)snprintf(json + len, sizeof json - len, "]}");
    for (size_t size = 4096; size < 80000; size += 1777) {
        (void)gf_json(f, json);
        ron_arena_done(&f->w.arena);
        assert_int_equal(ron_arena_init(&f->w.arena, size), RON_OK);
        if (!led_preval_parse(gf_hash_key, &f->w)) {
            assert_int_equal(f->w.refusals.items[0].reason, LED_REASON_TOO_LARGE);
            assert_int_equal(f->w.result, LED_RESULT_REFUSED);
        }
    }
    gf_close(f);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct led_index *index_with(const char *id, const char *idem, uint64_t seq)
{
    struct led_index *ix = NULL;
    struct led_index_state st;
    struct ron_tree_hash root = {0};
    struct led_prep prep = {0};
    struct led_entry e = {.id = STR(id), .account = STR("a")};

    assert_int_equal(
        led_index_open(&(struct led_index_opts){.env = ron_env_linux()}, &ix, &st, NULL), RON_OK);
    led_book_prepare(gf_hash_key, &e, &prep);
    assert_int_equal(led_index_add(ix, LED_INDEX_ID, prep.id, e.id, seq, NULL), RON_OK);
    assert_int_equal(led_index_add(ix, LED_INDEX_IDEM, led_idem_key(gf_hash_key, STR(idem)),
                                   STR(idem), seq, NULL),
                     RON_OK);
    assert_int_equal(led_index_commit(ix, seq, &root, NULL), RON_OK);
    return ix;
}

static const char *named(const char *id, const char *kind, const char *more)
{
    static char rooms[4][1024];
    static unsigned at;
    char *room = rooms[at++ % RON_ARRAY_LEN(rooms)];

    (void)snprintf(room, sizeof rooms[0],
                   "{\"id\":\"%s\",\"ts\":" GF_TS
                   ",\"kind\":\"%s\",\"account\":\"a\",\"amount\":\"1\"%s,\"nonce\":"
                   "\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"kid\":\"k\",\"capability_ref\":\"c\"}",
                   id, kind, more);
    return room;
}

static enum led_next step(struct gf *f, const struct led_index *ix, const char *entries,
                          const char *idem)
{
    struct led_preval p = {.guard = f->guard, .index = ix, .hash_key = gf_hash_key};
    static char json[8192];

    (void)snprintf(json, sizeof json, "{\"batch\":[%s]%s%s%s}", entries,
                   idem == NULL ? "" : ",\"idem_id\":\"", idem == NULL ? "" : idem,
                   idem == NULL ? "" : "\"");
    (void)gf_json(f, json);
    return led_preval_step(&p, &f->w, GF_NOW_MS);
}

static void test_preval__known_ids__go_to_the_readers_first(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_ALLOW}, false);
    struct led_index *ix = index_with("old", "idem-old", 7);
    char two[2100];

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    assert_int_equal(step(f, ix, named("new", "Mint", ""), "idem-new"), LED_NEXT_SEQUENCER);
    assert_int_equal(f->w.checked_seq, 7);
    assert_int_equal(f->w.look_up, 0);
    assert_int_equal(f->w.step, LED_STEP_DONE);
    assert_int_equal(step(f, ix, named("old", "Mint", ""), NULL), LED_NEXT_READERS);
    assert_int_equal(f->w.look_up, LED_LOOK_ID);
    (void)snprintf(two, sizeof two, "%s,%s", named("new", "Mint", ""), named("old", "Mint", ""));
    assert_int_equal(step(f, ix, two, NULL), LED_NEXT_READERS);
    assert_int_equal(f->w.look_up, LED_LOOK_ID);
    assert_int_equal(step(f, ix, named("new", "Mint", ""), "idem-old"), LED_NEXT_READERS);
    assert_int_equal(f->w.look_up, LED_LOOK_IDEM);
    assert_int_equal(step(f, ix, named("old", "Mint", ""), "idem-old"), LED_NEXT_READERS);
    assert_int_equal(f->w.look_up, LED_LOOK_IDEM | LED_LOOK_ID);
    assert_int_equal(step(f, ix, named("new", "Reverse", ",\"ref\":\"x\""), NULL),
                     LED_NEXT_READERS);
    assert_int_equal(f->w.look_up, LED_LOOK_ORIGINAL);
    assert_int_equal(step(f, NULL, named("old", "Mint", ""), NULL), LED_NEXT_SEQUENCER);
    assert_int_equal(f->w.checked_seq, 0); /* without an index nothing is known */
    led_index_close(ix);
    gf_close(f);
}

static void test_preval__refused__answered_at_the_step_that_refuses(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);

    (void)state;
    assert_int_equal(step(f, NULL, "not JSON", NULL), LED_NEXT_ANSWER);
    assert_int_equal(f->w.refusals.items[0].reason, LED_REASON_UNAUTH);
    assert_null(f->w.batch.entries); /* not parsed */
    GF_TOKEN(f, "scope = ledger.hold");
    assert_int_equal(step(f, NULL, "not JSON", NULL), LED_NEXT_ANSWER);
    assert_int_equal(f->w.refusals.items[0].reason, LED_REASON_INVALID);
    assert_int_equal(step(f, NULL, named("new", "Mint", ""), NULL), LED_NEXT_ANSWER);
    assert_int_equal(f->w.refusals.items[0].reason, LED_REASON_CAP_INVALID);
    assert_int_equal(f->w.result, LED_RESULT_REFUSED);
    gf_close(f);
}

static void test_preval__more_entries_than_allowed__refused_in_json_alone(void **state)
{
    struct ron_rand r = support_rand();
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_ALLOW}, false);
    struct led_preval p = {.guard = f->guard, .hash_key = gf_hash_key, .json_max = 2};
    struct led_entry entries[3];
    struct led_batch b = {.entries = entries, .count = 3};
    struct ron_arena arena;
    struct ron_buf out;

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    assert_int_equal(ron_arena_init(&arena, 4096), RON_OK);
    for (size_t i = 0; i < b.count; i++) {
        entries[i] = random_entry(&r, &arena);
    }
    ron_buf_init(&out, 1 << 16);
    to_json(&b, &out);
    (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
    assert_int_equal(led_preval_step(&p, &f->w, GF_NOW_MS), LED_NEXT_ANSWER);
    assert_int_equal(f->w.refusals.items[0].reason, LED_REASON_TOO_LARGE);
    assert_string_equal(f->w.refusals.items[0].detail, "at most 2 entries");
    ron_buf_clear(&out);
    assert_int_equal(led_batch_encode(&b, &out), RON_OK);
    (void)gf_work(f, LED_FORM_BINARY, ron_buf_data(&out), ron_buf_len(&out));
    assert_int_not_equal(led_preval_step(&p, &f->w, GF_NOW_MS), LED_NEXT_ANSWER);
    b.count = 2;
    ron_buf_clear(&out);
    to_json(&b, &out);
    (void)gf_work(f, LED_FORM_JSON, ron_buf_data(&out), ron_buf_len(&out));
    assert_int_not_equal(led_preval_step(&p, &f->w, GF_NOW_MS), LED_NEXT_ANSWER);
    ron_buf_done(&out);
    ron_arena_done(&arena);
    gf_close(f);
}

static void test_preval__cancel__needs_a_token_and_no_body(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct led_index *ix = index_with("old", "idem-old", 7);
    struct led_preval p = {.guard = f->guard, .index = ix, .hash_key = gf_hash_key};
    struct led_key key = led_idem_key(gf_hash_key, STR("idem-old"));

    (void)state;
    for (int i = 0; i < 3; i++) {
        (void)gf_json(f, "");
        f->w.kind = LED_WORK_CANCEL;
        f->w.batch.idem_id = STR(i == 1 ? "idem-old" : "idem-new");
        assert_int_equal(led_preval_step(&p, &f->w, GF_NOW_MS), i == 0   ? LED_NEXT_ANSWER
                                                                : i == 1 ? LED_NEXT_READERS
                                                                         : LED_NEXT_SEQUENCER);
        if (i == 1) {
            assert_memory_equal(&f->w.idem, &key, sizeof key);
            assert_int_equal(f->w.look_up, LED_LOOK_IDEM);
        }
        GF_TOKEN(f, "aud = ledger");
    }
    led_index_close(ix);
    gf_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preval__random_batches__the_same_from_both_forms),
        cmocka_unit_test(test_preval__most_entries__fit_the_arena),
        cmocka_unit_test(test_preval__longest_entries__fit_the_arena),
        cmocka_unit_test(test_preval__bad_bodies__have_a_typed_answer),
        cmocka_unit_test(test_preval__arena_too_small__refused_and_whole),
        cmocka_unit_test(test_preval__known_ids__go_to_the_readers_first),
        cmocka_unit_test(test_preval__refused__answered_at_the_step_that_refuses),
        cmocka_unit_test(test_preval__more_entries_than_allowed__refused_in_json_alone),
        cmocka_unit_test(test_preval__cancel__needs_a_token_and_no_body),
    };

    return cmocka_run_group_tests_name("ledger.preval", tests, NULL, NULL);
}
