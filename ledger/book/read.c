/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/read.c - what can be read from the book: balances in both views, digest, audit.
 *
 * The committed value of a record is what its first change in the ring has kept, or the record
 * itself when it has none. */
#include <blake3.h>
#include <string.h>

#include "ledger/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* The oldest kept value in the committed view, NULL when the record itself is meant. */
static const struct led_change *kept(const struct led_book *b, const struct led_pend *pend,
                                     enum led_view view)
{
    return view == LED_COMMITTED ? led__first_change(b, pend) : NULL;
}

static struct led_balance line_balance(const struct led_book *b, const struct led_line *line,
                                       enum led_view view)
{
    const struct led_change *old = kept(b, &line->pend, view);

    return old != NULL ? (struct led_balance){{old->a}, {old->b}}
                       : (struct led_balance){{line->available}, {line->held}};
}

static bool is_zero(const struct led_balance *balance)
{
    return ron_money_is_zero(balance->available) && ron_money_is_zero(balance->held);
}

/* The line of the asset, or NULL. */
static const struct led_line *find_line(const struct led_book *b, const struct led_acct *acct,
                                        uint32_t asset)
{
    const struct led_line *line = &acct->line;

    while (line->asset != asset + 1) {
        if (line->next == 0) {
            return NULL;
        }
        line = led__line(b, line->next - 1);
    }
    return line;
}

static const struct led_acct *find(const struct led_book *b, struct ron_str account)
{
    uint32_t index = led__find_account(b, led__key(b->opts.hash_key, account));

    return index == LED_TABLE_NONE ? NULL : led__acct(b, index);
}

bool led_book_balance(const struct led_book *b, struct ron_str account, struct ron_str asset,
                      enum led_view view, struct led_balance *ret_balance)
{
    const struct led_acct *acct = find(b, account);
    uint32_t asset_index = led__find_asset(b, asset);
    const struct led_line *line;
    struct led_balance balance;

    if (acct == NULL || asset_index == LED_TABLE_NONE) {
        return false;
    }
    line = find_line(b, acct, asset_index);
    if (line == NULL) {
        return false;
    }
    balance = line_balance(b, line, view);
    if (is_zero(&balance)) {
        return false;
    }
    *ret_balance = balance;
    return true;
}

void led_book_each(const struct led_book *b, struct ron_str account, enum led_view view,
                   led_book_see *see, void *arg)
{
    const struct led_acct *acct = find(b, account);
    const struct led_line *line = acct != NULL ? &acct->line : NULL;

    while (line != NULL) {
        struct led_balance balance = line_balance(b, line, view);

        if (line->asset != 0 && !is_zero(&balance)) {
            const struct led_asset *asset = led__asset(b, line->asset - 1u);

            see(arg, (struct ron_str){asset->name, asset->len}, &balance);
        }
        line = line->next != 0 ? led__line(b, line->next - 1) : NULL;
    }
}

bool led_book_account(const struct led_book *b, struct ron_str account, enum led_view view,
                      struct led_account *ret_account)
{
    const struct led_acct *acct = find(b, account);
    const struct led_change *old;

    if (acct == NULL) {
        return false;
    }
    old = kept(b, &acct->line.pend, view);
    if (old != NULL && old->created) {
        return false;
    }
    *ret_account = (struct led_account){.account_nonce = old != NULL ? led__committed_nonce(b, acct)
                                                                     : acct->nonce,
                                        .last_seq = old != NULL ? old->d : acct->last_seq,
                                        .frozen = (acct->line.flags & LED_ACCOUNT_FROZEN) != 0};
    return true;
}

struct ron_money led_book_supply(const struct led_book *b, struct ron_str asset, enum led_view view)
{
    uint32_t index = led__find_asset(b, asset);
    const struct led_change *old;

    if (index == LED_TABLE_NONE) {
        return RON_MONEY_ZERO;
    }
    old = kept(b, &led__asset(b, index)->pend, view);
    return (struct ron_money){old != NULL ? old->a : led__asset(b, index)->supply};
}

struct ron_money led_book_hold(const struct led_book *b, struct ron_str id)
{
    uint32_t index = led__find_hold(b, led__key(b->opts.hash_key, id));

    return (struct ron_money){index == LED_TABLE_NONE ? 0 : led__hold(b, index)->remaining};
}

