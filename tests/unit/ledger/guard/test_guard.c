/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: nobody does what token, peer or governance do not allow, and each refusal says why.
 * Method: tokens minted under keys in memory, entries as JSON through admission, parsing and check;
 * one thing changed at a time. */
#include "unit/ledger/guard_fixture.h"

#include "cap/cap_priv.h"
#include "ron/http/tls.h"

#define TRANSFER gf_entry("Transfer", "t:demo/u:alice", "5", ",\"to\":\"t:demo/u:bob\"")
#define MINT gf_entry("Mint", "t:demo/u:alice", "5", "")
#define REVERSE gf_entry("Reverse", "t:demo/u:alice", "5", ",\"ref\":\"tx-0\"")

static void test_guard__no_usable_token__unauth_and_nothing_of_the_body_is_told(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct ron_cap_keys *other = cap_keys();
    struct cap_text foreign = cap_minted(other, NULL, 0);
    struct led_work *w;

    (void)state;
    w = gf_json(f, "not even JSON"); /* no token */
    gf_expect(f, LED_REASON_UNAUTH, 0, "");
    assert_null(strstr(w->refusals.items[0].detail, "JSON"));
    w = gf_json(f, "{");
    w->caller.why = RON_CAP_SCHEME;
    gf_expect(f, LED_REASON_UNAUTH, 0, "");
    assert_string_equal(w->refusals.items[0].detail, ron_cap_why_doc(RON_CAP_SCHEME));
    GF_TOKEN(f, "aud = ledger", "exp = 1799999990");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_UNAUTH, 0, ""); /* expired */
    f->token = foreign;
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_UNAUTH, 0, ""); /* another key */
    (void)snprintf(f->token.s, sizeof f->token.s, "abc");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_UNAUTH, 0, ""); /* no token at all */
    assert_int_equal(gf_count(f, "auth_failures_total", "tcp"), 5);
    GF_TOKEN(f, "aud = ledger");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_INVALID, 0, ""); /* now the body speaks */
    assert_int_equal(gf_count(f, "auth_failures_total", "tcp"), 5);
    ron_cap_keys_unref(other);
    gf_close(f);
}

static void test_guard__token_for_others__cap_invalid_before_parsing(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);

    (void)state;
    GF_TOKEN(f, "aud = wallet");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "");
    GF_TOKEN(f, "aud = ledger", "scope = ledger.read,ledger.admin,ledger.freeze,ledger.import");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_CAP_INVALID, 0, ""); /* may not send entries at all */
    GF_TOKEN(f, "aud = ledger", "amnesia = true");
    (void)gf_json(f, "{");
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "");
    gf_close(f);
    f = gf_open(
        (struct led_guard_opts){.amnesia = true, .must_carry = RON_CAP_KIND_BIT(RON_CAP_KIND_EXP)},
        false);
    GF_TOKEN(f, "amnesia = true", "exp = 1900000000");
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    gf_expect_ok(f);
    GF_TOKEN(f, "amnesia = true");
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, ""); /* must expire */
    gf_close(f);
}

static void test_guard__scope__each_kind_needs_its_own(void **state)
{
    static const struct {
        const char *kind;
        const char *more;
        const char *scope;
    } rows[] = {
        {"Mint", "", "ledger.mint"},
        {"Burn", "", "ledger.burn"},
        {"Credit", "", "ledger.transfer"},
        {"Debit", "", "ledger.transfer"},
        {"Transfer", ",\"to\":\"b\"", "ledger.transfer"},
        {"Hold", "", "ledger.hold"},
        {"Capture", ",\"to\":\"b\",\"ref\":\"h\"", "ledger.hold"},
        {"Release", ",\"ref\":\"h\"", "ledger.hold"},
        {"Reverse", ",\"ref\":\"h\"", "ledger.reverse"},
    };
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_REQUIRE_CAP}, false);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < RON_ARRAY_LEN(rows); k++) {
            char caveat[64];

            (void)snprintf(caveat, sizeof caveat, "scope = %s", rows[k].scope);
            GF_TOKEN(f, "aud = ledger", caveat);
            (void)gf_batch(f, gf_entry(rows[i].kind, "a", "1", rows[i].more), NULL, NULL);
            if (strcmp(rows[i].scope, rows[k].scope) == 0) {
                gf_expect_ok(f);
            } else {
                gf_expect(f, LED_REASON_CAP_INVALID, 0, "kind");
            }
        }
        GF_TOKEN(f, "scope = ledger"); /* above all of them */
        (void)gf_batch(f, gf_entry(rows[i].kind, "a", "1", rows[i].more), NULL, NULL);
        gf_expect_ok(f);
    }
    gf_close(f);
}

