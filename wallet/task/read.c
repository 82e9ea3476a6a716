/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/read.c - questions to the ledger for reads: one call after another, each judged by
 * the step that the read stands at.
 *
 * Place: service. Steps run on the task of the client "ledger-bus"; they never block. A read
 * belongs to whoever runs its step; the client has it between wlt_read_ask and the next step. */
#include "wallet/task/read.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/core/metrics.h"

/* ---- pool ------------------------------------------------------------------------------------ */

enum { KEPT_BYTES = 4096 }; /* a longer answer gives its memory back */

static void reset_buf(struct ron_buf *b)
{
    if (ron_buf_len(b) > KEPT_BYTES) {
        ron_buf_done(b);
        ron_buf_init(b, WLT_ANSWER_MAX);
    } else {
        ron_buf_clear(b);
    }
}

struct wlt_read *wlt_read_get(struct wlt_reads *reads)
{
    uint32_t max = (uint32_t)ron_conf_int(reads->site->conf, RON_APP_INFLIGHT);
    struct wlt_read *r = NULL;
    bool room;

    ron_mutex_lock(&reads->lock);
    room = reads->out < max;
    if (room) {
        reads->out++;
        r = reads->idle;
        if (r != NULL) {
            reads->idle = r->next;
        }
    }
    ron_mutex_unlock(&reads->lock);
    if (room && r == NULL) {
        r = ron_alloc_zero(sizeof *r);
        if (r == NULL) {
            ron_mutex_lock(&reads->lock);
            reads->out--;
            ron_mutex_unlock(&reads->lock);
            return NULL;
        }
        r->magic = WLT_READ_MAGIC;
        ron_buf_init(&r->payload, LC_TARGET_MAX);
        ron_buf_init(&r->answer, WLT_ANSWER_MAX);
        ron_buf_init(&r->kept, WLT_ANSWER_MAX);
    }
    if (r != NULL) {
        r->of = reads;
        r->reply = NULL;
        r->account_len = r->asset_len = r->text_len = 0;
        r->has_stale = r->proof = false;
        r->if_none_match[0] = '\0';
    }
    return r;
}

void wlt_read_put(struct wlt_read *r)
{
    struct wlt_reads *reads = r->of;

    RON_CHECK_MAGIC(r, WLT_READ_MAGIC);
    ron_buf_clear(&r->payload);
    reset_buf(&r->answer);
    reset_buf(&r->kept);
    ron_mutex_lock(&reads->lock);
    RON_ASSERT_MSG(reads->out > 0, "more reads come back than were taken");
    r->next = reads->idle;
    reads->idle = r;
    reads->out--;
    ron_mutex_unlock(&reads->lock);
}

static void read_free(struct wlt_read *r)
{
    r->magic = 0;
    ron_buf_done(&r->payload);
    ron_buf_done(&r->answer);
    ron_buf_done(&r->kept);
    ron_free(r);
}

void wlt_reads_init(struct wlt_reads *reads)
{
    ron_mutex_init(&reads->lock, RON_RANK_LEAF, "wallet.reads");
}

