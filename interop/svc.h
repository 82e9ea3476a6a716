/* SPDX-License-Identifier: Apache-2.0 */
/* interop/svc.h - the running bridge: tasks and channels around the plain parts. Private to the
 * files of the service (svc.c, front/routes.c, hook/hook.c, hook/worker.c, hook/record.c,
 * act/sentinel.c, iop_act*.c, object/object.c, object/put.c, core/events.c, core/metrics.c).
 *
 *     http --work(512)--> worker-N: verify, de-duplicate, enqueue
 *      +----uploads(256)--> upload-N: /put, piece by piece into the store
 *      +----reads(512)----> reader-N: objects that are on disk
 *     worker-N --ops--> mailbox_writer --journal--> actors --HTTP--> wallet, places outside
 *     brownout_sentinel --bridge (watch)--> http; all --audit(512)--> audit_sink
 *     all --events(1024)--> GET /v1/events
 *
 * Stage of a drain: workers, uploads and readers 1, actors 2, the HTTP client 3, the mailbox's
 * writer and the store 4, sentinel, audit sink and the streams of events 5.
 *
 * Ownership: a message belongs to who took it from its channel. A reply travels with its request
 * and is answered by who ends it. */
#pragma once

#include "interop/audit/audit.h"
#include "interop/conf.h"
#include "interop/core/brownout.h"
#include "interop/core/error.h"
#include "interop/core/upstream.h"
#include "interop/mailbox/local.h"
#include "interop/rule/policy.h"
#include "ron/app/auth.h"
#include "ron/cas/cas.h"
#include "ron/http/events.h"
#include "ron/obs/health.h"

enum {
    IOP_WORKERS_MAX = 64,
    IOP_ROUTES_MAX = 32,
    IOP_STREAMS_MAX = 256, /* people and dashboards */
    IOP_UPLOADS_MAX = 64,
    IOP_FETCHES_MAX = 64, /* as `s3.fetches` says */
    IOP_READERS = 2,
    IOP_READERS_REMOTE = 8, /* some of which wait for a storage elsewhere */
    IOP_BATCH_BODY_MAX = 16 << 20,
    IOP_Q_READS = 512,            /* as many as requests are in flight by default */
    IOP_Q_UPLOADS = 256,          /* that wait for a task; each holds two pieces at most */
    IOP_RING = 512,               /* deliveries that GET /deliveries can show */
    IOP_PEER_SIZE = RON_ADDR_MAX, /* of who sent it, for the audit */
    /* Envelopes and wallet requests of one delivery, all escaped at worst. */
    IOP_JOB_TEXT_MAX = (IOP_ACTIONS_MAX + 1) * 2 * IOP_HEAD_MAX,
};

struct iop_svc;
struct iop_metrics;
struct iop_worker;
struct iop_actor;
struct iop_ring;
struct iop_proofs;

/* Actions that cannot be carried out as their rule says. */
#define IOP_TOPIC_FAULTS "interop.faults"

/* ---- jobs ------------------------------------------------------------------------------------ */

/* One delivery on its way: the same shape for every provider. Head and body live with the reply. */
struct iop_job {
    struct iop_job *next; /* in the pool */
    struct iop_svc *s;
    struct ron_http_reply *reply;
    const struct ron_http_head *head;
    struct ron_str body;
    struct iop_policy *policy; /* a reference */
    const struct iop_provider *provider;
    struct iop_delivery delivery;
    uint64_t began_ns;
    uint64_t sent_ns; /* to the mailbox */
    uint32_t tries;   /* workers that could not go on with it */
    bool has_b3;
    struct ron_b3 b3;
    char peer[IOP_PEER_SIZE];
    struct iop_op op;
    struct iop_msg msgs[IOP_ACTIONS_MAX + 1];
    struct ron_buf text; /* what the messages point to */
};

/* From the pool; NULL when too many are under way, or no memory. */
struct iop_job *iop_job_take(struct iop_svc *s);
void iop_job_put(struct iop_svc *s, struct iop_job *take_job);
void iop_jobs_free(struct iop_svc *s);
/* Answers and gives it back. */
void iop_job_drop(struct iop_svc *s, struct iop_job *take_job, enum iop_error error);
/* What identifies a delivery, or what a client sends under a key: the same for all who share the
 * mailbox. */
void iop_key_make(struct iop_svc *s, struct ron_str name, struct ron_str id,
                  const struct ron_b3 *body, struct iop_key *ret_key);
