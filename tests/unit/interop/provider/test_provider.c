/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each provider's deliveries are verified as the provider documents it, and what is read out
 * of them is right; challenges are answered.
 * Method: the examples that GitHub, Slack, Standard Webhooks and Twilio publish; for the others the
 * signature is computed here with OpenSSL or libsodium, from the provider's description. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium.h>

#include "ron/base/hex.h"
#include "unit/interop/hooks.h"

#include "ron/obs/trace.h"

#define NOW_S 1700000000
#define NOW_MS (INT64_C(1000) * NOW_S)

static struct hook hook;

static void start(enum iop_kind kind, const char *secret)
{
    hook_provider(&hook, iop_scheme_of(kind), secret);
    hook.now_ms = NOW_MS;
}

/* HMAC-SHA256 in hex by OpenSSL. */
static const char *hmac_hex(const char *secret, const char *text)
{
    static char hex[2 * EVP_MAX_MD_SIZE + 1];
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    assert_non_null(HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)text,
                         strlen(text), mac, &len));
    ron_hex(mac, len, hex);
    return hex;
}

static const char *lines(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *lines(const char *fmt, ...)
{
    static char text[4096];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert_true(len > 0 && (size_t)len < sizeof text);
    return text;
}

/* ---- published examples ---------------------------------------------------------------------- */

static void test_provider__github_example__verified(void **state)
{
    (void)state;
    start(IOP_KIND_GITHUB, "It's a Secret to Everybody");
    assert_int_equal(hook_check(&hook,
                                "X-GitHub-Event: ping\n"
                                "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\n"
                                "X-Hub-Signature: sha1=0000000000000000000000000000000000000000\n"
                                "X-Hub-Signature-256: sha256="
                                "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
                                "Hello, World!"),
                     IOP_REFUSE_NONE);
    HOOK_IS(hook.d, id, "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    HOOK_IS(hook.d, event, "ping");
    assert_false(hook.d.id_signed);
    assert_string_equal(hook.d.sig_alg, "hmac-sha256");
    assert_int_equal(hook.d.answer.status, 0);
}

static void test_provider__slack_example__verified(void **state)
{
    (void)state;
    start(IOP_KIND_SLACK, "8f742231b10e8888abcd99yyyzzz85a5");
    hook.now_ms = INT64_C(1531420618000);
    assert_int_equal(
        hook_check(&hook,
                   "X-Slack-Request-Timestamp: 1531420618\n"
                   "X-Slack-Signature: v0="
                   "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
                   "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&"
                   "channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&"
                   "user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url="
                   "https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
                   "96rGlfmibIGlgcZRskXaIFfN&trigger_id="
                   "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"),
        IOP_REFUSE_NONE);
    assert_int_equal(hook.d.ts_unix_ms, INT64_C(1531420618000));
    assert_int_equal(hook.d.id_len, 0);
}

static void test_provider__standard_webhooks_example__both_header_names(void **state)
{
    static const char *const prefixes[] = {"webhook", "svix"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(prefixes); i++) {
        const char *p = prefixes[i];

        start(IOP_KIND_STANDARD, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        hook.now_ms = INT64_C(1614265330000);
        assert_int_equal(
            hook_check(&hook,
                       lines("%s-id: msg_p5jXN8AQM9LWM0D4loKWxJek\n%s-timestamp: 1614265330\n"
                             "%s-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
                             p, p, p),
                       "{\"test\": 2432232314}"),
            IOP_REFUSE_NONE);
        HOOK_IS(hook.d, id, "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert_true(hook.d.id_signed);
    }
}

static void twilio(const char *token)
{
    start(IOP_KIND_TWILIO, token);
    hook.provider.public_url = (struct ron_str){"https://mycompany.com", 21};
    hook.target = "/myapp.php?foo=1&bar=2";
}

#define FORM "Content-Type: application/x-www-form-urlencoded; charset=UTF-8\n"

static void test_provider__twilio_examples__form_in_any_order(void **state)
{
    (void)state;
    twilio("12345");
    assert_int_equal(hook_check(&hook,
                                FORM "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=\n"
                                     "I-Twilio-Idempotency-Token: abc",
                                "To=%2B18005551212&From=%2B14158675309&Digits=1234&"
                                "Caller=%2b14158675309&CallSid=CA1234567890ABCDE"),
                     IOP_REFUSE_NONE);
    assert_string_equal(hook.d.sig_alg, "hmac-sha1");
    HOOK_IS(hook.d, id, "abc");
    assert_true(hook.d.has_canonical);
    {
        struct ron_b3 first = hook.d.canonical;

        /* Another order and a pair twice: the same signature, and for us the same delivery. */
        assert_int_equal(hook_check(&hook, FORM "X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=",
                                    "Digits=1234&From=%2B14158675309&CallSid=CA1234567890ABCDE&"
                                    "Caller=%2B14158675309&To=%2B18005551212&Digits=1234"),
                         IOP_REFUSE_NONE);
        assert_true(ron_b3_equal(&first, &hook.d.canonical));
    }
    twilio("12345");
    assert_int_equal(hook_check(&hook, FORM "X-Twilio-Signature: 0/KCTR6DLpKmkAf8muzZqo1nDgQ=",
                                "CallSid=CA1234567890ABCDE&Caller=%2B12349013030&Digits=1234&"
                                "From=%2B12349013030&To=%2B18005551212"),
                     IOP_REFUSE_NONE);
}

static void test_provider__twilio_json_example__bound_by_the_url(void **state)
{
    static const char head[] = "Content-Type: application/json\n"
                               "X-Twilio-Signature: a9nBmqA0ju/hNViExpshrM61xv4=";

    (void)state;
    twilio("12345");
    hook.target = "/myapp.php?foo=1&bar=2&bodySHA256="
                  "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
    assert_int_equal(hook_check(&hook, head, "{\"property\": \"value\", \"boolean\": true}"),
                     IOP_REFUSE_NONE);
    assert_int_equal(hook_check(&hook, head, "{\"property\": \"value\", \"boolean\": false}"),
                     IOP_REFUSE_SIG_WRONG);
    hook.target = "/myapp.php?foo=1&bar=2";
    assert_int_equal(hook_check(&hook, head, "{\"property\": \"value\", \"boolean\": true}"),
                     IOP_REFUSE_BODY_FORM);
}

/* ---- by the provider's description ----------------------------------------------------------- */

#define STRIPE_SECRET "whsec_test_secret"
#define STRIPE_RIGHT "248a374f50f943a28b0f6ab50faf9a7e7e29b710fa26df9fb1618b9bf8ea9c9a"
#define STRIPE_WRONG "348a374f50f943a28b0f6ab50faf9a7e7e29b710fa26df9fb1618b9bf8ea9c9a"

static void test_provider__stripe__any_v1_counts(void **state)
{
    static const char *const values[] = {
        "t=1700000000,v1=" STRIPE_RIGHT,
        "t=1700000000,v1=" STRIPE_RIGHT ",v0=" STRIPE_WRONG,
        "t=1700000000,v1=" STRIPE_WRONG ",v1=" STRIPE_RIGHT,
        "v1=" STRIPE_RIGHT ",t=1700000000",
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(values); i++) {
        start(IOP_KIND_STRIPE, STRIPE_SECRET);
        assert_int_equal(
            hook_check(&hook, lines("Stripe-Signature: %s", values[i]), "{\"id\":\"evt_1\"}"),
            IOP_REFUSE_NONE);
        HOOK_IS(hook.d, id, "evt_1");
        assert_true(hook.d.id_signed);
        assert_int_equal(hook.d.event_len, 0);
    }
}

static void test_provider__plain_hmac__each_by_its_headers(void **state)
{
    static const struct {
        enum iop_kind kind;
        const char *before; /* the signature, which is the HMAC of the body in hex */
        const char *behind;
        const char *body;
        const char *id;
        const char *event;
    } rows[] = {
        {IOP_KIND_LINEAR, "Linear-Signature: ", "\nLinear-Delivery: d-1\nLinear-Event: Issue",
         "{\"action\":\"create\",\"webhookTimestamp\":1700000000123}", "d-1", "Issue"},
        {IOP_KIND_GITEA, "X-Gitea-Signature: ", "\nX-Gitea-Delivery: d-2\nX-Gitea-Event: push",
         "{}", "d-2", "push"},
        {IOP_KIND_GITEA, "X-Forgejo-Signature: ",
         "\nX-Forgejo-Delivery: d-2\nX-Forgejo-Event: push\nX-Gitea-Delivery: d-2\n"
         "X-Gitea-Event: push",
         "{}", "d-2", "push"},
        {IOP_KIND_META, "X-Hub-Signature-256: sha256=", "", "{\"object\":\"page\",\"entry\":[]}",
         "", "page"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const char *head =
            lines("%s%s%s", rows[i].before, hmac_hex("plain secret", rows[i].body), rows[i].behind);

        start(rows[i].kind, "plain secret");
        assert_int_equal(hook_check(&hook, head, rows[i].body), IOP_REFUSE_NONE);
        HOOK_IS(hook.d, id, rows[i].id);
        HOOK_IS(hook.d, event, rows[i].event);
        assert_false(hook.d.id_signed);
        assert_int_equal(hook_check(&hook, head, "{ }"), IOP_REFUSE_SIG_WRONG);
    }
}

static void test_provider__shopify__base64(void **state)
{
    (void)state;
    start(IOP_KIND_SHOPIFY, "Jefe");
    assert_int_equal(
        hook_check(&hook,
                   "X-Shopify-Hmac-Sha256: W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=\n"
                   "X-Shopify-Topic: orders/paid\nX-Shopify-Webhook-Id: b54557e4",
                   "what do ya want for nothing?"),
        IOP_REFUSE_NONE);
    HOOK_IS(hook.d, event, "orders/paid");
    HOOK_IS(hook.d, id, "b54557e4");
}

/* ---- Ed25519 --------------------------------------------------------------------------------- */

static uint8_t pair_public[32];
static uint8_t pair_secret[64];

static void make_pair(uint8_t fill)
{
    uint8_t seed[32];

    memset(seed, fill, sizeof seed);
    assert_int_equal(crypto_sign_ed25519_seed_keypair(pair_public, pair_secret, seed), 0);
}

static void discord(const char *ts, const char *body, char ret_lines[512])
{
    char text[512];
    char hex[129];
    uint8_t sig[64];
    int len = snprintf(text, sizeof text, "%s%s", ts, body);

    assert_int_equal(crypto_sign_ed25519_detached(sig, NULL, (const uint8_t *)text,
                                                  (unsigned long long)len, pair_secret),
                     0);
    ron_hex(sig, sizeof sig, hex);
    RON_IGNORE(
        snprintf(ret_lines, 512, "X-Signature-Ed25519: %s\nX-Signature-Timestamp: %s", hex, ts));
}

static void test_provider__discord__pings_are_answered(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *answer;
    } rows[] = {
        {"{\"type\":1,\"id\":\"787\",\"version\":1}", 200, "{\"type\":1}"},
        {"{\"version\":1,\"application_id\":\"1234\",\"type\":0}", 204, ""},
        {"{\"type\":2,\"id\":\"788\"}", 0, ""},
        {"{\"version\":1,\"type\":1,\"event\":{\"type\":\"APPLICATION_AUTHORIZED\"}}", 0, ""},
    };
    char hex[65];
    char head[512];

    (void)state;
    make_pair(7);
    ron_hex(pair_public, 32, hex);
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        start(IOP_KIND_DISCORD, hex);
        discord("1700000001", rows[i].body, head);
        assert_int_equal(hook_check(&hook, head, rows[i].body), IOP_REFUSE_NONE);
        assert_string_equal(hook.d.sig_alg, "ed25519");
        assert_int_equal(hook.d.answer.status, rows[i].status);
        assert_int_equal(hook.d.answer.len, strlen(rows[i].answer));
        assert_memory_equal(hook.d.answer.body, rows[i].answer, hook.d.answer.len);
        make_pair(8);
        discord("1700000001", rows[i].body, head);
        assert_int_equal(hook_check(&hook, head, rows[i].body), IOP_REFUSE_SIG_WRONG);
        make_pair(7);
    }
}

static void test_provider__standard_webhooks_public_key__v1a_alone(void **state)
{
    static const char body[] = "{\"type\":\"invoice.paid\"}";
    char base64[128];
    char secret[160];
    char text[256];
    uint8_t sig[64];

    (void)state;
    make_pair(9);
    (void)sodium_bin2base64(base64, sizeof base64, pair_public, 32, sodium_base64_VARIANT_ORIGINAL);
    RON_IGNORE(snprintf(secret, sizeof secret, "whpk_%s", base64));
    start(IOP_KIND_STANDARD, secret);
    RON_IGNORE(snprintf(text, sizeof text, "msg_1.1700000000.%s", body));
    RON_IGNORE(
        crypto_sign_ed25519_detached(sig, NULL, (const uint8_t *)text, strlen(text), pair_secret));
    (void)sodium_bin2base64(base64, sizeof base64, sig, 64, sodium_base64_VARIANT_ORIGINAL);
    assert_int_equal(
        hook_check(&hook,
                   lines("webhook-id: msg_1\nwebhook-timestamp: 1700000000\nwebhook-signature: "
                         "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= v1a,%s",
                         base64),
                   body),
        IOP_REFUSE_NONE);
    HOOK_IS(hook.d, event, "invoice.paid");
    assert_string_equal(hook.d.sig_alg, "ed25519");
    /* An HMAC under the bytes of the public key, which everybody knows. */
    assert_int_equal(
        hook_check(&hook,
                   "webhook-id: msg_1\nwebhook-timestamp: 1700000000\nwebhook-signature: "
                   "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                   body),
        IOP_REFUSE_SIG_SCHEME);
}

/* ---- challenges ------------------------------------------------------------------------------ */

static enum iop_refusal slack_sends(const char *body)
{
    char text[1024];

    RON_IGNORE(snprintf(text, sizeof text, "v0:1700000000:%s", body));
    return hook_check(&hook,
                      lines("X-Slack-Request-Timestamp: 1700000000\nX-Slack-Signature: v0=%s",
                            hmac_hex("slack secret", text)),
                      body);
}

static void test_provider__slack_challenge__comes_back(void **state)
{
    (void)state;
    start(IOP_KIND_SLACK, "slack secret");
    assert_int_equal(slack_sends("{\"token\":\"T\",\"challenge\":\"3eZbrw1aBm2rZgRN\","
                                 "\"type\":\"url_verification\"}"),
                     IOP_REFUSE_NONE);
    assert_int_equal(hook.d.answer.status, 200);
    assert_memory_equal(hook.d.answer.body, "{\"challenge\":\"3eZbrw1aBm2rZgRN\"}", 32);
    assert_int_equal(slack_sends("{\"challenge\":\"\\\"<script>\",\"type\":\"url_verification\"}"),
                     IOP_REFUSE_CHALLENGE_FORM);
    assert_int_equal(slack_sends("{\"type\":\"event_callback\",\"event_id\":\"Ev08\","
                                 "\"event\":{\"type\":\"app_mention\"}}"),
                     IOP_REFUSE_NONE);
    assert_int_equal(hook.d.answer.status, 0);
    HOOK_IS(hook.d, id, "Ev08");
    HOOK_IS(hook.d, event, "app_mention");
}

static enum iop_refusal zoom_sends(const char *body)
{
    char text[1024];

    RON_IGNORE(snprintf(text, sizeof text, "v0:1700000000:%s", body));
    return hook_check(&hook,
                      lines("x-zm-request-timestamp: 1700000000\nx-zm-signature: v0=%s",
                            hmac_hex("zoom secret", text)),
                      body);
}

static void test_provider__zoom_challenge__no_signing_oracle(void **state)
{
    char want[256];

    (void)state;
    start(IOP_KIND_ZOOM, "zoom secret");
    assert_int_equal(zoom_sends("{\"payload\":{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\"},"
                                "\"event\":\"endpoint.url_validation\"}"),
                     IOP_REFUSE_NONE);
    RON_IGNORE(snprintf(want, sizeof want,
                        "{\"plainToken\":\"qgg8vlvZRS6UYooatFL8Aw\",\"encryptedToken\":\"%s\"}",
                        hmac_hex("zoom secret", "qgg8vlvZRS6UYooatFL8Aw")));
    assert_int_equal(hook.d.answer.len, strlen(want));
    assert_memory_equal(hook.d.answer.body, want, strlen(want));
    assert_int_equal(zoom_sends("{\"payload\":{\"plainToken\":\"v0:1700000000:{}\"},"
                                "\"event\":\"endpoint.url_validation\"}"),
                     IOP_REFUSE_CHALLENGE_FORM);
    assert_int_equal(zoom_sends("{\"event\":\"meeting.started\"}"), IOP_REFUSE_NONE);
    HOOK_IS(hook.d, event, "meeting.started");
}

static enum iop_refusal meta_asks(const char *query, struct iop_answer *a)
{
    return iop_check_get(&hook.provider, (struct ron_str){query, strlen(query)}, a);
}

static void test_provider__meta_challenge__for_the_right_token(void **state)
{
    static const char good[] = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=me%21";
    struct iop_answer a;

    (void)state;
    start(IOP_KIND_META, "app secret");
    assert_int_equal(meta_asks(good, &a), IOP_REFUSE_NO_SECRET);
    assert_int_equal(ron_secret_set(&hook.provider.verify_token, "me!", 3), RON_OK);
    assert_int_equal(meta_asks(good, &a), IOP_REFUSE_NONE);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, 10);
    assert_memory_equal(a.body, "1158201444", 10);
    assert_int_equal(meta_asks("hub.mode=subscribe&hub.challenge=1&hub.verify_token=you", &a),
                     IOP_REFUSE_TOKEN_WRONG);
    assert_int_equal(a.status, 0);
    assert_int_equal(meta_asks("hub.mode=subscribe&hub.challenge=1&hub.verify_token=me%21"
                               "&hub.verify_token=me%21",
                               &a),
                     IOP_REFUSE_CHALLENGE_FORM);
    assert_int_equal(
        meta_asks("hub.mode=subscribe&hub.challenge=%3Cb%3E&hub.verify_token=me%21", &a),
        IOP_REFUSE_CHALLENGE_FORM);
    assert_int_equal(meta_asks("hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=me%21", &a),
                     IOP_REFUSE_CHALLENGE_FORM);
    iop_provider_done(&hook.provider);
}

/* ---- keys of de-duplication ------------------------------------------------------------------ */

static void test_provider__delivery_keys__made_of_what_is_signed(void **state)
{
    struct iop_delivery d = {.id_len = 2, .id = "i1", .id_signed = true};
    struct ron_b3 body = {{1}};
    struct ron_b3 other = {{2}};
    struct ron_b3 a[2];
    struct ron_b3 b[2];

    (void)state;
    assert_int_equal(iop_delivery_keys(&d, "p", &body, a), 1);
    assert_int_equal(iop_delivery_keys(&d, "p", &other, b), 1);
    assert_true(ron_b3_equal(&a[0], &b[0])); /* a retry may differ where nothing counts */
    assert_int_equal(iop_delivery_keys(&d, "q", &body, b), 1);
    assert_false(ron_b3_equal(&a[0], &b[0]));
    d.id_signed = false;
    assert_int_equal(iop_delivery_keys(&d, "p", &body, a), 2);
    d.id[0] = 'j'; /* whoever replays can put in any id */
    assert_int_equal(iop_delivery_keys(&d, "p", &body, b), 2);
    assert_true(ron_b3_equal(&a[0], &b[0]));
    assert_false(ron_b3_equal(&a[1], &b[1]));
    d.id_len = 0;
    assert_int_equal(iop_delivery_keys(&d, "p", &body, b), 1);
    assert_true(ron_b3_equal(&a[0], &b[0]));
    d.has_canonical = true;
    assert_int_equal(iop_delivery_keys(&d, "p", &body, b), 1);
    assert_false(ron_b3_equal(&a[0], &b[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_provider__github_example__verified),
        cmocka_unit_test(test_provider__slack_example__verified),
        cmocka_unit_test(test_provider__standard_webhooks_example__both_header_names),
        cmocka_unit_test(test_provider__twilio_examples__form_in_any_order),
        cmocka_unit_test(test_provider__twilio_json_example__bound_by_the_url),
        cmocka_unit_test(test_provider__stripe__any_v1_counts),
        cmocka_unit_test(test_provider__plain_hmac__each_by_its_headers),
        cmocka_unit_test(test_provider__shopify__base64),
        cmocka_unit_test(test_provider__discord__pings_are_answered),
        cmocka_unit_test(test_provider__standard_webhooks_public_key__v1a_alone),
        cmocka_unit_test(test_provider__slack_challenge__comes_back),
        cmocka_unit_test(test_provider__zoom_challenge__no_signing_oracle),
        cmocka_unit_test(test_provider__meta_challenge__for_the_right_token),
        cmocka_unit_test(test_provider__delivery_keys__made_of_what_is_signed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
