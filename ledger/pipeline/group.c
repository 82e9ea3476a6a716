/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/group.c - a second look at a group before it is written; the contract is in
 * group.h. */
#include "ledger/pipeline/group.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/base/wide.h"

enum {
    PLACES_FIRST = 2048,
    SUMS_FIRST = 16,
};

/* How an entry changes one side: each is added or taken, never both. */
struct effect {
    ron_u128 available_plus;
    ron_u128 available_minus;
    ron_u128 held_plus;
    ron_u128 held_minus;
};

struct at {
    struct led_group *g;
    const struct led_work *work;
    size_t idx;
    uint64_t seq;
    struct ron_err *err;
};

static enum ron_rc broken(const struct at *at, const char *rule)
{
    return ron_err_set(at->err, RON_CORRUPT, "entry %llu: %s", (unsigned long long)at->seq, rule);
}

static bool same_key(struct led_key x, struct led_key y)
{
    return x.a == y.a && x.b == y.b;
}

void led_group_done(struct led_group *g)
{
    ron_free(g->places);
    ron_free(g->sums);
    *g = (struct led_group){0};
}

/* ---- G2 -------------------------------------------------------------------------------------- */

/* The entry that a Reverse undoes: given with the work, or an earlier one of the same batch. */
static const struct led_entry *find_original(const struct at *at)
{
    const struct led_work *w = at->work;

    if (w->originals != NULL && w->originals[at->idx] != NULL) {
        return w->originals[at->idx];
    }
    for (size_t i = at->idx; i-- > 0;) {
        if (same_key(w->preps[i].id, w->preps[at->idx].ref)) {
            return &w->batch.entries[i];
        }
    }
    return NULL;
}

static void effect_of_reverse(const struct led_entry *original, ron_u128 amount, bool to,
                              struct effect *ret)
{
    bool plus =
        original->kind == LED_KIND_BURN || original->kind == LED_KIND_DEBIT ||
        ((original->kind == LED_KIND_TRANSFER || original->kind == LED_KIND_CAPTURE) && !to);

    *(plus ? &ret->available_plus : &ret->available_minus) = amount;
}

static struct effect effect_of(const struct led_entry *e, const struct led_entry *original, bool to)
{
    struct effect x = {0};
    ron_u128 amount = e->amount.v;

    if (e->kind == LED_KIND_REVERSE) {
        effect_of_reverse(original, amount, to, &x);
        return x;
    }
    if (to) {
        x.available_plus = amount;
        return x;
    }
    switch ((enum led_kind)e->kind) {
    case LED_KIND_MINT:
    case LED_KIND_CREDIT:
        x.available_plus = amount;
        break;
    case LED_KIND_BURN:
    case LED_KIND_DEBIT:
    case LED_KIND_TRANSFER:
        x.available_minus = amount;
        break;
    case LED_KIND_HOLD:
        x.available_minus = amount;
        x.held_plus = amount;
        break;
    case LED_KIND_RELEASE:
    case LED_KIND_EXPIRE:
        x.available_plus = amount;
        x.held_minus = amount;
        break;
    case LED_KIND_CAPTURE:
        x.held_minus = amount;
        break;
    case LED_KIND_REVERSE:
        RON_UNREACHABLE();
    }
    return x;
}

/* The balance before: `after` with the effect taken back. */
static bool take_back(ron_u128 after, ron_u128 plus, ron_u128 minus, ron_u128 *ret_before)
{
    return !__builtin_sub_overflow(after, plus, ret_before) &&
           !__builtin_add_overflow(*ret_before, minus, ret_before);
}

static void remember(struct led_group_place *p, const struct led_entry *e,
                     const struct led_prep *prep, const struct led_links *links)
{
    p->account =
        (struct led_group_side){prep->account.a, links->account.available.v, links->account.held.v};
    p->to = (struct led_group_side){prep->to.a, links->to.available.v, links->to.held.v};
    p->asset = e->asset;
    p->asset_head = 0;
    memcpy(&p->asset_head, e->asset.ptr, RON_MIN(e->asset.len, sizeof p->asset_head));
    p->has_to = links->has_to;
    p->any_to = e->kind == LED_KIND_REVERSE;
}

static bool same_asset(const struct led_group_place *x, const struct led_group_place *y)
{
    return x->asset_head == y->asset_head && x->asset.len == y->asset.len &&
           (x->asset.len <= sizeof x->asset_head ||
            memcmp(x->asset.ptr, y->asset.ptr, x->asset.len) == 0);
}

/* What an earlier entry left on the account; NULL when it is another account. */
static const struct led_group_side *side_of(const struct led_group_place *p, uint64_t account)
{
    return p->account.account == account                          ? &p->account
           : p->has_to && (p->any_to || p->to.account == account) ? &p->to
                                                                  : NULL;
}

/* `account` is NULL when its name is not at hand. */
static enum ron_rc check_side(const struct at *at, const struct led_side *side,
                              const struct led_key *account, const struct effect *x)
{
    const struct led_group *g = at->g;
    const struct led_group_place *place;
    const struct led_group_side *last;
    ron_u128 available;
    ron_u128 held;

    if (!take_back(side->available.v, x->available_plus, x->available_minus, &available) ||
        !take_back(side->held.v, x->held_plus, x->held_minus, &held)) {
        return broken(at, "a balance cannot have come from this entry");
    }
    if (side->prev_seq >= at->seq) {
        return broken(at, "a link leads forward");
    }
    if (side->prev_seq < g->seq_first || account == NULL) {
        return RON_OK;
    }
    place = &g->places[side->prev_seq - g->seq_first];
    last = side_of(place, account->a);
    if (last == NULL) {
        return broken(at, "a link leads to an entry of another account");
    }
    if (same_asset(place, &g->places[at->seq - g->seq_first]) &&
        (last->available != available || last->held != held)) {
        return broken(at, "a balance does not follow from the one before");
    }
    return RON_OK;
}

