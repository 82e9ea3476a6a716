/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/policy.h - the policy file: what entries must obey beyond their own rules and
 * capability.
 *
 * Place: ledger; pure but for led_policy_load. The file is TOML, docs/formats/ledger-policy.md
 * describes it: limits per kind, asset and account, frozen accounts, residency, reversals.
 *
 * Invariants:
 *   P1. A policy is read whole or not at all; a refusal reads "name:line:column: reason". Unknown
 *       keys are refused, and so are two rules of which neither would win.
 *   P2. A policy never changes after it was made and is shared by reference.
 *   P3. For an entry exactly one limit decides: of those that match its kind, asset and account the
 *       one with the longest account prefix; among equals one that names the asset, then one that
 *       names kinds. Without a match the default decides.
 *   P4. The answer depends on the entries of the batch alone: no clock, no counters. A ceiling per
 *       day would have to count in the order of the journal, which is not known here; the wallet
 *       has one.
 *
 * An account prefix covers what a capability's does: the account itself and those below it at ':'
 * or '/', or, when it ends in '*', every account that begins so.
 *
 * Threads: any. Cost: a binary search and a short walk per account. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/entry/entry.h"
#include "ron/base/env.h"
#include "ron/base/rc.h"

enum {
    LED_POLICY_BYTES_MAX = 1 << 20, /* of the file: what the TOML reader takes */
    LED_POLICY_TAGS_MAX = 63,       /* residency tags; with "none" one bit each in 64 */
};

/* X(NAME, "word", "meaning"); the smaller, the tighter. */
#define LED_BRIDGES_TABLE(X)                                                                       \
    X(DISABLED, "disabled", "no Reverse is accepted")                                              \
    X(REQUIRE_CAP, "require-cap", "a Reverse needs the scope ledger.reverse")                      \
    X(ALLOW, "allow", "the scope ledger.transfer is enough for a Reverse")

enum led_bridges {
#define X(name, word, doc) LED_BRIDGES_##name,
    LED_BRIDGES_TABLE(X)
#undef X
        LED_BRIDGES_COUNT
};

const char *led_bridges_name(enum led_bridges bridges);
/* LED_BRIDGES_COUNT for a word that is none. */
enum led_bridges led_bridges_parse(struct ron_str word);

struct led_policy;

/* A policy with one reference, the caller's. `name` stands in messages. RON_INVALID (P1),
 * RON_LIMIT, RON_NOMEM. */
RON_MUST_USE enum ron_rc led_policy_parse(const char *name, const char *text, size_t len,
                                          struct led_policy **ret_policy, struct ron_err *err);
/* The same from a file; blocks. Also RON_NOTFOUND and what the disk says. */
RON_MUST_USE enum ron_rc led_policy_load(const struct ron_env *env, const char *path,
                                         struct led_policy **ret_policy, struct ron_err *err);
/* The policy without rules: everything is allowed. RON_NOMEM. */
RON_MUST_USE enum ron_rc led_policy_empty(struct led_policy **ret_policy);

struct led_policy *led_policy_ref(struct led_policy *policy);
void led_policy_unref(struct led_policy *policy); /* NULL is fine */

/* Whether all entries obey; each that does not is added to the refusals (policy_denied). Freezes do
 * not stop Reverse and Expire, as in the book. */
RON_MUST_USE bool led_policy_check(const struct led_policy *policy, const struct led_entry *entries,
                                   size_t count, struct led_refusals *refusals);

/* What the file says of reversals; ALLOW when it says nothing. */
enum led_bridges led_policy_bridges(const struct led_policy *policy);
bool led_policy_frozen(const struct led_policy *policy, struct ron_str account);
/* The tag's name, "none" without one. */
const char *led_policy_residency(const struct led_policy *policy, struct ron_str account);

struct led_policy_stats {
    size_t limits;
    size_t frozen;
    size_t residencies;
    size_t passes;
    uint64_t digest; /* of the text: tells two policies apart in logs */
};
void led_policy_stats(const struct led_policy *policy, struct led_policy_stats *ret_stats);
