/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the policy file means what docs/formats/ledger-policy.md says, to the rule that wins, and a
 * mistake in it is told with its place.
 * Method: the page's example; each refusal once; each mistake once; random policies against a plain
 * model that looks at every rule. */
#include "unit/ledger/guard_fixture.h"

#include "cap/cap_priv.h"
#include "ron/cap/caveat.h"

static struct led_policy *policy_of(const char *text)
{
    struct led_policy *p = NULL;
    struct ron_err err = {0};

    if (led_policy_parse("p.toml", text, strlen(text), &p, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    return p;
}

static struct led_entry entry(uint8_t kind, const char *account, const char *to, uint64_t amount)
{
    return (struct led_entry){.id = STR("i"),
                              .account = STR(account),
                              .to = STR(to),
                              .asset = STR("roc"),
                              .amount = ron_money_of(amount),
                              .kind = kind};
}

/* The member of the refusal of one entry, or "ok". */
static const char *verdict(const struct led_policy *p, const struct led_entry *e, size_t count)
{
    static struct led_refusals refusals;

    refusals.count = 0;
    if (led_policy_check(p, e, count, &refusals)) {
        assert_int_equal(refusals.count, 0);
        return "ok";
    }
    assert_int_equal(refusals.items[0].reason, LED_REASON_POLICY_DENIED);
    return refusals.items[0].member;
}

static const char *one(const struct led_policy *p, uint8_t kind, const char *account,
                       const char *to, uint64_t amount)
{
    struct led_entry e = entry(kind, account, to, amount);

    return verdict(p, &e, 1);
}

static const char example[] = "v = 1\n"
                              "default = \"allow\"\n"
                              "reversible_bridges = \"require-cap\"\n"
                              "freeze = [\"t:bad\", \"t:demo/u:mallory\", \"x*\"]\n"
                              "[[limit]]\n"
                              "account = \"t:demo\"\n"
                              "max_amount = \"1000\"\n"
                              "[[limit]]\n"
                              "account = \"t:demo\"\n"
                              "kinds = [\"Mint\", \"Burn\"]\n"
                              "deny = true\n"
                              "[[limit]]\n"
                              "account = \"t:demo/u:vip\"\n"
                              "[[limit]]\n"
                              "account = \"t:demo\"\n"
                              "asset = \"usd\"\n"
                              "max_amount = \"10\"\n"
                              "[[residency]]\n"
                              "account = \"t:eu\"\n"
                              "tag = \"eu\"\n"
                              "[[residency]]\n"
                              "account = \"t:us\"\n"
                              "tag = \"us\"\n"
                              "[[residency_pass]]\n"
                              "from = \"eu\"\n"
                              "to = \"us\"\n"
                              "[[residency_pass]]\n"
                              "from = \"none\"\n"
                              "to = \"eu\"\n";

static void test_policy__limits__one_decides(void **state)
{
    struct led_policy *p = policy_of(example);
    struct led_entry e = entry(LED_KIND_DEBIT, "t:demo", "", 11);

    (void)state;
    assert_string_equal(one(p, LED_KIND_DEBIT, "t:demo", "", 1000), "ok");
    assert_string_equal(one(p, LED_KIND_DEBIT, "t:demo/u:a", "", 1001), "amount");
    assert_string_equal(one(p, LED_KIND_DEBIT, "t:demography", "", 1001), "ok");
    assert_string_equal(one(p, LED_KIND_MINT, "t:demo/u:a", "", 1), "kind");
    assert_string_equal(one(p, LED_KIND_MINT, "t:demo/u:vip", "", 5000), "ok");
    assert_string_equal(one(p, LED_KIND_MINT, "t:demo/u:vip/w", "", 5000), "ok");
    assert_string_equal(one(p, LED_KIND_MINT, "t:demo/u:vipp", "", 1), "kind");
    assert_string_equal(one(p, LED_KIND_MINT, "elsewhere", "", 5000), "ok");
    e.asset = STR("usd"); /* the asset is named: before kinds and before the plain limit */
    assert_string_equal(verdict(p, &e, 1), "amount");
    e.kind = LED_KIND_MINT;
    e.amount = ron_money_of(10);
    assert_string_equal(verdict(p, &e, 1), "ok");
    assert_int_equal(led_policy_bridges(p), LED_BRIDGES_REQUIRE_CAP);
    led_policy_unref(p);
    p = policy_of("v = 1\ndefault = \"deny\"\n[[limit]]\naccount = \"a*\"\n");
    assert_string_equal(one(p, LED_KIND_MINT, "abc", "", 1), "ok");
    assert_string_equal(one(p, LED_KIND_MINT, "b", "", 1), "");
    led_policy_unref(p);
}

static void test_policy__frozen__neither_gives_nor_takes(void **state)
{
    struct led_policy *p = policy_of(example);

    (void)state;
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:bad/u:x", "z", 1), "account");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "z", "t:demo/u:mallory", 1), "to");
    assert_string_equal(one(p, LED_KIND_MINT, "t:demo/u:mallory", "", 1), "account");
    assert_string_equal(one(p, LED_KIND_MINT, "xyz", "", 1), "account");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:badly", "t:demo/u:mallory2", 1), "ok");
    assert_string_equal(one(p, LED_KIND_REVERSE, "t:bad", "", 1), "ok");
    assert_string_equal(one(p, LED_KIND_EXPIRE, "t:bad", "", 1), "ok");
    assert_true(led_policy_frozen(p, STR("t:bad")));
    assert_false(led_policy_frozen(p, STR("t:good")));
    led_policy_unref(p);
}

static void test_policy__residency__only_where_a_pass_leads(void **state)
{
    struct led_policy *p = policy_of(example);
    struct led_entry list[] = {
        entry(LED_KIND_DEBIT, "t:us/a", "", 1),
        entry(LED_KIND_CREDIT, "t:us/b", "", 1),
        entry(LED_KIND_DEBIT, "t:eu/a", "", 1),
        entry(LED_KIND_CREDIT, "t:eu/b", "", 1),
    };

    (void)state;
    assert_string_equal(led_policy_residency(p, STR("t:eu/x")), "eu");
    assert_string_equal(led_policy_residency(p, STR("t:europe")), "none");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:eu/a", "t:us/b", 1), "ok");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:us/a", "t:eu/b", 1), "to");
    assert_string_equal(one(p, LED_KIND_CAPTURE, "t:us/a", "t:eu/b", 1), "to");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:us/a", "t:us/b", 1), "ok");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "m", "n", 1), "ok");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "m", "t:eu/b", 1), "ok");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "t:eu/b", "m", 1), "to");
    assert_string_equal(verdict(p, list, 2), "ok");
    assert_string_equal(verdict(p, list, 4), "account"); /* us may reach eu/b */
    list[0].asset = list[1].asset = STR("usd");
    assert_string_equal(verdict(p, list, 4), "ok"); /* not within one asset */
    led_policy_unref(p);
}

