/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an entry has one set of rules, told apart by member, and one binary form.
 * Method: one good entry, changed member by member in both forms; golden bytes; random entries
 * through both forms; every byte of a form changed and every prefix of it. */
#include "support/support.h"

#include "ledger/entry/entry.h"

#define GOOD_HEAD "\"id\":\"tx-1\",\"ts\":1700000000000,"
#define GOOD_TAIL                                                                                  \
    "\"nonce\":\"AAECAwQFBgcICQoLDA0ODw==\",\"kid\":\"k1\",\"capability_ref\":\"c1\",\"v\":1"

static char text[1 << 21];
static struct ron_arena arena;
static struct led_refusals refusals;
static struct led_batch batch;

static int setup(void **state)
{
    (void)state;
    return ron_arena_init(&arena, (size_t)8 << 20) == RON_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ron_arena_done(&arena);
    return 0;
}

static struct ron_str str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

static bool parse(const char *json)
{
    (void)snprintf(text, sizeof text, "%s", json);
    ron_arena_clear(&arena);
    return led_batch_from_json(text, strlen(text), LED_ORIGIN_CALLER, &arena, &batch, &refusals);
}

/* One entry between two good ones, given by its members. */
static bool parse_entry(const char *members)
{
    static char json[8192];

    (void)snprintf(json, sizeof json,
                   "{\"batch\":[{%s},{" GOOD_HEAD
                   "\"kind\":\"Mint\",\"account\":\"a\",\"amount\":\"1\"," GOOD_TAIL "}]}",
                   members);
    return parse(json);
}

static void refused(const char *members, enum led_reason reason, const char *member)
{
    if (parse_entry(members)) {
        fail_msg("accepted: %s", members);
    }
    assert_true(refusals.count >= 1);
    if (refusals.items[0].reason != reason || strcmp(refusals.items[0].member, member) != 0) {
        fail_msg("%s\n  gave %s of '%s' (%s)", members, led_reason_name(refusals.items[0].reason),
                 refusals.items[0].member, refusals.items[0].detail);
    }
    assert_int_equal(refusals.items[0].idx, 0);
    assert_true(refusals.items[0].detail[0] != '\0');
}

static struct led_entry good(uint8_t kind)
{
    struct led_entry e = {.id = str("tx-1"),
                          .account = str("t:demo/u:alice/w"),
                          .asset = str("roc"),
                          .kid = str("k1"),
                          .capability_ref = str("c1"),
                          .amount = ron_money_of(5),
                          .ts_ms = UINT64_C(1700000000000),
                          .kind = kind,
                          .v = 1};

    for (uint8_t i = 0; i < LED_NONCE_SIZE; i++) {
        e.nonce[i] = i;
    }
    if (led_kind_takes_to(kind)) {
        e.to = str("t:demo/u:bob/w");
    }
    if (led_kind_takes_ref(kind)) {
        e.ref = str("hold-1");
    }
    return e;
}

static void test_led_entry__tables__names_are_unique_and_read_back(void **state)
{
    (void)state;
    for (uint8_t k = LED_KIND_MINT; k <= LED_KIND_EXPIRE; k++) {
        assert_int_equal(led_kind_parse(str(led_kind_name(k))), k);
    }
    assert_null(led_kind_name(0));
    assert_null(led_kind_name(LED_KIND_EXPIRE + 1));
    assert_null(led_kind_name(255));
    assert_int_equal(led_kind_parse(str("transfer")), 0);
    for (int a = 0; a < LED_REASON_COUNT; a++) {
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(led_reason_name((enum led_reason)a),
                                    led_reason_name((enum led_reason)b));
        }
    }
    assert_int_equal(led_reason_http_status(LED_REASON_IDEM_MISMATCH), 409);
    assert_int_equal(led_reason_http_status(LED_REASON_BUSY), 429);
    assert_true(led_reason_retryable(LED_REASON_SAFE_MODE));
    assert_false(led_reason_retryable(LED_REASON_CONFLICT));
}