static void test_guard__caveats__hold_for_every_entry(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    const char *good = TRANSFER;

    (void)state;
    GF_TOKEN(f, "aud = ledger", "account = t:demo/u:alice", "asset = roc", "max = 100",
             "tenant = demo");
    (void)gf_batch(f, good, NULL, NULL);
    gf_expect_ok(f); /* `to` is another's: anybody may be paid */
    (void)gf_batch(f, good, gf_entry("Transfer", "t:demo/u:bob", "5", ",\"to\":\"x\""), NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 1, "account");
    (void)gf_batch(f, good, gf_entry("Mint", "t:demo/u:bob", "5", ""), NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 1, "account");
    (void)gf_batch(f, gf_entry("Transfer", "t:demo/u:alice/w", "100", ",\"to\":\"x\""), good,
                   gf_entry("Transfer", "t:demo/u:alice", "101", ",\"to\":\"x\""));
    gf_expect(f, LED_REASON_CAP_INVALID, 2, "amount");
    (void)gf_batch(f,
                   gf_entry("Transfer", "t:demo/u:alice", "1", ",\"to\":\"x\",\"asset\":\"usd\""),
                   NULL, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "asset");
    (void)gf_batch(f, gf_entry("Transfer", "t:demo/u:alice2", "5", ",\"to\":\"x\""), good,
                   gf_entry("Transfer", "t:demo/u:alice", "101", ",\"to\":\"x\""));
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "account");
    assert_int_equal(f->w.refusals.count, 2); /* each bad entry is told */
    assert_int_equal(f->w.refusals.items[1].idx, 2);
    GF_TOKEN(f, "tenant = demo");
    (void)gf_batch(f, gf_entry("Transfer", "t:demo", "5", ",\"to\":\"x\""), NULL, NULL);
    gf_expect_ok(f);
    (void)gf_batch(f, gf_entry("Transfer", "t:demo2/u:a", "5", ",\"to\":\"x\""), NULL, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "account");
    (void)gf_batch(f, gf_entry("Transfer", "u:demo", "5", ",\"to\":\"x\""), NULL, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "account"); /* of no tenant */
    gf_close(f);
}

static void test_guard__bound_scopes__only_listed_peers(void **state)
{
    static const char *const names[] = {"dns:Wallet.internal", "cn:operator", "uri:spiffe://a/b",
                                        "sha256:"
                                        "abababababababababababababababababababababababababababab"
                                        "abababab"};
    static const uint32_t uids[] = {1000, 1001};
    const uint32_t root = 0;
    const uint32_t bound = LED_SCOPE_BIT(LED_SCOPE_MINT) | LED_SCOPE_BIT(LED_SCOPE_ADMIN);
    struct ron_tls_peer *peer = calloc(1, sizeof *peer);
    struct gf *f = gf_open((struct led_guard_opts){.bound_scopes = bound,
                                                   .bound_names = names,
                                                   .bound_name_count = RON_ARRAY_LEN(names),
                                                   .bound_uids = uids,
                                                   .bound_uid_count = RON_ARRAY_LEN(uids)},
                           false);

    (void)state;
    assert_non_null(peer);
    assert_true(led_guard_wants_tls_peer(f->guard));
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, NULL), LED_SCOPES_ALL & ~bound);
    assert_int_equal(led_guard_peer_scopes(f->guard, &root, NULL), LED_SCOPES_ALL & ~bound);
    assert_int_equal(led_guard_peer_scopes(f->guard, &uids[1], NULL), LED_SCOPES_ALL);
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL & ~bound);
    (void)snprintf(peer->common_name, sizeof peer->common_name, "wallet.internal");
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL & ~bound);
    (void)snprintf(peer->common_name, sizeof peer->common_name, "operator");
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL);
    peer->common_name[0] = '\0';
    peer->name_count = 2;
    peer->names[1].kind = RON_TLS_NAME_EMAIL; /* the right text of another kind */
    (void)snprintf(peer->names[1].text, sizeof peer->names[1].text, "wallet.internal");
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL & ~bound);
    peer->names[1].kind = RON_TLS_NAME_DNS;
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL);
    peer->name_count = 0;
    memset(peer->fingerprint, 0xab, sizeof peer->fingerprint);
    assert_int_equal(led_guard_peer_scopes(f->guard, NULL, peer), LED_SCOPES_ALL);

    GF_TOKEN(f, "aud = ledger");
    (void)gf_batch(f, TRANSFER, MINT, NULL);
    gf_expect(f, LED_REASON_UNAUTH, 1, "kind"); /* the token would allow it */
    (void)gf_batch(f, TRANSFER, MINT, NULL);
    f->w.caller.peer_scopes = led_guard_peer_scopes(f->guard, &uids[0], NULL);
    gf_expect_ok(f);
    GF_TOKEN(f, "scope = ledger.transfer");
    (void)gf_batch(f, TRANSFER, MINT, NULL);
    f->w.caller.peer_scopes = LED_SCOPES_ALL;
    gf_expect(f, LED_REASON_CAP_INVALID, 1, "kind"); /* a peer is no token */
    free(peer);
    gf_close(f);
}

