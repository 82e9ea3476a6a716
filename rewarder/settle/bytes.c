/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/settle/bytes.c - the bytes of a settlement: what is asked of the ledger, and its
 * answers.
 *
 * Place: rewarder, over the ledger's client and the files of the payouts. Reads files, so it is for
 * threads that may block.
 *
 * Invariants:
 *   1. The same manifest, row and source give the same bytes, always: the ledger then answers a
 *      repetition as it answered the first time.
 *   2. An id follows from run key, payee and amount; a nonce from run key and payee alone. So
 *      within its horizon the ledger refuses even another amount for the same payee of a run.
 *   3. The sink's residual is the last entry, under the name "residual|<sink>": no account is
 *      called so, hence it shares no key with a payout to the same account. */
#include "rewarder/settle/machine.h"
#include "ron/base/str.h"

#include "ron/base/assert.h"

/* An entry of a settlement. */
struct intent {
    char id[RWD_INTENT_KEY_SIZE];
    uint8_t nonce[LC_NONCE_BYTES];
    struct ron_str account;
    struct ron_money amount;
};

static const char sink_mark[] = "residual|";

static void name_intent(const struct ron_b3 *run_key, struct ron_str name, struct intent *in)
{
    static const char domain[] = "svc-rewarder|settlement-nonce|v1|";
    char key[RON_B3_ID_SIZE];
    struct ron_b3_hasher h;
    struct ron_b3 hash;

    rwd_intent_key(run_key, name, in->amount, in->id);
    ron_b3_format(run_key, key);
    ron_b3_init(&h);
    ron_b3_update(&h, domain, sizeof domain - 1);
    ron_b3_update(&h, key, RON_B3_ID_LEN);
    ron_b3_update(&h, "|", 1);
    ron_b3_update(&h, name.ptr, name.len);
    ron_b3_final(&h, &hash);
    memcpy(in->nonce, hash.bytes, sizeof in->nonce);
}

static void payout_intent(const struct ron_b3 *run_key, const struct rwd_payout *p,
                          struct intent *in)
{
    in->account = p->account;
    in->amount = p->amount;
    name_intent(run_key, p->account, in);
}

static void sink_intent(const struct rwd_manifest *m, struct intent *in)
{
    char name[sizeof sink_mark + RWD_ACCOUNT_MAX];
    size_t len = sizeof sink_mark - 1 + m->sink.len;

    RON_ASSERT(m->sink.len <= RWD_ACCOUNT_MAX);
    memcpy(name, sink_mark, sizeof sink_mark - 1);
    memcpy(name + sizeof sink_mark - 1, m->sink.ptr, m->sink.len);
    in->account = m->sink;
    in->amount = m->totals.residual;
    name_intent(&m->run_key, (struct ron_str){name, len}, in);
}

/* ---- batches --------------------------------------------------------------------------------- */

struct writing {
    const struct rwd_emit_source *src;
    const struct rwd_batch *row;
    struct ron_str memo;
    struct ron_buf *out;
    uint64_t written;
};

static void write_intent(struct writing *w, const struct intent *in)
{
    const struct rwd_emit_source *src = w->src;
    bool mint = src->funding_account.len == 0;
    struct lc_entry e = {
        .kind = mint ? LC_MINT : LC_TRANSFER,
        .id = {in->id, RWD_INTENT_KEY_LEN},
        .account = mint ? in->account : src->funding_account,
        .to = mint ? (struct ron_str){0} : in->account,
        .asset = src->asset,
        .kid = src->kid,
        .capability_ref = src->capability_ref,
        .memo = w->memo,
        .amount = in->amount,
        .ts_ms = w->row->ts_ms,
    };

    memcpy(e.nonce, in->nonce, sizeof e.nonce);
    lc_batch_entry(w->out, &e);
    w->written++;
}

static bool write_payout(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    struct writing *w = arg;
    struct intent in;

    (void)index;
    payout_intent(&w->src->manifest->run_key, payout, &in);
    write_intent(w, &in);
    return ron_buf_error(w->out) == RON_OK;
}

