/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/policy_tree.c - rules by prefix of an account; policy_priv.h draws the idea. */
#include <stdlib.h>
#include <string.h>

#include "ron/base/str.h"

#include "ledger/guard/policy_priv.h"

static int order_rules(const void *a, const void *b)
{
    const struct policy_rule *x = a;
    const struct policy_rule *y = b;
    int cmp = ron_str_compare(x->prefix, y->prefix);

    if (cmp != 0) {
        return cmp;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void led__policy_tree_build(struct policy_tree *tree)
{
    if (tree->rule_count > 1) {
        qsort(tree->rules, tree->rule_count, sizeof *tree->rules, order_rules);
    }
    tree->node_count = 0;
    for (size_t i = 0; i < tree->rule_count; i++) {
        struct policy_node *last =
            tree->node_count == 0 ? NULL : &tree->nodes[tree->node_count - 1];

        if (last != NULL && ron_str_compare(last->prefix, tree->rules[i].prefix) == 0) {
            last->count++;
            continue;
        }
        /* The parent is the node before or one of that one's parents: all that stand between a
         * prefix and this text begin with the prefix. */
        int32_t parent = (int32_t)tree->node_count - 1;

        while (parent != POLICY_NO_NODE &&
               !ron_str_starts(tree->rules[i].prefix, tree->nodes[parent].prefix)) {
            parent = tree->nodes[parent].parent;
        }
        tree->nodes[tree->node_count++] = (struct policy_node){
            .prefix = tree->rules[i].prefix, .parent = parent, .first = (uint32_t)i, .count = 1};
    }
}

/* The last node that is not above the account, or none. */
static int32_t last_not_above(const struct policy_tree *tree, struct ron_str account)
{
    size_t low = 0;
    size_t high = tree->node_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ron_str_compare(tree->nodes[middle].prefix, account) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int32_t)low - 1;
}

/* The account begins with the rule's prefix; does it lie below it? As in ron/cap/caveat.h. */
static bool covers(const struct policy_rule *rule, struct ron_str account)
{
    size_t len = rule->prefix.len;

    return rule->open || account.len == len || account.ptr[len] == ':' || account.ptr[len] == '/';
}

bool led__policy_tree_walk(const struct policy_tree *tree, struct ron_str account,
                           led__policy_see *see, void *arg)
{
    int32_t at = last_not_above(tree, account);

    while (at != POLICY_NO_NODE) {
        const struct policy_node *node = &tree->nodes[at];

        if (ron_str_starts(account, node->prefix)) {
            for (uint32_t i = node->first; i < node->first + node->count; i++) {
                if (covers(&tree->rules[i], account) && see(arg, &tree->rules[i])) {
                    return true;
                }
            }
        }
        at = node->parent;
    }
    return false;
}

static bool see_first(void *arg, const struct policy_rule *rule)
{
    *(const struct policy_rule **)arg = rule;
    return true;
}

const struct policy_rule *led__policy_tree_find(const struct policy_tree *tree,
                                                struct ron_str account)
{
    const struct policy_rule *found = NULL;

    (void)led__policy_tree_walk(tree, account, see_first, (void *)&found);
    return found;
}
