/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/stage.h - the tasks of a running ledger: what each of them uses and keeps.
 *
 * Place: service. A stage sees the parts that are named in its struct and nothing else. svc.c fills
 * in the pointers before it calls the _add function; what follows them belongs to the stage.
 *
 * Threads: a struct belongs to its task or tasks, but for the words that are atomic. */
#pragma once

#include "ledger/core/core.h"
#include "ledger/core/engine.h"
#include "ledger/core/news.h"
#include "ledger/core/pipes.h"
#include "ledger/guard/gate.h"
#include "ledger/publish/publish.h"
#include "ledger/replica/lead.h"

enum {
    LED_PREVAL_TASKS_MAX = 128, /* prevalidators, and one task for large requests per worker */
    LED_READERS_MAX = 16,       /* the most that concurrency.readers allows */
    LED_TASK_NAME_SIZE = 24,
};

/* "RL" and two letters; each _add function sets its own. */
#define LED_PREVAL_STAGE_MAGIC UINT32_C(0x56504c52)
#define LED_SEQ_STAGE_MAGIC UINT32_C(0x51534c52)
#define LED_COMMIT_STAGE_MAGIC UINT32_C(0x4d434c52)
#define LED_READ_STAGE_MAGIC UINT32_C(0x44524c52)
#define LED_INDEX_STAGE_MAGIC UINT32_C(0x58494c52)
#define LED_HEALTH_STAGE_MAGIC UINT32_C(0x4c484c52)

struct led_preval_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_gate *gate;
    char names[LED_PREVAL_TASKS_MAX][LED_TASK_NAME_SIZE];
};

struct led_seq_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct ron_au32 expiry_told; /* refused expiries; the first is logged */
    struct ron_wait_node asks_node;
    uint32_t generation;   /* of the engine that the numbers are of */
    uint32_t reign;        /* at the beginning of the round */
    uint64_t durable_seen; /* of durable_works */
    uint64_t indexed_seen;
    bool imaging; /* an image of the book is being made */
};

struct led_commit_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_publish *publish;
    struct led_lead *lead; /* NULL: the log is ours alone */
};

struct led_reading;

struct led_read_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_gate *gate;
    struct led_publish *publish;
    struct led_lead *lead;        /* NULL: the log is ours alone */
    bool reads_open;              /* auth.reads = "open" */
    struct ron_au32 exports;      /* readers that are busy with one */
    struct ron_au32 admin_busy;   /* 1 while a long question of the operator runs */
    struct led_reading *readings; /* one per reader */
    char names[LED_READERS_MAX][LED_TASK_NAME_SIZE];
};

struct led_index_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_publish *publish;
    struct ron_need *need_disk;
    struct ron_need *need_index;
};

struct led_health_stage {
    uint32_t magic;
    const struct led_core *core;
    struct led_pipes *pipes;
    struct led_news *news;
    struct led_gate *gate;
    struct ron_need *need_commit;
    uint64_t durable_seen;
    uint64_t moved_ms; /* when durable_works changed last, or nothing waited */
};

RON_MUST_USE enum ron_rc led_stage_preval_add(struct led_preval_stage *st, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_seq_add(struct led_seq_stage *st, struct ron_err *err);
/* A work of the ledger itself, for an expiry; NULL: no memory. `arg` is the stage. */
struct led_work *led_stage_seq_own_work(void *arg);
/* After the end: whether works with a seq were neither made durable nor refused. */
bool led_stage_seq_owes(const struct led_seq_stage *st);
RON_MUST_USE enum ron_rc led_stage_commit_add(struct led_commit_stage *st, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_read_add(struct led_read_stage *st, struct ron_err *err);
void led_stage_read_free(struct led_read_stage *st);
RON_MUST_USE enum ron_rc led_stage_index_add(struct led_index_stage *st, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_health_add(struct led_health_stage *st, struct ron_err *err);

/* Whether the settings of remote guards fit together. */
RON_MUST_USE enum ron_rc led_stage_remote_check(const struct ron_conf_snap *conf,
                                                struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_remote_open(const struct led_core *core, struct led_gate *gate,
                                               struct ron_err *err);
/* Asks the service that the step of the work names; the work comes back to a prevalidator, or is
 * answered. */
void led_stage_remote_ask(struct led_preval_stage *st, struct led_work *w);

/* Questions of the operator, on a reader's thread: admin.c. */
bool led_admin_takes(enum led_ask ask);
void led_admin_serve(struct led_read_stage *st, struct led_query *q);
