/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.pml - tasks that fail at any time, restarts, escalation, and a stop at any time.
 *
 * Place: the model of kernel/src/task/supervisor.c (ron_sup_run) and drain.c (ron__sup_drain), with
 * two supervised tasks. Task 0 has the intake role and is essential, task 1 is a stage and is not.
 * Both have a thread here: a loop task without one is the same with nothing to join.
 *
 * Model                     C
 *   supervisor                ron_sup_run on its thread, ron__sup_drain
 *   task                      ron__task_blocking_main and what it calls, ron__sup_task_ended
 *   operator                  ron_sup_request_stop: never, once or twice
 *   begin(), settle()         begin, settle
 *   restart_due()             restart_due; whether a delay is over is a free choice
 *   count_failure()           count_failure; how much of the past has left the window is a free
 *                             choice
 *   sup_state, stop_requested ron_sup.state, .stop_requested
 *   known                     ron_sup.thread != NULL
 *   permit                    the park token of the supervisor's thread
 *   life[t], failed[t]        ron_task.life; ron_task.end_rc != RON_OK; under ron_sup.mu
 *   handle[t]                 ron_task.thread != NULL
 *   ask_drain, intake_stopped ron_task.ask_drain, .intake_stopped of task 0
 *   ask_stop[t], ask_abort[t] ron_task.ask_stop, .ask_abort
 *   failures[t]               ron_task.failure_count
 *   aborted, leaked           ron_kind_stats.aborted in total, ron_sup_leaked
 *   nature[t]                 ghost: how this start of the task will behave: GOOD ends when asked,
 *                             FAILING fails at any time, STRAGGLER waits until it is aborted,
 *                             STUBBORN does not end at all
 *   live[t], exited[t]        ghosts: threads begun and not joined; the thread has come to its end
 *   has_deadline              ghost: whether deadlines can pass. In C they always can; runs without
 *                             show that a drain ends without their help. Only runs with deadlines
 *                             have stragglers
 *   expired, late             the present deadline (first of the drain, then of the grace time) has
 *                             passed; ghost: one has ever passed
 *
 * Invariants:
 *   S1 Nothing is begun outside Running, nor while an earlier thread of the task is not joined
 *      (begin()).
 *   S2 A thread is joined exactly once (settle(), and S5).
 *   S3 The states move Running -> Draining -> {Aborting ->} Stopped and nowhere else (move()).
 *   S4 A task is begun again after at most RESTARTS_MAX failures inside the window (restart_due()).
 *   S5 Stopped implies that every thread is joined, except those counted as leaked; leaked counts
 *      stubborn threads only, so it is 0 when there are none; and only what was aborted (monitor).
 *   S6 Something is aborted only past a deadline, and at most once each (monitor).
 *   S7 The stage is asked to end only after the intake has stopped or a deadline has passed
 *      (monitor): the order of the drain.
 * Liveness (weak fairness): a requested stop reaches Stopped; an essential task that failed too
 *   often brings the service to Stopped.
 *
 * Assumption: the last grace time (end_leftovers) is long enough for a thread that does react. It
 * passes only when nothing but stubborn threads is left.
 *
 * Atomic blocks: critical sections of ron_sup.mu (short copies, nothing waits inside); the join (it
 * waits before it changes anything); decisions about what only the supervisor's thread touches (the
 * life of a task that is not alive, its failures); one unpark; in the task, the choice of its
 * nature, which is no step of the program. Elsewhere the supervisor goes step by step: a stop, an
 * end or a failure may come between its look at a flag and what it does about it.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl stop_reaches_stopped -DRESTARTS_MAX=1 -DREQUESTS=1
 * @prove ltl fatal_reaches_stopped -DRESTARTS_MAX=1 -DREQUESTS=0
 * @catch RESTART_AFTER_DRAIN safety assertion
 * @catch BEGIN_BEFORE_JOIN safety assertion
 * @catch JOIN_TWICE safety assertion
 * @catch ONE_RESTART_TOO_MANY safety assertion
 * @catch STOPPED_WITHOUT_WAITING safety assertion
 * @catch LEAK_UNCOUNTED safety assertion
 * @catch CLOSE_BEFORE_INTAKE safety assertion
 * @catch ABORT_WITHOUT_DRAIN safety assertion
 * @catch WAITS_FOR_RESTART safety deadlock
 * @catch END_WITHOUT_NOTIFY safety deadlock
 * @catch STOP_WITHOUT_NOTIFY ltl stop_reaches_stopped -DRESTARTS_MAX=1 -DREQUESTS=1
 * @catch NOTIFY_BEFORE_STORE ltl stop_reaches_stopped -DRESTARTS_MAX=1 -DREQUESTS=1
 * @catch ESCALATION_IGNORED ltl fatal_reaches_stopped -DRESTARTS_MAX=1 -DREQUESTS=0
 */

