/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/front/routes.c - the routes: from a request to a message in a queue, and what memory can
 * answer at once.
 *
 * Place: service, on the workers of the HTTP front; never blocks. Order of checks: drain, rate and
 * size (kernel), content type, capability, names, body. An unauthenticated caller learns nothing
 * about the body. */
#include <string.h>

#include "rewarder/front/front.h"
#include "ron/base/alloc.h"

enum { ROUTES = 11 };

struct rwd_front {
    struct rwd_core *core;
    struct rwd_pipes *pipes;
    struct rwd_runs *runs;
    struct ron_http_route routes[ROUTES];
};

/* ---- errors ---------------------------------------------------------------------------------- */

static void fail_text(struct ron_http_call *call, enum rwd_error error, const char *detail)
{
    struct rwd_fault fault;

    rwd_fault_set(&fault, error, detail);
    rwd_fail(call, &fault);
}

static void fail_rc(struct ron_http_call *call, enum ron_rc rc)
{
    fail_text(call, rc == RON_CLOSED ? RWD_ERROR_DRAINING : RWD_ERROR_BUSY, NULL);
}

/* ---- who may --------------------------------------------------------------------------------- */

static bool allowed(struct rwd_front *s, struct ron_http_call *call, const char *scope,
                    struct ron_str account, struct ron_cap_info *ret_info, uint64_t *ret_until_ms)
{
    enum ron_cap_why why =
        ron_app_auth_check(s->core->auth, call, scope, account, ret_info, ret_until_ms);

    if (why != RON_CAP_OK) {
        fail_text(call, ron_cap_why_http(why) == 401 ? RWD_ERROR_UNAUTH : RWD_ERROR_FORBIDDEN,
                  ron_cap_why_doc(why));
    }
    return why == RON_CAP_OK;
}

static bool may_inspect(struct rwd_front *s, struct ron_http_call *call)
{
    return allowed(s, call, "rewarder.inspect", (struct ron_str){0}, NULL, NULL);
}

/* The epoch of the path. */
static bool epoch_of(struct ron_http_call *call, char ret[RWD_EPOCH_MAX + 1])
{
    struct ron_str epoch = ron_http_param(call, 0);

    if (!rwd_epoch_ok(epoch)) {
        fail_text(call, RWD_ERROR_SCHEMA, "an epoch is 1 to 128 characters of A-Z a-z 0-9 _ . : -");
        return false;
    }
    memcpy(ret, epoch.ptr, epoch.len);
    ret[epoch.len] = '\0';
    return true;
}

/* ---- compute --------------------------------------------------------------------------------- */

/* Nothing, or wait=true and dry_run=true. */
static bool read_query(const struct ron_http_call *call, bool *ret_wait, bool *ret_dry)
{
    struct ron_str rest = ron_http_head(call)->query;
    struct ron_str name;
    struct ron_str value;

    *ret_wait = *ret_dry = false;
    while (ron_http_query_next(&rest, &name, &value)) {
        bool *flag = ron_str_is(name, "wait")      ? ret_wait
                     : ron_str_is(name, "dry_run") ? ret_dry
                                                   : NULL;

        if (flag == NULL || (!ron_str_is(value, "true") && !ron_str_is(value, "false"))) {
            return false;
        }
        *flag = value.len == 4;
    }
    return true;
}

/* min(now + epoch_duration / 2, what the caller asked for): of the run, which outlives the request
 * that began it; how long that one waits is the listener's matter. */
static struct ron_deadline deadline_of(struct rwd_front *s, const struct ron_http_call *call)
{
    const struct ron_http_head *head = ron_http_head(call);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(s->core->app));
    uint64_t left_ms =
        RON_MIN((uint64_t)ron_conf_ms(conf, RWD_EPOCH_DURATION) / 2, head->timeout_ms);

    ron_conf_unref(conf);
    if (head->deadline_unix_ms != UINT64_MAX) {
        uint64_t wall_ms = ron_env_wall_ms(s->core->env);

        left_ms =
            RON_MIN(left_ms, head->deadline_unix_ms > wall_ms ? head->deadline_unix_ms - wall_ms
                                                              : (uint64_t)0);
    }
    return ron_deadline_after_ms(ron_env_now_ns(s->core->env), left_ms);
}

