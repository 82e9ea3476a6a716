/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interop.pml - a delivery through the bridge: senders that repeat until they are acknowledged, a
 * bounded queue, workers that may die with a delivery, the mailbox's one writer whose disk may
 * fail, the journal of actions, actors whose leases may end early, a wallet whose answers may get
 * lost, the audit trail that drops its oldest, and a crash of the whole process at any moment.
 *
 * Place: the model of svc-interop: interop/hook/worker.c, interop/mailbox/store.c,
 * interop/act/act.c, interop/audit/audit.c. The queue alone is work_queue.pml, the wallet's own
 * promise wallet.pml.
 *
 * Model                     C
 *   sender(r)                 a provider with request r; both carry the same delivery. It sends
 *                             again until it is told 202. Deliveries share nothing but queues
 *   work                      the channel `work`; a sender that is refused (429) comes again, which
 *                             is waiting for room here
 *   worker()                  interop/hook/worker.c take_job, hand_back, submit
 *   ops                       the channel `mailbox`: ron_chan_try_send, refused when full
 *   seen                      iop_seen: committed keys in memory; filled from the file by a start
 *   writer()                  iop_store_apply for one operation: reserve, transaction, answer
 *   key, rows                 durable: the key of the delivery, the actions that it set off
 *   struck                    durable: the action was acknowledged
 *   leased                    iop_box_queue: in the hands of an actor; in memory alone
 *   actor()                   interop/act/act.c run: receive, call, settle
 *   known, applied            the wallet: keys of idempotency, and effects
 *   trail, missing            the channel `audit`; ghost: records that were emitted and neither
 *                             written nor counted as dropped
 *   sink()                    interop/audit/audit.c sink_run
 *   life                      which life of the process this is: whoever belongs to an older one
 *                             has ended, whatever it had in its hands is gone
 *
 * Invariants:
 *   B1 202 is told only of what is durable (told).
 *   B2 A delivery sets off its actions once: key and rows come together, and no second time
 *      (monitor).
 *   B3 No duplicate apply: the wallet has one effect for a delivery at most (monitor).
 *   B4 An action is struck off only after its effect (actor).
 *   B5 Each record of the audit is in the queue, written, or counted as dropped (monitor).
 * Liveness (weak fairness; finitely many crashes, deaths, failures and losses):
 *   every sender is told 202 in the end, and what was taken is applied and struck off: the journal
 *   drains.
 *
 * Atomic blocks: single calls of channels and of the store, each linearizable; a transaction is one
 * step, because SQLite makes it one. Between two blocks everybody may run and the process may
 * crash.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl told_in_the_end
 * @prove ltl applied_in_the_end
 * @prove ltl drained
 * @catch TELL_FIRST safety assertion
 * @catch NO_LOOK safety assertion
 * @catch TWO_TRANSACTIONS safety assertion
 * @catch KEEP_RESERVED safety assertion
 * @catch FRESH_KEY safety assertion
 * @catch STRIKE_FIRST safety assertion
 * @catch UNCOUNTED safety assertion
 * @catch DIE_WITH_IT ltl told_in_the_end
 * @catch FORGET_LEASE ltl drained
 * @catch START_EMPTY safety assertion
 * @catch NO_RETRY ltl drained
 */

#define REQUESTS 2

#define CRASHES 1
#define DEATHS 1
#define FAILURES 1 /* of the disk */
#define LOSSES 1   /* of calls to the wallet, or their answers */
#define EXPIRIES 1 /* leases that end early */

mtype:request = { WANTS, WAITS, TOLD };

/* In memory. */
byte life;
mtype:request state[REQUESTS] = WANTS;
chan work = [1] of { byte };
chan ops = [1] of { byte };
chan trail = [1] of { bit };
bit seen;
bit leased;
byte missing;
/* On disk. */
bit key;
byte rows;
bit struck;
/* At the wallet. */
bit known;
byte applied;
/* What may still go wrong. */
byte crashes;
byte deaths;
byte failures;
byte losses;
byte expiries;

/* ---- the audit ------------------------------------------------------------------------------- */

/* iop_audit_emit: never waits. */
inline record()
{
    missing++;
    if
    :: nfull(trail) -> trail!1
    :: full(trail) ->
        trail?_;
#ifndef MUTANT_UNCOUNTED
        missing--; /* audit_drop_total */
#endif
        trail!1
    fi
}

active proctype sink()
{
end:
    do
    :: atomic { trail?_ -> missing-- }
    od
}

/* ---- requests -------------------------------------------------------------------------------- */

inline told(r)
{
    assert(key); /* B1 */
    state[r] = TOLD;
    record()
}

inline refused(r)
{
    state[r] = WANTS;
    record()
}

proctype sender(byte r)
{
    do
    :: atomic { state[r] == WANTS && nfull(work) -> state[r] = WAITS; work!r }
    :: atomic { state[r] == TOLD -> break }
    od
}

/* ---- workers --------------------------------------------------------------------------------- */

