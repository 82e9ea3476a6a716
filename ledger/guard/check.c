/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/check.c - what a caller may do: routes, admission of a batch, every entry of it. The
 * contract is in guard.h.
 *
 * What does not change from entry to entry (signature, audience, scopes of the token, scopes of the
 * peer) was found out once; per entry there remain a bit for its kind, and the caveats about
 * account, asset, amount and tenant if the token has any. */
#include <stdio.h>
#include <string.h>

#include "ledger/guard/priv.h"
#include "ledger/work/work.h"
#include "ron/base/assert.h"

/* Caveats about the request as a whole, and about each entry. Scopes are judged apart. */
#define WHOLE_KINDS                                                                                \
    (RON_CAP_KIND_BIT(RON_CAP_KIND_AUD) | RON_CAP_KIND_BIT(RON_CAP_KIND_EXP) |                     \
     RON_CAP_KIND_BIT(RON_CAP_KIND_AMNESIA))
#define ENTRY_KINDS                                                                                \
    (RON_CAP_KIND_BIT(RON_CAP_KIND_ACCOUNT) | RON_CAP_KIND_BIT(RON_CAP_KIND_ASSET) |               \
     RON_CAP_KIND_BIT(RON_CAP_KIND_MAX) | RON_CAP_KIND_BIT(RON_CAP_KIND_TENANT))

_Static_assert((WHOLE_KINDS | ENTRY_KINDS | RON_CAP_KIND_BIT(RON_CAP_KIND_SCOPE)) ==
                   RON_CAP_KINDS_ALL,
               "every kind of caveat is judged somewhere");

/* The scopes of which one is needed to send entries. */
static const uint32_t ingest_scopes =
    LED_SCOPE_BIT(LED_SCOPE_MINT) | LED_SCOPE_BIT(LED_SCOPE_BURN) |
    LED_SCOPE_BIT(LED_SCOPE_TRANSFER) | LED_SCOPE_BIT(LED_SCOPE_HOLD) |
    LED_SCOPE_BIT(LED_SCOPE_REVERSE);

static const struct ron_str audience = {.ptr = "ledger", .len = 6};

void led_guard_count_auth(struct led_guard *g, const struct led_caller *caller)
{
    struct ron_series *s = caller->peer < LED_PEER_COUNT ? g->auth_failures[caller->peer] : NULL;

    if (s != NULL) {
        ron_counter_add(s, 1);
    }
}

void led_guard_count_refusal(struct led_guard *g, enum led_reason reason)
{
    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    RON_ASSERT((unsigned)reason < LED_REASON_COUNT);
    if (g->rejected[reason] != NULL) {
        ron_counter_add(g->rejected[reason], 1);
    }
}

bool led_guard_asks_policy(const struct led_guard *g)
{
    return g->remote_policy;
}

