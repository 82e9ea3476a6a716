/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/answer.c - refusals as HTTP answers; each is counted by its reason. */
#include "ron/base/assert.h"
#include "wallet/core/metrics.h"

static struct ron_http_error http_error(const struct wlt_fault *fault)
{
    RON_ASSERT_MSG(fault->reason != WLT_REASON_NONE, "a refusal has a reason");
    bool retryable = wlt_reason_retryable(fault->reason);
    uint32_t wait_s = fault->reason == WLT_REASON_UPSTREAM ? 2 : 1;

    return (struct ron_http_error){.status = wlt_reason_status(fault->reason),
                                   .code = wlt_reason_code(fault->reason),
                                   .message = fault->detail,
                                   .reason = wlt_reason_label(fault->reason),
                                   .retryable = retryable,
                                   .retry_after_s = retryable ? wait_s : 0};
}

void wlt_fail(struct wlt_site *s, struct ron_http_call *call, const struct wlt_fault *fault)
{
    struct ron_http_error error = http_error(fault);

    wlt_metrics_refused(s, fault->reason);
    ron_http_fail_with(call, &error);
}

void wlt_reply_fail(struct wlt_site *s, struct ron_http_reply *take_reply,
                    const struct wlt_fault *fault)
{
    struct ron_http_error error = http_error(fault);

    wlt_metrics_refused(s, fault->reason);
    ron_http_reply_fail_with(take_reply, &error);
}
