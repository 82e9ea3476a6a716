/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/front/tx.c - a receipt by its txid, rebuilt from the ledger's entry, and its offline
 * proof.
 *
 * Place: service; steps of a read. The receipt is the one that the write was answered with, byte
 * for byte: everything in it follows from the entry, the idem_id of its batch (which ends in the
 * client's key) and the commit. */
#include <string.h>

#include "wallet/front/front.h"

/* ---- from entry to operation ----------------------------------------------------------------- */

static enum wlt_op op_of(struct ron_str kind)
{
    static const struct {
        const char *kind;
        enum wlt_op op;
    } rows[] = {{"Mint", WLT_ISSUE}, {"Transfer", WLT_TRANSFER}, {"Burn", WLT_BURN},
                {"Hold", WLT_HOLD},  {"Capture", WLT_CAPTURE},   {"Release", WLT_RELEASE}};

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (ron_str_is(kind, rows[i].kind)) {
            return rows[i].op;
        }
    }
    return WLT_OP_COUNT;
}

/* False: it is no entry that a wallet wrote. */
static bool operation_of(const struct lc_found *e, struct wlt_operation *ret)
{
    enum wlt_op op = op_of(e->kind);

    if (op == WLT_OP_COUNT || e->id.len != WLT_TXID_LEN) {
        return false;
    }
    *ret = (struct wlt_operation){.op = op,
                                  .from = op == WLT_ISSUE ? (struct ron_str){0} : e->account,
                                  .to = op == WLT_ISSUE ? e->account : e->to,
                                  .asset = e->asset,
                                  .amount = e->amount,
                                  .nonce = e->account_nonce};
    memcpy(ret->txid, e->id.ptr, e->id.len);
    return true;
}

/* The caller may read one of the accounts that it touched. */
static bool allowed(struct wlt_read *r, const struct lc_found *e, struct wlt_fault *ret_fault)
{
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;

    ron_arena_init_over(&arena, room, sizeof room);
    return wlt_auth_token(r->of->site, r->token, &arena, &grant, NULL, ret_fault) &&
           (wlt_auth_read(r->of->site, &grant, e->account, e->asset, ret_fault) ||
            (e->to.len > 0 && wlt_auth_read(r->of->site, &grant, e->to, e->asset, ret_fault)));
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The scan changes the text in place, so the step that needs it again reads the copy. */
static bool read_kept(struct wlt_read *r, struct lc_found *ret)
{
    return lc_found_read((char *)(uintptr_t)ron_buf_data(&r->kept), ron_buf_len(&r->kept), ret) ==
           RON_OK;
}

static void write_receipt(struct wlt_read *r, const struct lc_done *of_batch)
{
    struct lc_found e;
    struct wlt_operation o;
    struct wlt_call call = {.ops = &o, .count = 1};
    struct lc_done done = *of_batch;
    struct wlt_fault fault;

    if (!read_kept(r, &e) || !operation_of(&e, &o)) {
        wlt_fault_set(&fault, WLT_REASON_INTERNAL, "", "unexpected response from the ledger");
        wlt_read_fail(r, &fault);
        return;
    }
    call.key = wlt_idem_key_of((struct ron_str){r->idem_id, strlen(r->idem_id)});
    done.seq_first = done.seq_last = e.seq; /* its own; root and time are the batch's */
    wlt_call_answer(&call, &done, ron_http_reply_body(r->reply));
    wlt_read_answer(r, 200, "application/json");
}

static void got_commit(struct wlt_read *r, const struct wlt_reply *reply)
{
    struct lc_outcome_of_key o;

    if (reply->kind == WLT_REPLY_ANSWERED && reply->status == 200 &&
        lc_outcome_read(reply->bytes, reply->len, &o) == RON_OK && o.outcome == LC_COMMITTED) {
        write_receipt(r, &o.done);
    } else {
        wlt_read_failed(r, reply);
    }
}

void wlt_tx_got_entry(struct wlt_read *r, const struct wlt_reply *reply)
{
    struct lc_found e;
    struct wlt_operation o;
    struct wlt_fault fault = {0};
    struct ron_str idem;

    if (reply->kind != WLT_REPLY_ANSWERED || reply->status != 200) {
        wlt_read_failed(r, reply);
        return;
    }
    ron_buf_clear(&r->kept);
    RON_IGNORE(ron_buf_append(&r->kept, reply->bytes, reply->len));
    if (lc_found_read(reply->bytes, reply->len, &e) != RON_OK) {
        wlt_fault_set(&fault, WLT_REASON_INTERNAL, "", "unexpected response from the ledger");
        wlt_read_fail(r, &fault);
        return;
    }
    idem = e.idem_id;
    if (!operation_of(&e, &o) || wlt_idem_key_of(idem).len == 0) {
        wlt_fault_set(&fault, WLT_REASON_NOT_FOUND, "", "entry was not written by a wallet");
        wlt_read_fail(r, &fault);
        return;
    }
    if (!allowed(r, &e, &fault)) {
        wlt_read_fail(r, &fault);
        return;
    }
    ron_buf_clear(&r->payload);
    if (r->proof) {
        lc_target_receipt(&r->payload, e.seq);
        wlt_read_ask(r, LC_CODE_READ, wlt_read_pass_on);
        return;
    }
    memcpy(r->idem_id, idem.ptr, idem.len);
    r->idem_id[idem.len] = '\0';
    lc_target_outcome(&r->payload, idem);
    wlt_read_ask(r, LC_CODE_READ, got_commit);
}