/* More assets than are told apart: still no way around. */
static void test_policy__many_assets__no_way_around_residency(void **state)
{
    enum { ASSETS = 40 };
    struct led_policy *p = policy_of(example);
    struct led_entry list[2 * ASSETS];
    char names[ASSETS][8];

    (void)state;
    for (size_t i = 0; i < ASSETS; i++) {
        (void)snprintf(names[i], sizeof names[i], "a%zu", i);
        list[i] = entry(LED_KIND_DEBIT, i + 1 == ASSETS ? "t:us/a" : "t:eu/a", "", 1);
        list[ASSETS + i] = entry(LED_KIND_CREDIT, "t:eu/b", "", 1);
        list[i].asset = list[ASSETS + i].asset = STR(names[i]);
    }
    assert_string_equal(verdict(p, list, (size_t)2 * ASSETS), "account");
    list[ASSETS - 1].account = STR("t:eu/a");
    assert_string_equal(verdict(p, list, (size_t)2 * ASSETS), "ok");
    led_policy_unref(p);
}

static void test_policy__more_refusals_than_are_told__still_refused(void **state)
{
    struct led_policy *p = policy_of(example);
    struct led_entry e = entry(LED_KIND_MINT, "t:bad", "", 1);
    struct led_refusals full = {.count = LED_REFUSALS_MAX};

    (void)state;
    assert_false(led_policy_check(p, &e, 1, &full));
    led_policy_unref(p);
}

