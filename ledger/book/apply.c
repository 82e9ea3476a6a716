/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/apply.c - how a batch changes the book; the contract is in book.h.
 *
 * Every function below returns RON_OK, or RON_CONFLICT when the entry is refused and c->refusal
 * says why, or an operational failure. Nobody cleans up after himself: whoever starts the batch
 * takes all of it back through the ring of changes. A record is therefore saved before it is
 * changed, always. */
#include <blake3.h>
#include <string.h>

#include "ledger/book/priv.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum {
    /* How many entries ahead memory is asked for: slots of tables first, then the records that the
     * slots name. A miss costs about as much as the work on four entries; more would push out of
     * the cache what was fetched. It is asked for several entries in one go: the processor waits
     * until it knows where a page lies, and looks for several pages at a time. */
    AHEAD_RECORDS = 8,
    AHEAD_SLOTS = 16,
    AHEAD_STEP = 8,
};

/* An account that the entry touches. */
struct party {
    struct led_acct *acct;
    struct led_line *line; /* in the asset of the entry, saved; NULL: not yet opened */
    uint32_t index;
};

/* Where the accounts of an entry probably are. */
struct hint {
    uint32_t account;
    uint32_t to;
};

struct ctx {
    struct led_book *b;
    const struct led_apply *in;
    const struct led_prep *preps;
    const struct led_entry *e; /* the entry at idx */
    const struct led_prep *p;
    size_t idx;
    struct party account;
    struct party to; /* when there is one */
    uint32_t asset;  /* index */
    struct led_links *links;
    struct led_refusal *refusal;
    struct led_links unasked; /* when the caller wants no links */
    struct hint hints[AHEAD_SLOTS];
};

__attribute__((cold)) static enum ron_rc refuse(struct ctx *c, enum led_reason reason,
                                                const char *member, const char *detail)
{
    led_refuse(c->refusal, reason, member, detail);
    c->refusal->idx = (uint32_t)c->idx;
    return RON_CONFLICT;
}

static bool has_flag(const struct ctx *c, enum led_apply_flag flag)
{
    return (c->in->flags & flag) != 0;
}

/* A store at its maximum refuses the entry; lack of memory fails the call. */
static enum ron_rc full(struct ctx *c, enum ron_rc rc, const char *member, const char *detail)
{
    return rc == RON_FULL || rc == RON_LIMIT ? refuse(c, LED_REASON_BUSY, member, detail) : rc;
}

/* ---- records --------------------------------------------------------------------------------- */

static enum ron_rc make_account(struct ctx *c, struct led_key key, struct ron_str name,
                                struct party *party)
{
    struct led_book *b = c->b;
    enum ron_rc rc = led__new_account(b, key, name, &party->index);

    if (rc != RON_OK) {
        return full(c, rc, "account", "no more accounts fit");
    }
    party->acct = led__acct(b, party->index);
    led__created(b, &party->acct->line.pend, LED_CHANGE_ACCOUNT, party->index);
    return RON_OK;
}

/* `index` was found under the hash of the key. */
static bool is_account(const struct led_book *b, uint32_t index, struct led_key key)
{
    return index != LED_TABLE_NONE && led__acct(b, index)->key_b == key.b;
}

/* Finds or makes the account, saves it, and notes that this entry touched it. */
static enum ron_rc open_account(struct ctx *c, struct led_key key, struct ron_str name,
                                uint32_t hint, struct party *party, uint64_t *ret_prev)
{
    struct led_book *b = c->b;
    uint32_t index = RON_LIKELY(is_account(b, hint, key)) ? hint : led__find_account(b, key);
    struct led_change *change;
    struct led_acct *acct;

    party->line = NULL;
    if (index == LED_TABLE_NONE) {
        RON_TRY(make_account(c, key, name, party));
        acct = party->acct;
    } else {
        acct = led__acct(b, index);
        party->acct = acct;
        party->index = index;
        change = led__save(b, &acct->line.pend, LED_CHANGE_ACCOUNT, index);
        if (change != NULL) {
            change->a = acct->line.available;
            change->b = acct->line.held;
            change->d = acct->last_seq;
            change->asset = acct->line.asset;
        }
    }
    *ret_prev = acct->last_seq;
    acct->last_seq = c->in->seq_first + c->idx;
    return RON_OK;
}

