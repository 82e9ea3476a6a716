/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewarder.pml - one epoch from the request to the ledger: clients that repeat themselves, a
 * service that dies at any point, with its book or without, and a network that loses and delays.
 *
 * Place: the model of svc-rewarder: rewarder/book/book.h (states, plan),
 * rewarder/settle/machine.c (the machine of a settlement) and the tasks between them.
 *
 * Model                     C
 *   world                     clients that POST compute (the number is the run key) while GET knows
 *                             no such epoch; crashes; an operator who releases
 *   work_req, scheduler       the channel and the task; rwd_book_reserve
 *   work, worker(w), running  the channel, rwd_book_move to COMPUTING, the calculus and its checks
 *   results, writer           rwd_run_write, rwd_book_seal; then the intents
 *   intents, emitter, pc      rwd_book_emit, then rwd_emit_next and rwd_emit_word, one batch
 *   state, owner, sealed      the row of the epoch; NONE: there is none
 *   planned, att, gen         the row of the batch: attempt, and its time stamp as a number that is
 *                             used once
 *   cur, cur_att, cur_gen     the batch on its way; stray_*: one for which nobody waits any more
 *   key[a], body[a], credits  the ledger: keys by attempt, the bytes committed under them, and how
 *                             often the payees were credited (ids do not depend on the attempt)
 *   broken, hostile           the run breaks a rule; the ledger refuses it for good
 * Without -DDURABLE a crash takes the book with it (amnesia), and all clients want the same run.
 * With it the book stays, and some want another run of the epoch.
 *
 * Invariants:
 *   R1 At most one worker computes the epoch, and a reserved epoch keeps its run (begin, reserve).
 *   R2 The payees are credited at most once (commit).
 *   R3 EMITTED is said only of what is credited (note).
 *   R4 What broke a rule, or is not sealed, is not credited (commit).
 *   R5 What is sent stands in the plan (send).
 *   R6 A batch that is refused and not there had a tombstone (doubt).
 * Liveness (weak fairness; finitely many losses, crashes and releases):
 *   every epoch ends emitted or quarantined, and quarantined only for a reason.
 *
 * Atomic blocks: a call of the book is one transaction. A call of the ledger that reads or cancels
 * is one block with the choice of the next step; the step itself is another, so a stray may arrive
 * between them. A crash is one block because nothing of the service runs during it.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove safety -DDURABLE
 * @prove ltl ends
 * @prove ltl ends -DDURABLE
 * @catch NO_DEDUP safety assertion -DDURABLE
 * @catch RESERVE_ANYWAY safety assertion -DDURABLE
 * @catch NEW_IDS safety assertion -DDURABLE
 * @catch SILENCE_IS_DONE safety assertion -DDURABLE
 * @catch MISMATCH_IS_DONE safety assertion
 * @catch EMIT_BEFORE_CHECK safety assertion -DDURABLE
 * @catch SEND_BEFORE_PLAN safety assertion -DDURABLE
 * @catch LOSE_RESERVED ltl ends -DDURABLE
 * @catch LOSE_COMPUTING ltl ends -DDURABLE
 * @catch LOSE_EMITTING ltl ends -DDURABLE
 * @catch WITHHELD_STAYS ltl ends -DDURABLE
 * @catch QUIET_HANDOVER ltl ends -DDURABLE
 * @catch STUCK_AT_TOMBSTONE ltl ends
 */

#define ATTEMPTS 4
#ifndef CRASHES
#define CRASHES 1
#endif
#define TIMEOUTS 2 /* calls without an answer */
#define AGES 1     /* how often a batch grows old */
#define RELEASES 1

mtype:state = { NONE, RESERVED, COMPUTING, SEALED, QUARANTINED, EMITTING, EMITTED, WITHHELD };
mtype:pc = { IDLE, SEND, WAIT, LOOK, OUTCOME, DOUBT, CANCEL, STAMP, NOTE };
mtype:word = { NO_WORD, DONE, OTHER_BODY, REFUSED };
mtype:key = { NEVER, COMMITTED, CANCELLED };

/* The ledger: durable. */
mtype:key key[ATTEMPTS] = NEVER;
byte body[ATTEMPTS];
byte credits;
bit broken;
bit hostile;

/* The book. */
mtype:state state = NONE;
byte owner; /* the run that has the epoch */
bit sealed;
bit planned;
byte att;
byte gen;
byte gens; /* clock: no stamp comes twice */

/* The network. */
bit cur;
byte cur_att;
byte cur_gen;
bit stray;
byte stray_att;
byte stray_gen;
mtype:word ans = NO_WORD;

/* The service: lost by a crash. */
chan work_req = [2] of { byte };
chan work = [1] of { bit }; /* 1: begun before the crash */
chan results = [1] of { bit };
chan intents = [1] of { bit };
byte running;
bit busy[2];
mtype:pc pc = IDLE;

byte crashes;
byte timeouts;
byte ages;
byte releases;
bit handover;
bit forgot;

