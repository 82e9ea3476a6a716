/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each rule of the book has its refusal, a refused batch changes nothing, and committed and
 * projected views differ by exactly what is uncommitted.
 * Method: small named cases on one book. The random comparison with a model is
 * test_book_model.c. */
#include "support/support.h"

#include "ledger/book/book.h"

#define NOW UINT64_C(1700000000000)

static struct led_book *book;
static uint64_t seq;
static uint64_t serial;
static uint64_t now;
static uint32_t flags;
static struct led_entry list[64];
static char ids[64][24];
static const struct led_entry *originals[64];
static size_t count;
static struct led_outcome outcome;

static int setup(void **state)
{
    struct led_book_opts opts = {.hash_key = "0123456789abcde", .batch_max = 64, .undo_max = 4096};

    (void)state;
    seq = 1;
    now = NOW;
    flags = LED_APPLY_REVERSIBLE;
    count = 0;
    return led_book_new(&opts, &book) == RON_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    led_book_free(book);
    book = NULL;
    return 0;
}

static struct ron_str str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

/* Adds an entry to the batch under construction. */
static struct led_entry *add(uint8_t kind, const char *account, uint64_t amount)
{
    struct led_entry *e = &list[count];

    serial++;
    (void)snprintf(ids[count], sizeof ids[count], "e%llu", (unsigned long long)serial);
    *e = (struct led_entry){.id = str(ids[count]),
                            .account = str(account),
                            .asset = str("roc"),
                            .kid = str("k"),
                            .capability_ref = str("c"),
                            .amount = ron_money_of(amount),
                            .ts_ms = now,
                            .kind = kind,
                            .v = 1};
    memcpy(e->nonce, &serial, sizeof serial);
    originals[count] = NULL;
    count++;
    return e;
}

static struct led_entry *transfer(const char *from, const char *to, uint64_t amount)
{
    struct led_entry *e = add(LED_KIND_TRANSFER, from, amount);

    e->to = str(to);
    return e;
}

static enum ron_rc run(void)
{
    struct led_apply in = {.entries = list,
                           .count = count,
                           .originals = originals,
                           .now_ms = now,
                           .seq_first = seq,
                           .flags = flags};
    enum ron_rc rc = led_book_apply(book, &in, &outcome);

    if (rc == RON_OK && outcome.accepted && (flags & LED_APPLY_DRY_RUN) == 0) {
        seq += count;
    }
    count = 0;
    assert_null(led_book_audit(book));
    return rc;
}

static void accepted(void)
{
    assert_int_equal(run(), RON_OK);
    if (!outcome.accepted) {
        fail_msg("refused: %s %s %s", led_reason_name(outcome.refusal.reason),
                 outcome.refusal.member, outcome.refusal.detail);
    }
}

/* The batch is refused for that, and nothing of it stays. */
static void refused(enum led_reason reason, const char *member, uint32_t idx)
{
    struct led_book_stats before;
    struct led_book_stats after;
    uint8_t digest[2][32];

    led_book_stats(book, &before);
    led_book_digest(book, digest[0]);
    assert_int_equal(run(), RON_OK);
    assert_false(outcome.accepted);
    if (outcome.refusal.reason != reason || strcmp(outcome.refusal.member, member) != 0) {
        fail_msg("refused by %s of '%s': %s", led_reason_name(outcome.refusal.reason),
                 outcome.refusal.member, outcome.refusal.detail);
    }
    assert_int_equal(outcome.refusal.idx, idx);
    led_book_digest(book, digest[1]);
    assert_memory_equal(digest[0], digest[1], 32);
    led_book_stats(book, &after);
    assert_int_equal(before.accounts, after.accounts);
    assert_int_equal(before.holds, after.holds);
    assert_int_equal(before.fingerprints, after.fingerprints);
    assert_int_equal(before.undo_used, after.undo_used);
}

