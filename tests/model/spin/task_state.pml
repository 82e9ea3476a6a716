/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_state.pml - the run state of loop tasks, run queues, sleeping workers, taking over.
 *
 * Place: the model of kernel/src/task/executor.c, of make_runnable and ron__task_step in task.c,
 * and of ron_chan_recv_poll where a task waits for its input.
 *
 * Two tasks: messages come in for task 0, whose handler passes each one on to task 1 (a stage hop
 * on the same worker). Task 1 is also woken from outside without a message. Two workers.
 *
 * Model                     C
 *   sender                    any thread outside the executor: ron_chan_try_send to task 0
 *   ticker                    any thread: ron_task_wake of task 1
 *   worker                    worker_main: run_some, steal, wake_a_sleeper, poll_once
 *   run_state[t]              ron_task.run: IDLE, QUEUED, RUNNING, DIRTY
 *   ask_tick[t]               ron_task.ask_tick
 *   home[t]                   ron_task.home
 *   node[t]                   ron_task.rx: the task's place among the waiters of its input
 *   mail[t]                   ron_chan.count of its input
 *   queued[w * TASKS + t]     how often task t is linked in the run queue (shared) of worker w; a
 *                             set instead of a list, so the proof does not depend on the order
 *   sleeping[w]               ron_worker.sleeping
 *   eventfd[w]                the poller's wake-up, readable or not (poller->wake, poller->wait)
 *   make_runnable(), push()   make_runnable, ron__exec_push
 *   LINKED(w)                 ron_worker.shared_count, and shared_hint where it is read without the
 *                             lock. ron_exec.sleepers only spares useless looks; it is left out
 *   running[t]                ghost: workers inside a step of task t
 *   coming[t]                 ghost: wakers that have changed something for t (a message, a tick)
 *                             and have not yet decided what to do about run_state[t]
 *   moving[t]                 ghost: somebody carries t to a run queue
 *   asleep[w], ringing[w]     ghosts: worker w is in its poller to wait, or on the way there;
 *                             claimed wake-ups of w that are not yet written
 *   odd_wakes                 returns of the poller for another reason (timer, descriptor).
 *                             Bounded, because weak fairness would otherwise force them to happen.
 *
 * Invariants (monitor):
 *   T1 A task is linked in at most one run queue, once; and exactly while it is QUEUED and nobody
 *      carries it (I1 of task_priv.h).
 *   T2 At most one worker is in a step of a task (I2).
 *   T3 A message or a tick never stays with an IDLE task that nobody is about to wake.
 *   T4 No worker sleeps on a run queue that is not empty, unless its eventfd is readable or about
 *      to be written (I4).
 *   A worker only runs a task whose home it is (assertion in the worker, I3).
 * Liveness (weak fairness): in the end every message and every tick has been handled and all tasks
 *   are idle.
 *
 * Atomic blocks: a critical section of one ron_worker.mu or of one channel's lock (the fields in it
 * are touched under that lock only, and it never waits in its middle); one compare-and-set or
 * exchange. Loads, the step between two critical sections, the eventfd and the handler are steps of
 * their own: this is where the races would be.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl all_handled -DMESSAGES=1 -DODD_WAKES=0
 * @catch SLEEP_OUTSIDE_LOCK safety assertion
 * @catch NO_DIRTY safety assertion
 * @catch PUSH_WHEN_RUNNING safety assertion
 * @catch IDLE_BY_STORE safety assertion
 * @catch NO_EVENTFD safety assertion
 * @catch MORE_IGNORED safety assertion
 * @catch WAKE_BEFORE_SEND safety assertion
 * @catch WAIT_IN_SECOND_SECTION safety assertion
 * @catch STEAL_WITHOUT_LOCK safety assertion
 * @catch DRAIN_AFTER_FLAG safety assertion
 * @catch HOME_NOT_MOVED safety assertion
 * @catch NO_EVENTFD ltl all_handled -DMESSAGES=1 -DODD_WAKES=0
 */