/* ---- the ledger ------------------------------------------------------------------------------ */

inline commit(a, g)
{
    credits++;
    assert(credits == 1);       /* R2 */
    assert(!broken && !hostile); /* R4 */
    key[a] = COMMITTED;
    body[a] = g
}

#ifdef MUTANT_NEW_IDS
#define ID_KNOWN 0
#else
#define ID_KNOWN (credits > 0)
#endif

inline decide(a, g, ret)
{
    if
    :: key[a] == CANCELLED -> ret = OTHER_BODY
    :: key[a] == COMMITTED -> ret = (body[a] == (g) -> DONE : OTHER_BODY)
    :: key[a] == NEVER && hostile -> ret = REFUSED
    :: key[a] == NEVER && !hostile && ID_KNOWN -> ret = OTHER_BODY
    :: key[a] == NEVER && !hostile && !ID_KNOWN -> commit(a, g); ret = DONE
    fi
}

active proctype ledger()
{
    mtype:word heard;

end_idle:
    do
    :: atomic { cur -> cur = 0; decide(cur_att, cur_gen, ans); cur_att = 0; cur_gen = 0 }
    :: atomic { /* nobody hears the answer */
        stray ->
        stray = 0;
        decide(stray_att, stray_gen, heard);
        heard = NO_WORD;
        stray_att = 0;
        stray_gen = 0
       }
    od
}

/* Its answer is not waited for: the batch is lost, or still arrives. */
inline cut()
{
    if
    :: cur && !stray -> stray = 1; stray_att = cur_att; stray_gen = cur_gen
    :: true
    fi;
    cur = 0;
    cur_att = 0;
    cur_gen = 0;
    ans = NO_WORD
}

/* ---- from the request to the seal ------------------------------------------------------------ */

inline drop_epoch()
{
    state = NONE;
    owner = 0;
    sealed = 0;
    planned = 0;
    att = 0;
    gen = 0
}

active proctype scheduler()
{
    byte r;

end_idle:
    do
    :: atomic {
        work_req?r ->
        if
#ifdef MUTANT_RESERVE_ANYWAY
        :: state == NONE || state == RESERVED || state == COMPUTING ->
#else
        :: state == NONE ->
#endif
            assert(owner == 0 || owner == r); /* R1 */
            state = RESERVED;
            owner = r;
            if
            :: nfull(work) -> work!0
            :: full(work)
            fi
        :: else -> /* 202 or 200 for the same run, 409 for another */
#ifdef MUTANT_NO_DEDUP
            if
            :: owner == r && nfull(work) -> work!1
            :: owner != r || full(work)
            fi
#else
            skip
#endif
        fi;
        r = 0
       }
    od
}

inline begin(w)
{
    assert(running == 0); /* R1 */
    running++;
    busy[w] = 1
}

/* The deadline has passed: the epoch is given back. */
inline forget(w)
{
    forgot = 1;
    running--;
    busy[w] = 0;
    drop_epoch()
}

proctype worker(byte w)
{
    bit again;

end_idle:
    do
    :: atomic {
        !busy[w] && nempty(work) ->
        work?again;
        if
        :: state == RESERVED -> state = COMPUTING; begin(w)
#ifdef DURABLE
        :: state == COMPUTING && again -> begin(w)
#endif
        :: else
        fi;
        again = 0
       }
    :: atomic {
        busy[w] && nfull(results) ->
        running--;
        busy[w] = 0;
#ifdef MUTANT_EMIT_BEFORE_CHECK
        results!1
#else
        if
        :: broken -> state = QUARANTINED
        :: !broken -> results!1
        fi
#endif
       }
    :: atomic { busy[w] && !forgot -> forget(w) }
    od
}

active proctype writer()
{
end_idle:
    do
    :: atomic { nempty(results) -> results?_; state = SEALED; sealed = 1 }
#ifdef MUTANT_QUIET_HANDOVER
    :: atomic { state == SEALED && pc == IDLE && empty(intents) && !handover -> intents!1 }
#else
    :: atomic { state == SEALED && pc == IDLE && empty(intents) -> intents!1 }
#endif
    :: atomic { /* no room in time: the epoch is quarantined */
        state == SEALED && pc == IDLE && empty(intents) && !handover ->
        handover = 1;
#ifndef MUTANT_QUIET_HANDOVER
        state = QUARANTINED
#endif
       }
    od
}

/* ---- the settlement -------------------------------------------------------------------------- */

inline stamp()
{
    gens++;
    gen = gens
}

/* rwd_book_emit. */
inline emit()
{
    state = EMITTING;
    if
#ifdef MUTANT_SEND_BEFORE_PLAN
    :: !planned -> stamp()
#else
    :: !planned -> planned = 1; stamp()
#endif
    :: planned
    fi;
    pc = SEND
}

inline send()
{
    assert(planned && gen != 0); /* R5 */
    cur = 1;
    cur_att = att;
    cur_gen = gen;
    pc = WAIT
}