static void balance_is(const char *account, enum led_view view, uint64_t available, uint64_t held)
{
    struct led_balance b = {0};

    (void)led_book_balance(book, str(account), str("roc"), view, &b);
    support_assert_u128_equal(b.available.v, available);
    support_assert_u128_equal(b.held.v, held);
}

static void mint(const char *account, uint64_t amount)
{
    (void)add(LED_KIND_MINT, account, amount);
    accepted();
}

static void test_led_book__transfer__moves_and_refuses_what_is_not_there(void **state)
{
    (void)state;
    mint("a", 100);
    (void)transfer("a", "b", 60);
    accepted();
    balance_is("a", LED_PROJECTED, 40, 0);
    balance_is("b", LED_PROJECTED, 60, 0);
    (void)transfer("a", "b", 41);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    (void)transfer("nobody", "b", 1);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    /* In order: the second has its money only from the first. */
    (void)transfer("a", "c", 40);
    (void)transfer("c", "d", 40);
    accepted();
    (void)transfer("e", "f", 1);
    (void)transfer("d", "e", 1);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    (void)transfer("d", "new1", 1);
    (void)transfer("b", "new2", 61);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 1);
    add(LED_KIND_BURN, "b", 61);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    add(LED_KIND_BURN, "b", 60);
    accepted();
    support_assert_u128_equal(led_book_supply(book, str("roc"), LED_PROJECTED).v, 40);
    add(LED_KIND_BURN, "d", 40)->asset = str("usd");
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
}

static void test_led_book__credits_and_debits__balance_per_asset(void **state)
{
    (void)state;
    mint("a", 100);
    (void)add(LED_KIND_DEBIT, "a", 30);
    (void)add(LED_KIND_CREDIT, "b", 10);
    (void)add(LED_KIND_CREDIT, "c", 20);
    accepted();
    balance_is("c", LED_PROJECTED, 20, 0);
    (void)add(LED_KIND_CREDIT, "b", 10);
    refused(LED_REASON_INVALID, "amount", 0);
    (void)transfer("a", "b", 1);
    (void)add(LED_KIND_DEBIT, "a", 10);
    (void)add(LED_KIND_CREDIT, "b", 9);
    refused(LED_REASON_INVALID, "amount", 1);
    (void)add(LED_KIND_DEBIT, "a", 10);
    add(LED_KIND_CREDIT, "b", 10)->asset = str("usd");
    refused(LED_REASON_INVALID, "amount", 1);
    /* Money that exists only inside the batch cannot be burnt. */
    (void)add(LED_KIND_CREDIT, "x", 200);
    (void)add(LED_KIND_BURN, "x", 200);
    refused(LED_REASON_CONFLICT, "amount", 1);
}

static void test_led_book__edges_of_u128__are_refused_not_wrapped(void **state)
{
    (void)state;
    add(LED_KIND_MINT, "a", 1)->amount = RON_MONEY_MAX;
    accepted();
    (void)add(LED_KIND_MINT, "b", 1);
    refused(LED_REASON_CONFLICT, "amount", 0);
    (void)add(LED_KIND_CREDIT, "a", 1);
    refused(LED_REASON_CONFLICT, "amount", 0);
    add(LED_KIND_CREDIT, "b", 1)->amount = RON_MONEY_MAX;
    add(LED_KIND_CREDIT, "c", 1)->amount = RON_MONEY_MAX;
    refused(LED_REASON_CONFLICT, "amount", 1);
    transfer("a", "b", 1)->amount = RON_MONEY_MAX;
    accepted();
    add(LED_KIND_HOLD, "b", 1)->amount = RON_MONEY_MAX;
    accepted();
    add(LED_KIND_MINT, "a", 5)->asset = str("usd");
    accepted();
}

