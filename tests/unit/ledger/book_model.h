/* SPDX-License-Identifier: Apache-2.0 */
/* book_model.h - a plain model of the book for test_book_model.c.
 *
 * Small arrays, no undo, no hashing: whoever applies a batch copies the model first and puts the
 * copy back when the batch is refused. It shares no code with the book. */
#pragma once

#include "support/support.h"

#include "ledger/book/book.h"

enum {
    ACCOUNTS = 10,
    ASSETS = 3,
    HISTORY = 1024, /* operations that a reference can reach back */
    HOLDS = 512,
};

struct op {
    uint64_t serial;
    uint8_t kind;
    int account, to, asset;
    ron_u128 amount;
    uint64_t nonce, account_nonce, ref, expires_ms, ts_ms;
};

struct hold {
    uint64_t serial;
    int account, asset;
    ron_u128 left;
    uint64_t expires_ms;
};

struct model {
    ron_u128 available[ACCOUNTS][ASSETS];
    ron_u128 held[ACCOUNTS][ASSETS];
    ron_u128 supply[ASSETS];
    uint64_t nonce[ACCOUNTS];
    uint64_t last_seq[ACCOUNTS];
    struct hold holds[HOLDS];
    int hold_count;
    ron_u128 reversed[HISTORY];
    bool used[ACCOUNTS][HISTORY]; /* nonces, which are serials */
};

/* What the model knows of a run. */
struct run {
    struct model now;
    struct op history[HISTORY];
    bool frozen[ACCOUNTS];
    uint64_t seq; /* of the next entry */
    uint64_t now_ms;
};

struct verdict {
    enum led_reason reason;
    int idx;
};

static inline bool too_big(ron_u128 a, ron_u128 b)
{
    return a > ~(ron_u128)0 - b;
}

static inline enum led_reason model_take(struct model *m, int account, const struct op *o)
{
    if (m->available[account][o->asset] < o->amount) {
        return LED_REASON_INSUFFICIENT_FUNDS;
    }
    m->available[account][o->asset] -= o->amount;
    return LED_REASON_OK;
}

static inline enum led_reason model_give(struct model *m, int account, const struct op *o)
{
    if (too_big(m->available[account][o->asset], o->amount)) {
        return LED_REASON_CONFLICT;
    }
    m->available[account][o->asset] += o->amount;
    return LED_REASON_OK;
}

static inline enum led_reason model_mint(struct model *m, const struct op *o)
{
    if (too_big(m->supply[o->asset], o->amount)) {
        return LED_REASON_CONFLICT;
    }
    m->supply[o->asset] += o->amount;
    return LED_REASON_OK;
}

static inline enum led_reason model_burn(struct model *m, const struct op *o)
{
    if (m->supply[o->asset] < o->amount) {
        return LED_REASON_CONFLICT;
    }
    m->supply[o->asset] -= o->amount;
    return LED_REASON_OK;
}

#define STEP(expr)                                                                                 \
    do {                                                                                           \
        enum led_reason step_ = (expr);                                                            \
        if (step_ != LED_REASON_OK) {                                                              \
            return step_;                                                                          \
        }                                                                                          \
    } while (0)

struct sums {
    ron_u128 credit[ASSETS], debit[ASSETS];
    int first[ASSETS];
};

static inline enum led_reason model_sum(struct sums *s, const struct op *o, int idx, bool credit)
{
    ron_u128 *sum = credit ? &s->credit[o->asset] : &s->debit[o->asset];

    if (s->first[o->asset] < 0) {
        s->first[o->asset] = idx;
    }
    if (too_big(*sum, o->amount)) {
        return LED_REASON_CONFLICT;
    }
    *sum += o->amount;
    return LED_REASON_OK;
}

static inline enum led_reason model_hold_end(struct run *w, const struct op *o, int target)
{
    struct model *m = &w->now;
    struct hold *h = NULL;
    bool over;

    for (int i = 0; i < m->hold_count; i++) {
        if (m->holds[i].serial == o->ref) {
            h = &m->holds[i];
        }
    }
    if (h == NULL) {
        return LED_REASON_NOT_FOUND;
    }
    over = h->expires_ms != 0 && h->expires_ms <= w->now_ms;
    if (h->account != o->account || h->asset != o->asset || over != (o->kind == LED_KIND_EXPIRE)) {
        return LED_REASON_CONFLICT;
    }
    if (o->kind == LED_KIND_EXPIRE && h->left != o->amount) {
        return LED_REASON_CONFLICT;
    }
    if (h->left < o->amount) {
        return LED_REASON_INSUFFICIENT_FUNDS;
    }
    h->left -= o->amount;
    m->held[o->account][o->asset] -= o->amount;
    if (h->left == 0) {
        *h = m->holds[--m->hold_count];
    }
    return model_give(m, target, o);
}

