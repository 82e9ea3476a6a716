/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/emitter_call.c - the emitter's calls to whoever pays: the ledger over OAP, or the
 * wallet over HTTP.
 *
 * Place: service, on the emitter's task. Answers come on the clients' tasks and are put into the
 * channel `answers`, which has room for all that are under way. */
#include <stdio.h>
#include <string.h>

#include "rewarder/stage/emitter_priv.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"

/* ---- calls ----------------------------------------------------------------------------------- */

/* On the OAP client's task. */
static void answered(struct ron_oap_ask *ask)
{
    struct emit_call *c = ask->user;
    enum ron_rc rc = ron_chan_try_send(c->m->answers, c, NULL);

    RON_ASSERT(rc == RON_OK); /* room for all, closed only when none is out */
}

/* On the HTTP client's task. */
static void fetched(struct ron_http_fetch *fetch, void *arg)
{
    struct emit_call *c = arg;
    enum ron_rc rc = ron_chan_try_send(c->m->answers, c, NULL);

    (void)fetch;
    RON_ASSERT(rc == RON_OK); /* as above */
}

static struct ron_breaker *breaker_of(struct rwd_svc *s, const struct emit_call *c)
{
    return &s->payers.of[c->which].breaker;
}

/* timeouts.read, unless timeouts.rpc is stricter. */
static struct ron_deadline call_deadline(const struct rwd_svc *s, uint64_t now_ns)
{
    uint64_t read_ms = (uint64_t)ron_conf_ms(s->conf, RON_APP_READ_TIMEOUT);
    uint64_t rpc_ms = (uint64_t)ron_conf_ms(s->conf, RWD_RPC);

    return ron_deadline_after_ms(now_ns, rpc_ms != 0 ? RON_MIN(rpc_ms, read_ms) : read_ms);
}

static enum ron_rc call_wallet(struct rwd_svc *s, struct emit_call *c,
                               const struct rwd_issue *issue)
{
    const struct ron_app_token *token = ron_app_tokens_get(&s->token);
    char url[300];
    char bearer[RON_CAP_TEXT_MAX + 8];
    int len = snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)token->text.len, token->text.ptr);
    const struct ron_http_fetch_header headers[] = {
        {"Content-Type", {"application/json", 16}},
        {"Idempotency-Key", {issue->key, strlen(issue->key)}},
        {"Authorization", {bearer, (size_t)len}},
    };
    struct ron_err err = {0};
    enum ron_rc rc;

    c->which = 0;
    RON_TRY(ron_breaker_admit(breaker_of(s, c), &c->ticket, NULL));
    (void)snprintf(url, sizeof url, "%s%s", ron_conf_str(s->conf, RWD_WALLET_URL).text,
                   issue->path);
    c->sent_ns = ron_env_now_ns(s->env);
    rc = ron_http_fetch_start(
        s->wallet,
        &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                      .url = url,
                                      .headers = headers,
                                      .header_count = RON_ARRAY_LEN(headers),
                                      .body = {ron_buf_text(&c->payload), ron_buf_len(&c->payload)},
                                      .idempotent = true,
                                      .trace = c->m->trace,
                                      .deadline = call_deadline(s, c->sent_ns),
                                      .done = fetched,
                                      .arg = c},
        &c->fetch, &err);
    ron_wipe(bearer, sizeof bearer);
    if (rc != RON_OK) {
        ron_breaker_report(breaker_of(s, c), c->ticket, RON_CALL_VOID);
        return rc;
    }
    c->m->out++;
    return RON_OK;
}

static enum ron_rc call_ledger(struct rwd_svc *s, struct emit_call *c, uint16_t code)
{
    const struct ron_app_token *token = ron_app_tokens_get(&s->token);

    c->which = lc_ledgers_now(&s->payers);
    if (ron_breaker_admit(breaker_of(s, c), &c->ticket, NULL) != RON_OK) {
        RON_IGNORE(lc_ledgers_silent(&s->payers, c->which)); /* another one, next time */
        return RON_AGAIN;
    }
    ron_buf_clear(&c->answer);
    c->sent_ns = ron_env_now_ns(s->env);
    c->ask = (struct ron_oap_ask){.app = LC_APP,
                                  .code = code,
                                  .cap = token->text.ptr,
                                  .cap_len = (uint16_t)token->text.len,
                                  .payload = ron_buf_data(&c->payload),
                                  .payload_len = ron_buf_len(&c->payload),
                                  .trace = c->m->trace,
                                  .deadline = call_deadline(s, c->sent_ns),
                                  .done = answered,
                                  .answer_to = &c->answer,
                                  .user = c};
    if (ron_oap_ask_send(s->ledger[c->which], &c->ask) != RON_OK) {
        ron_breaker_report(breaker_of(s, c), c->ticket, RON_CALL_VOID);
        return RON_FULL;
    }
    c->m->out++;
    return RON_OK;
}

/* ---- what answers mean ----------------------------------------------------------------------- */

