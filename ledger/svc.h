/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/svc.h - the running ledger: tasks and channels around the plain stages. Private to the
 * service's own files (led_svc*.c, led_stage_*.c, led_route*.c).
 *
 *     http, oap --ingress--> prevalidator-N --preval--> sequencer --commit--> committer
 *                                  |                    |       ^                |
 *                                  +-------reads--------+       asks       roots bus, head watch
 *                                            |                  |                |
 *                                         reader-N             http       roots, indexer
 *
 * Who owns what: the sequencer owns led_seq and the book, the committer led_commit, the indexer
 * writes led_index. Readers share log, hashes and index for reading. All of that is one engine
 * (struct led_recovered); leaving safe mode replaces it while nobody holds a lease (core/safe.c).
 *
 * Stages of a drain: prevalidators 1, readers 2, sequencer 3, committer 4, indexer and roots 5. */
#pragma once

#include "ledger/conf.h"
#include "ledger/core/feed.h"
#include "ledger/front/ask.h"
#include "ledger/guard/guard.h"
#include "ledger/guard/remote.h"
#include "ledger/pipeline/preval.h"
#include "ledger/publish/roots.h"
#include "ledger/publish/sign.h"
#include "ledger/read/reader.h"
#include "ledger/recover/recover.h"
#include "ledger/replica/lead.h"
#include "ledger/work/pool.h"
#include "ledger/work/query.h"
#include "ron/chan/watch.h"

enum {
    LED_SVC_TASKS_MAX = 144, /* prevalidators of both kinds, and readers */
    LED_SVC_ROUTES_MAX = 48,
    LED_HEAD_MAX = 512,
    LED_FRONT_STOPPED_MAX = 1024,
    LED_SVC_BLOCKS = 2, /* for the book; more than it wants at once it never gets */
};

/* RUNNING -> SAFE on any doubt; SAFE -> SWAPPING -> RUNNING by the admin. With a shared log
 * FOLLOWING stands in for RUNNING at the start and after SAFE, and RUNNING means to lead: see
 * replica/lead.h. */
enum led_mode {
    LED_RUNNING,
    LED_FOLLOWING, /* another ledger leads: writes are refused with its address, reads go on */
    LED_SAFE,      /* writes are refused, reads go on */
    LED_SWAPPING,  /* the engine is being replaced: a moment without reads */
};

struct led_lead;
struct led_metrics;
struct led_oap;
struct led_seq_stage;
struct led_reading;

/* A token for which the KMS did not vouch. */
enum { LED_UNVOUCHED_MAX = 64 };
struct led_unvouched {
    struct ron_b3 token;
    uint64_t until_ms;
};

struct led_svc {
    struct ron_app *app;
    const struct ron_env *env; /* of the journal: its disk is memory in amnesia mode */
    struct ron_memdisk *memdisk;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    char dir[1024];

    /* The engine, and who uses it now. */
    struct led_recover_opts recover;
    struct led_recovered eng;
    uint64_t progress_ns;      /* when the progress of a recovery was told last */
    struct ron_mutex eng_lock; /* eng_leases */
    struct ron_cond eng_free;
    uint32_t eng_leases;
    bool book_read;                /* the sequencer uses the book; under eng_lock */
    bool book_followed;            /* the leader task applies what another ledger committed */
    struct ron_au32 mode;          /* enum led_mode */
    struct ron_au64 durable_works; /* committed since the engine was made */
    struct ron_au32 abort_wanted;  /* the committer failed: the sequencer takes back */
    struct ron_au32 reign;         /* counts how often we ceased to lead; behind abort_wanted */
    struct ron_mutex head_lock;    /* durable_seq with its root and time */
    struct ron_au64 durable_seq;
    struct ron_au64 sync_ns; /* of the last group */
    struct ron_tree_hash head_root;
    uint64_t head_ms;
    uint32_t generation; /* of the engine; changes while it is barred */
    struct led_index_state eng_indexed;
    struct ron_au64 indexed_seq;
    struct ron_au64 log_bytes;
    struct ron_au32 expiry_told;   /* refused expiries; the first is logged */
    struct ron_au64 segments_late; /* of all logs since the start; the indexer counts */
    struct ron_au32 admin_busy;
    struct ron_au32 frozen_busy;
    struct ron_au32 exports;                /* readers that are busy with one */
    struct ron_au32 image_wanted;           /* by the indexer */
    struct ron_au64 image_accounts;         /* of the last image, about */
    struct ron_au32 blocks_wanted;          /* by the book: memory to grow into (book/book.h) */
    struct ron_aptr blocks[LED_SVC_BLOCKS]; /* that the indexer made; NULL: none */
    struct ron_au32 at_rest;                /* the indexer saw no entries for a while */

