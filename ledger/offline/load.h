/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/offline/load.h - an NDJSON export into an empty ledger, without a service: sequencer and
 * committer driven by hand, to the same root.
 *
 * Place: ledger; plain code that blocks. Works are committed in groups as large as a frame takes.
 * The rules of the way are those of import.h. Keys go to the index as they become durable, so a
 * file may have any number of them.
 *
 * Invariant:
 *   P1. From before the first entry until the root agreed the directory is marked (recover/mark.h):
 *   a
 *       part of a ledger is never opened as one, and whoever tries is told to remove it.
 *
 * Threads: one. */
#pragma once

#include "ledger/recover/recover.h"

struct led_load;

/* All are borrowed. The engine, of that directory, must be empty: RON_CONFLICT. */
RON_MUST_USE enum ron_rc led_load_new(const struct ron_env *env, const char *dir,
                                      struct led_recovered *engine, struct led_load **ret_load,
                                      struct ron_err *err);
void led_load_free(struct led_load *load);
/* Bytes of the file, in any pieces. The first failure is final and names the line or entry. */
RON_MUST_USE enum ron_rc led_load_push(struct led_load *load, const void *bytes, size_t len,
                                       struct ron_err *err);
/* The file is over: commits what is left and compares root and numbers with its last line.
 * Whatever fails after the first commit leaves the mark. */
RON_MUST_USE enum ron_rc led_load_end(struct led_load *load, struct ron_err *err);
