/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wakeup.pml - who is woken, and when, by a bounded channel.
 *
 * Place: the model of the waiting half of kernel/src/chan: lot.h (the waiters of one side), chan.c
 * (sending, closing), chan_recv.c (receiving), and of ron_park_until/ron_unpark beneath them. It is
 * what allows work_queue.pml to write "wait until there is something" as a plain guard.
 *
 * Model                     C
 *   sender                    ron_chan_send, policy wait: send_wait()
 *   receiver                  ron_chan_recv_many; it takes one or two messages, and its caller
 *                             comes back after a message or a timeout
 *   closer, close_channel()   ron_chan_close, at any point or never
 *   reserver (-DRESERVE)      ron_chan_reserve, perhaps ron_chan_close by the same thread, then
 *                             ron_chan_send_reserved or ron_chan_unreserve; it takes the place of
 *                             the second sender
 *   count, reserved, closed   ron_chan.count, .reserved, .closed
 *   node[i]                   ron_wait_node._state of thread i: OUT, WAITING, WOKEN
 *   woken[side]               ron_lot._woken of ron_chan.rx and ron_chan.tx
 *   take(), take_due()        ron__lot_take, ron__lot_take_due; which waiter is taken is free here
 *                             (in C the oldest), so the proof does not depend on the order
 *   due(), deliver()          ron__chan_due, and the ron__wake calls after the unlock
 *   wake_all()                ron__lot_wake_all
 *   permit[i]                 ron_thread.park == PARK_TOKEN
 *   WAKE_BATCH                ron_chan.wake_batch
 *   parked[i], pending[i]     ghosts: thread i is in ron_park_until; unparks of i that are decided
 *                             and not yet delivered
 *   waking                    ghost: calls that are in the middle of wake_all()
 *   gone[side]                ghost: threads of that side that have left for good
 *   odd_wakes                 how many timeouts, cancels and wake-ups for no reason this run may
 *                             still have. Bounded, because weak fairness would otherwise force them
 *                             to happen, and they would repair a lost wake-up.
 *
 * Invariants (monitor, in every state):
 *   W1 count + reserved <= CAPACITY (I1 of chan_priv.h).
 *   W2 woken[side] is the number of WOKEN nodes of that side (I2 of lot.h).
 *   W3 While there are messages and a receiver is WAITING, a wake-up is under way; the same for
 *      room and senders of an open channel (I4 of chan_priv.h).
 *   W4 A wake-up under way reaches its thread: WOKEN and parked imply a permit or a delivery.
 *   W5 No lost wake-up: messages in the ring, or room in an open channel, never meet a side whose
 *      threads are all parked with nobody about to wake them.
 *   W6 When ron_chan_close has returned nobody is parked who will not be woken (senders always,
 *      receivers as soon as no reservation is left).
 *   The ring is never read while empty, and a receiver is told Closed only when nothing can come
 *   any more (assertions in the receiver). Messages have no identity here; see work_queue.pml.
 * Liveness (weak fairness): in the end the ring is empty and every sender has its answer, closed or
 *   not; after a close every thread ends; a close returns, even while its caller holds
 *   reservations.
 *
 * Atomic blocks: one critical section of ron_chan.mu each. Every field in it is touched only with
 * mu held and none of them waits in its middle, so no other thread could see a state in between.
 * The permits are NOT touched there: unparking happens after the unlock, step by step, and parking
 * is a step of its own, so every order of "decided, delivered, parked, woken otherwise" is
 * explored. ron__lot_wake_all lets the lock go for each delivery, and so does the model. The d_step
 * in unpark() is one atomic exchange and its ghost; the blocks in park() are the one step in which
 * a thread comes back from the kernel.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove safety -DRESERVE -DCAPACITY=1
 * @prove ltl drained -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 * @prove ltl everybody_ends_after_close -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 * @prove ltl close_returns -DRESERVE -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 * @catch NO_SIGNAL safety assertion
 * @catch SENDERS_NOT_WOKEN safety assertion
 * @catch NO_CHAIN safety assertion
 * @catch CLOSE_WITHOUT_WAKE safety assertion
 * @catch CLOSE_FORGETS_SENDERS safety assertion
 * @catch LEAVE_KEEPS_WOKEN safety assertion
 * @catch CANCEL_KEEPS_WAKE safety assertion
 * @catch CHECK_THEN_ENTER safety assertion
 * @catch PERMIT_NOT_KEPT safety assertion
 * @catch TAKE_WITHOUT_LOOK safety assertion
 * @catch END_BEFORE_RESERVED safety assertion -DRESERVE -DCAPACITY=1
 * @catch CLOSED_NOT_ENTERED safety assertion -DRESERVE -DCAPACITY=1
 * @catch NO_SIGNAL ltl drained -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 * @catch CLOSE_WITHOUT_WAKE ltl everybody_ends_after_close -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 * @catch CLOSE_CHASES_RECEIVERS ltl close_returns -DRESERVE -DCAPACITY=1 -DMESSAGES=1 -DODD_WAKES=0
 */

