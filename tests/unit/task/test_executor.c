/* SPDX-License-Identifier: Apache-2.0 */
/* test_executor.c - where tasks run and who is woken for them.
 *
 * Goal: hand-over on one worker costs no wake-up, a task never runs twice at once, a backlog is
 * shared, nothing starves, and the number of threads and descriptors is what was asked for.
 * Method: real workers; handlers record the thread they ran on, the executor's own counters tell
 * the wake-ups. Where a schedule matters it is forced: a handler is held in a semaphore. */
#include "support/rand.h"
#include "sync/sync_testing.h"
#include "task/task_testing.h"
#include "unit/task/fixture.h"

#include <dirent.h>
#include <semaphore.h>

/* ---- number of workers ----------------------------------------------------------------------- */

/* Entries of a folder of /proc whose file `leaf` (or name, without leaf) starts with `prefix`. */
static size_t count_proc(const char *folder, const char *leaf, const char *prefix)
{
    DIR *dir = opendir(folder);
    size_t n = 0;

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char path[320];
        char text[32] = "";

        if (e->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s/%s", folder, e->d_name, leaf);
        FILE *f = leaf[0] != '\0' ? fopen(path, "r") : NULL;
        if (f != NULL) {
            (void)!fgets(text, sizeof text, f);
            (void)fclose(f);
        }
        n += strncmp(text, prefix, strlen(prefix)) == 0;
    }
    (void)closedir(dir);
    return n;
}

static void test_executor__worker_option__that_many_named_threads(void **state)
{
    static const uint32_t counts[] = {1, 2, 5};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(counts); i++) {
        struct fx *fx = fx_open(counts[i]);

        assert_int_equal(ron_exec_workers(fx->exec), counts[i]);
        assert_int_equal(ron_threads_live(), counts[i]);
        fx_until(count_proc("/proc/self/task", "comm", "loop-") == counts[i]);
        assert_int_equal(ron_registry_count(fx->reg), counts[i] + 1); /* and the shutdown watch */
        assert_true(fx_close(fx));
    }
}

static void test_executor__no_descriptors_needed__none_opened(void **state)
{
    (void)state;
    size_t before = count_proc("/proc/self/fd", "", "");
    struct fx *fx = fx_open_virtual(3);

    assert_int_equal(count_proc("/proc/self/fd", "", ""), before);
    assert_true(fx_close(fx));

    fx = fx_open(3);
    /* One epoll and one bell each, nothing else. */
    assert_int_equal(count_proc("/proc/self/fd", "", ""), before + 6);
    assert_true(fx_close(fx));
    assert_int_equal(count_proc("/proc/self/fd", "", ""), before);
}

static void test_executor__absurd_worker_count__refused_with_text(void **state)
{
    static const uint32_t counts[] = {0, RON_WORKERS_MAX + 1, UINT32_MAX};
    struct ron_registry *reg = NULL;

    (void)state;
    assert_int_equal(ron_registry_new(&reg, NULL), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(counts); i++) {
        struct ron_exec *exec = NULL;
        struct ron_err err = {0};
        enum ron_rc rc = ron_exec_new(
            &(struct ron_exec_opts){.env = ron_env_linux(), .registry = reg, .workers = counts[i]},
            &exec, &err);

        assert_int_equal(rc, RON_INVALID);
        assert_null(exec);
        assert_non_null(strstr(err.msg, "outside 1..64"));
    }
    ron_registry_free(reg);
    assert_true(ron_exec_free(NULL));
}

/* ---- hand-over ------------------------------------------------------------------------------- */

struct stage {
    struct ron_chan *next; /* NULL: the last */
    struct fx_gate *done;
    struct ron_aptr ran_on;
};

static enum ron_rc pass_on(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stage *s = arg;

    (void)t;
    ron_aptr_store(&s->ran_on, ron_thread_self());
    for (size_t i = 0; i < count; i++) {
        if (s->next == NULL) {
            fx_gate_add(s->done, 1);
        } else if (ron_chan_try_send(s->next, items[i], NULL) != RON_OK) {
            return RON_FULL;
        }
    }
    return RON_OK;
}

enum { CHAIN = 3 };

struct chain {
    struct fx_gate done;
    struct ron_chan *in[CHAIN];
    struct stage stages[CHAIN];
};

