/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/front/routes.c - the routes of the wallet, and those that read: balance, history, tx,
 * receipts, outcome and cancel. api/wallet.yaml describes all of it.
 *
 * Place: service. Handlers run on the workers of the HTTP front, steps on the client's task. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"
#include "ron/http/etag.h"
#include "wallet/core/metrics.h"
#include "wallet/front/front.h"

/* ---- parameters ------------------------------------------------------------------------------ */

static void bad(struct wlt_site *s, struct ron_http_call *call, const char *member,
                const char *detail)
{
    struct wlt_fault fault;

    wlt_fault_set(&fault, WLT_REASON_BAD_REQUEST, member, detail);
    wlt_fail(s, call, &fault);
}

/* Whether the query has only these names, each at most once. */
static bool only(struct ron_str query, const char *const *names, size_t count)
{
    uint32_t seen = 0;
    struct ron_str name;
    struct ron_str value;

    while (ron_http_query_next(&query, &name, &value)) {
        size_t i = 0;

        while (i < count && !ron_str_is(name, names[i])) {
            i++;
        }
        if (i == count || (seen & (1U << i)) != 0) {
            return false;
        }
        seen |= 1U << i;
    }
    return true;
}

static bool text_char(char c, const char *more)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(more, c) != NULL);
}

static bool all_of(struct ron_str text, size_t max, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!text_char(text.ptr[i], more)) {
            return false;
        }
    }
    return text.len > 0 && text.len <= max;
}

/* Opens the caller's token; false: answered. */
static bool open_grant(struct wlt_site *s, struct ron_http_call *call, struct ron_arena *arena,
                       struct ron_cap_grant *ret)
{
    struct wlt_fault fault = {0};

    if (!wlt_auth_open(s, call, arena, ret, NULL, &fault)) {
        wlt_fail(s, call, &fault);
        return false;
    }
    return true;
}

/* A read with its reply; NULL: answered. */
static struct wlt_read *begin(struct wlt_front *f, struct ron_http_call *call)
{
    struct wlt_read *r = wlt_read_get(f->reads);

    if (r != NULL && ron_http_defer(call, &r->reply) != RON_OK) {
        wlt_read_put(r);
        r = NULL;
    }
    if (r == NULL) {
        struct wlt_fault fault;

        wlt_fault_set(&fault, WLT_REASON_BUSY, "", "too many requests in progress");
        wlt_fail(f->site, call, &fault);
    }
    return r;
}

static void keep(char *to, uint16_t *ret_len, struct ron_str from)
{
    memcpy(to, from.ptr, from.len);
    *ret_len = (uint16_t)from.len;
}

/* ---- balance --------------------------------------------------------------------------------- */

struct balance_text {
    char body[WLT_ACCOUNT_MAX + 320];
    size_t len;
    char etag[64];
};

/* Weak, as `stale_ms` of one version differs from answer to answer. */
static void write_balance(struct balance_text *t, struct ron_str account, struct ron_str asset,
                          struct wlt_key pair, const struct wlt_balance *b, uint64_t stale_ms)
{
    struct ron_buf out;
    struct ron_json_writer j;

    ron_buf_init_over(&out, t->body, sizeof t->body);
    ron_json_begin(&j, &out);
    ron_json_open(&j, NULL, '{');
    ron_json_str(&j, "account", account);
    ron_json_str(&j, "asset", asset);
    ron_json_money(&j, "amount_minor", b->available);
    ron_json_money(&j, "held_minor", b->held);
    ron_json_u64(&j, "as_of_seq", b->seq);
    ron_json_u64(&j, "stale_ms", stale_ms);
    ron_json_close(&j, '}');
    t->len = ron_buf_len(&out);
    (void)snprintf(t->etag, sizeof t->etag, "W/\"%" PRIu64 ".%08" PRIx64 "\"", b->last_seq,
                   pair.a >> 32);
}

