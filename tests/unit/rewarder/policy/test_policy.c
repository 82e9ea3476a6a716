/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a policy is what its document says, in one spelling under one hash, and no document that
 * breaks a rule becomes one.
 *
 * Method: a good document, and each rule broken by replacing one piece of it; the refusal must name
 * the member. Signatures with keys from fixed seeds. The emission curve at its edges. */
#include "support/support.h"

#include "rewarder/policy/policy.h"
#include "ron/base/alloc.h"
#include "ron/base/buf.h"

#define FIRST                                                                                      \
    "\"v\":1,\"id\":\"policy:v1\",\"version\":3,\"funding_source\":\"creator_pool\","              \
    "\"asset\":\"roc\",\"max_payout_minor_units\":\"1000000\","                                    \
    "\"min_payout_minor_units\":\"1\",\"weight_bps\":10000,\"rounding\":\"floor\","                \
    "\"residual\":\"unissued\",\"weights\":{\"bytes_stored\":\"1\",\"bytes_served\":\"1/4\","      \
    "\"uptime_seconds\":\"1\"}"
#define SECOND                                                                                     \
    ",\"funding_account\":\"pool\",\"remainder_sink\":\"treasury\","                               \
    "\"actor_cap_minor_units\":\"500\","                                                           \
    "\"categories\":[{\"prefix\":\"t:1/\",\"cap_minor_units\":\"300\"},"                           \
    "{\"prefix\":\"t:2/\",\"cap_minor_units\":\"0\"}],"                                            \
    "\"emission\":{\"kind\":\"halving\",\"base_minor_units\":\"5000\",\"start_millis\":7,"         \
    "\"epoch_millis\":3600000,\"period_epochs\":1000}"
static const char plain[] = "{" FIRST "}";
static const char full[] = "{" FIRST SECOND "}";

/* The signature of `full` with the seed below, and the public keys further down, are by another
 * implementation of Ed25519. */
#define SIG_A                                                                                      \
    "f5dc407bd82411c1c2f32ecc1c58387891a191fa70aa28cfc7d27f99dd983d5d"                             \
    "0fd7df38484ad5b00e8b9d389b7936b59571f702b70f30c34301c165dbe99f0c"

static const uint8_t seed_a[RWD_SIGN_KEY_BYTES] = {1, 2, 3};

/* `text` with the first `from` replaced by `to`. */
static void swap(char *out, size_t size, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    int len;

    assert_non_null(at);
    len = snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_true(len > 0 && (size_t)len < size);
}

static struct rwd_policy_doc *read_good(const char *text)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};

    if (rwd_policy_read(text, strlen(text), NULL, 0, &doc, &err) != RON_OK) {
        fail_msg("refused: %s", err.msg);
    }
    return doc;
}

static void expect_refusal(const char *text, enum ron_rc rc, const char *word)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};
    enum ron_rc got = rwd_policy_read(text, strlen(text), NULL, 0, &doc, &err);

    assert_null(doc);
    if (got != rc || strstr(err.msg, word) == NULL) {
        fail_msg("%s: %s \"%s\", wanted %s with \"%s\"", text, ron_rc_name(got), err.msg,
                 ron_rc_name(rc), word);
    }
}