#define TASKS 2
#define WORKERS 2
#define NOBODY 255
#ifndef MESSAGES
#define MESSAGES 2
#endif
#define BACKLOG 2
#define BATCH 1     /* ron_task_def.batch_max: less than can be there, so that steps leave some */
#ifndef ODD_WAKES
#define ODD_WAKES 1 /* enough to find a worker awake with its flag still set, and a stale eventfd */
#endif

mtype:phase = { IDLE, QUEUED, RUNNING, DIRTY };
mtype:place = { OUT, WAITING, WOKEN };

mtype:phase run_state[TASKS];
bit ask_tick[TASKS];
byte home[TASKS];
mtype:place node[TASKS];
byte mail[TASKS];
byte queued[WORKERS * TASKS];
bit sleeping[WORKERS];
bit eventfd[WORKERS];

byte running[TASKS];
byte coming[TASKS];
byte moving[TASKS];
bit asleep[WORKERS];
byte ringing[WORKERS];
byte odd_wakes = ODD_WAKES;

#define OTHER (1 - me)
#define LINKED(w) (queued[(w) * TASKS] + queued[(w) * TASKS + 1])

/* poller->wake of a worker whose flag the caller has cleared; after the unlock. */
inline ring(w)
{
    d_step {
#ifndef MUTANT_NO_EVENTFD
        eventfd[w] = 1;
#endif
        ringing[w]--
    }
}

/* claim_sleeper: with w's lock held. */
inline claim_sleeper(w, ret_wake)
{
    ret_wake = sleeping[w];
    sleeping[w] = 0;
    ringing[w] = ringing[w] + ret_wake
}

/* Wakes one worker that sleeps, to take over. Which one is a free choice. */
inline wake_a_sleeper(w, wake)
{
    if
    :: w = 0
    :: w = 1
    fi;
    atomic { claim_sleeper(w, wake) };
    if
    :: wake -> ring(w)
    :: else
    fi;
    d_step { w = 0; wake = 0 }
}

/* ron__exec_push: the caller has moved t to QUEUED. me is the calling worker, or NOBODY. From
 * outside the task goes home, and the caller looks at the backlog afterwards (look_at_backlog). */
inline push(t, me, w, wake, backlog)
{
    w = (me != NOBODY -> me : home[t]);
    atomic {
        home[t] = w;
        queued[w * TASKS + t]++;
        moving[t]--;
        claim_sleeper(w, wake);
        backlog = (!wake && w != me && LINKED(w) >= BACKLOG)
    };
    if
    :: wake -> ring(w)
    :: else
    fi;
    d_step { w = 0; wake = 0 } /* forgotten values would be states */
}

inline look_at_backlog(w, wake, backlog)
{
    if
    :: backlog -> wake_a_sleeper(w, wake)
    :: else
    fi;
    backlog = 0
}

/* make_runnable, with the compare-and-sets spelled out; seen is what this thread knows. The ghost
 * coming ends with the step that decides. */
inline make_runnable(t, me, seen, w, wake, backlog)
{
    seen = run_state[t];
    do
    :: atomic {
        seen == IDLE && run_state[t] == IDLE ->
        run_state[t] = QUEUED;
        moving[t]++;
        coming[t]--
       };
       push(t, me, w, wake, backlog);
       break
#ifdef MUTANT_NO_DIRTY
    :: atomic { seen == RUNNING -> coming[t]-- };
       break
#else
#ifdef MUTANT_PUSH_WHEN_RUNNING
    :: atomic {
        seen == RUNNING && run_state[t] == RUNNING ->
        run_state[t] = QUEUED;
        moving[t]++;
        coming[t]--
       };
       push(t, me, w, wake, backlog);
       break
#else
    :: atomic {
        seen == RUNNING && run_state[t] == RUNNING ->
        run_state[t] = DIRTY;
        coming[t]--
       };
       break
#endif
#endif
    :: atomic { (seen == QUEUED || seen == DIRTY) -> coming[t]-- };
       break
    :: (seen == IDLE || seen == RUNNING) && run_state[t] != seen -> seen = run_state[t]
    od;
    seen = IDLE
}