static enum ron_rc open_asset(struct ctx *c)
{
    struct led_book *b = c->b;
    uint32_t index = led__find_asset(b, c->e->asset);
    struct led_asset *asset;
    enum ron_rc rc;

    if (index == LED_TABLE_NONE) {
        rc = led_store_push(&b->assets, &index);
        if (rc != RON_OK) {
            return full(c, rc, "asset", "no more assets fit");
        }
        asset = led__asset(b, index);
        asset->len = (uint8_t)c->e->asset.len;
        memcpy(asset->name, c->e->asset.ptr, c->e->asset.len);
        led__created(b, &asset->pend, LED_CHANGE_ASSET, index);
    }
    b->asset_last = index;
    c->asset = index;
    return RON_OK;
}

/* A further line of the account, which is saved like the account itself. */
static enum ron_rc new_line(struct ctx *c, struct party *party)
{
    struct led_book *b = c->b;
    struct led_line *line;
    uint32_t index;
    enum ron_rc rc = led_store_push(&b->lines, &index);

    if (rc != RON_OK) {
        return full(c, rc, "asset", "no more balances fit");
    }
    line = led__line(b, index);
    line->asset = (uint16_t)(c->asset + 1);
    line->next = party->acct->line.next;
    party->acct->line.next = index + 1;
    led__created(b, &line->pend, LED_CHANGE_LINE, index);
    led__last_change(b, &line->pend)->c = party->index;
    party->line = line;
    return RON_OK;
}

__attribute__((noinline)) static enum ron_rc open_further_line(struct ctx *c, struct party *party)
{
    struct led_book *b = c->b;
    struct led_line *line = &party->acct->line;
    struct led_change *change;
    uint32_t index;

    do {
        if (line->next == 0) {
            return new_line(c, party);
        }
        index = line->next - 1;
        line = led__line(b, index);
    } while (line->asset != c->asset + 1);
    change = led__save(b, &line->pend, LED_CHANGE_LINE, index);
    if (change != NULL) {
        change->a = line->available;
        change->b = line->held;
        change->c = party->index;
    }
    party->line = line;
    return RON_OK;
}

/* The balance of an open account in the asset of the entry, saved. */
static inline enum ron_rc open_line(struct ctx *c, struct party *party)
{
    struct led_line *line = &party->acct->line;

    if (party->line != NULL) {
        return RON_OK;
    }
    if (line->asset == 0) {
        line->asset = (uint16_t)(c->asset + 1);
    }
    if (RON_UNLIKELY(line->asset != c->asset + 1)) {
        return open_further_line(c, party);
    }
    party->line = line;
    return RON_OK;
}

/* ---- movements ------------------------------------------------------------------------------- */

static enum ron_rc take(struct ctx *c, struct party *party)
{
    RON_TRY(open_line(c, party));
    if (party->line->available < c->e->amount.v) {
        return refuse(c, LED_REASON_INSUFFICIENT_FUNDS, "amount", "more than is available");
    }
    party->line->available -= c->e->amount.v;
    return RON_OK;
}

static enum ron_rc give(struct ctx *c, struct party *party)
{
    struct led_line *line;

    RON_TRY(open_line(c, party));
    line = party->line;
    if (__builtin_add_overflow(line->available, c->e->amount.v, &line->available)) {
        line->available -= c->e->amount.v;
        return refuse(c, LED_REASON_CONFLICT, "amount", "the balance would pass 2^128 - 1");
    }
    return RON_OK;
}

static enum ron_rc change_supply(struct ctx *c, bool grow)
{
    struct led_asset *asset = led__asset(c->b, c->asset);
    struct led_change *change = led__save(c->b, &asset->pend, LED_CHANGE_ASSET, c->asset);
    ron_u128 supply;

