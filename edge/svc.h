/* SPDX-License-Identifier: Apache-2.0 */
/* edge/svc.h - the running edge: tasks and channels around the plain parts. Private to the files of
 * the service (svc.c, serve/routes.c, answer/reply.c, serve/reader.c, serve/packs.c and their
 * like).
 *
 *     http --hit--> answer, on the loop: packs and files that are in memory or open
 *      |
 *      +--reads(512)--> reader-N: what needs the disk first, then the same answer
 *      |          +--s3_reads--> s3-reader-N: what the bucket may have
 *     verifier: opens and checks packs at the start and after a reload, then swaps them in
 *
 * Stage of a drain: readers and verifier 1.
 *
 * Ownership: a message belongs to who took it from its channel. A reply travels with its request
 * and is answered by who ends it. */
#pragma once

#include "edge/answer/error.h"
#include "edge/conf.h"
#include "edge/files/files.h"
#include "edge/fill/origins.h"
#include "edge/pack/pack.h"
#include "edge/stored/table.h"
#include "ron/app/auth.h"
#include "ron/http/ops.h"
#include "ron/http/select.h"
#include "ron/obs/health.h"

enum {
    EDG_READERS_MAX = 64,
    EDG_PACKS_MAX = 65, /* 64 of the settings, and that of the demo */
    EDG_FILLERS_MAX = 64,
    EDG_LATE_MS = 50, /* before its deadline a request hears that its fill goes on */
    EDG_FETCHES_MAX = 64,
    EDG_WAITERS_MAX = 4096, /* of one fill; inflight bounds them before */
    EDG_ROUTES_MAX = 32,
};

struct edg_svc;
struct edg_demo;
struct edg_metrics;
struct edg_gateway;
struct edg_shared;

/* ---- what is answered ------------------------------------------------------------------------ */

/* X(NAME, "label") */
#define EDG_SOURCES(X)                                                                             \
    X(PACK, "pack")                                                                                \
    X(FILE, "file")                                                                                \
    X(CAS, "cas")                                                                                  \
    X(GATEWAY, "gateway")

enum edg_source {
#define X(name, label) EDG_FROM_##name,
    EDG_SOURCES(X)
#undef X
        EDG_SOURCE_COUNT
};

/* A representation with its bytes. `blob.release` is called exactly once, whatever happens. */
struct edg_content {
    struct ron_http_blob blob; /* the whole */
    char tag[EDG_TAG_LEN + 1];
    uint64_t mtime_s; /* RON_HTTP_NO_MTIME: none */
    const char *type;
    const char *encoding;      /* NULL: identity */
    const char *cache_control; /* NULL or "": none */
    bool vary_encoding;
    enum edg_source source;
    const struct edg_extra *extra; /* NULL: none */
};

/* What a stored answer adds to its bytes. */
struct edg_extra {
    const struct edg_stored *stored;
    uint64_t age_s;
    struct edg_status status;
};

/* Where an answer goes: to the call of a handler or to a reply. */
struct edg_out {
    struct edg_svc *s;
    struct ron_http_call *call;   /* one of the two */
    struct ron_http_reply *reply; /* given away by the answer */
    const struct ron_http_head *head;
    bool stored; /* the answer is an origin's: what pages may do with it is its own matter */
};

/* Answers with the content as conditions and ranges ask for; takes the blob. */
void edg_answer(struct edg_out *out, const struct edg_content *take_content);
/* Several ranges of it (answer/parts.c): to a reader, and there. Both take the content. */
void edg_parts_submit(struct edg_out *out, const struct edg_content *take_content);
void edg_parts_answer(struct edg_out *out, const struct edg_content *take_content,
                      const struct ron_http_selection *selection);
/* Whether the request is for several ranges, and those are wanted. */
bool edg_parts_asked(const struct edg_out *out);
/* The same of an object; without a reply its bytes must lie in one piece. */
void edg_answer_object(struct edg_out *out, struct ron_cas_obj *take_obj,
                       const struct edg_extra *extra);