/* ron_chan_try_send to the input of t and the waker's call after the unlock, if one is due. */
inline send(t, me, call, seen, w, wake, backlog)
{
    atomic {
#ifndef MUTANT_WAKE_BEFORE_SEND
        mail[t]++;
#endif
        if
        :: node[t] == WAITING ->
            node[t] = WOKEN;
            coming[t]++;
            call = 1
        :: else
        fi
    };
    if
    :: call ->
        call = 0;
        make_runnable(t, me, seen, w, wake, backlog)
    :: else
    fi;
#ifdef MUTANT_WAKE_BEFORE_SEND
    mail[t]++;
#endif
    skip
}

proctype sender()
{
    byte sent;
    bit call;
    bit wake;
    bit backlog;
    byte w;
    mtype:phase seen = IDLE;

    do
    :: sent < MESSAGES ->
        send(0, NOBODY, call, seen, w, wake, backlog);
        look_at_backlog(w, wake, backlog);
        sent++
    :: else -> break
    od
}

proctype ticker()
{
    bit wake;
    bit backlog;
    byte w;
    mtype:phase seen = IDLE;

    d_step { ask_tick[1] = 1; coming[1]++ };
    make_runnable(1, NOBODY, seen, w, wake, backlog);
    look_at_backlog(w, wake, backlog)
}

/* dequeue: any task of this run queue, or NOBODY; with the lock held. */
inline dequeue(w, ret_t)
{
    if
    :: queued[w * TASKS] > 0 -> ret_t = 0
    :: queued[w * TASKS + 1] > 0 -> ret_t = 1
    :: else -> ret_t = NOBODY
    fi
}

