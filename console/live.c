/* SPDX-License-Identifier: Apache-2.0 */
/* console/live.c - looks at the services and tells all browsers what it saw.
 *
 * Place: service. The task `poller` asks each service for /readyz and /metrics, every console.poll
 * while somebody watches and a tenth as often while nobody does; one look serves everybody. The
 * answers are read on the task of the HTTP client, which all of them end on, so what is found of a
 * service has one writer. A view is swapped in under the lock, and told on the bus `live`.
 *
 * A service that has not answered the look before is not asked again until that has ended: its
 * deadline is console.call_timeout. */
#include <string.h>

#include "console/svc.h"
#include "ron/base/alloc.h"
#include "ron/base/clock.h"

enum {
    BUS_CAPACITY = 256, /* 50 s of five services at one look per second */
    EVENT_MAX = 1000,   /* below RON_HTTP_EVENT_BYTES_MAX */
    OVERVIEW_MAX = 1 << 20,
    UNWATCHED_TIMES = 10,
    METRICS_MAX = 1 << 20,
};

struct con_event {
    uint16_t len;
    char text[EVENT_MAX + 2];
};

static bool asked(const struct con_upstream *u)
{
    return ron_au32_load(&u->asked) != 0;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void point_json(struct ron_json_writer *j, const char *name, const struct con_point *p)
{
    ron_json_open(j, name, '[');
    ron_json_u64(j, NULL, p->t_ms);
    ron_json_u64(j, NULL, p->up);
#define X(field, text, unit) ron_json_u64(j, NULL, p->field);
    CON_COLUMNS(X)
#undef X
    ron_json_close(j, ']');
}

static const struct con_point *latest(const struct con_view *v)
{
    static const struct con_point none = {0};

    return v->point_count == 0 ? &none
                               : &v->points[(v->point_next + CON_HISTORY - 1) % CON_HISTORY];
}

/* Whole numbers as such; JSON has no others here. */
static void extra_json(struct ron_json_writer *j, const char *name, double value)
{
    ron_json_u64(j, name, value > 0 && value < 1.8e19 ? (uint64_t)value : 0);
}

/* The members of a service's latest state as JSON. */
static void view_json(struct ron_json_writer *j, enum con_service svc, const struct con_view *v)
{
    ron_json_text(j, "svc", con_service_name(svc));
    ron_json_text(j, "state", con_state_name(v->state));
    ron_json_u64(j, "since", v->since_ms);
    ron_json_raw(j, "causes",
                 (struct ron_str){v->causes[0] != '\0' ? v->causes : "{}",
                                  v->causes[0] != '\0' ? strlen(v->causes) : 2});
    point_json(j, "p", latest(v));
    ron_json_text(j, "fullest", v->count.fullest);
    extra_json(j, "restarts", v->count.restarts);
    ron_json_open(j, "breakers", '{');
    for (uint32_t i = 0; i < v->count.breaker_count; i++) {
        ron_json_u64(j, v->count.breakers[i].name, v->count.breakers[i].state);
    }
    ron_json_close(j, '}');
    ron_json_open(j, "x", '{');
    for (size_t i = 0; i < con_extra_count(svc); i++) {
        extra_json(j, con_extra_key(svc, i), v->count.extras[i]);
    }
    ron_json_close(j, '}');
}

static void tell(struct con_svc *s, enum con_service svc, struct con_view *v)
{
    struct con_event e;
    struct ron_json_writer j;
    struct ron_buf out;

    ron_buf_init_over(&out, e.text, sizeof e.text);
    for (int brief = 0; brief < 2; brief++) {
        ron_buf_clear(&out);
        RON_IGNORE(ron_buf_append_text(&out, "event: service\ndata: "));
        ron_json_begin(&j, &out);
        ron_json_open(&j, NULL, '{');
        view_json(&j, svc, v);
        ron_json_close(&j, '}');
        RON_IGNORE(ron_buf_append_text(&out, "\n\n"));
        if (ron_buf_error(&out) == RON_OK) {
            break;
        }
        v->causes[0] = '\0'; /* too long for an event: the overview has them */
        v->count.breaker_count = 0;
    }
    e.len = (uint16_t)ron_buf_len(&out);
    if (ron_buf_error(&out) == RON_OK) {
        ron_http_events_publish(s->live, &e);
    }
}

static bool write_event(struct ron_buf *out, const void *message, const char *topic)
{
    const struct con_event *e = message;

    (void)topic;
    RON_IGNORE(ron_buf_append(out, e->text, e->len));
    return true;
}

/* ---- what was found -------------------------------------------------------------------------- */

struct readiness {
    bool ready;
    bool degraded;
    struct ron_str causes;
    uint64_t present;
};

static const struct ron_json_field readiness_fields[] = {
    RON_JSON_FIELD(struct readiness, ready, BOOL, .required = true),
    RON_JSON_FIELD(struct readiness, degraded, BOOL, .required = false),
    RON_JSON_FIELD(struct readiness, causes, RAW, .required = false),
};

static void read_ready(struct con_upstream *u, const struct ron_http_fetch_result *r)
{
    static const struct ron_json_shape shape = {.fields = readiness_fields,
                                                .count = RON_ARRAY_LEN(readiness_fields),
                                                .present_offset =
                                                    offsetof(struct readiness, present),
                                                .allow_unknown = true};
    struct readiness found = {0};
    struct ron_json_error err;
    char text[4096];

    u->found = CON_STATE_DOWN;
    u->found_causes[0] = '\0';
    if ((r->status != 200 && r->status != 503) || r->body.len > sizeof text) {
        return;
    }
    memcpy(text, r->body.ptr, r->body.len);
    if (ron_json_scan(text, r->body.len, &shape, NULL, &found, &err) != RON_OK) {
        return;
    }
    u->found = !found.ready     ? CON_STATE_NOT_READY
               : found.degraded ? CON_STATE_DEGRADED
                                : CON_STATE_READY;
    if (found.causes.len > 0 && found.causes.len <= CON_CAUSES_MAX && found.causes.ptr[0] == '{') {
        memcpy(u->found_causes, found.causes.ptr, found.causes.len);
        u->found_causes[found.causes.len] = '\0';
    }
}

/* Both answers of a look are there. */
static void conclude(struct con_svc *s, enum con_service svc)
{
    struct con_upstream *u = &s->up[svc];
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    struct con_point p;
    struct con_view told;

    if (u->found == CON_STATE_DOWN) {
        u->now = (struct con_count){0};
    }
    p = con_point_of(&u->before, &u->now, now_ms - u->before_ms);
    p.t_ms = ron_env_wall_ms(s->env);
    u->before = u->now;
    u->before_ms = now_ms;
    con_count_two(s, CON_M_POLLS, con_service_name(svc), con_state_name(u->found));
    ron_mutex_lock(&s->mu);
    if (u->view.state != u->found) {
        u->view.state = u->found;
        u->view.since_ms = p.t_ms;
    }
    memcpy(u->view.causes, u->found_causes, sizeof u->view.causes);
    if (u->now.there) {
        u->view.count = u->now;
    }
    u->view.points[u->view.point_next] = p;
    u->view.point_next = (u->view.point_next + 1) % CON_HISTORY;
    u->view.point_count = RON_MIN(u->view.point_count + 1, (uint32_t)CON_HISTORY);
    told = u->view;
    ron_mutex_unlock(&s->mu);
    tell(s, svc, &told);
}

/* On the task of the HTTP client. */
static void done(struct ron_http_fetch *f, void *arg)
{
    const struct con_ask *ask = arg;
    struct con_svc *s = ask->s;
    struct con_upstream *u = &s->up[ask->svc];
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    bool over = r->reason == RON_HTTP_FETCH_CANCELLED;

    if (ask->kind == CON_ASK_READY) {
        read_ready(u, r);
    } else if (r->status == 200 && r->rc == RON_OK) {
        con_count_read(ask->svc, r->body, &u->now);
    } else {
        u->now = (struct con_count){0};
    }
    ron_http_fetch_release(f);
    if (ron_au32_add(&u->asked, UINT32_MAX) == 1 && !over) { /* minus one: the last of the look */
        conclude(s, ask->svc);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool ask_one(struct con_svc *s, enum con_service svc, enum con_ask_kind kind)
{
    static const char *const paths[] = {"/readyz", "/metrics"};
    struct con_upstream *u = &s->up[svc];
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};
    char url[512];
    struct ron_buf text;

    ron_buf_init_over(&text, url, sizeof url);
    RON_IGNORE(ron_buf_append_text(&text, u->url));
    RON_IGNORE(ron_buf_append_text(&text, paths[kind]));
    return ron_buf_error(&text) == RON_OK &&
           ron_http_fetch_start(u->target,
                                &(struct ron_http_fetch_opts){.method = RON_HTTP_GET,
                                                              .url = ron_buf_text(&text),
                                                              .response_max = METRICS_MAX,
                                                              .done = done,
                                                              .arg = &s->asks[svc][kind]},
                                &f, &err) == RON_OK;
}

static void look(struct con_svc *s)
{
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        struct con_upstream *u = &s->up[i];

        if (u->url == NULL || asked(u)) {
            continue;
        }
        ron_au32_store(&u->asked, CON_ASK_COUNT);
        for (int kind = 0; kind < CON_ASK_COUNT; kind++) {
            if (!ask_one(s, (enum con_service)i, (enum con_ask_kind)kind)) {
                (void)ron_au32_add(&u->asked, UINT32_MAX); /* the next look will try again */
            }
        }
    }
}

static enum ron_rc poller_start(struct ron_task *t, void *arg)
{
    struct con_svc *s = arg;

    s->last_look_ms = 0;
    ron_task_wake_at(t, ron_task_now_ms(t));
    return RON_OK;
}

static enum ron_rc poller_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct con_svc *s = arg;
    uint64_t now_ms = ron_task_now_ms(t);
    uint64_t every_ms = s->poll_ms * (ron_http_events_watched(s->live) ? 1 : UNWATCHED_TIMES);

    (void)items;
    (void)count;
    if (s->last_look_ms == 0 || now_ms >= s->last_look_ms + every_ms) {
        s->last_look_ms = now_ms;
        look(s);
    }
    ron_task_wake_at(t, s->last_look_ms + every_ms);
    return RON_OK;
}

