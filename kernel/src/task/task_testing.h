/* SPDX-License-Identifier: Apache-2.0 */
/* task_testing.h - what tests and benches ask of tasks; the product calls none of it. */
#pragma once

#include "ron/task/executor.h"
#include "ron/task/supervisor.h"
#include "ron/task/task.h"

struct ron_exec_stats {
    uint64_t runs;   /* handler calls */
    uint64_t polls;  /* poller waits */
    uint64_t sleeps; /* of them, with nothing to do */
    uint64_t wakes;  /* wake-ups sent to sleeping workers */
    uint64_t steals; /* tasks taken over */
};
void ron_exec_get_stats(const struct ron_exec *exec, struct ron_exec_stats *ret_stats);

/* Ends one task alone, for good: its input is closed, or its stop asked. */
void ron_sup_request_stop_task(struct ron_sup *sup, struct ron_task *t);

struct ron_task_stats {
    uint64_t starts;
    uint64_t restarts; /* service_restarts_total{task} */
    uint64_t handled;
    uint64_t jobs_failed;
    uint64_t stuck;
};
void ron_task_get_stats(const struct ron_task *t, struct ron_task_stats *ret_stats);

const char *ron_task_name(const struct ron_task *t);

const struct ron_env *ron_task_env(const struct ron_task *t);

/* Counts a message that could not be handled; the task goes on. */
void ron_task_job_failed(struct ron_task *t, const struct ron_err *err);