proctype worker()
{
    byte r;
    byte mine;

end:
    do
    :: atomic { work?r -> mine = life };
       if
       :: atomic { mine == life && deaths < DEATHS ->
           deaths++;
#ifndef MUTANT_DIE_WITH_IT
           if
           :: nfull(work) -> work!r
           :: full(work) -> refused(r)
           fi
#endif
          }
       :: atomic { mine == life ->
           if
           :: seen -> told(r) /* a duplicate */
           :: !seen && nfull(ops) -> ops!r
           :: !seen && full(ops) -> refused(r)
           fi
          }
       :: atomic { mine != life -> skip }
       fi;
       atomic { r = 0; mine = 0 }
    od
}

/* ---- the mailbox ----------------------------------------------------------------------------- */

proctype writer()
{
    byte r;
    byte mine;
    bit good;

end:
    do
    :: atomic { ops?r -> mine = life };
#ifdef MUTANT_TELL_FIRST
       atomic {
           if
           :: mine == life -> told(r)
           :: mine != life -> skip
           fi
       };
#endif
       atomic {
           if
           :: mine != life -> skip
#ifdef MUTANT_NO_LOOK
           :: false -> skip
           :: mine == life ->
#else
           :: mine == life && seen -> good = 1
           :: mine == life && !seen ->
#endif
#ifdef MUTANT_KEEP_RESERVED
               seen = 1; /* and not taken back when the disk fails */
#endif
#ifdef MUTANT_TWO_TRANSACTIONS
               key = 1
           fi
       };
       atomic {
           if
           :: mine != life || good -> skip
           :: mine == life && !good ->
#endif
               if
               :: key = 1; rows++; good = 1
               :: failures < FAILURES -> failures++ /* rolled back */
               fi
           fi
       };
       atomic {
           if
           :: mine != life -> skip
           :: mine == life && good -> seen = 1; told(r)
           :: mine == life && !good -> refused(r)
           fi;
           r = 0;
           mine = 0;
           good = 0
       }
    od
}

/* ---- actions --------------------------------------------------------------------------------- */

inline call_wallet()
{
#ifdef MUTANT_FRESH_KEY
    applied++
#else
    if
    :: !known -> known = 1; applied++
    :: known -> skip /* the same answer again */
    fi
#endif
}

proctype actor()
{
    byte mine;
    bit answered;

end:
    do
    :: atomic { rows > 0 && !struck && !leased -> leased = 1; mine = life };
#ifdef MUTANT_STRIKE_FIRST
       atomic {
           if
           :: mine == life -> struck = 1; assert(applied > 0)
           :: mine != life -> skip
           fi
       };
#endif
       atomic {
           if
           :: mine != life -> skip
           :: mine == life -> call_wallet(); answered = 1
           :: mine == life && losses < LOSSES -> losses++; call_wallet() /* its answer is lost */
           :: mine == life && losses < LOSSES -> losses++                 /* it did not arrive */
           fi
       };
       atomic {
           if
           :: mine == life && answered ->
               assert(applied > 0); /* B4 */
               struck = 1;
               leased = 0;
               record()
#ifdef MUTANT_NO_RETRY
           :: mine == life && !answered -> skip
#else
           :: mine == life && !answered -> leased = 0; record() /* again by its schedule */
#endif
           :: mine != life -> skip
           fi;
           mine = 0;
           answered = 0
       }
    od
}

/* ---- around ---------------------------------------------------------------------------------- */

/* A crash takes what is in memory; the start that follows reads the file. */
inline crash()
{
    life++;
    do
    :: nempty(work) -> work?_
    :: nempty(ops) -> ops?_
    :: nempty(trail) -> trail?_
    :: empty(work) && empty(ops) && empty(trail) -> break
    od;
    missing = 0;
    for (i : 0 .. REQUESTS - 1) {
        if
        :: state[i] == WAITS -> state[i] = WANTS /* its connection broke */
        :: state[i] != WAITS -> skip
        fi
    }
    i = 0;
#ifndef MUTANT_FORGET_LEASE
    leased = 0;
#endif
#ifdef MUTANT_START_EMPTY
    seen = 0
#else
    seen = key
#endif
}

proctype world()
{
    byte i;

    do
    :: atomic { crashes < CRASHES -> crashes++; crash() }
    :: atomic { expiries < EXPIRIES && leased -> expiries++; leased = 0 }
    :: break
    od
}

#define B2 (rows == key)
#define B3 (applied <= 1)
#define B5 (missing == len(trail))
#define ALL_HOLD (B2 && B3 && B5)

#ifndef LIVENESS
active proctype monitor()
{
end:
    atomic {
        !ALL_HOLD ->
        assert(B2);
        assert(B3);
        assert(B5)
    }
}
#endif

init
{
    atomic {
        run sender(0);
        run sender(1);
        run worker();
#ifndef LIVENESS
        run worker();
        run actor();
#endif
        run writer();
        run actor();
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

ltl told_in_the_end { <> (state[0] == TOLD && state[1] == TOLD) }
ltl applied_in_the_end { [] (rows > 0 -> <> (applied > 0)) }
ltl drained { [] (rows > 0 -> <> struck) }
#endif
