/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the book agrees with a plain model in every answer and every balance, over long runs.
 * Method: the model of book_model.h gets the same batches. After every batch: the same verdict,
 * reason and index; the same balances, nonces, last seqs, holds and supplies in both views; the
 * invariants; the same digest as before when refused. Batches are committed, aborted and run dry at
 * random. Images are made all the while, a record a step, and loaded into a second book: it must be
 * the committed state of when the image began; at times the run goes on with the loaded book.
 * RON_SEED repeats a run. */
#include "unit/ledger/book_model.h"

#include "base/rand_priv.h"
#include "ron/base/alloc.h"

#define NOW UINT64_C(1700000000000)

enum {
    BATCH = 12,
    PENDING = 6,
    SEEDS = 4,
    OPS = 20000, /* times four seeds; under ThreadSanitizer that is 10 s */
};

struct world {
    struct ron_rand rand;
    struct led_book *book;
    struct run run;
    struct model committed[PENDING + 1]; /* states after each uncommitted batch; [0] is committed */
    uint8_t digests[PENDING + 1][32];    /* of the same */
    uint64_t seqs[PENDING + 1];          /* last seq of the same */
    uint64_t serials[PENDING + 1];       /* last serial of the same */
    struct led_book_opts opts;
    struct led_used used[OPS + BATCH]; /* by seq - 1: what the log would tell after a load */
    struct led_book *loaded; /* what is there of the image so far; NULL: none is being made */
    struct model image;      /* what it must be in the end */
    uint8_t image_digest[32];
    uint64_t image_seq;
    uint64_t images;
    int pending;
    uint64_t serial;
};

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
    return w->run.now.hold_count == 0
               ? NULL
               : &w->run.now.holds[ron_rand_below(&w->rand, (uint64_t)w->run.now.hold_count)];
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
    was = &w->run.history[o->ref % HISTORY];
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
                   .ts_ms = w->run.now_ms};

    if (o.kind == LED_KIND_CAPTURE || o.kind == LED_KIND_RELEASE || o.kind == LED_KIND_EXPIRE) {
        aim_at_hold(w, &o);
    } else if (o.kind == LED_KIND_REVERSE) {
        aim_at_entry(w, &o);
    } else if (o.kind == LED_KIND_HOLD) {
        o.expires_ms =
            ron_rand_chance(&w->rand, 2, 3) ? w->run.now_ms + 1 + ron_rand_below(&w->rand, 200) : 0;
        if (w->run.now.hold_count > HOLDS - BATCH - 1) {
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
        o.account_nonce =
            w->run.now.nonce[o.account] + 1 + (ron_rand_chance(&w->rand, 1, 10) ? 1 : 0);
    }
    if (ron_rand_chance(&w->rand, 1, 100)) {
        o.ts_ms = ron_rand_chance(&w->rand, 1, 2) ? w->run.now_ms + 5001 : w->run.now_ms - 86400001;
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
        w->run.history[ops[i].serial % HISTORY] = ops[i];
        for (int a = 0; a < ACCOUNTS; a++) {
            w->run.now.used[a][ops[i].serial % HISTORY] = false; /* a serial of long ago */
        }
        w->run.now.reversed[ops[i].serial % HISTORY] = 0;
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
            w->run.history[o->serial % HISTORY] = *o;
        }
    }
    return count;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Two are too long for the record of an account. */
static const char *const account_names[ACCOUNTS] = {
    "a0",      "a1",
    "t:x/u:2", "a3",
    "a4",      "tenant:example/user:with-a-name-of-many-words/wallet:5",
    "a6",      "t:x/u:7",
    "a8",      "tenant:example/user:with-another-name-of-many-words/wallet:9"};
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

struct hold_sum {
    ron_u128 left;
    int count;
};

static bool add_hold(void *arg, const struct led_open_hold *hold)
{
    struct hold_sum *sum = arg;

    sum->left += hold->remaining.v;
    sum->count++;
    return true;
}

static void compare_holds(const struct world *w, const struct model *m, enum led_view view)
{
    for (int a = 0; a < ACCOUNTS; a++) {
        struct hold_sum got = {0};
        struct hold_sum expected = {0};

        led_book_holds_of(w->book, str(account_names[a]), view, add_hold, &got);
        for (int i = 0; i < m->hold_count; i++) {
            if (m->holds[i].account == a) {
                expected.left += m->holds[i].left; /* modulo 2^128 on both sides */
                expected.count++;
            }
        }
        assert_int_equal(got.count, expected.count);
        support_assert_u128_equal(got.left, expected.left);
    }
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
    compare_holds(w, m, view);
}