static void test_policy__full_document__every_value_is_read(void **state)
{
    struct rwd_policy_doc *doc = read_good(full);
    const struct rwd_policy *p = rwd_policy_of(doc);

    (void)state;
    assert_true(ron_str_is(p->id, "policy:v1"));
    assert_int_equal(p->version, 3);
    assert_int_equal(p->funding, RWD_FUND_CREATOR_POOL);
    assert_true(ron_str_is(p->asset, "roc"));
    assert_true(p->max.v == 1000000);
    assert_true(p->min.v == 1);
    assert_int_equal(p->weight_bps, 10000);
    assert_int_equal(p->rounding, RWD_ROUND_FLOOR);
    assert_int_equal(p->residual, RWD_RESIDUAL_UNISSUED);
    assert_true(p->stored.num == 1 && p->stored.den == 1);
    assert_true(p->served.num == 1 && p->served.den == 4);
    assert_true(p->uptime.num == 1 && p->uptime.den == 1);
    assert_true(ron_str_is(p->funding_account, "pool"));
    assert_true(ron_str_is(p->sink, "treasury"));
    assert_true(p->has_actor_cap && p->actor_cap.v == 500);
    assert_int_equal(p->category_count, 2);
    assert_true(ron_str_is(p->categories[0].prefix, "t:1/") && p->categories[0].cap.v == 300);
    assert_true(ron_str_is(p->categories[1].prefix, "t:2/") && p->categories[1].cap.v == 0);
    assert_int_equal(p->emission, RWD_EMIT_HALVING);
    assert_true(p->emission_base.v == 5000);
    assert_int_equal(p->emission_start_ms, 7);
    assert_int_equal(p->emission_epoch_ms, 3600000);
    assert_int_equal(p->emission_period, 1000);
    assert_false(p->is_signed);
    assert_string_equal(p->key_id, "");
    rwd_policy_free(doc);
}

