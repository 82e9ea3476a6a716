/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/apply.c - judging one entry after another; the contract is in book.h.
 *
 * Every function returns RON_OK or an operational failure; what breaks a rule becomes a finding and
 * is applied as far as it makes sense: a balance stops at 0 and at 2^128 - 1. */
#include <inttypes.h>
#include <string.h>

#include "audit/book/priv.h"
#include "ron/base/assert.h"

struct ctx {
    struct aud_book *b;
    const struct aud_item *item;
    const struct aud_entry *e;
    uint32_t asset; /* index */
    /* The two sides; `other` is NULL unless the entry has one. */
    struct aud_acct *account;
    struct aud_acct *other;
    struct aud_line *line;
    struct aud_line *other_line;
    uint32_t account_ref;
    uint32_t other_ref;
    uint64_t prev_seq; /* of the account, before this entry */
    uint64_t other_prev_seq;
};

/* An amount as text, for one statement. */
struct amount_text {
    char text[RON_MONEY_TEXT_SIZE];
};

static struct amount_text text_of(ron_u128 v)
{
    struct amount_text t;

    (void)ron_money_format((struct ron_money){v}, t.text);
    return t;
}

static struct aud_finding *find(struct ctx *c, enum aud_rule rule)
{
    return aud_find(c->b->findings, rule, &c->item->place);
}

/* A finding in fixed words. */
static void fault(struct ctx *c, enum aud_rule rule, const char *expected, const char *found)
{
    struct aud_finding *f = find(c, rule);

    aud_say(f->expected, "%s", expected);
    aud_say(f->found, "%s", found);
}

static struct aud_asset *asset_of(const struct ctx *c)
{
    return &c->b->assets[c->asset];
}

/* ---- movements ------------------------------------------------------------------------------- */

static void take(struct ctx *c, ron_u128 *from, const char *what)
{
    if (RON_UNLIKELY(*from < c->e->amount)) {
        struct aud_finding *f = find(c, AUD_RULE_FUNDS);

        aud_say(f->expected, "at least %s %s", text_of(c->e->amount).text, what);
        aud_say(f->found, "%s", text_of(*from).text);
        *from = 0;
        return;
    }
    *from -= c->e->amount;
}

static void give(struct ctx *c, ron_u128 *to, const char *what)
{
    if (RON_UNLIKELY(__builtin_add_overflow(*to, c->e->amount, to))) {
        struct aud_finding *f = find(c, AUD_RULE_OVERFLOW);

        aud_say(f->expected, "%s up to 2^128 - 1", what);
        aud_say(f->found, "more, with %s", text_of(c->e->amount).text);
        *to = RON_U128_MAX;
    }
}

static void take_available(struct ctx *c, struct aud_line *line)
{
    take(c, &line->available, "available");
}

static void give_available(struct ctx *c, struct aud_line *line)
{
    give(c, &line->available, "a balance");
}

static void supply(struct ctx *c, bool grows)
{
    if (grows) {
        give(c, &asset_of(c)->supply, "the supply");
    } else {
        take(c, &asset_of(c)->supply, "in the supply");
    }
}

/* One side of a movement whose other side is another entry of the record. */
static void sum(struct ctx *c, bool credit)
{
    struct aud_asset *asset = asset_of(c);

    if (!asset->in_sums) {
        asset->in_sums = true;
        asset->credits = asset->debits = 0;
        asset->sum_place = c->item->place;
        asset->sum_next = c->b->sum_first;
        c->b->sum_first = c->asset + 1;
    }
    give(c, credit ? &asset->credits : &asset->debits, "a sum of a batch");
}

static void check_sums(struct aud_book *b)
{
    while (b->sum_first != 0) {
        struct aud_asset *asset = &b->assets[b->sum_first - 1];

        if (asset->credits != asset->debits) {
            struct aud_finding *f = aud_find(b->findings, AUD_RULE_SUMS, &asset->sum_place);

            aud_say(f->expected, "debits of %.*s in the batch equal to its credits, %s",
                    asset->name_len, asset->name, text_of(asset->credits).text);
            aud_say(f->found, "%s", text_of(asset->debits).text);
        }
        asset->in_sums = false;
        b->sum_first = asset->sum_next;
    }
}

