/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/remote.c - remote guards in the service: made from settings, asked by
 * prevalidators. */
#include <stdio.h>
#include <string.h>

#include "ledger/svc.h"
#include "ron/base/alloc.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"

enum {
    VOUCHING_MAX = 64, /* questions about tokens of callers who do not wait for the answer */
    REFUSED_MS = 5000, /* a no is remembered */
};

/* ---- settings -------------------------------------------------------------------------------- */

/* The settings of each service. */
static const struct {
    const char *name;
    size_t url, socket, token, ca, cert, key, try_ms;
} rows[LED_REMOTE_COUNT] = {
#define ROW(id, name)                                                                              \
    [LED_REMOTE_##id] = {name,          LED_##id##_URL,  LED_##id##_SOCKET, LED_##id##_TOKEN,      \
                         LED_##id##_CA, LED_##id##_CERT, LED_##id##_KEY,    LED_##id##_MS}
    ROW(KMS, "kms"),
    ROW(POLICY, "policy"),
    ROW(WALLET, "wallet"),
#undef ROW
};

typedef char bearer_text[RON_CAP_TEXT_MAX + 2];

static const char *text_or_null(const struct ron_conf_snap *conf, size_t key)
{
    struct ron_conf_str text = ron_conf_str(conf, key);

    return text.len == 0 ? NULL : text.text;
}

enum ron_rc led_svc_remote_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    for (size_t i = 0; i < LED_REMOTE_COUNT; i++) {
        const size_t more[] = {rows[i].socket, rows[i].token, rows[i].ca, rows[i].cert,
                               rows[i].key};

        for (size_t k = 0; k < RON_ARRAY_LEN(more); k++) {
            if (text_or_null(conf, more[k]) != NULL && text_or_null(conf, rows[i].url) == NULL) {
                return ron_err_set(err, RON_INVALID, "%s needs %s.url",
                                   led_conf_table.keys[more[k]].name, rows[i].name);
            }
        }
        if ((text_or_null(conf, rows[i].cert) == NULL) !=
            (text_or_null(conf, rows[i].key) == NULL)) {
            return ron_err_set(err, RON_INVALID, "%s.cert_file and %s.key_file go together",
                               rows[i].name, rows[i].name);
        }
    }
    return RON_OK;
}

/* The token in the file: one line of printable characters, which may be no capability of ours. */
static enum ron_rc read_bearer(const struct led_svc *s, size_t service, bearer_text text,
                               struct ron_err *err)
{
    const char *path = ron_conf_str(s->conf, rows[service].token).text;
    size_t len = 0;
    enum ron_rc rc =
        ron_file_read_private(ron_app_env(s->app), path, text, sizeof(bearer_text) - 1, &len, err);

    if (rc == RON_OK) {
        while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
            len--;
        }
        text[len] = '\0';
        rc = len > 0 ? RON_OK : ron_err_set(err, RON_INVALID, "%s is empty", path);
    }
    for (size_t i = 0; rc == RON_OK && i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            rc = ron_err_set(err, RON_INVALID, "%s is not one line of printable characters", path);
        }
    }
    if (rc != RON_OK) {
        ron_err_prefix(err, "%s.token_file", rows[service].name);
    }
    return rc;
}

/* False when no service is asked. */
static bool fill_targets(const struct led_svc *s, struct led_remote_target *targets)
{
    const struct ron_conf_snap *c = s->conf;
    bool any = false;

    for (size_t i = 0; i < LED_REMOTE_COUNT; i++) {
        targets[i] =
            (struct led_remote_target){.url = text_or_null(c, rows[i].url),
                                       .unix_path = text_or_null(c, rows[i].socket),
                                       .ca_file = text_or_null(c, rows[i].ca),
                                       .cert_file = text_or_null(c, rows[i].cert),
                                       .key_file = text_or_null(c, rows[i].key),
                                       .try_ms = (uint32_t)ron_conf_int(c, rows[i].try_ms)};
        any = any || targets[i].url != NULL;
    }
    targets[LED_REMOTE_POLICY].tries_max = (uint32_t)ron_conf_int(c, LED_RETRY_MAX) + 1;
    targets[LED_REMOTE_POLICY].backoff_max_ms = (uint32_t)ron_conf_ms(c, LED_RETRY_BACKOFF);
    return any;
}