#define TASKS 2
#define INTAKE 0
#define STAGE 1
#ifndef RESTARTS_MAX
#define RESTARTS_MAX 5 /* of task 0 */
#endif
#ifndef REQUESTS
#define REQUESTS 2 /* a second request changes nothing */
#endif
#define MAX_OF(t) (t == INTAKE -> RESTARTS_MAX : 1) /* one is enough for the other: fewer states */

mtype:state = { RUNNING, DRAINING, ABORTING, STOPPED, FRESH };
mtype:life = { NEW, ALIVE, ENDED, BACKOFF, DONE };
mtype:step = { RUNS, INTAKE_STOPS, STAGE_ENDS, INTAKE_ENDS, LEFTOVERS };
mtype:nature = { GOOD, FAILING, STRAGGLER, STUBBORN };

mtype:state sup_state = FRESH;
bit stop_requested;
bit known;
bit permit;
mtype:life life[TASKS];
bit failed[TASKS];
bit handle[TASKS];
bit ask_drain;
bit intake_stopped;
bit ask_stop[TASKS];
bit ask_abort[TASKS];
byte failures[TASKS];
byte aborted;
byte leaked;
bit fatal;

mtype:nature nature[TASKS];
bit started[TASKS]; /* the thread runs: pthread_create has returned in the child */
byte live[TASKS];
bit exited[TASKS];
bit has_deadline;
bit late;

/* The only way to change the state: S3. */
inline move(to)
{
    d_step {
        assert((sup_state == FRESH && to == RUNNING) ||
               (sup_state == RUNNING && to == DRAINING) ||
               (sup_state == DRAINING && (to == ABORTING || to == STOPPED)) ||
               (sup_state == ABORTING && to == STOPPED));
        sup_state = to
    }
}

/* ron__sup_notify, and the end of ron__sup_task_ended. */
inline notify()
{
    atomic {
        if
        :: known -> permit = 1
        :: else
        fi
    }
}

proctype operator()
{
    byte requests;

    do
    :: requests < REQUESTS ->
#ifdef MUTANT_NOTIFY_BEFORE_STORE
        notify();
        stop_requested = 1;
#else
        stop_requested = 1;
#ifndef MUTANT_STOP_WITHOUT_NOTIFY
        notify();
#endif
#endif
        requests++
    :: break
    od
}

proctype task(byte t)
{
    bit bad;

end_unborn:
    do
    :: atomic {
        started[t] ->
        started[t] = 0;
        if
        :: nature[t] = GOOD
        :: nature[t] = FAILING
        :: has_deadline -> nature[t] = STRAGGLER
        :: has_deadline -> nature[t] = STUBBORN
        fi
       };
end_stubborn:
       do
       :: nature[t] == FAILING ->
        bad = 1;
        break
       :: nature[t] == GOOD && t == INTAKE && ask_drain && !intake_stopped ->
        intake_stopped = 1; /* ron_task_intake_stopped */
        notify()
       :: nature[t] == GOOD && ask_stop[t] -> break
       :: nature[t] != STUBBORN && ask_abort[t] ->
        bad = 1; /* RON_CANCELLED */
        break
       od;
       atomic { /* ron__sup_task_ended, under ron_sup.mu */
        assert(life[t] == ALIVE);
        life[t] = ENDED;
        failed[t] = bad;
        bad = 0
       };
#ifndef MUTANT_END_WITHOUT_NOTIFY
       notify();
#endif
       d_step { exited[t] = 1; nature[t] = GOOD } /* a forgotten value would be a state */
    od
}

