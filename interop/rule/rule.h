/* SPDX-License-Identifier: Apache-2.0 */
/* interop/rule/rule.h - what a verified delivery causes: rules of the settings, evaluated without
 * effects.
 *
 * Place: interop, the pure half of the actions. [rules.NAME] says: this provider, these events,
 * these conditions on the body -> a mailbox topic, a URL to forward to, or an operation of the
 * wallet.
 *
 *     [rules.credits]
 *     provider = "stripe"
 *     events   = ["payment_intent.succeeded"]
 *     when     = ["/data/object/currency = usd", "/data/object/amount >= 100"]
 *     action   = "wallet"
 *     op       = "issue"
 *     to       = "user/{/data/object/metadata/user}"
 *     amount   = "{/data/object/amount_received}"
 *
 * Conditions, a pointer and what must hold (one blank between the parts; a pointer holds none):
 *     P exists | P missing | P = TEXT | P != TEXT | P in TEXT|TEXT|... | P prefix TEXT
 *     P < N | P <= N | P > N | P >= N
 * Strings are compared with their escapes resolved, true, false and null by their word. A number is
 * compared by its decimal value, exactly and without floats; one with an exponent equals nothing.
 * Everything but "missing" is false where there is no value.
 *
 * R1. All rules that match act, in the order of the settings, up to IOP_ACTIONS_MAX; one with
 *     `stop` is the last.
 * R2. A rule that matches but cannot be carried out (no account at the pointer, a fraction of a
 *     minor unit) is an action with a fault, never a smaller or rounded effect.
 * R3. The idempotency key of an action is made of provider, what identifies the delivery, and the
 *     rule: the same delivery always gives the same key, another delivery or rule another.
 *
 * Threads: a set never changes once made. Evaluation allocates nothing. */
#pragma once

#include "interop/provider/pointer.h"
#include "ron/base/money.h"
#include "ron/base/secret.h"
#include "ron/cas/b3.h"
#include "ron/conf/conf.h"

enum {
    IOP_RULES_MAX = 64,
    IOP_EVENTS_MAX = 32, /* of one rule */
    IOP_CONDS_MAX = 16,
    IOP_ACTIONS_MAX = 8, /* of one delivery: an outbox row each */
    IOP_ACCOUNT_MAX = 256,
    IOP_ASSET_MAX = 32,
    IOP_SCALE_MAX = 18,
    IOP_IDEM_KEY_SIZE = 65, /* 64 hex digits: as long as the wallet takes */
};

#define IOP_RULE_KEYS(X)                                                                           \
    X(IOP_R_PROVIDER, "rules.*.provider", STRING, "bytes", 1, 64, "*", RON_CONF_RELOAD,            \
      "Name of the provider's section; * matches any.")                                            \
    X(IOP_R_EVENTS, "rules.*.events", LIST, "names", 0, IOP_EVENTS_MAX, "", RON_CONF_RELOAD,       \
      "Event names; a trailing * matches a prefix. Empty matches any.")                            \
    X(IOP_R_WHEN, "rules.*.when", LIST, "conditions", 0, IOP_CONDS_MAX, "", RON_CONF_RELOAD,       \
      "Conditions on the body, all of which must hold, such as /data/object/currency = usd.")      \
    X(IOP_R_ACTION, "rules.*.action", ENUM, "mailbox|forward|wallet", 0, 0, "mailbox",             \
      RON_CONF_RELOAD, "Action of the rule.")                                                      \
    X(IOP_R_STOP, "rules.*.stop", BOOL, "", 0, 0, "false", RON_CONF_RELOAD,                        \
      "Whether later rules are skipped when this one matches.")                                    \
    X(IOP_R_TOPIC, "rules.*.topic", STRING, "bytes", 0, 128, "", RON_CONF_RELOAD,                  \
      "mailbox: topic.")                                                                           \
    X(IOP_R_URL, "rules.*.url", STRING, "bytes", 0, 2048, "", RON_CONF_RELOAD,                     \
      "forward: target URL.")                                                                      \
    X(IOP_R_SECRET_ENV, "rules.*.secret_env", STRING, "bytes", 0, 128, "", RON_CONF_RELOAD,        \
      "forward: environment variable with the signing secret (whsec_... or whsk_...).")            \
    X(IOP_R_SECRET_FILE, "rules.*.secret_file", STRING, "bytes", 0, 1023, "", RON_CONF_RELOAD,     \
      "forward: file with the signing secret instead.")                                            \
    X(IOP_R_OP, "rules.*.op", ENUM, "issue|transfer", 0, 0, "issue", RON_CONF_RELOAD,              \
      "wallet: operation.")                                                                        \
    X(IOP_R_FROM, "rules.*.from", STRING, "bytes", 0, 256, "", RON_CONF_RELOAD,                    \
      "wallet transfer: debited account; {/pointer} inserts a value from the body.")               \
    X(IOP_R_TO, "rules.*.to", STRING, "bytes", 0, 256, "", RON_CONF_RELOAD,                        \
      "wallet: credited account; {/pointer} inserts a value from the body.")                       \
    X(IOP_R_ASSET, "rules.*.asset", STRING, "bytes", 0, 64, "roc", RON_CONF_RELOAD,                \
      "wallet: asset; {/pointer} inserts a value from the body.")                                  \
    X(IOP_R_AMOUNT, "rules.*.amount", STRING, "bytes", 0, 256, "", RON_CONF_RELOAD,                \
      "wallet: amount, a number or {/pointer}.")                                                   \
    X(IOP_R_SCALE, "rules.*.scale", INT, "digits", 0, IOP_SCALE_MAX, "0", RON_CONF_RELOAD,         \
      "wallet: power of 10 that the amount is multiplied by; 2 turns 12.34 into cents.")

