/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/check.c - what a job reserves and looks at before its batch leaves: nonces, daily
 * sums, account totals, balances; and how reservations are settled.
 *
 * Place: wallet, part of wlt_job. All of it is early advice: the ledger decides on nonces and
 * balances again. What cannot be known (no slot, or the ledger's word is forgotten faster than it
 * can be used) is left to it. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/job/priv.h"

enum {
    DAY_MS = 24 * 3600 * 1000,
    /* A learnt value may be forgotten before it is used when others want its slot. After so many
     * tries the operation goes on untracked. */
    ASKED_MAX = 3,
    ROOM_OPS_MIN = 16,
    TOTAL_KNOWN_MS = 60 * 1000, /* 2^32 entries in it would be 70 million a second */
    CHECK_NONCE = 1,
    CHECK_DAILY = 2,
    CHECK_TOTAL = 4,
    CHECK_FUNDS = 8,
};

static const struct wlt_operation *op_at(const struct wlt_job *job)
{
    return &job->call->ops[job->_at];
}

static struct wlt_key account_of(const struct wlt_core *core, struct ron_str account)
{
    return wlt_key_of(&core->secret, WLT_KEY_ACCOUNT, account, (struct ron_str){"", 0});
}

/* ---- room ------------------------------------------------------------------------------------ */

static uint32_t heads_for(uint32_t ops)
{
    uint32_t n = 2 * ROOM_OPS_MIN;

    while (n < 2 * ops) {
        n *= 2;
    }
    return n;
}

static bool take_room(struct wlt_job *job, uint32_t count)
{
    job->_holds.heads = NULL;
    if (count == 1) {
        job->_holds.at = &job->_holds.one;
        return true;
    }
    if (job->_holds.room_ops < count) {
        uint32_t ops = RON_MAX(count, (uint32_t)ROOM_OPS_MIN);
        void *room = ron_alloc(ops * sizeof(struct wlt_hold) + heads_for(ops) * sizeof(uint16_t));

        if (room == NULL) {
            return false;
        }
        ron_free(job->_holds.room);
        job->_holds.room = room;
        job->_holds.room_ops = ops;
    }
    job->_holds.at = job->_holds.room;
    job->_holds.heads = (uint16_t *)(void *)(job->_holds.at + job->_holds.room_ops);
    job->_holds.heads_mask = heads_for(count) - 1;
    memset(job->_holds.heads, 0, ((size_t)job->_holds.heads_mask + 1) * sizeof *job->_holds.heads);
    return true;
}

