/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/guard.h - who may do what: capability, peer and policy of a request, before it is
 * ordered.
 *
 * Place: ledger, between led_preval (which calls it) and ron/cap. Plain code, no network; what a
 * remote service has to be asked is told by a verdict and asked by led_remote.
 *
 *     caller ── led_guard_open ──► auth ── led_guard_admit ──► may it send entries at all?
 *                                                │  (the body is parsed only now)
 *                                                └─ led_guard_check ──► every entry: scope of its
 *                                                   kind, caveats, peer, then the policy
 *
 * Invariants:
 *   G1. Nothing about a body is told to a caller without a good capability: signature, expiry,
 *       audience and "may it send entries" are judged before parsing.
 *   G2. Deny by default: no token, no scope for the kind, a bound scope without a listed peer, and
 *       a guard that cannot answer are refusals.
 *   G3. What an entry is checked for depends on the entry, the token, the peer, the policy of that
 *       moment and the time alone, so every prevalidator decides alike.
 *   G4. A capability covers the side that gives: `account` of every kind, which for Mint and Credit
 *       is the side that receives. A `to` needs no capability: anybody may be paid.
 *   G5. No token reaches the journal, a log or a span (I-11 of the specification). `kid` and
 *       `capability_ref` are labels of the caller; a text that holds the caller's token is refused.
 *   G6. While the process lives, governance of reversals only tightens.
 *   G7. An import needs IMPORT besides what its entries need anyway. It lifts the age of `ts` and
 *       nothing else: not the policy, not the governance of reversals.
 *
 * Threads: check functions from any thread; they take one short lock for the policy's snapshot.
 * led_guard_reload blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/entry/entry.h"
#include "ledger/guard/policy.h"
#include "ledger/work/caller.h"
#include "ron/base/arena.h"
#include "ron/cap/verifier.h"
#include "ron/obs/metrics.h"

struct led_work;
struct ron_tls_peer;

/* X(NAME, "name", privileged: can be bound to peers, "meaning") */
#define LED_SCOPE_TABLE(X)                                                                         \
    X(MINT, "ledger.mint", true, "Mint")                                                           \
    X(BURN, "ledger.burn", false, "Burn")                                                          \
    X(TRANSFER, "ledger.transfer", false, "Transfer, Credit, Debit")                               \
    X(HOLD, "ledger.hold", false, "Hold, Capture, Release")                                        \
    X(REVERSE, "ledger.reverse", true, "Reverse")                                                  \
    X(FREEZE, "ledger.freeze", true, "freeze and unfreeze accounts")                               \
    X(ADMIN, "ledger.admin", true, "drain, safe mode, snapshot")                                   \
    X(IMPORT, "ledger.import", true, "entries of any age, with the scope of their kind")           \
    X(READ, "ledger.read", false, "balances, entries, export")

enum led_scope {
#define X(name, text, privileged, doc) LED_SCOPE_##name,
    LED_SCOPE_TABLE(X)
#undef X
        LED_SCOPE_COUNT
};
#define LED_SCOPE_BIT(scope) (UINT32_C(1) << (scope))
#define LED_SCOPES_ALL ((UINT32_C(1) << LED_SCOPE_COUNT) - 1)

const char *led_scope_name(enum led_scope scope);
/* LED_SCOPE_COUNT for a name that is none. */
enum led_scope led_scope_parse(struct ron_str name);
bool led_scope_privileged(enum led_scope scope);
uint32_t led_scopes_privileged(void); /* LED_SCOPE_BIT of all of them */
/* What an entry of this kind needs. Not for Expire, which no caller may send. */
enum led_scope led_scope_of_kind(uint8_t kind);

/* ---- the caller ------------------------------------------------------------------------------ */

/* What is known of a caller once the token was opened. Lies in the arena of the work. */
struct led_auth {
    struct ron_cap_grant grant;
    struct ron_cap_info info;
    uint32_t token_scopes; /* LED_SCOPE_BIT of those that the token covers, as far as asked for */
    uint32_t asked_scopes; /* those that were looked for: a request needs one to three */
    uint32_t peer_scopes;
    bool vouched; /* the signature is good */
};

enum led_verdict {
    LED_VERDICT_OK,
    LED_VERDICT_REFUSED,
    LED_VERDICT_ASK, /* a remote service decides: led_remote */
};

/* ---- the guard ------------------------------------------------------------------------------- */

enum {
    LED_BOUND_NAMES_MAX = 64, /* names and users of operators, written by hand */
    LED_BOUND_UIDS_MAX = 64,
};

struct led_guard;

