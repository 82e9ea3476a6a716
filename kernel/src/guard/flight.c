/* SPDX-License-Identifier: Apache-2.0 */
/* flight.c - the table of flights, their followers and the end of each.
 *
 * Place: guard. A flight is taken from a fixed pool. While it runs it is in the map under its key;
 * when it ends it leaves the map at once and goes back to the pool with its last participant.
 *
 * Invariants (guarded by `mu`):
 *   I1 a flight is in the map exactly while it is RUNNING, so there is one per key (F1).
 *   I2 `present` counts the tickets that have joined and not left; a flight with 0 is in the pool.
 *   I3 RUNNING: exactly one present ticket has the role LEADER, all others are in `followers`.
 *   I4 whoever changes what a waiting ticket looks at takes its thread or waker under the lock and
 *      wakes it after; a ticket looks under the lock before it sleeps. So no wake-up is lost.
 * A woken thread's record and a task's waker outlive the ticket (chan/wait.h), so the ticket may be
 * gone when the wake-up arrives. */
#include "ron/guard/flight.h"

#include <string.h>

#include "guard/guard_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/map.h"
#include "ron/sync/sync.h"

enum { FLIGHTS_MAGIC = 0x666c6967 };

enum flight_state { UNUSED, RUNNING, DONE, FAILED };

struct ron_flight {
    struct ron_map_node node;
    struct ron_flight *next; /* in the pool */
    enum flight_state state;
    uint32_t present;
    uint32_t key_len;
    struct ron_list followers; /* oldest first; after the end: those not woken yet */
    uint32_t follower_count;
    enum ron_rc failure;
    void *value;
    unsigned char key[RON_FLIGHT_KEY_MAX];
};

struct ron_flights {
    uint32_t magic;
    uint32_t followers_max;
    bool hand_over;
    void (*drop_value)(void *value);
    struct ron_hash_key key;
    struct ron_flight *all;
    struct ron_mutex mu;
    struct ron_map running;
    struct ron_flight *pool;
    uint32_t in_use;
    struct ron_stat led;
    struct ron_stat coalesced;
    struct ron_stat refused;
    struct ron_stat finished;
    struct ron_stat failed;
    struct ron_stat handovers;
    struct ron_stat abandoned;
};

struct wake {
    struct ron_thread *thread;
    struct ron_waker *waker;
};

/* ---- the table ------------------------------------------------------------------------------- */

static bool flight_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct ron_flight *flight =
        RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct ron_flight, node);

    return flight->key_len == key->len && memcmp(flight->key, key->bytes, key->len) == 0;
}

enum ron_rc ron_flights_new(const struct ron_flights_opts *opts, struct ron_flights **ret_flights,
                            struct ron_err *err)
{
    uint32_t count = opts->flights_max == 0 ? RON_FLIGHTS_DEFAULT : opts->flights_max;
    struct ron_flights *f;

    RON_ASSERT(opts->drop_value != NULL);
    if (count > RON_FLIGHTS_MAX) {
        return ron_err_set(err, RON_LIMIT, "%u flights; at most %u", (unsigned)count,
                           (unsigned)RON_FLIGHTS_MAX);
    }
    f = ron_alloc_zero(sizeof *f);
    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "flights: no memory");
    }
    f->all = ron_alloc_array(count, sizeof *f->all);
    if (f->all == NULL ||
        ron_map_init(
            &f->running,
            &(struct ron_map_opts){.entries_max = count, .reserve = count, .equal = flight_equal},
            NULL) != RON_OK) {
        ron_free(f->all);
        ron_free(f);
        return ron_err_set(err, RON_NOMEM, "table of %u flights: no memory", (unsigned)count);
    }
    f->magic = FLIGHTS_MAGIC;
    f->followers_max =
        opts->followers_max == 0 ? RON_FLIGHT_FOLLOWERS_DEFAULT : opts->followers_max;
    f->hand_over = opts->hand_over;
    f->drop_value = opts->drop_value;
    f->key = (struct ron_hash_key){opts->env->rand_u64(opts->env), opts->env->rand_u64(opts->env)};
    ron_mutex_init(&f->mu, RON_RANK_LEAF, "flights");
    for (uint32_t i = count; i-- > 0;) {
        ron_list_init(&f->all[i].followers);
        f->all[i].next = f->pool;
        f->pool = &f->all[i];
    }
    *ret_flights = f;
    return RON_OK;
}

void ron_flights_free(struct ron_flights *f)
{
    if (f == NULL) {
        return;
    }
    RON_ASSERT(f->magic == FLIGHTS_MAGIC);
    RON_ASSERT_MSG(f->in_use == 0, "a participant has not left its flight");
    ron_mutex_done(&f->mu);
    f->magic = 0;
    ron_free(f->all);
    ron_map_done(&f->running);
    ron_free(f);
}