/* ---- routes ---------------------------------------------------------------------------------- */

void con_live_http(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    enum con_role role;
    uint64_t until_ms;
    enum ron_rc rc;

    if (!con_session(s, call, &role, &until_ms)) {
        return;
    }
    rc = ron_http_events_join(s->live, call, (struct ron_str){0}, until_ms);
    if (rc != RON_OK) {
        con_fail(s, call, rc == RON_CLOSED ? CON_ERROR_DRAINING : CON_ERROR_BUSY);
        return;
    }
    ron_task_wake(s->poller); /* nobody may have watched before */
}

static void history_json(struct ron_json_writer *j, const struct con_view *v)
{
    uint32_t at = (v->point_next + CON_HISTORY - v->point_count) % CON_HISTORY;

    ron_json_open(j, "history", '[');
    for (uint32_t i = 0; i < v->point_count; i++) {
        point_json(j, NULL, &v->points[(at + i) % CON_HISTORY]);
    }
    ron_json_close(j, ']');
}

static void write_overview(struct con_svc *s, struct ron_buf *out)
{
    struct con_view *v = ron_alloc(sizeof *v);
    struct ron_json_writer j;

    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_u64(&j, "now", ron_env_wall_ms(s->env));
    ron_json_u64(&j, "poll_ms", s->poll_ms);
    ron_json_open(&j, "columns", '[');
    ron_json_text(&j, NULL, "t");
    ron_json_text(&j, NULL, "up");
#define X(field, name, unit) ron_json_text(&j, NULL, name);
    CON_COLUMNS(X)
#undef X
    ron_json_close(&j, ']');
    ron_json_open(&j, "services", '[');
    for (int i = 0; i < CON_SERVICE_COUNT && v != NULL; i++) {
        if (s->up[i].url == NULL) {
            continue;
        }
        ron_mutex_lock(&s->mu);
        *v = s->up[i].view;
        ron_mutex_unlock(&s->mu);
        ron_json_open(&j, NULL, '{');
        view_json(&j, (enum con_service)i, v);
        ron_json_text(&j, "url", s->up[i].url);
        history_json(&j, v);
        ron_json_close(&j, '}');
    }
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
    ron_free(v);
}

