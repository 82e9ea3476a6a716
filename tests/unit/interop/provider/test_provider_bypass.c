/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what people try in order to get past a signature does not work, and is refused for the
 * right reason.
 * Method: a good delivery of a provider, then the attempt, one change at a time. */
#include "unit/interop/hooks.h"

#include "interop/provider/sign.h"

#define NOW_MS INT64_C(1700000000000)
#define SECRET "It's a Secret to Everybody"
#define BODY "Hello, World!"
#define GOOD "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
#define BAD "857107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
/* HMAC-SHA1 of the body under the secret: what GitHub puts into X-Hub-Signature. */
#define GOOD_SHA1 "01dc10d0c83e72ed246219cdd91669667fe2ca59"

static struct hook hook;

static void start(enum iop_kind kind, const char *secret)
{
    hook_provider(&hook, iop_scheme_of(kind), secret);
    hook.now_ms = NOW_MS;
}

/* The value of one header as the sender would make it. */
static const char *sign(enum iop_kind kind, const char *secret, const char *id, int64_t now_ms,
                        const char *body, const char *header)
{
    static struct iop_signed fields;
    struct iop_signer s;

    assert_int_equal(iop_signer_init(&s, iop_scheme_of(kind), secret, strlen(secret), NULL),
                     RON_OK);
    assert_int_equal(iop_sign(&s,
                              &(struct iop_to_sign){.id = {id, strlen(id)},
                                                    .now_unix_ms = now_ms,
                                                    .body = body,
                                                    .len = strlen(body)},
                              &fields, NULL),
                     RON_OK);
    iop_signer_done(&s);
    for (size_t i = 0; i < fields.count; i++) {
        if (strcasecmp(fields.fields[i].name, header) == 0) {
            return fields.fields[i].value;
        }
    }
    fail_msg("no header %s", header);
    return "";
}