static void test_led_book__hold__captured_released_and_bounded(void **state)
{
    struct led_entry *e;

    (void)state;
    mint("a", 100);
    add(LED_KIND_HOLD, "a", 101)->id = str("h0");
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    add(LED_KIND_HOLD, "a", 50)->id = str("h1");
    accepted();
    balance_is("a", LED_PROJECTED, 50, 50);
    (void)transfer("a", "b", 51);
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    e = add(LED_KIND_CAPTURE, "a", 51);
    e->to = str("shop");
    e->ref = str("h1");
    refused(LED_REASON_INSUFFICIENT_FUNDS, "amount", 0);
    e = add(LED_KIND_CAPTURE, "b", 1);
    e->to = str("shop");
    e->ref = str("h1");
    refused(LED_REASON_CONFLICT, "account", 0);
    e = add(LED_KIND_RELEASE, "a", 1);
    e->asset = str("usd");
    e->ref = str("h1");
    refused(LED_REASON_CONFLICT, "asset", 0);
    add(LED_KIND_RELEASE, "a", 1)->ref = str("h2");
    refused(LED_REASON_NOT_FOUND, "ref", 0);
    e = add(LED_KIND_CAPTURE, "a", 30);
    e->to = str("shop");
    e->ref = str("h1");
    accepted();
    support_assert_u128_equal(led_book_hold(book, str("h1")).v, 20);
    add(LED_KIND_RELEASE, "a", 20)->ref = str("h1");
    accepted();
    balance_is("a", LED_PROJECTED, 70, 0);
    balance_is("shop", LED_PROJECTED, 30, 0);
    add(LED_KIND_RELEASE, "a", 1)->ref = str("h1");
    refused(LED_REASON_NOT_FOUND, "ref", 0);
    while (led_book_pending(book) > 0) {
        (void)led_book_commit(book);
    }
    add(LED_KIND_RELEASE, "a", 1)->ref = str("h1");
    refused(LED_REASON_NOT_FOUND, "ref", 0);
}

static void test_led_book__expiry__is_an_entry_of_its_own(void **state)
{
    struct led_expiry x;
    struct led_expiry again;
    struct led_entry *e;
    struct led_refusal r;

    (void)state;
    mint("a", 100);
    assert_int_equal(led_book_commit(book), 1);
    e = add(LED_KIND_HOLD, "a", 10);
    e->id = str("late");
    e->expires_ms = now + 2000;
    e = add(LED_KIND_HOLD, "a", 20);
    e->id = str("soon");
    e->expires_ms = now + 1000;
    add(LED_KIND_HOLD, "a", 30)->id = str("never");
    accepted();
    assert_false(led_book_next_expiry(book, now + 999, &x));
    add(LED_KIND_EXPIRE, "a", 20)->ref = str("soon");
    refused(LED_REASON_CONFLICT, "ref", 0);
    now += 1000;
    add(LED_KIND_RELEASE, "a", 20)->ref = str("soon");
    refused(LED_REASON_CONFLICT, "ref", 0);
    assert_true(led_book_next_expiry(book, now, &x));
    assert_true(led_book_next_expiry(book, now, &again));
    assert_true(ron_str_is(x.entry.ref, "soon"));
    assert_int_equal(x.entry.id.len, again.entry.id.len);
    assert_memory_equal(x.entry.id.ptr, again.entry.id.ptr, x.entry.id.len);
    assert_true(led_entry_check(&x.entry, LED_ORIGIN_LEDGER, &r));
    assert_false(led_entry_check(&x.entry, LED_ORIGIN_CALLER, &r));
    list[0] = x.entry;
    list[0].amount = ron_money_of(19);
    count = 1;
    refused(LED_REASON_CONFLICT, "amount", 0);
    assert_int_equal(led_book_freeze(book, str("a"), true), RON_OK);
    list[0] = x.entry;
    count = 1;
    accepted();
    balance_is("a", LED_PROJECTED, 60, 40);
    assert_false(led_book_next_expiry(book, now, &x));
    assert_true(led_book_next_expiry(book, now + 1000, &x));
    assert_true(ron_str_is(x.entry.ref, "late"));
    led_book_abort(book);
    assert_false(led_book_next_expiry(book, now + 100000, &x));
}