    if (change != NULL) {
        change->a = asset->supply;
    }
    if (grow ? __builtin_add_overflow(asset->supply, c->e->amount.v, &supply)
             : __builtin_sub_overflow(asset->supply, c->e->amount.v, &supply)) {
        return refuse(c, LED_REASON_CONFLICT, "amount",
                      grow ? "the supply would pass 2^128 - 1" : "more than the supply");
    }
    asset->supply = supply;
    return RON_OK;
}

/* Notes one side of a movement whose other side is another entry of the batch. */
static enum ron_rc add_to_sum(struct ctx *c, bool credit)
{
    struct led_book *b = c->b;
    struct led_asset *asset = led__asset(b, c->asset);
    ron_u128 *sum = credit ? &asset->credits : &asset->debits;
    ron_u128 grown;

    if (asset->stamp != b->batch) {
        asset->stamp = b->batch;
        asset->credits = 0;
        asset->debits = 0;
        asset->sum_first = (uint32_t)c->idx;
        asset->sum_next = b->sum_assets;
        b->sum_assets = c->asset + 1;
    }
    if (__builtin_add_overflow(*sum, c->e->amount.v, &grown)) {
        return refuse(c, LED_REASON_CONFLICT, "amount", "the batch moves more than 2^128 - 1");
    }
    *sum = grown;
    return RON_OK;
}

/* ---- holds ----------------------------------------------------------------------------------- */

static enum ron_rc apply_hold(struct ctx *c)
{
    struct led_book *b = c->b;
    struct led_line *line;
    struct led_hold *hold;
    uint32_t index;
    enum ron_rc rc;

    if (led__find_hold(b, c->p->id) != LED_TABLE_NONE) {
        return refuse(c, LED_REASON_CONFLICT, "id", "a hold of that id is open");
    }
    RON_TRY(take(c, &c->account));
    line = c->account.line;
    if (__builtin_add_overflow(line->held, c->e->amount.v, &line->held)) {
        line->held -= c->e->amount.v;
        return refuse(c, LED_REASON_CONFLICT, "amount", "the balance would pass 2^128 - 1");
    }
    rc = led__new_hold(b, c->p->id, c->account.index, &index);
    if (rc != RON_OK) {
        return full(c, rc, "id", "too many open holds");
    }
    hold = led__hold(b, index);
    hold->remaining = c->e->amount.v;
    hold->expires_ms = c->e->expires_ms;
    hold->seq = c->in->seq_first + c->idx;
    hold->asset = (uint16_t)c->asset;
    hold->id_len = (uint8_t)c->e->id.len;
    memcpy(hold->id, c->e->id.ptr, c->e->id.len);
    led__created(b, &hold->pend, LED_CHANGE_HOLD, index);
    return led__heap_add(b, index);
}

static bool is_over(const struct ctx *c, const struct led_hold *hold)
{
    return hold->expires_ms != 0 && c->b->slices.now_ms >= hold->expires_ms;
}

/* The rules that Capture, Release and Expire share. */
static enum ron_rc check_hold(struct ctx *c, uint32_t index)
{
    const struct led_hold *hold;

    if (index == LED_TABLE_NONE) {
        return refuse(c, LED_REASON_NOT_FOUND, "ref", "no such hold is open");
    }
    hold = led__hold(c->b, index);
    if (hold->account != c->account.index) {
        return refuse(c, LED_REASON_CONFLICT, "account", "the hold is on another account");
    }
    if (hold->asset != c->asset) {
        return refuse(c, LED_REASON_CONFLICT, "asset", "the hold is in another asset");
    }
    if (c->e->kind == LED_KIND_EXPIRE) {
        if (!has_flag(c, LED_APPLY_REPLAY) && !is_over(c, hold)) {
            return refuse(c, LED_REASON_CONFLICT, "ref", "the hold has not expired");
        }
        if (hold->remaining != c->e->amount.v) {
            return refuse(c, LED_REASON_CONFLICT, "amount", "not what remains of the hold");
        }
    } else if (!has_flag(c, LED_APPLY_REPLAY) && is_over(c, hold)) {
        return refuse(c, LED_REASON_CONFLICT, "ref", "the hold has expired");
    }
    if (hold->remaining < c->e->amount.v) {
        return refuse(c, LED_REASON_INSUFFICIENT_FUNDS, "amount", "more than remains of the hold");
    }
    return RON_OK;
}

