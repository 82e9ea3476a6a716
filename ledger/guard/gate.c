/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/gate.c - the guards of a running ledger; the contract is in gate.h. */
#include "ledger/guard/gate.h"

#include <stdio.h>
#include <string.h>

#include "ledger/guard/frozen.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { REFUSED_MS = 5000 }; /* a refusal of the KMS is remembered */

/* ---- life ------------------------------------------------------------------------------------ */

void led_gate_init(struct led_gate *g, const struct ron_env *env)
{
    g->env = env;
    ron_mutex_init(&g->unvouched_lock, RON_RANK_LEAF, "ledger.unvouched");
}

bool led_gate_close(struct led_gate *g)
{
    bool ok = g->remote == NULL || led_remote_free(g->remote);

    g->remote = NULL;
    return ok;
}

void led_gate_done(struct led_gate *g)
{
    led_frozen_free(g->frozen);
    led_guard_free(g->guard);
    ron_cap_verifier_free(g->verifier);
    if (g->has_ring) {
        ron_cap_ring_done(&g->ring);
    }
    ron_mutex_done(&g->unvouched_lock);
}

/* ---- requests without a work ----------------------------------------------------------------- */

/* A token about which the KMS is asked, beyond the request that brought it. */
#define VOUCHING_MAGIC UINT32_C(0x4f564c52) /* "RLVO" */

struct vouching {
    uint32_t magic;
    struct led_gate *g;
    struct led_caller caller;
    struct led_auth *auth;
    struct ron_arena arena;
    uint8_t room[LED_AUTH_BYTES + LED_REMOTE_BYTES];
    char token[];
};

static void end_vouching(struct led_gate *g, struct vouching *take_v)
{
    uint32_t before = ron_au32_add(&g->vouching, UINT32_MAX); /* one less */

    RON_ASSERT_MSG(before > 0, "T1: a question ends once");
    ron_free(take_v);
}

/* A place of its own by the hash; a later no takes it over. */
static struct led_unvouched *no_of(struct led_gate *g, struct ron_str token,
                                   struct ron_b3 *ret_hash)
{
    ron_b3_hash(token.ptr, token.len, ret_hash);
    return &g->unvouched[ret_hash->bytes[0] % LED_UNVOUCHED_MAX];
}

static void remember_no(struct led_gate *g, struct ron_str token)
{
    struct ron_b3 hash;
    struct led_unvouched *no = no_of(g, token, &hash);

    ron_mutex_lock(&g->unvouched_lock);
    no->token = hash;
    no->until_ms = ron_env_wall_ms(g->env) + REFUSED_MS;
    ron_mutex_unlock(&g->unvouched_lock);
}

static bool was_refused(struct led_gate *g, struct ron_str token)
{
    struct ron_b3 hash;
    const struct led_unvouched *no = no_of(g, token, &hash);
    bool found;

    ron_mutex_lock(&g->unvouched_lock);
    found = no->until_ms > ron_env_wall_ms(g->env) && ron_b3_equal(&no->token, &hash);
    ron_mutex_unlock(&g->unvouched_lock);
    return found;
}

/* The guard remembers a yes, so the caller's next request passes. */
static void vouched(void *arg, const struct led_refusal *refusal)
{
    struct vouching *v = RON_OBJ(arg, struct vouching, VOUCHING_MAGIC);

    if (refusal != NULL && refusal->reason == LED_REASON_UNAUTH) {
        remember_no(v->g, v->caller.token);
    }
    end_vouching(v->g, v);
}

void led_gate_vouch(struct led_gate *g, const struct led_caller *caller, struct led_refusal *ret)
{
    uint64_t now_ms = ron_env_wall_ms(g->env);
    struct vouching *v = NULL;
    enum led_verdict verdict;
    uint64_t try_ms;

    if (was_refused(g, caller->token)) {
        led_refuse(ret, LED_REASON_UNAUTH, "", "the KMS does not vouch for this capability");
        return;
    }
    led_refuse(ret, LED_REASON_BUSY, "", "the KMS is asked for this capability; try again");
    if (ron_au32_add(&g->vouching, 1) < LED_VOUCHING_MAX) {
        v = ron_alloc(sizeof *v + caller->token.len);
    }
    if (v == NULL) {
        end_vouching(g, NULL);
        return;
    }
    v->magic = VOUCHING_MAGIC;
    v->g = g;
    v->caller = *caller;
    memcpy(v->token, caller->token.ptr, caller->token.len);
    v->caller.token.ptr = v->token;
    ron_arena_init_over(&v->arena, v->room, sizeof v->room);
    verdict = led_guard_open(g->guard, &v->caller, now_ms, &v->arena, &v->auth, ret);
    if (verdict != LED_VERDICT_ASK) { /* another request was quicker */
        if (verdict == LED_VERDICT_OK) {
            led_refuse(ret, LED_REASON_BUSY, "", "the KMS has just answered; try again");
        }
        end_vouching(g, v);
        return;
    }
    try_ms = 2 * g->kms_ms; /* a try and its repetition */
    if (led_remote_vouch(g->remote,
                         &(struct led_remote_vouch){
                             .caller = &v->caller,
                             .auth = v->auth,
                             .arena = &v->arena,
                             .deadline = ron_deadline_after_ms(ron_env_now_ns(g->env), try_ms),
                             .done = vouched,
                             .arg = v},
                         ret) == LED_VERDICT_REFUSED) {
        end_vouching(g, v);
    }
}

/* ---- readiness ------------------------------------------------------------------------------- */

void led_gate_look(struct led_gate *g)
{
    static const char *const names[LED_REMOTE_COUNT] = {
        [LED_REMOTE_KMS] = "KMS",
        [LED_REMOTE_POLICY] = "policy guard",
        [LED_REMOTE_WALLET] = "double-spend check",
    };
    char cause[64];

    if (g->need == NULL) {
        return;
    }
    for (int i = 0; i < LED_REMOTE_COUNT; i++) {
        if (!led_remote_ready(g->remote, (enum led_remote_service)i)) {
            (void)snprintf(cause, sizeof cause, "the %s does not answer", names[i]);
            ron_need_set(g->need, RON_NEED_DEGRADED, cause, 1);
            return;
        }
    }
    if (ron_need_state(g->need) != RON_NEED_OK) {
        ron_need_set(g->need, RON_NEED_OK, "", 0);
    }
}