/* ---- holds ----------------------------------------------------------------------------------- */

static enum ron_rc apply_hold(struct ctx *c)
{
    struct aud_book *b = c->b;
    struct aud__hold *hold;
    uint32_t ref = b->holds_free;

    take_available(c, c->line);
    give(c, &c->line->held, "what is held");
    if (aud_map_find(&b->holds, c->item->id_print, c->e->id) != 0) {
        fault(c, AUD_RULE_HOLD, "a hold with an id of its own", "a hold of that id is open");
        return RON_OK;
    }
    if (ref != 0) {
        hold = aud_at(&b->store, ref);
        b->holds_free = hold->next_free;
    } else {
        RON_TRY(aud_store_new(&b->store, sizeof *hold, &ref));
        hold = aud_at(&b->store, ref);
    }
    *hold = (struct aud__hold){
        .key = {.hash = c->item->id_print,
                .text_at = offsetof(struct aud__hold, id),
                .text_len = (uint32_t)c->e->id.len},
        .remaining = c->e->amount,
        .expires_ms = c->e->expires_ms,
        .seq = c->item->place.seq,
        .account = c->account_ref,
        .asset = c->asset,
    };
    RON_ASSERT(c->e->id.len <= sizeof hold->id);
    memcpy(hold->id, c->e->id.ptr, c->e->id.len);
    return aud_map_add(&b->holds, ref);
}

/* Id and nonce of an Expire follow from the seq of its Hold. */
static void check_expire_names(struct ctx *c, const struct aud__hold *hold)
{
    char id[AUD_ID_MAX];
    uint8_t nonce[AUD_NONCE_SIZE] = "expire:";
    int len = snprintf(id, sizeof id, "expire:%" PRIu64, hold->seq);

    for (size_t i = 0; i < 8; i++) {
        nonce[8 + i] = (uint8_t)(hold->seq >> (56 - 8 * i));
    }
    if (!aud_str_equal((struct ron_str){id, (size_t)len}, c->e->id) ||
        memcmp(nonce, c->e->nonce, sizeof nonce) != 0) {
        struct aud_finding *f = find(c, AUD_RULE_OWN);

        aud_say(f->expected, "id and nonce that follow from seq %" PRIu64 " of the Hold",
                hold->seq);
        aud_say(f->found, "id \"%.*s\"", (int)c->e->id.len, c->e->id.ptr);
    }
}

static void check_hold_time(struct ctx *c, const struct aud__hold *hold)
{
    bool over = hold->expires_ms != 0 && c->b->now_ms >= hold->expires_ms;
    struct aud_finding *f;

    if (over == (c->e->kind == AUD_EXPIRE)) {
        return;
    }
    f = find(c, AUD_RULE_HOLD_TIME);
    if (over) {
        aud_say(f->expected, "%s before %" PRIu64, aud_kind_name(c->e->kind), hold->expires_ms);
    } else {
        aud_say(f->expected, "Expire from %" PRIu64 " on (0: never)", hold->expires_ms);
    }
    aud_say(f->found, "at %" PRIu64, c->b->now_ms);
}

/* False when nothing can be taken from the hold. */
static bool check_hold(struct ctx *c, const struct aud__hold *hold)
{
    struct aud_finding *f;

    if (hold->account != c->account_ref || hold->asset != c->asset) {
        fault(c, AUD_RULE_HOLD, "a hold of this account and asset", "that of another one");
        return false;
    }
    check_hold_time(c, hold);
    if (c->e->kind == AUD_EXPIRE) {
        check_expire_names(c, hold);
    }
    if (c->e->amount > hold->remaining ||
        (c->e->kind == AUD_EXPIRE && c->e->amount != hold->remaining)) {
        f = find(c, AUD_RULE_HOLD);
        aud_say(f->expected, "%s what remains of the hold, %s",
                c->e->kind == AUD_EXPIRE ? "exactly" : "at most", text_of(hold->remaining).text);
        aud_say(f->found, "%s", text_of(c->e->amount).text);
    }
    return true;
}