/* The hashes were computed with b3sum over the bytes above. */
static void test_policy__canonical_document__keeps_its_bytes_and_hash(void **state)
{
    static const struct {
        const char *text;
        const char *hash;
    } cases[] = {
        {plain, "b3:9a8f3c3309f1885ee40204f7dd1e0919e91668f15db66bfddd9c3edd76e7548c"},
        {full, "b3:88802c06843ab0bb9e8e6a4c130008f418f7079d070720280a6aadd19444b3e9"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct rwd_policy_doc *doc = read_good(cases[i].text);
        char id[RON_B3_ID_SIZE];

        assert_true(ron_str_is(rwd_policy_bytes(doc), cases[i].text));
        ron_b3_format(&rwd_policy_of(doc)->hash, id);
        assert_string_equal(id, cases[i].hash);
        rwd_policy_free(doc);
    }
}

/* Members in another order, blanks, escapes, fractions that are not in lowest terms, categories
 * unsorted, an empty list: one meaning, one hash. */
static void test_policy__other_spellings__have_the_same_bytes(void **state)
{
    static const struct {
        const char *text;
        const char *from;
        const char *to;
    } cases[] = {
        {plain, "\"v\":1,\"id\":\"policy:v1\",", "\n\"id\" :\"policy:v1\"\t, \"v\": 1,"},
        {plain, "policy:v1", "\\u0070olicy:v1"},
        {plain, "\"1/4\"", "\"25/100\""},
        {plain, "\"bytes_stored\":\"1\"", "\"bytes_stored\":\"4294967296/4294967296\""},
        {plain, "\"}}", "\"},\"categories\":[]}"},
        {full,
         "{\"prefix\":\"t:1/\",\"cap_minor_units\":\"300\"},{\"prefix\":\"t:2/\","
         "\"cap_minor_units\":\"0\"}",
         "{\"cap_minor_units\":\"0\",\"prefix\":\"t:2/\"},{\"prefix\":\"t:1\\/\","
         "\"cap_minor_units\":\"300\"}"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char text[2048];
        struct rwd_policy_doc *doc;

        swap(text, sizeof text, cases[i].text, cases[i].from, cases[i].to);
        doc = read_good(text);
        assert_true(ron_str_is(rwd_policy_bytes(doc), cases[i].text));
        rwd_policy_free(doc);
    }
}

static void test_policy__broken_rule__is_refused_by_name(void **state)
{
    static const struct {
        const char *from;
        const char *to;
        const char *word;
    } cases[] = {
        {"\"v\":1", "\"v\":2", "v: must be 1"},
        {"\"v\":1,", "", "v"},
        {"\"v\":1", "\"v\":1,\"v\":1", "v: the member stands twice"},
        {"\"v\":1", "\"v\":1,\"hash\":\"b3:00\"", "hash: unknown member"},
        {"policy:v1", "", "id: must be 1 to 128"},
        {"policy:v1", "policy v1", "id:"},
        {"\"version\":3", "\"version\":0", "version: must be above 0"},
        {"\"version\":3", "\"version\":9007199254740992", "version"},
        {"\"version\":3", "\"version\":1.5", "version"},
        {"creator_pool", "my_pool", "funding_source: no such source"},
        {"\"roc\"", "\"ROC\"", "asset:"},
        {"\"roc\"", "\"\"", "asset:"},
        {"\"roc\"", "\"r23456789012345678901234567890123\"", "asset:"},
        {"\"1000000\"", "1000000", "max_payout_minor_units"},
        {"\"1000000\"", "\"01\"", "max_payout_minor_units"},
        {"\"1000000\"", "\"0\"", "max_payout_minor_units: is below min"},
        {"10000,", "0,", "weight_bps: must be 1 to 100000"},
        {"10000,", "100001,", "weight_bps: must be 1 to 100000"},
        {"10000,", "-1,", "weight_bps"},
        {"\"floor\"", "\"bankers\"", "rounding: must be"},
        {"\"unissued\"", "\"burn\"", "residual: must be"},
        {"\"1/4\"", "\"1/0\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"1/\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"/4\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"1/4/2\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"01/4\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"-1/4\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"0.25\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"1 /4\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"4294967297/4\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "\"1/4294967297\"", "weights.bytes_served: must be"},
        {"\"1/4\"", "0.25", "weights.bytes_served"},
        {"\"bytes_served\":\"1/4\",", "", "bytes_served"},
        {"\"1\",\"bytes_served\":\"1/4\",\"uptime_seconds\":\"1\"",
         "\"0\",\"bytes_served\":\"0/4\",\"uptime_seconds\":\"0\"", "weights: at least one"},
        {"\"pool\"", "\"a b\"", "funding_account:"},
        {"\"pool\"", "\"\"", "funding_account:"},
        {"\"treasury\"", "\"\"", "remainder_sink:"},
        {"\"500\"", "null", "actor_cap_minor_units"},
        {"\"t:1/\"", "\"\"", "categories[0].prefix"},
        {"\"t:1/\"", "\"t 1\"", "categories[0].prefix"},
        {"\"t:1/\"", "\"t:2/\"", "categories: \"t:2/\" begins with \"t:2/\""},
        {"\"t:1/\"", "\"t:2/x\"", "categories: \"t:2/x\" begins with \"t:2/\""},
        {"\"t:1/\"", "\"t:\"", "categories: \"t:2/\" begins with \"t:\""},
        {"\"halving\"", "\"none\"", "emission.kind: must be"},
        {"\"halving\"", "\"constant\"", "emission: a constant one"},
        {"\"epoch_millis\":3600000", "\"epoch_millis\":0", "emission.epoch_millis"},
        {"\"epoch_millis\":3600000,", "", "emission.epoch_millis"},
        {"\"period_epochs\":1000", "\"period_epochs\":0", "emission.period_epochs"},
        {"\"start_millis\":7,", "", "start_millis"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char text[2048];

        swap(text, sizeof text, full, cases[i].from, cases[i].to);
        expect_refusal(text, RON_INVALID, cases[i].word);
    }
    expect_refusal("", RON_INVALID, "");
    expect_refusal("[]", RON_INVALID, "");
    expect_refusal("{\"v\":1} x", RON_INVALID, "");
}

static void test_policy__sink_rule__needs_a_sink(void **state)
{
    char text[2048];
    char with[2048];
    struct rwd_policy_doc *doc;

    (void)state;
    swap(text, sizeof text, plain, "unissued", "sink");
    expect_refusal(text, RON_INVALID, "remainder_sink: is needed");
    swap(with, sizeof with, text, "\"}}", "\"},\"remainder_sink\":\"treasury\"}");
    doc = read_good(with);
    assert_int_equal(rwd_policy_of(doc)->residual, RWD_RESIDUAL_SINK);
    rwd_policy_free(doc);
}

static void test_policy__too_much__is_a_limit(void **state)
{
    struct ron_buf text;
    struct rwd_policy_doc *doc = NULL;

    (void)state;
    ron_buf_init(&text, 2 * RWD_POLICY_TEXT_MAX);
    for (int count = RWD_CATEGORIES_MAX; count <= RWD_CATEGORIES_MAX + 1; count++) {
        ron_buf_clear(&text);
        RON_IGNORE(ron_buf_append(&text, plain, sizeof plain - 2));
        for (int i = 0; i < count; i++) {
            RON_IGNORE(ron_buf_append_fmt(&text, "%s{\"prefix\":\"%d/\",\"cap_minor_units\":\"1\"}",
                                          i == 0 ? ",\"categories\":[" : ",", i));
        }
        RON_IGNORE(ron_buf_append_text(&text, "]}"));
        if (count == RWD_CATEGORIES_MAX) {
            rwd_policy_free(read_good(ron_buf_text(&text)));
        } else {
            expect_refusal(ron_buf_text(&text), RON_LIMIT, "categories: too many items");
        }
    }
    ron_buf_clear(&text);
    RON_IGNORE(ron_buf_append_text(&text, plain));
    while (ron_buf_len(&text) < RWD_POLICY_TEXT_MAX) {
        RON_IGNORE(ron_buf_append_byte(&text, ' '));
    }
    assert_int_equal(rwd_policy_read(ron_buf_data(&text), RWD_POLICY_TEXT_MAX, NULL, 0, &doc, NULL),
                     RON_OK);
    rwd_policy_free(doc);
    RON_IGNORE(ron_buf_append_byte(&text, ' '));
    expect_refusal(ron_buf_text(&text), RON_LIMIT, "at most 65536 bytes");
    ron_buf_done(&text);
}

static void test_policy__public_money__needs_a_signature(void **state)
{
    static const char *const sources[] = {"protocol_pool", "governance_budget"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(sources); i++) {
        char text[2048];
        struct rwd_policy_doc *doc = NULL;

        swap(text, sizeof text, plain, "creator_pool", sources[i]);
        expect_refusal(text, RON_DENIED, "needs a signature");
        assert_int_equal(rwd_policy_draft(text, strlen(text), &doc, NULL), RON_OK);
        assert_false(rwd_policy_of(doc)->is_signed);
        rwd_policy_free(doc);
    }
}

/* ---- signatures ------------------------------------------------------------------------------ */

static const struct rwd_policy_key key_a = {
    "ops-1", {0x22, 0x1f, 0xe5, 0xf6, 0x85, 0x9a, 0x1a, 0x4f, 0xec, 0x79, 0x05,
              0x7c, 0x9d, 0x32, 0xc8, 0xd3, 0xfc, 0x35, 0x6e, 0x14, 0x4b, 0x1d,
              0xa3, 0xb0, 0xf9, 0x01, 0x6e, 0xf6, 0xf2, 0x98, 0x88, 0xda}};
static const struct rwd_policy_key key_b = {
    "ops-2", {0xe4, 0xe5, 0x7b, 0xc4, 0xfc, 0x4b, 0xca, 0x2d, 0xdc, 0x8b, 0x1f,
              0x2f, 0x96, 0xfd, 0xfc, 0x9c, 0xe1, 0x66, 0xe7, 0xcd, 0x63, 0x9c,
              0x10, 0xb8, 0x11, 0xdf, 0x7b, 0x51, 0x27, 0x81, 0xb3, 0x41}};

static void sign(const char *text, const char *key_id, const uint8_t *seed, struct ron_buf *out)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};

    ron_buf_init(out, 2 * RWD_POLICY_TEXT_MAX);
    assert_int_equal(rwd_policy_draft(text, strlen(text), &doc, &err), RON_OK);
    assert_int_equal(rwd_policy_sign(doc, key_id, seed, &err), RON_OK);
    assert_true(rwd_policy_of(doc)->is_signed);
    assert_string_equal(rwd_policy_of(doc)->key_id, key_id);
    assert_int_equal(rwd_policy_sign(doc, key_id, seed, &err), RON_EXISTS);
    assert_int_equal(rwd_policy_write(doc, out), RON_OK);
    rwd_policy_free(doc);
}

static void test_policy__signed_document__is_read_with_its_key_and_written_as_it_was(void **state)
{
    const struct rwd_policy_key keys[] = {key_b, key_a};
    struct ron_buf text;
    struct ron_buf again;
    struct rwd_policy_doc *doc = NULL;
    struct rwd_policy_doc *bare = read_good(full);
    struct ron_err err = {0};

    (void)state;
    sign(full, "ops-1", seed_a, &text);
    assert_non_null(strstr(ron_buf_text(&text), "\"sig_ed25519\":\"" SIG_A "\"}"));
    assert_int_equal(rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), keys, 2, &doc, &err),
                     RON_OK);
    assert_true(rwd_policy_of(doc)->is_signed);
    assert_string_equal(rwd_policy_of(doc)->key_id, "ops-1");
    assert_true(ron_b3_equal(&rwd_policy_of(doc)->hash, &rwd_policy_of(bare)->hash));
    assert_true(ron_str_is(rwd_policy_bytes(doc), full));
    ron_buf_init(&again, RWD_POLICY_TEXT_MAX);
    assert_int_equal(rwd_policy_write(doc, &again), RON_OK);
    assert_string_equal(ron_buf_text(&again), ron_buf_text(&text));
    ron_buf_clear(&again);
    assert_int_equal(rwd_policy_write(bare, &again), RON_OK);
    assert_string_equal(ron_buf_text(&again), full);
    assert_int_equal(rwd_policy_draft(ron_buf_data(&text), ron_buf_len(&text), &doc, &err),
                     RON_INVALID);
    rwd_policy_free(doc);
    rwd_policy_free(bare);
    ron_buf_done(&text);
    ron_buf_done(&again);
}

