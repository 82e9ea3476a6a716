/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - the latest value of something, and a way to wait until it changes.
 *
 * One writer, many readers. Values in between may be skipped; the last one is never missed: a
 * reader that subscribes late sees it at once. The version rises by one with each set, also when
 * the value is equal.
 *
 * The right loop:                                     The wrong one: v = ron_watch_get(w, &seen);
 * v = ron_watch_get(w, &seen); while (!good(v)) {                                  if (!good(v)) {
 * rc = ron_watch_wait(w, seen, d, &v, &seen);         rc = ron_watch_wait(w, current version...) }
 * } Always hand in the version that belongs to the value you looked at; otherwise a set between the
 * look and the wait is lost.
 *
 * ron_watch_value takes no lock and may be called from a probe while anything else is held. */
#pragma once

#include "ron/chan/registry.h"
#include "ron/chan/wait.h"

struct ron_watch;

struct ron_watch_opts {
    struct ron_registry *registry;
    const char *name;
    const char *producers;
    const char *consumers;
    uint64_t value; /* first value, at version 1 */
};

RON_MUST_USE enum ron_rc ron_watch_new(const struct ron_watch_opts *opts,
                                       struct ron_watch **ret_watch, struct ron_err *err);
void ron_watch_free(struct ron_watch *w);

/* Last write wins. Never blocks. */
void ron_watch_set(struct ron_watch *w, uint64_t value);
uint64_t ron_watch_value(const struct ron_watch *w);
/* Value and the version that belongs to it. */
uint64_t ron_watch_get(struct ron_watch *w, uint64_t *ret_version);

/* Waits until the version differs from `seen`. RON_OK, RON_TIMEOUT, RON_CANCELLED. Blocking
 * point. */
RON_MUST_USE enum ron_rc ron_watch_wait(struct ron_watch *w, uint64_t seen,
                                        struct ron_deadline deadline, uint64_t *ret_value,
                                        uint64_t *ret_version);
