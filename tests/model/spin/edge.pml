/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edge.pml - misses of the edge: requests that share one fill of their target, a bounded queue,
 * workers that may die with a fill in their hands, a store that forgets, and a drain at any moment.
 *
 * Place: the model of live fill: edge/fill/live.c (who joins, who begins) and edge/fill/worker.c
 * (what a worker does with a fill). The queue alone, with its close, is work_queue.pml.
 *
 * Model                     C
 *   client(c)                 a request on a loop: edg_table_find, then edg_serve_stored or join();
 *                             a hit may be stale and want a refresh for which nobody waits
 *   listed[t], waiters[t]     edg_fills.list, and edg_fill.waiters as a set of clients; under its
 *                             lock
 *   work, closed              the channel `work`: ron_chan_try_send, its close by the supervisor
 *   worker()                  edge/fill/worker.c handle: run, run_again, end_fill, answer_waiters
 *   stored[t]                 the record in the table and its object in the store
 *   asking[t]                 ghost: requests for the target that are at the origin now
 *   copies[t]                 ghost: how often the fill is in the queue or in the hands of a worker
 *   tries[t]                  edg_fill.tries
 *   world()                   the store makes room, or sets a damaged object aside; a drain
 *
 * Invariants:
 *   F1 At most one request for a target is at the origin (ask_origin).
 *   F2 A fill is in one place: in the queue or with one worker; it is neither lost nor doubled
 *      (copies: monitor, take).
 *   F3 A client that waits is answered exactly once (answer).
 *   F4 Bytes are answered only from what is stored whole (answer).
 *   F5 Nothing is accepted by a closed queue (send), and the queue holds at most CAPACITY (the
 *      channel).
 *   F6 A client is in the set of a fill only while that fill is in the list (monitor).
 * Liveness (weak fairness; finitely many requests, deaths and evictions):
 *   every client that waits is answered, and after a close every worker ends.
 *
 * Atomic blocks: what C does under edg_fills.mu, and single calls of channel, table and store; all
 * of them are linearizable. Between two of them everybody may run. The answers of one fill are one
 * block: clients do not see each other, and the store may forget before it.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl served
 * @prove ltl served_too
 * @prove ltl ends
 * @catch NO_LOOK safety assertion
 * @catch TAKE_THEN_LEAVE safety assertion
 * @catch LIST_ANYWAY safety assertion
 * @catch SERVE_UNSEEN safety assertion
 * @catch TWICE safety assertion
 * @catch SEND_CLOSED safety assertion
 * @catch DIE_WITH_IT ltl served
 * @catch FORGET_REFUSED ltl served
 * @catch LEAVE_QUEUE ltl served
 * @catch SLEEP_AT_CLOSE ltl ends
 */

#define CLIENTS 3 /* the first two want target 0, the last one target 1 */
#define TARGETS 2
#define CAPACITY 1
#define TRIES 2
#ifdef LIVENESS
#define DEATHS 1 /* with two the search needs a minute; what comes of them is a matter of safety */
#else
#define DEATHS 2
#endif

#define TARGET_OF(c) ((c) == 2 -> 1 : 0)
#define BIT(c) (1 << (c))

mtype:client = { IDLE, STALE, MISSED, WAITING };

mtype:client state[CLIENTS] = IDLE;
bit listed[TARGETS];
byte waiters[TARGETS];
byte tries[TARGETS];
bit stored[TARGETS];
byte asking[TARGETS];
byte copies[TARGETS];
chan work = [CAPACITY] of { byte };
bit closed;
byte deaths;
byte ended; /* workers */

/* ---- requests -------------------------------------------------------------------------------- */

/* ron_chan_try_send; ok tells whether the fill is the queue's now. */
inline send(t, ok)
{
#ifdef MUTANT_SEND_CLOSED
    if
    :: nfull(work) -> assert(!closed); work!t; ok = 1 /* F5 */
    :: full(work) -> ok = 0
    fi
#else
    if
    :: !closed && nfull(work) -> work!t; ok = 1
    :: closed || full(work) -> ok = 0
    fi
#endif
}

inline wait_for(c, t)
{
    if
    :: state[c] == MISSED -> waiters[t] = waiters[t] | BIT(c); state[c] = WAITING
    :: state[c] == STALE -> state[c] = IDLE
    fi
}

/* join(), under the lock. */
inline join(c, t)
{
    bit ok;

    if
#ifdef MUTANT_NO_LOOK
    :: false -> skip
    :: true ->
#else
    :: listed[t] -> /* shares it */
        wait_for(c, t)
    :: !listed[t] -> /* begins it */
#endif
        send(t, ok);
        if
        :: ok ->
            listed[t] = 1;
            copies[t]++;
            wait_for(c, t)
        :: !ok -> /* 429, or 503 in a drain */
#ifdef MUTANT_LIST_ANYWAY
            waiters[t] = waiters[t] | BIT(c);
            state[c] = WAITING
#else
            state[c] = IDLE
#endif
        fi;
        ok = 0
    fi
}

