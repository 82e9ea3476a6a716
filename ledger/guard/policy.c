/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/policy.c - life of a policy and what it says of a batch; the contract is in
 * policy.h, the file's reader in policy_read.c. */
#include "ledger/guard/policy.h"

#include <stdio.h>
#include <string.h>

#include "ledger/guard/policy_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static const char *const bridge_words[] = {
#define X(name, word, doc) word,
    LED_BRIDGES_TABLE(X)
#undef X
};

const char *led_bridges_name(enum led_bridges bridges)
{
    RON_ASSERT((unsigned)bridges < LED_BRIDGES_COUNT);
    return bridge_words[bridges];
}

enum led_bridges led_bridges_parse(struct ron_str word)
{
    size_t i = 0;

    while (i < LED_BRIDGES_COUNT && !ron_str_is(word, bridge_words[i])) {
        i++;
    }
    return (enum led_bridges)i;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led__policy_new(size_t arena_size, struct led_policy **ret_policy)
{
    struct led_policy *p = ron_alloc_zero(sizeof *p);

    if (p == NULL) {
        return RON_NOMEM;
    }
    p->magic = LED_POLICY_MAGIC;
    ron_au32_store(&p->refs, 1);
    p->bridges = LED_BRIDGES_ALLOW;
    p->tag_count = 1;
    (void)snprintf(p->tags[POLICY_TAG_NONE], sizeof p->tags[0], "none");
    for (size_t i = 0; i < RON_ARRAY_LEN(p->passes); i++) {
        p->passes[i] = UINT64_C(1) << i;
    }
    if (arena_size > 0 && ron_arena_init(&p->arena, arena_size) != RON_OK) {
        ron_free(p);
        return RON_NOMEM;
    }
    *ret_policy = p;
    return RON_OK;
}

enum ron_rc led_policy_empty(struct led_policy **ret_policy)
{
    struct led_policy *p = NULL;

    RON_TRY(led__policy_new(0, &p));
    p->idle = true;
    *ret_policy = p;
    return RON_OK;
}

struct led_policy *led_policy_ref(struct led_policy *p)
{
    RON_CHECK_MAGIC(p, LED_POLICY_MAGIC);
    (void)ron_au32_add(&p->refs, 1);
    return p;
}

void led_policy_unref(struct led_policy *p)
{
    if (p == NULL) {
        return;
    }
    RON_CHECK_MAGIC(p, LED_POLICY_MAGIC);
    if (ron_au32_add(&p->refs, UINT32_MAX) == 1) { /* minus one */
        p->magic = 0;
        ron_arena_done(&p->arena);
        ron_free(p);
    }
}

/* ---- limits (P3) ----------------------------------------------------------------------------- */

struct limit_search {
    const struct led_policy *policy;
    const struct led_entry *entry;
    const struct policy_limit *found;
};

static bool see_limit(void *arg, const struct policy_rule *rule)
{
    struct limit_search *s = arg;
    const struct policy_limit *l = &s->policy->limits[rule->value];

    if ((l->kinds >> s->entry->kind & 1) == 0 ||
        (l->asset.len != 0 && (l->asset.len != s->entry->asset.len ||
                               memcmp(l->asset.ptr, s->entry->asset.ptr, l->asset.len) != 0))) {
        return false;
    }
    s->found = l;
    return true;
}

static bool no(struct led_refusal *ret, const char *member, const char *detail)
{
    led_refuse(ret, LED_REASON_POLICY_DENIED, member, detail);
    return false;
}

static bool check_limit(const struct led_policy *p, const struct led_entry *e,
                        struct led_refusal *ret)
{
    struct limit_search s = {.policy = p, .entry = e};

