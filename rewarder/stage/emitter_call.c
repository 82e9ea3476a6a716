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

static struct ron_breaker *breaker_of(struct rwd_emitter *m, const struct emit_call *c)
{
    return &m->settle->payers.of[c->which].breaker;
}

/* timeouts.read, unless timeouts.rpc is stricter. */
static struct ron_deadline call_deadline(const struct rwd_emitter *m, uint64_t now_ns)
{
    uint64_t read_ms = (uint64_t)ron_conf_ms(m->core->conf, RON_APP_READ_TIMEOUT);
    uint64_t rpc_ms = (uint64_t)ron_conf_ms(m->core->conf, RWD_RPC);

    return ron_deadline_after_ms(now_ns, rpc_ms != 0 ? RON_MIN(rpc_ms, read_ms) : read_ms);
}

static enum ron_rc call_wallet(struct rwd_emitter *m, struct emit_call *c,
                               const struct rwd_issue *issue)
{
    const struct ron_app_token *token = ron_app_tokens_get(&m->settle->token);
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
    RON_TRY(ron_breaker_admit(breaker_of(m, c), &c->ticket, NULL));
    (void)snprintf(url, sizeof url, "%s%s", ron_conf_str(m->core->conf, RWD_WALLET_URL).text,
                   issue->path);
    c->sent_ns = ron_env_now_ns(m->core->env);
    rc = ron_http_fetch_start(
        m->settle->wallet,
        &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                      .url = url,
                                      .headers = headers,
                                      .header_count = RON_ARRAY_LEN(headers),
                                      .body = {ron_buf_text(&c->payload), ron_buf_len(&c->payload)},
                                      .idempotent = true,
                                      .trace = c->m->trace,
                                      .deadline = call_deadline(m, c->sent_ns),
                                      .done = fetched,
                                      .arg = c},
        &c->fetch, &err);
    ron_wipe(bearer, sizeof bearer);
    if (rc != RON_OK) {
        ron_breaker_report(breaker_of(m, c), c->ticket, RON_CALL_VOID);
        return rc;
    }
    c->m->out++;
    return RON_OK;
}

static enum ron_rc call_ledger(struct rwd_emitter *m, struct emit_call *c, uint16_t code)
{
    const struct ron_app_token *token = ron_app_tokens_get(&m->settle->token);

    c->which = lc_ledgers_now(&m->settle->payers);
    if (ron_breaker_admit(breaker_of(m, c), &c->ticket, NULL) != RON_OK) {
        RON_IGNORE(lc_ledgers_silent(&m->settle->payers, c->which)); /* another one, next time */
        return RON_AGAIN;
    }
    ron_buf_clear(&c->answer);
    c->sent_ns = ron_env_now_ns(m->core->env);
    c->ask = (struct ron_oap_ask){.app = LC_APP,
                                  .code = code,
                                  .cap = token->text.ptr,
                                  .cap_len = (uint16_t)token->text.len,
                                  .payload = ron_buf_data(&c->payload),
                                  .payload_len = ron_buf_len(&c->payload),
                                  .trace = c->m->trace,
                                  .deadline = call_deadline(m, c->sent_ns),
                                  .done = answered,
                                  .answer_to = &c->answer,
                                  .user = c};
    if (ron_oap_ask_send(m->settle->ledger[c->which], &c->ask) != RON_OK) {
        ron_breaker_report(breaker_of(m, c), c->ticket, RON_CALL_VOID);
        return RON_FULL;
    }
    c->m->out++;
    return RON_OK;
}

/* ---- what answers mean ----------------------------------------------------------------------- */

static struct rwd_emit_source source_of(const struct rwd_emitter *m, const struct settling *x)
{
    const struct rwd_policy *p = rwd_policy_of(x->policy);
    const struct ron_app_token *token = ron_app_tokens_get(&m->settle->token);
    struct ron_conf_str salt = ron_conf_str(m->core->conf, RWD_SALT);

    return (struct rwd_emit_source){
        .manifest = &x->manifest,
        .payouts = x->payouts,
        .asset = p->asset,
        .funding_account = p->funding_account,
        .kid = {token->kid, strlen(token->kid)},
        .capability_ref = {"rewarder", 8},
        .claim_salt = {salt.text, rwd__emitter_claims(m) ? salt.len : 0}};
}