static void submit(struct rwd_front *s, struct ron_http_call *call, struct rwd_work_req *w)
{
    enum ron_rc rc = ron_http_defer(call, &w->reply);

    if (rc == RON_OK) {
        rc = ron_chan_try_send(s->pipes->work_req, w, NULL);
        if (rc != RON_OK) {
            ron_http_undefer(call, w->reply);
        }
    }
    if (rc != RON_OK) {
        ron_free(w);
        fail_rc(call, rc);
    }
}

static void compute(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_fault fault = {0};
    struct rwd_work_req *w;
    char epoch[RWD_EPOCH_MAX + 1];
    bool wait = false;
    bool dry = false;

    if (!ron_http_is_json(ron_http_head(call))) {
        fail_text(call, RWD_ERROR_CONTENT_TYPE, "send the body as application/json");
        return;
    }
    if (!allowed(s, call, "rewarder.run", (struct ron_str){0}, NULL, NULL) ||
        !epoch_of(call, epoch)) {
        return;
    }
    if (!read_query(call, &wait, &dry)) {
        fail_text(call, RWD_ERROR_SCHEMA, "query: only wait and dry_run, true or false");
        return;
    }
    w = ron_alloc_zero(sizeof *w + ron_http_body(call).len);
    if (w == NULL) {
        fail_text(call, RWD_ERROR_BUSY, "no memory for the request");
        return;
    }
    memcpy(w + 1, ron_http_body(call).ptr, ron_http_body(call).len);
    if (!rwd_request_read((char *)(w + 1), ron_http_body(call).len, w, &fault)) {
        ron_free(w);
        rwd_fail(call, &fault);
        return;
    }
    memcpy(w->epoch, epoch, sizeof epoch);
    w->wait = wait;
    w->dry = w->dry || dry;
    w->deadline = deadline_of(s, call);
    submit(s, call, w);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void ask(struct rwd_front *s, struct ron_http_call *call, const struct rwd_read *question)
{
    struct rwd_read *r = ron_alloc(sizeof *r);
    enum ron_rc rc = RON_NOMEM;

    if (r != NULL) {
        *r = *question;
        rc = ron_http_defer(call, &r->reply);
        if (rc == RON_OK) {
            rc = ron_chan_try_send(s->pipes->reads, r, NULL);
            if (rc != RON_OK) {
                ron_http_undefer(call, r->reply);
            }
        }
    }
    if (rc != RON_OK) {
        ron_free(r);
        fail_rc(call, rc);
    }
}

/* What the registry knows; false: it does not know the epoch, or only that it ended. */
static bool answer_from_memory(struct rwd_front *s, struct ron_http_call *call, const char *epoch,
                               bool dry)
{
    struct ron_str name = {epoch, strlen(epoch)};
    struct rwd_view view;
    struct ron_buf text;
    bool done = false;

    ron_buf_init(&text, RWD_MANIFEST_MAX);
    if (rwd_runs_get(s->runs, name, dry, &view, &text) == RON_OK) {
        if (!view.ended) {
            rwd_view_write(&text, &view);
            ron_http_answer(call, 202, "application/json", ron_buf_data(&text), ron_buf_len(&text));
            done = true;
        } else if (view.fault.error != RWD_ERROR_NONE) {
            rwd_fail(call, &view.fault);
            done = true;
        } else if (ron_buf_len(&text) > 0) {
            ron_http_answer(call, 200, "application/json", ron_buf_data(&text), ron_buf_len(&text));
            done = true;
        }
    }
    ron_buf_done(&text);
    return done;
}

static void get_epoch(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_read r = {.kind = RWD_READ_MANIFEST};
    bool wait = false;
    bool dry = false;

    if (!may_inspect(s, call) || !epoch_of(call, r.epoch)) {
        return;
    }
    if (!read_query(call, &wait, &dry) || wait) {
        fail_text(call, RWD_ERROR_SCHEMA, "query: only dry_run, true or false");
    } else if (!answer_from_memory(s, call, r.epoch, dry)) {
        if (dry) {
            fail_text(call, RWD_ERROR_NOT_FOUND, "no dry run of this epoch is remembered");
        } else {
            ask(s, call, &r);
        }
    }
}

static void get_of_epoch(struct rwd_front *s, struct ron_http_call *call, enum rwd_read_kind kind)
{
    struct rwd_read r = {.kind = kind};

    if (may_inspect(s, call) && epoch_of(call, r.epoch)) {
        ask(s, call, &r);
    }
}

static void get_settlement(struct ron_http_call *call, void *arg)
{
    get_of_epoch(arg, call, RWD_READ_SETTLEMENT);
}

static void get_payouts(struct ron_http_call *call, void *arg)
{
    get_of_epoch(arg, call, RWD_READ_PAYOUTS);
}

static void get_proof(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_read r = {.kind = RWD_READ_PROOF};
    struct ron_str account = ron_http_param(call, 1);
    char raw[RWD_ACCOUNT_MAX + 1];
    size_t len = 0;

    /* The rest of the path, as sent: an account may hold a '/'. */
    if (account.len > 3 * (size_t)RWD_ACCOUNT_MAX ||
        ron_http_percent_decode(account, false, raw, sizeof raw - 1, &len) != RON_OK ||
        !rwd_account_ok((struct ron_str){raw, len})) {
        if (may_inspect(s, call)) { /* who may not ask is told that first */
            fail_text(call, RWD_ERROR_SCHEMA, "that is no account");
        }
        return;
    }
    memcpy(r.account, raw, len);
    if (allowed(s, call, "rewarder.inspect", (struct ron_str){raw, len}, NULL, NULL) &&
        epoch_of(call, r.epoch)) {
        ask(s, call, &r);
    }
}

static void get_policy(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_read r = {.kind = RWD_READ_POLICY};
    struct ron_str id = ron_http_param(call, 0);
    char room[RON_B3_ID_SIZE];
    struct ron_str hash = {0};
    struct ron_err err = {0};
    enum ron_rc rc;

    if (!may_inspect(s, call)) {
        return;
    }
    rc = ron_http_query_get(ron_http_head(call)->query, "hash", room, sizeof room, &hash);
    r.has_hash = rc == RON_OK;
    if (!rwd_policy_id_ok(id) || (rc != RON_OK && rc != RON_NOTFOUND) ||
        (r.has_hash && ron_b3_parse(hash.ptr, hash.len, &r.hash, &err) != RON_OK)) {
        fail_text(call, RWD_ERROR_SCHEMA, "a policy id, and at most ?hash=b3:...");
        return;
    }
    memcpy(r.epoch, id.ptr, id.len);
    ask(s, call, &r);
}

static bool state_of(struct ron_str text, enum rwd_state *ret)
{
    for (size_t i = 0; i < RWD_STATE_COUNT; i++) {
        if (ron_str_is(text, rwd_state_name((enum rwd_state)i))) {
            *ret = (enum rwd_state)i;
            return true;
        }
    }
    return false;
}

static void get_list(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_read r = {.kind = RWD_READ_LIST, .limit = 100, .state = RWD_STATE_COUNT};
    struct ron_str rest = ron_http_head(call)->query;
    struct ron_str name;
    struct ron_str value;
    bool good = true;

    if (!may_inspect(s, call)) {
        return;
    }
    while (good && ron_http_query_next(&rest, &name, &value)) {
        uint64_t limit = 0;

        if (ron_str_is(name, "after") && rwd_epoch_ok(value)) {
            memcpy(r.epoch, value.ptr, value.len);
            r.epoch[value.len] = '\0';
        } else if (ron_str_is(name, "limit") && ron_http_parse_u64(value, &limit) == RON_OK &&
                   limit >= 1 && limit <= RWD_LIST_MAX) {
            r.limit = (uint32_t)limit;
        } else {
            good = ron_str_is(name, "state") && state_of(value, &r.state);
        }
    }
    if (good) {
        ask(s, call, &r);
    } else {
        fail_text(call, RWD_ERROR_SCHEMA,
                  "query: after=<epoch>, limit=1..1000, state=<state> are known");
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

static void change(struct rwd_front *s, struct ron_http_call *call, const char *scope,
                   enum rwd_read_kind kind)
{
    struct rwd_read r = {.kind = kind};
    struct ron_cap_info info = {0};

    if (allowed(s, call, scope, (struct ron_str){0}, &info, NULL) && epoch_of(call, r.epoch)) {
        memcpy(r.who, info.log_id, sizeof r.who);
        ask(s, call, &r);
    }
}

static void post_emit(struct ron_http_call *call, void *arg)
{
    change(arg, call, "rewarder.run", RWD_READ_EMIT);
}

static void post_release(struct ron_http_call *call, void *arg)
{
    change(arg, call, "rewarder.quarantine", RWD_READ_RELEASE);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool form_of(const struct ron_http_head *head, enum rwd_form *ret)
{
    struct ron_str type = {0};

    if (ron_http_is_json(head)) {
        *ret = RWD_FORM_JSON;
        return true;
    }
    RON_IGNORE(ron_http_field_get(head, "content-type", &type));
    *ret = RWD_FORM_NDJSON;
    return ron_str_is(type, "application/x-ndjson") || ron_str_is(type, "application/ndjson");
}

static void put_inputs(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    struct rwd_upload u = {0};
    struct rwd_upload *held;
    enum ron_rc rc = RON_NOMEM;

    if (!form_of(ron_http_head(call), &u.form)) {
        fail_text(call, RWD_ERROR_CONTENT_TYPE,
                  "send the snapshot as application/json or application/x-ndjson");
        return;
    }
    if (!allowed(s, call, "rewarder.run", (struct ron_str){0}, NULL, NULL)) {
        return;
    }
    held = ron_alloc(sizeof *held);
    if (held != NULL) {
        *held = u;
        rc = ron_http_defer(call, &held->reply);
        if (rc == RON_OK) {
            rc = ron_chan_try_send(s->pipes->uploads, held, NULL);
            if (rc != RON_OK) {
                ron_http_undefer(call, held->reply);
            }
        }
    }
    if (rc != RON_OK) {
        ron_free(held);
        fail_rc(call, rc);
    }
}

static void get_events(struct ron_http_call *call, void *arg)
{
    struct rwd_front *s = arg;
    uint64_t until_ms = 0;
    char room[RWD_EPOCH_MAX + 1];
    struct ron_str epoch = {0};
    enum ron_rc rc;

    if (!allowed(s, call, "rewarder.inspect", (struct ron_str){0}, NULL, &until_ms)) {
        return;
    }
    rc = ron_http_query_get(ron_http_head(call)->query, "epoch", room, sizeof room, &epoch);
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        fail_text(call, RWD_ERROR_SCHEMA, "query: only epoch");
        return;
    }
    rc = ron_http_events_join(s->core->events, call, epoch, until_ms);
    if (rc != RON_OK) {
        fail_rc(call, rc);
    }
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void fill(struct rwd_front *s)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_POST, "/rewarder/epochs/{epoch}/compute", compute, s, 0, 0},
        {RON_HTTP_POST, "/rewarder/epochs/{epoch}/emit", post_emit, s, 0, 0},
        {RON_HTTP_POST, "/rewarder/epochs/{epoch}/quarantine/release", post_release, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/epochs", get_list, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/epochs/{epoch}", get_epoch, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/epochs/{epoch}/settlement", get_settlement, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/epochs/{epoch}/payouts", get_payouts, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/epochs/{epoch}/payouts/{account*}", get_proof, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/policy/{id}", get_policy, s, 0, 0},
        {RON_HTTP_GET, "/rewarder/events", get_events, s, 0, 0},
        {RON_HTTP_PUT, "/rewarder/inputs", put_inputs, s, RON_HTTP_STREAM,
         (uint64_t)ron_conf_bytes(s->core->conf, RWD_INPUT_MAX)},
    };

    _Static_assert(RON_ARRAY_LEN(rows) == ROUTES, "ROUTES counts the rows");
    memcpy(s->routes, rows, sizeof rows);
}

enum ron_rc rwd_front_add(struct rwd_pipes *p, struct rwd_front **ret, struct ron_err *err)
{
    struct rwd_front *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the routes");
    }
    *ret = s;
    s->core = p->core;
    s->pipes = p;
    s->runs = p->store->runs;
    fill(s);
    ron_app_set_routes(s->core->app, s->routes, ROUTES);
    return RON_OK;
}
