/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation of the book fails, the call says so, nothing has changed, and the same
 * call succeeds when there is memory again; a lost image costs nothing but the image.
 * Method: the fault sweep over the life of a book that grows in every store. After each failure the
 * state is compared with the one before, the batch is applied again without faults, and in the end
 * the state must be that of a life without faults. Then the same for images and their loading. */
#include "support/support.h"

#include "ledger/book/book.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

#define NOW UINT64_C(1700000000000)

/* A third of the entries makes a record of a kind: more than LED_PAGE_FILL_MAX, so that each table
 * is split once. */
enum { BATCH = 60, BATCHES = 28, NAME = 200, STEP_MS = 20 * 60 * 1000, PAIRS = 900 };

typedef bool fault_hook(enum ron_fault_kind kind, const char *site);

static const struct led_book_opts opts = {
    .hash_key = "0123456789abcde", .batch_max = BATCH, .undo_max = 1024, .image_walk = 64};
static struct led_entry entries[BATCH];
static char names[BATCH][NAME + 16];
static char ids[BATCH][24];
static char refs[BATCH][24];
static uint8_t expected[32]; /* of a life without faults */

static fault_hook *hold_faults(void)
{
    fault_hook *hook = ron_fault_hook;

    ron_fault_hook = NULL;
    return hook;
}

/* Entry i of batch n: every kind of record is made again and again. */
static void fill(size_t n, size_t i)
{
    static const uint8_t kinds[] = {LED_KIND_MINT, LED_KIND_HOLD, LED_KIND_REVERSE};
    struct led_entry *e = &entries[i];
    uint64_t serial = 1 + n * BATCH + i;
    uint64_t account = n * BATCH + i - i % 3;

    *e = (struct led_entry){.id = {ids[i], (size_t)snprintf(ids[i], sizeof ids[i], "e%llu",
                                                            (unsigned long long)serial)},
                            .asset = {n % 5 == 4 ? "usd" : "roc", 3},
                            .kid = {"k", 1},
                            .capability_ref = {"c", 1},
                            .amount = ron_money_of(i % 3 == 0 ? 100 : 40),
                            .ts_ms = NOW + n * STEP_MS,
                            .kind = kinds[i % 3],
                            .v = 1};
    if (n % 5 == 4) {
        account -= BATCH; /* Those of the batch before get a further balance. */
    }
    e->account.ptr = names[i];
    e->account.len =
        (size_t)snprintf(names[i], sizeof names[i], "%0*llu", NAME, (unsigned long long)account);
    if (e->kind == LED_KIND_HOLD) {
        e->expires_ms = e->ts_ms + UINT64_C(3600000000);
    } else if (e->kind == LED_KIND_REVERSE) {
        e->ref.ptr = refs[i];
        e->ref.len =
            (size_t)snprintf(refs[i], sizeof refs[i], "e%llu", (unsigned long long)(serial - 2));
    }
    memcpy(e->nonce, &serial, sizeof serial);
}

static enum ron_rc apply(struct led_book *book, size_t n)
{
    struct led_outcome outcome;
    struct led_apply in = {.entries = entries,
                           .count = BATCH,
                           .now_ms = NOW + n * STEP_MS,
                           .seq_first = 1 + n * BATCH,
                           .flags = LED_APPLY_REVERSIBLE};
    enum ron_rc rc;

    for (size_t i = 0; i < BATCH; i++) {
        fill(n, i);
    }
    rc = led_book_apply(book, &in, &outcome);
    RON_ASSERT_MSG(rc != RON_OK || outcome.accepted, "refused at %u: %s %s", outcome.refusal.idx,
                   outcome.refusal.member, outcome.refusal.detail);
    return rc;
}

struct state {
    struct led_book_stats stats;
    uint8_t digest[32];
};

static struct state state_of(const struct led_book *book)
{
    struct state s;

    led_book_digest(book, s.digest);
    led_book_stats(book, &s.stats);
    return s;
}

static void must_be_same(const struct led_book *book, const struct state *before)
{
    struct state now = state_of(book);

    RON_ASSERT(memcmp(now.digest, before->digest, 32) == 0);
    RON_ASSERT(now.stats.accounts == before->stats.accounts);
    RON_ASSERT(now.stats.holds == before->stats.holds);
    RON_ASSERT(now.stats.fingerprints == before->stats.fingerprints);
    RON_ASSERT(now.stats.undo_used == before->stats.undo_used);
}

/* Applies batch n, again without faults if it fails; the first failure is noted. */
static void apply_surely(struct led_book *book, size_t n, enum ron_rc *failure)
{
    struct state before = state_of(book);
    enum ron_rc rc = apply(book, n);
    fault_hook *hook = hold_faults();

    if (rc != RON_OK) {
        RON_ASSERT(rc == RON_NOMEM);
        *failure = rc;
        must_be_same(book, &before);
        RON_ASSERT(led_book_audit(book) == NULL);
        RON_ASSERT(apply(book, n) == RON_OK);
    }
    RON_ASSERT(led_book_audit(book) == NULL);
    ron_fault_hook = hook;
}

static enum ron_rc live(void *arg)
{
    struct led_book *book;
    enum ron_rc failure = RON_OK;
    struct state end;

    (void)arg;
    RON_TRY(led_book_new(&opts, &book));
    for (size_t n = 0; n < BATCHES; n++) {
        apply_surely(book, n, &failure);
        if (n % 3 == 1) {
            /* As if the sync had failed: once more from what is committed. */
            led_book_abort(book);
            apply_surely(book, n, &failure);
        }
        (void)led_book_commit(book);
    }
    end = state_of(book);
    RON_ASSERT(memcmp(end.digest, expected, 32) == 0);
    led_book_free(book);
    return failure;
}

