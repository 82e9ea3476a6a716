/* SPDX-License-Identifier: Apache-2.0 */
/* sim_core.c - the clock, the timers and the record of what happened.
 *
 * Place: bottom of the simulator.
 *
 * Invariants:
 *   C1 timers fire in the order (time, creation), and time never goes back.
 *   C2 every event changes the hash, in order; every 64 events the state of the world does too. Two
 *   runs with
 *      equal hashes went the same way.
 *
 * Threads: one, or the fibers of one weave run. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/weave/weave.h"
#include "ron/base/assert.h"
#include "sim_priv.h"
#include "support/rand.h"
#include "sync/sync_testing.h"

static const char *const event_names[SIM_EV_COUNT] = {
#define X(name, text) text,
    SIM_EVENTS(X)
#undef X
};

/* ---- memory ---- */

void *sim__alloc(size_t size)
{
    void *ptr = calloc(1, size == 0 ? 1 : size);

    RON_ASSERT_MSG(ptr != NULL, "the simulator is out of memory");
    return ptr;
}

void *sim__grow(void *ptr, size_t size)
{
    void *bigger = realloc(ptr, size == 0 ? 1 : size);

    RON_ASSERT_MSG(bigger != NULL, "the simulator is out of memory");
    return bigger;
}

void sim__free(void *ptr)
{
    free(ptr);
}

void sim__bytes_extend(struct sim_bytes *b, size_t len)
{
    if (len > b->cap) {
        b->cap = RON_MAX(len, b->cap * 2);
        b->at = sim__grow(b->at, b->cap);
    }
    if (len > b->len) {
        memset(b->at + b->len, 0, len - b->len);
        b->len = len;
    }
}

void sim__bytes_put(struct sim_bytes *b, size_t off, const void *data, size_t len)
{
    if (len > 0) {
        sim__bytes_extend(b, off + len);
        memcpy(b->at + off, data, len);
    }
}

void sim__bytes_copy(struct sim_bytes *to, const struct sim_bytes *from)
{
    to->len = 0;
    sim__bytes_put(to, 0, from->at, from->len);
}

void sim__bytes_done(struct sim_bytes *b)
{
    sim__free(b->at);
    *b = (struct sim_bytes){0};
}

/* ---- timers ---- */