static void expect_signed(const char *text, const struct rwd_policy_key *keys, size_t count,
                          enum ron_rc rc, const char *word)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};
    enum ron_rc got = rwd_policy_read(text, strlen(text), keys, count, &doc, &err);

    if (got != rc || (rc != RON_OK && strstr(err.msg, word) == NULL)) {
        fail_msg("%s \"%s\", wanted %s with \"%s\"", ron_rc_name(got), err.msg, ron_rc_name(rc),
                 word);
    }
    rwd_policy_free(doc);
}

static void test_policy__bad_signature__is_denied(void **state)
{
    struct rwd_policy_key both[] = {key_b, key_a};
    struct rwd_policy_key *renamed = &both[0];
    struct ron_buf text;
    char changed[4096];
    const char *good;
    char *sig;

    (void)state;
    (void)snprintf(renamed->id, sizeof renamed->id, "ops-1");
    sign(full, "ops-1", seed_a, &text);
    good = ron_buf_text(&text);
    expect_signed(good, &key_a, 1, RON_OK, "");
    expect_signed(good, both, 2, RON_OK, ""); /* two keys of one id: either may have signed */
    expect_signed(good, NULL, 0, RON_DENIED, "key that is not known");
    expect_signed(good, &key_b, 1, RON_DENIED, "key that is not known");
    expect_signed(good, renamed, 1, RON_DENIED, "signature is not good");
    /* Any value that was changed after signing. */
    swap(changed, sizeof changed, good, "\"300\"", "\"301\"");
    expect_signed(changed, &key_a, 1, RON_DENIED, "signature is not good");
    /* Any bit of the signature. */
    for (size_t i = 0; i < 2 * RWD_SIG_BYTES; i++) {
        swap(changed, sizeof changed, good, "", "");
        sig = strstr(changed, "sig_ed25519\":\"") + strlen("sig_ed25519\":\"");
        sig[i] = sig[i] == '0' ? '1' : '0';
        expect_signed(changed, &key_a, 1, RON_DENIED, "signature is not good");
    }
    ron_buf_done(&text);
}

