/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wallet.pml - clients that repeat themselves, a wallet with two workers and tables that get lost,
 * a network that loses, delays and doubles, and the ledger.
 *
 * Place: the model of a write through svc-wallet: wallet/job/job.c, wlt_idem, wlt_nonce.
 *
 * Model                     C
 *   client                    a program that sends the same request until the answer is definite
 *   work                      channel "work"; full is 429: the client comes again
 *   worker(w), pc[w]          a worker task with one wlt_job; a step is a call of wlt_job_*
 *   idem[k], idem_body[k]     wlt_idem: FREE, PENDING, or the answer (seq)
 *   nonce_state, nonce_last   wlt_nonce: the slot of the one account
 *   cur[w]                    the batch of w's present try is on its way to the ledger
 *   stray_job, stray_client   a batch for whose answer nobody waits any more may still arrive;
 *                             when its bytes were sent once more the ledger hears them twice
 *   ans[w]                    an answer on its way back
 *   ledger                    the whole of ron-ledger (ledger.pml): idempotent by key, bound to the
 *                             bytes (a new job has a new ts, hence other bytes); nonce strictly the
 *                             last + 1; never below zero
 *   by[k]                     ghost: job whose bytes were committed for the key
 * Clients 0 and 1 send the same request, 2 has another key, and 3 (not with -DTHREE) another body
 * under the first key; all want the same nonce of one account (with -DNO_NONCES none has one), and
 * there is money for two.
 *
 * Invariants:
 *   W1 At most one commit per key (commit()).
 *   W2 At most one commit per (account, nonce) (commit()).
 *   W3 Conservation: what left the one account is in the other, and none is below zero (monitor).
 *   W4 At most one job per key in the wallet, and one reservation of the nonce (worker).
 *   W5 All clients of a request are told the same seq, and it is in the log (told()).
 *   W6 Who is told "refused": the request is not in the log, and nothing that this job has sent can
 *      still arrive (refuse()). J2 and J7 of wallet/job/job.h.
 * Liveness (weak fairness; finitely many losses, timeouts and crashes):
 *   everybody gets a definite answer; a wallet that drains runs empty.
 *
 * Atomic blocks: a step of a job touches tables by single operations of wlt_idem and wlt_nonce,
 * and no other task sees what lies between them: the key is held. Reading the ledger and using the
 * answer are two blocks where it matters (READ, LEARN). A crash is one block because nothing of the
 * wallet runs during it.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove safety -DNO_NONCES -DTHREE
 * @prove ltl everybody_is_answered -DTHREE
 * @prove ltl runs_empty -DTHREE -DDRAINS -DCRASHES=0
 * @catch NEW_NAME safety assertion -DNO_NONCES -DTHREE
 * @catch LEDGER_IGNORES_NONCE safety assertion -DTHREE
 * @catch REFUSED_AFTER_TIMEOUT safety assertion -DTHREE
 * @catch REFUSE_WITHOUT_LOOK safety assertion -DTHREE
 * @catch MISMATCH_IS_CONFLICT safety assertion -DNO_NONCES -DTHREE
 * @catch BELIEVE_THE_KEY safety assertion
 * @catch REFUSE_A_RIVAL safety assertion
 * @catch TWO_JOBS safety assertion -DTHREE
 * @catch REFUND safety assertion -DTHREE
 * @catch KEEP_RESERVED ltl everybody_is_answered -DTHREE
 * @catch KEEP_KEY ltl everybody_is_answered -DTHREE
 * @catch DRAIN_STOPS_WORKERS ltl runs_empty -DTHREE -DDRAINS -DCRASHES=0
 */

#ifdef THREE
#define CLIENTS 3
#else
#define CLIENTS 4
#endif
#define KEY_OF(c) ((c) == 2 -> 1 : 0)
#define BODY_OF(c) ((c) == 3 -> 1 : 0)
#define KEYS 2
#define BALANCE 2
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifdef NO_NONCES
#define NONCE 0
#else
#define NONCE 1
#endif
#define NOBODY 255
#define FREE 0 /* of idem; else PENDING or a seq */
#define PENDING 9

mtype:answer = { IDLE, WAITING, AGAIN, OK, REFUSED, GONE };
mtype:pc = { NONE, CHECK, READ, LEARN, SEND, WAIT, LOOK };
mtype:word = { NO_WORD, DONE, MISMATCH, NO };
mtype:slot = { UNKNOWN, IDLE_AT, RESERVED };

/* Of the ledger: durable. */
byte seq_of[KEYS]; /* 0: not committed */
byte body_of[KEYS];
byte by[KEYS];
byte commits[KEYS];
byte log_len;
byte last_nonce;
byte from_funds = BALANCE;
byte to_funds;

