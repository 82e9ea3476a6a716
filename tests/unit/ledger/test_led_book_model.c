/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the book agrees with a plain model in every answer and every balance, over long runs.
 * Method: the model is a struct of small arrays that is copied whole before a batch and copied back
 * when the batch is refused; it shares no code with the book. After every batch: the same verdict,
 * reason and index; the same balances, nonces, last seqs, holds and supplies in both views; the
 * invariants; the same digest as before when refused. Batches are committed, aborted and run dry at
 * random. RON_SEED repeats a run. */
#include "support/support.h"

#include "led_book.h"

#define NOW UINT64_C(1700000000000)

enum {
    ACCOUNTS = 10,
    ASSETS = 3,
    HISTORY = 4096, /* operations that a reference can reach back */
    BATCH = 12,
    PENDING = 6,
    SEEDS = 4,
    OPS = 20000, /* times four seeds; under ThreadSanitizer that is 10 s */
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
};

struct world {
    struct ron_rand rand;
    struct led_book *book;
    struct model now;
    struct model committed[PENDING + 1]; /* states after each uncommitted batch; [0] is committed */
    int pending;
    struct op history[HISTORY];
    bool used[ACCOUNTS][HISTORY]; /* nonces, which are serials */
    bool frozen[ACCOUNTS];
    uint64_t serial;
    uint64_t seq;
    uint64_t now_ms;
};

struct verdict {
    enum led_reason reason;
    int idx;
};

/* ---- the model ------------------------------------------------------------------------------- */

static bool too_big(ron_u128 a, ron_u128 b)
{
    return a > ~(ron_u128)0 - b;
}

static enum led_reason model_take(struct model *m, int account, const struct op *o)
{
    if (m->available[account][o->asset] < o->amount) {
        return LED_REASON_INSUFFICIENT_FUNDS;
    }
    m->available[account][o->asset] -= o->amount;
    return LED_REASON_OK;
}

static enum led_reason model_give(struct model *m, int account, const struct op *o)
{
    if (too_big(m->available[account][o->asset], o->amount)) {
        return LED_REASON_CONFLICT;
    }
    m->available[account][o->asset] += o->amount;
    return LED_REASON_OK;
}

static enum led_reason model_mint(struct model *m, const struct op *o)
{
    if (too_big(m->supply[o->asset], o->amount)) {
        return LED_REASON_CONFLICT;
    }
    m->supply[o->asset] += o->amount;
    return LED_REASON_OK;
}

static enum led_reason model_burn(struct model *m, const struct op *o)
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

static enum led_reason model_sum(struct sums *s, const struct op *o, int idx, bool credit)
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

static enum led_reason model_hold_end(struct world *w, const struct op *o, int target)
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

static enum led_reason model_reverse(struct world *w, const struct op *o, struct sums *s, int idx,
                                     uint64_t seq)
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