static const char *lines(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *lines(const char *fmt, ...)
{
    static char text[4096];
    va_list args;

    va_start(args, fmt);
    RON_IGNORE(vsnprintf(text, sizeof text, fmt, args));
    va_end(args);
    return text;
}

struct attempt {
    const char *what;
    const char *lines;
    enum iop_refusal refusal;
};

static void attempt_all(const struct attempt *rows, size_t count, const char *body)
{
    for (size_t i = 0; i < count; i++) {
        enum iop_refusal got = hook_check(&hook, rows[i].lines, body);

        if (got != rows[i].refusal) {
            fail_msg("%s: %s", rows[i].what, iop_refusal_row(got)->label);
        }
    }
}

static void test_bypass__one_header_scheme__each_attempt(void **state)
{
    static const struct attempt rows[] = {
        {"as it should be", "X-Hub-Signature-256: sha256=" GOOD, IOP_REFUSE_NONE},
        {"name in another case", "x-hub-SIGNATURE-256: sha256=" GOOD, IOP_REFUSE_NONE},
        {"no header", "X-Other: 1", IOP_REFUSE_SIG_MISSING},
        {"empty header", "X-Hub-Signature-256: ", IOP_REFUSE_SIG_FORM},
        {"SHA-1 alone", "X-Hub-Signature: sha1=" GOOD_SHA1, IOP_REFUSE_SIG_MISSING},
        {"SHA-1 in the other header", "X-Hub-Signature-256: sha1=" GOOD_SHA1,
         IOP_REFUSE_SIG_SCHEME},
        {"SHA-1 under the name of SHA-256", "X-Hub-Signature-256: sha256=" GOOD_SHA1,
         IOP_REFUSE_SIG_FORM},
        {"prefix in another case", "X-Hub-Signature-256: SHA256=" GOOD, IOP_REFUSE_SIG_SCHEME},
        {"no prefix", "X-Hub-Signature-256: " GOOD, IOP_REFUSE_SIG_SCHEME},
        {"scheme none", "X-Hub-Signature-256: none=", IOP_REFUSE_SIG_SCHEME},
        {"wrong signature", "X-Hub-Signature-256: sha256=" BAD, IOP_REFUSE_SIG_WRONG},
        {"digits in another case",
         "X-Hub-Signature-256: sha256="
         "757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B043E17",
         IOP_REFUSE_SIG_FORM},
        {"half a signature", "X-Hub-Signature-256: sha256=757107ea", IOP_REFUSE_SIG_FORM},
        {"something behind it", "X-Hub-Signature-256: sha256=" GOOD "00", IOP_REFUSE_SIG_FORM},
        {"blank inside", "X-Hub-Signature-256: sha256= " GOOD, IOP_REFUSE_SIG_FORM},
        {"two in one value, the good one last", "X-Hub-Signature-256: sha256=" BAD ",sha256=" GOOD,
         IOP_REFUSE_SIG_FORM},
        {"two in one value, the good one first",
         "X-Hub-Signature-256: sha256=" GOOD ", sha256=" BAD, IOP_REFUSE_SIG_FORM},
        {"two headers, the good one last",
         "X-Hub-Signature-256: sha256=" BAD "\nX-Hub-Signature-256: sha256=" GOOD,
         IOP_REFUSE_HEADER_TWICE},
        {"two headers in two cases, both good",
         "X-Hub-Signature-256: sha256=" GOOD "\nx-hub-signature-256: sha256=" GOOD,
         IOP_REFUSE_HEADER_TWICE},
        {"two delivery ids",
         "X-Hub-Signature-256: sha256=" GOOD "\nX-GitHub-Delivery: a\nX-GitHub-Delivery: b",
         IOP_REFUSE_HEADER_TWICE},
        {"two events", "X-Hub-Signature-256: sha256=" GOOD "\nX-GitHub-Event: a\nX-GitHub-Event: b",
         IOP_REFUSE_HEADER_TWICE},
        {"an id with a blank", "X-Hub-Signature-256: sha256=" GOOD "\nX-GitHub-Delivery: a b",
         IOP_REFUSE_ID_FORM},
        {"an event that is no name", "X-Hub-Signature-256: sha256=" GOOD "\nX-GitHub-Event: \xff",
         IOP_REFUSE_EVENT_FORM},
        {"compressed", "X-Hub-Signature-256: sha256=" GOOD "\nContent-Encoding: gzip",
         IOP_REFUSE_ENCODED},
        {"compressed, twice said",
         "X-Hub-Signature-256: sha256=" GOOD "\nContent-Encoding: identity\nContent-Encoding: gzip",
         IOP_REFUSE_HEADER_TWICE},
        {"identity", "X-Hub-Signature-256: sha256=" GOOD "\nContent-Encoding: Identity",
         IOP_REFUSE_NONE},
    };

    (void)state;
    start(IOP_KIND_GITHUB, SECRET);
    attempt_all(rows, RON_ARRAY_LEN(rows), BODY);
    /* The same bytes of JSON written anew. */
    start(IOP_KIND_GITHUB, SECRET);
    assert_int_equal(
        hook_check(&hook,
                   lines("X-Hub-Signature-256: %s", sign(IOP_KIND_GITHUB, SECRET, "i", NOW_MS,
                                                         "{\"a\": 1}", "X-Hub-Signature-256")),
                   "{\"a\":1}"),
        IOP_REFUSE_SIG_WRONG);
}

static void test_bypass__secrets__none_empty_off_or_foreign(void **state)
{
    static const char good[] = "X-Hub-Signature-256: sha256=" GOOD;
    /* HMAC-SHA256 under the empty key. */
    static const char empty[] = "X-Hub-Signature-256: sha256="
                                "2bbcfa9524f3218c7a34b30e6936f8b1a4516cb097f1a85a1c7d98b5977ec769";

    (void)state;
    start(IOP_KIND_GITHUB, NULL);
    assert_int_equal(hook_check(&hook, good, BODY), IOP_REFUSE_NO_SECRET);
    assert_int_equal(hook_check(&hook, empty, BODY), IOP_REFUSE_NO_SECRET);
    assert_int_equal(iop_provider_add_key(&hook.provider, "", 0, NULL), RON_INVALID);
    assert_int_equal(hook.provider.key_count, 0);
    start(IOP_KIND_GITHUB, SECRET);
    hook.provider.enabled = false;
    assert_int_equal(hook_check(&hook, good, BODY), IOP_REFUSE_DISABLED);
    start(IOP_KIND_GITHUB, "another secret");
    assert_int_equal(hook_check(&hook, good, BODY), IOP_REFUSE_SIG_WRONG);
    /* Two live secrets count equally, and no third. */
    assert_int_equal(iop_provider_add_key(&hook.provider, SECRET, strlen(SECRET), NULL), RON_OK);
    assert_int_equal(hook_check(&hook, good, BODY), IOP_REFUSE_NONE);
    assert_int_equal(hook.d.key_index, 1);
    assert_int_equal(iop_provider_add_key(&hook.provider, "third secret", 12, NULL), RON_FULL);
}

static void test_bypass__replay_to_another_provider__refused(void **state)
{
    static const char github[] = "X-Hub-Signature-256: sha256=" GOOD;
    struct iop_provider other;

    (void)state;
    /* Under other secrets the bytes are worth nothing elsewhere, whatever the header is called. */
    start(IOP_KIND_GITEA, "gitea's own secret");
    assert_int_equal(hook_check(&hook, "X-Gitea-Signature: " GOOD, BODY), IOP_REFUSE_SIG_WRONG);
    assert_int_equal(hook_check(&hook, github, BODY), IOP_REFUSE_SIG_MISSING);
    start(IOP_KIND_META, "meta's own secret");
    assert_int_equal(hook_check(&hook, github, BODY), IOP_REFUSE_SIG_WRONG);
    /* Under one secret they would be: such settings are refused, see unit.interop.rule. */
    start(IOP_KIND_GITEA, SECRET);
    assert_int_equal(iop_provider_init(&other, "x", iop_scheme_of(IOP_KIND_GITHUB), NULL), RON_OK);
    assert_int_equal(iop_provider_add_key(&other, SECRET, strlen(SECRET), NULL), RON_OK);
    assert_true(iop_provider_shares_key(&hook.provider, &other));
}

/* ---- times ----------------------------------------------------------------------------------- */

static enum iop_refusal slack_at(int64_t sent_ms, const char *ts)
{
    const char *sig = sign(IOP_KIND_SLACK, "slack secret", "", sent_ms, BODY, "X-Slack-Signature");

    return hook_check(&hook, lines("X-Slack-Request-Timestamp: %s\nX-Slack-Signature: %s", ts, sig),
                      BODY);
}

static void test_bypass__time__both_sides_and_every_form(void **state)
{
    static const struct {
        int64_t sent_s;
        const char *ts;
        enum iop_refusal refusal;
    } rows[] = {
        {1700000000, "1700000000", IOP_REFUSE_NONE},
        {1699999700, "1699999700", IOP_REFUSE_NONE},       /* 300 s old */
        {1699999699, "1699999699", IOP_REFUSE_CLOCK_SKEW}, /* 301 s */
        {1700000300, "1700000300", IOP_REFUSE_NONE},
        {1700000301, "1700000301", IOP_REFUSE_CLOCK_SKEW}, /* from the future */
        {4000000000, "4000000000", IOP_REFUSE_CLOCK_SKEW},
        {0, "0", IOP_REFUSE_CLOCK_SKEW},
        {1600000000, "1700000000", IOP_REFUSE_SIG_WRONG}, /* a fresh time over an old signature */
        {1700000000, "", IOP_REFUSE_TIME_FORM},
        {1700000000, "+1700000000", IOP_REFUSE_TIME_FORM},
        {1700000000, "-1700000000", IOP_REFUSE_TIME_FORM},
        {1700000000, "01700000000", IOP_REFUSE_TIME_FORM},
        {1700000000, "1700000000.0", IOP_REFUSE_TIME_FORM},
        {1700000000, "1.7e9", IOP_REFUSE_TIME_FORM},
        {1700000000, "0x6553f100", IOP_REFUSE_TIME_FORM},
        {1700000000, "99999999999999999999999", IOP_REFUSE_TIME_FORM},
        {1700000000, "1700000000000000000000000000000000000000", IOP_REFUSE_TIME_FORM},
        {1700000000, "NaN", IOP_REFUSE_TIME_FORM},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        enum iop_refusal got;

        start(IOP_KIND_SLACK, "slack secret");
        got = slack_at(rows[i].sent_s * 1000, rows[i].ts);
        if (got != rows[i].refusal) {
            fail_msg("%s: %s", rows[i].ts, iop_refusal_row(got)->label);
        }
    }
    start(IOP_KIND_SLACK, "slack secret");
    assert_int_equal(hook_check(&hook, "X-Slack-Signature: v0=" GOOD, BODY),
                     IOP_REFUSE_TIME_MISSING);
    assert_int_equal(hook_check(&hook,
                                "X-Slack-Signature: v0=" GOOD
                                "\nX-Slack-Request-Timestamp: 1700000000\n"
                                "x-slack-request-timestamp: 1700000000",
                                BODY),
                     IOP_REFUSE_HEADER_TWICE);
}

static void test_bypass__time_in_the_body__after_the_signature(void **state)
{
    static const struct {
        const char *body;
        enum iop_refusal refusal;
    } rows[] = {
        {"{\"webhookTimestamp\":1700000000000}", IOP_REFUSE_NONE},
        {"{\"webhookTimestamp\":1700000300001}", IOP_REFUSE_CLOCK_SKEW},
        {"{\"webhookTimestamp\":1699999699999}", IOP_REFUSE_CLOCK_SKEW},
        {"{\"webhookTimestamp\":1700000000000,\"webhookTimestamp\":1}", IOP_REFUSE_TIME_FORM},
        {"{\"webhookTimestamp\":1.7e12}", IOP_REFUSE_TIME_FORM},
        {"{\"webhookTimestamp\":null}", IOP_REFUSE_TIME_FORM},
        {"{}", IOP_REFUSE_TIME_MISSING},
        {"no json", IOP_REFUSE_TIME_MISSING},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const char *sig =
            sign(IOP_KIND_LINEAR, "linear secret", "i", NOW_MS, rows[i].body, "Linear-Signature");

        start(IOP_KIND_LINEAR, "linear secret");
        assert_int_equal(hook_check(&hook, lines("Linear-Signature: %s", sig), rows[i].body),
                         rows[i].refusal);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

#define STRIPE_SECRET "whsec_test_secret"
#define V1 "248a374f50f943a28b0f6ab50faf9a7e7e29b710fa26df9fb1618b9bf8ea9c9a"
#define V1_BAD "348a374f50f943a28b0f6ab50faf9a7e7e29b710fa26df9fb1618b9bf8ea9c9a"

static void test_bypass__stripe_lists__each_attempt(void **state)
{
    static const struct attempt rows[] = {
        {"good", "Stripe-Signature: t=1700000000,v1=" V1, IOP_REFUSE_NONE},
        {"the right value as v0", "Stripe-Signature: t=1700000000,v0=" V1, IOP_REFUSE_SIG_SCHEME},
        {"bad v1, right v0", "Stripe-Signature: t=1700000000,v1=" V1_BAD ",v0=" V1,
         IOP_REFUSE_SIG_WRONG},
        {"V1", "Stripe-Signature: t=1700000000,V1=" V1, IOP_REFUSE_SIG_SCHEME},
        {"v10", "Stripe-Signature: t=1700000000,v10=" V1, IOP_REFUSE_SIG_SCHEME},
        {"no time", "Stripe-Signature: v1=" V1, IOP_REFUSE_TIME_MISSING},
        {"two times", "Stripe-Signature: t=1700000000,t=1700000001,v1=" V1,
         IOP_REFUSE_HEADER_TWICE},
        {"another time", "Stripe-Signature: t=1700000001,v1=" V1, IOP_REFUSE_SIG_WRONG},
        {"old", "Stripe-Signature: t=1600000000,v1=" V1, IOP_REFUSE_CLOCK_SKEW},
        {"a malformed v1 beside a right one", "Stripe-Signature: t=1700000000,v1=zz,v1=" V1,
         IOP_REFUSE_SIG_FORM},
        {"a hole in the list", "Stripe-Signature: t=1700000000,,v1=" V1, IOP_REFUSE_SIG_FORM},
        {"an item without value", "Stripe-Signature: t=1700000000,v1", IOP_REFUSE_SIG_FORM},
        {"an item without name", "Stripe-Signature: t=1700000000,=" V1, IOP_REFUSE_SIG_FORM},
        {"nine",
         "Stripe-Signature: t=1700000000,v1=" V1_BAD ",v1=" V1_BAD ",v1=" V1_BAD ",v1=" V1_BAD
         ",v1=" V1_BAD ",v1=" V1_BAD ",v1=" V1_BAD ",v1=" V1_BAD ",v1=" V1,
         IOP_REFUSE_SIG_MANY},
        {"two headers",
         "Stripe-Signature: t=1700000000,v1=" V1_BAD "\nStripe-Signature: t=1700000000,v1=" V1,
         IOP_REFUSE_HEADER_TWICE},
    };

    (void)state;
    start(IOP_KIND_STRIPE, STRIPE_SECRET);
    attempt_all(rows, RON_ARRAY_LEN(rows), "{\"id\":\"evt_1\"}");
    /* A time moved from the body into the header: "1" + "." + body. */
    assert_int_equal(
        hook_check(&hook, "Stripe-Signature: t=17000000,v1=" V1, "00.{\"id\":\"evt_1\"}"),
        IOP_REFUSE_CLOCK_SKEW);
}

#define STANDARD_SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define STANDARD_BODY "{\"test\": 2432232314}"
#define STANDARD_SIG "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define STANDARD_ID "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\n"
#define STANDARD_TS "webhook-timestamp: 1614265330\n"

static void test_bypass__standard_webhooks__each_attempt(void **state)
{
    static const struct attempt rows[] = {
        {"good", STANDARD_ID STANDARD_TS "webhook-signature: v1," STANDARD_SIG, IOP_REFUSE_NONE},
        {"unknown versions beside it",
         STANDARD_ID STANDARD_TS "webhook-signature: v0,x v1a,AAAA v1," STANDARD_SIG " v2,y",
         IOP_REFUSE_NONE},
        {"v0", STANDARD_ID STANDARD_TS "webhook-signature: v0," STANDARD_SIG,
         IOP_REFUSE_SIG_SCHEME},
        {"v1a with the HMAC", STANDARD_ID STANDARD_TS "webhook-signature: v1a," STANDARD_SIG,
         IOP_REFUSE_SIG_SCHEME},
        {"no version", STANDARD_ID STANDARD_TS "webhook-signature: " STANDARD_SIG,
         IOP_REFUSE_SIG_FORM},
        {"no padding",
         STANDARD_ID STANDARD_TS
         "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE",
         IOP_REFUSE_SIG_FORM},
        {"stray bits at the end",
         STANDARD_ID STANDARD_TS
         "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF=",
         IOP_REFUSE_SIG_FORM},
        {"two blanks", STANDARD_ID STANDARD_TS "webhook-signature: v1,x  v1," STANDARD_SIG,
         IOP_REFUSE_SIG_FORM},
        {"no id", STANDARD_TS "webhook-signature: v1," STANDARD_SIG, IOP_REFUSE_ID_MISSING},
        {"another id", "webhook-id: msg_2\n" STANDARD_TS "webhook-signature: v1," STANDARD_SIG,
         IOP_REFUSE_SIG_WRONG},
        {"an id that swallows the time",
         "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330\n" STANDARD_TS
         "webhook-signature: v1," STANDARD_SIG,
         IOP_REFUSE_ID_FORM},
        {"both names with two values",
         STANDARD_ID STANDARD_TS "webhook-signature: v1," STANDARD_SIG "\nsvix-id: msg_2",
         IOP_REFUSE_HEADER_TWICE},
        {"both names with one value",
         STANDARD_ID STANDARD_TS "webhook-signature: v1," STANDARD_SIG
                                 "\nsvix-timestamp: 1614265330",
         IOP_REFUSE_NONE},
    };

    (void)state;
    start(IOP_KIND_STANDARD, STANDARD_SECRET);
    hook.now_ms = INT64_C(1614265330000);
    attempt_all(rows, RON_ARRAY_LEN(rows), STANDARD_BODY);
}

/* ---- Twilio ---------------------------------------------------------------------------------- */

static void test_bypass__twilio__nothing_unsigned_gets_in(void **state)
{
    static const char form[] = "Content-Type: application/x-www-form-urlencoded\n"
                               "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=";
    static const char body[] = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&"
                               "From=%2B14158675309&To=%2B18005551212";

    (void)state;
    start(IOP_KIND_TWILIO, "12345");
    hook.provider.public_url = (struct ron_str){"https://mycompany.com", 21};
    hook.target = "/myapp.php?foo=1&bar=2";
    assert_int_equal(hook_check(&hook, form, body), IOP_REFUSE_NONE);
    /* The same bytes under another type are bound by nothing. */
    assert_int_equal(hook_check(&hook,
                                "Content-Type: application/json\n"
                                "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=",
                                body),
                     IOP_REFUSE_BODY_FORM);
    assert_int_equal(hook_check(&hook, form, "CallSid=%zz"), IOP_REFUSE_BODY_FORM);
    assert_int_equal(hook_check(&hook, form, "CallSid=%4"), IOP_REFUSE_BODY_FORM);
    hook.target = "/myapp.php?foo=1&bar=3";
    assert_int_equal(hook_check(&hook, form, body), IOP_REFUSE_SIG_WRONG);
    hook.provider.public_url = (struct ron_str){"https://othercorp.com", 21};
    hook.target = "/myapp.php?foo=1&bar=2";
    assert_int_equal(hook_check(&hook, form, body), IOP_REFUSE_SIG_WRONG);
}

static void test_bypass__twilio_huge_form__refused(void **state)
{
    static char body[HOOK_SCRATCH];
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i <= IOP_FORM_FIELDS; i++) {
        len += (size_t)snprintf(body + len, sizeof body - len, "a%zu=1&", i);
    }
    start(IOP_KIND_TWILIO, "12345");
    assert_int_equal(hook_check(&hook,
                                "Content-Type: application/x-www-form-urlencoded\n"
                                "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=",
                                body),
                     IOP_REFUSE_BODY_FORM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bypass__one_header_scheme__each_attempt),
        cmocka_unit_test(test_bypass__secrets__none_empty_off_or_foreign),
        cmocka_unit_test(test_bypass__replay_to_another_provider__refused),
        cmocka_unit_test(test_bypass__time__both_sides_and_every_form),
        cmocka_unit_test(test_bypass__time_in_the_body__after_the_signature),
        cmocka_unit_test(test_bypass__stripe_lists__each_attempt),
        cmocka_unit_test(test_bypass__standard_webhooks__each_attempt),
        cmocka_unit_test(test_bypass__twilio__nothing_unsigned_gets_in),
        cmocka_unit_test(test_bypass__twilio_huge_form__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