/* The network. */
bit cur[2];
byte stray_job;
byte stray_client;
mtype:word ans[2] = NO_WORD;

/* Of the wallet: lost by a crash. */
chan work = [2] of { byte };
mtype:pc pc[2] = NONE;
byte job[2] = NOBODY;  /* the client whose request it is */
byte number[2];        /* of the job, given when its batch first leaves; names the bytes */
bit lost[2];
bit held[2];           /* the reservation of the nonce */
bit no_key[2];         /* only looks */
byte learnt[2];
byte idem[KEYS] = FREE;
byte idem_body[KEYS];
mtype:slot nonce_state = UNKNOWN;
byte nonce_last;
bit draining;

/* Of the clients, and counts. */
mtype:answer answer[CLIENTS] = IDLE;
byte answered;
byte crashes;
byte timeouts;

/* ---- the ledger ------------------------------------------------------------------------------ */

inline commit(c, n)
{
    commits[KEY_OF(c)]++;
    assert(commits[KEY_OF(c)] == 1);                  /* W1 */
    assert(NONCE == 0 || last_nonce < NONCE);          /* W2 */
    last_nonce = (NONCE == 0 -> last_nonce : NONCE);
    from_funds--;
    to_funds++;
    log_len++;
    seq_of[KEY_OF(c)] = log_len;
    body_of[KEY_OF(c)] = BODY_OF(c);
    by[KEY_OF(c)] = n
}

#ifdef MUTANT_NEW_NAME
/* The name of a request follows from its bytes, which change with the time. */
#define KNOWN(c, n) (seq_of[KEY_OF(c)] != 0 && by[KEY_OF(c)] == (n))
#else
#define KNOWN(c, n) (seq_of[KEY_OF(c)] != 0)
#endif
#ifdef MUTANT_LEDGER_IGNORES_NONCE
#define NEXT_NONCE 1
#else
#define NEXT_NONCE (NONCE == 0 || NONCE == last_nonce + 1)
#endif

inline decide(c, n, ret)
{
    if
    :: KNOWN(c, n) -> ret = (by[KEY_OF(c)] == (n) -> DONE : MISMATCH)
    :: !KNOWN(c, n) && (!NEXT_NONCE || from_funds == 0) -> ret = NO
    :: !KNOWN(c, n) && NEXT_NONCE && from_funds > 0 -> commit(c, n); ret = DONE
    fi
}

/* A batch for which somebody waits. */
inline arrive(w)
{
    cur[w] = 0;
    decide(job[w], number[w], ans[w])
}

/* Nobody hears the answer. */
inline drift()
{
    decide(stray_client, stray_job, word);
    word = NO_WORD;
    stray_job = 0;
    stray_client = 0
}

active proctype ledger()
{
    mtype:word word;

end_idle:
    do
    :: atomic { cur[0] -> arrive(0) }
    :: atomic { cur[1] -> arrive(1) }
    :: atomic { stray_job != 0 -> drift() }
    od
}

/* ---- the wallet ------------------------------------------------------------------------------ */

/* The try of w is given up: its batch is lost, or still arrives. */
inline cut(w)
{
    if
    :: cur[w] && stray_job == 0 -> stray_job = number[w]; stray_client = job[w]
    :: true
    fi;
    cur[w] = 0;
    ans[w] = NO_WORD
}

inline settle(w, state, last)
{
    if
    :: held[w] ->
        nonce_state = state;
        nonce_last = (state == UNKNOWN -> 0 : last);
        held[w] = 0
    :: else
    fi
}

inline forget(w)
{
    job[w] = NOBODY;
    number[w] = 0;
    lost[w] = 0;
    learnt[w] = 0;
    no_key[w] = 0;
    pc[w] = NONE
}

/* The job is over; its key is freed or remembers the answer. */
inline finish(w, value, word_for_client)
{
    answer[job[w]] = word_for_client;
    if
    :: !no_key[w] ->
        idem[KEY_OF(job[w])] = value;
        idem_body[KEY_OF(job[w])] = (value == FREE -> 0 : BODY_OF(job[w]))
    :: else
    fi;
    forget(w)
}

/* A definite yes. */
inline told(c, seq)
{
    assert(seq != 0 && seq_of[KEY_OF(c)] == seq && body_of[KEY_OF(c)] == BODY_OF(c)); /* W5 */
    answer[c] = OK;
    answered++
}

#define IN_LOG(c) (seq_of[KEY_OF(c)] != 0 && body_of[KEY_OF(c)] == BODY_OF(c))