void con_overview_http(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    struct ron_buf body;
    enum con_role role;
    uint64_t until_ms;

    if (!con_session(s, call, &role, &until_ms)) {
        return;
    }
    ron_buf_init(&body, OVERVIEW_MAX);
    write_overview(s, &body);
    if (ron_buf_error(&body) == RON_OK) {
        con_answer_json(call, 200, &body);
    } else {
        con_fail(s, call, CON_ERROR_BUSY);
    }
    ron_buf_done(&body);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc con_live_add(struct con_svc *s, struct ron_err *err)
{
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        for (int kind = 0; kind < CON_ASK_COUNT; kind++) {
            s->asks[i][kind] = (struct con_ask){
                .s = s, .svc = (enum con_service)i, .kind = (enum con_ask_kind)kind};
        }
    }
    RON_TRY(ron_http_events_new(
        &(struct ron_http_events_opts){.registry = ron_app_registry(s->app),
                                       .env = s->env,
                                       .sup = ron_app_sup(s->app),
                                       .log = ron_app_log(s->app),
                                       .bus_name = "live",
                                       .chan_name = "streams",
                                       .task_name = "watchers",
                                       .producers = "upstream",
                                       .capacity = BUS_CAPACITY,
                                       .message_bytes = sizeof(struct con_event),
                                       .streams_max = CON_STREAMS_MAX,
                                       .stage = 1,
                                       .greeting = "console",
                                       .format = write_event},
        &s->live, err));
    return ron_sup_add(ron_app_sup(s->app),
                       &(struct ron_task_def){.name = "poller",
                                              .kind = "poller",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 2,
                                              .start = poller_start,
                                              .handle = poller_handle,
                                              .arg = s},
                       &s->poller, err);
}

void con_live_free(struct con_svc *s)
{
    ron_http_events_free(s->live);
    s->live = NULL;
}
