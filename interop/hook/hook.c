/* SPDX-License-Identifier: Apache-2.0 */
/* interop/hook/hook.c - /webhooks/{provider}, on the loop: everything that is cheap, then a job.
 *
 * Place: service; never blocks. Order: drain, rate, inflight and size (kernel); brownout; provider
 * known and enabled; where it was sent to and from; headers, their form and the window; then the
 * queue. The signature is a worker's: nothing here hashes a body.
 *
 * A provider that is switched off and one that nobody configured are told apart by nothing. */
#include <string.h>
#include <strings.h>

#include "interop/svc.h"
#include "ron/base/alloc.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

struct iop_job *iop_job_take(struct iop_svc *s)
{
    struct iop_job *j = NULL;
    bool room;

    ron_mutex_lock(&s->pool_mu);
    room = s->jobs_out < s->jobs_max;
    if (room) {
        s->jobs_out++;
        j = s->jobs_idle;
        if (j != NULL) {
            s->jobs_idle = j->next;
        }
    }
    ron_mutex_unlock(&s->pool_mu);
    if (room && j == NULL) {
        j = ron_alloc_zero(sizeof *j);
        if (j != NULL) {
            ron_buf_init(&j->text, IOP_JOB_TEXT_MAX);
        } else {
            ron_mutex_lock(&s->pool_mu);
            s->jobs_out--;
            ron_mutex_unlock(&s->pool_mu);
        }
    }
    return j;
}

void iop_job_put(struct iop_svc *s, struct iop_job *take_job)
{
    struct iop_job *j = take_job;

    iop_policy_unref(j->policy);
    j->policy = NULL;
    j->reply = NULL;
    ron_buf_clear(&j->text);
    ron_mutex_lock(&s->pool_mu);
    j->next = s->jobs_idle;
    s->jobs_idle = j;
    s->jobs_out--;
    ron_mutex_unlock(&s->pool_mu);
}

void iop_jobs_free(struct iop_svc *s)
{
    while (s->jobs_idle != NULL) {
        struct iop_job *j = s->jobs_idle;

        s->jobs_idle = j->next;
        ron_buf_done(&j->text);
        ron_free(j);
    }
}

void iop_job_drop(struct iop_svc *s, struct iop_job *take_job, enum iop_error error)
{
    iop_reply_fail(take_job->reply, error, NULL);
    iop_job_put(s, take_job);
}

/* ---- where from, where to -------------------------------------------------------------------- */

/* The host without its port, compared as names are. */
static bool is_ours(const struct iop_svc *s, struct ron_str host)
{
    struct ron_conf_list names = ron_conf_list(s->conf, IOP_SERVER_NAMES);
    const char *colon = memrchr(host.ptr, ':', host.len);

    if (names.count == 0) {
        return true;
    }
    if (colon != NULL && memchr(colon, ']', host.len - (size_t)(colon - host.ptr)) == NULL) {
        host.len = (size_t)(colon - host.ptr);
    }
    for (size_t i = 0; i < names.count; i++) {
        if (names.items[i].len == host.len &&
            strncasecmp(names.items[i].text, host.ptr, host.len) == 0) {
            return true;
        }
    }
    return false;
}

static bool may_come_from(const struct iop_entry *e, const struct ron_http_call *call)
{
    char peer[128];

    if (e->net_count == 0) {
        return true;
    }
    ron_http_peer(call, peer, sizeof peer);
    for (size_t i = 0; i < e->net_count; i++) {
        if (iop_net_has(&e->nets[i], peer)) {
            return true;
        }
    }
    return false;
}

/* ---- the route ------------------------------------------------------------------------------- */

