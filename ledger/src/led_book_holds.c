/* SPDX-License-Identifier: Apache-2.0 */
/* led_book_holds.c - records of holds and the heap that tells which of them expires next.
 *
 * The heap is binary, ordered by (expires, seq of the Hold), and lies in a store, so that it grows
 * by chunks. A hold knows its place in it. Holds that never expire and holds that are over are not
 * in it. */
#include <blake3.h>
#include <string.h>

#include "led_book_priv.h"
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

static bool sooner(const struct led_book *b, uint32_t x, uint32_t y)
{
    const struct led_hold *p = led__hold(b, x);
    const struct led_hold *q = led__hold(b, y);

    return p->expires_ms != q->expires_ms ? p->expires_ms < q->expires_ms : p->seq < q->seq;
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

enum ron_rc led__new_hold(struct led_book *b, struct led_key key, uint32_t *ret_index)
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
    *ret_index = index;
    return RON_OK;
}

void led__free_hold(struct led_book *b, uint32_t index)
{
    struct led_hold *h = led__hold(b, index);

    led__heap_remove(b, index);
    led_table_remove(&b->holds_by_key, led__hash(h->key), index);
    h->remaining = 0;
    h->next_free = b->holds_free;
    b->holds_free = index + 1;
}

/* The id and nonce follow from the hold's id, so that a second try makes the same entry. */
static void name_expiry(const struct led_hold *h, struct led_expiry *ret)
{
    static const char digits[] = "0123456789abcdef";
    static const char prefix[] = "expire:";
    uint8_t hash[BLAKE3_OUT_LEN];
    blake3_hasher hasher;
    size_t at = sizeof prefix - 1;

    blake3_hasher_init_derive_key(&hasher, "ron-ledger 2026 expiry of a hold");
    blake3_hasher_update(&hasher, h->id, h->id_len);
    blake3_hasher_finalize(&hasher, hash, sizeof hash);
    memcpy(ret->id, prefix, at);
    for (size_t i = 0; i < 16; i++) {
        ret->id[at++] = digits[hash[i] >> 4];
        ret->id[at++] = digits[hash[i] & 15];
    }
    memcpy(ret->entry.nonce, hash + 16, LED_NONCE_SIZE);
    ret->entry.id = (struct ron_str){ret->id, at};
}

bool led_book_next_expiry(const struct led_book *b, uint64_t now_ms, struct led_expiry *ret)
{
    const struct led_hold *h;
    const struct led_asset *asset;

    if (b->heap.count == 0) {
        return false;
    }
    h = led__hold(b, heap_get(b, 0));
    if (h->expires_ms > now_ms) {
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