static void test_guard__bound_without_a_list__nobody(void **state)
{
    struct gf *f =
        gf_open((struct led_guard_opts){.bound_scopes = LED_SCOPE_BIT(LED_SCOPE_MINT)}, false);

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    (void)gf_batch(f, MINT, NULL, NULL);
    gf_expect(f, LED_REASON_UNAUTH, 0, "kind");
    gf_close(f);
}

static void test_guard__bad_options__say_what_is_wrong(void **state)
{
    static const char *const bad[] = {"wallet.internal", "dns:", "sha256:AB",
                                      "sha256:abababab", "CN:x", ""};
    struct led_guard *g = NULL;
    struct ron_err err;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        err = (struct ron_err){0};
        assert_int_equal(led_guard_new(&(struct led_guard_opts){.env = ron_env_linux(),
                                                                .bound_names = &bad[i],
                                                                .bound_name_count = 1},
                                       &g, &err),
                         RON_INVALID);
        assert_true(err.msg[0] != '\0');
    }
    assert_int_equal(
        led_guard_new(&(struct led_guard_opts){.env = ron_env_linux(),
                                               .bound_scopes = LED_SCOPE_BIT(LED_SCOPE_READ)},
                      &g, &err),
        RON_INVALID);
    assert_null(g);
}

static void test_guard__reversals__as_governance_says(void **state)
{
    static const enum led_bridges all[] = {LED_BRIDGES_DISABLED, LED_BRIDGES_REQUIRE_CAP,
                                           LED_BRIDGES_ALLOW};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        struct gf *f = gf_open((struct led_guard_opts){.bridges = all[i]}, false);

        GF_TOKEN(f, "scope = ledger.reverse");
        (void)gf_batch(f, REVERSE, NULL, NULL);
        if (all[i] == LED_BRIDGES_DISABLED) {
            gf_expect(f, LED_REASON_POLICY_DENIED, 0, "kind");
        } else {
            gf_expect_ok(f);
            assert_true((f->w.flags & LED_APPLY_REVERSIBLE) != 0);
            assert_non_null(f->w.originals);
            assert_int_equal(f->w.look_up, LED_LOOK_ORIGINAL);
        }
        GF_TOKEN(f, "scope = ledger.transfer");
        (void)gf_batch(f, REVERSE, NULL, NULL);
        if (all[i] == LED_BRIDGES_ALLOW) {
            gf_expect_ok(f);
        } else {
            gf_expect(f,
                      all[i] == LED_BRIDGES_DISABLED ? LED_REASON_POLICY_DENIED
                                                     : LED_REASON_CAP_INVALID,
                      0, "kind");
        }
        (void)gf_batch(f, TRANSFER, NULL, NULL);
        gf_expect_ok(f);
        assert_null(f->w.originals);
        assert_int_equal(led_guard_bridges(f->guard), all[i]);
        gf_close(f);
    }
}

