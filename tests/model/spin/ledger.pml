/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.pml - Validated -> Sequenced -> Committed, with a crash at any point, a sync that fails,
 * repetitions in parallel, and an operator who resumes.
 *
 * Place: the model of ron-ledger's pipeline: ledger/pipeline/seq.c, ledger/pipeline/commit.c,
 * ledger/recover/recover.c and the tasks around them.
 *
 * Model                     C
 *   client                    somebody who sends a request with a key until the answer is definite
 *   validated                 channel "preval": works that passed the prevalidators
 *   sequencer                 led_seq_window on the sequencer task; `projected`, `recent` and
 *                             `in_flight` are the book and the tables of led_seq
 *   cq, cs, cn                channel "commit": works and their seqs; room is there before a seq
 *                             is given
 *   next_seq                  the sequencer's: what the next work gets
 *   debited, credited         the committed book: what all entries together took and gave
 *   committer                 led_commit_group: WRITTEN is between write and sync, SYNCED between
 *                             the sync and the last answer of the group
 *   log, log_len              what is durable; a key per entry, its place is its seq
 *   maybe                     a group whose sync failed is on disk or not: decided when it fails,
 *                             known to nobody before the next recovery
 *   safe                      safe mode and its marker
 *   crash                     SIGKILL or power loss; then led_recover
 *   operator                  POST /admin/resume: verify and open anew, then writes go on
 *   acked[k]                  ghost: the seq that some client was told for the key, + 1
 *
 * Every entry moves one unit out of an account that has BALANCE of them into another one.
 *
 * Invariants:
 *   L1 One writer: log_len grows in the committer and in a recovery that finds a written group;
 *      each append is of an entry whose seq, given by the sequencer, is the next one (append()).
 *   L2 No key is in the log twice (append()): repetitions have no second effect.
 *   L3 The account never goes below zero: log_len <= BALANCE (append()).
 *   L4 What was acknowledged is in the log at that seq, for ever (monitor).
 *   L5 All clients of a key are told the same seq (told()).
 *   L6 In safe mode nothing is appended (append()), but by the recovery that ends it.
 *   L7 Nobody is refused for lack of funds while neither the log nor what is in flight took them.
 *   L8 Conservation: after each group and each recovery the book has given what it has taken, and
 *      that is all that is in the log (settled()).
 * Liveness (weak fairness): everybody gets a definite answer, though crashes and failures come.
 *
 * Atomic blocks: a round of the sequencer, the taking of a group and the telling of answers touch
 * state that only their task writes, or a channel under its lock; what lies between (a work in a
 * channel, a written group, a synced group whose callers wait) is between blocks. A crash is one
 * block because nothing of the process runs during it.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove ltl everybody_is_answered -DCRASHES=1 -DFAILS=0
 * @catch ACK_BEFORE_SYNC safety assertion
 * @catch FORGET_KEYS safety assertion
 * @catch IGNORE_IN_FLIGHT safety assertion
 * @catch RESUME_UNREAD safety assertion
 * @catch COMMITTED_BALANCE safety assertion
 * @catch APPEND_IN_SAFE_MODE safety assertion
 * @catch RETRY_SYNC safety assertion
 * @catch SECOND_WRITER safety assertion
 * @catch ONE_SIDE safety assertion
 * @catch LOSE_ROUND ltl everybody_is_answered -DCRASHES=1 -DFAILS=0
 */

#define CLIENTS 4
#define KEYS 3
#define BALANCE 2 /* one key too many */
#define CAPACITY 1
#define LOG_MAX 3
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FAILS
#define FAILS 1
#endif
#define NONE 255
#define KEY_OF(c) ((c) == 0 -> 0 : (c) - 1) /* clients 0 and 1 share a key: a repetition */

mtype:answer = { WAITING, OK, REFUSED, AGAIN, IDLE };
mtype:phase = { EMPTY, WRITTEN, SYNCED };

/* Durable. */
byte log[LOG_MAX];
byte log_len;
bit safe;
bit maybe;       /* the group of a failed sync is on disk after all */
byte maybe_key = NONE;
byte maybe_seq;

/* Of the process. */
bit queued[CLIENTS]; /* in the channel "preval"; any order of arrival is possible */
byte projected = BALANCE;
byte recent[KEYS];   /* seq + 1 */
bit in_flight[KEYS];
byte cq[CAPACITY];   /* clients */
byte cs[CAPACITY];   /* the seqs of their works */
byte cn;
byte next_seq = 1;
byte group = NONE;   /* client whose work is the group; one suffices, order is the queue's */
byte group_seq;
byte debited;
byte credited;
mtype:phase phase = EMPTY;
bit aborting;