/* Whether they do. */
bool edg_object_is_plain(const struct ron_cas_obj *obj);
void edg_fail(struct edg_out *out, enum edg_error error);
/* ron_http_refusal of the listener, with the edg_svc. */
void edg_refusal(void *arg, struct ron_http_call *call, const struct ron_http_head *head,
                 const struct ron_http_error *error);
void edg_answer_text(struct edg_out *out, int status, const char *type, const struct ron_buf *body);
void edg_answer_empty(struct edg_out *out, int status);
/* What browsers are told besides the answer: no referrer, TLS only, and Access-Control-* with
 * Vary: Origin when the request's Origin is allowed. Once for each answer. */
void edg_add_site(struct edg_out *out);
/* The same for OPTIONS: which methods and headers it may use. */
void edg_add_preflight(struct edg_out *out);

/* ---- what needs the disk --------------------------------------------------------------------- */

enum edg_read_kind {
    EDG_READ_FILE,
    EDG_READ_FILE_CHECK, /* no reply: looks whether a file is still the same */
    EDG_READ_TILE,
    EDG_READ_OBJECT, /* by its id */
    EDG_READ_STORED, /* the object of a stored answer */
    EDG_READ_PARTS,  /* open already; several ranges of it are written piece by piece */
    EDG_READ_PURGE,  /* forget a path, a prefix, or without one the object `id` */
};

struct edg_read {
    enum edg_read_kind kind;
    struct ron_http_reply *reply;
    const struct ron_http_head *head; /* lives with the reply */
    struct edg_pack *pack;            /* a reference */
    uint64_t z, x, y;
    struct ron_b3 id;
    const struct edg_stored *stored; /* a reference */
    struct edg_status status;        /* of it, for Cache-Status */
    struct edg_content content;      /* of PARTS */
    struct edg_extra extra;          /* of it, with a reference in `stored` */
    bool prefix;                     /* PURGE: all that begin so */
    bool deep;                       /* OBJECT, STORED: the bucket is asked, too */
    char path[];                     /* of a file, or to be purged */
};

struct edg_read *edg_read_new(enum edg_read_kind kind, const char *path); /* NULL: no memory */
/* To a reader, or refused; takes the read, which may be NULL. It is answered in any case. */
void edg_read_submit(struct edg_out *out, struct edg_read *take_read);
/* The work of a reader; takes the read. */
void edg_read_take(struct edg_svc *s, struct edg_read *take_read);
/* Frees it; answers if there is somebody to answer. */
void edg_read_drop(struct edg_svc *s, struct edg_read *take_read, enum edg_error error);
RON_MUST_USE enum ron_rc edg_readers_add(struct edg_svc *s, struct ron_err *err);
/* Readers of the bucket with their queue; nothing without a tier. */
RON_MUST_USE enum ron_rc edg_s3_readers_add(struct edg_svc *s, struct ron_err *err);

/* From open things to what is answered; each takes its handle. */
struct edg_content edg_content_of_file(struct edg_svc *s, const struct edg_file *take_file);
struct edg_content edg_content_of_tile(struct edg_svc *s, const struct edg_tile *take_tile);
/* Whether the client takes a tile in the coding in which it is stored. */
bool edg_takes_tile(const struct ron_http_head *head, const struct edg_tile *tile);
void edg_tag_of(const struct ron_b3 *id, char ret_tag[EDG_TAG_LEN + 1]);
/* A tile that is not there. */
void edg_answer_no_tile(struct edg_out *out, const struct edg_pack *pack);

/* ---- live fill ------------------------------------------------------------------------------- */

/* One who waits for a fill. */
struct edg_waiter {
    struct edg_waiter *next;
    struct ron_http_reply *reply;
    const struct ron_http_head *head; /* lives with the reply */
};