static void compare(const struct world *w)
{
    compare_view(w, &w->run.now, LED_PROJECTED);
    compare_view(w, &w->committed[0], LED_COMMITTED);
    for (int i = 0; i < w->run.now.hold_count; i++) {
        char id[24];

        (void)snprintf(id, sizeof id, "op%llu", (unsigned long long)w->run.now.holds[i].serial);
        support_assert_u128_equal(led_book_hold(w->book, str(id)).v, w->run.now.holds[i].left);
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
                           .now_ms = w->run.now_ms,
                           .seq_first = w->run.seq,
                           .flags = LED_APPLY_REVERSIBLE | (dry ? LED_APPLY_DRY_RUN : 0u)};

    for (int i = 0; i < count; i++) {
        const struct op *was = &w->run.history[ops[i].ref % HISTORY];

        entries[i] = to_entry(&ops[i], &texts[i]);
        if (ops[i].kind == LED_KIND_REVERSE && was->serial == ops[i].ref &&
            ops[i].ref < ops[0].serial) {
            reversed[i] = to_entry(was, &more[i]);
            originals[i] = &reversed[i];
        }
    }
    assert_int_equal(led_book_apply(w->book, &in, &outcome), RON_OK);
    for (int i = 0; i < count; i++) { /* Written over by the next when this one is refused. */
        w->used[in.seq_first - 1 + (uint64_t)i] =
            (struct led_used){.ts_ms = entries[i].ts_ms,
                              .fingerprint = led_book_fingerprint(w->opts.hash_key, &entries[i])};
    }
    return outcome;
}

static bool step(struct world *w)
{
    static struct model before;
    struct op ops[BATCH];
    int count = random_batch(w, ops);
    bool dry = ron_rand_chance(&w->rand, 1, 20);
    uint8_t digest[2][32];
    struct led_outcome got;
    struct verdict expected;

    before = w->run.now;
    led_book_digest(w->book, digest[0]);
    expected = model_batch(&w->run, ops, count);
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
        w->run.now = before;
        led_book_digest(w->book, digest[1]);
        assert_memory_equal(digest[0], digest[1], 32);
        for (int i = 0; i < count; i++) {
            w->run.history[ops[i].serial % HISTORY].serial = 0; /* no entry of that id exists */
        }
        return false;
    }
    w->run.seq += (uint64_t)count;
    w->committed[++w->pending] = w->run.now;
    led_book_digest(w->book, w->digests[w->pending]);
    w->seqs[w->pending] = w->run.seq - 1;
    w->serials[w->pending] = w->serial;
    return true;
}

/* Commits some batches, so that PENDING is never passed. */
static void settle(struct world *w)
{
    int keep = (int)ron_rand_below(&w->rand, PENDING);

    while (w->pending > keep) {
        (void)led_book_commit(w->book);
        memmove(&w->committed[0], &w->committed[1], (size_t)w->pending * sizeof w->committed[0]);
        memmove(&w->digests[0], &w->digests[1], (size_t)w->pending * sizeof w->digests[0]);
        memmove(&w->seqs[0], &w->seqs[1], (size_t)w->pending * sizeof w->seqs[0]);
        memmove(&w->serials[0], &w->serials[1], (size_t)w->pending * sizeof w->serials[0]);
        w->pending--;
    }
    assert_int_equal(led_book_pending(w->book), w->pending);
}

