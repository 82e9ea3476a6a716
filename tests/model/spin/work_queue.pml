/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_queue.pml - producers, a bounded queue, consumers, and a shutdown at any moment.
 *
 * Place: the model of what every service does with its work channel: kernel/src/chan for the queue,
 * kernel/src/task/drain.c for the order of the shutdown.
 *
 * Model                     C
 *   producer                  an intake task that calls ron_chan_try_send (policy reject); it stops
 *                             taking work when told, confirms, and ends last
 *   consumer                  a stage task that calls ron_chan_recv_many with room for one message;
 *                             its waiting is a guard here, which wakeup.pml justifies
 *   operator                  ron_sup_request_stop (signal, admin call, escalation), or never
 *   supervisor                ron__sup_drain; then the owner of the channel calls ron_chan_free
 *   ring, head, count, closed ron_chan.ring, .head, .count, .closed (all under ron_chan.mu)
 *   ask_drain, ask_stop       ron_task.ask_drain and .ask_stop of the producers
 *   abort_consumers           ron_task.ask_abort of the consumers
 *   confirmed                 producers that have called ron_task_intake_stopped
 *   sup_state                 ron_sup.state
 *   dropped                   messages that ron_chan_free gave to ron_chan_opts.drop
 *   aborted                   messages that an aborted handler had in its hands and gave up
 *   has_deadline              ghost: whether deadline and grace time can pass in this run
 *   fate[m]                   ghost: where message m is; the oracle of "exactly once"
 *   accepted, consumed, held  ghosts: totals
 *   joined                    tasks that the supervisor has joined
 *
 * Invariants:
 *   Q1 count <= CAPACITY (monitor).
 *   Q2 A message is accepted at most once, and then it is consumed, aborted or dropped exactly
 *      once: the assertions about fate, and accepted == consumed + aborted + dropped + held + count
 *      (monitor).
 *   Q3 No send succeeds after close (push()); closed is never cleared.
 *   Q4 The state moves Running -> Draining -> {Aborting ->} Stopped and nowhere else (move()).
 *   Q5 Stopped implies: all tasks joined, no message in anybody's hands, and the queue empty unless
 *      the consumers had to be aborted (monitor). What is left then is dropped, and counted.
 *   Q6 A producer is told Closed only past the deadline: in a drain that goes well the intake has
 *      confirmed before the queue closes.
 * Liveness (weak fairness): a requested shutdown reaches Stopped, with a deadline and without one;
 *   when none passes everything that was accepted is consumed.
 *
 * Atomic blocks: one try_send, one receive, one close, one drop is a critical section of
 * ron_chan.mu. All shared fields they touch are touched nowhere else, and no such block waits in
 * its middle, so nobody could see a state in between. What lies between two critical sections (a
 * producer deciding, a consumer holding a message, the supervisor between two steps of the
 * shutdown) is never inside a block. The mutants that split a critical section show that the model
 * would see it. The d_step in move() and in the handler is one store and its ghosts.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl stop_reaches_stopped -DCAPACITY=1 -DEACH=1
 * @prove ltl accepted_is_consumed
 * @catch ONE_TOO_MANY safety assertion
 * @catch CLOSED_CHECK_OUTSIDE safety assertion
 * @catch EXIT_ON_CLOSE safety assertion
 * @catch PEEK_THEN_POP safety assertion
 * @catch CLOSE_UNCONFIRMED safety assertion
 * @catch DROP_UNCOUNTED safety assertion
 * @catch STOPPED_WHEN_EMPTY safety assertion
 * @catch STRAIGHT_TO_STOPPED safety assertion
 * @catch DEAF_PRODUCER ltl stop_reaches_stopped -DCAPACITY=1 -DEACH=1
 * @catch CLOSE_FORGOTTEN ltl accepted_is_consumed
 */

#define PRODUCERS 2
#define CONSUMERS 2
#define TASKS (PRODUCERS + CONSUMERS)
#ifndef EACH
#define EACH 2 /* messages of one producer; together twice the capacity */
#endif
#define MESSAGES (PRODUCERS * EACH)
#ifndef CAPACITY
#define CAPACITY 2
#endif
#define SLOTS (CAPACITY + 1) /* one spare, so that the mutant that overfills is seen by Q1 */
#define NONE 255

mtype:state = { RUNNING, DRAINING, ABORTING, STOPPED };
mtype:fate = { OFFERED, QUEUED, HELD, CONSUMED, ABORTED, DROPPED };

byte ring[SLOTS];
byte head;
byte count;
bit closed;

mtype:state sup_state = RUNNING;
bit stop_requested;
bit ask_drain;
bit ask_stop;
bit abort_consumers;
byte confirmed;
byte ended_producers;
byte ended_consumers;
byte joined;
byte aborted;
byte dropped;

bit has_deadline;
mtype:fate fate[MESSAGES];
byte accepted;
byte consumed;
byte held;

/* The only way to change the state: Q4. */
inline move(to)
{
    d_step {
        assert((sup_state == RUNNING && to == DRAINING) ||
               (sup_state == DRAINING && (to == ABORTING || to == STOPPED)) ||
               (sup_state == ABORTING && to == STOPPED));
        sup_state = to
    }
}

/* Inside a critical section. Keeps Q2, Q3. */
inline push(m)
{
    assert(!closed);
    assert(fate[m] == OFFERED);
    fate[m] = QUEUED;
    ring[(head + count) % SLOTS] = m;
    count++;
    accepted++
}

/* Inside a critical section. */
inline pop(ret_m)
{
    ret_m = ring[head];
    ring[head] = 0; /* a free slot always looks the same: fewer states */
    head = (head + 1) % SLOTS;
    count--
}