static void end_of_hold(struct ctx *c, struct aud_line *target)
{
    struct aud_book *b = c->b;
    uint32_t ref =
        aud_map_find(&b->holds, aud_print(&b->seed, c->e->ref.ptr, c->e->ref.len), c->e->ref);
    struct aud__hold *hold;

    if (ref == 0) {
        struct aud_finding *f = find(c, AUD_RULE_HOLD);

        aud_say(f->expected, "an open hold \"%.*s\"", (int)c->e->ref.len, c->e->ref.ptr);
        aud_say(f->found, "none");
        return;
    }
    hold = aud_at(&b->store, ref);
    if (!check_hold(c, hold)) {
        return;
    }
    hold->remaining -= RON_MIN(c->e->amount, hold->remaining);
    if (hold->remaining == 0) {
        aud_map_remove(&b->holds, ref);
        hold->next_free = b->holds_free;
        b->holds_free = ref;
    }
    take(c, &c->line->held, "held");
    give_available(c, target);
}

/* ---- reversals ------------------------------------------------------------------------------- */

enum ron_rc aud_book_want(struct aud_book *b, struct ron_str id)
{
    uint64_t print = aud_print(&b->seed, id.ptr, id.len);
    struct aud__original *o;
    uint32_t ref;

    if (aud_map_find(&b->originals, print, id) != 0) {
        return RON_OK;
    }
    RON_TRY(aud_store_new(&b->store, sizeof *o + id.len, &ref));
    o = aud_at(&b->store, ref);
    o->key = (struct aud_key){
        .hash = print, .text_at = offsetof(struct aud__original, id), .text_len = (uint32_t)id.len};
    memcpy(o->id, id.ptr, id.len);
    return aud_map_add(&b->originals, ref);
}

void aud_book_refs_known(struct aud_book *b)
{
    b->refs_known = true;
}

/* Keeps the entry if some Reverse names it. Of two with one id, which is a finding, the first. */
static void keep_original(struct ctx *c)
{
    uint32_t ref = aud_map_find(&c->b->originals, c->item->id_print, c->e->id);
    struct aud__original *o;

    if (ref == 0) {
        return;
    }
    o = aud_at(&c->b->store, ref);
    if (o->seq == 0) {
        o->amount = c->e->amount;
        o->seq = c->item->place.seq;
        o->account = c->account_ref;
        o->to = c->other_ref;
        o->asset = c->asset;
        o->kind = c->e->kind;
    }
}

static bool reversible(uint8_t kind)
{
    return kind <= AUD_TRANSFER || kind == AUD_CAPTURE;
}

/* The entry that is undone, or NULL with a finding. */
static struct aud__original *find_original(struct ctx *c)
{
    uint64_t print = aud_print(&c->b->seed, c->e->ref.ptr, c->e->ref.len);
    uint32_t ref = aud_map_find(&c->b->originals, print, c->e->ref);
    struct aud__original *o = ref != 0 ? aud_at(&c->b->store, ref) : NULL;
    struct aud_finding *f;

    if (o == NULL || o->seq == 0) {
        f = find(c, AUD_RULE_REVERSE);
        aud_say(f->expected, "an earlier entry \"%.*s\"", (int)c->e->ref.len, c->e->ref.ptr);
        aud_say(f->found, "none");
        return NULL;
    }
    if (!reversible(o->kind) || o->account != c->account_ref || o->asset != c->asset) {
        f = find(c, AUD_RULE_REVERSE);
        aud_say(f->expected, "an entry of this account and asset that can be undone");
        aud_say(f->found, "%s of seq %" PRIu64, aud_kind_name(o->kind), o->seq);
        return NULL;
    }
    if (o->reversed > o->amount || c->e->amount > o->amount - o->reversed) {
        f = find(c, AUD_RULE_REVERSE);
        aud_say(f->expected, "at most what is left of seq %" PRIu64 ", %s", o->seq,
                text_of(o->reversed > o->amount ? 0 : o->amount - o->reversed).text);
        aud_say(f->found, "%s", text_of(c->e->amount).text);
    }
    return o;
}

static enum ron_rc open_other(struct ctx *c, struct aud_acct *acct, uint32_t ref)
{
    c->other = acct;
    c->other_ref = ref;
    c->other_prev_seq = acct->last_seq;
    acct->last_seq = c->item->place.seq;
    return aud__line(c->b, acct, c->asset, &c->other_line);
}

