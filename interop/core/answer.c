/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/answer.c - refusals as HTTP answers, and the check of a capability.
 *
 * A capability that does not suffice is recorded in the audit trail. */
#include "interop/core/core.h"

void iop_fail(struct ron_http_call *call, enum iop_error error, const char *detail)
{
    struct ron_http_error e = iop_http_error(error, detail);

    ron_http_fail_with(call, &e);
}

void iop_reply_fail(struct ron_http_reply *take_reply, enum iop_error error, const char *detail)
{
    struct ron_http_error e = iop_http_error(error, detail);

    ron_http_reply_fail_with(take_reply, &e);
}

bool iop_allowed(struct iop_core *c, struct ron_http_call *call, const char *scope,
                 uint64_t *ret_until_ms)
{
    struct ron_cap_info info = {0};
    enum ron_cap_why why =
        ron_app_auth_check(c->auth, call, scope, (struct ron_str){0}, &info, ret_until_ms);

    if (why != RON_CAP_OK) {
        enum iop_error error = why == RON_CAP_EXPIRED         ? IOP_ERROR_EXPIRED_TOKEN
                               : ron_cap_why_http(why) == 401 ? IOP_ERROR_UNAUTH
                                                              : IOP_ERROR_SCOPE_MISMATCH;

        iop_trail_denied(c, call, scope, error, info.log_id);
        iop_fail(call, error, ron_cap_why_doc(why));
    }
    return why == RON_CAP_OK;
}