enum iop_action_kind { IOP_ACT_MAILBOX, IOP_ACT_FORWARD, IOP_ACT_WALLET };
enum iop_wallet_op { IOP_OP_ISSUE, IOP_OP_TRANSFER };

enum iop_cond_op {
    IOP_COND_EXISTS,
    IOP_COND_MISSING,
    IOP_COND_EQ,
    IOP_COND_NE,
    IOP_COND_IN,
    IOP_COND_PREFIX,
    IOP_COND_LT,
    IOP_COND_LE,
    IOP_COND_GT,
    IOP_COND_GE
};

struct iop_cond {
    char pointer[IOP_POINTER_MAX];
    enum iop_cond_op op;
    struct ron_str text;       /* lies in the settings */
    struct iop_decimal number; /* of the four comparisons */
};

struct iop_rule {
    const char *name; /* of its section */
    struct ron_conf_str provider;
    struct ron_conf_list events;
    size_t cond_count;
    struct iop_cond conds[IOP_CONDS_MAX];
    enum iop_action_kind action;
    bool stop;
    struct ron_conf_str topic;
    struct ron_conf_str url;
    struct ron_secret secret; /* of a forward */
    enum iop_wallet_op op;
    struct ron_conf_str from;
    struct ron_conf_str to;
    struct ron_conf_str asset;
    struct ron_conf_str amount;
    uint32_t scale;
};

struct iop_rules {
    struct ron_conf_snap *snap; /* a reference: all texts lie in it */
    size_t count;
    struct iop_rule at[IOP_RULES_MAX];
};

/* RON_INVALID names the section and setting. A forward without a secret is refused: nobody could
 * tell who sent it. */
RON_MUST_USE enum ron_rc iop_rules_new(const struct ron_env *env, struct ron_conf_snap *snap,
                                       const char *const *variables, struct iop_rules **ret_rules,
                                       struct ron_err *err);
void iop_rules_free(struct iop_rules *rules);

/* X(NAME, "label", "message") */
#define IOP_FAULTS(X)                                                                              \
    X(NONE, "none", "")                                                                            \
    X(VALUE_MISSING, "value_missing", "no value at the rule's pointer")                            \
    X(VALUE_TWICE, "value_twice", "duplicate member on the path of the rule's pointer")            \
    X(VALUE_FORM, "value_form", "value at the rule's pointer is too long or not text")             \
    X(ACCOUNT, "account", "invalid account name")                                                  \
    X(ASSET, "asset", "invalid asset name")                                                        \
    X(AMOUNT, "amount", "invalid amount; expected a positive whole number of minor units")

enum iop_fault {
#define X(name, label, message) IOP_FAULT_##name,
    IOP_FAULTS(X)
#undef X
};
const char *iop_fault_label(enum iop_fault fault);
const char *iop_fault_message(enum iop_fault fault);

struct iop_action {
    const struct iop_rule *rule; /* kind, topic, url, secret */
    enum iop_fault fault;        /* R2; then the rest is empty */
    char idem_key[IOP_IDEM_KEY_SIZE];
    /* wallet: each ends in NUL */
    char from[IOP_ACCOUNT_MAX + 1];
    char to[IOP_ACCOUNT_MAX + 1];
    char asset[IOP_ASSET_MAX + 1];
    struct ron_money amount;
};

struct iop_rule_input {
    const char *provider;
    struct ron_str event;
    struct ron_b3 key;         /* iop_delivery_keys()[0] */
    const struct iop_doc *doc; /* the body; empty when it is no JSON */
};

/* Fills at most IOP_ACTIONS_MAX; `ret_more` tells that more rules matched (R1), which is worth a
 * warning. None: the delivery goes to the provider's own topic. */
size_t iop_rules_apply(const struct iop_rules *rules, const struct iop_rule_input *input,
                       struct iop_action ret_actions[IOP_ACTIONS_MAX], bool *ret_more);

/* One condition, from its text; for the settings and for tests. */
RON_MUST_USE enum ron_rc iop_cond_parse(struct ron_str text, struct iop_cond *ret_cond,
                                        struct ron_err *err);
bool iop_cond_holds(const struct iop_cond *cond, const struct iop_doc *doc);