static inline enum led_reason model_reverse(struct run *w, const struct op *o, struct sums *s,
                                            int idx, uint64_t seq)
{
    struct model *m = &w->now;
    const struct op *was = &w->history[o->ref % HISTORY];

    if (was->serial != o->ref || o->ref >= o->serial || o->ref == 0) {
        return LED_REASON_NOT_FOUND;
    }
    if (was->kind == LED_KIND_HOLD || was->kind == LED_KIND_RELEASE ||
        was->kind == LED_KIND_REVERSE || was->kind == LED_KIND_EXPIRE ||
        was->account != o->account || was->asset != o->asset ||
        o->amount > was->amount - m->reversed[o->ref % HISTORY]) {
        return LED_REASON_CONFLICT;
    }
    m->reversed[o->ref % HISTORY] += o->amount;
    if (was->kind == LED_KIND_MINT) {
        STEP(model_take(m, o->account, o));
        return model_burn(m, o);
    }
    if (was->kind == LED_KIND_BURN) {
        STEP(model_mint(m, o));
        return model_give(m, o->account, o);
    }
    if (was->kind == LED_KIND_CREDIT) {
        STEP(model_take(m, o->account, o));
        return model_sum(s, o, idx, false);
    }
    if (was->kind == LED_KIND_DEBIT) {
        STEP(model_give(m, o->account, o));
        return model_sum(s, o, idx, true);
    }
    m->last_seq[was->to] = seq;
    STEP(model_take(m, was->to, o));
    return model_give(m, o->account, o);
}

static inline enum led_reason model_kind(struct run *w, const struct op *o, struct sums *s, int idx,
                                         uint64_t seq)
{
    struct model *m = &w->now;

    switch (o->kind) {
    case LED_KIND_MINT:
        STEP(model_mint(m, o));
        return model_give(m, o->account, o);
    case LED_KIND_BURN:
        STEP(model_take(m, o->account, o));
        return model_burn(m, o);
    case LED_KIND_CREDIT:
        STEP(model_give(m, o->account, o));
        return model_sum(s, o, idx, true);
    case LED_KIND_DEBIT:
        STEP(model_take(m, o->account, o));
        return model_sum(s, o, idx, false);
    case LED_KIND_TRANSFER:
        STEP(model_take(m, o->account, o));
        return model_give(m, o->to, o);
    case LED_KIND_HOLD:
        STEP(model_take(m, o->account, o));
        if (too_big(m->held[o->account][o->asset], o->amount)) {
            return LED_REASON_CONFLICT;
        }
        m->held[o->account][o->asset] += o->amount;
        assert_true(m->hold_count < HOLDS);
        m->holds[m->hold_count++] = (struct hold){.serial = o->serial,
                                                  .account = o->account,
                                                  .asset = o->asset,
                                                  .left = o->amount,
                                                  .expires_ms = o->expires_ms};
        return LED_REASON_OK;
    case LED_KIND_CAPTURE:
        return model_hold_end(w, o, o->to);
    case LED_KIND_REVERSE:
        return model_reverse(w, o, s, idx, seq);
    default:
        return model_hold_end(w, o, o->account);
    }
}

static inline enum led_reason model_op(struct run *w, const struct op *o, struct sums *s, int idx)
{
    struct model *m = &w->now;
    uint64_t seq = w->seq + (uint64_t)idx;
    bool may = o->kind == LED_KIND_REVERSE || o->kind == LED_KIND_EXPIRE;

    if (o->ts_ms > w->now_ms + 5000 || o->ts_ms + 86400000 < w->now_ms) {
        return LED_REASON_INVALID;
    }
    if (w->now.used[o->account][o->nonce % HISTORY]) {
        return LED_REASON_IDEM_MISMATCH;
    }
    w->now.used[o->account][o->nonce % HISTORY] = true;
    m->last_seq[o->account] = seq;
    if (o->to >= 0) {
        m->last_seq[o->to] = seq;
    }
    if (!may && (w->frozen[o->account] || (o->to >= 0 && w->frozen[o->to]))) {
        return LED_REASON_POLICY_DENIED;
    }
    if (o->account_nonce != 0) {
        if (o->account_nonce != m->nonce[o->account] + 1) {
            return LED_REASON_NONCE_CONFLICT;
        }
        m->nonce[o->account] = o->account_nonce;
    }
    return model_kind(w, o, s, idx, seq);
}

static inline struct verdict model_batch(struct run *w, const struct op *ops, int count)
{
    struct sums s = {.first = {-1, -1, -1}};

    for (int i = 0; i < count; i++) {
        enum led_reason reason = model_op(w, &ops[i], &s, i);

        if (reason != LED_REASON_OK) {
            return (struct verdict){reason, i};
        }
    }
    for (int a = 0; a < ASSETS; a++) {
        if (s.credit[a] != s.debit[a]) {
            /* The book may name another asset first when several do not balance. */
            return (struct verdict){LED_REASON_INVALID, -1};
        }
    }
    return (struct verdict){LED_REASON_OK, 0};
}
