/* SPDX-License-Identifier: Apache-2.0 */
/* sync_posix.c - sync.h on POSIX threads and the Linux futex.
 *
 * Place: lowest layer above base in every build but the model's, where tests/model/weave replaces
 * it.
 *
 * Thread records live in one static table and are recycled, never freed: a waker may hold a pointer
 * to the record of a thread that has just ended. Such a late unpark reaches an idle record, or a
 * new thread as a wake-up for no reason, which every wait loop tolerates.
 *
 * Parking: `park` is EMPTY, TOKEN (an unpark came first) or PARKED. The parked thread sleeps on a
 * futex; an unpark makes a system call only when the state was PARKED.
 *
 * Mutexes spin briefly before they sleep (adaptive), because every critical section of the kernel
 * is a few dozen instructions long and a sleep costs two context switches. */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ron/base/assert.h"
#include "ron/base/fault.h"
#include "sync/sync_testing.h"
#include "sync_priv.h"

enum { PARK_EMPTY = 0, PARK_TOKEN = 1, PARK_PARKED = 2 };
enum { STACK_BYTES_DEFAULT = 256 * 1024 };
/* Meant to stay well below the cost of a sleep and a wake-up, some 20 us here. */
enum { SPIN_PAUSES = 100 };

static struct ron_thread table[RON_THREADS_MAX];
static struct ron_thread *free_list; /* guarded by table_lock */
static uint32_t table_used;          /* guarded by table_lock */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ron_au32 live;

_Thread_local struct ron_thread *ron__current;

/* ---- records --------------------------------------------------------------------------------- */

static struct ron_thread *record_get(void)
{
    struct ron_thread *t = NULL;

    pthread_mutex_lock(&table_lock);
    if (free_list != NULL) {
        t = free_list;
        free_list = t->next_free;
    } else if (table_used < RON_THREADS_MAX) {
        t = &table[table_used++];
        t->magic = RON_THREAD_MAGIC; /* For good: late wakers check it at any time. */
    }
    pthread_mutex_unlock(&table_lock);
    if (t == NULL) {
        return NULL;
    }
    /* Everything but `park`, which a late waker may still touch. */
    t->may_block = true;
    t->held_count = 0;
    t->identity = NULL;
    ron_au32_store(&t->cancel, 0);
    ron_au32_store(&t->ended, 0);
    t->next_free = NULL;
    return t;
}

static void record_put(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    pthread_mutex_lock(&table_lock);
    t->next_free = free_list;
    free_list = t;
    pthread_mutex_unlock(&table_lock);
}

/* Gives a record back when a thread that sync did not start (a test, a library's) ends. */
static pthread_key_t foreign_key;
static pthread_once_t foreign_once = PTHREAD_ONCE_INIT;

static void foreign_end(void *arg)
{
    record_put(arg);
}

static void foreign_key_make(void)
{
    int rc = pthread_key_create(&foreign_key, foreign_end);
    RON_ASSERT(rc == 0);
}

struct ron_thread *ron__thread_adopt(void)
{
    struct ron_thread *t = record_get();

    RON_ASSERT_MSG(t != NULL, "more than %d threads", (int)RON_THREADS_MAX);
    pthread_once(&foreign_once, foreign_key_make);
    (void)pthread_setspecific(foreign_key, t); /* On failure the record stays taken: harmless. */
    t->id = pthread_self();
    ron__current = t;
    return t;
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
    return ron_au32_load(&live);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *thread_entry(void *arg)
{
    struct ron_thread *t = arg;

    ron__current = t;
    ron_ctx_swap(&t->ctx);
    (void)pthread_setname_np(pthread_self(), t->ctx.thread); /* Only for the eyes of tools. */
    t->main(t->arg);
    ron_no_lock_point("thread end");
    ron_ctx_swap(NULL);
    ron_au32_store(&t->ended, 1);
    return NULL;
}

enum ron_rc ron_thread_start(const struct ron_thread_opts *opts, struct ron_thread **ret_thread,
                             struct ron_err *err)
{
    struct ron_thread *t;
    pthread_attr_t attr;
    size_t stack = opts->stack_bytes != 0 ? opts->stack_bytes : STACK_BYTES_DEFAULT;
    int rc;