static void test_led_book__reverse__is_bounded_by_what_is_left(void **state)
{
    struct led_entry original;

    (void)state;
    mint("a", 100);
    original = *transfer("a", "b", 50);
    original.id = str("t1");
    list[0].id = original.id;
    accepted();
    add(LED_KIND_REVERSE, "a", 10)->ref = str("t1");
    refused(LED_REASON_NOT_FOUND, "ref", 0);
    add(LED_KIND_REVERSE, "a", 51)->ref = str("t1");
    originals[0] = &original;
    refused(LED_REASON_CONFLICT, "amount", 0);
    add(LED_KIND_REVERSE, "b", 10)->ref = str("t1");
    originals[0] = &original;
    refused(LED_REASON_CONFLICT, "account", 0);
    flags = 0;
    add(LED_KIND_REVERSE, "a", 10)->ref = str("t1");
    originals[0] = &original;
    refused(LED_REASON_POLICY_DENIED, "kind", 0);
    flags = LED_APPLY_REVERSIBLE;
    add(LED_KIND_REVERSE, "a", 20)->ref = str("t1");
    originals[0] = &original;
    accepted();
    balance_is("a", LED_PROJECTED, 70, 0);
    add(LED_KIND_REVERSE, "a", 31)->ref = str("t1");
    originals[0] = &original;
    refused(LED_REASON_CONFLICT, "amount", 0);
    add(LED_KIND_REVERSE, "a", 30)->ref = str("t1");
    originals[0] = &original;
    accepted();
    add(LED_KIND_REVERSE, "a", 1)->ref = str("t1");
    originals[0] = &original;
    refused(LED_REASON_CONFLICT, "amount", 0);
    /* An entry of the same batch, and a credit whose reversal counts as a debit. */
    add(LED_KIND_CREDIT, "c", 10)->id = str("cr");
    add(LED_KIND_REVERSE, "c", 10)->ref = str("cr");
    accepted();
    add(LED_KIND_HOLD, "a", 10)->id = str("ho");
    add(LED_KIND_REVERSE, "a", 10)->ref = str("ho");
    refused(LED_REASON_CONFLICT, "ref", 1);
    balance_is("a", LED_PROJECTED, 100, 0);
}

static void test_led_book__keys__are_used_once(void **state)
{
    struct led_entry first;

    (void)state;
    mint("a", 100);
    first = *transfer("a", "b", 1);
    first.account_nonce = 1;
    list[0] = first;
    accepted();
    (void)transfer("a", "b", 2);
    memcpy(list[0].nonce, first.nonce, sizeof first.nonce);
    refused(LED_REASON_IDEM_MISMATCH, "nonce", 0);
    (void)transfer("a", "b", 2);
    transfer("a", "b", 2)->id = list[0].id;
    refused(LED_REASON_CONFLICT, "id", 1);
    (void)transfer("a", "b", 2);
    (void)transfer("a", "b", 2);
    memcpy(list[1].nonce, list[0].nonce, sizeof first.nonce);
    refused(LED_REASON_IDEM_MISMATCH, "nonce", 1);
    transfer("a", "b", 2)->account_nonce = 1;
    refused(LED_REASON_NONCE_CONFLICT, "account_nonce", 0);
    transfer("a", "b", 2)->account_nonce = 3;
    refused(LED_REASON_NONCE_CONFLICT, "account_nonce", 0);
    transfer("a", "b", 2)->account_nonce = 2;
    transfer("a", "b", 2)->account_nonce = 3;
    accepted();
    /* Another account may use the same nonce. */
    (void)transfer("b", "a", 2);
    memcpy(list[0].nonce, first.nonce, sizeof first.nonce);
    accepted();
}