/* begin: S1. The start of a thread may fail; then the supervisor itself tells the end. */
inline begin(t)
{
    atomic {
        assert(sup_state == RUNNING);
        assert(live[t] == 0);
        life[t] = ALIVE
    };
    if
    :: atomic { live[t]++; started[t] = 1; handle[t] = 1 }
    :: atomic { life[t] = ENDED; failed[t] = 1; permit = 1 }
    fi
}

/* Called inside settle()'s block. */
inline count_failure(t)
{
    do
    :: failures[t] > 0 -> failures[t]--
    :: break
    od;
    failures[t]++
}

#ifdef MUTANT_ONE_RESTART_TOO_MANY
#define TOO_OFTEN(t) (failures[t] > MAX_OF(t) + 1)
#else
#define TOO_OFTEN(t) (failures[t] > MAX_OF(t))
#endif

#ifdef MUTANT_RESTART_AFTER_DRAIN
#define MAY_RESTART (sup_state != ABORTING)
#define MAY_BEGIN true
#else
#define MAY_RESTART (sup_state == RUNNING)
#define MAY_BEGIN (!stop_requested)
#endif

/* settle: joins first, then decides. S2. */
inline settle(t)
{
#ifndef MUTANT_BEGIN_BEFORE_JOIN
    if
    :: handle[t] ->
        atomic {
            assert(live[t] == 1);
            exited[t] ->
            exited[t] = 0;
            live[t]--;
#ifndef MUTANT_JOIN_TWICE
            handle[t] = 0
#endif
        }
    :: else
    fi;
#endif
    atomic { /* all of it belongs to the supervisor's thread, or is one store (the stop flag) */
        life[t] = DONE;
        if
        :: failed[t] && MAY_RESTART ->
            count_failure(t);
            if
            :: TOO_OFTEN(t) -> /* escalate */
                failures[t] = 0; /* not read again; fewer states */
                if
                :: t == INTAKE ->
#ifndef MUTANT_ESCALATION_IGNORED
                    stop_requested = 1;
#endif
                    fatal = 1
                :: else /* the service goes on without it */
                fi
            :: else -> life[t] = BACKOFF
            fi
        :: else
        fi;
        failed[t] = 0
    }
}

/* restart_due for one task. A stop may come after the look at the flag: the task is begun, and then
 * drained like the others. */
inline restart_due(t)
{
    if
    :: life[t] == BACKOFF && MAY_BEGIN ->
        assert(failures[t] <= MAX_OF(t)); /* S4 */
        begin(t)
    :: life[t] == BACKOFF /* its delay is not over */
    :: life[t] != BACKOFF
    fi
}

#ifdef MUTANT_WAITS_FOR_RESTART
#define IS_ALIVE(t) (life[t] == ALIVE || life[t] == ENDED || life[t] == BACKOFF)
#else
#define IS_ALIVE(t) (life[t] == ALIVE || life[t] == ENDED)
#endif

/* abort_group for a group of one; at most once for each task (I2 of drain.c). */
inline abort_group(t)
{
    if
    :: sup_state == DRAINING -> move(ABORTING)
    :: else
    fi;
    expired = 0; /* from now on the grace time is what may pass */
    if
    :: !ask_abort[t] ->
        aborted++;
        ask_abort[t] = 1;
        ask_stop[t] = 1
    :: else
    fi
}

inline forget_restart(t)
{
    if
    :: life[t] == BACKOFF -> life[t] = DONE
    :: else
    fi
}

/* What the present step of the drain waits for. */
#ifdef MUTANT_CLOSE_BEFORE_INTAKE
#define INTAKE_BUSY false
#else
#define INTAKE_BUSY (IS_ALIVE(INTAKE) && !intake_stopped)
#endif
#ifdef MUTANT_STOPPED_WITHOUT_WAITING
#define ALL_BUSY false
#else
#define ALL_BUSY (IS_ALIVE(INTAKE) || IS_ALIVE(STAGE))
#endif
#define BUSY                                                                                       \
    ((step == INTAKE_STOPS && INTAKE_BUSY) || (step == STAGE_ENDS && IS_ALIVE(STAGE)) ||           \
     (step == INTAKE_ENDS && IS_ALIVE(INTAKE)) || (step == LEFTOVERS && ALL_BUSY))
#define GROUP (step == STAGE_ENDS -> STAGE : INTAKE)
#define ONLY_STUBBORN(t) (!IS_ALIVE(t) || (life[t] == ALIVE && nature[t] == STUBBORN))

