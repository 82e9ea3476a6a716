/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/holds.c - records of holds and the heap that tells which of them expires next.
 *
 * The heap is binary, ordered by (when due, seq of the Hold), and lies in a store, so that it grows
 * by chunks. A hold knows its place in it. Holds that never expire and holds that are over are not
 * in it. */
#include <stdio.h>
#include <string.h>

#include "ledger/book/priv.h"
#include "ron/base/assert.h"

static uint32_t heap_get(const struct led_book *b, uint32_t at)
{
    const uint32_t *slot = led_store_at(&b->heap, at);

    return *slot;
}

static void heap_put(struct led_book *b, uint32_t at, uint32_t hold)
{
    uint32_t *slot = led_store_at(&b->heap, at);

    *slot = hold;
    led__hold(b, hold)->heap_at = at + 1;
}

/* When the hold is to be expired. */
static uint64_t due_ms(const struct led_hold *h)
{
    return RON_MAX(h->expires_ms, (uint64_t)h->put_off_s * 1000);
}

static bool sooner(const struct led_book *b, uint32_t x, uint32_t y)
{
    const struct led_hold *p = led__hold(b, x);
    const struct led_hold *q = led__hold(b, y);

    return due_ms(p) != due_ms(q) ? due_ms(p) < due_ms(q) : p->seq < q->seq;
}

static void sift_up(struct led_book *b, uint32_t at, uint32_t hold)
{
    while (at > 0 && sooner(b, hold, heap_get(b, (at - 1) / 2))) {
        heap_put(b, at, heap_get(b, (at - 1) / 2));
        at = (at - 1) / 2;
    }
    heap_put(b, at, hold);
}

static void sift_down(struct led_book *b, uint32_t at, uint32_t hold)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= b->heap.count) {
            break;
        }
        if (child + 1 < b->heap.count && sooner(b, heap_get(b, child + 1), heap_get(b, child))) {
            child++;
        }
        if (!sooner(b, heap_get(b, child), hold)) {
            break;
        }
        heap_put(b, at, heap_get(b, child));
        at = child;
    }
    heap_put(b, at, hold);
}

enum ron_rc led__heap_add(struct led_book *b, uint32_t hold)
{
    uint32_t at;

    if (led__hold(b, hold)->expires_ms == 0) {
        return RON_OK;
    }
    RON_TRY(led_store_push(&b->heap, &at));
    sift_up(b, at, hold);
    return RON_OK;
}

void led__heap_remove(struct led_book *b, uint32_t hold)
{
    struct led_hold *h = led__hold(b, hold);
    uint32_t at = h->heap_at - 1;
    uint32_t last;

    if (h->heap_at == 0) {
        return;
    }
    h->heap_at = 0;
    last = heap_get(b, b->heap.count - 1);
    led_store_pop(&b->heap);
    if (last == hold) {
        return;
    }
    if (at > 0 && sooner(b, last, heap_get(b, (at - 1) / 2))) {
        sift_up(b, at, last);
    } else {
        sift_down(b, at, last);
    }
}

/* ---- records --------------------------------------------------------------------------------- */

static void link_to_account(struct led_book *b, uint32_t index)
{
    struct led_hold *h = led__hold(b, index);
    uint32_t *first = &led__acct(b, h->account)->hold_first;

    h->next = *first;
    h->prev = 0;
    if (*first != 0) {
        led__hold(b, *first - 1)->prev = index + 1;
    }
    *first = index + 1;
}

static void unlink_from_account(struct led_book *b, const struct led_hold *h)
{
    if (h->prev != 0) {
        led__hold(b, h->prev - 1)->next = h->next;
    } else {
        led__acct(b, h->account)->hold_first = h->next;
    }
    if (h->next != 0) {
        led__hold(b, h->next - 1)->prev = h->prev;
    }
}

enum ron_rc led__new_hold(struct led_book *b, struct led_key key, uint32_t account,
                          uint32_t *ret_index)
{
    uint32_t index;
    enum ron_rc rc;

    if (b->holds_free != 0) {
        index = b->holds_free - 1;
        b->holds_free = led__hold(b, index)->next_free;
        memset(led__hold(b, index), 0, sizeof(struct led_hold));
    } else {
        RON_TRY(led_store_push(&b->holds, &index));
    }
    led__hold(b, index)->key = key;
    rc = led_table_add(&b->holds_by_key, led__hash(key), index);
    if (rc != RON_OK) {
        led__hold(b, index)->next_free = b->holds_free;
        b->holds_free = index + 1;
        return rc;
    }
    led__hold(b, index)->account = account;
    link_to_account(b, index);
    *ret_index = index;
    return RON_OK;
}

void led__free_hold(struct led_book *b, uint32_t index)
{
    struct led_hold *h = led__hold(b, index);

    led__heap_remove(b, index);
    led_table_remove(&b->holds_by_key, led__hash(h->key), index);
    unlink_from_account(b, h);
    h->remaining = 0;
    h->pend = (struct led_pend){0};
    h->next_free = b->holds_free;
    b->holds_free = index + 1;
}

/* Id and nonce follow from the seq of the Hold: a second try makes the same entry, and no two holds
 * nor a caller (LED_OWN_ID) make the same. */
static void name_expiry(const struct led_hold *h, struct led_expiry *ret)
{
    uint8_t *nonce = ret->entry.nonce;
    int len = snprintf(ret->id, sizeof ret->id, LED_OWN_ID "%llu", (unsigned long long)h->seq);

    RON_ASSERT(len > 0 && (size_t)len < sizeof ret->id);
    ret->entry.id = (struct ron_str){ret->id, (size_t)len};
    memcpy(nonce, LED_OWN_NONCE, sizeof LED_OWN_NONCE);
    for (size_t i = 0; i < 8; i++) {
        nonce[sizeof LED_OWN_NONCE + i] = (uint8_t)(h->seq >> (56 - 8 * i));
    }
}

bool led_book_next_expiry(const struct led_book *b, uint64_t now_ms, struct led_expiry *ret)
{
    const struct led_hold *h;
    const struct led_asset *asset;

    if (b->heap.count == 0) {
        return false;
    }
    h = led__hold(b, heap_get(b, 0));
    if (due_ms(h) > now_ms) {
        return false;
    }
    asset = led__asset(b, h->asset);
    *ret = (struct led_expiry){.entry = {.account = led__name(b, led__acct(b, h->account)),
                                         .asset = {asset->name, asset->len},
                                         .kid = {"ledger", 6},
                                         .capability_ref = {"ledger", 6},
                                         .amount.v = h->remaining,
                                         .ts_ms = now_ms,
                                         .v = LED_VERSION,
                                         .kind = LED_KIND_EXPIRE}};
    memcpy(ret->ref, h->id, h->id_len);
    ret->entry.ref = (struct ron_str){ret->ref, h->id_len};
    name_expiry(h, ret);
    return true;
}

uint64_t led_book_next_expiry_ms(const struct led_book *b)
{
    return b->heap.count == 0 ? UINT64_MAX : due_ms(led__hold(b, heap_get(b, 0)));
}

void led_book_put_off_expiry(struct led_book *b, uint64_t until_ms)
{
    uint32_t hold;

    RON_ASSERT(b->heap.count > 0);
    hold = heap_get(b, 0);
    led__hold(b, hold)->put_off_s = (uint32_t)RON_MIN(until_ms / 1000, (uint64_t)UINT32_MAX);
    sift_down(b, 0, hold);
}