static void test_led_entry__good_request__every_member_arrives(void **state)
{
    static const uint8_t nonce[LED_NONCE_SIZE] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};
    const struct led_entry *e;

    (void)state;
    assert_true(parse(
        "{\"idem_id\":\"batch-7\",\"batch\":[{" GOOD_HEAD
        "\"kind\":\"Capture\",\"account\":\"t:demo/u:alice/"
        "w\",\"to\":\"shop_1\",\"asset\":\"usd.c\","
        "\"amount\":\"340282366920938463463374607431768211455\",\"account_nonce\":7,"
        "\"ref\":\"hold 1\",\"memo\":\"Gr\\u00fc\\u00dfe\"," GOOD_TAIL "},{" GOOD_HEAD
        "\"kind\":\"Hold\",\"account\":\"a\",\"amount\":\"1\",\"expires\":1700000000001," GOOD_TAIL
        "}]}"));
    assert_int_equal(batch.count, 2);
    assert_true(ron_str_is(batch.idem_id, "batch-7"));
    e = &batch.entries[0];
    assert_true(ron_str_is(e->id, "tx-1"));
    assert_int_equal(e->ts_ms, UINT64_C(1700000000000));
    assert_int_equal(e->kind, LED_KIND_CAPTURE);
    assert_true(ron_str_is(e->account, "t:demo/u:alice/w"));
    assert_true(ron_str_is(e->to, "shop_1"));
    assert_true(ron_str_is(e->asset, "usd.c"));
    support_assert_u128_equal(e->amount.v, RON_U128_MAX);
    assert_memory_equal(e->nonce, nonce, sizeof nonce);
    assert_int_equal(e->account_nonce, 7);
    assert_true(ron_str_is(e->ref, "hold 1"));
    assert_true(ron_str_is(e->kid, "k1"));
    assert_true(ron_str_is(e->capability_ref, "c1"));
    assert_true(ron_str_is(e->memo, "Gr\xc3\xbc\xc3\x9f"
                                    "e"));
    assert_int_equal(e->v, 1);
    e = &batch.entries[1];
    assert_true(ron_str_is(e->asset, "roc"));
    assert_int_equal(e->expires_ms, UINT64_C(1700000000001));
    assert_int_equal(e->account_nonce, 0);
    assert_int_equal(e->to.len + e->ref.len + e->memo.len, 0);
}

#define ENTRY(members) GOOD_HEAD members "," GOOD_TAIL
#define MINT "\"kind\":\"Mint\","
#define A "\"account\":\"a\","
#define ONE "\"amount\":\"1\""

