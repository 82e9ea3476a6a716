/* SPDX-License-Identifier: Apache-2.0 */
/* scn_task.h - an executor and a supervisor for scenarios about tasks.
 *
 * The watchdog is off: its periodic look would turn a lost wake-up from a deadlock, which is plain
 * to see, into a run that goes on for ever. */
#pragma once

#include "ron/base/assert.h"
#include "ron/task/supervisor.h"
#include "scenario/scn.h"
#include "scenario/scn_env.h"

struct scn_house {
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
};

static inline void scn_house_init(struct scn_house *h, uint32_t workers)
{
    struct ron_exec_opts exec_opts = {.env = &scn_env, .workers = workers};
    struct ron_sup_opts sup_opts = {.env = &scn_env,
                                    .drain_deadline_ms = RON_DRAIN_DEADLINE_MIN_MS};
    enum ron_rc rc;

    rc = ron_registry_new(&h->registry, NULL);
    RON_ASSERT(rc == RON_OK);
    exec_opts.registry = h->registry;
    rc = ron_exec_new(&exec_opts, &h->exec, NULL);
    RON_ASSERT(rc == RON_OK);
    sup_opts.registry = h->registry;
    sup_opts.exec = h->exec;
    rc = ron_sup_new(&sup_opts, &h->sup, NULL);
    RON_ASSERT(rc == RON_OK);
}

static inline struct ron_task *scn_house_add(struct scn_house *h, struct ron_task_def *def)
{
    struct ron_task *t = NULL;
    enum ron_rc rc;

    def->kind = "scenario";
    def->watchdog_ms = RON_WATCHDOG_OFF;
    rc = ron_sup_add(h->sup, def, &t, NULL);
    RON_ASSERT(rc == RON_OK);
    return t;
}

/* Supervises on the calling thread until somebody asks for the stop. Nothing may have been left
 * behind. */
static inline void scn_house_run(struct scn_house *h, int expected_exit)
{
    int code = ron_sup_run(h->sup);

    SCN_CHECK(code == expected_exit);
    SCN_CHECK(ron_sup_leaked(h->sup) == 0);
}

static inline void scn_house_done(struct scn_house *h)
{
    bool joined;

    ron_sup_free(h->sup);
    joined = ron_exec_free(h->exec);
    SCN_CHECK(joined);
    ron_registry_free(h->registry);
}