proctype worker(byte me)
{
    byte t = NOBODY;
    byte w;
    byte n;
    bit more;
    bit call;
    bit wake;
    bit backlog;
    mtype:phase seen = IDLE;

round:
    /* run_some */
    atomic {
        dequeue(me, t);
        if
        :: t != NOBODY -> queued[me * TASKS + t]--; moving[t]++
        :: else
        fi
    };
    if
    :: t != NOBODY -> goto run_task
    :: else
    fi;

    /* steal: the hint is read without the lock, so it may be old when the lock is taken. */
    if
    :: LINKED(OTHER) >= BACKLOG ->
#ifdef MUTANT_STEAL_WITHOUT_LOCK
        atomic { dequeue(OTHER, t) };
        atomic {
            if
            :: t != NOBODY ->
                queued[OTHER * TASKS + t] = 0;
#else
        atomic {
            dequeue(OTHER, t);
            if
            :: t != NOBODY ->
                queued[OTHER * TASKS + t]--;
#endif
                moving[t]++;
#ifndef MUTANT_HOME_NOT_MOVED
                home[t] = me
#endif
            :: else
            fi
        };
        if
        :: t != NOBODY ->
            atomic { queued[me * TASKS + t]++; moving[t]--; t = NOBODY };
            goto round
        :: else
        fi
    :: else
    fi;

    /* A worker with a backlog wakes another before it polls. */
    if
    :: LINKED(me) >= BACKLOG -> wake_a_sleeper(w, wake)
    :: else
    fi;

    /* poll_once */
#ifdef MUTANT_SLEEP_OUTSIDE_LOCK
    if
    :: LINKED(me) > 0 -> goto poll_only
    :: LINKED(me) == 0
    fi;
    d_step { sleeping[me] = 1; asleep[me] = 1 };
#else
    atomic {
        if
        :: LINKED(me) > 0 -> goto poll_only
        :: LINKED(me) == 0 -> sleeping[me] = 1; asleep[me] = 1
        fi
    };
#endif
#ifdef MUTANT_DRAIN_AFTER_FLAG
    eventfd[me] = 0;
#endif
end_asleep:
    if
    :: atomic { eventfd[me] -> eventfd[me] = 0; asleep[me] = 0 }
    :: atomic { odd_wakes > 0 -> odd_wakes--; asleep[me] = 0 }
    fi;
    sleeping[me] = 0; /* under the lock again */
    goto round;
poll_only:
    eventfd[me] = 0; /* the poll that does not wait empties it too */
    goto round;

run_task:
    atomic {
        assert(run_state[t] == QUEUED);
        assert(home[t] == me);
        run_state[t] = RUNNING;
        moving[t]--;
        running[t]++
    };
    /* ron__task_step: the tick is taken before the input is looked at. */
    ask_tick[t] = 0;
    atomic { /* ron_chan_recv_poll: taking and waiting again in one critical section */
        n = (mail[t] < BATCH -> mail[t] : BATCH);
        mail[t] = mail[t] - n;
        more = (mail[t] > 0);
        node[t] = OUT;
#ifdef MUTANT_WAIT_IN_SECOND_SECTION
    };
    atomic {
#endif
        if
        :: !more -> node[t] = WAITING
        :: else
        fi
    };
    /* The handler: task 0 passes on what it got. */
    if
    :: t == 0 && n > 0 -> send(1, me, call, seen, w, wake, backlog)
    :: else
    fi;
    n = 0;

    /* run_task after the step. */
#ifndef MUTANT_MORE_IGNORED
    if
    :: more ->
        d_step { more = 0; running[t]--; run_state[t] = QUEUED; moving[t]++ };
        goto again
    :: else
    fi;
#endif
    more = 0;
#ifdef MUTANT_IDLE_BY_STORE
    d_step { running[t]--; run_state[t] = IDLE; t = NOBODY };
    goto round;
#else
    atomic {
        if
        :: run_state[t] == RUNNING ->
            running[t]--;
            run_state[t] = IDLE;
            t = NOBODY;
            goto round
        :: else
        fi
    };
#endif
    d_step {
        assert(run_state[t] == DIRTY);
        running[t]--;
        run_state[t] = QUEUED;
        moving[t]++
    };
again:
    push(t, me, w, wake, backlog);
    t = NOBODY;
    goto round
}

#define LINKS(t) (queued[t] + queued[TASKS + t])
#define T1(t) (LINKS(t) + moving[t] <= 1 && (run_state[t] == QUEUED) == (LINKS(t) + moving[t] == 1))
#define T2(t) (running[t] <= 1)
#define T3(t) (run_state[t] != IDLE || coming[t] > 0 || (mail[t] == 0 && !ask_tick[t]))
#define T4(w) (!asleep[w] || LINKED(w) == 0 || eventfd[w] || ringing[w] > 0)
#define ALL_HOLD (T1(0) && T1(1) && T2(0) && T2(1) && T3(0) && T3(1) && T4(0) && T4(1))

#ifndef LIVENESS
/* Executable only in a state that breaks an invariant; then it says which. */
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(T1(0) && T1(1));
        assert(T2(0) && T2(1));
        assert(T3(0) && T3(1));
        assert(T4(0) && T4(1))
    }
}
#endif

init
{
    byte i;

    /* One step, so that the order of creation adds no states. Both tasks have run once and wait for
     * their input; both live on worker 0, so that there is something to take over. */
    atomic {
        for (i : 0 .. TASKS - 1) {
            run_state[i] = IDLE;
            node[i] = WAITING
        }
        run sender();
        run ticker();
        run worker(0);
        run worker(1)
    }
}

#ifdef LIVENESS
/* Spin's search for unfair cycles overlooks runs that stop (a deadlock would pass). With this
 * process no run stops. (The assignment is there because Spin refuses an empty loop.) */
bit tick;

active proctype time_goes_on()
{
    do
    :: tick = 0
    od
}
#endif

#define RESTS(t) (mail[t] == 0 && !ask_tick[t] && run_state[t] == IDLE)

ltl all_handled { <>[] (RESTS(0) && RESTS(1)) }