static void test_led_entry__broken_rule__is_refused_by_member(void **state)
{
    (void)state;
    assert_true(parse_entry(ENTRY(MINT A ONE)));
    refused(ENTRY(MINT A ONE ",\"colour\":1"), LED_REASON_INVALID, "colour");
    refused(ENTRY(MINT A ONE ",\"id\":\"x\""), LED_REASON_INVALID, "id");
    refused(ENTRY("\"kind\":\"Steal\"," A ONE), LED_REASON_UNKNOWN_KIND, "kind");
    refused(ENTRY("\"kind\":\"mint\"," A ONE), LED_REASON_UNKNOWN_KIND, "kind");
    refused(ENTRY("\"kind\":\"Expire\",\"ref\":\"h\"," A ONE), LED_REASON_UNKNOWN_KIND, "kind");
    refused(ENTRY(MINT A "\"amount\":\"0\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"01\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"-1\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"+1\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"1.0\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"1e3\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\" 1\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"\""), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":1"), LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"amount\":\"340282366920938463463374607431768211456\""),
            LED_REASON_INVALID, "amount");
    refused(ENTRY(MINT A "\"asset\":\"ROC\"," ONE), LED_REASON_INVALID, "asset");
    refused(ENTRY(MINT A "\"asset\":\"\"," ONE), LED_REASON_INVALID, "asset");
    refused(ENTRY(MINT A "\"asset\":\"1roc\"," ONE), LED_REASON_INVALID, "asset");
    refused(ENTRY(MINT A "\"asset\":\"abcdefghijabcdefghijabcdefghijabc\"," ONE),
            LED_REASON_INVALID, "asset");
    refused(ENTRY(MINT "\"account\":\"\"," ONE), LED_REASON_INVALID, "account");
    refused(ENTRY(MINT "\"account\":\"a b\"," ONE), LED_REASON_INVALID, "account");
    refused(ENTRY(MINT "\"account\":\"a.b\"," ONE), LED_REASON_INVALID, "account");
    refused(ENTRY(MINT "\"account\":\"\\u00e4\"," ONE), LED_REASON_INVALID, "account");
    refused(ENTRY(MINT ONE), LED_REASON_INVALID, "account");
    refused(ENTRY(MINT A "\"to\":\"b\"," ONE), LED_REASON_INVALID, "to");
    refused(ENTRY("\"kind\":\"Transfer\"," A ONE), LED_REASON_INVALID, "to");
    refused(ENTRY("\"kind\":\"Transfer\",\"to\":\"a\"," A ONE), LED_REASON_INVALID, "to");
    refused(ENTRY("\"kind\":\"Transfer\",\"to\":\"\"," A ONE), LED_REASON_INVALID, "to");
    refused(ENTRY(MINT "\"to\":\"\"," A ONE), LED_REASON_INVALID, "to");
    refused(ENTRY("\"kind\":\"Capture\",\"to\":\"a\",\"ref\":\"h\"," A ONE), LED_REASON_INVALID,
            "to");
    refused(ENTRY("\"kind\":\"Capture\",\"to\":\"b\"," A ONE), LED_REASON_INVALID, "ref");
    refused(ENTRY("\"kind\":\"Release\"," A ONE), LED_REASON_INVALID, "ref");
    refused(ENTRY("\"kind\":\"Reverse\"," A ONE), LED_REASON_INVALID, "ref");
    refused(ENTRY("\"kind\":\"Reverse\",\"ref\":\"\"," A ONE), LED_REASON_INVALID, "ref");
    refused(ENTRY(MINT "\"ref\":\"x\"," A ONE), LED_REASON_INVALID, "ref");
    refused(ENTRY(MINT "\"expires\":1800000000000," A ONE), LED_REASON_INVALID, "expires");
    refused(ENTRY("\"kind\":\"Hold\",\"expires\":1700000000000," A ONE), LED_REASON_INVALID,
            "expires");
    refused(ENTRY("\"kind\":\"Hold\",\"expires\":0," A ONE), LED_REASON_INVALID, "expires");
    refused(ENTRY(MINT "\"account_nonce\":0," A ONE), LED_REASON_INVALID, "account_nonce");
    refused(ENTRY(MINT "\"account_nonce\":-1," A ONE), LED_REASON_INVALID, "account_nonce");
    refused(ENTRY(MINT "\"account_nonce\":18446744073709551616," A ONE), LED_REASON_INVALID,
            "account_nonce");
    refused(ENTRY(MINT "\"memo\":\"a\\nb\"," A ONE), LED_REASON_INVALID, "memo");
}

static void test_led_entry__names_of_the_ledger__refused_from_callers(void **state)
{
    struct led_entry e = good(LED_KIND_MINT);
    struct led_refusal refusal;

    (void)state;
    e.id = str("expire:12");
    assert_false(led_entry_check(&e, LED_ORIGIN_CALLER, &refusal));
    assert_string_equal(refusal.member, "id");
    assert_true(led_entry_check(&e, LED_ORIGIN_LEDGER, &refusal));
    e.id = str("expire");
    assert_true(led_entry_check(&e, LED_ORIGIN_CALLER, &refusal));
    memcpy(e.nonce, "expire:", 8);
    assert_false(led_entry_check(&e, LED_ORIGIN_CALLER, &refusal));
    assert_string_equal(refusal.member, "nonce");
    assert_true(led_entry_check(&e, LED_ORIGIN_LEDGER, &refusal));
}

#define REST ",\"kid\":\"k\",\"capability_ref\":\"c\",\"v\":1," MINT A ONE
#define NONCE "\"nonce\":\"AAECAwQFBgcICQoLDA0ODw==\""