static struct fx *chain_open(struct chain *c, uint32_t workers)
{
    static const char *const names[CHAIN] = {"first", "second", "third"};
    struct fx *fx = fx_open(workers);

    fx_gate_init(&c->done);
    for (size_t i = 0; i < CHAIN; i++) {
        c->in[i] = fx_chan(fx, names[i], 64, RON_CHAN_REJECT);
    }
    for (uint32_t i = 0; i < CHAIN; i++) {
        c->stages[i] =
            (struct stage){.next = i + 1 < CHAIN ? c->in[i + 1] : NULL, .done = &c->done};
        (void)fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                .kind = "stage",
                                                .stage = i,
                                                .worker = RON_WORKER_ANY,
                                                .input = c->in[i],
                                                .handle = pass_on,
                                                .arg = &c->stages[i]});
    }
    return fx;
}

static void chain_close(struct chain *c, struct fx *fx)
{
    for (size_t i = 0; i < CHAIN; i++) {
        ron_chan_free(c->in[i]);
    }
    assert_true(fx_close(fx));
    fx_gate_done(&c->done);
}

static void test_executor__chain_of_stages__one_wake_up_and_one_worker(void **state)
{
    enum { ROUNDS = 300 };
    struct chain c = {0};
    struct fx *fx = chain_open(&c, 2);
    struct ron_exec_stats start;

    (void)state;
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_STARTED, "first", 1);
    fx_until(fx_stats(fx).runs >= CHAIN && fx_sleepers(fx) == 2);
    start = fx_stats(fx);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t before = fx_stats(fx).wakes;

        assert_true(fx_send(c.in[0], i));
        assert_true(fx_gate_reached(&c.done, i));
        fx_until(fx_sleepers(fx) == 2);
        /* The one from outside; a worker just about to sleep needs none at all. */
        assert_in_range(fx_stats(fx).wakes - before, 0, 1);
        assert_ptr_equal(ron_aptr_load(&c.stages[1].ran_on), ron_aptr_load(&c.stages[0].ran_on));
        assert_ptr_equal(ron_aptr_load(&c.stages[2].ran_on), ron_aptr_load(&c.stages[0].ran_on));
    }
    assert_in_range(fx_stats(fx).wakes - start.wakes, 1, ROUNDS);
    assert_int_equal(fx_stats(fx).steals, start.steals);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    chain_close(&c, fx);
}

static void test_executor__burst__sent_once_per_stage_not_per_message(void **state)
{
    enum { BURST = 64 };
    struct chain c = {0};
    struct fx *fx = chain_open(&c, 1);
    struct ron_exec_stats before;

    (void)state;
    for (uint64_t i = 1; i <= BURST; i++) {
        assert_true(fx_send(c.in[0], i));
    }
    before = fx_stats(fx);
    fx_start(fx);
    assert_true(fx_gate_reached(&c.done, BURST));
    /* Each stage runs once to start and perhaps once more for the batch. */
    assert_in_range(fx_stats(fx).runs - before.runs, CHAIN, 2 * CHAIN + 2);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    chain_close(&c, fx);
}

/* ---- one at a time --------------------------------------------------------------------------- */

enum { CROWD = 6, PUSHERS = 3, PUSHES = 6000 };

struct member {
    struct ron_task *task;
    struct ron_chan *in;
    struct ron_au32 inside;
    struct ron_stat overlaps;
    uint64_t sum; /* plain on purpose: the thread sanitizer sees any overlap too */
    uint64_t calls;
};

struct crowd {
    struct member members[CROWD];
    struct ron_au64 sent_sum;
    struct fx_gate pushed;
    struct ron_rand rands[PUSHERS];
    struct ron_au32 next_rand;
};

static enum ron_rc add_up(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct member *m = arg;

    (void)t;
    if (ron_au32_xchg(&m->inside, 1) != 0) {
        ron_stat_add(&m->overlaps, 1);
    }
    m->calls++;
    for (size_t i = 0; i < count; i++) {
        m->sum += fx_number(items[i]);
    }
    ron_au32_store(&m->inside, 0);
    return RON_OK;
}