void wlt_reads_done(struct wlt_reads *reads)
{
    RON_ASSERT_MSG(reads->out == 0, "%u reads are still outside the pool", reads->out);
    while (reads->idle != NULL) {
        struct wlt_read *r = reads->idle;

        reads->idle = r->next;
        read_free(r);
    }
    ron_mutex_done(&reads->lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void step(struct wlt_read *r, const struct wlt_reply *reply)
{
    wlt_read_fn *then = r->then;

    RON_CHECK_MAGIC(r, WLT_READ_MAGIC);
    RON_ASSERT(then != NULL);
    then(r, reply);
}

/* What the end of a call says about the ledger: nothing, when its queue was full or when it was the
 * client's own deadline that passed. Otherwise who sends short ones would open the breaker. */
static enum ron_call_result result_of(const struct wlt_read *r, const struct wlt_reply *reply)
{
    bool cut = r->ask.deadline.at_ns == ron_http_reply_deadline(r->reply).at_ns;

    if (reply->kind == WLT_REPLY_ANSWERED) {
        return ron_call_result_of(RON_OK, reply->status);
    }
    return reply->busy || cut ? RON_CALL_VOID : RON_CALL_FAILURE;
}

static void on_done(struct ron_oap_ask *ask)
{
    struct wlt_read *r = RON_OBJ(ask->user, struct wlt_read, WLT_READ_MAGIC);
    struct wlt_reply reply = {.kind = WLT_REPLY_UNKNOWN};

    if (ask->outcome == RON_OAP_ANSWERED && ask->rc == RON_OK) {
        ron_buf_clear(&r->answer);
        if (ron_buf_append(&r->answer, ask->answer, ask->answer_len) == RON_OK) {
            reply = (struct wlt_reply){.kind = WLT_REPLY_ANSWERED,
                                       .status = ask->status,
                                       .bytes = (char *)(uintptr_t)ron_buf_data(&r->answer),
                                       .len = ron_buf_len(&r->answer)};
        }
    } else if (ask->outcome == RON_OAP_REFUSED || ask->outcome == RON_OAP_NOT_SENT) {
        reply.kind = WLT_REPLY_NOT_SENT;
        reply.busy = ask->refusal == RON_OAP_BUSY || ask->refusal == RON_OAP_FLOW;
    }
    ron_breaker_report(&r->of->ledger->all.of[r->which].breaker, r->breaker, result_of(r, &reply));
    wlt_metrics_call(r->of->site, false, &reply);
    step(r, &reply);
}

void wlt_read_ask(struct wlt_read *r, uint16_t code, wlt_read_fn *then)
{
    struct wlt_ledger *ledger = r->of->ledger;
    const struct ron_app_token *token = ron_app_tokens_get(&ledger->token);
    uint64_t now_ns = ron_env_now_ns(r->of->site->env);
    struct ron_deadline rpc = ron_deadline_after_ms(now_ns, r->of->core->rpc_ms);

    r->then = then;
    r->which = lc_ledgers_now(&ledger->all);
    r->sent_ms = now_ns / RON_NS_PER_MS;
    if (ron_buf_error(&r->payload) == RON_OK &&
        ron_breaker_admit(&ledger->all.of[r->which].breaker, &r->breaker, NULL) == RON_OK) {
        r->ask = (struct ron_oap_ask){.app = LC_APP,
                                      .code = code,
                                      .cap = token->text.ptr,
                                      .cap_len = (uint16_t)token->text.len,
                                      .payload = ron_buf_data(&r->payload),
                                      .payload_len = ron_buf_len(&r->payload),
                                      .trace = *ron_http_reply_trace(r->reply),
                                      .deadline =
                                          ron_deadline_min(rpc, ron_http_reply_deadline(r->reply)),
                                      .done = on_done,
                                      .user = r};
        if (ron_oap_ask_send(ledger->bus[r->which], &r->ask) == RON_OK) {
            return;
        }
        ron_breaker_report(&ledger->all.of[r->which].breaker, r->breaker, RON_CALL_VOID);
    }
    step(r, &(struct wlt_reply){.kind = WLT_REPLY_NOT_SENT});
}

/* ---- ends ------------------------------------------------------------------------------------ */

void wlt_read_answer(struct wlt_read *r, int status, const char *content_type)
{
    struct ron_http_reply *reply = r->reply;

    RON_ASSERT_MSG(reply != NULL, "a read is answered once");
    wlt_read_put(r);
    ron_http_reply_send(reply, status, content_type);
}

void wlt_read_fail(struct wlt_read *r, const struct wlt_fault *fault)
{
    struct wlt_site *s = r->of->site;
    struct ron_http_reply *reply = r->reply;
    struct wlt_fault copy = *fault; /* may lie in the read */

    wlt_read_put(r);
    wlt_reply_fail(s, reply, &copy);
}

/* Reasons that are not here: the wallet's own capability does not reach, or another fault that no
 * client could mend. */
static enum wlt_reason reason_of(enum lc_reason theirs)
{
    static const struct {
        enum lc_reason theirs;
        enum wlt_reason ours;
    } rows[] = {
        {LC_REASON_NOT_FOUND, WLT_REASON_NOT_FOUND}, {LC_REASON_INVALID, WLT_REASON_BAD_REQUEST},
        {LC_REASON_CONFLICT, WLT_REASON_CONFLICT},   {LC_REASON_TOO_LARGE, WLT_REASON_BAD_REQUEST},
        {LC_REASON_BUSY, WLT_REASON_UPSTREAM},       {LC_REASON_TIMEOUT, WLT_REASON_UPSTREAM},
        {LC_REASON_SAFE_MODE, WLT_REASON_UPSTREAM},  {LC_REASON_DRAINING, WLT_REASON_UPSTREAM},
        {LC_REASON_NOT_LEADER, WLT_REASON_UPSTREAM}, {LC_REASON_POLICY_DENIED, WLT_REASON_POLICY},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (rows[i].theirs == theirs) {
            return rows[i].ours;
        }
    }
    return WLT_REASON_INTERNAL;
}

void wlt_read_failed(struct wlt_read *r, const struct wlt_reply *reply)
{
    struct wlt_fault fault;
    struct lc_refusal refusal;

    if (reply->kind != WLT_REPLY_ANSWERED) {
        wlt_fault_set(&fault, WLT_REASON_UPSTREAM, "", "no answer from the ledger");
        wlt_read_fail(r, &fault);
        return;
    }
    if (reply->status == 200 || lc_refusal_read(reply->bytes, reply->len, &refusal) != RON_OK) {
        wlt_fault_set(&fault, WLT_REASON_INTERNAL, "", "unexpected response from the ledger");
        wlt_read_fail(r, &fault);
        return;
    }
    wlt_fault_set(&fault, reason_of(refusal.reason), "", refusal.message);
    wlt_read_fail(r, &fault);
}
