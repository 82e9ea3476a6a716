/* SPDX-License-Identifier: Apache-2.0 */
/* scn.h - a concurrency scenario, written once and run twice.
 *
 * A scenario is a function that sets something up, lets a few threads race, joins them and checks
 * what must be true in every schedule. tests/model/run_weave.c explores all schedules of it on
 * fibers, with a handful of messages; tests/stress/run_threads.c runs it on real threads, under
 * ThreadSanitizer too, with a million. Each file scn_*.c defines `scn_list`, ended by an empty
 * entry.
 *
 * Rules for a scenario:
 *   - all state is made in the body and given back in it; nothing survives into the next run;
 *   - threads are made by scn_spawn only, and the body joins them all;
 *   - it depends on nothing but its schedule: no real time, no addresses, no random numbers of its
 *     own;
 *   - plain fields may be used for what the code under test is to hand over: if it hands over
 *     without ordering, ThreadSanitizer reports exactly that field. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/macros.h"

enum {
    /* At most so many threads in one scenario: more than a handful cannot be explored. */
    SCN_THREADS_MAX = 8,
    SCN_MARKS_MAX = 4,
};

struct scn {
    const char *name;
    void (*body)(void);
    /* Model: choices per schedule beyond who runs next. Waits that return for no reason are
     * explored (one per schedule) unless this says why not; early timeouts only where asked. */
    const char *no_spurious;
    uint32_t timeouts_max;
    /* Model: things that must happen in some schedule, else the scenario does not test what it
     * says. The body reports mark i with scn_saw(i). */
    const char *must_see[SCN_MARKS_MAX + 1];
    /* Threads: how often the body is run, and how many messages scn_count must have seen by
     * then. */
    uint32_t stress_rounds; /* 0 = 1 */
    uint64_t stress_messages;
};

extern const struct scn scn_list[];

/* ---- implemented by the runners -------------------------------------------------------------- */

bool scn_is_model(void);

/* On threads: how often the body has been run before. 0 in the model. */
uint32_t scn_round(void);

/* On threads rounds alternate between tight ones, with the capacity of the model, where almost
 * every message makes somebody sleep and wake, and wide ones, which carry the bulk of the
 * messages. */
static inline bool scn_is_wide(void)
{
    return scn_round() % 2 == 1;
}

/* The first number under the explorer, the second on real threads. */
static inline uint32_t scn_scale(uint32_t in_model, uint32_t on_threads)
{
    return scn_is_model() ? in_model : on_threads;
}

struct ron_thread;
struct ron_thread *scn_spawn(const char *name, void (*fn)(void *), void *arg);
void scn_join(struct ron_thread *t);
/* Waits for all threads spawned in this run and not joined yet. */
void scn_join_all(void);
/* The model explores nothing while calm: for set-up and tear-down that other scenarios explore. */
void scn_calm(bool calm);
/* This run has shown mark number `mark` of must_see. */
void scn_saw(uint32_t mark);
static inline void scn_saw_if(bool happened, uint32_t mark)
{
    if (happened) {
        scn_saw(mark);
    }
}
/* Messages that reached their receiver; called by the body after the join. */
void scn_count(uint64_t messages);

__attribute__((noreturn)) void scn_fail(const char *expr, const char *file, int line);
#define SCN_CHECK(cond) ((cond) ? (void)0 : scn_fail(#cond, __FILE__, __LINE__))

/* ---- ownership ledger ------------------------------------------------------------------------ */

/* Every message is owned by exactly one party, and says by whom. The owner alone may look at it or
 * change it, so the fields are plain. */
enum scn_owner { SCN_SENDER, SCN_FLIGHT, SCN_RECEIVER, SCN_EVICTED, SCN_DROPPED };

struct scn_msg {
    uint32_t producer;
    uint32_t seq; /* position among its producer's messages */
    enum scn_owner owner;
};

static inline void scn_move(struct scn_msg *m, enum scn_owner from, enum scn_owner to)
{
    SCN_CHECK(m->owner == from);
    m->owner = to;
}

/* One receiver's view of the order: of each producer's messages later ones come later. */
enum { SCN_PRODUCERS_MAX = 4 };

struct scn_order {
    uint32_t next[SCN_PRODUCERS_MAX];
    uint64_t count;
};

static inline void scn_receive(struct scn_order *order, struct scn_msg *m)
{
    scn_move(m, SCN_FLIGHT, SCN_RECEIVER);
    SCN_CHECK(m->producer < SCN_PRODUCERS_MAX);
    SCN_CHECK(m->seq >= order->next[m->producer]);
    order->next[m->producer] = m->seq + 1;
    order->count++;
}

static inline uint64_t scn_owned_by(const struct scn_msg *msgs, uint32_t count,
                                    enum scn_owner owner)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        n += msgs[i].owner == owner;
    }
    return n;
}