static void pusher(void *arg)
{
    struct crowd *c = arg;
    struct ron_rand *rand = &c->rands[ron_au32_add(&c->next_rand, 1)];

    for (uint32_t i = 0; i < PUSHES; i++) {
        struct member *m = &c->members[ron_rand_below(rand, CROWD)];
        uint64_t n = ron_rand_range(rand, 1, 1000);

        if (ron_rand_chance(rand, 1, 3)) {
            ron_task_wake(m->task);
        } else if (ron_chan_try_send(m->in, fx_item(n), NULL) == RON_OK) {
            (void)ron_au64_add(&c->sent_sum, n);
        }
    }
    fx_gate_add(&c->pushed, 1);
}

static void test_executor__woken_from_everywhere__handler_calls_never_overlap(void **state)
{
    static const char *const names[CROWD] = {"a", "b", "c", "d", "e", "f"};
    struct crowd c = {0};
    struct fx *fx = fx_open(3);
    struct ron_thread *threads[PUSHERS];
    struct ron_rand rand = support_rand();
    uint64_t sum = 0;

    (void)state;
    fx_gate_init(&c.pushed);
    for (size_t i = 0; i < CROWD; i++) {
        c.members[i].in = fx_chan(fx, names[i], 32, RON_CHAN_REJECT);
        c.members[i].task = fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                              .kind = "crowd",
                                                              .worker = RON_WORKER_ANY,
                                                              .input = c.members[i].in,
                                                              .batch_max = 4,
                                                              .handle = add_up,
                                                              .arg = &c.members[i]});
    }
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_STARTED, "f", 1);
    for (size_t i = 0; i < PUSHERS; i++) {
        c.rands[i] = ron_rand_fork(&rand);
    }
    for (size_t i = 0; i < PUSHERS; i++) {
        assert_int_equal(ron_thread_start(
                             &(struct ron_thread_opts){
                                 .name = "pusher", .may_block = true, .main = pusher, .arg = &c},
                             &threads[i], NULL),
                         RON_OK);
    }
    assert_true(fx_gate_reached(&c.pushed, PUSHERS));
    for (size_t i = 0; i < PUSHERS; i++) {
        ron_thread_join(threads[i]);
    }
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(ron_stat_get(&c.members[i].overlaps), 0);
        assert_true(c.members[i].calls > 0);
        sum += c.members[i].sum;
        ron_chan_free(c.members[i].in);
    }
    assert_int_equal(sum, ron_au64_load(&c.sent_sum)); /* drained: nothing lost, nothing twice */
    assert_true(fx_close(fx));
    fx_gate_done(&c.pushed);
}

/* ---- taking over ----------------------------------------------------------------------------- */

struct held {
    struct ron_task *task;
    struct fx_gate ran;
    struct ron_aptr ran_on;
    struct ron_au32 hold; /* set: the next call waits in `release` */
    struct fx_gate holding;
    sem_t release;
};

static enum ron_rc note_and_hold(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct held *h = arg;

    (void)t;
    (void)items;
    (void)count;
    ron_aptr_store(&h->ran_on, ron_thread_self());
    if (ron_au32_load(&h->hold) != 0) {
        fx_gate_add(&h->holding, 1);
        (void)sem_wait(&h->release); /* on purpose behind the back of sync */
    }
    fx_gate_add(&h->ran, 1);
    return RON_OK;
}

enum { HELD = 5 };

static struct fx *held_open(struct held *tasks, int32_t worker)
{
    static const char *const names[HELD] = {"a", "b", "c", "d", "e"};
    struct fx *fx = fx_open(2);

    for (size_t i = 0; i < HELD; i++) {
        fx_gate_init(&tasks[i].ran);
        fx_gate_init(&tasks[i].holding);
        assert_int_equal(sem_init(&tasks[i].release, 0, 0), 0);
        tasks[i].task = fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                          .kind = "held",
                                                          .worker = worker,
                                                          .handle = note_and_hold,
                                                          .arg = &tasks[i]});
    }
    fx_start(fx);
    for (size_t i = 0; i < HELD; i++) {
        assert_true(fx_gate_reached(&tasks[i].ran, 1));
    }
    fx_until(fx_sleepers(fx) == 2);
    return fx;
}

static void held_close(struct held *tasks, struct fx *fx)
{
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < HELD; i++) {
        fx_gate_done(&tasks[i].ran);
        fx_gate_done(&tasks[i].holding);
        (void)sem_destroy(&tasks[i].release);
    }
    assert_true(fx_close(fx));
}

