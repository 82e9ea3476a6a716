/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/guard.c - making a guard, its peers, its policy, tokens and what they are remembered
 * for; the contract is in guard.h, the check of entries in check.c. */
#include <string.h>

#include "ledger/guard/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { KMS_TTL_DEFAULT_MS = 60000 }; /* a revoked token is void within a minute */

/* ---- scopes ---------------------------------------------------------------------------------- */

static const char *const scope_names[] = {
#define X(name, text, privileged, doc) text,
    LED_SCOPE_TABLE(X)
#undef X
};

static const bool scope_privileged[] = {
#define X(name, text, privileged, doc) privileged,
    LED_SCOPE_TABLE(X)
#undef X
};

const char *led_scope_name(enum led_scope scope)
{
    RON_ASSERT((unsigned)scope < LED_SCOPE_COUNT);
    return scope_names[scope];
}

enum led_scope led_scope_parse(struct ron_str name)
{
    size_t i = 0;

    while (i < LED_SCOPE_COUNT && !ron_str_is(name, scope_names[i])) {
        i++;
    }
    return (enum led_scope)i;
}

bool led_scope_privileged(enum led_scope scope)
{
    RON_ASSERT((unsigned)scope < LED_SCOPE_COUNT);
    return scope_privileged[scope];
}

uint32_t led_scopes_privileged(void)
{
    uint32_t all = 0;

    for (int scope = 0; scope < LED_SCOPE_COUNT; scope++) {
        all |= scope_privileged[scope] ? LED_SCOPE_BIT(scope) : 0;
    }
    return all;
}

enum led_scope led_scope_of_kind(uint8_t kind)
{
    static const uint8_t scopes[] = {
        [LED_KIND_MINT] = LED_SCOPE_MINT,         [LED_KIND_BURN] = LED_SCOPE_BURN,
        [LED_KIND_CREDIT] = LED_SCOPE_TRANSFER,   [LED_KIND_DEBIT] = LED_SCOPE_TRANSFER,
        [LED_KIND_TRANSFER] = LED_SCOPE_TRANSFER, [LED_KIND_HOLD] = LED_SCOPE_HOLD,
        [LED_KIND_CAPTURE] = LED_SCOPE_HOLD,      [LED_KIND_RELEASE] = LED_SCOPE_HOLD,
        [LED_KIND_REVERSE] = LED_SCOPE_REVERSE,
    };

    RON_ASSERT(kind < RON_ARRAY_LEN(scopes)); /* Expire is the last and has none */
    return (enum led_scope)scopes[kind];
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc check_opts(const struct led_guard_opts *o, struct ron_err *err)
{
    for (int scope = 0; scope < LED_SCOPE_COUNT; scope++) {
        if ((o->bound_scopes & LED_SCOPE_BIT(scope)) != 0 && !scope_privileged[scope]) {
            return ron_err_set(err, RON_INVALID, "%s is no privileged scope", scope_names[scope]);
        }
    }
    if (o->bound_name_count > LED_BOUND_NAMES_MAX || o->bound_uid_count > LED_BOUND_UIDS_MAX) {
        return ron_err_set(err, RON_LIMIT, "at most %d names and %d users", LED_BOUND_NAMES_MAX,
                           LED_BOUND_UIDS_MAX);
    }
    return RON_OK;
}

static enum ron_rc copy_names(struct led_guard *g, const struct led_guard_opts *o,
                              struct ron_err *err)
{
    g->names = ron_alloc_array(o->bound_name_count, sizeof *g->names);
    if (g->names == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the names of peers");
    }
    for (size_t i = 0; i < o->bound_name_count; i++) {
        RON_TRY(led__guard_name_parse(o->bound_names[i], &g->names[i], err));
    }
    g->name_count = o->bound_name_count;
    if (o->bound_uid_count > 0) {
        memcpy(g->uids, o->bound_uids, o->bound_uid_count * sizeof *g->uids);
    }
    g->uid_count = o->bound_uid_count;
    return RON_OK;
}

static enum ron_rc take_series(struct led_guard *g, struct ron_metrics *m, struct ron_err *err)
{
    static const struct ron_metric_def auth_failures = {
        .name = "auth_failures_total",
        .help = "Requests refused for their capability or peer.",
        .type = RON_METRIC_COUNTER,
        .labels = "peer"};
    static const char *const peers[] = {
#define X(name, label) label,
        LED_PEER_TABLE(X)
#undef X
    };
    struct ron_metric *family = NULL;

