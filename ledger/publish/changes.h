/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/changes.h - which accounts a commit changed, as events
 * (docs/formats/ledger-oap.md).
 *
 * Place: ledger; plain code, owned by the committer.
 *
 * Rules:
 *   N1. Every account that an entry of the commit touched is named: `account`, `to`, and of a
 *       Reverse the `to` of the entry that it undoes.
 *   N2. The last event of a commit says so, and only it.
 *   N3. A name is told once or a few times: what was named a short while before is left out. */
#pragma once

#include "ledger/work/work.h"

enum {
    LED_CHANGES_EVENT_MAX = 4000, /* bytes; what the wire takes (RON_OAP_EVENT_BYTES_MAX) */
    LED_CHANGES_HEAD = 8 + 1 + 2, /* seq, last, count */
    LED_CHANGES_SEEN = 1024,      /* names that are remembered: 16 KiB, cleared for each commit */
};

struct led_changes {
    struct ron_str seen[LED_CHANGES_SEEN]; /* slices of the works at hand */
    size_t len;                            /* of the event */
    uint32_t count;                        /* names in it */
    uint8_t event[LED_CHANGES_EVENT_MAX];
};

/* Tells the accounts of a group that became durable up to `seq`, piece by piece. */
void led_changes_tell(struct led_changes *c, struct led_work *const *works, size_t count,
                      uint64_t seq, void (*tell)(void *arg, const void *event, size_t len),
                      void *arg);