static void test_policy__malformed_signature__is_invalid(void **state)
{
    struct ron_buf text;
    char changed[4096];
    const char *good;
    char *sig;
    struct rwd_policy_doc *doc = read_good(plain);
    struct ron_err err = {0};

    (void)state;
    sign(full, "ops-1", seed_a, &text);
    good = ron_buf_text(&text);
    swap(changed, sizeof changed, good, "sig_ed25519\":\"", "sig_ed25519\":\"00");
    expect_signed(changed, &key_a, 1, RON_INVALID, "sig_ed25519: must be 128");
    for (const char *c = "AFg-"; *c != '\0'; c++) {
        swap(changed, sizeof changed, good, "", "");
        sig = strstr(changed, "sig_ed25519\":\"") + strlen("sig_ed25519\":\"");
        sig[5] = *c;
        expect_signed(changed, &key_a, 1, RON_INVALID, "sig_ed25519: must be 128");
    }
    swap(changed, sizeof changed, good, "ops-1", "");
    expect_signed(changed, &key_a, 1, RON_INVALID, "key_id: must be");
    swap(changed, sizeof changed, good, ",\"key_id\":\"ops-1\"", "");
    expect_signed(changed, &key_a, 1, RON_INVALID, "key_id");
    swap(changed, sizeof changed, good, ",\"key_id\"", ",\"more\":1,\"key_id\"");
    expect_signed(changed, &key_a, 1, RON_INVALID, "more: unknown member");
    swap(changed, sizeof changed, good, "\"halving\"", "\"none\"");
    expect_signed(changed, &key_a, 1, RON_INVALID, "emission.kind");
    assert_int_equal(rwd_policy_sign(doc, "no key", seed_a, &err), RON_INVALID);
    assert_int_equal(rwd_policy_sign(doc, "", seed_a, &err), RON_INVALID);
    assert_false(rwd_policy_of(doc)->is_signed);
    rwd_policy_free(doc);
    ron_buf_done(&text);
}