/* Whether the client has this version already. */
static bool has_version(struct ron_str if_none_match, const char *etag)
{
    struct ron_http_etag tag;
    bool in = false;

    return if_none_match.len > 0 &&
           ron_http_etag_parse((struct ron_str){etag, strlen(etag)}, &tag) == RON_OK &&
           ron_http_etag_in(if_none_match, &tag, false, &in) == RON_OK && in;
}

static void answer_cached(struct wlt_site *s, struct ron_http_call *call, struct ron_str account,
                          struct ron_str asset, struct wlt_key pair, const struct wlt_balance *b,
                          uint64_t stale_ms)
{
    struct balance_text t;
    struct ron_str condition = {0};

    write_balance(&t, account, asset, pair, b, stale_ms);
    RON_IGNORE(ron_http_field_get(ron_http_head(call), "if-none-match", &condition));
    RON_IGNORE(ron_http_add_header(call, "ETag", (struct ron_str){t.etag, strlen(t.etag)}));
    RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("private, no-cache")));
    if (has_version(condition, t.etag)) {
        wlt_metrics_not_modified(s);
        ron_http_answer(call, 304, NULL, NULL, 0);
    } else {
        ron_http_answer(call, 200, "application/json", t.body, t.len);
    }
}

static void answer_balance(struct wlt_read *r, const struct wlt_balance *b, uint64_t stale_ms)
{
    struct balance_text t;

    write_balance(&t, (struct ron_str){r->account, r->account_len},
                  (struct ron_str){r->asset, r->asset_len}, r->pair_key, b, stale_ms);
    RON_IGNORE(
        ron_http_reply_add_header(r->reply, "ETag", (struct ron_str){t.etag, strlen(t.etag)}));
    RON_IGNORE(
        ron_http_reply_add_header(r->reply, "Cache-Control", RON_STR_LIT("private, no-cache")));
    if (has_version((struct ron_str){r->if_none_match, strlen(r->if_none_match)}, t.etag)) {
        wlt_metrics_not_modified(r->of->site);
        wlt_read_answer(r, 304, NULL);
        return;
    }
    RON_IGNORE(ron_buf_append(ron_http_reply_body(r->reply), t.body, t.len));
    wlt_read_answer(r, 200, "application/json");
}

/* Monotonic ms as of which a value of the cache is known to be true. `fresh_ms` was loaded before
 * the value: later it may count a change that the value has not seen. */
static uint64_t true_ms(const struct wlt_balance *b, uint64_t fresh_ms)
{
    return b->outdated_ms != 0 ? b->outdated_ms : RON_MAX(b->loaded_ms, fresh_ms);
}

static void got_balance(struct wlt_read *r, const struct wlt_reply *reply)
{
    struct lc_account account = {0};
    uint64_t now_ms = ron_env_now_ns(r->of->site->env) / RON_NS_PER_MS;
    struct lc_refusal refusal;

    if (reply->kind == WLT_REPLY_ANSWERED && reply->status == 200 &&
        lc_account_read(reply->bytes, reply->len, (struct ron_str){r->asset, r->asset_len},
                        &account) == RON_OK) {
        struct wlt_balance b = {.available = account.available,
                                .held = account.held,
                                .seq = account.seq,
                                .last_seq = account.last_seq,
                                .loaded_ms = r->sent_ms};

        wlt_cache_put(r->of->core->cache, r->account_key, r->pair_key, &b);
        answer_balance(r, &b, now_ms - r->sent_ms);
        return;
    }
    if (reply->kind == WLT_REPLY_ANSWERED && reply->status == 404 &&
        lc_refusal_read(reply->bytes, reply->len, &refusal) == RON_OK &&
        refusal.reason == LC_REASON_NOT_FOUND) {
        /* Nothing ever named it, so it has nothing. Not kept: names cost strangers nothing. */
        answer_balance(r, &(struct wlt_balance){0}, now_ms - r->sent_ms);
        return;
    }
    if (r->has_stale) { /* the ledger does not answer: what we know, and how old it is */
        answer_balance(r, &r->stale, now_ms - RON_MIN(now_ms, r->stale_true_ms));
        return;
    }
    wlt_read_failed(r, reply);
}

