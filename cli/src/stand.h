/* SPDX-License-Identifier: Apache-2.0 */
/* stand.h - what `ron http` and `ron oap` stand on: registry, executor, supervisor, and the task
 * `answers` that answers requests behind the bounded queue `late`.
 *
 * Life: stand_begin, stand_build, stand_run, stand_end, stand_done. What the verb adds between
 * build and run is freed between end, when no task runs any more, and done, which frees the
 * registry. end and done take whatever was built, also after a failure.
 *
 * Ownership: a job belongs to the queue, then to the task, until the verb's answer or drop frees
 * it. */
#pragma once

#include "ron/task/supervisor.h"

enum {
    STAND_BYTES = 8 << 20, /* what a client may ask for at once */
    STAND_HELD_MAX = 1024,
    STAND_WORKERS_MAX = 16,
};

/* First member of the verb's own job. */
struct stand_job {
    bool never; /* held until nobody waits for it any more */
};

struct stand_opts {
    const char *verb;
    uint32_t workers;
    uint32_t queue_capacity;
    void (*on_event)(void *arg, const struct ron_sup_event *event);
    void *on_event_arg;
    void (*answer)(struct stand_job *take_job);
    void (*drop)(struct stand_job *take_job); /* answers 503 */
    bool (*cancelled)(struct stand_job *job);
};

struct stand {
    struct stand_opts opts;
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_chan *queue;
    char *bytes; /* STAND_BYTES times 'x' */
    /* Task `answers` only. */
    struct stand_job *held[STAND_HELD_MAX];
    size_t held_count;
};

/* Environment, registry and bytes. */
enum ron_rc stand_begin(struct stand *s, struct ron_err *err);
enum ron_rc stand_build(struct stand *s, const struct stand_opts *opts, struct ron_err *err);
/* Serves until a signal; the exit code. `hangup` may be NULL. The signals are blocked already. */
int stand_run(struct stand *s, const char *addr, void (*hangup)(void *arg), void *arg);
void stand_end(struct stand *s);
void stand_done(struct stand *s);