bool led_guard_asks_wallet(const struct led_guard *g)
{
    return g->remote_wallet;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse_why(enum ron_cap_why why, const char *member, struct led_refusal *ret)
{
    led_refuse(ret, ron_cap_why_http(why) == 401 ? LED_REASON_UNAUTH : LED_REASON_CAP_INVALID,
               member, ron_cap_why_doc(why));
}

/* Whether token and peer have one of these scopes. Each is looked for in the token once, and only
 * until one is found. */
static bool finds_scope(struct led_auth *auth, uint32_t wanted)
{
    bool found = (auth->token_scopes & auth->peer_scopes & wanted) != 0;
    uint32_t left = wanted & ~auth->asked_scopes;

    for (; !found && left != 0; left &= left - 1) {
        enum led_scope scope = (enum led_scope)__builtin_ctz(left);
        const char *name = led_scope_name(scope);
        struct ron_cap_request q = {.scope = {.ptr = name, .len = strlen(name)}};

        auth->asked_scopes |= LED_SCOPE_BIT(scope);
        if (ron_cap_grant_allows(&auth->grant, RON_CAP_KIND_BIT(RON_CAP_KIND_SCOPE), &q) ==
            RON_CAP_OK) {
            auth->token_scopes |= LED_SCOPE_BIT(scope);
            found = (auth->peer_scopes & LED_SCOPE_BIT(scope)) != 0;
        }
    }
    return found;
}

/* One of the scopes in `wanted` (its lowest stands in the message) by token and peer. */
static bool has_scope(struct led_auth *auth, uint32_t wanted, const char *member,
                      struct led_refusal *ret)
{
    enum led_scope named = (enum led_scope)__builtin_ctz(wanted);
    char text[72];

    if (finds_scope(auth, wanted)) {
        return true;
    }
    if ((auth->token_scopes & wanted) == 0) {
        (void)snprintf(text, sizeof text, "the capability does not cover %s",
                       led_scope_name(named));
        led_refuse(ret, LED_REASON_CAP_INVALID, member, text);
    } else {
        (void)snprintf(text, sizeof text, "%s is bound to other peers", led_scope_name(named));
        led_refuse(ret, LED_REASON_UNAUTH, member, text);
    }
    return false;
}

/* Audience, expiry, amnesia, and the caveats that a token must have. */
static bool allows_whole(const struct led_guard *g, const struct led_auth *auth, uint64_t now_ms,
                         struct led_refusal *ret)
{
    struct ron_cap_request q = {
        .audience = audience, .now_ms = now_ms, .amnesia = g->amnesia, .must_carry = g->must_carry};
    enum ron_cap_why why = ron_cap_grant_allows(&auth->grant, WHOLE_KINDS, &q);

    if (why != RON_CAP_OK) {
        refuse_why(why, "", ret);
    }
    return why == RON_CAP_OK;
}

/* The tenant in an account's name: `t:NAME`, alone or with more behind ':' or '/'. */
static struct ron_str tenant_of(struct ron_str account)
{
    size_t len = 2;

    if (account.len < 3 || account.ptr[0] != 't' || account.ptr[1] != ':') {
        return (struct ron_str){0};
    }
    while (len < account.len && account.ptr[len] != '/' && account.ptr[len] != ':') {
        len++;
    }
    return (struct ron_str){account.ptr + 2, len - 2};
}

/* ---- routes ---------------------------------------------------------------------------------- */

bool led_guard_allows(struct led_guard *g, const struct led_caller *caller, struct led_auth *auth,
                      enum led_scope scope, struct ron_str account, struct ron_str asset,
                      uint64_t now_ms, struct led_refusal *ret_refusal)
{
    struct ron_cap_request q = {.accounts = &account,
                                .account_count = account.len != 0,
                                .asset = asset,
                                .tenant = tenant_of(account)};
    enum ron_cap_why why;
    bool allowed;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    RON_ASSERT(auth->vouched);
    allowed = allows_whole(g, auth, now_ms, ret_refusal) &&
              has_scope(auth, LED_SCOPE_BIT(scope), "", ret_refusal);
    if (allowed) {
        why = ron_cap_grant_allows(&auth->grant, ENTRY_KINDS, &q);
        allowed = why == RON_CAP_OK;
        if (!allowed) {
            refuse_why(why, "", ret_refusal);
        }
    }
    if (!allowed) {
        led_guard_count_auth(g, caller);
    }
    return allowed;
}

/* ---- a batch --------------------------------------------------------------------------------- */

enum led_verdict led_guard_admit(struct led_guard *g, struct led_work *w, uint64_t now_ms)
{
    struct led_refusal refusal = {0};
    bool import = (w->flags & LED_APPLY_IMPORT) != 0;
    enum led_verdict verdict = LED_VERDICT_OK;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    if (w->auth == NULL) {
        verdict = led_guard_open(g, &w->caller, now_ms, &w->arena, &w->auth, &refusal);
    } else if (!w->auth->vouched) {
        verdict = LED_VERDICT_ASK;
    }
    RON_ASSERT(verdict != LED_VERDICT_OK || w->auth != NULL);
    if (verdict == LED_VERDICT_OK &&
        (!allows_whole(g, w->auth, now_ms, &refusal) ||
         (import && !has_scope(w->auth, LED_SCOPE_BIT(LED_SCOPE_IMPORT), "", &refusal)) ||
         !has_scope(w->auth, ingest_scopes, "", &refusal))) {
        led_guard_count_auth(g, &w->caller);
        verdict = LED_VERDICT_REFUSED;
    }
    if (verdict == LED_VERDICT_REFUSED) {
        led_work_refuse(w, refusal.reason, refusal.member, refusal.detail);
    }
    return verdict;
}

/* A token in a text that the journal would keep for ever (G5). */
static bool holds_token(struct ron_str text, struct ron_str token)
{
    return text.len >= token.len && memmem(text.ptr, text.len, token.ptr, token.len) != NULL;
}

static bool check_labels(const struct led_guard *g, const struct led_work *w,
                         const struct led_entry *e, struct led_refusal *ret)
{
    struct ron_str token = w->caller.token;

    if (g->require_kid && !ron_str_is(e->kid, w->auth->info.key_id)) {
        led_refuse(ret, LED_REASON_CAP_INVALID, "kid", "must name the key of the capability");
        return false;
    }
    /* Longer tokens fit into no member. */
    if (token.len <= LED_MEMO_MAX &&
        (holds_token(e->capability_ref, token) || holds_token(e->kid, token) ||
         holds_token(e->memo, token) || holds_token(e->id, token) || holds_token(e->ref, token) ||
         holds_token(e->account, token) || holds_token(e->to, token))) {
        led_refuse(ret, LED_REASON_INVALID, "", "an entry must not hold a capability");
        return false;
    }
    return true;
}

static bool check_caveats(const struct led_auth *auth, const struct led_entry *e,
                          struct led_refusal *ret)
{
    static const struct {
        enum ron_cap_why why;
        const char *member;
    } members[] = {{RON_CAP_ACCOUNT, "account"},
                   {RON_CAP_TENANT, "account"},
                   {RON_CAP_ASSET, "asset"},
                   {RON_CAP_AMOUNT, "amount"}};
    struct ron_cap_request q = {
        .accounts = &e->account, .account_count = 1, .asset = e->asset, .amount = e->amount};
    const char *member = "";
    enum ron_cap_why why;

    if ((auth->grant.kinds & RON_CAP_KIND_BIT(RON_CAP_KIND_TENANT)) != 0) {
        q.tenant = tenant_of(e->account);
    }
    why = ron_cap_grant_allows(&auth->grant, ENTRY_KINDS, &q);
    if (why == RON_CAP_OK) {
        return true;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(members); i++) {
        member = members[i].why == why ? members[i].member : member;
    }
    refuse_why(why, member, ret);
    return false;
}

/* The scopes of which one allows this kind; 0: nobody may. */
static uint32_t scopes_for(uint8_t kind, enum led_bridges bridges)
{
    if (kind == LED_KIND_REVERSE) {
        return bridges == LED_BRIDGES_DISABLED ? 0
               : bridges == LED_BRIDGES_ALLOW
                   ? LED_SCOPE_BIT(LED_SCOPE_REVERSE) | LED_SCOPE_BIT(LED_SCOPE_TRANSFER)
                   : LED_SCOPE_BIT(LED_SCOPE_REVERSE);
    }
    return LED_SCOPE_BIT(led_scope_of_kind(kind));
}

static bool check_entry(const struct led_guard *g, const struct led_work *w,
                        const struct led_entry *e, uint32_t scopes, struct led_refusal *ret)
{
    if (scopes == 0) {
        led_refuse(ret, LED_REASON_POLICY_DENIED, "kind", "reversals are disabled");
        return false;
    }
    return has_scope(w->auth, scopes, "kind", ret) &&
           ((w->auth->grant.kinds & ENTRY_KINDS) == 0 || check_caveats(w->auth, e, ret)) &&
           check_labels(g, w, e, ret);
}

static bool check_policy(struct led_guard *g, struct led_work *w)
{
    struct led_policy *policy = led_guard_policy(g);
    bool obeys = led_policy_check(policy, w->batch.entries, w->batch.count, &w->refusals);

    led_policy_unref(policy);
    return obeys;
}

enum led_verdict led_guard_check(struct led_guard *g, struct led_work *w)
{
    enum led_bridges bridges = led_guard_bridges(g);
    bool auth_failed = false;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    RON_ASSERT(w->auth != NULL && w->auth->vouched);
    w->refusals.count = 0;
    for (size_t i = 0; i < w->batch.count; i++) {
        const struct led_entry *e = &w->batch.entries[i];
        struct led_refusal refusal;

        if (!check_entry(g, w, e, scopes_for(e->kind, bridges), &refusal)) {
            led_refusals_add(&w->refusals, &refusal, (uint32_t)i);
            auth_failed = auth_failed || refusal.reason == LED_REASON_UNAUTH ||
                          refusal.reason == LED_REASON_CAP_INVALID;
        }
    }
    if (auth_failed) {
        led_guard_count_auth(g, &w->caller);
    }
    if (w->refusals.count > 0 || !check_policy(g, w)) {
        w->result = LED_RESULT_REFUSED;
        return LED_VERDICT_REFUSED;
    }
    if (bridges != LED_BRIDGES_DISABLED) {
        w->flags |= LED_APPLY_REVERSIBLE;
    }
    return LED_VERDICT_OK;
}
