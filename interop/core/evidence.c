/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/evidence.c - evidence from calls, and the gate; contract in evidence.h. */
#include "interop/core/evidence.h"

#include "interop/core/metrics.h"
#include "ron/base/assert.h"

void iop_upstream(struct iop_bridge *b, const char *service, const char *op, bool good,
                  uint64_t took_ns)
{
    iop_observe_rpc(b->core, service, op, good, took_ns);
    ron_mutex_lock(&b->mu);
    iop_brownout_call(&b->brownout, ron_env_now_ns(b->core->env) / RON_NS_PER_MS, !good,
                      took_ns / RON_NS_PER_MS);
    ron_mutex_unlock(&b->mu);
}

bool iop_bridge_open(struct iop_bridge *b, struct ron_http_call *call)
{
    RON_ASSERT(b->gate != NULL);
    bool open = ron_watch_value(b->gate) == 0;
    bool probe = false;

    if (!open) {
        ron_mutex_lock(&b->mu);
        open =
            iop_brownout_admit(&b->brownout, ron_env_now_ns(b->core->env) / RON_NS_PER_MS, &probe);
        ron_mutex_unlock(&b->mu);
    }
    if (!open) {
        iop_fail(call, IOP_ERROR_BROWNOUT, NULL);
    }
    return open;
}