    (void)led__policy_tree_walk(&p->limit_tree, e->account, see_limit, &s);
    if (s.found == NULL) {
        return !p->default_deny || no(ret, "", "no rule of the policy allows this entry");
    }
    if (s.found->deny) {
        return no(ret, "kind", "the policy denies this kind for this account and asset");
    }
    if (s.found->has_max && ron_money_cmp(e->amount, s.found->max) > 0) {
        return no(ret, "amount", "above the policy's ceiling for one entry");
    }
    return true;
}

/* ---- freezes and residency ------------------------------------------------------------------- */

bool led_policy_frozen(const struct led_policy *p, struct ron_str account)
{
    return led__policy_tree_find(&p->frozen, account) != NULL;
}

static uint32_t tag_of(const struct led_policy *p, struct ron_str account)
{
    const struct policy_rule *rule = led__policy_tree_find(&p->residency, account);

    return rule == NULL ? POLICY_TAG_NONE : rule->value;
}

const char *led_policy_residency(const struct led_policy *p, struct ron_str account)
{
    return p->tags[tag_of(p, account)];
}

static bool check_freeze(const struct led_policy *p, const struct led_entry *e,
                         struct led_refusal *ret)
{
    if (e->kind == LED_KIND_REVERSE || e->kind == LED_KIND_EXPIRE) {
        return true; /* governance undoes what a frozen account did */
    }
    if (led_policy_frozen(p, e->account)) {
        return no(ret, "account", "the account is frozen");
    }
    return e->to.len == 0 || !led_policy_frozen(p, e->to) || no(ret, "to", "the account is frozen");
}

static bool check_residency(const struct led_policy *p, const struct led_entry *e,
                            struct led_refusal *ret)
{
    if (e->to.len == 0 || (p->passes[tag_of(p, e->account)] >> tag_of(p, e->to) & 1) != 0) {
        return true;
    }
    return no(ret, "to", "the accounts have different residencies");
}

/* Debits and credits of one asset in a batch: what is taken at one place arrives at another, though
 * no entry names both. */
struct flow {
    struct ron_str asset;
    uint64_t from; /* tags of debited accounts */
};

enum {
    FLOWS_MAX = 16
}; /* assets of one batch; those beyond share the last, which only denies more */

static struct flow *flow_of(struct flow *flows, size_t *count, struct ron_str asset)
{
    for (size_t i = 0; i < *count; i++) {
        if (flows[i].asset.len == asset.len &&
            memcmp(flows[i].asset.ptr, asset.ptr, asset.len) == 0) {
            return &flows[i];
        }
    }
    if (*count == FLOWS_MAX) {
        return &flows[FLOWS_MAX - 1];
    }
    flows[*count] = (struct flow){.asset = asset};
    return &flows[(*count)++];
}

static bool check_flows(const struct led_policy *p, const struct led_entry *entries, size_t count,
                        struct led_refusals *refusals)
{
    bool obeys = true;
    struct flow flows[FLOWS_MAX];
    size_t flow_count = 0;
    struct led_refusal refusal;

    for (size_t i = 0; i < count; i++) {
        if (entries[i].kind == LED_KIND_DEBIT) {
            flow_of(flows, &flow_count, entries[i].asset)->from |= UINT64_C(1)
                                                                   << tag_of(p, entries[i].account);
        }
    }
    for (size_t i = 0; flow_count > 0 && i < count; i++) {
        const struct led_entry *e = &entries[i];
        uint64_t from =
            e->kind == LED_KIND_CREDIT ? flow_of(flows, &flow_count, e->asset)->from : 0;

        for (uint32_t tag = 0; from >> tag != 0 && tag < p->tag_count; tag++) {
            if ((from >> tag & 1) != 0 && (p->passes[tag] >> tag_of(p, e->account) & 1) == 0) {
                obeys = no(&refusal, "account",
                           "debited and credited accounts have different residencies");
                led_refusals_add(refusals, &refusal, (uint32_t)i);
                break;
            }
        }
    }
    return obeys;
}

/* ---- a batch --------------------------------------------------------------------------------- */

bool led_policy_check(const struct led_policy *p, const struct led_entry *entries, size_t count,
                      struct led_refusals *refusals)
{
    struct led_refusal refusal;
    bool obeys = true;

    RON_CHECK_MAGIC(p, LED_POLICY_MAGIC);
    if (p->idle) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const struct led_entry *e = &entries[i];

        if (!check_freeze(p, e, &refusal) || !check_limit(p, e, &refusal) ||
            !check_residency(p, e, &refusal)) {
            led_refusals_add(refusals, &refusal, (uint32_t)i);
            obeys = false;
        }
    }
    if (obeys && p->residency.rule_count > 0) {
        obeys = check_flows(p, entries, count, refusals);
    }
    return obeys;
}

enum led_bridges led_policy_bridges(const struct led_policy *p)
{
    RON_CHECK_MAGIC(p, LED_POLICY_MAGIC);
    return p->bridges;
}

void led_policy_stats(const struct led_policy *p, struct led_policy_stats *ret_stats)
{
    RON_CHECK_MAGIC(p, LED_POLICY_MAGIC);
    *ret_stats = (struct led_policy_stats){.limits = p->limit_count,
                                           .frozen = p->frozen.rule_count,
                                           .residencies = p->residency.rule_count,
                                           .passes = p->pass_count,
                                           .digest = p->digest};
}
