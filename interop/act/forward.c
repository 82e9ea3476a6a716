/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/forward.c - a delivery passed on to a place outside, signed as Standard Webhooks say.
 *
 * Place: service. The bytes are those that the provider sent; the message id is the key of the
 * action and the same in every attempt, so that a receiver can tell repetitions. A target that
 * answers 410 is switched off, durably, until an operator switches it on again. */
#include <stdio.h>
#include <string.h>

#include "interop/act/act.h"
#include "interop/provider/sign.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

/* The rule of that name in force, if it still forwards. */
static const struct iop_rule *rule_of(const struct iop_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->rules->count; i++) {
        const struct iop_rule *r = &policy->rules->at[i];

        if (strcmp(r->name, name) == 0 && r->action == IOP_ACT_FORWARD) {
            return r;
        }
    }
    return NULL;
}

/* A switch belongs to a rule and its URL: another URL begins anew. */
static void switch_name(const struct iop_rule *rule, char ret[IOP_TARGET_MAX])
{
    struct ron_b3 hash;
    char hex[17];

    ron_b3_hash(rule->url.text, rule->url.len, &hash);
    ron_hex(hash.bytes, 8, hex);
    (void)snprintf(ret, IOP_TARGET_MAX, "%.64s-%s", rule->name, hex);
}

static enum ron_rc ask_switch(struct iop_acts *o, const struct iop_rule *rule, bool set, bool off,
                              const char *reason, bool *ret_off)
{
    char name[IOP_TARGET_MAX];
    struct iop_op op = {.kind = IOP_OP_TARGET};
    enum ron_rc rc;

    switch_name(rule, name);
    op.target.name = (struct ron_str){name, strlen(name)};
    op.target.set = set;
    op.target.off = off;
    op.target.reason = (struct ron_str){reason, strlen(reason)};
    rc = iop_box_call(o->mail->box, &op);
    *ret_off = op.target.off;
    iop_op_done(&op);
    return rc;
}

/* ---- the call -------------------------------------------------------------------------------- */

static enum ron_rc sign(struct iop_actor *a, const struct iop_rule *rule, const struct iop_act *act,
                        const char *id, struct iop_signed *ret, struct ron_err *err)
{
    struct iop_signer signer;
    enum ron_rc rc;

    RON_TRY(iop_signer_init(&signer, iop_scheme_of(IOP_KIND_STANDARD),
                            ron_secret_reveal(&rule->secret), ron_secret_len(&rule->secret), err));
    rc = iop_sign(&signer,
                  &(struct iop_to_sign){.id = {id, strlen(id)},
                                        .now_unix_ms = (int64_t)ron_env_wall_ms(a->of->core->env),
                                        .url = {rule->url.text, rule->url.len},
                                        .body = act->got->body.ptr,
                                        .len = act->got->body.len},
                  ret, err);
    iop_signer_done(&signer);
    return rc;
}

/* As the rule in force says, whatever it said when the delivery came. */
static struct ron_http_target *target_of(const struct iop_actor *a, const struct iop_policy *policy,
                                         const struct iop_rule *rule)
{
    const struct ron_conf_snap *conf = policy->rules->snap;

    return iop_upstreams_forward(a->of->up, conf, ron_conf_section_find(conf, "rules", rule->name));
}

static void start(struct iop_actor *a, struct ron_http_target *target, const struct iop_rule *rule,
                  struct iop_act *act)
{
    struct ron_http_fetch_header headers[IOP_SIGNED_FIELDS + 1];
    struct iop_signed fields = {0};
    char type[128] = "application/json";
    char corr[RON_HTTP_CORR_ID_MAX + 1] = "";
    char key[IOP_IDEM_KEY_SIZE] = "";
    char id[IOP_IDEM_KEY_SIZE + 4];
    struct ron_err err = {0};
    size_t count = 0;

    (void)iop_act_text(&act->head, "/key", key, sizeof key);
    (void)iop_act_text(&act->head, "/content_type", type, sizeof type);
    (void)iop_act_text(&act->head, "/corr_id", corr, sizeof corr);
    (void)snprintf(id, sizeof id, "msg_%s", key);
    if (target == NULL) {
        act->refused = "host of the rule was added after the start; restart required";
        return;
    }
    act->attempt.rc = sign(a, rule, act, id, &fields, &err);
    for (size_t i = 0; i < fields.count; i++) {
        headers[count++] = (struct ron_http_fetch_header){
            fields.fields[i].name, {fields.fields[i].value, strlen(fields.fields[i].value)}};
    }
    headers[count++] = (struct ron_http_fetch_header){"Content-Type", {type, strlen(type)}};
    if (act->attempt.rc == RON_OK) {
        act->attempt.rc =
            ron_http_fetch_start(target,
                                 &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                                               .url = rule->url.text,
                                                               .headers = headers,
                                                               .header_count = count,
                                                               .corr_id = {corr, strlen(corr)},
                                                               .body = act->got->body,
                                                               .done_chan = a->ends},
                                 &act->fetch, &err);
    }
    if (act->attempt.rc != RON_OK) {
        act->fetch = NULL;
        RON_LOG(a->of->core->log, WARN, "forward not sent", RON_LOG_STR("rule", rule->name),
                RON_LOG_ERR(&err));
    }
}

