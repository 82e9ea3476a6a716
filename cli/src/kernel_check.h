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

#include "ron/app/app.h"

#define KERNEL_CONF(X)                                                                             \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7080")                                                          \
    X(KERNEL_RATE, "rate", INT, "messages/s", 0, 100000000, "1000", RON_CONF_FIXED,                \
      "Messages that the listener offers; 0 leaves the pipeline idle.")                            \
    X(KERNEL_PIPELINE, "pipeline", INT, "workers", 1, 16, "2", RON_CONF_FIXED,                     \
      "Worker tasks of the pipeline.")                                                             \
    X(KERNEL_STOP_AFTER, "stop_after", DURATION, "", 0, RON_CONF_H(24), "0s", RON_CONF_FIXED,      \
      "Drain and exit after this long; 0 waits for a signal.")                                     \
    X(KERNEL_FAIL_EVERY, "fail_every", INT, "messages", 0, UINT32_MAX, "0", RON_CONF_RELOAD,       \
      "Let a worker fail on every n-th message; 0 never does.")                                    \
    X(KERNEL_HANG_AFTER, "hang_after", INT, "messages", 0, UINT32_MAX, "0", RON_CONF_FIXED,        \
      "Let a worker hang for good on the n-th message; 0 never does.")                             \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "10s")                                                                \
    RON_APP_KEYS_REST(X)

enum { KERNEL_CONF(RON_CONF_ID) KERNEL_CONF_COUNT };

/* `ron kernel` as a service. */
extern const struct ron_app_def kernel_app;
