/* SPDX-License-Identifier: Apache-2.0 */
/* interop/act/wallet.c - an operation of the wallet, with a capability for it alone.
 *
 * Place: service. The capability is narrowed from this service's own (wallet.token_file), which
 * needs no key, or issued by a passport service (passport.url). Either way it names the operation,
 * one account, the asset, the amount as a ceiling, and an end within auth.capability_ttl. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "interop/act/act.h"
#include "interop/core/metrics.h"
#include "ron/base/alloc.h"
#include "ron/cap/cap.h"

enum { CAVEATS = 5, CAVEAT_SIZE = RON_CAP_CAVEAT_MAX };

/* What the capability has to say, as caveats. False: the action is not well formed. */
static bool write_caveats(struct iop_actor *a, const struct iop_act *act,
                          char texts[CAVEATS][CAVEAT_SIZE], struct ron_str ret[CAVEATS])
{
    uint64_t ttl_s = (uint64_t)ron_conf_ms(a->of->core->conf, IOP_CAP_TTL) / 1000;
    struct iop_doc body;
    char account[IOP_ACCOUNT_MAX + 1];
    char asset[IOP_ASSET_MAX + 1];
    char amount[48];

    if (!iop_doc_init(&body, act->got->body.ptr, act->got->body.len) ||
        (!iop_act_text(&body, "/from", account, sizeof account) &&
         !iop_act_text(&body, "/to", account, sizeof account)) ||
        !iop_act_text(&body, "/asset", asset, sizeof asset) ||
        !iop_act_text(&body, "/amount_minor", amount, sizeof amount)) {
        return false;
    }
    (void)snprintf(texts[0], CAVEAT_SIZE, "scope = wallet.%s", act->op);
    (void)snprintf(texts[1], CAVEAT_SIZE, "account = %s", account);
    (void)snprintf(texts[2], CAVEAT_SIZE, "asset = %s", asset);
    (void)snprintf(texts[3], CAVEAT_SIZE, "max = %s", amount);
    (void)snprintf(texts[4], CAVEAT_SIZE, "exp = %" PRIu64,
                   ron_env_wall_ms(a->of->core->env) / 1000 + ttl_s);
    for (size_t i = 0; i < CAVEATS; i++) {
        ret[i] = (struct ron_str){texts[i], strlen(texts[i])};
    }
    return true;
}

/* ---- passport -------------------------------------------------------------------------------- */

/* Asks once: issuing is no idempotent act, and the journal attempts the whole again. */
static enum ron_rc ask_passport(struct iop_actor *a, struct iop_act *act,
                                const struct ron_str caveats[CAVEATS])
{
    const struct ron_http_fetch_result *r;
    struct ron_http_fetch_header headers[] = {{"Content-Type", {"application/json", 16}}};
    struct ron_http_fetch *f = NULL;
    struct ron_json_writer j;
    struct ron_err err = {0};
    struct ron_buf body;
    struct iop_doc doc;
    char url[IOP_URL_MAX];
    void *item = NULL;
    enum ron_rc rc;

    ron_buf_init(&body, 8192);
    ron_json_begin(&j, &body);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "subject_ref", "svc-interop");
    ron_json_text(&j, "audience", "svc-wallet");
    ron_json_u64(&j, "ttl_s", (uint64_t)ron_conf_ms(a->of->core->conf, IOP_CAP_TTL) / 1000);
    ron_json_open(&j, "caveats", '[');
    for (size_t i = 0; i < CAVEATS; i++) {
        ron_json_str(&j, NULL, caveats[i]);
    }
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
    (void)snprintf(url, sizeof url, "%s/v1/passport/issue",
                   ron_conf_str(a->of->core->conf, IOP_PASSPORT_URL).text);
    rc = ron_http_fetch_start(a->of->up->passport,
                              &(struct ron_http_fetch_opts){
                                  .method = RON_HTTP_POST,
                                  .url = url,
                                  .headers = headers,
                                  .header_count = 1,
                                  .body = {(const char *)ron_buf_data(&body), ron_buf_len(&body)},
                                  .done_chan = a->ends},
                              &f, &err);
    ron_buf_done(&body);
    if (rc == RON_OK) {
        rc = ron_chan_recv(a->ends, ron_deadline_never(), &item);
    }
    if (rc != RON_OK) {
        return rc;
    }
    r = ron_http_fetch_result(f);
    iop_upstream(a->of->bridge, "passport", "issue", r->status != 0 && r->status < 500,
                 r->took_ms * RON_NS_PER_MS);
    rc = r->rc;
    if (rc == RON_OK) {
        char *token = (char *)ron_alloc(RON_CAP_TEXT_MAX + 1);

        rc = token == NULL ? RON_NOMEM
             : iop_doc_init(&doc, r->body.ptr, r->body.len) &&
                     iop_act_text(&doc, "/token", token, RON_CAP_TEXT_MAX + 1)
                 ? ron_buf_append_text(&act->token, token)
                 : RON_CORRUPT;
        if (token != NULL) {
            ron_wipe(token, RON_CAP_TEXT_MAX + 1);
            ron_free(token);
        }
    }
    ron_http_fetch_release(f);
    return rc;
}