void ron_flights_get_stats(const struct ron_flights *f, struct ron_flights_stats *ret_stats)
{
    struct ron_flights_stats s = {.led = ron_stat_get(&f->led),
                                  .coalesced = ron_stat_get(&f->coalesced),
                                  .busy_rejections_total = ron_stat_get(&f->refused),
                                  .finished = ron_stat_get(&f->finished),
                                  .failed = ron_stat_get(&f->failed),
                                  .handovers = ron_stat_get(&f->handovers),
                                  .abandoned = ron_stat_get(&f->abandoned)};

    s.running = s.led - s.finished - s.failed - s.abandoned;
    *ret_stats = s;
}

/* ---- joining --------------------------------------------------------------------------------- */

static enum ron_rc follow(struct ron_flights *f, struct ron_flight *flight,
                          struct ron_flight_ticket *t)
{
    if (flight->follower_count >= f->followers_max) {
        return RON_FULL;
    }
    flight->follower_count++;
    ron_list_push_back(&flight->followers, &t->_link);
    t->_role = RON_FLIGHT_FOLLOWER;
    ron_stat_bump(&f->coalesced, 1);
    return RON_OK;
}

/* A new flight under a key that has none. */
static enum ron_rc lead(struct ron_flights *f, const struct ron_map_key *key,
                        struct ron_flight **ret_flight)
{
    struct ron_flight *flight = f->pool;
    enum ron_rc rc;

    if (flight == NULL) {
        return RON_FULL;
    }
    RON_ASSERT(flight->state == UNUSED);
    RON_ASSERT(ron_list_empty(&flight->followers));
    rc = ron_map_add(&f->running, &flight->node, key, 0);
    RON_ASSERT(rc == RON_OK); /* the map has a place for each flight */
    f->pool = flight->next;
    f->in_use++;
    flight->next = NULL;
    flight->state = RUNNING;
    flight->key_len = (uint32_t)key->len;
    flight->follower_count = 0;
    flight->present = 0;
    memcpy(flight->key, key->bytes, key->len);
    ron_stat_bump(&f->led, 1);
    *ret_flight = flight;
    return RON_OK;
}

enum ron_rc ron_flight_join(struct ron_flights *f, const void *key, size_t key_len,
                            struct ron_flight_ticket *ret_ticket, enum ron_flight_role *ret_role)
{
    struct ron_map_node *node;
    struct ron_flight *flight;
    struct ron_map_key map_key;
    enum ron_rc rc;

    RON_ASSERT(f->magic == FLIGHTS_MAGIC);
    if (key_len == 0 || key_len > RON_FLIGHT_KEY_MAX) {
        return key_len == 0 ? RON_INVALID : RON_LIMIT;
    }
    map_key = ron_map_key(f->key, key, key_len);
    *ret_ticket = (struct ron_flight_ticket){._flights = f};
    ron_mutex_lock(&f->mu);
    node = ron_map_find(&f->running, &map_key);
    if (node != NULL) {
        flight = RON_CONTAINER_OF(node, struct ron_flight, node);
        rc = follow(f, flight, ret_ticket);
    } else {
        rc = lead(f, &map_key, &flight);
        ret_ticket->_role = RON_FLIGHT_LEADER;
    }
    if (rc == RON_OK) {
        ret_ticket->_flight = flight;
        flight->present++;
        *ret_role = ret_ticket->_role;
    } else {
        ron_stat_bump(&f->refused, 1);
    }
    ron_mutex_unlock(&f->mu);
    return rc;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* News of the ticket, if there are some; else its waiter is noted (I4). */
static bool look(struct ron_flight_ticket *t, struct ron_thread *thread, struct ron_waker *waker,
                 struct ron_flight_news *ret_news)
{
    const struct ron_flight *flight = t->_flight;
    bool news = true;

    RON_ASSERT_MSG(flight != NULL, "the ticket has left");
    ron_mutex_lock(&t->_flights->mu);
    if (flight->state == DONE) {
        *ret_news = (struct ron_flight_news){.event = RON_FLIGHT_DONE, .value = flight->value};
    } else if (flight->state == FAILED) {
        *ret_news =
            (struct ron_flight_news){.event = RON_FLIGHT_FAILED, .failure = flight->failure};
    } else if (t->_role == RON_FLIGHT_LEADER) {
        *ret_news = (struct ron_flight_news){.event = RON_FLIGHT_LEAD};
    } else {
        news = false;
    }
    t->_thread = news ? NULL : thread;
    t->_waker = news ? NULL : waker;
    ron_mutex_unlock(&t->_flights->mu);
    return news;
}

enum ron_rc ron_flight_poll(struct ron_flight_ticket *t, struct ron_waker *waker,
                            struct ron_flight_news *ret_news)
{
    return look(t, NULL, waker, ret_news) ? RON_OK : RON_AGAIN;
}

enum ron_rc ron_flight_wait(struct ron_flight_ticket *t, struct ron_deadline deadline,
                            struct ron_flight_news *ret_news)
{
    struct ron_thread *self = ron_thread_self();
    enum ron_rc waited = RON_OK;