/* Three tasks that ran last on one worker: of five on two workers there always are. */
static void pick_three(struct held *tasks, struct held **ret_three)
{
    for (size_t i = 0; i < HELD; i++) {
        size_t n = 0;

        for (size_t k = 0; k < HELD && n < 3; k++) {
            if (ron_aptr_load(&tasks[k].ran_on) == ron_aptr_load(&tasks[i].ran_on)) {
                ret_three[n++] = &tasks[k];
            }
        }
        if (n == 3) {
            return;
        }
    }
    fail_msg("no three tasks share a worker");
}

static void test_executor__backlog_behind_busy_worker__sleeper_takes_over_half(void **state)
{
    struct held tasks[HELD] = {0};
    struct held *three[3] = {NULL, NULL, NULL};
    struct fx *fx = held_open(tasks, RON_WORKER_ANY);
    struct ron_exec_stats before;
    void *busy;

    (void)state;
    pick_three(tasks, three);
    before = fx_stats(fx);
    busy = ron_aptr_load(&three[0]->ran_on);
    ron_au32_store(&three[0]->hold, 1);
    ron_task_wake(three[0]->task);
    assert_true(fx_gate_reached(&three[0]->holding, 1));
    assert_int_equal(fx_sleepers(fx), 1);

    uint64_t ran1 = fx_gate_count(&three[1]->ran);
    uint64_t ran2 = fx_gate_count(&three[2]->ran);
    ron_task_wake(three[1]->task); /* one is no backlog: it waits for its worker */
    assert_int_equal(fx_sleepers(fx), 1);
    assert_int_equal(fx_stats(fx).wakes - before.wakes, 1); /* that of the held task */
    ron_task_wake(three[2]->task);
    fx_until(fx_gate_count(&three[1]->ran) + fx_gate_count(&three[2]->ran) == ran1 + ran2 + 1);
    assert_int_equal(fx_stats(fx).steals - before.steals, 1);
    fx_until(fx_sleepers(fx) == 1);

    struct held *moved = fx_gate_count(&three[1]->ran) > ran1 ? three[1] : three[2];
    struct held *kept = moved == three[1] ? three[2] : three[1];
    assert_ptr_not_equal(ron_aptr_load(&moved->ran_on), busy);
    ron_au32_store(&three[0]->hold, 0);
    (void)sem_post(&three[0]->release);
    fx_until(fx_gate_count(&kept->ran) == (kept == three[1] ? ran1 : ran2) + 1);
    assert_ptr_equal(ron_aptr_load(&kept->ran_on), busy);
    held_close(tasks, fx);
}

static void test_executor__fixed_tasks__never_taken_over(void **state)
{
    struct held tasks[HELD] = {0};
    struct fx *fx = held_open(tasks, 0);
    void *worker = ron_aptr_load(&tasks[0].ran_on);

    (void)state;
    ron_au32_store(&tasks[0].hold, 1);
    ron_task_wake(tasks[0].task);
    assert_true(fx_gate_reached(&tasks[0].holding, 1));
    for (size_t i = 1; i < HELD; i++) {
        ron_task_wake(tasks[i].task);
    }
    assert_int_equal(fx_sleepers(fx), 1); /* nobody was woken: there is nothing to take */
    ron_au32_store(&tasks[0].hold, 0);
    (void)sem_post(&tasks[0].release);
    for (size_t i = 1; i < HELD; i++) {
        assert_true(fx_gate_reached(&tasks[i].ran, 2));
        assert_ptr_equal(ron_aptr_load(&tasks[i].ran_on), worker);
    }
    assert_int_equal(fx_stats(fx).steals, 0);
    held_close(tasks, fx);
}

/* Work that a worker makes for itself is shared too, at the end of a round. */
enum { MILLS = 4 };

struct treadmill {
    struct ron_chan *in;
    struct ron_aptr *threads; /* the first two threads seen, common to all */
    struct fx_gate *both;
};

static enum ron_rc tread(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct treadmill *m = arg;
    void *first = NULL;

    (void)t;
    if (!ron_aptr_cas(&m->threads[0], &first, ron_thread_self()) && first != ron_thread_self()) {
        void *second = NULL;
        if (ron_aptr_cas(&m->threads[1], &second, ron_thread_self())) {
            fx_gate_add(m->both, 1);
        }
    }
    if (ron_aptr_load(&m->threads[1]) == NULL) {
        for (size_t i = 0; i < count; i++) {
            if (ron_chan_try_send(m->in, items[i], NULL) != RON_OK) {
                return RON_OK; /* the drain has begun */
            }
        }
    }
    return RON_OK;
}