struct balance_ask {
    struct ron_str account;
    struct ron_str asset;
    char account_room[WLT_ACCOUNT_MAX + 1];
    char asset_room[WLT_ASSET_MAX + 1];
    bool strong;
};

/* NULL, or what is wrong. */
static const char *read_balance_query(struct ron_str query, struct balance_ask *ret)
{
    static const char *const names[] = {"account", "asset", "consistency"};
    char room[16];
    struct ron_str mode = RON_STR_LIT("cached");

    if (!only(query, names, RON_ARRAY_LEN(names))) {
        return "expected only account, asset and consistency, each at most once";
    }
    ret->asset = RON_STR_LIT("roc");
    if (ron_http_query_get(query, "account", ret->account_room, sizeof ret->account_room,
                           &ret->account) != RON_OK ||
        !wlt_account_valid(ret->account)) {
        return "account: expected 1 to 256 of A-Z a-z 0-9 : / - _";
    }
    if (ron_http_query_get(query, "asset", ret->asset_room, sizeof ret->asset_room, &ret->asset) ==
            RON_INVALID ||
        !wlt_asset_valid(ret->asset)) {
        return "asset: expected 1 to 32 of a-z 0-9 . _ -, starting with a letter";
    }
    RON_IGNORE(ron_http_query_get(query, "consistency", room, sizeof room, &mode));
    ret->strong = ron_str_is(mode, "strong");
    return ret->strong || ron_str_is(mode, "cached") ? NULL
                                                     : "consistency: expected strong or cached";
}

static void load_balance(struct wlt_front *f, struct ron_http_call *call,
                         const struct balance_ask *ask, struct wlt_key account, struct wlt_key pair,
                         const struct wlt_balance *stale, uint64_t stale_true_ms)
{
    struct wlt_read *r = begin(f, call);
    struct ron_str condition = {0};

    if (r == NULL) {
        return;
    }
    keep(r->account, &r->account_len, ask->account);
    keep(r->asset, &r->asset_len, ask->asset);
    r->account_key = account;
    r->pair_key = pair;
    r->has_stale = stale != NULL && !ask->strong;
    if (r->has_stale) {
        r->stale = *stale;
        r->stale_true_ms = stale_true_ms;
    }
    if (ron_http_field_get(ron_http_head(call), "if-none-match", &condition) == RON_OK &&
        condition.len < sizeof r->if_none_match) {
        memcpy(r->if_none_match, condition.ptr, condition.len);
        r->if_none_match[condition.len] = '\0';
    }
    lc_target_account(&r->payload, ask->account);
    wlt_read_ask(r, LC_CODE_READ, got_balance);
}

static void on_balance(struct ron_http_call *call, void *arg)
{
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);
    struct wlt_site *s = f->site;
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct balance_ask ask;
    struct wlt_fault fault = {0};
    struct wlt_balance b;
    struct wlt_key account;
    struct wlt_key pair;
    const char *wrong;
    uint64_t fresh_ms;
    uint64_t at_ms;
    bool found;

    wlt_metrics_read(s, "balance");
    ron_arena_init_over(&arena, room, sizeof room);
    if (!open_grant(s, call, &arena, &grant)) {
        return;
    }
    wrong = read_balance_query(ron_http_head(call)->query, &ask);
    if (wrong != NULL) {
        bad(s, call, "query", wrong);
        return;
    }
    if (!wlt_auth_read(s, &grant, ask.account, ask.asset, &fault)) {
        wlt_fail(s, call, &fault);
        return;
    }
    account = wlt_key_of(&f->core->secret, WLT_KEY_ACCOUNT, ask.account, (struct ron_str){0});
    pair = wlt_key_of(&f->core->secret, WLT_KEY_ACCOUNT_ASSET, ask.account, ask.asset);
    fresh_ms = wlt_follow_fresh_ms(f->follow);
    found = wlt_cache_get(f->core->cache, account, pair, &b);
    at_ms = found ? true_ms(&b, fresh_ms) : 0;
    if (found && !ask.strong && b.outdated_ms == 0) {
        uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;

        if (now_ms <= at_ms + f->staleness_ms) {
            answer_cached(s, call, ask.account, ask.asset, pair, &b,
                          now_ms > at_ms ? now_ms - at_ms : 0);
            return;
        }
    }
    load_balance(f, call, &ask, account, pair, found ? &b : NULL, at_ms);
}