static void test_policy__mistakes__told_with_their_place(void **state)
{
    static const struct {
        const char *text;
        const char *place;
        const char *says;
    } rows[] = {
        {"", "p.toml:1:1: ", "v = 1"},
        {"v = 2\n", "p.toml:1:5: ", "v = 1"},
        {"v = \"1\"\n", "p.toml:1:5: ", "v = 1"},
        {"v = 1\nlimits = 1\n", "p.toml:2:1: ", "did you mean 'limit'"},
        {"v = 1\ndefault = \"maybe\"\n", "p.toml:2:11: ", "'allow' or 'deny'"},
        {"v = 1\ndefault = true\n", "p.toml:2:11: ", "not a boolean"},
        {"v = 1\nreversible_bridges = \"yes\"\n", "p.toml:2:22: ", "require-cap"},
        {"v = 1\nfreeze = \"a\"\n", "p.toml:2:10: ", "array"},
        {"v = 1\nfreeze = [1]\n", "p.toml:2:11: ", "string"},
        {"v = 1\nfreeze = [\"a b\"]\n", "p.toml:2:11: ", "an account"},
        {"v = 1\nfreeze = [\"*\"]\n", "p.toml:2:11: ", "an account"},
        {"v = 1\nfreeze = [\"\"]\n", "p.toml:2:11: ", "an account"},
        {"v = 1\nfreeze = [\"a\", \"b\", \"a\"]\n", "p.toml:2:21: ", "twice"},
        {"v = 1\n[limit]\n", "p.toml:2:", "array"},
        {"v = 1\nlimit = [1]\n", "p.toml:2:10: ", "[[limit]]"},
        {"v = 1\n[[limit]]\nkind = \"Mint\"\n", "p.toml:3:1: ", "did you mean 'kinds'"},
        {"v = 1\n[[limit]]\nkinds = \"Mint\"\n", "p.toml:3:9: ", "array"},
        {"v = 1\n[[limit]]\nkinds = []\n", "p.toml:3:9: ", "at least one"},
        {"v = 1\n[[limit]]\nkinds = [\"Steal\"]\n", "p.toml:3:10: ", "no kind"},
        {"v = 1\n[[limit]]\nkinds = [\"Expire\"]\n", "p.toml:3:10: ", "no kind"},
        {"v = 1\n[[limit]]\nkinds = [\"Mint\",\"Mint\"]\n", "p.toml:3:17: ", "twice"},
        {"v = 1\n[[limit]]\nasset = \"ROC\"\n", "p.toml:3:9: ", "asset"},
        {"v = 1\n[[limit]]\nmax_amount = 5\n", "p.toml:3:14: ", "string"},
        {"v = 1\n[[limit]]\nmax_amount = \"05\"\n", "p.toml:3:14: ", "decimal"},
        {"v = 1\n[[limit]]\nmax_amount = \"5\"\ndeny = true\n", "p.toml:3:1: ", "no ceiling"},
        {"v = 1\n[[limit]]\ndeny = \"x\"\n", "p.toml:3:8: ", "boolean"},
        {"v = 1\n[[limit]]\n[[limit]]\n", "p.toml:3:", "another limit"},
        {"v = 1\n[[limit]]\naccount = \"a\"\nkinds = [\"Mint\",\"Burn\"]\n"
         "[[limit]]\naccount = \"a\"\nkinds = [\"Burn\"]\n",
         "p.toml:6:11: ", "another limit"},
        {"v = 1\n[[residency]]\naccount = \"a\"\n", "p.toml:2:", "'tag' is missing"},
        {"v = 1\n[[residency]]\ntag = \"a\"\n", "p.toml:2:", "'account' is missing"},
        {"v = 1\n[[residency]]\naccount = \"a\"\ntag = \"none\"\n", "p.toml:4:7: ", "none"},
        {"v = 1\n[[residency]]\naccount = \"a\"\ntag = \"EU\"\n", "p.toml:4:7: ", "a-z"},
        {"v = 1\n[[residency]]\naccount = \"a\"\ntag = \"x\"\n[[residency]]\naccount = \"a\"\n"
         "tag = \"y\"\n",
         "p.toml:6:11: ", "twice"},
        {"v = 1\n[[residency_pass]]\nfrom = \"eu\"\nto = \"none\"\n",
         "p.toml:3:8: ", "no [[residency]]"},
        {"v = 1\n[[residency_pass]]\nfrom = \"none\"\nto = \"none\"\n", "p.toml:2:", "already"},
        {"v = 1\nv = 1\n", "p.toml:2:1: ", ""},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct led_policy *p = NULL;
        struct ron_err err = {0};

        assert_int_equal(led_policy_parse("p.toml", rows[i].text, strlen(rows[i].text), &p, &err),
                         RON_INVALID);
        assert_null(p);
        if (strncmp(err.msg, rows[i].place, strlen(rows[i].place)) != 0 ||
            strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("%s\ngave: %s", rows[i].text, err.msg);
        }
    }
}

