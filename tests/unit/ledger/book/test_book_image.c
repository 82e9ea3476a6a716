/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an image of many chunks is the state at its seq although every account changes while it is
 * made; whatever is wrong with a chunk is refused with its code.
 * Method: a book of some thousand accounts; chunks are kept, then loaded as they are, in another
 * order, under another key, cut short, and with every bit of the head and some of the rest turned.
 * Small random images are compared with a model in test_book_model.c. */
#include "support/support.h"

#include "ledger/book/book.h"
#include "ron/base/alloc.h"

#define NOW UINT64_C(1700000000000)

enum { ACCOUNTS = 4000, BATCH = 500, CHUNKS_MAX = 64 };

static const struct led_book_opts opts = {
    .hash_key = "0123456789abcde", .batch_max = BATCH, .undo_max = 1 << 14};
static struct led_book *book;
static struct led_entry entries[BATCH];
static char texts[BATCH][3][24];
static uint64_t serial;
static uint64_t seq;
static struct led_image_chunk chunks[CHUNKS_MAX];
static size_t chunk_count;
static size_t waited_most;

static struct ron_str print(char text[24], const char *prefix, uint64_t n)
{
    return (struct ron_str){text,
                            (size_t)snprintf(text, 24, "%s%llu", prefix, (unsigned long long)n)};
}

static void fill(size_t i, uint8_t kind, uint64_t account, uint64_t amount)
{
    struct led_entry *e = &entries[i];

    serial++;
    *e = (struct led_entry){.id = print(texts[i][0], "e", serial),
                            .account = print(texts[i][1], "u", account),
                            .asset = {serial % 7 == 0 ? "usd" : "roc", 3},
                            .kid = {"k", 1},
                            .capability_ref = {"c", 1},
                            .amount = ron_money_of(amount),
                            .ts_ms = NOW,
                            .kind = kind,
                            .v = 1};
    memcpy(e->nonce, &serial, sizeof serial);
}

static void apply(size_t count)
{
    struct led_outcome outcome;
    struct led_apply in = {.entries = entries, .count = count, .now_ms = NOW, .seq_first = seq};

    assert_int_equal(led_book_apply(book, &in, &outcome), RON_OK);
    assert_true(outcome.accepted);
    seq += count;
}

static void mint_to_all(void)
{
    for (uint64_t a = 0; a < ACCOUNTS; a += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            fill(i, LED_KIND_MINT, a + i, 1000);
        }
        apply(BATCH);
        (void)led_book_commit(book);
    }
}

static int setup(void **state)
{
    (void)state;
    serial = 0;
    seq = 1;
    chunk_count = 0;
    waited_most = 0;
    assert_int_equal(led_book_new(&opts, &book), RON_OK);
    mint_to_all();
    mint_to_all(); /* Each account has got both assets, or most of them. */
    for (size_t i = 0; i < BATCH; i++) {
        fill(i, LED_KIND_HOLD, i, 10);
        entries[i].asset = (struct ron_str){"roc", 3};
        entries[i].expires_ms = NOW + 1 + i;
    }
    apply(BATCH);
    (void)led_book_commit(book);
    return 0;
}

static void forget_chunks(void)
{
    while (chunk_count > 0) {
        ron_free(chunks[--chunk_count].take_bytes);
    }
}

static int teardown(void **state)
{
    (void)state;
    forget_chunks();
    led_book_free(book);
    return 0;
}

static bool keep_chunk(void)
{
    struct led_image_chunk chunk;

    assert_int_equal(led_book_image_step(book, &chunk), RON_OK);
    if (chunk.take_bytes == NULL) {
        return false;
    }
    assert_true(chunk_count < CHUNKS_MAX);
    assert_true(chunk.len <= LED_IMAGE_CHUNK_MAX);
    assert_int_equal(chunk.number, chunk_count);
    chunks[chunk_count++] = chunk;
    return chunk.last;
}

static void make_image(void)
{
    uint64_t at;

    assert_int_equal(led_book_image_begin(book, &at), RON_OK);
    while (!keep_chunk()) {
    }
    led_book_image_end(book);
}

static enum ron_rc load(struct led_book *into, const struct led_image_chunk *chunk, bool *ret_done)
{
    struct ron_err err = {0};
    enum ron_rc rc = led_book_load(into, chunk->take_bytes, chunk->len, ret_done, &err);