static struct rwd_emit_source source_of(const struct rwd_svc *s, const struct settling *x)
{
    const struct rwd_policy *p = rwd_policy_of(x->policy);
    const struct ron_app_token *token = ron_app_tokens_get(&s->token);
    struct ron_conf_str salt = ron_conf_str(s->conf, RWD_SALT);

    return (struct rwd_emit_source){
        .manifest = &x->manifest,
        .payouts = x->payouts,
        .asset = p->asset,
        .funding_account = p->funding_account,
        .kid = {token->kid, strlen(token->kid)},
        .capability_ref = {"rewarder", 8},
        .claim_salt = {salt.text, rwd__emitter_claims(s) ? salt.len : 0}};
}

void rwd__emitter_word(struct rwd_emitter *m, struct rwd_emit_batch *slot, enum rwd_emit_word word,
                       const struct lc_done *done, const char *message)
{
    struct rwd_svc *s = m->s;

    if (word == RWD_WORD_DONE && slot->step == RWD_EMIT_SEND) {
        rwd_count_of(s, RWD_M_INTENTS, done->replayed ? "dup" : "accepted", slot->row.count);
    } else if (word == RWD_WORD_REFUSED) {
        rwd_count_of(s, RWD_M_INTENTS, "error", slot->row.count);
    } else if (word == RWD_WORD_LATER) {
        rwd_count_of(s, RWD_M_RETRIES, "unavailable", 1);
    }
    rwd_emit_word(&m->emit, slot, word, done, message, ron_env_wall_ms(s->env),
                  (uint32_t)s->env->rand_u64(s->env));
}

/* The wallet's word; the fetch is over. */
static enum rwd_emit_word hear_wallet(struct emit_call *c, struct lc_done *ret_done, char *message)
{
    const struct ron_http_fetch_result *r = ron_http_fetch_result(c->fetch);
    struct ron_str replayed = {0};
    enum rwd_emit_word word;

    ron_buf_clear(&c->answer);
    RON_IGNORE(ron_buf_append(&c->answer, r->body.ptr, r->body.len));
    RON_IGNORE(ron_http_fetch_header_get(c->fetch, "idempotent-replayed", &replayed));
    word = rwd_emit_issued(r->status, (char *)(uintptr_t)ron_buf_data(&c->answer),
                           ron_buf_len(&c->answer), replayed.len > 0, ret_done, message);
    if (r->status == 0) {
        (void)snprintf(message, RWD_EMIT_MESSAGE_SIZE, "the wallet did not answer (%s)",
                       ron_http_fetch_reason_label(r->reason));
    }
    return word;
}

/* Of several ledgers: whom to ask next after one that does not answer, or that follows another. */
static void look_elsewhere(struct rwd_svc *s, struct emit_call *c)
{
    struct lc_refusal refusal;
    struct ron_buf copy; /* reading changes it, and the batch reads it too */

    if (c->ask.outcome == RON_OAP_UNKNOWN || c->ask.outcome == RON_OAP_NOT_SENT) {
        RON_IGNORE(lc_ledgers_silent(&s->payers, c->which));
        return;
    }
    if (c->ask.outcome != RON_OAP_ANSWERED || c->ask.status != 421) {
        return;
    }
    ron_buf_init(&copy, ron_buf_len(&c->answer) + 1);
    if (ron_buf_append(&copy, ron_buf_data(&c->answer), ron_buf_len(&c->answer)) != RON_OK ||
        lc_refusal_read((char *)(uintptr_t)ron_buf_data(&copy), ron_buf_len(&copy), &refusal) !=
            RON_OK ||
        !lc_ledgers_refused(&s->payers, c->which, refusal.leader)) {
        RON_IGNORE(lc_ledgers_silent(&s->payers, c->which));
    }
    ron_buf_done(&copy);
}

static enum rwd_emit_word hear_ledger(struct rwd_svc *s, const struct settling *x,
                                      struct emit_call *c, struct lc_done *ret_done, char *message)
{
    struct rwd_emit_source source = source_of(s, x);

    if (c->ask.outcome == RON_OAP_UNKNOWN) {
        rwd_timed_out(s, "ledger_rpc", "ledger");
    }
    look_elsewhere(s, c);
    if (c->ask.outcome != RON_OAP_ANSWERED || c->ask.rc != RON_OK) {
        (void)snprintf(message, RWD_EMIT_MESSAGE_SIZE, "the ledger did not answer (%s)",
                       ron_oap_outcome_label(c->ask.outcome));
        return RWD_WORD_LATER;
    }
    return rwd_emit_answer(&source, c->slot, c->ask.status,
                           (char *)(uintptr_t)ron_buf_data(&c->answer), ron_buf_len(&c->answer),
                           ret_done, message);
}

