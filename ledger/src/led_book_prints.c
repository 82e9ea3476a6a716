/* SPDX-License-Identifier: Apache-2.0 */
/* led_book_prints.c - which (account, nonce) pairs were used within the horizon.
 *
 * A pair is a 64-bit fingerprint in the table of the time slice that its entry's `ts` lies in. A
 * slice is a quarter of the horizon; when all of it is older than the horizon its table is dropped,
 * some pages a batch. A pair is looked for in every living slice, because a second use may carry
 * another `ts`. With n pairs remembered, a fresh pair is mistaken for a used one with probability
 * n / 2^64. */
#include "led_book_priv.h"
#include "ron/base/assert.h"

static uint64_t oldest_ms(const struct led_book *b)
{
    return b->now_ms > b->opts.horizon_ms ? b->now_ms - b->opts.horizon_ms : 0;
}

static void drop(struct led_book *b, struct led_bucket *bucket)
{
    led_table_done(&b->dying); /* Long gone unless time has made a leap. */
    b->dying = bucket->set;
    b->dying_cursor = 0;
    bucket->set = (struct led_table){0};
}

void led__advance(struct led_book *b, uint64_t now_ms)
{
    if (now_ms > b->now_ms) {
        b->now_ms = now_ms;
    }
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        struct led_bucket *bucket = &b->buckets[i];

        if (bucket->set.pages != NULL && (bucket->number + 1) * b->bucket_ms <= oldest_ms(b)) {
            drop(b, bucket);
        }
    }
    (void)led_table_done_some(&b->dying, &b->dying_cursor, LED_FREE_STEP);
}

bool led__print_seen(const struct led_book *b, uint64_t print)
{
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        if (b->buckets[i].set.pages != NULL && led_set_has(&b->buckets[i].set, print)) {
            return true;
        }
    }
    return false;
}

enum ron_rc led__print_add(struct led_book *b, uint64_t ts_ms, uint64_t print)
{
    uint64_t number = ts_ms / b->bucket_ms;
    struct led_bucket *bucket = &b->buckets[number % LED_BUCKETS];

    if (ts_ms < oldest_ms(b) || ts_ms > b->now_ms + LED_FUTURE_MS) {
        return RON_OK; /* An import: older than anything that a duplicate could still carry. */
    }
    if (bucket->set.pages == NULL) {
        RON_TRY(led_table_init(&bucket->set));
        bucket->number = number;
    }
    RON_ASSERT(bucket->number == number);
    return led_set_add(&bucket->set, print);
}

void led__print_forget(struct led_book *b, uint64_t print)
{
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        if (b->buckets[i].set.pages != NULL && led_set_remove(&b->buckets[i].set, print)) {
            return;
        }
    }
}
