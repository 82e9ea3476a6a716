/* SPDX-License-Identifier: Apache-2.0 */
/* led_book_undo.c - the ring of changes: how a batch is taken back or becomes final.
 * led_book_priv.h draws the ring. Taking back goes from the newest change to the oldest, so records
 * that were created last are the last of their store and can be popped. */
#include "led_book_priv.h"
#include "ron/base/assert.h"

enum { AHEAD = 12 }; /* changes: a miss of the cache takes as long as finishing so many */

static struct led_change *change_at(const struct led_book *b, uint64_t position)
{
    return &b->undo[position & (b->opts.undo_max - 1)];
}

/* A ring position as a link; 0 is no link. */
static uint32_t link_of(const struct led_book *b, uint64_t position)
{
    return (uint32_t)(position & (b->opts.undo_max - 1)) + 1;
}

static struct led_change *push(struct led_book *b, enum led_change_kind kind, uint32_t index)
{
    struct led_change *change = change_at(b, b->undo_head);

    RON_ASSERT(b->undo_head - b->undo_tail < b->opts.undo_max);
    *change = (struct led_change){.kind = (uint8_t)kind, .index = index};
    b->undo_head++;
    return change;
}

/* The change to fill with the values of now, or NULL when this batch has kept them already. */
struct led_change *led__save(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                             uint32_t index)
{
    struct led_change *change;

    /* Between the beginning of the batch and the head of the ring, going round. */
    if (pend->last != 0 &&
        ((pend->last - 1 - b->undo_mark) & (b->opts.undo_max - 1)) < b->undo_head - b->undo_mark) {
        return NULL;
    }
    change = push(b, kind, index);
    change->prev = pend->last;
    if (pend->last != 0) {
        b->undo[pend->last - 1].next = link_of(b, b->undo_head - 1);
    } else {
        pend->first = link_of(b, b->undo_head - 1);
    }
    pend->last = link_of(b, b->undo_head - 1);
    return change;
}

void led__created(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                  uint32_t index)
{
    struct led_change *change = led__save(b, pend, kind, index);

    RON_ASSERT(change != NULL);
    change->created = true;
}

/* Before the nonce of an account changes that this batch has saved: its change keeps it too. */
void led__save_nonce(struct led_book *b, struct led_acct *acct)
{
    struct led_change *change = &b->undo[acct->line.pend.last - 1];

    if (!change->keeps_nonce) {
        change->c = acct->nonce;
        change->keeps_nonce = true;
    }
}

bool led__is_uncommitted(const struct led_book *b, const struct led_acct *acct)
{
    uint32_t link = acct->line.pend.first;

    return link != 0 && b->undo[link - 1].created;
}

/* The one from before the first batch in the ring that changed it. */
uint64_t led__committed_nonce(const struct led_book *b, const struct led_acct *acct)
{
    uint32_t link = acct->line.pend.first;

    while (link != 0 && !b->undo[link - 1].keeps_nonce) {
        link = b->undo[link - 1].next;
    }
    return link != 0 ? b->undo[link - 1].c : acct->nonce;
}

void led__end_batch(struct led_book *b, uint64_t seq_last, uint64_t prints)
{
    struct led_change *end = push(b, LED_CHANGE_END, 0);

    end->c = seq_last;
    end->d = prints;
    b->pending++;
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void unlink_newest(struct led_book *b, struct led_pend *pend,
                          const struct led_change *change)
{
    pend->last = change->prev;
    if (change->prev != 0) {
        b->undo[change->prev - 1].next = 0;
    } else {
        pend->first = 0;
    }
}

static void undo_account(struct led_book *b, const struct led_change *change)
{
    struct led_acct *acct = led__acct(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->accounts.count - 1);
        led_table_remove(&b->accounts_by_key, (uint32_t)(acct->key_a >> 32), change->index);
        led__pop_account(b);
        return;
    }
    unlink_newest(b, &acct->line.pend, change);
    acct->line.available = change->a;
    acct->line.held = change->b;
    acct->line.asset = change->asset;
    if (change->keeps_nonce) {
        acct->nonce = change->c;
    }
    acct->last_seq = change->d;
}

static void undo_line(struct led_book *b, const struct led_change *change)
{
    struct led_line *line = led__line(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->lines.count - 1);
        led__acct(b, (uint32_t)change->c)->line.next = line->next;
        led_store_pop(&b->lines);
        return;
    }
    unlink_newest(b, &line->pend, change);
    line->available = change->a;
    line->held = change->b;
}

static void undo_asset(struct led_book *b, const struct led_change *change)
{
    struct led_asset *asset = led__asset(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->assets.count - 1);
        led_store_pop(&b->assets);
        return;
    }
    unlink_newest(b, &asset->pend, change);
    asset->supply = change->a;
}