/* What is to be filled. */
struct edg_want {
    uint32_t origin;
    struct ron_str target;
    const struct edg_stored *stale; /* to be asked for anew; may be NULL */
    struct edg_fields request;      /* of a gateway's client, all of it */
    enum edg_fwd fwd;               /* why, for Cache-Status */
    bool alone;                     /* conditions or a range of one client: nobody joins it */
    bool shared;                    /* what another edge put into the bucket will do */
};

/* A fill that is wanted, queued or under way: of those that may be joined at most one for a target
 * of an origin. */
struct edg_fill {
    struct ron_list_node link;  /* linked until its waiters are taken */
    struct edg_want want;       /* a copy, in the same block; with a reference to `stale` */
    bool spoiled;               /* purged or written to meanwhile: not joined, not kept */
    uint8_t tries;              /* workers that failed with it */
    struct ron_trace_from from; /* the request that began it */
    uint32_t waiter_count;
    struct edg_waiter *waiters;
    struct ron_deadline deadline;
    struct ron_http_field fields[]; /* of the request, then its texts and the target */
};

struct edg_fills {
    struct ron_mutex mu; /* guards the list and every fill that is in it */
    struct ron_list list;
    uint32_t count;
};

/* GET /edge/assets/o/ORIGIN/PATH. */
void edg_live(struct edg_out *out, struct ron_str origin, struct ron_str path);
/* The request waits for the fill, which it joins or begins, or is refused. */
void edg_fill_wait(struct edg_out *out, const struct edg_want *want);
void edg_fill_late(struct ron_http_call *call, void *arg);
/* Clears the state of a full queue once half of it is free: nobody is refused for a while. */
void edg_fills_calm(struct edg_svc *s);
/* A fill that nobody waits for. Full: the next request asks again. */
void edg_fill_behind(struct edg_svc *s, const struct edg_want *want);
/* Fills under way of a target are neither joined nor kept from now on. */
void edg_fills_spoil(struct edg_svc *s, uint32_t origin, struct ron_str target);
/* The same of a path, whatever the host, or with `prefix` of all that begin so. */
void edg_fills_spoil_path(struct edg_svc *s, uint32_t origin, struct ron_str path, bool prefix);
bool edg_fill_spoiled(struct edg_svc *s, const struct edg_fill *f);
/* The fill leaves the list, and its waiters, the first first, are the caller's. */
struct edg_waiter *edg_fill_end(struct edg_svc *s, struct edg_fill *f);
void edg_fill_free(struct edg_fill *f);
RON_MUST_USE enum ron_rc edg_fills_add(struct edg_svc *s, struct ron_err *err);
/* A fill that nobody will do: its waiters are answered. */
void edg_fill_drop(struct edg_svc *s, struct edg_fill *take_fill, enum edg_error error);
void edg_fills_free(struct edg_svc *s);
/* The worker's own. */
struct edg_filler {
    struct edg_svc *s;
    struct edg_pipe pipe;
    struct edg_fetched fetched;
    int status; /* of the answer, noted by the sink of a gateway's call; 0: not yet */
};
/* The record of an answer, with a reference, or NULL; `like` has what is not of the fields.
 * *ret_keep: whether it has a key by which it can be found again. */
const struct edg_stored *edg_record_make(struct edg_svc *s, struct edg_stored like,
                                         struct edg_fields request, struct edg_fields fields,
                                         bool *ret_keep);
/* Serves a stored answer, from the loop or by a reader; takes the reference. False: its bytes are
 * gone, and nothing was answered. */
bool edg_serve_stored(struct edg_out *out, const struct edg_stored *take_stored,
                      const struct edg_status *status);

/* Asks anew for an answer whose bytes are gone; takes the reference. */
void edg_refill(struct edg_out *out, const struct edg_stored *take_stored);
/* To a reader: its bytes must be opened first. Takes the reference. */
void edg_submit_stored(struct edg_out *out, const struct edg_stored *take_stored,
                       const struct edg_status *status);