/* ---- what the ledger's answer is passed on as it is ------------------------------------------ */

void wlt_read_pass_on(struct wlt_read *r, const struct wlt_reply *reply)
{
    if (reply->kind != WLT_REPLY_ANSWERED || reply->status != 200) {
        wlt_read_failed(r, reply);
        return;
    }
    RON_IGNORE(ron_buf_append(ron_http_reply_body(r->reply), reply->bytes, reply->len));
    RON_IGNORE(
        ron_http_reply_add_header(r->reply, "Cache-Control", RON_STR_LIT("private, no-cache")));
    wlt_read_answer(r, 200, r->proof ? "text/plain; charset=utf-8" : "application/json");
}

static bool ends_with(struct ron_str *path, const char *suffix)
{
    size_t len = strlen(suffix);

    if (path->len <= len || memcmp(path->ptr + path->len - len, suffix, len) != 0) {
        return false;
    }
    path->len -= len;
    return true;
}

/* GET /v1/accounts/{account}/history */
static void on_history(struct ron_http_call *call, void *arg)
{
    static const char *const names[] = {"before", "limit"};
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);
    struct wlt_site *s = f->site;
    struct ron_str path = ron_http_param(call, 0);
    struct ron_str query = ron_http_head(call)->query;
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct wlt_fault fault = {0};
    char name[WLT_ACCOUNT_MAX + 1];
    struct ron_str account = {name, 0};
    struct wlt_read *r;

    wlt_metrics_read(s, "history");
    ron_arena_init_over(&arena, room, sizeof room);
    if (!open_grant(s, call, &arena, &grant)) {
        return;
    }
    if (!ends_with(&path, "/history")) {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
        return;
    }
    if (ron_http_percent_decode(path, false, name, sizeof name, &account.len) != RON_OK ||
        !wlt_account_valid(account)) {
        bad(s, call, "account", "expected 1 to 256 of A-Z a-z 0-9 : / - _");
        return;
    }
    if (!only(query, names, RON_ARRAY_LEN(names)) || query.len > 64) {
        bad(s, call, "query", "expected only before and limit, each at most once");
        return;
    }
    if (!wlt_auth_read(s, &grant, account, (struct ron_str){0}, &fault)) {
        wlt_fail(s, call, &fault);
        return;
    }
    r = begin(f, call);
    if (r == NULL) {
        return;
    }
    lc_target_history(&r->payload, account, query);
    wlt_read_ask(r, LC_CODE_READ, wlt_read_pass_on);
}

/* ---- tx and receipts: see tx.c ----------------------------------------------------------- */