static void undo_hold(struct led_book *b, const struct led_change *change)
{
    struct led_hold *hold = led__hold(b, change->index);

    if (change->created) {
        led__free_hold(b, change->index);
        return;
    }
    unlink_newest(b, &hold->pend, change);
    if (hold->remaining == 0 && change->a != 0) {
        enum ron_rc rc = led__heap_add(b, change->index);

        RON_ASSERT(rc == RON_OK); /* Its place in the heap was not given to memory. */
    }
    hold->remaining = change->a;
}

static void undo_reversal(struct led_book *b, const struct led_change *change)
{
    struct led_reversal *r = led__reversal(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->reversals.count - 1);
        led_table_remove(&b->reversals_by_key, led__hash(r->key), change->index);
        led_store_pop(&b->reversals);
        return;
    }
    unlink_newest(b, &r->pend, change);
    r->reversed = change->a;
}

static void undo_change(struct led_book *b, const struct led_change *change)
{
    switch ((enum led_change_kind)change->kind) {
    case LED_CHANGE_ACCOUNT:
        undo_account(b, change);
        return;
    case LED_CHANGE_LINE:
        undo_line(b, change);
        return;
    case LED_CHANGE_ASSET:
        undo_asset(b, change);
        return;
    case LED_CHANGE_HOLD:
        undo_hold(b, change);
        return;
    case LED_CHANGE_REVERSAL:
        undo_reversal(b, change);
        return;
    case LED_CHANGE_END:
        b->pending--;
        return;
    }
    RON_UNREACHABLE();
}

void led__roll_back(struct led_book *b, uint64_t undo_mark, uint64_t prints_mark)
{
    while (b->undo_head > undo_mark) {
        b->undo_head--;
        undo_change(b, change_at(b, b->undo_head));
    }
    while (b->prints_head > prints_mark) {
        uint64_t print = b->prints[--b->prints_head & (b->opts.undo_max - 1)];

        if (print != 0) {
            led__print_forget(b, print);
        }
    }
    b->asset_last = 0;
}

void led_book_abort(struct led_book *b)
{
    led__roll_back(b, b->undo_tail, b->prints_tail);
    RON_ASSERT(b->pending == 0);
}

/* ---- becoming final -------------------------------------------------------------------------- */

static struct led_pend *pend_of(const struct led_book *b, const struct led_change *change)
{
    switch ((enum led_change_kind)change->kind) {
    case LED_CHANGE_ACCOUNT:
        return &led__acct(b, change->index)->line.pend;
    case LED_CHANGE_LINE:
        return &led__line(b, change->index)->pend;
    case LED_CHANGE_ASSET:
        return &led__asset(b, change->index)->pend;
    case LED_CHANGE_HOLD:
        return &led__hold(b, change->index)->pend;
    case LED_CHANGE_REVERSAL:
        return &led__reversal(b, change->index)->pend;
    case LED_CHANGE_END:
        break;
    }
    RON_UNREACHABLE();
}

/* The oldest change of its record leaves the ring. */
static void finish_change(struct led_book *b, const struct led_change *change)
{
    struct led_pend *pend = pend_of(b, change);

    pend->first = change->next;
    if (change->next != 0) {
        b->undo[change->next - 1].prev = 0;
    } else {
        pend->last = 0;
        if (change->kind == LED_CHANGE_HOLD && led__hold(b, change->index)->remaining == 0) {
            led__free_hold(b, change->index);
        }
    }
}

/* Asks for the account of a change that comes soon. */
static inline void look_ahead(const struct led_book *b)
{
    const struct led_change *change = change_at(b, b->undo_tail + AHEAD);

    __builtin_prefetch(change_at(b, b->undo_tail + 2 * (uint64_t)AHEAD));
    if (b->undo_tail + AHEAD < b->undo_head && change->kind == LED_CHANGE_ACCOUNT) {
        const struct led_acct *acct = led__acct(b, change->index);

        __builtin_prefetch(&acct->line.pend, 1);
        if (b->image != NULL) {
            __builtin_prefetch(&acct->name);
        }
    }
}

uint64_t led_book_commit(struct led_book *b)
{
    const struct led_change *change;

    RON_ASSERT(b->pending > 0);
    for (;;) {
        look_ahead(b);
        change = change_at(b, b->undo_tail++);
        if (change->kind == LED_CHANGE_END) {
            break;
        }
        if (RON_UNLIKELY(b->image != NULL)) {
            led__image_keep(b, change);
        }
        finish_change(b, change);
    }
    b->committed_seq = change->c;
    b->prints_tail += change->d;
    b->pending--;
    if (b->pending == 0) {
        /* Start again at the front, so that a lightly loaded ring stays in the cache. */
        RON_ASSERT(b->undo_tail == b->undo_head);
        b->undo_tail = b->undo_head = 0;
        b->prints_tail = b->prints_head = 0;
    }
    return change->c;
}
