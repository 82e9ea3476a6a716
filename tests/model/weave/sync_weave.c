/* SPDX-License-Identifier: Apache-2.0 */
/* sync_weave.c - ron/sync/sync.h on fibers: the model's counterpart of
 * kernel/src/sync/sync_posix.c.
 *
 * Place: between the kernel's sources (built with RON_MODEL=1) and engine.c. The rules of sync.h
 * (ranks, blocking points, owners) stay in kernel/src/sync/sync_check.c and are checked in every
 * schedule.
 *
 * Invariants:
 *   I1 thread record i belongs to fiber i. Records are recycled, never freed, as on real threads.
 *   I2 every operation that another thread can notice announces itself with weave_op first, and is
 *      done in one piece after it. Letting go of a mutex is not announced: whatever happens between
 *      it and the next announced operation is the thread's own business, so a switch there would
 *      show nothing new.
 *   I3 a fiber in ron_park_until waits on the address of its `park` word, one in a condition on
 *      that of the condition, one in a join on that of the thread record.
 * Outside a run (set-up code of a test) locks work, and waiting is an assertion: nobody could end
 * it. */
#include <string.h>

#include "engine.h"
#include "ron/base/assert.h"
#include "sync/sync_priv.h"
#include "sync/sync_testing.h"

enum { PARK_EMPTY = 0, PARK_TOKEN = 1 };

static struct ron_thread records[WEAVE_FIBERS_MAX];
static struct ron_thread outside = {.magic = RON_THREAD_MAGIC, .may_block = true};
static uint32_t live;

/* ---- threads --------------------------------------------------------------------------------- */

static struct ron_thread *attach(struct weave_fiber *f, const char *name)
{
    struct ron_thread *t = &records[f->id];

    t->magic = RON_THREAD_MAGIC;
    t->may_block = true;
    t->held_count = 0;
    t->identity = NULL;
    ron_ctx_init(&t->ctx, name, NULL);
    /* Plain stores: nobody else runs while a record is made. */
    t->cancel._v = 0;
    t->park._v = PARK_EMPTY;
    t->ended._v = 0;
    t->fiber = f;
    f->ctx = &t->ctx;
    return t;
}

void sync_weave_reset(void)
{
    live = 0;
}

struct ron_ctx *sync_weave_adopt_body(struct weave_fiber *f)
{
    return &attach(f, f->name)->ctx;
}

struct ron_thread *ron__thread_current(void)
{
    return RON_LIKELY(weave_running()) ? &records[weave_self()->id] : &outside;
}

struct ron_thread *ron_thread_self(void)
{
    return ron__thread_current();
}

const char *ron_thread_name(const struct ron_thread *t)
{
    return t->ctx.thread;
}

uint32_t ron_threads_live(void)
{
    return live;
}

static void thread_main(void *arg)
{
    struct ron_thread *t = arg;
    struct weave_fiber *joiner;

    t->main(t->arg);
    ron_no_lock_point("thread end");
    weave_op("end", &t->ended, t->ctx.thread);
    t->ended._v = 1;
    if (weave_waiters(t, &joiner, 1) == 1) {
        weave_wake_joiner(joiner);
    }
}

enum ron_rc ron_thread_start(const struct ron_thread_opts *opts, struct ron_thread **ret_thread,
                             struct ron_err *err)
{
    struct weave_fiber *f;
    struct ron_thread *t;

    RON_ASSERT(opts->main != NULL);
    RON_ASSERT(opts->name != NULL);
    RON_ASSERT_MSG(weave_running(), "threads exist only inside a run");
    f = weave_spawn(opts->name, thread_main, NULL);
    if (f == NULL) {
        return ron_err_set(err, RON_LIMIT, "thread '%s': all %d thread records are in use",
                           opts->name, (int)WEAVE_FIBERS_MAX);
    }
    t = attach(f, opts->name);
    f->arg = t;
    t->may_block = opts->may_block;
    t->main = opts->main;
    t->arg = opts->arg;
    live++;
    weave_note("starts %s", f->name);
    *ret_thread = t;
    return RON_OK;
}

static void join(struct ron_thread *t)
{
    RON_ASSERT(live > 0);
    live--;
    weave_reap(t->fiber);
}

void ron_thread_join(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    RON_ASSERT(t != ron__thread_current());
    ron_blocking_point("thread join");
    if (t->ended._v == 0) {
        struct weave_wait wait = {.obj = t, .what = "thread join", .deadline_ns = UINT64_MAX};

        RON_IGNORE(weave_wait(&wait)); /* Only the thread's end wakes it. */
    }
    weave_note("joins %s", t->ctx.thread);
    join(t);
}

bool ron_thread_try_join(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    weave_op("try join", &t->ended, t->ctx.thread);
    if (t->ended._v == 0) {
        return false;
    }
    join(t);
    return true;
}

void ron_thread_cancel(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    ron_au32_store(&t->cancel, 1);
    ron_unpark(t);
}

/* ---- parking --------------------------------------------------------------------------------- */