/* Threads: 0 and 1 send, 2 and 3 receive, as if by side * 2. */
#define THREADS 4
#define NOBODY 255
#define TX 0
#define RX 1
#define SIDES 2
#define PER_SIDE 2
#define FIRST(side) (side * PER_SIDE)

#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef MESSAGES
#define MESSAGES 2 /* per sender: together twice the capacity, so that senders wait */
#endif
#ifndef WAKE_BATCH
#define WAKE_BATCH 2
#endif
#ifndef ODD_WAKES
#define ODD_WAKES 1 /* on either side */
#endif

mtype:place = { OUT, WAITING, WOKEN };
mtype:answer = { OK, TIMEOUT, CANCELLED, CLOSED, PARK };

byte count;
byte reserved;
bit closed;
mtype:place node[THREADS];
byte woken[SIDES];
bit permit[THREADS];

bit parked[THREADS];
byte pending[THREADS];
byte gone[SIDES];
bit cancelled[SIDES];
byte waking;
byte odd_wakes = ODD_WAKES;

#define ROOM (CAPACITY - count - reserved)

/* ron__lot_take: any waiter, or nobody. */
inline take(side, ret_who)
{
    if
    :: node[FIRST(side)] == WAITING -> ret_who = FIRST(side)
    :: node[FIRST(side) + 1] == WAITING -> ret_who = FIRST(side) + 1
    :: else -> ret_who = NOBODY
    fi;
    if
    :: ret_who != NOBODY ->
        node[ret_who] = WOKEN;
        woken[side]++;
        pending[ret_who]++
    :: else
    fi
}

/* ron__lot_take_due. */
inline take_due(side, available, ret_who)
{
    if
    :: woken[side] * WAKE_BATCH < available -> take(side, ret_who)
    :: else -> ret_who = NOBODY
    fi
}

inline leave(side, me)
{
    if
    :: node[me] == WOKEN ->
#ifndef MUTANT_LEAVE_KEEPS_WOKEN
        woken[side]--;
#endif
        skip
    :: else
    fi;
    node[me] = OUT
}

/* ron__chan_due: the end of every critical section. */
inline due(ret_rx, ret_tx)
{
    take_due(RX, count, ret_rx);
    take_due(TX, ROOM, ret_tx)
}

/* ron_unpark: one step for each, with no lock held. */
inline unpark(who)
{
    d_step {
#ifdef MUTANT_PERMIT_NOT_KEPT
        permit[who] = parked[who];
#else
        permit[who] = 1;
#endif
        pending[who]--;
        who = NOBODY
    }
}

inline deliver(rx, tx)
{
    do
    :: rx != NOBODY -> unpark(rx)
    :: rx == NOBODY && tx != NOBODY -> unpark(tx)
    :: else -> break
    od
}

/* ron_park_until. More may happen here than in C: a timeout may leave a permit behind. A cancel is
 * for good, and one thread of each side is never cancelled (who else would drain?). */
inline park(side, me, ret_waited)
{
    parked[me] = 1;
end_parked:
    if
    :: atomic { permit[me] -> permit[me] = 0; parked[me] = 0; ret_waited = OK }
    :: atomic { odd_wakes > 0 -> odd_wakes--; parked[me] = 0; ret_waited = OK }
    :: atomic { odd_wakes > 0 -> odd_wakes--; parked[me] = 0; ret_waited = TIMEOUT }
    :: atomic {
        odd_wakes > 0 && !cancelled[side] ->
        odd_wakes--;
        cancelled[side] = 1;
        parked[me] = 0;
        ret_waited = CANCELLED
       }
    fi
}