    RON_TRY(ron_metrics_declare(m, &auth_failures, &family, err));
    for (size_t i = 0; i < LED_PEER_COUNT; i++) {
        g->auth_failures[i] = ron_metric_series(family, peers[i]);
    }
    for (size_t i = LED_REASON_OK + 1; i < LED_REASON_COUNT; i++) {
        g->rejected[i] = ron_metric_series(ron_metrics_name(m, RON_M_REJECTED),
                                           led_reason_name((enum led_reason)i));
    }
    return RON_OK;
}

enum ron_rc led_guard_new(const struct led_guard_opts *opts, struct led_guard **ret_guard,
                          struct ron_err *err)
{
    struct led_guard *g;
    enum ron_rc rc;

    RON_TRY(check_opts(opts, err));
    g = ron_alloc_zero(sizeof *g);
    if (g == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the guard");
    }
    g->magic = LED_GUARD_MAGIC;
    g->env = opts->env;
    g->verifier = opts->verifier;
    g->amnesia = opts->amnesia;
    g->require_kid = opts->require_kid;
    g->remote_policy = opts->remote_policy;
    g->remote_wallet = opts->remote_wallet;
    g->must_carry = opts->must_carry;
    g->kms_ttl_ms = opts->kms_ttl_ms == 0 ? KMS_TTL_DEFAULT_MS : opts->kms_ttl_ms;
    g->bound_scopes = opts->bound_scopes;
    g->bridges = opts->bridges;
    ron_mutex_init(&g->mu, RON_RANK_LEAF, "ledger.guard");
    ron_mutex_init(&g->vouched_mu, RON_RANK_LEAF, "ledger.vouched");
    RON_GOTO(copy_names(g, opts, err), failed);
    if (g->verifier == NULL) {
        g->vouched = ron_alloc_array((size_t)VOUCHED_SETS * VOUCHED_WAYS, sizeof *g->vouched);
        RON_GOTO(g->vouched != NULL ? RON_OK : ron_err_set(err, RON_NOMEM, "no memory for tokens"),
                 failed);
    }
    if (opts->metrics != NULL) {
        RON_GOTO(take_series(g, opts->metrics, err), failed);
    }
    if (opts->take_policy == NULL) {
        RON_GOTO(led_policy_empty(&g->policy), failed);
    } else {
        g->policy = opts->take_policy; /* the last step, as it takes */
    }
    *ret_guard = g;
    return RON_OK;
failed:
    led_guard_free(g);
    return rc;
}

void led_guard_free(struct led_guard *g)
{
    if (g == NULL) {
        return;
    }
    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    led_policy_unref(g->policy);
    ron_mutex_done(&g->mu);
    ron_mutex_done(&g->vouched_mu);
    ron_free(g->vouched);
    ron_free(g->names);
    g->magic = 0;
    ron_free(g);
}

/* ---- peers ----------------------------------------------------------------------------------- */

bool led_guard_wants_tls_peer(const struct led_guard *g)
{
    return g->bound_scopes != 0 && g->name_count > 0;
}

static bool is_bound_peer(const struct led_guard *g, const uint32_t *uid,
                          const struct ron_tls_peer *tls)
{
    for (size_t i = 0; uid != NULL && i < g->uid_count; i++) {
        if (g->uids[i] == *uid) {
            return true;
        }
    }
    for (size_t i = 0; tls != NULL && i < g->name_count; i++) {
        if (led__guard_name_matches(&g->names[i], tls)) {
            return true;
        }
    }
    return false;
}

uint32_t led_guard_peer_scopes(const struct led_guard *g, const uint32_t *uid,
                               const struct ron_tls_peer *tls)
{
    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    if (g->bound_scopes == 0 || is_bound_peer(g, uid, tls)) {
        return LED_SCOPES_ALL;
    }
    return LED_SCOPES_ALL & ~g->bound_scopes;
}

/* ---- policy ---------------------------------------------------------------------------------- */

struct led_policy *led_guard_policy(struct led_guard *g)
{
    struct led_policy *policy;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    ron_mutex_lock(&g->mu);
    policy = led_policy_ref(g->policy);
    ron_mutex_unlock(&g->mu);
    return policy;
}

static enum led_bridges tighter(enum led_bridges a, enum led_bridges b)
{
    return a < b ? a : b;
}

enum led_bridges led_guard_bridges(struct led_guard *g)
{
    enum led_bridges bridges;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    ron_mutex_lock(&g->mu);
    bridges = tighter(g->bridges, led_policy_bridges(g->policy));
    ron_mutex_unlock(&g->mu);
    return bridges;
}

static enum ron_rc loosens(enum led_bridges from, enum led_bridges to, struct ron_err *err)
{
    return ron_err_set(err, RON_DENIED,
                       "reversible bridges go from '%s' to '%s': only a restart can loosen them",
                       led_bridges_name(from), led_bridges_name(to));
}

enum ron_rc led_guard_set_policy(struct led_guard *g, struct led_policy *take_policy,
                                 struct ron_err *err)
{
    struct led_policy *old = NULL;
    enum led_bridges from;
    enum led_bridges to;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    ron_mutex_lock(&g->mu);
    from = tighter(g->bridges, led_policy_bridges(g->policy));
    to = tighter(g->bridges, led_policy_bridges(take_policy));
    if (to <= from) {
        old = g->policy;
        g->policy = take_policy;
    }
    ron_mutex_unlock(&g->mu);
    if (old == NULL) {
        return loosens(from, to, err);
    }
    led_policy_unref(old);
    return RON_OK;
}

enum ron_rc led_guard_set_bridges(struct led_guard *g, enum led_bridges bridges,
                                  struct ron_err *err)
{
    enum led_bridges from;
    enum led_bridges to;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    RON_ASSERT((unsigned)bridges < LED_BRIDGES_COUNT);
    ron_mutex_lock(&g->mu);
    from = tighter(g->bridges, led_policy_bridges(g->policy));
    to = tighter(bridges, led_policy_bridges(g->policy));
    if (to <= from) {
        g->bridges = bridges;
    }
    ron_mutex_unlock(&g->mu);
    return to <= from ? RON_OK : loosens(from, to, err);
}

enum ron_rc led_guard_reload(struct led_guard *g, const char *path, struct ron_err *err)
{
    struct led_policy *policy = NULL;
    enum ron_rc rc;

