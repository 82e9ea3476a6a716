/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/remote.c - remote guards in the service: made from settings, asked by
 * prevalidators. */
#include <stdio.h>
#include <string.h>

#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"

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

enum ron_rc led_stage_remote_check(const struct ron_conf_snap *conf, struct ron_err *err)
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
static enum ron_rc read_bearer(const struct led_core *core, size_t service, bearer_text text,
                               struct ron_err *err)
{
    const char *path = ron_conf_str(core->conf, rows[service].token).text;
    size_t len = 0;
    enum ron_rc rc = ron_file_read_private(ron_app_env(core->app), path, text,
                                           sizeof(bearer_text) - 1, &len, err);

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
static bool fill_targets(const struct ron_conf_snap *c, struct led_remote_target *targets)
{
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
static enum ron_rc make_remote(const struct led_core *core, struct led_gate *gate,
                               const struct led_remote_opts *opts, struct ron_err *err)
{
    struct led_remote_opts o = *opts;
    bearer_text bearers[LED_REMOTE_COUNT];
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; rc == RON_OK && i < LED_REMOTE_COUNT; i++) {
        if (text_or_null(core->conf, rows[i].token) != NULL) {
            rc = read_bearer(core, i, bearers[i], err);
            o.targets[i].bearer = bearers[i];
        }
    }
    if (rc == RON_OK) {
        rc = led_remote_new(&o, &gate->remote, err);
    }
    ron_wipe(bearers, sizeof bearers);
    return rc;
}

enum ron_rc led_stage_remote_open(const struct led_core *core, struct led_gate *gate,
                                  struct ron_err *err)
{
    struct led_remote_opts o = {.env = ron_app_env(core->app),
                                .registry = ron_app_registry(core->app),
                                .guard = gate->guard,
                                .tracer = core->tracer,
                                .log = core->log,
                                .stage = 2};

    if (!fill_targets(core->conf, o.targets)) {
        return RON_OK;
    }
    gate->kms_ms = (uint64_t)ron_conf_int(core->conf, LED_KMS_MS);
    RON_TRY(make_remote(core, gate, &o, err));
    RON_TRY(ron_needs_add(ron_app_needs(core->app), "remote_guards", false, &gate->need, err));
    ron_need_set(gate->need, RON_NEED_OK, "", 0);
    RON_TRY(led_remote_collect(gate->remote, ron_app_metrics(core->app), err));
    return led_remote_attach(gate->remote, ron_app_sup(core->app), err);
}

/* On the client's task: the work goes on with its next step, or is answered. */
static void asked(struct led_work *w, void *arg)
{
    struct led_preval_stage *st = RON_OBJ(arg, struct led_preval_stage, LED_PREVAL_STAGE_MAGIC);
    enum ron_rc rc;

    if (w->result == LED_RESULT_REFUSED) {
        led_work_done(w);
        return;
    }
    rc = led_pipes_submit(st->pipes, w);
    if (rc != RON_OK) {
        led_work_refuse(w, rc == RON_CLOSED ? LED_REASON_DRAINING : LED_REASON_BUSY, "",
                        "no prevalidator is free");
        led_work_done(w);
    }
}

void led_stage_remote_ask(struct led_preval_stage *st, struct led_work *w)
{
    struct ron_deadline deadline = w->deadline;

    if (led_remote_ask(st->gate->remote, w, deadline, asked, st) == LED_VERDICT_REFUSED) {
        led_work_done(w);
    }
}
