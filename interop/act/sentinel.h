/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/sentinel.h - the brownout sentinel: judges evidence and queues each second, sets the
 * gate of the bridges, and reports readiness.
 *
 * Ownership: svc.c; `core` to `acts` are set before the task is added. Threads: its own task. */
#pragma once

#include "interop/act/act.h"
#include "interop/hook/hook.h"
#include "interop/object/objects.h"

#define IOP_SENTINEL_MAGIC 0x4953454eu /* "ISEN" */

struct iop_sentinel {
    uint32_t magic;
    struct iop_core *core;
    struct iop_bridge *bridge;
    struct iop_mail *mail;
    struct iop_objects *objects;
    struct iop_hooks *hooks;
    struct iop_acts *acts;
    struct ron_need *need_queues;
    struct ron_need *need_brownout;
    uint64_t next_tick_ms;
    uint64_t tick_ms;
};

/* The gate, all readiness causes of the service, and the task. */
RON_MUST_USE enum ron_rc iop_sentinel_add(struct iop_sentinel *s, struct ron_err *err);