struct led_guard_opts {
    const struct ron_env *env;
    struct ron_cap_verifier *verifier; /* borrowed; NULL: a remote KMS holds the keys */
    struct ron_metrics *metrics;       /* NULL: nothing is counted */
    struct led_policy *take_policy;    /* NULL: the empty policy */
    enum led_bridges bridges; /* governance.reversible_bridges; the policy can only tighten it */
    bool amnesia;             /* nothing is kept on disk: tokens with `amnesia = true` are good */
    bool require_kid;         /* kms.require_kid: `kid` must name the key of the token */
    uint32_t must_carry;      /* RON_CAP_KIND_BIT of caveats on which we insist, such as EXP */
    /* Privileged scopes that only these peers may use; an empty list then lets nobody. */
    uint32_t bound_scopes;
    /* Of the client certificate: "cn:NAME", "dns:NAME", "uri:NAME", "email:NAME", "ip:ADDR" or
     * "sha256:HEX". Copied. */
    const char *const *bound_names;
    size_t bound_name_count;
    const uint32_t *bound_uids; /* of Unix peers; copied */
    size_t bound_uid_count;
    /* Remote services that are asked after the local checks (led_remote). */
    bool remote_policy;
    bool remote_wallet;
    uint32_t kms_ttl_ms; /* how long a remote KMS's yes is believed; 0: 60 s, at most `exp` */
};

/* RON_INVALID names what is wrong; RON_NOMEM, RON_EXISTS (metrics declared twice), RON_LIMIT. */
RON_MUST_USE enum ron_rc led_guard_new(const struct led_guard_opts *opts,
                                       struct led_guard **ret_guard, struct ron_err *err);
void led_guard_free(struct led_guard *g); /* NULL is fine */

/* The scopes that this peer may use. `uid` is NULL but for a Unix peer, `tls` but for a verified
 * certificate. */
uint32_t led_guard_peer_scopes(const struct led_guard *g, const uint32_t *uid,
                               const struct ron_tls_peer *tls);
/* Whether led_guard_peer_scopes looks at certificates: else there is no need to ask for one. */
bool led_guard_wants_tls_peer(const struct led_guard *g);

/* Opens the caller's token into `arena`, which has LED_AUTH_BYTES left. REFUSED: unauth or
 * cap_invalid. ASK: the KMS has to vouch for it; *ret_auth is there, and nothing in it counts yet.
 */
enum { LED_AUTH_BYTES = RON_CAP_GRANT_BYTES + (int)sizeof(struct led_auth) + 16 };
RON_MUST_USE enum led_verdict led_guard_open(struct led_guard *g, const struct led_caller *caller,
                                             uint64_t now_ms, struct ron_arena *arena,
                                             struct led_auth **ret_auth,
                                             struct led_refusal *ret_refusal);
/* The KMS has vouched: remembered for kms_ttl_ms. */
void led_guard_vouch(struct led_guard *g, const struct led_caller *caller, struct led_auth *auth,
                     uint64_t now_ms);

/* Routes other than ingest: may this caller use `scope`? `account` and `asset` are empty where the
 * route has none. The refusal is written when false. */
RON_MUST_USE bool led_guard_allows(struct led_guard *g, const struct led_caller *caller,
                                   struct led_auth *auth, enum led_scope scope,
                                   struct ron_str account, struct ron_str asset, uint64_t now_ms,
                                   struct led_refusal *ret_refusal);

/* Ingest, before parsing (G1): opens the token into w->auth. Refusals are in w->refusals. */
RON_MUST_USE enum led_verdict led_guard_admit(struct led_guard *g, struct led_work *w,
                                              uint64_t now_ms);
/* Ingest, after parsing: every entry against the token, then against the policy; sets
 * LED_APPLY_REVERSIBLE. OK or REFUSED. */
RON_MUST_USE enum led_verdict led_guard_check(struct led_guard *g, struct led_work *w);

/* Which remote services follow a good led_guard_check, in this order. */
bool led_guard_asks_policy(const struct led_guard *g);
bool led_guard_asks_wallet(const struct led_guard *g);

/* Counts auth_failures_total{peer}; the functions above do it for their own refusals. */
void led_guard_count_auth(struct led_guard *g, const struct led_caller *caller);
/* Counts rejected_total{reason}: for every refused work when it is answered, whoever refused it. */
void led_guard_count_refusal(struct led_guard *g, enum led_reason reason);

/* ---- policy ---------------------------------------------------------------------------------- */

/* The present policy with a reference for the caller; never NULL. */
struct led_policy *led_guard_policy(struct led_guard *g);
/* RON_DENIED: it would loosen the governance of reversals (G6); the old one stays then. */
RON_MUST_USE enum ron_rc led_guard_set_policy(struct led_guard *g, struct led_policy *take_policy,
                                              struct ron_err *err);
/* Reads the file and sets it: all or nothing. Blocks. */
RON_MUST_USE enum ron_rc led_guard_reload(struct led_guard *g, const char *path,
                                          struct ron_err *err);
/* A reload of the configuration; RON_DENIED as above. */
RON_MUST_USE enum ron_rc led_guard_set_bridges(struct led_guard *g, enum led_bridges bridges,
                                               struct ron_err *err);
enum led_bridges led_guard_bridges(struct led_guard *g); /* what holds now */
