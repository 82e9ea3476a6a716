/* SPDX-License-Identifier: Apache-2.0 */
/* scn_exec.c - executor workers: a wake-up between the check and the sleep, and hand-over racing a
 * steal.
 *
 * Expected in every schedule: every message sent before the stop is handled exactly once and in
 * order; two calls of one handler never overlap, whichever workers make them; the drain ends
 * without a deadline. */
#include "scenario/scn_chan.h"
#include "scenario/scn_task.h"
#include "task/task_testing.h"

struct line;

struct stage {
    struct scn_house *house;
    struct line *line; /* exec_steal */
    struct scn_queue q;
    struct scn_order order;
    bool inside;
};

static void stage_init(struct stage *s, struct scn_house *h, uint32_t capacity, uint32_t count)
{
    *s = (struct stage){.house = h};
    scn_queue_init_exact(&s->q, capacity, RON_CHAN_WAIT, 1, count);
}

static void stage_done(struct stage *s)
{
    SCN_CHECK(s->order.count == s->q.per_producer);
    scn_queue_done(&s->q);
}

static enum ron_rc stage_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stage *s = arg;

    (void)t;
    SCN_CHECK(!s->inside); /* Also a data race, if calls could overlap. */
    s->inside = true;
    for (size_t i = 0; i < count; i++) {
        scn_receive(&s->order, items[i]);
    }
    s->inside = false;
    return RON_OK;
}

/* ---- a wake-up between the check and the sleep ----------------------------------------------- */

static void send_and_stop(void *arg)
{
    struct stage *s = arg;
    struct scn_party p = {.q = &s->q};

    scn_send_all(&p);
    SCN_CHECK(p.last == RON_OK);
    ron_sup_request_stop(s->house->sup);
}

static void exec_wakeup(void)
{
    struct scn_house h;
    struct stage s;
    struct ron_task_def def = {
        .name = "stage", .worker = RON_WORKER_ANY, .handle = stage_handle, .arg = &s};

    scn_house_init(&h, 1);
    stage_init(&s, &h, scn_capacity(2), scn_scale(2, scn_is_wide() ? 1000000 : 20000));
    def.input = s.q.chan;
    scn_house_add(&h, &def);
    scn_spawn("sender", send_and_stop, &s);
    scn_house_run(&h, RON_EXIT_DRAINED);
    scn_join_all();
    scn_house_done(&h);
    stage_done(&s);
}

/* ---- hand-over racing a steal ---------------------------------------------------------------- */

enum { FIRST, SECOND, THIRD, STAGES };

/* Two workers. Tasks get their homes in turn, so FIRST and THIRD live on worker 0 and SECOND on
 * worker 1. Waking FIRST and THIRD makes a backlog on worker 0, for which worker 1 is woken to take
 * over; meanwhile FIRST hands a message to SECOND, which makes that one runnable on whichever
 * worker FIRST is on. */
struct line {
    struct scn_house house;
    struct stage stages[STAGES];
    struct ron_au32 finished; /* messages handled, by all */
    uint32_t count;           /* messages per stage */
};

static void finish(struct line *l, size_t count)
{
    if (count > 0 && ron_au32_add(&l->finished, (uint32_t)count) + count == STAGES * l->count) {
        scn_calm(true); /* The drain is explored above. */
        ron_sup_request_stop(l->house.sup);
    }
}

static enum ron_rc line_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stage *s = arg;
    struct line *l = s->line;

    enum ron_rc rc = stage_handle(t, s, items, count);

    for (size_t i = 0; i < count && s == &l->stages[FIRST]; i++) {
        struct scn_queue *to = &l->stages[SECOND].q;
        struct scn_msg *m = &to->msgs[((struct scn_msg *)items[i])->seq];
        enum ron_rc sent;

        scn_move(m, SCN_SENDER, SCN_FLIGHT);
        sent = ron_chan_try_send(to->chan, m, NULL);
        SCN_CHECK(sent == RON_OK); /* The queue has room for all of them. */
    }
    finish(l, count);
    return rc;
}

/* It has the highest number, so in the calm of the start it comes last: the workers sleep by
 * then. */
static void feed(void *arg)
{
    struct line *l = arg;

    scn_calm(false);
    for (uint32_t i = 0; i < l->count; i++) {
        enum ron_rc rc =
            scn_send(&l->stages[FIRST].q, &l->stages[FIRST].q.msgs[i], ron_deadline_never());

        SCN_CHECK(rc == RON_OK);
        rc = scn_send(&l->stages[THIRD].q, &l->stages[THIRD].q.msgs[i], ron_deadline_never());
        SCN_CHECK(rc == RON_OK);
    }
}

static void exec_steal(void)
{
    static const char *const names[STAGES] = {"first", "second", "third"};
    struct line l = {.count = scn_scale(1, scn_is_wide() ? 350000 : 7000)};
    struct ron_exec_stats stats;

    scn_calm(true);
    scn_house_init(&l.house, 2);
    for (uint32_t i = 0; i < STAGES; i++) {
        struct stage *s = &l.stages[i];
        struct ron_task_def def = {.name = names[i],
                                   .worker = RON_WORKER_ANY,
                                   .batch_max = 4,
                                   .handle = line_handle,
                                   .arg = s};

        stage_init(s, &l.house, i == SECOND ? l.count : scn_capacity(2), l.count);
        s->line = &l;
        def.input = s->q.chan;
        scn_house_add(&l.house, &def);
    }
    scn_spawn("feeder", feed, &l);
    scn_house_run(&l.house, RON_EXIT_DRAINED);
    scn_join_all();
    ron_exec_get_stats(l.house.exec, &stats);
    scn_saw_if(stats.steals > 0, 0);
    scn_saw_if(stats.steals == 0, 1);
    scn_house_done(&l.house);
    for (uint32_t i = 0; i < STAGES; i++) {
        stage_done(&l.stages[i]);
    }
}

const struct scn scn_list[] = {
    {.name = "exec_wakeup", .body = exec_wakeup, .stress_rounds = 2, .stress_messages = 1000000},
    {.name = "exec_steal",
     .body = exec_steal,
     .must_see = {"a task taken over", "no task taken over"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {0},
};