static void test_led_entry__broken_envelope__is_refused_by_member(void **state)
{
    static const char *const bad_nonces[] = {
        "",
        "AAECAwQFBgcICQoLDA0ODw",
        "AAECAwQFBgcICQoLDA0ODx==",
        "AAECAwQFBgcICQoLDA0OD===",
        "AAECAwQFBgcICQoLDA0O",
        "AAECAwQFBgcICQoLDA0ODxA=",
        "AAECAwQFBgcICQoLDA0OD_==",
        "AAECAwQFBgcI QoLDA0ODw==",
        "AAECAwQFBgcICQoLDA0ODw==A",
        "AAECAwQFBgcICQoLDA0ODxAREg",
    };
    char members[512];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad_nonces); i++) {
        (void)snprintf(members, sizeof members, GOOD_HEAD "\"nonce\":\"%s\"" REST, bad_nonces[i]);
        refused(members, LED_REASON_INVALID, "nonce");
    }
    refused("\"id\":\"\",\"ts\":1," NONCE REST, LED_REASON_INVALID, "id");
    refused("\"id\":\"a\\tb\",\"ts\":1," NONCE REST, LED_REASON_INVALID, "id");
    refused("\"id\":\"\\u00e4\",\"ts\":1," NONCE REST, LED_REASON_INVALID, "id");
    refused("\"ts\":1," NONCE REST, LED_REASON_INVALID, "id");
    refused("\"id\":\"a\",\"ts\":0," NONCE REST, LED_REASON_INVALID, "ts");
    refused("\"id\":\"a\",\"ts\":1.5," NONCE REST, LED_REASON_INVALID, "ts");
    refused("\"id\":\"a\",\"ts\":\"1\"," NONCE REST, LED_REASON_INVALID, "ts");
    refused("\"id\":\"a\",\"ts\":9007199254740992," NONCE REST, LED_REASON_INVALID, "ts");
    refused("\"id\":\"a\",\"ts\":1," NONCE
            ",\"kid\":\"\",\"capability_ref\":\"c\",\"v\":1," MINT A ONE,
            LED_REASON_INVALID, "kid");
    refused("\"id\":\"a\",\"ts\":1," NONCE
            ",\"kid\":\"k\",\"capability_ref\":\"\",\"v\":1," MINT A ONE,
            LED_REASON_INVALID, "capability_ref");
    refused("\"id\":\"a\",\"ts\":1," NONCE
            ",\"kid\":\"k\",\"capability_ref\":\"c\",\"v\":2," MINT A ONE,
            LED_REASON_INVALID, "v");
    refused("\"id\":\"a\",\"ts\":1," NONCE
            ",\"kid\":\"k\",\"capability_ref\":\"c\",\"v\":65537," MINT A ONE,
            LED_REASON_INVALID, "v");
}

static void test_led_entry__length_limits__hold_to_the_byte(void **state)
{
    static const struct {
        size_t max;
        const char *name;
    } rows[] = {{LED_ID_MAX, "id"},       {LED_ACCOUNT_MAX, "account"},  {LED_ACCOUNT_MAX, "to"},
                {LED_ID_MAX, "ref"},      {LED_ID_MAX, "kid"},           {LED_MEMO_MAX, "memo"},
                {LED_ASSET_MAX, "asset"}, {LED_ID_MAX, "capability_ref"}};
    static char longest[LED_ACCOUNT_MAX + 2];

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct led_entry e = good(LED_KIND_CAPTURE);
        struct ron_str *const slots[] = {&e.id,  &e.account, &e.to,    &e.ref,
                                         &e.kid, &e.memo,    &e.asset, &e.capability_ref};
        struct led_refusal r = {0};

        *slots[i] = (struct ron_str){longest, rows[i].max};
        assert_true(led_entry_check(&e, LED_ORIGIN_CALLER, &r));
        *slots[i] = (struct ron_str){longest, rows[i].max + 1};
        assert_false(led_entry_check(&e, LED_ORIGIN_CALLER, &r));
        assert_string_equal(r.member, rows[i].name);
    }
}

