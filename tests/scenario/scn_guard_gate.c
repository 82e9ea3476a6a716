/* SPDX-License-Identifier: Apache-2.0 */
/* scn_guard_gate.c - the inflight gate and the limiter with several threads at once.
 *
 * Expected in every schedule: never more inside than the limit, offers are admitted or refused and
 * nothing else, a frozen clock gives exactly the burst. */
#include "ron/base/assert.h"
#include "ron/guard/gate.h"
#include "ron/guard/limiter.h"
#include "scenario/scn.h"

enum { PARTIES = 3, LIMIT = 2, BURST = 2 };

struct shared {
    struct ron_gate gate;
    struct ron_au32 inside; /* counted by those inside, beside the gate */
    struct ron_limiter *limiter;
    uint32_t rounds;
    struct ron_stat admitted, refused;
};

static void pass_gate(void *arg)
{
    struct shared *s = arg;

    for (uint32_t i = 0; i < s->rounds; i++) {
        if (ron_gate_enter(&s->gate) != RON_OK) {
            ron_stat_add(&s->refused, 1);
            continue;
        }
        SCN_CHECK(ron_au32_add(&s->inside, 1) < LIMIT);
        ron_stat_add(&s->admitted, 1);
        ron_au32_add(&s->inside, UINT32_MAX);
        ron_gate_leave(&s->gate);
    }
}

static void gate_exact(void)
{
    struct shared s = {.rounds = scn_scale(1, 300000)};
    struct ron_gate_stats stats;

    ron_gate_init(&s.gate, LIMIT);
    for (int i = 0; i < PARTIES; i++) {
        scn_spawn("party", pass_gate, &s);
    }
    scn_join_all();
    ron_gate_get_stats(&s.gate, &stats);
    SCN_CHECK(stats.inflight == 0);
    SCN_CHECK(stats.admitted == ron_stat_get(&s.admitted));
    SCN_CHECK(stats.busy_rejections_total == ron_stat_get(&s.refused));
    SCN_CHECK(stats.admitted + stats.busy_rejections_total == (uint64_t)PARTIES * s.rounds);
    scn_saw_if(stats.busy_rejections_total == 0, 0);
    scn_saw_if(stats.busy_rejections_total == 1, 1);
    scn_count(stats.admitted);
    ron_gate_done(&s.gate);
}

static uint64_t frozen(void *ctx)
{
    (void)ctx;
    return 1000;
}

static uint64_t plain_rand(const struct ron_env *env)
{
    (void)env;
    return 42;
}

static void pass_limiter(void *arg)
{
    struct shared *s = arg;

    for (uint32_t i = 0; i < s->rounds; i++) {
        enum ron_rc rc = ron_limiter_take(s->limiter, "client", 6, NULL);

        SCN_CHECK(rc == RON_OK || rc == RON_FULL);
        ron_stat_add(rc == RON_OK ? &s->admitted : &s->refused, 1);
    }
}

static void limiter_exact(void)
{
    const struct ron_env env = {.clock = {frozen, frozen, NULL}, .rand_u64 = plain_rand};
    struct shared s = {.rounds = scn_scale(1, 200000)};
    struct ron_limiter_stats stats;
    enum ron_rc rc = ron_limiter_new(
        &(struct ron_limiter_opts){.env = &env, .rate = {500, BURST}, .clients_max = 16},
        &s.limiter, NULL);

    RON_ASSERT(rc == RON_OK);
    for (int i = 0; i < PARTIES; i++) {
        scn_spawn("party", pass_limiter, &s);
    }
    scn_join_all();
    ron_limiter_get_stats(s.limiter, &stats);
    SCN_CHECK(stats.admitted == BURST);
    SCN_CHECK(stats.admitted == ron_stat_get(&s.admitted));
    SCN_CHECK(stats.offered == (uint64_t)PARTIES * s.rounds);
    SCN_CHECK(stats.offered == stats.admitted + stats.busy_rejections_total);
    scn_count(stats.offered);
    ron_limiter_free(s.limiter);
}

const struct scn scn_list[] = {
    {.name = "gate_exact",
     .body = gate_exact,
     .must_see = {"everybody was admitted", "one was refused"}},
    {.name = "limiter_exact", .body = limiter_exact},
    {0},
};
