/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check.h - the self-check pipeline: a small service made of nothing but the kernel.
 *
 *     listener --work(512, reject)--> worker-0..n --results(512, wait)--> sink --events(1024
 *     bus)--> observer |                              | |
 *     +--audit(512, drop_oldest)--> auditor +--backlog(512, retry_once) --> clerk
 *
 * It has every kind of channel, both task modes and both roles, so that its topology documents the
 * kernel and its runs exercise it: under load, with failing workers, with a worker that hangs. At
 * the end it checks that nothing was lost: offered = accepted + refused, accepted = handled + left
 * over. */
#pragma once

#include "ron/base/buf.h"
#include "ron/task/supervisor.h"

struct kernel_check_opts {
    uint64_t workers;
    uint64_t rate_hz;
    uint64_t fail_every; /* a worker fails on every n-th message; 0 = never */
    uint64_t hang_after; /* a worker hangs for good on message n; 0 = never */
    uint64_t drain_ms;
    bool quiet;
};

struct kernel_check;

RON_MUST_USE enum ron_rc kernel_check_new(const struct kernel_check_opts *opts,
                                          struct kernel_check **ret_check, struct ron_err *err);
void kernel_check_free(struct kernel_check *k);
struct ron_registry *kernel_check_registry(struct kernel_check *k);
struct ron_sup *kernel_check_supervisor(struct kernel_check *k);
/* Runs until a stop is requested; returns the exit code. */
int kernel_check_run(struct kernel_check *k);
/* One line of counts; false when they do not add up. */
bool kernel_check_report(struct kernel_check *k);