void rwd__emitter_word(struct rwd_emitter *m, struct rwd_emit_batch *slot, enum rwd_emit_word word,
                       const struct lc_done *done, const char *message)
{

    if (word == RWD_WORD_DONE && slot->step == RWD_EMIT_SEND) {
        rwd_count_of(m->core, RWD_M_INTENTS, done->replayed ? "dup" : "accepted", slot->row.count);
    } else if (word == RWD_WORD_REFUSED) {
        rwd_count_of(m->core, RWD_M_INTENTS, "error", slot->row.count);
    } else if (word == RWD_WORD_LATER) {
        rwd_count_of(m->core, RWD_M_RETRIES, "unavailable", 1);
    }
    rwd_emit_word(&m->emit, slot, word, done, message, ron_env_wall_ms(m->core->env),
                  (uint32_t)m->core->env->rand_u64(m->core->env));
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
static void look_elsewhere(struct rwd_emitter *m, struct emit_call *c)
{
    struct lc_refusal refusal;
    struct ron_buf copy; /* reading changes it, and the batch reads it too */

    if (c->ask.outcome == RON_OAP_UNKNOWN || c->ask.outcome == RON_OAP_NOT_SENT) {
        RON_IGNORE(lc_ledgers_silent(&m->settle->payers, c->which));
        return;
    }
    if (c->ask.outcome != RON_OAP_ANSWERED || c->ask.status != 421) {
        return;
    }
    ron_buf_init(&copy, ron_buf_len(&c->answer) + 1);
    if (ron_buf_append(&copy, ron_buf_data(&c->answer), ron_buf_len(&c->answer)) != RON_OK ||
        lc_refusal_read((char *)(uintptr_t)ron_buf_data(&copy), ron_buf_len(&copy), &refusal) !=
            RON_OK ||
        !lc_ledgers_refused(&m->settle->payers, c->which, refusal.leader)) {
        RON_IGNORE(lc_ledgers_silent(&m->settle->payers, c->which));
    }
    ron_buf_done(&copy);
}

static enum rwd_emit_word hear_ledger(struct rwd_emitter *m, const struct settling *x,
                                      struct emit_call *c, struct lc_done *ret_done, char *message)
{
    struct rwd_emit_source source = source_of(m, x);

    if (c->ask.outcome == RON_OAP_UNKNOWN) {
        rwd_timed_out(m->core, "ledger_rpc", "ledger");
    }
    look_elsewhere(m, c);
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
        word = hear_ledger(m, x, c, &done, message);
        status = c->ask.outcome == RON_OAP_ANSWERED && c->ask.rc == RON_OK ? c->ask.status : 0;
    }
    ron_breaker_report(breaker_of(m, c), c->ticket,
                       status != 0 && status < 500 ? RON_CALL_SUCCESS : RON_CALL_FAILURE);
    if (c->slot->step == RWD_EMIT_SEND) {
        rwd_observe(m->core, RWD_M_EMIT_LATENCY, ron_env_now_ns(m->core->env) - c->sent_ns);
    }
    rwd__emitter_word(m, c->slot, word, &done, message);
}

void rwd__emitter_send(struct rwd_emitter *m, struct settling *x, struct rwd_emit_batch *slot)
{
    struct rwd_emit_source source = source_of(m, x);
    struct emit_call *c = &m->calls[slot - m->emit.slots];
    struct lc_done none = {0};
    struct ron_err err = {0};
    struct rwd_issue issue;
    uint16_t code = 0;
    enum ron_rc rc;

    c->slot = slot;
    ron_buf_clear(&c->payload);
    rc = m->settle->wallet != NULL ? rwd_emit_issue(&source, slot, &issue, &c->payload, &err)
                                   : rwd_emit_request(&source, slot, &code, &c->payload, &err);
    if (rc != RON_OK) { /* files that are damaged are no reason to try again */
        rwd__emitter_word(m, slot, rc == RON_CORRUPT ? RWD_WORD_REFUSED : RWD_WORD_LATER, &none,
                          err.msg);
    } else if ((m->settle->wallet != NULL ? call_wallet(m, c, &issue) : call_ledger(m, c, code)) !=
               RON_OK) {
        rwd__emitter_word(m, slot, RWD_WORD_LATER, &none,
                          "no call is made now: too many have failed, or too many are under way");
    }
}

/* ---- clients --------------------------------------------------------------------------------- */
