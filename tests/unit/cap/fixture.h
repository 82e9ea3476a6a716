/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of cap share: keys without a file, random caveats, and a plain model
 * of what they mean. */
#pragma once

#include "support/support.h"

#include "ron/cap/cap.h"
#include "ron/io/linux_env.h"
#include "support/cap_keys.h"

/* A function, as its argument is often a random pick. */
static inline struct ron_str STR(const char *text) {
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

enum {
    CAP_NOW_S = 1800000000
};

static inline struct ron_cap_keys *cap_keys(void)
{
    struct ron_cap_keys *keys = NULL;

    assert_int_equal(ron_cap_keys_ephemeral(ron_env_linux(), &keys, NULL), RON_OK);
    return keys;
}

/* A token's text with its NUL. */
struct cap_text {
    char s[RON_CAP_TEXT_MAX + 1];
};

static inline struct cap_text cap_minted(const struct ron_cap_keys *keys,
                                         const char *const *caveats, size_t count)
{
    struct ron_str list[RON_CAP_CAVEATS_MAX];
    struct cap_text text;
    struct ron_buf out;
    struct ron_err err = {0};

    for (size_t i = 0; i < count; i++) {
        list[i] = STR(caveats[i]);
    }
    ron_buf_init_over(&out, text.s, sizeof text.s);
    if (ron_cap_mint(keys, ron_env_linux(),
                     &(struct ron_cap_mint_opts){.caveats = list, .caveat_count = count}, &out,
                     &err) != RON_OK) {
        fail_msg("mint: %s", err.msg);
    }
    (void)ron_buf_text(&out);
    return text;
}

static inline struct cap_text cap_narrowed(const char *token, const char *caveat)
{
    struct ron_str one = STR(caveat);
    struct cap_text text;
    struct ron_buf out;
    struct ron_err err = {0};

    ron_buf_init_over(&out, text.s, sizeof text.s);
    if (ron_cap_attenuate(STR(token), 0, &one, 1, &out, &err) != RON_OK) {
        fail_msg("attenuate: %s", err.msg);
    }
    (void)ron_buf_text(&out);
    return text;
}

/* ---- random caveats and requests over small alphabets, so that they meet --------------------- */

static const char *const cap_auds[] = {"wallet", "ledger", "edge"};
static const char *const cap_scopes[] = {"wallet",        "wallet.issue", "wallet.issue.rewarder",
                                         "wallet.issuer", "ledger.read",  "wallet.transfer"};
static const char *const cap_accounts[] = {
    "t:demo", "t:demo/u:alice", "t:demo/u:alice/w", "t:demo/u:alic*", "t:", "t:demo/u:alice2"};
static const char *const cap_assets[] = {"roc", "usd"};
static const char *const cap_tenants[] = {"acme", "umbrella"};

struct cap_caveat_text {
    char s[128];
};

static inline const char *cap_pick(struct ron_rand *r, const char *const *list, size_t count)
{
    return list[ron_rand_below(r, count)];
}
#define CAP_PICK(r, list) cap_pick((r), (list), RON_ARRAY_LEN(list))

static inline struct cap_caveat_text cap_random_caveat(struct ron_rand *r)
{
    struct cap_caveat_text c;

    switch (ron_rand_below(r, 8)) {
    case 0:
        (void)snprintf(c.s, sizeof c.s, "aud = %s", CAP_PICK(r, cap_auds));
        break;
    case 1: {
        const char *first = CAP_PICK(r, cap_scopes);
        const char *second = CAP_PICK(r, cap_scopes);

        (void)snprintf(c.s, sizeof c.s, "scope = %s%s%s", first,
                       strcmp(first, second) == 0 ? "" : ",",
                       strcmp(first, second) == 0 ? "" : second);
        break;
    }
    case 2:
        (void)snprintf(c.s, sizeof c.s, "account = %s", CAP_PICK(r, cap_accounts));
        break;
    case 3:
        (void)snprintf(c.s, sizeof c.s, "asset = %s", CAP_PICK(r, cap_assets));
        break;
    case 4:
        (void)snprintf(c.s, sizeof c.s, "max = %u", (unsigned)ron_rand_below(r, 4) * 50);
        break;
    case 5:
        (void)snprintf(c.s, sizeof c.s, "exp = %u",
                       CAP_NOW_S - 10 + (unsigned)ron_rand_below(r, 20));
        break;
    case 6:
        (void)snprintf(c.s, sizeof c.s, "tenant = %s", CAP_PICK(r, cap_tenants));
        break;
    default:
        (void)snprintf(c.s, sizeof c.s, "amnesia = true");
        break;
    }
    return c;
}

/* The account stands in *account, to which the request points. */
static inline struct ron_cap_request cap_random_request(struct ron_rand *r, struct ron_str *account)
{
    struct ron_cap_request q = {.audience = STR(CAP_PICK(r, cap_auds)),
                                .scope = STR(CAP_PICK(r, cap_scopes)),
                                .amount = ron_money_of(ron_rand_below(r, 160)),
                                .now_ms = (uint64_t)CAP_NOW_S * 1000,
                                .amnesia = ron_rand_chance(r, 1, 2)};

    *account = STR(cap_accounts[ron_rand_below(r, 3)]);
    q.accounts = account;
    q.account_count = ron_rand_chance(r, 9, 10);
    if (ron_rand_chance(r, 9, 10)) {
        q.asset = STR(CAP_PICK(r, cap_assets));
    }
    if (ron_rand_chance(r, 9, 10)) {
        q.tenant = STR(CAP_PICK(r, cap_tenants));
    }
    return q;
}

/* ---- the model: C strings, one caveat at a time, nothing shared with the code under test ----- */

static inline bool cap_model_equal(struct ron_str s, const char *text)
{
    return s.len == strlen(text) && strncmp(s.ptr, text, s.len) == 0;
}

/* Whether `below` is `above`, or `above` followed by one of the marks and anything. */
static inline bool cap_model_below(const char *above, struct ron_str below, const char *marks)
{
    size_t len = strlen(above);
    bool open = len > 0 && strchr(marks, above[len - 1]) != NULL;

    return below.len >= len && strncmp(above, below.ptr, len) == 0 &&
           (open || below.len == len || strchr(marks, below.ptr[len]) != NULL);
}

static inline bool cap_model_holds(const char *caveat, const struct ron_cap_request *q)
{
    char text[128];
    const char *value;

    (void)snprintf(text, sizeof text, "%s", caveat);
    value = strstr(text, " = ") + 3;
    if (strncmp(text, "aud", 3) == 0) {
        return cap_model_equal(q->audience, value);
    }
    if (strncmp(text, "scope", 5) == 0) {
        bool any = false;
        char *save = NULL;

        for (char *name = strtok_r(text + 8, ",", &save); name != NULL;
             name = strtok_r(NULL, ",", &save)) {
            any = any || cap_model_below(name, q->scope, ".");
        }
        return any;
    }
    if (strncmp(text, "account", 7) == 0) {
        size_t len = strlen(text);

        if (q->account_count == 0) {
            return false;
        }
        if (text[len - 1] == '*') {
            text[len - 1] = '\0';
            return strncmp(value, q->accounts[0].ptr, strlen(value)) == 0;
        }
        return cap_model_below(value, q->accounts[0], ":/");
    }
    if (strncmp(text, "asset", 5) == 0) {
        return cap_model_equal(q->asset, value);
    }
    if (strncmp(text, "max", 3) == 0) {
        return (uint64_t)q->amount.v <= strtoull(value, NULL, 10);
    }
    if (strncmp(text, "exp", 3) == 0) {
        return q->now_ms / 1000 < strtoull(value, NULL, 10) + 5;
    }
    if (strncmp(text, "tenant", 6) == 0) {
        return cap_model_equal(q->tenant, value);
    }
    return q->amnesia;
}