    RON_TRY(led_policy_load(g->env, path, &policy, err));
    rc = led_guard_set_policy(g, policy, err);
    if (rc != RON_OK) {
        led_policy_unref(policy);
    }
    return rc;
}

/* ---- tokens of a remote KMS ------------------------------------------------------------------ */

static struct guard_vouched *vouched_set(struct led_guard *g, const struct ron_tree_hash *hash)
{
    uint32_t word;

    memcpy(&word, hash->bytes, sizeof word);
    return g->vouched + (size_t)(word % VOUCHED_SETS) * VOUCHED_WAYS;
}

static void hash_token(struct ron_str token, struct ron_tree_hash *ret_hash)
{
    const struct ron_tree_piece piece = {token.ptr, token.len};

    ron_tree_hash_pieces(&piece, 1, ret_hash);
}

static bool is_vouched(struct led_guard *g, struct ron_str token, uint64_t now_ms)
{
    struct ron_tree_hash hash;
    bool found = false;

    hash_token(token, &hash);
    ron_mutex_lock(&g->vouched_mu);
    for (struct guard_vouched *set = vouched_set(g, &hash), *v = set; v < set + VOUCHED_WAYS; v++) {
        found = found || (v->until_ms > now_ms && ron_tree_hash_equal(&v->hash, &hash));
    }
    ron_mutex_unlock(&g->vouched_mu);
    return found;
}

void led_guard_vouch(struct led_guard *g, const struct led_caller *caller, struct led_auth *auth,
                     uint64_t now_ms)
{
    struct guard_vouched *set;
    struct guard_vouched *best;
    struct ron_tree_hash hash;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    RON_ASSERT(g->vouched != NULL);
    auth->vouched = true;
    hash_token(caller->token, &hash);
    set = best = vouched_set(g, &hash);
    ron_mutex_lock(&g->vouched_mu);
    for (struct guard_vouched *v = set; v < set + VOUCHED_WAYS; v++) {
        if (ron_tree_hash_equal(&v->hash, &hash)) {
            best = v;
            break;
        }
        best = v->until_ms < best->until_ms ? v : best;
    }
    /* `exp` is judged for every request, so it needs no part here. */
    *best = (struct guard_vouched){.hash = hash, .until_ms = now_ms + g->kms_ttl_ms};
    ron_mutex_unlock(&g->vouched_mu);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static enum led_verdict refuse(struct led_guard *g, const struct led_caller *caller,
                               enum ron_cap_why why, struct led_refusal *ret)
{
    led_refuse(ret, ron_cap_why_http(why) == 401 ? LED_REASON_UNAUTH : LED_REASON_CAP_INVALID, "",
               ron_cap_why_doc(why));
    led_guard_count_auth(g, caller);
    return LED_VERDICT_REFUSED;
}

/* A good signature by way of the verifier, or the claim of a token that the KMS knows or is to be
 * asked for. */
static enum ron_cap_why open_token(struct led_guard *g, struct ron_str token, uint64_t now_ms,
                                   struct ron_arena *arena, struct led_auth *auth)
{
    struct ron_cap_request when = {.now_ms = now_ms};
    enum ron_cap_why why;

    if (g->verifier != NULL) {
        auth->vouched = true;
        return ron_cap_verifier_open(g->verifier, token, now_ms, arena, &auth->grant, &auth->info);
    }
    why = ron_cap_grant_read(token, arena, &auth->grant, &auth->info);
    if (why == RON_CAP_OK) {
        why = ron_cap_grant_allows(&auth->grant, RON_CAP_KIND_BIT(RON_CAP_KIND_EXP), &when);
    }
    auth->vouched = why == RON_CAP_OK && is_vouched(g, token, now_ms);
    return why;
}

enum led_verdict led_guard_open(struct led_guard *g, const struct led_caller *caller,
                                uint64_t now_ms, struct ron_arena *arena,
                                struct led_auth **ret_auth, struct led_refusal *ret_refusal)
{
    struct led_auth *auth = RON_ARENA_NEW(arena, struct led_auth);
    enum ron_cap_why why;

    RON_CHECK_MAGIC(g, LED_GUARD_MAGIC);
    if (auth == NULL) { /* not when the caller left LED_AUTH_BYTES */
        led_refuse(ret_refusal, LED_REASON_BUSY, "", "no memory to open the capability");
        return LED_VERDICT_REFUSED;
    }
    if (caller->token.len == 0) {
        return refuse(g, caller, caller->why != RON_CAP_OK ? caller->why : RON_CAP_MISSING,
                      ret_refusal);
    }
    memset(auth, 0, sizeof *auth);
    why = open_token(g, caller->token, now_ms, arena, auth);
    if (why != RON_CAP_OK) {
        return refuse(g, caller, why, ret_refusal);
    }
    auth->peer_scopes = caller->peer_scopes;
    *ret_auth = auth;
    return auth->vouched ? LED_VERDICT_OK : LED_VERDICT_ASK;
}