    uint32_t cpus;
    uint64_t awake_ns; /* concurrency.awake_us */
    struct led_preval preval;
    struct led_guard *guard;
    struct led_remote *remote;
    struct ron_au32 vouching; /* tokens about which the KMS is asked beside requests */
    struct ron_mutex unvouched_lock;
    struct led_unvouched unvouched[LED_UNVOUCHED_MAX];
    struct ron_cap_ring ring;
    bool has_ring;
    struct led_frozen *frozen;
    struct ron_cap_verifier *verifier;
    uint8_t hash_key[16];
    struct led_lead *lead; /* NULL: the log is ours alone */
    struct led_signer *signer;
    struct led_roots *roots;
    struct led_works *works;
    struct led_feed *feed; /* from the committer to the indexer */
    struct led_queries *queries;
    struct led_metrics *metrics;
    struct led_oap *oap;
    struct led_seq_stage *seq_stage;
    struct led_reading *readings;
    void *health;

    struct ron_chan *ingress;
    struct ron_chan *batches;   /* large requests */
    struct ron_chan *validated; /* "preval" */
    struct ron_chan *commit;
    struct ron_chan *reads;
    struct ron_chan *asks;
    struct ron_chan *images; /* chunks of an image of the book, for the indexer */
    struct ron_task *seq_task;
    struct ron_need *need_safe;
    struct ron_need *need_commit;
    struct ron_need *need_disk;
    struct ron_need *need_index;
    struct ron_need *need_guards; /* NULL: none is remote */
    char task_names[LED_SVC_TASKS_MAX][24];
    struct ron_http_route routes[LED_SVC_ROUTES_MAX];
    size_t route_count;
};

/* ---- core/safe.c: mode, leases, the marker
 * ---------------------------------------------------- */

static inline enum led_mode led_svc_mode(const struct led_svc *s)
{
    return (enum led_mode)ron_au32_load(&s->mode);
}
/* Stops writes: counts, logs, marks on disk, makes the service not ready. Any thread that may
 * block; again and again does nothing. */
void led_svc_enter_safe(struct led_svc *s, const char *cause, const char *detail);
/* After s->eng was filled in: counters, head and keys that follow from it. When it fails, accounts
 * that were frozen are not: writes must stay stopped. */
RON_MUST_USE enum ron_rc led_svc_engine_made(struct led_svc *s, struct ron_err *err);
/* The engine may be used until it is given back; false while it is being replaced. Never waits. */
bool led_svc_lease(struct led_svc *s);
void led_svc_unlease(struct led_svc *s);
/* The same for the sequencer, which also reads and changes the book; false also while the leader
 * task does (it wakes the sequencer when it has ended). */
bool led_svc_take_book(struct led_svc *s);
void led_svc_give_book(struct led_svc *s);
/* For the leader task: waits until the sequencer is not at the book, and keeps it away. False while
 * the engine is being replaced. A lease is taken with it. May block. */
