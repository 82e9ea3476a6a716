/* SPDX-License-Identifier: Apache-2.0 */
/* caveat.h - what a capability may say, and whether it holds for a request.
 *
 * Place: cap. A caveat is a text `name = value`, one blank on either side of the sign. The names,
 * values and their meaning are the table below; docs/formats/capabilities.md explains them.
 *
 * Rules:
 *   C1. All caveats of a token must hold. A caveat only narrows: without any, nothing is denied.
 *   C2. A name that is not in the table denies, and so does a value that breaks its grammar. Every
 *       value has exactly one text.
 *   C3. A caveat about something that the request does not have (an account, an asset, a tenant)
 *       does not hold. A request without an amount moves 0.
 *   C4. A scope or account covers what lies below it, and a name never covers a longer name that
 *       only begins alike: `wallet.issue` covers `wallet.issue.rewarder` and not `wallet.issuer`.
 *
 * Threads: pure functions over borrowed bytes; no allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/json.h"
#include "ron/base/macros.h"
#include "ron/base/money.h"

/* Why a capability was refused; never carries the token. X(NAME, http status, "label", "doc") */
#define RON_CAP_WHY_TABLE(X)                                                                       \
    X(OK, 200, "ok", "the capability allows the request")                                          \
    X(MISSING, 401, "missing", "no capability was given")                                          \
    X(SCHEME, 401, "scheme", "the header is not of the form 'Bearer TOKEN'")                       \
    X(TOO_LARGE, 401, "too_large", "the token is longer than 8192 characters")                     \
    X(MALFORMED, 401, "malformed", "the token is not a macaroon")                                  \
    X(VERSION, 401, "version",                                                                     \
      "a macaroon as JSON or of an unknown version; send v1 or v2 binary")                         \
    X(THIRD_PARTY, 401, "third_party", "the token has a third-party caveat; none is accepted")     \
    X(TOO_MANY, 401, "too_many", "the token has more than 64 caveats")                             \
    X(UNKNOWN_KEY, 401, "unknown_key", "the token names a key that is not in the key file")        \
    X(SIGNATURE, 401, "signature", "the signature does not fit the token")                         \
    X(EXPIRED, 401, "expired", "the time in 'exp' has passed")                                     \
    X(UNKNOWN_CAVEAT, 403, "unknown_caveat", "the token has a caveat of an unknown kind")          \
    X(BAD_CAVEAT, 403, "bad_caveat", "a caveat of the token has a value that is not well formed")  \
    X(AUDIENCE, 403, "audience", "the token is for another service ('aud')")                       \
    X(SCOPE, 403, "scope", "the token does not cover this action ('scope')")                       \
    X(ACCOUNT, 403, "account", "the token does not cover this account ('account')")                \
    X(ASSET, 403, "asset", "the token is for another asset ('asset')")                             \
    X(AMOUNT, 403, "amount", "the amount is above the token's ceiling ('max')")                    \
    X(TENANT, 403, "tenant", "the token is for another tenant ('tenant')")                         \
    X(AMNESIA, 403, "amnesia", "the token is for a service without memory ('amnesia')")            \
    X(REQUIRED, 403, "required", "the token lacks a caveat on which the service insists")

enum ron_cap_why {
#define X(name, http, label, doc) RON_CAP_##name,
    RON_CAP_WHY_TABLE(X)
#undef X
        RON_CAP_WHY_COUNT
};

/* The label for metrics and the error envelope, and a sentence for people. Never NULL. */
const char *ron_cap_why_label(enum ron_cap_why why);
const char *ron_cap_why_doc(enum ron_cap_why why);
/* 401 when another token is needed to know who asks, 403 when this one does not reach so far. */
int ron_cap_why_http(enum ron_cap_why why);

/* X(NAME, "name", reason when it does not hold, "value", "doc") */
#define RON_CAP_KIND_TABLE(X)                                                                      \
    X(AUD, "aud", AUDIENCE, "SERVICE", "the one service that may accept it")                       \
    X(SCOPE, "scope", SCOPE, "NAME[,NAME...]", "the actions it is good for, and those below them") \
    X(ACCOUNT, "account", ACCOUNT, "PREFIX",                                                       \
      "the account, and those below it; PREFIX* for all "                                          \
      "that begin so")                                                                             \
    X(ASSET, "asset", ASSET, "NAME", "the asset")                                                  \
    X(MAX, "max", AMOUNT, "AMOUNT", "the largest amount of one operation, in minor units")         \
    X(EXP, "exp", EXPIRED, "SECONDS", "Unix time from which it is void")                           \
    X(TENANT, "tenant", TENANT, "NAME", "the tenant")                                              \
    X(AMNESIA, "amnesia", AMNESIA, "true", "only where nothing is kept on disk")

enum ron_cap_kind {
#define X(name, text, why, value, doc) RON_CAP_KIND_##name,
    RON_CAP_KIND_TABLE(X)
#undef X
        RON_CAP_KIND_COUNT
};

const char *ron_cap_kind_name(enum ron_cap_kind kind); /* "aud" */
#define RON_CAP_KIND_BIT(kind) (UINT32_C(1) << (kind))

enum {
    RON_CAP_CAVEAT_MAX = 640,  /* bytes of a caveat of ours: the longest list of scopes fits */
    RON_CAP_NAME_MAX = 64,     /* an audience, asset, tenant, or one scope */
    RON_CAP_SCOPES_MAX = 16,   /* in one caveat: more than any service has actions */
    RON_CAP_SCOPES_LEN = 512,  /* bytes of such a list */
    RON_CAP_ACCOUNT_MAX = 256, /* what the ledger allows for an account */
    RON_CAP_SKEW_S = 5,        /* clocks of a fleet under NTP differ by far less */
};

struct ron_cap_caveat {
    enum ron_cap_kind kind;
    struct ron_str value; /* within the parsed text */
    uint64_t exp_s;       /* EXP */
    struct ron_money max; /* MAX */
};

/* What is asked for. Empty slices stand for "the request has none". */
struct ron_cap_request {
    struct ron_str audience; /* of the service that asks: "wallet" */
    struct ron_str scope;    /* the action: "wallet.transfer" */
    /* Every account that the request acts for; each must be covered. */
    const struct ron_str *accounts;
    size_t account_count;
    struct ron_str asset;
    struct ron_money amount;
    struct ron_str tenant;
    uint64_t now_ms; /* wall clock */
    bool amnesia;    /* the service keeps nothing on disk */
    /* RON_CAP_KIND_BIT of kinds that the token must have, such as EXP. Against tokens minted by
     * mistake: a holder may add any caveat, however wide. */
    uint32_t must_carry;
};

/* RON_CAP_OK, RON_CAP_UNKNOWN_CAVEAT or RON_CAP_BAD_CAVEAT. */
RON_MUST_USE enum ron_cap_why ron_cap_caveat_parse(const char *text, size_t len,
                                                   struct ron_cap_caveat *ret_caveat);

/* ---- grammar --------------------------------------------------------------------------------- */