/* ---- the curve ------------------------------------------------------------------------------- */

static void test_policy__halving_curve__starts_halves_and_ends(void **state)
{
    struct rwd_policy p;
    const uint64_t era = 60000 * 10;

    (void)state;
    rwd_policy_default(&p);
    p.emission = RWD_EMIT_HALVING;
    p.emission_base = (struct ron_money){RON_U128_MAX};
    p.emission_start_ms = 1000;
    p.emission_epoch_ms = 60000;
    p.emission_period = 10;
    assert_true(rwd_policy_pool_max(&p, 0).v == 0);
    assert_true(rwd_policy_pool_max(&p, 999).v == 0);
    for (uint64_t n = 0; n < 128; n++) {
        assert_true(rwd_policy_pool_max(&p, 1000 + n * era).v == RON_U128_MAX >> n);
        assert_true(rwd_policy_pool_max(&p, 1000 + (n + 1) * era - 1).v == RON_U128_MAX >> n);
    }
    assert_true(rwd_policy_pool_max(&p, 1000 + 128 * era).v == 0);
    assert_true(rwd_policy_pool_max(&p, UINT64_MAX).v == 0);
    p.max = ron_money_of(77);
    assert_true(rwd_policy_pool_max(&p, 1000).v == 77);
    p.emission_base = ron_money_of(100);
    assert_true(rwd_policy_pool_max(&p, 1000 + era).v == 50);
}

