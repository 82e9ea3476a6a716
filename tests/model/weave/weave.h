/* SPDX-License-Identifier: Apache-2.0 */
/* weave.h - a loom for our C: runs a piece of concurrent code under every schedule that matters.
 *
 * The code under test is the real kernel, built with RON_MODEL=1: its threads are fibers on one
 * thread, and each operation that another thread could notice is a *point* at which weave may go on
 * with another fiber. Everything that is not determined is a *choice* made by one function and
 * written on a *tape*: which fiber runs next, which waiter a signal wakes, whether a wait returns
 * for no reason, whether a timed wait times out early, whether an allocation fails. A run is a
 * function of its tape, so a failing one can be replayed, shrunk and read.
 *
 * Choice 0 is always the dull one (go on with the same fiber, no timeout, no failure). A tape is
 * therefore written as the few places that differ: "1f:1,2a:2" means choice 0x1f took option 1,
 * choice 0x2a option 2.
 *
 * How choices are made (enum weave_mode): DFS       all of them, depth first, with at most
 * `preemptions_max` preemptions per schedule; RANDOM    uniformly, from a seed; PCT       random
 * priorities with `pct_depth` - 1 changes: finds a bug of that depth with known probability; REPLAY
 * from a tape; SIMULATE  from a seed, for long runs: preempts seldom, and time passes only when
 * nothing can run.
 *
 * What is a failure: a deadlock (nobody can run, somebody is not done), a livelock (`steps_max`), a
 * crash or assertion, a failed check, memory not given back at the end of a schedule or used after
 * it was freed.
 *
 * Threads of one name are taken to be interchangeable: weave starts them in the order in which they
 * were made. Give different names to threads that differ in what they do.
 *
 * Threads: one. The body must be deterministic apart from its choices; weave notices when it is
 * not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/macros.h"

enum {
    /* As many as the kernel has thread records, so that this is never the first limit to be met. */
    WEAVE_FIBERS_MAX = 256,
    /* Choices in one explored schedule. The scenarios need some hundreds. */
    WEAVE_TAPE_MAX = 1 << 16,
    WEAVE_STEPS_DEFAULT = 20000,
    WEAVE_MESSAGE_MAX = 1024,
};

enum weave_mode { WEAVE_DFS, WEAVE_RANDOM, WEAVE_PCT, WEAVE_REPLAY, WEAVE_SIMULATE };

struct weave_tape {
    uint32_t len;
    uint8_t pick[WEAVE_TAPE_MAX]; /* option taken at each choice; 0 beyond len */
};

struct weave_opts {
    enum weave_mode mode;
    uint32_t preemptions_max; /* DFS only */
    uint32_t spurious_max;    /* waits per schedule that return for no reason */
    uint32_t timeouts_max;    /* timed waits per schedule that time out while others could run */
    uint32_t alloc_fail_max;  /* allocations per schedule that fail */
    uint64_t steps_max;       /* 0 = WEAVE_STEPS_DEFAULT; in SIMULATE 0 = no limit */
    uint64_t schedules_max;   /* 0 = no limit, which for RANDOM and PCT needs budget_s */
    uint32_t budget_s;        /* 0 = no limit */
    uint64_t seed;
    uint32_t pct_depth;            /* PCT; 0 = 3 */
    uint32_t preempt_every;        /* SIMULATE: mean number of points between preemptions; 0 = 64 */
    bool all_points;               /* do not leave out points that cannot matter (reduce.h) */
    bool unlock_points;            /* also switch just after an unlock; see the README */
    bool allow_leak;               /* do not fail on memory kept at the end of a schedule */
    bool trace;                    /* print each operation to standard error */
    const struct weave_tape *tape; /* REPLAY */
};

struct weave_result {
    bool failed;
    bool exhaustive; /* DFS: every schedule within the bounds was run */
    char
        kind[16]; /* "deadlock", "livelock", "check", "crash", "hang", "leak", "heap", "unsteady" */
    char message[WEAVE_MESSAGE_MAX];
    uint64_t schedules;
    uint64_t steps;
    uint64_t seen;      /* marks set by weave_saw in any schedule */
    uint32_t depth_max; /* most choices in one schedule */
    uint64_t elapsed_ms;
    uint64_t clock_end_ns;  /* virtual time at the end of the last schedule */
    struct weave_tape tape; /* of the failing schedule, or of the last one */
};

typedef void weave_body(void *arg);

/* ---- running --------------------------------------------------------------------------------- */

/* Runs schedules of body(arg) in this process until one fails or the bounds are reached. An
 * assertion in the body ends the process. The result is large: keep it off small stacks. */
void weave_explore(weave_body *body, void *arg, const struct weave_opts *opts,
                   struct weave_result *ret);

/* The same in a child process, so that a crash is a result like any other. `quiet` closes the
 * child's standard error. */
void weave_explore_isolated(weave_body *body, void *arg, const struct weave_opts *opts, bool quiet,
                            struct weave_result *ret);

/* Puts the simplest tape that fails in the same kind of way into ret->tape, by trying option 0 in
 * each place. At most `tries_max` runs. Returns the number of places that are not 0. */
uint32_t weave_shrink(weave_body *body, void *arg, const struct weave_opts *opts,
                      uint32_t tries_max, struct weave_result *ret);

/* One schedule from a seed, for the simulator: the same seed and body give the same run, step for
 * step. `opts` may be NULL. The result says how it ended; an assertion in the body ends the
 * process. */
void weave_run_seeded(weave_body *body, void *arg, uint64_t seed, const struct weave_opts *opts,
                      struct weave_result *ret);

/* Text of a tape and back; false when the text is malformed or `size` too small. */
bool weave_tape_format(const struct weave_tape *tape, char *buf, size_t size);
bool weave_tape_parse(const char *text, struct weave_tape *ret_tape);

/* ---- inside a run ---------------------------------------------------------------------------- */

/* Whether the caller is on a fiber of a run. */
bool weave_running(void);

/* One of 0..n-1, decided by the strategy. `why` is shown in traces. */
uint32_t weave_choose(uint32_t n, const char *why);

/* While calm every choice is the dull one: for the set-up and tear-down around the race that a
 * scenario is about. Off at the start of a schedule. */
void weave_calm(bool calm);

/* Sets bit `mark` (below 64) of the result's `seen`, to show that some schedule got here. */
void weave_saw(uint32_t mark);

/* Ends the schedule as failed: in a child process by leaving it, else by leaving all fibers
 * behind. */
__attribute__((noreturn)) void weave_fail(const char *kind, const char *fmt, ...) RON_PRINTF(2, 3);

/* Adds a line to the trace of a replay; nothing otherwise. */
void weave_note(const char *fmt, ...) RON_PRINTF(1, 2);

/* Virtual time. It moves only when a timed wait ends by its deadline. */
uint64_t weave_now_ns(void);