static void test_led_book__horizon__refuses_stale_and_forgets_after_it(void **state)
{
    struct led_book_stats stats;

    (void)state;
    mint("a", 100);
    transfer("a", "b", 1)->ts_ms = now + LED_FUTURE_MS + 1;
    refused(LED_REASON_INVALID, "ts", 0);
    transfer("a", "b", 1)->ts_ms = now + LED_FUTURE_MS;
    accepted();
    transfer("a", "b", 1)->ts_ms = now - 24 * 3600 * 1000 - 1;
    refused(LED_REASON_INVALID, "ts", 0);
    transfer("a", "b", 1)->ts_ms = now - 24 * 3600 * 1000;
    accepted();
    flags |= LED_APPLY_IMPORT;
    transfer("a", "b", 1)->ts_ms = 1;
    accepted();
    led_book_stats(book, &stats);
    assert_int_equal(stats.fingerprints, 3);
    now += UINT64_C(40) * 3600 * 1000;
    (void)transfer("a", "b", 1);
    accepted();
    led_book_stats(book, &stats);
    assert_int_equal(stats.fingerprints, 1);
}

static uint64_t fingerprints(void)
{
    struct led_book_stats stats;

    led_book_stats(book, &stats);
    return stats.fingerprints;
}

static void test_led_book__slices_of_time__are_all_asked_and_dropped_one_by_one(void **state)
{
    enum { HOUR_MS = 3600 * 1000 };
    uint8_t nonce[LED_NONCE_SIZE];

    (void)state;
    memcpy(nonce, add(LED_KIND_MINT, "a", 1)->nonce, sizeof nonce);
    accepted();
    now += 7 * HOUR_MS; /* A slice is 6 hours. */
    memcpy(add(LED_KIND_MINT, "a", 1)->nonce, nonce, sizeof nonce);
    refused(LED_REASON_IDEM_MISMATCH, "nonce", 0);
    mint("a", 1);
    add(LED_KIND_MINT, "a", 1)->ts_ms = now - 7 * HOUR_MS; /* Into the slice of before. */
    accepted();
    assert_int_equal(fingerprints(), 3);
    now += 24 * HOUR_MS; /* The first slice ended more than 24 hours ago. */
    mint("a", 1);
    assert_int_equal(fingerprints(), 2);
    now += 7 * HOUR_MS;
    mint("a", 1);
    assert_int_equal(fingerprints(), 2);
}

/* What the log has was accepted under the horizon of then. */
static void test_led_book__used_nonce_from_the_log__used_anew(void **state)
{
    enum { HOUR_MS = 3600 * 1000 };
    static const uint32_t of[] = {LED_APPLY_REPLAY, LED_APPLY_IMPORT | LED_APPLY_NONCE_AGAIN};
    uint8_t nonce[LED_NONCE_SIZE];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(of); i++) {
        memcpy(nonce, add(LED_KIND_MINT, "a", 1)->nonce, sizeof nonce);
        accepted();
        now += 7 * HOUR_MS; /* A slice is 6 hours. */
        mint("a", 1);
        while (led_book_pending(book) > 0) {
            (void)led_book_commit(book);
        }
        for (int n = 0; n < 3; n++) {
            memcpy(add(LED_KIND_MINT, "a", 1)->nonce, nonce, sizeof nonce);
            flags = LED_APPLY_IMPORT; /* one over HTTP obeys the rule */
            refused(LED_REASON_IDEM_MISMATCH, "nonce", 0);
            flags = of[i];
            memcpy(add(LED_KIND_MINT, "a", 1)->nonce, nonce, sizeof nonce);
            accepted();
            led_book_abort(book); /* does not forget the first use */
            seq = 1 + led_book_committed_seq(book);
        }
        memcpy(add(LED_KIND_MINT, "a", 1)->nonce, nonce, sizeof nonce);
        accepted();
        flags = 0;
        now += 23 * HOUR_MS; /* The first use is forgotten, the second is not. */
        mint("a", 1);
        memcpy(add(LED_KIND_MINT, "a", 1)->nonce, nonce, sizeof nonce);
        refused(LED_REASON_IDEM_MISMATCH, "nonce", 0);
        (void)add(LED_KIND_MINT, "a", 1);
        memcpy(add(LED_KIND_MINT, "a", 1)->nonce, list[0].nonce, sizeof nonce);
        refused(LED_REASON_IDEM_MISMATCH, "nonce", 1); /* twice in one batch */
    }
}