void iop_hook_http(struct ron_http_call *call, void *arg);
void iop_hook_get_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_workers_add(struct iop_svc *s, struct ron_err *err);

/* ---- what became of it ----------------------------------------------------------------------- */

/* X(NAME, "text") */
#define IOP_VERDICTS(X)                                                                            \
    X(ACCEPTED, "accepted")                                                                        \
    X(DUPLICATE, "duplicate")                                                                      \
    X(CHALLENGE, "challenge")                                                                      \
    X(REFUSED, "refused")
enum iop_verdict {
#define X(name, text) IOP_VERDICT_##name,
    IOP_VERDICTS(X)
#undef X
};

struct iop_record {
    enum iop_verdict verdict;
    struct iop_policy *policy;           /* borrowed */
    const struct iop_provider *provider; /* NULL: none of that name */
    const struct iop_delivery *delivery; /* NULL: its headers were not read */
    const struct ron_b3 *b3;             /* of the body; NULL: not verified */
    enum iop_error error;
    const char *label; /* why; a constant */
    struct ron_str corr_id;
    const char *addr; /* of the sender */
    uint64_t began_ns;
};
/* Counters, ring, audit, events. From any thread; never blocks. */
void iop_record(struct iop_svc *s, const struct iop_record *record);
void iop_deliveries_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_ring_new(struct iop_svc *s, struct ron_err *err);
void iop_ring_free(struct iop_svc *s);

/* ---- the audit trail ------------------------------------------------------------------------- */

/* Each tells one decision. From any thread; none blocks. */
void iop_trail_delivery(struct iop_svc *s, const struct iop_record *r, const char *verdict,
                        uint64_t took_us);
/* Before the reply is given away. `id` is NULL for what was refused. */
void iop_trail_put(struct iop_svc *s, const struct ron_http_reply *reply, enum iop_error error,
                   const struct ron_b3 *id);
void iop_trail_denied(struct iop_svc *s, struct ron_http_call *call, const char *scope,
                      enum iop_error error, const char *cap_id);
void iop_trail_action(struct iop_svc *s, const char *action, const char *result, const char *rule,
                      const char *corr_id, const char *provider, uint32_t attempt, int status);