    assert_true(rc == RON_OK || err.msg[0] != '\0');
    return rc;
}

static struct led_book *load_all(const struct led_book_opts *o)
{
    struct led_book *into;
    bool done = false;

    assert_int_equal(led_book_new(o, &into), RON_OK);
    for (size_t i = 0; i < chunk_count; i++) {
        assert_false(done);
        assert_int_equal(load(into, &chunks[i], &done), RON_OK);
    }
    assert_true(done);
    return into;
}

static void test_led_book_image__all_changes_meanwhile__state_of_its_seq(void **state)
{
    struct led_book_stats stats[2];
    uint8_t digest[2][32];
    struct led_book *loaded;
    uint64_t image_seq;

    (void)state;
    led_book_digest(book, digest[0]);
    led_book_stats(book, &stats[0]);
    assert_int_equal(led_book_image_begin(book, &image_seq), RON_OK);
    assert_int_equal(image_seq, seq - 1);
    assert_int_equal(led_book_image_begin(book, &image_seq), RON_AGAIN);
    assert_false(keep_chunk());
    mint_to_all(); /* The walk has seen a part of the accounts; commits copy the rest. */
    waited_most = led_book_image_waiting(book);
    assert_true(waited_most > 1);
    while (!keep_chunk()) {
    }
    led_book_image_end(book);
    assert_true(chunk_count > 4);
    loaded = load_all(&opts);
    led_book_digest(loaded, digest[1]);
    assert_memory_equal(digest[0], digest[1], 32);
    led_book_stats(loaded, &stats[1]);
    assert_int_equal(stats[0].accounts, stats[1].accounts);
    assert_int_equal(stats[0].holds, stats[1].holds);
    assert_int_equal(stats[1].fingerprints, 0); /* The log tells them. */
    assert_int_equal(led_book_committed_seq(loaded), image_seq);
    led_book_free(loaded);
}

static void test_led_book_image__loaded__goes_on_like_the_first(void **state)
{
    struct led_expiry expiry[2];
    struct led_used used = {.ts_ms = NOW};
    uint8_t digest[2][32];
    struct led_book *first = book;
    uint64_t seq_then;

    (void)state;
    make_image();
    seq_then = seq;
    for (int k = 0; k < 2; k++) {
        struct led_outcome outcome;
        struct led_apply in = {
            .entries = entries, .count = 1, .now_ms = NOW, .seq_first = seq_then};

        book = k == 0 ? first : load_all(&opts);
        seq = seq_then;
        for (int n = 0; n < 20; n++) {
            assert_true(led_book_next_expiry(book, NOW + 100, &expiry[k]));
            entries[0] = expiry[k].entry;
            in.now_ms = NOW + 100;
            in.seq_first = seq++;
            assert_int_equal(led_book_apply(book, &in, &outcome), RON_OK);
            assert_true(outcome.accepted);
        }
        /* A nonce from before the image. */
        fill(0, LED_KIND_MINT, 0, 1);
        memset(entries[0].nonce, 0, sizeof entries[0].nonce);
        entries[0].nonce[0] = 1;
        if (k == 1) {
            used.fingerprint = led_book_fingerprint(opts.hash_key, &entries[0]);
            assert_int_equal(led_book_recall(book, &used, 1), RON_OK);
        }
        in.seq_first = seq;
        assert_int_equal(led_book_apply(book, &in, &outcome), RON_OK);
        assert_false(outcome.accepted);
        assert_int_equal(outcome.refusal.reason, LED_REASON_IDEM_MISMATCH);
        led_book_digest(book, digest[k]);
    }
    led_book_free(book);
    book = first;
    assert_memory_equal(digest[0], digest[1], 32);
}