bool led_svc_follow_book(struct led_svc *s);
void led_svc_leave_book(struct led_svc *s);
/* RUNNING to FOLLOWING or back; false when it was neither. */
bool led_svc_set_leading(struct led_svc *s, bool leading);
/* Why writes are refused when the mode is not RUNNING. */
static inline enum led_reason led_svc_stopped_reason(const struct led_svc *s)
{
    return led_svc_mode(s) == LED_FOLLOWING ? LED_REASON_NOT_LEADER : LED_REASON_SAFE_MODE;
}
/* Whether the work is of the engine that is leased; a new work is from now on. Its hashes and seqs
 * mean nothing to another one. */
RON_MUST_USE bool led_svc_of_engine(const struct led_svc *s, struct led_work *w);
/* Verifies the whole journal; then, to resume, replaces the engine and removes the marker. Members
 * of a JSON object are appended to the report. Both block for long; one caller at a time. */
RON_MUST_USE enum ron_rc led_svc_verify(struct led_svc *s, struct ron_buf *report,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led_svc_resume(struct led_svc *s, struct ron_buf *report,
                                        struct ron_err *err);

struct led_svc_head {
    uint64_t seq;
    uint64_t ts_ms;
    struct ron_tree_hash root;
};
/* What is durable. */
void led_svc_head(struct led_svc *s, struct led_svc_head *ret_head);
/* A group became durable: for readers and subscribers. By the one that appends to the log. */
void led_svc_publish(struct led_svc *s, const struct led_svc_head *head);

/* ---- stages ---------------------------------------------------------------------------------- */

RON_MUST_USE enum ron_rc led_stage_preval_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_seq_add(struct led_svc *s, struct ron_err *err);
void led_stage_seq_free(struct led_svc *s);
/* After the end: whether works with a seq were neither made durable nor refused. */
bool led_stage_seq_owes(const struct led_svc *s);
RON_MUST_USE enum ron_rc led_stage_commit_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_read_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_index_add(struct led_svc *s, struct ron_err *err);

RON_MUST_USE enum ron_rc led_stage_health_add(struct led_svc *s, struct ron_err *err);
/* Whether the settings of remote guards fit together. */
RON_MUST_USE enum ron_rc led_svc_remote_check(const struct ron_conf_snap *conf,
                                              struct ron_err *err);
RON_MUST_USE enum ron_rc led_svc_remote_open(struct led_svc *s, struct ron_err *err);
bool led_svc_remote_close(struct led_svc *s);
/* Asks what the step of the work stands at; it comes back to a prevalidator, or is answered. */
void led_svc_remote_ask(struct led_svc *s, struct led_work *w);
/* For a request without a work whose token led_guard_open gave LED_VERDICT_ASK: asks the KMS beside
 * and refuses for now (busy: the next try finds the verdict). Any thread. */
void led_svc_remote_vouch(struct led_svc *s, const struct led_caller *caller,
                          struct led_refusal *ret);
/* Readiness of the remote guards; the health task's. */
void led_svc_remote_look(struct led_svc *s);

/* How long to look for what comes after the work instead of sleeping; 0: not at all. A lone request
 * waits for one sync and little else, so that putting threads to sleep and waking them would be a
 * good part of its time. With others under way there is work to do, and beside a slow sync the
 * wake-up does not count. */
uint64_t led_svc_awake_ns(struct led_svc *s, const struct led_work *w);
/* A new work into the pipeline: to a prevalidator, or RON_FULL, RON_CLOSED with the work still the
 * caller's. */
RON_MUST_USE enum ron_rc led_svc_submit(struct led_svc *s, struct led_work *w);
/* To the readers, to be compared with the journal; refused `busy` when they have no room. */
void led_svc_look_up(struct led_svc *s, struct led_work *w);
/* A validated work to the sequencer; whom it evicts is answered. */
void led_svc_validated(struct led_svc *s, struct led_work *w);

/* ---- stage/admin.c: questions of the operator, on a reader's thread
 * ---------------------------- */

bool led_admin_takes(enum led_ask ask);
void led_admin_serve(struct led_svc *s, struct led_query *q);

/* ---- fronts ---------------------------------------------------------------------------------- */

/* Writes what a refused batch is answered: the envelope of every error, and with it all of its
 * reasons and the root of the head, which it left as it was. Counts it, and returns the status. */
int led_front_refusal(struct led_svc *s, const struct led_work *w, struct ron_buf *out);
/* What a write is answered while the mode is not RUNNING; counts it and returns the status. `out`
 * has LED_FRONT_STOPPED_MAX of room. */
int led_front_stopped(struct led_svc *s, const char *corr_id, struct ron_buf *out);
/* The body of GET /head; `out` has LED_HEAD_MAX of room. */
void led_front_head(struct led_svc *s, struct ron_buf *out);
void led_front_fail(struct ron_http_call *call, enum led_reason reason, const char *detail);
/* Writes are stopped: in safe mode, or because another ledger leads, whose address is told. */
void led_front_fail_stopped(struct led_svc *s, struct ron_http_call *call);
/* Who calls. */
void led_front_caller(struct led_svc *s, struct ron_http_call *call, struct led_caller *ret);
/* What a cancelled key is answered. */
void led_front_cancelled(const struct led_work *w, struct ron_buf *out);
bool led_front_reads_open(const struct led_svc *s);
/* Whether the caller may use `scope`; `ret` and a count when not. */
RON_MUST_USE bool led_front_may(struct led_svc *s, const struct led_caller *caller,
                                enum led_scope scope, struct ron_str account,
                                struct led_refusal *ret);
/* The same for a call, which is answered when not. */
RON_MUST_USE bool led_front_allowed(struct led_svc *s, struct ron_http_call *call,
                                    enum led_scope scope, struct ron_str account);
void led_front_ingest(struct ron_http_call *call, void *arg); /* POST /ingest */
void led_front_cancel(struct led_svc *s, struct ron_http_call *call, struct ron_str idem_id);
/* The work of a cancel into the pipeline, whose caller was allowed to. */
void led_front_cancel_work(struct led_svc *s, struct led_work *w, struct ron_str idem_id);
/* Whether the caller may act as the operator; answers the call when not. */
RON_MUST_USE bool led_front_admin(struct led_svc *s, struct ron_http_call *call);
void led_routes_fill(struct led_svc *s);
/* A page of roots that only the journal has (publish/roots.h). */
void led_routes_older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit);
RON_MUST_USE enum ron_rc led_oap_add(struct led_svc *s, struct ron_err *err);
bool led_oap_free(struct led_svc *s);
void led_oap_on_root(void *arg, const struct led_root_event *event); /* publish/roots.h */
/* Tells the accounts of a durable group to those who want to know. On the committer's thread, after
 * the numbers for the sequencer were stored: who hears of a commit and asks reads it. */
void led_oap_on_commit(struct led_svc *s, struct led_work *const *works, size_t count,
                       uint64_t seq_last);

/* ---- traces ---------------------------------------------------------------------------------- */

/* A stage has done its part on the work, since from_ns; `queue` is where the work came from. */
void led_trace_stage(struct led_svc *s, const struct led_work *w, const char *stage,
                     const char *queue, uint64_t from_ns);

/* ---- metrics --------------------------------------------------------------------------------- */

RON_MUST_USE enum ron_rc led_metrics_new(struct led_svc *s, struct ron_err *err);
void led_metrics_free(struct led_svc *s);
void led_metrics_replayed(struct led_svc *s);
/* Prevalidation of the work is over; counts it once. */
void led_metrics_prevalidated(struct led_svc *s, struct led_work *w);
void led_metrics_window(struct led_svc *s, uint64_t entries); /* that it decided on */
void led_metrics_committed(struct led_svc *s, const struct led_commit_done *done,
                           struct led_work *const *works, size_t count);
void led_metrics_dropped(struct led_svc *s);
void led_metrics_gap(struct led_svc *s);
void led_metrics_expiry_refused(struct led_svc *s);
void led_metrics_sync_failed(struct led_svc *s);
