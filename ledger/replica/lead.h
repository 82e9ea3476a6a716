/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/lead.h - several ledgers on one log: which of them leads, and what the others do.
 *
 * Place: service; the task "leader" (blocking) and the sink of the committer, over rows.h. Only
 * with engine.sink = "postgres"; otherwise led_lead is NULL, and the ledger is its own leader.
 *
 *     FOLLOWING ── caught up, and the leader was not heard of for postgres.lease ──► claim
 *         ▲                                                                            │ fenced
 *         │◄───────────────────────────────────────────────────────────────────────────┤
 *         │ fenced, or an append that is not settled in time                           │ it is in
 *         └──────────────────────────── RUNNING (leads) ◄──────────────────────────────┘
 *
 * The database is the truth. The data directory is a copy: every frame that is in the database is
 * appended to the local log, in the same order and to the byte, so that reads and recovery do not
 * read the database. A leader appends to the database first, then here; a follower reads there,
 * verifies the chain and every root, and applies it.
 *
 * Invariants:
 *   V1. The local log is a prefix of the one in the database. A start whose last local frame is not
 *       in the database stops in safe mode: somebody lost what we may have acknowledged. So does a
 *       follower that finds it gone, and one whose copy cannot be written.
 *   V2. Leading is decided by the claim alone: a frame without records, with the next epoch, at
 *       head + 1. The lease only says when to try.
 *       A leader that finds a newer epoch beside the lease appends something: so it is fenced, and
 *       follows, though nobody writes to it.
 *   V3. `at` belongs to the leader task while FOLLOWING and to the committer while RUNNING; it
 *       changes hands with the mode.
 *       A work belongs to the reign in which it got its seq: what the committer still has of an
 *       earlier one it refuses, and a claim waits until the sequencer has taken it back.
 *       What is frozen is read from the database behind the claim and before the first work.
 *   V4. That a key or an id is not there is said only by a ledger that is sure to lead: others lag.
 *
 * Threads: led_lead_hint, led_lead_sure and led_lead_tell any; led_lead_lost the committer; the
 * rest build and take-down. */
#pragma once

#include <stdbool.h>

#include "ledger/pipeline/commit.h"
#include "ledger/replica/rows.h"
#include "ron/base/json.h"

struct led_core;
struct led_engine;
struct led_gate;
struct led_lead;
struct led_news;
struct led_pipes;
struct led_publish;

struct led_lead_opts {
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_gate *gate;
    struct led_publish *publish;
};

/* From the settings; *ret_lead stays NULL for a log of one's own. Where there is no copy of the log
 * yet the database must answer: its uuid is that of the ledger. */
RON_MUST_USE enum ron_rc led_lead_open(const struct led_lead_opts *opts, struct led_lead **ret_lead,
                                       struct ron_err *err);
void led_lead_free(struct led_lead *lead); /* NULL is fine */
/* Of the ledger in the database; only looked at where there is no copy yet. */
const uint8_t *led_lead_uuid(const struct led_lead *lead);
/* After recovery: whether the local log is of this ledger and a prefix (V1); RON_CONFLICT and
 * RON_NOTFOUND say that it is not. While the database is away the task looks later. */
RON_MUST_USE enum ron_rc led_lead_place(struct led_lead *lead, struct ron_err *err);
/* From here on NULL is fine, and means a log of one's own. */
RON_MUST_USE enum ron_rc led_stage_lead_add(struct led_lead *lead, struct ron_err *err);

/* The committer's append was fenced or is not settled: follow from now on. */
void led_lead_lost(struct led_lead *lead, enum ron_rc rc, const struct ron_err *err);
/* Where the leader is found, when another one is known. */
RON_MUST_USE bool led_lead_hint(struct led_lead *lead, struct led_pg_place *ret_place);
/* Whether nobody else can lead now: it leads, and the database heard it less than a lease ago,
 * within which no other ledger tries. (Only this is as good as the clocks run alike; see V2.) What
 * is not here is then nowhere. Ask after having looked. */
RON_MUST_USE bool led_lead_sure(struct led_lead *lead);
/* Tells the database that an account is frozen or not any more, for who leads next; nothing for a
 * log of one's own. RON_CLOSED: another ledger leads. For who has s->gate.frozen_busy; blocks. */
RON_MUST_USE enum ron_rc led_lead_freeze(struct led_lead *lead, struct ron_str account, bool frozen,
                                         struct ron_err *err);
/* The newest in the local log; 0 for a log of one's own. */
uint64_t led_lead_epoch(const struct led_lead *lead);
/* Members of GET /head that tell writers whom to ask: "leads", "epoch" and, of a follower that
 * knows it, "leader" (its OAP address). Nothing for a log of one's own. */
void led_lead_tell(struct led_lead *lead, struct ron_json_writer *j);
