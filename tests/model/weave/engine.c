/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - one schedule: fibers, points, waiting and virtual time.
 *
 * Place: under sync_weave.c, which turns the kernel's locks and waits into the few verbs here; asks
 * strategy.c at every choice.
 *
 * Invariants:
 *   I1 exactly one fiber runs; it alone changes anything here.
 *   I2 a fiber may be chosen when it is READY and its gate is open (`*gate == NULL`): a fiber that
 *      asks for a held mutex is not a candidate, so no schedule is spent on finding that out.
 *   I3 leaving a fiber that could go on is a preemption; leaving one that waits or has ended is
 *      not.
 *   I4 a fiber that starts, or is woken from a wait, is about to do its first operation: no choice
 *      is made again just before it, since choosing another fiber there would be choosing it in the
 *      first place.
 *   I5 a fiber that waited for another's end goes on at once when that comes: what it does before
 *      its next operation is its own business. At that operation it may be left without a
 *      preemption.
 *   I6 time moves only when a wait ends by its deadline, to that deadline.
 *
 * Why a wait decides at its start whether it will end early: a fiber that is to wake for no reason,
 * or by timeout, at some later moment behaves like one that is awake but does not get to run until
 * then, and the scheduler explores that delay anyway. One choice per wait replaces one per waiter
 * and point.
 *
 * Failure policy: weave_fail ends the schedule, in a child process by leaving it, else by jumping
 * back to the caller and leaving the fibers' stacks to be overwritten by the next run. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/clock.h"
#include "ron/base/fault.h"
#include "ron/sync/sync.h"

/* Not 0, so that code which subtracts from "now" is not tested at the edge of the number range. */
static const uint64_t CLOCK_START_NS = 1000 * RON_NS_PER_S;

static struct {
    bool running;
    bool failed;
    int exit_code; /* not 0: leave the process on failure */
    const struct weave_opts *opts;
    struct weave_result *result;
    struct weave_fiber *cur;
    struct weave_fiber *joiner; /* goes on when the running fiber has ended (I5) */
    struct fiber host;
    uint32_t slots; /* fibers[0..slots) have been used in this schedule */
    uint32_t live;  /* neither FREE nor DONE */
    uint64_t clock_ns;
    uint64_t steps;
    uint64_t steps_max;
    uint32_t spurious;
    uint32_t timeouts;
    uint32_t alloc_fails;
    int64_t blocks; /* allocated minus freed */
    struct weave_fiber fibers[WEAVE_FIBERS_MAX];
} w;

/* ---- trace and failure ----------------------------------------------------------------------- */

static void trace(const char *what, const void *obj, const char *name)
{
    if (RON_UNLIKELY(w.opts->trace)) {
        report_step(w.cur, w.steps, what, obj, name);
    }
}

void weave_note(const char *fmt, ...)
{
    char text[128];
    va_list args;

    if (!w.running || !w.opts->trace) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    trace(text, NULL, NULL);
}

void engine_exit_on_failure(int code)
{
    w.exit_code = code;
}

void engine_record_crash(const char *kind, int signal_number)
{
    if (w.result != NULL) {
        report_crash(w.result, kind, signal_number, w.cur != NULL ? w.cur->name : "?");
    }
}

/* Writes the result, and leaves the process if that was asked for. */
static void record_failure(const char *kind, const char *message)
{
    (void)snprintf(w.result->message, sizeof w.result->message, "%s", message);
    (void)snprintf(w.result->kind, sizeof w.result->kind, "%s", kind);
    w.result->failed = true;
    trace("FAILS:", NULL, message);
    if (w.exit_code != 0) {
        (void)fflush(NULL);
        _exit(w.exit_code);
    }
}

void weave_fail(const char *kind, const char *fmt, ...)
{
    char message[WEAVE_MESSAGE_MAX];
    va_list args;

    RON_ASSERT(w.running);
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    record_failure(kind, message);
    w.failed = true;
    fiber_switch(&w.cur->stack, &w.host);
    __builtin_unreachable();
}

