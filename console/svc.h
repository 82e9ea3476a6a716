/* SPDX-License-Identifier: Apache-2.0 */
/* console/svc.h - the running console: tasks and channels around the plain parts. Private to the
 * files of the service (svc.c, front.c, pass.c, live.c, upstream.c, metrics.c).
 *
 *     browser --> http --> files, sessions: answered at once
 *                  |--> pass: an allowed call --upstream--> service --> the same answer
 *                  '--> live: joins the bus `live` <-- poller <--upstream-- /readyz, /metrics
 *
 * One poll serves all browsers. Stage of a drain: live 1, poller 2, upstream 3.
 *
 * Ownership: a reply travels with its call (struct con_call) and is answered by who ends it. */
#pragma once

#include "console/assets.h"
#include "console/conf.h"
#include "console/error.h"
#include "console/sample.h"
#include "console/sess.h"
#include "ron/app/auth.h"
#include "ron/http/client.h"
#include "ron/http/events.h"
#include "ron/sync/sync.h"

enum {
    CON_ROUTES_MAX = 59,  /* what the server has room for besides the ops routes */
    CON_HISTORY = 120,    /* points kept of each service: two minutes while watched */
    CON_CAUSES_MAX = 480, /* bytes of the causes that are told */
    CON_STREAMS_MAX = 64, /* browsers that watch */
    CON_URL_MAX = 4608,   /* base and target */
    CON_TOPOLOGY_MAX = 1 << 20,
};

struct con_svc;
struct con_metrics;

/* ---- services -------------------------------------------------------------------------------- */

/* X(NAME, "text", "meaning") */
#define CON_STATES(X)                                                                              \
    X(UNKNOWN, "unknown", "not asked yet")                                                         \
    X(READY, "ready", "it is ready")                                                               \
    X(DEGRADED, "degraded", "ready, but something is not as it should be")                         \
    X(NOT_READY, "not_ready", "it answers and says that it is not ready")                          \
    X(DOWN, "down", "it does not answer")

enum con_state {
#define X(name, text, doc) CON_STATE_##name,
    CON_STATES(X)
#undef X
        CON_STATE_COUNT
};
const char *con_state_name(enum con_state state);

/* What everybody may see of a service: copied under con_svc.mu. */
struct con_view {
    enum con_state state;
    uint64_t since_ms;               /* when it took that state; wall clock */
    char causes[CON_CAUSES_MAX + 1]; /* a JSON object: need -> cause */
    struct con_count count;          /* the latest */
    uint32_t point_count;
    uint32_t point_next;
    struct con_point points[CON_HISTORY]; /* a ring */
};

/* The last topology that was asked for, shared by all who look. */
struct con_shared {
    uint64_t at_ms; /* monotonic; 0: none */
    struct ron_buf body;
};

struct con_upstream {
    const char *url; /* NULL: this console has no such service */
    struct ron_http_target *target;
    bool has_token;
    struct ron_app_tokens token;
    bool has_write_token;
    struct ron_app_tokens write_token;
    struct ron_au32 asked; /* calls of the present look that have not ended */
    /* Written by the task of the HTTP client alone. */
    enum con_state found;
    char found_causes[CON_CAUSES_MAX + 1];
    struct con_count now;
    struct con_count before;
    uint64_t before_ms;
    /* Guarded by con_svc.mu. */
    struct con_view view;
    struct con_shared topology;
};

enum con_ask_kind { CON_ASK_READY, CON_ASK_METRICS, CON_ASK_COUNT };

/* What a call of a look is about. */
struct con_ask {
    struct con_svc *s;
    enum con_service svc;
    enum con_ask_kind kind;
};