bool wlt__checks_begin(struct wlt_core *core, struct wlt_job *job)
{
    uint32_t count = job->call->count;

    if (!take_room(job, count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct wlt_operation *o = &job->call->ops[i];
        struct wlt_hold h = {0};

        if (o->from.len > 0) {
            h.from = account_of(core, o->from);
            h.from_pair = wlt_key_pair(h.from, o->asset);
        }
        if (o->to.len > 0) {
            h.to = account_of(core, o->to);
            h.to_pair = wlt_key_pair(h.to, o->asset);
        }
        job->_holds.at[i] = h;
    }
    wlt__expect(core, job);
    return true;
}

void wlt__expect(const struct wlt_core *core, const struct wlt_job *job)
{
    for (uint32_t i = 0; i < job->call->count; i++) {
        const struct wlt_hold *h = &job->_holds.at[i];

        wlt_daily_expect(core->daily, h->from_pair);
        wlt_cache_expect(core->cache, h->from);
        wlt_cache_expect(core->cache, h->to);
    }
}

/* The earlier operation of the batch that began this account's run of nonces, or NULL: then this
 * one does. At most half of the heads are taken, so the walk ends. */
static struct wlt_hold *leader(struct wlt_job *job, struct wlt_key account)
{
    if (job->_holds.heads == NULL) {
        return NULL;
    }
    for (uint32_t i = (uint32_t)account.a & job->_holds.heads_mask;;
         i = (i + 1) & job->_holds.heads_mask) {
        uint32_t head = job->_holds.heads[i];

        if (head == 0) {
            job->_holds.heads[i] = (uint16_t)(job->_at + 1);
            return NULL;
        }
        if (wlt_key_eq(job->_holds.at[head - 1].from, account)) {
            return head - 1 == job->_at ? NULL : &job->_holds.at[head - 1];
        }
    }
}

/* ---- questions and refusals ------------------------------------------------------------------ */

static enum wlt__go ask_account(struct wlt_job *job, enum wlt__state state, struct ron_str account)
{
    job->_state = (int)state;
    ron_buf_clear(&job->payload);
    lc_target_account(&job->payload, account);
    return WLT__GO_READ;
}

static enum wlt__go ask_debits(struct wlt_job *job)
{
    const struct wlt_operation *o = op_at(job);

    job->_state = WLT__DEBITS;
    ron_buf_clear(&job->payload);
    lc_target_debits(&job->payload, o->from, o->asset, (uint64_t)job->_day * DAY_MS, job->_page);
    return WLT__GO_READ;
}

static enum wlt__go refuse(struct wlt_job *job, enum wlt_reason reason, const char *member,
                           const char *detail)
{
    char name[48];

    if (job->call->batch) {
        (void)snprintf(name, sizeof name, "operations[%u]%s%s", job->_at,
                       member[0] != '\0' ? "." : "", member);
        member = name;
    }
    wlt_fault_set(&job->fault, reason, member, detail);
    return WLT__GO_REFUSE;
}

static enum wlt__go refuse_amount(struct wlt_job *job, enum wlt_reason reason, const char *text,
                                  struct ron_money amount)
{
    char digits[RON_MONEY_TEXT_SIZE];
    char detail[120];

    (void)ron_money_format(amount, digits);
    (void)snprintf(detail, sizeof detail, "%s %s", text, digits);
    return refuse(job, reason, "amount_minor", detail);
}

static enum wlt__go refuse_funds(struct wlt_job *job, struct ron_money available)
{
    char has[RON_MONEY_TEXT_SIZE];
    char wants[RON_MONEY_TEXT_SIZE];
    char detail[160];

    (void)ron_money_format(available, has);
    (void)ron_money_format(op_at(job)->amount, wants);
    (void)snprintf(detail, sizeof detail, "insufficient funds: available %s, requested %s", has,
                   wants);
    return refuse(job, WLT_REASON_FUNDS, "", detail);
}

static enum wlt__go refuse_nonce(struct wlt_job *job, uint64_t expected)
{
    char detail[96];

    (void)snprintf(detail, sizeof detail, "expected %llu, got %llu", (unsigned long long)expected,
                   (unsigned long long)op_at(job)->nonce);
    return refuse(job, WLT_REASON_NONCE, "nonce", detail);
}

/* ---- nonces ---------------------------------------------------------------------------------- */

static enum wlt__go follow(struct wlt_job *job, struct wlt_hold *lead)
{
    if (op_at(job)->nonce != lead->nonce_last + 1) {
        return refuse_nonce(job, lead->nonce_last + 1);
    }
    lead->nonce_last++;
    return WLT__GO_ON;
}

static enum wlt__go wrong_nonce(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h,
                                uint64_t expected)
{
    /* Nonces only grow, so one below is wrong for ever. One above may be right: others than this
     * wallet may have written. */
    if (op_at(job)->nonce > expected && !h->refreshed) {
        h->refreshed = true;
        wlt_nonce_forget(core->nonces, h->from);
        return ask_account(job, WLT__NONCE, op_at(job)->from);
    }
    return refuse_nonce(job, expected);
}

static enum wlt__go check_nonce(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h)
{
    const struct wlt_operation *o = op_at(job);
    uint64_t expected = 0;
    struct wlt_hold *lead;

    if (o->nonce == 0) {
        return WLT__GO_ON;
    }
    lead = leader(job, h->from);
    if (lead != NULL) {
        return follow(job, lead);
    }
    h->nonce_last = o->nonce;
    switch (wlt_nonce_reserve(core->nonces, h->from, o->nonce, &h->ticket, &expected)) {
    case WLT_NONCE_RESERVED:
        h->nonce_held = true;
        return WLT__GO_ON;
    case WLT_NONCE_UNTRACKED:
        return WLT__GO_ON;
    case WLT_NONCE_ASK:
        return h->asked++ < ASKED_MAX ? ask_account(job, WLT__NONCE, o->from) : WLT__GO_ON;
    case WLT_NONCE_PENDING:
        (void)refuse(job, WLT_REASON_NONCE_PENDING, "nonce",
                     "another request of this account is in progress");
        return WLT__GO_ANSWER;
    case WLT_NONCE_WRONG:
        return wrong_nonce(core, job, h, expected);
    }
    return WLT__GO_ON;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t now_ms(const struct wlt_core *core)
{
    return ron_env_now_ns(core->env) / RON_NS_PER_MS;
}

/* A page takes a call, with its other tries; a job that ends meanwhile is missed no longer. */
static uint32_t lease_ms(const struct wlt_core *core)
{
    return core->rpc_ms + core->rpc_ms / 2;
}

/* ---- daily sums ------------------------------------------------------------------------------ */

static enum wlt__go check_daily(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h)
{
    const struct wlt_operation *o = op_at(job);
    struct ron_money left = RON_MONEY_ZERO;

    if (!wlt_op_info(o->op)->debits || ron_money_cmp(core->daily_ceiling, RON_MONEY_MAX) == 0) {
        return WLT__GO_ON;
    }
    switch (wlt_daily_reserve(core->daily, h->from_pair, job->_day, o->amount, core->daily_ceiling,
                              &left)) {
    case WLT_DAILY_OK:
        h->daily_held = true;
        return WLT__GO_ON;
    case WLT_DAILY_UNTRACKED:
        return WLT__GO_ON;
    case WLT_DAILY_ASK:
        if (h->asked_sums >= ASKED_MAX) { /* forgotten again and again: never past the ceiling */
            return refuse(job, WLT_REASON_BUSY, "amount",
                          "today's debits of the account are not known yet; retry");
        }
        if (!wlt_daily_walk(core->daily, h->from_pair, job->_day, now_ms(core), lease_ms(core),
                            &job->_debited, &job->_page)) {
            job->_state = WLT__TURN;
            return WLT__GO_WAIT;
        }
        h->asked_sums++;
        return ask_debits(job);
    case WLT_DAILY_EXCEEDED:
        return refuse_amount(job, WLT_REASON_LIMITS,
                             "daily ceiling exceeded; remaining today:", left);
    }
    return WLT__GO_ON;
}

static enum wlt__go debits_answered(struct wlt_core *core, struct wlt_job *job,
                                    const struct wlt__word *word)
{
    struct ron_money sum = RON_MONEY_ZERO;

    if (!word->absent) {
        /* More than 2^128 - 1 in a day is above every ceiling. */
        sum = ron_money_add(job->_debited, word->debits.debited, &sum) == RON_MONEY_OK
                  ? sum
                  : RON_MONEY_MAX;
        job->_debited = sum;
        if (word->debits.next != 0) {
            job->_page = word->debits.next;
            wlt_daily_walked(core->daily, job->_holds.at[job->_at].from_pair, job->_day, sum,
                             job->_page, now_ms(core), lease_ms(core));
            return ask_debits(job);
        }
    }
    wlt_daily_learn(core->daily, job->_holds.at[job->_at].from_pair, job->_day, job->_debited);
    return WLT__GO_ON;
}

/* ---- totals and balances --------------------------------------------------------------------- */

void wlt__put_balance(struct wlt_core *core, const struct wlt_job *job, struct wlt_key account,
                      struct wlt_key pair, const struct lc_account *found)
{
    struct wlt_balance b = {.available = found->available,
                            .held = found->held,
                            .seq = found->seq,
                            .last_seq = found->last_seq,
                            .loaded_ms = job->_sent_ms};

    wlt_cache_put(core->cache, account, pair, &b);
}

/* Whether what the account had within the last minute is so little that no number of credits which
 * a ledger can take in that time brings it to the ceiling. Then nobody need ask what it has now. */
static bool far_from_full(const struct wlt_core *core, const struct wlt_job *job,
                          const struct wlt_balance *b)
{
    struct ron_money sum;

    return job->_begun_ms <= b->loaded_ms + TOTAL_KNOWN_MS &&
           ron_money_add(b->available, b->held, &sum) == RON_MONEY_OK &&
           ron_money_cmp(sum, core->total_far) < 0;
}

/* What this batch has already given to the same account: the ledger takes it whole. */
static struct ron_money given_before(const struct wlt_job *job, struct wlt_key to_pair)
{
    struct ron_money sum = RON_MONEY_ZERO;

    for (uint32_t i = 0; i < job->_at; i++) {
        if (wlt_key_eq(job->_holds.at[i].to_pair, to_pair) &&
            ron_money_add(sum, job->call->ops[i].amount, &sum) != RON_MONEY_OK) {
            return RON_MONEY_MAX;
        }
    }
    return sum;
}

static bool total_fits(const struct wlt_core *core, const struct wlt_job *job,
                       struct ron_money available, struct ron_money held)
{
    struct ron_money sum = given_before(job, job->_holds.at[job->_at].to_pair);

    return ron_money_add(sum, available, &sum) == RON_MONEY_OK &&
           ron_money_add(sum, held, &sum) == RON_MONEY_OK &&
           ron_money_add(sum, op_at(job)->amount, &sum) == RON_MONEY_OK &&
           ron_money_cmp(sum, core->total_max) <= 0;
}

static enum wlt__go check_total(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h)
{
    const struct wlt_operation *o = op_at(job);
    struct wlt_balance b;

    if (!wlt_op_info(o->op)->takes_to || ron_money_cmp(core->total_max, RON_MONEY_MAX) == 0) {
        return WLT__GO_ON;
    }
    /* A value that is known to be outdated is no knowledge of what is there now. */
    if (wlt_cache_get(core->cache, h->to, h->to_pair, &b) &&
        (far_from_full(core, job, &b) ||
         (b.outdated_ms == 0 && total_fits(core, job, b.available, b.held)))) {
        return WLT__GO_ON;
    }
    return ask_account(job, WLT__TOTAL, o->to);
}

static enum wlt__go total_answered(struct wlt_core *core, struct wlt_job *job,
                                   const struct lc_account *found)
{
    if (!total_fits(core, job, found->available, found->held)) {
        return refuse_amount(job, WLT_REASON_LIMITS, "account total would exceed the limit of",
                             core->total_max);
    }
    job->_holds.at[job->_at].done |= CHECK_TOTAL;
    return WLT__GO_ON;
}

/* Only of single operations: what others of a batch give first is the ledger's to know. */
static enum wlt__go check_funds(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h)
{
    const struct wlt_operation *o = op_at(job);
    struct wlt_balance b;

    if (job->call->count > 1 || wlt_op_info(o->op)->subject_is_to ||
        wlt_op_info(o->op)->takes_hold || !wlt_cache_get(core->cache, h->from, h->from_pair, &b) ||
        b.outdated_ms != 0 || ron_money_cmp(b.available, o->amount) >= 0) {
        return WLT__GO_ON;
    }
    return ask_account(job, WLT__FUNDS, o->from);
}

static enum wlt__go funds_answered(struct wlt_job *job, const struct lc_account *found)
{
    if (ron_money_cmp(found->available, op_at(job)->amount) < 0) {
        return refuse_funds(job, found->available);
    }
    job->_holds.at[job->_at].done |= CHECK_FUNDS;
    return WLT__GO_ON;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const struct {
    uint8_t bit;
    enum wlt__go (*check)(struct wlt_core *core, struct wlt_job *job, struct wlt_hold *h);
} checks[] = {{CHECK_NONCE, check_nonce},
              {CHECK_DAILY, check_daily},
              {CHECK_TOTAL, check_total},
              {CHECK_FUNDS, check_funds}};

enum wlt__go wlt__checks(struct wlt_core *core, struct wlt_job *job)
{
    for (; job->_at < job->call->count; job->_at++) {
        struct wlt_hold *h = &job->_holds.at[job->_at];

        for (size_t i = 0; i < RON_ARRAY_LEN(checks); i++) {
            enum wlt__go go;

            if ((h->done & checks[i].bit) != 0) {
                continue;
            }
            go = checks[i].check(core, job, h);
            if (go != WLT__GO_ON) {
                return go;
            }
            h->done |= checks[i].bit;
        }
    }
    return WLT__GO_ON;
}

enum wlt__go wlt__checks_answered(struct wlt_core *core, struct wlt_job *job,
                                  const struct wlt__word *word)
{
    static const struct lc_account never_named = {0};
    const struct lc_account *found = word->absent ? &never_named : &word->account;
    const struct wlt_hold *h = &job->_holds.at[job->_at];
    enum wlt__go go = WLT__GO_ON;

    if (job->_state == WLT__DEBITS) {
        go = debits_answered(core, job, word);
    } else {
        if (!word->absent) {
            bool of_to = job->_state == WLT__TOTAL;

            wlt__put_balance(core, job, of_to ? h->to : h->from, of_to ? h->to_pair : h->from_pair,
                             found);
        }
        if (job->_state == WLT__NONCE) {
            wlt_nonce_learn(core->nonces, h->from, found->nonce);
        } else {
            go = job->_state == WLT__TOTAL ? total_answered(core, job, found)
                                           : funds_answered(job, found);
        }
    }
    return go == WLT__GO_ON ? wlt__checks(core, job) : go;
}

/* ---- settling -------------------------------------------------------------------------------- */

static void settle_nonce(struct wlt_core *core, struct wlt_hold *h, uint64_t first,
                         enum wlt_settle how)
{
    if (how == WLT_COMMITTED && h->nonce_last != first) {
        /* A run: the slot knows its first nonce only, the account stands at the last one. */
        wlt_nonce_settle(core->nonces, h->ticket, WLT_UNKNOWN);
        wlt_nonce_learn(core->nonces, h->from, h->nonce_last);
        return;
    }
    wlt_nonce_settle(core->nonces, h->ticket, how);
}

void wlt__settle(struct wlt_core *core, struct wlt_job *job, enum wlt_settle nonces,
                 enum wlt_settle sums)
{
    uint32_t count = RON_MIN(job->_at + 1, job->call->count);

    RON_ASSERT(job->_at <= job->call->count);
    for (uint32_t i = 0; i < count && job->_holds.at != NULL; i++) {
        struct wlt_hold *h = &job->_holds.at[i];
        const struct wlt_operation *o = &job->call->ops[i];

        if (h->nonce_held) {
            h->nonce_held = false;
            settle_nonce(core, h, o->nonce, nonces);
        }
        if (h->daily_held) {
            h->daily_held = false;
            wlt_daily_settle(core->daily, h->from_pair, job->_day, o->amount, sums);
        }
    }
}