static void test_policy__tags__bounded(void **state)
{
    static char text[16384];
    size_t len = (size_t)snprintf(text, sizeof text, "v = 1\n");
    struct led_policy *p = NULL;
    struct led_policy_stats stats;

    (void)state;
    for (int i = 0; i < LED_POLICY_TAGS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "[[residency]]\naccount = \"a%d\"\ntag = \"t%d\"\n", i, i);
    }
    p = policy_of(text);
    assert_string_equal(led_policy_residency(p, STR("a62")), "t62");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "a61", "a62", 1), "to");
    assert_string_equal(one(p, LED_KIND_TRANSFER, "a62", "a62/x", 1), "ok");
    led_policy_stats(p, &stats);
    assert_int_equal(stats.residencies, LED_POLICY_TAGS_MAX);
    led_policy_unref(p);
    (void)snprintf(text + len, sizeof text - len,
                   "[[residency]]\naccount = \"one-more\"\ntag = \"u\"\n");
    p = NULL;
    assert_int_equal(led_policy_parse("p", text, strlen(text), &p, NULL), RON_INVALID);
}

/* ---- against a plain model ------------------------------------------------------------------- */

static const char *const model_accounts[] = {"t:a",     "t:a/b", "t:a/b/c", "t:ab",   "t:a:b",
                                             "t:a*",    "t:*",   "t:a/",    "t:a/b*", "t:b",
                                             "t:ab/c*", "u",     "u*"};
static const char *const model_kinds[] = {"Mint", "Transfer", "Burn"};

struct model_limit {
    const char *account; /* NULL: all */
    const char *asset;
    int kind; /* index, -1: all */
    uint64_t max;
    bool deny;
};

static size_t literal_len(const char *prefix)
{
    return strlen(prefix) - (prefix[strlen(prefix) - 1] == '*');
}

/* Larger wins. */
static int model_weight(const struct model_limit *l, const struct led_entry *e)
{
    static const uint8_t kinds[] = {LED_KIND_MINT, LED_KIND_TRANSFER, LED_KIND_BURN};
    int weight = 0;

    if (l->account != NULL) {
        char last = l->account[strlen(l->account) - 1];

        if (!ron_cap_prefix_covers(STR(l->account), e->account)) {
            return -1;
        }
        weight += (int)literal_len(l->account) * 8;
        weight += last != '*' && last != '/' && last != ':' ? 4 : 0;
    }
    if (l->asset != NULL) {
        if (!ron_str_is(e->asset, l->asset)) {
            return -1;
        }
        weight += 2;
    }
    if (l->kind >= 0) {
        if (kinds[l->kind] != e->kind) {
            return -1;
        }
        weight += 1;
    }
    return weight;
}

static bool model_allows(const struct model_limit *limits, size_t count, const struct led_entry *e)
{
    int best = -1;
    bool allowed = true;

    for (size_t i = 0; i < count; i++) {
        int weight = model_weight(&limits[i], e);

        if (weight > best) {
            best = weight;
            allowed = !limits[i].deny && (uint64_t)e->amount.v <= limits[i].max;
        }
    }
    return allowed;
}

static size_t write_limit(char *text, size_t size, const struct model_limit *l)
{
    size_t len = (size_t)snprintf(text, size, "[[limit]]\n");

    if (l->account != NULL) {
        len += (size_t)snprintf(text + len, size - len, "account = \"%s\"\n", l->account);
    }
    if (l->asset != NULL) {
        len += (size_t)snprintf(text + len, size - len, "asset = \"%s\"\n", l->asset);
    }
    if (l->kind >= 0) {
        len += (size_t)snprintf(text + len, size - len, "kinds = [\"%s\"]\n", model_kinds[l->kind]);
    }
    if (l->deny) {
        len += (size_t)snprintf(text + len, size - len, "deny = true\n");
    } else {
        len += (size_t)snprintf(text + len, size - len, "max_amount = \"%llu\"\n",
                                (unsigned long long)l->max);
    }
    return len;
}

static bool same_place(const struct model_limit *a, const struct model_limit *b)
{
    return a->kind == b->kind && a->asset == b->asset &&
           (a->account == b->account ||
            (a->account != NULL && b->account != NULL &&
             literal_len(a->account) == literal_len(b->account) &&
             strncmp(a->account, b->account, literal_len(a->account)) == 0 &&
             strpbrk(a->account + literal_len(a->account) - 1, "*:/") != NULL &&
             strpbrk(b->account + literal_len(b->account) - 1, "*:/") != NULL));
}