/* ---- purge ----------------------------------------------------------------------------------- */

/* Appends its route; how many there are then. */
size_t edg_purge_routes(struct edg_svc *s, struct ron_http_route *rows, size_t count);
/* The work, on a reader. */
void edg_purge(struct edg_svc *s, const struct edg_read *r, struct edg_out *out);

/* ---- packs ----------------------------------------------------------------------------------- */

/* The packs of one configuration; immutable once it is in force. */
struct edg_pack_set {
    size_t count;
    struct edg_pack *packs[EDG_PACKS_MAX];
    size_t bad_count; /* those that cannot be served */
    char bad[EDG_PACKS_MAX][EDG_PACK_NAME_MAX + 1];
};

/* The pack of that name with a reference, or NULL and why not. Never blocks. */
struct edg_pack *edg_packs_get(struct edg_svc *s, struct ron_str name, enum edg_error *ret_error);
/* All of them, each with a reference; returns how many. */
size_t edg_packs_list(struct edg_svc *s, struct edg_pack *ret_packs[EDG_PACKS_MAX]);
/* Adds the verifier; the packs come with its first turn. */
RON_MUST_USE enum ron_rc edg_packs_add(struct edg_svc *s, struct ron_err *err);
/* NAME=FILE; RON_INVALID says what is wrong. */
RON_MUST_USE enum ron_rc edg_packs_check(const struct ron_conf_snap *conf, struct ron_err *err);
void edg_packs_reload(struct edg_svc *s);
void edg_packs_free(struct edg_svc *s);

/* ---- events ---------------------------------------------------------------------------------- */

/* One thing that happened; `what` is a constant. */
struct edg_event {
    bool fill; /* of an origin; else of a pack */
    uint32_t status;
    uint64_t bytes;
    uint64_t ts_ms; /* these two: filled in when it is told */
    char name[EDG_PACK_NAME_MAX + 1];
    const char *what;
};

RON_MUST_USE enum ron_rc edg_events_add(struct edg_svc *s, struct ron_err *err);
void edg_events_free(struct edg_svc *s);
/* Any thread; never waits. */
void edg_events_tell(struct edg_svc *s, const struct edg_event *event, const char *name);
void edg_events_http(struct ron_http_call *call, void *arg);

/* ---- metrics --------------------------------------------------------------------------------- */

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define EDG_METRICS(X)                                                                             \
    X(REJECTS, COUNTER, ONE, "edge_rejects_total", "reason", "Requests refused, by reason.")       \
    X(HITS, COUNTER, ONE, "edge_cache_hits_total", "kind,range",                                   \
      "Answers from a pack or a file; range: hit for a part, miss for the whole.")                 \
    X(MISSES, COUNTER, ONE, "edge_cache_misses_total", "cause",                                    \
      "Requests that had to wait for the disk or found nothing.")                                  \
    X(RANGES, COUNTER, ONE, "edge_range_requests_total", "result",                                 \
      "Requests with a range, by status: 206 or 416.")                                             \
    X(BYTES_OUT, COUNTER, ONE, "edge_bytes_out_total", "kind", "Bytes of bodies that were lent.")  \
    X(FILL_ATTEMPTS, COUNTER, ONE, "edge_live_fill_attempts_total", "host",                        \
      "Live fills begun, by origin.")                                                              \
    X(FILL_SUCCESS, COUNTER, ONE, "edge_live_fill_success_total", "host",                          \
      "Live fills that brought or confirmed bytes.")                                               \
    X(FILL_LATENCY, HISTOGRAM, NS, "fill_latency_seconds", "", "Time of live fills.")              \
    X(CAS_WRITES, COUNTER, ONE, "edge_cas_writes_total", "status",                                 \
      "Objects written by fills: ok or error.")                                                    \
    X(COLLAPSED, COUNTER, ONE, "edge_fill_collapsed_total", "",                                    \
      "Requests that shared the fill of another.")                                                 \
    X(FILL_LATE, COUNTER, ONE, "edge_fill_late_total", "",                                         \
      "Requests answered 202: their time was over and their fill goes on.")                        \
    X(PURGES, COUNTER, ONE, "edge_purges_total", "kind",                                           \
      "Purges, by what was named: path, prefix or id.")                                            \
    X(SHARED, COUNTER, ONE, "edge_shared_records_total", "result",                                 \
      "Records of the bucket: found, absent, stale, purged, bad, failed; told, untold.")           \
    X(PACKS, GAUGE, ONE, "edge_packs", "state", "Packs that are served, and that failed.")         \
    X(PACK_LOADS, COUNTER, ONE, "edge_pack_loads_total", "result",                                 \
      "Packs opened and verified, by result.")                                                     \
    X(FILES_OPEN, GAUGE, ONE, "edge_files_open", "", "Files in the table of open files.")          \
    X(FILES_BYTES, GAUGE, ONE, "edge_files_memory_bytes", "", "Memory of small files.")