static void by_txid(struct ron_http_call *call, void *arg, bool proof)
{
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);
    struct wlt_site *s = f->site;
    struct ron_str txid = ron_http_param(call, 0);
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct wlt_fault fault = {0};
    struct wlt_read *r;

    wlt_metrics_read(s, proof ? "receipt" : "tx");
    ron_arena_init_over(&arena, room, sizeof room);
    if (!open_grant(s, call, &arena, &grant)) {
        return;
    }
    if (!all_of(txid, WLT_TXID_LEN, "_") || txid.len != WLT_TXID_LEN ||
        memcmp(txid.ptr, "tx_", 3) != 0) {
        wlt_fault_set(&fault, WLT_REASON_NOT_FOUND, "txid",
                      "expected tx_ and 32 hexadecimal digits");
        wlt_fail(s, call, &fault);
        return;
    }
    r = begin(f, call);
    if (r == NULL) {
        return;
    }
    keep(r->text, &r->text_len, txid);
    r->proof = proof;
    RON_IGNORE(wlt_auth_bearer(call, &r->token) == RON_CAP_OK); /* it was good above */
    lc_target_by_id(&r->payload, txid);
    wlt_read_ask(r, LC_CODE_READ, wlt_tx_got_entry);
}

static void on_tx(struct ron_http_call *call, void *arg)
{
    by_txid(call, arg, false);
}

static void on_receipt(struct ron_http_call *call, void *arg)
{
    by_txid(call, arg, true);
}

/* ---- outcome --------------------------------------------------------------------------------- */

static const char *const outcome_names[] = {"committed", "cancelled", "in_flight", "unknown"};

static void write_outcome(struct wlt_read *r, const struct lc_outcome_of_key *o)
{
    struct ron_json_writer j;

    ron_json_begin(&j, ron_http_reply_body(r->reply));
    ron_json_open(&j, NULL, '{');
    ron_json_str(&j, "idempotency_key", (struct ron_str){r->text, r->text_len});
    ron_json_text(&j, "op", r->op == WLT_OP_COUNT ? "batch" : wlt_op_info(r->op)->name);
    ron_json_str(&j, "account", (struct ron_str){r->account, r->account_len});
    ron_json_text(&j, "outcome", outcome_names[o->outcome]);
    if (o->outcome == LC_COMMITTED) {
        char hex[2 * LC_HASH_BYTES + 1];

        ron_hex(o->done.root, LC_HASH_BYTES, hex);
        ron_json_u64(&j, "ledger_seq_start", o->done.seq_first);
        ron_json_u64(&j, "ledger_seq_end", o->done.seq_last);
        ron_json_text(&j, "ledger_root", hex);
        ron_json_u64(&j, "ts", o->done.commit_ms);
    }
    ron_json_close(&j, '}');
    wlt_read_answer(r, 200, "application/json");
}

static void got_outcome(struct wlt_read *r, const struct wlt_reply *reply)
{
    struct lc_outcome_of_key o;

    if (reply->kind == WLT_REPLY_ANSWERED && reply->status == 200 &&
        lc_outcome_read(reply->bytes, reply->len, &o) == RON_OK) {
        write_outcome(r, &o);
    } else {
        wlt_read_failed(r, reply);
    }
}

struct key_ask {
    struct ron_str key;
    struct ron_str account;
    enum wlt_op op;
    char key_room[WLT_KEY_MAX + 1];
    char account_room[WLT_ACCOUNT_MAX + 1];
};

/* NULL, or what is wrong. */
static const char *read_key_ask(struct ron_str path, struct ron_str query, struct key_ask *ret)
{
    static const char *const names[] = {"op", "account"};
    char room[16];
    struct ron_str op = {0};

    ret->key.ptr = ret->key_room;
    if (ron_http_percent_decode(path, false, ret->key_room, sizeof ret->key_room, &ret->key.len) !=
            RON_OK ||
        !wlt_key_valid(ret->key)) {
        return "key: expected 1 to 64 of A-Z a-z 0-9 . _ : -";
    }
    if (!only(query, names, RON_ARRAY_LEN(names)) ||
        ron_http_query_get(query, "op", room, sizeof room, &op) != RON_OK) {
        return "expected exactly op and account";
    }
    ret->op = wlt_op_parse(op);
    if (ret->op == WLT_OP_COUNT && !ron_str_is(op, "batch")) {
        return "op: expected issue, transfer, burn, hold, capture, release or batch";
    }
    if (ron_http_query_get(query, "account", ret->account_room, sizeof ret->account_room,
                           &ret->account) != RON_OK ||
        !wlt_account_valid(ret->account)) {
        return "account: expected the debited account, or for an issue the credited one";
    }
    return NULL;
}