void led_book_supplies(const struct led_book *b, enum led_view view, led_book_see_supply *see,
                       void *arg)
{
    for (uint32_t i = 0; i < b->assets.count; i++) {
        const struct led_asset *asset = led__asset(b, i);
        const struct led_change *old = kept(b, &asset->pend, view);
        struct ron_money supply = {old != NULL ? old->a : asset->supply};

        if (!ron_money_is_zero(supply)) {
            see(arg, (struct ron_str){asset->name, asset->len}, supply);
        }
    }
}

void led_book_holds_of(const struct led_book *b, struct ron_str account, enum led_view view,
                       led_book_see_hold *see, void *arg)
{
    const struct led_acct *acct = find(b, account);
    uint32_t next = acct != NULL ? acct->hold_first : 0;

    while (next != 0) {
        const struct led_hold *hold = led__hold(b, next - 1);
        const struct led_asset *asset = led__asset(b, hold->asset);
        const struct led_change *old = kept(b, &hold->pend, view);
        struct led_open_hold open = {.id = {hold->id, hold->id_len},
                                     .asset = {asset->name, asset->len},
                                     .remaining.v = old != NULL ? old->a : hold->remaining,
                                     .expires_ms = hold->expires_ms,
                                     .seq = hold->seq};

        if (!ron_money_is_zero(open.remaining) && !see(arg, &open)) {
            return;
        }
        next = hold->next;
    }
}

size_t led_book_pending(const struct led_book *b)
{
    return b->ring.pending;
}

uint64_t led_book_committed_seq(const struct led_book *b)
{
    return b->committed_seq;
}

void led_book_stats(const struct led_book *b, struct led_book_stats *ret)
{
    uint64_t memory = led_table_memory(&b->accounts_by_key) + led_table_memory(&b->holds_by_key) +
                      led_table_memory(&b->reversals_by_key) + led_store_memory(&b->accounts) +
                      led_store_memory(&b->lines) + led_store_memory(&b->assets) +
                      led_store_memory(&b->holds) + led_store_memory(&b->reversals) +
                      led_store_memory(&b->heap) + led_store_memory(&b->names);

    *ret = (struct led_book_stats){.accounts = b->accounts.count,
                                   .holds = b->holds_by_key.count,
                                   .undo_used = b->ring.head - b->ring.tail};
    for (size_t i = 0; i < LED_BUCKETS; i++) {
        if (b->slices.buckets[i].set.pages != NULL) {
            ret->fingerprints += b->slices.buckets[i].set.count;
            ret->fingerprint_bytes += led_table_memory(&b->slices.buckets[i].set);
        }
    }
    ret->memory_bytes = memory + ret->fingerprint_bytes;
}

/* ---- digest ---------------------------------------------------------------------------------- */

/* The sum of the hashes of all records modulo 2^256 does not depend on their order. Each record is
 * a tag, texts with their length, and numbers. */
struct digest {
    uint64_t sum[4];
    blake3_hasher hasher;
};

static void begin(struct digest *d, char tag)
{
    blake3_hasher_init(&d->hasher);
    blake3_hasher_update(&d->hasher, &tag, 1);
}

static void put_text(struct digest *d, struct ron_str s)
{
    uint16_t len = (uint16_t)s.len;

    blake3_hasher_update(&d->hasher, &len, sizeof len);
    blake3_hasher_update(&d->hasher, s.ptr, s.len);
}

static void put_u128(struct digest *d, ron_u128 v)
{
    blake3_hasher_update(&d->hasher, &v, sizeof v);
}

static void finish(struct digest *d)
{
    uint64_t hash[4];
    unsigned carry = 0;

    blake3_hasher_finalize(&d->hasher, (uint8_t *)hash, sizeof hash);
    for (size_t i = 0; i < 4; i++) {
        ron_u128 sum = (ron_u128)d->sum[i] + hash[i] + carry;

        d->sum[i] = (uint64_t)sum;
        carry = (unsigned)(sum >> 64);
    }
}

static struct ron_str asset_name(const struct led_book *b, uint32_t index)
{
    const struct led_asset *asset = led__asset(b, index);

    return (struct ron_str){asset->name, asset->len};
}

static void digest_account(const struct led_book *b, const struct led_acct *acct, struct digest *d)
{
    const struct led_line *line = &acct->line;

    if (acct->nonce != 0 || acct->last_seq != 0) {
        begin(d, 'a');
        put_text(d, led__name(b, acct));
        put_u128(d, acct->nonce);
        put_u128(d, acct->last_seq);
        finish(d);
    }
    for (;;) {
        if (line->available != 0 || line->held != 0) {
            begin(d, 'b');
            put_text(d, led__name(b, acct));
            put_text(d, asset_name(b, line->asset - 1u));
            put_u128(d, line->available);
            put_u128(d, line->held);
            finish(d);
        }
        if (line->next == 0) {
            return;
        }
        line = led__line(b, line->next - 1);
    }
}

