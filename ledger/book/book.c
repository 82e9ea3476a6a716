/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/book.c - birth and end of the book, keys, lookups, and what can be read from it; the
 * contract is in book.h, the records are in priv.h. */
#include "ledger/book/book.h"

#include <sodium.h>
#include <string.h>

#include "ledger/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    ACCOUNT_CHUNK = 14, /* 2^14 accounts are LED_BLOCK */
    LINE_CHUNK = 11,
    SMALL_CHUNK = 6,
    HOLD_CHUNK = 9,
    HEAP_CHUNK = 12,
    REVERSALS_MAX = 1 << 24,
    HORIZON_MS = 24 * 3600 * 1000,
    UNDO_MAX = 1 << 17,
    IMAGE_WALK = 1024, /* about a chunk */
};

/* ---- birth and end --------------------------------------------------------------------------- */

static struct led_book_opts with_defaults(const struct led_book_opts *opts)
{
    struct led_book_opts o = *opts;

    o.horizon_ms = o.horizon_ms != 0 ? o.horizon_ms : HORIZON_MS;
    o.accounts_max = o.accounts_max != 0 ? o.accounts_max : UINT32_C(1) << 31;
    o.holds_max = o.holds_max != 0 ? o.holds_max : UINT32_C(1) << 24;
    o.batch_max = o.batch_max != 0 ? o.batch_max : LED_BATCH_BIN_MAX;
    o.undo_max = o.undo_max != 0 ? o.undo_max : UNDO_MAX;
    o.image_walk = o.image_walk != 0 ? o.image_walk : IMAGE_WALK;
    return o;
}

/* Slots of the table of ids of a batch of n entries: at most half full. */
static uint32_t id_slots(uint32_t n)
{
    uint32_t slots = 16;

    while (slots < 2 * n) {
        slots *= 2;
    }
    return slots;
}

enum ron_rc led_book_new(const struct led_book_opts *opts, struct led_book **ret_book)
{
    struct led_book_opts o = with_defaults(opts);
    struct led_book *b;
    enum ron_rc rc;

    if ((o.undo_max & (o.undo_max - 1)) != 0 || o.batch_max > LED_BATCH_BIN_MAX ||
        o.undo_max < 8 * o.batch_max) {
        return RON_INVALID;
    }
    b = ron_alloc_zero(sizeof *b);
    if (b == NULL) {
        return RON_NOMEM;
    }
    b->opts = o;
    /* A slice is never shorter than the allowed skew, so that LED_BUCKETS slices are enough. */
    b->slices.bucket_ms = RON_MAX(o.horizon_ms / 4, (uint64_t)LED_FUTURE_MS);
    led_store_init(&b->accounts, &b->blocks, sizeof(struct led_acct), ACCOUNT_CHUNK,
                   o.accounts_max);
    led_store_init(&b->lines, &b->blocks, sizeof(struct led_line), LINE_CHUNK, o.accounts_max);
    led_store_init(&b->assets, &b->blocks, sizeof(struct led_asset), SMALL_CHUNK, LED_ASSETS_MAX);
    led_store_init(&b->holds, &b->blocks, sizeof(struct led_hold), HOLD_CHUNK, o.holds_max);
    led_store_init(&b->reversals, &b->blocks, sizeof(struct led_reversal), SMALL_CHUNK,
                   REVERSALS_MAX);
    led_store_init(&b->heap, &b->blocks, sizeof(uint32_t), HEAP_CHUNK, o.holds_max);
    led_store_init(&b->names, &b->blocks, LED_NAME_CHUNK, 0, UINT32_MAX);
    led_pool_init(&b->pool, &b->blocks);
    RON_GOTO(led_table_init(&b->accounts_by_key, &b->pool), fail);
    RON_GOTO(led_table_init(&b->holds_by_key, &b->pool), fail);
    RON_GOTO(led_table_init(&b->reversals_by_key, &b->pool), fail);
    b->ring.changes = ron_alloc_aligned(RON_CACHELINE, o.undo_max * sizeof *b->ring.changes);
    b->ring.prints = ron_alloc_array(o.undo_max, sizeof *b->ring.prints);
    b->ids = ron_alloc_array(id_slots(o.batch_max), sizeof *b->ids);
    b->preps = ron_alloc_array(o.batch_max, sizeof *b->preps);
    if (b->ring.changes == NULL || b->ring.prints == NULL || b->ids == NULL || b->preps == NULL) {
        rc = RON_NOMEM;
        goto fail;
    }
    /* Links wrap in the first batches of every book, rather than after some hours in a busy one. */
    b->ring.head = ((uint64_t)1 << 32) - 8;
    b->ring.tail = b->ring.head;
    *ret_book = b;
    return RON_OK;
fail:
    led_book_free(b);
    return rc;
}