static __attribute__((noreturn)) void fail_deadlock(void)
{
    char text[WEAVE_MESSAGE_MAX];

    report_waiting(w.fibers, w.slots, text, sizeof text);
    weave_fail("deadlock", "%s", text);
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static bool enabled(const struct weave_fiber *f)
{
    return f->state == WEAVE_READY && (f->gate == NULL || *f->gate == NULL);
}

/* Of fibers with one name that have not started yet, only the first may: they are interchangeable,
 * so that starting another one first would show nothing new. */
static bool behind_twin(const struct weave_fiber *f)
{
    if (f->started || w.opts->mode == WEAVE_SIMULATE) {
        return false;
    }
    for (uint32_t i = 0; i < f->id; i++) {
        const struct weave_fiber *other = &w.fibers[i];

        if (other->state == WEAVE_READY && !other->started && strcmp(other->name, f->name) == 0) {
            return true;
        }
    }
    return false;
}

/* All that can run: the running fiber first, so that option 0 never preempts, then in a circle from
 * it, so that the dull schedule is a fair one. */
static uint32_t collect(struct weave_fiber **cand)
{
    uint32_t n = 0;
    uint32_t at = w.cur->id;

    for (uint32_t i = 0; i < w.slots; i++) {
        if (enabled(&w.fibers[at]) && !behind_twin(&w.fibers[at])) {
            cand[n++] = &w.fibers[at];
        }
        at = at + 1 == w.slots ? 0 : at + 1;
    }
    return n;
}

/* Nobody can run: the waits with the earliest deadline are over, one of them first (I6). */
static bool fire_timer(void)
{
    uint64_t first_ns = UINT64_MAX;
    uint32_t n = 0;
    uint32_t pick;

    for (uint32_t i = 0; i < w.slots; i++) {
        const struct weave_fiber *f = &w.fibers[i];

        if (f->state == WEAVE_WAITING && f->deadline_ns < first_ns) {
            first_ns = f->deadline_ns;
            n = 0;
        }
        n += f->state == WEAVE_WAITING && f->deadline_ns == first_ns;
    }
    if (first_ns == UINT64_MAX) {
        return false;
    }
    pick = n == 1 ? 0 : strategy_value(n, n);
    for (uint32_t i = 0; i < w.slots; i++) {
        struct weave_fiber *f = &w.fibers[i];

        if (f->state == WEAVE_WAITING && f->deadline_ns == first_ns && pick-- == 0) {
            weave_wake(f);
            f->timed_out = true;
            f->wake_ns = first_ns;
            break;
        }
    }
    return true;
}

static void switch_to(struct weave_fiber *next)
{
    struct weave_fiber *cur = w.cur;

    if (next->wake_ns > w.clock_ns) {
        w.clock_ns = next->wake_ns;
    }
    if (next == cur) {
        return;
    }
    w.cur = next;
    ron_ctx_swap(next->ctx);
    fiber_switch(&cur->stack, &next->stack);
}

static void count_step(void)
{
    w.steps++;
    if (RON_UNLIKELY(w.steps > w.steps_max)) {
        weave_fail("livelock", "no end after %llu steps", (unsigned long long)w.steps_max);
    }
}

/* The running fiber stops, or at an operation (`at_op`) offers to. `free`: it has just come here
 * without having been chosen, or does not want to go on, so that going elsewhere is no
 * preemption. */
static void schedule(bool at_op, bool is_free)
{
    struct weave_fiber *cand[WEAVE_FIBERS_MAX];
    uint32_t n;
    bool goes_on;

    while ((n = collect(cand)) == 0) {
        if (w.live == 0) {
            ron_ctx_swap(NULL);
            fiber_switch(&w.cur->stack, &w.host);
            __builtin_unreachable();
        }
        if (!fire_timer()) {
            fail_deadlock();
        }
        count_step();
    }
    goes_on = at_op && cand[0] == w.cur;
    /* At an operation the choice takes its place on the tape even when there is only one option:
     * whether it was passed by reduction must not show in the numbering. */
    if (n > 1 || goes_on) {
        n = strategy_fiber(cand, n, goes_on && !is_free); /* I3 */
    } else {
        n = 0;
    }
    switch_to(cand[n]);
}

/* Whether the choice at this operation is a real one (I4, I5). */
static bool is_choice(const void *addr, bool *ret_free)
{
    struct weave_fiber *f = w.cur;
    bool was_fresh = f->fresh;

    *ret_free = false;
    if (w.opts->all_points) {
        return true;
    }
    if (!reduce_matters(f, addr)) {
        return false;
    }
    *ret_free = f->eager;
    f->eager = false;
    f->fresh = false;
    return !was_fresh;
}

void weave_op_gated(const char *what, const void *addr, const char *name, void *const *gate)
{
    bool open = gate == NULL || *gate == NULL;
    bool is_free = false;

    RON_ASSERT(w.running);
    count_step();
    if (!open || (w.live > 1 && !strategy_pass(is_choice(addr, &is_free)))) {
        if (!open && w.live > 1) {
            (void)is_choice(addr, &is_free);
        }
        w.cur->gate = gate;
        w.cur->gate_name = name;
        schedule(true, is_free);
        w.cur->gate = NULL;
    }
    trace(what, addr, name);
}

void weave_op(const char *what, const void *addr, const char *name)
{
    weave_op_gated(what, addr, name, NULL);
}

void weave_unlocked(const void *lock, const char *name)
{
    trace("unlock", lock, name);
    if (w.live > 1) {
        bool is_free = w.cur->eager && w.opts->unlock_points;

        if (w.opts->unlock_points) {
            weave_effect();
        }
        if (!strategy_pass(w.opts->unlock_points)) {
            schedule(true, is_free);
        }
    }
}

void weave_point(const char *what, const void *addr)
{
    if (w.running) {
        weave_op_gated(what, addr, NULL, NULL);
    }
}

uint32_t weave_choose(uint32_t n, const char *why)
{
    uint32_t pick;

    RON_ASSERT(w.running);
    pick = strategy_value(n, n);
    weave_note("chooses %u of %u: %s", pick, n, why);
    return pick;
}

void weave_calm(bool calm)
{
    RON_ASSERT(w.running);
    strategy_calm(calm);
    weave_note(calm ? "calm from here on" : "explored from here on");
}

void weave_saw(uint32_t mark)
{
    RON_ASSERT(w.running);
    RON_ASSERT(mark < 64);
    w.result->seen |= UINT64_C(1) << mark;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* How this wait ends if nobody wakes the fiber first; see the head for why it is decided here. */
static enum weave_wait_end decide_end(const struct weave_wait *wait)
{
    if (wait->deadline_ns <= w.clock_ns) {
        return WEAVE_END_TIMEOUT;
    }
    if (wait->deadline_ns != UINT64_MAX &&
        strategy_value(2, w.timeouts < w.opts->timeouts_max ? 2 : 1) == 1) {
        w.timeouts++;
        return WEAVE_END_TIMEOUT;
    }
    if (wait->may_be_spurious &&
        strategy_value(2, w.spurious < w.opts->spurious_max ? 2 : 1) == 1) {
        w.spurious++;
        return WEAVE_END_SPURIOUS;
    }
    return WEAVE_END_WAKE;
}

enum weave_wait_end weave_wait(const struct weave_wait *wait)
{
    static const char *const ends[] = {"is woken from", "wakes for no reason from", "times out of"};
    struct weave_fiber *f = w.cur;
    enum weave_wait_end end = decide_end(wait);

    count_step();
    trace("waits for", wait->obj, wait->what);
    f->timed_out = false;
    f->gate = wait->gate;
    f->gate_name = wait->gate_name;
    if (end == WEAVE_END_WAKE) {
        f->state = WEAVE_WAITING;
        f->wait_obj = wait->obj;
        f->wait_what = wait->what;
        f->deadline_ns = wait->deadline_ns;
    } else if (end == WEAVE_END_TIMEOUT) {
        f->wake_ns = wait->deadline_ns;
    }
    schedule(false, true);
    if (f->timed_out) {
        end = WEAVE_END_TIMEOUT;
    }
    /* Taking a mutex and moving time are noticed by others. */
    f->fresh = end == WEAVE_END_WAKE && f->gate == NULL && !f->eager;
    f->gate = NULL;
    trace(ends[end], wait->obj, wait->what);
    return end;
}

void weave_wake(struct weave_fiber *f)
{
    RON_ASSERT(f->state == WEAVE_WAITING);
    f->state = WEAVE_READY;
    f->wait_obj = NULL;
    f->deadline_ns = UINT64_MAX;
}

void weave_wake_joiner(struct weave_fiber *f)
{
    weave_wake(f);
    f->eager = true;
    w.joiner = f;
}

void weave_effect(void)
{
    w.cur->fresh = false;
    w.cur->eager = false;
}

uint32_t weave_waiters(const void *obj, struct weave_fiber **ret, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w.slots && n < max; i++) {
        if (w.fibers[i].state == WEAVE_WAITING && w.fibers[i].wait_obj == obj) {
            ret[n++] = &w.fibers[i];
        }
    }
    return n;
}

void weave_hold(const void *lock)
{
    struct weave_fiber *f = w.cur;

    RON_ASSERT(f->held_count < WEAVE_HELD_MAX);
    f->held[f->held_count++] = lock;
}

void weave_drop(const void *lock)
{
    struct weave_fiber *f = w.cur;
    uint32_t i = f->held_count;

    do {
        RON_ASSERT(i > 0);
        i--;
    } while (f->held[i] != lock);
    f->held[i] = f->held[--f->held_count];
}

/* ---- fibers ---------------------------------------------------------------------------------- */

static void fiber_main(void)
{
    struct weave_fiber *f = w.cur;

    f->started = true;
    f->fn(f->arg);
    f->state = WEAVE_DONE;
    w.live--;
    trace("ends", NULL, NULL);
    if (w.joiner != NULL) {
        struct weave_fiber *joiner = w.joiner;

        w.joiner = NULL;
        switch_to(joiner);
    }
    schedule(false, true);
    RON_UNREACHABLE();
}

struct weave_fiber *weave_spawn(const char *name, void (*fn)(void *), void *arg)
{
    struct weave_fiber *f;
    uint32_t id = 0;

    while (id < w.slots && w.fibers[id].state != WEAVE_FREE) {
        id++;
    }
    if (id == WEAVE_FIBERS_MAX) {
        return NULL;
    }
    w.slots = RON_MAX(w.slots, id + 1);
    if (w.live++ > 0) {
        weave_effect();
    }
    f = &w.fibers[id];
    *f = (struct weave_fiber){.stack = f->stack,
                              .id = id,
                              .state = WEAVE_READY,
                              .fn = fn,
                              .arg = arg,
                              .deadline_ns = UINT64_MAX,
                              .fresh = true};
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    strategy_priority(f);
    fiber_prepare(&f->stack, fiber_main);
    return f;
}

void weave_reap(struct weave_fiber *f)
{
    RON_ASSERT(f->state == WEAVE_DONE);
    f->state = WEAVE_FREE;
}

struct weave_fiber *weave_self(void)
{
    return w.cur;
}

bool weave_running(void)
{
    return w.running;
}

uint32_t weave_live(void)
{
    return w.live;
}

uint64_t weave_now_ns(void)
{
    return w.running ? w.clock_ns : CLOCK_START_NS;
}

/* ---- a schedule ------------------------------------------------------------------------------ */

static void watch_alloc(int delta, const char *site)
{
    (void)site;
    w.blocks += delta;
}

static bool choose_fault(enum ron_fault_kind kind, const char *site)
{
    if (!w.running || kind != RON_FAULT_ALLOC) {
        return false;
    }
    if (strategy_value(2, w.alloc_fails < w.opts->alloc_fail_max ? 2 : 1) == 0) {
        return false;
    }
    w.alloc_fails++;
    weave_note("allocation fails in %s", site);
    return true;
}

static void reset(const struct weave_opts *opts, struct weave_result *ret)
{
    for (uint32_t i = 0; i < w.slots; i++) {
        w.fibers[i].state = WEAVE_FREE;
    }
    w.failed = false;
    w.joiner = NULL;
    w.opts = opts;
    w.result = ret;
    w.slots = 0;
    w.live = 0;
    w.clock_ns = CLOCK_START_NS;
    w.steps = 0;
    w.steps_max = opts->steps_max != 0           ? opts->steps_max
                  : opts->mode == WEAVE_SIMULATE ? UINT64_MAX
                                                 : WEAVE_STEPS_DEFAULT;
    w.spurious = 0;
    w.timeouts = 0;
    w.alloc_fails = 0;
    w.blocks = 0;
    report_begin();
    ron_alloc_watch = watch_alloc;
    ron_fault_hook = opts->alloc_fail_max > 0 ? choose_fault : NULL;
    sync_weave_reset();
    strategy_begin();
}

/* What is wrong although all fibers have ended well, or NULL. */
static const char *final_complaint(const char **ret_kind)
{
    static char text[64];

    *ret_kind = "leak";
    if (w.blocks != 0 && !w.opts->allow_leak) {
        (void)snprintf(text, sizeof text, "%lld blocks were not freed", (long long)w.blocks);
        return text;
    }
    *ret_kind = "heap";
    return w.opts->mode == WEAVE_SIMULATE ? NULL : heap_complaint();
}

bool engine_run(weave_body *body, void *arg, const struct weave_opts *opts,
                struct weave_result *ret)
{
    struct weave_fiber *f;
    const char *kind;
    const char *complaint;

    RON_ASSERT(!w.running);
    reset(opts, ret);
    f = weave_spawn("body", body, arg);
    f->ctx = sync_weave_adopt_body(f);
    w.cur = f;
    w.running = true;
    ron_ctx_swap(f->ctx);
    if (opts->mode != WEAVE_SIMULATE) {
        heap_begin();
    }
    fiber_switch(&w.host, &f->stack);
    heap_end();
    ron_ctx_swap(NULL);
    complaint = w.failed ? NULL : final_complaint(&kind);
    if (complaint != NULL) {
        w.failed = true;
        record_failure(kind, complaint);
    }
    w.running = false;
    ron_alloc_watch = NULL;
    ron_fault_hook = NULL;
    ret->steps += w.steps;
    ret->clock_end_ns = w.clock_ns;
    return !w.failed;
}