void iop_forward_start(struct iop_actor *a, struct iop_act *act)
{
    struct iop_policy *policy = iop_policy_get(a->of->policy);
    const struct iop_rule *rule;
    char name[64] = "";
    bool off = false;

    (void)iop_act_text(&act->head, "/rule", name, sizeof name);
    rule = rule_of(policy, name);
    if (rule == NULL) {
        act->refused = "rule no longer exists";
    } else if (ask_switch(a->of, rule, false, false, "", &off) != RON_OK) {
        act->attempt.rc = RON_AGAIN;
    } else if (off) {
        act->refused = "target is disabled";
    } else {
        start(a, target_of(a, policy, rule), rule, act);
    }
    iop_policy_unref(policy);
}

void iop_forward_disable(struct iop_actor *a, struct iop_act *act)
{
    struct iop_policy *policy = iop_policy_get(a->of->policy);
    const struct iop_rule *rule;
    char name[64] = "";
    bool off = false;

    (void)iop_act_text(&act->head, "/rule", name, sizeof name);
    rule = rule_of(policy, name);
    if (rule != NULL) {
        RON_IGNORE(ask_switch(a->of, rule, true, true, "410", &off));
        RON_LOG(a->of->core->log, WARN, "forward disabled after status 410",
                RON_LOG_STR("rule", rule->name));
    }
    iop_policy_unref(policy);
}

/* ---- POST /forwards/{rule}/enable ------------------------------------------------------------ */

#define ENABLE_MAGIC 0x49454e41u /* "IENA" */

struct enable {
    uint32_t magic;
    struct iop_op op;
    struct ron_http_reply *reply;
    char name[IOP_TARGET_MAX];
};

static void enabled(struct iop_op *op)
{
    struct enable *e = RON_OBJ(op->arg, struct enable, ENABLE_MAGIC);

    if (op->rc == RON_OK) {
        RON_IGNORE(ron_buf_append_text(ron_http_reply_body(e->reply), "{\"enabled\":true}"));
        ron_http_reply_send(e->reply, 200, "application/json");
    } else {
        iop_reply_fail(e->reply, iop_error_of(op->rc), op->why);
    }
    iop_op_done(op);
    e->magic = 0;
    ron_free(e);
}

void iop_forward_enable_http(struct ron_http_call *call, void *arg)
{
    struct iop_acts *o = RON_OBJ(arg, struct iop_acts, IOP_ACTS_MAGIC);
    struct ron_str wanted = ron_http_param(call, 0);
    const struct iop_rule *rule;
    struct iop_policy *policy;
    struct enable *e;
    char name[64];
    enum ron_rc rc;

    if (!iop_allowed(o->core, call, "interop.admin", NULL)) {
        return;
    }
    e = ron_alloc_zero(sizeof *e);
    if (e == NULL || wanted.len >= sizeof name) {
        ron_free(e);
        iop_fail(call, e == NULL ? IOP_ERROR_BUSY : IOP_ERROR_NOT_FOUND, NULL);
        return;
    }
    memcpy(name, wanted.ptr, wanted.len);
    name[wanted.len] = '\0';
    policy = iop_policy_get(o->policy);
    rule = rule_of(policy, name);
    if (rule != NULL) {
        switch_name(rule, e->name);
    }
    iop_policy_unref(policy);
    rc = rule != NULL ? ron_http_defer(call, &e->reply) : RON_NOTFOUND;
    if (rc == RON_OK) {
        e->magic = ENABLE_MAGIC;
        e->op.kind = IOP_OP_TARGET;
        e->op.done = enabled;
        e->op.arg = e;
        e->op.target.name = (struct ron_str){e->name, strlen(e->name)};
        e->op.target.set = true;
        rc = iop_box_submit(o->mail->box, &e->op);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(call, e->reply);
    }
    ron_free(e);
    iop_fail(call, iop_error_of(rc),
             rc == RON_NOTFOUND ? "no forwarding rule with that name" : NULL);
}
