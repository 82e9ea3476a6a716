/* SPDX-License-Identifier: Apache-2.0 */
/* flight.h - single flight: many want the same thing at once, one gets it, all share it.
 *
 * The first to join a key leads: it does the work and ends the flight with a value
 * (ron_flight_finish) or a failure (ron_flight_fail). Those who join meanwhile follow: they wait,
 * each with its own deadline, on a thread (ron_flight_wait) or as a task (ron_flight_poll and a
 * waker). After the end the key is free and the next to join leads a new flight: this is no cache.
 *
 * Rules:
 *   F1. A key has at most one running flight, and a running flight exactly one leader: the work
 *       never runs twice at once. A leader leaves only after its work has stopped.
 *   F2. A leader that leaves without an end has abandoned the flight. With `hand_over` the oldest
 *       follower leads from then on and starts anew; without it, or without followers, the flight
 *       ends, and the followers get RON_FLIGHT_FAILED with RON_CANCELLED.
 *   F3. Nobody is forgotten: a follower that was made leader and leaves before it noticed (its
 *       deadline passed) hands on like any leader.
 *   F4. A value belongs to the flight. Every participant may look at it until it leaves; the last
 *       to leave has it disposed of by `drop_value`, with no lock held.
 *   F5. Bounded: at most flights_max flights, ended ones that somebody still looks at included, and
 *       followers_max followers each; beyond that RON_FULL.
 *
 * Ownership: the caller owns the ticket, which must not move between join and leave. Each RON_OK of
 * ron_flight_join is followed by exactly one ron_flight_leave.
 * Threads: any; a ticket is used by one at a time. One lock of rank leaf, under which nothing is
 * called. Nothing is allocated after the table was made. */
#pragma once

#include <stddef.h>

#include "ron/base/env.h"
#include "ron/base/list.h"
#include "ron/base/rc.h"
#include "ron/chan/wait.h"

enum {
    /* Content ids (67 bytes), run keys and hashed names fit; hash what is longer. */
    RON_FLIGHT_KEY_MAX = 128,
    RON_FLIGHTS_DEFAULT = 1024, /* twice the requests that are in flight at once by default */
    RON_FLIGHTS_MAX = 1 << 20,
    RON_FLIGHT_FOLLOWERS_DEFAULT = 512, /* all requests in flight may want the same */
};

struct ron_flights;
struct ron_flight;

struct ron_flights_opts {
    const struct ron_env *env; /* borrowed while the table is made: randomness for the hash key */
    uint32_t flights_max;      /* 0 = the default */
    uint32_t followers_max;    /* 0 = the default */
    bool hand_over;            /* F2 */
    void (*drop_value)(void *value);
};

RON_MUST_USE enum ron_rc ron_flights_new(const struct ron_flights_opts *opts,
                                         struct ron_flights **ret_flights, struct ron_err *err);
/* Everybody must have left. */
void ron_flights_free(struct ron_flights *f);

enum ron_flight_role { RON_FLIGHT_LEADER, RON_FLIGHT_FOLLOWER };

struct ron_flight_ticket {
    struct ron_list_node _link; /* among the followers */
    struct ron_flights *_flights;
    struct ron_flight *_flight;
    enum ron_flight_role _role;
    struct ron_thread *_thread; /* who is to be woken; both NULL while nobody waits */
    struct ron_waker *_waker;
};

/* RON_OK; RON_FULL (F5); RON_INVALID for an empty key, RON_LIMIT for one that is too long. */
RON_MUST_USE enum ron_rc ron_flight_join(struct ron_flights *f, const void *key, size_t key_len,
                                         struct ron_flight_ticket *ret_ticket,
                                         enum ron_flight_role *ret_role);

/* What a follower learns. */
enum ron_flight_event {
    RON_FLIGHT_DONE,   /* `value` is there until this ticket leaves */
    RON_FLIGHT_FAILED, /* `failure` says why: the leader's code, or RON_CANCELLED (F2) */
    RON_FLIGHT_LEAD,   /* this ticket leads now: do the work */
};

struct ron_flight_news {
    enum ron_flight_event event;
    void *value;
    enum ron_rc failure;
};

/* RON_OK with news, RON_TIMEOUT or RON_CANCELLED; after those two it may wait again or leave.
 * Blocking point. */
RON_MUST_USE enum ron_rc ron_flight_wait(struct ron_flight_ticket *t, struct ron_deadline deadline,
                                         struct ron_flight_news *ret_news);

/* The leader ends the flight; take_value is not NULL and belongs to the flight from here on (F4).
 * The leader still leaves afterwards. */
void ron_flight_finish(struct ron_flight_ticket *t, void *take_value);
/* The same with a failure, which is not RON_OK. */
void ron_flight_fail(struct ron_flight_ticket *t, enum ron_rc failure);

void ron_flight_leave(struct ron_flight_ticket *t);