/* Takes the amount out of the hold `ref` and gives it to `target`. */
static enum ron_rc apply_end_of_hold(struct ctx *c, struct party *target)
{
    struct led_book *b = c->b;
    uint32_t index = led__find_hold(b, c->p->ref);
    struct led_change *change;
    struct led_hold *hold;
    struct led_line *line;

    RON_TRY(check_hold(c, index));
    hold = led__hold(b, index);
    change = led__save(b, &hold->pend, LED_CHANGE_HOLD, index);
    if (change != NULL) {
        change->a = hold->remaining;
    }
    hold->remaining -= c->e->amount.v;
    if (hold->remaining == 0) {
        led__heap_remove(b, index);
    }
    RON_TRY(open_line(c, &c->account));
    line = c->account.line;
    RON_ASSERT_MSG(line->held >= c->e->amount.v, "B4: a hold is more than what is held");
    line->held -= c->e->amount.v;
    return give(c, target);
}

/* ---- reversals ------------------------------------------------------------------------------- */

/* What the caller found, or an earlier entry of this batch. */
static const struct led_entry *find_original(const struct ctx *c)
{
    if (c->in->originals != NULL && c->in->originals[c->idx] != NULL) {
        return c->in->originals[c->idx];
    }
    for (size_t i = c->idx; i-- > 0;) {
        if (c->preps[i].id.a == c->p->ref.a && c->preps[i].id.b == c->p->ref.b) {
            return &c->in->entries[i];
        }
    }
    return NULL;
}

static enum ron_rc open_reversal(struct ctx *c, struct led_reversal **ret)
{
    struct led_book *b = c->b;
    uint32_t index = led__find_reversal(b, c->p->ref);
    struct led_reversal *r;
    struct led_change *change;
    blake3_hasher hasher;
    enum ron_rc rc;

    if (index != LED_TABLE_NONE) {
        r = led__reversal(b, index);
        change = led__save(b, &r->pend, LED_CHANGE_REVERSAL, index);
        if (change != NULL) {
            change->a = r->reversed;
        }
        *ret = r;
        return RON_OK;
    }
    rc = led_store_push(&b->reversals, &index);
    if (rc != RON_OK) {
        return full(c, rc, "ref", "too many reversals");
    }
    r = led__reversal(b, index);
    r->key = c->p->ref;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, c->e->ref.ptr, c->e->ref.len);
    blake3_hasher_finalize(&hasher, r->name, sizeof r->name);
    rc = led_table_add(&b->reversals_by_key, led__hash(r->key), index);
    if (rc != RON_OK) {
        led_store_pop(&b->reversals);
        return rc;
    }
    led__created(b, &r->pend, LED_CHANGE_REVERSAL, index);
    *ret = r;
    return RON_OK;
}

static enum ron_rc check_original(struct ctx *c, const struct led_entry *original)
{
    struct led_reversal *r = NULL;

    if (!ron_str_equal(original->account, c->e->account)) {
        return refuse(c, LED_REASON_CONFLICT, "account", "the entry is of another account");
    }
    if (!ron_str_equal(original->asset, c->e->asset)) {
        return refuse(c, LED_REASON_CONFLICT, "asset", "the entry is in another asset");
    }
    RON_TRY(open_reversal(c, &r));
    RON_ASSERT(r != NULL);
    if (r->reversed > original->amount.v || c->e->amount.v > original->amount.v - r->reversed) {
        return refuse(c, LED_REASON_CONFLICT, "amount", "more than is left of the entry");
    }
    r->reversed += c->e->amount.v;
    return RON_OK;
}

static enum ron_rc apply_reverse(struct ctx *c)
{
    const struct led_entry *original;