/* Tokens are on the stack until the client has copied them. */
static enum ron_rc make_remote(struct led_svc *s, const struct led_remote_opts *opts,
                               struct ron_err *err)
{
    struct led_remote_opts o = *opts;
    bearer_text bearers[LED_REMOTE_COUNT];
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; rc == RON_OK && i < LED_REMOTE_COUNT; i++) {
        if (text_or_null(s->conf, rows[i].token) != NULL) {
            rc = read_bearer(s, i, bearers[i], err);
            o.targets[i].bearer = bearers[i];
        }
    }
    if (rc == RON_OK) {
        rc = led_remote_new(&o, &s->remote, err);
    }
    ron_wipe(bearers, sizeof bearers);
    return rc;
}

enum ron_rc led_svc_remote_open(struct led_svc *s, struct ron_err *err)
{
    struct led_remote_opts o = {.env = ron_app_env(s->app),
                                .registry = ron_app_registry(s->app),
                                .guard = s->guard,
                                .tracer = ron_app_tracer(s->app),
                                .log = s->log,
                                .stage = 2};

    if (!fill_targets(s, o.targets)) {
        return RON_OK;
    }
    RON_TRY(make_remote(s, &o, err));
    RON_TRY(ron_needs_add(ron_app_needs(s->app), "remote_guards", false, &s->need_guards, err));
    ron_need_set(s->need_guards, RON_NEED_OK, "", 0);
    RON_TRY(led_remote_collect(s->remote, ron_app_metrics(s->app), err));
    return led_remote_attach(s->remote, ron_app_sup(s->app), err);
}

bool led_svc_remote_close(struct led_svc *s)
{
    return s->remote == NULL || led_remote_free(s->remote);
}

/* On the client's task: the work goes on with its next step, or is answered. */
static void asked(struct led_work *w, void *arg)
{
    struct led_svc *s = arg;
    enum ron_rc rc;

    if (w->result == LED_RESULT_REFUSED) {
        led_work_done(w);
        return;
    }
    rc = led_svc_submit(s, w);
    if (rc != RON_OK) {
        led_work_refuse(w, rc == RON_CLOSED ? LED_REASON_DRAINING : LED_REASON_BUSY, "",
                        "no prevalidator is free");
        led_work_done(w);
    }
}

void led_svc_remote_ask(struct led_svc *s, struct led_work *w)
{
    struct ron_deadline deadline = w->deadline;

    if (led_remote_ask(s->remote, w, deadline, asked, s) == LED_VERDICT_REFUSED) {
        led_work_done(w);
    }
}

/* ---- requests without a work ----------------------------------------------------------------- */

/* A token about which the KMS is asked, beyond the request that brought it. */
struct vouching {
    struct led_svc *s;
    struct led_caller caller;
    struct led_auth *auth;
    struct ron_arena arena;
    uint8_t room[LED_AUTH_BYTES + LED_REMOTE_BYTES];
    char token[];
};

static void end_vouching(struct led_svc *s, struct vouching *take_v)
{
    (void)ron_au32_add(&s->vouching, UINT32_MAX); /* one less */
    ron_free(take_v);
}

/* A place of its own by the hash; a later no takes it over. */
static struct led_unvouched *no_of(struct led_svc *s, struct ron_str token, struct ron_b3 *ret_hash)
{
    ron_b3_hash(token.ptr, token.len, ret_hash);
    return &s->unvouched[ret_hash->bytes[0] % LED_UNVOUCHED_MAX];
}

static void remember_no(struct led_svc *s, struct ron_str token)
{
    struct ron_b3 hash;
    struct led_unvouched *no = no_of(s, token, &hash);

    ron_mutex_lock(&s->unvouched_lock);
    no->token = hash;
    no->until_ms = ron_env_wall_ms(s->env) + REFUSED_MS;
    ron_mutex_unlock(&s->unvouched_lock);
}

