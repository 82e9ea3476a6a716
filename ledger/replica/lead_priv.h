/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/lead_priv.h - the record of the leader task, shared by lead_posix.c (birth, place,
 * what others are told) and lead_task_posix.c (the task). The contract is in lead.h. */
#pragma once

#include "ledger/core/core.h"
#include "ledger/core/engine.h"
#include "ledger/core/pipes.h"
#include "ledger/guard/gate.h"
#include "ledger/recover/replay.h"
#include "ledger/replica/lead.h"
#include "ron/base/assert.h"

enum {
    LED_LEAD_CALL_MS = 2000, /* one statement, but for appends */
};

#define LED_LEAD_MAGIC UINT32_C(0x444c4c52) /* "RLLD" */

struct led_lead {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_gate *gate;
    struct led_publish *publish;
    struct led_pg *tail;   /* of the leader task */
    struct led_pg *append; /* of the committer; the task's for a claim */
    struct led_pg *freeze; /* of who has s->gate.frozen_busy */
    struct led_sink sink;
    struct led_pg_head at; /* V3 */
    uint64_t epoch;        /* that we claimed last; of the task */
    uint8_t uuid[LED_UUID_SIZE];
    bool known;  /* uuid */
    bool placed; /* `at` is that of this engine */
    uint64_t lease_ms;
    struct led_pg_place place; /* ours */
    struct ron_mutex hint_lock;
    struct led_pg_place hint;     /* under hint_lock */
    struct ron_au64 latest_epoch; /* in the local log */
    struct ron_au64 heard_ns;     /* when the beat was sent that the database took last; 0: none */

    /* Of the leader task. */
    struct led_replay *replay; /* NULL: not begun with this engine */
    uint32_t generation;       /* of the engine that `replay` and `at` are of */
    struct ron_buf frame;      /* aligned as the log wants it */
    uint64_t beat_ns;          /* when it was said last who leads, */
    uint64_t looked_ns;        /* or looked at */
    uint64_t claimed_ns;       /* when an epoch of somebody else was first seen */
    bool caught_up;
    struct ron_need *need;
};

/* Which ledger it is and, with postgres.migrate, the schema: the first time that the database
 * answers. */
RON_MUST_USE enum ron_rc led__lead_know(struct led_lead *l, struct ron_err *err);
void led__lead_set_hint(struct led_lead *l, const struct led_pg_place *place);