RON_MUST_USE enum ron_rc con_upstreams_check(const struct ron_conf_snap *conf, struct ron_err *err);
RON_MUST_USE enum ron_rc con_upstreams_open(struct con_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc con_upstreams_attach(struct con_svc *s, struct ron_err *err);
void con_upstreams_reload(struct con_svc *s, const struct ron_conf_snap *conf);
void con_upstreams_close(struct con_svc *s);

/* ---- answers --------------------------------------------------------------------------------- */

void con_fail(struct con_svc *s, struct ron_http_call *call, enum con_error error);
void con_reply_fail(struct con_svc *s, struct ron_http_reply *take_reply, enum con_error error);
void con_answer_json(struct ron_http_call *call, int status, const struct ron_buf *body);

/* ---- who may --------------------------------------------------------------------------------- */

/* Whether the call belongs to a session; answers when not. */
bool con_session(struct con_svc *s, struct ron_http_call *call, enum con_role *ret_role,
                 uint64_t *ret_until_ms);
/* The same for a write: an operator's session, asked by a page of ours (C-CSRF: the header that no
 * form and no other site can send, and Origin and Sec-Fetch-Site where the browser tells them). */
bool con_session_write(struct con_svc *s, struct ron_http_call *call);
/* Whether a request was made by a page of this very origin. */
bool con_same_origin(const struct ron_http_head *head, bool tls);

/* ---- passing calls on ------------------------------------------------------------------------ */

/* Whether no segment of the path stands for another folder ("." or "..", however encoded). */
bool con_path_plain(struct ron_str path);
/* Adds one route for each row of the allow-list. */
void con_pass_routes(struct con_svc *s);
/* GET /api/topology/{service}: /debug/topology, fetched at most once in con.poll for all. */
void con_topology(struct ron_http_call *call, void *arg);

/* ---- live ------------------------------------------------------------------------------------ */

RON_MUST_USE enum ron_rc con_live_add(struct con_svc *s, struct ron_err *err);
void con_live_free(struct con_svc *s);
void con_live_http(struct ron_http_call *call, void *arg);     /* GET /api/live */
void con_overview_http(struct ron_http_call *call, void *arg); /* GET /api/overview */

/* ---- metrics --------------------------------------------------------------------------------- */

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define CON_METRICS(X)                                                                             \
    X(LINKS, COUNTER, ONE, "console_links_total", "result",                                        \
      "One-time links: made, opened, refused.")                                                    \
    X(SESSIONS, GAUGE, ONE, "console_sessions", "", "Sessions that are open.")                     \
    X(POLLS, COUNTER, ONE, "console_polls_total", "svc,result",                                    \
      "Looks at a service: ready, degraded, not_ready, down.")                                     \
    X(CALLS, COUNTER, ONE, "console_calls_total", "svc,kind",                                      \
      "Calls passed on for a browser: read, write, shared.")                                       \
    X(REJECTS, COUNTER, ONE, "console_rejects_total", "reason", "Requests refused, by reason.")

enum con_metric_id {
#define X(id, type, unit, name, labels, help) CON_M_##id,
    CON_METRICS(X)
#undef X
        CON_M_COUNT
};

RON_MUST_USE enum ron_rc con_metrics_new(struct con_svc *s, struct ron_err *err);
void con_metrics_free(struct con_svc *s);
void con_count_of(struct con_svc *s, int metric, const char *label);
void con_count_two(struct con_svc *s, int metric, const char *first, const char *second);

/* ---- the service ----------------------------------------------------------------------------- */

struct con_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool tls;
    uint64_t poll_ms;
    struct con_assets assets;
    struct con_sess sess;
    struct ron_app_auth *auth;

    struct ron_http_client *client;
    struct con_upstream up[CON_SERVICE_COUNT];
    struct ron_mutex mu; /* guards the views and topologies */

    struct ron_http_events *live;
    struct con_ask asks[CON_SERVICE_COUNT][CON_ASK_COUNT];
    struct ron_task *poller;
    uint64_t last_look_ms; /* the poller's */
    struct con_metrics *metrics;
    struct ron_http_route routes[CON_ROUTES_MAX];
    size_t route_count;
};

void con_routes_fill(struct con_svc *s);
void con_route_add(struct con_svc *s, struct ron_http_route route);