static enum ron_rc write_batch(const struct rwd_emit_source *src, const struct rwd_batch *row,
                               struct ron_str key, struct ron_buf *out, struct ron_err *err)
{
    static const char prefix[] = "svc-rewarder:";
    const struct rwd_manifest *m = src->manifest;
    uint64_t payouts = m->payouts.count;
    char memo[sizeof prefix + RWD_EPOCH_MAX];
    struct writing w = {.src = src, .row = row, .out = out};
    struct intent in;

    RON_ASSERT(m->epoch.len <= RWD_EPOCH_MAX);
    memcpy(memo, prefix, sizeof prefix - 1);
    memcpy(memo + sizeof prefix - 1, m->epoch.ptr, m->epoch.len);
    w.memo = (struct ron_str){memo, sizeof prefix - 1 + m->epoch.len};
    lc_batch_head(out, key, false, row->count);
    if (row->first < payouts) {
        RON_TRY(rwd_payouts_each(src->payouts, row->first,
                                 RON_MIN((uint64_t)row->count, payouts - row->first), write_payout,
                                 &w, err));
    }
    if (row->first + row->count > payouts && ron_buf_error(out) == RON_OK) {
        sink_intent(m, &in);
        write_intent(&w, &in);
    }
    if (ron_buf_error(out) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "a batch of %u entries has no room",
                           (unsigned)row->count);
    }
    if (w.written != row->count) {
        return ron_err_set(err, RON_CORRUPT, "the files have %llu of the batch's %u entries",
                           (unsigned long long)w.written, (unsigned)row->count);
    }
    return RON_OK;
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* A payout that outlives the call which gave it. */
struct kept {
    const struct ron_b3 *run_key;
    struct intent in;
    char account[RWD_ACCOUNT_MAX];
    bool found;
};

static bool keep_payout(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    struct kept *k = arg;

    (void)index;
    RON_ASSERT(payout->account.len <= sizeof k->account);
    payout_intent(k->run_key, payout, &k->in);
    memcpy(k->account, payout->account.ptr, payout->account.len);
    k->in.account.ptr = k->account;
    k->found = true;
    return false;
}

static enum ron_rc read_intent(const struct rwd_emit_source *src, uint64_t index, struct kept *k,
                               struct ron_err *err)
{
    k->run_key = &src->manifest->run_key;
    k->found = false;
    if (index >= src->manifest->payouts.count) {
        sink_intent(src->manifest, &k->in);
        return RON_OK;
    }
    RON_TRY(rwd_payouts_each(src->payouts, index, 1, keep_payout, k, err));
    if (!k->found) {
        return ron_err_set(err, RON_CORRUPT, "the files have no payout %llu",
                           (unsigned long long)index);
    }
    return RON_OK;
}

static uint64_t looked_up(const struct rwd_emit_batch *slot)
{
    return slot->row.first + slot->lookup;
}

enum ron_rc rwd_emit_request(const struct rwd_emit_source *src, const struct rwd_emit_batch *slot,
                             uint16_t *ret_code, struct ron_buf *out, struct ron_err *err)
{
    const struct rwd_batch *row = &slot->row;
    char text[RWD_BATCH_KEY_SIZE];
    struct ron_str key = {text, 0};
    struct kept k;

    RON_ASSERT(row->count >= 1 && row->first + row->count <= rwd_intent_count(src->manifest));
    if (src->claim_salt.len > 0 && row->first == 0) {
        rwd_claim_key(src->claim_salt, src->manifest->epoch, row->attempt, text);
    } else {
        rwd_batch_key(&src->manifest->run_key, row->first, row->count, row->attempt, text);
    }
    key.len = strlen(text);
    switch (slot->step) {
    case RWD_EMIT_SEND:
        RON_TRY(write_batch(src, row, key, out, err));
        *ret_code = LC_CODE_INGEST;
        return RON_OK;
    case RWD_EMIT_OUTCOME:
        lc_target_outcome(out, key);
        *ret_code = LC_CODE_READ;
        break;
    case RWD_EMIT_CANCEL:
        (void)ron_buf_append(out, key.ptr, key.len); /* the buffer keeps its error */
        *ret_code = LC_CODE_CANCEL;
        break;
    case RWD_EMIT_LOOKUP:
        RON_TRY(read_intent(src, looked_up(slot), &k, err));
        lc_target_by_id(out, (struct ron_str){k.in.id, RWD_INTENT_KEY_LEN});
        *ret_code = LC_CODE_READ;
        break;
    case RWD_EMIT_STAMP:
    case RWD_EMIT_DONE:
    case RWD_EMIT_STEP_COUNT:
    default:
        RON_UNREACHABLE();
    }
    if (ron_buf_error(out) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "a request has no room");
    }
    return RON_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_intent(const struct rwd_emit_source *src, const struct lc_found *e,
                      const struct intent *in)
{
    bool mint = src->funding_account.len == 0;

    return ron_str_equal(e->id, (struct ron_str){in->id, RWD_INTENT_KEY_LEN}) &&
           ron_str_is(e->kind, mint ? "Mint" : "Transfer") &&
           ron_str_equal(e->account, mint ? in->account : src->funding_account) &&
           ron_str_equal(e->to, mint ? (struct ron_str){0} : in->account) &&
           ron_str_equal(e->asset, src->asset) && ron_money_cmp(e->amount, in->amount) == 0;
}