void iop_trail_brownout(struct iop_svc *s, bool active, const char *cause);
void iop_trail_policy(struct iop_svc *s, bool good);
void iop_audit_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_trail_check(const struct ron_conf_snap *conf, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_trail_open(struct iop_svc *s, struct ron_err *err);

/* ---- the bridge ------------------------------------------------------------------------------ */

/* The end of a call to another service, or of the mailbox: metrics and the sentinel's evidence. */
void iop_upstream(struct iop_svc *s, const char *service, const char *op, bool good,
                  uint64_t took_ns);
/* Sentinel, watch and needs. */
RON_MUST_USE enum ron_rc iop_bridge_add(struct iop_svc *s, struct ron_err *err);

/* ---- actions --------------------------------------------------------------------------------- */

RON_MUST_USE enum ron_rc iop_actors_add(struct iop_svc *s, struct ron_err *err);
void iop_actors_free(struct iop_svc *s);
void iop_forward_enable_http(struct ron_http_call *call, void *arg);

/* ---- objects --------------------------------------------------------------------------------- */

struct iop_put;

/* An object that must be fetched from the disk. The head lives with the reply. */
struct iop_read {
    struct ron_http_reply *reply;
    const struct ron_http_head *head;
    struct ron_b3 id;
    bool proof; /* not the bytes alone: a slice that proves them */
    uint64_t proof_start;
    uint64_t proof_len;
    bool deep; /* the bucket is asked, too */
};

void iop_object_http(struct ron_http_call *call, void *arg);
void iop_put_http(struct ron_http_call *call, void *arg);
/* What `proof` of the query asks for. RON_NOTFOUND: nothing; RON_INVALID: something else. */
RON_MUST_USE enum ron_rc iop_proof_query(struct ron_str query, uint64_t *ret_start,
                                         uint64_t *ret_len);
/* Answers with the slice. Blocking. */
void iop_proof_answer(struct iop_svc *s, const struct iop_read *r, struct ron_cas_obj *take_obj);
RON_MUST_USE enum ron_rc iop_proofs_new(struct iop_svc *s, struct ron_err *err);
void iop_proofs_free(struct iop_svc *s);
/* Each frees its argument and answers. */
void iop_read_drop(struct iop_svc *s, struct iop_read *take_read, enum iop_error error);
void iop_put_drop(struct iop_svc *s, struct iop_put *take_put, enum iop_error error);
RON_MUST_USE enum ron_rc iop_readers_add(struct iop_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_uploads_add(struct iop_svc *s, struct ron_err *err);

/* ---- the mailbox over HTTP ------------------------------------------------------------------- */

void iop_box_batch_http(struct ron_http_call *call, void *arg);
void iop_box_switch_http(struct ron_http_call *call, void *arg);
void iop_box_topics_http(struct ron_http_call *call, void *arg);
void iop_box_stats_http(struct ron_http_call *call, void *arg);
void iop_box_send_http(struct ron_http_call *call, void *arg);
void iop_box_recv_http(struct ron_http_call *call, void *arg);
void iop_box_ack_http(struct ron_http_call *call, void *arg);
void iop_box_nack_http(struct ron_http_call *call, void *arg);
void iop_box_dead_http(struct ron_http_call *call, void *arg);
void iop_box_replay_http(struct ron_http_call *call, void *arg);
void iop_box_purge_http(struct ron_http_call *call, void *arg);

/* ---- answers --------------------------------------------------------------------------------- */

void iop_fail(struct ron_http_call *call, enum iop_error error, const char *detail);
void iop_reply_fail(struct ron_http_reply *take_reply, enum iop_error error, const char *detail);
/* Whether the call's capability covers `scope`; false: it has been answered. `ret_until_ms` may be
 * NULL. */
bool iop_allowed(struct iop_svc *s, struct ron_http_call *call, const char *scope,
                 uint64_t *ret_until_ms);
/* Whether bridges take requests now; false: it has been answered. */
bool iop_bridge_open(struct iop_svc *s, struct ron_http_call *call);

/* ---- events ---------------------------------------------------------------------------------- */

/* X(NAME, "topic"), as the specification has them. */
#define IOP_NOTICES(X)                                                                             \
    X(WEBHOOK, "interop.webhook.accepted.v1")                                                      \
    X(PUT, "interop.put.accepted.v1")                                                              \
    X(DEDUP, "interop.dedup.v1")                                                                   \
    X(BROWNOUT, "interop.bridge.brownout.v1")

enum iop_notice_kind {
#define X(name, topic) IOP_NOTICE_##name,
    IOP_NOTICES(X)
#undef X
        IOP_NOTICE_COUNT
};

struct iop_notice {
    uint8_t kind;
    bool active; /* of a brownout */
    uint64_t ts_ms;
    char provider[64];
    char b3[68];
    char corr_id[65];
    char reason[32];
};

/* Never waits. */
void iop_tell(struct iop_svc *s, const struct iop_notice *notice);
void iop_events_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_events_add(struct iop_svc *s, struct ron_err *err);

/* ---- metrics --------------------------------------------------------------------------------- */

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define IOP_METRICS(X)                                                                             \
    X(VERIFY, COUNTER, ONE, "webhook_verify_total", "provider,result",                             \
      "Deliveries whose signature was looked at: ok or fail.")                                     \
    X(CHUNKS, COUNTER, ONE, "stream_chunks_total", "route",                                        \
      "Pieces of bodies that were streamed.")                                                      \
    X(DEDUP, COUNTER, ONE, "interop_dedup_rejects_total", "provider",                              \
      "Deliveries that were taken before and had no second effect.")                               \
    X(SEEN, GAUGE, ONE, "interop_dedup_keys", "", "Keys of deliveries that are remembered now.")   \
    X(SEEN_MAX, GAUGE, ONE, "interop_dedup_keys_max", "", "As many may be: dedup.max_keys.")       \
    X(SEEN_EVICTED, COUNTER, ONE, "interop_dedup_evicted_total", "",                               \
      "Keys that made room for newer ones before dedup.ttl was over.")                             \
    X(SEEN_REFUSED, COUNTER, ONE, "interop_dedup_refused_total", "",                               \
      "Times that a new key was refused because all that are remembered are too young to go.")     \
    X(RULES, COUNTER, ONE, "interop_rule_actions_total", "action",                                 \
      "Actions that rules asked for: mailbox, forward, wallet, or fault.")                         \
    X(ACTS, COUNTER, ONE, "interop_actions_total", "action,result",                                \
      "Attempts of actions, by what came of them: done, retry, dead, disabled.")                   \
    X(CAPS, COUNTER, ONE, "capabilities_issued_total", "scope",                                    \
      "Capabilities made for one action each.")                                                    \
    X(RPC, HISTOGRAM, NS, "upstream_rpc_seconds", "service,op,outcome",                            \
      "Calls to other services and to the mailbox: ok or fail.")                                   \
    X(AUDIT, COUNTER, ONE, "audit_emitted_total", "sink", "Records written to the audit's sink.")  \
    X(AUDIT_DROP, COUNTER, ONE, "audit_drop_total", "",                                            \
      "Records of the audit that were lost: the oldest when the queue was full, or not writable.") \
    X(BROWNOUT, GAUGE, ONE, "brownout_active", "component", "1 while bridges give way.")           \
    X(BOX_GROUPS, COUNTER, ONE, "mailbox_groups_total", "", "Transactions of the mailbox.")        \
    X(BOX_OPS, COUNTER, ONE, "mailbox_ops_total", "op", "Messages by what happened to them.")      \
    X(BOX_MESSAGES, GAUGE, ONE, "mailbox_messages", "state", "Messages now: all, and dead ones.")  \
    X(BOX_BYTES, GAUGE, ONE, "mailbox_bytes", "", "Bytes of all messages.")                        \
    X(BOX_TOPICS, GAUGE, ONE, "mailbox_topics", "", "Topics now; as many as mailbox.topics may be.")

enum iop_metric_id {
#define X(id, type, unit, name, labels, help) IOP_M_##id,
    IOP_METRICS(X)
#undef X
        IOP_M_COUNT
};

RON_MUST_USE enum ron_rc iop_metrics_new(struct iop_svc *s, struct ron_err *err);
void iop_metrics_free(struct iop_svc *s);
void iop_count_of(struct iop_svc *s, int metric, const char *label, uint64_t n);
void iop_count_action(struct iop_svc *s, const struct iop_action *action);
void iop_count_act(struct iop_svc *s, const char *action, const char *result);
void iop_observe_rpc(struct iop_svc *s, const char *service, const char *op, bool good,
                     uint64_t took_ns);
void iop_set_brownout(struct iop_svc *s, bool active);
/* Makes the series of its providers. */
void iop_policy_series(struct iop_svc *s, struct iop_policy *policy);

/* ---- the service ----------------------------------------------------------------------------- */

struct iop_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool amnesia;

    struct ron_app_auth *auth;
    struct ron_app_tokens wallet_token;
    struct ron_app_tokens mailbox_token;
    struct ron_app_tokens storage_token;
    struct iop_policy_box policy;
    struct ron_need *need_policy;
    struct ron_need *need_queues;
    struct ron_need *need_store;
    struct ron_need *need_mailbox;
    struct ron_need *need_passport;
    struct ron_need *need_brownout;

    struct ron_mutex pool_mu; /* guards the pool of jobs */
    struct iop_job *jobs_idle;
    uint32_t jobs_out;
    uint32_t jobs_max;

    struct iop_box_local *local; /* the embedded mailbox; NULL: it is another service's */
    struct iop_box *box;
    struct iop_seen *seen;       /* of the embedded one */
    struct iop_op box_probe;     /* asks a mailbox elsewhere that failed */
    struct ron_stat box_probing; /* 1: it is on its way */
    struct ron_stat storage_broken;
    struct ron_stat storage_probing;
    struct iop_ring *ring;
    struct iop_audit *audit;

    struct ron_mutex brownout_mu; /* guards `brownout` */
    struct iop_brownout brownout;
    struct ron_watch *bridge; /* 1: bridges give way */
    uint64_t next_tick_ms;
    uint64_t tick_ms;

    struct iop_upstreams up;
    struct iop_actor *actors;
    uint32_t actor_count;

    bool reads_open; /* /o without a capability */
    struct ron_cas *store;
    struct iop_proofs *proofs;
    struct ron_ops_cas cas_metrics;
    struct ron_tier *tier;     /* NULL: there is no bucket behind the store */
    struct ron_chan *s3_reads; /* with a tier only */
    char s3_reader_names[IOP_FETCHES_MAX][24];
    struct ron_chan *work;
    struct ron_chan *reads;
    struct ron_chan *uploads;
    char reader_names[IOP_READERS_REMOTE][24];
    char upload_names[IOP_UPLOADS_MAX][24];
    struct iop_worker *workers;
    char worker_names[IOP_WORKERS_MAX][24];
    struct ron_http_events *events;
    struct iop_metrics *metrics;
    struct ron_http_route routes[IOP_ROUTES_MAX];
    size_t route_count;
};

void iop_routes_fill(struct iop_svc *s);