/* No answer: the same once more, or the tries are used up. */
inline silence()
{
    timeouts++;
#ifdef MUTANT_SILENCE_IS_DONE
    pc = NOTE
#else
#ifdef MUTANT_NEW_IDS
    att = (att < ATTEMPTS - 1 -> att + 1 : att);
    stamp();
#endif
    if
    :: pc = (pc == WAIT -> SEND : pc)
    :: true -> state = WITHHELD; pc = IDLE
    fi
#endif
}

inline refuse()
{
    state = QUARANTINED;
    pc = IDLE
}

inline hear()
{
    if
    :: ans == DONE -> pc = NOTE
#ifdef MUTANT_MISMATCH_IS_DONE
    :: ans == OTHER_BODY -> pc = NOTE
#else
    :: ans == OTHER_BODY -> pc = LOOK
#endif
    :: ans == REFUSED -> refuse()
    fi;
    ans = NO_WORD
}

inline outcome()
{
    if
    :: key[att] == COMMITTED -> send()
    :: key[att] == CANCELLED -> pc = STAMP
    :: key[att] == NEVER -> pc = CANCEL
    fi
}

/* After a refusal: only a tombstone explains it. */
inline doubt()
{
#ifdef MUTANT_STUCK_AT_TOMBSTONE
    refuse()
#else
    assert(key[att] == CANCELLED); /* R6 */
    pc = STAMP
#endif
}

inline cancel()
{
    if
    :: key[att] == COMMITTED -> send()
    :: key[att] != COMMITTED -> key[att] = CANCELLED; pc = STAMP
    fi
}

inline note()
{
    assert(credits == 1); /* R3 */
    state = EMITTED;
    pc = IDLE
}

active proctype emitter()
{
end_idle:
    do
    :: atomic {
        pc == IDLE && nempty(intents) ->
        intents?_;
        if
        :: state == SEALED -> emit()
        :: state == EMITTING -> pc = SEND /* after a restart */
        :: else
        fi
       }
#ifndef MUTANT_WITHHELD_STAYS
    :: atomic { pc == IDLE && state == WITHHELD -> emit() }
#endif
    :: atomic { pc == SEND -> send() }
    :: atomic { pc == SEND && ages < AGES -> ages++; pc = OUTCOME } /* E4 */
    :: atomic { pc == WAIT && ans != NO_WORD -> hear() }
    :: atomic { pc == LOOK -> pc = (credits > 0 -> NOTE : DOUBT) }
    :: atomic { pc == OUTCOME -> outcome() }
    :: atomic { pc == DOUBT -> doubt() }
    :: atomic { pc == CANCEL -> cancel() }
    :: atomic { /* the tombstone is there, and nobody is told */
        pc == CANCEL && timeouts < TIMEOUTS && key[att] == NEVER ->
        key[att] = CANCELLED;
        silence()
       }
    :: atomic { pc == STAMP -> att++; assert(att < ATTEMPTS); stamp(); pc = SEND }
    :: atomic { pc == NOTE -> note() }
    :: atomic {
        (pc == LOOK || pc == OUTCOME || pc == DOUBT) && timeouts < TIMEOUTS -> silence()
       }
    :: atomic { pc == WAIT && timeouts < TIMEOUTS -> cut(); silence() }
    od
}

/* ---- around ---------------------------------------------------------------------------------- */

/* What a service that starts finds in its book. */
inline recover()
{
    if
#ifndef MUTANT_LOSE_RESERVED
    :: state == RESERVED -> work!0
#endif
#ifndef MUTANT_LOSE_COMPUTING
    :: state == COMPUTING -> work!1
#endif
#ifndef MUTANT_LOSE_EMITTING
    :: state == EMITTING -> intents!1
#endif
    :: else
    fi
}

inline drain(c)
{
    do
    :: nempty(c) -> c?_
    :: empty(c) -> break
    od
}

active proctype world()
{
end_quiet:
    do
    :: atomic { state == NONE && nfull(work_req) -> work_req!1 } /* clients */
#ifdef DURABLE
    :: atomic { state == NONE && nfull(work_req) -> work_req!2 }
#endif
    :: atomic {
        crashes < CRASHES ->
        crashes++;
        cut();
        drain(work_req);
        drain(work);
        drain(results);
        drain(intents);
        running = 0;
        busy[0] = 0;
        busy[1] = 0;
        pc = IDLE;
#ifdef DURABLE
        recover()
#else
        drop_epoch()
#endif
       }
    :: atomic { /* an operator */
        state == QUARANTINED && pc == IDLE && releases < RELEASES ->
        releases++;
        if
        :: sealed -> state = WITHHELD
        :: !sealed -> drop_epoch()
        fi
       }
    od
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

#define FOR_A_REASON (broken || hostile || handover)
ltl ends { <> [] (state == EMITTED || (state == QUARANTINED && FOR_A_REASON)) }
#endif

init
{
    atomic {
        if
        :: broken = 1
        :: hostile = 1
        :: true
        fi;
        run worker(0);
        run worker(1)
    }
}