static enum led_reason model_kind(struct world *w, const struct op *o, struct sums *s, int idx,
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

static enum led_reason model_op(struct world *w, const struct op *o, struct sums *s, int idx)
{
    struct model *m = &w->now;
    uint64_t seq = w->seq + (uint64_t)idx;
    bool may = o->kind == LED_KIND_REVERSE || o->kind == LED_KIND_EXPIRE;

    if (o->ts_ms > w->now_ms + 5000 || o->ts_ms + 86400000 < w->now_ms) {
        return LED_REASON_INVALID;
    }
    if (w->used[o->account][o->nonce % HISTORY]) {
        return LED_REASON_IDEM_MISMATCH;
    }
    w->used[o->account][o->nonce % HISTORY] = true;
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

static struct verdict model_batch(struct world *w, const struct op *ops, int count)
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

/* ---- random operations ----------------------------------------------------------------------- */

static ron_u128 random_amount(struct world *w)
{
    if (ron_rand_chance(&w->rand, 1, 200)) {
        ron_u128 edgy = support_rand_edgy_u128(&w->rand);

        return edgy != 0 ? edgy : 1;
    }
    return 1 + ron_rand_below(&w->rand, 100);
}

static const struct hold *some_hold(struct world *w)
{
    return w->now.hold_count == 0
               ? NULL
               : &w->now.holds[ron_rand_below(&w->rand, (uint64_t)w->now.hold_count)];
}

static void aim_at_hold(struct world *w, struct op *o)
{
    const struct hold *h = some_hold(w);

    o->ref = 1 + ron_rand_below(&w->rand, w->serial);
    if (h != NULL && ron_rand_chance(&w->rand, 9, 10)) {
        o->ref = h->serial;
        o->account = h->account;
        o->asset = h->asset;
        if (ron_rand_chance(&w->rand, 2, 3)) {
            o->amount = h->left;
        }
        if (ron_rand_chance(&w->rand, 1, 20)) {
            o->asset = (int)ron_rand_below(&w->rand, ASSETS);
        }
    }
}

static void aim_at_entry(struct world *w, struct op *o)
{
    uint64_t back = 1 + ron_rand_below(&w->rand, 30);
    const struct op *was;

    o->ref = w->serial > back ? w->serial - back : 1;
    was = &w->history[o->ref % HISTORY];
    if (was->serial == o->ref && ron_rand_chance(&w->rand, 9, 10)) {
        o->account = was->account;
        o->asset = was->asset;
        o->amount = ron_rand_chance(&w->rand, 1, 2) ? was->amount : o->amount;
    }
}

static struct op random_op(struct world *w)
{
    static const uint8_t kinds[] = {
        LED_KIND_MINT,     LED_KIND_MINT,     LED_KIND_BURN,    LED_KIND_TRANSFER,
        LED_KIND_TRANSFER, LED_KIND_TRANSFER, LED_KIND_HOLD,    LED_KIND_HOLD,
        LED_KIND_CAPTURE,  LED_KIND_RELEASE,  LED_KIND_REVERSE, LED_KIND_EXPIRE,
    };
    struct op o = {.serial = ++w->serial,
                   .kind = kinds[ron_rand_below(&w->rand, RON_ARRAY_LEN(kinds))],
                   .account = (int)ron_rand_below(&w->rand, ACCOUNTS),
                   .to = -1,
                   .asset = (int)ron_rand_below(&w->rand, ASSETS),
                   .amount = random_amount(w),
                   .nonce = w->serial,
                   .ts_ms = w->now_ms};

    if (o.kind == LED_KIND_CAPTURE || o.kind == LED_KIND_RELEASE || o.kind == LED_KIND_EXPIRE) {
        aim_at_hold(w, &o);
    } else if (o.kind == LED_KIND_REVERSE) {
        aim_at_entry(w, &o);
    } else if (o.kind == LED_KIND_HOLD) {
        o.expires_ms =
            ron_rand_chance(&w->rand, 2, 3) ? w->now_ms + 1 + ron_rand_below(&w->rand, 200) : 0;
        if (w->now.hold_count > HOLDS - BATCH - 1) {
            o.kind = LED_KIND_BURN;
            o.expires_ms = 0;
        }
    }
    if (o.kind == LED_KIND_TRANSFER || o.kind == LED_KIND_CAPTURE) {
        o.to = (o.account + 1 + (int)ron_rand_below(&w->rand, ACCOUNTS - 1)) % ACCOUNTS;
    }
    if (ron_rand_chance(&w->rand, 1, 40)) {
        o.nonce = w->serial - ron_rand_below(&w->rand, RON_MIN(w->serial, (uint64_t)20));
    }
    if (ron_rand_chance(&w->rand, 1, 4)) {
        o.account_nonce = w->now.nonce[o.account] + 1 + (ron_rand_chance(&w->rand, 1, 10) ? 1 : 0);
    }
    if (ron_rand_chance(&w->rand, 1, 100)) {
        o.ts_ms = ron_rand_chance(&w->rand, 1, 2) ? w->now_ms + 5001 : w->now_ms - 86400001;
        o.expires_ms = o.kind == LED_KIND_HOLD ? o.ts_ms + 1000 : 0;
    }
    return o;
}

/* Debits and credits come together, mostly in balance. */
static int random_batch(struct world *w, struct op *ops)
{
    /* Half of them alone, so that much is accepted even where most entries are refused. */
    int count = ron_rand_chance(&w->rand, 1, 2) ? 1 : 1 + (int)ron_rand_below(&w->rand, BATCH - 2);

    for (int i = 0; i < count; i++) {
        ops[i] = random_op(w);
        w->history[ops[i].serial % HISTORY] = ops[i];
        for (int a = 0; a < ACCOUNTS; a++) {
            w->used[a][ops[i].serial % HISTORY] = false; /* a serial of long ago */
        }
        w->now.reversed[ops[i].serial % HISTORY] = 0;
    }
    if (count >= 2 && ron_rand_chance(&w->rand, 1, 4)) {
        struct op *debit = &ops[count - 2];
        struct op *credit = &ops[count - 1];

        debit->kind = LED_KIND_DEBIT;
        credit->kind = LED_KIND_CREDIT;
        credit->asset = debit->asset;
        if (ron_rand_chance(&w->rand, 9, 10)) {
            credit->amount = debit->amount;
        }
        for (struct op *o = debit; o <= credit; o++) {
            o->to = -1;
            o->ref = 0;
            o->expires_ms = 0;
            w->history[o->serial % HISTORY] = *o;
        }
    }
    return count;
}

/* ---- both ------------------------------------------------------------------------------------ */

static const char *const account_names[ACCOUNTS] = {"a0", "a1", "t:x/u:2", "a3", "a4",
                                                    "a5", "a6", "t:x/u:7", "a8", "a9"};
static const char *const asset_names[ASSETS] = {"roc", "usd", "pts.x"};

static struct ron_str str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

struct texts {
    char id[24], ref[24];
};

static struct led_entry to_entry(const struct op *o, struct texts *t)
{
    struct led_entry e = {.account = str(account_names[o->account]),
                          .asset = str(asset_names[o->asset]),
                          .kid = str("k"),
                          .capability_ref = str("c"),
                          .amount.v = o->amount,
                          .ts_ms = o->ts_ms,
                          .account_nonce = o->account_nonce,
                          .expires_ms = o->expires_ms,
                          .kind = o->kind,
                          .v = 1};
    struct led_refusal refusal;

    (void)snprintf(t->id, sizeof t->id, "op%llu", (unsigned long long)o->serial);
    (void)snprintf(t->ref, sizeof t->ref, "op%llu", (unsigned long long)o->ref);
    e.id = str(t->id);
    if (led_kind_takes_ref(o->kind)) {
        e.ref = str(t->ref);
    }
    if (o->to >= 0) {
        e.to = str(account_names[o->to]);
    }
    memcpy(e.nonce, &o->nonce, sizeof o->nonce);
    if (!led_entry_check(&e, LED_ORIGIN_LEDGER, &refusal)) {
        fail_msg("%s: %s", refusal.member, refusal.detail);
    }
    return e;
}

static void compare_view(const struct world *w, const struct model *m, enum led_view view)
{
    for (int a = 0; a < ACCOUNTS; a++) {
        struct led_account account = {0};

        (void)led_book_account(w->book, str(account_names[a]), view, &account);
        assert_int_equal(account.account_nonce, m->nonce[a]);
        assert_int_equal(account.last_seq, m->last_seq[a]);
        for (int k = 0; k < ASSETS; k++) {
            struct led_balance b = {0};

            (void)led_book_balance(w->book, str(account_names[a]), str(asset_names[k]), view, &b);
            support_assert_u128_equal(b.available.v, m->available[a][k]);
            support_assert_u128_equal(b.held.v, m->held[a][k]);
        }
    }
    for (int k = 0; k < ASSETS; k++) {
        support_assert_u128_equal(led_book_supply(w->book, str(asset_names[k]), view).v,
                                  m->supply[k]);
    }
}

static void compare(const struct world *w)
{
    compare_view(w, &w->now, LED_PROJECTED);
    compare_view(w, &w->committed[0], LED_COMMITTED);
    for (int i = 0; i < w->now.hold_count; i++) {
        char id[24];

        (void)snprintf(id, sizeof id, "op%llu", (unsigned long long)w->now.holds[i].serial);
        support_assert_u128_equal(led_book_hold(w->book, str(id)).v, w->now.holds[i].left);
    }
    if (led_book_audit(w->book) != NULL) {
        fail_msg("%s", led_book_audit(w->book));
    }
}

static struct led_outcome book_batch(struct world *w, const struct op *ops, int count, bool dry)
{
    struct led_entry entries[BATCH];
    struct led_entry reversed[BATCH];
    const struct led_entry *originals[BATCH] = {NULL};
    struct texts texts[BATCH];
    struct texts more[BATCH];
    struct led_outcome outcome = {0};
    struct led_apply in = {.entries = entries,
                           .count = (size_t)count,
                           .originals = originals,
                           .now_ms = w->now_ms,
                           .seq_first = w->seq,
                           .flags = LED_APPLY_REVERSIBLE | (dry ? LED_APPLY_DRY_RUN : 0u)};

    for (int i = 0; i < count; i++) {
        const struct op *was = &w->history[ops[i].ref % HISTORY];

        entries[i] = to_entry(&ops[i], &texts[i]);
        if (ops[i].kind == LED_KIND_REVERSE && was->serial == ops[i].ref &&
            ops[i].ref < ops[0].serial) {
            reversed[i] = to_entry(was, &more[i]);
            originals[i] = &reversed[i];
        }
    }
    assert_int_equal(led_book_apply(w->book, &in, &outcome), RON_OK);
    return outcome;
}

static bool step(struct world *w)
{
    static struct model before;
    static bool used_before[ACCOUNTS][HISTORY];
    struct op ops[BATCH];
    int count = random_batch(w, ops);
    bool dry = ron_rand_chance(&w->rand, 1, 20);
    uint8_t digest[2][32];
    struct led_outcome got;
    struct verdict expected;

    before = w->now;
    memcpy(used_before, w->used, sizeof used_before);
    led_book_digest(w->book, digest[0]);
    expected = model_batch(w, ops, count);
    got = book_batch(w, ops, count, dry);
    if (got.accepted != (expected.reason == LED_REASON_OK) ||
        (!got.accepted && (got.refusal.reason != expected.reason ||
                           (expected.idx >= 0 && got.refusal.idx != (uint32_t)expected.idx)))) {
        fail_msg("book: %s at %u (%s: %s), model: %s at %d, op kind %d",
                 led_reason_name(got.refusal.reason), got.refusal.idx, got.refusal.member,
                 got.refusal.detail, led_reason_name(expected.reason), expected.idx,
                 ops[got.refusal.idx].kind);
    }
    if (!got.accepted || dry) {
        w->now = before;
        memcpy(w->used, used_before, sizeof used_before);
        led_book_digest(w->book, digest[1]);
        assert_memory_equal(digest[0], digest[1], 32);
        for (int i = 0; i < count; i++) {
            w->history[ops[i].serial % HISTORY].serial = 0; /* no entry of that id exists */
        }
        return false;
    }
    w->seq += (uint64_t)count;
    w->committed[++w->pending] = w->now;
    return true;
}

/* Commits some batches, so that PENDING is never passed. */
static void settle(struct world *w)
{
    int keep = (int)ron_rand_below(&w->rand, PENDING);

    while (w->pending > keep) {
        (void)led_book_commit(w->book);
        memmove(&w->committed[0], &w->committed[1], (size_t)w->pending * sizeof w->committed[0]);
        w->pending--;
    }
    assert_int_equal(led_book_pending(w->book), w->pending);
}

static uint64_t run_seed(uint64_t seed)
{
    static struct world w;
    struct led_book_opts opts = {.batch_max = BATCH, .undo_max = 1024};
    uint64_t accepted = 0;

    memset(&w, 0, sizeof w);
    ron_rand_seed(&w.rand, seed);
    ron_rand_bytes(&w.rand, opts.hash_key, sizeof opts.hash_key);
    w.now_ms = NOW;
    w.seq = 1;
    assert_int_equal(led_book_new(&opts, &w.book), RON_OK);
    while (w.serial < OPS) {
        int account = (int)ron_rand_below(&w.rand, ACCOUNTS);

        accepted += step(&w);
        w.now_ms += ron_rand_below(&w.rand, 20);
        if (w.pending == PENDING || ron_rand_chance(&w.rand, 1, 4)) {
            settle(&w);
        }
        /* Only the first three accounts, so that the world never stands still. */
        account %= 3;
        if (ron_rand_chance(&w.rand, 1, 50) &&
            led_book_freeze(w.book, str(account_names[account]), !w.frozen[account]) == RON_OK) {
            w.frozen[account] = !w.frozen[account];
        }
        compare(&w);
    }
    led_book_abort(w.book);
    w.now = w.committed[0];
    w.pending = 0;
    compare(&w);
    led_book_free(w.book);
    return accepted;
}

static void test_led_book__random_operations__agree_with_a_plain_model(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        uint64_t accepted = run_seed(ron_rand_u64(&rand));

        assert_true(accepted > OPS / 200); /* the world must not stand still */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_book__random_operations__agree_with_a_plain_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
