/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/policy_priv.h - a policy from the inside, shared by led_policy*.c and nobody else.
 *
 * Rules about accounts stand in trees of prefixes. A tree is an array of nodes sorted by their
 * text; each knows the longest other node that it begins with, its parent. The rules for an account
 * are found without looking at others: the last node that is not above the account in the order is
 * one of its prefixes, or has all of them among its parents (whatever stands between a prefix and
 * the account in that order begins with the prefix too). Walking up gives them longest first. */
#pragma once

#include "ledger/guard/policy.h"
#include "ron/base/arena.h"
#include "ron/base/money.h"
#include "ron/sync/sync.h"

enum {
    LED_POLICY_MAGIC = 0x6c656450,
    POLICY_NO_NODE = -1,
    POLICY_TAG_NONE = 0, /* residency of an account without one */
};

/* A rule as it stands in a tree; what it says lies in the array that its value points into. */
struct policy_rule {
    struct ron_str prefix; /* without '*' */
    bool open;             /* covers every account that begins so, not only what lies below */
    uint8_t rank;          /* among rules of one node: the lower is looked at first */
    uint32_t value;        /* limit or tag */
    uint32_t offset;       /* in the text, for messages */
};

struct policy_node {
    struct ron_str prefix;
    int32_t parent;
    uint32_t first; /* of its rules */
    uint32_t count;
};

struct policy_tree {
    struct policy_rule *rules; /* sorted by prefix, then rank */
    size_t rule_count;
    struct policy_node *nodes; /* sorted by prefix */
    size_t node_count;
};

struct policy_limit {
    uint32_t kinds;       /* bit 1 << kind; all when none is named */
    struct ron_str asset; /* empty: every asset */
    bool deny;
    bool has_max;
    struct ron_money max;
};

struct led_policy {
    uint32_t magic;
    struct ron_au32 refs;
    struct ron_arena arena; /* everything below */
    bool default_deny;
    bool idle; /* nothing to check */
    enum led_bridges bridges;
    struct policy_limit *limits;
    size_t limit_count;
    struct policy_tree limit_tree;
    struct policy_tree frozen;
    struct policy_tree residency;
    size_t tag_count; /* with "none" */
    char tags[LED_POLICY_TAGS_MAX + 1][LED_ASSET_MAX + 1];
    uint64_t passes[LED_POLICY_TAGS_MAX + 1]; /* bit `to` of [from]; one's own is always set */
    size_t pass_count;
    uint64_t digest;
};

/* policy_tree.c. Sorts the rules and makes the nodes, which have room for as many. */
void led__policy_tree_build(struct policy_tree *tree);

/* Calls `see` for the rules that cover the account, the longest prefix first; stops when it returns
 * true, and returns that. */
typedef bool led__policy_see(void *arg, const struct policy_rule *rule);
bool led__policy_tree_walk(const struct policy_tree *tree, struct ron_str account,
                           led__policy_see *see, void *arg);
/* The first of them, or NULL. */
const struct policy_rule *led__policy_tree_find(const struct policy_tree *tree,
                                                struct ron_str account);

/* policy.c. A policy without rules and with an arena of this size. */
RON_MUST_USE enum ron_rc led__policy_new(size_t arena_size, struct led_policy **ret_policy);
