/* SPDX-License-Identifier: Apache-2.0 */
/* scn_oneshot.c - an answer racing the asker's deadline, and either side leaving first.
 *
 * Expected in every schedule: a value is taken by the asker, disposed of by the slot, or still with
 * the answerer, exactly one of them; the slot is freed once, by whoever leaves last. */
#include "chan/chan_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/chan/oneshot.h"
#include "scenario/scn.h"

/* On threads both sides run along an array of slots, so that they meet without starting a thread
 * each time. */
struct exchange {
    uint32_t count;
    struct ron_oneshot **slots;
    struct scn_msg *values;
    bool drops; /* the answerer gives up instead of answering */
    bool waits_twice;
};

static void drop_value(void *value)
{
    scn_move(value, SCN_FLIGHT, SCN_DROPPED);
    scn_saw(2);
}

static void answer_all(void *arg)
{
    struct exchange *x = arg;

    for (uint32_t i = 0; i < x->count; i++) {
        struct scn_msg *m = &x->values[i];

        if (x->drops) {
            ron_oneshot_drop(x->slots[i]);
            continue;
        }
        scn_move(m, SCN_SENDER, SCN_FLIGHT);
        if (ron_oneshot_answer(x->slots[i], m) != RON_OK) {
            scn_move(m, SCN_FLIGHT, SCN_SENDER); /* Nobody waits any more: it stays ours. */
        }
    }
}

static void ask_all(void *arg)
{
    struct exchange *x = arg;

    for (uint32_t i = 0; i < x->count; i++) {
        struct ron_deadline soon = ron_deadline_after_ns(ron_mono_ns(), scn_scale(10000000, 2000));
        void *value = NULL;
        enum ron_rc rc = ron_oneshot_wait(x->slots[i], soon, &value);

        if (rc == RON_TIMEOUT && x->waits_twice) {
            rc = ron_oneshot_wait(x->slots[i], ron_deadline_never(), &value);
            SCN_CHECK(rc != RON_TIMEOUT);
        }
        if (rc == RON_OK) {
            SCN_CHECK(!x->drops);
            scn_move(value, SCN_FLIGHT, SCN_RECEIVER);
        } else {
            SCN_CHECK(rc == (x->drops ? RON_CLOSED : RON_TIMEOUT) || rc == RON_TIMEOUT);
        }
        scn_saw_if(rc != RON_TIMEOUT, 0);
        scn_saw_if(rc == RON_TIMEOUT, 1);
        ron_oneshot_leave(x->slots[i]);
    }
}

static void exchange_run(bool drops, bool waits_twice)
{
    struct exchange x = {.count = scn_scale(1, 200000), .drops = drops, .waits_twice = waits_twice};

    x.slots = ron_alloc_array(x.count, sizeof *x.slots);
    x.values = ron_alloc_array(x.count, sizeof *x.values);
    RON_ASSERT(x.slots != NULL);
    RON_ASSERT(x.values != NULL);
    for (uint32_t i = 0; i < x.count; i++) {
        enum ron_rc rc = ron_oneshot_new(drop_value, &x.slots[i]);

        RON_ASSERT(rc == RON_OK);
    }
    scn_spawn("asker", ask_all, &x);
    scn_spawn("answerer", answer_all, &x);
    scn_join_all();
    SCN_CHECK(scn_owned_by(x.values, x.count, SCN_FLIGHT) == 0);
    SCN_CHECK(!waits_twice || drops || scn_owned_by(x.values, x.count, SCN_RECEIVER) == x.count);
    scn_count(x.count);
    ron_free(x.values);
    ron_free(x.slots);
}

static void oneshot_answer_or_timeout(void)
{
    exchange_run(false, false);
}

static void oneshot_second_wait(void)
{
    exchange_run(false, true);
}

static void oneshot_drop_or_timeout(void)
{
    exchange_run(true, false);
}

/* The asker leaves without having waited; the answerer asks first whether the work is still
 * wanted. */
static void leave_at_once(void *arg)
{
    struct exchange *x = arg;

    for (uint32_t i = 0; i < x->count; i++) {
        ron_oneshot_leave(x->slots[i]);
    }
}

static void answer_if_wanted(void *arg)
{
    struct exchange *x = arg;

    for (uint32_t i = 0; i < x->count; i++) {
        struct scn_msg *m = &x->values[i];
        bool abandoned = ron_oneshot_abandoned(x->slots[i]);
        enum ron_rc rc;

        scn_move(m, SCN_SENDER, SCN_FLIGHT);
        rc = ron_oneshot_answer(x->slots[i], m);
        if (rc != RON_OK) {
            SCN_CHECK(rc == RON_CANCELLED);
            scn_move(m, SCN_FLIGHT, SCN_SENDER);
        }
        SCN_CHECK(!abandoned || rc == RON_CANCELLED);
        scn_saw_if(abandoned, 0);
        scn_saw_if(!abandoned && rc == RON_CANCELLED, 1);
    }
}

static void oneshot_leave_race(void)
{
    struct exchange x = {.count = scn_scale(1, 200000)};

    x.slots = ron_alloc_array(x.count, sizeof *x.slots);
    x.values = ron_alloc_array(x.count, sizeof *x.values);
    RON_ASSERT(x.slots != NULL);
    RON_ASSERT(x.values != NULL);
    for (uint32_t i = 0; i < x.count; i++) {
        enum ron_rc rc = ron_oneshot_new(drop_value, &x.slots[i]);

        RON_ASSERT(rc == RON_OK);
    }
    scn_spawn("asker", leave_at_once, &x);
    scn_spawn("answerer", answer_if_wanted, &x);
    scn_join_all();
    SCN_CHECK(scn_owned_by(x.values, x.count, SCN_FLIGHT) == 0);
    scn_count(x.count);
    ron_free(x.values);
    ron_free(x.slots);
}

const struct scn scn_list[] = {
    {.name = "oneshot_answer_or_timeout",
     .body = oneshot_answer_or_timeout,
     .timeouts_max = 1,
     .must_see = {"an answer in time", "a timeout", "an answer disposed of by the slot"}},
    {.name = "oneshot_second_wait",
     .body = oneshot_second_wait,
     .timeouts_max = 1,
     .must_see = {"an answer"}},
    {.name = "oneshot_drop_or_timeout",
     .body = oneshot_drop_or_timeout,
     .timeouts_max = 1,
     .must_see = {"the end of the answerer", "a timeout"}},
    {.name = "oneshot_leave_race",
     .body = oneshot_leave_race,
     .must_see = {"a slot seen abandoned", "a slot abandoned between look and answer",
                  "an answer disposed of by the slot"}},
    {0},
};