static void test_policy__constant_or_no_curve__is_flat(void **state)
{
    struct rwd_policy p;
    char text[2048];
    struct rwd_policy_doc *doc;

    (void)state;
    rwd_policy_default(&p);
    assert_true(rwd_policy_pool_max(&p, 0).v == RON_U128_MAX);
    p.emission = RWD_EMIT_CONSTANT;
    p.emission_base = ron_money_of(5);
    p.emission_start_ms = 10;
    assert_true(rwd_policy_pool_max(&p, 9).v == 0);
    assert_true(rwd_policy_pool_max(&p, 10).v == 5);
    assert_true(rwd_policy_pool_max(&p, UINT64_MAX).v == 5);
    swap(text, sizeof text, plain, "\"}}",
         "\"},\"emission\":{\"kind\":\"constant\",\"base_minor_units\":\"9\",\"start_millis\":2}}");
    doc = read_good(text);
    assert_true(ron_str_is(rwd_policy_bytes(doc), text));
    assert_true(rwd_policy_pool_max(rwd_policy_of(doc), 1).v == 0);
    assert_true(rwd_policy_pool_max(rwd_policy_of(doc), 2).v == 9);
    rwd_policy_free(doc);
}

static void test_policy__key_of_a_signer__is_an_id_and_digits(void **state)
{
    static const char good[] =
        "ops-1=221fe5f6859a1a4fec79057c9d32c8d3fc356e144b1da3b0f9016ef6f29888da";
    const struct ron_str bad[] = {
        {good, 0},                   /* nothing */
        {good, 5},                   /* no digits */
        {good, 6},                   /* none behind the mark */
        {good, sizeof good - 2},     /* one short */
        {good, sizeof good},         /* one more */
        {good + 5, sizeof good - 6}, /* no id */
        {"ops 1=221fe5f6859a1a4fec79057c9d32c8d3fc356e144b1da3b0f9016ef6f29888da", 70},
        {"ops-1=221FE5F6859a1a4fec79057c9d32c8d3fc356e144b1da3b0f9016ef6f29888da", 70},
    };
    struct rwd_policy_key key = key_b;
    struct ron_err err = {0};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(rwd_policy_key_read(bad[i], &key, &err), RON_INVALID);
        assert_memory_equal(&key, &key_b, sizeof key);
    }
    assert_int_equal(rwd_policy_key_read((struct ron_str){good, sizeof good - 1}, &key, &err),
                     RON_OK);
    assert_string_equal(key.id, key_a.id);
    assert_memory_equal(key.public_key, key_a.public_key, sizeof key.public_key);
}

static enum ron_rc sweep_read(void *arg)
{
    struct rwd_policy_doc *doc = NULL;
    enum ron_rc rc = rwd_policy_read(full, sizeof full - 1, NULL, 0, &doc, NULL);

    (void)arg;
    rwd_policy_free(doc);
    return rc;
}
SUPPORT_FAULT_SWEEP(test_policy__memory_fails__nothing_leaks, sweep_read)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy__full_document__every_value_is_read),
        cmocka_unit_test(test_policy__canonical_document__keeps_its_bytes_and_hash),
        cmocka_unit_test(test_policy__other_spellings__have_the_same_bytes),
        cmocka_unit_test(test_policy__broken_rule__is_refused_by_name),
        cmocka_unit_test(test_policy__sink_rule__needs_a_sink),
        cmocka_unit_test(test_policy__too_much__is_a_limit),
        cmocka_unit_test(test_policy__public_money__needs_a_signature),
        cmocka_unit_test(test_policy__signed_document__is_read_with_its_key_and_written_as_it_was),
        cmocka_unit_test(test_policy__bad_signature__is_denied),
        cmocka_unit_test(test_policy__malformed_signature__is_invalid),
        cmocka_unit_test(test_policy__halving_curve__starts_halves_and_ends),
        cmocka_unit_test(test_policy__constant_or_no_curve__is_flat),
        cmocka_unit_test(test_policy__key_of_a_signer__is_an_id_and_digits),
        cmocka_unit_test(test_policy__memory_fails__nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