static void test_led_book__frozen__neither_pays_nor_is_paid(void **state)
{
    struct led_account a;

    (void)state;
    assert_int_equal(led_book_freeze(book, str("cold"), true), RON_OK);
    mint("a", 100);
    (void)transfer("a", "cold", 1);
    refused(LED_REASON_POLICY_DENIED, "to", 0);
    assert_int_equal(led_book_freeze(book, str("a"), true), RON_AGAIN); /* it may be taken back */
    assert_int_equal(led_book_commit(book), 1);
    mint("a", 100);
    assert_int_equal(led_book_freeze(book, str("a"), true), RON_OK);
    assert_int_equal(led_book_freeze(book, str("unheard"), true), RON_AGAIN);
    (void)transfer("a", "b", 1);
    refused(LED_REASON_POLICY_DENIED, "account", 0);
    flags |= LED_APPLY_REPLAY;
    (void)transfer("a", "b", 1);
    accepted();
    assert_true(led_book_account(book, str("a"), LED_PROJECTED, &a));
    assert_true(a.frozen);
    flags = 0;
    assert_int_equal(led_book_freeze(book, str("a"), false), RON_OK);
    (void)transfer("a", "b", 1);
    accepted();
}

static void test_led_book__views__differ_by_what_is_uncommitted(void **state)
{
    struct led_account a;
    uint8_t digest[2][32];

    (void)state;
    mint("a", 100);
    balance_is("a", LED_COMMITTED, 0, 0);
    assert_false(led_book_account(book, str("a"), LED_COMMITTED, &a));
    assert_int_equal(led_book_commit(book), 1);
    balance_is("a", LED_COMMITTED, 100, 0);
    led_book_digest(book, digest[0]);
    (void)transfer("a", "b", 10);
    accepted();
    (void)transfer("a", "b", 20);
    (void)transfer("b", "a", 5);
    accepted();
    balance_is("a", LED_COMMITTED, 100, 0);
    balance_is("a", LED_PROJECTED, 75, 0);
    assert_int_equal(led_book_commit(book), 2);
    balance_is("a", LED_COMMITTED, 90, 0);
    balance_is("b", LED_COMMITTED, 10, 0);
    assert_int_equal(led_book_pending(book), 1);
    led_book_abort(book);
    balance_is("a", LED_PROJECTED, 90, 0);
    balance_is("b", LED_PROJECTED, 10, 0);
    assert_int_equal(led_book_pending(book), 0);
    assert_true(led_book_account(book, str("a"), LED_COMMITTED, &a));
    assert_int_equal(a.last_seq, 2);
    flags |= LED_APPLY_DRY_RUN;
    led_book_digest(book, digest[0]);
    (void)transfer("a", "new", 10);
    accepted();
    led_book_digest(book, digest[1]);
    assert_memory_equal(digest[0], digest[1], 32);
}

static char seen[256];

static void see_supply(void *arg, struct ron_str asset, struct ron_money supply)
{
    size_t len = strlen(seen);

    (void)arg;
    (void)snprintf(seen + len, sizeof seen - len, "%.*s=%llu ", (int)asset.len, asset.ptr,
                   (unsigned long long)supply.v);
}

static bool see_hold(void *arg, const struct led_open_hold *hold)
{
    size_t len = strlen(seen);
    int *left = arg;

    (void)snprintf(seen + len, sizeof seen - len, "%.*s:%.*s=%llu@%llu ", (int)hold->id.len,
                   hold->id.ptr, (int)hold->asset.len, hold->asset.ptr,
                   (unsigned long long)hold->remaining.v, (unsigned long long)hold->seq);
    return --*left > 0;
}

static const char *supplies(enum led_view view)
{
    seen[0] = '\0';
    led_book_supplies(book, view, see_supply, NULL);
    return seen;
}

static const char *holds_of(const char *account, enum led_view view, int most)
{
    seen[0] = '\0';
    led_book_holds_of(book, str(account), view, see_hold, &most);
    return seen;
}