void iop_wallet_prepare(struct iop_actor *a, struct iop_act *act)
{
    char texts[CAVEATS][CAVEAT_SIZE];
    struct ron_str caveats[CAVEATS];
    const struct ron_app_token *own;
    struct ron_err err = {0};
    char op[16] = "";

    (void)iop_act_text(&act->head, "/op", op, sizeof op);
    act->op = strcmp(op, "issue") == 0      ? "issue"
              : strcmp(op, "transfer") == 0 ? "transfer"
                                            : "wallet";
    if (strcmp(act->op, "wallet") == 0 || !write_caveats(a, act, texts, caveats)) {
        act->refused = "malformed action";
        return;
    }
    RON_IGNORE(ron_buf_append_text(&act->token, "Bearer "));
    if (a->of->up->passport != NULL) {
        act->attempt.rc = ask_passport(a, act, caveats);
        ron_need_set(
            a->of->need_passport, act->attempt.rc == RON_OK ? RON_NEED_OK : RON_NEED_DEGRADED,
            act->attempt.rc == RON_OK ? "" : "passport service does not issue capabilities", 5);
    } else {
        own = ron_app_tokens_get(&a->of->wallet_token);
        act->attempt.rc = ron_cap_attenuate(own->text, 0, caveats, CAVEATS, &act->token, &err);
    }
    if (act->attempt.rc == RON_OK) {
        iop_count_of(a->of->core, IOP_M_CAPS,
                     strcmp(act->op, "issue") == 0 ? "wallet.issue" : "wallet.transfer", 1);
    } else if (err.msg[0] != '\0') {
        RON_LOG(a->of->core->log, ERROR, "wallet capability not obtained", RON_LOG_ERR(&err));
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

void iop_wallet_start(struct iop_actor *a, struct iop_act *act)
{
    char url[IOP_URL_MAX];
    char key[IOP_IDEM_KEY_SIZE];
    char corr[RON_HTTP_CORR_ID_MAX + 1] = "";
    struct ron_err err = {0};

    if (!iop_act_text(&act->head, "/key", key, sizeof key)) {
        act->refused = "action without an idempotency key";
        return;
    }
    (void)iop_act_text(&act->head, "/corr_id", corr, sizeof corr);
    (void)snprintf(url, sizeof url, "%s/v1/%s",
                   ron_conf_str(a->of->core->conf, IOP_WALLET_URL).text, act->op);
    struct ron_http_fetch_header headers[] = {
        {"Content-Type", {"application/json", 16}},
        {"Idempotency-Key", {key, strlen(key)}},
        {"Authorization", {(const char *)ron_buf_data(&act->token), ron_buf_len(&act->token)}},
    };

    act->attempt.rc = ron_http_fetch_start(
        a->of->up->wallet,
        &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                      .url = url,
                                      .op = strcmp(act->op, "issue") == 0 ? 0 : 1,
                                      .headers = headers,
                                      .header_count = RON_ARRAY_LEN(headers),
                                      .corr_id = {corr, strlen(corr)},
                                      .body = act->got->body,
                                      .idempotent = true, /* it carries a key */
                                      .done_chan = a->ends},
        &act->fetch, &err);
    if (act->attempt.rc != RON_OK) {
        act->fetch = NULL;
        iop_upstream(a->of->bridge, "wallet", act->op, act->attempt.rc == RON_FULL, 0);
    }
}

/* A refusal of who we are (401, 403) is a mistake of the settings, and money was taken: it is tried
 * again until somebody mends them. So is what the wallet itself calls worth another try. */
void iop_wallet_judge(struct iop_act *act)
{
    struct iop_attempt *at = &act->attempt;
    struct iop_doc doc;
    char word[8];

    if (at->rc != RON_OK || act->fetch == NULL) {
        return;
    }
    if (at->status == 401 || at->status == 403 || at->status == 410) {
        at->status = 503;
    } else if (at->status == 409) {
        struct ron_str body = ron_http_fetch_result(act->fetch)->body;

        if (iop_doc_init(&doc, body.ptr, body.len) &&
            iop_act_text(&doc, "/retryable", word, sizeof word) && strcmp(word, "true") == 0) {
            at->status = 503;
        }
    }
}