/* On worker 0: one message for each mill, so that all of them become runnable there. */
static enum ron_rc feed_mills(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct treadmill *mills = arg;

    (void)t;
    (void)count;
    for (size_t i = 0; i < MILLS; i++) {
        RON_TRY(ron_chan_try_send(mills[i].in, items[0], NULL));
    }
    return RON_OK;
}

static void test_executor__worker_makes_its_own_backlog__another_joins_in(void **state)
{
    static const char *const names[MILLS] = {"a", "b", "c", "d"};
    struct ron_aptr threads[2] = {{NULL}, {NULL}};
    struct fx_gate both;
    struct treadmill mills[MILLS];
    struct fx *fx = fx_open(2);
    struct ron_chan *feed = fx_chan(fx, "feed", 1, RON_CHAN_REJECT);

    (void)state;
    fx_gate_init(&both);
    for (size_t i = 0; i < MILLS; i++) {
        mills[i] = (struct treadmill){
            .in = fx_chan(fx, names[i], 4, RON_CHAN_REJECT), .threads = threads, .both = &both};
        (void)fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                .kind = "mill",
                                                .stage = 1,
                                                .worker = RON_WORKER_ANY,
                                                .input = mills[i].in,
                                                .batch_max = 1,
                                                .handle = tread,
                                                .arg = &mills[i]});
    }
    (void)fx_add(fx, &(struct ron_task_def){.name = "feed",
                                            .kind = "feed",
                                            .worker = 0,
                                            .input = feed,
                                            .handle = feed_mills,
                                            .arg = mills});
    fx_start(fx);
    fx_until(fx_stats(fx).runs >= MILLS + 1 && fx_sleepers(fx) == 2);
    assert_true(fx_send(feed, 1));
    assert_true(fx_gate_reached(&both, 1));
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < MILLS; i++) {
        ron_chan_free(mills[i].in);
    }
    ron_chan_free(feed);
    assert_true(fx_close(fx));
    fx_gate_done(&both);
}

/* ---- fairness -------------------------------------------------------------------------------- */

static enum ron_rc spin_on(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct ron_stat *calls = arg;

    (void)items;
    (void)count;
    ron_stat_add(calls, 1);
    ron_task_wake(t); /* always runnable */
    return RON_OK;
}

static enum ron_rc count_items(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)items;
    fx_gate_add(arg, count);
    return RON_OK;
}

static void test_executor__busy_fixed_task__shared_task_still_served(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);
    struct ron_stat calls = {0};
    struct fx_gate served;

    (void)state;
    fx_gate_init(&served);
    (void)fx_add(
        fx, &(struct ron_task_def){
                .name = "busy", .kind = "fixed", .worker = 0, .handle = spin_on, .arg = &calls});
    (void)fx_add(fx, &(struct ron_task_def){.name = "guest",
                                            .kind = "shared",
                                            .worker = RON_WORKER_ANY,
                                            .input = in,
                                            .handle = count_items,
                                            .arg = &served});
    fx_start(fx);
    fx_until(ron_stat_get(&calls) > 1000);
    assert_true(fx_send(in, 1));
    assert_true(fx_gate_reached(&served, 1));
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(in);
    assert_true(fx_close(fx));
    fx_gate_done(&served);
}

/* ---- a worker that does not come back -------------------------------------------------------- */

struct stuck_end {
    bool freed;
    int exit_code;
    uint64_t leaked;
    uint64_t aborted;
};

static void stuck_worker(void *ret, void *arg)
{
    struct stuck_end *end = ret;
    struct fx *fx = fx_open_deadline(2, RON_DRAIN_DEADLINE_MIN_MS);
    struct held h = {.hold = {1}};

    (void)arg;
    fx_gate_init(&h.ran);
    fx_gate_init(&h.holding);
    (void)sem_init(&h.release, 0, 0);
    (void)fx_add(fx, &(struct ron_task_def){
                         .name = "stuck", .kind = "held", .handle = note_and_hold, .arg = &h});
    fx_start(fx);
    (void)fx_gate_reached(&h.holding, 1);
    end->exit_code = fx_stop(fx);
    end->leaked = ron_sup_leaked(fx->sup);
    end->aborted = fx_kind(fx, "held").aborted;
    ron_sup_free(fx->sup);
    end->freed = ron_exec_free(fx->exec);
}

