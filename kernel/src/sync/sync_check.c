/* SPDX-License-Identifier: Apache-2.0 */
/* sync_check.c - the rules of sync.h, common to real threads and to the model.
 *
 * Place: between the public header and the two back ends. Each thread's record lists the locks it
 * holds in the order taken; since ranks only rise, the last one is the highest.
 *
 * Invariants:
 *   I1 held[0..held_count) is sorted by strictly rising rank, unless a breach was counted (release
 *      build).
 *   I2 a lock is in the record from just before it is asked for until just before it is let go.
 * Failure policy: a breach is a programmer's mistake. Checked builds abort and name the locks; the
 * release build counts the breach and goes on, because stopping a working service helps nobody. */
#include <stdio.h>

#include "ron/base/assert.h"
#include "sync/sync_testing.h"
#include "sync_priv.h"

static struct ron_stat breaches[RON_BREACH_COUNT];

const char *ron_sync_breach_label(enum ron_sync_breach b)
{
    static const char *const labels[RON_BREACH_COUNT] = {
#define X(name, label, doc) label,
        RON_SYNC_BREACHES(X)
#undef X
    };
    RON_ASSERT((unsigned)b < RON_BREACH_COUNT);
    return labels[b];
}

uint64_t ron_sync_violations(enum ron_sync_breach b)
{
    RON_ASSERT((unsigned)b < RON_BREACH_COUNT);
    return ron_stat_get(&breaches[b]);
}

#if RON_CHECKED
/* Cold: builds "a(10) b(40)" of the locks held by the calling thread. */
static void describe_held(char *buf, size_t size)
{
    const struct ron_thread *t = ron__thread_current();
    size_t used = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < t->held_count && i < RON_THREAD_HELD_MAX && used < size; i++) {
        int n = snprintf(buf + used, size - used, "%s%s(%d)", i == 0 ? "" : " ", t->held[i]->name,
                         (int)t->held[i]->rank);
        if (n < 0) {
            break;
        }
        used += (size_t)n;
    }
}
#endif

void ron_sync_breach(enum ron_sync_breach b, const char *what)
{
    ron_stat_add(&breaches[b], 1);
#if RON_CHECKED
    char held[256];

    describe_held(held, sizeof held);
    RON_ASSERT_MSG(false, "sync breach %s at '%s', locks held: [%s]", ron_sync_breach_label(b),
                   what, held);
#else
    (void)what; /* May be gone when a report is written: an event keeps static text only. */
    ron_event("sync.breach", (uint64_t)b, 0);
#endif
}

bool ron__note_release_slow(struct ron_thread *t, struct ron_mutex *m)
{
    for (uint32_t i = t->held_count; i > 0; i--) {
        if (t->held[i - 1] == m) {
            for (uint32_t k = i; k < t->held_count; k++) {
                t->held[k - 1] = t->held[k];
            }
            t->held_count--;
            return true;
        }
    }
    ron_sync_breach(RON_BREACH_OWNER, m->name);
    return false;
}

bool ron_mutex_held(const struct ron_mutex *m)
{
    const struct ron_thread *t = ron__thread_current();

    for (uint32_t i = 0; i < t->held_count; i++) {
        if (t->held[i] == m) {
            return true;
        }
    }
    return false;
}

void ron_no_lock_point(const char *what)
{
    if (RON_UNLIKELY(ron__thread_current()->held_count != 0)) {
        ron_sync_breach(RON_BREACH_HELD, what);
    }
}

void ron_blocking_point(const char *what)
{
    const struct ron_thread *t = ron__thread_current();

    if (RON_UNLIKELY(t->held_count != 0)) {
        ron_sync_breach(RON_BREACH_HELD, what);
    }
    if (RON_UNLIKELY(!t->may_block)) {
        ron_sync_breach(RON_BREACH_LOOP, what);
    }
}

void ron__note_cond_wait(const struct ron_mutex *m)
{
    const struct ron_thread *t = ron__thread_current();

    if (RON_UNLIKELY(t->held_count != 1 || t->held[0] != m)) {
        ron_sync_breach(RON_BREACH_HELD, m->name);
    }
    if (RON_UNLIKELY(!t->may_block)) {
        ron_sync_breach(RON_BREACH_LOOP, m->name);
    }
}

bool ron_thread_cancelled(void)
{
    return ron_au32_load(&ron__thread_current()->cancel) != 0;
}

bool ron__holds_shared(const struct ron_thread *t)
{
    for (uint32_t i = 0; i < t->held_count; i++) {
        if (t->held[i]->rank == RON_RANK_SHARED) {
            return true;
        }
    }
    return false;
}

uint64_t ron_thread_nests(void)
{
    return ron__thread_current()->nests;
}

bool ron_thread_set_may_block(bool may_block)
{
    struct ron_thread *t = ron__thread_current();
    bool old = t->may_block;

    t->may_block = may_block;
    return old;
}

void *ron_identity_swap(void *identity)
{
    struct ron_thread *t = ron__thread_current();
    void *old = t->identity;

    t->identity = identity;
    return old;
}

void ron_single_writer_check(struct ron_single_writer *w, const char *what)
{
    struct ron_thread *t = ron__thread_current();
    void *me = t->identity != NULL ? t->identity : (void *)t;
    void *owner = ron_aptr_load(&w->_owner);

    if (RON_LIKELY(owner == me)) {
        return;
    }
    if (owner == NULL && ron_aptr_cas(&w->_owner, &owner, me)) {
        return;
    }
    ron_sync_breach(RON_BREACH_OWNER, what);
}

void ron_single_writer_release(struct ron_single_writer *w)
{
    ron_aptr_store(&w->_owner, NULL);
}