    if (!has_flag(c, LED_APPLY_REVERSIBLE) && !has_flag(c, LED_APPLY_REPLAY)) {
        return refuse(c, LED_REASON_POLICY_DENIED, "kind", "reversals are switched off");
    }
    original = find_original(c);
    if (original == NULL) {
        return refuse(c, LED_REASON_NOT_FOUND, "ref", "no such entry");
    }
    if (original->kind > LED_KIND_TRANSFER && original->kind != LED_KIND_CAPTURE) {
        return refuse(c, LED_REASON_CONFLICT, "ref", "an entry of that kind cannot be reversed");
    }
    RON_TRY(check_original(c, original));
    switch (original->kind) {
    case LED_KIND_MINT:
        RON_TRY(take(c, &c->account));
        return change_supply(c, false);
    case LED_KIND_BURN:
        RON_TRY(change_supply(c, true));
        return give(c, &c->account);
    case LED_KIND_CREDIT:
        RON_TRY(take(c, &c->account));
        return add_to_sum(c, false);
    case LED_KIND_DEBIT:
        RON_TRY(give(c, &c->account));
        return add_to_sum(c, true);
    default:
        break;
    }
    RON_TRY(open_account(c, led__key(c->b->opts.hash_key, original->to), original->to,
                         LED_TABLE_NONE, &c->to, &c->links->to.prev_seq));
    c->links->has_to = true;
    RON_TRY(take(c, &c->to));
    return give(c, &c->account);
}

/* ---- one entry ------------------------------------------------------------------------------- */

static enum ron_rc apply_kind(struct ctx *c)
{
    switch ((enum led_kind)c->e->kind) {
    case LED_KIND_MINT:
        RON_TRY(change_supply(c, true));
        return give(c, &c->account);
    case LED_KIND_BURN:
        RON_TRY(take(c, &c->account));
        return change_supply(c, false);
    case LED_KIND_CREDIT:
        RON_TRY(give(c, &c->account));
        return add_to_sum(c, true);
    case LED_KIND_DEBIT:
        RON_TRY(take(c, &c->account));
        return add_to_sum(c, false);
    case LED_KIND_TRANSFER:
        RON_TRY(take(c, &c->account));
        return give(c, &c->to);
    case LED_KIND_HOLD:
        return apply_hold(c);
    case LED_KIND_CAPTURE:
        return apply_end_of_hold(c, &c->to);
    case LED_KIND_RELEASE:
    case LED_KIND_EXPIRE:
        return apply_end_of_hold(c, &c->account);
    case LED_KIND_REVERSE:
        return apply_reverse(c);
    }
    RON_UNREACHABLE();
}

static enum ron_rc check_time(struct ctx *c)
{
    uint64_t now = c->b->slices.now_ms;

    if (has_flag(c, LED_APPLY_REPLAY)) {
        return RON_OK;
    }
    if (c->e->ts_ms > now + LED_FUTURE_MS) {
        return refuse(c, LED_REASON_INVALID, "ts", "lies in the future");
    }
    if (!has_flag(c, LED_APPLY_IMPORT) && c->e->ts_ms + c->b->opts.horizon_ms < now) {
        return refuse(c, LED_REASON_INVALID, "ts", "older than the horizon");
    }
    return RON_OK;
}

/* Two entries of one batch with the same id. The table is as large as this batch needs. */
static enum ron_rc check_id(struct ctx *c, uint32_t mask)
{
    uint64_t stamp = (uint64_t)(uint32_t)c->b->batch << 32;
    uint32_t at = (uint32_t)c->p->id.b & mask;

    while ((c->b->ids[at] & ~(uint64_t)UINT32_MAX) == stamp) {
        uint32_t other = (uint32_t)c->b->ids[at];

        if (other < c->idx && c->preps[other].id.a == c->p->id.a &&
            c->preps[other].id.b == c->p->id.b) {
            return refuse(c, LED_REASON_CONFLICT, "id", "stands twice in the batch");
        }
        at = (at + 1) & mask;
    }
    c->b->ids[at] = stamp | (uint32_t)c->idx;
    return RON_OK;
}

static enum ron_rc remember_nonce(struct ctx *c)
{
    struct led_book *b = c->b;
    bool again = has_flag(c, LED_APPLY_REPLAY) || has_flag(c, LED_APPLY_NONCE_AGAIN);
    bool is_new = false;

