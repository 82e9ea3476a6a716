/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/account.c - walks through the entries of one account: history, past balances, debits.
 *
 * Every stored entry says, for each account that it touched, which entry touched it before and what
 * the balances were afterwards. So all questions are walks back along links; skip points of the
 * index bring a walk near a seq of the past. A page ends with the seq of the entry that comes next,
 * so the next page begins there without a search. */
#include "ledger/read/priv.h"

#include <string.h>

#include "ron/base/str.h"

struct walk {
    struct led_reader *r;
    const struct led_account_query *q;
    struct led_found found; /* the present entry */
    const struct led_side *side;
    uint64_t seq; /* 0: before the account's first entry */
    uint32_t steps;
};

/* Which side of the entry is the account? A Reverse touches the `to` of its original without naming
 * it: on the way along links there is no other possibility. */
static const struct led_side *side_of(const struct led_found *found, struct ron_str account)
{
    if (ron_str_equal(found->entry.account, account)) {
        return &found->stored.links.account;
    }
    if (found->entry.to.len != 0) {
        return ron_str_equal(found->entry.to, account) ? &found->stored.links.to : NULL;
    }
    return found->entry.kind == LED_KIND_REVERSE && found->stored.links.has_to
               ? &found->stored.links.to
               : NULL;
}

/* Whether an entry that was not reached along links names the account. A Reverse that touches it
 * without naming it is left out: the walk then begins elsewhere. */
static enum ron_rc touches(struct led_reader *r, uint64_t seq, struct ron_str account,
                           bool *ret_touches, struct ron_err *err)
{
    struct led_found found;

    RON_TRY(led__read_stored(r, seq, &found, err));
    *ret_touches =
        ron_str_equal(found.entry.account, account) || ron_str_equal(found.entry.to, account);
    return RON_OK;
}

/* Loads the present entry and its side. */
static enum ron_rc look(struct walk *walk, struct ron_err *err)
{
    if (walk->seq == 0) {
        return RON_OK;
    }
    RON_TRY(led__read_stored(walk->r, walk->seq, &walk->found, err));
    walk->side = side_of(&walk->found, walk->q->account);
    if (walk->side == NULL || walk->side->prev_seq >= walk->seq) {
        return led__read_damage(walk->r, err, "entry %llu does not link on for the account",
                                (unsigned long long)walk->seq);
    }
    return RON_OK;
}

static enum ron_rc step(struct walk *walk, struct ron_err *err)
{
    walk->steps++;
    walk->seq = walk->side->prev_seq;
    return look(walk, err);
}

/* Skip points that are tried before the walk begins at the account's last entry. */
enum { SKIPS_MAX = 8 };

/* The first skip point behind `seq` at which the account is named. */
static enum ron_rc skip_to(struct walk *walk, uint64_t seq, uint64_t *ret_start,
                           struct ron_err *err)
{
    struct led_reader *r = walk->r;
    struct led_key key = led__read_key(r, walk->q->account);

    for (int i = 0; r->opts.index != NULL && i < SKIPS_MAX; i++) {
        struct ron_err skip_err = {0};
        uint64_t skip = 0;
        bool is = false;
        enum ron_rc rc = led_index_skip(r->opts.index, key, seq, &skip, &skip_err);

        if (rc == RON_NOTFOUND || (rc == RON_OK && skip >= walk->q->last_seq)) {
            break;
        }
        if (rc != RON_OK) {
            *err = skip_err;
            return rc;
        }
        RON_TRY(touches(r, skip, walk->q->account, &is, err));
        if (is) {
            *ret_start = skip;
            break;
        }
        seq = skip + 1;
    }
    return RON_OK;
}

/* Where the walk to `seq` begins: at the seq itself, at a skip point behind it, or at the newest
 * entry. */
static enum ron_rc choose_start(struct walk *walk, uint64_t seq, uint64_t *ret_start,
                                struct ron_err *err)
{
    bool is = false;

    *ret_start = walk->q->last_seq;
    if (seq >= walk->q->last_seq) {
        return RON_OK;
    }
    if (seq > 0) {
        RON_TRY(touches(walk->r, seq, walk->q->account, &is, err));
        if (is) {
            *ret_start = seq;
            return RON_OK;
        }
    }
    return skip_to(walk, seq, ret_start, err);
}