/* Of the clients. */
mtype:answer answer[CLIENTS] = IDLE;
byte answered;

byte crashes;
byte fails;
byte acked[KEYS];

inline append(k, seq)
{
    assert(!safe || recovering);
    assert(seq == log_len + 1);
    assert(log_len < BALANCE);
    assert(!(log_len > 0 && log[0] == k) && !(log_len > 1 && log[1] == k));
    log[log_len] = k;
    log_len++
}

/* The book has applied what is in the log. */
inline settled()
{
    assert(debited == log_len && credited == log_len)
}

/* A definite yes. */
inline told(c, seq)
{
    assert(acked[KEY_OF(c)] == 0 || acked[KEY_OF(c)] == seq);
    acked[KEY_OF(c)] = seq;
    answer[c] = OK;
    answered++
}

bit recovering;

/* From the log to a state that can go on. */
inline recover()
{
    recovering = 1;
    if
    :: maybe && maybe_key != NONE -> append(maybe_key, maybe_seq)
    :: else
    fi;
    recovering = 0;
    maybe = 0;
    maybe_key = NONE;
    maybe_seq = 0;
    projected = BALANCE - log_len;
    next_seq = log_len + 1;
    debited = log_len;
    credited = log_len;
    settled();
    k = 0;
    do
    :: k < KEYS ->
        in_flight[k] = 0;
#ifndef MUTANT_FORGET_KEYS
        recent[k] = (log_len > 0 && log[0] == k -> 1 : (log_len > 1 && log[1] == k -> 2 : 0));
#else
        recent[k] = 0;
#endif
        k++
    :: else -> break
    od;
    k = 0
}

/* Everybody who waits is told to ask again. */
inline drop_all()
{
    k = 0;
    do
    :: k < CLIENTS ->
        if
        :: answer[k] == WAITING -> answer[k] = AGAIN
        :: else
        fi;
        queued[k] = 0;
        k++
    :: else -> break
    od;
    k = 0;
    cn = 0;
    cq[0] = 0;
    cs[0] = 0;
    group = NONE;
    group_seq = 0;
    phase = EMPTY;
    aborting = 0
}

proctype client(byte c)
{
    do
    :: atomic {
        answer[c] == IDLE || answer[c] == AGAIN ->
        answer[c] = WAITING;
        queued[c] = 1
       }
    :: answer[c] == OK || answer[c] == REFUSED -> break
    od
}

#ifdef MUTANT_IGNORE_IN_FLIGHT
#define MUST_WAIT(k) (0)
#else
#define MUST_WAIT(k) (in_flight[k])
#endif

#ifdef MUTANT_COMMITTED_BALANCE
#define FUNDS (BALANCE - log_len)
#else
#define FUNDS projected
#endif

/* One work of a window. */
inline decide(c)
{
    queued[c] = 0;
    if
    :: safe -> answer[c] = AGAIN
    :: !safe && recent[KEY_OF(c)] != 0 -> told(c, recent[KEY_OF(c)])
    :: !safe && recent[KEY_OF(c)] == 0 && cn == CAPACITY -> answer[c] = AGAIN /* no seq was given */
    :: !safe && recent[KEY_OF(c)] == 0 && cn < CAPACITY && FUNDS == 0 ->
        /* L7 */
        assert(log_len + in_flight[0] + in_flight[1] + in_flight[2] >= BALANCE);
        answer[c] = REFUSED;
        answered++
    :: !safe && recent[KEY_OF(c)] == 0 && cn < CAPACITY && FUNDS > 0 ->
#ifndef MUTANT_COMMITTED_BALANCE
        projected--;
#endif
        in_flight[KEY_OF(c)] = 1;
        cq[cn] = c;
        cs[cn] = next_seq;
        next_seq++;
        cn++
    fi
}

active proctype sequencer()
{
end_idle:
    do
    :: atomic { queued[0] && !aborting && !MUST_WAIT(KEY_OF(0)) -> decide(0) }
    :: atomic { queued[1] && !aborting && !MUST_WAIT(KEY_OF(1)) -> decide(1) }
    :: atomic { queued[2] && !aborting && !MUST_WAIT(KEY_OF(2)) -> decide(2) }
    :: atomic { queued[3] && !aborting && !MUST_WAIT(KEY_OF(3)) -> decide(3) }
    :: atomic { /* led_seq_abort, once the committer has failed; it ends what it refuses itself */
        aborting && cn == 0 && phase == EMPTY ->
        projected = BALANCE - log_len;
        next_seq = log_len + 1;
        in_flight[0] = 0;
        in_flight[1] = 0;
        in_flight[2] = 0;
        aborting = 0
       }
    od
}