    RON_TRY(led__print_add(b, c->e->ts_ms, c->p->fingerprint, again, &is_new));
    if (!is_new && !again) {
        return refuse(c, LED_REASON_IDEM_MISMATCH, "nonce", "the account has used it already");
    }
    /* The set takes 0 for 1; the ring has 0 for what is not to be taken back. */
    b->ring.prints[b->ring.prints_head++ & (b->opts.undo_max - 1)] =
        is_new ? RON_MAX(c->p->fingerprint, (uint64_t)1) : 0;
    return RON_OK;
}

static bool is_frozen(const struct party *party)
{
    return (party->acct->line.flags & LED_ACCOUNT_FROZEN) != 0;
}

static enum ron_rc open_parties(struct ctx *c)
{
    const struct hint *hint = &c->hints[c->idx % AHEAD_SLOTS];
    bool free_to_move = has_flag(c, LED_APPLY_REPLAY) || c->e->kind == LED_KIND_REVERSE ||
                        c->e->kind == LED_KIND_EXPIRE;

    RON_TRY(open_account(c, c->p->account, c->e->account, hint->account, &c->account,
                         &c->links->account.prev_seq));
    if (c->e->to.len != 0) {
        RON_TRY(open_account(c, c->p->to, c->e->to, hint->to, &c->to, &c->links->to.prev_seq));
        c->links->has_to = true;
        if (!free_to_move && is_frozen(&c->to)) {
            return refuse(c, LED_REASON_POLICY_DENIED, "to", "the account is frozen");
        }
    }
    if (!free_to_move && is_frozen(&c->account)) {
        return refuse(c, LED_REASON_POLICY_DENIED, "account", "the account is frozen");
    }
    return RON_OK;
}

static enum ron_rc advance_account_nonce(struct ctx *c)
{
    struct led_acct *acct = c->account.acct;

    if (c->e->account_nonce == 0) {
        return RON_OK;
    }
    if (c->e->account_nonce - 1 != acct->nonce) {
        return refuse(c, LED_REASON_NONCE_CONFLICT, "account_nonce", "not the next one");
    }
    led__save_nonce(c->b, acct);
    acct->nonce = c->e->account_nonce;
    return RON_OK;
}

static enum ron_rc apply_entry(struct ctx *c, uint32_t id_mask)
{
    RON_TRY(check_time(c));
    RON_TRY(check_id(c, id_mask));
    RON_TRY(remember_nonce(c));
    RON_TRY(open_parties(c));
    RON_TRY(advance_account_nonce(c));
    RON_TRY(open_asset(c));
    return apply_kind(c);
}

/* The balance after the entry. Every kind opens the line of each side. */
static void note_after(const struct party *party, struct led_side *side)
{
    side->available.v = party->line->available;
    side->held.v = party->line->held;
}

/* ---- looking ahead --------------------------------------------------------------------------- */

static void ask_for_slots(const struct ctx *c, size_t i)
{
    const struct led_book *b = c->b;

    led_table_prefetch(&b->accounts_by_key, led__hash(c->preps[i].account));
    if (c->in->entries[i].to.len != 0) {
        led_table_prefetch(&b->accounts_by_key, led__hash(c->preps[i].to));
    }
    led__print_prefetch(b, c->preps[i].fingerprint);
}

static uint32_t ask_for_account(const struct led_book *b, struct led_key key, bool with_nonce)
{
    uint32_t index = led_table_peek(&b->accounts_by_key, led__hash(key));

    if (index != LED_TABLE_NONE) {
        const struct led_acct *acct = led__acct(b, index);

        __builtin_prefetch(&acct->line, 1);
        if (with_nonce) {
            __builtin_prefetch(&acct->nonce, 1);
        }
    }
    return index;
}

static void ask_for_records(struct ctx *c, size_t i)
{
    struct hint *hint = &c->hints[i % AHEAD_SLOTS];

    hint->account =
        ask_for_account(c->b, c->preps[i].account, c->in->entries[i].account_nonce != 0);
    if (c->in->entries[i].to.len != 0) {
        hint->to = ask_for_account(c->b, c->preps[i].to, false);
    }
    __builtin_prefetch(c->in->entries[i].asset.ptr);
}

static void ask_for_slots_of(const struct ctx *c, size_t from, size_t to)
{
    for (size_t i = from; i < RON_MIN(to, c->in->count); i++) {
        ask_for_slots(c, i);
    }
}