/* A definite no. With `later`, the word was given a while ago: a stray of an earlier job may have
 * come since, whose client was told that nobody knows. */
inline refuse(w, later)
{
    assert(!IN_LOG(job[w]) || (later && by[KEY_OF(job[w])] != number[w]));             /* W6 */
    assert(number[w] == 0 || seq_of[KEY_OF(job[w])] != 0 /* the key is taken */ ||
           (!cur[w] && stray_job != number[w]));
    answered++;
    finish(w, FREE, REFUSED)
}

/* Nobody knows: 503, and the client sends the same again. */
inline unknown(w)
{
    settle(w, UNKNOWN, 0);
#ifdef MUTANT_KEEP_KEY
    answer[job[w]] = AGAIN;
    forget(w)
#else
    finish(w, FREE, AGAIN)
#endif
}

inline take(w)
{
    work?c;
    if
    :: idem[KEY_OF(c)] != FREE && idem_body[KEY_OF(c)] != BODY_OF(c) ->
        /* another request has the key; whether that is so for the ledger too is looked at */
        job[w] = c;
#ifdef MUTANT_REFUSE_A_RIVAL
        no_key[w] = 1;
        refuse(w, 0)
#else
        no_key[w] = 1;
        pc[w] = LOOK
#endif
    :: idem[KEY_OF(c)] == PENDING && idem_body[KEY_OF(c)] == BODY_OF(c) ->
#ifdef MUTANT_TWO_JOBS
        job[w] = c;
        pc[w] = CHECK
#else
        answer[c] = AGAIN
#endif
    :: idem[KEY_OF(c)] != FREE && idem[KEY_OF(c)] != PENDING &&
       idem_body[KEY_OF(c)] == BODY_OF(c) -> told(c, idem[KEY_OF(c)])
    :: idem[KEY_OF(c)] == FREE ->
        idem[KEY_OF(c)] = PENDING;
        idem_body[KEY_OF(c)] = BODY_OF(c);
        job[w] = c;
        pc[w] = CHECK
    fi;
    assert(job[0] == NOBODY || job[1] == NOBODY || no_key[0] || no_key[1] ||
           KEY_OF(job[0]) != KEY_OF(job[1])); /* W4 */
    c = 0
}

inline check(w)
{
    if
    :: NONCE == 0 -> pc[w] = SEND
    :: NONCE != 0 && nonce_state == UNKNOWN -> pc[w] = READ
    :: NONCE != 0 && nonce_state == RESERVED -> finish(w, FREE, AGAIN)
    :: NONCE != 0 && nonce_state == IDLE_AT && NONCE == nonce_last + 1 ->
        nonce_state = RESERVED;
        assert(!held[0] && !held[1]); /* W4 */
        held[w] = 1;
        pc[w] = SEND
    :: NONCE != 0 && nonce_state == IDLE_AT && NONCE != nonce_last + 1 ->
#ifdef MUTANT_REFUSE_WITHOUT_LOOK
        refuse(w, 0)
#else
        pc[w] = LOOK
#endif
    fi
}

/* What became of the key, and whose request it was. */
inline look(w)
{
    if
#ifdef MUTANT_BELIEVE_THE_KEY
    :: seq_of[KEY_OF(job[w])] != 0 ->
#else
    :: IN_LOG(job[w]) ->
#endif
        told(job[w], seq_of[KEY_OF(job[w])]);
        settle(w, UNKNOWN, 0);
        finish(w, seq_of[KEY_OF(job[w])], OK)
    :: else ->
        settle(w, IDLE_AT, NONCE - 1);
        refuse(w, 0)
    fi
}

inline hear(w)
{
    if
    :: ans[w] == DONE ->
        told(job[w], seq_of[KEY_OF(job[w])]);
        settle(w, IDLE_AT, NONCE);
        ans[w] = NO_WORD;
        finish(w, seq_of[KEY_OF(job[w])], OK)
    :: ans[w] == MISMATCH ->
        ans[w] = NO_WORD;
#ifdef MUTANT_MISMATCH_IS_CONFLICT
        settle(w, IDLE_AT, NONCE - 1);
        refuse(w, 0)
#else
        pc[w] = LOOK
#endif
    :: ans[w] == NO && lost[w] -> /* an earlier try may still arrive */
        ans[w] = NO_WORD;
        unknown(w)
    :: ans[w] == NO && !lost[w] ->
        ans[w] = NO_WORD;
        settle(w, UNKNOWN, 0);
        refuse(w, 1)
    fi
}