#ifdef MUTANT_ONE_TOO_MANY
#define FULL (count > CAPACITY)
#else
#define FULL (count == CAPACITY)
#endif

#ifdef MUTANT_DEAF_PRODUCER
#define TOLD_TO_STOP (m == first + EACH && ask_drain)
#else
#define TOLD_TO_STOP ask_drain
#endif

proctype producer(byte first)
{
    byte m = first;

end_no_more_clients:
    do
    :: TOLD_TO_STOP -> break
    :: !TOLD_TO_STOP && m < first + EACH ->
#ifdef MUTANT_CLOSED_CHECK_OUTSIDE
        if
        :: closed -> break
        :: !closed
        fi;
        atomic {
            if
            :: FULL -> skip
            :: !FULL -> push(m); m++
            fi
        }
#else
        atomic { /* ron_chan_try_send */
            if
            :: closed ->
                assert(sup_state == ABORTING); /* Q6 */
#ifndef MUTANT_DEAF_PRODUCER
                break
#endif
            :: !closed && FULL ->
                /* Busy: the message stays here. The caller tries again or answers its client. */
                if
                :: skip
                :: m++
                fi
            :: !closed && !FULL ->
                push(m);
                m++
            fi
        }
#endif
    od;
    confirmed++;
    m = first; /* not read again */
    ask_stop;
    ended_producers++
}

proctype consumer()
{
    byte m = NONE;

end_waiting:
    do
    :: atomic { /* ron_chan_recv_many, when there is a message */
        count > 0 ->
#ifdef MUTANT_PEEK_THEN_POP
        m = ring[head]
       };
       atomic {
        if
        :: count > 0 -> head = (head + 1) % SLOTS; count--
        :: else
        fi;
#else
        pop(m);
#endif
        assert(fate[m] == QUEUED);
        fate[m] = HELD;
        held++
       };
       /* The handler. An aborted one may give up what it has; the message has one end anyway. */
       if
       :: d_step {
           assert(fate[m] == HELD);
           fate[m] = CONSUMED;
           consumed++;
           held--;
           m = NONE
          }
       :: abort_consumers ->
          d_step {
           assert(fate[m] == HELD);
           fate[m] = ABORTED;
           aborted++;
           held--;
           m = NONE
          }
       fi
#ifdef MUTANT_EXIT_ON_CLOSE
    :: closed -> break
#else
    :: closed && count == 0 -> break
#endif
    :: abort_consumers -> break /* a wait that is cancelled; what is queued stays there */
    od;
    ended_consumers++
}

/* May come at any point of any run, or not at all. */
proctype operator()
{
    if
    :: stop_requested = 1
    :: skip
    fi
}

#ifdef MUTANT_STOPPED_WHEN_EMPTY
#define STAGE_ENDED (count == 0)
#define ALL_ENDED (count == 0)
#else
#define STAGE_ENDED (ended_consumers == CONSUMERS)
#define ALL_ENDED (ended_producers == PRODUCERS && ended_consumers == CONSUMERS)
#endif

/* wait_group and abort_group: waits for one group, or until the deadline (later: the grace time),
 * whichever the run picks; then the group is aborted and the next one is still drained. */
inline wait_or_abort(condition, abort_flag)
{
    if
    :: condition
    :: has_deadline ->
        if
        :: sup_state == DRAINING -> move(ABORTING)
        :: else
        fi;
        abort_flag = 1
    fi
}

proctype supervisor()
{
    byte m;

    /* With no deadline a drain may take for ever; it must end without its help. */
    if
    :: has_deadline = 1
    :: has_deadline = 0
    fi;

end_idle:
    stop_requested;
#ifdef MUTANT_STRAIGHT_TO_STOPPED
    move(STOPPED);
#endif
    move(DRAINING);
    ask_drain = 1;
#ifndef MUTANT_CLOSE_UNCONFIRMED
    wait_or_abort(confirmed == PRODUCERS, ask_stop);
#endif
#ifndef MUTANT_CLOSE_FORGOTTEN
    closed = 1; /* ron_chan_close; how it wakes everybody is in wakeup.pml */
#endif
    wait_or_abort(STAGE_ENDED, abort_consumers);
    ask_stop = 1;
    /* end_leftovers: everybody leaves for sure now. A task that would not is a leak: see
     * supervisor.pml. */
    ALL_ENDED;
    joined = ended_producers + ended_consumers;
    move(STOPPED);

    /* The owner of the channel: ron_chan_free. */
    do
    :: atomic {
        count > 0 ->
        pop(m);
        assert(fate[m] == QUEUED);
        fate[m] = DROPPED;
#ifndef MUTANT_DROP_UNCOUNTED
        dropped++;
#endif
        m = 0
       }
    :: count == 0 -> break
    od
}

#define Q1 (count <= CAPACITY)
#define Q2 (accepted == consumed + aborted + dropped + held + count)
#define Q5                                                                                         \
    (sup_state != STOPPED ||                                                                       \
     (joined == TASKS && held == 0 && (abort_consumers || (count == 0 && dropped == 0))))
#define ALL_HOLD (Q1 && Q2 && Q5)

#ifndef LIVENESS
/* Executable only in a state that breaks an invariant; then it says which. */
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(Q1);
        assert(Q2);
        assert(Q5)
    }
}
#endif

init
{
    byte i;

    /* One step, so that the order of creation adds no states. */
    atomic {
        for (i : 0 .. MESSAGES - 1) {
            fate[i] = OFFERED
        }
        run producer(0);
        run producer(EACH);
        run consumer();
        run consumer();
        run operator();
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
ltl accepted_is_consumed {
    ([] (sup_state != ABORTING)) ->
    ([] (accepted > consumed -> <> (accepted == consumed)) &&
     [] (stop_requested -> <> (sup_state == STOPPED && accepted == consumed)))
}