static void test_led_book_recall__pairs_of_the_log__young_ones(void **state)
{
    struct led_book_opts other = opts;
    struct led_used used[3] = {
        {.ts_ms = NOW - 3600 * 1000 - 1, .fingerprint = 1}, /* beyond the horizon */
        {.ts_ms = NOW - 3600 * 1000, .fingerprint = 2},
        {.ts_ms = NOW + LED_FUTURE_MS, .fingerprint = 3},
    };
    struct led_book_stats stats;
    struct led_book *loaded;

    (void)state;
    make_image();
    other.horizon_ms = 3600 * 1000;
    loaded = load_all(&other);
    assert_int_equal(led_book_recall_from_ms(loaded), NOW - 3600 * 1000 - LED_FUTURE_MS);
    assert_int_equal(led_book_recall(loaded, used, 3), RON_OK);
    led_book_stats(loaded, &stats);
    assert_int_equal(stats.fingerprints, 2);
    assert_int_equal(led_book_recall(loaded, used, 1), RON_OK); /* was not kept */
    /* Used twice under a shorter horizon: remembered for both times. */
    used[1].ts_ms = NOW;
    assert_int_equal(led_book_recall(loaded, used + 1, 2), RON_OK);
    led_book_stats(loaded, &stats);
    assert_int_equal(stats.fingerprints, 3);
    led_book_free(loaded);
}

static void test_led_book_image__uncommitted__is_no_part_of_it(void **state)
{
    uint8_t digest[2][32];
    struct led_book_stats stats;
    struct led_book *loaded;

    (void)state;
    led_book_digest(book, digest[0]);
    for (size_t i = 0; i < BATCH; i++) {
        fill(i, LED_KIND_MINT, ACCOUNTS - 100 + i, 1); /* Some are new. */
        entries[i].asset = (struct ron_str){i % 2 == 0 ? "new" : "roc", 3};
    }
    apply(BATCH);
    make_image();
    loaded = load_all(&opts);
    led_book_digest(loaded, digest[1]);
    assert_memory_equal(digest[0], digest[1], 32);
    led_book_stats(loaded, &stats);
    assert_int_equal(stats.accounts, ACCOUNTS);
    led_book_free(loaded);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static enum ron_rc load_first_then(const struct led_image_chunk *second, bool first_too)
{
    struct led_book *into;
    bool done = false;
    enum ron_rc rc;

    assert_int_equal(led_book_new(&opts, &into), RON_OK);
    if (first_too) {
        assert_int_equal(load(into, &chunks[0], &done), RON_OK);
    }
    rc = load(into, second, &done);
    if (rc != RON_OK) {
        /* And nothing mends it. */
        assert_int_equal(load(into, &chunks[1], &done), RON_CORRUPT);
    }
    assert_false(done);
    led_book_free(into);
    return rc;
}

static void test_led_book_load__order_key_version__are_checked(void **state)
{
    struct led_book_opts other = opts;
    struct led_book *into;
    bool done = false;

    (void)state;
    make_image();
    assert_int_equal(load_first_then(&chunks[1], false), RON_CORRUPT);
    assert_int_equal(load_first_then(&chunks[1], true), RON_OK);
    assert_int_equal(load_first_then(&chunks[2], true), RON_CORRUPT);
    assert_int_equal(load_first_then(&chunks[0], true), RON_CORRUPT);
    assert_int_equal(load(book, &chunks[0], &done), RON_INVALID);

    other.hash_key[3] ^= 1;
    assert_int_equal(led_book_new(&other, &into), RON_OK);
    assert_int_equal(load(into, &chunks[0], &done), RON_INVALID);
    led_book_free(into);

    other = opts;
    other.accounts_max = 3;
    assert_int_equal(led_book_new(&other, &into), RON_OK);
    assert_int_equal(load(into, &chunks[0], &done), RON_LIMIT);
    led_book_free(into);
}

static void test_led_book_load__turned_bits_and_cuts__are_found(void **state)
{
    struct led_image_chunk bad;

    (void)state;
    make_image();
    bad = chunks[1];
    for (size_t bit = 0; bit < bad.len * 8; bit += bit < 100 * 8 ? 1 : 4001) {
        bad.take_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(load_first_then(&bad, true), RON_CORRUPT);
        bad.take_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t len = 0; len < bad.len; len += len < 100 ? 1 : 997) {
        bad.len = len;
        assert_int_equal(load_first_then(&bad, true), RON_CORRUPT);
        bad.len = chunks[1].len;
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_book_image__all_changes_meanwhile__state_of_its_seq),
        CASE(test_led_book_image__loaded__goes_on_like_the_first),
        CASE(test_led_book_recall__pairs_of_the_log__young_ones),
        CASE(test_led_book_image__uncommitted__is_no_part_of_it),
        CASE(test_led_book_load__order_key_version__are_checked),
        CASE(test_led_book_load__turned_bits_and_cuts__are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