enum edg_metric_id {
#define X(id, type, unit, name, labels, help) EDG_M_##id,
    EDG_METRICS(X)
#undef X
        EDG_M_COUNT
};

RON_MUST_USE enum ron_rc edg_metrics_new(struct edg_svc *s, struct ron_err *err);
void edg_metrics_free(struct edg_svc *s);
void edg_count_of(struct edg_svc *s, int metric, const char *label, uint64_t n);
/* A fill that found no room in `work`. */
/* On every answer: without a lookup. */
void edg_count_hit(struct edg_svc *s, enum edg_source source, bool range, uint64_t bytes);
void edg_count(struct edg_svc *s, int metric, uint64_t n);
void edg_observe(struct edg_svc *s, int metric, uint64_t ns);
void edg_set_of(struct edg_svc *s, int metric, const char *label, uint64_t value);

/* ---- the service ----------------------------------------------------------------------------- */

struct edg_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool tile_204;
    bool hsts; /* security.hsts, and the listener speaks TLS */
    bool multipart;
    const char *cache_control;

    struct edg_files *files;   /* NULL: none are served */
    struct ron_app_auth *auth; /* NULL: nobody may purge */
    bool amnesia;
    struct ron_cas *store; /* NULL: there are neither origins nor a bucket */
    struct ron_ops_cas cas_metrics;
    struct ron_tier *tier;     /* NULL: there is no bucket behind the store */
    struct ron_chan *s3_reads; /* with a tier only */
    char s3_reader_names[EDG_FETCHES_MAX][24];
    struct edg_shared *shared;
    struct edg_table *stored;
    bool index_taken; /* the file is gone: what is in the table must be written */
    struct edg_origins origins;
    struct edg_fills fills;
    struct ron_http_late late_fill; /* what is said to whom a fill comes too late */
    struct edg_gateway *gateway;    /* NULL: there is none */
    struct ron_chan *work;
    struct edg_filler *fillers;
    char filler_names[EDG_FILLERS_MAX][24];
    struct edg_pack_cache *pack_cache;
    struct ron_mutex packs_mu; /* guards `packs` */
    struct edg_pack_set *packs;
    struct ron_task *verifier;
    const char *verified; /* the pack that is being verified, of the verifier alone */
    uint64_t verified_percent;
    uint64_t verified_told_ms;
    struct ron_chan *reloads; /* wishes to look at the packs again */
    struct ron_need *need_packs;
    struct ron_need *need_fill; /* degraded from a full queue until half of it is free */

    struct edg_demo *demo;          /* NULL: none */
    struct ron_http_events *events; /* NULL: nobody is told */
    struct ron_chan *reads;
    struct edg_metrics *metrics;
    char reader_names[EDG_READERS_MAX][24];
    struct ron_http_route routes[EDG_ROUTES_MAX];
    size_t route_count;
};

void edg_routes_fill(struct edg_svc *s);
