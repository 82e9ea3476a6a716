/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/publish.h - where a commit is made known: signer, roots, and a listener.
 *
 * Place: ledger. Built by svc.c; constant while tasks run. */
#pragma once

#include "ledger/publish/roots.h"
#include "ledger/publish/sign.h"
#include "ledger/work/work.h"

struct led_publish {
    struct led_signer *signer;
    struct led_roots *roots;
    /* A durable group with entries. On the committer's thread, after the words for the sequencer
     * were set: a client that hears of a commit and asks reads it. NULL: there is no listener. */
    void (*on_commit)(void *arg, struct led_work *const *works, size_t count, uint64_t seq_last);
    void *arg;
};