static void refuse(struct iop_svc *s, struct ron_http_call *call, struct iop_policy *take_policy,
                   const struct iop_provider *provider, enum iop_error error, const char *label,
                   const char *message)
{
    char peer[IOP_PEER_SIZE];

    ron_http_peer(call, peer, sizeof peer);
    iop_record(s, &(struct iop_record){.verdict = IOP_VERDICT_REFUSED,
                                       .policy = take_policy,
                                       .provider = provider,
                                       .error = error,
                                       .label = label,
                                       .corr_id = ron_http_corr_id(call),
                                       .addr = peer});
    iop_policy_unref(take_policy);
    iop_fail(call, error, message);
}

/* The provider of the path, if this request may be its; NULL: it has been answered. */
static const struct iop_provider *provider_of(struct iop_svc *s, struct ron_http_call *call,
                                              struct iop_policy *take_policy)
{
    const struct iop_provider *p =
        iop_providers_find(take_policy->providers, ron_http_param(call, 0));

    if (p == NULL || !p->enabled) {
        refuse(s, call, take_policy, p, IOP_ERROR_POLICY_BLOCKED, "disabled",
               "this provider is not enabled");
        return NULL;
    }
    if (!is_ours(s, ron_http_head(call)->host)) {
        refuse(s, call, take_policy, p, IOP_ERROR_BAD_ORIGIN, "host",
               "this host is not one of interop.server_names");
        return NULL;
    }
    if (!may_come_from(iop_policy_entry(take_policy, p), call)) {
        refuse(s, call, take_policy, p, IOP_ERROR_BAD_ORIGIN, "peer",
               "this provider does not send from this address");
        return NULL;
    }
    return p;
}

void iop_hook_http(struct ron_http_call *call, void *arg)
{
    struct iop_svc *s = arg;
    const struct iop_refusal_row *row;
    const struct iop_provider *p;
    struct iop_policy *policy;
    struct iop_job *j;
    enum ron_rc rc;

    if (!iop_bridge_open(s, call)) {
        return;
    }
    policy = iop_policy_get(&s->policy);
    p = provider_of(s, call, policy);
    if (p == NULL) {
        return;
    }
    j = iop_job_take(s);
    if (j == NULL) {
        iop_policy_unref(policy);
        iop_fail(call, IOP_ERROR_BUSY, NULL);
        return;
    }
    row = iop_refusal_row(
        iop_check_head(p, ron_http_head(call), (int64_t)ron_env_wall_ms(s->env), &j->delivery));
    if (row->error != IOP_ERROR_NONE) {
        iop_job_put(s, j);
        refuse(s, call, policy, p, row->error, row->label, row->message);
        return;
    }
    j->s = s;
    j->policy = policy;
    j->provider = p;
    j->tries = 0;
    j->head = ron_http_head(call);
    j->body = ron_http_body(call);
    j->began_ns = ron_env_now_ns(s->env);
    ron_http_peer(call, j->peer, sizeof j->peer);
    rc = ron_http_defer(call, &j->reply);
    if (rc == RON_OK) {
        rc = ron_chan_try_send(s->work, j, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(call, j->reply);
    }
    iop_job_put(s, j);
    iop_fail(call, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, NULL);
}

/* Meta asks with a GET whether this is its subscriber. */
void iop_hook_get_http(struct ron_http_call *call, void *arg)
{
    struct iop_svc *s = arg;
    struct iop_policy *policy = iop_policy_get(&s->policy);
    const struct iop_provider *p = provider_of(s, call, policy);
    const struct iop_refusal_row *row;
    struct iop_answer answer = {0};

    if (p == NULL) {
        return;
    }
    row = iop_refusal_row(iop_check_get(p, ron_http_head(call)->query, &answer));
    if (row->error != IOP_ERROR_NONE) {
        refuse(s, call, policy, p, row->error, row->label, row->message);
        return;
    }
    iop_record(s, &(struct iop_record){.verdict = IOP_VERDICT_CHALLENGE,
                                       .policy = policy,
                                       .provider = p,
                                       .corr_id = ron_http_corr_id(call)});
    iop_policy_unref(policy);
    ron_http_answer(call, answer.status, answer.content_type, answer.body, answer.len);
}