static void test_led_entry__each_character__belongs_to_its_grammars(void **state)
{
    static const char accounts[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:/-_";
    static const char assets[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char account[2] = {'a', (char)c};
        struct ron_str s = {account, 2};

        assert_int_equal(led_account_valid(s), c != 0 && strchr(accounts, c) != NULL);
        assert_int_equal(led_asset_valid(s), c != 0 && strchr(assets, c) != NULL);
        assert_int_equal(led_token_valid(s), c >= ' ' && c <= '~');
    }
}

static void test_led_entry__broken_request__is_refused_as_a_whole(void **state)
{
    static const char one[] =
        "{" GOOD_HEAD "\"kind\":\"Mint\",\"account\":\"a\",\"amount\":\"1\"," GOOD_TAIL "},";
    size_t at;

    (void)state;
    assert_false(parse("{\"batch\":[]}"));
    assert_string_equal(refusals.items[0].member, "batch");
    assert_false(parse("{}"));
    assert_string_equal(refusals.items[0].member, "batch");
    assert_false(parse("[]"));
    assert_false(parse(""));
    assert_false(parse("{\"batch\":[{}]} x"));
    at = (size_t)snprintf(text, sizeof text, "{\"idem_id\":\"\",\"batch\":[%s", one);
    (void)snprintf(text + at - 1, sizeof text - at, "]}");
    ron_arena_clear(&arena);
    assert_false(
        led_batch_from_json(text, strlen(text), LED_ORIGIN_CALLER, &arena, &batch, &refusals));
    assert_string_equal(refusals.items[0].member, "idem_id");

    for (int extra = 0; extra < 2; extra++) {
        at = (size_t)snprintf(text, sizeof text, "{\"batch\":[");
        for (int i = 0; i < LED_BATCH_JSON_MAX + extra; i++) {
            memcpy(text + at, one, sizeof one - 1);
            at += sizeof one - 1;
        }
        (void)snprintf(text + at - 1, sizeof text - at, "]}");
        ron_arena_clear(&arena);
        assert_int_equal(
            led_batch_from_json(text, strlen(text), LED_ORIGIN_CALLER, &arena, &batch, &refusals),
            extra == 0);
    }
    assert_int_equal(refusals.items[0].reason, LED_REASON_TOO_LARGE);
    assert_true(led_batch_json_arena_size() <= (size_t)1 << 20);
}

static void test_led_entry__several_bad_entries__each_is_told(void **state)
{
    (void)state;
    assert_false(parse("{\"batch\":[{" ENTRY(MINT A "\"amount\":\"0\"") "},{" ENTRY(
        MINT A ONE) "},{" ENTRY("\"kind\":\"Nope\"," A ONE) "}]}"));
    assert_int_equal(refusals.count, 2);
    assert_int_equal(refusals.items[0].idx, 0);
    assert_int_equal(refusals.items[1].idx, 2);
    assert_int_equal(refusals.items[1].reason, LED_REASON_UNKNOWN_KIND);
    assert_false(
        parse("{\"batch\":[{" ENTRY(MINT A ONE) "},{" ENTRY(MINT A ONE) ",\"\xc3\xa4\":1}]}"));
    assert_int_equal(refusals.items[0].idx, 1);
    assert_string_equal(refusals.items[0].member, "??");
    /* A stranger's member that looks like the scanner's path is no index of ours. */
    assert_false(parse("{\"batch[99999999999\":[1]}"));
    assert_int_equal(refusals.items[0].idx, 0);
    assert_string_equal(refusals.items[0].member, "batch[99999999999");
    assert_false(parse("{\"batch[16384]\":[1]}"));
    assert_int_equal(refusals.items[0].idx, 0);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void hex(const uint8_t *bytes, size_t len, char *to)
{
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(to + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void check_golden(const struct led_entry *e, const char *expected)
{
    uint8_t bytes[LED_ENTRY_BYTES_MAX];
    char shown[2 * LED_ENTRY_BYTES_MAX + 1] = "";
    size_t len = (size_t)(led_entry_encode(e, bytes) - bytes);

    hex(bytes, len, shown);
    assert_string_equal(shown, expected);
}

/* The vectors of docs/formats/ledger-entry.md. */
static void test_led_entry__golden_vectors__bytes_never_change(void **state)
{
    struct led_entry e = good(LED_KIND_TRANSFER);

    (void)state;
    check_golden(&e, "0001"
                     "05"
                     "01"
                     "0000018bcfe56800"
                     "00000000000000000000000000000005"
                     "000102030405060708090a0b0c0d0e0f"
                     "04"
                     "74782d31"
                     "0010"
                     "743a64656d6f2f753a616c6963652f77"
                     "000e"
                     "743a64656d6f2f753a626f622f77"
                     "03"
                     "726f63"
                     "02"
                     "6b31"
                     "02"
                     "6331");
    e = good(LED_KIND_HOLD);
    e.amount = RON_MONEY_MAX;
    e.account_nonce = 7;
    e.expires_ms = e.ts_ms + 1;
    e.memo = str("hi");
    check_golden(&e, "0001"
                     "06"
                     "1c"
                     "0000018bcfe56800"
                     "ffffffffffffffffffffffffffffffff"
                     "000102030405060708090a0b0c0d0e0f"
                     "0000000000000007"
                     "0000018bcfe56801"
                     "04"
                     "74782d31"
                     "0010"
                     "743a64656d6f2f753a616c6963652f77"
                     "03"
                     "726f63"
                     "02"
                     "6b31"
                     "02"
                     "6331"
                     "0002"
                     "6869");
}

static bool same(const struct led_entry *a, const struct led_entry *b)
{
    const struct ron_str *x = &a->id;
    const struct ron_str *y = &b->id;

    for (int i = 0; i < 8; i++) {
        if (x[i].len != y[i].len || (x[i].len != 0 && memcmp(x[i].ptr, y[i].ptr, x[i].len) != 0)) {
            return false;
        }
    }
    return a->amount.v == b->amount.v && a->ts_ms == b->ts_ms && a->kind == b->kind &&
           a->account_nonce == b->account_nonce && a->expires_ms == b->expires_ms && a->v == b->v &&
           memcmp(a->nonce, b->nonce, sizeof a->nonce) == 0;
}

static struct ron_str random_text(struct ron_rand *rand, char *to, size_t max, const char *set)
{
    size_t len = 1 + (size_t)ron_rand_below(rand, ron_rand_chance(rand, 1, 8) ? max : 12);

    for (size_t i = 0; i < len; i++) {
        to[i] = set[ron_rand_below(rand, strlen(set))];
    }
    return (struct ron_str){to, len};
}

static struct led_entry random_entry(struct ron_rand *rand, char room[8][LED_ACCOUNT_MAX])
{
    static const char account[] = "abcXYZ019:/_-";
    static const char printable[] = " !\"\\#$%&'()*+,-./0129:;<=>?@AZ[]^_`az{|}~";
    struct led_entry e = good((uint8_t)ron_rand_range(rand, 1, LED_KIND_EXPIRE));

    e.id = random_text(rand, room[0], LED_ID_MAX, printable);
    e.account = random_text(rand, room[1], LED_ACCOUNT_MAX, account);
    e.asset = random_text(rand, room[2], LED_ASSET_MAX, "abcz");
    e.kid = random_text(rand, room[3], LED_ID_MAX, printable);
    e.capability_ref = random_text(rand, room[4], LED_ID_MAX, printable);
    if (led_kind_takes_to(e.kind)) {
        e.to = random_text(rand, room[5], LED_ACCOUNT_MAX, "pq");
    }
    if (led_kind_takes_ref(e.kind)) {
        e.ref = random_text(rand, room[6], LED_ID_MAX, printable);
    }
    if (ron_rand_chance(rand, 1, 3)) {
        e.memo = random_text(rand, room[7], LED_MEMO_MAX, printable);
    }
    e.ts_ms = 1 + support_rand_edgy_u64(rand) % LED_TIME_MAX_MS;
    e.amount.v = support_rand_edgy_u128(rand);
    e.amount.v += e.amount.v == 0;
    if (ron_rand_chance(rand, 1, 3)) {
        e.account_nonce = support_rand_edgy_u64(rand);
    }
    if (e.kind == LED_KIND_HOLD && e.ts_ms < LED_TIME_MAX_MS) {
        e.expires_ms = ron_rand_range(rand, e.ts_ms + 1, LED_TIME_MAX_MS);
    }
    ron_rand_bytes(rand, e.nonce, sizeof e.nonce);
    return e;
}

static void through_json(const struct led_entry *e)
{
    struct ron_json_writer w;
    struct ron_buf out;

    ron_buf_init_over(&out, text, sizeof text);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "batch", '[');
    led_entry_to_json(&w, NULL, e, 0);
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    assert_int_equal(ron_buf_error(&out), RON_OK);
    ron_arena_clear(&arena);
    if (!led_batch_from_json(text, ron_buf_len(&out), LED_ORIGIN_LEDGER, &arena, &batch,
                             &refusals)) {
        fail_msg("%s: %s in %s", refusals.items[0].member, refusals.items[0].detail, text);
    }
    assert_int_equal(batch.count, 1);
    assert_true(same(e, &batch.entries[0]));
}

static void test_led_entry__random_entries__survive_both_forms(void **state)
{
    struct ron_rand rand = support_rand();
    static char room[8][LED_ACCOUNT_MAX];
    uint8_t bytes[LED_ENTRY_BYTES_MAX];
    uint8_t again[LED_ENTRY_BYTES_MAX];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct led_entry e = random_entry(&rand, room);
        struct led_entry back = {0};
        struct led_refusal r = {0};
        size_t len = led_entry_size(&e);

        assert_true(len >= LED_ENTRY_BYTES_MIN && len <= LED_ENTRY_BYTES_MAX);
        assert_ptr_equal(led_entry_encode(&e, bytes), bytes + len);
        if (!led_entry_decode(bytes, len, LED_ORIGIN_LEDGER, &back, &r)) {
            fail_msg("%s: %s", r.member, r.detail);
        }
        assert_true(same(&e, &back));
        assert_ptr_equal(led_entry_encode(&back, again), again + len);
        assert_memory_equal(bytes, again, len);
        through_json(&e);
    }
}

/* Whatever the decoder accepts encodes to the very same bytes (E2). */
static void test_led_entry__every_changed_byte__is_refused_or_canonical(void **state)
{
    struct led_entry e = good(LED_KIND_HOLD);
    uint8_t bytes[LED_ENTRY_BYTES_MAX];
    uint8_t again[LED_ENTRY_BYTES_MAX];
    struct led_refusal r;
    struct led_entry back;
    size_t len;
    size_t refused_count = 0;

    (void)state;
    e.account_nonce = 1;
    e.expires_ms = e.ts_ms + 1000;
    e.memo = str("memo");
    len = (size_t)(led_entry_encode(&e, bytes) - bytes);
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(led_entry_decode(bytes, cut, LED_ORIGIN_CALLER, &back, &r));
    }
    bytes[len] = 0;
    assert_false(led_entry_decode(bytes, len + 1, LED_ORIGIN_CALLER, &back, &r));
    for (size_t at = 0; at < len; at++) {
        for (int flip = 1; flip < 256; flip++) {
            bytes[at] ^= (uint8_t)flip;
            if (led_entry_decode(bytes, len, LED_ORIGIN_CALLER, &back, &r)) {
                assert_ptr_equal(led_entry_encode(&back, again), again + len);
                assert_memory_equal(bytes, again, len);
                assert_false(same(&e, &back));
            } else {
                refused_count++;
            }
            bytes[at] ^= (uint8_t)flip;
        }
    }
    assert_true(refused_count > len * 64);
}

static void test_led_entry__batch_bytes__round_trip_and_strictness(void **state)
{
    struct led_entry entries[3] = {good(LED_KIND_MINT), good(LED_KIND_TRANSFER),
                                   good(LED_KIND_RELEASE)};
    struct led_batch in = {.entries = entries, .count = 3, .idem_id = str("b1"), .dry_run = true};
    struct ron_str *leaves = NULL;
    struct ron_buf out;
    uint8_t *bytes;
    size_t len;

    (void)state;
    ron_buf_init_over(&out, text, sizeof text);
    assert_int_equal(led_batch_encode(&in, &out), RON_OK);
    bytes = (uint8_t *)text;
    len = ron_buf_len(&out);
    ron_arena_clear(&arena);
    assert_true(
        led_batch_decode(bytes, len, LED_ORIGIN_CALLER, &arena, &batch, &leaves, &refusals));
    assert_int_equal(batch.count, 3);
    assert_true(batch.dry_run);
    assert_true(ron_str_is(batch.idem_id, "b1"));
    for (size_t i = 0; i < 3; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];

        assert_true(same(&entries[i], &batch.entries[i]));
        (void)led_entry_encode(&entries[i], leaf);
        assert_int_equal(leaves[i].len, led_entry_size(&entries[i]));
        assert_memory_equal(leaves[i].ptr, leaf, leaves[i].len);
    }
    for (size_t cut = 0; cut < len; cut++) {
        ron_arena_clear(&arena);
        assert_false(
            led_batch_decode(bytes, cut, LED_ORIGIN_CALLER, &arena, &batch, NULL, &refusals));
    }
    bytes[len] = 0;
    ron_arena_clear(&arena);
    assert_false(
        led_batch_decode(bytes, len + 1, LED_ORIGIN_CALLER, &arena, &batch, NULL, &refusals));
    bytes[2] = 2; /* an unknown flag */
    assert_false(led_batch_decode(bytes, len, LED_ORIGIN_CALLER, &arena, &batch, NULL, &refusals));
    bytes[2] = 0;
    bytes[6] = 0x7f; /* more entries than a batch may have */
    assert_false(led_batch_decode(bytes, len, LED_ORIGIN_CALLER, &arena, &batch, NULL, &refusals));
    assert_int_equal(refusals.items[0].reason, LED_REASON_TOO_LARGE);
}