proctype sender(byte me)
{
    byte tries;
    byte rx = NOBODY;
    byte tx = NOBODY;
    mtype:answer waited = OK;
    mtype:answer rc;

    do
    :: tries == MESSAGES -> break
    :: tries < MESSAGES ->
again:
        atomic {
            leave(TX, me);
            if
            :: waited == CANCELLED -> rc = CANCELLED
            :: waited != CANCELLED && closed -> rc = CLOSED
            :: waited != CANCELLED && !closed && ROOM > 0 ->
                count++;
                rc = OK
            :: waited != CANCELLED && !closed && ROOM == 0 ->
                rc = (waited == TIMEOUT -> TIMEOUT : PARK)
            fi;
            if
            :: rc == PARK -> node[me] = WAITING
            :: else
            fi;
            waited = OK;
#ifdef MUTANT_NO_SIGNAL
            take_due(TX, ROOM, tx)
#else
            due(rx, tx)
#endif
        };
        deliver(rx, tx);
        if
        :: rc == PARK ->
            park(TX, me, waited);
            goto again
        :: rc == OK || rc == TIMEOUT -> tries++ /* after a timeout the message is given up */
        :: rc == CLOSED || rc == CANCELLED -> break
        fi
    od;
    gone[TX]++
}

#ifdef MUTANT_TAKE_WITHOUT_LOOK
#define SEES_MESSAGES (count > 0 || (rc == PARK && waited == OK))
#else
#define SEES_MESSAGES (count > 0)
#endif
#ifdef MUTANT_END_BEFORE_RESERVED
#define SEES_END closed
#else
#define SEES_END (closed && reserved == 0)
#endif

#ifdef MUTANT_CLOSED_NOT_ENTERED
#define ENTERS (rc == PARK && !closed)
#else
#define ENTERS (rc == PARK)
#endif

proctype receiver(byte me)
{
    byte n;
    byte rx = NOBODY;
    byte tx = NOBODY;
    mtype:answer waited = OK;
    mtype:answer rc;

again:
    atomic {
        leave(RX, me);
        if
        :: waited == CANCELLED -> rc = CANCELLED
        :: waited != CANCELLED && SEES_MESSAGES ->
            assert(count > 0);
            if
            :: n = 1
            :: count >= 2 -> n = 2
            fi;
            count = count - n;
            n = 0;
            rc = OK
        :: waited != CANCELLED && !SEES_MESSAGES && SEES_END -> rc = CLOSED
        :: waited != CANCELLED && !SEES_MESSAGES && !SEES_END ->
            rc = (waited == TIMEOUT -> TIMEOUT : PARK)
        fi;
#ifdef MUTANT_CHECK_THEN_ENTER
    };
    atomic {
#endif
        if
        :: ENTERS -> node[me] = WAITING
        :: else
        fi;
        waited = OK;
#ifdef MUTANT_NO_CHAIN
        take_due(TX, ROOM, tx)
#else
#ifdef MUTANT_CANCEL_KEEPS_WAKE
        if
        :: rc != CANCELLED -> due(rx, tx)
        :: else
        fi
#else
#ifdef MUTANT_SENDERS_NOT_WOKEN
        take_due(RX, count, rx)
#else
        due(rx, tx)
#endif
#endif
#endif
    };
    deliver(rx, tx);
    if
    :: rc == PARK ->
        park(RX, me, waited);
        goto again
    :: rc == OK || rc == TIMEOUT -> goto again
    :: rc == CLOSED || rc == CANCELLED ->
        assert(rc == CANCELLED || (closed && count == 0 && reserved == 0));
        gone[RX]++
    fi
}

/* ron__lot_wake_all: the lock is let go for each delivery. The caller's atomic block has taken the
 * first waiter. */
inline wake_all(side, who)
{
    do
    :: who == NOBODY -> break
    :: else ->
        unpark(who);
        atomic { take(side, who) }
    od
}

/* ron_chan_close. Receivers must not be chased while reservations are out: they would look, find no
 * end yet, wait again and be woken again, for as long as the reservation lasts. The last
 * reservation wakes them. */
