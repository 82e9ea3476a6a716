/* SPDX-License-Identifier: Apache-2.0 */
/* scn_wlt_idem.c - the wallet's idempotency keys: rivals for one key, jobs that fail, and answers
 * that make room while others look at them.
 *
 * Expected in every schedule: one job of a key at a time, whoever comes after a success gets its
 * bytes, whoever comes after a failure may try, and no more jobs than allowed. What a job writes is
 * plain: two at once are a report of ThreadSanitizer. */
#include <string.h>

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "scenario/scn.h"
#include "wallet/table/idem.h"

enum { PARTIES = 3, ANSWER = 300 };

struct shared {
    struct wlt_idem *store;
    uint32_t rounds;
    uint32_t keys;    /* party i wants key i % keys, then the next one */
    uint32_t fail_of; /* one job of so many fails; 0: none */
    uint32_t jobs[4]; /* plain, by key: jobs so far */
    bool running[4];  /* plain, by key */
    struct ron_stat firsts, pendings, replays, full, kept;
};

struct party {
    struct shared *s;
    uint32_t id;
};

static void run_job(struct shared *s, uint32_t k)
{
    uint8_t answer[ANSWER];
    uint32_t number;

    SCN_CHECK(!s->running[k]);
    s->running[k] = true;
    number = ++s->jobs[k];
    s->running[k] = false;
    ron_stat_add(&s->firsts, 1);
    if (s->fail_of != 0 && number % s->fail_of == 1) {
        wlt_idem_abandon(s->store, (struct wlt_key){k, k});
        return;
    }
    ron_stat_add(&s->kept, 1);
    memset(answer, (int)(k + 1), sizeof answer);
    wlt_idem_finish(s->store, (struct wlt_key){k, k}, answer, sizeof answer, 0);
}

static void want(struct party *p, uint32_t k)
{
    static const uint8_t print[32];
    struct shared *s = p->s;
    uint8_t room[ANSWER + 1];
    struct ron_buf out;

    ron_buf_init_over(&out, room, sizeof room);
    switch (wlt_idem_begin(s->store, (struct wlt_key){k, k}, print, 0, &out)) {
    case WLT_IDEM_FIRST:
        run_job(s, k);
        break;
    case WLT_IDEM_PENDING:
        ron_stat_add(&s->pendings, 1);
        break;
    case WLT_IDEM_REPLAY:
        SCN_CHECK(ron_buf_len(&out) == ANSWER);
        SCN_CHECK(room[0] == k + 1);
        SCN_CHECK(room[ANSWER - 1] == k + 1);
        ron_stat_add(&s->replays, 1);
        break;
    case WLT_IDEM_FULL:
        ron_stat_add(&s->full, 1);
        break;
    case WLT_IDEM_CONFLICT:
        SCN_CHECK(false);
        break;
    }
}

static void take_part(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < p->s->rounds; i++) {
        want(p, (p->id + i) % p->s->keys);
    }
}

static void run(struct shared *s, uint32_t pending_max)
{
    static const char *const names[PARTIES] = {"party-0", "party-1", "party-2"};
    const struct wlt_idem_opts opts = {1, 4096, pending_max, 1000};
    struct party parties[PARTIES];
    enum ron_rc rc = wlt_idem_new(&opts, &s->store, NULL);

    RON_ASSERT(rc == RON_OK);
    for (uint32_t i = 0; i < PARTIES; i++) {
        parties[i] = (struct party){s, i};
        scn_spawn(s->keys == 1 ? "party" : names[i], take_part, &parties[i]);
    }
    scn_join_all();
    SCN_CHECK(ron_stat_get(&s->firsts) + ron_stat_get(&s->pendings) + ron_stat_get(&s->replays) +
                  ron_stat_get(&s->full) ==
              (uint64_t)PARTIES * s->rounds);
    scn_count(ron_stat_get(&s->firsts) + ron_stat_get(&s->replays));
    wlt_idem_free(s->store);
}

static void idem_one_first(void)
{
    struct shared s = {.rounds = scn_scale(1, 100000), .keys = 1};

    run(&s, PARTIES);
    SCN_CHECK(ron_stat_get(&s.firsts) == 1);
    scn_saw_if(ron_stat_get(&s.pendings) == 2, 0);
    scn_saw_if(ron_stat_get(&s.replays) == 2, 1);
}

static void idem_failed(void)
{
    struct shared s = {.rounds = scn_scale(1, 100000), .keys = 1, .fail_of = 2};

    run(&s, PARTIES);
    SCN_CHECK(ron_stat_get(&s.kept) <= 1); /* what is kept stays */
    scn_saw_if(ron_stat_get(&s.firsts) == 2 && ron_stat_get(&s.replays) == 1, 0);
    scn_saw_if(ron_stat_get(&s.pendings) == 2, 1);
}

static void idem_too_many(void)
{
    struct shared s = {.rounds = scn_scale(1, 100000), .keys = PARTIES};

    run(&s, 1);
    scn_saw_if(ron_stat_get(&s.full) == 2, 0);
    scn_saw_if(ron_stat_get(&s.full) == 0, 1);
}

const struct scn scn_list[] = {
    {.name = "idem_one_first",
     .body = idem_one_first,
     .must_see = {"both others find it running", "both others get its answer"}},
    {.name = "idem_failed",
     .body = idem_failed,
     .must_see = {"the second one succeeds, the third one gets it",
                  "both others are told to wait"}},
    {.name = "idem_too_many",
     .body = idem_too_many,
     .must_see = {"one job keeps the others out", "one after the other"}},
    {0},
};