static enum ron_rc freeze(void *arg)
{
    struct led_book *book;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(led_book_new(&opts, &book));
    rc = led_book_freeze(book, (struct ron_str){"a", 1}, true);
    led_book_free(book);
    return rc;
}

/* ---- images ---------------------------------------------------------------------------------- */

static struct led_book *grown(void)
{
    fault_hook *hook = hold_faults();
    struct led_book *book;

    RON_ASSERT(led_book_new(&opts, &book) == RON_OK);
    for (size_t n = 0; n < BATCHES - 10; n++) {
        RON_ASSERT(apply(book, n) == RON_OK);
        (void)led_book_commit(book);
    }
    ron_fault_hook = hook;
    return book;
}

/* The next chunk goes straight into the other book. */
static enum ron_rc step(struct led_book *book, struct led_book *into, bool *ret_done)
{
    struct led_image_chunk chunk;
    enum ron_rc rc;

    RON_TRY(led_book_image_step(book, &chunk));
    if (chunk.take_bytes == NULL) {
        return RON_OK;
    }
    rc = led_book_load(into, chunk.take_bytes, chunk.len, ret_done, NULL);
    ron_free(chunk.take_bytes);
    return rc;
}

/* Enough pairs for some pages. */
static enum ron_rc recall(struct led_book *into)
{
    struct led_book_stats stats;
    struct led_used used;

    for (uint64_t i = 0; i < PAIRS; i++) {
        used = (struct led_used){.ts_ms = NOW - i * UINT64_C(10000),
                                 .fingerprint = i * UINT64_C(0x9e3779b97f4a7c15)};
        RON_TRY(led_book_recall(into, &used, 1));
    }
    led_book_stats(into, &stats);
    RON_ASSERT(stats.fingerprints == PAIRS);
    return RON_OK;
}

/* Batches go on while the image is made, and must not feel what the image lacks. */
static enum ron_rc copy(struct led_book *book, struct led_book *into)
{
    struct state at = state_of(book);
    struct state got;
    uint64_t seq;
    size_t n = BATCHES - 10;
    bool done = false;

    RON_TRY(led_book_image_begin(book, &seq));
    while (!done) {
        RON_TRY(step(book, into, &done));
        if (n < BATCHES) {
            fault_hook *hook = hold_faults();

            RON_ASSERT(apply(book, n++) == RON_OK);
            ron_fault_hook = hook;
            (void)led_book_commit(book);
        }
    }
    got = state_of(into);
    RON_ASSERT(memcmp(got.digest, at.digest, 32) == 0);
    RON_ASSERT(led_book_committed_seq(into) == seq);
    return recall(into);
}

static enum ron_rc image(void *arg)
{
    struct led_book *book = grown();
    struct led_book *into;
    enum ron_rc rc = led_book_new(&opts, &into);
    fault_hook *hook;
    uint8_t digest[32];

    (void)arg;
    if (rc != RON_OK) {
        led_book_free(book);
        return rc;
    }
    rc = copy(book, into);
    led_book_image_end(book);
    led_book_free(into);
    hook = hold_faults();
    for (size_t n = led_book_committed_seq(book) / BATCH; n < BATCHES; n++) {
        RON_ASSERT(apply(book, n) == RON_OK);
        (void)led_book_commit(book);
    }
    RON_ASSERT(led_book_audit(book) == NULL);
    led_book_digest(book, digest);
    RON_ASSERT(memcmp(digest, expected, 32) == 0);
    led_book_free(book);
    ron_fault_hook = hook;
    return rc;
}

/* A batch that is applied while an image is made fails only by what it needs itself. */
static enum ron_rc apply_with_image(void *arg)
{
    struct led_book *book = grown();
    enum ron_rc failure = RON_OK;
    struct led_image_chunk chunk = {0};
    uint8_t digest[32];
    uint64_t seq;

    (void)arg;
    failure = led_book_image_begin(book, &seq);
    for (size_t n = BATCHES - 10; n < BATCHES; n++) {
        apply_surely(book, n, &failure);
        (void)led_book_commit(book);
    }
    if (failure == RON_OK) {
        failure = led_book_image_step(book, &chunk);
        ron_free(chunk.take_bytes);
    }
    led_book_digest(book, digest);
    RON_ASSERT(memcmp(digest, expected, 32) == 0);
    led_book_free(book);
    return failure;
}

static int setup(void **state)
{
    struct led_book *book;

    (void)state;
    assert_int_equal(led_book_new(&opts, &book), RON_OK);
    for (size_t n = 0; n < BATCHES; n++) {
        assert_int_equal(apply(book, n), RON_OK);
        (void)led_book_commit(book);
    }
    led_book_digest(book, expected);
    led_book_free(book);
    return 0;
}

SUPPORT_FAULT_SWEEP(test_led_book_faults__life__fails_whole_and_goes_on, live)
SUPPORT_FAULT_SWEEP(test_led_book_faults__freeze__fails_whole, freeze)
SUPPORT_FAULT_SWEEP(test_led_book_faults__image__is_lost_alone, image)
SUPPORT_FAULT_SWEEP_TOLERANT(test_led_book_faults__batch_beside_image__is_not_harmed,
                             apply_with_image)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_book_faults__life__fails_whole_and_goes_on),
        cmocka_unit_test(test_led_book_faults__freeze__fails_whole),
        cmocka_unit_test(test_led_book_faults__image__is_lost_alone),
        cmocka_unit_test(test_led_book_faults__batch_beside_image__is_not_harmed),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