static void ask_for_records_of(struct ctx *c, size_t from, size_t to)
{
    for (size_t i = from; i < RON_MIN(to, c->in->count); i++) {
        ask_for_records(c, i);
    }
}

static void look_ahead_from_start(struct ctx *c)
{
    ask_for_slots_of(c, 0, AHEAD_SLOTS);
    ask_for_records_of(c, 0, AHEAD_RECORDS);
}

static inline void look_ahead(struct ctx *c)
{
    if (c->idx % AHEAD_STEP == 0) {
        ask_for_slots_of(c, c->idx + AHEAD_SLOTS, c->idx + AHEAD_SLOTS + AHEAD_STEP);
        ask_for_records_of(c, c->idx + AHEAD_RECORDS, c->idx + AHEAD_RECORDS + AHEAD_STEP);
    }
}

/* ---- the batch ------------------------------------------------------------------------------- */

static enum ron_rc check_sums(struct ctx *c)
{
    struct led_book *b = c->b;

    for (uint32_t next = b->sum_assets; next != 0;) {
        const struct led_asset *asset = led__asset(b, next - 1);

        if (asset->credits != asset->debits) {
            c->idx = asset->sum_first;
            return refuse(c, LED_REASON_INVALID, "amount", "credits and debits are not equal");
        }
        next = asset->sum_next;
    }
    return RON_OK;
}

static enum ron_rc apply_all(struct ctx *c)
{
    uint32_t slots = 16;

    while (slots < 2 * c->in->count) {
        slots *= 2;
    }
    look_ahead_from_start(c);
    for (size_t i = 0; i < c->in->count; i++) {
        c->idx = i;
        c->e = &c->in->entries[i];
        c->p = &c->preps[i];
        c->links = c->in->ret_links != NULL ? &c->in->ret_links[i] : &c->unasked;
        *c->links = (struct led_links){0};
        look_ahead(c);
        RON_TRY(apply_entry(c, slots - 1));
        note_after(&c->account, &c->links->account);
        if (c->links->has_to) {
            note_after(&c->to, &c->links->to);
        }
    }
    return check_sums(c);
}

static enum ron_rc check_room(const struct led_book *b, const struct led_apply *in)
{
    uint64_t changes = (uint64_t)in->count * LED_CHANGES_PER_ENTRY + 1;

    if (in->count == 0 || in->count > b->opts.batch_max) {
        return RON_LIMIT;
    }
    return b->ring.head - b->ring.tail + changes > b->opts.undo_max ||
                   b->ring.prints_head - b->ring.prints_tail + in->count > b->opts.undo_max
               ? RON_FULL
               : RON_OK;
}

enum ron_rc led_book_apply(struct led_book *b, const struct led_apply *in,
                           struct led_outcome *ret_outcome)
{
    struct led_refusal refusal = {0};
    struct ctx c = {.b = b, .in = in, .preps = in->preps, .refusal = &refusal};
    uint64_t undo_mark = b->ring.head;
    uint64_t prints_mark = b->ring.prints_head;
    enum ron_rc rc;

    RON_TRY(check_room(b, in));
    if (in->preps == NULL) {
        for (size_t i = 0; i < in->count; i++) {
            led_book_prepare(b->opts.hash_key, &in->entries[i], &b->preps[i]);
        }
        c.preps = b->preps;
    }
    led__advance(b, in->now_ms);
    b->ring.mark = b->ring.head;
    b->batch++;
    b->batch += (uint32_t)b->batch == 0; /* 0 would match changes and slots that were never used. */
    b->sum_assets = 0;
    rc = apply_all(&c);
    if (rc != RON_OK || (in->flags & LED_APPLY_DRY_RUN) != 0) {
        led__roll_back(b, undo_mark, prints_mark);
    } else {
        led__end_batch(b, in->seq_first + in->count - 1, in->count);
    }
    if (rc != RON_OK && rc != RON_CONFLICT) {
        return rc;
    }
    ret_outcome->accepted = rc == RON_OK;
    ret_outcome->refusal = refusal;
    return RON_OK;
}
