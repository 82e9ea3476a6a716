/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of http and wire add to the supervisor of unit/task/fixture.h: a stage
 * that holds a drain, taking down in two steps, and calls that fail at random. */
#pragma once

#include "sync/sync_testing.h"
#include "unit/task/fixture.h"

/* ---- a stage that a drain waits for until the test lets it go -------------------------------- */

struct fx_stage {
    struct ron_au32 hold;
    struct fx_gate release;
};

static inline enum ron_rc fx_stage_run(struct ron_task *t, void *arg)
{
    struct fx_stage *stage = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);

    while (value != RON_TASK_STOP) {
        RON_TRY(ron_watch_wait(stop, seen, ron_deadline_never(), &value, &seen));
    }
    if (ron_au32_load(&stage->hold) != 0) {
        (void)fx_gate_reached(&stage->release, 1);
    }
    return RON_OK;
}

static inline void fx_stage_add(struct fx *fx, struct fx_stage *stage)
{
    fx_gate_init(&stage->release);
    (void)fx_add(fx, &(struct ron_task_def){.name = "stage",
                                            .kind = "worker",
                                            .mode = RON_TASK_BLOCKING,
                                            .run = fx_stage_run,
                                            .arg = stage});
}

/* ---- taking down: between the two the test frees what needs the registry --------------------- */

static inline void fx_end(struct fx *fx)
{
    ron_sup_free(fx->sup);
    assert_true(ron_exec_free(fx->exec));
}

static inline void fx_done(struct fx *take_fx)
{
    assert_int_equal(ron_registry_count(take_fx->reg), 0);
    assert_int_equal(ron_threads_live(), take_fx->threads_before);
    ron_registry_free(take_fx->reg);
    fx_gate_done(&take_fx->ended);
    fx_gate_done(&take_fx->logged);
    free(take_fx);
}

/* ---- calls that fail at random --------------------------------------------------------------- */

/* For a fault hook: true for one call in `one_in`, on the workers only. Which one is spread by a
 * hash: a fixed step would fall in step with the calls of a request and hit the same one each
 * time. */
static inline bool fx_fails_here(const char *site, uint64_t one_in)
{
    static struct ron_au64 calls;

    return strncmp(ron_thread_name(ron_thread_self()), "loop-", 5) == 0 &&
           strcmp(site, "epoll_wait") != 0 &&
           (ron_au64_add(&calls, 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % one_in == 0;
}