static void about_key(struct ron_http_call *call, struct wlt_front *f, struct ron_str path,
                      bool cancel)
{
    struct wlt_site *s = f->site;
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct wlt_fault fault = {0};
    struct key_ask ask;
    const char *wrong;
    struct wlt_read *r;
    struct wlt_operation o;
    struct wlt_call write = {.ops = &o, .count = 1};

    ron_arena_init_over(&arena, room, sizeof room);
    if (!open_grant(s, call, &arena, &grant)) {
        return;
    }
    wrong = read_key_ask(path, ron_http_head(call)->query, &ask);
    if (wrong != NULL) {
        bad(s, call, "outcome", wrong);
        return;
    }
    o = (struct wlt_operation){.op = ask.op == WLT_OP_COUNT ? WLT_TRANSFER : ask.op,
                               .from = ask.account,
                               .to = ask.account};
    if (cancel ? !wlt_auth_write(s, &grant, &write, &fault)
               : !wlt_auth_outcome(s, &grant, ask.account, &fault)) {
        wlt_fail(s, call, &fault);
        return;
    }
    r = begin(f, call);
    if (r == NULL) {
        return;
    }
    keep(r->text, &r->text_len, ask.key);
    keep(r->account, &r->account_len, ask.account);
    r->op = ask.op;
    wlt_idem_id(ask.op == WLT_OP_COUNT ? "batch" : wlt_op_info(ask.op)->name, ask.account, ask.key,
                r->idem_id);
    if (cancel) {
        RON_IGNORE(ron_buf_append_text(&r->payload, r->idem_id));
    } else {
        lc_target_outcome(&r->payload, (struct ron_str){r->idem_id, strlen(r->idem_id)});
    }
    wlt_read_ask(r, cancel ? LC_CODE_CANCEL : LC_CODE_READ, got_outcome);
}

static void on_outcome(struct ron_http_call *call, void *arg)
{
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);

    wlt_metrics_read(f->site, "outcome");
    about_key(call, f, ron_http_param(call, 0), false);
}

/* POST /v1/outcome/{key}/cancel */
static void on_cancel(struct ron_http_call *call, void *arg)
{
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);
    struct ron_str path = ron_http_param(call, 0);

    wlt_metrics_read(f->site, "cancel");
    if (!ends_with(&path, "/cancel")) {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
        return;
    }
    about_key(call, f, path, true);
}

/* ---- table ----------------------------------------------------------------------------------- */

void wlt_routes_fill(struct wlt_front *f)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_POST, "/v1/issue", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/transfer", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/burn", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/hold", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/capture", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/release", wlt_front_write, f, 0, 0},
        {RON_HTTP_POST, "/v1/batch", wlt_front_write, f, 0, 0},
        {RON_HTTP_GET, "/v1/balance", on_balance, f, 0, 0},
        {RON_HTTP_GET, "/v1/accounts/{path*}", on_history, f, 0, 0},
        {RON_HTTP_GET, "/v1/tx/{txid}", on_tx, f, 0, 0},
        {RON_HTTP_GET, "/v1/receipts/{txid}", on_receipt, f, 0, 0},
        {RON_HTTP_GET, "/v1/outcome/{key*}", on_outcome, f, 0, 0},
        {RON_HTTP_POST, "/v1/outcome/{key*}", on_cancel, f, 0, 0},
        {RON_HTTP_GET, "/v1/events", wlt_events_http, f->site, 0, 0},
    };

    memcpy(f->routes, rows, sizeof rows);
    f->route_count = RON_ARRAY_LEN(rows);
    ron_app_set_routes(f->site->app, f->routes, f->route_count);
}