    RON_ASSERT(opts->main != NULL);
    RON_ASSERT(opts->name != NULL);
    t = record_get();
    if (t == NULL) {
        return ron_err_set(err, RON_LIMIT, "thread '%s': all %d thread records are in use",
                           opts->name, (int)RON_THREADS_MAX);
    }
    t->may_block = opts->may_block;
    t->main = opts->main;
    t->arg = opts->arg;
    ron_au32_store(&t->park, PARK_EMPTY);
    ron_ctx_init(&t->ctx, opts->name, NULL);

    rc = RON_FAULT(RON_FAULT_SYSCALL, "pthread_create") ? EAGAIN : pthread_attr_init(&attr);
    if (rc == 0) {
        rc = pthread_attr_setstacksize(&attr, stack);
        if (rc == 0) {
            rc = pthread_create(&t->id, &attr, thread_entry, t);
        }
        pthread_attr_destroy(&attr);
    }
    if (rc != 0) {
        record_put(t);
        return ron_err_set_sys(err, RON_LIMIT, rc, "thread '%s' could not be started", opts->name);
    }
    ron_au32_add(&live, 1);
    *ret_thread = t;
    return RON_OK;
}

static void join(struct ron_thread *t)
{
    int rc = pthread_join(t->id, NULL);

    RON_ASSERT_MSG(rc == 0, "pthread_join: %d", rc);
    ron_au32_add(&live, UINT32_MAX); /* minus one */
    record_put(t);
}

void ron_thread_join(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    RON_ASSERT(t != ron__thread_current());
    ron_blocking_point("thread join");
    join(t);
}

bool ron_thread_try_join(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    if (ron_au32_load(&t->ended) == 0) {
        return false;
    }
    join(t); /* The body has returned, so this ends at once. */
    return true;
}

void ron_thread_cancel(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    ron_au32_store(&t->cancel, 1);
    ron_unpark(t);
}

int ron_thread_block_signals(const sigset_t *set)
{
    return pthread_sigmask(SIG_BLOCK, set, NULL);
}

void ron_thread_signal(struct ron_thread *t, int signo)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    (void)pthread_kill(t->id, signo); /* It fails only when the thread has just ended. */
}

/* ---- parking --------------------------------------------------------------------------------- */

static struct timespec to_timespec(uint64_t at_ns)
{
    /* The kernel refuses seconds beyond its range; 2^31 s of uptime is as good as never. */
    uint64_t s = at_ns / 1000000000u;

    return (struct timespec){.tv_sec = (time_t)RON_MIN(s, (uint64_t)INT32_MAX),
                             .tv_nsec = (long)(at_ns % 1000000000u)};
}

/* Sleeps while *word == expected. 0, or the errno of the wait. */
static int futex_wait(struct ron_au32 *word, uint32_t expected, struct ron_deadline deadline)
{
    struct timespec ts = to_timespec(deadline.at_ns);
    bool never = deadline.at_ns == ron_deadline_never().at_ns;
    long rc = syscall(SYS_futex, &word->_v, FUTEX_WAIT_BITSET_PRIVATE, expected, never ? NULL : &ts,
                      NULL, FUTEX_BITSET_MATCH_ANY);

    return rc == 0 ? 0 : errno;
}

enum ron_rc ron_park_until(struct ron_deadline deadline, const char *what)
{
    struct ron_thread *t = ron__thread_current();
    uint32_t seen = PARK_EMPTY;

    ron_blocking_point(what);
    if (RON_UNLIKELY(ron_au32_load(&t->cancel) != 0)) {
        return RON_CANCELLED;
    }
    if (!ron_au32_cas(&t->park, &seen, PARK_PARKED)) {
        /* It was TOKEN: only this thread ever sets PARKED. An exchange, not a store: it must be
         * seen before the caller looks again, else an unpark in between would be overwritten. */
        (void)ron_au32_xchg(&t->park, PARK_EMPTY);
        return RON_OK;
    }
    for (;;) {
        int rc = futex_wait(&t->park, PARK_PARKED, deadline);
        if (ron_au32_load(&t->park) == PARK_TOKEN) {
            (void)ron_au32_xchg(&t->park, PARK_EMPTY);
            break;
        }
        if (rc == ETIMEDOUT) {
            /* An unpark may have come between the timeout and here: then it counts. */
            if (ron_au32_xchg(&t->park, PARK_EMPTY) == PARK_PARKED) {
                return ron_au32_load(&t->cancel) != 0 ? RON_CANCELLED : RON_TIMEOUT;
            }
            break;
        }
    }
    return ron_au32_load(&t->cancel) != 0 ? RON_CANCELLED : RON_OK;
}

