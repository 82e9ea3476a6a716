/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/priv.h - the inside of a guard, shared by led_guard*.c and nobody else. */
#pragma once

#include "ledger/guard/guard.h"
#include "ron/http/tls.h"
#include "ron/merkle/hash.h"
#include "ron/sync/sync.h"

enum { LED_GUARD_MAGIC = 0x6c656447 };

/* A name of a client certificate that privileged scopes are bound to. */
struct guard_name {
    enum guard_name_kind {
        GUARD_NAME_DNS = RON_TLS_NAME_DNS,
        GUARD_NAME_EMAIL = RON_TLS_NAME_EMAIL,
        GUARD_NAME_URI = RON_TLS_NAME_URI,
        GUARD_NAME_IP = RON_TLS_NAME_IP,
        GUARD_NAME_CN,
        GUARD_NAME_SHA256,
    } kind;
    char text[RON_TLS_TEXT_MAX + 1];
};

enum {
    VOUCHED_SETS =
        1024, /* with four ways as many tokens as a verifier remembers: clients at once */
    VOUCHED_WAYS = 4,
};

/* Tokens that a remote KMS has vouched for, by the hash of their text. */
struct guard_vouched {
    struct ron_tree_hash hash;
    uint64_t until_ms; /* 0: free */
};

struct led_guard {
    uint32_t magic;
    const struct ron_env *env;
    struct ron_cap_verifier *verifier; /* NULL: remote KMS */
    bool amnesia;
    bool require_kid;
    bool remote_policy;
    bool remote_wallet;
    uint32_t must_carry;
    uint32_t kms_ttl_ms;
    uint32_t bound_scopes;
    size_t name_count;
    size_t uid_count;
    struct guard_name *names;
    uint32_t uids[LED_BOUND_UIDS_MAX];

    struct ron_mutex mu;       /* guards the two below */
    struct led_policy *policy; /* never NULL */
    enum led_bridges bridges;  /* of the configuration; what holds is the tighter of both */

    struct ron_mutex vouched_mu; /* guards the entries */
    struct guard_vouched *vouched;

    struct ron_series *auth_failures[LED_PEER_COUNT]; /* NULL: not counted */
    struct ron_series *rejected[LED_REASON_COUNT];
};

/* names.c: "dns:wallet.internal" and its like. RON_INVALID says what is wrong. */
RON_MUST_USE enum ron_rc led__guard_name_parse(const char *text, struct guard_name *ret_name,
                                               struct ron_err *err);
bool led__guard_name_matches(const struct guard_name *name, const struct ron_tls_peer *peer);