proctype client(byte c)
{
    atomic {
        if
        :: stored[TARGET_OF(c)] -> skip /* a hit: answered on the loop */
        :: stored[TARGET_OF(c)] -> state[c] = STALE /* answered, too, and asked for anew */
        :: !stored[TARGET_OF(c)] -> state[c] = MISSED
        fi
    };
    atomic {
        if
        :: state[c] == IDLE
        :: state[c] != IDLE -> join(c, TARGET_OF(c))
        fi
    };
    state[c] != WAITING /* for its answer */
}

/* ---- workers --------------------------------------------------------------------------------- */

inline ask_origin(t)
{
    asking[t]++;
    assert(asking[t] == 1) /* F1 */
}

inline answer(c, t, good)
{
    assert(state[c] == WAITING); /* F3 */
    state[c] = IDLE;
#ifdef MUTANT_SERVE_UNSEEN
    assert(!good || stored[t]) /* F4 */
#else
    if
    :: good && stored[t] -> assert(stored[t]) /* F4: ron_cas_open finds it */
    :: !good || !stored[t] -> skip /* an error; the next request fills it again */
    fi
#endif
}

/* end_fill(), under the lock: nobody joins it any more. */
inline leave(t, mine)
{
    mine = waiters[t];
    waiters[t] = 0;
    tries[t] = 0;
    copies[t]--;
    listed[t] = 0
}

/* run_again(): for another worker, or over. */
inline put_back(t, ok)
{
    tries[t]++;
    ok = 0;
    if
    :: tries[t] < TRIES -> send(t, ok)
    :: tries[t] >= TRIES -> skip
    fi
}

proctype worker()
{
    byte t;
    byte c;
    byte mine;
    bit good;
    bit ok;

end_waits:
    do
    :: atomic { nempty(work) ->
        work?t;
        assert(copies[t] == 1); /* F2 */
        ok = 0
       };
       if
       :: atomic { deaths < DEATHS -> /* no memory to ask with */
           deaths++;
#ifdef MUTANT_DIE_WITH_IT
           ok = 1
#else
#ifdef MUTANT_FORGET_REFUSED
           put_back(t, ok);
           ok = 1
#else
           put_back(t, ok)
#endif
#endif
          }
#ifdef MUTANT_TWICE
          ok = 0
#endif
       :: true ->
           atomic { ask_origin(t) };
           atomic {
               if
               :: stored[t] = 1; good = 1 /* 200: hashed, stored, in the table */
               :: good = stored[t]        /* 304 */
               :: good = 0                /* it failed */
               fi;
               asking[t]--
           }
       fi;
       if
       :: ok -> skip /* it is somebody else's */
       :: !ok ->
#ifdef MUTANT_TAKE_THEN_LEAVE
           atomic { mine = waiters[t] };
#endif
           atomic {
#ifdef MUTANT_TAKE_THEN_LEAVE
               assert(mine == waiters[t]); /* F6: who joined in between is lost */
#endif
               leave(t, mine)
           };
           atomic {
               for (c : 0 .. CLIENTS - 1) {
                   if
                   :: mine & BIT(c) -> answer(c, t, good)
                   :: !(mine & BIT(c)) -> skip
                   fi
               }
               c = 0;
               mine = 0
           }
       fi;
       atomic { good = 0; ok = 0; t = 0 }
#ifdef MUTANT_LEAVE_QUEUE
    :: atomic { closed -> break }
#else
#ifndef MUTANT_SLEEP_AT_CLOSE
    :: atomic { closed && empty(work) -> break }
#endif
#endif
    od;
    ended++
}

/* ---- around ---------------------------------------------------------------------------------- */

/* The store forgets once, and the drain begins, each at any moment or never. */
proctype world()
{
    bit forgot;

    do
    :: atomic { !forgot -> forgot = 1; stored[0] = 0 }
    :: atomic { !closed -> closed = 1 }
    :: break
    od
}

#define F2(t) (copies[t] <= 1 && (copies[t] == 1) == listed[t])
#define F6(t) (waiters[t] == 0 || listed[t])
#define ALL_HOLD (F2(0) && F2(1) && F6(0) && F6(1))

#ifndef LIVENESS
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(F2(0) && F2(1));
        assert(F6(0) && F6(1))
    }
}
#endif

init
{
    atomic {
        run client(0);
        run client(1);
        run client(2);
        run worker();
        run worker();
        run world()
    }
}

#ifdef LIVENESS
bit tick;

/* Spin's search under weak fairness overlooks runs that stop. */
active proctype time_goes_on()
{
    do
    :: tick = !tick
    od
}

#define WAITS(c) (state[c] == WAITING)
/* Of the two that want target 0 one stands for both. */
ltl served { [] (WAITS(1) -> <> !WAITS(1)) }
ltl served_too { [] (WAITS(2) -> <> !WAITS(2)) }
ltl ends { [] (closed -> <> (ended == 2)) }
#endif
