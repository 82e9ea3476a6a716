/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: settings of providers and rules are read or refused with the setting's name; rules match
 * and act as they read; amounts are exact; keys are stable.
 * Method: TOML texts through the kernel's settings, with an environment and private files. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

#include "interop/provider/load.h"
#include "interop/rule/rule.h"
#include "ron/io/linux_env.h"

#define TEST_CONF(X) IOP_PROVIDER_KEYS(X) IOP_RULE_KEYS(X)

static const struct ron_conf_key keys[] = {TEST_CONF(RON_CONF_ROW)};
static const struct ron_conf_table table = {
    .service = "interop", .keys = keys, .key_count = RON_ARRAY_LEN(keys)};

static const char *const variables[] = {"GH=github secret",
                                        "GH2=github secret two",
                                        "SHORT=abc",
                                        "NONE=",
                                        "STRIPE=whsec_stripe secret",
                                        "FWD=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                        "PUB=whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
                                        NULL};

static const struct ron_env *env;

static struct ron_conf_snap *load(const char *text)
{
    struct ron_conf_sources sources = {.text = text, .path = "test"};
    struct ron_conf_snap *snap = NULL;
    struct ron_err err = {0};

    if (ron_conf_load(NULL, &table, &sources, &snap, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    return snap;
}

/* ---- providers ------------------------------------------------------------------------------- */

static void refused(const char *text, const char *why)
{
    struct ron_conf_snap *snap = load(text);
    struct iop_providers *p = NULL;
    struct iop_rules *r = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = iop_providers_new(env, snap, variables, &p, &err);

    if (rc == RON_OK) {
        rc = iop_rules_new(env, snap, variables, &r, &err);
    }
    assert_int_not_equal(rc, RON_OK);
    if (strstr(err.msg, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, why);
    }
    assert_null(strstr(err.msg, "github secret"));
    iop_providers_free(p);
    ron_conf_unref(snap);
}

static void test_load__providers__kinds_keys_and_windows(void **state)
{
    struct ron_conf_snap *snap = load("[providers.github]\nenabled = true\nsecret_env = \"GH\"\n"
                                      "secret_env_next = \"GH2\"\ntolerance = \"60s\"\n"
                                      "[providers.slack]\n"
                                      "[providers.shop]\nkind = \"generic\"\nenabled = true\n"
                                      "secret_env = \"STRIPE\"\nsignature_header = \"X-Sig\"\n"
                                      "base = \"{timestamp}:{body}\"\nhash = \"sha512\"\n"
                                      "encoding = \"base64\"\ntimestamp_header = \"X-Time\"\n");
    struct iop_providers *p = NULL;
    const struct iop_provider *one;

    (void)state;
    assert_int_equal(iop_providers_new(env, snap, variables, &p, NULL), RON_OK);
    ron_conf_unref(snap); /* the set holds its own */
    one = iop_providers_find(p, (struct ron_str){"github", 6});
    assert_int_equal(one->key_count, 2);
    assert_int_equal(one->window_ms, 60000);
    assert_true(one->enabled);
    one = iop_providers_find(p, (struct ron_str){"slack_webhook", 13});
    assert_string_equal(one->name, "slack");
    assert_false(one->enabled);
    one = iop_providers_find(p, (struct ron_str){"shop", 4});
    assert_int_equal(one->scheme.hash, IOP_SHA512);
    assert_int_equal(one->base_count, 3);
    assert_null(iop_providers_find(p, (struct ron_str){"stripe", 6}));
    iop_providers_free(p);
}

static void test_load__unsound_providers__refused_by_name(void **state)
{
    (void)state;
    refused("[providers.github]\nenabled = true\n", "providers.github: secret_env");
    refused("[providers.github]\nenabled = true\nsecret_env = \"NONE\"\n", "NONE");
    refused("[providers.github]\nenabled = true\nsecret_env = \"NOT_THERE\"\n", "NOT_THERE");
    refused("[providers.github]\nenabled = true\nsecret_env = \"SHORT\"\n", "minimum 8");
    refused("[providers.github]\nenabled = true\nsecret_env = \"GH\"\nsecret_env_next = \"GH\"\n",
            "both secrets are equal");
    refused("[providers.github]\nenabled = true\nsecret_env = \"GH\"\n"
            "[providers.gitea]\nenabled = true\nsecret_env = \"GH\"\n",
            "same secret as providers.github");
    refused("[providers.acme]\n", "kind");
    refused("[providers.twilio]\nenabled = true\nsecret_env = \"GH\"\n", "public_url");
    refused("[providers.twilio]\nenabled = true\nsecret_env = \"GH\"\n"
            "public_url = \"https://h/path\"\n",
            "public_url");
    refused("[providers.x]\nkind = \"generic\"\n", "signature header is not set");
    refused("[providers.x]\nkind = \"generic\"\nsignature_header = \"X-S\"\nbase = \"fixed\"\n",
            "{body} or {form}");
    refused("[providers.x]\nkind = \"generic\"\nsignature_header = \"X-S\"\n"
            "base = \"{timestamp}{body}\"\n",
            "{timestamp}");
    refused("[providers.x]\nkind = \"generic\"\nsignature_header = \"X-S\"\nbase = \"{bod}\"\n",
            "expected {body}");
    refused("[providers.x]\nkind = \"generic\"\nsignature_header = \"X S\"\n", "header");
    refused("[providers.x]\nkind = \"generic\"\nsignature_header = \"X-S\"\nid_pointer = \"id\"\n",
            "must start with '/'");
}

static void test_load__secret_files__private_ones_alone(void **state)
{
    char folder[] = "/tmp/iop-rule-XXXXXX";
    char path[64];
    char text[256];
    struct iop_providers *p = NULL;
    struct ron_conf_snap *snap;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    RON_IGNORE(snprintf(path, sizeof path, "%s/secret", folder));
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "file secret\n", 12), 12);
    assert_int_equal(close(fd), 0);
    RON_IGNORE(snprintf(text, sizeof text,
                        "[providers.github]\nenabled = true\nsecret_file = \"%s\"\n", path));
    snap = load(text);
    assert_int_equal(iop_providers_new(env, snap, variables, &p, NULL), RON_OK);
    {
        struct iop_mac_key want;

        iop_mac_key_set(&want, IOP_SHA256, "file secret", 11); /* without its newline */
        assert_memory_equal(p->at[0].keys[0].mac._inner, want._inner, sizeof want._inner);
    }
    iop_providers_free(p);
    ron_conf_unref(snap);
    assert_int_equal(chmod(path, 0640), 0);
    refused(text, "secret_file");
    assert_int_equal(unlink(path), 0);
    refused(text, "secret_file");
    assert_int_equal(rmdir(folder), 0);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static void test_rule__conditions__hold_or_not(void **state)
{
    static const char body[] =
        "{\"s\":\"usd\",\"n\":100,\"f\":1.50,\"e\":1e2,\"t\":true,\"z\":null,"
        "\"q\":\"12.5\",\"o\":{\"x\":[10,20]},\"d\":1,\"d\":2,\"\":\"\"}";
    static const struct {
        const char *text;
        bool holds;
    } rows[] = {
        {"/s exists", true},    {"/y exists", false},    {"/y missing", true},
        {"/s missing", false},  {"/s = usd", true},      {"/s = us", false},
        {"/s = usd ", false},   {"/s != eur", true},     {"/s != usd", false},
        {"/y != usd", false},   {"/s in eur|usd", true}, {"/s in eur|us", false},
        {"/s prefix us", true}, {"/s prefix sd", false}, {"/n = 100", true},
        {"/n = 100.0", true},   {"/n = 1e2", false},     {"/n in 1|100.00", true},
        {"/n > 99.999", true},  {"/n > 100", false},     {"/n >= 100", true},
        {"/n < 100.1", true},   {"/n <= 99", false},     {"/f = 1.5", true},
        {"/f >= 1.5", true},    {"/e = 100", false},     {"/e > 1", false},
        {"/t = true", true},    {"/z = null", true},     {"/z exists", true},
        {"/q > 12", true},      {"/q = 12.5", true},     {"/q = 12.50", false},
        {"/o/x/1 = 20", true},  {"/o = 1", false},       {"/d = 1", false},
        {"/d = 2", false},      {"/d exists", false},    {"/d missing", false},
        {"/ = ", true},         {"/s > 1", false},       {"/n prefix 10", true},
    };
    static const char *const bad[] = {
        "",       "/s",       "s = 1",       "/s ~ 1", "/s =", "/s exists x",
        "/s < a", "/s < 1e3", "/s~2 exists", " = 1"};
    struct iop_doc doc;
    struct iop_cond c;

    (void)state;
    assert_true(iop_doc_init(&doc, body, strlen(body)));
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_err err = {0};

        assert_int_equal(
            iop_cond_parse((struct ron_str){rows[i].text, strlen(rows[i].text)}, &c, &err), RON_OK);
        if (iop_cond_holds(&c, &doc) != rows[i].holds) {
            fail_msg("%s", rows[i].text);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (iop_cond_parse((struct ron_str){bad[i], strlen(bad[i])}, &c, NULL) != RON_INVALID) {
            fail_msg("%s", bad[i]);
        }
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

#define PROVIDERS "[providers.stripe]\n[providers.github]\n"

struct run {
    struct iop_rules *rules;
    struct iop_doc doc;
    struct iop_action actions[IOP_ACTIONS_MAX];
    bool more;
};

static size_t apply(struct run *r, const char *provider, const char *event, const char *body)
{
    struct iop_rule_input in = {
        .provider = provider, .event = {event, strlen(event)}, .key = {{1, 2, 3}}, .doc = &r->doc};

    (void)iop_doc_init(&r->doc, body, strlen(body));
    return iop_rules_apply(r->rules, &in, r->actions, &r->more);
}

static void rules_of(struct run *r, const char *text)
{
    struct ron_conf_snap *snap = load(text);
    struct ron_err err = {0};

    memset(r, 0, sizeof *r);
    if (iop_rules_new(env, snap, variables, &r->rules, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    ron_conf_unref(snap);
}

static void test_rule__matching__provider_event_conditions_order(void **state)
{
    struct run r;

    (void)state;
    rules_of(&r, PROVIDERS "[rules.a]\nprovider = \"stripe\"\nevents = [\"charge.*\", \"x\"]\n"
                           "topic = \"charges\"\n"
                           "[rules.b]\nprovider = \"stripe\"\nwhen = [\"/n > 5\", \"/s = y\"]\n"
                           "topic = \"big\"\nstop = true\n"
                           "[rules.c]\ntopic = \"all\"\n"
                           "[rules.d]\nprovider = \"github\"\naction = \"forward\"\n"
                           "url = \"https://x.example.org/in\"\nsecret_env = \"FWD\"\n");
    assert_int_equal(apply(&r, "stripe", "charge.paid", "{}"), 2);
    assert_string_equal(r.actions[0].rule->topic.text, "charges");
    assert_string_equal(r.actions[1].rule->topic.text, "all");
    assert_int_equal(apply(&r, "stripe", "charge", "{}"), 1);
    assert_int_equal(apply(&r, "stripe", "x", "{\"n\":6,\"s\":\"y\"}"), 2); /* b stops */
    assert_string_equal(r.actions[1].rule->topic.text, "big");
    assert_int_equal(apply(&r, "stripe", "", "{\"n\":6,\"s\":\"z\"}"), 1);
    assert_int_equal(apply(&r, "github", "push", "no json"), 2);
    assert_int_equal(r.actions[1].rule->action, IOP_ACT_FORWARD);
    assert_false(r.more);
    iop_rules_free(r.rules);
}

static void test_rule__more_rules_than_actions__told(void **state)
{
    char text[1024] = "";
    struct run r;

    (void)state;
    for (int i = 0; i < IOP_ACTIONS_MAX + 1; i++) {
        size_t len = strlen(text);

        RON_IGNORE(snprintf(text + len, sizeof text - len, "[rules.r%d]\ntopic = \"t\"\n", i));
    }
    rules_of(&r, text);
    assert_int_equal(apply(&r, "any", "e", "{}"), IOP_ACTIONS_MAX);
    assert_true(r.more);
    iop_rules_free(r.rules);
}

static void wallet_case(const char *rule, const char *body, enum iop_fault fault, const char *to,
                        const char *amount)
{
    char text[1024];
    char money[RON_MONEY_TEXT_SIZE];
    struct run r;

    RON_IGNORE(snprintf(text, sizeof text, "[rules.w]\naction = \"wallet\"\n%s", rule));
    rules_of(&r, text);
    assert_int_equal(apply(&r, "p", "e", body), 1);
    (void)ron_money_format(r.actions[0].amount, money);
    if (r.actions[0].fault != fault || strcmp(r.actions[0].to, to) != 0 ||
        strcmp(money, amount) != 0) {
        fail_msg("%s %s: %s, %s, %s", rule, body, iop_fault_label(r.actions[0].fault),
                 r.actions[0].to, money);
    }
    iop_rules_free(r.rules);
}

static void test_rule__wallet__exact_or_a_fault(void **state)
{
    static const char one[] = "to = \"user/{/u}\"\namount = \"{/a}\"\n";
    static const char cents[] = "to = \"{/u}\"\namount = \"{/a}\"\nscale = 2\n";

    (void)state;
    wallet_case(one, "{\"u\":\"alice\",\"a\":2000}", IOP_FAULT_NONE, "user/alice", "2000");
    wallet_case(one, "{\"u\":\"alice\",\"a\":\"2000\"}", IOP_FAULT_NONE, "user/alice", "2000");
    wallet_case(one, "{\"u\":42,\"a\":1}", IOP_FAULT_NONE, "user/42", "1");
    wallet_case(cents, "{\"u\":\"shop/x:y\",\"a\":\"12.34\"}", IOP_FAULT_NONE, "shop/x:y", "1234");
    wallet_case("to = \"pot\"\namount = \"0.5\"\nscale = 3\n", "{}", IOP_FAULT_NONE, "pot", "500");
    /* R2: nothing smaller, nothing rounded. */
    wallet_case(cents, "{\"u\":\"b\",\"a\":12.345}", IOP_FAULT_AMOUNT, "", "0");
    wallet_case(one, "{\"u\":\"b\",\"a\":20.5}", IOP_FAULT_AMOUNT, "", "0");
    wallet_case(one, "{\"u\":\"b\",\"a\":2e3}", IOP_FAULT_AMOUNT, "", "0");
    wallet_case(one, "{\"u\":\"b\",\"a\":-5}", IOP_FAULT_AMOUNT, "", "0");
    wallet_case(one, "{\"u\":\"b\",\"a\":0}", IOP_FAULT_AMOUNT, "", "0");
    wallet_case(one, "{\"u\":\"b\",\"a\":1,\"a\":2}", IOP_FAULT_VALUE_TWICE, "", "0");
    wallet_case(one, "{\"u\":\"b\"}", IOP_FAULT_VALUE_MISSING, "", "0");
    wallet_case(one, "{\"u\":null,\"a\":1}", IOP_FAULT_VALUE_MISSING, "", "0");
    wallet_case(one, "{\"u\":{},\"a\":1}", IOP_FAULT_VALUE_FORM, "", "0");
    wallet_case(one, "{\"u\":\"\",\"a\":1}", IOP_FAULT_VALUE_FORM, "", "0");
    /* A value cannot leave its place in the name. */
    wallet_case(one, "{\"u\":\"a/../../ops\",\"a\":1}", IOP_FAULT_VALUE_FORM, "", "0");
    wallet_case(one, "{\"u\":\"a:b\",\"a\":1}", IOP_FAULT_VALUE_FORM, "", "0");
    wallet_case(one, "{\"u\":\"a\\u0000\",\"a\":1}", IOP_FAULT_VALUE_FORM, "", "0");
    wallet_case(cents, "{\"u\":\"a b\",\"a\":1}", IOP_FAULT_ACCOUNT, "", "0");
    wallet_case("to = \"a\"\namount = \"1\"\nasset = \"{/c}\"\n", "{\"c\":\"USD\"}",
                IOP_FAULT_ASSET, "", "0");
    wallet_case("to = \"a\"\namount = \"1\"\nasset = \"{/c}\"\n", "{\"c\":\"usd\"}", IOP_FAULT_NONE,
                "a", "1");
}

static void test_rule__idempotency_key__of_delivery_and_rule(void **state)
{
    struct run r;
    char first[2][IOP_IDEM_KEY_SIZE];

    (void)state;
    rules_of(&r, "[rules.a]\ntopic = \"a\"\n[rules.b]\ntopic = \"b\"\n");
    assert_int_equal(apply(&r, "p", "e", "{}"), 2);
    for (size_t i = 0; i < 2; i++) {
        memcpy(first[i], r.actions[i].idem_key, sizeof first[i]);
        assert_int_equal(strlen(first[i]), 64);
    }
    assert_string_not_equal(first[0], first[1]);
    assert_int_equal(apply(&r, "p", "other", "{\"x\":1}"), 2);
    assert_string_equal(first[0], r.actions[0].idem_key);
    assert_int_equal(apply(&r, "q", "e", "{}"), 2);
    assert_string_not_equal(first[0], r.actions[0].idem_key);
    iop_rules_free(r.rules);
}

static void test_load__unsound_rules__refused_by_name(void **state)
{
    (void)state;
    refused("[rules.a]\n", "rules.a: topic");
    refused("[rules.a]\ntopic = \"a b\"\n", "rules.a: topic");
    refused("[rules.a]\nprovider = \"gone\"\ntopic = \"a\"\n", "provider");
    refused("[rules.a]\nwhen = [\"/a = 1\", \"/a ~ 1\"]\ntopic = \"a\"\n", "when[1]");
    refused("[rules.a]\naction = \"forward\"\nurl = \"https://x.org/\"\n", "secret_env");
    refused("[rules.a]\naction = \"forward\"\nurl = \"ftp://x\"\nsecret_env = \"FWD\"\n",
            "rules.a");
    refused("[rules.a]\naction = \"forward\"\nurl = \"https://x.org/\"\nsecret_env = \"PUB\"\n",
            "cannot sign");
    refused("[rules.a]\naction = \"wallet\"\namount = \"1\"\n", "to");
    refused("[rules.a]\naction = \"wallet\"\nto = \"a\"\n", "amount");
    refused("[rules.a]\naction = \"wallet\"\nto = \"a\"\namount = \"{/a}{/b}\"\n", "amount");
    refused("[rules.a]\naction = \"wallet\"\nto = \"a\"\namount = \"1.5\"\n", "amount");
    refused("[rules.a]\naction = \"wallet\"\nto = \"a\"\namount = \"0\"\n", "amount");
    refused("[rules.a]\naction = \"wallet\"\nto = \"{a}\"\namount = \"1\"\n", "to");
    refused("[rules.a]\naction = \"wallet\"\nto = \"a}\"\namount = \"1\"\n", "to");
    refused("[rules.a]\naction = \"wallet\"\nto = \"{/a\"\namount = \"1\"\n", "to");
    refused("[rules.a]\naction = \"wallet\"\nop = \"transfer\"\nto = \"a\"\namount = \"1\"\n",
            "from");
    refused("[rules.a]\naction = \"wallet\"\nfrom = \"b\"\nto = \"a\"\namount = \"1\"\n", "from");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__providers__kinds_keys_and_windows),
        cmocka_unit_test(test_load__unsound_providers__refused_by_name),
        cmocka_unit_test(test_load__secret_files__private_ones_alone),
        cmocka_unit_test(test_rule__conditions__hold_or_not),
        cmocka_unit_test(test_rule__matching__provider_event_conditions_order),
        cmocka_unit_test(test_rule__more_rules_than_actions__told),
        cmocka_unit_test(test_rule__wallet__exact_or_a_fault),
        cmocka_unit_test(test_rule__idempotency_key__of_delivery_and_rule),
        cmocka_unit_test(test_load__unsound_rules__refused_by_name),
    };

    env = ron_env_linux();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
