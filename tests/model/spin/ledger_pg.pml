/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_pg.pml - two ledgers on one log in PostgreSQL: claim, append and fence, with answers that
 * are lost, requests that arrive late, commits that are not replicated, a database that fails over,
 * and ledgers that crash.
 *
 * Place: the model of ledger/replica/rows_posix.c and ledger/replica/lead_task_posix.c.
 *
 * Model                     C
 *   ledger(me)                the leader task and the committer of one ledger; `mode` is led_mode:
 *                             FOLLOW, LEAD, and STOPPED for safe mode
 *   at[me], copy[]            struct led_pg_head and the local log: what it holds, survives a crash
 *   cur[me]                   the frame that led_pg_append is busy with; 0: none
 *   log, rows                 ron.ledger_log of the primary: a frame for each slot; slot 0 is the
 *                             genesis
 *   safe_rows                 so many of them are on the standby too
 *   pend[f]                   an INSERT of frame f is on its way, or waits in a session of the
 *                             database; it can arrive when nobody waits for it any more
 *   waits[f]                  the row is in, the session waits for the standby (SyncRep)
 *   reply[me]                 what the database said; lost ones are never set
 *   database                  one INSERT ... SELECT at a time; replication; a failover that leaves
 *                             what was replicated, and ends all sessions (gen)
 *   client                    wants each key committed, asks anybody who leads, again and again
 * No lease and no clock: a follower claims whenever it likes, so whatever a lease does is covered.
 *
 * Invariants:
 *   P1 No key is in the log twice (insert()).
 *   P2 What was acknowledged is in the log, at that slot, also after a failover (ack(), failover).
 *   P3 All who ask for a key are told the same slot (ack()).
 *   P4 What was refused for good is not in the log and never comes in (insert(), refused[]).
 *   P5 A slot is never given twice (insert()), and each row stands behind the one that its leader
 *      knew: with -DASYNC, where a failover loses what was acknowledged, nobody who knows of it
 *      goes on (insert()).
 *   P6 Of two that lead at once at most one commits: the epochs of rows never fall (insert()).
 *
 * Atomic blocks: a statement of the database is one step of it, as its primary key makes it so;
 * what a ledger does with an answer touches its own state alone. Between sending, inserting,
 * replicating, answering and hearing everything else may happen.
 *
 * Checks that run.sh performs:
 * @prove safety
 * @prove safety -DASYNC
 * @catch NO_FENCE safety assertion
 * @catch ACK_A_WARNING safety assertion
 * @catch OURS_IS_ENOUGH safety assertion
 * @catch LOST_IS_REFUSED safety assertion
 * @catch NEXT_SLOT safety assertion
 * @catch LEAD_WITHOUT_CLAIM safety assertion
 * @catch IGNORE_ROOT safety assertion -DASYNC
 */

#define LEDGERS 2
#define KEYS 2
#define SLOTS 5
#define FRAMES 5 /* 1..4 are made; 0 is none */
#define NO_KEY 255
#ifndef LOSSES
#define LOSSES 1 /* answers that do not come in time, warnings and given-up appends */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif

mtype:mode = { FOLLOW, CLAIM, LEAD, STOPPED };
mtype:reply = { NOTHING, DONE, WARNED, TAKEN, NO_ROW };

/* Of the database. */
byte log[SLOTS];
byte log_epoch[SLOTS];
byte rows = 1;
byte safe_rows = 1;
bit gen; /* of its sessions */
bit pend[FRAMES];
bit waits[FRAMES];

/* Of frames, fixed when they are made. */
byte made;
byte f_key[FRAMES];
byte f_slot[FRAMES]; /* where it goes */
byte f_prev[FRAMES]; /* frame that it stands behind */
byte f_epoch[FRAMES];
byte f_by[FRAMES];
bit refused[FRAMES];

/* Of the ledgers. */
mtype:mode mode[LEDGERS] = FOLLOW;
mtype:reply reply[LEDGERS] = NOTHING;
byte at[LEDGERS];
byte epoch[LEDGERS]; /* that it claimed */
byte cur[LEDGERS];
typedef copied { byte f[SLOTS] };
copied copy[LEDGERS];

byte acked[KEYS]; /* slot that a client was told */
byte losses, crashes, failovers;