void rwd__emitter_hear(struct rwd_emitter *m, struct settling *x, struct emit_call *c)
{
    struct rwd_svc *s = m->s;
    struct lc_done done = {0};
    char message[RWD_EMIT_MESSAGE_SIZE] = "";
    enum rwd_emit_word word;
    uint32_t status;

    m->out--;
    if (c->fetch != NULL) {
        word = hear_wallet(c, &done, message);
        status = (uint32_t)ron_http_fetch_result(c->fetch)->status;
        ron_http_fetch_release(c->fetch);
        c->fetch = NULL;
    } else {
        word = hear_ledger(s, x, c, &done, message);
        status = c->ask.outcome == RON_OAP_ANSWERED && c->ask.rc == RON_OK ? c->ask.status : 0;
    }
    ron_breaker_report(breaker_of(s, c), c->ticket,
                       status != 0 && status < 500 ? RON_CALL_SUCCESS : RON_CALL_FAILURE);
    if (c->slot->step == RWD_EMIT_SEND) {
        rwd_observe(s, RWD_M_EMIT_LATENCY, ron_env_now_ns(s->env) - c->sent_ns);
    }
    rwd__emitter_word(m, c->slot, word, &done, message);
}

void rwd__emitter_send(struct rwd_emitter *m, struct settling *x, struct rwd_emit_batch *slot)
{
    struct rwd_svc *s = m->s;
    struct rwd_emit_source source = source_of(s, x);
    struct emit_call *c = &m->calls[slot - m->emit.slots];
    struct lc_done none = {0};
    struct ron_err err = {0};
    struct rwd_issue issue;
    uint16_t code = 0;
    enum ron_rc rc;

    c->slot = slot;
    ron_buf_clear(&c->payload);
    rc = s->wallet != NULL ? rwd_emit_issue(&source, slot, &issue, &c->payload, &err)
                           : rwd_emit_request(&source, slot, &code, &c->payload, &err);
    if (rc != RON_OK) { /* files that are damaged are no reason to try again */
        rwd__emitter_word(m, slot, rc == RON_CORRUPT ? RWD_WORD_REFUSED : RWD_WORD_LATER, &none,
                          err.msg);
    } else if ((s->wallet != NULL ? call_wallet(s, c, &issue) : call_ledger(s, c, code)) !=
               RON_OK) {
        rwd__emitter_word(m, slot, RWD_WORD_LATER, &none,
                          "no call is made now: too many have failed, or too many are under way");
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

uint32_t rwd_batch_max(const struct rwd_svc *s)
{
    return s->wallet != NULL ? 1 : (uint32_t)ron_conf_int(s->conf, RWD_BATCH);
}

static enum ron_rc make_wallet_client(struct rwd_svc *s, uint32_t inflight_max, struct ron_err *err)
{
    static const char *const ops[] = {"issue"};
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;
    enum ron_rc rc = ron_http_url_host(ron_conf_str(s->conf, RWD_WALLET_URL).text, host,
                                       sizeof host, &plain, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "upstreams.wallet_url");
        return rc;
    }
    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "wallet",
                                                               .env = s->env,
                                                               .registry = ron_app_registry(s->app),
                                                               .worker = 0,
                                                               .stage = 6,
                                                               .inflight_max = inflight_max},
                                &s->http, err));
    RON_TRY(ron_http_client_add(
        s->http,
        &(struct ron_http_target_opts){.name = "wallet",
                                       .hosts = hosts,
                                       .host_count = 1,
                                       .ops = ops,
                                       .op_count = 1,
                                       .inflight_max = inflight_max,
                                       .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                                                (plain ? (uint32_t)RON_HTTP_TARGET_PLAIN : 0U)},
        &s->wallet, err));
    RON_TRY(ron_collect_http_client(ron_app_metrics(s->app), s->http, err));
    return ron_http_client_attach(s->http, ron_app_sup(s->app), err);
}

static enum ron_rc make_ledger_client(struct rwd_svc *s, uint32_t which, uint32_t inflight_max,
                                      struct ron_err *err)
{
    char name[24] = "ledger";

    if (which > 0) {
        (void)snprintf(name, sizeof name, "ledger.%u", which);
    }
    RON_TRY(ron_oap_client_new(&(struct ron_oap_client_opts){.name = name,
                                                             .env = s->env,
                                                             .registry = ron_app_registry(s->app),
                                                             .addr = s->payers.of[which].addr,
                                                             .worker = 0,
                                                             .stage = 6,
                                                             .ua = "ron-rewarder",
                                                             .inflight_max = inflight_max + 8,
                                                             .queue_max = 1024,
                                                             .fail_fast = s->payers.count > 1},
                               &s->ledger[which], err));
    return ron_oap_client_attach(s->ledger[which], ron_app_sup(s->app), err);
}

enum ron_rc rwd__emitter_connect(struct rwd_svc *s, uint32_t inflight_max, struct ron_err *err)
{
    struct ron_breaker_rules rules = *ron_breaker_preset(RON_BREAKER_DEFAULT);
    bool to_wallet = rwd_to_wallet(s->conf);

    rules.probes = 1; /* a settlement has one batch to try with */
    RON_TRY(lc_ledgers_init(&s->payers,
                            to_wallet ? "wallet" : ron_conf_str(s->conf, RWD_LEDGER_ADDR).text,
                            &rules, &s->env->clock, err));
    if (to_wallet) {
        return make_wallet_client(s, inflight_max, err);
    }
    for (uint32_t i = 0; i < s->payers.count; i++) {
        RON_TRY(make_ledger_client(s, i, inflight_max, err));
    }
    return RON_OK;
}