void ron_unpark(struct ron_thread *t)
{
    RON_ASSERT(t->magic == RON_THREAD_MAGIC);
    if (ron_au32_xchg(&t->park, PARK_TOKEN) == PARK_PARKED) {
        (void)syscall(SYS_futex, &t->park._v, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

uint32_t ron_spin_budget(void)
{
    static struct ron_au32 cached; /* budget + 1, 0 = not asked yet; a race writes the same twice */
    uint32_t budget = ron_au32_load(&cached);

    if (budget == 0) {
        budget = 1 + (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_PAUSES : 0);
        ron_au32_store(&cached, budget);
    }
    return budget - 1;
}

void ron_spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ron_spin_yield(void)
{
    (void)sched_yield(); /* never fails on Linux */
}

uint64_t ron_mono_ns(void)
{
    struct timespec ts;
    int rc = clock_gettime(CLOCK_MONOTONIC, &ts);

    RON_ASSERT(rc == 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- mutex and condition --------------------------------------------------------------------- */

void ron_mutex_init(struct ron_mutex *m, enum ron_lock_rank rank, const char *name)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    RON_ASSERT(rc == 0);
    rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    RON_ASSERT(rc == 0);
    rc = pthread_mutex_init(&m->_m, &attr);
    RON_ASSERT(rc == 0);
    pthread_mutexattr_destroy(&attr);
    m->name = name;
    m->rank = rank;
    m->_magic = RON_MUTEX_MAGIC;
}

void ron_mutex_done(struct ron_mutex *m)
{
    int rc;

    RON_ASSERT(m->_magic == RON_MUTEX_MAGIC);
    m->_magic = 0;
    rc = pthread_mutex_destroy(&m->_m);
    RON_ASSERT_MSG(rc == 0, "mutex '%s' destroyed while held", m->name);
}

void ron_mutex_lock(struct ron_mutex *m)
{
    int rc;

    ron__note_acquire(m);
    rc = pthread_mutex_lock(&m->_m);
    RON_ASSERT(rc == 0);
}

void ron_mutex_unlock(struct ron_mutex *m)
{
    int rc;

    if (RON_UNLIKELY(!ron__note_release(m))) {
        return;
    }
    rc = pthread_mutex_unlock(&m->_m);
    RON_ASSERT(rc == 0);
}

void ron_cond_init(struct ron_cond *c)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    RON_ASSERT(rc == 0);
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    RON_ASSERT(rc == 0);
    rc = pthread_cond_init(&c->_c, &attr);
    RON_ASSERT(rc == 0);
    pthread_condattr_destroy(&attr);
    c->_magic = RON_COND_MAGIC;
}

void ron_cond_done(struct ron_cond *c)
{
    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    c->_magic = 0;
    (void)pthread_cond_destroy(&c->_c); /* glibc waits for late wakers itself */
}

void ron_cond_signal(struct ron_cond *c)
{
    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    (void)pthread_cond_signal(&c->_c);
}

void ron_cond_broadcast(struct ron_cond *c)
{
    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    (void)pthread_cond_broadcast(&c->_c);
}

bool ron_cond_wait_until(struct ron_cond *c, struct ron_mutex *m, struct ron_deadline deadline)
{
    int rc;

    RON_ASSERT(c->_magic == RON_COND_MAGIC);
    ron__note_cond_wait(m);
    if (deadline.at_ns == ron_deadline_never().at_ns) {
        rc = pthread_cond_wait(&c->_c, &m->_m);
    } else {
        struct timespec ts = to_timespec(deadline.at_ns);
        rc = pthread_cond_timedwait(&c->_c, &m->_m, &ts);
    }
    RON_ASSERT(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}