/* The loops of ron_sup_run, wait_group and wait_all are one loop here: reap, look, park, again. */
proctype supervisor()
{
    mtype:step step = RUNS;
    byte t;
    bit expired;

    if
    :: has_deadline = 1
    :: has_deadline = 0
    fi;
    known = 1;
    move(RUNNING);
    begin(STAGE);
    begin(INTAKE);

again:
    t = 0; /* a label right before a for statement would skip its first assignment */
    for (t : 0 .. TASKS - 1) { /* ron__sup_reap */
        if
        :: life[t] == ENDED -> settle(t)
        :: else
        fi
    }
#ifdef MUTANT_RESTART_AFTER_DRAIN
    if
    :: step != RUNS || !stop_requested ->
#else
    if
    :: step == RUNS && !stop_requested ->
#endif
        for (t : 0 .. TASKS - 1) {
            restart_due(t)
        }
    :: else
    fi;

    if
    :: step == RUNS && stop_requested -> /* ron__sup_drain, and the first step of drain_in_order */
#ifdef MUTANT_ABORT_WITHOUT_DRAIN
        move(ABORTING);
#endif
        move(DRAINING);
        atomic { /* life of what is not alive belongs to the supervisor's thread */
#ifndef MUTANT_WAITS_FOR_RESTART
            forget_restart(INTAKE);
            forget_restart(STAGE);
#endif
            failures[INTAKE] = 0; /* not read again */
            failures[STAGE] = 0
        };
        ask_drain = 1;
        step = INTAKE_STOPS;
        goto again
    :: step == LEFTOVERS && !BUSY -> goto stopped
    :: step != RUNS && step != LEFTOVERS && (!BUSY || expired) ->
        if
        :: BUSY -> t = GROUP; abort_group(t)
        :: else
        fi;
        if
        :: step == INTAKE_STOPS ->
            ask_stop[STAGE] = 1; /* its input is closed */
            step = STAGE_ENDS
        :: step == STAGE_ENDS ->
            ask_stop[INTAKE] = 1;
            step = INTAKE_ENDS
        :: step == INTAKE_ENDS -> step = LEFTOVERS
        fi;
        goto again
    :: else
    fi;

    /* ron_park_until */
    if
    :: step == RUNS ->
end_parked:
        if
        :: permit -> permit = 0
        :: life[INTAKE] == BACKOFF || life[STAGE] == BACKOFF /* the next restart is due */
        fi
    :: else ->
        if
        :: permit -> permit = 0
        :: step != LEFTOVERS && has_deadline && !expired -> d_step { expired = 1; late = 1 }
        :: step == LEFTOVERS && ONLY_STUBBORN(INTAKE) && ONLY_STUBBORN(STAGE) -> goto stopped
        fi
    fi;
    goto again;

stopped:
#ifndef MUTANT_LEAK_UNCOUNTED
    leaked = IS_ALIVE(INTAKE) + IS_ALIVE(STAGE); /* count_leaks */
#endif
    move(STOPPED);
    known = 0
}

#define JOINED(t) (live[t] == 0 || nature[t] == STUBBORN)
#define S5                                                                                         \
    (sup_state != STOPPED ||                                                                       \
     (JOINED(INTAKE) && JOINED(STAGE) && live[INTAKE] + live[STAGE] == leaked &&                   \
      leaked <= aborted))
#define S6 (aborted <= TASKS && (aborted == 0 || late))
#define S7 (!ask_stop[STAGE] || !IS_ALIVE(INTAKE) || intake_stopped || late)
#define ALL_HOLD (S5 && S6 && S7)

#ifndef LIVENESS
/* Executable only in a state that breaks an invariant; then it says which. */
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(S5);
        assert(S6);
        assert(S7)
    }
}
#endif

init
{
    /* One step, so that the order of creation adds no states. */
    atomic {
        life[INTAKE] = NEW;
        life[STAGE] = NEW;
        nature[INTAKE] = GOOD;
        nature[STAGE] = GOOD;
        run operator();
        run task(INTAKE);
        run task(STAGE);
        run supervisor()
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

ltl stop_reaches_stopped { [] (stop_requested -> <> (sup_state == STOPPED)) }
ltl fatal_reaches_stopped { [] (fatal -> <> (sup_state == STOPPED)) }
