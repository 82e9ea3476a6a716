/* SPDX-License-Identifier: Apache-2.0 */
/* interop/hook/hook.c - /webhooks/{provider}, on the loop: everything that is cheap, then a job.
 *
 * Place: service; never blocks. Order: drain, rate, inflight and size (kernel); brownout; provider
 * known and enabled; where it was sent to and from; headers, their form and the window; then the
 * queue. The signature is a worker's: nothing here hashes a body.
 *
 * A provider that is switched off and one that nobody configured are told apart by nothing. */
#include "interop/hook/hook.h"

#include <string.h>
#include <strings.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

/* From the pool; NULL when too many are in progress, or no memory. */
static struct iop_job *job_get(struct iop_hooks *h)
{
    struct iop_job *j = NULL;
    bool room;

    ron_mutex_lock(&h->pool_mu);
    room = h->out < h->max;
    if (room) {
        h->out++;
        j = h->idle;
        if (j != NULL) {
            h->idle = j->next;
        }
    }
    ron_mutex_unlock(&h->pool_mu);
    if (room && j == NULL) {
        j = ron_alloc_zero(sizeof *j);
        if (j != NULL) {
            j->magic = IOP_JOB_MAGIC;
            ron_buf_init(&j->text, IOP_JOB_TEXT_MAX);
        } else {
            ron_mutex_lock(&h->pool_mu);
            h->out--;
            ron_mutex_unlock(&h->pool_mu);
        }
    }
    if (j != NULL) {
        j->of = h;
    }
    return j;
}

void iop_job_put(struct iop_job *take_job)
{
    struct iop_job *j = take_job;
    struct iop_hooks *h = j->of;

    RON_CHECK_MAGIC(j, IOP_JOB_MAGIC);
    iop_policy_unref(j->policy);
    j->policy = NULL;
    j->reply = NULL;
    ron_buf_clear(&j->text);
    ron_mutex_lock(&h->pool_mu);
    RON_ASSERT_MSG(h->out > 0, "W1: more jobs come back than were taken");
    j->next = h->idle;
    h->idle = j;
    h->out--;
    ron_mutex_unlock(&h->pool_mu);
}

void iop_jobs_free(struct iop_hooks *h)
{
    while (h->idle != NULL) {
        struct iop_job *j = h->idle;

        h->idle = j->next;
        j->magic = 0;
        ron_buf_done(&j->text);
        ron_free(j);
    }
}

void iop_job_drop(struct iop_job *take_job, enum iop_error error)
{
    RON_ASSERT_MSG(take_job->reply != NULL, "W2: a job has one reply until it ends");
    iop_reply_fail(take_job->reply, error, NULL);
    iop_job_put(take_job);
}

/* ---- where from, where to -------------------------------------------------------------------- */

/* The host without its port, compared as names are. */
static bool is_ours(const struct iop_hooks *h, struct ron_str host)
{
    struct ron_conf_list names = ron_conf_list(h->core->conf, IOP_SERVER_NAMES);
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

static void refuse(struct iop_hooks *h, struct ron_http_call *call, struct iop_policy *take_policy,
                   const struct iop_provider *provider, enum iop_error error, const char *label,
                   const char *message)
{
    char peer[IOP_PEER_SIZE];

    ron_http_peer(call, peer, sizeof peer);
    iop_record(h, &(struct iop_outcome){.verdict = IOP_VERDICT_REFUSED,
                                        .policy = take_policy,
                                        .provider = provider,
                                        .error = error,
                                        .label = label,
                                        .corr_id = ron_http_corr_id(call),
                                        .addr = peer});
    iop_policy_unref(take_policy);
    iop_fail(call, error, message);
}

static void refuse_as(struct iop_hooks *h, struct ron_http_call *call,
                      struct iop_policy *take_policy, const struct iop_provider *provider,
                      enum iop_refusal refusal)
{
    const struct iop_refusal_row *row = iop_refusal_row(refusal);

    refuse(h, call, take_policy, provider, iop_refusal_error(refusal), row->label, row->message);
}

/* The provider of the path, if this request may be its; NULL: it has been answered. */
static const struct iop_provider *provider_of(struct iop_hooks *h, struct ron_http_call *call,
                                              struct iop_policy *take_policy)
{
    const struct iop_provider *p =
        iop_providers_find(take_policy->providers, ron_http_param(call, 0));

    if (p == NULL || !p->enabled) {
        refuse(h, call, take_policy, p, IOP_ERROR_POLICY_BLOCKED, "disabled",
               "provider is not enabled");
        return NULL;
    }
    if (!is_ours(h, ron_http_head(call)->host)) {
        refuse(h, call, take_policy, p, IOP_ERROR_BAD_ORIGIN, "host",
               "host is not listed in interop.server_names");
        return NULL;
    }
    if (!may_come_from(iop_policy_entry(take_policy, p), call)) {
        refuse(h, call, take_policy, p, IOP_ERROR_BAD_ORIGIN, "peer",
               "source address is not allowed for this provider");
        return NULL;
    }
    return p;
}

void iop_hook_http(struct ron_http_call *call, void *arg)
{
    struct iop_hooks *h = RON_OBJ(arg, struct iop_hooks, IOP_HOOKS_MAGIC);
    enum iop_refusal refusal;
    const struct iop_provider *p;
    struct iop_policy *policy;
    struct iop_job *j;
    enum ron_rc rc;

    if (!iop_bridge_open(h->bridge, call)) {
        return;
    }
    policy = iop_policy_get(&h->policy);
    p = provider_of(h, call, policy);
    if (p == NULL) {
        return;
    }
    j = job_get(h);
    if (j == NULL) {
        iop_policy_unref(policy);
        iop_fail(call, IOP_ERROR_BUSY, NULL);
        return;
    }
    refusal = iop_check_head(p, ron_http_head(call), (int64_t)ron_env_wall_ms(h->core->env),
                             &j->delivery);
    if (refusal != IOP_REFUSE_NONE) {
        iop_job_put(j);
        refuse_as(h, call, policy, p, refusal);
        return;
    }
    j->policy = policy;
    j->provider = p;
    j->tries = 0;
    j->head = ron_http_head(call);
    j->body = ron_http_body(call);
    j->began_ns = ron_env_now_ns(h->core->env);
    ron_http_peer(call, j->peer, sizeof j->peer);
    rc = ron_http_defer(call, &j->reply);
    if (rc == RON_OK) {
        rc = ron_chan_try_send(h->work, j, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(call, j->reply);
    }
    iop_job_put(j);
    iop_fail(call, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, NULL);
}

/* Meta asks with a GET whether this is its subscriber. */
void iop_hook_get_http(struct ron_http_call *call, void *arg)
{
    struct iop_hooks *h = RON_OBJ(arg, struct iop_hooks, IOP_HOOKS_MAGIC);
    struct iop_policy *policy = iop_policy_get(&h->policy);
    const struct iop_provider *p = provider_of(h, call, policy);
    enum iop_refusal refusal;
    struct iop_answer answer = {0};

    if (p == NULL) {
        return;
    }
    refusal = iop_check_get(p, ron_http_head(call)->query, &answer);
    if (refusal != IOP_REFUSE_NONE) {
        refuse_as(h, call, policy, p, refusal);
        return;
    }
    iop_record(h, &(struct iop_outcome){.verdict = IOP_VERDICT_CHALLENGE,
                                        .policy = policy,
                                        .provider = p,
                                        .corr_id = ron_http_corr_id(call)});
    iop_policy_unref(policy);
    ron_http_answer(call, answer.status, answer.content_type, answer.body, answer.len);
}