static void test_guard__bridges_reloaded__only_tighten(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_REQUIRE_CAP}, false);
    static const char disabled[] = "v = 1\nreversible_bridges = \"disabled\"\n";
    static const char silent[] = "v = 1\n";
    struct led_policy *p = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(led_guard_set_bridges(f->guard, LED_BRIDGES_ALLOW, &err), RON_DENIED);
    assert_int_equal(led_guard_bridges(f->guard), LED_BRIDGES_REQUIRE_CAP);
    assert_int_equal(led_policy_parse("p", disabled, strlen(disabled), &p, &err), RON_OK);
    assert_int_equal(led_guard_set_policy(f->guard, p, &err), RON_OK);
    assert_int_equal(led_guard_bridges(f->guard), LED_BRIDGES_DISABLED);
    assert_int_equal(led_policy_parse("p", silent, strlen(silent), &p, &err), RON_OK);
    assert_int_equal(led_guard_set_policy(f->guard, p, &err), RON_DENIED);
    assert_int_equal(led_guard_bridges(f->guard), LED_BRIDGES_DISABLED);
    /* What does not matter may change: the tighter of both holds. */
    assert_int_equal(led_guard_set_bridges(f->guard, LED_BRIDGES_DISABLED, &err), RON_OK);
    assert_int_equal(led_guard_set_policy(f->guard, p, &err), RON_OK);
    assert_int_equal(led_guard_bridges(f->guard), LED_BRIDGES_DISABLED);
    gf_close(f);
}

static void test_guard__labels__are_no_tokens(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct ron_cap_keys *keys = ron_cap_ring_get(&f->ring, NULL);
    struct ron_buf out;
    char more[512];

    (void)state;
    /* The short form of a token without caveats fits a label. */
    ron_buf_init_over(&out, f->token.s, sizeof f->token.s);
    assert_int_equal(ron_cap_mint(keys, ron_env_linux(),
                                  &(struct ron_cap_mint_opts){.form = RON_CAP_V2}, &out, NULL),
                     RON_OK);
    (void)ron_buf_text(&out);
    ron_cap_keys_unref(keys);
    assert_true(strlen(f->token.s) <= LED_MEMO_MAX - 4);
    (void)snprintf(more, sizeof more, ",\"to\":\"b\",\"memo\":\"my %.252s\"", f->token.s);
    (void)gf_batch(f, TRANSFER, gf_entry("Transfer", "a", "1", more), NULL);
    gf_expect(f, LED_REASON_INVALID, 1, "");
    assert_null(strstr(f->w.refusals.items[0].detail, f->token.s));
    gf_close(f);
}

static void test_guard__require_kid__names_the_key_of_the_token(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){.require_kid = true}, false);
    struct ron_cap_keys *keys = ron_cap_ring_get(&f->ring, NULL);
    struct ron_cap_key_info info = ron_cap_keys_info(keys, 0);
    char json[1024];

    (void)state;
    ron_cap_keys_unref(keys);
    GF_TOKEN(f, "aud = ledger");
    (void)gf_batch(f, MINT, NULL, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "kid");
    (void)snprintf(
        json, sizeof json,
        "{\"batch\":[{\"id\":\"i\",\"ts\":" GF_TS
        ",\"kind\":\"Mint\",\"account\":\"a\",\"amount\":\"1\",\"nonce\":"
        "\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"kid\":\"%s\",\"capability_ref\":\"c\"}]}",
        info.id);
    (void)gf_json(f, json);
    gf_expect_ok(f);
    gf_close(f);
}

/* An import of one or two entries. */
static void import_of(struct gf *f, const char *a, const char *b)
{
    gf_batch(f, a, b, NULL)->flags = LED_APPLY_IMPORT;
}

static void test_guard__import__needs_its_scope_and_that_of_each_kind(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){.bridges = LED_BRIDGES_REQUIRE_CAP}, false);

    (void)state;
    GF_TOKEN(f, "scope = ledger.mint,ledger.transfer");
    import_of(f, MINT, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, "");
    GF_TOKEN(f, "scope = ledger.import");
    import_of(f, MINT, NULL);
    gf_expect(f, LED_REASON_CAP_INVALID, 0, ""); /* may not send entries at all */
    GF_TOKEN(f, "scope = ledger.import,ledger.transfer");
    import_of(f, TRANSFER, MINT);
    gf_expect(f, LED_REASON_CAP_INVALID, 1, "kind");
    import_of(f, TRANSFER, REVERSE);
    gf_expect(f, LED_REASON_CAP_INVALID, 1, "kind");
    import_of(f, TRANSFER, NULL);
    gf_expect_ok(f);
    GF_TOKEN(f, "scope = ledger.import,ledger.mint,ledger.reverse");
    import_of(f, MINT, REVERSE);
    gf_expect_ok(f);
    gf_close(f);
}

