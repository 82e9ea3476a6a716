/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/auth.c - whether a capability allows a read or a write.
 *
 * Every check names the audience `wallet`, so that a token for another service is refused. */
#include <string.h>

#include "wallet/core/core.h"

static const struct ron_str audience = {"wallet", 6};

static void deny(struct wlt_fault *ret, enum ron_cap_why why)
{
    wlt_fault_set(ret, ron_cap_why_http(why) == 401 ? WLT_REASON_UNAUTH : WLT_REASON_FORBIDDEN,
                  "capability", ron_cap_why_doc(why));
}

enum ron_cap_why wlt_auth_bearer(struct ron_http_call *call, struct ron_str *ret)
{
    struct ron_str value = {0};

    RON_IGNORE(ron_http_field_get(ron_http_head(call), "authorization", &value));
    return ron_cap_bearer(value, ret);
}

bool wlt_auth_token(struct wlt_site *s, struct ron_str token, struct ron_arena *arena,
                    struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                    struct wlt_fault *ret_fault)
{
    uint64_t now_ms = ron_env_wall_ms(s->env);
    enum ron_cap_why why = ron_cap_verifier_open(ron_app_auth_verifier(s->auth), token, now_ms,
                                                 arena, ret_grant, ret_info);

    if (why == RON_CAP_OK) {
        why =
            ron_cap_grant_allows(ret_grant, RON_CAP_KIND_BIT(RON_CAP_KIND_AUD),
                                 &(struct ron_cap_request){.audience = audience, .now_ms = now_ms});
    }
    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
    }
    return why == RON_CAP_OK;
}

bool wlt_auth_open(struct wlt_site *s, struct ron_http_call *call, struct ron_arena *arena,
                   struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                   struct wlt_fault *ret_fault)
{
    struct ron_str token = {0};
    enum ron_cap_why why = wlt_auth_bearer(call, &token);

    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
        return false;
    }
    return wlt_auth_token(s, token, arena, ret_grant, ret_info, ret_fault);
}

static enum ron_cap_why allows(const struct wlt_site *s, const struct ron_cap_grant *grant,
                               uint32_t kinds, const char *scope, struct ron_str account,
                               struct ron_str asset, struct ron_money amount)
{
    return ron_cap_grant_allows(grant, kinds,
                                &(struct ron_cap_request){.audience = audience,
                                                          .scope = {scope, strlen(scope)},
                                                          .accounts = &account,
                                                          .account_count = account.len > 0,
                                                          .asset = asset,
                                                          .amount = amount,
                                                          .now_ms = ron_env_wall_ms(s->env),
                                                          .amnesia = s->amnesia});
}

static bool may_read(struct wlt_site *s, const struct ron_cap_grant *grant, uint32_t kinds,
                     struct ron_str account, struct ron_str asset, struct wlt_fault *ret_fault)
{
    enum ron_cap_why why = allows(s, grant, kinds, "wallet.read", account, asset, RON_MONEY_ZERO);

    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
    }
    return why == RON_CAP_OK;
}

bool wlt_auth_read(struct wlt_site *s, const struct ron_cap_grant *grant, struct ron_str account,
                   struct ron_str asset, struct wlt_fault *ret_fault)
{
    return may_read(s, grant, RON_CAP_KINDS_ALL, account, asset, ret_fault);
}

bool wlt_auth_outcome(struct wlt_site *s, const struct ron_cap_grant *grant, struct ron_str account,
                      struct wlt_fault *ret_fault)
{
    return may_read(s, grant, RON_CAP_KINDS_ALL & ~RON_CAP_KIND_BIT(RON_CAP_KIND_ASSET), account,
                    (struct ron_str){0}, ret_fault);
}

bool wlt_auth_write(struct wlt_site *s, const struct ron_cap_grant *grant,
                    const struct wlt_call *call, struct wlt_fault *ret_fault)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wlt_operation *o = &call->ops[i];
        struct ron_str subject = wlt_operation_subject(o);
        enum ron_cap_why why = allows(s, grant, RON_CAP_KINDS_ALL, wlt_op_info(o->op)->scope,
                                      subject, o->asset, o->amount);

        /* Who may transfer may also set aside, which takes away less. */
        if (why == RON_CAP_SCOPE &&
            (o->op == WLT_HOLD || o->op == WLT_CAPTURE || o->op == WLT_RELEASE)) {
            why = allows(s, grant, RON_CAP_KINDS_ALL, "wallet.transfer", subject, o->asset,
                         o->amount);
        }
        if (why != RON_CAP_OK) {
            deny(ret_fault, why);
            return false;
        }
    }
    return true;
}