/* No answer came in time. */
inline silence(w)
{
    timeouts++;
    lost[w] = 1;
    cut(w);
#ifdef MUTANT_REFUND
    from_funds++;
#endif
    if
    :: pc[w] = SEND
    :: true -> /* tries used up, or the deadline */
#ifdef MUTANT_REFUSED_AFTER_TIMEOUT
        settle(w, IDLE_AT, NONCE - 1);
        refuse(w, 0)
#else
#ifdef MUTANT_KEEP_RESERVED
        held[w] = 0;
#endif
        unknown(w)
#endif
    fi
}

#ifdef MUTANT_DRAIN_STOPS_WORKERS
#define MAY_TAKE (!draining)
#else
#define MAY_TAKE 1
#endif

/* Numbers are used again when nobody knows them any more. */
#define TAKEN(w)                                                                                   \
    (number[w] == number[1 - (w)] || number[w] == stray_job || number[w] == by[0] ||               \
     number[w] == by[1])

proctype worker(byte w)
{
    byte c;

end_idle:
    do
    :: atomic { pc[w] == NONE && nempty(work) && MAY_TAKE -> take(w) }
    :: atomic { pc[w] == CHECK -> check(w) }
    :: atomic { pc[w] == READ -> learnt[w] = last_nonce; pc[w] = LEARN }
    :: atomic { /* changes UNKNOWN only; the answer may be old news by now */
        pc[w] == LEARN ->
        if
        :: nonce_state == UNKNOWN -> nonce_state = IDLE_AT; nonce_last = learnt[w]
        :: else
        fi;
        learnt[w] = 0;
        pc[w] = CHECK
       }
    :: atomic { /* the same bytes each time */
        pc[w] == SEND ->
        do
        :: number[w] == 0 -> number[w] = 1
        :: number[w] != 0 && !lost[w] && TAKEN(w) -> number[w]++
        :: else -> break
        od;
        cur[w] = 1;
        pc[w] = WAIT
       }
    :: atomic { pc[w] == WAIT && ans[w] != NO_WORD -> hear(w) }
    :: atomic { pc[w] == WAIT && timeouts < TIMEOUTS -> silence(w) }
    :: atomic { pc[w] == LOOK -> look(w) }
    :: atomic { /* the look has no answer: nothing of this job is under way any more */
        pc[w] == LOOK && timeouts < TIMEOUTS -> timeouts++; unknown(w)
       }
    od
}

/* ---- around ---------------------------------------------------------------------------------- */

proctype client(byte c)
{
    do
    :: atomic {
        (answer[c] == IDLE || answer[c] == AGAIN) && !draining && nfull(work) ->
        work!c;
        answer[c] = WAITING
       }
#ifdef DRAINS
    :: atomic { /* 503 draining */
        (answer[c] == IDLE || answer[c] == AGAIN) && draining ->
        answer[c] = GONE;
        answered++;
        break
       }
#endif
    :: answer[c] == OK || answer[c] == REFUSED -> break
    od
}

active proctype world()
{
    byte k;

end_quiet:
    do
    :: atomic { /* the wallet dies with its tables; what it has sent may arrive */
        crashes < CRASHES ->
        crashes++;
        k = 0;
        do
        :: k < 2 ->
            cut(k);
            held[k] = 0;
            forget(k);
            k++
        :: else -> break
        od;
        k = 0;
        do
        :: nempty(work) -> work?k
        :: empty(work) -> break
        od;
        k = 0;
        do
        :: k < CLIENTS ->
            answer[k] = (answer[k] == WAITING -> AGAIN : answer[k]);
            k++
        :: else -> break
        od;
        k = 0;
        idem[0] = FREE;
        idem[1] = FREE;
        idem_body[0] = 0;
        idem_body[1] = 0;
        nonce_state = UNKNOWN;
        nonce_last = 0
       }
#ifdef DRAINS
    :: atomic { !draining -> draining = 1 }
#endif
    od
}

#define W3 (from_funds + to_funds == BALANCE)

#ifndef LIVENESS
active proctype monitor()
{
end_never:
    atomic { !W3 -> assert(W3) }
}
#else
bit tick;

/* Spin's search under weak fairness overlooks runs that stop. */
active proctype time_goes_on()
{
    do
    :: tick = !tick
    od
}

#define EMPTY (len(work) == 0 && pc[0] == NONE && pc[1] == NONE)

ltl everybody_is_answered { <> (answered == CLIENTS) }
ltl runs_empty { <> (draining && EMPTY && answered == CLIENTS) }
#endif

init
{
    atomic {
        run worker(0);
        run worker(1);
        run client(0);
        run client(1);
        run client(2);
#if CLIENTS == 4
        run client(3)
#endif
    }
}