    ron_blocking_point("flight");
    while (waited == RON_OK) {
        if (look(t, self, NULL, ret_news)) {
            return RON_OK;
        }
        waited = ron_park_until(deadline, "flight");
    }
    /* The last look: news that came with the deadline are news. Nobody waits after it. */
    return look(t, NULL, NULL, ret_news) ? RON_OK : waited;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static struct wake take_wake(struct ron_flight_ticket *t)
{
    struct wake w = {t->_thread, t->_waker};

    t->_thread = NULL;
    t->_waker = NULL;
    return w;
}

/* With no lock held. */
static void deliver(struct wake w)
{
    if (w.thread != NULL) {
        ron_unpark(w.thread);
    } else if (w.waker != NULL) {
        w.waker->wake(w.waker);
    }
}

static struct ron_flight_ticket *pop_follower(struct ron_flight *flight)
{
    struct ron_list_node *node = ron_list_pop_front(&flight->followers);

    if (node == NULL) {
        return NULL;
    }
    flight->follower_count--;
    return RON_LIST_ENTRY(node, struct ron_flight_ticket, _link);
}

/* Takes the flight out of the map and wakes all followers, letting the lock go for each. The
 * caller is present, so the flight stays; a follower that leaves meanwhile unlinks itself, and none
 * can join any more. */
static void end(struct ron_flights *f, struct ron_flight *flight, enum flight_state state)
{
    struct ron_flight_ticket *t;

    RON_ASSERT(flight->state == RUNNING); /* I1 */
    ron_map_remove(&f->running, &flight->node);
    flight->state = state;
    while ((t = pop_follower(flight)) != NULL) {
        struct wake w = take_wake(t);

        ron_mutex_unlock(&f->mu);
        deliver(w);
        ron_mutex_lock(&f->mu);
    }
}

static void check_leads(const struct ron_flight_ticket *t)
{
    RON_ASSERT_MSG(t->_flight != NULL, "the ticket has left");
    RON_ASSERT_MSG(t->_role == RON_FLIGHT_LEADER, "only the leader ends a flight");
    RON_ASSERT_MSG(t->_flight->state == RUNNING, "a flight ends once");
}

void ron_flight_finish(struct ron_flight_ticket *t, void *take_value)
{
    struct ron_flights *f = t->_flights;

    RON_ASSERT(take_value != NULL);
    ron_mutex_lock(&f->mu);
    check_leads(t);
    t->_flight->value = take_value;
    ron_stat_bump(&f->finished, 1);
    end(f, t->_flight, DONE);
    ron_mutex_unlock(&f->mu);
}

void ron_flight_fail(struct ron_flight_ticket *t, enum ron_rc failure)
{
    struct ron_flights *f = t->_flights;

    RON_ASSERT(failure != RON_OK);
    ron_mutex_lock(&f->mu);
    check_leads(t);
    t->_flight->failure = failure;
    ron_stat_bump(&f->failed, 1);
    end(f, t->_flight, FAILED);
    ron_mutex_unlock(&f->mu);
}

/* The leader leaves a running flight (F2). Returns whom to wake once the lock is released. */
static struct wake abandon(struct ron_flights *f, struct ron_flight *flight)
{
    struct ron_flight_ticket *heir = f->hand_over ? pop_follower(flight) : NULL;

    if (heir != NULL) {
        heir->_role = RON_FLIGHT_LEADER; /* I3 */
        ron_stat_bump(&f->handovers, 1);
        return take_wake(heir);
    }
    flight->failure = RON_CANCELLED;
    ron_stat_bump(&f->abandoned, 1);
    end(f, flight, FAILED);
    return (struct wake){NULL, NULL};
}

void ron_flight_leave(struct ron_flight_ticket *t)
{
    struct ron_flights *f = t->_flights;
    struct ron_flight *flight = t->_flight;
    struct wake w = {NULL, NULL};
    void *value = NULL;

    RON_ASSERT_MSG(flight != NULL, "a ticket leaves once");
    ron_mutex_lock(&f->mu);
    if (ron_list_linked(&t->_link)) {
        ron_list_remove(&t->_link);
        flight->follower_count--;
    } else if (t->_role == RON_FLIGHT_LEADER && flight->state == RUNNING) {
        w = abandon(f, flight);
    }
    t->_flight = NULL;
    RON_ASSERT(flight->present > 0);
    if (--flight->present == 0) { /* I2 */
        value = RON_TAKE(flight->value);
        flight->state = UNUSED;
        flight->next = f->pool;
        f->pool = flight;
        f->in_use--;
    }
    ron_mutex_unlock(&f->mu);
    if (value != NULL) {
        f->drop_value(value);
    }
    deliver(w);
}
