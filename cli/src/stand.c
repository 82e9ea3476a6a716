/* SPDX-License-Identifier: Apache-2.0 */
/* stand.c - the stand of the verbs that exercise a front; contract in stand.h. */
#include "stand.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"
#include "ron/task/signals.h"

enum { LOOK_MS = 20 /* between two looks at the held jobs */ };

/* ---- the task that answers ------------------------------------------------------------------- */

static void drop_item(void *item, void *arg)
{
    struct stand *s = arg;

    s->opts.drop(item);
}

/* Gives back the held jobs that nobody waits for any more; all of them when `force`. */
static void look_at_held(struct ron_task *t, struct stand *s, bool force)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->held_count; i++) {
        if (force || s->opts.cancelled(s->held[i])) {
            s->opts.drop(s->held[i]);
        } else {
            s->held[kept++] = s->held[i];
        }
    }
    s->held_count = kept;
    ron_task_wake_at(t, kept > 0 && !force ? ron_task_now_ms(t) + LOOK_MS : UINT64_MAX);
}

static enum ron_rc answers_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stand *s = arg;

    for (size_t i = 0; i < count; i++) {
        struct stand_job *job = items[i];

        if (!job->never) {
            s->opts.answer(job);
        } else if (s->held_count < STAND_HELD_MAX) {
            s->held[s->held_count++] = job;
        } else {
            s->opts.drop(job);
        }
    }
    if (s->held_count > 0) {
        look_at_held(t, s, false);
    }
    return RON_OK;
}

static void answers_stop(struct ron_task *t, void *arg)
{
    look_at_held(t, arg, true);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc stand_begin(struct stand *s, struct ron_err *err)
{
    s->env = ron_env_linux();
    s->bytes = ron_alloc(STAND_BYTES);
    if (s->bytes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory");
    }
    memset(s->bytes, 'x', STAND_BYTES);
    return ron_registry_new(&s->registry, err);
}

enum ron_rc stand_build(struct stand *s, const struct stand_opts *opts, struct ron_err *err)
{
    struct ron_task *task = NULL;

    s->opts = *opts;
    RON_TRY(ron_exec_new(
        &(struct ron_exec_opts){.env = s->env, .registry = s->registry, .workers = opts->workers},
        &s->exec, err));
    RON_TRY(ron_sup_new(&(struct ron_sup_opts){.env = s->env,
                                               .registry = s->registry,
                                               .exec = s->exec,
                                               .on_event = opts->on_event,
                                               .on_event_arg = opts->on_event_arg},
                        &s->sup, err));
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = s->registry,
                                                 .env = s->env,
                                                 .name = "late",
                                                 .producers = opts->verb,
                                                 .consumers = "answers",
                                                 .drop_text = "answered 503 draining",
                                                 .capacity = opts->queue_capacity,
                                                 .policy = RON_CHAN_REJECT,
                                                 .drop = drop_item,
                                                 .drop_arg = s},
                         &s->queue, err));
    return ron_sup_add(s->sup,
                       &(struct ron_task_def){.name = "answers",
                                              .kind = "worker",
                                              .worker = RON_WORKER_ANY,
                                              .input = s->queue,
                                              .handle = answers_handle,
                                              .stop = answers_stop,
                                              .arg = s},
                       &task, err);
}

int stand_run(struct stand *s, const char *addr, void (*hangup)(void *arg), void *arg)
{
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code;

    if (ron_signals_start(s->sup, hangup, arg, &signals, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", s->opts.verb, err.msg);
        return CLI_FAILED;
    }
    printf("listening on %s\n", addr);
    (void)fflush(stdout);
    code = ron_sup_run(s->sup);
    ron_signals_stop(signals);
    return code;
}

void stand_end(struct stand *s)
{
    if (s->sup != NULL) {
        ron_sup_free(s->sup);
    }
    if (s->exec != NULL) {
        (void)ron_exec_free(s->exec);
    }
    if (s->queue != NULL) {
        ron_chan_free(s->queue);
    }
}

void stand_done(struct stand *s)
{
    if (s->registry != NULL) {
        ron_registry_free(s->registry);
    }
    ron_free(s->bytes);
}
