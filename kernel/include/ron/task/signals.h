/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - the one place where signals arrive.
 *
 * All signals that mean something are blocked in every thread and taken by one thread named
 * "signals", which still works when everything else is stuck. SIGINT and SIGTERM request a drain; a
 * second one exits at once with 128 + its number. SIGHUP calls `on_hangup` (reload). SIGPIPE is
 * ignored. */
#pragma once

#include "ron/task/supervisor.h"

/* First thing in main, before any thread exists: threads inherit the mask. */
void ron_signals_block(void);

struct ron_signals;
RON_MUST_USE enum ron_rc ron_signals_start(struct ron_sup *sup, void (*on_hangup)(void *arg),
                                           void *arg, struct ron_signals **ret_signals,
                                           struct ron_err *err);
void ron_signals_stop(struct ron_signals *s);
