/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_led_policy.c - any bytes as a policy file.
 *
 * Oracle: a refusal names a place or a limit; a policy that was read finds for every account, near
 * each of its own prefixes, the rule that a search through all of them finds; entries are judged
 * the same twice, and never by a policy that has nothing to say. */
#include <stdint.h>
#include <string.h>

#include "ledger/guard/policy_priv.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The longest rule that covers the account, by looking at all. */
static const struct policy_rule *search(const struct policy_tree *t, struct ron_str account)
{
    const struct policy_rule *best = NULL;

    for (size_t i = 0; i < t->rule_count; i++) {
        const struct policy_rule *r = &t->rules[i];

        if (r->prefix.len <= account.len &&
            memcmp(r->prefix.ptr, account.ptr, r->prefix.len) == 0 &&
            (r->open || r->prefix.len == account.len || account.ptr[r->prefix.len] == ':' ||
             account.ptr[r->prefix.len] == '/') &&
            (best == NULL || r->prefix.len > best->prefix.len ||
             (r->prefix.len == best->prefix.len && r->rank < best->rank))) {
            best = r;
        }
    }
    return best;
}

static void judge(const struct led_policy *p, struct ron_str account)
{
    static const char *const assets[] = {"roc", "usd"};

    for (uint8_t kind = LED_KIND_MINT; kind <= LED_KIND_REVERSE; kind++) {
        struct led_refusals first = {0};
        struct led_refusals second = {0};
        struct led_entry list[2] = {{.id = {"i", 1},
                                     .account = account,
                                     .asset = {assets[kind & 1], 3},
                                     .amount = ron_money_of(kind * 1000u),
                                     .kind = kind}};
        bool obeys;

        if (led_kind_takes_to(kind)) {
            list[0].to = (struct ron_str){"t:us", 4};
        }
        list[1] = list[0];
        list[1].kind = LED_KIND_CREDIT;
        list[1].to = (struct ron_str){0};
        obeys = led_policy_check(p, list, 2, &first);
        RON_ASSERT(obeys == (first.count == 0));
        RON_ASSERT(obeys || !p->idle);
        RON_ASSERT(led_policy_check(p, list, 2, &second) == obeys);
        RON_ASSERT(second.count == first.count);
        RON_ASSERT(!led_policy_frozen(p, account) || kind == LED_KIND_REVERSE || !obeys);
    }
}

static void probe_near(const struct led_policy *p, const struct policy_tree *t)
{
    static const char *const tails[] = {"", "/x", ":y", "z"};

    for (size_t i = 0; i < t->rule_count && i < 64; i++) {
        for (size_t k = 0; k < RON_ARRAY_LEN(tails); k++) {
            char text[LED_ACCOUNT_MAX + 8];
            struct ron_str account = {text, t->rules[i].prefix.len + strlen(tails[k])};

            if (account.len == 0) {
                continue;
            }
            memcpy(text, t->rules[i].prefix.ptr, t->rules[i].prefix.len);
            memcpy(text + t->rules[i].prefix.len, tails[k], strlen(tails[k]));
            RON_ASSERT(led__policy_tree_find(t, account) == search(t, account));
            judge(p, account);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct led_policy *p = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = led_policy_parse("f", (const char *)data, size, &p, &err);

    if (rc != RON_OK) {
        RON_ASSERT(p == NULL);
        RON_ASSERT(rc == RON_INVALID || rc == RON_LIMIT);
        RON_ASSERT(err.msg[0] != '\0');
        RON_ASSERT(rc == RON_LIMIT || strncmp(err.msg, "f:", 2) == 0);
        return 0;
    }
    probe_near(p, &p->limit_tree);
    probe_near(p, &p->frozen);
    probe_near(p, &p->residency);
    judge(p, (struct ron_str){"t:eu/u:alice", 12});
    led_policy_unref(p);
    return 0;
}