static void test_led_entry__answers__have_their_shape(void **state)
{
    uint8_t root[32] = {0xab, 0x01};
    struct led_refusals list = {.count = 0};
    struct led_refusal r;
    struct ron_buf out;

    (void)state;
    ron_buf_init_over(&out, text, sizeof text);
    led_response_to_json(
        &out,
        &(struct led_response){.accepted = true, .seq_start = 5, .seq_end = 6, .new_root = root});
    assert_string_equal(ron_buf_text(&out),
                        "{\"accepted\":true,\"seq_start\":5,\"seq_end\":6,\"new_root\":"
                        "\"ab01000000000000000000000000"
                        "000000000000000000000000000000000000\",\"reasons\":[]}");
    led_refuse(&r, LED_REASON_CONFLICT, "ref", "reversed already");
    led_refusals_add(&list, &r, 3);
    ron_buf_clear(&out);
    led_response_to_json(&out, &(struct led_response){.new_root = root, .refusals = &list});
    assert_string_equal(ron_buf_text(&out), "{\"accepted\":false,\"seq_start\":null,\"seq_end\":"
                                            "null,\"new_root\":\"ab0100000000000000000"
                                            "0000000000000000000000000000000000000000000\","
                                            "\"reasons\":[{\"idx\":3,\"reason\":\"conflict\""
                                            ",\"details\":\"ref: reversed already\"}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_entry__tables__names_are_unique_and_read_back),
        cmocka_unit_test(test_led_entry__good_request__every_member_arrives),
        cmocka_unit_test(test_led_entry__broken_rule__is_refused_by_member),
        cmocka_unit_test(test_led_entry__names_of_the_ledger__refused_from_callers),
        cmocka_unit_test(test_led_entry__broken_envelope__is_refused_by_member),
        cmocka_unit_test(test_led_entry__length_limits__hold_to_the_byte),
        cmocka_unit_test(test_led_entry__each_character__belongs_to_its_grammars),
        cmocka_unit_test(test_led_entry__broken_request__is_refused_as_a_whole),
        cmocka_unit_test(test_led_entry__several_bad_entries__each_is_told),
        cmocka_unit_test(test_led_entry__golden_vectors__bytes_never_change),
        cmocka_unit_test(test_led_entry__random_entries__survive_both_forms),
        cmocka_unit_test(test_led_entry__every_changed_byte__is_refused_or_canonical),
        cmocka_unit_test(test_led_entry__batch_bytes__round_trip_and_strictness),
        cmocka_unit_test(test_led_entry__answers__have_their_shape),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
