/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/evidence.h - the gate of the bridges, and the evidence that opens and closes it.
 *
 * Every call to an upstream reports its outcome here; the sentinel (act/sentinel.c) judges the
 * evidence each second and sets `gate`, which every bridge request reads. Shed requests are not
 * calls, so a brownout cannot prolong itself.
 *
 * Ownership: svc.c. Threads: any; one short lock (rank leaf) guards the evidence. */
#pragma once

#include "interop/core/brownout.h"
#include "interop/core/core.h"
#include "ron/chan/watch.h"

struct iop_bridge {
    struct iop_core *core;
    struct ron_mutex mu; /* guards `brownout` */
    struct iop_brownout brownout;
    struct ron_watch *gate; /* 1: requests are shed */
};

/* The end of a call to another service, or to the mailbox: metrics and evidence. */
void iop_upstream(struct iop_bridge *b, const char *service, const char *op, bool good,
                  uint64_t took_ns);
/* Whether bridges take requests now; false: it has been answered. */
bool iop_bridge_open(struct iop_bridge *b, struct ron_http_call *call);