active proctype committer()
{
    byte c;

end_idle:
    do
    :: atomic { /* takes a group; written, not yet synced */
        cn > 0 && phase == EMPTY && !safe ->
        group = cq[0];
        group_seq = cs[0];
        cq[0] = 0;
        cs[0] = 0;
        cn--;
        phase = WRITTEN
#ifdef MUTANT_ACK_BEFORE_SYNC
        ;
        told(group, log_len + 1)
#endif
       }
#ifdef MUTANT_APPEND_IN_SAFE_MODE
    :: atomic { cn > 0 && phase == EMPTY && safe -> append(KEY_OF(cq[0]), cs[0]); cn--; cq[0] = 0 }
#else
    :: atomic { /* in safe mode it refuses what is still queued */
        cn > 0 && phase == EMPTY && safe ->
        answer[cq[0]] = AGAIN;
        cq[0] = 0;
        cs[0] = 0;
        cn--
       }
#endif
    :: atomic { /* the sync succeeds */
        phase == WRITTEN ->
        append(KEY_OF(group), group_seq);
        phase = SYNCED
       }
    :: atomic { /* the sync fails: on disk or not, nobody knows */
        phase == WRITTEN && fails < FAILS ->
        fails++;
        if
        :: maybe = 1; maybe_key = KEY_OF(group); maybe_seq = group_seq
        :: skip
        fi;
#ifdef MUTANT_RETRY_SYNC
        /* believes a second sync: the write may have been forgotten */
        if
        :: maybe -> append(KEY_OF(group), group_seq); maybe = 0; maybe_key = NONE
        :: else
        fi;
        told(group, log_len + (log_len == 0));
#else
        safe = 1;
        aborting = 1;
        answer[group] = AGAIN;
#endif
        group = NONE;
        group_seq = 0;
        phase = EMPTY
       }
    :: atomic { /* numbers for the sequencer, then the answer */
        phase == SYNCED ->
        c = group;
        in_flight[KEY_OF(c)] = 0;
        recent[KEY_OF(c)] = log_len;
        debited++;
#ifndef MUTANT_ONE_SIDE
        credited++;
#endif
        settled();
#ifndef MUTANT_ACK_BEFORE_SYNC
        told(c, log_len);
#endif
        group = NONE;
        group_seq = 0;
        phase = EMPTY;
        c = 0
       }
    od
}

#ifdef MUTANT_SECOND_WRITER
/* A committer that was restarted while the first one still lives. */
active proctype second_committer()
{
    byte c = NONE;
    byte seq;

end_idle:
    do
    :: atomic {
        cn > 0 && c == NONE && !safe ->
        c = cq[0];
        seq = cs[0];
        cq[0] = 0;
        cs[0] = 0;
        cn--
       }
    :: atomic {
        c != NONE ->
        append(KEY_OF(c), seq);
        in_flight[KEY_OF(c)] = 0;
        recent[KEY_OF(c)] = log_len;
        debited++;
        credited++;
        told(c, log_len);
        c = NONE;
        seq = 0
       }
    od
}
#endif

active proctype world()
{
    byte k;

end_quiet:
    do
    :: atomic { /* a crash; of a written group either all or nothing is found */
        crashes < CRASHES ->
        crashes++;
        if
        :: phase == WRITTEN -> maybe = 1; maybe_key = KEY_OF(group); maybe_seq = group_seq
        :: true
        fi;
#ifndef MUTANT_LOSE_ROUND
        drop_all();
#else
        cn = 0; cq[0] = 0; cs[0] = 0; group = NONE; group_seq = 0; phase = EMPTY; aborting = 0;
        queued[0] = 0; queued[1] = 0; queued[2] = 0; queued[3] = 0;
#endif
        recover()
       }
    :: atomic { /* the operator: full verification, then the journal is opened anew */
        safe && !aborting && cn == 0 && phase == EMPTY ->
#ifndef MUTANT_RESUME_UNREAD
        recover();
#endif
        safe = 0
       }
    od
}

#define L4                                                                                         \
    ((acked[0] == 0 || (log_len >= acked[0] && log[acked[0] - 1] == 0)) &&                         \
     (acked[1] == 0 || (log_len >= acked[1] && log[acked[1] - 1] == 1)) &&                         \
     (acked[2] == 0 || (log_len >= acked[2] && log[acked[2] - 1] == 2)))

#ifndef LIVENESS
active proctype monitor()
{
end_never:
    atomic { !L4 -> assert(L4) }
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

ltl everybody_is_answered { <> (answered == CLIENTS) }
#endif

init
{
    atomic {
        run client(0);
        run client(1);
        run client(2);
        run client(3)
    }
}