static void digest_hold(const struct led_book *b, const struct led_hold *hold, struct digest *d)
{
    begin(d, 'h');
    put_text(d, (struct ron_str){hold->id, hold->id_len});
    put_text(d, led__name(b, led__acct(b, hold->account)));
    put_text(d, asset_name(b, hold->asset));
    put_u128(d, hold->remaining);
    put_u128(d, hold->expires_ms);
    put_u128(d, hold->seq);
    finish(d);
}

void led_book_digest(const struct led_book *b, uint8_t ret_digest[32])
{
    struct digest d = {0};

    for (uint32_t i = 0; i < b->accounts.count; i++) {
        digest_account(b, led__acct(b, i), &d);
    }
    for (uint32_t i = 0; i < b->holds.count; i++) {
        if (led__hold(b, i)->remaining != 0) {
            digest_hold(b, led__hold(b, i), &d);
        }
    }
    for (uint32_t i = 0; i < b->assets.count; i++) {
        if (led__asset(b, i)->supply != 0) {
            begin(&d, 's');
            put_text(&d, asset_name(b, i));
            put_u128(&d, led__asset(b, i)->supply);
            finish(&d);
        }
    }
    for (uint32_t i = 0; i < b->reversals.count; i++) {
        const struct led_reversal *r = led__reversal(b, i);

        begin(&d, 'r');
        put_text(&d, (struct ron_str){(const char *)r->name, sizeof r->name});
        put_u128(&d, r->reversed);
        finish(&d);
    }
    memcpy(ret_digest, d.sum, sizeof d.sum);
}

/* ---- audit ----------------------------------------------------------------------------------- */

/* Takes `part` off `*whole`; false when it is more. */
static bool take_off(ron_u128 *whole, ron_u128 part)
{
    bool enough = *whole >= part;

    *whole -= part;
    return enough;
}

/* B3: takes every balance off the supplies; what is left must be nothing. */
static const char *audit_supply(const struct led_book *b, ron_u128 *left)
{
    for (uint32_t i = 0; i < b->assets.count; i++) {
        left[i] = led__asset(b, i)->supply;
    }
    for (uint32_t i = 0; i < b->accounts.count; i++) {
        const struct led_line *line = &led__acct(b, i)->line;

        while (line != NULL) {
            if (line->asset != 0 && (!take_off(&left[line->asset - 1], line->available) ||
                                     !take_off(&left[line->asset - 1], line->held))) {
                return "B3: balances are more than the supply";
            }
            line = line->next != 0 ? led__line(b, line->next - 1) : NULL;
        }
    }
    for (uint32_t i = 0; i < b->assets.count; i++) {
        if (left[i] != 0) {
            return "B3: balances are less than the supply";
        }
    }
    return NULL;
}

/* B4: what holds promise, summed per asset, equals what is held; and no line holds less than one of
 * its holds. */
static const char *audit_holds(const struct led_book *b, ron_u128 *left)
{
    memset(left, 0, b->assets.count * sizeof *left);
    for (uint32_t i = 0; i < b->accounts.count; i++) {
        const struct led_line *line = &led__acct(b, i)->line;

        while (line != NULL) {
            if (line->asset != 0) {
                left[line->asset - 1] += line->held;
            }
            line = line->next != 0 ? led__line(b, line->next - 1) : NULL;
        }
    }
    for (uint32_t i = 0; i < b->holds.count; i++) {
        const struct led_hold *hold = led__hold(b, i);
        const struct led_line *line;

        if (hold->remaining == 0) {
            continue;
        }
        line = find_line(b, led__acct(b, hold->account), hold->asset);
        if (line == NULL || line->held < hold->remaining ||
            !take_off(&left[hold->asset], hold->remaining)) {
            return "B4: holds are more than what is held";
        }
    }
    for (uint32_t i = 0; i < b->assets.count; i++) {
        if (left[i] != 0) {
            return "B4: holds are less than what is held";
        }
    }
    return NULL;
}

const char *led_book_audit(const struct led_book *b)
{
    ron_u128 *left = ron_alloc_array(b->assets.count + 1u, sizeof *left);
    const char *fault;

    if (left == NULL) {
        return "no memory for the audit";
    }
    fault = audit_supply(b, left);
    if (fault == NULL) {
        fault = audit_holds(b, left);
    }
    ron_free(left);
    return fault;
}