void led_book_free(struct led_book *b)
{
    if (b == NULL) {
        return;
    }
    led_book_image_end(b);
    ron_free(b->loading);
    led_table_done(&b->accounts_by_key);
    led_table_done(&b->holds_by_key);
    led_table_done(&b->reversals_by_key);
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        led_table_done(&b->slices.buckets[i].set);
    }
    while (!led_table_done_some(&b->slices.dying, &b->slices.dying_cursor, SIZE_MAX)) {
    }
    led_pool_done(&b->pool);
    led_store_done(&b->accounts);
    led_store_done(&b->lines);
    led_store_done(&b->assets);
    led_store_done(&b->holds);
    led_store_done(&b->reversals);
    led_store_done(&b->heap);
    led_store_done(&b->names);
    led_blocks_done(&b->blocks);
    ron_free(b->ring.changes);
    ron_free(b->ring.prints);
    ron_free(b->ids);
    ron_free(b->preps);
    ron_free(b);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* 64 x 64 -> 128 bits, both halves folded together. */
static uint64_t fold(uint64_t x, uint64_t y)
{
    ron_u128 product = (ron_u128)x * y;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The key of the account is secret and random already; a product mixes the nonce into it. */
static uint64_t fingerprint(const uint8_t hash_key[16], struct led_key account,
                            const uint8_t nonce_bytes[LED_NONCE_SIZE])
{
    uint64_t secret[2];
    uint64_t nonce[2];

    memcpy(secret, hash_key, sizeof secret);
    memcpy(nonce, nonce_bytes, sizeof nonce);
    return fold(fold(nonce[0] ^ secret[0] ^ account.a, nonce[1] ^ account.b) ^ secret[1],
                nonce[1] ^ nonce[0] ^ account.a ^ UINT64_C(0x9e3779b97f4a7c15));
}

void led_book_prepare(const uint8_t hash_key[16], const struct led_entry *e,
                      struct led_prep *ret_prep)
{
    ret_prep->account = led__key(hash_key, e->account);
    ret_prep->id = led__key(hash_key, e->id);
    if (e->to.len != 0) {
        ret_prep->to = led__key(hash_key, e->to);
    }
    if (e->ref.len != 0) {
        ret_prep->ref = led__key(hash_key, e->ref);
    }
    ret_prep->fingerprint = fingerprint(hash_key, ret_prep->account, e->nonce);
}

uint64_t led_book_fingerprint(const uint8_t hash_key[16], const struct led_entry *e)
{
    return fingerprint(hash_key, led__key(hash_key, e->account), e->nonce);
}

/* ---- lookups --------------------------------------------------------------------------------- */

static bool same_key(struct led_key x, const struct led_key *y)
{
    return x.a == y->a && x.b == y->b;
}

static bool match_account(const void *owner, uint32_t index, const void *key)
{
    return led__acct(owner, index)->key_b == ((const struct led_key *)key)->b;
}

/* A hold that is over is as good as gone. */
static bool match_hold(const void *owner, uint32_t index, const void *key)
{
    const struct led_hold *hold = led__hold(owner, index);

    return hold->remaining != 0 && same_key(hold->key, key);
}

static bool match_reversal(const void *owner, uint32_t index, const void *key)
{
    return same_key(led__reversal(owner, index)->key, key);
}

uint32_t led__find_account(const struct led_book *b, struct led_key key)
{
    return led_table_find(&b->accounts_by_key, led__hash(key), match_account, b, &key);
}

uint32_t led__find_hold(const struct led_book *b, struct led_key key)
{
    return led_table_find(&b->holds_by_key, led__hash(key), match_hold, b, &key);
}

uint32_t led__find_reversal(const struct led_book *b, struct led_key key)
{
    return led_table_find(&b->reversals_by_key, led__hash(key), match_reversal, b, &key);
}

static bool asset_is(const struct led_asset *asset, struct ron_str name)
{
    return asset->len == name.len && memcmp(asset->name, name.ptr, name.len) == 0;
}

uint32_t led__find_asset(const struct led_book *b, struct ron_str name)
{
    if (b->asset_last < b->assets.count && asset_is(led__asset(b, b->asset_last), name)) {
        return b->asset_last;
    }
    for (uint32_t i = 0; i < b->assets.count; i++) {
        if (asset_is(led__asset(b, i), name)) {
            return i;
        }
    }
    return LED_TABLE_NONE;
}

/* ---- accounts -------------------------------------------------------------------------------- */

struct ron_str led__name(const struct led_book *b, const struct led_acct *acct)
{
    const char *chunk;

    if (acct->name_len <= LED_NAME_NEAR) {
        return (struct ron_str){acct->name.near, acct->name_len};
    }
    chunk = led_store_at(&b->names, acct->name.far.chunk);
    return (struct ron_str){chunk + acct->name.far.offset, acct->name_len};
}

static enum ron_rc add_name(struct led_book *b, struct ron_str name, struct led_acct *acct)
{
    uint32_t chunk = b->name_chunk;
    uint32_t at = b->name_at;
    char *to;

    acct->name_len = (uint16_t)name.len;
    if (name.len <= LED_NAME_NEAR) {
        memcpy(acct->name.near, name.ptr, name.len);
        return RON_OK;
    }
    if (at + name.len > LED_NAME_CHUNK) {
        chunk++;
        at = 0;
    }
    if (chunk == b->names.count) {
        uint32_t ignored;

        RON_TRY(led_store_push(&b->names, &ignored));
    }
    to = led_store_at(&b->names, chunk);
    memcpy(to + at, name.ptr, name.len);
    acct->name.far.chunk = chunk;
    acct->name.far.offset = at;
    b->name_chunk = chunk;
    b->name_at = at + (uint32_t)name.len;
    return RON_OK;
}

/* Takes the last account back, with its name. */
void led__pop_account(struct led_book *b)
{
    const struct led_acct *acct = led__acct(b, b->accounts.count - 1);

    if (acct->name_len > LED_NAME_NEAR) {
        b->name_chunk = acct->name.far.chunk;
        b->name_at = acct->name.far.offset;
    }
    led_store_pop(&b->accounts);
}

enum ron_rc led__new_account(struct led_book *b, struct led_key key, struct ron_str name,
                             uint32_t *ret_index)
{
    uint32_t index;
    enum ron_rc rc;

    RON_TRY(led_store_push(&b->accounts, &index));
    led__acct(b, index)->key_a = key.a;
    led__acct(b, index)->key_b = key.b;
    rc = add_name(b, name, led__acct(b, index));
    if (rc != RON_OK) {
        led_store_pop(&b->accounts);
        return rc;
    }
    rc = led_table_add(&b->accounts_by_key, led__hash(key), index);
    if (rc != RON_OK) {
        led__pop_account(b);
        return rc;
    }
    *ret_index = index;
    return RON_OK;
}

enum ron_rc led_book_freeze(struct led_book *b, struct ron_str account, bool frozen)
{
    struct led_key key = led__key(b->opts.hash_key, account);
    uint32_t index = led__find_account(b, key);

    if (!led_account_valid(account)) {
        return RON_INVALID;
    }
    if (index == LED_TABLE_NONE) {
        if (!frozen) {
            return RON_OK;
        }
        /* Behind an uncommitted account the new one could not stay when that is taken back. */
        if (b->ring.pending > 0) {
            return RON_AGAIN;
        }
        RON_TRY(led__new_account(b, key, account, &index));
    } else if (led__is_uncommitted(b, led__acct(b, index))) {
        return RON_AGAIN; /* Taken back, it would take its freeze with it. */
    }
    led__acct(b, index)->line.flags = frozen ? LED_ACCOUNT_FROZEN : 0;
    return RON_OK;
}

/* ---- growth ---------------------------------------------------------------------------------- */

size_t led_book_blocks_wanted(const struct led_book *b)
{
    return b->blocks.is_growing ? LED_SPARES_MAX - b->blocks.spare_count : 0;
}

void *led_book_make_block(void)
{
    return led_block_make();
}

void led_book_give_block(struct led_book *b, void *take_block)
{
    led_blocks_add_spare(&b->blocks, take_block);
}

void led_book_rest(struct led_book *b)
{
    led_blocks_rest(&b->blocks);
}

void led_book_may_stall(struct led_book *b, bool may_stall)
{
    b->blocks.may_stall = may_stall;
}