static enum ron_rc apply_reverse(struct ctx *c)
{
    struct aud__original *o;

    if (!c->b->refs_known) {
        return RON_AGAIN;
    }
    o = find_original(c);
    if (o == NULL) {
        return RON_OK;
    }
    if (__builtin_add_overflow(o->reversed, c->e->amount, &o->reversed)) {
        o->reversed = RON_U128_MAX;
    }
    switch (o->kind) {
    case AUD_MINT:
        take_available(c, c->line);
        supply(c, false);
        return RON_OK;
    case AUD_BURN:
        supply(c, true);
        give_available(c, c->line);
        return RON_OK;
    case AUD_CREDIT:
        take_available(c, c->line);
        sum(c, false);
        return RON_OK;
    case AUD_DEBIT:
        give_available(c, c->line);
        sum(c, true);
        return RON_OK;
    default:
        break;
    }
    RON_TRY(open_other(c, aud_at(&c->b->store, o->to), o->to));
    take_available(c, c->other_line);
    give_available(c, c->line);
    return RON_OK;
}

/* ---- one entry ------------------------------------------------------------------------------- */

static enum ron_rc apply_kind(struct ctx *c)
{
    switch ((enum aud_kind)c->e->kind) {
    case AUD_MINT:
        supply(c, true);
        give_available(c, c->line);
        break;
    case AUD_BURN:
        take_available(c, c->line);
        supply(c, false);
        break;
    case AUD_CREDIT:
        give_available(c, c->line);
        sum(c, true);
        break;
    case AUD_DEBIT:
        take_available(c, c->line);
        sum(c, false);
        break;
    case AUD_TRANSFER:
        take_available(c, c->line);
        give_available(c, c->other_line);
        break;
    case AUD_HOLD:
        return apply_hold(c);
    case AUD_CAPTURE:
        end_of_hold(c, c->other_line);
        break;
    case AUD_RELEASE:
    case AUD_EXPIRE:
        end_of_hold(c, c->line);
        break;
    case AUD_REVERSE:
        return apply_reverse(c);
    }
    return RON_OK;
}

static void check_time(struct ctx *c)
{
    struct aud_finding *f;

    if (c->e->ts_ms > c->b->now_ms + AUD_FUTURE_MS ||
        ((c->item->flags & AUD_RECORD_IMPORT) == 0 &&
         c->e->ts_ms + c->b->unique.horizon_ms < c->b->now_ms)) {
        f = find(c, AUD_RULE_TIME);
        aud_say(f->expected, "ts within the horizon before, or %d ms after, %" PRIu64,
                AUD_FUTURE_MS, c->b->now_ms);
        aud_say(f->found, "%" PRIu64, c->e->ts_ms);
    }
}

/* Expire comes from the ledger itself and from nobody else, and so do its names. */
static void check_own(struct ctx *c)
{
    bool own = (c->item->flags & AUD_RECORD_OWN) != 0;

    if (RON_UNLIKELY(own != (c->e->kind == AUD_EXPIRE))) {
        fault(c, AUD_RULE_OWN, own ? "Expire in a record of the ledger's own" : "no Expire",
              aud_kind_name(c->e->kind));
    }
    if (!own && ((c->e->id.len >= 7 && memcmp(c->e->id.ptr, "expire:", 7) == 0) ||
                 memcmp(c->e->nonce, "expire:", 8) == 0)) {
        fault(c, AUD_RULE_OWN, "id and nonce of a caller", "those of the ledger's own entries");
    }
}

static void check_account_nonce(struct ctx *c)
{
    struct aud_finding *f;

    if (c->e->account_nonce == 0) {
        return;
    }
    if (RON_UNLIKELY(c->e->account_nonce - 1 != c->account->nonce)) {
        f = find(c, AUD_RULE_ACCOUNT_NONCE);
        aud_say(f->expected, "%" PRIu64, c->account->nonce + 1);
        aud_say(f->found, "%" PRIu64, c->e->account_nonce);
    }
    c->account->nonce = c->e->account_nonce;
}

