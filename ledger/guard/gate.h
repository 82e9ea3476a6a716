/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/gate.h - the guards of a running ledger in one place: keys, guard, remote services,
 * frozen accounts.
 *
 * Place: ledger. Built by svc.c. Used by prevalidators, readers and fronts.
 *
 * Invariants:
 *   T1. At most LED_VOUCHING_MAX tokens are asked about for callers that do not wait.
 *   T2. The owner of frozen_busy, and nobody else, changes the list of frozen accounts.
 *
 * Threads: led_gate_vouch any; led_gate_look the health task. */
#pragma once

#include "ledger/guard/guard.h"
#include "ledger/guard/remote.h"
#include "ron/cas/b3.h"
#include "ron/obs/health.h"
#include "ron/sync/sync.h"

struct led_frozen;

enum {
    LED_UNVOUCHED_MAX = 64,
    LED_VOUCHING_MAX = 64,
};

/* A token for which the KMS did not vouch. */
struct led_unvouched {
    struct ron_b3 token;
    uint64_t until_ms;
};

struct led_gate {
    const struct ron_env *env;
    struct led_guard *guard;
    struct led_remote *remote; /* NULL: no service is asked */
    struct ron_need *need;     /* of the remote services; NULL without any */
    uint64_t kms_ms;           /* for one try of the KMS */
    struct ron_au32 vouching;  /* T1 */
    struct ron_mutex unvouched_lock;
    struct led_unvouched unvouched[LED_UNVOUCHED_MAX];
    struct ron_cap_ring ring;
    bool has_ring;
    struct ron_cap_verifier *verifier; /* NULL: a remote KMS holds the keys */
    struct led_frozen *frozen;
    struct ron_au32 frozen_busy; /* T2: 1 while an owner changes the list */
};

void led_gate_init(struct led_gate *g, const struct ron_env *env);
/* After every task has stopped: frees the client of the remote services, then all the rest. */
bool led_gate_close(struct led_gate *g);
void led_gate_done(struct led_gate *g);
/* For a request without a work whose token led_guard_open gave LED_VERDICT_ASK: asks the KMS beside
 * and refuses for now (busy: the next try finds the verdict). Any thread. */
void led_gate_vouch(struct led_gate *g, const struct led_caller *caller, struct led_refusal *ret);
/* Sets the readiness of the remote services. */
void led_gate_look(struct led_gate *g);