static void test_executor__handler_never_returns__left_behind_and_told(void **state)
{
    struct stuck_end end = {.freed = true};

    (void)state;
    fx_child(stuck_worker, NULL, &end, sizeof end);
    assert_int_equal(end.exit_code, RON_EXIT_ABORTED);
    assert_int_equal(end.aborted, 1);
    assert_int_equal(end.leaked, 1);
    assert_false(end.freed);
}

/* ---- staying awake --------------------------------------------------------------------------- */

enum { AWAKE_MS = 10 };

/* Its worker stays awake after the first message. */
static enum ron_rc stay_awake_once(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct fx_gate *done = arg;

    for (size_t i = 0; i < count; i++) {
        if (fx_number(items[i]) == 1) {
            ron_worker_stay_awake(ron_env_now_ns(ron_task_env(t)) + AWAKE_MS * RON_NS_PER_MS);
        }
        fx_gate_add(done, 1);
    }
    return RON_OK;
}

static struct ron_exec_stats exec_stats(struct fx *fx)
{
    struct ron_exec_stats stats;

    ron_exec_get_stats(fx->exec, &stats);
    return stats;
}

/* The clock stands still, so the worker must look on for as long as the test wants. */
static void test_executor__worker_stays_awake__messages_wake_nobody_until_its_time(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in = fx_chan(fx, "in", 16, RON_CHAN_REJECT);
    struct ron_exec_stats before;
    struct fx_gate done;

    (void)state;
    fx_gate_init(&done);
    (void)fx_add(fx, &(struct ron_task_def){.name = "waits",
                                            .kind = "waits",
                                            .mode = RON_TASK_LOOP,
                                            .worker = RON_WORKER_ANY,
                                            .input = in,
                                            .handle = stay_awake_once,
                                            .arg = &done});
    fx_start(fx);
    assert_true(fx_send(in, 1));
    assert_true(fx_gate_reached(&done, 1));
    if (ron_spin_budget() != 0) { /* one processor: it sleeps */
        before = exec_stats(fx);
        fx_until(exec_stats(fx).polls > before.polls + 100);
        for (uint64_t i = 2; i <= 5; i++) {
            assert_true(fx_send(in, i));
            assert_true(fx_gate_reached(&done, i));
        }
        assert_int_equal(exec_stats(fx).wakes, before.wakes);
        assert_int_equal(exec_stats(fx).sleeps, before.sleeps);
    }
    before = exec_stats(fx);
    fx_advance_ms(fx, AWAKE_MS);
    fx_until(exec_stats(fx).sleeps > before.sleeps || ron_spin_budget() == 0);
    assert_true(fx_send(in, 6)); /* and is woken again */
    assert_true(fx_gate_reached(&done, ron_spin_budget() != 0 ? 6 : 2));
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(in);
    fx_gate_done(&done);
    assert_true(fx_close(fx));
}

static void test_executor__nobody_on_a_worker__staying_awake_does_nothing(void **state)
{
    (void)state;
    ron_worker_stay_awake(UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_executor__worker_option__that_many_named_threads),
        cmocka_unit_test(test_executor__no_descriptors_needed__none_opened),
        cmocka_unit_test(test_executor__absurd_worker_count__refused_with_text),
        cmocka_unit_test(test_executor__chain_of_stages__one_wake_up_and_one_worker),
        cmocka_unit_test(test_executor__burst__sent_once_per_stage_not_per_message),
        cmocka_unit_test(test_executor__woken_from_everywhere__handler_calls_never_overlap),
        cmocka_unit_test(test_executor__backlog_behind_busy_worker__sleeper_takes_over_half),
        cmocka_unit_test(test_executor__fixed_tasks__never_taken_over),
        cmocka_unit_test(test_executor__worker_makes_its_own_backlog__another_joins_in),
        cmocka_unit_test(test_executor__busy_fixed_task__shared_task_still_served),
        cmocka_unit_test(test_executor__worker_stays_awake__messages_wake_nobody_until_its_time),
        cmocka_unit_test(test_executor__nobody_on_a_worker__staying_awake_does_nothing),
        cmocka_unit_test(test_executor__handler_never_returns__left_behind_and_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