inline make(me, key, e)
{
    made++;
    cur[me] = made;
    f_key[made] = key;
    f_slot[made] = at[me] + 1;
    f_prev[made] = copy[me].f[at[me]];
    f_epoch[made] = e;
    f_by[made] = me;
    pend[made] = 1;
    reply[me] = NOTHING
}

inline ack(k, slot)
{
#ifndef ASYNC
    assert(acked[k] == 0 || acked[k] == slot);
    assert(slot < safe_rows && f_key[log[slot]] == k);
#endif
    acked[k] = slot
}

/* The row of frame f goes into `slot`. */
inline insert(f, slot)
{
    assert(!refused[f]);
    assert(slot == rows);
    assert(log[slot - 1] == f_prev[f]);
    assert(log_epoch[slot - 1] <= f_epoch[f]);
    assert(f_key[f] == NO_KEY || (f_key[log[0]] != f_key[f] && f_key[log[1]] != f_key[f] &&
                                  f_key[log[2]] != f_key[f] && f_key[log[3]] != f_key[f] &&
                                  f_key[log[4]] != f_key[f]));
    log[slot] = f;
    log_epoch[slot] = f_epoch[f];
    rows = slot + 1;
    waits[f] = 1
}

/* What the database says to whoever still waits for frame f. */
inline say(f, what)
{
    if
    :: cur[f_by[f]] == f && reply[f_by[f]] == NOTHING -> reply[f_by[f]] = what
    :: else
    fi
}

/* WHERE slot = n AND root = prev_root AND epoch <= ours. */
#define FITS(f) (log[f_slot[f] - 1] == f_prev[f] && log_epoch[f_slot[f] - 1] <= f_epoch[f])

/* One INSERT ... SELECT. */
inline statement(f)
{
    pend[f] = 0;
    if
#ifdef MUTANT_NEXT_SLOT
    :: rows < SLOTS -> insert(f, rows) /* the database numbers the rows */
    :: else
#else
    :: f_slot[f] > rows -> say(f, NO_ROW)
#ifndef MUTANT_IGNORE_ROOT
    :: f_slot[f] <= rows && !FITS(f) ->
        say(f, NO_ROW)
    :: f_slot[f] < rows && FITS(f) ->
#else
    :: f_slot[f] < rows ->
#endif
#ifndef MUTANT_NO_FENCE
        say(f, TAKEN)
#else
        insert(f, f_slot[f]) /* an UPSERT */
#endif
#ifndef MUTANT_IGNORE_ROOT
    :: f_slot[f] == rows && FITS(f) ->
#else
    :: f_slot[f] == rows ->
#endif
        insert(f, f_slot[f])
#endif
    fi
}

/* Each step picks any frame that it fits. */
proctype database()
{
    byte f;

end:
    do
    :: atomic { pend[1] || pend[2] || pend[3] || pend[4] ->
           select(f : 1 .. FRAMES - 1);
           if
           :: pend[f] -> statement(f)
           :: else
           fi;
           f = 0
       }
    :: atomic { safe_rows < rows -> safe_rows++ } /* in the order of the write-ahead log */
    :: atomic { waits[1] || waits[2] || waits[3] || waits[4] ->
           select(f : 1 .. FRAMES - 1);
           if
#ifndef ASYNC
           :: waits[f] && f_slot[f] < safe_rows ->
#else
           :: waits[f] ->
#endif
               waits[f] = 0;
               say(f, DONE)
           :: waits[f] && losses < LOSSES -> /* the wait was cancelled */
               losses++;
               waits[f] = 0;
               say(f, WARNED)
           :: else
           fi;
           f = 0
       }
    :: atomic { failovers < FAILOVERS -> /* the standby is promoted */
           failovers++;
           gen = 1 - gen;
           for (f : 1 .. FRAMES - 1) {
               pend[f] = 0;
               waits[f] = 0
           }
           for (f : safe_rows .. SLOTS - 1) {
               log[f] = 0;
               log_epoch[f] = 0
           }
           rows = safe_rows;
#ifndef ASYNC
           assert(acked[0] < rows && acked[1] < rows);
#endif
           f = 0
       }
    od
}

/* The frame is in, and replicated as the settings ask. */
inline is_in(me)
{
    at[me]++;
    copy[me].f[at[me]] = cur[me];
    if
    :: f_key[cur[me]] != NO_KEY -> ack(f_key[cur[me]], at[me])
    :: else -> mode[me] = LEAD
    fi;
    cur[me] = 0;
    reply[me] = NOTHING
}