/* ---- G3 -------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static struct led_group_sum *sum_of(const struct at *at, struct ron_str asset)
{
    struct led_group *g = at->g;

    for (size_t i = g->sums_count; i-- > 0;) {
        if (ron_str_equal(g->sums[i].asset, asset)) {
            return &g->sums[i];
        }
    }
    if (g->sums_count == g->sums_room) {
        size_t room = g->sums_room != 0 ? 2 * g->sums_room : SUMS_FIRST;
        struct led_group_sum *sums = ron_realloc_array(g->sums, room, sizeof *sums);

        if (sums == NULL) {
            return NULL;
        }
        g->sums = sums;
        g->sums_room = room;
    }
    g->sums[g->sums_count] = (struct led_group_sum){.asset = asset};
    return &g->sums[g->sums_count++];
}

static enum ron_rc add_to_sums(const struct at *at, const struct led_entry *e,
                               const struct led_entry *original)
{
    uint8_t kind = e->kind == LED_KIND_REVERSE ? original->kind : e->kind;
    struct led_group_sum *sum = NULL;
    ron_u128 *side;

    if (kind != LED_KIND_CREDIT && kind != LED_KIND_DEBIT) {
        return RON_OK;
    }
    sum = sum_of(at, e->asset);
    if (sum == NULL) {
        return ron_err_set(at->err, RON_NOMEM, "no memory to check a group");
    }
    /* The reversal of a credit is a debit. */
    side = (kind == LED_KIND_CREDIT) == (e->kind != LED_KIND_REVERSE) ? &sum->credits.v
                                                                      : &sum->debits.v;
    if (__builtin_add_overflow(*side, e->amount.v, side)) {
        return broken(at, "credits or debits pass 2^128 - 1");
    }
    return RON_OK;
}

/* ---- works ----------------------------------------------------------------------------------- */

static enum ron_rc check_entry(const struct at *at)
{
    const struct led_work *w = at->work;
    const struct led_entry *e = &w->batch.entries[at->idx];
    const struct led_prep *prep = &w->preps[at->idx];
    const struct led_links *links = &w->links[at->idx];
    const struct led_entry *original = NULL;
    bool has_to = led_kind_takes_to(e->kind);
    struct effect x;

    if (e->kind == LED_KIND_REVERSE) {
        original = find_original(at);
        if (original == NULL) {
            return broken(at, "a Reverse without what it undoes");
        }
        has_to = led_kind_takes_to(original->kind);
    }
    if (links->has_to != has_to) {
        return broken(at, "the links have not the sides of the kind");
    }
    remember(&at->g->places[at->seq - at->g->seq_first], e, prep, links);
    x = effect_of(e, original, false);
    RON_TRY(check_side(at, &links->account, &prep->account, &x));
    if (has_to) {
        x = effect_of(e, original, true);
        RON_TRY(check_side(at, &links->to, original == NULL ? &prep->to : NULL, &x));
    }
    return add_to_sums(at, e, original);
}

static enum ron_rc check_work(struct at *at)
{
    struct led_group *g = at->g;
    const struct led_work *w = at->work;

    if (w->seq_first != g->seq_first + g->entries) {
        return broken(at, "seqs do not follow each other");
    }
    if ((w->kind == LED_WORK_CANCEL) != (w->batch.count == 0) ||
        w->seq_last + 1 != w->seq_first + w->batch.count) {
        return broken(at, "not as many entries as seqs");
    }
    g->sums_count = 0;
    for (size_t i = 0; i < w->batch.count; i++) {
        at->idx = i;
        at->seq = w->seq_first + i;
        RON_TRY(check_entry(at));
    }
    g->entries += w->batch.count;
    for (size_t i = 0; i < g->sums_count; i++) {
        if (g->sums[i].credits.v != g->sums[i].debits.v) {
            return broken(at, "credits and debits of the batch are not equal");
        }
    }
    return RON_OK;
}

static enum ron_rc make_room(struct led_group *g, size_t entries)
{
    struct led_group_place *places;
    size_t room = g->places_room != 0 ? g->places_room : PLACES_FIRST;

    while (room < entries) {
        room *= 2;
    }
    if (room == g->places_room) {
        return RON_OK;
    }
    places = ron_realloc_array(g->places, room, sizeof *places);
    if (places == NULL) {
        return RON_NOMEM;
    }
    g->places = places;
    g->places_room = room;
    return RON_OK;
}

enum ron_rc led_group_begin(struct led_group *g, size_t entries, uint64_t seq_first,
                            struct ron_err *err)
{
    if (make_room(g, entries) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory to check a group");
    }
    g->seq_first = seq_first;
    g->entries = 0;
    return RON_OK;
}

enum ron_rc led_group_check(struct led_group *g, const struct led_work *work, struct ron_err *err)
{
    struct at at = {.g = g, .work = work, .seq = g->seq_first + g->entries, .err = err};

    return check_work(&at);
}