static void test_led_book__supplies_and_holds__are_told_in_both_views(void **state)
{
    (void)state;
    add(LED_KIND_MINT, "a", 100);
    add(LED_KIND_MINT, "b", 7)->asset = str("usd");
    accepted();
    add(LED_KIND_HOLD, "a", 10)->id = str("h1");
    add(LED_KIND_HOLD, "a", 20)->id = str("h2");
    accepted();
    assert_string_equal(supplies(LED_COMMITTED), "");
    assert_string_equal(supplies(LED_PROJECTED), "roc=100 usd=7 ");
    assert_string_equal(holds_of("a", LED_COMMITTED, 9), "");
    assert_string_equal(holds_of("a", LED_PROJECTED, 9), "h2:roc=20@4 h1:roc=10@3 ");
    assert_string_equal(holds_of("a", LED_PROJECTED, 1), "h2:roc=20@4 ");
    assert_string_equal(holds_of("b", LED_PROJECTED, 9), "");
    assert_string_equal(holds_of("nobody", LED_PROJECTED, 9), "");
    (void)led_book_commit(book);
    (void)led_book_commit(book);
    add(LED_KIND_RELEASE, "a", 20)->ref = str("h2");
    add(LED_KIND_BURN, "b", 7)->asset = str("usd");
    accepted();
    assert_string_equal(supplies(LED_COMMITTED), "roc=100 usd=7 ");
    assert_string_equal(supplies(LED_PROJECTED), "roc=100 ");
    assert_string_equal(holds_of("a", LED_COMMITTED, 9), "h2:roc=20@4 h1:roc=10@3 ");
    assert_string_equal(holds_of("a", LED_PROJECTED, 9), "h1:roc=10@3 ");
    (void)led_book_commit(book);
    assert_string_equal(holds_of("a", LED_COMMITTED, 9), "h1:roc=10@3 ");
}

static void test_led_book__limits__full_ring_and_long_batches(void **state)
{
    struct led_apply in = {.entries = list, .count = 0, .now_ms = now, .seq_first = 1};
    int batches = 0;

    (void)state;
    assert_int_equal(led_book_apply(book, &in, &outcome), RON_LIMIT);
    in.count = 65;
    assert_int_equal(led_book_apply(book, &in, &outcome), RON_LIMIT);
    mint("a", 1000000);
    for (;; batches++) {
        enum ron_rc rc;

        (void)transfer("a", "b", 1);
        rc = run();
        if (rc == RON_FULL) {
            break;
        }
        assert_int_equal(rc, RON_OK);
        assert_true(batches < 4096);
    }
    assert_true(batches > 1000);
    balance_is("a", LED_COMMITTED, 0, 0);
    (void)led_book_commit(book);
    balance_is("a", LED_COMMITTED, 1000000, 0);
    while (led_book_pending(book) > 0) {
        (void)led_book_commit(book);
    }
    balance_is("b", LED_COMMITTED, (uint64_t)batches, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_led_book__transfer__moves_and_refuses_what_is_not_there),
        CASE(test_led_book__credits_and_debits__balance_per_asset),
        CASE(test_led_book__edges_of_u128__are_refused_not_wrapped),
        CASE(test_led_book__hold__captured_released_and_bounded),
        CASE(test_led_book__expiry__is_an_entry_of_its_own),
        CASE(test_led_book__reverse__is_bounded_by_what_is_left),
        CASE(test_led_book__keys__are_used_once),
        CASE(test_led_book__horizon__refuses_stale_and_forgets_after_it),
        CASE(test_led_book__slices_of_time__are_all_asked_and_dropped_one_by_one),
        CASE(test_led_book__used_nonce_from_the_log__used_anew),
        CASE(test_led_book__frozen__neither_pays_nor_is_paid),
        CASE(test_led_book__views__differ_by_what_is_uncommitted),
        CASE(test_led_book__supplies_and_holds__are_told_in_both_views),
        CASE(test_led_book__limits__full_ring_and_long_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