/* Goes to the newest entry of the account at or before `seq`. */
static enum ron_rc start(struct walk *walk, uint64_t seq, struct ron_err *err)
{
    if (!led_account_valid(walk->q->account)) {
        return ron_err_set(err, RON_INVALID, "an account has 1-256 of A-Z a-z 0-9 : / - _");
    }
    if (walk->q->last_seq == 0) {
        return ron_err_set(err, RON_NOTFOUND, "no entry has touched the account");
    }
    RON_TRY(choose_start(walk, seq, &walk->seq, err));
    RON_TRY(look(walk, err));
    while (walk->seq > seq) {
        if (walk->steps >= walk->r->opts.steps_max) {
            return ron_err_set(err, RON_LIMIT,
                               "more than %u entries of the account lie behind that seq",
                               walk->r->opts.steps_max);
        }
        RON_TRY(step(walk, err));
    }
    walk->steps = 0;
    return RON_OK;
}

/* The newest seq that a page may show. */
static uint64_t newest(const struct led_reader *r, const struct led_account_query *q)
{
    return q->before != 0 ? RON_MIN(r->last_seq, q->before - 1) : r->last_seq;
}

static void write_next(struct ron_json_writer *w, const struct walk *walk)
{
    if (walk->seq != 0) {
        ron_json_u64(w, "next", walk->seq + 1);
    } else {
        ron_json_null(w, "next");
    }
}

/* ---- history --------------------------------------------------------------------------------- */

static void write_item(struct ron_json_writer *w, const struct walk *walk)
{
    bool own = walk->side == &walk->found.stored.links.account;

    ron_json_open(w, NULL, '{');
    led_entry_to_json(w, "entry", &walk->found.entry, walk->seq);
    ron_json_text(w, "side", own ? "account" : "to");
    ron_json_money(w, "available", walk->side->available);
    ron_json_money(w, "held", walk->side->held);
    ron_json_u64(w, "prev_seq", walk->side->prev_seq);
    ron_json_u64(w, "commit_ts", walk->found.frame.time_ms);
    ron_json_close(w, '}');
}

static enum ron_rc write_history(struct walk *walk, struct ron_json_writer *w, struct ron_err *err)
{
    ron_json_open(w, NULL, '{');
    ron_json_str(w, "account", walk->q->account);
    ron_json_open(w, "entries", '[');
    for (uint32_t i = 0; i < walk->q->limit && walk->seq != 0; i++) {
        write_item(w, walk);
        RON_TRY(ron_buf_error(w->out));
        RON_TRY(step(walk, err));
    }
    ron_json_close(w, ']');
    write_next(w, walk);
    ron_json_close(w, '}');
    return RON_OK;
}

enum ron_rc led_read_history(struct led_reader *r, const struct led_account_query *q,
                             struct ron_buf *out, struct ron_err *err)
{
    struct walk walk = {.r = r, .q = q};
    size_t mark = ron_buf_len(out);
    struct ron_json_writer w;

    err = led__read_err(r, err);
    if (q->limit == 0 || q->limit > LED_PAGE_MAX) {
        return ron_err_set(err, RON_INVALID, "limit is 1 to %d", LED_PAGE_MAX);
    }
    RON_TRY(start(&walk, newest(r, q), err));
    ron_json_begin(&w, out);
    return led__read_finish(r, out, mark, write_history(&walk, &w, err), err);
}

/* ---- balances -------------------------------------------------------------------------------- */

/* Adds the asset to those that the walk has seen: false when it is there, or not wanted. */
static bool is_new_asset(struct led_reader *r, size_t *count, struct ron_str asset,
                         struct ron_str wanted)
{
    if (wanted.len != 0 && !ron_str_equal(asset, wanted)) {
        return false;
    }
    for (size_t i = 0; i < *count; i++) {
        if (ron_str_equal(asset, (struct ron_str){r->assets[i], r->asset_lens[i]})) {
            return false;
        }
    }
    memcpy(r->assets[*count], asset.ptr, asset.len);
    r->asset_lens[*count] = (uint8_t)asset.len;
    ++*count;
    return true;
}

static void write_balance(struct ron_json_writer *w, const struct walk *walk)
{
    const struct led_side *side = walk->side;

    if (walk->q->asset.len == 0 && ron_money_is_zero(side->available) &&
        ron_money_is_zero(side->held)) {
        return;
    }
    ron_json_open(w, NULL, '{');
    ron_json_str(w, "asset", walk->found.entry.asset);
    ron_json_money(w, "available", side->available);
    ron_json_money(w, "held", side->held);
    ron_json_u64(w, "seq", walk->seq);
    ron_json_close(w, '}');
}