/* Nothing of what is uncommitted has happened; what was refused never has. */
static void take_back(struct world *w)
{
    led_book_abort(w->book);
    assert_int_equal(led_book_pending(w->book), 0);
    w->run.now = w->committed[0];
    w->pending = 0;
    w->run.seq = w->seqs[0] + 1;
    for (uint64_t serial = w->serials[0] + 1; serial <= w->serial; serial++) {
        w->run.history[serial % HISTORY].serial = 0;
        w->run.now.reversed[serial % HISTORY] = 0;
        for (int a = 0; a < ACCOUNTS; a++) {
            w->run.now.used[a][serial % HISTORY] = false;
        }
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

static void begin_image(struct world *w)
{
    assert_int_equal(led_book_new(&w->opts, &w->loaded), RON_OK);
    assert_int_equal(led_book_image_begin(w->book, &w->image_seq), RON_OK);
    assert_int_equal(w->image_seq, w->seqs[0]);
    w->image = w->committed[0];
    memcpy(w->image_digest, w->digests[0], 32);
}

/* The run goes on with the loaded book, which knows nothing of freezing. */
static void change_books(struct world *w)
{
    for (int a = 0; a < ACCOUNTS; a++) {
        assert_int_equal(led_book_freeze(w->loaded, str(account_names[a]), w->run.frozen[a]),
                         RON_OK);
    }
    led_book_free(w->book);
    w->book = w->loaded;
    w->loaded = NULL;
}

static void end_image(struct world *w)
{
    struct led_book *book = w->book;
    struct led_book_stats stats;
    uint8_t digest[32];

    led_book_image_end(w->book);
    led_book_digest(w->loaded, digest);
    assert_memory_equal(digest, w->image_digest, 32);
    assert_int_equal(led_book_committed_seq(w->loaded), w->image_seq);
    assert_int_equal(led_book_recall(w->loaded, w->used, w->image_seq), RON_OK);
    led_book_stats(w->loaded, &stats);
    assert_int_equal(stats.fingerprints, w->image_seq); /* one an entry, and no day has passed */
    assert_int_equal(stats.holds, w->image.hold_count);
    w->book = w->loaded;
    compare_view(w, &w->image, LED_COMMITTED);
    compare_view(w, &w->image, LED_PROJECTED);
    assert_null(led_book_audit(w->book));
    w->book = book;
    w->images++;
    if (w->pending == 0 && w->image_seq == w->seqs[0]) {
        change_books(w);
        return;
    }
    led_book_free(w->loaded);
    w->loaded = NULL;
}

static void step_image(struct world *w)
{
    struct led_image_chunk chunk;
    bool done = false;

    assert_int_equal(led_book_image_step(w->book, &chunk), RON_OK);
    if (chunk.take_bytes == NULL) {
        return;
    }
    assert_int_equal(chunk.seq, w->image_seq);
    assert_int_equal(led_book_load(w->loaded, chunk.take_bytes, chunk.len, &done, NULL), RON_OK);
    assert_int_equal(done, chunk.last);
    ron_free(chunk.take_bytes);
    if (done) {
        end_image(w);
    }
}

/* Steps come now and then, or all at once; some images are given up. */
static void make_images(struct world *w)
{
    if (w->loaded == NULL) {
        if (ron_rand_chance(&w->rand, 1, 10)) {
            begin_image(w);
        }
        return;
    }
    if (ron_rand_chance(&w->rand, 1, 100)) {
        while (w->loaded != NULL) {
            step_image(w);
        }
    } else if (ron_rand_chance(&w->rand, 1, 500)) {
        led_book_image_end(w->book);
        led_book_free(w->loaded);
        w->loaded = NULL;
    } else if (ron_rand_chance(&w->rand, 1, 2)) {
        step_image(w);
    }
}

static uint64_t run_seed(uint64_t seed)
{
    static struct world w;
    uint64_t accepted = 0;

    memset(&w, 0, sizeof w);
    ron_rand_seed(&w.rand, seed);
    w.opts = (struct led_book_opts){.batch_max = BATCH, .undo_max = 1024, .image_walk = 1};
    ron_rand_bytes(&w.rand, w.opts.hash_key, sizeof w.opts.hash_key);
    w.run.now_ms = NOW;
    w.run.seq = 1;
    assert_int_equal(led_book_new(&w.opts, &w.book), RON_OK);
    while (w.serial < OPS) {
        int account = (int)ron_rand_below(&w.rand, ACCOUNTS);

        accepted += step(&w);
        make_images(&w);
        w.run.now_ms += ron_rand_below(&w.rand, 20);
        if (w.pending == PENDING || ron_rand_chance(&w.rand, 1, 4)) {
            settle(&w);
        } else if (ron_rand_chance(&w.rand, 1, 100)) {
            take_back(&w);
        }
        /* Only the first three accounts, so that the world never stands still. */
        account %= 3;
        if (ron_rand_chance(&w.rand, 1, 50) && led_book_freeze(w.book, str(account_names[account]),
                                                               !w.run.frozen[account]) == RON_OK) {
            w.run.frozen[account] = !w.run.frozen[account];
        }
        compare(&w);
    }
    assert_true(w.images > OPS / 1000);
    take_back(&w);
    compare(&w);
    led_book_free(w.book);
    led_book_free(w.loaded);
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