inline close_channel(who)
{
    atomic {
        if
        :: !closed ->
            closed = 1;
            waking++;
#ifndef MUTANT_CLOSE_WITHOUT_WAKE
#ifndef MUTANT_CLOSE_FORGETS_SENDERS
            take(TX, who)
#endif
#endif
        :: else -> goto was_closed /* a second close changes nothing */
        fi
    };
    wake_all(TX, who);
    atomic {
#ifndef MUTANT_CLOSE_WITHOUT_WAKE
#ifndef MUTANT_CLOSE_CHASES_RECEIVERS
        if
        :: reserved == 0 -> take(RX, who)
        :: else
        fi;
#else
        take(RX, who);
#endif
#endif
        skip
    };
    wake_all(RX, who);
    waking--;
was_closed:
    skip
}

proctype closer()
{
    byte who = NOBODY;

    if
    :: skip /* the channel stays open */
    :: close_channel(who)
    fi
}

#ifdef RESERVE
/* Room promised ahead: it is honoured after a close, and the end of the channel waits for it. */
proctype reserver()
{
    byte rx = NOBODY;
    byte tx = NOBODY;
    bit got;

    atomic { /* ron_chan_reserve wakes nobody: it only takes room away */
        if
        :: !closed && ROOM > 0 -> reserved++; got = 1
        :: else
        fi
    };
    if
    :: got ->
        if
        :: skip
        :: close_channel(rx)
        fi;
        atomic { /* ron_chan_send_reserved, ron_chan_unreserve */
            reserved--;
            if
            :: count++
            :: skip
            fi;
            if
            :: closed -> waking++; take(RX, rx)
            :: else -> due(rx, tx); goto unlocked
            fi
        };
        wake_all(RX, rx); /* the end of a closed channel: every receiver must look */
        atomic { waking--; due(rx, tx) };
unlocked:
        deliver(rx, tx)
    :: else
    fi;
    gone[TX]++
}
#endif

#define NODES(side, what) ((node[FIRST(side)] == what) + (node[FIRST(side) + 1] == what))
/* Parked, and nobody is about to change that. */
#define STUCK(i) (parked[i] && !permit[i] && pending[i] == 0)
#define STUCK_ON(side) (STUCK(FIRST(side)) + STUCK(FIRST(side) + 1))

#define W1 (count + reserved <= CAPACITY)
#define W2 (woken[RX] == NODES(RX, WOKEN) && woken[TX] == NODES(TX, WOKEN))
#define W3 ((count == 0 || NODES(RX, WAITING) == 0 || woken[RX] > 0) && \
            (closed || ROOM == 0 || NODES(TX, WAITING) == 0 || woken[TX] > 0))
#define W4 ((node[0] != WOKEN || !STUCK(0)) && (node[1] != WOKEN || !STUCK(1)) && \
            (node[2] != WOKEN || !STUCK(2)) && (node[3] != WOKEN || !STUCK(3)))
#define W5 ((count == 0 || STUCK_ON(RX) == 0 || STUCK_ON(RX) + gone[RX] < PER_SIDE) && \
            (closed || ROOM == 0 || STUCK_ON(TX) == 0 || STUCK_ON(TX) + gone[TX] < PER_SIDE))
#define W6 (!closed || waking > 0 || (STUCK_ON(TX) == 0 && (reserved > 0 || STUCK_ON(RX) == 0)))
#define ALL_HOLD (W1 && W2 && W3 && W4 && W5 && W6)

#ifndef LIVENESS
/* Executable only in a state that breaks an invariant; then it says which. */
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(W1);
        assert(W2);
        assert(W3);
        assert(W4);
        assert(W5);
        assert(W6)
    }
}
#endif

init
{
    byte i;

    /* One step, so that the order of creation adds no states. */
    atomic {
        for (i : 0 .. THREADS - 1) {
            node[i] = OUT
        }
        run sender(0);
#ifdef RESERVE
        run reserver();
#else
        run sender(1);
#endif
        run receiver(2);
        run receiver(3);
        run closer()
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

ltl drained { <>[] (count == 0 && gone[TX] == PER_SIDE) }
ltl everybody_ends_after_close { [] (closed -> <> (gone[TX] == PER_SIDE && gone[RX] == PER_SIDE)) }
ltl close_returns { [] (closed -> <> (waking == 0)) }