inline follow(me)
{
    mode[me] = FOLLOW;
    cur[me] = 0;
    reply[me] = NOTHING
}

proctype ledger(byte me)
{
    byte k;
    bit my_gen;

end:
    do
    /* A follower reads the next row, verifies that it stands behind its own, and keeps it. */
    :: atomic { mode[me] == FOLLOW && at[me] + 1 < rows ->
           if
           :: f_prev[log[at[me] + 1]] == copy[me].f[at[me]] ->
               at[me]++;
               copy[me].f[at[me]] = log[at[me]]
           :: else -> mode[me] = STOPPED
           fi
       }
    /* It has read all that there was, and claims. */
    :: atomic { mode[me] == FOLLOW && at[me] + 1 >= rows && made < FRAMES - 1 &&
                at[me] + 1 < SLOTS ->
           epoch[me] = (at[me] == 0 -> 1 : f_epoch[copy[me].f[at[me]]] + 1);
#ifndef MUTANT_LEAD_WITHOUT_CLAIM
           mode[me] = CLAIM;
           make(me, NO_KEY, epoch[me])
#else
           mode[me] = LEAD;
           epoch[me]--
#endif
       }
    /* A key that somebody asks for: known, or new. Slot 1 is a claim, and who holds all has no
     * frame left. */
    :: atomic { mode[me] == LEAD && cur[me] == 0 && made < FRAMES - 1 && at[me] + 1 < SLOTS ->
           select(k : 0 .. KEYS - 1);
           if
           :: f_key[copy[me].f[2]] == k && at[me] >= 2 -> ack(k, 2)
           :: f_key[copy[me].f[3]] == k && at[me] >= 3 -> ack(k, 3)
           :: else -> make(me, k, epoch[me])
           fi;
           k = 0
       }
    /* ---- the answer to an append ---- */
    :: atomic { cur[me] != 0 && reply[me] == DONE -> is_in(me) }
    :: atomic { cur[me] != 0 && reply[me] == WARNED ->
#ifndef MUTANT_ACK_A_WARNING
           reply[me] = NOTHING;
           pend[cur[me]] = 1 /* the same row again */
#else
           is_in(me)
#endif
       }
    :: atomic { cur[me] != 0 && reply[me] == TAKEN && log[f_slot[cur[me]]] != cur[me] ->
           refused[cur[me]] = 1; /* fenced */
           follow(me)
       }
    :: atomic { cur[me] != 0 && reply[me] == TAKEN && log[f_slot[cur[me]]] == cur[me] ->
           /* Ours, of a try whose answer was lost. The commit that settles it is confirmed when all
            * before it is replicated, in the same session. */
           my_gen = gen
       };
#ifndef MUTANT_OURS_IS_ENOUGH
#ifndef ASYNC
       atomic { f_slot[cur[me]] < safe_rows || my_gen != gen };
#endif
#endif
       atomic {
           if
           :: my_gen == gen && log[f_slot[cur[me]]] == cur[me] -> is_in(me)
           :: else -> reply[me] = NOTHING; pend[cur[me]] = 1
           fi;
           my_gen = 0
       }
    :: atomic { cur[me] != 0 && reply[me] == NO_ROW -> mode[me] = STOPPED; cur[me] = 0 }
    /* No answer in time, or none will ever come: the same row again. */
    :: atomic { cur[me] != 0 && reply[me] == NOTHING && !pend[cur[me]] &&
                (!waits[cur[me]] || losses < LOSSES) ->
           losses = losses + (waits[cur[me]] -> 1 : 0);
#ifndef MUTANT_LOST_IS_REFUSED
           waits[cur[me]] = 0; /* the session ends with its connection; the row stays */
           pend[cur[me]] = 1
#else
           refused[cur[me]] = 1;
           assert(log[f_slot[cur[me]]] != cur[me]);
           follow(me)
#endif
       }
    /* The deadline of an append: nobody knows, and the request may still arrive. */
    :: atomic { cur[me] != 0 && reply[me] == NOTHING && losses < LOSSES ->
           losses++;
           follow(me)
       }
    :: atomic { crashes < CRASHES && mode[me] != STOPPED ->
           crashes++;
           follow(me)
       }
    od
}

init {
    atomic {
        f_key[0] = NO_KEY;
        run database();
        run ledger(0);
        run ledger(1)
    }
}