enum ron_rc ron_park_until(struct ron_deadline deadline, const char *what)
{
    struct ron_thread *t = ron__thread_current();
    struct weave_wait wait = {
        .obj = &t->park, .what = what, .deadline_ns = deadline.at_ns, .may_be_spurious = true};
    enum weave_wait_end end = WEAVE_END_WAKE;

    ron_blocking_point(what);
    RON_ASSERT_MSG(weave_running(), "nobody could end this wait");
    if (ron_au32_load(&t->cancel) != 0) {
        return RON_CANCELLED;
    }
    weave_op("park", &t->park, what);
    if (t->park._v == PARK_EMPTY) {
        end = weave_wait(&wait);
    }
    if (t->park._v == PARK_TOKEN) {
        /* It came first, or while the wait was ending in another way: it counts. */
        t->park._v = PARK_EMPTY;
        end = WEAVE_END_WAKE;
        weave_effect();
    }
    if (ron_au32_load(&t->cancel) != 0) {
        return RON_CANCELLED;
    }
    return end == WEAVE_END_TIMEOUT ? RON_TIMEOUT : RON_OK;
}

void ron_unpark(struct ron_thread *t)
{
    struct weave_fiber *f = t->fiber;

    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    if (!weave_running()) {
        t->park._v = PARK_TOKEN;
        return;
    }
    weave_op("unpark", &t->park, t->ctx.thread);
    if (f != NULL && f->state == WEAVE_WAITING && f->wait_obj == &t->park) {
        weave_wake(f);
    } else {
        t->park._v = PARK_TOKEN;
    }
}

uint64_t ron_mono_ns(void)
{
    return weave_now_ns();
}

/* ---- mutex and condition --------------------------------------------------------------------- */

void ron_mutex_init(struct ron_mutex *m, enum ron_lock_rank rank, const char *name)
{
    *m = (struct ron_mutex){.name = name, .rank = rank, ._magic = RON_MUTEX_MAGIC};
}

void ron_mutex_done(struct ron_mutex *m)
{
    RON_ASSERT(m->_magic == RON_MUTEX_MAGIC);
    RON_ASSERT_MSG(m->_owner == NULL, "mutex '%s' destroyed while held", m->name);
    m->_magic = 0;
}

void ron_mutex_lock(struct ron_mutex *m)
{
    ron__note_acquire(m);
    if (RON_UNLIKELY(!weave_running())) {
        RON_ASSERT(m->_owner == NULL);
        m->_owner = &outside;
        return;
    }
    weave_op_gated("lock", m, m->name, &m->_owner);
    RON_ASSERT_MSG(m->_magic == RON_MUTEX_MAGIC,
                   "a mutex was destroyed under a thread that wants it");
    RON_ASSERT(m->_owner == NULL);
    m->_owner = weave_self();
    weave_hold(m);
}

void ron_mutex_unlock(struct ron_mutex *m)
{
    ron__note_release(m);
    if (RON_UNLIKELY(!weave_running())) {
        m->_owner = NULL;
        return;
    }
    RON_ASSERT(m->_owner == weave_self());
    weave_drop(m);
    m->_owner = NULL;
    weave_unlocked(m, m->name); /* From here on the mutex may be gone. */
}

void ron_cond_init(struct ron_cond *c)
{
    *c = (struct ron_cond){._magic = RON_COND_MAGIC};
}

void ron_cond_done(struct ron_cond *c)
{
    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    RON_ASSERT_MSG(c->_waiters == 0, "a condition was destroyed under %u waiters", c->_waiters);
    c->_magic = 0;
}

static void wake_waiters(struct ron_cond *c, const char *what, bool all)
{
    struct weave_fiber *waiters[WEAVE_FIBERS_MAX];
    uint32_t n;

    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    if (!weave_running()) {
        return;
    }
    weave_op(what, c, NULL);
    n = weave_waiters(c, waiters, WEAVE_FIBERS_MAX);
    if (n > 1 && !all) {
        waiters[0] = waiters[weave_choose(n, "whom the signal wakes")];
        n = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        weave_wake(waiters[i]);
    }
}

void ron_cond_signal(struct ron_cond *c)
{
    wake_waiters(c, "signal", false);
}

void ron_cond_broadcast(struct ron_cond *c)
{
    wake_waiters(c, "broadcast", true);
}

bool ron_cond_wait_until(struct ron_cond *c, struct ron_mutex *m, struct ron_deadline deadline)
{
    struct weave_wait wait = {.obj = c,
                              .what = m->name,
                              .deadline_ns = deadline.at_ns,
                              .may_be_spurious = true,
                              .gate = &m->_owner,
                              .gate_name = m->name};
    enum weave_wait_end end;

    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    ron__note_cond_wait(m);
    RON_ASSERT_MSG(weave_running(), "nobody could end this wait");
    weave_op("condition wait", c, NULL);
    RON_ASSERT(m->_owner == weave_self());
    weave_drop(m);
    m->_owner = NULL;
    c->_waiters++;
    end = weave_wait(&wait);
    c->_waiters--;
    RON_ASSERT(m->_owner == NULL);
    m->_owner = weave_self();
    weave_hold(m);
    return end != WEAVE_END_TIMEOUT;
}
