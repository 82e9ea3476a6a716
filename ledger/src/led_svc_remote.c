/* SPDX-License-Identifier: Apache-2.0 */
/* led_svc_remote.c - remote guards in the service: made from settings, asked by prevalidators. */
#include "led_svc.h"

static const char *text_or_null(const struct led_svc *s, size_t key)
{
    struct ron_conf_str text = ron_conf_str(s->conf, key);

    return text.len == 0 ? NULL : text.text;
}

enum ron_rc led_svc_remote_open(struct led_svc *s, struct ron_err *err)
{
    const struct ron_conf_snap *c = s->conf;
    struct led_remote_opts o = {.env = ron_app_env(s->app),
                                .registry = ron_app_registry(s->app),
                                .guard = s->guard,
                                .tracer = ron_app_tracer(s->app),
                                .stage = 2};

    o.targets[LED_REMOTE_KMS] = (struct led_remote_target){
        .url = text_or_null(s, LED_KMS_URL), .try_ms = (uint32_t)ron_conf_int(c, LED_KMS_MS)};
    o.targets[LED_REMOTE_POLICY] =
        (struct led_remote_target){.url = text_or_null(s, LED_POLICY_URL),
                                   .try_ms = (uint32_t)ron_conf_int(c, LED_POLICY_MS),
                                   .tries_max = (uint32_t)ron_conf_int(c, LED_RETRY_MAX) + 1,
                                   .backoff_max_ms = (uint32_t)ron_conf_ms(c, LED_RETRY_BACKOFF)};
    o.targets[LED_REMOTE_WALLET] = (struct led_remote_target){
        .url = text_or_null(s, LED_WALLET_URL), .try_ms = (uint32_t)ron_conf_int(c, LED_WALLET_MS)};
    if (o.targets[LED_REMOTE_KMS].url == NULL && o.targets[LED_REMOTE_POLICY].url == NULL &&
        o.targets[LED_REMOTE_WALLET].url == NULL) {
        return RON_OK;
    }
    RON_TRY(led_remote_new(&o, &s->remote, err));
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