static enum ron_rc write_balances(struct walk *walk, struct ron_json_writer *w, struct ron_err *err)
{
    struct ron_str wanted = walk->q->asset;
    size_t assets = 0;

    ron_json_open(w, NULL, '{');
    ron_json_str(w, "account", walk->q->account);
    ron_json_u64(w, "at_seq", walk->q->at_seq);
    ron_json_open(w, "balances", '[');
    while (walk->seq != 0 && walk->steps < walk->r->opts.steps_max &&
           assets < LED_READ_ASSETS_MAX) {
        if (is_new_asset(walk->r, &assets, walk->found.entry.asset, wanted)) {
            write_balance(w, walk);
            if (wanted.len != 0) {
                walk->seq = 0;
                break;
            }
        }
        RON_TRY(step(walk, err));
    }
    ron_json_close(w, ']');
    ron_json_bool(w, "complete", walk->seq == 0);
    if (walk->seq != 0) {
        ron_json_u64(w, "next_at_seq", walk->seq);
    } else {
        ron_json_null(w, "next_at_seq");
    }
    ron_json_close(w, '}');
    return RON_OK;
}

enum ron_rc led_read_balances(struct led_reader *r, const struct led_account_query *q,
                              struct ron_buf *out, struct ron_err *err)
{
    struct walk walk = {.r = r, .q = q};
    size_t mark = ron_buf_len(out);
    struct ron_json_writer w;

    err = led__read_err(r, err);
    if (q->at_seq == 0 || q->at_seq > r->last_seq) {
        return ron_err_set(err, q->at_seq == 0 ? RON_INVALID : RON_NOTFOUND,
                           "at_seq is 1 to the last entry, %llu", (unsigned long long)r->last_seq);
    }
    if (q->asset.len != 0 && !led_asset_valid(q->asset)) {
        return ron_err_set(err, RON_INVALID, "an asset has 1-32 of a-z 0-9 . _ -");
    }
    RON_TRY(start(&walk, q->at_seq, err));
    ron_json_begin(&w, out);
    return led__read_finish(r, out, mark, write_balances(&walk, &w, err), err);
}

/* ---- debits ---------------------------------------------------------------------------------- */

static bool takes_away(const struct walk *walk)
{
    const struct led_entry *e = &walk->found.entry;

    switch (e->kind) {
    case LED_KIND_TRANSFER:
    case LED_KIND_BURN:
    case LED_KIND_DEBIT:
    case LED_KIND_CAPTURE:
        return walk->side == &walk->found.stored.links.account &&
               ron_str_equal(e->asset, walk->q->asset);
    default:
        return false;
    }
}

/* Commits never go back in time, so the first one before `since` ends the walk. A sum beyond the
 * largest amount stays there: no limit that it is compared with can be larger. */
static enum ron_rc sum_debits(struct walk *walk, struct ron_money *ret_sum, struct ron_err *err)
{
    struct ron_money sum = RON_MONEY_ZERO;

    while (walk->seq != 0 && walk->steps < walk->r->opts.steps_max) {
        if (walk->found.frame.time_ms < walk->q->since_ms) {
            walk->seq = 0;
            break;
        }
        if (takes_away(walk) &&
            ron_money_add(sum, walk->found.entry.amount, &sum) != RON_MONEY_OK) {
            sum = RON_MONEY_MAX;
        }
        RON_TRY(step(walk, err));
    }
    *ret_sum = sum;
    return RON_OK;
}

enum ron_rc led_read_debits(struct led_reader *r, const struct led_account_query *q,
                            struct ron_buf *out, struct ron_err *err)
{
    struct walk walk = {.r = r, .q = q};
    size_t mark = ron_buf_len(out);
    struct ron_money sum;
    struct ron_json_writer w;

    err = led__read_err(r, err);
    if (!led_asset_valid(q->asset)) {
        return ron_err_set(err, RON_INVALID, "an asset has 1-32 of a-z 0-9 . _ -");
    }
    RON_TRY(start(&walk, newest(r, q), err));
    RON_TRY(sum_debits(&walk, &sum, err));
    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_str(&w, "account", q->account);
    ron_json_str(&w, "asset", q->asset);
    ron_json_u64(&w, "since", q->since_ms);
    ron_json_money(&w, "debited", sum);
    write_next(&w, &walk);
    ron_json_close(&w, '}');
    return led__read_finish(r, out, mark, RON_OK, err);
}