static void test_guard__import__lifts_neither_policy_nor_governance(void **state)
{
    static const char frozen[] = "v = 1\nfreeze = [\"t:demo/u:bob\"]\n";
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    struct led_policy *p = NULL;

    (void)state;
    assert_int_equal(led_policy_parse("p", frozen, strlen(frozen), &p, NULL), RON_OK);
    assert_int_equal(led_guard_set_policy(f->guard, p, NULL), RON_OK);
    GF_TOKEN(f, "aud = ledger");
    import_of(f, TRANSFER, NULL);
    gf_expect(f, LED_REASON_POLICY_DENIED, 0, "to");
    import_of(f, REVERSE, NULL);
    gf_expect(f, LED_REASON_POLICY_DENIED, 0, "kind"); /* reversals are disabled */
    import_of(f, MINT, NULL);
    gf_expect_ok(f);
    assert_int_equal(f->w.flags & LED_APPLY_REVERSIBLE, 0);
    gf_close(f);
}

static void test_guard__import__only_of_bound_peers(void **state)
{
    const uint32_t uids[] = {7};
    struct gf *f = gf_open((struct led_guard_opts){.bound_scopes = led_scopes_privileged(),
                                                   .bound_uids = uids,
                                                   .bound_uid_count = RON_ARRAY_LEN(uids)},
                           false);

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    import_of(f, TRANSFER, NULL);
    gf_expect(f, LED_REASON_UNAUTH, 0, "");
    import_of(f, TRANSFER, NULL);
    f->w.caller.peer_scopes = led_guard_peer_scopes(f->guard, &uids[0], NULL);
    gf_expect_ok(f);
    gf_close(f);
}

static void test_guard__the_ledgers_own_entries__are_no_callers(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){0}, false);
    const char *expire = gf_entry("Expire", "a", "1", ",\"ref\":\"h\"");
    const char *named = "{\"batch\":[{\"id\":\"expire:5\",\"ts\":" GF_TS
                        ",\"kind\":\"Mint\",\"account\":\"a\",\"amount\":\"1\","
                        "\"nonce\":\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,\"kid\":\"k1\","
                        "\"capability_ref\":\"c1\"}]}";

    (void)state;
    GF_TOKEN(f, "aud = ledger");
    for (unsigned flags = 0; flags <= LED_APPLY_IMPORT; flags += LED_APPLY_IMPORT) {
        gf_batch(f, expire, NULL, NULL)->flags = flags;
        gf_expect(f, LED_REASON_UNKNOWN_KIND, 0, "kind");
        gf_json(f, named)->flags = flags;
        gf_expect(f, LED_REASON_INVALID, 0, "id");
    }
    gf_close(f);
}

static void test_guard__routes__scope_account_and_peer(void **state)
{
    struct gf *f =
        gf_open((struct led_guard_opts){.bound_scopes = LED_SCOPE_BIT(LED_SCOPE_ADMIN)}, false);
    struct ron_str none = {0};
    struct led_refusal r;
    struct led_auth *auth = NULL;
    struct led_work *w;

    (void)state;
    GF_TOKEN(f, "aud = ledger", "scope = ledger.read,ledger.admin", "account = t:demo");
    w = gf_json(f, "");
    assert_int_equal(led_guard_open(f->guard, &w->caller, GF_NOW_MS, &w->arena, &auth, &r),
                     LED_VERDICT_OK);
    assert_true(led_guard_allows(f->guard, &w->caller, auth, LED_SCOPE_READ, STR("t:demo/x"), none,
                                 GF_NOW_MS, &r));
    assert_false(led_guard_allows(f->guard, &w->caller, auth, LED_SCOPE_READ, STR("t:other"), none,
                                  GF_NOW_MS, &r));
    assert_int_equal(r.reason, LED_REASON_CAP_INVALID);
    assert_false(led_guard_allows(f->guard, &w->caller, auth, LED_SCOPE_READ, none, none, GF_NOW_MS,
                                  &r)); /* all accounts: more than the token covers */
    assert_false(led_guard_allows(f->guard, &w->caller, auth, LED_SCOPE_FREEZE, STR("t:demo"), none,
                                  GF_NOW_MS, &r));
    assert_int_equal(r.reason, LED_REASON_CAP_INVALID);
    assert_false(led_guard_allows(f->guard, &w->caller, auth, LED_SCOPE_ADMIN, STR("t:demo"), none,
                                  GF_NOW_MS, &r));
    assert_int_equal(r.reason, LED_REASON_UNAUTH);
    assert_int_equal(gf_count(f, "auth_failures_total", "tcp"), 4);
    led_guard_count_refusal(f->guard, LED_REASON_UNAUTH);
    assert_int_equal(gf_count(f, "rejected_total", "unauth"), 1);
    gf_close(f);
}

