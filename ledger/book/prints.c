/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/prints.c - which (account, nonce) pairs were used within the horizon.
 *
 * A pair is a 64-bit fingerprint in the table of the time slice that its entry's `ts` lies in. A
 * slice is a quarter of the horizon; when all of it is older than the horizon its table is dropped,
 * some pages a batch. A pair is looked for in every living slice, because a second use may carry
 * another `ts`. What was accepted under a shorter horizon may have used a pair twice: it stands in
 * the slices of both times then. With n pairs remembered, a fresh pair is mistaken for a used one
 * with probability n / 2^64. */
#include "ledger/book/priv.h"
#include "ron/base/assert.h"

enum { AHEAD = 16 }; /* pairs for which memory is asked before they are added */

static uint64_t oldest_ms(const struct led_book *b)
{
    return b->slices.now_ms > b->opts.horizon_ms ? b->slices.now_ms - b->opts.horizon_ms : 0;
}

/* `living` names the slices that have a table, so that nobody looks at the others. */
static void count_living(struct led_book *b)
{
    b->slices.living_count = 0;
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        if (b->slices.buckets[i].set.pages != NULL) {
            b->slices.living[b->slices.living_count++] = (uint8_t)i;
        }
    }
}

/* Its pages are released some at a time, from now on. */
static void let_die(struct led_book *b, struct led_table *take_table)
{
    /* Long gone unless time has made a leap. */
    while (!led_table_done_some(&b->slices.dying, &b->slices.dying_cursor, SIZE_MAX)) {
    }
    b->slices.dying = *take_table;
    b->slices.dying_cursor = 0;
    *take_table = (struct led_table){0};
}

void led__advance(struct led_book *b, uint64_t now_ms)
{
    if (now_ms > b->slices.now_ms) {
        b->slices.now_ms = now_ms;
    }
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        struct led_bucket *bucket = &b->slices.buckets[i];

        if (bucket->set.pages != NULL &&
            (bucket->number + 1) * b->slices.bucket_ms <= oldest_ms(b)) {
            let_die(b, &bucket->set);
            count_living(b);
        }
    }
    (void)led_table_done_some(&b->slices.dying, &b->slices.dying_cursor, LED_FREE_STEP);
}

/* Whether any slice but this one has it. */
static bool seen_beside(const struct led_book *b, const struct led_bucket *own, uint64_t print)
{
    for (uint32_t i = 0; i < b->slices.living_count; i++) {
        const struct led_bucket *bucket = &b->slices.buckets[b->slices.living[i]];

        if (bucket != own && led_set_has(&bucket->set, print)) {
            return true;
        }
    }
    return false;
}

void led__print_prefetch(const struct led_book *b, uint64_t print)
{
    for (uint32_t i = 0; i < b->slices.living_count; i++) {
        led_set_prefetch(&b->slices.buckets[b->slices.living[i]].set, print);
    }
}

/* Finds or makes the slice of that time. */
__attribute__((noinline)) static enum ron_rc open_bucket(struct led_book *b, uint64_t ts_ms)
{
    uint64_t number = ts_ms / b->slices.bucket_ms;
    struct led_bucket *bucket = &b->slices.buckets[number % LED_BUCKETS];

    if (bucket->set.pages == NULL) {
        RON_TRY(led_table_init(&bucket->set, &b->pool));
        bucket->number = number;
        count_living(b);
    }
    RON_ASSERT(bucket->number == number);
    b->slices.bucket_last = (uint32_t)(number % LED_BUCKETS);
    return RON_OK;
}

enum ron_rc led__print_add(struct led_book *b, uint64_t ts_ms, uint64_t print, bool again,
                           bool *ret_new)
{
    struct led_bucket *bucket = &b->slices.buckets[b->slices.bucket_last];
    bool beside;
    bool added;

    if (RON_UNLIKELY(ts_ms < oldest_ms(b) || ts_ms > b->slices.now_ms + LED_FUTURE_MS)) {
        /* An import: older than anything that a duplicate could still carry. */
        *ret_new = !seen_beside(b, NULL, print);
        return RON_OK;
    }
    if (RON_UNLIKELY(bucket->set.pages == NULL ||
                     ts_ms - bucket->number * b->slices.bucket_ms >= b->slices.bucket_ms)) {
        RON_TRY(open_bucket(b, ts_ms));
        bucket = &b->slices.buckets[b->slices.bucket_last];
    }
    beside = seen_beside(b, bucket, print);
    if (beside && !again) {
        *ret_new = false;
        return RON_OK;
    }
    RON_TRY(led_set_add(&bucket->set, print, &added));
    *ret_new = added && !beside;
    return RON_OK;
}

void led__print_forget(struct led_book *b, uint64_t print)
{
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        if (b->slices.buckets[i].set.pages != NULL &&
            led_set_remove(&b->slices.buckets[i].set, print)) {
            return;
        }
    }
}

/* ---- from the log ---------------------------------------------------------------------------- */

uint64_t led_book_recall_from_ms(const struct led_book *b)
{
    uint64_t oldest = oldest_ms(b);

    return oldest > LED_FUTURE_MS ? oldest - LED_FUTURE_MS : 0;
}

enum ron_rc led_book_recall(struct led_book *b, const struct led_used *used, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_new = false;

        if (i + AHEAD < count) {
            led__print_prefetch(b, used[i + AHEAD].fingerprint);
        }
        RON_TRY(led__print_add(b, used[i].ts_ms, used[i].fingerprint, true, &is_new));
    }
    return RON_OK;
}
