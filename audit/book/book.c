/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/book.c - accounts, assets and the sums of the whole; apply.c judges entries. */
#include "audit/book/book.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { ASSET_SLOTS = 2 * AUD_ASSETS_MAX };

enum ron_rc aud_book_init(struct aud_book *b, const struct aud_seed *seed, uint64_t horizon_ms,
                          struct aud_findings *findings)
{
    uint16_t *slots = ron_alloc_array(ASSET_SLOTS, sizeof *slots);

    if (slots == NULL) {
        return RON_NOMEM;
    }
    *b = (struct aud_book){.seed = *seed, .findings = findings, .asset_slots = slots};
    aud_unique_init(&b->unique, &b->seed, horizon_ms);
    b->accounts.store = b->holds.store = b->originals.store = &b->store;
    return RON_OK;
}

void aud_book_done(struct aud_book *b)
{
    aud_unique_done(&b->unique);
    aud_map_done(&b->accounts);
    aud_map_done(&b->holds);
    aud_map_done(&b->originals);
    aud_store_done(&b->store);
    ron_free(b->assets);
    ron_free(b->asset_slots);
    b->assets = NULL;
    b->asset_slots = NULL;
}

uint64_t aud_book_bytes(const struct aud_book *b)
{
    uint64_t slots = b->accounts.cap + b->holds.cap + b->originals.cap;

    return aud_store_bytes(&b->store) + slots * sizeof *b->accounts.slots +
           b->asset_cap * sizeof *b->assets + aud_unique_bytes(&b->unique);
}

/* ---- records --------------------------------------------------------------------------------- */

enum ron_rc aud__account(struct aud_book *b, uint64_t print, struct ron_str name,
                         struct aud_acct **ret_acct, uint32_t *ret_ref)
{
    uint32_t ref = aud_map_find(&b->accounts, print, name);
    struct aud_acct *acct;

    if (RON_UNLIKELY(ref == 0)) {
        RON_TRY(aud_store_new(&b->store, sizeof *acct + name.len, &ref));
        acct = aud_at(&b->store, ref);
        acct->key = (struct aud_key){.hash = print,
                                     .text_at = offsetof(struct aud_acct, name),
                                     .text_len = (uint32_t)name.len};
        memcpy(acct->name, name.ptr, name.len);
        RON_TRY(aud_map_add(&b->accounts, ref));
    }
    *ret_acct = aud_at(&b->store, ref);
    *ret_ref = ref;
    return RON_OK;
}

static bool is_asset(const struct aud_book *b, uint32_t index, struct ron_str name)
{
    return aud_str_equal((struct ron_str){b->assets[index].name, b->assets[index].name_len}, name);
}

static enum ron_rc new_asset(struct aud_book *b, struct ron_str name, uint16_t *slot)
{
    struct aud_asset *asset;

    if (b->asset_count == AUD_ASSETS_MAX) {
        return RON_LIMIT;
    }
    if (b->asset_count == b->asset_cap) {
        uint32_t cap = b->asset_cap == 0 ? 16 : 2 * b->asset_cap;
        struct aud_asset *grown = ron_realloc_array(b->assets, cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        b->assets = grown;
        b->asset_cap = cap;
    }
    asset = &b->assets[b->asset_count++];
    *asset = (struct aud_asset){.name_len = (uint8_t)name.len};
    memcpy(asset->name, name.ptr, name.len);
    *slot = (uint16_t)b->asset_count;
    return RON_OK;
}

enum ron_rc aud__asset(struct aud_book *b, struct ron_str name, uint32_t *ret_index)
{
    uint32_t at;

    if (RON_LIKELY(b->asset_count > 0 && is_asset(b, b->asset_last, name))) {
        *ret_index = b->asset_last;
        return RON_OK;
    }
    at = aud_print(&b->seed, name.ptr, name.len) % ASSET_SLOTS;
    while (b->asset_slots[at] != 0 && !is_asset(b, b->asset_slots[at] - 1u, name)) {
        at = (at + 1) % ASSET_SLOTS;
    }
    if (b->asset_slots[at] == 0) {
        RON_TRY(new_asset(b, name, &b->asset_slots[at]));
    }
    b->asset_last = b->asset_slots[at] - 1u;
    *ret_index = b->asset_last;
    return RON_OK;
}

enum ron_rc aud__line(struct aud_book *b, struct aud_acct *acct, uint32_t asset,
                      struct aud_line **ret_line)
{
    struct aud_line *line = &acct->line;
    uint32_t ref;

    if (line->asset == 0) {
        line->asset = (uint16_t)(asset + 1);
    }
    while (line->asset != asset + 1) {
        if (line->next == 0) {
            RON_TRY(aud_store_new(&b->store, sizeof *line, &ref));
            line->next = ref;
            line = aud_at(&b->store, ref);
            line->asset = (uint16_t)(asset + 1);
        } else {
            line = aud_at(&b->store, line->next);
        }
    }
    *ret_line = line;
    return RON_OK;
}

/* ---- the sums of the whole ------------------------------------------------------------------- */

static struct aud_line *next_line(const struct aud_book *b, const struct aud_line *line)
{
    return line->next != 0 ? aud_at(&b->store, line->next) : NULL;
}

/* The line of a hold; every hold has one. */
static struct aud_line *line_of(const struct aud_book *b, const struct aud__hold *hold)
{
    struct aud_acct *acct = aud_at(&b->store, hold->account);
    struct aud_line *line = &acct->line;