static bool was_refused(struct led_svc *s, struct ron_str token)
{
    struct ron_b3 hash;
    const struct led_unvouched *no = no_of(s, token, &hash);
    bool found;

    ron_mutex_lock(&s->unvouched_lock);
    found = no->until_ms > ron_env_wall_ms(s->env) && ron_b3_equal(&no->token, &hash);
    ron_mutex_unlock(&s->unvouched_lock);
    return found;
}

/* The guard remembers a yes, so the caller's next request passes. */
static void vouched(void *arg, const struct led_refusal *refusal)
{
    struct vouching *v = arg;

    if (refusal != NULL && refusal->reason == LED_REASON_UNAUTH) {
        remember_no(v->s, v->caller.token);
    }
    end_vouching(v->s, v);
}

void led_svc_remote_vouch(struct led_svc *s, const struct led_caller *caller,
                          struct led_refusal *ret)
{
    uint64_t now_ms = ron_env_wall_ms(s->env);
    struct ron_conf_snap *conf;
    struct vouching *v = NULL;
    enum led_verdict verdict;
    uint64_t try_ms;

    if (was_refused(s, caller->token)) {
        led_refuse(ret, LED_REASON_UNAUTH, "", "the KMS does not vouch for this capability");
        return;
    }
    led_refuse(ret, LED_REASON_BUSY, "", "the KMS is asked for this capability; try again");
    if (ron_au32_add(&s->vouching, 1) < VOUCHING_MAX) {
        v = ron_alloc(sizeof *v + caller->token.len);
    }
    if (v == NULL) {
        end_vouching(s, NULL);
        return;
    }
    v->s = s;
    v->caller = *caller;
    memcpy(v->token, caller->token.ptr, caller->token.len);
    v->caller.token.ptr = v->token;
    ron_arena_init_over(&v->arena, v->room, sizeof v->room);
    verdict = led_guard_open(s->guard, &v->caller, now_ms, &v->arena, &v->auth, ret);
    if (verdict != LED_VERDICT_ASK) { /* another request was quicker */
        if (verdict == LED_VERDICT_OK) {
            led_refuse(ret, LED_REASON_BUSY, "", "the KMS has just answered; try again");
        }
        end_vouching(s, v);
        return;
    }
    conf = ron_conf_box_get(ron_app_conf_box(s->app));
    try_ms = 2 * (uint64_t)ron_conf_int(conf, LED_KMS_MS); /* a try and its repetition */
    ron_conf_unref(conf);
    if (led_remote_vouch(s->remote,
                         &(struct led_remote_vouch){
                             .caller = &v->caller,
                             .auth = v->auth,
                             .arena = &v->arena,
                             .deadline = ron_deadline_after_ms(ron_env_now_ns(s->env), try_ms),
                             .done = vouched,
                             .arg = v},
                         ret) == LED_VERDICT_REFUSED) {
        end_vouching(s, v);
    }
}

/* ---- readiness ------------------------------------------------------------------------------- */

void led_svc_remote_look(struct led_svc *s)
{
    static const char *const names[LED_REMOTE_COUNT] = {
        [LED_REMOTE_KMS] = "KMS",
        [LED_REMOTE_POLICY] = "policy guard",
        [LED_REMOTE_WALLET] = "double-spend check",
    };
    char cause[64];

    if (s->need_guards == NULL) {
        return;
    }
    for (int i = 0; i < LED_REMOTE_COUNT; i++) {
        if (!led_remote_ready(s->remote, (enum led_remote_service)i)) {
            (void)snprintf(cause, sizeof cause, "the %s does not answer", names[i]);
            ron_need_set(s->need_guards, RON_NEED_DEGRADED, cause, 1);
            return;
        }
    }
    if (ron_need_state(s->need_guards) != RON_NEED_OK) {
        ron_need_set(s->need_guards, RON_NEED_OK, "", 0);
    }
}