static void check_side(struct ctx *c, const struct aud_side *side, const char *which,
                       uint64_t prev_seq, struct aud_line *line)
{
    struct aud_finding *f;

    if (RON_UNLIKELY(side->prev_seq != prev_seq)) {
        f = find(c, AUD_RULE_LINK_SEQ);
        aud_say(f->expected, "%s: seq %" PRIu64, which, prev_seq);
        aud_say(f->found, "%" PRIu64, side->prev_seq);
    }
    if (RON_UNLIKELY(side->available != line->available || side->held != line->held)) {
        f = find(c, AUD_RULE_LINK_BALANCE);
        aud_say(f->expected, "%s: %s available, %s held", which, text_of(line->available).text,
                text_of(line->held).text);
        aud_say(f->found, "%s available, %s held", text_of(side->available).text,
                text_of(side->held).text);
        line->available = side->available; /* A2 */
        line->held = side->held;
    }
}

static void check_links(struct ctx *c)
{
    const struct aud_links *links = &c->item->links;

    check_side(c, &links->account, "account", c->prev_seq, c->line);
    if (RON_UNLIKELY(links->has_to != (c->other != NULL))) {
        fault(c, AUD_RULE_LINK_SEQ, c->other != NULL ? "links of `to`" : "no links of `to`",
              links->has_to ? "there are some" : "there are none");
    } else if (links->has_to) {
        check_side(c, &links->to, "to", c->other_prev_seq, c->other_line);
    }
}

static enum ron_rc open_sides(struct ctx *c)
{
    struct aud_acct *other;
    uint32_t ref;

    RON_TRY(aud__asset(c->b, c->e->asset, &c->asset));
    RON_TRY(
        aud__account(c->b, c->item->account_print, c->e->account, &c->account, &c->account_ref));
    c->prev_seq = c->account->last_seq;
    c->account->last_seq = c->item->place.seq;
    RON_TRY(aud__line(c->b, c->account, c->asset, &c->line));
    if (c->e->to.len != 0) {
        RON_TRY(aud__account(c->b, c->item->to_print, c->e->to, &other, &ref));
        RON_TRY(open_other(c, other, ref));
    }
    return RON_OK;
}

static void end_record(struct aud_book *b, const struct aud_item *item)
{
    if (item->ends_record) {
        check_sums(b);
    }
}

enum ron_rc aud_book_apply(struct aud_book *b, const struct aud_item *item)
{
    struct ctx c = {.b = b, .item = item, .e = &item->e};

    b->now_ms = RON_MAX(b->now_ms, item->now_ms);
    if (RON_UNLIKELY(item->e.kind == 0)) {
        end_record(b, item);
        return RON_OK;
    }
    RON_TRY(aud_unique_entry(&b->unique, item->id_print, item->nonce_print, b->now_ms));
    RON_TRY(open_sides(&c));
    check_time(&c);
    check_own(&c);
    check_account_nonce(&c);
    RON_TRY(apply_kind(&c));
    if (b->refs_known) {
        keep_original(&c);
    }
    check_links(&c);
    end_record(b, item);
    return RON_OK;
}

void aud_book_prepare(struct aud_book *b, struct aud_item *item)
{
    const struct aud_entry *e = &item->e;

    item->id_print = aud_print(&b->seed, e->id.ptr, e->id.len);
    item->account_print = aud_print(&b->seed, e->account.ptr, e->account.len);
    item->nonce_print = aud_nonce_print(&b->seed, e);
    aud_set_prefetch(&b->unique.ids, item->id_print);
    aud_set_prefetch(&b->unique.nonces[0], item->nonce_print);
    aud_map_prefetch(&b->accounts, item->account_print);
    if (e->to.len != 0) {
        item->to_print = aud_print(&b->seed, e->to.ptr, e->to.len);
        aud_map_prefetch(&b->accounts, item->to_print);
    }
}

void aud_book_prefetch(const struct aud_book *b, const struct aud_item *item)
{
    aud_map_prefetch_record(&b->accounts, item->account_print);
    if (item->e.to.len != 0) {
        aud_map_prefetch_record(&b->accounts, item->to_print);
    }
}