    while (line != NULL && line->asset != hold->asset + 1) {
        line = next_line(b, line);
    }
    RON_ASSERT(line != NULL);
    return line;
}

/* Takes every open hold out of what is held, or puts it back. */
static void move_holds(struct aud_book *b, bool out)
{
    uint64_t at = 0;
    uint32_t ref;

    while ((ref = aud_map_next(&b->holds, &at)) != 0) {
        const struct aud__hold *hold = aud_at(&b->store, ref);
        struct aud_line *line = line_of(b, hold);

        line->held = out ? line->held - hold->remaining : line->held + hold->remaining;
    }
}

static void check_held(struct aud_book *b, const struct aud_place *place)
{
    uint64_t at = 0;
    uint32_t ref;

    while ((ref = aud_map_next(&b->accounts, &at)) != 0) {
        const struct aud_acct *acct = aud_at(&b->store, ref);

        for (const struct aud_line *line = &acct->line; line != NULL; line = next_line(b, line)) {
            if (line->held != 0) {
                struct aud_finding *f = aud_find(b->findings, AUD_RULE_HELD, place);

                aud_say(f->expected, "held = sum of the open holds");
                aud_say(f->found, "another sum for %.*s", (int)acct->key.text_len, acct->name);
            }
        }
    }
}

static void add_totals(struct aud_book *b, const struct aud_place *place)
{
    uint64_t at = 0;
    uint32_t ref;

    for (uint32_t i = 0; i < b->asset_count; i++) {
        b->assets[i].total = b->assets[i].held = 0;
    }
    while ((ref = aud_map_next(&b->accounts, &at)) != 0) {
        const struct aud_acct *acct = aud_at(&b->store, ref);

        for (const struct aud_line *line = &acct->line; line != NULL; line = next_line(b, line)) {
            struct aud_asset *asset = line->asset != 0 ? &b->assets[line->asset - 1] : NULL;

            if (asset != NULL &&
                (__builtin_add_overflow(asset->held, line->held, &asset->held) ||
                 __builtin_add_overflow(asset->total, line->held, &asset->total) ||
                 __builtin_add_overflow(asset->total, line->available, &asset->total))) {
                struct aud_finding *f = aud_find(b->findings, AUD_RULE_OVERFLOW, place);

                aud_say(f->expected, "a sum of balances up to 2^128 - 1");
                aud_say(f->found, "more of %.*s", asset->name_len, asset->name);
            }
        }
    }
}

void aud_book_finish(struct aud_book *b, const struct aud_place *place)
{
    add_totals(b, place);
    for (uint32_t i = 0; i < b->asset_count; i++) {
        const struct aud_asset *asset = &b->assets[i];

        if (asset->total != asset->supply) {
            struct aud_finding *f = aud_find(b->findings, AUD_RULE_SUPPLY, place);
            char supply[RON_MONEY_TEXT_SIZE];
            char total[RON_MONEY_TEXT_SIZE];

            (void)ron_money_format((struct ron_money){asset->supply}, supply);
            (void)ron_money_format((struct ron_money){asset->total}, total);
            aud_say(f->expected, "all balances of %.*s are the supply, %s", asset->name_len,
                    asset->name, supply);
            aud_say(f->found, "%s", total);
        }
    }
    move_holds(b, true);
    check_held(b, place);
    move_holds(b, false);
}

/* ---- balances, sorted ------------------------------------------------------------------------ */

static int by_name(const void *x, const void *y)
{
    const struct aud_acct *a = *(const struct aud_acct *const *)x;
    const struct aud_acct *b = *(const struct aud_acct *const *)y;
    int order = memcmp(a->name, b->name, (size_t)RON_MIN(a->key.text_len, b->key.text_len));

    return order != 0 ? order
                      : (a->key.text_len > b->key.text_len) - (a->key.text_len < b->key.text_len);
}

static int compare_assets(const struct aud_asset *x, const struct aud_asset *y)
{
    int order = memcmp(x->name, y->name, (size_t)RON_MIN(x->name_len, y->name_len));

    return order != 0 ? order : x->name_len - y->name_len;
}

/* The line whose asset comes next after `after` (NULL: the first) by name; NULL at the end. */
static const struct aud_line *line_after(const struct aud_book *b, const struct aud_acct *acct,
                                         const struct aud_asset *after)
{
    const struct aud_line *best = NULL;

    for (const struct aud_line *line = &acct->line; line != NULL; line = next_line(b, line)) {
        const struct aud_asset *asset = &b->assets[line->asset - 1];

        if ((after == NULL || compare_assets(asset, after) > 0) &&
            (best == NULL || compare_assets(asset, &b->assets[best->asset - 1]) < 0)) {
            best = line;
        }
    }
    return best;
}

enum ron_rc aud_book_each(const struct aud_book *b, aud_book_see *see, void *arg)
{
    RON_AUTO_FREE const struct aud_acct **all =
        ron_alloc_array((size_t)b->accounts.live + 1, sizeof(void *));
    size_t count = 0;
    uint64_t at = 0;
    uint32_t ref;

    if (all == NULL) {
        return RON_NOMEM;
    }
    while ((ref = aud_map_next(&b->accounts, &at)) != 0) {
        const struct aud_acct *acct = aud_at(&b->store, ref);

        if (acct->line.asset != 0) {
            all[count++] = acct;
        }
    }
    qsort(all, count, sizeof(void *), by_name);
    for (size_t i = 0; i < count; i++) {
        const struct aud_asset *asset = NULL;
        const struct aud_line *line;

        while ((line = line_after(b, all[i], asset)) != NULL) {
            asset = &b->assets[line->asset - 1];
            if (line->available != 0 || line->held != 0) {
                see(arg, (struct ron_str){all[i]->name, all[i]->key.text_len},
                    (struct ron_str){asset->name, asset->name_len}, line);
            }
        }
    }
    return RON_OK;
}