static enum rwd_emit_word read_lookup(const struct rwd_emit_source *src,
                                      const struct rwd_emit_batch *slot, char *bytes, size_t len,
                                      char *message)
{
    struct lc_found f;
    struct kept k;

    if (lc_found_read(bytes, len, &f) != RON_OK ||
        read_intent(src, looked_up(slot), &k, NULL) != RON_OK) {
        return RWD_WORD_LATER;
    }
    if (is_intent(src, &f, &k.in)) {
        return RWD_WORD_KNOWN;
    }
    (void)snprintf(message, RWD_EMIT_MESSAGE_SIZE, "entry %.63s is there with another body",
                   k.in.id);
    return RWD_WORD_OTHER_BODY;
}

static enum rwd_emit_word read_outcome(char *bytes, size_t len, struct lc_done *ret_done)
{
    struct lc_outcome_of_key k;

    if (lc_outcome_read(bytes, len, &k) != RON_OK) {
        return RWD_WORD_LATER;
    }
    switch (k.outcome) {
    case LC_COMMITTED:
        *ret_done = k.done;
        return RWD_WORD_DONE;
    case LC_CANCELLED:
        return RWD_WORD_CANCELLED;
    case LC_NEVER_SEEN:
        return RWD_WORD_NEVER;
    case LC_IN_FLIGHT:
    default:
        return RWD_WORD_LATER;
    }
}

static enum rwd_emit_word read_done(const struct rwd_batch *row, const char *bytes, size_t len,
                                    struct lc_done *ret_done)
{
    struct lc_done done;

    /* The word must be about these entries; anything else is nobody's business to guess. */
    if (lc_done_read(bytes, len, &done) != RON_OK || done.dry_run ||
        done.seq_last - done.seq_first + 1 != row->count) {
        return RWD_WORD_LATER;
    }
    *ret_done = done;
    return RWD_WORD_DONE;
}

enum rwd_emit_word rwd_emit_answer(const struct rwd_emit_source *src,
                                   const struct rwd_emit_batch *slot, uint32_t status, char *bytes,
                                   size_t len, struct lc_done *ret_done,
                                   char ret_message[RWD_EMIT_MESSAGE_SIZE])
{
    struct lc_refusal refusal;

    (void)snprintf(ret_message, RWD_EMIT_MESSAGE_SIZE, "status %u of the ledger", (unsigned)status);
    if (status != 200) {
        if (lc_refusal_read(bytes, len, &refusal) != RON_OK) {
            return RWD_WORD_LATER;
        }
        (void)snprintf(ret_message, RWD_EMIT_MESSAGE_SIZE, "%.*s", RWD_EMIT_MESSAGE_SIZE - 1,
                       refusal.message);
        return rwd_emit_refusal(slot->step, &refusal);
    }
    switch (slot->step) {
    case RWD_EMIT_SEND:
        return read_done(&slot->row, bytes, len, ret_done);
    case RWD_EMIT_OUTCOME:
        return read_outcome(bytes, len, ret_done);
    case RWD_EMIT_CANCEL:
        return read_outcome(bytes, len, ret_done) == RWD_WORD_CANCELLED ? RWD_WORD_CANCELLED
                                                                        : RWD_WORD_LATER;
    case RWD_EMIT_LOOKUP:
        return read_lookup(src, slot, bytes, len, ret_message);
    case RWD_EMIT_STAMP:
    case RWD_EMIT_DONE:
    case RWD_EMIT_STEP_COUNT:
    default:
        RON_UNREACHABLE();
    }
}