static void test_guard__remote_keys__a_yes_is_believed_for_its_time(void **state)
{
    struct gf *f = gf_open((struct led_guard_opts){.kms_ttl_ms = 1000}, true);
    struct led_work *w;

    (void)state;
    GF_TOKEN(f, "aud = ledger", "exp = 1800000010");
    w = gf_batch(f, TRANSFER, NULL, NULL);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS), LED_VERDICT_ASK);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS), LED_VERDICT_ASK);
    assert_false(w->auth->vouched);
    led_guard_vouch(f->guard, &w->caller, w->auth, GF_NOW_MS);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS), LED_VERDICT_OK);
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS + 999), LED_VERDICT_OK);
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS + 1000), LED_VERDICT_ASK);
    f->token = cap_narrowed(f->token.s, "max = 1"); /* another token */
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS), LED_VERDICT_ASK);
    (void)gf_batch(f, TRANSFER, NULL, NULL);
    assert_int_equal(led_guard_admit(f->guard, w, GF_NOW_MS + 20000), LED_VERDICT_REFUSED);
    assert_int_equal(w->refusals.items[0].reason, LED_REASON_UNAUTH); /* expired: nobody is asked */
    gf_close(f);
}

static void test_guard__scopes__have_names(void **state)
{
    (void)state;
    for (int i = 0; i < LED_SCOPE_COUNT; i++) {
        const char *name = led_scope_name((enum led_scope)i);

        assert_int_equal(led_scope_parse(STR(name)), i);
        assert_true(ron_cap_scope_valid(STR(name)));
    }
    assert_int_equal(led_scope_parse(STR("ledger")), LED_SCOPE_COUNT);
    assert_true(led_scope_privileged(LED_SCOPE_MINT) && led_scope_privileged(LED_SCOPE_REVERSE) &&
                led_scope_privileged(LED_SCOPE_FREEZE) && led_scope_privileged(LED_SCOPE_ADMIN) &&
                led_scope_privileged(LED_SCOPE_IMPORT));
    assert_false(led_scope_privileged(LED_SCOPE_TRANSFER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__no_usable_token__unauth_and_nothing_of_the_body_is_told),
        cmocka_unit_test(test_guard__token_for_others__cap_invalid_before_parsing),
        cmocka_unit_test(test_guard__scope__each_kind_needs_its_own),
        cmocka_unit_test(test_guard__caveats__hold_for_every_entry),
        cmocka_unit_test(test_guard__bound_scopes__only_listed_peers),
        cmocka_unit_test(test_guard__bound_without_a_list__nobody),
        cmocka_unit_test(test_guard__bad_options__say_what_is_wrong),
        cmocka_unit_test(test_guard__reversals__as_governance_says),
        cmocka_unit_test(test_guard__bridges_reloaded__only_tighten),
        cmocka_unit_test(test_guard__labels__are_no_tokens),
        cmocka_unit_test(test_guard__require_kid__names_the_key_of_the_token),
        cmocka_unit_test(test_guard__import__needs_its_scope_and_that_of_each_kind),
        cmocka_unit_test(test_guard__import__lifts_neither_policy_nor_governance),
        cmocka_unit_test(test_guard__import__only_of_bound_peers),
        cmocka_unit_test(test_guard__the_ledgers_own_entries__are_no_callers),
        cmocka_unit_test(test_guard__routes__scope_account_and_peer),
        cmocka_unit_test(test_guard__remote_keys__a_yes_is_believed_for_its_time),
        cmocka_unit_test(test_guard__scopes__have_names),
    };

    return cmocka_run_group_tests_name("ledger.guard", tests, NULL, NULL);
}
