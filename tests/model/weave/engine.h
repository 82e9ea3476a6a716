/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - what the parts of weave know about each other; not for scenarios.
 *
 *   engine.c     fibers, points, waiting, virtual time: one schedule
 *   strategy.c   how a choice is made and what the next schedule is
 *   reduce.c     which points cannot matter
 *   heap.c       malloc during a schedule
 *   report.c     steps and failures as text
 *   explore.c    many schedules, child processes, shrinking
 *   sync_weave.c ron/sync/sync.h on top of engine.c */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fiber.h"
#include "ron/base/ctx.h"
#include "weave.h"

enum { WEAVE_HELD_MAX = 8, WEAVE_NAME_SIZE = 16 };

/* FREE --spawn--> READY <--wake-- WAITING ; READY --wait--> WAITING ; READY --end--> DONE --reap-->
 * FREE */
enum weave_state { WEAVE_FREE, WEAVE_READY, WEAVE_WAITING, WEAVE_DONE };

struct weave_fiber {
    struct fiber stack;
    uint32_t id;
    enum weave_state state;
    char name[WEAVE_NAME_SIZE];
    void (*fn)(void *);
    void *arg;
    struct ron_ctx *ctx; /* the kernel's record of what this flow did; swapped in with the fiber */
    /* READY: runs only while *gate is NULL (a mutex it asks for). NULL: no condition. */
    void *const *gate;
    const char *gate_name;
    /* WAITING. */
    const void *wait_obj;
    const char *wait_what;
    uint64_t deadline_ns;
    /* Set when a deadline and not a wake ended the wait. */
    bool timed_out;
    /* The virtual clock shows at least this when the fiber runs again. */
    uint64_t wake_ns;
    /* Locks held, for reduce.c. */
    const void *held[WEAVE_HELD_MAX];
    uint32_t held_count;
    bool started;
    /* Nothing that others can notice has happened since it was chosen to run. */
    bool fresh;
    /* Goes on before any choice is made, and has not yet come to something that others can
     * notice. */
    bool eager;
    uint64_t priority; /* PCT */
};

/* How a wait ends when it is not by a wake; also the order of options in the choice at its
 * start. */
enum weave_wait_end { WEAVE_END_WAKE, WEAVE_END_SPURIOUS, WEAVE_END_TIMEOUT };

struct weave_wait {
    const void *obj;
    const char *what;
    uint64_t deadline_ns; /* UINT64_MAX = none */
    bool may_be_spurious;
    void *const *gate; /* reopens only when *gate is NULL: the mutex of a condition */
    const char *gate_name;
};

/* ---- engine.c -------------------------------------------------------------------------------- */

/* Runs body(arg) once as fiber 0 until all fibers are done. False when it failed (ret says how). */
bool engine_run(weave_body *body, void *arg, const struct weave_opts *opts,
                struct weave_result *ret);
/* From now on a failure leaves the process with this exit code instead of returning. */
void engine_exit_on_failure(int code);
/* For signal handlers: records a crash in the result of the running schedule. Async-signal-safe. */
void engine_record_crash(const char *kind, int signal_number);

struct weave_fiber *weave_self(void);
/* NULL when there are WEAVE_FIBERS_MAX fibers. The caller sets ->ctx. */
struct weave_fiber *weave_spawn(const char *name, void (*fn)(void *), void *arg);
/* A DONE fiber's place may be used again. */
void weave_reap(struct weave_fiber *f);
uint32_t weave_live(void);

/* An operation that others may notice is about to happen on addr. weave_point of sync.h is this
 * without a name. Returns when the fiber is to go on. */
void weave_op(const char *what, const void *addr, const char *name);
/* The same, and *gate is NULL when it returns. */
void weave_op_gated(const char *what, const void *addr, const char *name, void *const *gate);
/* Stops the fiber until weave_wake, its deadline, or for no reason. */
enum weave_wait_end weave_wait(const struct weave_wait *w);
/* WAITING on obj, in order of fiber number; at most max. */
uint32_t weave_waiters(const void *obj, struct weave_fiber **ret, uint32_t max);
void weave_wake(struct weave_fiber *f);
/* The same for a fiber that waits for the end of the running one. */
void weave_wake_joiner(struct weave_fiber *f);
/* The running fiber has just done something that others can notice, outside of an announced
 * operation. */
void weave_effect(void);
/* The running fiber has let go of a lock. A point only if opts->unlock_points. */
void weave_unlocked(const void *lock, const char *name);
void weave_hold(const void *lock);
void weave_drop(const void *lock);

/* ---- strategy.c ------------------------------------------------------------------------------ */

/* Before the first schedule; the tape is written through `tape`. */
void strategy_start(const struct weave_opts *opts, struct weave_tape *tape);
void strategy_begin(void); /* of a schedule */
void strategy_calm(bool calm);
/* After a schedule: prepares the next one; false when there is none. */
bool strategy_next(void);
/* Throws away what DFS has visited: the set of points has changed. */
void strategy_restart(void);

/* Option 0..n-1, of which only 0..allowed-1 may be explored. */
uint32_t strategy_value(uint32_t n, uint32_t allowed);
/* Which of cand[0..n) runs next. `preempts`: cand[0] is running and could go on. */
uint32_t strategy_fiber(struct weave_fiber *const *cand, uint32_t n, bool preempts);
/* A point at which the running fiber could go on: true when the choice is "go on" whatever the
 * candidates are, which is then already on the tape. */
bool strategy_pass(bool matters);
uint32_t strategy_depth(void);
void strategy_priority(struct weave_fiber *f);

/* ---- reduce.c -------------------------------------------------------------------------------- */

void reduce_start(void);
/* Notes an operation of f on addr; false when no other fiber can notice when it happens. */
bool reduce_matters(const struct weave_fiber *f, const void *addr);
/* f has freed this memory: an operation of f on every address in it. */
void reduce_freed(const struct weave_fiber *f, const void *start, size_t size);
/* True once after an operation that was thought not to matter turned out to. */
bool reduce_changed(void);

/* ---- heap.c ---------------------------------------------------------------------------------- */

/* Between the two malloc and its family work on a heap of the schedule's own. */
void heap_begin(void);
void heap_end(void);
/* What is wrong with the blocks of this schedule, or NULL. */
const char *heap_complaint(void);

/* ---- report.c -------------------------------------------------------------------------------- */

void report_begin(void); /* of a schedule */
/* One line of a trace. The object is shown by its name, else by a number. */
void report_step(const struct weave_fiber *f, uint64_t step, const char *what, const void *obj,
                 const char *name);
/* Who waits for what, as text. */
void report_waiting(const struct weave_fiber *fibers, uint32_t count, char *text, size_t size);
/* Async-signal-safe. */
void report_crash(struct weave_result *ret, const char *kind, int signal_number, const char *name);

/* ---- sync_weave.c ---------------------------------------------------------------------------- */

/* Forgets all threads; called before each schedule. */
void sync_weave_reset(void);
/* The context for the fiber of the body. */
struct ron_ctx *sync_weave_adopt_body(struct weave_fiber *f);