/* ---- through the wallet ---------------------------------------------------------------------- */

enum ron_rc rwd_emit_issue(const struct rwd_emit_source *src, const struct rwd_emit_batch *slot,
                           struct rwd_issue *ret_issue, struct ron_buf *out, struct ron_err *err)
{
    bool issue = src->funding_account.len == 0;
    struct ron_json_writer j;
    struct kept k;

    RON_ASSERT(slot->row.count == 1);
    RON_TRY(read_intent(src, slot->row.first, &k, err));
    ret_issue->path = issue ? "/v1/issue" : "/v1/transfer";
    memcpy(ret_issue->key, k.in.id, sizeof ret_issue->key);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    if (!issue) {
        ron_json_str(&j, "from", src->funding_account);
    }
    ron_json_str(&j, "to", k.in.account);
    ron_json_str(&j, "asset", src->asset);
    ron_json_money(&j, "amount_minor", k.in.amount);
    ron_json_text(&j, "memo", "svc-rewarder");
    ron_json_close(&j, '}');
    return ron_buf_error(out);
}

struct receipt {
    uint64_t ledger_seq_start;
    uint64_t ledger_seq_end;
    uint64_t ts;
    uint64_t present;
};
static const struct ron_json_field receipt_fields[] = {
    RON_JSON_FIELD(struct receipt, ledger_seq_start, U64, .required = true),
    RON_JSON_FIELD(struct receipt, ledger_seq_end, U64, .required = true),
    RON_JSON_FIELD(struct receipt, ts, U64, .required = true),
};

struct envelope {
    struct ron_str code;
    struct ron_str message;
    bool retryable;
    uint64_t present;
};
static const struct ron_json_field envelope_fields[] = {
    RON_JSON_FIELD(struct envelope, code, STRING, .required = true),
    RON_JSON_FIELD(struct envelope, message, STRING, .required = true),
    RON_JSON_FIELD(struct envelope, retryable, BOOL, .required = true),
};

static enum rwd_emit_word read_envelope(char *bytes, size_t len, char *message)
{
    struct ron_json_shape shape = RON_JSON_SHAPE(struct envelope, envelope_fields, present);
    struct envelope e = {{0}, {0}, false, 0};
    struct ron_json_error why;

    shape.allow_unknown = true;
    if (ron_json_scan(bytes, len, &shape, NULL, &e, &why) != RON_OK) {
        return RWD_WORD_LATER;
    }
    (void)snprintf(message, RWD_EMIT_MESSAGE_SIZE, "%.*s",
                   (int)RON_MIN(e.message.len, (size_t)RWD_EMIT_MESSAGE_SIZE - 1), e.message.ptr);
    return e.retryable || ron_str_is(e.code, "INSUFFICIENT_FUNDS") ? RWD_WORD_LATER
                                                                   : RWD_WORD_REFUSED;
}

enum rwd_emit_word rwd_emit_issued(int status, char *bytes, size_t len, bool replayed,
                                   struct lc_done *ret_done,
                                   char ret_message[RWD_EMIT_MESSAGE_SIZE])
{
    struct ron_json_shape shape = RON_JSON_SHAPE(struct receipt, receipt_fields, present);
    struct receipt r = {0, 0, 0, 0};
    struct ron_json_error why;

    (void)snprintf(ret_message, RWD_EMIT_MESSAGE_SIZE, "status %d of the wallet", status);
    if (status != 200) {
        return status == 0 || status >= 500 ? RWD_WORD_LATER
                                            : read_envelope(bytes, len, ret_message);
    }
    shape.allow_unknown = true;
    if (ron_json_scan(bytes, len, &shape, NULL, &r, &why) != RON_OK) {
        return RWD_WORD_LATER;
    }
    *ret_done = (struct lc_done){.replayed = replayed,
                                 .seq_first = r.ledger_seq_start,
                                 .seq_last = r.ledger_seq_end,
                                 .commit_ms = r.ts};
    return RWD_WORD_DONE;
}