static bool earlier(const struct sim_timer *a, const struct sim_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void sim__timer(struct sim *sim, uint64_t at_ns, sim_fire_fn *fire, void *obj, uint64_t arg)
{
    struct sim_timer timer = {at_ns, sim->timer_seq++, fire, obj, arg};
    size_t i = sim->heap_count++;

    if (sim->heap_count > sim->heap_cap) {
        sim->heap_cap = RON_MAX((size_t)64, sim->heap_cap * 2);
        sim->heap = sim__grow(sim->heap, sim->heap_cap * sizeof *sim->heap);
    }
    while (i > 0 && earlier(&timer, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = timer;
    sim__poke_before(sim, at_ns);
}

static struct sim_timer pop(struct sim *sim)
{
    struct sim_timer top = sim->heap[0];
    struct sim_timer last = sim->heap[--sim->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && earlier(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!earlier(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    return top;
}

uint64_t sim__next_timer_ns(const struct sim *sim)
{
    return sim->heap_count == 0 ? UINT64_MAX : sim->heap[0].at_ns;
}

void sim__pump(struct sim *sim)
{
    while (sim__next_timer_ns(sim) <= sim_now_ns(sim)) {
        struct sim_timer timer = pop(sim);
        timer.fire(sim, timer.obj, timer.arg);
    }
}

/* ---- time ---- */

uint64_t sim_now_ns(const struct sim *sim)
{
    return sim->fibers ? ron_mono_ns() : sim->clock_ns;
}

void sim__enter(struct sim *sim)
{
    if (sim->fibers) {
        weave_point("sim", sim); /* every port is a place where another fiber may go first */
    }
    do {
        sim__pump(sim);
        sim__leave(sim); /* for waiters that the timers just fired concern */
    } while (sim__next_timer_ns(sim) <= sim_now_ns(sim));
}

void sim__leave(struct sim *sim)
{
    if (sim->fibers) {
        sim__poke_marked(sim);
    }
}

void sim_advance(struct sim *sim, uint64_t ns)
{
    uint64_t until_ns = ron_sat_add_u64(sim->clock_ns, ns);

    RON_ASSERT_MSG(!sim->fibers, "under weave time passes by waiting");
    while (sim__next_timer_ns(sim) <= until_ns) {
        sim->clock_ns = RON_MAX(sim->clock_ns, sim__next_timer_ns(sim));
        sim__pump(sim);
    }
    sim->clock_ns = until_ns;
}

void sim__spend(struct sim *sim, uint64_t ns)
{
    struct ron_mutex mutex;
    struct ron_cond cond;
    struct ron_deadline until = ron_deadline_after_ns(sim_now_ns(sim), ns);

    if (!sim->fibers) {
        sim_advance(sim, ns);
        return;
    }
    /* A condition nobody signals: unlike a park, it cannot swallow somebody's unpark. */
    ron_mutex_init(&mutex, RON_RANK_PLATFORM, "sim.spend");
    ron_cond_init(&cond);
    ron_mutex_lock(&mutex);
    while (!ron_deadline_expired(until, ron_mono_ns()) && !ron_thread_cancelled()) {
        (void)ron_cond_wait_until(&cond, &mutex, until);
    }
    ron_mutex_unlock(&mutex);
    ron_cond_done(&cond);
    ron_mutex_done(&mutex);
    sim__pump(sim);
}

/* ---- record ---- */

bool sim__chance(struct ron_rand *rand, uint64_t ppm)
{
    return ron_rand_chance(rand, RON_MIN(ppm, UINT64_C(1000000)), 1000000);
}

uint64_t sim__mix(uint64_t hash, uint64_t value)
{
    uint64_t state = hash ^ value;

    return ron_splitmix64(&state);
}

uint64_t sim__hash_bytes(const void *data, size_t len)
{
    const uint8_t *at = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t state_digest(const struct sim *sim)
{
    uint64_t hash = sim__mix(sim->heap_count, sim__socks_digest(sim));

    for (uint32_t i = 0; i < sim->host_count; i++) {
        hash = sim__mix(hash, sim->host[i]->env->life);
        hash = sim__mix(hash, sim__disk_digest(sim->host[i]->disk));
    }
    return hash;
}

static void record(struct sim *sim, enum sim_event ev, const char *name,
                   const struct sim_host *host, uint64_t a, uint64_t b)
{
    uint64_t now_ns = sim_now_ns(sim);

    sim->count[ev]++;
    sim->hash = sim__mix(sim->hash, (uint64_t)ev);
    sim->hash = sim__mix(sim->hash, now_ns);
    sim->hash = sim__mix(sim->hash, host == NULL ? UINT64_MAX : host->id);
    sim->hash = sim__mix(sim->hash, a);
    sim->hash = sim__mix(sim->hash, b);
    if (++sim->event_count % SIM_CHECKPOINT_EVERY == 0) {
        sim->hash = sim__mix(sim->hash, state_digest(sim)); /* keeps C2 */
    }
    if (sim->trace) {
        (void)fprintf(
            stderr, "%8" PRIu64 " %7" PRIu64 ".%06" PRIu64 " %-10s %-16s %" PRIu64 " %" PRIu64 "\n",
            sim->event_count, now_ns / RON_NS_PER_MS, now_ns % RON_NS_PER_MS,
            host == NULL ? "-" : host->name, name, a, b);
    }
}

void sim__event(struct sim *sim, enum sim_event ev, const struct sim_host *host, uint64_t a,
                uint64_t b)
{
    record(sim, ev, event_names[ev], host, a, b);
}

void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b)
{
    sim->hash = sim__mix(sim->hash, sim__hash_bytes(what, strlen(what)));
    record(sim, SIM_EV_NOTE, what, NULL, a, b);
}

uint64_t sim_count(const struct sim *sim, enum sim_event event)
{
    RON_ASSERT((unsigned)event < SIM_EV_COUNT);
    return sim->count[event];
}

uint64_t sim_trace_hash(const struct sim *sim)
{
    return sim__mix(sim->hash, state_digest(sim));
}

/* ---- life ---- */

struct sim *sim_new(uint64_t seed, const struct sim_opts *opts)
{
    struct sim *sim = sim__alloc(sizeof *sim);
    const char *override = getenv("RON_SIM_OPTS");
    const char *trace = getenv("RON_SIM_TRACE");
    struct ron_rand root;

    sim->seed = seed;
    sim->fibers = weave_running();
    sim->trace = trace != NULL && strcmp(trace, "1") == 0;
    sim->opts = opts == NULL ? sim_opts_swarm(seed) : *opts;
    if (override != NULL) {
        RON_ASSERT_MSG(sim_opts_parse(&sim->opts, override), "RON_SIM_OPTS: cannot read '%s'",
                       override);
    }
    sim->opts_start = sim->opts;
    sim->clock_ns = RON_NS_PER_S; /* not 0, which code tends to use for "never" */
    ron_rand_seed(&root, seed);
    sim->rand_net = ron_rand_fork(&root);
    sim->rand_test = ron_rand_fork(&root);
    sim->rand_hosts = ron_rand_fork(&root);
    ron_list_init(&sim->pollers);
    ron_list_init(&sim->socks);
    ron_list_init(&sim->graves);
    return sim;
}

void sim_free(struct sim *sim)
{
    if (sim == NULL) {
        return;
    }
    sim__pollers_free(sim);
    sim__socks_free(sim);
    for (uint32_t i = 0; i < sim->host_count; i++) {
        struct sim_host *host = sim->host[i];
        for (struct sim_env *se = host->env; se != NULL;) {
            struct sim_env *before = se->before;
            sim__free(se);
            se = before;
        }
        sim__disk_free(host->disk);
        sim__free(host);
    }
    sim__free(sim->heap);
    sim__free(sim);
}

struct sim_opts *sim_options(struct sim *sim)
{
    return &sim->opts;
}

struct ron_rand *sim_rand(struct sim *sim)
{
    return &sim->rand_test;
}

void sim_fail(const struct sim *sim, const char *file, int line, const char *expr)
{
    (void)fprintf(stderr, "%s:%d: check failed: %s\noptions:", file, line, expr);
#define X(name, kind, calm, low, high, doc)                                                        \
    if (sim->opts_start.name != (calm)) {                                                          \
        (void)fprintf(stderr, " %s=%" PRIu64, #name, sim->opts_start.name);                        \
    }
    SIM_OPTS(X)
#undef X
    (void)fprintf(stderr,
                  "\nafter %" PRIu64 " events, hash %016" PRIx64 "\n"
                  "SEED=%" PRIu64 " reproduce with RON_SEED=%" PRIu64 " RON_SIM_TRACE=1 %s\n",
                  sim->event_count, sim->hash, sim->seed, sim->seed, program_invocation_name);
    if (weave_running()) {
        weave_fail("check", "%s:%d: %s, SEED=%" PRIu64, file, line, expr, sim->seed);
    }
    abort();
}