static void test_policy__random_limits__as_a_plain_model(void **state)
{
    static const char *const probes[] = {"t:a", "t:a/b", "t:a/b/c", "t:ab", "t:a:b", "t:abc",
                                         "t:b", "u",     "u:x",     "ux",   "t",     "t:ab/cd"};
    static const char *const assets[] = {"roc", "usd"};
    static const uint8_t kinds[] = {LED_KIND_MINT, LED_KIND_TRANSFER, LED_KIND_BURN};
    struct ron_rand r = support_rand();
    uint64_t denied = 0;

    (void)state;
    for (int round = 0; round < 400; round++) {
        struct model_limit limits[24];
        size_t count = 0;
        static char text[8192];
        size_t len = (size_t)snprintf(text, sizeof text, "v = 1\n");
        struct led_policy *p;

        for (uint64_t tries = ron_rand_below(&r, 24); tries > 0; tries--) {
            struct model_limit l = {
                .account = ron_rand_chance(&r, 1, 8) ? NULL : CAP_PICK(&r, model_accounts),
                .asset = ron_rand_chance(&r, 1, 2) ? NULL : CAP_PICK(&r, assets),
                .kind = (int)ron_rand_below(&r, 4) - 1,
                .max = ron_rand_below(&r, 10),
                .deny = ron_rand_chance(&r, 1, 4)};
            bool taken = false;

            for (size_t i = 0; i < count; i++) {
                taken = taken || same_place(&limits[i], &l);
            }
            if (!taken) {
                len += write_limit(text + len, sizeof text - len, &l);
                limits[count++] = l;
            }
        }
        p = policy_of(text);
        for (int i = 0; i < 200; i++) {
            struct led_entry e = entry(kinds[ron_rand_below(&r, 3)], CAP_PICK(&r, probes), "",
                                       1 + ron_rand_below(&r, 10));
            bool want;

            e.asset = STR(CAP_PICK(&r, assets));
            want = model_allows(limits, count, &e);
            denied += !want;
            if ((strcmp(verdict(p, &e, 1), "ok") == 0) != want) {
                fail_msg("%s %.*s %.*s %llu in\n%s", led_kind_name(e.kind), (int)e.account.len,
                         e.account.ptr, (int)e.asset.len, e.asset.ptr,
                         (unsigned long long)e.amount.v, text);
            }
        }
        led_policy_unref(p);
    }
    assert_true(denied > 1000);
}

static void test_policy__file__reloaded_whole_or_not_at_all(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    char path[] = "/tmp/ron-policy-XXXXXX";
    int fd = mkstemp(path);
    struct led_policy_stats before;
    struct led_policy_stats after;
    struct led_policy *p;
    struct ron_err err = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, example, strlen(example)), strlen(example));
    assert_int_equal(led_guard_reload(f->guard, path, &err), RON_OK);
    p = led_guard_policy(f->guard);
    led_policy_stats(p, &before);
    assert_int_equal(before.limits, 4);
    assert_int_equal(before.frozen, 3);
    assert_int_equal(before.passes, 2);
    led_policy_unref(p);
    assert_int_equal(write(fd, "oops\n", 5), 5);
    assert_int_equal(led_guard_reload(f->guard, path, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, ":30:"));
    p = led_guard_policy(f->guard);
    led_policy_stats(p, &after);
    assert_memory_equal(&before, &after, sizeof before);
    led_policy_unref(p);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(led_guard_reload(f->guard, path, &err), RON_NOTFOUND);
    (void)close(fd);
    gf_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy__limits__one_decides),
        cmocka_unit_test(test_policy__frozen__neither_gives_nor_takes),
        cmocka_unit_test(test_policy__residency__only_where_a_pass_leads),
        cmocka_unit_test(test_policy__many_assets__no_way_around_residency),
        cmocka_unit_test(test_policy__more_refusals_than_are_told__still_refused),
        cmocka_unit_test(test_policy__mistakes__told_with_their_place),
        cmocka_unit_test(test_policy__tags__bounded),
        cmocka_unit_test(test_policy__random_limits__as_a_plain_model),
        cmocka_unit_test(test_policy__file__reloaded_whole_or_not_at_all),
    };

    return cmocka_run_group_tests_name("ledger.policy", tests, NULL, NULL);
}
